// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the peer-to-peer plan (borrower/p2p_plan.c): which BARs are to be reached, by which
 * route, and what a change needs.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <dlend/p2p_plan.h>

#define MIB	BIT_ULL(20)

/* A device on node @lender, in use, with one BAR at @gpa. */
static struct dlend_p2p_dev device(u16 lender, u64 gpa, u64 size)
{
	struct dlend_p2p_dev dev = {
		.addr = { .lender = lender, .bdf = 0x100 }, .epoch = lender * 10u,
		.source = true, .target = true, .clique = -1,
		.bar[2] = { gpa, size },
	};

	return dev;
}

/* May @s, of two devices, reach that BAR of @t? */
static enum dlend_p2p_why want(const struct dlend_p2p_dev *dev, unsigned int s, unsigned int t,
			       unsigned int bar, struct dlend_p2p_wish *wish)
{
	return dlend_p2p_want(dev, 2, (struct dlend_p2p_way){ s, t, bar }, wish);
}

static void bars_where_the_guest_put_them(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = { device(2, 0xfe000000, MIB), device(3, 0xfd000000, MIB) };
	struct dlend_p2p_wish wish;

	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_OK);
	KUNIT_EXPECT_TRUE(test, wish.on && wish.gpa == 0xfd000000 && wish.size == MIB);
	KUNIT_EXPECT_TRUE(test, wish.source_epoch == 20 && wish.target_epoch == 30);
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 3, &wish), DLEND_P2P_NO_BAR);
	KUNIT_EXPECT_FALSE(test, wish.on);
	/* Its driver may put queues into its own memory. */
	KUNIT_EXPECT_EQ(test, want(dev, 1, 1, 2, &wish), DLEND_P2P_OK);
	KUNIT_EXPECT_TRUE(test, wish.on && wish.gpa == 0xfd000000);
	KUNIT_EXPECT_TRUE(test, wish.source_epoch == 30 && wish.target_epoch == 30);

	/* Each direction by itself. */
	dev[0].source = false;
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_OFF);
	KUNIT_EXPECT_EQ(test, want(dev, 1, 0, 2, &wish), DLEND_P2P_OK);
	dev[0].source = true;
	dev[1].target = false;
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_OFF);
}

static void odd_places(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = { device(2, 0xfe000000, MIB), device(3, 0xfd000000, MIB) };
	struct dlend_p2p_wish wish;

	dev[1].bar[2].gpa = 0xfd000100;
	dev[1].bar[2].size = 256;
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_PART);
	/* As while sizing: all ones. */
	dev[1].bar[2].gpa = -MIB;
	dev[1].bar[2].size = MIB;
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_PART);

	/* Over one of the other device, at its edge, and over one of its own. */
	dev[1].bar[2].gpa = 0xfe000000 + MIB - 4096;
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_OVER_BAR);
	KUNIT_EXPECT_EQ(test, want(dev, 1, 0, 2, &wish), DLEND_P2P_OVER_BAR);
	dev[1].bar[2].gpa = 0xfe000000 + MIB;
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_OK);
	dev[1].bar[0] = (struct dlend_p2p_bar){ 0xfe000000 + MIB + 4096, 4096 };
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_OVER_BAR);
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 0, &wish), DLEND_P2P_OVER_BAR);
	/* A BAR that is not decoded does not count. */
	dev[1].bar[0].size = 0;
	dev[1].bar[2].gpa = 0xfe000000;
	dev[0].target = false;
	KUNIT_EXPECT_EQ(test, want(dev, 0, 1, 2, &wish), DLEND_P2P_OK);
}

struct step_case {
	const char *name;
	struct dlend_p2p_wish want, have;
	enum dlend_p2p_step step;
};

#define ON(gpa, s, t)	{ true, gpa, MIB, s, t }

static const struct step_case steps[] = {
	{ "nothing", {}, {}, DLEND_P2P_KEEP },
	{ "new", ON(0xfe000000, 1, 2), {}, DLEND_P2P_MAP },
	{ "as it is", ON(0xfe000000, 1, 2), ON(0xfe000000, 1, 2), DLEND_P2P_KEEP },
	{ "gone", {}, ON(0xfe000000, 1, 2), DLEND_P2P_UNMAP },
	{ "moved", ON(0xfd000000, 1, 2), ON(0xfe000000, 1, 2), DLEND_P2P_UNMAP },
	{ "target's lease is another", ON(0xfe000000, 1, 3), ON(0xfe000000, 1, 2),
	  DLEND_P2P_UNMAP },
	{ "source's lease is another", ON(0xfe000000, 4, 2), ON(0xfe000000, 1, 2),
	  DLEND_P2P_UNMAP },
};

KUNIT_ARRAY_PARAM_DESC(step, steps, name);

static void step_one(struct kunit *test)
{
	const struct step_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, dlend_p2p_step(&c->want, &c->have), c->step);
}

/* Node 1 borrows; 2 and 3 have a link, 4 has none to either. */
static const struct dlend_p2p_path paths[] = {
	{ 2, 3, 64 }, { 3, 2, 64 }, { 2, 1, 256 }, { 3, 1, 256 }, { 4, 1, 16 }, { 1, 4, 16 },
};

static const struct dlend_p2p_fabric fabric = {
	.self = 1, .path = paths, .n = ARRAY_SIZE(paths),
};

static void routes(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, dlend_p2p_route(&fabric, 2, 2), DLEND_P2P_LOCAL);
	KUNIT_EXPECT_EQ(test, dlend_p2p_route(&fabric, 2, 3), DLEND_P2P_LENDERS);
	KUNIT_EXPECT_EQ(test, dlend_p2p_route(&fabric, 2, 4), DLEND_P2P_BORROWER);
	/* A device of this node: the link is the one over which the other device is borrowed. */
	KUNIT_EXPECT_EQ(test, dlend_p2p_route(&fabric, 1, 4), DLEND_P2P_LENDERS);
	KUNIT_EXPECT_EQ(test, dlend_p2p_route(&fabric, 4, 1), DLEND_P2P_LENDERS);
	KUNIT_EXPECT_EQ(test, dlend_p2p_route(&fabric, 1, 1), DLEND_P2P_LOCAL);

	KUNIT_EXPECT_EQ(test, dlend_p2p_detour(&fabric, 2, 3, DLEND_P2P_LENDERS),
			DLEND_P2P_BORROWER);
	KUNIT_EXPECT_EQ(test, dlend_p2p_detour(&fabric, 2, 3, DLEND_P2P_BORROWER),
			DLEND_P2P_NONE);
	KUNIT_EXPECT_EQ(test, dlend_p2p_detour(&fabric, 1, 4, DLEND_P2P_LENDERS), DLEND_P2P_NONE);
	KUNIT_EXPECT_EQ(test, dlend_p2p_detour(&fabric, 2, 2, DLEND_P2P_LOCAL), DLEND_P2P_NONE);
}

static void windows_count(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = {
		device(2, 0, 32 * MIB), device(3, 0, 64 * MIB), device(2, 0, 16 * MIB),
		device(4, 0, 8 * MIB),
	};

	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 4, 0, 2), DLEND_P2P_LOCAL);
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 4, 0, 1), DLEND_P2P_LENDERS);
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 4, 1, 0), DLEND_P2P_LENDERS);
	/* Through this node: all that node 4's devices reach must fit into 16 MiB. */
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 4, 0, 3), DLEND_P2P_BORROWER);
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 4, 3, 0), DLEND_P2P_NONE);
	/* Too large for the lenders' link: through this node, as long as its window is larger. */
	dev[1].bar[0].size = 4 * MIB;
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 4, 0, 1), DLEND_P2P_BORROWER);
	dev[1].bar[0].size = 256 * MIB;
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 4, 0, 1), DLEND_P2P_NONE);
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 4, 1, 0), DLEND_P2P_LENDERS);
}

/* One slot serves all devices of a lender, but through this node each has slots of its own. */
static void slots_count(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = {
		device(4, 0, MIB), device(4, 0, MIB), device(2, 0, 8 * MIB), device(3, 0, 64 * MIB),
		device(2, 0, MIB),
	};

	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 3, 0, 2), DLEND_P2P_BORROWER);
	dev[2].bar[0].size = MIB;
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 3, 0, 2), DLEND_P2P_NONE);
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&fabric, dev, 5, 4, 3), DLEND_P2P_LENDERS);
}

/* What others have is not there for this VM.  If two speak of a window, the least counts. */
static void others_count(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = { device(2, 0, 32 * MIB), device(3, 0, 32 * MIB) };
	struct dlend_p2p_path some[] = {
		{ 2, 3, 64 }, { 3, 2, 64 }, { 2, 1, 32 }, { 3, 1, 32 }, { 2, 3, 64 },
	};
	struct dlend_p2p_fabric f = { .self = 1, .path = some, .n = ARRAY_SIZE(some) };

	some[0].taken = 32 * MIB;
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&f, dev, 2, 0, 1), DLEND_P2P_LENDERS);
	some[0].taken++;
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&f, dev, 2, 0, 1), DLEND_P2P_BORROWER);
	some[2].taken = 1;
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&f, dev, 2, 0, 1), DLEND_P2P_NONE);
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&f, dev, 2, 1, 0), DLEND_P2P_LENDERS);
	f.alone = true;
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&f, dev, 2, 0, 1), DLEND_P2P_LENDERS);
	some[4].mib = 31;
	some[2].mib = 31;
	KUNIT_EXPECT_EQ(test, dlend_p2p_room(&f, 2, 3), 31 * MIB);
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&f, dev, 2, 0, 1), DLEND_P2P_NONE);
	/* More may be taken than there is by now. */
	f.alone = false;
	some[0].taken = 128 * MIB;
	KUNIT_EXPECT_EQ(test, dlend_p2p_wide_route(&f, dev, 2, 0, 1), DLEND_P2P_NONE);
}

/* The words of the log and sysfs for an error; an error without words is tried again. */
static void errors(struct kunit *test)
{
	const char *todo = NULL;

	KUNIT_EXPECT_STREQ(test, dlend_p2p_err_text(-ENOSPC, &todo), "a window is full");
	KUNIT_EXPECT_STREQ(test, todo, "give the NTBs larger ones, or the VM fewer devices");
	KUNIT_EXPECT_STREQ(test, dlend_p2p_err_text(-ENOBUFS, &todo),
			   "the room in a window is booked for another VM");
	KUNIT_EXPECT_STREQ(test, todo, "it is tried again, and succeeds when that VM ends");
	KUNIT_EXPECT_STREQ(test, dlend_p2p_err_text(-EIO, &todo), "not now");
	KUNIT_EXPECT_STREQ(test, todo, "it is tried again");
	KUNIT_EXPECT_STREQ(test, dlend_p2p_err_text(-ECONNRESET, NULL), "not now");
}

static struct kunit_case cases[] = {
	KUNIT_CASE(bars_where_the_guest_put_them),
	KUNIT_CASE(odd_places),
	KUNIT_CASE_PARAM(step_one, step_gen_params),
	KUNIT_CASE(routes),
	KUNIT_CASE(windows_count),
	KUNIT_CASE(slots_count),
	KUNIT_CASE(others_count),
	KUNIT_CASE(errors),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_p2p",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit suite of dlend's peer-to-peer plan");
MODULE_LICENSE("GPL");
