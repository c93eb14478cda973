// SPDX-License-Identifier: GPL-2.0
/*
 * Virtual configuration space of a borrowed device: reads are answered from memory, and
 * dlend_cfg_write() tells its caller what a write means for the device.
 *
 * The space is made by cfg_build.c.  Must not know the device, the link, VFIO or locks.
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

void dlend_cfg_save(const struct dlend_cfg *cfg, u8 *val)
{
	memcpy(val, cfg->val, DLEND_CFG_SIZE);
}

int dlend_cfg_load(struct dlend_cfg *cfg, const u8 *val, u32 *at)
{
	u32 i;

	for (i = 0; i < DLEND_CFG_SIZE; i++) {
		if ((cfg->val[i] ^ val[i]) & ~(cfg->wmask[i] | cfg->w1c[i])) {
			*at = i;
			return -EINVAL;
		}
	}
	memcpy(cfg->val, val, DLEND_CFG_SIZE);
	return 0;
}

static u16 dlend_cfg_command(const struct dlend_cfg *cfg)
{
	return get_unaligned_le16(cfg->val + PCI_COMMAND);
}

static u32 dlend_cfg_power_state(const u8 *val, const struct dlend_cfg *cfg)
{
	return cfg->pm_pos ? val[cfg->pm_pos + PCI_PM_CTRL] & PCI_PM_CTRL_STATE_MASK : 0;
}

/* The registers that the effects of a write depend on, as they were before it. */
struct dlend_cfg_before {
	u16 command;
	u32 state;
	u32 readrq;
	u8 bars[PCI_ROM_ADDRESS + 4 - PCI_BASE_ADDRESS_0];
};

static void dlend_cfg_remember(const struct dlend_cfg *cfg, struct dlend_cfg_before *old)
{
	old->command = dlend_cfg_command(cfg);
	old->state = dlend_cfg_power_state(cfg->val, cfg);
	old->readrq = dlend_cfg_readrq(cfg);
	memcpy(old->bars, cfg->val + PCI_BASE_ADDRESS_0, sizeof(old->bars));
}

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

static u32 dlend_cfg_bar_effects(const struct dlend_cfg *cfg, const struct dlend_cfg_before *old)
{
	u32 rom_before = get_unaligned_le32(old->bars + (PCI_ROM_ADDRESS - PCI_BASE_ADDRESS_0));
	u32 rom_changes = get_unaligned_le32(cfg->val + PCI_ROM_ADDRESS) ^ rom_before;
	u32 effects = 0;

	if (memcmp(old->bars, cfg->val + PCI_BASE_ADDRESS_0, 4 * DLEND_NUM_BARS) ||
	    rom_changes & ~PCI_ROM_ADDRESS_ENABLE)
		effects |= DLEND_CFG_E_BAR;
	if (rom_changes & PCI_ROM_ADDRESS_ENABLE)
		effects |= DLEND_CFG_E_ROM;
	return effects;
}

/* The device enters no state that it lacks or has no way to (PCI PM 1.2 sec 3.2.4). */
static bool dlend_cfg_state_ok(const struct dlend_cfg *cfg, u32 from, u32 to)
{
	u16 pmc = get_unaligned_le16(cfg->val + cfg->pm_pos + PCI_PM_PMC);

	if (to == 1 && !(pmc & PCI_PM_CAP_D1))
		return false;
	if (to == 2 && !(pmc & PCI_PM_CAP_D2))
		return false;
	return !to || to >= from;
}

static u32 dlend_cfg_power_effects(struct dlend_cfg *cfg, u32 old)
{
	u32 new = dlend_cfg_power_state(cfg->val, cfg);
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
	 * guest reads what was there before: vfio-pci saves configuration space on the way to D3hot
	 * and restores it then (vfio_pci_set_power_state()), and VMMs rely on that.
	 */
	if (old == 3 && !(*ctrl & PCI_PM_CTRL_NO_SOFT_RESET))
		return DLEND_CFG_E_D0 | DLEND_CFG_E_FLR;
	return DLEND_CFG_E_D0;
}

/* The byte that a write of @len bytes at @offset puts at @at; 0 if it does not reach it. */
static u8 dlend_cfg_written_byte(u32 at, u32 offset, const u8 *data, u32 len)
{
	return at >= offset && at - offset < len ? data[at - offset] : 0;
}

/* Bits that start a reset are never stored, so look for them in the data of the write. */
static bool dlend_cfg_asks_reset(const struct dlend_cfg *cfg, u32 offset, const u8 *data, u32 len)
{
	u32 pcie = cfg->pcie_pos, af = cfg->af_pos;

	if (pcie && get_unaligned_le32(cfg->val + pcie + PCI_EXP_DEVCAP) & PCI_EXP_DEVCAP_FLR &&
	    dlend_cfg_written_byte(pcie + PCI_EXP_DEVCTL + 1, offset, data, len) &
	    (PCI_EXP_DEVCTL_BCR_FLR >> 8))
		return true;
	return af && cfg->val[af + PCI_AF_CAP] & PCI_AF_CAP_FLR &&
	       dlend_cfg_written_byte(af + PCI_AF_CTRL, offset, data, len) & PCI_AF_CTRL_FLR;
}

/* As in a device, the upper byte of the address, which has the flag, begins to move a word. */
static bool dlend_cfg_asks_vpd(const struct dlend_cfg *cfg, u32 offset, u32 len)
{
	u32 at = cfg->vpd_pos + PCI_VPD_ADDR + 1;

	return cfg->vpd_pos && at >= offset && at - offset < len;
}

u32 dlend_cfg_write(struct dlend_cfg *cfg, u32 offset, const void *buf, u32 len)
{
	const u8 *data = buf;
	struct dlend_cfg_before old;
	u32 effects, i;

	if (offset >= DLEND_CFG_SIZE)
		return 0;
	len = min(len, DLEND_CFG_SIZE - offset);
	dlend_cfg_remember(cfg, &old);
	for (i = 0; i < len; i++) {
		u32 at = offset + i;

		cfg->val[at] &= ~(cfg->wmask[at] | (cfg->w1c[at] & data[i]));
		cfg->val[at] |= cfg->wmask[at] & data[i];
	}
	effects = dlend_cfg_power_effects(cfg, old.state);
	if (dlend_cfg_asks_reset(cfg, offset, data, len)) {
		dlend_cfg_reset(cfg);
		/*
		 * Keep the BARs, as vfio-pci does. The VMM answers reads of BARs itself and keeps
		 * their values: so the guest finds the values that it would restore, and does not
		 * write them.
		 */
		memcpy(cfg->val + PCI_BASE_ADDRESS_0, old.bars, sizeof(old.bars));
		/* A reset function is in D0, whatever state the same write asked for. */
		effects = DLEND_CFG_E_FLR | (old.state ? DLEND_CFG_E_D0 : 0);
	} else if (dlend_cfg_asks_vpd(cfg, offset, len)) {
		effects |= DLEND_CFG_E_VPD;
	}
	if (dlend_cfg_readrq(cfg) != old.readrq)
		effects |= DLEND_CFG_E_READRQ;
	effects |= dlend_cfg_command_effects(old.command, dlend_cfg_command(cfg));
	return effects | dlend_cfg_bar_effects(cfg, &old);
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

bool dlend_cfg_mse(const struct dlend_cfg *cfg)
{
	return dlend_cfg_command(cfg) & PCI_COMMAND_MEMORY && !dlend_cfg_power_state(cfg->val, cfg);
}

bool dlend_cfg_bme(const struct dlend_cfg *cfg)
{
	return dlend_cfg_command(cfg) & PCI_COMMAND_MASTER;
}

bool dlend_cfg_mastering(const struct dlend_cfg *cfg)
{
	return dlend_cfg_bme(cfg) && !dlend_cfg_power_state(cfg->val, cfg);
}

bool dlend_cfg_intx_disabled(const struct dlend_cfg *cfg)
{
	return dlend_cfg_command(cfg) & PCI_COMMAND_INTX_DISABLE;
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

u32 dlend_cfg_bar_reg(unsigned int index)
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

u32 dlend_cfg_msix_vectors(const u8 *space, u32 pos)
{
	return (get_unaligned_le16(space + pos + PCI_MSIX_FLAGS) & PCI_MSIX_FLAGS_QSIZE) + 1;
}

unsigned int dlend_cfg_msix(const struct dlend_cfg *cfg)
{
	return cfg->msix_pos ? dlend_cfg_msix_vectors(cfg->val, cfg->msix_pos) : 0;
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

bool dlend_cfg_msix_range(const struct dlend_cfg *cfg, bool pba, unsigned int *bar, u32 *offset,
			  u32 *size)
{
	u32 at = cfg->msix_pos + (pba ? PCI_MSIX_PBA : PCI_MSIX_TABLE);
	struct dlend_cfg_part part;

	if (!cfg->msix_pos || !dlend_cfg_msix_part(cfg, get_unaligned_le32(cfg->val + at),
						   cfg->msix_entries, pba, &part))
		return false;
	*bar = part.bar;
	*offset = part.offset;
	*size = part.size;
	return true;
}
