/* SPDX-License-Identifier: GPL-2.0 */
/*
 * struct dlend_link: one link, for the files of ntb/; and the rules between these files.
 *
 * Files above the pure ones (tests/pure.mk), from the bottom up.  A file calls only files that
 * stand before it.  client.c is another module, dlend_ntb: of these files it calls only what
 * include/dlend/ declares.
 *
 *   link.c		the object: references, list of links, session and peer, users, settings
 *   root.c		where functions of this host join its root complex, and their peer-to-peer
 *			domains
 *   peer_window.c	how this node reaches the peer's aperture
 *   irq_source.c	interrupts, on the lender: counts them in the borrower's memory, after the
 *			device's data has arrived there
 *   channel.c		messages: sends, calls, jobs for requests of the peer, receives
 *   irq_sink.c		interrupts, on the borrower: finds what was counted; doorbells, and a budget
 *			for them
 *   irq_direct.c	interrupts that need no processor of the lender
 *   session.c		set-up of the hardware, bring-up, self-test, heartbeat; calls link_up() and
 *			link_down() of users
 *   device.c		a link's device: attributes, counters; makes links and removes them
 *   loop.c		the link of this node to itself
 *   main.c		the module; the host sleeps or shuts down
 *
 * A lower file that needs something of an upper one queues a work item, which the upper file has
 * set up: dlend_link_queue_step(), dlend_link_restart_current() and dlend_doorbell_nudge() queue
 * state_work of session.c, dlend_link_queue_rx() queues rx_work of channel.c.
 *
 * Work items of a link.  No item runs twice at the same time, and none waits for one that stands
 * below it here:
 *
 *   state_work		session.c: walks the bring-up's state machine.  Never calls a user, never
 *			waits for one
 *   doorbell.work	irq_sink.c: polls doorbells and counters while the doorbells are masked.  In
 *			dlend_poll_wq, as a peer can keep it busy
 *   sources.work	irq_source.c: reads through the window, and sends the interrupts that exceed
 *			the share of time for reads in interrupt handlers.  In dlend_poll_wq, for
 *			the same reason
 *   rx_work		channel.c: takes messages off the ring, wakes callers, queues requests.  In
 *			dlend_poll_wq, for the same reason
 *   jobs		channel.c: run users' message handlers.  Jobs about one device run one at a
 *			time and in order, jobs about different devices in parallel (queue.h).
 *			A job may take a minute, and may wait for a peer that takes no replies: so
 *			jobs run in a workqueue of the link's own
 *   announced.work	session.c: runs users' link_up() and link_down(); waits for the jobs of a
 *			session that is over
 *
 * A session that ends is over at once for callers: they wake with -ENOTCONN.  A new session begins
 * only after announced.work has brought link_down() to every user.
 *
 * Locks, outermost first.  Code that holds one may take those below it, unless a line forbids it:
 *
 *   dlend_loop_lock	loop.c, mutex: the link of this node to itself is made once
 *   dlend_users_lock	link.c, mutex: one user is added or removed at a time, with its link_up()
 *			or link_down() for every link
 *   announced.lock	session.c, mutex: callbacks of a link's users do not overlap.  Held while
 *			link_up() and link_down() run, so before all locks of users
 *   state_lock		link.h, mutex: bring-up and set-up of the hardware.  Never waits for a user
 *   directs.lock	irq_direct.c, mutex: direct interrupts.  Before the aperture's lock
 *   chan.lock		channel.c, mutex: the ring that this node reads
 *   tx.lock		channel.c, semaphore, to be waited for with a deadline: the ring that
 *			this node writes.  tx.lock and chan.lock are never held together
 *   aperture's lock	iommu/aperture.h, mutex: see there.  Under state_lock, never under
 *			chan.lock or tx.lock
 *   link->lock		link.h, spinlock: session, the peer's name, waiting calls, requests.
 *			No other lock is taken inside it
 *   sources.sending	irq_source.c, mutex: late interrupts are sent by one thread at a time.  No
 *			other lock is held; inside it:
 *   sources.reading	irq_source.c, mutex: one thread at a time reads through the window; held
 *			while the peer's answer is waited for
 *   sources.lock	irq_source.c, spinlock, interrupts off: counters of sources; never held
 *			while the peer is read.  The aperture's lock is held around it when a
 *			source loses its counters
 *   irq_lock		link.h, spinlock, interrupts off: sinks, scan, budget.  On the loop a
 *			doorbell is a call, so state_lock, tx.lock or sources.lock may be held
 *			around it
 *   sinks' xarray	irq_sink.c: its own lock
 *
 * dlend_links_lock (link.c, mutex) guards the list of links and the settings.  It may be taken
 * under any mutex of this list; only link->lock is taken inside it.  A user's callback or message
 * handler runs in a read section of dlend_users_srcu, for which dlend_user_del() waits.
 *
 * Code that waits for a peer says so to lockdep (dlend_peer_map): when it waits for an answer or
 * for room (channel.c), or for a read through the window (irq_source.c).  Two kinds of reads are
 * not reported: reads in interrupt handlers, whose share of time is limited, and the self-test,
 * which reads a few hundred bytes under state_lock before a session begins.
 */
#ifndef DLEND_NTB_LINK_H
#define DLEND_NTB_LINK_H

#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/ratelimit_types.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <dlend/link.h>
#include <dlend/link_hw.h>
#include <dlend/proto.h>
#include <iommu/aperture.h>
#include "bringup.h"
#include "irqscan.h"
#include "queue.h"

struct dlend_job;
struct fwnode_handle;
struct irq_domain;

/* A control area takes whole pages, so that nothing else can be reached beside it. */
#define DLEND_CTRL_BYTES	PAGE_ALIGN(sizeof(struct dlend_ctrl))

/* Why a message was not handled. */
enum dlend_drop {
	DLEND_DROP_BAD,		/* dlend_msg_check() refused it */
	DLEND_DROP_LATE,	/* a reply that no caller waits for any more */
	DLEND_DROP_SESSION,	/* it belongs to a session that is over */
	DLEND_DROP_NO_USER,	/* no user handles this type here */
	DLEND_DROP_REFUSED,	/* more calls than DLEND_MAX_CALLS, or DLEND_MAX_DEVICE_CALLS */
	DLEND_DROPS
};

/* Counters for debugfs only. */
struct dlend_link_stat {
	atomic_t sent[DLEND_MSG_TYPES];
	atomic_t received[DLEND_MSG_TYPES];
	atomic_t dropped[DLEND_DROPS];
	atomic_t timeouts, sessions, ring_full, polls;
	atomic64_t irq_fired, irq_delivered, irq_scans, irq_overruns, irq_bad, irq_direct, irq_late;
};

/**
 * struct dlend_peer_window - the way to the peer's aperture
 * @base: physical address in this host of the window; 0 on the loop
 * @size: bytes of the window; 0 while unknown
 * @aperture: bytes of the peer's aperture, as the peer says; 0 while unknown
 *
 * session.c sets them under state_lock, before a session begins; they are read without the lock
 * while the session is up.
 */
struct dlend_peer_window {
	phys_addr_t base;
	u64 size;
	u64 aperture;
};

/**
 * struct dlend_irq_sources - all sources of a link
 * @lock: guards @prod, @reads, @on and @late, and the counters of each source; the window is not
 *	read under it
 * @prod: hints written in this session
 * @reads: how long interrupt handlers may still read through the window
 * @on: a session is up: sources may fire
 * @sending: one thread at a time reads for late interrupts, and then sends them
 * @reading: taken inside @sending, or alone; held while a thread reads through the window
 * @quiet_until: jiffies: no thread reads before, as a pause after a slow read; under @reading
 * @late: sources with interrupts that the handler did not send itself
 * @work: sends these interrupts
 */
struct dlend_irq_sources {
	spinlock_t lock;		/* prod, reads, on, late; counters of sources */
	u32 prod;
	struct dlend_readtime reads;
	bool on;
	struct mutex sending;		/* late interrupts are sent */
	struct mutex reading;		/* a thread reads; quiet_until */
	unsigned long quiet_until;
	struct list_head late;
	struct work_struct work;
};

/**
 * struct dlend_tx - the sending end of a link
 * @lock: guards @ring, @session, the ring in the peer's memory; a semaphore, as a mutex cannot be
 *	waited for with a deadline
 * @ring: how many messages were written, and how many the peer has taken
 * @session: messages of this session may be written; 0: none
 */
struct dlend_tx {
	struct semaphore lock;
	struct dlend_ring_tx ring;
	u64 session;
};

/**
 * struct dlend_jobs - all jobs of a link
 * @all: DLEND_MAX_REQUESTS jobs; does not change
 * @wq: workqueue in which they run; does not change
 * @requests: which run and which wait; under link->lock
 * @idle: woken when a job is done
 */
struct dlend_jobs {
	struct dlend_job *all;
	struct workqueue_struct *wq;
	struct dlend_requests requests;
	wait_queue_head_t idle;
};

/**
 * struct dlend_chan - the receiving end of a link
 * @lock: guards @rx, @bad_frames
 * @rx: how many messages were taken, and how many the peer has written
 * @bad_frames: messages of this session that were refused
 */
struct dlend_chan {
	struct mutex lock;		/* rx, bad_frames */
	struct dlend_ring_rx rx;
	unsigned int bad_frames;
};

/**
 * struct dlend_announced - which session a link's users know of
 * @lock: guards @session and @users, and keeps callbacks of this link from overlapping
 * @work: calls link_up() or link_down() of users, as the link's state is now
 * @session: the session for which link_up() was called, 0 after link_down()
 * @users: a bit for each user (by its side) that got link_up() in that session
 * @down_done: link_down() of all users has returned for the last session; no session begins before.
 *	Set to false under state_lock, to true under @lock; read without a lock
 */
struct dlend_announced {
	struct mutex lock;		/* callbacks; session, users */
	struct work_struct work;
	u64 session;
	unsigned long users;
	bool down_done;
};

/**
 * struct dlend_irq_sinks - all sinks of a link
 * @all: sinks by handle; link->irq_lock is held to use or remove one, not to add one
 * @next_handle: handles are given out in turn, so a late hint for a closed sink hits no new one;
 *	under the lock of @all
 * @cons: hints looked at so far; under link->irq_lock
 * @look_all: dlend_irq_sinks_look_wanted() shall look at every counter; no lock
 */
struct dlend_irq_sinks {
	struct xarray all;
	u32 next_handle;
	u32 cons;
	bool look_all;
};

/**
 * struct dlend_doorbell - doorbells of a link
 * @work: polls them while they are masked
 * @budget: how much their interrupt handler may do; under link->irq_lock
 * @on: the hardware is set up: @work may unmask. Under link->irq_lock, also read without
 * @looked_at: when every counter was last looked at, ms; under state_lock
 */
struct dlend_doorbell {
	struct work_struct work;
	struct dlend_budget budget;
	bool on;
	u64 looked_at;
};

/**
 * struct dlend_directs - direct interrupts of a link
 * @lock: guards all members without a remark; the aperture's lock is taken inside it
 * @allowed: the administrator allows direct interrupts; no lock
 * @domain: where vectors come from; NULL: not needed so far
 * @fwnode: of @domain
 * @dev: the NTB's function: interrupt remapping takes the peer's writes for its interrupts; a
 *	reference
 * @ready: the peer's second window leads to this host's interrupts; written under
 *	link->state_lock, read without
 * @page: byte offset in that window where these interrupts begin; written under link->state_lock
 *	and @lock, read under one of them
 * @user: the process that has direct interrupts of this link, while @users is not 0
 * @users: how many sets of vectors there are
 * @old: sets that may still be written to, until the next session
 */
struct dlend_directs {
	struct mutex lock;		/* see above */
	bool allowed;
	struct irq_domain *domain;
	struct fwnode_handle *fwnode;
	struct device *dev;
	bool ready;
	u64 page;
	struct dlend_user user;
	unsigned int users;
	struct list_head old;
};

/**
 * struct dlend_setup - state of the set-up; under state_lock
 * @ctrl_slot: slot of the control area
 * @aperture_err: why there is no aperture, 0: it can be tried; only after -EBUSY and -EPERM it is
 *	tried again
 * @aperture_wait: milliseconds between two checks whether the aperture can be made
 * @aperture_at: when it was last tried or checked, ms
 */
struct dlend_setup {
	struct dlend_slot *ctrl_slot;
	int aperture_err;
	unsigned int aperture_wait;
	u64 aperture_at;
};

/**
 * struct dlend_sessions - state that outlives a session; under state_lock
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

/**
 * struct dlend_link - one link
 * @dev: device in class dlend_link; its references are the link's
 * @node: entry in the list of links; under dlend_links_lock
 * @ops: how to drive the hardware; not used any more once @hw_gone
 * @hw: the hardware, likewise
 * @loop: the link leads to this node itself. A copy, as @hw is not used any more once @hw_gone
 * @hw_gone: the hardware went away, for good. Set under @state_lock, also read without
 * @asleep: the host is suspended, or about to be. Under @state_lock
 * @lock: guards @session, @peer_name, @calls, requests of @jobs
 * @session: nonce of the session that is up, 0 if none. Written under @lock, read without
 * @peer: node id of the last session's peer, 0: none so far. Set under @state_lock, read without
 * @peer_name: its name, as of dlend_name_read()
 * @stat: counters
 *
 * @state_lock: guards the bring-up (members from here to @error_said), @window, @setup, @sessions,
 *	and calls of @ops that set the hardware up
 * @state_work: a step of the bring-up (session.c)
 * @stepped_at: when @state_work last ran, jiffies
 * @restart_why: a string literal: the next step ends the session for this reason, and a new one
 *	begins; or NULL. Set without a lock (dlend_link_restart_current())
 * @bringup: state machine. @bringup.state and @bringup.picked are also read without the lock
 * @error: why the link is not up
 * @error_said: @error was logged since the link was up last
 *
 * @aperture: the peer's accesses arrive here; NULL until it is set, once, under @state_lock
 * @ctrl: this node's control area: the peer writes it. Set under @state_lock and @irq_lock, once
 * @peer_ctrl: the peer's control area: this node writes it. Constant while a session is up
 * @irq_lock: guards sinks, their scan, the doorbell's budget
 * @rx_work: takes messages off the ring (channel.c)
 * @calls: struct dlend_call, on the stacks of callers that wait; under @lock
 * @last_call: id of the last one; under @lock
 *
 * @announced: session.c
 * @chan: channel.c
 * @directs: irq_direct.c
 * @doorbell: irq_sink.c
 * @sinks: irq_sink.c
 * @sources: irq_source.c
 * @jobs: channel.c
 * @window: peer_window.c
 * @sessions: session.c
 * @setup: session.c
 * @tx: channel.c
 *
 * Each of the last, from @announced on, belongs to the file that it names, and its structure says
 * under which lock it is.
 */
struct dlend_link {
	struct device dev;
	struct list_head node;
	const struct dlend_link_hw_ops *ops;
	struct dlend_link_hw *hw;
	bool loop;
	bool hw_gone;
	bool asleep;
	spinlock_t lock;		/* session, name, calls, requests */
	u64 session;
	u16 peer;
	char peer_name[DLEND_NODE_NAME_LEN];
	struct dlend_link_stat stat;

	struct mutex state_lock;	/* bring-up, set-up of the hardware */
	struct delayed_work state_work;
	unsigned long stepped_at;
	const char *restart_why;
	struct dlend_bringup bringup;
	char error[DLEND_BRINGUP_ERROR_LEN];
	bool error_said;

	struct dlend_aperture *aperture;
	struct dlend_ctrl *ctrl;
	struct dlend_ctrl __iomem *peer_ctrl;
	spinlock_t irq_lock;		/* sinks, scan, budget */
	struct work_struct rx_work;

	struct dlend_announced announced;
	struct list_head calls;
	u32 last_call;
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

/* link.c */

/* dlend_wq: for sessions; dlend_poll_wq: for work that a peer can keep busy (dlend_links_init()) */
extern struct workqueue_struct *dlend_wq, *dlend_poll_wq;

/** dlend_now_ms - milliseconds of the monotonic clock. Context: any. */
static inline u64 dlend_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

/** dlend_link_drop - count a message that is not handled. Context: any. */
static inline void dlend_link_drop(struct dlend_link *link, enum dlend_drop why)
{
	atomic_inc(&link->stat.dropped[why]);
}

/**
 * dlend_link_restart_current - have the session, or a bring-up under way, ended and begun anew
 * @link: link; if there is neither, @why is forgotten
 * @why: (in) the reason, for the log and last_error: a string literal, which is copied later
 *
 * This only notes @why and queues state_work, which ends the session.  A caller whose reason may
 * belong to an earlier session uses dlend_link_restart(), which then does nothing.
 * Context: any, hard interrupt too.
 */
void dlend_link_restart_current(struct dlend_link *link, const char *why);

/**
 * dlend_link_queue_rx - queue rx_work: channel.c looks whether messages have come
 * @link: link
 *
 * Context: any, hard interrupt too.
 */
void dlend_link_queue_rx(struct dlend_link *link);

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

/** dlend_links_init - make workqueues for all links. Context: process. Return: 0, -ENOMEM. */
int dlend_links_init(void);

/** dlend_links_exit - undo dlend_links_init(), and forget all settings. Context: process. */
void dlend_links_exit(void);

/* Settings that the administrator makes for a link; they are kept until the module is unloaded. */
enum dlend_setting {
	DLEND_SETTING_PEER,	/* node id of the other end; 0: any */
	DLEND_SETTING_DIRECT,	/* are direct interrupts allowed? 0 or 1 */
};

/**
 * dlend_setting_note - keep a setting that the administrator has made for a link
 * @link: link; the setting stays when the link goes away, for the next link of that name: an NTB's
 *	link has the same name when the NTB's driver is bound again
 * @what: (in) which setting
 * @value: (in) the value
 *
 * Context: process, may sleep; takes dlend_links_lock. Return: 0; -ENOMEM.
 */
int dlend_setting_note(struct dlend_link *link, enum dlend_setting what, u16 value);

/**
 * dlend_setting_of - the last setting for a link, or for an earlier one with its name
 * @link: link; it has its name
 * @what: (in) which setting
 * @unless: (in) returned if there is no setting
 *
 * Context: process; takes dlend_links_lock. Return: the setting, or @unless.
 */
u16 dlend_setting_of(struct dlend_link *link, enum dlend_setting what, u16 unless);

/* Held while a user is added or removed, with all link_up() and link_down() that belong to it. */
extern struct mutex dlend_users_lock;

/**
 * dlend_user_add - from now on dlend_users_call() and dlend_users_message() call a user
 * @user: user; its callbacks may run before this returns
 *
 * Context: process, dlend_users_lock. Return: 0; -EBUSY there is a user for its side already.
 */
int dlend_user_add(struct dlend_link_user *user);

/**
 * dlend_user_del - undo dlend_user_add()
 * @user: user; when this returns, none of its callbacks runs, nor is called by these two functions
 *
 * Context: process, dlend_users_lock; waits for callbacks and message handlers that run, of both
 * users.
 */
void dlend_user_del(struct dlend_link_user *user);

/**
 * dlend_users_call - call a function for each of the users that there are
 * @fn: called in an SRCU read section of its own for each user, which stays registered until @fn
 *	returns; may sleep; must not add or remove users
 * @arg: (in) for @fn
 *
 * Context: process, may sleep; no lock is needed.
 */
void dlend_users_call(void (*fn)(struct dlend_link_user *user, void *arg), void *arg);

/**
 * dlend_users_message - hand a message to the user that handles it
 * @link: link that it came over
 * @msg: (in) checked message
 * @reply: (out) as for dlend_link_user.message; NULL for a post
 *
 * Context: process, may sleep, as long as the handler does.
 * Return: what the handler returned; -EOPNOTSUPP if no user handles this type here.
 */
int dlend_users_message(struct dlend_link *link, const struct dlend_msg *msg,
			struct dlend_msg *reply);

/* peer_window.c */

/**
 * dlend_window_map - map a window on RAM into the kernel's address space
 * @w: (in) open window
 *
 * On the loop the mapping must not be used any more once dlend_window.revoked() was called.
 * Context: process, may sleep. Return: the mapping; NULL: no memory, or the window was revoked.
 */
void __iomem *dlend_window_map(struct dlend_window *w);

/**
 * dlend_window_unmap - undo dlend_window_map()
 * @link: link of the window, which may be closed already
 * @mem: (in) the mapping, or NULL
 *
 * Context: process, may sleep.
 */
void dlend_window_unmap(struct dlend_link *link, void __iomem *mem);

/* irq_source.c */

/** dlend_irq_sources_init - set up the sources of a new link; none may fire yet. Context: any. */
void dlend_irq_sources_init(struct dlend_link *link);

/**
 * dlend_irq_sources_enable - let sources fire, or not
 * @link: link
 * @on: (in) true: a session begins, and the peer's ring of hints is empty. false: no source writes
 *	into the peer's memory any more when this returns
 *
 * Context: process; takes sources.lock.
 */
void dlend_irq_sources_enable(struct dlend_link *link, bool on);

/**
 * dlend_irq_sources_push - wait until all that devices here have written to the peer is there
 * @link: link
 *
 * Posted writes of this host's devices to the peer take another way than posted writes of its
 * processors, and nothing orders the two.  But the answer to a read through the window comes after
 * both (a flushing read).  This function makes one such read, and sends late interrupts.  It does
 * nothing on the loop, or if the session is over.
 *
 * The caller guarantees that @link->peer_ctrl stays mapped until this returns: the caller is a
 * message handler, or work that link_down() of its user waits for.
 * Context: process, may sleep, waits for the peer; not with a lock held for which
 * dlend_waits_for_no_peer() is declared; takes sources.sending.
 */
void dlend_irq_sources_push(struct dlend_link *link);

/* channel.c */

/**
 * dlend_chan_init - make memory and workqueue; nothing is sent or received yet
 * @link: link
 * @name: (in) its name, for the workqueue
 *
 * Context: process, may sleep. Return: 0; -ENOMEM: dlend_chan_free() has to follow, too.
 */
int dlend_chan_init(struct dlend_link *link, const char *name);

/** dlend_chan_free - undo dlend_chan_init(), also if it failed. Context: process, may sleep. */
void dlend_chan_free(struct dlend_link *link);

/**
 * dlend_chan_begin - empty both rings, for the session that begins next
 * @link: link; its rings are not in use
 * @session: (in) nonce
 *
 * Context: process, may sleep, under state_lock; takes chan.lock, tx.lock.
 */
void dlend_chan_begin(struct dlend_link *link, u64 session);

/**
 * dlend_chan_end - end the session: set link->session to 0, and wake all callers with -ENOTCONN
 * @link: link, with a session or without
 *
 * Jobs may still run when this returns, but channel.c writes nothing of the session into the peer's
 * memory any more; for interrupts see dlend_irq_sources_enable().
 * Context: process, may sleep, under state_lock; takes link->lock, tx.lock, chan.lock.
 */
void dlend_chan_end(struct dlend_link *link);

/**
 * dlend_chan_refresh - write the rings' indices into the peer's memory again, and queue rx_work
 * @link: link
 *
 * A doorbell may have been lost, or an index overwritten.
 * Context: process; tries to take tx.lock and chan.lock, and does not wait for them.
 */
void dlend_chan_refresh(struct dlend_link *link);

/**
 * dlend_chan_stop - disable rx_work and the work items of jobs, for good
 * @link: link; the session is over and all jobs are done
 *
 * Context: process, may sleep.
 */
void dlend_chan_stop(struct dlend_link *link);

/* irq_sink.c */

/** dlend_irq_sinks_init - set up sinks and doorbells of a new link. Context: any. */
void dlend_irq_sinks_init(struct dlend_link *link);

/**
 * dlend_doorbell_enable - unmask or mask the doorbells
 * @link: link
 * @on: (in) false: nothing is polled any more when this returns
 *
 * Context: process, may sleep, under state_lock; takes link->irq_lock.
 */
void dlend_doorbell_enable(struct dlend_link *link, bool on);

/**
 * dlend_doorbell_look - queue a poll of the doorbells; once a second also of every counter
 * @link: link
 *
 * A doorbell may have been lost, or a hint overwritten.
 * Context: process, under state_lock.
 */
void dlend_doorbell_look(struct dlend_link *link);

/* irq_direct.c */

/**
 * dlend_directs_recall - set whether direct interrupts are allowed on a new link
 * @link: link; it has its name
 *
 * The administrator's setting for a link of this name counts; without one, the module's parameter
 * direct_interrupts. Context: process; takes dlend_links_lock.
 */
void dlend_directs_recall(struct dlend_link *link);

/**
 * dlend_directs_begin - free the sets that dlend_irq_direct_close() has kept (its @acked was false)
 * @link: link whose next session is about to begin: the peer has forgotten these vectors
 *
 * Context: process, may sleep; takes directs.lock.
 */
void dlend_directs_begin(struct dlend_link *link);

/**
 * dlend_directs_close - clear the second window's translation: the peer reaches no interrupts here
 * @link: link
 *
 * Context: process, may sleep, under state_lock.
 */
void dlend_directs_close(struct dlend_link *link);

/**
 * dlend_directs_free - free all sets, and the irq domain
 * @link: link without references, so that no set is open
 *
 * Context: process, may sleep; takes directs.lock.
 */
void dlend_directs_free(struct dlend_link *link);

/* session.c */

/**
 * dlend_announce_settle - wait for a dlend_link_user_unregister() that runs
 *
 * To be called before a link is taken out of the list of links: the user that is being unregistered
 * must get its last link_down() for that link. Context: process; takes dlend_users_lock.
 */
void dlend_announce_settle(void);

/**
 * dlend_setup_free - free control area and aperture
 * @link: link without references, so that no user has a slot
 *
 * Context: process, may sleep.
 */
void dlend_setup_free(struct dlend_link *link);

/** dlend_session_init - set up the session's part of a new link; queues nothing. Context: any. */
void dlend_session_init(struct dlend_link *link);

/**
 * dlend_session_open - let a link begin sessions: enable the hardware, and queue the first step
 * @link: link, in the list of links
 * @asleep: (in) this host is asleep, or about to be: the link comes up only when the host wakes
 *
 * Context: process, may sleep; takes state_lock, dlend_links_lock.
 */
void dlend_session_open(struct dlend_link *link, bool asleep);

/**
 * dlend_session_suspend - end the session, as the host sleeps or goes down; or begin sessions again
 * @link: link
 * @on: (in) true: when this returns, the session is over, link_down() of all users has returned,
 *	and no new session begins; false: a new session may begin
 *
 * The hardware may lose all of its settings while the host sleeps: the next session makes them
 * again.
 * Context: process, may sleep; if @on, waits for message handlers; takes state_lock.
 */
void dlend_session_suspend(struct dlend_link *link, bool on);

/**
 * dlend_session_remove - end all use of a link's hardware, which goes away
 * @link: link
 *
 * When this returns, link_down() of all users has returned, no work of the link runs, and no op of
 * the hardware is called any more.
 * Context: process, may sleep; waits for message handlers; takes state_lock.
 */
void dlend_session_remove(struct dlend_link *link);

/* device.c */

/* /sys/class/dlend_link; registered while the module is there. */
extern const struct class dlend_link_class;

/**
 * dlend_links_suspend - end the sessions of all links for a sleep or shutdown, or begin them again
 * @on: (in) true: no link is up, nor comes up, when this returns; false: they come up again
 *
 * Context: process, may sleep; as dlend_session_suspend(); takes dlend_links_lock.
 */
void dlend_links_suspend(bool on);

/** dlend_debugfs_init - make debugfs' directories dlend and dlend/links. Context: process. */
void dlend_debugfs_init(void);

/** dlend_debugfs_exit - undo dlend_debugfs_init(). Context: process, may sleep. */
void dlend_debugfs_exit(void);

/* loop.c */

/**
 * dlend_loop_exit - remove the link of this node to itself, if there is one
 *
 * The caller guarantees that no user of links is left. So only the link itself still rings
 * doorbells, while it goes down.
 * Context: process, may sleep.
 */
void dlend_loop_exit(void);

#endif
