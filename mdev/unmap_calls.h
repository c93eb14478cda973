/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The dma_unmap calls that are under way in one VM, and so: where nothing may be pinned just now.
 *
 * Before VFIO unmaps memory it calls dma_unmap of every device of the address space, one after the
 * other.  If it still finds a pin afterwards, it goes round again; type1 (the legacy container)
 * does so ten times and then stops the kernel with BUG().  So a device that has been called must
 * not pin there again before all others have been called, too, whatever links they are borrowed
 * over.  Else the first device would pin while the second unpins gigabytes, then the second while
 * the first unpins them, and so on until the tenth time.
 *
 * Pure logic: addresses and times are numbers.  The caller serialises all calls about one object.
 */
#ifndef DLEND_MDEV_UNMAP_CALLS_H
#define DLEND_MDEV_UNMAP_CALLS_H

#include <linux/types.h>

/*
 * For so long after the end of a device's call nothing is pinned there: VFIO gets from one device
 * to the next in less time, unless the scheduler takes the CPU from it.
 */
#define DLEND_SETTLE_MS	20u

/*
 * How many ranges are told apart.  A VM that shrinks fast (virtio-mem) makes call after call, each
 * for another block; a block whose call has ended long ago must not count as busy just because
 * there are always calls for others.  Calls for which no entry is left share the last entry.
 */
#define DLEND_UNMAP_CALLS_MAX	32u

/**
 * struct dlend_unmap_call - calls about one range
 * @under_way: how many have begun and not ended
 * @gpa: first address of the range
 * @last: last address of the range
 * @ended_ms: when a call about it ended last
 */
struct dlend_unmap_call {
	unsigned int under_way;
	u64 gpa, last;
	u64 ended_ms;
};

/** struct dlend_unmap_calls - of one VM; begins as zeroes */
struct dlend_unmap_calls {
	struct dlend_unmap_call range[DLEND_UNMAP_CALLS_MAX];
};

/**
 * dlend_unmap_calls_begin - a call begins, whether or not anything is pinned in its range
 * @u: (in, out) calls
 * @gpa: (in) first address
 * @last: (in) last address
 * @now_ms: (in) time, of a clock that has run for more than DLEND_SETTLE_MS
 *
 * Context: any.
 */
void dlend_unmap_calls_begin(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms);

/**
 * dlend_unmap_calls_end - a call ends
 * @u: (in, out) calls
 * @gpa: (in) as when the call began
 * @last: (in) as when the call began
 * @now_ms: (in) time, of the same clock
 *
 * Context: any.
 */
void dlend_unmap_calls_end(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms);

/**
 * dlend_unmap_calls_busy - may somebody still be unmapping a part of a range?
 * @u: (in) calls
 * @gpa: (in) first address
 * @last: (in) last address
 * @now_ms: (in) time, of the same clock
 *
 * Context: any. Return: true if a call about some of it is under way, or ended DLEND_SETTLE_MS ago
 * or less.
 */
bool dlend_unmap_calls_busy(const struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms);

#endif
