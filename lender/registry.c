// SPDX-License-Identifier: GPL-2.0
/*
 * Which functions are bound to dlend-lender, and which groups they form: two lists, and the
 * references that keep functions and groups alive.
 *
 * Knows nothing of what happens to a lease: who changes leases tells the registry what to call.
 */
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include <dlend/compat.h>

#include "lender/registry.h"
#include "lender/rom.h"

/* 2025-01-01: epochs have 32 bits, and must not repeat when the module is loaded again. */
#define LEND_EPOCH_ORIGIN	1735689600

struct workqueue_struct *lend_wq;

/* The registry lock: guards what follows.  Whoever has it waits for nobody. */
static DEFINE_MUTEX(lend_registry_lock);
static LIST_HEAD(lend_registry_groups);
static LIST_HEAD(lend_registry_fns);
/* Not below any epoch of a group that is gone; 0: no group has gone yet. */
static u32 lend_registry_epoch_floor;

static void lend_group_release(struct kref *ref)
{
	kfree(container_of(ref, struct lend_group, ref));
}

void lend_group_put(struct lend_group *group)
{
	kref_put(&group->ref, lend_group_release);
}

static void lend_fn_release(struct kref *ref)
{
	struct lend_fn *fn = container_of(ref, struct lend_fn, ref);

	if (fn->group)
		lend_group_put(fn->group);
	kfree(fn->saved);
	lend_rom_free(fn);
	pci_dev_put(fn->pdev);
	kfree(fn);
}

void lend_fn_put(struct lend_fn *fn)
{
	kref_put(&fn->ref, lend_fn_release);
}

struct lend_fn *lend_fn_find(const struct dlend_addr *addr)
{
	struct lend_fn *fn;

	guard(mutex)(&lend_registry_lock);
	list_for_each_entry(fn, &lend_registry_fns, node) {
		if (fn->addr.lender != addr->lender || fn->addr.bdf != addr->bdf)
			continue;
		kref_get(&fn->ref);
		return fn;
	}
	return NULL;
}

struct lend_fn **lend_fn_all(unsigned int *count)
{
	struct lend_fn *fn, **all;
	unsigned int n = 0;

	guard(mutex)(&lend_registry_lock);
	all = kcalloc(list_count_nodes(&lend_registry_fns), sizeof(*all),
		      GFP_KERNEL | __GFP_NOFAIL);
	if (!ZERO_OR_NULL_PTR(all)) {
		list_for_each_entry(fn, &lend_registry_fns, node) {
			kref_get(&fn->ref);
			all[n++] = fn;
		}
	}
	*count = n;
	return n ? all : NULL;
}

/* Registry lock. */
static struct lend_group *lend_group_find(int id)
{
	struct lend_group *group;

	list_for_each_entry(group, &lend_registry_groups, node)
		if (group->id == id)
			return group;
	return NULL;
}

/* Registry lock. */
static u32 lend_group_first_epoch(void)
{
	return lend_epoch_first(lend_registry_epoch_floor,
				ktime_get_real_seconds() - LEND_EPOCH_ORIGIN);
}

/* Registry lock. */
static struct lend_group *lend_group_new(int id, unsigned int members,
					 const struct lend_works *works)
{
	struct lend_group *group = kzalloc_obj(*group);

	if (!group)
		return NULL;
	kref_init(&group->ref);
	group->id = id;
	group->members = members;
	mutex_init(&group->reset_lock);
	mutex_init(&group->lock);
	INIT_DELAYED_WORK(&group->recover, works->recover);
	INIT_DELAYED_WORK(&group->expire, works->expire);
	INIT_DELAYED_WORK(&group->unreserve, works->unreserve);
	INIT_WORK(&group->say, works->say);
	init_waitqueue_head(&group->wait);
	lend_lease_init(&group->lease, lend_group_first_epoch());
	list_add_tail(&group->node, &lend_registry_groups);
	return group;
}

/* Group lock, registry lock.  Is another function known by its name? */
static bool lend_fn_is_known(const struct lend_fn *fn)
{
	struct lend_fn *other;

	list_for_each_entry(other, &lend_registry_fns, node)
		if (other->addr.bdf == fn->addr.bdf)
			return true;
	return false;
}

/* Group lock, registry lock. */
static int lend_group_add(struct lend_group *group, struct lend_fn *fn)
{
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++) {
		if (group->fn[i])
			continue;
		group->fn[i] = fn;
		fn->index = i;
		fn->group = group;
		kref_get(&group->ref);
		return 0;
	}
	return -ENOSPC;
}

/* The group, referenced; it may be forgotten before its lock is taken. */
static struct lend_group *lend_group_get(int id, unsigned int members,
					 const struct lend_works *works)
{
	struct lend_group *group;

	guard(mutex)(&lend_registry_lock);
	group = lend_group_find(id) ?: lend_group_new(id, members, works);
	if (group)
		kref_get(&group->ref);
	return group;
}

/* Return: it has no function any more, and nobody finds it: its reference is the caller's. */
static bool lend_group_unlist(struct lend_group *group)
{
	if (memchr_inv(group->fn, 0, sizeof(group->fn)))
		return false;
	if (dlend_epoch_after(group->lease.last, lend_registry_epoch_floor) ||
	    !lend_registry_epoch_floor)
		lend_registry_epoch_floor = group->lease.last;
	list_del_init(&group->node);
	return true;
}

/* Return: as lend_registry_join(); -EAGAIN the last function of @group has just left. */
static int lend_group_enter(struct lend_group *group, struct lend_fn *fn)
{
	int ret;

	guard(mutex)(&group->lock);
	guard(mutex)(&lend_registry_lock);
	if (list_empty(&group->node))
		return -EAGAIN;
	ret = lend_fn_is_known(fn) ? -EEXIST : lend_group_add(group, fn);
	if (!ret)
		list_add_tail(&fn->node, &lend_registry_fns);
	else if (lend_group_unlist(group))
		lend_group_put(group);
	return ret;
}

int lend_registry_join(struct lend_fn *fn, int id, unsigned int members,
		       const struct lend_works *works)
{
	struct lend_group *group;
	int ret;

	dlend_waits_for_no_peer(&lend_registry_lock);
	do {
		group = lend_group_get(id, members, works);
		if (!group)
			return -ENOMEM;
		/* Said here, and not under the registry's lock, of which the same is said. */
		dlend_waits_for_no_peer(&group->lock);
		ret = lend_group_enter(group, fn);
		lend_group_put(group);
	} while (ret == -EAGAIN);
	return ret;
}

bool lend_registry_forget(struct lend_fn *fn,
			  void (*left)(struct lend_group *group, bool last, unsigned int ms),
			  unsigned int ms)
{
	struct lend_group *group = fn->group;
	bool last;

	guard(mutex)(&group->lock);
	mutex_lock(&lend_registry_lock);
	group->fn[fn->index] = NULL;
	list_del(&fn->node);
	last = lend_group_unlist(group);
	mutex_unlock(&lend_registry_lock);
	left(group, last, ms);
	return last;
}

void lend_registry_each_group(void (*visit)(struct lend_group *group, void *arg), void *arg)
{
	struct lend_group *group, **all;
	unsigned int i, n = 0;

	/* References keep them: a visit may wait for long, and nobody may wait for this walk. */
	mutex_lock(&lend_registry_lock);
	all = kcalloc(list_count_nodes(&lend_registry_groups) + 1, sizeof(*all),
		      GFP_KERNEL | __GFP_NOFAIL);
	list_for_each_entry(group, &lend_registry_groups, node) {
		kref_get(&group->ref);
		all[n++] = group;
	}
	mutex_unlock(&lend_registry_lock);
	for (i = 0; i < n; i++) {
		visit(all[i], arg);
		lend_group_put(all[i]);
	}
	kfree(all);
}
