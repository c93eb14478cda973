// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual configuration space of a borrowed device: reads are answered from memory, and
 * dlend_cfg_write() returns what a write means for the device (DLEND_CFG_E_*).
 *
 * The space is made once, from the snapshot: the copy that the lender has read.  Must not know the
 * device, the link, VFIO or locks; the caller serialises.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/pci_regs.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <dlend/cfg.h>

/*
 * P2P clique capability (NVIDIA, "PCI Express Virtual Peer-to-Peer Approval Capability"): its
 * layout, and its offset.  QEMU puts it at the same offset.
 */
#define NVIDIA			0x10de
#define NVIDIA_KEPLER		0x0fc0	/* first device id of Kepler; older have no clique */
#define NVIDIA_TURING		0x1e00	/* first device id of Turing; all later ones are above */

/* Offsets, from NVIDIA's table */
#define PLACE_TURING		0xd4	/* Turing and later */
#define PLACE_KEPLER		0xc8	/* Kepler, Maxwell, Pascal, Volta */

/*
 * How the capability begins. By the last four bytes, dlend_clique_is() distinguishes it from other
 * vendor-specific capabilities.
 */
static const u8 signature[] = { PCI_CAP_ID_VNDR, 0, DLEND_CLIQUE_LEN, 'P', '2', 'P' };

bool dlend_clique_known(u16 vendor)
{
	return vendor == NVIDIA;
}

/*
 * Choose the offset of the clique capability.  NVIDIA reserves C8h or D4h, depending on the
 * generation.  If that is taken, the other offset is used, as QEMU does; for other vendors, D4h
 * comes first.  @used: not 0 for each byte where the device has a register, hidden or not.
 * Return: offset, -ENOSPC.
 */
static int dlend_clique_place(const u8 *used, u16 vendor, u16 device)
{
	bool old = vendor == NVIDIA && device >= NVIDIA_KEPLER && device < NVIDIA_TURING;
	unsigned int first = old ? PLACE_KEPLER : PLACE_TURING;
	unsigned int second = old ? PLACE_TURING : PLACE_KEPLER;

	if (!memchr_inv(used + first, 0, DLEND_CLIQUE_LEN))
		return first;
	return memchr_inv(used + second, 0, DLEND_CLIQUE_LEN) ? -ENOSPC : second;
}

void dlend_cfg_read(const struct dlend_cfg *cfg, u32 offset, void *buf, u32 len)
{
	u32 inside = offset < DLEND_CFG_SIZE ? min(len, DLEND_CFG_SIZE - offset) : 0;

	memcpy(buf, cfg->val + (inside ? offset : 0), inside);
	memset((u8 *)buf + inside, 0xff, len - inside);
}

int dlend_cfg_load(struct dlend_cfg *cfg, const u8 *val, u32 *at)
{
	for (u32 i = 0; i < DLEND_CFG_SIZE; i++) {
		if ((cfg->val[i] ^ val[i]) & ~(cfg->wmask[i] | cfg->w1c[i])) {
			*at = i;
			return -EINVAL;
		}
	}
	memcpy(cfg->val, val, DLEND_CFG_SIZE);
	return 0;
}

/* What a change of the Command register means: DLEND_CFG_E_*. */
static u32 dlend_cfg_command_effects(u16 old, u16 new)
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

/* What a write has changed in BARs and ROM: DLEND_CFG_E_*. @old: the header before the write. */
static u32 dlend_cfg_bar_effects(const struct dlend_cfg *cfg, const u8 *old)
{
	u32 rom_changes = get_unaligned_le32(cfg->val + PCI_ROM_ADDRESS) ^
			  get_unaligned_le32(old + PCI_ROM_ADDRESS);
	u32 effects = 0;

	if (memcmp(old + PCI_BASE_ADDRESS_0, cfg->val + PCI_BASE_ADDRESS_0, 4 * DLEND_NUM_BARS) ||
	    rom_changes & ~PCI_ROM_ADDRESS_ENABLE)
		effects |= DLEND_CFG_E_BAR;
	if (rom_changes & PCI_ROM_ADDRESS_ENABLE)
		effects |= DLEND_CFG_E_ROM;
	return effects;
}

/* May the power state change from D@from to D@to (PCI PM 1.2 sec 3.2.4)? */
static bool dlend_cfg_state_ok(const struct dlend_cfg *cfg, u32 from, u32 to)
{
	static const u16 need[] = { 0, PCI_PM_CAP_D1, PCI_PM_CAP_D2, 0 };
	u16 pmc = get_unaligned_le16(cfg->val + cfg->pm_pos + PCI_PM_PMC);

	return (pmc & need[to]) == need[to] && (!to || to >= from);
}

/*
 * What a write has changed in the power state: DLEND_CFG_E_*; a change that is not allowed is
 * undone. @old: state before the write.
 */
static u32 dlend_cfg_power_effects(struct dlend_cfg *cfg, u32 old)
{
	u32 new = dlend_cfg_power_state(cfg);
	u8 *ctrl = cfg->val + cfg->pm_pos + PCI_PM_CTRL;

	if (new == old)
		return 0;
	if (!dlend_cfg_state_ok(cfg, old, new)) {
		*ctrl = (*ctrl & ~PCI_PM_CTRL_STATE_MASK) | old;
		return 0;
	}
	if (new)
		return old ? 0 : DLEND_CFG_E_D3HOT;
	/*
	 * A device without No_Soft_Reset has lost its state when it comes back from D3hot.  But the
	 * guest reads the old values: vfio-pci saves configuration space on the way to D3hot and
	 * restores it on the way back (vfio_pci_set_power_state()), and VMMs rely on that.
	 */
	if (old == 3 && !(*ctrl & PCI_PM_CTRL_NO_SOFT_RESET))
		return DLEND_CFG_E_D0 | DLEND_CFG_E_FLR;
	return DLEND_CFG_E_D0;
}

static bool dlend_cfg_has_flr(const struct dlend_cfg *cfg)
{
	return cfg->pcie_pos && get_unaligned_le32(cfg->val + cfg->pcie_pos + PCI_EXP_DEVCAP) &
	       PCI_EXP_DEVCAP_FLR;
}

static bool dlend_cfg_has_af_flr(const struct dlend_cfg *cfg)
{
	return cfg->af_pos && cfg->val[cfg->af_pos + PCI_AF_CAP] & PCI_AF_CAP_FLR;
}

/* The byte that a write of @len bytes at @offset puts at @at; 0 if it puts none there. */
static u8 dlend_cfg_written_byte(u32 at, u32 offset, const u8 *data, u32 len)
{
	return at >= offset && at - offset < len ? data[at - offset] : 0;
}

/*
 * Does a write start a function level reset?  The bits that do so are never stored, so look for
 * them in the data of the write.
 */
static bool dlend_cfg_asks_reset(const struct dlend_cfg *cfg, u32 offset, const u8 *data, u32 len)
{
	u32 devctl = cfg->pcie_pos + PCI_EXP_DEVCTL, af = cfg->af_pos + PCI_AF_CTRL;

	return (dlend_cfg_has_flr(cfg) &&
		dlend_cfg_written_byte(devctl + 1, offset, data, len) &
		(PCI_EXP_DEVCTL_BCR_FLR >> 8)) ||
	       (dlend_cfg_has_af_flr(cfg) &&
		dlend_cfg_written_byte(af, offset, data, len) & PCI_AF_CTRL_FLR);
}

/*
 * Does a write start a transfer of a word of VPD?  As in a device, a write of the upper byte of the
 * address, which has the flag, does.
 */
static bool dlend_cfg_asks_vpd(const struct dlend_cfg *cfg, u32 offset, u32 len)
{
	u32 at = cfg->vpd_pos + PCI_VPD_ADDR + 1;

	return cfg->vpd_pos && at >= offset && at - offset < len;
}

u32 dlend_cfg_write(struct dlend_cfg *cfg, u32 offset, const void *buf, u32 len)
{
	u32 state = dlend_cfg_power_state(cfg), readrq = dlend_cfg_readrq(cfg);
	u8 old[PCI_STD_HEADER_SIZEOF];
	const u8 *data = buf;
	u32 effects, i;

	if (offset >= DLEND_CFG_SIZE)
		return 0;
	len = min(len, DLEND_CFG_SIZE - offset);
	memcpy(old, cfg->val, sizeof(old));
	for (i = 0; i < len; i++) {
		u32 at = offset + i;

		cfg->val[at] &= ~(cfg->wmask[at] | (cfg->w1c[at] & data[i]));
		cfg->val[at] |= cfg->wmask[at] & data[i];
	}
	effects = dlend_cfg_power_effects(cfg, state);
	if (dlend_cfg_asks_reset(cfg, offset, data, len)) {
		dlend_cfg_reset(cfg);
		/*
		 * Keep the BARs, as vfio-pci does.  The VMM itself answers reads of BARs with the
		 * old values, so the guest sees no need to write them again.
		 */
		memcpy(cfg->val + PCI_BASE_ADDRESS_0, old + PCI_BASE_ADDRESS_0,
		       PCI_ROM_ADDRESS + 4 - PCI_BASE_ADDRESS_0);
		/* A reset ends in D0, whatever power state the same write asked for. */
		effects = DLEND_CFG_E_FLR | (state ? DLEND_CFG_E_D0 : 0);
	} else if (dlend_cfg_asks_vpd(cfg, offset, len)) {
		effects |= DLEND_CFG_E_VPD;
	}
	if (dlend_cfg_readrq(cfg) != readrq)
		effects |= DLEND_CFG_E_READRQ;
	effects |= dlend_cfg_command_effects(get_unaligned_le16(old + PCI_COMMAND),
					     dlend_cfg_command(cfg));
	return effects | dlend_cfg_bar_effects(cfg, old);
}

u16 dlend_cfg_vpd(const struct dlend_cfg *cfg, u32 *data)
{
	*data = get_unaligned_le32(cfg->val + cfg->vpd_pos + PCI_VPD_DATA);
	return get_unaligned_le16(cfg->val + cfg->vpd_pos + PCI_VPD_ADDR);
}

void dlend_cfg_vpd_done(struct dlend_cfg *cfg, u16 addr, u32 data)
{
	u8 *reg = cfg->val + cfg->vpd_pos + PCI_VPD_ADDR;

	if (!cfg->vpd_pos || get_unaligned_le16(reg) != addr)
		return;
	if (!(addr & PCI_VPD_ADDR_F))
		put_unaligned_le32(data, cfg->val + cfg->vpd_pos + PCI_VPD_DATA);
	put_unaligned_le16(addr ^ PCI_VPD_ADDR_F, reg);
}

u32 dlend_cfg_live(const struct dlend_cfg *cfg, u32 offset, u32 len)
{
	u32 most, n;

	if (offset >= DLEND_CFG_SIZE)
		return 0;
	most = min3(len, 4u, DLEND_CFG_SIZE - offset);
	for (n = 0; n < most; n++)
		if (!dlend_caps_own(&cfg->caps, offset + n))
			break;
	if (n == 4 && !(offset & 3))
		return 4;
	if (n >= 2 && !(offset & 1))
		return 2;
	return min(n, 1u);
}

u32 dlend_cfg_readrq(const struct dlend_cfg *cfg)
{
	u32 pcie = cfg->pcie_pos;

	return pcie ? (get_unaligned_le16(cfg->val + pcie + PCI_EXP_DEVCTL) &
		       PCI_EXP_DEVCTL_READRQ) >> 12 : 0;
}

/* Offset of the register of a BAR, or of the ROM (DLEND_ROM_INDEX). */
static u32 dlend_cfg_bar_reg(unsigned int index)
{
	return index == DLEND_ROM_INDEX ? PCI_ROM_ADDRESS : PCI_BASE_ADDRESS_0 + 4 * index;
}

u64 dlend_cfg_bar_addr(const struct dlend_cfg *cfg, unsigned int index)
{
	u64 addr;

	if (index >= DLEND_NUM_REGIONS || !cfg->bar[index].size)
		return 0;
	addr = get_unaligned_le32(cfg->val + dlend_cfg_bar_reg(index));
	if (index == DLEND_ROM_INDEX)
		return addr & PCI_ROM_ADDRESS_MASK;
	if (cfg->bar[index].is64)
		addr |= (u64)get_unaligned_le32(cfg->val + dlend_cfg_bar_reg(index + 1)) << 32;
	return addr & ~0xfULL;
}

unsigned int dlend_cfg_msi(const struct dlend_cfg *cfg)
{
	u16 flags = get_unaligned_le16(cfg->val + cfg->msi_pos + PCI_MSI_FLAGS);

	return cfg->msi_pos ? 1u << ((flags & PCI_MSI_FLAGS_QMASK) >> 1) : 0;
}

static u32 dlend_cfg_msix_vectors(const u8 *space, u32 pos)
{
	return (get_unaligned_le16(space + pos + PCI_MSIX_FLAGS) & PCI_MSIX_FLAGS_QSIZE) + 1;
}

unsigned int dlend_cfg_msix(const struct dlend_cfg *cfg)
{
	return cfg->msix_pos ? dlend_cfg_msix_vectors(cfg->val, cfg->msix_pos) : 0;
}

/*
 * Find the table (@pba false) or the Pending Bit Array (@pba true) of the MSI-X capability @cap.
 * Return: false if it is not inside a memory BAR.
 */
static bool dlend_cfg_msix_part(const struct dlend_cfg *cfg, const u8 *cap, u32 vectors, bool pba,
				struct dlend_cfg_part *part)
{
	u32 reg = get_unaligned_le32(cap + (pba ? PCI_MSIX_PBA : PCI_MSIX_TABLE));

	part->bar = reg & PCI_MSIX_TABLE_BIR;
	part->offset = reg & PCI_MSIX_TABLE_OFFSET;
	part->size = pba ? DIV_ROUND_UP(vectors, 64) * 8 : vectors * PCI_MSIX_ENTRY_SIZE;
	return part->bar < DLEND_NUM_BARS &&
	       (u64)part->offset + part->size <= cfg->bar[part->bar].size;
}

bool dlend_cfg_msix_range(const struct dlend_cfg *cfg, bool pba, struct dlend_cfg_part *part)
{
	return cfg->msix_pos && dlend_cfg_msix_part(cfg, cfg->val + cfg->msix_pos,
						    cfg->msix_entries, pba, part);
}

/*
 * How the space is made: from the lender's snapshot and the table of capabilities (dlend/caps.h).
 *
 * The snapshot is not trusted: every walk over it is bounded.  Bytes of hidden capabilities read as
 * 0.
 */

/* What the steps of dlend_cfg_init() share. */
struct dlend_cfg_build {
	struct dlend_cfg *cfg;
	const struct dlend_cfg_desc *desc;
	const u8 *snap;
	u8 used[DLEND_CFG_STD_SIZE];		/* not 0: the device has a register there */
};

/*
 * Set value, write mask and write-1-to-clear mask of the registers of one structure at @pos.
 * Registers beyond its @len bytes do not exist.
 */
static void dlend_cfg_apply_rules(struct dlend_cfg_build *b, u32 pos, u32 len,
				  const struct dlend_cap_rule *rule)
{
	struct dlend_cfg *cfg = b->cfg;

	for (; rule && rule->width; rule++) {
		if (rule->at + rule->width > len)
			continue;
		for (unsigned int k = 0; k < rule->width; k++) {
			u32 at = pos + rule->at + k;

			cfg->val[at] = b->snap[at] & (rule->show >> 8 * k);
			cfg->wmask[at] = rule->write >> 8 * k;
			cfg->w1c[at] = rule->w1c >> 8 * k;
		}
	}
}

/* Set the write mask of @width bytes, little endian. */
static void dlend_cfg_put_wmask(struct dlend_cfg *cfg, u32 pos, u32 width, u32 mask)
{
	while (width--) {
		cfg->wmask[pos++] = mask;
		mask >>= 8;
	}
}

/* May the guest see the MSI-X capability at @pos? Its table and its PBA must be in memory BARs. */
static bool dlend_cfg_msix_admit(const struct dlend_cfg_build *b, u32 pos)
{
	u32 vectors = dlend_cfg_msix_vectors(b->snap, pos);
	struct dlend_cfg_part part;

	return !b->desc->no_msix &&
	       dlend_cfg_msix_part(b->cfg, b->snap + pos, vectors, false /* table */, &part) &&
	       dlend_cfg_msix_part(b->cfg, b->snap + pos, vectors, true /* PBA */, &part);
}

/*
 * Complete the MSI capability at @pos: limit its vectors, and set write masks. The offsets of data,
 * mask and upper half of the address depend on the variant.
 */
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
		dlend_cfg_put_wmask(cfg, pos + PCI_MSI_ADDRESS_HI, 4, ~0u);
	dlend_cfg_put_wmask(cfg, pos + (is64 ? PCI_MSI_DATA_64 : PCI_MSI_DATA_32), 2, 0xffff);
	if (flags & PCI_MSI_FLAGS_MASKBIT)
		dlend_cfg_put_wmask(cfg, pos + (is64 ? PCI_MSI_MASK_64 : PCI_MSI_MASK_32), 4,
				    ~0u >> (32 - (1u << order)));
}

/*
 * Complete the MSI-X capability at @pos: the guest may see fewer vectors, but the table keeps its
 * offset and its size.
 */
static void dlend_cfg_msix_done(struct dlend_cfg_build *b, u32 pos)
{
	u16 flags = get_unaligned_le16(b->cfg->val + pos + PCI_MSIX_FLAGS);

	b->cfg->msix_entries = dlend_cfg_msix_vectors(b->snap, pos);
	if (b->desc->max_msix && b->desc->max_msix < b->cfg->msix_entries)
		put_unaligned_le16((flags & ~PCI_MSIX_FLAGS_QSIZE) | (b->desc->max_msix - 1),
				   b->cfg->val + pos + PCI_MSIX_FLAGS);
}

/*
 * Return: the member of @cfg for a capability's offset, if it is the only one of its kind; or NULL.
 */
static u8 *dlend_cfg_slot(struct dlend_cfg *cfg, u32 pos, u16 id)
{
	if (pos >= DLEND_CFG_STD_SIZE)
		return NULL;
	switch (id) {
	case PCI_CAP_ID_PM:
		return &cfg->pm_pos;
	case PCI_CAP_ID_VPD:
		return &cfg->vpd_pos;
	case PCI_CAP_ID_MSI:
		return &cfg->msi_pos;
	case PCI_CAP_ID_EXP:
		return &cfg->pcie_pos;
	case PCI_CAP_ID_MSIX:
		return &cfg->msix_pos;
	case PCI_CAP_ID_AF:
		return &cfg->af_pos;
	}
	return NULL;
}

/* May the guest see the capability at @pos?  @len: its bytes; 0: it makes no sense. */
static bool dlend_cfg_admit(const struct dlend_cfg_build *b, const struct dlend_cap *cap, u32 pos,
			    u32 len)
{
	const u8 *slot = dlend_cfg_slot(b->cfg, pos, cap->id);

	if (!(cap->flags & DLEND_CAP_SHOWN) || !len || (slot && *slot))
		return false;
	if (len > dlend_caps_room(&b->cfg->caps, pos) && !(cap->flags & DLEND_CAP_CLIP))
		return false;
	if (slot == &b->cfg->msi_pos)
		return !b->desc->no_msi;
	return slot != &b->cfg->msix_pos || dlend_cfg_msix_admit(b, pos);
}

/*
 * Show a capability, if the guest may see it.  The caller fills in the first @head bytes (id and
 * next pointer, or the extended header).  Return: is it shown?
 */
static bool dlend_cfg_show_cap(struct dlend_cfg_build *b, u32 pos, u32 head)
{
	const struct dlend_cap *cap = dlend_cap_at(b->snap, pos);
	u32 len = dlend_cap_bytes(&b->cfg->caps, b->snap, pos);
	u8 *slot = dlend_cfg_slot(b->cfg, pos, cap->id);

	if (!dlend_cfg_admit(b, cap, pos, len))
		return false;
	len = min(len, dlend_caps_room(&b->cfg->caps, pos));
	/* Rules describe a whole capability, but not the data of one that may be clipped. */
	if (!cap->rules || cap->flags & DLEND_CAP_CLIP)
		memcpy(b->cfg->val + pos + head, b->snap + pos + head, len - head);
	dlend_cfg_apply_rules(b, pos, len, cap->rules);
	if (slot)
		*slot = pos;
	if (slot == &b->cfg->msi_pos)
		dlend_cfg_msi_done(b, pos);
	if (slot == &b->cfg->msix_pos)
		dlend_cfg_msix_done(b, pos);
	return true;
}

/*
 * Make the list of standard capabilities that the guest sees, in the device's order.  Return: the
 * offset of the last next pointer.
 */
static u32 dlend_cfg_build_std(struct dlend_cfg_build *b)
{
	u32 link = PCI_CAPABILITY_LIST, i, pos;

	for (i = 0; i < b->cfg->caps.nr_std; i++) {
		pos = b->cfg->caps.std[i];
		/* Also if it is hidden: dlend must not add a capability there. */
		memset(b->used + pos, 1, min(dlend_cap_owned(&b->cfg->caps, b->snap, pos),
					     DLEND_CFG_STD_SIZE - pos));
		if (!dlend_cfg_show_cap(b, pos, 2))
			continue;
		b->cfg->val[pos] = b->snap[pos];
		b->cfg->val[link] = pos;
		link = pos + PCI_CAP_LIST_NEXT;
	}
	return link;
}

static void dlend_cfg_build_ext(struct dlend_cfg_build *b)
{
	u32 pos = DLEND_CFG_STD_SIZE, last = DLEND_CFG_STD_SIZE, head, before;
	struct dlend_cfg *cfg = b->cfg;
	u32 nr = cfg->caps.nr_ext;

	/* If the guest does not see the PCIe capability, it has no extended space. */
	for (; cfg->pcie_pos && nr; nr--, pos = PCI_EXT_CAP_NEXT(head)) {
		head = get_unaligned_le32(b->snap + pos);
		if (!dlend_cfg_show_cap(b, pos, 4))
			continue;
		before = get_unaligned_le32(cfg->val + last);
		/*
		 * The list always starts at 100h.  If the first capability is hidden, a header with
		 * id 0 stands there and points to the next one.
		 */
		put_unaligned_le32(head & 0xfffff, cfg->val + pos);
		if (pos != last)
			put_unaligned_le32(before | pos << 20, cfg->val + last);
		last = pos;
	}
}

/* Does a BAR of the description make sense? @bar: in an array: bar[1] is the next one. */
static bool dlend_cfg_bar_ok(const struct dlend_cfg_bar *bar, unsigned int index)
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

/* I/O port BARs are left out: accesses to them cannot reach the device. Return: 0, -EINVAL. */
static int dlend_cfg_build_bars(struct dlend_cfg_build *b)
{
	const struct dlend_cfg_desc *desc = b->desc;
	struct dlend_cfg *cfg = b->cfg;

	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		struct dlend_cfg_bar *bar = &cfg->bar[i];
		u64 mask;

		if (!dlend_cfg_bar_ok(&desc->bar[i], i))
			return -EINVAL;
		if (!desc->bar[i].size || (desc->bar[i].io && i != DLEND_ROM_INDEX))
			continue;
		*bar = desc->bar[i];
		mask = ~(bar->size - 1);
		if (i == DLEND_ROM_INDEX) {
			dlend_cfg_put_wmask(cfg, dlend_cfg_bar_reg(i), 4,
					    mask | PCI_ROM_ADDRESS_ENABLE);
			continue;
		}
		dlend_cfg_put_wmask(cfg, dlend_cfg_bar_reg(i), 4, mask);
		cfg->val[dlend_cfg_bar_reg(i)] = (bar->is64 ? PCI_BASE_ADDRESS_MEM_TYPE_64 : 0) |
				       (bar->prefetch ? PCI_BASE_ADDRESS_MEM_PREFETCH : 0);
		if (bar->is64)
			dlend_cfg_put_wmask(cfg, dlend_cfg_bar_reg(i + 1), 4, mask >> 32);
	}
	return 0;
}

/* Make the header, without the BARs. */
static void dlend_cfg_build_header(struct dlend_cfg_build *b)
{
	const struct dlend_cfg_desc *desc = b->desc;
	struct dlend_cfg *cfg = b->cfg;

	dlend_cfg_apply_rules(b, 0, PCI_STD_HEADER_SIZEOF, dlend_cap_header_rules);
	memset(b->used, 1, PCI_STD_HEADER_SIZEOF);
	if (desc->is_vf) {
		put_unaligned_le16(desc->vendor, cfg->val + PCI_VENDOR_ID);
		put_unaligned_le16(desc->device, cfg->val + PCI_DEVICE_ID);
		/* A VF has no such bit, but its drivers expect to read it as set. */
		cfg->val[PCI_COMMAND] |= PCI_COMMAND_MEMORY;
	}
	if (desc->is_vf || desc->no_intx || cfg->val[PCI_INTERRUPT_PIN] > 4)
		cfg->val[PCI_INTERRUPT_PIN] = 0;
}

/* Can a kernel reset the device by a register of this space? */
static bool dlend_cfg_has_reset(const struct dlend_cfg *cfg)
{
	u32 pm = cfg->pm_pos;

	return dlend_cfg_has_flr(cfg) || dlend_cfg_has_af_flr(cfg) ||
	       (pm && !(cfg->val[pm + PCI_PM_CTRL] & PCI_PM_CTRL_NO_SOFT_RESET));
}

/* Make room for a capability that dlend adds, where the device has no register. */
static void dlend_cfg_take_over(struct dlend_cfg *cfg, u32 at, u32 len)
{
	dlend_caps_disown(&cfg->caps, at, len);
	memset(cfg->val + at, 0, len);
}

/* Capabilities start at multiples of 4. */
#define DLEND_CFG_AF_ROOM	ALIGN(PCI_CAP_AF_SIZEOF, 4)

/*
 * If the device has no reset, add an Advanced Features capability, which has one, to the list, if
 * there is room. @link: offset of the last next pointer. Return: that of the last one afterwards.
 */
static u32 dlend_cfg_add_reset(struct dlend_cfg_build *b, u32 link)
{
	struct dlend_cfg *cfg = b->cfg;
	u32 at = PCI_STD_HEADER_SIZEOF;

	if (cfg->af_pos || dlend_cfg_has_reset(cfg))
		return link;
	while (memchr_inv(b->used + at, 0, DLEND_CFG_AF_ROOM)) {
		at += 4;
		if (at + DLEND_CFG_AF_ROOM > DLEND_CFG_STD_SIZE)
			return link;
	}
	memset(b->used + at, 1, DLEND_CFG_AF_ROOM);
	dlend_cfg_take_over(cfg, at, DLEND_CFG_AF_ROOM);
	cfg->val[at] = PCI_CAP_ID_AF;
	cfg->val[at + PCI_AF_LENGTH] = PCI_CAP_AF_SIZEOF;
	cfg->val[at + PCI_AF_CAP] = PCI_AF_CAP_TP | PCI_AF_CAP_FLR;
	cfg->val[link] = at;
	cfg->af_pos = at;
	return at + PCI_CAP_LIST_NEXT;
}

/*
 * Add the clique capability to the list, unless @clique is DLEND_CFG_CLIQUE_NONE. @link: offset of
 * the last next pointer. Return: 0; -ELOOP the list of capabilities is looped; -ENOSPC.
 */
static int dlend_cfg_add_clique(struct dlend_cfg_build *b, u32 link, int clique)
{
	struct dlend_cfg *cfg = b->cfg;
	int at;

	if (clique == DLEND_CFG_CLIQUE_NONE)
		return 0;
	if (cfg->caps.std_broken)
		return -ELOOP;
	at = dlend_clique_place(b->used, get_unaligned_le16(cfg->val + PCI_VENDOR_ID),
				get_unaligned_le16(cfg->val + PCI_DEVICE_ID));
	if (at < 0)
		return at;
	dlend_cfg_take_over(cfg, at, DLEND_CLIQUE_LEN);
	memcpy(cfg->val + at, signature, sizeof(signature));
	cfg->val[at + 6] = clique << 3;	/* version 0 in the low three bits */
	cfg->val[link] = at;
	cfg->clique_pos = at;
	return 0;
}

int dlend_cfg_init(struct dlend_cfg *cfg, const struct dlend_cfg_desc *desc)
{
	struct dlend_cfg_build b = { .cfg = cfg, .desc = desc, .snap = desc->snapshot };
	u32 link, at;
	int ret;

	memset(cfg, 0, sizeof(*cfg));
	if ((b.snap[PCI_HEADER_TYPE] & 0x7f) != PCI_HEADER_TYPE_NORMAL)
		return -EINVAL;
	if (desc->clique != DLEND_CFG_CLIQUE_NONE &&
	    (desc->clique < 0 || desc->clique > DLEND_CLIQUE_MAX))
		return -EINVAL;
	dlend_cfg_build_header(&b);
	ret = dlend_cfg_build_bars(&b);
	if (ret)
		return ret;
	dlend_caps_find(&cfg->caps, b.snap, true /* gaps */);
	link = dlend_cfg_build_std(&b);
	dlend_cfg_build_ext(&b);
	/* Registers of the device's own start with the values that the lender has read. */
	for (at = 0; at < DLEND_CFG_SIZE; at++)
		if (dlend_caps_own(&cfg->caps, at))
			cfg->val[at] = b.snap[at];
	if (desc->keeps_state && cfg->pm_pos)
		cfg->val[cfg->pm_pos + PCI_PM_CTRL] |= PCI_PM_CTRL_NO_SOFT_RESET;
	/*
	 * A byte that is in no capability and not 0 belongs to a register of the device's own.
	 * Drivers do not expect a capability there.
	 */
	for (at = PCI_STD_HEADER_SIZEOF; at < DLEND_CFG_STD_SIZE; at++)
		b.used[at] |= b.snap[at];
	if (desc->add_reset)
		link = dlend_cfg_add_reset(&b, link);
	ret = dlend_cfg_add_clique(&b, link, desc->clique);
	if (cfg->val[PCI_CAPABILITY_LIST])
		cfg->val[PCI_STATUS] |= PCI_STATUS_CAP_LIST;
	memcpy(cfg->reset_val, cfg->val, sizeof(cfg->val));
	return ret;
}
