/* SPDX-License-Identifier: GPL-2.0 */
/* MSI and MSI-X of attached devices: a parent domain for each root bus. */
#ifndef DLEND_NATIVE_MSI_H
#define DLEND_NATIVE_MSI_H

#include <linux/types.h>

struct fwnode_handle;
struct irq_domain;

/**
 * dlend_native_msi_create - the domain that devices of a root bus take their interrupts from
 * @fwnode: (in) name of it; stays until dlend_native_msi_remove()
 * @isolated: (in) the lenders' interrupts are isolated, as VFIO wants it
 *
 * Context: process, may sleep. Return: domain, or NULL.
 */
struct irq_domain *dlend_native_msi_create(struct fwnode_handle *fwnode, bool isolated);

/** dlend_native_msi_remove - undo that; no device has an interrupt any more. Context: process. */
void dlend_native_msi_remove(struct irq_domain *domain);

#endif
