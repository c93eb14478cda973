// SPDX-License-Identifier: GPL-2.0
/*
 * Registers that only the device knows (dlend_cfg_live()): byte for byte against a list made by
 * hand, in what pieces they are accessed, how a word of VPD is moved, and that the lender
 * (lender/cfgfilter.c) lets exactly these be written.
 */

#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include <dlend/cfg.h>

#include "lender/cfgfilter.h"

/* Where things are in the sample device. */
#define PM	0x40
#define MSI	0x50
#define VNDR	0x60
#define VPD	0x78
#define EXP	0x80
#define MSIX	0xc0
#define AF	0xcc
#define AER	0x100
#define VSEC	0x150
#define ATS	0x180
#define DVSEC	0x190
#define UNKNOWN	0x1b0
#define DSN	0x1c0

struct range {
	u32 from, to;
};

/* What the sample has of its own, by hand. */
static const struct range sample_live[] = {
	{ 0x48, 0x50 }, { 0x5e, 0x60 },		/* behind PM and MSI */
	{ 0x63, 0x74 }, { 0x74, 0x78 },		/* vendor-specific, and behind it */
	{ 0xbc, 0xc0 }, { 0xd2, 0x100 },	/* behind PCIe, and behind AF */
	{ 0x12c, 0x150 },			/* behind AER */
	{ 0x158, 0x170 }, { 0x170, 0x180 },	/* VSEC, and behind it */
	{ 0x188, 0x190 },			/* behind ATS, which is hidden */
	{ 0x19a, 0x1a8 }, { 0x1a8, 0x1b0 },	/* DVSEC, and behind it */
	{ 0x1b4, 0x1c0 },			/* behind the header of the unknown one */
	{ 0x1cc, 0x1000 },			/* behind the last one */
	{}
};

struct live {
	u8 snap[DLEND_CFG_SIZE];
	u8 want[DLEND_CFG_SIZE];
	struct dlend_cfg_desc desc;
	struct dlend_cfg cfg;
	struct lend_cfgfilter filter;
};

static void put16(u8 *at, u16 v)
{
	put_unaligned_le16(v, at);
}

static void put32(u8 *at, u32 v)
{
	put_unaligned_le32(v, at);
}

static void std_cap(struct live *l, u8 pos, u8 id, u8 next)
{
	l->snap[pos] = id;
	l->snap[pos + 1] = next;
}

static void ext_cap(struct live *l, u16 pos, u16 id, u16 next)
{
	put32(l->snap + pos, id | 1 << 16 | (u32)next << 20);
}

/* No two bytes behind the header are alike, but for those of capabilities. */
static void sample(struct live *l)
{
	u32 at;

	for (at = 0; at < DLEND_CFG_SIZE; at++)
		l->snap[at] = at < 0x40 ? 0 : (at * 7 + at / 256) | 1;
	put32(l->snap, 0x00101b36);
	put16(l->snap + 6, 0x0010);
	l->snap[0x34] = PM;
	std_cap(l, PM, 0x01, MSI);
	std_cap(l, MSI, 0x05, VNDR);
	put16(l->snap + MSI + 2, 0x0080);
	std_cap(l, VNDR, 0x09, VPD);
	l->snap[VNDR + 2] = 0x14;
	std_cap(l, VPD, 0x03, EXP);
	std_cap(l, EXP, 0x10, MSIX);
	put16(l->snap + EXP + 2, 0x0002);
	put32(l->snap + EXP + 4, 0x10008023);
	std_cap(l, MSIX, 0x11, AF);
	put16(l->snap + MSIX + 2, 3);
	put32(l->snap + MSIX + 4, 0x2000);
	put32(l->snap + MSIX + 8, 0x3000);
	std_cap(l, AF, 0x13, 0);
	ext_cap(l, AER, 0x01, VSEC);
	ext_cap(l, VSEC, 0x0b, ATS);
	put32(l->snap + VSEC + 4, 0x02010042);
	ext_cap(l, ATS, 0x0f, DVSEC);
	ext_cap(l, DVSEC, 0x23, UNKNOWN);
	put32(l->snap + DVSEC + 4, 0x01808086);
	ext_cap(l, UNKNOWN, 0x55, DSN);
	ext_cap(l, DSN, 0x03, 0);
	memset(&l->desc, 0, sizeof(l->desc));
	l->desc.snapshot = l->snap;
	l->desc.bar[0] = (struct dlend_cfg_bar){ .size = 0x4000 };
	l->desc.clique = DLEND_CFG_CLIQUE_NONE;
}

static int live_init(struct kunit *test)
{
	struct live *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	sample(l);
	test->priv = l;
	return 0;
}

static void build(struct kunit *test)
{
	struct live *l = test->priv;

	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&l->cfg, &l->desc), 0);
}

static void expect(struct live *l, const struct range *r)
{
	memset(l->want, 0, sizeof(l->want));
	for (; r->to; r++)
		memset(l->want + r->from, 1, r->to - r->from);
}

/* No more and no fewer bytes; their values are the snapshot's, and a write leaves them. */
static void check(struct kunit *test)
{
	struct live *l = test->priv;
	u32 at;

	for (at = 0; at < DLEND_CFG_SIZE; at++) {
		u8 ones = 0xff, got;

		KUNIT_EXPECT_EQ_MSG(test, dlend_cfg_live(&l->cfg, at, 1), (u32)l->want[at],
				    "at %#x", at);
		if (!l->want[at])
			continue;
		KUNIT_EXPECT_EQ_MSG(test, dlend_cfg_write(&l->cfg, at, &ones, 1), 0u, "at %#x", at);
		dlend_cfg_read(&l->cfg, at, &got, 1);
		KUNIT_EXPECT_EQ_MSG(test, got, l->snap[at], "at %#x", at);
	}
}

static void live_map(struct kunit *test)
{
	build(test);
	expect(test->priv, sample_live);
	check(test);
}

/* One access to the device is aligned, and ends where something else begins. */
static void live_pieces(struct kunit *test)
{
	static const struct {
		u32 at, len, piece;
	} cases[] = {
		{ 0x5c, 4, 0 }, { 0x5e, 2, 2 }, { 0x5e, 4, 2 }, { 0x5f, 4, 1 }, { 0x63, 4, 1 },
		{ 0x64, 4, 4 }, { 0x64, 8, 4 }, { 0x64, 3, 2 }, { 0x64, 1, 1 }, { 0x64, 0, 0 },
		{ 0x65, 4, 1 }, { 0x66, 4, 2 }, { 0x76, 4, 2 }, { 0x78, 4, 0 }, { 0xfc, 8, 4 },
		{ 0xfe, 4, 2 }, { 0x19a, 4, 2 }, { 0xffc, 8, 4 }, { 0xffe, 8, 2 },
		{ 0xfff, 8, 1 }, { 0x1000, 4, 0 }, { 0xffffffff, 4, 0 },
	};
	struct live *l = test->priv;

	build(test);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, dlend_cfg_live(&l->cfg, cases[i].at, cases[i].len),
				    cases[i].piece, "%u bytes at %#x", cases[i].len, cases[i].at);
}

/* What dlend adds is dlend's: the clique capability, and a reset, where the device has nothing. */
static void live_added(struct kunit *test)
{
	struct live *l = test->priv;

	l->desc.clique = 3;
	memset(l->snap + 0xd4, 0, 8);
	build(test);
	expect(l, sample_live);
	KUNIT_ASSERT_EQ(test, (u32)l->cfg.clique_pos, 0xd4u);
	memset(l->want + 0xd4, 0, 8);
	check(test);
	/* Without AF, and with no other reset. */
	put32(l->snap + EXP + 4, 0x00008023);
	put32(l->snap + PM + 4, 0x00000008);
	l->snap[MSIX + 1] = 0;
	l->desc.add_reset = true;
	l->desc.clique = DLEND_CFG_CLIQUE_NONE;
	build(test);
	KUNIT_ASSERT_EQ(test, (u32)l->cfg.af_pos, 0xd4u);
	memset(l->snap + 0x48, 0, 8);
	build(test);
	KUNIT_ASSERT_EQ(test, (u32)l->cfg.af_pos, 0x48u);
	expect(l, sample_live);
	memset(l->want + 0x48, 0, 8);
	memset(l->want + AF, 1, 0x100 - AF);
	check(test);
}

/* Vendor-specific, and still not for the guest: another guest's clique, CXL, one without an end. */
static void live_by_content(struct kunit *test)
{
	struct live *l = test->priv;

	memcpy(l->snap + VNDR + 2, "\x08P2P", 4);
	put32(l->snap + DVSEC + 4, 0x01801e98);
	put32(l->snap + VSEC + 4, 0x00410042);
	build(test);
	expect(l, sample_live);
	memset(l->want + VNDR, 0, 8);
	memset(l->want + VNDR + 8, 1, VPD - VNDR - 8);
	memset(l->want + DVSEC, 0, 0x18);
	memset(l->want + VSEC, 0, ATS - VSEC);
	check(test);
	/* Shorter than its own header. */
	sample(l);
	l->snap[VNDR + 2] = 2;
	build(test);
	expect(l, sample_live);
	memset(l->want + VNDR, 0, VPD - VNDR);
	check(test);
	/* Longer than its room: up to the next one. */
	sample(l);
	l->snap[VNDR + 2] = 0xff;
	put32(l->snap + DVSEC + 4, 0xfff08086);
	build(test);
	expect(l, sample_live);
	check(test);
}

/* A list that does not end as it should: nobody knows what is in no capability. */
static void live_broken_lists(struct kunit *test)
{
	static const struct range vendors[] = {
		{ 0x63, 0x74 }, { 0x158, 0x170 }, { 0x19a, 0x1a8 }, {}
	};
	struct live *l = test->priv;

	std_cap(l, AF, 0x13, PM);
	ext_cap(l, DSN, 0x03, AER);
	build(test);
	expect(l, vendors);
	check(test);
	std_cap(l, AF, 0xff, 0xff);
	put32(l->snap + DSN, 0xffffffff);
	build(test);
	check(test);
	/* One of the two is enough for itself only. */
	ext_cap(l, DSN, 0x03, 0);
	build(test);
	expect(l, sample_live);
	memset(l->want, 0, 0x100);
	memset(l->want + 0x63, 1, 0x74 - 0x63);
	check(test);
}

static void live_without_lists(struct kunit *test)
{
	static const struct range all_std[] = { { 0x40, 0x100 }, {} };
	static const struct range behind_exp[] = {
		{ 0x40, 0x80 }, { 0xbc, 0x100 }, { 0x104, 0x1000 }, {}
	};
	struct live *l = test->priv;

	put16(l->snap + 6, 0);
	build(test);
	expect(l, all_std);
	check(test);
	/* PCI Express, and no extended capability, but for where their list would begin. */
	sample(l);
	l->snap[0x34] = EXP;
	std_cap(l, EXP, 0x10, 0);
	put32(l->snap + 0x100, 0);
	build(test);
	expect(l, behind_exp);
	check(test);
}

/* The lender lets the same bytes be written as they come, and refuses all others. */
static void live_lender(struct kunit *test)
{
	struct live *l = test->priv;

	build(test);
	lend_cfgfilter_init(&l->filter, l->snap, true);
	for (u32 at = 0; at < DLEND_CFG_SIZE; at++) {
		bool raw = lend_cfgfilter_action(&l->filter, at, 1) == LEND_CFG_RAW;

		KUNIT_EXPECT_EQ_MSG(test, raw, dlend_cfg_live(&l->cfg, at, 1) == 1, "at %#x", at);
	}
	KUNIT_EXPECT_EQ(test, l->cfg.vpd_pos, l->filter.vpd);
}

static u32 wr(struct live *l, u32 at, u32 len, u32 v)
{
	u8 buf[4];

	put32(buf, v);
	return dlend_cfg_write(&l->cfg, at, buf, len);
}

static u32 rd(struct live *l, u32 at, u32 len)
{
	u8 buf[4] = { };

	dlend_cfg_read(&l->cfg, at, buf, len);
	return get_unaligned_le32(buf);
}

/* The flag turns when the word was moved, and only then. */
static void vpd_moves(struct kunit *test)
{
	struct live *l = test->priv;
	u32 data;

	build(test);
	KUNIT_ASSERT_EQ(test, (u32)l->cfg.vpd_pos, (u32)VPD);
	KUNIT_EXPECT_EQ(test, wr(l, VPD + 2, 2, 0x0010), DLEND_CFG_E_VPD);
	KUNIT_EXPECT_EQ(test, dlend_cfg_vpd(&l->cfg, &data), 0x0010);
	KUNIT_EXPECT_EQ(test, rd(l, VPD + 2, 2), 0x0010u);
	dlend_cfg_vpd_done(&l->cfg, 0x0010, 0x44332211);
	KUNIT_EXPECT_EQ(test, rd(l, VPD + 2, 2), 0x8010u);
	KUNIT_EXPECT_EQ(test, rd(l, VPD + 4, 4), 0x44332211u);
	KUNIT_EXPECT_EQ(test, rd(l, VPD + 4, 1), 0x11u);
	/* To write: the data first, then the address with the flag. */
	KUNIT_EXPECT_EQ(test, wr(l, VPD + 4, 4, 0xddccbbaa), 0u);
	KUNIT_EXPECT_EQ(test, wr(l, VPD + 2, 2, 0x8020), DLEND_CFG_E_VPD);
	KUNIT_EXPECT_EQ(test, dlend_cfg_vpd(&l->cfg, &data), 0x8020);
	KUNIT_EXPECT_EQ(test, data, 0xddccbbaau);
	dlend_cfg_vpd_done(&l->cfg, 0x8020, 0);
	KUNIT_EXPECT_EQ(test, rd(l, VPD + 2, 2), 0x0020u);
	KUNIT_EXPECT_EQ(test, rd(l, VPD + 4, 4), 0xddccbbaau);
	/* The guest wants another one by now. */
	wr(l, VPD + 2, 2, 0x0030);
	dlend_cfg_vpd_done(&l->cfg, 0x0020, 0x12345678);
	KUNIT_EXPECT_EQ(test, rd(l, VPD + 2, 2), 0x0030u);
	KUNIT_EXPECT_EQ(test, rd(l, VPD + 4, 4), 0xddccbbaau);
}

/* The upper byte of the address begins it, however it is written; a reset does not. */
static void vpd_begins(struct kunit *test)
{
	static const struct {
		u32 at, len, effects;
	} cases[] = {
		{ VPD + 2, 1 }, { VPD + 3, 1, DLEND_CFG_E_VPD }, { VPD, 4, DLEND_CFG_E_VPD },
		{ VPD, 2 }, { VPD + 1, 3, DLEND_CFG_E_VPD }, { VPD + 4, 4 },
		{ VPD + 3, 4, DLEND_CFG_E_VPD },
	};
	struct live *l = test->priv;
	u8 ones[16];

	build(test);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, wr(l, cases[i].at, cases[i].len, 0x00400000),
				    cases[i].effects, "case %zu", i);
	memset(ones, 0xff, sizeof(ones));
	KUNIT_EXPECT_EQ(test, dlend_cfg_write(&l->cfg, VPD, ones, sizeof(ones)) & DLEND_CFG_E_VPD,
			DLEND_CFG_E_VPD);
	/* Device Control asks for a reset in the same write. */
	KUNIT_EXPECT_EQ(test, dlend_cfg_write(&l->cfg, EXP - 6, ones, sizeof(ones)) &
			(DLEND_CFG_E_VPD | DLEND_CFG_E_FLR), DLEND_CFG_E_FLR);
	/* A device without VPD. */
	l->snap[VNDR + 1] = EXP;
	build(test);
	KUNIT_EXPECT_EQ(test, (u32)l->cfg.vpd_pos, 0u);
	KUNIT_EXPECT_EQ(test, wr(l, VPD + 2, 2, 0x8020), 0u);
	dlend_cfg_vpd_done(&l->cfg, get_unaligned_le16(l->cfg.val + 2), 0);
	KUNIT_EXPECT_EQ(test, rd(l, 0, 4), 0x00101b36u);
}

static struct kunit_case live_cases[] = {
	KUNIT_CASE(live_map),
	KUNIT_CASE(live_pieces),
	KUNIT_CASE(live_added),
	KUNIT_CASE(live_by_content),
	KUNIT_CASE(live_broken_lists),
	KUNIT_CASE(live_without_lists),
	KUNIT_CASE(live_lender),
	KUNIT_CASE(vpd_moves),
	KUNIT_CASE(vpd_begins),
	{}
};

static struct kunit_suite live_suite = {
	.name = "dlend-cfg-live",
	.init = live_init,
	.test_cases = live_cases,
};

kunit_test_suite(live_suite);

MODULE_DESCRIPTION("KUnit suite of registers that only the device knows");
MODULE_LICENSE("GPL");
