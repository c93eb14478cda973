// SPDX-License-Identifier: GPL-2.0
/*
 * Which bits of a lent function's real configuration space a borrower may write and read: pure
 * logic.
 *
 * The rule is that a borrower may write nothing.  COMMAND (memory decoding, bus mastering, INTx),
 * BARs, MSI, MSI-X, power management, link control and everything that decides where a device's
 * accesses go belong to the lender; a borrower asks for changes of these by other messages.  The
 * tables below name the exceptions: a new exception is a new row.
 *
 * Knows no device and no message.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "lender/cfgfilter.h"

/* Numbers of the PCI specifications: not every build of this file has uapi's pci_regs.h. */
#define LEND_R_STATUS		0x06
#define LEND_R_BARS		0x10
#define LEND_R_ROM		0x30
#define LEND_R_CAP_FIRST	0x34
#define LEND_R_HEADER_END	0x40
#define LEND_R_EXT_FIRST	0x100
#define LEND_STATUS_W1C		0xf900	/* parity, target and master aborts, system error */
#define LEND_STATUS_CAPS	0x0010

#define LEND_CAP_PM		0x01
#define LEND_CAP_MSI		0x05
#define LEND_CAP_VENDOR		0x09
#define LEND_CAP_PCIE		0x10
#define LEND_CAP_MSIX		0x11
#define LEND_CAP_EA		0x14

#define LEND_EXT_SRIOV		0x10
#define LEND_SRIOV_BARS		0x24	/* BARs of its virtual functions, as in a header */
#define LEND_BARS_BYTES		24

/*
 * struct lend_cfgfilter_rule - bits that a borrower may write
 * @cap: capability that they are in; 0: the header
 * @at: offset of 16 bits there
 * @mask: which of these bits
 * @w1c: they are cleared by writing 1
 */
struct lend_cfgfilter_rule {
	u8 cap;
	u8 at;
	u16 mask;
	bool w1c;
};

static const struct lend_cfgfilter_rule lend_cfgfilter_rules[] = {
	/* Errors: the driver looks at them and clears them, which harms nobody. */
	{ 0,			LEND_R_STATUS,	LEND_STATUS_W1C,	true },
	/* Device Status: CED..URD */
	{ LEND_CAP_PCIE,	0x0a,		0x000f,			true },
	/* PME_Status: drivers that poll for it clear it.  Not PME_En, and not the power state. */
	{ LEND_CAP_PM,		0x04,		0x8000,			true },
};

/* Capabilities that hold addresses or data of this host: all of their content is hidden. */
static const u8 lend_cfgfilter_hidden_caps[] = { LEND_CAP_MSI, LEND_CAP_EA };

static u16 lend_cfgfilter_get16(const u8 *p)
{
	return p[0] | p[1] << 8;
}

static void lend_cfgfilter_set16(u8 *mask, u32 at, u16 bits)
{
	if (at + 2 > DLEND_CFG_SIZE)
		return;
	mask[at] |= bits & 0xff;
	mask[at + 1] |= bits >> 8;
}

static void lend_cfgfilter_allow(struct lend_cfgfilter *filter, u8 cap, u32 pos)
{
	for (size_t i = 0; i < ARRAY_SIZE(lend_cfgfilter_rules); i++) {
		const struct lend_cfgfilter_rule *rule = &lend_cfgfilter_rules[i];

		if (rule->cap != cap)
			continue;
		lend_cfgfilter_set16(filter->write, pos + rule->at, rule->mask);
		if (rule->w1c)
			lend_cfgfilter_set16(filter->w1c, pos + rule->at, rule->mask);
	}
}

/* Length of a capability in the first 256 bytes; 0: unknown, it may reach up to the next one. */
static u32 lend_cfgfilter_cap_len(const u8 *cfg, u32 pos)
{
	u16 flags = lend_cfgfilter_get16(cfg + pos + 2);

	switch (cfg[pos]) {
	case LEND_CAP_PM:
		return 8;
	case LEND_CAP_VENDOR:
		return cfg[pos + 2];
	case LEND_CAP_MSI:
		/* 64-bit addresses: 4 more; per-vector masking: 10 more. */
		return 10 + (flags & 0x80 ? 4 : 0) + (flags & 0x100 ? 10 : 0);
	case LEND_CAP_PCIE:
		/* The length depends on the version: these are the largest. */
		return (flags & 0xf) > 1 ? 60 : 44;
	case LEND_CAP_MSIX:
		return 12;
	case LEND_CAP_EA:
		/* Entries of at most five words after a header word. */
		return 4 + (cfg[pos + 2] & 0x3f) * 20;
	default:
		return 0;
	}
}

static void lend_cfgfilter_fill(u8 *mask, u32 from, u32 to, u8 value)
{
	if (to > DLEND_CFG_SIZE)
		to = DLEND_CFG_SIZE;
	if (from < to)
		memset(mask + from, value, to - from);
}

/* Hide the addresses in the BARs from @first on; their kind may be seen. */
static void lend_cfgfilter_hide_bars(struct lend_cfgfilter *filter, const u8 *cfg, u32 first)
{
	u32 end = min_t(u32, first + LEND_BARS_BYTES, DLEND_CFG_SIZE);

	for (u32 bar = first; bar < end; bar += 4) {
		bool io = cfg[bar] & 1;
		bool is64 = !io && (cfg[bar] & 6) == 4;

		filter->hide[bar] = io ? 0xfc : 0xf0;
		lend_cfgfilter_fill(filter->hide, bar + 1, bar + 4, 0xff);
		if (is64 && bar + 4 < end) {
			bar += 4;
			lend_cfgfilter_fill(filter->hide, bar, bar + 4, 0xff);
		}
	}
}

static void lend_cfgfilter_header(struct lend_cfgfilter *filter, const u8 *cfg)
{
	lend_cfgfilter_allow(filter, 0, 0);
	lend_cfgfilter_hide_bars(filter, cfg, LEND_R_BARS);
	lend_cfgfilter_fill(filter->hide, LEND_R_ROM + 1, LEND_R_ROM + 4, 0xff);
}

/*
 * A vendor's capability: behind id, next pointer and length are the device's own registers, up to
 * the end of the capability or to the start of another one.
 */
static void lend_cfgfilter_vendor(struct lend_cfgfilter *filter, const u8 *cfg, const u8 *start,
				  u32 pos)
{
	u32 at = pos + 3;
	u32 end = min_t(u32, pos + lend_cfgfilter_cap_len(cfg, pos), LEND_R_EXT_FIRST);

	for (; at < end && !start[at]; at++)
		filter->write[at] = 0xff;
}

/*
 * Bytes that belong to no capability.  A capability of unknown length may reach up to the next one,
 * so only what lies between the end of a capability of known length and the next start is a gap.
 */
static void lend_cfgfilter_gaps(struct lend_cfgfilter *filter, const u8 *cfg, const u8 *start)
{
	bool gap = true;
	u32 end = LEND_R_HEADER_END;

	for (u32 at = LEND_R_HEADER_END; at < LEND_R_EXT_FIRST; at++) {
		if (start[at]) {
			u32 len = lend_cfgfilter_cap_len(cfg, at);

			gap = len != 0;
			end = max_t(u32, end, at + len);
		}
		if (gap && at >= end)
			filter->write[at] = 0xff;
	}
}

/*
 * Allow in a capability only what the tables allow.  This comes last, because the length of a
 * vendor's capability comes from the device, and may reach into another capability.
 */
static void lend_cfgfilter_protect(struct lend_cfgfilter *filter, const u8 *cfg, u32 pos)
{
	u32 len = cfg[pos] == LEND_CAP_VENDOR ? 3 : max_t(u32, lend_cfgfilter_cap_len(cfg, pos), 2);
	u32 end = min_t(u32, pos + len, LEND_R_EXT_FIRST);

	lend_cfgfilter_fill(filter->write, pos, end, 0);
	lend_cfgfilter_allow(filter, cfg[pos], pos);
	for (size_t i = 0; i < ARRAY_SIZE(lend_cfgfilter_hidden_caps); i++)
		if (cfg[pos] == lend_cfgfilter_hidden_caps[i])
			lend_cfgfilter_fill(filter->hide, pos + 4, end, 0xff);
}

/* Mark where capabilities start.  Ends at a loop, and at a pointer into the header. */
static void lend_cfgfilter_walk(const u8 *cfg, u32 size, u8 *start)
{
	u32 pos = 0;

	if (size >= LEND_R_EXT_FIRST &&
	    (lend_cfgfilter_get16(cfg + LEND_R_STATUS) & LEND_STATUS_CAPS))
		pos = cfg[LEND_R_CAP_FIRST] & ~3u;
	while (pos >= LEND_R_HEADER_END && !start[pos]) {
		start[pos] = 1;
		pos = cfg[pos + 1] & ~3u;
	}
}

/*
 * Hide the addresses in the SR-IOV capability.  Extended capabilities start at multiples of 4, so
 * there are no more of them than the loop visits, even if their list is a circle.
 */
static void lend_cfgfilter_extended(struct lend_cfgfilter *filter, const u8 *cfg, u32 size)
{
	u32 pos = LEND_R_EXT_FIRST;

	for (u32 n = 0; n < DLEND_CFG_SIZE / 4 && pos >= LEND_R_EXT_FIRST && pos + 4 <= size; n++) {
		if (lend_cfgfilter_get16(cfg + pos) == LEND_EXT_SRIOV)
			lend_cfgfilter_hide_bars(filter, cfg, pos + LEND_SRIOV_BARS);
		pos = lend_cfgfilter_get16(cfg + pos + 2) >> 4 & ~3u;
	}
}

/* All extended capabilities (AER, SR-IOV, ACS, resizable BAR and so on) belong to the lender. */
void lend_cfgfilter_init(struct lend_cfgfilter *filter, const u8 *cfg, u32 size,
			 bool device_specific)
{
	u8 start[LEND_R_EXT_FIRST] = { 0 };
	u32 pos;

	memset(filter, 0, sizeof(*filter));
	lend_cfgfilter_header(filter, cfg);
	lend_cfgfilter_extended(filter, cfg, size);
	lend_cfgfilter_walk(cfg, size, start);
	for (pos = LEND_R_HEADER_END; pos < LEND_R_EXT_FIRST; pos++)
		if (start[pos] && cfg[pos] == LEND_CAP_VENDOR)
			lend_cfgfilter_vendor(filter, cfg, start, pos);
	if (device_specific)
		lend_cfgfilter_gaps(filter, cfg, start);
	for (pos = LEND_R_HEADER_END; pos < LEND_R_EXT_FIRST; pos++)
		if (start[pos])
			lend_cfgfilter_protect(filter, cfg, pos);
}

static bool lend_cfgfilter_good_access(u32 offset, u32 size)
{
	return (size == 1 || size == 2 || size == 4) && !(offset % size) &&
	       offset <= DLEND_CFG_SIZE - size;
}

static u32 lend_cfgfilter_mask(const u8 *mask, u32 offset, u32 size)
{
	u32 value = 0;

	for (u32 i = 0; i < size; i++)
		value |= (u32)mask[offset + i] << (8 * i);
	return value;
}

u32 lend_cfgfilter_writable(const struct lend_cfgfilter *filter, u32 offset, u32 size)
{
	if (!lend_cfgfilter_good_access(offset, size))
		return 0;
	return lend_cfgfilter_mask(filter->write, offset, size);
}

u32 lend_cfgfilter_merge(const struct lend_cfgfilter *filter, u32 offset, u32 size, u32 old,
			 u32 value)
{
	u32 write = lend_cfgfilter_writable(filter, offset, size);
	u32 merged;

	if (!write)
		return old;
	merged = (old & ~write) | (value & write);
	/* A write-one-to-clear bit that the borrower did not set must go out as 0. */
	merged &= ~lend_cfgfilter_mask(filter->w1c, offset, size) | value;
	return merged;
}

u32 lend_cfgfilter_show(const struct lend_cfgfilter *filter, u32 offset, u32 size, u32 value)
{
	if (!lend_cfgfilter_good_access(offset, size))
		return ~0u;
	return value & ~lend_cfgfilter_mask(filter->hide, offset, size);
}
