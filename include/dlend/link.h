/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Link: one NTB connection between two nodes, for the folders above ntb/.  Only ntb/ knows NTB
 * hardware, scratchpads and rings; upper layers never see a physical address of the peer.  A node
 * that lends has one more link, to itself (the loopback link, "the loop"), so that its own guests
 * borrow from it as others do; upper layers treat that link like all others.
 *
 * States of a link: down -> hello (both nodes exchange random numbers by scratchpads) -> test (the
 * self-test) -> up, and back to down at any time.  From link_up() to link_down() of a user there is
 * one *session*, which has a random number; a later session has another number.
 *
 * Two locks that comments here name are members of struct dlend_link (ntb/link.h): state_lock, and
 * directs.lock, the one of struct dlend_directs.  The aperture's lock is dlend_aperture.lock.
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
 * one. The lender resets one function of an IOMMU group at a time, so this reset may have to wait
 * for another one. A dead peer is no reason for a shorter time: without the peer's heartbeats the
 * session ends, and then the call ends, too (-ENOTCONN).
 */
#define DLEND_RESET_TIMEOUT_MS	150000

/**
 * dlend_node_id - this host's node id (module parameter dlend_core.node_id)
 *
 * Context: any. Return: 1..65535; 0: not set yet, no link comes up.
 */
u16 dlend_node_id(void);

/**
 * dlend_node_name - this node's name, for people: dlend_core.node_name, or else the host's name
 * @name: (out) DLEND_NODE_NAME_LEN bytes, filled up with 0; the last byte is always 0
 *
 * Context: any.
 */
void dlend_node_name(char *name);

/**
 * dlend_node_label - a node, for a message to people: "2 (alpha)"
 * @node: (in) node
 * @label: (out) DLEND_NODE_LABEL_LEN bytes; "2" alone if no link of this host has been up to that
 *	node, or if that node has sent no name
 *
 * Context: process; takes dlend_links_lock. Return: @label.
 */
const char *dlend_node_label(u16 node, char *label);

/**
 * dlend_debugfs - directory /sys/kernel/debug/dlend
 *
 * It stays as long as dlend_core. Context: any. Return: directory; without debugfs an error
 * pointer, which debugfs_create_*() accept.
 */
struct dentry *dlend_debugfs(void);

/*
 * Milliseconds by which code delays its call of dlend_uevent_state(), if a peer or a guest can
 * change the state. So two uevents of a device are at least this far apart. Otherwise a peer or a
 * guest that changes the state all the time would drown the uevents of other devices.
 */
#define DLEND_UEVENT_DELAY_MS	20

/**
 * dlend_uevent_state - send a uevent "change" with DLEND_STATE=@state to user space
 * @dev: (in) the device whose attribute "state" has changed
 * @state: (in) first word of that attribute
 *
 * The event is sent at once (see DLEND_UEVENT_DELAY_MS). It is lost if there is no memory for it,
 * as all uevents are.
 *
 * Context: process, may sleep. The caller must not hold a lock that a fence takes: the allocation
 * of memory may wait, and a fence must not.
 */
void dlend_uevent_state(struct device *dev, const char *state);

/**
 * struct dlend_link_user - a layer above (lender/, borrower/); one for each side
 * @link_up: a session has begun (self-test passed). Process context, may sleep, and may call the
 *	     peer.
 * @link_down: the session is over; nothing of the peer can be trusted or waited for. Before
 *	       link_down() returns, the user ends what depends on the session: the lender fences
 *	       devices, the borrower unmaps guests' memory from the aperture and BARs from guests.
 *	       Process context; must not wait for user space. It does not wait for a message handler
 *	       that is still running: if one is, link_down() is called a second time after the
 *	       handler has returned, so that what the handler did is undone, too. dlend_link_is_up()
 *	       is false in both calls. A session that was over at once has a link_down() without a
 *	       link_up().
 * @message: a message for @side (dlend_msg_to()) has arrived, checked by dlend_msg_check().
 *	     For a call: fill in @reply's payload (it has been initialised with the right type, id
 *	     and device) and return the status, 0 or -errno; set @reply->epoch where a grant makes
 *	     one. @reply is NULL for a post. Process context. Messages about one device come one at
 *	     a time and in order, those about different devices at the same time; so @message may
 *	     sleep, and take as long as its device does. But it must not call the peer on the same
 *	     link by dlend_link_call_in(): two nodes that do could wait for each other. A work item
 *	     can do that.
 * @suspend: the host is about to sleep. Return 0: nothing is lent or borrowed, and nothing will be
 *	     before resume(); or -errno, after a line in the kernel's log that says which device is
 *	     in the way. Process context; must not wait for user space or a peer.
 * @resume: the host is awake again; called without a suspend() before, too, if the other user has
 *	    refused. @slept: false: a user has refused to suspend, so the host did not sleep; true:
 *	    it may have slept. Process context
 * @shutdown: the host goes down for good: end all accesses from a peer to this host, and from this
 *	      host to a peer, and let none begin again. When all users' shutdown() has returned, the
 *	      sessions of all links are ended, with link_down(). Process context; like link_down()
 *	      it must not wait for user space or a peer.
 * @allowed_changed: the administrator has written p2p_allowed, so the peer-to-peer domains of all
 *	     functions of this host have changed (dlend/root.h). Process context, with the lock of
 *	     dlend_core's parameters held; must not wait for user space or a peer.
 * @side: which messages the user gets: those for lenders (DLEND_TO_LENDER) or those for borrowers
 *
 * @suspend, @resume, @shutdown and @allowed_changed may be NULL; so may @link_up and @link_down.
 *
 * @link_up and @link_down of one link do not overlap: they run with announced.lock of the link held
 * (ntb/link.h), and with dlend_users_lock, too, if a user is just being registered or unregistered.
 * For different links they can run at the same time. No lock of ntb/ is held for other callbacks.
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
 * dlend_link_user_register - register the user of links for one side
 * @user: user; the structure has to stay until it is unregistered
 *
 * Calls link_up() for every link that is up already; other callbacks may run before this returns,
 * too.
 * Context: process, may sleep; not from a callback; takes dlend_users_lock. Return: 0; -EBUSY: that
 * side has a user already.
 */
int dlend_link_user_register(struct dlend_link_user *user);

/**
 * dlend_link_user_unregister - undo dlend_link_user_register()
 * @user: user; none of its callbacks runs any more when this returns
 *
 * Calls link_down() for every link, up or not: a link may have gone down just now, without a call
 * of this user's link_down(). Waits for callbacks and message handlers that run, of both users.
 * Context: process, may sleep; not from a callback; takes dlend_users_lock.
 */
void dlend_link_user_unregister(struct dlend_link_user *user);

/**
 * dlend_link_get - take a reference
 * @link: link: while there is a reference, it stays, even if its session and its hardware end
 *
 * Context: any. Return: @link.
 */
struct dlend_link *dlend_link_get(struct dlend_link *link);

/**
 * dlend_link_put - drop a reference
 * @link: link. With the last reference its aperture and its irq domain are freed
 *
 * Context: process, may sleep; with the last reference takes directs.lock and the aperture's lock.
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

/**
 * dlend_link_session - number of the session that is up
 * @link: link
 *
 * Numbers are random, and different for each session. After a call that has returned a number,
 * dlend_link_peer() and dlend_link_window_bytes() return what they are in that session, or in a
 * later one (this is an acquire).
 * Context: any. Return: number; 0: no session is up.
 */
u64 dlend_link_session(const struct dlend_link *link);

/**
 * dlend_session_now - the session that a link has now
 * @link: link; no reference is taken, so the result is valid as long as the caller's own reference
 *
 * Context: any. Return: the session; if the link is down, one that is over.
 */
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
 * @ref: (in, out) from dlend_session_hold(); @ref->link is NULL afterwards. If it is NULL already,
 *	nothing happens
 *
 * Context: process, may sleep; as dlend_link_put().
 */
static inline void dlend_session_drop(struct dlend_session_ref *ref)
{
	if (ref->link)
		dlend_link_put(ref->link);
	ref->link = NULL;
}

/**
 * dlend_session_live - is this session still up?
 * @ref: (in) session; one without a link is over
 *
 * The session may end right after the answer. Context: any.
 */
static inline bool dlend_session_live(const struct dlend_session_ref *ref)
{
	return ref->link && ref->session && dlend_link_session(ref->link) == ref->session;
}

/**
 * dlend_links_each - call a function for every link
 * @up: (in) true: only for links whose session is up; false: for all
 * @fn: called while this function has a reference on the link, without locks; may sleep; non-zero
 *	ends the walk
 * @arg: (in) for @fn
 *
 * Links that are added meanwhile are left out.
 * Context: process, may sleep; takes dlend_links_lock for a moment. Return: 0, or what @fn
 * returned.
 */
int dlend_links_each(bool up, int (*fn)(struct dlend_link *link, void *arg), void *arg);

/* Number of requester IDs: bus, device and function in 16 bits, as pci_dev_id() has them. */
#define DLEND_REQUESTER_IDS	65536

/**
 * struct dlend_requesters - whose requests the NTB hardware lets through to the peer
 * @keep: (in) a bit for each requester ID whose requests go on to pass, if they pass now
 * @add: (in) a bit for each requester ID whose requests shall pass. Requests of IDs that are in
 *	neither do not pass any more
 * @places: (out) on -ENOSPC: how many entries the hardware's table has
 * @free: (out) on -ENOSPC: how many of these are free, or have an ID that is in neither bitmap
 * @needed: (out) on -ENOSPC: how many new entries @add needs
 */
struct dlend_requesters {
	DECLARE_BITMAP(keep, DLEND_REQUESTER_IDS);
	DECLARE_BITMAP(add, DLEND_REQUESTER_IDS);
	unsigned int places, free, needed;
};

/**
 * dlend_link_set_requesters - say which PCI functions of this node may send requests over a link
 * @link: link, up or not
 * @these: (in, out) requester IDs of these functions, with all aliases
 *
 * Most hardware lets all requests pass.  Other hardware (Switchtec) has a table, which the peer can
 * lock.  A reset of that hardware may empty the table; a new session begins after that, and in its
 * link_up() the caller sets its requesters again.  When the link is removed, its entries are
 * removed from the table.
 * Context: process, may sleep; takes state_lock.
 * Return: 0; with the table as before: -ENODEV the hardware is gone, -ENOSPC it is too small,
 * -EAGAIN the peer has locked it: try again; -EIO the hardware refuses, or has taken only a part.
 */
int dlend_link_set_requesters(struct dlend_link *link, struct dlend_requesters *these);

/** dlend_link_is_up - is a session up? Context: any. */
static inline bool dlend_link_is_up(const struct dlend_link *link)
{
	return dlend_link_session(link);
}

/** dlend_link_peer - node id of the peer of the last session, 0: none so far. Context: any. */
u16 dlend_link_peer(const struct dlend_link *link);

/**
 * dlend_link_name - name of a link in /sys/class/dlend_link
 * @link: link
 *
 * Context: any. Return: the PCI name of the NTB's function, or "loop"; valid while the caller has a
 * reference on @link.
 */
const char *dlend_link_name(const struct dlend_link *link);

/**
 * dlend_link_dev - a link's device in /sys/class/dlend_link, for dev_err() and as a parent
 * @link: link
 *
 * Context: any. Return: device; no reference is taken: valid while the caller has one on @link.
 */
struct device *dlend_link_dev(struct dlend_link *link);

/**
 * dlend_link_call_in - send a request in a session, and wait for the reply
 * @ref: (in) the session in which the contents of @req were agreed (offsets, epoch), as the caller
 *	has noted it then. The caller has a reference on the link
 * @req: (in, out) from dlend_msg_init() with the payload filled in; id, seq and crc are filled in
 *	here
 * @reply: (out) the reply, which dlend_msg_check() has accepted; may be NULL. Written only if the
 *	peer has answered, also if its answer is an error
 * @timeout_ms: (in) milliseconds for the whole call; 0: the default (module parameter
 *	call_timeout_ms)
 *
 * Context: process, may sleep, waits for the peer; not from dlend_link_user.message of the same
 * link; not with a lock held for which dlend_waits_for_no_peer() is declared.
 * Return: the reply's status (0 or the peer's -errno); -ENOTCONN the session is over, before or
 * during the call; -ETIMEDOUT no answer, or no room in the peer's ring. The peer answers -ENOBUFS
 * if more calls are under way than it takes. A reply that comes after the time-out is dropped; the
 * peer may have acted on the request all the same.
 */
int dlend_link_call_in(const struct dlend_session_ref *ref, struct dlend_msg *req,
		       struct dlend_msg *reply, unsigned int timeout_ms);

/**
 * dlend_link_call_in_core - dlend_link_call_in() for a call that the kernel's core makes
 * @ref: (in) as there
 * @req: (in, out) as there
 * @reply: (out) as there; may be NULL
 * @timeout_ms: (in) as there
 *
 * For a callback of the PCI, IOMMU or MSI core, which has locks of its own. Only lockdep sees the
 * difference, see dlend_waits_for_no_peer_but_core(). Context, Return: as there.
 */
int dlend_link_call_in_core(const struct dlend_session_ref *ref, struct dlend_msg *req,
			    struct dlend_msg *reply, unsigned int timeout_ms);

/**
 * dlend_link_post_in - send a message in a session; there is no answer
 * @ref: (in) the session in which the contents of @msg were true, as for dlend_link_call_in()
 * @msg: (in, out) from dlend_msg_init() with the payload filled in; seq and crc are filled in here
 *
 * Context: process, may sleep, and waits for the peer while its ring is full, for call_timeout_ms
 * at most; not with a lock held for which dlend_waits_for_no_peer() is declared.
 * Return: 0; -ENOTCONN the session is over; -ETIMEDOUT the peer takes no messages.
 */
int dlend_link_post_in(const struct dlend_session_ref *ref, struct dlend_msg *msg);

/**
 * dlend_link_catch_up - wait until all calls and posts of the peer that came earlier are handled
 * @link: (in) link
 * @side: (in) those for this side of this node; DLEND_TO_NOBODY: those for both sides
 * @ms: (in) milliseconds to wait, at most; UINT_MAX: as long as it takes
 *
 * The reply to a call of this node reaches its caller at once, while posts that the peer has sent
 * before the reply may be handled later. This waits for these; what comes after the beginning of
 * this function is not waited for.
 * Context: process, may sleep; not from struct dlend_link_user's ops. Return: true: all of them are
 * handled; false: the time was too short.
 */
bool dlend_link_catch_up(struct dlend_link *link, enum dlend_msg_side side, unsigned int ms);

/**
 * dlend_link_restart - end a session, because the peer cannot be dealt with in it any more
 * @ref: (in) session; one that is over already is left alone
 * @why: (in) for the log, and for the link's attribute last_error. A string literal of the caller's
 *	module, because a worker copies it later
 *
 * This only queues the work that ends the session; a new session begins by itself.
 * Context: any, hard interrupt too.
 */
void dlend_link_restart(const struct dlend_session_ref *ref, const char *why);

/*
 * Locks for lockdep only: code "holds" one of them while it waits for a peer: for the peer's
 * answer, for room in the peer's ring, or for the result of a read through the window. The second
 * is for calls by dlend_link_call_in_core().
 */
extern struct lockdep_map dlend_peer_map, dlend_peer_core_map;

/**
 * dlend_waits_for_no_peer - declare that code that has this lock must not wait for a peer
 * @lock: (in) mutex; the rule is for all mutexes of its lock class
 *
 * From then on a kernel with lockdep reports code that waits for a peer while such a lock is held,
 * or while a lock is held under which such a lock is taken. Other kernels do nothing here. Context:
 * process; the lock may be taken here.
 */
#define dlend_waits_for_no_peer(lock) do {		\
	struct mutex *lock_ __maybe_unused = (lock);	\
							\
	dlend_waits_for_no_peer_but_core(lock_);	\
	lock_map_acquire(&dlend_peer_core_map);		\
	might_lock(lock_);				\
	lock_map_release(&dlend_peer_core_map);		\
} while (0)

/**
 * dlend_waits_for_no_peer_but_core - dlend_waits_for_no_peer() for a lock outside the core's locks
 * @lock: (in) mutex; the rule is for all mutexes of its lock class
 *
 * For a lock that is held while the kernel's core takes locks of its own for a device: the mutex of
 * its IOMMU group, or of its MSIs. With such a mutex of *another* device held, an attached one, the
 * core calls code that waits for a peer (dlend_link_call_in_core()). Lockdep has one class for the
 * mutexes of all devices, and would take this for a dead-lock, so those waits are left out here.
 * Context: as there.
 */
#define dlend_waits_for_no_peer_but_core(lock) do {	\
	lock_map_acquire(&dlend_peer_map);		\
	might_lock(lock);				\
	lock_map_release(&dlend_peer_map);		\
} while (0)

/**
 * dlend_link_aperture - this node's aperture on the link
 * @link: link
 *
 * Context: any.
 * Return: aperture; NULL before the hardware's link was up for the first time, and after the NTB's
 * driver was unbound. The aperture stays valid as long as the caller has a reference on the link,
 * even if the NTB's driver is unbound. Code needs it only to allocate a slot: a slot knows its
 * aperture.
 */
struct dlend_aperture *dlend_link_aperture(struct dlend_link *link);

/**
 * struct dlend_window - a part of the NTB's memory window, which leads to a range of the peer's
 *	aperture, as this node's CPUs reach it
 * @phys: physical address in this host; 0 once the window was revoked
 * @revoked: set before dlend_window_open(), may be NULL: the borrower or lender that has mapped the
 *	range into the aperture unmaps a part of it. @phys is 0 already; the user must not use the
 *	old address any more when revoked() returns. Called on the loop only: elsewhere the peer's
 *	IOMMU blocks accesses. Process context, aperture's lock held: must not wait, nor open or
 *	close windows
 * @arg: for revoked(), which finds it in the window; ntb/ does not use it
 * @link: private to ntb/
 * @notifier: private to ntb/
 */
struct dlend_window {
	phys_addr_t phys;
	void (*revoked)(struct dlend_window *w);
	void *arg;
	struct dlend_link *link;
	struct dlend_notifier notifier;
};

/**
 * dlend_window_open - find where this node reaches a range of the peer's aperture
 * @link: link; a reference is kept until dlend_window_close()
 * @w: (in, out) window; all members are 0, except revoked and arg
 * @offset: (in) first byte, in the peer's aperture (not trusted), page aligned
 * @size: (in) bytes, page multiple
 * @bar: (in) true: the peer says that a BAR is there; false: RAM. Checked on the loop only
 *
 * The window stays open when the session ends. But then accesses by @w->phys reach nothing, or in a
 * later session what the peer has mapped there by then: so the user ends them in link_down().
 * Context: process, may sleep; on the loop takes the aperture's lock.
 * Return: 0; -ERANGE the range leaves the window, touches the control area or, on the loop, is not
 * mapped to what @bar says; -ENOTCONN the link is down; -ENODEV the loop is being removed. On an
 * error the window is not open.
 */
int dlend_window_open(struct dlend_link *link, struct dlend_window *w, u64 offset, u64 size,
		      bool bar);

/**
 * dlend_window_close - undo dlend_window_open(); when this returns, revoked() does not run any more
 * @w: window; one that is not open is fine
 *
 * Context: process, may sleep; on the loop takes the aperture's lock.
 */
void dlend_window_close(struct dlend_window *w);

/**
 * dlend_link_window_bytes - how much of the peer's aperture this node reaches
 * @link: link
 *
 * Context: any. Return: bytes; while the link is down, those of the last session; 0: none so far.
 */
u64 dlend_link_window_bytes(const struct dlend_link *link);

/**
 * dlend_link_dma_map - let a lent device reach a range of the peer's aperture
 * @link: link; the caller keeps a reference until the range is unmapped
 * @dom: IOMMU domain of the device's group
 * @owner: the range owner
 * @r: (in) @iova, @size, @prot, and in @offset the offset in the peer's aperture (not trusted), all
 *	page aligned; the function copies @r, and fills in where that range is in this host
 *
 * When the peer unmaps memory from its aperture, the device does not reach that memory any more;
 * when the peer maps memory there later, the device reaches it. dlend_domain_unmap() ends the
 * mapping.
 * Context: process, may sleep; takes the domain's lock, on the loop also the aperture's. Return: as
 * dlend_domain_map(), and as dlend_window_open().
 */
int dlend_link_dma_map(struct dlend_link *link, struct dlend_domain *dom,
		       struct dlend_owner *owner, const struct dlend_dma_range *r);

/**
 * dlend_loop_open - make the link of this node to itself, if there is none
 *
 * For the lender; the link stays until dlend_core is unloaded.
 * Context: process, may sleep; takes dlend_loop_lock, dlend_links_lock and state_lock. Return: 0,
 * also if there is one already; or the error of dlend_link_add() (dlend/link_hw.h).
 */
int dlend_loop_open(void);

/*
 * Interrupts across a link.  The borrower opens a *sink* for a device, and the lender opens a
 * *source*, which leads to that sink.  No interrupt is lost: every vector has a counter in the
 * borrower's memory, which only the lender writes.  A ring of *hints* in the borrower's control
 * area says which counters to look at: a hint has the sink's number (its *handle*) and the vector.
 */
struct dlend_irq_sink;

/**
 * dlend_irq_sink_open - allocate counters, to which a lender sends the interrupts of one device
 * @link: link to the lender, up or not; a reference is kept
 * @fire: called for @count (>= 1) new interrupts of @vector (below DLEND_MAX_VECTORS), with the
 *	link's irq_lock held and interrupts off; must not open or close sinks
 * @arg: (in) for @fire
 *
 * Context: process, may sleep; takes the aperture's lock.
 * Return: sink or ERR_PTR: -ENOTCONN there is no aperture; -EBUSY the link has no free handle;
 * -ENOMEM; or as dlend_slot_of_memory().
 */
struct dlend_irq_sink *dlend_irq_sink_open(struct dlend_link *link,
					   void (*fire)(void *arg, u32 vector, u32 count),
					   void *arg);
/**
 * dlend_irq_sink_close - free a sink; when this returns, no fire() runs any more
 * @sink: sink; it is freed
 * @acked: (in) true: the lender has confirmed that it does not write to the counters any more, so
 *	their offset may be used again at once; false: only in the next session
 *
 * Context: process, may sleep, waits for no peer; takes the aperture's lock.
 */
void dlend_irq_sink_close(struct dlend_irq_sink *sink, bool acked);

/**
 * dlend_irq_sink_fill - write into a BORROW message where the lender finds a sink
 * @sink: (in) sink
 * @p: (out) the message: irq_offset and irq_handle are set, the rest stays
 *
 * Context: any.
 */
void dlend_irq_sink_fill(const struct dlend_irq_sink *sink, struct dlend_p_borrow *p);

/*
 * Direct interrupts, which need no processor of the lender: the device's own messages go through
 * the lender's second window to the borrower's interrupt remapping.  The borrower has a *set* of
 * vectors for each such device (struct dlend_irq_direct; a set of groups is another thing).  The
 * functions dlend_irq_direct_*() are for the borrower, dlend_link_irq_phys() and
 * dlend_link_msi_targets() for the lender.
 */
struct dlend_irq_direct;

/**
 * struct dlend_user - the user of a device: a process (a VM's VMM), or this host itself
 * @pid: number of the process, as the initial PID namespace has it; -1: the device is attached, and
 *	its user is this host
 * @since: when the process began, in ns since this host booted: a later process may have the same
 *	number
 */
struct dlend_user {
	pid_t pid;
	u64 since;
};

/** dlend_same_user - are both the same process, or both this host? Context: any. */
static inline bool dlend_same_user(struct dlend_user a, struct dlend_user b)
{
	return a.pid == b.pid && a.since == b.since;
}

/**
 * dlend_irq_direct_open - make an empty set of vectors, for one device
 * @link: link to the device's lender; a reference is kept
 * @user: (in) who uses the device. All sets of a link belong to one user, because each device
 *	behind that link can be made to fire the vectors of all sets
 * @fire: called for each interrupt of @vector, with @count 1, in the interrupt's handler (on a
 *	realtime kernel in its thread). No lock is held, and calls for two vectors can run at the
 *	same time
 * @arg: (in) for @fire
 * @why: (out) on error: the reason, a string literal of dlend_core
 *
 * Context: process, may sleep; takes state_lock, directs.lock and the aperture's lock.
 * Return: set, freed by dlend_irq_direct_close(); ERR_PTR: -EOPNOTSUPP the link has no direct
 * interrupts for @user; -ENOTCONN there is no aperture; -ENOMEM; or as dlend_slot_of_memory().
 */
struct dlend_irq_direct *dlend_irq_direct_open(struct dlend_link *link, struct dlend_user user,
					       void (*fire)(void *arg, u32 vector, u32 count),
					       void *arg, const char **why);

/**
 * dlend_irq_direct_set - allocate vectors until the set has @count
 * @set: set
 * @mode: (in) DLEND_IRQ_MSI or DLEND_IRQ_MSIX; the same in all calls for a set
 * @count: (in) how many. A later call can ask for more vectors of MSI-X, but not of MSI; vectors
 *	are never taken away
 * @p: (out) what the lender has to know: struct dlend_p_direct
 *
 * The new vectors are not in use: dlend_irq_direct_use() has to follow. The caller guarantees that
 * dlend_irq_direct_fits() is true for these arguments; this function does not check that.
 * Context: process, may sleep; takes directs.lock; no other call for @set at the same time.
 * Return: 0; -ENOTCONN the session is over; -EINVAL more than DLEND_MAX_VECTORS; -EOPNOTSUPP
 * interrupt remapping composes no messages here, or such whose addresses are not the usual ones
 * (0xfee00000 to 0xfeefffff); -ENOSPC or another error of the irq domain: this host has too few
 * vectors. On an error the vectors that were allocated so far stay in the set until it is closed.
 */
int dlend_irq_direct_set(struct dlend_irq_direct *set, enum dlend_irq_mode mode, u32 count,
			 struct dlend_p_direct *p);

/**
 * dlend_irq_direct_use - request the interrupt of a vector: fire() may run for it from now on
 * @set: set; NULL: the function does nothing, and returns 0
 * @vector: (in) number, below the set's count; if it is in use already, nothing changes
 *
 * Before this call, the vector takes no vector of a processor, and interrupt remapping blocks and
 * reports writes for it.
 * Context: process, may sleep; no other call for @set at the same time. Return: 0; -EINVAL the set
 * has no such vector; -ENOSPC no processor has a free vector; -ENOMEM.
 */
int dlend_irq_direct_use(struct dlend_irq_direct *set, u32 vector);

/**
 * dlend_irq_direct_fits - can dlend_irq_direct_set() be called with these arguments?
 * @set: set, not NULL
 * @mode: (in) wanted mode
 * @count: (in) wanted number of vectors
 *
 * Context: process; no other call for @set at the same time.
 * Return: true; false: the set has to be closed, and another one opened.
 */
bool dlend_irq_direct_fits(const struct dlend_irq_direct *set, enum dlend_irq_mode mode,
			   u32 count);

/**
 * dlend_irq_direct_bind - set the affinity of a vector to one processor
 * @set: set, or NULL
 * @vector: (in) number; if the set has no such vector, or it is not in use, nothing happens
 * @cpu: (in) processor; if it is not online, the affinity stays as it is
 *
 * The vector's message stays the same. Context: process; no other call for @set at the same time.
 */
void dlend_irq_direct_bind(struct dlend_irq_direct *set, u32 vector, unsigned int cpu);

/**
 * dlend_irq_direct_number - Linux' interrupt number (virq) of a vector
 * @set: set, or NULL
 * @vector: (in) any number
 *
 * Context: any; no other call for @set at the same time. Return: virq; 0: there is no such vector.
 */
unsigned int dlend_irq_direct_number(const struct dlend_irq_direct *set, u32 vector);

/**
 * dlend_irq_direct_close - give a set up; when this returns, no fire() runs any more
 * @set: set, not NULL; the caller must not use it after this
 * @acked: (in) true: the lender has confirmed that the device does not send these interrupts any
 *	more, so the vectors are freed at once; false: they are freed when the next session begins,
 *	and interrupts that come until then are dropped
 *
 * Context: process, may sleep; takes directs.lock and the aperture's lock.
 */
void dlend_irq_direct_close(struct dlend_irq_direct *set, bool acked);

/**
 * dlend_link_irq_phys - on the lender: find where this node reaches the interrupts of the peer
 * @link: link to the borrower, up or not
 * @page: (in) from struct dlend_p_direct (not trusted): byte offset in this node's second window
 * @phys: (out) physical address in this host: writes to the DLEND_DIRECT_SIZE bytes from there on
 *	are interrupts of the peer, while the session lasts in which the peer has sent @page
 *
 * Context: process, may sleep; takes state_lock.
 * Return: 0; -EOPNOTSUPP there is no second window, or the NTB's driver was unbound; -ERANGE the
 * DLEND_DIRECT_SIZE bytes from @page on are not all in the window.
 */
int dlend_link_irq_phys(struct dlend_link *link, u64 page, phys_addr_t *phys);

struct dlend_irq_source;

/**
 * dlend_link_msi_targets - on the lender: read which messages (MSI) the device has to write
 * @link: link to the borrower
 * @table: (in) from struct dlend_p_direct (not trusted): byte offset in the borrower's aperture
 * @count: (in) how many; the caller guarantees that it is at most DLEND_MAX_VECTORS
 * @message: (out) @count messages. This function has checked that each address is below
 *	DLEND_DIRECT_SIZE, and a multiple of 4
 *
 * Reads through the window: some microseconds for each message, two seconds for all at most.
 * Context: process, may sleep, waits for the peer; not with a lock held for which
 * dlend_waits_for_no_peer() is declared.
 * Return: 0; -ERANGE @table is outside the window, or a message failed that check; -ENOTCONN the
 * session is over; -ENXIO an address reads as all ones; -ETIME the two seconds are over; -ENOMEM.
 * On an error @message may be written in part.
 */
int dlend_link_msi_targets(struct dlend_link *link, u64 table, u32 count,
			   struct dlend_p_message *message);

/**
 * dlend_irq_source_open - on the lender: make a source, for interrupts of a device to its borrower
 * @link: link to the borrower; a reference is kept
 * @offset: (in) counters in the borrower's aperture, from struct dlend_p_borrow (not trusted)
 * @handle: (in) number of the sink in the ring of hints, from there, too (not trusted)
 *
 * The borrower has just made the counters, all 0, and the source counts from 0 on: it writes its
 * own numbers, and never takes over what it reads. Here one counter is read through the window (not
 * on the loop), only to see whether it answers.
 * Context: process, may sleep, waits for the peer; not with a lock held for which
 * dlend_waits_for_no_peer() is declared; on the loop takes the aperture's lock.
 * Return: source, freed by dlend_irq_source_close(); ERR_PTR: -ERANGE @offset or @handle is
 * impossible; -ENOMEM; -ENOTCONN the session is over; -ENXIO the counter reads as all ones; or as
 * dlend_window_open().
 */
struct dlend_irq_source *dlend_irq_source_open(struct dlend_link *link, u64 offset, u32 handle);

/**
 * dlend_irq_source_close - undo dlend_irq_source_open()
 * @src: source. The caller guarantees that dlend_irq_fire() neither runs nor is called for it; late
 *	interrupts that were not sent yet are forgotten
 *
 * Context: process, may sleep; as dlend_window_close() and dlend_link_put().
 */
void dlend_irq_source_close(struct dlend_irq_source *src);

/**
 * dlend_irq_fire - count one interrupt of a vector and ring the peer's doorbell
 * @src: source
 * @vector: (in) vector, below DLEND_MAX_VECTORS; others are ignored
 * @late: (in) true: do not read through the window here, as the caller's context forbids it: a
 *	thread reads, and sends the interrupt a little later
 *
 * With dlend_core.irq_readback (the default) this first reads one word through the window, so that
 * the data that the device wrote before it interrupted has arrived when the interrupt is counted
 * (a flushing read). If the read is not answered, the session ends. If only the counters do not
 * answer, the borrower has closed the sink: then later calls for this source do nothing, and the
 * session goes on.
 * A link has a share of time for such reads (DLEND_READ_SHARE). When the share is used up, a thread
 * reads, and sends all interrupts that have come until then.
 * Does nothing if the session is over.
 * Context: any, hard interrupt too; if not @late, the caller must hold no lock that a thread may
 * wait for, because the peer decides how long the read takes.
 */
void dlend_irq_fire(struct dlend_irq_source *src, u32 vector, bool late);

#endif
