// SPDX-License-Identifier: GPL-2.0
/*
 * The borrower's part of a link (struct dlend_link_user): messages of lenders about their devices,
 * the beginning and end of a session, and suspend.
 *
 * OFFER, SNAPSHOT, STATE, PLACE, SET and WITHDRAW change offers.  When the link is down, its offers
 * stay, and their state is GONE.  STATE, RECLAIM and ERROR are also passed on to the claim on the
 * offer.  PEERS, P2P_LOST and the PLACE of an NTB go to p2p.c.  Must not know what claims are for.
 */
#include <linux/bitmap.h>
#include <linux/crc32.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include "offer.h"
#include "p2p.h"

#define DLEND_EVENT_MSI_MAX	32	/* vectors of MSI, PCI r3.0 sec 6.8.1.3 */

/* Read a description from an OFFER. What makes no sense is limited, or left out. */
static void dlend_event_read_info(struct dlend_offer_info *info, const struct dlend_p_offer *p)
{
	memset(info, 0, sizeof(*info));
	info->vendor = le16_to_cpu(p->vendor);
	info->device = le16_to_cpu(p->device);
	info->class = le32_to_cpu(p->class) & 0xffffff;
	info->flags = le32_to_cpu(p->flags);
	info->group = le16_to_cpu(p->group);
	info->group_size = le16_to_cpu(p->group_size);
	info->nr_msi = min_t(u16, le16_to_cpu(p->nr_msi), DLEND_EVENT_MSI_MAX);
	info->nr_msix = min_t(u16, le16_to_cpu(p->nr_msix), DLEND_MAX_VECTORS);
	info->has_intx = le16_to_cpu(p->has_intx);
	info->clique = le16_to_cpu(p->clique);
	dlend_name_read(info->identity, p->identity);
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++) {
		u64 size = le64_to_cpu(p->bar[i].size);

		if (!is_power_of_2(size) || size > DLEND_BAR_BYTES_MAX)
			size = 0;
		info->bar[i].size = size;
		info->bar[i].flags = le32_to_cpu(p->bar[i].flags);
	}
}

/* Are these descriptions of the same device? Settings of the lender may differ. */
static bool dlend_event_same_device(const struct dlend_offer_info *a,
				    const struct dlend_offer_info *b)
{
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		if (a->bar[i].size != b->bar[i].size || a->bar[i].flags != b->bar[i].flags)
			return false;
	return a->vendor == b->vendor && a->device == b->device && a->class == b->class &&
	       a->flags == b->flags &&
	       /* A lender does not know the identity if its own driver has not read it. */
	       (!*a->identity || !*b->identity || !strcmp(a->identity, b->identity));
}

/*
 * Find or make the offer that an OFFER message is about. Context: dlend_offers_lock. Return: offer;
 * ERR_PTR(-EBUSY) another device had this address, and is still claimed; or as
 * dlend_offer_find_of(), dlend_offer_alloc(). An error is logged.
 */
static struct dlend_offer *dlend_event_offer_for(struct dlend_link *link,
						 const struct dlend_addr *addr,
						 const struct dlend_offer_info *info)
{
	struct dlend_offer *offer = dlend_offer_find_of(link, addr);
	char name[DLEND_NAME_LEN];

	if (IS_ERR(offer))
		return offer;
	if (offer && (offer->complete || offer->registered) &&
	    !dlend_event_same_device(&offer->info, info)) {
		if (offer->claim) {
			/*
			 * The old device is gone.  The lender sends the offer of the new one only
			 * once, so note to ask for it later.
			 */
			WRITE_ONCE(offer->withdrawn, true);
			offer->ask = offer->ask ?: dlend_link_get(link);
			dev_warn_ratelimited(&offer->dev,
					     "node %u now offers another device under this address (%04x:%04x %s, was %04x:%04x %s); ignored until the mdev is removed\n",
					     addr->lender, info->vendor, info->device,
					     info->identity, offer->info.vendor,
					     offer->info.device, offer->info.identity);
			return ERR_PTR(-EBUSY);
		}
		dlend_offer_kill(offer);
		offer = NULL;
	}
	if (offer)
		return offer;
	offer = dlend_offer_alloc(addr);
	if (IS_ERR(offer))
		dev_warn_ratelimited(dlend_link_dev(link), "offer %s ignored: %pe\n",
				     dlend_addr_name(addr, name), offer);
	return offer;
}

static struct dlend_offer_now dlend_event_read_now(const struct dlend_p_state *p)
{
	struct dlend_offer_now now = {
		.state = dlend_state_of(p->state),
		.comes = le16_to_cpu(p->state) & DLEND_STATE_F_COMES,
		.holder = le16_to_cpu(p->holder),
		.epoch = le32_to_cpu(p->epoch),
	};

	memcpy(now.vm, p->vm, sizeof(now.vm));
	return now;
}

/*
 * Call state() of a claim (NULL: there is none), and put the claim.  If its user neither has nor
 * asks for a lease, but the lender says that this node has one, return that lease. Context: without
 * dlend_offers_lock.
 */
static void dlend_event_report_state(struct dlend_claim *claim, const struct dlend_offer_now *now)
{
	if (claim && !claim->ops->state(claim, now->state, now->holder, now->epoch))
		dlend_claim_return_stray(claim);
	dlend_offer_put_claim(claim);
}

/*
 * Set the state of an offer. Context: dlend_offers_lock. Return: the claim, to be passed to
 * dlend_event_report_state(); NULL: there is none, and a stray is returned (offer.h).
 */
static struct dlend_claim *dlend_event_note_state(struct dlend_offer *offer,
						  const struct dlend_offer_now *now)
{
	struct dlend_claim *claim = dlend_offer_get_claim(offer);

	dlend_offer_note(offer, now);
	if (!claim)
		dlend_lease_return_stray(offer);
	return claim;
}

/* OFFER: begin to collect the snapshot, and set the state, which is part of the message. */
static void dlend_event_offer(struct dlend_link *link, const struct dlend_addr *addr,
			      const struct dlend_p_offer *p)
{
	struct dlend_offer_now now = dlend_event_read_now(&p->now);
	struct dlend_claim *claim = NULL;
	struct dlend_offer_info info;
	struct dlend_offer *offer;

	dlend_event_read_info(&info, p);
	mutex_lock(&dlend_offers_lock);
	offer = dlend_event_offer_for(link, addr, &info);
	if (!IS_ERR(offer)) {
		offer->next = info;
		offer->next_crc = le32_to_cpu(p->snapshot_crc);
		bitmap_zero(offer->pieces, DLEND_SNAPSHOT_PIECES);
		offer->collecting = true;
		/*
		 * The old description may not be true any more. Until the new one is complete,
		 * dlend_offer_claim() fails.
		 */
		if (!offer->link || offer->withdrawn)
			offer->complete = false;
		WRITE_ONCE(offer->withdrawn, false);
		dlend_offer_set_link(offer, link);
		claim = dlend_event_note_state(offer, &now);
	}
	mutex_unlock(&dlend_offers_lock);
	dlend_event_report_state(claim, &now);
}

/* Return: the offer of a device, if it came over @link; or NULL. Context: dlend_offers_lock. */
static struct dlend_offer *dlend_event_find(struct dlend_link *link, const struct dlend_addr *addr)
{
	struct dlend_offer *offer = dlend_offer_find(addr);

	return offer && offer->link == link ? offer : NULL;
}

/* SNAPSHOT: store a piece; after the last one, the new description is complete. */
static void dlend_event_snapshot(struct dlend_offer *offer, const struct dlend_p_snapshot *p)
{
	unsigned int at = le16_to_cpu(p->offset);

	if (!offer->collecting || at % DLEND_SNAPSHOT_PIECE || at >= DLEND_CFG_SIZE)
		return;
	memcpy(offer->next_snapshot + at, p->data, DLEND_SNAPSHOT_PIECE);
	__set_bit(at / DLEND_SNAPSHOT_PIECE, offer->pieces);
	if (!bitmap_full(offer->pieces, DLEND_SNAPSHOT_PIECES))
		return;
	offer->collecting = false;
	if (crc32_le(~0, offer->next_snapshot, DLEND_CFG_SIZE) != offer->next_crc) {
		dev_warn_ratelimited(&offer->dev,
				     "snapshot from node %u has a wrong checksum; ignored\n",
				     offer->addr.lender);
		return;
	}
	/* The identity stays known, even if the lender's own driver has not read it this time. */
	if (!offer->next.identity[0])
		memcpy(offer->next.identity, offer->info.identity, sizeof(offer->next.identity));
	offer->info = offer->next;
	swap(offer->snapshot, offer->next_snapshot);
	offer->complete = true;
	dlend_offer_update(offer);
}

/* SNAPSHOT, PLACE or SET: more about an offer; ignored if there is none. @p: as @type says. */
static void dlend_event_about_offer(struct dlend_link *link, const struct dlend_addr *addr,
				    u16 type, const void *p)
{
	const struct dlend_p_place *place = p;
	const struct dlend_p_set *set = p;
	struct dlend_offer *offer;

	guard(mutex)(&dlend_offers_lock);
	offer = dlend_event_find(link, addr);
	if (!offer)
		return;
	if (type == DLEND_MSG_SNAPSHOT) {
		dlend_event_snapshot(offer, p);
	} else if (type == DLEND_MSG_PLACE) {
		offer->place = *place;
		offer->placed = true;
	} else {
		dlend_name_read(offer->set, set->name);
	}
}

/* WITHDRAW: the offer is removed; if it is claimed, that is done when its claim is released. */
static void dlend_event_withdraw(struct dlend_link *link, const struct dlend_addr *addr)
{
	struct dlend_claim *claim = NULL;
	struct dlend_offer *offer;

	mutex_lock(&dlend_offers_lock);
	offer = dlend_offer_find_of(link, addr);
	if (!IS_ERR_OR_NULL(offer)) {
		WRITE_ONCE(offer->withdrawn, true);
		dlend_offer_note_gone(offer);
		claim = dlend_offer_get_claim(offer);
		if (!claim)
			dlend_offer_kill(offer);
	}
	mutex_unlock(&dlend_offers_lock);
	dlend_event_report_state(claim, &(struct dlend_offer_now){ .state = DLEND_OFFER_GONE });
}

/* STATE: set who has the device, and have its users told when it is free for the first time. */
static void dlend_event_state(struct dlend_link *link, const struct dlend_addr *addr,
			      const struct dlend_p_state *p)
{
	struct dlend_offer_now now = dlend_event_read_now(p);
	struct dlend_claim *claim = NULL;
	struct dlend_offer *offer;

	mutex_lock(&dlend_offers_lock);
	offer = dlend_event_find(link, addr);
	if (offer && !offer->withdrawn) {
		claim = dlend_event_note_state(offer, &now);
		if (now.state == DLEND_OFFER_FREE && offer->registered && !offer->announced)
			dlend_offer_update(offer);
	}
	mutex_unlock(&dlend_offers_lock);
	dlend_event_report_state(claim, &now);
}

/* RECLAIM or ERROR: pass it on to the claim, which checks whether it has the lease @epoch. */
static void dlend_event_lease(struct dlend_link *link, const struct dlend_addr *addr,
			      u16 type, u32 epoch)
{
	struct dlend_claim *claim = dlend_offer_get_claim_of(link, addr);

	if (!claim)
		return;
	if (type == DLEND_MSG_RECLAIM)
		claim->ops->reclaim(claim, epoch);
	else
		claim->ops->error(claim, epoch);
	dlend_offer_put_claim(claim);
}

/* dlend_link_user.message: the link has checked lengths and fields of the message. */
static int dlend_event_message(struct dlend_link *link, const struct dlend_msg *msg,
			       struct dlend_msg *reply)
{
	struct dlend_addr addr = dlend_msg_addr(msg);
	u16 type = le16_to_cpu(msg->type);
	u32 epoch = le32_to_cpu(msg->epoch);
	const void *p = msg->payload;
	const struct dlend_p_place *place = p;

	if (type == DLEND_MSG_PEERS) {
		dlend_p2p_note_peers(link, p);
		dlend_p2p_queue_work();
		return 0;
	}
	/* A node may send messages about its own devices only. */
	if (addr.lender != dlend_link_peer(link)) {
		dev_warn_ratelimited(dlend_link_dev(link), "%s about a device of node %u from node %u dropped\n",
				     dlend_msg_type_name(type), addr.lender, dlend_link_peer(link));
		return -EPERM;
	}
	switch (type) {
	case DLEND_MSG_OFFER:
		dlend_event_offer(link, &addr, p);
		return 0;
	case DLEND_MSG_WITHDRAW:
		dlend_event_withdraw(link, &addr);
		return 0;
	case DLEND_MSG_STATE:
		dlend_event_state(link, &addr, p);
		return 0;
	case DLEND_MSG_PLACE:
		/* It is about the peer's NTB that leads to that node, not about an offer. */
		if (place->node) {
			dlend_p2p_note_ntb(link, &addr, place);
			return 0;
		}
		fallthrough;
	case DLEND_MSG_SNAPSHOT:
	case DLEND_MSG_SET:
		dlend_event_about_offer(link, &addr, type, p);
		return 0;
	case DLEND_MSG_P2P_LOST:
		dlend_p2p_note_lost(link, &addr, epoch, p);
		return 0;
	case DLEND_MSG_RECLAIM:
	case DLEND_MSG_ERROR:
		dlend_event_lease(link, &addr, type, epoch);
		return 0;
	}
	return -EPROTO;
}

static void dlend_event_link_up(struct dlend_link *link)
{
	int ret = dlend_offer_subscribe(link);

	if (ret)
		dev_warn(dlend_link_dev(link), "node %u cannot be asked for its offers: %pe\n",
			 dlend_link_peer(link), ERR_PTR(ret));
}

/*
 * The link is down: take it from one of the offers that came over it, and call link_down() of its
 * claim, without dlend_offers_lock. Return: false if no such offer is left.
 */
static bool dlend_event_offer_link_down(struct dlend_link *link)
{
	struct dlend_claim *claim = NULL;
	struct dlend_offer *offer;
	bool found = false;

	mutex_lock(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node) {
		if (offer->link != link)
			continue;
		found = true;
		dlend_offer_set_link(offer, NULL);
		offer->collecting = false;
		offer->placed = false;
		offer->set[0] = '\0';
		dlend_offer_note_gone(offer);
		claim = dlend_offer_get_claim(offer);
		break;
	}
	mutex_unlock(&dlend_offers_lock);
	if (claim) {
		claim->ops->link_down(claim);
		dlend_offer_put_claim(claim);
	}
	return found;
}

static void dlend_event_link_down(struct dlend_link *link)
{
	while (dlend_event_offer_link_down(link))
		;
	dlend_p2p_forget_peer(link);
}

/*
 * Refuse to suspend while a claim has a lease, or asks for one; a claim alone does no harm. Return:
 * 0, -EBUSY. Borrows are blocked until dlend_event_resume(), which is called in both cases.
 */
static int dlend_event_suspend(void)
{
	struct dlend_offer *offer;
	int ret = 0;

	dlend_lease_block_borrows(true);
	guard(mutex)(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node) {
		struct dlend_claim *claim = offer->claim;

		if (!claim || !(READ_ONCE(claim->lease) || READ_ONCE(claim->borrowing)))
			continue;
		dev_warn(claim->dev, "this host does not suspend: %s uses this device of node %u and would lose it; %s, and suspend then\n",
			 claim->ops->user, offer->addr.lender, claim->ops->end);
		ret = -EBUSY;
	}
	return ret;
}

/* Allow borrows again, whether this host has slept or suspend was refused. */
static void dlend_event_resume(bool slept)
{
	dlend_lease_block_borrows(false);
}

struct dlend_link_user dlend_event_user = {
	.link_up = dlend_event_link_up,
	.link_down = dlend_event_link_down,
	.message = dlend_event_message,
	.suspend = dlend_event_suspend,
	.resume = dlend_event_resume,
	.side = DLEND_TO_BORROWER,
};
