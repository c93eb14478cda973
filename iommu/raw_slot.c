// SPDX-License-Identifier: GPL-2.0
/*
 * Raw slots: dlend/raw_slot.h.
 *
 * A raw slot is a view of its slot, so that it hears when the aperture is detached or the slot is
 * unmapped.  Its pages are mapped in the aperture's domain without the aperture's lock: an SRCU
 * section keeps the domain meanwhile.
 */
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/raw_slot.h>
#include "aperture.h"
#include "paging.h"

DEFINE_STATIC_SRCU(dlend_raw_srcu);

/*
 * struct dlend_raw_slot - see dlend/raw_slot.h
 * @base: IO address of its first byte
 * @domain: the aperture's; NULL once it was cut. Readers are in dlend_raw_srcu
 */
struct dlend_raw_slot {
	struct dlend_aperture *ap;
	struct dlend_slot *slot;
	struct dlend_view view;
	u64 base, pages;
	struct iommu_domain *domain;
};

/* Nobody maps there any more: unmap what is left.  It may be anywhere in the range. */
static void dlend_raw_slot_clear(struct iommu_domain *domain, u64 iova, u64 size)
{
	u64 end = iova + size;
	size_t done;

	while (iova < end) {
		done = iommu_iova_to_phys(domain, iova) ? iommu_unmap(domain, iova, end - iova) : 0;
		/* Where nothing is, the IOMMU core does not say how far. */
		iova += done ?: PAGE_SIZE;
	}
}

/* The aperture's lock is held. The first call cuts all of it, so that there is one answer. */
static void dlend_raw_slot_lost(struct dlend_view *view, u64 at, u64 size)
{
	struct dlend_raw_slot *raw = container_of(view, struct dlend_raw_slot, view);
	struct iommu_domain *domain = raw->domain;

	if (!domain)
		return;
	WRITE_ONCE(raw->domain, NULL);
	synchronize_srcu(&dlend_raw_srcu);
	dlend_raw_slot_clear(domain, raw->base, raw->slot->size);
}

static const struct dlend_view_ops dlend_raw_slot_view_ops = {
	.unmap = dlend_raw_slot_lost,
};

static struct dlend_slot *dlend_raw_slot_reserve(struct dlend_aperture *ap, u64 size)
{
	struct dlend_slot *slot;

	if (size >= SZ_2M) {
		slot = dlend_slot_alloc(ap, size, SZ_2M, 0, DLEND_SLOT_RAM);
		if (!IS_ERR(slot))
			return slot;
	}
	return dlend_slot_alloc(ap, size, 0, 0, DLEND_SLOT_RAM);
}

struct dlend_raw_slot *dlend_raw_slot_open(struct dlend_aperture *ap, u64 size)
{
	struct dlend_raw_slot *raw = kzalloc_obj(*raw);
	int err;

	if (!raw)
		return ERR_PTR(-ENOMEM);
	raw->ap = ap;
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
	raw->pages = raw->domain->pgsize_bitmap;
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
	kfree(raw);
}
DLEND_EXPORT(dlend_raw_slot_close);

u64 dlend_raw_slot_offset(const struct dlend_raw_slot *raw)
{
	return raw->slot->offset;
}
DLEND_EXPORT(dlend_raw_slot_offset);

u64 dlend_raw_slot_pages(const struct dlend_raw_slot *raw)
{
	return raw->pages;
}
DLEND_EXPORT(dlend_raw_slot_pages);

int dlend_raw_slot_map(struct dlend_raw_slot *raw, u64 at, phys_addr_t phys, size_t size, int prot,
		       gfp_t gfp)
{
	int idx = srcu_read_lock(&dlend_raw_srcu), err = -ENODEV;
	struct iommu_domain *domain = READ_ONCE(raw->domain);

	if (domain)
		err = iommu_map(domain, raw->base + at, phys, size,
				(prot & (IOMMU_READ | IOMMU_WRITE)) | IOMMU_CACHE, gfp);
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
	struct iommu_domain *domain = READ_ONCE(raw->domain);
	phys_addr_t phys = domain ? iommu_iova_to_phys(domain, raw->base + at) : 0;

	srcu_read_unlock(&dlend_raw_srcu, idx);
	return phys;
}
DLEND_EXPORT(dlend_raw_slot_phys);
