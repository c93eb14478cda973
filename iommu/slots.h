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

enum dlend_slot_run_use {
	DLEND_SLOT_RUN_FREE,
	DLEND_SLOT_RUN_USED,
	DLEND_SLOT_RUN_QUARANTINED,
};

/**
 * struct dlend_slot_run - a run of offsets; all runs together, in order, are the aperture
 * @node: in dlend_slots.runs, or among the spare ones
 * @offset: first byte
 * @size: bytes
 * @use: free, used or in quarantine
 * @cookie: of a quarantine, else 0
 * @age: dlend_slots.age when it was allocated
 * @kind: the caller's; of a run that is not free
 *
 * Its memory is the caller's.
 */
struct dlend_slot_run {
	struct list_head node;
	u64 offset;
	u64 size;
	enum dlend_slot_run_use use;
	u64 cookie;
	u64 age;
	unsigned int kind;
};

/**
 * struct dlend_slots - offsets of an aperture; the caller serialises
 * @runs: all runs, in order
 * @spare: unused struct dlend_slot_run
 * @nr_spare: how many
 * @size: bytes in all
 * @limit: nothing is allocated from this offset on
 * @cookie: the last one given out
 * @age: how often dlend_slots_release_all() was called
 */
struct dlend_slots {
	struct list_head runs;
	struct list_head spare;
	unsigned int nr_spare;
	u64 size;
	u64 limit;
	u64 cookie;
	u64 age;
};

/* Spare runs that one allocation may need beside the run that it takes. */
#define DLEND_SLOTS_SPARE	2

/**
 * dlend_slots_init - everything is free
 * @s: (out) slots
 * @size: (in) bytes, page multiple
 * @whole: (in) memory for the one run that there is
 *
 * Context: any.
 */
void dlend_slots_init(struct dlend_slots *s, u64 size, struct dlend_slot_run *whole);

/**
 * dlend_slots_limit - allocate only below an offset from now on
 * @s: slots
 * @limit: (in) bytes; rounded down to pages. What is allocated beyond it stays
 *
 * Context: any.
 */
void dlend_slots_limit(struct dlend_slots *s, u64 limit);

/**
 * dlend_slots_give - hand over memory for a run
 * @s: slots; allocation needs DLEND_SLOTS_SPARE spare runs
 * @spare: memory
 *
 * Context: any.
 */
void dlend_slots_give(struct dlend_slots *s, struct dlend_slot_run *spare);

/**
 * dlend_slots_take - take memory back, one run at each call
 * @s: slots
 * @all: (in) true: also runs that are not spare; the slots cannot be used any more then
 *
 * Context: any. Return: memory, or NULL: there is no more.
 */
struct dlend_slot_run *dlend_slots_take(struct dlend_slots *s, bool all);

/**
 * struct dlend_slot_want - a run that is wanted
 * @size: bytes, rounded up to pages
 * @align: power of two, bytes; 0: page
 * @phase: wanted offset modulo @align, page multiple
 * @kind: for dlend_slots_bytes()
 */
struct dlend_slot_want {
	u64 size, align, phase;
	unsigned int kind;
};

/**
 * dlend_slots_alloc - allocate from the smallest free run that is large enough
 * @s: slots
 * @want: (in) properties of the run
 * @run: (out) the run
 *
 * Context: any.
 * Return: 0; -EINVAL; -ENOSPC; -ENOMEM fewer than DLEND_SLOTS_SPARE spare runs.
 */
int dlend_slots_alloc(struct dlend_slots *s, struct dlend_slot_want want,
		      struct dlend_slot_run **run);

/**
 * dlend_slots_free - free a run at once
 * @s: slots
 * @run: run
 *
 * Context: any. Return: 0; -EINVAL it is not in use (double free), nothing changed.
 */
int dlend_slots_free(struct dlend_slots *s, struct dlend_slot_run *run);

/**
 * dlend_slots_quarantine - free a run, but not before its release
 * @s: slots
 * @run: run
 *
 * A run that was allocated before dlend_slots_release_all() was last called is free at once: the
 * peer has forgotten all offsets of that time.
 * Context: any. Return: cookie > 0 for dlend_slots_release(); 0 if @run is not in use.
 */
u64 dlend_slots_quarantine(struct dlend_slots *s, struct dlend_slot_run *run);

/**
 * dlend_slots_release - end a quarantine
 * @s: slots
 * @cookie: (in) of the quarantine
 *
 * Context: any. Return: 0; -ENOENT there is none (any more).
 */
int dlend_slots_release(struct dlend_slots *s, u64 cookie);

/** dlend_slots_release_all - end all quarantines. Context: any. */
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
 * dlend_slots_sum - bytes by use
 * @s: (in) slots
 * @free: (out) free bytes below the limit
 * @largest: (out) the largest free run below the limit, bytes
 * @quarantined: (out) bytes in quarantine
 *
 * Context: any.
 */
void dlend_slots_sum(const struct dlend_slots *s, u64 *free, u64 *largest, u64 *quarantined);

/**
 * dlend_slots_bytes - bytes of one kind, in use and in quarantine
 * @s: (in) slots
 * @kind: (in) as in struct dlend_slot_want
 *
 * Context: any. Return: bytes.
 */
u64 dlend_slots_bytes(const struct dlend_slots *s, unsigned int kind);

/* A range of IO addresses; both ends inclusive. */
struct dlend_span {
	u64 first, last;
};

/**
 * struct dlend_span_want - a place that is wanted
 * @in: where to look for it
 * @size: bytes
 * @align: power of two, bytes
 */
struct dlend_span_want {
	struct dlend_span in;
	u64 size, align;
};

/**
 * dlend_span_pick - find the lowest place that is clear of all spans
 * @busy: (in) spans that may not be used, in any order, may overlap
 * @count: (in) how many
 * @want: (in) properties of the place
 * @at: (out) first address of the place
 *
 * Context: any. Return: 0; -ENOSPC.
 */
int dlend_span_pick(const struct dlend_span *busy, unsigned int count,
		    const struct dlend_span_want *want, u64 *at);

#endif
