// SPDX-License-Identifier: GPL-2.0
/*
 * Raw slots: dlend/raw_slot.h.
 *
 * A raw slot is a view of its slot, so that it hears when the aperture is detached or the slot is
 * unmapped.  Its pages are mapped in the aperture's domain without the aperture's lock: an SRCU
 * section keeps the domain meanwhile.
 *
 * When it is cut, its user still unmaps what it has mapped, and asks where that led: the IOMMU core
 * looks up each page that it gives back.  So the answers are noted before the pages are unmapped.
 */
#include <linux/iommu.h>
#include <linux/maple_tree.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/xarray.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/proto.h>
#include <dlend/raw_slot.h>
#include "aperture.h"
#include "paging.h"

DEFINE_STATIC_SRCU(dlend_raw_srcu);

/* Page frames have no more bits than this. */
#define DLEND_RAW_PFN_BITS	52

/*
 * struct dlend_raw_slot - see dlend/raw_slot.h
 * @base: IO address of its first byte
 * @closed: nothing is mapped any more
 * @domain: the aperture's; NULL once it was cut. Readers are in dlend_raw_srcu
 * @led: once it was cut: where its pages led, by number
 */
struct dlend_raw_slot {
	struct dlend_aperture *ap;
	struct dlend_slot *slot;
	struct dlend_view view;
	u64 base;
	bool closed;
	struct iommu_domain *domain;
	struct maple_tree led;
};

/* An entry of the tree is a run of pages: frame = entry + number of the page - 1 << BITS. */
static void *dlend_raw_led_entry(unsigned long page, phys_addr_t phys)
{
	return xa_mk_value(BIT_ULL(DLEND_RAW_PFN_BITS) + PHYS_PFN(phys) - page);
}

static phys_addr_t dlend_raw_led(struct dlend_raw_slot *raw, u64 at)
{
	unsigned long page = at >> PAGE_SHIFT;
	void *entry = mtree_load(&raw->led, page);

	if (!entry)
		return 0;
	return PFN_PHYS(xa_to_value(entry) + page - BIT_ULL(DLEND_RAW_PFN_BITS)) +
	       offset_in_page(at);
}

struct dlend_raw_run {
	unsigned long first, end;	/* pages */
	void *entry;
};

/* An order that small does not fail. */
static void dlend_raw_note_run(struct dlend_raw_slot *raw, const struct dlend_raw_run *run)
{
	if (run->entry)
		WARN_ON(mtree_store_range(&raw->led, run->first, run->end - 1, run->entry,
					  GFP_KERNEL | __GFP_NOFAIL));
}

/* Nobody maps there any more. */
static void dlend_raw_slot_note(struct dlend_raw_slot *raw)
{
	unsigned long page, pages = raw->slot->size >> PAGE_SHIFT;
	struct dlend_raw_run run = {};
	phys_addr_t phys;
	void *entry;

	for (page = 0; page < pages; page++) {
		phys = iommu_iova_to_phys(raw->domain, raw->base + ((u64)page << PAGE_SHIFT));
		entry = phys ? dlend_raw_led_entry(page, phys) : NULL;
		if (entry != run.entry) {
			run.end = page;
			dlend_raw_note_run(raw, &run);
			run.first = page;
			run.entry = entry;
		}
		if (!(page % SZ_4K))
			cond_resched();
	}
	run.end = pages;
	dlend_raw_note_run(raw, &run);
}

/* The user may have unmapped parts of a run since it was noted. */
static void dlend_raw_clear_run(struct iommu_domain *domain, u64 iova, u64 end)
{
	size_t done;

	while (iova < end) {
		done = iommu_iova_to_phys(domain, iova) ? iommu_unmap(domain, iova, end - iova) : 0;
		/* Where nothing is, the IOMMU core does not say how far. */
		iova += done ?: PAGE_SIZE;
	}
}

static void dlend_raw_slot_clear(struct dlend_raw_slot *raw, struct iommu_domain *domain)
{
	MA_STATE(mas, &raw->led, 0, 0);
	void *entry;

	guard(rcu)();
	mas_for_each(&mas, entry, ULONG_MAX)
		dlend_raw_clear_run(domain, raw->base + ((u64)mas.index << PAGE_SHIFT),
				    raw->base + ((u64)(mas.last + 1) << PAGE_SHIFT));
}

/*
 * The aperture's lock is held.  The first call cuts all of it, so that there is one answer.  While
 * the answers are noted, the user may unmap: then a note is there for nothing.
 */
static void dlend_raw_slot_lost(struct dlend_view *view, u64 at, u64 size)
{
	struct dlend_raw_slot *raw = container_of(view, struct dlend_raw_slot, view);
	struct iommu_domain *domain = raw->domain;

	if (!domain)
		return;
	WRITE_ONCE(raw->closed, true);
	synchronize_srcu(&dlend_raw_srcu);
	dlend_raw_slot_note(raw);
	/* Pairs with the acquire in dlend_raw_slot_phys(): without a domain there are notes. */
	smp_store_release(&raw->domain, NULL);
	synchronize_srcu(&dlend_raw_srcu);
	dlend_raw_slot_clear(raw, domain);
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
	return IS_ERR(slot) ? dlend_slot_alloc(ap, size, 0, 0, DLEND_SLOT_RAM) : slot;
}

struct dlend_raw_slot *dlend_raw_slot_open(struct dlend_aperture *ap, u64 size)
{
	struct dlend_raw_slot *raw = kzalloc_obj(*raw);
	int err;

	if (!raw)
		return ERR_PTR(-ENOMEM);
	raw->ap = ap;
	mt_init(&raw->led);
	raw->slot = dlend_raw_slot_reserve(ap, size);
	if (IS_ERR(raw->slot)) {
		err = PTR_ERR(raw->slot);
		goto free_raw;
	}
	raw->base = dlend_aperture_base(ap) + raw->slot->offset;
	raw->view.ops = &dlend_raw_slot_view_ops;
	err = dlend_aperture_raw(ap, &raw->view, raw->slot, &raw->domain);
	if (err)
		goto free_slot;
	return raw;

free_slot:
	dlend_slot_free(ap, raw->slot);
free_raw:
	kfree(raw);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_raw_slot_open);

void dlend_raw_slot_cut(struct dlend_raw_slot *raw)
{
	dlend_slot_unmap(raw->ap, raw->slot, 0, raw->slot->size);
}
DLEND_EXPORT(dlend_raw_slot_cut);

void dlend_raw_slot_close(struct dlend_raw_slot *raw, bool acked)
{
	dlend_raw_slot_cut(raw);
	dlend_aperture_unview(raw->ap, &raw->view);
	if (acked)
		dlend_slot_free(raw->ap, raw->slot);
	else
		dlend_slot_quarantine(raw->ap, raw->slot);
	mtree_destroy(&raw->led);
	kfree(raw);
}
DLEND_EXPORT(dlend_raw_slot_close);

u64 dlend_raw_slot_offset(const struct dlend_raw_slot *raw)
{
	return raw->slot->offset;
}
DLEND_EXPORT(dlend_raw_slot_offset);

int dlend_raw_slot_map(struct dlend_raw_slot *raw, const struct dlend_piece *piece, gfp_t gfp)
{
	int idx = srcu_read_lock(&dlend_raw_srcu), err = -ENODEV;
	struct iommu_domain *domain = READ_ONCE(raw->domain);
	int prot = IOMMU_CACHE;

	if (piece->prot & DLEND_PROT_READ)
		prot |= IOMMU_READ;
	if (piece->prot & DLEND_PROT_WRITE)
		prot |= IOMMU_WRITE;
	if (domain && !READ_ONCE(raw->closed))
		err = iommu_map(domain, raw->base + piece->offset, piece->phys, piece->size, prot,
				gfp);
	srcu_read_unlock(&dlend_raw_srcu, idx);
	return err;
}
DLEND_EXPORT(dlend_raw_slot_map);

size_t dlend_raw_slot_unmap(struct dlend_raw_slot *raw, u64 at, size_t size,
			    struct iommu_iotlb_gather *gather)
{
	int idx = srcu_read_lock(&dlend_raw_srcu);
	struct iommu_domain *domain = READ_ONCE(raw->domain);

	if (domain)
		size = iommu_unmap_fast(domain, raw->base + at, size, gather);
	srcu_read_unlock(&dlend_raw_srcu, idx);
	return size;
}
DLEND_EXPORT(dlend_raw_slot_unmap);

void dlend_raw_slot_sync(struct dlend_raw_slot *raw, struct iommu_iotlb_gather *gather)
{
	int idx = srcu_read_lock(&dlend_raw_srcu);
	struct iommu_domain *domain = READ_ONCE(raw->domain);

	if (domain)
		iommu_iotlb_sync(domain, gather);
	srcu_read_unlock(&dlend_raw_srcu, idx);
}
DLEND_EXPORT(dlend_raw_slot_sync);

phys_addr_t dlend_raw_slot_phys(struct dlend_raw_slot *raw, u64 at)
{
	int idx = srcu_read_lock(&dlend_raw_srcu);
	/* Pairs with the release in dlend_raw_slot_lost(). */
	struct iommu_domain *domain = smp_load_acquire(&raw->domain);
	phys_addr_t phys = domain ? iommu_iova_to_phys(domain, raw->base + at) :
				    dlend_raw_led(raw, at);

	srcu_read_unlock(&dlend_raw_srcu, idx);
	return phys;
}
DLEND_EXPORT(dlend_raw_slot_phys);
