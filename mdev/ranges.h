/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest-physical addresses (GPA): their units, and sets of them, kept as ranges.
 *
 * Pure logic: no locks, no KVM.  The caller serialises all calls about one set.
 */
#ifndef DLEND_MDEV_RANGES_H
#define DLEND_MDEV_RANGES_H

#include <dlend/types.h>

#define DLEND_GUEST_PAGE	4096ULL

/* The most pages of a chunk: as many as one large page of an IOMMU has (2 MiB). */
#define DLEND_CHUNK_PAGES	512u
#define DLEND_CHUNK_BYTES	(DLEND_CHUNK_PAGES * DLEND_GUEST_PAGE)

/**
 * struct dlend_range - a range of guest-physical addresses
 * @start: first address
 * @end: first address behind the range
 */
struct dlend_range {
	u64 start, end;
};

/** dlend_gpa_end - first address behind @npages pages from @gpa on. Context: any. */
static inline u64 dlend_gpa_end(u64 gpa, u32 npages)
{
	return gpa + npages * DLEND_GUEST_PAGE;
}

/** dlend_gpa_last - last address of @npages pages from @gpa on. Context: any. */
static inline u64 dlend_gpa_last(u64 gpa, u32 npages)
{
	return dlend_gpa_end(gpa, npages) - 1;
}

/* Most ranges of a set: as many as KVM has memory slots.  A VMM can make any number of holes. */
#define DLEND_RANGES_MAX	32768u

/**
 * struct dlend_ranges - a set of ranges; all zero is the empty set
 * @all: for the caller, who may set it to mean "all addresses".  The functions below ignore it; but
 *	dlend_ranges_clear() clears it
 * @range: array of @count ranges, by address; no two of them overlap or touch
 * @count: number of ranges
 * @room: number of ranges for which @range has memory
 */
struct dlend_ranges {
	bool all;
	struct dlend_range *range;
	u32 count, room;
};

/** dlend_ranges_clear - make @x the empty set, and free its memory. Context: may sleep. */
void dlend_ranges_clear(struct dlend_ranges *x);

/**
 * dlend_ranges_add - add a range to the set
 * @x: (in, out) set
 * @start: (in) first address
 * @end: (in) first address behind the range; if it is not above @start, nothing is added
 *
 * Context: may sleep. Return: 0; -ENOMEM no memory, or DLEND_RANGES_MAX ranges already: the set is
 * unchanged.
 */
int dlend_ranges_add(struct dlend_ranges *x, u64 start, u64 end);

/**
 * dlend_ranges_next - find the first range that ends above an address
 * @x: (in) set
 * @gpa: (in) address
 * @range: (out) range; unchanged if there is none
 *
 * Context: any. Return: false if there is none.
 */
bool dlend_ranges_next(const struct dlend_ranges *x, u64 gpa, struct dlend_range *range);

/**
 * dlend_ranges_add_both - add the intersection of two sets to a third one
 * @x: (in, out) set; neither @a nor @b
 * @a: (in) set
 * @b: (in) set
 *
 * Context: may sleep. Return: 0; -ENOMEM: a part of the intersection was not added.
 */
int dlend_ranges_add_both(struct dlend_ranges *x, const struct dlend_ranges *a,
			  const struct dlend_ranges *b);

/**
 * dlend_ranges_add_without - add all that is in one set and not in another to a third one
 * @x: (in, out) set; neither @a nor @b
 * @a: (in) set
 * @b: (in) set to leave out
 *
 * Context: may sleep. Return: 0; -ENOMEM: a part of the difference was not added.
 */
int dlend_ranges_add_without(struct dlend_ranges *x, const struct dlend_ranges *a,
			     const struct dlend_ranges *b);

/* The most parts of a BAR that are left without its MSI-X table and its PBA */
#define DLEND_MAX_AREAS	3

/**
 * dlend_area_cut - take a range out of the parts of a BAR that may be mapped
 * @area: (in, out) parts in order, not overlapping: an array of DLEND_MAX_AREAS
 * @n: (in) number of parts.  The caller guarantees that it is at most DLEND_MAX_AREAS - 1
 * @start: (in) offset of the first byte of the range
 * @end: (in) offset of the first byte behind the range
 *
 * Context: any. Return: number of parts that are left; one more than @n if a part was cut in two.
 */
unsigned int dlend_area_cut(struct dlend_range *area, unsigned int n, u64 start, u64 end);

#endif
