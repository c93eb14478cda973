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
#include "pages.h"

#define SMALLEST	4096ull

u64 dlend_page_at(u64 first, u64 last, u64 phys, u64 sizes, u64 cap, u64 iova)
{
	u64 size, base;

	for (size = BIT_ULL(63); size > SMALLEST; size >>= 1) {
		if (!(sizes & size) || (cap && size > cap))
			continue;
		base = iova & ~(size - 1);
		if (base >= first && last - base >= size - 1 &&
		    IS_ALIGNED(phys + (base - first), size))
			return size;
	}
	return SMALLEST;
}

/* The smallest size above @cap, 0 if there is none. */
static u64 too_large(u64 sizes, u64 cap)
{
	sizes &= ~(2 * cap - 1);
	return sizes & -sizes;
}

u64 dlend_piece_last(u64 at, u64 last, u64 sizes, u64 cap)
{
	u64 end, large = cap ? too_large(sizes, cap) : 0;

	if (!large || last - at < large / 2)
		return last;
	/* Half of it, so that the end can be moved back to a page's edge and still be ahead. */
	end = ALIGN_DOWN(at + large / 2, cap);
	return end - 1;
}
