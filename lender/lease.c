// SPDX-License-Identifier: GPL-2.0
/*
 * Groups and their leases: every change of a lease goes through here, as an event of the state
 * machine in lease_sm.c and what it then says is to be done.
 *
 * Locks, in the order in which they are taken:
 *
 *   device lock of a function	held by the driver core around probe, remove and error handlers.
 *				Nobody below may wait for it: lend_reset_fn() only tries, with an end.
 *   lend_offer_lock		(offer.c) the announcer reads a function's state.
 *   lend_group.reset_lock	resets of a group, seconds.  Never taken by whoever fences.
 *   lend_registry_lock		which groups and functions there are.
 *   lend_group.lock		lease, domain, BARs, interrupts of a group.  Held for as long as
 *				IOMMU work takes, never over a reset or a message.
 *   lend_bars_closed_lock		(bars.c) offsets in quarantine.
 *   lend_p2p_lock		(p2p.c) who reaches whose BARs; never two groups' locks for that.
 *   lend_listeners_lock		(offer.c) what is still to be said; spins.
 *   lend_irqs.lock		INTx masked or not; hard interrupt.
 *
 * Nobody who holds one of them posts a message, or waits for a peer: its memory is read, and its
 * answers are waited for, with none held.
 *
 * Message handlers run in a link's workqueue, those of one device one at a time, and take
 * reset_lock or group.lock; link_down() takes the registry's, group.lock of what was lent over that
 * link, and those below, so that it ends soon whatever a reset is doing.
 */
#include <linux/iommu.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "lender/lender.h"
#include "lender/trace.h"

/* A borrower that comes while the device is still being reset waits this long. */
#define LEND_BORROW_WAIT_MS	3000
#define LEND_RECOVER_AGAIN_MS	500

/* The PCI core gets so long to recover a function from an error: that it cannot it tells nobody. */
#define LEND_ERROR_PATIENCE_MS	60000

/* 2025-01-01: epochs are 32 bits and shall not repeat when the module is loaded again. */
#define LEND_EPOCH_ORIGIN		1735689600

struct workqueue_struct *lend_wq;

static DEFINE_MUTEX(lend_registry_lock);
static LIST_HEAD(lend_registry_groups);
static LIST_HEAD(lend_registry_fns);
static u32 lend_registry_epoch_floor;		/* registry lock: above every epoch of dead groups */
static bool lend_lease_asleep;			/* the host goes to sleep, or down: nothing is lent */

static void lend_recover_work(struct work_struct *work);

static void lend_group_release(struct kref *ref)
{
	kfree(container_of(ref, struct lend_group, ref));
}

static void lend_group_put(struct lend_group *group)
{
	kref_put(&group->ref, lend_group_release);
}

static void lend_fn_release(struct kref *ref)
{
	struct lend_fn *fn = container_of(ref, struct lend_fn, ref);

	if (fn->group)
		lend_group_put(fn->group);
	kfree(fn->saved);
	lend_rom_free(fn);
	pci_dev_put(fn->pdev);
	kfree(fn);
}

void lend_fn_put(struct lend_fn *fn)
{
	kref_put(&fn->ref, lend_fn_release);
}

/** lend_fn_find - a function by its fabric-wide address; lend_fn_put() it. NULL if not bound here */
struct lend_fn *lend_fn_find(const struct dlend_addr *addr)
{
	struct lend_fn *fn, *found = NULL;

	mutex_lock(&lend_registry_lock);
	list_for_each_entry(fn, &lend_registry_fns, node) {
		if (fn->addr.lender != addr->lender || fn->addr.bdf != addr->bdf)
			continue;
		kref_get(&fn->ref);
		found = fn;
		break;
	}
	mutex_unlock(&lend_registry_lock);
	return found;
}

/** lend_fn_all - every function, referenced; kfree() the array. NULL: none */
struct lend_fn **lend_fn_all(unsigned int *count)
{
	struct lend_fn *fn, **all;
	unsigned int n = 0;

	mutex_lock(&lend_registry_lock);
	all = kcalloc(list_count_nodes(&lend_registry_fns), sizeof(*all), GFP_KERNEL | __GFP_NOFAIL);
	if (!ZERO_OR_NULL_PTR(all)) {
		list_for_each_entry(fn, &lend_registry_fns, node) {
			kref_get(&fn->ref);
			all[n++] = fn;
		}
	}
	mutex_unlock(&lend_registry_lock);
	*count = n;
	return n ? all : NULL;
}

static struct lend_group *lend_group_find(int id)
{
	struct lend_group *group;

	list_for_each_entry(group, &lend_registry_groups, node)
		if (group->id == id)
			return group;
	return NULL;
}

static u32 lend_group_first_epoch(void)
{
	return lend_epoch_first(lend_registry_epoch_floor, ktime_get_real_seconds() - LEND_EPOCH_ORIGIN);
}

static struct lend_group *lend_group_new(int id, const struct lend_census *census)
{
	struct lend_group *group = kzalloc_obj(*group);

	if (!group)
		return NULL;
	kref_init(&group->ref);
	group->id = id;
	group->members = census->members;
	mutex_init(&group->reset_lock);
	mutex_init(&group->lock);
	INIT_DELAYED_WORK(&group->recover, lend_recover_work);
	init_waitqueue_head(&group->wait);
	lend_lease_init(&group->lease, lend_group_first_epoch());
	list_add_tail(&group->node, &lend_registry_groups);
	return group;
}

static int lend_group_add(struct lend_group *group, struct lend_fn *fn)
{
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++) {
		if (group->fn[i])
			continue;
		group->fn[i] = fn;
		fn->index = i;
		fn->group = group;
		kref_get(&group->ref);
		return 0;
	}
	return -ENOSPC;
}

/**
 * lend_registry_join - a function is being bound: it can be found from now on
 * @fn: function
 * @id: of its IOMMU group
 * @census: of that group, for the first one of it; the others count again when they are ready
 *
 * Return: 0; -EEXIST the address is taken; -ENOSPC more functions than a lease can hold; -ENOMEM.
 */
int lend_registry_join(struct lend_fn *fn, int id, const struct lend_census *census)
{
	struct lend_group *group;
	struct lend_fn *other;
	int ret = 0;

	mutex_lock(&lend_registry_lock);
	list_for_each_entry(other, &lend_registry_fns, node)
		if (other->addr.bdf == fn->addr.bdf)
			ret = -EEXIST;
	group = lend_group_find(id);
	if (!ret && !group)
		group = lend_group_new(id, census);
	if (!ret && !group)
		ret = -ENOMEM;
	if (!ret) {
		mutex_lock(&group->lock);
		ret = lend_group_add(group, fn);
		mutex_unlock(&group->lock);
	}
	if (!ret)
		list_add_tail(&fn->node, &lend_registry_fns);
	mutex_unlock(&lend_registry_lock);
	return ret;
}

/* One event; what it means to other nodes is said by the announcer, later.  Group lock. */
static int lend_group_step(struct lend_group *group, const struct lend_event *ev, u32 *todo)
{
	int ret = lend_lease_step(&group->lease, ev, todo);

	if (*todo & LEND_DO_TELL)
		lend_outbox_tell_group(group);
	wake_up_all(&group->wait);
	return ret;
}

/*
 * By name, not by address in this host, which another PCI domain may have, too: lend_registry_join()
 * sees to it that no name is there twice.  Group lock.
 */
static u16 lend_group_lowest_name(const struct lend_group *group)
{
	u16 number = U16_MAX;

	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->ready)
			number = min(number, group->fn[i]->addr.bdf);
	return number;
}

/*
 * Who is in the group may have changed.  Peers know by its number that functions are in one group,
 * so all of its offers get the new one, and nowhere else does it change.  Group lock.
 */
static void lend_group_recount(struct lend_group *group)
{
	u16 number = lend_group_lowest_name(group);
	struct lend_census census = { };
	struct iommu_group *iommu;

	for (unsigned int i = 0; i < LEND_GROUP_MAX && !census.members; i++) {
		/* Bound, so that it is in its group. */
		iommu = group->fn[i] ? iommu_group_get(&group->fn[i]->pdev->dev) : NULL;
		if (iommu)
			lend_census_take(iommu, &census);
		iommu_group_put(iommu);
	}
	if (!census.members || (census.members == group->members && number == group->number))
		return;
	group->members = census.members;
	group->number = number;
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i])
			lend_outbox_tell(group->fn[i], LEND_TELL_OFFER);
}

/* Group lock. */
static bool lend_group_any_broken(const struct lend_group *group)
{
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->broken)
			return true;
	return false;
}

/* It can be borrowed if all of its functions were reset, and only then.  Group lock. */
static void lend_group_try_offer(struct lend_group *group)
{
	struct lend_event ev = { .type = LEND_EV_INCOMPLETE };
	u32 todo;

	/* What a lease is of does not change under it: its end looks again. */
	if (group->lease.state == DLEND_OFFER_HELD || group->lease.fencing)
		return;
	lend_group_recount(group);
	if (group->ready && group->ready == group->members)
		ev.type = lend_group_any_broken(group) ? LEND_EV_BROKEN : LEND_EV_OFFER;
	lend_group_step(group, &ev, &todo);
}

static void lend_group_try_offer_all(struct work_struct *work)
{
	struct lend_group *group;

	mutex_lock(&lend_registry_lock);
	list_for_each_entry(group, &lend_registry_groups, node) {
		mutex_lock(&group->lock);
		lend_group_try_offer(group);
		mutex_unlock(&group->lock);
	}
	mutex_unlock(&lend_registry_lock);
}

static DECLARE_WORK(lend_groups_work, lend_group_try_offer_all);

/** lend_groups_changed - functions came to IOMMU groups, or left them. Any process context. */
void lend_groups_changed(void)
{
	queue_work(lend_wq, &lend_groups_work);
}

/** lend_groups_exit - lend_groups_changed() is not called any more */
void lend_groups_exit(void)
{
	cancel_work_sync(&lend_groups_work);
}

/** lend_group_ready - a function was reset: if its group is whole now it can be borrowed */
void lend_group_ready(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	mutex_lock(&group->lock);
	fn->ready = true;
	group->ready++;
	lend_group_try_offer(group);
	mutex_unlock(&group->lock);
	lend_outbox_tell(fn, LEND_TELL_OFFER);
}

void lend_group_lease(struct lend_group *group, struct lend_lease *lease)
{
	mutex_lock(&group->lock);
	*lease = group->lease;
	mutex_unlock(&group->lock);
}

static void lend_recover_later(struct lend_group *group, unsigned int ms)
{
	kref_get(&group->ref);
	if (!queue_delayed_work(lend_wq, &group->recover, msecs_to_jiffies(ms)))
		lend_group_put(group);
}

/* After the machine said LEND_DO_FENCE.  Group lock; quick. */
static void lend_recover_fence(struct lend_group *group)
{
	lend_fence_group(group);
	lend_recover_later(group, 0);
}

/* The lease's domain and link are given up once nothing old can come out of the device. */
static void lend_group_drop_domain(struct lend_group *group)
{
	if (group->domain)
		dlend_domain_destroy(group->domain);
	group->domain = NULL;
	if (group->link)
		dlend_link_put(group->link);
	WRITE_ONCE(group->link, NULL);
}

/* With a lease's end that fails no later reset helps: see lease_sm.c.  Group lock. */
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

/* The reset is over; @ret is its result.  Group lock. */
static void lend_recover_done(struct lend_fn *fn, int ret)
{
	/* Nothing was done: whatever is known of it still holds. */
	if (ret == -EAGAIN)
		return;
	fn->dirty = ret != 0;
	fn->broken = ret != 0;
	if (ret) {
		lend_recover_log_failure(fn, ret);
		lend_group_try_offer(fn->group);
		return;
	}
	/* An older core does not say that it has given up, and each leaves the state then. */
	WRITE_ONCE(fn->error_until, 0);
	if (fn->pdev->error_state == pci_channel_io_frozen)
		fn->pdev->error_state = pci_channel_io_normal;
	lend_bars_reset_done(fn);
	lend_group_try_offer(fn->group);
}

/* All functions of an ended lease were dealt with.  Group lock. */
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

/* A reset in the middle of that, or a new lease, would meet the core's own reset. */
static bool lend_recover_must_wait(const struct lend_fn *fn)
{
	unsigned long until = READ_ONCE(fn->error_until);

	return until && time_before(jiffies, until) && !READ_ONCE(fn->removing);
}

/* The next function that was lent and is not any more; its reference is the caller's. */
static struct lend_fn *lend_recover_next(struct lend_group *group, unsigned int *i)
{
	struct lend_fn *fn = NULL;

	mutex_lock(&group->lock);
	for (; *i < LEND_GROUP_MAX && !fn; (*i)++) {
		fn = group->fn[*i];
		if (fn && (!fn->dirty || fn->lent || (fn->broken && !group->lease.fencing)))
			fn = NULL;
		if (fn)
			kref_get(&fn->ref);
	}
	mutex_unlock(&group->lock);
	return fn;
}

/* One function.  Return: 0; -EAGAIN to be tried again; else it is broken */
static int lend_recover_fn(struct lend_fn *fn, bool locked)
{
	u32 errors = READ_ONCE(fn->errors);
	int ret = lend_recover_must_wait(fn) ? -EAGAIN : lend_reset_fn(fn, "return", locked);

	mutex_lock(&fn->group->lock);
	/* An error that came after our reset, or during it: the core may reset it once more. */
	if (!ret && fn->errors != errors)
		ret = -EAGAIN;
	lend_recover_done(fn, ret);
	mutex_unlock(&fn->group->lock);
	return ret;
}

/**
 * lend_recover_group - reset what was lent, and offer it again
 * @group: group
 * @self: its device lock is held by the caller (remove), or NULL
 *
 * Context: may take seconds. Return: true if a function must be tried again later.
 */
static bool lend_recover_group(struct lend_group *group, struct lend_fn *self)
{
	bool again = false, ok = true;
	unsigned int i = 0;
	struct lend_lease lease;
	struct lend_fn *fn;
	int ret;

	mutex_lock(&group->reset_lock);
	/* A lease that ends while we are at it gets a run of its own: see lend_recover_fence(). */
	lend_group_lease(group, &lease);
	while ((fn = lend_recover_next(group, &i))) {
		ret = lend_recover_fn(fn, fn == self);
		ok &= !ret;
		again |= ret == -EAGAIN;
		lend_fn_put(fn);
	}
	mutex_lock(&group->lock);
	if (!again && lease.fencing)
		lend_recover_fence_done(group, ok);
	wake_up_all(&group->wait);
	mutex_unlock(&group->lock);
	mutex_unlock(&group->reset_lock);
	return again;
}

static void lend_recover_work(struct work_struct *work)
{
	struct lend_group *group = container_of(to_delayed_work(work), struct lend_group, recover);

	if (lend_recover_group(group, NULL))
		lend_recover_later(group, LEND_RECOVER_AGAIN_MS);
	lend_group_put(group);
}

/*
 * Take a function out of the registry, and look after the others in @ms.  Return: true if it was
 * the last one of its group.
 */
static bool lend_registry_forget(struct lend_fn *fn, unsigned int ms)
{
	struct lend_group *group = fn->group;
	bool last;

	mutex_lock(&lend_registry_lock);
	mutex_lock(&group->lock);
	group->fn[fn->index] = NULL;
	list_del(&fn->node);
	last = !memchr_inv(group->fn, 0, sizeof(group->fn));
	if (last) {
		if (dlend_epoch_after(group->lease.epoch, lend_registry_epoch_floor) || !lend_registry_epoch_floor)
			lend_registry_epoch_floor = group->lease.epoch;
		list_del(&group->node);
		lend_group_drop_domain(group);
	} else {
		/* Its name may be another group's soon. */
		lend_group_try_offer(group);
		/* In the lock: one that leaves later, and is the last one, cancels it. */
		lend_recover_later(group, ms);
	}
	mutex_unlock(&group->lock);
	mutex_unlock(&lend_registry_lock);
	return last;
}

static void lend_recover_cancel(struct lend_group *group)
{
	if (cancel_delayed_work_sync(&group->recover))
		lend_group_put(group);
}

/**
 * lend_lease_unbind - a function is being unbound: nobody finds it any more
 * @fn: function
 *
 * Whoever has the group loses it now; the function is fenced and reset when this returns.
 * Context: remove or failed probe, device lock held.
 */
void lend_lease_unbind(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;
	struct lend_event ev = { .type = LEND_EV_UNBIND };
	u32 todo = 0;
	bool again;

	WRITE_ONCE(fn->removing, true);
	mutex_lock(&group->lock);
	group->ready -= fn->ready;
	/* One that never became ready takes nothing from whoever has the others. */
	if (fn->ready)
		lend_group_step(group, &ev, &todo);
	fn->ready = false;
	if (todo & LEND_DO_FENCE) {
		pci_warn(fn->pdev, "unbound while node %u had it: fenced, its guest loses the device\n",
			 group->lease.holder);
		trace_dlend_lease(&fn->addr, "unbind", group->lease.holder, group->lease.epoch, 0);
		lend_recover_fence(group);
	}
	mutex_unlock(&group->lock);

	again = lend_recover_group(group, fn);
	lend_recover_cancel(group);
	/* What was cancelled may have been about another function: then it is queued again. */
	if (!lend_registry_forget(fn, again ? LEND_RECOVER_AGAIN_MS : 0))
		return;
	/*
	 * Nothing of the group may run once its last function is gone: the module may follow.  One
	 * that left at the same time may have queued it since.
	 */
	lend_recover_cancel(group);
	lend_group_put(group);	/* the registry's; the function has its own */
}

/* Domain for the first function of a lease.  Group lock. */
static int lend_lease_make_domain(struct lend_fn *fn, struct dlend_link *link)
{
	struct lend_group *group = fn->group;
	int ret;

	group->domain = dlend_domain_create(&fn->pdev->dev);
	if (IS_ERR(group->domain)) {
		ret = PTR_ERR(group->domain);
		group->domain = NULL;
		return ret;
	}
	WRITE_ONCE(group->link, dlend_link_get(link));
	ret = dlend_domain_attach(group->domain);
	/* Linux is resetting one of the group, and does not change its domain meanwhile. */
	return ret == -EBUSY ? -EAGAIN : ret;
}

/*
 * What a function needs to be lent; @source is its own from here on.  On failure the caller takes
 * it back like a returned one.
 */
static int lend_lease_give(struct lend_fn *fn, struct dlend_link *link, u32 todo,
			   struct dlend_irq_source *source, struct dlend_p_lease *grant)
{
	int ret = 0;

	fn->lent = true;
	fn->dirty = true;
	lend_irq_open(fn, source);
	if (todo & LEND_DO_GRANT)
		ret = lend_lease_make_domain(fn, link);
	if (!ret)
		ret = lend_bars_map(fn, link, fn->group->lease.epoch, grant->bar_offset);
	if (!ret && fn->hidden)
		lend_bars_hide(fn);
	else if (!ret)
		lend_p2p_open(fn, link, fn->group->lease.epoch);
	return ret;
}

/* One function is given back, as by its holder.  Group lock. */
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
		lend_fence_fn(fn);
		lend_recover_later(group, 0);
	}
	return ret;
}

static bool lend_lease_settled(struct lend_fn *fn)
{
	if (READ_ONCE(fn->group->lease.state) == DLEND_OFFER_RETURNING)
		return false;
	return !READ_ONCE(fn->dirty) || READ_ONCE(fn->lent) || READ_ONCE(fn->broken);
}

/* Whoever gets one of a group has the domain of all: a new lease begins with clean ones only. */
static bool lend_lease_any_dirty(const struct lend_group *group)
{
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->dirty)
			return true;
	return false;
}

/* Group lock. */
static int lend_lease_may_borrow(struct lend_fn *fn, struct dlend_link *link)
{
	struct lend_group *group = fn->group;
	const struct lend_lease *lease = &group->lease;

	if (!dlend_link_is_up(link))
		return -ENOTCONN;
	if (READ_ONCE(lend_lease_asleep))
		return -EAGAIN;
	/* One that joins a group which is lent has its former driver's state until it was reset. */
	if (!fn->ready)
		return -ENODEV;
	if (fn->broken)
		return -EIO;
	if (fn->dirty && !fn->lent)
		return -EAGAIN;
	if (lease->state == DLEND_OFFER_FREE && lend_lease_any_dirty(group))
		return -EAGAIN;
	/* Which functions are for one VM only the holder sees, and by the offers: first these. */
	if (lease->state == DLEND_OFFER_HELD && lease->holder == dlend_link_peer(link) &&
	    !lend_outbox_offers_told(group, link))
		return -EAGAIN;
	return 0;
}

/* A peer may ask as often as it likes, and shall not fill the log with that. */
static void lend_lease_log_refusal(struct lend_fn *fn, u16 node, int ret)
{
	dev_err_ratelimited(&fn->pdev->dev, "cannot be lent to node %u (%d)\n", node, ret);
}

/* Group lock.  0: the lease is the peer's, and lend_lease_borrow_grant() follows. */
static int lend_lease_borrow_step(struct lend_fn *fn, struct dlend_link *link, struct dlend_p_lease *grant,
				  u32 *todo)
{
	struct lend_group *group = fn->group;
	struct lend_event ev = { .type = LEND_EV_BORROW, .node = dlend_link_peer(link),
			       .fn = fn->index };
	int ret = fn->removing ? -ENODEV : lend_lease_may_borrow(fn, link);

	if (ret)
		return ret;
	/* A node with two links is still one node, but a lease lives on one link only. */
	if (group->link && group->link != link && group->lease.state == DLEND_OFFER_HELD)
		ret = -EBUSY;
	else
		ret = lend_group_step(group, &ev, todo);
	grant->holder = cpu_to_le16(group->lease.holder);
	return ret;
}

/* Group lock. */
static int lend_lease_borrow_grant(struct lend_fn *fn, struct dlend_link *link, u32 todo,
				   struct dlend_irq_source *source, struct dlend_msg *reply)
{
	u32 epoch = fn->group->lease.epoch;
	int ret = lend_lease_give(fn, link, todo, source, (void *)reply->payload);

	if (ret) {
		lend_lease_log_refusal(fn, dlend_link_peer(link), ret);
		lend_lease_give_back(fn, dlend_link_peer(link), epoch);
		lend_bars_acked(link, &fn->addr, epoch);
		return ret;
	}
	reply->epoch = cpu_to_le32(epoch);
	return 0;
}

/* Before anything is read of the peer's memory for it. */
static int lend_lease_borrow_check(struct lend_fn *fn, struct dlend_link *link)
{
	guard(mutex)(&fn->group->lock);
	return fn->removing ? -ENODEV : lend_lease_may_borrow(fn, link);
}

static int lend_lease_borrow_now(struct lend_fn *fn, struct dlend_link *link,
				 const struct dlend_p_borrow *want, struct dlend_msg *reply, u32 *epoch)
{
	struct dlend_irq_source *source;
	struct lend_group *group = fn->group;
	u32 todo;
	int ret;

	ret = lend_lease_borrow_check(fn, link);
	if (ret)
		return ret;
	source = lend_irq_source(fn, link, want);
	/* Nothing of the device has been touched: a bad word about the counters costs no reset. */
	if (IS_ERR(source)) {
		lend_lease_log_refusal(fn, dlend_link_peer(link), PTR_ERR(source));
		return PTR_ERR(source);
	}
	mutex_lock(&group->lock);
	ret = lend_lease_borrow_step(fn, link, (void *)reply->payload, &todo);
	if (!ret) {
		ret = lend_lease_borrow_grant(fn, link, todo, source, reply);
		source = NULL;
	}
	*epoch = group->lease.epoch;
	mutex_unlock(&group->lock);
	if (source)
		dlend_irq_source_close(source);
	return ret;
}

/**
 * lend_lease_borrow - a node asks for a function
 * @fn: function
 * @link: link to the borrower
 * @want: its counters
 * @reply: gets the lease's epoch, the offsets of the BARs, and the holder if somebody has it
 *
 * Context: message handler. Return: 0; -EBUSY; -EAGAIN still being reset; -EIO quarantined;
 * -ENODEV its group is not whole; -ENOSPC a BAR does not fit into the window; -ERANGE no counters
 * can be where @want says.
 */
int lend_lease_borrow(struct lend_fn *fn, struct dlend_link *link,
		      const struct dlend_p_borrow *want, struct dlend_msg *reply)
{
	struct lend_group *group = fn->group;
	u32 epoch = 0;
	int ret;

	/* A session that is over shall not wait for who waits in vain. */
	wait_event_timeout(group->wait, lend_lease_settled(fn) || !dlend_link_is_up(link),
			   msecs_to_jiffies(LEND_BORROW_WAIT_MS));
	ret = lend_lease_borrow_now(fn, link, want, reply, &epoch);

	trace_dlend_lease(&fn->addr, "grant", dlend_link_peer(link), epoch, ret);
	if (!ret)
		pci_info(fn->pdev, "lent to node %u, epoch %u\n", dlend_link_peer(link), epoch);
	return ret;
}

/**
 * lend_lease_return - a node gives a function back, or confirms that it has forgotten it
 * @fn: function
 * @link: link to the borrower
 * @epoch: lease that the borrower names
 *
 * The device is fenced when this returns; its reset follows. Context: message handler.
 * Return: 0, also for a lease that is over; -ESTALE never granted, or not to this node.
 */
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

/* Group lock. */
static int lend_lease_take_back(struct lend_group *group, enum lend_event_type type, const char *why)
{
	struct lend_event ev = { .type = type, .node = group->lease.holder };
	u32 todo;
	int ret;

	ret = lend_group_step(group, &ev, &todo);
	if (!(todo & LEND_DO_FENCE))
		return ret;
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++) {
		struct lend_fn *fn = group->fn[i];

		if (!fn || !fn->lent)
			continue;
		trace_dlend_lease(&fn->addr, why, ev.node, group->lease.epoch, 0);
		pci_warn(fn->pdev, "taken from node %u (%s)\n", ev.node, why);
	}
	lend_recover_fence(group);
	return 0;
}

/**
 * lend_lease_revoke - take the group from whoever has it
 * @group: group
 * @why: for log and trace
 *
 * Fenced at return; the reset follows. Return: 0, or -EALREADY if nobody has it.
 */
int lend_lease_revoke(struct lend_group *group, const char *why)
{
	int ret;

	mutex_lock(&group->lock);
	ret = lend_lease_take_back(group, LEND_EV_REVOKE, why);
	mutex_unlock(&group->lock);
	return ret;
}

/**
 * lend_lease_error - a function had an error, and the PCI core has begun to recover it
 * @fn: function
 *
 * Whoever has its group loses it, and is told why. It is not reset, and not lent, before
 * lend_lease_error_over().
 * Context: the PCI core's error handlers, device lock held.
 */
void lend_lease_error(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	mutex_lock(&group->lock);
	/* Also one that nobody had: the core may reset it while the next one borrows. */
	fn->dirty = true;
	WRITE_ONCE(fn->errors, fn->errors + 1);
	WRITE_ONCE(fn->error_until, jiffies + msecs_to_jiffies(LEND_ERROR_PATIENCE_MS) ?: 1);
	if (fn->lent) {
		WRITE_ONCE(fn->error_epoch, group->lease.epoch);
		lend_outbox_tell(fn, LEND_TELL_ERROR);
	}
	lend_lease_take_back(group, LEND_EV_REVOKE, "pci_error");
	lend_recover_later(group, 0);
	mutex_unlock(&group->lock);
}

/**
 * lend_lease_error_over - the PCI core has recovered a function, or has given up
 * @fn: function
 *
 * Our own reset follows, and decides whether it is lent again. Nothing is done for one that had
 * no error. Context: as lend_lease_error().
 */
void lend_lease_error_over(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	mutex_lock(&group->lock);
	if (!fn->error_until)
		goto unlock;
	WRITE_ONCE(fn->error_until, 0);
	/* A reset of ours that came too early says nothing about one that comes now. */
	if (!group->lease.failed)
		fn->broken = false;
	trace_dlend_fence(&fn->addr, "error_over", group->lease.epoch);
	lend_recover_later(group, 0);
unlock:
	mutex_unlock(&group->lock);
}

/**
 * lend_lease_link_lost - fence everything that was lent over @link
 * @link: is down
 *
 * Waits for no group that another node has, whose requests may keep that group's lock for long.
 * To look at its link without the lock is enough: only a message handler of @link makes it that
 * one, and while such a handler runs this is called once more after it (struct dlend_link_user).
 * Context: process; quick.
 */
void lend_lease_link_lost(struct dlend_link *link)
{
	struct lend_group *group;

	mutex_lock(&lend_registry_lock);
	list_for_each_entry(group, &lend_registry_groups, node) {
		/* A BORROW of this session, of whatever group, waits no longer. */
		wake_up_all(&group->wait);
		if (READ_ONCE(group->link) != link)
			continue;
		mutex_lock(&group->lock);
		if (group->link == link)
			lend_lease_take_back(group, LEND_EV_LINK_LOST, "link_lost");
		mutex_unlock(&group->lock);
	}
	mutex_unlock(&lend_registry_lock);
	lend_bars_link_lost(link);
}

/* What keeps the host awake.  Group lock. */
static int lend_lease_keeps_awake(struct lend_group *group)
{
	const struct lend_lease *lease = &group->lease;
	bool held = lease->state == DLEND_OFFER_HELD;

	if (!held && !lease->fencing)
		return 0;
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++) {
		struct lend_fn *fn = group->fn[i];

		if (fn && fn->lent)
			pci_warn(fn->pdev, "this host does not suspend: node %u uses the device, and its guest would lose it; shut that guest down, or take the device back with \"dlend reclaim %s\", and suspend then\n",
				 lease->holder, pci_name(fn->pdev));
		else if (fn && fn->dirty)
			pci_warn(fn->pdev, "this host does not suspend: the device is being reset; suspend again in some seconds\n");
	}
	return -EBUSY;
}

/** lend_lease_suspend - the host goes to sleep, if nobody has a device of it. Return: 0, -EBUSY */
int lend_lease_suspend(void)
{
	struct lend_group *group;
	int ret = 0;

	/* First, so that whoever comes to borrow under a group's lock after us sees it. */
	WRITE_ONCE(lend_lease_asleep, true);
	mutex_lock(&lend_registry_lock);
	list_for_each_entry(group, &lend_registry_groups, node) {
		mutex_lock(&group->lock);
		if (lend_lease_keeps_awake(group))
			ret = -EBUSY;
		mutex_unlock(&group->lock);
	}
	mutex_unlock(&lend_registry_lock);
	return ret;
}

/** lend_lease_resume - devices can be borrowed again */
void lend_lease_resume(void)
{
	WRITE_ONCE(lend_lease_asleep, false);
}

/**
 * lend_lease_shutdown - the host goes down: nothing is lent any more
 *
 * The host turns its IOMMUs off on the way: a device that another node's guest has must do no DMA
 * by then. Context: may sleep.
 */
void lend_lease_shutdown(void)
{
	struct lend_group *group;

	/* First, as for lend_lease_suspend(). */
	WRITE_ONCE(lend_lease_asleep, true);
	mutex_lock(&lend_registry_lock);
	list_for_each_entry(group, &lend_registry_groups, node)
		lend_lease_revoke(group, "shutdown");
	mutex_unlock(&lend_registry_lock);
}

/**
 * lend_lease_enter - begin to act for a borrower
 * @fn: function
 * @link: link to the borrower
 * @epoch: that the borrower names
 *
 * Return: 0: the peer of @link has the lease, and the group's lock is held until lend_lease_exit();
 * -ESTALE: it has not.
 */
int lend_lease_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	struct lend_group *group = fn->group;
	int ret;

	mutex_lock(&group->lock);
	ret = lend_lease_check(&group->lease, dlend_link_peer(link), epoch, fn->index);
	if (ret || group->link != link || fn->removing) {
		mutex_unlock(&group->lock);
		return -ESTALE;
	}
	return 0;
}

void lend_lease_exit(struct lend_fn *fn)
{
	mutex_unlock(&fn->group->lock);
}
