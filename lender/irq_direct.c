// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts that no handler takes here: the device writes its messages through the second window
 * of the link into the borrower's IOMMU.
 *
 * Where an x86 processor takes interrupts (from 0xfee00000 on) an IOMMU translates nothing.  So the
 * device writes to the addresses behind that, which its domain maps to the window.
 *
 * Knows nothing of leases: it is called under the group lock.
 */
#include <linux/irq.h>
#include <linux/msi.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "lender/group.h"
#include "lender/irq_way.h"

#define LEND_DIRECT_IOVA	0xfef00000u

static int lend_direct_map(struct lend_fn *fn, const struct dlend_p_direct *p)
{
	struct dlend_dma_range r = {
		.iova = LEND_DIRECT_IOVA,
		.size = DLEND_DIRECT_SIZE,
		.prot = DLEND_PROT_WRITE,
		.mmio = true,
		.thing = LEND_DIRECT_IOVA,
	};
	int ret;

	ret = dlend_link_interrupts(fn->group->link, le64_to_cpu(p->page), &r.phys);
	if (ret)
		return ret;
	ret = dlend_domain_map(fn->group->domain, &fn->irq.owner, &r);
	/* The guest has memory there, or the IOMMU something of its own. */
	return ret == -EEXIST || ret == -ERANGE ? -EOPNOTSUPP : ret;
}

static void lend_direct_write(struct lend_fn *fn, u32 index, const struct dlend_p_message *m)
{
	unsigned int irq = pci_irq_vector(fn->pdev, index);
	struct msi_msg msg = {
		.address_lo = LEND_DIRECT_IOVA + le32_to_cpu(m->at),
		.data = le32_to_cpu(m->data),
	};

	/* Those of MSI differ in the number that the device adds. */
	if (!index || fn->pdev->msix_enabled)
		pci_write_msi_msg(irq, &msg);
	pci_msi_unmask_irq(irq_get_irq_data(irq));
}

static int lend_direct_up(struct lend_fn *fn, const struct lend_irq_want *want)
{
	const struct dlend_p_direct *p = want->direct;
	struct dlend_p_message *message;
	int ret;

	message = kvcalloc(want->count, sizeof(*message), GFP_KERNEL);
	if (!message)
		return -ENOMEM;
	ret = dlend_irq_source_messages(fn->irq.source, le64_to_cpu(p->table), want->count,
					message);
	if (ret)
		goto free_message;
	ret = lend_direct_map(fn, p);
	if (ret)
		goto free_message;
	ret = lend_irq_alloc_vectors(fn, want->mode, want->count);
	if (ret) {
		dlend_domain_drop(fn->group->domain, &fn->irq.owner);
		goto free_message;
	}
	for (u32 i = 0; i < want->count; i++)
		lend_direct_write(fn, i, &message[i]);
free_message:
	kvfree(message);
	return ret;
}

/* Nothing is handled here, so there is nothing to wait for. */
static void lend_direct_down(struct lend_fn *fn)
{
	lend_irq_free_vectors(fn->pdev);
	dlend_domain_drop(fn->group->domain, &fn->irq.owner);
}

/* The answers to reads cannot pass what the device has written, first to here, then to there. */
static void lend_direct_finish(struct lend_fn *fn)
{
	u32 id;

	pci_read_config_dword(fn->pdev, PCI_VENDOR_ID, &id);
	dlend_irq_source_push(fn->irq.source);
}

const struct lend_irq_way lend_irq_way_direct = {
	.name = "direct",
	.up = lend_direct_up,
	.down = lend_direct_down,
	.finish = lend_direct_finish,
};
