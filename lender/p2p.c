// SPDX-License-Identifier: GPL-2.0
/*
 * Peer-to-peer: lent devices reach BARs of other lent devices, at the guest-physical addresses
 * where a guest has put them.  The device that does the DMA is the source, the one with the BAR is
 * the target:
 *
 *   map		(struct lend_map) the source is in this host: a BAR that it reaches
 *   grant		(struct lend_grant) the target is in this host, sources are in another one
 *   foreign grant	(struct lend_foreign) the target is in another host: the grant that
 *			its lender has made, and that sources in this host use
 *
 * The borrower's messages only name devices, BARs and leases.  A map needs both leases: that of the
 * source, which the caller has checked, and that of the target.  The latter is valid if other
 * devices may reach the target in this host for the same borrower and epoch (lend_p2p_open()), or
 * if the target's lender has made a grant for the same borrower and epoch.
 *
 * When the target's lease ends, every map and grant that leads to the target ends first.
 */
#include <linux/seq_file.h>
#include <linux/slab.h>

#include <dlend/compat.h>
#include <dlend/names.h>

#include "lender/lender.h"
#include "lender/trace.h"

/*
 * The largest number of grants to one peer, and of foreign grants of one peer, at a time: a peer
 * must not be able to fill this host's memory.
 */
#define LEND_PEER_MAX		1024

/**
 * struct lend_peer - all grants between this node and the node behind one link (p2p lock)
 * @node: in lend_peers
 * @link: referenced
 * @foreigns: list of struct lend_foreign: grants of that node to devices here
 * @grants: list of struct lend_grant: grants of this node to devices there
 *
 * It is made with the first grant over the link, and exists until the link goes down.
 */
struct lend_peer {
	struct list_head node;
	struct dlend_link *link;
	struct list_head foreigns, grants;
};

/*
 * The peers with which this node has grants, and the lock for all of this file.
 *
 * The p2p lock is taken inside the group lock of the source or of the target, so that no code needs
 * both of these group locks.  A fence of any group waits for the p2p lock.  So code that holds it
 * walks only lists of one function or of one peer, and these lists have a limit; and a map or unmap
 * inside it takes a limited time (dlend_domain_map(): large ranges fit large pages).  No message is
 * posted inside it: messages are queued in notify.c.
 */

/* The p2p lock: guards lend_peers, lend_fn.p2p of all functions, and all maps and grants. */
static DEFINE_MUTEX(lend_p2p_lock);
static LIST_HEAD(lend_peers);
/* Woken when a foreign grant comes, or a link goes down. */
static DECLARE_WAIT_QUEUE_HEAD(lend_peers_wait);

/* The peer behind a link. P2p lock. Return: the peer, or NULL. */
static struct lend_peer *lend_peer_find(const struct dlend_link *link)
{
	struct lend_peer *peer;

	list_for_each_entry(peer, &lend_peers, node)
		if (peer->link == link)
			return peer;
	return NULL;
}

/* The peer behind a link; made if there is none. P2p lock. Return: the peer; NULL: no memory. */
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

/* Queue P2P_CLOSE or P2P_CLOSED, which name a grant by its id, for a peer. */
static void lend_peer_queue_id(struct dlend_link *link, u16 type, const struct dlend_addr *addr,
			       u32 epoch, u32 id)
{
	struct dlend_p_p2p_id *p;
	struct dlend_msg msg;

	p = dlend_msg_init(&msg, type, addr, epoch, sizeof(*p));
	p->id = cpu_to_le32(id);
	lend_notify_queue(link, &msg);
}

/* Where a map leads. */
enum lend_way {
	LEND_WAY_HERE,		/* to a BAR in this host */
	LEND_WAY_FOREIGN,	/* to a BAR in another lender, through a window: a foreign grant */
	LEND_WAY_BORROWER	/* to an offset in the borrower's aperture, through the window */
};

/**
 * struct lend_map - a BAR that a source reaches (p2p lock)
 * @node: in lend_p2p.maps of the source
 * @of_target: in lend_p2p.reached_by of the target (LEND_WAY_HERE), or in lend_foreign.maps
 *	(LEND_WAY_FOREIGN); empty for LEND_WAY_BORROWER
 * @source: function that does the DMA
 * @target: name of the function whose BAR it is
 * @epoch: of the lease of @target
 * @bar: number of the BAR of @target
 * @way: where the map leads
 * @link: to the node whose aperture the map leads to; NULL for LEND_WAY_HERE
 * @r: range of guest-physical addresses (the IOVAs of the group's domain) at which @source reaches
 *	the BAR, and where that range leads
 * @missed: the domain does not have this map.  Another function of the group had mapped the same
 *	BAR at the same address, and when that map ended, this one could not be mapped in its place
 *
 * A map ends before the lease of its source does, and before the target's lease or the foreign
 * grant that it leads to.  So it needs no references to @source, domain and link.
 */
struct lend_map {
	struct list_head node, of_target;
	struct lend_fn *source;
	struct dlend_addr target;
	u32 epoch, bar;
	enum lend_way way;
	struct dlend_link *link;
	struct dlend_dma_range r;
	bool missed;
};

/*
 * Maps of functions in this host.  A map is in the domain of the source's group, at the address
 * where the guest has put the BAR.
 */

/* The largest number of maps of one function: for 32 devices of a VM, each with 6 BARs. */
#define LEND_MAPS_MAX		(32 * DLEND_NUM_BARS)

/* Queue P2P_LOST for the borrower.  P2p lock, and the lease of the source exists. */
static void lend_map_queue_lost(const struct lend_map *map)
{
	struct dlend_p_p2p *p;
	struct dlend_msg msg;

	map->source->p2p.lost++;
	p = dlend_msg_init(&msg, DLEND_MSG_P2P_LOST, &map->source->addr,
			   map->source->p2p.epoch, sizeof(*p));
	p->gpa = cpu_to_le64(map->r.iova);
	p->size = cpu_to_le64(map->r.size);
	p->epoch = cpu_to_le32(map->epoch);
	p->lender = cpu_to_le16(map->target.lender);
	p->bdf = cpu_to_le16(map->target.bdf);
	p->bar = cpu_to_le16(map->bar);
	lend_notify_queue(map->source->group->link, &msg);
}

static bool lend_map_overlaps(const struct lend_map *map, u64 gpa, u64 size)
{
	return map->r.iova < gpa + size && gpa < map->r.iova + map->r.size;
}

/*
 * Map the BAR in the domain of the source's group: the source reaches the BAR afterwards.  If
 * another function of the group has the same map, this one is a claim that waits in the domain
 * until the other one ends (struct dlend_owner).  r.thing and r.part identify the BAR, so that
 * equal ranges for different BARs are refused.  Group lock of the source, p2p lock.  Return: 0; or
 * as dlend_domain_map(), dlend_link_dma_map().
 */
static int lend_map_add(struct lend_map *map)
{
	struct dlend_domain *domain = map->source->group->domain;
	struct lend_p2p *source = &map->source->p2p;
	int ret;

	map->r.thing = (u64)map->target.lender << 48 | (u64)map->target.bdf << 32 | map->epoch;
	map->r.part = map->bar << 8 | map->way;
	if (map->link)
		ret = dlend_link_dma_map(map->link, domain, &source->owner, &map->r);
	else
		ret = dlend_domain_map(domain, &source->owner, &map->r);
	trace_dlend_lend_p2p(&map->source->addr, &map->target, "map", map->bar, map->r.iova,
			     map->r.size, ret);
	if (!ret)
		list_add_tail(&map->node, &source->maps);
	return ret;
}

/*
 * Allocate a map and fill it in from a borrower's request; lend_p2p_resolve() fills in where it
 * leads.
 * Return: the map, for lend_map_add() or lend_map_free(); NULL: no memory.
 */
static struct lend_map *lend_map_new(struct lend_fn *fn, const struct dlend_p_p2p *p)
{
	struct lend_map *map = kzalloc_obj(*map);

	if (!map)
		return NULL;
	INIT_LIST_HEAD(&map->of_target);
	map->source = fn;
	map->target = dlend_p2p_target(p);
	map->epoch = le32_to_cpu(p->epoch);
	map->bar = le16_to_cpu(p->bar);
	map->r.iova = le64_to_cpu(p->gpa);
	map->r.size = le64_to_cpu(p->size);
	map->r.prot = le32_to_cpu(p->prot);
	return map;
}

/* Free a map that is not in the source's list, and take it out of the target's.  P2p lock. */
static void lend_map_free(struct lend_map *map)
{
	list_del(&map->of_target);
	kfree(map);
}

/*
 * Unmap and free a map.  The source does not reach the BAR any more, unless another function of its
 * group has the same map.  @why: for the trace.  P2p lock.
 */
static void lend_map_del(struct lend_map *map, const char *why)
{
	list_del(&map->node);
	dlend_domain_unmap(map->source->group->domain, &map->source->p2p.owner, map->r.iova,
			   map->r.size);
	trace_dlend_lend_p2p(&map->source->addr, &map->target, why, map->bar, map->r.iova,
			     map->r.size, 0);
	lend_map_free(map);
}

/* End a map without a request of the borrower, which gets P2P_LOST.  P2p lock. */
static void lend_map_lose(struct lend_map *map, const char *why)
{
	if (!map->missed)
		lend_map_queue_lost(map);
	lend_map_del(map, why);
}

/*
 * dlend_owner.lost() of a source: a map that waited could not be mapped when its turn came.  A
 * caller further up may be walking the source's list, so the map is only marked, and stays in the
 * list until the source gets another map, or ends.  P2p lock, and the domain's lock.
 */
static void lend_map_not_mapped(struct dlend_owner *owner, const struct dlend_dma_range *r)
{
	struct lend_fn *fn = container_of(owner, struct lend_fn, p2p.owner);
	struct lend_map *map;

	lockdep_assert_held(&lend_p2p_lock);
	list_for_each_entry(map, &fn->p2p.maps, node) {
		if (map->r.iova != r->iova || map->missed)
			continue;
		map->missed = true;
		lend_map_queue_lost(map);
	}
}

/* End all maps that lead to one target or foreign grant (linked by of_target).  P2p lock. */
static void lend_maps_lose(struct list_head *maps, const char *why)
{
	struct lend_map *map, *next;

	list_for_each_entry_safe(map, next, maps, of_target)
		lend_map_lose(map, why);
}

/*
 * May a source have one more map?  A source reaches each BAR at one address only: without this
 * check a borrower could map a BAR at more and more addresses.  P2p lock.  Return: 0; -ENOSPC,
 * -EEXIST, -EBUSY as lend_p2p_map().
 */
static int lend_map_check(const struct lend_map *want)
{
	struct list_head *maps = &want->source->p2p.maps;
	struct lend_map *map;

	if (list_count_nodes(maps) >= LEND_MAPS_MAX)
		return -ENOSPC;
	list_for_each_entry(map, maps, node) {
		if (lend_map_overlaps(map, want->r.iova, want->r.size))
			return -EEXIST;
		if (dlend_addr_same(&map->target, &want->target) && map->bar == want->bar)
			return -EBUSY;
	}
	return 0;
}

/*
 * All maps of a source through one window together must not be larger than the window.  Without
 * this check a borrower could name offsets at will, and the page tables for them would use up this
 * host's memory.  Maps to BARs in this host need no check: lend_p2p_resolve_here() compares their
 * size with that of the BAR.  P2p lock.
 */
static int lend_map_fits_window(const struct lend_map *want)
{
	u64 bytes = want->r.size;
	struct lend_map *map;

	if (want->way == LEND_WAY_HERE)
		return 0;
	list_for_each_entry(map, &want->source->p2p.maps, node)
		if (map->link == want->link)
			bytes += map->r.size;
	return bytes <= dlend_link_window_bytes(want->link) ? 0 : -ENOSPC;
}

/**
 * struct lend_foreign - a foreign grant: a grant of another lender to devices in this host (p2p
 * lock)
 * @node: in lend_peer.foreigns
 * @peer: that lender
 * @maps: list of struct lend_map: maps that lead to this grant
 * @id: that lender's number for the grant
 * @addr: name of that lender's function
 * @epoch: of the lease of that function
 * @bar: number of the BAR of that function
 * @borrower: node that has that lease
 * @offset: offset of the BAR in that lender's aperture, in bytes
 * @size: of the BAR, in bytes
 */
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

/*
 * Foreign grants: offsets in the aperture of another lender at which devices here reach a BAR of
 * one of its functions.  P2P_WINDOW begins a grant.  P2P_CLOSE ends it: the maps that lead to the
 * grant are unmapped, and then that lender gets P2P_CLOSED.
 */

/*
 * How long a P2P_MAP waits for the P2P_WINDOW that it needs, in ms.  P2P_MAP comes from the
 * borrower, P2P_WINDOW from the target's lender, over another link: so P2P_MAP may arrive first.
 */
#define LEND_P2P_WINDOW_WAIT_MS	1000

/*
 * The foreign grant that a P2P_MAP @p of the borrower behind @lease needs, or NULL.  Only grants of
 * the target's own lender are looked at: no other node may give access to the target.  P2p lock.
 */
static struct lend_foreign *lend_foreign_find(const struct dlend_link *lease,
					      const struct dlend_p_p2p *p)
{
	struct dlend_addr target = dlend_p2p_target(p);
	struct lend_foreign *foreign;
	struct lend_peer *peer;

	list_for_each_entry(peer, &lend_peers, node) {
		if (dlend_link_peer(peer->link) != target.lender)
			continue;
		list_for_each_entry(foreign, &peer->foreigns, node)
			if (dlend_addr_same(&foreign->addr, &target) &&
			    foreign->epoch == le32_to_cpu(p->epoch) &&
			    foreign->bar == le16_to_cpu(p->bar) &&
			    foreign->borrower == dlend_link_peer(lease))
				return foreign;
	}
	return NULL;
}

/* Unmap all that leads to a foreign grant, and free it.  P2p lock. */
static void lend_foreign_drop(struct lend_foreign *foreign)
{
	lend_maps_lose(&foreign->maps, "revoked");
	list_del(&foreign->node);
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

/* Handle P2P_WINDOW: another lender grants a BAR.  Takes the p2p lock. */
static void lend_foreign_add(struct dlend_link *link, const struct dlend_msg *msg)
{
	const struct dlend_p_p2p_window *p = (const void *)msg->payload;
	struct lend_foreign *foreign;
	struct lend_peer *peer;

	guard(mutex)(&lend_p2p_lock);
	/* Where this gives up, a borrower that needs the grant gets -EAGAIN for its P2P_MAP. */
	if (!dlend_link_is_up(link))
		return;
	peer = lend_peer_get(link);
	if (!peer || lend_foreign_by_id(peer, le32_to_cpu(p->id)) ||
	    list_count_nodes(&peer->foreigns) >= LEND_PEER_MAX)
		return;
	foreign = kzalloc_obj(*foreign);
	if (!foreign)
		return;
	foreign->peer = peer;
	INIT_LIST_HEAD(&foreign->maps);
	foreign->id = le32_to_cpu(p->id);
	foreign->addr = dlend_msg_addr(msg);
	foreign->epoch = le32_to_cpu(msg->epoch);
	foreign->bar = le16_to_cpu(p->bar);
	foreign->borrower = le16_to_cpu(p->borrower);
	foreign->offset = le64_to_cpu(p->offset);
	foreign->size = le64_to_cpu(p->size);
	/* At the head, so that lend_foreign_find() finds the newest. */
	list_add(&foreign->node, &peer->foreigns);
	wake_up_all(&lend_peers_wait);
}

/*
 * Handle P2P_CLOSE: another lender ends a grant.  P2P_CLOSED is sent after the unmapping, over the
 * same link as the posted writes that devices here have made through this grant.  So it arrives
 * behind these.  Takes the p2p lock.
 */
static void lend_foreign_close(struct dlend_link *link, const struct dlend_msg *msg)
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
	lend_peer_queue_id(link, DLEND_MSG_P2P_CLOSED, &addr, le32_to_cpu(msg->epoch),
			   le32_to_cpu(p->id));
}

static bool lend_foreign_arrived(struct dlend_link *lease, const struct dlend_p_p2p *p)
{
	guard(mutex)(&lend_p2p_lock);
	return lend_foreign_find(lease, p);
}

void lend_foreign_await(struct dlend_link *link, const struct dlend_p_p2p *p)
{
	long left = msecs_to_jiffies(LEND_P2P_WINDOW_WAIT_MS);
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	if (le32_to_cpu(p->flags) & DLEND_P2P_F_OFFSET ||
	    le16_to_cpu(p->lender) == dlend_node_id())
		return;
	/* Not wait_event(): the condition takes a mutex, and may not sleep inside wait_event(). */
	add_wait_queue(&lend_peers_wait, &wait);
	while (left && !lend_foreign_arrived(link, p) && dlend_link_is_up(link))
		left = wait_woken(&wait, TASK_UNINTERRUPTIBLE, left);
	remove_wait_queue(&lend_peers_wait, &wait);
}

/*
 * Grants: BARs of functions in this host (targets) that devices of other lenders reach.  The BAR is
 * mapped in a slot of this node's aperture towards that lender, which learns the offset only from
 * this node (P2P_WINDOW), not from the borrower.
 *
 * When the target's lease ends, the slots of its grants are unmapped at once (P2P_CLOSE).  Their
 * offsets are used again only after the other lender has confirmed that nothing is mapped to them
 * there any more (P2P_CLOSED), or has begun a new session.
 */

/* The largest number of grants of one function to one peer, open, or closed and not confirmed. */
#define LEND_GRANTS_MAX		(4 * DLEND_NUM_BARS)

/*
 * struct lend_grant - a BAR of a function here that devices of another lender reach (p2p lock)
 * @node: in lend_peer.grants
 * @of_fn: in lend_p2p.grants of the function, while the grant is open; otherwise empty
 * @peer: that lender
 * @ap: this node's aperture towards @peer; it exists until link_down() of that link returns, and so
 *	does the grant
 * @id: number of the grant in messages
 * @addr: name of the function
 * @epoch: of the function's lease
 * @bar: number of the BAR
 * @slot: where the BAR is mapped in @ap; NULL: the grant was closed, and waits for P2P_CLOSED
 * @cookie: for dlend_slot_release(), after the grant was closed
 * @granted: counts in PEERS messages while @slot exists
 */
struct lend_grant {
	struct list_head node, of_fn;
	struct lend_peer *peer;
	struct dlend_aperture *ap;
	u32 id;
	struct dlend_addr addr;
	u32 epoch, bar;
	struct dlend_slot *slot;
	u64 cookie;
	struct lend_granted granted;
};

/* lend_grant.id of the grant that was made last (p2p lock). */
static u32 lend_grant_last_id;

/* Queue P2P_WINDOW for the other lender.  P2p lock. */
static void lend_grant_queue_window(const struct lend_grant *grant)
{
	struct dlend_p_p2p_window *p;
	struct dlend_msg msg;

	p = dlend_msg_init(&msg, DLEND_MSG_P2P_WINDOW, &grant->addr, grant->epoch, sizeof(*p));
	p->offset = cpu_to_le64(grant->slot->offset);
	p->size = cpu_to_le64(grant->slot->size);
	p->id = cpu_to_le32(grant->id);
	p->borrower = cpu_to_le16(grant->granted.borrower);
	p->bar = cpu_to_le16(grant->bar);
	lend_notify_queue(grant->peer->link, &msg);
}

/* The open grant of a BAR to a node, or NULL.  P2p lock. */
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
	kfree(grant);
}

/*
 * Unmap an open grant, and queue P2P_CLOSE.  No device reaches the BAR through the grant any more
 * when this returns; the grant is freed when P2P_CLOSED comes.  P2p lock.
 */
static void lend_grant_close(struct lend_grant *grant)
{
	struct dlend_link *link = grant->peer->link;

	trace_dlend_grant(&grant->addr, "close", dlend_link_peer(link), grant->bar,
			  grant->slot->offset, grant->slot->size);
	/* false: the other lender may still use the offset: it goes into quarantine. */
	grant->cookie = dlend_slot_free(grant->slot, false);
	grant->slot = NULL;
	list_del_init(&grant->of_fn);
	lend_notify_ungrant(&grant->granted);
	lend_peer_queue_id(link, DLEND_MSG_P2P_CLOSE, &grant->addr, grant->epoch, grant->id);
}

/* Handle P2P_CLOSED: another lender has unmapped a closed grant.  Takes the p2p lock. */
static void lend_grant_closed(struct dlend_link *link, const struct dlend_msg *msg)
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

/*
 * May @fn have one more grant to @peer?  Closed grants that @peer has not confirmed count.  P2p
 * lock.
 */
static bool lend_grant_fits(const struct lend_peer *peer, const struct lend_fn *fn)
{
	unsigned int all = 0, of_fn = 0;
	struct lend_grant *grant;

	list_for_each_entry(grant, &peer->grants, node) {
		all++;
		of_fn += dlend_addr_same(&grant->addr, &fn->addr);
	}
	return all < LEND_PEER_MAX && of_fn < LEND_GRANTS_MAX;
}

/* Allocate a slot, and map a BAR in it.  Return: the slot, or ERR_PTR(). */
static struct dlend_slot *lend_grant_slot(struct dlend_aperture *ap, const struct lend_bar *bar)
{
	struct dlend_slot *slot = lend_bar_slot(ap, bar->span, DLEND_SLOT_P2P);
	int ret = PTR_ERR_OR_ZERO(slot) ?: lend_bar_fill(slot, bar);

	if (!ret)
		return slot;
	/* true: no peer knows the offset, so no quarantine. */
	if (!IS_ERR(slot))
		dlend_slot_free(slot, true);
	return ERR_PTR(ret);
}

/* Make a grant over a link.  P2p lock.  Return: as lend_grant_open(). */
static int lend_grant_new(struct lend_fn *fn, struct dlend_link *link, u32 bar)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct lend_grant *grant;
	struct dlend_slot *slot;
	struct lend_peer *peer;

	/* Inside the p2p lock: if the link goes down now, lend_p2p_link_lost() finds the grant. */
	if (!ap || !dlend_link_is_up(link))
		return -EHOSTUNREACH;
	peer = lend_peer_get(link);
	if (!peer)
		return -ENOMEM;
	if (!lend_grant_fits(peer, fn))
		return -EAGAIN;
	grant = kzalloc_obj(*grant);
	if (!grant)
		return -ENOMEM;
	slot = lend_grant_slot(ap, &fn->bar[bar]);
	if (IS_ERR(slot)) {
		kfree(grant);
		return PTR_ERR(slot);
	}
	grant->peer = peer;
	grant->ap = ap;
	grant->id = ++lend_grant_last_id;
	grant->addr = fn->addr;
	grant->epoch = fn->p2p.epoch;
	grant->bar = bar;
	grant->slot = slot;
	grant->granted.to = dlend_link_peer(link);
	grant->granted.borrower = dlend_link_peer(fn->p2p.link);
	grant->granted.bytes = slot->size;
	list_add_tail(&grant->node, &peer->grants);
	list_add_tail(&grant->of_fn, &fn->p2p.grants);
	lend_grant_queue_window(grant);
	lend_notify_grant(&grant->granted);
	trace_dlend_grant(&grant->addr, "open", dlend_link_peer(link), bar, slot->offset,
			  slot->size);
	return 0;
}

/* Is @bar mapped as a whole?  Not if it cannot be mapped, or is smaller than its page. */
static bool lend_bar_whole(const struct lend_bar *bar)
{
	return bar->span && bar->span == bar->size;
}

/* Argument of lend_grant_over(): the grant that lend_grant_open() wants, and the result. */
struct lend_grant_want {
	struct lend_fn *fn;
	u16 node;
	u32 bar;
	int ret;
};

/* Callback of dlend_links_each(): make the grant over the first link that leads to the node. */
static int lend_grant_over(struct dlend_link *link, void *arg)
{
	struct lend_grant_want *want = arg;

	if (dlend_link_peer(link) != want->node)
		return 0;
	guard(mutex)(&lend_p2p_lock);
	if (!want->fn->p2p.link)
		want->ret = -ESTALE;
	else if (lend_grant_find(want->fn, want->node, want->bar))
		want->ret = 0;
	else
		want->ret = lend_grant_new(want->fn, link, want->bar);
	return 1;
}

int lend_grant_open(struct lend_fn *fn, const struct dlend_p_p2p_grant *p)
{
	struct lend_grant_want want = { .fn = fn, .node = le16_to_cpu(p->node),
					.bar = le16_to_cpu(p->bar), .ret = -EHOSTUNREACH };
	u64 kib = fn->bar[want.bar].span >> 10;

	if (!lend_bar_whole(&fn->bar[want.bar]) || want.node == dlend_node_id())
		return -EINVAL;
	/* true: only links that are up. */
	dlend_links_each(true, lend_grant_over, &want);
	if (want.ret == -EDQUOT)
		dev_warn_ratelimited(&fn->pdev->dev, "BAR %u (%llu KiB) does not fit into the share of the window to node %u that peer-to-peer may take: make the window larger in the NTB's set-up, or dlend_core.p2p_window_percent\n",
				     want.bar, kib, want.node);
	if (want.ret == -ENOSPC)
		dev_warn_ratelimited(&fn->pdev->dev, "BAR %u (%llu KiB) does not fit into the window to node %u, whose devices cannot reach it directly: make that window larger in the NTB's set-up\n",
				     want.bar, kib, want.node);
	return want.ret;
}

void lend_grant_end(struct lend_fn *fn, const struct dlend_p_p2p_grant *want)
{
	struct lend_grant *grant;

	guard(mutex)(&lend_p2p_lock);
	grant = lend_grant_find(fn, le16_to_cpu(want->node), le16_to_cpu(want->bar));
	if (grant)
		lend_grant_close(grant);
}

/* The target is in another host: let the map lead to its lender's grant.  P2p lock. */
static int lend_p2p_resolve_foreign(struct lend_map *map, const struct dlend_p_p2p *p)
{
	struct lend_foreign *foreign = lend_foreign_find(map->source->group->link, p);

	if (!foreign)
		return -EAGAIN;
	map->way = LEND_WAY_FOREIGN;
	map->link = foreign->peer->link;
	map->r.offset = foreign->offset;
	list_add_tail(&map->of_target, &foreign->maps);
	return foreign->size == map->r.size ? 0 : -EINVAL;
}

/* The target is in this host: let the map lead to its BAR.  P2p lock. */
static int lend_p2p_resolve_here(struct lend_map *map, struct lend_fn *target)
{
	const struct lend_bar *bar;

	if (!target)
		return -ENODEV;
	if (target->p2p.link != map->source->group->link || target->p2p.epoch != map->epoch)
		return -ESTALE;
	bar = &target->bar[map->bar];
	map->way = LEND_WAY_HERE;
	map->r.mmio = true;
	map->r.phys = bar->phys;
	map->r.hole = bar->hole;
	map->r.hole_end = bar->hole_end;
	list_add_tail(&map->of_target, &target->p2p.reached_by);
	return lend_bar_whole(bar) && bar->span == map->r.size ? 0 : -EINVAL;
}

/*
 * Fill in where a map leads: way, link, r, and of_target.  On error the caller frees the map.  P2p
 * lock.
 * Return: 0; or as lend_p2p_map().
 */
static int lend_p2p_resolve(struct lend_map *map, const struct dlend_p_p2p *p,
			    struct lend_fn *target)
{
	if (!(le32_to_cpu(p->flags) & DLEND_P2P_F_OFFSET))
		return map->target.lender == dlend_node_id() ? lend_p2p_resolve_here(map, target) :
							       lend_p2p_resolve_foreign(map, p);
	map->way = LEND_WAY_BORROWER;
	map->link = map->source->group->link;
	map->r.offset = le64_to_cpu(p->offset);
	return 0;
}

int lend_p2p_map(struct lend_fn *fn, const struct dlend_p_p2p *p, struct lend_fn *target)
{
	struct lend_map *map = lend_map_new(fn, p), *old, *next;
	int ret;

	if (!map)
		return -ENOMEM;
	guard(mutex)(&lend_p2p_lock);
	list_for_each_entry_safe(old, next, &fn->p2p.maps, node)
		if (old->missed)
			lend_map_del(old, "missed");
	ret = lend_map_check(map) ?: lend_p2p_resolve(map, p, target) ?:
	      lend_map_fits_window(map) ?: lend_map_add(map);
	if (ret)
		lend_map_free(map);
	return ret;
}

int lend_p2p_unmap(struct lend_fn *fn, const struct dlend_p_p2p *p)
{
	struct lend_map *map;

	guard(mutex)(&lend_p2p_lock);
	list_for_each_entry(map, &fn->p2p.maps, node) {
		if (map->r.iova != le64_to_cpu(p->gpa) || map->r.size != le64_to_cpu(p->size))
			continue;
		lend_map_del(map, "unmap");
		return 0;
	}
	return -ENOENT;
}

void lend_p2p_yield(struct lend_fn *fn, u64 gpa, u64 size)
{
	struct lend_group *group = fn->group;
	struct lend_map *map, *next;

	/* Most groups reach no BARs: then do not wait for the p2p lock. */
	if (!dlend_domain_bytes(group->domain, DLEND_OWNER_BAR))
		return;
	guard(mutex)(&lend_p2p_lock);
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		list_for_each_entry_safe(map, next, &w.fn->p2p.maps, node)
			if (lend_map_overlaps(map, gpa, size))
				lend_map_lose(map, "yield");
}

void lend_p2p_init(struct lend_fn *fn)
{
	dlend_owner_init(&fn->p2p.owner, DLEND_OWNER_BAR);
	fn->p2p.owner.lost = lend_map_not_mapped;
	INIT_LIST_HEAD(&fn->p2p.maps);
	INIT_LIST_HEAD(&fn->p2p.reached_by);
	INIT_LIST_HEAD(&fn->p2p.grants);
}

void lend_p2p_open(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	guard(mutex)(&lend_p2p_lock);
	fn->p2p.link = link;
	fn->p2p.epoch = epoch;
}

/* End all maps and grants that lead to a function's BARs, and allow no new ones.  P2p lock. */
static void lend_p2p_close_target(struct lend_fn *fn)
{
	struct lend_grant *grant, *next;

	lend_maps_lose(&fn->p2p.reached_by, "revoked");
	list_for_each_entry_safe(grant, next, &fn->p2p.grants, of_fn)
		lend_grant_close(grant);
	fn->p2p.link = NULL;
}

void lend_p2p_hide(struct lend_fn *fn)
{
	guard(mutex)(&lend_p2p_lock);
	lend_p2p_close_target(fn);
}

void lend_p2p_close(struct lend_fn *fn)
{
	struct lend_map *map, *next;

	guard(mutex)(&lend_p2p_lock);
	lend_p2p_close_target(fn);
	list_for_each_entry_safe(map, next, &fn->p2p.maps, node)
		lend_map_del(map, "source_gone");
}

void lend_p2p_link_lost(struct dlend_link *link)
{
	struct lend_foreign *foreign, *next_foreign;
	struct lend_grant *grant, *next;
	struct lend_peer *peer;

	guard(mutex)(&lend_p2p_lock);
	wake_up_all(&lend_peers_wait);
	peer = lend_peer_find(link);
	if (!peer)
		return;
	list_for_each_entry_safe(foreign, next_foreign, &peer->foreigns, node)
		lend_foreign_drop(foreign);
	/* false: the offsets go into quarantine, which ends by itself with the next session. */
	list_for_each_entry_safe(grant, next, &peer->grants, node) {
		if (grant->slot) {
			dlend_slot_free(grant->slot, false);
			lend_notify_ungrant(&grant->granted);
		}
		lend_grant_free(grant);
	}
	list_del(&peer->node);
	dlend_link_put(link);
	kfree(peer);
}

int lend_p2p_message(struct dlend_link *link, const struct dlend_msg *msg)
{
	u16 whose = le16_to_cpu(msg->lender);

	if (le16_to_cpu(msg->type) == DLEND_MSG_P2P_CLOSED) {
		lend_grant_closed(link, msg);
		return 0;
	}
	/* The other two messages are about a device of the sender. */
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

void lend_p2p_show(struct lend_fn *fn, struct seq_file *m)
{
	static const char * const way[] = { "here", "lender", "borrower" };
	char name[DLEND_NAME_LEN];
	struct lend_grant *grant;
	struct lend_peer *peer;
	struct lend_map *map;

	guard(mutex)(&lend_p2p_lock);
	seq_printf(m, "lost: %llu\nmaps: %zu\n", fn->p2p.lost, list_count_nodes(&fn->p2p.maps));
	list_for_each_entry(map, &fn->p2p.maps, node)
		seq_printf(m, "reaches %s bar %u at %llx size %llx way %s\n",
			   dlend_addr_name(&map->target, name), map->bar, map->r.iova, map->r.size,
			   way[map->way]);
	list_for_each_entry(peer, &lend_peers, node)
		list_for_each_entry(grant, &peer->grants, node)
			if (dlend_addr_same(&grant->addr, &fn->addr))
				seq_printf(m, "granted bar %u to node %u id %u epoch %u%s\n",
					   grant->bar, dlend_link_peer(peer->link), grant->id,
					   grant->epoch, grant->slot ? "" : ", in quarantine");
}
