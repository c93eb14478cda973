// SPDX-License-Identifier: GPL-2.0
/*
 * dma_unmap calls of one VM: see unmaps.h.
 *
 * Pure logic: knows nothing of VFIO, locks or clocks.
 */
#include <linux/kernel.h>
#include <linux/minmax.h>
#include "unmaps.h"

static bool quiet(const struct dlend_unmaps *u, u64 now_ms)
{
	return !u->under_way && now_ms > u->ended_ms + DLEND_SETTLE_MS;
}

void dlend_unmaps_begin(struct dlend_unmaps *u, u64 gpa, u64 last, u64 now_ms)
{
	if (quiet(u, now_ms)) {
		u->gpa = gpa;
		u->last = last;
	}
	u->gpa = min(u->gpa, gpa);
	u->last = max(u->last, last);
	u->under_way++;
}

void dlend_unmaps_end(struct dlend_unmaps *u, u64 now_ms)
{
	u->under_way--;
	u->ended_ms = now_ms;
}

bool dlend_unmaps_busy(const struct dlend_unmaps *u, u64 gpa, u64 last, u64 now_ms)
{
	return !quiet(u, now_ms) && gpa <= u->last && u->gpa <= last;
}
