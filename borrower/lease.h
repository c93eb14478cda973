/* SPDX-License-Identifier: GPL-2.0 */
/* Leases, as the rest of the borrower needs them beside include/dlend/borrower.h. */
#ifndef DLEND_BORROWER_LEASE_H
#define DLEND_BORROWER_LEASE_H

#include "offer.h"

/**
 * dlend_lease_return_stray - give back a lease that nobody here uses
 * @offer: (in) offer; its state says that this node holds the lease
 *
 * A grant that came too late for its request, for example. Context: dlend_offers_lock; waits for
 * nobody.
 */
void dlend_lease_return_stray(struct dlend_offer *offer);

/** dlend_lease_sleep - @on: this host goes to sleep: no lease is asked for until it is off again */
void dlend_lease_sleep(bool on);

#endif
