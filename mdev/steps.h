/* SPDX-License-Identifier: GPL-2.0 */
/* The worker that makes a borrowed device what guest and VMM want. */
#ifndef DLEND_MDEV_STEPS_H
#define DLEND_MDEV_STEPS_H

struct dlend_vdev;

/** dlend_step_init - prepare a new vdev; dlend_vdev_kick() starts the worker. Context: any. */
void dlend_step_init(struct dlend_vdev *v);

#endif
