// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of cliques (borrower/p2p_plan.c): what speaks against peer-to-peer between two devices,
 * what is said about it, and which devices get one number.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <dlend/p2p_plan.h>

#define MIB	BIT_ULL(20)

/* A device on node @lender, on that peer-to-peer domain, with one BAR. */
static struct dlend_p2p_dev device(u16 lender, u16 p2p_domain, u64 size)
{
	struct dlend_p2p_dev dev = {
		.addr = { .lender = lender, .bdf = 0x100 }, .clique = -1, .p2p_domain = p2p_domain,
		.bar[2] = { 0, size },
	};

	return dev;
}

/* Node 1 borrows; 2 and 3 have a link, 4 has none to either. */
static const struct dlend_p2p_path paths[] = {
	{ 2, 3, 64 }, { 3, 2, 64 }, { 2, 1, 256 }, { 3, 1, 256 }, { 4, 1, 16 }, { 1, 4, 16 },
	{ 1, 2, 256 }, { 1, 3, 256 },
};

/* Island 1 of every node has all its NTBs. */
static const struct dlend_p2p_end one_island[] = {
	{ 2, 3, 1 }, { 3, 2, 1 }, { 2, 1, 1 }, { 1, 2, 1 }, { 3, 1, 1 }, { 1, 3, 1 }, { 4, 1, 1 },
	{ 1, 4, 1 },
};

static const struct dlend_p2p_fabric fabric = {
	.self = 1, .path = paths, .n = ARRAY_SIZE(paths),
	.end = one_island, .ends = ARRAY_SIZE(one_island),
};

static enum dlend_p2p_doubt_kind kind(const struct dlend_p2p_fabric *f,
				      const struct dlend_p2p_dev *dev)
{
	return dlend_p2p_doubt(f, dev, 2, 0, 1).kind;
}

/* Two GPUs of one host: below one host bridge, below two that are not joined, of an older node. */
static void in_one_lender(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = { device(2, 5, MIB), device(2, 5, MIB) };
	struct dlend_p2p_doubt doubt;

	KUNIT_EXPECT_EQ(test, kind(&fabric, dev), DLEND_P2P_SURE);
	dev[1].p2p_domain = 6;
	doubt = dlend_p2p_doubt(&fabric, dev, 2, 0, 1);
	KUNIT_EXPECT_EQ(test, doubt.kind, DLEND_P2P_APART);
	KUNIT_EXPECT_TRUE(test, doubt.node == 2 && !doubt.to[0] && !doubt.to[1]);
	dev[1].p2p_domain = 0;
	KUNIT_EXPECT_EQ(test, kind(&fabric, dev), DLEND_P2P_NOT_ALLOWED);
	/* The same number, and no promise. */
	dev[0].p2p_domain = 0;
	KUNIT_EXPECT_EQ(test, kind(&fabric, dev), DLEND_P2P_NOT_ALLOWED);
}

struct hop_case {
	const char *name;
	u16 source, target;	/* lenders */
	u16 at, to;		/* the NTB that is in another peer-to-peer domain */
	u16 in, out;		/* struct dlend_p2p_doubt.to of the doubt */
};

/* Each NTB on the way counts; one that is not on the way does not. */
static const struct hop_case hops[] = {
	{ "lenders' link: the source's end", 2, 3, 2, 3, 0, 3 },
	{ "lenders' link: the target's end", 2, 3, 3, 2, 2, 0 },
	{ "lenders' link: not this node's", 2, 3, 1, 2, 0, 0 },
	{ "lenders' link: not that to this node", 2, 3, 2, 1, 0, 0 },
	{ "through this node: the source's end", 2, 4, 2, 1, 0, 1 },
	{ "through this node: its end to the source", 2, 4, 1, 2, 2, 4 },
	{ "through this node: its end to the target", 2, 4, 1, 4, 2, 4 },
	{ "through this node: the target's end", 2, 4, 4, 1, 1, 0 },
	{ "through this node: not the source's others", 2, 4, 2, 3, 0, 0 },
	{ "a device of this node: its own end", 1, 4, 1, 4, 0, 4 },
	{ "a device of this node: the other's end", 1, 4, 4, 1, 1, 0 },
	{ "to a device of this node", 3, 1, 1, 3, 3, 0 },
};

KUNIT_ARRAY_PARAM_DESC(hop, hops, name);

/* The NTB @c->at to @c->to is on @p2p_domain, all else on peer-to-peer domain 1. */
static struct dlend_p2p_doubt doubt_with(const struct hop_case *c, u16 p2p_domain)
{
	struct dlend_p2p_dev dev[] = { device(c->source, 1, MIB), device(c->target, 1, MIB) };
	struct dlend_p2p_end ends[ARRAY_SIZE(one_island)];
	struct dlend_p2p_fabric f = fabric;
	unsigned int i;

	memcpy(ends, one_island, sizeof(ends));
	for (i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i].at == c->at && ends[i].to == c->to)
			ends[i].p2p_domain = p2p_domain;
	f.end = ends;
	return dlend_p2p_doubt(&f, dev, 2, 0, 1);
}

static void every_hop_counts(struct kunit *test)
{
	const struct hop_case *c = test->param_value;
	bool on_the_way = c->in || c->out;
	struct dlend_p2p_doubt doubt = doubt_with(c, 2);

	KUNIT_EXPECT_EQ(test, doubt.kind, on_the_way ? DLEND_P2P_APART : DLEND_P2P_SURE);
	if (on_the_way) {
		KUNIT_EXPECT_EQ(test, doubt.node, c->at);
		KUNIT_EXPECT_EQ(test, doubt.to[0], c->in);
		KUNIT_EXPECT_EQ(test, doubt.to[1], c->out);
	}
	doubt = doubt_with(c, 0);
	KUNIT_EXPECT_EQ(test, doubt.kind, on_the_way ? DLEND_P2P_NOT_ALLOWED : DLEND_P2P_SURE);
	KUNIT_EXPECT_EQ(test, doubt_with(c, 1).kind, DLEND_P2P_SURE);
}

/* A node of an older version says nothing of its NTBs. */
static void silence_is_no_promise(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = { device(2, 1, MIB), device(3, 1, MIB) };
	struct dlend_p2p_fabric f = fabric;

	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_SURE);
	f.ends = 0;
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_NOT_ALLOWED);
}

/* The way that is taken counts: if the link of the lenders is too narrow, that is another one. */
static void a_detour_is_another_way(struct kunit *test)
{
	static const struct dlend_p2p_end not_theirs[] = {
		{ 2, 1, 1 }, { 1, 2, 1 }, { 3, 1, 1 }, { 1, 3, 1 },
	};
	struct dlend_p2p_dev dev[] = { device(2, 1, 128 * MIB), device(3, 1, 128 * MIB) };
	struct dlend_p2p_fabric f = fabric;

	f.end = not_theirs;
	f.ends = ARRAY_SIZE(not_theirs);
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_SURE);
	dev[1].bar[2].size = MIB;
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_NOT_ALLOWED);
	/* There, and not back. */
	dev[0].bar[2].size = MIB;
	dev[1].bar[2].size = 512 * MIB;
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_NARROW);
}

/* Two VMs that compete: what the first has booked is no room for the second. */
static void two_that_compete(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = { device(2, 1, 48 * MIB), device(3, 1, 48 * MIB) };
	struct dlend_p2p_path left[ARRAY_SIZE(paths)];
	struct dlend_p2p_fabric f = fabric;
	unsigned int i;

	memcpy(left, paths, sizeof(left));
	f.path = left;
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_SURE);
	dev[0].clique = 0;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&f, dev, 2, 1, 15), 0);
	for (i = 0; i < ARRAY_SIZE(left); i++)
		left[i].taken = max((u64)left[i].mib * MIB, 40 * MIB) - 40 * MIB;
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_TAKEN);
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&f, dev, 2, 1, 15), 1);
	/* Nor would it fit if nobody else were there. */
	dev[1].bar[2].size = 512 * MIB;
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_NARROW);
	/* There is room, and not back. */
	dev[1].bar[2].size = MIB;
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_TAKEN);
	dev[0].bar[2].size = MIB;
	KUNIT_EXPECT_EQ(test, kind(&f, dev), DLEND_P2P_SURE);
}

struct text_case {
	const char *name;
	struct dlend_p2p_doubt doubt;
	const char *text;
};

#define NODE_2	"node 2 does not allow transfers between "
#define NODE_3	"node 3 does not allow transfers between "
#define BRIDGES	", below different host bridges"
#define SET	" (dlend_core.p2p_allowed there)"

static const struct text_case texts[] = {
	{ "none", { DLEND_P2P_SURE }, "" },
	{ "narrow", { DLEND_P2P_NARROW }, "no way there and back has windows for all BARs" },
	{ "taken", { DLEND_P2P_TAKEN },
	  "what is left of the windows is too small for all BARs, as other VMs use them, too" },
	{ "one lender", { DLEND_P2P_NOT_ALLOWED, 2 }, NODE_2 "the two devices" SET },
	{ "two sockets", { DLEND_P2P_APART, 2 }, NODE_2 "the two devices" BRIDGES SET },
	{ "out", { DLEND_P2P_NOT_ALLOWED, 2, { 0, 3 } },
	  NODE_2 "the device and its NTB to node 3" SET },
	{ "in", { DLEND_P2P_NOT_ALLOWED, 3, { 2, 0 } },
	  NODE_3 "the device and its NTB to node 2" SET },
	{ "through", { DLEND_P2P_APART, 3, { 65534, 65535 } },
	  NODE_3 "its NTBs to nodes 65534 and 65535" BRIDGES SET },
};

KUNIT_ARRAY_PARAM_DESC(text, texts, name);

static void doubts_have_words(struct kunit *test)
{
	const struct text_case *c = test->param_value;
	char text[DLEND_P2P_DOUBT_LEN];

	KUNIT_EXPECT_STREQ(test, dlend_p2p_doubt_text(&c->doubt, text), c->text);
}

static void cliques(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = {
		device(2, 1, 32 * MIB), device(3, 1, 16 * MIB), device(4, 1, 8 * MIB),
		device(4, 1, 8 * MIB), device(2, 1, 16 * MIB),
	};

	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 1, 0, 15), 0);
	dev[0].clique = 0;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 2, 1, 15), 0);
	dev[1].clique = 0;
	/* Only one direction has a route: not in this clique. */
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 3, 2, 15), 1);
	dev[2].clique = 1;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 4, 3, 15), 1);
	dev[3].clique = 1;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 5, 4, 15), 0);
	/* An admin's numbers are left alone. */
	dev[0].clique = 1;
	dev[1].clique = 2;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 5, 4, 15), 2);
	dev[1].clique = -1;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 5, 4, 15), 0);
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 5, 4, 0), 0);
	dev[2].clique = 0;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique(&fabric, dev, 5, 4, 0), -ENOSPC);
}

/* A host with eight devices, four at each of two sockets that it does not join: two cliques. */
static void four_and_four(struct kunit *test)
{
	struct dlend_p2p_dev dev[8];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(dev); i++)
		dev[i] = device(2, 2 + i % 2, MIB);
	for (i = 0; i < ARRAY_SIZE(dev); i++) {
		dev[i].clique = dlend_p2p_clique(&fabric, dev, i + 1, i, 15);
		KUNIT_EXPECT_EQ(test, dev[i].clique, i & 1);
	}
}

/* Devices for which nobody allows it get a number each, until there are no more numbers. */
static void each_alone(struct kunit *test)
{
	struct dlend_p2p_dev dev[3];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(dev); i++)
		dev[i] = device(2, 0, MIB);
	for (i = 0; i < ARRAY_SIZE(dev); i++) {
		dev[i].clique = dlend_p2p_clique(&fabric, dev, i + 1, i, 1);
		KUNIT_EXPECT_EQ(test, dev[i].clique, i < 2 ? (int)i : -ENOSPC);
	}
}

static void claims(struct kunit *test)
{
	struct dlend_p2p_dev dev[] = {
		device(2, 1, 32 * MIB), device(3, 1, 16 * MIB), device(4, 1, 8 * MIB),
	};

	KUNIT_EXPECT_EQ(test, dlend_p2p_clique_rival(&fabric, dev, 3, 0, 0), -1);
	dev[0].clique = 5;
	dev[1].clique = 5;
	dev[2].clique = 6;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique_rival(&fabric, dev, 3, 0, 0), -1);
	dev[2].clique = 5;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique_rival(&fabric, dev, 3, 0, 0), 2);
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique_rival(&fabric, dev, 3, 0, 3), -1);
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique_rival(&fabric, dev, 3, 2, 0), 0);
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique_rival(&fabric, dev, 3, 2, 1), 1);
	/* What nobody allows is claimed as well. */
	dev[1].p2p_domain = 0;
	KUNIT_EXPECT_EQ(test, dlend_p2p_clique_rival(&fabric, dev, 3, 0, 0), 1);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(in_one_lender),
	KUNIT_CASE_PARAM(every_hop_counts, hop_gen_params),
	KUNIT_CASE(silence_is_no_promise),
	KUNIT_CASE(a_detour_is_another_way),
	KUNIT_CASE(two_that_compete),
	KUNIT_CASE_PARAM(doubts_have_words, text_gen_params),
	KUNIT_CASE(cliques),
	KUNIT_CASE(four_and_four),
	KUNIT_CASE(each_alone),
	KUNIT_CASE(claims),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_p2p_clique",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit suite of dlend's cliques");
MODULE_LICENSE("GPL");
