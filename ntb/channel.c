// SPDX-License-Identifier: GPL-2.0
/*
 * The channel: messages of this node and of its peer.  This file sends over the ring in the peer's
 * memory, lets callers wait for their replies, receives from the ring in this node's memory, and
 * runs users' handlers for the peer's requests.
 *
 * Here a message is bytes with a type, an id and a device.  Only its user knows the payload; one
 * type is known here, too (dlend_tx_says_done()).
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/list.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <ntb/trace.h>
#include "link.h"

/* Sending */

/* A peer has this many times call_timeout_ms to take a full ring; then the session ends. */
#define DLEND_TX_FULL_CALLS	4
/*
 * Microseconds between two checks for room.  A peer that is awake takes a message in some tens of
 * microseconds.  The range lets the kernel join timers.
 */
#define DLEND_TX_ROOM_US	50
#define DLEND_TX_ROOM_MAX_US	200
/* Malformed messages in a session until it ends: the peer speaks another protocol. */
#define DLEND_MAX_BAD_FRAMES	16

static unsigned int dlend_call_timeout_ms = 5000;
module_param_named(call_timeout_ms, dlend_call_timeout_ms, uint, 0644);
MODULE_PARM_DESC(call_timeout_ms, "milliseconds until a call to a peer gives up");

/* Jiffies.  A longer wait is made of several, so that the kernel reports no hung task. */
#define DLEND_WAIT_TURN		(30L * HZ)

/* Return: jiffies until @deadline; 0: it is over */
static long dlend_deadline_left(unsigned long deadline)
{
	return max((long)(deadline - jiffies), 0L);
}

/* @ms: milliseconds; 0: call_timeout_ms */
static unsigned long dlend_deadline_in(unsigned int ms)
{
	return jiffies + msecs_to_jiffies(ms ?: READ_ONCE(dlend_call_timeout_ms));
}

/* Take tx.lock.  The thread that has it may wait for the peer.  Return: 0, -ETIMEDOUT */
static int dlend_tx_lock(struct dlend_tx *tx, unsigned long deadline)
{
	long left;

	do {
		left = dlend_deadline_left(deadline);
		if (!down_timeout(&tx->lock, min(left, DLEND_WAIT_TURN)))
			return 0;
	} while (left > DLEND_WAIT_TURN);
	return -ETIMEDOUT;
}

/* Under tx.lock. Return: free places in the peer's ring; -EPROTO: impossible, the session ends */
static int dlend_tx_room(struct dlend_link *link)
{
	int room = dlend_ring_tx_room(&link->tx.ring,
				      le32_to_cpu(READ_ONCE(link->ctrl->msg_cons)));

	if (room < 0)
		dlend_link_restart_current(link, "peer gave an impossible message credit");
	return room;
}

/*
 * Under tx.lock.  Wait for a free place in the peer's ring, until the session is over, the caller's
 * deadline, or call_timeout_ms, whichever comes first.  The wait is that short, because all other
 * senders wait for the lock, and some of them also have to talk to other nodes.
 * Return: 0; -ENOTCONN; -ETIMEDOUT
 */
static int dlend_tx_wait_room(const struct dlend_session_ref *ref, unsigned long deadline)
{
	unsigned long own = dlend_deadline_in(0);
	struct dlend_link *link = ref->link;
	int room;

	if (time_before(own, deadline))
		deadline = own;

	for (;;) {
		if (link->tx.session != ref->session || !dlend_session_live(ref))
			return -ENOTCONN;
		room = dlend_tx_room(link);
		if (room < 0)
			return -ENOTCONN;
		/* The peer is alive, but takes hardly any messages: end the session. */
		if (dlend_ring_tx_slow(&link->tx.ring, dlend_now_ms(), DLEND_TX_FULL_CALLS *
				       (u64)READ_ONCE(dlend_call_timeout_ms)))
			dlend_link_restart_current(link, "peer takes no messages, or too slowly");
		if (room)
			return 0;
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		atomic_inc(&link->stat.ring_full);
		usleep_range(DLEND_TX_ROOM_US, DLEND_TX_ROOM_MAX_US);
	}
}

/*
 * May the message say that a device here writes no more?  A reply may (memory is unmapped, a lease
 * has ended, a device has stopped), and so does P2P_CLOSED.  The device's data must arrive before
 * such a message: docs/hardware.md, "Data before a message".
 */
static bool dlend_tx_says_done(const struct dlend_msg *msg)
{
	return le16_to_cpu(msg->flags) & DLEND_MSG_F_REPLY ||
	       le16_to_cpu(msg->type) == DLEND_MSG_P2P_CLOSED;
}

/* Under tx.lock; there is a free place. First the message, then the index, last the doorbell. */
static void dlend_tx_write(struct dlend_link *link, struct dlend_msg *msg)
{
	struct dlend_ctrl __iomem *peer = link->peer_ctrl;
	u32 index = link->tx.ring.prod % DLEND_RING_SLOTS;

	dlend_msg_seal(msg, link->tx.ring.prod);
	memcpy_toio(&peer->ring[index], msg, sizeof(*msg));
	wmb(); /* posted writes in order: the ring entry before the index */
	writel(++link->tx.ring.prod, &peer->msg_prod);
	wmb(); /* the index before the doorbell, which takes another way */
	link->ops->db_ring(link->hw, BIT_ULL(DLEND_DB_MSG));
	atomic_inc(&link->stat.sent[le16_to_cpu(msg->type)]);
}

/*
 * Send a message in session @ref.  Waiting ends at @deadline; if nothing has to be waited for, the
 * message is sent even after @deadline.  @map: see dlend_peer_map.
 * Return: 0; -ENOTCONN; -ETIMEDOUT the peer takes no messages
 */
static int dlend_tx_send(const struct dlend_session_ref *ref, struct dlend_msg *msg,
			 unsigned long deadline, struct lockdep_map *map)
{
	struct dlend_link *link = ref->link;
	int err;

	if (!ref->session)
		return -ENOTCONN;
	/* Before tx.lock is taken: how long the read takes is up to the peer. */
	if (dlend_tx_says_done(msg))
		dlend_irq_sources_push(link);
	lock_map_acquire(map);
	err = dlend_tx_lock(&link->tx, deadline);
	if (!err) {
		err = dlend_tx_wait_room(ref, deadline);
		if (!err)
			dlend_tx_write(link, msg);
		up(&link->tx.lock);
	}
	lock_map_release(map);
	trace_dlend_msg_send(dlend_link_name(link), msg, err);
	return err;
}

int dlend_link_post_in(const struct dlend_session_ref *ref, struct dlend_msg *msg)
{
	msg->id = 0;
	msg->flags = 0;
	msg->status = 0;
	return dlend_tx_send(ref, msg, dlend_deadline_in(0), &dlend_peer_map);
}
DLEND_EXPORT(dlend_link_post_in);

/*
 * Write the producer's index again, as it may have been overwritten, and check the peer's credit,
 * which is otherwise checked only when a message is sent.  If another thread has tx.lock, it is
 * sending, and does both.
 */
static void dlend_tx_refresh(struct dlend_link *link, u64 session)
{
	if (down_trylock(&link->tx.lock))
		return;
	if (session && link->tx.session == session && dlend_tx_room(link) >= 0)
		writel(link->tx.ring.prod, &link->peer_ctrl->msg_prod);
	up(&link->tx.lock);
}

/* When this returns, only messages of session @session are written; 0: none. Waits for senders. */
static void dlend_tx_begin(struct dlend_link *link, u64 session)
{
	down(&link->tx.lock);
	memset(&link->tx.ring, 0, sizeof(link->tx.ring));
	link->tx.session = session;
	up(&link->tx.lock);
}

/* Calls: requests of this node that wait for a reply */

/*
 * struct dlend_call - a caller that waits
 * @node: in dlend_link.calls until the call is answered or given up; under link->lock
 * @done: completed when the call is answered
 * @id, @type, @addr: the reply must have the same
 * @status: status of the reply, or -ENOTCONN
 * @reply: where the reply is copied to, or NULL
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
	int err = -ENOTCONN;

	spin_lock(&link->lock);
	if (dlend_session_live(ref)) {
		/* 0 means "no reply wanted". */
		if (!++link->last_call)
			link->last_call = 1;
		call->id = link->last_call;
		list_add_tail(&call->node, &link->calls);
		err = 0;
	}
	spin_unlock(&link->lock);
	return err;
}

/* After this @call is no longer used by others. Return: was it answered before? */
static bool dlend_call_end(struct dlend_link *link, struct dlend_call *call)
{
	bool answered;

	spin_lock(&link->lock);
	answered = list_empty(&call->node);
	list_del_init(&call->node);
	spin_unlock(&link->lock);
	return answered;
}

static void dlend_call_wait(struct dlend_call *call, unsigned long deadline,
			    struct lockdep_map *map)
{
	long left;

	lock_map_acquire(map);
	do {
		left = dlend_deadline_left(deadline);
	} while (!wait_for_completion_timeout(&call->done, clamp(left, 1L, DLEND_WAIT_TURN)) &&
		 left > DLEND_WAIT_TURN);
	lock_map_release(map);
}

/* dlend_link_call_in(). @map: see dlend_peer_map. */
static int dlend_call(const struct dlend_session_ref *ref, struct dlend_msg *req,
		      struct dlend_msg *reply, unsigned int timeout_ms, struct lockdep_map *map)
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
	err = dlend_tx_send(ref, req, deadline, map);
	if (!err)
		dlend_call_wait(&call, deadline, map);
	if (dlend_call_end(link, &call))
		return call.status;
	if (!err) {
		atomic_inc(&link->stat.timeouts);
		dev_warn_ratelimited(&link->dev, "node %u did not answer %s in time\n",
				     dlend_link_peer(link), dlend_msg_type_name(call.type));
	}
	return err ?: -ETIMEDOUT;
}

int dlend_link_call_in(const struct dlend_session_ref *ref, struct dlend_msg *req,
		       struct dlend_msg *reply, unsigned int timeout_ms)
{
	return dlend_call(ref, req, reply, timeout_ms, &dlend_peer_map);
}
DLEND_EXPORT(dlend_link_call_in);

int dlend_link_call_in_core(const struct dlend_session_ref *ref, struct dlend_msg *req,
			    struct dlend_msg *reply, unsigned int timeout_ms)
{
	return dlend_call(ref, req, reply, timeout_ms, &dlend_peer_core_map);
}
DLEND_EXPORT(dlend_link_call_in_core);

/* Under link->lock. Wake the caller, which returns @status. */
static void dlend_call_answer(struct dlend_call *call, int status)
{
	list_del_init(&call->node);
	call->status = status;
	complete(&call->done);
}

/* A reply has come: wake the caller that waits for it. */
static void dlend_calls_reply(struct dlend_link *link, const struct dlend_msg *msg)
{
	struct dlend_addr addr = dlend_msg_addr(msg);
	struct dlend_call *call;

	spin_lock(&link->lock);
	list_for_each_entry(call, &link->calls, node) {
		if (call->id != le32_to_cpu(msg->id) || call->type != le16_to_cpu(msg->type) ||
		    !dlend_addr_same(&call->addr, &addr))
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

/* Jobs: requests of the peer, each with the work item in which a user handles it */

/*
 * struct dlend_job - a request of the peer, and the work item that handles it
 * @req: the request; queue.c gives the memory out, under link->lock
 * @link: the link, which outlives the job
 * @work: handles the request, in jobs.wq
 */
struct dlend_job {
	struct dlend_request req;
	struct dlend_link *link;
	struct work_struct work;
};

static void dlend_job_reply(struct dlend_job *job, struct dlend_msg *reply, int status)
{
	struct dlend_link *link = job->link;
	struct dlend_session_ref asked = { .link = link, .session = job->req.session };
	int err;

	reply->status = cpu_to_le32(min(status, 0));
	err = dlend_tx_send(&asked, reply, dlend_deadline_in(0), &dlend_peer_map);
	if (err && err != -ENOTCONN)
		dev_warn_ratelimited(&link->dev, "reply to %s not sent (%d): node %u takes no messages\n",
				     dlend_msg_type_name(le16_to_cpu(reply->type)), err,
				     dlend_link_peer(link));
}

static void dlend_job_answer_call(struct dlend_job *job)
{
	const struct dlend_msg *msg = &job->req.msg;
	u16 type = le16_to_cpu(msg->type);
	struct dlend_addr addr = dlend_msg_addr(msg);
	int status = -ENOBUFS;
	struct dlend_msg reply;

	dlend_msg_init(&reply, type, &addr, le32_to_cpu(msg->epoch),
		       dlend_msg_payload_len(type, true));
	reply.id = msg->id;
	reply.flags = cpu_to_le16(DLEND_MSG_F_REPLY);
	if (job->req.refused)
		dlend_link_drop(job->link, DLEND_DROP_REFUSED);
	else
		status = dlend_users_message(job->link, msg, &reply);
	dlend_job_reply(job, &reply, status);
}

static void dlend_job_start(struct dlend_link *link, struct dlend_request *r)
{
	if (r)
		queue_work(link->jobs.wq, &container_of(r, struct dlend_job, req)->work);
}

static void dlend_job_work(struct work_struct *work)
{
	struct dlend_job *job = container_of(work, struct dlend_job, work);
	struct dlend_link *link = job->link;
	struct dlend_request *next;

	if (job->req.session != dlend_link_session(link))
		dlend_link_drop(link, DLEND_DROP_SESSION);
	else if (job->req.msg.id)
		dlend_job_answer_call(job);
	else
		dlend_users_message(link, &job->req.msg, NULL);
	spin_lock(&link->lock);
	next = dlend_requests_done(&link->jobs.requests, &job->req);
	spin_unlock(&link->lock);
	/* From here on @job may be in use for another request. */
	dlend_job_start(link, next);
	wake_up_all(&link->jobs.idle);
	/* The receiver may have stopped, because there was no room for a request. */
	dlend_link_queue_rx(link);
}

static bool dlend_jobs_caught_up(struct dlend_link *link, u64 arrived, enum dlend_msg_side side)
{
	bool done;

	spin_lock(&link->lock);
	done = dlend_requests_caught_up(&link->jobs.requests, arrived, side);
	spin_unlock(&link->lock);
	return done;
}

bool dlend_link_catch_up(struct dlend_link *link, enum dlend_msg_side side, unsigned int ms)
{
	u64 arrived;

	spin_lock(&link->lock);
	arrived = link->jobs.requests.arrived;
	spin_unlock(&link->lock);
	/* Idle: a device's reset can take a minute, and must not be reported as a hung task. */
	return wait_event_idle_timeout(link->jobs.idle, dlend_jobs_caught_up(link, arrived, side),
				       msecs_to_jiffies(ms));
}
DLEND_EXPORT(dlend_link_catch_up);

static bool dlend_jobs_room(struct dlend_link *link)
{
	bool room;

	spin_lock(&link->lock);
	room = dlend_requests_room(&link->jobs.requests);
	spin_unlock(&link->lock);
	return room;
}

/* Queue a request for its user's handler. The caller has checked dlend_jobs_room(). */
static void dlend_jobs_add(struct dlend_link *link, u64 session, const struct dlend_msg *msg)
{
	struct dlend_request *r;

	spin_lock(&link->lock);
	r = dlend_requests_add(&link->jobs.requests, session, msg);
	spin_unlock(&link->lock);
	dlend_job_start(link, r);
}

/*
 * A workqueue has a limited number of workers.  A peer that sends requests and takes no replies
 * makes all of them wait.  So each link has a workqueue of its own, and such a peer blocks only its
 * own link.  See dlend_links_init() for the flags.
 */
static int dlend_jobs_init(struct dlend_link *link, const char *name)
{
	struct dlend_jobs *jobs = &link->jobs;
	unsigned int i;

	jobs->all = kvcalloc(DLEND_MAX_REQUESTS, sizeof(*jobs->all), GFP_KERNEL);
	jobs->wq = alloc_workqueue("dlend_request/%s", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, name);
	if (!jobs->all || !jobs->wq)
		return -ENOMEM;
	dlend_requests_init(&jobs->requests);
	for (i = 0; i < DLEND_MAX_REQUESTS; i++) {
		jobs->all[i].link = link;
		INIT_WORK(&jobs->all[i].work, dlend_job_work);
		dlend_requests_give(&jobs->requests, &jobs->all[i].req);
	}
	init_waitqueue_head(&jobs->idle);
	return 0;
}

/* Receiving */

/*
 * Under chan.lock.  A message with a wrong checksum was overwritten; a message with a wrong
 * sequence number is not the next one (both -EBADMSG).  In both cases a message of the peer is
 * lost, maybe the one that ends a lease, and the peer sends everything again only in a new session.
 * So the session ends.  A message that is complete, but malformed, is dropped; the session ends
 * when DLEND_MAX_BAD_FRAMES of them have come.
 */
static void dlend_chan_bad_frame(struct dlend_link *link, const struct dlend_msg *msg, int err,
				 const char *why)
{
	dlend_link_drop(link, DLEND_DROP_BAD);
	dev_warn_ratelimited(&link->dev, "bad message from node %u dropped: type %u (%s), %s (%d)\n",
			     dlend_link_peer(link), le16_to_cpu(msg->type),
			     dlend_msg_type_name(le16_to_cpu(msg->type)), why ?: "?", err);
	if (err == -EBADMSG)
		dlend_link_restart_current(link, "a message of the peer was lost or overwritten");
	else if (++link->chan.bad_frames >= DLEND_MAX_BAD_FRAMES)
		dlend_link_restart_current(link, "too many bad messages from the peer");
}

/*
 * Under chan.lock; there is room for a request.  Take the next message off the ring.
 * Return: 0, also if it was dropped; -EBADMSG: the session ends
 */
static int dlend_chan_take(struct dlend_link *link, u64 session)
{
	u32 number = link->chan.rx.cons;
	const char *why = NULL;
	struct dlend_msg msg;
	int err;

	/* Copied once, and the copy is checked: the peer can write to the ring at any time. */
	memcpy(&msg, &link->ctrl->ring[number % DLEND_RING_SLOTS], sizeof(msg));
	barrier();
	err = dlend_msg_check(&msg, number, &why);
	trace_dlend_msg_receive(dlend_link_name(link), &msg, err);
	if (err) {
		dlend_chan_bad_frame(link, &msg, err, why);
		return err == -EBADMSG ? err : 0;
	}
	if (le16_to_cpu(msg.flags) & DLEND_MSG_F_REPLY)
		dlend_calls_reply(link, &msg);
	else
		dlend_jobs_add(link, session, &msg);
	atomic_inc(&link->stat.received[le16_to_cpu(msg.type)]);
	return 0;
}

/* Under chan.lock. Take what is in the ring now. Return: may there be more? */
static bool dlend_chan_receive(struct dlend_link *link, u64 session)
{
	struct dlend_ring_rx *rx = &link->chan.rx;
	int i, avail;

	avail = dlend_ring_rx_avail(rx, le32_to_cpu(READ_ONCE(link->ctrl->msg_prod)));
	if (avail < 0) {
		dlend_link_restart_current(link, "peer gave an impossible message index");
		return false;
	}
	dma_rmb(); /* the index before the entries */
	for (i = 0; i < avail; i++) {
		if (!dlend_jobs_room(link) || dlend_link_session(link) != session ||
		    dlend_chan_take(link, session))
			break;
		writel(++rx->cons, &link->peer_ctrl->msg_cons);
	}
	return avail && i == avail;
}

static void dlend_chan_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, rx_work);
	u64 session;
	bool more;

	mutex_lock(&link->chan.lock);
	session = dlend_link_session(link);
	more = session && dlend_chan_receive(link, session);
	mutex_unlock(&link->chan.lock);
	/* A peer can send as fast as this node receives: let work of other links run in between. */
	if (more)
		dlend_link_queue_rx(link);
}

void dlend_chan_refresh(struct dlend_link *link)
{
	u64 session = dlend_link_session(link);

	dlend_tx_refresh(link, session);
	/* A thread that has the lock writes the same index. */
	if (mutex_trylock(&link->chan.lock)) {
		if (session && dlend_link_session(link) == session)
			writel(link->chan.rx.cons, &link->peer_ctrl->msg_cons);
		mutex_unlock(&link->chan.lock);
	}
	dlend_link_queue_rx(link);
}

void dlend_chan_begin(struct dlend_link *link, u64 session)
{
	mutex_lock(&link->chan.lock);
	memset(&link->chan.rx, 0, sizeof(link->chan.rx));
	link->chan.bad_frames = 0;
	mutex_unlock(&link->chan.lock);
	dlend_tx_begin(link, session);
}

void dlend_chan_end(struct dlend_link *link)
{
	struct dlend_call *call, *tmp;

	/* Session's end and wake-up under one lock: dlend_call_begin() adds no call after this. */
	spin_lock(&link->lock);
	WRITE_ONCE(link->session, 0);
	list_for_each_entry_safe(call, tmp, &link->calls, node)
		dlend_call_answer(call, -ENOTCONN);
	spin_unlock(&link->lock);
	dlend_tx_begin(link, 0);
	/* Wait for rx_work, which may still write a credit into the peer's memory. */
	mutex_lock(&link->chan.lock);
	mutex_unlock(&link->chan.lock);
}

void dlend_chan_stop(struct dlend_link *link)
{
	for (unsigned int i = 0; i < DLEND_MAX_REQUESTS; i++)
		disable_work_sync(&link->jobs.all[i].work);
	disable_work_sync(&link->rx_work);
}

void dlend_chan_free(struct dlend_link *link)
{
	if (link->jobs.wq)
		destroy_workqueue(link->jobs.wq);
	kvfree(link->jobs.all);
}

int dlend_chan_init(struct dlend_link *link, const char *name)
{
	sema_init(&link->tx.lock, 1);
	INIT_LIST_HEAD(&link->calls);
	mutex_init(&link->chan.lock);
	INIT_WORK(&link->rx_work, dlend_chan_work);
	return dlend_jobs_init(link, name);
}
