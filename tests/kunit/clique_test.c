// SPDX-License-Identifier: GPL-2.0
/*
 * P2P clique capability: golden bytes, and that it goes to C8h or D4h only, and there only where
 * the device has nothing: no capability, listed or hidden, and no register outside of them.
 */

#include <kunit/test.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include <dlend/cfg.h>

#define NVIDIA	0x10de

struct clique_case {
	const char *name;
	u16 vendor, device;
	int clique;
	struct {
		u8 at, id, len;	/* if it is vendor-specific */
	} caps[4];
	u8 reg;			/* where a register is that is in no capability */
	int ret;
	u8 at;			/* where it must be */
	u8 link;		/* whose next pointer leads there */
};

static const struct clique_case cases[] = {
	{ "Turing, no list", NVIDIA, 0x1e07, 0, { }, 0, 0, 0xd4, 0x34 },
	{ "Kepler, no list", NVIDIA, 0x102d, 1, { }, 0, 0, 0xc8, 0x34 },
	{ "Volta", NVIDIA, 0x1db1, 15, { { 0x60, 0x01 } }, 0, 0, 0xc8, 0x61 },
	{ "Hopper", NVIDIA, 0x2330, 7, { { 0x60, 0x01 } }, 0, 0, 0xd4, 0x61 },
	{ "another vendor", 0x1002, 0x74a1, 3, { { 0x60, 0x01 } }, 0, 0, 0xd4, 0x61 },
	{ "ends at D3h", NVIDIA, 0x2204, 2, { { 0x60, 0x01 }, { 0xc4, 0x09, 0x10 } },
	  0, 0, 0xd4, 0xc5 },
	{ "ends at D5h", NVIDIA, 0x2204, 2, { { 0x60, 0x01 }, { 0xc4, 0x09, 0x12 } },
	  0, -ENOSPC, 0, 0 },
	{ "begins at D0h", NVIDIA, 0x2204, 2, { { 0x60, 0x01 }, { 0xd0, 0x09, 0x0c } },
	  0, 0, 0xc8, 0xd1 },
	{ "begins at D8h", NVIDIA, 0x2204, 2, { { 0xd8, 0x01 } }, 0, 0, 0xc8, 0xd9 },
	{ "Kepler, C8h taken", NVIDIA, 0x102d, 2, { { 0xc0, 0x09, 0x10 } }, 0, 0, 0xd4, 0xc1 },
	{ "Kepler, both taken", NVIDIA, 0x102d, 2, { { 0xc8, 0x09, 0x20 } }, 0, -ENOSPC, 0, 0 },
	{ "taken up to the end", NVIDIA, 0x2204, 2, { { 0xc0, 0x09, 0x3c } }, 0, -ENOSPC, 0, 0 },
	{ "MSI-X and PCIe as on a real board", NVIDIA, 0x2684, 2,
	  { { 0x60, 0x01 }, { 0x68, 0x05 }, { 0x78, 0x10 }, { 0xb4, 0x09, 0x14 } },
	  0, 0, 0xd4, 0xb5 },
	{ "VPD", NVIDIA, 0x2204, 2, { { 0xd0, 0x03 } }, 0, 0, 0xc8, 0xd1 },
	{ "hidden but there", NVIDIA, 0x2204, 2, { { 0xd0, 0x0d } }, 0, 0, 0xc8, 0x34 },
	{ "unknown length", NVIDIA, 0x2204, 2, { { 0xcc, 0x77 } }, 0, -ENOSPC, 0, 0 },
	{ "unknown length, known end", NVIDIA, 0x2204, 2, { { 0xd0, 0x77 }, { 0xdc, 0x01 } },
	  0, 0, 0xc8, 0xdd },
	{ "a register at D4h", NVIDIA, 0x2204, 2, { { 0x60, 0x01 } }, 0xd4, 0, 0xc8, 0x61 },
	{ "a register that ends at DBh", NVIDIA, 0x2204, 2, { { 0x60, 0x01 } },
	  0xdb, 0, 0xc8, 0x61 },
	{ "a register behind D4h's place", NVIDIA, 0x2204, 2, { { 0x60, 0x01 } },
	  0xdc, 0, 0xd4, 0x61 },
	{ "Kepler, a register at CFh", NVIDIA, 0x102d, 2, { { 0x60, 0x01 } },
	  0xcf, 0, 0xd4, 0x61 },
	{ "a register and a capability", NVIDIA, 0x2204, 2, { { 0xc0, 0x09, 0x10 } },
	  0xd8, -ENOSPC, 0, 0 },
	{ "a register in vendor-specific ones", NVIDIA, 0x2204, 2, { { 0xc8, 0x09, 0x14 } },
	  0xd4, -ENOSPC, 0, 0 },
};

KUNIT_ARRAY_PARAM_DESC(clique, cases, name);

static void build(u8 *snap, const struct clique_case *c)
{
	u8 *link = snap + 0x34;
	unsigned int i;

	put_unaligned_le16(c->vendor, snap);
	put_unaligned_le16(c->device, snap + 2);
	for (i = 0; i < ARRAY_SIZE(c->caps) && c->caps[i].at; i++) {
		u8 at = c->caps[i].at;

		put_unaligned_le16(0x10, snap + 6);
		*link = at;
		link = snap + at + 1;
		snap[at] = c->caps[i].id;
		snap[at + 2] = c->caps[i].id == 0x10 ? 2 : c->caps[i].len;
	}
	if (c->reg)
		snap[c->reg] = 0x80;
}

static void golden(struct kunit *test)
{
	const struct clique_case *c = test->param_value;
	const u8 bytes[8] = { 0x09, 0x00, 0x08, 'P', '2', 'P', c->clique << 3, 0x00 };
	u8 *snap = kunit_kzalloc(test, DLEND_CFG_SIZE, GFP_KERNEL);
	struct dlend_cfg *cfg = kunit_kzalloc(test, sizeof(*cfg), GFP_KERNEL);
	struct dlend_cfg_desc desc = { .snapshot = snap, .clique = c->clique };
	u8 got[8], ones[8];

	KUNIT_ASSERT_NOT_NULL(test, snap);
	KUNIT_ASSERT_NOT_NULL(test, cfg);
	build(snap, c);
	KUNIT_ASSERT_EQ(test, dlend_cfg_init(cfg, &desc), c->ret);
	KUNIT_EXPECT_EQ(test, cfg->clique_pos, c->at);
	if (c->ret)
		return;
	dlend_cfg_read(cfg, c->link, got, 1);
	KUNIT_EXPECT_EQ(test, got[0], c->at);
	dlend_cfg_read(cfg, 6, got, 1);
	KUNIT_EXPECT_TRUE(test, got[0] & 0x10);
	/* Read-only, and still there after a reset. */
	memset(ones, 0xff, sizeof(ones));
	dlend_cfg_write(cfg, c->at, ones, sizeof(ones));
	dlend_cfg_reset(cfg);
	dlend_cfg_read(cfg, c->at, got, sizeof(got));
	KUNIT_EXPECT_MEMEQ(test, got, bytes, sizeof(bytes));
}

static struct kunit_case clique_cases[] = {
	KUNIT_CASE_PARAM(golden, clique_gen_params),
	{}
};

static struct kunit_suite clique_suite = {
	.name = "dlend-clique",
	.test_cases = clique_cases,
};

kunit_test_suite(clique_suite);

MODULE_DESCRIPTION("KUnit suite of the P2P clique capability");
MODULE_LICENSE("GPL");
