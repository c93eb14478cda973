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

/** dlend_clique_known - do drivers of this vendor's devices look for the capability? */
bool dlend_clique_known(u16 vendor);

/** dlend_clique_is - is this vendor-specific capability (6 readable bytes) a clique capability? */
static inline bool dlend_clique_is(const u8 *cap)
{
	return cap[2] == DLEND_CLIQUE_LEN && cap[3] == 'P' && cap[4] == '2' && cap[5] == 'P';
}

#endif
