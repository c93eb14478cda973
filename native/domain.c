// SPDX-License-Identifier: GPL-2.0
/*
 * Domains: IO addresses of attached devices, and what they lead to.
 *
 * IO addresses fall into segments.  A segment has a raw slot of the aperture towards the lender,
 * and the lender maps all of it at once: a message for each segment, not for each page.  What a
 * device reaches in it is decided here, page by page, in the IOMMU of this host's NTB.
 *
 *   device's address S + x --lender's IOMMU--> window + slot + x --this host's IOMMU--> RAM
 *
 * The kernel's own dma-iommu maps in atomic context.  So its domain has one segment, which is there
 * before the device is used, and a transfer costs no message and no copy.  VFIO's domain, with the
 * memory of a VM or of a program, may wait: a segment is there from its first page on.
 *
 * Must not know interrupts and configuration space.
 */
#include <linux/iommu.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/raw_slot.h>
#include "domain.h"
#include "fn.h"
#include "root.h"
#include "segment.h"
#include "tell.h"

/*
 * The kernel's own IO addresses begin here: 0 and what is near it are errors of drivers.  They end
 * below the address of interrupts, so that devices with 32-bit addresses work.
 */
#define DLEND_NATIVE_DMA_FIRST	((u64)SZ_256M)
#define DLEND_NATIVE_DMA_MOST	(3 * (u64)SZ_1G + SZ_512M - SZ_256M)
#define DLEND_NATIVE_DMA_LEAST	((u64)SZ_16M)
/* Bits of an IO address of VFIO's: a lender's IOMMU may have fewer, and says so then. */
#define DLEND_NATIVE_BITS	48
/* A VM's memory begins and ends within a segment in some places: this share of the window each. */
#define DLEND_NATIVE_SEGMENTS	64

static unsigned int dma_mib;
module_param(dma_mib, uint, 0644);
MODULE_PARM_DESC(dma_mib, "MiB that the driver of a device which is attached from now on may have mapped at once; 0: a quarter of the window, 2048 at most");

static struct dlend_native_domain *to_native_domain(struct iommu_domain *domain)
{
	return container_of(domain, struct dlend_native_domain, domain);
}

/* A domain */

static const struct iommu_domain_ops dlend_native_domain_ops;

static void dlend_native_domain_range(struct dlend_native_domain *d, u64 first, u64 last)
{
	d->domain.geometry.aperture_start = first;
	d->domain.geometry.aperture_end = last;
	d->domain.geometry.force_aperture = true;
}

static struct dlend_native_domain *dlend_native_domain_make(struct dlend_link *link)
{
	struct dlend_native_domain *d = kzalloc_obj(*d, GFP_KERNEL_ACCOUNT);

	if (!d)
		return NULL;
	/* Of iommufd's, a domain may stay when its last device has gone, which also keeps us. */
	__module_get(THIS_MODULE);
	d->link = dlend_link_get(link);
	mutex_init(&d->change);
	mutex_init(&d->lock);
	INIT_LIST_HEAD(&d->members);
	INIT_LIST_HEAD(&d->prepared_for);
	xa_init(&d->segments);
	d->domain.ops = &dlend_native_domain_ops;
	d->domain.pgsize_bitmap = DLEND_NATIVE_PAGES;
	dlend_native_domain_range(d, 0, DMA_BIT_MASK(DLEND_NATIVE_BITS));
	return d;
}

static void dlend_native_domain_evict(struct dlend_native_domain *d);

static void dlend_native_domain_free(struct iommu_domain *domain)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	struct dlend_native_segment *seg;
	unsigned long number;

	dlend_native_domain_evict(d);
	xa_for_each(&d->segments, number, seg)
		dlend_native_segment_free(seg, !d->silent);
	xa_destroy(&d->segments);
	dlend_raw_domain_put(d->reach);
	dlend_link_put(d->link);
	kfree(d);
	module_put(THIS_MODULE);
}

/* What the domain is for */

static u64 dlend_native_window_bytes(struct dlend_link *link)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct dlend_aperture_stat st = {};

	if (ap)
		dlend_aperture_stat(ap, &st);
	return st.size;
}

/* The kernel's own DMA: all segments that it ever needs. */
static int dlend_native_domain_for_dma(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	char why[DLEND_REASON_LEN];
	u64 size = (u64)READ_ONCE(dma_mib) << 20;
	int err;

	if (!size)
		size = min_t(u64, dlend_native_window_bytes(d->link) / 4, SZ_2G);
	size = ALIGN_DOWN(clamp(size, DLEND_NATIVE_DMA_LEAST, DLEND_NATIVE_DMA_MOST), SZ_2M);
	d->shift = DLEND_NATIVE_ALL;
	err = dlend_native_segment_make(d, DLEND_NATIVE_DMA_FIRST, size);
	if (!err) {
		dlend_native_domain_range(d, DLEND_NATIVE_DMA_FIRST,
					  DLEND_NATIVE_DMA_FIRST + size - 1);
		return 0;
	}
	d->shift = 0;
	if (err == -ENOSPC) {
		dlend_native_segment_no_room(d, size, why);
		dlend_native_fn_fails(fn, "%s, or set dlend_native.dma_mib", why);
	}
	return err;
}

/* VFIO, for which no domain is prepared: what its user asks for. */
static void dlend_native_domain_for_vfio(struct dlend_native_domain *d)
{
	u64 part = dlend_native_window_bytes(d->link) / DLEND_NATIVE_SEGMENTS;
	u64 size = clamp(rounddown_pow_of_two(part | 1), (u64)SZ_2M, (u64)SZ_1G);

	d->shift = ilog2(size);
	d->domain.pgsize_bitmap = DLEND_NATIVE_PAGES & (2 * size - 1);
}

/* Members */

static int dlend_native_join_segments(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	struct dlend_native_segment *seg;
	unsigned long number;
	int err;

	/* What nobody has mapped any more is not worth an error of the first lender. */
	if (list_empty(&d->members))
		dlend_native_segments_shed(d);
	xa_for_each(&d->segments, number, seg) {
		err = dlend_native_segment_tell(fn, seg);
		if (err)
			goto leave;
	}
	return 0;

leave:
	if (dlend_native_tell_unmap(fn, 0, BIT_ULL(DLEND_NATIVE_ALL)))
		d->silent = true;
	return err;
}

/* Under change. */
static void dlend_native_add_member(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	list_add_tail(&fn->in_domain, &d->members);
	guard(mutex)(&fn->domain_lock);
	guard(mutex)(&d->lock);
	d->alive++;
	fn->domain_alive = true;
	fn->domain = d;
}

/* Under lock: it counts no more for whether others need the segments. */
static void dlend_native_member_ends(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	lockdep_assert_held(&d->lock);
	d->alive -= fn->domain_alive;
	fn->domain_alive = false;
}

static void dlend_native_del_member(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	list_del_init(&fn->in_domain);
	guard(mutex)(&fn->domain_lock);
	guard(mutex)(&d->lock);
	dlend_native_member_ends(d, fn);
	fn->domain = NULL;
}

/*
 * A domain that a group could not be given is freed, and the group has the one before again.  If
 * that failed, too, for one of its functions, the IOMMU core has warned, and nobody in here is
 * where the core takes it to be.
 */
static void dlend_native_domain_evict(struct dlend_native_domain *d)
{
	struct dlend_native_fn *fn, *next;

	guard(mutex)(&d->change);
	list_for_each_entry_safe(fn, next, &d->members, in_domain) {
		if (dlend_native_tell_unmap(fn, 0, BIT_ULL(DLEND_NATIVE_ALL)))
			d->silent = true;
		dlend_native_del_member(d, fn);
		dlend_native_lost(fn, "it does not reach this host's memory any more");
	}
}

static void dlend_native_join_fails(struct dlend_native_fn *fn, int err)
{
	if (err == -EOPNOTSUPP)
		dlend_native_fn_fails(fn,
				      "this host's IOMMU does not translate for its NTB: turn it on");
	else if (!fn->why[0])
		dlend_native_fn_fails(fn, "node %u does not let it reach this host's memory (%pe)",
				      fn->claim.lease->addr.lender, ERR_PTR(err));
}

/* Under change. */
static int dlend_native_join(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	/* Its segments lead nowhere, for good. */
	int err = READ_ONCE(d->cut) ? -ENODEV : dlend_native_join_segments(d, fn);

	if (err)
		return err;
	dlend_native_add_member(d, fn);
	/* A lease that ended before the domain was noted has cut nothing. */
	if (dlend_lease_over(dlend_native_lease(fn)))
		dlend_native_domain_cut(fn);
	return 0;
}

/* Under change. What the domain is for is known by now: dma-iommu's is prepared before. */
static int dlend_native_domain_decide(struct dlend_native_domain *d)
{
	if (d->shift)
		return 0;
	/* An administrator has set a group's type anew, with no driver: that is not prepared. */
	if (iommu_is_dma_domain(&d->domain))
		return -EBUSY;
	dlend_native_domain_for_vfio(d);
	return 0;
}

/*
 * With no member, a domain that keeps its pages has outlived a session of the link.  Its slots are
 * of that age: in a new session, no lender's silence would put them into quarantine.
 */
static bool dlend_native_outlived(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	if (!list_empty(&d->members))
		return false;
	dlend_native_segments_shed(d);
	return !xa_empty(&d->segments) && d->session != dlend_native_lease(fn)->ref.session;
}

/* Can the function join it, as far as is known before it leaves its own? */
static int dlend_native_domain_may_join(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	guard(mutex)(&d->change);
	/* By this error VFIO and iommufd know that the device wants another domain. */
	if (dlend_native_lease(fn)->ref.link != d->link)
		return -EINVAL;
	if (dlend_native_on_demand(d) && (READ_ONCE(d->cut) || dlend_native_outlived(d, fn)))
		return -EINVAL;
	return dlend_native_domain_decide(d);
}

/* Whoever attaches it hears of no error: the function is lost instead. */
static void dlend_native_join_or_lose(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	int err;

	guard(mutex)(&d->change);
	err = dlend_native_join(d, fn);
	if (!err)
		return;
	dlend_native_join_fails(fn, err);
	dlend_native_add_member(d, fn);
	dlend_native_lost(fn, "it does not reach this host's memory any more");
}

static int dlend_native_join_if(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	int err;

	guard(mutex)(&d->change);
	err = dlend_native_join(d, fn);
	if (err)
		dlend_native_join_fails(fn, err);
	return err;
}

int dlend_native_domain_join(struct iommu_domain *domain, struct dlend_native_fn *fn)
{
	struct dlend_native_domain *d = to_native_domain(domain), *before = fn->domain;
	int err;

	if (before == d)
		return 0;
	err = dlend_native_domain_may_join(d, fn);
	if (err)
		return err;
	/* A lender has one domain for a group: what the function reached is in the way. */
	dlend_native_domain_leave(fn);
	fn->why[0] = '\0';
	if (!dlend_native_on_demand(d)) {
		dlend_native_join_or_lose(d, fn);
		return 0;
	}
	err = dlend_native_join_if(d, fn);
	/* The IOMMU core takes it for being where it was. */
	if (err && before)
		dlend_native_join_or_lose(before, fn);
	return err;
}

int dlend_native_domain_prepare(struct dlend_native_fn *fn, struct dlend_native_fn *first)
{
	struct dlend_native_domain *d = first->prepared;
	int err = 0;

	if (!d) {
		d = dlend_native_domain_make(dlend_native_lease(fn)->ref.link);
		if (!d)
			return -ENOMEM;
	}
	mutex_lock(&d->change);
	fn->why[0] = '\0';
	if (!d->shift)
		err = dlend_native_domain_for_dma(d, fn);
	if (!err)
		err = dlend_native_join(d, fn);
	mutex_unlock(&d->change);
	if (!err) {
		fn->prepared = d;
		list_add_tail(&fn->in_prepared, &d->prepared_for);
		return 0;
	}
	dlend_native_join_fails(fn, err);
	if (d != first->prepared)
		dlend_native_domain_free(&d->domain);
	return err;
}

void dlend_native_domain_forget(struct dlend_native_fn *fn)
{
	struct dlend_native_domain *d = fn->prepared;

	/* The IOMMU core takes what it has found out of its domain. */
	if (!d && fn->pdev)
		return;
	dlend_native_domain_leave(fn);
	if (!d)
		return;
	fn->prepared = NULL;
	list_del_init(&fn->in_prepared);
	if (list_empty(&d->prepared_for))
		dlend_native_domain_free(&d->domain);
}

/* The domain that was prepared for the function, and for all of its lease; NULL: they have it. */
static struct dlend_native_domain *dlend_native_domain_prepared(struct dlend_native_fn *fn)
{
	struct dlend_native_domain *d = fn->prepared;
	struct dlend_native_fn *next;

	if (!d)
		return NULL;
	/* The core may have failed to find one of them, and taken it out of the domain. */
	list_for_each_entry_safe(fn, next, &d->prepared_for, in_prepared) {
		fn->prepared = NULL;
		list_del_init(&fn->in_prepared);
	}
	return d;
}

static const char dlend_native_silence[] =
	"another device reaches the same memory, and its lender does not say that it is stopped";

/* A lost link or lease has stopped a device; its lender's silence has not. */
static void dlend_native_silenced(struct dlend_native_domain *d)
{
	struct dlend_native_fn *other;

	d->silent = true;
	mutex_lock(&d->lock);
	dlend_native_segments_cut(d);
	mutex_unlock(&d->lock);
	list_for_each_entry(other, &d->members, in_domain)
		dlend_native_lost(other, dlend_native_silence);
}

void dlend_native_domain_leave(struct dlend_native_fn *fn)
{
	struct dlend_native_domain *d = fn->domain;
	bool silent;

	if (!d)
		return;
	guard(mutex)(&d->change);
	silent = dlend_native_tell_unmap(fn, 0, BIT_ULL(DLEND_NATIVE_ALL)) != 0;
	dlend_native_del_member(d, fn);
	if (silent)
		dlend_native_silenced(d);
}

void dlend_native_domain_cut(struct dlend_native_fn *fn)
{
	guard(mutex)(&fn->domain_lock);
	if (!fn->domain)
		return;
	guard(mutex)(&fn->domain->lock);
	dlend_native_member_ends(fn->domain, fn);
	if (!fn->domain->alive || dlend_lease_lost(dlend_native_lease(fn)))
		dlend_native_segments_cut(fn->domain);
}

/* What the IOMMU core calls (struct iommu_domain_ops) */

static int dlend_native_attach_dev(DLEND_ATTACH_DEV_ARGS)
{
	return dlend_native_domain_join(domain, dev_iommu_priv_get(dev));
}

/* Bytes from @iova on, of @size, that are in its segment. */
static u64 dlend_native_in_segment(const struct dlend_native_segment *seg, u64 iova, u64 size)
{
	if (iova < seg->first || iova - seg->first >= seg->size)
		return 0;
	return min(size, seg->size - (iova - seg->first));
}

/* RAM of this host, that is: a device's BAR cannot be reached over a link. */
static bool dlend_native_is_ram(phys_addr_t paddr)
{
	unsigned long pfn = PHYS_PFN(paddr);

	return pfn_valid(pfn) && !is_zone_device_page(pfn_to_page(pfn));
}

/* As much of @want, which is at that IO address, as is in one segment. Return: bytes, or -errno. */
static ssize_t dlend_native_map_some(struct dlend_native_domain *d, u64 iova,
				     const struct dlend_piece *want, gfp_t gfp)
{
	struct dlend_native_segment *seg = dlend_native_segment_use(d, iova, want->size);
	struct dlend_piece piece = *want;
	int err;

	/* One that is not in use yet may be given back at once. */
	while (!seg && dlend_native_on_demand(d)) {
		err = dlend_native_segment_demand(d, iova);
		if (err)
			return err;
		seg = dlend_native_segment_use(d, iova, want->size);
	}
	if (!seg)
		return -ENODEV;
	piece.size = dlend_native_in_segment(seg, iova, want->size);
	piece.offset = iova - seg->first;
	err = piece.size ? dlend_raw_slot_map(seg->raw, &piece, gfp) : -ERANGE;
	dlend_native_segment_unuse(seg, err ? want->size : want->size - piece.size);
	return err ?: piece.size;
}

static atomic64_t *dlend_native_pages(struct dlend_native_domain *d, size_t pgsize)
{
	return &d->pages[(ilog2(pgsize) - ilog2(SZ_4K)) / (ilog2(SZ_2M) - ilog2(SZ_4K))];
}

/* iommufd maps before it attaches the first device. Return: is it not known what it is for? */
static bool dlend_native_unknown(struct dlend_native_domain *d)
{
	if (READ_ONCE(d->shift))
		return false;
	if (iommu_is_dma_domain(&d->domain))
		return true;
	guard(mutex)(&d->change);
	return dlend_native_domain_decide(d);
}

static int dlend_native_map_pages(struct iommu_domain *domain, unsigned long iova,
				  phys_addr_t paddr, size_t pgsize, size_t pgcount, int prot,
				  gfp_t gfp, size_t *mapped)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	struct dlend_piece left = {
		.size = (u64)pgsize * pgcount,
		.phys = paddr,
		.prot = (prot & IOMMU_READ ? DLEND_PROT_READ : 0) |
			(prot & IOMMU_WRITE ? DLEND_PROT_WRITE : 0),
	};
	ssize_t some;

	if (dlend_native_unknown(d))
		return -ENODEV;
	if (prot & IOMMU_MMIO || !dlend_native_is_ram(paddr))
		return -EINVAL;
	for (; left.size; left.size -= some, left.phys += some, *mapped += some) {
		some = dlend_native_map_some(d, iova + (left.phys - paddr), &left, gfp);
		if (some < 0)
			return some;
	}
	if (dlend_native_on_demand(d))
		atomic64_add(pgcount, dlend_native_pages(d, pgsize));
	return 0;
}

/* Return: bytes, not more than are in one segment: the IOMMU core comes again for the rest. */
static size_t dlend_native_unmap_pages(struct iommu_domain *domain, unsigned long iova,
				       size_t pgsize, size_t pgcount,
				       struct iommu_iotlb_gather *gather)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	struct dlend_native_segment *seg = dlend_native_segment_use(d, iova, 0);
	u64 some;
	size_t done;

	if (!seg)
		return 0;
	some = dlend_native_in_segment(seg, iova, (u64)pgsize * pgcount);
	done = some ? dlend_raw_slot_unmap(seg->raw, iova - seg->first, some, gather) : 0;
	dlend_native_segment_unuse(seg, done);
	return done;
}

/* What was gathered may have been the last of a segment that was given back meanwhile. */
static void dlend_native_iotlb_sync(struct iommu_domain *domain, struct iommu_iotlb_gather *gather)
{
	/* Pairs with the release in dlend_native_segment_store(). */
	struct dlend_paging *reach = smp_load_acquire(&to_native_domain(domain)->reach);

	if (reach)
		dlend_raw_domain_sync(reach, gather);
}

/* For an administrator who sets a group's type to DMA-FQ: the IOMMU core does not ask before. */
static void dlend_native_flush_iotlb_all(struct iommu_domain *domain)
{
	/* Pairs with the release in dlend_native_segment_store(). */
	struct dlend_paging *reach = smp_load_acquire(&to_native_domain(domain)->reach);

	if (reach)
		dlend_raw_domain_flush(reach);
}

static phys_addr_t dlend_native_iova_to_phys(struct iommu_domain *domain, dma_addr_t iova)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	struct dlend_native_segment *seg = dlend_native_segment_use(d, iova, 1);
	phys_addr_t phys = 0;

	if (!seg)
		return 0;
	if (dlend_native_in_segment(seg, iova, 1))
		phys = dlend_raw_slot_phys(seg->raw, iova - seg->first);
	dlend_native_segment_unuse(seg, 1);
	return phys;
}

/* A lender turns No Snoop off in all that it lends. */
static bool dlend_native_enforce_coherency(struct iommu_domain *domain)
{
	return true;
}

static const struct iommu_domain_ops dlend_native_domain_ops = {
	.attach_dev = dlend_native_attach_dev,
	.map_pages = dlend_native_map_pages,
	.unmap_pages = dlend_native_unmap_pages,
	.iotlb_sync = dlend_native_iotlb_sync,
	.flush_iotlb_all = dlend_native_flush_iotlb_all,
	.iova_to_phys = dlend_native_iova_to_phys,
	.enforce_cache_coherency = dlend_native_enforce_coherency,
	.free = dlend_native_domain_free,
};

struct iommu_domain *dlend_native_domain_alloc(struct device *dev)
{
	struct dlend_native_fn *fn = dev_iommu_priv_get(dev);
	struct dlend_native_domain *d = dlend_native_domain_prepared(fn);

	if (!d)
		d = dlend_native_domain_make(dlend_native_lease(fn)->ref.link);
	return d ? &d->domain : NULL;
}

bool dlend_native_domain_of_vfio(struct dlend_native_fn *fn)
{
	guard(mutex)(&fn->domain_lock);
	return fn->domain && dlend_native_on_demand(fn->domain);
}

void dlend_native_domain_show(struct dlend_native_fn *fn, struct seq_file *m)
{
	struct dlend_native_segment *seg;
	struct dlend_native_domain *d;
	u64 used = 0, size = 0, n = 0;
	unsigned long number;

	guard(mutex)(&fn->domain_lock);
	d = fn->domain;
	if (!d)
		return;
	guard(mutex)(&d->lock);
	xa_for_each(&d->segments, number, seg) {
		used += max(atomic64_read(&seg->used), 0);
		size += seg->size;
		n++;
	}
	seq_printf(m, "dma: %s\nsegments: %llu\nsegment_bytes: %llu\nmapped_bytes: %llu\n",
		   dlend_native_on_demand(d) ? "vfio" : "driver", n, size, used);
	if (dlend_native_on_demand(d))
		seq_printf(m, "pages_4k: %lld\npages_2m: %lld\npages_1g: %lld\n",
			   atomic64_read(&d->pages[0]), atomic64_read(&d->pages[1]),
			   atomic64_read(&d->pages[2]));
}
