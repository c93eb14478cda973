// SPDX-License-Identifier: GPL-2.0
/*
 * What a lender's reply means for a borrowed device: see replies.h.
 *
 * Pure logic: knows nothing of locks, messages or memory.
 */
#include <linux/errno.h>
#include "replies.h"

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

/* A reset that was asked for meanwhile makes good for a failure, or fails itself. */
static bool dlend_reply_fails(const struct dlend_wish *want, const struct dlend_wish *asked,
			      int err)
{
	return err && want->vm == asked->vm && want->reset == asked->reset;
}

bool dlend_reply_bus_master(const struct dlend_wish *want, const struct dlend_wish *asked,
			    struct dlend_wish *have, bool on, int err)
{
	/* If the request fails, the lender fences the device; never ask in a loop. */
	have->bme = on && !err;
	have->loud = have->loud && !have->bme;
	return dlend_reply_fails(want, asked, err);
}

bool dlend_reply_reset(const struct dlend_wish *want, const struct dlend_wish *asked,
		       struct dlend_wish *have, u32 readrq, int err)
{
	have->reset = asked->reset;
	/* A guest that resets its device goes on here: the lender takes it so, too. */
	have->quiet = have->quiet && err;
	have->loud = have->loud && err;
	/* If the reset failed, nobody knows about the bit: the failure turns it off. */
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
	/* Stopped at work, it is silent, and not done, until it transfers again. */
	have->loud = have->loud || err || !drained;
}

bool dlend_reply_ran(const struct dlend_wish *want, const struct dlend_wish *asked,
		     struct dlend_wish *have, int err)
{
	have->quiet = false;
	/* If it stands still again, it is not told to go on, and learns why when it does. */
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
