// SPDX-License-Identifier: GPL-2.0
/*
 * What a lent device may reach by DMA: guest-physical addresses, mapped to the aperture of the
 * borrower as the link reaches it.
 *
 * Functions of one group share one IOMMU domain.  A guest that has two of them maps its memory
 * through both, so each function is an owner of its own there (dlend/aperture.h).
 *
 * Knows nothing of leases: it is called under the group lock, for a holder that was checked.
 */
#include "lender/dma.h"
#include "lender/group.h"
#include "lender/trace.h"

/*
 * How much a group may map, in windows of its borrower.  A guest has each byte of the window at one
 * address.  A borrower that maps it at more and more addresses could fill this host's memory with
 * page tables.  The limit is above one window, because devices of the guest may come and go.
 */
#define LEND_DMA_WINDOWS	2

static bool lend_dma_fits(const struct lend_reach *to, u64 size)
{
	u64 bytes = dlend_domain_bytes(to->domain, DLEND_OWNER_RAM);

	return bytes + size <= LEND_DMA_WINDOWS * dlend_link_window_bytes(to->link);
}

static int lend_dma_map_range(const struct lend_reach *to, const struct dlend_dma_range *r)
{
	if (!r->size || r->iova + r->size < r->iova || !r->prot ||
	    r->prot & ~(DLEND_PROT_READ | DLEND_PROT_WRITE))
		return -EINVAL;
	if (!lend_dma_fits(to, r->size))
		return -ENOSPC;
	return dlend_link_dma_map(to->link, to->domain, to->owner, r);
}

/* dlend_msg_check() has checked the form of the message; this checks what only the lender knows. */
static int lend_dma_map_entry(struct lend_fn *fn, const struct lend_reach *to,
			      const struct dlend_p_dma_entry *entry)
{
	const struct dlend_dma_range r = {
		.iova = le64_to_cpu(entry->gpa),
		.size = le64_to_cpu(entry->size),
		.offset = le64_to_cpu(entry->offset),
		.prot = le32_to_cpu(entry->prot),
	};
	int ret = lend_dma_map_range(to, &r);

	trace_dlend_lend_window(&fn->addr, "dma", true, r.iova, r.offset, r.size, ret);
	if (ret)
		dev_err_ratelimited(&fn->pdev->dev, "guest memory 0x%llx (0x%llx bytes, window offset 0x%llx of node %u) cannot be mapped (%d)\n",
				    r.iova, r.size, r.offset, dlend_link_peer(to->link), ret);
	return ret;
}

static int lend_dma_unmap_range(const struct lend_reach *to, u64 gpa, u64 size)
{
	return dlend_domain_unmap(to->domain, to->owner, gpa, size);
}

void lend_dma_reach(struct lend_fn *fn, struct lend_reach *to)
{
	to->domain = fn->group->domain;
	to->link = fn->group->link;
	to->owner = &fn->memory[fn->which];
}

int lend_dma_map(struct lend_fn *fn, const struct lend_reach *to, const struct dlend_p_dma *dma)
{
	u32 count = le32_to_cpu(dma->count);
	int ret = 0;
	u32 i;

	if (!count || count > DLEND_DMA_PER_MSG)
		return -EINVAL;
	for (i = 0; i < count && !ret; i++)
		ret = lend_dma_map_entry(fn, to, &dma->entry[i]);
	if (!ret)
		return 0;
	for (i--; i--; )
		lend_dma_unmap_range(to, le64_to_cpu(dma->entry[i].gpa),
				     le64_to_cpu(dma->entry[i].size));
	return ret;
}

int lend_dma_unmap(struct lend_fn *fn, const struct lend_reach *to, const struct dlend_p_dma *dma)
{
	u32 count = le32_to_cpu(dma->count);
	int first = 0;

	if (!count || count > DLEND_DMA_PER_MSG)
		return -EINVAL;
	for (u32 i = 0; i < count; i++) {
		u64 gpa = le64_to_cpu(dma->entry[i].gpa), size = le64_to_cpu(dma->entry[i].size);
		int ret = -EINVAL;

		if (size && gpa + size > gpa)
			ret = lend_dma_unmap_range(to, gpa, size);
		trace_dlend_lend_window(&fn->addr, "dma", false, gpa, 0, size, ret);
		if (ret == -ENOENT)
			ret = 0;
		if (!first)
			first = ret;
	}
	return first;
}

void lend_dma_forget(struct lend_fn *fn)
{
	if (fn->group->domain)
		dlend_domain_drop(fn->group->domain, &fn->memory[fn->which]);
}
