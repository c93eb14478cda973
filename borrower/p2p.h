/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer-to-peer inside borrower/; other folders use dlend/p2p.h.  p2p.c keeps what peers have sent
 * about their links and the NTBs of these links, the borrowed devices of each user, and which BARs
 * each of these devices reaches.  p2p_plan.c decides what should be mapped, and by which route.  A
 * worker of p2p.c then asks the lenders.
 *
 * Words, beside those of docs/architecture.md (p2p.c has some more, for itself):
 *
 * - source, target: the device that reaches a BAR, and the device whose BAR it is.
 * - path: how much of an aperture peer-to-peer may use.  Node TO has the aperture, on its link to
 *   node FROM, and accesses arrive there from FROM.
 * - place: where a function is in its host: the bridges above it, and where it joins the root
 *   complex (struct dlend_p_place).
 * - end: an NTB of a link, and its place.
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
 * dlend_p2p_emit_place - print the bridges above a function, from the root bus on
 * @buf: (out) a page of sysfs: "BDF,KIND" or "BDF,KIND,acs" for each bridge, with spaces between
 *	them, without a new line
 * @at: (in) offset in @buf where the text begins
 * @place: (in) place of the function, from a message that the link has checked
 *
 * Context: any; the caller keeps @place from changing.
 * Return: bytes written.
 */
int dlend_p2p_emit_place(char *buf, int at, const struct dlend_p_place *place);

/**
 * dlend_p2p_emit_ntbs - print the NTBs of peers whose places these have sent, a line each
 * @buf: (out) a page of sysfs: "NODE TO BDF BRIDGES" or "NODE TO ROOT": the NTB of node NODE that
 *	leads to node TO
 * @roots: (in) true: ROOT, as dlend_place_emit_root(); false: BDF of the NTB, and BRIDGES, as
 *	dlend_p2p_emit_place()
 *
 * Lines that do not fit into the page are left out.
 * Context: process, may sleep; takes dlend_p2p_lock.
 * Return: bytes written.
 */
ssize_t dlend_p2p_emit_ntbs(char *buf, bool roots);

/**
 * dlend_place_emit_root - print where a function joins the root complex of its host
 * @buf: (out) a page of sysfs: "DDDD:BB NUMA PAYLOAD P2P_DOMAIN", as dlend_root_emit(), without a
 *	new line
 * @at: (in) offset in @buf where the text begins
 * @place: (in) place of the function, from a message that the link has checked
 *
 * Context: any; the caller keeps @place from changing.
 * Return: bytes written.
 */
int dlend_place_emit_root(char *buf, int at, const struct dlend_p_place *place);

/*
 * Guards what peers have sent, the list of members and their contents, the bookings of room, and
 * the list of edges.  Of the edges themselves it guards only some members, because only the worker
 * writes the others (the top of p2p.c says which).  The worker gives the lock up while it asks a
 * lender.  It is taken inside dlend_offers_lock, and locks of apertures are taken inside it.
 */
extern struct mutex dlend_p2p_lock;

/**
 * dlend_p2p_note_peers - note a peer's paths: which nodes it has links to (DLEND_MSG_PEERS)
 * @link: (in) link to that peer. This function takes a reference, if it has none for this peer yet;
 *	dlend_p2p_forget_peer() drops it
 * @p: (in) payload of the message, whose fields the link has checked
 *
 * A list may come in several messages: the paths of the list before it stay valid until the last of
 * them has come. Without memory, or if a message of the list is missing, this one is ignored.
 *
 * The caller then calls dlend_p2p_queue_work(), because routes depend on paths.
 *
 * Context: process, may sleep; takes dlend_p2p_lock.
 */
void dlend_p2p_note_peers(struct dlend_link *link, const struct dlend_p_peers *p);

/**
 * dlend_p2p_note_ntb - note the place of one of a peer's NTBs (DLEND_MSG_PLACE)
 * @link: (in) link to that peer; reference: as for dlend_p2p_note_peers()
 * @addr: (in) address of the NTB's function, whose lender is the peer; checked by the caller
 * @place: (in) payload of the message, whose fields the link has checked: place of the NTB, and in
 *	@place->node the node that the NTB leads to
 *
 * The place of another NTB of this peer that leads to the same node is replaced. Without memory, or
 * after DLEND_PEERS_MAX NTBs, the message is ignored. Cliques depend on these places, and
 * sysfs shows them. Edges do not depend on them, so nobody queues the worker.
 *
 * Context: process, may sleep; takes dlend_p2p_lock.
 */
void dlend_p2p_note_ntb(struct dlend_link *link, const struct dlend_addr *addr,
			const struct dlend_p_place *place);

/**
 * dlend_p2p_forget_peer - forget what a peer has sent about its links, and drop the reference
 * @link: (in) link to that peer, whose session has ended; nothing happens if the peer has sent
 *	nothing
 *
 * Edges stay as they are: those of devices of that peer end with their leases.
 *
 * Context: process, may sleep; takes dlend_p2p_lock.
 */
void dlend_p2p_forget_peer(struct dlend_link *link);

/**
 * dlend_p2p_paths_emit - print the paths of this node and of its peers, a line each
 * @buf: (out) a page of sysfs: "FROM TO BYTES": peer-to-peer may use BYTES bytes of the aperture
 *	that node TO has on its link to node FROM
 *
 * Lines that do not fit into the page are left out.
 * Context: process, may sleep; takes dlend_links_lock, dlend_root_lock and locks of apertures, and
 * after these dlend_p2p_lock.
 * Return: bytes written, or -ENOMEM.
 */
ssize_t dlend_p2p_paths_emit(char *buf);

/**
 * dlend_p2p_queue_work - queue the worker, which maps and unmaps edges as they should be
 *
 * A pause before the worker's next run ends. But an edge that could not be mapped is tried again
 * only when the edge's own pause is over, or when its mapping should be another one.
 *
 * Context: any; with or without dlend_p2p_lock.
 */
void dlend_p2p_queue_work(void);

/**
 * dlend_p2p_note_lost - note that a lender has unmapped an edge by itself (DLEND_MSG_P2P_LOST)
 * @link: (in) link to the lender of the source
 * @source: (in) the source
 * @epoch: (in) number of the source's lease
 * @p: (in) payload of the message, whose fields the link has checked: the target, the epoch of the
 *	target's lease, and the BAR
 *
 * A message about an edge that this node does not have, or about an earlier lease of the source or
 * of the target, is ignored. Else the worker is queued: it has the rest of the edge unmapped, and
 * maps the edge again after a pause, if the edge is still wanted.
 *
 * Context: process, may sleep, waits for no peer; takes dlend_p2p_lock.
 */
void dlend_p2p_note_lost(struct dlend_link *link, const struct dlend_addr *source, u32 epoch,
			 const struct dlend_p_p2p *p);

/** dlend_p2p_init - make the worker's workqueue. Context: module init. Return: 0; -ENOMEM. */
int dlend_p2p_init(void);

/**
 * dlend_p2p_exit - unmap all edges, free what peers have sent, and destroy the workqueue
 *
 * Runs the worker a last time, and waits until it has ended. The caller guarantees that no member
 * is left, and that no link calls the borrower's struct dlend_link_user any more.
 *
 * Context: module exit, or module init that has failed; may wait for lenders' answers, for each one
 * at most call_timeout_ms.
 */
void dlend_p2p_exit(void);

#endif
