/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inside of the link core.
 *
 * Parts: core.c (links, users, their callbacks), session.c (bring-up, self-test, heartbeat),
 * chan.c (messages), irqring.c (interrupts), doorbell.c (how often we are called), reach.c
 * (addresses of the peer), pm.c (suspend, reboot), sysfs.c (what the admin sees); loop.c (the link
 * of a node to itself) is beside client.c.
 *
 * Works of a link; each runs alone, none waits for one below it:
 *
 *   state_work	 walks the state machine; never calls a user, never waits for one
 *   poll_work	 looks for doorbells and interrupts, where nobody calls or somebody too often; in a
 *		 workqueue of its own, as a peer can keep it busy
 *   rx_work	 takes messages off the ring: replies wake their callers, requests are queued;
 *		 beside poll_work, for the same reason
 *   jobs	 run users' message handlers: of a device one at a time and in order, devices beside
 *		 each other (requests.h).  May take a minute, and wait for a peer that takes no
 *		 replies, so in a workqueue of the link's own
 *   told_work	 runs users' link_up and link_down; waits for the jobs of a session that is over
 *
 * A session that ends is over at once for callers (they wake with -ENOTCONN); a new one begins
 * only after told_work has brought link_down to every user.
 *
 * Lock order: state_lock > rx_lock, tx_lock > lock; told_lock is taken by told_work and by
 * (un)registering users (under users_lock), outside of all others.  An aperture's lock > fire_lock
 * (a source that loses its counters) > irq_lock (a loop's doorbell is a call).
 */
#ifndef DLEND_NTB_CORE_H
#define DLEND_NTB_CORE_H

#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/ratelimit_types.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <dlend/link.h>
#include <dlend/link_hw.h>
#include <dlend/proto.h>
#include "bringup.h"
#include "irqscan.h"
#include "requests.h"
#include "ring.h"

#define DLEND_MAX_USERS		8
#define DLEND_MAX_BAD_FRAMES	16	/* in a session, before it begins again */

enum dlend_drop {
	DLEND_DROP_BAD,		/* dlend_msg_check() refused it */
	DLEND_DROP_LATE,	/* a reply that nobody waits for any more */
	DLEND_DROP_SESSION,	/* of a session that is over */
	DLEND_DROP_NO_USER,	/* nobody handles this type here */
	DLEND_DROP_REFUSED,	/* more calls than DLEND_MAX_CALLS, or of one device */
	DLEND_DROPS
};

struct dlend_job;

struct dlend_link_stat {
	atomic_t sent[DLEND_MSG_TYPES];
	atomic_t received[DLEND_MSG_TYPES];
	atomic_t dropped[DLEND_DROPS];
	atomic_t timeouts, sessions, ring_full, polls;
	atomic64_t irq_fired, irq_delivered, irq_scans, irq_overruns, irq_bad;
};

/**
 * struct dlend_reach_ops - how this node gets at what is in the peer's aperture (reach.c)
 * @ctrl: the peer's control area into @peer_ctrl, and @window_size; @no_ctrl: not any more
 * @open: dlend_window_open(), the range is checked; @close: undo it
 * @map: a window on RAM in the kernel's address space, or NULL; @unmap: undo it
 * @dma: dlend_link_dma_map(), the range is checked: @r->offset to where it leads
 */
struct dlend_reach_ops {
	int (*ctrl)(struct dlend_link *link);
	void (*no_ctrl)(struct dlend_link *link);
	int (*open)(struct dlend_link *link, struct dlend_window *w, u64 offset, bool bar);
	void (*close)(struct dlend_window *w);
	void __iomem *(*map)(struct dlend_window *w);
	void (*unmap)(void __iomem *mem);
	void (*dma)(struct dlend_link *link, struct dlend_dma_range *r);
};

/*
 * struct dlend_link - one link
 * @dev: in class dlend_link; its references are the link's
 * @ops, @hw: the hardware; not used any more once @gone
 * @reach: over the hardware's window, or as one's own
 * @session: nonce of the session that is up, 0 if none; written under @lock
 * @peer: node id of the peer, 0 while unknown
 */
struct dlend_link {
	struct device dev;
	struct list_head node;
	const struct dlend_link_hw_ops *ops;
	const struct dlend_reach_ops *reach;
	void *hw;
	bool gone;
	bool asleep;			/* the host is suspended, or about to be (state_lock) */
	spinlock_t lock;		/* session, calls, requests */
	u64 session;
	u16 peer;
	struct dlend_link_stat stat;

	/* bring-up */
	struct mutex state_lock;	/* this part, and the hardware's set-up */
	struct delayed_work state_work;
	unsigned long stepped_at;	/* when it last ran, jiffies */
	struct dlend_bringup bringup;
	struct dlend_backoff backoff;
	struct ratelimit_state says;	/* lines about sessions */
	char error[DLEND_BRINGUP_ERROR_LEN];
	bool error_said;		/* since the link was up last */
	const char *restart;		/* somebody wants the session to begin again, and why */
	struct dlend_aperture *aperture;
	int aperture_err;		/* why there is none; only -EBUSY is tried again */
	unsigned int aperture_wait;	/* ms until then */
	u64 aperture_at;		/* when it was last tried or looked for, ms */
	struct dlend_slot *ctrl_slot;
	struct dlend_ctrl *ctrl;	/* ours: the peer writes it */
	struct dlend_ctrl __iomem *peer_ctrl;
	phys_addr_t window;
	u64 window_size;
	u64 peer_aperture;
	u32 beat;
	u64 published_at;		/* when the scratchpads were last written, ms */

	/* users */
	struct mutex told_lock;		/* callbacks of this link, told_session, told */
	struct work_struct told_work;
	u64 told_session;		/* the session that users know as up, 0 if none */
	unsigned long told;		/* users that got link_up in it */
	bool quiet;			/* no user is concerned with an old session any more */

	/* channel */
	struct semaphore tx_lock;	/* tx, the peer's ring; waited for with a deadline */
	struct dlend_ring_tx tx;
	u64 tx_session;
	struct mutex rx_lock;		/* rx, bad_frames */
	struct dlend_ring_rx rx;
	unsigned int bad_frames;
	struct work_struct rx_work;
	struct dlend_job *jobs;		/* DLEND_MAX_REQUESTS */
	struct workqueue_struct *request_wq;	/* where they run */
	struct dlend_requests requests;
	wait_queue_head_t idle;		/* no request is left */
	struct list_head calls;
	u32 last_id;

	/* interrupts */
	spinlock_t irq_lock;		/* sinks, scan, budget, db_on */
	struct xarray sinks;
	u32 next_handle;
	struct dlend_irqscan scan;
	struct dlend_budget budget;	/* of doorbells' interrupts */
	bool db_on;			/* the hardware is set up: poll_work may unmask */
	bool look_all;			/* poll_work shall look at every counter */
	u64 looked_at;			/* when it was last told to, ms (state_lock) */
	struct work_struct poll_work;
	spinlock_t fire_lock;		/* fire_*, slow_reads, counters of sources */
	u32 fire_prod;
	u32 slow_reads;			/* in a row */
	bool fire_on;
};

extern const struct class dlend_link_class;
extern struct workqueue_struct *dlend_wq, *dlend_poll_wq;
extern unsigned int dlend_heartbeat_ms, dlend_heartbeat_timeout_ms, dlend_call_timeout_ms;
extern bool dlend_irq_readback;
extern const struct attribute_group *dlend_link_groups[];

static inline u64 dlend_live_session(const struct dlend_link *link)
{
	return READ_ONCE(link->session);
}

/* core.c */
struct dlend_link_user *dlend_user_get(u16 type, int *srcu);
void dlend_user_put(int srcu);
void dlend_links_kick(void);
void dlend_links_sleep(bool on);
int dlend_users_suspend(void);
void dlend_users_resume(void);
void dlend_users_shutdown(void);

/* session.c */
void dlend_session_init(struct dlend_link *link);
void dlend_session_kick(struct dlend_link *link);
void dlend_session_nudged(struct dlend_link *link);
void dlend_session_sleep(struct dlend_link *link, bool on);
void dlend_session_restart(struct dlend_link *link, const char *why);
void dlend_session_require(struct dlend_link *link, u16 node);
void dlend_session_remove(struct dlend_link *link);
void dlend_session_free(struct dlend_link *link);
u64 dlend_now_ms(void);

/* chan.c */
int dlend_chan_init(struct dlend_link *link, const char *name);
void dlend_chan_reset(struct dlend_link *link, u64 session);
void dlend_chan_end(struct dlend_link *link);
void dlend_chan_refresh(struct dlend_link *link);
void dlend_chan_free(struct dlend_link *link);
bool dlend_chan_idle(struct dlend_link *link, unsigned int wait_ms);
void dlend_chan_drain(struct dlend_link *link);
void dlend_chan_stop(struct dlend_link *link);

/* irqring.c */
void dlend_irq_init(struct dlend_link *link);
void dlend_irq_reset(struct dlend_link *link);
void dlend_irq_on(struct dlend_link *link, bool on);
bool dlend_irq_scan(struct dlend_link *link, u32 *budget);
void dlend_irq_look_all(struct dlend_link *link);

/* doorbell.c */
void dlend_doorbell_init(struct dlend_link *link);
void dlend_doorbell_on(struct dlend_link *link, bool on);
void dlend_doorbell_look(struct dlend_link *link);

/* reach.c */
extern const struct dlend_reach_ops dlend_reach_window, dlend_reach_self;

/* loop.c */
void dlend_loop_exit(void);

/* pm.c */
int dlend_pm_init(void);
void dlend_pm_exit(void);

/* sysfs.c */
void dlend_link_debugfs_add(struct dlend_link *link);
void dlend_link_debugfs_remove(struct dlend_link *link);
void dlend_debugfs_init(void);
void dlend_debugfs_exit(void);

#endif
