// SPDX-License-Identifier: GPL-2.0
/*
 * Control channel: posts, calls and replies over the two message rings of a link.
 *
 * Knows messages as bytes with a type and an id; what they mean is their user's business.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <ntb/trace.h>
#include "core.h"

/* A caller that waits; on its stack, in link->calls until answered or given up. */
struct call {
	struct list_head node;
	struct completion done;
	u32 id;
	u16 type, bdf, lender;
	int status;
	struct dlend_msg *reply;
};

/* A request of the peer and the work item that handles it; there is a fixed number of them. */
struct dlend_job {
	struct dlend_request req;
	struct dlend_link *link;
	struct work_struct work;
};

static void count_type(atomic_t *counters, const struct dlend_msg *msg)
{
	u16 type = le16_to_cpu(msg->type);

	if (type < DLEND_MSG_TYPES)
		atomic_inc(&counters[type]);
}

static void drop(struct dlend_link *link, enum dlend_drop why)
{
	atomic_inc(&link->stat.dropped[why]);
}

/* Sending */

/* In so many time-outs of calls a peer has to take a ring full: a slow one is better than none. */
#define FULL_CALLS	4
/* Who waits does so in turns shorter than what the kernel takes for a task that hangs. */
#define WAIT_TURN	(30L * HZ)

static unsigned long deadline_in(unsigned int ms)
{
	return jiffies + msecs_to_jiffies(ms ?: READ_ONCE(dlend_call_timeout_ms));
}

static long left_until(unsigned long deadline)
{
	return max((long)(deadline - jiffies), 0L);
}

/* Whoever has it may be waiting for the peer, and others may be waiting before us. */
static int lock_tx(struct dlend_link *link, unsigned long deadline)
{
	long left;

	do {
		left = left_until(deadline);
		if (!down_timeout(&link->tx_lock, min(left, WAIT_TURN)))
			return 0;
	} while (left > WAIT_TURN);
	return -ETIMEDOUT;
}

/* Under tx_lock: a peer that lives, and takes next to nothing, has to begin anew. */
static void check_pace(struct dlend_link *link)
{
	if (dlend_ring_tx_slow(&link->tx, dlend_now_ms(),
			       FULL_CALLS * (u64)READ_ONCE(dlend_call_timeout_ms)))
		dlend_session_restart(link, "peer takes no messages, or too slowly");
}

/*
 * Under tx_lock: wait for a free place, but no longer than the session, than the caller has time,
 * and than a call usually takes: all others wait behind us, some of them to talk to other nodes.
 */
static int wait_room(struct dlend_link *link, u64 session, unsigned long deadline)
{
	unsigned long own = deadline_in(0);
	int room;

	if (time_before(own, deadline))
		deadline = own;

	for (;;) {
		if (link->tx_session != session || dlend_live_session(link) != session)
			return -ENOTCONN;
		room = dlend_ring_tx_room(&link->tx, le32_to_cpu(READ_ONCE(link->ctrl->msg_cons)));
		if (room < 0) {
			dlend_session_restart(link, "peer gave an impossible message credit");
			return -ENOTCONN;
		}
		check_pace(link);
		if (room)
			return 0;
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		atomic_inc(&link->stat.ring_full);
		usleep_range(50, 200);
	}
}

/* Under tx_lock. The message first, the index after it, the doorbell last. */
static void write_message(struct dlend_link *link, struct dlend_msg *msg)
{
	struct dlend_ctrl __iomem *peer = link->peer_ctrl;
	u32 index = dlend_ring_index(link->tx.prod);

	dlend_msg_seal(msg, link->tx.prod);
	memcpy_toio(&peer->ring[index], msg, sizeof(*msg));
	wmb(); /* posted writes in order: the ring entry before the index */
	writel(dlend_ring_tx_commit(&link->tx), &peer->msg_prod);
	wmb(); /* the index before the doorbell, which takes another way */
	link->ops->db_ring(link->hw, BIT_ULL(DLEND_DB_MSG));
}

/* @deadline bounds all of it; with room and nobody before it, a message is sent even after it. */
static int send_message(struct dlend_link *link, u64 session, struct dlend_msg *msg,
			unsigned long deadline)
{
	unsigned int version;
	int err;

	if (!session)
		return -ENOTCONN;
	/*
	 * It would count as garbage there, and too much garbage ends a session.  No version: this
	 * one is about to end, and the caller shall hear that.
	 */
	version = READ_ONCE(link->bringup.picked);
	if (version && dlend_msg_since(le16_to_cpu(msg->type)) > version)
		return -EOPNOTSUPP;
	err = lock_tx(link, deadline);
	if (!err) {
		err = wait_room(link, session, deadline);
		if (!err) {
			write_message(link, msg);
			count_type(link->stat.sent, msg);
		}
		up(&link->tx_lock);
	}
	trace_dlend_msg_send(dlend_link_name(link), msg, err);
	return err;
}

int dlend_link_post_in(const struct dlend_session_ref *ref, struct dlend_msg *msg)
{
	msg->id = 0;
	msg->flags = 0;
	msg->status = 0;
	return send_message(ref->link, ref->session, msg, deadline_in(0));
}
DLEND_EXPORT(dlend_link_post_in);

int dlend_link_post(struct dlend_link *link, struct dlend_msg *msg)
{
	struct dlend_session_ref now = { .link = link, .session = dlend_live_session(link) };

	return dlend_link_post_in(&now, msg);
}
DLEND_EXPORT(dlend_link_post);

/* Calls */

static int begin_call(const struct dlend_session_ref *ref, struct call *call)
{
	struct dlend_link *link = ref->link;
	int err = -ENOTCONN;

	spin_lock(&link->lock);
	if (dlend_session_live(ref)) {
		/* 0 means "no reply wanted". */
		if (!++link->last_id)
			link->last_id = 1;
		call->id = link->last_id;
		list_add_tail(&call->node, &link->calls);
		err = 0;
	}
	spin_unlock(&link->lock);
	return err;
}

/* After this nobody touches @call any more. Return: was it answered (or woken) before? */
static bool end_call(struct dlend_link *link, struct call *call)
{
	bool answered;

	spin_lock(&link->lock);
	answered = list_empty(&call->node);
	list_del_init(&call->node);
	spin_unlock(&link->lock);
	return answered;
}

static void wait_answer(struct call *call, unsigned long deadline)
{
	long left;

	do {
		left = left_until(deadline);
	} while (!wait_for_completion_timeout(&call->done, clamp(left, 1L, WAIT_TURN)) &&
		 left > WAIT_TURN);
}

int dlend_link_call_in(const struct dlend_session_ref *ref, struct dlend_msg *req,
		       struct dlend_msg *reply, unsigned int timeout_ms)
{
	unsigned long deadline = deadline_in(timeout_ms);
	struct dlend_link *link = ref->link;
	struct call call = {
		.type = le16_to_cpu(req->type),
		.bdf = le16_to_cpu(req->bdf),
		.lender = le16_to_cpu(req->lender),
		.reply = reply,
	};
	int err;

	init_completion(&call.done);
	err = begin_call(ref, &call);
	if (err)
		return err;
	req->id = cpu_to_le32(call.id);
	req->flags = 0;
	req->status = 0;
	err = send_message(link, ref->session, req, deadline);
	if (!err)
		wait_answer(&call, deadline);
	if (end_call(link, &call))
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
	struct dlend_session_ref now = { .link = link, .session = dlend_live_session(link) };

	return dlend_link_call_in(&now, req, reply, timeout_ms);
}
DLEND_EXPORT(dlend_link_call);

static void answer(struct call *call, int status)
{
	list_del_init(&call->node);
	call->status = status;
	complete(&call->done);
}

static bool answers(const struct dlend_msg *msg, const struct call *call)
{
	return call->id == le32_to_cpu(msg->id) && call->type == le16_to_cpu(msg->type) &&
	       call->bdf == le16_to_cpu(msg->bdf) && call->lender == le16_to_cpu(msg->lender);
}

static void take_reply(struct dlend_link *link, const struct dlend_msg *msg)
{
	struct call *call;

	spin_lock(&link->lock);
	list_for_each_entry(call, &link->calls, node) {
		if (!answers(msg, call))
			continue;
		if (call->reply)
			*call->reply = *msg;
		answer(call, (s32)le32_to_cpu(msg->status));
		spin_unlock(&link->lock);
		return;
	}
	spin_unlock(&link->lock);
	drop(link, DLEND_DROP_LATE);
}

/* Requests */

static void send_reply(struct dlend_link *link, u64 session, struct dlend_msg *reply, int status)
{
	int err;

	reply->status = cpu_to_le32(min(status, 0));
	err = send_message(link, session, reply, deadline_in(0));
	if (err && err != -ENOTCONN)
		dev_warn_ratelimited(&link->dev, "reply to %s not sent (%d): node %u takes no messages\n",
				     dlend_msg_type_name(le16_to_cpu(reply->type)), err,
				     dlend_link_peer(link));
}

static int ask_user(struct dlend_link *link, const struct dlend_msg *msg, struct dlend_msg *reply)
{
	struct dlend_link_user *user;
	int status, srcu;

	user = dlend_user_get(le16_to_cpu(msg->type), &srcu);
	if (user) {
		status = user->message(link, msg, reply);
	} else {
		status = -EOPNOTSUPP;
		drop(link, DLEND_DROP_NO_USER);
	}
	dlend_user_put(srcu);
	return status;
}

/* The reply goes into the session that asked, or nowhere. */
static void handle_call(struct dlend_link *link, const struct dlend_request *r)
{
	u16 type = le16_to_cpu(r->msg.type);
	struct dlend_addr addr = {
		.lender = le16_to_cpu(r->msg.lender),
		.bdf = le16_to_cpu(r->msg.bdf),
	};
	int status = -ENOBUFS;
	struct dlend_msg reply;

	dlend_msg_init(&reply, type, &addr, le32_to_cpu(r->msg.epoch),
		       dlend_msg_payload_len(type, true));
	reply.id = r->msg.id;
	reply.flags = cpu_to_le16(DLEND_MSG_F_REPLY);
	if (r->refused)
		drop(link, DLEND_DROP_REFUSED);
	else
		status = ask_user(link, &r->msg, &reply);
	send_reply(link, r->session, &reply, status);
}

static void start_request(struct dlend_link *link, struct dlend_request *r)
{
	if (r)
		queue_work(link->request_wq, &container_of(r, struct dlend_job, req)->work);
}

static void req_work(struct work_struct *work)
{
	struct dlend_job *job = container_of(work, struct dlend_job, work);
	struct dlend_link *link = job->link;
	struct dlend_request *next;

	if (job->req.session != dlend_live_session(link))
		drop(link, DLEND_DROP_SESSION);
	else if (job->req.msg.id)
		handle_call(link, &job->req);
	else
		ask_user(link, &job->req.msg, NULL);
	spin_lock(&link->lock);
	next = dlend_requests_done(&link->requests, &job->req);
	spin_unlock(&link->lock);
	/* From here on @job is another request's. */
	start_request(link, next);
	wake_up_all(&link->idle);
	/* The receiver may have stopped for us. */
	queue_work(dlend_poll_wq, &link->rx_work);
}

static bool requests_idle(struct dlend_link *link)
{
	bool idle;

	spin_lock(&link->lock);
	idle = dlend_requests_idle(&link->requests);
	spin_unlock(&link->lock);
	return idle;
}

bool dlend_chan_idle(struct dlend_link *link, unsigned int wait_ms)
{
	return wait_event_timeout(link->idle, requests_idle(link), msecs_to_jiffies(wait_ms));
}

void dlend_chan_drain(struct dlend_link *link)
{
	/* A device's reset can take a minute: no task that hangs. */
	wait_event_idle(link->idle, requests_idle(link));
}

static bool room_for_request(struct dlend_link *link)
{
	bool room;

	spin_lock(&link->lock);
	room = dlend_requests_room(&link->requests);
	spin_unlock(&link->lock);
	return room;
}

static void add_request(struct dlend_link *link, u64 session, const struct dlend_msg *msg)
{
	struct dlend_request *r;

	spin_lock(&link->lock);
	r = dlend_requests_add(&link->requests, session, msg);
	spin_unlock(&link->lock);
	start_request(link, r);
}

/* Receiving */

/*
 * What fails by its checksum or number was not written as it is, or not in its turn: something
 * that the peer said is lost, maybe what ends a lease, and only a new session says everything
 * again.  What is whole and makes no sense is dropped: the peer has other ideas of the protocol.
 */
static void bad_frame(struct dlend_link *link, const struct dlend_msg *msg, int err,
		      const char *why)
{
	drop(link, DLEND_DROP_BAD);
	dev_warn_ratelimited(&link->dev, "bad message from node %u dropped: type %u (%s), %s (%d)\n",
			     dlend_link_peer(link), le16_to_cpu(msg->type),
			     dlend_msg_type_name(le16_to_cpu(msg->type)), why ?: "?", err);
	if (err == -EBADMSG)
		dlend_session_restart(link, "a message of the peer was lost or overwritten");
	else if (++link->bad_frames >= DLEND_MAX_BAD_FRAMES)
		dlend_session_restart(link, "too many bad messages from the peer");
}

/* Under rx_lock; there is room for a request. Return: 0, also if it was dropped; -EBADMSG */
static int take_message(struct dlend_link *link, u64 session)
{
	const char *why = NULL;
	struct dlend_msg msg;
	int err;

	/* One copy, then checks on the copy: the peer can write the ring at any time. */
	memcpy(&msg, &link->ctrl->ring[dlend_ring_index(link->rx.cons)], sizeof(msg));
	barrier();
	err = dlend_msg_check(&msg, link->rx.cons, &why);
	trace_dlend_msg_receive(dlend_link_name(link), &msg, err);
	if (err) {
		bad_frame(link, &msg, err, why);
		return err == -EBADMSG ? err : 0;
	}
	if (le16_to_cpu(msg.flags) & DLEND_MSG_F_REPLY)
		take_reply(link, &msg);
	else
		add_request(link, session, &msg);
	count_type(link->stat.received, &msg);
	return 0;
}

/* Under rx_lock; no more than the ring holds. Return: is there more? */
static bool receive(struct dlend_link *link, u64 session)
{
	int i, avail;

	avail = dlend_ring_rx_avail(&link->rx, le32_to_cpu(READ_ONCE(link->ctrl->msg_prod)));
	if (avail < 0) {
		dlend_session_restart(link, "peer gave an impossible message index");
		return false;
	}
	dma_rmb(); /* the index before the entries */
	for (i = 0; i < avail; i++) {
		if (!room_for_request(link) || dlend_live_session(link) != session ||
		    take_message(link, session))
			break;
		writel(dlend_ring_rx_commit(&link->rx), &link->peer_ctrl->msg_cons);
	}
	return avail && i == avail;
}

static void rx_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, rx_work);
	u64 session;
	bool more;

	mutex_lock(&link->rx_lock);
	session = dlend_live_session(link);
	more = session && receive(link, session);
	mutex_unlock(&link->rx_lock);
	/* A peer can send as fast as we take: behind the other links' work. */
	if (more)
		queue_work(dlend_poll_wq, &link->rx_work);
}

/* Sessions */

/* Under tx_lock: not only when the next message is due. */
static void refresh_tx(struct dlend_link *link)
{
	u32 credit = le32_to_cpu(READ_ONCE(link->ctrl->msg_cons));

	if (dlend_ring_tx_room(&link->tx, credit) < 0)
		dlend_session_restart(link, "peer gave an impossible message credit");
	else
		writel(link->tx.prod, &link->peer_ctrl->msg_prod);
}

void dlend_chan_refresh(struct dlend_link *link)
{
	u64 session = dlend_live_session(link);

	/* Whoever has a lock is about to write the same. */
	if (!down_trylock(&link->tx_lock)) {
		if (session && link->tx_session == session)
			refresh_tx(link);
		up(&link->tx_lock);
	}
	if (mutex_trylock(&link->rx_lock)) {
		if (session && dlend_live_session(link) == session)
			writel(link->rx.cons, &link->peer_ctrl->msg_cons);
		mutex_unlock(&link->rx_lock);
	}
	queue_work(dlend_poll_wq, &link->rx_work);
}

void dlend_chan_reset(struct dlend_link *link, u64 session)
{
	mutex_lock(&link->rx_lock);
	memset(&link->rx, 0, sizeof(link->rx));
	link->bad_frames = 0;
	mutex_unlock(&link->rx_lock);
	down(&link->tx_lock);
	memset(&link->tx, 0, sizeof(link->tx));
	link->tx_session = session;
	up(&link->tx_lock);
}

void dlend_chan_end(struct dlend_link *link)
{
	struct call *call, *tmp;

	spin_lock(&link->lock);
	WRITE_ONCE(link->session, 0);
	list_for_each_entry_safe(call, tmp, &link->calls, node)
		answer(call, -ENOTCONN);
	spin_unlock(&link->lock);
	/* When this is done nobody writes anything of the old session into the peer's memory. */
	down(&link->tx_lock);
	link->tx_session = 0;
	up(&link->tx_lock);
	mutex_lock(&link->rx_lock);
	mutex_unlock(&link->rx_lock);
}

/* The session is over and all its requests are done: nothing of the channel runs after this. */
void dlend_chan_stop(struct dlend_link *link)
{
	unsigned int i;

	for (i = 0; i < DLEND_MAX_REQUESTS; i++)
		disable_work_sync(&link->jobs[i].work);
	disable_work_sync(&link->rx_work);
}

void dlend_chan_free(struct dlend_link *link)
{
	if (link->request_wq)
		destroy_workqueue(link->request_wq);
	kvfree(link->jobs);
}

/*
 * A workqueue has so many workers and no more, and a peer that asks and takes no replies keeps all
 * of them waiting: so it gets those of its own link only.  See create_queues() for the flags.
 */
static int alloc_jobs(struct dlend_link *link, const char *name)
{
	link->jobs = kvcalloc(DLEND_MAX_REQUESTS, sizeof(*link->jobs), GFP_KERNEL);
	link->request_wq = alloc_workqueue("dlend_request/%s", WQ_UNBOUND | WQ_MEM_RECLAIM, 0,
					   name);
	if (link->jobs && link->request_wq)
		return 0;
	dlend_chan_free(link);
	return -ENOMEM;
}

int dlend_chan_init(struct dlend_link *link, const char *name)
{
	unsigned int i;
	int err;

	err = alloc_jobs(link, name);
	if (err)
		return err;
	dlend_requests_init(&link->requests);
	for (i = 0; i < DLEND_MAX_REQUESTS; i++) {
		link->jobs[i].link = link;
		INIT_WORK(&link->jobs[i].work, req_work);
		dlend_requests_give(&link->requests, &link->jobs[i].req);
	}
	sema_init(&link->tx_lock, 1);
	mutex_init(&link->rx_lock);
	INIT_WORK(&link->rx_work, rx_work);
	INIT_LIST_HEAD(&link->calls);
	init_waitqueue_head(&link->idle);
	return 0;
}
