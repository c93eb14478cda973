/* SPDX-License-Identifier: GPL-2.0 */
/* What the VFIO device and the lender set off in a vdev. */
#ifndef DLEND_MDEV_BORROW_H
#define DLEND_MDEV_BORROW_H

#include <linux/types.h>

struct dlend_claim_ops;
struct dlend_vdev;

/* What the borrower calls, for the claim of a vdev. */
extern const struct dlend_claim_ops dlend_borrow_claim_ops;

/** dlend_borrow_init - of a new vdev. Context: any. */
void dlend_borrow_init(struct dlend_vdev *v);

/** dlend_borrow_open - a VMM has opened the device. Context: process; takes vdev->lock. */
void dlend_borrow_open(struct dlend_vdev *v);

/**
 * dlend_borrow_close - the VMM closes the device
 * @v: (in) vdev
 *
 * Nothing of the guest's memory is in the device's reach, or pinned, when this returns; a worker
 * returns the lease. Context: process; sleeps, a second at most for a lender that does not answer.
 */
void dlend_borrow_close(struct dlend_vdev *v);

/**
 * dlend_borrow_effects - act on a configuration write
 * @v: (in) vdev
 * @effects: (in) DLEND_CFG_E_*
 *
 * Context: process, vdev->lock is held; waits for nobody.
 */
void dlend_borrow_effects(struct dlend_vdev *v, u32 effects);

/**
 * dlend_borrow_stopped - wait until a device that shall not transfer does not
 * @v: (in) vdev
 * @effects: (in) DLEND_CFG_E_* of the configuration write that may have asked for it
 *
 * A lender that does not say in time that it has stopped the device loses its windows to this
 * node's memory, unless another device of the VM uses the same ones. Context: process, without
 * vdev->lock; sleeps 0.1 s at most, as long as a function level reset by vfio-pci takes.
 */
void dlend_borrow_stopped(struct dlend_vdev *v, u32 effects);

/**
 * dlend_borrow_reset - VFIO's reset
 * @v: (in) vdev
 *
 * What is seen of it here is reset at once, the device by a worker. The device transfers nothing
 * when this returns, as after dlend_borrow_stopped(). Context: process; sleeps, a second at most.
 */
void dlend_borrow_reset(struct dlend_vdev *v);

/**
 * dlend_borrow_intx - is INTx asserted?
 * @v: (in) vdev
 *
 * Context: process; may ask the lender, 0.1 s at most. Return: PCI_STATUS_INTERRUPT, or 0.
 */
u16 dlend_borrow_intx(struct dlend_vdev *v);

#endif
