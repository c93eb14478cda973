// SPDX-License-Identifier: GPL-2.0
/*
 * Which bits of a lent function's real configuration space a borrower may write and read: pure
 * logic.
 *
 * The rule is that a borrower may write nothing.  COMMAND (memory decoding, bus mastering, INTx),
 * BARs, MSI, MSI-X, power management, link control and everything that decides where a device's
 * accesses go belong to the lender; a borrower asks for changes of these by other messages.  Two
 * exceptions: the bits that the table below names, and what is the device's own.  That is what
 * vfio-pci passes on as it is: vendor-specific capabilities, and bytes that are in no capability.
 * The lender is narrower than vfio-pci in this: headers stay, and so does the start of the extended
 * list; CXL's registers and a clique capability of this host stay; and a hidden or unknown
 * capability is not "no capability".
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
#define LEND_CAP_AGP		0x02
#define LEND_CAP_VPD		0x03
#define LEND_CAP_SLOT		0x04
#define LEND_CAP_MSI		0x05
#define LEND_CAP_HOTSWAP	0x06
#define LEND_CAP_PCIX		0x07
#define LEND_CAP_VENDOR		0x09
#define LEND_CAP_DEBUG		0x0a
#define LEND_CAP_HOTPLUG	0x0c
#define LEND_CAP_SUBSYSTEM	0x0d
#define LEND_CAP_AGP3		0x0e
#define LEND_CAP_PCIE		0x10
#define LEND_CAP_MSIX		0x11
#define LEND_CAP_AF		0x13
#define LEND_CAP_EA		0x14
#define LEND_CAP_NOTHING	0xff	/* nobody answers */

#define LEND_VPD_ADDR		2
#define LEND_VPD_DATA		4
#define LEND_VPD_LEN		8

#define LEND_EXT_AER		0x01
#define LEND_EXT_SERIAL		0x03
#define LEND_EXT_VENDOR		0x0b
#define LEND_EXT_ARI		0x0e
#define LEND_EXT_ATS		0x0f
#define LEND_EXT_SRIOV		0x10
#define LEND_EXT_PRI		0x13
#define LEND_EXT_LTR		0x18
#define LEND_EXT_PASID		0x1b
#define LEND_EXT_DVSEC		0x23
#define LEND_EXT_DLF		0x25
#define LEND_SRIOV_BARS		0x24	/* BARs of its virtual functions, as in a header */
#define LEND_BARS_BYTES		24

#define LEND_VENDOR_HEAD	3	/* id, next pointer, length */
#define LEND_EXT_VENDOR_HEAD	8	/* its header, and the vendor's */
#define LEND_DVSEC_HEAD		10	/* and one more */
#define LEND_CXL		0x1e98	/* owner of CXL's DVSECs */

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

static u32 lend_cfgfilter_end_of(u32 pos)
{
	return pos < LEND_R_EXT_FIRST ? LEND_R_EXT_FIRST : DLEND_CFG_SIZE;
}

static void lend_cfgfilter_set16(u8 *mask, u32 at, u16 bits)
{
	mask[at] |= bits & 0xff;
	mask[at + 1] |= bits >> 8;
}

static void lend_cfgfilter_allow(struct lend_cfgfilter *filter, u8 cap, u32 pos)
{
	for (size_t i = 0; i < ARRAY_SIZE(lend_cfgfilter_rules); i++) {
		const struct lend_cfgfilter_rule *rule = &lend_cfgfilter_rules[i];

		if (rule->cap != cap || pos + rule->at + 2 > lend_cfgfilter_end_of(pos))
			continue;
		lend_cfgfilter_set16(filter->write, pos + rule->at, rule->mask);
		if (rule->w1c)
			lend_cfgfilter_set16(filter->w1c, pos + rule->at, rule->mask);
	}
}

/*
 * struct lend_cfgfilter_scan - configuration space, and where the listed capabilities start
 * @cfg: all of it
 * @size: bytes that the function has
 * @start: a bit for each word of 32 bits
 * @std_broken: the list does not end as it should, @ext_broken: nor does the extended one
 * @pcie: the PCI Express capability is listed
 */
struct lend_cfgfilter_scan {
	const u8 *cfg;
	u32 size;
	u32 start[DLEND_CFG_SIZE / 4 / 32];
	bool std_broken, ext_broken, pcie;
};

static bool lend_cfgfilter_starts(const struct lend_cfgfilter_scan *scan, u32 pos)
{
	return scan->start[pos / 128] & 1u << (pos / 4 % 32);
}

static void lend_cfgfilter_set_start(struct lend_cfgfilter_scan *scan, u32 pos)
{
	scan->start[pos / 128] |= 1u << (pos / 4 % 32);
}

/* Where the next capability starts, or the space ends. */
static u32 lend_cfgfilter_next(const struct lend_cfgfilter_scan *scan, u32 pos)
{
	u32 end = lend_cfgfilter_end_of(pos);

	for (pos += 4; pos < end; pos += 4)
		if (lend_cfgfilter_starts(scan, pos))
			break;
	return pos;
}

/* Length of a capability in the first 256 bytes; 0: unknown, it may reach up to the next one. */
static u32 lend_cfgfilter_std_len(const u8 *cfg, u32 pos)
{
	static const u8 fixed[] = {
		[LEND_CAP_PM] = 8, [LEND_CAP_AGP] = 12, [LEND_CAP_VPD] = LEND_VPD_LEN,
		[LEND_CAP_SLOT] = 4, [LEND_CAP_HOTSWAP] = 4, [LEND_CAP_DEBUG] = 4,
		[LEND_CAP_HOTPLUG] = 8, [LEND_CAP_SUBSYSTEM] = 8, [LEND_CAP_AGP3] = 12,
		[LEND_CAP_MSIX] = 12, [LEND_CAP_AF] = 6,
	};
	u16 flags = lend_cfgfilter_get16(cfg + pos + 2);

	switch (cfg[pos]) {
	case LEND_CAP_VENDOR:
		return cfg[pos + 2] < LEND_VENDOR_HEAD ? 0 : cfg[pos + 2];
	case LEND_CAP_MSI:
		/* 64-bit addresses: 4 more; per-vector masking: 10 more. */
		return 10 + (flags & 0x80 ? 4 : 0) + (flags & 0x100 ? 10 : 0);
	case LEND_CAP_PCIE:
		/* Version 1 ends behind the link's registers, of an integrated endpoint before. */
		if ((flags & 0xf) > 1)
			return 60;
		return (flags >> 4 & 0xf) == 9 ? 12 : 20;
	case LEND_CAP_PCIX:
		return flags & 0x3000 ? 24 : 8;
	case LEND_CAP_EA:
		/* After a header word, entries of at most eight words, as far as they can tell. */
		return 4 + (cfg[pos + 2] & 0x3f) * 32;
	default:
		return cfg[pos] < ARRAY_SIZE(fixed) ? fixed[cfg[pos]] : 0;
	}
}

/* The same for an extended one. */
static u32 lend_cfgfilter_ext_len(const u8 *cfg, u32 pos)
{
	static const u8 fixed[] = {
		[LEND_EXT_AER] = 0x48, [LEND_EXT_SERIAL] = 12, [LEND_EXT_ARI] = 8,
		[LEND_EXT_ATS] = 8, [LEND_EXT_SRIOV] = 0x40, [LEND_EXT_PRI] = 16,
		[LEND_EXT_LTR] = 8, [LEND_EXT_PASID] = 8, [LEND_EXT_DLF] = 12,
	};
	u16 id = lend_cfgfilter_get16(cfg + pos);
	u32 head = id == LEND_EXT_DVSEC ? LEND_DVSEC_HEAD : LEND_EXT_VENDOR_HEAD, len;

	if (id != LEND_EXT_VENDOR && id != LEND_EXT_DVSEC)
		return id < ARRAY_SIZE(fixed) ? fixed[id] : 0;
	/* It may stand in the last word. */
	if (pos + head > DLEND_CFG_SIZE)
		return 0;
	len = lend_cfgfilter_get16(cfg + pos + 6) >> 4;
	return len < head ? 0 : len;
}

static u32 lend_cfgfilter_cap_len(const u8 *cfg, u32 pos)
{
	return pos < LEND_R_EXT_FIRST ? lend_cfgfilter_std_len(cfg, pos) :
					lend_cfgfilter_ext_len(cfg, pos);
}

/* A P2P clique capability: this host is a guest itself, and that was for its own devices. */
static bool lend_cfgfilter_is_clique(const u8 *cfg, u32 pos)
{
	static const u8 sign[] = { 8, 'P', '2', 'P' };

	return !memcmp(cfg + pos + 2, sign, sizeof(sign));
}

/*
 * Bytes of the header of a vendor-specific capability, behind which it is the device's own; 0: it
 * is not one that a borrower may write to.
 */
static u32 lend_cfgfilter_vendor_head(const u8 *cfg, u32 pos)
{
	if (!lend_cfgfilter_cap_len(cfg, pos))
		return 0;
	if (pos < LEND_R_EXT_FIRST) {
		if (cfg[pos] != LEND_CAP_VENDOR || lend_cfgfilter_is_clique(cfg, pos))
			return 0;
		return LEND_VENDOR_HEAD;
	}
	switch (lend_cfgfilter_get16(cfg + pos)) {
	case LEND_EXT_VENDOR:
		return LEND_EXT_VENDOR_HEAD;
	case LEND_EXT_DVSEC:
		return lend_cfgfilter_get16(cfg + pos + 4) == LEND_CXL ? 0 : LEND_DVSEC_HEAD;
	}
	return 0;
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
 * Bytes that belong to no capability: at first all behind the header.  Where a list is broken
 * nobody knows which those are.  Where the extended list begins is no register, also if the list is
 * empty: nobody forges one for this host's kernel.
 */
static void lend_cfgfilter_gaps(struct lend_cfgfilter *filter,
				const struct lend_cfgfilter_scan *scan)
{
	if (!scan->std_broken)
		lend_cfgfilter_fill(filter->write, LEND_R_HEADER_END, LEND_R_EXT_FIRST, 0xff);
	if (scan->size > LEND_R_EXT_FIRST && scan->pcie && !scan->ext_broken)
		lend_cfgfilter_fill(filter->write, LEND_R_EXT_FIRST + 4, scan->size, 0xff);
}

/* A vendor's capability: up to its end, or to the start of another one. */
static void lend_cfgfilter_vendor(struct lend_cfgfilter *filter,
				  const struct lend_cfgfilter_scan *scan, u32 pos)
{
	u32 head = lend_cfgfilter_vendor_head(scan->cfg, pos);
	u32 end = min(pos + lend_cfgfilter_cap_len(scan->cfg, pos),
		      lend_cfgfilter_next(scan, pos));

	if (head)
		lend_cfgfilter_fill(filter->write, pos + head, end, 0xff);
}

/*
 * Allow in a capability only what the tables allow.  This comes last, because the length of a
 * vendor's capability comes from the device, and may reach into another capability.
 */
static void lend_cfgfilter_protect(struct lend_cfgfilter *filter,
				   const struct lend_cfgfilter_scan *scan, u32 pos)
{
	u32 next = lend_cfgfilter_next(scan, pos);
	u32 len = lend_cfgfilter_vendor_head(scan->cfg, pos) ?:
		  lend_cfgfilter_cap_len(scan->cfg, pos) ?: next - pos;
	u32 end = min(pos + len, lend_cfgfilter_end_of(pos));

	lend_cfgfilter_fill(filter->write, pos, end, 0);
	if (pos >= LEND_R_EXT_FIRST)
		return;
	lend_cfgfilter_allow(filter, scan->cfg[pos], pos);
	for (size_t i = 0; i < ARRAY_SIZE(lend_cfgfilter_hidden_caps); i++)
		if (scan->cfg[pos] == lend_cfgfilter_hidden_caps[i])
			lend_cfgfilter_fill(filter->hide, pos + 4, end, 0xff);
	if (scan->cfg[pos] == LEND_CAP_VPD && !filter->vpd && next - pos >= LEND_VPD_LEN)
		filter->vpd = pos;
}

/* Mark where capabilities start.  Ends at a loop, and at a pointer into the header. */
static void lend_cfgfilter_walk(struct lend_cfgfilter_scan *scan)
{
	const u8 *cfg = scan->cfg;
	u32 pos = 0;

	if (lend_cfgfilter_get16(cfg + LEND_R_STATUS) & LEND_STATUS_CAPS)
		pos = cfg[LEND_R_CAP_FIRST] & ~3u;
	while (pos >= LEND_R_HEADER_END) {
		if (lend_cfgfilter_starts(scan, pos) || cfg[pos] == LEND_CAP_NOTHING) {
			scan->std_broken = true;
			break;
		}
		lend_cfgfilter_set_start(scan, pos);
		scan->pcie |= cfg[pos] == LEND_CAP_PCIE;
		pos = cfg[pos + 1] & ~3u;
	}
}

/* The same for extended ones; of SR-IOV hide the addresses. */
static void lend_cfgfilter_walk_extended(struct lend_cfgfilter *filter,
					 struct lend_cfgfilter_scan *scan)
{
	const u8 *cfg = scan->cfg;
	u32 pos = LEND_R_EXT_FIRST;

	while (pos >= LEND_R_EXT_FIRST && pos + 4 <= scan->size) {
		u16 id = lend_cfgfilter_get16(cfg + pos);
		u16 rest = lend_cfgfilter_get16(cfg + pos + 2);

		/* A header of 0 is the end, too: so an empty list begins. */
		if (!id && !rest)
			break;
		if (lend_cfgfilter_starts(scan, pos) || (id == 0xffff && rest == 0xffff)) {
			scan->ext_broken = true;
			break;
		}
		lend_cfgfilter_set_start(scan, pos);
		if (id == LEND_EXT_SRIOV)
			lend_cfgfilter_hide_bars(filter, cfg, pos + LEND_SRIOV_BARS);
		pos = rest >> 4 & ~3u;
	}
}

/*
 * Extended capabilities (AER, SR-IOV, ACS, resizable BAR and so on) belong to the lender, but for
 * vendor-specific ones.
 */
void lend_cfgfilter_init(struct lend_cfgfilter *filter, const u8 *cfg, u32 size,
			 bool device_specific)
{
	struct lend_cfgfilter_scan scan = { .cfg = cfg, .size = size };
	u32 pos;

	memset(filter, 0, sizeof(*filter));
	lend_cfgfilter_header(filter, cfg);
	lend_cfgfilter_walk(&scan);
	lend_cfgfilter_walk_extended(filter, &scan);
	if (device_specific)
		lend_cfgfilter_gaps(filter, &scan);
	for (pos = LEND_R_HEADER_END; pos < DLEND_CFG_SIZE; pos += 4)
		if (lend_cfgfilter_starts(&scan, pos))
			lend_cfgfilter_vendor(filter, &scan, pos);
	for (pos = LEND_R_HEADER_END; pos < DLEND_CFG_SIZE; pos += 4)
		if (lend_cfgfilter_starts(&scan, pos))
			lend_cfgfilter_protect(filter, &scan, pos);
	/* Of capabilities that overlap, one may have taken back what the other had allowed. */
	for (pos = 0; pos < DLEND_CFG_SIZE; pos++)
		filter->w1c[pos] &= filter->write[pos];
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

enum lend_cfgfilter_way lend_cfgfilter_way(const struct lend_cfgfilter *filter, u32 offset,
					   u32 size)
{
	u32 write = lend_cfgfilter_writable(filter, offset, size);

	if (filter->vpd && offset == filter->vpd + LEND_VPD_ADDR && size == 2)
		return LEND_CFG_VPD_ADDR;
	if (filter->vpd && offset == filter->vpd + LEND_VPD_DATA && size == 4)
		return LEND_CFG_VPD_DATA;
	if (!write)
		return LEND_CFG_REFUSED;
	if (write == ~0u >> (32 - 8 * size) && !lend_cfgfilter_mask(filter->w1c, offset, size))
		return LEND_CFG_RAW;
	return LEND_CFG_MERGED;
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
