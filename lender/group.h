/* SPDX-License-Identifier: GPL-2.0 */
/*
 * struct lend_group: the functions of one IOMMU group, which are leased together.  This file holds
 * the data of a group only, and the order of all locks of the lender.  Where groups are found is
 * registry.h; what becomes of their lease is members.h, lease.h and recover.h.
 *
 * Locks, in the order in which they are taken:
 *
 *   lend_prepare_lock		(prepare.c) a device is being bound, to be offered later.
 *   device lock of a function	held by the driver core around probe, remove and error handlers.
 *				Nobody who holds a lock below may wait for it: lend_reset_fn() only
 *				tries to get it, and gives up after a while.
 *   lend_offer_lock		(offer.c) the announcer reads a function's state.
 *   lend_group.reset_lock	(here) resets of a group, which take seconds, and words of VPD.  A
 *				fence never takes it.
 *   lend_group.lock		(here) lease, domain, BARs and interrupts of a group.  Held for as
 *				long as IOMMU work takes, never over a reset or a message.
 *   lend_registry_lock		(registry.c) which groups and functions there are.  Nobody waits
 *				with it: whoever walks over groups has references instead.
 *   lend_set_lock		(set.c) which groups belong together, and who has them: each lease
 *				changes under it, too.  Because of it nobody needs the locks of two
 *				groups to know that, and who only reads a lease needs no group lock.
 *   lend_bars_closed_lock	(bars.c) offsets in quarantine.
 *   lend_p2p_lock		(p2p_peers.c) who reaches whose BARs.  Because of it nobody needs
 *				the locks of two groups for peer-to-peer.
 *   lend_listeners_lock	(outbox.c) what still has to be told to peers; a spinlock.
 *   lend_irqs.lock		(fn.h, taken in irq.c) INTx masked or not; taken in hard interrupt.
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

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "lender/fn.h"
#include "lender/lease_sm.h"

struct lend_standby;

/**
 * struct lend_member - a group as a member of a set (set.c, lend_set_lock)
 * @node: in the list of all members
 * @name: of the set; empty: it is in none
 * @hold: who has the group
 * @stale: another member's @hold has changed, and nobody was told what that means for this one
 */
struct lend_member {
	struct list_head node;
	char name[DLEND_NODE_NAME_LEN];
	struct lend_hold hold;
	bool stale;
};

/**
 * struct lend_group - what is leased: the functions of one IOMMU group
 * @node: in the registry's list
 * @ref: references; lend_group_put()
 * @id: number of the IOMMU group
 * @members: functions in the IOMMU group (without bridges), as counted when one of them was bound,
 *	or when one came or went while nobody had the group
 * @number: smallest name (lend_fn.addr.bdf) of the functions that are ready.  No other group of
 *	this lender has it, not even in another PCI domain.  It does not change while somebody has
 *	the group
 * @reset_lock: one reset at a time in a group, and none while a word of VPD is moved
 * @lock: the group lock: guards everything below
 * @lease: state of the lease
 * @fn: functions that are bound, by lend_fn.index
 * @ready: how many of them were reset and can be offered
 * @withdrawn: its lender wants it back: who has it may keep it, and nobody gets it after that
 * @resetting: functions that are being reset together, a bit per lend_fn.index (bus_reset.c); read
 *	without the lock
 * @domain: exists from the grant of a lease to the end of the reset; attached while HELD
 * @link: to the holder; exists as long as @domain
 * @standby: what a node that prepares itself to take the lease over has got so far, or NULL
 * @standby_link: to that node, or NULL; read without the lock
 * @expire: work: nobody has taken over what the holder gave away
 * @parked_until: it does not end before then, in jiffies
 * @unreserve: work: the reservation is over
 * @reserved_until: in jiffies of 64 bits; 0: without end
 * @set: its set, and what the others of that need to know of it
 * @recover: work: lend_recover_work()
 * @say: work: tells user space of a new state
 * @wait: woken when something about the state has changed
 */
struct lend_group {
	struct list_head node;
	struct kref ref;
	int id;
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
	struct lend_standby *standby;
	struct dlend_link *standby_link;
	struct delayed_work expire;
	unsigned long parked_until;
	struct delayed_work unreserve;
	u64 reserved_until;
	struct lend_member set;
	struct delayed_work recover;
	struct work_struct say;
	wait_queue_head_t wait;
};

#endif
