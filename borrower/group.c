// SPDX-License-Identifier: GPL-2.0
/*
 * Who may have one function of an IOMMU group: see group.h.
 */
#include <linux/errno.h>
#include "group.h"

int dlend_group_admits(struct dlend_group_fn other)
{
	if (other.leased || other.borrowing)
		return other.same_party ? 0 : -EBUSY;
	return other.leases ? -EAGAIN : 0;
}
