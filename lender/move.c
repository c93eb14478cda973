// SPDX-License-Identifier: GPL-2.0
/*
 * A lease moves to another node: the requests of the node that has it and of the node that gets it.
 * What may happen when is the state machine's (lease_sm.c); what the new node has before it may
 * reach the device is in lease.c.
 *
 * The device is stopped before that (lend_move_quiesce()), because replacing a domain blocks its
 * DMA for a moment.  The order:
 *
 *   1. wait until it is silent: its guest stands still and asks for nothing more. Its interrupts
 *	pass this host meanwhile: the holder has given the direct way up before
 *   2. hold its interrupts back, turn Bus Master Enable off
 *   3. wait until no request of its own waits for an answer, and read from it: the answer pushes
 *	the last writes ahead of itself
 *   4. let the last handler deliver
 *
 * The holder keeps its domain until the other node takes over: a late write meets its own memory.
 */
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/random.h>

#include "lender/drain.h"
#include "lender/irq.h"
#include "lender/lease.h"
#include "lender/move.h"
#include "lender/reach.h"
#include "lender/trace.h"

/* A device that has not interrupted for so long does nothing; it is looked at so often. */
#define LEND_SILENT_US		(50 * USEC_PER_MSEC)
#define LEND_LOOK_MS		5

/* A VMM waits for that with its big lock held, and all its guest's devices with it. */
#define LEND_DRAIN_US		(1000 * USEC_PER_MSEC)

static char *lend_move_cut_models = "";

static int lend_move_set_models(const char *list, const struct kernel_param *kp)
{
	int ret = lend_models_find(list, 0, 0);

	return ret < 0 ? ret : param_set_charp(list, kp);
}

static const struct kernel_param_ops lend_move_models_ops = {
	.set = lend_move_set_models,
	.get = param_get_charp,
	.free = param_free_charp,
};

module_param_cb(cut_models, &lend_move_models_ops, &lend_move_cut_models, 0644);
MODULE_PARM_DESC(cut_models, "USB controllers that may move with their VMs, by who has tried that: VVVV:DDDD, vendor and device as lspci -n has them, several with commas (default: none)");

static struct lend_event lend_move_event(const struct lend_fn *fn, struct dlend_link *link,
					 enum lend_event_type type, u32 epoch)
{
	return (struct lend_event){ .type = type, .node = dlend_link_peer(link), .epoch = epoch,
				    .fn = fn->index };
}

/* Give the lease an event that asks for nothing else. Group lock. */
static int lend_move_step(struct lend_fn *fn, struct dlend_link *link, enum lend_event_type type)
{
	struct lend_event ev = lend_move_event(fn, link, type, fn->group->lease.epoch);
	u32 todo;

	return lend_group_step(fn->group, &ev, &todo);
}

static enum lend_drain lend_move_drains(const struct lend_fn *fn)
{
	return lend_drain_kind(fn->pdev->class);
}

static bool lend_move_tried(const struct lend_fn *fn)
{
	bool tried;

	kernel_param_lock(THIS_MODULE);
	tried = lend_models_find(lend_move_cut_models, fn->pdev->vendor, fn->pdev->device) > 0;
	kernel_param_unlock(THIS_MODULE);
	return tried;
}

/* Can the device move at all?  Group lock. */
static int lend_move_check(const struct lend_fn *fn, const struct dlend_p_move_to *want)
{
	bool cut = le16_to_cpu(want->flags) & DLEND_MOVE_F_CUT;

	if (want->node == cpu_to_le16(DLEND_NODE_NONE))
		return 0;
	if (fn->group->members > 1)
		return -EMLINK;
	if (!lend_drain_moves(lend_move_drains(fn), cut, lend_move_tried(fn)))
		return -EOPNOTSUPP;
	return 0;
}

int lend_move_to(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
		 const struct dlend_p_move_to *want)
{
	struct lend_event ev = lend_move_event(fn, link, LEND_EV_MOVE_TO, epoch);
	u32 todo;
	int ret;

	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	ev.target = le16_to_cpu(want->node);
	ret = lend_move_check(fn, want);
	if (!ret) {
		ret = lend_group_step(fn->group, &ev, &todo);
		if (todo & LEND_DO_DROP)
			lend_standby_drop(fn->group);
	}
	lend_lease_exit(fn);
	trace_dlend_lease(&fn->addr, "move_to", ev.target, epoch, ret);
	return ret == -EALREADY ? 0 : ret;
}

/* Group lock. Return: @source is not the caller's any more, unless it is an error of the lease. */
static int lend_move_prepare(struct lend_fn *fn, struct dlend_link *link,
			     struct dlend_irq_source **source, struct dlend_msg *reply)
{
	struct lend_event ev = lend_move_event(fn, link, LEND_EV_STANDBY, 0);
	struct lend_group *group = fn->group;
	u32 todo;
	int ret;

	ret = fn->removing ? -ENODEV : lend_group_step(group, &ev, &todo);
	if (ret)
		return ret;
	if (todo & LEND_DO_DROP)
		lend_standby_drop(group);
	ret = lend_standby_prepare(fn, link, *source, (void *)reply->payload);
	*source = NULL;
	reply->epoch = cpu_to_le32(group->lease.move.epoch);
	if (!ret)
		return 0;
	ev = lend_move_event(fn, link, LEND_EV_STANDBY_LOST, group->lease.move.epoch);
	lend_group_step(group, &ev, &todo);
	lend_standby_drop(group);
	return ret;
}

int lend_move_standby(struct lend_fn *fn, struct dlend_link *link,
		      const struct dlend_p_borrow *want, struct dlend_msg *reply)
{
	struct lend_group *group = fn->group;
	struct dlend_irq_source *source;
	int ret = -EPERM;

	/* Its memory is read for that: only if it is the one that was named. */
	mutex_lock(&group->lock);
	if (group->lease.move.target == dlend_link_peer(link))
		ret = 0;
	mutex_unlock(&group->lock);
	if (ret)
		return ret;
	source = lend_irq_source(link, want);
	if (IS_ERR(source))
		return PTR_ERR(source);
	mutex_lock(&group->lock);
	ret = lend_move_prepare(fn, link, &source, reply);
	mutex_unlock(&group->lock);
	if (source)
		dlend_irq_source_close(source);
	trace_dlend_lease(&fn->addr, "standby", dlend_link_peer(link),
			  ret ? 0 : le32_to_cpu(reply->epoch), ret);
	return ret;
}

/* On success the group lock is held. */
static int lend_move_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	struct lend_group *group = fn->group;

	mutex_lock(&group->lock);
	if (group->standby && group->standby_link == link &&
	    !lend_lease_check_standby(&group->lease, dlend_link_peer(link), epoch))
		return 0;
	mutex_unlock(&group->lock);
	return -ESTALE;
}

int lend_move_memory(struct lend_fn *fn, struct dlend_link *link, const struct dlend_msg *msg)
{
	const struct dlend_p_dma *dma = (const void *)msg->payload;
	struct lend_reach to;
	int ret = lend_move_enter(fn, link, le32_to_cpu(msg->epoch));

	if (ret)
		return ret;
	lend_standby_reach(fn->group, &to);
	if (le16_to_cpu(msg->type) == DLEND_MSG_DMA_MAP)
		ret = lend_dma_map(fn, &to, dma);
	else
		ret = lend_dma_unmap(fn, &to, dma);
	mutex_unlock(&fn->group->lock);
	return ret;
}

/* Interrupts of the function so far. Return: 0; 1: nobody here sees them; -ESTALE. */
static int lend_move_count(struct lend_fn *fn, struct dlend_link *link, u32 epoch, u64 *fired)
{
	int ret = lend_lease_enter(fn, link, epoch);

	if (ret)
		return ret;
	*fired = lend_irq_fired(fn);
	ret = !lend_irq_counted(fn);
	lend_lease_exit(fn);
	return ret;
}

static u64 lend_move_now_us(void)
{
	return ktime_to_us(ktime_get());
}

/* Return: 0; 1: it is not silent in time; -ESTALE. */
static int lend_move_await_silence(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	u64 begin = lend_move_now_us(), now = begin, fired;
	struct lend_silence silence = { };
	int ret;

	for (;;) {
		ret = lend_move_count(fn, link, epoch, &fired);
		if (ret)
			return ret;
		now = lend_move_now_us();
		if (lend_silence_look(&silence, fired, now) >= LEND_SILENT_US)
			return 0;
		if (now - begin >= LEND_DRAIN_US || !dlend_link_is_up(link))
			return 1;
		/* Whatever ends the lease wakes this. */
		wait_event_timeout(fn->group->wait, !dlend_link_is_up(link),
				   msecs_to_jiffies(LEND_LOOK_MS));
	}
}

/* Step 2. Return: -ESTALE; or 0, and how many interrupts had come. */
static int lend_move_stop(struct lend_fn *fn, struct dlend_link *link, u32 epoch, u64 *fired)
{
	int ret = lend_lease_enter(fn, link, epoch);

	if (ret)
		return ret;
	*fired = lend_irq_fired(fn);
	lend_irq_hold(fn, true);
	lend_fence_bus_master(fn, false);
	lend_lease_exit(fn);
	return 0;
}

/* Steps 3 and 4. The device's answers are waited for without the lock: no fence waits for them. */
static int lend_move_settle(struct lend_fn *fn, struct dlend_link *link, u32 epoch, u64 *fired)
{
	u16 vendor;
	int ret;

	pci_wait_for_pending_transaction(fn->pdev);
	pci_read_config_word(fn->pdev, PCI_VENDOR_ID, &vendor);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	lend_irq_finish(fn);
	*fired = lend_irq_fired(fn);
	ret = lend_move_step(fn, link, LEND_EV_QUIET);
	lend_lease_exit(fn);
	return ret;
}

int lend_move_quiesce(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
		      struct dlend_p_quiet *reply)
{
	u64 begin = lend_move_now_us(), before, fired;
	bool drains = lend_move_drains(fn) == LEND_DRAINS;
	int loud, ret;

	loud = drains ? lend_move_await_silence(fn, link, epoch) : 0;
	if (loud < 0)
		return loud;
	ret = lend_move_stop(fn, link, epoch, &before);
	if (!ret)
		ret = lend_move_settle(fn, link, epoch, &fired);
	if (ret)
		return ret;
	/* Something was under way all the same when the device was stopped. */
	loud |= drains && fired != before;
	reply->flags = cpu_to_le32(loud ? 0 : DLEND_QUIET_F_DRAINED);
	reply->waited_us = cpu_to_le32(lend_move_now_us() - begin);
	reply->fired = cpu_to_le64(fired);
	trace_dlend_lease(&fn->addr, loud ? "quiesce_loud" : "quiesce", dlend_link_peer(link),
			  epoch, ret);
	return ret;
}

void lend_move_running(struct lend_fn *fn)
{
	struct lend_group *group = fn->group;

	lend_move_step(fn, group->link, LEND_EV_RUN);
}

int lend_move_run(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	int ret = lend_lease_enter(fn, link, epoch);

	if (ret)
		return ret;
	lend_move_running(fn);
	lend_irq_hold(fn, false);
	lend_lease_exit(fn);
	trace_dlend_lease(&fn->addr, "run", dlend_link_peer(link), epoch, 0);
	return 0;
}

int lend_move_hand_over(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
			struct dlend_p_token *reply)
{
	struct lend_event ev = lend_move_event(fn, link, LEND_EV_HAND_OVER, epoch);
	u32 todo;
	int ret;

	static_assert(sizeof(ev.token) == DLEND_TOKEN_SIZE);
	get_random_bytes(&ev.token, sizeof(ev.token));
	/* No token is all 0. */
	ev.token.half[0] |= 1;
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	ret = lend_group_step(fn->group, &ev, &todo);
	lend_lease_exit(fn);
	if (!ret)
		memcpy(reply->token, &ev.token, sizeof(reply->token));
	trace_dlend_lease(&fn->addr, "hand_over", dlend_link_peer(link), epoch, ret);
	return ret;
}

/* Group lock; the standby was checked. @ask: would it succeed? */
static int lend_move_swap(struct lend_fn *fn, const struct lend_event *ev, bool ask)
{
	struct lend_group *group = fn->group;
	struct lend_lease next = group->lease;
	u32 todo;
	int err, ret;

	/* Nothing of the state that the guest knows survives that. */
	if (fn->hidden || fn->removing)
		return -EAGAIN;
	ret = lend_lease_step(&next, ev, &todo);
	if (ret || ask)
		return ret;
	err = lend_standby_swap(fn);
	ret = lend_group_step(group, ev, &todo);
	return err ?: ret;
}

int lend_move_take_over(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
			const struct dlend_p_take *want)
{
	struct lend_event ev = lend_move_event(fn, link, LEND_EV_TAKE_OVER, epoch);
	bool ask = le32_to_cpu(want->flags) & DLEND_TAKE_F_ASK;
	struct lend_group *group = fn->group;
	u16 from;
	int ret;

	memcpy(&ev.token, want->token, sizeof(ev.token));
	ret = lend_move_enter(fn, link, epoch);
	if (ret)
		return ret;
	from = group->lease.holder;
	ret = lend_move_swap(fn, &ev, ask);
	mutex_unlock(&group->lock);
	trace_dlend_lease(&fn->addr, ask ? "may_take_over" : "take_over", dlend_link_peer(link),
			  epoch, ret);
	if (!ret && !ask)
		pci_info(fn->pdev, "moved from node %u to node %u, epoch %u, as it is\n", from,
			 dlend_link_peer(link), epoch);
	/* Only after the swap has begun: nobody has the device, so that it is reset. */
	if (ret && group->lease.epoch == epoch)
		lend_lease_revoke(group, "take_over failed");
	return ret;
}
