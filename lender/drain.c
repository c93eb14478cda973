// SPDX-License-Identifier: GPL-2.0
/*
 * Whether a device falls silent when its guest stands still: see drain.h.
 *
 * A disk has so many commands, ends them, and interrupts for each.  What comes from outside, as
 * frames do, never ends, but whoever sent it sends it again.
 *
 * Knows classes of devices; neither devices nor clocks.
 */
#include "lender/drain.h"

#define LEND_CLASS_STORAGE	0x01
#define LEND_CLASS_NETWORK	0x02
#define LEND_CLASS_MULTIMEDIA	0x04
#define LEND_CLASS_INFINIBAND	0x0207

enum lend_drain lend_drain_kind(u32 class)
{
	/* Peers write into its guest's memory, and believe what it acknowledges. */
	if (class >> 8 == LEND_CLASS_INFINIBAND)
		return LEND_NEVER;
	switch (class >> 16) {
	case LEND_CLASS_STORAGE:
		return LEND_DRAINS;
	case LEND_CLASS_NETWORK:
	case LEND_CLASS_MULTIMEDIA:
		return LEND_CUT;
	default:
		return LEND_NEVER;
	}
}

u64 lend_silence_look(struct lend_silence *s, u64 fired, u64 now_us)
{
	if (!s->begun || fired != s->fired) {
		s->begun = true;
		s->fired = fired;
		s->since_us = now_us;
	}
	return now_us - s->since_us;
}
