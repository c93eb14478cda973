/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Mappings of one IOMMU domain, remembered: what is mapped where, and with which page sizes.
 * The IOMMU API does not tell what it has mapped, and does not split pages: both is done here.
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
 * struct dlend_maps - what is mapped in a domain by these functions; the caller serialises
 * @pg: domain, the caller's; NULL: nothing translates (the loop), and what is mapped is only
 *	remembered
 * @runs: what is mapped
 * @pages: pages of the domain, by size
 * @bytes: mapped
 * @nr: how many runs
 * @scattered: without a domain: where each page leads that is in no long run
 * @nr_pages: how many such pages
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

/**
 * dlend_maps_init - nothing is mapped
 * @m: (out) mappings
 * @pg: (in) domain, or NULL
 *
 * Context: any.
 */
void dlend_maps_init(struct dlend_maps *m, struct dlend_paging *pg);

/**
 * dlend_maps_add - map a physically contiguous run
 * @m: mappings
 * @piece: (in) its offset is an IO address. Its cap is the largest page of the IOMMU to use, 0:
 *	any. dlend_maps_del() of a part whose edges are multiples of it leaves the rest alone
 *
 * Context: process, may sleep.
 * Return: 0; -EEXIST overlap with a live mapping; -EINVAL alignment; -ERANGE outside the domain's
 * geometry; -EOPNOTSUPP this IOMMU driver cannot map MMIO here; -ENOMEM; or the IOMMU's error.
 */
int dlend_maps_add(struct dlend_maps *m, const struct dlend_piece *piece);

/**
 * dlend_maps_del - unmap a range, and flush the IOTLB
 * @m: mappings
 * @iova: (in) first address, page aligned; holes in the range are fine
 * @size: (in) bytes, page multiple
 *
 * A large page that straddles an edge is taken down, and what lies outside is mapped again by
 * smaller pages: for a moment no device reaches it. A cap in dlend_maps_add() avoids this.
 * Context: process, may sleep. Return: bytes unmapped.
 */
u64 dlend_maps_del(struct dlend_maps *m, u64 iova, u64 size);

/**
 * dlend_maps_check - could this be mapped, as far as addresses go?
 * @m: (in) mappings
 * @iova: (in) IO address
 * @phys: (in) physical address
 * @size: (in) bytes
 * @prot: (in) DLEND_PROT_*
 *
 * Context: any. Return: 0; -EINVAL alignment, size or @prot; -ERANGE outside the geometry.
 */
int dlend_maps_check(const struct dlend_maps *m, u64 iova, phys_addr_t phys, u64 size, u32 prot);

/**
 * dlend_maps_busy - is any of a range mapped?
 * @m: (in) mappings
 * @iova: (in) first address
 * @size: (in) bytes
 *
 * Context: any.
 */
bool dlend_maps_busy(struct dlend_maps *m, u64 iova, u64 size);

/**
 * dlend_maps_next - the first piece of what is mapped in a range
 * @m: (in) mappings
 * @iova: (in) first address
 * @last: (in) last address, inclusive
 * @piece: (out) the piece; its offset is an IO address
 *
 * Context: any. Return: is there one?
 */
bool dlend_maps_next(struct dlend_maps *m, u64 iova, u64 last, struct dlend_piece *piece);

/** dlend_maps_book_bytes - bytes of memory for these records, not for page tables. Context: any. */
u64 dlend_maps_book_bytes(const struct dlend_maps *m);

/** dlend_maps_show - counters, for debugfs. Context: process. */
void dlend_maps_show(struct dlend_maps *m, struct seq_file *f);

#endif
