/* SPDX-License-Identifier: GPL-2.0 */
/* Taking a device from its lender, losing it, giving it back. */
#ifndef DLEND_NATIVE_LEASE_H
#define DLEND_NATIVE_LEASE_H

#include <linux/types.h>

struct dlend_native_fn;

/**
 * dlend_native_reach_begin - its BARs have their bus addresses, and it reaches them there
 * @fn: (in, out) function with a lease, whose driver does not have it yet
 *
 * Context: process; waits for the lender, a second at most.
 */
void dlend_native_reach_begin(struct dlend_native_fn *fn);

/**
 * dlend_native_claim - claim a function's offer
 * @fn: (in, out) with lost_work
 *
 * All of a group are claimed before the first of them is taken: the lender says of all of them
 * then that this node has them.
 * Context: process. Return: as dlend_offer_claim(); @fn->why says why.
 */
int dlend_native_claim(struct dlend_native_fn *fn);

/**
 * dlend_native_take - have the lease
 * @fn: (in, out) claimed; afterwards with info, a configuration space and Bus Master Enable
 *
 * Context: process, waits for the lender; a signal ends the wait for somebody's last lease.
 * Return: 0; or -errno, and @fn->why says why: then it is claimed, and nothing else.
 */
int dlend_native_take(struct dlend_native_fn *fn);

/**
 * dlend_native_give - return the lease, so that the lender resets the device, and the claim
 * @fn: claimed function that is on no root bus; nothing of it is called when this returns
 *
 * Context: process, waits for the lender.
 */
void dlend_native_give(struct dlend_native_fn *fn);

/** dlend_native_leases_start - before the first dlend_native_take(). Return: 0; -ENOMEM. */
int dlend_native_leases_start(void);

/** dlend_native_leases_stop - nothing is taken; lost_work has ended when this returns. */
void dlend_native_leases_stop(void);

#endif
