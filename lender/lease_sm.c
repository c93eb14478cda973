// SPDX-License-Identifier: GPL-2.0
/*
 * Which node has a group of functions: the lease as a state machine, pure logic.
 *
 *              OFFER            BORROW                RETURN (last), REVOKE, LINK_LOST
 *      GONE ----------> FREE ------------> HELD -------------------> RETURNING
 *        ^              ^  ^ |                                         |    |
 *        |              |  | +---- BROKEN -----> QUARANTINED <----------|----+ FENCE_FAILED
 *        |              |  +------ OFFER -------------+                 |
 *        |              +--------------------------- FENCED ------------+
 *        +---- UNBIND, from every state; INCOMPLETE, from FREE
 *
 * A node that learns that another node has lost a device believes that the device's DMA into that
 * node has ended.  So nodes see HELD until CUT_OFF says that the fence is over
 * (lend_lease_state_for()); the reset may take long after that.
 *
 * OFFER leads out of QUARANTINED only if the function whose reset failed was lent to no node
 * before, and its next reset has succeeded.  If the reset after a lease failed, the device may
 * still hold data of the borrower, so the group stays quarantined (lend_lease.failed): then OFFER
 * out of GONE leads to QUARANTINED, as BROKEN out of GONE does.
 *
 * While HELD, the lease can move to another node without a reset (struct lend_move):
 *
 *	MOVE_TO (holder) -> STANDBY (target) -> QUIESCED, HAND_OVER (holder) -> TAKE_OVER (target)
 *
 * The holder has the lease until TAKE_OVER.  RUN makes the token invalid: so either the holder's
 * guest has gone on, or the target has taken over, never both.  If the holder returns the device,
 * or its link is lost, after HAND_OVER, the device is parked: only the target can get it, and after
 * EXPIRED no node, until it was reset.
 *
 * A group that is FREE may be reserved for one node or one VM, or the other members of its set may
 * keep it for the node that has them: then only BORROW by other nodes is refused.
 *
 * UNBIND leads to GONE at once, also out of HELD, because no node may borrow while a function is
 * missing.  If it returned LEND_DO_FENCE, OFFER is refused until FENCED or FENCE_FAILED.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "lender/lease_sm.h"

u32 lend_epoch_first(u32 floor, s64 seconds)
{
	u32 now = (u32)seconds << 3;

	return floor && dlend_epoch_after(floor, now) ? floor : now;
}

/* Does the holder have the function with this index, which is not trusted? */
static bool lend_lease_is_user(const struct lend_lease *lease, unsigned int fn)
{
	return fn < LEND_GROUP_MAX && (lease->users & BIT_ULL(fn));
}

void lend_lease_init(struct lend_lease *lease, u32 epoch)
{
	*lease = (struct lend_lease){ .state = DLEND_OFFER_GONE, .epoch = epoch, .last = epoch };
}

bool lend_lease_reserve(struct lend_lease *lease, const struct lend_for *whom)
{
	bool changes = memcmp(&lease->reserved, whom, sizeof(*whom));

	lease->reserved = *whom;
	return changes;
}

bool lend_for_vm(const struct lend_for *whom)
{
	static const u8 none[DLEND_VM_SIZE];

	return memcmp(whom->vm, none, sizeof(none));
}

struct lend_for lend_event_whom(const struct lend_event *ev)
{
	struct lend_for whom = { .node = ev->node };

	memcpy(whom.vm, ev->vm, sizeof(whom.vm));
	return whom;
}

/* Is the group reserved for somebody else than @whom? */
static bool lend_lease_is_reserved(const struct lend_lease *lease, const struct lend_for *whom)
{
	const struct lend_for *only = &lease->reserved;

	if (lend_for_vm(only))
		return memcmp(only->vm, whom->vm, sizeof(only->vm));
	return only->node != DLEND_NODE_NONE && only->node != whom->node;
}

enum dlend_offer_state lend_lease_state_for(const struct lend_lease *lease,
					    const struct lend_for *whom, u16 keeper,
					    u16 *holder)
{
	*holder = lease->holder;
	if (lease->reached)
		return DLEND_OFFER_HELD;
	if (lease->state != DLEND_OFFER_FREE)
		return lease->state;
	if (lend_lease_is_reserved(lease, whom)) {
		*holder = lease->reserved.node;
		return DLEND_OFFER_RESERVED;
	}
	if (keeper != DLEND_NODE_NONE) {
		*holder = keeper;
		return DLEND_OFFER_KEPT;
	}
	return DLEND_OFFER_FREE;
}

void lend_lease_hold(const struct lend_lease *lease, struct lend_hold *hold)
{
	const struct lend_move *move = &lease->move;

	*hold = (struct lend_hold){ };
	if (lease->state != DLEND_OFFER_HELD && !lease->reached)
		return;
	hold->node = lend_lease_is_parked(lease) ? move->target : lease->holder;
	hold->target = move->target;
}

u16 lend_hold_keeper(const struct lend_hold *hold, u16 node)
{
	if (node != DLEND_NODE_NONE && (node == hold->node || node == hold->target))
		return DLEND_NODE_NONE;
	return hold->node;
}

int lend_lease_check(const struct lend_lease *lease, u16 node, u32 epoch, unsigned int fn)
{
	if (lease->state != DLEND_OFFER_HELD || lease->holder != node || lease->epoch != epoch ||
	    !lend_lease_is_user(lease, fn))
		return -ESTALE;
	return 0;
}

int lend_lease_check_standby(const struct lend_lease *lease, u16 node, u32 epoch)
{
	if (lease->state != DLEND_OFFER_HELD || node == DLEND_NODE_NONE ||
	    lease->move.standby != node || lease->move.epoch != epoch)
		return -ESTALE;
	return 0;
}

/* The next epoch; never 0, which means "no lease" in messages. */
static u32 lend_lease_next_epoch(struct lend_lease *lease)
{
	if (!++lease->last)
		lease->last = 1;
	return lease->last;
}

/* Forget the standby, and its epoch.  Return: LEND_DO_DROP; 0: there was none. */
static u32 lend_lease_drop_standby(struct lend_lease *lease)
{
	bool had = lease->move.standby != DLEND_NODE_NONE;

	lease->move.standby = DLEND_NODE_NONE;
	lease->move.epoch = 0;
	return had ? LEND_DO_DROP : 0;
}

/* Undo HAND_OVER: the target cannot take over any more. */
static void lend_lease_take_token_back(struct lend_lease *lease)
{
	lease->move.given = false;
	memset(&lease->move.token, 0, sizeof(lease->move.token));
}

/*
 * LEND_EV_OFFER or LEND_EV_BROKEN.  While the group is HELD or RETURNING these change nothing: the
 * resets after the lease decide (lend_lease_on_fenced()).
 */
static int lend_lease_on_offer(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	bool broken = ev->type == LEND_EV_BROKEN;

	if (lease->state != DLEND_OFFER_GONE &&
	    lease->state != (broken ? DLEND_OFFER_FREE : DLEND_OFFER_QUARANTINED))
		return -EALREADY;
	if (lease->fencing)
		return -EAGAIN;
	broken |= lease->failed;
	if (broken && lease->state == DLEND_OFFER_QUARANTINED)
		return -EALREADY;
	lease->state = broken ? DLEND_OFFER_QUARANTINED : DLEND_OFFER_FREE;
	*todo = LEND_DO_ANNOUNCE;
	return 0;
}

static int lend_lease_on_borrow(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	struct lend_for whom = lend_event_whom(ev);
	u16 who;

	if (ev->fn >= LEND_GROUP_MAX || ev->node == DLEND_NODE_NONE)
		return -EINVAL;
	if (lease->reached)
		return -EAGAIN;

	switch (lend_lease_state_for(lease, &whom, ev->keeper, &who)) {
	case DLEND_OFFER_FREE:
		lease->epoch = lend_lease_next_epoch(lease);
		lease->state = DLEND_OFFER_HELD;
		lease->holder = ev->node;
		lease->users = BIT_ULL(ev->fn);
		*todo = LEND_DO_GRANT | LEND_DO_ANNOUNCE;
		return 0;
	case DLEND_OFFER_HELD:
		/*
		 * The old holder waits until the device was taken over, or reset: a new lease now
		 * would take the parked state away from the guest that is to go on with it.
		 */
		if (lend_lease_is_parked(lease) && lease->holder == ev->node)
			return -EAGAIN;
		if (lease->holder != ev->node || lend_lease_is_user(lease, ev->fn))
			return -EBUSY;
		/* A lease that may move has one function only. */
		if (lease->move.target != DLEND_NODE_NONE)
			return -EBUSY;
		lease->users |= BIT_ULL(ev->fn);
		*todo = LEND_DO_JOIN;
		return 0;
	case DLEND_OFFER_RESERVED:
	case DLEND_OFFER_KEPT:
		return -EBUSY;
	case DLEND_OFFER_RETURNING:
		return -EAGAIN;
	case DLEND_OFFER_QUARANTINED:
		return -EIO;
	default:
		return -ENODEV;
	}
}

/*
 * Begin a fence of the whole group, and end a move.  The new state is announced when the caller
 * reports LEND_EV_CUT_OFF.  Return: LEND_DO_*.
 */
static u32 lend_lease_fence(struct lend_lease *lease)
{
	u32 todo = LEND_DO_FENCE | lend_lease_drop_standby(lease);

	memset(&lease->move, 0, sizeof(lease->move));
	lease->reached = true;
	lease->fencing = true;
	return todo;
}

/* The holder has no function any more: park, or fence and reset.  Return: LEND_DO_*. */
static u32 lend_lease_release(struct lend_lease *lease)
{
	lease->users = 0;
	if (lease->move.given)
		return LEND_DO_PARK;
	lease->state = DLEND_OFFER_RETURNING;
	return lend_lease_fence(lease);
}

static int lend_lease_on_standby_lost(struct lend_lease *lease, const struct lend_event *ev,
				      u32 *todo)
{
	if (lend_lease_check_standby(lease, ev->node, ev->epoch))
		return -EALREADY;
	*todo = lend_lease_drop_standby(lease);
	return 0;
}

/* A RETURN may come from the standby, which gives up, or from the holder. */
static int lend_lease_on_return(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (!lend_lease_on_standby_lost(lease, ev, todo))
		return 0;
	if (lease->state == DLEND_OFFER_HELD && lease->epoch == ev->epoch) {
		if (lease->holder != ev->node)
			return -ESTALE;
		if (!lend_lease_is_user(lease, ev->fn))
			return -EALREADY;
		lease->users &= ~BIT_ULL(ev->fn);
		*todo = LEND_DO_LEAVE;
		if (!lease->users)
			*todo = lend_lease_release(lease);
		return 0;
	}
	/* A late or repeated RETURN of a lease that is over: there is nothing to do. */
	return dlend_epoch_after(ev->epoch, lease->last) ? -ESTALE : -EALREADY;
}

/* The lease ends without its holder having asked, and the device is not parked. */
static int lend_lease_on_revoke(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (lease->state != DLEND_OFFER_HELD)
		return -EALREADY;
	lease->move.given = false;
	*todo = lend_lease_release(lease);
	return 0;
}

static int lend_lease_on_link_lost(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (lease->state != DLEND_OFFER_HELD || lease->holder != ev->node ||
	    lend_lease_is_parked(lease))
		return -EALREADY;
	*todo = lend_lease_release(lease);
	return 0;
}

/* The fence is over, the reset is not. */
static int lend_lease_on_cut_off(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (!lease->reached || lease->epoch != ev->epoch)
		return -ESTALE;
	lease->reached = false;
	*todo = LEND_DO_ANNOUNCE;
	return 0;
}

/* LEND_EV_FENCED or LEND_EV_FENCE_FAILED: the resets after a lease are over. */
static int lend_lease_on_fenced(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (!lease->fencing || lease->reached || lease->epoch != ev->epoch)
		return -ESTALE;
	lease->fencing = false;
	lease->holder = DLEND_NODE_NONE;
	lease->failed |= ev->type == LEND_EV_FENCE_FAILED;
	*todo = LEND_DO_ANNOUNCE;
	if (lease->state == DLEND_OFFER_RETURNING)
		lease->state = lease->failed ? DLEND_OFFER_QUARANTINED : DLEND_OFFER_FREE;
	return 0;
}

/* A lease that has begun goes on: its holder reaches no more than before. */
static int lend_lease_on_incomplete(struct lend_lease *lease, const struct lend_event *ev,
				    u32 *todo)
{
	if (lease->state != DLEND_OFFER_FREE)
		return -EALREADY;
	lease->state = DLEND_OFFER_GONE;
	*todo = LEND_DO_ANNOUNCE;
	return 0;
}

static int lend_lease_on_unbind(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (lease->state == DLEND_OFFER_HELD)
		*todo = lend_lease_fence(lease);
	else if (lease->state != DLEND_OFFER_GONE)
		*todo = LEND_DO_ANNOUNCE;
	lease->state = DLEND_OFFER_GONE;
	lease->users = 0;
	return 0;
}

/* Moving */

static int lend_lease_on_move_to(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	struct lend_move *move = &lease->move;

	if (lend_lease_check(lease, ev->node, ev->epoch, ev->fn))
		return -ESTALE;
	/* Not to the holder, as a node has one user of an offer; and only one function moves. */
	if (ev->target == lease->holder || lease->users & ~BIT_ULL(ev->fn))
		return -EINVAL;
	if (move->target == ev->target)
		return -EALREADY;
	/* The announcement tells the old and the new target (DLEND_STATE_F_COMES). */
	*todo = LEND_DO_ANNOUNCE | lend_lease_drop_standby(lease);
	move->target = ev->target;
	move->fn = ev->target == DLEND_NODE_NONE ? 0 : ev->fn;
	lend_lease_take_token_back(lease);
	return 0;
}

static int lend_lease_on_standby(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	struct lend_move *move = &lease->move;

	if (ev->node == DLEND_NODE_NONE)
		return -EINVAL;
	if (lease->state != DLEND_OFFER_HELD || move->target != ev->node || move->fn != ev->fn)
		return -EPERM;
	/* The node may have asked before, and not got the reply: so a standby is made anew. */
	*todo = LEND_DO_PREPARE | lend_lease_drop_standby(lease);
	move->standby = ev->node;
	move->epoch = lend_lease_next_epoch(lease);
	return 0;
}

/* LEND_EV_QUIESCED or LEND_EV_RUN. */
static int lend_lease_on_quiesced(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (lend_lease_check(lease, ev->node, ev->epoch, ev->fn))
		return -ESTALE;
	lease->move.quiesced = ev->type == LEND_EV_QUIESCED;
	if (ev->type == LEND_EV_RUN)
		lend_lease_take_token_back(lease);
	return 0;
}

static int lend_lease_on_hand_over(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	struct lend_move *move = &lease->move;

	if (lend_lease_check(lease, ev->node, ev->epoch, ev->fn))
		return -ESTALE;
	if (!(ev->token.half[0] | ev->token.half[1]))
		return -EINVAL;
	if (move->target == DLEND_NODE_NONE)
		return -EPERM;
	if (!move->quiesced)
		return -EINPROGRESS;
	move->given = true;
	move->token = ev->token;
	return 0;
}

static int lend_lease_on_take_over(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	struct lend_move *move = &lease->move;

	if (lend_lease_check_standby(lease, ev->node, ev->epoch) || move->fn != ev->fn)
		return -ESTALE;
	if (!move->given)
		return -EINPROGRESS;
	if (memcmp(&move->token, &ev->token, sizeof(ev->token)))
		return -EPERM;
	lease->holder = move->standby;
	lease->epoch = move->epoch;
	lease->users = BIT_ULL(move->fn);
	memset(move, 0, sizeof(*move));
	*todo = LEND_DO_SWAP | LEND_DO_ANNOUNCE;
	return 0;
}

static int lend_lease_on_expired(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	if (!lend_lease_is_parked(lease) || lease->epoch != ev->epoch)
		return -EALREADY;
	return lend_lease_on_revoke(lease, ev, todo);
}

typedef int (*lend_lease_on)(struct lend_lease *lease, const struct lend_event *ev, u32 *todo);

static const lend_lease_on lend_lease_events[LEND_EVENT_TYPES] = {
	[LEND_EV_OFFER] = lend_lease_on_offer,
	[LEND_EV_BORROW] = lend_lease_on_borrow,
	[LEND_EV_RETURN] = lend_lease_on_return,
	[LEND_EV_REVOKE] = lend_lease_on_revoke,
	[LEND_EV_LINK_LOST] = lend_lease_on_link_lost,
	[LEND_EV_CUT_OFF] = lend_lease_on_cut_off,
	[LEND_EV_FENCED] = lend_lease_on_fenced,
	[LEND_EV_FENCE_FAILED] = lend_lease_on_fenced,
	[LEND_EV_UNBIND] = lend_lease_on_unbind,
	[LEND_EV_INCOMPLETE] = lend_lease_on_incomplete,
	[LEND_EV_BROKEN] = lend_lease_on_offer,
	[LEND_EV_MOVE_TO] = lend_lease_on_move_to,
	[LEND_EV_STANDBY] = lend_lease_on_standby,
	[LEND_EV_STANDBY_LOST] = lend_lease_on_standby_lost,
	[LEND_EV_QUIESCED] = lend_lease_on_quiesced,
	[LEND_EV_RUN] = lend_lease_on_quiesced,
	[LEND_EV_HAND_OVER] = lend_lease_on_hand_over,
	[LEND_EV_TAKE_OVER] = lend_lease_on_take_over,
	[LEND_EV_EXPIRED] = lend_lease_on_expired,
};

int lend_lease_step(struct lend_lease *lease, const struct lend_event *ev, u32 *todo)
{
	*todo = 0;
	if (ev->type >= LEND_EVENT_TYPES)
		return -EINVAL;
	return lend_lease_events[ev->type](lease, ev, todo);
}
