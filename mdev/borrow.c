// SPDX-License-Identifier: GPL-2.0
/*
 * Borrowing: from "the guest wants the device" to "the guest has it", and back.
 *
 * What the guest and the VMM ask for is written down at once (vdev->want); one worker, on the
 * offer's ordered workqueue, asks the lender for it step by step and notes what was answered
 * (vdev->have).  The gate is open exactly while the two are equal, so that no access of the
 * guest meets a half-made device, and callers under the VMM's big lock need not wait:
 *
 *   idle --touch, or Bus Master Enable--> borrowing --grant--> building --windows stand--> running
 *
 * With Bus Master Enable off a leased device is "running" at once (the driver sets up registers);
 * dma_unmap, Bus Master Enable, an interrupt mode or a reset make it "building" again.  "failed"
 * shows a device that reads 0xff; a reset, or the next edge of Bus Master Enable, tries again.
 *
 * What stops the device does not return before it has stopped: a VMM that resets a VM, or a guest
 * that turns Bus Master Enable off, uses memory for something else at once.  So a build gives way
 * to a reset, Bus Master Enable off and interrupts (dlend_plan_urgent()), and the callers of these
 * wait for the lender's word, bounded (dlend_borrow_stopped()); if it does not come, the windows to
 * this node's memory are closed here.
 *
 * The physical Bus Master Enable is off until windows have stood once, and is not turned off while
 * they are repaired after a dma_unmap; it goes off when the repair fails.  The gate keeps the guest
 * from starting anything new.  What the device does by itself meanwhile meets its own guest's page
 * or none, never another: a slot is not used for anything else before the lender has unmapped it.
 * That is what a device sees under vfio-pci, too, when a VMM maps memory anew.  Turning the bit off
 * would come too late (a dma_unmap waits for no peer) and stop a device in the midst of transfers
 * to memory that did not change, which many take for a fatal error.
 *
 * Must not know regions, eventfds nor messages: those are bar.c, irq.c and lease.c.
 */
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/pci_regs.h>
#include <linux/sched/signal.h>
#include "vdev.h"
#include "trace.h"

static unsigned int rescan_s = 30;
module_param(rescan_s, uint, 0644);
MODULE_PARM_DESC(rescan_s, "seconds between looks for memory anywhere in a running guest; 0: never");

/*
 * RAM that comes with a memory slot is told by KVM (memslots.c).  What virtio-mem plugs into one
 * that is there, nobody tells.
 */
static unsigned int look_ms = 4;
module_param(look_ms, uint, 0644);
MODULE_PARM_DESC(look_ms, "milliseconds between looks for memory plugged into holes of a running guest's memory slots (virtio-mem); 0: never");

static unsigned int settle_s = 60;
module_param(settle_s, uint, 0644);
MODULE_PARM_DESC(settle_s, "seconds without progress, for a guest's memory layout to stop changing, before giving up");

/*
 * QEMU answers the error eventfd by stopping the VM.  A guest whose device was pulled out can
 * often go on without it, as after a surprise removal, so it reads 0xff instead.
 */
static bool stop_on_loss;
module_param(stop_on_loss, bool, 0644);
MODULE_PARM_DESC(stop_on_loss, "also tell the VMM (error eventfd: QEMU stops the VM) when a link is lost or a lease ends");

/*
 * How long a caller under the VMM's big lock waits for the lender: for what stops the device by
 * configuration space as long as vfio-pci takes for a function level reset; for VFIO's own reset,
 * and for interrupts, more.
 */
#define DLEND_STOP_MS		100
#define DLEND_RESET_STOP_MS	1000
#define DLEND_IRQ_WAIT_MS	1000
#define DLEND_STATUS_MS		100

#define DLEND_BACKOFF_MIN_MS	5u
#define DLEND_BACKOFF_MAX_MS	500u

/*
 * First look for what a build may have missed, because it was away for just that moment and
 * nothing of it was pinned; each next one four times later, up to rescan_s.
 */
#define DLEND_RESCAN_MIN_MS	100

static void dlend_borrow_kick(struct dlend_vdev *v)
{
	queue_work(v->offer->wq, &v->work);
}

/* [locked] */
static struct dlend_situation dlend_borrow_now(const struct dlend_vdev *v)
{
	return (struct dlend_situation){
		.open = v->open,
		.failed = v->failed,
		.leased = v->lease,
		.touched = test_bit(0, &v->touched),
		.unmapping = v->unmapping,
		.prepin = v->prepinned,
	};
}

/* What is to be done next? [locked] */
static enum dlend_step dlend_borrow_step(const struct dlend_vdev *v)
{
	return dlend_plan_step(dlend_borrow_now(v), &v->want, &v->have);
}

/* [locked] */
static bool dlend_borrow_settled(const struct dlend_vdev *v)
{
	return dlend_plan_settled(dlend_borrow_now(v), &v->want, &v->have);
}

/* Are vectors being set up, or will they be when the device is borrowed? [locked] */
static bool dlend_borrow_irq_busy(const struct dlend_vdev *v)
{
	if (v->failed || (v->have.irq_mode == v->want.irq_mode &&
			  v->have.irq_count == v->want.irq_count))
		return false;
	return v->lease || v->borrowing || dlend_borrow_step(v) == DLEND_STEP_BORROW;
}

/* What others look at without the lock, whenever something has changed. [locked] */
static void dlend_borrow_note(struct dlend_vdev *v)
{
	WRITE_ONCE(v->urgent, dlend_plan_urgent(dlend_borrow_now(v), &v->want, &v->have));
	/* Or it has stopped and started again. */
	WRITE_ONCE(v->quiet, !v->dma || (v->have.bme && !v->urgent));
	WRITE_ONCE(v->irq_busy, dlend_borrow_irq_busy(v));
	wake_up_all(&v->idle_wq);
}

static void dlend_borrow_gate(struct dlend_vdev *v)
{
	enum dlend_gate was = v->gate;

	lockdep_assert_held(&v->lock);
	dlend_borrow_note(v);
	if (v->failed)
		dlend_bar_gate(v, DLEND_GATE_DEAD, NULL);
	else if (dlend_borrow_settled(v))
		dlend_bar_gate(v, DLEND_GATE_OPEN, v->lease->bar);
	else if (dlend_plan_readable(dlend_borrow_now(v), &v->want, &v->have))
		dlend_bar_gate(v, DLEND_GATE_READ, v->lease->bar);
	else
		dlend_bar_gate(v, DLEND_GATE_SHUT, NULL);
	if (v->gate == DLEND_GATE_OPEN && was != DLEND_GATE_OPEN && v->have.bme && v->bme_at) {
		v->stat.bme_to_open_us = ktime_us_delta(ktime_get(), v->bme_at);
		if (!v->stat.bme_to_open_first_us)
			v->stat.bme_to_open_first_us = v->stat.bme_to_open_us;
		v->bme_at = 0;
	}
	dlend_p2p_publish(v);
}

/* The device is of no use to the guest from now on. [locked] */
static __printf(3, 4) void dlend_borrow_fail(struct dlend_vdev *v, bool tell, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(v->reason, sizeof(v->reason), fmt, args);
	va_end(args);
	v->failed = true;
	dlend_borrow_gate(v);
	dev_err(dlend_vdev_dev(v), "borrowed device unusable: %s; the guest reads 0xff from it\n",
		v->reason);
	if (tell)
		dlend_irq_signal(v, VFIO_PCI_ERR_IRQ_INDEX);
}

/* A failed device gets another chance. [locked] */
static void dlend_borrow_retry(struct dlend_vdev *v)
{
	v->failed = false;
	v->errored = false;
	v->lost = false;
	v->reason[0] = 0;
	v->lacking[0] = 0;
	v->backoff_ms = 0;
}

void dlend_borrow_state(struct dlend_vdev *v, char *buf, size_t size)
{
	if (v->failed)
		snprintf(buf, size, "failed: %s", v->reason);
	else if (!v->lease)
		snprintf(buf, size, "%s", v->borrowing ? "borrowing" : "idle");
	else if (!dlend_borrow_settled(v))
		snprintf(buf, size, "building");
	else if (v->lacking[0])
		snprintf(buf, size, "running, without memory added since: %s", v->lacking);
	else
		snprintf(buf, size, "running");
}

/* Once more, a little later. Return: no further than @progress for settle_s? [locked] */
static bool dlend_retry_overdue(struct dlend_vdev *v, u64 progress)
{
	if (!v->backoff_ms)
		v->patience = (struct dlend_patience){};
	v->backoff_ms = clamp(v->backoff_ms * 2, DLEND_BACKOFF_MIN_MS, DLEND_BACKOFF_MAX_MS);
	return dlend_plan_overdue(&v->patience, progress, ktime_to_ms(ktime_get()),
				  settle_s * (s64)MSEC_PER_SEC);
}

/* Wait a little, unless the VM goes away. */
static void dlend_retry_wait(struct dlend_vdev *v)
{
	/* A reset does not wait: the device may still write to what is another's memory by now. */
	wait_event_timeout(v->idle_wq, !READ_ONCE(v->open) || READ_ONCE(v->urgent),
			   msecs_to_jiffies(READ_ONCE(v->backoff_ms)));
}

/* [locked] */
static void dlend_rescan_later(struct dlend_vdev *v, unsigned int ms)
{
	v->rescan_ms = min_t(u64, ms, (u64)rescan_s * MSEC_PER_SEC);
	if (v->open && rescan_s)
		mod_delayed_work(v->offer->wq, &v->slow_work, msecs_to_jiffies(v->rescan_ms));
}

/* [locked] */
static void dlend_look_later(struct dlend_vdev *v)
{
	unsigned int ms = READ_ONCE(look_ms);

	if (v->open && ms)
		queue_delayed_work(v->offer->wq, &v->look_work, msecs_to_jiffies(ms));
}

/* RAM has come, or is coming: no access of the guest's until the device can reach it. [locked] */
static void dlend_borrow_grow(struct dlend_vdev *v)
{
	if (!v->open || !v->lease || v->failed)
		return;
	v->want.grow++;
	v->stat.grows++;
	dlend_borrow_gate(v);
	dlend_borrow_kick(v);
}

void dlend_borrow_grown(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	if (v->want.bme)
		dlend_borrow_grow(v);
}

/* A memory slot was added: called before the guest can know. */
static void dlend_borrow_added(void *ctx, const struct dlend_ranges *added)
{
	struct dlend_vdev *v = ctx;
	struct dlend_lease *lease = dlend_vdev_lease(v);

	if (!lease)
		return;
	dlend_memory_added(lease->mem, added);
	mutex_lock(&v->lock);
	dlend_borrow_grow(v);
	mutex_unlock(&v->lock);
	dlend_lease_put(lease);
}

/* Before the first build: what comes later is told. */
static void dlend_borrow_follow(struct dlend_vdev *v)
{
	struct dlend_follower *f;

	guard(mutex)(&v->follow_lock);
	if (!READ_ONCE(v->open) || v->follower || !v->vfio.kvm)
		return;
	f = dlend_follower_start(v->vfio.kvm, dlend_borrow_added, v);
	if (!IS_ERR(f))
		v->follower = f;
	else
		dev_warn(dlend_vdev_dev(v), "its VM's memory slots cannot be followed (%pe): RAM that is plugged in is found later, within %u s\n",
			 f, rescan_s);
}

/*
 * The steps.  Each is called without locks, notes what it did under the lock, and only if the
 * lease is still the one that it worked on: it may have ended meanwhile.
 */

static void dlend_borrow_wait(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	if (dlend_retry_overdue(v, 0) && v->open)
		dlend_borrow_fail(v, true, "the lender did not make the device ready within %u s",
				  settle_s);
	mutex_unlock(&v->lock);
	dlend_retry_wait(v);
}

static void dlend_step_borrow(struct dlend_vdev *v)
{
	char why[DLEND_REASON_LEN] = "";
	struct dlend_lease *lease;
	u32 reset, opens;

	mutex_lock(&v->lock);
	v->borrowing = true;
	reset = v->want.reset;
	opens = v->opens;
	mutex_unlock(&v->lock);
	lease = dlend_lease_borrow(v, why);
	mutex_lock(&v->lock);
	v->borrowing = false;
	trace_dlend_borrow(dlend_vdev_dev(v), IS_ERR(lease) ? 0 : lease->epoch,
			   PTR_ERR_OR_ZERO(lease));
	if (IS_ERR(lease)) {
		if (PTR_ERR(lease) != -EAGAIN && v->open && v->opens == opens)
			dlend_borrow_fail(v, true, "%s", why);
		goto unlock;
	}
	v->stat.borrows++;
	v->backoff_ms = 0;
	/* Closed meanwhile; whoever has opened it again has not touched it. */
	if (!v->open || v->opens != opens) {
		dlend_lease_return(lease);
		goto unlock;
	}
	v->lease = lease;
	v->have.bme = false;
	v->have.reset = reset;
	v->have.irq_mode = DLEND_IRQ_NONE;
	v->have.irq_count = 0;
	v->have.readrq = v->readrq;
	v->have.build = v->want.build - 1;
	/* The worker opens the gate, once it has seen that the lease did not end meanwhile. */
unlock:
	mutex_unlock(&v->lock);
	/* An answer that came too late may have been a grant. */
	if (lease == ERR_PTR(-ETIMEDOUT))
		dlend_offer_return_stray(v->offer);
	/* Its last user has returned it, and it is still being reset. */
	if (lease == ERR_PTR(-EAGAIN))
		dlend_borrow_wait(v);
}

/* Lease to work on, with a reference, or NULL if none. */
static struct dlend_lease *dlend_borrow_lease(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return v->open && v->lease ? dlend_lease_get(v->lease) : NULL;
}

/* A request failed: link loss is told by link_down(), everything else is the lender's word. */
static void dlend_step_failed(struct dlend_vdev *v, struct dlend_lease *lease, const char *what,
			      int ret)
{
	if (v->lease == lease && !v->failed)
		dlend_borrow_fail(v, ret != -ENOTCONN || stop_on_loss, "%s failed on node %u (%pe)",
				  what, lease->addr.lender, ERR_PTR(ret));
}

/* The device transfers nothing to this node any more. [locked] */
static void dlend_borrow_quiet(struct dlend_vdev *v)
{
	v->dma = false;
	dlend_borrow_note(v);
}

static void dlend_step_bus_master(struct dlend_vdev *v, struct dlend_lease *lease, bool on)
{
	int ret;

	/* Off counts from the request on, on from the reply on: in between the gate stays shut. */
	mutex_lock(&v->lock);
	if (on && (v->lease != lease || dlend_borrow_step(v) != DLEND_STEP_BME_ON)) {
		/* A reset, or Bus Master off, that has come since would take it for stopped. */
		mutex_unlock(&v->lock);
		return;
	}
	if (on)
		v->dma = true;
	else
		v->have.bme = false;
	dlend_borrow_note(v);
	mutex_unlock(&v->lock);
	ret = dlend_lease_bus_master(lease, on);
	trace_dlend_vdev_bus_master(dlend_vdev_dev(v), lease->epoch, on, ret);
	guard(mutex)(&v->lock);
	if (v->lease != lease)
		return;
	if (!on && !ret)
		dlend_borrow_quiet(v);
	/* A device that cannot be told is fenced by the lender; never ask in a loop. */
	v->have.bme = on && !ret;
	dlend_borrow_note(v);
	if (v->have.bme)
		dlend_look_later(v);
	if (ret)
		dlend_step_failed(v, lease, on ? "Bus Master Enable" : "Bus Master Disable", ret);
}

static void dlend_step_reset(struct dlend_vdev *v, struct dlend_lease *lease)
{
	bool dma;
	u32 reset;
	int ret;

	mutex_lock(&v->lock);
	reset = v->want.reset;
	dma = v->dma;
	mutex_unlock(&v->lock);
	/* First what is quick: who waits for the end of transfers need not wait for a reset. */
	if (dma)
		dlend_step_bus_master(v, lease, false);
	ret = dlend_lease_reset(lease);
	trace_dlend_vdev_reset(dlend_vdev_dev(v), lease->epoch, ret);
	dlend_irq_live(v, DLEND_IRQ_NONE, false);
	guard(mutex)(&v->lock);
	if (v->lease != lease)
		return;
	v->stat.resets++;
	v->have.reset = reset;
	/* If it was not done nobody knows: the failure below turns it off. */
	v->have.bme = ret && v->have.bme;
	v->have.irq_mode = DLEND_IRQ_NONE;
	v->have.irq_count = 0;
	v->have.readrq = v->readrq;
	/* Windows stay: the device has Bus Master Enable off now, and the guest its memory. */
	if (!ret)
		dlend_borrow_quiet(v);
	if (ret)
		dlend_step_failed(v, lease, "reset", ret);
}

/*
 * @got vectors are set up, of those that were wanted; 0: so many are not to be had.  First the
 * spare ones are given up, then half of what is left each time: what is possible then is for
 * whoever has asked to know (dlend_borrow_irq_end()).  Nobody asks if the device was set up before
 * it was borrowed: it would lose interrupts, and is of no use. [locked]
 */
static void dlend_irq_fewer(struct dlend_vdev *v, struct dlend_lease *lease, u32 got)
{
	u32 count = v->want.irq_count;

	if (got >= v->irq_need || !count)
		return;
	if (!got && count > 1) {
		v->want.irq_count = v->irq_need < count ? v->irq_need :
							  rounddown_pow_of_two(count - 1);
		return;
	}
	if (!got) {
		v->want.irq_mode = DLEND_IRQ_NONE;
		v->want.irq_count = 0;
	}
	if (v->irq_waiters)
		v->irq_short = got;
	else
		dlend_borrow_fail(v, false, "node %u has %u of the guest's %u interrupt vectors",
				  lease->addr.lender, got, v->irq_need);
}

static void dlend_step_irq(struct dlend_vdev *v, struct dlend_lease *lease)
{
	enum dlend_irq_mode mode;
	u32 count;
	bool resized;
	int ret;

	mutex_lock(&v->lock);
	mode = v->want.irq_mode;
	count = v->want.irq_count;
	resized = v->have.irq_mode == mode || v->irq_gap;
	/*
	 * Until the reply nobody knows what the lender delivers. A guest that changes its mind
	 * back meanwhile must not find that all is as it wants: an edge in the gap would be lost.
	 */
	v->have.irq_mode = DLEND_IRQ_UNKNOWN;
	mutex_unlock(&v->lock);
	/* Before the lender starts: the first interrupt may be faster than the reply. */
	dlend_irq_live(v, mode, false);
	ret = dlend_lease_irq_setup(lease, mode, count);
	trace_dlend_vdev_irq_setup(dlend_vdev_dev(v), lease->epoch, mode, count, ret);
	if (resized)
		dlend_irq_live(v, mode, true);
	guard(mutex)(&v->lock);
	if (v->lease != lease)
		return;
	v->have.irq_mode = ret ? DLEND_IRQ_NONE : mode;
	v->have.irq_count = ret ? 0 : count;
	/* Those that were set up are not any more: what is lost meanwhile is made up for then. */
	v->irq_gap = resized && ret;
	if (ret && ret != -ENOSPC)
		dlend_step_failed(v, lease, "interrupt set-up", ret);
	else if (v->want.irq_mode == mode && v->want.irq_count == count)
		dlend_irq_fewer(v, lease, ret ? 0 : count);
}

/* Only how fast it is depends on that: a lender that does not do it is no reason to fail. */
static void dlend_step_readrq(struct dlend_vdev *v, struct dlend_lease *lease)
{
	u32 readrq, at;

	mutex_lock(&v->lock);
	readrq = v->want.readrq;
	at = v->cfg.pcie_pos + PCI_EXP_DEVCTL;
	mutex_unlock(&v->lock);
	dlend_lease_readrq(lease, at, readrq);
	guard(mutex)(&v->lock);
	if (v->lease == lease)
		v->have.readrq = readrq;
}

/* New memory is out of reach, and the device works on with what it had. [locked] */
static void dlend_build_lacking(struct dlend_vdev *v, const char *why)
{
	if (!strcmp(v->lacking, why))
		return;
	strscpy(v->lacking, why, sizeof(v->lacking));
	dev_warn(dlend_vdev_dev(v), "the device does not reach memory that the guest was given since; what it had, it has: %s\n",
		 why);
}

static void dlend_build_failed(struct dlend_vdev *v, struct dlend_lease *lease, int ret,
			       const char *why)
{
	if (!v->open)
		return;
	if (ret == -ENOTCONN)
		dlend_step_failed(v, lease, "DMA mapping", ret);
	else if (ret == -EAGAIN)
		dlend_borrow_fail(v, true, "%s within %u s", why, settle_s);
	else
		dlend_borrow_fail(v, true, "no DMA windows (%pe): %s", ERR_PTR(ret), why);
}

/* A build has ended with @ret; @wish: of which it was. Return: to be tried again. [locked] */
static bool dlend_build_note(struct dlend_vdev *v, struct dlend_lease *lease,
			     const struct dlend_wish *wish, int ret, const char *why)
{
	bool overdue = ret == -EAGAIN && dlend_retry_overdue(v, dlend_memory_pinned(lease->mem));

	switch (dlend_plan_verdict(&v->want, &v->have, ret, overdue)) {
	case DLEND_VERDICT_STANDS:
		if (v->have.build != wish->build)
			dlend_rescan_later(v, DLEND_RESCAN_MIN_MS);
		v->have.build = wish->build;
		v->have.rescan = wish->rescan;
		v->have.grow = wish->grow;
		v->lacking[0] = 0;
		dlend_look_later(v);
		break;
	case DLEND_VERDICT_AGAIN:
		return true;
	case DLEND_VERDICT_KEEP:
		v->have.rescan = wish->rescan;
		v->have.grow = wish->grow;
		dlend_build_lacking(v, why);
		break;
	case DLEND_VERDICT_FAIL:
		dlend_build_failed(v, lease, ret, why);
		break;
	}
	v->backoff_ms = 0;
	return false;
}

static void dlend_step_build(struct dlend_vdev *v, struct dlend_lease *lease)
{
	char why[DLEND_REASON_LEN] = "the guest's memory layout did not settle";
	struct dlend_wish wish;
	bool again = false;
	int ret;

	dlend_borrow_follow(v);
	mutex_lock(&v->lock);
	wish = v->want;
	/* If it is closed a moment later, the memory pins nothing any more. */
	ret = v->open && v->lease == lease ? 0 : -EINTR;
	mutex_unlock(&v->lock);
	if (ret)
		return;
	ret = dlend_memory_build(lease->mem);
	if (ret && ret != -EAGAIN)
		dlend_memory_reason(lease->mem, why, sizeof(why));
	mutex_lock(&v->lock);
	v->stat.builds++;
	if (ret == -EAGAIN)
		v->stat.build_retries++;
	/* One that has given way is next again after that, and no sign of a layout in motion. */
	if (v->lease == lease && !(ret == -EAGAIN && v->urgent))
		again = dlend_build_note(v, lease, &wish, ret, why);
	mutex_unlock(&v->lock);
	if (again)
		dlend_retry_wait(v);
}

static void dlend_borrow_do(struct dlend_vdev *v, enum dlend_step step, struct dlend_lease *lease)
{
	switch (step) {
	case DLEND_STEP_RESET:
		dlend_step_reset(v, lease);
		break;
	case DLEND_STEP_BME_OFF:
		dlend_step_bus_master(v, lease, false);
		break;
	case DLEND_STEP_IRQ:
		dlend_step_irq(v, lease);
		break;
	case DLEND_STEP_READRQ:
		dlend_step_readrq(v, lease);
		break;
	case DLEND_STEP_BUILD:
		dlend_step_build(v, lease);
		break;
	case DLEND_STEP_BME_ON:
		dlend_step_bus_master(v, lease, true);
		break;
	default:
		break;
	}
}

static void dlend_borrow_lose(struct dlend_vdev *v, struct dlend_lease *only, const char *why);

/*
 * The lease before is still to be returned, by a work item behind us in the queue, which is where
 * it is if the device was closed and opened again during one of our steps.  Until then the lender
 * takes this node for the holder, its pages may be pinned, and dma_unmap can ask one lease only.
 */
static bool dlend_borrow_returning(const struct dlend_vdev *v)
{
	return atomic_read(&v->offer->leases);
}

static void dlend_borrow_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(work, struct dlend_vdev, work);
	struct dlend_lease *lease;
	enum dlend_step step;

	for (;;) {
		mutex_lock(&v->lock);
		dlend_borrow_gate(v);
		step = dlend_borrow_step(v);
		if (step == DLEND_STEP_BORROW && dlend_borrow_returning(v)) {
			dlend_borrow_kick(v);
			step = DLEND_STEP_NONE;
		}
		mutex_unlock(&v->lock);
		if (step == DLEND_STEP_NONE)
			return;
		if (step == DLEND_STEP_BORROW) {
			dlend_step_borrow(v);
			lease = dlend_borrow_lease(v);
			if (!lease)
				continue;
			/* The end of the lease may have been told before the grant was noted. */
			if (dlend_lease_lost(lease) ||
			    !dlend_offer_lease_live(v->offer, lease->epoch))
				dlend_borrow_lose(v, lease, "the lease ended at once");
			dlend_lease_put(lease);
			continue;
		}
		lease = dlend_borrow_lease(v);
		if (!lease)
			return;
		dlend_borrow_do(v, step, lease);
		dlend_lease_put(lease);
	}
}

/* Guests may be given memory while they run, and nobody tells (docs/architecture.md). */
static void dlend_borrow_slow_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, slow_work);

	dlend_borrow_rescan(v);
	guard(mutex)(&v->lock);
	dlend_rescan_later(v, min(v->rescan_ms, UINT_MAX / 4) * 4);
}

/* What could not be added is not to be found again. [locked] */
static bool dlend_borrow_looks(const struct dlend_vdev *v)
{
	return v->want.bme && v->have.bme && !v->failed && !v->lacking[0];
}

/* A build that is due will look by itself. */
static bool dlend_borrow_looking(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return dlend_borrow_looks(v) && dlend_borrow_settled(v);
}

static void dlend_borrow_look_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, look_work);
	struct dlend_lease *lease = dlend_borrow_lease(v);
	bool looking, found = false;

	if (!lease)
		return;
	looking = dlend_borrow_looking(v);
	if (looking)
		found = dlend_memory_look(lease->mem);
	mutex_lock(&v->lock);
	if (found && v->lease == lease)
		dlend_borrow_grow(v);
	/* Not only if it has looked: interrupts that were being set up are no reason to stop. */
	if (v->lease == lease && dlend_borrow_looks(v))
		dlend_look_later(v);
	mutex_unlock(&v->lock);
	dlend_lease_put(lease);
}

/* From here on: what happens to a vdev from outside the worker. */

void dlend_borrow_init(struct dlend_vdev *v)
{
	INIT_WORK(&v->work, dlend_borrow_work);
	INIT_DELAYED_WORK(&v->slow_work, dlend_borrow_slow_work);
	INIT_DELAYED_WORK(&v->look_work, dlend_borrow_look_work);
}

void dlend_borrow_open(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	memset(&v->want, 0, sizeof(v->want));
	memset(&v->have, 0, sizeof(v->have));
	v->readrq = dlend_cfg_readrq(&v->cfg);
	v->want.readrq = v->readrq;
	v->have.readrq = v->readrq;
	v->irq_short = -1;
	v->dma = false;
	v->bme_at = 0;
	v->memlock = rlimit(RLIMIT_MEMLOCK);	/* the VMM's: for messages */
	v->vmm = current->tgid;
	clear_bit(0, &v->touched);
	dlend_borrow_retry(v);
	v->open = true;
	v->had_space = false;
	v->opens++;
	v->prepinned = v->prepin == DLEND_PREPIN_OPEN;
	dlend_borrow_gate(v);
	dlend_bar_set_mse(v, dlend_cfg_mse(&v->cfg));
	if (v->prepinned)
		dlend_borrow_kick(v);
	mutex_unlock(&v->lock);
}

/* A reference to the lease that ended without us, or NULL. */
static struct dlend_lease *ended_lease(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return v->ended ? dlend_lease_get(v->ended) : NULL;
}

/*
 * Pages must be unpinned before vfio forgets the container, also those of a build just begun.
 * Another thread of the VMM may unmap memory meanwhile, and type1 ends in a BUG if the pins stay
 * there: dma_unmap has to find the lease until nothing of it is pinned.
 */
static void dlend_borrow_drop_ended(struct dlend_vdev *v)
{
	struct dlend_lease *ended = ended_lease(v);

	if (!ended)
		return;
	dlend_memory_close(ended->mem);
	dlend_borrow_forget(v, ended);
	dlend_lease_put(ended);
}

void dlend_borrow_forget(struct dlend_vdev *v, struct dlend_lease *lease)
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

/* The VM stays until the device is closed, and no longer. */
static void dlend_borrow_unfollow(struct dlend_vdev *v)
{
	guard(mutex)(&v->follow_lock);
	dlend_follower_stop(v->follower);
	v->follower = NULL;
}

static bool dlend_borrow_is_quiet(const struct dlend_vdev *v)
{
	return READ_ONCE(v->quiet);
}

/* Nobody is left who could say that it has stopped. */
static bool dlend_borrow_is_mute(const struct dlend_vdev *v)
{
	return !READ_ONCE(v->lease) || READ_ONCE(v->failed);
}

/*
 * A VMM that dies leaves the device in the middle of transfers.  Its memory is out of reach at the
 * end of the close, whatever the lender says; but a device that was stopped before does not run
 * into this host's IOMMU, which logs that, and answers the NTB with errors.
 */
static void dlend_borrow_hush(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	v->want.bme = false;
	dlend_borrow_gate(v);
	dlend_borrow_kick(v);
	mutex_unlock(&v->lock);
	wait_event_timeout(v->idle_wq, dlend_borrow_is_quiet(v) || dlend_borrow_is_mute(v),
			   msecs_to_jiffies(DLEND_RESET_STOP_MS));
}

void dlend_borrow_close(struct dlend_vdev *v)
{
	struct dlend_lease *lease, *before = NULL;

	dlend_borrow_hush(v);
	mutex_lock(&v->lock);
	WRITE_ONCE(v->open, false);
	lease = v->lease;
	if (lease) {
		before = v->ended;
		v->ended = dlend_lease_get(lease);
		v->lease = NULL;
	}
	memset(&v->want, 0, sizeof(v->want));
	dlend_borrow_gate(v);
	mutex_unlock(&v->lock);
	wake_up_all(&v->idle_wq);
	wake_up_all(&v->gate_wq);	/* whose mapping went away while they waited */
	cancel_delayed_work_sync(&v->slow_work);
	cancel_delayed_work_sync(&v->look_work);
	dlend_borrow_unfollow(v);
	if (before)
		dlend_lease_put(before);
	dlend_borrow_drop_ended(v);
	if (lease) {
		v->stat.returns++;
		dlend_lease_return(lease);
	}
	mutex_lock(&v->lock);
	dlend_borrow_retry(v);
	dlend_borrow_quiet(v);
	mutex_unlock(&v->lock);
}

/*
 * A function reset, whoever asked for it, but for the configuration space. Without a lease there
 * is nothing to reset. [locked]
 */
static void dlend_borrow_function_reset(struct dlend_vdev *v)
{
	dlend_irq_intx_disable(v, dlend_cfg_intx_disabled(&v->cfg));
	v->want.bme = dlend_cfg_mastering(&v->cfg);
	v->want.readrq = dlend_cfg_readrq(&v->cfg);
	/* Who waits for a BAR that stays on, as a VF's does, touches it again. */
	clear_bit(0, &v->touched);
	wake_up_all(&v->gate_wq);
	if (v->lease || v->borrowing)
		v->want.reset++;
	wake_up_all(&v->idle_wq);
	dlend_borrow_retry(v);
	dlend_bar_set_mse(v, dlend_cfg_mse(&v->cfg));
}

void dlend_borrow_effects(struct dlend_vdev *v, u32 effects)
{
	lockdep_assert_held(&v->lock);
	if (effects & DLEND_CFG_E_FLR)
		dlend_borrow_function_reset(v);
	if (effects & (DLEND_CFG_E_MSE_ON | DLEND_CFG_E_MSE_OFF | DLEND_CFG_E_D3HOT |
		       DLEND_CFG_E_D0))
		dlend_bar_set_mse(v, dlend_cfg_mse(&v->cfg));
	if (effects & (DLEND_CFG_E_MSE_ON | DLEND_CFG_E_MSE_OFF | DLEND_CFG_E_D3HOT |
		       DLEND_CFG_E_D0 | DLEND_CFG_E_BAR))
		dlend_p2p_publish(v);
	if (effects & DLEND_CFG_E_INTX)
		dlend_irq_intx_disable(v, dlend_cfg_intx_disabled(&v->cfg));
	if (effects & DLEND_CFG_E_READRQ)
		v->want.readrq = dlend_cfg_readrq(&v->cfg);
	if ((effects & DLEND_CFG_E_BME_ON) && dlend_cfg_mastering(&v->cfg)) {
		if (v->failed && !v->lost)
			dlend_borrow_retry(v);
		v->want.bme = true;
		v->want.build++;
		v->backoff_ms = 0;
		v->bme_at = ktime_get();
		if (!v->lease)
			WRITE_ONCE(v->shut_since, v->bme_at);	/* nobody wanted it open before */
	}
	/* A device that is not in D0 transfers nothing. */
	if (effects & (DLEND_CFG_E_BME_OFF | DLEND_CFG_E_D3HOT | DLEND_CFG_E_D0))
		v->want.bme = dlend_cfg_mastering(&v->cfg);
	if (!(effects & (DLEND_CFG_E_BME_ON | DLEND_CFG_E_BME_OFF | DLEND_CFG_E_FLR |
			 DLEND_CFG_E_D3HOT | DLEND_CFG_E_D0 | DLEND_CFG_E_READRQ)))
		return;
	dlend_borrow_gate(v);
	dlend_borrow_kick(v);
}

/* The lender does not say that the device has stopped: what it may do ends here. */
static void dlend_borrow_cut_off(struct dlend_vdev *v, unsigned int ms)
{
	struct dlend_lease *lease;
	bool fenced;

	mutex_lock(&v->lock);
	lease = dlend_borrow_is_quiet(v) || !v->lease ? NULL : dlend_lease_get(v->lease);
	if (lease) {
		v->want.build++;
		dlend_borrow_gate(v);
	}
	mutex_unlock(&v->lock);
	if (!lease)
		return;
	fenced = dlend_memory_fence(lease->mem);
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
		dlend_borrow_await_stop(v, DLEND_STOP_MS);
}

void dlend_borrow_reset(struct dlend_vdev *v)
{
	mutex_lock(&v->lock);
	dlend_cfg_reset(&v->cfg);
	dlend_borrow_function_reset(v);
	dlend_borrow_gate(v);
	dlend_borrow_kick(v);
	mutex_unlock(&v->lock);
	dlend_borrow_await_stop(v, DLEND_RESET_STOP_MS);
}

void dlend_borrow_touch(struct dlend_vdev *v)
{
	if (test_and_set_bit(0, &v->touched))
		return;
	WRITE_ONCE(v->shut_since, ktime_get());
	dlend_borrow_kick(v);
}

void dlend_borrow_want_irq(struct dlend_vdev *v, enum dlend_irq_mode mode, u32 need, u32 count)
{
	lockdep_assert_held(&v->lock);
	v->irq_need = need;
	if (v->want.irq_mode == mode && v->want.irq_count == count)
		return;
	v->want.irq_mode = mode;
	v->want.irq_count = count;
	dlend_borrow_gate(v);
	if (v->lease)
		dlend_borrow_kick(v);
}

void dlend_borrow_irq_begin(struct dlend_vdev *v)
{
	lockdep_assert_held(&v->lock);
	v->irq_waiters++;
	v->irq_short = -1;
}

int dlend_borrow_irq_end(struct dlend_vdev *v)
{
	int ret = 0;

	wait_event_timeout(v->idle_wq, !READ_ONCE(v->irq_busy),
			   msecs_to_jiffies(DLEND_IRQ_WAIT_MS));
	guard(mutex)(&v->lock);
	v->irq_waiters--;
	if (v->irq_short >= 0)
		ret = v->irq_short ?: -ENOSPC;
	v->irq_short = -1;
	return ret;
}

u16 dlend_borrow_intx(struct dlend_vdev *v)
{
	struct dlend_lease *lease;
	u16 status;
	int ret;

	/* Not asserted, as far as is known here: the lender tells when it is. */
	if (!dlend_irq_intx_up(v))
		return 0;
	lease = dlend_vdev_lease(v);
	if (!lease)
		return 0;
	/* It was: whether the guest has served it by now only the device knows. */
	ret = dlend_lease_status(lease, &status, DLEND_STATUS_MS);
	dlend_lease_put(lease);
	return ret ? PCI_STATUS_INTERRUPT : status & PCI_STATUS_INTERRUPT;
}

void dlend_borrow_rescan(struct dlend_vdev *v)
{
	struct dlend_lease *lease = dlend_vdev_lease(v);

	/* Before it is asked for: the build must find it. */
	if (lease) {
		dlend_memory_added(lease->mem, NULL);
		dlend_lease_put(lease);
	}
	guard(mutex)(&v->lock);
	if (!v->open || !v->lease || !v->want.bme || v->failed)
		return;
	v->want.rescan++;
	dlend_borrow_kick(v);
}

/* The gate is shut before, not after: no access of the guest starts a DMA into what is going. */
void dlend_borrow_unmapping(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	v->unmapping++;
	dlend_borrow_gate(v);
}

void dlend_borrow_unmapped(struct dlend_vdev *v, bool lost)
{
	guard(mutex)(&v->lock);
	v->unmapping--;
	if (lost)
		v->want.build++;
	dlend_borrow_gate(v);
	if (v->lease)
		dlend_borrow_kick(v);
}

/* A reference to the lease that may have pins, or NULL. */
static struct dlend_lease *lease_with_pins(struct dlend_vdev *v)
{
	struct dlend_lease *lease;

	guard(mutex)(&v->lock);
	lease = v->lease ?: v->ended;
	return lease ? dlend_lease_get(lease) : NULL;
}

bool dlend_borrow_attach(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	if (v->ended || (v->lease && v->had_space))
		return false;
	v->had_space = true;
	return true;
}

void dlend_borrow_detach(struct dlend_vdev *v)
{
	struct dlend_lease *lease = lease_with_pins(v);

	if (!lease)
		return;
	dlend_borrow_unmapping(v);
	dlend_memory_close(lease->mem);
	dlend_borrow_unmapped(v, true);
	dlend_lease_put(lease);
}

/*
 * User space takes memory away: local unmapping now, everything else later.  The gate is shut only
 * for what may come back, as firmware makes it: the guest knows nothing of that, and would use it
 * before it is mapped again.  What is unplugged the guest has given up before.
 */
void dlend_borrow_dma_unmap(struct dlend_vdev *v, u64 iova, u64 size)
{
	struct dlend_lease *lease = lease_with_pins(v);
	bool shut, lost;

	if (!lease)
		return;
	shut = dlend_memory_returns(lease->mem, iova, size);
	if (shut)
		dlend_borrow_unmapping(v);
	lost = dlend_memory_unmap(lease->mem, iova, size);
	/* It came while we looked. */
	if (lost && !shut)
		dlend_borrow_unmapping(v);
	if (lost || shut)
		dlend_borrow_unmapped(v, lost);
	dlend_lease_put(lease);
}

/* The lease has ended without us; @only (may be NULL): unless it is another one by now. */
static void dlend_borrow_lose(struct dlend_vdev *v, struct dlend_lease *only, const char *why)
{
	struct dlend_lease *lease, *before;

	mutex_lock(&v->lock);
	lease = v->lease;
	if (!lease || (only && lease != only)) {
		mutex_unlock(&v->lock);
		return;
	}
	v->lease = NULL;
	before = v->ended;
	v->ended = dlend_lease_get(lease);
	v->lost = true;
	memset(&v->have, 0, sizeof(v->have));
	/* The end of the lease follows from an error, which is what people have to know. */
	if (v->errored)
		dlend_borrow_gate(v);
	else
		dlend_borrow_fail(v, stop_on_loss, "%s", why);
	/* Queued before anybody can ask for the next one: dlend_borrow_returning(). */
	dlend_lease_return(dlend_lease_get(lease));
	/* Not later: the next lease may have set up its own by then. */
	dlend_irq_live(v, DLEND_IRQ_NONE, false);
	mutex_unlock(&v->lock);
	if (before)
		dlend_lease_put(before);
	/*
	 * With the link gone nobody says that the device is fenced: unmap the aperture before
	 * this returns (it waits for nobody).  A lender that took its device back has fenced it;
	 * the return drops the windows, and its answer makes their slots free again.
	 */
	if (dlend_lease_lost(lease)) {
		dlend_memory_link_down(lease->mem);
		dlend_p2p_fence(&lease->addr, lease->epoch);
	}
	dlend_lease_put(lease);
	guard(mutex)(&v->lock);
	if (!v->lease)
		dlend_borrow_quiet(v);
}

void dlend_borrow_link_down(struct dlend_vdev *v)
{
	struct dlend_lease *ended;

	dlend_borrow_lose(v, NULL, "the link to the lender was lost");
	/* One that had ended before, or is being closed: its windows may still stand. */
	ended = ended_lease(v);
	if (!ended)
		return;
	if (dlend_lease_lost(ended)) {
		dlend_memory_link_down(ended->mem);
		dlend_p2p_fence(&ended->addr, ended->epoch);
	}
	dlend_lease_put(ended);
}

void dlend_borrow_peer_state(struct dlend_vdev *v, u16 state, u16 holder, u32 epoch)
{
	bool over = false, stray = false;
	struct dlend_lease *lease;

	mutex_lock(&v->lock);
	lease = v->lease ? dlend_lease_get(v->lease) : NULL;
	if (lease)
		over = state == DLEND_OFFER_GONE || dlend_epoch_after(epoch, lease->epoch) ||
		       (epoch == lease->epoch && state != DLEND_OFFER_HELD);
	else if (!v->borrowing)
		stray = state == DLEND_OFFER_HELD && holder == dlend_node_id();
	mutex_unlock(&v->lock);
	if (over)
		dlend_borrow_lose(v, lease, "the lender took the device back");
	if (lease)
		dlend_lease_put(lease);
	if (stray)
		dlend_offer_return_stray(v->offer);
}

void dlend_borrow_reclaim(struct dlend_vdev *v, u32 epoch)
{
	bool ours;

	mutex_lock(&v->lock);
	ours = v->lease && v->lease->epoch == epoch;
	mutex_unlock(&v->lock);
	if (!ours)
		return;
	dev_notice(dlend_vdev_dev(v), "node %u asks for its device back\n", v->offer->addr.lender);
	if (!dlend_irq_signal(v, VFIO_PCI_REQ_IRQ_INDEX))
		dev_warn(dlend_vdev_dev(v), "the VMM cannot be asked to give it back; unplug the device or shut the VM down\n");
}

void dlend_borrow_error(struct dlend_vdev *v, u32 epoch)
{
	guard(mutex)(&v->lock);
	if (!v->lease || v->lease->epoch != epoch || v->failed)
		return;
	dlend_borrow_fail(v, true, "node %u reports an error of the device",
			  v->offer->addr.lender);
	v->errored = true;
	dlend_borrow_kick(v);	/* turns Bus Master Enable off */
}
