/* SPDX-License-Identifier: GPL-2.0 */
/* The worker that makes what is wanted of a borrowed device. */
#ifndef DLEND_MDEV_STEPS_H
#define DLEND_MDEV_STEPS_H

struct dlend_vdev;

/** dlend_step_init - of a new vdev; dlend_vdev_kick() starts the worker. Context: any. */
void dlend_step_init(struct dlend_vdev *v);

#endif
