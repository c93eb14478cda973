/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer-to-peer between the devices that one user has borrowed: each device shall reach the BARs of
 * the others, and its own, at the addresses where that user has put them.  Where no route allows
 * it, the device works without (dlend_p2p_emit() says why).
 *
 * A user here is a VM (mdev/), or one attached device, which reaches its own BARs only (native/).
 * mdev/ and native/ say here how each device is set up (struct dlend_p2p_dev).  Then a worker of
 * borrower/ has the lenders change their mappings accordingly: it makes and ends edges.
 */
#ifndef DLEND_P2P_H
#define DLEND_P2P_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <dlend/link.h>
#include <dlend/p2p_plan.h>

struct device;
struct dlend_lease;

/*
 * Most devices of one user that do peer-to-peer at the same time.  A device that joins later works
 * without peer-to-peer until one of these has left.
 */
#define DLEND_P2P_DEVS	32

/*
 * Text for people: why two devices have different cliques, although no obstacle between them is
 * known now (dlend_p2p_doubt() of dlend/p2p_plan.h returns DLEND_P2P_SURE).
 */
#define DLEND_P2P_OTHER_CLIQUE \
	"others of that clique are or were out of reach, or an administrator has set it so"

/**
 * struct dlend_p2p_member - a borrowed device that may take part in peer-to-peer
 * @owner: names the device in messages: the mediated device (mdev/), or the device of the claim
 *	(native/). No reference is taken
 * @user: identifies the user, and is only compared: members with the same value are devices of one
 *	user
 * @wq: woken when @settled becomes true
 * @dev: what was published last
 * @settled: for each BAR that the device shall reach by what was published last, a mapping exists,
 *	or the last try to make it has failed; and mappings that it shall not have are gone. Read
 *	without a lock
 * @node: in the list of members
 * @joined: between dlend_p2p_join() and dlend_p2p_leave(). native/ reads it without a lock
 * @ref: session in which the lease @dev.epoch was granted, with a reference on its link; no link:
 *	there is no lease
 * @bar_phys: physical addresses in the window that lead to the device's BARs; 0: none
 *
 * mdev/ and native/ allocate it with zeroes, and before dlend_p2p_join() set @owner, @user, @wq,
 * and of @dev the address, the clique and the sizes of BARs. From then until dlend_p2p_leave()
 * only borrower/ writes it, under dlend_p2p_lock. Only calls for this member change @dev, so their
 * caller reads it without a lock.
 */
struct dlend_p2p_member {
	struct device *owner;
	const void *user;
	wait_queue_head_t *wq;
	struct dlend_p2p_dev dev;
	bool settled;
	struct list_head node;
	bool joined;
	struct dlend_session_ref ref;
	phys_addr_t bar_phys[DLEND_NUM_BARS];
};

/**
 * struct dlend_p2p_user - the devices of one user, and what is known of the links between nodes
 * @fabric: what this node knows of its links and of those of its peers
 * @n: number of devices in @member and in @dev
 * @of: index of the device that this is about, for example the one that joins
 * @member: the devices. No references: valid as long as dlend_p2p_lock is held
 * @dev: at the same index a copy of that member's @dev, for the functions of dlend/p2p_plan.h. For
 *	cliques (@choose of dlend_p2p_join()) also with the peer-to-peer domain
 */
struct dlend_p2p_user {
	struct dlend_p2p_fabric fabric;
	unsigned int n, of;
	struct dlend_p2p_member *member[DLEND_P2P_DEVS];
	struct dlend_p2p_dev dev[DLEND_P2P_DEVS];
};

/**
 * dlend_p2p_join - add a device to those of its user
 * @m: (in, out) member, set as struct dlend_p2p_member says; it stays until dlend_p2p_leave() has
 *	returned
 * @choose: (in) sets @user->dev[@user->of].clique, the clique of the device that joins, which is
 *	then copied to @m->dev.clique; may log something about it. Called once, with all devices
 *	of the user, @m included, before another device can join. dlend_offers_lock and
 *	dlend_p2p_lock are held, so @choose must take no lock that comes before these, and call no
 *	function of this file. NULL: the clique stays as it is
 *
 * If devices of the user have the clique of @m, room in the windows is reserved for peer-to-peer
 * between @m and these devices until one of the two leaves. Nothing is mapped before
 * dlend_p2p_publish().
 *
 * The device has joined in any case. But without memory, or if the user has DLEND_P2P_DEVS devices
 * already, @choose is not called, @m->dev.clique stays as it is, and no room is reserved.
 *
 * Context: process, may sleep, waits for no peer; takes dlend_links_lock, dlend_root_lock and locks
 * of apertures, and then dlend_offers_lock with dlend_p2p_lock inside.
 */
void dlend_p2p_join(struct dlend_p2p_member *m, void (*choose)(struct dlend_p2p_user *user));

/**
 * dlend_p2p_leave - undo dlend_p2p_join(): remove a device from those of its user
 * @m: (in, out) member; if it has not joined, nothing happens. When this returns, the borrower does
 *	not use it any more, and it may be freed or join again
 *
 * The worker has the lenders unmap what the device reaches, and what reaches the device; that may
 * happen after this has returned. If it must be cut off at once: dlend_p2p_close_slots().
 *
 * Context: process, may sleep, waits for no peer; takes dlend_p2p_lock.
 */
void dlend_p2p_leave(struct dlend_p2p_member *m);

/**
 * dlend_p2p_publish - say how a device is set up now, and have mappings changed accordingly
 * @m: (in, out) member; if it has not joined, nothing happens
 * @dev: (in) its set-up now, copied. All bytes are compared with those of the last call: the caller
 *	sets the padding, too
 * @lease: (in) its lease, whose number is @dev->epoch; NULL: it has none, and @dev->epoch is 0.
 *	Only read during this call: a reference is taken on its link, not on the lease. The physical
 *	addresses of its BARs are compared, too: the window onto a BAR may open later than the
 *	lease begins
 *
 * If anything has changed, @m->settled becomes false, and the worker is queued. The worker asks the
 * lenders, sets @m->settled when it is done with the device's edges, and wakes @m->wq.
 *
 * Context: process, may sleep, waits for no peer; takes dlend_p2p_lock.
 */
void dlend_p2p_publish(struct dlend_p2p_member *m, const struct dlend_p2p_dev *dev,
		       const struct dlend_lease *lease);

/**
 * dlend_p2p_emit - print which BARs a device reaches, for sysfs
 * @m: (in) member; if it has not joined, nothing is printed
 * @buf: (out) a page of sysfs: for every BAR of another device of the user a line "DEVICE BAR GPA
 *	SIZE ROUTE mapped", or "DEVICE BAR GPA SIZE none REASON"; not for the device's own BARs
 *
 * Lines that do not fit into the page are left out.
 * Context: process, may sleep; takes dlend_p2p_lock.
 * Return: bytes written, or -ENOMEM.
 */
ssize_t dlend_p2p_emit(struct dlend_p2p_member *m, char *buf);

/**
 * dlend_p2p_emit_doubts - print which devices of its user may not be in one clique with a device
 * @m: (in) member; if it has not joined, nothing is printed
 * @buf: (out) a page of sysfs: a line "DEVICE REASON" for every other device of the user that @m
 *	may not reach, or that may not reach @m (dlend_p2p_doubt() of dlend/p2p_plan.h says why),
 *	and for every one that is in another clique (DLEND_P2P_OTHER_CLIQUE)
 *
 * Lines that do not fit into the page are left out.
 * Context: process, may sleep; locks as for dlend_p2p_join().
 * Return: bytes written, or -ENOMEM.
 */
ssize_t dlend_p2p_emit_doubts(struct dlend_p2p_member *m, char *buf);

/**
 * dlend_p2p_close_slots - cut off all peer-to-peer of a device that leads through this node
 * @addr: (in) the device, the source or the target of edges
 * @epoch: (in) number of its lease, which ends, or whose session is over; edges of its other leases
 *	stay
 *
 * Unmaps the slots of these edges in this node's apertures, with a flush of the IOTLB: when this
 * returns, no access of another device reaches @addr through them, nor does @addr reach another
 * device. Edges by other routes stay: lenders end these with the lease.
 *
 * The caller calls this before it sends RETURN for the lease, because nothing must reach the device
 * under its next lease. It must have said before that this lease is over (dlend_p2p_publish(),
 * dlend_p2p_leave()): then the worker opens no other slot after this.
 *
 * Context: process, may sleep, waits for no peer; takes dlend_p2p_lock, and inside it locks of
 * apertures.
 */
void dlend_p2p_close_slots(const struct dlend_addr *addr, u32 epoch);

#endif
