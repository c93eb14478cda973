/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A fake IOMMU domain behind the interface of iommu/paging.h: a table that says where every 4 KiB
 * page leads, and in which page of the IOMMU it is.  It maps by the API's rule, unmaps only whole
 * pages, as hardware does, and remembers which pages were unmapped for a moment.
 */
#ifndef DLEND_FAKE_PAGING_H
#define DLEND_FAKE_PAGING_H

#include <kunit/test.h>
#include <linux/sizes.h>
#include <linux/types.h>
#include <iommu/paging.h>

#define FAKE_FIRST	(4ull * SZ_1G)
#define FAKE_PAGES	8192u
#define FAKE_LAST	(FAKE_FIRST + FAKE_PAGES * 4096ull - 1)

#define FAKE_VTD	(BIT_ULL(12) | BIT_ULL(21) | BIT_ULL(30))
#define FAKE_AMDVI	(~0ull << 12)	/* every power of two */

/* A page of 4 KiB: where it leads, for whom, and the size of the IOMMU's page; @size 0: nowhere. */
struct fake_entry {
	u64 phys;
	u64 size;
	u32 prot;
	bool lost;		/* was unmapped since fake_calm() */
};

/*
 * @fail_map: the call of map() that fails, counted from now on; 0: none
 * @refuse_detach: how often detach() does nothing
 */
struct fake_paging {
	struct dlend_paging pub;
	struct kunit *test;
	struct fake_entry entry[FAKE_PAGES];
	unsigned int maps, unmaps, fail_map, refuse_detach;
	bool attached, freed;
};

/* An empty domain with pages of @sizes; it ends with the test. */
struct fake_paging *fake_paging_new(struct kunit *test, u64 sizes);

/* Forget what was unmapped so far. */
void fake_calm(struct fake_paging *fake);

/* The entry of an address. */
struct fake_entry *fake_at(struct fake_paging *fake, u64 iova);

/* How many 4 KiB pages lead anywhere. */
unsigned int fake_mapped(struct fake_paging *fake);

#endif
