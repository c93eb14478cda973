// SPDX-License-Identifier: GPL-2.0
/*
 * Where lent devices and this node's NTBs sit: where they join the root complex, and which of them
 * reach each other there, as borrowers decide on cliques by it; and the bridges above them, for
 * people on other nodes who ask what a transfer passes through (docs/paths.md).
 *
 * Knows nothing of functions that are lent, but their name and their PCI device.
 */
#include <linux/pci.h>

#include <dlend/root.h>

#include "lender/place.h"

/* With both, a switch sends requests between devices below it up to the root complex. */
#define LEND_ACS_REDIRECT	(PCI_ACS_RR | PCI_ACS_CR)

static u8 lend_bridge_kind(struct pci_dev *bridge)
{
	if (!pci_is_pcie(bridge))
		return DLEND_BRIDGE_PCI;
	switch (pci_pcie_type(bridge)) {
	case PCI_EXP_TYPE_ROOT_PORT:
		return DLEND_BRIDGE_ROOT;
	case PCI_EXP_TYPE_UPSTREAM:
		return DLEND_BRIDGE_UP;
	case PCI_EXP_TYPE_DOWNSTREAM:
		return DLEND_BRIDGE_DOWN;
	default:
		return DLEND_BRIDGE_PCI;
	}
}

static bool lend_bridge_acs(struct pci_dev *bridge)
{
	int pos = pci_find_ext_capability(bridge, PCI_EXT_CAP_ID_ACS);
	u16 ctrl = 0;

	if (pos)
		pci_read_config_word(bridge, pos + PCI_ACS_CTRL, &ctrl);
	return (ctrl & LEND_ACS_REDIRECT) == LEND_ACS_REDIRECT;
}

/*
 * The next bridge above.  For a virtual function it is the one above its physical function: the
 * bus that Linux makes for virtual functions has no bridge of its own.
 */
static struct pci_dev *lend_bridge_above(struct pci_dev *pdev)
{
	return pci_upstream_bridge(pci_physfn(pdev));
}

static void lend_place_fill(struct pci_dev *pdev, const struct dlend_root *root,
			    struct dlend_p_place *place)
{
	struct pci_dev *bridge;
	unsigned int depth = 0;

	for (bridge = lend_bridge_above(pdev); bridge; bridge = lend_bridge_above(bridge))
		depth++;
	place->domain = cpu_to_le32(pci_domain_nr(pdev->bus));
	place->root_domain = cpu_to_le32(root->domain);
	place->island = cpu_to_le16(root->island);
	place->numa = cpu_to_le16(root->numa < 0 ? DLEND_ROOT_NO_NUMA : root->numa);
	place->payload = cpu_to_le16(root->payload);
	place->bus = root->bus;
	place->count = min(depth, DLEND_PLACE_MAX);
	for (bridge = lend_bridge_above(pdev); bridge; bridge = lend_bridge_above(bridge)) {
		struct dlend_p_bridge *b;

		if (depth-- > DLEND_PLACE_MAX)
			continue;
		b = &place->bridge[depth];
		b->bdf = cpu_to_le16(pci_dev_id(bridge));
		b->kind = lend_bridge_kind(bridge);
		b->flags = lend_bridge_acs(bridge) ? DLEND_BRIDGE_F_ACS : 0;
	}
}

void lend_place_fn_message(struct pci_dev *pdev, const struct dlend_addr *addr,
			   struct dlend_msg *msg)
{
	struct dlend_p_place *place;
	struct dlend_root root;

	dlend_root_of(pdev, &root);
	place = dlend_msg_init(msg, DLEND_MSG_PLACE, addr, 0, sizeof(*place));
	lend_place_fill(pdev, &root, place);
}

bool lend_place_link_message(struct dlend_link *link, struct dlend_msg *msg)
{
	struct pci_dev *pdev = dlend_root_link_pdev(link);
	struct dlend_p_place *place;
	struct dlend_root root;
	struct dlend_addr addr;
	bool found;

	if (!pdev)
		return false;
	found = dlend_root_of_link(link, &root);
	if (found) {
		addr = (struct dlend_addr){ .lender = dlend_node_id(), .bdf = pci_dev_id(pdev) };
		place = dlend_msg_init(msg, DLEND_MSG_PLACE, &addr, 0, sizeof(*place));
		lend_place_fill(pdev, &root, place);
		place->node = cpu_to_le16(dlend_link_peer(link));
	}
	pci_dev_put(pdev);
	return found;
}
