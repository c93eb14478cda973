/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pins of guest memory: the only place that calls vfio_pin_pages().
 *
 * A chunk is pinned through one member, its owner.  It must be unpinned through the same member,
 * while that member's VFIO device is open.
 *
 * Before pages are pinned, and until they are in the books (or given up), the pin is *under way*
 * (dlend_pin_begin() to dlend_pin_end()).  A dma_unmap of these pages waits for its end, since it
 * must find every pin there is (dlend_unpin_await()).  And no pin begins where a dma_unmap of any
 * device of the VM is under way, or was a moment ago: see unmap_calls.h for what would happen.
 */
#ifndef DLEND_MDEV_PIN_H
#define DLEND_MDEV_PIN_H

#include "ram.h"

/**
 * dlend_pin_begin - a pin is under way: from now on dma_unmap of these pages waits
 * @mem: (in, out) member that builds or looks, and through which is pinned
 * @gpa: (in) first address
 * @npages: (in) how many
 *
 * Context: may sleep; takes ram->lock and vm->lock.  One at a time for each member.
 * Return: 0; -EINTR the build must give way; -EBUSY some of it is being unmapped just now, ask
 * again.
 */
int dlend_pin_begin(struct dlend_memory *mem, u64 gpa, u32 npages);

/** dlend_pin_begin_patiently - dlend_pin_begin(), repeated after -EBUSY. Context: as there. */
int dlend_pin_begin_patiently(struct dlend_memory *mem, u64 gpa, u32 npages);

/**
 * dlend_pin_begin_for - as dlend_pin_begin(), through another member
 * @mem: (in, out) member on whose behalf
 * @via: (in) member through which is pinned; it is open
 * @chunk: (in) what is pinned
 *
 * For chunks that are pinned already: asks neither whether a build is disturbed nor for dma_unmap.
 *
 * Context: ram->lock held.
 */
void dlend_pin_begin_for(struct dlend_memory *mem, struct dlend_memory *via,
			 const struct dlend_chunk *chunk);

/**
 * dlend_pin_end - the pin that began last is in the books, or was given up
 * @mem: (in, out) member, as for dlend_pin_begin()
 * @grown: (in) it is in the books
 *
 * Context: may sleep; takes ram->lock.
 */
void dlend_pin_end(struct dlend_memory *mem, bool grown);

/*
 * A page that is no RAM, for dlend_pin_begin(): nothing is pinned, but whoever closes the member
 * waits as for a pin.  So the VM stays until dlend_pin_end().
 */
#define DLEND_PIN_NOWHERE	(U64_MAX - DLEND_GUEST_PAGE + 1)

/** dlend_pin_await - wait until no pin is under way through @via. Context: as dlend_unpin_all(). */
void dlend_pin_await(const struct dlend_memory *via);

/**
 * dlend_pin_chunk - pin all pages of a chunk, in batches
 * @via: (in, out) member through which
 * @chunk: (in) its gpa, npages and prot
 * @pages: (out) its pages, npages of them
 * @build: (in) for a build of @via's: give way between batches, and count the calls
 *
 * Context: may sleep, for long; none of our locks but close_lock and build_lock may be held; the
 * pin is under way. Return: 0; -EINTR give way, or the VMM is going; or an error of
 * vfio_pin_pages(), and then nothing is pinned.
 */
int dlend_pin_chunk(struct dlend_memory *via, const struct dlend_chunk *chunk, struct page **pages,
		    bool build);

/**
 * dlend_pin_ram - pin pages and enter them in the books
 * @mem: (in, out) member that builds or looks
 * @gpa: (in) first address
 * @npages: (in) how many, within one chunk
 * @prot: (in) DLEND_PROT_*
 *
 * Context: as for dlend_pin_chunk(). Return: as struct dlend_prober_ops.pin, and nothing of it is
 * pinned after an error.
 */
int dlend_pin_ram(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot);

/**
 * dlend_pin_try - could pages be pinned?
 * @mem: (in, out) member that builds or looks
 * @gpa: (in) first address
 * @npages: (in) how many, within one chunk
 * @prot: (in) DLEND_PROT_*
 *
 * They are pinned for a moment, and never in the books.
 *
 * Context: as for dlend_pin_chunk(). Return: as struct dlend_prober_ops.try.
 */
int dlend_pin_try(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot);

/**
 * dlend_pin_unmap_begins - VFIO has called dma_unmap of one device of a VM
 * @vm: (in, out) VM
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: may sleep; takes vm->lock.
 */
void dlend_pin_unmap_begins(struct dlend_vm *vm, u64 gpa, u64 last);

/** dlend_pin_unmap_ends - that call returns. Context: as dlend_pin_unmap_begins(). */
void dlend_pin_unmap_ends(struct dlend_vm *vm, u64 gpa, u64 last);

#endif
