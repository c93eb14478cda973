/* SPDX-License-Identifier: GPL-2.0 */
/* The end of a lease, as a vdev has it. */
#ifndef DLEND_MDEV_LEASE_END_H
#define DLEND_MDEV_LEASE_END_H

struct dlend_lease;
struct dlend_vdev;

/**
 * dlend_ended_with_pins - the lease under which pages may be pinned
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock. Return: a reference on the lease in use, or on the one that
 * ended; NULL if there is neither.
 */
struct dlend_lease *dlend_ended_with_pins(struct dlend_vdev *v);

/**
 * dlend_ended_keep - the lease in use is not in use any more; it is kept as vdev->ended
 * @v: (in) vdev that has a lease
 *
 * Its interrupts come to this host's handlers when this returns. Context: process, under
 * vdev->lock. Return: the one that was kept before, or NULL; to be put without the lock.
 */
struct dlend_lease *dlend_ended_keep(struct dlend_vdev *v);

/**
 * dlend_ended_leave - nobody needs the device any more: its lease goes back
 * @v: (in) vdev that is being closed, or whose VMM dies
 *
 * Context: process, may sleep; takes vdev->lock; waits for nobody.
 */
void dlend_ended_leave(struct dlend_vdev *v);

/**
 * dlend_ended_drop - unpin all that is still pinned under a lease that has ended
 * @v: (in) vdev that is being closed
 *
 * Context: process, may sleep; takes vdev->lock.
 */
void dlend_ended_drop(struct dlend_vdev *v);

/**
 * dlend_ended_forget - @lease has ended, and nothing is pinned under it any more
 * @v: (in) vdev
 * @lease: (in) lease
 *
 * Context: process, may sleep; takes vdev->lock.
 */
void dlend_ended_forget(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_ended_lose - the lease has ended without us
 * @v: (in) vdev
 * @only: (in) lease; nothing happens if the vdev has another one by now. NULL: whichever it has
 * @why: (in) for the log and sysfs
 *
 * If its session is over, the peer cannot reach this node's memory through it when this returns.
 * Context: process, may sleep; takes vdev->lock; waits for no peer.
 */
void dlend_ended_lose(struct dlend_vdev *v, struct dlend_lease *only, const char *why);

/**
 * dlend_ended_link_down - the link to the lender is down
 * @v: (in) vdev
 *
 * As dlend_ended_lose(), also for a lease that had ended before and is not returned yet. Context:
 * as dlend_ended_lose().
 */
void dlend_ended_link_down(struct dlend_vdev *v);

#endif
