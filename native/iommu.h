/* SPDX-License-Identifier: GPL-2.0 */
/* IOMMU driver of attached devices, which the kernel's dma-iommu and VFIO use. */
#ifndef DLEND_NATIVE_IOMMU_H
#define DLEND_NATIVE_IOMMU_H

/**
 * dlend_native_iommu_init - register the driver
 *
 * Devices of our root buses belong to it from the moment that the PCI core knows of them.
 * Context: process, may sleep. Return: 0 or -errno.
 */
int dlend_native_iommu_init(void);

/** dlend_native_iommu_exit - undo that; no device is attached. Context: process, may sleep. */
void dlend_native_iommu_exit(void);

#endif
