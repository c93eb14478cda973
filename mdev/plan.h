/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The plan of a borrowed device: its next step, worked out from the desired and the actual state;
 * and what the lender's reply to that step means.
 *
 * Pure logic: no locks, no messages; vdev.c and move.c make the steps.  The caller serialises all
 * calls about one object (in mdev/: by vdev->lock).  Context of all functions: any.
 */
#ifndef DLEND_MDEV_PLAN_H
#define DLEND_MDEV_PLAN_H

#include <dlend/types.h>

/* The steps of the worker; all but NONE and BUILD are one request to the lender. */
enum dlend_step {
	DLEND_STEP_NONE,
	DLEND_STEP_BORROW,	/* ask for a lease */
	DLEND_STEP_RESET,
	DLEND_STEP_BME_OFF,	/* turn Bus Master Enable off */
	DLEND_STEP_ENABLE,	/* have the lender restore what the device lost, as its BARs */
	DLEND_STEP_IRQ,		/* set up interrupts */
	DLEND_STEP_READRQ,	/* set Max_Read_Request_Size */
	DLEND_STEP_BUILD,	/* pin and map guest RAM (dlend_memory_build()) */
	DLEND_STEP_BME_ON,	/* turn Bus Master Enable on */
	/* While the VM moves from one host to another */
	DLEND_STEP_MOVE_TO,	/* (old host) tell the lender which node may take the device over */
	DLEND_STEP_QUIESCE,	/* (old host) the VM stands still: stop the device */
	DLEND_STEP_RUN,		/* (old host) the VM goes on here after all */
	DLEND_STEP_STANDBY,	/* (new host) ask for a lease that prepares to take over */
	DLEND_STEP_TAKE_OVER,	/* (new host) the VM goes on here: take the device over */
};

/* Interrupt mode while the lender sets interrupts up: no desired state has it. */
#define DLEND_IRQ_UNKNOWN	DLEND_IRQ_MODES

/**
 * struct dlend_state - set-up of a device: the desired state, or the actual one
 *
 * Counters grow in the desired state when something is to be done once more, and get the desired
 * value in the actual state when it is done.
 *
 * @bme: Bus Master Enable
 * @forced: @move_to may take the device over even if the device is never quiet
 * @quiesced: desired: the VM stands still and may be about to move, so the device is to do nothing.
 *	Actual: the lender has stopped the device for that reason
 * @loud: (actual only) the lender stopped the device while it was at work, and the device has not
 *	done DMA since; its work may be lost if it moves
 * @taken: (desired only) the VM has come, and goes on here: take the device over
 * @move_to: node that may take the device over, or DLEND_NODE_NONE
 * @vm: number of the VM that the device is for: a counter that grows when the device is closed,
 *	when another VM is to come, and when that VM does not come after all
 * @turn: counter: changes of @quiesced
 * @named: counter: settings of @move_to and @forced, also to the same values
 * @reset: counter: resets of the device
 * @enable: counter: the guest has turned on memory decoding or bus mastering
 * @build: counter: builds without which the device may not do DMA; like the next two, done by
 *	DLEND_STEP_BUILD
 * @rescan: counter: builds that search everywhere, and may well find no new RAM
 * @grow: counter: the guest has got RAM, or is getting some, which a build has to map
 * @irq_mode: interrupt mode
 * @irq_count: number of interrupt vectors
 * @irq_turn: counter: set-ups of interrupts with the same mode and count
 * @readrq: Max_Read_Request_Size, as dlend_cfg_readrq() has it
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
 * struct dlend_situation - what the plan depends on beside the two states
 * @open: a VMM has the device open
 * @failed: the device is of no use until it is reset
 * @leased: there is a lease
 * @touched: an access of the guest waits for the device
 * @unmapping: a dma_unmap is removing DMA mappings
 * @prepin: borrow and build when the device is opened, not only for Bus Master Enable
 * @coming: the VM is moving to this host, and still belongs to another host
 * @refused: the lender does not let this host prepare for a VM that is @coming
 * @held: VFIO's migration state is not RUNNING: the VM stands still, or has come and waits for
 *	another of its devices
 * @borrowing: the worker asks the lender for a lease
 * @dma: the device may do DMA
 * @looking: the worker makes a step after which the gate may open, and then looks for RAM that has
 *	come while the gate was shut; the gate stays shut until the worker has looked
 */
struct dlend_situation {
	bool open, failed, leased, touched, unmapping, prepin, coming, refused, held;
	bool borrowing, dma, looking;
};

/* What happens to a guest's access to a BAR. */
enum dlend_gate {
	DLEND_GATE_SHUT,	/* it waits: the device is not borrowed, reset and enabled yet */
	DLEND_GATE_OPEN,	/* it goes through */
	DLEND_GATE_DEAD,	/* no device answers: reads get 0xff, writes are lost */
	DLEND_GATE_READ,	/* a trapped read goes through, all else waits for the next steps */
};

/* May an access to configuration space go to the device itself? */
enum dlend_live {
	DLEND_LIVE_NO,		/* no: not borrowed, nor asked for; or the VM stands still */
	DLEND_LIVE_SOON,	/* soon: the device is being borrowed */
	DLEND_LIVE_RESET,	/* soon: the device is being reset */
	DLEND_LIVE_NOW,		/* yes */
};

/**
 * struct dlend_conditions - all that follows from a situation, the desired and the actual state
 * @next: next step towards the desired state, in the order of a device's life
 * @gate: what a BAR access meets.  The gate is open while the actual state is the desired one, and
 *	the VM runs here.  It is shut while RAM is known to have come (@grow), as the guest would
 *	let the device use RAM that it does not reach yet.  It stays open while a rescan is due,
 *	which only adds DMA mappings, or another size of read requests, on which only speed depends.
 *	A trapped read starts no DMA: it needs a device that is reset and enabled as the guest wants
 *	it, but no DMA mappings
 * @live: may an access to configuration space go to the device itself?
 * @urgent: a build, which takes long if the guest has much memory, must give way to the next step:
 *	the guest waits for that step, or that step stops the device's DMA
 * @quiesced: the device does no DMA; or no step that stops DMA is due, as the device has stopped
 *	and was started again as the guest wants
 * @behind: the device may do DMA, and there is RAM that it does not reach.  The guest must not get
 *	that RAM, because the gate does not hold back a device that takes its work from memory.
 *	False while a loss is repaired: firmware remaps RAM then in several steps, and the VMM must
 *	get on with them
 * @looks: the device may look into holes of the VM's memory slots.  It does not while the gate is
 *	shut: a look is made before the gate opens
 * @irq_busy: vectors are being set up, or will be
 * @move_settled: if the VM stands still, the lender has stopped the device; if the VM runs, the
 *	lender knows that the device may go on
 * @move_told: the lender knows @move_to and @forced of the desired state
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

/**
 * dlend_plan_may_leave - may the device move?
 * @desired: (in) desired state
 * @actual: (in) actual state
 *
 * Return: true if the VM stands still, and the lender has stopped the device when it was quiet.
 */
bool dlend_plan_may_leave(const struct dlend_state *desired, const struct dlend_state *actual);

/* What the end of a build means for the device. */
enum dlend_verdict {
	DLEND_VERDICT_STANDS,	/* the DMA mappings are complete */
	DLEND_VERDICT_AGAIN,	/* they are not complete yet: build again, a little later */
	DLEND_VERDICT_KEEP,	/* a rescan failed: the mappings stay as they were, complete */
	DLEND_VERDICT_FAIL,	/* the device does not reach all RAM: it is of no use */
};

/**
 * dlend_plan_verdict - judge what the end of a build means for the device
 * @desired: (in) desired state at the end of the build
 * @actual: (in) actual state at the end of the build, before the caller changes it
 * @err: (in) what dlend_memory_build() returned
 * @overdue: (in) what dlend_plan_overdue() returned
 *
 * A device whose mappings were complete fails if RAM is known (@grow) that cannot be mapped: what
 * the device writes there would be lost without an error.  Before that, the build is tried again
 * until @overdue, with the gate shut, as there may be room in a moment.
 *
 * Return: the verdict; the caller changes @actual accordingly.
 */
enum dlend_verdict dlend_plan_verdict(const struct dlend_state *desired,
				      const struct dlend_state *actual,
				      int err, bool overdue);

/* Pause between two tries of a step; it is doubled each time. */
#define DLEND_PAUSE_MIN_MS	5u
#define DLEND_PAUSE_MAX_MS	500u

/**
 * struct dlend_patience - tries of a step that is tried again and again
 * @pause_ms: pause before the next try; the caller sets it to 0 when a new step begins
 * @most: the highest @progress of dlend_plan_overdue() so far
 * @since: time when that progress was reached
 */
struct dlend_patience {
	unsigned int pause_ms;
	u64 most;
	s64 since;
};

/**
 * dlend_plan_overdue - has a step that is to be tried again made no progress for too long?
 * @p: (in, out) tries; the pause before the next try becomes longer
 * @progress: (in) how far the step has come, e.g. in bytes; less than before is no progress
 * @now: (in) time, of any clock and in any unit, the same in all calls
 * @limit: (in) longest time without progress, in the same unit
 *
 * Return: true if @progress has not grown for more than @limit.
 */
bool dlend_plan_overdue(struct dlend_patience *p, u64 progress, s64 now, s64 limit);

/**
 * dlend_plan_gate_overdue - has the gate been shut for too long, without any progress?
 * @now: (in) time
 * @shut: (in) when the gate was shut
 * @progress: (in) when the DMA mappings last grew, by any build; may be before @shut
 * @limit: (in) longest time without progress
 *
 * All times are of the same clock, in the same unit. A guest whose memory takes minutes to pin
 * keeps its device, as there is progress.
 *
 * Return: true if @limit has passed since the later one of @shut and @progress.
 */
bool dlend_plan_gate_overdue(s64 now, s64 shut, s64 progress, s64 limit);

/*
 * What a lender's reply means.
 *
 * A reply may come late: the guest, its VMM or a move of the VM may have changed the desired state
 * since.  So a copy of the desired state is taken before the lender is asked (@asked), and the
 * reply is judged against that copy.  What the lender has done is noted in @actual in any case.
 * Whether the request was enough, or its failure matters, depends on whether the same is still
 * desired.
 *
 * Parameters, where a function does not say: @desired (in): the desired state now; @asked (in): the
 * desired state when the lender was asked; @actual (in, out): the actual state; @readrq (in):
 * Max_Read_Request_Size that the device has after a reset; @err (in): 0, or -errno of the request.
 *
 * dlend_reply_bus_master(), dlend_reply_reset(), dlend_reply_irq() and dlend_reply_ran() return
 * true if the device has failed, so that the caller calls dlend_condition_fail().  If @err is not 0
 * and they return false, the failure does not matter: the device was closed or reset since, or the
 * next step asks again.
 */

/* Max_Read_Request_Size that no desired state has: so the lender is asked once more. */
#define DLEND_READRQ_UNKNOWN	0xffffffffu

/**
 * dlend_reply_wanted - is a lease still wanted for the VM that it was asked for?
 * @desired: (in) the desired state now
 * @asked: (in) the desired state when the lender was asked
 *
 * Return: false: the caller returns a lease that was granted, and ignores a refusal.
 */
bool dlend_reply_wanted(const struct dlend_state *desired, const struct dlend_state *asked);

/** dlend_reply_granted - set @actual to what a new lease begins with */
void dlend_reply_granted(const struct dlend_state *asked, struct dlend_state *actual, u32 readrq);

/** dlend_reply_taken - note the end of DLEND_STEP_TAKE_OVER, or its failure: only RAM is set up */
void dlend_reply_taken(struct dlend_state *actual);

/**
 * dlend_reply_bus_master - note the reply to DLEND_STEP_BME_ON or DLEND_STEP_BME_OFF
 * @desired: (in) the desired state now
 * @asked: (in) the desired state when the lender was asked
 * @actual: (in, out) the actual state
 * @on: (in) true: BME_ON; false: BME_OFF
 * @err: (in) 0, or -errno of the request
 *
 * Return: has the device failed?
 */
bool dlend_reply_bus_master(const struct dlend_state *desired, const struct dlend_state *asked,
			    struct dlend_state *actual, bool on, int err);

/** dlend_reply_reset - note the reply to DLEND_STEP_RESET */
bool dlend_reply_reset(const struct dlend_state *desired, const struct dlend_state *asked,
		       struct dlend_state *actual, u32 readrq, int err);

/** dlend_reply_irq_same - is the interrupt mode and count that was asked for still desired? */
bool dlend_reply_irq_same(const struct dlend_state *desired, const struct dlend_state *asked);

/**
 * dlend_reply_irq - note the reply to DLEND_STEP_IRQ
 * @desired: (in) the desired state now
 * @asked: (in) the desired state when the lender was asked
 * @actual: (in, out) the actual state
 * @err: (in) 0, or -errno of the request; -ENOSPC, too few vectors, is no failure of the device
 *	here: the caller asks for fewer
 *
 * Return: has the device failed?
 */
bool dlend_reply_irq(const struct dlend_state *desired, const struct dlend_state *asked,
		     struct dlend_state *actual, int err);

/**
 * dlend_reply_quiesced - note the reply to DLEND_STEP_QUIESCE
 * @asked: (in) the desired state when the lender was asked
 * @actual: (in, out) the actual state
 * @drained: (in) the device was quiet when it was stopped, or may be stopped at work (@forced)
 * @err: (in) 0, or -errno of the request
 */
void dlend_reply_quiesced(const struct dlend_state *asked, struct dlend_state *actual, bool drained,
			  int err);

/** dlend_reply_ran - note the reply to DLEND_STEP_RUN */
bool dlend_reply_ran(const struct dlend_state *desired, const struct dlend_state *asked,
		     struct dlend_state *actual, int err);

/**
 * dlend_reply_named - note the reply to DLEND_STEP_MOVE_TO
 * @desired: (in, out) the desired state now.  If the request failed, @move_to becomes
 *	DLEND_NODE_NONE, so that the next step tells the lender that no node may take the device
 *	over: the lender may have done what was asked, although no reply has come
 * @asked: (in) the desired state when the lender was asked
 * @actual: (in, out) the actual state
 * @told: (in, out) the first error since move_to was written last, or 0
 * @err: (in) 0, or -errno of the request
 *
 * Return: true if the lender has refused a node that is still desired: the caller says so.
 */
bool dlend_reply_named(struct dlend_state *desired, const struct dlend_state *asked,
		       struct dlend_state *actual, int *told, int err);

#endif
