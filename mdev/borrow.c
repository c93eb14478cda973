// SPDX-License-Identifier: GPL-2.0
/*
 * Borrowing: what a VMM's call, a guest's configuration write or a lender's message means for a
 * vdev.  The worker then does it (steps.c).
 *
 * A call that stops the device does not return before the device has stopped: a VMM that resets a
 * VM, or a guest that turns Bus Master Enable off, uses the memory for something else at once.  So
 * a build gives way to a reset, Bus Master Enable off and interrupts (dlend_plan_urgent()), and the
 * callers wait for the lender's answer, for a bounded time (dlend_borrow_stopped()).  If it does
 * not come, this node closes the windows to its memory.
 *
 * Must not know regions nor eventfds: those belong to bar.c and irq.c.
 */
#include <linux/ktime.h>
#include <linux/pci_regs.h>
#include <linux/sched/signal.h>
#include "bar.h"
#include "borrow.h"
#include "condition.h"
#include "gate.h"
#include "guest_ram.h"
#include "irq.h"
#include "lease_end.h"
#include "move.h"
#include "vdev_p2p.h"
#include "steps.h"
#include "vdev.h"

/*
 * How long a caller under the VMM's big lock waits for the lender.  After a configuration write
 * that stops the device, as long as vfio-pci takes for a function level reset; for VFIO's own
 * reset, longer.
 */
#define DLEND_BORROW_STOP_MS	100
#define DLEND_BORROW_RESET_MS	1000
#define DLEND_BORROW_STATUS_MS	100

void dlend_borrow_init(struct dlend_vdev *v)
{
	dlend_step_init(v);
	dlend_condition_init(v);
	dlend_guest_init(v);
}

void dlend_borrow_open(struct dlend_vdev *v)
{
	bool comes = dlend_claim_comes(&v->claim);

	mutex_lock(&v->lock);
	dlend_vdev_forget(v);
	memset(&v->have, 0, sizeof(v->have));
	v->readrq = dlend_cfg_readrq(&v->cfg);
	v->want.readrq = v->readrq;
	v->have.readrq = v->readrq;
	v->irq_short = -1;
	v->dma = false;
	v->bme_at = 0;
	v->live_after = 0;
	dlend_vmm_note(&v->vmm);
	v->claim.party = dlend_vdev_caller();
	clear_bit(0, &v->touched);
	dlend_condition_clear(v);
	v->open = true;
	v->had_space = false;
	dlend_move_open(v);
	/* A VM that moves brings the lease along, and pins by itself. */
	v->prepinned = v->prepin == DLEND_PREPIN_OPEN && !comes;
	dlend_gate_update(v);
	dlend_bar_set_mse(v, dlend_cfg_mse(&v->cfg));
	if (v->prepinned)
		dlend_vdev_kick(v);
	mutex_unlock(&v->lock);
}

static bool dlend_borrow_is_quiet(const struct dlend_vdev *v)
{
	return READ_ONCE(v->quiet);
}

/*
 * Stop the device first: a VMM that dies leaves it in the middle of transfers.  At the end of the
 * close it reaches no memory, whatever the lender says.  But a device that still transfers then
 * runs into this host's IOMMU, which logs that, and answers the NTB with errors.
 */
static void dlend_borrow_hush(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	v->want.bme = false;
	dlend_gate_update(v);
	dlend_vdev_kick(v);
	mutex_unlock(&v->lock);
	/* All of the VM's at the same time: one that has to wait keeps no other's lease. */
	if (current->flags & PF_EXITING && dlend_party_same(dlend_vdev_caller(), v->claim.party))
		dlend_guest_vmm_exits(v);
	wait_event_timeout(v->idle_wq, dlend_borrow_is_quiet(v) || dlend_guest_is_mute(v),
			   msecs_to_jiffies(DLEND_BORROW_RESET_MS));
}

void dlend_borrow_close(struct dlend_vdev *v)
{
	dlend_borrow_hush(v);
	/*
	 * First the lease: what is pinned may be memory that user space serves, and a pin of it
	 * does not end before user space likes.
	 */
	dlend_ended_leave(v);
	dlend_guest_stop(v);
	dlend_ended_drop(v);
	mutex_lock(&v->lock);
	dlend_condition_clear(v);
	dlend_gate_note_quiet(v);
	mutex_unlock(&v->lock);
}

/*
 * A function reset, whoever asked for it; the caller has reset the configuration space. Without a
 * lease there is no device to reset. [locked]
 */
static void dlend_borrow_function_reset(struct dlend_vdev *v)
{
	dlend_irqs_disable_intx(v, dlend_cfg_intx_disabled(&v->cfg));
	v->want.bme = dlend_cfg_mastering(&v->cfg);
	v->want.readrq = dlend_cfg_readrq(&v->cfg);
	/* A vCPU that waits for a BAR that stays on, as a VF's does, touches it again. */
	clear_bit(0, &v->touched);
	wake_up_all(&v->gate_wq);
	if (v->claim.lease || v->claim.borrowing)
		v->want.reset++;
	wake_up_all(&v->idle_wq);
	dlend_condition_clear(v);
	dlend_bar_set_mse(v, dlend_cfg_mse(&v->cfg));
}

void dlend_borrow_effects(struct dlend_vdev *v, u32 effects)
{
	lockdep_assert_held(&v->lock);
	/*
	 * The VM is still another host's, or runs before its device is here: what it has set has
	 * effects when it goes on here.
	 */
	if (v->move.coming) {
		v->want.reset += !!(effects & DLEND_CFG_E_FLR);
		return;
	}
	if (effects & DLEND_CFG_E_FLR)
		dlend_borrow_function_reset(v);
	if (effects & (DLEND_CFG_E_MSE_ON | DLEND_CFG_E_MSE_OFF | DLEND_CFG_E_D3HOT |
		       DLEND_CFG_E_D0))
		dlend_bar_set_mse(v, dlend_cfg_mse(&v->cfg));
	if (effects & (DLEND_CFG_E_MSE_ON | DLEND_CFG_E_MSE_OFF | DLEND_CFG_E_D3HOT |
		       DLEND_CFG_E_D0 | DLEND_CFG_E_BAR))
		dlend_vdev_publish(v);
	if (effects & DLEND_CFG_E_INTX)
		dlend_irqs_disable_intx(v, dlend_cfg_intx_disabled(&v->cfg));
	if (effects & DLEND_CFG_E_READRQ)
		v->want.readrq = dlend_cfg_readrq(&v->cfg);
	if (effects & (DLEND_CFG_E_MSE_ON | DLEND_CFG_E_BME_ON))
		v->want.enable++;
	if ((effects & DLEND_CFG_E_BME_ON) && dlend_cfg_mastering(&v->cfg)) {
		if (v->failed && !v->lost)
			dlend_condition_clear(v);
		v->want.bme = true;
		v->want.build++;
		v->backoff_ms = 0;
		v->bme_at = ktime_get();
		if (!v->claim.lease)
			WRITE_ONCE(v->shut_since, v->bme_at);	/* nobody waited before */
	}
	/* A device that is not in D0 transfers nothing. */
	if (effects & (DLEND_CFG_E_BME_OFF | DLEND_CFG_E_D3HOT | DLEND_CFG_E_D0))
		v->want.bme = dlend_cfg_mastering(&v->cfg);
	/* Meanwhile it was told of no memory. */
	if ((effects & DLEND_CFG_E_D0) && v->want.bme)
		v->want.build++;
	if (!(effects & (DLEND_CFG_E_MSE_ON | DLEND_CFG_E_BME_ON | DLEND_CFG_E_BME_OFF |
			 DLEND_CFG_E_FLR | DLEND_CFG_E_D3HOT | DLEND_CFG_E_D0 |
			 DLEND_CFG_E_READRQ)))
		return;
	dlend_gate_update(v);
	dlend_vdev_kick(v);
}

/* The lender does not say that the device has stopped: close the device's windows. */
static void dlend_borrow_cut_off(struct dlend_vdev *v, unsigned int ms)
{
	struct dlend_lease *lease;
	bool fenced;

	mutex_lock(&v->lock);
	lease = v->claim.lease && !dlend_borrow_is_quiet(v) ? dlend_lease_get(v->claim.lease) :
							      NULL;
	if (lease) {
		v->want.build++;
		dlend_gate_update(v);
	}
	mutex_unlock(&v->lock);
	if (!lease)
		return;
	fenced = dlend_memory_fence(dlend_vdev_memory(lease));
	/* The lender may have answered, and the worker built, before the fence. */
	mutex_lock(&v->lock);
	v->want.build++;
	dlend_gate_update(v);
	if (v->claim.lease)
		dlend_vdev_kick(v);
	mutex_unlock(&v->lock);
	dev_warn_ratelimited(dlend_vdev_dev(v), "node %u did not stop the device within %u ms: %s\n",
			     lease->addr.lender, ms,
			     fenced ? "it does not reach the guest's memory until it has" :
			     "it may still reach the guest's memory, which another device of the VM uses, too");
	dlend_lease_put(lease);
}

static void dlend_borrow_await_stop(struct dlend_vdev *v, unsigned int ms)
{
	if (!wait_event_timeout(v->idle_wq, dlend_borrow_is_quiet(v), msecs_to_jiffies(ms)))
		dlend_borrow_cut_off(v, ms);
}

void dlend_borrow_stopped(struct dlend_vdev *v, u32 effects)
{
	if (effects & (DLEND_CFG_E_FLR | DLEND_CFG_E_BME_OFF | DLEND_CFG_E_D3HOT))
		dlend_borrow_await_stop(v, DLEND_BORROW_STOP_MS);
}

void dlend_borrow_reset(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	dlend_cfg_reset(&v->cfg);
	dlend_borrow_function_reset(v);
	dlend_gate_update(v);
	dlend_vdev_kick(v);
	mutex_unlock(&v->lock);
	dlend_borrow_await_stop(v, DLEND_BORROW_RESET_MS);
}

u16 dlend_borrow_intx(struct dlend_vdev *v)
{
	struct dlend_lease *lease;
	u16 status;
	int ret;

	/* As far as this node knows, INTx is not asserted: the lender would have told. */
	if (!dlend_irqs_intx_up(v))
		return 0;
	lease = dlend_vdev_lease(v);
	if (!lease)
		return 0;
	/* INTx was asserted.  Only the device knows whether the guest has served it by now. */
	ret = dlend_lease_read_status(lease, &status, DLEND_BORROW_STATUS_MS);
	dlend_lease_put(lease);
	return ret ? PCI_STATUS_INTERRUPT : status & PCI_STATUS_INTERRUPT;
}

/* What the borrower calls (struct dlend_claim_ops) */

static struct dlend_vdev *dlend_borrow_vdev(struct dlend_claim *claim)
{
	return container_of(claim, struct dlend_vdev, claim);
}

static void dlend_borrow_op_get(struct dlend_claim *claim)
{
	dlend_vdev_get(dlend_borrow_vdev(claim));
}

static void dlend_borrow_op_put(struct dlend_claim *claim)
{
	dlend_vdev_put(dlend_borrow_vdev(claim));
}

static bool dlend_borrow_op_uses(struct dlend_claim *claim, u32 epoch)
{
	guard(mutex)(&dlend_borrow_vdev(claim)->lock);
	return claim->lease && claim->lease->epoch == epoch;
}

static void dlend_borrow_op_link_down(struct dlend_claim *claim)
{
	dlend_ended_link_down(dlend_borrow_vdev(claim));
}

static bool dlend_borrow_op_state(struct dlend_claim *claim, u16 state, u16 holder, u32 epoch)
{
	struct dlend_vdev *v = dlend_borrow_vdev(claim);
	struct dlend_lease *lease;
	bool used, over = false;

	mutex_lock(&v->lock);
	lease = claim->lease ? dlend_lease_get(claim->lease) : NULL;
	used = lease || claim->borrowing;
	if (lease)
		over = state == DLEND_OFFER_GONE || dlend_epoch_after(epoch, lease->epoch) ||
		       (epoch == lease->epoch && state != DLEND_OFFER_HELD);
	mutex_unlock(&v->lock);
	dlend_condition_say(v);
	if (over)
		dlend_ended_lose(v, lease, "the lender took the device back");
	if (lease)
		dlend_lease_put(lease);
	return used;
}

static void dlend_borrow_op_reclaim(struct dlend_claim *claim, u32 epoch)
{
	struct dlend_vdev *v = dlend_borrow_vdev(claim);

	if (!dlend_borrow_op_uses(claim, epoch))
		return;
	dev_notice_ratelimited(dlend_vdev_dev(v), "node %u asks for its device back\n",
			       dlend_vdev_lender(v));
	if (!dlend_irqs_signal(v, VFIO_PCI_REQ_IRQ_INDEX))
		dev_warn_ratelimited(dlend_vdev_dev(v),
				     "the VMM cannot be asked to give it back; unplug the device or shut the VM down\n");
}

static void dlend_borrow_op_error(struct dlend_claim *claim, u32 epoch)
{
	struct dlend_vdev *v = dlend_borrow_vdev(claim);

	guard(mutex)(&v->lock);
	if (!claim->lease || claim->lease->epoch != epoch || v->failed)
		return;
	dlend_condition_fail(v, true, "node %u reports an error of the device",
			     dlend_vdev_lender(v));
	v->errored = true;
	dlend_vdev_kick(v);	/* the worker turns Bus Master Enable off */
}

static void dlend_borrow_op_irqs_again(struct dlend_claim *claim)
{
	struct dlend_vdev *v = dlend_borrow_vdev(claim);

	guard(mutex)(&v->lock);
	/* Who has none, or not yet, gets them the new way anyhow. */
	if (!claim->lease || v->failed || v->want.irq_mode == DLEND_IRQ_NONE)
		return;
	v->want.irq_turn++;
	dlend_gate_update(v);
	dlend_vdev_kick(v);
}

static void dlend_borrow_op_interrupt(struct dlend_claim *claim, u32 vector, u32 count, bool direct)
{
	dlend_irqs_fired(dlend_borrow_vdev(claim), vector, count);
}

static void dlend_borrow_op_bar_revoked(struct dlend_claim *claim, unsigned int bar)
{
	dlend_bar_revoked(dlend_borrow_vdev(claim), bar);
}

static void dlend_borrow_op_returning(struct dlend_claim *claim, struct dlend_lease *lease)
{
	if (lease->priv)
		dlend_memory_cut(lease->priv);
}

/*
 * Unpin now: a lease that ended in a callback of the link could not wait there for its pins.  Then
 * drop the reference of vdev->ended: with the last reference the lease's slots become free, and the
 * guest's next lease may need them.
 */
static void dlend_borrow_op_returned(struct dlend_claim *claim, struct dlend_lease *lease)
{
	if (lease->priv)
		dlend_memory_close(lease->priv);
	dlend_ended_forget(dlend_borrow_vdev(claim), lease);
}

static void dlend_borrow_op_released(struct dlend_claim *claim, struct dlend_lease *lease,
				     bool acked)
{
	struct dlend_memory_stat st;

	if (!lease->priv)
		return;
	dlend_memory_stat(lease->priv, &st);
	atomic64_add(st.messages, &claim->messages);
	dlend_memory_destroy(lease->priv, acked);
}

const struct dlend_claim_ops dlend_borrow_claim_ops = {
	.what = "mediated device",
	.user = "a guest",
	.end = "shut the guest down or unplug the device",
	.get = dlend_borrow_op_get,
	.put = dlend_borrow_op_put,
	.uses = dlend_borrow_op_uses,
	.link_down = dlend_borrow_op_link_down,
	.state = dlend_borrow_op_state,
	.reclaim = dlend_borrow_op_reclaim,
	.error = dlend_borrow_op_error,
	.irqs_again = dlend_borrow_op_irqs_again,
	.interrupt = dlend_borrow_op_interrupt,
	.bar_revoked = dlend_borrow_op_bar_revoked,
	.returning = dlend_borrow_op_returning,
	.returned = dlend_borrow_op_returned,
	.released = dlend_borrow_op_released,
};
