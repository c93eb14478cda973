// SPDX-License-Identifier: GPL-2.0
/*
 * Claims: who on this node has taken which offer.
 *
 * Must not know what the offer is used for.
 */
#include <linux/wait_bit.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include "lease.h"
#include "offer_life.h"

/* Not longer: strays are returned on the caller's workqueue. */
#define DLEND_CLAIM_PENDING_MS	100

/* Return: 0, or -errno and @why. */
static int dlend_offer_check_claim(const struct dlend_offer *offer, const struct dlend_claim *claim,
				   char *why)
{
	const struct dlend_claim *other = offer->claim;

	if (offer->withdrawn) {
		snprintf(why, DLEND_REASON_LEN, "node %u does not lend it any more",
			 offer->addr.lender);
		return -ENODEV;
	}
	if (other) {
		snprintf(why, DLEND_REASON_LEN, "this node has it already, as %s %s",
			 other->ops->what, dev_name(other->dev));
		return -EBUSY;
	}
	if (!offer->link) {
		snprintf(why, DLEND_REASON_LEN, "the link to node %u is down", offer->addr.lender);
		return -ENODEV;
	}
	if (dlend_offer_taken(offer, claim, why))
		return -EBUSY;
	if (!dlend_offer_lets(offer)) {
		snprintf(why, DLEND_REASON_LEN, "the device is %s; wait until it is free",
			 dlend_offer_state_name(offer->state));
		return -EBUSY;
	}
	return 0;
}

int dlend_offer_claim(struct dlend_offer *offer, struct dlend_claim *claim, char *why)
{
	int ret;

	guard(mutex)(&dlend_offers_lock);
	ret = dlend_offer_check_claim(offer, claim, why);
	if (ret)
		return ret;
	claim->offer = offer;
	claim->wq = offer->wq;
	offer->claim = claim;
	offer->announced = true;
	return 0;
}
DLEND_EXPORT(dlend_offer_claim);

void dlend_offer_release(struct dlend_claim *claim)
{
	struct dlend_offer *offer = claim->offer;

	mutex_lock(&dlend_offers_lock);
	offer->claim = NULL;
	if (offer->withdrawn && !offer->dying)
		dlend_offer_kill(offer);
	mutex_unlock(&dlend_offers_lock);
	/* Wait: the claim's ops may be called now, and its owner's module be unloaded next. */
	wait_var_event(&claim->calls, !atomic_read(&claim->calls));
}
DLEND_EXPORT(dlend_offer_release);

bool dlend_claim_pending(const struct dlend_claim *claim)
{
	atomic_t *leases = &claim->offer->leases;

	if (!atomic_read(leases))
		return false;
	wait_var_event_timeout(leases, !atomic_read(leases),
			       msecs_to_jiffies(DLEND_CLAIM_PENDING_MS));
	return true;
}
DLEND_EXPORT(dlend_claim_pending);

int dlend_claim_show_interrupts(const struct dlend_claim *claim, char *buf)
{
	const char *why = READ_ONCE(claim->irq_why);

	if (!READ_ONCE(claim->lease))
		return sysfs_emit(buf, "none\n");
	return why ? sysfs_emit(buf, "doorbell: %s\n", why) : sysfs_emit(buf, "direct\n");
}
DLEND_EXPORT(dlend_claim_show_interrupts);

void dlend_claim_return_stray(struct dlend_claim *claim)
{
	struct dlend_offer *offer = claim->offer;

	guard(mutex)(&dlend_offers_lock);
	if (!offer->dying && offer->link && offer->state == DLEND_OFFER_HELD &&
	    offer->holder == dlend_node_id())
		dlend_lease_return_stray(offer);
}
DLEND_EXPORT(dlend_claim_return_stray);
