/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a borrowed disk's controller still has commands to end. */
#ifndef DLEND_MDEV_ENDING_H
#define DLEND_MDEV_ENDING_H

#include <linux/types.h>

struct dlend_vdev;

/**
 * dlend_ending_await - its guest stands still: wait until it has ended its commands
 * @v: (in) vdev, of any kind of device
 *
 * Waits for a second at most, and only as long as it is certain that there are some: see
 * nvme_queues.h and outstanding.h.
 *
 * Context: process, a call of the VMM's; none of the vdev's locks but vdev->move.lock.
 * Return: false: there still are.
 */
bool dlend_ending_await(struct dlend_vdev *v);

#endif
