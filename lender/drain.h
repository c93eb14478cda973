/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a device falls silent when its guest stands still. Pure logic. */
#ifndef DLEND_LENDER_DRAIN_H
#define DLEND_LENDER_DRAIN_H

#include <linux/types.h>

/* What a device does while its guest stands still. */
enum lend_drain {
	LEND_DRAINS,	/* it ends what it was asked to do, and then does nothing: disks */
	LEND_CUT,	/* it never ends, and what is lost is made good: networks, sound */
	LEND_NEVER,	/* it never ends, and no driver survives a loss: GPUs, USB, the rest */
};

/**
 * lend_drain_kind - what a device does while its guest stands still
 * @class: (in) 24 bits: base class, sub-class, interface
 *
 * Context: any. Return: what a device of that class does.
 */
enum lend_drain lend_drain_kind(u32 class);

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
