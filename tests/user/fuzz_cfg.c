// SPDX-License-Identifier: GPL-2.0
/*
 * Configuration space under fuzz: any snapshot, any description, any sequence of accesses.  The
 * sanitizers see reads outside; this file checks what a guest must never see.
 */

#include <errno.h>
#include <linux/kernel.h>
#include <linux/unaligned.h>
#include <dlend/cfg.h>

#include "fuzz.h"

/* Ids that a guest may see; written here again, apart from the tables under test. */
static bool std_visible(u8 id)
{
	return id == 0x01 || id == 0x03 || id == 0x05 || id == 0x09 || id == 0x10 || id == 0x11 ||
	       id == 0x13;
}

static bool ext_visible(u16 id)
{
	switch (id) {
	case 0x01: case 0x03: case 0x04: case 0x0b: case 0x19:
	case 0x23: case 0x25: case 0x26: case 0x2a: case 0x31:
		return true;
	}
	return false;
}

static u32 rd(const struct dlend_cfg *cfg, u32 at, u32 len)
{
	u8 buf[4] = { };

	dlend_cfg_read(cfg, at, buf, len);
	return get_unaligned_le32(buf);
}

static void lists_hold(const struct dlend_cfg *cfg)
{
	u32 pos = rd(cfg, 0x34, 1), last = 0, steps;

	MUST(!pos == !(rd(cfg, 0x06, 2) & 0x10));
	for (steps = 0; pos; steps++) {
		MUST(steps < 48 && pos >= 0x40 && !(pos & 3));
		MUST(std_visible(rd(cfg, pos, 1)));
		last = pos;
		pos = rd(cfg, pos + 1, 1);
	}
	if (cfg->clique_pos)
		MUST(last == cfg->clique_pos && rd(cfg, last, 4) == 0x50080009 &&
		     rd(cfg, last + 4, 2) == 0x5032);
	pos = 0x100;
	for (steps = 0; pos; steps++) {
		u32 head = rd(cfg, pos, 4);

		MUST(steps <= 960 && pos >= 0x100 && !(pos & 3));
		/* Only the start may hold nothing at all, or nothing but a pointer. */
		if (pos == 0x100 && !(head & 0xfffff))
			MUST(!head || head >> 20 > 0x100);
		else
			MUST(ext_visible(head & 0xffff));
		pos = head >> 20;
	}
}

static void bars_hold(const struct dlend_cfg *cfg, const struct dlend_cfg_desc *desc)
{
	unsigned int i;

	for (i = 0; i < DLEND_NUM_BARS; i++) {
		const struct dlend_cfg_bar *bar = &desc->bar[i];
		u64 v = rd(cfg, 0x10 + 4 * i, 4);

		if (i && desc->bar[i - 1].is64 && desc->bar[i - 1].size && !desc->bar[i - 1].io)
			continue;	/* an upper half */
		if (!bar->size || bar->io) {
			MUST(!v);
			continue;
		}
		if (bar->is64)
			v |= (u64)rd(cfg, 0x14 + 4 * i, 4) << 32;
		MUST((v & (bar->size - 1)) == (bar->is64 ? 4u : 0u) + (bar->prefetch ? 8u : 0u));
		MUST(dlend_cfg_bar_addr(cfg, i) == (v & ~0xfULL));
	}
	MUST(!(rd(cfg, 0x30, 4) & (desc->bar[6].size ? desc->bar[6].size - 2 : ~0u)));
}

static void interrupts_hold(const struct dlend_cfg *cfg, const struct dlend_cfg_desc *desc)
{
	struct dlend_cfg_part part;
	int pba;

	MUST(dlend_cfg_msi(cfg) <= 32 && dlend_cfg_msix(cfg) <= DLEND_MAX_VECTORS);
	MUST(!desc->max_msi || dlend_cfg_msi(cfg) <= desc->max_msi);
	MUST(!desc->max_msix || dlend_cfg_msix(cfg) <= desc->max_msix);
	for (pba = 0; pba < 2; pba++) {
		bool there = dlend_cfg_msix_range(cfg, pba, &part);

		MUST(there == !!dlend_cfg_msix(cfg));
		if (there)
			MUST(part.bar < 6 && !desc->bar[part.bar].io &&
			     (u64)part.offset + part.size <= desc->bar[part.bar].size);
	}
}

/* What is the device's own shows what it had, and nothing here changes that. */
static void live_holds(const struct dlend_cfg *cfg, const u8 *snap)
{
	for (u32 at = 0; at < DLEND_CFG_SIZE; at++) {
		u32 piece = dlend_cfg_live(cfg, at, 8);

		MUST(piece <= 4 && piece != 3 && (!piece || !(at % piece)));
		MUST(!piece == !dlend_cfg_live(cfg, at, 1));
		if (!piece)
			continue;
		MUST(at >= 0x40 && (at < 0x100 || cfg->pcie_pos));
		MUST(!cfg->wmask[at] && !cfg->w1c[at] && cfg->val[at] == snap[at]);
		MUST(!cfg->clique_pos || at < cfg->clique_pos || at >= cfg->clique_pos + 8u);
	}
	for (u32 at = rd(cfg, 0x34, 1); at; at = rd(cfg, at + 1, 1))
		MUST(!dlend_cfg_live(cfg, at, 1) && !dlend_cfg_live(cfg, at + 1, 1));
}

/* A word of VPD is moved, or is not, as with a device that does not answer. */
static void move_word(struct dlend_cfg *cfg, bool answers)
{
	u32 data, reg = cfg->vpd_pos + 2;
	u16 addr = dlend_cfg_vpd(cfg, &data);

	MUST(cfg->vpd_pos && addr == rd(cfg, reg, 2) && data == rd(cfg, reg + 2, 4));
	if (!answers)
		return;
	dlend_cfg_vpd_done(cfg, addr, ~data);
	MUST((rd(cfg, reg, 2) ^ addr) == 0x8000);
	MUST(rd(cfg, reg + 2, 4) == (addr & 0x8000 ? data : ~data));
}

static void describe(struct input *in, struct dlend_cfg_desc *desc)
{
	unsigned int i;
	u8 order, flags;

	for (i = 0; i < DLEND_NUM_REGIONS; i++) {
		order = take_u8(in);
		flags = take_u8(in);
		desc->bar[i].size = order & 0x40 ? 1ULL << (order & 0x3f) : 0;
		desc->bar[i].io = flags & 1;
		desc->bar[i].is64 = flags & 2;
		desc->bar[i].prefetch = flags & 4;
	}
	desc->vendor = 0x10de;
	desc->device = take_u8(in) << 8;
	flags = take_u8(in);
	desc->is_vf = flags & 1;
	desc->add_reset = flags & 2;
	desc->clique = (s8)take_u8(in);
	desc->max_msi = take_u8(in);
	desc->max_msix = take_u8(in) << 4;
}

/* Is everything as after a reset, but for BARs, which stay? */
static bool is_reset(const struct dlend_cfg *cfg)
{
	return !memcmp(cfg->val, cfg->reset_val, 0x10) &&
	       !memcmp(cfg->val + 0x34, cfg->reset_val + 0x34, sizeof(cfg->val) - 0x34);
}

static bool same_outside(const u8 *was, const u8 *is, u32 at, u32 len)
{
	for (u32 i = 0; i < DLEND_CFG_SIZE; i++)
		if (was[i] != is[i] && (i < at || i - at >= len))
			return false;
	return true;
}

static void one_access(struct input *in, struct dlend_cfg *cfg)
{
	static u8 was[DLEND_CFG_SIZE];
	u32 at = take_u8(in), op = take_u8(in), len = op & 0xf, effects;
	/* In its exact size, so that a sanitizer sees a byte beyond. */
	u8 *buf = malloc(len ? len : 1);
	u16 before;

	at |= (op & 0x70) << 4;
	if (op & 0x80)
		at = take_u32(in) % 5000;
	take(in, buf, len);
	before = rd(cfg, 4, 2);
	memcpy(was, cfg->val, sizeof(was));
	effects = dlend_cfg_write(cfg, at, buf, len);
	if (effects & DLEND_CFG_E_BME_ON)
		MUST(!(before & 4) && dlend_cfg_bme(cfg));
	if (effects & DLEND_CFG_E_MSE_OFF)
		MUST(before & 2 && !dlend_cfg_mse(cfg));
	/* Back from D3hot, bytes that were not written are unchanged, or it was a reset, too. */
	if (effects & DLEND_CFG_E_FLR)
		MUST(is_reset(cfg) ||
		     (effects & DLEND_CFG_E_D0 && same_outside(was, cfg->val, at, len)));
	if (effects & DLEND_CFG_E_VPD)
		move_word(cfg, len & 1);
	dlend_cfg_read(cfg, at, buf, len);
	free(buf);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct dlend_cfg cfg;
	struct input in = { data, size };
	struct dlend_cfg_desc desc = { };
	u8 *snap = malloc(DLEND_CFG_SIZE);
	u16 at, len;
	int ret;

	describe(&in, &desc);
	memset(snap, take_u8(&in), DLEND_CFG_SIZE);
	/* Pieces of a snapshot, so that small inputs reach far. */
	take(&in, snap, 0x40);
	while (take_u8(&in) & 1) {
		at = take_u32(&in) & 0xfff;
		len = min_t(u32, take_u8(&in), DLEND_CFG_SIZE - at);
		take(&in, snap + at, len);
	}
	desc.snapshot = snap;
	ret = dlend_cfg_init(&cfg, &desc);
	MUST(ret == 0 || ret == -EINVAL || ret == -ENOSPC || ret == -ELOOP);
	if (ret == -EINVAL) {
		free(snap);
		return 0;
	}
	MUST(!!cfg.clique_pos == (desc.clique >= 0 && !ret));
	lists_hold(&cfg);
	interrupts_hold(&cfg, &desc);
	while (in.left)
		one_access(&in, &cfg);
	lists_hold(&cfg);
	bars_hold(&cfg, &desc);
	interrupts_hold(&cfg, &desc);
	live_holds(&cfg, snap);
	free(snap);
	return 0;
}

/*
 * A device with all capabilities that are shown, and some that are not; @last is where the last
 * extended one lies.
 */
static void seed_device(const char *name, u32 last)
{
	static const struct {
		u8 at, id, next;
		u16 flags;
	} caps[] = {
		{ 0x40, 0x01, 0x50, 0x0603 }, { 0x50, 0x05, 0x70, 0x018a },
		{ 0x70, 0x10, 0xac, 0x0002 }, { 0xac, 0x09, 0xbc, 0x0010 },
		{ 0xbc, 0x03, 0xc4, 0 }, { 0xc4, 0x11, 0xd0, 0x001f }, { 0xd0, 0x13, 0, 0x0306 },
	};
	static const u16 ext[] = { 0x02, 0x01, 0x0f, 0x03, 0x0b, 0x10, 0x55, 0x19, 0x23 };
	u8 file[2048] = { }, *p = file;
	unsigned int i;

	for (i = 0; i < DLEND_NUM_REGIONS; i++) {
		*p++ = i % 2 ? 0 : 0x40 | 16;
		*p++ = i % 2 || i == 6 ? 0 : 2;
	}
	*p++ = 0x22;
	*p++ = 0;
	*p++ = 3;
	*p++ = 0;
	put_unaligned_le32(0x220410de, p);
	p[6] = 0x10;
	p[0x34] = 0x40;
	p += 0x40;
	for (i = 0; i < ARRAY_SIZE(caps); i++) {
		*p++ = 1;
		put_unaligned_le32(caps[i].at, p);
		p[4] = 8;
		p[5] = caps[i].id;
		p[6] = caps[i].next;
		put_unaligned_le16(caps[i].flags, p + 7);
		p += 13;
	}
	for (i = 0; i < ARRAY_SIZE(ext); i++) {
		u32 at = i + 1 < ARRAY_SIZE(ext) ? 0x100 + 0x40 * i : last;
		u32 next = i + 2 < ARRAY_SIZE(ext) ? at + 0x40 : last;

		if (at == last)
			next = 0;
		*p++ = 1;
		put_unaligned_le32(at, p);
		p[4] = min(8u, DLEND_CFG_SIZE - at);
		put_unaligned_le32(ext[i] | 1 << 16 | next << 20, p + 5);
		put_unaligned_le32(0x02000001, p + 9);
		p += 5 + p[4];
	}
	*p++ = 0;
	/* COMMAND, then function reset. */
	memcpy(p, "\x04\x02\x06\x00\x78\x02\x00\x80\x10\x04\xff\xff\xff\xff", 14);
	p += 14;
	seed(name, file, p - file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	seed_device("device", 0x300);
	seed_device("at-the-end", 0xffc);
	return 0;
}
