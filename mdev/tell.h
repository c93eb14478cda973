/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages to the lenders about guest memory: DMA_MAP and DMA_UNMAP, a few extents in each.
 *
 * From the moment when an extent goes into a DMA_MAP its lender may have it, whatever becomes of
 * the message (told.h).
 */
#ifndef DLEND_MDEV_TELL_H
#define DLEND_MDEV_TELL_H

#include "ram.h"

/** dlend_tell_init - make @ram->tell_work, which tells lenders of what is gone. Context: any. */
void dlend_tell_init(struct dlend_ram *ram);

/**
 * dlend_tell_gone - tell every member's lender of all extents that are gone
 * @ram: (in, out) RAM
 * @mem: (in) member whose errors count, because it is no business of one lease what becomes of
 *	another; NULL: all errors count
 *
 * Context: build_lock held; may sleep; waits for lenders.
 * Return: 0, or an error of dlend_link_call_in(); some are not told then.
 */
int dlend_tell_gone(struct dlend_ram *ram, const struct dlend_memory *mem);

/**
 * dlend_tell_new - have a member's lender map all that it is not known to have
 * @mem: (in, out) member
 *
 * Context: build_lock held; may sleep; waits for the lender.
 * Return: 0; -EAGAIN the build must give way; or an error of dlend_link_call_in().
 */
int dlend_tell_new(struct dlend_memory *mem);

/**
 * dlend_tell_others_due - is there an extent that another user's lender has not heard of?
 * @mem: (in) member that knows all
 *
 * Context: ram->lock held.
 */
bool dlend_tell_others_due(const struct dlend_memory *mem);

#endif
