/* SPDX-License-Identifier: GPL-2.0 */
/* After a lease: functions are reset, and offered again. */
#ifndef DLEND_LENDER_RECOVER_H
#define DLEND_LENDER_RECOVER_H

#include "lender/fn.h"
#include "lender/group.h"

/**
 * lend_recover_work - work of a group: reset the functions that were lent, offer the group again
 * @work: (in) lend_group.recover; owns a reference to the group
 *
 * Context: process, may take seconds; takes reset_lock, the device locks and the group lock.
 */
void lend_recover_work(struct work_struct *work);

/**
 * lend_recover_later - queue lend_recover_work()
 * @group: (in, out) group
 * @ms: (in) milliseconds until it is to run
 *
 * Context: process, group lock.
 */
void lend_recover_later(struct lend_group *group, unsigned int ms);

/**
 * lend_recover_soon - queue lend_recover_work() of @group (in, out) now
 *
 * Context: process; takes the group lock.
 */
void lend_recover_soon(struct lend_group *group);

/**
 * lend_recover_fence - take a group away from its holder now, tell all, and recover it soon
 * @group: (in, out) group, whose lease said LEND_DO_FENCE
 *
 * Context: process, group lock; waits for nobody.
 */
void lend_recover_fence(struct lend_group *group);

/**
 * lend_recover_unbind - a function leaves its group: recover now, and forget the function
 * @fn: (in, out) function, fenced; lend_fn.removing is set
 *
 * Nobody finds the function any more when this returns, and a reset was tried: if that failed, a
 * message says so.  If it was the last of its group, no work of the group runs any more either.
 *
 * Context: process, may take seconds; device lock.  Takes reset_lock, the registry lock and the
 * group lock.
 */
void lend_recover_unbind(struct lend_fn *fn);

#endif
