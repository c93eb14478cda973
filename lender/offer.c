// SPDX-License-Identifier: GPL-2.0
/*
 * What other nodes are told: offers with their snapshots, and every change of state.
 *
 * Posting waits for room in a ring, so it is never done where something must be fenced, nor where
 * another node, or an admin, would wait for it.  Every link has a listener: a mark for each thing
 * that its peer has not heard yet, and a work item that reads the state as it is then and says
 * that.  A mark that could not be said stays; so a peer that takes its time hears the truth all
 * the same, late, and no other peer is later for it.
 */
#include <linux/bitmap.h>
#include <linux/slab.h>

#include "lender/lender.h"

/* More than a node has NTBs: each is a bit in every function's marks. */
#define LEND_LISTENERS_MAX	BITS_PER_LONG

/* Twice the grants that a peer may have: one that has not taken so many has to begin anew. */
#define LEND_NOTES_MAX		2048

/*
 * struct lend_listener - a link that is up, and what its peer has not heard yet
 * @number: bit in lend_fn.unheard
 * @session: of the link, while @work runs
 * @everything: all offers, and whom this node has links to (listeners lock)
 * @saying: function whose offer is on its way, or has just failed to be (listeners lock)
 * @peers: whom this node has links to
 * @over: lend_outbox_close() waits: nothing more is posted
 * @notes: in order: messages of which each has to arrive (listeners lock)
 */
struct lend_listener {
	struct list_head node;
	struct dlend_link *link;
	unsigned int number;
	u64 session;
	const struct lend_fn *saying;
	bool everything, peers, over;
	struct list_head notes;
	unsigned int nr_notes;
	struct work_struct work;
};

struct lend_note {
	struct list_head node;
	u64 session;		/* of one that is over, it is not said */
	struct dlend_msg msg;
};

/* What listeners there are, their notes, and functions whose end is not heard everywhere. */
static DEFINE_SPINLOCK(lend_listeners_lock);
static LIST_HEAD(lend_listeners);
static DECLARE_BITMAP(lend_listener_numbers, LEND_LISTENERS_MAX);
static LIST_HEAD(lend_outbox_gone);

/* The announcer reads a function's state; nothing is read of one that was withdrawn. */
static DEFINE_MUTEX(lend_offer_lock);

/* Marks */

static bool lend_mark_take(struct lend_fn *fn, unsigned int what, const struct lend_listener *l)
{
	return test_and_clear_bit(l->number, &fn->unheard[what]);
}

static void lend_mark_set(struct lend_fn *fn, unsigned int what, const struct lend_listener *l)
{
	set_bit(l->number, &fn->unheard[what]);
}

/* Listeners lock. */
static void lend_mark_set_all(struct lend_fn *fn, unsigned int what)
{
	struct lend_listener *l;

	list_for_each_entry(l, &lend_listeners, node) {
		lend_mark_set(fn, what, l);
		queue_work(lend_wq, &l->work);
	}
}

/** lend_outbox_tell - the announcer shall say @what (LEND_TELL_*) about @fn. Any process context. */
void lend_outbox_tell(struct lend_fn *fn, unsigned int what)
{
	spin_lock(&lend_listeners_lock);
	lend_mark_set_all(fn, what);
	spin_unlock(&lend_listeners_lock);
}

/** lend_outbox_tell_group - the lease changed. Group lock. */
void lend_outbox_tell_group(struct lend_group *group)
{
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i])
			lend_outbox_tell(group->fn[i], LEND_TELL_STATE);
}

/** lend_outbox_tell_peers - a link came or went: the announcer shall say so. Any process context. */
void lend_outbox_tell_peers(void)
{
	struct lend_listener *l;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(l, &lend_listeners, node) {
		WRITE_ONCE(l->peers, true);
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
}

/* Listeners lock. */
static struct lend_listener *lend_listener_find(const struct dlend_link *link)
{
	struct lend_listener *l;

	list_for_each_entry(l, &lend_listeners, node)
		if (l->link == link)
			return l;
	return NULL;
}

/* Listeners lock. */
static bool lend_listener_has_offer(const struct lend_fn *fn, const struct lend_listener *l)
{
	return l->saying != fn && !test_bit(l->number, &fn->unheard[LEND_TELL_OFFER]);
}

/**
 * lend_outbox_offers_told - were the offers of a group, as they are now, said to the peer of @link?
 * @group: group
 * @link: link
 *
 * Context: group lock.
 */
bool lend_outbox_offers_told(const struct lend_group *group, const struct dlend_link *link)
{
	const struct lend_listener *l;
	bool told;

	spin_lock(&lend_listeners_lock);
	l = lend_listener_find(link);
	told = l && !l->everything;
	for (unsigned int i = 0; told && i < LEND_GROUP_MAX; i++)
		told = !group->fn[i] || lend_listener_has_offer(group->fn[i], l);
	spin_unlock(&lend_listeners_lock);
	return told;
}

/** lend_outbox_subscribe - send every offer to @link, soon */
void lend_outbox_subscribe(struct dlend_link *link)
{
	struct lend_listener *l;

	spin_lock(&lend_listeners_lock);
	l = lend_listener_find(link);
	/* Not yet, or not any more: it hears everything when the link comes up. */
	if (l) {
		l->everything = true;
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
}

/* Listeners lock. */
static int lend_note_add(const struct dlend_link *link, struct lend_note *note)
{
	struct lend_listener *l = lend_listener_find(link);

	if (!l)
		return -ENOENT;
	if (l->nr_notes == LEND_NOTES_MAX)
		return -ENOBUFS;
	list_add_tail(&note->node, &l->notes);
	l->nr_notes++;
	queue_work(lend_wq, &l->work);
	return 0;
}

static int lend_note_try(const struct dlend_link *link, struct lend_note *note)
{
	int ret;

	spin_lock(&lend_listeners_lock);
	ret = lend_note_add(link, note);
	spin_unlock(&lend_listeners_lock);
	return ret;
}

/**
 * lend_outbox_note - a message shall arrive, behind all that were given to this before
 * @link: to whose peer
 * @msg: as for dlend_link_post()
 *
 * No memory is no excuse: somebody else's slot depends on it.  Nor is a peer that takes none: its
 * session ends, and with it what @msg is about.
 * Context: process, waits for no peer.
 */
void lend_outbox_note(struct dlend_link *link, const struct dlend_msg *msg)
{
	struct lend_note *note = kzalloc_obj(*note, GFP_KERNEL | __GFP_NOFAIL);
	struct dlend_session_ref now = { .link = link, .session = dlend_link_session(link) };
	int ret;

	note->session = now.session;
	note->msg = *msg;
	ret = lend_note_try(link, note);
	if (ret == -ENOENT && now.session) {
		/* A peer may ask for something before link_up() has come to us. */
		lend_outbox_open(link);
		ret = lend_note_try(link, note);
	}
	if (!ret)
		return;
	kfree(note);
	if (ret == -ENOBUFS)
		dlend_link_restart(&now, "peer takes no messages: too many wait for it");
}

/* Messages. All: 0; -ETIMEDOUT it takes none now; -ENOTCONN the session is over */

static int lend_listener_post(struct lend_listener *l, struct dlend_msg *msg)
{
	struct dlend_session_ref ref = { .link = l->link, .session = l->session };
	int ret;

	if (READ_ONCE(l->over))
		return -ENOTCONN;
	ret = dlend_link_post_in(&ref, msg);
	/* Not in the protocol that it speaks. */
	return ret == -EOPNOTSUPP ? 0 : ret;
}

static void lend_offer_state_message(const struct lend_fn *fn, struct dlend_msg *msg)
{
	struct dlend_p_state *state;
	struct lend_lease lease;

	lend_group_lease(fn->group, &lease);
	state = dlend_msg_init(msg, DLEND_MSG_STATE, &fn->addr, lease.epoch, sizeof(*state));
	state->state = cpu_to_le16(lease.state);
	state->holder = cpu_to_le16(lease.holder);
	state->epoch = cpu_to_le32(lease.epoch);
}

static void lend_offer_fill(const struct lend_fn *fn, const struct lend_lease *lease,
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
	offer->state = cpu_to_le16(lease->state);
	offer->holder = cpu_to_le16(lease->holder);
	offer->epoch = cpu_to_le32(lease->epoch);
	offer->snapshot_crc = cpu_to_le32(fn->snapshot_crc);
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		offer->bar[i].size = cpu_to_le64(fn->bar[i].size);
		offer->bar[i].flags = cpu_to_le32(fn->bar[i].flags);
	}
}

static void lend_offer_message(const struct lend_listener *l, const struct lend_fn *fn,
			       struct dlend_msg *msg)
{
	struct dlend_p_offer *offer;
	struct lend_lease lease;

	lend_group_lease(fn->group, &lease);
	offer = dlend_msg_init(msg, DLEND_MSG_OFFER, &fn->addr, lease.epoch, sizeof(*offer));
	lend_offer_fill(fn, &lease, offer);
	/* An older peer would drop the message. */
	if (dlend_link_version(l->link) >= DLEND_PROTO_CLIQUE)
		offer->clique = cpu_to_le16(READ_ONCE(fn->clique));
}

static int lend_listener_post_snapshot(struct lend_listener *l, const struct lend_fn *fn)
{
	struct dlend_p_snapshot *piece;
	struct dlend_msg msg;
	int ret = 0;

	for (u32 at = 0; at < DLEND_CFG_SIZE && !ret; at += DLEND_SNAPSHOT_PIECE) {
		piece = dlend_msg_init(&msg, DLEND_MSG_SNAPSHOT, &fn->addr, 0, sizeof(*piece));
		piece->offset = cpu_to_le16(at);
		memcpy(piece->data, fn->snapshot + at, DLEND_SNAPSHOT_PIECE);
		ret = lend_listener_post(l, &msg);
	}
	return ret;
}

/* To all, like the rest: only the holder of that lease has a use for it. */
static int lend_listener_post_error(struct lend_listener *l, const struct lend_fn *fn)
{
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_ERROR, &fn->addr, READ_ONCE(fn->error_epoch), 0);
	return lend_listener_post(l, &msg);
}

static int lend_listener_post_withdraw(struct lend_listener *l, const struct lend_fn *fn)
{
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_WITHDRAW, &fn->addr, 0, 0);
	return lend_listener_post(l, &msg);
}

static int lend_offer_add_peer(struct dlend_link *link, void *arg)
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

struct lend_end {
	struct lend_listener *l;
	int ret;
};

/* Where this node's end of @other sits. */
static int lend_listener_post_end(struct dlend_link *other, void *arg)
{
	struct lend_end *end = arg;
	struct dlend_msg msg;

	if (lend_bridges_link_message(other, &msg))
		end->ret = lend_listener_post(end->l, &msg);
	return end->ret;
}

/* Whom this node has links to, and where their ends here sit. */
static int lend_listener_post_peers(struct lend_listener *l)
{
	struct lend_end end = { .l = l };
	struct dlend_p_peers *peers;
	struct dlend_msg msg;

	peers = dlend_msg_init(&msg, DLEND_MSG_PEERS, NULL, 0, sizeof(*peers));
	dlend_link_for_each(lend_offer_add_peer, peers);
	end.ret = lend_listener_post(l, &msg);
	if (!end.ret && dlend_link_peer(l->link) != dlend_node_id())
		dlend_link_for_each(lend_listener_post_end, &end);
	return end.ret;
}

/* The announcer of one link */

/* The next one that waits, which stays there until it was said: nobody else takes it away. */
static struct lend_note *lend_note_first(struct lend_listener *l)
{
	struct lend_note *note;

	spin_lock(&lend_listeners_lock);
	note = list_first_entry_or_null(&l->notes, struct lend_note, node);
	spin_unlock(&lend_listeners_lock);
	return note;
}

static void lend_note_drop(struct lend_listener *l)
{
	struct lend_note *note;

	spin_lock(&lend_listeners_lock);
	note = list_first_entry(&l->notes, struct lend_note, node);
	list_del(&note->node);
	l->nr_notes--;
	spin_unlock(&lend_listeners_lock);
	kfree(note);
}

static int lend_listener_say_notes(struct lend_listener *l)
{
	struct lend_note *note;
	int ret = 0;

	while (!ret && (note = lend_note_first(l))) {
		if (note->session == l->session)
			ret = lend_listener_post(l, &note->msg);
		if (!ret)
			lend_note_drop(l);
	}
	return ret;
}

static int lend_listener_say_peers(struct lend_listener *l)
{
	int ret;

	if (!xchg(&l->peers, false))
		return 0;
	ret = lend_listener_post_peers(l);
	if (ret)
		WRITE_ONCE(l->peers, true);
	return ret;
}

/* One that @l has not heard the end of, referenced. */
static struct lend_fn *lend_listener_next_gone(struct lend_listener *l)
{
	struct lend_fn *fn, *found = NULL;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(fn, &lend_outbox_gone, gone_node) {
		/* Marked until it was said: with its last mark a function leaves the list. */
		if (!test_bit(l->number, &fn->unheard[LEND_TELL_WITHDRAW]))
			continue;
		kref_get(&fn->ref);
		found = fn;
		break;
	}
	spin_unlock(&lend_listeners_lock);
	return found;
}

/* Forget those that nobody is left to be told of. */
static void lend_outbox_reap(void)
{
	struct lend_fn *fn, *next;
	LIST_HEAD(heard);

	spin_lock(&lend_listeners_lock);
	list_for_each_entry_safe(fn, next, &lend_outbox_gone, gone_node)
		if (!fn->unheard[LEND_TELL_WITHDRAW])
			list_move(&fn->gone_node, &heard);
	spin_unlock(&lend_listeners_lock);
	list_for_each_entry_safe(fn, next, &heard, gone_node) {
		list_del_init(&fn->gone_node);
		lend_fn_put(fn);
	}
}

static int lend_listener_say_gone(struct lend_listener *l)
{
	struct lend_fn *fn;
	int ret = 0;

	while (!ret && (fn = lend_listener_next_gone(l))) {
		ret = lend_listener_post_withdraw(l, fn);
		if (!ret)
			lend_mark_take(fn, LEND_TELL_WITHDRAW, l);
		lend_fn_put(fn);
	}
	lend_outbox_reap();
	return ret;
}

/*
 * struct lend_news - what there is to say about one function
 * @offer: @msg is an offer, with @place and a snapshot; @state: it is a state; else nothing
 */
struct lend_news {
	bool offer, state;
	struct dlend_msg msg, place;
};

/* Takes the mark of an offer; lend_outbox_offers_told() takes it for unheard until lend_listener_offer_said(). */
static bool lend_listener_take_offer(struct lend_listener *l, struct lend_fn *fn)
{
	bool offer;

	spin_lock(&lend_listeners_lock);
	offer = lend_mark_take(fn, LEND_TELL_OFFER, l);
	l->saying = offer ? fn : NULL;
	spin_unlock(&lend_listeners_lock);
	return offer;
}

/* The mark is back by now, if it could not be said. */
static void lend_listener_offer_said(struct lend_listener *l)
{
	spin_lock(&lend_listeners_lock);
	l->saying = NULL;
	spin_unlock(&lend_listeners_lock);
}

/* The state as it is now; nothing, if it is not offered, or not any more. */
static void lend_listener_read(struct lend_listener *l, struct lend_fn *fn, struct lend_news *news)
{
	news->offer = lend_listener_take_offer(l, fn);
	news->state = lend_mark_take(fn, LEND_TELL_STATE, l) && !news->offer;
	mutex_lock(&lend_offer_lock);
	if (!fn->ready || fn->gone) {
		news->offer = false;
		news->state = false;
	}
	if (news->offer) {
		lend_offer_message(l, fn, &news->msg);
		lend_bridges_fn_message(fn, &news->place);
	} else if (news->state) {
		lend_offer_state_message(fn, &news->msg);
	}
	mutex_unlock(&lend_offer_lock);
}

static int lend_listener_post_news(struct lend_listener *l, const struct lend_fn *fn, struct lend_news *news)
{
	int ret = 0;

	if (news->offer || news->state)
		ret = lend_listener_post(l, &news->msg);
	if (!ret && news->offer)
		ret = lend_listener_post(l, &news->place);
	if (!ret && news->offer)
		ret = lend_listener_post_snapshot(l, fn);
	return ret;
}

static int lend_listener_say_fn(struct lend_listener *l, struct lend_fn *fn)
{
	struct lend_news news;
	int ret = 0;

	lend_listener_read(l, fn, &news);
	/* Looked for last, and said first: lend_lease_error() tells of it before the lease's end. */
	if (lend_mark_take(fn, LEND_TELL_ERROR, l)) {
		ret = lend_listener_post_error(l, fn);
		if (ret)
			lend_mark_set(fn, LEND_TELL_ERROR, l);
	}
	if (!ret)
		ret = lend_listener_post_news(l, fn, &news);
	if (ret && news.offer)
		lend_mark_set(fn, LEND_TELL_OFFER, l);
	if (ret && news.state)
		lend_mark_set(fn, LEND_TELL_STATE, l);
	lend_listener_offer_said(l);
	return ret;
}

/* Under the lock, so that nobody finds the one gone and the others not there yet. */
static void lend_listener_mark_everything(struct lend_listener *l, struct lend_fn **all, unsigned int count)
{
	spin_lock(&lend_listeners_lock);
	if (l->everything) {
		l->everything = false;
		WRITE_ONCE(l->peers, true);
		for (unsigned int i = 0; i < count; i++)
			lend_mark_set(all[i], LEND_TELL_OFFER, l);
	}
	spin_unlock(&lend_listeners_lock);
}

static int lend_listener_say_all(struct lend_listener *l, struct lend_fn **all, unsigned int count)
{
	int ret;

	lend_listener_mark_everything(l, all, count);
	ret = lend_listener_say_notes(l);
	if (!ret)
		ret = lend_listener_say_peers(l);
	/* Who has a name that another one had before is in @all only if that one is gone by now. */
	if (!ret)
		ret = lend_listener_say_gone(l);
	for (unsigned int i = 0; i < count && !ret; i++)
		ret = lend_listener_say_fn(l, all[i]);
	return ret;
}

static void lend_listener_work(struct work_struct *work)
{
	struct lend_listener *l = container_of(work, struct lend_listener, work);
	unsigned int count;
	struct lend_fn **all = lend_fn_all(&count);
	int ret;

	l->session = dlend_link_session(l->link);
	ret = lend_listener_say_all(l, all, count);
	while (count--)
		lend_fn_put(all[count]);
	kfree(all);
	/* It has waited long enough already.  Without a session nobody has to hear it. */
	if (ret == -ETIMEDOUT)
		queue_work(lend_wq, &l->work);
}

/** lend_outbox_open - @link is up: its peer hears everything, and all news from now on. Process context */
void lend_outbox_open(struct dlend_link *link)
{
	struct lend_listener *l = kzalloc_obj(*l, GFP_KERNEL | __GFP_NOFAIL);
	bool there;

	l->link = dlend_link_get(link);
	l->everything = true;
	INIT_LIST_HEAD(&l->notes);
	INIT_WORK(&l->work, lend_listener_work);
	spin_lock(&lend_listeners_lock);
	there = lend_listener_find(link);
	l->number = find_first_zero_bit(lend_listener_numbers, LEND_LISTENERS_MAX);
	if (!there && l->number < LEND_LISTENERS_MAX) {
		__set_bit(l->number, lend_listener_numbers);
		list_add_tail(&l->node, &lend_listeners);
		queue_work(lend_wq, &l->work);
		spin_unlock(&lend_listeners_lock);
		return;
	}
	spin_unlock(&lend_listeners_lock);
	if (!there)
		dev_err(dlend_link_dev(link), "its peer hears of no offers: this node has more than %d links\n",
			LEND_LISTENERS_MAX);
	dlend_link_put(link);
	kfree(l);
}

/**
 * lend_outbox_close - nothing is said to the peer of @link when this returns
 * @link: is down, or nobody lends over it any more
 *
 * Where the link is up, one post is waited for; a peer that takes no messages lets it time out.
 */
void lend_outbox_close(struct dlend_link *link)
{
	struct lend_listener *l;
	struct lend_fn *fn;

	spin_lock(&lend_listeners_lock);
	l = lend_listener_find(link);
	if (l)
		list_del(&l->node);
	spin_unlock(&lend_listeners_lock);
	if (!l)
		return;
	/* The session may go on: a post that was begun is the last one. */
	WRITE_ONCE(l->over, true);
	cancel_work_sync(&l->work);
	while (l->nr_notes)
		lend_note_drop(l);
	spin_lock(&lend_listeners_lock);
	list_for_each_entry(fn, &lend_outbox_gone, gone_node)
		lend_mark_take(fn, LEND_TELL_WITHDRAW, l);
	__clear_bit(l->number, lend_listener_numbers);
	spin_unlock(&lend_listeners_lock);
	lend_outbox_reap();
	dlend_link_put(l->link);
	kfree(l);
}

/**
 * lend_outbox_withdraw - the offer is gone, nothing is said about it any more
 * @fn: function
 *
 * Nothing of the function's device is touched by the announcer when this returns.  Waits for no
 * peer.
 */
void lend_outbox_withdraw(struct lend_fn *fn)
{
	mutex_lock(&lend_offer_lock);
	fn->gone = true;
	mutex_unlock(&lend_offer_lock);
	kref_get(&fn->ref);
	spin_lock(&lend_listeners_lock);
	list_add_tail(&fn->gone_node, &lend_outbox_gone);
	lend_mark_set_all(fn, LEND_TELL_WITHDRAW);
	spin_unlock(&lend_listeners_lock);
	lend_outbox_reap();
}

/** lend_outbox_exit - no link calls any more, no function is bound: all of it has gone by now */
void lend_outbox_exit(void)
{
	lend_outbox_reap();
	WARN_ON(!list_empty(&lend_outbox_gone) || !list_empty(&lend_listeners));
}
