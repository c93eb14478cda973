// SPDX-License-Identifier: GPL-2.0
/*
 * What other nodes are told about functions and links here: the messages, made of the state as it
 * is at that moment.
 *
 * Knows nothing of who has heard what, and posts nothing.
 */
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "lender/granted.h"
#include "lender/group.h"
#include "lender/offer.h"
#include "lender/place.h"
#include "lender/set.h"

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

static void lend_offer_state_message(const struct lend_fn *fn, u16 reader, struct dlend_msg *msg)
{
	struct lend_lease lease;

	lend_group_lease(fn->group, &lease);
	lend_offer_fill_state(fn, &lease, reader,
			      dlend_msg_init(msg, DLEND_MSG_STATE, &fn->addr, lease.epoch,
					     sizeof(struct dlend_p_state)));
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

void lend_offer_read(const struct lend_fn *fn, u16 reader, struct lend_news *news)
{
	guard(mutex)(&lend_offer_lock);
	if (!lend_fn_is_offered(fn) || fn->gone) {
		news->offer = false;
		news->state = false;
	}
	if (news->offer) {
		lend_offer_message(fn, reader, &news->msg);
		lend_place_fn_message(fn->pdev, &fn->addr, &news->place);
		lend_set_message(fn, &news->set);
	} else if (news->state) {
		lend_offer_state_message(fn, reader, &news->msg);
	}
}

void lend_offer_end(struct lend_fn *fn)
{
	dlend_waits_for_no_peer(&lend_offer_lock);
	guard(mutex)(&lend_offer_lock);
	fn->gone = true;
}

void lend_offer_snapshot(const struct lend_fn *fn, u32 at, struct dlend_msg *msg)
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
	u64 granted = lend_granted_others(le16_to_cpu(peer->node), reader);
	u32 mib = le32_to_cpu(peer->mib);

	peer->mib = cpu_to_le32(mib - min_t(u64, mib, DIV_ROUND_UP_ULL(granted, SZ_1M)));
}

bool lend_offer_peers(u16 reader, unsigned int first, struct dlend_msg *msg)
{
	struct lend_offer_list list = { .skip = first };
	struct dlend_p_peers *peers;
	unsigned int i;

	peers = dlend_msg_init(msg, DLEND_MSG_PEERS, NULL, 0, sizeof(*peers));
	list.peers = peers;
	dlend_link_for_each(lend_offer_add_peer, &list);
	for (i = 0; i < le32_to_cpu(peers->count); i++)
		lend_offer_take_granted(&peers->peer[i], reader);
	/* No node has so many links: see LEND_LISTENERS_MAX. */
	if (first + DLEND_PEERS_PER_MSG >= DLEND_PEERS_MAX)
		list.more = false;
	peers->first = cpu_to_le16(first);
	peers->more = cpu_to_le16(list.more);
	return list.more;
}
