/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much of this node's windows is granted to devices of other lenders, and for which borrowers:
 * p2p_grants.c keeps it, offer.c tells of it.
 */
#ifndef DLEND_LENDER_GRANTED_H
#define DLEND_LENDER_GRANTED_H

#include <linux/list.h>
#include <linux/types.h>

/**
 * struct lend_granted - a part of a window that is granted
 * @node: among all
 * @to: node whose devices it is for
 * @borrower: node that has the leases
 * @bytes: how much
 */
struct lend_granted {
	struct list_head node;
	u16 to, borrower;
	u64 bytes;
};

/** lend_granted_add - @granted counts from now on. Context: any. */
void lend_granted_add(struct lend_granted *granted);

/** lend_granted_del - the end of lend_granted_add(). Context: any. */
void lend_granted_del(struct lend_granted *granted);

/** lend_granted_others - bytes granted to node @to for borrowers other than @not. Context: any. */
u64 lend_granted_others(u16 to, u16 not);

#endif
