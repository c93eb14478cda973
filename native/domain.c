// SPDX-License-Identifier: GPL-2.0
/*
 * IOMMU domains of attached devices: their IOVAs, and what these lead to.
 *
 * IOVAs are divided into segments.  A segment has a raw slot (dlend/raw_slot.h) of the aperture
 * towards the lender, and the lender maps all of it at once: one message for each segment, not for
 * each page.  Which pages of the segment lead to memory is decided here, in the IOMMU domain of
 * this host's NTB.
 *
 *   IOVA S + x --lender's IOMMU--> lender's window + slot + x --this host's IOMMU--> RAM
 *
 * The kernel's own dma-iommu maps in atomic context.  So its domain has one segment, which is made
 * before the device is used, and a transfer costs no message and no copy.  VFIO may wait when it
 * maps the memory of a VM or of a program.  So in its domain a segment is made when the first page
 * of it is mapped, and given back when none is mapped and the room is needed.
 */
#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/device.h>
#include <linux/iommu.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/property.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sprintf.h>
#include <linux/xarray.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/link.h>
#include <dlend/proto.h>
#include <dlend/raw_slot.h>
#include "native.h"

/* Sizes of pages that may be mapped, as bits.  A page is never larger than a segment. */
#define DLEND_NATIVE_PAGES	((u64)(SZ_4K | SZ_2M | SZ_1G))

/* Devices send MSIs by writing to these addresses, so they are no IOVAs of memory. */
#define DLEND_NATIVE_MSI_FIRST	0xfee00000ull
#define DLEND_NATIVE_MSI_SIZE	((u64)SZ_2M)	/* with the addresses of direct interrupts */

#define DLEND_NATIVE_PAGE_SIZES	3

/*
 * struct dlend_native_domain - an IOMMU domain of attached devices
 * @domain: the IOMMU core's part
 * @link: the link to the lender of all its members, with a reference
 * @change: held while members or segments come and go, also while a lender is asked
 * @members: functions that reach what is mapped, by dlend_native_fn.in_domain; under @change
 * @lock: guards writes of @segments and @revoked, and @alive. Never held while a lender is asked
 * @alive: how many of @members have a lease that is not over
 * @segments: by number: IOVA >> @shift. Read under RCU, @change or @lock
 * @shift: a segment of VFIO's domain has 2 to the power of @shift bytes; DLEND_NATIVE_ALL: the
 *	domain is dma-iommu's, and has one segment; 0: not decided yet. Set once, under @change
 * @revoked: its segments are out of reach for good, and no new one is made. Read without a lock
 * @session: the link's session when the first of its segments was made; under @change
 * @raw: the NTB's domain, in which all segments are; and a domain without a device, which records
 *	what is mapped, at the same IOVAs as here. If this domain is VFIO's, a page is recorded when
 *	it is mapped. If it is dma-iommu's, which maps each transfer, pages are recorded when the
 *	segment is cut. All 0 while @shift is 0
 * @silent: a lender did not answer when it had to unmap, so it may still use the offsets of all
 *	segments; under @change
 * @pages: how many pages of 4 KiB, 2 MiB and 1 GiB the IOMMU core has mapped for VFIO so far. It
 *	unmaps in other sizes, so they are not subtracted. Atomic
 */
struct dlend_native_domain {
	struct iommu_domain domain;
	struct dlend_link *link;
	struct mutex change;		/* see above */
	struct list_head members;
	struct mutex lock;		/* see above */
	unsigned int alive;
	struct xarray segments;
	struct dlend_raw_domains raw;
	u64 session;
	unsigned int shift;
	bool revoked, silent;
	atomic64_t pages[DLEND_NATIVE_PAGE_SIZES];
};

/*
 * Does the lender's answer @err say that the lease is over?  Then it has fenced the device: the
 * lender does that before it answers so.
 */
static bool dlend_native_lender_fenced(int err)
{
	return err == -ESTALE || err == -ENODEV;
}

/* Add an entry for @size bytes at IOVA @first to the payload of a message; none if @size is 0. */
static void dlend_native_dma_add(struct dlend_p_dma *p, u64 first, u64 size, u64 offset)
{
	u32 n = le32_to_cpu(p->count);

	if (!size)
		return;
	p->entry[n].gpa = cpu_to_le64(first);
	p->entry[n].size = cpu_to_le64(size);
	p->entry[n].offset = cpu_to_le64(offset);
	p->entry[n].prot = cpu_to_le32(DLEND_PROT_READ | DLEND_PROT_WRITE);
	p->count = cpu_to_le32(n + 1);
}

/* Send DMA_MAP or DMA_UNMAP under the function's lease. Return: as dlend_link_call_in(). */
static int dlend_native_lender_call(struct dlend_native_fn *fn, enum dlend_msg_type type,
				    const struct dlend_p_dma *dma)
{
	struct dlend_lease *lease = fn->claim.lease;
	struct dlend_msg req;

	memcpy(dlend_msg_init(&req, type, &lease->addr, lease->epoch, sizeof(*dma)), dma,
	       sizeof(*dma));
	atomic64_inc(&fn->claim.messages);
	return dlend_link_call_in_core(&lease->ref, &req, NULL, 0);
}

/*
 * Have the lender map @size bytes of IOVAs from @first on, without the addresses of MSIs, to its
 * window. @offset: in this node's aperture. Return: 0; -ENOTCONN the link is down; or what the
 * lender answers, see dlend_native_lender_fenced().
 */
static int dlend_native_lender_map(struct dlend_native_fn *fn, u64 first, u64 size, u64 offset)
{
	u64 end = first + size, hole = clamp(DLEND_NATIVE_MSI_FIRST, first, end);
	u64 hole_end = clamp(DLEND_NATIVE_MSI_FIRST + DLEND_NATIVE_MSI_SIZE, first, end);
	struct dlend_p_dma dma = {};

	dlend_native_dma_add(&dma, first, hole - first, offset);
	dlend_native_dma_add(&dma, hole_end, end - hole_end, offset + (hole_end - first));
	return dlend_native_lender_call(fn, DLEND_MSG_DMA_MAP, &dma);
}

/*
 * Have the lender unmap a range of IOVAs. Return: true: the function reaches nothing there any
 * more; false: that is not known, as the lender did not answer, or the link is down.
 */
static bool dlend_native_lender_unmap(struct dlend_native_fn *fn, u64 first, u64 size)
{
	struct dlend_p_dma dma = {};
	int ret;

	dlend_native_dma_add(&dma, first, size, 0);
	ret = dlend_native_lender_call(fn, DLEND_MSG_DMA_UNMAP, &dma);
	return !ret || dlend_native_lender_fenced(ret);
}

/*
 * dlend_native_domain.shift of dma-iommu's domain: any IOVA >> this is 0, the only segment. Also as
 * a size, BIT_ULL(): all IOVAs.
 */
#define DLEND_NATIVE_ALL	63

/*
 * struct dlend_native_segment - a range of IOVAs that the lender has mapped
 * @rcu: frees it, as readers look segments up under RCU
 * @raw: the raw slot that it leads to
 * @first, @size: the range
 * @used: bytes that are mapped or are being mapped, so that it stays; negative: it is being given
 *	back, and must not be used any more. Atomic
 */
struct dlend_native_segment {
	struct rcu_head rcu;
	struct dlend_raw_slot *raw;
	u64 first, size;
	atomic64_t used;
};

/* Is it VFIO's domain, whose segments are made and given back on demand? Else it is dma-iommu's. */
static bool dlend_native_on_demand(const struct dlend_native_domain *d)
{
	return d->shift != DLEND_NATIVE_ALL;
}

/*
 * Add @bytes to the use of the segment at @iova, so that it stays. Return: the segment; NULL: there
 * is none, or it is being given back.
 */
static struct dlend_native_segment *dlend_native_segment_use(struct dlend_native_domain *d,
							     u64 iova, u64 bytes)
{
	struct dlend_native_segment *seg;
	s64 used;

	guard(rcu)();
	seg = xa_load(&d->segments, iova >> d->shift);
	if (!seg)
		return NULL;
	used = atomic64_read(&seg->used);
	do {
		if (used < 0)
			return NULL;
	} while (!atomic64_try_cmpxchg(&seg->used, &used, used + bytes));
	return seg;
}

/*
 * Have the lender unmap a segment for the members up to @until, that one included (NULL: for all).
 * Under change. Return: does none of these members reach it any more?
 */
static bool dlend_native_segment_unmap(struct dlend_native_domain *d,
				       struct dlend_native_segment *seg,
				       struct dlend_native_fn *until)
{
	struct dlend_native_fn *fn;
	bool acked = true;

	list_for_each_entry(fn, &d->members, in_domain) {
		acked &= dlend_native_lender_unmap(fn, seg->first, seg->size);
		if (fn == until)
			break;
	}
	return acked;
}

/* Have the lender map a segment for @fn. Return: as dlend_native_lender_map(). */
static int dlend_native_segment_map_one(struct dlend_native_fn *fn,
					const struct dlend_native_segment *seg)
{
	return dlend_native_lender_map(fn, seg->first, seg->size, dlend_raw_slot_offset(seg->raw));
}

/*
 * Have the lender map a segment for all members. Under change. @acked: (out) written on an error:
 * does no member reach it any more? Return: as dlend_native_lender_map().
 */
static int dlend_native_segment_map_all(struct dlend_native_domain *d,
					struct dlend_native_segment *seg, bool *acked)
{
	struct dlend_native_fn *fn;
	int err;

	list_for_each_entry(fn, &d->members, in_domain) {
		err = dlend_native_segment_map_one(fn, seg);
		/* The lease is over, and @fn will leave: no reason to fail the others. */
		if (dlend_native_lender_fenced(err))
			continue;
		if (err)
			goto unmap;
	}
	return 0;

unmap:
	/* @fn included: a lender that did not answer may have mapped it. */
	*acked = dlend_native_segment_unmap(d, seg, fn);
	return err;
}

/* Unmap all segments in the NTB's IOMMU, for good: no member reaches them then. Under lock. */
static void dlend_native_segments_revoke(struct dlend_native_domain *d)
{
	struct dlend_native_segment *seg;
	unsigned long number;

	lockdep_assert_held(&d->lock);
	WRITE_ONCE(d->revoked, true);
	xa_for_each(&d->segments, number, seg)
		dlend_raw_slot_revoke(seg->raw);
}

/* @acked: false: the lender may still use the segment's offsets, so they go into quarantine. */
static void dlend_native_segment_free(struct dlend_native_segment *seg, bool acked)
{
	dlend_raw_slot_close(seg->raw, acked);
	kfree_rcu(seg, rcu);
}

/* Give unused segments of VFIO's domain back. Under change. Return: was there one? */
static bool dlend_native_segments_free_unused(struct dlend_native_domain *d)
{
	struct dlend_native_segment *seg;
	bool any = false, acked;
	unsigned long number;

	if (!dlend_native_on_demand(d))
		return false;
	xa_for_each(&d->segments, number, seg) {
		if (atomic64_cmpxchg(&seg->used, 0, S64_MIN))
			continue;
		mutex_lock(&d->lock);
		xa_erase(&d->segments, number);
		mutex_unlock(&d->lock);
		acked = dlend_native_segment_unmap(d, seg, NULL) && !d->silent;
		dlend_native_segment_free(seg, acked);
		any = true;
	}
	return any;
}

/* Reserve offsets for a segment; if there are too few, give unused segments back. Under change. */
static struct dlend_raw_slot *dlend_native_segment_reserve(struct dlend_native_domain *d, u64 first,
							   u64 size)
{
	struct dlend_aperture *ap = dlend_link_aperture(d->link);
	struct dlend_raw_slot *raw;

	if (!ap)
		return ERR_PTR(-ENODEV);
	raw = dlend_raw_slot_open(&d->raw, ap, first, size);
	if (PTR_ERR_OR_ZERO(raw) == -ENOSPC && dlend_native_segments_free_unused(d))
		raw = dlend_raw_slot_open(&d->raw, ap, first, size);
	return raw;
}

/*
 * Add a segment to the domain, unless the domain was revoked.  If it is revoked later, that
 * includes this segment.
 */
static int dlend_native_segment_store(struct dlend_native_domain *d,
				      struct dlend_native_segment *seg)
{
	guard(mutex)(&d->lock);
	if (d->revoked)
		return -ENODEV;
	if (xa_empty(&d->segments))
		d->session = dlend_link_session(d->link);
	/*
	 * GFP_NOIO: dlend_native_domain_revoke() takes this lock, too, and must not wait for I/O.
	 */
	return xa_err(xa_store(&d->segments, seg->first >> d->shift, seg,
			       GFP_NOIO | __GFP_ACCOUNT));
}

/*
 * Make a segment of @size bytes at IOVA @first that all members reach. Under change. Return: 0;
 * -ENOSPC the aperture has no room; -ENODEV the link is down, or the domain was revoked; -ENOMEM;
 * or what the lender answers.
 */
static int dlend_native_segment_make(struct dlend_native_domain *d, u64 first, u64 size)
{
	struct dlend_native_segment *seg = kzalloc_obj(*seg, GFP_KERNEL_ACCOUNT);
	bool acked;
	int err;

	if (!seg)
		return -ENOMEM;
	seg->first = first;
	seg->size = size;
	seg->raw = dlend_native_segment_reserve(d, first, size);
	if (IS_ERR(seg->raw)) {
		err = PTR_ERR(seg->raw);
		goto free_seg;
	}
	err = dlend_native_segment_map_all(d, seg, &acked);
	if (err)
		goto close_slot;
	err = dlend_native_segment_store(d, seg);
	if (!err)
		return 0;
	acked = dlend_native_segment_unmap(d, seg, NULL);
close_slot:
	/* If the lender did not answer, it may use the offsets: then they go into quarantine. */
	dlend_raw_slot_close(seg->raw, acked && !d->silent);
free_seg:
	kfree(seg);
	return err;
}

/* Write into @why that there is no room for a segment of @more bytes. Under change. */
static void dlend_native_segment_no_room(struct dlend_native_domain *d, u64 more, char *why)
{
	struct dlend_aperture_stat st = dlend_aperture_stat(dlend_link_aperture(d->link));
	struct dlend_native_segment *seg;
	unsigned long number;
	u64 mine = 0;

	xa_for_each(&d->segments, number, seg)
		mine += seg->size;
	snprintf(why, DLEND_REASON_LEN,
		 "the window of node %u (%llu MiB) has no %llu MiB more for its memory: it has %llu MiB, %llu MiB are free, %llu MiB of them in one piece; return other devices",
		 dlend_link_peer(d->link), st.size >> 20, more >> 20, mine >> 20, st.free >> 20,
		 st.largest_free >> 20);
}

/*
 * Make the segment at @iova, for the first page that VFIO maps there. Takes change. Return: 0, also
 * if another thread has made it before; or as dlend_native_segment_make().
 */
static int dlend_native_segment_demand(struct dlend_native_domain *d, u64 iova)
{
	u64 size = BIT_ULL(d->shift), first = ALIGN_DOWN(iova, size);
	char why[DLEND_REASON_LEN];
	int err;

	guard(mutex)(&d->change);
	if (xa_load(&d->segments, iova >> d->shift))
		return 0;
	err = READ_ONCE(d->revoked) ? -ENODEV : dlend_native_segment_make(d, first, size);
	if (err == -ENOSPC && !READ_ONCE(d->revoked)) {
		dlend_native_segment_no_room(d, size, why);
		dev_err_ratelimited(dlend_link_dev(d->link),
				    "a VM's or a program's device: %s, or attach with a smaller dlend_native.dma_mib, which an attached device keeps for this host's own drivers\n",
				    why);
	}
	return err;
}

/*
 * dma-iommu's IOVAs begin at FIRST: so address 0, or one near it, which only a driver's error can
 * lead to, is not mapped.  They end below the addresses of 32-bit BARs (root.c) and of MSIs, so
 * that devices with 32-bit addresses work.
 */
#define DLEND_NATIVE_DMA_FIRST	((u64)SZ_256M)
#define DLEND_NATIVE_DMA_MOST	(3 * (u64)SZ_1G + SZ_512M - SZ_256M)
#define DLEND_NATIVE_DMA_LEAST	((u64)SZ_16M)
/* Bits of VFIO's IOVAs.  If the lender's IOMMU has fewer, DMA_MAP fails. */
#define DLEND_NATIVE_BITS	48
/*
 * The aperture's size divided by this is the size of a segment in VFIO's domain.  Where a VM's
 * memory begins or ends within a segment, the rest of the segment is wasted.
 */
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

/* Set the IOVAs that the IOMMU core may use: @first to @last. */
static void dlend_native_domain_range(struct dlend_native_domain *d, u64 first, u64 last)
{
	d->domain.geometry.aperture_start = first;
	d->domain.geometry.aperture_end = last;
	d->domain.geometry.force_aperture = true;
}

/* Make a domain for functions behind @link; it is decided later if it is dma-iommu's or VFIO's. */
static struct dlend_native_domain *dlend_native_domain_make(struct dlend_link *link)
{
	struct dlend_native_domain *d = kzalloc_obj(*d, GFP_KERNEL_ACCOUNT);

	if (!d)
		return NULL;
	/*
	 * A reference to this module: iommufd may keep a domain longer than the last device, which
	 * has a reference, too.
	 */
	__module_get(THIS_MODULE);
	d->link = dlend_link_get(link);
	mutex_init(&d->change);
	mutex_init(&d->lock);
	INIT_LIST_HEAD(&d->members);
	xa_init(&d->segments);
	d->domain.ops = &dlend_native_domain_ops;
	d->domain.pgsize_bitmap = DLEND_NATIVE_PAGES;
	dlend_native_domain_range(d, 0, DMA_BIT_MASK(DLEND_NATIVE_BITS));
	return d;
}

/* What the domain is for */

static u64 dlend_native_aperture_bytes(struct dlend_link *link)
{
	return dlend_aperture_stat(dlend_link_aperture(link)).size;
}

/*
 * Get @d->raw, unless it is there. Under change. All segments share it, as a link has one aperture.
 * @for_dma: the domain is dma-iommu's. Return: 0; -ENODEV the link is down; or as
 * dlend_raw_domains_get().
 */
static int dlend_native_domain_open(struct dlend_native_domain *d, bool for_dma)
{
	struct dlend_aperture *ap = dlend_link_aperture(d->link);

	if (d->raw.reach)
		return 0;
	return ap ? dlend_raw_domains_get(&d->raw, ap, for_dma) : -ENODEV;
}

/*
 * Decide that the domain is dma-iommu's, and make its only segment. Under change. @fn: gets the
 * reason if there is no room. Return: as dlend_native_segment_make().
 */
static int dlend_native_domain_for_dma(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	char why[DLEND_REASON_LEN];
	u64 size = (u64)READ_ONCE(dma_mib) << 20;
	int err = dlend_native_domain_open(d, true /* dma-iommu's */);

	if (err)
		return err;
	if (!size)
		size = min_t(u64, dlend_native_aperture_bytes(d->link) / 4, SZ_2G);
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

/* Members */

/* Under change. List @fn as a member: the lender has mapped all segments for it, or it is lost. */
static void dlend_native_add_member(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	list_add_tail(&fn->in_domain, &d->members);
	guard(mutex)(&fn->domain_lock);
	guard(mutex)(&d->lock);
	d->alive++;
	fn->domain_alive = true;
	fn->domain = d;
}

/* Under domain_lock and lock: the lease of @fn is over, so it does not count in @alive any more. */
static void dlend_native_member_ends(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	lockdep_assert_held(&d->lock);
	d->alive -= fn->domain_alive;
	fn->domain_alive = false;
}

static const char dlend_native_silence[] =
	"another device reaches the same memory, and its lender does not say that it is stopped";

/*
 * Under change; waits for the lender.  The function reaches nothing any more when this returns.  If
 * the lender does not say that it has unmapped, the device may go on: then the segments are
 * unmapped in this host's IOMMU.  That cuts off all other members, too, so they are lost.
 */
static void dlend_native_del_member(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	bool stopped = dlend_native_lender_unmap(fn, 0, BIT_ULL(DLEND_NATIVE_ALL));
	struct dlend_native_fn *other;

	list_del_init(&fn->in_domain);
	scoped_guard(mutex, &fn->domain_lock) {
		guard(mutex)(&d->lock);
		dlend_native_member_ends(d, fn);
		fn->domain = NULL;
		if (!stopped)
			dlend_native_segments_revoke(d);
	}
	if (stopped)
		return;
	d->silent = true;
	list_for_each_entry(other, &d->members, in_domain)
		dlend_native_lost(other, dlend_native_silence);
}

/*
 * iommu_domain_ops.free.  A domain normally has no member then.  But if the IOMMU core cannot
 * attach a domain to a group, it attaches the previous domain again, and frees the new one.  If it
 * could not attach the previous domain for one of the functions, the core has logged a warning, and
 * that function is still a member here.
 */
static void dlend_native_domain_free(struct iommu_domain *domain)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	struct dlend_native_segment *seg;
	struct dlend_native_fn *fn, *next;
	unsigned long number;

	scoped_guard(mutex, &d->change) {
		list_for_each_entry_safe(fn, next, &d->members, in_domain) {
			dlend_native_del_member(d, fn);
			dlend_native_lost(fn, "it does not reach this host's memory any more");
		}
	}
	xa_for_each(&d->segments, number, seg)
		dlend_native_segment_free(seg, !d->silent);
	xa_destroy(&d->segments);
	dlend_raw_domains_put(&d->raw);
	dlend_link_put(d->link);
	kfree(d);
	module_put(THIS_MODULE);
}

/* Note and log why a function cannot join a domain, unless that was noted before. */
static void dlend_native_join_fails(struct dlend_native_fn *fn, int err)
{
	if (err == -EOPNOTSUPP)
		dlend_native_fn_fails(fn,
				      "this host's IOMMU does not translate for its NTB: turn it on");
	else if (!fn->why[0])
		dlend_native_fn_fails(fn, "node %u does not let it reach this host's memory (%pe)",
				      fn->claim.lease->addr.lender, ERR_PTR(err));
}

/*
 * Have the lender map all segments for a function, and make it a member. Under change; waits for
 * the lender. Return: 0; -ENODEV the domain was revoked; or as dlend_native_lender_map().
 */
static int dlend_native_join(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	struct dlend_native_segment *seg;
	unsigned long number;
	int err;

	/* The segments are out of reach for good. */
	if (READ_ONCE(d->revoked))
		return -ENODEV;
	/* The first member must not fail because the lender cannot map a segment that is unused. */
	if (list_empty(&d->members))
		dlend_native_segments_free_unused(d);
	xa_for_each(&d->segments, number, seg) {
		err = dlend_native_segment_map_one(fn, seg);
		if (err)
			goto unmap;
	}
	dlend_native_add_member(d, fn);
	/*
	 * If the lease ended before fn->domain was set, dlend_native_domain_revoke() did nothing.
	 */
	if (dlend_lease_over(fn->claim.lease))
		dlend_native_domain_revoke(fn);
	return 0;

unmap:
	if (!dlend_native_lender_unmap(fn, 0, BIT_ULL(DLEND_NATIVE_ALL)))
		d->silent = true;
	return err;
}

/*
 * Under change. Decide whom a domain is for, if that is open: one that was not prepared for
 * dma-iommu is VFIO's. Return: 0; -EBUSY it should be dma-iommu's, and was not prepared; or as
 * dlend_native_domain_open().
 */
static int dlend_native_domain_decide(struct dlend_native_domain *d)
{
	u64 part = dlend_native_aperture_bytes(d->link) / DLEND_NATIVE_SEGMENTS;
	u64 size = clamp(rounddown_pow_of_two(part | 1), (u64)SZ_2M, (u64)SZ_1G);
	int err;

	if (d->shift)
		return 0;
	/*
	 * An administrator has set the group's type in sysfs, so the core makes a new DMA domain.
	 */
	if (iommu_is_dma_domain(&d->domain))
		return -EBUSY;
	err = dlend_native_domain_open(d, false /* VFIO's */);
	if (err)
		return err;
	dlend_native_domain_range(d, 0, min(d->domain.geometry.aperture_end,
					    d->raw.memory->geometry.aperture_end));
	d->domain.pgsize_bitmap = DLEND_NATIVE_PAGES & (2 * size - 1);
	/* Pairs with the acquire in dlend_native_domain_undecided(). */
	smp_store_release(&d->shift, ilog2(size));
	return 0;
}

/*
 * Has a domain without a member kept its pages since an earlier session of the link?  Its slots
 * were allocated in that session, and only slots of the present one go into quarantine, which is
 * needed if the lender does not answer (dlend_slot_free()).
 */
static bool dlend_native_domain_outlived(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	if (!list_empty(&d->members))
		return false;
	dlend_native_segments_free_unused(d);
	return !xa_empty(&d->segments) && d->session != fn->claim.lease->ref.session;
}

/*
 * May the function join the domain?  Called before the function leaves its own domain. Takes
 * change. Return: 0; -EINVAL another domain may do; or as dlend_native_domain_decide().
 */
static int dlend_native_domain_may_join(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	guard(mutex)(&d->change);
	/* On -EINVAL, VFIO and iommufd try another domain. */
	if (fn->claim.lease->ref.link != d->link)
		return -EINVAL;
	if (dlend_native_on_demand(d) &&
	    (READ_ONCE(d->revoked) || dlend_native_domain_outlived(d, fn)))
		return -EINVAL;
	return dlend_native_domain_decide(d);
}

/*
 * Make a function a member. Takes change. @must: the IOMMU core expects no error, so on a failure
 * the function becomes a member all the same, is lost, and 0 is returned.
 */
static int dlend_native_join_now(struct dlend_native_domain *d, struct dlend_native_fn *fn,
				 bool must)
{
	int err;

	guard(mutex)(&d->change);
	err = dlend_native_join(d, fn);
	if (!err)
		return 0;
	dlend_native_join_fails(fn, err);
	if (!must)
		return err;
	dlend_native_add_member(d, fn);
	dlend_native_lost(fn, "it does not reach this host's memory any more");
	return 0;
}

/* Remove a function from its domain, if it is in one. Takes change; waits for the lender. */
static void dlend_native_domain_leave(struct dlend_native_fn *fn)
{
	struct dlend_native_domain *d = fn->domain;

	if (!d)
		return;
	guard(mutex)(&d->change);
	dlend_native_del_member(d, fn);
}

int dlend_native_domain_prepare(struct dlend_native_fn *fn)
{
	struct dlend_native_root *root = fn->root;
	struct dlend_native_domain *d;
	int err = 0;

	d = root->prepared ?: dlend_native_domain_make(fn->claim.lease->ref.link);
	if (!d)
		return -ENOMEM;
	root->prepared = d;
	guard(mutex)(&d->change);
	fn->why[0] = '\0';
	if (!d->shift)
		err = dlend_native_domain_for_dma(d, fn);
	if (!err)
		err = dlend_native_join(d, fn);
	if (err)
		dlend_native_join_fails(fn, err);
	return err;
}

void dlend_native_domain_forget(struct dlend_native_root *root)
{
	struct dlend_native_domain *d = root->prepared;
	struct dlend_native_fn *fn;

	for (unsigned int i = 0; i < DLEND_NATIVE_DEVFNS; i++) {
		fn = root->fn[i];
		/* The IOMMU core removes functions that it has probed from their domain. */
		if (fn && (d || !fn->pdev))
			dlend_native_domain_leave(fn);
	}
	root->prepared = NULL;
	if (d)
		dlend_native_domain_free(&d->domain);
}

void dlend_native_domain_revoke(struct dlend_native_fn *fn)
{
	guard(mutex)(&fn->domain_lock);
	if (!fn->domain)
		return;
	guard(mutex)(&fn->domain->lock);
	dlend_native_member_ends(fn->domain, fn);
	if (!fn->domain->alive || dlend_lease_lost(fn->claim.lease))
		dlend_native_segments_revoke(fn->domain);
}

/* What the IOMMU core calls (struct iommu_domain_ops) */

/* attach_dev: move a function from its domain to this one. Under the IOMMU group's mutex. */
static int dlend_native_attach_dev(DLEND_ATTACH_DEV_ARGS)
{
	struct dlend_native_fn *fn = dev_iommu_priv_get(dev);
	struct dlend_native_domain *d = to_native_domain(domain), *before = fn->domain;
	int err;

	if (before == d)
		return 0;
	err = dlend_native_domain_may_join(d, fn);
	if (err)
		return err;
	/* The lender has one IOMMU domain for a group, so the old mappings must go first. */
	dlend_native_domain_leave(fn);
	fn->why[0] = '\0';
	err = dlend_native_join_now(d, fn, !dlend_native_on_demand(d));
	/* After an error, the IOMMU core assumes that the function is still in the old domain. */
	if (err && before)
		dlend_native_join_now(before, fn, true /* must */);
	return err;
}

/*
 * How many of the @size bytes from @iova on are in one segment? @seg: the segment; NULL: there is
 * none, so the limits of the segment that would be there count.
 */
static u64 dlend_native_in_segment(const struct dlend_native_domain *d,
				   const struct dlend_native_segment *seg, u64 iova, u64 size)
{
	u64 bytes = seg ? seg->size : BIT_ULL(d->shift);
	u64 first = seg ? seg->first : ALIGN_DOWN(iova, bytes);

	if (iova < first || iova - first >= bytes)
		return 0;
	return min(size, bytes - (iova - first));
}

/* Is it RAM of this host?  A BAR of a device cannot be reached over a link. */
static bool dlend_native_is_ram(phys_addr_t paddr)
{
	unsigned long pfn = PHYS_PFN(paddr);

	return pfn_valid(pfn) && !is_zone_device_page(pfn_to_page(pfn));
}

/*
 * Map a piece that is within one segment. @seg: NULL: there is none, as the domain is revoked: only
 * record the mapping, for iova_to_phys() and unmap_pages().
 */
static int dlend_native_map_in(struct dlend_native_domain *d, struct dlend_native_segment *seg,
			       u64 iova, struct dlend_piece *piece, gfp_t gfp)
{
	if (!seg)
		return iommu_map(d->raw.memory, iova, piece->phys, piece->size,
				 IOMMU_READ | IOMMU_WRITE, gfp);
	piece->offset = iova - seg->first;
	return dlend_raw_slot_map(seg->raw, piece, gfp);
}

/*
 * Map as much of @want at @iova as is in one segment.  A revoked domain may have no segment there:
 * its user goes on mapping until it has noticed that the device is lost. Return: bytes, or -errno.
 */
static ssize_t dlend_native_map_some(struct dlend_native_domain *d, u64 iova,
				     const struct dlend_piece *want, gfp_t gfp)
{
	struct dlend_native_segment *seg = dlend_native_segment_use(d, iova, want->size);
	struct dlend_piece piece = *want;
	int err;

	/* In a loop: another thread may give a new segment back before it is in use. */
	while (!seg && !READ_ONCE(d->revoked)) {
		err = dlend_native_on_demand(d) ? dlend_native_segment_demand(d, iova) : -ENODEV;
		if (err && !READ_ONCE(d->revoked))
			return err;
		seg = dlend_native_segment_use(d, iova, want->size);
	}
	piece.size = dlend_native_in_segment(d, seg, iova, want->size);
	err = piece.size ? dlend_native_map_in(d, seg, iova, &piece, gfp) : -ERANGE;
	if (seg)
		atomic64_sub(err ? want->size : want->size - piece.size, &seg->used);
	return err ?: piece.size;
}

/*
 * Is it still open whether the domain is dma-iommu's or VFIO's, or can it not be decided?  iommufd
 * maps before it attaches the first device: then it is VFIO's. May take change.
 */
static bool dlend_native_domain_undecided(struct dlend_native_domain *d)
{
	/* Pairs with the release in dlend_native_domain_decide(). */
	if (smp_load_acquire(&d->shift))
		return false;
	if (iommu_is_dma_domain(&d->domain))
		return true;
	guard(mutex)(&d->change);
	return dlend_native_domain_decide(d);
}

/* Map RAM only. On an error, @mapped says how much is mapped, which the IOMMU core unmaps. */
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

	if (dlend_native_domain_undecided(d))
		return -ENODEV;
	if (prot & IOMMU_MMIO || !dlend_native_is_ram(paddr))
		return -EINVAL;
	for (; left.size; left.size -= some, left.phys += some, *mapped += some) {
		some = dlend_native_map_some(d, iova + (left.phys - paddr), &left, gfp);
		if (some < 0)
			return some;
	}
	if (dlend_native_on_demand(d))
		/* Each size is 512 times the one before. */
		atomic64_add(pgcount, &d->pages[(ilog2(pgsize) - ilog2(SZ_4K)) / 9]);
	return 0;
}

/*
 * Unmap what is within one segment: the IOMMU core calls again for the rest. Return: bytes; the
 * IOTLB is flushed later by @gather.
 */
static size_t dlend_native_unmap_pages(struct iommu_domain *domain, unsigned long iova,
				       size_t pgsize, size_t pgcount,
				       struct iommu_iotlb_gather *gather)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	struct dlend_native_segment *seg = dlend_native_segment_use(d, iova, 0);
	u64 some = dlend_native_in_segment(d, seg, iova, (u64)pgsize * pgcount);
	size_t done;

	if (!some || !d->raw.memory)
		return 0;
	if (!seg)
		return iommu_unmap(d->raw.memory, iova, some);
	done = dlend_raw_slot_unmap(seg->raw, iova - seg->first, some, gather);
	atomic64_sub(done, &seg->used);
	return done;
}

/*
 * Flush in the NTB's domain as a whole, not by segment: the segment of what was gathered may have
 * been given back by now.
 */
static void dlend_native_iotlb_sync(struct iommu_domain *domain, struct iommu_iotlb_gather *gather)
{
	struct dlend_native_domain *d = to_native_domain(domain);

	if (d->raw.reach)
		iommu_iotlb_sync(d->raw.reach, gather);
}

/* The IOMMU core calls this if an administrator sets a group's type to DMA-FQ. */
static void dlend_native_flush_iotlb_all(struct iommu_domain *domain)
{
	struct dlend_native_domain *d = to_native_domain(domain);

	if (d->raw.reach)
		iommu_flush_iotlb_all(d->raw.reach);
}

static phys_addr_t dlend_native_iova_to_phys(struct iommu_domain *domain, dma_addr_t iova)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	struct dlend_native_segment *seg;

	if (!d->raw.memory)
		return 0;
	if (dlend_native_on_demand(d))
		return iommu_iova_to_phys(d->raw.memory, iova);
	/* The one segment stays as long as the domain. */
	seg = xa_load(&d->segments, 0);
	if (!seg || !dlend_native_in_segment(d, seg, iova, PAGE_SIZE))
		return 0;
	return dlend_raw_slot_phys(seg->raw, iova - seg->first);
}

/* Always true: lenders clear Enable No Snoop in all devices that they lend. */
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

/*
 * iommu_ops.domain_alloc_paging. Return: the prepared domain, when the core asks for the default
 * domain of a new group; later a new one; NULL without memory. Nothing is mapped in it.
 */
static struct iommu_domain *dlend_native_domain_alloc(struct device *dev)
{
	struct dlend_native_fn *fn = dev_iommu_priv_get(dev);
	struct dlend_native_domain *d = fn->root->prepared;

	/* The core attaches this domain to all functions of the lease. */
	fn->root->prepared = NULL;
	if (!d)
		d = dlend_native_domain_make(fn->claim.lease->ref.link);
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

/*
 * IOMMU driver of attached devices (struct iommu_ops): it makes the domains of dma-iommu and VFIO.
 */

static struct iommu_device dlend_native_iommu;
static struct platform_device *dlend_native_iommu_dev;

/* attach_dev of the blocking domain: the function reaches nothing when this returns. */
static int dlend_native_block_dev(DLEND_ATTACH_DEV_ARGS)
{
	dlend_native_domain_leave(dev_iommu_priv_get(dev));
	return 0;
}

static const struct iommu_domain_ops dlend_native_blocked_ops = {
	.attach_dev = dlend_native_block_dev,
};

static struct iommu_domain dlend_native_blocked = {
	.type = IOMMU_DOMAIN_BLOCKED,
	.ops = &dlend_native_blocked_ops,
};

static bool dlend_native_capable(struct device *dev, enum iommu_cap cap)
{
	return cap == IOMMU_CAP_CACHE_COHERENCY;
}

/* Only functions on root buses of dlend's are behind this IOMMU. */
static struct iommu_device *dlend_native_probe_device(struct device *dev)
{
	struct dlend_native_fn *fn;

	if (!dev_is_pci(dev))
		return ERR_PTR(-ENODEV);
	fn = dlend_native_fn_of(to_pci_dev(dev));
	if (!fn)
		return ERR_PTR(-ENODEV);
	dev_iommu_priv_set(dev, fn);
	return &dlend_native_iommu;
}

/* The IOMMU core forgets a function, as its device is being removed. */
static void dlend_native_release_device(struct device *dev)
{
	dlend_native_domain_leave(dev_iommu_priv_get(dev));
}

/* One group for all functions of a root bus: they have one lease. */
static struct iommu_group *dlend_native_device_group(struct device *dev)
{
	struct dlend_native_root *root = dlend_native_fn_of(to_pci_dev(dev))->root;
	struct iommu_group *group = root->group ?: iommu_group_alloc();

	if (IS_ERR(group))
		return group;
	root->group = group;
	return iommu_group_ref_get(group);
}

static int dlend_native_def_domain_type(struct device *dev)
{
	return IOMMU_DOMAIN_DMA;
}

/* The addresses of MSIs: dma-iommu and VFIO must not use them as IOVAs. */
static void dlend_native_get_resv_regions(struct device *dev, struct list_head *list)
{
	struct iommu_resv_region *region;

	region = iommu_alloc_resv_region(DLEND_NATIVE_MSI_FIRST, DLEND_NATIVE_MSI_SIZE, 0,
					 IOMMU_RESV_MSI, GFP_KERNEL);
	if (region)
		list_add_tail(&region->list, list);
}

static const struct iommu_ops dlend_native_iommu_ops = {
	.capable = dlend_native_capable,
	.domain_alloc_paging = dlend_native_domain_alloc,
	.probe_device = dlend_native_probe_device,
	.release_device = dlend_native_release_device,
	.device_group = dlend_native_device_group,
	.def_domain_type = dlend_native_def_domain_type,
	.get_resv_regions = dlend_native_get_resv_regions,
	.blocked_domain = &dlend_native_blocked,
	.release_domain = &dlend_native_blocked,
	.owner = THIS_MODULE,
	DLEND_IOMMU_OPS_PGSIZE(DLEND_NATIVE_PAGES)
};

/*
 * This does what iommu_fwspec_init() does, which needs a lock of the IOMMU core's that no module
 * can take.  The lock keeps two threads from setting @dev->iommu at once: the core sets it for each
 * device when the driver of another IOMMU is registered.  cmpxchg() is used here instead.  If the
 * core was first, this fails, and the device gets no IOMMU: dlend_native_root_scan() sees that.
 */
void dlend_native_iommu_add(struct device *dev)
{
	struct iommu_fwspec *fwspec = kzalloc(struct_size(fwspec, ids, 1), GFP_KERNEL);
	struct dev_iommu *param = kzalloc_obj(*param);
	int err = -ENOMEM;

	if (!fwspec || !param)
		goto free;
	mutex_init(&param->lock);
	param->fwspec = fwspec;
	fwspec->iommu_fwnode = fwnode_handle_get(dev_fwnode(&dlend_native_iommu_dev->dev));
	if (!cmpxchg(&dev->iommu, NULL, param))
		return;
	fwnode_handle_put(fwspec->iommu_fwnode);
	err = -EBUSY;
free:
	dev_err(dev, "cannot be given our IOMMU (%pe)\n", ERR_PTR(err));
	kfree(param);
	kfree(fwspec);
}

int dlend_native_iommu_init(void)
{
	/* A software node, by which the IOMMU core knows the driver. */
	const struct platform_device_info info = {
		.name = "dlend-iommu",
		.id = PLATFORM_DEVID_NONE,
		.properties = (const struct property_entry[]){ {} },
	};
	struct platform_device *pdev = platform_device_register_full(&info);
	int ret;

	if (IS_ERR(pdev))
		return PTR_ERR(pdev);
	dlend_native_iommu_dev = pdev;
	ret = iommu_device_sysfs_add(&dlend_native_iommu, &pdev->dev, NULL, "dlend");
	if (ret)
		goto remove_dev;
	ret = iommu_device_register(&dlend_native_iommu, &dlend_native_iommu_ops, &pdev->dev);
	if (!ret)
		return 0;
	iommu_device_sysfs_remove(&dlend_native_iommu);
remove_dev:
	platform_device_unregister(pdev);
	return ret;
}

void dlend_native_iommu_exit(void)
{
	iommu_device_unregister(&dlend_native_iommu);
	iommu_device_sysfs_remove(&dlend_native_iommu);
	platform_device_unregister(dlend_native_iommu_dev);
}
