// SPDX-License-Identifier: GPL-2.0
/*
 * The state of a borrowed device.
 *
 * Desired: vdev->want, what the guest and the VMM asked for.  Actual: vdev->have, what the lender
 * was told, with the lease, a failure and so on.  A function that changes one of these calls
 * dlend_vdev_update() before it lets go of vdev->lock.  That works out once what follows (plan.c),
 * as vdev->is.  It sets the gate in front of the BARs, tells the VM's other devices, wakes threads
 * that wait for the device, and starts the worker if there is a step to do (vdev.c).  The worker
 * calls it when it looks for its next step, right after it has noted what the lender has replied.
 *
 * A device that has failed reads 0xff until the guest or its VMM resets it.
 *
 * A lease can end without its vdev: the link is lost, or the lender takes the device back.  Pages
 * may still be pinned under it then, and a VMM may unmap them at any moment.  So the vdev keeps it
 * as vdev->ended until nothing is pinned any more.
 */
#include <linux/moduleparam.h>
#include <dlend/link.h>
#include "vdev.h"

void dlend_vdev_describe(struct dlend_vdev *v, struct dlend_p2p_dev *dev)
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

/* Lease, Bus Master Enable or BARs may have changed. [locked] */
static void dlend_vdev_publish(struct dlend_vdev *v)
{
	const struct dlend_lease *lease = v->now.failed ? NULL : v->claim.lease;
	struct dlend_p2p_dev dev;

	dlend_vdev_describe(v, &dev);
	if (lease) {
		dev.epoch = lease->epoch;
		/* As long as it may transfer: what it reaches comes before that, and goes later. */
		dev.source = v->now.dma;
		/*
		 * While a device is being reset, its lender lets no peer reach it; nor by a lease
		 * that is not in force yet.
		 */
		dev.target = dlend_cfg_mse(&v->cfg) && v->have.reset == v->want.reset &&
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
	v->now.leased = v->claim.lease;
	v->now.touched = test_bit(0, &v->touched);
	v->now.unmapping = v->unmapping;
	v->now.borrowing = v->claim.borrowing;
	is = dlend_plan(v->now, &v->want, &v->have);
	gate = is.gate;
	/* Nothing answers while memory decoding is off, nor before the VM runs here, nor after. */
	if (!v->now.open || !dlend_cfg_mse(&v->cfg) || (v->now.coming && !v->want.taken))
		gate = DLEND_GATE_DEAD;
	leads = gate == DLEND_GATE_OPEN || gate == DLEND_GATE_READ;
	if (v->gate != gate)
		dlend_bar_set_gate(v, gate, leads ? v->claim.lease->bar : NULL);
	if (gate == DLEND_GATE_OPEN && v->have.bme && v->bme_at) {
		v->stat.bme_to_open_us = ktime_us_delta(ktime_get(), v->bme_at);
		v->bme_at = 0;
	}
	if (is.gate != v->is.gate)
		v->said[0] = 0;
	if (is.behind && !v->is.behind)
		v->behind_at = ktime_get();
	v->is = is;
	wake_up_all(&v->idle_wq);
	dlend_vdev_publish(v);
	if (is.next != DLEND_STEP_NONE)
		dlend_vdev_kick(v);
}

void dlend_vdev_apply_cfg(struct dlend_vdev *v)
{
	lockdep_assert_held(&v->lock);
	v->want.readrq = dlend_cfg_readrq(&v->cfg);
	dlend_irqs_disable_intx(v, dlend_cfg_intx_disabled(&v->cfg));
}

/* It has failed, or gets another chance */

/*
 * QEMU stops the VM when the error eventfd is signalled.  But a guest can often go on without its
 * device, as after a surprise removal: so it reads 0xff instead.
 */
bool dlend_stop_on_loss;
module_param_named(stop_on_loss, dlend_stop_on_loss, bool, 0644);
MODULE_PARM_DESC(stop_on_loss, "also tell the VMM (error eventfd: QEMU stops the VM) when a link is lost or a lease ends");

/* The device is of no use to the guest from now on. [locked] */
void dlend_condition_fail(struct dlend_vdev *v, bool tell, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(v->reason, sizeof(v->reason), fmt, args);
	va_end(args);
	v->now.failed = true;
	dlend_vdev_update(v);
	/* A guest may try again as often as it likes. */
	dev_err_ratelimited(dlend_vdev_dev(v),
			    "borrowed device unusable: %s; the guest reads 0xff from it\n",
			    v->reason);
	if (tell)
		dlend_irqs_signal(v, VFIO_PCI_ERR_IRQ_INDEX);
	dlend_condition_say(v);
}

/* A failed device gets another chance. [locked] */
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
	else if (v->want.quiet)
		snprintf(buf, size, "stopped, as its VM is: %s",
			 v->move.given ? "handed over" : v->have.quiet ? "may move" : "not yet");
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

void dlend_condition_say_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, say);
	char text[DLEND_REASON_LEN + DLEND_CONDITION_WORDS];
	bool news;

	mutex_lock(&v->lock);
	dlend_condition_text(v, text, sizeof(text));
	text[strcspn(text, " ,:")] = 0;
	news = strcmp(v->said, text);
	strscpy(v->said, text);
	mutex_unlock(&v->lock);
	if (news)
		dlend_uevent_state(dlend_vdev_dev(v), text);
}

/*
 * Not by vdev's worker: that may be in the way to a disk to which memory is written out, and events
 * need memory.
 */
void dlend_condition_say(struct dlend_vdev *v)
{
	schedule_delayed_work(&v->say, msecs_to_jiffies(DLEND_UEVENT_DELAY_MS));
}

/* The end of a lease */

/* A reference to the lease that ended without us, or NULL. */
static struct dlend_lease *dlend_ended_get(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return dlend_lease_get(v->ended);
}

/* A reference to the lease that may have pins, or NULL. */
struct dlend_lease *dlend_ended_with_pins(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return dlend_lease_get(v->claim.lease ?: v->ended);
}

/*
 * The lease in use is not in use any more; it is kept as vdev->ended.  Its interrupts come to this
 * host's handlers when this returns.
 * Return: the one that was kept before, or NULL; to be put without the lock. [locked]
 */
static struct dlend_lease *dlend_ended_keep(struct dlend_vdev *v)
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
 * Another thread of the VMM may unmap memory at that time, and type1 ends in a BUG if the pins stay
 * there: dma_unmap has to find the lease until nothing of it is pinned.
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

	v->want.vm++;
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
	/* Answers to what was asked for mean nothing any more. */
	v->want = (struct dlend_wish){ .vm = v->want.vm + 1 };
	dlend_vdev_update(v);
}

/* If the link is gone, the lender cannot say that it has fenced the device.  Does not wait. */
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
	memset(&v->have, 0, sizeof(v->have));
	/* If an error ended the lease, keep the words about the error: people need them. */
	if (v->errored || v->move.given)
		dlend_vdev_update(v);
	else
		dlend_condition_fail(v, dlend_stop_on_loss, "%s", why);
	/* Queue the return before anybody can ask for the next lease (dlend_claim_pending()). */
	dlend_lease_return(dlend_lease_get(lease));
	/* Do this under the lock: later the next lease may have set up interrupts of its own. */
	dlend_irqs_live(v, DLEND_IRQ_NONE, false);
	mutex_unlock(&v->lock);
	/*
	 * If the link is lost, unmap the aperture before this returns.  If the lender took its
	 * device back, it has fenced the device: the return drops the windows, and the lender's
	 * answer makes their slots free again.
	 */
	dlend_ended_cut(lease);
	guard(mutex)(&v->lock);
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
	/* A lease that had ended before, or is being closed: its windows may still stand. */
	ended = dlend_ended_get(v);
	if (ended)
		dlend_ended_cut(ended);
}
