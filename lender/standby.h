/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A node that prepares itself to take a lease over, before it may reach the device: a domain with
 * its guest's memory, offsets for the BARs, a way for interrupts.  Nothing of it is in force until
 * lend_standby_swap().
 */
#ifndef DLEND_LENDER_STANDBY_H
#define DLEND_LENDER_STANDBY_H

#include <dlend/link.h>

#include "lender/dma.h"
#include "lender/fn.h"
#include "lender/group.h"

/**
 * lend_standby_prepare - make what a node needs to take a function over
 * @fn: (in, out) function, whose group has one function only
 * @link: (in) to the node
 * @source: (in) where its interrupts will go; taken over, also if this fails
 * @grant: (out) offsets of the BARs
 *
 * Call it for LEND_DO_PREPARE. If it fails, the caller ends the standby in the group's lease, and
 * calls lend_standby_drop().
 * Context: process, group lock.
 * Return: 0; -ENOMEM; or as lend_bars_reserve(), dlend_domain_create().
 */
int lend_standby_prepare(struct lend_fn *fn, struct dlend_link *link,
			 struct dlend_irq_source *source, struct dlend_p_lease *grant);

/**
 * lend_standby_drop - undo lend_standby_prepare(), for LEND_DO_DROP
 * @group: (in, out) group; nothing happens if nobody prepares there
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_standby_drop(struct lend_group *group);

/**
 * lend_standby_swap - fence the holder, reset nothing, and give the function to who has prepared
 * @fn: (in, out) function
 *
 * Call it before LEND_EV_TAKE_OVER is noted, once it is known to succeed: the fence is of the old
 * lease.  When this returns, the old holder reaches nothing. The device does no DMA, and has no
 * interrupts: the new holder turns both on.
 * Context: process, group lock; waits for no peer.
 * Return: 0; or the IOMMU's error: nobody reaches the device, and the caller takes it back.
 */
int lend_standby_swap(struct lend_fn *fn);

/**
 * lend_standby_reach - what the requests of a node that prepares itself change
 * @group: (in) group, with a standby
 * @to: (out) valid while the group lock is held
 *
 * Context: process, group lock.
 */
void lend_standby_reach(struct lend_group *group, struct lend_reach *to);

#endif
