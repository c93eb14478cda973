/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The search for a VM's RAM: where it may be (memory slots), what has changed there since it was
 * looked for, and the prober that pins what is there.  (dlend_memory_rescan(),
 * dlend_memory_look() and dlend_memory_unsettled() of memory.h are here, too.)
 */
#ifndef DLEND_MDEV_SEARCH_H
#define DLEND_MDEV_SEARCH_H

#include "ram.h"

/**
 * dlend_search_added - RAM may have come: the next build looks there
 * @ram: (in, out) RAM
 * @added: (in) where; NULL: anywhere
 *
 * Builds, but for the first, look only where this function, dlend_memory_look() or a dma_unmap
 * said.
 *
 * Context: may sleep; takes ram->lock.
 */
void dlend_search_added(struct dlend_ram *ram, const struct dlend_ranges *added);

/**
 * dlend_search_begin - a build takes over all that is due, to look there
 * @mem: (in, out) member
 * @how: (in) DLEND_BUILD_*
 *
 * Context: build_lock held; takes ram->lock.
 */
void dlend_search_begin(struct dlend_memory *mem, u32 how);

/**
 * dlend_search_run - find and pin RAM where it may have come
 * @mem: (in, out) member; the first build of all looks everywhere
 *
 * Context: build_lock held; may sleep, for long.
 * Return: 0; -EINTR give way; -ENOMEM, -EFAULT RAM is there that cannot be pinned, or another error
 * of a pin. What was pinned before an error stays so.
 */
int dlend_search_run(struct dlend_memory *mem);

/* Module parameter: the shortest time between looks in ms; 0: no device looks. */
extern unsigned int dlend_search_look_ms;

/**
 * dlend_search_translated - are the device's addresses others than the guest's (a virtual IOMMU)?
 * @mem: (in) member
 *
 * KVM has RAM at address 0, and nothing is pinned there.  For a moment that is so, too, while a VMM
 * maps its memory or maps it anew.  Without KVM nobody can tell.
 * Context: may sleep; takes ram->lock, and the VMM's mmap_lock.
 */
bool dlend_search_translated(struct dlend_memory *mem);

/**
 * dlend_search_end - the build that began with dlend_search_begin() is over
 * @mem: (in, out) member
 * @err: (in) its error: what it looked at is due again
 *
 * Context: build_lock held; takes ram->lock.
 */
void dlend_search_end(struct dlend_memory *mem, int err);

#endif
