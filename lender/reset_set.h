/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function without a reset of its own is reset with all functions in its slot, or on its bus.
 * That must not touch a function that is in use, by a guest or by this host.  Pure logic.
 */
#ifndef DLEND_LENDER_RESET_SET_H
#define DLEND_LENDER_RESET_SET_H

#include <linux/types.h>

/**
 * struct lend_reset_set - the functions that one reset of a slot or a bus touches, a bit for each
 * @bound: those of one group of the lender's
 * @strangers: number of others, which the lender does not own
 * @lent: those that the holder of the group has, out of @bound
 * @asked: those whose holder has asked for a reset and has not used them since, out of @lent
 */
struct lend_reset_set {
	u64 bound;
	unsigned int strangers;
	u64 lent;
	u64 asked;
};

/**
 * enum lend_reset_set_verdict - can they be reset?
 * @LEND_RESET_SET_RESET: yes: none of them is in use
 * @LEND_RESET_SET_IN_USE: no: the holder uses one of them
 * @LEND_RESET_SET_STRANGERS: no: it would reset what this lender does not own
 */
enum lend_reset_set_verdict {
	LEND_RESET_SET_RESET,
	LEND_RESET_SET_IN_USE,
	LEND_RESET_SET_STRANGERS,
};

/** lend_reset_set_judge - can the functions of @set (in) be reset now?  Context: any. */
static inline enum lend_reset_set_verdict lend_reset_set_judge(const struct lend_reset_set *set)
{
	if (set->strangers || !set->bound)
		return LEND_RESET_SET_STRANGERS;
	return set->lent & ~set->asked ? LEND_RESET_SET_IN_USE : LEND_RESET_SET_RESET;
}

#endif
