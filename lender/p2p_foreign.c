// SPDX-License-Identifier: GPL-2.0
/*
 * What other lenders grant to devices here (struct lend_foreign): offsets in their apertures at
 * which BARs of their functions are reached, as those lenders have said (P2P_WINDOW).  When a
 * lender ends a grant (P2P_CLOSE), the maps that lead there go, and then the lender is answered.
 *
 * Knows nothing of functions that are lent here.
 */
#include <linux/slab.h>
#include <linux/wait.h>

#include <dlend/compat.h>

#include "lender/p2p_foreign.h"
#include "lender/p2p_maps.h"

/*
 * How long a P2P_MAP message waits for the P2P_WINDOW message that it needs: the two take different
 * links, so that P2P_MAP may arrive first.
 */
#define LEND_WINDOW_WAIT_MS	1000

static struct lend_foreign *lend_foreign_at(const struct lend_peer *peer,
					    const struct dlend_link *lease,
					    const struct dlend_p_p2p *p)
{
	struct dlend_addr target = dlend_p2p_target(p);
	struct lend_foreign *foreign;

	list_for_each_entry(foreign, &peer->foreigns, node)
		if (dlend_addr_same(&foreign->addr, &target) &&
		    foreign->epoch == le32_to_cpu(p->epoch) &&
		    foreign->bar == le16_to_cpu(p->bar) &&
		    foreign->borrower == dlend_link_peer(lease))
			return foreign;
	return NULL;
}

/* A node speaks for its own devices only, so only grants of @p's lender are looked at. */
struct lend_foreign *lend_foreign_find(const struct dlend_link *lease,
				       const struct dlend_p_p2p *p)
{
	struct lend_foreign *foreign;
	struct lend_peer *peer;

	list_for_each_entry(peer, &lend_peers, node) {
		if (dlend_link_peer(peer->link) != le16_to_cpu(p->lender))
			continue;
		foreign = lend_foreign_at(peer, lease, p);
		if (foreign)
			return foreign;
	}
	return NULL;
}

static void lend_foreign_drop(struct lend_foreign *foreign)
{
	lend_maps_lose(&foreign->maps, "revoked");
	list_del(&foreign->node);
	foreign->peer->nr_foreigns--;
	kfree(foreign);
}

static struct lend_foreign *lend_foreign_by_id(const struct lend_peer *peer, u32 id)
{
	struct lend_foreign *foreign;

	list_for_each_entry(foreign, &peer->foreigns, node)
		if (foreign->id == id)
			return foreign;
	return NULL;
}

static void lend_foreign_fill(struct lend_foreign *foreign, const struct dlend_msg *msg)
{
	const struct dlend_p_p2p_window *p = (const void *)msg->payload;

	foreign->id = le32_to_cpu(p->id);
	foreign->addr = dlend_msg_addr(msg);
	foreign->epoch = le32_to_cpu(msg->epoch);
	foreign->bar = le16_to_cpu(p->bar);
	foreign->borrower = le16_to_cpu(p->borrower);
	foreign->offset = le64_to_cpu(p->offset);
	foreign->size = le64_to_cpu(p->size);
}

void lend_foreign_add(struct dlend_link *link, const struct dlend_msg *msg)
{
	const struct dlend_p_p2p_window *p = (const void *)msg->payload;
	struct lend_foreign *foreign;
	struct lend_peer *peer;

	guard(mutex)(&lend_p2p_lock);
	/* If the grant is not remembered, a borrower that asks for it gets -EAGAIN. */
	if (!dlend_link_is_up(link))
		return;
	peer = lend_peer_get(link);
	if (!peer || lend_foreign_by_id(peer, le32_to_cpu(p->id)) ||
	    peer->nr_foreigns >= LEND_PEER_MAX)
		return;
	foreign = kzalloc_obj(*foreign);
	if (!foreign)
		return;
	foreign->peer = peer;
	INIT_LIST_HEAD(&foreign->maps);
	lend_foreign_fill(foreign, msg);
	/* At the head, so that lend_foreign_find() finds what the lender has said last. */
	list_add(&foreign->node, &peer->foreigns);
	peer->nr_foreigns++;
	wake_up_all(&lend_peers_wait);
}

/*
 * The answer goes out after the unmapping, over the same link as the last write that a device here
 * has made through this grant.  So it arrives behind that write.
 */
void lend_foreign_close(struct dlend_link *link, const struct dlend_msg *msg)
{
	const struct dlend_p_p2p_id *p = (const void *)msg->payload;
	struct dlend_addr addr = dlend_msg_addr(msg);
	struct lend_foreign *foreign;
	struct lend_peer *peer;

	guard(mutex)(&lend_p2p_lock);
	peer = lend_peer_find(link);
	foreign = peer ? lend_foreign_by_id(peer, le32_to_cpu(p->id)) : NULL;
	if (foreign)
		lend_foreign_drop(foreign);
	lend_peer_note_id(link, DLEND_MSG_P2P_CLOSED, &addr, le32_to_cpu(msg->epoch),
			  le32_to_cpu(p->id));
}

static bool lend_foreign_arrived(struct dlend_link *lease, const struct dlend_p_p2p *p)
{
	guard(mutex)(&lend_p2p_lock);
	return lend_foreign_find(lease, p);
}

void lend_foreign_await(struct dlend_link *link, const struct dlend_p_p2p *p)
{
	long left = msecs_to_jiffies(LEND_WINDOW_WAIT_MS);
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	if (le32_to_cpu(p->flags) & DLEND_P2P_F_OFFSET ||
	    le16_to_cpu(p->lender) == dlend_node_id())
		return;
	/* Not wait_event(): the condition takes a mutex, and must not sleep there. */
	add_wait_queue(&lend_peers_wait, &wait);
	while (left && !lend_foreign_arrived(link, p) && dlend_link_is_up(link))
		left = wait_woken(&wait, TASK_UNINTERRUPTIBLE, left);
	remove_wait_queue(&lend_peers_wait, &wait);
}

void lend_foreign_link_lost(struct lend_peer *peer)
{
	struct lend_foreign *foreign, *next;

	list_for_each_entry_safe(foreign, next, &peer->foreigns, node)
		lend_foreign_drop(foreign);
}
