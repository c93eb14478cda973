// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of who was told of an extent (mdev/pinned.c): messages that are answered, or are not, and
 * leases that end.
 */
#include <kunit/test.h>
#include <linux/bits.h>

#include "mdev/pinned.h"

/* One message about @acks to member @id. Return: as dlend_acks_answer() */
static bool say(struct dlend_acks *acks, enum dlend_change what, u32 id, bool ok)
{
	dlend_acks_ask(acks, what, id);
	return dlend_acks_answer(acks, what, id, ok);
}

/* Two members are told, one after the other; the slot is free when both know that it is gone. */
static void told_two_members(struct kunit *test)
{
	struct dlend_acks e = {};

	KUNIT_EXPECT_TRUE(test, dlend_acks_due(&e, DLEND_CHANGE_NEW, 0));
	KUNIT_EXPECT_FALSE(test, dlend_acks_due(&e, DLEND_CHANGE_GONE, 0));
	/* From the message on: the lender may map the extent before its answer arrives. */
	dlend_acks_ask(&e, DLEND_CHANGE_NEW, 0);
	KUNIT_EXPECT_TRUE(test, dlend_acks_due(&e, DLEND_CHANGE_GONE, 0));
	KUNIT_EXPECT_FALSE(test, dlend_acks_answer(&e, DLEND_CHANGE_NEW, 0, true));
	KUNIT_EXPECT_FALSE(test, dlend_acks_due(&e, DLEND_CHANGE_NEW, 0));
	KUNIT_EXPECT_TRUE(test, dlend_acks_due(&e, DLEND_CHANGE_NEW, 5));
	KUNIT_EXPECT_FALSE(test, say(&e, DLEND_CHANGE_NEW, 5, true));
	KUNIT_EXPECT_EQ(test, e.members, BIT(0) | BIT(5));
	/* Gone: one lender answers; the other one does not, and then it does. */
	KUNIT_EXPECT_FALSE(test, say(&e, DLEND_CHANGE_GONE, 5, true));
	KUNIT_EXPECT_FALSE(test, dlend_acks_due(&e, DLEND_CHANGE_GONE, 5));
	KUNIT_EXPECT_FALSE(test, say(&e, DLEND_CHANGE_GONE, 0, false));
	KUNIT_EXPECT_TRUE(test, dlend_acks_due(&e, DLEND_CHANGE_GONE, 0));
	/* An answer to a message without this extent says nothing about it. */
	KUNIT_EXPECT_FALSE(test, dlend_acks_answer(&e, DLEND_CHANGE_GONE, 0, true));
	KUNIT_EXPECT_TRUE(test, say(&e, DLEND_CHANGE_GONE, 0, true));
	KUNIT_EXPECT_EQ(test, e.members, 0);
}

/* A map whose answer is lost may be done or not: it is unmapped, and mapped once more. */
static void told_unsure(struct kunit *test)
{
	struct dlend_acks e = {};

	KUNIT_EXPECT_FALSE(test, say(&e, DLEND_CHANGE_NEW, 1, true));
	KUNIT_EXPECT_FALSE(test, say(&e, DLEND_CHANGE_NEW, 2, false));
	KUNIT_EXPECT_FALSE(test, dlend_acks_due(&e, DLEND_CHANGE_NEW, 2));
	KUNIT_EXPECT_TRUE(test, dlend_acks_due(&e, DLEND_CHANGE_UNSURE, 2));
	KUNIT_EXPECT_FALSE(test, dlend_acks_due(&e, DLEND_CHANGE_UNSURE, 1));
	KUNIT_EXPECT_FALSE(test, say(&e, DLEND_CHANGE_UNSURE, 2, false));
	KUNIT_EXPECT_TRUE(test, dlend_acks_due(&e, DLEND_CHANGE_UNSURE, 2));
	KUNIT_EXPECT_FALSE(test, say(&e, DLEND_CHANGE_UNSURE, 2, true));
	KUNIT_EXPECT_FALSE(test, dlend_acks_due(&e, DLEND_CHANGE_UNSURE, 2));
	KUNIT_EXPECT_TRUE(test, dlend_acks_due(&e, DLEND_CHANGE_NEW, 2));
	KUNIT_EXPECT_FALSE(test, say(&e, DLEND_CHANGE_NEW, 2, true));
	KUNIT_EXPECT_EQ(test, e.members, BIT(1) | BIT(2));
}

/* A lease ends. If fenced, its lender need not answer; if not, the slot is never free again. */
static void told_leaves(struct kunit *test)
{
	struct dlend_acks e = { .members = BIT(3) | BIT(4), .unsure = BIT(4) };

	KUNIT_EXPECT_FALSE(test, dlend_acks_leave(&e, 4, true));
	KUNIT_EXPECT_EQ(test, e.members, BIT(3));
	KUNIT_EXPECT_EQ(test, e.unsure, 0);
	KUNIT_EXPECT_TRUE(test, dlend_acks_leave(&e, 3, true));
	KUNIT_EXPECT_EQ(test, e.members, 0);

	e.members = BIT(3) | BIT(4);
	KUNIT_EXPECT_FALSE(test, dlend_acks_leave(&e, 4, false));
	KUNIT_EXPECT_EQ(test, e.members, BIT(3) | DLEND_ACKS_LOST);
	KUNIT_EXPECT_TRUE(test, dlend_acks_leave(&e, 3, true));
	KUNIT_EXPECT_EQ(test, e.members, DLEND_ACKS_LOST);
	/* A member whose lender was never told changes nothing. */
	e.members = BIT(3);
	KUNIT_EXPECT_FALSE(test, dlend_acks_leave(&e, 4, false));
	KUNIT_EXPECT_EQ(test, e.members, BIT(3));
}

static struct kunit_case acks_cases[] = {
	KUNIT_CASE(told_two_members),
	KUNIT_CASE(told_unsure),
	KUNIT_CASE(told_leaves),
	{}
};

static struct kunit_suite acks_suite = {
	.name = "dlend-told",
	.test_cases = acks_cases,
};

kunit_test_suite(acks_suite);

MODULE_DESCRIPTION("Suite of who was told of an extent of guest memory");
MODULE_LICENSE("GPL");
