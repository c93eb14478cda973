/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Islands: numbers for sets of host bridges that pass transfers on to each other.  Pure: no
 * devices, no locks.
 */
#ifndef DLEND_NTB_P2P_DOMAIN_H
#define DLEND_NTB_P2P_DOMAIN_H

#include <linux/types.h>

/* Host bridges that are remembered: those above NTBs and lent functions, not all of the host. */
#define DLEND_P2P_DOMAIN_MAX	64

#define DLEND_P2P_DOMAIN_NONE	0	/* not allowed */
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
 * dlend_p2p_domains_number - the peer-to-peer domain that a host bridge is on
 * @domains: (in, out) numbers; a number that was given out stays
 * @bridge: (in) the caller's number of the host bridge
 * @joined: (in) does host bridge @a pass transfers on to functions below @b? If @a and @b are the
 *	same: does it pass them back to functions below itself?
 *
 * All bridges of a peer-to-peer domain are joined with each other. A bridge that has no number yet
 * is asked about again each time: the functions below it may have changed.
 *
 * Context: any that joined() runs in. Return: number; DLEND_P2P_DOMAIN_NONE if the bridge is not
 * joined with itself, or too many have a number.
 */
u16 dlend_p2p_domains_number(struct dlend_p2p_domains *domains, u32 bridge,
			     bool (*joined)(u32 a, u32 b));

#endif
