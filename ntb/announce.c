// SPDX-License-Identifier: GPL-2.0
/*
 * Tells users of sessions that begin and end, and registers users.
 *
 * Knows neither messages nor the bring-up; sees of a session only that link->session changes.
 */
#include <dlend/compat.h>
#include "link.h"

/*
 * Milliseconds for message handlers to end when their session is over.  Most do at once; waiting
 * for them spares users the second link_down().  link_down() fences devices, so the wait is short.
 */
#define DLEND_ANNOUNCE_WAIT_MS	50

static DEFINE_MUTEX(dlend_users_lock);	/* one user registers or leaves at a time */

/* Under announced.lock. */
static void dlend_announce_up(struct dlend_link_user *user, void *arg)
{
	struct dlend_link *link = arg;

	if (!link->announced.session || test_and_set_bit(user->side, &link->announced.users))
		return;
	if (user->link_up)
		user->link_up(link);
}

/* Also to a user that does not know of the session: it may have handled messages of it. */
static void dlend_announce_down(struct dlend_link_user *user, void *arg)
{
	if (user->link_down)
		user->link_down(arg);
}

/*
 * Message handlers of the old session may still run.  They get a moment to end.  If they do not,
 * users are told without them, and once more after them, to undo what the handlers did until then.
 */
static void dlend_announce_end(struct dlend_link *link)
{
	bool idle = dlend_jobs_wait(link, DLEND_ANNOUNCE_WAIT_MS);

	dlend_users_call(dlend_announce_down, link);
	if (!idle) {
		dlend_jobs_drain(link);
		dlend_users_call(dlend_announce_down, link);
	}
	link->announced.users = 0;
	link->announced.session = 0;
}

/* Tell users whether the link is up now. */
static void dlend_announce_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, announced.work);
	struct dlend_announced *a = &link->announced;
	const char *news = NULL;
	u64 session;

	mutex_lock(&a->lock);
	session = dlend_link_session(link);
	/*
	 * A new session begins only when the last one is quiet.  So a live session is the one that
	 * users know, or the first one since then.
	 */
	if (session && !a->session) {
		a->session = session;
		dlend_users_call(dlend_announce_up, link);
		news = "up";
	} else if (!session && !READ_ONCE(a->quiet)) {
		/* Also if the session was over before users were told of it. */
		dlend_announce_end(link);
		WRITE_ONCE(a->quiet, true);
		news = "down";
	}
	mutex_unlock(&a->lock);
	dlend_link_kick(link);
	if (news)
		dlend_uevent_state(&link->dev, news);
}

static int dlend_announce_joined(struct dlend_link *link, void *user)
{
	guard(mutex)(&link->announced.lock);
	dlend_announce_up(user, link);
	return 0;
}

static int dlend_announce_left(struct dlend_link *link, void *arg)
{
	struct dlend_link_user *user = arg;

	guard(mutex)(&link->announced.lock);
	dlend_announce_down(user, link);
	clear_bit(user->side, &link->announced.users);
	return 0;
}

/*
 * The reason for a new session may be a text of the module that goes.  dlend_link_renew() has
 * queued a step, which copies it.  A step that does not do so leaves no session, and without one
 * the reason is not looked at.
 */
static int dlend_announce_step(struct dlend_link *link, void *unused)
{
	flush_delayed_work(&link->state_work);
	return 0;
}

int dlend_link_user_register(struct dlend_link_user *user)
{
	int err;

	guard(mutex)(&dlend_users_lock);
	err = dlend_user_add(user);
	/* A link that comes after this walk finds the user among the others. */
	if (!err)
		dlend_links_each(dlend_announce_joined, user);
	return err;
}
DLEND_EXPORT(dlend_link_user_register);

void dlend_link_user_unregister(struct dlend_link_user *user)
{
	mutex_lock(&dlend_users_lock);
	/* No message handler and no callback after this one ... */
	dlend_user_del(user);
	/* ... but the last link_down(), of every link: one may just have gone down. */
	dlend_links_each(dlend_announce_left, user);
	mutex_unlock(&dlend_users_lock);
	dlend_links_each(dlend_announce_step, NULL);
}
DLEND_EXPORT(dlend_link_user_unregister);

void dlend_announce_settle(void)
{
	mutex_lock(&dlend_users_lock);
	mutex_unlock(&dlend_users_lock);
}

bool dlend_announce_quiet(const struct dlend_link *link)
{
	return READ_ONCE(link->announced.quiet);
}

void dlend_announce_ending(struct dlend_link *link)
{
	WRITE_ONCE(link->announced.quiet, false);
}

void dlend_announce_queue(struct dlend_link *link)
{
	queue_work(dlend_wq, &link->announced.work);
}

void dlend_announce_flush(struct dlend_link *link)
{
	flush_work(&link->announced.work);
}

void dlend_announce_stop(struct dlend_link *link)
{
	flush_work(&link->announced.work);
	disable_work_sync(&link->announced.work);
}

void dlend_announce_init(struct dlend_link *link)
{
	mutex_init(&link->announced.lock);
	INIT_WORK(&link->announced.work, dlend_announce_work);
	link->announced.quiet = true;
}
