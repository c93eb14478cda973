// SPDX-License-Identifier: GPL-2.0
/*
 * Jobs: run the users' handlers for requests of the peer, and send the replies.
 *
 * Knows of a request whether it wants a reply; what it means is its user's business.
 */
#include <linux/slab.h>
#include <dlend/compat.h>
#include "link.h"
#include "users.h"

/*
 * struct dlend_job - a request of the peer, and the work item that handles it
 * @req: as requests.h gives it out
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
	err = dlend_tx_send(&asked, reply, dlend_deadline_in(0));
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
	/* From here on @job may belong to another request. */
	dlend_job_start(link, next);
	wake_up_all(&link->jobs.idle);
	/* The receiver stops while there is no room for a request. */
	dlend_link_receive(link);
}

static bool dlend_jobs_idle(struct dlend_link *link)
{
	bool idle;

	spin_lock(&link->lock);
	idle = dlend_requests_idle(&link->jobs.requests);
	spin_unlock(&link->lock);
	return idle;
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
	return wait_event_timeout(link->jobs.idle, dlend_jobs_caught_up(link, arrived, side),
				  msecs_to_jiffies(ms));
}
DLEND_EXPORT(dlend_link_catch_up);

bool dlend_jobs_wait(struct dlend_link *link, unsigned int ms)
{
	return wait_event_timeout(link->jobs.idle, dlend_jobs_idle(link), msecs_to_jiffies(ms));
}

void dlend_jobs_drain(struct dlend_link *link)
{
	/* A device's reset can take a minute: the kernel must not take this for a hanging task. */
	wait_event_idle(link->jobs.idle, dlend_jobs_idle(link));
}

bool dlend_jobs_room(struct dlend_link *link)
{
	bool room;

	spin_lock(&link->lock);
	room = dlend_requests_room(&link->jobs.requests);
	spin_unlock(&link->lock);
	return room;
}

void dlend_jobs_add(struct dlend_link *link, u64 session, const struct dlend_msg *msg)
{
	struct dlend_request *r;

	spin_lock(&link->lock);
	r = dlend_requests_add(&link->jobs.requests, session, msg);
	spin_unlock(&link->lock);
	dlend_job_start(link, r);
}

void dlend_jobs_stop(struct dlend_link *link)
{
	unsigned int i;

	for (i = 0; i < DLEND_MAX_REQUESTS; i++)
		disable_work_sync(&link->jobs.all[i].work);
}

void dlend_jobs_free(struct dlend_link *link)
{
	if (link->jobs.wq)
		destroy_workqueue(link->jobs.wq);
	kvfree(link->jobs.all);
}

/*
 * A workqueue has a limited number of workers, and a peer that asks and takes no replies keeps all
 * of them waiting.  So each link has a workqueue of its own, and such a peer blocks only its own
 * link.  See dlend_link_queues_create() for the flags.
 */
int dlend_jobs_init(struct dlend_link *link, const char *name)
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
