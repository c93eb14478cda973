// SPDX-License-Identifier: GPL-2.0
/*
 * Taking a device away from its borrower, and getting it back into a known state.
 *
 * Fencing is local, quick, and needs no answer from anybody: bus mastering off, interrupts down,
 * DMA of the group blocked, BARs out of the aperture, in this order.  The reset comes afterwards
 * and may take seconds; only then may anything that was lent be used again.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/unaligned.h>

#include "lender/lender.h"
#include "lender/trace.h"

/* How long a reset waits for somebody else (sysfs, AER) to give back the device lock. */
#define LEND_RESET_PATIENCE_MS	2000

/** lend_fence_bus_master - the physical Bus Master Enable. Group lock. */
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
	u32 epoch = fn->group->lease.epoch;

	lend_fence_bus_master(fn, false);
	trace_dlend_fence(&fn->addr, "bus_master_off", epoch);
	lend_irq_close(fn);
	trace_dlend_fence(&fn->addr, "irq_down", epoch);
}

static void lend_fence_unreach(struct lend_fn *fn)
{
	lend_p2p_close(fn);
	lend_bars_close(fn);
	trace_dlend_fence(&fn->addr, "bars_unmapped", fn->group->lease.epoch);
	fn->lent = false;
	/* The holder's own reason goes with its lease. */
	fn->hidden &= ~LEND_HIDDEN_REQUEST;
}

/**
 * lend_fence_hide - nobody reaches its BARs until lend_fence_show()
 * @fn: function, lent or not: whoever borrows it meanwhile reaches none either
 * @why: LEND_HIDDEN_*; the BARs are back in reach when no reason is left
 *
 * Context: group lock.
 */
void lend_fence_hide(struct lend_fn *fn, unsigned int why)
{
	if (fn->lent && !fn->hidden) {
		lend_p2p_hide(fn);
		lend_bars_hide(fn);
	}
	fn->hidden |= why;
}

/** lend_fence_show - the end of lend_fence_hide() for the same reason. Group lock. Return: as lend_bars_show() */
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

/** lend_fence_fn - take one function away, the rest of its group stays lent. Group lock. */
void lend_fence_fn(struct lend_fn *fn)
{
	lend_fence_quiet(fn);
	lend_dma_forget(fn);
	lend_fence_unreach(fn);
}

/** lend_fence_group - take all functions away. Group lock; waits for nobody. */
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

/**
 * lend_reset_answers - is it there?
 * @fn: function
 *
 * A function that has come back says who it is; one that has not reads as all ones.  Compared
 * with what it said when it was bound: the kernel's own idea may come from a quirk, and a
 * virtual function's ids read as all ones anyway.
 * Context: any that may read configuration space. Return: 0 or -ENODEV.
 */
int lend_reset_answers(struct lend_fn *fn)
{
	u32 id, class;

	pci_read_config_dword(fn->pdev, PCI_VENDOR_ID, &id);
	pci_read_config_dword(fn->pdev, PCI_CLASS_REVISION, &class);
	if (class == U32_MAX)
		return -ENODEV;
	if (fn->saved && (id != get_unaligned_le32(fn->snapshot + PCI_VENDOR_ID) ||
			  class != get_unaligned_le32(fn->snapshot + PCI_CLASS_REVISION)))
		return -ENODEV;
	return 0;
}

/*
 * Whoever unbinds the driver holds the device lock and waits for us: never wait for that lock
 * without an end, and not at all once the unbind has begun.
 */
static int lend_reset_lock_device(struct lend_fn *fn)
{
	unsigned long end = jiffies + msecs_to_jiffies(LEND_RESET_PATIENCE_MS);

	do {
		if (READ_ONCE(fn->removing))
			return -EAGAIN;
		if (pci_dev_trylock(fn->pdev))
			return 0;
		msleep(20);
	} while (time_before(jiffies, end));
	return -EAGAIN;
}

/*
 * Device lock, over all of it: somebody else's reset saves and restores the same registers.  The
 * core calls lend_fence_reset_begins() and lend_fence_reset_over() for this one as for any other.
 */
static int lend_reset_locked(struct lend_fn *fn)
{
	int ret = pci_reset_function_locked(fn->pdev);

	if (!ret) {
		trace_dlend_fence(&fn->addr, "reset", fn->group->lease.epoch);
		ret = lend_reset_answers(fn);
	}
	if (!ret && fn->saved) {
		ret = pci_load_saved_state(fn->pdev, fn->saved);
		pci_restore_state(fn->pdev);
		trace_dlend_fence(&fn->addr, "restored", fn->group->lease.epoch);
	}
	return ret;
}

static int lend_reset_unlocked(struct lend_fn *fn)
{
	int ret = lend_reset_lock_device(fn);

	if (ret)
		return ret;
	ret = lend_reset_locked(fn);
	pci_dev_unlock(fn->pdev);
	return ret;
}

/**
 * lend_reset_fn - reset the function and restore what it was when it was bound
 * @fn: function
 * @why: for the trace
 * @locked: the caller holds the device lock
 *
 * Context: group's reset_lock, or probe; bus mastering is off and no interrupt is set up.
 * Return: 0; -EAGAIN somebody else has the device lock, nothing was done; else the device is in
 * an unknown state.
 */
int lend_reset_fn(struct lend_fn *fn, const char *why, bool locked)
{
	ktime_t start = ktime_get();
	int ret;

	msleep(READ_ONCE(fn->slow_reset_ms));
	if (READ_ONCE(fn->fail_reset))
		ret = -EIO;
	else
		ret = locked ? lend_reset_locked(fn) : lend_reset_unlocked(fn);
	trace_dlend_reset(&fn->addr, why, ktime_us_delta(ktime_get(), start), ret);
	return ret;
}

/**
 * lend_fence_reset_begins - the PCI core is about to reset the function, whoever asked for that
 * @fn: function
 *
 * One that is asked for through sysfs knows nothing of a lease: its holder keeps it, but reaches
 * no BAR until lend_fence_reset_over(), nor does a holder that comes meanwhile.  A guest of this host does:
 * see lend_bars_guarded().
 * Ours for a borrower has hidden the BARs already, and shows them only when it has succeeded.
 * Context: device lock; takes the group lock.
 */
void lend_fence_reset_begins(struct lend_fn *fn)
{
	mutex_lock(&fn->group->lock);
	lend_fence_hide(fn, LEND_HIDDEN_CORE);
	mutex_unlock(&fn->group->lock);
}

/** lend_fence_reset_over - the end of what lend_fence_reset_begins() has begun.  Context: as there */
void lend_fence_reset_over(struct lend_fn *fn)
{
	mutex_lock(&fn->group->lock);
	lend_fence_show(fn, LEND_HIDDEN_CORE);
	mutex_unlock(&fn->group->lock);
}
