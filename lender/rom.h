/* SPDX-License-Identifier: GPL-2.0 */
/* Expansion ROM of a lent function, which borrowers read. */
#ifndef DLEND_LENDER_ROM_H
#define DLEND_LENDER_ROM_H

#include "lender/fn.h"

/**
 * lend_rom_copy - copy the ROM of a function
 * @fn: (in, out) function, reset and enabled, not offered yet; gets the copy, or a ROM of size 0
 *
 * Context: process, device lock.
 */
void lend_rom_copy(struct lend_fn *fn);

/**
 * lend_rom_read - give a borrower a piece of the ROM
 * @fn: (in) function; no lease is needed
 * @want: (in) from the peer: offset of the piece
 * @got: (out) the piece
 *
 * Context: process; takes no lock.
 * Return: 0; -ENOENT there is no ROM; -ERANGE the ROM is shorter.
 */
int lend_rom_read(struct lend_fn *fn, const struct dlend_p_u32 *want, struct dlend_p_rom *got);

/** lend_rom_free - free the copy of the ROM of @fn (in), if there is one. Context: process. */
void lend_rom_free(struct lend_fn *fn);

#endif
