/* SPDX-License-Identifier: GPL-2.0 */
/* Guest memory that a lent function reaches by DMA. */
#ifndef DLEND_LENDER_DMA_H
#define DLEND_LENDER_DMA_H

#include <dlend/link.h>

#include "lender/fn.h"

/**
 * lend_dma_map - map all entries of a message, or none
 * @fn: (in) function
 * @link: (in) to the borrower, who has the lease
 * @dma: (in) entries, copied and checked for their form
 *
 * Context: process, group lock.
 * Return: 0; -ERANGE outside the window or the domain; -ENOSPC more than a guest can have; -EEXIST
 * something is mapped there; -EINVAL; -ENOMEM.
 */
int lend_dma_map(struct lend_fn *fn, struct dlend_link *link, const struct dlend_p_dma *dma);

/**
 * lend_dma_unmap - unmap all entries of a message
 * @fn: (in) function, lent
 * @dma: (in) entries, copied and checked for their form.  An entry that is not mapped is no error:
 *	the borrower may say it twice
 *
 * Context: process, group lock.
 * Return: 0; -EINVAL an entry cuts a mapping: all other entries are unmapped all the same.
 */
int lend_dma_unmap(struct lend_fn *fn, const struct dlend_p_dma *dma);

/**
 * lend_dma_forget - unmap all that was mapped through a function: its lease is over
 * @fn: (in) function
 *
 * Context: process, group lock; quick where the domain is blocked.
 */
void lend_dma_forget(struct lend_fn *fn);

#endif
