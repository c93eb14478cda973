// SPDX-License-Identifier: GPL-2.0
/*
 * Calls to the peer: send a request, and wait until its reply, the end of the session, or a
 * time-out.
 *
 * Knows requests and replies by id, type and device; what they mean is their user's business.
 */
#include <linux/completion.h>
#include <dlend/compat.h>
#include "link.h"

/*
 * struct dlend_call - a caller that waits
 * @node: in dlend_calls.waiting until it is answered or given up
 * @done: completed when it is answered
 * @id, @type, @addr: what the reply must carry
 * @status: the reply's, or -ENOTCONN
 * @reply: where the reply goes, or NULL
 */
struct dlend_call {
	struct list_head node;
	struct completion done;
	u32 id;
	u16 type;
	struct dlend_addr addr;
	int status;
	struct dlend_msg *reply;
};

static int dlend_call_begin(const struct dlend_session_ref *ref, struct dlend_call *call)
{
	struct dlend_link *link = ref->link;
	struct dlend_calls *calls = &link->calls;
	int err = -ENOTCONN;

	spin_lock(&link->lock);
	if (dlend_session_live(ref)) {
		/* 0 means "no reply wanted". */
		if (!++calls->last_id)
			calls->last_id = 1;
		call->id = calls->last_id;
		list_add_tail(&call->node, &calls->waiting);
		err = 0;
	}
	spin_unlock(&link->lock);
	return err;
}

/* After this nobody touches @call any more. Return: was it answered before? */
static bool dlend_call_end(struct dlend_link *link, struct dlend_call *call)
{
	bool answered;

	spin_lock(&link->lock);
	answered = list_empty(&call->node);
	list_del_init(&call->node);
	spin_unlock(&link->lock);
	return answered;
}

static void dlend_call_wait(struct dlend_call *call, unsigned long deadline)
{
	long left;

	lock_map_acquire(&dlend_peer_map);
	do {
		left = dlend_deadline_left(deadline);
	} while (!wait_for_completion_timeout(&call->done, clamp(left, 1L, DLEND_WAIT_TURN)) &&
		 left > DLEND_WAIT_TURN);
	lock_map_release(&dlend_peer_map);
}

int dlend_link_call_in(const struct dlend_session_ref *ref, struct dlend_msg *req,
		       struct dlend_msg *reply, unsigned int timeout_ms)
{
	unsigned long deadline = dlend_deadline_in(timeout_ms);
	struct dlend_link *link = ref->link;
	struct dlend_call call = {
		.type = le16_to_cpu(req->type),
		.addr = dlend_msg_addr(req),
		.reply = reply,
	};
	int err;

	init_completion(&call.done);
	err = dlend_call_begin(ref, &call);
	if (err)
		return err;
	req->id = cpu_to_le32(call.id);
	req->flags = 0;
	req->status = 0;
	err = dlend_tx_send(ref, req, deadline);
	if (!err)
		dlend_call_wait(&call, deadline);
	if (dlend_call_end(link, &call))
		return call.status;
	if (!err) {
		atomic_inc(&link->stat.timeouts);
		dev_warn_ratelimited(&link->dev, "node %u did not answer %s in time\n",
				     dlend_link_peer(link), dlend_msg_type_name(call.type));
	}
	return err ?: -ETIMEDOUT;
}
DLEND_EXPORT(dlend_link_call_in);

int dlend_link_call(struct dlend_link *link, struct dlend_msg *req, struct dlend_msg *reply,
		    unsigned int timeout_ms)
{
	struct dlend_session_ref now = { .link = link, .session = dlend_link_session(link) };

	return dlend_link_call_in(&now, req, reply, timeout_ms);
}
DLEND_EXPORT(dlend_link_call);

/* Under link->lock. */
static void dlend_call_answer(struct dlend_call *call, int status)
{
	list_del_init(&call->node);
	call->status = status;
	complete(&call->done);
}

static bool dlend_call_matches(const struct dlend_call *call, const struct dlend_msg *msg)
{
	struct dlend_addr addr = dlend_msg_addr(msg);

	return call->id == le32_to_cpu(msg->id) && call->type == le16_to_cpu(msg->type) &&
	       dlend_addr_same(&call->addr, &addr);
}

void dlend_calls_reply(struct dlend_link *link, const struct dlend_msg *msg)
{
	struct dlend_call *call;

	spin_lock(&link->lock);
	list_for_each_entry(call, &link->calls.waiting, node) {
		if (!dlend_call_matches(call, msg))
			continue;
		if (call->reply)
			*call->reply = *msg;
		dlend_call_answer(call, (s32)le32_to_cpu(msg->status));
		spin_unlock(&link->lock);
		return;
	}
	spin_unlock(&link->lock);
	dlend_link_drop(link, DLEND_DROP_LATE);
}

void dlend_calls_end(struct dlend_link *link)
{
	struct dlend_call *call, *tmp;

	spin_lock(&link->lock);
	WRITE_ONCE(link->session, 0);
	list_for_each_entry_safe(call, tmp, &link->calls.waiting, node)
		dlend_call_answer(call, -ENOTCONN);
	spin_unlock(&link->lock);
}

void dlend_calls_init(struct dlend_link *link)
{
	INIT_LIST_HEAD(&link->calls.waiting);
}
