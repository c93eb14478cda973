/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Virtual configuration space, inside: what is shown of each capability (tables in cfg_caps.c), for
 * the build that makes a space from a snapshot (cfg_build.c).
 */
#ifndef DLEND_MDEV_CFG_CAPS_H
#define DLEND_MDEV_CFG_CAPS_H

#include <linux/pci_regs.h>
#include <dlend/cfg.h>

#define DLEND_CFG_STD_SIZE	PCI_CFG_SPACE_SIZE

/**
 * struct dlend_cfg_rule - one register
 * @at: offset in its structure
 * @width: bytes, 1, 2 or 4
 * @show: bits that come from the snapshot; the others start as 0
 * @write: bits that the guest can change; nothing but the virtual value changes
 * @w1c: bits that a written 1 clears
 */
struct dlend_cfg_rule {
	u8 at;
	u8 width;
	u32 show;
	u32 write;
	u32 w1c;
};

/* What a build works on. Only capabilities that the first walk has marked in @start are shown. */
struct dlend_cfg_build {
	struct dlend_cfg *cfg;
	const struct dlend_cfg_desc *desc;
	const u8 *snap;
	u32 start[DLEND_CFG_SIZE / 4 / 32];	/* a bit per dword: a listed capability starts */
	unsigned int nr_std, nr_ext;
	bool std_broken, ext_broken;		/* a list ends where no end should be */
	u8 used[DLEND_CFG_STD_SIZE];		/* not 0: the device has something there */
};

#define DLEND_CFG_CAP_HIDDEN	0x1	/* hidden: the row only says its length */
#define DLEND_CFG_CAP_CLIP	0x2	/* all read-only: may end where the next one starts */
#define DLEND_CFG_CAP_LIVE	0x4	/* behind the first @len bytes it is the device's own */

/**
 * struct dlend_cfg_cap - one kind of capability
 * @id: capability id or extended capability id
 * @flags: DLEND_CFG_CAP_*
 * @len: bytes, if always the same; else the fewest
 * @slot: offset in struct dlend_cfg of the u8 that says where it is; there can be one only
 * @length: bytes by the capability's own contents, up to @room if in doubt; 0: cannot be known
 * @admit: may it be shown? NULL: yes
 * @rules: registers, ended by one without width; without a table, all of it is read-only
 * @done: is called once it is shown, for registers that depend on its contents; NULL: nothing to do
 */
struct dlend_cfg_cap {
	u8 id;
	u8 flags;
	u8 len;
	u16 slot;
	u32 (*length)(const struct dlend_cfg_build *b, u32 pos, u32 room);
	bool (*admit)(const struct dlend_cfg_build *b, u32 pos);
	const struct dlend_cfg_rule *rules;
	void (*done)(struct dlend_cfg_build *b, u32 pos);
};

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

/* PCI header, type 0.  The BARs and the ROM have functions of their own. */
extern const struct dlend_cfg_rule dlend_cfg_header_rules[];

/** dlend_cfg_find_std - what is shown of a capability. Context: any. Return: NULL if nothing is. */
const struct dlend_cfg_cap *dlend_cfg_find_std(u32 id);

/** dlend_cfg_find_ext - the same for an extended capability. Context: any. */
const struct dlend_cfg_cap *dlend_cfg_find_ext(u32 id);

/** dlend_cfg_find_at - the same for the one that the snapshot has at @pos. Context: any. */
const struct dlend_cfg_cap *dlend_cfg_find_at(const struct dlend_cfg_build *b, u32 pos);

/** dlend_cfg_starts_at - does a listed capability start there? Context: any. */
bool dlend_cfg_starts_at(const struct dlend_cfg_build *b, u32 pos);

/** dlend_cfg_room_at - bytes from @pos to the next capability, or to the end. Context: any. */
u32 dlend_cfg_room_at(const struct dlend_cfg_build *b, u32 pos);

/** dlend_cfg_length_at - bytes of the capability at @pos; 0: not known. Context: any. */
u32 dlend_cfg_length_at(const struct dlend_cfg_build *b, const struct dlend_cfg_cap *cap, u32 pos);

/** dlend_cfg_owned_at - the same; if not known, all up to the next one. Context: any. */
u32 dlend_cfg_owned_at(const struct dlend_cfg_build *b, const struct dlend_cfg_cap *cap, u32 pos);

/**
 * dlend_cfg_find_live - find the registers that are the device's own
 * @b: (in, out) build, complete but for this; b->cfg gets these registers' values
 *
 * Context: any.
 */
void dlend_cfg_find_live(struct dlend_cfg_build *b);

/** dlend_cfg_msix_vectors - vectors of the MSI-X capability at @pos in @space. Context: any. */
u32 dlend_cfg_msix_vectors(const u8 *space, u32 pos);

/**
 * dlend_cfg_msix_part - where the table or the PBA of MSI-X is
 * @cfg: (in) its BARs
 * @reg: (in) the capability's register for it
 * @vectors: (in) how many the device has, however many the guest sees
 * @pba: (in) the PBA, not the table
 * @part: (out) where
 *
 * Context: any. Return: false if it is not inside a memory BAR.
 */
bool dlend_cfg_msix_part(const struct dlend_cfg *cfg, u32 reg, u32 vectors, bool pba,
			 struct dlend_cfg_part *part);

/** dlend_cfg_put_wmask - @width bytes at @pos: these bits can be written. Context: any. */
void dlend_cfg_put_wmask(struct dlend_cfg *cfg, u32 pos, u32 width, u32 mask);

/** dlend_cfg_bar_reg - offset of the register of a BAR, or of the ROM. Context: any. */
u32 dlend_cfg_bar_reg(unsigned int index);

#endif
