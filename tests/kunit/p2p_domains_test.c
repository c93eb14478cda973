// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of peer-to-peer domains (ntb/p2p_domains.c): which host bridges get one number, and that
 * numbers stay.
 */
#include <kunit/test.h>
#include <linux/kernel.h>

#include "ntb/p2p_domains.h"

#define BRIDGES	6

/* Bit b of each: bridge a is joined with bridge b. */
static u32 joins[BRIDGES];
static unsigned int asked;

static void join(u32 a, u32 b)
{
	joins[a] |= 1 << b;
	joins[b] |= 1 << a;
}

static bool joined(u32 a, u32 b)
{
	asked++;
	return joins[a] & 1 << b;
}

/* What no kernel's list makes: joined with everybody. */
static bool all_joined(u32 a, u32 b)
{
	return true;
}

static bool only_itself(u32 a, u32 b)
{
	return a == b;
}

static int forget_joins(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < BRIDGES; i++)
		joins[i] = 0;
	asked = 0;
	return 0;
}

static struct dlend_p2p_domains *new_domains(struct kunit *test)
{
	return kunit_kzalloc(test, sizeof(struct dlend_p2p_domains), GFP_KERNEL);
}

/* Two sockets with two host bridges each, which are on the list, and one that is not. */
static void a_list_makes_one_island(struct kunit *test)
{
	struct dlend_p2p_domains *domains = new_domains(test);
	u32 a, b;

	for (a = 0; a < 4; a++)
		for (b = a; b < 4; b++)
			join(a, b);
	for (a = 0; a < 4; a++)
		KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, a, joined),
				DLEND_P2P_DOMAIN_FIRST);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 4, joined), DLEND_P2P_DOMAIN_NONE);
	KUNIT_EXPECT_EQ(test, domains->n, 4);
}

/*
 * Host bridges that turn transfers round, and pass none on: 4 + 4 devices are two peer-to-peer
 * domains.
 */
static void each_by_itself(struct kunit *test)
{
	struct dlend_p2p_domains *domains = new_domains(test);

	join(0, 0);
	join(1, 1);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 1, joined), DLEND_P2P_DOMAIN_FIRST);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 0, joined),
			DLEND_P2P_DOMAIN_FIRST + 1);
	/* Numbers stay, and nobody is asked again. */
	asked = 0;
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 1, joined), DLEND_P2P_DOMAIN_FIRST);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 0, joined),
			DLEND_P2P_DOMAIN_FIRST + 1);
	KUNIT_EXPECT_EQ(test, asked, 0);
}

/* One that knows another is in its peer-to-peer domain only if it knows all there. */
static void all_of_an_island_are_joined(struct kunit *test)
{
	struct dlend_p2p_domains *domains = new_domains(test);
	u32 i;

	for (i = 0; i < 4; i++)
		join(i, i);
	join(0, 1);
	join(1, 2);
	join(2, 3);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 0, joined), DLEND_P2P_DOMAIN_FIRST);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 1, joined), DLEND_P2P_DOMAIN_FIRST);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 2, joined),
			DLEND_P2P_DOMAIN_FIRST + 1);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 3, joined),
			DLEND_P2P_DOMAIN_FIRST + 1);
}

/* A bridge with one port says nothing of itself; with a second one it does. */
static void none_may_become_one(struct kunit *test)
{
	struct dlend_p2p_domains *domains = new_domains(test);

	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 0, joined), DLEND_P2P_DOMAIN_NONE);
	KUNIT_EXPECT_EQ(test, domains->n, 0);
	join(0, 0);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 0, joined), DLEND_P2P_DOMAIN_FIRST);
}

/* What finds no room is allowed by nobody, whoever it is joined with. */
static void no_room(struct kunit *test)
{
	struct dlend_p2p_domains *domains = new_domains(test);
	u32 i;

	for (i = 0; i < DLEND_P2P_DOMAIN_MAX; i++)
		KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, i, only_itself),
				DLEND_P2P_DOMAIN_FIRST + i);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, DLEND_P2P_DOMAIN_MAX, all_joined),
			DLEND_P2P_DOMAIN_NONE);
	KUNIT_EXPECT_EQ(test, dlend_p2p_domains_number(domains, 0, all_joined),
			DLEND_P2P_DOMAIN_FIRST);
}

/* The number of a host whose administrator allows it is no other peer-to-peer domain's. */
static void numbers_differ(struct kunit *test)
{
	KUNIT_EXPECT_NE(test, DLEND_P2P_DOMAIN_HOST, DLEND_P2P_DOMAIN_NONE);
	KUNIT_EXPECT_GT(test, DLEND_P2P_DOMAIN_FIRST, DLEND_P2P_DOMAIN_HOST);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_list_makes_one_island),
	KUNIT_CASE(each_by_itself),
	KUNIT_CASE(all_of_an_island_are_joined),
	KUNIT_CASE(none_may_become_one),
	KUNIT_CASE(no_room),
	KUNIT_CASE(numbers_differ),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_p2p_domains",
	.init = forget_joins,
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit suite of dlend's peer-to-peer domains");
MODULE_LICENSE("GPL");
