/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Announcing sessions: every user gets link_up() when one has begun, and link_down() when it is
 * over.
 *
 * Users register here, too (dlend_link_user_register()), because a user that registers late has to
 * be told of the sessions that are up.
 */
#ifndef DLEND_NTB_ANNOUNCE_H
#define DLEND_NTB_ANNOUNCE_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct dlend_link;

/**
 * struct dlend_announced - what a link's users have been told
 * @lock: guards @session and @users, and keeps callbacks of this link from overlapping
 * @work: brings users up to date
 * @session: session that users know as up, 0 if none
 * @users: bit for each user that got link_up() in it
 * @quiet: all users have been told that the last session is over. Read without a lock
 */
struct dlend_announced {
	struct mutex lock;		/* callbacks; session, users */
	struct work_struct work;
	u64 session;
	unsigned long users;
	bool quiet;
};

/** dlend_announce_init - users know of no session. Context: any. */
void dlend_announce_init(struct dlend_link *link);

/** dlend_announce_quiet - have all users been told that the last session is over? Context: any. */
bool dlend_announce_quiet(const struct dlend_link *link);

/**
 * dlend_announce_ending - a session that was up ends: not quiet before all users were told
 * @link: link; dlend_announce_queue() follows when the session has ended
 *
 * Context: any.
 */
void dlend_announce_ending(struct dlend_link *link);

/** dlend_announce_queue - have users told, soon, whether the link is up. Context: any. */
void dlend_announce_queue(struct dlend_link *link);

/**
 * dlend_announce_flush - wait until users were told what was queued
 * @link: link
 *
 * Context: process, may sleep; without state_lock.
 */
void dlend_announce_flush(struct dlend_link *link);

/**
 * dlend_announce_settle - a user that is leaving, and is told of ends no more, has its last ones
 *
 * Before a link leaves the list of links. Context: process; waits for link_down() of users.
 */
void dlend_announce_settle(void);

/** dlend_announce_stop - dlend_announce_flush(), and nothing is told after that. Context: same. */
void dlend_announce_stop(struct dlend_link *link);

#endif
