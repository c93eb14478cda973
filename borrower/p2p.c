// SPDX-License-Identifier: GPL-2.0
/*
 * Edges: which BAR each borrowed device reaches, and the worker that keeps that as it should be.
 *
 * From what the members publish, p2p_plan.c says which edges there should be.  One worker makes
 * them: it asks lenders, and nobody who uses a device waits for it.  Must not know what a lender
 * does with a mapping, nor when a device is borrowed.
 *
 * A mapping can lead through this node: then it is a slot of the aperture towards the source's
 * lender, mapped to the window to the target's lender.  Where that leads depends on the target's
 * lease.  So it is unmapped before that is returned, or a new session begins (dlend_p2p_fence()).
 *
 * Only the worker makes and frees edges, so it may look at one without dlend_p2p_lock.
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

/*
 * Where things on other nodes sit, as those nodes have told: offered devices (kept in the offers),
 * and the NTBs at the ends of links (kept here).  Cliques depend on where they join their host's
 * root complex; the bridges above them are for people only.
 */

#define DLEND_BRIDGE_ENDS_MAX	DLEND_PEERS_MAX		/* of a peer: it must not fill memory */
#define DLEND_BRIDGE_LINE_MAX	256			/* bytes of a line in sysfs */

/**
 * struct dlend_bridge_end - an NTB at the end of a link between two other nodes
 * @node: among all
 * @link: over which its node told of it
 * @addr: the NTB
 * @to: the node that it leads to
 * @place: where it is
 */
struct dlend_bridge_end {
	struct list_head node;
	struct dlend_link *link;
	struct dlend_addr addr;
	u16 to;
	struct dlend_p_place place;
};

static DEFINE_MUTEX(dlend_bridge_ends_lock);
static LIST_HEAD(dlend_bridge_ends);

static int dlend_bridge_emit_bdf(char *buf, int at, u32 domain, u16 bdf)
{
	return sysfs_emit_at(buf, at, "%04x:%02x:%02x.%x", domain, bdf >> 8, (bdf >> 3) & 0x1f,
			     bdf & 7);
}

int dlend_bridges_emit(char *buf, int at, const struct dlend_p_place *place)
{
	static const char * const kind[DLEND_BRIDGE_KINDS] = {
		[DLEND_BRIDGE_ROOT] = "root",
		[DLEND_BRIDGE_UP] = "up",
		[DLEND_BRIDGE_DOWN] = "down",
		[DLEND_BRIDGE_PCI] = "pci",
	};
	int from = at;
	unsigned int i;

	for (i = 0; i < place->count; i++) {
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
		.island = le16_to_cpu(place->island),
	};

	return dlend_root_emit(buf, at, &root);
}

ssize_t dlend_bridge_ends_emit(char *buf, bool roots)
{
	struct dlend_bridge_end *end;
	int at = 0;

	guard(mutex)(&dlend_bridge_ends_lock);
	list_for_each_entry(end, &dlend_bridge_ends, node) {
		/* Whole lines only. */
		if (at > PAGE_SIZE - DLEND_BRIDGE_LINE_MAX)
			break;
		at += sysfs_emit_at(buf, at, "%u %u ", end->addr.lender, end->to);
		if (roots) {
			at += dlend_place_emit_root(buf, at, &end->place);
		} else {
			at += dlend_bridge_emit_bdf(buf, at, le32_to_cpu(end->place.domain),
						    end->addr.bdf);
			at += sysfs_emit_at(buf, at, " ");
			at += dlend_bridges_emit(buf, at, &end->place);
		}
		at += sysfs_emit_at(buf, at, "\n");
	}
	return at;
}

/* On which islands the known ends are. Return: how many are written. */
static unsigned int dlend_bridge_ends_islands(struct dlend_p2p_end *ends, unsigned int max)
{
	const struct dlend_bridge_end *end;
	unsigned int n = 0;

	guard(mutex)(&dlend_bridge_ends_lock);
	list_for_each_entry(end, &dlend_bridge_ends, node) {
		if (n == max)
			break;
		ends[n++] = (struct dlend_p2p_end){
			.at = end->addr.lender, .to = end->to,
			.island = le16_to_cpu(end->place.island),
		};
	}
	return n;
}

/* The entry of the NTB to @to of which was told over @link, or a new one while there is room. */
static struct dlend_bridge_end *dlend_bridge_end_for(struct dlend_link *link, u16 to)
{
	struct dlend_bridge_end *end;
	unsigned int n = 0;

	lockdep_assert_held(&dlend_bridge_ends_lock);
	list_for_each_entry(end, &dlend_bridge_ends, node) {
		if (end->link != link)
			continue;
		if (end->to == to)
			return end;
		n++;
	}
	if (n == DLEND_BRIDGE_ENDS_MAX)
		return NULL;
	end = kzalloc_obj(*end);
	if (!end)
		return NULL;
	end->link = dlend_link_get(link);
	end->to = to;
	list_add_tail(&end->node, &dlend_bridge_ends);
	return end;
}

void dlend_bridge_end_note(struct dlend_link *link, const struct dlend_addr *addr,
			   const struct dlend_p_place *place)
{
	struct dlend_bridge_end *end;

	guard(mutex)(&dlend_bridge_ends_lock);
	end = dlend_bridge_end_for(link, le16_to_cpu(place->node));
	if (!end)
		return;
	end->addr = *addr;
	end->place = *place;
}

void dlend_bridge_ends_forget(struct dlend_link *link)
{
	struct dlend_bridge_end *end, *next;

	guard(mutex)(&dlend_bridge_ends_lock);
	list_for_each_entry_safe(end, next, &dlend_bridge_ends, node) {
		if (end->link != link)
			continue;
		list_del(&end->node);
		dlend_link_put(end->link);
		kfree(end);
	}
}

/*
 * Which nodes have links to each other, and on which islands these end, as far as this node knows:
 * its own links, and what its peers say about theirs.
 */

#define DLEND_P2P_PATHS_MAX	256	/* links of this node and of its peers */
#define DLEND_P2P_PATH_LINE	32	/* bytes of a line in sysfs, at most */

/**
 * struct dlend_p2p_peers - what one peer said about its links
 * @node: among all
 * @link: to that peer
 * @n: how many links it has
 * @path: these links
 * @coming: how many of a list that is not complete yet
 * @next: these
 */
struct dlend_p2p_peers {
	struct list_head node;
	struct dlend_link *link;
	unsigned int n, coming;
	struct dlend_p2p_path path[DLEND_PEERS_MAX];
	struct dlend_p2p_path next[DLEND_PEERS_MAX];
};

struct dlend_p2p_paths {
	unsigned int n, ends;
	struct dlend_p2p_path path[DLEND_P2P_PATHS_MAX];
	struct dlend_p2p_end end[DLEND_P2P_PATHS_MAX];
};

DEFINE_MUTEX(dlend_p2p_lock);	/* all of peer-to-peer: see p2p.h */
static LIST_HEAD(dlend_p2p_peers);
static LIST_HEAD(dlend_p2p_members);
static LIST_HEAD(dlend_p2p_bookings);

static void dlend_p2p_paths_add(struct dlend_p2p_paths *paths, const struct dlend_p2p_path *path)
{
	if (paths->n < DLEND_P2P_PATHS_MAX)
		paths->path[paths->n++] = *path;
	else
		pr_warn_once("dlend: this node and its peers have more than %u links: the others are left out, and devices that reach each other over one of these are taken for out of reach; take links down that no device needs\n",
			     DLEND_P2P_PATHS_MAX);
}

static int dlend_p2p_paths_add_own(struct dlend_link *link, void *arg)
{
	struct dlend_aperture *ap = dlend_link_aperture(link);
	struct dlend_p2p_paths *paths = arg;
	struct dlend_aperture_stat st;
	struct dlend_root root;
	u64 left;

	if (!ap || dlend_link_peer(link) == dlend_node_id())
		return 0;
	dlend_aperture_stat(ap, &st);
	left = min(st.p2p_limit, st.p2p + st.free);
	dlend_p2p_paths_add(paths, &(struct dlend_p2p_path){
		.from = dlend_link_peer(link),
		.to = dlend_node_id(),
		.mib = min_t(u64, st.p2p_limit / SZ_1M, U32_MAX),
		.taken = st.p2p_limit - left,	/* by guests' RAM */
	});
	if (paths->ends < DLEND_P2P_PATHS_MAX && dlend_root_of_link(link, &root))
		paths->end[paths->ends++] = (struct dlend_p2p_end){
			.at = dlend_node_id(),
			.to = dlend_link_peer(link),
			.island = root.island,
		};
	return 0;
}

/*
 * What is known of the links between nodes. Return: memory for kfree(); NULL without memory
 * (@fabric is empty then).
 */
static void *dlend_p2p_paths_get(struct dlend_p2p_fabric *fabric)
{
	struct dlend_p2p_paths *paths = kzalloc_obj(*paths);
	struct dlend_p2p_peers *peers;
	unsigned int i;

	*fabric = (struct dlend_p2p_fabric){ .self = dlend_node_id() };
	if (!paths)
		return NULL;
	dlend_links_each(true, dlend_p2p_paths_add_own, paths);
	mutex_lock(&dlend_p2p_lock);
	list_for_each_entry(peers, &dlend_p2p_peers, node)
		for (i = 0; i < peers->n; i++)
			dlend_p2p_paths_add(paths, &peers->path[i]);
	mutex_unlock(&dlend_p2p_lock);
	paths->ends += dlend_bridge_ends_islands(paths->end + paths->ends,
						 DLEND_P2P_PATHS_MAX - paths->ends);
	fabric->path = paths->path;
	fabric->n = paths->n;
	fabric->end = paths->end;
	fabric->ends = paths->ends;
	return paths;
}

/* What parties other than @party have booked is taken; once only. Under dlend_p2p_lock. */
static void dlend_p2p_paths_note_taken(void *memory, const void *party)
{
	struct dlend_p2p_paths *paths = memory;
	struct dlend_p2p_path *path;

	lockdep_assert_held(&dlend_p2p_lock);
	if (!paths)
		return;
	for (path = paths->path; path < paths->path + paths->n; path++)
		path->taken += dlend_p2p_booked(&dlend_p2p_bookings, path->from, path->to, party);
}

ssize_t dlend_p2p_paths_emit(char *buf)
{
	struct dlend_p2p_fabric fabric;
	void *paths = dlend_p2p_paths_get(&fabric);
	unsigned int i;
	int at = 0;

	if (!paths)
		return -ENOMEM;
	/* Whole lines only. */
	for (i = 0; i < fabric.n && at < PAGE_SIZE - DLEND_P2P_PATH_LINE; i++)
		at += sysfs_emit_at(buf, at, "%u %u %llu\n", fabric.path[i].from,
				    fabric.path[i].to, (u64)fabric.path[i].mib * SZ_1M);
	kfree(paths);
	return at;
}

static void dlend_p2p_peers_free(struct dlend_p2p_peers *peers)
{
	list_del(&peers->node);
	dlend_link_put(peers->link);
	kfree(peers);
}

static struct dlend_p2p_peers *dlend_p2p_peers_find(const struct dlend_link *link)
{
	struct dlend_p2p_peers *peers;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(peers, &dlend_p2p_peers, node)
		if (peers->link == link)
			return peers;
	return NULL;
}

static struct dlend_p2p_peers *dlend_p2p_peers_get(struct dlend_link *link)
{
	struct dlend_p2p_peers *peers = dlend_p2p_peers_find(link);

	if (peers)
		return peers;
	peers = kzalloc_obj(*peers);
	if (!peers)
		return NULL;
	peers->link = dlend_link_get(link);
	list_add_tail(&peers->node, &dlend_p2p_peers);
	return peers;
}

/* What was told before counts until the new list is complete. */
static void dlend_p2p_peers_note(struct dlend_p2p_peers *peers, const struct dlend_p_peers *p)
{
	unsigned int i, n = le32_to_cpu(p->count);

	if (!p->first)
		peers->coming = 0;
	/* A message is missing: the peer tells its list again when it has room. */
	if (le16_to_cpu(p->first) != peers->coming || peers->coming + n > DLEND_PEERS_MAX)
		return;
	for (i = 0; i < n; i++)
		peers->next[peers->coming++] = (struct dlend_p2p_path){
			.from = le16_to_cpu(p->peer[i].node),
			.to = dlend_link_peer(peers->link),
			.mib = le32_to_cpu(p->peer[i].mib),
		};
	if (p->more)
		return;
	memcpy(peers->path, peers->next, sizeof(peers->path));
	peers->n = peers->coming;
}

void dlend_p2p_note_peers(struct dlend_link *link, const struct dlend_p_peers *p)
{
	struct dlend_p2p_peers *peers;

	guard(mutex)(&dlend_p2p_lock);
	peers = dlend_p2p_peers_get(link);
	if (peers)
		dlend_p2p_peers_note(peers, p);
}

void dlend_p2p_forget_peers(struct dlend_link *link)
{
	struct dlend_p2p_peers *peers;

	guard(mutex)(&dlend_p2p_lock);
	peers = dlend_p2p_peers_find(link);
	if (peers)
		dlend_p2p_peers_free(peers);
}

/*
 * The borrowed devices of each party, as their users publish them.
 */

static bool dlend_p2p_changed;	/* members, since edges were planned; under dlend_p2p_lock */
static struct delayed_work dlend_p2p_dwork;
static struct workqueue_struct *dlend_p2p_wq;

void dlend_p2p_kick(void)
{
	mod_delayed_work(dlend_p2p_wq, &dlend_p2p_dwork, 0);
}

/* The party of a member. Under dlend_p2p_lock. */
static void dlend_p2p_collect(const struct dlend_p2p_member *of, struct dlend_p2p_party *party)
{
	struct dlend_p2p_member *m;

	lockdep_assert_held(&dlend_p2p_lock);
	party->n = 0;
	party->of = DLEND_P2P_DEVS;
	list_for_each_entry(m, &dlend_p2p_members, node) {
		if (m->party != of->party || party->n == DLEND_P2P_DEVS)
			continue;
		if (m == of)
			party->of = party->n;
		party->member[party->n] = m;
		party->dev[party->n++] = m->dev;
	}
	party->of = min(party->of, party->n);
}

/* The member that is a certain device. Under dlend_p2p_lock. Return: member, or NULL. */
static struct dlend_p2p_member *dlend_p2p_member_of(const struct dlend_addr *addr)
{
	struct dlend_p2p_member *m;

	lockdep_assert_held(&dlend_p2p_lock);
	list_for_each_entry(m, &dlend_p2p_members, node)
		if (dlend_addr_same(&m->dev.addr, addr))
			return m;
	return NULL;
}

/* What cliques depend on, beside what users publish.  Both locks are held. */
static void dlend_p2p_collect_islands(struct dlend_p2p_party *party)
{
	unsigned int i;

	for (i = 0; i < party->n; i++)
		party->dev[i].island = dlend_offer_island(&party->dev[i].addr);
}

/*
 * Book a way, or, if it is booked, let that be a promise from now on.  Under dlend_p2p_lock.
 * Return: false without memory.
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

/* The end of @b, which is booked. Under dlend_p2p_lock. */
static void dlend_p2p_unbook(struct dlend_p2p_booking *b)
{
	lockdep_assert_held(&dlend_p2p_lock);
	dlend_p2p_booking_del(&dlend_p2p_bookings, b);
	kfree(b);
}

/* The guest may be told of that way: book room for all BARs that it leads to. */
static void dlend_p2p_promise(const struct dlend_p2p_party *party, unsigned int s, unsigned int t)
{
	const struct dlend_p2p_dev *target = &party->dev[t];
	enum dlend_p2p_route route;
	unsigned int bar;

	route = dlend_p2p_wide_route(&party->fabric, party->dev, party->n, s, t);
	for (bar = 0; bar < DLEND_NUM_BARS; bar++) {
		struct dlend_p2p_booking want = {
			.party = party->member[s]->party,
			.s = party->dev[s].addr,
			.t = target->addr,
			.bar = bar,
			.bytes = target->bar[bar].size,
			.promised = true,
		};

		if (want.bytes && dlend_p2p_booking_place(&want, party->fabric.self, route))
			dlend_p2p_book(&want);
	}
}

static void dlend_p2p_promise_all(const struct dlend_p2p_party *party)
{
	int clique = party->dev[party->of].clique;
	unsigned int i;

	for (i = 0; i < party->n; i++) {
		if (i == party->of || clique < 0 || party->dev[i].clique != clique)
			continue;
		dlend_p2p_promise(party, party->of, i);
		dlend_p2p_promise(party, i, party->of);
	}
}

void dlend_p2p_join(struct dlend_p2p_member *m, void (*choose)(struct dlend_p2p_party *party))
{
	struct dlend_p2p_party *party = kzalloc_obj(*party);
	struct dlend_p2p_fabric fabric;
	void *paths = dlend_p2p_paths_get(&fabric);

	mutex_lock(&dlend_offers_lock);
	mutex_lock(&dlend_p2p_lock);
	list_add_tail(&m->node, &dlend_p2p_members);
	m->joined = true;
	if (party) {
		party->fabric = fabric;
		dlend_p2p_collect(m, party);
		dlend_p2p_collect_islands(party);
	}
	if (party && party->of < party->n) {
		dlend_p2p_paths_note_taken(paths, m->party);
		if (choose)
			choose(party);
		m->dev.clique = party->dev[party->of].clique;
		dlend_p2p_promise_all(party);
	}
	mutex_unlock(&dlend_p2p_lock);
	mutex_unlock(&dlend_offers_lock);
	kfree(paths);
	kfree(party);
}
DLEND_EXPORT(dlend_p2p_join);

static int dlend_p2p_emit_doubt(const struct dlend_p2p_party *party, unsigned int i, char *buf,
				int at)
{
	const struct dlend_p2p_dev *mine = &party->dev[party->of], *other = &party->dev[i];
	struct dlend_p2p_doubt doubt;
	char name[DLEND_NAME_LEN], text[DLEND_P2P_DOUBT_LEN];

	doubt = dlend_p2p_doubt(&party->fabric, party->dev, party->n, party->of, i);
	dlend_p2p_doubt_text(&doubt, text);
	if (!*text && mine->clique >= 0 && other->clique >= 0 && mine->clique != other->clique)
		snprintf(text, sizeof(text), "%s", DLEND_P2P_NO_DOUBT);
	if (!*text)
		return 0;
	return sysfs_emit_at(buf, at, "%s %s\n", dlend_addr_name(&other->addr, name), text);
}

ssize_t dlend_p2p_emit_doubts(struct dlend_p2p_member *m, char *buf)
{
	struct dlend_p2p_party *party = kzalloc_obj(*party);
	unsigned int i;
	void *paths;
	int at = 0;

	if (!party)
		return -ENOMEM;
	paths = dlend_p2p_paths_get(&party->fabric);
	mutex_lock(&dlend_offers_lock);
	mutex_lock(&dlend_p2p_lock);
	if (m->joined) {
		dlend_p2p_paths_note_taken(paths, m->party);
		dlend_p2p_collect(m, party);
		dlend_p2p_collect_islands(party);
	}
	/* Whole lines only. */
	for (i = 0; i < party->n && party->of < party->n &&
	     at < PAGE_SIZE - DLEND_P2P_DOUBT_LEN - DLEND_NAME_LEN; i++)
		if (i != party->of)
			at += dlend_p2p_emit_doubt(party, i, buf, at);
	mutex_unlock(&dlend_p2p_lock);
	mutex_unlock(&dlend_offers_lock);
	kfree(paths);
	kfree(party);
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
	dlend_p2p_kick();
}
DLEND_EXPORT(dlend_p2p_leave);

/* Where this node's windows lead to the BARs.  Those of a lease to come open at its take-over. */
static void dlend_p2p_windows(const struct dlend_lease *lease, phys_addr_t phys[DLEND_NUM_BARS])
{
	unsigned int i;

	for (i = 0; i < DLEND_NUM_BARS; i++)
		phys[i] = lease ? READ_ONCE(lease->bar[i].phys) : 0;
}

void dlend_p2p_publish(struct dlend_p2p_member *m, const struct dlend_p2p_dev *dev,
		       const struct dlend_lease *lease)
{
	phys_addr_t phys[DLEND_NUM_BARS];

	dlend_p2p_windows(lease, phys);
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
	WRITE_ONCE(m->settled, false);
	dlend_p2p_changed = true;
	dlend_p2p_kick();
}
DLEND_EXPORT(dlend_p2p_publish);

/* Pause between tries: at first, after a lender has unmapped something by itself, and at most. */
#define DLEND_EDGE_AGAIN_MIN_MS		50u
#define DLEND_EDGE_AGAIN_LOST_MS	1000u
#define DLEND_EDGE_AGAIN_MAX_MS		30000u

/* A failure that ends sooner than this is not worth a line in the log. */
#define DLEND_EDGE_QUIET_MS		1000u

/**
 * struct dlend_edge_end - a device at one end of an edge, and what a message to its lender needs
 * @ref: session of the link to its lender
 * @addr: device
 * @epoch: of its lease
 */
struct dlend_edge_end {
	struct dlend_session_ref ref;
	struct dlend_addr addr;
	u32 epoch;
};

/**
 * struct dlend_edge - a BAR that a device shall reach, or reaches already
 * @node: among all
 * @s: the device that reaches; session and lease are those of @have
 * @t: the device whose BAR it is; likewise
 * @bar: which BAR
 * @want: mapping, as it should be
 * @have: mapping, as it is
 * @route: of @have, or the next one to try
 * @granted: the target's lender was asked to grant the BAR to the source's lender
 * @lost: the source's lender has unmapped it by itself
 * @told: the log has what is wrong
 * @ap: our aperture towards the source's lender; NULL: not in use
 * @slot: in @ap; NULL: none
 * @cookie: of the slot's quarantine
 * @err: of the last try
 * @again: no new try before then, in jiffies
 * @again_ms: how long that is; longer each time
 */
struct dlend_edge {
	struct list_head node;
	struct dlend_edge_end s, t;
	unsigned int bar;
	struct dlend_p2p_wish want, have;
	enum dlend_p2p_route route;
	bool granted, lost, told;
	struct dlend_aperture *ap;
	struct dlend_slot *slot;
	u64 cookie;
	int err;
	unsigned long again;
	unsigned int again_ms;
};

static LIST_HEAD(dlend_edges);

/* The member at one end of an edge, if it still holds the lease that the edge knows. */
static struct dlend_p2p_member *dlend_edge_end_member(const struct dlend_edge_end *end)
{
	struct dlend_p2p_member *m = dlend_p2p_member_of(&end->addr);

	return m && m->dev.epoch == end->epoch ? m : NULL;
}

static bool dlend_edge_end_live(const struct dlend_edge_end *end)
{
	guard(mutex)(&dlend_p2p_lock);
	return dlend_edge_end_member(end);
}

/* Slots of edges that lead through this node */

/* When this returns, nothing gets through the slot any more. */
static void dlend_edge_close_slot(struct dlend_edge *e)
{
	lockdep_assert_held(&dlend_p2p_lock);
	if (e->slot)
		e->cookie = dlend_slot_quarantine(e->slot);
	e->slot = NULL;
}

/* @acked: the source's lender maps nothing in the slot. A new session releases all anyway. */
static void dlend_edge_release_slot(struct dlend_edge *e, bool acked)
{
	lockdep_assert_held(&dlend_p2p_lock);
	dlend_edge_close_slot(e);
	if (e->cookie && acked && dlend_session_live(&e->s.ref))
		dlend_slot_release(e->ap, e->cookie);
	e->cookie = 0;
	e->ap = NULL;
}

void dlend_p2p_fence(const struct dlend_addr *addr, u32 epoch)
{
	struct dlend_edge *e;

	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(e, &dlend_edges, node)
		if ((dlend_addr_same(&e->s.addr, addr) && e->s.epoch == epoch) ||
		    (dlend_addr_same(&e->t.addr, addr) && e->t.epoch == epoch))
			dlend_edge_close_slot(e);
}
DLEND_EXPORT(dlend_p2p_fence);

static int dlend_edge_open_slot(struct dlend_edge *e)
{
	struct dlend_p2p_member *target;
	struct dlend_slot *slot;
	phys_addr_t phys;
	int ret;

	guard(mutex)(&dlend_p2p_lock);
	target = dlend_edge_end_member(&e->t);
	/* Under dlend_p2p_lock: a lease that ends later finds the slot (dlend_p2p_fence()). */
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
	/* No lender knows the slot: it can be used again at once. */
	if (ret)
		dlend_slot_free(slot);
	else
		e->slot = slot;
	return ret;
}

/* Asking lenders; by the worker, without the lock */

static int dlend_edge_end_ask(const struct dlend_edge_end *end, struct dlend_msg *req)
{
	if (!end->ref.link)
		return -ENOTCONN;
	return dlend_link_call_in(&end->ref, req, NULL, 0);
}

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
		mutex_lock(&dlend_p2p_lock);
		p->offset = e->slot ? cpu_to_le64(e->slot->offset) : 0;
		mutex_unlock(&dlend_p2p_lock);
		if (!p->offset)
			return -ENOTCONN;
	}
	return dlend_edge_end_ask(&e->s, &req);
}

static int dlend_edge_ask_target(const struct dlend_edge *e, u16 type)
{
	struct dlend_p_p2p_grant *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, type, &e->t.addr, e->t.epoch, sizeof(*p));
	p->node = cpu_to_le16(e->s.addr.lender);
	p->bar = cpu_to_le16(e->bar);
	return dlend_edge_end_ask(&e->t, &req);
}

/* One grant serves all devices of a lender: does another device need it? */
static bool dlend_edge_grant_shared(const struct dlend_edge *e)
{
	const struct dlend_edge *other;

	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(other, &dlend_edges, node)
		if (other != e && other->granted && other->bar == e->bar &&
		    dlend_addr_same(&other->t.addr, &e->t.addr) && other->t.epoch == e->t.epoch &&
		    other->s.addr.lender == e->s.addr.lender)
			return true;
	return false;
}

/* Give a grant back.  If the target's lease has ended, its grants have ended with it. */
static void dlend_edge_give_back(struct dlend_edge *e)
{
	if (!e->granted)
		return;
	if (dlend_edge_end_live(&e->t) && !dlend_edge_grant_shared(e))
		dlend_edge_ask_target(e, DLEND_MSG_P2P_UNGRANT);
	e->granted = false;
}

/* Room in windows */

/* The room that the way of an edge takes. Return: false if it takes none. */
static bool dlend_edge_room(const struct dlend_edge *e, struct dlend_p2p_booking *b)
{
	*b = (struct dlend_p2p_booking){
		.s = e->s.addr, .t = e->t.addr, .bar = e->bar, .bytes = e->want.size,
	};
	return dlend_p2p_booking_place(b, dlend_node_id(), e->route);
}

/* What was promised is booked already.  All else must not take what others were promised. */
static int dlend_edge_book(const struct dlend_edge *e, const struct dlend_p2p_fabric *fabric)
{
	struct dlend_p2p_member *source;
	struct dlend_p2p_booking want;

	if (!dlend_edge_room(e, &want))
		return 0;
	guard(mutex)(&dlend_p2p_lock);
	source = dlend_edge_end_member(&e->s);
	/* A device that has left its VM takes its bookings along. */
	if (!source || !dlend_edge_end_member(&e->t))
		return -ENOTCONN;
	want.party = source->party;
	if (dlend_p2p_booking_find(&dlend_p2p_bookings, &want))
		return 0;
	if (!dlend_p2p_booking_fits(&dlend_p2p_bookings, fabric, &want))
		return -ENOBUFS;
	return dlend_p2p_book(&want) ? 0 : -ENOMEM;
}

/* Nothing is mapped by this way any more: unless it was promised, others may have the room. */
static void dlend_edge_unbook(const struct dlend_edge *e)
{
	struct dlend_p2p_booking like, *b;

	if (!dlend_edge_room(e, &like))
		return;
	guard(mutex)(&dlend_p2p_lock);
	b = dlend_p2p_booking_find(&dlend_p2p_bookings, &like);
	if (b && !b->promised)
		dlend_p2p_unbook(b);
}

static void dlend_edge_put_off(struct dlend_edge *e, unsigned int ms)
{
	lockdep_assert_held(&dlend_p2p_lock);
	e->again_ms = ms;
	e->again = jiffies + msecs_to_jiffies(ms);
}

static void dlend_edge_unmap(struct dlend_edge *e)
{
	char name[DLEND_NAME_LEN];
	int ret = 0;

	/*
	 * If the source's lease is over, nothing is mapped under it any more.  But if a slot is in
	 * use, only the source's lender can say that nothing leads there: so ask it.  It is asked
	 * even if it has said that the mapping is lost: that may have been the one before this.
	 */
	if (dlend_edge_end_live(&e->s) || e->ap)
		ret = dlend_edge_ask_source(e, DLEND_MSG_P2P_UNMAP, &e->have);
	if (ret == -ENOENT || ret == -ESTALE || ret == -ENODEV)
		ret = 0;
	if (ret && ret != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(e->s.ref.link),
				     "node %u did not unmap a BAR of %s (%d): its part of the window stays reserved until the link restarts\n",
				     e->s.addr.lender, dlend_addr_name(&e->t.addr, name), ret);
	mutex_lock(&dlend_p2p_lock);
	dlend_edge_release_slot(e, !ret);
	mutex_unlock(&dlend_p2p_lock);
	dlend_edge_give_back(e);
	dlend_edge_unbook(e);
	trace_dlend_p2p(&e->s.addr, &e->t.addr, e->lost ? "lost" : "unmap", e->bar, e->route,
			e->have.gpa, e->have.size, ret);
	mutex_lock(&dlend_p2p_lock);
	e->err = e->lost ? -ECONNRESET : 0;
	if (e->lost)
		dlend_edge_put_off(e, DLEND_EDGE_AGAIN_LOST_MS);
	e->have.on = false;
	e->lost = false;
	mutex_unlock(&dlend_p2p_lock);
	dlend_session_drop(&e->s.ref);
	dlend_session_drop(&e->t.ref);
}

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
	/* The lender may have mapped it, and only its answer is late. */
	if (ret == -ETIMEDOUT)
		dlend_edge_ask_source(e, DLEND_MSG_P2P_UNMAP, &e->want);
	mutex_lock(&dlend_p2p_lock);
	dlend_edge_release_slot(e, ret != -ETIMEDOUT);
	mutex_unlock(&dlend_p2p_lock);
	dlend_edge_give_back(e);
	dlend_edge_unbook(e);
	return ret;
}

/* Is another route worth a try after @err? Not if the address itself is the problem. */
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

static void dlend_edge_explain(const struct dlend_edge *e)
{
	char from[DLEND_NAME_LEN], to[DLEND_NAME_LEN];
	struct device *dev = dlend_link_dev(e->s.ref.link);
	const char *what, *todo;

	what = dlend_p2p_err_text(e->err, &todo);
	dev_warn(dev,
		 "%s does not reach BAR %u of %s at %#llx (%s, %d): %s; %s\n",
		 dlend_addr_name(&e->s.addr, from), e->bar, dlend_addr_name(&e->t.addr, to),
		 e->want.gpa, dlend_p2p_route_name[e->route], e->err, what, todo);
}

static bool dlend_edge_end_take(struct dlend_edge_end *end, u32 epoch)
{
	struct dlend_p2p_member *m;

	lockdep_assert_held(&dlend_p2p_lock);
	m = dlend_p2p_member_of(&end->addr);
	if (!m || m->dev.epoch != epoch || !m->ref.link)
		return false;
	end->ref = m->ref;
	dlend_link_get(end->ref.link);
	end->epoch = epoch;
	return true;
}

static int dlend_edge_take_ends(struct dlend_edge *e)
{
	guard(mutex)(&dlend_p2p_lock);
	e->lost = false;
	return dlend_edge_end_take(&e->s, e->want.source_epoch) &&
	       dlend_edge_end_take(&e->t, e->want.target_epoch) ? 0 : -ENOTCONN;
}

static void dlend_edge_map(struct dlend_edge *e, const struct dlend_p2p_fabric *fabric)
{
	struct dlend_p2p_wish want = e->want;
	enum dlend_p2p_route route = dlend_p2p_route(fabric, e->s.addr.lender, e->t.addr.lender);
	int ret = dlend_edge_take_ends(e);
	bool booked = false;

	while (!ret) {
		e->route = route;
		ret = dlend_edge_try(e, fabric);
		trace_dlend_p2p(&e->s.addr, &e->t.addr, "map", e->bar, e->route, want.gpa,
				want.size, ret);
		if (!ret || !dlend_edge_worth_detour(ret))
			break;
		booked = booked || ret == -ENOBUFS;
		route = dlend_p2p_detour(fabric, e->s.addr.lender, e->t.addr.lender, e->route);
		if (route == DLEND_P2P_NONE)
			break;
		ret = 0;
	}
	/* When another VM ends there is room, whatever the other ways lack. */
	if (ret && booked)
		ret = -ENOBUFS;
	mutex_lock(&dlend_p2p_lock);
	e->err = ret;
	e->have = want;
	e->have.on = !ret;
	if (ret)
		e->lost = false;
	dlend_edge_put_off(e, ret ? clamp(e->again_ms * 2, DLEND_EDGE_AGAIN_MIN_MS,
					  DLEND_EDGE_AGAIN_MAX_MS) : 0);
	mutex_unlock(&dlend_p2p_lock);
	/* Log it once, and only if it does not end by itself in a moment. */
	if (ret && e->s.ref.link && !e->told && ret != -ENOTCONN && ret != -ESTALE &&
	    (ret != -EAGAIN || e->again_ms > DLEND_EDGE_QUIET_MS)) {
		e->told = true;
		dlend_edge_explain(e);
	}
	if (ret) {
		dlend_session_drop(&e->s.ref);
		dlend_session_drop(&e->t.ref);
	}
}

/* The worker */

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

/* The device @party->of shall reach that BAR of the device @t: note how, as the plan says. */
static void dlend_edge_want(const struct dlend_p2p_party *party, unsigned int t, unsigned int bar)
{
	const struct dlend_p2p_dev *source = &party->dev[party->of], *target = &party->dev[t];
	struct dlend_p2p_wish wish;
	struct dlend_edge *e;

	if (dlend_p2p_want(party->dev, party->n, (struct dlend_p2p_way){ party->of, t, bar },
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
		e->told = false;
		e->again = jiffies;
		e->again_ms = 0;
	}
	e->want = wish;
}

/* Is it as it should be, or was it tried in vain? */
static bool dlend_edge_settled(const struct dlend_edge *e)
{
	switch (dlend_p2p_step(&e->want, &e->have)) {
	case DLEND_P2P_KEEP:
		return !e->lost;
	case DLEND_P2P_MAP:
		return e->again_ms;
	default:
		return false;
	}
}

/* Whoever waits until a device reaches all that it shall learns of it. */
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

/* Find out what should be mapped, from what the members publish. */
static void dlend_edges_want(struct dlend_p2p_party *party)
{
	struct dlend_p2p_member *m;
	unsigned int t, bar;
	struct dlend_edge *e;

	list_for_each_entry(e, &dlend_edges, node)
		e->want.on = false;
	list_for_each_entry(m, &dlend_p2p_members, node) {
		dlend_p2p_collect(m, party);
		for (t = 0; t < party->n && party->of < party->n; t++)
			for (bar = 0; bar < DLEND_NUM_BARS; bar++)
				dlend_edge_want(party, t, bar);
	}
	dlend_p2p_changed = false;
}

/* Not at each step: it is long, and others wait for the lock. */
static void dlend_edges_plan(struct dlend_p2p_party *party)
{
	guard(mutex)(&dlend_p2p_lock);
	if (dlend_p2p_changed)
		dlend_edges_want(party);
	dlend_edges_note_settled();
}

/* The next edge that needs a step; @step (out): which.  Frees edges that nobody needs. */
static struct dlend_edge *dlend_edges_next(enum dlend_p2p_step *step)
{
	struct dlend_edge *e, *next;

	guard(mutex)(&dlend_p2p_lock);
	/* First unmap: an old mapping may be in the way of a new one. */
	list_for_each_entry_safe(e, next, &dlend_edges, node) {
		*step = e->lost ? DLEND_P2P_UNMAP : dlend_p2p_step(&e->want, &e->have);
		if (*step == DLEND_P2P_UNMAP)
			return e;
		if (!e->want.on) {
			list_del(&e->node);
			kfree(e);
		}
	}
	*step = DLEND_P2P_MAP;
	list_for_each_entry(e, &dlend_edges, node)
		if (dlend_p2p_step(&e->want, &e->have) == DLEND_P2P_MAP &&
		    time_after_eq(jiffies, e->again))
			return e;
	return NULL;
}

/* Milliseconds until something is tried again, 0: nothing is. */
static unsigned int dlend_edges_next_try_ms(void)
{
	unsigned int ms = 0, wait;
	struct dlend_edge *e;

	guard(mutex)(&dlend_p2p_lock);
	list_for_each_entry(e, &dlend_edges, node) {
		if (!e->want.on || e->have.on)
			continue;
		wait = time_after(e->again, jiffies) ? jiffies_to_msecs(e->again - jiffies) : 0;
		ms = min(ms ?: U32_MAX, max(wait, DLEND_EDGE_AGAIN_MIN_MS));
	}
	return ms;
}

static void dlend_edges_work(struct work_struct *work)
{
	struct dlend_p2p_party *party = kzalloc_obj(*party);
	struct dlend_p2p_fabric fabric;
	enum dlend_p2p_step step;
	struct dlend_edge *e;
	unsigned int ms;
	void *paths;

	while (party) {
		dlend_edges_plan(party);
		e = dlend_edges_next(&step);
		if (!e)
			break;
		if (step == DLEND_P2P_UNMAP) {
			dlend_edge_unmap(e);
			continue;
		}
		paths = dlend_p2p_paths_get(&fabric);
		dlend_edge_map(e, &fabric);
		kfree(paths);
	}
	ms = party ? dlend_edges_next_try_ms() : DLEND_EDGE_AGAIN_MIN_MS;
	if (ms)
		queue_delayed_work(dlend_p2p_wq, &dlend_p2p_dwork, msecs_to_jiffies(ms));
	kfree(party);
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
	dlend_p2p_kick();
}

/* For people */

static int dlend_edge_emit(const struct dlend_p2p_party *party, unsigned int t, unsigned int bar,
			   char *buf, int at)
{
	const struct dlend_p2p_dev *target = &party->dev[t];
	char name[DLEND_NAME_LEN];
	struct dlend_p2p_wish wish;
	const struct dlend_edge *e;
	enum dlend_p2p_why why;

	why = dlend_p2p_want(party->dev, party->n, (struct dlend_p2p_way){ party->of, t, bar },
			     &wish);
	if (why == DLEND_P2P_NO_BAR)
		return 0;
	e = dlend_edge_find(&party->dev[party->of].addr, &target->addr, bar);
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
	struct dlend_p2p_party *party = kzalloc_obj(*party);
	unsigned int t, bar;
	int at = 0, len;

	if (!party)
		return -ENOMEM;
	mutex_lock(&dlend_p2p_lock);
	if (m->joined)
		dlend_p2p_collect(m, party);
	for (t = 0; t < party->n && party->of < party->n; t++) {
		/* That a device reaches itself is no news. */
		for (bar = 0; bar < DLEND_NUM_BARS && t != party->of; bar++) {
			len = dlend_edge_emit(party, t, bar, buf, at);
			/* Whole lines only. */
			if (len < PAGE_SIZE - 1)
				at = max(at, len);
		}
	}
	mutex_unlock(&dlend_p2p_lock);
	kfree(party);
	return at;
}
DLEND_EXPORT(dlend_p2p_emit);

int dlend_p2p_init(void)
{
	INIT_DELAYED_WORK(&dlend_p2p_dwork, dlend_edges_work);
	/* Its mappings may be the path to a disk to which this host writes its memory out. */
	dlend_p2p_wq = alloc_ordered_workqueue("dlend-p2p", WQ_MEM_RECLAIM);
	return dlend_p2p_wq ? 0 : -ENOMEM;
}

void dlend_p2p_exit(void)
{
	struct dlend_p2p_peers *peers, *next;

	dlend_p2p_kick();
	flush_delayed_work(&dlend_p2p_dwork);
	cancel_delayed_work_sync(&dlend_p2p_dwork);
	destroy_workqueue(dlend_p2p_wq);
	list_for_each_entry_safe(peers, next, &dlend_p2p_peers, node)
		dlend_p2p_peers_free(peers);
}
