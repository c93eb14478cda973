/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of the mappings in one IOMMU domain, with their page sizes; and notifiers, whose ops are
 * called for mappings and unmappings in a part of an aperture.
 *
 * The IOMMU API does not say which page sizes it has used, and cannot split a large page.  To unmap
 * a part of a large page, all of the page is unmapped and its rest is mapped again; a device that
 * accesses the rest in between gets a fault.  So memory that may be unmapped separately must share
 * no page with other memory.
 *
 * A peer reaches an aperture through the IOMMU of the NTB, which blocks accesses to unmapped
 * memory.  On the loop there is no IOMMU in between.  So code that reaches a part directly has a
 * notifier of that part, whose unmap() stops these accesses before the unmapping call returns.  The
 * pages of a raw slot are not in these records: its notifier's unmap() unmaps them (raw_slot.c).
 *
 * The caller serialises.
 */
#ifndef DLEND_IOMMU_MAPS_H
#define DLEND_IOMMU_MAPS_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>
#include <linux/xarray.h>
#include <dlend/aperture.h>

struct seq_file;
struct dlend_paging;

/**
 * struct dlend_page_run - a range that was mapped contiguously, in pieces of dlend_piece_last()
 * @first: first IOVA
 * @last: last IOVA, inclusive
 * @phys: physical address that @first is mapped to
 * @sizes: a bit for each page size of the IOMMU, 4 KiB at least
 * @cap: size of the largest page that was allowed, a power of two; 0: any
 */
struct dlend_page_run {
	u64 first, last, phys, sizes, cap;
};

/**
 * dlend_page_at - size of the page that covers an address of a run
 * @r: (in) the run
 * @iova: (in) the address
 *
 * Context: any. Return: bytes.
 */
u64 dlend_page_at(const struct dlend_page_run *r, u64 iova);

/**
 * dlend_piece_last - how much one iommu_map() may map
 * @at: (in) from this address on
 * @last: (in) last address of the run, inclusive
 * @sizes: (in) as in struct dlend_page_run
 * @cap: (in) as in struct dlend_page_run
 *
 * The piece is shorter than any page larger than @cap, and does not end inside a page of @cap or
 * less.
 * Context: any. Return: last address of the piece, inclusive.
 */
u64 dlend_piece_last(u64 at, u64 last, u64 sizes, u64 cap);

/**
 * dlend_pages_count - all pages of a run
 * @r: (in) the run
 *
 * Takes the same time however long the run is.
 * Context: any. Return: pages by size.
 */
struct dlend_map_pages dlend_pages_count(const struct dlend_page_run *r);

/**
 * struct dlend_maps - mappings that these functions have made in a domain; the caller serialises
 * @pg: domain, the caller's; NULL: there is no IOMMU (the loop), and mappings are only recorded
 * @runs: the mappings
 * @pages: pages of the domain, by size
 * @bytes: bytes that are mapped
 * @nr: how many runs
 * @scattered: without a domain: the target of each page of runs that are not contiguous in physical
 *	memory (struct dlend_run)
 * @nr_pages: number of pages in @scattered
 */
struct dlend_maps {
	struct dlend_paging *pg;
	struct rb_root_cached runs;
	struct dlend_map_pages pages;
	u64 bytes;
	unsigned int nr;
	struct xarray scattered;
	u64 nr_pages;
};

/**
 * dlend_maps_init - begin records, with nothing mapped
 * @m: (out) mappings; when all are unmapped, nothing is left to be freed
 * @pg: (in) domain, or NULL
 *
 * Context: any.
 */
void dlend_maps_init(struct dlend_maps *m, struct dlend_paging *pg);

/**
 * dlend_maps_add - map a physically contiguous run
 * @m: mappings
 * @piece: (in) its offset is an IOVA. Its cap is the size of the largest IOMMU page to use, 0: any.
 *	dlend_maps_del() of a part whose edges are multiples of the cap does not unmap anything else
 *
 * Context: process, may sleep.
 * Return: 0; -EEXIST overlap with a live mapping; -EINVAL alignment; -ERANGE outside the domain's
 * geometry; -EOPNOTSUPP this IOMMU driver cannot map MMIO here; -ENOMEM; or the IOMMU's error.
 */
int dlend_maps_add(struct dlend_maps *m, const struct dlend_piece *piece);

/**
 * dlend_maps_del - unmap a range, and flush the IOTLB
 * @m: mappings
 * @iova: (in) first address, page aligned; holes in the range are fine
 * @size: (in) bytes, page multiple
 *
 * A large page that straddles an edge is unmapped, and its part outside of the range is mapped
 * again by smaller pages: for a moment no device reaches it. A cap in dlend_maps_add() avoids this.
 * Context: process, may sleep. Return: bytes unmapped.
 */
u64 dlend_maps_del(struct dlend_maps *m, u64 iova, u64 size);

/**
 * dlend_maps_check - could this be mapped, as far as addresses go?
 * @m: (in) mappings
 * @iova: (in) IOVA
 * @phys: (in) physical address
 * @size: (in) bytes
 * @prot: (in) DLEND_PROT_*
 *
 * Context: any. Return: 0; -EINVAL alignment, size or @prot; -ERANGE outside the geometry.
 */
int dlend_maps_check(const struct dlend_maps *m, u64 iova, phys_addr_t phys, u64 size, u32 prot);

/**
 * dlend_maps_busy - is any of a range mapped?
 * @m: (in) mappings
 * @iova: (in) first address
 * @size: (in) bytes
 *
 * Context: any.
 */
bool dlend_maps_busy(struct dlend_maps *m, u64 iova, u64 size);

/**
 * dlend_maps_next - the first mapped piece in a range
 * @m: (in) mappings
 * @iova: (in) first address
 * @last: (in) last address, inclusive
 * @piece: (out) the piece; its offset is an IOVA
 *
 * Context: any. Return: true; false: nothing is mapped in the range.
 */
bool dlend_maps_next(struct dlend_maps *m, u64 iova, u64 last, struct dlend_piece *piece);

/**
 * dlend_maps_table_bytes - how much memory the records take, without page tables
 * @m: (in) mappings
 *
 * Context: any. Return: bytes.
 */
u64 dlend_maps_table_bytes(const struct dlend_maps *m);

/** dlend_maps_show - counters, for debugfs. Context: process. */
void dlend_maps_show(struct dlend_maps *m, struct seq_file *f);

/**
 * dlend_notifiers_map - call map() of the notifiers whose parts a new mapping overlaps
 * @notifiers: (in) list of struct dlend_notifier
 * @piece: (in) the new mapping, with its offset in the aperture
 *
 * Context: process, may sleep; the caller serialises.
 * Return: 0; or the error of a notifier's map(): then unmap() of those before it was called.
 */
int dlend_notifiers_map(struct list_head *notifiers, const struct dlend_piece *piece);

/**
 * dlend_notifiers_unmap - call unmap() of the notifiers whose parts a range overlaps
 * @notifiers: (in) list of struct dlend_notifier
 * @offset: (in) in the aperture, bytes
 * @size: (in) bytes
 *
 * The range is not reached through any notifier when this returns.
 * Context: process, may sleep; the caller serialises.
 */
void dlend_notifiers_unmap(struct list_head *notifiers, u64 offset, u64 size);

/**
 * dlend_notifier_shrink - cut some bytes off the end of a notifier's part
 * @notifier: notifier
 * @share: (in) bytes to cut off, at most
 *
 * Calls unmap() for these bytes first, and no op is called for them after that.  So when they are
 * unmapped in the aperture, either unmap() is called for them, or the notifier's user does not
 * reach them any more.
 * Context: process, may sleep; the caller serialises. Return: true: some of the part is left.
 */
bool dlend_notifier_shrink(struct dlend_notifier *notifier, u64 share);

/**
 * dlend_piece_clip - the part of a piece that lies in a range
 * @piece: (in) piece
 * @offset: (in) beginning of the range, in the aperture, bytes
 * @size: (in) bytes of the range
 * @out: (out) that part; not written if there is none
 *
 * Context: any. Return: true; false: no byte of the piece is in the range.
 */
bool dlend_piece_clip(const struct dlend_piece *piece, u64 offset, u64 size,
		      struct dlend_piece *out);

#endif
