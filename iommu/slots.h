/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Allocator of offsets in an aperture: best fit with alignment and phase, quarantine.
 * Knows offsets only, not the mappings there.
 */
#ifndef DLEND_IOMMU_SLOTS_H
#define DLEND_IOMMU_SLOTS_H

#include <linux/list.h>
#include <linux/types.h>
#include <dlend/aperture.h>

#define DLEND_SLOT_PAGE		4096ull

/**
 * struct dlend_slots - offsets of an aperture; the caller serialises
 * @runs: struct dlend_slot, in order of offset: all of the aperture, free or not
 * @size: bytes in all
 * @limit: slots are allocated only below this offset
 * @cookie: the last cookie that was given out
 * @age: how often dlend_slots_release_all() was called
 */
struct dlend_slots {
	struct list_head runs;
	u64 size;
	u64 limit;
	u64 cookie;
	u64 age;
};

/**
 * dlend_slots_init - begin with one free run
 * @s: (out) slots
 * @size: (in) bytes, page multiple
 *
 * Context: process, may sleep. Return: 0; -ENOMEM.
 */
int dlend_slots_init(struct dlend_slots *s, u64 size);

/** dlend_slots_exit - free all memory, also of slots in use; fine after an error. Context: any. */
void dlend_slots_exit(struct dlend_slots *s);

/**
 * dlend_slots_limit - allocate only below an offset from now on
 * @s: slots
 * @limit: (in) bytes; rounded down to pages. Slots beyond it stay
 *
 * Context: any.
 */
void dlend_slots_limit(struct dlend_slots *s, u64 limit);

/**
 * struct dlend_slot_want - a slot that is wanted
 * @size: bytes, rounded up to pages
 * @align: power of two, bytes; 0: page
 * @phase: wanted offset modulo @align, page multiple
 * @kind: what it is used for
 */
struct dlend_slot_want {
	u64 size, align, phase;
	enum dlend_slot_kind kind;
};

/**
 * dlend_slots_alloc - allocate from the smallest free run that is large enough
 * @s: slots
 * @want: (in) properties of the slot
 * @slot: (out) the slot
 *
 * Context: process, waits for no I/O. Return: 0; -EINVAL; -ENOSPC; -ENOMEM.
 */
int dlend_slots_alloc(struct dlend_slots *s, struct dlend_slot_want want, struct dlend_slot **slot);

/**
 * dlend_slots_free - free a slot at once
 * @s: slots
 * @slot: slot
 *
 * Context: any. Return: 0; -EINVAL it is not in use (double free), nothing changed.
 */
int dlend_slots_free(struct dlend_slots *s, struct dlend_slot *slot);

/**
 * dlend_slots_quarantine - free a slot, but keep its offsets until dlend_slots_release()
 * @s: slots
 * @slot: slot
 *
 * A slot that was allocated before dlend_slots_release_all() was last called is free at once: the
 * peer has forgotten all offsets of that time.
 * Context: any. Return: cookie > 0 for dlend_slots_release(); 0 if @slot is not in use.
 */
u64 dlend_slots_quarantine(struct dlend_slots *s, struct dlend_slot *slot);

/**
 * dlend_slots_release - end a quarantine
 * @s: slots
 * @cookie: (in) from dlend_slots_quarantine()
 *
 * Context: any. Return: 0; -ENOENT there is no such quarantine (any more).
 */
int dlend_slots_release(struct dlend_slots *s, u64 cookie);

/**
 * dlend_slots_release_all - end all quarantines
 * @s: slots
 *
 * Slots that are in use now will be free at once in dlend_slots_quarantine(). Context: any.
 */
void dlend_slots_release_all(struct dlend_slots *s);

/**
 * dlend_slots_share - a part of all bytes below the limit
 * @s: (in) slots
 * @percent: (in) more than 100 is 100
 *
 * Context: any. Return: bytes, page multiple.
 */
u64 dlend_slots_share(const struct dlend_slots *s, unsigned int percent);

/**
 * dlend_slots_sum - add up bytes by use, and slots by kind
 * @s: (in) slots
 * @st: (in, out) added to: free and largest_free (below the limit), quarantined, bytes, slots
 *
 * Context: any.
 */
void dlend_slots_sum(const struct dlend_slots *s, struct dlend_aperture_stat *st);

/* Span: a range of IOVAs; both ends inclusive. */
struct dlend_span {
	u64 first, last;
};

/**
 * struct dlend_span_want - a free range of IOVAs that is wanted
 * @in: where to look for it
 * @size: bytes
 * @align: power of two, bytes
 */
struct dlend_span_want {
	struct dlend_span in;
	u64 size, align;
};

/**
 * dlend_span_pick - find the lowest range of IOVAs that overlaps none of some spans
 * @busy: (in) spans that may not be used, in any order, may overlap
 * @count: (in) how many
 * @want: (in) properties of the range
 * @at: (out) first address of the range
 *
 * Context: any. Return: 0; -ENOSPC.
 */
int dlend_span_pick(const struct dlend_span *busy, unsigned int count,
		    const struct dlend_span_want *want, u64 *at);

#endif
