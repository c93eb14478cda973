// SPDX-License-Identifier: GPL-2.0
/*
 * Leases: a node borrows a function or returns it, or the function is taken away.  Every change of
 * a lease is an event for the state machine in lease_sm.c.  This file makes the events (those of a
 * move between nodes come from request.c), and then does what the machine returns (LEND_DO_*).
 */
#include <linux/device.h>
#include <linux/iommu.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include <dlend/compat.h>
#include <dlend/names.h>

#include "lender/lender.h"
#include "lender/trace.h"

/*
 * A group and its members: whether all functions of an IOMMU group are bound here, so that the
 * group can be offered.  When that or the lease changes, the state is announced: messages to all
 * peers, and a uevent.
 */

/* Is the group not to be offered yet, or not any more, though it may be complete?  Group lock. */
static bool lend_group_is_kept_back(const struct lend_group *group)
{
	if (group->withdrawn)
		return true;
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->preparing)
			return true;
	return false;
}

const char *lend_group_state_name(const struct lend_group *group)
{
	enum dlend_offer_state state;
	u16 holder;

	state = lend_set_state_for(group, &group->lease, NULL, &holder);
	if (state != DLEND_OFFER_GONE)
		return dlend_offer_state_name(state);
	/* GONE: the group is not prepared or was withdrawn, or one of its functions is missing. */
	return lend_group_is_kept_back(group) ? "preparing" : "incomplete";
}

/* Send a uevent for each function, without the group lock, as a uevent may take long. */
static void lend_group_uevent_work(struct work_struct *work)
{
	struct lend_group *group = container_of(work, struct lend_group, uevent);
	const char *state;
	struct lend_fn *fn;

	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++) {
		mutex_lock(&group->lock);
		state = lend_group_state_name(group);
		fn = group->fn[i];
		if (fn)
			kref_get(&fn->ref);
		mutex_unlock(&group->lock);
		if (!fn)
			continue;
		dlend_uevent_state(&fn->pdev->dev, state);
		lend_fn_put(fn);
	}
}

/* Announce the state of a group, soon: STATE messages to all peers, and a uevent.  Group lock. */
static void lend_group_announce(struct lend_group *group)
{
	lend_notify_group(group, LEND_NEWS_STATE);
	queue_work(lend_wq, &group->uevent);
}

int lend_group_step(struct lend_group *group, const struct lend_event *ev, u32 *todo)
{
	bool others;
	int ret = lend_set_step(group, ev, todo, &others);

	if (others)
		lend_groups_changed();
	if (*todo & LEND_DO_ANNOUNCE)
		lend_group_announce(group);
	wake_up_all(&group->wait);
	return ret;
}

/*
 * Count the functions of the IOMMU group again, and choose the group's number.  Peers know by the
 * number which functions are in one group.  So when the number or the count changes, all offers of
 * the group are posted again.  No other code changes the two.
 *
 * The number is a function's name in the fabric, not its address in this host, because a function
 * in another PCI domain may have the same address; lend_registry_join() lets no name appear twice.
 * Group lock.
 */
static void lend_group_recount(struct lend_group *group)
{
	struct lend_iommu_count count;
	u16 number = U16_MAX;

	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->ready)
			number = min(number, w.fn->addr.bdf);
	lend_iommu_count(group->iommu, &count);
	if (count.functions == group->members && number == group->number)
		return;
	group->members = count.functions;
	group->number = number;
	lend_notify_group(group, LEND_NEWS_OFFER);
}

/* Which event a group gets that no node has, by the state of its functions.  Group lock. */
static enum lend_event_type lend_group_judge(const struct lend_group *group)
{
	if (!group->ready || group->ready != group->members)
		return LEND_EV_INCOMPLETE;
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->broken)
			return LEND_EV_BROKEN;
	return lend_group_is_kept_back(group) ? LEND_EV_INCOMPLETE : LEND_EV_OFFER;
}

/*
 * Offer the group if all functions of its IOMMU group are bound here, were reset and are prepared;
 * otherwise withdraw it.  Does nothing while a node has the group, or while the group is being
 * reset after a lease: this is called again then.  Group lock.
 */
static void lend_group_try_offer(struct lend_group *group)
{
	struct lend_event ev = { };
	u32 todo;

	/* During a lease the number must not change: lend_recover_group() calls this at its end. */
	if (group->lease.state == DLEND_OFFER_HELD || group->lease.fencing)
		return;
	lend_group_recount(group);
	ev.type = lend_group_judge(group);
	lend_group_step(group, &ev, &todo);
}

/* Callback of lend_registry_each_group(). */
static void lend_group_update(struct lend_group *group, void *unused)
{
	guard(mutex)(&group->lock);
	lend_group_try_offer(group);
	if (lend_set_take_stale(group))
		lend_group_announce(group);
}

static void lend_groups_update(struct work_struct *work)
{
	lend_registry_each_group(lend_group_update, NULL);
}

static DECLARE_WORK(lend_groups_work, lend_groups_update);

void lend_groups_changed(void)
{
	queue_work(lend_wq, &lend_groups_work);
}

void lend_groups_exit(void)
{
	cancel_work_sync(&lend_groups_work);
}

void lend_group_join_set(struct lend_group *group, const char *name)
{
	guard(mutex)(&group->lock);
	if (!lend_set_join(group, name))
		return;
	lend_notify_group(group, LEND_NEWS_OFFER);
	lend_group_announce(group);
	lend_groups_changed();
}

void lend_group_ready(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	mutex_lock(&group->lock);
	/*
	 * A function that was reset with others may be being unbound at the same time.  After
	 * lend_lease_unbind() has subtracted it from group->ready, it must not be added again.
	 */
	if (!READ_ONCE(fn->removing)) {
		fn->ready = true;
		group->ready++;
		lend_group_try_offer(group);
	}
	mutex_unlock(&group->lock);
	lend_notify_fn(fn, LEND_NEWS_OFFER);
}

/*
 * Destroy the domain of a lease, and put its link.  Called when the functions were reset, or
 * another node takes over, so that no transaction of the lease can come from them any more.  Group
 * lock.
 */
static void lend_group_drop_domain(struct lend_group *group)
{
	if (group->domain)
		dlend_domain_destroy(group->domain);
	group->domain = NULL;
	if (group->link)
		dlend_link_put(group->link);
	WRITE_ONCE(group->link, NULL);
}

/*
 * Reservations: a group that only one node, or one VM, may borrow when it is free, for a time or
 * without end.
 *
 * A reservation takes no group away from a node, and no fence depends on it.
 */

/* All 0: no reservation. */
static const struct lend_for lend_reserve_nobody;

/* @until: in jiffies of 64 bits; 0: without end.  Group lock. */
static void lend_reserve_set(struct lend_group *group, const struct lend_for *whom, u64 until)
{
	group->reserved_until = until;
	if (lend_set_reserve(group, whom))
		lend_group_announce(group);
}

void lend_reserve(struct lend_group *group, const struct lend_for *whom, u32 seconds)
{
	u64 delay = (u64)seconds * HZ;

	guard(mutex)(&group->lock);
	lend_reserve_set(group, whom, seconds ? get_jiffies_64() + delay : 0);
	if (seconds)
		mod_delayed_work(lend_wq, &group->unreserve, delay);
}

/* Jiffies until the reservation ends; 0 or less when its time is over.  Group lock. */
static s64 lend_reserve_remaining(const struct lend_group *group)
{
	return group->reserved_until - get_jiffies_64();
}

void lend_reserve_get(struct lend_group *group, struct lend_for *whom, u32 *seconds)
{
	guard(mutex)(&group->lock);
	*seconds = 0;
	if (group->reserved_until)
		*seconds = div_u64(max_t(s64, lend_reserve_remaining(group), 1) + HZ - 1, HZ);
	*whom = group->lease.reserved;
}

/*
 * End the reservation if its time is over.  A timer for weeks may expire early, as the time that a
 * timer can wait is limited, and a new reservation may have come since: then wait again.
 */
static void lend_reserve_work(struct work_struct *work)
{
	struct lend_group *group = container_of(to_delayed_work(work), struct lend_group,
						unreserve);

	guard(mutex)(&group->lock);
	if (group->reserved_until && lend_reserve_remaining(group) > 0)
		mod_delayed_work(lend_wq, &group->unreserve, lend_reserve_remaining(group));
	else if (group->reserved_until)
		lend_reserve_set(group, &lend_reserve_nobody, 0);
}

void lend_prepare_done(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	guard(mutex)(&group->lock);
	if (!fn->preparing && !group->withdrawn)
		return;
	group->withdrawn = false;
	fn->preparing = false;
	lend_group_try_offer(group);
	lend_notify_fn(fn, LEND_NEWS_OFFER);
	/* lend_group_state_name() may be "incomplete" now instead of "preparing". */
	lend_group_announce(group);
}

void lend_prepare_withdraw(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	guard(mutex)(&group->lock);
	group->withdrawn = true;
	lend_group_try_offer(group);
}

/*
 * A fence takes a group away from its holder, in this order: Bus Master Enable off in each
 * function, DMA of the group blocked in the IOMMU; then for each function interrupts down,
 * peer-to-peer ended, BARs out of the aperture.  The first two steps stop all DMA.  A fence waits
 * for no peer.  The reset comes afterwards (reset.c) and may take seconds; until it has succeeded,
 * nobody gets the device, and the offsets of its BARs are not used again.  Only when a lease moves
 * to another node there is no reset: lend_standby_swap().
 */

void lend_bus_master_set(struct lend_fn *fn, bool on)
{
	if (on)
		pci_set_master(fn->pdev);
	else
		pci_clear_master(fn->pdev);
	trace_dlend_bus_master(&fn->addr, on ? "on" : "off", fn->group->lease.epoch);
}

/* Turn a function's bus mastering off, as the first step of a fence.  Group lock. */
static void lend_fence_quiesce(struct lend_fn *fn)
{
	lend_bus_master_set(fn, false);
	trace_dlend_fence(&fn->addr, "bus_master_off", fn->group->lease.epoch);
}

/* The last steps of a fence: interrupts, peer-to-peer and BARs of a function.  Group lock. */
static void lend_fence_unreach(struct lend_fn *fn)
{
	lend_irq_close(fn);
	trace_dlend_fence(&fn->addr, "irq_down", fn->group->lease.epoch);
	lend_p2p_close(fn);
	lend_bars_close(fn);
	trace_dlend_fence(&fn->addr, "bars_unmapped", fn->group->lease.epoch);
	fn->lent = false;
	/* A reset that the holder asked for must not hide the BARs from the next holder. */
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

/* Fence all functions of a group that are lent.  Group lock. */
static void lend_fence_group(struct lend_group *group)
{
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->lent)
			lend_fence_quiesce(w.fn);
	if (group->domain)
		dlend_domain_block(group->domain);
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);) {
		if (w.fn->lent) {
			trace_dlend_fence(&w.fn->addr, "dma_blocked", group->lease.epoch);
			lend_fence_unreach(w.fn);
		}
		lend_dma_forget(w.fn);
	}
}

/*
 * The standby: the node that prepares to take a lease over (struct lend_standby).  It reaches
 * nothing of the device before lend_standby_swap().
 *
 * The standby's memory is mapped in a domain of its own while the holder's guest still runs.  So
 * the time in which no guest runs does not depend on the size of the guest's memory.
 */

int lend_standby_prepare(struct lend_fn *fn, struct dlend_link *link,
			 struct dlend_irq_source *source, struct dlend_p_lease *grant)
{
	struct lend_group *group = fn->group;
	struct lend_standby *s = &group->standby;

	/* On an error lend_standby_drop() undoes what is done here, so all members are set. */
	WRITE_ONCE(s->link, dlend_link_get(link));
	s->source = source;
	s->slots = NULL;
	s->domain = dlend_domain_create(&fn->pdev->dev);
	if (IS_ERR(s->domain))
		return PTR_ERR(s->domain);
	s->slots = lend_bars_reserve(fn, link, group->lease.move.epoch, grant->bar_offset);
	return PTR_ERR_OR_ZERO(s->slots);
}

void lend_standby_drop(struct lend_group *group)
{
	struct lend_standby *s = &group->standby;
	struct dlend_link *link = s->link;

	if (!link)
		return;
	WRITE_ONCE(s->link, NULL);
	if (!IS_ERR(s->domain)) {
		dlend_domain_block(s->domain);
		dlend_domain_destroy(s->domain);
	}
	if (!IS_ERR_OR_NULL(s->slots))
		lend_bars_drop(s->slots);
	dlend_irq_source_close(s->source);
	dlend_link_put(link);
}

void lend_standby_end(struct lend_group *group)
{
	struct lend_event ev = { .type = LEND_EV_STANDBY_LOST,
				 .node = group->lease.move.standby,
				 .epoch = group->lease.move.epoch };
	u32 todo;

	lend_group_step(group, &ev, &todo);
	lend_standby_drop(group);
}

int lend_standby_swap(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	struct lend_standby *s = &group->standby;
	int ret;

	lend_fence_group(group);
	lend_group_drop_domain(group);
	/*
	 * No reset follows, but nothing is mapped at the old holder's offsets, and the device was
	 * silent: so these are free as soon as the old holder does not use them any more.
	 */
	lend_bars_reset_done(fn);

	/* The standby's domain and its reference to the link become the lease's. */
	group->domain = s->domain;
	WRITE_ONCE(group->link, s->link);
	WRITE_ONCE(s->link, NULL);
	fn->holder_index = !fn->holder_index;
	fn->lent = true;
	fn->vpd = 0;
	fn->irq.source = s->source;
	ret = lend_attach_domain(group);
	if (!ret)
		ret = lend_bars_take(fn, s->slots);
	else
		lend_bars_drop(s->slots);
	if (!ret)
		lend_p2p_open(fn, group->link, group->lease.move.epoch);
	return ret;
}

/*
 * Recovery after a lease or an error: every function that needs a reset is reset.  Then the group
 * is offered again, or quarantined because a reset failed.
 */

/* Pause in ms before the next try, if a device lock was taken or the PCI core is recovering. */
#define LEND_RECOVER_AGAIN_MS	500

void lend_recover_later(struct lend_group *group, unsigned int ms)
{
	queue_delayed_work(lend_wq, &group->recover, msecs_to_jiffies(ms));
}

/* For LEND_DO_FENCE: fence a group now, announce that, and queue the recovery.  Group lock. */
static void lend_recover_fence(struct lend_group *group)
{
	struct lend_event ev = { .type = LEND_EV_CUT_OFF, .epoch = group->lease.epoch };
	u32 todo;

	lend_fence_group(group);
	lend_group_step(group, &ev, &todo);
	lend_recover_later(group, 0);
}

/*
 * Log that a reset of @fn failed.  If it was the reset after a lease, the group stays quarantined
 * even if a later reset succeeds: see lease_sm.c.  Group lock.
 */
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

/* Note the result @ret of a reset of @fn, and offer its group if that is possible.  Group lock. */
static void lend_recover_done(struct lend_fn *fn, int ret)
{
	/* There was no reset, or another has to follow: needs_reset and broken do not change. */
	if (ret == -EAGAIN)
		return;
	fn->needs_reset = ret != 0;
	fn->broken = ret != 0;
	if (ret) {
		lend_recover_log_failure(fn, ret);
		lend_group_try_offer(fn->group);
		return;
	}
	/*
	 * The reset has ended a PCI error.  If the PCI core gives up recovering a function, some
	 * kernels do not call the driver, and no kernel sets error_state back.
	 */
	WRITE_ONCE(fn->error_until, 0);
	if (fn->pdev->error_state == pci_channel_io_frozen)
		fn->pdev->error_state = pci_channel_io_normal;
	lend_bars_reset_done(fn);
	lend_group_try_offer(fn->group);
}

/*
 * Is the PCI core recovering @fn?  A reset by the core would hit the lender's reset, or a new
 * lease.
 */
static bool lend_recover_must_wait(const struct lend_fn *fn)
{
	unsigned long until = READ_ONCE(fn->error_until);

	return until && time_before(jiffies, until) && !READ_ONCE(fn->removing);
}

/*
 * The next function, from index @i (in, out) on, that needs a reset and is not lent, or NULL.  A
 * function whose last reset failed is tried again only at the end of a lease, or after a PCI error
 * (lend_lease_error_over()).  Takes a reference, and the group lock.
 */
static struct lend_fn *lend_recover_next(struct lend_group *group, unsigned int *i)
{
	struct lend_fn *fn = NULL;

	guard(mutex)(&group->lock);
	/* A parked device must keep its state for the node that takes it over. */
	if (lend_lease_is_parked(&group->lease))
		return NULL;
	for (; *i < LEND_GROUP_MAX && !fn; (*i)++) {
		fn = group->fn[*i];
		if (fn && (!fn->needs_reset || fn->lent || (fn->broken && !group->lease.fencing)))
			fn = NULL;
		if (fn)
			kref_get(&fn->ref);
	}
	return fn;
}

/*
 * After a reset with others: if it was the function's first reset, do what probe() does for
 * functions with a reset of their own.  Takes the device lock.  Return: as
 * lend_reset_lock_device(), lend_bind_save().
 */
static int lend_recover_save(struct lend_fn *fn)
{
	int ret;

	if (fn->ready)
		return 0;
	ret = lend_reset_lock_device(fn);
	if (ret)
		return ret;
	if (!fn->saved)
		ret = lend_bind_save(fn);
	pci_dev_unlock(fn->pdev);
	return ret;
}

/*
 * Is the PCI core recovering one of the functions that would be reset together?  That reset takes
 * the device locks of all of them.  Takes the group lock.
 */
static bool lend_recover_all_must_wait(struct lend_group *group)
{
	guard(mutex)(&group->lock);
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->shared_reset && lend_recover_must_wait(w.fn))
			return true;
	return false;
}

/*
 * Note for one of several functions that they were reset together, with the result @ret.  Return:
 * 0; or the error of the reset, or of lend_recover_save().
 */
static int lend_recover_shared_fn(struct lend_fn *fn, int ret)
{
	bool first = !fn->ready;

	if (!ret)
		ret = lend_recover_save(fn);
	mutex_lock(&fn->group->lock);
	if (!fn->lent)
		lend_recover_done(fn, ret);
	mutex_unlock(&fn->group->lock);
	if (!ret && first)
		lend_group_ready(fn);
	return ret;
}

/*
 * Reset a function together with the others of its slot or bus.  If that is not possible now, the
 * function keeps needs_reset, and is not lent: the next try follows when the others are returned,
 * or bound.  reset_lock.  Return: as lend_recover_fn().
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
	for (struct lend_walk w = { group, fns }; lend_walk_next(&w);)
		all = lend_recover_shared_fn(w.fn, ret) ?: all;
	return all;
}

/*
 * Reset one function.  @locked: the caller holds its device lock.  reset_lock.  Return: 0: it was
 * reset, or cannot be reset before others are returned or bound; -EAGAIN try it again later; any
 * other error: its reset failed.
 */
static int lend_recover_fn(struct lend_fn *fn, bool locked)
{
	u32 errors = READ_ONCE(fn->errors);
	int ret;

	if (fn->shared_reset)
		return lend_recover_shared(fn);
	ret = lend_recover_must_wait(fn) ? -EAGAIN : lend_reset_fn(fn, "return", locked);

	guard(mutex)(&fn->group->lock);
	/* A PCI error came during or after this reset: the core may reset the function again. */
	if (!ret && fn->errors != errors)
		ret = -EAGAIN;
	lend_recover_done(fn, ret);
	return ret;
}

/*
 * Reset the functions that need it; then destroy the domain of the last lease, and offer the group
 * again, or quarantine it.  Takes reset_lock and the group lock.
 *
 * @self: function that is being unbound: the caller holds its device lock; or NULL
 *
 * Return: true if a function has to be tried again later.
 */
static bool lend_recover_group(struct lend_group *group, struct lend_fn *self)
{
	/* No allocation may wait for I/O, as in lend_request_message(), which says why. */
	unsigned int i = 0, noio = memalloc_noio_save();
	bool again = false, ok = true;
	struct lend_lease lease;
	struct lend_event ev;
	struct lend_fn *fn;
	u32 todo;
	int ret;

	mutex_lock(&group->reset_lock);
	/*
	 * A copy from before the resets: if a lease ends only after this point, the resets may have
	 * come too early for it, and lend_recover_fence() has queued this work once more.
	 */
	lend_group_lease(group, &lease);
	while ((fn = lend_recover_next(group, &i))) {
		ret = lend_recover_fn(fn, fn == self);
		/*
		 * The result for a function that is being unbound, maybe because of a surprise
		 * removal, does not count: it is lent again only after it was bound and reset
		 * again (lend_bind_reset()).
		 */
		ok &= !ret || READ_ONCE(fn->removing);
		again |= ret == -EAGAIN;
		lend_fn_put(fn);
	}
	mutex_lock(&group->lock);
	if (!again && lease.fencing) {
		ev = (struct lend_event){ .type = ok ? LEND_EV_FENCED : LEND_EV_FENCE_FAILED,
					  .epoch = group->lease.epoch };
		lend_group_drop_domain(group);
		lend_group_step(group, &ev, &todo);
		lend_group_try_offer(group);
	}
	wake_up_all(&group->wait);
	mutex_unlock(&group->lock);
	mutex_unlock(&group->reset_lock);
	memalloc_noio_restore(noio);
	return again;
}

static void lend_recover_work(struct work_struct *work)
{
	struct lend_group *group = container_of(to_delayed_work(work), struct lend_group, recover);

	if (lend_recover_group(group, NULL))
		lend_recover_later(group, LEND_RECOVER_AGAIN_MS);
}

/*
 * The end of an unbind: recover the group now, and take the function out of it.  May take seconds.
 * Device lock of @fn; takes reset_lock, the group lock and the registry lock.
 */
static void lend_recover_unbind(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	bool again = lend_recover_group(group, fn), last;

	if (fn->shared_reset && fn->needs_reset && fn->saved)
		pci_warn(fn->pdev, "is unbound without a reset, its DMA and interrupts are off: not all functions that are reset with it are bound here; reset its slot or bus before another driver uses it\n");
	cancel_delayed_work_sync(&group->recover);
	mutex_lock(&group->lock);
	last = lend_registry_leave(fn);
	if (last) {
		lend_group_drop_domain(group);
	} else {
		/* The group's number may be the function's name, which another may get soon. */
		lend_group_try_offer(group);
		/* The work that was cancelled above may have been queued for another function. */
		lend_recover_later(group, again ? LEND_RECOVER_AGAIN_MS : 0);
	}
	mutex_unlock(&group->lock);
	if (!last)
		return;
	/*
	 * The module may be unloaded next.  Other code may still have a reference to the group, but
	 * what it queues does not run any more.
	 */
	disable_delayed_work_sync(&group->recover);
	disable_delayed_work_sync(&group->expire);
	disable_delayed_work_sync(&group->unreserve);
	disable_work_sync(&group->uevent);
	lend_group_put(group);	/* the registry's reference; the function has its own */
}

/* The longest time that a BORROW waits for the reset after the last lease, in ms. */
#define LEND_BORROW_WAIT_MS	3000

/*
 * The longest wait for the PCI core to recover a function from an error, in ms.  The limit is
 * needed because some kernels do not call the driver if they could not recover it.
 */
#define LEND_ERROR_PATIENCE_MS	60000

/* How long a device stays parked, in seconds. */
static unsigned int lend_lease_parked_s = 60;
module_param_named(parked_s, lend_lease_parked_s, uint, 0644);
MODULE_PARM_DESC(parked_s, "seconds that a device waits, as its VM has left it, for the host that the VM moves to, if the host that the VM was on has gone; then the device is reset and offered to all");

/* The host goes to sleep, or shuts down: BORROW is refused.  No lock: WRITE_ONCE(), READ_ONCE(). */
static bool lend_lease_asleep;

/*
 * Do LEND_DO_DROP and LEND_DO_PARK, if they are in @todo.  A parked device is fenced, and keeps the
 * state in which its guest has left it.  Group lock.
 */
static void lend_lease_do_move(struct lend_group *group, u32 todo)
{
	unsigned long delay = (unsigned long)READ_ONCE(lend_lease_parked_s) * HZ;

	if (todo & LEND_DO_DROP)
		lend_standby_drop(group);
	if (!(todo & LEND_DO_PARK))
		return;
	lend_fence_group(group);
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		pci_notice(w.fn->pdev, "node %u has let it go before node %u has taken it over, as is to be: it has %lu s for that\n",
			   group->lease.holder, group->lease.move.target, delay / HZ);
	group->parked_until = jiffies + delay;
	mod_delayed_work(lend_wq, &group->expire, delay);
}

void lend_lease_unbind(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	struct lend_event ev = { .type = LEND_EV_UNBIND };
	bool offered;
	u32 todo = 0;

	WRITE_ONCE(fn->removing, true);
	mutex_lock(&group->lock);
	group->ready -= fn->ready;
	group->withdrawn = false;
	/* If this function was never offered, a holder of the group's others keeps them. */
	offered = lend_fn_is_offered(fn);
	if (offered)
		lend_group_step(group, &ev, &todo);
	fn->ready = false;
	if (todo & LEND_DO_FENCE) {
		pci_warn(fn->pdev, "unbound while node %u had it: fenced, its guest loses the device\n",
			 group->lease.holder);
		trace_dlend_lease(&fn->addr, "unbind", group->lease.holder, group->lease.epoch, 0);
		lend_recover_fence(group);
	}
	lend_lease_do_move(group, todo);
	mutex_unlock(&group->lock);
	lend_reserve(group, &lend_reserve_nobody, 0);
	lend_group_join_set(group, "");
	/* Before the reset, which may take a minute: guests read all ones until WITHDRAW comes. */
	if (offered)
		lend_notify_withdraw(fn);
	lend_recover_unbind(fn);
}

/*
 * For LEND_DO_GRANT: make and attach the domain of a new lease.  On error the domain may exist,
 * blocked.  Group lock.
 */
static int lend_lease_make_domain(struct lend_fn *fn, struct dlend_link *link)
{
	struct dlend_domain *domain = dlend_domain_create(&fn->pdev->dev);
	struct lend_group *group = fn->group;
	int ret;

	if (IS_ERR(domain))
		return PTR_ERR(domain);
	group->domain = domain;
	WRITE_ONCE(group->link, dlend_link_get(link));
	ret = lend_attach_domain(group);
	/* -EBUSY: Linux is resetting a device of the group, and does not change the domain now. */
	return ret == -EBUSY ? -EAGAIN : ret;
}

/*
 * Make a function lent, after LEND_EV_BORROW has succeeded: the domain (LEND_DO_GRANT in @todo),
 * the BARs in the aperture (@grant gets their offsets), peer-to-peer.  @source belongs to @fn
 * afterwards, also if this fails.  On failure the caller calls lend_lease_give_back().  Group lock.
 */
static int lend_lease_give(struct lend_fn *fn, struct dlend_link *link, u32 todo,
			   struct dlend_irq_source *source, struct dlend_p_lease *grant)
{
	struct lend_bar_slots *slots;
	int ret = 0;

	/* The device may have reset itself while no node had it. */
	lend_reset_heal(fn);
	fn->lent = true;
	fn->needs_reset = true;
	fn->reset_asked = 0;
	fn->vpd = 0;
	fn->irq.source = source;
	if (todo & LEND_DO_GRANT)
		ret = lend_lease_make_domain(fn, link);
	if (ret)
		return ret;
	slots = lend_bars_reserve(fn, link, fn->group->lease.epoch, grant->bar_offset);
	ret = PTR_ERR_OR_ZERO(slots) ?: lend_bars_take(fn, slots);
	if (!ret && fn->hidden)
		lend_bars_hide(fn);
	else if (!ret)
		lend_p2p_open(fn, link, fn->group->lease.epoch);
	return ret;
}

/* Give the lease LEND_EV_RETURN for one function, and do what follows from it.  Group lock. */
static int lend_lease_give_back(struct lend_fn *fn, u16 node, u32 epoch)
{
	struct lend_event ev = { .type = LEND_EV_RETURN, .node = node, .epoch = epoch,
			       .fn = fn->index };
	struct lend_group *group = fn->group;
	u32 todo;
	int ret;

	ret = lend_group_step(group, &ev, &todo);
	if (todo & LEND_DO_FENCE) {
		lend_recover_fence(group);
	} else if (todo & LEND_DO_LEAVE) {
		/* The rest of the group stays lent. */
		lend_fence_quiesce(fn);
		lend_dma_forget(fn);
		lend_fence_unreach(fn);
		lend_recover_later(group, 0);
	}
	lend_lease_do_move(group, todo);
	return ret;
}

/*
 * May the holder of the group borrow a function again that it has returned, without a reset?  That
 * is so if the function can be reset only with others, which the holder still has.  All functions
 * of a lease go to one VM, so the function has no state of another VM.
 */
static bool lend_lease_may_rejoin(struct lend_fn *fn)
{
	return fn->shared_reset && READ_ONCE(fn->group->lease.state) == DLEND_OFFER_HELD &&
	       !(READ_ONCE(fn->group->resetting) & BIT_ULL(fn->index));
}

/*
 * Can a BORROW of @fn be decided now: is the reset after its last lease over, whether it succeeded
 * or failed, or does none have to come?  No lock: a condition for wait_event().
 */
static bool lend_lease_is_settled(struct lend_fn *fn)
{
	if (READ_ONCE(fn->group->lease.state) == DLEND_OFFER_RETURNING)
		return false;
	return !READ_ONCE(fn->needs_reset) || lend_lease_may_rejoin(fn) || READ_ONCE(fn->lent) ||
	       READ_ONCE(fn->broken);
}

/*
 * Can @fn be borrowed over @link now, apart from what the state machine decides?  Return: 0; or as
 * lend_lease_borrow().  Group lock.
 */
static int lend_lease_may_borrow(struct lend_fn *fn, struct dlend_link *link)
{
	struct lend_group *group = fn->group;
	const struct lend_lease *lease = &group->lease;

	if (fn->removing)
		return -ENODEV;
	if (!dlend_link_is_up(link))
		return -ENOTCONN;
	if (READ_ONCE(lend_lease_asleep))
		return -EAGAIN;
	/* It is not prepared, or was not reset yet and may hold the state of its last driver. */
	if (!lend_fn_is_offered(fn))
		return -ENODEV;
	if (fn->broken)
		return -EIO;
	if (fn->needs_reset && !fn->lent && !lend_lease_may_rejoin(fn))
		return -EAGAIN;
	/* All functions of a group share one domain: before a lease, none may need a reset. */
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (lease->state == DLEND_OFFER_FREE && w.fn->needs_reset)
			return -EAGAIN;
	/*
	 * The holder makes sure that all functions of a group go to one VM, and it knows from the
	 * offers which functions are in a group.  So it has to have these offers first.
	 */
	if (lease->state == DLEND_OFFER_HELD && lease->holder == dlend_link_peer(link) &&
	    !lend_notify_offers_done(group, link))
		return -EAGAIN;
	return 0;
}

/* Rate-limited, as a peer may ask as often as it likes. */
static void lend_lease_log_refusal(struct lend_fn *fn, u16 node, int ret)
{
	dev_err_ratelimited(&fn->pdev->dev, "cannot be lent to node %u (%d)\n", node, ret);
}

/*
 * Give the lease LEND_EV_BORROW.  @grant: (out) its holder is filled in, unless the function cannot
 * be borrowed at all.  Group lock.  Return: 0: the peer has the lease, and the caller has to call
 * lend_lease_give(); or as lend_lease_borrow().
 */
static int lend_lease_borrow_step(struct lend_fn *fn, struct dlend_link *link,
				  const struct dlend_p_borrow *want,
				  struct dlend_p_lease *grant, u32 *todo)
{
	struct lend_group *group = fn->group;
	struct lend_event ev = { .type = LEND_EV_BORROW, .node = dlend_link_peer(link),
			       .fn = fn->index };
	struct lend_for whom;
	int ret = lend_lease_may_borrow(fn, link);
	u16 holder;

	if (ret)
		return ret;
	memcpy(ev.vm, want->vm, sizeof(ev.vm));
	whom = lend_event_whom(&ev);
	/* All functions of a lease are lent over one link, even if the node has two links. */
	if (group->link && group->link != link && group->lease.state == DLEND_OFFER_HELD)
		ret = -EBUSY;
	else
		ret = lend_group_step(group, &ev, todo);
	lend_set_state_for(group, &group->lease, &whom, &holder);
	grant->holder = cpu_to_le16(holder);
	return ret;
}

/* lend_lease_borrow() without the wait.  @epoch: (out) of the lease, for the trace. */
static int lend_lease_borrow_now(struct lend_fn *fn, struct dlend_link *link,
				 const struct dlend_p_borrow *want, struct dlend_msg *reply,
				 u32 *epoch)
{
	struct dlend_p_lease *grant = (void *)reply->payload;
	struct dlend_irq_source *source;
	struct lend_group *group = fn->group;
	u16 node = dlend_link_peer(link);
	u32 todo;
	int ret;

	/*
	 * Opening the source reads the peer's memory, so no lock is held then.  It is opened only
	 * if the peer could borrow.
	 */
	mutex_lock(&group->lock);
	ret = lend_lease_may_borrow(fn, link);
	mutex_unlock(&group->lock);
	if (ret)
		return ret;
	source = dlend_irq_source_open(link, le64_to_cpu(want->irq_offset),
				       le32_to_cpu(want->irq_handle));
	/* The device is not lent yet, so no reset is needed if the counters are wrong. */
	if (IS_ERR(source)) {
		lend_lease_log_refusal(fn, node, PTR_ERR(source));
		return PTR_ERR(source);
	}
	mutex_lock(&group->lock);
	ret = lend_lease_borrow_step(fn, link, want, grant, &todo);
	*epoch = group->lease.epoch;
	if (ret) {
		dlend_irq_source_close(source);
		goto unlock;
	}
	ret = lend_lease_give(fn, link, todo, source, grant);
	if (!ret) {
		reply->epoch = cpu_to_le32(*epoch);
		goto unlock;
	}
	lend_lease_log_refusal(fn, node, ret);
	lend_lease_give_back(fn, node, *epoch);
	lend_bars_acked(link, &fn->addr, *epoch);
unlock:
	mutex_unlock(&group->lock);
	return ret;
}

int lend_lease_borrow(struct lend_fn *fn, struct dlend_link *link,
		      const struct dlend_p_borrow *want, struct dlend_msg *reply)
{
	struct lend_group *group = fn->group;
	u32 epoch = 0;
	int ret;

	/* Stop waiting when the session ends: the reply could not be sent. */
	wait_event_timeout(group->wait, lend_lease_is_settled(fn) || !dlend_link_is_up(link),
			   msecs_to_jiffies(LEND_BORROW_WAIT_MS));
	ret = lend_lease_borrow_now(fn, link, want, reply, &epoch);

	trace_dlend_lease(&fn->addr, "grant", dlend_link_peer(link), epoch, ret);
	if (!ret)
		pci_info(fn->pdev, "lent to node %u, epoch %u\n", dlend_link_peer(link), epoch);
	return ret;
}

int lend_lease_return(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	struct lend_group *group = fn->group;
	int ret = -ESTALE;

	mutex_lock(&group->lock);
	/* The current lease can only be returned over the link that it was granted over. */
	if (group->lease.state != DLEND_OFFER_HELD || group->link == link ||
	    group->lease.epoch != epoch)
		ret = lend_lease_give_back(fn, dlend_link_peer(link), epoch);
	mutex_unlock(&group->lock);

	trace_dlend_lease(&fn->addr, "return", dlend_link_peer(link), epoch, ret);
	if (ret == -EALREADY)
		ret = 0;
	if (!ret)
		lend_bars_acked(link, &fn->addr, epoch);
	return ret;
}

/*
 * End the lease without a request of its holder: give it event @type, and do what follows.  @why:
 * one word, for log and trace.  Group lock.  Return: as lend_lease_step(); -EALREADY no node has
 * the group.
 */
static int lend_lease_end(struct lend_group *group, enum lend_event_type type,
			  const char *why)
{
	struct lend_event ev = { .type = type, .node = group->lease.holder,
				 .epoch = group->lease.epoch };
	u32 todo;
	int ret;

	ret = lend_group_step(group, &ev, &todo);
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);) {
		if (!(todo & LEND_DO_FENCE) || !w.fn->lent)
			continue;
		trace_dlend_lease(&w.fn->addr, why, ev.node, ev.epoch, 0);
		pci_warn(w.fn->pdev, "taken from node %u (%s)\n", ev.node, why);
	}
	if (todo & LEND_DO_FENCE)
		lend_recover_fence(group);
	/* A standby is dropped after the fence, which must not be delayed. */
	lend_lease_do_move(group, todo);
	return ret;
}

int lend_lease_revoke(struct lend_group *group, const char *why)
{
	guard(mutex)(&group->lock);
	return lend_lease_end(group, LEND_EV_REVOKE, why);
}

/* Take a parked device back when its time is over. */
static void lend_lease_expire_work(struct work_struct *work)
{
	struct lend_group *group = container_of(to_delayed_work(work), struct lend_group, expire);
	long left;

	guard(mutex)(&group->lock);
	left = group->parked_until - jiffies;
	/* The device may have been taken over, and parked again, since this was queued. */
	if (lend_lease_is_parked(&group->lease) && left > 0)
		mod_delayed_work(lend_wq, &group->expire, left);
	else if (!lend_lease_end(group, LEND_EV_EXPIRED, "expired"))
		for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
			pci_warn(w.fn->pdev, "no node took it over: it is reset, and offered to all\n");
}

/* For lend_registry_join(): called with the registry lock held. */
static void lend_group_init_works(struct lend_group *group)
{
	INIT_DELAYED_WORK(&group->recover, lend_recover_work);
	INIT_DELAYED_WORK(&group->expire, lend_lease_expire_work);
	INIT_DELAYED_WORK(&group->unreserve, lend_reserve_work);
	INIT_WORK(&group->uevent, lend_group_uevent_work);
}

int lend_lease_bind(struct lend_fn *fn, struct iommu_group *iommu, unsigned int members)
{
	return lend_registry_join(fn, iommu, members, lend_group_init_works);
}

void lend_lease_error(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	struct dlend_msg msg;

	guard(mutex)(&group->lock);
	/*
	 * Also if no node had the function: the PCI core may reset it while the next node borrows
	 * it.  "?: 1", as 0 means that there was no error.
	 */
	fn->needs_reset = true;
	WRITE_ONCE(fn->errors, fn->errors + 1);
	WRITE_ONCE(fn->error_until, jiffies + msecs_to_jiffies(LEND_ERROR_PATIENCE_MS) ?: 1);
	if (fn->lent) {
		dlend_msg_init(&msg, DLEND_MSG_ERROR, &fn->addr, group->lease.epoch, 0);
		lend_notify_queue(group->link, &msg);
	}
	lend_lease_end(group, LEND_EV_REVOKE, "pci_error");
	lend_recover_later(group, 0);
}

void lend_lease_error_over(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	guard(mutex)(&group->lock);
	if (!fn->error_until)
		return;
	WRITE_ONCE(fn->error_until, 0);
	/* A reset by the lender that failed may have come too early: the next one decides. */
	if (!group->lease.failed)
		fn->broken = false;
	trace_dlend_fence(&fn->addr, "error_over", group->lease.epoch);
	lend_recover_later(group, 0);
}

/*
 * Fence a group if it was lent over the link @arg, or drop its standby.  Do not wait for a group
 * that another node has: requests of that node may hold the group lock for long.  It is enough to
 * read the group's links without the lock: only a message handler of this link can set group->link
 * or standby.link to it, and if such a handler runs now, link_down() is called once more after it
 * (struct dlend_link_user).
 */
static void lend_lease_group_link_lost(struct lend_group *group, void *arg)
{
	struct dlend_link *link = arg;

	/* A BORROW over this link that waits in lend_lease_borrow() must stop waiting. */
	wake_up_all(&group->wait);
	if (READ_ONCE(group->link) != link && READ_ONCE(group->standby.link) != link)
		return;
	guard(mutex)(&group->lock);
	if (group->standby.link == link)
		lend_standby_end(group);
	if (group->link == link)
		lend_lease_end(group, LEND_EV_LINK_LOST, "link_lost");
}

void lend_lease_link_lost(struct dlend_link *link)
{
	lend_registry_each_group(lend_lease_group_link_lost, link);
	lend_bars_link_lost(link);
}

/* If the group has a device that is lent or being reset, set *@arg (int) to -EBUSY, and log why. */
static void lend_lease_group_suspend(struct lend_group *group, void *arg)
{
	const struct lend_lease *lease = &group->lease;
	bool busy, whole;
	int *ret = arg;

	guard(mutex)(&group->lock);
	busy = lease->state == DLEND_OFFER_HELD || lease->fencing;
	/*
	 * A function that needs a reset and is not broken is being reset, or about to be.  But one
	 * that is reset only with others may wait for these without end: it counts only if the
	 * group is complete, or such a reset runs.
	 */
	whole = lease->state != DLEND_OFFER_GONE || group->resetting;
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		busy |= w.fn->needs_reset && !w.fn->broken && (whole || !w.fn->shared_reset);
	if (!busy)
		return;
	*ret = -EBUSY;
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);) {
		if (w.fn->lent)
			pci_warn(w.fn->pdev, "this host does not suspend: node %u uses the device, and its guest would lose it; shut that guest down, or take the device back with \"dlend reclaim %s\", and suspend then\n",
				 lease->holder, pci_name(w.fn->pdev));
		else if (lend_lease_is_parked(lease))
			pci_warn(w.fn->pdev, "this host does not suspend: the device waits for the VM that moves to node %u; suspend again when it is there\n",
				 lease->move.target);
		else if (w.fn->needs_reset)
			pci_warn(w.fn->pdev, "this host does not suspend: the device is being reset; suspend again in some seconds\n");
	}
}

int lend_lease_suspend(void)
{
	int ret = 0;

	/* First, so that a BORROW that gets a group's lock after the check below sees it. */
	WRITE_ONCE(lend_lease_asleep, true);
	lend_registry_each_group(lend_lease_group_suspend, &ret);
	return ret;
}

/*
 * Reset the functions of a group after the host has slept: after a hibernation, the kernel that
 * loaded the image may have used the device.
 */
static void lend_lease_group_resume(struct lend_group *group, void *unused)
{
	bool any = false;

	guard(mutex)(&group->lock);
	/* A device is lent, so lend_lease_suspend() has refused: this host did not sleep. */
	if (group->lease.state == DLEND_OFFER_HELD || group->lease.fencing)
		return;
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->ready && !w.fn->broken) {
			w.fn->needs_reset = true;
			any = true;
		}
	/* If the last function has left the group, no work may be queued for it any more. */
	if (any)
		lend_recover_later(group, 0);
}

void lend_lease_resume(bool slept)
{
	/* Mark the functions first, so that no node borrows one that was not reset yet. */
	if (slept)
		lend_registry_each_group(lend_lease_group_resume, NULL);
	WRITE_ONCE(lend_lease_asleep, false);
}

static void lend_lease_group_shutdown(struct lend_group *group, void *unused)
{
	lend_lease_revoke(group, "shutdown");
}

/* Devices must do no DMA when the host turns its IOMMUs off, which comes later in a shutdown. */
void lend_lease_shutdown(void)
{
	/* First, as in lend_lease_suspend(). */
	WRITE_ONCE(lend_lease_asleep, true);
	lend_registry_each_group(lend_lease_group_shutdown, NULL);
}

int lend_lease_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	struct lend_group *group = fn->group;
	int ret;

	mutex_lock(&group->lock);
	ret = lend_lease_check(&group->lease, dlend_link_peer(link), epoch, fn->index);
	ret = ret || group->link != link ? -ESTALE : 0;
	/* The function is about to be fenced.  -ESTALE would mean that its DMA is over. */
	if (!ret && fn->removing)
		ret = -EBUSY;
	if (ret)
		mutex_unlock(&group->lock);
	return ret;
}
