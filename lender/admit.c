// SPDX-License-Identifier: GPL-2.0
/*
 * Lets requests of lent functions pass over links, where the hardware asks for that.
 *
 * A link is always told of all functions at once: what is bound here keeps its place, what is not
 * loses it, on each link that there is, and by whatever call comes next.  So nothing has to be
 * undone for a function that goes, and what could not be told is told again.
 *
 * Knows PCI ids, and those under which a function's requests may show; nothing of leases.
 */
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <dlend/link.h>

#include "lender/admit.h"
#include "lender/fn.h"
#include "lender/registry.h"

/* Device and function numbers of a bus: the bits of pci_dev.dma_alias_mask. */
#define LEND_DEVFNS		256

/* Pauses before links are told again, each twice as long as the one before. */
#define LEND_ADMIT_PAUSE_MS	500
#define LEND_ADMIT_PAUSE_MAX_MS	60000

/* From finding out what is bound here until a link was told. */
static DEFINE_MUTEX(lend_admit_lock);
static struct dlend_requesters lend_admit_these;

static unsigned int lend_admit_pause_ms;

/* The ids that a function has by itself: some devices use those of other functions, too. */
static void lend_admit_own(struct pci_dev *pdev, unsigned long *ids)
{
	unsigned int devfn;

	__set_bit(pci_dev_id(pdev), ids);
	if (!pdev->dma_alias_mask)
		return;
	for_each_set_bit(devfn, pdev->dma_alias_mask, LEND_DEVFNS)
		__set_bit(PCI_DEVID(pdev->bus->number, devfn), ids);
}

/*
 * A bridge to conventional PCI puts its own id on what comes from there.  The kernel's
 * pci_for_each_dma_alias() is not for modules; of its special cases, this knows the ordinary ones.
 */
static void lend_admit_bridges(struct pci_dev *pdev, unsigned long *ids)
{
	struct pci_dev *bridge;

	for (bridge = pci_upstream_bridge(pdev); bridge; bridge = pci_upstream_bridge(bridge)) {
		if (pci_is_pcie(bridge) && pci_pcie_type(bridge) == PCI_EXP_TYPE_PCI_BRIDGE)
			__set_bit(PCI_DEVID(bridge->subordinate->number, 0), ids);
		else if (!pci_is_pcie(bridge))
			__set_bit(pci_dev_id(bridge), ids);
	}
}

static void lend_admit_ids(struct pci_dev *pdev, unsigned long *ids)
{
	lend_admit_own(pdev, ids);
	lend_admit_bridges(pdev, ids);
}

/* What is bound here keeps its place.  Return: is @fn?  Admit lock. */
static bool lend_admit_gather(const struct lend_fn *fn)
{
	unsigned int count;
	struct lend_fn **all = lend_fn_all(&count);
	bool bound = false;

	memset(&lend_admit_these, 0, sizeof(lend_admit_these));
	while (count--) {
		bound |= all[count] == fn;
		lend_admit_ids(all[count]->pdev, lend_admit_these.keep);
		lend_fn_put(all[count]);
	}
	kfree(all);
	return bound;
}

int lend_admit(const struct lend_fn *fn, struct dlend_link *link)
{
	int err;

	guard(mutex)(&lend_admit_lock);
	/* It goes, and nobody will hear of it. */
	if (!lend_admit_gather(fn))
		return 0;
	lend_admit_ids(fn->pdev, lend_admit_these.add);
	err = dlend_link_admit(link, &lend_admit_these);
	if (err == -ENOSPC)
		pci_err(fn->pdev, "not lent over link %s: it needs %u of the %u places in its switch's table of requesters, and %u are free; take other devices back, then it is lent by itself\n",
			dlend_link_name(link), lend_admit_these.needed, lend_admit_these.places,
			lend_admit_these.free);
	else if (err && err != -EAGAIN && err != -ENODEV)
		pci_err(fn->pdev, "not lent over link %s: its switch does not take it as a requester (%d)\n",
			dlend_link_name(link), err);
	return err;
}

/* Admit lock. */
static int lend_admit_tell(struct dlend_link *link, void *arg)
{
	int err = dlend_link_admit(link, &lend_admit_these);
	bool *again = arg;

	/* If the hardware goes, it was told that nothing passes any more. */
	*again |= err && err != -ENODEV;
	return 0;
}

static void lend_admit_work(struct work_struct *work)
{
	bool again = false;

	mutex_lock(&lend_admit_lock);
	lend_admit_gather(NULL);
	dlend_links_each(lend_admit_tell, &again);
	mutex_unlock(&lend_admit_lock);
	if (!again)
		return;
	queue_delayed_work(lend_wq, to_delayed_work(work),
			   msecs_to_jiffies(READ_ONCE(lend_admit_pause_ms)));
	WRITE_ONCE(lend_admit_pause_ms,
		   min(2 * READ_ONCE(lend_admit_pause_ms), LEND_ADMIT_PAUSE_MAX_MS));
}

static DECLARE_DELAYED_WORK(lend_admit_telling, lend_admit_work);

void lend_admit_end(void)
{
	WRITE_ONCE(lend_admit_pause_ms, LEND_ADMIT_PAUSE_MS);
	mod_delayed_work(lend_wq, &lend_admit_telling, 0);
}

void lend_admit_exit(void)
{
	flush_delayed_work(&lend_admit_telling);
	cancel_delayed_work_sync(&lend_admit_telling);
}
