/* SPDX-License-Identifier: GPL-2.0 */
/* Parts of a BAR that may be mapped.  Pure logic. */
#ifndef DLEND_MDEV_BAR_AREAS_H
#define DLEND_MDEV_BAR_AREAS_H

#include <dlend/types.h>

#define DLEND_MAX_AREAS	3	/* a BAR without the MSI-X table and without the PBA */

/* From @start up to, not including, @end. */
struct dlend_bar_area {
	u64 start, end;
};

/**
 * dlend_area_cut - take a range out of areas
 * @area: (in, out) in order, not overlapping; room for one more than there are, DLEND_MAX_AREAS in
 *	all
 * @n: (in) how many, at most DLEND_MAX_AREAS - 1
 * @start: (in) first byte of the range
 * @end: (in) first byte behind the range
 *
 * Context: any. Return: how many are left.
 */
unsigned int dlend_area_cut(struct dlend_bar_area *area, unsigned int n, u64 start, u64 end);

#endif
