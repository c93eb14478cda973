/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Outstanding commands of a disk's controller: commands that the controller has fetched, or that
 * its driver has sent, and that the controller has not completed.
 *
 * The migration code (move.c) asks for them before it lets the lender stop the device of a VM that
 * stands still.  "Yes" makes it ask again, for a second at most; if the answer is still "yes", the
 * VM does not move.  "No" and errors do not stop the move: the lender, which sees whether the
 * controller is silent, decides then.  So "yes" must be certain, and "no" may be wrong.
 *
 * AHCI and UFS controllers have registers that show outstanding commands, and reading these
 * registers has no side effect.  NVMe controllers have none.  Their queues are read in the guest's
 * memory instead.
 *
 * Pure logic: the caller's functions read registers and memory.
 */
#ifndef DLEND_MDEV_OUTSTANDING_H
#define DLEND_MDEV_OUTSTANDING_H

#include <linux/types.h>

/**
 * struct dlend_registers - access to the registers of a controller
 * @size: size of the registers in bytes, from offset 0 of the BAR on
 * @read: read 4 bytes at byte offset @offset, with the side effects of an MMIO read.  @offset is a
 *	multiple of 4, and @offset + 4 is not above @size.  Return: the value in the CPU's byte
 *	order (the registers are little-endian); all ones if the device does not answer
 */
struct dlend_registers {
	u64 size;
	u32 (*read)(const struct dlend_registers *r, u32 offset);
};

/**
 * struct dlend_controller_type - a type of controller whose registers show outstanding commands
 * @class: PCI class code: base class, sub-class and programming interface in bits 23:0
 * @bar: index of the BAR that has the registers
 * @busy: true only if a command is certainly outstanding, and the controller is running, so that
 *	the command will complete by itself and is worth waiting for.  False in all other cases,
 *	also if the device does not answer.  Context: that of @r->read; takes no lock
 */
struct dlend_controller_type {
	u32 class, bar;
	bool (*busy)(const struct dlend_registers *r);
};

/* No register at this offset of the BAR or above is read. */
#define DLEND_OUTSTANDING_SIZE	0x2000u

/**
 * dlend_controller_type_of - find the type of controller with a class code
 * @class: (in) PCI class code in bits 23:0
 *
 * Context: any. Return: a constant, which no one frees; NULL if there is none, as for NVMe.
 */
const struct dlend_controller_type *dlend_controller_type_of(u32 class);

/**
 * struct dlend_nvme - an NVMe controller whose guest stands still: no vCPU runs
 * @cc: register Controller Configuration
 * @csts: register Controller Status
 * @aqa: register Admin Queue Attributes: sizes of the admin queues.  The admin queues are needed to
 *	find the I/O queues: the driver has made each I/O queue by a command in the admin submission
 *	queue, where that command still is
 * @asq: guest-physical address of the admin submission queue
 * @acq: guest-physical address of the admin completion queue
 * @read: read @size bytes of guest memory at @gpa into @buf. Return: 0 or -errno
 * @arg: passed to @read
 */
struct dlend_nvme {
	u32 cc, csts, aqa;
	u64 asq, acq;
	int (*read)(void *arg, u64 gpa, void *buf, size_t size);
	void *arg;
};

/**
 * dlend_nvme_busy - is a command of some I/O queue certainly outstanding?
 * @n: (in) controller.  The caller guarantees that its guest stands still: otherwise the queues
 *	change while they are read
 *
 * Commands of the admin queue do not count.
 *
 * Context: process, no spinlock held; allocates memory, and @n->read() may sleep.
 * Return: 1 if a command is outstanding; 0 if no queue that could be read shows one; -ENOMEM, or an
 * error of @n->read(), if the admin queues could not be read, so that the I/O queues are not known.
 */
int dlend_nvme_busy(const struct dlend_nvme *n);

#endif
