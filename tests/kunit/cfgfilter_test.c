// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the filter for real configuration space (lender/cfgfilter.c): what a borrower can
 * write must be exactly what the oracle below lists, bit by bit, for every access.
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
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, device_specific);
	return d;
}

/* The oracle: bits of one byte. */
static u8 may_write(u32 at, bool device_specific)
{
	if (at == 0x07)
		return 0xf9;			/* STATUS errors */
	if (at == 0x45)
		return 0x80;			/* PME_Status */
	if (at == 0x8a)
		return 0x0f;			/* Device Status errors */
	if (at >= 0x73 && at < 0x80)
		return 0xff;			/* the vendor's own */
	if (!device_specific)
		return 0;
	/* No extended capability: that space is in none, but for where their list begins. */
	if (at >= 0x100)
		return at < 0x104 ? 0 : 0xff;
	/* Gaps: after PM (8 bytes), after MSI (24), after PCIe version 2 (60). */
	if ((at >= 0x48 && at < 0x50) || (at >= 0x68 && at < 0x70) || (at >= 0xbc && at < 0x100))
		return 0xff;
	return 0;
}

static void sweep(struct kunit *test, struct device *d, bool device_specific)
{
	for (u32 at = 0; at < DLEND_CFG_SIZE; at++) {
		u8 want = may_write(at, device_specific);
		u32 got = lend_cfgfilter_writable(&d->filter, at, 1);
		u32 merged = lend_cfgfilter_merge(&d->filter, at, 1, 0x5a, 0xa5);

		KUNIT_EXPECT_EQ_MSG(test, got, (u32)want, "at %x", at);
		/* Nothing outside the mask changes, whatever is written. */
		KUNIT_EXPECT_EQ_MSG(test, (merged ^ 0x5a) & ~want & 0xff, 0u, "at %x", at);
	}
}

static void cfgfilter_sweep(struct kunit *test)
{
	sweep(test, new_device(test, false), false);
	sweep(test, new_device(test, true), true);
}

static void cfgfilter_never(struct kunit *test)
{
	static const struct {
		u32 at, size, mask;
	} never[] = {
		{ 0x04, 2, 0xffff },		/* COMMAND */
		{ 0x10, 4, ~0u }, { 0x14, 4, ~0u }, { 0x24, 4, ~0u }, { 0x30, 4, ~0u },
		{ 0x44, 2, 0x7fff },		/* power state, PME_En */
		{ 0x52, 2, 0xffff }, { 0x54, 4, ~0u },	/* MSI */
		{ 0x88, 2, 0xffff }, { 0x90, 2, 0xffff }, { 0xa8, 2, 0xffff },	/* PCIe controls */
	};
	struct device *d = new_device(test, true);

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		KUNIT_EXPECT_EQ_MSG(test, lend_cfgfilter_writable(&d->filter, never[i].at,
								  never[i].size) & never[i].mask,
				    0u, "at %x", never[i].at);
}

static void cfgfilter_write_one_to_clear(struct kunit *test)
{
	struct device *d = new_device(test, false);

	/* The lender's read-modify-write clears no bit that the borrower did not name. */
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_merge(&d->filter, 0x06, 2, 0xf910, 0x0100), 0x0110u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_merge(&d->filter, 0x06, 2, 0xf910, 0), 0x0010u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_merge(&d->filter, 0x04, 4, 0xf9100106, ~0u),
			0xf9100106u);
}

static void cfgfilter_bad_access(struct kunit *test)
{
	static const struct {
		u32 at, size;
	} bad[] = {
		{ 0x73, 2 }, { 0x74, 3 }, { 0x74, 0 }, { 0x72, 4 }, { 4096, 1 }, { 0xffff, 1 },
		{ 4094, 4 }, { ~0u, 1 }, { ~3u, 4 }, { 0x74, 8 },
	};
	struct device *d = new_device(test, true);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, bad[i].at, bad[i].size),
				0u);
		KUNIT_EXPECT_EQ(test,
				lend_cfgfilter_merge(&d->filter, bad[i].at, bad[i].size, 7, 9),
				7u);
	}
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
static void extended(struct kunit *test, bool device_specific, u32 size)
{
	static const struct span vendors[] = { { 0x158, 0x170 }, { 0x1ca, 0x1d8 }, {} };
	/* AER has 48h bytes at most; nobody knows how many ACS has. */
	static const struct span gaps[] = {
		{ 0x148, 0x150 }, { 0x170, 0x180 }, { 0x1b0, 0x1c0 }, { 0x1d8, 0x1e0 },
		{ 0x1e8, 0x1000 }, {}
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
	lend_cfgfilter_init(&d->filter, d->cfg, size, device_specific);
	for (u32 at = 0x100; at < DLEND_CFG_SIZE; at++) {
		bool may = within(vendors, at) || (device_specific && within(gaps, at));

		KUNIT_EXPECT_EQ_MSG(test, lend_cfgfilter_writable(&d->filter, at, 1),
				    may && at < size ? 0xffu : 0u, "at %x", at);
	}
	/* Its last capability points back: nobody knows what is in none. */
	ext(d->cfg, 0x1e0, 0x0f, 0x100);
	lend_cfgfilter_init(&d->filter, d->cfg, size, device_specific);
	for (u32 at = 0x100; at < DLEND_CFG_SIZE; at++)
		KUNIT_EXPECT_EQ_MSG(test, lend_cfgfilter_writable(&d->filter, at, 1),
				    within(vendors, at) && at < size ? 0xffu : 0u, "at %x", at);
}

static void cfgfilter_extended(struct kunit *test)
{
	extended(test, false, DLEND_CFG_SIZE);
	extended(test, true, DLEND_CFG_SIZE);
	extended(test, true, 256);
}

/* What a device does with a write may depend on its size: as it comes, merged, or not at all. */
static void cfgfilter_ways(struct kunit *test)
{
	static const struct {
		u32 at, size;
		enum lend_cfgfilter_way way;
	} cases[] = {
		{ 0x74, 4, LEND_CFG_RAW }, { 0x73, 1, LEND_CFG_RAW }, { 0x7e, 2, LEND_CFG_RAW },
		{ 0x70, 4, LEND_CFG_MERGED }, { 0x06, 2, LEND_CFG_MERGED },
		{ 0x8a, 1, LEND_CFG_MERGED }, { 0x04, 4, LEND_CFG_MERGED },
		{ 0x04, 2, LEND_CFG_REFUSED }, { 0x70, 2, LEND_CFG_REFUSED },
		{ 0x10, 4, LEND_CFG_REFUSED }, { 0x54, 4, LEND_CFG_REFUSED },
		{ 0xc2, 2, LEND_CFG_VPD_ADDR }, { 0xc4, 4, LEND_CFG_VPD_DATA },
		{ 0xc0, 4, LEND_CFG_REFUSED }, { 0xc3, 1, LEND_CFG_REFUSED },
		{ 0xc4, 2, LEND_CFG_REFUSED }, { 0xc8, 4, LEND_CFG_RAW },
		{ 0x74, 3, LEND_CFG_REFUSED }, { 0x1000, 4, LEND_CFG_REFUSED },
		{ 0x75, 2, LEND_CFG_REFUSED }, { ~0u, 1, LEND_CFG_REFUSED },
	};
	struct device *d = new_device(test, true);

	cap(d->cfg, 0x80, 0x10, 0xc0);
	cap(d->cfg, 0xc0, 0x03, 0);
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, true);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, lend_cfgfilter_way(&d->filter, cases[i].at,
							     cases[i].size),
				    cases[i].way, "%u bytes at %x", cases[i].size, cases[i].at);
	/* One that has no room for its registers is none. */
	cap(d->cfg, 0xc0, 0x03, 0xc4);
	cap(d->cfg, 0xc4, 0x13, 0);
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, true);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_way(&d->filter, 0xc2, 2), LEND_CFG_REFUSED);
}

/* A clique of this host's own, which is a guest: no borrower's business. */
static void cfgfilter_clique(struct kunit *test)
{
	struct device *d = new_device(test, false);

	memcpy(d->cfg + 0x72, "\x08P2P", 4);
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, true);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, 0x74, 4), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, 0x78, 4), ~0u);
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
		KUNIT_EXPECT_EQ_MSG(test, lend_cfgfilter_show(&d->filter, at, 4, value),
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
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, false);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_show(&d->filter, 0x184, 4, 0xfe00000c), 0xcu);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_show(&d->filter, 0x188, 4, 0x38), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_show(&d->filter, 0x18c, 4, 0xfd004000), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_show(&d->filter, 0x198, 4, 0xfd004000), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_show(&d->filter, 0x180, 4, 1), 1u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_show(&d->filter, 0x19c, 4, 1), 1u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, 0x184, 4), 0u);

	/* A capability that the end of configuration space cuts off. */
	put32(d->cfg, 0x160, 0xfd0u << 20 | 0x10001);
	put32(d->cfg, 0xfd0, 0x00010010);
	put32(d->cfg, 0xffc, 0xfd004000);
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, false);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_show(&d->filter, 0xffc, 4, 0xfd004000), 0u);
}

/* Capability lists as a hostile or broken device may have them. */
static void cfgfilter_bad_lists(struct kunit *test)
{
	struct device *d = new_device(test, false);

	/* A vendor capability that claims everything up to the end: it stops at the next one. */
	d->cfg[0x72] = 0xff;
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, false);
	sweep(test, d, false);

	/* A loop ends. */
	d->cfg[0x72] = 16;
	d->cfg[0x81] = 0x50;
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, false);
	sweep(test, d, false);

	/* A capability inside another, and one that leaves the first 256 bytes. */
	d->cfg[0x81] = 0x44;
	cap(d->cfg, 0x44, 0x09, 0xfc);
	d->cfg[0x46] = 0xff;
	cap(d->cfg, 0xfc, 0x09, 0);
	d->cfg[0xfe] = 0xff;
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, false);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, 0x54, 4), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, 0xfc, 4), 0xff000000u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, 0x100, 4), 0u);

	/* All ones, as a dead device reads. */
	memset(d->cfg, 0xff, sizeof(d->cfg));
	lend_cfgfilter_init(&d->filter, d->cfg, DLEND_CFG_SIZE, true);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, 0x04, 2), 0u);
	KUNIT_EXPECT_EQ(test, lend_cfgfilter_writable(&d->filter, 0x100, 4), 0u);
}

static struct kunit_case cfgfilter_cases[] = {
	KUNIT_CASE(cfgfilter_sweep),
	KUNIT_CASE(cfgfilter_never),
	KUNIT_CASE(cfgfilter_write_one_to_clear),
	KUNIT_CASE(cfgfilter_extended),
	KUNIT_CASE(cfgfilter_ways),
	KUNIT_CASE(cfgfilter_clique),
	KUNIT_CASE(cfgfilter_bad_access),
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
