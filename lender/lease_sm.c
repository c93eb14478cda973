// SPDX-License-Identifier: GPL-2.0
/*
 * Who has a group of functions: the lease as a state machine, pure logic.
 *
 *              OFFER            BORROW                RETURN (last), REVOKE, LINK_LOST
 *      GONE ----------> FREE ------------> HELD -------------------> RETURNING
 *        ^              ^  ^ |                                         |    |
 *        |              |  | +---- BROKEN -----> QUARANTINED <----------|----+ FENCE_FAILED
 *        |              |  +------ OFFER -------------+                 |
 *        |              +--------------------------- FENCED ------------+
 *        +---- UNBIND, from every state; INCOMPLETE, from FREE
 *
 * OFFER leads out of QUARANTINED only if nobody had the function whose reset failed, and its next
 * reset succeeded.  If the reset after a lease failed, the device may still hold what the borrower
 * left in it, so the group stays quarantined.
 *
 * UNBIND leads to GONE at once, also out of HELD, because nobody may borrow while a function is
 * missing.  The end of the fence that UNBIND asks for must be reported before an OFFER is taken.
 *
 * Knows no device, no lock and no clock.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>

#include "lender/lease_sm.h"

u32 lend_epoch_first(u32 floor, s64 seconds)
{
	u32 now = (u32)seconds << 3;

	return floor && dlend_epoch_after(floor, now) ? floor : now;
}

static bool lend_lease_is_user(const struct lend_lease *lease, unsigned int fn)
{
	return fn < LEND_GROUP_MAX && (lease->users & BIT_ULL(fn));
}

void lend_lease_init(struct lend_lease *lease, u32 epoch)
{
	*lease = (struct lend_lease){ .state = DLEND_OFFER_GONE, .epoch = epoch };
}

int lend_lease_check(const struct lend_lease *lease, u16 node, u32 epoch, unsigned int fn)
{
	if (lease->state != DLEND_OFFER_HELD || lease->holder != node || lease->epoch != epoch ||
	    !lend_lease_is_user(lease, fn))
		return -ESTALE;
	return 0;
}

static int lend_lease_on_offer(struct lend_lease *lease, u32 *todo)
{
	enum dlend_offer_state next = lease->failed ? DLEND_OFFER_QUARANTINED : DLEND_OFFER_FREE;

	if (lease->state != DLEND_OFFER_GONE && lease->state != DLEND_OFFER_QUARANTINED)
		return -EALREADY;
	if (lease->fencing)
		return -EAGAIN;
	if (lease->state == next)
		return -EALREADY;
	lease->state = next;
	*todo = LEND_DO_TELL;
	return 0;
}

/* While somebody has the group, or has just had it, the end of the fence decides instead. */
static int lend_lease_on_broken(struct lend_lease *lease, u32 *todo)
{
	if (lease->state != DLEND_OFFER_GONE && lease->state != DLEND_OFFER_FREE)
		return -EALREADY;
	if (lease->fencing)
		return -EAGAIN;
	lease->state = DLEND_OFFER_QUARANTINED;
	*todo = LEND_DO_TELL;
	return 0;
}

static int lend_lease_on_borrow(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (ev->fn >= LEND_GROUP_MAX || ev->node == DLEND_NODE_NONE)
		return -EINVAL;

	switch (lease->state) {
	case DLEND_OFFER_FREE:
		/* 0 means "no lease" on the wire. */
		if (!++lease->epoch)
			lease->epoch = 1;
		lease->state = DLEND_OFFER_HELD;
		lease->holder = ev->node;
		lease->users = BIT_ULL(ev->fn);
		*todo = LEND_DO_GRANT | LEND_DO_TELL;
		return 0;
	case DLEND_OFFER_HELD:
		if (lease->holder != ev->node || lend_lease_is_user(lease, ev->fn))
			return -EBUSY;
		lease->users |= BIT_ULL(ev->fn);
		*todo = LEND_DO_JOIN;
		return 0;
	case DLEND_OFFER_RETURNING:
		return -EAGAIN;
	case DLEND_OFFER_QUARANTINED:
		return -EIO;
	default:
		return -ENODEV;
	}
}

static int lend_lease_on_return(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (lease->state == DLEND_OFFER_HELD && lease->epoch == ev->epoch) {
		if (lease->holder != ev->node)
			return -ESTALE;
		if (!lend_lease_is_user(lease, ev->fn))
			return -EALREADY;
		lease->users &= ~BIT_ULL(ev->fn);
		*todo = LEND_DO_LEAVE;
		if (lease->users)
			return 0;
		lease->state = DLEND_OFFER_RETURNING;
		lease->fencing = true;
		*todo = LEND_DO_FENCE | LEND_DO_TELL;
		return 0;
	}
	/* A late or repeated return of a lease that is over needs nothing any more. */
	return dlend_epoch_after(ev->epoch, lease->epoch) ? -ESTALE : -EALREADY;
}

/* The lease ends without its holder having asked. */
static int lend_lease_on_revoke(struct lend_lease *lease, u32 *todo)
{
	if (lease->state != DLEND_OFFER_HELD)
		return -EALREADY;
	lease->state = DLEND_OFFER_RETURNING;
	lease->users = 0;
	lease->fencing = true;
	*todo = LEND_DO_FENCE | LEND_DO_TELL;
	return 0;
}

static int lend_lease_on_fenced(struct lend_lease *lease, const struct lend_event *ev, bool ok,
				u32 *todo)
{
	if (!lease->fencing || lease->epoch != ev->epoch)
		return -ESTALE;
	lease->fencing = false;
	lease->holder = DLEND_NODE_NONE;
	lease->failed |= !ok;
	*todo = LEND_DO_TELL;
	if (lease->state == DLEND_OFFER_RETURNING)
		lease->state = lease->failed ? DLEND_OFFER_QUARANTINED : DLEND_OFFER_FREE;
	return 0;
}

/* A lease that has begun goes on: its holder reaches no more than before. */
static int lend_lease_on_incomplete(struct lend_lease *lease, u32 *todo)
{
	if (lease->state != DLEND_OFFER_FREE)
		return -EALREADY;
	lease->state = DLEND_OFFER_GONE;
	*todo = LEND_DO_TELL;
	return 0;
}

static int lend_lease_on_unbind(struct lend_lease *lease, u32 *todo)
{
	*todo = LEND_DO_TELL;
	if (lease->state == DLEND_OFFER_GONE)
		*todo = 0;
	if (lease->state == DLEND_OFFER_HELD) {
		lease->fencing = true;
		*todo |= LEND_DO_FENCE;
	}
	lease->state = DLEND_OFFER_GONE;
	lease->users = 0;
	return 0;
}

int lend_lease_step(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	*todo = 0;
	switch (ev->type) {
	case LEND_EV_OFFER:
		return lend_lease_on_offer(lease, todo);
	case LEND_EV_BORROW:
		return lend_lease_on_borrow(lease, ev, todo);
	case LEND_EV_RETURN:
		return lend_lease_on_return(lease, ev, todo);
	case LEND_EV_REVOKE:
		return lend_lease_on_revoke(lease, todo);
	case LEND_EV_LINK_LOST:
		if (lease->state == DLEND_OFFER_HELD && lease->holder != ev->node)
			return -EALREADY;
		return lend_lease_on_revoke(lease, todo);
	case LEND_EV_FENCED:
		return lend_lease_on_fenced(lease, ev, true, todo);
	case LEND_EV_FENCE_FAILED:
		return lend_lease_on_fenced(lease, ev, false, todo);
	case LEND_EV_UNBIND:
		return lend_lease_on_unbind(lease, todo);
	case LEND_EV_INCOMPLETE:
		return lend_lease_on_incomplete(lease, todo);
	case LEND_EV_BROKEN:
		return lend_lease_on_broken(lease, todo);
	default:
		return -EINVAL;
	}
}
