// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of bookings (borrower/p2p_plan.c): how much of a window the VMs of a node have, and
 * what that leaves for another one.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <borrower/p2p_plan.h>

#define MIB	BIT_ULL(20)

/* Node 1 borrows; 2 and 3 have a link; 4 has one to node 1 only. */
static const struct dlend_p2p_path paths[] = {
	{ 2, 3, 32 }, { 3, 2, 32 }, { 2, 1, 8 }, { 3, 1, 8 }, { 4, 1, 32 },
};

/* Two VMs. */
static const char vm[2];

static struct dlend_addr address(u16 lender, u16 bdf)
{
	return (struct dlend_addr){ .lender = lender, .bdf = bdf };
}

/* VM @user: a device of node 2 reaches the BAR 0, of 16 MiB, of one of node 3. */
static struct dlend_p2p_booking booking(unsigned int user, u16 s, u16 t)
{
	struct dlend_p2p_booking b = {
		.user = &vm[user], .s = address(2, s), .t = address(3, t), .bytes = 16 * MIB,
	};

	dlend_p2p_booking_set_aperture(&b, 1, DLEND_P2P_LENDERS);
	return b;
}

static void places(struct kunit *test)
{
	struct dlend_p2p_booking b = booking(0, 1, 1);

	KUNIT_EXPECT_TRUE(test, dlend_p2p_booking_set_aperture(&b, 1, DLEND_P2P_LENDERS));
	KUNIT_EXPECT_TRUE(test, b.from == 2 && b.to == 3);
	KUNIT_EXPECT_TRUE(test, dlend_p2p_booking_set_aperture(&b, 1, DLEND_P2P_BORROWER));
	KUNIT_EXPECT_TRUE(test, b.from == 2 && b.to == 1);
	KUNIT_EXPECT_FALSE(test, dlend_p2p_booking_set_aperture(&b, 1, DLEND_P2P_LOCAL));
	KUNIT_EXPECT_FALSE(test, dlend_p2p_booking_set_aperture(&b, 1, DLEND_P2P_NONE));
}

/* All devices of a lender reach a BAR through one slot, as long as one of them does. */
static void one_slot_for_a_lender(struct kunit *test)
{
	struct dlend_p2p_booking a = booking(0, 1, 1), b = booking(0, 2, 1), c = booking(0, 2, 2);
	LIST_HEAD(list);

	dlend_p2p_booking_add(&list, &a);
	dlend_p2p_booking_add(&list, &b);
	KUNIT_EXPECT_EQ(test, dlend_p2p_booked(&list, 2, 3, NULL), 16 * MIB);
	dlend_p2p_booking_add(&list, &c);
	KUNIT_EXPECT_EQ(test, dlend_p2p_booked(&list, 2, 3, NULL), 32 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_p2p_booked(&list, 3, 2, NULL), 0);
	/* The one that counted goes: the other counts. */
	dlend_p2p_booking_del(&list, &a);
	KUNIT_EXPECT_EQ(test, dlend_p2p_booked(&list, 2, 3, NULL), 32 * MIB);
	dlend_p2p_booking_del(&list, &b);
	dlend_p2p_booking_del(&list, &c);
	KUNIT_EXPECT_EQ(test, dlend_p2p_booked(&list, 2, 3, NULL), 0);
}

static void slots_of_their_own_through_the_borrower(struct kunit *test)
{
	struct dlend_p2p_booking a = booking(0, 1, 1), b = booking(0, 2, 1);
	LIST_HEAD(list);

	dlend_p2p_booking_set_aperture(&a, 1, DLEND_P2P_BORROWER);
	dlend_p2p_booking_set_aperture(&b, 1, DLEND_P2P_BORROWER);
	dlend_p2p_booking_add(&list, &a);
	dlend_p2p_booking_add(&list, &b);
	KUNIT_EXPECT_EQ(test, dlend_p2p_booked(&list, 2, 1, NULL), 32 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_p2p_booked(&list, 2, 1, &vm[1]), 32 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_p2p_booked(&list, 2, 1, &vm[0]), 0);
}

/* A device leaves: whatever leads to it or from it. */
static void found_by_either_end(struct kunit *test)
{
	struct dlend_p2p_booking a = booking(0, 1, 1), like = booking(0, 1, 1);
	struct dlend_addr source = address(2, 1), target = address(3, 1), other = address(3, 2);
	LIST_HEAD(list);

	dlend_p2p_booking_add(&list, &a);
	KUNIT_EXPECT_PTR_EQ(test, dlend_p2p_booking_find(&list, &like), &a);
	like.bar = 1;
	KUNIT_EXPECT_NULL(test, dlend_p2p_booking_find(&list, &like));
	KUNIT_EXPECT_PTR_EQ(test, dlend_p2p_booking_of(&list, &source), &a);
	KUNIT_EXPECT_PTR_EQ(test, dlend_p2p_booking_of(&list, &target), &a);
	KUNIT_EXPECT_NULL(test, dlend_p2p_booking_of(&list, &other));
}

/* What was promised is nobody else's, mapped or not; where nothing was, the first one is served. */
static void promises_are_kept(struct kunit *test)
{
	const struct dlend_p2p_fabric f = { .self = 1, .path = paths, .n = ARRAY_SIZE(paths) };
	struct dlend_p2p_booking a = booking(0, 1, 1), b = booking(1, 2, 2);
	LIST_HEAD(list);

	b.bytes = 17 * MIB;
	dlend_p2p_booking_add(&list, &a);
	KUNIT_EXPECT_TRUE(test, dlend_p2p_booking_fits(&list, &f, &b));
	a.promised = true;
	KUNIT_EXPECT_FALSE(test, dlend_p2p_booking_fits(&list, &f, &b));
	b.bytes = 16 * MIB;
	KUNIT_EXPECT_TRUE(test, dlend_p2p_booking_fits(&list, &f, &b));
	b.bytes = 17 * MIB;
	/* The same VM's: whether that fits, the lender says. */
	b.user = a.user;
	KUNIT_EXPECT_TRUE(test, dlend_p2p_booking_fits(&list, &f, &b));
	/* Another window. */
	b.user = &vm[1];
	dlend_p2p_booking_set_aperture(&b, 1, DLEND_P2P_BORROWER);
	KUNIT_EXPECT_TRUE(test, dlend_p2p_booking_fits(&list, &f, &b));
	/* No more room for a slot that is there already. */
	b = booking(1, 2, 1);
	b.bytes = 17 * MIB;
	KUNIT_EXPECT_TRUE(test, dlend_p2p_booking_fits(&list, &f, &b));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(places),
	KUNIT_CASE(one_slot_for_a_lender),
	KUNIT_CASE(slots_of_their_own_through_the_borrower),
	KUNIT_CASE(found_by_either_end),
	KUNIT_CASE(promises_are_kept),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_p2p_bookings",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit suite of dlend's bookings for peer-to-peer");
MODULE_LICENSE("GPL");
