// SPDX-License-Identifier: GPL-2.0
/* Message rings: room, wrap-around of 32 bits, and a peer that lies about its index. */
#include <kunit/test.h>
#include <linux/string.h>
#include <dlend/proto.h>
#include <ntb/queue.h>

/* Both ends in step, from @start on, several times round the ring. */
static void run_from(struct kunit *test, u32 start)
{
	struct dlend_ring_tx tx = { .prod = start, .cons = start };
	struct dlend_ring_rx rx = { .prod = start, .cons = start };
	u32 next_in = 0, next_out = 0, ring[DLEND_RING_SLOTS], i;
	int room, avail;

	for (i = 0; i < 500; i++) {
		room = dlend_ring_tx_room(&tx, rx.cons);
		KUNIT_ASSERT_GE(test, room, 0);
		for (room = min(room, (int)(i % 70)); room > 0; room--) {
			ring[tx.prod % DLEND_RING_SLOTS] = next_in++;
			tx.prod++;
		}
		avail = dlend_ring_rx_avail(&rx, tx.prod);
		KUNIT_ASSERT_GE(test, avail, 0);
		for (avail = min(avail, (int)(i % 53)); avail > 0; avail--) {
			KUNIT_ASSERT_EQ(test, ring[rx.cons & (DLEND_RING_SLOTS - 1)], next_out++);
			rx.cons++;
		}
	}
	KUNIT_EXPECT_GT(test, next_out, 4 * DLEND_RING_SLOTS);
}

static void in_order(struct kunit *test)
{
	run_from(test, 0);
}

static void across_the_wrap(struct kunit *test)
{
	run_from(test, (u32)-300);
}

static void full_and_empty(struct kunit *test)
{
	struct dlend_ring_tx tx = {};
	unsigned int i;

	for (i = 0; i < DLEND_RING_SLOTS; i++) {
		KUNIT_EXPECT_EQ(test, dlend_ring_tx_room(&tx, 0), DLEND_RING_SLOTS - i);
		KUNIT_EXPECT_EQ(test, ++tx.prod, i + 1);
	}
	KUNIT_EXPECT_EQ(test, dlend_ring_tx_room(&tx, 0), 0);
	KUNIT_EXPECT_EQ(test, dlend_ring_tx_room(&tx, 1), 1);
}

struct lie {
	const char *name;
	u32 prod, cons, says;
	int tx, rx;
};

/* The same numbers as credit for a producer, and as index for a consumer. */
static const struct lie lies[] = {
	{ "nothing new", 10, 10, 10, DLEND_RING_SLOTS, 0 },
	{ "one back", 10, 10, 9, -EPROTO, -EPROTO },
	{ "one more", 10, 10, 11, -EPROTO, 1 },
	{ "a full ring", 10, 10, 10 + DLEND_RING_SLOTS, -EPROTO, DLEND_RING_SLOTS },
	{ "overrun", 10, 10, 11 + DLEND_RING_SLOTS, -EPROTO, -EPROTO },
	{ "half the world", 10, 10, 0x80000000u, -EPROTO, -EPROTO },
	{ "all ones", 10, 10, ~0u, -EPROTO, -EPROTO },
	{ "less than said before", 10, 4, 7, DLEND_RING_SLOTS - 3, -EPROTO },
	{ "behind what was consumed", 10, 4, 3, -EPROTO, -EPROTO },
};

static void lie_desc(const struct lie *l, char *desc)
{
	strscpy(desc, l->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(lie, lies, lie_desc);

static void lies_are_refused(struct kunit *test)
{
	const struct lie *l = test->param_value;
	struct dlend_ring_tx tx = { .prod = l->prod, .cons = l->cons };
	struct dlend_ring_rx rx = { .prod = l->prod, .cons = l->cons };

	KUNIT_EXPECT_EQ(test, dlend_ring_tx_room(&tx, l->says), l->tx);
	KUNIT_EXPECT_EQ(test, dlend_ring_rx_avail(&rx, l->says), l->rx);
	/* A refused number changes nothing. */
	if (l->tx < 0)
		KUNIT_EXPECT_EQ(test, tx.cons, l->cons);
	if (l->rx < 0)
		KUNIT_EXPECT_EQ(test, rx.prod, l->prod);
}

/* A peer that takes @each messages every @ms: when is it too slow? 0: never, for ten limits */
static u64 found_slow(u32 each, u32 ms, u64 limit)
{
	struct dlend_ring_tx tx = {};
	u64 now;

	for (now = 5; now < 10 * limit; now += ms) {
		while (dlend_ring_tx_room(&tx, tx.cons) > 0)
			tx.prod++;
		if (dlend_ring_tx_slow(&tx, now, limit))
			return now;
		dlend_ring_tx_room(&tx, tx.cons + each);
	}
	return 0;
}

/* What counts is how many messages the peer takes in what time, not whether it takes any. */
static void drips(struct kunit *test)
{
	u64 limit = 20000;

	KUNIT_EXPECT_GE(test, found_slow(0, 100, limit), limit);
	KUNIT_EXPECT_LE(test, found_slow(0, 100, limit), limit + 200);
	/* One message each time that somebody is about to give up. */
	KUNIT_EXPECT_NE(test, found_slow(1, 4900, limit), 0ull);
	KUNIT_EXPECT_LE(test, found_slow(1, 4900, limit), limit + 4900);
	KUNIT_EXPECT_NE(test, found_slow(1, 1000, limit), 0ull);
	/* A ring full in that time is slow, but not too slow; so is a stall with an end. */
	KUNIT_EXPECT_EQ(test, found_slow(1, 250, limit), 0ull);
	KUNIT_EXPECT_EQ(test, found_slow(DLEND_RING_SLOTS, 15000, limit), 0ull);
}

/* Nobody looks while there is nothing to send: a ring that was full long ago proves nothing. */
static void not_slow_after_a_pause(struct kunit *test)
{
	struct dlend_ring_tx tx = {};

	while (dlend_ring_tx_room(&tx, tx.cons) > 0)
		tx.prod++;
	KUNIT_EXPECT_FALSE(test, dlend_ring_tx_slow(&tx, 1, 100));
	dlend_ring_tx_room(&tx, tx.prod);
	KUNIT_EXPECT_FALSE(test, dlend_ring_tx_slow(&tx, 100000, 100));
	while (dlend_ring_tx_room(&tx, tx.cons) > 0)
		tx.prod++;
	KUNIT_EXPECT_FALSE(test, dlend_ring_tx_slow(&tx, 100001, 100));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(in_order),
	KUNIT_CASE(across_the_wrap),
	KUNIT_CASE(full_and_empty),
	KUNIT_CASE(drips),
	KUNIT_CASE(not_slow_after_a_pause),
	KUNIT_CASE_PARAM(lies_are_refused, lie_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_ring",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
