/* SPDX-License-Identifier: GPL-2.0 */
/* Where a device joins the root complex, and what it reaches there: ROOT messages. */
#ifndef DLEND_LENDER_ROOT_H
#define DLEND_LENDER_ROOT_H

#include <dlend/link.h>

struct pci_dev;

/**
 * lend_root_fn_message - say where a lent function joins the root complex
 * @pdev: (in) its PCI device
 * @addr: (in) its name
 * @msg: (out) ROOT message, to be posted after the function's offer
 *
 * Context: process; takes dlend_root_lock.
 */
void lend_root_fn_message(struct pci_dev *pdev, const struct dlend_addr *addr,
			  struct dlend_msg *msg);

/**
 * lend_root_link_message - say where this node's end of a link joins the root complex
 * @link: (in) link, which is up
 * @msg: (out) ROOT message
 *
 * Context: process; takes dlend_root_lock.
 * Return: false if the link's end is no PCI device; then there is no message.
 */
bool lend_root_link_message(struct dlend_link *link, struct dlend_msg *msg);

#endif
