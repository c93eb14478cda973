/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer-to-peer domains: numbers for sets of host bridges that pass requests on to each other.
 * Pure: no devices, no locks.
 */
#ifndef DLEND_NTB_P2P_DOMAIN_H
#define DLEND_NTB_P2P_DOMAIN_H

#include <linux/types.h>

/* How many host bridges can have a number: those above NTBs and lent functions, not all. */
#define DLEND_P2P_DOMAIN_MAX	64

#define DLEND_P2P_DOMAIN_NONE	0	/* the host bridge passes no requests on */
#define DLEND_P2P_DOMAIN_HOST	1	/* all of the host: its administrator allows that */
#define DLEND_P2P_DOMAIN_FIRST	2	/* the first of dlend_p2p_domains_number() */

/**
 * struct dlend_p2p_domains - numbers that were given out; all 0 at first
 * @n: how many host bridges have one
 * @next: how many numbers were given out
 * @at: the bridges and their numbers
 */
struct dlend_p2p_domains {
	unsigned int n, next;
	struct {
		u32 bridge;
		u16 domain;
	} at[DLEND_P2P_DOMAIN_MAX];
};

/**
 * dlend_p2p_domains_number - find, or give out, the peer-to-peer domain of a host bridge
 * @domains: (in, out) numbers; the caller serialises. A number that was given out stays, and
 *	joined() is not asked about that bridge again
 * @bridge: (in) the caller's number of the host bridge
 * @joined: (in) does host bridge @a pass requests on to functions below @b? If @a and @b are the
 *	same: does it pass them back to functions below itself?
 *
 * All bridges of a peer-to-peer domain are joined with each other. While a bridge has no number,
 * each call asks joined() about it again: the functions below the bridge may have changed.
 *
 * Context: any that joined() runs in. Return: number; DLEND_P2P_DOMAIN_NONE if the bridge is not
 * joined with itself, or too many have a number.
 */
u16 dlend_p2p_domains_number(struct dlend_p2p_domains *domains, u32 bridge,
			     bool (*joined)(u32 a, u32 b));

#endif
