/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers of vdevs in debugfs.  Context of all: process. */
#ifndef DLEND_MDEV_VDEV_DEBUGFS_H
#define DLEND_MDEV_VDEV_DEBUGFS_H

struct dlend_vdev;

/** dlend_vdev_debugfs_add - make the files of a new vdev */
void dlend_vdev_debugfs_add(struct dlend_vdev *v);

/** dlend_vdev_debugfs_remove - nobody reads them any more when this returns */
void dlend_vdev_debugfs_remove(struct dlend_vdev *v);

/** dlend_vdev_debugfs_init - module init */
void dlend_vdev_debugfs_init(void);

/** dlend_vdev_debugfs_exit - module exit */
void dlend_vdev_debugfs_exit(void);

#endif
