/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interrupts, the lender's side: writes counters in the borrower's memory, and hints into its ring.
 *
 * What users open is declared in dlend/link.h (dlend_irq_source_open()).
 */
#ifndef DLEND_NTB_IRQ_SOURCE_H
#define DLEND_NTB_IRQ_SOURCE_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "irqscan.h"

struct dlend_link;

/**
 * struct dlend_irq_sources - all sources of a link
 * @lock: guards what follows, and the counters of each source; the peer is not read under it
 * @prod: hints written in this session
 * @reads: how long interrupts may read through the window
 * @on: a session is up: sources may fire
 * @telling: around a read for those, and telling them
 * @reading: inside @telling, around a read by a thread
 * @quiet_until: no thread reads before then, in jiffies; under @reading
 * @late: sources with interrupts that were not told at once
 * @work: tells these
 */
struct dlend_irq_sources {
	spinlock_t lock;		/* what follows, counters of sources */
	u32 prod;
	struct dlend_readtime reads;
	bool on;
	struct mutex telling;		/* a read for what is late, and telling it */
	struct mutex reading;		/* a read by a thread */
	unsigned long quiet_until;
	struct list_head late;
	struct work_struct work;
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

/**
 * dlend_irq_sources_push - all that devices here have written to the peer has arrived there
 * @link: link
 *
 * What devices of this host write to the peer takes another way than what its processors write, and
 * nothing orders the two.  But the answer to a read through the window comes behind both. One read;
 * interrupts that are late have been told, too. Nothing happens on the loop, or if the session is
 * over.
 * Context: process, may sleep, no lock that anybody else waits for: a handler of a message, or work
 * that link_down() of its user waits for.
 */
void dlend_irq_sources_push(struct dlend_link *link);

/**
 * dlend_irq_sources_stop - the link goes: nothing is read through the window any more
 * @link: link, after dlend_irq_sources_enable(link, false)
 *
 * Context: process, may sleep, no lock; waits for one read.
 */
void dlend_irq_sources_stop(struct dlend_link *link);

#endif
