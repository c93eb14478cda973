// SPDX-License-Identifier: GPL-2.0
/*
 * The dma_unmap calls that are under way in one VM: see unmap_calls.h.
 *
 * Pure logic: must not know VFIO, locks or clocks.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>

#include "unmap_calls.h"

static bool dlend_unmap_call_over(const struct dlend_unmap_call *r, u64 now_ms)
{
	return !r->under_way && now_ms > r->ended_ms + DLEND_SETTLE_MS;
}

/* The shared entry, for calls for which there was no other. */
static struct dlend_unmap_call *dlend_unmap_calls_shared(struct dlend_unmap_calls *u)
{
	return &u->range[ARRAY_SIZE(u->range) - 1];
}

/* The entry of exactly this range, or NULL. */
static struct dlend_unmap_call *dlend_unmap_calls_find(struct dlend_unmap_calls *u, u64 gpa,
						       u64 last)
{
	struct dlend_unmap_call *r;

	for (r = u->range; r < dlend_unmap_calls_shared(u); r++)
		if (r->gpa == gpa && r->last == last)
			return r;
	return NULL;
}

/* An entry that is empty, or the shared one. */
static struct dlend_unmap_call *dlend_unmap_calls_take(struct dlend_unmap_calls *u, u64 now_ms)
{
	struct dlend_unmap_call *r = u->range;

	while (r < dlend_unmap_calls_shared(u) && !dlend_unmap_call_over(r, now_ms))
		r++;
	if (dlend_unmap_call_over(r, now_ms))
		*r = (struct dlend_unmap_call){ .gpa = U64_MAX };
	return r;
}

void dlend_unmap_calls_begin(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms)
{
	struct dlend_unmap_call *r = dlend_unmap_calls_find(u, gpa, last);

	if (!r) {
		r = dlend_unmap_calls_take(u, now_ms);
		r->gpa = min(r->gpa, gpa);
		r->last = max(r->last, last);
	}
	r->under_way++;
}

void dlend_unmap_calls_end(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms)
{
	struct dlend_unmap_call *r = dlend_unmap_calls_find(u, gpa, last);

	if (!r || !r->under_way)
		r = dlend_unmap_calls_shared(u);
	r->under_way--;
	r->ended_ms = now_ms;
}

bool dlend_unmap_calls_busy(const struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(u->range); i++)
		if (!dlend_unmap_call_over(&u->range[i], now_ms) && gpa <= u->range[i].last &&
		    u->range[i].gpa <= last)
			return true;
	return false;
}
