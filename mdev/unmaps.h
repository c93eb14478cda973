/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dma_unmap calls of one VM: where nothing is to be pinned just now.
 *
 * VFIO tells all devices of an address space one after the other, and asks again while it finds
 * pins in what it is about to unmap; type1 gives up with a BUG after ten times.  A device that has
 * been told must not pin again before all others were, whatever link it is borrowed over: what one
 * pins while the next unpins gigabytes, and so on in turn, is how ten times come about.
 *
 * Pure: ranges and times as numbers.  The caller serialises.
 */
#ifndef DLEND_MDEV_UNMAPS_H
#define DLEND_MDEV_UNMAPS_H

#include <linux/types.h>

/* VFIO goes from one device to the next in less, unless it is preempted. */
#define DLEND_SETTLE_MS	20u

/*
 * A VM that shrinks fast (virtio-mem) makes calls back to back, each for another block: what has
 * ended long ago must not be busy for as long as there are others.  Those that there is no room for
 * share one range.
 */
#define DLEND_UNMAPS_MAX	32u

/**
 * struct dlend_unmap - calls about one range
 * @under_way: calls
 * @gpa, @last: what they, and those just before, are about, both inclusive
 * @ended_ms: when the last one did
 */
struct dlend_unmap {
	unsigned int under_way;
	u64 gpa, last;
	u64 ended_ms;
};

/** struct dlend_unmaps - begins as zeroes */
struct dlend_unmaps {
	struct dlend_unmap range[DLEND_UNMAPS_MAX];
};

/**
 * dlend_unmaps_begin - a call for @gpa..@last, whether or not anything is pinned there
 * @now_ms: of a clock that has run for more than DLEND_SETTLE_MS
 */
void dlend_unmaps_begin(struct dlend_unmaps *u, u64 gpa, u64 last, u64 now_ms);
/** dlend_unmaps_end - of one that began for the same @gpa..@last */
void dlend_unmaps_end(struct dlend_unmaps *u, u64 gpa, u64 last, u64 now_ms);
/** dlend_unmaps_busy - is somebody at some of it, or was so DLEND_SETTLE_MS ago or less? */
bool dlend_unmaps_busy(const struct dlend_unmaps *u, u64 gpa, u64 last, u64 now_ms);

#endif
