/* SPDX-License-Identifier: GPL-2.0 */
/* A device becomes a lent function, and a device again. */
#ifndef DLEND_LENDER_BIND_H
#define DLEND_LENDER_BIND_H

#include <dlend/types.h>

#include "lender/fn.h"

struct iommu_group;
struct pci_dev;

/**
 * struct lend_census - who is in an IOMMU group
 * @members: number of functions, without bridges
 * @foreign: there are devices that are not PCI devices
 */
struct lend_census {
	unsigned int members;
	bool foreign;
};

/**
 * lend_census_take - count the functions of an IOMMU group as it is now
 * @iommu: (in) IOMMU group
 * @census: (out) result
 *
 * Context: process; takes the IOMMU core's lock of the group.
 */
void lend_census_take(struct iommu_group *iommu, struct lend_census *census);

/**
 * lend_check_device - can a device be lent, and does an IOMMU translate its DMA?
 * @pdev: (in) device
 * @shared: (out) it has no reset of its own, and is reset with others of its group
 *
 * Context: process, device lock; takes the PCI core's lock of all buses.
 * Return: 0; -EINVAL it is a bridge; -ENOTTY it cannot be reset without others; -EBUSY it has
 * virtual functions; -ENODEV it has no IOMMU; -EOPNOTSUPP its IOMMU passes everything through;
 * -EACCES it has ATS enabled (PCIe 6.0, 10.1.2: the IOMMU trusts translated requests).  A message
 * says why, and what to do.
 */
int lend_check_device(struct pci_dev *pdev, bool *shared);

/**
 * lend_check_group - can the IOMMU group of a device be lent?
 * @pdev: (in) device
 * @iommu: (in) its IOMMU group
 * @census: (out) who is in the group
 *
 * Context: process, device lock; takes the IOMMU core's lock of the group.
 * Return: 0; -EOPNOTSUPP firmware uses it, or it has devices that cannot be lent; -EPERM interrupt
 * remapping is off; -ENOMEM.  A message says why, and what to do.
 */
int lend_check_group(struct pci_dev *pdev, struct iommu_group *iommu, struct lend_census *census);

/**
 * lend_check_attach - attach a group's domain, unless a device of the group then has ATS
 * @domain: (in, out) domain of the group; if this fails it is blocked, for good
 * @fn: (in) a function of the group
 *
 * Context: process, group lock; takes the IOMMU core's lock of the group.
 * Return: 0; -EACCES a device has ATS enabled, and a message says which, why, and what to do;
 * -ENODEV @fn has no IOMMU group any more; or as dlend_domain_attach().
 */
int lend_check_attach(struct dlend_domain *domain, struct lend_fn *fn);

/**
 * lend_rom_read - give a borrower a piece of the ROM
 * @fn: (in) function; no lease is needed
 * @want: (in) from the peer: offset of the piece
 * @got: (out) the piece
 *
 * Context: process; takes no lock.
 * Return: 0; -ENOENT there is no ROM; -ERANGE the ROM is shorter.
 */
int lend_rom_read(struct lend_fn *fn, const struct dlend_p_u32 *want, struct dlend_p_rom *got);

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
