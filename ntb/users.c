// SPDX-License-Identifier: GPL-2.0
/*
 * Users of links: who registered, who handles a message, who is asked before the host sleeps.
 *
 * Knows nothing of what users do with a link, and not when they are told of sessions (announce.c).
 */
#include <linux/srcu.h>
#include <dlend/compat.h>
#include "link.h"
#include "users.h"

static struct dlend_link_user __rcu *dlend_users[DLEND_MAX_USERS];
DEFINE_STATIC_SRCU(dlend_users_srcu);

static int dlend_users_find(const struct dlend_link_user *user)
{
	unsigned int i;

	for (i = 0; i < DLEND_MAX_USERS; i++)
		if (rcu_access_pointer(dlend_users[i]) == user)
			return i;
	return -ENOENT;
}

int dlend_user_add(struct dlend_link_user *user)
{
	int number = dlend_users_find(NULL);

	if (number < 0)
		return -ENOSPC;
	rcu_assign_pointer(dlend_users[number], user);
	return number;
}

int dlend_user_del(struct dlend_link_user *user)
{
	int number = dlend_users_find(user);

	if (number >= 0)
		RCU_INIT_POINTER(dlend_users[number], NULL);
	synchronize_srcu(&dlend_users_srcu);
	return number;
}

/* SRCU is held for one user at a time: a callback may take long, and another user may leave. */
void dlend_users_call(void (*fn)(struct dlend_link_user *user, unsigned int number, void *arg),
		      void *arg)
{
	struct dlend_link_user *user;
	unsigned int i;
	int srcu;

	for (i = 0; i < DLEND_MAX_USERS; i++) {
		srcu = srcu_read_lock(&dlend_users_srcu);
		user = srcu_dereference(dlend_users[i], &dlend_users_srcu);
		if (user)
			fn(user, i, arg);
		srcu_read_unlock(&dlend_users_srcu, srcu);
	}
}

/* Under SRCU. */
static struct dlend_link_user *dlend_users_handler(u16 type)
{
	struct dlend_link_user *user;
	unsigned int i;

	for (i = 0; i < DLEND_MAX_USERS; i++) {
		user = srcu_dereference(dlend_users[i], &dlend_users_srcu);
		if (user && user->message && user->side == dlend_msg_to(type))
			return user;
	}
	return NULL;
}

int dlend_users_message(struct dlend_link *link, const struct dlend_msg *msg,
			struct dlend_msg *reply)
{
	int srcu = srcu_read_lock(&dlend_users_srcu), status = -EOPNOTSUPP;
	struct dlend_link_user *user = dlend_users_handler(le16_to_cpu(msg->type));

	if (user)
		status = user->message(link, msg, reply);
	else
		dlend_link_drop(link, DLEND_DROP_NO_USER);
	srcu_read_unlock(&dlend_users_srcu, srcu);
	return status;
}

static void dlend_user_suspend(struct dlend_link_user *user, unsigned int number, void *err)
{
	if (!*(int *)err && user->suspend)
		*(int *)err = user->suspend();
}

static void dlend_user_resume(struct dlend_link_user *user, unsigned int number, void *slept)
{
	if (user->resume)
		user->resume(*(bool *)slept);
}

static void dlend_user_shutdown(struct dlend_link_user *user, unsigned int number, void *unused)
{
	if (user->shutdown)
		user->shutdown();
}

static void dlend_user_vouched(struct dlend_link_user *user, unsigned int number, void *unused)
{
	if (user->vouched)
		user->vouched();
}

int dlend_users_suspend(void)
{
	int err = 0;

	dlend_users_call(dlend_user_suspend, &err);
	if (err)
		dlend_users_resume(false);
	return err;
}

void dlend_users_resume(bool slept)
{
	dlend_users_call(dlend_user_resume, &slept);
}

void dlend_users_shutdown(void)
{
	dlend_users_call(dlend_user_shutdown, NULL);
}

void dlend_users_vouched(void)
{
	dlend_users_call(dlend_user_vouched, NULL);
}
