// SPDX-License-Identifier: GPL-2.0
/*
 * Which functions are bound to dlend-lender, which groups they form, and which groups belong to one
 * set.  This file gives events to the state machine of leases (lease_sm.c), because that needs the
 * set lock; what follows from an event is done by the callers (lease.c).
 */
#include <linux/iommu.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include <dlend/compat.h>

#include "lender/group.h"

/*
 * Sets: groups that belong together, and that only one node may have at a time.  A node that has
 * one member keeps all other nodes from borrowing the others: lend_hold_keeper() says of one member
 * which nodes may borrow the other members.
 *
 * A set takes no group away from a node.  A fence takes the set lock, too: so the lock is held for
 * no longer than it takes to visit all members of all sets once.
 */

/*
 * The set lock: guards lend_set_members, and lend_group.set of all groups.  A lease changes under
 * both its group lock and this lock, so one of the two is enough to read it.
 */
static DEFINE_MUTEX(lend_set_lock);
/* Groups that are in a set, of all sets; by lend_member.node. */
static LIST_HEAD(lend_set_members);

/* Are two groups in one set?  Set lock. */
static bool lend_set_has_both(const struct lend_group *a, const struct lend_group *b)
{
	return a != b && !strcmp(a->set.name, b->set.name);
}

/* The node for which the other members of its set keep @group; 0: @node may have it.  Set lock. */
static u16 lend_set_keeper(const struct lend_group *group, u16 node)
{
	const struct lend_group *other;
	u16 keeper;

	list_for_each_entry(other, &lend_set_members, set.node) {
		keeper = lend_hold_keeper(&other->set.hold, node);
		if (keeper != DLEND_NODE_NONE && lend_set_has_both(group, other))
			return keeper;
	}
	return DLEND_NODE_NONE;
}

/*
 * Mark all other members of the set stale: their states have to be announced again.  Set lock.
 * Return: there are others.
 */
static bool lend_set_mark_others(const struct lend_group *group)
{
	struct lend_group *other;
	bool any = false;

	list_for_each_entry(other, &lend_set_members, set.node) {
		if (!lend_set_has_both(group, other))
			continue;
		other->set.stale = true;
		any = true;
	}
	return any;
}

bool lend_set_join(struct lend_group *group, const char *name)
{
	struct lend_member *set = &group->set;

	guard(mutex)(&lend_set_lock);
	if (!strcmp(set->name, name))
		return false;
	if (set->name[0]) {
		lend_set_mark_others(group);
		list_del(&set->node);
	}
	strscpy(set->name, name, sizeof(set->name));
	if (set->name[0]) {
		lend_set_mark_others(group);
		list_add_tail(&set->node, &lend_set_members);
	}
	return true;
}

void lend_set_name(const struct lend_group *group, char *name)
{
	guard(mutex)(&lend_set_lock);
	memcpy(name, group->set.name, sizeof(group->set.name));
}

int lend_set_step(struct lend_group *group, const struct lend_event *ev, u32 *todo, bool *others)
{
	struct lend_event full = *ev;
	struct lend_hold hold;
	int ret;

	guard(mutex)(&lend_set_lock);
	full.keeper = lend_set_keeper(group, ev->node);
	ret = lend_lease_step(&group->lease, &full, todo);
	lend_lease_hold(&group->lease, &hold);
	*others = memcmp(&hold, &group->set.hold, sizeof(hold)) && lend_set_mark_others(group);
	group->set.hold = hold;
	return ret;
}

bool lend_set_reserve(struct lend_group *group, const struct lend_for *whom)
{
	guard(mutex)(&lend_set_lock);
	return lend_lease_reserve(&group->lease, whom);
}

void lend_group_lease(const struct lend_group *group, struct lend_lease *lease)
{
	guard(mutex)(&lend_set_lock);
	*lease = group->lease;
}

enum dlend_offer_state lend_set_state_for(const struct lend_group *group,
					  const struct lend_lease *lease,
					  const struct lend_for *whom, u16 *holder)
{
	static const struct lend_for admin;

	if (!whom)
		whom = &admin;
	guard(mutex)(&lend_set_lock);
	return lend_lease_state_for(lease, whom, lend_set_keeper(group, whom->node), holder);
}

bool lend_set_take_stale(struct lend_group *group)
{
	bool stale;

	guard(mutex)(&lend_set_lock);
	stale = group->set.stale;
	group->set.stale = false;
	return stale;
}

/*
 * Which functions are bound to dlend-lender, and which groups they form: two lists, and the
 * references that keep functions and groups alive.
 */

/*
 * Seconds from 1970 to 2025-01-01.  Epochs begin at a number that grows with the time of day, so
 * that they do not repeat when the module is loaded again.
 */
#define LEND_EPOCH_ORIGIN	1735689600

struct workqueue_struct *lend_wq;

/* The registry lock: guards the three variables below.  Code that holds it waits for nothing. */
static DEFINE_MUTEX(lend_registry_lock);
static LIST_HEAD(lend_registry_groups);
static LIST_HEAD(lend_registry_fns);
/* For lend_epoch_first(): the largest lend_lease.last of all groups that were freed; 0: none. */
static u32 lend_registry_epoch_floor;

static void lend_group_release(struct kref *ref)
{
	struct lend_group *group = container_of(ref, struct lend_group, ref);

	iommu_group_put(group->iommu);
	kfree(group);
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
	kvfree(fn->rom);
	pci_dev_put(fn->pdev);
	kfree(fn);
}

void lend_fn_put(struct lend_fn *fn)
{
	kref_put(&fn->ref, lend_fn_release);
}

/* The function with this name on this node, or NULL.  Registry lock. */
static struct lend_fn *lend_fn_by_name(u16 bdf)
{
	struct lend_fn *fn;

	list_for_each_entry(fn, &lend_registry_fns, node)
		if (fn->addr.bdf == bdf)
			return fn;
	return NULL;
}

struct lend_fn *lend_fn_find(const struct dlend_addr *addr)
{
	struct lend_fn *fn;

	guard(mutex)(&lend_registry_lock);
	fn = lend_fn_by_name(addr->bdf);
	if (!fn || fn->addr.lender != addr->lender)
		return NULL;
	kref_get(&fn->ref);
	return fn;
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

void lend_fns_put(struct lend_fn **all, unsigned int count)
{
	while (count--)
		lend_fn_put(all[count]);
	kfree(all);
}

/* The group of an IOMMU group, or NULL; no reference is taken.  Registry lock. */
static struct lend_group *lend_group_find(const struct iommu_group *iommu)
{
	struct lend_group *group;

	list_for_each_entry(group, &lend_registry_groups, node)
		if (group->iommu == iommu)
			return group;
	return NULL;
}

/* Make a group, and add it to the list, which has the only reference.  Registry lock. */
static struct lend_group *lend_group_new(struct iommu_group *iommu, unsigned int members,
					 void (*init)(struct lend_group *group))
{
	struct lend_group *group = kzalloc_obj(*group);

	if (!group)
		return NULL;
	kref_init(&group->ref);
	group->iommu = iommu_group_ref_get(iommu);
	group->members = members;
	mutex_init(&group->reset_lock);
	mutex_init(&group->lock);
	init_waitqueue_head(&group->wait);
	init(group);
	lend_lease_init(&group->lease,
			lend_epoch_first(lend_registry_epoch_floor,
					 ktime_get_real_seconds() - LEND_EPOCH_ORIGIN));
	list_add_tail(&group->node, &lend_registry_groups);
	return group;
}

/* Give a function the first free index in a group, and a reference to it.  Group, registry lock. */
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

/*
 * Find or make the group of an IOMMU group, and take a reference.  The group's last function may
 * leave before the caller takes the group lock: then the group is not in the list any more.
 */
static struct lend_group *lend_group_get(struct iommu_group *iommu, unsigned int members,
					 void (*init)(struct lend_group *group))
{
	struct lend_group *group;

	guard(mutex)(&lend_registry_lock);
	group = lend_group_find(iommu) ?: lend_group_new(iommu, members, init);
	if (group)
		kref_get(&group->ref);
	return group;
}

/*
 * Take a group out of the list if it has no function any more.  Group lock, registry lock.  Return:
 * true: it was taken out, and the caller has to put the list's reference.
 */
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

/*
 * Add a function to a group that is in the list.  Return: as lend_registry_join(); -EAGAIN the last
 * function of @group has left meanwhile, and the group is not in the list any more.
 */
static int lend_group_enter(struct lend_group *group, struct lend_fn *fn)
{
	int ret;

	guard(mutex)(&group->lock);
	guard(mutex)(&lend_registry_lock);
	if (list_empty(&group->node))
		return -EAGAIN;
	ret = lend_fn_by_name(fn->addr.bdf) ? -EEXIST : lend_group_add(group, fn);
	if (!ret)
		list_add_tail(&fn->node, &lend_registry_fns);
	else if (lend_group_unlist(group))
		lend_group_put(group);
	return ret;
}

int lend_registry_join(struct lend_fn *fn, struct iommu_group *iommu, unsigned int members,
		       void (*init)(struct lend_group *group))
{
	struct lend_group *group;
	int ret;

	dlend_waits_for_no_peer(&lend_registry_lock);
	do {
		group = lend_group_get(iommu, members, init);
		if (!group)
			return -ENOMEM;
		/*
		 * Here, where no lock is held: lockdep now believes that the lock is taken, and the
		 * group lock is never taken inside the registry lock.
		 */
		dlend_waits_for_no_peer_but_core(&group->lock);
		ret = lend_group_enter(group, fn);
		lend_group_put(group);
	} while (ret == -EAGAIN);
	return ret;
}

bool lend_registry_leave(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	guard(mutex)(&lend_registry_lock);
	group->fn[fn->index] = NULL;
	list_del(&fn->node);
	return lend_group_unlist(group);
}

void lend_registry_each_group(void (*visit)(struct lend_group *group, void *arg), void *arg)
{
	struct lend_group *group, **all;
	unsigned int i, n = 0;

	/* Hold references to the groups, not the lock: @visit may wait for a group lock. */
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
