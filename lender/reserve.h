/* SPDX-License-Identifier: GPL-2.0 */
/* Whom a group is reserved for, and for how long. */
#ifndef DLEND_LENDER_RESERVE_H
#define DLEND_LENDER_RESERVE_H

#include <linux/workqueue.h>

#include "lender/group.h"

/**
 * lend_reserve - when a group is free, only one node, or one VM, may borrow it
 * @group: (in, out) group; who has it now keeps it
 * @whom: (in) that node or VM
 * @seconds: (in) for how long, without the time that this host sleeps; 0: until it is changed
 *
 * All nodes are told.  Context: process; takes the group lock.
 */
void lend_reserve(struct lend_group *group, const struct lend_for *whom, u32 seconds);

/**
 * lend_reserve_left - whom is a group reserved for, and for how long?
 * @group: (in) group
 * @whom: (out) that node or VM
 * @seconds: (out) what is left; 0: without end
 *
 * Context: process; takes the group lock.
 */
void lend_reserve_left(struct lend_group *group, struct lend_for *whom, u32 *seconds);

/**
 * lend_reserve_forget - a function of the group goes: the reservation ends
 * @group: (in, out) group; lend_group.unreserve does not run any more when this returns
 *
 * Context: process; takes the group lock.
 */
void lend_reserve_forget(struct lend_group *group);

/** lend_reserve_work - what lend_group.unreserve does. Context: process. */
void lend_reserve_work(struct work_struct *work);

#endif
