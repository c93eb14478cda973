/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Offers inside the borrower: the structure, and the list of all of them.
 *
 * Locks of the borrower, outermost first.  None is held while waiting for a peer.
 *
 *   users' own locks (mdev/vdev.h)
 *   dlend_offers_lock (mutex, offer.c)	  the list, and of every offer all that changes after it was
 *					  registered: state, link, claim
 *   dlend_p2p_lock (mutex, p2p.h)	  members, edges, what peers say about their links
 *   an aperture's lock (iommu/)
 *   dlend_links_lock (ntb/link.h)	  for the name of a node
 */
#ifndef DLEND_BORROWER_OFFER_H
#define DLEND_BORROWER_OFFER_H

#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <dlend/borrower.h>

#define DLEND_SNAPSHOT_PIECES	(DLEND_CFG_SIZE / DLEND_SNAPSHOT_PIECE)

/**
 * struct dlend_offer_now - who has a device, and who may have it, as its lender said last
 * @state, @holder, @epoch: the lease; the state is GONE while the link is down
 * @comes: the holder lets this node take the device over
 * @vm: UUID of the mediated device that alone may borrow it when it is free; all 0: any; from the
 *	link that is up now
 */
struct dlend_offer_now {
	u16 state, holder;
	bool comes;
	u32 epoch;
	u8 vm[DLEND_VM_SIZE];
};

/**
 * struct dlend_offer - a device that a node is willing to lend
 * @dev: on the dlend bus; its reference count is the offer's
 * @node: in the list of offers
 * @addr: device, the same on every node
 * @link: to the lender; NULL while that link is down
 * @ask: link, with a reference, over which another device was offered under this address while this
 *	offer was claimed: when this offer has gone, that lender is asked for its offers again; or
 *	NULL
 * @info, @snapshot: the device, once @complete
 * @next, @next_snapshot, @next_crc, @pieces: a newer description, which is being received while
 *	@collecting
 * @now: who has the device
 * @place: where the device sits, once @placed; from the link that is up now
 * @set: name of the set that the device belongs to; empty: none; from the link that is up now
 * @complete: a whole snapshot with the right checksum was received
 * @registered: @dev was added, and users know of it
 * @announced: the device has been free or claimed since @registered, so users are not told any more
 *	that it can be had
 * @withdrawn: the lender took the offer back: it is unregistered as soon as it is not claimed
 * @dying: also withdrawn: it is being unregistered, and cannot be claimed any more
 * @doorbell: the administrator wants its interrupts by the lender's doorbell; no lock
 * @claim: of its user, or NULL
 * @work: registers, announces and unregisters the offer (all of that sleeps)
 * @uevent_work: tells user space of a new state
 * @wq: ordered: everything that is asked of the lender for this device, but for returns of leases
 * @returns: ordered: leases that their user gives back. The user's work on @wq may wait for user
 *	space, and the lender must not wait for that
 * @leases: granted by the lender and not returned yet
 * @strays: of these, those that were never used: the lender tells of a lease for each function of a
 *	group
 * @memory: of dlend_offer_zalloc(), freed with the offer
 */
struct dlend_offer {
	struct device dev;
	struct list_head node;
	struct dlend_addr addr;
	struct dlend_link *link, *ask;
	struct dlend_offer_info info;
	u8 *snapshot;
	struct dlend_offer_info next;
	u8 *next_snapshot;
	u32 next_crc;
	DECLARE_BITMAP(pieces, DLEND_SNAPSHOT_PIECES);
	struct dlend_offer_now now;
	struct dlend_p_place place;
	bool placed;
	char set[DLEND_NODE_NAME_LEN];
	bool collecting, complete, registered, announced, withdrawn, dying;
	bool doorbell;
	struct dlend_claim *claim;
	struct work_struct work;
	struct delayed_work uevent_work;
	struct workqueue_struct *wq, *returns;
	atomic_t leases, strays;
	struct list_head memory;
};

#define to_dlend_offer(d) container_of(d, struct dlend_offer, dev)

/* The bus, with what an admin sees of offers on it (docs/ABI/sysfs-bus-dlend). */
extern const struct bus_type dlend_bus_type;

extern struct mutex dlend_offers_lock;

extern struct list_head dlend_offers;

/**
 * dlend_offer_find - the offer of a device
 * @addr: (in) device
 *
 * Context: dlend_offers_lock. Return: an offer that is not dying, or NULL.
 */
struct dlend_offer *dlend_offer_find(const struct dlend_addr *addr);

/**
 * dlend_offer_find_of - the offer that a message is about
 * @link: (in) where the message came from
 * @addr: (in) device
 *
 * Two links may lead to nodes with the same id: one of the nodes lies, or its admin erred. The node
 * that was first keeps the offer for as long as its link is up. Messages of the other node about
 * this device are dropped, and the log says so. Context: dlend_offers_lock.
 * Return: the offer; NULL there is none; ERR_PTR(-EPERM) it is another link's.
 */
struct dlend_offer *dlend_offer_find_of(struct dlend_link *link, const struct dlend_addr *addr);

/**
 * dlend_offer_set_link - note the link to an offer's lender
 * @offer: (in) offer
 * @link: (in) a reference is taken; NULL: the link is down
 *
 * Context: dlend_offers_lock.
 */
void dlend_offer_set_link(struct dlend_offer *offer, struct dlend_link *link);

/**
 * dlend_offer_p2p_domain - peer-to-peer domain of a device; 0: none, or not known. Context:
 * dlend_offers_lock.
 */
u16 dlend_offer_p2p_domain(const struct dlend_addr *addr);

/** dlend_offer_link - the link to the lender, with a reference, or NULL. Context: process. */
struct dlend_link *dlend_offer_link(struct dlend_offer *offer);

/**
 * dlend_offer_get_claim - the claim on an offer
 * @offer: (in) offer; NULL or an error pointer: none
 *
 * The caller may call the claim's ops until dlend_offer_put_claim(). Context: dlend_offers_lock.
 * Return: the claim, or NULL.
 */
struct dlend_claim *dlend_offer_get_claim(struct dlend_offer *offer);

/**
 * dlend_offer_get_claim_of - the claim on the offer that a message is about
 * @link: (in) as of dlend_offer_find_of()
 * @addr: (in) device
 *
 * Context: process; takes dlend_offers_lock. Return: as dlend_offer_get_claim().
 */
struct dlend_claim *dlend_offer_get_claim_of(struct dlend_link *link,
					     const struct dlend_addr *addr);

/** dlend_offer_put_claim - no more ops of a claim (or NULL) are called. Context: any. */
void dlend_offer_put_claim(struct dlend_claim *claim);

/**
 * dlend_offer_check_group - may a claim's user have the offer, beside users of its IOMMU group?
 * @claim: (in) claim
 * @why: (out) DLEND_REASON_LEN bytes: if it is -EBUSY
 *
 * Context: process; takes dlend_offers_lock. Return: as dlend_group_admits() for all other
 * functions of the group.
 */
int dlend_offer_check_group(const struct dlend_claim *claim, char *why);

/**
 * dlend_offer_claimable - can this node claim the offer?
 * @offer: (in) offer
 *
 * It can also while the device is reset after a lease: then a borrow has to wait (-EAGAIN).
 *
 * Context: dlend_offers_lock; does not sleep.
 */
bool dlend_offer_claimable(const struct dlend_offer *offer);

/**
 * dlend_offer_vm - is the offer reserved for one VM?
 * @offer: (in) offer
 *
 * Context: under dlend_offers_lock.
 */
bool dlend_offer_vm(const struct dlend_offer *offer);

/**
 * dlend_offer_state_shown - the word for an offer's state
 * @offer: (in) offer
 *
 * Context: under dlend_offers_lock.  Return: as dlend_offer_state_name().
 */
const char *dlend_offer_state_shown(const struct dlend_offer *offer);

/**
 * dlend_offer_taken - is a borrow refused now, and is there no telling for how long?
 * @offer: (in) offer
 * @claim: (in) claim, perhaps not on this offer yet
 * @why: (out) DLEND_REASON_LEN bytes: who has it, if so
 *
 * Context: under dlend_offers_lock.
 */
bool dlend_offer_taken(const struct dlend_offer *offer, const struct dlend_claim *claim, char *why);

/**
 * dlend_offer_alloc - add a new offer to the list, of which only the address is known
 * @addr: (in) device
 *
 * Context: dlend_offers_lock; may sleep. Return: offer, or ERR_PTR(-ENOSPC, -ENOMEM).
 */
struct dlend_offer *dlend_offer_alloc(const struct dlend_addr *addr);

/**
 * dlend_offer_update - have a worker show the offer on the bus, or announce it, if that is due
 * @offer: (in) offer
 *
 * Context: dlend_offers_lock; does not wait.
 */
void dlend_offer_update(struct dlend_offer *offer);

/**
 * dlend_offer_note - note what the lender says, and have a worker tell user space
 * @offer: (in) offer
 * @now: (in) who has it
 *
 * Context: dlend_offers_lock; does not wait.
 */
void dlend_offer_note(struct dlend_offer *offer, const struct dlend_offer_now *now);

/**
 * dlend_offer_note_gone - note that an offer's lender has withdrawn it, or its link is down
 * @offer: (in) offer
 *
 * Context: as dlend_offer_note().
 */
void dlend_offer_note_gone(struct dlend_offer *offer);

/**
 * dlend_offer_subscribe - have the lenders at the other end send all their offers
 * @link: link
 *
 * Context: process, may sleep. Return: as dlend_link_post_in().
 */
int dlend_offer_subscribe(struct dlend_link *link);

/**
 * dlend_offer_kill - the offer ends: a worker removes it
 * @offer: (in) offer that is not claimed, unless the module is being unloaded
 *
 * Context: dlend_offers_lock; does not wait.
 */
void dlend_offer_kill(struct dlend_offer *offer);

/* News of lenders (events.c): the borrower's part of every link. */
extern struct dlend_link_user dlend_event_user;

/**
 * dlend_lease_return_stray - give back a lease that is not in use here
 * @offer: (in) offer; if its state does not say that this node holds the lease, nothing happens
 *
 * For example one whose grant came too late for its request. Context: dlend_offers_lock; does not
 * wait.
 */
void dlend_lease_return_stray(struct dlend_offer *offer);

/**
 * dlend_lease_block_borrows - this host goes to sleep, or is awake again
 * @on: (in) true: no lease is asked for until this is called with false
 *
 * Context: any.
 */
void dlend_lease_block_borrows(bool on);

/** dlend_offer_life_init - make the workqueue. Context: module init. Return: 0, -ENOMEM. */
int dlend_offer_life_init(void);

/** dlend_offer_life_exit - remove all offers. Context: module exit. */
void dlend_offer_life_exit(void);

#endif
