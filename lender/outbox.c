// SPDX-License-Identifier: GPL-2.0
/*
 * What peers still have to be told, and who posts it.
 *
 * A post waits for room in a ring.  So nobody posts while something must be fenced, or while
 * another node or an admin waits.  Instead, every link has a listener: a mark for each thing that
 * its peer has not heard yet, a list of notes, and a work item that posts.  A note is a message of
 * its own that has to arrive.  A mark only says what is to be told: the work item reads the state
 * as it is when it posts.  A mark whose message could not be posted stays.  So a slow peer hears
 * the current state, too, but later, and no other peer has to wait for it.
 *
 * Knows nothing of what offers and states say: offer.c makes these messages.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/slab.h>

#include <dlend/compat.h>

#include "lender/admit.h"
#include "lender/notes.h"
#include "lender/offer.h"
#include "lender/outbox.h"
#include "lender/place.h"
#include "lender/registry.h"

/* Each has a bit in every word of lend_fn.unheard.  No node has so many NTBs beside the loop. */
#define LEND_LISTENERS_MAX	BITS_PER_LONG
static_assert(LEND_LISTENERS_MAX - 1 <= DLEND_PEERS_MAX);

/* What a peer has to hear before the module goes. */
#define LEND_LISTENER_LAST_MS	1000
#define LEND_LISTENER_PAUSE_MS	10

/*
 * struct lend_listener - a link that is up, and what its peer has not heard yet
 * @node: in lend_listeners
 * @to: the link, referenced, and the session in which @work posts
 * @number: of the listener's bit in lend_fn.unheard
 * @saying: function whose offer is being posted, or whose offer could just not be posted (listeners
 *	lock)
 * @everything: the peer has to hear all offers, and what @peers stands for (listeners lock)
 * @peers: the peer has to hear to which nodes this node has links
 * @over: lend_outbox_close() waits: post nothing more
 * @notes: messages that have to arrive, in this order (listeners lock)
 * @waiting: how many
 * @work: posts
 */
struct lend_listener {
	struct list_head node;
	struct dlend_session_ref to;
	unsigned int number;
	const struct lend_fn *saying;
	bool everything, peers, over;
	struct list_head notes;
	struct lend_notes waiting;
	struct work_struct work;
};

/*
 * struct lend_note - a message that has to arrive
 * @node: in the listener's list
 * @session: of the listener's link, in which it has to arrive; when that is over it is dropped
 * @lost: it says that a map was lost
 * @msg: message
 */
struct lend_note {
	struct list_head node;
	u64 session;
	bool lost;
	struct dlend_msg msg;
};

/* The listeners lock: guards the listeners, their notes, and the list of what is withdrawn. */
static DEFINE_SPINLOCK(lend_listeners_lock);
static LIST_HEAD(lend_listeners);
static DECLARE_BITMAP(lend_listener_numbers, LEND_LISTENERS_MAX);
/* Functions whose withdrawal a peer has not heard of yet; referenced. */
static LIST_HEAD(lend_outbox_gone);

/* Marks */

/* Clear the mark: the peer counts as told.  Return: was the mark set? */
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

void lend_outbox_tell(struct lend_fn *fn, enum lend_tell what)
{
	spin_lock(&lend_listeners_lock);
	lend_mark_set_all(fn, what);
	spin_unlock(&lend_listeners_lock);
}

void lend_outbox_tell_group(struct lend_group *group)
{
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i])
			lend_outbox_tell(group->fn[i], LEND_TELL_STATE);
}

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
		if (l->to.link == link)
			return l;
	return NULL;
}

/* Listeners lock. */
static bool lend_listener_has_offer(const struct lend_fn *fn, const struct lend_listener *l)
{
	return l->saying != fn && !test_bit(l->number, &fn->unheard[LEND_TELL_OFFER]);
}

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

void lend_outbox_subscribe(struct dlend_link *link)
{
	struct lend_listener *l;

	spin_lock(&lend_listeners_lock);
	l = lend_listener_find(link);
	/* If there is no listener, the peer hears everything when the link comes up. */
	if (l) {
		l->everything = true;
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
}

void lend_outbox_tell_all(void)
{
	struct lend_listener *l;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(l, &lend_listeners, node) {
		l->everything = true;
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
}

void lend_outbox_tell_barred(void)
{
	unsigned int count;
	struct lend_fn **all = lend_fn_all(&count);
	struct lend_listener *l;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(l, &lend_listeners, node) {
		for (unsigned int i = 0; i < count; i++)
			if (test_bit(l->number, &all[i]->barred))
				lend_mark_set(all[i], LEND_TELL_OFFER, l);
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
	while (count--)
		lend_fn_put(all[count]);
	kfree(all);
}

/* Notes */

/* Listeners lock. */
static int lend_note_add(const struct dlend_link *link, struct lend_note *note)
{
	struct lend_listener *l = lend_listener_find(link);

	if (!l)
		return -ENOENT;
	if (!lend_notes_add(&l->waiting, note->lost))
		return -ENOBUFS;
	list_add_tail(&note->node, &l->notes);
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

void lend_outbox_note(struct dlend_link *link, const struct dlend_msg *msg)
{
	/* This must not fail: a slot of the peer may be in quarantine until the message arrives. */
	struct lend_note *note = kzalloc_obj(*note, GFP_KERNEL | __GFP_NOFAIL);
	struct dlend_session_ref now = { .link = link, .session = dlend_link_session(link) };
	int ret;

	note->session = now.session;
	note->msg = *msg;
	note->lost = le16_to_cpu(msg->type) == DLEND_MSG_P2P_LOST;
	ret = lend_note_try(link, note);
	if (ret == -ENOENT && now.session && dlend_session_live(&now)) {
		/* A peer may ask for something before link_up() was called here. */
		lend_outbox_open(link);
		ret = lend_note_try(link, note);
	}
	if (!ret)
		return;
	kfree(note);
	if (ret == -ENOBUFS)
		dlend_link_restart(&now, "peer takes no messages: too many wait for it");
}

/* The first note.  It stays in the list until it was posted, and only @l's work takes it out. */
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
	lend_notes_del(&l->waiting, note->lost);
	spin_unlock(&lend_listeners_lock);
	kfree(note);
}

/*
 * Posting, in the work of one listener.  Return of all that follow: 0; -ETIMEDOUT the peer takes no
 * message now; -ENOTCONN the session is over, or lend_outbox_close() waits.
 */

static int lend_listener_post(struct lend_listener *l, struct dlend_msg *msg)
{
	return READ_ONCE(l->over) ? -ENOTCONN : dlend_link_post_in(&l->to, msg);
}

static int lend_listener_say_notes(struct lend_listener *l)
{
	struct lend_note *note;
	int ret = 0;

	while (!ret && (note = lend_note_first(l))) {
		if (note->session == l->to.session)
			ret = lend_listener_post(l, &note->msg);
		if (!ret)
			lend_note_drop(l);
	}
	return ret;
}

/* Tell where this node's end of @other sits. */
static int lend_listener_post_end(struct dlend_link *other, void *arg)
{
	struct lend_listener *l = arg;
	struct dlend_msg msg;

	return lend_place_link_message(other, &msg) ? lend_listener_post(l, &msg) : 0;
}

/* Tell to which nodes this node has links, and where the ends of these links here sit. */
static int lend_listener_post_peers(struct lend_listener *l)
{
	unsigned int first = 0;
	struct dlend_msg msg;
	bool more = true;
	int ret = 0;

	for (; more && !ret; first += DLEND_PEERS_PER_MSG) {
		more = lend_offer_peers(dlend_link_peer(l->to.link), first, &msg);
		ret = lend_listener_post(l, &msg);
	}
	if (!ret && dlend_link_peer(l->to.link) != dlend_node_id())
		ret = dlend_link_for_each(lend_listener_post_end, l);
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

static int lend_listener_post_withdraw(struct lend_listener *l, const struct lend_fn *fn)
{
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_WITHDRAW, &fn->addr, 0, 0);
	return lend_listener_post(l, &msg);
}

/* A function whose withdrawal the peer has not heard, referenced; NULL: there is none. */
static struct lend_fn *lend_listener_next_gone(struct lend_listener *l)
{
	struct lend_fn *fn, *found = NULL;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(fn, &lend_outbox_gone, gone_node) {
		/* The mark stays until the post: a function without marks leaves the list. */
		if (!test_bit(l->number, &fn->unheard[LEND_TELL_WITHDRAW]))
			continue;
		kref_get(&fn->ref);
		found = fn;
		break;
	}
	spin_unlock(&lend_listeners_lock);
	return found;
}

/* Forget withdrawn functions once every peer has heard that. */
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

/* All peers hear it, as they hear all else; only the holder of that lease has a use for it. */
static int lend_listener_post_error(struct lend_listener *l, const struct lend_fn *fn)
{
	struct dlend_msg msg;

	dlend_msg_init(&msg, DLEND_MSG_ERROR, &fn->addr, READ_ONCE(fn->error_epoch), 0);
	return lend_listener_post(l, &msg);
}

static int lend_listener_post_snapshot(struct lend_listener *l, const struct lend_fn *fn)
{
	struct dlend_msg msg;
	int ret = 0;

	for (u32 at = 0; at < DLEND_CFG_SIZE && !ret; at += DLEND_SNAPSHOT_PIECE) {
		lend_offer_snapshot(fn, at, &msg);
		ret = lend_listener_post(l, &msg);
	}
	return ret;
}

static int lend_listener_post_news(struct lend_listener *l, const struct lend_fn *fn,
				   struct lend_news *news)
{
	int ret;

	if (!news->offer && !news->state)
		return 0;
	ret = lend_listener_post(l, &news->msg);
	if (ret || !news->offer)
		return ret;
	return lend_listener_post(l, &news->place) ?: lend_listener_post(l, &news->set) ?:
	       lend_listener_post_snapshot(l, fn);
}

/*
 * Take the mark of an offer.  lend_outbox_offers_told() still counts the offer as unheard until
 * lend_listener_offer_said().
 */
static bool lend_listener_take_offer(struct lend_listener *l, struct lend_fn *fn)
{
	bool offer;

	spin_lock(&lend_listeners_lock);
	offer = lend_mark_take(fn, LEND_TELL_OFFER, l);
	l->saying = offer ? fn : NULL;
	spin_unlock(&lend_listeners_lock);
	return offer;
}

/* The offer was posted, or its mark is set again. */
static void lend_listener_offer_said(struct lend_listener *l)
{
	spin_lock(&lend_listeners_lock);
	l->saying = NULL;
	spin_unlock(&lend_listeners_lock);
}

/* Take the marks of offer and state, and read what they stand for: an offer says the state, too. */
static void lend_listener_read(struct lend_listener *l, struct lend_fn *fn, struct lend_news *news)
{
	news->offer = lend_listener_take_offer(l, fn);
	news->state = lend_mark_take(fn, LEND_TELL_STATE, l) && !news->offer;
	lend_offer_read(fn, dlend_link_peer(l->to.link), news);
}

/*
 * Before a peer hears of a function, the hardware lets its requests pass.  If it does not, the peer
 * hears nothing of it.  Return: 0, or -EAGAIN.
 */
static int lend_listener_admit(struct lend_listener *l, struct lend_fn *fn, struct lend_news *news)
{
	int err = news->offer ? lend_admit(fn, l->to.link) : 0;

	if (err == -EAGAIN)
		return err;
	if (news->offer)
		assign_bit(l->number, &fn->barred, err);
	if (test_bit(l->number, &fn->barred)) {
		news->offer = false;
		news->state = false;
	}
	return 0;
}

static int lend_listener_say_fn(struct lend_listener *l, struct lend_fn *fn)
{
	struct lend_news news;
	int ret;

	lend_listener_read(l, fn, &news);
	ret = lend_listener_admit(l, fn, &news);
	/*
	 * lend_lease_error() marks the error before the end of the lease.  So the error is looked
	 * for after the state was read, and posted before it.
	 */
	if (!ret && lend_mark_take(fn, LEND_TELL_ERROR, l)) {
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

/* The listener */

/* Under the lock, so that nobody finds @everything cleared and the marks not yet set. */
static void lend_listener_mark_everything(struct lend_listener *l, struct lend_fn **all,
					  unsigned int count)
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
	/*
	 * If a function in @all has a name that another function had, the other one is in the list
	 * of withdrawn functions by now, and the peer has to hear of that first.
	 */
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

	l->to.session = dlend_link_session(l->to.link);
	ret = lend_listener_say_all(l, all, count);
	while (count--)
		lend_fn_put(all[count]);
	kfree(all);
	/*
	 * No pause: the post, or the switch, has waited already.  Without a session there is nobody
	 * to tell.
	 */
	if (ret == -ETIMEDOUT || ret == -EAGAIN)
		queue_work(lend_wq, &l->work);
}

void lend_outbox_open(struct dlend_link *link)
{
	struct lend_listener *l = kzalloc_obj(*l, GFP_KERNEL | __GFP_NOFAIL);
	bool there;

	l->to.link = dlend_link_get(link);
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
		dev_err(dlend_link_dev(link), "its peer is told of no offers: this node has more than %d links\n",
			LEND_LISTENERS_MAX - 1);
	dlend_link_put(link);
	kfree(l);
}

/* Listeners lock. Is there something that the peer must not miss? */
static bool lend_listener_owes(const struct lend_listener *l)
{
	const struct lend_fn *fn;

	if (l->waiting.all)
		return true;
	list_for_each_entry(fn, &lend_outbox_gone, gone_node)
		if (test_bit(l->number, &fn->unheard[LEND_TELL_WITHDRAW]))
			return true;
	return false;
}

/* A peer that takes messages has them soon; nobody waits for another one. */
static void lend_outbox_await_told(struct lend_listener *l)
{
	unsigned int waited;
	bool owes;

	for (waited = 0; waited < LEND_LISTENER_LAST_MS; waited += LEND_LISTENER_PAUSE_MS) {
		spin_lock(&lend_listeners_lock);
		owes = lend_listener_owes(l);
		spin_unlock(&lend_listeners_lock);
		if (!owes || !dlend_link_is_up(l->to.link))
			return;
		msleep(LEND_LISTENER_PAUSE_MS);
	}
}

void lend_outbox_close(struct dlend_link *link)
{
	struct lend_listener *l;
	struct lend_fn *fn;
	bool untold;

	spin_lock(&lend_listeners_lock);
	l = lend_listener_find(link);
	if (l)
		list_del(&l->node);
	spin_unlock(&lend_listeners_lock);
	if (!l)
		return;
	lend_outbox_await_told(l);
	/* The session may go on, so say that a post which was begun is the last one. */
	WRITE_ONCE(l->over, true);
	cancel_work_sync(&l->work);
	untold = l->waiting.all;
	while (l->waiting.all)
		lend_note_drop(l);
	spin_lock(&lend_listeners_lock);
	list_for_each_entry(fn, &lend_outbox_gone, gone_node)
		untold |= lend_mark_take(fn, LEND_TELL_WITHDRAW, l);
	__clear_bit(l->number, lend_listener_numbers);
	spin_unlock(&lend_listeners_lock);
	lend_outbox_reap();
	/* If the session is over anyway, this does nothing. */
	if (untold)
		dlend_link_restart(&l->to,
				   "the lender's module goes, and the peer has not heard that nothing is lent any more");
	dlend_link_put(l->to.link);
	kfree(l);
}

void lend_outbox_withdraw(struct lend_fn *fn)
{
	lend_offer_end(fn);
	kref_get(&fn->ref);
	spin_lock(&lend_listeners_lock);
	list_add_tail(&fn->gone_node, &lend_outbox_gone);
	lend_mark_set_all(fn, LEND_TELL_WITHDRAW);
	spin_unlock(&lend_listeners_lock);
	lend_outbox_reap();
}

void lend_outbox_exit(void)
{
	lend_outbox_reap();
	WARN_ON(!list_empty(&lend_outbox_gone) || !list_empty(&lend_listeners));
}
