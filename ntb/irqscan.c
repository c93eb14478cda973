// SPDX-License-Identifier: GPL-2.0
/*
 * Arithmetic for interrupts across a link: see irqscan.h.
 *
 * Pure: knows the ring, and counters as numbers; sinks and locks are the caller's.
 */
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <asm/barrier.h>
#include <asm/byteorder.h>
#include <dlend/proto.h>
#include "irqscan.h"

static_assert((DLEND_IRQ_RING_SLOTS & (DLEND_IRQ_RING_SLOTS - 1)) == 0);

u32 dlend_irqscan_new(u32 *seen, u32 counter)
{
	u32 fresh = counter - *seen;

	*seen = counter;
	return fresh;
}

u64 dlend_readtime_wait(struct dlend_readtime *t, u64 now)
{
	u64 more = (now - t->at) / DLEND_READ_SHARE;

	/* Two processors' clocks may differ a little. */
	if ((s64)(now - t->at) > 0) {
		t->at = now;
		t->left = min_t(s64, t->left + min_t(u64, more, S64_MAX / 2), DLEND_READ_BURST_NS);
	}
	return t->left > 0 ? 0 : (1 - t->left) * DLEND_READ_SHARE;
}

void dlend_readtime_spend(struct dlend_readtime *t, u64 ns)
{
	t->left -= min_t(u64, ns, DLEND_READ_DEBT_NS);
}

bool dlend_irqscan_gone(u32 value, u32 count)
{
	return value == ~0u && count != ~0u;
}

/*
 * The producer writes an entry before it increments its index.  So when the ring is full by the
 * index, the oldest entry may already be overwritten in part.
 */
static bool dlend_irqscan_overrun(u32 cons, u32 prod)
{
	return prod - cons >= DLEND_IRQ_RING_SLOTS;
}

static u32 dlend_irqscan_prod(const struct dlend_ctrl *ctrl)
{
	u32 prod = le32_to_cpu(READ_ONCE(ctrl->irq_prod));

	dma_rmb(); /* the index before entries and counters */
	return prod;
}

enum dlend_irqscan_end dlend_irqscan_some(u32 *cons, const struct dlend_ctrl *ctrl,
					  void (*look)(void *ctx, u32 handle, u32 vector),
					  void *ctx, u32 *budget)
{
	u32 start = *cons, prod = dlend_irqscan_prod(ctrl), i, entry;
	bool overrun = dlend_irqscan_overrun(start, prod);
	u32 end = overrun ? start : start + min(prod - start, *budget);

	for (i = start; i != end; i++) {
		entry = le32_to_cpu(READ_ONCE(ctrl->irq[i & (DLEND_IRQ_RING_SLOTS - 1)]));
		look(ctx, entry >> 16, entry & 0xffff);
	}
	*budget -= end - start;
	/* If the producer has overtaken this scan, it has overwritten hints that were not read. */
	if (overrun || dlend_irqscan_overrun(start, dlend_irqscan_prod(ctrl))) {
		*cons = prod;
		return DLEND_IRQSCAN_OVERRUN;
	}
	*cons = end;
	return end == prod ? DLEND_IRQSCAN_DONE : DLEND_IRQSCAN_MORE;
}

u32 dlend_budget_turn(struct dlend_budget *b, unsigned long now)
{
	if (b->at != now) {
		b->at = now;
		b->left = DLEND_BUDGET;
	}
	b->left -= min(b->left, DLEND_DOORBELL_COST);
	return min(b->left, DLEND_BUDGET_TURN);
}

void dlend_budget_spend(struct dlend_budget *b, u32 hints, u64 ns, u64 period_ns)
{
	u64 share = period_ns / DLEND_BUDGET_SHARE;

	b->left -= min(b->left, hints);
	b->left -= min(b->left, (u32)(min(ns, share) * DLEND_BUDGET / share));
}

bool dlend_budget_over(const struct dlend_budget *b, unsigned long now)
{
	return b->at == now && !b->left;
}

u32 dlend_irqlook_piece(struct dlend_irqlook *l, unsigned long handle, u32 *first)
{
	u32 n;

	/* If the sink where the walk was is gone, the next one begins at its first vector. */
	*first = handle == l->handle ? l->vector : 0;
	n = min(DLEND_MAX_VECTORS - *first, DLEND_BUDGET_TURN);
	l->handle = handle;
	l->vector = *first + n;
	if (l->vector == DLEND_MAX_VECTORS) {
		l->handle++;
		l->vector = 0;
	}
	return n;
}
