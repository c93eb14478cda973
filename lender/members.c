// SPDX-License-Identifier: GPL-2.0
/*
 * A group and its members: whether all functions of an IOMMU group are here, so that the group can
 * be offered; and what peers and user space are told when that, or the lease, changes.
 */
#include <linux/device.h>
#include <linux/iommu.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/pci.h>

#include <dlend/link.h>
#include <dlend/names.h>

#include "lender/group.h"
#include "lender/members.h"
#include "lender/outbox.h"

/* Group lock. */
static bool lend_group_is_kept_back(const struct lend_group *group)
{
	if (group->withdrawn)
		return true;
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->preparing)
			return true;
	return false;
}

const char *lend_group_state_name(const struct lend_group *group)
{
	enum dlend_offer_state state;
	u16 holder;

	state = lend_set_told(group, &group->lease, NULL, &holder);
	if (state != DLEND_OFFER_GONE)
		return dlend_offer_state_name(state);
	/* Bound, and cannot be borrowed: not prepared, or a function of its group is missing. */
	return lend_group_is_kept_back(group) ? "preparing" : "incomplete";
}

/* The function at @index, for lend_fn_put(), or NULL; and what its state is called. */
static struct lend_fn *lend_group_told(struct lend_group *group, unsigned int index,
				       const char **state)
{
	struct lend_fn *fn;

	guard(mutex)(&group->lock);
	*state = lend_group_state_name(group);
	fn = group->fn[index];
	if (fn)
		kref_get(&fn->ref);
	return fn;
}

void lend_group_say_work(struct work_struct *work)
{
	struct lend_group *group = container_of(work, struct lend_group, say);
	const char *state;
	struct lend_fn *fn;

	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++) {
		fn = lend_group_told(group, i, &state);
		if (!fn)
			continue;
		dlend_uevent_state(&fn->pdev->dev, state);
		lend_fn_put(fn);
	}
	lend_group_put(group);
}

/* The state of a group has changed: tell all peers and user space, soon. Group lock. */
static void lend_group_tell(struct lend_group *group)
{
	lend_outbox_tell_group(group, LEND_TELL_STATE);
	kref_get(&group->ref);
	if (!queue_work(lend_wq, &group->say))
		lend_group_put(group);
}

int lend_group_step(struct lend_group *group, const struct lend_event *ev, u32 *todo)
{
	bool others;
	int ret = lend_set_step(group, ev, todo, &others);

	if (others)
		lend_groups_changed();
	if (*todo & LEND_DO_TELL)
		lend_group_tell(group);
	wake_up_all(&group->wait);
	return ret;
}

static int lend_census_count(struct device *dev, void *data)
{
	struct lend_census *census = data;

	if (!dev_is_pci(dev)) {
		census->foreign = true;
		return 0;
	}
	/* Bridges stay with the kernel: they do no DMA of their own. */
	if (to_pci_dev(dev)->hdr_type == PCI_HEADER_TYPE_NORMAL)
		census->members++;
	return 0;
}

void lend_census_take(struct iommu_group *iommu, struct lend_census *census)
{
	*census = (struct lend_census){ };
	iommu_group_for_each_dev(iommu, census, lend_census_count);
}

/*
 * Number of the group.  It is a name in the fabric and not an address in this host, because
 * another PCI domain may have the same address; lend_registry_join() lets no name appear twice.
 * Group lock.
 */
static u16 lend_group_lowest_name(const struct lend_group *group)
{
	u16 number = U16_MAX;

	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->ready)
			number = min(number, w.fn->addr.bdf);
	return number;
}

/*
 * The members of the group may have changed.  Peers know by the group's number which functions are
 * in one group.  So when the number or the count of members changes, all offers of the group are
 * told again; both change nowhere else.  Group lock.
 */
static void lend_group_recount(struct lend_group *group)
{
	u16 number = lend_group_lowest_name(group);
	struct lend_census census = { };
	struct iommu_group *iommu;

	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);) {
		/* A function that is bound is still in its IOMMU group. */
		iommu = census.members ? NULL : iommu_group_get(&w.fn->pdev->dev);
		if (iommu)
			lend_census_take(iommu, &census);
		iommu_group_put(iommu);
	}
	if (!census.members || (census.members == group->members && number == group->number))
		return;
	group->members = census.members;
	group->number = number;
	lend_outbox_tell_group(group, LEND_TELL_OFFER);
}

/* Group lock. */
static bool lend_group_any_broken(const struct lend_group *group)
{
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->broken)
			return true;
	return false;
}

/* What is to become of a group that nobody has.  Group lock. */
static enum lend_event_type lend_group_judge(const struct lend_group *group)
{
	if (!group->ready || group->ready != group->members)
		return LEND_EV_INCOMPLETE;
	if (lend_group_any_broken(group))
		return LEND_EV_BROKEN;
	return lend_group_is_kept_back(group) ? LEND_EV_INCOMPLETE : LEND_EV_OFFER;
}

void lend_group_try_offer(struct lend_group *group)
{
	struct lend_event ev = { };
	u32 todo;

	/* During a lease the group is not counted again: the end of the lease does that. */
	if (group->lease.state == DLEND_OFFER_HELD || group->lease.fencing)
		return;
	lend_group_recount(group);
	ev.type = lend_group_judge(group);
	lend_group_step(group, &ev, &todo);
}

static void lend_group_look_again(struct lend_group *group, void *unused)
{
	guard(mutex)(&group->lock);
	lend_group_try_offer(group);
	if (lend_set_heard(group))
		lend_group_tell(group);
}

static void lend_groups_look_again(struct work_struct *work)
{
	lend_registry_each_group(lend_group_look_again, NULL);
}

static DECLARE_WORK(lend_groups_work, lend_groups_look_again);

void lend_groups_changed(void)
{
	queue_work(lend_wq, &lend_groups_work);
}

void lend_groups_exit(void)
{
	cancel_work_sync(&lend_groups_work);
}

void lend_group_join_set(struct lend_group *group, const char *name)
{
	guard(mutex)(&group->lock);
	if (!lend_set_put(group, name))
		return;
	lend_outbox_tell_group(group, LEND_TELL_OFFER);
	lend_group_tell(group);
	lend_groups_changed();
}

void lend_group_ready(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	mutex_lock(&group->lock);
	/* Who was reset with others may be leaving: nobody would count it out. */
	if (!READ_ONCE(fn->removing)) {
		fn->ready = true;
		group->ready++;
		lend_group_try_offer(group);
	}
	mutex_unlock(&group->lock);
	lend_outbox_tell(fn, LEND_TELL_OFFER);
}

void lend_group_drop_domain(struct lend_group *group)
{
	if (group->domain)
		dlend_domain_destroy(group->domain);
	group->domain = NULL;
	if (group->link)
		dlend_link_put(group->link);
	WRITE_ONCE(group->link, NULL);
}

/*
 * Reservations: a group that only one node, or one VM, may borrow when it is free, for a time or
 * without end.
 *
 * Takes nothing from who has the group, and no fence looks here.
 */

static const struct lend_for lend_reserve_nobody;

/* Group lock.  Work that is pending has a reference already. */
static void lend_reserve_look_later(struct lend_group *group, u64 delay)
{
	kref_get(&group->ref);
	if (mod_delayed_work(lend_wq, &group->unreserve, delay))
		lend_group_put(group);
}

/* Group lock. */
static void lend_reserve_set(struct lend_group *group, const struct lend_for *whom, u64 until)
{
	group->reserved_until = until;
	if (lend_set_reserve(group, whom))
		lend_group_tell(group);
}

void lend_reserve(struct lend_group *group, const struct lend_for *whom, u32 seconds)
{
	u64 delay = (u64)seconds * HZ;

	guard(mutex)(&group->lock);
	lend_reserve_set(group, whom, seconds ? get_jiffies_64() + delay : 0);
	if (seconds)
		lend_reserve_look_later(group, delay);
}

/* Jiffies, not above 0 when the time is over.  Group lock. */
static s64 lend_reserve_rest(const struct lend_group *group)
{
	return group->reserved_until - get_jiffies_64();
}

void lend_reserve_left(struct lend_group *group, struct lend_for *whom, u32 *seconds)
{
	guard(mutex)(&group->lock);
	*seconds = 0;
	if (group->reserved_until)
		*seconds = div_u64(max_t(s64, lend_reserve_rest(group), 1) + HZ - 1, HZ);
	*whom = group->lease.reserved;
}

void lend_reserve_forget(struct lend_group *group)
{
	lend_reserve(group, &lend_reserve_nobody, 0);
	if (cancel_delayed_work_sync(&group->unreserve))
		lend_group_put(group);
}

/* A timer may end early, if its time is weeks away. */
void lend_reserve_work(struct work_struct *work)
{
	struct lend_group *group = container_of(to_delayed_work(work), struct lend_group,
						unreserve);

	mutex_lock(&group->lock);
	if (group->reserved_until && lend_reserve_rest(group) > 0)
		lend_reserve_look_later(group, lend_reserve_rest(group));
	else if (group->reserved_until)
		lend_reserve_set(group, &lend_reserve_nobody, 0);
	mutex_unlock(&group->lock);
	lend_group_put(group);
}

void lend_prepare_done(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	guard(mutex)(&group->lock);
	if (!fn->preparing && !group->withdrawn)
		return;
	group->withdrawn = false;
	fn->preparing = false;
	lend_group_try_offer(group);
	lend_outbox_tell(fn, LEND_TELL_OFFER);
	/* Also if another function of the group is missing. */
	lend_group_tell(group);
}

void lend_prepare_withdraw(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	guard(mutex)(&group->lock);
	group->withdrawn = true;
	lend_group_try_offer(group);
}
