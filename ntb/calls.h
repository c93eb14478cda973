/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls: requests of this node that wait for a reply of the peer (dlend_link_call_in()).
 */
#ifndef DLEND_NTB_CALLS_H
#define DLEND_NTB_CALLS_H

#include <linux/list.h>
#include <linux/types.h>

struct dlend_link;
struct dlend_msg;

/**
 * struct dlend_calls - calls under way on a link; under link->lock
 * @waiting: struct dlend_call, on the stacks of the callers
 * @last_id: id of the last one
 */
struct dlend_calls {
	struct list_head waiting;
	u32 last_id;
};

/** dlend_calls_init - no call is under way. Context: any. */
void dlend_calls_init(struct dlend_link *link);

/**
 * dlend_calls_reply - a reply has come: wake the caller that waits for it
 * @link: link
 * @msg: (in) checked reply, copied; one that nobody waits for is counted and dropped
 *
 * Context: process; takes link->lock.
 */
void dlend_calls_reply(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * dlend_calls_end - the session is over: link->session is 0, and all callers wake with -ENOTCONN
 * @link: link
 *
 * Both happen under one lock, so that no call begins unseen in between.
 * Context: process; takes link->lock.
 */
void dlend_calls_end(struct dlend_link *link);

#endif
