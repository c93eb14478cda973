// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a lease, as a vdev has it.
 *
 * A lease can end without its vdev: the link is lost, or the lender takes the device back.  Pages
 * may still be pinned under it then, and a VMM may unmap them at any moment.  So the vdev keeps it
 * as vdev->ended until nothing is pinned any more.
 */
#include "vdev.h"

/* A reference to the lease that ended without us, or NULL. */
static struct dlend_lease *dlend_ended_get(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return v->ended ? dlend_lease_get(v->ended) : NULL;
}

/* A reference to the lease that may have pins, or NULL. */
struct dlend_lease *dlend_ended_with_pins(struct dlend_vdev *v)
{
	struct dlend_lease *lease;

	guard(mutex)(&v->lock);
	lease = v->claim.lease ?: v->ended;
	return lease ? dlend_lease_get(lease) : NULL;
}

struct dlend_lease *dlend_ended_keep(struct dlend_vdev *v)
{
	struct dlend_lease *before = v->ended;

	lockdep_assert_held(&v->lock);
	v->ended = dlend_lease_get(v->claim.lease);
	WRITE_ONCE(v->claim.lease, NULL);
	dlend_bypass_end(v);
	return before;
}

/*
 * Pages must be unpinned before vfio forgets the container, also those of a build just begun.
 * Another thread of the VMM may unmap memory meanwhile, and type1 ends in a BUG if the pins stay
 * there: dma_unmap has to find the lease until nothing of it is pinned.
 */
void dlend_ended_drop(struct dlend_vdev *v)
{
	struct dlend_lease *ended = dlend_ended_get(v);

	if (!ended)
		return;
	dlend_memory_close(dlend_vdev_memory(ended));
	dlend_ended_forget(v, ended);
	dlend_lease_put(ended);
}

void dlend_ended_forget(struct dlend_vdev *v, struct dlend_lease *lease)
{
	bool had;

	mutex_lock(&v->lock);
	had = v->ended == lease;
	if (had)
		v->ended = NULL;
	mutex_unlock(&v->lock);
	if (had)
		dlend_lease_put(lease);
}

void dlend_ended_leave(struct dlend_vdev *v)
{
	struct dlend_lease *lease, *before = NULL;

	mutex_lock(&v->lock);
	WRITE_ONCE(v->open, false);
	lease = v->claim.lease;
	if (lease)
		before = dlend_ended_keep(v);
	dlend_vdev_forget(v);
	dlend_gate_update(v);
	mutex_unlock(&v->lock);
	wake_up_all(&v->idle_wq);
	wake_up_all(&v->gate_wq);	/* faults whose mapping went away */
	if (before)
		dlend_lease_put(before);
	if (!lease)
		return;
	v->stat.returns++;
	dlend_lease_return(lease);
}

/* If the link is gone, the lender cannot say that it has fenced the device.  Waits for nobody. */
static void dlend_ended_cut(struct dlend_lease *lease)
{
	if (!dlend_lease_lost(lease))
		return;
	dlend_memory_link_down(dlend_vdev_memory(lease));
	dlend_p2p_fence(&lease->addr, lease->epoch);
}

/* The lease has ended without us.  @only (may be NULL): do nothing if it is another one by now. */
void dlend_ended_lose(struct dlend_vdev *v, struct dlend_lease *only, const char *why)
{
	struct dlend_lease *lease, *before;

	mutex_lock(&v->lock);
	lease = v->claim.lease;
	if (!lease || (only && lease != only)) {
		mutex_unlock(&v->lock);
		return;
	}
	before = dlend_ended_keep(v);
	v->lost = true;
	memset(&v->have, 0, sizeof(v->have));
	/* If an error ended the lease, keep the words about the error: people need them. */
	if (v->errored || v->move.given)
		dlend_gate_update(v);
	else
		dlend_condition_fail(v, dlend_stop_on_loss, "%s", why);
	/* Queue the return before anybody can ask for the next lease (dlend_claim_pending()). */
	dlend_lease_return(dlend_lease_get(lease));
	/* Do this under the lock: later the next lease may have set up interrupts of its own. */
	dlend_irqs_live(v, DLEND_IRQ_NONE, false);
	mutex_unlock(&v->lock);
	if (before)
		dlend_lease_put(before);
	/*
	 * If the link is lost, unmap the aperture before this returns.  If the lender took its
	 * device back, it has fenced the device: the return drops the windows, and the lender's
	 * answer makes their slots free again.
	 */
	dlend_ended_cut(lease);
	dlend_lease_put(lease);
	guard(mutex)(&v->lock);
	if (!v->claim.lease)
		dlend_gate_note_quiet(v);
}

void dlend_ended_link_down(struct dlend_vdev *v)
{
	struct dlend_lease *ended;

	dlend_ended_lose(v, NULL, "the link to the lender was lost");
	/* A lease that had ended before, or is being closed: its windows may still stand. */
	ended = dlend_ended_get(v);
	if (!ended)
		return;
	dlend_ended_cut(ended);
	dlend_lease_put(ended);
}
