// SPDX-License-Identifier: GPL-2.0
/*
 * Raw slots: dlend/raw_slot.h.
 *
 * A raw slot has a notifier of its slot, whose unmap() is called when the aperture is detached or
 * the slot is unmapped.  Pages are mapped in the aperture's domain without the aperture's lock; the
 * slot's user has a reference on the domain.
 *
 * After a raw slot was cut, its user goes on to map and unmap.  These calls do not change the
 * aperture's domain any more, only the record, and return no error: some drivers, nvme for one, try
 * again for ever after an error.
 *
 * A record that is made at the cut (dlend_raw_domains.lazy) is made page by page: the page enters
 * the record, and is unmapped in the aperture's domain, under one lock.
 */
#include <linux/iommu.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/raw_slot.h>
#include <dlend/types.h>
#include "aperture.h"
#include "paging.h"

DEFINE_STATIC_SRCU(dlend_raw_srcu);

/* Bytes that are unmapped at once with interrupts off. */
#define DLEND_RAW_CLEAR_BYTES	((u64)SZ_2M)
/* Bytes that are unmapped before other threads get their turn. */
#define DLEND_RAW_CLEAR_AT_ONCE	SZ_64M

/*
 * enum dlend_raw_phase - how far a raw slot is cut
 * @DLEND_RAW_OPEN: it is not cut
 * @DLEND_RAW_CUTTING: no new pages are mapped, and mapped ones are being unmapped
 * @DLEND_RAW_CUT: no page is mapped
 */
enum dlend_raw_phase { DLEND_RAW_OPEN, DLEND_RAW_CUTTING, DLEND_RAW_CUT };

/*
 * struct dlend_raw_slot - see dlend/raw_slot.h
 * @ap, @slot: aperture, and the slot there
 * @notifier: registered for all of the slot; its unmap() cuts the slot
 * @base: IOVA of the first byte in the aperture's IOMMU domain
 * @iova: IOVA of the first byte in the record
 * @domains: its user's, which outlive it: the user may flush earlier unmaps after a cut
 * @phase: how far the slot is cut; written under the aperture's lock, read under dlend_raw_srcu
 * @clearing: in phase DLEND_RAW_CUTTING, both the cut and the user unmap pages, under this lock. If
 *	the record is lazy, it also guards that
 */
struct dlend_raw_slot {
	struct dlend_aperture *ap;
	struct dlend_slot *slot;
	struct dlend_notifier notifier;
	u64 base, iova;
	const struct dlend_raw_domains *domains;
	enum dlend_raw_phase phase;
	spinlock_t clearing;		/* see above */
};

int dlend_raw_domains_get(struct dlend_raw_domains *d, struct dlend_aperture *ap, bool lazy)
{
	struct dlend_paging *pg = dlend_aperture_paging(ap);
	struct iommu_domain *memory;

	if (IS_ERR(pg))
		return PTR_ERR(pg);
	memory = iommu_paging_domain_alloc(pg->dev);
	if (IS_ERR(memory)) {
		dlend_paging_put(pg);
		return PTR_ERR(memory);
	}
	*d = (struct dlend_raw_domains) {
		.pg = pg, .reach = pg->domain, .memory = memory, .lazy = lazy,
	};
	return 0;
}
DLEND_EXPORT(dlend_raw_domains_get);

void dlend_raw_domains_put(struct dlend_raw_domains *d)
{
	if (!d->pg)
		return;
	iommu_domain_free(d->memory);
	dlend_paging_put(d->pg);
}
DLEND_EXPORT(dlend_raw_domains_put);

/* Unmap @iova to @end, of which parts may be unmapped already. */
static void dlend_raw_unmap_rest(struct iommu_domain *domain, u64 iova, u64 end)
{
	size_t done;

	while (iova < end) {
		done = iommu_iova_to_phys(domain, iova) ? iommu_unmap(domain, iova, end - iova) : 0;
		/* For an unmapped address the IOMMU core does not say how large the hole is. */
		iova += done ?: PAGE_SIZE;
	}
}

/*
 * Record where the pages from @at to @end lead.  Under clearing.  Without memory for that, the DMA
 * API warns when such a page is unmapped, and its IOVA stays in use; nothing reaches the page.
 */
static void dlend_raw_record(struct dlend_raw_slot *raw, u64 at, u64 end)
{
	phys_addr_t phys;

	for (; at < end; at += PAGE_SIZE) {
		phys = iommu_iova_to_phys(raw->domains->reach, raw->base + at);
		if (phys)
			iommu_map(raw->domains->memory, raw->iova + at, phys, PAGE_SIZE,
				  IOMMU_READ | IOMMU_WRITE, GFP_ATOMIC);
	}
}

/* In phase DLEND_RAW_CUTTING: unmap @at to @end. @cut: false: for the user, so record nothing */
static void dlend_raw_clear(struct dlend_raw_slot *raw, u64 at, u64 end, bool cut)
{
	unsigned long flags;
	u64 some, over;

	/*
	 * VT-d of Linux 6.12 takes the memory behind a large page for a page table if only a part
	 * of the page is unmapped: so no piece ends within one.
	 */
	for (; at < end; at += some) {
		over = (raw->base + at) % DLEND_RAW_CLEAR_BYTES;
		some = min(end - at, DLEND_RAW_CLEAR_BYTES - over);
		spin_lock_irqsave(&raw->clearing, flags);
		if (cut && raw->domains->lazy)
			dlend_raw_record(raw, at, at + some);
		dlend_raw_unmap_rest(raw->domains->reach, raw->base + at, raw->base + at + some);
		spin_unlock_irqrestore(&raw->clearing, flags);
	}
}

/*
 * The aperture's lock is held.  The first call cuts the whole slot.  If the user unmaps pages
 * during the cut, these are out of reach when the user's call returns, as always.
 */
static void dlend_raw_slot_lost(struct dlend_notifier *notifier, u64 at, u64 size)
{
	struct dlend_raw_slot *raw = container_of(notifier, struct dlend_raw_slot, notifier);
	u64 done, end = raw->slot->size;

	if (raw->phase != DLEND_RAW_OPEN)
		return;
	WRITE_ONCE(raw->phase, DLEND_RAW_CUTTING);
	synchronize_srcu(&dlend_raw_srcu);
	for (done = 0; done < end; done += DLEND_RAW_CLEAR_AT_ONCE) {
		dlend_raw_clear(raw, done, min(end, done + DLEND_RAW_CLEAR_AT_ONCE), true);
		cond_resched();
	}
	/* Another slot may get the offsets before the user has flushed its unmapped pages. */
	iommu_flush_iotlb_all(raw->domains->reach);
	WRITE_ONCE(raw->phase, DLEND_RAW_CUT);
	synchronize_srcu(&dlend_raw_srcu);
}

static const struct dlend_notifier_ops dlend_raw_slot_notifier_ops = {
	.unmap = dlend_raw_slot_lost,
};

/* Reserve @size bytes, aligned for the largest pages that fit. Return: as dlend_slot_alloc(). */
static struct dlend_slot *dlend_raw_slot_reserve(struct dlend_aperture *ap, u64 size)
{
	struct dlend_slot *slot = ERR_PTR(-ENOSPC);
	u64 align;

	for (align = SZ_1G; align >= SZ_2M && IS_ERR(slot); align >>= 9)
		if (size >= align)
			slot = dlend_slot_alloc(ap, size, align, 0, DLEND_SLOT_RAM);
	/* Large pages of the user are large pages here, too, so no unmap ends within one. */
	return size < SZ_2M ? dlend_slot_alloc(ap, size, 0, 0, DLEND_SLOT_RAM) : slot;
}

struct dlend_raw_slot *dlend_raw_slot_open(const struct dlend_raw_domains *d,
					   struct dlend_aperture *ap, u64 iova, u64 size)
{
	struct dlend_raw_slot *raw = kzalloc_obj(*raw);
	int err;

	if (!raw)
		return ERR_PTR(-ENOMEM);
	raw->ap = ap;
	raw->iova = iova;
	raw->domains = d;
	spin_lock_init(&raw->clearing);
	raw->slot = dlend_raw_slot_reserve(ap, size);
	if (IS_ERR(raw->slot)) {
		err = PTR_ERR(raw->slot);
		goto free_raw;
	}
	raw->base = dlend_aperture_base(ap) + raw->slot->offset;
	raw->notifier.ops = &dlend_raw_slot_notifier_ops;
	raw->notifier.offset = raw->slot->offset;
	raw->notifier.size = raw->slot->size;
	err = dlend_notifier_register(ap, &raw->notifier, false, NULL /* nothing is mapped */);
	if (err)
		goto free_slot;
	return raw;

free_slot:
	dlend_slot_free(raw->slot, true /* acked */);
free_raw:
	kfree(raw);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_raw_slot_open);

void dlend_raw_slot_revoke(struct dlend_raw_slot *raw)
{
	dlend_slot_unmap(raw->slot, 0, raw->slot->size);
}
DLEND_EXPORT(dlend_raw_slot_revoke);

void dlend_raw_slot_close(struct dlend_raw_slot *raw, bool acked)
{
	dlend_raw_slot_revoke(raw);
	dlend_notifier_unregister(raw->ap, &raw->notifier);
	dlend_slot_free(raw->slot, acked);
	kfree(raw);
}
DLEND_EXPORT(dlend_raw_slot_close);

u64 dlend_raw_slot_offset(const struct dlend_raw_slot *raw)
{
	return raw->slot->offset;
}
DLEND_EXPORT(dlend_raw_slot_offset);

/* Under dlend_raw_srcu. */
static int dlend_raw_slot_map_in(struct dlend_raw_slot *raw, const struct dlend_piece *piece,
				 gfp_t gfp)
{
	bool open = READ_ONCE(raw->phase) == DLEND_RAW_OPEN;
	u64 iova = raw->iova + piece->offset;
	int err = 0;

	if (!open || !raw->domains->lazy)
		err = iommu_map(raw->domains->memory, iova, piece->phys, piece->size,
				IOMMU_READ | IOMMU_WRITE, gfp);
	if (err || !open)
		return err;
	err = iommu_map(raw->domains->reach, raw->base + piece->offset, piece->phys, piece->size,
			dlend_paging_prot(piece->prot), gfp);
	if (err && !raw->domains->lazy)
		iommu_unmap(raw->domains->memory, iova, piece->size);
	return err;
}

int dlend_raw_slot_map(struct dlend_raw_slot *raw, const struct dlend_piece *piece, gfp_t gfp)
{
	int idx = srcu_read_lock(&dlend_raw_srcu);
	/* A cut waits for this: see DLEND_PAGING_GFP. */
	int err = dlend_raw_slot_map_in(raw, piece, gfp & ~(__GFP_IO | __GFP_FS));

	srcu_read_unlock(&dlend_raw_srcu, idx);
	return err;
}
DLEND_EXPORT(dlend_raw_slot_map);

/* Under dlend_raw_srcu. */
static size_t dlend_raw_slot_unmap_in(struct dlend_raw_slot *raw, u64 at, size_t size,
				      struct iommu_iotlb_gather *gather)
{
	enum dlend_raw_phase phase = READ_ONCE(raw->phase);
	u64 iova = raw->iova + at;
	unsigned long flags;
	size_t done = size;

	if (phase == DLEND_RAW_OPEN)
		done = iommu_unmap_fast(raw->domains->reach, raw->base + at, size, gather);
	else if (phase == DLEND_RAW_CUTTING)
		dlend_raw_clear(raw, at, at + size, false /* for the user */);
	if (!raw->domains->lazy)
		return iommu_unmap(raw->domains->memory, iova, size);
	if (phase == DLEND_RAW_OPEN)
		return done;
	spin_lock_irqsave(&raw->clearing, flags);
	dlend_raw_unmap_rest(raw->domains->memory, iova, iova + size);
	spin_unlock_irqrestore(&raw->clearing, flags);
	return size;
}

size_t dlend_raw_slot_unmap(struct dlend_raw_slot *raw, u64 at, size_t size,
			    struct iommu_iotlb_gather *gather)
{
	int idx = srcu_read_lock(&dlend_raw_srcu);

	size = dlend_raw_slot_unmap_in(raw, at, size, gather);
	srcu_read_unlock(&dlend_raw_srcu, idx);
	return size;
}
DLEND_EXPORT(dlend_raw_slot_unmap);

/* Under dlend_raw_srcu. */
static phys_addr_t dlend_raw_slot_phys_in(struct dlend_raw_slot *raw, u64 at)
{
	enum dlend_raw_phase phase = READ_ONCE(raw->phase);
	phys_addr_t phys = 0;
	unsigned long flags;

	if (phase == DLEND_RAW_OPEN)
		return iommu_iova_to_phys(raw->domains->reach, raw->base + at);
	/* The cut moves pages from one domain to the other under this lock. */
	spin_lock_irqsave(&raw->clearing, flags);
	/* After the cut, the place there may belong to a slot of a new aperture. */
	if (phase == DLEND_RAW_CUTTING)
		phys = iommu_iova_to_phys(raw->domains->reach, raw->base + at);
	if (!phys)
		phys = iommu_iova_to_phys(raw->domains->memory, raw->iova + at);
	spin_unlock_irqrestore(&raw->clearing, flags);
	return phys;
}

phys_addr_t dlend_raw_slot_phys(struct dlend_raw_slot *raw, u64 at)
{
	int idx = srcu_read_lock(&dlend_raw_srcu);
	phys_addr_t phys = dlend_raw_slot_phys_in(raw, at);

	srcu_read_unlock(&dlend_raw_srcu, idx);
	return phys;
}
DLEND_EXPORT(dlend_raw_slot_phys);
