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
 * struct dlend_range - guest-physical addresses
 * @start: the first
 * @end: the first that is not of it
 */
struct dlend_range {
	u64 start, end;
};

/**
 * struct dlend_layout_ops - the world, as the prober sees it
 * @pin: pin @npages (1..512) guest pages from @gpa, all or nothing. 0; -EINVAL/-ENOENT hole
 *	 somewhere in it; -EFAULT something that is mapped and cannot be pinned (see @is_ram);
 *	 -EPERM read-only somewhere in it (only with DLEND_PROT_WRITE in @prot); anything else
 *	 aborts the probe.
 * @unpin: undo exactly one successful @pin (same @gpa and @npages)
 * @known: is @gpa pinned already from an earlier probe? Then the end (exclusive) of that known
 *	   run, else 0.  @next (not NULL): the next known address above @gpa, U64_MAX if none.
 * @range: the first range that ends above @gpa of those in which RAM may be, by address; false:
 *	   there is none.  NULL: nobody knows, RAM may be anywhere.
 * @is_ram: is @gpa, at which a pin faulted, RAM, and not another device's BAR?  NULL: only 0 is.
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
	bool (*range)(void *ctx, u64 gpa, struct dlend_range *range);
	bool (*is_ram)(void *ctx, u64 gpa);
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
 * @keep_on_stop.
 *
 * Found is memory that begins where a range does, right after other memory, or holds an address
 * that 1 MiB divides.  Without ranges (@range is NULL) only if it is not more than 512 MiB away
 * from other memory, or holds a landmark: 1 MiB divides it below 4 GiB, 128 MiB below 2 TiB, 1 GiB
 * above.  Calls that fail: with ranges, one for each MiB of holes in them and a handful for each
 * edge; without, one for each landmark, and up to 1024 for each edge above 4 GiB.
 * Return: 0, -EINTR (stopped, or the layout changes under the probe),
 * or the aborting error (-ENOMEM memlock, -EFAULT RAM that cannot be pinned, -EBUSY, ...).
 */
int dlend_layout_probe(const struct dlend_layout_ops *ops, void *ctx, u64 max_gpa);

/* Pin calls of one dlend_layout_look(), at most. */
#define DLEND_LOOK_CALLS	32u

/**
 * struct dlend_layout_look - where the next one goes on; all zero at first
 * @edge: among the beginnings of holes
 * @inside: within them
 */
struct dlend_layout_look {
	u64 edge, inside;
};

/**
 * dlend_layout_look - has memory come, where a hole was?
 * @ops, @ctx, @max_gpa: as for dlend_layout_probe()
 * @look: kept from one call to the next
 * @found: receives the address of a page that is memory now
 *
 * Tries one page each at the beginnings of holes, where memory grows, and a part of the steps
 * within them; what is not tried now is later, in turn.  Without holes there is nothing to try.
 * Return: 1 (@found), 0 nothing was found, -EINTR, or an error of @pin.
 */
int dlend_layout_look(const struct dlend_layout_ops *ops, void *ctx, u64 max_gpa,
		      struct dlend_layout_look *look, u64 *found);

#endif
