// SPDX-License-Identifier: GPL-2.0
/*
 * A build (dlend_memory_build() of memory.h): makes the windows of one member stand, in stages.
 *
 *	settle	wait until VFIO is through with what it unmaps
 *	find	find and pin RAM, where it may have come	-> search.c, prober.c, pin.c
 *	part	what does not stand any more goes		-> map.c
 *	map	map all that is pinned in the aperture		-> map.c, books.c
 *	tell	have the lender map what it does not have	-> map.c
 *
 * A build is for all members.  Memory that is pinned and mapped already stays so.  All lenders that
 * know of an extent are told when it is gone.  Only this member's lender is told of new extents; if
 * these are new to others, too, they are asked to build, and find them standing.
 *
 * Each stage gives way to a loss of memory (-EAGAIN): then all pins stay, and the caller builds
 * again.  See ram.h for the locks.
 *
 * Must not know the device's BARs, configuration space or interrupts, nor when windows are wanted.
 */
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/vfio.h>

#include "ram.h"
#include "trace.h"

/* Words and numbers for people */

#define DLEND_KIB_SHIFT	10
#define DLEND_MIB_SHIFT	20

static void dlend_report_err(struct dlend_memory *mem, const char *fmt, ...) __printf(2, 3);

static void dlend_report_err(struct dlend_memory *mem, const char *fmt, ...)
{
	char was[DLEND_REASON_LEN];
	va_list args;

	guard(mutex)(&mem->ram->lock);
	strscpy(was, mem->reason, sizeof(was));
	va_start(args, fmt);
	vscnprintf(mem->reason, sizeof(mem->reason), fmt, args);
	va_end(args);
	if (strcmp(was, mem->reason))
		dev_err_ratelimited(mem->vdev->dev, "DMA windows: %s\n", mem->reason);
}

static void dlend_report_window(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_aperture_stat st;
	u64 bytes, most;

	mutex_lock(&ram->lock);
	bytes = ram->books.pinned_bytes;
	most = ram->books.most;
	st = dlend_aperture_stat(ram->ap);
	mutex_unlock(&ram->lock);
	dlend_report_err(mem, "window full: guest RAM is at least %llu MiB, of the window's %llu MiB this VM may have %llu and %llu are free (largest piece %llu), %llu in quarantine: give the guest less RAM, or the NTB a larger window",
			 bytes >> DLEND_MIB_SHIFT, st.size >> DLEND_MIB_SHIFT,
			 most >> DLEND_MIB_SHIFT, st.free >> DLEND_MIB_SHIFT,
			 st.largest_free >> DLEND_MIB_SHIFT, st.quarantined >> DLEND_MIB_SHIFT);
}

static void dlend_report_probe(struct dlend_memory *mem, int err)
{
	struct dlend_ram *ram = mem->ram;
	u64 most = READ_ONCE(ram->books.most), limit = dlend_vmm_lockable(&mem->vmm);
	u64 kib = (err == -EDQUOT ? most : READ_ONCE(ram->books.pinned_bytes)) >> DLEND_KIB_SHIFT;

	if (err == -EDQUOT && limit > most) {
		dlend_report_window(mem);
	} else if (err == -ENOMEM && mem->pin_err == -ENOMEM &&
		   limit >= (kib << DLEND_KIB_SHIFT) + DLEND_CHUNK_BYTES) {
		/* If the VMM has locked nothing else, it may lock more. */
		dlend_report_err(mem, "no memory for more than %llu KiB of guest RAM, which is below the memlock limit: the VMM's memory cgroup is full (systemd MemoryMax=, a container's limit), or this host is",
				 kib);
	} else if (err == -EDQUOT || (err == -ENOMEM && mem->pin_err == -ENOMEM)) {
		dlend_report_err(mem, "memlock limit (%llu KiB) too low for more than %llu KiB of guest RAM: raise RLIMIT_MEMLOCK of the VMM (ulimit -l, systemd LimitMEMLOCK=, libvirt memtune hard_limit)",
				 limit >> DLEND_KIB_SHIFT, kib);
	} else if (err == -ENOMEM) {
		dlend_report_err(mem, "host is out of memory after %llu KiB of guest RAM, or the VMM's memory cgroup is full",
				 kib);
	} else if (err == -EACCES) {
		dlend_report_err(mem, "the VMM maps its memory by a VFIO container of version 1, in which none can be pinned: it must use VFIO_TYPE1v2_IOMMU or /dev/iommu (QEMU and others do)");
	} else if (err == -EFAULT) {
		dlend_report_err(mem, "guest RAM at %#llx cannot be pinned for long: there are too few free huge pages for it (HugePages_Free in /proc/meminfo), or it is in a file on a disk, in DAX or secret memory, or its VMM serves it page by page (userfaultfd, as for postcopy); give the guest anonymous memory, memfd, or a file in tmpfs or hugetlbfs",
				 mem->unpinnable);
	} else {
		dlend_report_err(mem, "guest RAM cannot be pinned, error %d after %llu KiB: is its backing pinnable (no device memory, no file system DAX)?",
				 err, kib);
	}
}

void dlend_memory_why(struct dlend_memory *mem, int err, char *why, size_t len)
{
	bool translated = err == -EAGAIN && dlend_search_translated(mem);

	guard(mutex)(&mem->ram->lock);
	if (err != -EAGAIN)
		strscpy(why, mem->reason, len);
	else if (dlend_members_fenced(mem->ram))
		strscpy(why,
			"another device of the VM was to stop, and its lender has not stopped it; memory is mapped after that",
			len);
	else if (translated)
		strscpy(why,
			"the VM has a virtual IOMMU, which a borrowed device cannot have: attach the device, and pass it through; RAM at address 0 was not mapped for it",
			len);
}

u64 dlend_memory_pinned(const struct dlend_memory *mem)
{
	return READ_ONCE(mem->ram->books.pinned_bytes);
}

void dlend_memory_stat(struct dlend_memory *mem, struct dlend_memory_stat *st)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_aperture_stat ap;

	guard(mutex)(&ram->lock);
	ap = dlend_aperture_stat(ram->ap);
	*st = mem->stat;
	st->pinned_bytes = ram->books.pinned_bytes;
	st->own_bytes = dlend_books_owned(&ram->books, mem);
	st->book_bytes = dlend_books_bytes(&ram->books);
	st->sharers = ram->users;
	st->wakeups = READ_ONCE(ram->vm->wakeups);
	st->pages_4k = ap.pages.n4k;
	st->pages_2m = ap.pages.n2m;
	st->pages_1g = ap.pages.n1g;
}

void dlend_memory_show(struct dlend_memory *mem, struct seq_file *m)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent;
	u64 gpa = 0;

	guard(mutex)(&ram->lock);
	seq_puts(m, "# gpa size prot offset\n");
	if (mem->reason[0])
		seq_printf(m, "# failed: %s\n", mem->reason);
	while ((extent = dlend_books_walk(&ram->books, &gpa)))
		seq_printf(m, "%#014llx %#012llx %c%c %#012llx pinned=%llu %s\n",
			   extent->gpa, extent->size, extent->prot & DLEND_PROT_READ ? 'r' : '-',
			   extent->prot & DLEND_PROT_WRITE ? 'w' : '-', extent->offset,
			   extent->pinned,
			   dlend_told_member(&extent->told, mem->id) ? "told" : "new");
}

/* How long a build waits for VFIO to be through, at most, in turns of DLEND_TURN_MS. */
#define DLEND_SETTLE_TURNS	40u

/* More repairs than this in that time are not the work of firmware. */
#define DLEND_REPAIRS_MAX	128
#define DLEND_REPAIRS_SECS	10

static unsigned int vm_window_percent = 100;
module_param(vm_window_percent, uint, 0644);
MODULE_PARM_DESC(vm_window_percent, "how much of a window the RAM of one VM may take");

/* Settle */

/*
 * If VFIO is still unmapping, or about to call the next device, it would disturb this build at
 * once.  So wait, but not for ever: where nothing may be pinned yet, dlend_pin_begin() sees to
 * that.
 */
static void dlend_build_settle(const struct dlend_memory *mem)
{
	unsigned int turns = DLEND_SETTLE_TURNS;

	while (turns-- && READ_ONCE(mem->ram->ap) && !dlend_memory_user->stop(mem->v) &&
	       dlend_pin_unmaps_under_way(mem->ram->vm))
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
	struct dlend_aperture_stat st = dlend_aperture_stat(mem->ram->ap);

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

/* Find */

/* Another device's build, or its look, takes as long as this one, and does not give way. */
static int dlend_build_lock(struct dlend_memory *mem, struct mutex *lock)
{
	while (!mutex_trylock(lock)) {
		if (dlend_memory_user->stop(mem->v) || READ_ONCE(mem->closed))
			return -EAGAIN;
		if (!READ_ONCE(mem->ram->ap))
			return -ENOTCONN;
		msleep(DLEND_TURN_MS);
	}
	return 0;
}

/* Is all back that was lost, or has it had the time to come back? */
static int dlend_build_await_lost(struct dlend_memory *mem)
{
	struct dlend_books *books = &mem->ram->books;
	u64 missing, now = dlend_ram_now_ms();

	guard(mutex)(&mem->ram->lock);
	missing = dlend_books_missing(books, now);
	if (!missing) {
		dlend_books_accept(books, now);
		return 0;
	}
	mem->stat.waits++;
	trace_dlend_window(mem->vdev->dev, "missing", missing, -EAGAIN);
	return -EAGAIN;
}

static int dlend_build_find(struct dlend_memory *mem, u32 how)
{
	int err = dlend_build_lock(mem, &mem->ram->search_lock);

	if (err)
		return err;
	err = dlend_search_run(mem, how);
	mutex_unlock(&mem->ram->search_lock);
	if (!err)
		return dlend_build_await_lost(mem);
	if (err == -EINTR)
		return -EAGAIN;
	dlend_report_probe(mem, err);
	return err;
}

/* Part, map, tell */

static int dlend_build_part(struct dlend_memory *mem)
{
	int err = dlend_map_part(mem);

	if (err)
		dlend_report_err(mem, "lender did not unmap what is gone: error %d", err);
	return err;
}

static int dlend_build_map(struct dlend_memory *mem)
{
	int err = dlend_map_new(mem);

	if (err == -ENOSPC)
		dlend_report_window(mem);
	else if (err == -EDQUOT || err == -ENOMEM)
		dlend_report_probe(mem, err);
	return err;
}

static int dlend_build_tell(struct dlend_memory *mem)
{
	int err = dlend_map_tell(mem);

	if (err && err != -EAGAIN)
		dlend_report_err(mem, "lender did not map guest memory: error %d", err);
	return err;
}

/* End */

/* Do the windows stand, and do others have to build for new extents? */
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
		grown = dlend_map_others_due(mem);
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

	guard(mutex)(&ram->lock);
	dlend_books_kill_all(&ram->books, dlend_build_untold, 0, &gone);
	dlend_ram_map_retire(ram, &gone);
}

static int dlend_build_run(struct dlend_memory *mem, u32 how)
{
	int err = dlend_build_find(mem, how) ?: dlend_build_part(mem) ?: dlend_build_map(mem) ?:
		  dlend_build_tell(mem) ?: dlend_build_finish(mem);

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
	u64 calls;
	int err;

	dlend_search_watch(mem);
	err = dlend_build_lock(mem, &ram->build_lock);
	if (err)
		return err;
	calls = mem->stat.pin_calls;
	dlend_build_settle(mem);
	err = dlend_build_begin(mem);
	if (!err) {
		err = dlend_build_run(mem, how);
		dlend_search_end(mem, err);
		mem->stat.last_build_calls = mem->stat.pin_calls - calls;
	}
	trace_dlend_window(mem->vdev->dev, err ? "failed" : "standing",
			   READ_ONCE(ram->books.pinned_bytes), err);
	mutex_unlock(&ram->build_lock);
	return err;
}
