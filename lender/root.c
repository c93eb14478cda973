// SPDX-License-Identifier: GPL-2.0
/*
 * Where lent devices and this node's NTBs join the root complex, and which of them reach each other
 * there.  Borrowers decide on cliques by it.
 *
 * Knows nothing of functions that are lent, but their name and their PCI device.
 */
#include <linux/pci.h>

#include <dlend/root.h>

#include "lender/root.h"

static void lend_root_fill(const struct dlend_root *root, struct dlend_p_root *p)
{
	p->domain = cpu_to_le32(root->domain);
	p->bus = root->bus;
	p->island = cpu_to_le16(root->island);
	p->numa = cpu_to_le16(root->numa < 0 ? DLEND_ROOT_NO_NUMA : root->numa);
	p->payload = cpu_to_le16(root->payload);
}

void lend_root_fn_message(struct pci_dev *pdev, const struct dlend_addr *addr,
			  struct dlend_msg *msg)
{
	struct dlend_root root;

	dlend_root_of(pdev, &root);
	lend_root_fill(&root, dlend_msg_init(msg, DLEND_MSG_ROOT, addr, 0,
					     sizeof(struct dlend_p_root)));
}

bool lend_root_link_message(struct dlend_link *link, struct dlend_msg *msg)
{
	struct pci_dev *pdev = dlend_root_link_pdev(link);
	struct dlend_p_root *p;
	struct dlend_root root;
	struct dlend_addr addr;

	if (!pdev)
		return false;
	addr.lender = dlend_node_id();
	addr.bdf = pci_dev_id(pdev);
	pci_dev_put(pdev);
	if (!dlend_root_of_link(link, &root))
		return false;
	p = dlend_msg_init(msg, DLEND_MSG_ROOT, &addr, 0, sizeof(*p));
	lend_root_fill(&root, p);
	p->node = cpu_to_le16(dlend_link_peer(link));
	return true;
}
