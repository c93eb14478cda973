/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which functions are bound here, and which groups they form: finding them, and their references.
 */
#ifndef DLEND_LENDER_REGISTRY_H
#define DLEND_LENDER_REGISTRY_H

#include <linux/workqueue.h>

#include "lender/fn.h"
#include "lender/group.h"

/* For all work of the lender; exists from module init to module exit. */
extern struct workqueue_struct *lend_wq;

/**
 * struct lend_works - what works of a group do
 * @recover: of lend_group.recover
 * @expire: of lend_group.expire
 * @unreserve: of lend_group.unreserve
 * @say: of lend_group.say
 */
struct lend_works {
	work_func_t recover, expire, unreserve, say;
};

/**
 * lend_registry_join - a function is being bound: others can find it from now on
 * @fn: (in, out) function; gets its group
 * @id: (in) number of its IOMMU group
 * @members: (in) functions in that IOMMU group, for the first function of it; the group counts
 *	again when a function is ready
 * @works: (in) what a group's works do
 *
 * Context: process; takes the group lock and the registry lock.
 * Return: 0; -EEXIST another function has the name @fn->addr; -ENOSPC the group has LEND_GROUP_MAX
 * functions already; -ENOMEM.
 */
int lend_registry_join(struct lend_fn *fn, int id, unsigned int members,
		       const struct lend_works *works);

/**
 * lend_registry_forget - a function is being unbound: nobody finds it any more
 * @fn: (in, out) function, from lend_registry_join(); keeps its reference to the group
 * @left: (in) called for the group without @fn, with the group lock held.  Its argument last says
 *	whether the group has no function any more
 * @ms: (in) passed on to @left
 *
 * Context: process; takes the group lock and the registry lock.
 * Return: true if @fn was the last function of its group; then the caller has to lend_group_put()
 * the group, after the works of lend_registry_join() have run for the last time.
 */
bool lend_registry_forget(struct lend_fn *fn,
			  void (*left)(struct lend_group *group, bool last, unsigned int ms),
			  unsigned int ms);

/**
 * lend_registry_each_group - call a function for every group
 * @visit: (in) called with no lock held; may take the group lock.  The group's last function may
 *	have left meanwhile
 * @arg: (in) passed on to @visit
 *
 * Context: process; takes the registry lock.
 */
void lend_registry_each_group(void (*visit)(struct lend_group *group, void *arg), void *arg);

/**
 * lend_fn_find - find a function by its name
 * @addr: (in) name
 *
 * Context: process; takes the registry lock.
 * Return: the function, for lend_fn_put(); NULL: no such function is bound here.
 */
struct lend_fn *lend_fn_find(const struct dlend_addr *addr);

/**
 * lend_fn_all - all functions that are bound here
 * @count: (out) how many there are
 *
 * Context: process; takes the registry lock.
 * Return: array for kfree(), of functions for lend_fn_put() each; NULL: there is none.
 */
struct lend_fn **lend_fn_all(unsigned int *count);

/**
 * lend_fn_put - give up a reference to a function
 * @fn: (in) function; freed with its last reference
 *
 * Context: process.
 */
void lend_fn_put(struct lend_fn *fn);

/**
 * lend_group_put - give up a reference to a group
 * @group: (in) group; freed with its last reference
 *
 * Context: any.
 */
void lend_group_put(struct lend_group *group);

#endif
