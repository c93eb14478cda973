// SPDX-License-Identifier: GPL-2.0
/*
 * Steps of a VM that moves from one host to another, while its device stays where it is.  The
 * worker makes them (steps.c), when the plan says so (borrow_plan.c).
 *
 * A device that was stopped is like one whose guest has Bus Master Enable off: the step that turns
 * it on again, here or on the other host, is the same as always.
 */
#include <linux/pci_regs.h>
#include "bar.h"
#include "bypass.h"
#include "condition.h"
#include "gate.h"
#include "irq.h"
#include "move_steps.h"
#include "replies.h"
#include "trace.h"
#include "vdev.h"

static const char *dlend_move_told_words(int err)
{
	switch (err) {
	case -EOPNOTSUPP:
		return "it never is quiet; \"NODE cut\" if it is a network or sound device";
	case -EMLINK:
		return "its IOMMU group has more functions: not possible yet";
	case -EINVAL:
		return "the VM is on that node already";
	default:
		return "the lender refuses";
	}
}

static struct dlend_wish dlend_move_wish(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return v->want;
}

void dlend_move_step_to(struct dlend_vdev *v, struct dlend_lease *lease)
{
	struct dlend_wish asked = dlend_move_wish(v);
	int ret = dlend_lease_move_to(lease, asked.move_to, asked.cut);

	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	if (dlend_reply_named(&v->want, &asked, &v->have, &v->move.told, ret))
		dev_warn_ratelimited(dlend_vdev_dev(v), "node %u cannot take the device over (%pe): %s\n",
				     asked.move_to, ERR_PTR(ret), dlend_move_told_words(ret));
	dlend_gate_update(v);
}

void dlend_move_step_quiesce(struct dlend_vdev *v, struct dlend_lease *lease)
{
	struct dlend_wish asked, had;
	struct dlend_quiet quiet;
	int ret;

	mutex_lock(&v->lock);
	asked = v->want;
	v->have.bme = false;
	had = v->have;
	/* Direct interrupts end, so that they are counted. */
	dlend_bypass_end(v);
	dlend_gate_note(v);
	mutex_unlock(&v->lock);
	ret = dlend_lease_quiesce(lease, had.irq_mode, had.irq_count, &quiet);
	trace_dlend_vdev_bus_master(dlend_vdev_dev(v), lease->epoch, false, ret);
	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	dlend_reply_quiesced(&asked, &v->have, quiet.drained || v->have.cut, ret);
	if (quiet.irqs_changed) {
		v->have.irq_mode = DLEND_IRQ_UNKNOWN;
		v->irq_gap = true;
	}
	if (!ret)
		dlend_gate_note_quiet(v);
	if (ret)
		snprintf(v->move.why, sizeof(v->move.why), "node %u could not stop it (%pe)",
			 lease->addr.lender, ERR_PTR(ret));
	else if (v->have.loud)
		snprintf(v->move.why, sizeof(v->move.why),
			 "it was still at work %u ms after its guest had stopped: try again when there is less to do",
			 quiet.waited_us / 1000);
	dlend_gate_update(v);
}

void dlend_move_step_run(struct dlend_vdev *v, struct dlend_lease *lease)
{
	struct dlend_wish asked = dlend_move_wish(v);
	int ret = dlend_lease_run(lease);

	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	/* What came while the device was stopped may be lost: one too many does no harm. */
	dlend_irqs_live(v, v->have.irq_mode, true);
	v->move.given = false;
	v->move.why[0] = 0;
	if (dlend_reply_ran(&v->want, &asked, &v->have, ret))
		dlend_move_lost(v, " (%pe)%s", ERR_PTR(ret),
				ret == -ESTALE ? ": another host has taken it over" : "");
	dlend_gate_update(v);
}

/* From here on the guest's configuration space has effects. [locked] */
static void dlend_move_begin(struct dlend_vdev *v)
{
	v->move.coming = false;
	v->move.has_token = false;
	v->want.taken = false;
	v->want.bme = dlend_cfg_mastering(&v->cfg);
	v->want.readrq = dlend_cfg_readrq(&v->cfg);
	/* Its memory was looked at before all of it had come. */
	v->want.rescan++;
	if (v->want.bme)
		v->bme_at = ktime_get();
	dlend_irqs_disable_intx(v, dlend_cfg_intx_disabled(&v->cfg));
	dlend_bar_set_mse(v, dlend_cfg_mse(&v->cfg));
	dlend_gate_update(v);
}

void dlend_move_start(struct dlend_vdev *v)
{
	lockdep_assert_held(&v->lock);
	dlend_move_begin(v);
	dlend_vdev_kick(v);
}

void dlend_move_step_take_over(struct dlend_vdev *v, struct dlend_lease *lease)
{
	char why[DLEND_REASON_LEN] = "";
	int ret = dlend_lease_take_over(lease, v->move.token, why);

	guard(mutex)(&v->lock);
	/* Whatever ends the wait for the VM ends its lease, too. */
	if (v->claim.lease != lease)
		return;
	dlend_reply_taken(&v->have);
	/* Every vector once, for what was lost on the way. */
	v->irq_gap = true;
	dlend_move_begin(v);
	if (ret)
		dlend_move_lost(v, " (%pe): %s", ERR_PTR(ret), why);
}
