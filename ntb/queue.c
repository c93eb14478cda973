// SPDX-License-Identifier: GPL-2.0
/*
 * Index arithmetic of the message rings, and requests that are not done: see queue.h.
 *
 * Pure: it touches neither the ring's memory nor a window, so wrap-around and a lying peer can be
 * tested without them.  All requests are in one list, in order of arrival.  The list has some
 * hundred entries at most, so a walk finds the next one of a device quickly enough.  Nothing is
 * allocated for a device, as a peer could invent devices.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/byteorder.h>
#include <dlend/proto.h>
#include "queue.h"

/* Rings */

static_assert((DLEND_RING_SLOTS & (DLEND_RING_SLOTS - 1)) == 0);

int dlend_ring_tx_room(struct dlend_ring_tx *tx, u32 credit)
{
	/* Differences of running numbers: right across the wrap of 32 bits. */
	if (credit - tx->cons > tx->prod - tx->cons)
		return -EPROTO;
	tx->cons = credit;
	return DLEND_RING_SLOTS - (tx->prod - tx->cons);
}

bool dlend_ring_tx_slow(struct dlend_ring_tx *tx, u64 now, u64 limit)
{
	u32 used = tx->prod - tx->cons;

	if (used <= DLEND_RING_SLOTS / 2) {
		tx->busy_since = 0;
	} else if (tx->busy_since ? tx->cons - tx->busy_cons >= DLEND_RING_SLOTS :
				    used == DLEND_RING_SLOTS) {
		tx->busy_since = now ? now : 1;
		tx->busy_cons = tx->cons;
	}
	return tx->busy_since && now - tx->busy_since > limit;
}

int dlend_ring_rx_avail(struct dlend_ring_rx *rx, u32 index)
{
	u32 known = rx->prod - rx->cons;
	u32 avail = index - rx->cons;

	if (avail > DLEND_RING_SLOTS || avail < known)
		return -EPROTO;
	rx->prod = index;
	return avail;
}

/* Requests */

void dlend_requests_init(struct dlend_requests *q)
{
	memset(q, 0, sizeof(*q));
	INIT_LIST_HEAD(&q->live);
	INIT_LIST_HEAD(&q->free);
}

void dlend_requests_give(struct dlend_requests *q, struct dlend_request *r)
{
	list_add_tail(&r->node, &q->free);
}

bool dlend_requests_room(const struct dlend_requests *q)
{
	return q->posts < DLEND_MAX_POSTS && q->refusals < DLEND_MAX_REFUSALS &&
	       !list_empty(&q->free);
}

static enum dlend_msg_side dlend_request_side(const struct dlend_msg *msg)
{
	return dlend_msg_to(le16_to_cpu(msg->type));
}

bool dlend_requests_caught_up(const struct dlend_requests *q, u64 arrived,
			      enum dlend_msg_side side)
{
	const struct dlend_request *r;

	list_for_each_entry(r, &q->live, node)
		if (r->number <= arrived && (!side || dlend_request_side(&r->msg) == side))
			return false;
	return true;
}

/*
 * On the loop one node gets messages for a device's lender and messages for its borrower.  These
 * two kinds do not wait for each other.
 */
static bool dlend_request_same_device(const struct dlend_msg *a, const struct dlend_msg *b)
{
	return a->lender == b->lender && a->bdf == b->bdf &&
	       dlend_request_side(a) == dlend_request_side(b);
}

/* Are both posts, and equal, except for sequence number and checksum? */
static bool dlend_request_repeats(const struct dlend_msg *a, const struct dlend_msg *b)
{
	return a->type == b->type && a->flags == b->flags && !a->id && !b->id &&
	       a->epoch == b->epoch && dlend_request_same_device(a, b) && a->len == b->len &&
	       !memcmp(a->payload, b->payload, sizeof(a->payload));
}

/*
 * Find the requests about the device of @msg that are not done; refused ones are skipped.  @last:
 * (out) the last one, not written if there is none; @calls: (out) how many calls there are.
 * Return: the first one, which is run next; NULL: there is none
 */
static struct dlend_request *dlend_requests_of_device(struct dlend_requests *q,
						      const struct dlend_msg *msg,
						      struct dlend_request **last,
						      unsigned int *calls)
{
	struct dlend_request *r, *first = NULL;

	*calls = 0;
	list_for_each_entry(r, &q->live, node) {
		if (r->refused || !dlend_request_same_device(&r->msg, msg))
			continue;
		*calls += !!r->msg.id;
		*last = r;
		first = first ?: r;
	}
	return first;
}

struct dlend_request *dlend_requests_add(struct dlend_requests *q, u64 session,
					 const struct dlend_msg *msg)
{
	struct dlend_request *last = NULL, *r;
	unsigned int calls;

	dlend_requests_of_device(q, msg, &last, &calls);
	if (last && !last->running && last->session == session &&
	    dlend_request_repeats(&last->msg, msg))
		return NULL;
	r = list_first_entry(&q->free, struct dlend_request, node);
	list_move_tail(&r->node, &q->live);
	r->number = ++q->arrived;
	r->session = session;
	r->msg = *msg;
	r->refused = msg->id && (q->calls >= DLEND_MAX_CALLS || calls >= DLEND_MAX_DEVICE_CALLS);
	r->running = r->refused || !last;
	if (r->refused)
		q->refusals++;
	else if (msg->id)
		q->calls++;
	else
		q->posts++;
	return r->running ? r : NULL;
}

struct dlend_request *dlend_requests_done(struct dlend_requests *q, struct dlend_request *r)
{
	struct dlend_request *next, *last;
	unsigned int calls;

	list_move_tail(&r->node, &q->free);
	if (r->refused) {
		q->refusals--;
		return NULL;
	}
	if (r->msg.id)
		q->calls--;
	else
		q->posts--;
	next = dlend_requests_of_device(q, &r->msg, &last, &calls);
	if (next)
		next->running = true;
	return next;
}
