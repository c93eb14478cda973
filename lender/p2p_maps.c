// SPDX-License-Identifier: GPL-2.0
/*
 * What lent functions here (sources) reach by peer-to-peer, at the addresses where a guest has put
 * the BARs: a map is what the source's domain has at the address of one BAR.  It leads to a BAR in
 * this host, to one that another lender has granted, or into the borrower's own aperture.
 *
 * Knows nothing of leases, and does not decide where a map leads: p2p.c does.  Everything here is
 * called with the p2p lock held.
 */
#include <linux/seq_file.h>
#include <linux/slab.h>

#include <dlend/compat.h>
#include <dlend/names.h>

#include "lender/group.h"
#include "lender/outbox.h"
#include "lender/p2p_maps.h"
#include "lender/p2p_peers.h"
#include "lender/trace.h"

/* What one function reaches: a VM has at most 32 devices, and a device has 6 BARs. */
#define LEND_MAPS_MAX		(32 * DLEND_NUM_BARS)

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

static bool lend_map_meets(const struct lend_map *map, u64 gpa, u64 size)
{
	return map->gpa < gpa + size && gpa < map->gpa + map->size;
}

/*
 * Enter a map in the domain.  If another function of the group reaches the same BAR at the same
 * address, this map waits there until the other one ends.
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

int lend_map_add(struct lend_map *map)
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

struct lend_map *lend_map_new(struct lend_fn *fn, struct dlend_link *link,
			      const struct dlend_p_p2p *p)
{
	struct lend_map *map = kzalloc_obj(*map);

	if (!map)
		return NULL;
	INIT_LIST_HEAD(&map->of_target);
	map->source = fn;
	map->domain = fn->group->domain;
	map->lease = dlend_link_get(link);
	map->target = dlend_p2p_target(p);
	map->epoch = le32_to_cpu(p->epoch);
	map->bar = le16_to_cpu(p->bar);
	map->gpa = le64_to_cpu(p->gpa);
	map->size = le64_to_cpu(p->size);
	map->prot = le32_to_cpu(p->prot);
	return map;
}

void lend_map_free(struct lend_map *map)
{
	list_del(&map->of_target);
	if (map->link)
		dlend_link_put(map->link);
	dlend_link_put(map->lease);
	kfree(map);
}

/* The source does not reach the BAR any more, unless another function of its group has that map. */
static void lend_map_del(struct lend_map *map, const char *why)
{
	list_del(&map->node);
	map->source->p2p.nr_maps--;
	dlend_domain_unmap(map->domain, &map->source->p2p.owner, map->gpa, map->size);
	trace_dlend_lend_p2p(&map->source->addr, &map->target, why, map->bar, map->gpa, map->size,
			     0);
	lend_map_free(map);
}

/* End a map that nobody asked to end, and tell the borrower. */
static void lend_map_lose(struct lend_map *map, const char *why)
{
	if (!map->missed) {
		map->source->p2p.lost++;
		lend_map_note_lost(map);
	}
	lend_map_del(map, why);
}

/*
 * struct dlend_owner.lost().  Somebody may be walking the source's list, so the map stays there
 * until it is ended or the source wants another map.
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

void lend_maps_forget_missed(struct lend_fn *fn)
{
	struct lend_map *map, *next;

	list_for_each_entry_safe(map, next, &fn->p2p.maps, node)
		if (map->missed)
			lend_map_del(map, "missed");
}

void lend_maps_lose(struct list_head *maps, const char *why)
{
	struct lend_map *map, *next;

	list_for_each_entry_safe(map, next, maps, of_target)
		lend_map_lose(map, why);
}

int lend_maps_end(struct lend_fn *fn, u64 gpa, u64 size)
{
	struct lend_map *map;

	list_for_each_entry(map, &fn->p2p.maps, node) {
		if (map->gpa != gpa || map->size != size)
			continue;
		lend_map_del(map, "unmap");
		return 0;
	}
	return -ENOENT;
}

void lend_maps_end_all(struct lend_fn *fn)
{
	struct lend_map *map, *next;

	list_for_each_entry_safe(map, next, &fn->p2p.maps, node)
		lend_map_del(map, "source_gone");
}

void lend_maps_yield(struct lend_fn *fn, u64 gpa, u64 size)
{
	struct lend_map *map, *next;

	list_for_each_entry_safe(map, next, &fn->p2p.maps, node)
		if (lend_map_meets(map, gpa, size))
			lend_map_lose(map, "yield");
}

/* A BAR is at one address: without that check a borrower could map it again and again. */
int lend_map_admit(const struct lend_map *want)
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
 * All maps into a window together cannot be larger than the window.  Without this check a borrower
 * could invent addresses, and the page tables for them would take this host's memory.  Maps to BARs
 * in this host need no check: lend_p2p_resolve_here() compares their size with the BAR's.
 */
int lend_map_fits_window(const struct lend_map *want)
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

void lend_maps_init(struct lend_fn *fn)
{
	dlend_owner_init(&fn->p2p.owner, DLEND_OWNER_BAR);
	fn->p2p.owner.lost = lend_map_missed;
	INIT_LIST_HEAD(&fn->p2p.maps);
}

void lend_maps_show(struct lend_fn *fn, struct seq_file *m)
{
	static const char * const way[] = { "here", "lender", "borrower" };
	char name[DLEND_NAME_LEN];
	struct lend_map *map;

	seq_printf(m, "lost: %llu\nmaps: %u\n", fn->p2p.lost, fn->p2p.nr_maps);
	list_for_each_entry(map, &fn->p2p.maps, node)
		seq_printf(m, "reaches %s bar %u at %llx size %llx way %s\n",
			   dlend_addr_name(&map->target, name), map->bar, map->gpa, map->size,
			   way[map->way]);
}
