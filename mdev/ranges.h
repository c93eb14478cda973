/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sets of guest-physical addresses, as few ranges as it takes, by address.  Pure logic: no locks,
 * no KVM; what is in them, and who guards them, is the user's.
 */
#ifndef DLEND_MDEV_RANGES_H
#define DLEND_MDEV_RANGES_H

#include <dlend/layout.h>

/**
 * struct dlend_ranges - a set
 * @range: @count of them, apart from each other and by address
 * @room: how many there is memory for
 *
 * All zero is the empty set.
 */
struct dlend_ranges {
	struct dlend_range *range;
	u32 count, room;
};

/** dlend_ranges_clear - the empty set, without memory */
void dlend_ranges_clear(struct dlend_ranges *x);
/** dlend_ranges_add - @start up to @end (exclusive) is in it. Return: 0, -ENOMEM (and as it was) */
int dlend_ranges_add(struct dlend_ranges *x, u64 start, u64 end);
/** dlend_ranges_next - the first that ends above @gpa. Return: false if there is none */
bool dlend_ranges_next(const struct dlend_ranges *x, u64 gpa, struct dlend_range *range);
/**
 * dlend_ranges_add_both - what is in @a and in @b is in @x as well
 *
 * Return: 0; -ENOMEM: some is missing.
 */
int dlend_ranges_add_both(struct dlend_ranges *x, const struct dlend_ranges *a,
			  const struct dlend_ranges *b);
/** dlend_ranges_add_without - what is in @a but not in @b is in @x as well. Return: as above */
int dlend_ranges_add_without(struct dlend_ranges *x, const struct dlend_ranges *a,
			     const struct dlend_ranges *b);

#endif
