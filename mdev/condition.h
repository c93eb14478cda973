/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The condition of a borrowed device.  Context of all functions, unless they say another:
 * process, vdev->lock is held.
 */
#ifndef DLEND_MDEV_CONDITION_H
#define DLEND_MDEV_CONDITION_H

#include <linux/types.h>

struct dlend_vdev;

/* Bytes of the words that dlend_condition_text() says beside a reason. */
#define DLEND_CONDITION_WORDS	64

/* Bytes for the first of these words. */
#define DLEND_CONDITION_WORD	16

/* Module parameter: is the VMM told when a link is lost or a lease ends? */
extern bool dlend_stop_on_loss;

/**
 * dlend_condition_fail - the device is of no use to the guest from now on
 * @v: (in) vdev
 * @tell: (in) tell the VMM, too, by the error eventfd
 * @fmt: (in) why, for the log and for sysfs
 */
__printf(3, 4) void dlend_condition_fail(struct dlend_vdev *v, bool tell, const char *fmt, ...);

/** dlend_condition_clear - a device that has failed gets another chance */
void dlend_condition_clear(struct dlend_vdev *v);

/** dlend_condition_init - of a new vdev. Context: no lock. */
void dlend_condition_init(struct dlend_vdev *v);

/** dlend_condition_exit - user space hears nothing more. Context: process; no lock; waits. */
void dlend_condition_exit(struct dlend_vdev *v);

/**
 * dlend_condition_say - tell user space of the condition, if it is another one, soon
 * @v: (in) vdev
 *
 * Context: any.
 */
void dlend_condition_say(struct dlend_vdev *v);

/**
 * dlend_condition_text - "idle", "borrowing", "building", "running", "failed", "stopped" or
 *	"prepared", and a reason
 * @v: (in) vdev
 * @buf: (out) text
 * @size: (in) bytes of @buf
 */
void dlend_condition_text(struct dlend_vdev *v, char *buf, size_t size);

#endif
