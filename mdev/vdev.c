// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a borrowed device: the steps from "the guest wants the device" to "the guest has it",
 * which one worker makes; and the lender's messages that are no replies.
 *
 * What the guest and the VMM want is noted at once (vdev->desired).  The worker, on the offer's
 * ordered workqueue, asks the lender step by step and notes the replies (vdev->actual).  The gate
 * is open while the two are equal in all that matters to an access (plan.h).  So no access of the
 * guest meets a device that is not set up yet, and callers under the VMM's big lock need not wait:
 *
 *   idle --access, or Bus Master Enable--> borrowing --grant--> building --all mapped--> running
 *
 * A leased device with Bus Master Enable off is "running" at once, as its driver sets up registers
 * then.  A dma_unmap, Bus Master Enable, an interrupt mode or a reset makes it "building" again.
 * BARs of a "failed" device read 0xff.  A reset or a new open tries again; so does a guest that
 * turns Bus Master Enable on, but not if the device has failed because its lease ended (@lost).
 *
 * Bus Master Enable of the device itself is off until the DMA mappings are complete for the first
 * time.  It stays on while mappings are repaired after a dma_unmap, and is turned off if the repair
 * fails.  During a repair the gate keeps the guest from starting anything new.  DMA of the device
 * then reaches a page of its own guest, or none; never another page, as a slot is used for other
 * memory only after the lender has unmapped it.  A device under vfio-pci sees the same when a VMM
 * maps memory anew.  Turning the bit off would come too late, as a dma_unmap waits for no peer; and
 * it would stop a device in the midst of DMA to memory that did not change, which many devices
 * take for a fatal error.
 *
 * A step is called without locks, for the desired state when it began (vdev->asked).  The step
 * notes its outcome under vdev->lock, and only if the vdev still has the lease that the step worked
 * on, as that may have ended in between; plan.h says what is noted.
 */
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/pci_regs.h>
#include "trace.h"
#include "vdev.h"

static unsigned int settle_s = 60;
module_param(settle_s, uint, 0644);
MODULE_PARM_DESC(settle_s, "seconds without progress, for a guest's memory layout to stop changing, before giving up");

/* How long Bus Master Enable waits, at most, for lenders that are to map other devices' BARs. */
#define DLEND_P2P_SETTLE_MS	1000u

/* How long builds are tried again if RAM cannot be mapped, as there may soon be room. */
#define DLEND_STEP_REACH_NS	(2 * NSEC_PER_SEC)

/* Wait a little, unless the VM goes away or another step is urgent. */
static void dlend_step_pause(struct dlend_vdev *v)
{
	/* A reset is urgent: the device may still write to memory that the guest uses anew. */
	wait_event_timeout(v->idle_wq, !READ_ONCE(v->now.open) || READ_ONCE(v->is.urgent),
			   msecs_to_jiffies(READ_ONCE(v->patience.pause_ms)));
}

/* The lender is still resetting the device: pause; make the device fail after settle_s. */
static void dlend_step_await_lender(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	if (dlend_plan_overdue(&v->patience, 0, ktime_get(), settle_s * NSEC_PER_SEC) &&
	    v->now.open)
		dlend_condition_fail(v, true,
				     "the lender did not make the device ready within %u s",
				     settle_s);
	mutex_unlock(&v->lock);
	dlend_step_pause(v);
}

/*
 * Ask for a lease, and make its guest memory (lease->priv).  @coming: a lease of a standby; @why
 * (out): reason of an error.
 * Return: lease, with a reference; ERR_PTR(-ECONNRESET) its session is over; or another error.
 */
static struct dlend_lease *dlend_step_ask_lease(struct dlend_vdev *v, bool coming, char *why)
{
	struct dlend_lease *lease;
	struct dlend_memory *mem;

	lease = dlend_lease_borrow(&v->claim, coming, why);
	if (IS_ERR(lease))
		return lease;
	mem = dlend_guest_memory_create(v, lease);
	if (!IS_ERR(mem)) {
		lease->priv = mem;
		return lease;
	}
	snprintf(why, DLEND_REASON_LEN, "no DMA windows can be made (%pe)", mem);
	dlend_lease_return(lease);
	/* The session of the grant is over: the lease was not refused, but lost. */
	return mem == ERR_PTR(-ENOTCONN) ? ERR_PTR(-ECONNRESET) : ERR_CAST(mem);
}

/*
 * The lender has granted no lease: make the device fail, or note @why for the VM that is to come.
 * -EAGAIN: the lender is still resetting the device, which is no failure. [locked]
 */
static void dlend_step_refused(struct dlend_vdev *v, int err, const char *why)
{
	bool lost = err == -ECONNRESET;

	if (v->now.coming) {
		v->now.refused = true;
		strscpy(v->move.why, why, sizeof(v->move.why));
		dlend_vdev_update(v);
		return;
	}
	if (err == -EAGAIN)
		return;
	dlend_condition_fail(v, !lost || dlend_stop_on_loss, "%s", why);
	v->lost = lost;
}

/* DLEND_STEP_BORROW; @coming: DLEND_STEP_STANDBY */
static void dlend_step_borrow(struct dlend_vdev *v, bool coming)
{
	struct dlend_lease *lease = ERR_PTR(-ENODEV);
	char why[DLEND_REASON_LEN] = "";
	bool wanted;

	mutex_lock(&v->lock);
	WRITE_ONCE(v->claim.borrowing, true);
	/* The administrator wants a certain device; the lender may have another one there. */
	if (v->identity[0] && strcmp(v->identity, v->info.identity))
		snprintf(why, sizeof(why),
			 "it is another device: its identity is \"%s\", not \"%s\" as set",
			 v->info.identity, v->identity);
	mutex_unlock(&v->lock);
	if (!why[0])
		lease = dlend_step_ask_lease(v, coming, why);
	mutex_lock(&v->lock);
	WRITE_ONCE(v->claim.borrowing, false);
	wanted = v->now.open && dlend_reply_wanted(&v->desired, &v->asked);
	trace_dlend_vdev_step(dlend_vdev_dev(v), "borrow", IS_ERR(lease) ? 0 : lease->epoch,
			      PTR_ERR_OR_ZERO(lease));
	if (!IS_ERR(lease)) {
		v->stat.borrows++;
		v->patience.pause_ms = 0;
	}
	if (IS_ERR(lease) && wanted) {
		dlend_step_refused(v, PTR_ERR(lease), why);
	} else if (wanted) {
		/* No dlend_vdev_update(): dlend_step_work() first checks the lease for its end. */
		WRITE_ONCE(v->claim.lease, lease);
		dlend_reply_granted(&v->asked, &v->actual, v->readrq);
	} else if (!IS_ERR(lease)) {
		/*
		 * The VMM has closed the device since, or the VM that was to come does not come
		 * any more, or another one comes.
		 */
		dlend_lease_return(lease);
	}
	mutex_unlock(&v->lock);
	/* The reply may come later, and be a grant: return that. */
	if (lease == ERR_PTR(-ETIMEDOUT))
		dlend_claim_return_stray(&v->claim);
	/* The device's last user has returned it, and the lender is still resetting it. */
	if (wanted && lease == ERR_PTR(-EAGAIN))
		dlend_step_await_lender(v);
}

/*
 * Make the device fail because a request @what has failed.  The VMM's error eventfd is signalled,
 * unless the link is lost and stop_on_loss is off. [locked]
 */
static void dlend_step_failed(struct dlend_vdev *v, struct dlend_lease *lease, const char *what,
			      int ret)
{
	if (!v->now.failed)
		dlend_condition_fail(v, ret != -ENOTCONN || dlend_stop_on_loss,
				     "%s failed on node %u (%pe)",
				     what, lease->addr.lender, ERR_PTR(ret));
}

/*
 * Wait until the device reaches those BARs of the VM's other devices that it can reach.  If another
 * step is urgent, do not wait.
 */
static void dlend_step_await_p2p(struct dlend_vdev *v)
{
	if (wait_event_timeout(v->idle_wq, READ_ONCE(v->p2p.settled) || !READ_ONCE(v->now.open) ||
			       READ_ONCE(v->is.urgent), msecs_to_jiffies(DLEND_P2P_SETTLE_MS)))
		return;
	dev_warn_ratelimited(dlend_vdev_dev(v), "begins to transfer before it reaches the BARs of the VM's other devices: a lender has not answered within %u ms\n",
			     DLEND_P2P_SETTLE_MS);
}

/* Is Bus Master Enable still to be turned on?  Another step may have become due. [locked] */
static bool dlend_step_may_begin(struct dlend_vdev *v, struct dlend_lease *lease)
{
	return v->claim.lease == lease && v->is.next == DLEND_STEP_BME_ON;
}

/*
 * The device is about to do DMA: have all BARs mapped that it shall reach.  Guest memory is mapped
 * by now.  Return: false if Bus Master Enable is not to be turned on any more.
 */
static bool dlend_step_begin(struct dlend_vdev *v, struct dlend_lease *lease)
{
	mutex_lock(&v->lock);
	if (!dlend_step_may_begin(v, lease)) {
		mutex_unlock(&v->lock);
		return false;
	}
	v->now.dma = true;
	dlend_vdev_update(v);
	mutex_unlock(&v->lock);
	dlend_step_await_p2p(v);
	guard(mutex)(&v->lock);
	if (dlend_step_may_begin(v, lease))
		return true;
	/* The lender was not asked yet. */
	if (v->claim.lease == lease)
		v->now.dma = false;
	return false;
}

static void dlend_step_bus_master(struct dlend_vdev *v, struct dlend_lease *lease, bool on)
{
	int ret;

	/* Off is noted before the request, on after the reply: the gate is shut in between. */
	mutex_lock(&v->lock);
	v->actual.bme = v->actual.bme && on;
	mutex_unlock(&v->lock);
	ret = dlend_lease_bus_master(lease, on);
	trace_dlend_vdev_step(dlend_vdev_dev(v), on ? "bus_master on" : "bus_master off",
			      lease->epoch, ret);
	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	if (!on && !ret)
		v->now.dma = false;
	if (dlend_reply_bus_master(&v->desired, &v->asked, &v->actual, on, ret))
		dlend_step_failed(v, lease, on ? "Bus Master Enable" : "Bus Master Disable", ret);
	dlend_vdev_update(v);
}

static void dlend_step_bme_off(struct dlend_vdev *v, struct dlend_lease *lease)
{
	dlend_step_bus_master(v, lease, false);
}

static void dlend_step_bme_on(struct dlend_vdev *v, struct dlend_lease *lease)
{
	if (dlend_step_begin(v, lease))
		dlend_step_bus_master(v, lease, true);
}

static void dlend_step_reset(struct dlend_vdev *v, struct dlend_lease *lease)
{
	bool fails;
	int ret;

	/* First stop DMA, which is quick: dlend_borrow_await_stop() waits for that only. */
	if (READ_ONCE(v->now.dma))
		dlend_step_bus_master(v, lease, false);
	ret = dlend_lease_reset(lease);
	trace_dlend_vdev_step(dlend_vdev_dev(v), "reset", lease->epoch, ret);
	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	dlend_irqs_live(v, DLEND_IRQ_NONE, false);
	v->stat.resets++;
	fails = dlend_reply_reset(&v->desired, &v->asked, &v->actual, v->readrq, ret);
	v->move.given = v->move.given && ret;
	/* The DMA mappings stay, as Bus Master Enable is off and the guest has the same memory. */
	v->now.dma = v->now.dma && ret;
	if (fails)
		dlend_step_failed(v, lease, "reset", ret);
}

/*
 * Have the lender restore what the device lost in a reset.  If it cannot, the device stays as it
 * is, and the guest sees what the device has lost.
 */
static void dlend_step_enable(struct dlend_vdev *v, struct dlend_lease *lease)
{
	dlend_lease_enable(lease);
	guard(mutex)(&v->lock);
	if (v->claim.lease == lease)
		v->actual.enable = v->asked.enable;
}

/*
 * The lender has set up @got of the wanted vectors; 0: it cannot set up so many, and has set up
 * none.  Then the worker asks without the spare vectors, and after that for half as many each time.
 * A thread that waits in VFIO_DEVICE_SET_IRQS learns how many are possible (vdev->irq_short).  If
 * no thread waits, because interrupts were set up before the device was borrowed, the device fails,
 * as its guest would lose interrupts. [locked]
 */
static void dlend_step_irq_fewer(struct dlend_vdev *v, struct dlend_lease *lease, u32 got)
{
	u32 count = v->desired.irq_count;

	if (got >= v->irq_need || !count)
		return;
	if (!got && count > 1) {
		v->desired.irq_count = v->irq_need < count ? v->irq_need :
							  rounddown_pow_of_two(count - 1);
		return;
	}
	if (!got) {
		v->desired.irq_mode = DLEND_IRQ_NONE;
		v->desired.irq_count = 0;
	}
	if (v->irq_waiters)
		v->irq_short = got;
	else
		dlend_condition_fail(v, false, "node %u has %u of the guest's %u interrupt vectors",
				     lease->addr.lender, got, v->irq_need);
}

static void dlend_step_irq(struct dlend_vdev *v, struct dlend_lease *lease)
{
	bool resized, fails;
	int ret;

	mutex_lock(&v->lock);
	resized = v->actual.irq_mode == v->asked.irq_mode || v->irq_gap;
	/*
	 * Until the reply it is not known what the lender delivers.  If the guest goes back to the
	 * old set-up before the reply, the worker must set that up again, or an edge could be lost.
	 */
	v->actual.irq_mode = DLEND_IRQ_UNKNOWN;
	dlend_bypass_end(v);
	mutex_unlock(&v->lock);
	/* Before the lender starts: the first interrupt may be faster than the reply. */
	dlend_irqs_live(v, v->asked.irq_mode, false);
	ret = dlend_lease_irq_setup(lease, v->asked.irq_mode, v->asked.irq_count);
	trace_dlend_vdev_step(dlend_vdev_dev(v), "interrupts", lease->epoch, ret);
	guard(mutex)(&v->lock);
	if (v->claim.lease != lease)
		return;
	if (resized)
		dlend_irqs_live(v, v->asked.irq_mode, true);
	fails = dlend_reply_irq(&v->desired, &v->asked, &v->actual, ret);
	if (!ret)
		dlend_bypass_begin(v, lease);
	/* The old vectors are gone: the next set-up signals for edges that are lost until then. */
	v->irq_gap = resized && ret;
	if (fails)
		dlend_step_failed(v, lease, "interrupt set-up", ret);
	else if ((!ret || ret == -ENOSPC) && dlend_reply_irq_same(&v->desired, &v->asked))
		dlend_step_irq_fewer(v, lease, ret ? 0 : v->asked.irq_count);
}

/* Set Max_Read_Request_Size.  If the request fails, the device still works, maybe slower. */
static void dlend_step_readrq(struct dlend_vdev *v, struct dlend_lease *lease)
{
	/* The capability does not move while a VMM has the device open. */
	dlend_lease_set_readrq(lease, v->cfg.pcie_pos + PCI_EXP_DEVCTL, v->asked.readrq);
	guard(mutex)(&v->lock);
	if (v->claim.lease == lease)
		v->actual.readrq = v->asked.readrq;
}

static void dlend_step_build_failed(struct dlend_vdev *v, struct dlend_lease *lease, int ret,
				    const char *why)
{
	if (!v->now.open)
		return;
	if (ret == -ENOTCONN)
		dlend_step_failed(v, lease, "DMA mapping", ret);
	else if (ret == -EAGAIN)
		dlend_condition_fail(v, true, "%s within %u s", why, settle_s);
	else if (v->actual.build == v->desired.build)
		dlend_condition_fail(v, true, "no way to RAM that was plugged in (%pe): %s",
				     ERR_PTR(ret), why);
	else
		dlend_condition_fail(v, true, "no DMA windows (%pe): %s", ERR_PTR(ret), why);
}

/* Note that a build has ended with @ret, because of @why. Return: try again later? [locked] */
static bool dlend_step_build_note(struct dlend_vdev *v, struct dlend_lease *lease,
				  int ret, const char *why)
{
	u64 pinned = dlend_memory_pinned(dlend_vdev_memory(lease));
	s64 limit = ret == -EAGAIN ? settle_s * NSEC_PER_SEC : DLEND_STEP_REACH_NS;
	bool overdue = ret && dlend_plan_overdue(&v->patience, pinned, ktime_get(), limit);

	switch (dlend_plan_verdict(&v->desired, &v->actual, ret, overdue)) {
	case DLEND_VERDICT_STANDS:
		if (v->actual.build != v->asked.build)
			dlend_guest_rescan_soon(v);
		v->actual.build = v->asked.build;
		v->actual.rescan = v->asked.rescan;
		v->actual.grow = v->asked.grow;
		break;
	case DLEND_VERDICT_AGAIN:
		return true;
	case DLEND_VERDICT_KEEP:
		v->actual.rescan = v->asked.rescan;
		break;
	case DLEND_VERDICT_FAIL:
		dlend_step_build_failed(v, lease, ret, why);
		break;
	}
	v->patience.pause_ms = 0;
	return false;
}

/* Is the gate open, or will it be when a dma_unmap that is under way is over? [locked] */
static bool dlend_step_is_open(const struct dlend_vdev *v)
{
	return v->desired.bme && v->actual.bme && v->actual.build == v->desired.build &&
	       v->actual.grow == v->desired.grow;
}

static void dlend_step_build(struct dlend_vdev *v, struct dlend_lease *lease)
{
	char why[DLEND_REASON_LEN] = "the guest's memory layout did not settle";
	bool again = false;
	u32 how = 0;
	int ret;

	mutex_lock(&v->lock);
	/* The guest may have been given memory while the device was stopped. */
	if (!v->actual.bme)
		how |= DLEND_BUILD_ANEW;
	if (dlend_step_is_open(v))
		how |= DLEND_BUILD_OPEN;
	/* If the VMM closes the device after this, the build sees that, and pins nothing. */
	ret = v->now.open && v->claim.lease == lease ? 0 : -EINTR;
	mutex_unlock(&v->lock);
	if (ret)
		return;
	ret = dlend_memory_build(dlend_vdev_memory(lease), how);
	/* -ESTALE for a standby: the old host has ended the move. */
	if (ret == -ESTALE && v->now.coming) {
		dlend_ended_lose(v, lease, "the host that the VM is on has ended its move");
		return;
	}
	if (ret)
		dlend_memory_why(dlend_vdev_memory(lease), ret, why, sizeof(why));
	else
		dlend_guest_look(v, lease);
	mutex_lock(&v->lock);
	v->stat.builds++;
	if (ret == -EAGAIN)
		v->stat.build_retries++;
	/* A build that gave way to an urgent step is made again after that step. */
	if (v->claim.lease == lease && !(ret == -EAGAIN && v->is.urgent))
		again = dlend_step_build_note(v, lease, ret, why);
	mutex_unlock(&v->lock);
	if (again)
		dlend_step_pause(v);
}

/* The steps that need a lease */
static void (*const dlend_step_do[])(struct dlend_vdev *v, struct dlend_lease *lease) = {
	[DLEND_STEP_RESET] = dlend_step_reset,
	[DLEND_STEP_BME_OFF] = dlend_step_bme_off,
	[DLEND_STEP_ENABLE] = dlend_step_enable,
	[DLEND_STEP_IRQ] = dlend_step_irq,
	[DLEND_STEP_READRQ] = dlend_step_readrq,
	[DLEND_STEP_BUILD] = dlend_step_build,
	[DLEND_STEP_BME_ON] = dlend_step_bme_on,
	[DLEND_STEP_MOVE_TO] = dlend_move_step_to,
	[DLEND_STEP_QUIESCE] = dlend_move_step_quiesce,
	[DLEND_STEP_RUN] = dlend_move_step_run,
	[DLEND_STEP_TAKE_OVER] = dlend_move_step_take_over,
};

/*
 * Return: the step to make, for which vdev->asked is set.  After two of the steps the gate may
 * open: it stays shut until the worker has looked for RAM (now.looking).
 */
static enum dlend_step dlend_step_next(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	v->now.looking = false;
	dlend_vdev_update(v);
	v->now.looking = v->is.next == DLEND_STEP_IRQ || v->is.next == DLEND_STEP_BME_ON;
	v->asked = v->desired;
	return v->is.next;
}

void dlend_step_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(work, struct dlend_vdev, work);
	enum dlend_step step;

	while ((step = dlend_step_next(v)) != DLEND_STEP_NONE) {
		bool asks = step == DLEND_STEP_BORROW || step == DLEND_STEP_STANDBY;
		struct dlend_lease *lease __free(dlend_lease_put) = NULL;

		/* A lease must go back first.  The worker is queued already, as a step is due. */
		if (asks && dlend_claim_pending(&v->claim))
			break;
		if (asks)
			dlend_step_borrow(v, step == DLEND_STEP_STANDBY);
		lease = dlend_vdev_lease(v);
		/* The lender may have ended the lease before the grant was noted here. */
		if (asks && lease && dlend_lease_over(lease))
			dlend_ended_lose(v, lease, "the lease ended at once");
		if (asks || !lease)
			continue;
		dlend_step_do[step](v, lease);
		if (READ_ONCE(v->now.looking))
			dlend_guest_look(v, lease);
	}
	dlend_condition_notify(v);
}

/* The ops of the claim (struct dlend_claim_ops), which the borrower calls */

static void dlend_borrow_op_get(struct dlend_claim *claim)
{
	dlend_vdev_get(claim_to_vdev(claim));
}

static void dlend_borrow_op_put(struct dlend_claim *claim)
{
	dlend_vdev_put(claim_to_vdev(claim));
}

static bool dlend_borrow_op_uses(struct dlend_claim *claim, u32 epoch)
{
	guard(mutex)(&claim_to_vdev(claim)->lock);
	return claim->lease && claim->lease->epoch == epoch;
}

static bool dlend_borrow_op_state(struct dlend_claim *claim, u16 state, u16 holder, u32 epoch)
{
	struct dlend_vdev *v = claim_to_vdev(claim);
	struct dlend_lease *lease __free(dlend_lease_put) = NULL;
	bool used, over = false;

	mutex_lock(&v->lock);
	lease = dlend_lease_get(claim->lease);
	used = lease || claim->borrowing;
	if (lease)
		over = state == DLEND_OFFER_GONE || dlend_epoch_after(epoch, lease->epoch) ||
		       (epoch == lease->epoch && state != DLEND_OFFER_HELD);
	mutex_unlock(&v->lock);
	dlend_condition_notify(v);
	if (over)
		dlend_ended_lose(v, lease, "the lender took the device back");
	return used;
}

static void dlend_borrow_op_reclaim(struct dlend_claim *claim, u32 epoch)
{
	struct dlend_vdev *v = claim_to_vdev(claim);

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
	struct dlend_vdev *v = claim_to_vdev(claim);

	guard(mutex)(&v->lock);
	if (!claim->lease || claim->lease->epoch != epoch || v->now.failed)
		return;
	dlend_condition_fail(v, true, "node %u reports an error of the device",
			     dlend_vdev_lender(v));
	v->errored = true;
}

static void dlend_borrow_op_irqs_again(struct dlend_claim *claim)
{
	struct dlend_vdev *v = claim_to_vdev(claim);

	guard(mutex)(&v->lock);
	/* If none are set up, the next set-up chooses anew between direct and counted ones. */
	if (!claim->lease || v->now.failed || v->desired.irq_mode == DLEND_IRQ_NONE)
		return;
	v->desired.irq_turn++;
	dlend_vdev_update(v);
}

static void dlend_borrow_op_returning(struct dlend_claim *claim, struct dlend_lease *lease)
{
	if (lease->priv)
		dlend_memory_revoke(lease->priv);
}

/*
 * Unpin now: if the lease ended in a callback of the link, that could not wait for the pins.  Then
 * drop the reference of vdev->ended: the lease's slots become free with its last reference, and the
 * guest's next lease may need them.
 */
static void dlend_borrow_op_returned(struct dlend_claim *claim, struct dlend_lease *lease)
{
	if (lease->priv)
		dlend_memory_close(lease->priv);
	dlend_ended_forget(claim_to_vdev(claim), lease);
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
	.link_down = dlend_ended_link_down,
	.state = dlend_borrow_op_state,
	.reclaim = dlend_borrow_op_reclaim,
	.error = dlend_borrow_op_error,
	.irqs_again = dlend_borrow_op_irqs_again,
	.interrupt = dlend_irqs_fired,
	.bar_revoked = dlend_bar_revoked,
	.returning = dlend_borrow_op_returning,
	.returned = dlend_borrow_op_returned,
	.released = dlend_borrow_op_released,
};
