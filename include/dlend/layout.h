/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prober of a guest's memory layout: pure logic that pins through an ops table and finds out
 * where RAM, read-only memory and holes are (docs/architecture.md).
 */
#ifndef DLEND_LAYOUT_H
#define DLEND_LAYOUT_H

#include <dlend/types.h>

#define DLEND_CHUNK_PAGES	512u	/* most that one pin call takes */

/**
 * struct dlend_layout_ops - the world, as the prober sees it
 * @pin: pin @npages (1..512) guest pages from @gpa, all or nothing. 0; -EINVAL/-ENOENT hole
 *	 somewhere in it; -EFAULT something that is no memory (a BAR: a hole, unless it is at 0);
 *	 -EPERM read-only somewhere in it (only with DLEND_PROT_WRITE in @prot); anything else
 *	 aborts the probe.
 * @unpin: undo exactly one successful @pin (same @gpa and @npages)
 * @known: is @gpa pinned already from an earlier probe? Then the end (exclusive) of that known
 *	   run, else 0.  @next (not NULL): the next known address above @gpa, U64_MAX if none.
 * @stop: true: give up with -EINTR (layout changed meanwhile, VM is dying)
 * @keep_on_stop: what is pinned when @stop says so stays pinned (and is @known next time), so that
 *		  a change in one place does not cost the pins of all others
 *
 * @pin and @unpin are also called in pairs, one page for a look or more, to test without keeping.
 */
struct dlend_layout_ops {
	int (*pin)(void *ctx, u64 gpa, u32 npages, u32 prot);
	void (*unpin)(void *ctx, u64 gpa, u32 npages);
	u64 (*known)(void *ctx, u64 gpa, u64 *next);
	bool (*stop)(void *ctx);
	bool keep_on_stop;
};

/**
 * dlend_layout_excluded - is some of this where the admin says that no RAM is?
 * @lowmem: end of the guest's RAM below 4 GiB, 0 = not said
 * @gpa, @npages: what is to be pinned
 *
 * For an op @pin to answer with -EINVAL: then the prober finds the edge by itself.
 */
static inline bool dlend_layout_excluded(u64 lowmem, u64 gpa, u32 npages)
{
	return lowmem && gpa < (1ULL << 32) && gpa + npages * 4096ULL > lowmem;
}

/**
 * dlend_layout_probe - pin all RAM there is (that is not known already)
 * @ops, @ctx: the world
 * @max_gpa: end of the guest's physical address space (exclusive)
 *
 * Writable memory is pinned DLEND_PROT_READ | DLEND_PROT_WRITE, read-only memory
 * DLEND_PROT_READ. On an abort everything that THIS call pinned is unpinned again, but see
 * @keep_on_stop. Found is memory that reaches a landmark or begins right after other memory; the
 * number of calls that fail is bounded by the landmarks and the edges.
 * Return: 0, -EINTR (stopped, or the layout changes under the probe),
 * or the aborting error (-ENOMEM memlock, -EFAULT what is at 0, -EBUSY, ...).
 */
int dlend_layout_probe(const struct dlend_layout_ops *ops, void *ctx, u64 max_gpa);

#endif
