/* SPDX-License-Identifier: GPL-2.0 */
/* Attributes of /sys/class/dlend_link/LINK (docs/ABI/sysfs-class-dlend_link). */
#ifndef DLEND_NTB_SYSFS_H
#define DLEND_NTB_SYSFS_H

#include <linux/sysfs.h>

/* Of a link's device. */
extern const struct attribute_group *dlend_link_groups[];

#endif
