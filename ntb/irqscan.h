/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finding out which vectors a peer has counted up: a ring of hints, and counters that are the
 * truth.  The producer never waits for the consumer, so the ring may be overrun at any time.
 */
#ifndef DLEND_NTB_IRQSCAN_H
#define DLEND_NTB_IRQSCAN_H

#include <linux/types.h>

/** struct dlend_irqscan - @cons: hints looked at so far */
struct dlend_irqscan {
	u32 cons;
};

/**
 * struct dlend_irqscan_ops - the world of a scan
 * @prod: the producer's index as it is now
 * @entry: the hint at ring index @index (0..DLEND_IRQ_RING_SLOTS - 1)
 * @look: compare the counter of @vector of the sink @handle; both come from the peer, unchecked
 * @look_all: compare every counter of every sink
 */
struct dlend_irqscan_ops {
	u32 (*prod)(void *ctx);
	u32 (*entry)(void *ctx, u32 index);
	void (*look)(void *ctx, u32 handle, u32 vector);
	void (*look_all)(void *ctx);
};

/**
 * dlend_irqscan_run - one pass, after the doorbell was cleared
 *
 * Hints written after @ops->prod was read ring the doorbell again, so one pass is enough.
 * Context: any; bounded work. Return: true if the ring was overrun and every counter was looked
 * at.
 */
bool dlend_irqscan_run(struct dlend_irqscan *scan, const struct dlend_irqscan_ops *ops, void *ctx);

/** dlend_irqscan_new - interrupts since the last look; @seen is moved on to @counter */
u32 dlend_irqscan_new(u32 *seen, u32 counter);

#endif
