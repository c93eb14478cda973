/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The next step for a borrowed device, from the guest's wishes and from what the lender was told;
 * and what the lender's reply to it means.  Pure logic: no locks, no messages; vdev.c and move.c do
 * what this says.  Context of all functions: any.
 */
#ifndef DLEND_MDEV_PLAN_H
#define DLEND_MDEV_PLAN_H

#include <dlend/types.h>

enum dlend_step {
	DLEND_STEP_NONE,
	DLEND_STEP_BORROW,
	DLEND_STEP_RESET,
	DLEND_STEP_BME_OFF,
	DLEND_STEP_ENABLE,	/* the guest turns it on: the lender looks whether it is set up */
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

/* In a struct dlend_wish of what the lender was told: a set-up is under way. No wish equals it. */
#define DLEND_IRQ_UNKNOWN	DLEND_IRQ_MODES

/**
 * struct dlend_wish - a device's set-up: as wanted, or as it is
 * @bme: Bus Master Enable
 * @vm: a running number: the VM that the device is for. A VMM opens it; another VM is to come, or
 *	does not come after all
 * @reset, @enable, @build, @rescan, @grow: running numbers: what differs in the two wishes is to be
 *	done once more.  A build does the last three.  @enable: memory or bus mastering was turned
 *	on; @rescan: it may find nothing; @grow: the guest was given RAM, or is being given some
 * @irq_mode, @irq_count: interrupts; @irq_turn: a running number: they are to be set up once more
 * @readrq: Max_Read_Request_Size, as dlend_cfg_readrq() has it
 * @move_to: node that may take the device over, or DLEND_NODE_NONE; @cut: also if it is never
 *	quiet; @named: a running number of these two
 * @quiet: the VM stands still, and may be about to move: the device does nothing; @turn: a running
 *	number: it stands still, or goes on
 * @loud: as it is, only: the device was stopped in the midst of something, and has not transferred
 *	since
 * @taken: the VM has come, and goes on here
 */
struct dlend_wish {
	bool bme, cut, quiet, loud, taken;
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
 * @failed: it is of no use until it is reset
 * @leased: there is a lease
 * @touched: an access waits for the device
 * @unmapping: guest memory is being taken away right now
 * @prepin: borrow and build as soon as it is open, not only for Bus Master Enable
 * @coming: the VM is on its way to here, and still another host's
 * @refused: the lender does not let this host prepare for that
 * @held: the VM does not run: it may have come, and another of its devices may still have to come
 * @borrowing: the lender was asked for a lease
 * @dma: the device may transfer
 * @looking: RAM is looked for that has come while the gate was shut: it stays so until then
 */
struct dlend_situation {
	bool open, failed, leased, touched, unmapping, prepin, coming, refused, held;
	bool borrowing, dma, looking;
};

/* What happens to a BAR access. */
enum dlend_gate {
	DLEND_GATE_SHUT,	/* waits: nothing borrowed yet, or being reset */
	DLEND_GATE_OPEN,	/* goes through */
	DLEND_GATE_DEAD,	/* no device behind it: reads 0xff */
	DLEND_GATE_READ,	/* a trapped read goes through, all else waits: building */
};

/* May an access to configuration space go to the device itself? */
enum dlend_live {
	DLEND_LIVE_NO,		/* not borrowed, nor asked for; or the VM stands still */
	DLEND_LIVE_SOON,	/* it is being borrowed */
	DLEND_LIVE_RESET,	/* it is being reset */
	DLEND_LIVE_NOW,
};

/**
 * struct dlend_conditions - all that follows from a situation and from the wishes
 * @next: next step towards what is wanted, in the order of a device's life
 * @gate: what a BAR access meets.  It is open while all is as wanted, and the VM runs here; not if
 *	RAM is known to have come, as the guest would let the device use RAM that it cannot reach
 *	yet.  It stays open while a rescan is due, which only adds windows, or another size of read
 *	requests, on which only speed depends.  A read starts no transfer: it needs the device,
 *	reset and turned on as the guest wants it, but no windows
 * @live: may an access to configuration space go to the device itself?
 * @urgent: a build must give way to the next step, as it takes as long as the guest's memory is
 *	large: the guest waits for the step, or it ends the device's transfers
 * @quiet: the device transfers nothing, or has stopped and was started again as the guest wants
 * @behind: the device may transfer, and there is RAM that it does not reach.  The guest must not
 *	have that RAM, because the gate does not hold back a device that takes its work from memory.
 *	Not where a loss is being repaired: firmware remaps RAM then, in several steps, and the VMM
 *	must get on with them
 * @looks: the device may look into holes of the VM's memory slots.  While the gate is shut it does
 *	not: the step that has it open looks when it is over
 * @irq_busy: vectors are being set up, or will be
 * @move_settled: the lender has stopped the device, or knows that it may go on, as the VM does
 * @move_told: the lender knows which node may take the device over, and how
 * @ready: there is a lease, and nothing to do
 */
struct dlend_conditions {
	enum dlend_step next;
	enum dlend_gate gate;
	enum dlend_live live;
	bool urgent, quiet, behind, looks, irq_busy, move_settled, move_told, ready;
};

/** dlend_plan - what follows from @now, @want and @have? */
struct dlend_conditions dlend_plan(struct dlend_situation now, const struct dlend_wish *want,
				   const struct dlend_wish *have);

/** dlend_plan_may_leave - the VM stands still, and nothing is under way: may the device move? */
bool dlend_plan_may_leave(const struct dlend_wish *want, const struct dlend_wish *have);

/* What the end of a build means for the device. */
enum dlend_verdict {
	DLEND_VERDICT_STANDS,	/* the windows stand */
	DLEND_VERDICT_AGAIN,	/* not yet: build again, a little later */
	DLEND_VERDICT_KEEP,	/* a rescan failed, and found nothing: what stood still does */
	DLEND_VERDICT_FAIL,	/* the guest has RAM out of the device's reach: it is of no use */
};

/**
 * dlend_plan_verdict - what does the end of a build mean for the device?
 * @want, @have: (in) as of the end of the build, before it is noted
 * @err: (in) of dlend_memory_build()
 * @overdue: (in) of dlend_plan_overdue()
 *
 * A device whose windows stand fails if RAM is known (@grow) that cannot be added to them: what it
 * writes there would be lost in silence.  That RAM is tried again first, until
 * @overdue, with the gate shut: there may be room in a moment.
 */
enum dlend_verdict dlend_plan_verdict(const struct dlend_wish *want, const struct dlend_wish *have,
				      int err, bool overdue);

/* Pause between tries of one step; twice as long each time. */
#define DLEND_PAUSE_MIN_MS	5u
#define DLEND_PAUSE_MAX_MS	500u

/**
 * struct dlend_patience - for a step that is tried again and again
 * @pause_ms: pause before the next try; set it to 0 when a new step begins
 * @most: the furthest that the step has come
 * @since: when it came there
 */
struct dlend_patience {
	unsigned int pause_ms;
	u64 most;
	s64 since;
};

/**
 * dlend_plan_overdue - a step is to be tried again: is the patience at an end?
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
 * @shut: (in) when it was shut
 * @progress: (in) when the windows behind it last grew, by any build; may be before @shut
 * @limit: (in) longest time without progress
 *
 * All are of the same clock, in the same unit. A guest whose memory takes minutes to pin keeps its device.
 */
bool dlend_plan_gate_overdue(s64 now, s64 shut, s64 progress, s64 limit);

/*
 * What a lender's reply means.
 *
 * A reply may come late: the guest, its VMM or the VM's way from host to host may have changed what
 * is wanted since.  So the asker takes a copy of the wishes before it asks (@asked), and the reply
 * is decided against that copy.  What the lender has done by then is noted as it is.  That it was
 * enough, or that it failed, counts only if the same is still wanted.
 *
 * Functions that return bool say whether a failure is the device's: if not, it is over for another
 * reason, or the next step asks anew.
 */

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
 * @want: (in, out) after a refusal no node is to take the device over; the lender is told so, as it
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
