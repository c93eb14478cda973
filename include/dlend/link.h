/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Link: one NTB connection between two nodes, as lender/ and mdev/ see it.  What is below (NTB
 * hardware, scratchpads, rings) is ntb/'s business; what is above never sees a physical address
 * of the peer.  A node that lends has one more link, to itself, so that its own guests borrow from
 * it as others do: nothing above knows the difference.
 *
 * Life of a link: down -> hello -> test -> up, and back to down at any time.  Between the up()
 * and down() callbacks of a user the link is one *session*.
 */
#ifndef DLEND_LINK_H
#define DLEND_LINK_H

#include <linux/list.h>
#include <linux/types.h>
#include <dlend/aperture.h>
#include <dlend/proto.h>

struct dentry;
struct dlend_link;

/*
 * Time-out of a call that resets a device. PCIe gives a device that is not ready a minute (CRS;
 * the kernel's PCIE_RESET_READY_POLL_MS), the kernel tries another method of reset after one that
 * failed, and another function's reset may be under way before. A dead peer is no reason for a
 * shorter one: its heartbeat ends the call.
 */
#define DLEND_RESET_TIMEOUT_MS	150000

/** dlend_node_id - this host's node id (module parameter dlend_core.node_id), 1..65535 */
u16 dlend_node_id(void);

/** dlend_debugfs - /sys/kernel/debug/dlend */
struct dentry *dlend_debugfs(void);

/**
 * struct dlend_link_user - a layer above (lender/, mdev/)
 * @name: for logs
 * @link_up: a session has begun (self-test passed). Process context, may sleep and call.
 * @link_down: the session is over; nothing of the peer can be trusted or waited for; fence what
 *	       depends on it before returning. Process context; must not wait for user space. It
 *	       does not wait for a message handler that is still running: if one was, link_down
 *	       is called a second time after it, so that what it did meanwhile is undone, too.
 *	       dlend_link_is_up() is false in both. A session that was over at once has a
 *	       link_down without link_up.
 * @message: a message for @side (dlend_msg_to()) has arrived, checked by dlend_msg_check().
 *	     For a call: fill in @reply's payload (it has been initialised with the right type, id
 *	     and device) and return the status, 0 or -errno; set @reply->epoch where a grant makes
 *	     one. @reply is NULL for a post. Process context. Messages about one device come one at
 *	     a time and in order, those about different devices at the same time; so it may sleep,
 *	     and take as long as its device does, but must not dlend_link_call() on the same link
 *	     (two nodes that do could wait for each other): hand over to a work item.
 * @suspend: the host is about to sleep. Return 0: nothing is lent or borrowed, and nothing will be
 *	     before resume(); or an error, after a message that says which device is in the way.
 *	     Process context; must not wait for user space or a peer.
 * @resume: it is awake again, or did not fall asleep; also without a suspend() before
 * @shutdown: the host goes down for good: end all that reaches it from a peer, or a peer from it,
 *	      and let nothing of it begin again.  Links go after it.  Process context; as link_down
 *	      it must not wait for user space or a peer.
 * @side: what it is the part of
 */
struct dlend_link_user {
	const char *name;
	void (*link_up)(struct dlend_link *link);
	void (*link_down)(struct dlend_link *link);
	int (*message)(struct dlend_link *link, const struct dlend_msg *msg,
		       struct dlend_msg *reply);
	int (*suspend)(void);
	void (*resume)(void);
	void (*shutdown)(void);
	enum dlend_msg_side side;
	struct list_head node;	/* private to the link core */
};

/** dlend_link_user_register - link_up() is called for every link that is up already */
int dlend_link_user_register(struct dlend_link_user *user);
/**
 * dlend_link_user_unregister - link_down() is called for every link, up or not: one may just have
 *	gone down
 *
 * No callback runs any more when this returns.
 */
void dlend_link_user_unregister(struct dlend_link_user *user);

/** dlend_link_get / put - references; a link outlives its session and its hardware. */
struct dlend_link *dlend_link_get(struct dlend_link *link);
void dlend_link_put(struct dlend_link *link);

/**
 * struct dlend_session_ref - one session of a link, and none that follows it
 * @link: link; NULL: there is none
 * @session: its number, never 0
 *
 * What was agreed with a peer (offsets, epochs, handles) holds for one session: whoever remembers
 * such things remembers this with them.
 */
struct dlend_session_ref {
	struct dlend_link *link;
	u64 session;
};

/**
 * dlend_session_hold - the session that a link has now
 * @link: link; a reference is taken, and held until dlend_session_drop()
 *
 * Context: any. Return: the session; if the link is down, one that is over.
 */
struct dlend_session_ref dlend_session_hold(struct dlend_link *link);

/**
 * dlend_session_drop - forget a session
 * @ref: (in, out) from dlend_session_hold(); has no link afterwards. One without a link is fine
 *
 * Context: process.
 */
void dlend_session_drop(struct dlend_session_ref *ref);

/**
 * dlend_session_live - is this session still the link's?
 * @ref: (in) session; one without a link is over
 *
 * Context: any.
 */
bool dlend_session_live(const struct dlend_session_ref *ref);

/** dlend_link_for_each - call @fn for every link whose session is up, until it returns non-zero */
int dlend_link_for_each(int (*fn)(struct dlend_link *link, void *arg), void *arg);

bool dlend_link_is_up(const struct dlend_link *link);
u16 dlend_link_peer(const struct dlend_link *link);		/* node id, 0 while unknown */
u16 dlend_link_version(const struct dlend_link *link);		/* spoken on it, 0 while unknown */
u64 dlend_link_session(const struct dlend_link *link);		/* changes with every session */
const char *dlend_link_name(const struct dlend_link *link);
struct device *dlend_link_dev(struct dlend_link *link);		/* for dev_err() and the like */

/**
 * dlend_link_call - request and wait for the reply
 * @link: the link
 * @req: from dlend_msg_init() with the payload filled in; id, seq and crc are filled in here
 * @reply: receives the checked reply (may be NULL)
 * @timeout_ms: bound on the whole call; 0 = the default (module parameter call_timeout_ms)
 *
 * Context: process, may sleep; not from dlend_link_user.message of the same link.
 * Return: the reply's status (0 or the peer's -errno); -ENOTCONN link down before or during,
 * -ETIMEDOUT no answer; -ENOBUFS the peer has more calls under way than it takes. A reply that
 * comes after its time-out is dropped.
 */
int dlend_link_call(struct dlend_link *link, struct dlend_msg *req, struct dlend_msg *reply,
		    unsigned int timeout_ms);

/**
 * dlend_link_call_in - dlend_link_call() in one session and no other
 * @ref: (in) session, from dlend_session_hold() when what @req says was agreed
 * @req: (in, out) as for dlend_link_call()
 * @reply: (out) as for dlend_link_call()
 * @timeout_ms: (in) as for dlend_link_call()
 *
 * Context: as dlend_link_call(). Return: as dlend_link_call(); -ENOTCONN also if the session is
 * over.
 */
int dlend_link_call_in(const struct dlend_session_ref *ref, struct dlend_msg *req,
		       struct dlend_msg *reply, unsigned int timeout_ms);

/**
 * dlend_link_post - send without reply
 *
 * Context: process, may sleep while the ring is full (bounded).
 * Return: 0, -ENOTCONN, -ETIMEDOUT.
 */
int dlend_link_post(struct dlend_link *link, struct dlend_msg *msg);

/**
 * dlend_link_post_in - dlend_link_post() in one session and no other
 * @ref: (in) session, from dlend_session_hold() when what @msg says was true
 * @msg: (in, out) as for dlend_link_post()
 *
 * Context: as dlend_link_post(). Return: as dlend_link_post(); -ENOTCONN also if the session is
 * over.
 */
int dlend_link_post_in(const struct dlend_session_ref *ref, struct dlend_msg *msg);

/**
 * dlend_link_restart - end a session, because the peer cannot be dealt with in it any more
 * @ref: (in) session; one that is over already is left alone
 * @why: (in) for the log and last_error; a string that stays
 *
 * A new session begins by itself. Context: any.
 */
void dlend_link_restart(const struct dlend_session_ref *ref, const char *why);

/**
 * dlend_link_aperture - this node's aperture on the link
 *
 * NULL before the hardware's link was up for the first time and after the NTB device went away.
 * What was returned once stays valid as long as the caller has a reference on the link: slots can
 * still be freed, mapping fails with -ENODEV.
 */
struct dlend_aperture *dlend_link_aperture(struct dlend_link *link);

/**
 * struct dlend_window - a range of the peer's aperture, as this node's CPUs reach it
 * @phys: physical address here
 * @revoked: (before opening, may be NULL) the peer has taken away some of it: nobody may use @phys
 *	any more when this returns. Only where no IOMMU does that: on the lender itself. Process
 *	context, with the aperture's lock held: waits for nobody, does not open or close windows
 * @arg: for revoked()
 *
 * The rest is the link core's.
 */
struct dlend_window {
	phys_addr_t phys;
	void (*revoked)(struct dlend_window *w);
	void *arg;
	struct dlend_link *link;
	struct dlend_view view;
	u64 size;
};

/**
 * dlend_window_open - reach a range of the peer's aperture
 * @offset: in the peer's aperture (not trusted), page aligned
 * @size: bytes, page multiple
 * @bar: a BAR is there, otherwise RAM
 *
 * Process context. Return: 0; -ERANGE if the range leaves the window, touches the control area or
 * is not what it is said to be; -ENOTCONN.
 */
int dlend_window_open(struct dlend_link *link, struct dlend_window *w, u64 offset, u64 size,
		      bool bar);

/** dlend_window_close - revoked() does not run any more. Fine for one that is not open */
void dlend_window_close(struct dlend_window *w);

/** dlend_link_window_bytes - how much of the peer's aperture this node reaches, once it is up */
u64 dlend_link_window_bytes(const struct dlend_link *link);

/**
 * dlend_link_dma_map - let a lent device reach a range of the peer's aperture
 * @link: outlives what is mapped
 * @dom: the device's domain
 * @owner: whose range it is
 * @r: its iova, size, prot, and its offset in the peer's aperture (not trusted), page aligned; the
 *	rest is filled in here, in a copy
 *
 * What the peer unmaps there is out of the device's reach at once, what it maps later is within.
 * dlend_domain_unmap() ends it. Context: process, may sleep.
 * Return: as dlend_domain_map(), and as dlend_window_open().
 */
int dlend_link_dma_map(struct dlend_link *link, struct dlend_domain *dom,
		       struct dlend_owner *owner, const struct dlend_dma_range *r);

/**
 * dlend_loop_open - from now on this node has a link to itself
 *
 * For the lender; the link stays as long as dlend_core. Return: 0, also if there is one already.
 */
int dlend_loop_open(void);

/*
 * Interrupts across a link.  The borrower opens a sink; the lender fires into it.  No edge is
 * lost: every vector has a counter that only the lender writes, the ring is only a hint where
 * to look.
 */
struct dlend_irq_sink;

/**
 * dlend_irq_sink_open - make a place for a lender's interrupts
 * @fire: @count (>= 1) new interrupts of @vector. Called with a spinlock held and interrupts off;
 *	  must not open or close sinks.
 *
 * Return: sink or ERR_PTR. Process context.
 */
struct dlend_irq_sink *dlend_irq_sink_open(struct dlend_link *link,
					   void (*fire)(void *arg, u32 vector, u32 count),
					   void *arg);
/**
 * dlend_irq_sink_close - no fire() runs any more when this returns
 *
 * Its slot is quarantined until the next session or dlend_irq_sink_close() with @acked (the lender
 * has returned the lease).
 */
void dlend_irq_sink_close(struct dlend_irq_sink *sink, bool acked);
u64 dlend_irq_sink_offset(const struct dlend_irq_sink *sink);
u32 dlend_irq_sink_handle(const struct dlend_irq_sink *sink);

struct dlend_irq_source;

/**
 * dlend_irq_source_open - lender's side
 * @offset: counters in the borrower's aperture, from struct dlend_p_borrow (not trusted: checked)
 * @handle: goes into the ring entries
 * @vectors: that the device can have, up to DLEND_MAX_VECTORS
 *
 * Reads each vector's counter through the window, once: some microseconds each, and a second for
 * all of them at most.
 * Return: source or ERR_PTR(-ERANGE / -ENOTCONN / -ENOMEM; -ENXIO nothing is there, -ETIME it
 * takes too long). Process context.
 */
struct dlend_irq_source *dlend_irq_source_open(struct dlend_link *link, u64 offset, u32 handle,
					       u32 vectors);
void dlend_irq_source_close(struct dlend_irq_source *src);
/**
 * dlend_irq_fire - count one interrupt of @vector and ring the peer's doorbell
 *
 * With dlend_core.irq_readback one read through the window comes first, so that the interrupt is
 * seen behind the data that it is about. If nobody answers it, the session ends; if others are
 * answered, only this source does: the borrower has closed the sink.
 * Any context, hard interrupt too. Silently nothing if the link is down.
 */
void dlend_irq_fire(struct dlend_irq_source *src, u32 vector);

#endif
