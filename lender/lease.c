// SPDX-License-Identifier: GPL-2.0
/*
 * Leases: a node borrows a function or returns it, or the function is taken away.  Every change of
 * a lease is an event of the state machine in lease_sm.c, which this file gives to it; then this
 * file does what the machine says (LEND_DO_*).
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
 * A group and its members: whether all functions of an IOMMU group are here, so that the group can
 * be offered.  Peers and user space are told when that, or the lease, changes.
 */

/* Group lock. */
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
	/* It cannot be borrowed: it is not prepared, or a function of its group is missing. */
	return lend_group_is_kept_back(group) ? "preparing" : "incomplete";
}

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

/* The state of a group has changed: tell all peers and user space, soon. Group lock. */
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
 * The members of the group may have changed.  Peers know by the group's number which functions are
 * in one group.  So when the number or the count of members changes, all offers of the group are
 * told again; both change nowhere else.
 *
 * The number is a name in the fabric and not an address in this host, because another PCI domain
 * may have the same address; lend_registry_join() lets no name appear twice.  Group lock.
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

/* What happens to a group that no node has.  Group lock. */
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
 * Offer the group if all its functions are bound here, were reset and are prepared, and do not
 * offer it otherwise.  Does nothing while a node has the group, or while it is being reset.  Group
 * lock.
 */
static void lend_group_try_offer(struct lend_group *group)
{
	struct lend_event ev = { };
	u32 todo;

	/* During a lease the members are not counted again: that is done when the lease ends. */
	if (group->lease.state == DLEND_OFFER_HELD || group->lease.fencing)
		return;
	lend_group_recount(group);
	ev.type = lend_group_judge(group);
	lend_group_step(group, &ev, &todo);
}

static void lend_group_look_again(struct lend_group *group, void *unused)
{
	guard(mutex)(&group->lock);
	lend_group_try_offer(group);
	if (lend_set_take_stale(group))
		lend_group_announce(group);
}

static void lend_groups_look_again(struct work_struct *work)
{
	lend_registry_each_group(lend_group_look_again, NULL);
}

static DECLARE_WORK(lend_groups_work, lend_groups_look_again);

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
	/* A function that was reset with others may be leaving: it would stay counted. */
	if (!READ_ONCE(fn->removing)) {
		fn->ready = true;
		group->ready++;
		lend_group_try_offer(group);
	}
	mutex_unlock(&group->lock);
	lend_notify_fn(fn, LEND_NEWS_OFFER);
}

/* No transfer of the lease can come from the group's functions any more.  Group lock. */
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

static const struct lend_for lend_reserve_nobody;

/* Group lock. */
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

/* Jiffies that are left; 0 or less when the time is over.  Group lock. */
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

/* A timer whose time is weeks away may end early. */
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
	/* The state changes to "incomplete" if another function of the group is missing. */
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
 * A fence takes a device away from its borrower: bus mastering off, DMA of the group blocked,
 * interrupts down, BARs out of the aperture.  The first steps are quick, and cut the device off.  A
 * fence is local, and waits for no answer.  The reset comes afterwards (reset.c) and may take
 * seconds; only then may anything that was lent be used again.
 */

void lend_fence_bus_master(struct lend_fn *fn, bool on)
{
	if (on)
		pci_set_master(fn->pdev);
	else
		pci_clear_master(fn->pdev);
	trace_dlend_bus_master(&fn->addr, on ? "on" : "off", fn->group->lease.epoch);
}

static void lend_fence_quiesce(struct lend_fn *fn)
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

/* Take all functions of a group away. Group lock. */
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
 * The node that prepares to take a lease over (struct lend_standby).  It reaches nothing before
 * lend_standby_swap().
 *
 * Its memory is mapped, in a domain of its own, while the holder's guest still runs.  So the time
 * in which no guest runs does not depend on the size of a guest.
 */

int lend_standby_prepare(struct lend_fn *fn, struct dlend_link *link,
			 struct dlend_irq_source *source, struct dlend_p_lease *grant)
{
	struct lend_group *group = fn->group;
	struct lend_standby *s = &group->standby;

	WRITE_ONCE(s->link, dlend_link_get(link));
	s->source = source;
	s->win = NULL;
	s->domain = dlend_domain_create(&fn->pdev->dev);
	if (IS_ERR(s->domain))
		return PTR_ERR(s->domain);
	s->win = lend_bars_reserve(fn, link, group->lease.move.epoch, grant->bar_offset);
	return PTR_ERR_OR_ZERO(s->win);
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
	if (!IS_ERR_OR_NULL(s->win))
		lend_bars_drop(s->win);
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
	/* The old holder's offsets lead nowhere now: they need no reset before they are free. */
	lend_bars_reset_done(fn);

	group->domain = s->domain;
	WRITE_ONCE(group->link, s->link);
	WRITE_ONCE(s->link, NULL);
	fn->holder_index = !fn->holder_index;
	fn->lent = true;
	fn->vpd = 0;
	fn->irq.source = s->source;
	ret = lend_attach_domain(group);
	if (!ret)
		ret = lend_bars_take(fn, s->win);
	else
		lend_bars_drop(s->win);
	if (!ret)
		lend_p2p_open(fn, group->link, group->lease.move.epoch);
	return ret;
}

/*
 * After a lease: every function that was lent is reset, and the group is offered again, or is
 * quarantined because a reset failed.
 */

/* Pause before the next try if a device lock was taken, or the PCI core recovers a function. */
#define LEND_RECOVER_AGAIN_MS	500

void lend_recover_later(struct lend_group *group, unsigned int ms)
{
	queue_delayed_work(lend_wq, &group->recover, msecs_to_jiffies(ms));
}

/* Take a group away from its holder now, tell all, and recover it soon. Group lock. */
static void lend_recover_fence(struct lend_group *group)
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
	 * The reset has ended the error.  Some kernels do not tell the driver that the PCI core has
	 * given up, and no kernel changes error_state then.
	 */
	WRITE_ONCE(fn->error_until, 0);
	if (fn->pdev->error_state == pci_channel_io_frozen)
		fn->pdev->error_state = pci_channel_io_normal;
	lend_bars_reset_done(fn);
	lend_group_try_offer(fn->group);
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
	/* The node that takes a parked device over needs it as the last holder's guest left it. */
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

/* The function was reset with others.  The first such reset makes it ready. */
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

/* A reset with others takes the device locks of all of them, one of which the PCI core may hold. */
static bool lend_recover_all_must_wait(struct lend_group *group)
{
	guard(mutex)(&group->lock);
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->shared_reset && lend_recover_must_wait(w.fn))
			return true;
	return false;
}

/* The function was reset with others; @ret is the result. */
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
 * function stays dirty, and is not lent: the next try follows when the others are returned, or
 * bound.
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
	struct lend_event ev;
	struct lend_fn *fn;
	u32 todo;
	int ret;

	mutex_lock(&group->reset_lock);
	/* A lease that ends from here on gets a run of its own: see lend_recover_fence(). */
	lend_group_lease(group, &lease);
	while ((fn = lend_recover_next(group, &i))) {
		ret = lend_recover_fn(fn, fn == self);
		/*
		 * A function that leaves, maybe because it was pulled out, does not count: it is
		 * lent again only after a reset of its own (lend_bind_reset()).
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

/* A function leaves its group: recover now, and forget the function. May take seconds. */
static void lend_recover_unbind(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	bool again = lend_recover_group(group, fn), last;

	if (fn->shared_reset && fn->needs_reset && fn->saved)
		pci_warn(fn->pdev, "is unbound without a reset, its DMA and interrupts are off: not all functions that are reset with it are bound here; reset its slot or bus before another driver uses it\n");
	cancel_delayed_work_sync(&group->recover);
	mutex_lock(&group->lock);
	last = lend_registry_forget(fn);
	if (last) {
		lend_group_drop_domain(group);
	} else {
		/* Another group may get the name soon: this group needs another number. */
		lend_group_try_offer(group);
		/* What was cancelled may have been about another function. */
		lend_recover_later(group, again ? LEND_RECOVER_AGAIN_MS : 0);
	}
	mutex_unlock(&group->lock);
	if (!last)
		return;
	/* The module may go next.  Code that still has a reference queues nothing after this. */
	disable_delayed_work_sync(&group->recover);
	disable_delayed_work_sync(&group->expire);
	disable_delayed_work_sync(&group->unreserve);
	disable_work_sync(&group->uevent);
	lend_group_put(group);	/* the registry's reference; the function has its own */
}

/* A BORROW that comes while the device is still being reset waits no longer than this. */
#define LEND_BORROW_WAIT_MS	3000

/*
 * The PCI core may take at most so long to recover a function from an error.  The limit is needed
 * because some kernels do not tell the driver that they could not recover it.
 */
#define LEND_ERROR_PATIENCE_MS	60000

/* A device whose holder gave it away, and left, stays as it is for this time. */
static unsigned int lend_lease_parked_s = 60;
module_param_named(parked_s, lend_lease_parked_s, uint, 0644);
MODULE_PARM_DESC(parked_s, "seconds that a device waits, as its VM has left it, for the host that the VM moves to, if the host that the VM was on has gone; then the device is reset and offered to all");

/* The host goes to sleep, or shuts down: nothing is lent. */
static bool lend_lease_asleep;

/*
 * Do what the lease says about a move.  A parked device is cut off from all nodes, and stays as its
 * guest has left it.  Group lock.
 */
static void lend_lease_obey_move(struct lend_group *group, u32 todo)
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
	/* If this function was never offered, the holder of the others keeps its lease. */
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
	lend_lease_obey_move(group, todo);
	mutex_unlock(&group->lock);
	lend_reserve(group, &lend_reserve_nobody, 0);
	lend_group_join_set(group, "");
	/* Before the reset, which may take a minute, in which a guest would read 0xff. */
	if (offered)
		lend_notify_withdraw(fn);
	lend_recover_unbind(fn);
}

/* Make and attach the domain for the first function of a lease.  Group lock. */
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
 * Give @fn what it needs to be lent; @fn owns @source from here on.  On failure the caller takes
 * @fn back like a function that was returned.  Group lock.
 */
static int lend_lease_give(struct lend_fn *fn, struct dlend_link *link, u32 todo,
			   struct dlend_irq_source *source, struct dlend_p_lease *grant)
{
	struct lend_windows *win;
	int ret = 0;

	/* It may have been reset while no node had it. */
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
	win = lend_bars_reserve(fn, link, fn->group->lease.epoch, grant->bar_offset);
	ret = PTR_ERR_OR_ZERO(win) ?: lend_bars_take(fn, win);
	if (!ret && fn->hidden)
		lend_bars_hide(fn);
	else if (!ret)
		lend_p2p_open(fn, link, fn->group->lease.epoch);
	return ret;
}

/* Take one function back, as if its holder had returned it.  Group lock. */
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
	lend_lease_obey_move(group, todo);
	return ret;
}

/*
 * The holder has returned the function, and still has others that would be reset with it.  So it
 * can have the function again as it left it: all functions of a lease go to one VM.
 */
static bool lend_lease_may_rejoin(struct lend_fn *fn)
{
	return fn->shared_reset && READ_ONCE(fn->group->lease.state) == DLEND_OFFER_HELD &&
	       !(READ_ONCE(fn->group->resetting) & BIT_ULL(fn->index));
}

/* Is the reset after the last lease of @fn over, whether it succeeded or failed? */
static bool lend_lease_is_settled(struct lend_fn *fn)
{
	if (READ_ONCE(fn->group->lease.state) == DLEND_OFFER_RETURNING)
		return false;
	return !READ_ONCE(fn->needs_reset) || lend_lease_may_rejoin(fn) || READ_ONCE(fn->lent) ||
	       READ_ONCE(fn->broken);
}

/* Group lock. */
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
	/* It is not prepared, or was not reset and may hold the state of its former driver. */
	if (!lend_fn_is_offered(fn))
		return -ENODEV;
	if (fn->broken)
		return -EIO;
	if (fn->needs_reset && !fn->lent && !lend_lease_may_rejoin(fn))
		return -EAGAIN;
	/* All functions of a group share one domain: a lease begins when all of them are clean. */
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

/* Group lock.  Return: 0: the peer has the lease, lend_lease_give() has to follow. */
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
	/* A lease lives on one link only, also if a node has two links to this one. */
	if (group->link && group->link != link && group->lease.state == DLEND_OFFER_HELD)
		ret = -EBUSY;
	else
		ret = lend_group_step(group, &ev, todo);
	lend_set_state_for(group, &group->lease, &whom, &holder);
	grant->holder = cpu_to_le16(holder);
	return ret;
}

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

	/* To open the source reads the peer's memory: only if the peer could borrow. */
	mutex_lock(&group->lock);
	ret = lend_lease_may_borrow(fn, link);
	mutex_unlock(&group->lock);
	if (ret)
		return ret;
	source = dlend_irq_source_open(link, le64_to_cpu(want->irq_offset),
				       le32_to_cpu(want->irq_handle));
	/* The device has not been touched yet, so wrong counters do not cost a reset. */
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

	/* Stop waiting when the session ends: the answer would not be sent. */
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

/* End the lease without its holder, if a node has the group.  Group lock. */
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
	/* After the fence, which this must not delay. */
	lend_lease_obey_move(group, todo);
	return ret;
}

int lend_lease_revoke(struct lend_group *group, const char *why)
{
	guard(mutex)(&group->lock);
	return lend_lease_end(group, LEND_EV_REVOKE, why);
}

static void lend_lease_expire_work(struct work_struct *work)
{
	struct lend_group *group = container_of(to_delayed_work(work), struct lend_group, expire);
	long left;

	guard(mutex)(&group->lock);
	left = group->parked_until - jiffies;
	/* The device has been taken over, and parked again, since this was queued. */
	if (lend_lease_is_parked(&group->lease) && left > 0)
		mod_delayed_work(lend_wq, &group->expire, left);
	else if (!lend_lease_end(group, LEND_EV_EXPIRED, "expired"))
		for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
			pci_warn(w.fn->pdev, "no node took it over: it is reset, and offered to all\n");
}

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
	/* Also if no node had it: the core may reset it while the next node borrows it. */
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
	/* A reset of ours that failed may have come too early: the next one decides. */
	if (!group->lease.failed)
		fn->broken = false;
	trace_dlend_fence(&fn->addr, "error_over", group->lease.epoch);
	lend_recover_later(group, 0);
}

/*
 * Do not wait for a group that another node has: its requests may keep the group lock for long.
 * It is enough to look at the group's links without the lock.  Only a message handler of @link
 * makes @link one of them, and if such a handler runs now, link_down() is called once more after it
 * (struct dlend_link_user).
 */
static void lend_lease_group_link_lost(struct lend_group *group, void *arg)
{
	struct dlend_link *link = arg;

	/* A BORROW of this session for any group must stop waiting. */
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

/* If the group keeps the host awake, say why. */
static void lend_lease_group_suspend(struct lend_group *group, void *arg)
{
	const struct lend_lease *lease = &group->lease;
	bool busy, whole;
	int *ret = arg;

	guard(mutex)(&group->lock);
	busy = lease->state == DLEND_OFFER_HELD || lease->fencing;
	/*
	 * A function is being reset, or about to be.  One that is reset with others waits until all
	 * of them are here, which may be never.
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

	/* First, so that a borrower that gets a group's lock after us sees it. */
	WRITE_ONCE(lend_lease_asleep, true);
	lend_registry_each_group(lend_lease_group_suspend, &ret);
	return ret;
}

/* After a hibernation, the kernel that loaded this one may have driven the device. */
static void lend_lease_group_resume(struct lend_group *group, void *unused)
{
	bool any = false;

	guard(mutex)(&group->lock);
	/* This host did not sleep after all. */
	if (group->lease.state == DLEND_OFFER_HELD || group->lease.fencing)
		return;
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		if (w.fn->ready && !w.fn->broken) {
			w.fn->needs_reset = true;
			any = true;
		}
	/* Of a group whose last function has left no work may be queued. */
	if (any)
		lend_recover_later(group, 0);
}

void lend_lease_resume(bool slept)
{
	/* First, so that no node borrows a function that is not reset yet. */
	if (slept)
		lend_registry_each_group(lend_lease_group_resume, NULL);
	WRITE_ONCE(lend_lease_asleep, false);
}

static void lend_lease_group_shutdown(struct lend_group *group, void *unused)
{
	lend_lease_revoke(group, "shutdown");
}

/* Devices that are lent must do no DMA when the host turns its IOMMUs off, later. */
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
	/* The function is about to be fenced.  -ESTALE would say that it was. */
	if (!ret && fn->removing)
		ret = -EBUSY;
	if (ret)
		mutex_unlock(&group->lock);
	return ret;
}
