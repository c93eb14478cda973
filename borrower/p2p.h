/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer-to-peer inside the borrower: the links that other nodes have, and where their NTBs sit; the
 * borrowed devices of each user; and what each of these devices reaches.  p2p_plan.c decides what
 * should be mapped, and how.  p2p.c defines the words.
 *
 * dlend_p2p_lock guards all that p2p.c keeps, with exceptions that p2p.c names.  It is never held
 * while a lender is asked.
 */
#ifndef DLEND_BORROWER_P2P_H
#define DLEND_BORROWER_P2P_H

#include <linux/mutex.h>
#include <dlend/link.h>
#include <dlend/p2p.h>
#include <dlend/p2p_plan.h>
#include <dlend/root.h>
#include "p2p_plan.h"

/**
 * dlend_bridges_emit - print the bridges above a function, from the root bus on
 * @buf: (out) a page of sysfs
 * @at: (in) offset in @buf where the text begins
 * @place: (in) where the function sits
 *
 * Context: any. Return: bytes written.
 */
int dlend_bridges_emit(char *buf, int at, const struct dlend_p_place *place);

/**
 * dlend_bridge_ends_emit - print the known NTBs of peers, a line each
 * @buf: (out) a page of sysfs
 * @roots: (in) true: print where they join root complexes; false: print the bridges above them
 *
 * Lines that do not fit into the page are left out. Context: process; takes dlend_p2p_lock. Return:
 * bytes written.
 */
ssize_t dlend_bridge_ends_emit(char *buf, bool roots);

/**
 * dlend_place_emit_root - print where a function joins the root complex
 * @buf: (out) a page of sysfs
 * @at: (in) offset in @buf where the text begins
 * @place: (in) where the function sits
 *
 * Context: any. Return: bytes written.
 */
int dlend_place_emit_root(char *buf, int at, const struct dlend_p_place *place);

extern struct mutex dlend_p2p_lock;

/**
 * dlend_p2p_note_peers - note which nodes a peer has links to (DLEND_MSG_PEERS)
 * @link: (in) link to that peer; a reference is kept until dlend_p2p_forget_peer()
 * @p: (in) message, checked by the link
 *
 * The caller then calls dlend_p2p_queue_work().
 *
 * Context: process; takes dlend_p2p_lock.
 */
void dlend_p2p_note_peers(struct dlend_link *link, const struct dlend_p_peers *p);

/**
 * dlend_p2p_note_end - note where one of a peer's NTBs sits (DLEND_MSG_PLACE)
 * @link: (in) link to that peer; a reference is kept until dlend_p2p_forget_peer()
 * @addr: (in) the NTB's function in the peer
 * @place: (in) the node that the NTB leads to, and where the NTB sits
 *
 * Context: process; takes dlend_p2p_lock.
 */
void dlend_p2p_note_end(struct dlend_link *link, const struct dlend_addr *addr,
			const struct dlend_p_place *place);

/**
 * dlend_p2p_forget_peer - forget what a peer has sent about its links
 * @link: (in) link to that peer, which is down; nothing happens if the peer has sent nothing
 *
 * Context: process; takes dlend_p2p_lock.
 */
void dlend_p2p_forget_peer(struct dlend_link *link);

/**
 * dlend_p2p_paths_emit - print the paths that this node knows, a line each
 * @buf: (out) a page of sysfs: "FROM TO BYTES": peer-to-peer may use so much of the aperture that
 *	node TO has on its link to node FROM
 *
 * Lines that do not fit into the page are left out. Context: process; takes dlend_p2p_lock. Return:
 * bytes written, or -ENOMEM.
 */
ssize_t dlend_p2p_paths_emit(char *buf);

/** dlend_p2p_queue_work - have the worker look at all edges soon. Context: any. */
void dlend_p2p_queue_work(void);

/**
 * dlend_p2p_note_lost - note that a lender has unmapped a BAR by itself (DLEND_MSG_P2P_LOST)
 * @link: (in) link to the lender of the source
 * @source: (in) the device that reached the BAR
 * @epoch: (in) number of the source's lease
 * @p: (in) message, checked by the link: the target, the epoch of its lease, and its BAR
 *
 * A message about an earlier lease or session is ignored. The worker maps the BAR again later.
 * Context: process; takes dlend_p2p_lock.
 */
void dlend_p2p_note_lost(struct dlend_link *link, const struct dlend_addr *source, u32 epoch,
			 const struct dlend_p_p2p *p);

/** dlend_p2p_init - make the worker's workqueue. Context: module init. Return: 0, -ENOMEM. */
int dlend_p2p_init(void);

/**
 * dlend_p2p_exit - have the worker unmap all edges, and free what peers have sent
 *
 * The caller guarantees that no member is left, and that no link calls the borrower any more.
 * Context: module exit; may wait for lenders.
 */
void dlend_p2p_exit(void);

#endif
