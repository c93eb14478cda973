/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bookings: how much of each aperture is reserved for peer-to-peer of this node's VMs.  Pure logic;
 * the caller serialises (dlend_p2p_lock), and provides the memory.
 *
 * A *way* is a source, a target and a BAR (dlend/p2p_plan.h).  When a VM opens a device, room is
 * booked for all ways that a clique may tell its guest of: to and from the devices of the same
 * clique.  Such a booking, a *promise*, stays until one of the two devices leaves the VM, whether
 * the BAR is mapped or not.  Without a promise, room is booked for as long as the BAR is mapped,
 * and only if the promises of other VMs stay free.
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
 * @from: node that accesses come from
 * @to: node that they go to: the aperture is the one that it has on its link to @from
 * @user: user of both devices; only compared
 * @s: source: the device that reaches the BAR
 * @t: target: the device whose BAR it is
 * @bar: which BAR
 * @bytes: how much room
 * @promised: it is a promise: it stays until one of the two devices leaves
 * @counts: its bytes count. All devices of one lender reach a BAR of another lender through one
 *	slot, so of their bookings only one counts
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
 * dlend_p2p_booking_set_aperture - set the aperture in which a way needs room
 * @b: (in, out) booking, in no list, with @b->s and @b->t; @b->from and @b->to are set
 * @self: (in) this node
 * @route: (in) how accesses get from @b->s to @b->t
 *
 * Return: false if no aperture is on this route, so that there is nothing to book.
 */
bool dlend_p2p_booking_set_aperture(struct dlend_p2p_booking *b, u16 self,
				    enum dlend_p2p_route route);

/**
 * dlend_p2p_booking_find - find a booking for the same source, target, BAR and aperture
 * @list: (in) bookings
 * @like: (in) what to look for; need not be in the list
 *
 * Return: the booking, valid until the caller removes it from the list; or NULL.
 */
struct dlend_p2p_booking *dlend_p2p_booking_find(const struct list_head *list,
						 const struct dlend_p2p_booking *like);

/**
 * dlend_p2p_booking_fits - is there room for a booking beside the promises of other users?
 * @list: (in) bookings
 * @f: (in) how large the apertures are
 * @b: (in) booking, in no list
 *
 * Return: true also if other users were promised nothing in that aperture: then the booking takes
 * nothing from them, and a map for which there is no room fails by itself.
 */
bool dlend_p2p_booking_fits(const struct list_head *list, const struct dlend_p2p_fabric *f,
			    const struct dlend_p2p_booking *b);

/**
 * dlend_p2p_booking_add - add a booking
 * @list: (in, out) bookings
 * @b: (in, out) booking, in no list; the caller keeps it until dlend_p2p_booking_del(). @b->counts
 *	is set
 */
void dlend_p2p_booking_add(struct list_head *list, struct dlend_p2p_booking *b);

/**
 * dlend_p2p_booking_del - remove a booking
 * @list: (in, out) bookings; if @b has counted for several, another one counts now
 * @b: (in, out) booking in @list; the caller frees it
 */
void dlend_p2p_booking_del(struct list_head *list, struct dlend_p2p_booking *b);

/**
 * dlend_p2p_booking_of - find any booking of which a device is the source or the target
 * @list: (in) bookings
 * @addr: (in) device
 *
 * Return: as dlend_p2p_booking_find().
 */
struct dlend_p2p_booking *dlend_p2p_booking_of(const struct list_head *list,
					       const struct dlend_addr *addr);

/**
 * dlend_p2p_booked - how much of an aperture other users have booked
 * @list: (in) bookings
 * @from: (in) node whose accesses arrive in the aperture
 * @to: (in) node that has the aperture
 * @user: (in) the user whose bookings do not count
 *
 * Return: bytes.
 */
u64 dlend_p2p_booked(const struct list_head *list, u16 from, u16 to, const void *user);

#endif
