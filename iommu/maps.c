// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of one IOMMU domain: map, unmap with splitting, count pages by size.
 *
 * Knows one iommu_domain and physical addresses; neither slots nor guests nor links.
 */
#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/cc_platform.h>
#include <linux/interval_tree_generic.h>
#include <linux/iommu.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/types.h>
#include "maps.h"
#include "pages.h"
#include "slots.h"

/* Contiguous in both address spaces; @cap: no larger pages, 0 = any. */
struct dlend_run {
	struct rb_node node;
	u64 first, last, subtree_last;
	phys_addr_t phys;
	u64 cap;
	u32 prot;
	bool mmio;
};

#define RUN_FIRST(r)	((r)->first)
#define RUN_LAST(r)	((r)->last)
INTERVAL_TREE_DEFINE(struct dlend_run, node, u64, subtree_last, RUN_FIRST, RUN_LAST,
		     static __maybe_unused, run_tree);

void dlend_maps_init(struct dlend_maps *m, struct iommu_domain *domain)
{
	memset(m, 0, sizeof(*m));
	m->domain = domain;
	m->runs = RB_ROOT_CACHED;
}

static u64 page_size_at(const struct dlend_maps *m, const struct dlend_run *r, u64 iova)
{
	if (!m->domain)
		return SZ_4K;
	return dlend_page_at(r->first, r->last, r->phys, m->domain->pgsize_bitmap, r->cap, iova);
}

static void count_page(struct dlend_map_pages *p, u64 size, int sign)
{
	if (size >= SZ_1G)
		p->n1g += sign * (s64)(size / SZ_1G);
	else if (size >= SZ_2M)
		p->n2m += sign * (s64)(size / SZ_2M);
	else
		p->n4k += sign * (s64)(size / SZ_4K);
}

static void count_run(struct dlend_maps *m, const struct dlend_run *r, int sign)
{
	u64 at = r->first, size;

	m->nr += sign;
	m->bytes += sign * (s64)(r->last - r->first + 1);
	/* Where nothing translates there are no pages. */
	while (m->domain) {
		size = page_size_at(m, r, at);
		count_page(&m->pages, size, sign);
		if (r->last - at < size)
			break;
		at += size;
	}
}

static int iommu_prot(u32 prot, bool mmio)
{
	int p = mmio ? IOMMU_MMIO : IOMMU_CACHE;

	if (prot & DLEND_PROT_READ)
		p |= IOMMU_READ;
	if (prot & DLEND_PROT_WRITE)
		p |= IOMMU_WRITE;
	return p;
}

static bool mmio_possible(void)
{
	return !DLEND_SME_BREAKS_MMIO || !cc_platform_has(CC_ATTR_HOST_MEM_ENCRYPT);
}

static bool outside(const struct iommu_domain *domain, u64 first, u64 last)
{
	return first < domain->geometry.aperture_start || last > domain->geometry.aperture_end;
}

int dlend_maps_check(const struct dlend_maps *m, u64 iova, phys_addr_t phys, u64 size, u32 prot)
{
	u64 last = iova + (size - 1);

	if (!size || !PAGE_ALIGNED(iova | phys | size) || !prot ||
	    prot & ~(DLEND_PROT_READ | DLEND_PROT_WRITE))
		return -EINVAL;
	if (last < iova || (m->domain && outside(m->domain, iova, last)))
		return -ERANGE;
	return 0;
}

/* In as many calls as it takes that no page is too large; all or nothing. */
static int map_pieces(struct dlend_maps *m, const struct dlend_run *r)
{
	int err, prot = iommu_prot(r->prot, r->mmio);
	u64 at = r->first, end;

	while (m->domain) {
		end = dlend_piece_last(at, r->last, m->domain->pgsize_bitmap, r->cap);
		err = iommu_map(m->domain, at, r->phys + (at - r->first), end - at + 1, prot,
				GFP_KERNEL_ACCOUNT);
		if (err && at > r->first)
			iommu_unmap(m->domain, r->first, at - r->first);
		if (err || end == r->last)
			return err;
		at = end + 1;
	}
	return 0;
}

/* Map @r as it stands and remember it. */
static int put_run(struct dlend_maps *m, struct dlend_run *r)
{
	int err = map_pieces(m, r);

	if (err)
		return err;
	run_tree_insert(r, &m->runs);
	count_run(m, r, 1);
	return 0;
}

int dlend_maps_add(struct dlend_maps *m, u64 iova, phys_addr_t phys, u64 size, u32 prot,
		   bool mmio, u64 cap)
{
	struct dlend_run *r;
	int err;

	err = dlend_maps_check(m, iova, phys, size, prot);
	if (err)
		return err;
	if (mmio && m->domain && !mmio_possible()) {
		pr_err_once("dlend: this kernel cannot map BARs in the IOMMU while memory encryption (SME) is on: boot with mem_encrypt=off, or use kernel 7.0 or newer\n");
		return -EOPNOTSUPP;
	}
	if (dlend_maps_busy(m, iova, size))
		return -EEXIST;
	r = kzalloc_obj(*r, GFP_KERNEL_ACCOUNT);
	if (!r)
		return -ENOMEM;
	r->first = iova;
	r->last = iova + size - 1;
	r->phys = phys;
	r->cap = cap;
	r->prot = prot;
	r->mmio = mmio;
	err = put_run(m, r);
	if (err)
		kfree(r);
	return err;
}

/*
 * Remember [@first, @last] of the former run @old; with @map it is mapped again, too.  If that
 * fails the device's next access there is blocked: bad for the guest, safe for the host.
 */
static void keep_part(struct dlend_maps *m, const struct dlend_run *old, u64 first, u64 last,
		      bool map)
{
	struct dlend_run *r = kzalloc_obj(*r, GFP_KERNEL | __GFP_NOFAIL);
	int err;

	r->first = first;
	r->last = last;
	r->phys = old->phys + (first - old->first);
	r->cap = old->cap;
	r->prot = old->prot;
	r->mmio = old->mmio;
	if (!map) {
		run_tree_insert(r, &m->runs);
		count_run(m, r, 1);
		return;
	}
	err = put_run(m, r);
	if (err) {
		pr_err("dlend: %llx-%llx could not be mapped again after its neighbour was unmapped (%d): DMA there is blocked until the windows are built again\n",
		       first, last, err);
		kfree(r);
	}
}

static void unmap_pages(struct dlend_maps *m, u64 first, u64 last)
{
	size_t size = last - first + 1, done;

	if (!m->domain)
		return;
	done = iommu_unmap(m->domain, first, size);
	WARN_ONCE(done != size, "dlend: %zu of %zu bytes unmapped at %llx\n", done, size, first);
}

/*
 * Take [@first, @last], which lies inside @r, out of it.  What is left on either side keeps its
 * pages, except for a large page that straddles the edge: it is mapped again in smaller ones, and
 * a device that is at it meanwhile meets a fault.  No kernel up to 7.2 can split a page of a live
 * domain; a cap at map time keeps pages off the edges where somebody may cut.
 */
static void cut_run(struct dlend_maps *m, struct dlend_run *r, u64 first, u64 last)
{
	u64 from = first & ~(page_size_at(m, r, first) - 1);
	u64 to = last | (page_size_at(m, r, last) - 1);

	run_tree_remove(r, &m->runs);
	count_run(m, r, -1);
	unmap_pages(m, from, to);
	if (r->first < from)
		keep_part(m, r, r->first, from - 1, false);
	if (from < first)
		keep_part(m, r, from, first - 1, true);
	if (last < to)
		keep_part(m, r, last + 1, to, true);
	if (to < r->last)
		keep_part(m, r, to + 1, r->last, false);
	kfree(r);
}

/* Cut runs that reach over the edges of [@first, @last]. Return: bytes unmapped */
static u64 cut_edges(struct dlend_maps *m, u64 first, u64 last)
{
	struct dlend_run *r = run_tree_iter_first(&m->runs, first, first);
	u64 done = 0, at;

	if (r && (r->first < first || r->last > last)) {
		at = min(last, r->last);
		done += at - first + 1;
		cut_run(m, r, first, at);
	}
	r = run_tree_iter_first(&m->runs, last, last);
	if (r && r->last > last) {
		done += last - r->first + 1;
		cut_run(m, r, r->first, last);
	}
	return done;
}

/* Forget @r; its pages are unmapped by the caller. Return: its last address */
static u64 forget_run(struct dlend_maps *m, struct dlend_run *r)
{
	u64 last = r->last;

	run_tree_remove(r, &m->runs);
	count_run(m, r, -1);
	kfree(r);
	return last;
}

u64 dlend_maps_del(struct dlend_maps *m, u64 iova, u64 size)
{
	u64 last = iova + size - 1, done, from, to;
	struct dlend_run *r;

	if (!size || last < iova || !PAGE_ALIGNED(iova | size))
		return 0;
	done = cut_edges(m, iova, last);
	while ((r = run_tree_iter_first(&m->runs, iova, last))) {
		from = r->first;
		to = forget_run(m, r);
		/* One IOTLB flush for all neighbours: scattered pages are many runs. */
		while (to < last && (r = run_tree_iter_first(&m->runs, to + 1, to + 1)))
			to = forget_run(m, r);
		unmap_pages(m, from, to);
		done += to - from + 1;
	}
	return done;
}

bool dlend_maps_busy(struct dlend_maps *m, u64 iova, u64 size)
{
	return run_tree_iter_first(&m->runs, iova, iova + size - 1);
}

bool dlend_maps_next(struct dlend_maps *m, u64 iova, u64 last, struct dlend_piece *piece)
{
	struct dlend_run *r = run_tree_iter_first(&m->runs, iova, last);

	if (!r)
		return false;
	piece->offset = max(r->first, iova);
	piece->size = min(r->last, last) - piece->offset + 1;
	piece->phys = r->phys + (piece->offset - r->first);
	piece->cap = r->cap;
	piece->prot = r->prot;
	piece->mmio = r->mmio;
	return true;
}

int dlend_maps_whole(struct dlend_maps *m, u64 iova, u64 size)
{
	u64 last = iova + size - 1;
	struct dlend_run *r;
	int n = 0;

	for (r = run_tree_iter_first(&m->runs, iova, last); r;
	     r = run_tree_iter_next(r, iova, last)) {
		if (r->first < iova || r->last > last)
			return -EINVAL;
		n++;
	}
	return n;
}

void dlend_maps_show(struct dlend_maps *m, struct seq_file *f)
{
	seq_printf(f, "mappings: %u\nmapped_bytes: %llu\npages_4k: %llu\npages_2m: %llu\npages_1g: %llu\n",
		   m->nr, m->bytes, m->pages.n4k, m->pages.n2m, m->pages.n1g);
}

static unsigned int bridge_windows(struct device *dev, struct dlend_range *out)
{
	struct pci_host_bridge *bridge;
	struct resource_entry *w;
	unsigned int n = 0;

	if (!dev_is_pci(dev))
		return 0;
	bridge = pci_find_host_bridge(to_pci_dev(dev)->bus);
	resource_list_for_each_entry(w, &bridge->windows) {
		if (resource_type(w->res) != IORESOURCE_MEM)
			continue;
		if (out) {
			out[n].first = w->res->start - w->offset;
			out[n].last = w->res->end - w->offset;
		}
		n++;
	}
	return n;
}

static unsigned int resv_regions(struct list_head *list, struct dlend_range *out)
{
	struct iommu_resv_region *r;
	unsigned int n = 0;

	list_for_each_entry(r, list, list) {
		if (out) {
			out[n].first = r->start;
			out[n].last = r->start + (r->length - 1);
		}
		n++;
	}
	return n;
}

int dlend_maps_reserved(struct device *dev, bool windows, struct dlend_range **out)
{
	struct dlend_range *r;
	LIST_HEAD(list);
	unsigned int n;

	iommu_get_resv_regions(dev, &list);
	n = resv_regions(&list, NULL) + (windows ? bridge_windows(dev, NULL) : 0);
	r = kcalloc(n + 1, sizeof(*r), GFP_KERNEL);
	if (r) {
		n = resv_regions(&list, r);
		if (windows)
			n += bridge_windows(dev, r + n);
	}
	iommu_put_resv_regions(dev, &list);
	*out = r;
	return r ? n : -ENOMEM;
}
