/* SPDX-License-Identifier: GPL-2.0 */
/* What a VMM, a guest or the lender makes a vdev do. */
#ifndef DLEND_MDEV_BORROW_H
#define DLEND_MDEV_BORROW_H

#include <linux/types.h>

struct dlend_claim_ops;
struct dlend_vdev;

/* What the borrower calls, for the claim of a vdev. */
extern const struct dlend_claim_ops dlend_borrow_claim_ops;

/** dlend_borrow_init - prepare a new vdev. Context: any. */
void dlend_borrow_init(struct dlend_vdev *v);

/** dlend_borrow_open - a VMM has opened the device. Context: process; takes vdev->lock. */
void dlend_borrow_open(struct dlend_vdev *v);

/**
 * dlend_borrow_close - the VMM closes the device
 * @v: (in) vdev
 *
 * When this returns, the device cannot reach the guest's memory, and none of it is pinned; a worker
 * returns the lease. Context: process; sleeps; waits a second at most for the lender's answer.
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
 * dlend_borrow_stopped - wait until a device that must not transfer has stopped
 * @v: (in) vdev
 * @effects: (in) DLEND_CFG_E_* of the configuration write that may have asked for it
 *
 * If the lender does not say in time that it has stopped the device, this node closes the device's
 * windows to its memory, unless another device of the VM uses the same windows. Context: process,
 * without vdev->lock; sleeps 0.1 s at most, as long as a function level reset by vfio-pci takes.
 */
void dlend_borrow_stopped(struct dlend_vdev *v, u32 effects);

/**
 * dlend_borrow_reset - VFIO's reset
 * @v: (in) vdev
 *
 * The virtual configuration space is reset at once; a worker has the lender reset the device. When
 * this returns, the device transfers nothing, as after dlend_borrow_stopped(). Context: process;
 * sleeps, a second at most.
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
