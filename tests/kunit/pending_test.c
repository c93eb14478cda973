// SPDX-License-Identifier: GPL-2.0
/* Suite of the messages that wait for one peer (lender/pending.h). */
#include <kunit/test.h>
#include <linux/kernel.h>

#include "lender/pending.h"

/* As when a link between two lenders is lost, over which a borrower has this many maps. */
#define MAPS	(32u * 192)

static void add(struct kunit *test, struct lend_pending *n, bool lost, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		KUNIT_EXPECT_TRUE(test, lend_pending_add(n, lost));
}

/* The end of all maps at once is no fault of the peer's, whatever else waits for it. */
static void lost_maps(struct kunit *test)
{
	struct lend_pending n = {};

	add(test, &n, true, MAPS);
	add(test, &n, false, LEND_PENDING_MAX);
	add(test, &n, true, MAPS);
	KUNIT_EXPECT_EQ(test, n.all, 2 * MAPS + LEND_PENDING_MAX);
	KUNIT_EXPECT_EQ(test, n.lost, 2 * MAPS);
}

/* A peer that takes none of the others loses its session, whatever maps were lost. */
static void limit(struct kunit *test)
{
	struct lend_pending n = {}, before;

	add(test, &n, true, 1);
	add(test, &n, false, LEND_PENDING_MAX);
	before = n;
	KUNIT_EXPECT_FALSE(test, lend_pending_add(&n, false));
	KUNIT_EXPECT_EQ(test, n.all, before.all);
	KUNIT_EXPECT_EQ(test, n.lost, before.lost);
	/* One that it has taken makes room, but not a lost map. */
	lend_pending_del(&n, true);
	KUNIT_EXPECT_FALSE(test, lend_pending_add(&n, false));
	lend_pending_del(&n, false);
	KUNIT_EXPECT_TRUE(test, lend_pending_add(&n, false));
	KUNIT_EXPECT_FALSE(test, lend_pending_add(&n, false));
	for (unsigned int i = 0; i < LEND_PENDING_MAX; i++)
		lend_pending_del(&n, false);
	KUNIT_EXPECT_EQ(test, n.all, 0u);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(lost_maps),
	KUNIT_CASE(limit),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend-notes",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("Suite of the messages that wait for a peer of dlend");
MODULE_LICENSE("GPL");
