/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which pages an IOMMU uses for a run that is contiguous in both address spaces, and how to map
 * one so that none is larger than wanted.
 *
 * The IOMMU API has no way to take a large page apart: to unmap a part of one, all of it is
 * unmapped and the rest mapped again, and a device that accesses the rest meanwhile gets a fault.
 * So a part that may be unmapped by itself later must share no page with anything else.
 */
#ifndef DLEND_IOMMU_PAGES_H
#define DLEND_IOMMU_PAGES_H

#include <linux/types.h>

/* Pages of the IOMMU by size; sizes in between count as several of the next smaller kind. */
struct dlend_map_pages {
	u64 n4k, n2m, n1g;
};

/**
 * struct dlend_page_run - what was mapped contiguously, in pieces of dlend_piece_last()
 * @first: first address
 * @last: last address, inclusive
 * @phys: where @first leads
 * @sizes: bit per page size of the IOMMU, 4 KiB at least
 * @cap: no larger pages than this, a power of two; 0: any
 */
struct dlend_page_run {
	u64 first, last, phys, sizes, cap;
};

/**
 * dlend_page_at - size of the page that covers an address of a run
 * @r: (in) the run
 * @iova: (in) the address
 *
 * Context: any. Return: bytes.
 */
u64 dlend_page_at(const struct dlend_page_run *r, u64 iova);

/**
 * dlend_piece_last - how much one iommu_map() may map
 * @at: (in) from this address on
 * @last: (in) last address of the run, inclusive
 * @sizes: (in) as in struct dlend_page_run
 * @cap: (in) as in struct dlend_page_run
 *
 * The piece is too short for a page larger than @cap, and cuts no page of @cap or less.
 * Context: any. Return: last address of the piece, inclusive.
 */
u64 dlend_piece_last(u64 at, u64 last, u64 sizes, u64 cap);

/**
 * dlend_pages_count - all pages of a run
 * @r: (in) the run
 *
 * Takes the same time however long the run is.
 * Context: any. Return: pages by size.
 */
struct dlend_map_pages dlend_pages_count(const struct dlend_page_run *r);

#endif
