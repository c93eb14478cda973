/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer-to-peer inside the borrower.
 *
 *   p2p_plan.c		what should be reached, and how: pure
 *   p2p_bookings.c	how much of the windows each VM has, or was promised: pure
 *   p2p_clique.c	who may be told to reach each other: pure
 *   p2p_paths.c	which nodes have links to each other, how much goes through them, and on
 *			which islands they end
 *   p2p_members.c	the borrowed devices of each party, as their users publish them
 *   p2p_edges.c	what is mapped for whom, and the worker that makes it so
 *
 * dlend_p2p_lock guards all of it.  It is never held while a lender is asked.
 */
#ifndef DLEND_BORROWER_P2P_H
#define DLEND_BORROWER_P2P_H

#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <dlend/p2p.h>
#include "p2p_bookings.h"

extern struct mutex dlend_p2p_lock;

/* p2p_paths.c */

/**
 * dlend_p2p_note_peers - a peer tells whom it has links to (DLEND_MSG_PEERS)
 * @link: (in) to that peer
 * @p: (in) checked message
 *
 * Context: process; takes dlend_p2p_lock.
 */
void dlend_p2p_note_peers(struct dlend_link *link, const struct dlend_p_peers *p);

/** dlend_p2p_forget_peers - @link is down. Context: process; takes dlend_p2p_lock. */
void dlend_p2p_forget_peers(struct dlend_link *link);

/**
 * dlend_p2p_paths_get - what is known of the links between nodes
 * @fabric: (out) for p2p_plan.h; valid until the returned memory is freed
 *
 * Context: process; takes dlend_p2p_lock. Return: memory for kfree(); NULL without memory (@fabric
 * is empty then).
 */
void *dlend_p2p_paths_get(struct dlend_p2p_fabric *fabric);

/**
 * dlend_p2p_paths_note_taken - what parties other than @party have booked is taken; once only
 * @paths: (in, out) as dlend_p2p_paths_get() returned it, also NULL
 * @party: (in) of &struct dlend_p2p_member
 *
 * Context: dlend_p2p_lock.
 */
void dlend_p2p_paths_note_taken(void *paths, const void *party);

/** dlend_p2p_paths_emit - the same for sysfs. Context: as there. Return: bytes, -ENOMEM. */
ssize_t dlend_p2p_paths_emit(char *buf);

/** dlend_p2p_paths_exit - free all. Context: module exit; no link calls any more. */
void dlend_p2p_paths_exit(void);

/* p2p_members.c */

extern struct list_head dlend_p2p_members;
extern struct list_head dlend_p2p_bookings;
extern bool dlend_p2p_changed;	/* members, since edges were planned; under dlend_p2p_lock */
extern struct delayed_work dlend_p2p_dwork;		/* p2p_edges.c has its function */
extern struct workqueue_struct *dlend_p2p_wq;

/** dlend_p2p_kick - something has changed: have the worker look at it. Context: any process. */
void dlend_p2p_kick(void);

/**
 * dlend_p2p_book - book a way, or, if it is booked, let that be a promise from now on
 * @want: (in) booking, in no list
 *
 * Context: dlend_p2p_lock. Return: false without memory.
 */
bool dlend_p2p_book(const struct dlend_p2p_booking *want);

/** dlend_p2p_unbook - the end of @b, which is booked. Context: dlend_p2p_lock. */
void dlend_p2p_unbook(struct dlend_p2p_booking *b);

/**
 * dlend_p2p_member_of - the member that is a certain device
 * @addr: (in) device
 *
 * Context: dlend_p2p_lock. Return: member, or NULL.
 */
struct dlend_p2p_member *dlend_p2p_member_of(const struct dlend_addr *addr);

/**
 * dlend_p2p_collect - the party of a member
 * @m: (in) member
 * @party: (out) its devices; the index @party->of is that of @m, or the number of devices if @m is
 *	none of the first DLEND_P2P_DEVS
 *
 * Context: dlend_p2p_lock.
 */
void dlend_p2p_collect(const struct dlend_p2p_member *m, struct dlend_p2p_party *party);

/* p2p_edges.c */

/**
 * dlend_p2p_note_lost - a lender has unmapped something by itself (DLEND_MSG_P2P_LOST)
 * @link: (in) to the lender of the source
 * @source: (in) the device that reached it
 * @epoch: (in) of the source's lease
 * @p: (in) what is lost; checked
 *
 * Context: process; takes dlend_p2p_lock.
 */
void dlend_p2p_note_lost(struct dlend_link *link, const struct dlend_addr *source, u32 epoch,
			 const struct dlend_p_p2p *p);

/** dlend_p2p_init - make the worker. Context: module init. Return: 0, -ENOMEM. */
int dlend_p2p_init(void);

/**
 * dlend_p2p_exit - have the worker unmap what is left, in one last turn
 *
 * Context: module exit; nobody is a member, and no link calls any more.
 */
void dlend_p2p_exit(void);

#endif
