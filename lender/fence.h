/* SPDX-License-Identifier: GPL-2.0 */
/* Taking functions away from their borrower. */
#ifndef DLEND_LENDER_FENCE_H
#define DLEND_LENDER_FENCE_H

#include "lender/fn.h"
#include "lender/group.h"

/**
 * lend_fence_bus_master - set or clear the physical Bus Master Enable
 * @fn: (in) function
 * @on: (in) whether it may do DMA
 *
 * Context: process, group lock.
 */
void lend_fence_bus_master(struct lend_fn *fn, bool on);

/**
 * lend_fence_hide - nobody reaches the BARs of a function until lend_fence_show()
 * @fn: (in, out) function, lent or not: a node that borrows it meanwhile cannot reach them either
 * @why: (in) LEND_HIDDEN_*; the BARs come back when no reason is left
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_fence_hide(struct lend_fn *fn, unsigned int why);

/**
 * lend_fence_show - end of lend_fence_hide() for the same reason
 * @fn: (in, out) function
 * @why: (in) LEND_HIDDEN_*
 *
 * Context: process, group lock.
 * Return: as lend_bars_show().
 */
int lend_fence_show(struct lend_fn *fn, unsigned int why);

/**
 * lend_fence_fn - take one function away; the rest of its group stays lent
 * @fn: (in, out) function, lent
 *
 * Context: process, group lock; waits for nobody.
 */
void lend_fence_fn(struct lend_fn *fn);

/**
 * lend_fence_group - take all functions of a group away
 * @group: (in, out) group
 *
 * Context: process, group lock; waits for nobody.
 */
void lend_fence_group(struct lend_group *group);

/**
 * lend_fence_reset_begins - the PCI core is about to reset a function, for the lender or for others
 * @fn: (in, out) function
 *
 * The holder keeps its lease, but does not reach the BARs before lend_fence_reset_over().  The same
 * holds for a node that borrows the function meanwhile.
 *
 * Context: process, device lock; takes the group lock.
 */
void lend_fence_reset_begins(struct lend_fn *fn);

/**
 * lend_fence_reset_over - the PCI core has reset a function
 * @fn: (in, out) function
 *
 * Context: process, device lock; takes the group lock.
 */
void lend_fence_reset_over(struct lend_fn *fn);

#endif
