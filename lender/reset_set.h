/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function without a reset of its own is reset with all functions in its slot, or on its bus.
 * Such a reset must not hit a function that is in use, by a guest or by this host.  Pure logic.
 */
#ifndef DLEND_LENDER_RESET_SET_H
#define DLEND_LENDER_RESET_SET_H

#include <linux/types.h>

/**
 * struct lend_reset_set - the functions that one reset of a slot or a bus hits
 * @bound: those that are bound in one struct lend_group, a bit per lend_fn.index
 * @strangers: number of other devices, which are not bound here, or in another IOMMU group
 * @lent: those of @bound that the holder of the group has
 * @asked: those of @bound for which the holder has asked for a reset lately (LEND_ASKED_MS), and in
 *	which it has turned nothing on since
 */
struct lend_reset_set {
	u64 bound;
	unsigned int strangers;
	u64 lent;
	u64 asked;
};

/**
 * enum lend_reset_set_verdict - may the functions of a set be reset?
 * @LEND_RESET_SET_RESET: yes: none of them is in use
 * @LEND_RESET_SET_IN_USE: no: the holder uses one of them
 * @LEND_RESET_SET_STRANGERS: no: the reset would hit a device that is not bound here, or the set is
 *	empty
 */
enum lend_reset_set_verdict {
	LEND_RESET_SET_RESET,
	LEND_RESET_SET_IN_USE,
	LEND_RESET_SET_STRANGERS,
};

/** lend_reset_set_judge - may the functions of @set (in) be reset now?  Context: any. */
static inline enum lend_reset_set_verdict lend_reset_set_judge(const struct lend_reset_set *set)
{
	if (set->strangers || !set->bound)
		return LEND_RESET_SET_STRANGERS;
	return set->lent & ~set->asked ? LEND_RESET_SET_IN_USE : LEND_RESET_SET_RESET;
}

#endif
