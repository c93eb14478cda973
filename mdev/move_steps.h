/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Steps of a VM that moves from one host to another.  Context of all: the worker (steps.c), none of
 * the vdev's locks.
 */
#ifndef DLEND_MDEV_MOVE_STEPS_H
#define DLEND_MDEV_MOVE_STEPS_H

#include "condition.h"

struct dlend_lease;
struct dlend_vdev;

/* The VM is here, and its device is not. @fmt: why, after the words that are said. vdev->lock. */
#define dlend_move_lost(v, fmt, ...)							\
	dlend_condition_fail(v, true, "the VM cannot go on with it on this host" fmt,	\
			     ##__VA_ARGS__)

/** dlend_move_step_to - tell the lender which node may take the device of @v over */
void dlend_move_step_to(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_quiesce - the VM stands still: stop the device */
void dlend_move_step_quiesce(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_run - the VM goes on here */
void dlend_move_step_run(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_take_over - the VM has come, and goes on here */
void dlend_move_step_take_over(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_move_start - a VM has come whose device nobody had borrowed: it goes on here
 * @v: (in) vdev
 *
 * Context: vdev->lock.
 */
void dlend_move_start(struct dlend_vdev *v);

#endif
