/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Does an NVMe controller still have commands to end?  Its queues are in the guest's memory, and
 * tell.  Pure logic: the caller reads registers and memory.
 */
#ifndef DLEND_MDEV_NVME_QUEUES_H
#define DLEND_MDEV_NVME_QUEUES_H

#include <linux/types.h>

#define DLEND_NVME_CLASS	0x010802u	/* of controllers for I/O */

/* Where the registers are */
#define DLEND_NVME_CC		0x14
#define DLEND_NVME_CSTS		0x1c
#define DLEND_NVME_AQA		0x24
#define DLEND_NVME_ASQ		0x28
#define DLEND_NVME_ACQ		0x30

/**
 * struct dlend_nvme - a controller, while its guest stands still
 * @cc, @csts, @aqa, @asq, @acq: its registers
 * @read: read guest memory into @buf. Return: 0 or -errno
 * @arg: for @read
 */
struct dlend_nvme {
	u32 cc, csts, aqa;
	u64 asq, acq;
	int (*read)(void *arg, u64 gpa, void *buf, size_t size);
	void *arg;
};

/**
 * dlend_nvme_busy - is it certain that a command of some I/O queue has not ended?
 * @n: (in) controller, whose guest stands still
 *
 * Context: process; allocates memory, and @n->read() may sleep.
 * Return: 1: it is; 0: no queue that could be read says so; -ENOMEM; as @n->read(), if it is not
 * known where they are.
 */
int dlend_nvme_busy(const struct dlend_nvme *n);

#endif
