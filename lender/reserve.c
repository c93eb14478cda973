// SPDX-License-Identifier: GPL-2.0
/*
 * Reservations: a group that only one node, or one VM, may borrow when it is free, for a time or
 * without end.
 *
 * Takes nothing from who has the group, and no fence looks here.
 */
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "lender/members.h"
#include "lender/registry.h"
#include "lender/reserve.h"
#include "lender/set.h"

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
