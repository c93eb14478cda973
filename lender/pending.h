/* SPDX-License-Identifier: GPL-2.0 */
/* How many messages that must arrive may wait for one peer. Pure logic. */
#ifndef DLEND_LENDER_PENDING_H
#define DLEND_LENDER_PENDING_H

#include <linux/types.h>

/*
 * Twice as many as a peer can have grants.  The session of a peer that lets more wait is ended.
 * Lost maps do not count: many may end at once, and the peer has taken the answer of each.
 */
#define LEND_PENDING_MAX		2048

/**
 * struct lend_pending - messages that wait for one peer; all 0 at first
 * @all: how many
 * @lost: how many of these say that a map was lost
 */
struct lend_pending {
	unsigned int all, lost;
};

/**
 * lend_pending_add - one more is to wait
 * @n: (in, out) notes
 * @lost: (in) it says that a map was lost
 *
 * Context: any; the caller serialises. Return: it may; else nothing has changed.
 */
static inline bool lend_pending_add(struct lend_pending *n, bool lost)
{
	if (!lost && n->all - n->lost == LEND_PENDING_MAX)
		return false;
	n->all++;
	n->lost += lost;
	return true;
}

/**
 * lend_pending_del - one of @n (in, out) waits no more; @lost as when it came. Context: as above.
 */
static inline void lend_pending_del(struct lend_pending *n, bool lost)
{
	n->all--;
	n->lost -= lost;
}

#endif
