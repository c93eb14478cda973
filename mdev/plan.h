/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is to be done next for a borrowed device, from what the guest wants and what the lender was
 * told.  Pure logic: no locks, no messages; mdev/borrow.c does what this says.
 */
#ifndef DLEND_MDEV_PLAN_H
#define DLEND_MDEV_PLAN_H

#include <dlend/types.h>

enum dlend_step {
	DLEND_STEP_NONE,
	DLEND_STEP_BORROW,
	DLEND_STEP_RESET,
	DLEND_STEP_BME_OFF,
	DLEND_STEP_IRQ,
	DLEND_STEP_BUILD,
	DLEND_STEP_BME_ON,
};

/* In a struct dlend_wish of what the lender was told: a set-up is under way. Equals no wish. */
#define DLEND_IRQ_UNKNOWN	DLEND_IRQ_MODES

/**
 * struct dlend_wish - a device's set-up: as wanted, or as it is
 * @bme: Bus Master Enable
 * @reset, @build, @rescan: running numbers; one that differs is to be done once more
 * @irq_mode, @irq_count: interrupts
 */
struct dlend_wish {
	bool bme;
	u32 reset, build, rescan;
	enum dlend_irq_mode irq_mode;
	u32 irq_count;
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
 * dlend_plan_settled - may the guest's accesses go through?
 *
 * A rescan only adds windows: they may meanwhile.
 */
bool dlend_plan_settled(struct dlend_situation now, const struct dlend_wish *want,
			const struct dlend_wish *have);

/**
 * struct dlend_beside - another function of the same IOMMU group
 * @same_vm: whoever has it open, or had it last, is the VM that asks
 * @leased, @borrowing: it is that VM's, or will be
 * @leases: granted and not returned yet; with nobody who uses it, one that is being returned
 */
struct dlend_beside {
	bool same_vm, leased, borrowing;
	unsigned int leases;
};

/**
 * dlend_plan_beside - may a VM borrow a function, with another one of its group like that?
 *
 * A group has one domain on the lender: what one function can reach, the others can.
 * Return: 0; -EBUSY another VM uses the other one; -EAGAIN a VM has left it, but it may still
 * transfer, and would into the memory of the one that asks.
 */
int dlend_plan_beside(struct dlend_beside other);

#endif
