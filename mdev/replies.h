/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a lender's reply means for a borrowed device.  Pure logic: no locks, no messages;
 * mdev/steps.c and mdev/move_steps.c ask, and note the replies by this.  Context of all functions:
 * any.
 *
 * A reply may come late: the guest, its VMM or the VM's way from host to host may have changed what
 * is wanted meanwhile.  So the asker takes a copy of the wishes before it asks (@asked), and the
 * reply is decided against the state that asked.  What the lender has done by then is noted as it
 * is; but that it was enough, or that it failed, counts only if what is wanted is still the same.
 * Functions that return bool say whether a failure is the device's: if not, it is over for another
 * reason, or the next step asks anew.
 */
#ifndef DLEND_MDEV_REPLIES_H
#define DLEND_MDEV_REPLIES_H

#include "borrow_plan.h"

/* No wish for Max_Read_Request_Size equals it: the lender is told once more. */
#define DLEND_READRQ_UNKNOWN	0xffffffffu

/**
 * dlend_reply_wanted - is the VM that a lease was asked for still the one to have it?
 * @want: (in) now; @asked: (in) when it was asked
 *
 * If not, a grant is given back, and a refusal means nothing.
 */
bool dlend_reply_wanted(const struct dlend_wish *want, const struct dlend_wish *asked);

/** dlend_reply_granted - a lease begins: @have = what the lender knows. @readrq: after a reset */
void dlend_reply_granted(const struct dlend_wish *asked, struct dlend_wish *have, u32 readrq);

/** dlend_reply_taken - DLEND_STEP_TAKE_OVER, whether the device was given or not */
void dlend_reply_taken(struct dlend_wish *have);

/** dlend_reply_bus_master - DLEND_STEP_BME_ON, DLEND_STEP_BME_OFF; @err: 0 or -errno */
bool dlend_reply_bus_master(const struct dlend_wish *want, const struct dlend_wish *asked,
			    struct dlend_wish *have, bool on, int err);

/** dlend_reply_reset - DLEND_STEP_RESET; @readrq: as after a reset */
bool dlend_reply_reset(const struct dlend_wish *want, const struct dlend_wish *asked,
		       struct dlend_wish *have, u32 readrq, int err);

/** dlend_reply_irq_same - are these the interrupts that were asked for? */
bool dlend_reply_irq_same(const struct dlend_wish *want, const struct dlend_wish *asked);

/** dlend_reply_irq - DLEND_STEP_IRQ; -ENOSPC: too few vectors, which is no failure */
bool dlend_reply_irq(const struct dlend_wish *want, const struct dlend_wish *asked,
		     struct dlend_wish *have, int err);

/** dlend_reply_quiesced - DLEND_STEP_QUIESCE; @drained: nothing was under way, or may be cut off */
void dlend_reply_quiesced(const struct dlend_wish *asked, struct dlend_wish *have, bool drained,
			  int err);

/** dlend_reply_ran - DLEND_STEP_RUN */
bool dlend_reply_ran(const struct dlend_wish *want, const struct dlend_wish *asked,
		     struct dlend_wish *have, int err);

/**
 * dlend_reply_named - DLEND_STEP_MOVE_TO
 * @want: (in, out) after a refusal nobody is to take the device over, and the lender is told so: it
 *	may have done what it has not answered
 * @asked: (in) when it was asked; @have: (in, out) what the lender was told
 * @told: (in, out) how it went, for who named the node: the first error stays until the next one is
 *	named
 * @err: (in) 0 or -errno
 *
 * Return: true: a node was refused, and is still wanted.
 */
bool dlend_reply_named(struct dlend_wish *want, const struct dlend_wish *asked,
		       struct dlend_wish *have, int *told, int err);

#endif
