/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The nodes that this node has peer-to-peer with, for p2p.c, p2p_grants.c, p2p_foreign.c and
 * p2p_maps.c only.  struct lend_peer has what these files keep for one link.
 */
#ifndef DLEND_LENDER_P2P_PEERS_H
#define DLEND_LENDER_P2P_PEERS_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/wait.h>

#include <dlend/link.h>

/* Grants that a peer may have, or give, at a time: a peer must not fill this host's memory. */
#define LEND_PEER_MAX		1024

/**
 * struct lend_peer - all peer-to-peer with the node behind one link
 * @node: in lend_peers
 * @link: referenced
 * @foreigns: struct lend_foreign: what that node grants to devices here
 * @nr_foreigns: how many
 * @grants: struct lend_grant: what is granted to devices there
 * @nr_grants: how many
 */
struct lend_peer {
	struct list_head node;
	struct dlend_link *link;
	struct list_head foreigns, grants;
	unsigned int nr_foreigns, nr_grants;
};

/* The p2p lock: guards all of peer-to-peer. */
extern struct mutex lend_p2p_lock;

/* All struct lend_peer (p2p lock). */
extern struct list_head lend_peers;

/* Woken when a peer has granted something, or its link was lost. */
extern wait_queue_head_t lend_peers_wait;

/**
 * lend_peer_find - the peer behind a link
 * @link: (in) link
 *
 * Context: process, p2p lock.
 * Return: the peer, or NULL.
 */
struct lend_peer *lend_peer_find(const struct dlend_link *link);

/**
 * lend_peer_get - the peer behind a link; made if there is none
 * @link: (in) link, which is up; lend_peer_free() when it is lost
 *
 * Context: process, p2p lock.
 * Return: the peer; NULL: no memory.
 */
struct lend_peer *lend_peer_get(struct dlend_link *link);

/** lend_peer_free - forget @peer (in), which has nothing any more. Context: process, p2p lock. */
void lend_peer_free(struct lend_peer *peer);

/**
 * lend_peer_note_id - send a peer a message that names a grant by its id only
 * @link: (in) to the peer
 * @type: (in) DLEND_MSG_P2P_CLOSE or DLEND_MSG_P2P_CLOSED
 * @addr: (in) name of the granted function
 * @epoch: (in) of its lease
 * @id: (in) of the grant
 *
 * Context: process; takes the listeners lock.
 */
void lend_peer_note_id(struct dlend_link *link, u16 type, const struct dlend_addr *addr,
		       u32 epoch, u32 id);

#endif
