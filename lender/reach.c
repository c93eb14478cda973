// SPDX-License-Identifier: GPL-2.0
/*
 * What a borrower and a lent function reach: the function's BARs in this node's aperture, and the
 * borrower's memory in the domain of the function's group.
 *
 * BARs: when a lease ends, they are unmapped from the aperture at once.  Their offsets are used
 * again only after two things have happened: the device was reset, and the borrower has confirmed
 * that it does not use the offsets any more (RETURN), or has begun a new session.  The record of
 * such offsets (struct lend_bar_slots) may live longer than the lease and the function.
 */
#include <linux/slab.h>

#include <dlend/compat.h>

#include "lender/lender.h"
#include "lender/trace.h"

/*
 * struct lend_bar_slots - record of the offsets that a lease of a function has for its BARs
 * @node: in lend_bars_closed, after the lease (closed lock)
 * @link: to the borrower, referenced
 * @ap: this node's aperture on @link; exists until link_down() returns, and so does this record
 * @addr: name of the function
 * @epoch: of the lease
 * @acked: the borrower does not use the offsets any more (closed lock)
 * @reset: the function was reset since the lease ended, or nothing was mapped (closed lock)
 * @slot: during the lease: slot of each BAR, or NULL (group lock)
 * @cookie: after the lease: for dlend_slot_release(), or 0 (closed lock)
 */
struct lend_bar_slots {
	struct list_head node;
	struct dlend_link *link;
	struct dlend_aperture *ap;
	struct dlend_addr addr;
	u32 epoch;
	bool acked, reset;
	struct dlend_slot *slot[DLEND_NUM_REGIONS];
	u64 cookie[DLEND_NUM_REGIONS];
};

/*
 * The closed lock: guards the list of records whose lease is over.  The aperture of a record exists
 * as long as the record is in the list: link_down() of its link takes it out under this lock.
 */
static DEFINE_MUTEX(lend_bars_closed_lock);
static LIST_HEAD(lend_bars_closed);

static void lend_bar_slots_free(struct lend_bar_slots *slots)
{
	dlend_link_put(slots->link);
	kfree(slots);
}

/*
 * The slot is aligned to its size, up to 1 GiB, so that the borrower can map it with huge pages; or
 * to 2 MiB, if there is no room for that.
 */
struct dlend_slot *lend_bar_slot(struct dlend_aperture *ap, u64 span, enum dlend_slot_kind kind)
{
	u64 align = min_t(u64, span, SZ_1G);
	struct dlend_slot *slot;

	slot = dlend_slot_alloc(ap, span, align, 0, kind);
	if (IS_ERR(slot) && PTR_ERR(slot) == -ENOSPC && align > SZ_2M)
		slot = dlend_slot_alloc(ap, span, SZ_2M, 0, kind);
	return slot;
}

/* Log that BAR @i does not fit into the aperture. */
static void lend_bar_no_space(struct lend_fn *fn, unsigned int i, struct dlend_link *link,
			      struct dlend_aperture *ap)
{
	struct dlend_aperture_stat st = dlend_aperture_stat(ap);

	dev_err_ratelimited(&fn->pdev->dev,
			    "BAR %u (%llu KiB) does not fit into the window to node %u: %llu KiB in all, %llu KiB free, largest piece %llu KiB; return other devices, or make the window larger in the NTB's set-up\n",
			    i, fn->bar[i].span >> 10, dlend_link_peer(link), st.size >> 10,
			    st.free >> 10, st.largest_free >> 10);
}

/* Map the bytes from @from up to @to of a BAR in its slot; nothing if there are none. */
static int lend_bar_part(struct dlend_slot *slot, const struct lend_bar *bar, u64 from, u64 to)
{
	if (from >= to)
		return 0;
	return dlend_slot_map_phys(slot, (struct dlend_piece) {
		.offset = from,
		.size = to - from,
		.phys = bar->phys + from,
		.prot = DLEND_PROT_READ | DLEND_PROT_WRITE,
		.mmio = true,
	});
}

int lend_bar_fill(struct dlend_slot *slot, const struct lend_bar *bar)
{
	int ret;

	if (bar->hole_end <= bar->hole)
		return lend_bar_part(slot, bar, 0, bar->span);
	ret = lend_bar_part(slot, bar, 0, bar->hole);
	return ret ?: lend_bar_part(slot, bar, bar->hole_end, bar->span);
}

struct lend_bar_slots *lend_bars_reserve(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
					 __le64 *offset)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct lend_bar_slots *slots;
	struct dlend_slot *slot;

	if (!ap)
		return ERR_PTR(-ENOTCONN);
	slots = kzalloc_obj(*slots);
	if (!slots)
		return ERR_PTR(-ENOMEM);
	slots->link = dlend_link_get(link);
	slots->ap = ap;
	slots->addr = fn->addr;
	slots->epoch = epoch;

	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		offset[i] = cpu_to_le64(U64_MAX);
		if (!fn->bar[i].span)
			continue;
		slot = lend_bar_slot(ap, fn->bar[i].span, DLEND_SLOT_BAR);
		if (IS_ERR(slot)) {
			if (PTR_ERR(slot) == -ENOSPC)
				lend_bar_no_space(fn, i, link, ap);
			goto undo;
		}
		slots->slot[i] = slot;
		offset[i] = cpu_to_le64(slot->offset);
	}
	return slots;

undo:
	/* true: the borrower does not know the offsets, so they need no quarantine. */
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		if (slots->slot[i])
			dlend_slot_free(slots->slot[i], true);
	lend_bar_slots_free(slots);
	return ERR_CAST(slot);
}

/*
 * Map all BARs in the slots of @slots.  Return: 0; the first error: the BARs from there on are not
 * mapped.
 */
static int lend_bars_fill(struct lend_fn *fn, struct lend_bar_slots *slots)
{
	int ret = 0;

	for (unsigned int i = 0; i < DLEND_NUM_REGIONS && !ret; i++) {
		struct dlend_slot *slot = slots->slot[i];

		if (!slot)
			continue;
		ret = lend_bar_fill(slot, &fn->bar[i]);
		trace_dlend_lend_window(&fn->addr, "bar", true, i, slot->offset, slot->size, ret);
		if (ret)
			dev_err_ratelimited(&fn->pdev->dev,
					    "BAR %u, and those after it, cannot be mapped for node %u (%d): there is no memory for it, or the IOMMU of the NTB refuses it\n",
					    i, dlend_link_peer(slots->link), ret);
	}
	return ret;
}

int lend_bars_take(struct lend_fn *fn, struct lend_bar_slots *slots)
{
	fn->slots = slots;
	return lend_bars_fill(fn, slots);
}

/*
 * Is the borrower on this host?  Then the BARs stay mapped in the aperture during a reset.  Such a
 * borrower has shut its gate and unmapped the BARs from its guest before it asks for a reset.
 * (In a reset through sysfs its guest may read all ones.)  And to unmap a BAR here would revoke its
 * window onto the BAR (dlend_window.revoked), and its guest could not reach the BAR before the next
 * lease.
 */
static bool lend_bars_stay_mapped(const struct lend_bar_slots *slots)
{
	return dlend_link_peer(slots->link) == dlend_node_id();
}

void lend_bars_hide(struct lend_fn *fn)
{
	struct lend_bar_slots *slots = fn->slots;
	struct dlend_slot *slot;

	if (!slots || lend_bars_stay_mapped(slots))
		return;
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		slot = slots->slot[i];
		if (!slot)
			continue;
		dlend_slot_unmap(slot, 0, slot->size);
		trace_dlend_lend_window(&fn->addr, "bar", false, i, slot->offset, slot->size, 0);
	}
}

int lend_bars_show(struct lend_fn *fn)
{
	struct lend_bar_slots *slots = fn->slots;
	int ret;

	if (!slots || lend_bars_stay_mapped(slots))
		return 0;
	ret = lend_bars_fill(fn, slots);
	if (ret)
		dev_err_ratelimited(&fn->pdev->dev, "these BARs stay out of reach until the next reset, or lease\n");
	return ret;
}

/* Unmap the slots of a record, and put the record into the list of those in quarantine. */
static void lend_bar_slots_close(struct lend_bar_slots *slots)
{
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		if (!slots->slot[i])
			continue;
		trace_dlend_lend_window(&slots->addr, "bar", false, i, slots->slot[i]->offset,
					slots->slot[i]->size, 0);
		/* false: the borrower may still use the offset: it goes into quarantine. */
		slots->cookie[i] = dlend_slot_free(slots->slot[i], false);
		slots->slot[i] = NULL;
	}
	guard(mutex)(&lend_bars_closed_lock);
	list_add_tail(&slots->node, &lend_bars_closed);
}

void lend_bars_close(struct lend_fn *fn)
{
	struct lend_bar_slots *slots = fn->slots;

	fn->slots = NULL;
	if (slots)
		lend_bar_slots_close(slots);
}

void lend_bars_drop(struct lend_bar_slots *slots)
{
	/* Nothing was mapped at these offsets, so no reset is needed before they are free. */
	slots->reset = true;
	lend_bar_slots_close(slots);
}

/* @acked and @reset are set: end the offsets' quarantine, and free the record.  Closed lock. */
static void lend_bar_slots_release(struct lend_bar_slots *slots)
{
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		if (slots->cookie[i])
			dlend_slot_release(slots->ap, slots->cookie[i]);
	trace_dlend_fence(&slots->addr, "slots_free", slots->epoch);
	list_del(&slots->node);
	lend_bar_slots_free(slots);
}

void lend_bars_acked(struct dlend_link *link, const struct dlend_addr *addr, u32 epoch)
{
	struct lend_bar_slots *slots, *next;

	guard(mutex)(&lend_bars_closed_lock);
	list_for_each_entry_safe(slots, next, &lend_bars_closed, node) {
		if (slots->link != link || slots->addr.bdf != addr->bdf ||
		    dlend_epoch_after(slots->epoch, epoch))
			continue;
		slots->acked = true;
		if (slots->reset)
			lend_bar_slots_release(slots);
	}
}

void lend_bars_reset_done(const struct lend_fn *fn)
{
	struct lend_bar_slots *slots, *next;

	guard(mutex)(&lend_bars_closed_lock);
	list_for_each_entry_safe(slots, next, &lend_bars_closed, node) {
		if (slots->addr.bdf != fn->addr.bdf)
			continue;
		slots->reset = true;
		if (slots->acked)
			lend_bar_slots_release(slots);
	}
}

void lend_bars_link_lost(struct dlend_link *link)
{
	struct lend_bar_slots *slots, *next;

	guard(mutex)(&lend_bars_closed_lock);
	list_for_each_entry_safe(slots, next, &lend_bars_closed, node) {
		if (slots->link != link)
			continue;
		list_del(&slots->node);
		lend_bar_slots_free(slots);
	}
}

/*
 * The borrower's memory: a lent device uses guest-physical addresses as IOVAs.  The group's domain
 * maps them to the physical addresses of this node's window to the borrower, at the offset in the
 * borrower's aperture that the DMA_MAP message names.
 *
 * Functions of one group share one IOMMU domain.  A guest that has two of them maps its memory
 * through both, so each function is a range owner in that domain (struct dlend_owner).
 */

/*
 * The mappings of a group together may be so many times as large as the window to its borrower.  An
 * honest borrower maps each byte of the window at one address.  One that maps a byte at more and
 * more addresses could fill this host's memory with page tables.  The limit is above one window,
 * because devices of the guest may come and go.
 */
#define LEND_DMA_WINDOWS	2

/* Domain, link and range owner to which DMA_MAP and DMA_UNMAP of a holder or a standby apply. */
struct lend_reach {
	struct dlend_domain *domain;
	struct dlend_link *link;
	struct dlend_owner *owner;
};

/* @standby: that of the standby, not of the holder.  Group lock; nothing is referenced. */
static struct lend_reach lend_dma_reach(struct lend_fn *fn, bool standby)
{
	struct lend_group *group = fn->group;

	return (struct lend_reach){
		.domain = standby ? group->standby.domain : group->domain,
		.link = standby ? group->standby.link : group->link,
		.owner = &fn->memory[fn->holder_index ^ standby],
	};
}

static int lend_dma_map_entry(struct lend_fn *fn, const struct lend_reach *to,
			      const struct dlend_p_dma_entry *entry)
{
	const struct dlend_dma_range r = {
		.iova = le64_to_cpu(entry->gpa),
		.size = le64_to_cpu(entry->size),
		.offset = le64_to_cpu(entry->offset),
		.prot = le32_to_cpu(entry->prot),
	};
	u64 bytes = dlend_domain_bytes(to->domain, DLEND_OWNER_RAM);
	int ret = -ENOSPC;

	if (bytes + r.size <= LEND_DMA_WINDOWS * dlend_link_window_bytes(to->link))
		ret = dlend_link_dma_map(to->link, to->domain, to->owner, &r);
	trace_dlend_lend_window(&fn->addr, "dma", true, r.iova, r.offset, r.size, ret);
	if (ret)
		dev_err_ratelimited(&fn->pdev->dev, "guest memory 0x%llx (0x%llx bytes, window offset 0x%llx of node %u) cannot be mapped (%d)\n",
				    r.iova, r.size, r.offset, dlend_link_peer(to->link), ret);
	return ret;
}

int lend_dma_map(struct lend_fn *fn, bool standby, const struct dlend_p_dma *dma)
{
	struct lend_reach to = lend_dma_reach(fn, standby);
	u32 count = le32_to_cpu(dma->count), i;
	int ret = 0;

	for (i = 0; i < count && !ret; i++)
		ret = lend_dma_map_entry(fn, &to, &dma->entry[i]);
	if (!ret)
		return 0;
	/* The last entry that was tried has failed: undo those before it. */
	for (i--; i--; )
		dlend_domain_unmap(to.domain, to.owner, le64_to_cpu(dma->entry[i].gpa),
				   le64_to_cpu(dma->entry[i].size));
	return ret;
}

int lend_dma_unmap(struct lend_fn *fn, bool standby, const struct dlend_p_dma *dma)
{
	struct lend_reach to = lend_dma_reach(fn, standby);
	int first = 0, ret;

	for (u32 i = 0; i < le32_to_cpu(dma->count); i++) {
		u64 gpa = le64_to_cpu(dma->entry[i].gpa), size = le64_to_cpu(dma->entry[i].size);

		ret = dlend_domain_unmap(to.domain, to.owner, gpa, size);
		trace_dlend_lend_window(&fn->addr, "dma", false, gpa, 0, size, ret);
		if (ret != -ENOENT)
			first = first ?: ret;
	}
	return first;
}

void lend_dma_forget(struct lend_fn *fn)
{
	if (fn->group->domain)
		dlend_domain_drop(fn->group->domain, &fn->memory[fn->holder_index]);
}
