// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual configuration space of a borrowed device.
 *
 * The space is made once from the lender's snapshot, by tables: what of each register the guest
 * sees, which bits it can change, which a written 1 clears.  Afterwards every access is answered
 * from memory and a write tells its caller what it meant.  Must not know the device, the link,
 * VFIO or locks.
 *
 * What has no row in a table does not exist for the guest: a capability nobody thought about is
 * hidden, and bytes that belong to no visible capability read as 0.
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

#include "mdev/clique.h"

#define STD_SIZE	PCI_CFG_SPACE_SIZE
#define NO_VENDOR	0xffff
#define CXL_VENDOR	0x1e98	/* owner of the CXL DVSECs */

/* Newer than the oldest header that this compiles against. */
#define EXT_ID_DLF	0x25
#define EXT_ID_PL_16GT	0x26
#define EXT_ID_PL_32GT	0x2a
#define EXT_ID_PL_64GT	0x31

/**
 * struct rule - one register
 * @at: offset in its structure
 * @width: bytes, 1, 2 or 4
 * @show: bits that come from the snapshot; the others start as 0
 * @write: bits that the guest can change; nothing but the virtual value changes
 * @w1c: bits that a written 1 clears
 */
struct rule {
	u8 at;
	u8 width;
	u32 show;
	u32 write;
	u32 w1c;
};

#define ALL	0xffffffff
#define RO(at, width)			{ at, width, ALL, 0, 0 }
#define RW(at, width, show, write)	{ at, width, show, write, 0 }
#define W1C(at, width, show, w1c)	{ at, width, show, 0, w1c }

/* What a build works on; the walks over the lists stay in @start. */
struct build {
	struct dlend_cfg *cfg;
	const struct dlend_cfg_desc *desc;
	const u8 *snap;
	u32 start[DLEND_CFG_SIZE / 4 / 32];	/* a bit per dword: a listed capability starts */
	unsigned int nr_std, nr_ext;
	bool looped;
	u8 used[STD_SIZE];			/* not 0: the device has a structure there */
};

#define CAP_HIDDEN	0x1	/* here for its length only */
#define CAP_CLIP	0x2	/* read-only all over: may end where the next one starts */

/**
 * struct cap - one kind of capability
 * @id: capability id or extended capability id
 * @flags: CAP_*
 * @len: bytes if always the same, else what it has at least
 * @slot: offset in struct dlend_cfg of the u8 that says where it is; there can be one only
 * @length: bytes by the capability's own contents, up to @room if in doubt; 0: cannot be known
 * @admit: a last look before it is shown
 * @rules: registers, ended by one without width; without a table, all of it is read-only
 * @done: what depends on its contents
 */
struct cap {
	u8 id;
	u8 flags;
	u8 len;
	u16 slot;
	u32 (*length)(const struct build *b, u32 pos, u32 room);
	bool (*admit)(const struct build *b, u32 pos);
	const struct rule *rules;
	void (*done)(struct build *b, u32 pos);
};

#define SLOT(member)	.slot = offsetof(struct dlend_cfg, member)

/* PCI header, type 0.  The BARs and the ROM have functions of their own. */
static const struct rule header_rules[] = {
	RO(PCI_VENDOR_ID, 2),
	RO(PCI_DEVICE_ID, 2),
	/* I/O, memory, bus master, parity, SERR, INTx disable; the rest is 0 in PCIe */
	RW(PCI_COMMAND, 2, 0, PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER |
	   PCI_COMMAND_PARITY | PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE),
	/* The list bit is set by whoever links the first capability. */
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
static const struct rule pm_rules[] = {
	{ PCI_PM_PMC, 2, PCI_PM_CAP_VER_MASK | PCI_PM_CAP_DSI | PCI_PM_CAP_D1 | PCI_PM_CAP_D2,
	  0, 0 },
	RW(PCI_PM_CTRL, 2, PCI_PM_CTRL_NO_SOFT_RESET, PCI_PM_CTRL_STATE_MASK),
	{}
};

static const struct rule msi_rules[] = {
	RW(PCI_MSI_FLAGS, 2, PCI_MSI_FLAGS_QMASK | PCI_MSI_FLAGS_64BIT | PCI_MSI_FLAGS_MASKBIT,
	   PCI_MSI_FLAGS_ENABLE | PCI_MSI_FLAGS_QSIZE),
	RW(PCI_MSI_ADDRESS_LO, 4, 0, 0xfffffffc),
	{}
};

static const struct rule msix_rules[] = {
	RW(PCI_MSIX_FLAGS, 2, PCI_MSIX_FLAGS_QSIZE, PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL),
	RO(PCI_MSIX_TABLE, 4),
	RO(PCI_MSIX_PBA, 4),
	{}
};

/*
 * PCIe: what a guest sets here stays here, but for the read request size, which the device gets.
 * Payload sizes, ASPM and the rest of the link belong to the fabric that it really sits in.
 */
static const struct rule exp_rules[] = {
	RO(PCI_EXP_FLAGS, 2),
	{ PCI_EXP_DEVCAP, 4, (u32)~(PCI_EXP_DEVCAP_PHANTOM | 0x40000000 /* TEE I/O */), 0, 0 },
	/* All but phantom functions, auxiliary power (no PME) and the reset bit */
	RW(PCI_EXP_DEVCTL, 2, 0x79ff, 0x79ff),
	W1C(PCI_EXP_DEVSTA, 2, PCI_EXP_DEVSTA_AUXPD, PCI_EXP_DEVSTA_CED | PCI_EXP_DEVSTA_NFED |
	    PCI_EXP_DEVSTA_FED | PCI_EXP_DEVSTA_URD),
	RO(PCI_EXP_LNKCAP, 4),
	/* Not Link Disable and Retrain Link: ports have those. */
	RW(PCI_EXP_LNKCTL, 2, 0x03cb, PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_RCB |
	   PCI_EXP_LNKCTL_CCC | PCI_EXP_LNKCTL_ES | PCI_EXP_LNKCTL_CLKREQ_EN |
	   PCI_EXP_LNKCTL_HAWD),
	{ PCI_EXP_LNKSTA, 2, 0x3fff, 0, 0 },
	/* Not what only ports have, nor what needs a hidden capability. */
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

static const struct rule af_rules[] = {
	RO(PCI_AF_LENGTH, 1),
	{ PCI_AF_CAP, 1, PCI_AF_CAP_TP | PCI_AF_CAP_FLR, 0, 0 },
	{}
};

/* Advanced error reporting: the lender's host sees real errors, the guest an empty log. */
#define AER_UNCOR	0x03fff031
#define AER_COR		0x0000f1c1
static const struct rule aer_rules[] = {
	W1C(PCI_ERR_UNCOR_STATUS, 4, 0, AER_UNCOR),
	RW(PCI_ERR_UNCOR_MASK, 4, ALL, AER_UNCOR),
	RW(PCI_ERR_UNCOR_SEVER, 4, ALL, AER_UNCOR),
	W1C(PCI_ERR_COR_STATUS, 4, 0, AER_COR),
	RW(PCI_ERR_COR_MASK, 4, ALL, AER_COR),
	RW(PCI_ERR_CAP, 4, PCI_ERR_CAP_ECRC_GENC | PCI_ERR_CAP_ECRC_CHKC,
	   PCI_ERR_CAP_ECRC_GENE | PCI_ERR_CAP_ECRC_CHKE),
	{}
};

/* The receive side of the lanes' errors is the real port's. */
static const struct rule secpci_rules[] = {
	{ 0x04, 4, 0, 0, 0 },
	{ 0x08, 4, 0, 0, 0 },
	{}
};

static u32 msi_length(const struct build *b, u32 pos, u32 room)
{
	u16 flags = get_unaligned_le16(b->snap + pos + PCI_MSI_FLAGS);
	u32 len = flags & PCI_MSI_FLAGS_64BIT ? 14 : 10;

	/* Per-vector masking: padding to a dword, mask bits, pending bits. */
	return flags & PCI_MSI_FLAGS_MASKBIT ? len + 10 : len;
}

static u32 exp_length(const struct build *b, u32 pos, u32 room)
{
	u16 flags = get_unaligned_le16(b->snap + pos + PCI_EXP_FLAGS);
	bool no_link = (flags & PCI_EXP_FLAGS_TYPE) >> 4 == PCI_EXP_TYPE_RC_END;

	if ((flags & PCI_EXP_FLAGS_VERS) < 2)
		return no_link ? PCI_CAP_EXP_RC_ENDPOINT_SIZEOF_V1 : PCI_CAP_EXP_ENDPOINT_SIZEOF_V1;
	/* Version 2 has all registers up to 3ch, but some devices end at their last useful one. */
	return clamp(room, no_link ? 0x2cu : 0x34u, 0x3cu);
}

static u32 vndr_length(const struct build *b, u32 pos, u32 room)
{
	return b->snap[pos + PCI_CAP_FLAGS];
}

static u32 pcix_length(const struct build *b, u32 pos, u32 room)
{
	return PCI_X_CMD_VERSION(get_unaligned_le16(b->snap + pos + PCI_X_CMD)) ? 24 : 8;
}

static u32 sata_length(const struct build *b, u32 pos, u32 room)
{
	u32 location = room >= 8 ? b->snap[pos + 4] & PCI_SATA_REGS_MASK : 0;

	return location == PCI_SATA_REGS_INLINE ? PCI_SATA_SIZEOF_LONG : PCI_SATA_SIZEOF_SHORT;
}

static u32 ea_length(const struct build *b, u32 pos, u32 room)
{
	u32 entries = b->snap[pos + PCI_EA_NUM_ENT] & PCI_EA_NUM_ENT_MASK;
	u32 len = PCI_EA_FIRST_ENT;

	while (entries-- && len + 4 <= room)
		len += ((b->snap[pos + len] & PCI_EA_ES) + 1) * 4;
	return len;
}

static u32 vsec_length(const struct build *b, u32 pos, u32 room)
{
	return PCI_VNDR_HEADER_LEN(get_unaligned_le32(b->snap + pos + PCI_VNDR_HEADER));
}

static u32 lanes(const struct build *b)
{
	u32 cap;

	if (!b->cfg->pcie_pos)
		return 0;
	cap = get_unaligned_le32(b->snap + b->cfg->pcie_pos + PCI_EXP_LNKCAP);
	return min((cap & PCI_EXP_LNKCAP_MLW) >> 4, 32u);
}

static u32 secpci_length(const struct build *b, u32 pos, u32 room)
{
	return 0x0c + ((2 * lanes(b) + 3) & ~3u);
}

static u32 pl_length(const struct build *b, u32 pos, u32 room)
{
	return 0x20 + ((lanes(b) + 3) & ~3u);
}

/* The lender's host may itself be a guest: its own cliques say nothing about this one. */
static bool vndr_admit(const struct build *b, u32 pos)
{
	return b->snap[pos + PCI_CAP_FLAGS] != DLEND_CLIQUE_LEN ||
	       !dlend_clique_is(b->snap + pos);
}

/* CXL memory and caches do not reach over the link: the guest must not look for them. */
static bool dvsec_admit(const struct build *b, u32 pos)
{
	return get_unaligned_le16(b->snap + pos + PCI_DVSEC_HEADER1) != CXL_VENDOR;
}

static u32 msix_vectors(const u8 *space, u32 pos)
{
	return (get_unaligned_le16(space + pos + PCI_MSIX_FLAGS) & PCI_MSIX_FLAGS_QSIZE) + 1;
}

/*
 * The table or the PBA of the capability at @pos, for as many @vectors as the device has, whatever
 * the guest sees of them; false if it is not inside a memory BAR.
 */
static bool msix_range(const struct dlend_cfg *cfg, const u8 *space, u32 pos, u32 vectors, bool pba,
		       unsigned int *bar, u32 *offset, u32 *size)
{
	u32 reg = get_unaligned_le32(space + pos + (pba ? PCI_MSIX_PBA : PCI_MSIX_TABLE));

	*bar = reg & PCI_MSIX_TABLE_BIR;
	*offset = reg & PCI_MSIX_TABLE_OFFSET;
	*size = pba ? DIV_ROUND_UP(vectors, 64) * 8 : vectors * PCI_MSIX_ENTRY_SIZE;
	return *bar < DLEND_NUM_BARS && (u64)*offset + *size <= cfg->bar[*bar].size;
}

static bool msi_admit(const struct build *b, u32 pos)
{
	return !b->desc->no_msi;
}

static bool msix_admit(const struct build *b, u32 pos)
{
	u32 vectors = msix_vectors(b->snap, pos);
	unsigned int bar;
	u32 offset, size;

	return !b->desc->no_msix &&
	       msix_range(b->cfg, b->snap, pos, vectors, false, &bar, &offset, &size) &&
	       msix_range(b->cfg, b->snap, pos, vectors, true, &bar, &offset, &size);
}

static void put_wmask(struct dlend_cfg *cfg, u32 pos, u32 width, u32 mask)
{
	while (width--) {
		cfg->wmask[pos++] = mask;
		mask >>= 8;
	}
}

/* Where data, mask and the upper address half lie depends on the variant. */
static void msi_done(struct build *b, u32 pos)
{
	struct dlend_cfg *cfg = b->cfg;
	u16 flags = get_unaligned_le16(cfg->val + pos + PCI_MSI_FLAGS);
	bool is64 = flags & PCI_MSI_FLAGS_64BIT;
	u32 order = (flags & PCI_MSI_FLAGS_QMASK) >> 1;

	/* 6 and 7 are reserved. */
	order = min(order, 5u);
	while (b->desc->max_msi && 1u << order > b->desc->max_msi)
		order--;
	put_unaligned_le16((flags & ~PCI_MSI_FLAGS_QMASK) | order << 1,
			   cfg->val + pos + PCI_MSI_FLAGS);
	if (is64)
		put_wmask(cfg, pos + PCI_MSI_ADDRESS_HI, 4, ALL);
	put_wmask(cfg, pos + (is64 ? PCI_MSI_DATA_64 : PCI_MSI_DATA_32), 2, 0xffff);
	if (flags & PCI_MSI_FLAGS_MASKBIT)
		put_wmask(cfg, pos + (is64 ? PCI_MSI_MASK_64 : PCI_MSI_MASK_32), 4,
			  ALL >> (32 - (1u << order)));
}

/* The table stays where it is, and as large; the guest sees its beginning. */
static void msix_done(struct build *b, u32 pos)
{
	u16 flags = get_unaligned_le16(b->cfg->val + pos + PCI_MSIX_FLAGS);

	b->cfg->msix_entries = msix_vectors(b->snap, pos);
	if (b->desc->max_msix && b->desc->max_msix < b->cfg->msix_entries)
		put_unaligned_le16((flags & ~PCI_MSIX_FLAGS_QSIZE) | (b->desc->max_msix - 1),
				   b->cfg->val + pos + PCI_MSIX_FLAGS);
}

/*
 * Standard capabilities.  Hidden ones: VPD, SATA index/data, CompactPCI and the like need live
 * access; enhanced allocation and HyperTransport would show the lender's addresses; the rest is
 * for bridges.  Their lengths are here so that the clique capability stays clear of them.
 */
static const struct cap std_caps[] = {
	{ PCI_CAP_ID_PM, .len = PCI_PM_SIZEOF, SLOT(pm_pos), .rules = pm_rules },
	{ PCI_CAP_ID_MSI, .len = 10, .length = msi_length, SLOT(msi_pos), .rules = msi_rules,
	  .admit = msi_admit, .done = msi_done },
	{ PCI_CAP_ID_VNDR, CAP_CLIP, .len = 3, .length = vndr_length, .admit = vndr_admit },
	{ PCI_CAP_ID_EXP, .len = 12, .length = exp_length, SLOT(pcie_pos), .rules = exp_rules },
	{ PCI_CAP_ID_MSIX, .len = PCI_CAP_MSIX_SIZEOF, SLOT(msix_pos), .rules = msix_rules,
	  .admit = msix_admit, .done = msix_done },
	{ PCI_CAP_ID_AF, .len = PCI_CAP_AF_SIZEOF, SLOT(af_pos), .rules = af_rules },
	{ PCI_CAP_ID_AGP, CAP_HIDDEN, .len = PCI_AGP_SIZEOF },
	{ PCI_CAP_ID_VPD, CAP_HIDDEN, .len = PCI_CAP_VPD_SIZEOF },
	{ PCI_CAP_ID_SLOTID, CAP_HIDDEN, .len = 4 },
	{ PCI_CAP_ID_CHSWP, CAP_HIDDEN, .len = 4 },
	{ PCI_CAP_ID_PCIX, CAP_HIDDEN, .len = 4, .length = pcix_length },
	{ PCI_CAP_ID_DBG, CAP_HIDDEN, .len = 4 },
	{ PCI_CAP_ID_SHPC, CAP_HIDDEN, .len = 8 },
	{ PCI_CAP_ID_SSVID, CAP_HIDDEN, .len = 8 },
	{ PCI_CAP_ID_AGP3, CAP_HIDDEN, .len = PCI_AGP_SIZEOF },
	{ PCI_CAP_ID_SATA, CAP_HIDDEN, .len = 4, .length = sata_length },
	{ PCI_CAP_ID_EA, CAP_HIDDEN, .len = 4, .length = ea_length },
};

/*
 * Extended capabilities.  All without a row are hidden; the ones that matter most, and why:
 * ATS, PRI, PASID - a translated request would pass by the lender's IOMMU; SR-IOV, VF resizable
 * BAR - the lender makes functions; resizable BAR - sizes are fixed by the window; ACS, DPC, PTM,
 * LTR, L1 substates, TPH, virtual channels, multicast - settings of the real fabric; ARI - routing
 * of the real bus; power budgeting, DPA, DOE, NPEM, lane margining - need live access.
 */
static const struct cap ext_caps[] = {
	{ PCI_EXT_CAP_ID_ERR, .len = PCI_ERR_ROOT_COMMAND, .rules = aer_rules },
	{ PCI_EXT_CAP_ID_DSN, .len = PCI_EXT_CAP_DSN_SIZEOF },
	{ PCI_EXT_CAP_ID_VNDR, CAP_CLIP, .len = 8, .length = vsec_length },
	{ PCI_EXT_CAP_ID_SECPCI, CAP_CLIP, .len = 12, .length = secpci_length,
	  .rules = secpci_rules },
	{ PCI_EXT_CAP_ID_DVSEC, CAP_CLIP, .len = 10, .length = vsec_length,
	  .admit = dvsec_admit },
	{ EXT_ID_DLF, .len = 12 },
	{ EXT_ID_PL_16GT, CAP_CLIP, .len = 0x20, .length = pl_length },
	{ EXT_ID_PL_32GT, CAP_CLIP, .len = 0x20, .length = pl_length },
	{ EXT_ID_PL_64GT, CAP_CLIP, .len = 0x20, .length = pl_length },
};

static const struct cap *find_cap(const struct cap *table, unsigned int nr, u32 id)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (table[i].id == id)
			return &table[i];
	return NULL;
}

static bool starts_at(const struct build *b, u32 pos)
{
	return b->start[pos / 4 / 32] & BIT(pos / 4 % 32);
}

static void set_start(struct build *b, u32 pos)
{
	b->start[pos / 4 / 32] |= BIT(pos / 4 % 32);
}

/* Bytes from the capability at @pos to the next higher one, or to the end of its space. */
static u32 room_at(const struct build *b, u32 pos)
{
	u32 end = pos < STD_SIZE ? STD_SIZE : DLEND_CFG_SIZE;
	u32 at;

	for (at = pos + 4; at < end; at += 4)
		if (starts_at(b, at))
			break;
	return at - pos;
}

static u32 std_next(const struct build *b, u32 link)
{
	u32 next = b->snap[link] & 0xfc;

	return next >= PCI_STD_HEADER_SIZEOF ? next : 0;
}

static u32 ext_next(const struct build *b, u32 pos)
{
	u32 next = PCI_EXT_CAP_NEXT(get_unaligned_le32(b->snap + pos));

	return next >= STD_SIZE ? next : 0;
}

/* First walk over both lists: where do capabilities start?  Ends at a loop. */
static void scan(struct build *b)
{
	u32 pos = 0;

	if (get_unaligned_le16(b->snap + PCI_STATUS) & PCI_STATUS_CAP_LIST)
		pos = std_next(b, PCI_CAPABILITY_LIST);
	while (pos && b->snap[pos] != 0xff) {
		if (starts_at(b, pos)) {
			b->looped = true;
			break;
		}
		set_start(b, pos);
		b->nr_std++;
		pos = std_next(b, pos + PCI_CAP_LIST_NEXT);
	}
	pos = STD_SIZE;
	while (pos && !starts_at(b, pos)) {
		u32 head = get_unaligned_le32(b->snap + pos);

		if (!head || head == ALL)
			break;
		set_start(b, pos);
		b->nr_ext++;
		pos = ext_next(b, pos);
	}
}

/* Registers of one structure; @len is where it ends, registers beyond do not exist. */
static void apply(struct build *b, u32 pos, u32 len, const struct rule *rule)
{
	struct dlend_cfg *cfg = b->cfg;
	unsigned int k;

	for (; rule && rule->width; rule++) {
		if (rule->at + rule->width > len)
			continue;
		for (k = 0; k < rule->width; k++) {
			u32 at = pos + rule->at + k;

			cfg->val[at] = b->snap[at] & (rule->show >> 8 * k);
			cfg->wmask[at] = rule->write >> 8 * k;
			cfg->w1c[at] = rule->w1c >> 8 * k;
		}
	}
}

static u32 cap_length(const struct build *b, const struct cap *cap, u32 pos, u32 room)
{
	if (!cap || room < cap->len)
		return 0;
	return cap->length ? cap->length(b, pos, room) : cap->len;
}

/*
 * Show a capability, if it is one to show.  @head bytes (id and next pointer, or the extended
 * header) are the caller's.
 */
static bool show(struct build *b, const struct cap *cap, u32 pos, u32 head)
{
	u32 room = room_at(b, pos);
	u32 len = cap_length(b, cap, pos, room);
	u8 *slot = NULL;

	if (!cap || cap->flags & CAP_HIDDEN || len < cap->len)
		return false;
	if (len > room && !(cap->flags & CAP_CLIP))
		return false;
	if (cap->slot)
		slot = (u8 *)b->cfg + cap->slot;
	if ((slot && *slot) || (cap->admit && !cap->admit(b, pos)))
		return false;

	len = min(len, room);
	/* Rules say all there is, unless the capability is one that others fill with data. */
	if (!cap->rules || cap->flags & CAP_CLIP)
		memcpy(b->cfg->val + pos + head, b->snap + pos + head, len - head);
	apply(b, pos, len, cap->rules);
	if (slot)
		*slot = pos;
	if (cap->done)
		cap->done(b, pos);
	return true;
}

/* The clique capability must keep clear of this one, also if it is hidden. */
static void mark_used(struct build *b, const struct cap *cap, u32 pos)
{
	u32 room = room_at(b, pos);
	u32 len = cap_length(b, cap, pos, room);

	/* Of unknown length: up to the next one. */
	if (!cap || len < cap->len)
		len = room;
	memset(b->used + pos, 1, min(len, STD_SIZE - pos));
}

/* Second walk: the guest's list.  Return: where the last next pointer is. */
static u32 build_std(struct build *b)
{
	struct dlend_cfg *cfg = b->cfg;
	u32 pos = std_next(b, PCI_CAPABILITY_LIST);
	u32 link = PCI_CAPABILITY_LIST;
	unsigned int i;

	for (i = 0; i < b->nr_std; i++) {
		const struct cap *cap = find_cap(std_caps, ARRAY_SIZE(std_caps), b->snap[pos]);

		mark_used(b, cap, pos);
		if (show(b, cap, pos, 2)) {
			cfg->val[pos] = b->snap[pos];
			cfg->val[link] = pos;
			link = pos + PCI_CAP_LIST_NEXT;
		}
		pos = std_next(b, pos + PCI_CAP_LIST_NEXT);
	}
	return link;
}

static void build_ext(struct build *b)
{
	struct dlend_cfg *cfg = b->cfg;
	u32 pos = STD_SIZE, last = STD_SIZE;
	unsigned int i;

	/* Without the PCIe capability there is no extended space. */
	for (i = 0; cfg->pcie_pos && i < b->nr_ext; i++) {
		u32 head = get_unaligned_le32(b->snap + pos);
		const struct cap *cap = NULL;

		if (PCI_EXT_CAP_ID(head) <= 0xff)
			cap = find_cap(ext_caps, ARRAY_SIZE(ext_caps), PCI_EXT_CAP_ID(head));
		if (show(b, cap, pos, 4)) {
			u32 before = get_unaligned_le32(cfg->val + last);

			/*
			 * The list starts at 100h whatever is there: a hidden first one leaves a
			 * header with id 0 that points on.
			 */
			put_unaligned_le32(head & 0xfffff, cfg->val + pos);
			if (pos != last)
				put_unaligned_le32(before | pos << 20, cfg->val + last);
			last = pos;
		}
		pos = ext_next(b, pos);
	}
}

static bool bar_ok(const struct dlend_cfg_bar *bar, unsigned int index)
{
	u64 size = bar->size;

	if (!size)
		return true;
	if (size & (size - 1))
		return false;
	if (index == DLEND_ROM_INDEX)
		return size >= 2048 && size <= BIT(31);
	if (bar->io)
		return size >= 4;
	if (bar->is64)
		return size >= 16 && index + 1 < DLEND_NUM_BARS && !bar[1].size;
	return size >= 16 && size <= BIT(31);
}

static u32 bar_reg(unsigned int index)
{
	return index == DLEND_ROM_INDEX ? PCI_ROM_ADDRESS : PCI_BASE_ADDRESS_0 + 4 * index;
}

/* Port BARs do not exist yet: nothing could carry their accesses. */
static int build_bars(struct build *b, const struct dlend_cfg_desc *desc)
{
	struct dlend_cfg *cfg = b->cfg;
	unsigned int i;

	for (i = 0; i < DLEND_NUM_REGIONS; i++) {
		struct dlend_cfg_bar *bar = &cfg->bar[i];
		u64 mask;

		if (!bar_ok(&desc->bar[i], i))
			return -EINVAL;
		if (!desc->bar[i].size || (desc->bar[i].io && i != DLEND_ROM_INDEX))
			continue;
		*bar = desc->bar[i];
		mask = ~(bar->size - 1);
		if (i == DLEND_ROM_INDEX) {
			put_wmask(cfg, bar_reg(i), 4, mask | PCI_ROM_ADDRESS_ENABLE);
			continue;
		}
		put_wmask(cfg, bar_reg(i), 4, mask);
		cfg->val[bar_reg(i)] = (bar->is64 ? PCI_BASE_ADDRESS_MEM_TYPE_64 : 0) |
				       (bar->prefetch ? PCI_BASE_ADDRESS_MEM_PREFETCH : 0);
		if (bar->is64)
			put_wmask(cfg, bar_reg(i + 1), 4, mask >> 32);
	}
	return 0;
}

static void build_header(struct build *b, const struct dlend_cfg_desc *desc)
{
	struct dlend_cfg *cfg = b->cfg;

	apply(b, 0, PCI_STD_HEADER_SIZEOF, header_rules);
	memset(b->used, 1, PCI_STD_HEADER_SIZEOF);
	cfg->is_vf = desc->is_vf;
	if (desc->is_vf) {
		put_unaligned_le16(desc->vendor, cfg->val + PCI_VENDOR_ID);
		put_unaligned_le16(desc->device, cfg->val + PCI_DEVICE_ID);
		/* A VF has no such bit, but whoever drives it wants to see it set. */
		cfg->val[PCI_COMMAND] |= PCI_COMMAND_MEMORY;
	}
	if (desc->is_vf || desc->no_intx || cfg->val[PCI_INTERRUPT_PIN] > 4)
		cfg->val[PCI_INTERRUPT_PIN] = 0;
}

/* Last in the list, at @link. */
static int add_clique(struct build *b, u32 link, int clique)
{
	struct dlend_cfg *cfg = b->cfg;
	int at;

	if (clique == DLEND_CFG_CLIQUE_NONE)
		return 0;
	if (b->looped)
		return -ELOOP;
	at = dlend_clique_place(b->used, get_unaligned_le16(cfg->val + PCI_VENDOR_ID),
				get_unaligned_le16(cfg->val + PCI_DEVICE_ID));
	if (at < 0)
		return at;
	dlend_clique_write(cfg->val + at, clique);
	cfg->val[link] = at;
	cfg->clique_pos = at;
	return 0;
}

int dlend_cfg_init(struct dlend_cfg *cfg, const struct dlend_cfg_desc *desc)
{
	struct build b = { .cfg = cfg, .desc = desc, .snap = desc->snapshot };
	u32 link;
	int ret;

	memset(cfg, 0, sizeof(*cfg));
	if ((b.snap[PCI_HEADER_TYPE] & 0x7f) != PCI_HEADER_TYPE_NORMAL)
		return -EINVAL;
	if (desc->clique != DLEND_CFG_CLIQUE_NONE &&
	    (desc->clique < 0 || desc->clique > DLEND_CLIQUE_MAX))
		return -EINVAL;
	build_header(&b, desc);
	ret = build_bars(&b, desc);
	if (ret)
		return ret;
	scan(&b);
	link = build_std(&b);
	build_ext(&b);
	ret = add_clique(&b, link, desc->clique);
	if (cfg->val[PCI_CAPABILITY_LIST])
		cfg->val[PCI_STATUS] |= PCI_STATUS_CAP_LIST;
	memcpy(cfg->reset_val, cfg->val, sizeof(cfg->val));
	return ret;
}

void dlend_cfg_reset(struct dlend_cfg *cfg)
{
	memcpy(cfg->val, cfg->reset_val, sizeof(cfg->val));
}

void dlend_cfg_read(const struct dlend_cfg *cfg, u32 offset, void *buf, u32 len)
{
	u32 inside = offset < DLEND_CFG_SIZE ? min(len, DLEND_CFG_SIZE - offset) : 0;

	memcpy(buf, cfg->val + (inside ? offset : 0), inside);
	memset((u8 *)buf + inside, 0xff, len - inside);
}

static u16 command(const struct dlend_cfg *cfg)
{
	return get_unaligned_le16(cfg->val + PCI_COMMAND);
}

static u32 power_state(const u8 *val, const struct dlend_cfg *cfg)
{
	return cfg->pm_pos ? val[cfg->pm_pos + PCI_PM_CTRL] & PCI_PM_CTRL_STATE_MASK : 0;
}

/* What effects are judged by, as it was before the write. */
struct before {
	u16 command;
	u32 state;
	u32 readrq;
	u8 bars[PCI_ROM_ADDRESS + 4 - PCI_BASE_ADDRESS_0];
};

static void remember(const struct dlend_cfg *cfg, struct before *old)
{
	old->command = command(cfg);
	old->state = power_state(cfg->val, cfg);
	old->readrq = dlend_cfg_readrq(cfg);
	memcpy(old->bars, cfg->val + PCI_BASE_ADDRESS_0, sizeof(old->bars));
}

static u32 command_effects(u16 old, u16 new)
{
	u16 on = new & ~old, off = old & ~new;
	u32 effects = 0;

	if (on & PCI_COMMAND_MEMORY)
		effects |= DLEND_CFG_E_MSE_ON;
	if (off & PCI_COMMAND_MEMORY)
		effects |= DLEND_CFG_E_MSE_OFF;
	if (on & PCI_COMMAND_MASTER)
		effects |= DLEND_CFG_E_BME_ON;
	if (off & PCI_COMMAND_MASTER)
		effects |= DLEND_CFG_E_BME_OFF;
	if ((on | off) & PCI_COMMAND_INTX_DISABLE)
		effects |= DLEND_CFG_E_INTX;
	return effects;
}

static u32 bar_effects(const struct dlend_cfg *cfg, const struct before *old)
{
	u32 rom_before = get_unaligned_le32(old->bars + PCI_ROM_ADDRESS - PCI_BASE_ADDRESS_0);
	u32 rom_changes = get_unaligned_le32(cfg->val + PCI_ROM_ADDRESS) ^ rom_before;
	u32 effects = 0;

	if (memcmp(old->bars, cfg->val + PCI_BASE_ADDRESS_0, 4 * DLEND_NUM_BARS) ||
	    rom_changes & ~PCI_ROM_ADDRESS_ENABLE)
		effects |= DLEND_CFG_E_BAR;
	if (rom_changes & PCI_ROM_ADDRESS_ENABLE)
		effects |= DLEND_CFG_E_ROM;
	return effects;
}

/* A state that the device lacks, or no way leads to, is not taken (PCI PM 1.2 sec 3.2.4). */
static bool state_ok(const struct dlend_cfg *cfg, u32 from, u32 to)
{
	u16 pmc = get_unaligned_le16(cfg->val + cfg->pm_pos + PCI_PM_PMC);

	if (to == 1 && !(pmc & PCI_PM_CAP_D1))
		return false;
	if (to == 2 && !(pmc & PCI_PM_CAP_D2))
		return false;
	return !to || to >= from;
}

static u32 power_effects(struct dlend_cfg *cfg, u32 old)
{
	u32 new = power_state(cfg->val, cfg);
	u8 *ctrl = cfg->val + cfg->pm_pos + PCI_PM_CTRL;

	if (new == old)
		return 0;
	if (!state_ok(cfg, old, new)) {
		*ctrl = (*ctrl & ~PCI_PM_CTRL_STATE_MASK) | old;
		return 0;
	}
	if (new)
		return old ? 0 : DLEND_CFG_E_D3HOT;
	/*
	 * Back from D3hot without No_Soft_Reset, the device has forgotten everything.  What the
	 * guest reads is as it was: vfio-pci saves configuration space on the way to D3hot and
	 * restores it then (vfio_pci_set_power_state()), and VMMs rely on that.
	 */
	if (old == 3 && !(*ctrl & PCI_PM_CTRL_NO_SOFT_RESET))
		return DLEND_CFG_E_D0 | DLEND_CFG_E_FLR;
	return DLEND_CFG_E_D0;
}

/* The byte that a write of @len bytes at @offset puts at @at; 0 if it does not reach it. */
static u8 written(u32 at, u32 offset, const u8 *data, u32 len)
{
	return at >= offset && at - offset < len ? data[at - offset] : 0;
}

/* Bits that start a reset never stick, so they are looked for in what was written. */
static bool asks_reset(const struct dlend_cfg *cfg, u32 offset, const u8 *data, u32 len)
{
	u32 pcie = cfg->pcie_pos, af = cfg->af_pos;

	if (pcie && get_unaligned_le32(cfg->val + pcie + PCI_EXP_DEVCAP) & PCI_EXP_DEVCAP_FLR &&
	    written(pcie + PCI_EXP_DEVCTL + 1, offset, data, len) & (PCI_EXP_DEVCTL_BCR_FLR >> 8))
		return true;
	return af && cfg->val[af + PCI_AF_CAP] & PCI_AF_CAP_FLR &&
	       written(af + PCI_AF_CTRL, offset, data, len) & PCI_AF_CTRL_FLR;
}

u32 dlend_cfg_write(struct dlend_cfg *cfg, u32 offset, const void *buf, u32 len)
{
	const u8 *data = buf;
	struct before old;
	u32 effects, i;

	if (offset >= DLEND_CFG_SIZE)
		return 0;
	len = min(len, DLEND_CFG_SIZE - offset);
	remember(cfg, &old);
	for (i = 0; i < len; i++) {
		u32 at = offset + i;

		cfg->val[at] &= ~(cfg->wmask[at] | (cfg->w1c[at] & data[i]));
		cfg->val[at] |= cfg->wmask[at] & data[i];
	}
	effects = power_effects(cfg, old.state);
	if (asks_reset(cfg, offset, data, len)) {
		dlend_cfg_reset(cfg);
		/*
		 * The VMM answers reads of BARs itself, and does not forget them: the guest finds
		 * what it would restore, and does not write it.  vfio-pci keeps them, too.
		 */
		memcpy(cfg->val + PCI_BASE_ADDRESS_0, old.bars, sizeof(old.bars));
		/* A reset function is in D0, wherever it was going. */
		effects = DLEND_CFG_E_FLR | (old.state ? DLEND_CFG_E_D0 : 0);
	}
	if (dlend_cfg_readrq(cfg) != old.readrq)
		effects |= DLEND_CFG_E_READRQ;
	effects |= command_effects(old.command, command(cfg));
	return effects | bar_effects(cfg, &old);
}

bool dlend_cfg_mse(const struct dlend_cfg *cfg)
{
	return command(cfg) & PCI_COMMAND_MEMORY && !power_state(cfg->val, cfg);
}

bool dlend_cfg_bme(const struct dlend_cfg *cfg)
{
	return command(cfg) & PCI_COMMAND_MASTER;
}

bool dlend_cfg_mastering(const struct dlend_cfg *cfg)
{
	return dlend_cfg_bme(cfg) && !power_state(cfg->val, cfg);
}

bool dlend_cfg_intx_disabled(const struct dlend_cfg *cfg)
{
	return command(cfg) & PCI_COMMAND_INTX_DISABLE;
}

u32 dlend_cfg_readrq(const struct dlend_cfg *cfg)
{
	u32 pcie = cfg->pcie_pos;

	return pcie ? (get_unaligned_le16(cfg->val + pcie + PCI_EXP_DEVCTL) &
		       PCI_EXP_DEVCTL_READRQ) >> 12 : 0;
}

u64 dlend_cfg_bar_addr(const struct dlend_cfg *cfg, unsigned int index)
{
	u64 addr;

	if (index >= DLEND_NUM_REGIONS || !cfg->bar[index].size)
		return 0;
	addr = get_unaligned_le32(cfg->val + bar_reg(index));
	if (index == DLEND_ROM_INDEX)
		return addr & PCI_ROM_ADDRESS_MASK;
	if (cfg->bar[index].is64)
		addr |= (u64)get_unaligned_le32(cfg->val + bar_reg(index + 1)) << 32;
	return addr & ~0xfULL;
}

unsigned int dlend_cfg_msi(const struct dlend_cfg *cfg)
{
	u16 flags = get_unaligned_le16(cfg->val + cfg->msi_pos + PCI_MSI_FLAGS);

	return cfg->msi_pos ? 1u << ((flags & PCI_MSI_FLAGS_QMASK) >> 1) : 0;
}

unsigned int dlend_cfg_msix(const struct dlend_cfg *cfg)
{
	return cfg->msix_pos ? msix_vectors(cfg->val, cfg->msix_pos) : 0;
}

bool dlend_cfg_msix_range(const struct dlend_cfg *cfg, bool pba, unsigned int *bar, u32 *offset,
			  u32 *size)
{
	return cfg->msix_pos &&
	       msix_range(cfg, cfg->val, cfg->msix_pos, cfg->msix_entries, pba, bar, offset, size);
}
