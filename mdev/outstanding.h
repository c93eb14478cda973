/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Controllers whose registers say whether commands have not ended yet: a table, and pure logic.
 * Reading these registers changes nothing.
 */
#ifndef DLEND_MDEV_OUTSTANDING_H
#define DLEND_MDEV_OUTSTANDING_H

#include <linux/types.h>

/**
 * struct dlend_registers - of a controller
 * @size: bytes of them
 * @read: the register at @offset, below @size; all ones if the device does not answer
 */
struct dlend_registers {
	u64 size;
	u32 (*read)(const struct dlend_registers *r, u32 offset);
};

/**
 * struct dlend_outstanding - a kind of controller
 * @class: base class, sub-class, interface
 * @bar: where its registers are
 * @busy: is it certain that it was told of a command that it has not ended, and that it will?
 */
struct dlend_outstanding {
	u32 class, bar;
	bool (*busy)(const struct dlend_registers *r);
};

/* Bytes that are looked at, at most. */
#define DLEND_OUTSTANDING_SIZE	0x2000u

/** dlend_outstanding_of - the kind with @class (in), or NULL. Context: any. */
const struct dlend_outstanding *dlend_outstanding_of(u32 class);

#endif
