/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peer-to-peer between the devices that one user (a VM, or this host) has borrowed: each shall
 * reach the BARs of the others, and its own, at the addresses where that user has put them.
 *
 * The user of borrowed devices says here how each of them is set up.  Then the borrower has the
 * lenders change their mappings accordingly.
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

/* Most devices of one user that can do peer-to-peer; any further one does none. */
#define DLEND_P2P_DEVS	32

/* Why two devices have different cliques, although there is no doubt (p2p_plan.h) between them. */
#define DLEND_P2P_NO_DOUBT \
	"others of that clique are or were out of reach, or an administrator has set it so"

/**
 * struct dlend_p2p_member - a borrowed device, as the others of its user see it
 * @owner: the user's device, for messages; set before dlend_p2p_join()
 * @user: devices with the same one belong together. Never dereferenced; set before
 *	dlend_p2p_join()
 * @wq: woken when @settled becomes true; set before dlend_p2p_join()
 * @dev: as published last; its address and BAR sizes are set before dlend_p2p_join()
 * @settled: the device reaches all that it shall, as published last, or cannot. Read without a lock
 * @node, @joined, @ref, @bar_phys: private to the borrower
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
 * @fabric: links
 * @n: devices
 * @of: index of the one that is being asked about
 * @member, @dev: the devices, each twice: as it is, and as p2p_plan.h takes it
 */
struct dlend_p2p_user {
	struct dlend_p2p_fabric fabric;
	unsigned int n, of;
	struct dlend_p2p_member *member[DLEND_P2P_DEVS];
	struct dlend_p2p_dev dev[DLEND_P2P_DEVS];
};

/**
 * dlend_p2p_join - add a device to those of its user
 * @m: (in, out) member
 * @choose: (in) called with the user, @m included, before another device can join it: it sets the
 *	clique of the device @user->of, and may log something about it. dlend_offers_lock and
 *	dlend_p2p_lock are held. NULL: the clique stays as it is
 *
 * Without memory, or with too many devices in the user, choose() is not called and @m->dev.clique
 * stays as it is. Context: process; takes dlend_offers_lock and dlend_p2p_lock.
 */
void dlend_p2p_join(struct dlend_p2p_member *m, void (*choose)(struct dlend_p2p_user *user));

/** dlend_p2p_leave - undo dlend_p2p_join(), if there was one. Context: as there. */
void dlend_p2p_leave(struct dlend_p2p_member *m);

/**
 * dlend_p2p_publish - say how a device is set up now, and have mappings changed accordingly
 * @m: (in) member, joined
 * @dev: (in) its set-up now; all bytes, padding too, are compared with the last call's
 * @lease: (in) its lease, or NULL; physical addresses of its windows are compared, too: a window
 *	may open later than the lease begins
 *
 * If anything has changed, a worker asks the lenders; @m->settled is false until the device reaches
 * all that it shall.
 *
 * Context: process, takes dlend_p2p_lock; waits for no peer.
 */
void dlend_p2p_publish(struct dlend_p2p_member *m, const struct dlend_p2p_dev *dev,
		       const struct dlend_lease *lease);

/**
 * dlend_p2p_emit - what a device reaches, for sysfs
 * @m: (in) member
 * @buf: (out) a page: a line for every BAR of another device of the user
 *
 * Context: process; takes dlend_p2p_lock. Return: bytes, or -ENOMEM.
 */
ssize_t dlend_p2p_emit(struct dlend_p2p_member *m, char *buf);

/**
 * dlend_p2p_emit_doubts - print which devices of its user a device may not reach, and why
 * @m: (in) member
 * @buf: (out) a page: a line for every such device, and for those in another clique
 *
 * Context: process; takes dlend_offers_lock and dlend_p2p_lock. Return: bytes, or -ENOMEM.
 */
ssize_t dlend_p2p_emit_doubts(struct dlend_p2p_member *m, char *buf);

/**
 * dlend_p2p_fence - cut off all peer-to-peer of a device that leads through this node
 * @addr: (in) the device
 * @epoch: (in) number of its lease, which ends, or whose session is over
 *
 * When this returns, no request passes through this node to the device, or from it. The caller does
 * this before the lender gets to know that the lease is over. Context: process; takes
 * dlend_p2p_lock and an aperture's lock; waits for no peer.
 */
void dlend_p2p_fence(const struct dlend_addr *addr, u32 epoch);

#endif
