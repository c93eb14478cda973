/* SPDX-License-Identifier: GPL-2.0 */
/* DMA of attached devices: an IOMMU driver of our own, which the kernel's dma-iommu uses. */
#ifndef DLEND_NATIVE_IOMMU_H
#define DLEND_NATIVE_IOMMU_H

#include <linux/types.h>

struct dlend_native_fn;
struct pci_dev;

/**
 * dlend_native_iommu_init - register the driver
 *
 * Devices of our root buses belong to it from the moment that the PCI core knows of them.
 * Context: process, may sleep. Return: 0 or -errno.
 */
int dlend_native_iommu_init(void);

/** dlend_native_iommu_exit - undo that; no device is attached. Context: process, may sleep. */
void dlend_native_iommu_exit(void);

/**
 * dlend_native_iommu_cut - put this host's memory out of a device's reach, at once and for good
 * @fn: (in) function
 *
 * Context: process, may sleep; waits for no peer whose link is down.
 */
void dlend_native_iommu_cut(struct dlend_native_fn *fn);

#endif
