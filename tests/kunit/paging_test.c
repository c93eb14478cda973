// SPDX-License-Identifier: GPL-2.0
/* End of a domain: one that the kernel still uses is never freed. */
#include <kunit/test.h>
#include <linux/bits.h>
#include "fake_paging.h"

static void refused_once(struct kunit *test)
{
	struct fake_paging *fake = fake_paging_new(test, FAKE_VTD);

	KUNIT_ASSERT_EQ(test, fake->pub.ops->attach(&fake->pub), 0);
	fake->refuse_detach = 1;
	KUNIT_EXPECT_FALSE(test, dlend_paging_detach(&fake->pub));
	KUNIT_EXPECT_TRUE(test, dlend_paging_end(&fake->pub));
	KUNIT_EXPECT_TRUE(test, fake->freed);
}

static void refused_for_good(struct kunit *test)
{
	struct fake_paging *fake = fake_paging_new(test, FAKE_VTD);

	KUNIT_ASSERT_EQ(test, fake->pub.ops->attach(&fake->pub), 0);
	fake->refuse_detach = 2;
	KUNIT_EXPECT_FALSE(test, dlend_paging_detach(&fake->pub));
	KUNIT_EXPECT_FALSE(test, dlend_paging_end(&fake->pub));
	KUNIT_EXPECT_FALSE(test, fake->freed);
}

static void never_attached(struct kunit *test)
{
	struct fake_paging *fake = fake_paging_new(test, FAKE_VTD);

	fake->refuse_detach = 1;
	KUNIT_EXPECT_TRUE(test, dlend_paging_end(&fake->pub));
	KUNIT_EXPECT_TRUE(test, fake->freed);
	KUNIT_EXPECT_EQ(test, fake->refuse_detach, 1u);
}

static void kept_by_somebody(struct kunit *test)
{
	struct fake_paging *fake = fake_paging_new(test, FAKE_VTD);

	KUNIT_ASSERT_EQ(test, fake->pub.ops->attach(&fake->pub), 0);
	dlend_paging_get(&fake->pub);
	KUNIT_EXPECT_TRUE(test, dlend_paging_end(&fake->pub));
	KUNIT_EXPECT_FALSE(test, fake->attached);
	KUNIT_EXPECT_FALSE(test, fake->freed);
	dlend_paging_put(&fake->pub);
	KUNIT_EXPECT_TRUE(test, fake->freed);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(kept_by_somebody),
	KUNIT_CASE(refused_once),
	KUNIT_CASE(refused_for_good),
	KUNIT_CASE(never_attached),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_paging",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
