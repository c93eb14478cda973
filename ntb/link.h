/* SPDX-License-Identifier: GPL-2.0 */
/*
 * struct dlend_link: one link, as the files of ntb/ see it; and the rules between these files.
 *
 * Files above the pure ones, from the bottom up.  A file calls only files that stand before it:
 *
 *   link.c		the object: references, registry, what is known of session and peer
 *   users.c		the layers above: who registered, messages, suspend and shutdown
 *   root.c		where functions of this host join its root complex, and their islands
 *   peer_window.c	how this node reaches the peer's aperture
 *   irq_source.c	interrupts: the lender's side; what devices here have written comes first
 *   tx.c		sends messages
 *   calls.c		callers of this node that wait for a reply of the peer
 *   jobs.c		requests of the peer, handled by users
 *   announce.c		tells users that a session begins and ends
 *   chan.c		receives messages; begins and ends the channel with a session
 *   irq_sink.c		interrupts: the borrower's side
 *   doorbell.c		what is done in the doorbell's interrupt, and how often
 *   setup.c		sets up the hardware: aperture, control area, the way to the peer
 *   session.c		bring-up, self-test, heartbeat
 *   debugfs.c, sysfs.c	what the admin sees
 *   link_life.c	puts a link together and takes it apart
 *   loop.c, pm.c, main.c
 *
 * A lower file that wants something of an upper one queues a work item: dlend_link_kick(),
 * dlend_link_nudge() and dlend_link_renew() let session.c look, dlend_link_receive() lets chan.c
 * look.  The upper file has set the work item up.
 *
 * Work items of a link.  Each runs alone, and none waits for one below it:
 *
 *   state_work		session.c: walks the bring-up's state machine.  Never calls a user, never
 *			waits for one
 *   doorbell.work	doorbell.c: polls doorbells and counters while the doorbells are masked.  In
 *			dlend_poll_wq, as a peer can keep it busy
 *   sources.work	irq_source.c: reads through the window, and tells interrupts that could
 *			not be told within the share of time that interrupts have for reading.
 *			In dlend_poll_wq, for the same reason
 *   rx_work		chan.c: takes messages off the ring, wakes callers, queues requests.  In
 *			dlend_poll_wq, for the same reason
 *   jobs		jobs.c: run users' message handlers.  Those about one device run one at a
 *			time and in order, devices run beside each other (requests.h).  A job may
 *			take a minute, and may wait for a peer that takes no replies: so they run in
 *			a workqueue of the link's own
 *   announced.work	announce.c: runs users' link_up() and link_down(); waits for the jobs of a
 *			session that is over
 *
 * A session that ends is over at once for callers: they wake with -ENOTCONN.  A new session begins
 * only after announced.work has brought link_down() to every user.
 *
 * Locks, outermost first.  Code that holds one may take those below it, unless a line forbids it:
 *
 *   dlend_loop_lock	loop.c, mutex: the link of this node to itself is made once
 *   dlend_users_lock	announce.c, mutex: one user registers or leaves at a time
 *   announced.lock	announce.c, mutex: callbacks of a link's users do not overlap.  Held while
 *			link_up() and link_down() run, so before all locks of users
 *   state_lock		link.h, mutex: bring-up and set-up of the hardware.  Never waits for a user
 *   directs.lock	irq_direct.c, mutex: direct interrupts.  Before the aperture's lock
 *   chan.lock		chan.c, mutex: the ring that this node reads
 *   tx.lock		tx.c, semaphore, as it is waited for with a deadline: the ring that this
 *			node writes.  tx.lock and chan.lock are never held together
 *   aperture's lock	iommu/aperture.h, mutex: see there.  Under state_lock, never under
 *			chan.lock or tx.lock
 *   link->lock		link.h, spinlock: session, the peer's name, waiting calls, requests.
 *			Innermost
 *   sources.telling	irq_source.c, mutex: interrupts that are told late; and inside it
 *   sources.reading	irq_source.c, mutex: a read of the peer by a thread
 *   sources.lock	irq_source.c, spinlock, interrupts off: counters of sources; never held
 *			while the peer is read.  The aperture's lock is held around it when a
 *			source loses its counters
 *   irq_lock		link.h, spinlock, interrupts off: sinks, scan, budget.  On the loop a
 *			doorbell is a call, so state_lock, tx.lock or sources.lock may be held
 *			around it
 *   sinks' xarray	irq_sink.c: its own lock
 *
 * dlend_links_lock (link.c, mutex) guards the registry; only link->lock is taken inside it.  SRCU
 * of users.c is held while a user's callback or message handler runs.
 *
 * Who waits for a peer says so to lockdep (dlend_peer_map): for an answer (calls.c), for room
 * (tx.c), or for what is read through the window (irq_source.c).  Interrupts say nothing: they have
 * a share of time.  Nor does the self-test, which reads 64 bytes under state_lock before a session
 * begins.
 */
#ifndef DLEND_NTB_LINK_H
#define DLEND_NTB_LINK_H

#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <dlend/link.h>
#include <dlend/link_hw.h>
#include <dlend/proto.h>
#include "announce.h"
#include "bringup.h"
#include "calls.h"
#include "chan.h"
#include "doorbell.h"
#include "irq_direct.h"
#include "irq_sink.h"
#include "irq_source.h"
#include "jobs.h"
#include "peer_window.h"
#include "session.h"
#include "setup.h"
#include "tx.h"

/* A control area takes whole pages, so that nothing else can be reached beside it. */
#define DLEND_CTRL_BYTES	PAGE_ALIGN(sizeof(struct dlend_ctrl))

/* Why a message was not handled. */
enum dlend_drop {
	DLEND_DROP_BAD,		/* dlend_msg_check() refused it */
	DLEND_DROP_LATE,	/* a reply that nobody waits for any more */
	DLEND_DROP_SESSION,	/* it belongs to a session that is over */
	DLEND_DROP_NO_USER,	/* nobody handles this type here */
	DLEND_DROP_REFUSED,	/* more calls than DLEND_MAX_CALLS, or DLEND_MAX_DEVICE_CALLS */
	DLEND_DROPS
};

/* Counters for debugfs; nothing is decided by them. */
struct dlend_link_stat {
	atomic_t sent[DLEND_MSG_TYPES];
	atomic_t received[DLEND_MSG_TYPES];
	atomic_t dropped[DLEND_DROPS];
	atomic_t timeouts, sessions, ring_full, polls;
	atomic64_t irq_fired, irq_delivered, irq_scans, irq_overruns, irq_bad, irq_direct, irq_late;
};

/**
 * struct dlend_link - one link
 * @dev: device in class dlend_link; its references are the link's
 * @node: entry in the registry
 * @ops: the hardware; not used any more once @gone
 * @hw: argument of @ops
 * @gone: the hardware went away. Set under @state_lock
 * @asleep: the host is suspended, or about to be. Under @state_lock
 * @lock: guards @session, @peer_name, @calls, requests of @jobs
 * @session: nonce of the session that is up, 0 if none. Written under @lock, read without
 * @peer: node id of the peer, 0 while unknown
 * @peer_name: its name, as of dlend_name_read()
 * @stat: counters
 *
 * @state_lock: guards the bring-up (what follows, up to @error_said) and set-up of the hardware
 * @state_work: a step of the bring-up (session.c)
 * @stepped_at: when @state_work last ran, jiffies
 * @restart: why the session shall begin again, or NULL. Set without a lock (dlend_link_renew())
 * @restart_text: the same, if it was a text of a module that is unloaded
 * @bringup: state machine. @bringup.state and @bringup.picked are also read without the lock
 * @error: why the link is not up
 * @error_said: @error was logged since the link was up last
 *
 * @aperture: the peer's accesses arrive here; NULL before the hardware could be set up
 * @ctrl: this node's control area: the peer writes it. Set under @state_lock and @irq_lock, once
 * @peer_ctrl: the peer's control area: this node writes it. Constant while a session is up
 * @irq_lock: guards sinks, their scan, the doorbell's budget
 * @rx_work: takes messages off the ring (chan.c)
 *
 * The rest are parts; each belongs to the file that its type is named for.
 */
struct dlend_link {
	struct device dev;
	struct list_head node;
	const struct dlend_link_hw_ops *ops;
	void *hw;
	bool gone;
	bool asleep;
	spinlock_t lock;		/* session, name, calls, requests */
	u64 session;
	u16 peer;
	char peer_name[DLEND_NODE_NAME_LEN];
	struct dlend_link_stat stat;

	struct mutex state_lock;	/* bring-up, set-up of the hardware */
	struct delayed_work state_work;
	unsigned long stepped_at;
	const char *restart;
	char restart_text[128];
	struct dlend_bringup bringup;
	char error[DLEND_BRINGUP_ERROR_LEN];
	bool error_said;

	struct dlend_aperture *aperture;
	struct dlend_ctrl *ctrl;
	struct dlend_ctrl __iomem *peer_ctrl;
	spinlock_t irq_lock;		/* sinks, scan, budget */
	struct work_struct rx_work;

	struct dlend_announced announced;
	struct dlend_calls calls;
	struct dlend_chan chan;
	struct dlend_directs directs;
	struct dlend_doorbell doorbell;
	struct dlend_irq_sinks sinks;
	struct dlend_irq_sources sources;
	struct dlend_jobs jobs;
	struct dlend_peer_window window;
	struct dlend_sessions sessions;
	struct dlend_setup setup;
	struct dlend_tx tx;
};

/* For sessions, and for what peers can keep busy; see dlend_link_queues_create(). */
extern struct workqueue_struct *dlend_wq, *dlend_poll_wq;

/** dlend_now_ms - milliseconds since some moment. Context: any. */
static inline u64 dlend_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

/** dlend_link_is_loop - does this link lead to this node itself? Context: any. */
static inline bool dlend_link_is_loop(const struct dlend_link *link)
{
	return !link->ops->window;
}

/** dlend_link_drop - count a message that is not handled. Context: any. */
static inline void dlend_link_drop(struct dlend_link *link, enum dlend_drop why)
{
	atomic_inc(&link->stat.dropped[why]);
}

/**
 * dlend_link_count - count a message by its type
 * @counters: (in, out) one for each type
 * @msg: (in) message; a type that is not known is not counted
 *
 * Context: any.
 */
void dlend_link_count(atomic_t *counters, const struct dlend_msg *msg);

/**
 * dlend_link_nudge - let the bring-up look soon, because the peer asked for it
 * @link: link
 *
 * The step comes at least some milliseconds after the last one: a peer can ask without end, and
 * other threads wait for state_lock while a step runs.
 * Context: any.
 */
void dlend_link_nudge(struct dlend_link *link);

/**
 * dlend_link_renew - end the current session, and begin a new one
 * @link: link
 * @why: (in) for the log and last_error; a string that stays
 *
 * session.c does so in its next step, which is queued.
 * Context: any.
 */
void dlend_link_renew(struct dlend_link *link, const char *why);

/** dlend_link_receive - let chan.c look whether messages have come. Context: any. */
void dlend_link_receive(struct dlend_link *link);

/**
 * dlend_link_set_error - remember and log why the link is not up
 * @link: link
 * @text: (in) one line, copied
 *
 * The same text is logged once for each time that the link is not up.
 * Context: process, under state_lock.
 */
void dlend_link_set_error(struct dlend_link *link, const char *text);

/**
 * dlend_link_register - from now on the link is found by dlend_links_each()
 * @link: link
 *
 * Context: process; takes dlend_links_lock.
 */
void dlend_link_register(struct dlend_link *link);

/**
 * dlend_link_unregister - undo dlend_link_register()
 * @link: link
 *
 * Context: process; takes dlend_links_lock.
 */
void dlend_link_unregister(struct dlend_link *link);

/**
 * dlend_link_queues_create - make the workqueues that all links share
 *
 * Context: process. Return: 0, -ENOMEM.
 */
int dlend_link_queues_create(void);

/** dlend_link_queues_destroy - undo dlend_link_queues_create(). Context: process. */
void dlend_link_queues_destroy(void);

#endif
