// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual configuration space: what the guest sees of each register and each capability, which bits
 * it can change, and which a written 1 clears.
 *
 * A capability without a row in a table does not exist for the guest: unknown ones are hidden.
 * Pure: tables, and the lengths that they cannot say.
 */

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <linux/pci_regs.h>

#include <dlend/cfg.h>

#include "borrower/cfg_caps.h"
#include <dlend/clique.h>

#define CXL_VENDOR	0x1e98	/* owner of the CXL DVSECs */

/* Newer than the oldest header that this compiles against. */
#define EXT_ID_DLF	0x25
#define EXT_ID_PL_16GT	0x26
#define EXT_ID_PL_32GT	0x2a
#define EXT_ID_PL_64GT	0x31

#define ALL	0xffffffff
#define RO(at, width)			{ at, width, ALL, 0, 0 }
#define RW(at, width, show, write)	{ at, width, show, write, 0 }
#define W1C(at, width, show, w1c)	{ at, width, show, 0, w1c }

#define SLOT(member)	.slot = offsetof(struct dlend_cfg, member)

/* PCI header, type 0.  The BARs and the ROM have functions of their own. */
const struct dlend_cfg_rule dlend_cfg_header_rules[] = {
	RO(PCI_VENDOR_ID, 2),
	RO(PCI_DEVICE_ID, 2),
	/* I/O, memory, bus master, parity, SERR, INTx disable; the rest is 0 in PCIe */
	RW(PCI_COMMAND, 2, 0, PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER |
	   PCI_COMMAND_PARITY | PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE),
	/* dlend_cfg_init() sets the list bit, if the guest sees any capability. */
	W1C(PCI_STATUS, 2, PCI_STATUS_66MHZ | PCI_STATUS_FAST_BACK | PCI_STATUS_DEVSEL_MASK,
	    0xf900),
	RO(PCI_CLASS_REVISION, 4),
	RW(PCI_CACHE_LINE_SIZE, 1, ALL, 0xff),
	RW(PCI_LATENCY_TIMER, 1, ALL, 0xff),
	/* Whether the guest's slot has more functions is the VMM's business. */
	{ PCI_HEADER_TYPE, 1, 0x7f, 0, 0 },
	RO(PCI_SUBSYSTEM_VENDOR_ID, 2),
	RO(PCI_SUBSYSTEM_ID, 2),
	RW(PCI_INTERRUPT_LINE, 1, 0, 0xff),
	RO(PCI_INTERRUPT_PIN, 1),
	RO(PCI_MIN_GNT, 1),
	RO(PCI_MAX_LAT, 1),
	{}
};

/* No PME: nobody could deliver it.  D1 and D2 as the device has them. */
static const struct dlend_cfg_rule pm_rules[] = {
	{ PCI_PM_PMC, 2, PCI_PM_CAP_VER_MASK | PCI_PM_CAP_DSI | PCI_PM_CAP_D1 | PCI_PM_CAP_D2,
	  0, 0 },
	RW(PCI_PM_CTRL, 2, PCI_PM_CTRL_NO_SOFT_RESET, PCI_PM_CTRL_STATE_MASK),
	{}
};

/*
 * The guest's own registers: what they ask for goes to the lender, word by word, and its kernel
 * asks the device (DLEND_CFG_E_VPD).
 */
static const struct dlend_cfg_rule vpd_rules[] = {
	RW(PCI_VPD_ADDR, 2, ALL, 0xffff),
	RW(PCI_VPD_DATA, 4, ALL, ALL),
	{}
};

static const struct dlend_cfg_rule msi_rules[] = {
	RW(PCI_MSI_FLAGS, 2, PCI_MSI_FLAGS_QMASK | PCI_MSI_FLAGS_64BIT | PCI_MSI_FLAGS_MASKBIT,
	   PCI_MSI_FLAGS_ENABLE | PCI_MSI_FLAGS_QSIZE),
	RW(PCI_MSI_ADDRESS_LO, 4, 0, 0xfffffffc),
	{}
};

static const struct dlend_cfg_rule msix_rules[] = {
	RW(PCI_MSIX_FLAGS, 2, PCI_MSIX_FLAGS_QSIZE, PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL),
	RO(PCI_MSIX_TABLE, 4),
	RO(PCI_MSIX_PBA, 4),
	{}
};

/*
 * PCIe: what a guest sets here changes only what it reads, but for the read request size, which the
 * device gets. Payload sizes, ASPM and the rest of the link belong to the fabric that the device
 * really sits in.
 */
static const struct dlend_cfg_rule exp_rules[] = {
	RO(PCI_EXP_FLAGS, 2),
	{ PCI_EXP_DEVCAP, 4, (u32)~(PCI_EXP_DEVCAP_PHANTOM | 0x40000000 /* TEE I/O */), 0, 0 },
	/* All but phantom functions, auxiliary power (no PME) and the reset bit */
	RW(PCI_EXP_DEVCTL, 2, 0x79ff, 0x79ff),
	W1C(PCI_EXP_DEVSTA, 2, PCI_EXP_DEVSTA_AUXPD, PCI_EXP_DEVSTA_CED | PCI_EXP_DEVSTA_NFED |
	    PCI_EXP_DEVSTA_FED | PCI_EXP_DEVSTA_URD),
	RO(PCI_EXP_LNKCAP, 4),
	/* Without Link Disable and Retrain Link: only ports have those. */
	RW(PCI_EXP_LNKCTL, 2, 0x03cb, PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_RCB |
	   PCI_EXP_LNKCTL_CCC | PCI_EXP_LNKCTL_ES | PCI_EXP_LNKCTL_CLKREQ_EN |
	   PCI_EXP_LNKCTL_HAWD),
	{ PCI_EXP_LNKSTA, 2, 0x3fff, 0, 0 },
	/* Without bits that only ports have, or that need a hidden capability. */
	{ PCI_EXP_DEVCAP2, 4, (u32)~(PCI_EXP_DEVCAP2_ARI | PCI_EXP_DEVCAP2_ATOMIC_ROUTE |
	  PCI_EXP_DEVCAP2_LTR | 0x00003000 /* TPH completer */ | PCI_EXP_DEVCAP2_OBFF_MASK |
	  PCI_EXP_DEVCAP2_EE_PREFIX | 0x00c00000 /* prefixes, at most */ | 0x80000000 /* FRS */),
	  0, 0 },
	/* Completion time-outs, atomic requester, ID-based ordering, 10-bit tags */
	RW(PCI_EXP_DEVCTL2, 2, 0x135f, 0x135f),
	RO(PCI_EXP_LNKCAP2, 4),
	RW(PCI_EXP_LNKCTL2, 2, ALL, 0xffbf),
	{ PCI_EXP_LNKSTA2, 2, 0x7fdf, 0, 0 },
	{}
};

static const struct dlend_cfg_rule af_rules[] = {
	RO(PCI_AF_LENGTH, 1),
	{ PCI_AF_CAP, 1, PCI_AF_CAP_TP | PCI_AF_CAP_FLR, 0, 0 },
	{}
};

/* Advanced error reporting: the lender's host sees real errors, the guest an empty log. */
#define AER_UNCOR	0x03fff031
#define AER_COR		0x0000f1c1
static const struct dlend_cfg_rule aer_rules[] = {
	W1C(PCI_ERR_UNCOR_STATUS, 4, 0, AER_UNCOR),
	RW(PCI_ERR_UNCOR_MASK, 4, ALL, AER_UNCOR),
	RW(PCI_ERR_UNCOR_SEVER, 4, ALL, AER_UNCOR),
	W1C(PCI_ERR_COR_STATUS, 4, 0, AER_COR),
	RW(PCI_ERR_COR_MASK, 4, ALL, AER_COR),
	RW(PCI_ERR_CAP, 4, PCI_ERR_CAP_ECRC_GENC | PCI_ERR_CAP_ECRC_CHKC,
	   PCI_ERR_CAP_ECRC_GENE | PCI_ERR_CAP_ECRC_CHKE),
	{}
};

/* Link control and the errors of the lanes belong to the real port. */
static const struct dlend_cfg_rule secpci_rules[] = {
	{ 0x04, 4, 0, 0, 0 },
	{ 0x08, 4, 0, 0, 0 },
	{}
};

static u32 dlend_cfg_msi_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	u16 flags = get_unaligned_le16(b->snap + pos + PCI_MSI_FLAGS);
	u32 len = flags & PCI_MSI_FLAGS_64BIT ? 14 : 10;

	/* Per-vector masking: padding to a dword, mask bits, pending bits. */
	return flags & PCI_MSI_FLAGS_MASKBIT ? len + 10 : len;
}

static u32 dlend_cfg_exp_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	u16 flags = get_unaligned_le16(b->snap + pos + PCI_EXP_FLAGS);
	bool no_link = (flags & PCI_EXP_FLAGS_TYPE) >> 4 == PCI_EXP_TYPE_RC_END;

	if ((flags & PCI_EXP_FLAGS_VERS) < 2)
		return no_link ? PCI_CAP_EXP_RC_ENDPOINT_SIZEOF_V1 : PCI_CAP_EXP_ENDPOINT_SIZEOF_V1;
	/* Version 2 has all registers up to 3ch, but some devices end at their last useful one. */
	return clamp(room, no_link ? 0x2cu : 0x34u, 0x3cu);
}

static u32 dlend_cfg_vndr_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	return b->snap[pos + PCI_CAP_FLAGS];
}

static u32 dlend_cfg_pcix_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	return PCI_X_CMD_VERSION(get_unaligned_le16(b->snap + pos + PCI_X_CMD)) ? 24 : 8;
}

static u32 dlend_cfg_sata_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	u32 location = room >= 8 ? b->snap[pos + 4] & PCI_SATA_REGS_MASK : 0;

	return location == PCI_SATA_REGS_INLINE ? PCI_SATA_SIZEOF_LONG : PCI_SATA_SIZEOF_SHORT;
}

static u32 dlend_cfg_ea_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	u32 entries = b->snap[pos + PCI_EA_NUM_ENT] & PCI_EA_NUM_ENT_MASK;
	u32 len = PCI_EA_FIRST_ENT;

	while (entries-- && len + 4 <= room)
		len += ((b->snap[pos + len] & PCI_EA_ES) + 1) * 4;
	return len;
}

/* Its last registers are a port's, and those of prefixes: not every device has them. */
static u32 dlend_cfg_aer_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	return clamp(room, (u32)PCI_ERR_ROOT_COMMAND, 0x48u);
}

static u32 dlend_cfg_vsec_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	return PCI_VNDR_HEADER_LEN(get_unaligned_le32(b->snap + pos + PCI_VNDR_HEADER));
}

static u32 dlend_cfg_lanes(const struct dlend_cfg_build *b)
{
	u32 cap;

	if (!b->cfg->pcie_pos)
		return 0;
	cap = get_unaligned_le32(b->snap + b->cfg->pcie_pos + PCI_EXP_LNKCAP);
	return min((cap & PCI_EXP_LNKCAP_MLW) >> 4, 32u);
}

static u32 dlend_cfg_secpci_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	return 0x0c + ((2 * dlend_cfg_lanes(b) + 3) & ~3u);
}

static u32 dlend_cfg_pl_length(const struct dlend_cfg_build *b, u32 pos, u32 room)
{
	return 0x20 + ((dlend_cfg_lanes(b) + 3) & ~3u);
}

/*
 * Hide a clique capability of the device: the lender's host may itself be a guest, and its own
 * cliques say nothing about this guest.
 */
static bool dlend_cfg_vndr_admit(const struct dlend_cfg_build *b, u32 pos)
{
	return b->snap[pos + PCI_CAP_FLAGS] != DLEND_CLIQUE_LEN ||
	       !dlend_clique_is(b->snap + pos);
}

/* CXL memory and caches do not reach over the link: the guest must not look for them. */
static bool dlend_cfg_dvsec_admit(const struct dlend_cfg_build *b, u32 pos)
{
	return get_unaligned_le16(b->snap + pos + PCI_DVSEC_HEADER1) != CXL_VENDOR;
}

u32 dlend_cfg_msix_vectors(const u8 *space, u32 pos)
{
	return (get_unaligned_le16(space + pos + PCI_MSIX_FLAGS) & PCI_MSIX_FLAGS_QSIZE) + 1;
}

bool dlend_cfg_msix_part(const struct dlend_cfg *cfg, u32 reg, u32 vectors, bool pba,
			 struct dlend_cfg_part *part)
{
	part->bar = reg & PCI_MSIX_TABLE_BIR;
	part->offset = reg & PCI_MSIX_TABLE_OFFSET;
	part->size = pba ? DIV_ROUND_UP(vectors, 64) * 8 : vectors * PCI_MSIX_ENTRY_SIZE;
	return part->bar < DLEND_NUM_BARS &&
	       (u64)part->offset + part->size <= cfg->bar[part->bar].size;
}

static bool dlend_cfg_msi_admit(const struct dlend_cfg_build *b, u32 pos)
{
	return !b->desc->no_msi;
}

static bool dlend_cfg_msix_admit(const struct dlend_cfg_build *b, u32 pos)
{
	u32 table = get_unaligned_le32(b->snap + pos + PCI_MSIX_TABLE);
	u32 pba = get_unaligned_le32(b->snap + pos + PCI_MSIX_PBA);
	u32 vectors = dlend_cfg_msix_vectors(b->snap, pos);
	struct dlend_cfg_part part;

	return !b->desc->no_msix && dlend_cfg_msix_part(b->cfg, table, vectors, false, &part) &&
	       dlend_cfg_msix_part(b->cfg, pba, vectors, true, &part);
}

void dlend_cfg_put_wmask(struct dlend_cfg *cfg, u32 pos, u32 width, u32 mask)
{
	while (width--) {
		cfg->wmask[pos++] = mask;
		mask >>= 8;
	}
}

/* Where data, mask and the upper address half lie depends on the variant. */
static void dlend_cfg_msi_done(struct dlend_cfg_build *b, u32 pos)
{
	struct dlend_cfg *cfg = b->cfg;
	u16 flags = get_unaligned_le16(cfg->val + pos + PCI_MSI_FLAGS);
	bool is64 = flags & PCI_MSI_FLAGS_64BIT;
	u32 order = (flags & PCI_MSI_FLAGS_QMASK) >> 1;

	/* Orders 6 and 7 are reserved. */
	order = min(order, 5u);
	while (b->desc->max_msi && 1u << order > b->desc->max_msi)
		order--;
	put_unaligned_le16((flags & ~PCI_MSI_FLAGS_QMASK) | order << 1,
			   cfg->val + pos + PCI_MSI_FLAGS);
	if (is64)
		dlend_cfg_put_wmask(cfg, pos + PCI_MSI_ADDRESS_HI, 4, ALL);
	dlend_cfg_put_wmask(cfg, pos + (is64 ? PCI_MSI_DATA_64 : PCI_MSI_DATA_32), 2, 0xffff);
	if (flags & PCI_MSI_FLAGS_MASKBIT)
		dlend_cfg_put_wmask(cfg, pos + (is64 ? PCI_MSI_MASK_64 : PCI_MSI_MASK_32), 4,
				    ALL >> (32 - (1u << order)));
}

/* The table keeps its place and its size; the guest may see only its first vectors. */
static void dlend_cfg_msix_done(struct dlend_cfg_build *b, u32 pos)
{
	u16 flags = get_unaligned_le16(b->cfg->val + pos + PCI_MSIX_FLAGS);

	b->cfg->msix_entries = dlend_cfg_msix_vectors(b->snap, pos);
	if (b->desc->max_msix && b->desc->max_msix < b->cfg->msix_entries)
		put_unaligned_le16((flags & ~PCI_MSIX_FLAGS_QSIZE) | (b->desc->max_msix - 1),
				   b->cfg->val + pos + PCI_MSIX_FLAGS);
}

/*
 * Standard capabilities.  Hidden ones: SATA index/data, CompactPCI and the like need live access;
 * enhanced allocation and HyperTransport would show the lender's addresses; the rest is for
 * bridges.  Their lengths are here so that the clique capability, and what is read from the device
 * itself, stay clear of them.
 */
static const struct dlend_cfg_cap std_caps[] = {
	{ PCI_CAP_ID_PM, .len = PCI_PM_SIZEOF, SLOT(pm_pos), .rules = pm_rules },
	{ PCI_CAP_ID_VPD, .len = PCI_CAP_VPD_SIZEOF, SLOT(vpd_pos), .rules = vpd_rules },
	{ PCI_CAP_ID_MSI, .len = 10, .length = dlend_cfg_msi_length, SLOT(msi_pos),
	  .rules = msi_rules,
	  .admit = dlend_cfg_msi_admit, .done = dlend_cfg_msi_done },
	{ PCI_CAP_ID_VNDR, DLEND_CFG_CAP_CLIP | DLEND_CFG_CAP_LIVE, .len = 3,
	  .length = dlend_cfg_vndr_length, .admit = dlend_cfg_vndr_admit },
	{ PCI_CAP_ID_EXP, .len = 12, .length = dlend_cfg_exp_length, SLOT(pcie_pos),
	  .rules = exp_rules },
	{ PCI_CAP_ID_MSIX, .len = PCI_CAP_MSIX_SIZEOF, SLOT(msix_pos), .rules = msix_rules,
	  .admit = dlend_cfg_msix_admit, .done = dlend_cfg_msix_done },
	{ PCI_CAP_ID_AF, .len = PCI_CAP_AF_SIZEOF, SLOT(af_pos), .rules = af_rules },
	{ PCI_CAP_ID_AGP, DLEND_CFG_CAP_HIDDEN, .len = PCI_AGP_SIZEOF },
	{ PCI_CAP_ID_SLOTID, DLEND_CFG_CAP_HIDDEN, .len = 4 },
	{ PCI_CAP_ID_CHSWP, DLEND_CFG_CAP_HIDDEN, .len = 4 },
	{ PCI_CAP_ID_PCIX, DLEND_CFG_CAP_HIDDEN, .len = 4, .length = dlend_cfg_pcix_length },
	{ PCI_CAP_ID_DBG, DLEND_CFG_CAP_HIDDEN, .len = 4 },
	{ PCI_CAP_ID_SHPC, DLEND_CFG_CAP_HIDDEN, .len = 8 },
	{ PCI_CAP_ID_SSVID, DLEND_CFG_CAP_HIDDEN, .len = 8 },
	{ PCI_CAP_ID_AGP3, DLEND_CFG_CAP_HIDDEN, .len = PCI_AGP_SIZEOF },
	{ PCI_CAP_ID_SATA, DLEND_CFG_CAP_HIDDEN, .len = 4, .length = dlend_cfg_sata_length },
	{ PCI_CAP_ID_EA, DLEND_CFG_CAP_HIDDEN, .len = 4, .length = dlend_cfg_ea_length },
};

/*
 * Extended capabilities.  All without a row are hidden; the ones that matter most, and why:
 * ATS, PRI, PASID - a translated request would pass by the lender's IOMMU; SR-IOV, VF resizable
 * BAR - the lender makes functions; resizable BAR - sizes are fixed by the window; ACS, DPC, PTM,
 * LTR, L1 substates, TPH, virtual channels, multicast - settings of the real fabric; ARI - routing
 * of the real bus; power budgeting, DPA, DOE, NPEM, lane margining - need live access.  Rows that
 * only hide tell where a capability ends: what is behind it, up to the next one, is in none.
 */
static const struct dlend_cfg_cap ext_caps[] = {
	{ PCI_EXT_CAP_ID_ERR, .len = PCI_ERR_ROOT_COMMAND, .length = dlend_cfg_aer_length,
	  .rules = aer_rules },
	{ PCI_EXT_CAP_ID_DSN, .len = PCI_EXT_CAP_DSN_SIZEOF },
	{ PCI_EXT_CAP_ID_VNDR, DLEND_CFG_CAP_CLIP | DLEND_CFG_CAP_LIVE, .len = 8,
	  .length = dlend_cfg_vsec_length },
	{ PCI_EXT_CAP_ID_SECPCI, DLEND_CFG_CAP_CLIP, .len = 12, .length = dlend_cfg_secpci_length,
	  .rules = secpci_rules },
	{ PCI_EXT_CAP_ID_DVSEC, DLEND_CFG_CAP_CLIP | DLEND_CFG_CAP_LIVE, .len = 10,
	  .length = dlend_cfg_vsec_length, .admit = dlend_cfg_dvsec_admit },
	{ EXT_ID_DLF, .len = 12 },
	{ EXT_ID_PL_16GT, DLEND_CFG_CAP_CLIP, .len = 0x20, .length = dlend_cfg_pl_length },
	{ EXT_ID_PL_32GT, DLEND_CFG_CAP_CLIP, .len = 0x20, .length = dlend_cfg_pl_length },
	{ EXT_ID_PL_64GT, DLEND_CFG_CAP_CLIP, .len = 0x20, .length = dlend_cfg_pl_length },
	{ PCI_EXT_CAP_ID_ARI, DLEND_CFG_CAP_HIDDEN, .len = PCI_EXT_CAP_ARI_SIZEOF },
	{ PCI_EXT_CAP_ID_ATS, DLEND_CFG_CAP_HIDDEN, .len = PCI_EXT_CAP_ATS_SIZEOF },
	{ PCI_EXT_CAP_ID_SRIOV, DLEND_CFG_CAP_HIDDEN, .len = PCI_EXT_CAP_SRIOV_SIZEOF },
	{ PCI_EXT_CAP_ID_PRI, DLEND_CFG_CAP_HIDDEN, .len = PCI_EXT_CAP_PRI_SIZEOF },
	{ PCI_EXT_CAP_ID_LTR, DLEND_CFG_CAP_HIDDEN, .len = PCI_EXT_CAP_LTR_SIZEOF },
	{ PCI_EXT_CAP_ID_PASID, DLEND_CFG_CAP_HIDDEN, .len = PCI_EXT_CAP_PASID_SIZEOF },
};

static const struct dlend_cfg_cap *dlend_cfg_find_cap(const struct dlend_cfg_cap *table,
						      unsigned int nr, u32 id)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (table[i].id == id)
			return &table[i];
	return NULL;
}

const struct dlend_cfg_cap *dlend_cfg_find_std(u32 id)
{
	return dlend_cfg_find_cap(std_caps, ARRAY_SIZE(std_caps), id);
}

const struct dlend_cfg_cap *dlend_cfg_find_ext(u32 id)
{
	return dlend_cfg_find_cap(ext_caps, ARRAY_SIZE(ext_caps), id);
}

const struct dlend_cfg_cap *dlend_cfg_find_at(const struct dlend_cfg_build *b, u32 pos)
{
	u32 id;

	if (pos < DLEND_CFG_STD_SIZE)
		return dlend_cfg_find_std(b->snap[pos]);
	id = PCI_EXT_CAP_ID(get_unaligned_le32(b->snap + pos));
	return id <= 0xff ? dlend_cfg_find_ext(id) : NULL;
}

bool dlend_cfg_starts_at(const struct dlend_cfg_build *b, u32 pos)
{
	return b->start[pos / 4 / 32] & BIT(pos / 4 % 32);
}

u32 dlend_cfg_room_at(const struct dlend_cfg_build *b, u32 pos)
{
	u32 end = pos < DLEND_CFG_STD_SIZE ? DLEND_CFG_STD_SIZE : DLEND_CFG_SIZE;
	u32 at;

	for (at = pos + 4; at < end; at += 4)
		if (dlend_cfg_starts_at(b, at))
			break;
	return at - pos;
}

u32 dlend_cfg_length_at(const struct dlend_cfg_build *b, const struct dlend_cfg_cap *cap, u32 pos)
{
	u32 room = dlend_cfg_room_at(b, pos);

	if (!cap || room < cap->len)
		return 0;
	return cap->length ? cap->length(b, pos, room) : cap->len;
}

u32 dlend_cfg_owned_at(const struct dlend_cfg_build *b, const struct dlend_cfg_cap *cap, u32 pos)
{
	u32 len = dlend_cfg_length_at(b, cap, pos);

	return !cap || len < cap->len ? dlend_cfg_room_at(b, pos) : len;
}

u32 dlend_cfg_bar_reg(unsigned int index)
{
	return index == DLEND_ROM_INDEX ? PCI_ROM_ADDRESS : PCI_BASE_ADDRESS_0 + 4 * index;
}
