/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Link: one NTB connection between two nodes, for lender/ and borrower/.  Only ntb/ knows NTB
 * hardware, scratchpads and rings; upper layers never see a physical address of the peer.  A node
 * that lends has one more link, to itself, so that its own guests borrow from it as others do;
 * upper layers treat that link like all others.
 *
 * Life of a link: down -> hello -> test -> up, and back to down at any time.  Between the link_up()
 * and link_down() callbacks of a user the link is one *session*.
 */
#ifndef DLEND_LINK_H
#define DLEND_LINK_H

#include <linux/bitmap.h>
#include <linux/lockdep.h>
#include <linux/types.h>
#include <dlend/aperture.h>
#include <dlend/proto.h>

struct dentry;
struct dlend_link;

/*
 * Time-out of a call that resets a device. A PCIe device may take a minute until it is ready (CRS;
 * the kernel's PCIE_RESET_READY_POLL_MS). If one method of reset fails, the kernel tries another
 * one, and the reset of another function may have to end first. A dead peer is no reason for a
 * shorter time: without heartbeats the session, and with it the call, ends.
 */
#define DLEND_RESET_TIMEOUT_MS	150000

/**
 * dlend_node_id - this host's node id (module parameter dlend_core.node_id)
 *
 * Context: any. Return: 1..65535; 0: not set yet, no link comes up.
 */
u16 dlend_node_id(void);

/**
 * dlend_node_name - this host's name in the fabric (dlend_core.node_name), or its host name
 * @name: (out) DLEND_NODE_NAME_LEN bytes, 0 behind the name
 *
 * Context: any.
 */
void dlend_node_name(char *name);

/**
 * dlend_node_label - a node, for a message to people: "2 (alpha)"
 * @node: (in) node
 * @label: (out) DLEND_NODE_LABEL_LEN bytes; without a name if no link of this host has led to it
 *
 * Context: process; takes dlend_links_lock. Return: @label.
 */
const char *dlend_node_label(u16 node, char *label);

/** dlend_debugfs - directory /sys/kernel/debug/dlend. Context: any. */
struct dentry *dlend_debugfs(void);

/*
 * Delay of an event, in ms, and shortest time between two, for a state that a peer or a guest can
 * change. They may change it all the time, and user space gets events of other devices, too.
 */
#define DLEND_UEVENT_DELAY_MS	20

/**
 * dlend_uevent_state - tell user space of a new state: an event "change" with DLEND_STATE
 * @dev: (in) the device whose attribute "state" has changed
 * @state: (in) its first word
 *
 * An event may be lost, as all of the kernel's, if there is no memory for it.
 *
 * Context: process, may sleep.  No lock that a fence waits for.
 */
void dlend_uevent_state(struct device *dev, const char *state);

/**
 * struct dlend_link_user - a layer above (lender/, borrower/)
 * @link_up: a session has begun (self-test passed). Process context, may sleep and call.
 * @link_down: the session is over; nothing of the peer can be trusted or waited for; fence what
 *	       depends on it before returning. Process context; must not wait for user space. It
 *	       does not wait for a message handler that is still running: if one was, link_down
 *	       is called a second time after it, so that what it did until then is undone, too.
 *	       dlend_link_is_up() is false in both. A session that was over at once has a
 *	       link_down without link_up.
 * @message: a message for @side (dlend_msg_to()) has arrived, checked by dlend_msg_check().
 *	     For a call: fill in @reply's payload (it has been initialised with the right type, id
 *	     and device) and return the status, 0 or -errno; set @reply->epoch where a grant makes
 *	     one. @reply is NULL for a post. Process context. Messages about one device come one at
 *	     a time and in order, those about different devices at the same time; so it may sleep,
 *	     and take as long as its device does, but must not call on the same link
 *	     (two nodes that do could wait for each other): hand over to a work item.
 * @suspend: the host is about to sleep. Return 0: nothing is lent or borrowed, and nothing will be
 *	     before resume(); or an error, after a message that says which device is in the way.
 *	     Process context; must not wait for user space or a peer.
 * @resume: the host is awake again; also without a suspend() before. @slept: false: it certainly
 *	did not fall asleep
 * @shutdown: the host goes down for good: end all accesses from a peer to it, and from it to a
 *	      peer, and let none begin again.  Links go down after it.  Process context; like
 *	      link_down it must not wait for user space or a peer.
 * @allowed_changed: peer-to-peer domains of functions of this host have changed (dlend/root.h).
 *	     Process context; must not wait for user space or a peer.
 * @side: whose messages it gets: the lender's or the borrower's
 */
struct dlend_link_user {
	void (*link_up)(struct dlend_link *link);
	void (*link_down)(struct dlend_link *link);
	int (*message)(struct dlend_link *link, const struct dlend_msg *msg,
		       struct dlend_msg *reply);
	int (*suspend)(void);
	void (*resume)(bool slept);
	void (*shutdown)(void);
	void (*allowed_changed)(void);
	enum dlend_msg_side side;
};

/**
 * dlend_link_user_register - a layer above uses links from now on
 * @user: user; stays until it is unregistered
 *
 * link_up() is called for every link that is up already; other callbacks may come before this
 * returns, too.
 * Context: process, may sleep; not from a callback. Return: 0; -EBUSY that side has a user.
 */
int dlend_link_user_register(struct dlend_link_user *user);

/**
 * dlend_link_user_unregister - undo dlend_link_user_register()
 * @user: user; none of its callbacks runs any more when this returns
 *
 * link_down() is called for every link, up or not: a link may just have gone down.
 * Context: process, may sleep; not from a callback.
 */
void dlend_link_user_unregister(struct dlend_link_user *user);

/**
 * dlend_link_get - take a reference: a link outlives its session and its hardware
 * @link: link
 *
 * Context: any. Return: @link.
 */
struct dlend_link *dlend_link_get(struct dlend_link *link);

/**
 * dlend_link_put - drop a reference
 * @link: link
 *
 * Context: process, may sleep.
 */
void dlend_link_put(struct dlend_link *link);

/**
 * struct dlend_session_ref - one session of a link, and none that follows it
 * @link: link; NULL: there is none
 * @session: its number; 0: a session that is over
 *
 * Offsets, epochs and handles that were agreed with a peer are valid for one session only. Code
 * that keeps them keeps this with them.
 */
struct dlend_session_ref {
	struct dlend_link *link;
	u64 session;
};

/** dlend_link_session - number of the session, new for each; 0: none is up. Context: any. */
u64 dlend_link_session(const struct dlend_link *link);

/** dlend_session_now - the session that a link has now; no reference is taken. Context: any. */
static inline struct dlend_session_ref dlend_session_now(struct dlend_link *link)
{
	return (struct dlend_session_ref){ .link = link, .session = dlend_link_session(link) };
}

/**
 * dlend_session_hold - the session that a link has now
 * @link: link; a reference is taken, and held until dlend_session_drop()
 *
 * Context: any. Return: the session; if the link is down, one that is over.
 */
static inline struct dlend_session_ref dlend_session_hold(struct dlend_link *link)
{
	return dlend_session_now(dlend_link_get(link));
}

/**
 * dlend_session_drop - forget a session
 * @ref: (in, out) from dlend_session_hold(); has no link afterwards. One without a link is fine
 *
 * Context: process.
 */
static inline void dlend_session_drop(struct dlend_session_ref *ref)
{
	if (ref->link)
		dlend_link_put(ref->link);
	ref->link = NULL;
}

/**
 * dlend_session_live - is this session still the link's?
 * @ref: (in) session; one without a link is over
 *
 * Context: any.
 */
static inline bool dlend_session_live(const struct dlend_session_ref *ref)
{
	return ref->link && ref->session && dlend_link_session(ref->link) == ref->session;
}

/**
 * dlend_links_each - call a function for every link
 * @up: (in) only for those whose session is up
 * @fn: called with a reference on the link, without locks; non-zero ends the walk
 * @arg: (in) for @fn
 *
 * Context: process, may sleep. Return: 0, or what @fn returned.
 */
int dlend_links_each(bool up, int (*fn)(struct dlend_link *link, void *arg), void *arg);

/* PCI ids, as pci_dev_id(). */
#define DLEND_REQUESTER_IDS	65536

/**
 * struct dlend_requesters - which of this node's PCI functions are to pass over a link
 * @keep: (in) a bit for each id: if its requests pass now, they go on to pass
 * @add: (in) a bit for each id whose requests shall pass. All others do not pass any more
 * @places: (out) on -ENOSPC: how many the hardware has
 * @free: (out) on -ENOSPC: how many of these are free
 * @needed: (out) on -ENOSPC: how many @add needs
 */
struct dlend_requesters {
	DECLARE_BITMAP(keep, DLEND_REQUESTER_IDS);
	DECLARE_BITMAP(add, DLEND_REQUESTER_IDS);
	unsigned int places, free, needed;
};

/**
 * dlend_link_set_requesters - say which PCI functions of this node may send requests over a link
 * @link: link, up or not
 * @these: (in, out) each id under which their requests show
 *
 * Most hardware lets all requests pass.  Other hardware may lose this setting in a reset, after
 * which a new session begins.  When the link goes, its requesters do not pass any more.  Context:
 * process, may sleep; takes the lock of the link's bring-up.  Return: 0; -ENODEV the hardware is
 * gone; or all is as before: -ENOSPC it has no room; -EAGAIN try again; -EIO it refuses.
 */
int dlend_link_set_requesters(struct dlend_link *link, struct dlend_requesters *these);

/** dlend_link_is_up - is a session up? Context: any. */
static inline bool dlend_link_is_up(const struct dlend_link *link)
{
	return dlend_link_session(link);
}

/** dlend_link_peer - node id of the peer, 0 while unknown. Context: any. */
u16 dlend_link_peer(const struct dlend_link *link);

/** dlend_link_name - name in /sys/class/dlend_link; lives as long as the link. Context: any. */
const char *dlend_link_name(const struct dlend_link *link);

/** dlend_link_dev - device of a link, for dev_err() and the like. Context: any. */
struct device *dlend_link_dev(struct dlend_link *link);

/**
 * dlend_link_call_in - send a request in a session, and wait for the reply
 * @ref: (in) session, from dlend_session_hold() when what @req says was agreed
 * @req: (in, out) from dlend_msg_init() with the payload filled in; id, seq and crc are filled in
 *	here
 * @reply: (out) the checked reply; may be NULL
 * @timeout_ms: (in) milliseconds for the whole call; 0: the default (module parameter
 *	call_timeout_ms)
 *
 * Context: process, may sleep; not from dlend_link_user.message of the same link.
 * Return: the reply's status (0 or the peer's -errno); -ENOTCONN the session is over, before or
 * during the call; -ETIMEDOUT no answer; -ENOBUFS the peer has more calls under way than it takes.
 * A reply that comes after its time-out is dropped.
 */
int dlend_link_call_in(const struct dlend_session_ref *ref, struct dlend_msg *req,
		       struct dlend_msg *reply, unsigned int timeout_ms);

/**
 * dlend_link_post_in - send a message in a session; there is no answer
 * @ref: (in) session, from dlend_session_hold() when what @msg says was true
 * @msg: (in, out) from dlend_msg_init() with the payload filled in; seq and crc are filled in here
 *
 * Context: process, may sleep while the ring is full, for call_timeout_ms at most.
 * Return: 0; -ENOTCONN the session is over; -ETIMEDOUT the peer takes no messages.
 */
int dlend_link_post_in(const struct dlend_session_ref *ref, struct dlend_msg *msg);

/**
 * dlend_link_catch_up - wait until all requests are handled that have come before this moment
 * @link: (in) link
 * @side: (in) requests for this side of the node; DLEND_TO_NOBODY: all
 * @ms: (in) milliseconds to wait, at most; UINT_MAX: as long as it takes
 *
 * A reply reaches its caller at once, while earlier posts of the peer may be handled later.
 * Context: process, may sleep; not from struct dlend_link_user's ops. Return: false: the time was
 * too short.
 */
bool dlend_link_catch_up(struct dlend_link *link, enum dlend_msg_side side, unsigned int ms);

/**
 * dlend_link_restart - end a session, because the peer cannot be dealt with in it any more
 * @ref: (in) session; one that is over already is left alone
 * @why: (in) for the log and last_error; a string that stays until the module is unloaded
 *
 * A new session begins by itself. Context: any.
 */
void dlend_link_restart(const struct dlend_session_ref *ref, const char *why);

/*
 * For lockdep: "is waiting for a peer": for its answer, for room in its ring, or for the result of
 * a read through its window.
 */
extern struct lockdep_map dlend_peer_map;

/**
 * dlend_waits_for_no_peer - code that has this lock must not wait for a peer
 * @lock: (in) mutex; the rule is for all of its class
 *
 * From then on a kernel with lockdep reports code that waits for a peer while such a lock is held,
 * or while a lock is held under which such a lock is taken. Other kernels do nothing here. Context:
 * process; the lock may be taken here.
 */
#define dlend_waits_for_no_peer(lock) do {		\
	lock_map_acquire(&dlend_peer_map);		\
	might_lock(lock);				\
	lock_map_release(&dlend_peer_map);		\
} while (0)

/**
 * dlend_link_aperture - this node's aperture on the link
 * @link: link
 *
 * Context: any.
 * Return: aperture; NULL before the hardware's link was up for the first time and after the NTB
 * device went away. It stays valid as long as the caller has a reference on the link, also when the
 * device went away. It is needed to allocate a slot only: a slot knows its aperture.
 */
struct dlend_aperture *dlend_link_aperture(struct dlend_link *link);

/**
 * struct dlend_window - a range of the peer's aperture, as this node's CPUs reach it
 * @phys: physical address here
 * @revoked: set before opening, may be NULL: a part of the range was unmapped: @phys must not be
 *	used any more when this returns. Called on the loop only: elsewhere the peer's IOMMU blocks
 *	accesses. Process context, aperture's lock held: must not wait, nor open or close windows
 * @arg: for revoked()
 *
 * The rest is the link core's.
 */
struct dlend_window {
	phys_addr_t phys;
	void (*revoked)(struct dlend_window *w);
	void *arg;
	struct dlend_link *link;
	struct dlend_notifier notifier;
};

/**
 * dlend_window_open - reach a range of the peer's aperture
 * @link: link; a reference is kept until dlend_window_close()
 * @w: (in, out) window; all 0, but for revoked and arg
 * @offset: (in) in the peer's aperture (not trusted), page aligned
 * @size: (in) bytes, page multiple
 * @bar: (in) true: a BAR is there; false: RAM
 *
 * Context: process, may sleep; on the loop takes the aperture's lock.
 * Return: 0; -ERANGE if the range leaves the window, touches the control area or is not what it is
 * said to be; -ENOTCONN the link is down; -ENODEV the loop's aperture is detached.
 */
int dlend_window_open(struct dlend_link *link, struct dlend_window *w, u64 offset, u64 size,
		      bool bar);

/**
 * dlend_window_close - undo dlend_window_open(): revoked() does not run any more
 * @w: window; one that is not open is fine
 *
 * Context: process, may sleep; on the loop takes the aperture's lock.
 */
void dlend_window_close(struct dlend_window *w);

/** dlend_link_window_bytes - bytes of the peer's aperture that this node reaches. Context: any. */
u64 dlend_link_window_bytes(const struct dlend_link *link);

/**
 * dlend_link_dma_map - let a lent device reach a range of the peer's aperture
 * @link: link, which has to outlive the mapping
 * @dom: the device's domain
 * @owner: whose range it is
 * @r: its iova, size, prot, and its offset in the peer's aperture (not trusted), page aligned; the
 *	rest is filled in here, in a copy
 *
 * If the peer unmaps memory there, the device does not reach it any more; if the peer maps other
 * memory there later, the device reaches that. dlend_domain_unmap() ends this. Context: process,
 * may sleep. Return: as dlend_domain_map(), and as dlend_window_open().
 */
int dlend_link_dma_map(struct dlend_link *link, struct dlend_domain *dom,
		       struct dlend_owner *owner, const struct dlend_dma_range *r);

/**
 * dlend_loop_open - from now on this node has a link to itself
 *
 * For the lender; the link stays as long as dlend_core.
 * Context: process, may sleep. Return: 0, also if there is one already; or -errno.
 */
int dlend_loop_open(void);

/*
 * Interrupts across a link.  The borrower opens a sink, and the lender fires into it.  No interrupt
 * is lost: every vector has a counter, which only the lender writes; a ring of hints says where to
 * look.
 */
struct dlend_irq_sink;

/**
 * dlend_irq_sink_open - make a place for a lender's interrupts
 * @link: link to the lender; a reference is kept
 * @fire: called for @count (>= 1) new interrupts of @vector, with a spinlock held and interrupts
 *	off; must not open or close sinks
 * @arg: (in) for @fire
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: sink or ERR_PTR: -ENOTCONN there is no aperture; -ENOSPC; -EBUSY; -ENOMEM; or as
 * dlend_slot_map_phys().
 */
struct dlend_irq_sink *dlend_irq_sink_open(struct dlend_link *link,
					   void (*fire)(void *arg, u32 vector, u32 count),
					   void *arg);
/**
 * dlend_irq_sink_close - no fire() runs any more when this returns
 * @sink: sink; gone when this returns
 * @acked: (in) true: the lender has confirmed that it does not write there any more, so its offset
 *	may be used again at once; false: only in the next session
 *
 * Context: process, may sleep, waits for no peer; takes the aperture's lock.
 */
void dlend_irq_sink_close(struct dlend_irq_sink *sink, bool acked);

/** dlend_irq_sink_tell - fill in place and handle of a sink, for the lender. Context: any. */
void dlend_irq_sink_tell(const struct dlend_irq_sink *sink, struct dlend_p_borrow *p);

/*
 * Interrupts without the lender's processor: the device's own messages go through the peer's
 * second window into this host's IOMMU.
 */
struct dlend_irq_direct;

/**
 * struct dlend_user - the user of a device: a process
 * @pid: number of a process
 * @since: when it began, in ns since this host booted: a later process may have the same number
 */
struct dlend_user {
	pid_t pid;
	u64 since;
};

/** dlend_same_user - are they one? Context: any. */
static inline bool dlend_same_user(struct dlend_user a, struct dlend_user b)
{
	return a.pid == b.pid && a.since == b.since;
}

/**
 * dlend_irq_direct_open - a device is to have direct interrupts; it has none yet
 * @link: link to its lender; a reference is kept
 * @user: (in) whose the device is: all direct interrupts of a link are one user's, because each
 *	of its devices can be made to fire all of them
 * @fire: called for @count (1) new interrupts of @vector, with interrupts off; no lock is held, and
 *	two vectors may be called for at once
 * @arg: (in) for @fire
 * @why: (out) on error: the reason, a text that stays
 *
 * Context: process, may sleep; takes state_lock and the aperture's lock.
 * Return: set or ERR_PTR: -EOPNOTSUPP they cannot be had; or as dlend_slot_alloc().
 */
struct dlend_irq_direct *dlend_irq_direct_open(struct dlend_link *link, struct dlend_user user,
					       void (*fire)(void *arg, u32 vector, u32 count),
					       void *arg, const char **why);

/**
 * dlend_irq_direct_set - make vectors; none of the new ones is in use
 * @set: set
 * @mode: (in) DLEND_IRQ_MSI or DLEND_IRQ_MSIX; the same in all calls
 * @count: (in) how many; only the number of MSI-X vectors can grow, none is taken away
 * @p: (out) for the lender
 *
 * Context: process, may sleep.
 * Return: 0; -ENOTCONN the session is over; -EOPNOTSUPP the IOMMU's messages are not understood;
 * -ENOSPC and others: this host has too few.
 */
int dlend_irq_direct_set(struct dlend_irq_direct *set, enum dlend_irq_mode mode, u32 count,
			 struct dlend_p_direct *p);

/**
 * dlend_irq_direct_use - a vector of dlend_irq_direct_set() may fire from now on
 * @set: set; NULL: nothing is to be done
 * @vector: (in) number; one that is in use stays so
 *
 * Before, it uses no vector of a processor, and the IOMMU blocks and reports writes for it.
 * Context: process, may sleep; no other call for @set at the same time. Return: 0; -EINVAL there is
 * none of this number; -ENOSPC no processor has room for it; -ENOMEM.
 */
int dlend_irq_direct_use(struct dlend_irq_direct *set, u32 vector);

/**
 * dlend_irq_direct_fits - can dlend_irq_direct_set() keep the vectors that there are?
 * @set: set
 * @mode: (in) wanted
 * @count: (in) wanted
 *
 * Context: process; no other call for @set at the same time.
 * Return: false: it has to be closed first.
 */
bool dlend_irq_direct_fits(const struct dlend_irq_direct *set, enum dlend_irq_mode mode,
			   u32 count);

/**
 * dlend_irq_direct_bind - have a processor handle a vector
 * @set: set, or NULL
 * @vector: (in) that none of this number is in use is fine
 * @cpu: (in) processor; if it is not online, the vector stays with its processor
 *
 * The vector's message stays the same. Context: process; no other call for @set at the same time.
 */
void dlend_irq_direct_bind(struct dlend_irq_direct *set, u32 vector, unsigned int cpu);

/**
 * dlend_irq_direct_number - Linux' number of a vector, 0: there is none
 * @set: set, or NULL
 * @vector: (in) any
 *
 * Context: any; no other call for @set at the same time.
 */
unsigned int dlend_irq_direct_number(const struct dlend_irq_direct *set, u32 vector);

/**
 * dlend_irq_direct_close - no fire() runs any more when this returns
 * @set: set; gone when this returns
 * @acked: (in) true: the lender has confirmed that the device does not write there any more, so the
 *	vectors may be used again at once; false: only in the next session, and interrupts that come
 *	are dropped
 *
 * Context: process, may sleep.
 */
void dlend_irq_direct_close(struct dlend_irq_direct *set, bool acked);

/**
 * dlend_link_interrupts - where the peer takes interrupts
 * @link: link
 * @page: (in) from struct dlend_p_direct (not trusted)
 * @phys: (out) DLEND_DIRECT_SIZE bytes from there on are interrupts of the peer
 *
 * Context: process; takes state_lock.
 * Return: 0; -EOPNOTSUPP there is no second window; -ERANGE @page is not in it.
 */
int dlend_link_interrupts(struct dlend_link *link, u64 page, phys_addr_t *phys);

struct dlend_irq_source;

/**
 * dlend_link_messages - read the messages that a device's vectors have to write
 * @link: link to the borrower
 * @table: (in) from struct dlend_p_direct (not trusted)
 * @count: (in) how many, up to DLEND_MAX_VECTORS
 * @message: (out) that many; offsets and alignment are checked
 *
 * Reads through the window: some microseconds for each, two seconds for all of them at most.
 * Context: process, may sleep; no lock that others wait for.
 * Return: 0; -ERANGE @table, or a message is not within DLEND_DIRECT_SIZE; -ENOTCONN; -ENXIO
 * nothing is there; -ETIME it takes too long; -ENOMEM.
 */
int dlend_link_messages(struct dlend_link *link, u64 table, u32 count,
			struct dlend_p_message *message);

/**
 * dlend_irq_source_open - the lender's side: where interrupts of a device go
 * @link: link to the borrower; a reference is kept
 * @offset: (in) counters in the borrower's aperture, from struct dlend_p_borrow (not trusted)
 * @handle: (in) number of the sink in the ring of hints (not trusted)
 *
 * The counters are all 0 now. One is read through the window.
 * Context: process, may sleep; no lock that others wait for.
 * Return: source, or ERR_PTR: -ERANGE @offset or @handle; -ENOMEM; -ENOTCONN the session is over;
 * -ENXIO nothing is there.
 */
struct dlend_irq_source *dlend_irq_source_open(struct dlend_link *link, u64 offset, u32 handle);

/**
 * dlend_irq_source_close - undo dlend_irq_source_open()
 * @src: source; dlend_irq_fire() is not called for it any more
 *
 * Context: process, may sleep.
 */
void dlend_irq_source_close(struct dlend_irq_source *src);

/**
 * dlend_irq_fire - count one interrupt of a vector and ring the peer's doorbell
 * @src: source
 * @vector: (in) vector, below DLEND_MAX_VECTORS; others are ignored
 * @late: (in) the caller cannot read through the window: a thread does
 *
 * With dlend_core.irq_readback one read through the window comes first, so that the interrupt is
 * seen behind the data that it is about. If the read is not answered, the session ends. If only the
 * counters do not answer, only this source ends: the borrower has closed the sink.
 * A link has a share of time for such reads (DLEND_READ_SHARE); beyond it a thread reads, and
 * tells all that has come until then.
 * Does nothing if the session is over.
 * Context: any, hard interrupt too; no lock that others wait for, unless @late.
 */
void dlend_irq_fire(struct dlend_irq_source *src, u32 vector, bool late);

#endif
