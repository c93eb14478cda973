/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unpinning: chunks that have left the books and the aperture, and are pinned for a moment longer.
 *
 * VFIO wants a device to unpin in its dma_unmap.  But with the legacy container (type1) a device
 * that does so itself dead-locks as soon as two threads of a VMM unmap at once: see unpin.c.  So
 * dma_unmap only hands over, and waits; workers unpin.
 */
#ifndef DLEND_MDEV_UNPIN_H
#define DLEND_MDEV_UNPIN_H

#include "ram.h"

/*
 * Pages of one call to VFIO.  type1 holds a lock for a whole call of vfio_pin_pages(), page faults
 * included.  VFIO's map and unmap ioctls need the same lock, and wait for it while they hold the
 * VMM's big lock.  A mutex that its owner takes again at once goes to a waiter only at the second
 * turn: so others wait for two calls.  A worker of low priority would make it worse: the scheduler
 * would put it aside while it has that lock.
 */
#define DLEND_PIN_BATCH	64u

/**
 * dlend_pin_batch_len - how many of @npages pages from @gpa on one call pins, or unpins
 *
 * Calls end where an address is a multiple of the batch.  So they do also in a part of a chunk.
 * Context: any.
 */
static inline u32 dlend_pin_batch_len(u64 gpa, u32 npages)
{
	return min_t(u32, npages, DLEND_PIN_BATCH - gpa / DLEND_GUEST_PAGE % DLEND_PIN_BATCH);
}

/** dlend_unpin_init - make @vm's part of it. Context: process. Return: 0 or -ENOMEM. */
int dlend_unpin_init(struct dlend_vm *vm);

/** dlend_unpin_destroy - its end; nothing is being unpinned any more. Context: process. */
void dlend_unpin_destroy(struct dlend_vm *vm);

/**
 * dlend_unpin_pages - unpin pages, in the batches in which dlend_pin_chunk() pinned them
 * @via: (in) member through which they were pinned
 * @gpa: (in) first address
 * @npages: (in) how many
 *
 * Context: may sleep; none of our locks is held that dma_unmap takes.
 */
void dlend_unpin_pages(const struct dlend_memory *via, u64 gpa, u32 npages);

/**
 * dlend_unpin_pins - is a pin under way?
 * @vm: (in) VM
 * @via: (in) only pins through this member count; NULL: all
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: vm->lock held. Return: true if there is one that touches the range.
 */
bool dlend_unpin_pins(const struct dlend_vm *vm, const struct dlend_memory *via, u64 gpa, u64 last);

/**
 * dlend_unpin_add - chunks leave the books: from now on they are being unpinned
 * @vm: (in, out) VM
 * @out: (in, out) chunks, in no aperture any more; empty afterwards.  Their owners stay members,
 *	with their VFIO devices open, until dlend_unpin_all() has returned
 *
 * Context: ram->lock held, since before they left the books; so that nobody finds them in neither
 * place. Somebody has to call dlend_unpin_all() or dlend_unpin_start() then.
 */
void dlend_unpin_add(struct dlend_vm *vm, struct list_head *out);

/** dlend_unpin_start - a worker unpins what there is. Context: any of our locks may be held. */
void dlend_unpin_start(struct dlend_vm *vm);

/**
 * dlend_unpin_all - unpin what there is, and wait for what others are unpinning
 * @vm: (in, out) VM
 *
 * Context: may sleep; none of our locks is held that dma_unmap takes, and none of VFIO's.
 */
void dlend_unpin_all(struct dlend_vm *vm);

/**
 * dlend_unpin_await - for dma_unmap: wait until nothing of a range is pinned any more
 * @mem: (in, out) member that was called; what there was in the range has left the books
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: VFIO's locks are held, none of ours.
 * Return: true: so it is, or other threads of the VMM have to go on first, and VFIO calls again.
 * False: a pin has ended, so take the range away once more, and ask again.
 */
bool dlend_unpin_await(struct dlend_memory *mem, u64 gpa, u64 last);

/** dlend_unpin_leave - @mem gets no calls of dma_unmap any more. Context: process. */
void dlend_unpin_leave(struct dlend_memory *mem);

#endif
