// SPDX-License-Identifier: GPL-2.0
/*
 * Life of an offer: its device appears on the bus when its snapshot is complete, stays there while
 * its link is down, and goes when its lender has withdrawn it and nobody claims it.
 *
 * Adding and removing a device sleeps on sysfs, and removing may wait for programs.  So one ordered
 * workqueue does both, and calls the users of offers (struct dlend_offer_user), too.  Must not know
 * how offers arrive.
 */
#include <linux/slab.h>
#include <dlend/compat.h>
#include <dlend/link.h>
#include <dlend/names.h>
#include "bus.h"
#include "offer_life.h"

static struct workqueue_struct *dlend_offers_wq;	/* ordered */
static LIST_HEAD(dlend_offer_users);		/* only on that workqueue */

static void dlend_offer_release_dev(struct device *dev)
{
	struct dlend_offer *offer = to_dlend_offer(dev);

	if (offer->link)
		dlend_link_put(offer->link);
	if (offer->ask)
		dlend_link_put(offer->ask);
	kfree(offer->snapshot);
	kfree(offer->next_snapshot);
	dlend_offer_free_memory(offer);
	kfree(offer);
}

/* The users before @until (NULL: all of them) forget the offer. */
static void dlend_offer_vanish(struct dlend_offer *offer, const struct dlend_offer_user *until)
{
	struct dlend_offer_user *user;

	list_for_each_entry(user, &dlend_offer_users, node) {
		if (user == until)
			break;
		if (user->vanishes)
			user->vanishes(offer);
	}
}

static int dlend_offer_appear(struct dlend_offer *offer)
{
	struct dlend_offer_user *user;
	int ret;

	list_for_each_entry(user, &dlend_offer_users, node) {
		ret = user->appeared ? user->appeared(offer) : 0;
		if (ret) {
			dlend_offer_vanish(offer, user);
			return ret;
		}
	}
	return 0;
}

static void dlend_offer_register(struct dlend_offer *offer, bool free)
{
	int ret = device_add(&offer->dev);

	if (!ret) {
		ret = dlend_offer_appear(offer);
		if (ret)
			device_del(&offer->dev);
	}
	if (ret) {
		dev_err(&offer->dev, "offer of node %u cannot be shown: %pe\n",
			offer->addr.lender, ERR_PTR(ret));
		return;
	}
	guard(mutex)(&dlend_offers_lock);
	offer->registered = true;
	/* What somebody has taken meanwhile could not be started. */
	if (free && offer->state == DLEND_OFFER_FREE)
		offer->announced = true;
}

/*
 * When an offer appears, its users start what is to start by itself.  That fails if another node
 * holds the device then.  So the offer is announced when it is free for the first time, and only
 * once: what an admin has stopped stays stopped, however often the device becomes free again.
 */
static void dlend_offer_announce(struct dlend_offer *offer)
{
	struct dlend_offer_user *user;
	bool due;

	mutex_lock(&dlend_offers_lock);
	due = offer->registered && !offer->announced && offer->state == DLEND_OFFER_FREE;
	if (due)
		offer->announced = true;
	mutex_unlock(&dlend_offers_lock);
	if (!due)
		return;
	list_for_each_entry(user, &dlend_offer_users, node)
		if (user->freed)
			user->freed(offer);
}

int dlend_offer_ask(struct dlend_link *link)
{
	struct dlend_session_ref now = dlend_session_now(link);
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_SUBSCRIBE, NULL, 0, 0);
	return dlend_link_post_in(&now, &msg);
}

static void dlend_offer_destroy_queues(struct dlend_offer *offer)
{
	if (offer->wq)
		destroy_workqueue(offer->wq);
	if (offer->returns)
		destroy_workqueue(offer->returns);
}

static void dlend_offer_unregister(struct dlend_offer *offer)
{
	/* If it began just before the offer was killed, it is queued once more; and never again. */
	cancel_work(&offer->work);
	if (offer->registered) {
		dlend_offer_vanish(offer, NULL);
		device_del(&offer->dev);
	}
	/* This waits for returns of leases that are under way. */
	dlend_offer_destroy_queues(offer);
	mutex_lock(&dlend_offers_lock);
	dlend_offer_del(offer);
	mutex_unlock(&dlend_offers_lock);
	/* If that link is down, the offers come when it is up again. */
	if (offer->ask)
		dlend_offer_ask(offer->ask);
	put_device(&offer->dev);
}

static void dlend_offer_work(struct work_struct *work)
{
	struct dlend_offer *offer = container_of(work, struct dlend_offer, work);
	bool dying, due, free;

	mutex_lock(&dlend_offers_lock);
	dying = offer->dying;
	due = offer->complete && !offer->registered;
	free = offer->state == DLEND_OFFER_FREE;
	mutex_unlock(&dlend_offers_lock);
	if (dying) {
		dlend_offer_unregister(offer);
		return;
	}
	if (due)
		dlend_offer_register(offer, free);
	dlend_offer_announce(offer);
}

static void dlend_offer_say_work(struct work_struct *work)
{
	struct dlend_offer *offer = container_of(to_delayed_work(work), struct dlend_offer, say);
	const char *state;
	bool registered;

	mutex_lock(&dlend_offers_lock);
	registered = offer->registered;
	state = dlend_offer_state_told(offer);
	mutex_unlock(&dlend_offers_lock);
	/* Before that nobody knows of it, and then who hears of it reads its state. */
	if (registered)
		dlend_uevent_state(&offer->dev, state);
}

/* The workqueue is ordered: what comes while it is being registered is told after that. */
static void dlend_offer_say(struct dlend_offer *offer)
{
	if (!offer->dying)
		queue_delayed_work(dlend_offers_wq, &offer->say,
				   msecs_to_jiffies(DLEND_UEVENT_DELAY_MS));
}

void dlend_offer_set_state(struct dlend_offer *offer, u16 state, u16 holder)
{
	lockdep_assert_held(&dlend_offers_lock);
	if (offer->state == state && offer->holder == holder)
		return;
	offer->state = state;
	offer->holder = holder;
	dlend_offer_say(offer);
}

void dlend_offer_set_vm(struct dlend_offer *offer, const u8 *vm)
{
	lockdep_assert_held(&dlend_offers_lock);
	if (!memcmp(offer->vm, vm, sizeof(offer->vm)))
		return;
	memcpy(offer->vm, vm, sizeof(offer->vm));
	dlend_offer_say(offer);
}

struct dlend_offer *dlend_offer_alloc(const struct dlend_addr *addr)
{
	char name[DLEND_NAME_LEN];
	struct dlend_offer *offer, *ghost;

	lockdep_assert_held(&dlend_offers_lock);
	if (dlend_offers_full(addr->lender, &ghost))
		return ERR_PTR(-ENOSPC);
	if (ghost)
		dlend_offer_kill(ghost);
	offer = kzalloc_obj(*offer);
	if (!offer)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&offer->memory);
	offer->addr = *addr;
	offer->state = DLEND_OFFER_GONE;
	INIT_WORK(&offer->work, dlend_offer_work);
	INIT_DELAYED_WORK(&offer->say, dlend_offer_say_work);
	device_initialize(&offer->dev);
	offer->dev.bus = &dlend_bus_type;
	offer->dev.groups = dlend_bus_offer_groups;
	offer->dev.release = dlend_offer_release_dev;
	if (dev_set_name(&offer->dev, "%s", dlend_addr_name(addr, name)))
		goto put_dev;
	offer->snapshot = kzalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	offer->next_snapshot = kzalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	/* This work may repair the path to a disk to which this host writes its memory out. */
	offer->wq = alloc_ordered_workqueue("dlend-%s", WQ_MEM_RECLAIM, dev_name(&offer->dev));
	offer->returns = alloc_ordered_workqueue("dlend-%s-returns", WQ_MEM_RECLAIM,
						 dev_name(&offer->dev));
	if (!offer->snapshot || !offer->next_snapshot || !offer->wq || !offer->returns)
		goto free_queues;
	dlend_offer_add(offer);
	return offer;

free_queues:
	dlend_offer_destroy_queues(offer);
put_dev:
	put_device(&offer->dev);
	return ERR_PTR(-ENOMEM);
}

void dlend_offer_update(struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	queue_work(dlend_offers_wq, &offer->work);
}

void dlend_offer_kill(struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	offer->dying = true;
	/* Its timer must not fire for a workqueue that is being destroyed. */
	cancel_delayed_work(&offer->say);
	/* Strays of it are not told any more: whoever removes it waits for that. */
	WRITE_ONCE(offer->withdrawn, true);
	offer->state = DLEND_OFFER_GONE;
	offer->collecting = false;
	queue_work(dlend_offers_wq, &offer->work);
}

/* Users are added and removed on the workqueue of offers, so that each hears of each offer once. */

struct dlend_offer_user_change {
	struct work_struct work;
	struct dlend_offer_user *user;
	bool leaves;
};

/* The next registered offer behind @after (NULL: from the beginning), with a reference. */
static struct dlend_offer *dlend_offer_next(struct dlend_offer *after)
{
	struct dlend_offer *offer = after;

	guard(mutex)(&dlend_offers_lock);
	offer = list_prepare_entry(offer, &dlend_offers, node);
	list_for_each_entry_continue(offer, &dlend_offers, node) {
		if (!offer->registered)
			continue;
		get_device(&offer->dev);
		return offer;
	}
	return NULL;
}

/* For a new user an offer appears now: if it is not free, it is announced when it is. */
static void dlend_offer_appear_to(struct dlend_offer *offer, struct dlend_offer_user *user)
{
	int ret;

	mutex_lock(&dlend_offers_lock);
	offer->announced = offer->claim || offer->state == DLEND_OFFER_FREE;
	mutex_unlock(&dlend_offers_lock);
	ret = user->appeared ? user->appeared(offer) : 0;
	if (ret)
		dev_err(&offer->dev, "offer of node %u cannot be used: %pe\n", offer->addr.lender,
			ERR_PTR(ret));
}

static void dlend_offer_user_work(struct work_struct *work)
{
	struct dlend_offer_user_change *change =
		container_of(work, struct dlend_offer_user_change, work);
	struct dlend_offer_user *user = change->user;
	struct dlend_offer *offer, *next;

	/* Offers leave the book only on this workqueue: this one stays in it meanwhile. */
	for (offer = dlend_offer_next(NULL); offer; offer = next) {
		if (!change->leaves)
			dlend_offer_appear_to(offer, user);
		else if (user->vanishes)
			user->vanishes(offer);
		next = dlend_offer_next(offer);
		put_device(&offer->dev);
	}
	if (change->leaves)
		list_del(&user->node);
	else
		list_add_tail(&user->node, &dlend_offer_users);
}

static void dlend_offer_user_change(struct dlend_offer_user *user, bool leaves)
{
	struct dlend_offer_user_change change = { .user = user, .leaves = leaves };

	INIT_WORK_ONSTACK(&change.work, dlend_offer_user_work);
	queue_work(dlend_offers_wq, &change.work);
	flush_work(&change.work);
	destroy_work_on_stack(&change.work);
}

void dlend_offer_user_register(struct dlend_offer_user *user)
{
	dlend_offer_user_change(user, false);
}
DLEND_EXPORT(dlend_offer_user_register);

void dlend_offer_user_unregister(struct dlend_offer_user *user)
{
	dlend_offer_user_change(user, true);
}
DLEND_EXPORT(dlend_offer_user_unregister);

int dlend_offer_life_init(void)
{
	dlend_offers_wq = alloc_ordered_workqueue("dlend-offers", 0);
	return dlend_offers_wq ? 0 : -ENOMEM;
}

void dlend_offer_life_exit(void)
{
	struct dlend_offer *offer;

	mutex_lock(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node)
		if (!offer->dying)
			dlend_offer_kill(offer);
	mutex_unlock(&dlend_offers_lock);
	destroy_workqueue(dlend_offers_wq);
	WARN_ON(!list_empty(&dlend_offer_users));
}
