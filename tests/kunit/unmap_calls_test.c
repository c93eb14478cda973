// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the dma_unmap calls under way (mdev/pinned.c): two links' workers, and VFIO's loop
 * over its devices.
 */
#include <kunit/test.h>
#include <linux/kernel.h>

#include "mdev/pinned.h"

#define GB(n)	((u64)(n) << 30)

static void unmap_calls_ranges(struct kunit *test)
{
	struct dlend_unmap_calls u = {};

	KUNIT_EXPECT_FALSE(test, dlend_unmap_calls_busy(&u, 0, U64_MAX, 100000));
	dlend_unmap_calls_begin(&u, GB(1), GB(2) - 1, 100000);
	KUNIT_EXPECT_TRUE(test, dlend_unmap_calls_busy(&u, GB(1), GB(1), 100000));
	KUNIT_EXPECT_TRUE(test, dlend_unmap_calls_busy(&u, 0, GB(1), 100000));
	KUNIT_EXPECT_FALSE(test, dlend_unmap_calls_busy(&u, 0, GB(1) - 1, 100000));
	KUNIT_EXPECT_FALSE(test, dlend_unmap_calls_busy(&u, GB(2), U64_MAX, 100000));
	/* A call is busy however long it takes. */
	KUNIT_EXPECT_TRUE(test, dlend_unmap_calls_busy(&u, GB(1), GB(1), 900000));
	dlend_unmap_calls_begin(&u, GB(3), GB(4) - 1, 900000);
	dlend_unmap_calls_end(&u, GB(3), GB(4) - 1, 900001);
	KUNIT_EXPECT_TRUE(test, dlend_unmap_calls_busy(&u, GB(1), GB(1), 990000));
	dlend_unmap_calls_end(&u, GB(1), GB(2) - 1, 990000);
	KUNIT_EXPECT_TRUE(test, dlend_unmap_calls_busy(&u, GB(1), GB(1), 990000 + DLEND_SETTLE_MS));
	KUNIT_EXPECT_FALSE(test,
			   dlend_unmap_calls_busy(&u, GB(3), GB(3), 990000 + DLEND_SETTLE_MS));
	KUNIT_EXPECT_FALSE(test, dlend_unmap_calls_busy(&u, 0, U64_MAX, 990001 + DLEND_SETTLE_MS));
	/* A new one is about its own range only. */
	dlend_unmap_calls_begin(&u, 0, 4095, 990001 + DLEND_SETTLE_MS);
	KUNIT_EXPECT_FALSE(test,
			   dlend_unmap_calls_busy(&u, GB(1), GB(4), 990001 + DLEND_SETTLE_MS));
	dlend_unmap_calls_end(&u, 0, 4095, 990002 + DLEND_SETTLE_MS);
}

/* virtio-mem shrinks, a block each millisecond, from above: an old block is not busy any more. */
static void unmap_calls_shrinking(struct kunit *test)
{
	struct dlend_unmap_calls u = {};
	u64 ms, block = 2 << 20, at;

	for (ms = 1000; ms < 2000; ms++) {
		at = GB(8) - ms * block;
		dlend_unmap_calls_begin(&u, at, at + block - 1, ms);
		dlend_unmap_calls_end(&u, at, at + block - 1, ms);
		KUNIT_EXPECT_TRUE(test, dlend_unmap_calls_busy(&u, at, at, ms));
		at += (DLEND_SETTLE_MS + 1) * block;
		if (ms > 1000 + DLEND_SETTLE_MS)
			KUNIT_EXPECT_FALSE(test, dlend_unmap_calls_busy(&u, at, GB(8), ms));
	}
}

/* More ranges at a time than there is room for: none of them is forgotten. */
static void unmap_calls_many(struct kunit *test)
{
	struct dlend_unmap_calls u = {};
	u64 n;

	for (n = 0; n < 3 * DLEND_UNMAP_CALLS_MAX; n++)
		dlend_unmap_calls_begin(&u, GB(n), GB(n) + 4095, 1000);
	for (n = 0; n < 3 * DLEND_UNMAP_CALLS_MAX; n++)
		KUNIT_EXPECT_TRUE(test, dlend_unmap_calls_busy(&u, GB(n), GB(n), 1000000));
	for (n = 0; n < 3 * DLEND_UNMAP_CALLS_MAX; n++)
		dlend_unmap_calls_end(&u, GB(n), GB(n) + 4095, 1000000);
	KUNIT_EXPECT_FALSE(test, dlend_unmap_calls_busy(&u, 0, U64_MAX, 1000001 + DLEND_SETTLE_MS));
}

/*
 * type1 takes memory away from a VM with devices over two links; each unpins in 500 ms, and its
 * worker pins again as soon as it may.  Return: how often VFIO has to go round.
 */
static unsigned int rounds(bool wait)
{
	struct dlend_unmap_calls u = {};
	bool pinned[2] = { true, true };
	unsigned int n = 0;
	u64 ms = 1000;

	while ((pinned[0] || pinned[1]) && n < 20) {
		for (unsigned int i = 0; i < 2; i++) {
			bool had = pinned[i];

			dlend_unmap_calls_begin(&u, 0, GB(2) - 1, ms);
			pinned[i] = false;
			ms += had ? 500 : 0;
			/* The other worker, whose device's own call ended long ago, pins again. */
			if (had && (!wait || !dlend_unmap_calls_busy(&u, 0, 4095, ms)))
				pinned[!i] = true;
			dlend_unmap_calls_end(&u, 0, GB(2) - 1, ms);
		}
		n++;
	}
	return n;
}

static void unmap_calls_two_links(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, rounds(true), 1);
	/* type1 ends in a BUG after ten rounds. */
	KUNIT_EXPECT_GT(test, rounds(false), 10);
}

static struct kunit_case unmap_calls_cases[] = {
	KUNIT_CASE(unmap_calls_ranges),
	KUNIT_CASE(unmap_calls_shrinking),
	KUNIT_CASE(unmap_calls_many),
	KUNIT_CASE(unmap_calls_two_links),
	{}
};

static struct kunit_suite unmap_calls_suite = {
	.name = "dlend-unmap-calls",
	.test_cases = unmap_calls_cases,
};

kunit_test_suite(unmap_calls_suite);

MODULE_DESCRIPTION("Suite of dlend's waiting for dma_unmap");
MODULE_LICENSE("GPL");
