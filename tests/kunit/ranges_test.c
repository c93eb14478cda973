// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of sets of guest-physical addresses (mdev/ranges.c), against a set of 64 addresses.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include "mdev/ranges.h"

/* The set has exactly the addresses of @bits, in ranges that are apart and in order. */
static void expect_same(struct kunit *test, const struct dlend_ranges *x, u64 bits)
{
	struct dlend_range r;
	u64 seen = 0;
	u32 i;

	for (i = 0; i < x->count; i++) {
		KUNIT_ASSERT_LT(test, x->range[i].start, x->range[i].end);
		KUNIT_ASSERT_LE(test, x->range[i].end, 64);
		if (i)
			KUNIT_ASSERT_GT(test, x->range[i].start, x->range[i - 1].end);
		seen |= GENMASK_ULL(x->range[i].end - 1, x->range[i].start);
	}
	KUNIT_ASSERT_EQ(test, seen, bits);
	for (i = 0; i < 64; i++) {
		u64 above = bits & ~(BIT_ULL(i) - 1);

		KUNIT_ASSERT_EQ(test, dlend_ranges_next(x, i, &r), !!above);
		if (above) {
			KUNIT_ASSERT_GT(test, r.end, i);
			KUNIT_ASSERT_EQ(test, max_t(u64, r.start, i), __ffs64(above));
		}
	}
}

static u32 next_random(u32 *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static u64 random_ranges(struct kunit *test, struct dlend_ranges *x, u32 *seed)
{
	u32 n = next_random(seed) % 12;
	u64 bits = 0;

	while (n--) {
		u64 start = next_random(seed) % 64, end = start + next_random(seed) % 9;

		end = min(end, 64ull);
		KUNIT_ASSERT_EQ(test, dlend_ranges_add(x, start, end), 0);
		if (end > start)
			bits |= GENMASK_ULL(end - 1, start);
		expect_same(test, x, bits);
	}
	return bits;
}

static void ranges_random(struct kunit *test)
{
	u32 seed = 3, round;

	for (round = 0; round < 2000; round++) {
		struct dlend_ranges a = {}, b = {}, both = {}, without = {};
		u64 in_a = random_ranges(test, &a, &seed), in_b = random_ranges(test, &b, &seed);

		KUNIT_ASSERT_EQ(test, dlend_ranges_add_both(&both, &a, &b), 0);
		expect_same(test, &both, in_a & in_b);
		KUNIT_ASSERT_EQ(test, dlend_ranges_add_without(&without, &a, &b), 0);
		expect_same(test, &without, in_a & ~in_b);
		dlend_ranges_clear(&a);
		expect_same(test, &a, 0);
		dlend_ranges_clear(&b);
		dlend_ranges_clear(&both);
		dlend_ranges_clear(&without);
	}
}

/* The ends of the address space. */
static void ranges_ends(struct kunit *test)
{
	struct dlend_ranges x = {};
	struct dlend_range r;

	KUNIT_EXPECT_FALSE(test, dlend_ranges_next(&x, 0, &r));
	KUNIT_EXPECT_EQ(test, dlend_ranges_add(&x, U64_MAX - 4095, U64_MAX), 0);
	KUNIT_EXPECT_EQ(test, dlend_ranges_add(&x, 0, 4096), 0);
	KUNIT_EXPECT_EQ(test, dlend_ranges_add(&x, 5, 5), 0);
	KUNIT_EXPECT_EQ(test, x.count, 2);
	KUNIT_EXPECT_TRUE(test, dlend_ranges_next(&x, 4096, &r));
	KUNIT_EXPECT_EQ(test, r.start, U64_MAX - 4095);
	KUNIT_EXPECT_FALSE(test, dlend_ranges_next(&x, U64_MAX, &r));
	KUNIT_EXPECT_EQ(test, dlend_ranges_add(&x, 0, U64_MAX), 0);
	KUNIT_EXPECT_EQ(test, x.count, 1);
	dlend_ranges_clear(&x);
}

/* A VMM can unmap every second page of a large memory. */
static void ranges_most(struct kunit *test)
{
	struct dlend_ranges x = {};
	u64 i;

	for (i = 0; i < DLEND_RANGES_MAX; i++)
		KUNIT_ASSERT_EQ(test, dlend_ranges_add(&x, 2 * i * 4096, (2 * i + 1) * 4096), 0);
	KUNIT_EXPECT_EQ(test, dlend_ranges_add(&x, 2 * i * 4096, (2 * i + 1) * 4096), -ENOMEM);
	KUNIT_EXPECT_EQ(test, x.count, DLEND_RANGES_MAX);
	/* What joins others needs no room. */
	KUNIT_EXPECT_EQ(test, dlend_ranges_add(&x, 4096, 8192), 0);
	KUNIT_EXPECT_EQ(test, x.count, DLEND_RANGES_MAX - 1);
	dlend_ranges_clear(&x);
}

static struct kunit_case ranges_cases[] = {
	KUNIT_CASE(ranges_most),
	KUNIT_CASE(ranges_random),
	KUNIT_CASE(ranges_ends),
	{}
};

static struct kunit_suite ranges_suite = {
	.name = "dlend-ranges",
	.test_cases = ranges_cases,
};

kunit_test_suite(ranges_suite);

MODULE_DESCRIPTION("Suite of dlend's sets of guest-physical addresses");
MODULE_LICENSE("GPL");
