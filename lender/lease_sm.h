/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which node has a group of functions: the lease as a state machine, pure logic.  It knows no
 * device, no lock and no clock: the caller serialises the events, and does what the machine says.
 */
#ifndef DLEND_LENDER_LEASE_SM_H
#define DLEND_LENDER_LEASE_SM_H

#include <dlend/types.h>

/* Functions in a group at most: bits of lend_lease.users. */
#define LEND_GROUP_MAX	64

/**
 * struct lend_token - the node that takes a lease over shows it; it cannot be guessed
 * @half: random bits, never all 0
 */
struct lend_token {
	u64 half[2];
};

/* What can happen to a group. */
enum lend_event_type {
	LEND_EV_OFFER,		/* all functions are bound, and their last resets succeeded */
	LEND_EV_BORROW,		/* @node asks for function @fn */
	LEND_EV_RETURN,		/* @node gives function @fn of lease @epoch back */
	LEND_EV_REVOKE,		/* the lender takes everything back */
	LEND_EV_LINK_LOST,	/* the link to @node went down */
	LEND_EV_CUT_OFF,	/* the fence of lease @epoch is over: no node reaches the group */
	LEND_EV_FENCED,		/* and so is the reset */
	LEND_EV_FENCE_FAILED,	/* the reset after lease @epoch failed */
	LEND_EV_UNBIND,		/* a function of the group goes away */
	LEND_EV_INCOMPLETE,	/* a function that is not bound has come to the group */
	LEND_EV_BROKEN,		/* all are bound, but one that no node had could not be reset */
	LEND_EV_MOVE_TO,	/* the holder lets @target prepare to take over; 0: no node */
	LEND_EV_STANDBY,	/* @node prepares to take function @fn over */
	LEND_EV_STANDBY_LOST,	/* the link to the node that has prepared went down */
	LEND_EV_QUIESCED,	/* the holder's guest stands still, and the device is stopped */
	LEND_EV_RUN,		/* the holder's guest goes on */
	LEND_EV_HAND_OVER,	/* the holder gives the lease to the node that shows @token */
	LEND_EV_TAKE_OVER,	/* @node, which has prepared, shows @token */
	LEND_EV_EXPIRED,	/* lease @epoch was given away, and no node has taken it over */
	LEND_EVENT_TYPES
};

/**
 * struct lend_event - something that happens to a group
 * @type: what happens
 * @node: node that it is about, if it is about one
 * @fn: index of the function in the group that it is about, if it is about one
 * @epoch: of the lease that it is about, if it is about one
 * @target: node that may prepare
 * @keeper: node that the other members of the set keep the group for; 0: @node may have it
 * @vm: UUID of the mediated device that @node borrows for; all 0: it is for none
 * @token: of a lease that is given away
 */
struct lend_event {
	enum lend_event_type type;
	u16 node;
	unsigned int fn;
	u32 epoch;
	u16 target, keeper;
	u8 vm[DLEND_VM_SIZE];
	struct lend_token token;
};

/* What the caller has to do after an event. */
#define LEND_DO_GRANT	0x01	/* first function of a new lease: make and attach the domain */
#define LEND_DO_JOIN	0x02	/* one more function of the same lease: map it too */
#define LEND_DO_LEAVE	0x04	/* fence and reset function @fn alone, the lease goes on */
#define LEND_DO_FENCE	0x08	/* fence all: LEND_EV_CUT_OFF; reset: _FENCED or _FENCE_FAILED */
#define LEND_DO_ANNOUNCE	0x10	/* the state changed: tell every node */
#define LEND_DO_PREPARE	0x20	/* make what the standby needs; nothing of it is in force yet */
#define LEND_DO_DROP	0x40	/* first undo an earlier one: that standby takes nothing over */
#define LEND_DO_PARK	0x80	/* fence all, reset nothing; LEND_EV_EXPIRED if no node comes */
#define LEND_DO_SWAP	0x100	/* fence the old holder's part, reset nothing, give the standby's */

/**
 * struct lend_move - a lease on its way from its holder to another node
 * @target: node that may prepare, as the holder has said; 0: none
 * @fn: index of the function in the group
 * @standby: node that has prepared; 0: none.  It reaches nothing before it takes over
 * @epoch: of the lease that @standby will have
 * @quiesced: the device does nothing: the holder's guest stands still
 * @given: the lease goes to the node that shows @token
 * @token: valid while @given
 */
struct lend_move {
	u16 target, standby;
	unsigned int fn;
	u32 epoch;
	bool quiesced, given;
	struct lend_token token;
};

/**
 * struct lend_for - a node or a VM that a group is reserved for; all 0: none
 * @node: that node, or 0
 * @vm: UUID of the VM's mediated device, wherever the VM is; or all 0
 */
struct lend_for {
	u16 node;
	u8 vm[DLEND_VM_SIZE];
};

/** lend_for_vm - is @whom (in) a VM? Context: any. */
bool lend_for_vm(const struct lend_for *whom);

/** lend_event_whom - the node and VM that ask by LEND_EV_BORROW @ev (in). Context: any. */
struct lend_for lend_event_whom(const struct lend_event *ev);

/**
 * struct lend_lease - state of one group
 * @state: what the group is doing
 * @holder: node that has the lease, or had it, as long as the device is not reset; 0: none
 * @epoch: of the current lease, or of the last one
 * @last: the largest epoch that was ever given; a standby may have one above @epoch
 * @users: a bit for each function that @holder has; none while HELD: the device is parked
 * @reached: LEND_DO_FENCE was said, and LEND_EV_CUT_OFF has not come yet: @holder's guest may reach
 *	the group, so all are told that @holder has it
 * @fencing: LEND_DO_FENCE was said, and LEND_EV_FENCED or LEND_EV_FENCE_FAILED has not come yet
 * @failed: the reset after a lease has failed; only lend_lease_init() forgets that
 * @reserved: the node or VM that alone may borrow the group when it is FREE
 * @move: all 0 unless @state is HELD
 */
struct lend_lease {
	enum dlend_offer_state state;
	u16 holder;
	u32 epoch, last;
	u64 users;
	bool reached;
	bool fencing;
	bool failed;
	struct lend_for reserved;
	struct lend_move move;
};

/**
 * lend_lease_init - no node has the group, and none can have it before LEND_EV_OFFER
 * @lease: (out) lease
 * @epoch: (in) larger than every epoch that was ever granted for the group
 *
 * Context: any.
 */
void lend_lease_init(struct lend_lease *lease, u32 epoch);

/**
 * lend_lease_step - give a lease an event; all but lend_lease.reserved changes only by events
 * @lease: (in, out) lease
 * @ev: (in) event; node, fn and epoch are not trusted
 * @todo: (out) LEND_DO_*, what the caller has to do; 0 on error
 *
 * Context: any; the caller serialises the events of a lease.
 * Return: 0; -EBUSY a node has the group, or may have it alone (see lend_lease_state_for());
 * -EAGAIN it is being reset, ask again; -EIO it is quarantined; -ENODEV it is not offered; -ESTALE
 * the event is about another lease; -EPERM the holder has not allowed that to @node, or the token
 * is wrong; -EINPROGRESS it has not been stopped, or not given away; -EALREADY there is nothing to
 * do, and the caller may treat that as success; -EINVAL.
 */
int lend_lease_step(struct lend_lease *lease, const struct lend_event *ev, u32 *todo);

/**
 * lend_lease_reserve - when the group is free, only one node, or one VM, may borrow it
 * @lease: (in, out) lease; a node that has it keeps it
 * @whom: (in) that node or VM
 *
 * Context: any; serialised with the events.
 * Return: true: what nodes are to be told has changed.
 */
bool lend_lease_reserve(struct lend_lease *lease, const struct lend_for *whom);

/**
 * lend_lease_state_for - the state of a lease that a node is told: why the node cannot borrow the
 * group, if it cannot
 * @lease: (in) lease of the group
 * @whom: (in) that node, and the VM that it asks for; all 0: this host's administrator
 * @keeper: (in) node that the other members of the set keep the group for; 0: the node may have it
 * @holder: (out) node that has the group, or that alone may have it; 0: none, or only a VM may
 *
 * Context: any.
 */
enum dlend_offer_state lend_lease_state_for(const struct lend_lease *lease,
					    const struct lend_for *whom, u16 keeper,
					    u16 *holder);

/**
 * struct lend_hold - which node has a group, as far as the other members of its set need to know
 * @node: that node, or the one that it has left the group to; 0: none
 * @target: the node that the lease may move to; 0: none
 */
struct lend_hold {
	u16 node, target;
};

/** lend_lease_hold - @hold (out) = which node has the group of @lease (in). Context: any. */
void lend_lease_hold(const struct lend_lease *lease, struct lend_hold *hold);

/**
 * lend_hold_keeper - may a node borrow other members of a set, as far as one member says?
 * @hold: (in) of that member
 * @node: (in) that node; 0: this host's administrator
 *
 * While a VM moves with several members, they go one after the other, and both nodes may borrow.
 *
 * Context: any.
 * Return: 0: it may; or the node that they are kept for.
 */
u16 lend_hold_keeper(const struct lend_hold *hold, u16 node);

/**
 * lend_lease_check - may a node speak for a function?
 * @lease: (in) lease of the function's group
 * @node: (in) node
 * @epoch: (in) of the lease, as the node says
 * @fn: (in) index of the function in the group
 *
 * Context: any.
 * Return: 0; -ESTALE the node does not have the function under this epoch.
 */
int lend_lease_check(const struct lend_lease *lease, u16 node, u32 epoch, unsigned int fn);

/**
 * lend_lease_check_standby - may a node prepare, under this epoch?
 * @lease: (in) lease of the group
 * @node: (in) node
 * @epoch: (in) of the lease that it will have, as the node says
 *
 * Context: any.
 * Return: 0; -ESTALE it is not, or is no longer, the one that may take over.
 */
int lend_lease_check_standby(const struct lend_lease *lease, u16 node, u32 epoch);

/**
 * lend_lease_is_parked - has the holder gone after HAND_OVER?
 * @lease: (in) lease of the group
 *
 * The device is fenced and was not reset: it waits for the node that shows the token.
 *
 * Context: any.
 */
static inline bool lend_lease_is_parked(const struct lend_lease *lease)
{
	return lease->state == DLEND_OFFER_HELD && !lease->users;
}

/**
 * lend_epoch_first - where the epochs of a new group begin
 * @floor: (in) not below any epoch of a group that is gone; 0: no group has gone
 * @seconds: (in) since a fixed day
 *
 * Epochs grow by eight a second, faster than a group can be granted.  So 32 bits wrap around after
 * 17 years.
 *
 * Context: any.
 * Return: epoch, for lend_lease_init().
 */
u32 lend_epoch_first(u32 floor, s64 seconds);

#endif
