// SPDX-License-Identifier: GPL-2.0
/*
 * The next step of a borrowed device: see plan.h.
 *
 * Pure logic: knows nothing of locks, messages or memory.
 */
#include <linux/errno.h>
#include "plan.h"

static bool irq_settled(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->irq_mode == want->irq_mode && have->irq_count == want->irq_count;
}

enum dlend_step dlend_plan_step(struct dlend_situation now, const struct dlend_wish *want,
				const struct dlend_wish *have)
{
	if (!now.open)
		return DLEND_STEP_NONE;
	if (now.failed)
		return now.leased && have->bme ? DLEND_STEP_BME_OFF : DLEND_STEP_NONE;
	if (!now.leased)
		return want->bme || now.touched || now.prepin ? DLEND_STEP_BORROW :
								DLEND_STEP_NONE;
	if (have->reset != want->reset)
		return DLEND_STEP_RESET;
	if (!want->bme && have->bme)
		return DLEND_STEP_BME_OFF;
	if (!irq_settled(want, have))
		return DLEND_STEP_IRQ;
	if ((want->bme || now.prepin) &&
	    (have->build != want->build || have->rescan != want->rescan))
		return DLEND_STEP_BUILD;
	/* What is being unmapped may take windows away: see then. */
	if (want->bme && !have->bme && !now.unmapping)
		return DLEND_STEP_BME_ON;
	return DLEND_STEP_NONE;
}

bool dlend_plan_settled(struct dlend_situation now, const struct dlend_wish *want,
			const struct dlend_wish *have)
{
	return now.leased && !now.failed &&
	       have->reset == want->reset && have->bme == want->bme &&
	       irq_settled(want, have) &&
	       (!want->bme || (have->build == want->build && !now.unmapping));
}

int dlend_plan_beside(struct dlend_beside other)
{
	if (other.leased || other.borrowing)
		return other.same_vm ? 0 : -EBUSY;
	return other.leases ? -EAGAIN : 0;
}
