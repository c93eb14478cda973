/* SPDX-License-Identifier: GPL-2.0 */
/*
 * IOVAs that the platform reserves.  The function is in a header, so that the suite of slots.c can
 * call it without an IOMMU.
 */
#ifndef DLEND_IOMMU_RESERVED_H
#define DLEND_IOMMU_RESERVED_H

#include <linux/iommu.h>
#include "slots.h"

/**
 * dlend_span_reserved - list the IOVAs of a device's or group's reserved regions as spans
 * @regions: (in) list of struct iommu_resv_region
 * @out: (out) one span for each region that counts, in the order of the list: they may overlap, and
 *	are not sorted. The caller has room for as many spans as there are regions
 *
 * Relaxable regions (IOMMU_RESV_DIRECT_RELAXABLE) are left out, as VFIO and iommufd do: these are
 * RMRRs and unity maps for USB controllers and graphics.  Firmware needs them only until a driver
 * has the device.
 * Context: any. Return: how many spans were written.
 */
static inline unsigned int dlend_span_reserved(const struct list_head *regions,
					       struct dlend_span *out)
{
	const struct iommu_resv_region *r;
	unsigned int n = 0;

	list_for_each_entry(r, regions, list) {
		if (r->type == IOMMU_RESV_DIRECT_RELAXABLE)
			continue;
		out[n].first = r->start;
		out[n++].last = r->start + (r->length - 1);
	}
	return n;
}

#endif
