// SPDX-License-Identifier: GPL-2.0
/*
 * The gate of a borrowed device: opened and shut by what the guest wants and what the lender has
 * been told.
 *
 * Whoever changes one of these (vdev->want, vdev->have, the lease, a failure) calls
 * dlend_gate_update(), under vdev->lock.  It sets the gate in front of the BARs, tells the VM's
 * other devices, and wakes whoever waits for the device.  plan.c has the rules.
 *
 * Must not know how a step towards the guest's wish is done: that is vdev.c.
 */
#include "vdev.h"

/* [locked] */
static struct dlend_situation dlend_gate_situation(const struct dlend_vdev *v)
{
	return (struct dlend_situation){
		.open = v->open,
		.failed = v->failed,
		.leased = v->claim.lease,
		.touched = test_bit(0, &v->touched),
		.unmapping = v->unmapping,
		.prepin = v->prepinned,
		.coming = v->move.coming,
		.refused = v->move.refused,
		.held = v->move.state != VFIO_DEVICE_STATE_RUNNING,
	};
}

/* The next step for the device. [locked] */
enum dlend_step dlend_gate_next_step(const struct dlend_vdev *v)
{
	return dlend_plan_step(dlend_gate_situation(v), &v->want, &v->have);
}

/* [locked] */
bool dlend_gate_settled(const struct dlend_vdev *v)
{
	return dlend_plan_settled(dlend_gate_situation(v), &v->want, &v->have);
}

/* Are vectors being set up, or will they be when the device is borrowed? [locked] */
static bool dlend_gate_irq_busy(const struct dlend_vdev *v)
{
	/* As long as the VM is still another host's, or stands still, nothing is set up. */
	if (v->move.coming || v->want.quiet)
		return false;
	if (v->failed || dlend_plan_irq_settled(&v->want, &v->have))
		return false;
	return v->claim.lease || v->claim.borrowing || dlend_gate_next_step(v) == DLEND_STEP_BORROW;
}

/* [locked] */
static void dlend_gate_note_memory(struct dlend_vdev *v)
{
	bool behind = dlend_plan_behind(&v->want, &v->have, v->dma);

	if (behind && !v->behind)
		v->behind_at = ktime_get();
	WRITE_ONCE(v->behind, behind);
	/* While the gate is shut nobody looks: the step that has it open looks when it is over. */
	WRITE_ONCE(v->looks, v->open && v->have.bme && dlend_gate_settled(v));
}

/* Update what others look at without the lock, after any change. [locked] */
void dlend_gate_note(struct dlend_vdev *v)
{
	bool mute;

	WRITE_ONCE(v->urgent, dlend_plan_urgent(dlend_gate_situation(v), &v->want, &v->have));
	/* Quiet, too: it has stopped meanwhile, and was started again. */
	WRITE_ONCE(v->quiet, !v->dma || (v->have.bme && !v->urgent));
	dlend_gate_note_memory(v);
	WRITE_ONCE(v->irq_busy, dlend_gate_irq_busy(v));
	WRITE_ONCE(v->live, dlend_plan_live(dlend_gate_situation(v), &v->want, &v->have));
	mute = !v->claim.lease || v->failed;
	WRITE_ONCE(v->move.settled, mute || dlend_plan_move_settled(&v->want, &v->have));
	WRITE_ONCE(v->move.target_told, mute || dlend_plan_move_told(&v->want, &v->have));
	WRITE_ONCE(v->move.ready, !mute && dlend_gate_next_step(v) == DLEND_STEP_NONE);
	wake_up_all(&v->idle_wq);
}

void dlend_gate_update(struct dlend_vdev *v)
{
	enum dlend_gate was = v->gate;

	lockdep_assert_held(&v->lock);
	dlend_gate_note(v);
	if (v->failed)
		dlend_bar_set_gate(v, DLEND_GATE_DEAD, NULL);
	else if (dlend_gate_settled(v))
		dlend_bar_set_gate(v, DLEND_GATE_OPEN, v->claim.lease->bar);
	else if (dlend_plan_readable(dlend_gate_situation(v), &v->want, &v->have))
		dlend_bar_set_gate(v, DLEND_GATE_READ, v->claim.lease->bar);
	else
		dlend_bar_set_gate(v, DLEND_GATE_SHUT, NULL);
	if (v->gate != was)
		v->said[0] = 0;
	if (v->gate == DLEND_GATE_OPEN && was != DLEND_GATE_OPEN && v->have.bme && v->bme_at) {
		v->stat.bme_to_open_us = ktime_us_delta(ktime_get(), v->bme_at);
		if (!v->stat.bme_to_open_first_us)
			v->stat.bme_to_open_first_us = v->stat.bme_to_open_us;
		v->bme_at = 0;
	}
	dlend_vdev_publish(v);
}

/* The device transfers nothing to this node any more. [locked] */
void dlend_gate_note_quiet(struct dlend_vdev *v)
{
	v->dma = false;
	dlend_gate_note(v);
}
