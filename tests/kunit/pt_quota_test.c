// SPDX-License-Identifier: GPL-2.0
/* How many page tables a domain may have been left with. */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/sizes.h>
#include <iommu/claims.h>

#define MOST	1000

static int page(struct dlend_pt_quota *t, u64 at)
{
	return dlend_pt_quota_add(t, at, at + SZ_4K - 1, false, MOST);
}

static void same_place(struct kunit *test)
{
	struct dlend_pt_quota t;
	unsigned int i;

	dlend_pt_quota_init(&t);
	for (i = 0; i < 3 * MOST; i++)
		KUNIT_ASSERT_EQ(test, page(&t, SZ_1G + (i & 511) * SZ_4K), 0);
	/* One that maps 512 GiB, one of 1 GiB, one of 2 MiB. */
	KUNIT_EXPECT_EQ(test, t.tables, 3ull);
	dlend_pt_quota_free(&t);
}

static void on_and_on(struct kunit *test)
{
	struct dlend_pt_quota t;
	unsigned int i;

	dlend_pt_quota_init(&t);
	/* A table for the GiB, and one for 2 MiB of it. */
	for (i = 0; i < MOST / 2 - 1; i++)
		KUNIT_ASSERT_EQ(test, page(&t, (u64)i * SZ_1G), 0);
	KUNIT_EXPECT_EQ(test, t.tables, MOST - 1ull);
	KUNIT_EXPECT_EQ(test, page(&t, SZ_2M), 0);
	KUNIT_EXPECT_EQ(test, page(&t, (u64)i * SZ_1G), -ENOSPC);
	KUNIT_EXPECT_EQ(test, page(&t, SZ_4M), -ENOSPC);
	KUNIT_EXPECT_EQ(test, t.tables, (u64)MOST);
	/* What was touched before is no more. */
	KUNIT_EXPECT_EQ(test, page(&t, SZ_1G + SZ_4K), 0);
	dlend_pt_quota_free(&t);
	KUNIT_EXPECT_EQ(test, t.tables, 0ull);
	KUNIT_EXPECT_EQ(test, page(&t, (u64)i * SZ_1G), 0);
	dlend_pt_quota_free(&t);
}

/* All of a table is unmapped at once: then it goes, and the tables above stay. */
static void whole(struct kunit *test)
{
	const u64 tib = 1024ull * SZ_1G;
	struct dlend_pt_quota t;
	unsigned int i;

	dlend_pt_quota_init(&t);
	KUNIT_EXPECT_EQ(test, dlend_pt_quota_add(&t, tib, 2 * tib - 1, false, MOST), 0);
	KUNIT_EXPECT_EQ(test, t.tables, 0ull);
	for (i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, dlend_pt_quota_add(&t, (u64)i * SZ_1G,
							 (u64)i * SZ_1G + SZ_4M - 1, false, MOST),
				0);
	KUNIT_EXPECT_EQ(test, t.tables, 101ull);
	/* From the middle of one to the middle of another. */
	KUNIT_EXPECT_EQ(test, dlend_pt_quota_add(&t, SZ_1M, SZ_1G + SZ_1M - 1, false, MOST), 0);
	KUNIT_EXPECT_EQ(test, t.tables, 103ull);
	dlend_pt_quota_free(&t);
}

static void pieces(struct kunit *test)
{
	struct dlend_pt_quota t;

	dlend_pt_quota_init(&t);
	KUNIT_EXPECT_EQ(test, dlend_pt_quota_add(&t, 0, SZ_1G - 1, true, MOST), 0);
	KUNIT_EXPECT_EQ(test, t.tables, 514ull);
	KUNIT_EXPECT_EQ(test, dlend_pt_quota_add(&t, SZ_1M, SZ_1G - 1, true, MOST), 0);
	KUNIT_EXPECT_EQ(test, t.tables, 514ull);
	KUNIT_EXPECT_EQ(test, dlend_pt_quota_add(&t, SZ_1G, 2ull * SZ_1G - 1, true, MOST), -ENOSPC);
	KUNIT_EXPECT_LE(test, t.tables, (u64)MOST);
	dlend_pt_quota_free(&t);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(same_place),
	KUNIT_CASE(on_and_on),
	KUNIT_CASE(whole),
	KUNIT_CASE(pieces),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_pt_quota",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
