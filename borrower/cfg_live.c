// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual configuration space: which of its registers are the device's own, so that only the device
 * can answer for them.
 *
 * These are what vfio-pci passes through as it is: vendor-specific capabilities, but for their
 * headers, and bytes that are in no capability.  What dlend answers, hides or adds is never among
 * them.  The lender judges each write once more (lender/cfgfilter.c).
 *
 * Must not know the device, the link, VFIO or locks.
 */

#include <linux/bits.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <linux/pci_regs.h>

#include <dlend/cfg.h>
#include <dlend/clique.h>

#include "borrower/cfg_caps.h"

/* The capability that dlend_cfg_init() may have added for a reset, up to a multiple of 4. */
#define DLEND_CFG_AF_BYTES	8

static bool dlend_cfg_is_live(const struct dlend_cfg *cfg, u32 at)
{
	return cfg->live[at / 8] & BIT(at % 8);
}

/* Bytes [@from, @to) are the device's own, or are not. */
static void dlend_cfg_set_live(struct dlend_cfg *cfg, u32 from, u32 to, bool live)
{
	u32 at;

	for (at = from; at < min_t(u32, to, DLEND_CFG_SIZE); at++) {
		cfg->live[at / 8] &= ~BIT(at % 8);
		cfg->live[at / 8] |= live ? BIT(at % 8) : 0;
	}
}

/* A vendor-specific capability that the guest sees. */
static bool dlend_cfg_is_vendors(const struct dlend_cfg_build *b, const struct dlend_cfg_cap *cap,
				 u32 pos)
{
	return cap && cap->flags & DLEND_CFG_CAP_LIVE && b->cfg->val[pos] == cap->id;
}

/* Bytes in no capability.  Where a list is broken, nobody knows which those are. */
static void dlend_cfg_find_gaps(struct dlend_cfg_build *b)
{
	if (!b->std_broken)
		dlend_cfg_set_live(b->cfg, PCI_STD_HEADER_SIZEOF, DLEND_CFG_STD_SIZE, true);
	/*
	 * Without the PCIe capability there is no extended space.  Where its list begins is no
	 * register, also if the list is empty: kernels look there all the time.
	 */
	if (b->cfg->pcie_pos && !b->ext_broken)
		dlend_cfg_set_live(b->cfg, DLEND_CFG_STD_SIZE + 4, DLEND_CFG_SIZE, true);
}

static void dlend_cfg_add_vendors(struct dlend_cfg_build *b)
{
	const struct dlend_cfg_cap *cap;
	u32 pos, len;

	for (pos = PCI_STD_HEADER_SIZEOF; pos < DLEND_CFG_SIZE; pos += 4) {
		if (!dlend_cfg_starts_at(b, pos))
			continue;
		cap = dlend_cfg_find_at(b, pos);
		if (!dlend_cfg_is_vendors(b, cap, pos))
			continue;
		len = min(dlend_cfg_length_at(b, cap, pos), dlend_cfg_room_at(b, pos));
		dlend_cfg_set_live(b->cfg, pos, pos + len, true);
	}
}

/*
 * Whatever else a list names, up to the next capability at most.  If a broken device has one that
 * reaches further, the lender lets nobody write there.
 */
static void dlend_cfg_drop_others(struct dlend_cfg_build *b)
{
	const struct dlend_cfg_cap *cap;
	u32 pos, len;

	for (pos = PCI_STD_HEADER_SIZEOF; pos < DLEND_CFG_SIZE; pos += 4) {
		if (!dlend_cfg_starts_at(b, pos))
			continue;
		cap = dlend_cfg_find_at(b, pos);
		len = dlend_cfg_is_vendors(b, cap, pos) ? cap->len :
							  dlend_cfg_owned_at(b, cap, pos);
		len = min(len, dlend_cfg_room_at(b, pos));
		dlend_cfg_set_live(b->cfg, pos, pos + len, false);
	}
}

static void dlend_cfg_drop_added(struct dlend_cfg_build *b)
{
	u32 af = b->cfg->af_pos, clique = b->cfg->clique_pos;

	if (af && !dlend_cfg_starts_at(b, af))
		dlend_cfg_set_live(b->cfg, af, af + DLEND_CFG_AF_BYTES, false);
	if (clique)
		dlend_cfg_set_live(b->cfg, clique, clique + DLEND_CLIQUE_LEN, false);
}

void dlend_cfg_find_live(struct dlend_cfg_build *b)
{
	u32 at;

	dlend_cfg_find_gaps(b);
	dlend_cfg_add_vendors(b);
	dlend_cfg_drop_others(b);
	dlend_cfg_drop_added(b);
	for (at = 0; at < DLEND_CFG_SIZE; at++)
		if (dlend_cfg_is_live(b->cfg, at))
			b->cfg->val[at] = b->snap[at];
}

u32 dlend_cfg_live(const struct dlend_cfg *cfg, u32 offset, u32 len)
{
	u32 most, n;

	if (offset >= DLEND_CFG_SIZE)
		return 0;
	most = min3(len, 4u, DLEND_CFG_SIZE - offset);
	for (n = 0; n < most; n++)
		if (!dlend_cfg_is_live(cfg, offset + n))
			break;
	if (n == 4 && !(offset & 3))
		return 4;
	if (n >= 2 && !(offset & 1))
		return 2;
	return min(n, 1u);
}
