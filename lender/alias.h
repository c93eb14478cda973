/* SPDX-License-Identifier: GPL-2.0 */
/* Names of lent functions in the fabric. */
#ifndef DLEND_LENDER_ALIAS_H
#define DLEND_LENDER_ALIAS_H

#include <dlend/types.h>

struct attribute_group;
struct pci_dev;

/* Attributes of the driver: lend_as. */
extern const struct attribute_group lend_alias_group;

/**
 * lend_alias_address - find the name of a device in the fabric
 * @pdev: (in) device
 * @addr: (out) name
 *
 * Context: any.
 * Return: 0; -ENXIO this node has no id; -EINVAL the device needs an alias.  A message says so.
 */
int lend_alias_address(struct pci_dev *pdev, struct dlend_addr *addr);

/** lend_alias_exit - forget all aliases. Context: process; the driver is not registered. */
void lend_alias_exit(void);

#endif
