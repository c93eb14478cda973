/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a device can have an aperture, and where in its IO addresses. */
#ifndef DLEND_IOMMU_APERTURE_PLACE_H
#define DLEND_IOMMU_APERTURE_PLACE_H

#include <linux/types.h>

struct device;
struct dlend_paging;
struct iommu_group;

/**
 * dlend_aperture_check_iommu - can a device have a domain of its own?
 * @dev: device
 * @group: (in) its IOMMU group, or NULL
 *
 * Logs what is in the way, and what to do.
 * Context: process, may sleep.
 * Return: 0; -EOPNOTSUPP architecture; -ENODEV no IOMMU translates; -EBUSY a driver uses another
 * device of the group; -EPERM its interrupts are not remapped, and nobody has allowed that.
 */
int dlend_aperture_check_iommu(struct device *dev, struct iommu_group *group);

/**
 * dlend_aperture_pick_base - find a free range of IO addresses
 * @dev: device
 * @pg: (in) its domain, not attached
 * @size: (in) bytes wanted
 * @align: (in) alignment that the NTB window needs, bytes, power of two or 0
 * @base: (out) first address
 *
 * The range is clear of reserved regions and of the host bridge's windows, and aligned so that the
 * IOMMU can use large pages, where there is room for that.
 * Context: process, may sleep.
 * Return: 0; -ENOSPC, which is logged; -ENOMEM.
 */
int dlend_aperture_pick_base(struct device *dev, const struct dlend_paging *pg, u64 size, u64 align,
			     u64 *base);

#endif
