/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which registers of a lent function's real configuration space a borrower may write, and which
 * bits it may read.  Pure logic: the filter is made from a copy of the 4 KiB as they are after a
 * reset, and accesses neither the device nor messages.
 *
 * The borrower decides by the same struct dlend_caps, made from the same bytes, which of its
 * guest's accesses it answers itself and which it sends to the lender (borrower/cfg.c,
 * dlend_cfg_live()).  The lender does not rely on that: it checks each access that arrives.  An
 * access of which only a part is the device's own is split by the borrower, and refused here.
 */
#ifndef DLEND_LENDER_CFGFILTER_H
#define DLEND_LENDER_CFGFILTER_H

#include <dlend/caps.h>

/**
 * struct lend_cfgfilter - which registers of one function a borrower may write and read
 * @caps: the capabilities, with a bit for each byte (dlend_caps_own()): set if the byte belongs to
 *	the device's own registers, whose meaning only the device and its driver know, and which a
 *	borrower may write: vendor-specific capabilities, and bytes in no capability if that is
 *	allowed
 * @hide: mask for each byte: bits that a borrower reads as 0, as they are part of addresses in this
 *	host
 * @vpd: offset of the capability for Vital Product Data, in bytes; 0: there is none
 *
 * It does not change after lend_cfgfilter_init(), so readers need no lock.
 */
struct lend_cfgfilter {
	struct dlend_caps caps;
	u8 hide[DLEND_CFG_SIZE];
	u8 vpd;
};

/* What the lender does with a borrower's write. */
enum lend_cfgfilter_action {
	LEND_CFG_REFUSED,	/* the request fails with -EPERM, and nothing is written */
	LEND_CFG_RAW,		/* write it to the device, unchanged and in one access */
	LEND_CFG_VPD_ADDR,	/* let the kernel read or write the word of VPD at that address */
	LEND_CFG_VPD_DATA,	/* keep the word (lend_fn.vpd) for a later LEND_CFG_VPD_ADDR */
};

/**
 * lend_cfgfilter_init - make the filter: walk the capabilities of a function
 * @filter: (out) filter
 * @cfg: (in) DLEND_CFG_SIZE bytes of configuration space, as they are after a reset; not trusted;
 *	all ones where the function has nothing
 * @device_specific: (in) also allow writes above the header to bytes that belong to no capability
 *
 * Context: any.
 */
void lend_cfgfilter_init(struct lend_cfgfilter *filter, const u8 *cfg, bool device_specific);

/**
 * lend_cfgfilter_action - what the lender does with a borrower's write
 * @filter: (in) filter
 * @offset: (in) of the access, in bytes; not trusted
 * @size: (in) of the access: 1, 2 or 4 bytes; not trusted
 *
 * lend_config_write_now() (request.c) handles some other registers before it asks this.
 *
 * Context: any.
 * Return: LEND_CFG_VPD_ADDR, LEND_CFG_VPD_DATA: the access is exactly that register of the VPD
 * capability; LEND_CFG_RAW: each byte is a register of the device's own; LEND_CFG_REFUSED: one byte
 * is not, or the size is none of the three, or the access is not aligned to its size or ends behind
 * the 4 KiB.
 */
enum lend_cfgfilter_action lend_cfgfilter_action(const struct lend_cfgfilter *filter, u32 offset,
						 u32 size);

/**
 * lend_cfgfilter_mask_read - clear the bits of a value that a borrower must not see
 * @filter: (in) filter
 * @offset: (in) as for lend_cfgfilter_action()
 * @size: (in) as for lend_cfgfilter_action()
 * @value: (in) value that the caller has read at @offset, in the host's byte order
 *
 * All registers may be read; only the bits in lend_cfgfilter.hide are hidden.
 *
 * Context: any.
 * Return: @value with these bits clear; all ones if lend_cfgfilter_action() would refuse the access
 * for its size, alignment or end.
 */
u32 lend_cfgfilter_mask_read(const struct lend_cfgfilter *filter, u32 offset, u32 size, u32 value);

#endif
