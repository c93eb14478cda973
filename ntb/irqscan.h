/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which vectors has a peer counted up?  Counters hold the truth; a ring of hints says where to
 * look.  The producer never waits for the consumer, so the ring may be overrun at any time.
 */
#ifndef DLEND_NTB_IRQSCAN_H
#define DLEND_NTB_IRQSCAN_H

#include <linux/types.h>

struct dlend_ctrl;

enum dlend_irqscan_end {
	DLEND_IRQSCAN_DONE,
	DLEND_IRQSCAN_MORE,	/* the budget is used up, hints are left */
	DLEND_IRQSCAN_OVERRUN,	/* hints were lost: look at every counter of every sink */
};

/**
 * dlend_irqscan_some - one pass over the ring, after the doorbell was cleared
 * @cons: (in, out) hints looked at so far
 * @ctrl: (in) control area with the ring; the peer may write it at any time
 * @look: has the counter of @vector of the sink @handle moved? Both come from the peer, unchecked
 * @ctx: (in) for @look
 * @budget: (in) most hints to look at; (out) how many of these are left
 *
 * Hints that are written after the producer's index was read ring the doorbell again.  So one pass
 * is enough, if the budget is large enough.  Context: any; the caller serialises; bounded work.
 * Return: why it ended.
 */
enum dlend_irqscan_end dlend_irqscan_some(u32 *cons, const struct dlend_ctrl *ctrl,
					  void (*look)(void *ctx, u32 handle, u32 vector),
					  void *ctx, u32 *budget);

/**
 * struct dlend_budget - how many hints may be looked at in a period of time
 * @at: number of the period
 * @left: hints that are left in it
 */
struct dlend_budget {
	unsigned long at;
	u32 left;
};

#define DLEND_BUDGET		4096u	/* hints of a period */
#define DLEND_BUDGET_TURN	256u	/* hints at a time, interrupts off: a thread does more */
#define DLEND_DOORBELL_COST	16u	/* hints that each interrupt costs beside those it sees */
#define DLEND_BUDGET_SHARE	4u	/* a period's time / this uses up the budget, too */

/**
 * dlend_budget_turn - an interrupt has come
 * @b: budget
 * @now: (in) number of the period
 *
 * Context: any; the caller serialises. Return: how many hints it may look at.
 */
u32 dlend_budget_turn(struct dlend_budget *b, unsigned long now);

/**
 * dlend_budget_spend - an interrupt is over: charge it to the budget, in the same period
 * @b: budget
 * @hints: (in) how many it looked at
 * @ns: (in) how long it took, nanoseconds
 * @period_ns: (in) how long a period is, nanoseconds
 *
 * Where access to a register is slow, the time runs out before the hints do.
 * Context: any; the caller serialises.
 */
void dlend_budget_spend(struct dlend_budget *b, u32 hints, u64 ns, u64 period_ns);

/** dlend_budget_over - is nothing left in period @now? Context: any; the caller serialises. */
bool dlend_budget_over(const struct dlend_budget *b, unsigned long now);

/**
 * struct dlend_irqlook - a walk over every counter of every sink, in pieces; all 0 at first
 * @handle: handle of the sink where the walk is
 * @vector: its next vector
 */
struct dlend_irqlook {
	unsigned long handle;
	u32 vector;
};

/**
 * dlend_irqlook_piece - the next piece of the walk
 * @l: walk; moved on
 * @handle: (in) of the first sink from @l->handle on; it may be another one than at the last piece
 * @first: (out) its first vector in this piece
 *
 * Context: any; the caller serialises. Return: how many vectors, up to DLEND_BUDGET_TURN.
 */
u32 dlend_irqlook_piece(struct dlend_irqlook *l, unsigned long handle, u32 *first);

/*
 * Before the lender tells an interrupt, it reads through the window.  The processor can do nothing
 * else in that time, and the duration depends on the peer and on other traffic.  So interrupts of a
 * link may use a limited share of time for such reads, all processors together; a thread tells the
 * other interrupts.  Unused time is saved, up to a limit, for bursts.  A read that took longer than
 * the time that was left is paid for before the next read begins.  But no read counts for more than
 * a read can take: a hypervisor may have stopped this processor in between.
 */
#define DLEND_READ_SHARE	4u		/* one part in so many */
#define DLEND_READ_BURST_NS	2000000ll
#define DLEND_READ_DEBT_NS	250000000ll

/**
 * struct dlend_readtime - how long reads through a window may take; all 0 at first
 * @at: when @left was last brought up to date
 * @left: nanoseconds; negative: to be paid for
 */
struct dlend_readtime {
	u64 at;
	s64 left;
};

/**
 * dlend_readtime_wait - may a window be read now?
 * @t: moved on
 * @now: (in) any clock, nanoseconds
 *
 * Context: any; the caller serialises. Return: nanoseconds to wait before; 0: none.
 */
u64 dlend_readtime_wait(struct dlend_readtime *t, u64 now);

/**
 * dlend_readtime_spend - the window was read
 * @t: moved on
 * @ns: (in) how long that took, nanoseconds
 *
 * Context: any; the caller serialises.
 */
void dlend_readtime_spend(struct dlend_readtime *t, u64 ns);

/**
 * dlend_irqscan_gone - does a counter read as all ones because nothing answers?
 * @value: (in) the value that was read
 * @count: (in) the value that this node wrote there last
 *
 * Context: any.
 */
bool dlend_irqscan_gone(u32 value, u32 count);

/**
 * dlend_irqscan_new - interrupts since the last look
 * @seen: (in, out) value up to which interrupts were delivered; set to @counter
 * @counter: (in) as the peer wrote it
 *
 * Context: any; the caller serialises. Return: how many.
 */
u32 dlend_irqscan_new(u32 *seen, u32 counter);

#endif
