// SPDX-License-Identifier: GPL-2.0
/*
 * Allocator of offsets in an aperture.
 *
 * Pure: one list of runs in order of offset, whose memory comes from the caller.  genalloc has
 * no phase and no quarantine; an aperture has some hundred slots at most, so a list is enough.
 */
#include <linux/align.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include "slots.h"

static void dlend_slots_put_spare(struct dlend_slots *s, struct dlend_slot_run *e)
{
	list_add(&e->node, &s->spare);
	s->nr_spare++;
}

static struct dlend_slot_run *dlend_slots_get_spare(struct dlend_slots *s)
{
	struct dlend_slot_run *e = list_first_entry(&s->spare, struct dlend_slot_run, node);

	list_del(&e->node);
	s->nr_spare--;
	return e;
}

void dlend_slots_init(struct dlend_slots *s, u64 size, struct dlend_slot_run *whole)
{
	INIT_LIST_HEAD(&s->runs);
	INIT_LIST_HEAD(&s->spare);
	s->nr_spare = 0;
	s->cookie = 0;
	s->age = 0;
	s->size = size;
	s->limit = size;
	whole->offset = 0;
	whole->size = size;
	whole->use = DLEND_SLOT_RUN_FREE;
	whole->cookie = 0;
	list_add(&whole->node, &s->runs);
}

void dlend_slots_limit(struct dlend_slots *s, u64 limit)
{
	s->limit = ALIGN_DOWN(min(limit, s->size), DLEND_SLOT_PAGE);
}

void dlend_slots_give(struct dlend_slots *s, struct dlend_slot_run *spare)
{
	dlend_slots_put_spare(s, spare);
}

struct dlend_slot_run *dlend_slots_take(struct dlend_slots *s, bool all)
{
	struct dlend_slot_run *e;

	if (!list_empty(&s->spare))
		return dlend_slots_get_spare(s);
	if (!all || list_empty(&s->runs))
		return NULL;
	e = list_first_entry(&s->runs, struct dlend_slot_run, node);
	list_del(&e->node);
	return e;
}

/* How much of @e is below the limit? */
static u64 dlend_slot_run_usable(const struct dlend_slots *s, const struct dlend_slot_run *e)
{
	return e->offset < s->limit ? min(e->size, s->limit - e->offset) : 0;
}

/* First offset of @e with the wanted phase, if @want->size fits there. */
static bool dlend_slot_run_fits(const struct dlend_slots *s, const struct dlend_slot_run *e,
				const struct dlend_slot_want *want, u64 *at)
{
	u64 skip = (want->phase - e->offset) & (want->align - 1);
	u64 room = dlend_slot_run_usable(s, e);

	if (skip > room || room - skip < want->size)
		return false;
	*at = e->offset + skip;
	return true;
}

static struct dlend_slot_run *dlend_slots_best_fit(struct dlend_slots *s,
						   const struct dlend_slot_want *want, u64 *at)
{
	struct dlend_slot_run *e, *best = NULL;
	u64 here;

	list_for_each_entry(e, &s->runs, node) {
		if (e->use != DLEND_SLOT_RUN_FREE || (best && e->size >= best->size))
			continue;
		if (dlend_slot_run_fits(s, e, want, &here)) {
			best = e;
			*at = here;
		}
	}
	return best;
}

/* Cut @e at @at: @e keeps what is below, the new run behind it has the rest. */
static struct dlend_slot_run *dlend_slot_run_cut(struct dlend_slots *s, struct dlend_slot_run *e,
						 u64 at)
{
	struct dlend_slot_run *rest = dlend_slots_get_spare(s);

	rest->offset = at;
	rest->size = e->offset + e->size - at;
	rest->use = DLEND_SLOT_RUN_FREE;
	rest->cookie = 0;
	e->size = at - e->offset;
	list_add(&rest->node, &e->node);
	return rest;
}

int dlend_slots_alloc(struct dlend_slots *s, struct dlend_slot_want want,
		      struct dlend_slot_run **run)
{
	struct dlend_slot_run *e;
	u64 at = 0;

	want.align = max(want.align, DLEND_SLOT_PAGE);
	if (!want.size || want.size > s->size)
		return want.size ? -ENOSPC : -EINVAL;
	want.size = ALIGN(want.size, DLEND_SLOT_PAGE);
	if (!is_power_of_2(want.align) || want.phase >= want.align ||
	    want.phase % DLEND_SLOT_PAGE)
		return -EINVAL;
	if (s->nr_spare < DLEND_SLOTS_SPARE)
		return -ENOMEM;
	e = dlend_slots_best_fit(s, &want, &at);
	if (!e)
		return -ENOSPC;
	if (at > e->offset)
		e = dlend_slot_run_cut(s, e, at);
	if (want.size < e->size)
		dlend_slot_run_cut(s, e, at + want.size);
	e->use = DLEND_SLOT_RUN_USED;
	e->age = s->age;
	e->kind = want.kind;
	*run = e;
	return 0;
}

/* @e swallows the run behind it. */
static void dlend_slot_run_join(struct dlend_slots *s, struct dlend_slot_run *e,
				struct dlend_slot_run *behind)
{
	e->size += behind->size;
	list_del(&behind->node);
	dlend_slots_put_spare(s, behind);
}

static void dlend_slot_run_free(struct dlend_slots *s, struct dlend_slot_run *e)
{
	struct dlend_slot_run *n;

	e->use = DLEND_SLOT_RUN_FREE;
	e->cookie = 0;
	if (!list_is_last(&e->node, &s->runs)) {
		n = list_next_entry(e, node);
		if (n->use == DLEND_SLOT_RUN_FREE)
			dlend_slot_run_join(s, e, n);
	}
	if (!list_is_first(&e->node, &s->runs)) {
		n = list_prev_entry(e, node);
		if (n->use == DLEND_SLOT_RUN_FREE)
			dlend_slot_run_join(s, n, e);
	}
}

int dlend_slots_free(struct dlend_slots *s, struct dlend_slot_run *run)
{
	if (run->use != DLEND_SLOT_RUN_USED)
		return -EINVAL;
	dlend_slot_run_free(s, run);
	return 0;
}

u64 dlend_slots_quarantine(struct dlend_slots *s, struct dlend_slot_run *run)
{
	if (run->use != DLEND_SLOT_RUN_USED)
		return 0;
	s->cookie++;
	if (run->age == s->age) {
		run->use = DLEND_SLOT_RUN_QUARANTINED;
		run->cookie = s->cookie;
	} else {
		dlend_slot_run_free(s, run);
	}
	return s->cookie;
}

int dlend_slots_release(struct dlend_slots *s, u64 cookie)
{
	struct dlend_slot_run *e;

	list_for_each_entry(e, &s->runs, node) {
		if (e->use == DLEND_SLOT_RUN_QUARANTINED && e->cookie == cookie) {
			dlend_slot_run_free(s, e);
			return 0;
		}
	}
	return -ENOENT;
}

void dlend_slots_release_all(struct dlend_slots *s)
{
	struct dlend_slot_run *e;
	bool again;

	s->age++;
	/* Joining takes neighbours out of the list: begin again after each. */
	do {
		again = false;
		list_for_each_entry(e, &s->runs, node) {
			if (e->use == DLEND_SLOT_RUN_QUARANTINED) {
				dlend_slot_run_free(s, e);
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
	const struct dlend_slot_run *e;

	*free = 0;
	*largest = 0;
	*quarantined = 0;
	list_for_each_entry(e, &s->runs, node) {
		if (e->use == DLEND_SLOT_RUN_FREE) {
			*free += dlend_slot_run_usable(s, e);
			*largest = max(*largest, dlend_slot_run_usable(s, e));
		} else if (e->use == DLEND_SLOT_RUN_QUARANTINED) {
			*quarantined += e->size;
		}
	}
}

u64 dlend_slots_bytes(const struct dlend_slots *s, unsigned int kind)
{
	const struct dlend_slot_run *e;
	u64 bytes = 0;

	list_for_each_entry(e, &s->runs, node)
		if (e->use != DLEND_SLOT_RUN_FREE && e->kind == kind)
			bytes += e->size;
	return bytes;
}

/* Does the place fit into @want->in at @here, which may have wrapped? */
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
