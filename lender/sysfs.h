/* SPDX-License-Identifier: GPL-2.0 */
/* Folder dlend/ of a lent function in sysfs. */
#ifndef DLEND_LENDER_SYSFS_H
#define DLEND_LENDER_SYSFS_H

struct attribute_group;

/* For struct pci_driver.dev_groups.  The driver data of a device is its struct lend_fn. */
extern const struct attribute_group *lend_sysfs_groups[];

#endif
