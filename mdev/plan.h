/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The plan of a borrowed device: its next step, from what is wanted and from what the lender was
 * told; and what the lender's reply to that step means.  Pure logic: no locks, no messages; vdev.c
 * and move.c do what the plan says.  Context of all functions: any.
 */
#ifndef DLEND_MDEV_PLAN_H
#define DLEND_MDEV_PLAN_H

#include <dlend/types.h>

enum dlend_step {
	DLEND_STEP_NONE,
	DLEND_STEP_BORROW,
	DLEND_STEP_RESET,
	DLEND_STEP_BME_OFF,
	DLEND_STEP_ENABLE,	/* the guest turns it on: the lender sees to its set-up */
	DLEND_STEP_IRQ,
	DLEND_STEP_READRQ,
	DLEND_STEP_BUILD,
	DLEND_STEP_BME_ON,
	/* While the VM moves from one host to another */
	DLEND_STEP_MOVE_TO,	/* tell the lender who may take the device over */
	DLEND_STEP_QUIESCE,	/* the VM stands still: stop the device */
	DLEND_STEP_RUN,		/* the VM goes on here */
	DLEND_STEP_STANDBY,	/* prepare to take over */
	DLEND_STEP_TAKE_OVER,
};

/* Interrupt mode while the lender sets interrupts up: it differs from all that can be wanted. */
#define DLEND_IRQ_UNKNOWN	DLEND_IRQ_MODES

/**
 * struct dlend_state - set-up of a device: what is wanted, or what the lender was told
 * @bme: Bus Master Enable
 * @vm: which VM the device is for: a number that grows when the device is closed, and when another
 *	VM is to come, or does not come after all
 * @reset, @enable, @build, @rescan, @grow: numbers that grow: if wanted and told differ, that is to
 *	be done once more.  @enable: the guest has turned on memory decoding or bus mastering.  The
 *	last three are done by a build.  @rescan: the build may find nothing; @grow: the guest has
 *	got RAM, or is getting some
 * @irq_mode, @irq_count: interrupts; @irq_turn: a number that grows when they are to be set up once
 *	more
 * @readrq: Max_Read_Request_Size, as dlend_cfg_readrq() has it
 * @move_to: node that may take the device over, or DLEND_NODE_NONE; @forced: also if the device is
 *	never quiet; @named: a number that grows with each change of these two
 * @quiesced: the VM stands still, and may be about to move: the device does nothing; @turn: a
 *	number that grows with each change of @quiesced
 * @loud: (of what the lender was told) the device was stopped in the midst of something, and has
 *	not transferred since
 * @taken: the VM has come, and goes on here
 */
struct dlend_state {
	bool bme, forced, quiesced, loud, taken;
	u16 move_to;
	u32 vm, turn, named;
	u32 reset, enable, build, rescan, grow;
	enum dlend_irq_mode irq_mode;
	u32 irq_count, irq_turn;
	u32 readrq;
};

/**
 * struct dlend_situation - what else counts
 * @open: a VMM has the device open
 * @failed: the device is of no use until it is reset
 * @leased: there is a lease
 * @touched: an access waits for the device
 * @unmapping: guest memory is being taken away right now
 * @prepin: borrow and build when the device is opened, not only for Bus Master Enable
 * @coming: the VM is moving to this host, and still belongs to another one
 * @refused: the lender does not let this host prepare for such a VM
 * @held: the VM does not run: it may have come, and wait for another of its devices
 * @borrowing: the lender was asked for a lease
 * @dma: the device may transfer
 * @looking: the worker looks for RAM that has come while the gate was shut; the gate stays shut
 *	until it has looked
 */
struct dlend_situation {
	bool open, failed, leased, touched, unmapping, prepin, coming, refused, held;
	bool borrowing, dma, looking;
};

/* What happens to a BAR access. */
enum dlend_gate {
	DLEND_GATE_SHUT,	/* it waits: nothing is borrowed yet, or a reset is under way */
	DLEND_GATE_OPEN,	/* it goes through */
	DLEND_GATE_DEAD,	/* no device answers: it reads 0xff */
	DLEND_GATE_READ,	/* a trapped read goes through, all else waits for a build */
};

/* May an access to configuration space go to the device itself? */
enum dlend_live {
	DLEND_LIVE_NO,		/* no: not borrowed, nor asked for; or the VM stands still */
	DLEND_LIVE_SOON,	/* soon: the device is being borrowed */
	DLEND_LIVE_RESET,	/* soon: the device is being reset */
	DLEND_LIVE_NOW,
};

/**
 * struct dlend_conditions - all that follows from a situation, from what is wanted, and from what
 *	the lender was told
 * @next: next step towards what is wanted, in the order of a device's life
 * @gate: what a BAR access meets.  The gate is open while all is as wanted, and the VM runs here.
 *	It is shut while RAM is known to have come, as the guest would let the device use RAM that
 *	the device does not reach yet.  It stays open while a rescan is due, which only adds
 *	windows, or another size of read requests, on which only speed depends.  A trapped read
 *	starts no transfer: it needs a device that is reset and turned on as the guest wants it, but
 *	no windows
 * @live: may an access to configuration space go to the device itself?
 * @urgent: a build, which takes long if the guest has much memory, must give way to the next step:
 *	the guest waits for that step, or that step ends the device's transfers
 * @quiesced: the device transfers nothing, or it has stopped and was started again as the guest
 *	wants
 * @behind: the device may transfer, and there is RAM that it does not reach.  The guest must not
 *	get that RAM, because the gate does not hold back a device that takes its work from memory.
 *	False while a loss is repaired: firmware remaps RAM then in several steps, and the VMM must
 *	get on with them
 * @looks: the device may look into holes of the VM's memory slots.  It does not while the gate is
 *	shut: a look is made before the gate opens
 * @irq_busy: vectors are being set up, or will be
 * @move_settled: the lender has stopped the device if the VM stands still, and knows that the
 *	device may go on if the VM runs
 * @move_told: the lender knows which node may take the device over, and how
 * @ready: there is a lease, and no step to make
 */
struct dlend_conditions {
	enum dlend_step next;
	enum dlend_gate gate;
	enum dlend_live live;
	bool urgent, quiesced, behind, looks, irq_busy, move_settled, move_told, ready;
};

/** dlend_plan - work out what follows from @now, @desired and @actual */
struct dlend_conditions dlend_plan(struct dlend_situation now, const struct dlend_state *desired,
				   const struct dlend_state *actual);

/** dlend_plan_may_leave - may the device move: does the VM stand still, with nothing under way? */
bool dlend_plan_may_leave(const struct dlend_state *desired, const struct dlend_state *actual);

/* What the end of a build means for the device. */
enum dlend_verdict {
	DLEND_VERDICT_STANDS,	/* the windows stand */
	DLEND_VERDICT_AGAIN,	/* not yet: build again, a little later */
	DLEND_VERDICT_KEEP,	/* a rescan failed and found nothing: the windows stand as before */
	DLEND_VERDICT_FAIL,	/* the device does not reach all RAM: it is of no use */
};

/**
 * dlend_plan_verdict - judge what the end of a build means for the device
 * @desired, @actual: (in) at the end of the build, before that is noted
 * @err: (in) of dlend_memory_build()
 * @overdue: (in) of dlend_plan_overdue()
 *
 * A device whose windows stand fails if RAM is known (@grow) that cannot be added to them: what the
 * device writes there would be lost in silence.  Before that, the RAM is tried again until
 * @overdue, with the gate shut, as there may be room in a moment.
 */
enum dlend_verdict dlend_plan_verdict(const struct dlend_state *desired,
				      const struct dlend_state *actual,
				      int err, bool overdue);

/* Pause between two tries of a step; it is doubled each time. */
#define DLEND_PAUSE_MIN_MS	5u
#define DLEND_PAUSE_MAX_MS	500u

/**
 * struct dlend_patience - for a step that is tried again and again
 * @pause_ms: pause before the next try; set it to 0 when a new step begins
 * @most: the furthest @progress of dlend_plan_overdue()
 * @since: when the step came so far
 */
struct dlend_patience {
	unsigned int pause_ms;
	u64 most;
	s64 since;
};

/**
 * dlend_plan_overdue - is the patience with a step that is to be tried again at an end?
 * @p: (in, out) patience
 * @progress: (in) how far the step has come, e.g. in bytes; less than before is no progress
 * @now: (in) time, of any clock and in any unit
 * @limit: (in) longest time without progress
 *
 * Return: true if the step has come no further for more than @limit.
 */
bool dlend_plan_overdue(struct dlend_patience *p, u64 progress, s64 now, s64 limit);

/**
 * dlend_plan_gate_overdue - has the gate been shut for too long, without any progress?
 * @now: (in) time
 * @shut: (in) when the gate was shut
 * @progress: (in) when the windows last grew, by any build; may be before @shut
 * @limit: (in) longest time without progress
 *
 * All are of the same clock, in the same unit. A guest whose memory takes minutes to pin keeps its
 * device.
 */
bool dlend_plan_gate_overdue(s64 now, s64 shut, s64 progress, s64 limit);

/*
 * What a lender's reply means.
 *
 * A reply may come late: the guest, its VMM or a move of the VM may have changed what is wanted
 * since.  So a copy of what was wanted is taken before the lender is asked (@asked), and the reply
 * is judged against that copy.  What the lender has done is noted in any case.  That a request was
 * enough, or failed, counts only if the same is still wanted.
 *
 * Functions that return bool say whether the device has failed.  If a request failed and they
 * return false, the request is over for another reason, or the next step asks anew.
 */

/* Max_Read_Request_Size that differs from all that can be wanted: the lender is told once more. */
#define DLEND_READRQ_UNKNOWN	0xffffffffu

/**
 * dlend_reply_wanted - is the lease still wanted for the VM that it was asked for?
 * @desired: (in) now; @asked: (in) when the lender was asked
 *
 * If not, a grant is given back, and a refusal means nothing.
 */
bool dlend_reply_wanted(const struct dlend_state *desired, const struct dlend_state *asked);

/** dlend_reply_granted - note in @actual what a new lease begins with; @readrq: after a reset */
void dlend_reply_granted(const struct dlend_state *asked, struct dlend_state *actual, u32 readrq);

/** dlend_reply_taken - note DLEND_STEP_TAKE_OVER, whether it went well or not */
void dlend_reply_taken(struct dlend_state *actual);

/** dlend_reply_bus_master - note DLEND_STEP_BME_ON, DLEND_STEP_BME_OFF; @err: 0 or -errno */
bool dlend_reply_bus_master(const struct dlend_state *desired, const struct dlend_state *asked,
			    struct dlend_state *actual, bool on, int err);

/** dlend_reply_reset - note DLEND_STEP_RESET; @readrq: after a reset */
bool dlend_reply_reset(const struct dlend_state *desired, const struct dlend_state *asked,
		       struct dlend_state *actual, u32 readrq, int err);

/** dlend_reply_irq_same - are the interrupts that were asked for still wanted? */
bool dlend_reply_irq_same(const struct dlend_state *desired, const struct dlend_state *asked);

/** dlend_reply_irq - note DLEND_STEP_IRQ; -ENOSPC: too few vectors, which is no failure */
bool dlend_reply_irq(const struct dlend_state *desired, const struct dlend_state *asked,
		     struct dlend_state *actual, int err);

/** dlend_reply_quiesced - note DLEND_STEP_QUIESCE; @drained: no work was cut off that matters */
void dlend_reply_quiesced(const struct dlend_state *asked, struct dlend_state *actual, bool drained,
			  int err);

/** dlend_reply_ran - note DLEND_STEP_RUN */
bool dlend_reply_ran(const struct dlend_state *desired, const struct dlend_state *asked,
		     struct dlend_state *actual, int err);

/**
 * dlend_reply_named - note DLEND_STEP_MOVE_TO
 * @desired: (in, out) now; after a refusal no node is to take the device over.  The lender is told
 *	so, as it may have done what it did not answer
 * @asked: (in) when the lender was asked
 * @actual: (in, out) what the lender was told
 * @told: (in, out) the first error since a node was named last, or 0
 * @err: (in) 0 or -errno
 *
 * Return: true: a node was refused, and is still wanted.
 */
bool dlend_reply_named(struct dlend_state *desired, const struct dlend_state *asked,
		       struct dlend_state *actual, int *told, int err);

#endif
