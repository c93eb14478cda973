/* SPDX-License-Identifier: GPL-2.0 */
/* Leases, as the rest of the borrower needs them beside include/dlend/borrower.h. */
#ifndef DLEND_BORROWER_LEASE_H
#define DLEND_BORROWER_LEASE_H

#include "offer.h"

/**
 * dlend_lease_return_stray - give back a lease that nobody here uses
 * @offer: (in) offer; its state says that this node holds the lease
 *
 * For example a grant that came too late for its request. Context: dlend_offers_lock; waits for
 * nobody.
 */
void dlend_lease_return_stray(struct dlend_offer *offer);

/**
 * dlend_lease_call - ask the lender something about a lease
 * @lease: (in) lease
 * @req: (in) request, complete
 * @reply: (out) answer; may be NULL
 * @timeout_ms: (in) milliseconds for the whole call; 0: as usual
 *
 * Context: process, may sleep; waits for the lender. Return: as dlend_link_call_in().
 */
int dlend_lease_call(struct dlend_lease *lease, struct dlend_msg *req, struct dlend_msg *reply,
		     unsigned int timeout_ms);

/**
 * dlend_lease_open_bars - open this node's windows onto the BARs
 * @lease: (in, out) lease, under which they are in reach
 * @why: (out) DLEND_REASON_LEN bytes: what went wrong, if something does
 *
 * Context: process. Return: 0; or as dlend_window_open().
 */
int dlend_lease_open_bars(struct dlend_lease *lease, char *why);

/**
 * dlend_lease_irq_pass - have interrupts pass the lender, which counts them then
 * @lease: (in) lease
 * @mode: (in) DLEND_IRQ_*, as they are set up
 * @count: (in) vectors, as they are set up
 *
 * Context: process, may sleep; waits for the lender. Return: 0 they came directly before; -EALREADY
 * they pass it; or as dlend_lease_irq_setup().
 */
int dlend_lease_irq_pass(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count);

/**
 * dlend_lease_sleep - this host goes to sleep, or is awake again
 * @on: (in) true: no lease is asked for until this is called with false
 *
 * Context: any.
 */
void dlend_lease_sleep(bool on);

#endif
