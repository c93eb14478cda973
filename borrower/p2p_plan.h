/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bookings: how much of each window peer-to-peer of this node's VMs uses, or was promised.  Pure
 * logic; the caller serialises, and provides the memory.
 *
 * When a VM opens a device, room is booked for all ways that its guest may be told of: to and from
 * the devices of the same clique.  Such a promise stays until one of the two devices leaves,
 * whether a mapping is there or not.  A mapping without a promise is booked for as long as it is
 * there, and only if the promises of other VMs stay free.
 *
 * Context of all functions: any.
 */
#ifndef DLEND_BORROWER_P2P_PLAN_H
#define DLEND_BORROWER_P2P_PLAN_H

#include <linux/list.h>
#include <dlend/p2p_plan.h>

/**
 * struct dlend_p2p_booking - room in an aperture for a device's way to a BAR of another one
 * @node: in the list of bookings
 * @from, @to: the aperture that node @to has on its link to node @from
 * @user: owner of both devices; only compared
 * @s: the device that reaches
 * @t: the device whose BAR it is
 * @bar: which BAR
 * @bytes: how much room
 * @promised: it stays until one of the two devices leaves
 * @counts: its bytes count. All devices of one lender reach a BAR of another lender through one
 *	slot, so one of their bookings counts
 */
struct dlend_p2p_booking {
	struct list_head node;
	u16 from, to;
	const void *user;
	struct dlend_addr s, t;
	unsigned int bar;
	u64 bytes;
	bool promised, counts;
};

/**
 * dlend_p2p_booking_set_aperture - in which aperture a way needs room
 * @b: (in, out) booking, in no list; @b->s and @b->t are set. (out): @b->from, @b->to
 * @self: (in) this node
 * @route: (in) the way
 *
 * Return: false if the way needs no window.
 */
bool dlend_p2p_booking_set_aperture(struct dlend_p2p_booking *b, u16 self,
				    enum dlend_p2p_route route);

/** dlend_p2p_booking_find - the booking in @list for the same way as @like, or NULL */
struct dlend_p2p_booking *dlend_p2p_booking_find(const struct list_head *list,
						 const struct dlend_p2p_booking *like);

/**
 * dlend_p2p_booking_fits - does @b, which is in no list, leave the promises of others free?
 *
 * If others were promised nothing in that aperture, it fits: then the map itself may fail.
 */
bool dlend_p2p_booking_fits(const struct list_head *list, const struct dlend_p2p_fabric *f,
			    const struct dlend_p2p_booking *b);

/** dlend_p2p_booking_add - add @b to @list; set whether it counts there */
void dlend_p2p_booking_add(struct list_head *list, struct dlend_p2p_booking *b);

/** dlend_p2p_booking_del - take @b out of @list; the caller frees it */
void dlend_p2p_booking_del(struct list_head *list, struct dlend_p2p_booking *b);

/** dlend_p2p_booking_of - a booking in @list that the device @addr is a part of, or NULL */
struct dlend_p2p_booking *dlend_p2p_booking_of(const struct list_head *list,
					       const struct dlend_addr *addr);

/** dlend_p2p_booked - bytes in the aperture of @to for @from that users other than @user have */
u64 dlend_p2p_booked(const struct list_head *list, u16 from, u16 to, const void *user);

#endif
