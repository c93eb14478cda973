/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function without a reset of its own is reset with all functions in its slot, or on its bus.
 * That must not touch a function that is in use, by a guest or by this host.  Pure logic.
 */
#ifndef DLEND_LENDER_TOGETHER_H
#define DLEND_LENDER_TOGETHER_H

#include <linux/types.h>

/**
 * struct lend_together - the functions that one reset of a slot or a bus touches, a bit for each
 * @bound: those of one group of the lender's
 * @strangers: number of others, which the lender does not own
 * @lent: those that the holder of the group has, out of @bound
 * @asked: those whose holder has asked for a reset and has not used them since, out of @lent
 */
struct lend_together {
	u64 bound;
	unsigned int strangers;
	u64 lent;
	u64 asked;
};

/**
 * enum lend_together_verdict - can they be reset?
 * @LEND_TOGETHER_RESET: yes: none of them is in use
 * @LEND_TOGETHER_IN_USE: no: the holder uses one of them
 * @LEND_TOGETHER_STRANGERS: no: it would reset what this lender does not own
 */
enum lend_together_verdict {
	LEND_TOGETHER_RESET,
	LEND_TOGETHER_IN_USE,
	LEND_TOGETHER_STRANGERS,
};

/** lend_together_judge - can the functions of @set (in) be reset now?  Context: any. */
static inline enum lend_together_verdict lend_together_judge(const struct lend_together *set)
{
	if (set->strangers || !set->bound)
		return LEND_TOGETHER_STRANGERS;
	return set->lent & ~set->asked ? LEND_TOGETHER_IN_USE : LEND_TOGETHER_RESET;
}

#endif
