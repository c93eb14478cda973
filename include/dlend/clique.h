/* SPDX-License-Identifier: GPL-2.0 */
/*
 * P2P clique capability: where it goes and how it looks.  Pure: bytes in, bytes out.  Context of
 * all functions: any.
 */
#ifndef DLEND_CLIQUE_H
#define DLEND_CLIQUE_H

#include <dlend/types.h>

#define DLEND_CLIQUE_LEN	8
#define DLEND_CLIQUE_MAX	15	/* four bits of the approval parameters */

/**
 * dlend_clique_place - find room for the capability
 * @used: (in) one byte for each of the 256 of standard configuration space, not 0 where the device
 *	has a structure (the hidden ones too) or a register in none
 * @vendor, @device: (in) ids as the guest sees them
 *
 * NVIDIA reserves C8h or D4h, depending on the generation.  If that is taken, this takes the other
 * one, as QEMU does; for every other vendor, D4h comes first.
 * Return: offset, or -ENOSPC.
 */
int dlend_clique_place(const u8 *used, u16 vendor, u16 device);

/**
 * dlend_clique_write - write the eight bytes, next pointer 0
 * @cap: (out) where
 * @clique: (in) 0..DLEND_CLIQUE_MAX
 */
void dlend_clique_write(u8 *cap, int clique);

/** dlend_clique_known - do drivers of this vendor's devices look for the capability? */
bool dlend_clique_known(u16 vendor);

/** dlend_clique_is - is this vendor-specific capability (6 readable bytes) a clique capability? */
static inline bool dlend_clique_is(const u8 *cap)
{
	return cap[2] == DLEND_CLIQUE_LEN && cap[3] == 'P' && cap[4] == '2' && cap[5] == 'P';
}

#endif
