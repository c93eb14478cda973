// SPDX-License-Identifier: GPL-2.0
/* Suite of the mappable parts of a BAR (mdev/ranges.c), against a page-by-page model. */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <mdev/ranges.h>

#define PAGES	12

struct area_case {
	const char *name;
	u64 start, end;
	unsigned int n;
	struct dlend_range left[2];
};

static const struct area_case cases[] = {
	{ "nothing", 5, 5, 1, { { 0, PAGES } } },
	{ "beyond", PAGES, PAGES + 3, 1, { { 0, PAGES } } },
	{ "the begin", 0, 3, 1, { { 3, PAGES } } },
	{ "the end", 9, PAGES, 1, { { 0, 9 } } },
	{ "over the end", 9, U64_MAX, 1, { { 0, 9 } } },
	{ "the midst", 4, 5, 2, { { 0, 4 }, { 5, PAGES } } },
	{ "all", 0, PAGES, 0, { } },
};

KUNIT_ARRAY_PARAM_DESC(area, cases, name);

static void area_one(struct kunit *test)
{
	struct dlend_range area[DLEND_MAX_AREAS] = { { 0, PAGES } };
	const struct area_case *c = test->param_value;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, dlend_area_cut(area, 1, c->start, c->end), c->n);
	for (i = 0; i < c->n; i++) {
		KUNIT_EXPECT_EQ(test, area[i].start, c->left[i].start);
		KUNIT_EXPECT_EQ(test, area[i].end, c->left[i].end);
	}
}

static void expect_pages(struct kunit *test, const struct dlend_range *area, unsigned int n,
			 u32 pages)
{
	u32 got = 0;
	unsigned int i;

	KUNIT_ASSERT_LE(test, n, DLEND_MAX_AREAS);
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_LT(test, area[i].start, area[i].end);
		if (i)
			KUNIT_EXPECT_LE(test, area[i - 1].end, area[i].start);
		got |= (1u << area[i].end) - (1u << area[i].start);
	}
	KUNIT_EXPECT_EQ(test, got, pages);
}

/* Table and PBA anywhere, also over each other: two cuts leave the right pages, in order. */
static void area_two(struct kunit *test)
{
	const u32 all = (1u << PAGES) - 1, one = PAGES + 1, sets = one * one;
	u32 i;

	for (i = 0; i < sets * sets; i++) {
		u64 a = i % one, b = i / one % one, c = i / sets % one, d = i / sets / one;
		struct dlend_range area[DLEND_MAX_AREAS] = { { 0, PAGES } };
		unsigned int n;

		if (a > b || c > d)
			continue;
		n = dlend_area_cut(area, 1, a, b);
		n = dlend_area_cut(area, n, c, d);
		expect_pages(test, area, n,
			     all & ~((1u << b) - (1u << a)) & ~((1u << d) - (1u << c)));
	}
}

static struct kunit_case area_cases[] = {
	KUNIT_CASE_PARAM(area_one, area_gen_params),
	KUNIT_CASE(area_two),
	{}
};

static struct kunit_suite area_suite = {
	.name = "dlend-area",
	.test_cases = area_cases,
};

kunit_test_suite(area_suite);

MODULE_DESCRIPTION("Suite of dlend's mappable parts of a BAR");
MODULE_LICENSE("GPL");
