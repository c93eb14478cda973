/* SPDX-License-Identifier: GPL-2.0 */
/* A VM moves from one host to another, and its device stays where it is: VFIO's side of it. */
#ifndef DLEND_MDEV_MOVE_H
#define DLEND_MDEV_MOVE_H

#include <linux/types.h>

struct dlend_vdev;

/** dlend_move_init - prepare a new vdev: it can move. Context: process. */
void dlend_move_init(struct dlend_vdev *v);

/** dlend_move_destroy - a vdev is about to be freed. Context: process. */
void dlend_move_destroy(struct dlend_vdev *v);

/** dlend_move_open - a VMM opens the device; its VM runs here. Context: process, vdev->lock. */
void dlend_move_open(struct dlend_vdev *v);

/**
 * dlend_move_reset - the VMM resets the device: whatever moved does not any more
 * @v: (in) vdev
 *
 * A lease that was only prepared is given back. Context: process, none of the vdev's locks.
 */
void dlend_move_reset(struct dlend_vdev *v);

/** dlend_move_close - the VMM has closed the device: its files are dead. Context: as above. */
void dlend_move_close(struct dlend_vdev *v);

/**
 * struct dlend_move_target - where a VM may go
 * @node: node id, or DLEND_NODE_NONE
 * @cut: also if the device is never quiet
 * @all: the VMM sends all of the VM's memory after the VM has stopped: it need not be told what the
 *	device has written before
 */
struct dlend_move_target {
	u16 node;
	bool cut, all;
};

/**
 * dlend_move_set_target - which node may take the device over
 * @v: (in) vdev
 * @to: (in) where the VM may go
 *
 * Context: process, none of the vdev's locks; waits for the lender, if the device is borrowed.
 * Return: 0; -ENODEV no VM has it open; -EOPNOTSUPP, -EMLINK, -EINVAL as dlend_lease_move_to();
 * -EOPNOTSUPP also where the VMM would not carry along what the device writes; -EPERM where it
 * would not pass on the guest's INTx; -ETIMEDOUT.
 */
int dlend_move_set_target(struct dlend_vdev *v, const struct dlend_move_target *to);

#endif
