/* SPDX-License-Identifier: GPL-2.0 */
/* The bridges above a device: PLACE messages, for people on other nodes. */
#ifndef DLEND_LENDER_BRIDGES_H
#define DLEND_LENDER_BRIDGES_H

#include <dlend/link.h>

struct pci_dev;

/**
 * lend_bridges_fn_message - say where a lent function sits
 * @pdev: (in) its PCI device
 * @addr: (in) its name
 * @msg: (out) PLACE message, to be posted after the function's offer
 *
 * Context: process.
 */
void lend_bridges_fn_message(struct pci_dev *pdev, const struct dlend_addr *addr,
			     struct dlend_msg *msg);

/**
 * lend_bridges_link_message - say where this node's end of a link sits
 * @link: (in) link
 * @msg: (out) PLACE message
 *
 * Context: process.
 * Return: false if the link's end is no PCI device; then there is no message.
 */
bool lend_bridges_link_message(struct dlend_link *link, struct dlend_msg *msg);

#endif
