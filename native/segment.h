/* SPDX-License-Identifier: GPL-2.0 */
/* Segments of a domain's IO addresses, each of which has a place in the window; and the domain. */
#ifndef DLEND_NATIVE_SEGMENT_H
#define DLEND_NATIVE_SEGMENT_H

#include <linux/atomic.h>
#include <linux/iommu.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct dlend_link;
struct dlend_native_fn;
struct dlend_paging;
struct dlend_raw_slot;

/* One segment for all addresses. */
#define DLEND_NATIVE_ALL	63
#define DLEND_NATIVE_PAGE_SIZES	3

/**
 * struct dlend_native_segment - a range of IO addresses that the lender has mapped
 * @rcu: frees it, for those who look for it
 * @raw: where it leads to
 * @first, @size: the range
 * @used: bytes that are mapped or being mapped; negative: it is being given back
 */
struct dlend_native_segment {
	struct rcu_head rcu;
	struct dlend_raw_slot *raw;
	u64 first, size;
	atomic64_t used;
};

/**
 * struct dlend_native_domain - see domain.h
 * @domain: the IOMMU core's
 * @link: of all its devices
 * @change: members come and go, segments come and go. Held while a lender is asked
 * @members: functions that reach it, under @change
 * @prepared_for: functions that are to be found, none of which the IOMMU core has asked it for yet;
 *	only one thread prepares, finds and forgets them
 * @lock: @segments, @cut, @alive. Never held while a lender is asked
 * @alive: of @members, those whose lease is not over
 * @segments: by number: IO address >> @shift
 * @shift: DLEND_NATIVE_ALL: the kernel's own, which has one; 0: not known yet
 * @cut: its segments are out of reach, and so are new ones; for good
 * @session: the link's, as the first of its segments was made; under @change
 * @reach: the NTB's IOMMU's domain, in which all its segments are; NULL until there is one
 * @silent: a lender did not answer when it should have unmapped its segments
 * @pages: of 4 KiB, 2 MiB, 1 GiB that VFIO has mapped in it so far, as the IOMMU core asked for
 *	them; it unmaps them by other sizes
 */
struct dlend_native_domain {
	struct iommu_domain domain;
	struct dlend_link *link;
	struct mutex change;		/* see above */
	struct list_head members, prepared_for;
	struct mutex lock;		/* see above */
	unsigned int alive;
	struct xarray segments;
	struct dlend_paging *reach;
	u64 session;
	unsigned int shift;
	bool cut, silent;
	atomic64_t pages[DLEND_NATIVE_PAGE_SIZES];
};

/* Do segments come and go? VFIO's do. */
static inline bool dlend_native_on_demand(const struct dlend_native_domain *d)
{
	return d->shift != DLEND_NATIVE_ALL;
}

/**
 * dlend_native_segment_use - have the segment of an address stay
 * @d: domain
 * @iova: (in) IO address
 * @bytes: (in) so many more are in use there; dlend_native_segment_unuse() takes them back
 *
 * Context: any. Return: segment; NULL: there is none.
 */
struct dlend_native_segment *dlend_native_segment_use(struct dlend_native_domain *d, u64 iova,
						      u64 bytes);

/** dlend_native_segment_unuse - @bytes of it are not in use any more. Context: any. */
void dlend_native_segment_unuse(struct dlend_native_segment *seg, u64 bytes);

/**
 * dlend_native_segment_make - reserve a place for a range, and have all members reach it
 * @d: domain
 * @first: (in) first IO address, which is in no segment
 * @size: (in) bytes
 *
 * Context: process, under change; waits for the lenders.
 * Return: 0; -ENOSPC the window has no room; -ENODEV the link is down; or what a lender answers.
 */
int dlend_native_segment_make(struct dlend_native_domain *d, u64 first, u64 size);

/**
 * dlend_native_segment_demand - dlend_native_segment_make() for VFIO's first page there, if need be
 * @d: domain
 * @iova: (in) IO address of the page
 *
 * Of a domain that is cut it leads nowhere, and that is no error.
 * Context: process, takes change; waits for the lenders. Return: as dlend_native_segment_make().
 */
int dlend_native_segment_demand(struct dlend_native_domain *d, u64 iova);

/**
 * dlend_native_segments_shed - give segments back in which nothing is mapped, if they come and go
 * @d: domain
 *
 * Context: process, under change; waits for the lenders. Return: was there one?
 */
bool dlend_native_segments_shed(struct dlend_native_domain *d);

/** dlend_native_segments_cut - put all of them out of reach, for good. Context: under lock. */
void dlend_native_segments_cut(struct dlend_native_domain *d);

/** dlend_native_segment_tell - let @fn reach it. Context: process, waits for the lender. */
int dlend_native_segment_tell(struct dlend_native_fn *fn, const struct dlend_native_segment *seg);

/** dlend_native_segment_free - @acked: no lender reaches it any more. Context: process. */
void dlend_native_segment_free(struct dlend_native_segment *seg, bool acked);

/**
 * dlend_native_segment_no_room - tell people why
 * @d: (in) domain
 * @more: (in) bytes that were wanted
 * @why: (out) DLEND_REASON_LEN bytes
 *
 * Context: process.
 */
void dlend_native_segment_no_room(struct dlend_native_domain *d, u64 more, char *why);

#endif
