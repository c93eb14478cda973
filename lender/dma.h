/* SPDX-License-Identifier: GPL-2.0 */
/* Guest memory that a lent function reaches by DMA. */
#ifndef DLEND_LENDER_DMA_H
#define DLEND_LENDER_DMA_H

#include <dlend/link.h>

#include "lender/fn.h"

/**
 * struct lend_reach - what a borrower's requests about memory change
 * @domain: of the function's group, or of who prepares to take it over
 * @link: to the borrower
 * @owner: of the borrower's memory there
 */
struct lend_reach {
	struct dlend_domain *domain;
	struct dlend_link *link;
	struct dlend_owner *owner;
};

/**
 * lend_dma_reach - what the holder of the lease changes
 * @fn: (in) function, lent
 * @to: (out) valid while the group lock is held
 *
 * Context: process, group lock.
 */
void lend_dma_reach(struct lend_fn *fn, struct lend_reach *to);

/**
 * lend_dma_map - map all entries of a message, or none
 * @fn: (in) function
 * @to: (in) the borrower's domain
 * @dma: (in) entries, copied and checked for their form
 *
 * Context: process, group lock.
 * Return: 0; -ERANGE outside the window or the domain; -ENOSPC more than a guest can have; -EEXIST
 * something is mapped there; -EINVAL; -ENOMEM.
 */
int lend_dma_map(struct lend_fn *fn, const struct lend_reach *to, const struct dlend_p_dma *dma);

/**
 * lend_dma_unmap - unmap all entries of a message
 * @fn: (in) function
 * @to: (in) the borrower's domain
 * @dma: (in) entries, copied and checked for their form.  An entry that is not mapped is no error:
 *	the borrower may say it twice
 *
 * Context: process, group lock.
 * Return: 0; -EINVAL an entry cuts a mapping: all other entries are unmapped all the same.
 */
int lend_dma_unmap(struct lend_fn *fn, const struct lend_reach *to, const struct dlend_p_dma *dma);

/**
 * lend_dma_forget - unmap all that the holder mapped through a function: its lease is over
 * @fn: (in) function
 *
 * Context: process, group lock; quick where the domain is blocked.
 */
void lend_dma_forget(struct lend_fn *fn);

#endif
