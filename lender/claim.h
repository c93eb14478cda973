/* SPDX-License-Identifier: GPL-2.0 */
/* Making a function the lender's own, and learning what it has. */
#ifndef DLEND_LENDER_CLAIM_H
#define DLEND_LENDER_CLAIM_H

#include "lender/fn.h"

struct iommu_group;

/**
 * lend_claim_take - own a function's DMA and its BARs, turn memory decoding on, look at the BARs
 * @fn: (in, out) new function
 *
 * Context: process, device lock.
 * Return: 0; -EBUSY another driver does DMA in its group, or something else has a BAR; or as
 * iommu_device_claim_dma_owner(), pci_enable_device_mem().  A message says why, and what to do.
 */
int lend_claim_take(struct lend_fn *fn);

/**
 * lend_claim_release - end of lend_claim_take() of @fn (in, out).
 *
 * Context: process, device lock.
 */
void lend_claim_release(struct lend_fn *fn);

/**
 * lend_claim_interrupts - learn which interrupts a function has in this host
 * @fn: (in, out) function, claimed
 * @iommu: (in) its IOMMU group
 *
 * Context: process, device lock.
 */
void lend_claim_interrupts(struct lend_fn *fn, struct iommu_group *iommu);

/**
 * lend_claim_clean - reset a function that has a reset of its own
 * @fn: (in, out) function, which has joined its group; lend_fn.shared_reset is set if it turns out
 *	that it has none
 *
 * Context: process, may take seconds; device lock.
 * Return: 0; or as lend_reset_fn() (a message says so).
 */
int lend_claim_clean(struct lend_fn *fn);

/**
 * lend_claim_learn - what a function is like after its reset: save the PCI state that every later
 * reset restores, copy its ROM and its configuration space, make the filter of what a borrower may
 * do there
 * @fn: (in, out) function that was just reset for the first time
 *
 * Context: process, device lock.
 * Return: 0; -ENOMEM; or as pci_save_state().
 */
int lend_claim_learn(struct lend_fn *fn);

#endif
