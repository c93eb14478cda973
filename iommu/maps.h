/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mappings of one IOMMU domain, remembered: what is mapped where, and with which page sizes.
 * The IOMMU API neither tells nor splits what it mapped, both are done here.
 */
#ifndef DLEND_IOMMU_MAPS_H
#define DLEND_IOMMU_MAPS_H

#include <linux/rbtree.h>
#include <linux/types.h>

struct iommu_domain;
struct list_head;
struct seq_file;
struct dlend_piece;
struct dlend_range;

/* Pages of the IOMMU by size; sizes in between count as several of the next smaller kind. */
struct dlend_map_pages {
	u64 n4k, n2m, n1g;
};

/**
 * struct dlend_maps - all mappings of @domain that were made here
 *
 * The caller serialises. The domain itself stays the caller's; NULL: nothing translates, what is
 * mapped is only remembered.
 */
struct dlend_maps {
	struct iommu_domain *domain;
	struct rb_root_cached runs;
	struct dlend_map_pages pages;
	u64 bytes;
	unsigned int nr;
};

void dlend_maps_init(struct dlend_maps *m, struct iommu_domain *domain);

/**
 * dlend_maps_add - map a physically contiguous run
 * @prot: DLEND_PROT_*
 * @mmio: a BAR, not RAM
 * @cap: largest page of the IOMMU to use, 0 = any. dlend_maps_del() of a part whose edges are
 *	 multiples of it leaves the rest as it is
 *
 * Return: 0; -EEXIST overlap with a live mapping; -EINVAL alignment; -ERANGE outside the domain's
 * geometry; -EOPNOTSUPP this IOMMU driver cannot map MMIO here; or the IOMMU's error.
 */
int dlend_maps_add(struct dlend_maps *m, u64 iova, phys_addr_t phys, u64 size, u32 prot,
		   bool mmio, u64 cap);

/**
 * dlend_maps_del - unmap a range, IOTLB flushed at return
 *
 * A large page that straddles an edge is taken down, and what lies outside is put back with
 * smaller pages: for a moment nobody reaches that. Avoid it by dlend_maps_add()'s @cap. Return:
 * bytes unmapped.
 */
u64 dlend_maps_del(struct dlend_maps *m, u64 iova, u64 size);

/** dlend_maps_check - could this be mapped, as far as addresses go? Return: 0, -EINVAL, -ERANGE */
int dlend_maps_check(const struct dlend_maps *m, u64 iova, phys_addr_t phys, u64 size, u32 prot);

/** dlend_maps_busy - is any of it mapped? */
bool dlend_maps_busy(struct dlend_maps *m, u64 iova, u64 size);

/**
 * dlend_maps_next - the first piece of what is mapped in @iova..@last
 * @piece: receives it, with @iova in place of the offset. Return: is there one?
 */
bool dlend_maps_next(struct dlend_maps *m, u64 iova, u64 last, struct dlend_piece *piece);

/** dlend_maps_whole - how many mappings lie inside; -EINVAL if one straddles an edge */
int dlend_maps_whole(struct dlend_maps *m, u64 iova, u64 size);

void dlend_maps_show(struct dlend_maps *m, struct seq_file *f);

struct device;

/**
 * dlend_maps_reserved - what an IOVA of the device's group may not touch
 * @windows: the windows of its host bridge too (peer-to-peer traffic would be claimed there)
 * @out: receives an array, kfree() it
 *
 * Return: number of ranges, or -ENOMEM.
 */
int dlend_maps_reserved(struct device *dev, bool windows, struct dlend_range **out);

#endif
