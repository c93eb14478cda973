/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Has a controller commands that have not ended yet?  The registers of some controllers tell, and
 * reading these has no effect.  For an NVMe controller, its queues in the guest's memory tell.
 *
 * Pure logic: the caller reads registers and memory.
 */
#ifndef DLEND_MDEV_OUTSTANDING_H
#define DLEND_MDEV_OUTSTANDING_H

#include <linux/types.h>

/**
 * struct dlend_registers - registers of a controller
 * @size: their size in bytes
 * @read: read the register at @offset, below @size; all ones if the device does not answer
 */
struct dlend_registers {
	u64 size;
	u32 (*read)(const struct dlend_registers *r, u32 offset);
};

/**
 * struct dlend_outstanding - a kind of controller
 * @class: base class, sub-class, interface
 * @bar: where its registers are
 * @busy: is it certain that it has got a command that it has not ended yet, and that it will?
 */
struct dlend_outstanding {
	u32 class, bar;
	bool (*busy)(const struct dlend_registers *r);
};

/* The most bytes of registers that are read */
#define DLEND_OUTSTANDING_SIZE	0x2000u

/** dlend_outstanding_of - find the kind with @class (in); or NULL. Context: any. */
const struct dlend_outstanding *dlend_outstanding_of(u32 class);

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
