/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which pages an IOMMU uses for a run that is contiguous in both address spaces, and how to map
 * one so that none is larger than wanted.
 *
 * The IOMMU API has no way to take a large page apart: to unmap a part of one, all of it is
 * unmapped and the rest mapped again, and a device that is at the rest meets a fault.  So what may
 * be unmapped by itself later must not share a page with anything else from the beginning.
 */
#ifndef DLEND_IOMMU_PAGES_H
#define DLEND_IOMMU_PAGES_H

#include <linux/types.h>

/* Pages of the IOMMU by size; sizes in between count as several of the next smaller kind. */
struct dlend_map_pages {
	u64 n4k, n2m, n1g;
};

/**
 * dlend_page_at - size of the page that covers @iova
 * @first, @last: the run, mapped in pieces of dlend_piece_last()
 * @phys: of @first
 * @sizes: bit per page size of the IOMMU, 4 KiB at least
 * @cap: no larger pages than this, a power of two; 0 = any
 */
u64 dlend_page_at(u64 first, u64 last, u64 phys, u64 sizes, u64 cap, u64 iova);

/**
 * dlend_piece_last - last address of what one iommu_map() may map from @at on
 * @last: of the run
 *
 * Too short for any page that is larger than @cap, and cuts none that is not.
 */
u64 dlend_piece_last(u64 at, u64 last, u64 sizes, u64 cap);

/** dlend_pages_count - all pages of a run; takes the same time however long it is */
struct dlend_map_pages dlend_pages_count(u64 first, u64 last, u64 phys, u64 sizes, u64 cap);

#endif
