// SPDX-License-Identifier: GPL-2.0
/*
 * An attached device reaches its own BARs, at the bus addresses by which its driver knows them: a
 * disk may fetch commands from memory of its own.  The kernel's IO addresses of RAM are elsewhere
 * (domain.c, root.c).
 *
 * Must not know how a lender does that.
 */
#include <linux/string.h>
#include <dlend/borrower.h>
#include "fn.h"
#include "reach.h"

#define DLEND_NATIVE_REACH_MS	1000

/* It is alone in its party, and no driver is told of a clique. */
static void dlend_native_reach_alone(struct dlend_p2p_party *party)
{
}

void dlend_native_reach_begin(struct dlend_native_fn *fn)
{
	struct dlend_p2p_member *m = &fn->p2p;
	unsigned int i;

	m->owner = fn->claim.dev;
	m->party = fn;
	m->wq = &fn->reach_wq;
	m->dev.addr = *dlend_offer_addr(fn->claim.offer);
	m->dev.clique = DLEND_CFG_CLIQUE_NONE;
	for (i = 0; i < DLEND_NUM_BARS; i++) {
		/* The rest of the page of a smaller one is nobody's. */
		if (!fn->claim.lease->bar[i].phys || fn->info.bar[i].size < PAGE_SIZE)
			continue;
		m->dev.bar[i].size = fn->info.bar[i].size;
		m->dev.bar[i].gpa = dlend_cfg_bar_addr(&fn->cfg, i);
	}
	dlend_p2p_join(m, dlend_native_reach_alone);
	dlend_native_reach(fn, dlend_native_lease(fn), true);
}

void dlend_native_reach(struct dlend_native_fn *fn, const struct dlend_lease *lease, bool on)
{
	struct dlend_p2p_member *m = &fn->p2p;
	struct dlend_p2p_dev dev;

	memcpy(&dev, &m->dev, sizeof(dev));	/* with all padding: it is compared */
	dev.epoch = lease->epoch;
	dev.source = on;
	dev.target = on;
	dlend_p2p_publish(m, &dev, lease);
	wait_event_timeout(fn->reach_wq, READ_ONCE(m->settled) || !m->joined,
			   msecs_to_jiffies(DLEND_NATIVE_REACH_MS));
}

void dlend_native_reach_end(struct dlend_native_fn *fn)
{
	dlend_p2p_leave(&fn->p2p);
}
