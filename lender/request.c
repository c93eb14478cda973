// SPDX-License-Identifier: GPL-2.0
/*
 * The lender as a user of links (struct dlend_link_user): requests of borrowers and other lenders,
 * and links that go up and down.  Most requests are served only for the holder of the lease.
 *
 * A request comes from another host.  dlend_msg_check() has checked its form; whether the sender
 * may ask for it, and whether its values make sense, is checked here and in the files that this one
 * calls.
 */
#include <linux/bitfield.h>
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "lender/drain.h"
#include "lender/lender.h"
#include "lender/trace.h"

/*
 * A lent function's configuration space, for its borrower, through the filter (cfgfilter.c).
 *
 * Vital Product Data goes through the kernel's own accessors, as in vfio-pci: they know how long to
 * wait for a device, where its data end, and which devices must not be asked.  So a borrower's
 * write never reaches the two VPD registers themselves.  To write a word of VPD, a borrower writes
 * the data register (kept in lend_fn.vpd), and then the address register; to read a word, it writes
 * the address register, and then reads the data register.  The reply to the write of the address
 * register is sent when the kernel has read or written the word.
 *
 * CFG_READ and CFG_WRITE fail with -EAGAIN while the BARs are hidden (lend_fn.hidden): the device
 * is being reset, or its reset has failed, and it may not answer.
 */

/* Read @size bytes at @at from the device. */
static u32 lend_config_get(struct pci_dev *pdev, u32 at, u32 size)
{
	u32 value = 0;
	u16 word;
	u8 byte;

	/* As in the snapshot, registers that the device does not have are all ones. */
	if (at >= pdev->cfg_size)
		return ~0u >> (32 - 8 * size);
	switch (size) {
	case 1:
		pci_read_config_byte(pdev, at, &byte);
		return byte;
	case 2:
		pci_read_config_word(pdev, at, &word);
		return word;
	}
	pci_read_config_dword(pdev, at, &value);
	return value;
}

static void lend_config_put(struct pci_dev *pdev, u32 at, u32 size, u32 value)
{
	if (size == 1)
		pci_write_config_byte(pdev, at, value);
	else if (size == 2)
		pci_write_config_word(pdev, at, value);
	else
		pci_write_config_dword(pdev, at, value);
}

/* CFG_READ: read a register for the borrower.  Group lock. */
static int lend_config_read(struct lend_fn *fn, const struct dlend_p_cfg *want,
			    struct dlend_p_cfg *got)
{
	u32 at = le16_to_cpu(want->offset), size = le16_to_cpu(want->size), value;

	if (fn->hidden)
		return -EAGAIN;
	if (lend_cfgfilter_action(&fn->filter, at, size) == LEND_CFG_VPD_DATA)
		value = le32_to_cpu(fn->vpd);
	else
		value = lend_cfgfilter_mask_read(&fn->filter, at, size,
						 lend_config_get(fn->pdev, at, size));
	*got = *want;
	got->value = cpu_to_le32(value);
	return 0;
}

/* CFG_WRITE, not of VPD's address register.  Group lock.  Return: 0; -EAGAIN; -EPERM refused. */
static int lend_config_write_now(struct lend_fn *fn, u32 at, u32 size, u32 value)
{
	int readrq;

	if (fn->hidden)
		return -EAGAIN;
	/*
	 * Of a write to Device Control, only Max_Read_Request_Size is used, as in vfio-pci: not
	 * below Max_Payload_Size, where it would only cost throughput, and not above the kernel's
	 * limit for the host bridge (pcie_set_readrq()).  If the guest asks for a reserved size,
	 * the device keeps the size that it has.
	 */
	if (fn->pdev->pcie_cap && at == fn->pdev->pcie_cap + PCI_EXP_DEVCTL && size == 2) {
		readrq = 128 << FIELD_GET(PCI_EXP_DEVCTL_READRQ, value);
		pcie_set_readrq(fn->pdev, max(readrq, pcie_get_mps(fn->pdev)));
		return 0;
	}
	/*
	 * COMMAND is not written.  But the guest may have turned memory decoding on: if the device
	 * has reset itself, it gets its BARs back.
	 */
	if (at == PCI_COMMAND && size == 2) {
		lend_reset_heal(fn);
		return 0;
	}
	switch (lend_cfgfilter_action(&fn->filter, at, size)) {
	case LEND_CFG_RAW:
		/* In one access of that size: the effect of a write may depend on its size. */
		lend_config_put(fn->pdev, at, size, value);
		return 0;
	case LEND_CFG_VPD_DATA:
		fn->vpd = cpu_to_le32(value);
		return 0;
	default:
		return -EPERM;
	}
}

/*
 * Let the kernel read or write (PCI_VPD_ADDR_F in @addr) one word of VPD.  May take long;
 * reset_lock.
 */
static int lend_config_access_vpd(struct pci_dev *pdev, u16 addr, __le32 *word)
{
	bool write = addr & PCI_VPD_ADDR_F;
	ssize_t moved;

	if (write) {
		moved = pci_write_vpd(pdev, addr & PCI_VPD_ADDR_MASK, 4, word);
	} else {
		/* pci_read_vpd() leaves bytes behind the end of the data unchanged: these are 0. */
		*word = 0;
		moved = pci_read_vpd(pdev, addr, 4, word);
	}
	/* Not -ETIMEDOUT, which for the borrower means that the lender does not answer. */
	if (moved == -ETIMEDOUT || (write && moved >= 0 && moved != 4))
		return -EIO;
	return min(moved, 0);
}

/*
 * Check the lease, and copy lend_fn.vpd to @word, or @word to lend_fn.vpd (@store).  Takes the
 * group lock.  Return: 0; -EAGAIN; or as lend_lease_enter().
 */
static int lend_config_copy_vpd(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
				__le32 *word, bool store)
{
	int ret = lend_lease_enter(fn, link, epoch);

	if (ret)
		return ret;
	if (store)
		fn->vpd = *word;
	else
		*word = fn->vpd;
	if (fn->hidden)
		ret = -EAGAIN;
	mutex_unlock(&fn->group->lock);
	return ret;
}

/*
 * Read or write a word of VPD at @addr, as the address register has it.
 *
 * The kernel's accessors are called without the group lock, as a fence must not wait for a device;
 * and with reset_lock, so that the access is over before the reset that follows the lease: no write
 * of a borrower reaches the device during the next lease.
 */
static int lend_config_vpd(struct lend_fn *fn, struct dlend_link *link, u32 epoch, u16 addr)
{
	__le32 word;
	u8 first;
	int ret;

	/* Check the lease before anything that takes long; the word is read again below. */
	ret = lend_config_copy_vpd(fn, link, epoch, &word, false);
	if (ret)
		return ret;
	/*
	 * With the first access, the kernel searches for the end of the data, which may take long.
	 * The search only reads, so let it be done before reset_lock is taken.
	 */
	if (!READ_ONCE(fn->pdev->vpd.len))
		pci_read_vpd(fn->pdev, 0, 1, &first);
	guard(mutex)(&fn->group->reset_lock);
	ret = lend_config_copy_vpd(fn, link, epoch, &word, false);
	if (!ret)
		ret = lend_config_access_vpd(fn->pdev, addr, &word);
	/* After a read: store the word for the holder, if it still has the lease. */
	if (!ret && !(addr & PCI_VPD_ADDR_F))
		ret = lend_config_copy_vpd(fn, link, epoch, &word, true);
	return ret;
}

/* CFG_WRITE: write a register for the borrower.  Takes the group lock. */
static int lend_config_write(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
			     const struct dlend_p_cfg *want)
{
	u32 at = le16_to_cpu(want->offset), size = le16_to_cpu(want->size);
	u32 value = le32_to_cpu(want->value);
	int ret;

	if (lend_cfgfilter_action(&fn->filter, at, size) == LEND_CFG_VPD_ADDR)
		return lend_config_vpd(fn, link, epoch, value);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	ret = lend_config_write_now(fn, at, size, value);
	mutex_unlock(&fn->group->lock);
	return ret;
}

/*
 * A lease moves to another node: requests of the holder and of the standby.  The state machine
 * (lease_sm.c) decides which event is allowed when.  What the standby has before it may reach the
 * device is made in lease.c (lend_standby_prepare()).
 *
 * The device is stopped first (lend_move_quiesce()), because DMA is blocked for a moment while one
 * domain replaces another:
 *
 *   1. wait until the device is silent: the guest stands still, and gives it no new commands.  Only
 *	interrupts that handlers of this host take can be counted for that, so the holder has given
 *	up direct interrupts before
 *   2. mask MSI-X in the device, turn Bus Master Enable off
 *   3. wait until none of the device's non-posted requests is outstanding, and read from the
 *	device: the completion pushes the device's last posted writes ahead of itself
 *   4. wait for the last interrupt handler
 *
 * The holder keeps its domain until the standby takes over: a late write of the device reaches the
 * holder's memory.
 */

/* A device without an interrupt for this long is silent; how often the interrupts are counted. */
#define LEND_SILENT_US		(50 * USEC_PER_MSEC)
#define LEND_LOOK_MS		5

/* The longest wait for that: the VMM waits with its big lock held, and so do its other devices. */
#define LEND_DRAIN_US		(1000 * USEC_PER_MSEC)

/* List for lend_models_find(); read under kernel_param_lock(). */
static char *lend_move_cut_models = "";

/* Refuse a list that lend_models_find() cannot parse; which model it looks for does not matter. */
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

/* Make an event of the holder, with the holder's node and epoch.  Group lock. */
static struct lend_event lend_move_event(const struct lend_fn *fn, enum lend_event_type type)
{
	const struct lend_lease *lease = &fn->group->lease;

	return (struct lend_event){ .type = type, .node = lease->holder, .epoch = lease->epoch,
				    .fn = fn->index };
}

/* Has the administrator listed the device's model in cut_models? */
static bool lend_move_is_listed(const struct lend_fn *fn)
{
	bool tried;

	kernel_param_lock(THIS_MODULE);
	tried = lend_models_find(lend_move_cut_models, fn->pdev->vendor, fn->pdev->device) > 0;
	kernel_param_unlock(THIS_MODULE);
	return tried;
}

/*
 * Can the device move at all?  Group lock.  Return: 0, also if the request ends a move; -EMLINK its
 * group has several functions; -EOPNOTSUPP its class, or the administrator, does not allow it.
 */
static int lend_move_check(const struct lend_fn *fn, const struct dlend_p_move_to *want)
{
	bool forced = le16_to_cpu(want->flags) & DLEND_MOVE_F_FORCED;

	if (want->node == cpu_to_le16(DLEND_NODE_NONE))
		return 0;
	if (fn->group->members > 1)
		return -EMLINK;
	if (!lend_drain_moves(lend_drain_kind(fn->pdev->class), forced, lend_move_is_listed(fn)))
		return -EOPNOTSUPP;
	return 0;
}

/* MOVE_TO: the holder names the node that may become the standby, or none.  Group lock. */
static int lend_move_to(struct lend_fn *fn, const struct dlend_p_move_to *want)
{
	struct lend_event ev = lend_move_event(fn, LEND_EV_MOVE_TO);
	u32 todo = 0;
	int ret;

	ev.target = le16_to_cpu(want->node);
	ret = lend_move_check(fn, want) ?: lend_group_step(fn->group, &ev, &todo);
	if (todo & LEND_DO_DROP)
		lend_standby_drop(fn->group);
	trace_dlend_lease(&fn->addr, "move_to", ev.target, ev.epoch, ret);
	return ret == -EALREADY ? 0 : ret;
}

/* Make the peer the standby.  @source then belongs to the standby, or is closed.  Group lock. */
static int lend_move_prepare(struct lend_fn *fn, struct dlend_link *link,
			     struct dlend_irq_source *source, struct dlend_msg *reply)
{
	struct lend_event ev = { .type = LEND_EV_STANDBY, .node = dlend_link_peer(link),
				 .fn = fn->index };
	struct lend_group *group = fn->group;
	u32 todo;
	int ret;

	ret = fn->removing ? -ENODEV : lend_group_step(group, &ev, &todo);
	if (ret) {
		dlend_irq_source_close(source);
		return ret;
	}
	if (todo & LEND_DO_DROP)
		lend_standby_drop(group);
	ret = lend_standby_prepare(fn, link, source, (void *)reply->payload);
	reply->epoch = cpu_to_le32(group->lease.move.epoch);
	if (ret)
		lend_standby_end(group);
	return ret;
}

/* STANDBY: the node that the holder has named prepares to take over.  Takes the group lock. */
static int lend_move_standby(struct lend_fn *fn, struct dlend_link *link,
			     const struct dlend_p_borrow *want, struct dlend_msg *reply)
{
	u16 node = dlend_link_peer(link), target;
	struct lend_group *group = fn->group;
	struct dlend_irq_source *source;
	int ret;

	/* Opening the source reads the peer's memory: do so only for the node that was named. */
	mutex_lock(&group->lock);
	target = group->lease.move.target;
	mutex_unlock(&group->lock);
	if (target != node)
		return -EPERM;
	source = dlend_irq_source_open(link, le64_to_cpu(want->irq_offset),
				       le32_to_cpu(want->irq_handle));
	if (IS_ERR(source))
		return PTR_ERR(source);
	mutex_lock(&group->lock);
	ret = lend_move_prepare(fn, link, source, reply);
	mutex_unlock(&group->lock);
	trace_dlend_lease(&fn->addr, "standby", node, ret ? 0 : le32_to_cpu(reply->epoch), ret);
	return ret;
}

/*
 * As lend_lease_enter(), for the standby.  Return: 0: the peer is the standby under this epoch, and
 * the caller holds the group lock, and has to unlock it; -ESTALE it is not, and the lock is not
 * held.
 */
static int lend_move_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	struct lend_group *group = fn->group;

	mutex_lock(&group->lock);
	if (group->standby.link == link &&
	    !lend_lease_check_standby(&group->lease, dlend_link_peer(link), epoch))
		return 0;
	mutex_unlock(&group->lock);
	return -ESTALE;
}

/*
 * Wait until the device is silent.  Takes the group lock now and then.  Return: 0: it is silent; 1:
 * it is not, or that cannot be seen; or as lend_lease_enter().
 */
static int lend_move_await_silence(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	u64 begin = ktime_to_us(ktime_get()), now = begin, fired;
	struct lend_silence silence = { };
	bool direct;
	int ret;

	for (;;) {
		ret = lend_lease_enter(fn, link, epoch);
		if (ret)
			return ret;
		fired = lend_irq_fired(fn);
		direct = fn->irq.direct;
		mutex_unlock(&fn->group->lock);
		/* Direct interrupts cannot be counted here. */
		if (direct)
			return 1;
		now = ktime_to_us(ktime_get());
		if (lend_silence_look(&silence, fired, now) >= LEND_SILENT_US)
			return 0;
		if (now - begin >= LEND_DRAIN_US || !dlend_link_is_up(link))
			return 1;
		/* Ends early with the session; the end of the lease is seen in the next round. */
		wait_event_timeout(fn->group->wait, !dlend_link_is_up(link),
				   msecs_to_jiffies(LEND_LOOK_MS));
	}
}

/* QUIESCE: steps 1 to 4 of the list above.  @reply: was the device silent?  No lock. */
static int lend_move_quiesce(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
			     struct dlend_p_quiesced *reply)
{
	u64 begin = ktime_to_us(ktime_get()), before, fired;
	bool drains = lend_drain_kind(fn->pdev->class) == LEND_DRAINS;
	struct lend_event ev;
	int loud, ret;
	u16 vendor;
	u32 todo;

	loud = drains ? lend_move_await_silence(fn, link, epoch) : 0;
	if (loud < 0)
		return loud;
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	before = lend_irq_fired(fn);
	/* Mask MSI-X, turn Bus Master Enable off. */
	lend_irq_hold(fn, true);
	lend_bus_master_set(fn, false);
	mutex_unlock(&fn->group->lock);
	/* Without the group lock: a fence must not wait for the device's completions. */
	pci_wait_for_pending_transaction(fn->pdev);
	pci_read_config_word(fn->pdev, PCI_VENDOR_ID, &vendor);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	lend_irq_finish(fn);
	fired = lend_irq_fired(fn);
	ev = lend_move_event(fn, LEND_EV_QUIESCED);
	ret = lend_group_step(fn->group, &ev, &todo);
	mutex_unlock(&fn->group->lock);
	if (ret)
		return ret;
	/* The device has interrupted since it was found silent: so it was not. */
	loud |= drains && fired != before;
	reply->flags = cpu_to_le32(loud ? 0 : DLEND_QUIET_F_DRAINED);
	reply->waited_us = cpu_to_le32(ktime_to_us(ktime_get()) - begin);
	reply->fired = cpu_to_le64(fired);
	trace_dlend_lease(&fn->addr, loud ? "quiesce_loud" : "quiesce", dlend_link_peer(link),
			  epoch, ret);
	return ret;
}

/* Give the lease LEND_EV_RUN: the holder's guest goes on, and the token is invalid.  Group lock. */
static void lend_move_running(struct lend_fn *fn)
{
	struct lend_event ev = lend_move_event(fn, LEND_EV_RUN);
	u32 todo;

	lend_group_step(fn->group, &ev, &todo);
}

/* RUN: undo QUIESCE, but for Bus Master Enable, which the holder turns on itself.  Group lock. */
static int lend_move_run(struct lend_fn *fn)
{
	const struct lend_lease *lease = &fn->group->lease;

	lend_move_running(fn);
	/* Unmask MSI-X. */
	lend_irq_hold(fn, false);
	trace_dlend_lease(&fn->addr, "run", lease->holder, lease->epoch, 0);
	return 0;
}

/* HAND_OVER: make a token; the standby that sends it gets the lease.  Group lock. */
static int lend_move_hand_over(struct lend_fn *fn, struct dlend_p_token *reply)
{
	struct lend_event ev = lend_move_event(fn, LEND_EV_HAND_OVER);
	u32 todo;
	int ret;

	static_assert(sizeof(ev.token) == DLEND_TOKEN_SIZE);
	get_random_bytes(&ev.token, sizeof(ev.token));
	/* No token is all 0. */
	ev.token.half[0] |= 1;
	ret = lend_group_step(fn->group, &ev, &todo);
	if (!ret)
		memcpy(reply->token, &ev.token, sizeof(reply->token));
	trace_dlend_lease(&fn->addr, "hand_over", ev.node, ev.epoch, ret);
	return ret;
}

/*
 * Give the device to the standby, after lend_move_enter().  @ask: only say whether that would
 * succeed.  Group lock.  Return: 0; -EAGAIN the device is being reset or unbound; or as
 * lend_lease_step(), lend_standby_swap().
 */
static int lend_move_swap(struct lend_fn *fn, const struct lend_event *ev, bool ask)
{
	struct lend_group *group = fn->group;
	struct lend_lease next = group->lease;
	u32 todo;
	int err, ret;

	/* The device is being reset, or unbound: it loses the state that its guest relies on. */
	if (fn->hidden || fn->removing)
		return -EAGAIN;
	/* Try the event on a copy: the swap must come before the event, and cannot be undone. */
	ret = lend_lease_step(&next, ev, &todo);
	if (ret || ask)
		return ret;
	err = lend_standby_swap(fn);
	ret = lend_group_step(group, ev, &todo);
	return err ?: ret;
}

/* TAKE_OVER: the standby sends the token, and gets the lease.  Takes the group lock. */
static int lend_move_take_over(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
			       const struct dlend_p_take *want)
{
	struct lend_event ev = { .type = LEND_EV_TAKE_OVER, .node = dlend_link_peer(link),
				 .epoch = epoch, .fn = fn->index };
	bool ask = le32_to_cpu(want->flags) & DLEND_TAKE_F_ASK;
	struct lend_group *group = fn->group;
	bool broken;
	u16 from;
	int ret;

	memcpy(&ev.token, want->token, sizeof(ev.token));
	ret = lend_move_enter(fn, link, epoch);
	if (ret)
		return ret;
	from = group->lease.holder;
	ret = lend_move_swap(fn, &ev, ask);
	/* If the lease has the standby's epoch, the swap has failed half way. */
	broken = ret && group->lease.epoch == epoch;
	mutex_unlock(&group->lock);
	trace_dlend_lease(&fn->addr, ask ? "may_take_over" : "take_over", dlend_link_peer(link),
			  epoch, ret);
	if (!ret && !ask)
		pci_info(fn->pdev, "moved from node %u to node %u, epoch %u, as it is\n", from,
			 dlend_link_peer(link), epoch);
	/* Nobody can use the device: revoke the lease, so that the device is reset. */
	if (broken)
		lend_lease_revoke(group, "take_over failed");
	return ret;
}

/* How often lend_fn.hold_stop is read, in ms. */
#define LEND_HOLD_POLL_MS	10

/* DMA_MAP or DMA_UNMAP; @standby: of the standby, not of the holder.  Group lock. */
static int lend_request_dma(struct lend_fn *fn, const struct dlend_msg *msg, bool standby)
{
	const struct dlend_p_dma *dma = (const void *)msg->payload;

	if (msg->type == cpu_to_le16(DLEND_MSG_DMA_UNMAP))
		return lend_dma_unmap(fn, standby, dma);
	/* RAM takes the place of BARs.  In the standby's domain no BARs are mapped. */
	for (u32 i = 0; i < le32_to_cpu(dma->count) && !standby; i++)
		lend_p2p_yield(fn, le64_to_cpu(dma->entry[i].gpa),
			       le64_to_cpu(dma->entry[i].size));
	return lend_dma_map(fn, standby, dma);
}

/* BUS_MASTER.  Group lock. */
static int lend_request_bus_master(struct lend_fn *fn, bool on)
{
	if (on)
		fn->reset_asked = 0;
	while (!on && READ_ONCE(fn->hold_stop))
		msleep(LEND_HOLD_POLL_MS);
	lend_reset_heal(fn);
	lend_bus_master_set(fn, on);
	return 0;
}

/* IRQ_SETUP.  Group lock. */
static int lend_request_irq_setup(struct lend_fn *fn, u32 mode, u32 count)
{
	/* INTx is no use of the device: VMMs turn it on after each reset, whether needed or not. */
	if (mode == DLEND_IRQ_MSI || mode == DLEND_IRQ_MSIX)
		fn->reset_asked = 0;
	lend_reset_heal(fn);
	return lend_irq_setup(fn, mode, count, NULL, NULL);
}

/* Serve requests that only the holder may send.  Group lock; the caller has checked the lease. */
static int lend_request_of_holder(struct lend_fn *fn, const struct dlend_msg *msg,
				  struct dlend_msg *reply)
{
	const void *p = msg->payload;
	const struct dlend_p_u32 *number = p;
	const struct dlend_p_irq *irq = p;

	switch (le16_to_cpu(msg->type)) {
	case DLEND_MSG_DMA_MAP:
	case DLEND_MSG_DMA_UNMAP:
		return lend_request_dma(fn, msg, false);
	case DLEND_MSG_BUS_MASTER:
		return lend_request_bus_master(fn, le32_to_cpu(number->value));
	case DLEND_MSG_CFG_READ:
		return lend_config_read(fn, p, (void *)reply->payload);
	case DLEND_MSG_IRQ_SETUP:
		return lend_request_irq_setup(fn, le32_to_cpu(irq->mode), le32_to_cpu(irq->count));
	case DLEND_MSG_IRQ_UNMASK:
		lend_irq_unmask(fn);
		return 0;
	case DLEND_MSG_P2P_UNMAP:
		return lend_p2p_unmap(fn, p);
	case DLEND_MSG_P2P_GRANT:
		return lend_grant_open(fn, p);
	case DLEND_MSG_P2P_UNGRANT:
		lend_grant_end(fn, p);
		return 0;
	case DLEND_MSG_MOVE_TO:
		return lend_move_to(fn, p);
	case DLEND_MSG_RUN:
		return lend_move_run(fn);
	case DLEND_MSG_HAND_OVER:
		return lend_move_hand_over(fn, (void *)reply->payload);
	}
	return -EPROTO;
}

/*
 * IRQ_DIRECT.  The messages are read from the borrower's memory with no lock held, and only if the
 * borrower has the lease; so the lease is checked again afterwards.
 */
static int lend_request_irq_direct(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
				   const struct dlend_p_direct *p)
{
	u32 count = le32_to_cpu(p->count);
	struct dlend_p_message *message;
	int ret = lend_lease_enter(fn, link, epoch);

	if (ret)
		return ret;
	mutex_unlock(&fn->group->lock);
	message = kvcalloc(count, sizeof(*message), GFP_KERNEL);
	if (!message)
		return -ENOMEM;
	ret = dlend_link_msi_targets(link, le64_to_cpu(p->table), count, message);
	if (!ret)
		ret = lend_lease_enter(fn, link, epoch);
	if (!ret) {
		fn->reset_asked = 0;
		lend_reset_heal(fn);
		ret = lend_irq_setup(fn, le32_to_cpu(p->mode), count, p, message);
		mutex_unlock(&fn->group->lock);
	}
	kvfree(message);
	return ret;
}

/* P2P_MAP.  Finding the target, and waiting for its grant, come before the group lock is taken. */
static int lend_request_p2p_map(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
				const struct dlend_p_p2p *p)
{
	struct dlend_addr addr = dlend_p2p_target(p);
	struct lend_fn *target = lend_fn_find(&addr);
	int ret;

	lend_foreign_await(link, p);
	ret = lend_lease_enter(fn, link, epoch);
	if (!ret) {
		ret = lend_p2p_map(fn, p, target);
		mutex_unlock(&fn->group->lock);
	}
	if (target)
		lend_fn_put(target);
	return ret;
}

/*
 * RESET: reset a function for the guest.  The lease and its DMA mappings stay.  The device decodes
 * no addresses during the reset, so its BARs are hidden; if the reset fails, they stay hidden until
 * a reset succeeds.  The group lock is not held during the reset: if the link is lost, the fence
 * must not wait for the reset.  Takes reset_lock and the group lock.
 */
static int lend_request_reset(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	int ret;

	guard(mutex)(&fn->group->reset_lock);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	/* A guest that resets its device runs, so a move that was prepared must not go on. */
	lend_move_running(fn);
	lend_bus_master_set(fn, false);
	/* Only end the interrupts. */
	lend_irq_setup(fn, DLEND_IRQ_NONE, 0, NULL, NULL);
	lend_fence_hide(fn, LEND_HIDDEN_REQUEST);
	/* "?: 1", as 0 means that no reset was asked for. */
	fn->reset_asked = jiffies ?: 1;
	mutex_unlock(&fn->group->lock);

	if (fn->shared_reset)
		ret = lend_bus_reset_request(fn);
	else	/* false: the device lock is not held here */
		ret = lend_reset_fn(fn, "request", false);
	if (ret) {
		dev_err_ratelimited(&fn->pdev->dev, "reset for node %u failed (%d)\n",
				    dlend_link_peer(link), ret);
		return ret;
	}
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	/* If another reset has begun (LEND_HIDDEN_CORE), the BARs come back when that is over. */
	ret = lend_fence_show(fn, LEND_HIDDEN_REQUEST);
	mutex_unlock(&fn->group->lock);
	return ret;
}

/*
 * Serve a request about a function.  No lock; those that need a lease take the group lock by
 * lend_lease_enter().  Return: status for the reply.
 */
static int lend_request_serve(struct lend_fn *fn, struct dlend_link *link,
			      const struct dlend_msg *msg, struct dlend_msg *reply)
{
	u16 type = le16_to_cpu(msg->type);
	u32 epoch = le32_to_cpu(msg->epoch);
	int ret;

	switch (type) {
	case DLEND_MSG_BORROW:
		return lend_lease_borrow(fn, link, (const void *)msg->payload, reply);
	case DLEND_MSG_RETURN:
		return lend_lease_return(fn, link, epoch);
	case DLEND_MSG_RESET:
		return lend_request_reset(fn, link, epoch);
	case DLEND_MSG_CFG_WRITE:
		lend_bus_reset_await(fn);
		return lend_config_write(fn, link, epoch, (const void *)msg->payload);
	case DLEND_MSG_P2P_MAP:
		return lend_request_p2p_map(fn, link, epoch, (const void *)msg->payload);
	case DLEND_MSG_IRQ_DIRECT:
		lend_bus_reset_await(fn);
		return lend_request_irq_direct(fn, link, epoch, (const void *)msg->payload);
	case DLEND_MSG_ROM_READ:
		return lend_rom_read(fn, (const void *)msg->payload, (void *)reply->payload);
	case DLEND_MSG_STANDBY:
		return lend_move_standby(fn, link, (const void *)msg->payload, reply);
	case DLEND_MSG_QUIESCE:
		return lend_move_quiesce(fn, link, epoch, (void *)reply->payload);
	case DLEND_MSG_TAKE_OVER:
		return lend_move_take_over(fn, link, epoch, (const void *)msg->payload);
	}
	/* All others are the holder's; the standby, too, may send DMA_MAP and DMA_UNMAP. */
	lend_bus_reset_await(fn);
	ret = lend_lease_enter(fn, link, epoch);
	if (!ret) {
		ret = lend_request_of_holder(fn, msg, reply);
		mutex_unlock(&fn->group->lock);
	} else if (ret == -ESTALE && (type == DLEND_MSG_DMA_MAP || type == DLEND_MSG_DMA_UNMAP)) {
		ret = lend_move_enter(fn, link, epoch);
		if (ret)
			return ret;
		/* true: as the standby */
		ret = lend_request_dma(fn, msg, true);
		mutex_unlock(&fn->group->lock);
	}
	return ret;
}

/* What -ESTALE means for a request, for the log. */
static const char *lend_request_stale_reason(u16 type)
{
	switch (type) {
	case DLEND_MSG_P2P_MAP:
		return "its lease or its target's is over, or the target is being reset";
	case DLEND_MSG_P2P_GRANT:
		return "its lease is over, or the device is being reset";
	}
	return "its lease is another or is over";
}

/* Handle a message: a request, or a post (@reply is NULL).  Return: status for the reply. */
static int lend_request_handle(struct dlend_link *link, const struct dlend_msg *msg,
			       struct dlend_msg *reply)
{
	struct dlend_addr addr = dlend_msg_addr(msg);
	u16 type = le16_to_cpu(msg->type);
	struct lend_fn *fn;
	int ret;

	if (type == DLEND_MSG_SUBSCRIBE) {
		lend_notify_subscribe(link);
		return 0;
	}
	if (type == DLEND_MSG_P2P_WINDOW || type == DLEND_MSG_P2P_CLOSE ||
	    type == DLEND_MSG_P2P_CLOSED)
		return lend_p2p_message(link, msg);
	if (!reply && type != DLEND_MSG_IRQ_UNMASK)
		return -EPROTO;
	fn = lend_fn_find(&addr);
	if (!fn && type == DLEND_MSG_RETURN) {
		/*
		 * The function was unbound; but RETURN also means that its offsets can be used
		 * again.
		 */
		lend_bars_acked(link, &addr, le32_to_cpu(msg->epoch));
		return 0;
	}
	if (!fn)
		return -ENODEV;
	ret = lend_request_serve(fn, link, msg, reply);
	/*
	 * Do not log this for P2P_UNMAP and P2P_UNGRANT: a borrower sends them even when it does
	 * not know whether the mapping still exists, so an -ESTALE answer to them is normal.
	 */
	if (ret == -ESTALE && type != DLEND_MSG_P2P_UNMAP && type != DLEND_MSG_P2P_UNGRANT)
		dev_warn_ratelimited(dlend_link_dev(link),
				     "%s of node %u for %s, epoch %u, refused: %s\n",
				     dlend_msg_type_name(type), dlend_link_peer(link),
				     pci_name(fn->pdev), le32_to_cpu(msg->epoch),
				     lend_request_stale_reason(type));
	lend_fn_put(fn);
	return ret;
}

static void lend_request_link_up(struct dlend_link *link)
{
	lend_notify_open(link);
	lend_notify_peers();
}

/*
 * A fence waits for locks that message handlers hold.  This host may be short of memory, and swap
 * or writeback may go to a disk that it has borrowed from a peer which is gone.  So no allocation
 * in a handler may wait for I/O (memalloc_noio_save()).
 */
static int lend_request_message(struct dlend_link *link, const struct dlend_msg *msg,
				struct dlend_msg *reply)
{
	unsigned int noio = memalloc_noio_save();
	int ret = lend_request_handle(link, msg, reply);

	memalloc_noio_restore(noio);
	return ret;
}

/* First the fences, which must not be delayed; then what may wait for a post. */
static void lend_request_link_down(struct dlend_link *link)
{
	unsigned int noio = memalloc_noio_save();

	lend_lease_link_lost(link);
	lend_p2p_link_lost(link);
	lend_notify_close(link);
	lend_notify_peers();
	memalloc_noio_restore(noio);
}

/* Peer-to-peer domains have changed: PLACE is posted again, with all offers. */
static void lend_request_allowed_changed(void)
{
	lend_notify_subscribe(NULL);
}

struct dlend_link_user lend_link_user = {
	.link_up = lend_request_link_up,
	.link_down = lend_request_link_down,
	.message = lend_request_message,
	.suspend = lend_lease_suspend,
	.resume = lend_lease_resume,
	.shutdown = lend_lease_shutdown,
	.allowed_changed = lend_request_allowed_changed,
	.side = DLEND_TO_LENDER,
};
