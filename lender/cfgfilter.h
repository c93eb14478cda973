/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which registers of a lent function's real configuration space a borrower may write and read: pure
 * logic, made from the 4 KiB as they are after a reset.  It knows no device and no message.
 */
#ifndef DLEND_LENDER_CFGFILTER_H
#define DLEND_LENDER_CFGFILTER_H

#include <dlend/caps.h>

/**
 * struct lend_cfgfilter - which registers of one function a borrower may write and read
 * @caps: registers of the device's own, which a borrower may write
 * @hide: bits that a borrower reads as 0: addresses of this host
 * @vpd: where the capability for Vital Product Data is; 0: there is none
 */
struct lend_cfgfilter {
	struct dlend_caps caps;
	u8 hide[DLEND_CFG_SIZE];
	u8 vpd;
};

/* How a write of a borrower is done. */
enum lend_cfgfilter_action {
	LEND_CFG_REFUSED,	/* not at all */
	LEND_CFG_RAW,		/* as it comes: these registers are the device's own */
	LEND_CFG_VPD_ADDR,	/* a word of VPD is moved, by the kernel */
	LEND_CFG_VPD_DATA,	/* the word that is to be written next; not for the device */
};

/**
 * lend_cfgfilter_init - walk the capabilities of a function
 * @filter: (out) filter
 * @cfg: (in) DLEND_CFG_SIZE bytes of configuration space, as they are after a reset; not trusted;
 *	all ones where the function has nothing
 * @device_specific: (in) also allow writes above the header to bytes that belong to no capability
 *
 * Context: any.
 */
void lend_cfgfilter_init(struct lend_cfgfilter *filter, const u8 *cfg, bool device_specific);

/**
 * lend_cfgfilter_action - how a write is done
 * @filter: (in) filter
 * @offset: (in) of the access, in bytes; not trusted
 * @size: (in) of the access: 1, 2 or 4 bytes; not trusted
 *
 * Context: any.
 */
enum lend_cfgfilter_action lend_cfgfilter_action(const struct lend_cfgfilter *filter, u32 offset,
						 u32 size);

/**
 * lend_cfgfilter_mask_read - remove from a value the bits that a borrower must not see
 * @filter: (in) filter
 * @offset: (in) as for lend_cfgfilter_action()
 * @size: (in) as for lend_cfgfilter_action()
 * @value: (in) value that was just read there
 *
 * Context: any.
 * Return: @value without these bits; all ones for a size or an alignment that does not exist.
 */
u32 lend_cfgfilter_mask_read(const struct lend_cfgfilter *filter, u32 offset, u32 size, u32 value);

#endif
