/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a device falls silent when its guest stands still. Pure logic. */
#ifndef DLEND_LENDER_DRAIN_H
#define DLEND_LENDER_DRAIN_H

#include <linux/types.h>

/* What a device does while its guest stands still. */
enum lend_drain {
	LEND_DRAINS,	/* it ends what it was asked to do, and then does nothing: disks */
	LEND_CUT,	/* it never ends, and its users make up for losses: networks, sound */
	LEND_TRIED,	/* it never ends; whether it survives a loss has to be tried: USB */
	LEND_NEVER,	/* it never ends, and no driver survives a loss: GPUs, the rest */
};

/**
 * lend_drain_kind - what a device does while its guest stands still
 * @class: (in) 24 bits: base class, sub-class, interface
 *
 * Context: any. Return: what a device of that class does.
 */
enum lend_drain lend_drain_kind(u32 class);

/**
 * lend_drain_moves - may a device move to another node with its VM?
 * @kind: (in) what it does
 * @forced: (in) the administrator who moves the VM accepts losses
 * @tried: (in) an administrator has tried this model
 *
 * Context: any. Return: it may.
 */
bool lend_drain_moves(enum lend_drain kind, bool forced, bool tried);

/**
 * lend_models_find - look for a model in a list
 * @list: (in) "VVVV:DDDD,...": vendor and device in hexadecimal; up to a line's end
 * @vendor: (in) PCI vendor
 * @device: (in) PCI device
 *
 * Context: any. Return: 1: it is there; 0: it is not; -EINVAL: this is no such list.
 */
int lend_models_find(const char *list, u16 vendor, u16 device);

/**
 * struct lend_silence - how long a device has been silent; all zero at first
 * @fired: interrupts that had come when it was looked at last
 * @since_us: when that number had changed last
 * @begun: it was looked at before
 */
struct lend_silence {
	u64 fired;
	u64 since_us;
	bool begun;
};

/**
 * lend_silence_look - look at a device
 * @s: (in, out) silence
 * @fired: (in) interrupts that have come
 * @now_us: (in) time, of any clock that does not go back
 *
 * Context: any. Return: microseconds since the last interrupt, or since the first look.
 */
u64 lend_silence_look(struct lend_silence *s, u64 fired, u64 now_us);

#endif
