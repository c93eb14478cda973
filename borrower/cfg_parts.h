/* SPDX-License-Identifier: GPL-2.0 */
/* Virtual configuration space, inside: what its build (cfg_build.c) and its use (cfg.c) share. */
#ifndef DLEND_BORROWER_CFG_PARTS_H
#define DLEND_BORROWER_CFG_PARTS_H

#include <dlend/cfg.h>

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

/** dlend_cfg_bar_reg - offset of the register of a BAR, or of the ROM. Context: any. */
u32 dlend_cfg_bar_reg(unsigned int index);

#endif
