// SPDX-License-Identifier: GPL-2.0
/*
 * A guest's memory comes and goes while its device is borrowed: who tells of it, and what the vdev
 * does then.
 *
 * Memory that comes: the vdev follows KVM's memory slots (memslots.c).  Every few milliseconds it
 * looks into holes of these slots, into which virtio-mem plugs memory and tells nobody.  Now and
 * then it looks everywhere.  Memory that goes: VFIO tells (dma_unmap).  Besides, other devices of
 * the VM tell what they do to the windows that they share with this one (struct dlend_memory_ops).
 */
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/sysfs.h>
#include "condition.h"
#include "gate.h"
#include "guest_ram.h"
#include "lease_end.h"
#include "vdev.h"

static unsigned int rescan_s = 30;
module_param(rescan_s, uint, 0644);
MODULE_PARM_DESC(rescan_s, "seconds between looks for memory anywhere in a running guest; 0: never");

/*
 * The follower finds memory that comes with a new memory slot.  Nobody tells of memory that
 * virtio-mem plugs into a slot that exists.
 */
static unsigned int look_ms = 4;
module_param(look_ms, uint, 0644);
MODULE_PARM_DESC(look_ms, "milliseconds between looks for memory plugged into holes of a running guest's memory slots (virtio-mem); 0: never");

/*
 * A build may miss memory that was away for just that moment.  This is the time to the first look
 * for such memory; each next look comes after four times as long, up to rescan_s.
 */
#define DLEND_GUEST_RESCAN_MIN_MS	100
#define DLEND_GUEST_RESCAN_FACTOR	4

/* The longest time without progress that a VMM waits until RAM that it plugs in is reached. */
#define DLEND_GUEST_PLUG_S	10u
#define DLEND_GUEST_PLUG_MS	(DLEND_GUEST_PLUG_S * MSEC_PER_SEC)

/* Why a BAR that is not borrowed is not reached, and bytes of a line in sysfs, at most. */
#define DLEND_GUEST_PASSED		"passed through by this host, not borrowed"
#define DLEND_GUEST_PASSED_LINE		128

/* [locked] */
static void dlend_guest_rescan_later(struct dlend_vdev *v, unsigned int ms)
{
	u64 most = (u64)READ_ONCE(rescan_s) * MSEC_PER_SEC;

	/* Never 0, which no factor makes longer; not even while there are no rescans. */
	v->rescan_ms = max_t(u64, min_t(u64, ms, most), DLEND_GUEST_RESCAN_MIN_MS);
	if (v->open && most)
		mod_delayed_work(v->claim.wq, &v->slow_work, msecs_to_jiffies(v->rescan_ms));
}

void dlend_guest_rescan_soon(struct dlend_vdev *v)
{
	dlend_guest_rescan_later(v, DLEND_GUEST_RESCAN_MIN_MS);
}

void dlend_guest_look_later(struct dlend_vdev *v)
{
	unsigned int ms = READ_ONCE(look_ms);

	if (v->open && ms)
		queue_delayed_work(v->claim.wq, &v->look_work, msecs_to_jiffies(ms));
}

/* RAM has come, or is coming: shut the gate until the device can reach it. [locked] */
static void dlend_guest_grow(struct dlend_vdev *v)
{
	if (!v->open || !v->claim.lease || v->failed)
		return;
	v->want.grow++;
	v->stat.grows++;
	dlend_gate_update(v);
	dlend_vdev_kick(v);
}

/* The RAM does not come into reach: the device is not to go on, and the guest is to know. */
static void dlend_guest_give_up(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	if (!v->failed)
		dlend_condition_fail(v, true, "no way to RAM that was plugged in, within %u s",
				     DLEND_GUEST_PLUG_S);
	dlend_vdev_kick(v);
}

/*
 * Wait until the device reaches the RAM that comes, or has stopped.  Meanwhile the VMM's call that
 * adds the slot does not return, just as VFIO_MAP_DMA does not for a device of this host's own.  So
 * the guest cannot give that RAM to the device, not even to one that takes its work from memory,
 * which the gate does not hold back.
 */
static void dlend_guest_await_reach(struct dlend_vdev *v)
{
	ktime_t since = ktime_get();
	bool again = true;

	while (READ_ONCE(v->behind) && !kthread_should_stop()) {
		wait_event_idle_timeout(v->idle_wq, !READ_ONCE(v->behind) || kthread_should_stop(),
					msecs_to_jiffies(DLEND_GUEST_PLUG_MS / 10));
		if (!dlend_plan_gate_overdue(ktime_to_ms(ktime_get()), ktime_to_ms(since),
					     ktime_to_ms(READ_ONCE(v->progressed)),
					     DLEND_GUEST_PLUG_MS))
			continue;
		if (!again)
			break;
		again = false;
		since = ktime_get();
		dlend_guest_give_up(v);
	}
}

/* A memory slot was added.  The follower calls this before the guest can know of it. */
static void dlend_guest_ram_added(void *ctx, const struct dlend_ranges *added)
{
	struct dlend_vdev *v = ctx;
	struct dlend_lease *lease = dlend_vdev_lease(v);

	if (!lease)
		return;
	dlend_memory_added(dlend_vdev_memory(lease), added);
	mutex_lock(&v->lock);
	dlend_guest_grow(v);
	mutex_unlock(&v->lock);
	dlend_lease_put(lease);
	dlend_guest_await_reach(v);
}

/* Devices that this host itself passes through to the VM: neither side reaches the other's BARs. */

ssize_t dlend_guest_passed_emit(struct dlend_vdev *v, char *buf, int at)
{
	struct dlend_ranges bars = {};
	int err = 0;
	u32 i;

	guard(mutex)(&v->follow_lock);
	if (v->follower)
		err = dlend_memslots_passed(v->vfio.kvm, &bars);
	/* Whole lines only. */
	for (i = 0; i < bars.count && at < PAGE_SIZE - DLEND_GUEST_PASSED_LINE; i++)
		at += sysfs_emit_at(buf, at, "host - %#llx %#llx none " DLEND_GUEST_PASSED "\n",
				    bars.range[i].start, bars.range[i].end - bars.range[i].start);
	dlend_ranges_clear(&bars);
	return err ?: at;
}

/* Say it once for each VMM: its guest may try such transfers, and loses them. */
static void dlend_guest_slots_changed(void *ctx)
{
	struct dlend_vdev *v = ctx;
	struct dlend_ranges bars = {};

	if (v->passed_told)
		return;
	dlend_memslots_passed(v->vfio.kvm, &bars);
	v->passed_told = bars.count;
	if (bars.count)
		dev_notice(dlend_vdev_dev(v), "its VM has a device that this host itself passes through, with a BAR at %#llx: that device and borrowed ones do not reach each other's BARs\n",
			   bars.range[0].start);
	dlend_ranges_clear(&bars);
}

/* Begin before the first build, so that no later slot is missed. */
void dlend_guest_follow(struct dlend_vdev *v)
{
	struct dlend_follower *f;

	guard(mutex)(&v->follow_lock);
	if (!READ_ONCE(v->open) || v->follower || !v->vfio.kvm)
		return;
	v->passed_told = false;
	dlend_guest_slots_changed(v);
	f = dlend_follower_start(v->vfio.kvm, dlend_guest_ram_added, dlend_guest_slots_changed, v);
	if (!IS_ERR(f))
		v->follower = f;
	else
		dev_warn(dlend_vdev_dev(v), "its VM's memory slots cannot be followed (%pe): RAM that is plugged in is found later, within %u s\n",
			 f, rescan_s);
}

/* KVM's VM exists only until the device is closed: nobody may follow it any longer. */
static void dlend_guest_unfollow(struct dlend_vdev *v)
{
	guard(mutex)(&v->follow_lock);
	dlend_follower_stop(v->follower);
	v->follower = NULL;
}

void dlend_guest_rescan(struct dlend_vdev *v)
{
	struct dlend_lease *lease = dlend_vdev_lease(v);

	/* Say what is due before asking for the build: the build must find it. */
	if (lease) {
		dlend_memory_added(dlend_vdev_memory(lease), NULL);
		dlend_lease_put(lease);
	}
	guard(mutex)(&v->lock);
	if (!v->open || !v->claim.lease || !v->want.bme || v->failed)
		return;
	v->want.rescan++;
	dlend_vdev_kick(v);
}

/* Guests may be given memory while they run, and nobody tells (docs/architecture.md). */
static void dlend_guest_rescan_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, slow_work);

	dlend_guest_rescan(v);
	guard(mutex)(&v->lock);
	dlend_guest_rescan_later(v, min(v->rescan_ms, UINT_MAX / DLEND_GUEST_RESCAN_FACTOR) *
				    DLEND_GUEST_RESCAN_FACTOR);
}

/* Look into holes? [locked] */
static bool dlend_guest_looks(const struct dlend_vdev *v)
{
	return v->want.bme && v->have.bme && !v->failed;
}

/* A look finds nothing where a build is at work: it tells by itself. */
void dlend_guest_look(struct dlend_vdev *v, struct dlend_lease *lease)
{
	bool looks;

	mutex_lock(&v->lock);
	looks = dlend_guest_looks(v) && READ_ONCE(look_ms);
	mutex_unlock(&v->lock);
	if (looks)
		dlend_memory_look(dlend_vdev_memory(lease));
}

/* Look now?  Not while the gate is shut: the step that has it open looks, when it is over. */
static bool dlend_guest_may_look(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return dlend_guest_looks(v) && dlend_gate_settled(v);
}

static void dlend_guest_look_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, look_work);
	struct dlend_lease *lease = dlend_vdev_lease(v);

	if (!lease)
		return;
	if (dlend_guest_may_look(v))
		dlend_memory_look(dlend_vdev_memory(lease));
	mutex_lock(&v->lock);
	/* Go on even if it did not look this time, e.g. because interrupts were being set up. */
	if (v->claim.lease == lease && dlend_guest_looks(v))
		dlend_guest_look_later(v);
	mutex_unlock(&v->lock);
	dlend_lease_put(lease);
}

/* What the VM's other devices, and a build, do to the windows */

bool dlend_guest_is_mute(const struct dlend_vdev *v)
{
	return !READ_ONCE(v->claim.lease) || READ_ONCE(v->failed);
}

void dlend_guest_vmm_exits(struct dlend_vdev *v)
{
	struct dlend_lease *lease = dlend_vdev_lease(v);

	if (!lease)
		return;
	dlend_memory_vmm_exits(dlend_vdev_memory(lease));
	dlend_lease_put(lease);
}

/* Shut the gate before memory goes: no access of the guest may start a DMA into it. */
static void dlend_guest_unmapping(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	v->unmapping++;
	dlend_gate_update(v);
}

static void dlend_guest_unmapped(struct dlend_vdev *v, bool lost)
{
	guard(mutex)(&v->lock);
	v->unmapping--;
	if (lost)
		v->want.build++;
	dlend_gate_update(v);
	if (v->claim.lease)
		dlend_vdev_kick(v);
}

static void dlend_guest_op_unmapping(void *ctx)
{
	dlend_guest_unmapping(ctx);
}

static void dlend_guest_op_unmapped(void *ctx, bool lost)
{
	dlend_guest_unmapped(ctx, lost);
}

static void dlend_guest_op_grown(void *ctx)
{
	struct dlend_vdev *v = ctx;

	guard(mutex)(&v->lock);
	if (v->want.bme)
		dlend_guest_grow(v);
}

static void dlend_guest_op_progress(void *ctx)
{
	struct dlend_vdev *v = ctx;

	WRITE_ONCE(v->progressed, ktime_get());
}

static void dlend_guest_op_exit(void *ctx)
{
	struct dlend_vdev *v = ctx;

	guard(mutex)(&v->lock);
	v->want.bme = false;
	dlend_gate_update(v);
	dlend_vdev_kick(v);
}

static bool dlend_guest_op_quiet(void *ctx)
{
	struct dlend_vdev *v = ctx;

	return READ_ONCE(v->quiet) || dlend_guest_is_mute(v);
}

static void dlend_guest_op_stuck(void *ctx)
{
	dlend_ended_lose(ctx, NULL, "threads of the VMM wait for each other in VFIO");
}

static bool dlend_guest_op_stop(void *ctx)
{
	struct dlend_vdev *v = ctx;

	/* Without a lease nobody needs what is built. */
	return READ_ONCE(v->urgent) || !READ_ONCE(v->claim.lease);
}

static const struct dlend_memory_ops dlend_guest_memory_ops = {
	.unmapping = dlend_guest_op_unmapping,
	.unmapped = dlend_guest_op_unmapped,
	.grown = dlend_guest_op_grown,
	.progress = dlend_guest_op_progress,
	.exit = dlend_guest_op_exit,
	.quiet = dlend_guest_op_quiet,
	.stuck = dlend_guest_op_stuck,
	.stop = dlend_guest_op_stop,
};

struct dlend_memory *dlend_guest_memory_create(struct dlend_vdev *v,
					       const struct dlend_lease *lease)
{
	struct dlend_memory_desc desc = {
		.vdev = &v->vfio,
		.session = &lease->ref,
		.addr = &lease->addr,
		.epoch = lease->epoch,
		.vmm = v->claim.party,
		.memlock = v->memlock,
		.lowmem = v->lowmem,
		.ops = &dlend_guest_memory_ops,
		.ctx = v,
	};

	return dlend_memory_create(&desc);
}

/* What the VMM does to the guest's address space */

bool dlend_guest_may_attach(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return !v->ended && !(v->claim.lease && v->had_space);
}

void dlend_guest_attached(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	v->had_space = true;
}

void dlend_guest_detach(struct dlend_vdev *v)
{
	struct dlend_lease *lease;

	/* The VMM may ask for that before it has given the device an address space. */
	if (!READ_ONCE(v->had_space))
		return;
	lease = dlend_ended_with_pins(v);
	if (!lease)
		return;
	dlend_guest_unmapping(v);
	dlend_memory_close(dlend_vdev_memory(lease));
	dlend_guest_unmapped(v, true);
	dlend_lease_put(lease);
}

/*
 * User space takes memory away: unmap it on this node now, do everything else later.  The gate is
 * shut only for memory that may come back, as when firmware remaps RAM: the guest does not know of
 * that, and would use the memory before it is mapped again.  Unplugged memory is different: the
 * guest has given it up before.
 */
void dlend_guest_dma_unmap(struct dlend_vdev *v, u64 iova, u64 size)
{
	struct dlend_lease *lease = dlend_ended_with_pins(v);
	bool shut, lost;

	if (!lease)
		return;
	shut = dlend_memory_returns(dlend_vdev_memory(lease), iova, size);
	if (shut)
		dlend_guest_unmapping(v);
	lost = dlend_memory_unmap(dlend_vdev_memory(lease), iova, size);
	/* The answer has changed between the two calls. */
	if (lost && !shut)
		dlend_guest_unmapping(v);
	if (lost || shut)
		dlend_guest_unmapped(v, lost);
	dlend_lease_put(lease);
}

void dlend_guest_init(struct dlend_vdev *v)
{
	INIT_DELAYED_WORK(&v->slow_work, dlend_guest_rescan_work);
	INIT_DELAYED_WORK(&v->look_work, dlend_guest_look_work);
}

void dlend_guest_stop(struct dlend_vdev *v)
{
	cancel_delayed_work_sync(&v->slow_work);
	cancel_delayed_work_sync(&v->look_work);
	/* KVM's VM exists only until the device is closed. */
	dlend_guest_unfollow(v);
}
