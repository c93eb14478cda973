// SPDX-License-Identifier: GPL-2.0
/*
 * A vdev and its guest's memory, which comes and goes while the device is borrowed.
 *
 * New memory slots are noticed by a thread for each VM (watch.c).  Now and then each device also
 * rescans: a build searches everywhere, for memory that came otherwise.  VFIO calls dma_unmap when
 * memory goes.  Other devices of the VM share the DMA mappings; their builds and losses call the
 * ops of this vdev (struct dlend_memory_ops), which are in this file.
 */
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/sysfs.h>
#include "vdev.h"

static unsigned int rescan_s = 30;
module_param(rescan_s, uint, 0644);
MODULE_PARM_DESC(rescan_s, "seconds between looks for memory anywhere in a running guest; 0: never");

/*
 * A build may miss memory that was away for a moment.  This is the time to the first rescan for
 * such memory; the time to each later rescan is four times as long, up to rescan_s.
 */
#define DLEND_GUEST_RESCAN_MIN_MS	100
#define DLEND_GUEST_RESCAN_FACTOR	4

/* The longest time without progress that a VMM waits until devices reach RAM that it plugs in */
#define DLEND_GUEST_PLUG_S	10u
#define DLEND_GUEST_PLUG_MS	(DLEND_GUEST_PLUG_S * MSEC_PER_SEC)

/* Text of sysfs for a BAR that no borrowed device reaches; and the most bytes of its line */
#define DLEND_GUEST_PASSED		"passed through by this host, not borrowed"
#define DLEND_GUEST_PASSED_LINE		128

/* Schedule the next rescan in @ms milliseconds, or in rescan_s if that is sooner. [locked] */
static void dlend_guest_rescan_later(struct dlend_vdev *v, unsigned int ms)
{
	u64 most = (u64)READ_ONCE(rescan_s) * MSEC_PER_SEC;

	/* Never 0, not even if rescan_s is 0: a factor could not make it longer later. */
	v->rescan_ms = max_t(u64, min_t(u64, ms, most), DLEND_GUEST_RESCAN_MIN_MS);
	if (v->now.open && most)
		mod_delayed_work(v->claim.wq, &v->slow_work, msecs_to_jiffies(v->rescan_ms));
}

void dlend_guest_rescan_soon(struct dlend_vdev *v)
{
	dlend_guest_rescan_later(v, DLEND_GUEST_RESCAN_MIN_MS);
}

/* Devices that this host itself passes through to the VM: neither side reaches the other's BARs. */

ssize_t dlend_guest_passed_emit(struct dlend_vdev *v, char *buf, int at)
{
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(v);
	struct dlend_ranges bars = {};
	int err = 0;
	u32 i;

	if (lease)
		err = dlend_memory_passed(dlend_vdev_memory(lease), &bars);
	/* Whole lines only. */
	for (i = 0; i < bars.count && at < PAGE_SIZE - DLEND_GUEST_PASSED_LINE; i++)
		at += sysfs_emit_at(buf, at, "host - %#llx %#llx none " DLEND_GUEST_PASSED "\n",
				    bars.range[i].start, bars.range[i].end - bars.range[i].start);
	dlend_ranges_clear(&bars);
	return err ?: at;
}

void dlend_guest_rescan(struct dlend_vdev *v)
{
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(v);

	/* First note that RAM is due everywhere, then ask for the build that searches there. */
	if (lease)
		dlend_memory_rescan(dlend_vdev_memory(lease));
	guard(mutex)(&v->lock);
	if (!v->now.open || !v->claim.lease || !v->desired.bme || v->now.failed)
		return;
	v->desired.rescan++;
	dlend_vdev_update(v);
}

/* A running guest may get memory without any notice (docs/architecture.md). */
static void dlend_guest_rescan_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, slow_work);

	dlend_guest_rescan(v);
	guard(mutex)(&v->lock);
	dlend_guest_rescan_later(v, min(v->rescan_ms, UINT_MAX / DLEND_GUEST_RESCAN_FACTOR) *
				    DLEND_GUEST_RESCAN_FACTOR);
}

/* While a build searches, this does nothing: the build calls grown() for new RAM. */
void dlend_guest_look(struct dlend_vdev *v, struct dlend_lease *lease)
{
	bool looks;

	mutex_lock(&v->lock);
	looks = v->desired.bme && v->actual.bme && !v->now.failed;
	mutex_unlock(&v->lock);
	if (looks)
		dlend_memory_look(dlend_vdev_memory(lease));
}

static void dlend_guest_look_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(work, struct dlend_vdev, look_work);
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(v);

	if (lease && READ_ONCE(v->is.looks))
		dlend_memory_look(dlend_vdev_memory(lease));
}

/* The ops of guest memory (struct dlend_memory_ops) */

void dlend_guest_vmm_exits(struct dlend_vdev *v)
{
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_ended_with_pins(v);

	if (lease)
		dlend_memory_vmm_exits(dlend_vdev_memory(lease));
}

/* Shut the gate before mappings go: no access of the guest may start DMA to that memory. */
static void dlend_guest_unmapping(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	v->unmapping++;
	dlend_vdev_update(v);
}

static void dlend_guest_unmapped(struct dlend_vdev *v, bool lost)
{
	guard(mutex)(&v->lock);
	v->unmapping--;
	if (lost)
		v->desired.build++;
	dlend_vdev_update(v);
}

/* RAM has come, or is coming: shut the gate until the device can reach it. */
static void dlend_guest_grown(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	if (!v->desired.bme || !v->now.open || !v->claim.lease || v->now.failed)
		return;
	v->desired.grow++;
	v->stat.grows++;
	dlend_vdev_update(v);
}

static void dlend_guest_progress(struct dlend_vdev *v)
{
	WRITE_ONCE(v->progressed, ktime_get());
}

static void dlend_guest_exit(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	v->desired.bme = false;
	dlend_vdev_update(v);
}

static bool dlend_guest_quiesced(struct dlend_vdev *v)
{
	return READ_ONCE(v->is.quiesced) || !READ_ONCE(v->claim.lease);
}

static void dlend_guest_stuck(struct dlend_vdev *v)
{
	dlend_ended_lose(v, NULL, "threads of the VMM wait for each other in VFIO");
}

static bool dlend_guest_gives_way(struct dlend_vdev *v)
{
	/* A build without a lease is useless. */
	return READ_ONCE(v->is.urgent) || !READ_ONCE(v->claim.lease);
}

/*
 * The VMM's call that has added RAM waits while this is true.  If the mappings make no progress for
 * too long, the device fails, so that its DMA is turned off and the guest knows.  Then the device
 * has the same time once more to stop.
 */
static bool dlend_guest_behind(struct dlend_vdev *v)
{
	s64 ms = DLEND_GUEST_PLUG_MS;

	if (!READ_ONCE(v->is.behind))
		return false;
	guard(mutex)(&v->lock);
	if (v->now.failed)
		ms *= 2;
	if (!v->is.behind ||
	    !dlend_plan_gate_overdue(ktime_get(), v->behind_at, READ_ONCE(v->progressed),
				     ms_to_ktime(ms)))
		return v->is.behind;
	if (v->now.failed)
		return false;
	dlend_condition_fail(v, true, "no way to RAM that was plugged in, within %u s",
			     DLEND_GUEST_PLUG_S);
	return true;
}

static bool dlend_guest_look_soon(struct dlend_vdev *v)
{
	bool looks = READ_ONCE(v->is.looks);

	if (looks)
		queue_work(v->claim.wq, &v->look_work);
	return looks;
}

const struct dlend_memory_ops dlend_guest_memory_ops = {
	.unmapping = dlend_guest_unmapping,
	.unmapped = dlend_guest_unmapped,
	.grown = dlend_guest_grown,
	.progress = dlend_guest_progress,
	.exit = dlend_guest_exit,
	.leave = dlend_ended_leave,
	.quiesced = dlend_guest_quiesced,
	.stuck = dlend_guest_stuck,
	.stop = dlend_guest_gives_way,
	.behind = dlend_guest_behind,
	.look = dlend_guest_look_soon,
};

struct dlend_memory *dlend_guest_memory_create(struct dlend_vdev *v,
					       const struct dlend_lease *lease)
{
	struct dlend_vmm vmm;

	/* The device may be closed, and opened by another VMM, at any moment. */
	mutex_lock(&v->lock);
	dlend_vmm_copy(&vmm, &v->vmm);
	mutex_unlock(&v->lock);
	return dlend_memory_create(v, &v->vfio, lease, &vmm, v->lowmem);
}

/* VFIO's calls about the guest's address space */

/*
 * The first address space may come at any time; another one only if nothing can have been pinned in
 * the one before.
 */
int dlend_guest_attach_ioas(struct vfio_device *vfio, u32 *pt_id)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);
	int ret;

	mutex_lock(&v->lock);
	ret = v->ended || (v->claim.lease && v->had_space) ? -EBUSY : 0;
	mutex_unlock(&v->lock);
	ret = ret ?: vfio_iommufd_emulated_attach_ioas(vfio, pt_id);
	guard(mutex)(&v->lock);
	v->had_space |= !ret;
	return ret;
}

/* First hand the pins over to the VM's other devices: iommufd's detach unmaps everything. */
void dlend_guest_detach_ioas(struct vfio_device *vfio)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_ended_with_pins(v);

	/* The VMM may detach before it has attached the device to an address space. */
	if (lease && READ_ONCE(v->had_space)) {
		dlend_guest_unmapping(v);
		dlend_memory_close(dlend_vdev_memory(lease));
		dlend_guest_unmapped(v, true);
	}
	vfio_iommufd_emulated_detach_ioas(vfio);
}

void dlend_guest_dma_unmap(struct vfio_device *vfio, u64 iova, u64 size)
{
	struct dlend_lease *lease __free(dlend_lease_put) =
		dlend_ended_with_pins(to_dlend_vdev(vfio));

	if (lease)
		dlend_memory_unmap(dlend_vdev_memory(lease), iova, size);
}

void dlend_guest_init(struct dlend_vdev *v)
{
	INIT_DELAYED_WORK(&v->slow_work, dlend_guest_rescan_work);
	INIT_WORK(&v->look_work, dlend_guest_look_work);
}

void dlend_guest_stop(struct dlend_vdev *v)
{
	cancel_delayed_work_sync(&v->slow_work);
	cancel_work_sync(&v->look_work);
}
