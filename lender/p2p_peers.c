// SPDX-License-Identifier: GPL-2.0
/*
 * The nodes that this node has peer-to-peer with, and the lock of all of peer-to-peer.
 *
 * The p2p lock is taken under a group lock, so that a source's group and its target's group need no
 * order.  Fences of other borrowers wait for it.  So code that holds it walks only lists that are
 * of one function or of one peer, and these lists have a limit; and a map or unmap under it is no
 * work without end (dlend_domain_map(): what is large fits large pages).  Nobody sends a message
 * under it: notes go to the outbox.
 *
 * Knows nothing of what peers grant or are granted.
 */
#include <linux/slab.h>

#include <dlend/compat.h>

#include "lender/outbox.h"
#include "lender/p2p_peers.h"

/* Guards all of peer-to-peer: see above. */
DEFINE_MUTEX(lend_p2p_lock);
LIST_HEAD(lend_peers);
DECLARE_WAIT_QUEUE_HEAD(lend_peers_wait);

struct lend_peer *lend_peer_find(const struct dlend_link *link)
{
	struct lend_peer *peer;

	list_for_each_entry(peer, &lend_peers, node)
		if (peer->link == link)
			return peer;
	return NULL;
}

struct lend_peer *lend_peer_get(struct dlend_link *link)
{
	struct lend_peer *peer = lend_peer_find(link);

	if (peer)
		return peer;
	peer = kzalloc_obj(*peer);
	if (!peer)
		return NULL;
	peer->link = dlend_link_get(link);
	INIT_LIST_HEAD(&peer->foreigns);
	INIT_LIST_HEAD(&peer->grants);
	list_add_tail(&peer->node, &lend_peers);
	return peer;
}

void lend_peer_free(struct lend_peer *peer)
{
	list_del(&peer->node);
	dlend_link_put(peer->link);
	kfree(peer);
}

void lend_peer_note_id(struct dlend_link *link, u16 type, const struct dlend_addr *addr,
		       u32 epoch, u32 id)
{
	struct dlend_p_p2p_id *p;
	struct dlend_msg msg;

	p = dlend_msg_init(&msg, type, addr, epoch, sizeof(*p));
	p->id = cpu_to_le32(id);
	lend_outbox_note(link, &msg);
}
