// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of an IOMMU.
 *
 * Pure: numbers only.  What it says of iommu_map() is the API's own rule: page by page, the largest
 * size that both addresses are aligned to and that still fits.
 */
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/sizes.h>
#include "pages.h"

#define DLEND_PAGE_SMALLEST	4096ull

u64 dlend_page_at(const struct dlend_page_run *r, u64 iova)
{
	u64 size, base;

	for (size = BIT_ULL(63); size > DLEND_PAGE_SMALLEST; size >>= 1) {
		if (!(r->sizes & size) || (r->cap && size > r->cap))
			continue;
		base = iova & ~(size - 1);
		if (base >= r->first && r->last - base >= size - 1 &&
		    IS_ALIGNED(r->phys + (base - r->first), size))
			return size;
	}
	return DLEND_PAGE_SMALLEST;
}

/* The smallest size above @cap, 0 if there is none. */
static u64 dlend_pages_too_large(u64 sizes, u64 cap)
{
	sizes &= ~(2 * cap - 1);
	return sizes & -sizes;
}

u64 dlend_piece_last(u64 at, u64 last, u64 sizes, u64 cap)
{
	u64 end, large = cap ? dlend_pages_too_large(sizes, cap) : 0;

	if (!large || last - at < large / 2)
		return last;
	/* Half of it, so that the end, moved back to a page's edge, is still above @at. */
	end = ALIGN_DOWN(at + large / 2, cap);
	return end - 1;
}

/* Bytes of the run in pages of at least @least. */
static u64 dlend_pages_bytes_in(const struct dlend_page_run *r, u64 least)
{
	u64 sizes = r->sizes & ~(least - 1), size, from, to;

	if (r->cap)
		sizes &= 2 * r->cap - 1;
	size = sizes & -sizes;
	if (!size || !IS_ALIGNED(r->phys - r->first, size))
		return 0;
	/* Larger pages cover places of this size, too.  @to is exclusive: 0 is the end of all. */
	from = ALIGN(r->first, size);
	to = ALIGN_DOWN(r->last + 1, size);
	if (from < r->first || (to && to <= from) || (!to && r->last != U64_MAX))
		return 0;
	return to - from;
}

struct dlend_map_pages dlend_pages_count(const struct dlend_page_run *r)
{
	u64 in_1g = dlend_pages_bytes_in(r, SZ_1G), in_2m = dlend_pages_bytes_in(r, SZ_2M);

	return (struct dlend_map_pages) {
		.n1g = in_1g / SZ_1G,
		.n2m = (in_2m - in_1g) / SZ_2M,
		.n4k = (r->last - r->first + 1 - in_2m) / SZ_4K,
	};
}
