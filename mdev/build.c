// SPDX-License-Identifier: GPL-2.0
/*
 * A build (dlend_memory_build() of memory.h): makes the windows of one member stand, in stages.
 *
 *	settle	wait until VFIO is through with what it unmaps
 *	probe	find and pin RAM, where it may have come	-> search.c, prober.c, pin.c
 *	part	what does not stand any more goes		-> loss.c, tell.c
 *	form	decide which extents are new			-> books.c
 *	map	map all that is pinned in the aperture		-> ram_map.c
 *	tell	have the lender map what it does not have	-> tell.c
 *
 * A build is for all members.  Memory that is pinned and mapped already stays so.  All lenders that
 * know of something are told when it is gone.  Only this member's lender is told what is new; if
 * there is something new for others, they are asked to build as well, and find it standing.
 *
 * Each stage gives way to a loss of memory meanwhile (-EAGAIN): then all pins stay, and the caller
 * builds again.  See ram.h for the locks.
 *
 * Must not know the device's BARs, configuration space or interrupts, nor when windows are wanted.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/vfio.h>

#include "loss.h"
#include "members.h"
#include "ram_map.h"
#include "report.h"
#include "search.h"
#include "tell.h"
#include "trace.h"

/* How long a build waits for VFIO to be through, at most, in turns of DLEND_TURN_MS. */
#define DLEND_SETTLE_TURNS	40u

/* The most probes of one build, as long as each probe finds something new. */
#define DLEND_PROBES_MAX	4

/* More repairs than this in that time are not the work of firmware. */
#define DLEND_REPAIRS_MAX	128
#define DLEND_REPAIRS_SECS	10

static unsigned int vm_window_percent = 100;
module_param(vm_window_percent, uint, 0644);
MODULE_PARM_DESC(vm_window_percent, "how much of a window the RAM of one VM may take");

/* Settle */

/* Did a dma_unmap take something a moment ago?  VFIO may be about to call the next device. */
static bool dlend_build_unsettled(const struct dlend_ram *ram)
{
	return READ_ONCE(ram->unmapping) ||
	       time_before(jiffies,
			   READ_ONCE(ram->last_loss) + msecs_to_jiffies(DLEND_SETTLE_MS));
}

/*
 * If VFIO is still unmapping, it would disturb this build at once.  So wait, but not for ever:
 * where nothing may be pinned yet, dlend_pin_begin() sees to that.
 */
static void dlend_build_settle(const struct dlend_memory *mem)
{
	const struct dlend_ram *ram = mem->ram;
	unsigned int turns = DLEND_SETTLE_TURNS;

	while (turns-- && READ_ONCE(ram->ap) && !mem->ops->stop(mem->ctx) &&
	       dlend_build_unsettled(ram))
		msleep(DLEND_TURN_MS);
}

/* Count builds that repair a loss.  Too many are not the work of firmware, and would never end. */
static int dlend_build_count_repair(struct dlend_memory *mem)
{
	lockdep_assert_held(&mem->ram->lock);
	if (mem->ram->lost == mem->build_lost)
		return 0;
	mem->stat.rebuilds++;
	if (time_after(jiffies, mem->repairs_since + DLEND_REPAIRS_SECS * HZ)) {
		mem->repairs_since = jiffies;
		mem->repairs = 0;
	}
	return ++mem->repairs > DLEND_REPAIRS_MAX ? -EOPNOTSUPP : 0;
}

/*
 * The most that may be pinned.  VFIO sees to what a VMM may lock, but iommufd counts a page once,
 * wherever and how often a guest has it; and a part of the window is in use for holes, too.
 */
static u64 dlend_build_most(const struct dlend_memory *mem)
{
	struct dlend_aperture_stat st;

	dlend_aperture_stat(mem->ram->ap, &st);
	return min(mult_frac(st.size, min(READ_ONCE(vm_window_percent), 100u), 100),
		   dlend_vmm_lockable(&mem->vmm));
}

static int dlend_build_begin(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	int err = -ENOTCONN;

	mutex_lock(&ram->lock);
	if (ram->ap && dlend_session_live(&ram->session)) {
		err = mem->closed ? -EAGAIN : dlend_build_count_repair(mem);
		mem->build = ++ram->build;
		mem->build_lost = ram->lost;
		ram->books.most = dlend_build_most(mem);
		mem->pinned_most = ram->books.pinned_bytes;
		mem->fenced = false;
		if (!err)
			dlend_members_use(mem, true);
	}
	trace_dlend_window(mem->vdev->dev, "build", ram->books.pinned_bytes, err);
	mutex_unlock(&ram->lock);
	if (err == -EOPNOTSUPP)
		dlend_report_err(mem, "guest memory changes all the time (%u times in %u s): is there a virtual IOMMU in the guest? It cannot be used with a borrowed device",
				 DLEND_REPAIRS_MAX, DLEND_REPAIRS_SECS);
	return err;
}

/* Probe */

/* Is all back that was lost, or has it had the time to come back? */
static int dlend_build_await_lost(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	u64 missing, now = dlend_ram_now_ms();
	int err = 0;

	mutex_lock(&ram->lock);
	missing = dlend_books_missing(&ram->books, now);
	if (missing) {
		err = -EAGAIN;
		mem->stat.waits++;
		trace_dlend_window(mem->vdev->dev, "missing", missing, err);
	} else {
		dlend_books_accept(&ram->books, now);
	}
	mutex_unlock(&ram->lock);
	return err;
}

/*
 * Pinning takes seconds, and nobody says when memory that is not pinned comes or goes.  So a build
 * looks again at all holes after it has pinned something.  That costs some thousand calls, which
 * fail at once.
 */
static int dlend_build_probe(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	unsigned int probes = 0;
	u64 had;
	int err;

	mem->pin_err = 0;
	do {
		had = READ_ONCE(ram->books.pinned_bytes);
		err = dlend_search_run(mem);
	} while (!err && READ_ONCE(ram->books.pinned_bytes) != had &&
		 ++probes < DLEND_PROBES_MAX);
	if (!err)
		return dlend_build_await_lost(mem);
	if (err == -EINTR)
		return -EAGAIN;
	dlend_report_probe(mem, err);
	return err;
}

/* Form */

/* What does not stand any more goes, as far as lenders are concerned, too. */
static int dlend_build_part(struct dlend_memory *mem)
{
	int err;

	dlend_loss_settle(mem->ram);
	err = dlend_tell_gone(mem->ram, mem);
	if (err)
		dlend_report_err(mem, "lender did not unmap what is gone: error %d", err);
	return err;
}

static int dlend_build_form(struct dlend_memory *mem)
{
	struct mem_cgroup *before = dlend_vmm_charge(&mem->vmm);
	int err;

	mutex_lock(&mem->ram->lock);
	err = dlend_memory_disturbed(mem) ? -EAGAIN :
					    dlend_books_form(&mem->ram->books, mem->build);
	mutex_unlock(&mem->ram->lock);
	dlend_vmm_charged(before);
	if (err && err != -EAGAIN)
		dlend_report_probe(mem, err);
	return err;
}

/* Map */

/* A run at a time, so that a dma_unmap never waits long for ram->lock. */
static int dlend_build_map(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	ktime_t start = ktime_get();
	u64 gpa = 0;
	int ret;

	do {
		mutex_lock(&ram->lock);
		ret = dlend_memory_disturbed(mem) || dlend_members_fenced(ram) ?
		      -EAGAIN : dlend_ram_map_next(ram, &mem->vmm, &gpa);
		if (ret > 0)
			dlend_members_progress(ram);
		mutex_unlock(&ram->lock);
		cond_resched();
	} while (ret > 0);
	mem->stat.map_us += ktime_us_delta(ktime_get(), start);
	if (ret == -ENOSPC)
		dlend_report_window(mem);
	return ret;
}

/* Tell */

static int dlend_build_tell(struct dlend_memory *mem)
{
	int err = dlend_tell_new(mem);

	if (err && err != -EAGAIN)
		dlend_report_err(mem, "lender did not map guest memory: error %d", err);
	return err;
}

/* End */

/* Do the windows stand, and do others have to build for what is new? */
static int dlend_build_finish(struct dlend_memory *mem)
{
	bool grown = false, translated = dlend_search_translated(mem);
	struct dlend_ram *ram = mem->ram;
	int err = 0;

	mutex_lock(&ram->lock);
	/* No RAM at all: the VMM has not mapped it yet (iommufd), or is about to map it again. */
	if (dlend_memory_disturbed(mem) || translated || !ram->books.chunks)
		err = -EAGAIN;
	else
		mem->reason[0] = '\0';
	/* Whoever has been told that RAM comes waits until this build is over, and builds then. */
	if (!err && !mem->announced)
		grown = dlend_tell_others_due(mem);
	mutex_unlock(&ram->lock);
	if (grown)
		dlend_members_grow(ram, mem);
	return err;
}

static bool dlend_build_untold(const struct dlend_extent *extent, u32 unused)
{
	return !dlend_told_anybody(&extent->told);
}

/*
 * The layout has changed.  All pins stay.  Extents that no lender has heard of leave the books: the
 * next build may form others.
 */
static void dlend_build_postpone(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	LIST_HEAD(gone);

	mutex_lock(&ram->lock);
	dlend_books_kill_all(&ram->books, dlend_build_untold, 0, &gone);
	dlend_ram_map_retire(ram, &gone);
	mutex_unlock(&ram->lock);
}

/* Another device's build, or its look, takes as long as this one, and does not give way. */
static int dlend_build_lock(struct dlend_memory *mem, struct mutex *lock)
{
	while (!mutex_trylock(lock)) {
		if (mem->ops->stop(mem->ctx) || READ_ONCE(mem->closed))
			return -EAGAIN;
		if (!READ_ONCE(mem->ram->ap))
			return -ENOTCONN;
		msleep(DLEND_TURN_MS);
	}
	return 0;
}

static int dlend_build_run(struct dlend_memory *mem)
{
	int err = dlend_build_lock(mem, &mem->ram->search_lock);

	if (!err) {
		err = dlend_build_probe(mem);
		mutex_unlock(&mem->ram->search_lock);
	}
	if (!err)
		err = dlend_build_part(mem);
	if (!err)
		err = dlend_build_form(mem) ?: dlend_build_map(mem);
	if (!err)
		err = dlend_build_tell(mem);
	if (!err)
		err = dlend_build_finish(mem);
	/* A message that failed because the link went down says nothing about the layout. */
	if (err && !READ_ONCE(mem->ram->ap))
		err = -ENOTCONN;
	if (err == -EAGAIN)
		dlend_build_postpone(mem);
	else if (err)
		dlend_loss_undo(mem);
	return err;
}

int dlend_memory_build(struct dlend_memory *mem, u32 how)
{
	struct dlend_ram *ram = mem->ram;
	ktime_t start = ktime_get();
	u64 calls;
	int err;

	err = dlend_build_lock(mem, &ram->build_lock);
	if (err)
		return err;
	calls = mem->stat.pin_calls;
	dlend_build_settle(mem);
	err = dlend_build_begin(mem);
	if (!err) {
		dlend_search_begin(mem, how);
		err = dlend_build_run(mem);
		dlend_search_end(mem, err);
		mem->stat.last_build_us = ktime_us_delta(ktime_get(), start);
		mem->stat.last_build_calls = mem->stat.pin_calls - calls;
	}
	trace_dlend_window(mem->vdev->dev, err ? "failed" : "standing",
			   READ_ONCE(ram->books.pinned_bytes), err);
	mutex_unlock(&ram->build_lock);
	return err;
}
