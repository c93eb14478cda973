/* SPDX-License-Identifier: GPL-2.0 */
/* Where a device sits: PLACE messages. */
#ifndef DLEND_LENDER_PLACE_H
#define DLEND_LENDER_PLACE_H

#include <dlend/link.h>

struct pci_dev;

/**
 * lend_place_fn_message - say where a lent function sits
 * @pdev: (in) its PCI device
 * @addr: (in) its name
 * @msg: (out) PLACE message, to be posted after the function's offer
 *
 * Context: process; takes dlend_root_lock.
 */
void lend_place_fn_message(struct pci_dev *pdev, const struct dlend_addr *addr,
			   struct dlend_msg *msg);

/**
 * lend_place_link_message - say where this node's end of a link sits
 * @link: (in) link, which is up
 * @msg: (out) PLACE message
 *
 * Context: process; takes dlend_root_lock.
 * Return: false if the link's end is no PCI device; then there is no message.
 */
bool lend_place_link_message(struct dlend_link *link, struct dlend_msg *msg);

#endif
