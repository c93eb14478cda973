/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interrupts, the borrower's side: counters in this node's memory that the lender writes, and the
 * ring of hints where to look.
 *
 * What users open is declared in dlend/link.h (dlend_irq_sink_open()).
 */
#ifndef DLEND_NTB_IRQ_SINK_H
#define DLEND_NTB_IRQ_SINK_H

#include <linux/types.h>
#include <linux/xarray.h>
#include "irqscan.h"

struct dlend_link;

/**
 * struct dlend_irq_sinks - all sinks of a link
 * @all: sinks by handle; changed and walked under link->irq_lock
 * @next_handle: handles are given out in turn, so that a late hint for a closed sink finds no other
 * @scan: where the walk over the ring is; under link->irq_lock
 * @look_all: dlend_irq_sinks_look_wanted() shall look at every counter; no lock
 */
struct dlend_irq_sinks {
	struct xarray all;
	u32 next_handle;
	struct dlend_irqscan scan;
	bool look_all;
};

/** dlend_irq_sinks_init - there is no sink. Context: any. */
void dlend_irq_sinks_init(struct dlend_link *link);

/** dlend_irq_sinks_free - undo dlend_irq_sinks_init(); all sinks are closed. Context: any. */
void dlend_irq_sinks_free(struct dlend_link *link);

/**
 * dlend_irq_sinks_begin - the ring of hints is empty: a session is to begin
 * @link: link
 *
 * Context: process; takes link->irq_lock.
 */
void dlend_irq_sinks_begin(struct dlend_link *link);

/**
 * dlend_irq_sinks_scan - go through the hints of the ring, and deliver what is new
 * @link: link
 * @budget: (in, out) hints to look at, at most; what is left of them
 *
 * Calls the sinks' fire().
 * Context: any, under link->irq_lock. Return: is something left to be done?
 */
bool dlend_irq_sinks_scan(struct dlend_link *link, u32 *budget);

/** dlend_irq_sinks_want_look - have every counter looked at, soon. Context: any. */
void dlend_irq_sinks_want_look(struct dlend_link *link);

/**
 * dlend_irq_sinks_look_wanted - look at every counter, if dlend_irq_sinks_want_look() was called
 * @link: link
 *
 * In pieces: there may be many sinks, and interrupts are off while one is looked at.
 * Context: process, may sleep; takes link->irq_lock.
 */
void dlend_irq_sinks_look_wanted(struct dlend_link *link);

#endif
