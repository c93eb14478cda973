// SPDX-License-Identifier: GPL-2.0
/*
 * dma_unmap calls of one VM: see unmaps.h.
 *
 * Pure logic: knows nothing of VFIO, locks or clocks.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include "unmaps.h"

static bool quiet(const struct dlend_unmap *r, u64 now_ms)
{
	return !r->under_way && now_ms > r->ended_ms + DLEND_SETTLE_MS;
}

/* What is counted for exactly that range, or NULL. The last one is for those without room. */
static struct dlend_unmap *find(struct dlend_unmaps *u, u64 gpa, u64 last)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(u->range) - 1; i++)
		if (u->range[i].gpa == gpa && u->range[i].last == last)
			return &u->range[i];
	return NULL;
}

static struct dlend_unmap *room(struct dlend_unmaps *u, u64 now_ms)
{
	struct dlend_unmap *r = u->range;

	while (r < &u->range[ARRAY_SIZE(u->range) - 1] && !quiet(r, now_ms))
		r++;
	if (quiet(r, now_ms))
		*r = (struct dlend_unmap){ .gpa = U64_MAX };
	return r;
}

void dlend_unmaps_begin(struct dlend_unmaps *u, u64 gpa, u64 last, u64 now_ms)
{
	struct dlend_unmap *r = find(u, gpa, last);

	if (!r) {
		r = room(u, now_ms);
		r->gpa = min(r->gpa, gpa);
		r->last = max(r->last, last);
	}
	r->under_way++;
}

void dlend_unmaps_end(struct dlend_unmaps *u, u64 gpa, u64 last, u64 now_ms)
{
	struct dlend_unmap *r = find(u, gpa, last);

	if (!r || !r->under_way)
		r = &u->range[ARRAY_SIZE(u->range) - 1];
	r->under_way--;
	r->ended_ms = now_ms;
}

bool dlend_unmaps_busy(const struct dlend_unmaps *u, u64 gpa, u64 last, u64 now_ms)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(u->range); i++)
		if (!quiet(&u->range[i], now_ms) && gpa <= u->range[i].last &&
		    u->range[i].gpa <= last)
			return true;
	return false;
}
