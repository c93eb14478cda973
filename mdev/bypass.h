/* SPDX-License-Identifier: GPL-2.0 */
/* Direct interrupts that go to the VM without this host's software, where its processors can. */
#ifndef DLEND_MDEV_BYPASS_H
#define DLEND_MDEV_BYPASS_H

#include "vdev.h"

/**
 * dlend_bypass_begin - direct interrupts of a lease are set up: KVM may have them
 * @v: (in) vdev
 * @lease: (in) lease, until dlend_bypass_end()
 *
 * Nothing happens for those that come by the doorbell. Context: process, under vdev->lock.
 */
void dlend_bypass_begin(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_bypass_end - all come to this host's handlers again when this returns
 * @v: (in) vdev; that none was KVM's is fine
 *
 * Before dlend_lease_irq_setup(), and before the lease may end. Context: as dlend_bypass_begin().
 */
void dlend_bypass_end(struct dlend_vdev *v);

/**
 * dlend_bypass_drop - a vector's eventfd goes
 * @v: (in) vdev
 * @vector: (in) one of those that the VMM has set up; it stays dlend_irqs_fired()'s until
 *	dlend_bypass_offer()
 *
 * Context: as dlend_bypass_begin().
 */
void dlend_bypass_drop(struct dlend_vdev *v, unsigned int vector);

/** dlend_bypass_drop_all - the same for all that the VMM has set up. Context: the same. */
void dlend_bypass_drop_all(struct dlend_vdev *v);

/**
 * dlend_bypass_offer - a vector has an eventfd, maybe
 * @v: (in) vdev
 * @vector: (in) as of dlend_bypass_drop()
 *
 * Context: as dlend_bypass_begin().
 */
void dlend_bypass_offer(struct dlend_vdev *v, unsigned int vector);

#endif
