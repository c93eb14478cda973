/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Doorbells of a link: how often the peer makes this node work.
 *
 * The hardware calls dlend_link_doorbell() (dlend/link_hw.h).
 */
#ifndef DLEND_NTB_DOORBELL_H
#define DLEND_NTB_DOORBELL_H

#include <linux/types.h>
#include <linux/workqueue.h>
#include "irqscan.h"

struct dlend_link;

/**
 * struct dlend_doorbell - doorbells of a link
 * @work: polls them while they are masked
 * @budget: what their interrupts may do; under link->irq_lock
 * @on: the hardware is set up: @work may unmask. Under link->irq_lock, also read without
 * @looked_at: when every counter was last looked at, ms; under state_lock
 */
struct dlend_doorbell {
	struct work_struct work;
	struct dlend_budget budget;
	bool on;
	u64 looked_at;
};

/** dlend_doorbell_init - doorbells stay masked for now. Context: any. */
void dlend_doorbell_init(struct dlend_link *link);

/**
 * dlend_doorbell_enable - unmask or mask the doorbells
 * @link: link
 * @on: (in) false: nothing is polled any more when this returns
 *
 * Context: process, may sleep, under state_lock; takes link->irq_lock.
 */
void dlend_doorbell_enable(struct dlend_link *link, bool on);

/**
 * dlend_doorbell_look - poll the doorbells once, and now and then every counter
 * @link: link
 *
 * For doorbells that were lost, and hints that were overwritten.
 * Context: process, under state_lock.
 */
void dlend_doorbell_look(struct dlend_link *link);

#endif
