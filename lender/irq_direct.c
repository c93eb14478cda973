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
	int ret = lend_direct_map(fn, want->direct);

	if (ret)
		return ret;
	ret = lend_irq_alloc_vectors(fn, want->mode, want->count);
	if (ret) {
		dlend_domain_drop(fn->group->domain, &fn->irq.owner);
		return ret;
	}
	for (u32 i = 0; i < want->count; i++)
		lend_direct_write(fn, i, &want->message[i]);
	return 0;
}

/* Nothing is handled here, so there is nothing to wait for. */
static void lend_direct_down(struct lend_fn *fn)
{
	lend_irq_free_vectors(fn->pdev);
	dlend_domain_drop(fn->group->domain, &fn->irq.owner);
}

/*
 * The answer to a read cannot pass what the device has written.  From here to the borrower it is
 * pushed before the borrower has its answer (lend_request_message()).
 */
static void lend_direct_finish(struct lend_fn *fn)
{
	u32 id;

	pci_read_config_dword(fn->pdev, PCI_VENDOR_ID, &id);
}

const struct lend_irq_way lend_irq_way_direct = {
	.name = "direct",
	.up = lend_direct_up,
	.down = lend_direct_down,
	.finish = lend_direct_finish,
};
