// SPDX-License-Identifier: GPL-2.0
/*
 * Sets: see set.h.  Which nodes may borrow a member is decided by what each other member's lease
 * says (lend_hold_keeper()).
 *
 * Takes nothing from who has a member.  A fence passes here, too: the lock is held for no longer
 * than it takes to look at all members.
 */
#include <linux/string.h>

#include "lender/set.h"

/*
 * The set lock: guards lend_group.set of all groups.  Their leases change under the group lock and
 * under this one, so either is enough to read one.
 */
static DEFINE_MUTEX(lend_set_lock);
static LIST_HEAD(lend_set_members);

/* Set lock. */
static bool lend_set_has_both(const struct lend_group *a, const struct lend_group *b)
{
	return a != b && !strcmp(a->set.name, b->set.name);
}

/* Whom the other members keep @group for; 0: @node may have it.  Set lock. */
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

/* Set lock.  Return: there are others. */
static bool lend_set_tell_others(const struct lend_group *group)
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

bool lend_set_put(struct lend_group *group, const char *name)
{
	struct lend_member *set = &group->set;

	guard(mutex)(&lend_set_lock);
	if (!strcmp(set->name, name))
		return false;
	if (set->name[0]) {
		lend_set_tell_others(group);
		list_del(&set->node);
	}
	strscpy(set->name, name, sizeof(set->name));
	if (set->name[0]) {
		lend_set_tell_others(group);
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
	*others = memcmp(&hold, &group->set.hold, sizeof(hold)) && lend_set_tell_others(group);
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

enum dlend_offer_state lend_set_told(const struct lend_group *group, const struct lend_lease *lease,
				     const struct lend_for *whom, u16 *holder)
{
	static const struct lend_for admin;

	if (!whom)
		whom = &admin;
	guard(mutex)(&lend_set_lock);
	return lend_lease_told(lease, whom, lend_set_keeper(group, whom->node), holder);
}

bool lend_set_heard(struct lend_group *group)
{
	bool stale;

	guard(mutex)(&lend_set_lock);
	stale = group->set.stale;
	group->set.stale = false;
	return stale;
}

void lend_set_message(const struct lend_fn *fn, struct dlend_msg *msg)
{
	struct dlend_p_set *set;

	set = dlend_msg_init(msg, DLEND_MSG_SET, &fn->addr, 0, sizeof(*set));
	lend_set_name(fn->group, set->name);
}
