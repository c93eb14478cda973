/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sets of guest-physical addresses, kept as ranges.
 *
 * Pure logic: no locks, no KVM.  The user of a set knows its meaning and guards it.
 */
#ifndef DLEND_MDEV_RANGES_H
#define DLEND_MDEV_RANGES_H

#include "gpa.h"

/* Most ranges of a set: as many as KVM has memory slots.  A VMM can make any number of holes. */
#define DLEND_RANGES_MAX	32768u

/**
 * struct dlend_ranges - a set; all zero is the empty set
 * @range: @count ranges, by address; no two of them overlap or touch
 * @count: how many
 * @room: for how many there is memory
 */
struct dlend_ranges {
	struct dlend_range *range;
	u32 count, room;
};

/** dlend_ranges_clear - make @x the empty set, and free its memory. Context: may sleep. */
void dlend_ranges_clear(struct dlend_ranges *x);

/**
 * dlend_ranges_add - put a range into the set
 * @x: (in, out) set
 * @start: (in) first address
 * @end: (in) first address behind the range; not above @start: nothing is added
 *
 * Context: may sleep. Return: 0; -ENOMEM no memory, or DLEND_RANGES_MAX ranges already, and the set
 * is as it was.
 */
int dlend_ranges_add(struct dlend_ranges *x, u64 start, u64 end);

/**
 * dlend_ranges_next - the first range that ends above an address
 * @x: (in) set
 * @gpa: (in) address
 * @range: (out) range; unchanged if there is none
 *
 * Context: any. Return: false if there is none.
 */
bool dlend_ranges_next(const struct dlend_ranges *x, u64 gpa, struct dlend_range *range);

/**
 * dlend_ranges_add_both - add all that is in both of two sets
 * @x: (in, out) set; neither @a nor @b
 * @a: (in) set
 * @b: (in) set
 *
 * Context: may sleep. Return: 0; -ENOMEM: a part of it is missing in @x.
 */
int dlend_ranges_add_both(struct dlend_ranges *x, const struct dlend_ranges *a,
			  const struct dlend_ranges *b);

/**
 * dlend_ranges_add_without - add all that is in one set and not in another
 * @x: (in, out) set; neither @a nor @b
 * @a: (in) set
 * @b: (in) set to leave out
 *
 * Context: may sleep. Return: 0; -ENOMEM: a part of it is missing in @x.
 */
int dlend_ranges_add_without(struct dlend_ranges *x, const struct dlend_ranges *a,
			     const struct dlend_ranges *b);

#endif
