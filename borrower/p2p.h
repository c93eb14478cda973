/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer-to-peer inside the borrower: the links that other nodes have, and where their NTBs sit; the
 * borrowed devices of each user; and what each of these reaches.  p2p_plan.c decides what should
 * be mapped, and how.
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
 * dlend_bridges_emit - print bridges, from the root on
 * @buf: (out) a page of sysfs
 * @at: (in) offset in it
 * @place: (in) bridges
 *
 * Context: any. Return: bytes written.
 */
int dlend_bridges_emit(char *buf, int at, const struct dlend_p_place *place);

/**
 * dlend_bridge_ends_emit - print the known NTBs of peers, a line each
 * @buf: (out) a page of sysfs
 * @roots: (in) true: where they join root complexes; false: the bridges above them
 *
 * Context: process; takes dlend_p2p_lock. Return: bytes written.
 */
ssize_t dlend_bridge_ends_emit(char *buf, bool roots);

/**
 * dlend_place_emit_root - print where a place joins the root complex
 * @buf: (out) a page of sysfs
 * @at: (in) offset in it
 * @place: (in) place
 *
 * Context: any. Return: bytes written.
 */
int dlend_place_emit_root(char *buf, int at, const struct dlend_p_place *place);

extern struct mutex dlend_p2p_lock;

/**
 * dlend_p2p_note_peers - a peer tells which nodes it has links to (DLEND_MSG_PEERS)
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

/** dlend_p2p_queue_work - have the worker look at what has changed. Context: process. */
void dlend_p2p_queue_work(void);

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
 * Context: module exit; there is no member, and no link calls any more.
 */
void dlend_p2p_exit(void);

#endif
