// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the filter for real configuration space (lender/cfgfilter.c): what a borrower can
 * write must be exactly what the oracle below lists, byte by byte.
 */
#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "lender/cfgfilter.h"

struct device {
	u8 cfg[DLEND_CFG_SIZE];
	struct lend_cfgfilter filter;
};

static void put16(u8 *cfg, u32 at, u16 value)
{
	cfg[at] = value & 0xff;
	cfg[at + 1] = value >> 8;
}

static void put32(u8 *cfg, u32 at, u32 value)
{
	put16(cfg, at, value & 0xffff);
	put16(cfg, at + 2, value >> 16);
}

static void cap(u8 *cfg, u32 at, u8 id, u8 next)
{
	cfg[at] = id;
	cfg[at + 1] = next;
}

/* A device like an NVMe drive: PM at 40, MSI at 50, vendor at 70 (16 bytes), PCIe at 80. */
static struct device *new_device(struct kunit *test, bool device_specific)
{
	struct device *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, d);
	put32(d->cfg, 0x00, 0x00101b36);
	put32(d->cfg, 0x04, 0xf9100106);	/* STATUS: errors and capabilities; COMMAND */
	put32(d->cfg, 0x10, 0xfebf000c);	/* 64-bit prefetchable */
	put32(d->cfg, 0x14, 0x00000123);
	put32(d->cfg, 0x18, 0x0000c001);	/* ports */
	put32(d->cfg, 0x1c, 0xfebe0000);
	put32(d->cfg, 0x30, 0xfeb00001);
	d->cfg[0x34] = 0x40;
	cap(d->cfg, 0x40, 0x01, 0x50);
	cap(d->cfg, 0x50, 0x05, 0x70);
	put16(d->cfg, 0x52, 0x0181);		/* 64-bit, per-vector masks, on */
	put32(d->cfg, 0x54, 0xfee00000);
	cap(d->cfg, 0x70, 0x09, 0x80);
	d->cfg[0x72] = 16;
	cap(d->cfg, 0x80, 0x10, 0);
	put16(d->cfg, 0x82, 0x0002);
	lend_cfgfilter_init(&d->filter, d->cfg, device_specific);
	return d;
}

/* The oracle. */
static bool may_write(u32 at, bool device_specific)
{
	if (at >= 0x73 && at < 0x80)
		return true;			/* the vendor's own */
	if (!device_specific)
		return false;
	/* No extended capability: that space is in none, but for where their list begins. */
	if (at >= 0x100)
		return at >= 0x104;
	/* Gaps: after PM (8 bytes), after MSI (24), after PCIe version 2 (60). */
	return (at >= 0x48 && at < 0x50) || (at >= 0x68 && at < 0x70) || at >= 0xbc;
}

static bool raw(const struct device *d, u32 at, u32 size)
{
	return lend_cfgfilter_action(&d->filter, at, size) == LEND_CFG_RAW;
}

static void sweep(struct kunit *test, struct device *d, bool device_specific)
{
	for (u32 at = 0; at < DLEND_CFG_SIZE; at++)
		KUNIT_EXPECT_EQ_MSG(test, raw(d, at, 1), may_write(at, device_specific),
				    "at %x", at);
}

static void cfgfilter_sweep(struct kunit *test)
{
	sweep(test, new_device(test, false), false);
	sweep(test, new_device(test, true), true);
}

struct span {
	u32 from, to;
};

static bool within(const struct span *spans, u32 at)
{
	for (; spans->to; spans++)
		if (at >= spans->from && at < spans->to)
			return true;
	return false;
}

static void ext(u8 *cfg, u32 at, u32 id, u32 next)
{
	put32(cfg, at, id | 1 << 16 | next << 20);
}

/* Vendor-specific ones but CXL's, behind their headers; and what is in none, up to where one is. */
static void extended(struct kunit *test, bool device_specific)
{
	static const struct span vendors[] = { { 0x158, 0x170 }, { 0x1ca, 0x1d8 }, {} };
	static const struct span gaps[] = {
		{ 0x12c, 0x150 }, { 0x170, 0x180 }, { 0x188, 0x190 }, { 0x1b0, 0x1c0 },
		{ 0x1d8, 0x1e0 }, { 0x1e8, 0x1000 }, {}
	};
	struct device *d = new_device(test, false);

	ext(d->cfg, 0x100, 0x01, 0x150);
	ext(d->cfg, 0x150, 0x0b, 0x180);
	put32(d->cfg, 0x154, 0x02010042);
	ext(d->cfg, 0x180, 0x0d, 0x190);
	ext(d->cfg, 0x190, 0x23, 0x1c0);
	put32(d->cfg, 0x194, 0x02001e98);
	ext(d->cfg, 0x1c0, 0x23, 0x1e0);
	put32(d->cfg, 0x1c4, 0x01808086);
	ext(d->cfg, 0x1e0, 0x0f, 0);
	lend_cfgfilter_init(&d->filter, d->cfg, device_specific);
	for (u32 at = 0x100; at < DLEND_CFG_SIZE; at++) {
		bool may = within(vendors, at) || (device_specific && within(gaps, at));

		KUNIT_EXPECT_EQ_MSG(test, raw(d, at, 1), may, "at %x", at);
	}
	/* Its last capability points back: nobody knows what is in none. */
	ext(d->cfg, 0x1e0, 0x0f, 0x100);
	lend_cfgfilter_init(&d->filter, d->cfg, device_specific);
	for (u32 at = 0x100; at < DLEND_CFG_SIZE; at++)
		KUNIT_EXPECT_EQ_MSG(test, raw(d, at, 1), within(vendors, at), "at %x", at);
	/* It has none at all: its lender has read all ones. */
	memset(d->cfg + 0x100, 0xff, DLEND_CFG_SIZE - 0x100);
	lend_cfgfilter_init(&d->filter, d->cfg, device_specific);
	for (u32 at = 0x100; at < DLEND_CFG_SIZE; at++)
		KUNIT_EXPECT_FALSE_MSG(test, raw(d, at, 1), "at %x", at);
}

static void cfgfilter_extended(struct kunit *test)
{
	extended(test, false);
	extended(test, true);
}

/* What a device does with a write may depend on its size: all of it as it comes, or not at all. */
static void cfgfilter_actions(struct kunit *test)
{
	static const struct {
		u32 at, size;
		enum lend_cfgfilter_action action;
	} cases[] = {
		{ 0x74, 4, LEND_CFG_RAW }, { 0x73, 1, LEND_CFG_RAW }, { 0x7e, 2, LEND_CFG_RAW },
		{ 0x70, 4, LEND_CFG_REFUSED }, { 0x06, 2, LEND_CFG_REFUSED },
		{ 0x04, 2, LEND_CFG_REFUSED }, { 0x70, 2, LEND_CFG_REFUSED },
		{ 0x10, 4, LEND_CFG_REFUSED }, { 0x54, 4, LEND_CFG_REFUSED },
		{ 0xc2, 2, LEND_CFG_VPD_ADDR }, { 0xc4, 4, LEND_CFG_VPD_DATA },
		{ 0xc0, 4, LEND_CFG_REFUSED }, { 0xc3, 1, LEND_CFG_REFUSED },
		{ 0xc4, 2, LEND_CFG_REFUSED }, { 0xc8, 4, LEND_CFG_RAW },
		{ 0x74, 3, LEND_CFG_REFUSED }, { 0x1000, 4, LEND_CFG_REFUSED },
		{ 0x75, 2, LEND_CFG_REFUSED }, { ~0u, 1, LEND_CFG_REFUSED },
		{ 0x74, 0, LEND_CFG_REFUSED }, { 0x74, 8, LEND_CFG_REFUSED },
		{ 0xffe, 4, LEND_CFG_REFUSED }, { ~3u, 4, LEND_CFG_REFUSED },
	};
	struct device *d = new_device(test, true);

	cap(d->cfg, 0x80, 0x10, 0xc0);
	cap(d->cfg, 0xc0, 0x03, 0);
	lend_cfgfilter_init(&d->filter, d->cfg, true);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, lend_cfgfilter_action(&d->filter, cases[i].at,
								cases[i].size),
				    cases[i].action, "%u bytes at %x", cases[i].size, cases[i].at);
	/* One that has no room for its registers is none. */
	cap(d->cfg, 0xc0, 0x03, 0xc4);
	cap(d->cfg, 0xc4, 0x13, 0);
	lend_cfgfilter_init(&d->filter, d->cfg, true);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_action(&d->filter, 0xc2, 2), LEND_CFG_REFUSED);
	/* Of two, it is the first of the list, not the one with the lower address. */
	cap(d->cfg, 0xc0, 0x03, 0xd0);
	cap(d->cfg, 0xd0, 0x13, 0xb0);
	cap(d->cfg, 0xb0, 0x03, 0);
	lend_cfgfilter_init(&d->filter, d->cfg, true);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_action(&d->filter, 0xc2, 2), LEND_CFG_VPD_ADDR);
	KUNIT_EXPECT_NE(test, lend_cfgfilter_action(&d->filter, 0xb2, 2), LEND_CFG_VPD_ADDR);
}

/* A clique of this host's own, which is a guest: no borrower's business. */
static void cfgfilter_clique(struct kunit *test)
{
	struct device *d = new_device(test, false);

	memcpy(d->cfg + 0x72, "\x08P2P", 4);
	lend_cfgfilter_init(&d->filter, d->cfg, true);
	KUNIT_EXPECT_FALSE(test, raw(d, 0x74, 4));
	KUNIT_EXPECT_TRUE(test, raw(d, 0x78, 4));
}

/* Addresses of the lender's host do not leave it. */
static void cfgfilter_hides(struct kunit *test)
{
	static const struct {
		u32 at, want;
	} cases[] = {
		{ 0x00, 0x00101b36 }, { 0x10, 0x0000000c }, { 0x14, 0 }, { 0x18, 0x00000001 },
		{ 0x1c, 0 }, { 0x30, 0x00000001 }, { 0x54, 0 }, { 0x80, 0x00020010 },
	};
	struct device *d = new_device(test, false);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		u32 at = cases[i].at, value = 0;

		for (unsigned int b = 0; b < 4; b++)
			value |= (u32)d->cfg[at + b] << (8 * b);
		KUNIT_EXPECT_EQ_MSG(test, lend_cfgfilter_mask_read(&d->filter, at, 4, value),
				    cases[i].want, "at %x", at);
	}
}

static void put_sriov(struct device *d, u32 at, u32 next)
{
	put32(d->cfg, at, 0x00010010 | next << 20);
	put32(d->cfg, at + 0x20, 0x1);			/* page size */
	put32(d->cfg, at + 0x24, 0xfe00000c);		/* 64-bit prefetchable */
	put32(d->cfg, at + 0x28, 0x00000038);
	put32(d->cfg, at + 0x2c, 0xfd004000);
}

/* BARs of virtual functions are addresses of the lender's host, too. */
static void cfgfilter_hides_vf_bars(struct kunit *test)
{
	struct device *d = new_device(test, false);

	put32(d->cfg, 0x100, 0x16010001);		/* AER, then 0x160 */
	put_sriov(d, 0x160, 0x160);			/* its list ends in a loop */
	lend_cfgfilter_init(&d->filter, d->cfg, false);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_mask_read(&d->filter, 0x184, 4, 0xfe00000c), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_mask_read(&d->filter, 0x188, 4, 0x38), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_mask_read(&d->filter, 0x18c, 4, 0xfd004000), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_mask_read(&d->filter, 0x198, 4, 0xfd004000), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_mask_read(&d->filter, 0x160, 4, 1), 1u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_mask_read(&d->filter, 0x1a0, 4, 1), 1u);
	KUNIT_EXPECT_FALSE(test, raw(d, 0x184, 4));

	/* A capability that the end of configuration space cuts off. */
	put32(d->cfg, 0x160, 0xfd0u << 20 | 0x10001);
	put32(d->cfg, 0xfd0, 0x00010010);
	put32(d->cfg, 0xffc, 0xfd004000);
	lend_cfgfilter_init(&d->filter, d->cfg, false);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_mask_read(&d->filter, 0xffc, 4, 0xfd004000), 0u);
}

/* Capability lists as a hostile or broken device may have them. */
static void cfgfilter_bad_lists(struct kunit *test)
{
	struct device *d = new_device(test, false);

	/* A vendor capability that claims everything up to the end: it stops at the next one. */
	d->cfg[0x72] = 0xff;
	lend_cfgfilter_init(&d->filter, d->cfg, false);
	sweep(test, d, false);

	/* A loop ends. */
	d->cfg[0x72] = 16;
	d->cfg[0x81] = 0x50;
	lend_cfgfilter_init(&d->filter, d->cfg, false);
	sweep(test, d, false);

	/* A capability inside another, and one that leaves the first 256 bytes. */
	d->cfg[0x81] = 0x44;
	cap(d->cfg, 0x44, 0x09, 0xfc);
	d->cfg[0x46] = 0xff;
	cap(d->cfg, 0xfc, 0x09, 0);
	d->cfg[0xfe] = 0xff;
	lend_cfgfilter_init(&d->filter, d->cfg, false);
	KUNIT_EXPECT_FALSE(test, raw(d, 0x54, 4));
	KUNIT_EXPECT_FALSE(test, raw(d, 0xfe, 1));
	KUNIT_EXPECT_TRUE(test, raw(d, 0xff, 1));
	KUNIT_EXPECT_FALSE(test, raw(d, 0x100, 4));

	/* All ones, as a dead device reads. */
	memset(d->cfg, 0xff, sizeof(d->cfg));
	lend_cfgfilter_init(&d->filter, d->cfg, true);
	KUNIT_EXPECT_FALSE(test, raw(d, 0x04, 2));
	KUNIT_EXPECT_FALSE(test, raw(d, 0x100, 4));
}

static struct kunit_case cfgfilter_cases[] = {
	KUNIT_CASE(cfgfilter_sweep),
	KUNIT_CASE(cfgfilter_extended),
	KUNIT_CASE(cfgfilter_actions),
	KUNIT_CASE(cfgfilter_clique),
	KUNIT_CASE(cfgfilter_hides),
	KUNIT_CASE(cfgfilter_hides_vf_bars),
	KUNIT_CASE(cfgfilter_bad_lists),
	{}
};

static struct kunit_suite cfgfilter_suite = {
	.name = "dlend-cfgfilter",
	.test_cases = cfgfilter_cases,
};

kunit_test_suite(cfgfilter_suite);
