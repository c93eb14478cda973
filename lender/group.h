/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that are bound to dlend-lender, their groups, and sets of groups; and the order of all
 * locks of the lender.
 *
 * Locks, in the order in which they are taken:
 *
 *   lend_prepare_lock		(driver.c) a device is being bound, to be offered later.
 *   device lock of a function	held by the driver core around probe, remove and error handlers.
 *				Code that holds a lock below never waits for it: lend_reset_fn()
 *				tries to take it, and gives up after a while.
 *   lend_offer_lock		(notify.c) held while a function's state is read for a message.
 *   lend_group.reset_lock	(here) resets of a group, which take seconds, and words of VPD.  A
 *				fence never takes it.
 *   lend_group.lock		(here) lease, domain, BARs and interrupts of a group.  Held for as
 *				long as IOMMU work takes, never over a reset or a message.
 *   lend_registry_lock		(group.c) which groups and functions there are.  Code that holds it
 *				waits for nothing: a walk over groups holds references instead.
 *   lend_set_lock		(group.c) which groups belong together, and which node has each:
 *				every lease changes under this lock, too.  So no code needs the
 *				locks of two groups, and code that only reads a lease needs no group
 *				lock.
 *   lend_bars_closed_lock	(reach.c) offsets in quarantine.
 *   lend_p2p_lock		(p2p.c) which function reaches which BARs.  So no code needs the
 *				locks of two groups for peer-to-peer.
 *   lend_listeners_lock	(notify.c) what peers have not heard yet; a spinlock.
 *   lend_irqs.lock		(here, taken in irq.c) INTx masked or not; taken in hard interrupt.
 *
 * Code that holds one of these locks never posts a message, never reads a peer's memory and never
 * waits for a peer's answer.
 *
 * Message handlers run in a link's workqueue, those of one device one at a time, and take
 * reset_lock or the group lock.  link_down() takes the lock of each group that was lent over that
 * link, and the locks below.  It never takes reset_lock: no reset delays it.
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
struct lend_windows;

/**
 * struct lend_bar - a BAR of a lent function
 * @size: in bytes; 0: the function has no such BAR
 * @span: bytes that a lease maps into the aperture; 0: the BAR cannot be mapped
 * @flags: DLEND_BAR_F_*
 * @phys: its physical address in this host
 * @pad: the rest of the page, if the BAR is smaller than a page; it is claimed so that no other
 *	device gets it.  NULL: the BAR needs none
 * @hole: first byte of the part that a borrower must not reach (the MSI-X table)
 * @hole_end: first byte behind that part; no hole if it is not above @hole
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
 * @irq: number of the interrupt in this host
 * @fired: how often the handler ran; only the handler writes it
 */
struct lend_vector {
	struct lend_fn *fn;
	u32 index;
	int irq;
	unsigned long fired;
};

/**
 * struct lend_irqs - interrupts of a function while it is lent
 * @source: leads into the borrower's memory, from the begin of a lease to lend_irq_close(); NULL
 *	while the function is not lent
 * @mode: which interrupts are set up
 * @count: number of vectors that are requested
 * @vec: these vectors
 * @lock: guards @masked against the interrupt handler
 * @exclusive: the device cannot mask INTx by itself, so this host masks the line, and no other
 *	device shares the line
 * @masked: INTx is masked until the guest has served it
 * @total: interrupts of vectors that have been freed, for debugfs
 * @direct: the device itself writes them to the borrower: no handler here takes or counts them
 * @owner: of where the device writes them, in the group's IOMMU domain
 */
struct lend_irqs {
	struct dlend_irq_source *source;
	enum dlend_irq_mode mode;
	u32 count;
	struct lend_vector *vec;
	spinlock_t lock;		/* guards masked against the interrupt handler */
	bool exclusive;
	bool masked;
	u64 total;
	bool direct;
	struct dlend_owner owner;
};

/**
 * struct lend_p2p - a function as a target and as a source of peer-to-peer (lend_p2p_lock)
 * @link: to the borrower while others may reach the function's BARs; else NULL
 * @epoch: of that borrower's lease
 * @owner: of what the function reaches, in the domain of its group
 * @maps: struct lend_map of everything that the function reaches
 * @reached_by: struct lend_map of other functions here that reach a BAR of this function
 * @grants: the open struct lend_grant of this function's BARs
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

/* What can be told about a function. */
enum lend_news_kind {
	LEND_NEWS_OFFER,	/* the offer, and where the function sits, and its snapshot */
	LEND_NEWS_STATE,	/* the state of the lease */
	LEND_NEWS_KINDS
};

/* Why a function's BARs are out of reach: see lend_fence_hide(). */
#define LEND_HIDDEN_REQUEST	0x1	/* a reset that its holder asked for runs, or has failed */
#define LEND_HIDDEN_CORE	0x2	/* the PCI core resets it, and holds the device lock */

/**
 * struct lend_fn - a function bound to dlend-lender
 * @node: in the registry's list
 * @ref: references; lend_fn_put()
 * @pdev: the PCI device, referenced
 * @group: its group, referenced, from lend_registry_join() on
 * @index: in @group->fn
 * @addr: name of the function on all nodes
 * @bar: its BARs, and its expansion ROM
 * @nr_msi: MSI vectors that it can have in this host
 * @nr_msix: MSI-X vectors that it can have in this host
 * @has_intx: it has INTx in this host
 * @isolated_msi: interrupt remapping checks its interrupts
 * @filter: which bits of its configuration space a borrower may read and write; does not change as
 *	long as the function is offered
 * @vpd: the word of Vital Product Data between a message of its holder that moves it and the next;
 *	0 when a lease begins (group lock)
 * @snapshot: configuration space after the reset, without addresses of this host
 * @snapshot_crc: of @snapshot
 * @rom: image of its expansion ROM, @rom_size bytes
 * @rom_size: 0: there is no image
 * @saved: PCI state that every reset restores
 * @requested_bars: bit per BAR whose addresses are claimed
 * @ready: was reset and is offered, unless it is @preparing (group lock)
 * @preparing: bound, and not offered before lend_prepare_done() (group lock)
 * @lent: the holder of the group's lease has this function (group lock)
 * @needs_reset: it was lent, had an error, or this host slept, since its last reset that succeeded;
 *	no node gets it before the next one (group lock)
 * @broken: its last reset failed (group lock)
 * @removing: the driver is being unbound: no other thread may wait for the device lock
 * @gone: withdrawn: nothing is read of it any more (lend_offer_lock)
 * @hidden: LEND_HIDDEN_*, why no BAR is in reach; 0: while the function is lent, all are (group
 *	lock)
 * @no_snoop: No Snoop was enabled when the function was bound
 * @shared_reset: it has no reset of its own, but its slot or its bus can be reset
 * @reset_asked: when its holder asked for a reset, if it has not used it since; else 0 (jiffies,
 *	group lock)
 * @fail_reset: debugfs: each reset fails
 * @hold_stop: debugfs: Bus Master Enable does not go off before this does
 * @slow_reset_ms: debugfs: each reset takes so many milliseconds longer
 * @max_vectors: debugfs: no more vectors than this; 0: as many as the host has
 * @errors: number of PCI errors that the PCI core has told of (group lock)
 * @error_until: the PCI core recovers the function from an error until then (jiffies); 0: it does
 *	not (group lock)
 * @clique: DLEND_OFFER_CLIQUE*, as the admin has set it
 * @identity: its serial number, or ""; does not change once the function is offered
 * @unsent: by LEND_NEWS_*, a bit for each listener whose peer has not heard it (notify.c)
 * @refused: a bit for each listener whose link does not let its requests pass, so that it is not
 *	lent over that link (notify.c)
 * @win: BARs in the aperture while the function is lent, else NULL (reach.c, group lock)
 * @memory: owners of the guest memory that is mapped through this function (reach.c): one for the
 *	holder, one for the node that prepares to take the function over
 * @holder_index: index of the holder's in @memory (group lock)
 * @p2p: as a target and a source of peer-to-peer
 * @irq: its interrupts while it is lent
 * @debugfs: its folder
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
	struct lend_windows *win;
	struct dlend_owner memory[2];
	unsigned int holder_index;
	struct lend_p2p p2p;
	struct lend_irqs irq;
	struct dentry *debugfs;
};

/* Can nodes borrow @fn at all?  Context: any. */
static inline bool lend_fn_is_offered(const struct lend_fn *fn)
{
	return fn->ready && !fn->preparing;
}

/**
 * struct lend_standby - what a node has that prepares to take a lease over (lease.c, group lock)
 * @link: to the node, referenced; NULL: no node prepares, and the rest is not valid.  Read without
 *	the lock
 * @domain: not attached
 * @win: offsets of the BARs, not mapped
 * @source: of its interrupts
 */
struct lend_standby {
	struct dlend_link *link;
	struct dlend_domain *domain;
	struct lend_windows *win;
	struct dlend_irq_source *source;
};

/**
 * struct lend_member - a group as a member of a set (lend_set_lock)
 * @node: in the list of all members
 * @name: of the set; empty: it is in none
 * @hold: which node has the group
 * @stale: another member's @hold has changed, and nodes were not told yet what that means for this
 *	one
 */
struct lend_member {
	struct list_head node;
	char name[DLEND_NODE_NAME_LEN];
	struct lend_hold hold;
	bool stale;
};

/**
 * struct lend_group - the functions of one IOMMU group, which are leased together
 * @node: in the registry's list
 * @ref: references; lend_group_put()
 * @iommu: the IOMMU group, referenced
 * @members: functions in the IOMMU group (without bridges), as counted when one of them was bound,
 *	or when one came or went while no node had the group
 * @number: smallest name (lend_fn.addr.bdf) of the functions that are ready.  No other group of
 *	this lender has it, not even in another PCI domain.  It does not change while a node has the
 *	group
 * @reset_lock: one reset at a time in a group, and none while a word of VPD is moved
 * @lock: the group lock: guards everything below
 * @lease: state of the lease
 * @fn: functions that are bound, by lend_fn.index
 * @ready: how many of them were reset and can be offered
 * @withdrawn: its lender wants it back: a node that has it may keep it, and no node gets it after
 *	that
 * @resetting: functions that are being reset together, a bit per lend_fn.index (reset.c); read
 *	without the lock
 * @domain: exists from the grant of a lease to the end of the reset; attached while HELD
 * @link: to the holder; exists as long as @domain
 * @standby: what the node has so far that prepares to take the lease over
 * @expire: work: no node has taken over the lease that the holder gave away
 * @parked_until: the device is parked until then, in jiffies
 * @unreserve: work: the reservation is over
 * @reserved_until: in jiffies of 64 bits; 0: without end
 * @set: its set, and what the other members need to know of this one
 * @recover: work: resets the functions that were lent, and offers the group again
 * @uevent: work: tells user space of a new state
 * @wait: woken when something about the state has changed
 */
struct lend_group {
	struct list_head node;
	struct kref ref;
	struct iommu_group *iommu;
	unsigned int members;
	u16 number;
	struct mutex reset_lock;	/* resets, and words of VPD */
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
 * struct lend_walk - a walk over functions of a group (group lock)
 * @group: the group
 * @left: those that are left, a bit per lend_fn.index.  Of a group that is not locked, those only
 *	that stay in it
 * @fn: the one that lend_walk_next() has found
 */
struct lend_walk {
	const struct lend_group *group;
	u64 left;
	struct lend_fn *fn;
};

/** lend_walk_next - find the next function that is bound, @w->fn. Return: there is one. */
static inline bool lend_walk_next(struct lend_walk *w)
{
	for (w->fn = NULL; w->left && !w->fn; w->left &= w->left - 1)
		w->fn = w->group->fn[__ffs64(w->left)];
	return w->fn;
}

/**
 * lend_set_join - put a group into a set
 * @group: (in, out) group; a node that has it keeps it
 * @name: (in) name of the set, as of dlend_name_read(); "": none
 *
 * Context: process, group lock; takes lend_set_lock.
 * Return: what nodes are told of the group, and of the others of both sets
 * (lend_set_take_stale()), has changed.
 */
bool lend_set_join(struct lend_group *group, const char *name);

/**
 * lend_set_name - the set that a group is in
 * @group: (in) group
 * @name: (out) DLEND_NODE_NAME_LEN bytes; "": none
 *
 * Context: process; takes lend_set_lock.
 */
void lend_set_name(const struct lend_group *group, char *name);

/**
 * lend_set_step - give the lease of a group an event, with regard to its set
 * @group: (in, out) group
 * @ev: (in) event, without lend_event.keeper
 * @todo: (out) as of lend_lease_step()
 * @others: (out) what nodes are told of other members has changed (lend_set_take_stale())
 *
 * No other member of the set changes hands during the call: so no two nodes get one each.
 *
 * Context: process, group lock; takes lend_set_lock.
 * Return: as lend_lease_step().
 */
int lend_set_step(struct lend_group *group, const struct lend_event *ev, u32 *todo, bool *others);

/**
 * lend_set_reserve - lend_lease_reserve() for a group
 * @group: (in, out) group
 * @whom: (in) as there
 *
 * Context: process, group lock; takes lend_set_lock. Return: as there.
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
 * lend_set_state_for - what a node is told of a group, with regard to its set
 * @group: (in) group
 * @lease: (in) its lease, or a copy of it
 * @whom: (in) that node, and the VM that it asks for; NULL: this host's administrator
 * @holder: (out) node that has the group, or that alone may have it; 0: none, or only a VM may
 *
 * Context: process; takes lend_set_lock.
 */
enum dlend_offer_state lend_set_state_for(const struct lend_group *group,
					  const struct lend_lease *lease,
					  const struct lend_for *whom, u16 *holder);

/**
 * lend_set_take_stale - do nodes have to be told of a group because of other members of its set?
 * @group: (in, out) group; the next call counts only later changes
 *
 * Context: process; takes lend_set_lock.
 */
bool lend_set_take_stale(struct lend_group *group);

/* For all work of the lender; exists from module init to module exit. */
extern struct workqueue_struct *lend_wq;

/**
 * lend_registry_join - a function is being bound: others can find it from now on
 * @fn: (in, out) function; gets its group
 * @iommu: (in) its IOMMU group
 * @members: (in) functions in that IOMMU group, for the first function of it; the group counts
 *	again when a function is ready
 * @init: (in) prepares the works of a group that is new
 *
 * Context: process; takes the group lock and the registry lock.
 * Return: 0; -EEXIST another function has the name @fn->addr; -ENOSPC the group has LEND_GROUP_MAX
 * functions already; -ENOMEM.
 */
int lend_registry_join(struct lend_fn *fn, struct iommu_group *iommu, unsigned int members,
		       void (*init)(struct lend_group *group));

/**
 * lend_registry_forget - a function is being unbound: it is not found any more
 * @fn: (in, out) function, from lend_registry_join(); keeps its reference to the group
 *
 * Context: process, group lock; takes the registry lock.
 * Return: true if @fn was the last function of its group; then the caller has to lend_group_put()
 * the group, after its works have run for the last time.
 */
bool lend_registry_forget(struct lend_fn *fn);

/**
 * lend_registry_each_group - call a function for every group
 * @visit: (in) called with no lock held; may take the group lock.  The group's last function may
 *	have left by then
 * @arg: (in) passed on to @visit
 *
 * Context: process; takes the registry lock.
 */
void lend_registry_each_group(void (*visit)(struct lend_group *group, void *arg), void *arg);

/**
 * lend_fn_find - find a function by its name
 * @addr: (in) name
 *
 * Context: process; takes the registry lock.
 * Return: the function, for lend_fn_put(); NULL: no such function is bound here.
 */
struct lend_fn *lend_fn_find(const struct dlend_addr *addr);

/**
 * lend_fn_all - all functions that are bound here
 * @count: (out) how many there are
 *
 * Context: process; takes the registry lock.
 * Return: array for lend_fns_put(); NULL: there is none.
 */
struct lend_fn **lend_fn_all(unsigned int *count);

/** lend_fns_put - undo lend_fn_all(). Context: process. */
void lend_fns_put(struct lend_fn **all, unsigned int count);

/**
 * lend_fn_put - give up a reference to a function
 * @fn: (in) function; freed with its last reference
 *
 * Context: process.
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
