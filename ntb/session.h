/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sessions of a link: bring-up, self-test, heartbeat, end.
 *
 * bringup.c decides what an event means, session.c carries that out.  Other files ask for a step of
 * the bring-up, or for a new session, by functions of link.h.
 */
#ifndef DLEND_NTB_SESSION_H
#define DLEND_NTB_SESSION_H

#include <linux/ratelimit_types.h>
#include <linux/types.h>
#include "bringup.h"

struct dlend_link;

/**
 * struct dlend_sessions - what is remembered from one session to the next; under state_lock
 * @backoff: wait between sessions that do not last
 * @messages: limits how many lines about sessions are logged
 * @beat: this node's heartbeat
 * @published_at: when the scratchpads were last written, ms
 */
struct dlend_sessions {
	struct dlend_backoff backoff;
	struct ratelimit_state messages;
	u32 beat;
	u64 published_at;
};

/** dlend_session_init - no session; no step before dlend_link_kick(). Context: any. */
void dlend_session_init(struct dlend_link *link);

/**
 * dlend_session_require - say which node the peer must be
 * @link: link
 * @node: (in) node id; 0: any
 *
 * A peer that is another node loses the session. It is remembered for the next link of that name.
 * Context: process, may sleep; takes state_lock. Return: 0; -ENOMEM.
 */
int dlend_session_require(struct dlend_link *link, u16 node);

/**
 * dlend_session_open - the first step, of a link that everybody knows by now
 * @link: link
 * @asleep: (in) this host is asleep, or about to be: the link goes up when it wakes
 *
 * Context: process, may sleep; takes state_lock.
 */
void dlend_session_open(struct dlend_link *link, bool asleep);

/**
 * dlend_session_sleep - the host goes to sleep or down (or is awake again)
 * @link: link
 * @on: (in) true: the session ends, all users have been told when this returns, and there is no new
 *	one; false: sessions begin again
 *
 * The hardware may forget everything while the host sleeps: the next session sets it up again.
 * Context: process, may sleep; takes state_lock.
 */
void dlend_session_sleep(struct dlend_link *link, bool on);

/**
 * dlend_session_remove - the hardware goes away
 * @link: link
 *
 * When this returns all users have been told, no work of the link runs, and the hardware is not
 * used any more.
 * Context: process, may sleep; takes state_lock.
 */
void dlend_session_remove(struct dlend_link *link);

#endif
