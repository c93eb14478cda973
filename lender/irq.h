/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts of a lent function. */
#ifndef DLEND_LENDER_IRQ_H
#define DLEND_LENDER_IRQ_H

#include <dlend/link.h>

#include "lender/fn.h"

struct seq_file;

/** lend_irq_init - prepare the interrupts of a new function @fn (out). Context: any. */
void lend_irq_init(struct lend_fn *fn);

/**
 * lend_irq_source - find a borrower's interrupt counters
 * @link: (in) to the borrower
 * @want: (in) where the borrower says that they are; not trusted
 *
 * Context: process, no lock: it reads the borrower's memory, and nobody may wait behind that read.
 * Return: source, for lend_fn.irq, or for dlend_irq_source_close(); or ERR_PTR() as
 * dlend_irq_source_open().
 */
struct dlend_irq_source *lend_irq_source(struct dlend_link *link,
					 const struct dlend_p_borrow *want);

/**
 * lend_irq_close - the function interrupts nobody any more; may be called twice
 * @fn: (in, out) function
 *
 * Context: process, group lock.
 */
void lend_irq_close(struct lend_fn *fn);

/**
 * lend_irq_setup - end the interrupts of a function, and set up others
 * @fn: (in, out) function; on error it has no interrupts
 * @mode: (in) enum dlend_irq_mode, DLEND_IRQ_NONE only ends the old ones; not trusted
 * @count: (in) number of vectors: the function gets all of them or none; not trusted
 * @direct: (in) the device's own messages go to the borrower, there; not trusted, its form was
 *	checked.  NULL: handlers here take the interrupts
 * @message: (in) of each vector, from dlend_link_messages(); only with @direct
 *
 * Context: process, group lock.
 * Return: 0; -EINVAL the function has no such interrupts; -ENOTCONN it is not lent; -ENOSPC this
 * host has too few vectors; -ENOMEM; or as request_irq().  With @direct also -EOPNOTSUPP the link
 * has no second window, or the guest has memory where such messages would go: nothing is logged;
 * -ERANGE @direct leads to nowhere.
 */
int lend_irq_setup(struct lend_fn *fn, u32 mode, u32 count, const struct dlend_p_direct *direct,
		   const struct dlend_p_message *message);

/**
 * lend_irq_unmask - the guest has served INTx: it may fire again
 * @fn: (in, out) function
 *
 * If the line is still asserted, INTx fires again at once and stays masked.
 *
 * Context: process, group lock.
 */
void lend_irq_unmask(struct lend_fn *fn);

/** lend_irq_restore_intx - INTx of @fn (in) is on again after a reset. Context: group lock */
void lend_irq_restore_intx(struct lend_fn *fn);

/**
 * lend_irq_show - print mode and counters, for debugfs
 * @fn: (in) function
 * @m: (out) file
 *
 * Context: process, group lock.
 */
void lend_irq_show(struct lend_fn *fn, struct seq_file *m);

/**
 * lend_irq_hold - the device keeps its interrupts to itself, if it can, or sends them again
 * @fn: (in) function
 * @mask: (in) it keeps them
 *
 * Only MSI-X can be held: a device with others must not interrupt because it does nothing.
 * Context: process, group lock.
 */
void lend_irq_hold(struct lend_fn *fn, bool mask);

/**
 * lend_irq_finish - wait until what has come has left this host; the reply does the rest
 * @fn: (in) function that sends no more interrupts
 *
 * Context: process, group lock; waits for handlers.
 */
void lend_irq_finish(struct lend_fn *fn);

/** lend_irq_fired - interrupts that @fn (in) has had in all. Context: process, group lock. */
u64 lend_irq_fired(const struct lend_fn *fn);

#endif
