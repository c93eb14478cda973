// SPDX-License-Identifier: GPL-2.0
/*
 * Messages that the lender posts to peers by itself, not as the reply to a request.
 *
 * To post a message means to wait for room in the peer's ring.  So code that fences a device, or
 * for which another node or an admin waits, must not post.  Instead, every link that is up has a
 * listener (struct lend_listener), whose work item posts.  There are two ways to have something
 * posted:
 *
 *	mark	a bit in lend_fn.unsent, for a function, a kind of news and a listener, or
 *		lend_listener.peers.  The work item makes the message when it posts it, from the
 *		state at that time.  If it could not be posted, the mark is set again
 *	note	a message in lend_listener.notes (struct lend_pending_msg).  It has to arrive, and
 *		notes arrive in the order in which they were queued
 *
 * So a slow peer gets fewer messages, but the last state, and no other peer waits for it.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <dlend/compat.h>
#include <dlend/root.h>

#include "lender/lender.h"
#include "lender/pending.h"

/*
 * The listeners lock: guards the list of listeners, their numbers and notes, and
 * lend_notify_granted.  It also makes lend_notify_offers_done() and the marks of offers consistent;
 * other marks change by atomic bit operations alone.
 */
static DEFINE_SPINLOCK(lend_listeners_lock);
/* Grants of this node, struct lend_granted (listeners lock). */
static LIST_HEAD(lend_notify_granted);

/*
 * PLACE messages say where lent devices and this node's NTBs sit: at which root bus, and in which
 * peer-to-peer domain, as borrowers compute cliques from it; and the bridges above each, for people
 * on other nodes who ask what a transfer passes through (docs/paths.md).
 */

/* ACS P2P Request and Completion Redirect: requests between devices of a switch go to the root. */
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

/* Has the bridge LEND_ACS_REDIRECT turned on? */
static bool lend_bridge_acs(struct pci_dev *bridge)
{
	int pos = pci_find_ext_capability(bridge, PCI_EXT_CAP_ID_ACS);
	u16 ctrl = 0;

	if (pos)
		pci_read_config_word(bridge, pos + PCI_ACS_CTRL, &ctrl);
	return (ctrl & LEND_ACS_REDIRECT) == LEND_ACS_REDIRECT;
}

/*
 * The next bridge above a function, or NULL; no reference is taken.  For a virtual function it is
 * the one above its physical function: a bus that Linux adds for virtual functions has no bridge.
 */
static struct pci_dev *lend_bridge_above(struct pci_dev *pdev)
{
	return pci_upstream_bridge(pci_physfn(pdev));
}

/*
 * Make a PLACE message.  @node: @pdev is the NTB of a link to that node; 0: @pdev is a lent
 * function.  If there are more than DLEND_PLACE_MAX bridges above, those next to the root are in
 * the message.
 */
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
	place->p2p_domain = cpu_to_le16(root->p2p_domain);
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
 * Some NTBs have a table of requester IDs, and let only requests with these IDs pass over the link
 * (dlend_link_set_requesters()).
 *
 * Each call has the IDs of all functions that are bound: these stay in the table, and all others
 * are removed.  So nothing has to be undone when a function is unbound, and a call that failed is
 * simply made again.
 */

/* Device and function numbers of a bus: the bits of pci_dev.dma_alias_mask. */
#define LEND_DEVFNS		256

/* Pauses in ms before links' tables are set again, each twice as long as the one before. */
#define LEND_REQUESTERS_PAUSE_MS	500
#define LEND_REQUESTERS_PAUSE_MAX_MS	60000

/*
 * The requesters lock: held from the search for functions that are bound until the table of a link
 * was set, so that no older list replaces a newer one.  Guards lend_requesters.
 */
static DEFINE_MUTEX(lend_requesters_lock);
/* Too large for a stack. */
static struct dlend_requesters lend_requesters;

/* The next pause (no lock). */
static unsigned int lend_requesters_pause_ms;

/*
 * Set a bit in @ids for each requester ID that requests of a function may have.  Some devices use
 * the IDs of other functions, too (pci_dev.dma_alias_mask), and a bridge to conventional PCI puts
 * its own ID on requests from behind it.  The kernel's pci_for_each_dma_alias() is not exported to
 * modules; this covers the same cases but quirks of single bridges.
 */
static void lend_requesters_ids(struct pci_dev *pdev, unsigned long *ids)
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

/*
 * Fill lend_requesters.keep with the IDs of all functions that are bound, and clear the rest.
 * Requesters lock.  Return: @fn, which may be NULL, is one of them.
 */
static bool lend_requesters_gather(const struct lend_fn *fn)
{
	unsigned int count;
	struct lend_fn **all = lend_fn_all(&count);
	bool bound = false;

	memset(&lend_requesters, 0, sizeof(lend_requesters));
	for (unsigned int i = 0; i < count; i++) {
		bound |= all[i] == fn;
		lend_requesters_ids(all[i]->pdev, lend_requesters.keep);
	}
	lend_fns_put(all, count);
	return bound;
}

/*
 * Let requests of a function pass over a link.  Takes the requesters lock.  Return: 0: they pass,
 * or the function is being unbound; -EAGAIN try again; any other error: the function cannot use
 * this link, and a message says why, unless the link is gone (-ENODEV).
 */
static int lend_requesters_add(const struct lend_fn *fn, struct dlend_link *link)
{
	int err;

	guard(mutex)(&lend_requesters_lock);
	/* The function is being unbound, and is not offered any more. */
	if (!lend_requesters_gather(fn))
		return 0;
	lend_requesters_ids(fn->pdev, lend_requesters.add);
	err = dlend_link_set_requesters(link, &lend_requesters);
	if (err == -ENOSPC)
		pci_err(fn->pdev, "not lent over link %s: it needs %u of the %u places in its switch's table of requesters, and %u are free; take other devices back, then it is lent by itself\n",
			dlend_link_name(link), lend_requesters.needed, lend_requesters.places,
			lend_requesters.free);
	else if (err && err != -EAGAIN && err != -ENODEV)
		pci_err(fn->pdev, "not lent over link %s: its switch does not take it as a requester (%d)\n",
			dlend_link_name(link), err);
	return err;
}

/*
 * Callback of dlend_links_each(): set *@arg (bool) if the table has to be set again.  Requesters
 * lock.
 */
static int lend_requesters_set_link(struct dlend_link *link, void *arg)
{
	int err = dlend_link_set_requesters(link, &lend_requesters);
	bool *again = arg;

	/* -ENODEV: the link's hardware is being removed, and lets no requests pass any more. */
	*again |= err && err != -ENODEV;
	return 0;
}

/* Set the tables of all links, up or not, to the functions that are bound. */
static void lend_requesters_work(struct work_struct *work)
{
	bool again = false;

	mutex_lock(&lend_requesters_lock);
	lend_requesters_gather(NULL);
	/* false: also links that are down. */
	dlend_links_each(false, lend_requesters_set_link, &again);
	mutex_unlock(&lend_requesters_lock);
	if (!again)
		return;
	queue_delayed_work(lend_wq, to_delayed_work(work),
			   msecs_to_jiffies(READ_ONCE(lend_requesters_pause_ms)));
	WRITE_ONCE(lend_requesters_pause_ms,
		   min(2 * READ_ONCE(lend_requesters_pause_ms), LEND_REQUESTERS_PAUSE_MAX_MS));
}

static DECLARE_DELAYED_WORK(lend_requesters_dwork, lend_requesters_work);

/**
 * struct lend_news - messages about one function, for one peer
 * @offer: before lend_offer_read(): make an OFFER; after it: @msg is an OFFER, and is followed by
 *	@place, @set, and the SNAPSHOT messages
 * @state: before lend_offer_read(): make a STATE; after it: @msg is a STATE
 * @msg: OFFER or STATE message
 * @place: PLACE message
 * @set: SET message
 */
struct lend_news {
	bool offer, state;
	struct dlend_msg msg, place, set;
};

/* Messages about functions and links of this node, made from the state at the time of the call. */

/*
 * The offer lock: held while a function and its PCI device are read for a message.  When
 * lend_notify_withdraw() has set lend_fn.gone under it, they are not read any more.
 */
static DEFINE_MUTEX(lend_offer_lock);

/* Fill in the state of a function's group for the node @reader.  @lease: copy of the lease. */
static void lend_offer_fill_state(const struct lend_fn *fn, const struct lend_lease *lease,
				  u16 reader, struct dlend_p_state *p)
{
	struct lend_for whom = { .node = reader };
	u16 state, holder;

	/*
	 * If the group is reserved for a VM, the message names that VM, and the reader decides
	 * whether it has the VM.  So the state is made for a node that has it.
	 */
	memcpy(whom.vm, lease->reserved.vm, sizeof(whom.vm));
	state = lend_set_state_for(fn->group, lease, &whom, &holder);
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

/*
 * Make the messages that @news asks for, for the node @reader; none if the function is not offered,
 * or was withdrawn.  Takes the offer lock and the set lock.
 */
static void lend_offer_read(const struct lend_fn *fn, u16 reader, struct lend_news *news)
{
	struct dlend_p_offer *offer;
	struct dlend_p_state *state;
	struct lend_lease lease;
	struct dlend_root root;
	struct dlend_p_set *set;

	guard(mutex)(&lend_offer_lock);
	if (!lend_fn_is_offered(fn) || fn->gone) {
		news->offer = false;
		news->state = false;
	}
	if (!news->offer && !news->state)
		return;
	lend_group_lease(fn->group, &lease);
	if (news->offer) {
		offer = dlend_msg_init(&news->msg, DLEND_MSG_OFFER, &fn->addr, lease.epoch,
				       sizeof(*offer));
		lend_offer_fill(fn, offer);
		state = &offer->now;
		dlend_root_of(fn->pdev, &root);
		lend_place_message(fn->pdev, &root, &fn->addr, DLEND_NODE_NONE, &news->place);
		set = dlend_msg_init(&news->set, DLEND_MSG_SET, &fn->addr, 0, sizeof(*set));
		lend_set_name(fn->group, set->name);
	} else {
		state = dlend_msg_init(&news->msg, DLEND_MSG_STATE, &fn->addr, lease.epoch,
				       sizeof(*state));
	}
	lend_offer_fill_state(fn, &lease, reader, state);
}

/* The nodes to which this node has links, as PEERS for the node @reader lists them. */
struct lend_peer_list {
	u16 reader;
	unsigned int count;
	struct dlend_p_peer peer[DLEND_PEERS_MAX];
};

/* What grants for borrowers other than @reader take of the aperture towards @to, in MiB. */
static u64 lend_peer_list_granted(u16 to, u16 reader)
{
	struct lend_granted *granted;
	u64 bytes = 0;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(granted, &lend_notify_granted, node)
		if (granted->to == to && granted->borrower != reader)
			bytes += granted->bytes;
	spin_unlock(&lend_listeners_lock);
	return DIV_ROUND_UP_ULL(bytes, SZ_1M);
}

/* Callback of dlend_links_each(): add the peer of a link to the list @arg; 1 ends the walk. */
static int lend_peer_list_add(struct dlend_link *link, void *arg)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	u16 node = dlend_link_peer(link);
	struct lend_peer_list *peers = arg;
	u64 mib;

	/* A guest of this node reaches devices of this node without a window. */
	if (!ap || node == dlend_node_id())
		return 0;
	/* No node has so many links: see LEND_LISTENERS_MAX. */
	if (peers->count == DLEND_PEERS_MAX)
		return 1;
	mib = min_t(u64, dlend_aperture_stat(ap).p2p_limit >> 20, U32_MAX);
	mib -= min(mib, lend_peer_list_granted(node, peers->reader));
	peers->peer[peers->count++] = (struct dlend_p_peer){
		.node = cpu_to_le16(node), .mib = cpu_to_le32(mib),
	};
	return 0;
}

/*
 * The largest number of listeners: each has a bit in every word of lend_fn.unsent.  One of them is
 * for the loopback link.  No node has as many NTBs.
 */
#define LEND_LISTENERS_MAX	BITS_PER_LONG
static_assert(LEND_LISTENERS_MAX - 1 <= DLEND_PEERS_MAX);

/* How long lend_notify_close() waits until a peer has its notes, and how often it looks, in ms. */
#define LEND_LISTENER_LAST_MS	1000
#define LEND_LISTENER_PAUSE_MS	10

/*
 * struct lend_listener - a link that is up, and what has to be posted to its peer
 * @node: in lend_listeners (listeners lock)
 * @to: the link, referenced, and the session in which @work posts; only @work changes the session
 * @number: of the listener's bit in lend_fn.unsent and lend_fn.refused; constant
 * @posting: function whose offer is being posted, so that its mark is clear already; only compared,
 *	not referenced (listeners lock)
 * @everything: @work has to set @peers and the marks of all offers (listeners lock)
 * @peers: mark: PEERS, and PLACE of this node's NTBs, have to be posted (WRITE_ONCE(), xchg())
 * @over: lend_notify_close() waits: @work must not begin to post another message (WRITE_ONCE())
 * @notes: struct lend_pending_msg, in the order in which they have to arrive (listeners lock)
 * @waiting: how many notes there are (listeners lock)
 * @work: posts; one run at a time
 */
struct lend_listener {
	struct list_head node;
	struct dlend_session_ref to;
	unsigned int number;
	const struct lend_fn *posting;
	bool everything, peers, over;
	struct list_head notes;
	struct lend_pending waiting;
	struct work_struct work;
};

/*
 * struct lend_pending_msg - a note: a message that has to arrive
 * @node: in the listener's list (listeners lock)
 * @session: session of the link in which it has to arrive; the note is dropped if that is over
 * @lost: the message is P2P_LOST
 * @msg: message
 */
struct lend_pending_msg {
	struct list_head node;
	u64 session;
	bool lost;
	struct dlend_msg msg;
};

/* All listeners, and which numbers they have (listeners lock). */
static LIST_HEAD(lend_listeners);
static DECLARE_BITMAP(lend_listener_numbers, LEND_LISTENERS_MAX);

/* Marks */

void lend_notify_fn(struct lend_fn *fn, enum lend_news_kind what)
{
	struct lend_listener *l;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(l, &lend_listeners, node) {
		set_bit(l->number, &fn->unsent[what]);
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
}

void lend_notify_group(struct lend_group *group, enum lend_news_kind what)
{
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		lend_notify_fn(w.fn, what);
}

void lend_notify_peers(void)
{
	struct lend_listener *l;

	spin_lock(&lend_listeners_lock);
	list_for_each_entry(l, &lend_listeners, node) {
		WRITE_ONCE(l->peers, true);
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
}

void lend_notify_grant(struct lend_granted *granted)
{
	spin_lock(&lend_listeners_lock);
	list_add_tail(&granted->node, &lend_notify_granted);
	spin_unlock(&lend_listeners_lock);
	lend_notify_peers();
}

void lend_notify_ungrant(struct lend_granted *granted)
{
	spin_lock(&lend_listeners_lock);
	list_del(&granted->node);
	spin_unlock(&lend_listeners_lock);
	lend_notify_peers();
}

/* The listener of a link, or NULL.  Listeners lock. */
static struct lend_listener *lend_listener_find(const struct dlend_link *link)
{
	struct lend_listener *l;

	list_for_each_entry(l, &lend_listeners, node)
		if (l->to.link == link)
			return l;
	return NULL;
}

bool lend_notify_offers_done(const struct lend_group *group, const struct dlend_link *link)
{
	const struct lend_listener *l;
	bool told;

	spin_lock(&lend_listeners_lock);
	l = lend_listener_find(link);
	told = l && !l->everything;
	for (struct lend_walk w = { group, LEND_ALL }; told && lend_walk_next(&w);)
		told = l->posting != w.fn && !test_bit(l->number, &w.fn->unsent[LEND_NEWS_OFFER]);
	spin_unlock(&lend_listeners_lock);
	return told;
}

void lend_notify_subscribe(const struct dlend_link *link)
{
	struct lend_listener *l;

	/* A listener that is made later begins with @everything. */
	spin_lock(&lend_listeners_lock);
	list_for_each_entry(l, &lend_listeners, node) {
		if (link && l->to.link != link)
			continue;
		l->everything = true;
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
}

void lend_notify_unbound(void)
{
	unsigned int count;
	struct lend_fn **all = lend_fn_all(&count);
	struct lend_listener *l;

	WRITE_ONCE(lend_requesters_pause_ms, LEND_REQUESTERS_PAUSE_MS);
	mod_delayed_work(lend_wq, &lend_requesters_dwork, 0);
	spin_lock(&lend_listeners_lock);
	list_for_each_entry(l, &lend_listeners, node) {
		for (unsigned int i = 0; i < count; i++)
			if (test_bit(l->number, &all[i]->refused))
				set_bit(l->number, &all[i]->unsent[LEND_NEWS_OFFER]);
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
	lend_fns_put(all, count);
}

/* Notes */

/*
 * Queue a note, which belongs to the listener if this succeeds.  Return: 0; -ENOENT the link has no
 * listener; -ENOBUFS too many notes wait there.
 */
static int lend_pending_msg_add(const struct dlend_link *link, struct lend_pending_msg *note)
{
	struct lend_listener *l;
	int ret = -ENOENT;

	spin_lock(&lend_listeners_lock);
	l = lend_listener_find(link);
	if (l)
		ret = lend_pending_add(&l->waiting, note->lost) ? 0 : -ENOBUFS;
	if (!ret) {
		list_add_tail(&note->node, &l->notes);
		queue_work(lend_wq, &l->work);
	}
	spin_unlock(&lend_listeners_lock);
	return ret;
}

void lend_notify_queue(struct dlend_link *link, const struct dlend_msg *msg)
{
	/*
	 * This must not fail: a slot of the peer may be in quarantine until the message arrives.
	 * It must not wait for I/O: a fence may wait for the caller's locks, see
	 * lend_request_message().
	 */
	struct lend_pending_msg *note = kzalloc_obj(*note, GFP_NOIO | __GFP_NOFAIL);
	struct dlend_session_ref now = dlend_session_now(link);
	int ret;

	note->session = now.session;
	note->msg = *msg;
	note->lost = le16_to_cpu(msg->type) == DLEND_MSG_P2P_LOST;
	ret = lend_pending_msg_add(link, note);
	if (ret == -ENOENT && dlend_session_live(&now)) {
		/* The peer's first request may be handled before link_up() is called here. */
		lend_notify_open(link);
		ret = lend_pending_msg_add(link, note);
	}
	if (!ret)
		return;
	kfree(note);
	if (ret == -ENOBUFS)
		dlend_link_restart(&now, "peer takes no messages: too many wait for it");
}

/* Callback of dlend_links_each(). */
static int lend_notify_queue_to(struct dlend_link *link, void *msg)
{
	lend_notify_queue(link, msg);
	return 0;
}

void lend_notify_withdraw(struct lend_fn *fn)
{
	struct dlend_msg msg;

	dlend_waits_for_no_peer_but_core(&lend_offer_lock);
	mutex_lock(&lend_offer_lock);
	WRITE_ONCE(fn->gone, true);
	mutex_unlock(&lend_offer_lock);
	dlend_msg_init(&msg, DLEND_MSG_WITHDRAW, &fn->addr, 0, 0);
	/* true: only links that are up. */
	dlend_links_each(true, lend_notify_queue_to, &msg);
}

/*
 * The first note of a listener, or NULL.  It stays in the list until it was posted; only the
 * listener's work, and lend_notify_close() after the work has ended, take notes out.
 */
static struct lend_pending_msg *lend_pending_msg_first(struct lend_listener *l)
{
	struct lend_pending_msg *note;

	spin_lock(&lend_listeners_lock);
	note = list_first_entry_or_null(&l->notes, struct lend_pending_msg, node);
	spin_unlock(&lend_listeners_lock);
	return note;
}

static void lend_pending_msg_drop(struct lend_listener *l, struct lend_pending_msg *note)
{
	spin_lock(&lend_listeners_lock);
	list_del(&note->node);
	lend_pending_del(&l->waiting, note->lost);
	spin_unlock(&lend_listeners_lock);
	kfree(note);
}

/*
 * Posting, in the work of one listener, with no lock held.  If nothing else is said, the functions
 * below return 0; -ETIMEDOUT the peer takes no message now; -ENOTCONN the session is over, or
 * lend_notify_close() waits.
 */

static int lend_listener_post(struct lend_listener *l, struct dlend_msg *msg)
{
	return READ_ONCE(l->over) ? -ENOTCONN : dlend_link_post_in(&l->to, msg);
}

/* Post all notes of this session, and drop those of older ones. */
static int lend_listener_flush_notes(struct lend_listener *l)
{
	struct lend_pending_msg *note;
	int ret = 0;

	while (!ret && (note = lend_pending_msg_first(l))) {
		if (note->session == l->to.session)
			ret = lend_listener_post(l, &note->msg);
		if (!ret)
			lend_pending_msg_drop(l, note);
	}
	return ret;
}

/* Callback of dlend_links_each(): post PLACE of this node's NTB of @other; @arg: listener. */
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

/* Post PEERS, in as many messages as that takes, and PLACE of each NTB of this node. */
static int lend_listener_post_peers(struct lend_listener *l)
{
	struct lend_peer_list peers = { .reader = dlend_link_peer(l->to.link) };
	unsigned int first = 0, n;
	struct dlend_p_peers *p;
	struct dlend_msg msg;
	int ret;

	/* true, here and below: only links that are up. */
	dlend_links_each(true, lend_peer_list_add, &peers);
	do {
		n = min(peers.count - first, DLEND_PEERS_PER_MSG);
		p = dlend_msg_init(&msg, DLEND_MSG_PEERS, NULL, 0, sizeof(*p));
		memcpy(p->peer, peers.peer + first, n * sizeof(*p->peer));
		p->count = cpu_to_le32(n);
		p->first = cpu_to_le16(first);
		p->more = cpu_to_le16(first + n < peers.count);
		ret = lend_listener_post(l, &msg);
		first += n;
	} while (!ret && first < peers.count);
	if (!ret && peers.reader != dlend_node_id())
		ret = dlend_links_each(true, lend_listener_post_end, l);
	return ret;
}

/* If lend_listener.peers is set: post, and set it again if that fails. */
static int lend_listener_flush_peers(struct lend_listener *l)
{
	int ret;

	if (!xchg(&l->peers, false))
		return 0;
	ret = lend_listener_post_peers(l);
	if (ret)
		WRITE_ONCE(l->peers, true);
	return ret;
}

/* Post the messages of @news; after an OFFER also PLACE, SET and the snapshot. */
static int lend_listener_post_news(struct lend_listener *l, const struct lend_fn *fn,
				   struct lend_news *news)
{
	struct dlend_p_snapshot *piece;
	struct dlend_msg msg;
	int ret;

	if (!news->offer && !news->state)
		return 0;
	ret = lend_listener_post(l, &news->msg);
	if (ret || !news->offer)
		return ret;
	ret = lend_listener_post(l, &news->place) ?: lend_listener_post(l, &news->set);
	for (u32 at = 0; at < DLEND_CFG_SIZE && !ret; at += DLEND_SNAPSHOT_PIECE) {
		piece = dlend_msg_init(&msg, DLEND_MSG_SNAPSHOT, &fn->addr, 0, sizeof(*piece));
		piece->offset = cpu_to_le16(at);
		memcpy(piece->data, fn->snapshot + at, DLEND_SNAPSHOT_PIECE);
		ret = lend_listener_post(l, &msg);
	}
	return ret;
}

/*
 * Clear the mark of an offer, and return whether it was set.  If it was, lend_notify_offers_done()
 * does not count the offer as posted until @l->posting is NULL again.
 */
static bool lend_listener_take_offer(struct lend_listener *l, struct lend_fn *fn)
{
	bool offer;

	spin_lock(&lend_listeners_lock);
	offer = test_and_clear_bit(l->number, &fn->unsent[LEND_NEWS_OFFER]);
	l->posting = offer ? fn : NULL;
	spin_unlock(&lend_listeners_lock);
	return offer;
}

/*
 * Before a peer gets the OFFER of a function, the link's hardware has to let the function's
 * requests pass.  If it refuses (lend_fn.refused), @news is emptied.  Return: 0; -EAGAIN try again.
 */
static int lend_listener_add_requesters(struct lend_listener *l, struct lend_fn *fn,
					struct lend_news *news)
{
	int err = news->offer ? lend_requesters_add(fn, l->to.link) : 0;

	if (err == -EAGAIN)
		return err;
	if (news->offer)
		assign_bit(l->number, &fn->refused, err);
	if (test_bit(l->number, &fn->refused)) {
		news->offer = false;
		news->state = false;
	}
	return 0;
}

/* Post what is marked for a function, and set the marks again if that fails. */
static int lend_listener_flush_fn(struct lend_listener *l, struct lend_fn *fn)
{
	struct lend_news news;
	int ret;

	/* An OFFER has the state in it, so no STATE is needed. */
	news.offer = lend_listener_take_offer(l, fn);
	news.state = test_and_clear_bit(l->number, &fn->unsent[LEND_NEWS_STATE]) && !news.offer;
	lend_offer_read(fn, dlend_link_peer(l->to.link), &news);
	ret = lend_listener_add_requesters(l, fn, &news);
	/*
	 * Notes that were queued before the state was read come first: the holder of a lease gets
	 * ERROR before the STATE in which the error has ended the lease (lend_lease_error()).
	 */
	if (!ret)
		ret = lend_listener_flush_notes(l);
	/* One of these notes may have been the function's WITHDRAW: no OFFER may follow it. */
	if (!ret && !READ_ONCE(fn->gone))
		ret = lend_listener_post_news(l, fn, &news);
	if (ret && news.offer)
		set_bit(l->number, &fn->unsent[LEND_NEWS_OFFER]);
	if (ret && news.state)
		set_bit(l->number, &fn->unsent[LEND_NEWS_STATE]);
	spin_lock(&lend_listeners_lock);
	l->posting = NULL;
	spin_unlock(&lend_listeners_lock);
	return ret;
}

/* The listener */

/*
 * If @everything is set, clear it and set all marks instead.  Under the lock, so that
 * lend_notify_offers_done() does not see @everything cleared before the marks are set.
 */
static void lend_listener_mark_everything(struct lend_listener *l, struct lend_fn **all,
					  unsigned int count)
{
	spin_lock(&lend_listeners_lock);
	if (l->everything) {
		l->everything = false;
		WRITE_ONCE(l->peers, true);
		for (unsigned int i = 0; i < count; i++)
			set_bit(l->number, &all[i]->unsent[LEND_NEWS_OFFER]);
	}
	spin_unlock(&lend_listeners_lock);
}

/* Post all that is marked and queued for one peer. */
static void lend_listener_work(struct work_struct *work)
{
	struct lend_listener *l = container_of(work, struct lend_listener, work);
	unsigned int count;
	struct lend_fn **all = lend_fn_all(&count);
	int ret;

	l->to.session = dlend_link_session(l->to.link);
	lend_listener_mark_everything(l, all, count);
	/*
	 * If a function in @all has the name of a function that was unbound before, WITHDRAW for
	 * the older one is among the notes by now, and the peer has to get that first.
	 */
	ret = lend_listener_flush_notes(l) ?: lend_listener_flush_peers(l);
	for (unsigned int i = 0; i < count && !ret; i++)
		ret = lend_listener_flush_fn(l, all[i]);
	lend_fns_put(all, count);
	/* No pause: the post, or dlend_link_set_requesters(), has waited already. */
	if (ret == -ETIMEDOUT || ret == -EAGAIN)
		queue_work(lend_wq, &l->work);
}

void lend_notify_open(struct dlend_link *link)
{
	struct lend_listener *l = kzalloc_obj(*l, GFP_NOIO | __GFP_NOFAIL);
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

void lend_notify_close(struct dlend_link *link)
{
	struct lend_listener *l;
	unsigned int waited;
	bool untold;

	spin_lock(&lend_listeners_lock);
	l = lend_listener_find(link);
	if (l)
		list_del(&l->node);
	spin_unlock(&lend_listeners_lock);
	if (!l)
		return;
	/*
	 * While the link is up: wait a while until the peer has taken its notes.  The listener is
	 * not in the list any more, so no notes are added to it.
	 */
	for (waited = 0; waited < LEND_LISTENER_LAST_MS && READ_ONCE(l->waiting.all) &&
	     dlend_link_is_up(link); waited += LEND_LISTENER_PAUSE_MS)
		msleep(LEND_LISTENER_PAUSE_MS);
	/* If the link is up, a post may have begun: it is the last one. */
	WRITE_ONCE(l->over, true);
	cancel_work_sync(&l->work);
	untold = l->waiting.all;
	while (l->waiting.all)
		lend_pending_msg_drop(l,
				      list_first_entry(&l->notes, struct lend_pending_msg, node));
	spin_lock(&lend_listeners_lock);
	__clear_bit(l->number, lend_listener_numbers);
	spin_unlock(&lend_listeners_lock);
	/* This does nothing if the session is over. */
	if (untold)
		dlend_link_restart(&l->to,
				   "the lender's module goes, and the peer has not heard that nothing is lent any more");
	dlend_link_put(l->to.link);
	kfree(l);
}

void lend_notify_exit(void)
{
	WARN_ON(!list_empty(&lend_listeners));
	/* Run the work now if it waits, as no function is bound; then cancel what it has queued. */
	flush_delayed_work(&lend_requesters_dwork);
	cancel_delayed_work_sync(&lend_requesters_dwork);
}
