// SPDX-License-Identifier: GPL-2.0
/*
 * The list of offers, what this node knows of each, and how they appear on the dlend bus and go.
 */
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait_bit.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/link.h>
#include "group.h"
#include "offer.h"

/* A peer must not fill this node's memory, and must leave room for the offers of others. */
#define DLEND_OFFERS_MAX	1024
#define DLEND_OFFERS_OF_NODE	512

DEFINE_MUTEX(dlend_offers_lock);	/* see offer.h */
LIST_HEAD(dlend_offers);

/* Return: an offer of @lender (0: of any) that is not claimed, and whose link is down; or NULL. */
static struct dlend_offer *dlend_offers_find_stale(u16 lender)
{
	struct dlend_offer *offer;

	list_for_each_entry(offer, &dlend_offers, node)
		if (!offer->link && !offer->claim && !offer->dying &&
		    (!lender || offer->addr.lender == lender))
			return offer;
	return NULL;
}

/* Count the offers of @lender (0: of all).  @dying: count those that are dying, too. */
static unsigned int dlend_offers_count(u16 lender, bool dying)
{
	struct dlend_offer *offer;
	unsigned int n = 0;

	lockdep_assert_held(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node)
		n += (!lender || offer->addr.lender == lender) && (dying || !offer->dying);
	return n;
}

/*
 * Return: is there room for one more offer of @lender?  If there are too many, one whose link is
 * down is removed for it.
 */
static bool dlend_offers_make_room(u16 lender)
{
	/* Has @lender itself too many, so that only one of its own makes room? */
	bool mine = dlend_offers_count(lender, false /* not dying */) >= DLEND_OFFERS_OF_NODE;
	struct dlend_offer *stale;

	/* Offers that are dying do not count below; but together there must not be too many. */
	if (dlend_offers_count(lender, true) >= 2 * DLEND_OFFERS_OF_NODE ||
	    dlend_offers_count(0, true) >= 2 * DLEND_OFFERS_MAX)
		return false;
	if (!mine && dlend_offers_count(0, false) < DLEND_OFFERS_MAX)
		return true;
	stale = dlend_offers_find_stale(mine ? lender : 0);
	if (stale)
		dlend_offer_kill(stale);
	return stale;
}

/* A piece of memory of dlend_offer_zalloc(), with its header. */
struct dlend_offer_memory {
	struct list_head node;
	u8 data[] __aligned(__alignof__(u64));
};

void *dlend_offer_zalloc(struct dlend_offer *offer, size_t size)
{
	struct dlend_offer_memory *memory = kzalloc(struct_size(memory, data, size), GFP_KERNEL);

	if (!memory)
		return NULL;
	guard(mutex)(&dlend_offers_lock);
	list_add(&memory->node, &offer->memory);
	return memory->data;
}
DLEND_EXPORT(dlend_offer_zalloc);

struct dlend_offer *dlend_offer_find(const struct dlend_addr *addr)
{
	struct dlend_offer *offer;

	lockdep_assert_held(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node)
		if (!offer->dying && dlend_addr_same(&offer->addr, addr))
			return offer;
	return NULL;
}

struct dlend_offer *dlend_offer_find_of(struct dlend_link *link, const struct dlend_addr *addr)
{
	struct dlend_offer *offer = dlend_offer_find(addr);

	if (!offer || !offer->link || offer->link == link)
		return offer;
	dev_warn_ratelimited(dlend_link_dev(link),
			     "message about %s ignored: node %u offers it over %s; if these are two hosts, set a different dlend_core.node_id on each\n",
			     dev_name(&offer->dev), addr->lender, dlend_link_name(offer->link));
	return ERR_PTR(-EPERM);
}

void dlend_offer_set_link(struct dlend_offer *offer, struct dlend_link *link)
{
	lockdep_assert_held(&dlend_offers_lock);
	if (offer->link == link)
		return;
	if (offer->link)
		dlend_link_put(offer->link);
	offer->link = link ? dlend_link_get(link) : NULL;
}

u16 dlend_offer_p2p_domain(const struct dlend_addr *addr)
{
	const struct dlend_offer *offer = dlend_offer_find(addr);

	return offer && offer->placed ? le16_to_cpu(offer->place.p2p_domain) : 0;
}

struct dlend_link *dlend_offer_link(struct dlend_offer *offer)
{
	guard(mutex)(&dlend_offers_lock);
	return offer->link ? dlend_link_get(offer->link) : NULL;
}

struct dlend_claim *dlend_offer_get_claim(struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	if (IS_ERR_OR_NULL(offer) || !offer->claim)
		return NULL;
	atomic_inc(&offer->claim->calls);
	return offer->claim;
}

struct dlend_claim *dlend_offer_get_claim_of(struct dlend_link *link,
					     const struct dlend_addr *addr)
{
	guard(mutex)(&dlend_offers_lock);
	return dlend_offer_get_claim(dlend_offer_find_of(link, addr));
}

void dlend_offer_put_claim(struct dlend_claim *claim)
{
	if (claim && atomic_dec_and_test(&claim->calls))
		wake_up_var(&claim->calls);
}

/* Describe @other, a function of the same IOMMU group, to the user of @claim. */
static struct dlend_group_fn dlend_offer_seen_by(const struct dlend_offer *other,
						 const struct dlend_claim *claim)
{
	const struct dlend_claim *user = other->claim;

	return (struct dlend_group_fn){
		.same_user = user && dlend_same_user(user->user, claim->user),
		.leased = user && READ_ONCE(user->lease),
		.borrowing = user && READ_ONCE(user->borrowing),
		/* A stray was never used: it does no DMA, and reaches no memory. */
		.leases = max(atomic_read(&other->leases) - atomic_read(&other->strays), 0),
	};
}

int dlend_offer_check_group(const struct dlend_claim *claim, char *why)
{
	const struct dlend_offer *offer = claim->offer;
	struct dlend_offer *other;
	int ret = 0;

	guard(mutex)(&dlend_offers_lock);
	list_for_each_entry(other, &dlend_offers, node) {
		if (other == offer || other->addr.lender != offer->addr.lender ||
		    other->info.group != offer->info.group || ret == -EBUSY)
			continue;
		ret = dlend_group_admits(dlend_offer_seen_by(other, claim)) ?: ret;
	}
	if (ret == -EBUSY)
		snprintf(why, DLEND_REASON_LEN,
			 "another function of its IOMMU group is used by another VM here; give both to one VM");
	return ret;
}

struct device *dlend_offer_dev(struct dlend_offer *offer)
{
	return &offer->dev;
}
DLEND_EXPORT(dlend_offer_dev);

const struct dlend_addr *dlend_offer_addr(const struct dlend_offer *offer)
{
	return &offer->addr;
}
DLEND_EXPORT(dlend_offer_addr);

void dlend_offer_flush(struct dlend_offer *offer)
{
	flush_workqueue(offer->wq);
	flush_workqueue(offer->return_wq);
}
DLEND_EXPORT(dlend_offer_flush);

void dlend_offer_copy(struct dlend_offer *offer, struct dlend_offer_info *info, u8 *snapshot)
{
	guard(mutex)(&dlend_offers_lock);
	*info = offer->info;
	if (snapshot)
		memcpy(snapshot, offer->snapshot, DLEND_CFG_SIZE);
}
DLEND_EXPORT(dlend_offer_copy);

/* Does the lender offer the device now, and is its description complete? */
static bool dlend_offer_current(const struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	return offer->link && offer->complete && !offer->withdrawn;
}

bool dlend_offer_claimable(const struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	return offer->complete && (offer->now.state == DLEND_OFFER_FREE ||
				   offer->now.state == DLEND_OFFER_RETURNING || offer->now.comes);
}

bool dlend_offer_vm(const struct dlend_offer *offer)
{
	return memchr_inv(offer->now.vm, 0, sizeof(offer->now.vm));
}

const char *dlend_offer_state_shown(const struct dlend_offer *offer)
{
	u16 state = offer->now.state;

	if (state == DLEND_OFFER_FREE && dlend_offer_vm(offer))
		state = DLEND_OFFER_RESERVED;
	return dlend_offer_state_name(state);
}

bool dlend_offer_taken(const struct dlend_offer *offer, const struct dlend_claim *claim, char *why)
{
	char node[DLEND_NODE_LABEL_LEN];

	if (offer->now.state == DLEND_OFFER_QUARANTINED)
		snprintf(why, DLEND_REASON_LEN, "node %s keeps it in quarantine: its reset failed",
			 dlend_node_label(offer->addr.lender, node));
	else if (offer->now.state == DLEND_OFFER_RESERVED)
		snprintf(why, DLEND_REASON_LEN, "it is reserved for node %s",
			 dlend_node_label(offer->now.holder, node));
	else if (offer->now.state == DLEND_OFFER_FREE && dlend_offer_vm(offer) &&
		 memcmp(offer->now.vm, claim->vm, sizeof(claim->vm)))
		snprintf(why, DLEND_REASON_LEN,
			 "it is reserved for the VM that has the mediated device %pUl",
			 offer->now.vm);
	else if (offer->now.state == DLEND_OFFER_KEPT)
		snprintf(why, DLEND_REASON_LEN, "node %s has another device of set %s",
			 dlend_node_label(offer->now.holder, node), offer->set);
	else if (offer->now.state == DLEND_OFFER_HELD && offer->now.holder != dlend_node_id() &&
		 !offer->now.comes)
		snprintf(why, DLEND_REASON_LEN, "node %s has it",
			 dlend_node_label(offer->now.holder, node));
	else
		return false;
	return true;
}

bool dlend_claim_taken(const struct dlend_claim *claim, char *why)
{
	guard(mutex)(&dlend_offers_lock);
	return dlend_offer_taken(claim->offer, claim, why);
}
DLEND_EXPORT(dlend_claim_taken);

bool dlend_claim_comes(const struct dlend_claim *claim)
{
	guard(mutex)(&dlend_offers_lock);
	return claim->offer->now.comes;
}
DLEND_EXPORT(dlend_claim_comes);

bool dlend_offer_available(struct dlend_offer *offer)
{
	guard(mutex)(&dlend_offers_lock);
	return dlend_offer_current(offer) && !offer->claim && dlend_offer_claimable(offer);
}
DLEND_EXPORT(dlend_offer_available);

int dlend_offer_group(struct dlend_offer *offer, unsigned int *size)
{
	guard(mutex)(&dlend_offers_lock);
	if (!dlend_offer_current(offer))
		return -ENODEV;
	*size = offer->info.group_size;
	return offer->info.group;
}
DLEND_EXPORT(dlend_offer_group);

/*
 * Life of an offer: its device appears on the dlend bus when its snapshot is complete, stays there
 * while its link is down, and goes when its lender has withdrawn it and it is not claimed.
 *
 * Adding and removing a device sleeps on sysfs, and removing may wait for programs.  So one ordered
 * workqueue does both, and also calls the users of offers (struct dlend_offer_user).  Must not know
 * how offers arrive.
 */

static struct workqueue_struct *dlend_offers_wq;	/* ordered */
static LIST_HEAD(dlend_offer_users);		/* no lock: only used on that workqueue */

static void dlend_offer_release_dev(struct device *dev)
{
	struct dlend_offer *offer = to_dlend_offer(dev);
	struct dlend_offer_memory *memory, *next;

	if (offer->link)
		dlend_link_put(offer->link);
	if (offer->ask)
		dlend_link_put(offer->ask);
	kfree(offer->snapshot);
	kfree(offer->next_snapshot);
	list_for_each_entry_safe(memory, next, &offer->memory, node)
		kfree(memory);
	kfree(offer);
}

/* Call appeared() of all users. Return: 0; or the first error: then no user has the offer. */
static int dlend_offer_appear(struct dlend_offer *offer)
{
	struct dlend_offer_user *user;
	int ret;

	list_for_each_entry(user, &dlend_offer_users, node) {
		ret = user->appeared(offer);
		if (ret) {
			list_for_each_entry_continue_reverse(user, &dlend_offer_users, node)
				user->vanishes(offer);
			return ret;
		}
	}
	return 0;
}

/* Add an offer to the bus. @free: its device was free when this began. */
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
	/*
	 * If another node has borrowed it by now, what a user should have started has failed, and
	 * freed() is called later.
	 */
	if (free && offer->now.state == DLEND_OFFER_FREE)
		offer->announced = true;
}

int dlend_offer_subscribe(struct dlend_link *link)
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
	if (offer->return_wq)
		destroy_workqueue(offer->return_wq);
}

/* Remove a dying offer from bus and list, and drop its first reference. In dlend_offer_work(). */
static void dlend_offer_unregister(struct dlend_offer *offer)
{
	struct dlend_offer_user *user;

	/* If the offer was killed while this work ran, the work is queued again: once is enough. */
	cancel_work(&offer->work);
	if (offer->registered) {
		list_for_each_entry(user, &dlend_offer_users, node)
			user->vanishes(offer);
		device_del(&offer->dev);
	}
	/* Waits for leases that are being returned. */
	dlend_offer_destroy_queues(offer);
	scoped_guard(mutex, &dlend_offers_lock)
		list_del(&offer->node);
	/* An error is ignored: when a link comes up again, the lender sends all offers. */
	if (offer->ask)
		dlend_offer_subscribe(offer->ask);
	put_device(&offer->dev);
}

/*
 * Unregister an offer that is dying; else register and announce it, if that is to be done.
 *
 * When an offer appears, its users start what shall start by itself.  That fails if another node
 * holds the device at that time.  So freed() is called when the device is free for the first time,
 * and only once: what an administrator has stopped stays stopped, however often the device becomes
 * free again.
 */
static void dlend_offer_work(struct work_struct *work)
{
	struct dlend_offer *offer = container_of(work, struct dlend_offer, work);
	struct dlend_offer_user *user;
	bool dying, due, free;

	scoped_guard(mutex, &dlend_offers_lock) {
		dying = offer->dying;
		due = offer->complete && !offer->registered;
		free = offer->now.state == DLEND_OFFER_FREE;
	}
	if (dying) {
		dlend_offer_unregister(offer);
		return;
	}
	if (due)
		dlend_offer_register(offer, free);
	scoped_guard(mutex, &dlend_offers_lock) {
		due = offer->registered && !offer->announced &&
		      offer->now.state == DLEND_OFFER_FREE;
		offer->announced |= due;
	}
	if (due)
		list_for_each_entry(user, &dlend_offer_users, node)
			user->freed(offer);
}

static void dlend_offer_uevent_work(struct work_struct *work)
{
	struct dlend_offer *offer =
		container_of(to_delayed_work(work), struct dlend_offer, uevent_work);
	const char *state;
	bool registered;

	mutex_lock(&dlend_offers_lock);
	registered = offer->registered;
	state = dlend_offer_state_shown(offer);
	mutex_unlock(&dlend_offers_lock);
	/* Before the device is registered, no event is needed: a program reads its first state. */
	if (registered)
		dlend_uevent_state(&offer->dev, state);
}

void dlend_offer_note(struct dlend_offer *offer, const struct dlend_offer_now *now)
{
	bool news = offer->now.state != now->state || offer->now.holder != now->holder ||
		    memcmp(offer->now.vm, now->vm, sizeof(now->vm));

	lockdep_assert_held(&dlend_offers_lock);
	offer->now = *now;
	/* The workqueue is ordered: if the offer is being registered now, the event comes after. */
	if (news && !offer->dying)
		queue_delayed_work(dlend_offers_wq, &offer->uevent_work,
				   msecs_to_jiffies(DLEND_UEVENT_DELAY_MS));
}

void dlend_offer_note_gone(struct dlend_offer *offer)
{
	dlend_offer_note(offer, &(struct dlend_offer_now){
		.state = DLEND_OFFER_GONE, .holder = DLEND_NODE_NONE, .epoch = offer->now.epoch,
	});
}

struct dlend_offer *dlend_offer_alloc(const struct dlend_addr *addr)
{
	char name[DLEND_NAME_LEN];
	struct dlend_offer *offer;

	if (!dlend_offers_make_room(addr->lender))
		return ERR_PTR(-ENOSPC);
	offer = kzalloc_obj(*offer);
	if (!offer)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&offer->memory);
	offer->addr = *addr;
	offer->now.state = DLEND_OFFER_GONE;
	INIT_WORK(&offer->work, dlend_offer_work);
	INIT_DELAYED_WORK(&offer->uevent_work, dlend_offer_uevent_work);
	device_initialize(&offer->dev);
	offer->dev.bus = &dlend_bus_type;
	offer->dev.release = dlend_offer_release_dev;
	if (dev_set_name(&offer->dev, "%s", dlend_addr_name(addr, name)))
		goto put_dev;
	offer->snapshot = kzalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	offer->next_snapshot = kzalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	/* WQ_MEM_RECLAIM: this host's swap or writeback may go to a borrowed disk. */
	offer->wq = alloc_ordered_workqueue("dlend-%s", WQ_MEM_RECLAIM, dev_name(&offer->dev));
	offer->return_wq = alloc_ordered_workqueue("dlend-%s-returns", WQ_MEM_RECLAIM,
						   dev_name(&offer->dev));
	if (!offer->snapshot || !offer->next_snapshot || !offer->wq || !offer->return_wq)
		goto free_queues;
	list_add_tail(&offer->node, &dlend_offers);
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
	/* Its timer must not queue it on a workqueue that is being destroyed (module exit). */
	cancel_delayed_work(&offer->uevent_work);
	/* From now on no stray is returned (dlend_lease_is_stray()): the removal would wait. */
	WRITE_ONCE(offer->withdrawn, true);
	offer->now.state = DLEND_OFFER_GONE;
	offer->collecting = false;
	queue_work(dlend_offers_wq, &offer->work);
}

/*
 * Return: the next registered offer behind @offer (NULL: the first one), or NULL. Only on the
 * workqueue of offers, where none is freed meanwhile.
 */
static struct dlend_offer *dlend_offer_next(struct dlend_offer *offer)
{
	guard(mutex)(&dlend_offers_lock);
	offer = list_prepare_entry(offer, &dlend_offers, node);
	list_for_each_entry_continue(offer, &dlend_offers, node)
		if (offer->registered)
			return offer;
	return NULL;
}

/*
 * Call appeared() of a new user.  If the device is neither claimed nor free, freed() is called when
 * it is free: of all users, also of those that it was called for before.
 */
static void dlend_offer_appear_to(struct dlend_offer *offer, struct dlend_offer_user *user)
{
	int ret;

	scoped_guard(mutex, &dlend_offers_lock)
		offer->announced = offer->claim || offer->now.state == DLEND_OFFER_FREE;
	ret = user->appeared(offer);
	if (ret)
		dev_err(&offer->dev, "offer of node %u cannot be used: %pe\n", offer->addr.lender,
			ERR_PTR(ret));
}

/*
 * Add a user of offers, or remove it if it is in the list.  This is done on the workqueue of
 * offers, so that appeared() and vanishes() are called once for each user and offer.
 */
static void dlend_offer_user_work(struct work_struct *work)
{
	struct dlend_offer_user *user = container_of(work, struct dlend_offer_user, work);
	bool leaves = !list_empty(&user->node);
	struct dlend_offer *offer = NULL;

	/* Offers are removed from the list on this workqueue only, so none is during this walk. */
	while ((offer = dlend_offer_next(offer))) {
		if (leaves)
			user->vanishes(offer);
		else
			dlend_offer_appear_to(offer, user);
	}
	if (leaves)
		list_del_init(&user->node);
	else
		list_add_tail(&user->node, &dlend_offer_users);
}

void dlend_offer_user_register(struct dlend_offer_user *user)
{
	INIT_LIST_HEAD(&user->node);
	INIT_WORK(&user->work, dlend_offer_user_work);
	queue_work(dlend_offers_wq, &user->work);
	flush_work(&user->work);
}
DLEND_EXPORT(dlend_offer_user_register);

void dlend_offer_user_unregister(struct dlend_offer_user *user)
{
	queue_work(dlend_offers_wq, &user->work);
	flush_work(&user->work);
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
