// SPDX-License-Identifier: GPL-2.0
/*
 * The borrowed devices of each party, as their users publish them.
 *
 * Must not know what is done with that: a worker looks at the members (p2p_edges.c).
 */
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/borrower.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/p2p_clique.h>
#include "offer.h"
#include "p2p.h"

LIST_HEAD(dlend_p2p_members);
LIST_HEAD(dlend_p2p_bookings);
bool dlend_p2p_changed;
struct delayed_work dlend_p2p_dwork;
struct workqueue_struct *dlend_p2p_wq;

void dlend_p2p_kick(void)
{
	mod_delayed_work(dlend_p2p_wq, &dlend_p2p_dwork, 0);
}

void dlend_p2p_collect(const struct dlend_p2p_member *of, struct dlend_p2p_party *party)
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

struct dlend_p2p_member *dlend_p2p_member_of(const struct dlend_addr *addr)
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

bool dlend_p2p_book(const struct dlend_p2p_booking *want)
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

void dlend_p2p_unbook(struct dlend_p2p_booking *b)
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
