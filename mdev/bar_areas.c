// SPDX-License-Identifier: GPL-2.0
/*
 * Parts of a BAR that may be mapped: see bar_areas.h.
 *
 * Pure logic: knows nothing of BARs, MSI-X or VFIO.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include "bar_areas.h"

unsigned int dlend_area_cut(struct dlend_bar_area *area, unsigned int n, u64 start, u64 end)
{
	struct dlend_bar_area old[DLEND_MAX_AREAS];
	unsigned int i, out = 0;

	memcpy(old, area, n * sizeof(*old));
	for (i = 0; i < n; i++) {
		if (start >= end || end <= old[i].start || start >= old[i].end) {
			area[out++] = old[i];
			continue;
		}
		if (old[i].start < start)
			area[out++] = (struct dlend_bar_area){ old[i].start, start };
		if (end < old[i].end)
			area[out++] = (struct dlend_bar_area){ end, old[i].end };
	}
	return out;
}
