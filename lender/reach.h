/* SPDX-License-Identifier: GPL-2.0 */
/* What a borrower reaches of a lent function, its BARs; and what the function reaches by DMA. */
#ifndef DLEND_LENDER_REACH_H
#define DLEND_LENDER_REACH_H

#include <dlend/link.h>

#include "lender/fn.h"

/**
 * lend_bars_reserve - offsets for the BARs of a function, which the borrower does not reach yet
 * @fn: (in) function
 * @link: (in) to the node that may borrow it
 * @epoch: (in) of the lease that it would have
 * @offset: (out) DLEND_NUM_REGIONS offsets in the aperture, ~0 for each BAR that is not mapped
 *
 * Context: process, group lock.
 * Return: for lend_bars_take() or lend_bars_drop(); or ERR_PTR(): -ENOSPC they do not fit into the
 * window (a message names the sizes); -ENOTCONN the link has no aperture; -ENOMEM.
 */
struct lend_windows *lend_bars_reserve(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
				       __le64 *offset);

/**
 * lend_bars_take - let a borrower reach the BARs at offsets that were reserved for it
 * @fn: (in, out) function, which nobody reaches
 * @win: (in) from lend_bars_reserve(); @fn has it from here on, also if this fails
 *
 * Context: process, group lock. Return: 0; or the IOMMU's error: some BARs are out of reach.
 */
int lend_bars_take(struct lend_fn *fn, struct lend_windows *win);

/**
 * lend_bars_drop - the offsets are not needed: free them when the borrower has forgotten them
 * @win: (in) from lend_bars_reserve()
 *
 * Context: process; takes the closed lock.
 */
void lend_bars_drop(struct lend_windows *win);

/**
 * lend_bars_hide - the borrower does not reach the BARs until lend_bars_show(); offsets stay
 * @fn: (in, out) function, lent
 *
 * Call this before the device stops decoding memory.  Otherwise an access of the borrower would
 * reach no device, or another device that has the addresses by then.  Nothing is done for a
 * borrower on this host: it has unmapped the BARs itself before it asks for a reset.
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_bars_hide(struct lend_fn *fn);

/**
 * lend_bars_show - end of lend_bars_hide()
 * @fn: (in, out) function, lent, which decodes memory again
 *
 * Context: process, group lock.
 * Return: 0; or the IOMMU's error: some BARs stay out of reach, and a message says so.
 */
int lend_bars_show(struct lend_fn *fn);

/**
 * lend_bars_close - the lease is over: the borrower does not reach the BARs when this returns
 * @fn: (in, out) function
 *
 * Context: process, group lock; takes the closed lock; waits for no peer.
 */
void lend_bars_close(struct lend_fn *fn);

/**
 * lend_bars_acked - a borrower has forgotten the offsets of a lease, and of older leases
 * @link: (in) to the borrower
 * @addr: (in) name of the function
 * @epoch: (in) of the lease
 *
 * Context: process; takes the closed lock.
 */
void lend_bars_acked(struct dlend_link *link, const struct dlend_addr *addr, u32 epoch);

/**
 * lend_bars_reset_done - a function was reset: no transfer of an old lease comes out of it
 * @fn: (in) function
 *
 * Context: process; takes the closed lock.
 */
void lend_bars_reset_done(const struct lend_fn *fn);

/**
 * lend_bars_link_lost - forget the offsets that the peer of a link had
 * @link: (in) link that is down; its aperture ends the quarantine by itself, with the next session
 *
 * Context: process; takes the closed lock.
 */
void lend_bars_link_lost(struct dlend_link *link);

/**
 * lend_bar_slot - allocate offsets for a BAR
 * @ap: (in) aperture
 * @span: (in) bytes
 * @kind: (in) what the slot is used for
 *
 * Context: process.
 * Return: the slot, or ERR_PTR() as dlend_slot_alloc().
 */
struct dlend_slot *lend_bar_slot(struct dlend_aperture *ap, u64 span, enum dlend_slot_kind kind);

/**
 * lend_bar_fill - map a BAR, without its hole, in a slot
 * @slot: (in) from lend_bar_slot() for @bar->span bytes
 * @bar: (in) BAR
 *
 * Context: process.
 * Return: 0; or as dlend_slot_map_phys(): then a part may be mapped.
 */
int lend_bar_fill(struct dlend_slot *slot, const struct lend_bar *bar);

/** lend_bar_whole - can @bar (in) be reached by itself, not as a part of a page? Context: any. */
static inline bool lend_bar_whole(const struct lend_bar *bar)
{
	return bar->span && bar->span == bar->size;
}

/**
 * lend_dma_map - map all entries of a message, or none
 * @fn: (in) function
 * @standby: (in) for the node that prepares to take the lease over, not for its holder
 * @dma: (in) entries, copied and checked for their form
 *
 * Context: process, group lock.
 * Return: 0; -ERANGE outside the window or the domain; -ENOSPC more than a guest can have; -EEXIST
 * something is mapped there; -EINVAL; -ENOMEM.
 */
int lend_dma_map(struct lend_fn *fn, bool standby, const struct dlend_p_dma *dma);

/**
 * lend_dma_unmap - unmap all entries of a message
 * @fn: (in) function
 * @standby: (in) as for lend_dma_map()
 * @dma: (in) entries, copied and checked for their form.  An entry that is not mapped is no error:
 *	the borrower may say it twice
 *
 * Context: process, group lock.
 * Return: 0; -EINVAL an entry cuts a mapping: all other entries are unmapped all the same.
 */
int lend_dma_unmap(struct lend_fn *fn, bool standby, const struct dlend_p_dma *dma);

/**
 * lend_dma_forget - unmap all that the holder mapped through a function: its lease is over
 * @fn: (in) function
 *
 * Context: process, group lock; quick where the domain is blocked.
 */
void lend_dma_forget(struct lend_fn *fn);

#endif
