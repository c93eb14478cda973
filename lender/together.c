// SPDX-License-Identifier: GPL-2.0
/*
 * A function without a reset of its own is reset with all that sits in its slot, or on its bus.
 * That must not touch what anybody uses: neither the guest that has another of these functions, nor
 * this host.  Pure logic.
 *
 * Knows no device, no lock and no clock.
 */
#include "lender/together.h"

enum lend_together_verdict lend_together_judge(const struct lend_together *set)
{
	if (set->strangers || !set->bound)
		return LEND_TOGETHER_STRANGERS;
	return set->lent & ~set->asked ? LEND_TOGETHER_IN_USE : LEND_TOGETHER_RESET;
}
