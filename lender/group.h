/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that are bound to dlend-lender, their groups, and sets of groups; and the order of all
 * locks of the lender.
 *
 * A group here is struct lend_group: the bound functions of one IOMMU group.
 *
 * Locks, in the order in which they are taken:
 *
 *   lend_prepare_lock		(driver.c) held while the attribute lend_prepare binds a device.
 *   device lock of a function	held by the driver core around probe, remove and error handlers.
 *				Code that holds a lock below never waits without a limit for a
 *				device lock: lend_reset_fn() tries to take it, and gives up after
 *				LEND_RESET_PATIENCE_MS.
 *   lend_offer_lock		(notify.c) held while a function's state is read for a message.
 *   lend_requesters_lock	(notify.c) held from the search for bound functions until a link has
 *				their requester IDs.  Taken with no other lock of this list held;
 *				inside it only lend_registry_lock and locks of ntb/ are taken, so it
 *				may wait for a link's bring-up.
 *   lend_group.reset_lock	(here) held over a reset of functions of a group, which takes
 *				seconds, and over a read or write of a word of VPD.  A fence never
 *				takes it.
 *   lend_group.lock		(here) lease, domain, BARs and interrupts of a group.  Held for as
 *				long as IOMMU work takes, never over a reset or a message.
 *   lend_registry_lock		(group.c) which groups and functions there are.  Code that holds it
 *				waits for nothing: a walk over groups holds references instead.
 *   lend_set_lock		(group.c) which groups are in which set.  A lease changes only under
 *				both its group lock and this lock.  So no code needs the locks of
 *				two groups, and code that only reads a lease needs no group lock.
 *   lend_bars_closed_lock	(reach.c) offsets in quarantine.
 *   lend_p2p_lock		(p2p.c) which function reaches which BARs.  So no code needs the
 *				locks of two groups for peer-to-peer.
 *   lend_listeners_lock	(notify.c) over which links messages are posted, and which messages
 *				were not posted yet; a spinlock.
 *   lend_irqs.lock		(here, taken in irq.c) whether INTx is masked; a spinlock, also
 *				taken by interrupt handlers.
 *
 * lend_bars_closed_lock, lend_p2p_lock and lend_listeners_lock are taken inside the group lock or
 * without it; of these three only lend_listeners_lock is taken inside another one (lend_p2p_lock).
 * Locks of domains and apertures (iommu/) are taken inside the group lock, lend_bars_closed_lock
 * and lend_p2p_lock.
 *
 * Code that holds one of these locks never posts a message, never reads a peer's memory and never
 * waits for a peer's answer (but see lend_requesters_lock).
 *
 * Message handlers run in a link's workqueue, and take reset_lock or the group lock.  Those of one
 * link about one device run one at a time; those of different links run in parallel.  link_down()
 * takes the lock of each group that was lent over that link, and the locks below.  It never takes
 * reset_lock, so no reset delays it.
 */
#ifndef DLEND_LENDER_GROUP_H
#define DLEND_LENDER_GROUP_H

#include <linux/bitops.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <dlend/aperture.h>
#include <dlend/link.h>
#include <dlend/types.h>

#include "lender/cfgfilter.h"
#include "lender/lease_sm.h"

struct dentry;
struct iommu_group;
struct lend_group;
struct lend_bar_slots;

/**
 * struct lend_bar - a BAR of a lent function
 * @size: in bytes; 0: the function has no such BAR
 * @span: bytes that are mapped for a lease in the aperture: @size; or a page, if the BAR is smaller
 *	and nothing else is in its page; 0: the BAR cannot be mapped (I/O ports, the ROM, no
 *	address)
 * @flags: DLEND_BAR_F_*
 * @phys: its physical address in this host; 0 for I/O ports and the ROM
 * @pad: if the BAR is smaller than a page: a resource for the rest of the page, inserted so that
 *	the kernel gives those addresses to no other device.  NULL: none.  lend_bind_release() frees
 *	it
 * @hole: offset in bytes of the pages that no lease maps, as the MSI-X table is in them
 * @hole_end: offset behind the last of these pages; there is no hole if it is not above @hole
 *
 * Constant from lend_bind_interrupts() on; only the ROM's @size may become 0 in lend_bind_save().
 */
struct lend_bar {
	u64 size;
	u64 span;
	u32 flags;
	phys_addr_t phys;
	struct resource *pad;
	u64 hole, hole_end;
};

/**
 * struct lend_vector - an interrupt vector that has a handler
 * @fn: function whose vector it is
 * @index: number of the vector in the function
 * @irq: Linux interrupt number
 * @fired: how often the handler ran.  Only the handler writes it; others use READ_ONCE()
 */
struct lend_vector {
	struct lend_fn *fn;
	u32 index;
	int irq;
	unsigned long fired;
};

/**
 * struct lend_irqs - interrupts of a function while it is lent (group lock, if nothing else is
 * said)
 * @source: handle for dlend_irq_fire(), which counts interrupts in the borrower's memory; from the
 *	beginning of a lease to lend_irq_close(); NULL while the function is not lent.  Handlers use
 *	it without a lock: they are freed first
 * @mode: which kind of interrupts is set up
 * @count: number of vectors in @vec
 * @vec: vectors, all allocated by this host; with @direct they have no handlers
 * @lock: spinlock, guards @masked and the mask bit or line that it stands for; taken by the
 *	interrupt handler
 * @exclusive: the device cannot mask INTx, so this host masks the line at its interrupt controller,
 *	and the line must not be shared
 * @masked: INTx is masked until the guest has served it (lend_irq_unmask())
 * @total: interrupts of vectors that have been freed since the function was bound
 * @direct: the device itself writes its MSIs to the borrower: no handler here takes or counts them
 * @owner: range owner of the IOVAs to which the device writes them, in the group's IOMMU domain
 */
struct lend_irqs {
	struct dlend_irq_source *source;
	enum dlend_irq_mode mode;
	u32 count;
	struct lend_vector *vec;
	spinlock_t lock;		/* masked, INTx; taken by the interrupt handler */
	bool exclusive;
	bool masked;
	u64 total;
	bool direct;
	struct dlend_owner owner;
};

/**
 * struct lend_p2p - a function as a target and as a source of peer-to-peer (lend_p2p_lock)
 * @link: to the borrower while other devices may reach the function's BARs; otherwise NULL.  Not
 *	referenced
 * @epoch: of that borrower's lease
 * @owner: range owner of the BARs that the function reaches, in the domain of its group
 * @maps: list of struct lend_map: the BARs that this function reaches
 * @reached_by: list of struct lend_map: functions in this host that reach a BAR of this function
 * @grants: list of struct lend_grant: BARs of this function that devices of other lenders reach
 * @lost: number of its maps that ended without a request of its borrower, for debugfs
 */
struct lend_p2p {
	struct dlend_link *link;
	u32 epoch;
	struct dlend_owner owner;
	struct list_head maps;
	struct list_head reached_by;
	struct list_head grants;
	u64 lost;
};

/* Kinds of messages about a function that are posted when something has changed (notify.c). */
enum lend_news_kind {
	LEND_NEWS_OFFER,	/* OFFER with the state, PLACE, SET, and SNAPSHOT messages */
	LEND_NEWS_STATE,	/* STATE: the state of the lease */
	LEND_NEWS_KINDS
};

/* Why a function's BARs are out of reach: see lend_fence_hide(). */
#define LEND_HIDDEN_REQUEST	0x1	/* a reset that its holder asked for runs, or has failed */
#define LEND_HIDDEN_CORE	0x2	/* the PCI core is resetting the function */

/**
 * struct lend_fn - a function bound to dlend-lender
 * @node: in the registry's list (lend_registry_lock)
 * @ref: references; lend_fn_put()
 * @pdev: the PCI device, referenced
 * @group: its group, referenced, from lend_registry_join() on
 * @index: in @group->fn
 * @addr: name of the function on all nodes
 * @bar: its BARs, and its expansion ROM
 * @nr_msi: MSI vectors that this host could give it when it was bound, a power of two
 * @nr_msix: MSI-X vectors that this host could give it when it was bound
 * @has_intx: it has an INTx line that this host can use
 * @isolated_msi: interrupt remapping checks which interrupts it sends
 * @filter: which registers of its configuration space a borrower may write, and which bits it reads
 * @vpd: the last word that its holder has written to the data register of Vital Product Data, or
 *	that was read for the holder; 0 when a lease begins (group lock)
 * @snapshot: configuration space after the first reset, without addresses of this host
 * @snapshot_crc: CRC-32 of @snapshot
 * @rom: image of its expansion ROM, @rom_size bytes, or NULL; freed with the function
 * @rom_size: in bytes; 0: there is no image, or none yet (release and acquire, no lock)
 * @saved: PCI state after the first reset, which every later reset restores; NULL before
 *	lend_bind_save(); freed with the function
 * @requested_bars: bit per memory BAR that was requested (pci_request_selected_regions())
 * @ready: it was reset and can be offered, unless it is @preparing (group lock)
 * @preparing: it is bound, but not offered before lend_prepare_done() (group lock)
 * @lent: the holder of the group's lease has this function (group lock)
 * @needs_reset: it was lent, had an error, or this host slept, since its last reset that succeeded;
 *	no node gets it before the next one (group lock)
 * @broken: its last reset failed (group lock)
 * @removing: the driver is being unbound: no other thread may wait for the device lock (set once,
 *	READ_ONCE())
 * @gone: it was withdrawn: no message about it is made any more (lend_offer_lock)
 * @hidden: LEND_HIDDEN_*, why its BARs are out of reach; 0: they are mapped while the function is
 *	lent (group lock)
 * @no_snoop: No Snoop was enabled when the function was bound, and is enabled again when unbound
 * @shared_reset: it has no reset of its own, but is reset with all others of its slot or bus
 * @reset_asked: when its holder asked for a reset, if the holder has turned nothing on since; else
 *	0 (jiffies, group lock)
 * @fail_reset: fault for tests, from debugfs: each reset fails
 * @hold_stop: fault for tests: BUS_MASTER off waits while this is set
 * @slow_reset_ms: fault for tests: each reset takes so many milliseconds longer
 * @max_vectors: fault for tests: at most so many vectors; 0: as many as this host gives
 * @errors: number of PCI errors for which lend_lease_error() was called (group lock)
 * @error_until: the PCI core recovers the function from an error, until this time at most
 *	(jiffies); 0: it does not (written under the group lock, READ_ONCE())
 * @clique: DLEND_OFFER_CLIQUE*, as the admin has set it (READ_ONCE(), WRITE_ONCE())
 * @identity: its serial number, or ""; does not change once the function is offered (group lock)
 * @unsent: for each LEND_NEWS_*, a bit for each listener that still has to post it (notify.c;
 *	atomic bit operations)
 * @refused: a bit for each listener whose link refuses the function's requester IDs, so that it is
 *	not offered over that link (notify.c; atomic bit operations)
 * @slots: offsets of its BARs in the aperture while it is lent, else NULL (reach.c, group lock)
 * @memory: two range owners of the guest memory that is mapped through this function (reach.c): of
 *	the holder and of the standby (group lock)
 * @holder_index: which one in @memory is the holder's; the other is the standby's (group lock)
 * @p2p: the function as a target and as a source of peer-to-peer (lend_p2p_lock)
 * @irq: its interrupts while it is lent (group lock)
 * @debugfs: its directory in debugfs
 *
 * Members for which no lock is named do not change once the function is ready; only the faults for
 * tests may be written at any time.
 */
struct lend_fn {
	struct list_head node;
	struct kref ref;
	struct pci_dev *pdev;
	struct lend_group *group;
	unsigned int index;
	struct dlend_addr addr;
	struct lend_bar bar[DLEND_NUM_REGIONS];
	u16 nr_msi, nr_msix;
	bool has_intx, isolated_msi;
	struct lend_cfgfilter filter;
	__le32 vpd;
	u8 snapshot[DLEND_CFG_SIZE];
	u32 snapshot_crc;
	u8 *rom;
	u32 rom_size;
	struct pci_saved_state *saved;
	int requested_bars;
	bool ready, preparing, lent, needs_reset, broken, removing, gone;
	unsigned int hidden;
	bool no_snoop;
	bool shared_reset;
	unsigned long reset_asked;
	bool fail_reset, hold_stop;
	u32 slow_reset_ms;
	u32 max_vectors;
	u32 errors;
	unsigned long error_until;
	u16 clique;
	char identity[DLEND_NODE_NAME_LEN];
	unsigned long unsent[LEND_NEWS_KINDS];
	unsigned long refused;
	struct lend_bar_slots *slots;
	struct dlend_owner memory[2];
	unsigned int holder_index;
	struct lend_p2p p2p;
	struct lend_irqs irq;
	struct dentry *debugfs;
};

/*
 * Is @fn offered: was it reset, and is its preparation over?  Context: any; group lock to rely on
 * it.
 */
static inline bool lend_fn_is_offered(const struct lend_fn *fn)
{
	return fn->ready && !fn->preparing;
}

/**
 * struct lend_standby - the standby's part of a function before it takes over (lease.c, group lock)
 * @link: to the standby's node, referenced; NULL: there is no standby, and the rest is not valid.
 *	Also read without the lock (READ_ONCE())
 * @domain: with the standby's memory; not attached; or ERR_PTR() if it could not be made
 * @slots: offsets of the BARs, where nothing is mapped yet; or ERR_PTR(); NULL: there is no @domain
 * @source: interrupt source towards the standby
 */
struct lend_standby {
	struct dlend_link *link;
	struct dlend_domain *domain;
	struct lend_bar_slots *slots;
	struct dlend_irq_source *source;
};

/**
 * struct lend_member - a group as a member of a set (lend_set_lock)
 * @node: in the list of all members
 * @name: of the set; empty: the group is in none
 * @hold: which node has the group
 * @stale: the @hold of another member has changed, or a member came or went: the state of this
 *	group has to be announced, as nodes that could borrow it may be others now
 */
struct lend_member {
	struct list_head node;
	char name[DLEND_NODE_NAME_LEN];
	struct lend_hold hold;
	bool stale;
};

/**
 * struct lend_group - the functions of one IOMMU group, which are leased together
 * @node: in the registry's list (lend_registry_lock)
 * @ref: references; lend_group_put()
 * @iommu: the IOMMU group, referenced
 * @members: functions in the IOMMU group (without bridges), as counted when one of them was bound,
 *	or when one came or went while no node had the group (written under the group lock; read
 *	without it for offers, which are posted again after a change)
 * @number: smallest name (lend_fn.addr.bdf) of the functions that are ready; offers name the group
 *	by it.  No two functions of this lender have one name, even in different PCI domains.  It is
 *	written and read as @members is
 * @reset_lock: one reset at a time in a group, and none while a word of VPD is read or written
 * @lock: the group lock: guards everything below, if nothing else is said
 * @lease: state of the lease; changes under both the group lock and lend_set_lock
 * @fn: functions that are bound, by lend_fn.index; changes under both the group lock and
 *	lend_registry_lock
 * @ready: how many of them have lend_fn.ready
 * @withdrawn: its lender wants it back: a node that has it may keep it, and no node gets it
 *	afterwards
 * @resetting: functions that are being reset together, a bit per lend_fn.index (reset.c); also read
 *	without the lock (READ_ONCE())
 * @domain: IOMMU domain of the lease, from the grant to the end of the reset after it, else NULL;
 *	attached while the lease is HELD, then blocked
 * @link: to the holder, referenced; exists as long as @domain, else NULL.  Also read without the
 *	lock (READ_ONCE())
 * @standby: the standby's part, before it takes over
 * @expire: work: takes a parked device back when no node has taken it over in time
 * @parked_until: the device is parked until this time, in jiffies
 * @unreserve: work: ends the reservation when its time is over
 * @reserved_until: end of the reservation, in jiffies of 64 bits; 0: it has no end
 * @set: the group as a member of its set (lend_set_lock)
 * @recover: work: resets the functions that need it, and offers the group again
 * @uevent: work: sends a uevent with the new state to user space
 * @wait: woken when the lease, a reset, or the link of the lease has changed (no lock)
 */
struct lend_group {
	struct list_head node;
	struct kref ref;
	struct iommu_group *iommu;
	unsigned int members;
	u16 number;
	struct mutex reset_lock;	/* one reset, or word of VPD, at a time */
	struct mutex lock;		/* the group lock: all below */
	struct lend_lease lease;
	struct lend_fn *fn[LEND_GROUP_MAX];
	unsigned int ready;
	bool withdrawn;
	u64 resetting;
	struct dlend_domain *domain;
	struct dlend_link *link;
	struct lend_standby standby;
	struct delayed_work expire;
	unsigned long parked_until;
	struct delayed_work unreserve;
	u64 reserved_until;
	struct lend_member set;
	struct delayed_work recover;
	struct work_struct uevent;
	wait_queue_head_t wait;
};

/* All functions of a group: see struct lend_walk. */
#define LEND_ALL	(~0ULL)

/**
 * struct lend_walk - a walk over functions of a group
 * @group: the group
 * @left: functions that are still to be visited, a bit per lend_fn.index; LEND_ALL needs the group
 *	lock.  Without the lock, only functions may be named that cannot leave the group meanwhile
 * @fn: the function that lend_walk_next() has found; no reference is taken
 */
struct lend_walk {
	const struct lend_group *group;
	u64 left;
	struct lend_fn *fn;
};

/** lend_walk_next - let @w->fn be the next bound function of the walk. Return: there is one. */
static inline bool lend_walk_next(struct lend_walk *w)
{
	for (w->fn = NULL; w->left && !w->fn; w->left &= w->left - 1)
		w->fn = w->group->fn[__ffs64(w->left)];
	return w->fn;
}

/**
 * lend_set_join - take a group out of its set, and add it to another one
 * @group: (in, out) group; a node that has it keeps it
 * @name: (in) name of the new set, as of dlend_name_read(); "": none
 *
 * The other members of both sets become stale (lend_set_take_stale()).
 *
 * Context: process, group lock; takes lend_set_lock.
 * Return: true: the set has changed, and the caller has to announce the state of @group; false: the
 * group was in that set already.
 */
bool lend_set_join(struct lend_group *group, const char *name);

/**
 * lend_set_name - copy the name of the set that a group is in
 * @group: (in) group
 * @name: (out) DLEND_NODE_NAME_LEN bytes; "": the group is in no set
 *
 * Context: process; takes lend_set_lock.
 */
void lend_set_name(const struct lend_group *group, char *name);

/**
 * lend_set_step - give the lease of a group an event, with regard to its set
 * @group: (in, out) group
 * @ev: (in) event, without lend_event.keeper
 * @todo: (out) as of lend_lease_step()
 * @others: (out) true: other members have become stale (lend_set_take_stale())
 *
 * This sets lend_event.keeper.  No other member of the set changes hands during the call: so two
 * nodes never get a member each.
 *
 * Context: process, group lock; takes lend_set_lock.
 * Return: as lend_lease_step().
 */
int lend_set_step(struct lend_group *group, const struct lend_event *ev, u32 *todo, bool *others);

/**
 * lend_set_reserve - lend_lease_reserve() for the lease of a group
 * @group: (in, out) group
 * @whom: (in) as for lend_lease_reserve()
 *
 * Context: process, group lock; takes lend_set_lock.
 * Return: as lend_lease_reserve().
 */
bool lend_set_reserve(struct lend_group *group, const struct lend_for *whom);

/**
 * lend_group_lease - copy the lease of a group
 * @group: (in) group
 * @lease: (out) its lease as it is now
 *
 * Context: process; takes lend_set_lock, and does not wait for the group lock.
 */
void lend_group_lease(const struct lend_group *group, struct lend_lease *lease);

/**
 * lend_set_state_for - the state of a group for one node, with regard to the group's set
 * @group: (in) group
 * @lease: (in) its lease, or a copy of it
 * @whom: (in) that node, and the VM that it asks for; NULL: this host's administrator
 * @holder: (out) node that has the group, or that alone may have it; 0: none, or only a VM may
 *
 * Context: process; takes lend_set_lock.  Group lock if @lease is not a copy.
 * Return: as lend_lease_state_for().
 */
enum dlend_offer_state lend_set_state_for(const struct lend_group *group,
					  const struct lend_lease *lease,
					  const struct lend_for *whom, u16 *holder);

/**
 * lend_set_take_stale - read and clear lend_member.stale of a group
 * @group: (in, out) group
 *
 * Context: process; takes lend_set_lock.
 * Return: true: the caller has to announce the state of the group, which may have changed for some
 * nodes because another member of its set has changed hands.
 */
bool lend_set_take_stale(struct lend_group *group);

/* Workqueue for all work of the lender; exists from module init to module exit. */
extern struct workqueue_struct *lend_wq;

/**
 * lend_registry_join - add a new function to the registry, and to its group, which is made if
 * needed
 * @fn: (in, out) function; sets lend_fn.group, with a reference, and lend_fn.index.  The registry
 *	takes no reference: the caller keeps the function until lend_registry_leave()
 * @iommu: (in) its IOMMU group; a new group keeps a reference
 * @members: (in) functions in that IOMMU group, for a new group; they are counted again when a
 *	function becomes ready
 * @init: (in) initialises the works of a new group; called with lend_registry_lock held
 *
 * lend_fn_find() finds the function afterwards.
 *
 * Context: process; takes the group lock and the registry lock.
 * Return: 0; -EEXIST another function has the name @fn->addr; -ENOSPC the group has LEND_GROUP_MAX
 * functions already; -ENOMEM.
 */
int lend_registry_join(struct lend_fn *fn, struct iommu_group *iommu, unsigned int members,
		       void (*init)(struct lend_group *group));

/**
 * lend_registry_leave - undo lend_registry_join(): remove a function from the registry and its
 * group
 * @fn: (in, out) function; keeps its reference to the group
 *
 * Context: process, group lock; takes the registry lock.
 * Return: false; true: @fn was the last function of its group, and the caller has to disable the
 * group's works, and then to lend_group_put() the group, for the registry's reference.
 */
bool lend_registry_leave(struct lend_fn *fn);

/**
 * lend_registry_each_group - call a function for every group
 * @visit: (in) called with no lock held, and with a reference to @group; may take the group lock.
 *	The group's last function may have left before the call
 * @arg: (in) passed on to @visit
 *
 * Context: process, may sleep for memory; takes the registry lock.
 */
void lend_registry_each_group(void (*visit)(struct lend_group *group, void *arg), void *arg);

/**
 * lend_fn_find - find a bound function by its name, and take a reference
 * @addr: (in) name
 *
 * Context: process; takes the registry lock.
 * Return: the function, which the caller gives up with lend_fn_put(); NULL: no such function is
 * bound here.
 */
struct lend_fn *lend_fn_find(const struct dlend_addr *addr);

/**
 * lend_fn_all - list all bound functions, and take a reference to each
 * @count: (out) how many there are
 *
 * Context: process, may sleep for memory; takes the registry lock.
 * Return: array, which the caller gives up with lend_fns_put(); NULL: no function is bound.
 */
struct lend_fn **lend_fn_all(unsigned int *count);

/** lend_fns_put - undo lend_fn_all(); @all may be NULL. Context: process. */
void lend_fns_put(struct lend_fn **all, unsigned int count);

/**
 * lend_fn_put - give up a reference to a function
 * @fn: (in) function; freed with its last reference
 *
 * Context: process, may sleep.
 */
void lend_fn_put(struct lend_fn *fn);

/**
 * lend_group_put - give up a reference to a group
 * @group: (in) group; freed with its last reference
 *
 * Context: any.
 */
void lend_group_put(struct lend_group *group);

#endif
