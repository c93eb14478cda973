// SPDX-License-Identifier: GPL-2.0
/*
 * The plan of a borrowed device: its next step, and what replies mean.  See plan.h.
 *
 * Pure logic: must not know locks, messages or memory.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include "plan.h"

static bool dlend_plan_irq_settled(const struct dlend_state *desired,
				   const struct dlend_state *actual)
{
	return actual->irq_mode == desired->irq_mode && actual->irq_count == desired->irq_count &&
	       actual->irq_turn == desired->irq_turn;
}

static bool dlend_plan_windows_due(const struct dlend_state *desired,
				   const struct dlend_state *actual)
{
	return actual->build != desired->build || actual->rescan != desired->rescan ||
	       actual->grow != desired->grow;
}

/* The VM is moving to this host: before it has come, only its memory is mapped. */
static enum dlend_step dlend_plan_coming(struct dlend_situation now,
					 const struct dlend_state *desired,
					 const struct dlend_state *actual)
{
	if (!now.leased)
		return now.refused ? DLEND_STEP_NONE : DLEND_STEP_STANDBY;
	if (desired->taken)
		return DLEND_STEP_TAKE_OVER;
	return dlend_plan_windows_due(desired, actual) ? DLEND_STEP_BUILD : DLEND_STEP_NONE;
}

/* DLEND_NODE_NONE need not be told twice: after it, no node may take the device over. */
static bool dlend_plan_move_told(const struct dlend_state *desired,
				 const struct dlend_state *actual)
{
	return actual->move_to == desired->move_to && actual->forced == desired->forced &&
	       (actual->named == desired->named || desired->move_to == DLEND_NODE_NONE);
}

static bool dlend_plan_move_settled(const struct dlend_state *desired,
				    const struct dlend_state *actual)
{
	return actual->quiesced == desired->quiesced && (!desired->quiesced ||
							 actual->turn == desired->turn);
}

bool dlend_plan_may_leave(const struct dlend_state *desired, const struct dlend_state *actual)
{
	return desired->quiesced && !actual->loud && dlend_plan_move_settled(desired, actual);
}

/* Return: the step that is due because the VM stands still, goes on, or may move, or NONE. */
static enum dlend_step dlend_plan_moving(const struct dlend_state *desired,
					 const struct dlend_state *actual)
{
	if (!dlend_plan_move_settled(desired, actual))
		return desired->quiesced ? DLEND_STEP_QUIESCE : DLEND_STEP_RUN;
	return dlend_plan_move_told(desired, actual) ? DLEND_STEP_NONE : DLEND_STEP_MOVE_TO;
}

static enum dlend_step dlend_plan_step(struct dlend_situation now,
				       const struct dlend_state *desired,
				       const struct dlend_state *actual)
{
	enum dlend_step step;

	if (!now.open)
		return DLEND_STEP_NONE;
	if (now.coming)
		return dlend_plan_coming(now, desired, actual);
	if (now.failed)
		return now.leased && actual->bme ? DLEND_STEP_BME_OFF : DLEND_STEP_NONE;
	/* A VM that stands still needs no lease, and may have gone to another host. */
	if (!now.leased && desired->quiesced)
		return DLEND_STEP_NONE;
	if (!now.leased)
		return desired->bme || now.touched || now.prepin ? DLEND_STEP_BORROW :
								DLEND_STEP_NONE;
	if (actual->reset != desired->reset)
		return DLEND_STEP_RESET;
	step = dlend_plan_moving(desired, actual);
	if (step != DLEND_STEP_NONE)
		return step;
	/* The device is stopped, and the next step for it may be made by another host. */
	if (desired->quiesced)
		return DLEND_STEP_NONE;
	if (!desired->bme && actual->bme)
		return DLEND_STEP_BME_OFF;
	if (actual->enable != desired->enable)
		return DLEND_STEP_ENABLE;
	if (!dlend_plan_irq_settled(desired, actual))
		return DLEND_STEP_IRQ;
	if (actual->readrq != desired->readrq)
		return DLEND_STEP_READRQ;
	if ((desired->bme || now.prepin) && dlend_plan_windows_due(desired, actual))
		return DLEND_STEP_BUILD;
	/* A dma_unmap under way may remove DMA mappings: decide after its end. */
	if (desired->bme && !actual->bme && !now.unmapping && !now.held)
		return DLEND_STEP_BME_ON;
	return DLEND_STEP_NONE;
}

/* Steps that a running build gives way to */
#define DLEND_PLAN_URGENT	(BIT(DLEND_STEP_RESET) | BIT(DLEND_STEP_BME_OFF) |	\
				 BIT(DLEND_STEP_ENABLE) | BIT(DLEND_STEP_IRQ) |		\
				 BIT(DLEND_STEP_QUIESCE) | BIT(DLEND_STEP_RUN) |	\
				 BIT(DLEND_STEP_TAKE_OVER) | BIT(DLEND_STEP_MOVE_TO))

/* @answers: the device is leased and reset as wanted; @still: the VM stands still */
static enum dlend_live dlend_plan_live(enum dlend_step next, bool answers, bool still)
{
	if (answers)
		return still ? DLEND_LIVE_NO : DLEND_LIVE_NOW;
	if (next == DLEND_STEP_BORROW)
		return DLEND_LIVE_SOON;
	return next == DLEND_STEP_RESET ? DLEND_LIVE_RESET : DLEND_LIVE_NO;
}

/* @settled: the actual state is the desired one; @readable: a trapped read may go through */
static enum dlend_gate dlend_plan_gate(bool failed, bool settled, bool readable)
{
	if (failed)
		return DLEND_GATE_DEAD;
	if (settled)
		return DLEND_GATE_OPEN;
	return readable ? DLEND_GATE_READ : DLEND_GATE_SHUT;
}

struct dlend_conditions dlend_plan(struct dlend_situation now, const struct dlend_state *desired,
				   const struct dlend_state *actual)
{
	enum dlend_step next = dlend_plan_step(now, desired, actual);
	bool inactive = !now.leased || now.failed, still = desired->quiesced || actual->quiesced;
	bool answers = !inactive && !now.coming && actual->reset == desired->reset;
	bool readable = answers && actual->enable == desired->enable;
	bool stands = actual->build == desired->build && actual->grow == desired->grow &&
		      !now.unmapping;
	bool irqs = dlend_plan_irq_settled(desired, actual), urgent = BIT(next) & DLEND_PLAN_URGENT;
	bool settled = readable && !now.looking && !still && actual->bme == desired->bme && irqs &&
		       (!desired->bme || stands);

	return (struct dlend_conditions){
		.next = next,
		.gate = dlend_plan_gate(now.failed, settled, readable),
		.live = dlend_plan_live(next, answers, still),
		.urgent = urgent,
		.quiesced = !now.dma || (actual->bme && !urgent),
		.behind = now.dma && actual->grow != desired->grow &&
			  actual->build == desired->build,
		.looks = now.open && actual->bme && settled,
		/* None is set up while the VM belongs to another host, or stands still. */
		.irq_busy = !irqs && !now.coming && !desired->quiesced && !now.failed &&
			    (now.leased || now.borrowing || next == DLEND_STEP_BORROW),
		.move_settled = inactive || dlend_plan_move_settled(desired, actual),
		.move_told = inactive || dlend_plan_move_told(desired, actual),
		.ready = !inactive && next == DLEND_STEP_NONE,
	};
}

enum dlend_verdict dlend_plan_verdict(const struct dlend_state *desired,
				      const struct dlend_state *actual,
				      int err, bool overdue)
{
	/* Were the mappings complete, and still are?  They are gone with the session. */
	bool stood = err != -ENOTCONN && actual->build == desired->build;

	if (!err)
		return DLEND_VERDICT_STANDS;
	if (err == -EAGAIN && !overdue)
		return DLEND_VERDICT_AGAIN;
	if (stood && actual->grow == desired->grow)
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

bool dlend_reply_wanted(const struct dlend_state *desired, const struct dlend_state *asked)
{
	return desired->vm == asked->vm;
}

void dlend_reply_granted(const struct dlend_state *asked, struct dlend_state *actual, u32 readrq)
{
	*actual = (struct dlend_state){
		.vm = asked->vm,
		.turn = asked->turn,
		.reset = asked->reset,
		.enable = asked->enable,
		.build = asked->build - 1,	/* so that a build is due */
		.rescan = asked->rescan,
		.grow = asked->grow,
		.irq_mode = DLEND_IRQ_NONE,
		.irq_turn = asked->irq_turn,
		.readrq = readrq,
		.move_to = DLEND_NODE_NONE,
	};
}

void dlend_reply_taken(struct dlend_state *actual)
{
	actual->bme = false;
	actual->irq_mode = DLEND_IRQ_NONE;
	actual->irq_count = 0;
	actual->readrq = DLEND_READRQ_UNKNOWN;
}

/*
 * Does the failure of a request mean that the device has failed?  Not if the device was closed or
 * is to be reset since: the reset mends what failed, or fails itself.
 */
static bool dlend_reply_fails(const struct dlend_state *desired, const struct dlend_state *asked,
			      int err)
{
	return err && desired->vm == asked->vm && desired->reset == asked->reset;
}

bool dlend_reply_bus_master(const struct dlend_state *desired, const struct dlend_state *asked,
			    struct dlend_state *actual, bool on, int err)
{
	/* If the request fails, the lender fences the device.  Never ask in a loop. */
	actual->bme = on && !err;
	actual->loud = actual->loud && !actual->bme;
	return dlend_reply_fails(desired, asked, err);
}

bool dlend_reply_reset(const struct dlend_state *desired, const struct dlend_state *asked,
		       struct dlend_state *actual, u32 readrq, int err)
{
	actual->reset = asked->reset;
	/* A VM whose guest resets the device goes on here: the reset has ended the quiesce. */
	actual->quiesced = actual->quiesced && err;
	actual->loud = actual->loud && err;
	/* A reset that failed may leave the bit on: the next step of a failed device is BME_OFF. */
	actual->bme = actual->bme && err;
	actual->irq_mode = DLEND_IRQ_NONE;
	actual->irq_count = 0;
	actual->irq_turn = asked->irq_turn;
	actual->readrq = readrq;
	return dlend_reply_fails(desired, asked, err);
}

bool dlend_reply_irq_same(const struct dlend_state *desired, const struct dlend_state *asked)
{
	return desired->irq_mode == asked->irq_mode && desired->irq_count == asked->irq_count;
}

bool dlend_reply_irq(const struct dlend_state *desired, const struct dlend_state *asked,
		     struct dlend_state *actual, int err)
{
	actual->irq_mode = err ? DLEND_IRQ_NONE : asked->irq_mode;
	actual->irq_count = err ? 0 : asked->irq_count;
	actual->irq_turn = asked->irq_turn;
	return err != -ENOSPC && dlend_reply_irq_same(desired, asked) &&
	       dlend_reply_fails(desired, asked, err);
}

void dlend_reply_quiesced(const struct dlend_state *asked, struct dlend_state *actual, bool drained,
			  int err)
{
	actual->bme = false;
	actual->quiesced = true;
	actual->turn = asked->turn;
	/* A device that was stopped at work stays "loud" until Bus Master Enable is on again. */
	actual->loud = actual->loud || err || !drained;
}

bool dlend_reply_ran(const struct dlend_state *desired, const struct dlend_state *asked,
		     struct dlend_state *actual, int err)
{
	actual->quiesced = false;
	/* If the VM stands still again, a failure shows when the VM goes on next. */
	return desired->turn == asked->turn && dlend_reply_fails(desired, asked, err);
}

bool dlend_reply_named(struct dlend_state *desired, const struct dlend_state *asked,
		       struct dlend_state *actual, int *told, int err)
{
	actual->move_to = asked->move_to;
	actual->forced = asked->forced;
	actual->named = asked->named;
	if (!err || desired->named != asked->named)
		return false;
	*told = *told ?: err;
	desired->move_to = DLEND_NODE_NONE;
	desired->forced = false;
	return asked->move_to != DLEND_NODE_NONE;
}
