// SPDX-License-Identifier: GPL-2.0
/*
 * The plan of a borrowed device: its next step, and what replies mean.  See plan.h.
 *
 * Pure logic: it knows nothing of locks, messages or memory.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include "plan.h"

static bool dlend_plan_irq_settled(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->irq_mode == want->irq_mode && have->irq_count == want->irq_count &&
	       have->irq_turn == want->irq_turn;
}

static bool dlend_plan_windows_due(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->build != want->build || have->rescan != want->rescan ||
	       have->grow != want->grow;
}

/* The VM is on its way: only its memory is mapped before it has come. */
static enum dlend_step dlend_plan_coming(struct dlend_situation now, const struct dlend_wish *want,
					 const struct dlend_wish *have)
{
	if (!now.leased)
		return now.refused ? DLEND_STEP_NONE : DLEND_STEP_STANDBY;
	if (want->taken)
		return DLEND_STEP_TAKE_OVER;
	return dlend_plan_windows_due(want, have) ? DLEND_STEP_BUILD : DLEND_STEP_NONE;
}

static bool dlend_plan_move_told(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->move_to == want->move_to && have->cut == want->cut &&
	       (have->named == want->named || want->move_to == DLEND_NODE_NONE);
}

static bool dlend_plan_move_settled(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return have->quiet == want->quiet && (!want->quiet || have->turn == want->turn);
}

bool dlend_plan_may_leave(const struct dlend_wish *want, const struct dlend_wish *have)
{
	return want->quiet && !have->loud && dlend_plan_move_settled(want, have);
}

/* Return: the step for a VM that stands still or goes on; DLEND_STEP_NONE: there is none. */
static enum dlend_step dlend_plan_moving(const struct dlend_wish *want,
					 const struct dlend_wish *have)
{
	if (!dlend_plan_move_settled(want, have))
		return want->quiet ? DLEND_STEP_QUIESCE : DLEND_STEP_RUN;
	return dlend_plan_move_told(want, have) ? DLEND_STEP_NONE : DLEND_STEP_MOVE_TO;
}

static enum dlend_step dlend_plan_step(struct dlend_situation now, const struct dlend_wish *want,
				       const struct dlend_wish *have)
{
	enum dlend_step step;

	if (!now.open)
		return DLEND_STEP_NONE;
	if (now.coming)
		return dlend_plan_coming(now, want, have);
	if (now.failed)
		return now.leased && have->bme ? DLEND_STEP_BME_OFF : DLEND_STEP_NONE;
	/* A VM that stands still needs no lease, and may have gone to another host. */
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
	/* The device does nothing, and its next step may be another host's. */
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
	/* A dma_unmap under way may take windows away: decide after it. */
	if (want->bme && !have->bme && !now.unmapping && !now.held)
		return DLEND_STEP_BME_ON;
	return DLEND_STEP_NONE;
}

/* Steps that a build gives way to */
#define DLEND_PLAN_URGENT	(BIT(DLEND_STEP_RESET) | BIT(DLEND_STEP_BME_OFF) |	\
				 BIT(DLEND_STEP_ENABLE) | BIT(DLEND_STEP_IRQ) |		\
				 BIT(DLEND_STEP_QUIESCE) | BIT(DLEND_STEP_RUN) |	\
				 BIT(DLEND_STEP_TAKE_OVER) | BIT(DLEND_STEP_MOVE_TO))

/* @answers: the device's configuration space does; @still: the VM stands still */
static enum dlend_live dlend_plan_live(enum dlend_step next, bool answers, bool still)
{
	if (answers)
		return still ? DLEND_LIVE_NO : DLEND_LIVE_NOW;
	if (next == DLEND_STEP_BORROW)
		return DLEND_LIVE_SOON;
	return next == DLEND_STEP_RESET ? DLEND_LIVE_RESET : DLEND_LIVE_NO;
}

/* @settled: all is as wanted; @readable: a read may go through */
static enum dlend_gate dlend_plan_gate(bool failed, bool settled, bool readable)
{
	if (failed)
		return DLEND_GATE_DEAD;
	if (settled)
		return DLEND_GATE_OPEN;
	return readable ? DLEND_GATE_READ : DLEND_GATE_SHUT;
}

struct dlend_conditions dlend_plan(struct dlend_situation now, const struct dlend_wish *want,
				   const struct dlend_wish *have)
{
	enum dlend_step next = dlend_plan_step(now, want, have);
	bool mute = !now.leased || now.failed, still = want->quiet || have->quiet;
	bool answers = !mute && !now.coming && have->reset == want->reset;
	bool readable = answers && have->enable == want->enable;
	bool stands = have->build == want->build && have->grow == want->grow && !now.unmapping;
	bool irqs = dlend_plan_irq_settled(want, have), urgent = BIT(next) & DLEND_PLAN_URGENT;
	bool settled = readable && !now.looking && !still && have->bme == want->bme && irqs &&
		       (!want->bme || stands);

	return (struct dlend_conditions){
		.next = next,
		.gate = dlend_plan_gate(now.failed, settled, readable),
		.live = dlend_plan_live(next, answers, still),
		.urgent = urgent,
		.quiet = !now.dma || (have->bme && !urgent),
		.behind = now.dma && have->grow != want->grow && have->build == want->build,
		.looks = now.open && have->bme && settled,
		/* Nothing is set up while the VM is another host's, or stands still. */
		.irq_busy = !irqs && !now.coming && !want->quiet && !now.failed &&
			    (now.leased || now.borrowing || next == DLEND_STEP_BORROW),
		.move_settled = mute || dlend_plan_move_settled(want, have),
		.move_told = mute || dlend_plan_move_told(want, have),
		.ready = !mute && next == DLEND_STEP_NONE,
	};
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

bool dlend_plan_overdue(struct dlend_patience *p, u64 progress, s64 now, s64 limit)
{
	if (!p->pause_ms || progress > p->most) {
		p->most = progress;
		p->since = now;
	}
	p->pause_ms = clamp(p->pause_ms * 2, DLEND_PAUSE_MIN_MS, DLEND_PAUSE_MAX_MS);
	return now - p->since > limit;
}

bool dlend_plan_gate_overdue(s64 now, s64 shut, s64 progress, s64 limit)
{
	return now - max(shut, progress) >= limit;
}

/* Replies */

bool dlend_reply_wanted(const struct dlend_wish *want, const struct dlend_wish *asked)
{
	return want->vm == asked->vm;
}

void dlend_reply_granted(const struct dlend_wish *asked, struct dlend_wish *have, u32 readrq)
{
	*have = (struct dlend_wish){
		.vm = asked->vm,
		.turn = asked->turn,
		.reset = asked->reset,
		.enable = asked->enable,
		.build = asked->build - 1,
		.rescan = asked->rescan,
		.grow = asked->grow,
		.irq_mode = DLEND_IRQ_NONE,
		.irq_turn = asked->irq_turn,
		.readrq = readrq,
		.move_to = DLEND_NODE_NONE,
	};
}

void dlend_reply_taken(struct dlend_wish *have)
{
	have->bme = false;
	have->irq_mode = DLEND_IRQ_NONE;
	have->irq_count = 0;
	have->readrq = DLEND_READRQ_UNKNOWN;
}

/* A failure does not count if a reset was asked for since: that mends it, or fails itself. */
static bool dlend_reply_fails(const struct dlend_wish *want, const struct dlend_wish *asked,
			      int err)
{
	return err && want->vm == asked->vm && want->reset == asked->reset;
}

bool dlend_reply_bus_master(const struct dlend_wish *want, const struct dlend_wish *asked,
			    struct dlend_wish *have, bool on, int err)
{
	/* If the request fails, the lender fences the device.  Never ask in a loop. */
	have->bme = on && !err;
	have->loud = have->loud && !have->bme;
	return dlend_reply_fails(want, asked, err);
}

bool dlend_reply_reset(const struct dlend_wish *want, const struct dlend_wish *asked,
		       struct dlend_wish *have, u32 readrq, int err)
{
	have->reset = asked->reset;
	/* A guest that resets its device goes on here.  The lender sees it like that, too. */
	have->quiet = have->quiet && err;
	have->loud = have->loud && err;
	/* A reset that failed may leave the bit on: the next step of a failed device is off. */
	have->bme = have->bme && err;
	have->irq_mode = DLEND_IRQ_NONE;
	have->irq_count = 0;
	have->irq_turn = asked->irq_turn;
	have->readrq = readrq;
	return dlend_reply_fails(want, asked, err);
}

bool dlend_reply_irq_same(const struct dlend_wish *want, const struct dlend_wish *asked)
{
	return want->irq_mode == asked->irq_mode && want->irq_count == asked->irq_count;
}

bool dlend_reply_irq(const struct dlend_wish *want, const struct dlend_wish *asked,
		     struct dlend_wish *have, int err)
{
	have->irq_mode = err ? DLEND_IRQ_NONE : asked->irq_mode;
	have->irq_count = err ? 0 : asked->irq_count;
	have->irq_turn = asked->irq_turn;
	return err != -ENOSPC && dlend_reply_irq_same(want, asked) &&
	       dlend_reply_fails(want, asked, err);
}

void dlend_reply_quiesced(const struct dlend_wish *asked, struct dlend_wish *have, bool drained,
			  int err)
{
	have->bme = false;
	have->quiet = true;
	have->turn = asked->turn;
	/* A device that was stopped at work has not done its work until it transfers again. */
	have->loud = have->loud || err || !drained;
}

bool dlend_reply_ran(const struct dlend_wish *want, const struct dlend_wish *asked,
		     struct dlend_wish *have, int err)
{
	have->quiet = false;
	/* If the VM stands still again, a failure shows when it goes on next. */
	return want->turn == asked->turn && dlend_reply_fails(want, asked, err);
}

bool dlend_reply_named(struct dlend_wish *want, const struct dlend_wish *asked,
		       struct dlend_wish *have, int *told, int err)
{
	have->move_to = asked->move_to;
	have->cut = asked->cut;
	have->named = asked->named;
	if (!err || want->named != asked->named)
		return false;
	*told = *told ?: err;
	want->move_to = DLEND_NODE_NONE;
	want->cut = false;
	return asked->move_to != DLEND_NODE_NONE;
}
