// SPDX-License-Identifier: GPL-2.0
/*
 * Capabilities of configuration space: the length of each kind, the part that a guest sees, and the
 * registers that are the device's own.
 *
 * The lender lets a borrower write only registers that are the device's own.  The borrower answers
 * for all others itself, so a guest's writes to them have no effect on the device.  The rule is
 * vfio-pci's: the device's own are vendor-specific capabilities, and registers that are in no
 * capability.  Of a kind without a row here only the header is known, so all behind the header
 * counts as the device's own.  A row keeps a guest away from a capability; comments say why.
 * Differences to vfio-pci: docs/address-translation.md.
 *
 * Pure: tables, and functions for lengths that a table cannot express.
 */
#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/bitmap.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <linux/pci_regs.h>

#include <dlend/caps.h>

#define CXL_VENDOR	0x1e98	/* owner of the CXL DVSECs */

/* Newer than the oldest header that this compiles against. */
#define EXT_ID_VF_REBAR	0x24
#define EXT_ID_DLF	0x25
#define EXT_ID_PL_16GT	0x26
#define EXT_ID_MARGIN	0x27
#define EXT_ID_PL_32GT	0x2a
#define EXT_ID_DEV3	0x2f
#define EXT_ID_IDE	0x30
#define EXT_ID_PL_64GT	0x31

#define ALL	0xffffffff
#define RO(at, width)			{ at, width, ALL, 0, 0 }
#define RW(at, width, show, write)	{ at, width, show, write, 0 }
#define W1C(at, width, show, w1c)	{ at, width, show, 0, w1c }

/* PCI header, type 0.  borrower/cfg.c emulates the BARs and the ROM. */
const struct dlend_cap_rule dlend_cap_header_rules[] = {
	RO(PCI_VENDOR_ID, 2),
	RO(PCI_DEVICE_ID, 2),
	/* I/O, memory, bus master, parity, SERR, INTx disable; the rest is 0 in PCIe */
	RW(PCI_COMMAND, 2, 0, PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER |
	   PCI_COMMAND_PARITY | PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE),
	/* dlend_cfg_init() sets the list bit, if the guest sees any capability. */
	W1C(PCI_STATUS, 2, PCI_STATUS_66MHZ | PCI_STATUS_FAST_BACK | PCI_STATUS_DEVSEL_MASK,
	    0xf900 /* errors */),
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

/* No PME: it could not be delivered.  D1 and D2 as the device has them. */
static const struct dlend_cap_rule pm_rules[] = {
	{ PCI_PM_PMC, 2, PCI_PM_CAP_VER_MASK | PCI_PM_CAP_DSI | PCI_PM_CAP_D1 | PCI_PM_CAP_D2,
	  0, 0 },
	RW(PCI_PM_CTRL, 2, PCI_PM_CTRL_NO_SOFT_RESET, PCI_PM_CTRL_STATE_MASK),
	{}
};

/*
 * The guest has registers of its own.  Each word that it asks for goes to the lender, whose kernel
 * asks the device (DLEND_CFG_E_VPD).
 */
static const struct dlend_cap_rule vpd_rules[] = {
	RW(PCI_VPD_ADDR, 2, ALL, 0xffff),
	RW(PCI_VPD_DATA, 4, ALL, ALL),
	{}
};

/* borrower/cfg.c adds the registers whose place depends on PCI_MSI_FLAGS. */
static const struct dlend_cap_rule msi_rules[] = {
	RW(PCI_MSI_FLAGS, 2, PCI_MSI_FLAGS_QMASK | PCI_MSI_FLAGS_64BIT | PCI_MSI_FLAGS_MASKBIT,
	   PCI_MSI_FLAGS_ENABLE | PCI_MSI_FLAGS_QSIZE),
	RW(PCI_MSI_ADDRESS_LO, 4, 0, 0xfffffffc),
	{}
};

static const struct dlend_cap_rule msix_rules[] = {
	RW(PCI_MSIX_FLAGS, 2, PCI_MSIX_FLAGS_QSIZE, PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL),
	RO(PCI_MSIX_TABLE, 4),
	RO(PCI_MSIX_PBA, 4),
	{}
};

/*
 * PCIe: a guest's settings only change the values that it reads.  The exception is the read request
 * size, which is passed to the device.  Payload sizes, ASPM and the rest of the link belong to the
 * lender's PCIe fabric.
 */
static const struct dlend_cap_rule exp_rules[] = {
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

static const struct dlend_cap_rule af_rules[] = {
	RO(PCI_AF_LENGTH, 1),
	{ PCI_AF_CAP, 1, PCI_AF_CAP_TP | PCI_AF_CAP_FLR, 0, 0 },
	{}
};

/* Advanced error reporting: the lender's host sees real errors, the guest an empty log. */
#define AER_UNCOR	0x03fff031
#define AER_COR		0x0000f1c1
static const struct dlend_cap_rule aer_rules[] = {
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
static const struct dlend_cap_rule secpci_rules[] = {
	{ 0x04, 4, 0, 0, 0 },
	{ 0x08, 4, 0, 0, 0 },
	{}
};

static u32 dlend_cap_msi_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	u16 flags = get_unaligned_le16(cap + PCI_MSI_FLAGS);

	/* Per-vector masking: padding to a dword, mask bits, pending bits. */
	return 10 + (flags & PCI_MSI_FLAGS_64BIT ? 4 : 0) +
	       (flags & PCI_MSI_FLAGS_MASKBIT ? 10 : 0);
}

static u32 dlend_cap_exp_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	u16 flags = get_unaligned_le16(cap + PCI_EXP_FLAGS);
	bool no_link = (flags & PCI_EXP_FLAGS_TYPE) >> 4 == PCI_EXP_TYPE_RC_END;

	if ((flags & PCI_EXP_FLAGS_VERS) < 2)
		return no_link ? PCI_CAP_EXP_RC_ENDPOINT_SIZEOF_V1 : PCI_CAP_EXP_ENDPOINT_SIZEOF_V1;
	/* Version 2 has all registers up to 3ch, but some devices end at their last useful one. */
	return no_link ? 0x2c : clamp(room, 0x34u, 0x3cu);
}

static u32 dlend_cap_pcix_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	return PCI_X_CMD_VERSION(get_unaligned_le16(cap + PCI_X_CMD)) ? 24 : 8;
}

/* A length that depends on the type is at most what vfio-pci assumes for the longest type. */
static u32 dlend_cap_ht_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	return min_t(u32, room, HT_CAP_SIZEOF_LONG);
}

static u32 dlend_cap_sata_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	return (cap[PCI_SATA_REGS] & PCI_SATA_REGS_MASK) == PCI_SATA_REGS_INLINE ?
	       PCI_SATA_SIZEOF_LONG : PCI_SATA_SIZEOF_SHORT;
}

/* With the table of its arbitration, if it has one. */
static u32 dlend_cap_vc_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	u32 len = PCI_CAP_VC_BASE_SIZEOF + PCI_CAP_VC_PER_VC_SIZEOF;
	u32 phases = cap[PCI_VC_PORT_CAP2];

	len += (cap[PCI_VC_PORT_CAP1] & PCI_VC_CAP1_EVCC) * PCI_CAP_VC_PER_VC_SIZEOF;
	phases &= PCI_VC_CAP2_32_PHASE | PCI_VC_CAP2_64_PHASE | PCI_VC_CAP2_128_PHASE;
	/* Half a byte for each of 32, 64 or 128 phases. */
	return phases ? ALIGN(len, 16) + (8u << (fls(phases) - 1)) : len;
}

static u32 dlend_cap_acs_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	u32 egress = cap[PCI_ACS_EGRESS_BITS] ?: 256;

	return PCI_ACS_EGRESS_CTL_V + (cap[PCI_ACS_CAP] & PCI_ACS_EC ? ALIGN(egress, 32) / 8 : 0);
}

static u32 dlend_cap_tph_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	u32 reg = get_unaligned_le32(cap + PCI_TPH_CAP);
	u32 tags = ((reg & PCI_TPH_CAP_ST_MASK) >> PCI_TPH_CAP_ST_SHIFT) + 1;

	if ((reg & PCI_TPH_CAP_LOC_MASK) != PCI_TPH_LOC_CAP)
		tags = 0;
	return PCI_TPH_BASE_SIZEOF + 2 * tags;
}

/* Two words for each class of the link's stream; for each selective one five, and its ranges. */
static u32 dlend_cap_ide_length(const struct dlend_caps *caps, const u8 *cap, u32 room)
{
	u32 reg = get_unaligned_le32(cap + 4);
	u32 len = 12 + (reg & 1 ? 8 * ((reg >> 13 & 7) + 1) : 0);
	u32 streams = reg & 2 ? (reg >> 16 & 0xff) + 1 : 0;

	while (streams-- && len + 20 <= room)
		len += 20 + 12 * (cap[len] & 0xf);
	return len;
}

static bool dlend_cap_is_cxl(const u8 *cap)
{
	return get_unaligned_le16(cap + PCI_DVSEC_HEADER1) == CXL_VENDOR;
}

#define COUNTED(n, more, reg, mask)	.len = n, .each = more, .at = reg, .bits = mask

/* Hidden kinds have no flags, and a comment that says why: a guest neither sees nor writes them. */
static const struct dlend_cap std_caps[] = {
	{ PCI_CAP_ID_PM, DLEND_CAP_SHOWN, .len = PCI_PM_SIZEOF, .rules = pm_rules },
	{ PCI_CAP_ID_VPD, DLEND_CAP_SHOWN, .len = PCI_CAP_VPD_SIZEOF, .rules = vpd_rules },
	{ PCI_CAP_ID_MSI, DLEND_CAP_SHOWN | DLEND_CAP_SECRET, .len = 10,
	  .length = dlend_cap_msi_length, .rules = msi_rules },
	/*
	 * The lender's host may itself be a guest: then this is a clique of its own, which says
	 * nothing about the borrower's guest.
	 */
	{ PCI_CAP_ID_VNDR, .is = dlend_clique_is, .len = DLEND_CLIQUE_LEN },
	{ PCI_CAP_ID_VNDR, DLEND_CAP_SHOWN | DLEND_CAP_OWN | DLEND_CAP_CLIP,
	  .min = 3, COUNTED(0, 1, PCI_CAP_FLAGS, 0xff) },
	{ PCI_CAP_ID_EXP, DLEND_CAP_SHOWN, .len = 12, .length = dlend_cap_exp_length,
	  .rules = exp_rules },
	{ PCI_CAP_ID_MSIX, DLEND_CAP_SHOWN, .len = PCI_CAP_MSIX_SIZEOF, .rules = msix_rules },
	{ PCI_CAP_ID_AF, DLEND_CAP_SHOWN, .len = PCI_CAP_AF_SIZEOF, .rules = af_rules },
	/* Settings of the bus that the device is on, and a second access to a SATA disk's ports */
	{ PCI_CAP_ID_AGP, .len = PCI_AGP_SIZEOF },
	{ PCI_CAP_ID_AGP3, .len = PCI_AGP_SIZEOF },
	{ PCI_CAP_ID_PCIX, .len = 8, .length = dlend_cap_pcix_length },
	{ PCI_CAP_ID_SATA, .len = PCI_SATA_SIZEOF_SHORT, .length = dlend_cap_sata_length },
	/* Addresses: where a device decodes, and where it sends interrupts */
	{ PCI_CAP_ID_HT, DLEND_CAP_SECRET, .len = 4, .length = dlend_cap_ht_length },
	/* An entry says itself how many words it has; that is hidden, too, so eight are assumed. */
	{ PCI_CAP_ID_EA, DLEND_CAP_SECRET, .min = 4,
	  COUNTED(4, 32, PCI_EA_NUM_ENT, PCI_EA_NUM_ENT_MASK) },
};

static const struct dlend_cap ext_caps[] = {
	/* The registers behind these are those of root ports, and a log that cannot be written. */
	{ PCI_EXT_CAP_ID_ERR, DLEND_CAP_SHOWN, .len = PCI_ERR_ROOT_COMMAND, .rules = aer_rules },
	{ PCI_EXT_CAP_ID_DSN, DLEND_CAP_SHOWN, .len = PCI_EXT_CAP_DSN_SIZEOF },
	{ PCI_EXT_CAP_ID_PWR, DLEND_CAP_SHOWN | DLEND_CAP_OWN | DLEND_CAP_CLIP,
	  .min = 4, .len = PCI_EXT_CAP_PWR_SIZEOF },
	{ PCI_EXT_CAP_ID_VNDR, DLEND_CAP_SHOWN | DLEND_CAP_OWN | DLEND_CAP_CLIP,
	  .min = 8, COUNTED(0, 1, PCI_VNDR_HEADER + 2, 0xfff0) },
	/* CXL memory and caches do not reach over the link: the guest must not look for them. */
	{ PCI_EXT_CAP_ID_DVSEC, .is = dlend_cap_is_cxl,
	  .min = 10, COUNTED(0, 1, PCI_DVSEC_HEADER1 + 2, 0xfff0) },
	{ PCI_EXT_CAP_ID_DVSEC, DLEND_CAP_SHOWN | DLEND_CAP_OWN | DLEND_CAP_CLIP,
	  .min = 10, COUNTED(0, 1, PCI_DVSEC_HEADER1 + 2, 0xfff0) },
	/* A guest may read the capabilities of the link; its state belongs to the lender. */
	{ PCI_EXT_CAP_ID_SECPCI, DLEND_CAP_SHOWN | DLEND_CAP_CLIP, .len = 12, .lane = 2,
	  .rules = secpci_rules },
	{ EXT_ID_DLF, DLEND_CAP_SHOWN, .len = 12 },
	{ EXT_ID_PL_16GT, DLEND_CAP_SHOWN | DLEND_CAP_CLIP, .len = 0x20, .lane = 1 },
	{ EXT_ID_PL_32GT, DLEND_CAP_SHOWN | DLEND_CAP_CLIP, .len = 0x20, .lane = 1 },
	{ EXT_ID_PL_64GT, DLEND_CAP_SHOWN | DLEND_CAP_CLIP, .len = 0x10, .lane = 1 },
	/* States, timings and tests of the PCIe link; which tags and streams its route can carry */
	{ PCI_EXT_CAP_ID_LTR, .len = PCI_EXT_CAP_LTR_SIZEOF },
	{ PCI_EXT_CAP_ID_L1SS, .len = 16 },
	{ PCI_EXT_CAP_ID_PTM, .len = 12 },
	{ EXT_ID_MARGIN, .len = 8, .lane = 4 },
	{ EXT_ID_DEV3, .len = 16 },
	{ EXT_ID_IDE, .len = 12, .length = dlend_cap_ide_length },
	{ PCI_EXT_CAP_ID_DPA, .min = PCI_DPA_BASE_SIZEOF,
	  COUNTED(PCI_DPA_BASE_SIZEOF + 1, 1, PCI_DPA_CAP, PCI_DPA_CAP_SUBSTATE_MASK) },
	/* Routes and priorities of requests */
	{ PCI_EXT_CAP_ID_VC, .len = 0x1c, .length = dlend_cap_vc_length },
	{ PCI_EXT_CAP_ID_MFVC, .len = 0x1c, .length = dlend_cap_vc_length },
	{ PCI_EXT_CAP_ID_VC9, .len = 0x1c, .length = dlend_cap_vc_length },
	{ PCI_EXT_CAP_ID_ACS, .len = 8, .length = dlend_cap_acs_length },
	{ PCI_EXT_CAP_ID_ARI, .len = PCI_EXT_CAP_ARI_SIZEOF },
	{ PCI_EXT_CAP_ID_MCAST, .len = PCI_EXT_CAP_MCAST_ENDPOINT_SIZEOF },
	{ PCI_EXT_CAP_ID_TPH, .len = PCI_TPH_BASE_SIZEOF, .length = dlend_cap_tph_length },
	{ PCI_EXT_CAP_ID_RCLD, DLEND_CAP_SECRET, .min = 16, COUNTED(16, 16, 4, 0xff00) },
	/* ATS: translated requests are not checked by the lender's IOMMU. */
	{ PCI_EXT_CAP_ID_ATS, .len = PCI_EXT_CAP_ATS_SIZEOF },
	{ PCI_EXT_CAP_ID_PRI, .len = PCI_EXT_CAP_PRI_SIZEOF },
	{ PCI_EXT_CAP_ID_PASID, .len = PCI_EXT_CAP_PASID_SIZEOF },
	/* The lender makes VFs, and sizes of BARs are fixed by their slots in the aperture. */
	{ PCI_EXT_CAP_ID_SRIOV, DLEND_CAP_SECRET, .len = PCI_EXT_CAP_SRIOV_SIZEOF },
	{ PCI_EXT_CAP_ID_REBAR, .min = 12, COUNTED(4, 8, 8, PCI_REBAR_CTRL_NBAR_MASK) },
	{ EXT_ID_VF_REBAR, .min = 12, COUNTED(4, 8, 8, PCI_REBAR_CTRL_NBAR_MASK) },
};

/* Of an unknown kind only the header is known, which links it into the list. */
static const struct dlend_cap std_unknown = { 0, DLEND_CAP_UNKNOWN, .len = PCI_CAP_FLAGS };
static const struct dlend_cap ext_unknown = { 0, DLEND_CAP_UNKNOWN, .len = 4 };

const struct dlend_cap *dlend_cap_at(const u8 *space, u32 pos)
{
	bool std = pos < DLEND_CFG_STD_SIZE;
	const struct dlend_cap *row = std ? std_caps : ext_caps;
	const struct dlend_cap *end = row + (std ? ARRAY_SIZE(std_caps) : ARRAY_SIZE(ext_caps));
	u16 id = std ? space[pos] : get_unaligned_le16(space + pos);

	for (; row < end; row++)
		if (row->id == id && (!row->is || (pos + 8 <= DLEND_CFG_SIZE &&
						   row->is(space + pos))))
			return row;
	return std ? &std_unknown : &ext_unknown;
}

static u32 dlend_cap_min(const struct dlend_cap *cap)
{
	return cap->min ?: cap->len;
}

u32 dlend_caps_room(const struct dlend_caps *caps, u32 pos)
{
	u32 next = dlend_caps_next(caps, pos);

	return (pos < DLEND_CFG_STD_SIZE ? min_t(u32, next, DLEND_CFG_STD_SIZE) : next) - pos;
}

u32 dlend_cap_bytes(const struct dlend_caps *caps, const u8 *space, u32 pos)
{
	const struct dlend_cap *cap = dlend_cap_at(space, pos);
	u32 room = dlend_caps_room(caps, pos), len = cap->len;

	if (room < dlend_cap_min(cap))
		return 0;
	if (cap->length)
		len = cap->length(caps, space + pos, room);
	else if (cap->each)
		len += cap->each * ((get_unaligned_le16(space + pos + cap->at) & cap->bits) >>
				    (ffs(cap->bits) - 1));
	len += ALIGN(cap->lane * caps->lanes, 4);
	return len < dlend_cap_min(cap) ? 0 : len;
}

u32 dlend_cap_owned(const struct dlend_caps *caps, const u8 *space, u32 pos)
{
	u32 len = dlend_cap_bytes(caps, space, pos);

	return len && !(dlend_cap_at(space, pos)->flags & DLEND_CAP_UNKNOWN) ?
	       len : dlend_caps_room(caps, pos);
}

/*
 * The walk ends at a loop, and at a pointer into the header.  The place where a list breaks off
 * counts as the start of a capability, too.  So no hidden capability (DLEND_CAP_SECRET) covers that
 * place, and both sides find the same break.
 */
static void dlend_caps_walk_std(struct dlend_caps *caps, const u8 *space)
{
	u32 pos = 0;

	if (get_unaligned_le16(space + PCI_STATUS) & PCI_STATUS_CAP_LIST)
		pos = space[PCI_CAPABILITY_LIST] & 0xfc;
	while (pos >= PCI_STD_HEADER_SIZEOF) {
		if (__test_and_set_bit(pos / 4, caps->start) || space[pos] == 0xff) {
			caps->std_broken = true;
			return;
		}
		caps->std[caps->nr_std++] = pos;
		pos = space[pos + PCI_CAP_LIST_NEXT] & 0xfc;
	}
}

/* The PCI Express capability, if all of it is there. */
static void dlend_caps_find_pcie(struct dlend_caps *caps, const u8 *space)
{
	u32 pos, len, link;

	for (pos = dlend_caps_next(caps, 0); pos < DLEND_CFG_STD_SIZE;
	     pos = dlend_caps_next(caps, pos)) {
		len = dlend_cap_bytes(caps, space, pos);
		if (caps->pcie || space[pos] != PCI_CAP_ID_EXP || !len ||
		    len > dlend_caps_room(caps, pos))
			continue;
		caps->pcie = pos;
		link = len > PCI_EXP_LNKCAP ? get_unaligned_le32(space + pos + PCI_EXP_LNKCAP) : 0;
		caps->lanes = min((link & PCI_EXP_LNKCAP_MLW) >> 4, 32u);
	}
}

/* A header of 0 ends the list, too: an empty extended list consists of such a header. */
static void dlend_caps_walk_ext(struct dlend_caps *caps, const u8 *space)
{
	u32 pos = DLEND_CFG_STD_SIZE, head;

	while (pos >= DLEND_CFG_STD_SIZE) {
		head = get_unaligned_le32(space + pos);
		if (!head)
			return;
		if (__test_and_set_bit(pos / 4, caps->start) || head == ~0u) {
			caps->ext_broken = true;
			return;
		}
		caps->nr_ext++;
		pos = PCI_EXT_CAP_NEXT(head);
	}
}

static bool dlend_caps_is_own(const struct dlend_caps *caps, const u8 *space, u32 pos)
{
	return dlend_cap_at(space, pos)->flags & DLEND_CAP_OWN && dlend_cap_bytes(caps, space, pos);
}

/* Mark a vendor-specific capability's registers: up to its end, or the start of the next one. */
static void dlend_caps_add_vendor(struct dlend_caps *caps, const u8 *space, u32 pos)
{
	if (dlend_caps_is_own(caps, space, pos))
		bitmap_set(caps->own, pos, min(dlend_cap_bytes(caps, space, pos),
					       dlend_caps_room(caps, pos)));
}

/*
 * Unmark the registers of all other kinds, and headers: if two capabilities overlap, the overlap is
 * not the device's own.
 */
static void dlend_caps_drop_others(struct dlend_caps *caps, const u8 *space, u32 pos)
{
	const struct dlend_cap *cap = dlend_cap_at(space, pos);
	u32 end = pos < DLEND_CFG_STD_SIZE ? DLEND_CFG_STD_SIZE : DLEND_CFG_SIZE;
	u32 len = dlend_cap_bytes(caps, space, pos) ?: max(dlend_caps_room(caps, pos),
							     dlend_cap_min(cap));

	if (dlend_caps_is_own(caps, space, pos))
		len = cap->min;
	dlend_caps_disown(caps, pos, min(len, end - pos));
}

void dlend_caps_find(struct dlend_caps *caps, const u8 *space, bool gaps)
{
	u32 pos;

	memset(caps, 0, sizeof(*caps));
	dlend_caps_walk_std(caps, space);
	dlend_caps_find_pcie(caps, space);
	if (caps->pcie)
		dlend_caps_walk_ext(caps, space);
	if (gaps && !caps->std_broken)
		bitmap_set(caps->own, PCI_STD_HEADER_SIZEOF,
			   DLEND_CFG_STD_SIZE - PCI_STD_HEADER_SIZEOF);
	/* Kernels often read the extended list's first header: it is not the device's own. */
	if (gaps && caps->pcie && !caps->ext_broken)
		bitmap_set(caps->own, DLEND_CFG_STD_SIZE + 4,
			   DLEND_CFG_SIZE - DLEND_CFG_STD_SIZE - 4);
	for (pos = dlend_caps_next(caps, 0); pos < DLEND_CFG_SIZE; pos = dlend_caps_next(caps, pos))
		dlend_caps_add_vendor(caps, space, pos);
	for (pos = dlend_caps_next(caps, 0); pos < DLEND_CFG_SIZE; pos = dlend_caps_next(caps, pos))
		dlend_caps_drop_others(caps, space, pos);
}
