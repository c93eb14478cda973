/* SPDX-License-Identifier: GPL-2.0 */
/* What peers still have to be told: marks, notes, and who posts them. */
#ifndef DLEND_LENDER_OUTBOX_H
#define DLEND_LENDER_OUTBOX_H

#include <linux/types.h>

#include <dlend/link.h>

#include "lender/fn.h"
#include "lender/group.h"

struct dlend_link;
struct lend_fn;

/**
 * lend_outbox_tell - tell all peers something about a function, soon
 * @fn: (in, out) function
 * @what: (in) kind of news; each peer is told the state as it is when the message is posted
 *
 * Context: process, any lock; takes the listeners lock.
 */
void lend_outbox_tell(struct lend_fn *fn, enum lend_tell what);

/**
 * lend_outbox_tell_group - lend_outbox_tell() for all functions of a group
 * @group: (in, out) group
 * @what: (in) kind of news
 *
 * Context: process, group lock; takes the listeners lock.
 */
void lend_outbox_tell_group(struct lend_group *group, enum lend_tell what);

/**
 * struct lend_granted - a part of this node's windows that devices of another lender may reach
 * @node: among all
 * @to: node whose devices it is for
 * @borrower: node that has the leases
 * @bytes: how much
 */
struct lend_granted {
	struct list_head node;
	u16 to, borrower;
	u64 bytes;
};

/** lend_outbox_grant - other borrowers than its own are told of less room from now on. */
void lend_outbox_grant(struct lend_granted *granted);

/** lend_outbox_ungrant - end of lend_outbox_grant(). Context: both as lend_outbox_tell_peers(). */
void lend_outbox_ungrant(struct lend_granted *granted);

/**
 * lend_outbox_tell_peers - tell all peers, soon, which links this node has
 *
 * Context: process, any lock; takes the listeners lock.
 */
void lend_outbox_tell_peers(void);

/**
 * lend_outbox_note - queue a message that has to arrive, after all notes that were queued before
 * @link: (in) to the peer that has to get it
 * @msg: (in) message, as for dlend_link_post_in(); copied
 *
 * The message is dropped if the session ends first: the lease or grant that the message is about
 * ends with the session.  If the peer takes no messages for too long, this ends its session.
 *
 * Context: process, any lock; may sleep for memory, waits for no peer; takes the listeners lock.
 */
void lend_outbox_note(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_outbox_offers_told - has a peer been told the offers of a group as they are now?
 * @group: (in) group
 * @link: (in) to the peer
 *
 * Context: process, group lock; takes the listeners lock.
 */
bool lend_outbox_offers_told(const struct lend_group *group, const struct dlend_link *link);

/**
 * lend_outbox_subscribe - tell a peer all offers, and which links this node has, soon
 * @link: (in) to the peer; NULL: tell all peers
 *
 * Context: process, any lock; takes the listeners lock.
 */
void lend_outbox_subscribe(const struct dlend_link *link);

/**
 * lend_outbox_unbound - a function is not bound any more
 *
 * No link lets its requests pass any more: links are told soon, and those that cannot be told now,
 * again later.  What links have had no room for is offered again, soon.
 *
 * Context: process; takes the registry lock and the listeners lock.
 */
void lend_outbox_unbound(void);

/**
 * lend_outbox_open - a link is up: its peer is told everything now, and all news from now on
 * @link: (in) link; may be open already
 *
 * Context: process, may sleep; takes the listeners lock.
 */
void lend_outbox_open(struct dlend_link *link);

/**
 * lend_outbox_close - nothing is told to a peer any more when this returns
 * @link: (in) link that is down, or that the lender does not use any more
 *
 * If the link is up, this waits for one post, which times out if the peer takes no messages.  What
 * the peer would have to hear, and has not heard, it learns from a new session.
 *
 * Context: process, no lock of the lender; takes the listeners lock.
 */
void lend_outbox_close(struct dlend_link *link);

/**
 * lend_outbox_withdraw - a function is not offered any more: tell all peers that, and nothing else
 * @fn: (in, out) function
 *
 * The work that posts does not touch the function's device any more when this returns.
 *
 * Context: process, no lock of the lender, waits for no peer; takes the offer lock, the links' lock
 * and the listeners lock.
 */
void lend_outbox_withdraw(struct lend_fn *fn);

/**
 * lend_outbox_exit - tell links for the last time that requests of no function pass
 *
 * Context: process; no function is bound any more, and no link calls any more.
 */
void lend_outbox_exit(void);

#endif
