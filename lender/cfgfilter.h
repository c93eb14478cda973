/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which bits of a lent device's real configuration space a borrower may write and read: pure
 * logic, made from the 4 KiB as they are after a reset.  Knows no device and no message.
 */
#ifndef DLEND_LENDER_CFGFILTER_H
#define DLEND_LENDER_CFGFILTER_H

#include <dlend/types.h>

/**
 * struct lend_cfgfilter - masks of one function
 * @write: bits that may be written; everything else keeps its value
 * @w1c: of those, bits that a written 1 clears: never rewritten with what was read
 * @hide: bits that read as 0: addresses of this host
 */
struct lend_cfgfilter {
	u8 write[DLEND_CFG_SIZE];
	u8 w1c[DLEND_CFG_SIZE];
	u8 hide[DLEND_CFG_SIZE];
};

/**
 * lend_cfgfilter_init - walk the capabilities and fill in the masks
 * @cfg: DLEND_CFG_SIZE bytes
 * @size: how many of them the device has, 256 or 4096
 * @device_specific: also allow what lies in no capability, above the header
 */
void lend_cfgfilter_init(struct lend_cfgfilter *filter, const u8 *cfg, u32 size,
			 bool device_specific);

/** lend_cfgfilter_writable - bits of @size (1, 2, 4) bytes that may be written; 0 for a bad access */
u32 lend_cfgfilter_writable(const struct lend_cfgfilter *filter, u32 offset, u32 size);

/**
 * lend_cfgfilter_merge - value to write to the device
 * @old: what was just read there
 * @value: what the borrower wants
 */
u32 lend_cfgfilter_merge(const struct lend_cfgfilter *filter, u32 offset, u32 size, u32 old,
			 u32 value);

/** lend_cfgfilter_show - @value, read at @offset, without what a borrower must not see */
u32 lend_cfgfilter_show(const struct lend_cfgfilter *filter, u32 offset, u32 size, u32 value);

#endif
