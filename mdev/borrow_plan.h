/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is to be done next for a borrowed device, from what the guest wants and what the lender was
 * told.  Pure logic: no locks, no messages; mdev/steps.c does what this says.
 */
#ifndef DLEND_MDEV_BORROW_PLAN_H
#define DLEND_MDEV_BORROW_PLAN_H

#include <dlend/types.h>

enum dlend_step {
	DLEND_STEP_NONE,
	DLEND_STEP_BORROW,
	DLEND_STEP_RESET,
	DLEND_STEP_BME_OFF,
	DLEND_STEP_IRQ,
	DLEND_STEP_READRQ,
	DLEND_STEP_BUILD,
	DLEND_STEP_BME_ON,
};

/* In a struct dlend_wish of what the lender was told: a set-up is under way. Equals no wish. */
#define DLEND_IRQ_UNKNOWN	DLEND_IRQ_MODES

/**
 * struct dlend_wish - a device's set-up: as wanted, or as it is
 * @bme: Bus Master Enable
 * @reset, @build, @rescan, @grow: running numbers; one that differs is to be done once more.  All
 *	but the first by a build: @rescan is of one that may find nothing, @grow that the guest has
 *	been, or is being, given RAM.
 * @irq_mode, @irq_count: interrupts
 * @readrq: Max_Read_Request_Size, as dlend_cfg_readrq() has it
 */
struct dlend_wish {
	bool bme;
	u32 reset, build, rescan, grow;
	enum dlend_irq_mode irq_mode;
	u32 irq_count;
	u32 readrq;
};

/**
 * struct dlend_situation - what else counts
 * @open: a VMM has the device open
 * @failed: it is of no use until it is reset
 * @leased: there is a lease
 * @touched: somebody waits for the device
 * @unmapping: guest memory is being taken away right now
 * @prepin: borrow and build as soon as it is open, not only for Bus Master Enable
 */
struct dlend_situation {
	bool open, failed, leased, touched, unmapping, prepin;
};

/** dlend_plan_step - next step towards @want, in the order of a device's life */
enum dlend_step dlend_plan_step(struct dlend_situation now, const struct dlend_wish *want,
				const struct dlend_wish *have);

/**
 * dlend_plan_urgent - is there something that a build must give way to?
 *
 * That is what the guest waits for, or what ends a device's transfers: a build takes as long as
 * the guest's memory is large.
 */
bool dlend_plan_urgent(struct dlend_situation now, const struct dlend_wish *want,
		       const struct dlend_wish *have);

/**
 * dlend_plan_readable - may the guest read registers?
 *
 * A read starts no transfer: it needs the device, reset as the guest wants it, but no windows.
 */
bool dlend_plan_readable(struct dlend_situation now, const struct dlend_wish *want,
			 const struct dlend_wish *have);

/**
 * dlend_plan_settled - may the guest's accesses go through?
 *
 * A rescan only adds windows, and the size of read requests matters to nobody: they may meanwhile.
 * Not so if RAM is known to have come: the guest would have the device use what it cannot reach
 * yet.
 */
bool dlend_plan_settled(struct dlend_situation now, const struct dlend_wish *want,
			const struct dlend_wish *have);

/* What a build of the windows that has ended means for the device. */
enum dlend_verdict {
	DLEND_VERDICT_STANDS,	/* the windows do */
	DLEND_VERDICT_AGAIN,	/* not yet: once more, a little later */
	DLEND_VERDICT_KEEP,	/* it was a rescan: what stood before still does, and will do */
	DLEND_VERDICT_FAIL,	/* no windows: the device is of no use */
};

/**
 * dlend_plan_verdict - what becomes of the device
 * @want, @have: as of the end of the build, before it is noted
 * @err: of dlend_memory_build()
 * @overdue: dlend_plan_overdue()
 *
 * A device whose windows stand is never lost for memory that could not be added to them, as long as
 * its link is there.
 */
enum dlend_verdict dlend_plan_verdict(const struct dlend_wish *want, const struct dlend_wish *have,
				      int err, bool overdue);

/**
 * struct dlend_patience - with something that is tried again and again; begins as zeroes
 * @begun: was asked before
 * @most: furthest that it has come
 * @since_ms: when it came there
 */
struct dlend_patience {
	bool begun;
	u64 most;
	s64 since_ms;
};

/**
 * dlend_plan_overdue - is it at an end?
 * @progress: how far it has come, e.g. in bytes; less than before is no progress
 *
 * Return: has it come no further for more than @limit_ms?
 */
bool dlend_plan_overdue(struct dlend_patience *p, u64 progress, s64 now_ms, s64 limit_ms);

/**
 * dlend_plan_gate_overdue - has the gate been shut for too long, and nothing come of it?
 * @shut_ms: when it was shut
 * @progress_ms: when the windows behind it last grew, by whatever; may be before that
 *
 * All times of the same clock. Guests whose memory takes minutes to pin keep their device.
 */
bool dlend_plan_gate_overdue(s64 now_ms, s64 shut_ms, s64 progress_ms, s64 limit_ms);

#endif
