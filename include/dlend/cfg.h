/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Virtual configuration space of a borrowed device: pure logic, no device, no locks.
 * From the 4 KiB snapshot it makes what the guest reads, and it says what the guest's writes mean.
 * Context of all functions: any; the caller serialises.
 */
#ifndef DLEND_CFG_H
#define DLEND_CFG_H

#include <linux/string.h>
#include <linux/unaligned.h>
#include <dlend/caps.h>
#include <dlend/types.h>

/* What a guest's write asks for; several bits at once are possible. */
#define DLEND_CFG_E_MSE_ON	0x0001	/* memory decoding 0 -> 1 */
#define DLEND_CFG_E_MSE_OFF	0x0002
#define DLEND_CFG_E_BME_ON	0x0004	/* Bus Master Enable 0 -> 1 */
#define DLEND_CFG_E_BME_OFF	0x0008
#define DLEND_CFG_E_BAR		0x0010	/* a BAR or the ROM address changed */
#define DLEND_CFG_E_INTX	0x0020	/* the INTx disable bit changed */
#define DLEND_CFG_E_D3HOT	0x0040	/* power state left D0, be it for D1, D2 or D3hot */
#define DLEND_CFG_E_D0		0x0080	/* power state back in D0 */
#define DLEND_CFG_E_FLR		0x0100	/* function level reset, PCIe or AF */
#define DLEND_CFG_E_ROM		0x0200	/* ROM enable bit changed */
#define DLEND_CFG_E_READRQ	0x0400	/* Max_Read_Request_Size changed */
#define DLEND_CFG_E_VPD		0x0800	/* a word of VPD is to be read or written */

#define DLEND_CFG_CLIQUE_NONE	(-1)

struct dlend_cfg_bar {
	u64 size;		/* bytes, power of two; 0 = none */
	bool io, is64, prefetch;
};

/**
 * struct dlend_cfg_desc - what the virtual space is made from
 * @snapshot: the lender's 4 KiB, untrusted: every walk is bounded
 * @bar: six BARs and the ROM; the upper half of a 64-bit BAR has size 0
 * @vendor: for a VF, whose own ids read ffff
 * @device: likewise
 * @is_vf: memory decoding starts as on (also after a reset) and ids are filled in
 * @no_intx: the lender cannot deliver INTx: no interrupt pin (a VF never has one)
 * @no_msi: it cannot deliver MSI: no capability
 * @no_msix: it cannot deliver MSI-X: no capability
 * @max_msi: MSI vectors that it can deliver, if that is fewer than the device has; 0: all
 * @max_msix: MSI-X vectors, likewise
 * @clique: 0..15 emit the P2P clique capability, DLEND_CFG_CLIQUE_NONE none
 * @keeps_state: show a device that loses nothing in D3hot (No_Soft_Reset): the lender does not get
 *	to know of power states
 * @add_reset: a device without a reset of its own (FLR, AF, or power management's) gets AF's, if
 *	there is room for a capability: the lender can reset it, for example by a bus reset
 */
struct dlend_cfg_desc {
	const u8 *snapshot;
	struct dlend_cfg_bar bar[DLEND_NUM_REGIONS];
	u16 vendor, device;
	bool is_vf, no_intx, no_msi, no_msix;
	u16 max_msi, max_msix;
	int clique;
	bool add_reset;
	bool keeps_state;
};

/**
 * struct dlend_cfg - state of one virtual configuration space
 * @val: what the guest reads
 * @reset_val: values right after a reset
 * @wmask: bits the guest can change
 * @w1c: bits that a written 1 clears
 * @caps: which registers are the device's own, for dlend_cfg_live(). Of them @val has only what the
 *	lender found after a reset, and no write here changes that
 * @bar: of &struct dlend_cfg_desc
 * @msix_entries: entries of the device's MSI-X table; the guest may see fewer
 * @pm_pos: offset of the virtual power management capability; 0: it has none
 * @vpd_pos: of VPD, likewise
 * @pcie_pos: of PCI Express
 * @af_pos: of Advanced Features
 * @msi_pos: of MSI
 * @msix_pos: of MSI-X
 * @clique_pos: of the P2P clique capability
 */
struct dlend_cfg {
	u8 val[DLEND_CFG_SIZE];
	u8 reset_val[DLEND_CFG_SIZE];
	u8 wmask[DLEND_CFG_SIZE];
	u8 w1c[DLEND_CFG_SIZE];
	struct dlend_caps caps;
	struct dlend_cfg_bar bar[DLEND_NUM_REGIONS];
	u16 msix_entries;
	u8 pm_pos, vpd_pos, pcie_pos, af_pos, msi_pos, msix_pos, clique_pos;
};

/**
 * dlend_cfg_init - build the virtual space from a snapshot
 * @cfg: (out) virtual space
 * @desc: (in) what to make it from
 *
 * Return: 0; -EINVAL snapshot is not a type 0 header, a BAR size is impossible or a clique is out
 * of range; -ENOSPC no free place for the clique capability; -ELOOP the capability list is looped
 * or leads nowhere, and there is to be a clique capability. (Without one, the list is only cut.)
 * After -ENOSPC and -ELOOP the space is complete and usable, without the clique capability.
 */
int dlend_cfg_init(struct dlend_cfg *cfg, const struct dlend_cfg_desc *desc);

/** dlend_cfg_reset - give all registers (also BARs and COMMAND) their values of dlend_cfg_init() */
static inline void dlend_cfg_reset(struct dlend_cfg *cfg)
{
	memcpy(cfg->val, cfg->reset_val, sizeof(cfg->val));
}

/** dlend_cfg_read - read @len bytes at any @offset; bytes beyond the end of the space are 0xff */
void dlend_cfg_read(const struct dlend_cfg *cfg, u32 offset, void *buf, u32 len);

/**
 * dlend_cfg_write - a guest's write, which may go across fields
 * @cfg: (in, out) virtual space
 * @offset: (in) of the first byte; any
 * @buf: (in) what is written
 * @len: (in) bytes; any
 *
 * DLEND_CFG_E_FLR asks the caller to reset the device. A function level reset has already been
 * applied to the virtual space when this returns, and comes with MSE_OFF and BME_OFF if those were
 * on; BARs stay. On the way from D3hot to D0 a device without No_Soft_Reset is reset as well
 * (DLEND_CFG_E_D0 comes with it), and all of the virtual space stays as it was: the caller turns on
 * again what is on there. DLEND_CFG_E_VPD asks the caller to move a word of VPD, and then to call
 * dlend_cfg_vpd_done(). Registers that dlend_cfg_live() names are for the device, and do not change
 * here.
 * Return: DLEND_CFG_E_* bits
 */
u32 dlend_cfg_write(struct dlend_cfg *cfg, u32 offset, const void *buf, u32 len);

/**
 * dlend_cfg_live - does an access begin with a register of the device's own?
 * @cfg: (in) virtual space
 * @offset: (in) of the access
 * @len: (in) of the access, in bytes
 *
 * These are registers of vendor-specific capabilities, standard and extended, and registers in no
 * known capability (dlend/caps.h): only the device knows their contents, and the effect of a write.
 * Registers that dlend adds, or shows with other values than the device, are not among them.
 * Return: bytes at @offset that are one access to the device (1, 2 or 4, aligned, within @len); 0:
 * the byte there is answered from here.
 */
u32 dlend_cfg_live(const struct dlend_cfg *cfg, u32 offset, u32 len);

/**
 * dlend_cfg_vpd - the word of VPD that the guest wants to move, after DLEND_CFG_E_VPD
 * @cfg: (in) virtual space
 * @data: (out) the word to write; the byte of the lowest address is in the lowest bits
 *
 * Return: its address, with PCI_VPD_ADDR_F if it is to be written.
 */
u16 dlend_cfg_vpd(const struct dlend_cfg *cfg, u32 *data);

/**
 * dlend_cfg_vpd_done - a word of VPD was moved: the guest's poll ends
 * @cfg: (in, out) virtual space; if the guest has asked for another word since, nothing changes
 * @addr: (in) as dlend_cfg_vpd() has said
 * @data: (in) what was read, if it was
 *
 * Without this call the guest polls in vain, as with a device that does not answer.
 */
void dlend_cfg_vpd_done(struct dlend_cfg *cfg, u16 addr, u32 data);

/**
 * dlend_cfg_load - set the virtual space to what the guest has left on another host
 * @cfg: (in, out) virtual space, made for the same device
 * @val: (in) @cfg->val of another host; not trusted: only what a guest can change is taken
 * @at: (out) offset of the first byte that differs, on error
 *
 * The caller brings the device into that state. Return: 0; -EINVAL what a guest cannot change
 * differs: it is another device, or is shown in another way. Then nothing changes.
 */
int dlend_cfg_load(struct dlend_cfg *cfg, const u8 *val, u32 *at);

static inline u16 dlend_cfg_command(const struct dlend_cfg *cfg)
{
	return get_unaligned_le16(cfg->val + PCI_COMMAND);
}

static inline u32 dlend_cfg_power_state(const struct dlend_cfg *cfg)
{
	return cfg->pm_pos ? cfg->val[cfg->pm_pos + PCI_PM_CTRL] & PCI_PM_CTRL_STATE_MASK : 0;
}

/** dlend_cfg_mse - is memory decoding on, and the device in D0? */
static inline bool dlend_cfg_mse(const struct dlend_cfg *cfg)
{
	return dlend_cfg_command(cfg) & PCI_COMMAND_MEMORY && !dlend_cfg_power_state(cfg);
}

/** dlend_cfg_bme - Bus Master Enable, in any power state */
static inline bool dlend_cfg_bme(const struct dlend_cfg *cfg)
{
	return dlend_cfg_command(cfg) & PCI_COMMAND_MASTER;
}

/** dlend_cfg_mastering - is Bus Master Enable on, and the device in D0? */
static inline bool dlend_cfg_mastering(const struct dlend_cfg *cfg)
{
	return dlend_cfg_bme(cfg) && !dlend_cfg_power_state(cfg);
}

/** dlend_cfg_intx_disabled - is INTx disabled? */
static inline bool dlend_cfg_intx_disabled(const struct dlend_cfg *cfg)
{
	return dlend_cfg_command(cfg) & PCI_COMMAND_INTX_DISABLE;
}

/** dlend_cfg_readrq - Max_Read_Request_Size as encoded, 128 << n bytes; 0 also without PCIe */
u32 dlend_cfg_readrq(const struct dlend_cfg *cfg);
/** dlend_cfg_bar_addr - address in BAR @index or in the ROM's register, 0 if there is none */
u64 dlend_cfg_bar_addr(const struct dlend_cfg *cfg, unsigned int index);
/** dlend_cfg_msi - MSI vectors that the guest sees (0 = no capability); _msix likewise */
unsigned int dlend_cfg_msi(const struct dlend_cfg *cfg);
unsigned int dlend_cfg_msix(const struct dlend_cfg *cfg);

/**
 * struct dlend_cfg_part - the table or the PBA of MSI-X
 * @bar: BAR that holds it
 * @offset: bytes in that BAR
 * @size: bytes
 */
struct dlend_cfg_part {
	unsigned int bar;
	u32 offset, size;
};

/** dlend_cfg_msix_range - where the MSI-X table or PBA lies; @pba selects. Return: false if none */
bool dlend_cfg_msix_range(const struct dlend_cfg *cfg, bool pba, struct dlend_cfg_part *part);

#endif
