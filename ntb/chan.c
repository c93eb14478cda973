// SPDX-License-Identifier: GPL-2.0
/*
 * The channel: takes messages off the ring, and hands replies to callers and requests to jobs.
 *
 * Knows messages as bytes with a type and an id; what they mean is their user's business.
 */
#include <linux/io.h>
#include <dlend/compat.h>
#include <ntb/trace.h>
#include "link.h"

/*
 * Under chan.lock.  A message with a wrong checksum was overwritten, one with a wrong number is not
 * the next one.  So a message of the peer is lost, maybe the one that ends a lease, and only in a
 * new session the peer says everything again.  A message that is whole but makes no sense is only
 * dropped.
 */
static void dlend_chan_bad_frame(struct dlend_link *link, const struct dlend_msg *msg, int err,
				 const char *why)
{
	dlend_link_drop(link, DLEND_DROP_BAD);
	dev_warn_ratelimited(&link->dev, "bad message from node %u dropped: type %u (%s), %s (%d)\n",
			     dlend_link_peer(link), le16_to_cpu(msg->type),
			     dlend_msg_type_name(le16_to_cpu(msg->type)), why ?: "?", err);
	if (err == -EBADMSG)
		dlend_link_renew(link, "a message of the peer was lost or overwritten");
	else if (++link->chan.bad_frames >= DLEND_MAX_BAD_FRAMES)
		dlend_link_renew(link, "too many bad messages from the peer");
}

/* Under chan.lock; there is room for a request. Return: 0, also if it was dropped; -EBADMSG */
static int dlend_chan_take(struct dlend_link *link, u64 session)
{
	u32 number = link->chan.rx.cons;
	const char *why = NULL;
	struct dlend_msg msg;
	int err;

	/* One copy, then checks on the copy: the peer can write the ring at any time. */
	memcpy(&msg, &link->ctrl->ring[dlend_ring_index(number)], sizeof(msg));
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
	dlend_link_count(link->stat.received, &msg);
	return 0;
}

/* Under chan.lock; takes no more than the ring holds. Return: is there more? */
static bool dlend_chan_receive(struct dlend_link *link, u64 session)
{
	struct dlend_ring_rx *rx = &link->chan.rx;
	int i, avail;

	avail = dlend_ring_rx_avail(rx, le32_to_cpu(READ_ONCE(link->ctrl->msg_prod)));
	if (avail < 0) {
		dlend_link_renew(link, "peer gave an impossible message index");
		return false;
	}
	dma_rmb(); /* the index before the entries */
	for (i = 0; i < avail; i++) {
		if (!dlend_jobs_room(link) || dlend_link_session(link) != session ||
		    dlend_chan_take(link, session))
			break;
		writel(dlend_ring_rx_commit(rx), &link->peer_ctrl->msg_cons);
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
	/* A peer can send as fast as we take: let the work of other links run in between. */
	if (more)
		dlend_link_receive(link);
}

void dlend_chan_refresh(struct dlend_link *link)
{
	u64 session = dlend_link_session(link);

	dlend_tx_refresh(link, session);
	/* If another thread has the lock, it is about to write the same. */
	if (mutex_trylock(&link->chan.lock)) {
		if (session && dlend_link_session(link) == session)
			writel(link->chan.rx.cons, &link->peer_ctrl->msg_cons);
		mutex_unlock(&link->chan.lock);
	}
	dlend_link_receive(link);
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
	dlend_calls_end(link);
	dlend_tx_begin(link, 0);
	/* Wait for a receiver that still writes a credit. */
	mutex_lock(&link->chan.lock);
	mutex_unlock(&link->chan.lock);
}

void dlend_chan_stop(struct dlend_link *link)
{
	dlend_jobs_stop(link);
	disable_work_sync(&link->rx_work);
}

void dlend_chan_init(struct dlend_link *link)
{
	dlend_tx_init(link);
	dlend_calls_init(link);
	mutex_init(&link->chan.lock);
	INIT_WORK(&link->rx_work, dlend_chan_work);
}
