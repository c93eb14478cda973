// SPDX-License-Identifier: GPL-2.0
/*
 * After a lease: every function that was lent is reset, and the group is offered again, or is
 * quarantined because a reset failed.
 *
 * Knows nothing of who borrows.
 */
#include <linux/jiffies.h>
#include <linux/sched/mm.h>

#include "lender/bars.h"
#include "lender/bus_reset.h"
#include "lender/claim.h"
#include "lender/fence.h"
#include "lender/members.h"
#include "lender/recover.h"
#include "lender/registry.h"
#include "lender/reset.h"
#include "lender/set.h"

/* Pause before the next try if a device lock was taken, or the core was recovering a function. */
#define LEND_RECOVER_AGAIN_MS	500

void lend_recover_later(struct lend_group *group, unsigned int ms)
{
	kref_get(&group->ref);
	if (!queue_delayed_work(lend_wq, &group->recover, msecs_to_jiffies(ms)))
		lend_group_put(group);
}

void lend_recover_soon(struct lend_group *group)
{
	guard(mutex)(&group->lock);
	lend_recover_later(group, 0);
}

void lend_recover_fence(struct lend_group *group)
{
	struct lend_event ev = { .type = LEND_EV_CUT_OFF, .epoch = group->lease.epoch };
	u32 todo;

	lend_fence_group(group);
	lend_group_step(group, &ev, &todo);
	lend_recover_later(group, 0);
}

/* After a lease whose reset failed no later reset helps: see lease_sm.c.  Group lock. */
static void lend_recover_log_failure(const struct lend_fn *fn, int ret)
{
	const struct lend_lease *lease = &fn->group->lease;

	if (lease->fencing || lease->failed)
		pci_err(fn->pdev,
			"reset failed (%d): the device is quarantined and not lent again, because it may still hold its last borrower's state; power-cycle it (or its slot), then unbind and bind all of its group again\n",
			ret);
	else
		pci_err(fn->pdev,
			"reset failed (%d): the device is quarantined until a reset of it succeeds; there is one when the rest of its group is returned, after its next PCI error, and when it is unbound and bound again\n",
			ret);
}

/* A reset of @fn is over, @ret is its result.  Group lock. */
static void lend_recover_done(struct lend_fn *fn, int ret)
{
	/* There was no reset, or there has to be another: @dirty and @broken stay as they are. */
	if (ret == -EAGAIN)
		return;
	fn->dirty = ret != 0;
	fn->broken = ret != 0;
	if (ret) {
		lend_recover_log_failure(fn, ret);
		lend_group_try_offer(fn->group);
		return;
	}
	/*
	 * The reset has ended the error.  Some kernels do not tell the driver that the PCI core has
	 * given up, and no kernel changes error_state then.
	 */
	WRITE_ONCE(fn->error_until, 0);
	if (fn->pdev->error_state == pci_channel_io_frozen)
		fn->pdev->error_state = pci_channel_io_normal;
	lend_bars_reset_done(fn);
	lend_group_try_offer(fn->group);
}

/* All functions of a lease that is over were dealt with.  Group lock. */
static void lend_recover_fence_done(struct lend_group *group, bool ok)
{
	struct lend_event ev = {
		.type = ok ? LEND_EV_FENCED : LEND_EV_FENCE_FAILED,
		.epoch = group->lease.epoch,
	};
	u32 todo;

	lend_group_drop_domain(group);
	lend_group_step(group, &ev, &todo);
	lend_group_try_offer(group);
}

/* Is the PCI core recovering @fn?  Its reset would disturb the lender's reset, or a new lease. */
static bool lend_recover_must_wait(const struct lend_fn *fn)
{
	unsigned long until = READ_ONCE(fn->error_until);

	return until && time_before(jiffies, until) && !READ_ONCE(fn->removing);
}

/* The next function, from number @i on, that was lent and is not lent any more; referenced. */
static struct lend_fn *lend_recover_next(struct lend_group *group, unsigned int *i)
{
	struct lend_fn *fn = NULL;

	guard(mutex)(&group->lock);
	/* Whoever takes it over needs it as its last holder's guest has left it. */
	if (lend_lease_is_parked(&group->lease))
		return NULL;
	for (; *i < LEND_GROUP_MAX && !fn; (*i)++) {
		fn = group->fn[*i];
		if (fn && (!fn->dirty || fn->lent || (fn->broken && !group->lease.fencing)))
			fn = NULL;
		if (fn)
			kref_get(&fn->ref);
	}
	return fn;
}

/* It was reset with others.  The first time that makes it ready. */
static int lend_recover_learn(struct lend_fn *fn)
{
	int ret;

	if (fn->ready)
		return 0;
	ret = lend_reset_lock_device(fn);
	if (ret)
		return ret;
	if (!fn->saved)
		ret = lend_claim_learn(fn);
	pci_dev_unlock(fn->pdev);
	return ret;
}

/* Whoever else is reset with it has a device lock that the PCI core may hold, too. */
static bool lend_recover_all_must_wait(struct lend_group *group)
{
	guard(mutex)(&group->lock);
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->shared_reset &&
		    lend_recover_must_wait(group->fn[i]))
			return true;
	return false;
}

/* One of those that were reset together, with the result @ret. */
static int lend_recover_shared_fn(struct lend_fn *fn, int ret)
{
	bool first = !fn->ready;

	if (!ret)
		ret = lend_recover_learn(fn);
	mutex_lock(&fn->group->lock);
	if (!fn->lent)
		lend_recover_done(fn, ret);
	mutex_unlock(&fn->group->lock);
	if (!ret && first)
		lend_group_ready(fn);
	return ret;
}

/*
 * Reset a function with all that is reset with it.  If that cannot be now, it stays dirty, and is
 * not lent: when the others are returned, or bound, this is tried again.
 */
static int lend_recover_shared(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	int ret, all = 0;
	u64 fns;

	if (lend_recover_all_must_wait(group))
		return -EAGAIN;
	ret = lend_bus_reset(fn, "return", &fns);
	if (ret == -EBUSY)
		return 0;
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (fns & BIT_ULL(i))
			all = lend_recover_shared_fn(group->fn[i], ret) ?: all;
	return all;
}

/* Reset one function.  Return: 0; -EAGAIN try it again later; any other error: it is broken. */
static int lend_recover_fn(struct lend_fn *fn, bool locked)
{
	u32 errors = READ_ONCE(fn->errors);
	int ret;

	if (fn->shared_reset)
		return lend_recover_shared(fn);
	ret = lend_recover_must_wait(fn) ? -EAGAIN : lend_reset_fn(fn, "return", locked);

	guard(mutex)(&fn->group->lock);
	/* An error came during or after our reset: the core may reset the function again. */
	if (!ret && fn->errors != errors)
		ret = -EAGAIN;
	lend_recover_done(fn, ret);
	return ret;
}

/*
 * Reset the functions that were lent, and offer the group again.  @self: function whose device lock
 * the caller holds, or NULL.  Return: true if a function has to be tried again later.
 */
static bool lend_recover_group(struct lend_group *group, struct lend_fn *self)
{
	/* As where a fence begins: see lend_request_message(). */
	unsigned int i = 0, noio = memalloc_noio_save();
	bool again = false, ok = true;
	struct lend_lease lease;
	struct lend_fn *fn;
	int ret;

	mutex_lock(&group->reset_lock);
	/* A lease that ends from here on gets a run of its own: see lend_recover_fence(). */
	lend_group_lease(group, &lease);
	while ((fn = lend_recover_next(group, &i))) {
		ret = lend_recover_fn(fn, fn == self);
		/*
		 * What leaves, maybe because it was pulled out, is lent again only after a reset
		 * of its own (lend_claim_clean()): it says nothing of those that stay.
		 */
		ok &= !ret || READ_ONCE(fn->removing);
		again |= ret == -EAGAIN;
		lend_fn_put(fn);
	}
	mutex_lock(&group->lock);
	if (!again && lease.fencing)
		lend_recover_fence_done(group, ok);
	wake_up_all(&group->wait);
	mutex_unlock(&group->lock);
	mutex_unlock(&group->reset_lock);
	memalloc_noio_restore(noio);
	return again;
}

void lend_recover_work(struct work_struct *work)
{
	struct lend_group *group = container_of(to_delayed_work(work), struct lend_group, recover);

	if (lend_recover_group(group, NULL))
		lend_recover_later(group, LEND_RECOVER_AGAIN_MS);
	lend_group_put(group);
}

/* Group lock. */
static void lend_recover_fn_left(struct lend_group *group, bool last, unsigned int ms)
{
	if (last) {
		lend_group_drop_domain(group);
		return;
	}
	/* Another group may have the function's name soon: this group needs another number. */
	lend_group_try_offer(group);
	/* Under the lock, so that the last function, which leaves later, can cancel it. */
	lend_recover_later(group, ms);
}

/* lend_recover_work() does not run, and is not queued, when this returns. */
static void lend_recover_cancel(struct lend_group *group)
{
	if (cancel_delayed_work_sync(&group->recover))
		lend_group_put(group);
}

void lend_recover_unbind(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	bool again = lend_recover_group(group, fn);

	if (fn->shared_reset && fn->dirty && fn->saved)
		pci_warn(fn->pdev, "leaves as its last borrower has left it, without DMA and interrupts: what it is reset with is not all bound here; reset its slot or bus before another driver uses it\n");
	lend_recover_cancel(group);
	/* What was cancelled may have been about another function: then it is queued again. */
	if (!lend_registry_forget(fn, lend_recover_fn_left, again ? LEND_RECOVER_AGAIN_MS : 0))
		return;
	/*
	 * No work of the group may run once its last function has gone, because the module may go
	 * next.  Another function that left at the same time may have queued the work since.
	 */
	lend_recover_cancel(group);
	lend_group_put(group);	/* the registry's reference; the function has its own */
}
