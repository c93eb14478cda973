/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mappings of one IOMMU domain, remembered: what is mapped where, and with which page sizes.
 * The IOMMU API neither tells nor splits what it mapped, both are done here.
 */
#ifndef DLEND_IOMMU_MAPS_H
#define DLEND_IOMMU_MAPS_H

#include <linux/rbtree.h>
#include <linux/types.h>
#include <linux/xarray.h>
#include "pages.h"

struct seq_file;
struct dlend_paging;
struct dlend_piece;

/**
 * struct dlend_maps - all mappings of @pg that were made here
 *
 * @runs: what is mapped, in @nr runs of @bytes
 * @pages: of the domain
 * @scattered: without a domain, where @nr_pages pages lead that are in no long run
 *
 * The caller serialises. The domain itself stays the caller's; NULL: nothing translates, what is
 * mapped is only remembered.
 */
struct dlend_maps {
	struct dlend_paging *pg;
	struct rb_root_cached runs;
	struct dlend_map_pages pages;
	u64 bytes;
	unsigned int nr;
	struct xarray scattered;
	u64 nr_pages;
};

void dlend_maps_init(struct dlend_maps *m, struct dlend_paging *pg);

/**
 * dlend_maps_add - map a physically contiguous run
 * @piece: with the IO address as its offset. Its cap is the largest page of the IOMMU to use, 0 =
 *	any: dlend_maps_del() of a part whose edges are multiples of it leaves the rest as it is
 *
 * Return: 0; -EEXIST overlap with a live mapping; -EINVAL alignment; -ERANGE outside the domain's
 * geometry; -EOPNOTSUPP this IOMMU driver cannot map MMIO here; or the IOMMU's error.
 */
int dlend_maps_add(struct dlend_maps *m, const struct dlend_piece *piece);

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

/** dlend_maps_book_bytes - kernel memory that remembering them takes, page tables aside */
u64 dlend_maps_book_bytes(const struct dlend_maps *m);

void dlend_maps_show(struct dlend_maps *m, struct seq_file *f);

#endif
