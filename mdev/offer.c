// SPDX-License-Identifier: GPL-2.0
/*
 * The book of offers: what the lenders on all links are willing to lend, from their OFFER,
 * SNAPSHOT, STATE and WITHDRAW messages.  An offer becomes an mdev parent (parent.c) when its
 * snapshot is complete, and stays one while its link is down.
 *
 * Must not know how a device is borrowed: it tells the offer's vdev what the lender said.
 * Nothing here waits for user space: unregistering a parent, which may, is left to a work item
 * and done only when no vdev exists.
 */
#include <linux/bitmap.h>
#include <linux/crc32.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <dlend/kind.h>
#include "vdev.h"

#define DLEND_MAX_OFFERS	1024	/* a peer cannot make us allocate without end */

/* The list, and of every offer all that changes after registration. */
DEFINE_MUTEX(dlend_offers_lock);
static LIST_HEAD(dlend_offers);
static unsigned int dlend_nr_offers;
static struct workqueue_struct *dlend_offers_wq;	/* ordered */

/** dlend_offer_state_name - for sysfs and logs, never NULL */
const char *dlend_offer_state_name(u16 state)
{
	static const char * const name[DLEND_OFFER_STATES] = {
		[DLEND_OFFER_FREE] = "free",
		[DLEND_OFFER_HELD] = "held",
		[DLEND_OFFER_RETURNING] = "returning",
		[DLEND_OFFER_QUARANTINED] = "quarantined",
		[DLEND_OFFER_GONE] = "gone",
	};

	return state < DLEND_OFFER_STATES ? name[state] : "unknown";
}

static void dlend_offer_dev_release(struct device *dev)
{
	struct dlend_offer *offer = to_dlend_offer(dev);

	if (offer->link)
		dlend_link_put(offer->link);
	kfree(offer->snapshot);
	kfree(offer->next_snapshot);
	kfree(offer);
}

/* Registration and unregistration, in the order in which they were asked for. */
static void dlend_offer_register(struct dlend_offer *offer, bool free)
{
	if (dlend_parent_register(offer))
		return;
	mutex_lock(&dlend_offers_lock);
	offer->registered = true;
	if (free)
		offer->announced = true;
	mutex_unlock(&dlend_offers_lock);
}

/*
 * Definitions start when an offer appears, which helps none whose device another node held then.
 * Once: what was stopped by hand stays so, however often the device is free again.
 */
static void dlend_offer_announce(struct dlend_offer *offer)
{
	char *env[2] = { "MDEV_STATE=registered" };	/* as mdev_register_parent() has it */
	bool todo;

	mutex_lock(&dlend_offers_lock);
	todo = offer->registered && !offer->announced && offer->state == DLEND_OFFER_FREE;
	if (todo)
		offer->announced = true;
	mutex_unlock(&dlend_offers_lock);
	if (todo)
		kobject_uevent_env(&offer->dev.kobj, KOBJ_CHANGE, env);
}

static void dlend_offer_work(struct work_struct *work)
{
	struct dlend_offer *offer = container_of(work, struct dlend_offer, work);
	bool dying, todo, free;

	mutex_lock(&dlend_offers_lock);
	dying = offer->dying;
	todo = offer->complete && !offer->registered;
	free = offer->state == DLEND_OFFER_FREE;
	mutex_unlock(&dlend_offers_lock);

	if (!dying) {
		if (todo)
			dlend_offer_register(offer, free);
		dlend_offer_announce(offer);
		return;
	}
	if (offer->registered)
		dlend_parent_unregister(offer);
	destroy_workqueue(offer->wq);	/* returns of leases that are under way end first */
	mutex_lock(&dlend_offers_lock);
	list_del(&offer->node);
	dlend_nr_offers--;
	mutex_unlock(&dlend_offers_lock);
	put_device(&offer->dev);
}

static struct dlend_offer *dlend_offer_find(const struct dlend_addr *addr)
{
	struct dlend_offer *offer;

	lockdep_assert_held(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node)
		if (!offer->dying && dlend_addr_same(&offer->addr, addr))
			return offer;
	return NULL;
}

static struct dlend_offer *dlend_offer_alloc(const struct dlend_addr *addr)
{
	char name[DLEND_NAME_LEN];
	struct dlend_offer *offer;

	if (dlend_nr_offers >= DLEND_MAX_OFFERS)
		return ERR_PTR(-ENOSPC);
	offer = kzalloc_obj(*offer);
	if (!offer)
		return ERR_PTR(-ENOMEM);
	offer->addr = *addr;
	offer->state = DLEND_OFFER_GONE;
	INIT_WORK(&offer->work, dlend_offer_work);
	device_initialize(&offer->dev);
	offer->dev.bus = &dlend_bus_type;
	offer->dev.groups = dlend_offer_groups;
	offer->dev.release = dlend_offer_dev_release;
	if (dev_set_name(&offer->dev, "%s", dlend_addr_name(addr, name)))
		goto err_put;
	offer->snapshot = kzalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	offer->next_snapshot = kzalloc(DLEND_CFG_SIZE, GFP_KERNEL);
	/* It repairs windows of what may be the disk that this host's memory is written to. */
	offer->wq = alloc_ordered_workqueue("dlend-%s", WQ_MEM_RECLAIM, dev_name(&offer->dev));
	if (!offer->snapshot || !offer->next_snapshot || !offer->wq)
		goto err_wq;
	list_add_tail(&offer->node, &dlend_offers);
	dlend_nr_offers++;
	return offer;

err_wq:
	if (offer->wq)
		destroy_workqueue(offer->wq);
err_put:
	put_device(&offer->dev);
	return ERR_PTR(-ENOMEM);
}

static void dlend_offer_kill(struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	offer->dying = true;
	offer->state = DLEND_OFFER_GONE;
	offer->collecting = false;
	queue_work(dlend_offers_wq, &offer->work);
}

static void dlend_offer_set_link(struct dlend_offer *offer, struct dlend_link *link)
{
	if (offer->link == link)
		return;
	if (offer->link)
		dlend_link_put(offer->link);
	offer->link = link ? dlend_link_get(link) : NULL;
}

static int dlend_offer_clique(u16 wire)
{
	switch (wire) {
	case DLEND_OFFER_CLIQUE_AUTO:
		return DLEND_CLIQUE_AUTO;
	case DLEND_OFFER_CLIQUE_NONE:
		return DLEND_CFG_CLIQUE_NONE;
	}
	return wire - DLEND_OFFER_CLIQUE(0);
}

static void dlend_offer_info_from_wire(struct dlend_offer_info *info,
				       const struct dlend_p_offer *p)
{
	unsigned int i;

	memset(info, 0, sizeof(*info));
	info->vendor = le16_to_cpu(p->vendor);
	info->device = le16_to_cpu(p->device);
	info->class = le32_to_cpu(p->class) & 0xffffff;
	info->flags = le32_to_cpu(p->flags);
	info->group = le16_to_cpu(p->group);
	info->nr_msi = min_t(u16, le16_to_cpu(p->nr_msi), 32);
	info->nr_msix = min_t(u16, le16_to_cpu(p->nr_msix), DLEND_MAX_VECTORS);
	info->has_intx = le16_to_cpu(p->has_intx);
	info->clique = dlend_offer_clique(le16_to_cpu(p->clique));
	for (i = 0; i < DLEND_NUM_REGIONS; i++) {
		u64 size = le64_to_cpu(p->bar[i].size);

		/* A region must fit its part of the file offsets. */
		if (!is_power_of_2(size) || size > BIT_ULL(DLEND_REGION_SHIFT))
			size = 0;
		info->bar[i].size = size;
		info->bar[i].flags = le32_to_cpu(p->bar[i].flags);
	}
}

static bool dlend_offer_same(const struct dlend_offer_info *a, const struct dlend_offer_info *b)
{
	unsigned int i;

	for (i = 0; i < DLEND_NUM_REGIONS; i++)
		if (a->bar[i].size != b->bar[i].size || a->bar[i].flags != b->bar[i].flags)
			return false;
	return a->vendor == b->vendor && a->device == b->device && a->class == b->class &&
	       a->flags == b->flags;
}

/* Find or make the offer that an OFFER message is about. */
static struct dlend_offer *dlend_offer_for(struct dlend_link *link, const struct dlend_addr *addr,
					   const struct dlend_offer_info *info)
{
	struct dlend_offer *offer = dlend_offer_find(addr);
	char name[DLEND_NAME_LEN];

	if (offer && (offer->complete || offer->registered) &&
	    !dlend_offer_same(&offer->info, info)) {
		if (offer->vdev) {
			dev_warn_ratelimited(&offer->dev,
					     "node %u now offers another device under this address (%04x:%04x, was %04x:%04x); ignored until the mdev is removed\n",
					     addr->lender, info->vendor, info->device,
					     offer->info.vendor, offer->info.device);
			return ERR_PTR(-EBUSY);
		}
		dlend_offer_kill(offer);
		offer = NULL;
	}
	if (offer)
		return offer;
	offer = dlend_offer_alloc(addr);
	if (IS_ERR(offer))
		dev_warn_ratelimited(dlend_link_dev(link), "offer %s ignored: %pe\n",
				     dlend_addr_name(addr, name), offer);
	return offer;
}

/*
 * Two links may lead to nodes of one id: one of them is lying, or its admin erred.  Who was first
 * keeps the offer, as long as its link is up.  Offers lock.
 */
static bool dlend_offer_foreign(struct dlend_link *link, const struct dlend_addr *addr)
{
	struct dlend_offer *offer = dlend_offer_find(addr);

	if (!offer || !offer->link || offer->link == link)
		return false;
	dev_warn_ratelimited(dlend_link_dev(link),
			     "message about %s ignored: node %u offers it over %s; if these are two hosts, set a different dlend_core.node_id on each\n",
			     dev_name(&offer->dev), addr->lender, dlend_link_name(offer->link));
	return true;
}

static void dlend_offer_received(struct dlend_link *link, const struct dlend_addr *addr,
				 const struct dlend_p_offer *p)
{
	struct dlend_offer_info info;
	struct dlend_offer *offer;

	dlend_offer_info_from_wire(&info, p);
	guard(mutex)(&dlend_offers_lock);
	if (dlend_offer_foreign(link, addr))
		return;
	offer = dlend_offer_for(link, addr, &info);
	if (IS_ERR(offer))
		return;
	offer->next = info;
	offer->next_crc = le32_to_cpu(p->snapshot_crc);
	bitmap_zero(offer->pieces, DLEND_SNAPSHOT_PIECES);
	offer->collecting = true;
	/* Nobody can use it before the snapshot is whole: dlend_offer_claim() sees to that. */
	offer->state = le16_to_cpu(p->state);
	offer->holder = le16_to_cpu(p->holder);
	offer->epoch = le32_to_cpu(p->epoch);
	if (!offer->link)
		offer->complete = false;
	dlend_offer_set_link(offer, link);
}

static void dlend_offer_snapshot(struct dlend_link *link, const struct dlend_addr *addr,
				 const struct dlend_p_snapshot *p)
{
	unsigned int at = le16_to_cpu(p->offset);
	struct dlend_offer *offer;

	if (at % DLEND_SNAPSHOT_PIECE || at >= DLEND_CFG_SIZE)
		return;
	guard(mutex)(&dlend_offers_lock);
	offer = dlend_offer_find(addr);
	if (!offer || !offer->collecting || offer->link != link)
		return;
	memcpy(offer->next_snapshot + at, p->data, DLEND_SNAPSHOT_PIECE);
	__set_bit(at / DLEND_SNAPSHOT_PIECE, offer->pieces);
	if (!bitmap_full(offer->pieces, DLEND_SNAPSHOT_PIECES))
		return;
	offer->collecting = false;
	if (crc32_le(~0, offer->next_snapshot, DLEND_CFG_SIZE) != offer->next_crc) {
		dev_warn_ratelimited(&offer->dev,
				     "snapshot from node %u has a wrong checksum; ignored\n",
				     addr->lender);
		return;
	}
	offer->info = offer->next;
	swap(offer->snapshot, offer->next_snapshot);
	offer->complete = true;
	offer->withdrawn = false;
	queue_work(dlend_offers_wq, &offer->work);
}

static void dlend_offer_withdraw(struct dlend_link *link, const struct dlend_addr *addr)
{
	struct dlend_vdev *v = NULL;
	struct dlend_offer *offer;

	mutex_lock(&dlend_offers_lock);
	offer = dlend_offer_foreign(link, addr) ? NULL : dlend_offer_find(addr);
	if (offer) {
		offer->withdrawn = true;
		offer->state = DLEND_OFFER_GONE;
		offer->holder = DLEND_NODE_NONE;
		if (offer->vdev)
			v = dlend_vdev_get(offer->vdev);
		else
			dlend_offer_kill(offer);
	}
	mutex_unlock(&dlend_offers_lock);
	if (v) {
		dlend_borrow_peer_state(v, DLEND_OFFER_GONE, DLEND_NODE_NONE, 0);
		dlend_vdev_put(v);
	}
}

struct dlend_vdev *dlend_offer_vdev_get(struct dlend_link *link, const struct dlend_addr *addr)
{
	struct dlend_offer *offer;

	guard(mutex)(&dlend_offers_lock);
	offer = dlend_offer_foreign(link, addr) ? NULL : dlend_offer_find(addr);
	return offer && offer->vdev ? dlend_vdev_get(offer->vdev) : NULL;
}

static void dlend_offer_state(struct dlend_link *link, const struct dlend_addr *addr,
			      const struct dlend_p_state *p)
{
	u16 state = le16_to_cpu(p->state), holder = le16_to_cpu(p->holder);
	u32 epoch = le32_to_cpu(p->epoch);
	struct dlend_offer *offer;
	struct dlend_vdev *v = NULL;

	if (state >= DLEND_OFFER_STATES)
		return;
	mutex_lock(&dlend_offers_lock);
	offer = dlend_offer_find(addr);
	if (offer && offer->link == link && !offer->withdrawn) {
		offer->state = state;
		offer->holder = holder;
		offer->epoch = epoch;
		if (state == DLEND_OFFER_FREE && offer->registered && !offer->announced)
			queue_work(dlend_offers_wq, &offer->work);
		if (offer->vdev)
			v = dlend_vdev_get(offer->vdev);
		else if (state == DLEND_OFFER_HELD && holder == dlend_node_id())
			dlend_lease_return_stray(offer, link, epoch);
	}
	mutex_unlock(&dlend_offers_lock);
	if (v) {
		dlend_borrow_peer_state(v, state, holder, epoch);
		dlend_vdev_put(v);
	}
}

static void dlend_offer_place(struct dlend_link *link, const struct dlend_addr *addr,
			      const struct dlend_p_place *p)
{
	struct dlend_offer *offer;

	if (p->node) {
		dlend_place_end(link, addr, p);
		return;
	}
	guard(mutex)(&dlend_offers_lock);
	offer = dlend_offer_find(addr);
	if (!offer || offer->link != link)
		return;
	offer->place = *p;
	offer->placed = true;
}

/* About the lease that its vdev has, if it has one. */
static void dlend_offer_lease_news(struct dlend_link *link, const struct dlend_addr *addr,
				   const struct dlend_msg *msg)
{
	struct dlend_vdev *v = dlend_offer_vdev_get(link, addr);

	if (!v)
		return;
	if (le16_to_cpu(msg->type) == DLEND_MSG_RECLAIM)
		dlend_borrow_reclaim(v, le32_to_cpu(msg->epoch));
	else
		dlend_borrow_error(v, le32_to_cpu(msg->epoch));
	dlend_vdev_put(v);
}

static int dlend_offer_message(struct dlend_link *link, const struct dlend_msg *msg,
			       struct dlend_msg *reply)
{
	struct dlend_addr addr = {
		.lender = le16_to_cpu(msg->lender), .bdf = le16_to_cpu(msg->bdf),
	};

	if (le16_to_cpu(msg->type) == DLEND_MSG_PEERS) {
		dlend_p2p_peers(link, (const void *)msg->payload);
		return 0;
	}
	/* A node speaks for its own devices only. */
	if (addr.lender != dlend_link_peer(link)) {
		dev_warn_ratelimited(dlend_link_dev(link), "%s about a device of node %u from node %u dropped\n",
				     dlend_msg_type_name(le16_to_cpu(msg->type)), addr.lender,
				     dlend_link_peer(link));
		return -EPERM;
	}
	switch (le16_to_cpu(msg->type)) {
	case DLEND_MSG_OFFER:
		dlend_offer_received(link, &addr, (const void *)msg->payload);
		return 0;
	case DLEND_MSG_SNAPSHOT:
		dlend_offer_snapshot(link, &addr, (const void *)msg->payload);
		return 0;
	case DLEND_MSG_WITHDRAW:
		dlend_offer_withdraw(link, &addr);
		return 0;
	case DLEND_MSG_STATE:
		dlend_offer_state(link, &addr, (const void *)msg->payload);
		return 0;
	case DLEND_MSG_PLACE:
		dlend_offer_place(link, &addr, (const void *)msg->payload);
		return 0;
	case DLEND_MSG_P2P_LOST:
		dlend_p2p_lost(link, &addr, le32_to_cpu(msg->epoch), (const void *)msg->payload);
		return 0;
	case DLEND_MSG_RECLAIM:
	case DLEND_MSG_ERROR:
		dlend_offer_lease_news(link, &addr, msg);
		return 0;
	}
	return -EPROTO;
}

static void dlend_offers_link_up(struct dlend_link *link)
{
	struct dlend_msg msg;
	int ret;

	dlend_msg_init(&msg, DLEND_MSG_SUBSCRIBE, NULL, 0, 0);
	ret = dlend_link_post(link, &msg);
	if (ret)
		dev_warn(dlend_link_dev(link), "node %u cannot be asked for its offers: %pe\n",
			 dlend_link_peer(link), ERR_PTR(ret));
}

/* Take the link from one offer that uses it. Return: false if none is left. */
static bool dlend_offer_cut(struct dlend_link *link)
{
	struct dlend_offer *offer;
	struct dlend_vdev *v = NULL;
	bool found = false;

	mutex_lock(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node) {
		if (offer->link != link)
			continue;
		found = true;
		dlend_offer_set_link(offer, NULL);
		offer->collecting = false;
		offer->state = DLEND_OFFER_GONE;
		offer->holder = DLEND_NODE_NONE;
		if (offer->vdev)
			v = dlend_vdev_get(offer->vdev);
		break;
	}
	mutex_unlock(&dlend_offers_lock);
	if (v) {
		dlend_borrow_link_down(v);
		dlend_vdev_put(v);
	}
	return found;
}

static void dlend_offers_link_down(struct dlend_link *link)
{
	while (dlend_offer_cut(link))
		;
	dlend_p2p_link_down(link);
	dlend_place_link_down(link);
}

static bool dlend_asleep;	/* the host goes to sleep: nothing is borrowed */

/* Refuses while a guest here has a device; what only belongs to a guest is nothing to wait for. */
static int dlend_offers_suspend(void)
{
	struct dlend_offer *offer;
	int ret = 0;

	WRITE_ONCE(dlend_asleep, true);
	smp_mb(); /* pairs with dlend_offers_asleep(): one of the two sees the other */
	guard(mutex)(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node) {
		struct dlend_vdev *v = offer->vdev;

		if (!v || !(READ_ONCE(v->lease) || READ_ONCE(v->borrowing)))
			continue;
		dev_warn(dlend_vdev_dev(v), "this host does not suspend: a guest uses this device of node %u and would lose it; shut the guest down or unplug the device, and suspend then\n",
			 offer->addr.lender);
		ret = -EBUSY;
	}
	return ret;
}

static void dlend_offers_resume(void)
{
	WRITE_ONCE(dlend_asleep, false);
}

bool dlend_offers_asleep(void)
{
	smp_mb(); /* vdev->borrowing, noted before, against dlend_offers_suspend() */
	return READ_ONCE(dlend_asleep);
}

static struct dlend_link_user dlend_offers_user = {
	.name = "dlend_mdev",
	.link_up = dlend_offers_link_up,
	.link_down = dlend_offers_link_down,
	.message = dlend_offer_message,
	.suspend = dlend_offers_suspend,
	.resume = dlend_offers_resume,
	.side = DLEND_TO_BORROWER,
};

int dlend_offer_claim(struct dlend_offer *offer, struct dlend_vdev *v)
{
	guard(mutex)(&dlend_offers_lock);
	if (offer->dying || offer->withdrawn) {
		dev_warn(&offer->dev, "cannot create an mdev: node %u does not lend it any more\n",
			 offer->addr.lender);
		return -ENODEV;
	}
	if (offer->vdev) {
		dev_warn(&offer->dev, "cannot create an mdev: this node has one of it already (%s)\n",
			 dev_name(dlend_vdev_dev(offer->vdev)));
		return -EBUSY;
	}
	if (!offer->link) {
		dev_warn(&offer->dev, "cannot create an mdev: the link to node %u is down\n",
			 offer->addr.lender);
		return -ENODEV;
	}
	if (!offer->complete || offer->state != DLEND_OFFER_FREE) {
		dev_warn(&offer->dev, "cannot create an mdev: the device is %s (held by node %u); wait until it is free\n",
			 dlend_offer_state_name(offer->state), offer->holder);
		return -EBUSY;
	}
	offer->vdev = v;
	offer->announced = true;
	return 0;
}

void dlend_offer_release(struct dlend_offer *offer)
{
	mutex_lock(&dlend_offers_lock);
	offer->vdev = NULL;
	if (offer->withdrawn && !offer->dying)
		dlend_offer_kill(offer);
	mutex_unlock(&dlend_offers_lock);
}

struct dlend_link *dlend_offer_link(struct dlend_offer *offer)
{
	guard(mutex)(&dlend_offers_lock);
	return offer->link ? dlend_link_get(offer->link) : NULL;
}

void dlend_offer_return_stray(struct dlend_offer *offer)
{
	guard(mutex)(&dlend_offers_lock);
	if (!offer->dying && offer->link && offer->state == DLEND_OFFER_HELD &&
	    offer->holder == dlend_node_id())
		dlend_lease_return_stray(offer, offer->link, offer->epoch);
}

static struct dlend_beside dlend_offer_as_seen(const struct dlend_offer *other,
					       const struct dlend_vdev *v)
{
	const struct dlend_vdev *user = other->vdev;
	struct dlend_beside seen = { .leases = atomic_read(&other->leases) };

	if (user) {
		seen.same_vm = user->vmm == v->vmm;
		seen.leased = READ_ONCE(user->lease);
		seen.borrowing = READ_ONCE(user->borrowing);
	}
	return seen;
}

int dlend_offer_beside(struct dlend_offer *offer, struct dlend_vdev *v)
{
	struct dlend_offer *other;
	int ret = 0;

	guard(mutex)(&dlend_offers_lock);
	list_for_each_entry(other, &dlend_offers, node) {
		if (other == offer || other->addr.lender != offer->addr.lender ||
		    other->info.group != offer->info.group || ret == -EBUSY)
			continue;
		ret = dlend_plan_beside(dlend_offer_as_seen(other, v)) ?: ret;
	}
	return ret;
}

bool dlend_offer_lease_live(struct dlend_offer *offer, u32 epoch)
{
	guard(mutex)(&dlend_offers_lock);
	if (!offer->link || offer->withdrawn)
		return false;
	/* An older epoch there only means that the STATE of this grant is still to come. */
	return dlend_epoch_after(epoch, offer->epoch) ||
	       (offer->epoch == epoch && offer->state == DLEND_OFFER_HELD);
}

void dlend_offer_copy(struct dlend_offer *offer, struct dlend_offer_info *info, u8 *snapshot)
{
	guard(mutex)(&dlend_offers_lock);
	*info = offer->info;
	memcpy(snapshot, offer->snapshot, DLEND_CFG_SIZE);
}

int dlend_offers_init(void)
{
	int ret;

	dlend_offers_wq = alloc_ordered_workqueue("dlend-offers", 0);
	if (!dlend_offers_wq)
		return -ENOMEM;
	ret = dlend_link_user_register(&dlend_offers_user);
	if (ret)
		destroy_workqueue(dlend_offers_wq);
	return ret;
}

/* No VFIO file is open (it would hold the module), so unregistering ends. */
void dlend_offers_exit(void)
{
	struct dlend_offer *offer;

	dlend_link_user_unregister(&dlend_offers_user);
	mutex_lock(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node)
		if (!offer->dying)
			dlend_offer_kill(offer);
	mutex_unlock(&dlend_offers_lock);
	destroy_workqueue(dlend_offers_wq);
}
