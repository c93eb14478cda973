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
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include <dlend/compat.h>
#include <dlend/link.h>
#include <dlend/root.h>

#include "lender/fn.h"
#include "lender/group.h"
#include "lender/notes.h"
#include "lender/outbox.h"

/* The listeners lock: guards the listeners, their notes, what is withdrawn, and what is granted. */
static DEFINE_SPINLOCK(lend_listeners_lock);
/* Functions whose withdrawal a peer has not heard of yet; referenced. */
static LIST_HEAD(lend_outbox_gone);
/* struct lend_granted */
static LIST_HEAD(lend_outbox_granted);

/*
 * Where lent devices and this node's NTBs sit: where they join the root complex, and which of them
 * reach each other there, as borrowers decide on cliques by it; and the bridges above them, for
 * people on other nodes who ask what a transfer passes through (docs/paths.md).
 */

/* With both, a switch sends requests between devices below it up to the root complex. */
#define LEND_ACS_REDIRECT	(PCI_ACS_RR | PCI_ACS_CR)

static u8 lend_bridge_kind(struct pci_dev *bridge)
{
	if (!pci_is_pcie(bridge))
		return DLEND_BRIDGE_PCI;
	switch (pci_pcie_type(bridge)) {
	case PCI_EXP_TYPE_ROOT_PORT:
		return DLEND_BRIDGE_ROOT;
	case PCI_EXP_TYPE_UPSTREAM:
		return DLEND_BRIDGE_UP;
	case PCI_EXP_TYPE_DOWNSTREAM:
		return DLEND_BRIDGE_DOWN;
	default:
		return DLEND_BRIDGE_PCI;
	}
}

static bool lend_bridge_acs(struct pci_dev *bridge)
{
	int pos = pci_find_ext_capability(bridge, PCI_EXT_CAP_ID_ACS);
	u16 ctrl = 0;

	if (pos)
		pci_read_config_word(bridge, pos + PCI_ACS_CTRL, &ctrl);
	return (ctrl & LEND_ACS_REDIRECT) == LEND_ACS_REDIRECT;
}

/*
 * The next bridge above.  For a virtual function it is the one above its physical function: the
 * bus that Linux makes for virtual functions has no bridge of its own.
 */
static struct pci_dev *lend_bridge_above(struct pci_dev *pdev)
{
	return pci_upstream_bridge(pci_physfn(pdev));
}

/* Where a function sits.  @node: it is this node's end of a link to that node; 0: it is lent. */
static void lend_place_message(struct pci_dev *pdev, const struct dlend_root *root,
			       const struct dlend_addr *addr, u16 node, struct dlend_msg *msg)
{
	struct dlend_p_place *place;
	struct pci_dev *bridge;
	unsigned int depth = 0;

	place = dlend_msg_init(msg, DLEND_MSG_PLACE, addr, 0, sizeof(*place));
	place->node = cpu_to_le16(node);
	for (bridge = lend_bridge_above(pdev); bridge; bridge = lend_bridge_above(bridge))
		depth++;
	place->domain = cpu_to_le32(pci_domain_nr(pdev->bus));
	place->root_domain = cpu_to_le32(root->domain);
	place->island = cpu_to_le16(root->island);
	place->numa = cpu_to_le16(root->numa < 0 ? DLEND_ROOT_NO_NUMA : root->numa);
	place->payload = cpu_to_le16(root->payload);
	place->bus = root->bus;
	place->count = min(depth, DLEND_PLACE_MAX);
	for (bridge = lend_bridge_above(pdev); bridge; bridge = lend_bridge_above(bridge)) {
		struct dlend_p_bridge *b;

		if (depth-- > DLEND_PLACE_MAX)
			continue;
		b = &place->bridge[depth];
		b->bdf = cpu_to_le16(pci_dev_id(bridge));
		b->kind = lend_bridge_kind(bridge);
		b->flags = lend_bridge_acs(bridge) ? DLEND_BRIDGE_F_ACS : 0;
	}
}

/*
 * Lets requests of lent functions pass over links, where the hardware asks for that.
 *
 * A link is always told of all functions at once: what is bound here keeps its place, what is not
 * loses it, on each link that there is, and by whatever call comes next.  So nothing has to be
 * undone for a function that goes, and what could not be told is told again.
 *
 * Knows PCI ids, and those under which a function's requests may show; nothing of leases.
 */

/* Device and function numbers of a bus: the bits of pci_dev.dma_alias_mask. */
#define LEND_DEVFNS		256

/* Pauses before links are told again, each twice as long as the one before. */
#define LEND_ADMIT_PAUSE_MS	500
#define LEND_ADMIT_PAUSE_MAX_MS	60000

/* From finding out what is bound here until a link was told. */
static DEFINE_MUTEX(lend_admit_lock);
static struct dlend_requesters lend_admit_these;

static unsigned int lend_admit_pause_ms;

/*
 * The ids under which a function's requests may show.  Some devices use those of other functions,
 * too, and a bridge to conventional PCI puts its own id on what comes from there.  The kernel's
 * pci_for_each_dma_alias() is not for modules; of its special cases, this knows the ordinary ones.
 */
static void lend_admit_ids(struct pci_dev *pdev, unsigned long *ids)
{
	struct pci_dev *bridge;
	unsigned int devfn;

	__set_bit(pci_dev_id(pdev), ids);
	if (pdev->dma_alias_mask)
		for_each_set_bit(devfn, pdev->dma_alias_mask, LEND_DEVFNS)
			__set_bit(PCI_DEVID(pdev->bus->number, devfn), ids);
	for (bridge = pci_upstream_bridge(pdev); bridge; bridge = pci_upstream_bridge(bridge)) {
		if (pci_is_pcie(bridge) && pci_pcie_type(bridge) == PCI_EXP_TYPE_PCI_BRIDGE)
			__set_bit(PCI_DEVID(bridge->subordinate->number, 0), ids);
		else if (!pci_is_pcie(bridge))
			__set_bit(pci_dev_id(bridge), ids);
	}
}

/* What is bound here keeps its place.  Return: is @fn?  Admit lock. */
static bool lend_admit_gather(const struct lend_fn *fn)
{
	unsigned int count;
	struct lend_fn **all = lend_fn_all(&count);
	bool bound = false;

	memset(&lend_admit_these, 0, sizeof(lend_admit_these));
	while (count--) {
		bound |= all[count] == fn;
		lend_admit_ids(all[count]->pdev, lend_admit_these.keep);
		lend_fn_put(all[count]);
	}
	kfree(all);
	return bound;
}

/*
 * Let requests of a function pass over a link. Return: 0; -EAGAIN try again; or it cannot use this
 * link, and the log says why.
 */
static int lend_admit(const struct lend_fn *fn, struct dlend_link *link)
{
	int err;

	guard(mutex)(&lend_admit_lock);
	/* It goes, and nobody will hear of it. */
	if (!lend_admit_gather(fn))
		return 0;
	lend_admit_ids(fn->pdev, lend_admit_these.add);
	err = dlend_link_admit(link, &lend_admit_these);
	if (err == -ENOSPC)
		pci_err(fn->pdev, "not lent over link %s: it needs %u of the %u places in its switch's table of requesters, and %u are free; take other devices back, then it is lent by itself\n",
			dlend_link_name(link), lend_admit_these.needed, lend_admit_these.places,
			lend_admit_these.free);
	else if (err && err != -EAGAIN && err != -ENODEV)
		pci_err(fn->pdev, "not lent over link %s: its switch does not take it as a requester (%d)\n",
			dlend_link_name(link), err);
	return err;
}

/* Admit lock. */
static int lend_admit_tell(struct dlend_link *link, void *arg)
{
	int err = dlend_link_admit(link, &lend_admit_these);
	bool *again = arg;

	/* If the hardware goes, it was told that nothing passes any more. */
	*again |= err && err != -ENODEV;
	return 0;
}

static void lend_admit_work(struct work_struct *work)
{
	bool again = false;

	mutex_lock(&lend_admit_lock);
	lend_admit_gather(NULL);
	dlend_links_each(false, lend_admit_tell, &again);
	mutex_unlock(&lend_admit_lock);
	if (!again)
		return;
	queue_delayed_work(lend_wq, to_delayed_work(work),
			   msecs_to_jiffies(READ_ONCE(lend_admit_pause_ms)));
	WRITE_ONCE(lend_admit_pause_ms,
		   min(2 * READ_ONCE(lend_admit_pause_ms), LEND_ADMIT_PAUSE_MAX_MS));
}

static DECLARE_DELAYED_WORK(lend_admit_telling, lend_admit_work);

void lend_admit_end(void)
{
	WRITE_ONCE(lend_admit_pause_ms, LEND_ADMIT_PAUSE_MS);
	mod_delayed_work(lend_wq, &lend_admit_telling, 0);
}

void lend_admit_exit(void)
{
	flush_delayed_work(&lend_admit_telling);
	cancel_delayed_work_sync(&lend_admit_telling);
}

/**
 * struct lend_news - what there is to say about one function
 * @offer: (before lend_offer_read()) an offer is wanted; (after it) @msg is one, and @place, @set
 *	and the snapshot belong to it
 * @state: (before) a state is wanted; (after) @msg is one
 * @msg: OFFER or STATE
 * @place: where the function sits
 * @set: what it belongs to
 */
struct lend_news {
	bool offer, state;
	struct dlend_msg msg, place, set;
};

/*
 * What other nodes are told about functions and links here: the messages, made of the state as it
 * is at that moment.
 */

/* The offer lock: held while a function's state is read; nothing is read after lend_offer_end(). */
static DEFINE_MUTEX(lend_offer_lock);

/* The state, as @reader is told it. */
static void lend_offer_fill_state(const struct lend_fn *fn, const struct lend_lease *lease,
				  u16 reader, struct dlend_p_state *p)
{
	struct lend_for whom = { .node = reader };
	u16 state, holder;

	/* It is told of the VM beside the state, and knows which VMs it has. */
	memcpy(whom.vm, lease->reserved.vm, sizeof(whom.vm));
	state = lend_set_told(fn->group, lease, &whom, &holder);
	if (reader == lease->move.target)
		state |= DLEND_STATE_F_COMES;
	p->state = cpu_to_le16(state);
	p->holder = cpu_to_le16(holder);
	p->epoch = cpu_to_le32(lease->epoch);
	memcpy(p->vm, lease->reserved.vm, sizeof(p->vm));
}

static void lend_offer_fill(const struct lend_fn *fn, struct dlend_p_offer *offer)
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
	offer->clique = cpu_to_le16(READ_ONCE(fn->clique));
	offer->snapshot_crc = cpu_to_le32(fn->snapshot_crc);
	memcpy(offer->identity, fn->identity, sizeof(offer->identity));
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		offer->bar[i].size = cpu_to_le64(fn->bar[i].size);
		offer->bar[i].flags = cpu_to_le32(fn->bar[i].flags);
	}
}

static void lend_offer_message(const struct lend_fn *fn, u16 reader, struct dlend_msg *msg)
{
	struct dlend_p_offer *offer;
	struct lend_lease lease;

	lend_group_lease(fn->group, &lease);
	offer = dlend_msg_init(msg, DLEND_MSG_OFFER, &fn->addr, lease.epoch, sizeof(*offer));
	lend_offer_fill(fn, offer);
	lend_offer_fill_state(fn, &lease, reader, &offer->now);
}

/* Make the messages about a function as it is now. */
static void lend_offer_read(const struct lend_fn *fn, u16 reader, struct lend_news *news)
{
	struct lend_lease lease;
	struct dlend_root root;
	struct dlend_p_set *set;

	guard(mutex)(&lend_offer_lock);
	if (!lend_fn_is_offered(fn) || fn->gone) {
		news->offer = false;
		news->state = false;
	}
	if (news->offer) {
		lend_offer_message(fn, reader, &news->msg);
		dlend_root_of(fn->pdev, &root);
		lend_place_message(fn->pdev, &root, &fn->addr, DLEND_NODE_NONE, &news->place);
		set = dlend_msg_init(&news->set, DLEND_MSG_SET, &fn->addr, 0, sizeof(*set));
		lend_set_name(fn->group, set->name);
	} else if (news->state) {
		lend_group_lease(fn->group, &lease);
		lend_offer_fill_state(fn, &lease, reader,
				      dlend_msg_init(&news->msg, DLEND_MSG_STATE, &fn->addr,
						     lease.epoch, sizeof(struct dlend_p_state)));
	}
}

/* A function is not offered any more. */
static void lend_offer_end(struct lend_fn *fn)
{
	dlend_waits_for_no_peer(&lend_offer_lock);
	guard(mutex)(&lend_offer_lock);
	fn->gone = true;
}

/* Make the message with a piece of a function's configuration space. */
static void lend_offer_snapshot(const struct lend_fn *fn, u32 at, struct dlend_msg *msg)
{
	struct dlend_p_snapshot *piece;

	piece = dlend_msg_init(msg, DLEND_MSG_SNAPSHOT, &fn->addr, 0, sizeof(*piece));
	piece->offset = cpu_to_le16(at);
	memcpy(piece->data, fn->snapshot + at, DLEND_SNAPSHOT_PIECE);
}

/* A PEERS message that is being made; @skip: links to pass over; @more: not all have room. */
struct lend_offer_list {
	struct dlend_p_peers *peers;
	unsigned int skip;
	bool more;
};

static int lend_offer_add_peer(struct dlend_link *link, void *arg)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct lend_offer_list *list = arg;
	struct dlend_p_peers *peers = list->peers;
	u32 n = le32_to_cpu(peers->count);
	struct dlend_aperture_stat st;

	/* A guest of this node reaches devices of this node without a window. */
	if (!ap || dlend_link_peer(link) == dlend_node_id())
		return 0;
	if (list->skip) {
		list->skip--;
		return 0;
	}
	list->more = n == DLEND_PEERS_PER_MSG;
	if (list->more)
		return 1;
	dlend_aperture_stat(ap, &st);
	peers->peer[n].node = cpu_to_le16(dlend_link_peer(link));
	peers->peer[n].mib = cpu_to_le32(min_t(u64, st.p2p_limit >> 20, U32_MAX));
	peers->count = cpu_to_le32(n + 1);
	return 0;
}

/* What other borrowers have of that room, @reader cannot have. */
static void lend_offer_take_granted(struct dlend_p_peer *peer, u16 reader)
{
	u32 mib = le32_to_cpu(peer->mib);
	struct lend_granted *granted;
	u64 bytes = 0;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(granted, &lend_outbox_granted, node)
		if (granted->to == le16_to_cpu(peer->node) && granted->borrower != reader)
			bytes += granted->bytes;
	spin_unlock(&lend_listeners_lock);
	peer->mib = cpu_to_le32(mib - min_t(u64, mib, DIV_ROUND_UP_ULL(bytes, SZ_1M)));
}

/*
 * Make a message that names nodes to which this node has links. Return: true: another message has
 * to follow.
 */
static bool lend_offer_peers(u16 reader, unsigned int first, struct dlend_msg *msg)
{
	struct lend_offer_list list = { .skip = first };
	struct dlend_p_peers *peers;
	unsigned int i;

	peers = dlend_msg_init(msg, DLEND_MSG_PEERS, NULL, 0, sizeof(*peers));
	list.peers = peers;
	dlend_links_each(true, lend_offer_add_peer, &list);
	for (i = 0; i < le32_to_cpu(peers->count); i++)
		lend_offer_take_granted(&peers->peer[i], reader);
	/* No node has so many links: see LEND_LISTENERS_MAX. */
	if (first + DLEND_PEERS_PER_MSG >= DLEND_PEERS_MAX)
		list.more = false;
	peers->first = cpu_to_le16(first);
	peers->more = cpu_to_le16(list.more);
	return list.more;
}

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

static LIST_HEAD(lend_listeners);
static DECLARE_BITMAP(lend_listener_numbers, LEND_LISTENERS_MAX);

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

void lend_outbox_tell_group(struct lend_group *group, enum lend_tell what)
{
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		lend_outbox_tell(w.fn, what);
}

/* Listeners lock. */
static void lend_outbox_mark_peers(void)
{
	struct lend_listener *l;

	list_for_each_entry(l, &lend_listeners, node) {
		WRITE_ONCE(l->peers, true);
		queue_work(lend_wq, &l->work);
	}
}

void lend_outbox_tell_peers(void)
{
	spin_lock(&lend_listeners_lock);
	lend_outbox_mark_peers();
	spin_unlock(&lend_listeners_lock);
}

void lend_outbox_grant(struct lend_granted *granted)
{
	spin_lock(&lend_listeners_lock);
	list_add_tail(&granted->node, &lend_outbox_granted);
	lend_outbox_mark_peers();
	spin_unlock(&lend_listeners_lock);
}

void lend_outbox_ungrant(struct lend_granted *granted)
{
	spin_lock(&lend_listeners_lock);
	list_del(&granted->node);
	lend_outbox_mark_peers();
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
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		told = told && lend_listener_has_offer(w.fn, l);
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
	struct pci_dev *pdev = dlend_root_link_pdev(other);
	struct dlend_root root;
	struct dlend_addr addr;
	struct dlend_msg msg;
	bool found = pdev && dlend_root_of_link(other, &root);

	if (found) {
		addr = (struct dlend_addr){ .lender = dlend_node_id(), .bdf = pci_dev_id(pdev) };
		lend_place_message(pdev, &root, &addr, dlend_link_peer(other), &msg);
	}
	pci_dev_put(pdev);
	return found ? lend_listener_post(arg, &msg) : 0;
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
		ret = dlend_links_each(true, lend_listener_post_end, l);
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

/* A message about @fn that says nothing but its type. */
static int lend_listener_post_bare(struct lend_listener *l, const struct lend_fn *fn, u16 type,
				   u32 epoch)
{
	struct dlend_msg msg;

	dlend_msg_init(&msg, type, &fn->addr, epoch, 0);
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
		ret = lend_listener_post_bare(l, fn, DLEND_MSG_WITHDRAW, 0);
		if (!ret)
			lend_mark_take(fn, LEND_TELL_WITHDRAW, l);
		lend_fn_put(fn);
	}
	lend_outbox_reap();
	return ret;
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
		/* All peers hear it; only the holder of that lease has a use for it. */
		ret = lend_listener_post_bare(l, fn, DLEND_MSG_ERROR, READ_ONCE(fn->error_epoch));
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
