/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages on their way: the rings that carry them, and requests of a peer that are not done yet.
 * Knows neither links nor threads; the caller serialises.
 *
 * A ring has one producer, and is in the receiver's memory.  The producer's index and the
 * consumer's credit are running 32-bit numbers.  The peer writes them, so they are checked before
 * use: an impossible number is an error.
 *
 * Requests:
 *
 *   - Requests about one device run one at a time, in the order of their arrival; devices do not
 *     wait for each other.
 *   - Memory is the caller's and fixed.  A call for which there is no room is refused: it runs at
 *     once, but only to be answered with -ENOBUFS.  A post has no answer, so it cannot be refused:
 *     while there is no room for a post, no message is taken from the peer (dlend_requests_room()).
 *   - A post that is equal to the last request that waits for its device is dropped: it would have
 *     no further effect.
 */
#ifndef DLEND_NTB_QUEUE_H
#define DLEND_NTB_QUEUE_H

#include <linux/list.h>
#include <linux/types.h>
#include <dlend/proto.h>

/**
 * struct dlend_ring_tx - producing end
 * @prod: messages written so far; the caller counts
 * @cons: messages the peer is known to have consumed
 * @busy_since: the ring was full then, and more than half full at each check since then; the peer
 *	has to take a full ring's messages in limited time; milliseconds; 0: this is not so
 * @busy_cons: @cons at that start
 */
struct dlend_ring_tx {
	u32 prod;
	u32 cons;
	u64 busy_since;
	u32 busy_cons;
};

/**
 * struct dlend_ring_rx - consuming end
 * @cons: messages consumed so far; the caller counts
 * @prod: messages the peer is known to have written
 */
struct dlend_ring_rx {
	u32 cons;
	u32 prod;
};

/**
 * dlend_ring_tx_room - how many messages may be written now
 * @tx: producing end
 * @credit: (in) consumer's count, as the peer wrote it (not trusted)
 *
 * Context: any; the caller serialises.
 * Return: 0..DLEND_RING_SLOTS; -EPROTO if @credit is impossible (it goes back, or beyond what was
 * written).
 */
int dlend_ring_tx_room(struct dlend_ring_tx *tx, u32 credit);

/**
 * dlend_ring_tx_slow - does the peer take too little of a ring that is full?
 * @tx: producing end, after each dlend_ring_tx_room()
 * @now: (in) milliseconds, any origin
 * @limit: (in) milliseconds in which it has to take as many messages as the ring holds
 *
 * A peer that takes one message now and then is no better than a peer that takes none.
 * Context: any; the caller serialises.
 */
bool dlend_ring_tx_slow(struct dlend_ring_tx *tx, u64 now, u64 limit);

/**
 * dlend_ring_rx_avail - how many messages wait
 * @rx: consuming end
 * @index: (in) producer's count, as the peer wrote it (not trusted)
 *
 * Context: any; the caller serialises.
 * Return: 0..DLEND_RING_SLOTS; -EPROTO if @index is impossible (it goes back, or the ring would
 * have been overrun).
 */
int dlend_ring_rx_avail(struct dlend_ring_rx *rx, u32 index);

#define DLEND_MAX_POSTS		128	/* of a link, until no more is taken from the peer */
#define DLEND_MAX_CALLS		128	/* of a link */
#define DLEND_MAX_DEVICE_CALLS	16	/* about one device: a borrower has a few under way */
#define DLEND_MAX_REFUSALS	16	/* refused calls whose answers are not sent yet */
#define DLEND_MAX_REQUESTS	(DLEND_MAX_POSTS + DLEND_MAX_CALLS + DLEND_MAX_REFUSALS)

/**
 * struct dlend_request - one message to be handled
 * @node: among those that are not done, in the order of arrival; or free
 * @number: its number on the link, in order of arrival
 * @session: in which it came
 * @running: the caller was told to run it
 * @refused: only to be answered with -ENOBUFS
 * @msg: private copy
 */
struct dlend_request {
	struct list_head node;
	u64 number;
	u64 session;
	bool running;
	bool refused;
	struct dlend_msg msg;
};

/**
 * struct dlend_requests - of one link
 * @live: not done
 * @free: memory for more
 * @arrived: how many have come
 * @calls, @posts, @refusals: of @live
 */
struct dlend_requests {
	struct list_head live, free;
	u64 arrived;
	unsigned int calls, posts, refusals;
};

/** dlend_requests_init - empty, and without memory for requests. Context: any. */
void dlend_requests_init(struct dlend_requests *q);

/**
 * dlend_requests_give - hand over memory for one request; to be called DLEND_MAX_REQUESTS times
 * @q: requests
 * @r: memory, the caller's
 *
 * Context: any; the caller serialises.
 */
void dlend_requests_give(struct dlend_requests *q, struct dlend_request *r);

/**
 * dlend_requests_room - may any message be added?
 * @q: (in) requests
 *
 * Context: any; the caller serialises.
 * Return: false: there is no room for a post, or for a refusal.
 */
bool dlend_requests_room(const struct dlend_requests *q);

/**
 * dlend_requests_add - a request has come
 * @q: requests; dlend_requests_room() was true
 * @session: (in) session that it came in
 * @msg: (in) checked message, copied
 *
 * Context: any; the caller serialises.
 * Return: the request that is to be run now; NULL: it waits for its device, or was dropped as a
 * repetition.
 */
struct dlend_request *dlend_requests_add(struct dlend_requests *q, u64 session,
					 const struct dlend_msg *msg);

/**
 * dlend_requests_done - a request was handled; its memory is free again
 * @q: requests
 * @r: request
 *
 * Context: any; the caller serialises. Return: the request that is to be run now, or NULL.
 */
struct dlend_request *dlend_requests_done(struct dlend_requests *q, struct dlend_request *r);

/**
 * dlend_requests_caught_up - are those done that came first?
 * @q: (in) requests
 * @arrived: (in) the first so many, dlend_requests.arrived at some moment
 * @side: (in) only those for this side of the node; DLEND_TO_NOBODY: all
 *
 * Context: any; the caller serialises.
 */
bool dlend_requests_caught_up(const struct dlend_requests *q, u64 arrived,
			      enum dlend_msg_side side);

#endif
