/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cliques: which of a VM's borrowed devices its guest may be told to reach each other.  Pure logic,
 * above p2p_plan.h.  What is mapped does not depend on it.
 *
 * Two devices are in one clique only if there is no doubt: all their BARs fit into the windows on
 * the way, there and back, beside what others have there (borrower/p2p_plan.h), and each host
 * on the way vouches that its root complex passes the transfers on (struct dlend_root).  Context of
 * all functions: any.
 */
#ifndef DLEND_P2P_CLIQUE_H
#define DLEND_P2P_CLIQUE_H

#include <dlend/p2p_plan.h>

/* What speaks against peer-to-peer between two devices. */
enum dlend_p2p_doubt_kind {
	DLEND_P2P_SURE,		/* nothing */
	DLEND_P2P_NARROW,	/* no way has windows for all BARs */
	DLEND_P2P_TAKEN,	/* one has, but not beside what others have there */
	DLEND_P2P_UNVOUCHED,	/* a node vouches for no way between the two sides, or is silent */
	DLEND_P2P_APART,	/* the same, as these sides are on two islands of it */
};

/**
 * struct dlend_p2p_doubt - why two devices may not reach each other
 * @kind: SURE: there is no doubt
 * @node: whose root complex is in doubt, unless @kind is NARROW or TAKEN
 * @to: where transfers leave it: the nodes that these NTBs of @node lead to; 0: a device there
 */
struct dlend_p2p_doubt {
	enum dlend_p2p_doubt_kind kind;
	u16 node;
	u16 to[2];
};

/* Bytes of a doubt as text. */
#define DLEND_P2P_DOUBT_LEN	160

/**
 * dlend_p2p_doubt - what speaks against peer-to-peer between @a and @b, there or back?
 * @f: (in) links
 * @dev, @n: (in) the devices of one VM
 * @a, @b: (in) two of them
 *
 * Return: the first doubt on the way, or DLEND_P2P_SURE.
 */
struct dlend_p2p_doubt dlend_p2p_doubt(const struct dlend_p2p_fabric *f,
				       const struct dlend_p2p_dev *dev, unsigned int n,
				       unsigned int a, unsigned int b);

/**
 * dlend_p2p_doubt_text - for people
 * @doubt: (in) doubt
 * @text: (out) DLEND_P2P_DOUBT_LEN bytes; empty if there is none
 *
 * Return: @text.
 */
const char *dlend_p2p_doubt_text(const struct dlend_p2p_doubt *doubt, char *text);

/**
 * dlend_p2p_clique - the clique for device @new
 * @max: (in) highest number of a clique
 *
 * The lowest one between whose members and @new there is no doubt, else the lowest one without a
 * member.
 * Return: number, or -ENOSPC.
 */
int dlend_p2p_clique(const struct dlend_p2p_fabric *f, const struct dlend_p2p_dev *dev,
		     unsigned int n, unsigned int new, int max);

/**
 * dlend_p2p_claim - find a device of @of's clique, between which and @of there is a doubt
 *
 * Return: its index from @after on, or -1.
 */
int dlend_p2p_claim(const struct dlend_p2p_fabric *f, const struct dlend_p2p_dev *dev,
		    unsigned int n, unsigned int of, unsigned int after);

#endif
