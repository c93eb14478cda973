/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/iommu.h>: regions that a platform reserves. */
#ifndef SHIM_LINUX_IOMMU_H
#define SHIM_LINUX_IOMMU_H

#include <linux/list.h>
#include <linux/types.h>

enum iommu_resv_type {
	IOMMU_RESV_DIRECT,
	IOMMU_RESV_DIRECT_RELAXABLE,
	IOMMU_RESV_RESERVED,
	IOMMU_RESV_MSI,
	IOMMU_RESV_SW_MSI,
};

struct iommu_resv_region {
	struct list_head list;
	phys_addr_t start;
	size_t length;
	int prot;
	enum iommu_resv_type type;
};

#endif
