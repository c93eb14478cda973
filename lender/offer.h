/* SPDX-License-Identifier: GPL-2.0 */
/* What other nodes are told about functions and links here: the messages. */
#ifndef DLEND_LENDER_OFFER_H
#define DLEND_LENDER_OFFER_H

#include <dlend/link.h>

#include "lender/fn.h"

/**
 * struct lend_news - what there is to say about one function
 * @offer: (before lend_offer_read()) an offer is wanted; (after it) @msg is one, and @place, @set
 *	and the snapshot belong to it
 * @state: (before) a state is wanted; (after) @msg is one
 * @msg: OFFER or STATE
 * @place: where the function sits
 * @set: what it belongs to
 */
struct lend_news {
	bool offer, state;
	struct dlend_msg msg, place, set;
};

/**
 * lend_offer_read - make the messages about a function as it is now
 * @fn: (in) function
 * @reader: (in) the node that is told
 * @news: (in) which messages are wanted; (out) the messages: none if the function is not offered
 *
 * Context: process; takes the offer lock and the group lock, and dlend_root_lock.
 */
void lend_offer_read(const struct lend_fn *fn, u16 reader, struct lend_news *news);

/**
 * lend_offer_end - a function is not offered any more
 * @fn: (in, out) function
 *
 * lend_offer_read() does not touch the function's device any more when this returns.
 * Context: process; takes the offer lock.
 */
void lend_offer_end(struct lend_fn *fn);

/**
 * lend_offer_snapshot - make the message with a piece of a function's configuration space
 * @fn: (in) function
 * @at: (in) offset of the piece, a multiple of DLEND_SNAPSHOT_PIECE
 * @msg: (out) SNAPSHOT message
 *
 * Context: any.
 */
void lend_offer_snapshot(const struct lend_fn *fn, u32 at, struct dlend_msg *msg);

/**
 * lend_offer_peers - make a message that names nodes to which this node has links
 * @reader: (in) node that gets it
 * @first: (in) how many were in the messages before
 * @msg: (out) PEERS message
 *
 * Context: process.
 * Return: true: another message has to follow.
 */
bool lend_offer_peers(u16 reader, unsigned int first, struct dlend_msg *msg);

#endif
