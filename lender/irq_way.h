/* SPDX-License-Identifier: GPL-2.0 */
/* Ways by which a lent function's interrupts reach its borrower. */
#ifndef DLEND_LENDER_IRQ_WAY_H
#define DLEND_LENDER_IRQ_WAY_H

#include "lender/fn.h"

/* What a borrower wants. @direct: by the device's own messages, @message; NULL: by its doorbell */
struct lend_irq_want {
	u32 mode, count;
	const struct dlend_p_direct *direct;
	const struct dlend_p_message *message;
};

/**
 * struct lend_irq_way - one way
 * @name: for debugfs
 * @counts: they pass this host, which counts them
 * @up: set up the vectors. In fn->irq.vec is room for as many as are wanted, for a way that has
 *	handlers; it is zero. On error there are none. Return: as lend_irq_setup_direct()
 * @down: end them
 * @finish: wait until those that the device has sent have left this host; it sends no more. Also
 *	after @down
 *
 * All: process context, group lock.
 */
struct lend_irq_way {
	const char *name;
	bool counts;
	int (*up)(struct lend_fn *fn, const struct lend_irq_want *want);
	void (*down)(struct lend_fn *fn);
	void (*finish)(struct lend_fn *fn);
};

extern const struct lend_irq_way lend_irq_way_direct;

/**
 * lend_irq_alloc_vectors - have so many vectors of this host
 * @fn: (in, out) function
 * @mode: (in) DLEND_IRQ_MSI or DLEND_IRQ_MSIX
 * @count: (in) all of them, or none
 *
 * Context: process, group lock. Return: 0; or as pci_alloc_irq_vectors().
 */
int lend_irq_alloc_vectors(struct lend_fn *fn, u32 mode, u32 count);

/**
 * lend_irq_free_vectors - undo lend_irq_alloc_vectors()
 * @pdev: (in) its device
 *
 * pci_free_irq_vectors() turns INTx on, but nobody here handles that line; others may share it.
 * Context: process, group lock.
 */
void lend_irq_free_vectors(struct pci_dev *pdev);

#endif
