/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scan: finds out where a guest has RAM, read-only memory and holes.  VFIO has no call for that,
 * so the scan tries to pin (docs/architecture.md), and what it could pin stays pinned.  A hole is a
 * range in which there is nothing to pin: no RAM, or another device's BAR.
 *
 * A look is a quick search between scans: it tries a few pages in holes, to see whether memory has
 * come there, and leaves nothing pinned.
 *
 * Pure logic: scans and looks pin through a table of operations, and know nothing of VFIO, KVM,
 * IOMMUs, locks or time.
 */
#ifndef DLEND_MDEV_SCAN_H
#define DLEND_MDEV_SCAN_H

#include <linux/sizes.h>
#include "ranges.h"

/**
 * struct dlend_scan_ops - how a scan or a look accesses the guest's memory
 * @pin: pin @npages (1 to DLEND_CHUNK_PAGES) pages from @gpa on for @prot (DLEND_PROT_*), all of
 *	them or none.  With @try find out whether that is possible, and pin nothing.
 *	Return: 0; -EINVAL or -ENOENT: there is a hole in the range; -EFAULT: a page of the range is
 *	mapped by the VMM but cannot be pinned, see @is_ram; -EPERM (only if @prot has
 *	DLEND_PROT_WRITE): a page of the range is read-only; any other error ends the scan.
 * @known: if @gpa is pinned already, by an earlier scan or by this one, return the end (exclusive)
 *	of the pinned run that @gpa is in; else return 0.  @next (out) is the next pinned address
 *	above that run (above @gpa, if @gpa is not pinned), or U64_MAX if there is none.
 * @edge: return where a pin of memory that begins at @gpa must end at the latest; not above @end
 * @is_ram: called after a pin of the page at @gpa, which is not 0, has failed with -EFAULT.
 *	True: the page is RAM; false: it belongs to another device's BAR
 * @stop: return true to end the scan with -EINTR, because the layout has changed or the VM is dying
 *
 * @ctx of each is &dlend_scan.ctx.
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
 * @ops: operations
 * @ctx: passed to @ops
 * @where: ranges to search; NULL: it is not known where RAM may be, so search everywhere
 * @max: end (exclusive) of the guest's physical address space
 * @near: private to the scan, 0 at first: without @where, holes below this address are tried in
 *	small steps
 * @flaps: private to the scan, 0 at first: number of edges that read differently the second time
 */
struct dlend_scan {
	const struct dlend_scan_ops *ops;
	void *ctx;
	const struct dlend_ranges *where;
	u64 max, near;
	unsigned int flaps;
};

/**
 * dlend_scan_excluded - has the administrator excluded some pages of a range?
 * @lowmem: (in) end of the guest's RAM below 4 GiB, in bytes, as the administrator has set it; 0:
 *	not set
 * @gpa: (in) address of the first page
 * @npages: (in) number of pages
 *
 * If so, dlend_scan_ops.pin() has to return -EINVAL, so that the scan takes the pages for a hole.
 *
 * Context: any. Return: true if a page of the range lies between @lowmem and 4 GiB.
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
 * holds an address that is a multiple of 1 MiB (below 1 MiB: of 16 KiB).  Where no ranges are
 * known, memory is found only if it is at most 512 MiB away from other memory, or holds a landmark:
 * 640 KiB, a multiple of 16 KiB from 768 KiB on, of 1 MiB from 1 MiB on, of 128 MiB from 4 GiB on,
 * of 1 GiB from 2 TiB on.
 *
 * The price is pin calls that fail: with ranges, one for each MiB of holes in them and a handful
 * for each edge; without, one for each landmark, and up to 1024 for each edge above 4 GiB.
 *
 * Context: that of the ops. Return: 0; -EINTR: stop() returned true, or the layout changes all the
 * time; -EFAULT: there is RAM that cannot be pinned; or any other error of pin().
 */
int dlend_scan_run(struct dlend_scan *p);

/* The most pages that one look tries; each try is one call of pin(). */
#define DLEND_SCAN_LOOK_CALLS	32u

/**
 * struct dlend_scan_turn - where the next look goes on; all zero at first
 * @edge: address from which the next look tries pages at the beginning of holes
 * @inside: address from which the next look tries pages within holes
 * @tried: how many pages the last look has tried; 0: there are no holes
 */
struct dlend_scan_turn {
	u64 edge, inside;
	u32 tried;
};

/**
 * dlend_scan_look - look whether memory has come where a hole was
 * @p: (in, out) look
 * @turn: (in, out) where to begin; the caller keeps it from one look to the next
 * @found: (out) if 1 is returned: address of a page that is memory now, whether or not it can be
 *	pinned
 *
 * Tries the first page of some holes, as memory usually grows there, and one page at some of the
 * steps within the holes.  Later looks try other holes and steps, until all have had their turn.
 *
 * Context: that of the ops. Return: 1: memory was found; 0: none was found; -EINTR: stop() returned
 * true; or an error of pin().
 */
int dlend_scan_look(struct dlend_scan *p, struct dlend_scan_turn *turn, u64 *found);

#endif
