/* SPDX-License-Identifier: GPL-2.0 */
/* A guest's memory comes and goes while its device is borrowed. */
#ifndef DLEND_MDEV_GUEST_RAM_H
#define DLEND_MDEV_GUEST_RAM_H

#include <linux/types.h>

struct dlend_lease;
struct dlend_memory;
struct dlend_vdev;

/** dlend_guest_init - prepare a new vdev. Context: any. */
void dlend_guest_init(struct dlend_vdev *v);

/** dlend_guest_stop - the device is being closed: nobody looks for memory. Context: may sleep. */
void dlend_guest_stop(struct dlend_vdev *v);

/**
 * dlend_guest_memory_create - memory of the guest, to be pinned under a lease
 * @v: (in) vdev
 * @lease: (in) lease
 *
 * Context: process. Return: as dlend_memory_create().
 */
struct dlend_memory *dlend_guest_memory_create(struct dlend_vdev *v,
					       const struct dlend_lease *lease);

/**
 * dlend_guest_watch - have the VM's memory watched from now on
 * @v: (in) vdev that is about to build for the first time: what comes later is told
 * @lease: (in) its lease
 *
 * Context: process, may sleep.
 */
void dlend_guest_watch(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_guest_passed_emit - BARs of devices that this host itself passes through to the VM
 * @v: (in) vdev
 * @buf: (in, out) a page for sysfs: a line for each range of them
 * @at: (in) bytes in @buf
 *
 * Context: process, may sleep; takes vdev->lock. Return: bytes in @buf, or -ENOMEM.
 */
ssize_t dlend_guest_passed_emit(struct dlend_vdev *v, char *buf, int at);

/**
 * dlend_guest_rescan_soon - a build may have missed memory that was away for just that moment
 * @v: (in) vdev
 *
 * All of the guest's memory is looked at again soon, and then less and less often. Context:
 * vdev->lock.
 */
void dlend_guest_rescan_soon(struct dlend_vdev *v);

/**
 * dlend_guest_look - look into holes of the memory slots now, as the gate opens
 * @v: device, which does DMA or is about to
 * @lease: (in) its lease
 *
 * While the gate was shut nobody looked, and the guest has had the time to take memory into use.
 * If there is some, the gate stays shut until the next build has it. Context: the worker.
 */
void dlend_guest_look(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_guest_rescan - look at all of the guest's memory. Context: process; takes vdev->lock. */
void dlend_guest_rescan(struct dlend_vdev *v);

/**
 * dlend_guest_may_attach - may the device get an address space?
 * @v: (in) vdev
 *
 * It may get a first one at any time, and another one only if nothing can have been pinned in the
 * one before.
 * Context: process; takes vdev->lock. Return: true if it may.
 */
bool dlend_guest_may_attach(struct dlend_vdev *v);

/** dlend_guest_attached - it has got one. Context: process; takes vdev->lock. */
void dlend_guest_attached(struct dlend_vdev *v);

/**
 * dlend_guest_detach - the device's address space is being taken away
 * @v: (in) vdev
 *
 * No pin in that address space is left when this returns. If it had none, nothing happens.
 * Context: process, may sleep.
 */
void dlend_guest_detach(struct dlend_vdev *v);

/** dlend_guest_is_mute - can nobody say that the device has stopped? Context: any. */
bool dlend_guest_is_mute(const struct dlend_vdev *v);

/**
 * dlend_guest_vmm_exits - the VMM dies and closes the device: all others of its VM end
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock of each; waits for nobody.
 */
void dlend_guest_vmm_exits(struct dlend_vdev *v);

/**
 * dlend_guest_dma_unmap - the VMM takes memory away
 * @v: (in) vdev
 * @iova, @size: (in) guest-physical range in bytes
 *
 * When this returns, the device cannot reach this node's memory there, and the pages are unpinned;
 * all else follows later. Context: VFIO's dma_unmap; waits for no peer.
 */
void dlend_guest_dma_unmap(struct dlend_vdev *v, u64 iova, u64 size);

#endif
