// SPDX-License-Identifier: GPL-2.0
/*
 * Lets requests of lent functions pass over links, where the hardware asks for that.
 *
 * Knows PCI ids, and those under which a function's requests may show; nothing of leases.
 */
#include <linux/pci.h>

#include <dlend/link.h>

#include "lender/admit.h"
#include "lender/fn.h"

/* Device and function numbers of a bus: the bits of pci_dev.dma_alias_mask. */
#define LEND_DEVFNS	256

/* The ids that a function has by itself: some devices use those of other functions, too. */
static int lend_admit_own(struct pci_dev *pdev, struct dlend_link *link, bool on)
{
	int err = dlend_link_admit(link, pci_dev_id(pdev), on);
	unsigned int devfn;

	if (err || !pdev->dma_alias_mask)
		return err;
	for_each_set_bit(devfn, pdev->dma_alias_mask, LEND_DEVFNS) {
		err = dlend_link_admit(link, PCI_DEVID(pdev->bus->number, devfn), on);
		if (err)
			return err;
	}
	return 0;
}

/*
 * A bridge to conventional PCI puts its own id on what comes from there.  The kernel's
 * pci_for_each_dma_alias() is not for modules; of its special cases, this knows the ordinary ones.
 */
static int lend_admit_bridges(struct pci_dev *pdev, struct dlend_link *link, bool on)
{
	struct pci_dev *bridge;
	int err = 0;

	for (bridge = pci_upstream_bridge(pdev); bridge && !err;
	     bridge = pci_upstream_bridge(bridge)) {
		if (pci_is_pcie(bridge) && pci_pcie_type(bridge) == PCI_EXP_TYPE_PCI_BRIDGE)
			err = dlend_link_admit(link, PCI_DEVID(bridge->subordinate->number, 0), on);
		else if (!pci_is_pcie(bridge))
			err = dlend_link_admit(link, pci_dev_id(bridge), on);
	}
	return err;
}

static int lend_admit_set(struct pci_dev *pdev, struct dlend_link *link, bool on)
{
	int err = lend_admit_own(pdev, link, on);

	return err ?: lend_admit_bridges(pdev, link, on);
}

int lend_admit(const struct lend_fn *fn, struct dlend_link *link)
{
	int err = lend_admit_set(fn->pdev, link, true);

	if (err == -ENOSPC)
		pci_err(fn->pdev, "not lent over link %s: its switch has no room for another requester; lend fewer devices over it\n",
			dlend_link_name(link));
	else if (err && err != -EAGAIN)
		pci_err(fn->pdev, "not lent over link %s: its switch does not take it as a requester (%d)\n",
			dlend_link_name(link), err);
	return err;
}

static int lend_admit_end_on(struct dlend_link *link, void *arg)
{
	const struct lend_fn *fn = arg;

	lend_admit_set(fn->pdev, link, false);
	return 0;
}

void lend_admit_end(const struct lend_fn *fn)
{
	dlend_link_for_each(lend_admit_end_on, (void *)fn);
}
