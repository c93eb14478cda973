/* SPDX-License-Identifier: GPL-2.0 */
/* Leases, as the rest of the borrower needs them beside include/dlend/borrower.h. */
#ifndef DLEND_BORROWER_LEASE_H
#define DLEND_BORROWER_LEASE_H

#include "offer.h"

/* News of lenders (news.c): the borrower's part of every link. */
extern struct dlend_link_user dlend_news_user;

/**
 * dlend_lease_return_stray - give back a lease that nobody here uses
 * @offer: (in) offer; its state says that this node holds the lease
 *
 * For example a grant that came too late for its request. Context: dlend_offers_lock; waits for
 * nobody.
 */
void dlend_lease_return_stray(struct dlend_offer *offer);

/**
 * dlend_lease_sleep - this host goes to sleep, or is awake again
 * @on: (in) true: no lease is asked for until this is called with false
 *
 * Context: any.
 */
void dlend_lease_sleep(bool on);

#endif
