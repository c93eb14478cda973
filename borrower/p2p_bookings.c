// SPDX-License-Identifier: GPL-2.0
/*
 * Bookings: see p2p_bookings.h.
 *
 * Pure logic: knows nothing of locks and messages, nor when something is booked.
 */
#include <linux/list.h>
#include "p2p_bookings.h"

bool dlend_p2p_booking_place(struct dlend_p2p_booking *b, u16 self, enum dlend_p2p_route route)
{
	b->from = b->s.lender;
	b->to = route == DLEND_P2P_BORROWER ? self : b->t.lender;
	return route == DLEND_P2P_LENDERS || route == DLEND_P2P_BORROWER;
}

static bool dlend_p2p_booking_same_bar(const struct dlend_p2p_booking *a,
				       const struct dlend_p2p_booking *b)
{
	return a->from == b->from && a->to == b->to && a->bar == b->bar &&
	       dlend_addr_same(&a->t, &b->t);
}

struct dlend_p2p_booking *dlend_p2p_booking_find(const struct list_head *list,
						 const struct dlend_p2p_booking *like)
{
	struct dlend_p2p_booking *b;

	list_for_each_entry(b, list, node)
		if (dlend_p2p_booking_same_bar(b, like) && dlend_addr_same(&b->s, &like->s))
			return b;
	return NULL;
}

/* A booking whose slot serves @like, too. */
static struct dlend_p2p_booking *dlend_p2p_booking_shared(const struct list_head *list,
							  const struct dlend_p2p_booking *like)
{
	struct dlend_p2p_booking *b;

	/* Through this node, each device has a slot of its own. */
	if (like->to != like->t.lender)
		return NULL;
	list_for_each_entry(b, list, node)
		if (dlend_p2p_booking_same_bar(b, like))
			return b;
	return NULL;
}

bool dlend_p2p_booking_fits(const struct list_head *list, const struct dlend_p2p_fabric *f,
			    const struct dlend_p2p_booking *want)
{
	const struct dlend_p2p_booking *b;
	bool promised = false;
	u64 sum = want->bytes;

	if (dlend_p2p_booking_shared(list, want))
		return true;
	list_for_each_entry(b, list, node) {
		if (b->from != want->from || b->to != want->to)
			continue;
		if (b->counts)
			sum += b->bytes;
		promised = promised || (b->promised && b->party != want->party);
	}
	return !promised || sum <= dlend_p2p_room(f, want->from, want->to);
}

void dlend_p2p_booking_add(struct list_head *list, struct dlend_p2p_booking *b)
{
	b->counts = !dlend_p2p_booking_shared(list, b);
	list_add_tail(&b->node, list);
}

void dlend_p2p_booking_del(struct list_head *list, struct dlend_p2p_booking *b)
{
	struct dlend_p2p_booking *heir;

	list_del(&b->node);
	heir = b->counts ? dlend_p2p_booking_shared(list, b) : NULL;
	if (heir)
		heir->counts = true;
}

struct dlend_p2p_booking *dlend_p2p_booking_of(const struct list_head *list,
					       const struct dlend_addr *addr)
{
	struct dlend_p2p_booking *b;

	list_for_each_entry(b, list, node)
		if (dlend_addr_same(&b->s, addr) || dlend_addr_same(&b->t, addr))
			return b;
	return NULL;
}

u64 dlend_p2p_booked(const struct list_head *list, u16 from, u16 to, const void *party)
{
	const struct dlend_p2p_booking *b;
	u64 sum = 0;

	list_for_each_entry(b, list, node)
		if (b->from == from && b->to == to && b->counts && b->party != party)
			sum += b->bytes;
	return sum;
}
