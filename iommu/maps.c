// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of one IOMMU domain: map, unmap with splitting, count pages by size; and notifiers of an
 * aperture.
 *
 * Pure: it knows numbers, and the domain behind the functions of paging.h; neither slots nor guests
 * nor links. This file relies on the rule by which iommu_map() chooses pages: one after the other,
 * the largest size that both addresses are aligned to and that still fits.
 */
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/interval_tree_generic.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>
#include <dlend/alloc.h>
#include <dlend/aperture.h>
#include <dlend/types.h>
#include "maps.h"
#include "paging.h"

/* Pages */

#define DLEND_PAGE_SMALLEST	4096ull

u64 dlend_page_at(const struct dlend_page_run *r, u64 iova)
{
	u64 size, base;

	for (size = BIT_ULL(63); size > DLEND_PAGE_SMALLEST; size >>= 1) {
		if (!(r->sizes & size) || (r->cap && size > r->cap))
			continue;
		base = iova & ~(size - 1);
		if (base >= r->first && r->last - base >= size - 1 &&
		    IS_ALIGNED(r->phys + (base - r->first), size))
			return size;
	}
	return DLEND_PAGE_SMALLEST;
}

u64 dlend_piece_last(u64 at, u64 last, u64 sizes, u64 cap)
{
	u64 end, above = cap ? sizes & ~(2 * cap - 1) : 0;
	u64 large = above & -above;	/* the smallest size above @cap, 0 if there is none */

	if (!large || last - at < large / 2)
		return last;
	/* Half of that size: the end is moved back to a page's edge, and must stay above @at. */
	end = ALIGN_DOWN(at + large / 2, cap);
	return end - 1;
}

/* How many bytes of the run are mapped by pages of @least bytes or more? */
static u64 dlend_pages_bytes_in(const struct dlend_page_run *r, u64 least)
{
	u64 sizes = r->sizes & ~(least - 1), size, from, to;

	if (r->cap)
		sizes &= 2 * r->cap - 1;
	size = sizes & -sizes;
	if (!size || !IS_ALIGNED(r->phys - r->first, size))
		return 0;
	/* Larger pages are multiples of this size.  @to is exclusive: 0 means 2^64. */
	from = ALIGN(r->first, size);
	to = ALIGN_DOWN(r->last + 1, size);
	if (from < r->first || (to && to <= from) || (!to && r->last != U64_MAX))
		return 0;
	return to - from;
}

struct dlend_map_pages dlend_pages_count(const struct dlend_page_run *r)
{
	u64 in_1g = dlend_pages_bytes_in(r, SZ_1G), in_2m = dlend_pages_bytes_in(r, SZ_2M);

	return (struct dlend_map_pages) {
		.n1g = in_1g / SZ_1G,
		.n2m = (in_2m - in_1g) / SZ_2M,
		.n4k = (r->last - r->first + 1 - in_2m) / SZ_4K,
	};
}

/* Mappings */

/*
 * RAM in pieces shorter than this is mapped by 4 KiB pages, and shares a run with its neighbours.
 * Otherwise a guest without huge pages would cost a struct dlend_run for nearly every page.
 */
#define DLEND_RUN_SCATTERED_BELOW	SZ_64K

/*
 * struct dlend_run - a range of IOVAs without a hole
 * @node, @subtree_last: in dlend_maps.runs
 * @p: IOVAs and physical address. Of a scattered run, p.phys means nothing: the domain or
 *	dlend_maps.scattered has the physical addresses; and the cap is 4 KiB
 * @prot: DLEND_PROT_*
 * @mmio: it is mapped to a BAR
 * @scattered: the run has any number of short pieces, whose physical addresses are not contiguous
 */
struct dlend_run {
	struct rb_node node;
	u64 subtree_last;
	struct dlend_page_run p;
	u32 prot;
	bool mmio, scattered;
};

#define DLEND_RUN_FIRST(r)	((r)->p.first)
#define DLEND_RUN_LAST(r)	((r)->p.last)
INTERVAL_TREE_DEFINE(struct dlend_run, node, u64, subtree_last, DLEND_RUN_FIRST,
		     DLEND_RUN_LAST, static __maybe_unused, dlend_run_tree);

void dlend_maps_init(struct dlend_maps *m, struct dlend_paging *pg)
{
	memset(m, 0, sizeof(*m));
	m->pg = pg;
	m->runs = RB_ROOT_CACHED;
	xa_init_flags(&m->scattered, XA_FLAGS_ACCOUNT);
}

static phys_addr_t dlend_run_phys_at(const struct dlend_maps *m, const struct dlend_run *r,
				     u64 iova)
{
	if (!r->scattered)
		return r->p.phys + (iova - r->p.first);
	if (m->pg)
		return m->pg->ops->phys(m->pg, iova);
	return (phys_addr_t)xa_to_value(xa_load((struct xarray *)&m->scattered,
						iova >> PAGE_SHIFT)) << PAGE_SHIFT;
}

/* Add @r to the counters (@sign 1), or subtract it (-1). Without a domain there are no pages. */
static void dlend_run_count(struct dlend_maps *m, const struct dlend_run *r, int sign)
{
	struct dlend_map_pages pages = {};

	if (m->pg)
		pages = dlend_pages_count(&r->p);
	m->nr += sign;
	m->bytes += sign * (s64)(r->p.last - r->p.first + 1);
	m->pages.n4k += sign * (s64)pages.n4k;
	m->pages.n2m += sign * (s64)pages.n2m;
	m->pages.n1g += sign * (s64)pages.n1g;
}

int dlend_maps_check(const struct dlend_maps *m, u64 iova, phys_addr_t phys, u64 size, u32 prot)
{
	u64 last = iova + (size - 1);

	if (!size || !PAGE_ALIGNED(iova | phys | size) || !prot ||
	    prot & ~(DLEND_PROT_READ | DLEND_PROT_WRITE))
		return -EINVAL;
	if (last < iova || (m->pg && (iova < m->pg->first || last > m->pg->last)))
		return -ERANGE;
	return 0;
}

/* Map @r, in so many calls that no page is too large; all or nothing. */
static int dlend_run_map(struct dlend_maps *m, const struct dlend_run *r)
{
	u32 prot = r->prot | (r->mmio ? DLEND_PAGING_MMIO : 0);
	u64 at = r->p.first, end;
	int err;

	while (m->pg) {
		end = dlend_piece_last(at, r->p.last, m->pg->sizes, r->p.cap);
		err = m->pg->ops->map(m->pg, at, r->p.phys + (at - r->p.first), end - at + 1, prot);
		if (err && at > r->p.first)
			m->pg->ops->unmap(m->pg, r->p.first, at - r->p.first);
		if (err || end == r->p.last)
			return err;
		at = end + 1;
	}
	return 0;
}

/*
 * On the loop there is no domain, so the physical address of each page of a scattered run is
 * recorded in dlend_maps.scattered.  Forget those from @first to @last, up to the first page that
 * is not there: of a run that is not scattered, none is.
 */
static void dlend_maps_forget_pages(struct dlend_maps *m, u64 first, u64 last)
{
	u64 at;

	if (m->pg)
		return;
	for (at = first; at - first <= last - first; at += PAGE_SIZE) {
		if (!xa_erase(&m->scattered, at >> PAGE_SHIFT))
			break;
		m->nr_pages--;
		if (IS_ALIGNED(at, SZ_4M))
			cond_resched();
	}
}

/* Record the physical address of each page; see dlend_maps_forget_pages(). Return: 0, -ENOMEM. */
static int dlend_run_remember_pages(struct dlend_maps *m, const struct dlend_run *r)
{
	u64 at, pfn = r->p.phys >> PAGE_SHIFT;
	int err;

	if (m->pg || !r->scattered)
		return 0;
	for (at = r->p.first; at - r->p.first <= r->p.last - r->p.first; at += PAGE_SIZE, pfn++) {
		err = xa_err(xa_store(&m->scattered, at >> PAGE_SHIFT, xa_mk_value(pfn),
				      DLEND_PAGING_GFP));
		if (err) {
			dlend_maps_forget_pages(m, r->p.first, r->p.last);
			return err;
		}
		m->nr_pages++;
	}
	return 0;
}

static void dlend_run_insert(struct dlend_maps *m, struct dlend_run *r)
{
	dlend_run_tree_insert(r, &m->runs);
	dlend_run_count(m, r, 1);
}

/* The scattered run that has @iova, if something that is mapped with @prot may join it. */
static struct dlend_run *dlend_run_joinable(struct dlend_maps *m, u64 iova, u32 prot)
{
	struct dlend_run *r = dlend_run_tree_iter_first(&m->runs, iova, iova);

	return r && r->scattered && r->prot == prot ? r : NULL;
}

/* Remove @r from the records; its pages stay mapped, and the caller frees it. */
static void dlend_run_remove(struct dlend_maps *m, struct dlend_run *r)
{
	dlend_run_tree_remove(r, &m->runs);
	dlend_run_count(m, r, -1);
}

/* @r is mapped, scattered, and not in the records yet: merge its scattered neighbours into it. */
static void dlend_run_join(struct dlend_maps *m, struct dlend_run *r)
{
	struct dlend_run *next = NULL, *prev = NULL;

	if (r->p.last < U64_MAX)
		next = dlend_run_joinable(m, r->p.last + 1, r->prot);
	if (r->p.first)
		prev = dlend_run_joinable(m, r->p.first - 1, r->prot);

	if (next) {
		dlend_run_remove(m, next);
		r->p.last = next->p.last;
		kfree(next);
	}
	if (prev) {
		dlend_run_remove(m, prev);
		r->p.first = prev->p.first;
		kfree(prev);
	}
}

/* Map @r, and enter it in the records. */
static int dlend_run_map_and_record(struct dlend_maps *m, struct dlend_run *r)
{
	int err = dlend_run_remember_pages(m, r);

	if (err)
		return err;
	err = dlend_run_map(m, r);
	if (err) {
		dlend_maps_forget_pages(m, r->p.first, r->p.last);
		return err;
	}
	if (r->scattered)
		dlend_run_join(m, r);
	dlend_run_insert(m, r);
	return 0;
}

int dlend_maps_add(struct dlend_maps *m, const struct dlend_piece *piece)
{
	struct dlend_run *r;
	int err;

	err = dlend_maps_check(m, piece->offset, piece->phys, piece->size, piece->prot);
	if (err)
		return err;
	if (dlend_maps_busy(m, piece->offset, piece->size))
		return -EEXIST;
	r = kzalloc_obj(*r, DLEND_PAGING_GFP);
	if (!r)
		return -ENOMEM;
	r->p.first = piece->offset;
	r->p.last = piece->offset + (piece->size - 1);
	r->p.phys = piece->phys;
	r->prot = piece->prot;
	r->mmio = piece->mmio;
	r->scattered = !piece->mmio && piece->size < DLEND_RUN_SCATTERED_BELOW;
	r->p.cap = r->scattered ? SZ_4K : piece->cap;
	r->p.sizes = m->pg ? m->pg->sizes : 0;
	err = dlend_run_map_and_record(m, r);
	if (err)
		kfree(r);
	return err;
}

/*
 * [@first, @last] is a part of the former run @old, and stays.  Enter it in the records.  @map: its
 * page was unmapped, so map it again; if that fails, the IOMMU blocks accesses there: bad for the
 * guest, safe for the host.
 */
static void dlend_run_keep_part(struct dlend_maps *m, const struct dlend_run *old, u64 first,
				u64 last, bool map)
{
	struct dlend_run *r = kzalloc_obj(*r, DLEND_PAGING_GFP | __GFP_NOFAIL);
	int err;

	*r = *old;
	r->p.first = first;
	r->p.last = last;
	r->p.phys += first - old->p.first;
	if (!map) {
		dlend_run_insert(m, r);
		return;
	}
	err = dlend_run_map_and_record(m, r);
	if (err) {
		pr_err("dlend: %llx-%llx could not be mapped again after its neighbour was unmapped (%d): DMA there is blocked until the windows are built again\n",
		       first, last, err);
		kfree(r);
	}
}

static void dlend_maps_unmap_pages(struct dlend_maps *m, u64 first, u64 last)
{
	u64 size = last - first + 1, done;

	if (!m->pg)
		return;
	done = m->pg->ops->unmap(m->pg, first, size);
	WARN_ONCE(done != size, "dlend: %llu of %llu bytes unmapped at %llx\n", done, size, first);
}

/*
 * Unmap [@first, @last], which is inside @r.  The parts on either side keep their pages, except for
 * a large page that straddles an edge: the rest of that page is mapped again by smaller pages, and
 * a device that accesses the rest in between gets a fault.  No kernel up to 7.2 can split a page of
 * a domain in use.  If dlend_maps_add() gets a cap, no page straddles edges that are multiples of
 * it.
 */
static void dlend_run_cut(struct dlend_maps *m, struct dlend_run *r, u64 first, u64 last)
{
	u64 from = first & ~(dlend_page_at(&r->p, first) - 1);
	u64 to = last | (dlend_page_at(&r->p, last) - 1);

	dlend_run_remove(m, r);
	dlend_maps_unmap_pages(m, from, to);
	dlend_maps_forget_pages(m, from, to);
	if (r->p.first < from)
		dlend_run_keep_part(m, r, r->p.first, from - 1, false);
	if (from < first)
		dlend_run_keep_part(m, r, from, first - 1, true);
	if (last < to)
		dlend_run_keep_part(m, r, last + 1, to, true);
	if (to < r->p.last)
		dlend_run_keep_part(m, r, to + 1, r->p.last, false);
	kfree(r);
}

/* Cut runs that reach over the edges of [@first, @last]. Return: bytes unmapped */
static u64 dlend_maps_cut_edges(struct dlend_maps *m, u64 first, u64 last)
{
	struct dlend_run *r = dlend_run_tree_iter_first(&m->runs, first, first);
	u64 done = 0, at;

	if (r && (r->p.first < first || r->p.last > last)) {
		at = min(last, r->p.last);
		done += at - first + 1;
		dlend_run_cut(m, r, first, at);
	}
	r = dlend_run_tree_iter_first(&m->runs, last, last);
	if (r && r->p.last > last) {
		done += last - r->p.first + 1;
		dlend_run_cut(m, r, r->p.first, last);
	}
	return done;
}

/* Remove @r from the records and free it; the caller unmaps its pages. Return: its last address */
static u64 dlend_run_forget(struct dlend_maps *m, struct dlend_run *r)
{
	u64 last = r->p.last;

	dlend_run_remove(m, r);
	dlend_maps_forget_pages(m, r->p.first, last);
	kfree(r);
	return last;
}

u64 dlend_maps_del(struct dlend_maps *m, u64 iova, u64 size)
{
	u64 last = iova + size - 1, done, from, to;
	struct dlend_run *r;

	if (!size || last < iova || !PAGE_ALIGNED(iova | size))
		return 0;
	done = dlend_maps_cut_edges(m, iova, last);
	while ((r = dlend_run_tree_iter_first(&m->runs, iova, last))) {
		from = r->p.first;
		to = dlend_run_forget(m, r);
		/* One IOTLB flush for all neighbours: scattered pages are many runs. */
		while (to < last && (r = dlend_run_tree_iter_first(&m->runs, to + 1, to + 1)))
			to = dlend_run_forget(m, r);
		dlend_maps_unmap_pages(m, from, to);
		done += to - from + 1;
	}
	return done;
}

bool dlend_maps_busy(struct dlend_maps *m, u64 iova, u64 size)
{
	return dlend_run_tree_iter_first(&m->runs, iova, iova + size - 1);
}

/* How many bytes of a run, from @iova to @last at most, lead to contiguous memory? */
static u64 dlend_run_contiguous(const struct dlend_maps *m, const struct dlend_run *r, u64 iova,
				u64 last)
{
	phys_addr_t phys = dlend_run_phys_at(m, r, iova);
	u64 size = PAGE_SIZE;

	if (!r->scattered)
		return last - iova + 1;
	while (size <= last - iova && dlend_run_phys_at(m, r, iova + size) == phys + size)
		size += PAGE_SIZE;
	return size;
}

bool dlend_maps_next(struct dlend_maps *m, u64 iova, u64 last, struct dlend_piece *piece)
{
	struct dlend_run *r = dlend_run_tree_iter_first(&m->runs, iova, last);

	if (!r)
		return false;
	piece->offset = max(r->p.first, iova);
	piece->size = dlend_run_contiguous(m, r, piece->offset, min(r->p.last, last));
	piece->phys = dlend_run_phys_at(m, r, piece->offset);
	piece->cap = r->p.cap;
	piece->prot = r->prot;
	piece->mmio = r->mmio;
	return true;
}

u64 dlend_maps_table_bytes(const struct dlend_maps *m)
{
	/* A scattered page has one of the XA_CHUNK_SIZE entries of an xarray's node. */
	return m->nr * (u64)sizeof(struct dlend_run) + m->nr_pages * sizeof(struct xa_node) /
	       XA_CHUNK_SIZE;
}

void dlend_maps_show(struct dlend_maps *m, struct seq_file *f)
{
	seq_printf(f, "mappings: %u\nmapped_bytes: %llu\npages_4k: %llu\npages_2m: %llu\npages_1g: %llu\ntable_bytes: %llu\n",
		   m->nr, m->bytes, m->pages.n4k, m->pages.n2m, m->pages.n1g,
		   dlend_maps_table_bytes(m));
}

/* Notifiers */

bool dlend_piece_clip(const struct dlend_piece *piece, u64 offset, u64 size,
		      struct dlend_piece *out)
{
	u64 from = max(piece->offset, offset);
	u64 to = min(piece->offset + piece->size, offset + size);

	if (from >= to)
		return false;
	*out = *piece;
	out->offset = from;
	out->size = to - from;
	out->phys += from - piece->offset;
	return true;
}

static void dlend_notifier_unmap(struct dlend_notifier *notifier, u64 offset, u64 size)
{
	u64 from = max(notifier->offset, offset);
	u64 to = min(notifier->offset + notifier->size, offset + size);

	if (from < to)
		notifier->ops->unmap(notifier, from - notifier->offset, to - from);
}

int dlend_notifiers_map(struct list_head *notifiers, const struct dlend_piece *piece)
{
	struct dlend_notifier *notifier;
	struct dlend_piece part;
	int err = 0;

	list_for_each_entry(notifier, notifiers, node) {
		if (!notifier->ops->map ||
		    !dlend_piece_clip(piece, notifier->offset, notifier->size, &part))
			continue;
		err = notifier->ops->map(notifier, part.offset - notifier->offset, &part);
		if (err)
			break;
	}
	if (!err)
		return 0;
	/*
	 * The notifier whose map() failed reaches nothing of the piece; those before it have to
	 * unmap the piece again.
	 */
	list_for_each_entry_continue_reverse(notifier, notifiers, node)
		if (notifier->ops->map)
			dlend_notifier_unmap(notifier, piece->offset, piece->size);
	return err;
}

void dlend_notifiers_unmap(struct list_head *notifiers, u64 offset, u64 size)
{
	struct dlend_notifier *notifier;

	list_for_each_entry(notifier, notifiers, node)
		dlend_notifier_unmap(notifier, offset, size);
}

bool dlend_notifier_shrink(struct dlend_notifier *notifier, u64 share)
{
	u64 size = notifier->size - min(notifier->size, share);

	if (size < notifier->size)
		notifier->ops->unmap(notifier, size, notifier->size - size);
	notifier->size = size;
	return size;
}
