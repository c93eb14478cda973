// SPDX-License-Identifier: GPL-2.0
/*
 * Peer-to-peer of borrowed devices: which BAR each of them reaches, and the worker that has lenders
 * map what should be mapped.
 *
 * Words of this file:
 *
 * - member: a borrowed device that takes part (struct dlend_p2p_member).  The members of one user
 *   reach each other's BARs.  A user is a VM, or one attached device of this host, which reaches
 *   its own BARs only.
 * - source, target, s, t: the device that reaches a BAR, and the device whose BAR it is.
 * - way: a source, a target, and one of the target's BARs (struct dlend_p2p_way).
 * - edge: a way that is mapped, or should be (struct dlend_edge).
 * - wish: the mapping of an edge, as it should be or as it is (struct dlend_p2p_wish).
 * - route: how accesses get from the source to the target: inside one lender, over a link between
 *   two lenders, or through this node (enum dlend_p2p_route).
 * - path: how much of an aperture peer-to-peer may use (struct dlend_p2p_path).  Accesses arrive
 *   there from node @from; node @to has the aperture.  Peer-to-peer may use @mib MiB of it, and of
 *   these others have @taken bytes.  Each node sends its peers the paths of its own apertures.
 * - end: an NTB, and where it sits in its host (struct dlend_bridge_end, struct dlend_p2p_end).
 * - booking: room in an aperture that is reserved for a way (struct dlend_p2p_booking).
 * - promise: a booking for a way that a clique may tell the guest of.  It stays until the source or
 *   the target leaves its user.
 * - grant: the target's lender lets the devices of the source's lender reach a BAR (P2P_GRANT).
 * - doubt: a reason that peer-to-peer between two devices may fail, so that they must not be in one
 *   clique (struct dlend_p2p_doubt).  It does not prevent their mappings.
 *
 * From what the users publish about their members, p2p_plan.c says which edges there should be.
 * The worker makes them one after the other: it asks lenders.  dlend_p2p_publish() does not wait
 * for it.  A user that has to wait does so on dlend_p2p_member.wq, until the member is settled.
 * Must not know what a lender does with a mapping, nor when a device is borrowed.
 *
 * An edge may lead through this node: then it has a slot in the aperture towards the source's
 * lender, mapped to the part of the window that leads to the target's BAR.  What is behind that
 * part depends on the target's lease.  So dlend_p2p_close_slots() unmaps the slot before that
 * lease, or the source's, is returned, and when a session has ended.  It waits for no peer.
 *
 * Edges: only the worker makes, frees and writes them, so it may read them without dlend_p2p_lock.
 * But dlend_p2p_note_lost() sets @lost, and dlend_p2p_close_slots() changes @slot and @cookie: the
 * worker uses these under dlend_p2p_lock.  It also takes the lock to write what sysfs shows.
 */
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/numa.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/borrower.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/root.h>
#include "offer.h"
#include "p2p.h"
#include "trace.h"

DEFINE_MUTEX(dlend_p2p_lock);	/* all of peer-to-peer: see p2p.h */
static LIST_HEAD(dlend_p2p_peers);
static LIST_HEAD(dlend_p2p_members);
static LIST_HEAD(dlend_p2p_bookings);

/*
 * What peers have sent: which links they have (DLEND_MSG_PEERS), and where the NTBs of these links
 * sit (DLEND_MSG_PLACE).  Cliques depend on where an NTB joins its host's root complex; the bridges
 * above the NTB are only shown to people.
 */

#define DLEND_BRIDGE_LINE_MAX	256	/* bytes of a line in sysfs, at most */
#define DLEND_P2P_PATH_LINE	32	/* the same, of dlend_p2p_paths_emit() */
#define DLEND_P2P_PATHS_MAX	256	/* paths of this node and of its peers */

/* The NTB @addr of a peer. @place: where it sits, and in @place.node the node that it leads to. */
struct dlend_bridge_end {
	struct dlend_addr addr;
	struct dlend_p_place place;
};

/**
 * struct dlend_p2p_peer - what one peer has sent about its links
 * @node: in dlend_p2p_peers
 * @link: the link to that peer, with a reference
 * @n: number of entries in @path
 * @path: the peer's paths, one for each of its links
 * @coming: number of entries in @next
 * @next: paths of a newer list, of which not all messages have come yet
 * @ends: number of entries in @end
 * @end: the peer's NTBs
 *
 * All under dlend_p2p_lock.
 */
struct dlend_p2p_peer {
	struct list_head node;
	struct dlend_link *link;
	unsigned int n, coming, ends;
	struct dlend_p2p_path path[DLEND_PEERS_MAX];
	struct dlend_p2p_path next[DLEND_PEERS_MAX];
	struct dlend_bridge_end end[DLEND_PEERS_MAX];
};

static struct dlend_p2p_peer *dlend_p2p_peer_find(const struct dlend_link *link)
{
	struct dlend_p2p_peer *peer;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(peer, &dlend_p2p_peers, node)
		if (peer->link == link)
			return peer;
	return NULL;
}

/* Find or make the entry of a peer. Return: the entry; it stays under dlend_p2p_lock; or NULL. */
static struct dlend_p2p_peer *dlend_p2p_peer_get(struct dlend_link *link)
{
	struct dlend_p2p_peer *peer = dlend_p2p_peer_find(link);

	if (peer)
		return peer;
	peer = kzalloc_obj(*peer);
	if (!peer)
		return NULL;
	peer->link = dlend_link_get(link);
	list_add_tail(&peer->node, &dlend_p2p_peers);
	return peer;
}

void dlend_p2p_note_ntb(struct dlend_link *link, const struct dlend_addr *addr,
			const struct dlend_p_place *place)
{
	struct dlend_p2p_peer *peer;
	unsigned int i = 0;

	guard(mutex)(&dlend_p2p_lock);
	peer = dlend_p2p_peer_get(link);
	while (peer && i < peer->ends && peer->end[i].place.node != place->node)
		i++;
	if (!peer || i == DLEND_PEERS_MAX)
		return;
	peer->end[i] = (struct dlend_bridge_end){ .addr = *addr, .place = *place };
	peer->ends = max(peer->ends, i + 1);
}

/* A list may take several messages. The old list is in use until the new one is complete. */
void dlend_p2p_note_peers(struct dlend_link *link, const struct dlend_p_peers *p)
{
	unsigned int n = le32_to_cpu(p->count);
	struct dlend_p2p_peer *peer;

	guard(mutex)(&dlend_p2p_lock);
	peer = dlend_p2p_peer_get(link);
	if (!peer)
		return;
	if (!p->first)
		peer->coming = 0;
	/* A message is missing: the peer sends its list again when its ring has room. */
	if (le16_to_cpu(p->first) != peer->coming || peer->coming + n > DLEND_PEERS_MAX)
		return;
	for (unsigned int i = 0; i < n; i++)
		peer->next[peer->coming++] = (struct dlend_p2p_path){
			.from = le16_to_cpu(p->peer[i].node),
			.to = dlend_link_peer(link),
			.mib = le32_to_cpu(p->peer[i].mib),
		};
	/* The list goes on in another message. */
	if (p->more)
		return;
	memcpy(peer->path, peer->next, sizeof(peer->path));
	peer->n = peer->coming;
}

void dlend_p2p_forget_peer(struct dlend_link *link)
{
	struct dlend_p2p_peer *peer;

	guard(mutex)(&dlend_p2p_lock);
	peer = dlend_p2p_peer_find(link);
	if (!peer)
		return;
	list_del(&peer->node);
	dlend_link_put(peer->link);
	kfree(peer);
}

static int dlend_bridge_emit_bdf(char *buf, int at, u32 domain, u16 bdf)
{
	return sysfs_emit_at(buf, at, "%04x:%02x:%02x.%x", domain, bdf >> 8, (bdf >> 3) & 0x1f,
			     bdf & 7);
}

int dlend_p2p_emit_place(char *buf, int at, const struct dlend_p_place *place)
{
	static const char * const kind[DLEND_BRIDGE_KINDS] = {
		[DLEND_BRIDGE_ROOT] = "root",
		[DLEND_BRIDGE_UP] = "up",
		[DLEND_BRIDGE_DOWN] = "down",
		[DLEND_BRIDGE_PCI] = "pci",
	};
	int from = at;

	for (unsigned int i = 0; i < place->count; i++) {
		const struct dlend_p_bridge *b = &place->bridge[i];

		at += sysfs_emit_at(buf, at, "%s", i ? " " : "");
		at += dlend_bridge_emit_bdf(buf, at, le32_to_cpu(place->domain),
					    le16_to_cpu(b->bdf));
		at += sysfs_emit_at(buf, at, ",%s%s", kind[b->kind],
				    b->flags & DLEND_BRIDGE_F_ACS ? ",acs" : "");
	}
	return at - from;
}

int dlend_place_emit_root(char *buf, int at, const struct dlend_p_place *place)
{
	u16 numa = le16_to_cpu(place->numa);
	const struct dlend_root root = {
		.domain = le32_to_cpu(place->root_domain),
		.bus = place->bus,
		.numa = numa == DLEND_ROOT_NO_NUMA ? NUMA_NO_NODE : numa,
		.payload = le16_to_cpu(place->payload),
		.p2p_domain = le16_to_cpu(place->p2p_domain),
	};

	return dlend_root_emit(buf, at, &root);
}

/* A line about an NTB. @root: as @roots of dlend_p2p_emit_ntbs(). Return: bytes written. */
static int dlend_bridge_end_emit(char *buf, int from, const struct dlend_bridge_end *end,
				 bool root)
{
	int at = from;

	at += sysfs_emit_at(buf, at, "%u %u ", end->addr.lender, le16_to_cpu(end->place.node));
	if (root) {
		at += dlend_place_emit_root(buf, at, &end->place);
	} else {
		at += dlend_bridge_emit_bdf(buf, at, le32_to_cpu(end->place.domain),
					    end->addr.bdf);
		at += sysfs_emit_at(buf, at, " ");
		at += dlend_p2p_emit_place(buf, at, &end->place);
	}
	return at + sysfs_emit_at(buf, at, "\n") - from;
}

ssize_t dlend_p2p_emit_ntbs(char *buf, bool roots)
{
	struct dlend_p2p_peer *peer;
	unsigned int i;
	int at = 0;

	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(peer, &dlend_p2p_peers, node)
		/* Stop where another line might not fit into the page as a whole. */
		for (i = 0; i < peer->ends && at <= PAGE_SIZE - DLEND_BRIDGE_LINE_MAX; i++)
			at += dlend_bridge_end_emit(buf, at, &peer->end[i], roots);
	return at;
}

/*
 * A user, and the paths and NTBs that this node knows: its own and those of its peers. @user.fabric
 * points to @path and @end.
 */
struct dlend_p2p_view {
	struct dlend_p2p_user user;
	struct dlend_p2p_path path[DLEND_P2P_PATHS_MAX];
	struct dlend_p2p_end end[DLEND_P2P_PATHS_MAX];
};

static void dlend_p2p_view_add(struct dlend_p2p_view *view, const struct dlend_p2p_path *path)
{
	struct dlend_p2p_fabric *f = &view->user.fabric;

	if (f->n < DLEND_P2P_PATHS_MAX)
		view->path[f->n++] = *path;
	else
		pr_warn_once("dlend: this node and its peers have more than %u links: the others are left out, and devices that reach each other over one of these are taken for out of reach; take links down that no device needs\n",
			     DLEND_P2P_PATHS_MAX);
}

/* Add the NTB of node @at that leads to node @to. */
static void dlend_p2p_view_add_end(struct dlend_p2p_view *view, u16 at, u16 to, u16 p2p_domain)
{
	struct dlend_p2p_fabric *f = &view->user.fabric;

	if (f->ends < DLEND_P2P_PATHS_MAX)
		view->end[f->ends++] = (struct dlend_p2p_end){ at, to, p2p_domain };
}

/* Add the path and the NTB of one of this node's links; for dlend_links_each(). */
static int dlend_p2p_view_add_own(struct dlend_link *link, void *arg)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	u16 peer = dlend_link_peer(link);
	struct dlend_aperture_stat st;
	struct dlend_root root;
	u64 left;

	if (!ap || peer == dlend_node_id())
		return 0;
	st = dlend_aperture_stat(ap);
	/* Bytes that peer-to-peer has already, or may still get. */
	left = min(st.p2p_limit, st.bytes[DLEND_SLOT_P2P] + st.free);
	dlend_p2p_view_add(arg, &(struct dlend_p2p_path){
		.from = peer,
		.to = dlend_node_id(),
		.mib = min_t(u64, st.p2p_limit / SZ_1M, U32_MAX),
		.taken = st.p2p_limit - left,	/* bytes, by guests' RAM */
	});
	if (dlend_root_of_link(link, &root))
		dlend_p2p_view_add_end(arg, dlend_node_id(), peer, root.p2p_domain);
	return 0;
}

/* Collect the paths and NTBs that are known now. Takes dlend_p2p_lock. */
static void dlend_p2p_view_links(struct dlend_p2p_view *view)
{
	struct dlend_p2p_peer *peer;
	unsigned int i;

	view->user.fabric = (struct dlend_p2p_fabric){
		.self = dlend_node_id(), .path = view->path, .end = view->end,
	};
	dlend_links_each(true /* links that are up */, dlend_p2p_view_add_own, view);
	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(peer, &dlend_p2p_peers, node) {
		for (i = 0; i < peer->n; i++)
			dlend_p2p_view_add(view, &peer->path[i]);
		for (i = 0; i < peer->ends; i++)
			dlend_p2p_view_add_end(view, peer->end[i].addr.lender,
					       le16_to_cpu(peer->end[i].place.node),
					       le16_to_cpu(peer->end[i].place.p2p_domain));
	}
}

/* Return: a view without a user, for kfree(); or NULL. */
static struct dlend_p2p_view *dlend_p2p_view_make(void)
{
	struct dlend_p2p_view *view = kzalloc_obj(*view);

	if (view)
		dlend_p2p_view_links(view);
	return view;
}

ssize_t dlend_p2p_paths_emit(char *buf)
{
	struct dlend_p2p_view *view __free(kfree) = dlend_p2p_view_make();
	const struct dlend_p2p_path *path;
	int at = 0;

	if (!view)
		return -ENOMEM;
	/* Stop where another line might not fit into the page as a whole. */
	for (path = view->path; path < view->path + view->user.fabric.n &&
	     at < PAGE_SIZE - DLEND_P2P_PATH_LINE; path++)
		at += sysfs_emit_at(buf, at, "%u %u %llu\n", path->from, path->to,
				    (u64)path->mib * SZ_1M);
	return at;
}

/* Members: the borrowed devices of each user, as the user publishes them. */

/* A member was published or has left since edges were planned; under dlend_p2p_lock */
static bool dlend_p2p_changed;
static struct delayed_work dlend_p2p_dwork;
static struct workqueue_struct *dlend_p2p_wq;

void dlend_p2p_queue_work(void)
{
	mod_delayed_work(dlend_p2p_wq, &dlend_p2p_dwork, 0);
}

/*
 * Collect the devices of the user of @of. Return: false if the user has more than DLEND_P2P_DEVS
 * devices, and @of is one of those that are left out.
 */
static bool dlend_p2p_collect(const struct dlend_p2p_member *of, struct dlend_p2p_user *user)
{
	struct dlend_p2p_member *m;
	bool found = false;

	lockdep_assert_held(&dlend_p2p_lock);
	user->n = 0;
	list_for_each_entry(m, &dlend_p2p_members, node) {
		if (m->user != of->user || user->n == DLEND_P2P_DEVS)
			continue;
		if (m == of) {
			user->of = user->n;
			found = true;
		}
		user->member[user->n] = m;
		user->dev[user->n++] = m->dev;
	}
	return found;
}

/*
 * As dlend_p2p_collect(); for cliques, collect also the peer-to-peer domains of the devices, and
 * what other users have booked. Context: also dlend_offers_lock.
 */
static bool dlend_p2p_view_collect(struct dlend_p2p_view *view,
				   const struct dlend_p2p_member *of)
{
	struct dlend_p2p_user *user = &view->user;
	struct dlend_p2p_path *path;
	bool found = dlend_p2p_collect(of, user);

	for (unsigned int i = 0; i < user->n; i++)
		user->dev[i].p2p_domain = dlend_offer_p2p_domain(&user->dev[i].addr);
	for (path = view->path; path < view->path + user->fabric.n; path++)
		path->taken += dlend_p2p_booked(&dlend_p2p_bookings, path->from, path->to,
						of->user);
	return found;
}

/*
 * Book room for a way.  If it is booked already, and @want is a promise, make that booking a
 * promise. Context: dlend_p2p_lock. Return: false without memory.
 */
static bool dlend_p2p_book(const struct dlend_p2p_booking *want)
{
	struct dlend_p2p_booking *b;

	lockdep_assert_held(&dlend_p2p_lock);
	b = dlend_p2p_booking_find(&dlend_p2p_bookings, want);
	if (b) {
		b->promised = b->promised || want->promised;
		return true;
	}
	b = kmemdup(want, sizeof(*want), GFP_KERNEL);
	if (b)
		dlend_p2p_booking_add(&dlend_p2p_bookings, b);
	return b;
}

/* End a booking, and free it. Context: dlend_p2p_lock. */
static void dlend_p2p_unbook(struct dlend_p2p_booking *b)
{
	lockdep_assert_held(&dlend_p2p_lock);
	dlend_p2p_booking_del(&dlend_p2p_bookings, b);
	kfree(b);
}

/*
 * A clique may tell the guest that device @s reaches device @t: book room for all BARs of @t, which
 * stays booked until one of the two leaves.
 */
static void dlend_p2p_promise(const struct dlend_p2p_user *user, unsigned int s, unsigned int t)
{
	const struct dlend_p2p_dev *target = &user->dev[t];
	enum dlend_p2p_route route;

	route = dlend_p2p_wide_route(&user->fabric, user->dev, user->n, s, t);
	for (unsigned int bar = 0; bar < DLEND_NUM_BARS; bar++) {
		struct dlend_p2p_booking want = {
			.user = user->member[s]->user,
			.s = user->dev[s].addr,
			.t = target->addr,
			.bar = bar,
			.bytes = target->bar[bar].size,
			.promised = true,
		};

		if (want.bytes && dlend_p2p_booking_set_aperture(&want, user->fabric.self, route))
			dlend_p2p_book(&want);
	}
}

/* Book room for the ways between the device @user->of and all others of its clique. */
static void dlend_p2p_promise_all(const struct dlend_p2p_user *user)
{
	int clique = user->dev[user->of].clique;

	for (unsigned int i = 0; i < user->n; i++) {
		if (i == user->of || clique < 0 || user->dev[i].clique != clique)
			continue;
		dlend_p2p_promise(user, user->of, i);
		dlend_p2p_promise(user, i, user->of);
	}
}

void dlend_p2p_join(struct dlend_p2p_member *m, void (*choose)(struct dlend_p2p_user *user))
{
	struct dlend_p2p_view *view __free(kfree) = dlend_p2p_view_make();
	struct dlend_p2p_user *user = view ? &view->user : NULL;

	guard(mutex)(&dlend_offers_lock);
	guard(mutex)(&dlend_p2p_lock);
	list_add_tail(&m->node, &dlend_p2p_members);
	m->joined = true;
	if (!user || !dlend_p2p_view_collect(view, m))
		return;
	if (choose)
		choose(user);
	m->dev.clique = user->dev[user->of].clique;
	dlend_p2p_promise_all(user);
}
DLEND_EXPORT(dlend_p2p_join);

/*
 * A line that says why device @i and the device @user->of may not be, or are not, in one clique;
 * nothing if there is no reason. Return: bytes written.
 */
static int dlend_p2p_emit_doubt(const struct dlend_p2p_user *user, unsigned int i, char *buf,
				int at)
{
	const struct dlend_p2p_dev *mine = &user->dev[user->of], *other = &user->dev[i];
	struct dlend_p2p_doubt doubt;
	char name[DLEND_NAME_LEN], text[DLEND_P2P_DOUBT_LEN];

	doubt = dlend_p2p_doubt(&user->fabric, user->dev, user->n, user->of, i);
	dlend_p2p_doubt_text(&doubt, text);
	/*
	 * No doubt now, but two cliques: there was one earlier, or an administrator has set them.
	 */
	if (!*text && mine->clique >= 0 && other->clique >= 0 && mine->clique != other->clique)
		snprintf(text, sizeof(text), "%s", DLEND_P2P_OTHER_CLIQUE);
	if (!*text)
		return 0;
	return sysfs_emit_at(buf, at, "%s %s\n", dlend_addr_name(&other->addr, name), text);
}

ssize_t dlend_p2p_emit_doubts(struct dlend_p2p_member *m, char *buf)
{
	struct dlend_p2p_view *view __free(kfree) = dlend_p2p_view_make();
	unsigned int i;
	int at = 0;

	if (!view)
		return -ENOMEM;
	guard(mutex)(&dlend_offers_lock);
	guard(mutex)(&dlend_p2p_lock);
	if (!m->joined || !dlend_p2p_view_collect(view, m))
		return 0;
	/* Stop where another line might not fit into the page as a whole. */
	for (i = 0; i < view->user.n &&
	     at < PAGE_SIZE - DLEND_P2P_DOUBT_LEN - DLEND_NAME_LEN; i++)
		if (i != view->user.of)
			at += dlend_p2p_emit_doubt(&view->user, i, buf, at);
	return at;
}
DLEND_EXPORT(dlend_p2p_emit_doubts);

void dlend_p2p_leave(struct dlend_p2p_member *m)
{
	struct dlend_p2p_booking *b;

	guard(mutex)(&dlend_p2p_lock);
	if (!m->joined)
		return;
	while ((b = dlend_p2p_booking_of(&dlend_p2p_bookings, &m->dev.addr)))
		dlend_p2p_unbook(b);
	list_del(&m->node);
	m->joined = false;
	dlend_session_drop(&m->ref);
	memset(m->bar_phys, 0, sizeof(m->bar_phys));
	dlend_p2p_changed = true;
	dlend_p2p_queue_work();
}
DLEND_EXPORT(dlend_p2p_leave);

void dlend_p2p_publish(struct dlend_p2p_member *m, const struct dlend_p2p_dev *dev,
		       const struct dlend_lease *lease)
{
	phys_addr_t phys[DLEND_NUM_BARS];

	/* A standby's lease has no BARs yet: they are opened when the standby takes over. */
	for (unsigned int i = 0; i < DLEND_NUM_BARS; i++)
		phys[i] = lease ? READ_ONCE(lease->bar[i].phys) : 0;
	guard(mutex)(&dlend_p2p_lock);
	if (!m->joined || (!memcmp(&m->dev, dev, sizeof(*dev)) &&
			   !memcmp(m->bar_phys, phys, sizeof(phys))))
		return;
	if (m->dev.epoch != dev->epoch) {
		dlend_session_drop(&m->ref);
		if (lease) {
			m->ref = lease->ref;
			dlend_link_get(m->ref.link);
		}
	}
	memcpy(m->bar_phys, phys, sizeof(phys));
	m->dev = *dev;
	/* Until the worker has seen it: dlend_edges_note_settled(). */
	WRITE_ONCE(m->settled, false);
	dlend_p2p_changed = true;
	dlend_p2p_queue_work();
}
DLEND_EXPORT(dlend_p2p_publish);

/* Pauses between two tries to map an edge; each is twice as long as the one before */
#define DLEND_EDGE_RETRY_MIN_MS		50u	/* the first */
#define DLEND_EDGE_RETRY_LOST_MS	1000u	/* the one after a lender has unmapped by itself */
#define DLEND_EDGE_RETRY_MAX_MS		30000u	/* the longest */

/*
 * -EAGAIN is logged only when the pause is longer than this: before, it is likely to end by itself.
 * Other failures are logged at once (dlend_edge_log_failure()).
 */
#define DLEND_EDGE_QUIET_MS		1000u

/**
 * struct dlend_edge_end - a device at one end of an edge, and what a message to its lender needs
 * @ref: session of the link to its lender, with a reference; no link: nothing is mapped, nor being
 *	mapped
 * @addr: device
 * @epoch: number of its lease under which the edge is mapped, or is being mapped
 */
struct dlend_edge_end {
	struct dlend_session_ref ref;
	struct dlend_addr addr;
	u32 epoch;
};

/**
 * struct dlend_edge - a BAR that a device shall reach, or reaches already
 * @node: in dlend_edges
 * @s: the source. When a try to map @want begins, session and epoch are set to those of @want; they
 *	stay while the edge is mapped
 * @t: the target, in the same way
 * @bar: which BAR of the target
 * @want: the mapping as it should be
 * @have: the mapping as it is; if @have.on is false, the last one that was tried or unmapped
 * @route: of the last mapping that was tried
 * @granted: the target's lender has granted the BAR to the source's lender, or may have: its answer
 *	was late
 * @lost: the source's lender has unmapped the edge by itself; under dlend_p2p_lock
 * @logged: the failure to map @want is in the log
 * @ap: this node's aperture towards the source's lender, if the edge leads through this node; else
 *	NULL. Not cleared when the slot is closed
 * @slot: a slot in @ap; NULL: none, or dlend_p2p_close_slots() has closed it. Under dlend_p2p_lock
 * @cookie: of the closed slot, whose offsets are in quarantine; 0: none. Under dlend_p2p_lock
 * @err: -errno of the last try to map; -ECONNRESET: the edge was lost; 0: none has failed
 * @retry_at: time of the next try, in jiffies
 * @retry_ms: milliseconds of the pause before it; 0: no try to map @want has failed
 *
 * Locks: see the top of this file.
 */
struct dlend_edge {
	struct list_head node;
	struct dlend_edge_end s, t;
	unsigned int bar;
	struct dlend_p2p_wish want, have;
	enum dlend_p2p_route route;
	bool granted, lost, logged;
	struct dlend_aperture *ap;
	struct dlend_slot *slot;
	u64 cookie;
	int err;
	unsigned long retry_at;
	unsigned int retry_ms;
};

static LIST_HEAD(dlend_edges);

/* Return: the member at one end of an edge, if it still has the lease @end->epoch; or NULL. */
static struct dlend_p2p_member *dlend_edge_end_member(const struct dlend_edge_end *end)
{
	struct dlend_p2p_member *m;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(m, &dlend_p2p_members, node)
		if (dlend_addr_same(&m->dev.addr, &end->addr) && m->dev.epoch == end->epoch)
			return m;
	return NULL;
}

/* Slots of edges that lead through this node */

/*
 * Unmap the slot of an edge that leads through this node: no access gets through it when this
 * returns. Its offsets stay in quarantine, as the source's lender may still have mapped them.
 */
static void dlend_edge_close_slot(struct dlend_edge *e)
{
	lockdep_assert_held(&dlend_p2p_lock);
	if (e->slot)
		e->cookie = dlend_slot_free(e->slot, false /* not acked */);
	e->slot = NULL;
}

void dlend_p2p_close_slots(const struct dlend_addr *addr, u32 epoch)
{
	struct dlend_edge *e;

	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(e, &dlend_edges, node)
		if ((dlend_addr_same(&e->s.addr, addr) && e->s.epoch == epoch) ||
		    (dlend_addr_same(&e->t.addr, addr) && e->t.epoch == epoch))
			dlend_edge_close_slot(e);
}
DLEND_EXPORT(dlend_p2p_close_slots);

/*
 * Map a slot of the aperture towards the source's lender to the target's BAR, for a route through
 * this node. Takes dlend_p2p_lock. Return: 0; -ENOTCONN a lease or a session is over, or the
 * target's BAR is out of reach; or as dlend_slot_alloc(), dlend_slot_map_phys().
 */
static int dlend_edge_open_slot(struct dlend_edge *e)
{
	struct dlend_p2p_member *target;
	struct dlend_slot *slot;
	phys_addr_t phys;
	int ret;

	guard(mutex)(&dlend_p2p_lock);
	target = dlend_edge_end_member(&e->t);
	/* If the target's lease ends after this lock, dlend_p2p_close_slots() finds the slot. */
	if (!target || !dlend_session_live(&e->s.ref))
		return -ENOTCONN;
	phys = target->bar_phys[e->bar];
	e->ap = dlend_link_aperture(e->s.ref.link);
	if (!phys || !e->ap)
		return -ENOTCONN;
	slot = dlend_slot_alloc(e->ap, e->want.size, min_t(u64, e->want.size, SZ_1G), 0,
				DLEND_SLOT_P2P);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	ret = dlend_slot_map_phys(slot, (struct dlend_piece) {
		.size = e->want.size,
		.phys = phys,
		.prot = DLEND_PROT_READ | DLEND_PROT_WRITE,
		.mmio = true,
	});
	/* No lender knows the slot, so its offsets need no quarantine. */
	if (ret)
		dlend_slot_free(slot, true /* acked */);
	else
		e->slot = slot;
	return ret;
}

/* Asking lenders: done by the worker, without dlend_p2p_lock */

/*
 * Ask the source's lender to map or unmap. @type: DLEND_MSG_P2P_MAP or DLEND_MSG_P2P_UNMAP. Return:
 * 0; -ENOTCONN also if the slot was closed meanwhile; or as dlend_link_call_in().
 */
static int dlend_edge_ask_source(struct dlend_edge *e, u16 type, const struct dlend_p2p_wish *wish)
{
	struct dlend_p_p2p *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, type, &e->s.addr, e->s.epoch, sizeof(*p));
	p->gpa = cpu_to_le64(wish->gpa);
	p->size = cpu_to_le64(wish->size);
	p->prot = cpu_to_le32(DLEND_PROT_READ | DLEND_PROT_WRITE);
	p->epoch = cpu_to_le32(e->t.epoch);
	p->lender = cpu_to_le16(e->t.addr.lender);
	p->bdf = cpu_to_le16(e->t.addr.bdf);
	p->bar = cpu_to_le16(e->bar);
	if (type == DLEND_MSG_P2P_MAP && e->route == DLEND_P2P_BORROWER) {
		p->flags = cpu_to_le32(DLEND_P2P_F_OFFSET);
		scoped_guard(mutex, &dlend_p2p_lock)
			p->offset = e->slot ? cpu_to_le64(e->slot->offset) : 0;
		if (!p->offset)
			return -ENOTCONN;
	}
	return dlend_link_call_in(&e->s.ref, &req, NULL, 0);
}

/*
 * Ask the target's lender to grant the BAR to the node of the source, or to end that grant. @type:
 * DLEND_MSG_P2P_GRANT or DLEND_MSG_P2P_UNGRANT. Return: as dlend_link_call_in().
 */
static int dlend_edge_ask_target(const struct dlend_edge *e, u16 type)
{
	struct dlend_p_p2p_grant *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, type, &e->t.addr, e->t.epoch, sizeof(*p));
	p->node = cpu_to_le16(e->s.addr.lender);
	p->bar = cpu_to_le16(e->bar);
	return dlend_link_call_in(&e->t.ref, &req, NULL, 0);
}

/* One grant is for all devices of the source's lender.  Does another edge use that of @e? */
static bool dlend_edge_grant_shared(const struct dlend_edge *e)
{
	const struct dlend_edge *other;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(other, &dlend_edges, node)
		if (other != e && other->granted && other->bar == e->bar &&
		    dlend_addr_same(&other->t.addr, &e->t.addr) && other->t.epoch == e->t.epoch &&
		    other->s.addr.lender == e->s.addr.lender)
			return true;
	return false;
}

/* Room in apertures */

/*
 * Describe the room in an aperture that an edge takes by its route. Return: false if it takes none.
 */
static bool dlend_edge_room(const struct dlend_edge *e, struct dlend_p2p_booking *b)
{
	*b = (struct dlend_p2p_booking){
		.s = e->s.addr, .t = e->t.addr, .bar = e->bar, .bytes = e->want.size,
	};
	return dlend_p2p_booking_set_aperture(b, dlend_node_id(), e->route);
}

/*
 * Book the room that an edge takes, unless it is booked already.  The promises of other users must
 * stay free. Takes dlend_p2p_lock. Return: 0; -ENOTCONN a lease is over; -ENOBUFS there is too
 * little room beside the promises of other users; -ENOMEM.
 */
static int dlend_edge_book(const struct dlend_edge *e, const struct dlend_p2p_fabric *fabric)
{
	struct dlend_p2p_member *source;
	struct dlend_p2p_booking want;

	if (!dlend_edge_room(e, &want))
		return 0;
	guard(mutex)(&dlend_p2p_lock);
	source = dlend_edge_end_member(&e->s);
	/* dlend_p2p_leave() has ended the bookings of a device that left: make no new one. */
	if (!source || !dlend_edge_end_member(&e->t))
		return -ENOTCONN;
	want.user = source->user;
	if (dlend_p2p_booking_find(&dlend_p2p_bookings, &want))
		return 0;
	if (!dlend_p2p_booking_fits(&dlend_p2p_bookings, fabric, &want))
		return -ENOBUFS;
	return dlend_p2p_book(&want) ? 0 : -ENOMEM;
}

/*
 * Give up what was taken for a mapping that is not there any more: the slot, the grant, the
 * booking.
 * @acked: true: the source's lender has said that nothing is mapped to the slot, or it was never
 * told of the slot. false: that is not known, so the slot's offsets stay in quarantine until the
 * next session.
 */
static void dlend_edge_undo(struct dlend_edge *e, bool acked)
{
	struct dlend_p2p_booking like, *b = NULL;
	bool ungrant;

	mutex_lock(&dlend_p2p_lock);
	dlend_edge_close_slot(e);
	if (e->cookie && acked && dlend_session_live(&e->s.ref))
		dlend_slot_release(e->ap, e->cookie);
	e->cookie = 0;
	e->ap = NULL;
	/* Grants of the target's lease end with that lease. */
	ungrant = e->granted && dlend_edge_end_member(&e->t) && !dlend_edge_grant_shared(e);
	e->granted = false;
	mutex_unlock(&dlend_p2p_lock);
	if (ungrant)
		dlend_edge_ask_target(e, DLEND_MSG_P2P_UNGRANT);
	guard(mutex)(&dlend_p2p_lock);
	if (dlend_edge_room(e, &like))
		b = dlend_p2p_booking_find(&dlend_p2p_bookings, &like);
	/* A promise keeps the room; otherwise others may have it. */
	if (b && !b->promised)
		dlend_p2p_unbook(b);
}

/* Drop the sessions: dlend_p2p_note_lost() does not find this edge from now on. */
static void dlend_edge_drop_ends(struct dlend_edge *e)
{
	lockdep_assert_held(&dlend_p2p_lock);
	e->lost = false;
	dlend_session_drop(&e->s.ref);
	dlend_session_drop(&e->t.ref);
}

/* Set the time of the next try to map. @ms: 0: at once, and the last try has not failed. */
static void dlend_edge_retry_in(struct dlend_edge *e, unsigned int ms)
{
	lockdep_assert_held(&dlend_p2p_lock);
	e->retry_ms = ms;
	e->retry_at = jiffies + msecs_to_jiffies(ms);
}

/* Unmap an edge that is mapped, or that the source's lender has reported lost. */
static void dlend_edge_unmap(struct dlend_edge *e)
{
	char name[DLEND_NAME_LEN];
	bool ask = e->ap;
	int ret = 0;

	/*
	 * Ask the source's lender to unmap, unless the source's lease is over: then the lender has
	 * unmapped everything, or does so by itself.  But if the edge has a slot here, ask in any
	 * case: the slot's offsets may be used again only after the lender has said that nothing is
	 * mapped to them.  Ask also if the lender has reported a mapping lost: that report may have
	 * been about an earlier mapping of this edge.
	 */
	scoped_guard(mutex, &dlend_p2p_lock)
		ask = ask || dlend_edge_end_member(&e->s);
	if (ask)
		ret = dlend_edge_ask_source(e, DLEND_MSG_P2P_UNMAP, &e->have);
	/* The lender has no such mapping, or no such lease any more: nothing is mapped. */
	if (ret == -ENOENT || ret == -ESTALE || ret == -ENODEV)
		ret = 0;
	if (ret && ret != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(e->s.ref.link),
				     "node %u did not unmap a BAR of %s (%d): its part of the window stays reserved until the link restarts\n",
				     e->s.addr.lender, dlend_addr_name(&e->t.addr, name), ret);
	dlend_edge_undo(e, !ret);
	trace_dlend_p2p(&e->s.addr, &e->t.addr, e->lost ? "lost" : "unmap", e->bar, e->route,
			e->have.gpa, e->have.size, ret);
	guard(mutex)(&dlend_p2p_lock);
	e->err = e->lost ? -ECONNRESET : 0;
	if (e->lost)
		dlend_edge_retry_in(e, DLEND_EDGE_RETRY_LOST_MS);
	e->have.on = false;
	dlend_edge_drop_ends(e);
}

/*
 * Map an edge by the route @e->route; on an error, everything is undone. Return: 0; or the error of
 * the first step that has failed: dlend_edge_book(), the grant, the slot, the map.
 */
static int dlend_edge_try(struct dlend_edge *e, const struct dlend_p2p_fabric *fabric)
{
	int ret = dlend_edge_book(e, fabric);

	if (ret)
		return ret;
	if (e->route == DLEND_P2P_LENDERS) {
		ret = dlend_edge_ask_target(e, DLEND_MSG_P2P_GRANT);
		e->granted = !ret || ret == -ETIMEDOUT;
	} else if (e->route == DLEND_P2P_BORROWER) {
		ret = dlend_edge_open_slot(e);
	}
	if (!ret)
		ret = dlend_edge_ask_source(e, DLEND_MSG_P2P_MAP, &e->want);
	if (!ret)
		return 0;
	/* The lender may have mapped it, and only its answer is late: have it unmap. */
	if (ret == -ETIMEDOUT)
		dlend_edge_ask_source(e, DLEND_MSG_P2P_UNMAP, &e->want);
	dlend_edge_undo(e, ret != -ETIMEDOUT);
	return ret;
}

/*
 * May another route succeed after @err?  It may if a window, a link or a grant was the reason; it
 * may not if the BAR's address or a lease was.
 */
static bool dlend_edge_worth_detour(int err)
{
	return err == -EHOSTUNREACH || err == -ENOSPC || err == -EDQUOT || err == -ENOBUFS ||
	       err == -ENOTCONN || err == -EAGAIN || err == -ERANGE;
}

static const char * const dlend_p2p_route_name[] = {
	[DLEND_P2P_NONE] = "none",
	[DLEND_P2P_LOCAL] = "same-lender",
	[DLEND_P2P_LENDERS] = "lender-link",
	[DLEND_P2P_BORROWER] = "via-borrower",
};

static const char * const dlend_p2p_why_text[] = {
	[DLEND_P2P_OFF] = "not in use",
	[DLEND_P2P_NO_BAR] = "no such BAR",
	[DLEND_P2P_PART] = "not made of whole pages",
	[DLEND_P2P_OVER_BAR] = "placed over another BAR",
};

/*
 * Log why an edge cannot be mapped, once for each @want.  Failures that end by themselves are not
 * logged: the link or the lease is over (what follows then is logged elsewhere), or -EAGAIN for a
 * short time.
 */
static void dlend_edge_log_failure(struct dlend_edge *e)
{
	char from[DLEND_NAME_LEN], to[DLEND_NAME_LEN];
	const char *what, *todo;

	if (!e->s.ref.link || e->logged || e->err == -ENOTCONN || e->err == -ESTALE ||
	    (e->err == -EAGAIN && e->retry_ms <= DLEND_EDGE_QUIET_MS))
		return;
	e->logged = true;
	what = dlend_p2p_err_text(e->err, &todo);
	dev_warn(dlend_link_dev(e->s.ref.link),
		 "%s does not reach BAR %u of %s at %#llx (%s, %d): %s; %s\n",
		 dlend_addr_name(&e->s.addr, from), e->bar, dlend_addr_name(&e->t.addr, to),
		 e->want.gpa, dlend_p2p_route_name[e->route], e->err, what, todo);
}

/*
 * Set the session and the epoch of one end, for a try to map. Return: false if the member has not
 * the lease @epoch any more.
 */
static bool dlend_edge_end_take(struct dlend_edge_end *end, u32 epoch)
{
	struct dlend_p2p_member *m;

	end->epoch = epoch;
	m = dlend_edge_end_member(end);
	if (!m || !m->ref.link)
		return false;
	end->ref = m->ref;
	dlend_link_get(end->ref.link);
	return true;
}

/* Map @e->want: by the best route, and if that fails by the others. */
static void dlend_edge_map(struct dlend_edge *e, const struct dlend_p2p_fabric *fabric)
{
	enum dlend_p2p_route route = dlend_p2p_route(fabric, e->s.addr.lender, e->t.addr.lender);
	bool booked = false;
	int ret = 0;

	scoped_guard(mutex, &dlend_p2p_lock) {
		e->lost = false;
		if (!dlend_edge_end_take(&e->s, e->want.source_epoch) ||
		    !dlend_edge_end_take(&e->t, e->want.target_epoch))
			ret = -ENOTCONN;
	}
	while (!ret) {
		e->route = route;
		ret = dlend_edge_try(e, fabric);
		trace_dlend_p2p(&e->s.addr, &e->t.addr, "map", e->bar, e->route, e->want.gpa,
				e->want.size, ret);
		if (!ret || !dlend_edge_worth_detour(ret))
			break;
		booked = booked || ret == -ENOBUFS;
		route = dlend_p2p_detour(fabric, e->s.addr.lender, e->t.addr.lender, e->route);
		if (route == DLEND_P2P_NONE)
			break;
		ret = 0;
	}
	guard(mutex)(&dlend_p2p_lock);
	/* Of several routes' failures, show this one: it ends when another VM gives room back. */
	e->err = ret && booked ? -ENOBUFS : ret;
	e->have = e->want;
	e->have.on = !ret;
	if (!ret) {
		dlend_edge_retry_in(e, 0);
		return;
	}
	dlend_edge_retry_in(e, clamp(e->retry_ms * 2, DLEND_EDGE_RETRY_MIN_MS,
				     DLEND_EDGE_RETRY_MAX_MS));
	dlend_edge_log_failure(e);
	dlend_edge_drop_ends(e);
}

/* The worker */

/* Return: the edge from @s to BAR @bar of @t, or NULL. Under dlend_p2p_lock. */
static struct dlend_edge *dlend_edge_find(const struct dlend_addr *s, const struct dlend_addr *t,
					  unsigned int bar)
{
	struct dlend_edge *e;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(e, &dlend_edges, node)
		if (e->bar == bar && dlend_addr_same(&e->s.addr, s) &&
		    dlend_addr_same(&e->t.addr, t))
			return e;
	return NULL;
}

/*
 * Set @want of the edge from the device @user->of to a BAR of device @t, if it should be mapped.
 * Under dlend_p2p_lock.
 */
static void dlend_edge_want(const struct dlend_p2p_user *user, unsigned int t, unsigned int bar)
{
	const struct dlend_p2p_dev *source = &user->dev[user->of], *target = &user->dev[t];
	struct dlend_p2p_wish wish;
	struct dlend_edge *e;

	if (dlend_p2p_want(user->dev, user->n, (struct dlend_p2p_way){ user->of, t, bar },
			   &wish) != DLEND_P2P_OK)
		return;
	e = dlend_edge_find(&source->addr, &target->addr, bar);
	if (!e) {
		e = kzalloc_obj(*e);
		if (!e)
			return;		/* the next change of any member tries again */
		e->s.addr = source->addr;
		e->t.addr = target->addr;
		e->bar = bar;
		list_add_tail(&e->node, &dlend_edges);
	}
	if (!dlend_p2p_wish_same(&e->want, &wish)) {
		e->logged = false;
		e->retry_at = jiffies;
		e->retry_ms = 0;
	}
	e->want = wish;
}

/* Is the edge as it should be, or has a try to map it failed? */
static bool dlend_edge_settled(const struct dlend_edge *e)
{
	enum dlend_p2p_step step = dlend_p2p_step(&e->want, &e->have);

	return step == DLEND_P2P_KEEP ? !e->lost : step == DLEND_P2P_MAP && e->retry_ms;
}

/*
 * For each member, note whether all edges of which it is the source are settled, and wake those who
 * wait for that (dlend_p2p_member.wq).
 */
static void dlend_edges_note_settled(void)
{
	struct dlend_p2p_member *m;
	struct dlend_edge *e;
	bool settled;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(m, &dlend_p2p_members, node) {
		settled = true;
		list_for_each_entry(e, &dlend_edges, node)
			if (dlend_addr_same(&e->s.addr, &m->dev.addr))
				settled = settled && dlend_edge_settled(e);
		if (settled == m->settled)
			continue;
		WRITE_ONCE(m->settled, settled);
		if (settled)
			wake_up_all(m->wq);
	}
}

/* Set @want of all edges, from what was published about the members. Under dlend_p2p_lock. */
static void dlend_edges_want(struct dlend_p2p_user *user)
{
	struct dlend_p2p_member *m;
	unsigned int t, bar;
	struct dlend_edge *e;

	list_for_each_entry(e, &dlend_edges, node)
		e->want.on = false;
	list_for_each_entry(m, &dlend_p2p_members, node) {
		if (!dlend_p2p_collect(m, user))
			continue;
		for (t = 0; t < user->n; t++)
			for (bar = 0; bar < DLEND_NUM_BARS; bar++)
				dlend_edge_want(user, t, bar);
	}
	dlend_p2p_changed = false;
}

/*
 * Return: the next edge to unmap (@have.on is true) or to map (it is false); NULL: there is none
 * now.  Edges that are neither wanted nor mapped are freed.
 * @user: memory to work with.
 * @ms: (out) written if there is none: milliseconds until an edge is to be tried again; 0: never.
 */
static struct dlend_edge *dlend_edges_next(struct dlend_p2p_user *user, unsigned int *ms)
{
	struct dlend_edge *e, *next;
	unsigned long now;

	guard(mutex)(&dlend_p2p_lock);
	/* Only after a change: it takes long, and others wait for the lock. */
	if (dlend_p2p_changed)
		dlend_edges_want(user);
	dlend_edges_note_settled();
	/* First unmap: an old mapping may be in the way of a new one. */
	list_for_each_entry_safe(e, next, &dlend_edges, node) {
		if (e->lost || dlend_p2p_step(&e->want, &e->have) == DLEND_P2P_UNMAP)
			return e;
		if (!e->want.on) {
			list_del(&e->node);
			kfree(e);
		}
	}
	*ms = 0;
	now = jiffies;
	list_for_each_entry(e, &dlend_edges, node) {
		if (dlend_p2p_step(&e->want, &e->have) != DLEND_P2P_MAP)
			continue;
		if (time_after_eq(now, e->retry_at))
			return e;
		*ms = min(*ms ?: U32_MAX,
			  max(jiffies_to_msecs(e->retry_at - now), DLEND_EDGE_RETRY_MIN_MS));
	}
	return NULL;
}

/* The worker: unmap and map edges until there is nothing to do. */
static void dlend_edges_work(struct work_struct *work)
{
	struct dlend_p2p_view *view __free(kfree) = kzalloc_obj(*view);
	unsigned int ms = DLEND_EDGE_RETRY_MIN_MS;
	struct dlend_edge *e;

	while (view && (e = dlend_edges_next(&view->user, &ms))) {
		if (e->have.on) {
			dlend_edge_unmap(e);
			continue;
		}
		dlend_p2p_view_links(view);
		dlend_edge_map(e, &view->user.fabric);
	}
	if (ms)
		queue_delayed_work(dlend_p2p_wq, &dlend_p2p_dwork, msecs_to_jiffies(ms));
}

void dlend_p2p_note_lost(struct dlend_link *link, const struct dlend_addr *source, u32 epoch,
			 const struct dlend_p_p2p *p)
{
	struct dlend_addr target = dlend_p2p_target(p);
	struct dlend_edge *e;

	guard(mutex)(&dlend_p2p_lock);
	e = dlend_edge_find(source, &target, le16_to_cpu(p->bar));
	if (!e || e->s.ref.link != link || e->s.epoch != epoch ||
	    e->t.epoch != le32_to_cpu(p->epoch))
		return;
	e->lost = true;
	dlend_p2p_queue_work();
}

/* What devices reach, for sysfs */

/* A line about a BAR of device @t, at @at of the page @buf. Return: its end in @buf; 0: no line. */
static int dlend_edge_emit(const struct dlend_p2p_user *user, unsigned int t, unsigned int bar,
			   char *buf, int at)
{
	const struct dlend_p2p_dev *target = &user->dev[t];
	char name[DLEND_NAME_LEN];
	struct dlend_p2p_wish wish;
	const struct dlend_edge *e;
	enum dlend_p2p_why why;

	why = dlend_p2p_want(user->dev, user->n, (struct dlend_p2p_way){ user->of, t, bar },
			     &wish);
	if (why == DLEND_P2P_NO_BAR)
		return 0;
	e = dlend_edge_find(&user->dev[user->of].addr, &target->addr, bar);
	at += sysfs_emit_at(buf, at, "%s bar%u %#llx %#llx ",
			    dlend_addr_name(&target->addr, name), bar, target->bar[bar].gpa,
			    target->bar[bar].size);
	if (e && e->have.on)
		return at + sysfs_emit_at(buf, at, "%s mapped\n", dlend_p2p_route_name[e->route]);
	if (why != DLEND_P2P_OK)
		return at + sysfs_emit_at(buf, at, "none %s\n", dlend_p2p_why_text[why]);
	if (e && e->err)
		return at + sysfs_emit_at(buf, at, "none error %d, %s\n", e->err,
					  dlend_p2p_err_text(e->err, NULL));
	return at + sysfs_emit_at(buf, at, "none soon\n");
}

ssize_t dlend_p2p_emit(struct dlend_p2p_member *m, char *buf)
{
	struct dlend_p2p_user *user __free(kfree) = kzalloc_obj(*user);
	unsigned int t, bar;
	int at = 0, len;

	if (!user)
		return -ENOMEM;
	guard(mutex)(&dlend_p2p_lock);
	if (!m->joined || !dlend_p2p_collect(m, user))
		return 0;
	for (t = 0; t < user->n; t++) {
		/* That a device reaches its own BARs is not shown. */
		for (bar = 0; bar < DLEND_NUM_BARS && t != user->of; bar++) {
			len = dlend_edge_emit(user, t, bar, buf, at);
			/* A line that would be cut at the end of the page is left out. */
			if (len < PAGE_SIZE - 1)
				at = max(at, len);
		}
	}
	return at;
}
DLEND_EXPORT(dlend_p2p_emit);

int dlend_p2p_init(void)
{
	INIT_DELAYED_WORK(&dlend_p2p_dwork, dlend_edges_work);
	/* WQ_MEM_RECLAIM: this host's swap or writeback may go to a borrowed disk. */
	dlend_p2p_wq = alloc_ordered_workqueue("dlend-p2p", WQ_MEM_RECLAIM);
	return dlend_p2p_wq ? 0 : -ENOMEM;
}

void dlend_p2p_exit(void)
{
	struct dlend_p2p_peer *peer, *next;

	/*
	 * No member is left, so this run unmaps all edges.  If it had no memory, it has queued
	 * itself once more, with a delay: cancel that.
	 */
	dlend_p2p_queue_work();
	flush_delayed_work(&dlend_p2p_dwork);
	cancel_delayed_work_sync(&dlend_p2p_dwork);
	destroy_workqueue(dlend_p2p_wq);
	list_for_each_entry_safe(peer, next, &dlend_p2p_peers, node)
		dlend_p2p_forget_peer(peer->link);
}
