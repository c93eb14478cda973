/* SPDX-License-Identifier: GPL-2.0 */
/* Functions that are bound, and offered later, or not any more. */
#ifndef DLEND_LENDER_PREPARE_H
#define DLEND_LENDER_PREPARE_H

#include <linux/types.h>

struct attribute_group;
struct lend_fn;
struct pci_dev;

/* Attributes of the driver: lend_prepare. */
extern const struct attribute_group lend_prepare_group;

/**
 * lend_prepare_asked - is a device being bound by lend_prepare?
 * @pdev: (in) device that is being bound
 *
 * Context: process.
 */
bool lend_prepare_asked(const struct pci_dev *pdev);

/**
 * lend_prepare_done - all that others have to know of a function has been written: offer it
 * @fn: (in, out) function; if it is offered already, nothing happens. If its group was withdrawn,
 *	that ends
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_done(struct lend_fn *fn);

/**
 * lend_prepare_withdraw - nobody gets a function's group any more, until lend_prepare_done()
 * @fn: (in, out) function; who has its group keeps it
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_withdraw(struct lend_fn *fn);

#endif
