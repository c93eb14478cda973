/* SPDX-License-Identifier: GPL-2.0 */
/* The gate of a borrowed device.  Context of all: process, vdev->lock is held. */
#ifndef DLEND_MDEV_GATE_H
#define DLEND_MDEV_GATE_H

#include "borrow_plan.h"

struct dlend_vdev;

/** dlend_gate_next_step - the next step for the device */
enum dlend_step dlend_gate_next_step(const struct dlend_vdev *v);

/** dlend_gate_settled - may the guest's accesses go through? */
bool dlend_gate_settled(const struct dlend_vdev *v);

/**
 * dlend_gate_note - something has changed that others look at without vdev->lock
 * @v: (in) vdev
 *
 * Updates vdev->urgent, vdev->quiet, vdev->irq_busy and what vdev->move has for that, and wakes
 * whoever waits for them.
 */
void dlend_gate_note(struct dlend_vdev *v);

/** dlend_gate_note_quiet - the device transfers nothing to this node any more */
void dlend_gate_note_quiet(struct dlend_vdev *v);

/**
 * dlend_gate_update - open or shut the gate as things are now
 * @v: (in) vdev; something about it has changed
 *
 * Once this has shut the gate, no access of the guest reaches the device. Includes
 * dlend_gate_note().
 */
void dlend_gate_update(struct dlend_vdev *v);

#endif
