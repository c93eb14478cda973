// SPDX-License-Identifier: GPL-2.0
/*
 * Walk over the interrupt ring.
 *
 * Pure: knows the ring's arithmetic; memory, sinks and locks are behind an ops table.
 */
#include <linux/kernel.h>
#include <dlend/proto.h>
#include "irqscan.h"

static_assert((DLEND_IRQ_RING_SLOTS & (DLEND_IRQ_RING_SLOTS - 1)) == 0);

u32 dlend_irqscan_new(u32 *seen, u32 counter)
{
	u32 fresh = counter - *seen;

	*seen = counter;
	return fresh;
}

/*
 * The producer writes an entry before it moves its index: the entry one past the index that we
 * see may be half way over an old one already.
 */
static bool overrun(u32 cons, u32 prod)
{
	return prod - cons >= DLEND_IRQ_RING_SLOTS;
}

bool dlend_irqscan_run(struct dlend_irqscan *scan, const struct dlend_irqscan_ops *ops, void *ctx)
{
	u32 start = scan->cons;
	u32 prod = ops->prod(ctx);
	u32 i, entry;

	scan->cons = prod;
	if (overrun(start, prod)) {
		ops->look_all(ctx);
		return true;
	}
	for (i = start; i != prod; i++) {
		entry = ops->entry(ctx, i & (DLEND_IRQ_RING_SLOTS - 1));
		ops->look(ctx, entry >> 16, entry & 0xffff);
	}
	if (!overrun(start, ops->prod(ctx)))
		return false;
	/* Overtaken while reading: some hints were gone before we saw them. */
	ops->look_all(ctx);
	return true;
}
