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
#define DL_LISTENERS_MAX	BITS_PER_LONG

/* Twice the grants that a peer may have: one that has not taken so many has to begin anew. */
#define DL_NOTES_MAX		2048

/*
 * struct dl_listener - a link that is up, and what its peer has not heard yet
 * @number: bit in dl_fn.unheard
 * @session: of the link, while @work runs
 * @everything: all offers, and whom this node has links to (listeners lock)
 * @saying: function whose offer is on its way, or has just failed to be (listeners lock)
 * @peers: whom this node has links to
 * @over: dl_unlisten() waits: nothing more is posted
 * @notes: in order: messages of which each has to arrive (listeners lock)
 */
struct dl_listener {
	struct list_head node;
	struct dlend_link *link;
	unsigned int number;
	u64 session;
	const struct dl_fn *saying;
	bool everything, peers, over;
	struct list_head notes;
	unsigned int nr_notes;
	struct work_struct work;
};

struct dl_note {
	struct list_head node;
	u64 session;		/* of one that is over, it is not said */
	struct dlend_msg msg;
};

/* What listeners there are, their notes, and functions whose end is not heard everywhere. */
static DEFINE_SPINLOCK(dl_listeners_lock);
static LIST_HEAD(dl_listeners);
static DECLARE_BITMAP(dl_numbers, DL_LISTENERS_MAX);
static LIST_HEAD(dl_gone);

/* The announcer reads a function's state; nothing is read of one that was withdrawn. */
static DEFINE_MUTEX(dl_state_lock);

/* Marks */

static bool dl_heard(struct dl_fn *fn, unsigned int what, const struct dl_listener *l)
{
	return test_and_clear_bit(l->number, &fn->unheard[what]);
}

static void dl_unheard(struct dl_fn *fn, unsigned int what, const struct dl_listener *l)
{
	set_bit(l->number, &fn->unheard[what]);
}

/* Listeners lock. */
static void dl_tell_all(struct dl_fn *fn, unsigned int what)
{
	struct dl_listener *l;

	list_for_each_entry(l, &dl_listeners, node) {
		dl_unheard(fn, what, l);
		queue_work(dl_wq, &l->work);
	}
}

/** dl_tell - the announcer shall say @what (DL_TELL_*) about @fn. Any process context. */
void dl_tell(struct dl_fn *fn, unsigned int what)
{
	spin_lock(&dl_listeners_lock);
	dl_tell_all(fn, what);
	spin_unlock(&dl_listeners_lock);
}

/** dl_tell_group - the lease changed. Group lock. */
void dl_tell_group(struct dl_group *group)
{
	for (unsigned int i = 0; i < DL_GROUP_MAX; i++)
		if (group->fn[i])
			dl_tell(group->fn[i], DL_TELL_STATE);
}

/** dl_tell_peers - a link came or went: the announcer shall say so. Any process context. */
void dl_tell_peers(void)
{
	struct dl_listener *l;

	spin_lock(&dl_listeners_lock);
	list_for_each_entry(l, &dl_listeners, node) {
		WRITE_ONCE(l->peers, true);
		queue_work(dl_wq, &l->work);
	}
	spin_unlock(&dl_listeners_lock);
}

/* Listeners lock. */
static struct dl_listener *dl_listener_of(const struct dlend_link *link)
{
	struct dl_listener *l;

	list_for_each_entry(l, &dl_listeners, node)
		if (l->link == link)
			return l;
	return NULL;
}

/* Listeners lock. */
static bool dl_offer_told(const struct dl_fn *fn, const struct dl_listener *l)
{
	return l->saying != fn && !test_bit(l->number, &fn->unheard[DL_TELL_OFFER]);
}

/**
 * dl_offers_told - were the offers of a group, as they are now, said to the peer of @link?
 * @group: group
 * @link: link
 *
 * Context: group lock.
 */
bool dl_offers_told(const struct dl_group *group, const struct dlend_link *link)
{
	const struct dl_listener *l;
	bool told;

	spin_lock(&dl_listeners_lock);
	l = dl_listener_of(link);
	told = l && !l->everything;
	for (unsigned int i = 0; told && i < DL_GROUP_MAX; i++)
		told = !group->fn[i] || dl_offer_told(group->fn[i], l);
	spin_unlock(&dl_listeners_lock);
	return told;
}

/** dl_subscribe - send every offer to @link, soon */
void dl_subscribe(struct dlend_link *link)
{
	struct dl_listener *l;

	spin_lock(&dl_listeners_lock);
	l = dl_listener_of(link);
	/* Not yet, or not any more: it hears everything when the link comes up. */
	if (l) {
		l->everything = true;
		queue_work(dl_wq, &l->work);
	}
	spin_unlock(&dl_listeners_lock);
}

/* Listeners lock. */
static int dl_add_note(const struct dlend_link *link, struct dl_note *note)
{
	struct dl_listener *l = dl_listener_of(link);

	if (!l)
		return -ENOENT;
	if (l->nr_notes == DL_NOTES_MAX)
		return -ENOBUFS;
	list_add_tail(&note->node, &l->notes);
	l->nr_notes++;
	queue_work(dl_wq, &l->work);
	return 0;
}

static int dl_try_note(const struct dlend_link *link, struct dl_note *note)
{
	int ret;

	spin_lock(&dl_listeners_lock);
	ret = dl_add_note(link, note);
	spin_unlock(&dl_listeners_lock);
	return ret;
}

/**
 * dl_note - a message shall arrive, behind all that were given to this before
 * @link: to whose peer
 * @msg: as for dlend_link_post()
 *
 * No memory is no excuse: somebody else's slot depends on it.  Nor is a peer that takes none: its
 * session ends, and with it what @msg is about.
 * Context: process, waits for no peer.
 */
void dl_note(struct dlend_link *link, const struct dlend_msg *msg)
{
	struct dl_note *note = kzalloc_obj(*note, GFP_KERNEL | __GFP_NOFAIL);
	struct dlend_session_ref now = { .link = link, .session = dlend_link_session(link) };
	int ret;

	note->session = now.session;
	note->msg = *msg;
	ret = dl_try_note(link, note);
	if (ret == -ENOENT && now.session) {
		/* A peer may ask for something before link_up() has come to us. */
		dl_listen(link);
		ret = dl_try_note(link, note);
	}
	if (!ret)
		return;
	kfree(note);
	if (ret == -ENOBUFS)
		dlend_link_restart(&now, "peer takes no messages: too many wait for it");
}

/* Messages. All: 0; -ETIMEDOUT it takes none now; -ENOTCONN the session is over */

static int dl_post(struct dl_listener *l, struct dlend_msg *msg)
{
	struct dlend_session_ref ref = { .link = l->link, .session = l->session };
	int ret;

	if (READ_ONCE(l->over))
		return -ENOTCONN;
	ret = dlend_link_post_in(&ref, msg);
	/* Not in the protocol that it speaks. */
	return ret == -EOPNOTSUPP ? 0 : ret;
}

static void dl_state_message(const struct dl_fn *fn, struct dlend_msg *msg)
{
	struct dlend_p_state *state;
	struct dl_lease lease;

	dl_lease_snapshot(fn->group, &lease);
	state = dlend_msg_init(msg, DLEND_MSG_STATE, &fn->addr, lease.epoch, sizeof(*state));
	state->state = cpu_to_le16(lease.state);
	state->holder = cpu_to_le16(lease.holder);
	state->epoch = cpu_to_le32(lease.epoch);
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
	offer->state = cpu_to_le16(lease->state);
	offer->holder = cpu_to_le16(lease->holder);
	offer->epoch = cpu_to_le32(lease->epoch);
	offer->snapshot_crc = cpu_to_le32(fn->snapshot_crc);
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		offer->bar[i].size = cpu_to_le64(fn->bar[i].size);
		offer->bar[i].flags = cpu_to_le32(fn->bar[i].flags);
	}
}

static void dl_offer_message(const struct dl_listener *l, const struct dl_fn *fn,
			     struct dlend_msg *msg)
{
	struct dlend_p_offer *offer;
	struct dl_lease lease;

	dl_lease_snapshot(fn->group, &lease);
	offer = dlend_msg_init(msg, DLEND_MSG_OFFER, &fn->addr, lease.epoch, sizeof(*offer));
	dl_fill_offer(fn, &lease, offer);
	/* An older peer would drop the message. */
	if (dlend_link_version(l->link) >= DLEND_PROTO_CLIQUE)
		offer->clique = cpu_to_le16(READ_ONCE(fn->clique));
}

static int dl_post_snapshot(struct dl_listener *l, const struct dl_fn *fn)
{
	struct dlend_p_snapshot *piece;
	struct dlend_msg msg;
	int ret = 0;

	for (u32 at = 0; at < DLEND_CFG_SIZE && !ret; at += DLEND_SNAPSHOT_PIECE) {
		piece = dlend_msg_init(&msg, DLEND_MSG_SNAPSHOT, &fn->addr, 0, sizeof(*piece));
		piece->offset = cpu_to_le16(at);
		memcpy(piece->data, fn->snapshot + at, DLEND_SNAPSHOT_PIECE);
		ret = dl_post(l, &msg);
	}
	return ret;
}

/* To all, like the rest: only the holder of that lease has a use for it. */
static int dl_post_error(struct dl_listener *l, const struct dl_fn *fn)
{
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_ERROR, &fn->addr, READ_ONCE(fn->error_epoch), 0);
	return dl_post(l, &msg);
}

static int dl_post_withdraw(struct dl_listener *l, const struct dl_fn *fn)
{
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_WITHDRAW, &fn->addr, 0, 0);
	return dl_post(l, &msg);
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

struct dl_end {
	struct dl_listener *l;
	int ret;
};

/* Where this node's end of @other sits. */
static int dl_post_end(struct dlend_link *other, void *arg)
{
	struct dl_end *end = arg;
	struct dlend_msg msg;

	if (dl_end_message(other, &msg))
		end->ret = dl_post(end->l, &msg);
	return end->ret;
}

/* Whom this node has links to, and where their ends here sit. */
static int dl_post_peers(struct dl_listener *l)
{
	struct dl_end end = { .l = l };
	struct dlend_p_peers *peers;
	struct dlend_msg msg;

	peers = dlend_msg_init(&msg, DLEND_MSG_PEERS, NULL, 0, sizeof(*peers));
	dlend_link_for_each(dl_add_peer, peers);
	end.ret = dl_post(l, &msg);
	if (!end.ret && dlend_link_peer(l->link) != dlend_node_id())
		dlend_link_for_each(dl_post_end, &end);
	return end.ret;
}

/* The announcer of one link */

/* The next one that waits, which stays there until it was said: nobody else takes it away. */
static struct dl_note *dl_next_note(struct dl_listener *l)
{
	struct dl_note *note;

	spin_lock(&dl_listeners_lock);
	note = list_first_entry_or_null(&l->notes, struct dl_note, node);
	spin_unlock(&dl_listeners_lock);
	return note;
}

static void dl_drop_note(struct dl_listener *l)
{
	struct dl_note *note;

	spin_lock(&dl_listeners_lock);
	note = list_first_entry(&l->notes, struct dl_note, node);
	list_del(&note->node);
	l->nr_notes--;
	spin_unlock(&dl_listeners_lock);
	kfree(note);
}

static int dl_say_notes(struct dl_listener *l)
{
	struct dl_note *note;
	int ret = 0;

	while (!ret && (note = dl_next_note(l))) {
		if (note->session == l->session)
			ret = dl_post(l, &note->msg);
		if (!ret)
			dl_drop_note(l);
	}
	return ret;
}

static int dl_say_peers(struct dl_listener *l)
{
	int ret;

	if (!xchg(&l->peers, false))
		return 0;
	ret = dl_post_peers(l);
	if (ret)
		WRITE_ONCE(l->peers, true);
	return ret;
}

/* One that @l has not heard the end of, referenced. */
static struct dl_fn *dl_next_gone(struct dl_listener *l)
{
	struct dl_fn *fn, *found = NULL;

	spin_lock(&dl_listeners_lock);
	list_for_each_entry(fn, &dl_gone, gone_node) {
		/* Marked until it was said: with its last mark a function leaves the list. */
		if (!test_bit(l->number, &fn->unheard[DL_TELL_WITHDRAW]))
			continue;
		kref_get(&fn->ref);
		found = fn;
		break;
	}
	spin_unlock(&dl_listeners_lock);
	return found;
}

/* Forget those that nobody is left to be told of. */
static void dl_reap_gone(void)
{
	struct dl_fn *fn, *next;
	LIST_HEAD(heard);

	spin_lock(&dl_listeners_lock);
	list_for_each_entry_safe(fn, next, &dl_gone, gone_node)
		if (!fn->unheard[DL_TELL_WITHDRAW])
			list_move(&fn->gone_node, &heard);
	spin_unlock(&dl_listeners_lock);
	list_for_each_entry_safe(fn, next, &heard, gone_node) {
		list_del_init(&fn->gone_node);
		dl_fn_put(fn);
	}
}

static int dl_say_gone(struct dl_listener *l)
{
	struct dl_fn *fn;
	int ret = 0;

	while (!ret && (fn = dl_next_gone(l))) {
		ret = dl_post_withdraw(l, fn);
		if (!ret)
			dl_heard(fn, DL_TELL_WITHDRAW, l);
		dl_fn_put(fn);
	}
	dl_reap_gone();
	return ret;
}

/*
 * struct dl_news - what there is to say about one function
 * @offer: @msg is an offer, with @place and a snapshot; @state: it is a state; else nothing
 */
struct dl_news {
	bool offer, state;
	struct dlend_msg msg, place;
};

/* Takes the mark of an offer; dl_offers_told() takes it for unheard until dl_said_offer(). */
static bool dl_say_offer(struct dl_listener *l, struct dl_fn *fn)
{
	bool offer;

	spin_lock(&dl_listeners_lock);
	offer = dl_heard(fn, DL_TELL_OFFER, l);
	l->saying = offer ? fn : NULL;
	spin_unlock(&dl_listeners_lock);
	return offer;
}

/* The mark is back by now, if it could not be said. */
static void dl_said_offer(struct dl_listener *l)
{
	spin_lock(&dl_listeners_lock);
	l->saying = NULL;
	spin_unlock(&dl_listeners_lock);
}

/* The state as it is now; nothing, if it is not offered, or not any more. */
static void dl_read_state(struct dl_listener *l, struct dl_fn *fn, struct dl_news *news)
{
	news->offer = dl_say_offer(l, fn);
	news->state = dl_heard(fn, DL_TELL_STATE, l) && !news->offer;
	mutex_lock(&dl_state_lock);
	if (!fn->ready || fn->gone) {
		news->offer = false;
		news->state = false;
	}
	if (news->offer) {
		dl_offer_message(l, fn, &news->msg);
		dl_place_message(fn, &news->place);
	} else if (news->state) {
		dl_state_message(fn, &news->msg);
	}
	mutex_unlock(&dl_state_lock);
}

static int dl_post_news(struct dl_listener *l, const struct dl_fn *fn, struct dl_news *news)
{
	int ret = 0;

	if (news->offer || news->state)
		ret = dl_post(l, &news->msg);
	if (!ret && news->offer)
		ret = dl_post(l, &news->place);
	if (!ret && news->offer)
		ret = dl_post_snapshot(l, fn);
	return ret;
}

static int dl_say_fn(struct dl_listener *l, struct dl_fn *fn)
{
	struct dl_news news;
	int ret = 0;

	dl_read_state(l, fn, &news);
	/* Looked for last, and said first: dl_lease_error() tells of it before the lease's end. */
	if (dl_heard(fn, DL_TELL_ERROR, l)) {
		ret = dl_post_error(l, fn);
		if (ret)
			dl_unheard(fn, DL_TELL_ERROR, l);
	}
	if (!ret)
		ret = dl_post_news(l, fn, &news);
	if (ret && news.offer)
		dl_unheard(fn, DL_TELL_OFFER, l);
	if (ret && news.state)
		dl_unheard(fn, DL_TELL_STATE, l);
	dl_said_offer(l);
	return ret;
}

/* Under the lock, so that nobody finds the one gone and the others not there yet. */
static void dl_mark_everything(struct dl_listener *l, struct dl_fn **all, unsigned int count)
{
	spin_lock(&dl_listeners_lock);
	if (l->everything) {
		l->everything = false;
		WRITE_ONCE(l->peers, true);
		for (unsigned int i = 0; i < count; i++)
			dl_unheard(all[i], DL_TELL_OFFER, l);
	}
	spin_unlock(&dl_listeners_lock);
}

static int dl_say_all(struct dl_listener *l, struct dl_fn **all, unsigned int count)
{
	int ret;

	dl_mark_everything(l, all, count);
	ret = dl_say_notes(l);
	if (!ret)
		ret = dl_say_peers(l);
	/* Who has a name that another one had before is in @all only if that one is gone by now. */
	if (!ret)
		ret = dl_say_gone(l);
	for (unsigned int i = 0; i < count && !ret; i++)
		ret = dl_say_fn(l, all[i]);
	return ret;
}

static void dl_announce(struct work_struct *work)
{
	struct dl_listener *l = container_of(work, struct dl_listener, work);
	unsigned int count;
	struct dl_fn **all = dl_fn_all(&count);
	int ret;

	l->session = dlend_link_session(l->link);
	ret = dl_say_all(l, all, count);
	while (count--)
		dl_fn_put(all[count]);
	kfree(all);
	/* It has waited long enough already.  Without a session nobody has to hear it. */
	if (ret == -ETIMEDOUT)
		queue_work(dl_wq, &l->work);
}

/** dl_listen - @link is up: its peer hears everything, and all news from now on. Process context */
void dl_listen(struct dlend_link *link)
{
	struct dl_listener *l = kzalloc_obj(*l, GFP_KERNEL | __GFP_NOFAIL);
	bool there;

	l->link = dlend_link_get(link);
	l->everything = true;
	INIT_LIST_HEAD(&l->notes);
	INIT_WORK(&l->work, dl_announce);
	spin_lock(&dl_listeners_lock);
	there = dl_listener_of(link);
	l->number = find_first_zero_bit(dl_numbers, DL_LISTENERS_MAX);
	if (!there && l->number < DL_LISTENERS_MAX) {
		__set_bit(l->number, dl_numbers);
		list_add_tail(&l->node, &dl_listeners);
		queue_work(dl_wq, &l->work);
		spin_unlock(&dl_listeners_lock);
		return;
	}
	spin_unlock(&dl_listeners_lock);
	if (!there)
		dev_err(dlend_link_dev(link), "its peer hears of no offers: this node has more than %d links\n",
			DL_LISTENERS_MAX);
	dlend_link_put(link);
	kfree(l);
}

/**
 * dl_unlisten - nothing is said to the peer of @link when this returns
 * @link: is down, or nobody lends over it any more
 *
 * Where the link is up, one post is waited for; a peer that takes no messages lets it time out.
 */
void dl_unlisten(struct dlend_link *link)
{
	struct dl_listener *l;
	struct dl_fn *fn;

	spin_lock(&dl_listeners_lock);
	l = dl_listener_of(link);
	if (l)
		list_del(&l->node);
	spin_unlock(&dl_listeners_lock);
	if (!l)
		return;
	/* The session may go on: a post that was begun is the last one. */
	WRITE_ONCE(l->over, true);
	cancel_work_sync(&l->work);
	while (l->nr_notes)
		dl_drop_note(l);
	spin_lock(&dl_listeners_lock);
	list_for_each_entry(fn, &dl_gone, gone_node)
		dl_heard(fn, DL_TELL_WITHDRAW, l);
	__clear_bit(l->number, dl_numbers);
	spin_unlock(&dl_listeners_lock);
	dl_reap_gone();
	dlend_link_put(l->link);
	kfree(l);
}

/**
 * dl_withdraw - the offer is gone, nothing is said about it any more
 * @fn: function
 *
 * Nothing of the function's device is touched by the announcer when this returns.  Waits for no
 * peer.
 */
void dl_withdraw(struct dl_fn *fn)
{
	mutex_lock(&dl_state_lock);
	fn->gone = true;
	mutex_unlock(&dl_state_lock);
	kref_get(&fn->ref);
	spin_lock(&dl_listeners_lock);
	list_add_tail(&fn->gone_node, &dl_gone);
	dl_tell_all(fn, DL_TELL_WITHDRAW);
	spin_unlock(&dl_listeners_lock);
	dl_reap_gone();
}

/** dl_offer_exit - no link calls any more, no function is bound: all of it has gone by now */
void dl_offer_exit(void)
{
	dl_reap_gone();
	WARN_ON(!list_empty(&dl_gone) || !list_empty(&dl_listeners));
}
