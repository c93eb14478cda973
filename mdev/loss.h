/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What takes guest memory away: dma_unmap, the end of the link, a fence, a build that finds other
 * memory than before.  (dlend_memory_returns(), _unmap(), _fence() and _link_down() of memory.h are
 * here, too.)
 *
 * Nothing here waits for a peer.
 */
#ifndef DLEND_MDEV_LOSS_H
#define DLEND_MDEV_LOSS_H

#include "ram.h"

/* What kind of loss it was. */
enum dlend_loss {
	DLEND_LOSS_NONE,	/* nothing was there */
	DLEND_LOSS_GONE,	/* memory that was unplugged: what is left stands as it did */
	DLEND_LOSS_RETURNS,	/* memory that may come back at once: build anew */
};

/** dlend_loss_init - make @ram->down_work, which unpins after the link went down. Context: any. */
void dlend_loss_init(struct dlend_ram *ram);

/**
 * dlend_loss_take - take a range away, whoever pinned it
 * @ram: (in, out) RAM
 * @by: (in) member that is being unmapped or closed; its own gate is not shut here
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * VFIO calls one device after the other, and wants each to find nothing left.  So the first call
 * takes all chunks, whichever member owns them.  If they may come back, the gates of all others are
 * shut meanwhile, and builds are told to give way.  If they were unplugged, no gate is shut and no
 * build is disturbed; DMA that a device still does there is blocked by the IOMMU; extents that have
 * become empty leave the books, and lenders hear of it later.
 *
 * Context: may sleep; takes loss_lock and ram->lock.  The caller waits until all is unpinned, and
 * until pins that are under way there have ended.
 * Return: what it was; out of the aperture.
 */
enum dlend_loss dlend_loss_take(struct dlend_ram *ram, struct dlend_memory *by, u64 gpa, u64 last);

/**
 * dlend_loss_settle - dlend_books_settle() after a probe; extents that cannot stay leave the books
 * @ram: (in, out) RAM
 *
 * If that takes standing chunks out of the windows, all gates are shut before, and all members
 * build again.
 *
 * Context: build_lock held; may sleep; takes loss_lock and ram->lock.
 */
void dlend_loss_settle(struct dlend_ram *ram);

/**
 * dlend_loss_undo - undo all that a build has pinned and mapped
 * @mem: (in, out) member whose build it is
 *
 * Lenders that were told hear of it later.
 *
 * Context: build_lock held; may sleep; takes loss_lock and ram->lock.
 */
void dlend_loss_undo(struct dlend_memory *mem);

/** dlend_loss_begin - RAM is being taken away; settling builds wait. Context: takes ram->lock. */
void dlend_loss_begin(struct dlend_ram *ram);

/**
 * dlend_loss_end - end of dlend_loss_begin(), and numbers
 * @mem: (in, out) member that was asked
 * @gpa: (in) first address
 * @last: (in) last address
 * @loss: (in) what it was
 * @since: (in) when it began: the VMM was kept so long
 *
 * Context: takes ram->lock.
 */
void dlend_loss_end(struct dlend_memory *mem, u64 gpa, u64 last, enum dlend_loss loss,
		    ktime_t since);

#endif
