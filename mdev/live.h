/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Registers of configuration space that only the device itself knows (dlend_cfg_live()).
 *
 * Context of all functions: process, without vdev->lock; they wait for the lender, for a bounded
 * time.
 */
#ifndef DLEND_MDEV_LIVE_H
#define DLEND_MDEV_LIVE_H

#include <linux/types.h>

struct dlend_vdev;

/**
 * dlend_live_read - complete what a read found in the virtual space by what the device says
 * @v: (in) vdev
 * @pos: (in) offset in configuration space
 * @buf: (in, out) @len bytes; those that the device does not answer in time stay
 * @len: (in) of the access. More than 8 bytes are the VMM's own look at all of it, and stay, too
 *
 * Without a lease the device is as after its reset, which is what @buf has then. Waits 0.1 s at
 * most, and not again for a second if the lender did not answer.
 */
void dlend_live_read(struct dlend_vdev *v, u32 pos, u8 *buf, u32 len);

/**
 * dlend_live_write - write what is the device's own of a write
 * @v: (in, out) vdev
 * @pos: (in) offset in configuration space
 * @buf: (in) @len bytes
 * @len: (in) as for dlend_live_read()
 *
 * A device that is not borrowed yet is borrowed now, as if the guest had touched a BAR. Waits as
 * dlend_live_read(); what does not reach the device by then is lost, as the log says.
 */
void dlend_live_write(struct dlend_vdev *v, u32 pos, const u8 *buf, u32 len);

/**
 * dlend_live_vpd - move the word of VPD that the guest has asked for
 * @v: (in, out) vdev, after DLEND_CFG_E_VPD
 *
 * The guest polls until it sees that this was done. If it was not, the guest gives up, as with any
 * device that does not answer. Waits a quarter of a second at most.
 */
void dlend_live_vpd(struct dlend_vdev *v);

#endif
