// SPDX-License-Identifier: GPL-2.0
/*
 * Allocator of offsets in an aperture.
 *
 * Pure: one list of extents in order of offset, whose memory comes from the caller.  genalloc has
 * no phase and no quarantine; an aperture has some hundred slots at most, so a list is enough.
 */
#include <linux/align.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include "slots.h"

static bool is_pow2(u64 x)
{
	return x && !(x & (x - 1));
}

static void put_spare(struct dlend_slots *s, struct dlend_extent *e)
{
	list_add(&e->node, &s->spare);
	s->nr_spare++;
}

static struct dlend_extent *get_spare(struct dlend_slots *s)
{
	struct dlend_extent *e = list_first_entry(&s->spare, struct dlend_extent, node);

	list_del(&e->node);
	s->nr_spare--;
	return e;
}

void dlend_slots_init(struct dlend_slots *s, u64 size, struct dlend_extent *whole)
{
	INIT_LIST_HEAD(&s->extents);
	INIT_LIST_HEAD(&s->spare);
	s->nr_spare = 0;
	s->cookie = 0;
	s->age = 0;
	s->size = size;
	s->limit = size;
	whole->offset = 0;
	whole->size = size;
	whole->use = DLEND_EXTENT_FREE;
	whole->cookie = 0;
	list_add(&whole->node, &s->extents);
}

void dlend_slots_limit(struct dlend_slots *s, u64 limit)
{
	s->limit = ALIGN_DOWN(min(limit, s->size), DLEND_SLOT_PAGE);
}

void dlend_slots_give(struct dlend_slots *s, struct dlend_extent *spare)
{
	put_spare(s, spare);
}

struct dlend_extent *dlend_slots_take(struct dlend_slots *s, bool all)
{
	struct dlend_extent *e;

	if (!list_empty(&s->spare))
		return get_spare(s);
	if (!all || list_empty(&s->extents))
		return NULL;
	e = list_first_entry(&s->extents, struct dlend_extent, node);
	list_del(&e->node);
	return e;
}

/* How much of @e is below the limit? */
static u64 usable(const struct dlend_slots *s, const struct dlend_extent *e)
{
	return e->offset < s->limit ? min(e->size, s->limit - e->offset) : 0;
}

/* First offset of @e with the wanted phase, if @size fits there. */
static bool fits(const struct dlend_slots *s, const struct dlend_extent *e, u64 size, u64 align,
		 u64 phase, u64 *at)
{
	u64 skip = (phase - e->offset) & (align - 1), room = usable(s, e);

	if (skip > room || room - skip < size)
		return false;
	*at = e->offset + skip;
	return true;
}

static struct dlend_extent *best_fit(struct dlend_slots *s, u64 size, u64 align, u64 phase,
				     u64 *at)
{
	struct dlend_extent *e, *best = NULL;
	u64 here;

	list_for_each_entry(e, &s->extents, node) {
		if (e->use != DLEND_EXTENT_FREE || (best && e->size >= best->size))
			continue;
		if (fits(s, e, size, align, phase, &here)) {
			best = e;
			*at = here;
		}
	}
	return best;
}

/* Cut @e at @at: @e keeps what is below, the new extent behind it has the rest. */
static struct dlend_extent *cut_at(struct dlend_slots *s, struct dlend_extent *e, u64 at)
{
	struct dlend_extent *rest = get_spare(s);

	rest->offset = at;
	rest->size = e->offset + e->size - at;
	rest->use = DLEND_EXTENT_FREE;
	rest->cookie = 0;
	e->size = at - e->offset;
	list_add(&rest->node, &e->node);
	return rest;
}

int dlend_slots_alloc(struct dlend_slots *s, u64 size, u64 align, u64 phase, unsigned int kind,
		      struct dlend_extent **ext)
{
	struct dlend_extent *e;
	u64 at = 0;

	align = max(align, DLEND_SLOT_PAGE);
	if (!size || size > s->size)
		return size ? -ENOSPC : -EINVAL;
	size = ALIGN(size, DLEND_SLOT_PAGE);
	if (!is_pow2(align) || phase >= align || phase % DLEND_SLOT_PAGE)
		return -EINVAL;
	if (s->nr_spare < DLEND_SLOTS_SPARE)
		return -ENOMEM;
	e = best_fit(s, size, align, phase, &at);
	if (!e)
		return -ENOSPC;
	if (at > e->offset)
		e = cut_at(s, e, at);
	if (size < e->size)
		cut_at(s, e, at + size);
	e->use = DLEND_EXTENT_USED;
	e->age = s->age;
	e->kind = kind;
	*ext = e;
	return 0;
}

/* @e swallows the extent behind it. */
static void join(struct dlend_slots *s, struct dlend_extent *e, struct dlend_extent *behind)
{
	e->size += behind->size;
	list_del(&behind->node);
	put_spare(s, behind);
}

static void make_free(struct dlend_slots *s, struct dlend_extent *e)
{
	struct dlend_extent *n;

	e->use = DLEND_EXTENT_FREE;
	e->cookie = 0;
	if (!list_is_last(&e->node, &s->extents)) {
		n = list_next_entry(e, node);
		if (n->use == DLEND_EXTENT_FREE)
			join(s, e, n);
	}
	if (!list_is_first(&e->node, &s->extents)) {
		n = list_prev_entry(e, node);
		if (n->use == DLEND_EXTENT_FREE)
			join(s, n, e);
	}
}

int dlend_slots_free(struct dlend_slots *s, struct dlend_extent *ext)
{
	if (ext->use != DLEND_EXTENT_USED)
		return -EINVAL;
	make_free(s, ext);
	return 0;
}

u64 dlend_slots_quarantine(struct dlend_slots *s, struct dlend_extent *ext)
{
	if (ext->use != DLEND_EXTENT_USED)
		return 0;
	s->cookie++;
	if (ext->age == s->age) {
		ext->use = DLEND_EXTENT_QUARANTINED;
		ext->cookie = s->cookie;
	} else {
		make_free(s, ext);
	}
	return s->cookie;
}

int dlend_slots_release(struct dlend_slots *s, u64 cookie)
{
	struct dlend_extent *e;

	list_for_each_entry(e, &s->extents, node) {
		if (e->use == DLEND_EXTENT_QUARANTINED && e->cookie == cookie) {
			make_free(s, e);
			return 0;
		}
	}
	return -ENOENT;
}

void dlend_slots_release_all(struct dlend_slots *s)
{
	struct dlend_extent *e;
	bool again;

	s->age++;
	/* Joining moves neighbours: begin again after each. */
	do {
		again = false;
		list_for_each_entry(e, &s->extents, node) {
			if (e->use == DLEND_EXTENT_QUARANTINED) {
				make_free(s, e);
				again = true;
				break;
			}
		}
	} while (again);
}

u64 dlend_slots_share(const struct dlend_slots *s, unsigned int percent)
{
	u64 pages = s->limit / DLEND_SLOT_PAGE;

	percent = min(percent, 100u);
	return (pages / 100 * percent + pages % 100 * percent / 100) * DLEND_SLOT_PAGE;
}

void dlend_slots_sum(const struct dlend_slots *s, u64 *free, u64 *largest, u64 *quarantined)
{
	const struct dlend_extent *e;

	*free = 0;
	*largest = 0;
	*quarantined = 0;
	list_for_each_entry(e, &s->extents, node) {
		if (e->use == DLEND_EXTENT_FREE) {
			*free += usable(s, e);
			*largest = max(*largest, usable(s, e));
		} else if (e->use == DLEND_EXTENT_QUARANTINED) {
			*quarantined += e->size;
		}
	}
}

u64 dlend_slots_bytes(const struct dlend_slots *s, unsigned int kind)
{
	const struct dlend_extent *e;
	u64 bytes = 0;

	list_for_each_entry(e, &s->extents, node)
		if (e->use != DLEND_EXTENT_FREE && e->kind == kind)
			bytes += e->size;
	return bytes;
}

int dlend_range_pick(const struct dlend_range *busy, unsigned int count, u64 first, u64 last,
		     u64 size, u64 align, u64 *at)
{
	u64 here = ALIGN(first, align);
	unsigned int i = 0;

	while (i < count) {
		/* Wrapped, or no room left. */
		if (here < first || here > last || last - here < size - 1)
			return -ENOSPC;
		if (busy[i].first > here + (size - 1) || busy[i].last < here) {
			i++;
			continue;
		}
		if (busy[i].last >= last)
			return -ENOSPC;
		here = ALIGN(busy[i].last + 1, align);
		i = 0;
	}
	if (here < first || here > last || last - here < size - 1)
		return -ENOSPC;
	*at = here;
	return 0;
}
