/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Offers inside the borrower: the structure, and the list of all of them.
 *
 * Locks of the borrower, outermost first.  None is held while waiting for a peer.
 *
 *   locks of the claims' users (mdev/vdev.h, native/native.h)
 *   dlend_offers_lock (mutex, offer.c)	  the list of offers, and what struct dlend_offer says
 *   dlend_p2p_lock (mutex, p2p.h)	  members, edges, what peers have sent about their links
 *   an aperture's lock (iommu/)
 *   dlend_links_lock (ntb/link.h)	  taken for the name of a node
 *
 * Words: a *stray* is a lease that the lender says this node has, and that nobody here uses.  To
 * *announce* an offer is to tell all users of offers that its device is free (struct
 * dlend_offer_user: freed()).
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
 * @state: enum dlend_offer_state; GONE while the link is down
 * @holder: node that has the lease, for which the device is reserved, or (KEPT) that has another
 *	device of its set; DLEND_NODE_NONE: none
 * @epoch: number of the lease, or of the last one
 * @comes: the holder lets this node take the device over
 * @vm: UUID of the mediated device that alone may borrow the device when it is free; all 0: any may
 */
struct dlend_offer_now {
	u16 state, holder;
	bool comes;
	u32 epoch;
	u8 vm[DLEND_VM_SIZE];
};

/**
 * struct dlend_offer - a device that a node is willing to lend
 * @dev: the device on the dlend bus; its reference count is the offer's
 * @node: in dlend_offers
 * @addr: address of the device, the same on every node; never changes
 * @link: link to the lender, with a reference; NULL while that link is down
 * @ask: link, with a reference, over which another device was offered under this address while this
 *	offer was claimed: when this offer has gone, that lender is asked for its offers again; or
 *	NULL
 * @info: description of the device, once @complete
 * @snapshot: copy of its configuration space, once @complete
 * @next: a newer description; valid while @collecting, as the next three are
 * @next_snapshot: its snapshot, as far as it has come
 * @next_crc: checksum of that
 * @pieces: which pieces of it have come
 * @now: who has the device
 * @place: where the device sits in its host, once @placed; sent over the link that is up now
 * @placed: @place is valid
 * @set: name of the set that the device belongs to; "": none; sent over the link that is up now
 * @collecting: an OFFER has come, and not all pieces of its snapshot
 * @complete: a whole snapshot with the right checksum was received
 * @registered: @dev was added, and users of offers know of it
 * @announced: the device has been free or claimed since it appeared to the newest user of offers,
 *	so freed() need not be called any more
 * @withdrawn: the lender has taken the offer back: it is unregistered as soon as it is not claimed.
 *	Read without the lock, too
 * @dying: also withdrawn: it is being unregistered, and cannot be claimed any more
 * @doorbell: the administrator wants its interrupts by the lender's doorbell. No lock
 * @claim: of the user that has claimed it, or NULL
 * @work: registers, announces and unregisters the offer (all of that sleeps); on the ordered
 *	workqueue of all offers
 * @uevent_work: sends a uevent about a new state; on the same workqueue
 * @wq: ordered workqueue of this offer: requests to the lender about this device, and returns of
 *	strays
 * @return_wq: ordered workqueue of this offer: returns of leases that were used. Work on @wq may
 *	wait for user space, and the lender must not wait for that
 * @leases: number of leases that the lender has granted and that are not returned yet; atomic
 * @strays: how many of these are strays. They arise because the lender reports a lease for each
 *	function of a group; atomic
 * @memory: memory of dlend_offer_zalloc(), freed with the offer
 *
 * dlend_offers_lock guards all but @dev, @addr, @work, @uevent_work, @wq and @return_wq, which stay
 * as they are, and what says otherwise.
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
	struct workqueue_struct *wq, *return_wq;
	atomic_t leases, strays;
	struct list_head memory;
};

#define to_dlend_offer(d) container_of(d, struct dlend_offer, dev)

/* The dlend bus, with the attributes of offers (docs/ABI/sysfs-bus-dlend). */
extern const struct bus_type dlend_bus_type;

extern struct mutex dlend_offers_lock;

extern struct list_head dlend_offers;	/* under dlend_offers_lock */

/**
 * dlend_offer_find - find the offer of a device
 * @addr: (in) device
 *
 * Context: dlend_offers_lock. Return: an offer that is not dying, without a reference: it stays as
 * long as the lock is held; or NULL.
 */
struct dlend_offer *dlend_offer_find(const struct dlend_addr *addr);

/**
 * dlend_offer_find_of - find the offer that a message is about
 * @link: (in) link that the message came over
 * @addr: (in) device
 *
 * Two links may lead to nodes with the same id: one of the nodes lies, or its administrator has
 * made a mistake. The node that was first keeps the offer for as long as its link is up. The caller
 * drops messages of the other node about this device; this function logs them. Context:
 * dlend_offers_lock. Return: as dlend_offer_find(); ERR_PTR(-EPERM) the offer came over another
 * link.
 */
struct dlend_offer *dlend_offer_find_of(struct dlend_link *link, const struct dlend_addr *addr);

/**
 * dlend_offer_set_link - set the link to an offer's lender
 * @offer: (in, out) offer
 * @link: (in) link; a reference is taken; NULL: the link is down, and the reference is dropped
 *
 * Context: dlend_offers_lock.
 */
void dlend_offer_set_link(struct dlend_offer *offer, struct dlend_link *link);

/**
 * dlend_offer_p2p_domain - peer-to-peer domain that a device is in, in its lender
 * @addr: (in) device
 *
 * Context: dlend_offers_lock. Return: number; 0: none, or not known.
 */
u16 dlend_offer_p2p_domain(const struct dlend_addr *addr);

/**
 * dlend_offer_link - get the link to an offer's lender
 * @offer: (in) offer
 *
 * Context: process; takes dlend_offers_lock. Return: link, with a reference; NULL: it is down.
 */
struct dlend_link *dlend_offer_link(struct dlend_offer *offer);

/**
 * dlend_offer_get_claim - get the claim on an offer, to call its ops
 * @offer: (in) offer; NULL or an error pointer: none
 *
 * dlend_offer_release() waits until dlend_offer_put_claim(); until then, the caller may call the
 * claim's ops. Context: dlend_offers_lock, which the caller drops before it calls an op. Return:
 * the claim, or NULL.
 */
struct dlend_claim *dlend_offer_get_claim(struct dlend_offer *offer);

/**
 * dlend_offer_get_claim_of - get the claim on the offer that a message is about
 * @link: (in) as of dlend_offer_find_of()
 * @addr: (in) device
 *
 * Context: process; takes dlend_offers_lock. Return: as dlend_offer_get_claim().
 */
struct dlend_claim *dlend_offer_get_claim_of(struct dlend_link *link,
					     const struct dlend_addr *addr);

/**
 * dlend_offer_put_claim - undo dlend_offer_get_claim()
 * @claim: (in) claim, none of whose ops is called any more; NULL: nothing happens
 *
 * Context: any.
 */
void dlend_offer_put_claim(struct dlend_claim *claim);

/**
 * dlend_offer_check_group - may a claim's user borrow the offer, given who has the other functions
 * of its IOMMU group on this node?
 * @claim: (in) claim
 * @why: (out) DLEND_REASON_LEN bytes: the reason, written for -EBUSY only
 *
 * Context: process; takes dlend_offers_lock. Return: as dlend_group_admits() for all other
 * functions of the group.
 */
int dlend_offer_check_group(const struct dlend_claim *claim, char *why);

/**
 * dlend_offer_claimable - does the state of an offer allow that this node claims it?
 * @offer: (in) offer
 *
 * It does while the device is free, is being reset after a lease (then a borrow has to wait:
 * -EAGAIN), or may be taken over. Not checked: the link, and whether the offer is claimed already.
 * Context: dlend_offers_lock; does not sleep.
 */
bool dlend_offer_claimable(const struct dlend_offer *offer);

/**
 * dlend_offer_vm - is the offer reserved for one VM?
 * @offer: (in) offer
 *
 * Context: dlend_offers_lock. Return: true if @offer->now.vm names a mediated device.
 */
bool dlend_offer_vm(const struct dlend_offer *offer);

/**
 * dlend_offer_state_shown - the word for an offer's state, as people see it
 * @offer: (in) offer
 *
 * A free device that is reserved for a VM is shown as reserved. Context: dlend_offers_lock. Return:
 * as dlend_offer_state_name().
 */
const char *dlend_offer_state_shown(const struct dlend_offer *offer);

/**
 * dlend_offer_taken - would the lender refuse a borrow for a time that nobody here knows?
 * @offer: (in) offer
 * @claim: (in) claim that would borrow; it need not be on this offer yet
 * @why: (out) DLEND_REASON_LEN bytes: who has the device, or why it cannot be borrowed; written
 *	only if true is returned
 *
 * Context: dlend_offers_lock. Return: false also if the device is being reset.
 */
bool dlend_offer_taken(const struct dlend_offer *offer, const struct dlend_claim *claim, char *why);

/**
 * dlend_offer_alloc - make an offer of which only the address is known, and add it to the list
 * @addr: (in) device
 *
 * If there are too many offers, one whose link is down may be removed for it. Context:
 * dlend_offers_lock; may sleep. Return: offer, as of dlend_offer_find(); ERR_PTR(-ENOSPC): there
 * are too many; ERR_PTR(-ENOMEM).
 */
struct dlend_offer *dlend_offer_alloc(const struct dlend_addr *addr);

/**
 * dlend_offer_update - have a worker register or announce an offer, if that is to be done
 * @offer: (in) offer; it is registered once it is complete, and announced once it is free
 *
 * Context: dlend_offers_lock; does not wait.
 */
void dlend_offer_update(struct dlend_offer *offer);

/**
 * dlend_offer_note - set who has a device, and have a worker send a uevent if that has changed
 * @offer: (in, out) offer
 * @now: (in) who has the device, as the lender says
 *
 * Context: dlend_offers_lock; does not wait.
 */
void dlend_offer_note(struct dlend_offer *offer, const struct dlend_offer_now *now);

/**
 * dlend_offer_note_gone - note that an offer's lender has withdrawn it, or that its link is down
 * @offer: (in, out) offer
 *
 * Context: as dlend_offer_note().
 */
void dlend_offer_note_gone(struct dlend_offer *offer);

/**
 * dlend_offer_subscribe - have the peer send all its offers (DLEND_MSG_SUBSCRIBE)
 * @link: (in) link to the peer
 *
 * Context: process, may sleep. Return: as dlend_link_post_in().
 */
int dlend_offer_subscribe(struct dlend_link *link);

/**
 * dlend_offer_kill - mark an offer as dying, and have a worker unregister and free it
 * @offer: (in, out) offer. The caller guarantees that it is not claimed
 *
 * It is not found any more (dlend_offer_find()). Context: dlend_offers_lock; does not wait.
 */
void dlend_offer_kill(struct dlend_offer *offer);

/* The borrower's part of every link (events.c): it handles the messages of lenders. */
extern struct dlend_link_user dlend_event_user;

/**
 * dlend_lease_return_stray - return a lease that nobody uses here
 * @offer: (in, out) offer; nothing happens if its state does not say that this node has the lease,
 *	or if too many leases of it are being returned. The caller guarantees that no claim has or
 *	asks for a lease of this offer
 *
 * For example a lease whose grant came after its request had timed out. A worker checks once more
 * that it is not in use, and asks the lender. Context: dlend_offers_lock; does not wait.
 */
void dlend_lease_return_stray(struct dlend_offer *offer);

/**
 * dlend_lease_block_borrows - have dlend_lease_borrow() fail while this host is being suspended
 * @on: (in) true: from now on, it fails with -EAGAIN; false: no more. A borrow that has begun
 *	before goes on: its claim's borrowing is set
 *
 * Context: any.
 */
void dlend_lease_block_borrows(bool on);

/** dlend_offer_life_init - make the workqueue of offers. Context: module init. Return: 0, error */
int dlend_offer_life_init(void);

/**
 * dlend_offer_life_exit - unregister and free all offers, and the workqueue
 *
 * Waits for leases that are being returned. The caller guarantees that no link calls the borrower
 * any more. Context: module exit; may sleep.
 */
void dlend_offer_life_exit(void);

#endif
