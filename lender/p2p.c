// SPDX-License-Identifier: GPL-2.0
/*
 * Peer-to-peer: lent devices that reach BARs of other lent devices, at the addresses where a guest
 * has put them.
 *
 *   grant	the target is here, the source elsewhere: a slot of the aperture towards the
 *		source's lender, which is told its offset (P2P_WINDOW) by us alone
 *   foreign	the target is elsewhere: such an offset, as its lender said
 *   map	the source is here: what its domain has at the BAR's address, which is a BAR here,
 *		a foreign one, or the borrower's own aperture
 *
 * The borrower only names devices, BARs and leases.  A map needs both leases: the source's, which
 * the caller has checked, and the target's, which is open here (struct lend_p2p), or for which
 * the target's lender has made the grant to this very borrower.
 *
 * When the target's lease ends, nothing reaches it any more before anything else happens: maps to
 * BARs here go, and the slots of grants are unmapped, and used again only when the source's lender
 * has said that nothing of its leads there (P2P_CLOSED), or has begun a new session.
 *
 * lend_p2p_lock guards everything here and is taken under a group's lock, so a source's group and its
 * target's need no order.  Other borrowers' fences wait for it: whoever has it walks lists of one
 * function or of one peer, and these have an end.  Nothing is sent under it: what is to be said
 * goes through a queue.
 * Knows nothing of guests, nor what a window is made of.
 */
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "lender/lender.h"
#include "lender/trace.h"

/* A P2P_MAP may be faster than the P2P_WINDOW that it is about: the two take different links. */
#define LEND_WINDOW_WAIT_MS	1000

/* Grants of one peer that are known at a time: it shall not fill this host's memory. */
#define LEND_FOREIGN_MAX		1024

/* What one function reaches: a VM has 32 devices, and a device 6 BARs. */
#define LEND_MAPS_MAX		(32 * DLEND_NUM_BARS)

/* Grants of one function that one peer knows, or has not confirmed the end of. */
#define LEND_GRANTS_MAX		(4 * DLEND_NUM_BARS)

/*
 * struct lend_peer - all that is peer-to-peer with the node behind one link
 * @foreigns, @nr_foreigns: what it grants to devices here
 * @grants, @nr_grants: what is granted to its devices
 */
struct lend_peer {
	struct list_head node;
	struct dlend_link *link;
	struct list_head foreigns, grants;
	unsigned int nr_foreigns, nr_grants;
};

/*
 * struct lend_grant - a BAR of a function here that devices of another lender reach
 * @node: in the peer's list; @of_fn: in the function's, while it is open
 * @peer: that lender; @ap: our aperture towards it, there until link_down() returns
 * @id: as the other lender knows it
 * @addr, @epoch, @bar: whose; @borrower: for whom
 * @slot: NULL once it is over; @cookie: of its quarantine
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
};

/* struct lend_foreign - the same, seen from the other lender; @id: the grantor's; @maps lead there */
struct lend_foreign {
	struct list_head node;
	struct lend_peer *peer;
	struct list_head maps;
	u32 id;
	struct dlend_addr addr;
	u32 epoch, bar;
	u16 borrower;
	u64 offset, size;
};

/* Where an address of a map leads. */
enum lend_way { LEND_WAY_HERE, LEND_WAY_FOREIGN, LEND_WAY_BORROWER };

/*
 * struct lend_map - what a source reaches at @gpa
 * @node: in the source's list; @of_target: in the list of the function or the foreign BAR, if any
 * @source, @domain: of the device that does the DMA; @lease: link to the borrower of both
 * @target, @epoch, @bar: what is reached
 * @way: how; @phys: of the BAR here, @hole: part of it that is left out
 * @link, @offset: the aperture of another node that it leads to
 * @missed: it was to take the place of another function's and could not: the domain has it not
 */
struct lend_map {
	struct list_head node, of_target;
	struct lend_fn *source;
	struct dlend_domain *domain;
	struct dlend_link *lease;
	struct dlend_addr target;
	u32 epoch, bar;
	u64 gpa, size;
	u32 prot;
	enum lend_way way;
	phys_addr_t phys;
	u64 hole, hole_end;
	struct dlend_link *link;
	u64 offset;
	bool missed;
};

static DEFINE_MUTEX(lend_p2p_lock);
static LIST_HEAD(lend_peers);
static u32 lend_grant_last_id;
static DECLARE_WAIT_QUEUE_HEAD(lend_foreign_wait);	/* a grant has arrived */

/* Peers.  With lend_p2p_lock held */

static struct lend_peer *lend_peer_find(const struct dlend_link *link)
{
	struct lend_peer *peer;

	list_for_each_entry(peer, &lend_peers, node)
		if (peer->link == link)
			return peer;
	return NULL;
}

/* It goes when the link is lost.  NULL: no memory */
static struct lend_peer *lend_peer_get(struct dlend_link *link)
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

static void lend_peer_free(struct lend_peer *peer)
{
	list_del(&peer->node);
	dlend_link_put(peer->link);
	kfree(peer);
}

/* Say it */

static void lend_peer_note_id(struct dlend_link *link, u16 type, const struct dlend_addr *addr,
			      u32 epoch, u32 id)
{
	struct dlend_p_p2p_id *p;
	struct dlend_msg msg;

	p = dlend_msg_init(&msg, type, addr, epoch, sizeof(*p));
	p->id = cpu_to_le32(id);
	lend_outbox_note(link, &msg);
}

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

static void lend_map_note_lost(const struct lend_map *map)
{
	struct dlend_p_p2p *p;
	struct dlend_msg msg;

	p = dlend_msg_init(&msg, DLEND_MSG_P2P_LOST, &map->source->addr,
			   map->source->p2p.epoch, sizeof(*p));
	p->gpa = cpu_to_le64(map->gpa);
	p->size = cpu_to_le64(map->size);
	p->epoch = cpu_to_le32(map->epoch);
	p->lender = cpu_to_le16(map->target.lender);
	p->bdf = cpu_to_le16(map->target.bdf);
	p->bar = cpu_to_le16(map->bar);
	lend_outbox_note(map->lease, &msg);
}

/* Maps: the source is here.  All with lend_p2p_lock held */

static bool lend_map_meets(const struct lend_map *map, u64 gpa, u64 size)
{
	return map->gpa < gpa + size && gpa < map->gpa + map->size;
}

/*
 * In the domain's books.  Another function of the group that reaches the same BAR in the same way
 * waits there for the first one's end.
 */
static int lend_map_enter(struct lend_map *map)
{
	struct dlend_owner *owner = &map->source->p2p.owner;
	struct dlend_dma_range r = {
		.iova = map->gpa,
		.size = map->size,
		.prot = map->prot,
		.thing = (u64)map->target.lender << 48 | (u64)map->target.bdf << 32 | map->epoch,
		.part = map->bar << 8 | map->way,
	};

	if (map->way != LEND_WAY_HERE) {
		r.offset = map->offset;
		return dlend_link_dma_map(map->link, map->domain, owner, &r);
	}
	r.mmio = true;
	r.phys = map->phys;
	r.hole = map->hole;
	r.hole_end = map->hole_end;
	return dlend_domain_map(map->domain, owner, &r);
}

/* What leads there has been found, and has it in its list. */
static int lend_map_add(struct lend_map *map)
{
	int ret = lend_map_enter(map);

	trace_dlend_lend_p2p(&map->source->addr, &map->target, "map", map->bar, map->gpa,
			     map->size, ret);
	if (ret)
		return ret;
	list_add_tail(&map->node, &map->source->p2p.maps);
	map->source->p2p.nr_maps++;
	return 0;
}

static void lend_map_free(struct lend_map *map)
{
	list_del(&map->of_target);
	if (map->link)
		dlend_link_put(map->link);
	dlend_link_put(map->lease);
	kfree(map);
}

/* The source does not reach it any more when this returns, but by an equal map of its group. */
static void lend_map_del(struct lend_map *map, const char *why)
{
	list_del(&map->node);
	map->source->p2p.nr_maps--;
	dlend_domain_unmap(map->domain, &map->source->p2p.owner, map->gpa, map->size);
	trace_dlend_lend_p2p(&map->source->addr, &map->target, why, map->bar, map->gpa, map->size,
			     0);
	lend_map_free(map);
}

/* It goes without having been asked for: the borrower shall know. */
static void lend_map_lose(struct lend_map *map, const char *why)
{
	if (!map->missed) {
		map->source->p2p.lost++;
		lend_map_note_lost(map);
	}
	lend_map_del(map, why);
}

/*
 * As struct dlend_owner has it.  Somebody walks lists: it stays in them, until it is given up or
 * the source wants another one.
 */
static void lend_map_missed(struct dlend_owner *owner, const struct dlend_dma_range *r)
{
	struct lend_fn *fn = container_of(owner, struct lend_fn, p2p.owner);
	struct lend_map *map;

	lockdep_assert_held(&lend_p2p_lock);
	list_for_each_entry(map, &fn->p2p.maps, node) {
		if (map->gpa != r->iova || map->missed)
			continue;
		map->missed = true;
		fn->p2p.lost++;
		lend_map_note_lost(map);
	}
}

static void lend_maps_forget_missed(struct lend_fn *fn)
{
	struct lend_map *map, *next;

	list_for_each_entry_safe(map, next, &fn->p2p.maps, node)
		if (map->missed)
			lend_map_del(map, "missed");
}

/* All that lead to one target. */
static void lend_maps_lose(struct list_head *maps, const char *why)
{
	struct lend_map *map, *next;

	list_for_each_entry_safe(map, next, maps, of_target)
		lend_map_lose(map, why);
}

/* Foreign BARs: what other lenders grant to devices here.  With lend_p2p_lock held */

static struct lend_foreign *lend_foreign_at(const struct lend_peer *peer, const struct dlend_link *lease,
					    const struct dlend_p_p2p *p)
{
	struct lend_foreign *foreign;

	list_for_each_entry(foreign, &peer->foreigns, node)
		if (foreign->addr.lender == le16_to_cpu(p->lender) &&
		    foreign->addr.bdf == le16_to_cpu(p->bdf) &&
		    foreign->epoch == le32_to_cpu(p->epoch) &&
		    foreign->bar == le16_to_cpu(p->bar) &&
		    foreign->borrower == dlend_link_peer(lease))
			return foreign;
	return NULL;
}

/* A node speaks for its own devices only: those of @p's lender are in its own lists. */
static struct lend_foreign *lend_foreign_find(const struct dlend_link *lease,
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
	foreign->addr.lender = le16_to_cpu(msg->lender);
	foreign->addr.bdf = le16_to_cpu(msg->bdf);
	foreign->epoch = le32_to_cpu(msg->epoch);
	foreign->bar = le16_to_cpu(p->bar);
	foreign->borrower = le16_to_cpu(p->borrower);
	foreign->offset = le64_to_cpu(p->offset);
	foreign->size = le64_to_cpu(p->size);
}

static void lend_foreign_add(struct dlend_link *link, const struct dlend_msg *msg)
{
	const struct dlend_p_p2p_window *p = (const void *)msg->payload;
	struct lend_foreign *foreign;
	struct lend_peer *peer;

	mutex_lock(&lend_p2p_lock);
	/* The borrower gets -EAGAIN for what is not remembered. */
	if (!dlend_link_is_up(link))
		goto unlock;
	peer = lend_peer_get(link);
	if (!peer || lend_foreign_by_id(peer, le32_to_cpu(p->id)) ||
	    peer->nr_foreigns >= LEND_FOREIGN_MAX)
		goto unlock;
	foreign = kzalloc_obj(*foreign);
	if (!foreign)
		goto unlock;
	foreign->peer = peer;
	INIT_LIST_HEAD(&foreign->maps);
	lend_foreign_fill(foreign, msg);
	/* Its lender's last word comes first: lend_foreign_find() takes that. */
	list_add(&foreign->node, &peer->foreigns);
	peer->nr_foreigns++;
	wake_up_all(&lend_foreign_wait);
unlock:
	mutex_unlock(&lend_p2p_lock);
}

/* The answer goes out after the unmapping, on the link over which the last write went. */
static void lend_foreign_close(struct dlend_link *link, const struct dlend_msg *msg)
{
	const struct dlend_p_p2p_id *p = (const void *)msg->payload;
	struct dlend_addr addr = {
		.lender = le16_to_cpu(msg->lender), .bdf = le16_to_cpu(msg->bdf),
	};
	struct lend_foreign *foreign;
	struct lend_peer *peer;

	mutex_lock(&lend_p2p_lock);
	peer = lend_peer_find(link);
	foreign = peer ? lend_foreign_by_id(peer, le32_to_cpu(p->id)) : NULL;
	if (foreign)
		lend_foreign_drop(foreign);
	lend_peer_note_id(link, DLEND_MSG_P2P_CLOSED, &addr, le32_to_cpu(msg->epoch),
			  le32_to_cpu(p->id));
	mutex_unlock(&lend_p2p_lock);
}

/* Grants: the target is here.  With lend_p2p_lock held */

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

/* Nobody reaches the BAR through it any more when this returns. */
static void lend_grant_close(struct lend_grant *grant)
{
	struct dlend_link *link = grant->peer->link;

	trace_dlend_grant(&grant->addr, "close", dlend_link_peer(link), grant->bar,
			  grant->slot->offset, grant->slot->size);
	grant->cookie = dlend_slot_quarantine(grant->ap, grant->slot);
	grant->slot = NULL;
	list_del_init(&grant->of_fn);
	lend_peer_note_id(link, DLEND_MSG_P2P_CLOSE, &grant->addr, grant->epoch, grant->id);
}

/* The other lender has unmapped it. */
static void lend_grant_closed(struct dlend_link *link, const struct dlend_msg *msg)
{
	const struct dlend_p_p2p_id *p = (const void *)msg->payload;
	struct lend_grant *grant, *next;
	struct lend_peer *peer;

	mutex_lock(&lend_p2p_lock);
	peer = lend_peer_find(link);
	if (!peer)
		goto unlock;
	list_for_each_entry_safe(grant, next, &peer->grants, node) {
		if (grant->id != le32_to_cpu(p->id) || grant->slot)
			continue;
		dlend_slot_release(grant->ap, grant->cookie);
		trace_dlend_grant(&grant->addr, "slot_free", dlend_link_peer(link), grant->bar, 0,
				  0);
		lend_grant_free(grant);
	}
unlock:
	mutex_unlock(&lend_p2p_lock);
}

/* How many of @fn this peer knows, or has not confirmed the end of. */
static unsigned int lend_grants_count(const struct lend_peer *peer, const struct lend_fn *fn)
{
	struct lend_grant *grant;
	unsigned int n = 0;

	list_for_each_entry(grant, &peer->grants, node)
		n += dlend_addr_same(&grant->addr, &fn->addr);
	return n;
}

struct lend_link_search {
	u16 node;
	struct dlend_link *link;
};

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
	ret = lend_bar_fill(grant->ap, grant->slot, bar);
	if (ret) {
		dlend_slot_free(grant->ap, grant->slot);
		grant->slot = NULL;
	}
	return ret;
}

/* A BAR that can be reached by itself: not a part of a page, nor a port. */
static bool lend_bar_whole(const struct lend_bar *bar)
{
	return bar->span && bar->span == bar->size;
}

static int lend_grant_new(struct lend_fn *fn, struct dlend_link *link, u32 bar)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct lend_grant *grant;
	struct lend_peer *peer;
	int ret;

	/* Under the lock: link_down() comes after it, and finds the grant. */
	if (!ap || !dlend_link_is_up(link))
		return -EHOSTUNREACH;
	peer = lend_peer_get(link);
	if (!peer)
		return -ENOMEM;
	if (peer->nr_grants >= LEND_FOREIGN_MAX || lend_grants_count(peer, fn) >= LEND_GRANTS_MAX)
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
	trace_dlend_grant(&grant->addr, "open", dlend_link_peer(link), bar, grant->slot->offset,
			  grant->slot->size);
	return 0;
}

/**
 * lend_grant_open - devices of another lender may reach a BAR of @fn, for @fn's borrower
 * @fn: target
 * @want: which node, which BAR
 *
 * Context: group lock, the lease was checked. Return: 0, also if it is so already; -EHOSTUNREACH
 * no link to that node; -ENOSPC the window there is full; -EDQUOT peer-to-peer has its share of it;
 * -EAGAIN too many grants whose end that node has not confirmed yet; -EINVAL a BAR that cannot be
 * reached.
 */
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

/** lend_grant_end - the same in reverse; 0 if there is no such grant. Group lock */
int lend_grant_end(struct lend_fn *fn, const struct dlend_p_p2p_grant *want)
{
	struct lend_grant *grant;

	mutex_lock(&lend_p2p_lock);
	grant = lend_grant_find(fn, le16_to_cpu(want->node), le16_to_cpu(want->bar));
	if (grant)
		lend_grant_close(grant);
	mutex_unlock(&lend_p2p_lock);
	return 0;
}

/* Requests about a source */

/* Of another lender: what that one has granted. */
static int lend_map_resolve_foreign(struct lend_map *map, const struct dlend_p_p2p *p)
{
	struct lend_foreign *foreign = lend_foreign_find(map->lease, p);

	if (!foreign)
		return -EAGAIN;
	map->way = LEND_WAY_FOREIGN;
	map->link = dlend_link_get(foreign->peer->link);
	map->offset = foreign->offset;
	list_add_tail(&map->of_target, &foreign->maps);
	return foreign->size == map->size ? 0 : -EINVAL;
}

static int lend_map_resolve_here(struct lend_map *map, struct lend_fn *target)
{
	const struct lend_bar *bar;

	if (!target)
		return -ENODEV;
	if (target->p2p.link != map->lease || target->p2p.epoch != map->epoch)
		return -ESTALE;
	bar = &target->bar[map->bar];
	map->way = LEND_WAY_HERE;
	map->phys = bar->phys;
	map->hole = bar->hole;
	map->hole_end = bar->hole_end;
	list_add_tail(&map->of_target, &target->p2p.reached_by);
	return lend_bar_whole(bar) && bar->span == map->size ? 0 : -EINVAL;
}

/* What the map leads to, by the borrower's word and what we know. With lend_p2p_lock held. */
static int lend_map_resolve(struct lend_map *map, const struct dlend_p_p2p *p,
			    struct lend_fn *target)
{
	if (!(le32_to_cpu(p->flags) & DLEND_P2P_F_OFFSET))
		return map->target.lender == dlend_node_id() ? lend_map_resolve_here(map, target) :
							       lend_map_resolve_foreign(map, p);
	map->way = LEND_WAY_BORROWER;
	map->link = dlend_link_get(map->lease);
	map->offset = le64_to_cpu(p->offset);
	return 0;
}

/* May this source have that, too?  A BAR is at one address: nobody maps it without end. */
static int lend_map_admit(const struct lend_map *want)
{
	const struct lend_p2p *source = &want->source->p2p;
	struct lend_map *map;

	if (source->nr_maps >= LEND_MAPS_MAX)
		return -ENOSPC;
	list_for_each_entry(map, &source->maps, node) {
		if (lend_map_meets(map, want->gpa, want->size))
			return -EEXIST;
		if (dlend_addr_same(&map->target, &want->target) && map->bar == want->bar)
			return -EBUSY;
	}
	return 0;
}

/*
 * What leads into a window is no more than there is of it.  Page tables for addresses that a
 * borrower invents would take our memory otherwise; BARs that are here have the size they have.
 */
static int lend_map_fits_window(const struct lend_map *want)
{
	u64 bytes = want->size;
	struct lend_map *map;

	if (want->way == LEND_WAY_HERE)
		return 0;
	list_for_each_entry(map, &want->source->p2p.maps, node)
		if (map->link == want->link)
			bytes += map->size;
	return bytes <= dlend_link_window_bytes(want->link) ? 0 : -ENOSPC;
}

/**
 * lend_p2p_map - @fn reaches another device's BAR
 * @fn: source
 * @link: to the borrower
 * @p: which BAR, and where
 * @target: the function that @p names, if it is here, or NULL
 *
 * Context: group lock (@fn's), the source's lease was checked. Return: 0; -ESTALE, -ENODEV the
 * target is not the borrower's; -EAGAIN its lender has not said that it may be reached; -EEXIST
 * something else is at that address: RAM, or another BAR; -EBUSY that BAR is mapped at another;
 * -ERANGE it cannot be mapped there; -ENOSPC more than the window has, or more BARs than a VM has;
 * -EINVAL.
 */
int lend_p2p_map(struct lend_fn *fn, struct dlend_link *link, const struct dlend_p_p2p *p,
		 struct lend_fn *target)
{
	struct lend_map *map;
	int ret;

	if (le16_to_cpu(p->bar) >= DLEND_NUM_BARS)
		return -EINVAL;
	map = kzalloc_obj(*map);
	if (!map)
		return -ENOMEM;
	INIT_LIST_HEAD(&map->of_target);
	map->source = fn;
	map->domain = fn->group->domain;
	map->lease = dlend_link_get(link);
	map->target.lender = le16_to_cpu(p->lender);
	map->target.bdf = le16_to_cpu(p->bdf);
	map->epoch = le32_to_cpu(p->epoch);
	map->bar = le16_to_cpu(p->bar);
	map->gpa = le64_to_cpu(p->gpa);
	map->size = le64_to_cpu(p->size);
	map->prot = le32_to_cpu(p->prot);

	mutex_lock(&lend_p2p_lock);
	lend_maps_forget_missed(fn);
	ret = lend_map_admit(map) ?: lend_map_resolve(map, p, target) ?: lend_map_fits_window(map);
	if (!ret)
		ret = lend_map_add(map);
	if (ret)
		lend_map_free(map);
	mutex_unlock(&lend_p2p_lock);
	return ret;
}

/** lend_p2p_unmap - undo exactly one of these; -ENOENT if there is none. Group lock */
int lend_p2p_unmap(struct lend_fn *fn, const struct dlend_p_p2p *p)
{
	struct lend_map *map;
	int ret = -ENOENT;

	mutex_lock(&lend_p2p_lock);
	list_for_each_entry(map, &fn->p2p.maps, node) {
		if (map->gpa != le64_to_cpu(p->gpa) || map->size != le64_to_cpu(p->size))
			continue;
		lend_map_del(map, "unmap");
		ret = 0;
		break;
	}
	mutex_unlock(&lend_p2p_lock);
	return ret;
}

static void lend_maps_yield(struct lend_fn *fn, u64 gpa, u64 size)
{
	struct lend_map *map, *next;

	list_for_each_entry_safe(map, next, &fn->p2p.maps, node)
		if (lend_map_meets(map, gpa, size))
			lend_map_lose(map, "yield");
}

/** lend_p2p_yield - guest memory is about to be mapped for @fn there: BARs give way. Group lock */
void lend_p2p_yield(struct lend_fn *fn, u64 gpa, u64 size)
{
	struct lend_group *group = fn->group;

	/* Most have none, and wait for nobody else's. */
	if (!dlend_domain_bytes(group->domain, DLEND_OWNER_BAR))
		return;
	mutex_lock(&lend_p2p_lock);
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i])
			lend_maps_yield(group->fn[i], gpa, size);
	mutex_unlock(&lend_p2p_lock);
}

static bool lend_foreign_arrived(struct dlend_link *lease, const struct dlend_p_p2p *p)
{
	bool found;

	mutex_lock(&lend_p2p_lock);
	found = lend_foreign_find(lease, p);
	mutex_unlock(&lend_p2p_lock);
	return found;
}

/** lend_foreign_await - the P2P_WINDOW that a P2P_MAP needs may be about to arrive. No lock held */
void lend_foreign_await(struct dlend_link *link, const struct dlend_p_p2p *p)
{
	long left = msecs_to_jiffies(LEND_WINDOW_WAIT_MS);
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	if (le32_to_cpu(p->flags) & DLEND_P2P_F_OFFSET ||
	    le16_to_cpu(p->lender) == dlend_node_id())
		return;
	/* What is waited for takes a mutex: not wait_event(), under which nothing may sleep. */
	add_wait_queue(&lend_foreign_wait, &wait);
	while (left && !lend_foreign_arrived(link, p) && dlend_link_is_up(link))
		left = wait_woken(&wait, TASK_UNINTERRUPTIBLE, left);
	remove_wait_queue(&lend_foreign_wait, &wait);
}

/* Life of a lease */

/** lend_p2p_init - of a function that is being bound */
void lend_p2p_init(struct lend_fn *fn)
{
	dlend_owner_init(&fn->p2p.owner, DLEND_OWNER_BAR);
	fn->p2p.owner.lost = lend_map_missed;
	INIT_LIST_HEAD(&fn->p2p.maps);
	INIT_LIST_HEAD(&fn->p2p.reached_by);
	INIT_LIST_HEAD(&fn->p2p.grants);
}

/** lend_p2p_open - a lease of @fn begins, or its reset is over: it can be a target. Group lock */
void lend_p2p_open(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	mutex_lock(&lend_p2p_lock);
	fn->p2p.link = dlend_link_get(link);
	fn->p2p.epoch = epoch;
	mutex_unlock(&lend_p2p_lock);
}

/* p2p lock */
static void lend_p2p_close_target(struct lend_fn *fn)
{
	struct lend_grant *grant, *next;

	lend_maps_lose(&fn->p2p.reached_by, "revoked");
	list_for_each_entry_safe(grant, next, &fn->p2p.grants, of_fn)
		lend_grant_close(grant);
	if (fn->p2p.link)
		dlend_link_put(fn->p2p.link);
	fn->p2p.link = NULL;
}

/**
 * lend_p2p_hide - nobody reaches @fn when this returns, until lend_p2p_open()
 * @fn: function, about to be reset; what it reaches itself stays
 *
 * Context: group lock; waits for no peer.
 */
void lend_p2p_hide(struct lend_fn *fn)
{
	mutex_lock(&lend_p2p_lock);
	lend_p2p_close_target(fn);
	mutex_unlock(&lend_p2p_lock);
}

/**
 * lend_p2p_close - it ends: nobody reaches @fn when this returns, and it reaches nobody
 * @fn: function
 *
 * Context: group lock; waits for no peer.
 */
void lend_p2p_close(struct lend_fn *fn)
{
	struct lend_map *map, *next;

	mutex_lock(&lend_p2p_lock);
	lend_p2p_close_target(fn);
	list_for_each_entry_safe(map, next, &fn->p2p.maps, node)
		lend_map_del(map, "source_gone");
	mutex_unlock(&lend_p2p_lock);
}

/** lend_p2p_link_lost - what leads over @link leads nowhere, or soon elsewhere */
void lend_p2p_link_lost(struct dlend_link *link)
{
	struct lend_foreign *foreign, *next_foreign;
	struct lend_grant *grant, *next;
	struct lend_peer *peer;

	mutex_lock(&lend_p2p_lock);
	peer = lend_peer_find(link);
	if (!peer)
		goto unlock;
	list_for_each_entry_safe(foreign, next_foreign, &peer->foreigns, node)
		lend_foreign_drop(foreign);
	/* The aperture releases its quarantine by itself, with the next session. */
	list_for_each_entry_safe(grant, next, &peer->grants, node) {
		if (grant->slot)
			dlend_slot_quarantine(grant->ap, grant->slot);
		lend_grant_free(grant);
	}
	lend_peer_free(peer);
unlock:
	mutex_unlock(&lend_p2p_lock);
	wake_up_all(&lend_foreign_wait);
}

/**
 * lend_p2p_message - another lender speaks about a device of its own, or answers about one of ours
 * @link: to that lender
 * @msg: P2P_WINDOW, P2P_CLOSE or P2P_CLOSED
 *
 * Context: message handler. Return: 0 or -EPERM.
 */
int lend_p2p_message(struct dlend_link *link, const struct dlend_msg *msg)
{
	u16 whose = le16_to_cpu(msg->lender);

	if (le16_to_cpu(msg->type) == DLEND_MSG_P2P_CLOSED) {
		lend_grant_closed(link, msg);
		return 0;
	}
	/* A node speaks for its own devices only. */
	if (whose != dlend_link_peer(link)) {
		dev_warn_ratelimited(dlend_link_dev(link),
				     "%s about a device of node %u from node %u dropped\n",
				     dlend_msg_type_name(le16_to_cpu(msg->type)), whose,
				     dlend_link_peer(link));
		return -EPERM;
	}
	if (le16_to_cpu(msg->type) == DLEND_MSG_P2P_WINDOW)
		lend_foreign_add(link, msg);
	else
		lend_foreign_close(link, msg);
	return 0;
}

/** lend_p2p_show - for debugfs. Group lock */
void lend_p2p_show(struct lend_fn *fn, struct seq_file *m)
{
	static const char * const way[] = { "here", "lender", "borrower" };
	char name[DLEND_NAME_LEN];
	struct lend_map *map;
	struct lend_grant *grant;
	struct lend_peer *peer;

	mutex_lock(&lend_p2p_lock);
	seq_printf(m, "lost: %llu\nmaps: %u\n", fn->p2p.lost, fn->p2p.nr_maps);
	list_for_each_entry(map, &fn->p2p.maps, node)
		seq_printf(m, "reaches %s bar %u at %llx size %llx way %s\n",
			   dlend_addr_name(&map->target, name), map->bar, map->gpa, map->size,
			   way[map->way]);
	list_for_each_entry(peer, &lend_peers, node)
		list_for_each_entry(grant, &peer->grants, node)
			if (dlend_addr_same(&grant->addr, &fn->addr))
				seq_printf(m, "granted bar %u to node %u id %u epoch %u%s\n",
					   grant->bar, dlend_link_peer(peer->link), grant->id,
					   grant->epoch, grant->slot ? "" : ", in quarantine");
	mutex_unlock(&lend_p2p_lock);
}
