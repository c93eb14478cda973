// SPDX-License-Identifier: GPL-2.0
/*
 * Segments of a domain's IO addresses: see segment.h.
 *
 * Must not know pages, nor who uses the addresses for what.
 */
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/slab.h>
#include <linux/sprintf.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/raw_slot.h>
#include "fn.h"
#include "segment.h"
#include "tell.h"

static u64 dlend_native_segment_number(const struct dlend_native_domain *d, u64 iova)
{
	return iova >> d->shift;
}

struct dlend_native_segment *dlend_native_segment_use(struct dlend_native_domain *d, u64 iova,
						      u64 bytes)
{
	struct dlend_native_segment *seg;
	s64 used;

	guard(rcu)();
	seg = xa_load(&d->segments, dlend_native_segment_number(d, iova));
	if (!seg)
		return NULL;
	used = atomic64_read(&seg->used);
	do {
		if (used < 0)
			return NULL;
	} while (!atomic64_try_cmpxchg(&seg->used, &used, used + bytes));
	return seg;
}

void dlend_native_segment_unuse(struct dlend_native_segment *seg, u64 bytes)
{
	atomic64_sub(bytes, &seg->used);
}

/* The members up to @until (NULL: all of them) do not reach it any more. */
static bool dlend_native_segment_hide(struct dlend_native_domain *d,
				      struct dlend_native_segment *seg,
				      struct dlend_native_fn *until)
{
	struct dlend_native_fn *fn;
	bool silent = false;

	list_for_each_entry(fn, &d->members, in_domain) {
		silent |= dlend_native_tell_unmap(fn, seg->first, seg->size) != 0;
		if (fn == until)
			break;
	}
	return !silent;
}

int dlend_native_segment_tell(struct dlend_native_fn *fn, const struct dlend_native_segment *seg)
{
	return dlend_native_tell_map(fn, seg->first, seg->size, dlend_raw_slot_offset(seg->raw));
}

/* @hidden: (out) if it fails: no member reaches it */
static int dlend_native_segment_show(struct dlend_native_domain *d,
				     struct dlend_native_segment *seg, bool *hidden)
{
	struct dlend_native_fn *fn;
	int err;

	list_for_each_entry(fn, &d->members, in_domain) {
		err = dlend_native_segment_tell(fn, seg);
		/* Its lease is over, and it is on its way out: no reason to fail the others. */
		if (dlend_native_tell_over(err))
			continue;
		if (err)
			goto hide;
	}
	return 0;

hide:
	/* One that did not answer may have mapped it. */
	*hidden = dlend_native_segment_hide(d, seg, fn);
	return err;
}

void dlend_native_segments_cut(struct dlend_native_domain *d)
{
	struct dlend_native_segment *seg;
	unsigned long number;

	lockdep_assert_held(&d->lock);
	WRITE_ONCE(d->cut, true);
	xa_for_each(&d->segments, number, seg)
		dlend_raw_slot_cut(seg->raw);
}

void dlend_native_segment_free(struct dlend_native_segment *seg, bool acked)
{
	dlend_raw_slot_close(seg->raw, acked);
	kfree_rcu(seg, rcu);
}

bool dlend_native_segments_shed(struct dlend_native_domain *d)
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
		acked = dlend_native_segment_hide(d, seg, NULL) && !d->silent;
		dlend_native_segment_free(seg, acked);
		any = true;
	}
	return any;
}

static struct dlend_raw_slot *dlend_native_segment_room(struct dlend_native_domain *d, u64 size)
{
	struct dlend_aperture *ap = dlend_link_aperture(d->link);
	struct dlend_raw_slot *raw;

	if (!ap)
		return ERR_PTR(-ENODEV);
	raw = dlend_raw_slot_open(ap, size);
	if (PTR_ERR_OR_ZERO(raw) == -ENOSPC && dlend_native_segments_shed(d))
		raw = dlend_raw_slot_open(ap, size);
	return raw;
}

/* Once it stands among the segments, a cut finds it; before that, d->cut says so. */
static int dlend_native_segment_store(struct dlend_native_domain *d,
				      struct dlend_native_segment *seg, bool nowhere)
{
	u64 number = dlend_native_segment_number(d, seg->first);

	guard(mutex)(&d->lock);
	if (d->cut != nowhere)
		return -ENODEV;
	if (xa_empty(&d->segments))
		d->session = dlend_link_session(d->link);
	/* Of all segments, as a link has one aperture for all its life. */
	if (!nowhere && !d->reach)
		/* Pairs with the acquires of those who flush. */
		smp_store_release(&d->reach, dlend_raw_domain_get(seg->raw));
	/* A cut takes this lock, too, and waits for no I/O. */
	return xa_err(xa_store(&d->segments, number, seg, GFP_NOIO | __GFP_ACCOUNT));
}

static struct dlend_native_segment *dlend_native_segment_alloc(u64 first, u64 size)
{
	struct dlend_native_segment *seg = kzalloc_obj(*seg, GFP_KERNEL_ACCOUNT);

	if (seg) {
		seg->first = first;
		seg->size = size;
	}
	return seg;
}

int dlend_native_segment_make(struct dlend_native_domain *d, u64 first, u64 size)
{
	struct dlend_native_segment *seg = dlend_native_segment_alloc(first, size);
	bool hidden;
	int err;

	if (!seg)
		return -ENOMEM;
	seg->raw = dlend_native_segment_room(d, size);
	if (IS_ERR(seg->raw)) {
		err = PTR_ERR(seg->raw);
		goto free_seg;
	}
	err = dlend_native_segment_show(d, seg, &hidden);
	if (err)
		goto close_slot;
	err = dlend_native_segment_store(d, seg, false);
	if (!err)
		return 0;
	hidden = dlend_native_segment_hide(d, seg, NULL);
close_slot:
	/* What a silent lender was told may still hold there. */
	dlend_raw_slot_close(seg->raw, hidden && !d->silent);
free_seg:
	kfree(seg);
	return err;
}

/* Of a domain that is cut: its user goes on until it has noticed, and nobody is told. */
static int dlend_native_segment_make_nowhere(struct dlend_native_domain *d, u64 first, u64 size)
{
	struct dlend_native_segment *seg = dlend_native_segment_alloc(first, size);
	int err = -ENOMEM;

	if (!seg)
		return err;
	seg->raw = dlend_raw_slot_nowhere();
	if (!seg->raw)
		goto free_seg;
	err = dlend_native_segment_store(d, seg, true);
	if (!err)
		return 0;
	dlend_raw_slot_close(seg->raw, true);
free_seg:
	kfree(seg);
	return err;
}

void dlend_native_segment_no_room(struct dlend_native_domain *d, u64 more, char *why)
{
	struct dlend_aperture *ap = dlend_link_aperture(d->link);
	struct dlend_aperture_stat st = {};
	struct dlend_native_segment *seg;
	unsigned long number;
	u64 mine = 0;

	xa_for_each(&d->segments, number, seg)
		mine += seg->size;
	if (ap)
		dlend_aperture_stat(ap, &st);
	snprintf(why, DLEND_REASON_LEN,
		 "the window of node %u (%llu MiB) has no %llu MiB more for its memory: it has %llu MiB, %llu MiB are free, %llu MiB of them in one piece; return other devices",
		 dlend_link_peer(d->link), st.size >> 20, more >> 20, mine >> 20, st.free >> 20,
		 st.largest_free >> 20);
}

int dlend_native_segment_demand(struct dlend_native_domain *d, u64 iova)
{
	u64 size = BIT_ULL(d->shift), first = ALIGN_DOWN(iova, size);
	char why[DLEND_REASON_LEN];
	int err;

	guard(mutex)(&d->change);
	if (xa_load(&d->segments, dlend_native_segment_number(d, iova)))
		return 0;
	err = READ_ONCE(d->cut) ? -ENODEV : dlend_native_segment_make(d, first, size);
	if (err && READ_ONCE(d->cut))
		return dlend_native_segment_make_nowhere(d, first, size);
	if (err == -ENOSPC) {
		dlend_native_segment_no_room(d, size, why);
		dev_err_ratelimited(dlend_link_dev(d->link),
				    "a VM's or a program's device: %s, or attach with a smaller dlend_native.dma_mib, which an attached device keeps for this host's own drivers\n",
				    why);
	}
	return err;
}
