/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer-to-peer inside the borrower: where things on other nodes sit, which nodes have links to each
 * other, the borrowed devices of each party, and what is mapped for whom.  What should be mapped,
 * and how, is decided in p2p_plan.c.
 *
 * dlend_p2p_lock guards all of it.  It is never held while a lender is asked.
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
 * dlend_bridges_emit - bridges as words, from the root on
 * @buf: (out) a page of sysfs
 * @at: (in) offset in it
 * @place: (in) bridges
 *
 * Context: any. Return: bytes written.
 */
int dlend_bridges_emit(char *buf, int at, const struct dlend_p_place *place);

/**
 * dlend_bridge_ends_emit - the known ends of links, a line each
 * @buf: (out) a page of sysfs
 * @roots: (in) where they join root complexes; else the bridges above them
 *
 * Context: process; takes dlend_p2p_lock. Return: bytes written.
 */
ssize_t dlend_bridge_ends_emit(char *buf, bool roots);

/** dlend_place_emit_root - where @place joins the root complex; as dlend_bridges_emit(). */
int dlend_place_emit_root(char *buf, int at, const struct dlend_p_place *place);

extern struct mutex dlend_p2p_lock;

/**
 * dlend_p2p_note_peers - a peer tells whom it has links to (DLEND_MSG_PEERS)
 * @link: (in) to that peer
 * @p: (in) checked message
 *
 * Context: process; takes dlend_p2p_lock.
 */
void dlend_p2p_note_peers(struct dlend_link *link, const struct dlend_p_peers *p);

/**
 * dlend_p2p_note_end - a peer tells where one of its NTBs sits (DLEND_MSG_PLACE)
 * @link: (in) to that peer
 * @addr: (in) the NTB
 * @place: (in) the node that the NTB leads to, and where the NTB is
 *
 * Context: process; takes dlend_p2p_lock.
 */
void dlend_p2p_note_end(struct dlend_link *link, const struct dlend_addr *addr,
			const struct dlend_p_place *place);

/** dlend_p2p_forget_peer - @link is down. Context: process; takes dlend_p2p_lock. */
void dlend_p2p_forget_peer(struct dlend_link *link);

/** dlend_p2p_paths_emit - known links, for sysfs. Context: process. Return: bytes, -ENOMEM. */
ssize_t dlend_p2p_paths_emit(char *buf);

/** dlend_p2p_kick - something has changed: have the worker look at it. Context: any process. */
void dlend_p2p_kick(void);

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
