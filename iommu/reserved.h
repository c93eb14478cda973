/* SPDX-License-Identifier: GPL-2.0 */
/* IO addresses that the platform reserves.  A header, so that slots_test can try it. */
#ifndef DLEND_IOMMU_RESERVED_H
#define DLEND_IOMMU_RESERVED_H

#include <linux/iommu.h>
#include "slots.h"

/**
 * dlend_span_reserved - the IO addresses of a device's or group's reserved regions
 * @regions: (in) of struct iommu_resv_region
 * @out: (out) room for a span for each region
 *
 * As for VFIO and iommufd, relaxable ones do not count: firmware has its memory there for USB and
 * graphics, and does not use it any more once a driver has the device.
 * Context: any. Return: number of spans.
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
