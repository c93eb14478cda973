/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arithmetic of the rings that carry messages, and the queue of requests of a peer that are not
 * done yet.  Knows neither links nor threads; the caller serialises.
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
 * @prod: messages written so far; the caller increments it
 * @cons: messages that the peer is known to have consumed
 * @busy_since: 0: the ring is not busy. It gets busy when a check finds it full, and stays so until
 *	one finds it half empty. Milliseconds: when it got busy, or when the peer had taken
 *	DLEND_RING_SLOTS more messages
 * @busy_cons: @cons at @busy_since
 */
struct dlend_ring_tx {
	u32 prod;
	u32 cons;
	u64 busy_since;
	u32 busy_cons;
};

/**
 * struct dlend_ring_rx - consuming end
 * @cons: messages consumed so far; the caller increments it
 * @prod: messages that the peer is known to have written
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
 * dlend_ring_tx_slow - does the peer take messages too slowly, while the ring is busy?
 * @tx: producing end, after each dlend_ring_tx_room()
 * @now: (in) milliseconds, any origin
 * @limit: (in) milliseconds in which the peer has to take as many messages as the ring holds
 *
 * So a peer that takes one message now and then is no better than a peer that takes none.
 * Context: any; the caller serialises. Return: true: it is too slow.
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
 * @node: in dlend_requests.live, in order of arrival; or in .free
 * @number: how many requests had come on the link, this one included
 * @session: the session in which it came
 * @running: dlend_requests_add() or dlend_requests_done() has returned it, to be run
 * @refused: it is only answered with -ENOBUFS
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
 * struct dlend_requests - requests of one link
 * @live: requests that are not done
 * @free: memory for further requests
 * @arrived: how many requests have come so far
 * @calls: how many calls there are in @live
 * @posts: how many posts
 * @refusals: how many calls that are refused
 */
struct dlend_requests {
	struct list_head live, free;
	u64 arrived;
	unsigned int calls, posts, refusals;
};

/** dlend_requests_init - set up a queue: empty, without memory for requests. Context: any. */
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
 * dlend_requests_room - is there room for a request of any kind?
 * @q: (in) requests
 *
 * Context: any; the caller serialises.
 * Return: true; false: there is no room for a post, or none for a refused call.
 */
bool dlend_requests_room(const struct dlend_requests *q);

/**
 * dlend_requests_add - enter a request that has come
 * @q: requests; the caller has checked that dlend_requests_room() is true
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
 * dlend_requests_done - take out a request that was handled, and free its memory for another one
 * @q: requests
 * @r: request that dlend_requests_add() or dlend_requests_done() has returned
 *
 * Context: any; the caller serialises. Return: the request that is to be run now, or NULL.
 */
struct dlend_request *dlend_requests_done(struct dlend_requests *q, struct dlend_request *r);

/**
 * dlend_requests_caught_up - are all requests done that came up to some moment?
 * @q: (in) requests
 * @arrived: (in) dlend_requests.arrived at that moment
 * @side: (in) only requests for this side of the node; DLEND_TO_NOBODY: for both
 *
 * Context: any; the caller serialises. Return: true: they are done.
 */
bool dlend_requests_caught_up(const struct dlend_requests *q, u64 arrived,
			      enum dlend_msg_side side);

#endif
