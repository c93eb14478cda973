// SPDX-License-Identifier: GPL-2.0
/*
 * A vdev among the other devices of its VM: how it is set up, for peer-to-peer, and which clique
 * its guest sees.
 *
 * KVM's VM is the VM; without KVM it is the process that opened the device.
 */
#include <linux/sched.h>
#include "vdev.h"

/* How long a device waits for what it shall reach.  A lender that does not answer costs no more. */
#define DLEND_P2P_SETTLE_MS	1000u

static void dlend_vdev_describe(struct dlend_vdev *v, struct dlend_p2p_dev *dev)
{
	unsigned int i;

	memset(dev, 0, sizeof(*dev));	/* with all padding: it is compared */
	dev->addr = *dlend_offer_addr(v->claim.offer);
	dev->clique = v->clique_shown;
	for (i = 0; i < DLEND_NUM_BARS; i++) {
		/* Peers reach no BAR smaller than a page: a page is the least that is mapped. */
		dev->bar[i].size = v->info.bar[i].flags & DLEND_BAR_F_MAPPABLE &&
				   v->info.bar[i].size >= PAGE_SIZE ? v->info.bar[i].size : 0;
		dev->bar[i].gpa = dlend_cfg_bar_addr(&v->cfg, i);
	}
}

void dlend_vdev_publish(struct dlend_vdev *v)
{
	const struct dlend_lease *lease = v->failed ? NULL : v->claim.lease;
	struct dlend_p2p_dev dev;

	lockdep_assert_held(&v->lock);
	dlend_vdev_describe(v, &dev);
	if (lease) {
		dev.epoch = lease->epoch;
		/* As long as it may transfer: what it reaches comes before that, and goes later. */
		dev.source = v->dma;
		/*
		 * While a device is being reset, its lender lets no peer reach it; nor by a lease
		 * that is not in force yet.
		 */
		dev.target = dlend_cfg_mse(&v->cfg) && v->have.reset == v->want.reset &&
			     !v->move.coming;
	}
	dlend_p2p_publish(&v->p2p, &dev, lease);
}

static const char *dlend_vdev_doubt(const struct dlend_p2p_party *party, unsigned int other,
				    char text[DLEND_P2P_DOUBT_LEN])
{
	struct dlend_p2p_doubt doubt;

	doubt = dlend_p2p_doubt(&party->fabric, party->dev, party->n, party->of, other);
	return dlend_p2p_doubt_text(&doubt, text);
}

/* Warn about devices of the same clique that this one may not reach, or be reached by. */
static void dlend_vdev_warn_claims(struct dlend_vdev *v, const struct dlend_p2p_party *party)
{
	char doubt[DLEND_P2P_DOUBT_LEN];
	int other = -1;

	while ((other = dlend_p2p_claim(&party->fabric, party->dev, party->n, party->of,
					other + 1)) >= 0)
		dev_warn(dlend_vdev_dev(v), "clique %d claims peer-to-peer with %s, but %s: the guest's driver may try it in vain; set another clique\n",
			 party->dev[party->of].clique, dev_name(party->member[other]->owner),
			 dlend_vdev_doubt(party, other, doubt));
}

/*
 * The setting of the mdev comes before that of the device's lender.
 * Return: a number, DLEND_CLIQUE_ALWAYS, or DLEND_CFG_CLIQUE_NONE.
 */
static int dlend_vdev_set_clique(const struct dlend_vdev *v)
{
	int clique = v->clique == DLEND_CLIQUE_AUTO ? dlend_vdev_offered_clique(v->info.clique) :
						      v->clique;

	if (clique == DLEND_CLIQUE_AUTO)
		return dlend_clique_known(v->info.vendor) ? DLEND_CLIQUE_ALWAYS :
							    DLEND_CFG_CLIQUE_NONE;
	return clique;
}

/* The same, but for a device that has no place for it. */
static int dlend_vdev_wanted_clique(const struct dlend_vdev *v)
{
	return v->clique_place ? DLEND_CFG_CLIQUE_NONE : dlend_vdev_set_clique(v);
}

/* Say why the guest sees no clique, if it should see one. */
static void dlend_vdev_warn_no_place(struct dlend_vdev *v)
{
	if (!v->clique_place || dlend_vdev_set_clique(v) == DLEND_CFG_CLIQUE_NONE)
		return;
	dev_warn(dlend_vdev_dev(v), "no clique has a place in its configuration space: %s; its driver is told nothing\n",
		 v->clique_place == -ELOOP ?
		 "its list of capabilities has no end" :
		 "at C8h and at D4h, where drivers expect it, the device has something of its own");
}

/* The clique that the guest shall see: the admin's number, or else one without a doubt. */
static int dlend_vdev_choose_clique(struct dlend_vdev *v, const struct dlend_p2p_party *party)
{
	int clique = dlend_vdev_wanted_clique(v);

	if (clique >= DLEND_CFG_CLIQUE_NONE)
		return clique;
	clique = dlend_p2p_clique(&party->fabric, party->dev, party->n, party->of,
				  DLEND_CLIQUE_MAX);
	if (clique < 0) {
		dev_warn(dlend_vdev_dev(v), "no clique is left for it: the VM has too many devices that may not reach each other; its driver is told nothing\n");
		return DLEND_CFG_CLIQUE_NONE;
	}
	return clique;
}

/* A computed clique leaves out a device of the VM: say which one, and why. */
static void dlend_vdev_tell_alone(struct dlend_vdev *v, const struct dlend_p2p_party *party)
{
	int mine = party->dev[party->of].clique;
	char doubt[DLEND_P2P_DOUBT_LEN];
	unsigned int i;

	for (i = 0; i < party->n; i++)
		if (i != party->of && party->dev[i].clique >= 0 && party->dev[i].clique != mine)
			dev_info(dlend_vdev_dev(v), "clique %d, not %d of %s: %s\n", mine,
				 party->dev[i].clique, dev_name(party->member[i]->owner),
				 *dlend_vdev_doubt(party, i, doubt) ? doubt : DLEND_P2P_NO_DOUBT);
}

void dlend_vdev_p2p_await(struct dlend_vdev *v)
{
	if (wait_event_timeout(v->idle_wq, READ_ONCE(v->p2p.settled) || !READ_ONCE(v->open) ||
			       READ_ONCE(v->is.urgent), msecs_to_jiffies(DLEND_P2P_SETTLE_MS)))
		return;
	dev_warn_ratelimited(dlend_vdev_dev(v), "begins to transfer before it reaches the BARs of the VM's other devices: a lender has not answered within %u ms\n",
			     DLEND_P2P_SETTLE_MS);
}

static void dlend_vdev_settle_clique(struct dlend_p2p_party *party)
{
	struct dlend_vdev *v = container_of(party->member[party->of], struct dlend_vdev, p2p);
	int clique = dlend_vdev_choose_clique(v, party);

	party->dev[party->of].clique = clique;
	/* Under the lock: the worker may publish the device as soon as it has joined. */
	v->clique_shown = clique;
	if (dlend_vdev_wanted_clique(v) < DLEND_CFG_CLIQUE_NONE && clique >= 0)
		dlend_vdev_tell_alone(v, party);
	else
		dlend_vdev_warn_claims(v, party);
}

void dlend_vdev_p2p_join(struct dlend_vdev *v)
{
	struct dlend_p2p_member *m = &v->p2p;

	m->owner = dlend_vdev_dev(v);
	/* No VM is where a time since this host booted points to. */
	m->party = v->vfio.kvm ?: (const void *)(uintptr_t)dlend_vdev_caller().since;
	m->wq = &v->idle_wq;
	dlend_vdev_warn_no_place(v);
	v->clique_shown = max(dlend_vdev_wanted_clique(v), DLEND_CFG_CLIQUE_NONE);
	dlend_vdev_describe(v, &m->dev);
	dlend_p2p_join(m, dlend_vdev_settle_clique);
}
