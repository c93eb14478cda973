/* SPDX-License-Identifier: GPL-2.0 */
/* Which devices can be lent. */
#ifndef DLEND_LENDER_CHECK_H
#define DLEND_LENDER_CHECK_H

#include "lender/members.h"

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

#endif
