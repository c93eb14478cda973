/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many messages that must arrive may wait until a peer takes them (notify.c). Pure logic; the
 * caller's lock guards the counts.
 */
#ifndef DLEND_LENDER_PENDING_H
#define DLEND_LENDER_PENDING_H

#include <linux/types.h>

/*
 * Twice the largest number of grants to one peer (LEND_PEER_MAX in p2p.c).  If more would have to
 * wait for a peer, its session is ended.  P2P_LOST messages do not count, as many maps may end at
 * once; they have a limit, too, as the peer has asked for each of these maps and taken the reply.
 */
#define LEND_PENDING_MAX		2048

/**
 * struct lend_pending - counts of messages that wait for one peer; all 0 at first
 * @all: number of messages
 * @lost: number of P2P_LOST messages among these
 */
struct lend_pending {
	unsigned int all, lost;
};

/**
 * lend_pending_add - count one more message, if it may wait
 * @n: (in, out) counts
 * @lost: (in) the message is P2P_LOST
 *
 * Context: any; the caller serialises.
 * Return: true: it was counted; false: too many wait, and @n has not changed.
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
 * lend_pending_del - undo lend_pending_add() for one message
 * @n: (in, out) counts
 * @lost: (in) as for lend_pending_add()
 *
 * Context: any; the caller serialises.
 */
static inline void lend_pending_del(struct lend_pending *n, bool lost)
{
	n->all--;
	n->lost -= lost;
}

#endif
