// SPDX-License-Identifier: GPL-2.0
/*
 * BARs of functions here (targets) that devices of other lenders reach.  A grant is a slot of the
 * aperture towards that lender, who is told its offset (P2P_WINDOW) by this node alone.
 *
 * When the target's lease ends, the slots of its grants are unmapped at once.  They are used again
 * only when the other lender has said that nothing there leads to them any more (P2P_CLOSED), or
 * has begun a new session.
 *
 * Knows nothing of guests, nor of what a window is made of.
 */
#include <linux/list.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include <dlend/compat.h>

#include "lender/bars.h"
#include "lender/granted.h"
#include "lender/outbox.h"
#include "lender/p2p_grants.h"
#include "lender/trace.h"

/* Most grants of one function to one peer, with those whose end the peer has not confirmed. */
#define LEND_GRANTS_MAX		(4 * DLEND_NUM_BARS)

/*
 * struct lend_grant - a BAR of a function here that devices of another lender reach (p2p lock)
 * @node: in the peer's list
 * @of_fn: in the function's list, while the grant is open; else empty
 * @peer: that lender
 * @ap: this node's aperture towards it, which exists until link_down() returns
 * @id: by which that lender knows the grant
 * @addr: name of the function
 * @epoch: of its lease
 * @bar: number of the BAR
 * @borrower: node that has the lease
 * @slot: where the BAR is mapped; NULL: the grant is over
 * @cookie: of the slot's quarantine, once the grant is over
 * @granted: counts while there is a slot
 */
struct lend_grant {
	struct list_head node, of_fn;
	struct lend_peer *peer;
	struct dlend_aperture *ap;
	u32 id;
	struct dlend_addr addr;
	u32 epoch, bar;
	u16 borrower;
	struct dlend_slot *slot;
	u64 cookie;
	struct lend_granted granted;
};

/* What lend_grant_link_to() looks for, and finds. */
struct lend_link_search {
	u16 node;
	struct dlend_link *link;
};

/* Id of the grant that was made last (p2p lock). */
static u32 lend_grant_last_id;

static void lend_grant_note_window(const struct lend_grant *grant)
{
	struct dlend_p_p2p_window *p;
	struct dlend_msg msg;

	p = dlend_msg_init(&msg, DLEND_MSG_P2P_WINDOW, &grant->addr, grant->epoch, sizeof(*p));
	p->offset = cpu_to_le64(grant->slot->offset);
	p->size = cpu_to_le64(grant->slot->size);
	p->id = cpu_to_le32(grant->id);
	p->borrower = cpu_to_le16(grant->borrower);
	p->bar = cpu_to_le16(grant->bar);
	lend_outbox_note(grant->peer->link, &msg);
}

static struct lend_grant *lend_grant_find(const struct lend_fn *fn, u16 node, u32 bar)
{
	struct lend_grant *grant;

	list_for_each_entry(grant, &fn->p2p.grants, of_fn)
		if (grant->bar == bar && dlend_link_peer(grant->peer->link) == node)
			return grant;
	return NULL;
}

static void lend_grant_free(struct lend_grant *grant)
{
	list_del(&grant->of_fn);
	list_del(&grant->node);
	grant->peer->nr_grants--;
	kfree(grant);
}

/* Nobody reaches the BAR through the grant any more when this returns. */
static void lend_grant_close(struct lend_grant *grant)
{
	struct dlend_link *link = grant->peer->link;

	trace_dlend_grant(&grant->addr, "close", dlend_link_peer(link), grant->bar,
			  grant->slot->offset, grant->slot->size);
	grant->cookie = dlend_slot_quarantine(grant->slot);
	grant->slot = NULL;
	list_del_init(&grant->of_fn);
	lend_granted_del(&grant->granted);
	lend_outbox_tell_peers();
	lend_peer_note_id(link, DLEND_MSG_P2P_CLOSE, &grant->addr, grant->epoch, grant->id);
}

void lend_grant_closed(struct dlend_link *link, const struct dlend_msg *msg)
{
	const struct dlend_p_p2p_id *p = (const void *)msg->payload;
	struct lend_grant *grant, *next;
	struct lend_peer *peer;

	guard(mutex)(&lend_p2p_lock);
	peer = lend_peer_find(link);
	if (!peer)
		return;
	list_for_each_entry_safe(grant, next, &peer->grants, node) {
		if (grant->id != le32_to_cpu(p->id) || grant->slot)
			continue;
		dlend_slot_release(grant->ap, grant->cookie);
		trace_dlend_grant(&grant->addr, "slot_free", dlend_link_peer(link), grant->bar, 0,
				  0);
		lend_grant_free(grant);
	}
}

/* Number of grants of @fn to @peer, with those whose end @peer has not confirmed. */
static unsigned int lend_grants_count(const struct lend_peer *peer, const struct lend_fn *fn)
{
	struct lend_grant *grant;
	unsigned int n = 0;

	list_for_each_entry(grant, &peer->grants, node)
		n += dlend_addr_same(&grant->addr, &fn->addr);
	return n;
}

static int lend_grant_link_match(struct dlend_link *link, void *arg)
{
	struct lend_link_search *search = arg;

	if (dlend_link_peer(link) != search->node)
		return 0;
	search->link = dlend_link_get(link);
	return 1;
}

/* A link to @node that is up, referenced, or NULL. */
static struct dlend_link *lend_grant_link_to(u16 node)
{
	struct lend_link_search search = { .node = node };

	dlend_link_for_each(lend_grant_link_match, &search);
	return search.link;
}

static int lend_grant_slot(struct lend_grant *grant, struct lend_fn *fn)
{
	const struct lend_bar *bar = &fn->bar[grant->bar];
	int ret;

	grant->slot = lend_bar_slot(grant->ap, bar->span, DLEND_SLOT_P2P);
	if (IS_ERR(grant->slot)) {
		ret = PTR_ERR(grant->slot);
		grant->slot = NULL;
		return ret;
	}
	ret = lend_bar_fill(grant->slot, bar);
	if (ret) {
		dlend_slot_free(grant->slot);
		grant->slot = NULL;
	}
	return ret;
}

static int lend_grant_new(struct lend_fn *fn, struct dlend_link *link, u32 bar)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct lend_grant *grant;
	struct lend_peer *peer;
	int ret;

	/* Under the lock: if the link goes down now, link_down() finds the grant. */
	if (!ap || !dlend_link_is_up(link))
		return -EHOSTUNREACH;
	peer = lend_peer_get(link);
	if (!peer)
		return -ENOMEM;
	if (peer->nr_grants >= LEND_PEER_MAX || lend_grants_count(peer, fn) >= LEND_GRANTS_MAX)
		return -EAGAIN;
	grant = kzalloc_obj(*grant);
	if (!grant)
		return -ENOMEM;
	grant->peer = peer;
	grant->ap = ap;
	grant->addr = fn->addr;
	grant->epoch = fn->p2p.epoch;
	grant->bar = bar;
	grant->borrower = dlend_link_peer(fn->p2p.link);
	ret = lend_grant_slot(grant, fn);
	list_add_tail(&grant->node, &peer->grants);
	list_add_tail(&grant->of_fn, &fn->p2p.grants);
	peer->nr_grants++;
	if (ret) {
		lend_grant_free(grant);
		return ret;
	}
	grant->id = ++lend_grant_last_id;
	lend_grant_note_window(grant);
	grant->granted.to = dlend_link_peer(link);
	grant->granted.borrower = grant->borrower;
	grant->granted.bytes = grant->slot->size;
	lend_granted_add(&grant->granted);
	lend_outbox_tell_peers();
	trace_dlend_grant(&grant->addr, "open", dlend_link_peer(link), bar, grant->slot->offset,
			  grant->slot->size);
	return 0;
}

int lend_grant_open(struct lend_fn *fn, const struct dlend_p_p2p_grant *want)
{
	u32 bar = le16_to_cpu(want->bar);
	u16 node = le16_to_cpu(want->node);
	struct dlend_link *link;
	int ret = 0;

	if (bar >= DLEND_NUM_BARS || !lend_bar_whole(&fn->bar[bar]) || node == dlend_node_id())
		return -EINVAL;
	link = lend_grant_link_to(node);
	if (!link)
		return -EHOSTUNREACH;
	mutex_lock(&lend_p2p_lock);
	if (!fn->p2p.link)
		ret = -ESTALE;
	else if (!lend_grant_find(fn, node, bar))
		ret = lend_grant_new(fn, link, bar);
	mutex_unlock(&lend_p2p_lock);
	dlend_link_put(link);
	if (ret == -EDQUOT)
		dev_warn_ratelimited(&fn->pdev->dev, "BAR %u (%llu KiB) does not fit into the share of the window to node %u that peer-to-peer may take: make the window larger in the NTB's set-up, or dlend_core.p2p_window_percent\n",
				     bar, fn->bar[bar].span >> 10, node);
	if (ret == -ENOSPC)
		dev_warn_ratelimited(&fn->pdev->dev, "BAR %u (%llu KiB) does not fit into the window to node %u, whose devices cannot reach it directly: make that window larger in the NTB's set-up\n",
				     bar, fn->bar[bar].span >> 10, node);
	return ret;
}

void lend_grant_end(struct lend_fn *fn, const struct dlend_p_p2p_grant *want)
{
	struct lend_grant *grant;

	guard(mutex)(&lend_p2p_lock);
	grant = lend_grant_find(fn, le16_to_cpu(want->node), le16_to_cpu(want->bar));
	if (grant)
		lend_grant_close(grant);
}

void lend_grants_close(struct lend_fn *fn)
{
	struct lend_grant *grant, *next;

	list_for_each_entry_safe(grant, next, &fn->p2p.grants, of_fn)
		lend_grant_close(grant);
}

void lend_grants_link_lost(struct lend_peer *peer)
{
	struct lend_grant *grant, *next;

	/* The aperture ends its quarantine by itself, with the next session. */
	list_for_each_entry_safe(grant, next, &peer->grants, node) {
		if (grant->slot) {
			dlend_slot_quarantine(grant->slot);
			lend_granted_del(&grant->granted);
		}
		lend_grant_free(grant);
	}
}

void lend_grants_show(const struct lend_fn *fn, struct seq_file *m)
{
	struct lend_grant *grant;
	struct lend_peer *peer;

	list_for_each_entry(peer, &lend_peers, node)
		list_for_each_entry(grant, &peer->grants, node)
			if (dlend_addr_same(&grant->addr, &fn->addr))
				seq_printf(m, "granted bar %u to node %u id %u epoch %u%s\n",
					   grant->bar, dlend_link_peer(peer->link), grant->id,
					   grant->epoch, grant->slot ? "" : ", in quarantine");
}
