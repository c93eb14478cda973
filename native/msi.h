/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts of attached devices: an MSI parent domain for each root bus. */
#ifndef DLEND_NATIVE_MSI_H
#define DLEND_NATIVE_MSI_H

#include <linux/types.h>

struct dlend_native_fn;
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

/**
 * dlend_native_msi_fired - the device has sent @vector
 * @fn: (in) function
 *
 * Context: any, also with interrupts off and locks held: the handler runs later.
 */
void dlend_native_msi_fired(struct dlend_native_fn *fn, unsigned int vector);

/**
 * dlend_native_msi_again - have the lender deliver what it delivered before a reset
 * @fn: (in) function whose interrupts a reset has ended
 *
 * Context: process, waits for the lender. Return: as dlend_lease_irq_setup().
 */
int dlend_native_msi_again(struct dlend_native_fn *fn);

#endif
