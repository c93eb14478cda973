// SPDX-License-Identifier: GPL-2.0
/*
 * Whether a device falls silent when its guest stands still: see drain.h.
 *
 * A disk completes its outstanding commands, and interrupts for each.  Frames of a network come
 * without end, but their senders send them again if they are lost.
 *
 * Pure logic: class codes and times come from the caller.
 */
#include <linux/errno.h>
#include <linux/kernel.h>

#include "lender/drain.h"

#define LEND_CLASS_STORAGE	0x01
#define LEND_CLASS_NETWORK	0x02
#define LEND_CLASS_MULTIMEDIA	0x04
#define LEND_CLASS_INFINIBAND	0x0207
#define LEND_CLASS_USB		0x0c03

enum lend_drain lend_drain_kind(u32 class)
{
	/* RDMA: remote hosts write into the guest's memory, and rely on the device's ACKs. */
	if (class >> 8 == LEND_CLASS_INFINIBAND)
		return LEND_NEVER;
	if (class >> 8 == LEND_CLASS_USB)
		return LEND_TRIED;
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

bool lend_drain_moves(enum lend_drain kind, bool forced, bool tried)
{
	switch (kind) {
	case LEND_DRAINS:
		return true;
	case LEND_CUT:
		return forced;
	case LEND_TRIED:
		return forced && tried;
	default:
		return false;
	}
}

int lend_models_find(const char *list, u16 vendor, u16 device)
{
	unsigned int v, d;
	int found = 0, n;

	while (*list && *list != '\n') {
		if (sscanf(list, "%4x:%4x%n", &v, &d, &n) != 2)
			return -EINVAL;
		if (v == vendor && d == device)
			found = 1;
		list += n;
		if (*list == ',')
			list++;
		else if (*list && *list != '\n')
			return -EINVAL;
	}
	return found;
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
