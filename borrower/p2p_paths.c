// SPDX-License-Identifier: GPL-2.0
/*
 * Which nodes have links to each other, and on which islands these end, as far as this node knows:
 * its own links, and what its peers say about theirs.
 */
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include <dlend/root.h>
#include "bridges.h"
#include "p2p.h"

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

void *dlend_p2p_paths_get(struct dlend_p2p_fabric *fabric)
{
	struct dlend_p2p_paths *paths = kzalloc_obj(*paths);
	struct dlend_p2p_peers *peers;
	unsigned int i;

	*fabric = (struct dlend_p2p_fabric){ .self = dlend_node_id() };
	if (!paths)
		return NULL;
	dlend_link_for_each(dlend_p2p_paths_add_own, paths);
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

void dlend_p2p_paths_note_taken(void *memory, const void *party)
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

void dlend_p2p_paths_exit(void)
{
	struct dlend_p2p_peers *peers, *next;

	list_for_each_entry_safe(peers, next, &dlend_p2p_peers, node)
		dlend_p2p_peers_free(peers);
}
