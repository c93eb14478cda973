// SPDX-License-Identifier: GPL-2.0
/*
 * Peer-to-peer: lent devices that reach BARs of other lent devices, at the addresses where a guest
 * has put them.  Three things make it up:
 *
 *   grant	(p2p_grants.c) the target is here, the source elsewhere
 *   foreign	(p2p_foreign.c) the target is elsewhere: what its lender has granted
 *   map	(p2p_maps.c) the source is here: what it reaches, and where
 *
 * The borrower only names devices, BARs and leases.  A map needs both leases: the source's, which
 * the caller has checked, and the target's.  Either the target's lease is open here (struct
 * lend_p2p), or the target's lender has made the grant for this very borrower.
 *
 * When the target's lease ends, every map and grant that leads to the target ends first.
 *
 * Knows nothing of guests, nor of what a window is made of.
 */
#include "lender/bars.h"
#include "lender/group.h"
#include "lender/p2p.h"
#include "lender/p2p_foreign.h"
#include "lender/p2p_grants.h"
#include "lender/p2p_maps.h"

/* The target is in another host: the map leads to what its lender has granted.  p2p lock. */
static int lend_p2p_resolve_foreign(struct lend_map *map, const struct dlend_p_p2p *p)
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

/* The target is in this host.  p2p lock. */
static int lend_p2p_resolve_here(struct lend_map *map, struct lend_fn *target)
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

/* Find out where a map leads, by what the borrower says and what is known here.  p2p lock. */
static int lend_p2p_resolve(struct lend_map *map, const struct dlend_p_p2p *p,
			    struct lend_fn *target)
{
	if (!(le32_to_cpu(p->flags) & DLEND_P2P_F_OFFSET))
		return map->target.lender == dlend_node_id() ? lend_p2p_resolve_here(map, target) :
							       lend_p2p_resolve_foreign(map, p);
	map->way = LEND_WAY_BORROWER;
	map->link = dlend_link_get(map->lease);
	map->offset = le64_to_cpu(p->offset);
	return 0;
}

int lend_p2p_map(struct lend_fn *fn, struct dlend_link *link, const struct dlend_p_p2p *p,
		 struct lend_fn *target)
{
	struct lend_map *map;
	int ret;

	if (le16_to_cpu(p->bar) >= DLEND_NUM_BARS)
		return -EINVAL;
	map = lend_map_new(fn, link, p);
	if (!map)
		return -ENOMEM;

	guard(mutex)(&lend_p2p_lock);
	lend_maps_forget_missed(fn);
	ret = lend_map_admit(map) ?: lend_p2p_resolve(map, p, target) ?: lend_map_fits_window(map);
	if (!ret)
		ret = lend_map_add(map);
	if (ret)
		lend_map_free(map);
	return ret;
}

int lend_p2p_unmap(struct lend_fn *fn, const struct dlend_p_p2p *p)
{
	guard(mutex)(&lend_p2p_lock);
	return lend_maps_end(fn, le64_to_cpu(p->gpa), le64_to_cpu(p->size));
}

void lend_p2p_yield(struct lend_fn *fn, u64 gpa, u64 size)
{
	struct lend_group *group = fn->group;

	/* Most groups have no BARs mapped, and need not wait for the p2p lock. */
	if (!dlend_domain_bytes(group->domain, DLEND_OWNER_BAR))
		return;
	guard(mutex)(&lend_p2p_lock);
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i])
			lend_maps_yield(group->fn[i], gpa, size);
}

void lend_p2p_init(struct lend_fn *fn)
{
	lend_maps_init(fn);
	INIT_LIST_HEAD(&fn->p2p.reached_by);
	INIT_LIST_HEAD(&fn->p2p.grants);
}

void lend_p2p_open(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	guard(mutex)(&lend_p2p_lock);
	fn->p2p.link = dlend_link_get(link);
	fn->p2p.epoch = epoch;
}

/* p2p lock. */
static void lend_p2p_close_target(struct lend_fn *fn)
{
	lend_maps_lose(&fn->p2p.reached_by, "revoked");
	lend_grants_close(fn);
	if (fn->p2p.link)
		dlend_link_put(fn->p2p.link);
	fn->p2p.link = NULL;
}

void lend_p2p_hide(struct lend_fn *fn)
{
	guard(mutex)(&lend_p2p_lock);
	lend_p2p_close_target(fn);
}

void lend_p2p_close(struct lend_fn *fn)
{
	guard(mutex)(&lend_p2p_lock);
	lend_p2p_close_target(fn);
	lend_maps_end_all(fn);
}

void lend_p2p_link_lost(struct dlend_link *link)
{
	struct lend_peer *peer;

	mutex_lock(&lend_p2p_lock);
	peer = lend_peer_find(link);
	if (peer) {
		lend_foreign_link_lost(peer);
		lend_grants_link_lost(peer);
		lend_peer_free(peer);
	}
	mutex_unlock(&lend_p2p_lock);
	wake_up_all(&lend_peers_wait);
}

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

void lend_p2p_show(struct lend_fn *fn, struct seq_file *m)
{
	guard(mutex)(&lend_p2p_lock);
	lend_maps_show(fn, m);
	lend_grants_show(fn, m);
}
