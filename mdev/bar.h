/* SPDX-License-Identifier: GPL-2.0 */
/* BARs of a borrowed device, as a VMM maps or accesses them. */
#ifndef DLEND_MDEV_BAR_H
#define DLEND_MDEV_BAR_H

#include "vdev.h"

/** dlend_bar_open - a VMM opens the device. Context: process. Return: 0, -ENOMEM. */
int dlend_bar_open(struct dlend_vdev *v);

/** dlend_bar_close - the end of dlend_bar_open(); no mapping is left. Context: may sleep. */
void dlend_bar_close(struct dlend_vdev *v);

/**
 * dlend_bar_set_gate - what BAR accesses meet from now on
 * @v: (in) vdev
 * @gate: (in) gate
 * @bar: (in) windows onto the BARs; NULL: none
 *
 * When this returns, no access goes through that the new gate does not allow. Context: process,
 * vdev->lock is held; takes bar_lock.
 */
void dlend_bar_set_gate(struct dlend_vdev *v, enum dlend_gate gate, const struct dlend_window *bar);

/**
 * dlend_bar_revoked - cut off a BAR: nobody reaches it any more when this returns
 * @v: (in) vdev
 * @index: (in) BAR
 *
 * Context: process; takes bar_lock.
 */
void dlend_bar_revoked(struct dlend_vdev *v, unsigned int index);

/** dlend_bar_set_mse - the guest turns memory decoding on or off. Context: vdev->lock. */
void dlend_bar_set_mse(struct dlend_vdev *v, bool on);

/** dlend_bar_mmap - map a BAR, or a part of one, lazily. Context: mmap_lock. Return: 0, -EINVAL. */
int dlend_bar_mmap(struct dlend_vdev *v, struct vm_area_struct *vma);

/**
 * dlend_bar_rw - a trapped access
 * @v: (in) vdev
 * @at: (in) offset in the file: the BAR, and the offset in it (DLEND_REGION_*)
 * @buf: (in, out) user memory
 * @count: (in) bytes
 * @write: (in) true: write to the BAR, false: read from it
 *
 * If no device answers, a read gives 0xff. Context: process; waits for the device.
 * Return: bytes done, at least one; -EINVAL beyond the BAR; -EFAULT.
 */
ssize_t dlend_bar_rw(struct dlend_vdev *v, u64 at, char __user *buf, size_t count, bool write);

/** dlend_bar_size - bytes of a BAR, 0 = none. Context: any. */
u64 dlend_bar_size(const struct dlend_vdev *v, unsigned int index);

/**
 * dlend_bar_areas - the parts of a BAR that can be mapped, without the MSI-X pages
 * @v: (in) vdev
 * @index: (in) BAR
 * @area: (out) parts, in order
 *
 * Context: any. Return: their number, 0 to DLEND_MAX_AREAS; 1 with the whole BAR if nothing must be
 * left out.
 */
unsigned int dlend_bar_areas(const struct dlend_vdev *v, unsigned int index,
			     struct dlend_bar_area area[DLEND_MAX_AREAS]);

#endif
