// SPDX-License-Identifier: GPL-2.0
/*
 * The lender's filter under fuzz: any configuration space that a device may have.  What a borrower
 * must never write is written here again, apart from the code under test; and what it may write has
 * to be exactly what its own side takes for the device's own (dlend_cfg_live()).
 */

#include <errno.h>
#include <linux/kernel.h>
#include <linux/unaligned.h>
#include <dlend/cfg.h>

#include "lender/cfgfilter.h"
#include "fuzz.h"

static bool raw(const struct lend_cfgfilter *filter, u32 at)
{
	return lend_cfgfilter_action(filter, at, 1) == LEND_CFG_RAW;
}

/* Ids, COMMAND, BARs and all the rest; no address is to be seen. */
static void header_holds(const struct lend_cfgfilter *filter, const u8 *cfg)
{
	for (u32 at = 0; at < 0x40; at++)
		MUST(!raw(filter, at));
	for (u32 at = 0x10; at < 0x28; at += 4) {
		u32 seen = lend_cfgfilter_mask_read(filter, at, 4, get_unaligned_le32(cfg + at));

		MUST(!(seen & ~0xfu));
	}
}

/* No header of a listed capability, and nothing that says where a device's accesses go. */
static void lists_hold(const struct lend_cfgfilter *filter, const u8 *cfg)
{
	u32 pos = cfg[6] & 0x10 ? cfg[0x34] & 0xfc : 0;

	for (u32 steps = 0; pos >= 0x40 && cfg[pos] != 0xff && steps < 48; steps++) {
		MUST(!raw(filter, pos) && !raw(filter, pos + 1));
		if (cfg[pos] == 0x05 || cfg[pos] == 0x11)
			for (u32 at = pos; at < pos + 10 && at < 0x100; at++)
				MUST(!raw(filter, at));
		pos = cfg[pos + 1] & 0xfc;
	}
	for (u32 at = 0x100; at < 0x104; at++)
		MUST(!raw(filter, at));
	pos = 0x100;
	for (u32 steps = 0; pos >= 0x100 && steps < 960; steps++) {
		u32 head = get_unaligned_le32(cfg + pos);

		if (!head || head == ~0u)
			break;
		for (u32 at = pos; at < pos + 4; at++)
			MUST(!raw(filter, at));
		/* ATS, SR-IOV, PASID: control registers. */
		if ((head & 0xffff) == 0x0f || (head & 0xffff) == 0x10 || (head & 0xffff) == 0x1b)
			for (u32 at = pos; at < pos + 8 && at < DLEND_CFG_SIZE; at++)
				MUST(!raw(filter, at));
		pos = head >> 20 & 0xffc;
	}
}

/* Both ways: from what a borrower is told, it learns what the lender lets it write. */
static void sides_agree(const struct lend_cfgfilter *filter, u8 *snap)
{
	static struct dlend_cfg cfg;
	struct dlend_cfg_desc desc = { .snapshot = snap, .clique = DLEND_CFG_CLIQUE_NONE };

	for (u32 at = 0; at < DLEND_CFG_SIZE; at++)
		snap[at] &= ~filter->hide[at];
	if (dlend_cfg_init(&cfg, &desc))
		return;
	for (u32 at = 0; at < DLEND_CFG_SIZE; at++)
		MUST(raw(filter, at) == !!dlend_cfg_live(&cfg, at, 1));
	MUST(!cfg.vpd_pos || cfg.vpd_pos == filter->vpd);
}

static void one_write(struct input *in, const struct lend_cfgfilter *filter)
{
	u32 at = take_u32(in), size = take_u8(in) & 7, value = take_u32(in);
	enum lend_cfgfilter_action action;
	u32 own = 0;

	at = size & 1 || at & 0x80000000 ? at : at & 0xfff;
	action = lend_cfgfilter_action(filter, at, size);
	if ((size != 1 && size != 2 && size != 4) || at % size || at > DLEND_CFG_SIZE - size) {
		MUST(action == LEND_CFG_REFUSED);
		MUST(lend_cfgfilter_mask_read(filter, at, size, value) == ~0u);
		return;
	}
	for (u32 i = 0; i < size; i++)
		own += raw(filter, at + i);
	MUST((action == LEND_CFG_RAW) == (own == size));
	if (action == LEND_CFG_VPD_ADDR)
		MUST(filter->vpd >= 0x40 && at == filter->vpd + 2u && size == 2);
	if (action == LEND_CFG_VPD_DATA)
		MUST(filter->vpd >= 0x40 && at == filter->vpd + 4u && size == 4);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct lend_cfgfilter filter;
	struct input in = { data, size };
	/* Allocated by itself, so that a sanitizer sees a byte beyond. */
	u8 *cfg = malloc(DLEND_CFG_SIZE), flags = take_u8(&in);
	u32 bytes = flags & 1 ? 256 : DLEND_CFG_SIZE;

	memset(cfg, take_u8(&in), DLEND_CFG_SIZE);
	/* Pieces, so that small inputs reach far. */
	take(&in, cfg, 0x40);
	while (take_u8(&in) & 1) {
		u16 at = take_u32(&in) & 0xfff;

		take(&in, cfg + at, min_t(u32, take_u8(&in), DLEND_CFG_SIZE - at));
	}
	memset(cfg + bytes, 0xff, DLEND_CFG_SIZE - bytes);
	lend_cfgfilter_init(&filter, cfg, flags & 2);
	header_holds(&filter, cfg);
	lists_hold(&filter, cfg);
	for (u32 at = bytes; at < DLEND_CFG_SIZE; at++)
		MUST(!raw(&filter, at));
	if (flags & 2)
		sides_agree(&filter, cfg);
	while (in.left)
		one_write(&in, &filter);
	free(cfg);
	return 0;
}

/* A piece of the input: bytes that go to @at. */
static u8 *piece(u8 *p, u32 at, const void *bytes, u8 len)
{
	*p++ = 1;
	put_unaligned_le32(at, p);
	p[4] = len;
	memcpy(p + 5, bytes, len);
	return p + 5 + len;
}

/* A device with what there is to protect and to pass on. @vendor: length of its own capability. */
static void seed_device(const char *name, u8 vendor, u8 flags)
{
	static const struct {
		u8 at, head[4];
	} std[] = {
		{ 0x40, { 0x01, 0x50, 0x03, 0x06 } }, { 0x50, { 0x05, 0x70, 0x8a, 0x01 } },
		{ 0x70, { 0x10, 0xac, 0x02, 0x00 } }, { 0xb0, { 0x03, 0xc4, 0x00, 0x00 } },
		{ 0xc4, { 0x11, 0xd0, 0x1f, 0x00 } }, { 0xd0, { 0x13, 0x00, 0x06, 0x03 } },
	};
	static const struct {
		u16 at;
		u32 head[2];
	} ext[] = {
		{ 0x100, { 0x14010001, 0 } }, { 0x140, { 0x1801000b, 0x02010042 } },
		{ 0x180, { 0x1a010010, 0 } }, { 0x1a0, { 0x1c010023, 0x01801e98 } },
		{ 0x1c0, { 0x20010023, 0x01808086 } }, { 0x200, { 0x30010055, 0 } },
		{ 0x300, { 0x0001000f, 0 } },
	};
	u8 file[512] = { flags }, *p = file + 2, *header = p;
	unsigned int i;

	put_unaligned_le32(0x00101b36, header);
	header[6] = 0x10;
	put_unaligned_le32(0xfebf000c, header + 0x10);
	header[0x34] = 0x40;
	p += 0x40;
	for (i = 0; i < ARRAY_SIZE(std); i++)
		p = piece(p, std[i].at, std[i].head, 4);
	p = piece(p, 0xac, ((u8[]){ 0x09, 0xb0, vendor, 0x11 }), 4);
	for (i = 0; i < ARRAY_SIZE(ext); i++)
		p = piece(p, ext[i].at, ext[i].head, 8);
	*p++ = 0;
	/* Device-specific, VPD, STATUS. */
	memcpy(p, "\xaf\0\0\0\x01\xff\xff\xff\xff\xb2\0\0\x80\x02\x10\0\0\0"
		  "\x06\0\0\x80\x02\0\xff\0\0", 27);
	p += 27;
	seed(name, file, p - file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	seed_device("device", 4, 2);
	seed_device("long", 0xff, 2);
	seed_device("short", 4, 3);
	return 0;
}
