// SPDX-License-Identifier: GPL-2.0
/*
 * The next step of a borrowed device: see borrow_plan.h.
 *
 * Pure logic: knows nothing of locks, messages or memory.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include "borrow_plan.h"

bool dlend_plan_irq_settled(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->irq_mode == want->irq_mode && have->irq_count == want->irq_count &&
	       have->irq_turn == want->irq_turn;
}

static bool dlend_plan_windows_due(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->build != want->build || have->rescan != want->rescan ||
	       have->grow != want->grow;
}

/* The VM is on its way: its memory is mapped before it comes, and nothing else is done. */
static enum dlend_step dlend_plan_coming(struct dlend_situation now, const struct dlend_wish *want,
					 const struct dlend_wish *have)
{
	if (!now.leased)
		return now.refused ? DLEND_STEP_NONE : DLEND_STEP_STANDBY;
	if (want->taken)
		return DLEND_STEP_TAKE_OVER;
	return dlend_plan_windows_due(want, have) ? DLEND_STEP_BUILD : DLEND_STEP_NONE;
}

bool dlend_plan_move_told(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->move_to == want->move_to && have->cut == want->cut &&
	       (have->named == want->named || want->move_to == DLEND_NODE_NONE);
}

bool dlend_plan_move_settled(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->quiet == want->quiet && (!want->quiet || have->turn == want->turn);
}

bool dlend_plan_may_leave(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return want->quiet && !have->loud && dlend_plan_move_settled(want, have);
}

/* The VM stands still, or goes on. DLEND_STEP_NONE: that is settled. */
static enum dlend_step dlend_plan_moving(const struct dlend_wish *want,
					 const struct dlend_wish *have)
{
	if (!dlend_plan_move_settled(want, have))
		return want->quiet ? DLEND_STEP_QUIESCE : DLEND_STEP_RUN;
	return dlend_plan_move_told(want, have) ? DLEND_STEP_NONE : DLEND_STEP_MOVE_TO;
}

enum dlend_step dlend_plan_step(struct dlend_situation now, const struct dlend_wish *want,
				const struct dlend_wish *have)
{
	enum dlend_step step;

	if (!now.open)
		return DLEND_STEP_NONE;
	if (now.coming)
		return dlend_plan_coming(now, want, have);
	if (now.failed)
		return now.leased && have->bme ? DLEND_STEP_BME_OFF : DLEND_STEP_NONE;
	/* While it stands still it needs none, and may be another host's by now. */
	if (!now.leased && want->quiet)
		return DLEND_STEP_NONE;
	if (!now.leased)
		return want->bme || now.touched || now.prepin ? DLEND_STEP_BORROW :
								DLEND_STEP_NONE;
	if (have->reset != want->reset)
		return DLEND_STEP_RESET;
	step = dlend_plan_moving(want, have);
	if (step != DLEND_STEP_NONE)
		return step;
	/* It does nothing, and what it is to do next may be another host's business. */
	if (want->quiet)
		return DLEND_STEP_NONE;
	if (!want->bme && have->bme)
		return DLEND_STEP_BME_OFF;
	if (have->enable != want->enable)
		return DLEND_STEP_ENABLE;
	if (!dlend_plan_irq_settled(want, have))
		return DLEND_STEP_IRQ;
	if (have->readrq != want->readrq)
		return DLEND_STEP_READRQ;
	if ((want->bme || now.prepin) && dlend_plan_windows_due(want, have))
		return DLEND_STEP_BUILD;
	/* A dma_unmap under way may take windows away: decide when it is over. */
	if (want->bme && !have->bme && !now.unmapping && !now.held)
		return DLEND_STEP_BME_ON;
	return DLEND_STEP_NONE;
}

bool dlend_plan_urgent(struct dlend_situation now, const struct dlend_wish *want,
		       const struct dlend_wish *have)
{
	switch (dlend_plan_step(now, want, have)) {
	case DLEND_STEP_RESET:
	case DLEND_STEP_BME_OFF:
	case DLEND_STEP_ENABLE:
	case DLEND_STEP_IRQ:
	case DLEND_STEP_QUIESCE:
	case DLEND_STEP_RUN:
	case DLEND_STEP_TAKE_OVER:
	case DLEND_STEP_MOVE_TO:
		return true;
	default:
		return false;
	}
}

/* Configuration space answers, whether the device is turned on or not. */
static bool dlend_plan_answers(struct dlend_situation now, const struct dlend_wish *want,
			       const struct dlend_wish *have)
{
	return now.leased && !now.failed && !now.coming && have->reset == want->reset;
}

bool dlend_plan_readable(struct dlend_situation now, const struct dlend_wish *want,
			 const struct dlend_wish *have)
{
	return dlend_plan_answers(now, want, have) && have->enable == want->enable;
}

enum dlend_live dlend_plan_live(struct dlend_situation now, const struct dlend_wish *want,
				const struct dlend_wish *have)
{
	if (dlend_plan_answers(now, want, have))
		return want->quiet || have->quiet ? DLEND_LIVE_NO : DLEND_LIVE_NOW;
	switch (dlend_plan_step(now, want, have)) {
	case DLEND_STEP_BORROW:
		return DLEND_LIVE_SOON;
	case DLEND_STEP_RESET:
		return DLEND_LIVE_RESET;
	default:
		return DLEND_LIVE_NO;
	}
}

bool dlend_plan_settled(struct dlend_situation now, const struct dlend_wish *want,
			const struct dlend_wish *have)
{
	return dlend_plan_readable(now, want, have) && !want->quiet && !have->quiet &&
	       have->bme == want->bme &&
	       dlend_plan_irq_settled(want, have) &&
	       (!want->bme || (have->build == want->build && have->grow == want->grow &&
			       !now.unmapping));
}

enum dlend_verdict dlend_plan_verdict(const struct dlend_wish *want, const struct dlend_wish *have,
				      int err, bool overdue)
{
	bool stood = err != -ENOTCONN && have->build == want->build;

	if (!err)
		return DLEND_VERDICT_STANDS;
	if (err == -EAGAIN && !overdue)
		return DLEND_VERDICT_AGAIN;
	if (stood && have->grow == want->grow)
		return DLEND_VERDICT_KEEP;
	return stood && !overdue ? DLEND_VERDICT_AGAIN : DLEND_VERDICT_FAIL;
}

bool dlend_plan_behind(const struct dlend_wish *want, const struct dlend_wish *have, bool dma)
{
	return dma && have->grow != want->grow && have->build == want->build;
}

bool dlend_plan_overdue(struct dlend_patience *p, u64 progress, s64 now_ms, s64 limit_ms)
{
	if (!p->begun || progress > p->most) {
		p->begun = true;
		p->most = progress;
		p->since_ms = now_ms;
	}
	return now_ms - p->since_ms > limit_ms;
}

bool dlend_plan_gate_overdue(s64 now_ms, s64 shut_ms, s64 progress_ms, s64 limit_ms)
{
	return now_ms - max(shut_ms, progress_ms) >= limit_ms;
}
