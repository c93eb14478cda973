/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interrupts, the lender's side: writes counters in the borrower's memory, and hints into its ring.
 *
 * What users open is declared in dlend/link.h (dlend_irq_source_open()).
 */
#ifndef DLEND_NTB_IRQ_SOURCE_H
#define DLEND_NTB_IRQ_SOURCE_H

#include <linux/spinlock.h>
#include <linux/types.h>

#include "irqscan.h"

struct dlend_link;

/**
 * struct dlend_irq_sources - all sources of a link
 * @lock: guards all of this, and the counters of each source
 * @prod: hints written in this session
 * @reads: how long reads through the window take
 * @on: a session is up: sources may fire
 */
struct dlend_irq_sources {
	spinlock_t lock;		/* all of this, counters of sources */
	u32 prod;
	struct dlend_readtime reads;
	bool on;
};

/** dlend_irq_sources_init - no source may fire yet. Context: any. */
void dlend_irq_sources_init(struct dlend_link *link);

/**
 * dlend_irq_sources_begin - the peer's ring of hints is empty: a session is to begin
 * @link: link
 *
 * Context: process; takes sources.lock.
 */
void dlend_irq_sources_begin(struct dlend_link *link);

/**
 * dlend_irq_sources_enable - let sources fire, or not
 * @link: link
 * @on: (in) false: no source writes into the peer's memory any more when this returns
 *
 * Context: process; takes sources.lock.
 */
void dlend_irq_sources_enable(struct dlend_link *link, bool on);

#endif
