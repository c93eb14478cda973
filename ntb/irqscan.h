/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arithmetic for interrupts across a link: which vectors' counters has the lender incremented, how
 * much may an interrupt handler do, and how long may it read through the window?
 *
 * The counters are always right; a ring of hints says which to look at.  The producer never waits
 * for the consumer, so the ring may be overrun at any time.
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
 * dlend_irqscan_some - go through hints of the ring once, after the doorbell was cleared
 * @cons: (in, out) hints looked at so far
 * @ctrl: (in) control area with the ring; the peer may write it at any time
 * @look: called for each hint: the counter of @vector of the sink @handle may have grown. Both
 *	numbers come from the peer, unchecked
 * @ctx: (in) for @look
 * @budget: (in) most hints to look at; (out) how much of this number is left
 *
 * Hints that are written after the producer's index was read ring the doorbell again.  So one pass
 * is enough, if the budget is large enough.  Context: any; the caller serialises; bounded work.
 * Return: why it ended.
 */
enum dlend_irqscan_end dlend_irqscan_some(u32 *cons, const struct dlend_ctrl *ctrl,
					  void (*look)(void *ctx, u32 handle, u32 vector),
					  void *ctx, u32 *budget);

/**
 * struct dlend_budget - how many hints may be looked at in a period (for the caller, a jiffy)
 * @at: number of the period
 * @left: hints that are left in it
 */
struct dlend_budget {
	unsigned long at;
	u32 left;
};

#define DLEND_BUDGET		4096u	/* hints of a period */
#define DLEND_BUDGET_TURN	256u	/* hints at a time, with interrupts off */
#define DLEND_DOORBELL_COST	16u	/* hints that each doorbell interrupt costs in addition */
#define DLEND_BUDGET_SHARE	4u	/* 1 / this of a period's time uses up the budget, too */

/**
 * dlend_budget_turn - get how much a doorbell interrupt may do, which has just come
 * @b: budget
 * @now: (in) number of the period
 *
 * Context: any; the caller serialises. Return: how many hints its handler may look at.
 */
u32 dlend_budget_turn(struct dlend_budget *b, unsigned long now);

/**
 * dlend_budget_spend - charge a doorbell interrupt to the budget, after dlend_budget_turn()
 * @b: budget
 * @hints: (in) how many its handler looked at
 * @ns: (in) how long its handler took, nanoseconds
 * @period_ns: (in) how long a period is, nanoseconds
 *
 * Where access to a register is slow, the time runs out before the hints do.
 * Context: any; the caller serialises.
 */
void dlend_budget_spend(struct dlend_budget *b, u32 hints, u64 ns, u64 period_ns);

/** dlend_budget_over - is period @now's budget used up? Context: any; the caller serialises. */
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
 * dlend_irqlook_piece - get the next piece of the walk, and move the walk behind it
 * @l: walk
 * @handle: (in) of the first sink from @l->handle on; it may be another one than at the last piece.
 *	If the caller finds no such sink, the walk is over
 * @first: (out) its first vector in this piece
 *
 * Context: any; the caller serialises. Return: how many vectors, up to DLEND_BUDGET_TURN.
 */
u32 dlend_irqlook_piece(struct dlend_irqlook *l, unsigned long handle, u32 *first);

/*
 * Before the lender sends an interrupt, it reads through the window.  The processor can do nothing
 * else in that time, and how long it takes depends on the peer and on other traffic.  So interrupt
 * handlers of a link have a limited share of time for such reads, all processors together; a thread
 * sends the other interrupts.  Unused time is saved, up to a limit, for bursts.  If a read takes
 * longer than the time that was left, the difference has to pass before the next read begins.  But
 * no read counts for more than a read can take: a hypervisor may have stopped this processor in
 * between.
 */
#define DLEND_READ_SHARE	4u		/* the share is 1 / this */
#define DLEND_READ_BURST_NS	2000000ll	/* limit of the saved time */
#define DLEND_READ_DEBT_NS	250000000ll	/* limit of what one read counts for */

/**
 * struct dlend_readtime - how long reads through a window may take; all 0 at first
 * @at: when @left was last brought up to date
 * @left: nanoseconds that may be used now; negative: a debt
 */
struct dlend_readtime {
	u64 at;
	s64 left;
};

/**
 * dlend_readtime_wait - may an interrupt handler read through the window now?
 * @t: (in, out) brought up to date
 * @now: (in) any clock, nanoseconds
 *
 * Context: any; the caller serialises. Return: 0: yes; else nanoseconds until it may.
 */
u64 dlend_readtime_wait(struct dlend_readtime *t, u64 now);

/**
 * dlend_readtime_spend - charge a read through the window to the share
 * @t: (in, out) reduced
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
 * Context: any. Return: true: nothing answers.
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
