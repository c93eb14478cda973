// SPDX-License-Identifier: GPL-2.0
/* Pages of an IOMMU: the prediction against the API's rule, and no page beyond the cap. */
#include <kunit/test.h>
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <iommu/maps.h>

#define VTD	(BIT_ULL(12) | BIT_ULL(21) | BIT_ULL(30))
#define AMDVI	(~0ull << 12)	/* every power of two */
#define SMALL	BIT_ULL(12)

struct run {
	const char *name;
	u64 sizes, cap, first, phys, size;
	u64 largest;		/* page that must appear, and none above it */
};

static const struct run runs[] = {
	{ "VT-d, 1 GiB, no cap", VTD, 0, SZ_1G, SZ_1G, SZ_1G, SZ_1G },
	{ "VT-d, 1 GiB, cap 2 MiB", VTD, SZ_2M, SZ_1G, SZ_1G, SZ_1G, SZ_2M },
	{ "VT-d, 3 GiB off by a page", VTD, SZ_2M, SZ_1G + SZ_4K, SZ_4K, 3ull * SZ_1G, SZ_2M },
	{ "VT-d, unequal phase", VTD, SZ_2M, SZ_1G, SZ_1G + SZ_4K, SZ_1G, SZ_4K },
	{ "VT-d, cap 1 GiB", VTD, SZ_1G, SZ_1G, SZ_2G, 2ull * SZ_1G, SZ_1G },
	{ "VT-d, a page", VTD, SZ_2M, SZ_1G, SZ_1G, SZ_4K, SZ_4K },
	{ "VT-d, 2 MiB across an edge", VTD, SZ_2M, SZ_1G - SZ_1M, SZ_1M, SZ_2M, SZ_4K },
	{ "AMD-Vi, no cap", AMDVI, 0, SZ_1G, SZ_1G, SZ_1G, SZ_1G },
	{ "AMD-Vi, cap 2 MiB", AMDVI, SZ_2M, SZ_1G, SZ_1G, SZ_1G, SZ_2M },
	{ "AMD-Vi, cap 2 MiB, odd", AMDVI, SZ_2M, SZ_1G + SZ_64K, SZ_64K, 64ull * SZ_1M, SZ_2M },
	{ "AMD-Vi, cap 1 GiB", AMDVI, SZ_1G, SZ_4G, SZ_4G, 4ull * SZ_1G, SZ_1G },
	{ "4 KiB only", SMALL, SZ_2M, SZ_1G, SZ_1G, SZ_4M, SZ_4K },
	{ "top of the address space", VTD, SZ_2M, 0ull - SZ_1G, SZ_1G, SZ_1G, SZ_2M },
};

static void run_desc(const struct run *r, char *desc)
{
	strscpy(desc, r->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(run, runs, run_desc);

static struct dlend_page_run run_of(const struct run *r)
{
	return (struct dlend_page_run) {
		r->first, r->first + (r->size - 1), r->phys, r->sizes, r->cap
	};
}

/* The page size that iommu_map() takes next. */
static u64 api_page(u64 sizes, u64 iova, u64 phys, u64 left)
{
	u64 size;

	for (size = BIT_ULL(63); size > SZ_4K; size >>= 1)
		if ((sizes & size) && IS_ALIGNED(iova | phys, size) && left >= size)
			break;
	return size;
}

static void as_the_api_maps(struct kunit *test)
{
	const struct run *r = test->param_value;
	struct dlend_page_run run = run_of(r);
	u64 last = r->first + (r->size - 1), at = r->first, end, page, largest = 0;

	for (;;) {
		end = dlend_piece_last(at, last, r->sizes, r->cap);
		KUNIT_ASSERT_GE(test, end, at);
		KUNIT_ASSERT_LE(test, end, last);
		for (;;) {
			page = api_page(r->sizes, at, r->phys + (at - r->first), end - at + 1);
			largest = max(largest, page);
			KUNIT_ASSERT_EQ(test, dlend_page_at(&run, at), page);
			KUNIT_ASSERT_EQ(test, dlend_page_at(&run, at + page - 1), page);
			if (end - at < page)
				break;
			at += page;
		}
		if (end == last)
			break;
		at = end + 1;
	}
	KUNIT_EXPECT_EQ(test, largest, r->largest);
}

/* Two parts of a guest's memory, 2 MiB each, never share a page. */
static void edges_are_free(struct kunit *test)
{
	const struct run *r = test->param_value;
	struct dlend_page_run run = run_of(r);
	u64 last = r->first + (r->size - 1), edge, page;

	if (r->cap != SZ_2M)
		return;
	for (edge = ALIGN(r->first, SZ_2M); edge > r->first && edge < last && edge; edge += SZ_2M) {
		page = dlend_page_at(&run, edge);
		KUNIT_ASSERT_TRUE(test, IS_ALIGNED(edge, page));
	}
}

/* Counted at once, and page by page. */
static void counted(struct kunit *test)
{
	const struct run *r = test->param_value;
	struct dlend_page_run run = run_of(r);
	u64 last = r->first + (r->size - 1), at = r->first, page;
	struct dlend_map_pages n, sum = {};

	for (;;) {
		page = dlend_page_at(&run, at);
		if (page >= SZ_1G)
			sum.n1g += page / SZ_1G;
		else if (page >= SZ_2M)
			sum.n2m += page / SZ_2M;
		else
			sum.n4k += page / SZ_4K;
		if (last - at < page)
			break;
		at += page;
	}
	n = dlend_pages_count(&run);
	KUNIT_EXPECT_EQ(test, n.n4k, sum.n4k);
	KUNIT_EXPECT_EQ(test, n.n2m, sum.n2m);
	KUNIT_EXPECT_EQ(test, n.n1g, sum.n1g);
}

/* 8 PiB in pages of 4 KiB: a walk over them would not end. */
static void counted_at_once(struct kunit *test)
{
	struct dlend_page_run run = { .first = SZ_4K, .last = BIT_ULL(53) - 1, .sizes = VTD };
	struct dlend_map_pages n = dlend_pages_count(&run);

	KUNIT_EXPECT_EQ(test, n.n4k, BIT_ULL(41) - 1);
	KUNIT_EXPECT_EQ(test, n.n2m + n.n1g, 0ull);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(as_the_api_maps, run_gen_params),
	KUNIT_CASE_PARAM(edges_are_free, run_gen_params),
	KUNIT_CASE_PARAM(counted, run_gen_params),
	KUNIT_CASE(counted_at_once),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_pages",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
