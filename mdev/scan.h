/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scan: finds out where a guest has RAM, read-only memory and holes.  VFIO has no call for that,
 * so the scan tries to pin (docs/architecture.md).
 *
 * Pure logic: it pins through a table of operations, and knows nothing of VFIO, KVM, IOMMUs, locks
 * or time.
 */
#ifndef DLEND_MDEV_SCAN_H
#define DLEND_MDEV_SCAN_H

#include <linux/sizes.h>
#include "ranges.h"

/**
 * struct dlend_scan_ops - the guest, as the scan sees it
 * @pin: pin @npages (1 to DLEND_CHUNK_PAGES) pages from @gpa on, all of them or none.  With @try
 *	nothing is pinned when it returns.
 *	Return: 0; -EINVAL or -ENOENT: there is a hole in it; -EFAULT: something in it is mapped but
 *	cannot be pinned, see @is_ram; -EPERM (only if @prot has DLEND_PROT_WRITE): something in it
 *	is read-only; any other error ends the scan.
 * @known: is @gpa pinned already, by an earlier scan?  Then return the end (exclusive) of the
 *	pinned run that @gpa is in; else 0.  @next (out) is the next pinned address above @gpa, or
 *	U64_MAX if there is none.
 * @edge: where a pin of memory from @gpa on must end at the latest: not above @end
 * @is_ram: a pin at @gpa, which is not 0, failed with -EFAULT: is RAM there (true) or another
 *	device's BAR (false)?
 * @stop: true: the scan is to end with -EINTR, because the layout has changed or the VM is dying
 */
struct dlend_scan_ops {
	int (*pin)(void *ctx, u64 gpa, u32 npages, u32 prot, bool try);
	u64 (*known)(void *ctx, u64 gpa, u64 *next);
	u64 (*edge)(void *ctx, u64 gpa, u64 end);
	bool (*is_ram)(void *ctx, u64 gpa);
	bool (*stop)(void *ctx);
};

/**
 * struct dlend_scan - one scan, or one look
 * @ops: the guest
 * @ctx: for @ops
 * @where: ranges in which all RAM is; NULL: they are not known, and RAM may be anywhere
 * @max: end (exclusive) of the guest's physical address space
 * @near: the scan's own, 0 at first: without ranges holes are tried in small steps below this
 * @flaps: the scan's own, 0 at first: how many edges read differently the second time
 */
struct dlend_scan {
	const struct dlend_scan_ops *ops;
	void *ctx;
	const struct dlend_ranges *where;
	u64 max, near;
	unsigned int flaps;
};

/**
 * dlend_scan_excluded - has the administrator excluded some pages?
 * @lowmem: (in) end of the guest's RAM below 4 GiB, in bytes, as the administrator has set it; 0:
 *	not set
 * @gpa: (in) address of the first page
 * @npages: (in) number of pages
 *
 * An operation @pin returns -EINVAL then, so that the scan takes them for a hole.
 *
 * Context: any. Return: true if some of it lies between @lowmem and 4 GiB.
 */
static inline bool dlend_scan_excluded(u64 lowmem, u64 gpa, u32 npages)
{
	return lowmem && gpa < SZ_4G && dlend_gpa_end(gpa, npages) > lowmem;
}

/**
 * dlend_scan_run - pin all RAM that is not pinned already
 * @p: (in, out) scan
 *
 * Writable memory is pinned with DLEND_PROT_READ | DLEND_PROT_WRITE, read-only memory with
 * DLEND_PROT_READ.  After an error the pages that were pinned stay pinned: another scan goes on
 * from there, or the caller unpins them.
 *
 * The scan finds memory that begins where a range begins, or right behind other memory, or that
 * holds an address that is a multiple of 1 MiB.  Where no ranges are known, memory is
 * found only if it is at most 512 MiB away from other memory, or holds a landmark: a multiple of
 * 1 MiB below 4 GiB, of 128 MiB below 2 TiB, of 1 GiB above.
 *
 * The price is pin calls that fail: with ranges, one for each MiB of holes in them and a handful
 * for each edge; without, one for each landmark, and up to 1024 for each edge above 4 GiB.
 *
 * Context: as @ops. Return: 0; -EINTR stopped, or the layout changes all the time; -EFAULT there is
 * RAM that cannot be pinned; -ENOMEM, or any other error of @pin.
 */
int dlend_scan_run(struct dlend_scan *p);

/* The most pages that one look tries; each try is one pin call. */
#define DLEND_SCAN_LOOK_CALLS	32u

/**
 * struct dlend_scan_turn - where the next look goes on; all zero at first
 * @edge: among the beginnings of holes
 * @inside: within the holes
 * @tried: how many pages the last look has tried; 0: there are no holes
 */
struct dlend_scan_turn {
	u64 edge, inside;
	u32 tried;
};

/**
 * dlend_scan_look - has memory come where a hole was?
 * @p: (in, out) look
 * @turn: (in, out) kept from one look to the next
 * @found: (out) address of a page that is memory now, whether or not it can be pinned
 *
 * Tries one page at the beginning of some holes, which is where memory grows, and one page at some
 * of the steps within the holes.  Later looks try the others, in turn.  Nothing stays pinned.
 *
 * Context: as @ops. Return: 1 found; 0 nothing was found; -EINTR stopped; or an error of @pin.
 */
int dlend_scan_look(struct dlend_scan *p, struct dlend_scan_turn *turn, u64 *found);

#endif
