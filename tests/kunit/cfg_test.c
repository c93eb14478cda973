// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual configuration space: every bit against an oracle written from the PCI specifications
 * (numbers, not the tables under test), BAR sizing, capability lists good and bad, effects.
 */

#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/prandom.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include <dlend/cfg.h>

/* The sample device: where things are, by hand. */
#define PM	0x40
#define MSI	0x50
#define EXP	0x70
#define VNDR	0xac
#define VPD	0xbc
#define MSIX	0xc4
#define AF	0xd4
#define VC	0x100
#define AER	0x140
#define ATS	0x200
#define DSN	0x220
#define VSEC	0x300
#define SRIOV	0x340
#define UNKNOWN	0x400
#define LTR	0x500

struct fixture {
	u8 *snap;			/* of its own, so that a sanitizer sees a read beyond it */
	u8 mask[DLEND_CFG_SIZE];	/* oracle: bits that a guest can change */
	u8 model[DLEND_CFG_SIZE];
	struct dlend_cfg_desc desc;
	struct dlend_cfg cfg, work;
};

static void put16(u8 *at, u16 v)
{
	put_unaligned_le16(v, at);
}

static void put32(u8 *at, u32 v)
{
	put_unaligned_le32(v, at);
}

static void std_cap(u8 *snap, u8 pos, u8 id, u8 next)
{
	snap[pos] = id;
	snap[pos + 1] = next;
}

static void ext_cap(u8 *snap, u16 pos, u16 id, u16 next)
{
	put32(snap + pos, id | 1 << 16 | (u32)next << 20);
}

static u32 rd(const struct dlend_cfg *cfg, u32 at, u32 len)
{
	u8 buf[4] = { };

	dlend_cfg_read(cfg, at, buf, len);
	return get_unaligned_le32(buf);
}

static u32 wr(struct dlend_cfg *cfg, u32 at, u32 len, u32 v)
{
	u8 buf[4];

	put32(buf, v);
	return dlend_cfg_write(cfg, at, buf, len);
}

static void sample_header(u8 *snap)
{
	put16(snap + 0x00, 0x1b36);
	put16(snap + 0x02, 0x0010);
	put16(snap + 0x04, 0x0507);	/* as the lender's host left it */
	put16(snap + 0x06, 0x4838);	/* error and interrupt bits, 66 MHz, list */
	put32(snap + 0x08, 0x01080202);
	snap[0x0e] = 0x80;
	snap[0x0f] = 0x8f;
	put16(snap + 0x2c, 0x1af4);
	put16(snap + 0x2e, 0x1100);
	snap[0x34] = PM;
	snap[0x3c] = 11;
	snap[0x3d] = 1;
}

static void sample_std(u8 *snap)
{
	std_cap(snap, PM, 0x01, MSI);
	put16(snap + PM + 2, 0xfe0b);		/* PME everywhere, D1, D2, version 3 */
	put32(snap + PM + 4, 0x00008108);	/* No_Soft_Reset, PME enable and status */
	std_cap(snap, MSI, 0x05, EXP);
	put16(snap + MSI + 2, 0x01b7);		/* enabled, 8 vectors, 64 bit, masking */
	std_cap(snap, EXP, 0x10, VNDR);
	put16(snap + EXP + 2, 0x0002);
	put32(snap + EXP + 4, 0x1000803b);	/* FLR, phantom functions */
	put32(snap + EXP + 8, 0x000f293f);
	put32(snap + EXP + 0x0c, 0x00475c43);
	put32(snap + EXP + 0x10, 0xf0430142);
	put32(snap + EXP + 0x24, 0xffffffff);
	put32(snap + EXP + 0x28, 0x00000400);
	put32(snap + EXP + 0x2c, 0x0000000e);
	put32(snap + EXP + 0x30, 0x002f0003);
	std_cap(snap, VNDR, 0x09, VPD);
	snap[VNDR + 2] = 0x10;
	std_cap(snap, VPD, 0x03, MSIX);
	std_cap(snap, MSIX, 0x11, AF);
	put16(snap + MSIX + 2, 0xc01f);		/* enabled, masked, 32 vectors */
	put32(snap + MSIX + 4, 0x00002000);
	put32(snap + MSIX + 8, 0x00003000);
	std_cap(snap, AF, 0x13, 0);
	snap[AF + 2] = 6;
	snap[AF + 3] = 3;
}

static void sample_ext(u8 *snap)
{
	ext_cap(snap, VC, 0x02, AER);
	ext_cap(snap, AER, 0x01, ATS);
	ext_cap(snap, ATS, 0x0f, DSN);
	ext_cap(snap, DSN, 0x03, VSEC);
	ext_cap(snap, VSEC, 0x0b, SRIOV);
	put32(snap + VSEC + 4, 0x02010042);	/* 20h bytes */
	ext_cap(snap, SRIOV, 0x10, UNKNOWN);
	ext_cap(snap, UNKNOWN, 0x55, LTR);
	ext_cap(snap, LTR, 0x18, 0);
}

/* Rubbish in all bytes that hold no register. */
static void sample(struct fixture *f)
{
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 2);
	prandom_bytes_state(&rnd, f->snap, DLEND_CFG_SIZE);
	sample_header(f->snap);
	sample_std(f->snap);
	sample_ext(f->snap);
	f->desc = (struct dlend_cfg_desc){
		.snapshot = f->snap,
		.bar = {
			[0] = { .size = 0x4000, .is64 = true },
			[2] = { .size = 0x100000 },
			[3] = { .size = 0x40, .io = true },
			[4] = { .size = 0x400000000ULL, .is64 = true, .prefetch = true },
			[6] = { .size = 0x10000 },
		},
		.clique = DLEND_CFG_CLIQUE_NONE,
	};
}

static int cfg_test_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->snap = kunit_kzalloc(test, DLEND_CFG_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f->snap);
	sample(f);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	test->priv = f;
	return 0;
}

/* Oracle: every writable bit of the sample device. */
static const struct {
	u16 at;
	u8 width;
	u32 mask;
} writable[] = {
	{ 0x04, 2, 0x0547 },
	{ 0x0c, 2, 0xffff },			/* cache line, latency */
	{ 0x10, 4, 0xffffc000 }, { 0x14, 4, 0xffffffff },
	{ 0x18, 4, 0xfff00000 },
	{ 0x20, 4, 0x00000000 }, { 0x24, 4, 0xfffffffc },
	{ 0x30, 4, 0xffff0001 },
	{ 0x3c, 1, 0xff },
	{ PM + 4, 2, 0x0003 },
	{ MSI + 2, 2, 0x0071 },
	{ MSI + 4, 4, 0xfffffffc }, { MSI + 8, 4, 0xffffffff },
	{ MSI + 12, 2, 0xffff }, { MSI + 16, 4, 0x000000ff },
	{ EXP + 0x08, 2, 0x79ff }, { EXP + 0x10, 2, 0x03cb },
	{ EXP + 0x28, 2, 0x135f }, { EXP + 0x30, 2, 0xffbf },
	{ VPD + 2, 2, 0xffff }, { VPD + 4, 4, 0xffffffff },
	{ MSIX + 2, 2, 0xc000 },
	{ AER + 0x08, 4, 0x03fff031 }, { AER + 0x0c, 4, 0x03fff031 },
	{ AER + 0x14, 4, 0x0000f1c1 }, { AER + 0x18, 4, 0x00000140 },
};

static void make_oracle(struct fixture *f)
{
	unsigned int i, k;

	memset(f->mask, 0, sizeof(f->mask));
	for (i = 0; i < ARRAY_SIZE(writable); i++)
		for (k = 0; k < writable[i].width; k++)
			f->mask[writable[i].at + k] = writable[i].mask >> (8 * k);
}

static void every_bit(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 at, bit;

	make_oracle(f);
	memcpy(f->model, f->cfg.val, sizeof(f->model));
	for (at = 0; at < DLEND_CFG_SIZE; at++) {
		for (bit = 0; bit < 8; bit++) {
			u8 old = f->model[at], new = old ^ BIT(bit);

			f->work = f->cfg;
			dlend_cfg_write(&f->work, at, &new, 1);
			f->model[at] = (old & ~f->mask[at]) | (new & f->mask[at]);
			if (memcmp(f->work.val, f->model, sizeof(f->model)))
				KUNIT_FAIL(test, "offset %#x bit %u: %#x, not %#x", at, bit,
					   f->work.val[at], f->model[at]);
			f->model[at] = old;
		}
	}
}

/* Long runs of accesses of all sizes, across fields, against the same oracle. */
static void random_writes(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct rnd_state rnd;
	unsigned int n, k;

	make_oracle(f);
	memcpy(f->model, f->cfg.val, sizeof(f->model));
	prandom_seed_state(&rnd, 3);
	for (n = 0; n < 100000; n++) {
		u32 len = prandom_u32_state(&rnd) % 8 + 1;
		u32 at = prandom_u32_state(&rnd) % (n & 1 ? 0x100 : DLEND_CFG_SIZE - 8);
		u8 data[8];

		prandom_bytes_state(&rnd, data, sizeof(data));
		for (k = 0; k < len; k++) {
			/* Resets and power states are other cases. */
			if (at + k == EXP + 9)
				data[k] &= 0x7f;
			if (at + k == AF + 4 || at + k == PM + 4)
				data[k] = 0;
			f->model[at + k] &= ~f->mask[at + k];
			f->model[at + k] |= data[k] & f->mask[at + k];
		}
		dlend_cfg_write(&f->cfg, at, data, len);
	}
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val, f->model, sizeof(f->model));
}

/* What the guest sees of the sample, in full where it matters. */
static void visible(struct kunit *test)
{
	struct fixture *f = test->priv;
	static const struct {
		u16 at;
		u8 width;
		u32 value;
	} golden[] = {
		{ 0x00, 4, 0x00101b36 }, { 0x04, 4, 0x00300000 }, { 0x08, 4, 0x01080202 },
		{ 0x0e, 2, 0x0000 },
		{ 0x10, 4, 0x00000004 }, { 0x14, 4, 0 }, { 0x18, 4, 0 }, { 0x1c, 4, 0 },
		{ 0x20, 4, 0x0000000c }, { 0x24, 4, 0 }, { 0x28, 4, 0 },
		{ 0x2c, 4, 0x11001af4 }, { 0x30, 4, 0 }, { 0x34, 4, PM }, { 0x38, 4, 0 },
		{ 0x3c, 2, 0x0100 },
		{ PM, 4, 0x06035001 | MSI << 8 }, { PM + 4, 4, 0x00000008 },
		{ MSI, 4, 0x01860005 | EXP << 8 }, { MSI + 4, 4, 0 }, { MSI + 8, 4, 0 },
		{ MSI + 12, 4, 0 }, { MSI + 16, 4, 0 }, { MSI + 20, 4, 0 },
		{ EXP, 4, 0x00020010 | VNDR << 8 }, { EXP + 4, 4, 0x10008023 },
		{ EXP + 8, 4, 0x0000293f }, { EXP + 0x0c, 4, 0x00475c43 },
		{ EXP + 0x10, 4, 0x30430142 }, { EXP + 0x14, 4, 0 }, { EXP + 0x18, 4, 0 },
		{ EXP + 0x1c, 4, 0 }, { EXP + 0x20, 4, 0 }, { EXP + 0x24, 4, 0x7f13c79f },
		{ EXP + 0x28, 4, 0 }, { EXP + 0x2c, 4, 0xe }, { EXP + 0x30, 4, 0x000f0003 },
		{ VNDR, 2, 0x0009 | VPD << 8 }, { VPD, 2, 0x0003 | MSIX << 8 },
		{ MSIX, 4, 0x001f0011 | AF << 8 }, { MSIX + 4, 4, 0x2000 }, { MSIX + 8, 4, 0x3000 },
		{ AF, 4, 0x03060013 }, { AF + 4, 2, 0 },
		{ VC, 4, (u32)AER << 20 }, { VC + 4, 4, 0 },
		{ AER, 4, 0x00010001 | (u32)DSN << 20 }, { AER + 4, 4, 0 }, { AER + 0x1c, 4, 0 },
		{ ATS, 4, 0 }, { ATS + 4, 4, 0 },
		{ DSN, 4, 0x00010003 | (u32)VSEC << 20 },
		{ VSEC, 4, 0x0001000b }, { VSEC + 4, 4, 0x02010042 },
		{ SRIOV, 4, 0 }, { SRIOV + 8, 4, 0 }, { UNKNOWN, 4, 0 },
		{ LTR, 4, 0 }, { LTR + 4, 4, 0 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(golden); i++)
		KUNIT_EXPECT_EQ_MSG(test, rd(&f->cfg, golden[i].at, golden[i].width),
				    golden[i].value, "at %#x", golden[i].at);
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val + VNDR + 2, f->snap + VNDR + 2, 0x0e);
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val + DSN + 4, f->snap + DSN + 4, 8);
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val + VPD + 2, f->snap + VPD + 2, 6);
	/* Up to the next capability: what is in none is shown, too, and what nobody knows. */
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val + UNKNOWN + 4, f->snap + UNKNOWN + 4,
			   LTR - UNKNOWN - 4);
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val + VSEC + 4, f->snap + VSEC + 4, SRIOV - VSEC - 4);
}

/* Bits that only a written 1 clears. */
static void write_one_clears(struct kunit *test)
{
	struct fixture *f = test->priv;
	static const struct {
		u16 at;
		u8 width;
		u32 mask;
	} w1c[] = {
		{ 0x06, 2, 0xf900 }, { EXP + 0x0a, 2, 0x000f },
		{ AER + 0x04, 4, 0x03fff031 }, { AER + 0x10, 4, 0x0000f1c1 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(w1c); i++) {
		u32 base = rd(&f->cfg, w1c[i].at, w1c[i].width);

		put16(f->cfg.val + w1c[i].at, base | w1c[i].mask);
		if (w1c[i].width == 4)
			put32(f->cfg.val + w1c[i].at, base | w1c[i].mask);
		wr(&f->cfg, w1c[i].at, w1c[i].width, 0);
		KUNIT_EXPECT_EQ(test, rd(&f->cfg, w1c[i].at, w1c[i].width), base | w1c[i].mask);
		wr(&f->cfg, w1c[i].at, w1c[i].width, 0xffffffff);
		KUNIT_EXPECT_EQ(test, rd(&f->cfg, w1c[i].at, w1c[i].width), base);
	}
}

struct bar_case {
	const char *name;
	unsigned int index;
	struct dlend_cfg_bar bar;
	u64 sized;	/* what all ones read back as */
};

static const struct bar_case bar_cases[] = {
	{ "16 bytes", 0, { .size = 16 }, 0xfffffff0 },
	{ "4 KiB prefetchable", 3, { .size = 0x1000, .prefetch = true }, 0xfffff008 },
	{ "2 GiB", 5, { .size = 0x80000000 }, 0x80000000 },
	{ "64 bit 16 KiB", 0, { .size = 0x4000, .is64 = true }, 0xffffffffffffc004 },
	{ "64 bit 4 GiB", 2, { .size = 0x100000000, .is64 = true }, 0xffffffff00000004 },
	{ "64 bit 32 GiB prefetchable", 4,
	  { .size = 0x800000000, .is64 = true, .prefetch = true }, 0xfffffff80000000c },
	{ "port", 1, { .size = 32, .io = true }, 0 },
	{ "none", 1, { .size = 0 }, 0 },
	{ "ROM", 6, { .size = 0x20000 }, 0xfffe0001 },
	{ "no ROM", 6, { .size = 0 }, 0 },
};

KUNIT_ARRAY_PARAM_DESC(bar, bar_cases, name);

static void bar_sizing(struct kunit *test)
{
	const struct bar_case *c = test->param_value;
	struct fixture *f = test->priv;
	u32 at = c->index == 6 ? 0x30 : 0x10 + 4 * c->index;
	u32 bytes = c->bar.is64 ? 8 : 4;
	u32 width, k;
	u64 got;

	memset(f->desc.bar, 0, sizeof(f->desc.bar));
	f->desc.bar[c->index] = c->bar;
	for (width = 1; width <= 4; width *= 2) {
		KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
		for (k = 0; k < bytes; k += width)
			wr(&f->cfg, at + k, width, 0xffffffff);
		for (got = 0, k = 0; k < bytes; k += width)
			got |= (u64)rd(&f->cfg, at + k, width) << (8 * k);
		KUNIT_EXPECT_EQ(test, got, c->sized);
		/* One access over everything, then an address, and no bits below the size. */
		for (k = 0; k < bytes; k += width)
			wr(&f->cfg, at + k, width, 0x9abcdef3);
		got = dlend_cfg_bar_addr(&f->cfg, c->index);
		if (c->bar.size && !c->bar.io)
			KUNIT_EXPECT_EQ(test, got & (c->bar.size - 1), 0);
		else
			KUNIT_EXPECT_EQ(test, got, 0);
	}
}

/* Accesses that lie across two registers change both, each by its own rule. */
static void across_edges(struct kunit *test)
{
	struct fixture *f = test->priv;
	u8 ones[24];

	memset(ones, 0xff, sizeof(ones));
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, 0x16, 4, 0x4433eeff), DLEND_CFG_E_BAR);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x14, 4), 0xeeff0000);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x18, 4), 0);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, 0x17, 4, 0x44331122), DLEND_CFG_E_BAR);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x14, 4), 0x22ff0000);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x18, 4), 0x00400000);
	dlend_cfg_write(&f->cfg, 0x10, ones, sizeof(ones));
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x10, 4), 0xffffc004);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x18, 4), 0xfff00000);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x1c, 4), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x20, 4), 0x0000000c);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x24, 4), 0xfffffffc);
	/* COMMAND from the middle of a write that starts in the ids. */
	KUNIT_EXPECT_EQ(test, dlend_cfg_write(&f->cfg, 2, ones, 3) & ~0x20,
			DLEND_CFG_E_MSE_ON | DLEND_CFG_E_BME_ON);
}

static void outside(struct kunit *test)
{
	struct fixture *f = test->priv;
	u8 buf[8];

	memset(buf, 0, sizeof(buf));
	dlend_cfg_read(&f->cfg, DLEND_CFG_SIZE - 4, buf, 8);
	KUNIT_EXPECT_MEMEQ(test, buf, f->snap + DLEND_CFG_SIZE - 4, 4);
	KUNIT_EXPECT_EQ(test, get_unaligned_le32(buf + 4), 0xffffffffu);
	dlend_cfg_read(&f->cfg, 0xfffffffe, buf, 8);
	KUNIT_EXPECT_EQ(test, get_unaligned_le64(buf), ~0ULL);
	KUNIT_EXPECT_EQ(test, dlend_cfg_write(&f->cfg, DLEND_CFG_SIZE - 4, buf, 8), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_write(&f->cfg, DLEND_CFG_SIZE, buf, 8), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_write(&f->cfg, 0xfffffffe, buf, 8), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_write(&f->cfg, 4, buf, 0), 0);
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val, f->cfg.reset_val, DLEND_CFG_SIZE);
}

static void command_effects(struct kunit *test)
{
	struct dlend_cfg *cfg = &((struct fixture *)test->priv)->cfg;

	KUNIT_EXPECT_FALSE(test, dlend_cfg_mse(cfg));
	KUNIT_EXPECT_EQ(test, wr(cfg, 4, 2, 0x0006), DLEND_CFG_E_MSE_ON | DLEND_CFG_E_BME_ON);
	KUNIT_EXPECT_TRUE(test, dlend_cfg_mse(cfg));
	KUNIT_EXPECT_TRUE(test, dlend_cfg_bme(cfg));
	KUNIT_EXPECT_EQ(test, wr(cfg, 4, 2, 0x0006), 0);
	KUNIT_EXPECT_EQ(test, wr(cfg, 4, 1, 0x02), DLEND_CFG_E_BME_OFF);
	KUNIT_EXPECT_EQ(test, wr(cfg, 5, 1, 0x04), DLEND_CFG_E_INTX);
	KUNIT_EXPECT_TRUE(test, dlend_cfg_intx_disabled(cfg));
	KUNIT_EXPECT_EQ(test, wr(cfg, 4, 4, 0x0004),
			DLEND_CFG_E_MSE_OFF | DLEND_CFG_E_BME_ON | DLEND_CFG_E_INTX);
	KUNIT_EXPECT_FALSE(test, dlend_cfg_intx_disabled(cfg));
	KUNIT_EXPECT_EQ(test, wr(cfg, 0x30, 4, 1), DLEND_CFG_E_ROM);
	KUNIT_EXPECT_EQ(test, wr(cfg, 0x30, 4, 0xfe000000), DLEND_CFG_E_ROM | DLEND_CFG_E_BAR);
	KUNIT_EXPECT_EQ(test, dlend_cfg_bar_addr(cfg, DLEND_ROM_INDEX), 0xfe000000);
	KUNIT_EXPECT_EQ(test, wr(cfg, 0x14, 4, 0x12), DLEND_CFG_E_BAR);
	KUNIT_EXPECT_EQ(test, wr(cfg, 0x10, 4, 0x34560000), DLEND_CFG_E_BAR);
	KUNIT_EXPECT_EQ(test, dlend_cfg_bar_addr(cfg, 0), 0x1234560000ULL);
	KUNIT_EXPECT_EQ(test, dlend_cfg_bar_addr(cfg, 1), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_bar_addr(cfg, 99), 0);
	KUNIT_EXPECT_EQ(test, wr(cfg, 0x10, 4, 0x34560000), 0);
}

/* A guest moves: it finds what it has left, and a host that shows another device is found out. */
static void saved_and_loaded(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 at, differs = 0;

	make_oracle(f);
	wr(&f->cfg, 4, 2, 0x0406);
	wr(&f->cfg, 0x10, 4, 0x34560000);
	wr(&f->cfg, EXP + 8, 2, 0x5000);
	memcpy(f->model, f->cfg.val, DLEND_CFG_SIZE);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->work, &f->desc), 0);
	KUNIT_EXPECT_FALSE(test, dlend_cfg_mse(&f->work));
	KUNIT_EXPECT_EQ(test, dlend_cfg_load(&f->work, f->model, &at), 0);
	KUNIT_EXPECT_MEMEQ(test, f->work.val, f->cfg.val, DLEND_CFG_SIZE);
	KUNIT_EXPECT_TRUE(test, dlend_cfg_mse(&f->work));
	KUNIT_EXPECT_TRUE(test, dlend_cfg_mastering(&f->work));
	KUNIT_EXPECT_EQ(test, dlend_cfg_bar_addr(&f->work, 0), 0x34560000ULL);
	/* A bit that no guest can change: not taken, wherever it is, and nothing else is. */
	for (unsigned int bit = 0; bit < 8 * DLEND_CFG_SIZE; bit += 3) {
		if (f->mask[bit / 8] & 1 << bit % 8 || f->work.w1c[bit / 8])
			continue;
		f->model[bit / 8] ^= 1 << bit % 8;
		f->model[4] ^= 2;
		KUNIT_EXPECT_EQ(test, dlend_cfg_load(&f->work, f->model, &at), -EINVAL);
		KUNIT_EXPECT_EQ(test, at, bit / 8);
		differs += memcmp(f->work.val, f->cfg.val, DLEND_CFG_SIZE) != 0;
		f->model[4] ^= 2;
		f->model[bit / 8] ^= 1 << bit % 8;
	}
	KUNIT_EXPECT_EQ(test, differs, 0u);
}

/* Set up all that a guest may set up, then reset by writing @at. */
static void reset_by(struct kunit *test, u32 at, u32 len, u32 value)
{
	struct dlend_cfg *cfg = &((struct fixture *)test->priv)->cfg;

	wr(cfg, 0x10, 4, 0xfe000000);
	wr(cfg, MSIX + 2, 2, 0x8000);
	wr(cfg, 4, 2, 0x0406);
	KUNIT_EXPECT_EQ(test, wr(cfg, at, len, value),
			DLEND_CFG_E_FLR | DLEND_CFG_E_MSE_OFF | DLEND_CFG_E_BME_OFF |
			DLEND_CFG_E_INTX);
	/* BARs are an exception: the VMM keeps them, so the guest does not write them again. */
	KUNIT_EXPECT_EQ(test, dlend_cfg_bar_addr(cfg, 0) & 0xffffffff, 0xfe000000);
	wr(cfg, 0x10, 4, 0);
	KUNIT_EXPECT_MEMEQ(test, cfg->val, cfg->reset_val, DLEND_CFG_SIZE);
}

static void function_reset(struct kunit *test)
{
	struct fixture *f = test->priv;

	reset_by(test, EXP + 8, 2, 0xa810);
	reset_by(test, EXP + 9, 1, 0x80);
	reset_by(test, EXP + 6, 4, 0x80000000);
	reset_by(test, AF + 4, 1, 0x01);
	/* A device that has no such reset ignores the bit, and it reads as 0. */
	put32(f->snap + EXP + 4, 0x00008000);
	f->snap[AF + 3] = 1;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, EXP + 8, 2, 0x8000), DLEND_CFG_E_READRQ);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, EXP + 8, 2), 0);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, AF + 4, 2, 1), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, AF + 4, 2), 0);
}

static void power_keeps(struct kunit *test)
{
	struct dlend_cfg *cfg = &((struct fixture *)test->priv)->cfg;

	wr(cfg, 4, 2, 0x0006);
	KUNIT_EXPECT_EQ(test, wr(cfg, PM + 4, 2, 3), DLEND_CFG_E_D3HOT);
	KUNIT_EXPECT_FALSE(test, dlend_cfg_mse(cfg));
	KUNIT_EXPECT_EQ(test, rd(cfg, 4, 2), 6);
	/* From D3hot only D0 can be entered. */
	KUNIT_EXPECT_EQ(test, wr(cfg, PM + 4, 1, 1), 0);
	KUNIT_EXPECT_EQ(test, rd(cfg, PM + 4, 1), 0x0b);
	KUNIT_EXPECT_EQ(test, wr(cfg, PM + 4, 2, 0), DLEND_CFG_E_D0);
	KUNIT_EXPECT_TRUE(test, dlend_cfg_mse(cfg));
	KUNIT_EXPECT_EQ(test, wr(cfg, PM + 4, 2, 1), DLEND_CFG_E_D3HOT);
	KUNIT_EXPECT_EQ(test, wr(cfg, PM + 4, 2, 3), 0);
	KUNIT_EXPECT_EQ(test, wr(cfg, EXP + 9, 1, 0x80), DLEND_CFG_E_FLR | DLEND_CFG_E_D0 |
			DLEND_CFG_E_MSE_OFF | DLEND_CFG_E_BME_OFF);
	KUNIT_EXPECT_EQ(test, rd(cfg, PM + 4, 1), 0x08);
}

static void power_forgets(struct kunit *test)
{
	struct fixture *f = test->priv;

	/* Without No_Soft_Reset, D1 and D2. */
	put16(f->snap + PM + 2, 0x0003);
	put32(f->snap + PM + 4, 0);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	wr(&f->cfg, 4, 2, 0x0406);
	wr(&f->cfg, 0x18, 4, 0xfe000000);
	wr(&f->cfg, MSIX + 2, 2, 0x8000);
	memcpy(f->model, f->cfg.val, sizeof(f->model));
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, PM + 4, 2, 1), 0);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, PM + 4, 2, 2), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, PM + 4, 1), 0);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, PM + 4, 2, 3), DLEND_CFG_E_D3HOT);
	/* The device is reset; vfio-pci restores what the guest has set up, all of it. */
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, PM + 4, 2, 0), DLEND_CFG_E_D0 | DLEND_CFG_E_FLR);
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val, f->model, DLEND_CFG_SIZE);
	KUNIT_EXPECT_TRUE(test, dlend_cfg_mse(&f->cfg) && dlend_cfg_bme(&f->cfg));
	KUNIT_EXPECT_TRUE(test, dlend_cfg_intx_disabled(&f->cfg));
}

/* The one setting of the PCIe capability that the device gets. */
static void read_request(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, dlend_cfg_readrq(&f->cfg), 2);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, EXP + 8, 2, 0x2910), 0);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, EXP + 8, 2, 0x5910), DLEND_CFG_E_READRQ);
	KUNIT_EXPECT_EQ(test, dlend_cfg_readrq(&f->cfg), 5);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, EXP + 9, 1, 0x19), DLEND_CFG_E_READRQ);
	KUNIT_EXPECT_EQ(test, dlend_cfg_readrq(&f->cfg), 1);
	/* After a reset it has the value that the lender has found. */
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, EXP + 9, 1, 0x99), DLEND_CFG_E_FLR | DLEND_CFG_E_READRQ);
	KUNIT_EXPECT_EQ(test, dlend_cfg_readrq(&f->cfg), 2);
	f->snap[PM + 1] = AF;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_readrq(&f->cfg), 0);
}

/* The lender has fewer vectors than its device: the guest's driver asks for no more. */
static void few_vectors(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct dlend_cfg_part part;

	f->desc.max_msix = 5;
	f->desc.max_msi = 3;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msix(&f->cfg), 5);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, MSIX + 2, 2), 4);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msi(&f->cfg), 2);
	/* Only these vectors have mask bits. */
	wr(&f->cfg, MSI + 16, 4, 0xffffffff);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, MSI + 16, 4), 3);
	/* The table keeps its size: none of it may be mapped. */
	KUNIT_ASSERT_TRUE(test, dlend_cfg_msix_range(&f->cfg, false, &part));
	KUNIT_EXPECT_TRUE(test, part.bar == 0 && part.offset == 0x2000 && part.size == 512);
	f->desc.max_msix = 100;
	f->desc.max_msi = 64;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msix(&f->cfg), 32);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msi(&f->cfg), 8);
}

static void virtual_function(struct kunit *test)
{
	struct fixture *f = test->priv;

	put32(f->snap, 0xffffffff);
	f->desc.is_vf = true;
	f->desc.vendor = 0x8086;
	f->desc.device = 0x1889;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0, 4), 0x18898086);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x3d, 1), 0);
	KUNIT_EXPECT_TRUE(test, dlend_cfg_mse(&f->cfg));
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, 4, 2, 0), DLEND_CFG_E_MSE_OFF);
	dlend_cfg_reset(&f->cfg);
	KUNIT_EXPECT_TRUE(test, dlend_cfg_mse(&f->cfg));
}

/* The standard list that the guest walks, as a string of ids. */
static void walk(struct kunit *test, const struct dlend_cfg *cfg, const char *ids, unsigned int nr)
{
	u32 pos = rd(cfg, 0x34, 1);
	unsigned int i;

	for (i = 0; i < nr && pos; i++) {
		KUNIT_EXPECT_EQ_MSG(test, rd(cfg, pos, 1), ids[i], "entry %u at %#x", i, pos);
		pos = rd(cfg, pos + 1, 1);
	}
	KUNIT_EXPECT_EQ(test, i, nr);
	KUNIT_EXPECT_EQ(test, pos, 0);
	KUNIT_EXPECT_EQ(test, !!(rd(cfg, 6, 2) & 0x10), nr > 0);
}

static void added_reset(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct dlend_cfg *before = kunit_kmalloc(test, sizeof(*before), GFP_KERNEL);
	u32 at;

	KUNIT_ASSERT_NOT_NULL(test, before);
	*before = f->cfg;
	f->desc.add_reset = true;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_MEMEQ(test, f->cfg.val, before->val, DLEND_CFG_SIZE);
	/* AF alone is a reset, and so is a power state that forgets. */
	put32(f->snap + EXP + 4, 0x00008000);
	f->snap[MSIX + 1] = 0;
	put32(f->snap + PM + 4, 0);
	memset(f->snap + 0x48, 0, 8);
	memset(f->snap + AF, 0, 8);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01\x05\x10\x09\x03\x11", 6);
	/* But not one whose power states are nobody's business. */
	f->desc.keeps_state = true;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_GT(test, f->cfg.af_pos, 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, PM + 4, 4), 0x00000008);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, PM + 4, 1, 3), DLEND_CFG_E_D3HOT);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, PM + 4, 1, 0), DLEND_CFG_E_D0);
	f->desc.keeps_state = false;
	put32(f->snap + PM + 4, 0x00000008);
	f->desc.clique = 3;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01\x05\x10\x09\x03\x11\x13\x09", 8);
	at = f->cfg.af_pos;
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, at + 2, 4), 0x0306);
	wr(&f->cfg, 4, 2, 0x0006);
	KUNIT_EXPECT_EQ(test, wr(&f->cfg, at + 4, 1, 1),
			DLEND_CFG_E_FLR | DLEND_CFG_E_MSE_OFF | DLEND_CFG_E_BME_OFF);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, at + 4, 2), 0);
	/* No room: a capability that nobody knows has all of the space. */
	f->desc.clique = DLEND_CFG_CLIQUE_NONE;
	std_cap(f->snap, 0x40, 0x77, 0);
	f->snap[0x34] = 0x40;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "", 0);
	KUNIT_EXPECT_EQ(test, f->cfg.af_pos, 0);
	/* No list: it begins with AF. */
	f->snap[6] &= ~0x10;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x13", 1);
	KUNIT_EXPECT_TRUE(test, rd(&f->cfg, 6, 2) & 0x10);
}

static void no_intx(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->desc.no_intx = true;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x3d, 1), 0);
}

/* A lender without message signalled interrupts: the guest must see that. */
static void no_messages(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->desc.no_msix = true;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msix(&f->cfg), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msi(&f->cfg), 8);
	walk(test, &f->cfg, "\x01\x05\x10\x09\x03\x13", 6);
	f->desc.no_msi = true;
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msi(&f->cfg), 0);
	walk(test, &f->cfg, "\x01\x10\x09\x03\x13", 5);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0x3d, 1), 1);
}

struct msi_case {
	const char *name;
	u16 flags;
	u32 vectors;
	u32 mask[5];	/* writable bits, dwords from offset 4 */
};

static const struct msi_case msi_cases[] = {
	{ "32 bit", 0x0000, 1, { 0xfffffffc, 0xffff, 0, 0, 0 } },
	{ "64 bit", 0x0082, 2, { 0xfffffffc, 0xffffffff, 0xffff, 0, 0 } },
	{ "32 bit masking", 0x0104, 4, { 0xfffffffc, 0xffff, 0xf, 0, 0 } },
	{ "64 bit masking", 0x018a, 32, { 0xfffffffc, 0xffffffff, 0xffff, 0xffffffff, 0 } },
	{ "reserved count", 0x018e, 32, { 0xfffffffc, 0xffffffff, 0xffff, 0xffffffff, 0 } },
};

KUNIT_ARRAY_PARAM_DESC(msi, msi_cases, name);

static void msi_variants(struct kunit *test)
{
	const struct msi_case *c = test->param_value;
	struct fixture *f = test->priv;
	unsigned int i;

	put16(f->snap + MSI + 2, c->flags);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msi(&f->cfg), c->vectors);
	for (i = 0; i < ARRAY_SIZE(c->mask); i++) {
		u32 at = MSI + 4 + 4 * i, zeroes;

		/* Behind the capability is what the device has there. */
		wr(&f->cfg, at, 4, 0);
		zeroes = rd(&f->cfg, at, 4);
		wr(&f->cfg, at, 4, 0xffffffff);
		KUNIT_EXPECT_EQ_MSG(test, rd(&f->cfg, at, 4) ^ zeroes, c->mask[i], "dword %u", i);
	}
}

static void msix(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct dlend_cfg_part part;

	KUNIT_EXPECT_EQ(test, dlend_cfg_msix(&f->cfg), 32);
	KUNIT_ASSERT_TRUE(test, dlend_cfg_msix_range(&f->cfg, false, &part));
	KUNIT_EXPECT_TRUE(test, part.bar == 0 && part.offset == 0x2000 && part.size == 512);
	KUNIT_ASSERT_TRUE(test, dlend_cfg_msix_range(&f->cfg, true, &part));
	KUNIT_EXPECT_TRUE(test, part.bar == 0 && part.offset == 0x3000 && part.size == 8);
	/* Table or PBA outside of any memory BAR: the guest sees no MSI-X. */
	put32(f->snap + MSIX + 8, 0x00004000);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msix(&f->cfg), 0);
	KUNIT_EXPECT_FALSE(test, dlend_cfg_msix_range(&f->cfg, true, &part));
	put32(f->snap + MSIX + 8, 0x00003000);
	put32(f->snap + MSIX + 4, 0xfffffff8);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msix(&f->cfg), 0);
	put32(f->snap + MSIX + 4, 0x00000007);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msix(&f->cfg), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, VPD + 1, 1), AF);
}

static void list_looped(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->snap[EXP + 1] = PM;
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01\x05\x10", 3);
	f->desc.clique = 1;
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), -ELOOP);
	walk(test, &f->cfg, "\x01\x05\x10", 3);
	f->snap[EXP + 1] = 0xe0;
	f->snap[0xe0] = 0xff;
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), -ELOOP);
	walk(test, &f->cfg, "\x01\x05\x10", 3);
	f->snap[EXP + 1] = PM;
	f->snap[PM + 1] = PM;
	f->desc.clique = DLEND_CFG_CLIQUE_NONE;
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01", 1);
	ext_cap(f->snap, AER, 0x01, VC);
	f->snap[PM + 1] = EXP;
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, AER, 4), 0x00010001);
}

static void list_absent(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->snap[6] &= ~0x10;
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "", 0);
	/* No PCIe capability: no extended space. */
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, VC, 4), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, AER, 4), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msi(&f->cfg), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_msix(&f->cfg), 0);
	f->snap[6] |= 0x10;
	f->snap[0x34] = 0x20;	/* inside the header */
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "", 0);
}

/* A capability ends where the next one starts: one that would be cut is not shown. */
static void list_overlap(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->snap[VNDR + 2] = 0xff;		/* sloppy length: clipped */
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01\x05\x10\x09\x03\x11\x13", 7);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, MSIX + 2, 2), 0x001f);
	f->snap[MSI + 1] = MSI + 8;		/* AF inside MSI */
	std_cap(f->snap, MSI + 8, 0x13, EXP);
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01\x13\x10\x09\x03\x11", 6);
	std_cap(f->snap, MSI, 0x01, EXP);	/* a second PM */
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01\x10\x09\x03\x11\x13", 6);
	std_cap(f->snap, PM, 0x01, 0xfc);	/* MSI-X that runs out of the space */
	std_cap(f->snap, 0xfc, 0x11, 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01", 1);
	ext_cap(f->snap, VC, 0x0b, 0xffc);	/* VSEC without room for its header */
	std_cap(f->snap, PM, 0x01, EXP);
	ext_cap(f->snap, 0xffc, 0x0b, 0);
	put32(f->snap + VC + 4, 0xfff00000);
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, VC, 4), 0x0001000b);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0xffc, 4), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, 0xff8, 4), get_unaligned_le32(f->snap + 0xff8));
}

static void hidden_by_content(struct kunit *test)
{
	struct fixture *f = test->priv;

	memcpy(f->snap + VNDR + 2, "\x08P2P", 4);	/* a clique of the lender's own host */
	ext_cap(f->snap, DSN, 0x23, VSEC);		/* CXL */
	put32(f->snap + DSN + 4, 0x03c01e98);
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	walk(test, &f->cfg, "\x01\x05\x10\x03\x11\x13", 6);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, AER, 4), 0x00010001 | (u32)VSEC << 20);
	put32(f->snap + DSN + 4, 0x03c08086);		/* of somebody else */
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, DSN, 4), 0x00010023 | (u32)VSEC << 20);
}

/* Version 1 of the PCIe capability ends after Link Status, or before Link Capabilities. */
static void pcie_version_1(struct kunit *test)
{
	struct fixture *f = test->priv;

	put16(f->snap + EXP + 2, 0x0001);
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	wr(&f->cfg, EXP + 0x10, 2, 0xffff);
	wr(&f->cfg, EXP + 0x28, 4, 0xffffffff);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, EXP + 0x10, 2), 0x03cb);
	/* What is behind it is none of it. */
	KUNIT_EXPECT_EQ(test, dlend_cfg_live(&f->cfg, EXP + 0x10, 4), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_live(&f->cfg, EXP + 0x14, 4), 4);
	KUNIT_EXPECT_EQ(test, rd(&f->cfg, EXP + 0x28, 4), 0x400);
	put16(f->snap + EXP + 2, 0x0091);
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_live(&f->cfg, EXP + 0x08, 4), 0);
	KUNIT_EXPECT_EQ(test, dlend_cfg_live(&f->cfg, EXP + 0x0c, 4), 4);
}

static void bad_input(struct kunit *test)
{
	struct fixture *f = test->priv;
	static const struct {
		unsigned int index;
		struct dlend_cfg_bar bar;
	} bad[] = {
		{ 0, { .size = 0x3000 } }, { 0, { .size = 8 } }, { 2, { .size = 0x100000000ULL } },
		{ 5, { .size = 0x1000, .is64 = true } }, { 6, { .size = 1024 } },
		{ 6, { .size = 0x100000000ULL } }, { 1, { .size = 0x1000, .is64 = true } },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		sample(f);
		f->desc.bar[bad[i].index] = bad[i].bar;
		KUNIT_EXPECT_EQ_MSG(test, dlend_cfg_init(&f->cfg, &f->desc), -EINVAL, "%u", i);
	}
	sample(f);
	f->desc.clique = 16;
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), -EINVAL);
	f->desc.clique = -2;
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), -EINVAL);
	f->desc.clique = DLEND_CFG_CLIQUE_NONE;
	f->snap[0x0e] = 0x01;	/* a bridge */
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), -EINVAL);
	memset(f->snap, 0xff, DLEND_CFG_SIZE);
	KUNIT_EXPECT_EQ(test, dlend_cfg_init(&f->cfg, &f->desc), -EINVAL);
}

static struct kunit_case cfg_cases[] = {
	KUNIT_CASE(every_bit),
	KUNIT_CASE(random_writes),
	KUNIT_CASE(visible),
	KUNIT_CASE(write_one_clears),
	KUNIT_CASE_PARAM(bar_sizing, bar_gen_params),
	KUNIT_CASE(across_edges),
	KUNIT_CASE(outside),
	KUNIT_CASE(command_effects),
	KUNIT_CASE(saved_and_loaded),
	KUNIT_CASE(function_reset),
	KUNIT_CASE(added_reset),
	KUNIT_CASE(power_keeps),
	KUNIT_CASE(power_forgets),
	KUNIT_CASE(read_request),
	KUNIT_CASE(few_vectors),
	KUNIT_CASE(virtual_function),
	KUNIT_CASE(no_intx),
	KUNIT_CASE(no_messages),
	KUNIT_CASE_PARAM(msi_variants, msi_gen_params),
	KUNIT_CASE(msix),
	KUNIT_CASE(list_looped),
	KUNIT_CASE(list_absent),
	KUNIT_CASE(list_overlap),
	KUNIT_CASE(hidden_by_content),
	KUNIT_CASE(pcie_version_1),
	KUNIT_CASE(bad_input),
	{}
};

static struct kunit_suite cfg_suite = {
	.name = "dlend-cfg",
	.init = cfg_test_init,
	.test_cases = cfg_cases,
};

kunit_test_suite(cfg_suite);

MODULE_DESCRIPTION("KUnit suite of the virtual configuration space");
MODULE_LICENSE("GPL");
