/* SPDX-License-Identifier: GPL-2.0 */
/* A lease moves to another node, while its device stays as it is: what both nodes ask for. */
#ifndef DLEND_LENDER_MOVE_H
#define DLEND_LENDER_MOVE_H

#include <dlend/link.h>

#include "lender/fn.h"

/*
 * All of these serve a request. Context: process, message handler; they take the group lock, and
 * wait for no peer. -ESTALE: @link's peer has not, or no longer, the lease @epoch.
 */

/**
 * lend_move_to - the holder lets a node prepare to take its lease over, or no node any more
 * @fn: (in, out) function
 * @link: (in) to the holder
 * @epoch: (in) of its lease
 * @want: (in) node
 *
 * Return: 0; -ESTALE; -EOPNOTSUPP the device is never quiet, and the holder has not said that it
 * may be cut off; or no device of its kind can be; -EMLINK its group has more functions; -EINVAL
 * the node is the holder.
 */
int lend_move_to(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
		 const struct dlend_p_move_to *want);

/**
 * lend_move_standby - a node prepares to take a function over
 * @fn: (in, out) function
 * @link: (in) to the node
 * @want: (in) where its interrupt counters are; not trusted
 * @reply: (out) epoch of the lease that it will have, and struct dlend_p_lease
 *
 * If it prepares already, it begins anew.
 *
 * Return: 0; -EPERM the holder has not named this node; or as
 * lend_lease_borrow().
 */
int lend_move_standby(struct lend_fn *fn, struct dlend_link *link,
		      const struct dlend_p_borrow *want, struct dlend_msg *reply);

/**
 * lend_move_memory - DMA_MAP or DMA_UNMAP of a node that prepares itself
 * @fn: (in, out) function
 * @link: (in) to the node
 * @msg: (in) request
 *
 * Return: 0; -ESTALE; or as lend_dma_map(), lend_dma_unmap().
 */
int lend_move_memory(struct lend_fn *fn, struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_move_quiesce - stop the device, once it does nothing
 * @fn: (in, out) function
 * @link: (in) to the holder, whose guest stands still
 * @epoch: (in) of its lease
 * @reply: (out) whether the device was quiet, and after which time
 *
 * Waits until the device has been silent for a while, or a second at most, without the group lock.
 * A device that may be cut off is stopped at once.
 *
 * Return: 0; -ESTALE.
 */
int lend_move_quiesce(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
		      struct dlend_p_quiet *reply);

/**
 * lend_move_run - the holder's guest goes on: nobody takes the device over, interrupts go on
 * @fn: (in, out) function
 * @link: (in) to the holder
 * @epoch: (in) of its lease
 *
 * Bus Master Enable stays off until the holder turns it on. Return: 0; -ESTALE.
 */
int lend_move_run(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

/** lend_move_running - as lend_move_run(), without interrupts. Context: process, group lock. */
void lend_move_running(struct lend_fn *fn);

/**
 * lend_move_hand_over - the holder gives its lease away
 * @fn: (in, out) function
 * @link: (in) to the holder
 * @epoch: (in) of its lease
 * @reply: (out) what the new holder has to show
 *
 * Return: 0; -ESTALE; -EPERM it has named no node; -EINPROGRESS the device was not stopped.
 */
int lend_move_hand_over(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
			struct dlend_p_token *reply);

/**
 * lend_move_take_over - the node that has prepared itself is the holder from now on
 * @fn: (in, out) function
 * @link: (in) to the node
 * @epoch: (in) of the lease that it was promised
 * @want: (in) what the old holder was given; not trusted.  With DLEND_TAKE_F_ASK nothing happens
 *
 * Return: 0; -ESTALE; -EINPROGRESS the old holder's guest has gone on; -EPERM wrong token; -EAGAIN
 * the device is being reset by somebody here; or the IOMMU's error: the device was taken back.
 */
int lend_move_take_over(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
			const struct dlend_p_take *want);

#endif
