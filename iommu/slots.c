// SPDX-License-Identifier: GPL-2.0
/*
 * Allocator of offsets in an aperture.
 *
 * Pure: one list of runs in order of offset.  genalloc has no phase and no quarantine; an aperture
 * has some hundred slots at most, so a list is enough.
 */
#include <linux/align.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <dlend/alloc.h>
#include "paging.h"
#include "slots.h"

int dlend_slots_init(struct dlend_slots *s, u64 size)
{
	struct dlend_slot *whole = kzalloc_obj(*whole);

	*s = (struct dlend_slots) { .size = size, .limit = size };
	INIT_LIST_HEAD(&s->runs);
	if (!whole)
		return -ENOMEM;
	whole->size = size;
	list_add(&whole->node, &s->runs);
	return 0;
}

void dlend_slots_exit(struct dlend_slots *s)
{
	struct dlend_slot *e, *next;

	list_for_each_entry_safe(e, next, &s->runs, node)
		kfree(e);
}

void dlend_slots_limit(struct dlend_slots *s, u64 limit)
{
	s->limit = ALIGN_DOWN(min(limit, s->size), DLEND_SLOT_PAGE);
}

/* Return: how many bytes of @e are below the limit. */
static u64 dlend_slot_usable(const struct dlend_slots *s, const struct dlend_slot *e)
{
	return e->offset < s->limit ? min(e->size, s->limit - e->offset) : 0;
}

/* First offset of @e with the wanted phase, if @want->size fits there. */
static bool dlend_slot_fits(const struct dlend_slots *s, const struct dlend_slot *e,
			    const struct dlend_slot_want *want, u64 *at)
{
	u64 skip = (want->phase - e->offset) & (want->align - 1);
	u64 room = dlend_slot_usable(s, e);

	if (skip > room || room - skip < want->size)
		return false;
	*at = e->offset + skip;
	return true;
}

static struct dlend_slot *dlend_slots_best_fit(struct dlend_slots *s,
					       const struct dlend_slot_want *want, u64 *at)
{
	struct dlend_slot *e, *best = NULL;
	u64 here;

	list_for_each_entry(e, &s->runs, node) {
		if (e->use != DLEND_SLOT_FREE || (best && e->size >= best->size))
			continue;
		if (dlend_slot_fits(s, e, want, &here)) {
			best = e;
			*at = here;
		}
	}
	return best;
}

/* Cut @e at @at: @e keeps what is below. Return: a new run with the rest; NULL: no memory. */
static struct dlend_slot *dlend_slot_cut(struct dlend_slot *e, u64 at)
{
	struct dlend_slot *rest = kzalloc_obj(*rest, DLEND_PAGING_GFP | __GFP_RETRY_MAYFAIL);

	if (!rest)
		return NULL;
	rest->offset = at;
	rest->size = e->offset + e->size - at;
	e->size = at - e->offset;
	list_add(&rest->node, &e->node);
	return rest;
}

/* If @behind is free, too, @e takes it in. */
static void dlend_slot_join(struct dlend_slot *e, struct dlend_slot *behind)
{
	if (e->use != DLEND_SLOT_FREE || behind->use != DLEND_SLOT_FREE)
		return;
	e->size += behind->size;
	list_del(&behind->node);
	kfree(behind);
}

static void dlend_slot_set_free(struct dlend_slots *s, struct dlend_slot *e)
{
	e->use = DLEND_SLOT_FREE;
	e->cookie = 0;
	if (!list_is_last(&e->node, &s->runs))
		dlend_slot_join(e, list_next_entry(e, node));
	if (!list_is_first(&e->node, &s->runs))
		dlend_slot_join(list_prev_entry(e, node), e);
}

int dlend_slots_alloc(struct dlend_slots *s, struct dlend_slot_want want, struct dlend_slot **slot)
{
	struct dlend_slot *e;
	u64 at = 0;

	want.align = max(want.align, DLEND_SLOT_PAGE);
	/* First of all, so that the ALIGN() cannot overflow. */
	if (!want.size || want.size > s->size)
		return want.size ? -ENOSPC : -EINVAL;
	want.size = ALIGN(want.size, DLEND_SLOT_PAGE);
	if (!is_power_of_2(want.align) || want.phase >= want.align ||
	    want.phase % DLEND_SLOT_PAGE)
		return -EINVAL;
	e = dlend_slots_best_fit(s, &want, &at);
	if (!e)
		return -ENOSPC;
	if (at > e->offset)
		e = dlend_slot_cut(e, at);
	if (!e)
		return -ENOMEM;
	if (want.size < e->size && !dlend_slot_cut(e, at + want.size)) {
		dlend_slot_set_free(s, e);
		return -ENOMEM;
	}
	e->use = DLEND_SLOT_USED;
	e->age = s->age;
	e->kind = want.kind;
	*slot = e;
	return 0;
}

int dlend_slots_free(struct dlend_slots *s, struct dlend_slot *slot)
{
	if (slot->use != DLEND_SLOT_USED)
		return -EINVAL;
	dlend_slot_set_free(s, slot);
	return 0;
}

u64 dlend_slots_quarantine(struct dlend_slots *s, struct dlend_slot *slot)
{
	if (slot->use != DLEND_SLOT_USED)
		return 0;
	s->cookie++;
	if (slot->age == s->age) {
		slot->use = DLEND_SLOT_QUARANTINED;
		slot->cookie = s->cookie;
	} else {
		dlend_slot_set_free(s, slot);
	}
	return s->cookie;
}

int dlend_slots_release(struct dlend_slots *s, u64 cookie)
{
	struct dlend_slot *e;

	list_for_each_entry(e, &s->runs, node) {
		if (e->use == DLEND_SLOT_QUARANTINED && e->cookie == cookie) {
			dlend_slot_set_free(s, e);
			return 0;
		}
	}
	return -ENOENT;
}

void dlend_slots_release_all(struct dlend_slots *s)
{
	struct dlend_slot *e;
	bool again;

	s->age++;
	/* Joining removes neighbours from the list, so the walk begins again after each. */
	do {
		again = false;
		list_for_each_entry(e, &s->runs, node) {
			if (e->use == DLEND_SLOT_QUARANTINED) {
				dlend_slot_set_free(s, e);
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

void dlend_slots_sum(const struct dlend_slots *s, struct dlend_aperture_stat *st)
{
	const struct dlend_slot *e;

	list_for_each_entry(e, &s->runs, node) {
		if (e->use == DLEND_SLOT_FREE) {
			st->free += dlend_slot_usable(s, e);
			st->largest_free = max(st->largest_free, dlend_slot_usable(s, e));
		} else if (e->use == DLEND_SLOT_QUARANTINED) {
			st->quarantined += e->size;
		} else {
			st->slots[e->kind]++;
		}
		if (e->use != DLEND_SLOT_FREE)
			st->bytes[e->kind] += e->size;
	}
}

/* Does a range from @here on fit into @want->in?  @here may have wrapped. */
static bool dlend_span_has_room(const struct dlend_span_want *want, u64 here)
{
	return here >= want->in.first && here <= want->in.last &&
	       want->in.last - here >= want->size - 1;
}

int dlend_span_pick(const struct dlend_span *busy, unsigned int count,
		    const struct dlend_span_want *want, u64 *at)
{
	u64 here = ALIGN(want->in.first, want->align);
	unsigned int i = 0;

	while (i < count && dlend_span_has_room(want, here)) {
		if (busy[i].first > here + (want->size - 1) || busy[i].last < here) {
			i++;
			continue;
		}
		if (busy[i].last >= want->in.last)
			return -ENOSPC;
		here = ALIGN(busy[i].last + 1, want->align);
		i = 0;
	}
	if (!dlend_span_has_room(want, here))
		return -ENOSPC;
	*at = here;
	return 0;
}
