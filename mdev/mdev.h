/* SPDX-License-Identifier: GPL-2.0 */
/* Mediated devices: a parent for each offer, and the driver of what is made from them. */
#ifndef DLEND_MDEV_MDEV_H
#define DLEND_MDEV_MDEV_H

/** dlend_mdev_start - offers become parents of mediated devices. Context: module init. */
int dlend_mdev_start(void);

/** dlend_mdev_stop - no parent and no mediated device is left. Context: module exit. */
void dlend_mdev_stop(void);

#endif
