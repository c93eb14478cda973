// SPDX-License-Identifier: GPL-2.0
/*
 * Sets of guest-physical addresses: see ranges.h.
 *
 * Pure logic: must not know locks or KVM.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <dlend/alloc.h>

#include "ranges.h"

void dlend_ranges_clear(struct dlend_ranges *x)
{
	kvfree(x->range);
	memset(x, 0, sizeof(*x));
}

/* Return: number of ranges that end below @gpa: the index of the first one that does not. */
static u32 dlend_ranges_below(const struct dlend_ranges *x, u64 gpa)
{
	u32 lo = 0, hi = x->count;

	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;

		if (x->range[mid].end < gpa)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Room of a set after the first addition; it doubles when it is used up, to DLEND_RANGES_MAX. */
#define DLEND_RANGES_ROOM	8u

int dlend_ranges_add(struct dlend_ranges *x, u64 start, u64 end)
{
	u32 first = dlend_ranges_below(x, start), last = first;
	u32 room = max(2 * x->room, DLEND_RANGES_ROOM);
	struct dlend_range *range;

	if (start >= end)
		return 0;
	/* Merge all ranges that the new one overlaps or touches: @first to @last - 1. */
	for (; last < x->count && x->range[last].start <= end; last++) {
		start = min(start, x->range[last].start);
		end = max(end, x->range[last].end);
	}
	if (first == last && x->count == x->room) {
		range = x->room == DLEND_RANGES_MAX ? NULL :
			kvrealloc(x->range, room * sizeof(*range), GFP_KERNEL_ACCOUNT);
		if (!range)
			return -ENOMEM;
		x->range = range;
		x->room = room;
	}
	memmove(x->range + first + 1, x->range + last, (x->count - last) * sizeof(x->range[0]));
	x->count += 1 - (last - first);
	x->range[first] = (struct dlend_range){ start, end };
	return 0;
}

bool dlend_ranges_next(const struct dlend_ranges *x, u64 gpa, struct dlend_range *range)
{
	u32 i = dlend_ranges_below(x, gpa);

	/* A range that ends at @gpa does not reach above @gpa. */
	if (i < x->count && x->range[i].end == gpa)
		i++;
	if (i == x->count)
		return false;
	*range = x->range[i];
	return true;
}

int dlend_ranges_add_both(struct dlend_ranges *x, const struct dlend_ranges *a,
			  const struct dlend_ranges *b)
{
	struct dlend_range ra, rb;
	u64 pos = 0;
	int err = 0;

	while (!err && dlend_ranges_next(a, pos, &ra) && dlend_ranges_next(b, pos, &rb)) {
		pos = min(ra.end, rb.end);
		err = dlend_ranges_add(x, max(ra.start, rb.start), pos);
	}
	return err;
}

int dlend_ranges_add_without(struct dlend_ranges *x, const struct dlend_ranges *a,
			     const struct dlend_ranges *b)
{
	struct dlend_range ra, rb;
	u64 pos = 0;
	int err = 0;

	while (!err && dlend_ranges_next(a, pos, &ra)) {
		pos = max(pos, ra.start);
		if (!dlend_ranges_next(b, pos, &rb))
			rb = (struct dlend_range){ ra.end, ra.end };
		err = dlend_ranges_add(x, pos, min(rb.start, ra.end));
		pos = rb.start < ra.end ? rb.end : ra.end;
	}
	return err;
}

unsigned int dlend_area_cut(struct dlend_range *area, unsigned int n, u64 start, u64 end)
{
	struct dlend_range old[DLEND_MAX_AREAS];
	unsigned int i, out = 0;

	memcpy(old, area, n * sizeof(*old));
	for (i = 0; i < n; i++) {
		if (start >= end || end <= old[i].start || start >= old[i].end) {
			area[out++] = old[i];
			continue;
		}
		if (old[i].start < start)
			area[out++] = (struct dlend_range){ old[i].start, start };
		if (end < old[i].end)
			area[out++] = (struct dlend_range){ end, old[i].end };
	}
	return out;
}
