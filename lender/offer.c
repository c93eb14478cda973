// SPDX-License-Identifier: GPL-2.0
/*
 * What other nodes are told: offers with their snapshots, and every change of state.
 *
 * Posting waits for room in a ring, so it is never done where something must be fenced: whoever
 * has news leaves a mark, and one work item reads the state as it is then and says that.  It says
 * it in order, so that no old state overtakes a new one.
 */
#include <linux/slab.h>

#include "lender/lender.h"

/* One announcement at a time, and none about a function that was withdrawn. */
static DEFINE_MUTEX(dl_announce_lock);

/* Links that want to hear everything. */
struct dl_subscriber {
	struct list_head node;
	struct dlend_link *link;
};

static DEFINE_SPINLOCK(dl_subscribers_lock);
static LIST_HEAD(dl_subscribers);

static unsigned long dl_peers_news;	/* bit 0: links have changed */

static void dl_announce(struct work_struct *work);
static DECLARE_WORK(dl_announce_work, dl_announce);

/** dl_tell - the announcer shall say @what (DL_TELL_*) about @fn. Any process context. */
void dl_tell(struct dl_fn *fn, unsigned int what)
{
	set_bit(what, &fn->tell);
	queue_work(dl_wq, &dl_announce_work);
}

/** dl_tell_group - the lease changed. Group lock. */
void dl_tell_group(struct dl_group *group)
{
	for (unsigned int i = 0; i < DL_GROUP_MAX; i++)
		if (group->fn[i])
			dl_tell(group->fn[i], DL_TELL_STATE);
}

static enum dlend_offer_state dl_fn_state(const struct dl_fn *fn, const struct dl_lease *lease)
{
	return fn->broken && lease->state == DLEND_OFFER_FREE ? DLEND_OFFER_QUARANTINED :
								lease->state;
}

static int dl_post_state(struct dlend_link *link, void *arg)
{
	struct dl_fn *fn = arg;
	struct dlend_p_state *state;
	struct dl_lease lease;
	struct dlend_msg msg;

	dl_lease_snapshot(fn->group, &lease);
	state = dlend_msg_init(&msg, DLEND_MSG_STATE, &fn->addr, lease.epoch, sizeof(*state));
	state->state = cpu_to_le16(dl_fn_state(fn, &lease));
	state->holder = cpu_to_le16(lease.holder);
	state->epoch = cpu_to_le32(lease.epoch);
	dlend_link_post(link, &msg);
	return 0;
}

static void dl_fill_offer(const struct dl_fn *fn, const struct dl_lease *lease,
			  struct dlend_p_offer *offer)
{
	u32 flags = 0;

	if (fn->isolated_msi)
		flags |= DLEND_OFFER_F_ISOLATED_MSI;
	if (fn->pdev->is_virtfn)
		flags |= DLEND_OFFER_F_VF;
	offer->vendor = cpu_to_le16(fn->pdev->vendor);
	offer->device = cpu_to_le16(fn->pdev->device);
	offer->class = cpu_to_le32(fn->pdev->class);
	offer->flags = cpu_to_le32(flags);
	offer->group_size = cpu_to_le16(fn->group->members);
	offer->group = cpu_to_le16(fn->group->number);
	offer->nr_msi = cpu_to_le16(fn->nr_msi);
	offer->nr_msix = cpu_to_le16(fn->nr_msix);
	offer->has_intx = cpu_to_le16(fn->has_intx);
	offer->state = cpu_to_le16(dl_fn_state(fn, lease));
	offer->holder = cpu_to_le16(lease->holder);
	offer->epoch = cpu_to_le32(lease->epoch);
	offer->snapshot_crc = cpu_to_le32(fn->snapshot_crc);
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		offer->bar[i].size = cpu_to_le64(fn->bar[i].size);
		offer->bar[i].flags = cpu_to_le32(fn->bar[i].flags);
	}
}

static int dl_post_snapshot(struct dlend_link *link, struct dl_fn *fn)
{
	struct dlend_p_snapshot *piece;
	struct dlend_msg msg;
	int ret = 0;

	for (u32 at = 0; at < DLEND_CFG_SIZE && !ret; at += DLEND_SNAPSHOT_PIECE) {
		piece = dlend_msg_init(&msg, DLEND_MSG_SNAPSHOT, &fn->addr, 0, sizeof(*piece));
		piece->offset = cpu_to_le16(at);
		memcpy(piece->data, fn->snapshot + at, DLEND_SNAPSHOT_PIECE);
		ret = dlend_link_post(link, &msg);
	}
	return ret;
}

static int dl_post_offer(struct dlend_link *link, void *arg)
{
	struct dl_fn *fn = arg;
	struct dlend_p_offer *offer;
	struct dl_lease lease;
	struct dlend_msg msg;
	int ret;

	dl_lease_snapshot(fn->group, &lease);
	offer = dlend_msg_init(&msg, DLEND_MSG_OFFER, &fn->addr, lease.epoch, sizeof(*offer));
	dl_fill_offer(fn, &lease, offer);
	/* An older peer would drop the message. */
	if (dlend_link_version(link) >= DLEND_PROTO_CLIQUE)
		offer->clique = cpu_to_le16(READ_ONCE(fn->clique));
	ret = dlend_link_post(link, &msg);
	if (!ret) {
		dl_post_place(link, fn);
		ret = dl_post_snapshot(link, fn);
	}
	if (ret)
		pci_warn(fn->pdev, "node %u could not be told of the offer (%d); it will ask again\n",
			 dlend_link_peer(link), ret);
	return 0;
}

/* To all, like the rest: only the holder of that lease has a use for it. */
static int dl_post_error(struct dlend_link *link, void *arg)
{
	struct dl_fn *fn = arg;
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_ERROR, &fn->addr, READ_ONCE(fn->error_epoch), 0);
	dlend_link_post(link, &msg);
	return 0;
}

static int dl_post_withdraw(struct dlend_link *link, void *arg)
{
	struct dl_fn *fn = arg;
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_WITHDRAW, &fn->addr, 0, 0);
	dlend_link_post(link, &msg);
	return 0;
}

/* Once is enough: a peer that asks without end shall not fill this host's memory. */
static bool dl_add_subscriber(struct dl_subscriber *sub)
{
	struct dl_subscriber *other;
	bool waits = false;

	spin_lock(&dl_subscribers_lock);
	list_for_each_entry(other, &dl_subscribers, node)
		waits |= other->link == sub->link;
	if (!waits)
		list_add_tail(&sub->node, &dl_subscribers);
	spin_unlock(&dl_subscribers_lock);
	return !waits;
}

/** dl_subscribe - send every offer to @link, soon */
void dl_subscribe(struct dlend_link *link)
{
	struct dl_subscriber *sub = kzalloc_obj(*sub);

	if (!sub)
		return;		/* the allocator has complained; the peer will ask again */
	sub->link = dlend_link_get(link);
	if (!dl_add_subscriber(sub)) {
		dlend_link_put(link);
		kfree(sub);
	}
	queue_work(dl_wq, &dl_announce_work);
}

static int dl_add_peer(struct dlend_link *link, void *arg)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct dlend_p_peers *peers = arg;
	u32 n = le32_to_cpu(peers->count);
	struct dlend_aperture_stat st;

	/* A guest here reaches what is here without any window. */
	if (!ap || dlend_link_peer(link) == dlend_node_id())
		return 0;
	dlend_aperture_stat(ap, &st);
	peers->peer[n].node = cpu_to_le16(dlend_link_peer(link));
	peers->peer[n].mib = cpu_to_le32(min_t(u64, st.p2p_limit >> 20, U32_MAX));
	peers->count = cpu_to_le32(n + 1);
	return n + 1 == DLEND_PEERS_PER_MSG;
}

/* Whom this node has links to. */
static int dl_post_peers(struct dlend_link *link, void *arg)
{
	struct dlend_p_peers *peers;
	struct dlend_msg msg;

	peers = dlend_msg_init(&msg, DLEND_MSG_PEERS, NULL, 0, sizeof(*peers));
	dlend_link_for_each(dl_add_peer, peers);
	dlend_link_post(link, &msg);
	dl_post_ends(link);
	return 0;
}

/** dl_tell_peers - a link came or went: the announcer shall say so. Any process context. */
void dl_tell_peers(void)
{
	set_bit(0, &dl_peers_news);
	queue_work(dl_wq, &dl_announce_work);
}

/* Everything to those who asked until now: who asks again meanwhile comes after all other news. */
static void dl_serve_subscribers(struct dl_fn **all, unsigned int count, bool leaving)
{
	struct dl_subscriber *sub, *next;
	LIST_HEAD(asked);

	spin_lock(&dl_subscribers_lock);
	list_splice_init(&dl_subscribers, &asked);
	spin_unlock(&dl_subscribers_lock);
	list_for_each_entry_safe(sub, next, &asked, node) {
		if (!leaving)
			dl_post_peers(sub->link, NULL);
		for (unsigned int i = 0; i < count; i++) {
			mutex_lock(&dl_announce_lock);
			if (all[i]->ready && !all[i]->gone && dlend_link_is_up(sub->link))
				dl_post_offer(sub->link, all[i]);
			mutex_unlock(&dl_announce_lock);
		}
		dlend_link_put(sub->link);
		kfree(sub);
	}
}

/* News about one function to everybody. */
static void dl_serve_news(struct dl_fn *fn)
{
	bool offer = test_and_clear_bit(DL_TELL_OFFER, &fn->tell);
	bool state = test_and_clear_bit(DL_TELL_STATE, &fn->tell);
	/* Looked for last, and said first: dl_lease_error() tells of it before the lease's end. */
	bool error = test_and_clear_bit(DL_TELL_ERROR, &fn->tell);

	mutex_lock(&dl_announce_lock);
	if (fn->ready && !fn->gone) {
		if (error)
			dlend_link_for_each(dl_post_error, fn);
		if (offer)
			dlend_link_for_each(dl_post_offer, fn);
		else if (state)
			dlend_link_for_each(dl_post_state, fn);
	}
	mutex_unlock(&dl_announce_lock);
}

static void dl_announce(struct work_struct *work)
{
	unsigned int count;
	struct dl_fn **all = dl_fn_all(&count);

	if (test_and_clear_bit(0, &dl_peers_news))
		dlend_link_for_each(dl_post_peers, NULL);
	dl_serve_subscribers(all, count, false);
	for (unsigned int i = 0; i < count; i++) {
		dl_serve_news(all[i]);
		dl_fn_put(all[i]);
	}
	kfree(all);
}

/** dl_withdraw - the offer is gone, nothing is said about it any more */
void dl_withdraw(struct dl_fn *fn)
{
	mutex_lock(&dl_announce_lock);
	fn->gone = true;
	dlend_link_for_each(dl_post_withdraw, fn);
	mutex_unlock(&dl_announce_lock);
}

/** dl_offer_exit - no link calls any more, no function is bound */
void dl_offer_exit(void)
{
	cancel_work_sync(&dl_announce_work);
	dl_serve_subscribers(NULL, 0, true);
}
