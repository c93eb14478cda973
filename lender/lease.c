// SPDX-License-Identifier: GPL-2.0
/*
 * Groups and their leases: every change of a lease goes through here, as an event of the state
 * machine in lease_sm.c and what it then says is to be done.
 *
 * Locks, in the order in which they are taken:
 *
 *   device lock of a function	held by the driver core around probe, remove and error handlers.
 *				Nobody below may wait for it: dl_reset() only tries, with an end.
 *   dl_state_lock		(offer.c) the announcer reads a function's state.
 *   dl_group.reset_lock	resets of a group, seconds.  Never taken by whoever fences.
 *   dl_registry_lock		which groups and functions there are.
 *   dl_group.lock		lease, domain, BARs, interrupts of a group.  Held for as long as
 *				IOMMU work takes, never over a reset or a message.
 *   dl_closed_lock		(bars.c) offsets in quarantine.
 *   dl_p2p_lock		(p2p.c) who reaches whose BARs; never two groups' locks for that.
 *   dl_listeners_lock		(offer.c) what is still to be said; spins.
 *   dl_irqs.lock		INTx masked or not; hard interrupt.
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
#define DL_BORROW_WAIT_MS	3000
#define DL_RECOVER_AGAIN_MS	500

/* The PCI core gets so long to recover a function from an error: that it cannot it tells nobody. */
#define DL_ERROR_PATIENCE_MS	60000

/* 2025-01-01: epochs are 32 bits and shall not repeat when the module is loaded again. */
#define DL_EPOCH_ORIGIN		1735689600

struct workqueue_struct *dl_wq;

static DEFINE_MUTEX(dl_registry_lock);
static LIST_HEAD(dl_groups);
static LIST_HEAD(dl_fns);
static u32 dl_epoch_floor;		/* registry lock: above every epoch of dead groups */
static bool dl_asleep;			/* the host goes to sleep, or down: nothing is lent */

static void dl_recover_work(struct work_struct *work);

static void dl_group_release(struct kref *ref)
{
	kfree(container_of(ref, struct dl_group, ref));
}

static void dl_group_put(struct dl_group *group)
{
	kref_put(&group->ref, dl_group_release);
}

static void dl_fn_release(struct kref *ref)
{
	struct dl_fn *fn = container_of(ref, struct dl_fn, ref);

	if (fn->group)
		dl_group_put(fn->group);
	kfree(fn->saved);
	dl_rom_free(fn);
	pci_dev_put(fn->pdev);
	kfree(fn);
}

void dl_fn_put(struct dl_fn *fn)
{
	kref_put(&fn->ref, dl_fn_release);
}

/** dl_fn_find - a function by its fabric-wide address; dl_fn_put() it. NULL if not bound here */
struct dl_fn *dl_fn_find(const struct dlend_addr *addr)
{
	struct dl_fn *fn, *found = NULL;

	mutex_lock(&dl_registry_lock);
	list_for_each_entry(fn, &dl_fns, node) {
		if (fn->addr.lender != addr->lender || fn->addr.bdf != addr->bdf)
			continue;
		kref_get(&fn->ref);
		found = fn;
		break;
	}
	mutex_unlock(&dl_registry_lock);
	return found;
}

/** dl_fn_all - every function, referenced; kfree() the array. NULL: none */
struct dl_fn **dl_fn_all(unsigned int *count)
{
	struct dl_fn *fn, **all;
	unsigned int n = 0;

	mutex_lock(&dl_registry_lock);
	all = kcalloc(list_count_nodes(&dl_fns), sizeof(*all), GFP_KERNEL | __GFP_NOFAIL);
	if (!ZERO_OR_NULL_PTR(all)) {
		list_for_each_entry(fn, &dl_fns, node) {
			kref_get(&fn->ref);
			all[n++] = fn;
		}
	}
	mutex_unlock(&dl_registry_lock);
	*count = n;
	return n ? all : NULL;
}

static struct dl_group *dl_group_find(int id)
{
	struct dl_group *group;

	list_for_each_entry(group, &dl_groups, node)
		if (group->id == id)
			return group;
	return NULL;
}

static u32 dl_first_epoch(void)
{
	return dl_epoch_first(dl_epoch_floor, ktime_get_real_seconds() - DL_EPOCH_ORIGIN);
}

static struct dl_group *dl_group_new(int id, const struct dl_census *census)
{
	struct dl_group *group = kzalloc_obj(*group);

	if (!group)
		return NULL;
	kref_init(&group->ref);
	group->id = id;
	group->members = census->members;
	mutex_init(&group->reset_lock);
	mutex_init(&group->lock);
	INIT_DELAYED_WORK(&group->recover, dl_recover_work);
	init_waitqueue_head(&group->wait);
	dl_lease_init(&group->lease, dl_first_epoch());
	list_add_tail(&group->node, &dl_groups);
	return group;
}

static int dl_group_add(struct dl_group *group, struct dl_fn *fn)
{
	for (unsigned int i = 0; i < DL_GROUP_MAX; i++) {
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
 * dl_group_join - a function is being bound: it can be found from now on
 * @fn: function
 * @id: of its IOMMU group
 * @census: of that group, for the first one of it; the others count again when they are ready
 *
 * Return: 0; -EEXIST the address is taken; -ENOSPC more functions than a lease can hold; -ENOMEM.
 */
int dl_group_join(struct dl_fn *fn, int id, const struct dl_census *census)
{
	struct dl_group *group;
	struct dl_fn *other;
	int ret = 0;

	mutex_lock(&dl_registry_lock);
	list_for_each_entry(other, &dl_fns, node)
		if (other->addr.bdf == fn->addr.bdf)
			ret = -EEXIST;
	group = dl_group_find(id);
	if (!ret && !group)
		group = dl_group_new(id, census);
	if (!ret && !group)
		ret = -ENOMEM;
	if (!ret) {
		mutex_lock(&group->lock);
		ret = dl_group_add(group, fn);
		mutex_unlock(&group->lock);
	}
	if (!ret)
		list_add_tail(&fn->node, &dl_fns);
	mutex_unlock(&dl_registry_lock);
	return ret;
}

/* One event; what it means to other nodes is said by the announcer, later.  Group lock. */
static int dl_step(struct dl_group *group, const struct dl_event *ev, u32 *todo)
{
	int ret = dl_lease_step(&group->lease, ev, todo);

	if (*todo & DL_DO_TELL)
		dl_tell_group(group);
	wake_up_all(&group->wait);
	return ret;
}

/*
 * By name, not by address in this host, which another PCI domain may have, too: dl_group_join()
 * sees to it that no name is there twice.  Group lock.
 */
static u16 dl_group_number(const struct dl_group *group)
{
	u16 number = U16_MAX;

	for (unsigned int i = 0; i < DL_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->ready)
			number = min(number, group->fn[i]->addr.bdf);
	return number;
}

/*
 * Who is in the group may have changed.  Peers know by its number that functions are in one group,
 * so all of its offers get the new one, and nowhere else does it change.  Group lock.
 */
static void dl_recount(struct dl_group *group)
{
	u16 number = dl_group_number(group);
	struct dl_census census = { };
	struct iommu_group *iommu;

	for (unsigned int i = 0; i < DL_GROUP_MAX && !census.members; i++) {
		/* Bound, so that it is in its group. */
		iommu = group->fn[i] ? iommu_group_get(&group->fn[i]->pdev->dev) : NULL;
		if (iommu)
			dl_census(iommu, &census);
		iommu_group_put(iommu);
	}
	if (!census.members || (census.members == group->members && number == group->number))
		return;
	group->members = census.members;
	group->number = number;
	for (unsigned int i = 0; i < DL_GROUP_MAX; i++)
		if (group->fn[i])
			dl_tell(group->fn[i], DL_TELL_OFFER);
}

/* Group lock. */
static bool dl_any_broken(const struct dl_group *group)
{
	for (unsigned int i = 0; i < DL_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->broken)
			return true;
	return false;
}

/* It can be borrowed if all of its functions were reset, and only then.  Group lock. */
static void dl_try_offer(struct dl_group *group)
{
	struct dl_event ev = { .type = DL_EV_INCOMPLETE };
	u32 todo;

	/* What a lease is of does not change under it: its end looks again. */
	if (group->lease.state == DLEND_OFFER_HELD || group->lease.fencing)
		return;
	dl_recount(group);
	if (group->ready && group->ready == group->members)
		ev.type = dl_any_broken(group) ? DL_EV_BROKEN : DL_EV_OFFER;
	dl_step(group, &ev, &todo);
}

static void dl_census_all(struct work_struct *work)
{
	struct dl_group *group;

	mutex_lock(&dl_registry_lock);
	list_for_each_entry(group, &dl_groups, node) {
		mutex_lock(&group->lock);
		dl_try_offer(group);
		mutex_unlock(&group->lock);
	}
	mutex_unlock(&dl_registry_lock);
}

static DECLARE_WORK(dl_census_work, dl_census_all);

/** dl_groups_changed - functions came to IOMMU groups, or left them. Any process context. */
void dl_groups_changed(void)
{
	queue_work(dl_wq, &dl_census_work);
}

/** dl_groups_exit - dl_groups_changed() is not called any more */
void dl_groups_exit(void)
{
	cancel_work_sync(&dl_census_work);
}

/** dl_group_ready - a function was reset: if its group is whole now it can be borrowed */
void dl_group_ready(struct dl_fn *fn)
{
	struct dl_group *group = fn->group;

	mutex_lock(&group->lock);
	fn->ready = true;
	group->ready++;
	dl_try_offer(group);
	mutex_unlock(&group->lock);
	dl_tell(fn, DL_TELL_OFFER);
}

void dl_lease_snapshot(struct dl_group *group, struct dl_lease *lease)
{
	mutex_lock(&group->lock);
	*lease = group->lease;
	mutex_unlock(&group->lock);
}

static void dl_recover_later(struct dl_group *group, unsigned int ms)
{
	kref_get(&group->ref);
	if (!queue_delayed_work(dl_wq, &group->recover, msecs_to_jiffies(ms)))
		dl_group_put(group);
}

/* After the machine said DL_DO_FENCE.  Group lock; quick. */
static void dl_fence(struct dl_group *group)
{
	dl_fence_group(group);
	dl_recover_later(group, 0);
}

/* The lease's domain and link are given up once nothing old can come out of the device. */
static void dl_drop_domain(struct dl_group *group)
{
	if (group->domain)
		dlend_domain_destroy(group->domain);
	group->domain = NULL;
	if (group->link)
		dlend_link_put(group->link);
	WRITE_ONCE(group->link, NULL);
}

/* With a lease's end that fails no later reset helps: see lease_sm.c.  Group lock. */
static void dl_reset_failed(const struct dl_fn *fn, int ret)
{
	const struct dl_lease *lease = &fn->group->lease;

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
static void dl_recovered(struct dl_fn *fn, int ret)
{
	/* Nothing was done: whatever is known of it still holds. */
	if (ret == -EAGAIN)
		return;
	fn->dirty = ret != 0;
	fn->broken = ret != 0;
	if (ret) {
		dl_reset_failed(fn, ret);
		dl_try_offer(fn->group);
		return;
	}
	/* An older core does not say that it has given up, and each leaves the state then. */
	WRITE_ONCE(fn->error_until, 0);
	if (fn->pdev->error_state == pci_channel_io_frozen)
		fn->pdev->error_state = pci_channel_io_normal;
	dl_bars_reset_done(fn);
	dl_try_offer(fn->group);
}

/* All functions of an ended lease were dealt with.  Group lock. */
static void dl_fence_done(struct dl_group *group, bool ok)
{
	struct dl_event ev = {
		.type = ok ? DL_EV_FENCED : DL_EV_FENCE_FAILED,
		.epoch = group->lease.epoch,
	};
	u32 todo;

	dl_drop_domain(group);
	dl_step(group, &ev, &todo);
	dl_try_offer(group);
}

/* A reset in the middle of that, or a new lease, would meet the core's own reset. */
static bool dl_in_error(const struct dl_fn *fn)
{
	unsigned long until = READ_ONCE(fn->error_until);

	return until && time_before(jiffies, until) && !READ_ONCE(fn->removing);
}

/* The next function that was lent and is not any more; its reference is the caller's. */
static struct dl_fn *dl_next_dirty(struct dl_group *group, unsigned int *i)
{
	struct dl_fn *fn = NULL;

	mutex_lock(&group->lock);
	for (; *i < DL_GROUP_MAX && !fn; (*i)++) {
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
static int dl_recover_fn(struct dl_fn *fn, bool locked)
{
	u32 errors = READ_ONCE(fn->errors);
	int ret = dl_in_error(fn) ? -EAGAIN : dl_reset(fn, "return", locked);

	mutex_lock(&fn->group->lock);
	/* An error that came after our reset, or during it: the core may reset it once more. */
	if (!ret && fn->errors != errors)
		ret = -EAGAIN;
	dl_recovered(fn, ret);
	mutex_unlock(&fn->group->lock);
	return ret;
}

/**
 * dl_recover - reset what was lent, and offer it again
 * @group: group
 * @self: its device lock is held by the caller (remove), or NULL
 *
 * Context: may take seconds. Return: true if a function must be tried again later.
 */
static bool dl_recover(struct dl_group *group, struct dl_fn *self)
{
	bool again = false, ok = true;
	unsigned int i = 0;
	struct dl_lease lease;
	struct dl_fn *fn;
	int ret;

	mutex_lock(&group->reset_lock);
	/* A lease that ends while we are at it gets a run of its own: see dl_fence(). */
	dl_lease_snapshot(group, &lease);
	while ((fn = dl_next_dirty(group, &i))) {
		ret = dl_recover_fn(fn, fn == self);
		ok &= !ret;
		again |= ret == -EAGAIN;
		dl_fn_put(fn);
	}
	mutex_lock(&group->lock);
	if (!again && lease.fencing)
		dl_fence_done(group, ok);
	wake_up_all(&group->wait);
	mutex_unlock(&group->lock);
	mutex_unlock(&group->reset_lock);
	return again;
}

static void dl_recover_work(struct work_struct *work)
{
	struct dl_group *group = container_of(to_delayed_work(work), struct dl_group, recover);

	if (dl_recover(group, NULL))
		dl_recover_later(group, DL_RECOVER_AGAIN_MS);
	dl_group_put(group);
}

/*
 * Take a function out of the registry, and look after the others in @ms.  Return: true if it was
 * the last one of its group.
 */
static bool dl_group_forget(struct dl_fn *fn, unsigned int ms)
{
	struct dl_group *group = fn->group;
	bool last;

	mutex_lock(&dl_registry_lock);
	mutex_lock(&group->lock);
	group->fn[fn->index] = NULL;
	list_del(&fn->node);
	last = !memchr_inv(group->fn, 0, sizeof(group->fn));
	if (last) {
		if (dlend_epoch_after(group->lease.epoch, dl_epoch_floor) || !dl_epoch_floor)
			dl_epoch_floor = group->lease.epoch;
		list_del(&group->node);
		dl_drop_domain(group);
	} else {
		/* Its name may be another group's soon. */
		dl_try_offer(group);
		/* In the lock: one that leaves later, and is the last one, cancels it. */
		dl_recover_later(group, ms);
	}
	mutex_unlock(&group->lock);
	mutex_unlock(&dl_registry_lock);
	return last;
}

static void dl_recover_cancel(struct dl_group *group)
{
	if (cancel_delayed_work_sync(&group->recover))
		dl_group_put(group);
}

/**
 * dl_group_leave - a function is being unbound: nobody finds it any more
 * @fn: function
 *
 * Whoever has the group loses it now; the function is fenced and reset when this returns.
 * Context: remove or failed probe, device lock held.
 */
void dl_group_leave(struct dl_fn *fn)
{
	struct dl_group *group = fn->group;
	struct dl_event ev = { .type = DL_EV_UNBIND };
	u32 todo = 0;
	bool again;

	WRITE_ONCE(fn->removing, true);
	mutex_lock(&group->lock);
	group->ready -= fn->ready;
	/* One that never became ready takes nothing from whoever has the others. */
	if (fn->ready)
		dl_step(group, &ev, &todo);
	fn->ready = false;
	if (todo & DL_DO_FENCE) {
		pci_warn(fn->pdev, "unbound while node %u had it: fenced, its guest loses the device\n",
			 group->lease.holder);
		trace_dlend_lease(&fn->addr, "unbind", group->lease.holder, group->lease.epoch, 0);
		dl_fence(group);
	}
	mutex_unlock(&group->lock);

	again = dl_recover(group, fn);
	dl_recover_cancel(group);
	/* What was cancelled may have been about another function: then it is queued again. */
	if (!dl_group_forget(fn, again ? DL_RECOVER_AGAIN_MS : 0))
		return;
	/*
	 * Nothing of the group may run once its last function is gone: the module may follow.  One
	 * that left at the same time may have queued it since.
	 */
	dl_recover_cancel(group);
	dl_group_put(group);	/* the registry's; the function has its own */
}

/* Domain for the first function of a lease.  Group lock. */
static int dl_grant_domain(struct dl_fn *fn, struct dlend_link *link)
{
	struct dl_group *group = fn->group;
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
static int dl_grant(struct dl_fn *fn, struct dlend_link *link, u32 todo,
		    struct dlend_irq_source *source, struct dlend_p_lease *grant)
{
	int ret = 0;

	fn->lent = true;
	fn->dirty = true;
	dl_irq_open(fn, source);
	if (todo & DL_DO_GRANT)
		ret = dl_grant_domain(fn, link);
	if (!ret)
		ret = dl_bars_map(fn, link, fn->group->lease.epoch, grant->bar_offset);
	if (!ret && fn->hidden)
		dl_bars_hide(fn);
	else if (!ret)
		dl_p2p_open(fn, link, fn->group->lease.epoch);
	return ret;
}

/* One function is given back, as by its holder.  Group lock. */
static int dl_give_back(struct dl_fn *fn, u16 node, u32 epoch)
{
	struct dl_event ev = { .type = DL_EV_RETURN, .node = node, .epoch = epoch,
			       .fn = fn->index };
	struct dl_group *group = fn->group;
	u32 todo;
	int ret;

	ret = dl_step(group, &ev, &todo);
	if (todo & DL_DO_FENCE) {
		dl_fence(group);
	} else if (todo & DL_DO_LEAVE) {
		dl_fence_fn(fn);
		dl_recover_later(group, 0);
	}
	return ret;
}

static bool dl_settled(struct dl_fn *fn)
{
	if (READ_ONCE(fn->group->lease.state) == DLEND_OFFER_RETURNING)
		return false;
	return !READ_ONCE(fn->dirty) || READ_ONCE(fn->lent) || READ_ONCE(fn->broken);
}

/* Whoever gets one of a group has the domain of all: a new lease begins with clean ones only. */
static bool dl_any_dirty(const struct dl_group *group)
{
	for (unsigned int i = 0; i < DL_GROUP_MAX; i++)
		if (group->fn[i] && group->fn[i]->dirty)
			return true;
	return false;
}

/* Group lock. */
static int dl_may_borrow(struct dl_fn *fn, struct dlend_link *link)
{
	struct dl_group *group = fn->group;
	const struct dl_lease *lease = &group->lease;

	if (!dlend_link_is_up(link))
		return -ENOTCONN;
	if (READ_ONCE(dl_asleep))
		return -EAGAIN;
	/* One that joins a group which is lent has its former driver's state until it was reset. */
	if (!fn->ready)
		return -ENODEV;
	if (fn->broken)
		return -EIO;
	if (fn->dirty && !fn->lent)
		return -EAGAIN;
	if (lease->state == DLEND_OFFER_FREE && dl_any_dirty(group))
		return -EAGAIN;
	/* Which functions are for one VM only the holder sees, and by the offers: first these. */
	if (lease->state == DLEND_OFFER_HELD && lease->holder == dlend_link_peer(link) &&
	    !dl_offers_told(group, link))
		return -EAGAIN;
	return 0;
}

/* A peer may ask as often as it likes, and shall not fill the log with that. */
static void dl_cannot_lend(struct dl_fn *fn, u16 node, int ret)
{
	dev_err_ratelimited(&fn->pdev->dev, "cannot be lent to node %u (%d)\n", node, ret);
}

/* Group lock.  0: the lease is the peer's, and dl_borrow_grant() follows. */
static int dl_borrow_step(struct dl_fn *fn, struct dlend_link *link, struct dlend_p_lease *grant,
			  u32 *todo)
{
	struct dl_group *group = fn->group;
	struct dl_event ev = { .type = DL_EV_BORROW, .node = dlend_link_peer(link),
			       .fn = fn->index };
	int ret = fn->removing ? -ENODEV : dl_may_borrow(fn, link);

	if (ret)
		return ret;
	/* A node with two links is still one node, but a lease lives on one link only. */
	if (group->link && group->link != link && group->lease.state == DLEND_OFFER_HELD)
		ret = -EBUSY;
	else
		ret = dl_step(group, &ev, todo);
	grant->holder = cpu_to_le16(group->lease.holder);
	return ret;
}

/* Group lock. */
static int dl_borrow_grant(struct dl_fn *fn, struct dlend_link *link, u32 todo,
			   struct dlend_irq_source *source, struct dlend_msg *reply)
{
	u32 epoch = fn->group->lease.epoch;
	int ret = dl_grant(fn, link, todo, source, (void *)reply->payload);

	if (ret) {
		dl_cannot_lend(fn, dlend_link_peer(link), ret);
		dl_give_back(fn, dlend_link_peer(link), epoch);
		dl_bars_acked(link, &fn->addr, epoch);
		return ret;
	}
	reply->epoch = cpu_to_le32(epoch);
	return 0;
}

/* Before anything is read of the peer's memory for it. */
static int dl_borrow_check(struct dl_fn *fn, struct dlend_link *link)
{
	guard(mutex)(&fn->group->lock);
	return fn->removing ? -ENODEV : dl_may_borrow(fn, link);
}

static int dl_borrow(struct dl_fn *fn, struct dlend_link *link,
		     const struct dlend_p_borrow *want, struct dlend_msg *reply, u32 *epoch)
{
	struct dlend_irq_source *source;
	struct dl_group *group = fn->group;
	u32 todo;
	int ret;

	ret = dl_borrow_check(fn, link);
	if (ret)
		return ret;
	source = dl_irq_source(fn, link, want);
	/* Nothing of the device has been touched: a bad word about the counters costs no reset. */
	if (IS_ERR(source)) {
		dl_cannot_lend(fn, dlend_link_peer(link), PTR_ERR(source));
		return PTR_ERR(source);
	}
	mutex_lock(&group->lock);
	ret = dl_borrow_step(fn, link, (void *)reply->payload, &todo);
	if (!ret) {
		ret = dl_borrow_grant(fn, link, todo, source, reply);
		source = NULL;
	}
	*epoch = group->lease.epoch;
	mutex_unlock(&group->lock);
	if (source)
		dlend_irq_source_close(source);
	return ret;
}

/**
 * dl_lease_borrow - a node asks for a function
 * @fn: function
 * @link: link to the borrower
 * @want: its counters
 * @reply: gets the lease's epoch, the offsets of the BARs, and the holder if somebody has it
 *
 * Context: message handler. Return: 0; -EBUSY; -EAGAIN still being reset; -EIO quarantined;
 * -ENODEV its group is not whole; -ENOSPC a BAR does not fit into the window; -ERANGE no counters
 * can be where @want says.
 */
int dl_lease_borrow(struct dl_fn *fn, struct dlend_link *link,
		    const struct dlend_p_borrow *want, struct dlend_msg *reply)
{
	struct dl_group *group = fn->group;
	u32 epoch = 0;
	int ret;

	/* A session that is over shall not wait for who waits in vain. */
	wait_event_timeout(group->wait, dl_settled(fn) || !dlend_link_is_up(link),
			   msecs_to_jiffies(DL_BORROW_WAIT_MS));
	ret = dl_borrow(fn, link, want, reply, &epoch);

	trace_dlend_lease(&fn->addr, "grant", dlend_link_peer(link), epoch, ret);
	if (!ret)
		pci_info(fn->pdev, "lent to node %u, epoch %u\n", dlend_link_peer(link), epoch);
	return ret;
}

/**
 * dl_lease_return - a node gives a function back, or confirms that it has forgotten it
 * @fn: function
 * @link: link to the borrower
 * @epoch: lease that the borrower names
 *
 * The device is fenced when this returns; its reset follows. Context: message handler.
 * Return: 0, also for a lease that is over; -ESTALE never granted, or not to this node.
 */
int dl_lease_return(struct dl_fn *fn, struct dlend_link *link, u32 epoch)
{
	struct dl_group *group = fn->group;
	int ret = -ESTALE;

	mutex_lock(&group->lock);
	if (group->lease.state != DLEND_OFFER_HELD || group->link == link ||
	    group->lease.epoch != epoch)
		ret = dl_give_back(fn, dlend_link_peer(link), epoch);
	mutex_unlock(&group->lock);

	trace_dlend_lease(&fn->addr, "return", dlend_link_peer(link), epoch, ret);
	if (ret == -EALREADY)
		ret = 0;
	if (!ret)
		dl_bars_acked(link, &fn->addr, epoch);
	return ret;
}

/* Group lock. */
static int dl_revoke_locked(struct dl_group *group, enum dl_event_type type, const char *why)
{
	struct dl_event ev = { .type = type, .node = group->lease.holder };
	u32 todo;
	int ret;

	ret = dl_step(group, &ev, &todo);
	if (!(todo & DL_DO_FENCE))
		return ret;
	for (unsigned int i = 0; i < DL_GROUP_MAX; i++) {
		struct dl_fn *fn = group->fn[i];

		if (!fn || !fn->lent)
			continue;
		trace_dlend_lease(&fn->addr, why, ev.node, group->lease.epoch, 0);
		pci_warn(fn->pdev, "taken from node %u (%s)\n", ev.node, why);
	}
	dl_fence(group);
	return 0;
}

/**
 * dl_lease_revoke - take the group from whoever has it
 * @group: group
 * @why: for log and trace
 *
 * Fenced at return; the reset follows. Return: 0, or -EALREADY if nobody has it.
 */
int dl_lease_revoke(struct dl_group *group, const char *why)
{
	int ret;

	mutex_lock(&group->lock);
	ret = dl_revoke_locked(group, DL_EV_REVOKE, why);
	mutex_unlock(&group->lock);
	return ret;
}

/**
 * dl_lease_error - a function had an error, and the PCI core has begun to recover it
 * @fn: function
 *
 * Whoever has its group loses it, and is told why. It is not reset, and not lent, before
 * dl_lease_error_over().
 * Context: the PCI core's error handlers, device lock held.
 */
void dl_lease_error(struct dl_fn *fn)
{
	struct dl_group *group = fn->group;

	mutex_lock(&group->lock);
	/* Also one that nobody had: the core may reset it while the next one borrows. */
	fn->dirty = true;
	WRITE_ONCE(fn->errors, fn->errors + 1);
	WRITE_ONCE(fn->error_until, jiffies + msecs_to_jiffies(DL_ERROR_PATIENCE_MS) ?: 1);
	if (fn->lent) {
		WRITE_ONCE(fn->error_epoch, group->lease.epoch);
		dl_tell(fn, DL_TELL_ERROR);
	}
	dl_revoke_locked(group, DL_EV_REVOKE, "pci_error");
	dl_recover_later(group, 0);
	mutex_unlock(&group->lock);
}

/**
 * dl_lease_error_over - the PCI core has recovered a function, or has given up
 * @fn: function
 *
 * Our own reset follows, and decides whether it is lent again. Nothing is done for one that had
 * no error. Context: as dl_lease_error().
 */
void dl_lease_error_over(struct dl_fn *fn)
{
	struct dl_group *group = fn->group;

	mutex_lock(&group->lock);
	if (!fn->error_until)
		goto unlock;
	WRITE_ONCE(fn->error_until, 0);
	/* A reset of ours that came too early says nothing about one that comes now. */
	if (!group->lease.failed)
		fn->broken = false;
	trace_dlend_fence(&fn->addr, "error_over", group->lease.epoch);
	dl_recover_later(group, 0);
unlock:
	mutex_unlock(&group->lock);
}

/**
 * dl_lease_link_lost - fence everything that was lent over @link
 * @link: is down
 *
 * Waits for no group that another node has, whose requests may keep that group's lock for long.
 * To look at its link without the lock is enough: only a message handler of @link makes it that
 * one, and while such a handler runs this is called once more after it (struct dlend_link_user).
 * Context: process; quick.
 */
void dl_lease_link_lost(struct dlend_link *link)
{
	struct dl_group *group;

	mutex_lock(&dl_registry_lock);
	list_for_each_entry(group, &dl_groups, node) {
		/* A BORROW of this session, of whatever group, waits no longer. */
		wake_up_all(&group->wait);
		if (READ_ONCE(group->link) != link)
			continue;
		mutex_lock(&group->lock);
		if (group->link == link)
			dl_revoke_locked(group, DL_EV_LINK_LOST, "link_lost");
		mutex_unlock(&group->lock);
	}
	mutex_unlock(&dl_registry_lock);
	dl_bars_link_lost(link);
}

/* What keeps the host awake.  Group lock. */
static int dl_needed(struct dl_group *group)
{
	const struct dl_lease *lease = &group->lease;
	bool held = lease->state == DLEND_OFFER_HELD;

	if (!held && !lease->fencing)
		return 0;
	for (unsigned int i = 0; i < DL_GROUP_MAX; i++) {
		struct dl_fn *fn = group->fn[i];

		if (fn && fn->lent)
			pci_warn(fn->pdev, "this host does not suspend: node %u uses the device, and its guest would lose it; shut that guest down, or take the device back with \"dlend reclaim %s\", and suspend then\n",
				 lease->holder, pci_name(fn->pdev));
		else if (fn && fn->dirty)
			pci_warn(fn->pdev, "this host does not suspend: the device is being reset; suspend again in some seconds\n");
	}
	return -EBUSY;
}

/** dl_lease_suspend - the host goes to sleep, if nobody has a device of it. Return: 0, -EBUSY */
int dl_lease_suspend(void)
{
	struct dl_group *group;
	int ret = 0;

	/* First, so that whoever comes to borrow under a group's lock after us sees it. */
	WRITE_ONCE(dl_asleep, true);
	mutex_lock(&dl_registry_lock);
	list_for_each_entry(group, &dl_groups, node) {
		mutex_lock(&group->lock);
		if (dl_needed(group))
			ret = -EBUSY;
		mutex_unlock(&group->lock);
	}
	mutex_unlock(&dl_registry_lock);
	return ret;
}

/** dl_lease_resume - devices can be borrowed again */
void dl_lease_resume(void)
{
	WRITE_ONCE(dl_asleep, false);
}

/**
 * dl_lease_shutdown - the host goes down: nothing is lent any more
 *
 * The host turns its IOMMUs off on the way: a device that another node's guest has must do no DMA
 * by then. Context: may sleep.
 */
void dl_lease_shutdown(void)
{
	struct dl_group *group;

	/* First, as for dl_lease_suspend(). */
	WRITE_ONCE(dl_asleep, true);
	mutex_lock(&dl_registry_lock);
	list_for_each_entry(group, &dl_groups, node)
		dl_lease_revoke(group, "shutdown");
	mutex_unlock(&dl_registry_lock);
}

/**
 * dl_lease_enter - begin to act for a borrower
 * @fn: function
 * @link: link to the borrower
 * @epoch: that the borrower names
 *
 * Return: 0: the peer of @link has the lease, and the group's lock is held until dl_lease_exit();
 * -ESTALE: it has not.
 */
int dl_lease_enter(struct dl_fn *fn, struct dlend_link *link, u32 epoch)
{
	struct dl_group *group = fn->group;
	int ret;

	mutex_lock(&group->lock);
	ret = dl_lease_check(&group->lease, dlend_link_peer(link), epoch, fn->index);
	if (ret || group->link != link || fn->removing) {
		mutex_unlock(&group->lock);
		return -ESTALE;
	}
	return 0;
}

void dl_lease_exit(struct dl_fn *fn)
{
	mutex_unlock(&fn->group->lock);
}
