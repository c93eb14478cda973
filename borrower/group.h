/* SPDX-License-Identifier: GPL-2.0 */
/*
 * May a user borrow one function of an IOMMU group of the lender, given who has the others?  Pure
 * logic: no locks, no messages.
 */
#ifndef DLEND_BORROWER_GROUP_H
#define DLEND_BORROWER_GROUP_H

#include <linux/errno.h>
#include <dlend/types.h>

/**
 * struct dlend_group_fn - another function of the same IOMMU group
 * @same_user: the user that has claimed that function is the user that asks
 * @leased: the user that has claimed it has a lease of it
 * @borrowing: that user asks for a lease of it
 * @leases: number of leases of it that were granted and are not returned yet. If there are some and
 *	neither @leased nor @borrowing is set, they are being returned
 */
struct dlend_group_fn {
	bool same_user, leased, borrowing;
	unsigned int leases;
};

/**
 * dlend_group_admits - may a user borrow a function, given another one of its group?
 * @other: (in) the other function
 *
 * A group has one IOMMU domain on the lender: what one function reaches, all of them reach.
 * Context: any. Return: 0; -EBUSY another user uses the other function; -EAGAIN a lease of the
 * other function is being returned: until then, that function may still do DMA, and would reach the
 * memory of the user that asks.
 */
static inline int dlend_group_admits(struct dlend_group_fn other)
{
	if (other.leased || other.borrowing)
		return other.same_user ? 0 : -EBUSY;
	return other.leases ? -EAGAIN : 0;
}

#endif
