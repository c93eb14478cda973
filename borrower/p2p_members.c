// SPDX-License-Identifier: GPL-2.0
/*
 * The borrowed devices of each party, as their users publish them.
 *
 * Must not know what is done with that: a worker looks at the members (p2p_edges.c).
 */
#include <linux/slab.h>
#include <dlend/borrower.h>
#include <dlend/compat.h>
#include "p2p.h"

LIST_HEAD(dlend_p2p_members);
struct delayed_work dlend_p2p_dwork;
struct workqueue_struct *dlend_p2p_wq;

void dlend_p2p_kick(void)
{
	mod_delayed_work(dlend_p2p_wq, &dlend_p2p_dwork, 0);
}

static bool dlend_p2p_same_party(const struct dlend_p2p_member *a, const struct dlend_p2p_member *b)
{
	return a->vm ? a->vm == b->vm : !b->vm && a->tgid == b->tgid;
}

void dlend_p2p_collect(const struct dlend_p2p_member *of, struct dlend_p2p_party *party)
{
	struct dlend_p2p_member *m;

	lockdep_assert_held(&dlend_p2p_lock);
	party->n = 0;
	party->of = DLEND_P2P_DEVS;
	list_for_each_entry(m, &dlend_p2p_members, node) {
		if (!dlend_p2p_same_party(m, of) || party->n == DLEND_P2P_DEVS)
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

void dlend_p2p_join(struct dlend_p2p_member *m, void (*choose)(struct dlend_p2p_party *party))
{
	struct dlend_p2p_party *party = kzalloc_obj(*party);
	struct dlend_p2p_fabric fabric;
	void *paths = dlend_p2p_paths_get(&fabric);

	mutex_lock(&dlend_p2p_lock);
	list_add_tail(&m->node, &dlend_p2p_members);
	m->joined = true;
	if (party) {
		party->fabric = fabric;
		dlend_p2p_collect(m, party);
	}
	if (party && party->of < party->n) {
		choose(party);
		m->dev.clique = party->dev[party->of].clique;
	}
	mutex_unlock(&dlend_p2p_lock);
	kfree(paths);
	kfree(party);
}
DLEND_EXPORT(dlend_p2p_join);

static void dlend_p2p_member_unlink(struct dlend_p2p_member *m)
{
	dlend_session_drop(&m->ref);
	memset(m->bar_phys, 0, sizeof(m->bar_phys));
}

void dlend_p2p_leave(struct dlend_p2p_member *m)
{
	guard(mutex)(&dlend_p2p_lock);
	if (!m->joined)
		return;
	list_del(&m->node);
	m->joined = false;
	dlend_p2p_member_unlink(m);
	dlend_p2p_kick();
}
DLEND_EXPORT(dlend_p2p_leave);

void dlend_p2p_publish(struct dlend_p2p_member *m, const struct dlend_p2p_dev *dev,
		       const struct dlend_lease *lease)
{
	unsigned int i;

	guard(mutex)(&dlend_p2p_lock);
	if (!m->joined || !memcmp(&m->dev, dev, sizeof(*dev)))
		return;
	if (m->dev.epoch != dev->epoch) {
		dlend_p2p_member_unlink(m);
		if (lease) {
			m->ref = lease->ref;
			dlend_link_get(m->ref.link);
			for (i = 0; i < DLEND_NUM_BARS; i++)
				m->bar_phys[i] = READ_ONCE(lease->bar[i].phys);
		}
	}
	m->dev = *dev;
	WRITE_ONCE(m->settled, false);
	dlend_p2p_kick();
}
DLEND_EXPORT(dlend_p2p_publish);
