/* SPDX-License-Identifier: GPL-2.0 */
/* Who is in a group, whether it can be offered, and what peers are told when that changes. */
#ifndef DLEND_LENDER_MEMBERS_H
#define DLEND_LENDER_MEMBERS_H

#include <linux/types.h>
#include <linux/workqueue.h>

#include "lender/group.h"

struct iommu_group;
struct lend_fn;

/**
 * struct lend_census - who is in an IOMMU group
 * @members: number of functions, without bridges
 * @foreign: there are devices that are not PCI devices
 */
struct lend_census {
	unsigned int members;
	bool foreign;
};

/**
 * lend_census_take - count the functions of an IOMMU group as it is now
 * @iommu: (in) IOMMU group
 * @census: (out) result
 *
 * Context: process; takes the IOMMU core's lock of the group.
 */
void lend_census_take(struct iommu_group *iommu, struct lend_census *census);

/**
 * lend_group_state_name - what the state of a group is called on its own host
 * @group: (in) group
 *
 * Context: process, group lock. Return: a word of a-z, never NULL.
 */
const char *lend_group_state_name(const struct lend_group *group);

/** lend_group_say_work - lend_group.say. Context: lend_wq; takes the group lock. */
void lend_group_say_work(struct work_struct *work);

/**
 * lend_group_step - give the lease of a group an event
 * @group: (in, out) group
 * @ev: (in) event
 * @todo: (out) LEND_DO_*, what the caller has to do; 0 on error.  LEND_DO_TELL is not for the
 *	caller: this function sees to it that the peers are told
 *
 * Context: process, group lock.
 * Return: as lend_lease_step().
 */
int lend_group_step(struct lend_group *group, const struct lend_event *ev, u32 *todo);

/**
 * lend_group_try_offer - offer a group if it can be lent now, and do not offer it otherwise
 * @group: (in, out) group
 *
 * A group can be lent if all its functions are bound here, were reset and are prepared.  Does
 * nothing while somebody has the group, or while it is being reset.
 *
 * Context: process, group lock.
 */
void lend_group_try_offer(struct lend_group *group);

/**
 * lend_group_ready - a function was reset: its group may be whole now
 * @fn: (in, out) function, from lend_registry_join()
 *
 * Context: process; takes the group lock.
 */
void lend_group_ready(struct lend_fn *fn);

/**
 * lend_group_drop_domain - give up the domain and the link of a lease
 * @group: (in, out) group, from whose functions no transfer of that lease can come any more
 *
 * Context: process, group lock.
 */
void lend_group_drop_domain(struct lend_group *group);

/**
 * lend_group_join_set - put a group into a set, and tell all nodes
 * @group: (in, out) group; who has it now keeps it
 * @name: (in) name of the set, as of dlend_name_read(); "": none
 *
 * Context: process; takes the group lock.
 */
void lend_group_join_set(struct lend_group *group, const char *name);

/**
 * lend_groups_changed - functions came to IOMMU groups or left them, or another group of a set has
 * another borrower: look at all groups, soon
 *
 * Context: any.
 */
void lend_groups_changed(void);

/**
 * lend_groups_exit - cancel the work that lend_groups_changed() has queued, or wait for its end
 *
 * Context: process; lend_groups_changed() is not called any more.
 */
void lend_groups_exit(void);

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

/**
 * lend_prepare_done - all that others have to know of a function has been written: offer it
 * @fn: (in, out) function; if it is offered already, nothing happens. If its group was withdrawn,
 *	that ends
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_done(struct lend_fn *fn);

/**
 * lend_prepare_withdraw - nobody gets a function's group any more, until lend_prepare_done()
 * @fn: (in, out) function; who has its group keeps it
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_withdraw(struct lend_fn *fn);

#endif
