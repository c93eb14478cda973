// SPDX-License-Identifier: GPL-2.0
/*
 * The state of a borrowed device.
 *
 * Desired state: vdev->desired, what the guest and the VMM asked for.  Actual state: vdev->actual,
 * what the lender has done, and vdev->now: whether there is a lease, a failure and so on.  A
 * function that changes one of these calls dlend_vdev_update() before it unlocks vdev->lock.  The
 * worker's steps need not: the worker calls dlend_vdev_update() when it looks for its next step,
 * right after a step has noted the lender's reply.  dlend_vdev_update() works out what follows
 * (plan.c), as vdev->is; sets the gate in front of the BARs; publishes the device to the VM's other
 * devices; wakes threads that wait for the device; and queues the worker (vdev.c) if there is a
 * step to make.
 *
 * BARs of a device that has failed read 0xff until dlend_condition_clear(): vdev.c says when.
 *
 * A lease can end before its vdev returns it: the link is lost, or the lender takes the device
 * back.  Pages may still be pinned under that lease, and the VMM may unmap them at any moment.  So
 * the vdev keeps the lease as vdev->ended until nothing is pinned under it.
 */
#include <linux/moduleparam.h>
#include <dlend/link.h>
#include "vdev.h"

void dlend_vdev_describe(struct dlend_vdev *v, struct dlend_p2p_dev *dev)
{
	unsigned int i;

	memset(dev, 0, sizeof(*dev));	/* also the padding, as @dev is compared by memcmp() */
	dev->addr = *dlend_offer_addr(v->claim.offer);
	dev->clique = v->clique_shown;
	for (i = 0; i < DLEND_NUM_BARS; i++) {
		/* Other devices reach no BAR that is smaller than a page, as pages are mapped. */
		dev->bar[i].size = v->info.bar[i].flags & DLEND_BAR_F_MAPPABLE &&
				   v->info.bar[i].size >= PAGE_SIZE ? v->info.bar[i].size : 0;
		dev->bar[i].gpa = dlend_cfg_bar_addr(&v->cfg, i);
	}
}

/* Give the borrower's peer-to-peer code the present lease, DMA and BARs of the device. [locked] */
static void dlend_vdev_publish(struct dlend_vdev *v)
{
	const struct dlend_lease *lease = v->now.failed ? NULL : v->claim.lease;
	struct dlend_p2p_dev dev;

	dlend_vdev_describe(v, &dev);
	if (lease) {
		dev.epoch = lease->epoch;
		/* BARs that the device reaches are mapped before its DMA, and unmapped after it. */
		dev.source = v->now.dma;
		/*
		 * A lender lets no other device reach a device that it is resetting, nor one that
		 * is only prepared for a move.
		 */
		dev.target = dlend_cfg_mse(&v->cfg) && v->actual.reset == v->desired.reset &&
			     !v->now.coming;
	}
	dlend_p2p_publish(&v->p2p, &dev, lease);
}

void dlend_vdev_update(struct dlend_vdev *v)
{
	struct dlend_conditions is;
	enum dlend_gate gate;
	bool leads;

	lockdep_assert_held(&v->lock);
	/* What the guest has set in configuration space has effects once the VM runs here. */
	if (!v->now.coming) {
		v->desired.readrq = dlend_cfg_readrq(&v->cfg);
		dlend_irqs_disable_intx(v, dlend_cfg_intx_disabled(&v->cfg));
	}
	v->now.leased = v->claim.lease;
	v->now.touched = test_bit(0, &v->touched);
	v->now.unmapping = v->unmapping;
	v->now.borrowing = v->claim.borrowing;
	is = dlend_plan(v->now, &v->desired, &v->actual);
	gate = is.gate;
	/* No device answers unless the VM runs here and has memory decoding on. */
	if (!v->now.open || !dlend_cfg_mse(&v->cfg) || (v->now.coming && !v->desired.taken))
		gate = DLEND_GATE_DEAD;
	leads = gate == DLEND_GATE_OPEN || gate == DLEND_GATE_READ;
	if (v->gate != gate)
		dlend_bar_set_gate(v, gate, leads ? v->claim.lease->bar : NULL);
	if (gate == DLEND_GATE_OPEN && v->actual.bme && v->bme_at) {
		v->stat.bme_to_open_us = ktime_us_delta(ktime_get(), v->bme_at);
		v->bme_at = 0;
	}
	if (is.gate != v->is.gate)
		v->notified[0] = 0;
	if (is.behind && !v->is.behind)
		v->behind_at = ktime_get();
	v->is = is;
	wake_up_all(&v->idle_wq);
	dlend_vdev_publish(v);
	if (is.next != DLEND_STEP_NONE)
		dlend_vdev_queue(v);
}

/* Failures, and events for user space */

/*
 * QEMU stops the VM when the error eventfd is signalled.  But a guest can often go on without its
 * device, as after a surprise removal.  So by default the guest reads 0xff instead.
 */
bool dlend_stop_on_loss;
module_param_named(stop_on_loss, dlend_stop_on_loss, bool, 0644);
MODULE_PARM_DESC(stop_on_loss, "also tell the VMM (error eventfd: QEMU stops the VM) when a link is lost or a lease ends");

void dlend_condition_fail(struct dlend_vdev *v, bool signal, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(v->reason, sizeof(v->reason), fmt, args);
	va_end(args);
	v->now.failed = true;
	dlend_vdev_update(v);
	/* Rate-limited, as a guest may make its device fail as often as it likes. */
	dev_err_ratelimited(dlend_vdev_dev(v),
			    "borrowed device unusable: %s; the guest reads 0xff from it\n",
			    v->reason);
	if (signal)
		dlend_irqs_signal(v, VFIO_PCI_ERR_IRQ_INDEX);
	dlend_condition_notify(v);
}

void dlend_condition_clear(struct dlend_vdev *v)
{
	v->now.failed = false;
	v->errored = false;
	v->lost = false;
	v->reason[0] = 0;
	v->patience.pause_ms = 0;
}

void dlend_condition_text(struct dlend_vdev *v, char *buf, size_t size)
{
	char who[DLEND_REASON_LEN];

	if (v->now.coming)
		snprintf(buf, size, "prepared for a VM that comes%s%s",
			 v->now.refused ? ", in vain: " : "", v->now.refused ? v->move.why : "");
	else if (v->now.failed)
		snprintf(buf, size, "failed: %s", v->reason);
	else if (v->desired.quiesced)
		snprintf(buf, size, "stopped, as its VM is: %s",
			 v->move.given ? "handed over" :
			 v->actual.quiesced ? "may move" : "not yet");
	else if (v->claim.borrowing && !v->claim.lease)
		snprintf(buf, size, "borrowing");
	else if (!v->claim.lease && dlend_claim_taken(&v->claim, who))
		snprintf(buf, size, "taken: %s", who);
	else if (!v->claim.lease)
		snprintf(buf, size, "idle");
	else if (v->is.gate != DLEND_GATE_OPEN)
		snprintf(buf, size, "building");
	else
		snprintf(buf, size, "running");
}

void dlend_condition_notify_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, notify_work);
	char text[DLEND_REASON_LEN + DLEND_CONDITION_WORDS];
	bool change;

	mutex_lock(&v->lock);
	dlend_condition_text(v, text, sizeof(text));
	text[strcspn(text, " ,:")] = 0;
	change = strcmp(v->notified, text);
	strscpy(v->notified, text);
	mutex_unlock(&v->lock);
	if (change)
		dlend_uevent_state(dlend_vdev_dev(v), text);
}

/*
 * On a system workqueue, not by the vdev's worker, which has WQ_MEM_RECLAIM: an event allocates
 * memory, and for that dirty memory may have to be written to the very disk that the worker sets
 * up.
 */
void dlend_condition_notify(struct dlend_vdev *v)
{
	schedule_delayed_work(&v->notify_work, msecs_to_jiffies(DLEND_UEVENT_DELAY_MS));
}

/* The end of a lease */

/* Return: a reference to vdev->ended, or NULL. */
static struct dlend_lease *dlend_ended_get(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return dlend_lease_get(v->ended);
}

struct dlend_lease *dlend_ended_with_pins(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return dlend_lease_get(v->claim.lease ?: v->ended);
}

/*
 * Move the lease in use from claim.lease to vdev->ended.  The caller has to use or put the
 * reference that claim.lease had; vdev->ended gets another one.  Interrupts of the lease come to
 * this host's handlers when this returns.
 * Return: the previous vdev->ended, or NULL; the caller puts it without the lock. [locked]
 */
static struct dlend_lease *dlend_ended_keep(struct dlend_vdev *v)
{
	struct dlend_lease *before = v->ended;

	lockdep_assert_held(&v->lock);
	v->ended = dlend_lease_get(v->claim.lease);
	WRITE_ONCE(v->claim.lease, NULL);
	/* Before the lease is returned, which closes slots to the BARs: none is opened after. */
	dlend_vdev_publish(v);
	dlend_bypass_end(v);
	return before;
}

/*
 * Pages must be unpinned before VFIO forgets the container, also those of a build that has just
 * begun.  Another thread of the VMM may unmap memory at that time, and type1 ends in a BUG if the
 * pins stay there.  So dma_unmap has to find the lease until nothing is pinned under it.
 */
void dlend_ended_drop(struct dlend_vdev *v)
{
	struct dlend_lease *ended __free(dlend_lease_put) = dlend_ended_get(v);

	if (!ended)
		return;
	dlend_memory_close(dlend_vdev_memory(ended));
	dlend_ended_forget(v, ended);
}

void dlend_ended_forget(struct dlend_vdev *v, struct dlend_lease *lease)
{
	struct dlend_lease *ended __free(dlend_lease_put) = NULL;

	guard(mutex)(&v->lock);
	if (v->ended == lease)
		swap(ended, v->ended);
}

struct dlend_lease *dlend_ended_give_up(struct dlend_vdev *v)
{
	struct dlend_lease *lease = v->claim.lease, *before;

	v->desired.vm++;
	if (!lease)
		return NULL;
	before = dlend_ended_keep(v);
	dlend_lease_return(lease);
	return before;
}

void dlend_ended_leave(struct dlend_vdev *v)
{
	struct dlend_lease *before __free(dlend_lease_put) = NULL;

	guard(mutex)(&v->lock);
	WRITE_ONCE(v->now.open, false);
	v->stat.returns += !!v->claim.lease;
	before = dlend_ended_give_up(v);
	/* With another number in @vm, replies to earlier requests mean nothing any more. */
	v->desired = (struct dlend_state){ .vm = v->desired.vm + 1 };
	dlend_vdev_update(v);
}

/*
 * If the link is lost, the lender cannot say that it has fenced the device: so unmap what the
 * device reaches here.  Does not wait.
 */
static void dlend_ended_revoke(struct dlend_lease *lease)
{
	if (!dlend_lease_lost(lease))
		return;
	dlend_memory_link_down(dlend_vdev_memory(lease));
	dlend_p2p_close_slots(&lease->addr, lease->epoch);
}

void dlend_ended_lose(struct dlend_vdev *v, struct dlend_lease *only, const char *why)
{
	struct dlend_lease *before __free(dlend_lease_put) = NULL;
	struct dlend_lease *lease __free(dlend_lease_put) = NULL;

	mutex_lock(&v->lock);
	if (!v->claim.lease || (only && v->claim.lease != only)) {
		mutex_unlock(&v->lock);
		return;
	}
	/* The vdev's reference is this function's from here on. */
	lease = v->claim.lease;
	before = dlend_ended_keep(v);
	v->lost = true;
	memset(&v->actual, 0, sizeof(v->actual));
	/* An error that has ended the lease stays the reason.  A hand-over is no failure. */
	if (v->errored || v->move.given)
		dlend_vdev_update(v);
	else
		dlend_condition_fail(v, dlend_stop_on_loss, "%s", why);
	/* Queue the return before the worker can ask for the next lease (dlend_claim_pending()). */
	dlend_lease_return(dlend_lease_get(lease));
	/* Under the lock, as the next lease may set up interrupts of its own afterwards. */
	dlend_irqs_live(v, DLEND_IRQ_NONE, false);
	mutex_unlock(&v->lock);
	/*
	 * If the link is lost, unmap in the aperture before this returns.  If the lender has taken
	 * its device back, it has fenced the device: then the return of the lease unmaps, and the
	 * lender's reply frees the slots.
	 */
	dlend_ended_revoke(lease);
	guard(mutex)(&v->lock);
	/* If the worker has got the next lease by now, its steps set now.dma. */
	if (v->claim.lease)
		return;
	v->now.dma = false;
	dlend_vdev_update(v);
}

void dlend_ended_link_down(struct dlend_claim *claim)
{
	struct dlend_vdev *v = claim_to_vdev(claim);
	struct dlend_lease *ended __free(dlend_lease_put) = NULL;

	dlend_ended_lose(v, NULL, "the link to the lender was lost");
	/* A lease that had ended before, or is being closed, may still have mappings. */
	ended = dlend_ended_get(v);
	if (ended)
		dlend_ended_revoke(ended);
}
