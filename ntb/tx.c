// SPDX-License-Identifier: GPL-2.0
/*
 * Sending messages over the ring in the peer's memory; posts, which nobody answers.
 *
 * Knows messages as bytes with a type; what they mean is their user's business.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/moduleparam.h>
#include <dlend/compat.h>
#include <ntb/trace.h>
#include "link.h"

/* A slow peer is better than none: to take a ring full it has so many times call_timeout_ms. */
#define DLEND_TX_FULL_CALLS	4
/*
 * Microseconds between looks for room.  A peer that is awake takes a message in some tens of
 * microseconds; the range lets the kernel join timers.
 */
#define DLEND_TX_ROOM_US	50
#define DLEND_TX_ROOM_MAX_US	200

static unsigned int dlend_call_timeout_ms = 5000;
module_param_named(call_timeout_ms, dlend_call_timeout_ms, uint, 0644);
MODULE_PARM_DESC(call_timeout_ms, "milliseconds until a call to a peer gives up");

unsigned long dlend_deadline_in(unsigned int ms)
{
	return jiffies + msecs_to_jiffies(ms ?: READ_ONCE(dlend_call_timeout_ms));
}

/* The thread that has the lock may wait for the peer, and other threads may wait before us. */
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

/* Under tx.lock. Return: free places in the peer's ring, or -EPROTO: a new session is asked for */
static int dlend_tx_room(struct dlend_link *link)
{
	int room = dlend_ring_tx_room(&link->tx.ring,
				      le32_to_cpu(READ_ONCE(link->ctrl->msg_cons)));

	if (room < 0)
		dlend_link_renew(link, "peer gave an impossible message credit");
	return room;
}

/* Under tx.lock. If a peer that lives takes hardly any messages, its session has to begin anew. */
static void dlend_tx_check_pace(struct dlend_link *link)
{
	if (dlend_ring_tx_slow(&link->tx.ring, dlend_now_ms(),
			       DLEND_TX_FULL_CALLS * (u64)READ_ONCE(dlend_call_timeout_ms)))
		dlend_link_renew(link, "peer takes no messages, or too slowly");
}

/*
 * Under tx.lock.  Wait for a free place, but no longer than the session lasts, than the caller has
 * time, and than call_timeout_ms: all other senders wait for the lock meanwhile, and some of them
 * have to talk to other nodes, too.
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
		dlend_tx_check_pace(link);
		if (room)
			return 0;
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		atomic_inc(&link->stat.ring_full);
		usleep_range(DLEND_TX_ROOM_US, DLEND_TX_ROOM_MAX_US);
	}
}

/*
 * Replies say that a device writes no more (memory is unmapped, a lease has ended, a device has
 * stopped), and so does the end of a grant.  What it has written comes first: docs/hardware.md,
 * "Data before a message".
 */
static bool dlend_tx_says_done(const struct dlend_msg *msg)
{
	return le16_to_cpu(msg->flags) & DLEND_MSG_F_REPLY ||
	       le16_to_cpu(msg->type) == DLEND_MSG_P2P_CLOSED;
}

/* Under tx.lock. The message first, the index after it, the doorbell last. */
static void dlend_tx_write(struct dlend_link *link, struct dlend_msg *msg)
{
	struct dlend_ctrl __iomem *peer = link->peer_ctrl;
	u32 index = dlend_ring_index(link->tx.ring.prod);

	dlend_msg_seal(msg, link->tx.ring.prod);
	memcpy_toio(&peer->ring[index], msg, sizeof(*msg));
	wmb(); /* posted writes in order: the ring entry before the index */
	writel(dlend_ring_tx_commit(&link->tx.ring), &peer->msg_prod);
	wmb(); /* the index before the doorbell, which takes another way */
	link->ops->db_ring(link->hw, BIT_ULL(DLEND_DB_MSG));
	dlend_link_count(link->stat.sent, msg);
}

int dlend_tx_send(const struct dlend_session_ref *ref, struct dlend_msg *msg,
		  unsigned long deadline)
{
	struct dlend_link *link = ref->link;
	int err;

	if (!ref->session)
		return -ENOTCONN;
	/* Before the lock: how long the read takes is up to the peer. */
	if (dlend_tx_says_done(msg))
		dlend_irq_sources_push(link);
	lock_map_acquire(&dlend_peer_map);
	err = dlend_tx_lock(&link->tx, deadline);
	if (!err) {
		err = dlend_tx_wait_room(ref, deadline);
		if (!err)
			dlend_tx_write(link, msg);
		up(&link->tx.lock);
	}
	lock_map_release(&dlend_peer_map);
	trace_dlend_msg_send(dlend_link_name(link), msg, err);
	return err;
}

int dlend_link_post_in(const struct dlend_session_ref *ref, struct dlend_msg *msg)
{
	msg->id = 0;
	msg->flags = 0;
	msg->status = 0;
	return dlend_tx_send(ref, msg, dlend_deadline_in(0));
}
DLEND_EXPORT(dlend_link_post_in);

int dlend_link_post(struct dlend_link *link, struct dlend_msg *msg)
{
	struct dlend_session_ref now = { .link = link, .session = dlend_link_session(link) };

	return dlend_link_post_in(&now, msg);
}
DLEND_EXPORT(dlend_link_post);

void dlend_tx_refresh(struct dlend_link *link, u64 session)
{
	if (down_trylock(&link->tx.lock))
		return;
	if (session && link->tx.session == session && dlend_tx_room(link) >= 0)
		writel(link->tx.ring.prod, &link->peer_ctrl->msg_prod);
	up(&link->tx.lock);
}

void dlend_tx_begin(struct dlend_link *link, u64 session)
{
	down(&link->tx.lock);
	memset(&link->tx.ring, 0, sizeof(link->tx.ring));
	link->tx.session = session;
	up(&link->tx.lock);
}

void dlend_tx_init(struct dlend_link *link)
{
	sema_init(&link->tx.lock, 1);
}
