// SPDX-License-Identifier: GPL-2.0
/* Suite of what a device does while its guest stands still (lender/drain.c). */
#include <kunit/test.h>
#include <linux/kernel.h>

#include "lender/drain.h"

static void kinds(struct kunit *test)
{
	static const struct {
		u32 class;
		enum lend_drain kind;
	} cases[] = {
		{ 0x010802, LEND_DRAINS },	/* NVMe */
		{ 0x010601, LEND_DRAINS },	/* AHCI */
		{ 0x010000, LEND_DRAINS },	/* SCSI */
		{ 0x020000, LEND_CUT },		/* Ethernet */
		{ 0x040300, LEND_CUT },		/* audio */
		{ 0x020700, LEND_NEVER },	/* InfiniBand */
		{ 0x030000, LEND_NEVER },	/* VGA */
		{ 0x030200, LEND_NEVER },	/* 3D */
		{ 0x0c0330, LEND_TRIED },	/* xHCI */
		{ 0x0c0320, LEND_TRIED },	/* EHCI */
		{ 0x0c0500, LEND_NEVER },	/* SMBus */
		{ 0x120000, LEND_NEVER },	/* accelerator */
		{ 0x000000, LEND_NEVER },
		{ 0xffffff, LEND_NEVER },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, (int)lend_drain_kind(cases[i].class), (int)cases[i].kind,
				    "class %06x", cases[i].class);
}

static void moves(struct kunit *test)
{
	static const struct {
		enum lend_drain kind;
		bool forced, tried, moves;
	} cases[] = {
		{ LEND_DRAINS, false, false, true },
		{ LEND_CUT, false, true, false },
		{ LEND_CUT, true, false, true },
		{ LEND_TRIED, true, false, false },
		{ LEND_TRIED, false, true, false },
		{ LEND_TRIED, true, true, true },
		{ LEND_NEVER, true, true, false },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, cases[i].moves,
				    lend_drain_moves(cases[i].kind, cases[i].forced,
						     cases[i].tried),
				    "case %u", i);
}

static void models(struct kunit *test)
{
	static const struct {
		const char *list;
		int found;	/* 8086:24cd */
	} cases[] = {
		{ "", 0 },
		{ "\n", 0 },
		{ "8086:24cd", 1 },
		{ "8086:24CD\n", 1 },
		{ "1033:0194,8086:24cd", 1 },
		{ "8086:24cd,1033:0194", 1 },
		{ "24cd:8086", 0 },
		{ "8086:24c", 0 },
		{ "8086:24cd0", -EINVAL },
		{ "8086:24cd;", -EINVAL },
		{ "8086:24cd,x", -EINVAL },
		{ "8086", -EINVAL },
		{ "usb", -EINVAL },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, lend_models_find(cases[i].list, 0x8086, 0x24cd),
				    cases[i].found, "\"%s\"", cases[i].list);
}

static void silence(struct kunit *test)
{
	struct lend_silence s = { };

	/* It has been silent since it was looked at first, whatever was before. */
	KUNIT_EXPECT_EQ(test, lend_silence_look(&s, 1000, 5000), 0ull);
	KUNIT_EXPECT_EQ(test, lend_silence_look(&s, 1000, 9000), 4000ull);
	KUNIT_EXPECT_EQ(test, lend_silence_look(&s, 1001, 9500), 0ull);
	KUNIT_EXPECT_EQ(test, lend_silence_look(&s, 1001, 9600), 100ull);
	/* The first look may be at time 0, and find that none has come. */
	s = (struct lend_silence){ };
	KUNIT_EXPECT_EQ(test, lend_silence_look(&s, 0, 0), 0ull);
	KUNIT_EXPECT_EQ(test, lend_silence_look(&s, 0, 50000), 50000ull);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(kinds),
	KUNIT_CASE(moves),
	KUNIT_CASE(models),
	KUNIT_CASE(silence),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend-drain",
	.test_cases = cases,
};

kunit_test_suite(suite);
