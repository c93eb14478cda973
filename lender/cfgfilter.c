// SPDX-License-Identifier: GPL-2.0
/*
 * Which registers of a lent function's real configuration space a borrower may write, and which
 * bits it may read.
 *
 * A borrower writes the device's own registers (dlend/caps.h) directly, by CFG_WRITE.  COMMAND
 * (memory decoding, bus mastering, INTx), BARs, MSI, MSI-X, power management, link control and
 * everything that decides where a device's accesses go belong to the lender.  For bus mastering,
 * interrupts and a reset a borrower has other messages (BUS_MASTER, IRQ_SETUP, RESET); the rest it
 * cannot change.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/pci_regs.h>

#include "lender/cfgfilter.h"

#define LEND_BARS_END	(PCI_BASE_ADDRESS_5 + 4)

/* Hide the addresses in the BARs and in the ROM BAR; their type bits stay visible. */
static void lend_cfgfilter_hide_header(struct lend_cfgfilter *filter, const u8 *cfg)
{
	for (u32 bar = PCI_BASE_ADDRESS_0; bar < LEND_BARS_END; bar += 4) {
		bool io = cfg[bar] & PCI_BASE_ADDRESS_SPACE_IO;
		bool is64 = !io && cfg[bar] & PCI_BASE_ADDRESS_MEM_TYPE_64;

		filter->hide[bar] = io ? 0xfc : 0xf0;
		memset(filter->hide + bar + 1, 0xff, 3);
		if (is64 && bar + 4 < LEND_BARS_END) {
			bar += 4;
			memset(filter->hide + bar, 0xff, 4);
		}
	}
	memset(filter->hide + PCI_ROM_ADDRESS + 1, 0xff, 3);
}

/*
 * For a capability with addresses of this host (DLEND_CAP_SECRET): hide its contents, but not its
 * header (the first word, or two words in extended space), from which the borrower learns where the
 * capability ends.
 */
static void lend_cfgfilter_hide_cap(struct lend_cfgfilter *filter, const u8 *cfg, u32 pos)
{
	u32 room = dlend_caps_room(&filter->caps, pos);
	u32 len = min(dlend_cap_owned(&filter->caps, cfg, pos), room);
	u32 head = pos < DLEND_CFG_STD_SIZE ? 4 : 8;

	if (len > head)
		memset(filter->hide + pos + head, 0xff, len - head);
}

/*
 * Offset of the VPD capability; 0: there is none.  If the device lists two, it is the first in the
 * device's list, as on the borrower's side.
 */
static u32 lend_cfgfilter_find_vpd(const struct lend_cfgfilter *filter, const u8 *cfg)
{
	const struct dlend_caps *caps = &filter->caps;
	u32 i;

	for (i = 0; i < caps->nr_std; i++)
		if (cfg[caps->std[i]] == PCI_CAP_ID_VPD &&
		    dlend_caps_room(caps, caps->std[i]) >= PCI_CAP_VPD_SIZEOF)
			return caps->std[i];
	return 0;
}

void lend_cfgfilter_init(struct lend_cfgfilter *filter, const u8 *cfg, bool device_specific)
{
	u32 pos;

	memset(filter, 0, sizeof(*filter));
	dlend_caps_find(&filter->caps, cfg, device_specific);
	lend_cfgfilter_hide_header(filter, cfg);
	for (pos = dlend_caps_next(&filter->caps, 0); pos < DLEND_CFG_SIZE;
	     pos = dlend_caps_next(&filter->caps, pos)) {
		const struct dlend_cap *cap = dlend_cap_at(cfg, pos);

		if (cap->flags & DLEND_CAP_SECRET)
			lend_cfgfilter_hide_cap(filter, cfg, pos);
	}
	filter->vpd = lend_cfgfilter_find_vpd(filter, cfg);
}

/* Offset and size come from a peer: the size is 1, 2 or 4, and the access is aligned to it. */
static bool lend_cfgfilter_good_access(u32 offset, u32 size)
{
	return (size == 1 || size == 2 || size == 4) && !(offset % size) &&
	       offset <= DLEND_CFG_SIZE - size;
}

enum lend_cfgfilter_action lend_cfgfilter_action(const struct lend_cfgfilter *filter, u32 offset,
						 u32 size)
{
	if (!lend_cfgfilter_good_access(offset, size))
		return LEND_CFG_REFUSED;
	if (filter->vpd && offset == filter->vpd + PCI_VPD_ADDR && size == 2)
		return LEND_CFG_VPD_ADDR;
	if (filter->vpd && offset == filter->vpd + PCI_VPD_DATA && size == 4)
		return LEND_CFG_VPD_DATA;
	for (u32 i = 0; i < size; i++)
		if (!dlend_caps_own(&filter->caps, offset + i))
			return LEND_CFG_REFUSED;
	return LEND_CFG_RAW;
}

u32 lend_cfgfilter_mask_read(const struct lend_cfgfilter *filter, u32 offset, u32 size, u32 value)
{
	if (!lend_cfgfilter_good_access(offset, size))
		return ~0u;
	for (u32 i = 0; i < size; i++)
		value &= ~((u32)filter->hide[offset + i] << (8 * i));
	return value;
}
