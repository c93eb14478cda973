// SPDX-License-Identifier: GPL-2.0
/*
 * Raw slots: dlend/raw_slot.h.
 *
 * A raw slot is a view of its slot, so that it hears when the aperture is detached or the slot is
 * unmapped.  Its pages are mapped in the aperture's domain without the aperture's lock: an SRCU
 * section keeps the domain.
 *
 * When it is cut, its user goes on: it unmaps what it has mapped and asks where that led, and it
 * maps.  So the answers are noted before the pages are unmapped, and what is mapped afterwards is
 * noted and leads nowhere (led.h).  A driver that is told of an error here would wait for better
 * times, and there are none: nvme does, for ever.
 */
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/proto.h>
#include <dlend/raw_slot.h>
#include "aperture.h"
#include "led.h"
#include "paging.h"

DEFINE_STATIC_SRCU(dlend_raw_srcu);

/* So many bytes are unmapped with interrupts off. */
#define DLEND_RAW_CLEAR_BYTES	((u64)SZ_2M)
/* And so many before others have their turn. */
#define DLEND_RAW_CLEAR_AT_ONCE	SZ_64M

/*
 * enum dlend_raw_phase - how far a raw slot is cut
 * @DLEND_RAW_OPEN: it is not
 * @DLEND_RAW_CLOSED: nothing is mapped, and notes are taken
 * @DLEND_RAW_NOTED: the notes have the answers, and pages are unmapped
 * @DLEND_RAW_CUT: no page is mapped
 */
enum dlend_raw_phase {
	DLEND_RAW_OPEN,
	DLEND_RAW_CLOSED,
	DLEND_RAW_NOTED,
	DLEND_RAW_CUT,
};

/*
 * struct dlend_raw_slot - see dlend/raw_slot.h
 * @base: IO address of its first byte
 * @pg, @domain: the aperture's, kept until the slot is closed: what was unmapped before a cut may
 *	be flushed after it
 * @phase: how far it is cut; readers are in dlend_raw_srcu
 * @clearing: for both who unmap its pages while it is being cut
 * @led: from DLEND_RAW_NOTED on: where its pages lead
 */
struct dlend_raw_slot {
	struct dlend_aperture *ap;
	struct dlend_slot *slot;	/* NULL: it never led anywhere, and has no offsets */
	struct dlend_view view;
	u64 base;
	struct dlend_paging *pg;
	struct iommu_domain *domain;
	enum dlend_raw_phase phase;
	spinlock_t clearing;		/* see above */
	struct dlend_led led;
};

/* The user may be unmapping it: a page table that nothing is in any more is freed. */
static phys_addr_t dlend_raw_slot_leads(struct dlend_raw_slot *raw, u64 at)
{
	phys_addr_t phys;
	unsigned long flags;

	spin_lock_irqsave(&raw->clearing, flags);
	phys = iommu_iova_to_phys(raw->domain, raw->base + at);
	spin_unlock_irqrestore(&raw->clearing, flags);
	return phys;
}

/* Nothing is mapped there while this runs. */
static void dlend_raw_slot_note(struct dlend_raw_slot *raw)
{
	unsigned long page, first = 0, pages = raw->slot->size >> PAGE_SHIFT;
	void *run = NULL, *entry;
	phys_addr_t phys;

	for (page = 0; page < pages; page++) {
		phys = dlend_raw_slot_leads(raw, (u64)page << PAGE_SHIFT);
		entry = dlend_led_run(page, phys);
		if (entry != run) {
			dlend_led_note(&raw->led, first, page, run);
			first = page;
			run = entry;
		}
		if (!(page % SZ_4K))
			cond_resched();
	}
	dlend_led_note(&raw->led, first, pages, run);
}

/* The other one, user or cut, may have unmapped parts of it. */
static void dlend_raw_clear_some(struct dlend_raw_slot *raw, u64 iova, u64 end)
{
	struct iommu_domain *domain = raw->domain;
	unsigned long flags;
	size_t done;

	spin_lock_irqsave(&raw->clearing, flags);
	while (iova < end) {
		done = iommu_iova_to_phys(domain, iova) ? iommu_unmap(domain, iova, end - iova) : 0;
		/* Where nothing is, the IOMMU core does not say how far. */
		iova += done ?: PAGE_SIZE;
	}
	spin_unlock_irqrestore(&raw->clearing, flags);
}

static void dlend_raw_clear(struct dlend_raw_slot *raw, u64 at, u64 end)
{
	u64 some, over;

	/*
	 * VT-d of Linux 6.12 takes the memory behind a large page for a page table if only a part
	 * of the page is unmapped: so no piece ends within one.
	 */
	for (; at < end; at += some) {
		over = (raw->base + at) % DLEND_RAW_CLEAR_BYTES;
		some = min(end - at, DLEND_RAW_CLEAR_BYTES - over);
		dlend_raw_clear_some(raw, raw->base + at, raw->base + at + some);
	}
}

static void dlend_raw_clear_slowly(struct dlend_raw_slot *raw, u64 at, u64 end)
{
	u64 some;

	for (; at < end; at += some) {
		some = min_t(u64, end - at, DLEND_RAW_CLEAR_AT_ONCE);
		dlend_raw_clear(raw, at, at + some);
		cond_resched();
	}
}

/* Scattered pages have a note each: what is side by side goes together, with few flushes. */
static void dlend_raw_slot_clear(struct dlend_raw_slot *raw)
{
	MA_STATE(mas, &raw->led.before, 0, 0);
	u64 from = 0, to = 0;
	void *run;

	rcu_read_lock();
	mas_for_each(&mas, run, ULONG_MAX) {
		u64 first = (u64)mas.index << PAGE_SHIFT, end = (u64)(mas.last + 1) << PAGE_SHIFT;

		if (first != to) {
			mas_pause(&mas);
			rcu_read_unlock();
			dlend_raw_clear_slowly(raw, from, to);
			from = first;
			rcu_read_lock();
		}
		to = end;
	}
	rcu_read_unlock();
	dlend_raw_clear_slowly(raw, from, to);
}

/*
 * The aperture's lock is held.  The first call cuts all of it, so that there is one answer.  While
 * the answers are noted, the user may unmap: then a note is there for nothing.  While the pages are
 * unmapped, the user's own are out of reach when its call returns, as always.
 */
static void dlend_raw_slot_lost(struct dlend_view *view, u64 at, u64 size)
{
	struct dlend_raw_slot *raw = container_of(view, struct dlend_raw_slot, view);

	if (raw->phase != DLEND_RAW_OPEN)
		return;
	WRITE_ONCE(raw->phase, DLEND_RAW_CLOSED);
	synchronize_srcu(&dlend_raw_srcu);
	dlend_raw_slot_note(raw);
	/* Pairs with the acquires of others. */
	smp_store_release(&raw->phase, DLEND_RAW_NOTED);
	synchronize_srcu(&dlend_raw_srcu);
	dlend_raw_slot_clear(raw);
	/* The offsets may be somebody else's before the user flushes what it has unmapped. */
	iommu_flush_iotlb_all(raw->domain);
	WRITE_ONCE(raw->phase, DLEND_RAW_CUT);
	synchronize_srcu(&dlend_raw_srcu);
}

static const struct dlend_view_ops dlend_raw_slot_view_ops = {
	.unmap = dlend_raw_slot_lost,
};

/* Aligned for the largest pages that fit, if there is such a place. */
static struct dlend_slot *dlend_raw_slot_reserve(struct dlend_aperture *ap, u64 size)
{
	struct dlend_slot *slot = ERR_PTR(-ENOSPC);
	u64 align;

	for (align = SZ_1G; align >= SZ_2M && IS_ERR(slot); align >>= 9)
		if (size >= align)
			slot = dlend_slot_alloc(ap, size, align, 0, DLEND_SLOT_RAM);
	/* The user's large pages are large ones here, too: dlend_raw_slot_unmap() ends in none. */
	return size < SZ_2M ? dlend_slot_alloc(ap, size, 0, 0, DLEND_SLOT_RAM) : slot;
}

struct dlend_raw_slot *dlend_raw_slot_nowhere(void)
{
	struct dlend_raw_slot *raw = kzalloc_obj(*raw);

	if (!raw)
		return NULL;
	raw->phase = DLEND_RAW_CUT;
	spin_lock_init(&raw->clearing);
	dlend_led_init(&raw->led);
	return raw;
}
DLEND_EXPORT(dlend_raw_slot_nowhere);

struct dlend_raw_slot *dlend_raw_slot_open(struct dlend_aperture *ap, u64 size)
{
	struct dlend_raw_slot *raw = dlend_raw_slot_nowhere();
	int err;

	if (!raw)
		return ERR_PTR(-ENOMEM);
	raw->ap = ap;
	raw->phase = DLEND_RAW_OPEN;
	raw->slot = dlend_raw_slot_reserve(ap, size);
	if (IS_ERR(raw->slot)) {
		err = PTR_ERR(raw->slot);
		goto free_raw;
	}
	raw->base = dlend_aperture_base(ap) + raw->slot->offset;
	raw->view.ops = &dlend_raw_slot_view_ops;
	err = dlend_aperture_raw(ap, &raw->view, raw->slot, &raw->pg);
	if (err)
		goto free_slot;
	raw->domain = dlend_paging_domain(raw->pg);
	return raw;

free_slot:
	dlend_slot_free(raw->slot);
free_raw:
	kfree(raw);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_raw_slot_open);

void dlend_raw_slot_cut(struct dlend_raw_slot *raw)
{
	if (!raw->slot)
		return;
	dlend_slot_unmap(raw->slot, 0, raw->slot->size);
}
DLEND_EXPORT(dlend_raw_slot_cut);

static void dlend_raw_slot_leave(struct dlend_raw_slot *raw, bool acked)
{
	dlend_raw_slot_cut(raw);
	dlend_aperture_unview(raw->ap, &raw->view);
	if (acked)
		dlend_slot_free(raw->slot);
	else
		dlend_slot_quarantine(raw->slot);
	dlend_paging_put(raw->pg);
}

void dlend_raw_slot_close(struct dlend_raw_slot *raw, bool acked)
{
	if (raw->slot)
		dlend_raw_slot_leave(raw, acked);
	dlend_led_destroy(&raw->led);
	kfree(raw);
}
DLEND_EXPORT(dlend_raw_slot_close);

u64 dlend_raw_slot_offset(const struct dlend_raw_slot *raw)
{
	return raw->slot->offset;
}
DLEND_EXPORT(dlend_raw_slot_offset);

/* In dlend_raw_srcu. */
static int dlend_raw_slot_map_in(struct dlend_raw_slot *raw, const struct dlend_piece *piece,
				 gfp_t gfp)
{
	/* Pairs with the release in dlend_raw_slot_lost(). */
	enum dlend_raw_phase phase = smp_load_acquire(&raw->phase);
	int prot = IOMMU_CACHE;

	if (phase >= DLEND_RAW_NOTED)
		return dlend_led_map(&raw->led, piece->offset, piece->size, piece->phys, gfp);
	if (phase == DLEND_RAW_CLOSED)
		return -EAGAIN;
	if (piece->prot & DLEND_PROT_READ)
		prot |= IOMMU_READ;
	if (piece->prot & DLEND_PROT_WRITE)
		prot |= IOMMU_WRITE;
	return iommu_map(raw->domain, raw->base + piece->offset, piece->phys, piece->size, prot,
			 gfp);
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

/* With its flush, so that no page table is freed while dlend_raw_slot_note() is in it. */
static size_t dlend_raw_unmap_now(struct dlend_raw_slot *raw, u64 at, size_t size)
{
	unsigned long flags;

	spin_lock_irqsave(&raw->clearing, flags);
	size = iommu_unmap(raw->domain, raw->base + at, size);
	spin_unlock_irqrestore(&raw->clearing, flags);
	return size;
}

/* In dlend_raw_srcu. */
static size_t dlend_raw_slot_unmap_in(struct dlend_raw_slot *raw, u64 at, size_t size,
				      struct iommu_iotlb_gather *gather)
{
	/* Pairs with the release in dlend_raw_slot_lost(). */
	enum dlend_raw_phase phase = smp_load_acquire(&raw->phase);

	if (phase == DLEND_RAW_OPEN)
		return iommu_unmap_fast(raw->domain, raw->base + at, size, gather);
	if (phase == DLEND_RAW_CLOSED)
		return dlend_raw_unmap_now(raw, at, size);
	dlend_led_unmap(&raw->led, at, size);
	if (phase == DLEND_RAW_NOTED)
		dlend_raw_clear(raw, at, at + size);
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

struct dlend_paging *dlend_raw_domain_get(const struct dlend_raw_slot *raw)
{
	return dlend_paging_get(raw->pg);
}
DLEND_EXPORT(dlend_raw_domain_get);

void dlend_raw_domain_put(struct dlend_paging *pg)
{
	if (pg)
		dlend_paging_put(pg);
}
DLEND_EXPORT(dlend_raw_domain_put);

void dlend_raw_domain_sync(struct dlend_paging *pg, struct iommu_iotlb_gather *gather)
{
	iommu_iotlb_sync(dlend_paging_domain(pg), gather);
}
DLEND_EXPORT(dlend_raw_domain_sync);

void dlend_raw_domain_flush(struct dlend_paging *pg)
{
	iommu_flush_iotlb_all(dlend_paging_domain(pg));
}
DLEND_EXPORT(dlend_raw_domain_flush);

phys_addr_t dlend_raw_slot_phys(struct dlend_raw_slot *raw, u64 at)
{
	int idx = srcu_read_lock(&dlend_raw_srcu);
	phys_addr_t phys;

	/* Pairs with the release in dlend_raw_slot_lost(). */
	if (smp_load_acquire(&raw->phase) >= DLEND_RAW_NOTED)
		phys = dlend_led_phys(&raw->led, at);
	else
		phys = iommu_iova_to_phys(raw->domain, raw->base + at);
	srcu_read_unlock(&dlend_raw_srcu, idx);
	return phys;
}
DLEND_EXPORT(dlend_raw_slot_phys);
