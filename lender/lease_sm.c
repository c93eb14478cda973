// SPDX-License-Identifier: GPL-2.0
/*
 * Who has a device group: the lease as a state machine, pure logic.
 *
 *              OFFER            BORROW                RETURN (last), REVOKE, LINK_LOST
 *      GONE ----------> FREE ------------> HELD -------------------> RETURNING
 *        ^              ^  ^ |                                         |    |
 *        |              |  | +---- BROKEN -----> QUARANTINED <----------|----+ FENCE_FAILED
 *        |              |  +------ OFFER -------------+                 |
 *        |              +--------------------------- FENCED ------------+
 *        +---- UNBIND, from every state; INCOMPLETE, from FREE
 *
 * OFFER leads out of QUARANTINED where nobody had the function whose reset failed, and its next
 * one was good: what a borrower left in a device is another matter.
 *
 * GONE is entered at once, also out of HELD: nobody may borrow while a function is missing.  The
 * fence that UNBIND asks for must still be reported before an OFFER is taken.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>

#include "lender/lease_sm.h"

u32 dl_epoch_first(u32 floor, s64 seconds)
{
	u32 now = (u32)seconds << 3;

	return floor && dlend_epoch_after(floor, now) ? floor : now;
}

static bool dl_is_user(const struct dl_lease *lease, unsigned int fn)
{
	return fn < DL_GROUP_MAX && (lease->users & BIT_ULL(fn));
}

void dl_lease_init(struct dl_lease *lease, u32 epoch)
{
	*lease = (struct dl_lease){ .state = DLEND_OFFER_GONE, .epoch = epoch };
}

int dl_lease_check(const struct dl_lease *lease, u16 node, u32 epoch, unsigned int fn)
{
	if (lease->state != DLEND_OFFER_HELD || lease->holder != node || lease->epoch != epoch ||
	    !dl_is_user(lease, fn))
		return -ESTALE;
	return 0;
}

static int dl_offer(struct dl_lease *lease, u32 *todo)
{
	enum dlend_offer_state next = lease->failed ? DLEND_OFFER_QUARANTINED : DLEND_OFFER_FREE;

	if (lease->state != DLEND_OFFER_GONE && lease->state != DLEND_OFFER_QUARANTINED)
		return -EALREADY;
	if (lease->fencing)
		return -EAGAIN;
	if (lease->state == next)
		return -EALREADY;
	lease->state = next;
	*todo = DL_DO_TELL;
	return 0;
}

/* While somebody has it, or has just had it, the fence's outcome says more. */
static int dl_broken(struct dl_lease *lease, u32 *todo)
{
	if (lease->state != DLEND_OFFER_GONE && lease->state != DLEND_OFFER_FREE)
		return -EALREADY;
	if (lease->fencing)
		return -EAGAIN;
	lease->state = DLEND_OFFER_QUARANTINED;
	*todo = DL_DO_TELL;
	return 0;
}

static int dl_borrow(struct dl_lease *lease, const struct dl_event *ev, u32 *todo)
{
	if (ev->fn >= DL_GROUP_MAX || ev->node == DLEND_NODE_NONE)
		return -EINVAL;

	switch (lease->state) {
	case DLEND_OFFER_FREE:
		/* 0 means "no lease" on the wire. */
		if (!++lease->epoch)
			lease->epoch = 1;
		lease->state = DLEND_OFFER_HELD;
		lease->holder = ev->node;
		lease->users = BIT_ULL(ev->fn);
		*todo = DL_DO_GRANT | DL_DO_TELL;
		return 0;
	case DLEND_OFFER_HELD:
		if (lease->holder != ev->node || dl_is_user(lease, ev->fn))
			return -EBUSY;
		lease->users |= BIT_ULL(ev->fn);
		*todo = DL_DO_JOIN;
		return 0;
	case DLEND_OFFER_RETURNING:
		return -EAGAIN;
	case DLEND_OFFER_QUARANTINED:
		return -EIO;
	default:
		return -ENODEV;
	}
}

static int dl_return(struct dl_lease *lease, const struct dl_event *ev, u32 *todo)
{
	if (lease->state == DLEND_OFFER_HELD && lease->epoch == ev->epoch) {
		if (lease->holder != ev->node)
			return -ESTALE;
		if (!dl_is_user(lease, ev->fn))
			return -EALREADY;
		lease->users &= ~BIT_ULL(ev->fn);
		*todo = DL_DO_LEAVE;
		if (lease->users)
			return 0;
		lease->state = DLEND_OFFER_RETURNING;
		lease->fencing = true;
		*todo = DL_DO_FENCE | DL_DO_TELL;
		return 0;
	}
	/* A late or repeated return of a lease that is over needs nothing any more. */
	return dlend_epoch_after(ev->epoch, lease->epoch) ? -ESTALE : -EALREADY;
}

/* The lease ends without its holder's consent. */
static int dl_revoke(struct dl_lease *lease, u32 *todo)
{
	if (lease->state != DLEND_OFFER_HELD)
		return -EALREADY;
	lease->state = DLEND_OFFER_RETURNING;
	lease->users = 0;
	lease->fencing = true;
	*todo = DL_DO_FENCE | DL_DO_TELL;
	return 0;
}

static int dl_fenced(struct dl_lease *lease, const struct dl_event *ev, bool ok, u32 *todo)
{
	if (!lease->fencing || lease->epoch != ev->epoch)
		return -ESTALE;
	lease->fencing = false;
	lease->holder = DLEND_NODE_NONE;
	lease->failed |= !ok;
	*todo = DL_DO_TELL;
	if (lease->state == DLEND_OFFER_RETURNING)
		lease->state = lease->failed ? DLEND_OFFER_QUARANTINED : DLEND_OFFER_FREE;
	return 0;
}

/* A lease that is under way goes on: its holder reaches no more than before. */
static int dl_incomplete(struct dl_lease *lease, u32 *todo)
{
	if (lease->state != DLEND_OFFER_FREE)
		return -EALREADY;
	lease->state = DLEND_OFFER_GONE;
	*todo = DL_DO_TELL;
	return 0;
}

static int dl_unbind(struct dl_lease *lease, u32 *todo)
{
	*todo = DL_DO_TELL;
	if (lease->state == DLEND_OFFER_GONE)
		*todo = 0;
	if (lease->state == DLEND_OFFER_HELD) {
		lease->fencing = true;
		*todo |= DL_DO_FENCE;
	}
	lease->state = DLEND_OFFER_GONE;
	lease->users = 0;
	return 0;
}

int dl_lease_step(struct dl_lease *lease, const struct dl_event *ev, u32 *todo)
{
	*todo = 0;
	switch (ev->type) {
	case DL_EV_OFFER:
		return dl_offer(lease, todo);
	case DL_EV_BORROW:
		return dl_borrow(lease, ev, todo);
	case DL_EV_RETURN:
		return dl_return(lease, ev, todo);
	case DL_EV_REVOKE:
		return dl_revoke(lease, todo);
	case DL_EV_LINK_LOST:
		if (lease->state == DLEND_OFFER_HELD && lease->holder != ev->node)
			return -EALREADY;
		return dl_revoke(lease, todo);
	case DL_EV_FENCED:
		return dl_fenced(lease, ev, true, todo);
	case DL_EV_FENCE_FAILED:
		return dl_fenced(lease, ev, false, todo);
	case DL_EV_UNBIND:
		return dl_unbind(lease, todo);
	case DL_EV_INCOMPLETE:
		return dl_incomplete(lease, todo);
	case DL_EV_BROKEN:
		return dl_broken(lease, todo);
	default:
		return -EINVAL;
	}
}
