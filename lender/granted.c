// SPDX-License-Identifier: GPL-2.0
/*
 * How much of this node's windows is granted: see granted.h.
 *
 * Knows nothing of slots, functions and messages.
 */
#include <linux/spinlock.h>

#include "lender/granted.h"

static DEFINE_SPINLOCK(lend_granted_lock);
static LIST_HEAD(lend_granted_all);

void lend_granted_add(struct lend_granted *granted)
{
	spin_lock(&lend_granted_lock);
	list_add_tail(&granted->node, &lend_granted_all);
	spin_unlock(&lend_granted_lock);
}

void lend_granted_del(struct lend_granted *granted)
{
	spin_lock(&lend_granted_lock);
	list_del(&granted->node);
	spin_unlock(&lend_granted_lock);
}

u64 lend_granted_others(u16 to, u16 not)
{
	struct lend_granted *granted;
	u64 bytes = 0;

	spin_lock(&lend_granted_lock);
	list_for_each_entry(granted, &lend_granted_all, node)
		if (granted->to == to && granted->borrower != not)
			bytes += granted->bytes;
	spin_unlock(&lend_granted_lock);
	return bytes;
}
