/* SPDX-License-Identifier: GPL-2.0 */
/* What the PCI core tells of errors and resets of lent functions. */
#ifndef DLEND_LENDER_ERRORS_H
#define DLEND_LENDER_ERRORS_H

#include <linux/pci.h>

/* For struct pci_driver.  The driver data of a device is its struct lend_fn. */
extern const struct pci_error_handlers lend_error_handlers;

#endif
