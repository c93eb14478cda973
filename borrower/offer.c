// SPDX-License-Identifier: GPL-2.0
/*
 * The book of offers: all offers, and all that this node knows of each.
 *
 * Must not know how offers arrive (news.c), nor how a lease is asked for (lease.c).
 */
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait_bit.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include "group.h"
#include "offer.h"

/* A peer must not make this node allocate without end, nor leave nothing to others. */
#define DLEND_OFFERS_MAX	1024
#define DLEND_OFFERS_OF_NODE	512

DEFINE_MUTEX(dlend_offers_lock);	/* the book, and what changes of each offer */
LIST_HEAD(dlend_offers);

/* One that nobody has, and whose lender may never come back; of @lender, if that is not 0. */
static struct dlend_offer *dlend_offers_ghost(u16 lender)
{
	struct dlend_offer *offer;

	list_for_each_entry(offer, &dlend_offers, node)
		if (!offer->link && !offer->claim && !offer->dying &&
		    (!lender || offer->addr.lender == lender))
			return offer;
	return NULL;
}

bool dlend_offers_full(u16 lender, struct dlend_offer **ghost)
{
	unsigned int all = 0, mine = 0, dying = 0, mine_dying = 0;
	struct dlend_offer *offer;
	bool my;

	lockdep_assert_held(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node) {
		my = offer->addr.lender == lender;
		all++;
		dying += offer->dying;
		mine += my;
		mine_dying += my && offer->dying;
	}
	*ghost = NULL;
	/* What is dying takes room until it is dead, but another one may come in its place. */
	if (mine >= 2 * DLEND_OFFERS_OF_NODE || all >= 2 * DLEND_OFFERS_MAX)
		return true;
	if (mine - mine_dying < DLEND_OFFERS_OF_NODE && all - dying < DLEND_OFFERS_MAX)
		return false;
	*ghost = dlend_offers_ghost(mine - mine_dying < DLEND_OFFERS_OF_NODE ? 0 : lender);
	return !*ghost;
}

void dlend_offer_add(struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	list_add_tail(&offer->node, &dlend_offers);
}

/* Stands before each piece of memory of dlend_offer_zalloc(). */
struct dlend_offer_memory {
	struct list_head node;
	u8 data[] __aligned(__alignof__(u64));
};

void *dlend_offer_zalloc(struct dlend_offer *offer, size_t size)
{
	struct dlend_offer_memory *memory = kzalloc(struct_size(memory, data, size), GFP_KERNEL);

	if (!memory)
		return NULL;
	guard(mutex)(&dlend_offers_lock);
	list_add(&memory->node, &offer->memory);
	return memory->data;
}
DLEND_EXPORT(dlend_offer_zalloc);

void dlend_offer_free_memory(struct dlend_offer *offer)
{
	struct dlend_offer_memory *memory, *next;

	list_for_each_entry_safe(memory, next, &offer->memory, node)
		kfree(memory);
}

void dlend_offer_del(struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	list_del(&offer->node);
}

struct dlend_offer *dlend_offer_find(const struct dlend_addr *addr)
{
	struct dlend_offer *offer;

	lockdep_assert_held(&dlend_offers_lock);
	list_for_each_entry(offer, &dlend_offers, node)
		if (!offer->dying && dlend_addr_same(&offer->addr, addr))
			return offer;
	return NULL;
}

struct dlend_offer *dlend_offer_find_of(struct dlend_link *link, const struct dlend_addr *addr)
{
	struct dlend_offer *offer = dlend_offer_find(addr);

	if (!offer || !offer->link || offer->link == link)
		return offer;
	dev_warn_ratelimited(dlend_link_dev(link),
			     "message about %s ignored: node %u offers it over %s; if these are two hosts, set a different dlend_core.node_id on each\n",
			     dev_name(&offer->dev), addr->lender, dlend_link_name(offer->link));
	return ERR_PTR(-EPERM);
}

void dlend_offer_set_link(struct dlend_offer *offer, struct dlend_link *link)
{
	lockdep_assert_held(&dlend_offers_lock);
	if (offer->link == link)
		return;
	if (offer->link)
		dlend_link_put(offer->link);
	offer->link = link ? dlend_link_get(link) : NULL;
}

u16 dlend_offer_island(const struct dlend_addr *addr)
{
	const struct dlend_offer *offer = dlend_offer_find(addr);

	return offer && offer->placed ? le16_to_cpu(offer->place.island) : 0;
}

struct dlend_link *dlend_offer_link(struct dlend_offer *offer)
{
	guard(mutex)(&dlend_offers_lock);
	return offer->link ? dlend_link_get(offer->link) : NULL;
}

struct dlend_claim *dlend_offer_get_claim(struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	if (IS_ERR_OR_NULL(offer) || !offer->claim)
		return NULL;
	atomic_inc(&offer->claim->calls);
	return offer->claim;
}

void dlend_offer_put_claim(struct dlend_claim *claim)
{
	if (atomic_dec_and_test(&claim->calls))
		wake_up_var(&claim->calls);
}

static struct dlend_group_fn dlend_offer_seen_by(const struct dlend_offer *other,
						 const struct dlend_claim *claim)
{
	struct dlend_group_fn seen = { };
	const struct dlend_claim *user = other->claim;
	int leases = atomic_read(&other->leases);

	/* A stray was never used: no DMA of its is under way, and it reaches nobody's memory. */
	seen.leases = max(leases - atomic_read(&other->strays), 0);
	if (user) {
		seen.same_party = dlend_party_same(user->party, claim->party);
		seen.leased = READ_ONCE(user->lease);
		seen.borrowing = READ_ONCE(user->borrowing);
	}
	return seen;
}

int dlend_offer_check_group(const struct dlend_claim *claim)
{
	const struct dlend_offer *offer = claim->offer;
	struct dlend_offer *other;
	int ret = 0;

	guard(mutex)(&dlend_offers_lock);
	list_for_each_entry(other, &dlend_offers, node) {
		if (other == offer || other->addr.lender != offer->addr.lender ||
		    other->info.group != offer->info.group || ret == -EBUSY)
			continue;
		ret = dlend_group_admits(dlend_offer_seen_by(other, claim)) ?: ret;
	}
	return ret;
}

struct device *dlend_offer_dev(struct dlend_offer *offer)
{
	return &offer->dev;
}
DLEND_EXPORT(dlend_offer_dev);

const struct dlend_addr *dlend_offer_addr(const struct dlend_offer *offer)
{
	return &offer->addr;
}
DLEND_EXPORT(dlend_offer_addr);

void dlend_offer_flush(struct dlend_offer *offer)
{
	flush_workqueue(offer->wq);
	flush_workqueue(offer->returns);
}
DLEND_EXPORT(dlend_offer_flush);

void dlend_offer_copy(struct dlend_offer *offer, struct dlend_offer_info *info, u8 *snapshot)
{
	guard(mutex)(&dlend_offers_lock);
	*info = offer->info;
	if (snapshot)
		memcpy(snapshot, offer->snapshot, DLEND_CFG_SIZE);
}
DLEND_EXPORT(dlend_offer_copy);

static bool dlend_offer_current(const struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	return offer->link && offer->complete && !offer->withdrawn;
}

bool dlend_offer_lets(const struct dlend_offer *offer)
{
	lockdep_assert_held(&dlend_offers_lock);
	return offer->complete && (offer->state == DLEND_OFFER_FREE ||
				   offer->state == DLEND_OFFER_RETURNING || offer->comes);
}

bool dlend_offer_vm(const struct dlend_offer *offer)
{
	return memchr_inv(offer->vm, 0, sizeof(offer->vm));
}

const char *dlend_offer_state_told(const struct dlend_offer *offer)
{
	u16 state = offer->state;

	if (state == DLEND_OFFER_FREE && dlend_offer_vm(offer))
		state = DLEND_OFFER_RESERVED;
	return dlend_offer_state_name(state);
}

bool dlend_offer_taken(const struct dlend_offer *offer, const struct dlend_claim *claim, char *why)
{
	char node[DLEND_NODE_LABEL_LEN];

	if (offer->state == DLEND_OFFER_QUARANTINED)
		snprintf(why, DLEND_REASON_LEN, "node %s keeps it in quarantine: its reset failed",
			 dlend_node_label(offer->addr.lender, node));
	else if (offer->state == DLEND_OFFER_RESERVED)
		snprintf(why, DLEND_REASON_LEN, "it is reserved for node %s",
			 dlend_node_label(offer->holder, node));
	else if (offer->state == DLEND_OFFER_FREE && dlend_offer_vm(offer) &&
		 memcmp(offer->vm, claim->vm, sizeof(claim->vm)))
		snprintf(why, DLEND_REASON_LEN,
			 "it is reserved for the VM that has the mediated device %pUl", offer->vm);
	else if (offer->state == DLEND_OFFER_KEPT)
		snprintf(why, DLEND_REASON_LEN, "node %s has another device of set %s",
			 dlend_node_label(offer->holder, node), offer->set);
	else if (offer->state == DLEND_OFFER_HELD && offer->holder != dlend_node_id() &&
		 !offer->comes)
		snprintf(why, DLEND_REASON_LEN, "node %s has it",
			 dlend_node_label(offer->holder, node));
	else
		return false;
	return true;
}

bool dlend_claim_taken(const struct dlend_claim *claim, char *why)
{
	guard(mutex)(&dlend_offers_lock);
	return dlend_offer_taken(claim->offer, claim, why);
}
DLEND_EXPORT(dlend_claim_taken);

bool dlend_claim_comes(const struct dlend_claim *claim)
{
	guard(mutex)(&dlend_offers_lock);
	return claim->offer->comes;
}
DLEND_EXPORT(dlend_claim_comes);

bool dlend_offer_available(struct dlend_offer *offer)
{
	guard(mutex)(&dlend_offers_lock);
	return dlend_offer_current(offer) && !offer->claim && dlend_offer_lets(offer);
}
DLEND_EXPORT(dlend_offer_available);

int dlend_offer_group(struct dlend_offer *offer, unsigned int *size)
{
	guard(mutex)(&dlend_offers_lock);
	if (!dlend_offer_current(offer))
		return -ENODEV;
	*size = offer->info.group_size;
	return offer->info.group;
}
DLEND_EXPORT(dlend_offer_group);
