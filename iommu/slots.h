/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Allocator of offsets in an aperture: best fit with alignment and phase, quarantine.
 * Knows offsets only; what is mapped there is the aperture's business.
 */
#ifndef DLEND_IOMMU_SLOTS_H
#define DLEND_IOMMU_SLOTS_H

#include <linux/list.h>
#include <linux/types.h>

#define DLEND_SLOT_PAGE		4096ull

enum dlend_extent_use { DLEND_EXTENT_FREE, DLEND_EXTENT_USED, DLEND_EXTENT_QUARANTINED };

/* A run of offsets; all of them together, in order, are the aperture.  Memory is the caller's. */
struct dlend_extent {
	struct list_head node;
	u64 offset;
	u64 size;
	enum dlend_extent_use use;
	u64 cookie;		/* of a quarantine, else 0 */
	u64 age;		/* the allocator's when it was allocated */
	unsigned int kind;	/* the caller's, of what is not free */
};

struct dlend_slots {
	struct list_head extents;
	struct list_head spare;	/* unused struct dlend_extent */
	unsigned int nr_spare;
	u64 size;
	u64 limit;		/* nothing is allocated beyond it */
	u64 cookie;		/* the last one given */
	u64 age;		/* how many times all was released */
};

/* Extents that one allocation may need beside the one it takes. */
#define DLEND_SLOTS_SPARE	2

/** dlend_slots_init - all of @size is free; @whole describes it */
void dlend_slots_init(struct dlend_slots *s, u64 size, struct dlend_extent *whole);

/** dlend_slots_limit - allocate only the first @limit bytes from now on; all at first */
void dlend_slots_limit(struct dlend_slots *s, u64 limit);

/** dlend_slots_give - hand over memory for an extent; allocation needs DLEND_SLOTS_SPARE of them */
void dlend_slots_give(struct dlend_slots *s, struct dlend_extent *spare);

/** dlend_slots_take - memory back: unused extents, with @all those in use too; NULL = no more */
struct dlend_extent *dlend_slots_take(struct dlend_slots *s, bool all);

/**
 * dlend_slots_alloc - best fit: the smallest free run that holds it
 * @size: bytes, rounded up to pages
 * @align: power of two, 0 = page
 * @phase: offset modulo @align, page multiple
 * @kind: for dlend_slots_bytes()
 * @ext: receives the extent
 *
 * Return: 0, -EINVAL, -ENOSPC, -ENOMEM (fewer than DLEND_SLOTS_SPARE spare extents).
 */
int dlend_slots_alloc(struct dlend_slots *s, u64 size, u64 align, u64 phase, unsigned int kind,
		      struct dlend_extent **ext);

/** dlend_slots_free - Return: 0; -EINVAL if @ext is not in use (double free), nothing changed */
int dlend_slots_free(struct dlend_slots *s, struct dlend_extent *ext);

/**
 * dlend_slots_quarantine - not free before dlend_slots_release() or dlend_slots_release_all()
 *
 * What was allocated before all was released last is free at once: those who could have its offset
 * are known to have forgotten it.
 * Return: cookie > 0, or 0 if @ext is not in use.
 */
u64 dlend_slots_quarantine(struct dlend_slots *s, struct dlend_extent *ext);

/** dlend_slots_release - end of a quarantine. Return: 0 or -ENOENT */
int dlend_slots_release(struct dlend_slots *s, u64 cookie);
void dlend_slots_release_all(struct dlend_slots *s);

/** dlend_slots_share - bytes in @percent of what can be allocated at all, in whole pages */
u64 dlend_slots_share(const struct dlend_slots *s, unsigned int percent);

/** dlend_slots_sum - bytes by use, and the largest free run; free only below the limit */
void dlend_slots_sum(const struct dlend_slots *s, u64 *free, u64 *largest, u64 *quarantined);

/** dlend_slots_bytes - of one kind, in use and in quarantine */
u64 dlend_slots_bytes(const struct dlend_slots *s, unsigned int kind);

/* A range that an IOVA may not touch; both ends inclusive. */
struct dlend_range {
	u64 first, last;
};

/**
 * dlend_range_pick - lowest place clear of all ranges
 * @busy, @count: in any order, may overlap
 * @first, @last: bounds, inclusive
 * @size, @align: wanted; @align power of two
 * @at: receives the place
 *
 * Return: 0 or -ENOSPC.
 */
int dlend_range_pick(const struct dlend_range *busy, unsigned int count, u64 first, u64 last,
		     u64 size, u64 align, u64 *at);

#endif
