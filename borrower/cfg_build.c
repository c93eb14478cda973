// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual configuration space: made once, from the lender's snapshot and the table of
 * capabilities (dlend/caps.h).
 *
 * The snapshot is not trusted: every walk over it is bounded.  Bytes of hidden capabilities read as
 * 0.  Must not know the device, the link, VFIO or locks.
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

#include "borrower/cfg_parts.h"
#include <dlend/clique.h>

/* What a build works on. */
struct dlend_cfg_build {
	struct dlend_cfg *cfg;
	const struct dlend_cfg_desc *desc;
	const u8 *snap;
	u8 used[DLEND_CFG_STD_SIZE];		/* not 0: the device has something there */
};

/* Apply the rules of one structure.  @len: where it ends; registers beyond do not exist. */
static void dlend_cfg_apply_rules(struct dlend_cfg_build *b, u32 pos, u32 len,
				  const struct dlend_cap_rule *rule)
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

static void dlend_cfg_put_wmask(struct dlend_cfg *cfg, u32 pos, u32 width, u32 mask)
{
	while (width--) {
		cfg->wmask[pos++] = mask;
		mask >>= 8;
	}
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
		dlend_cfg_put_wmask(cfg, pos + PCI_MSI_ADDRESS_HI, 4, ~0u);
	dlend_cfg_put_wmask(cfg, pos + (is64 ? PCI_MSI_DATA_64 : PCI_MSI_DATA_32), 2, 0xffff);
	if (flags & PCI_MSI_FLAGS_MASKBIT)
		dlend_cfg_put_wmask(cfg, pos + (is64 ? PCI_MSI_MASK_64 : PCI_MSI_MASK_32), 4,
				    ~0u >> (32 - (1u << order)));
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

/* Where the guest finds it, of a kind that there can be one of only.  NULL: of any other. */
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

/* May the guest see the capability at @pos, whose @len bytes make sense? */
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
	/* Rules describe a whole capability, unless it may be clipped: then it also holds data. */
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

/* Mark a capability's bytes, also of a hidden one: what dlend adds must keep clear of it. */
static void dlend_cfg_mark_used(struct dlend_cfg_build *b, u32 pos)
{
	memset(b->used + pos, 1, min(dlend_cap_owned(&b->cfg->caps, b->snap, pos),
				     DLEND_CFG_STD_SIZE - pos));
}

/*
 * What is in no capability and not 0 is a register of the device's own.  What dlend adds goes
 * elsewhere: drivers do not expect it where such a register is.
 */
static void dlend_cfg_mark_registers(struct dlend_cfg_build *b)
{
	u32 at;

	for (at = PCI_STD_HEADER_SIZEOF; at < DLEND_CFG_STD_SIZE; at++)
		b->used[at] |= b->snap[at];
}

/* Make the guest's list, in the device's order.  Return: where its last next pointer is. */
static u32 dlend_cfg_build_std(struct dlend_cfg_build *b)
{
	u32 link = PCI_CAPABILITY_LIST, i, pos;

	for (i = 0; i < b->cfg->caps.nr_std; i++) {
		pos = b->cfg->caps.std[i];
		dlend_cfg_mark_used(b, pos);
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

/* Of the device's own the guest first sees what the lender has found. */
static void dlend_cfg_show_own(struct dlend_cfg_build *b)
{
	u32 at;

	for (at = 0; at < DLEND_CFG_SIZE; at++)
		if (dlend_caps_own(&b->cfg->caps, at))
			b->cfg->val[at] = b->snap[at];
}

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

/* The guest sees no I/O port BARs: nothing could carry their accesses to the device. */
static int dlend_cfg_build_bars(struct dlend_cfg_build *b, const struct dlend_cfg_desc *desc)
{
	struct dlend_cfg *cfg = b->cfg;
	unsigned int i;

	for (i = 0; i < DLEND_NUM_REGIONS; i++) {
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

static void dlend_cfg_build_header(struct dlend_cfg_build *b, const struct dlend_cfg_desc *desc)
{
	struct dlend_cfg *cfg = b->cfg;

	dlend_cfg_apply_rules(b, 0, PCI_STD_HEADER_SIZEOF, dlend_cap_header_rules);
	memset(b->used, 1, PCI_STD_HEADER_SIZEOF);
	cfg->is_vf = desc->is_vf;
	if (desc->is_vf) {
		put_unaligned_le16(desc->vendor, cfg->val + PCI_VENDOR_ID);
		put_unaligned_le16(desc->device, cfg->val + PCI_DEVICE_ID);
		/* A VF has no such bit, but its drivers expect to read it as set. */
		cfg->val[PCI_COMMAND] |= PCI_COMMAND_MEMORY;
	}
	if (desc->is_vf || desc->no_intx || cfg->val[PCI_INTERRUPT_PIN] > 4)
		cfg->val[PCI_INTERRUPT_PIN] = 0;
}

/* Can the kernel of whoever has this space reset the device by it? */
static bool dlend_cfg_has_reset(const struct dlend_cfg *cfg)
{
	u32 pcie = cfg->pcie_pos, af = cfg->af_pos, pm = cfg->pm_pos;

	if (pcie && get_unaligned_le32(cfg->val + pcie + PCI_EXP_DEVCAP) & PCI_EXP_DEVCAP_FLR)
		return true;
	if (af && cfg->val[af + PCI_AF_CAP] & PCI_AF_CAP_FLR)
		return true;
	return pm && !(cfg->val[pm + PCI_PM_CTRL] & PCI_PM_CTRL_NO_SOFT_RESET);
}

/* Where the device has nothing, dlend has something. */
static void dlend_cfg_take_over(struct dlend_cfg *cfg, u32 at, u32 len)
{
	dlend_caps_disown(&cfg->caps, at, len);
	memset(cfg->val + at, 0, len);
}

/* Bytes of a capability that start at a multiple of 4. */
#define DLEND_CFG_AF_ROOM	ALIGN(PCI_CAP_AF_SIZEOF, 4)

/* Add AF's reset at the end of the list.  @link: the last next pointer.  Return: that one. */
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

/* Add the clique capability at the end of the list.  @link: the last next pointer. */
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
	dlend_clique_write(cfg->val + at, clique);
	cfg->val[link] = at;
	cfg->clique_pos = at;
	return 0;
}

int dlend_cfg_init(struct dlend_cfg *cfg, const struct dlend_cfg_desc *desc)
{
	struct dlend_cfg_build b = { .cfg = cfg, .desc = desc, .snap = desc->snapshot };
	u32 link;
	int ret;

	memset(cfg, 0, sizeof(*cfg));
	if ((b.snap[PCI_HEADER_TYPE] & 0x7f) != PCI_HEADER_TYPE_NORMAL)
		return -EINVAL;
	if (desc->clique != DLEND_CFG_CLIQUE_NONE &&
	    (desc->clique < 0 || desc->clique > DLEND_CLIQUE_MAX))
		return -EINVAL;
	dlend_cfg_build_header(&b, desc);
	ret = dlend_cfg_build_bars(&b, desc);
	if (ret)
		return ret;
	dlend_caps_find(&cfg->caps, b.snap, true);
	link = dlend_cfg_build_std(&b);
	dlend_cfg_build_ext(&b);
	dlend_cfg_show_own(&b);
	if (desc->keeps_state && cfg->pm_pos)
		cfg->val[cfg->pm_pos + PCI_PM_CTRL] |= PCI_PM_CTRL_NO_SOFT_RESET;
	dlend_cfg_mark_registers(&b);
	if (desc->add_reset)
		link = dlend_cfg_add_reset(&b, link);
	ret = dlend_cfg_add_clique(&b, link, desc->clique);
	if (cfg->val[PCI_CAPABILITY_LIST])
		cfg->val[PCI_STATUS] |= PCI_STATUS_CAP_LIST;
	memcpy(cfg->reset_val, cfg->val, sizeof(cfg->val));
	return ret;
}
