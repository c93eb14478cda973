// SPDX-License-Identifier: GPL-2.0
/*
 * Taking a device away from its borrower: bus mastering off, DMA of the group blocked, interrupts
 * down, BARs out of the aperture, in this order: first what is quick, and cuts it off.  A fence is
 * local and quick, and needs no answer from anybody.  The reset comes afterwards (reset.c) and may
 * take seconds; only then may anything that was lent be used again.
 *
 * Knows nothing of who decides that, and of what becomes of the lease.
 */
#include "lender/bars.h"
#include "lender/dma.h"
#include "lender/fence.h"
#include "lender/irq.h"
#include "lender/p2p.h"
#include "lender/trace.h"

void lend_fence_bus_master(struct lend_fn *fn, bool on)
{
	if (on)
		pci_set_master(fn->pdev);
	else
		pci_clear_master(fn->pdev);
	trace_dlend_bus_master(&fn->addr, on);
}

static void lend_fence_quiet(struct lend_fn *fn)
{
	lend_fence_bus_master(fn, false);
	trace_dlend_fence(&fn->addr, "bus_master_off", fn->group->lease.epoch);
}

static void lend_fence_unreach(struct lend_fn *fn)
{
	lend_irq_close(fn);
	trace_dlend_fence(&fn->addr, "irq_down", fn->group->lease.epoch);
	lend_p2p_close(fn);
	lend_bars_close(fn);
	trace_dlend_fence(&fn->addr, "bars_unmapped", fn->group->lease.epoch);
	fn->lent = false;
	/* The holder's own reset must not hide the BARs from the next holder. */
	fn->hidden &= ~LEND_HIDDEN_REQUEST;
}

void lend_fence_hide(struct lend_fn *fn, unsigned int why)
{
	if (fn->lent && !fn->hidden) {
		lend_p2p_hide(fn);
		lend_bars_hide(fn);
	}
	fn->hidden |= why;
}

int lend_fence_show(struct lend_fn *fn, unsigned int why)
{
	struct lend_group *group = fn->group;
	bool was = fn->hidden;

	fn->hidden &= ~why;
	if (!was || fn->hidden || !fn->lent)
		return 0;
	lend_p2p_open(fn, group->link, group->lease.epoch);
	return lend_bars_show(fn);
}

void lend_fence_fn(struct lend_fn *fn)
{
	lend_fence_quiet(fn);
	lend_dma_forget(fn);
	lend_fence_unreach(fn);
}

void lend_fence_group(struct lend_group *group)
{
	struct lend_fn *fn;
	unsigned int i;

	for (i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->lent)
			lend_fence_quiet(group->fn[i]);
	for (i = 0; i < LEND_GROUP_MAX; i++) {
		fn = group->fn[i];
		if (!fn || !fn->lent)
			continue;
		if (group->domain)
			dlend_domain_block(group->domain);
		trace_dlend_fence(&fn->addr, "dma_blocked", group->lease.epoch);
	}
	for (i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->lent)
			lend_fence_unreach(group->fn[i]);
	for (i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i])
			lend_dma_forget(group->fn[i]);
}

/*
 * A reset that is asked for through sysfs knows nothing of a lease.  A guest of this host still
 * reaches the BARs: see lend_bars_guarded().  A reset for a borrower has hidden the BARs already,
 * and shows them again only if it has succeeded.
 */
void lend_fence_reset_begins(struct lend_fn *fn)
{
	guard(mutex)(&fn->group->lock);
	lend_fence_hide(fn, LEND_HIDDEN_CORE);
}

void lend_fence_reset_over(struct lend_fn *fn)
{
	guard(mutex)(&fn->group->lock);
	lend_fence_show(fn, LEND_HIDDEN_CORE);
}
