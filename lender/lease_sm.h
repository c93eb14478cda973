/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which node has a group of functions: the lease as a state machine.  Pure logic: it has no device,
 * lock or clock.  The caller serialises the events (lend_set_step() does), and does what the
 * machine returns as LEND_DO_* (lease.c, request.c).
 */
#ifndef DLEND_LENDER_LEASE_SM_H
#define DLEND_LENDER_LEASE_SM_H

#include <dlend/types.h>

/* The largest number of functions in a group, which each have a bit in lend_lease.users. */
#define LEND_GROUP_MAX	64

/**
 * struct lend_token - a secret that the node has to send that takes a lease over
 * @half: random bits, never all 0
 */
struct lend_token {
	u64 half[2];
};

/*
 * What can happen to a group.  MOVE_TO, QUIESCED, RUN and HAND_OVER come from the holder: @node has
 * function @fn under lease @epoch.
 */
enum lend_event_type {
	LEND_EV_OFFER,		/* all functions are bound and prepared, and no reset failed */
	LEND_EV_BORROW,		/* @node asks for function @fn */
	LEND_EV_RETURN,		/* @node (holder or standby) gives @fn of lease @epoch back */
	LEND_EV_REVOKE,		/* the lender takes the whole group back */
	LEND_EV_LINK_LOST,	/* the link to @node, the holder, went down */
	LEND_EV_CUT_OFF,	/* lease @epoch was fenced: no node reaches the group any more */
	LEND_EV_FENCED,		/* all functions were reset after lease @epoch */
	LEND_EV_FENCE_FAILED,	/* a reset after lease @epoch failed */
	LEND_EV_UNBIND,		/* a function of the group is being unbound */
	LEND_EV_INCOMPLETE,	/* a function is not bound or prepared, or the group is withdrawn */
	LEND_EV_BROKEN,		/* all are bound, but one that no node had could not be reset */
	LEND_EV_MOVE_TO,	/* the holder lets @target become the standby; 0: no node */
	LEND_EV_STANDBY,	/* @node becomes the standby, for function @fn; gets an epoch */
	LEND_EV_STANDBY_LOST,	/* standby @node, @epoch: was not made, or its link went down */
	LEND_EV_QUIESCED,	/* the holder's guest stands still, and the device is stopped */
	LEND_EV_RUN,		/* the holder's guest goes on */
	LEND_EV_HAND_OVER,	/* the holder gives the lease to the standby that sends @token */
	LEND_EV_TAKE_OVER,	/* standby @node of function @fn, @epoch, sends @token */
	LEND_EV_EXPIRED,	/* lease @epoch was parked, and no node has taken it over in time */
	LEND_EVENT_TYPES
};

/**
 * struct lend_event - something that happens to a group
 * @type: what happens; enum lend_event_type names the members below that are valid for it
 * @node: the node that the event concerns
 * @fn: lend_fn.index of the function that the event concerns
 * @epoch: epoch of the lease that the event concerns
 * @target: for LEND_EV_MOVE_TO: node that may become the standby
 * @keeper: for LEND_EV_BORROW: node for which the other members of the set keep the group; 0: @node
 *	may have it.  lend_set_step() fills it in
 * @vm: for LEND_EV_BORROW: UUID of the mediated device for which @node borrows; all 0: for none
 * @token: for LEND_EV_HAND_OVER and LEND_EV_TAKE_OVER
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

/*
 * What the caller has to do after an event.  Events in brackets are given when that is done.  _SWAP
 * has to be done before its event, which the caller first tries on a copy of the lease.
 */
#define LEND_DO_GRANT	0x01	/* first function of a new lease: make and attach the domain */
#define LEND_DO_JOIN	0x02	/* one more function of the same lease: map its BARs, too */
#define LEND_DO_LEAVE	0x04	/* fence and reset function @fn alone, the lease goes on */
#define LEND_DO_FENCE	0x08	/* fence all [_CUT_OFF], then reset all [_FENCED, _FENCE_FAILED] */
#define LEND_DO_ANNOUNCE	0x10	/* the state changed: tell every node */
#define LEND_DO_PREPARE	0x20	/* make the standby's domain and offsets; attach and map nothing */
#define LEND_DO_DROP	0x40	/* undo an earlier _PREPARE; before a new one, if there is one */
#define LEND_DO_PARK	0x80	/* fence all, reset nothing [_EXPIRED, if no node takes it over] */
#define LEND_DO_SWAP	0x100	/* fence the old holder, reset nothing, attach the standby */

/**
 * struct lend_move - a lease on its way from its holder to another node
 * @target: node that may become the standby, as the holder has said; 0: none
 * @standby: the standby's node; 0: there is none.  It reaches nothing before it takes over
 * @fn: lend_fn.index of the function that moves
 * @epoch: of the lease that @standby will have
 * @quiesced: the holder's guest stands still, and the device was stopped
 * @given: the holder has handed the lease over: the standby that sends @token gets it
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

/** lend_for_vm - does @whom (in) name a VM, not a node? Context: any. */
bool lend_for_vm(const struct lend_for *whom);

/** lend_event_whom - copy node and VM out of a LEND_EV_BORROW @ev (in). Context: any. */
struct lend_for lend_event_whom(const struct lend_event *ev);

/**
 * struct lend_lease - state of the lease of one group
 * @state: see the picture in lease_sm.c
 * @holder: node that has the lease, or had the last one if the functions were not reset since; 0:
 *	none
 * @epoch: of the current lease, or of the last one
 * @last: the last epoch that was given out; a standby may have one after @epoch
 * @users: a bit per lend_fn.index for each function that @holder has; none while @state is HELD:
 *	the device is parked
 * @reached: LEND_DO_FENCE was returned, and LEND_EV_CUT_OFF has not come yet: @holder's guest may
 *	still reach the group, so nodes see the group as HELD by @holder
 * @fencing: LEND_DO_FENCE was returned, and LEND_EV_FENCED or LEND_EV_FENCE_FAILED has not come yet
 * @failed: a reset after a lease has failed; only lend_lease_init(), for a new group, clears this
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
 * lend_lease_init - make a lease that no node has; no node can get it before LEND_EV_OFFER
 * @lease: (out) lease
 * @epoch: (in) not before any epoch that was ever granted for the group (lend_epoch_first())
 *
 * Context: any.
 */
void lend_lease_init(struct lend_lease *lease, u32 epoch);

/**
 * lend_lease_step - give a lease an event; only lend_lease.reserved changes in another way
 * @lease: (in, out) lease; on error it has not changed
 * @ev: (in) event; node, fn and epoch are not trusted
 * @todo: (out) LEND_DO_*, what the caller has to do; 0 on error
 *
 * Context: any; the caller serialises the events of a lease.
 * Return: 0; -EBUSY a node has the group, or alone may have it (see lend_lease_state_for());
 * -EAGAIN the group is being reset, ask again; -EIO it is quarantined; -ENODEV it is not offered;
 * -ESTALE the event concerns another lease; -EPERM the holder has not named @node as the target, or
 * the token is wrong; -EINPROGRESS the device was not stopped, or the lease not handed over;
 * -EALREADY there is nothing to do, and the caller may treat that as success; -EINVAL the event
 * makes no sense.
 */
int lend_lease_step(struct lend_lease *lease, const struct lend_event *ev, u32 *todo);

/**
 * lend_lease_reserve - set lend_lease.reserved: who alone may borrow the group when it is FREE
 * @lease: (in, out) lease; a node that has it keeps it
 * @whom: (in) node or VM; all 0: no reservation
 *
 * Context: any; the caller serialises this with the events.
 * Return: true: the reservation has changed, and the caller has to announce the state.
 */
bool lend_lease_reserve(struct lend_lease *lease, const struct lend_for *whom);

/**
 * lend_lease_state_for - the state of a lease that a node is told: why the node cannot borrow the
 * group, if it cannot
 * @lease: (in) lease of the group
 * @whom: (in) that node, and the VM that it asks for; all 0: this host's administrator
 * @keeper: (in) node for which the other members of the set keep the group; 0: the node may have it
 * @holder: (out) node that has the group, or that alone may have it; 0: none, or only a VM may
 *
 * Context: any; the caller serialises this with the events.
 * Return: DLEND_OFFER_HELD also while the fence after a lease is not over; DLEND_OFFER_RESERVED,
 * DLEND_OFFER_KEPT: the group is FREE, but not for this node; otherwise lend_lease.state.
 */
enum dlend_offer_state lend_lease_state_for(const struct lend_lease *lease,
					    const struct lend_for *whom, u16 keeper,
					    u16 *holder);

/**
 * struct lend_hold - which node has a group, as far as the other members of its set need to know
 * @node: node that has the group; if the device is parked, the node that may take it over; 0: none
 * @target: node to which the lease may move; 0: none
 */
struct lend_hold {
	u16 node, target;
};

/** lend_lease_hold - fill in @hold (out) from @lease (in). Context: any. */
void lend_lease_hold(const struct lend_lease *lease, struct lend_hold *hold);

/**
 * lend_hold_keeper - for which node does one member of a set keep the other members?
 * @hold: (in) which node has that member
 * @node: (in) node that wants another member; 0: this host's administrator
 *
 * While a VM moves with several members, they move one after the other: so both the holder and the
 * target of a move may borrow.
 *
 * Context: any.
 * Return: 0: @node may borrow the other members; otherwise the node that alone may.
 */
u16 lend_hold_keeper(const struct lend_hold *hold, u16 node);

/**
 * lend_lease_check - check that a node has a function
 * @lease: (in) lease of the function's group
 * @node: (in) node
 * @epoch: (in) of the lease, as the node says
 * @fn: (in) lend_fn.index
 *
 * Context: any; the caller serialises this with the events.
 * Return: 0; -ESTALE the node does not have the function under this epoch.
 */
int lend_lease_check(const struct lend_lease *lease, u16 node, u32 epoch, unsigned int fn);

/**
 * lend_lease_check_standby - check that a node is the standby
 * @lease: (in) lease of the group
 * @node: (in) node
 * @epoch: (in) of the lease that @node will have, as the node says
 *
 * Context: any; the caller serialises this with the events.
 * Return: 0; -ESTALE the node is not, or is no longer, the standby under this epoch.
 */
int lend_lease_check_standby(const struct lend_lease *lease, u16 node, u32 epoch);

/**
 * lend_lease_is_parked - has the holder given the device back, or lost its link, after HAND_OVER?
 * @lease: (in) lease of the group
 *
 * A parked device is fenced, and was not reset: it waits for the standby that sends the token.
 *
 * Context: any; the caller serialises this with the events.
 * Return: true: it is parked.
 */
static inline bool lend_lease_is_parked(const struct lend_lease *lease)
{
	return lease->state == DLEND_OFFER_HELD && !lease->users;
}

/**
 * lend_epoch_first - the epoch with which a new group begins
 * @floor: (in) the largest lend_lease.last of all groups that were freed; 0: there were none
 * @seconds: (in) time since a fixed day, in seconds
 *
 * The result grows by eight for each second, faster than a group can be granted: so it is not
 * before any epoch that was granted earlier.  32 bits wrap around after 17 years;
 * dlend_epoch_after() allows for that.
 *
 * Context: any.
 * Return: epoch, for lend_lease_init().
 */
u32 lend_epoch_first(u32 floor, s64 seconds);

#endif
