// SPDX-License-Identifier: GPL-2.0
/*
 * The lender as a user of links: what borrowers and other lenders ask, and links that come and go.
 * Only the holder of a lease may send most requests.
 *
 * A request comes from another host: its form was checked before (dlend_msg_check()); what it means
 * is checked here and in the files below.
 */
#include <linux/delay.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "lender/bind.h"
#include "lender/group.h"
#include "lender/irq.h"
#include "lender/lease.h"
#include "lender/move.h"
#include "lender/outbox.h"
#include "lender/p2p.h"
#include "lender/reach.h"
#include "lender/request.h"
#include "lender/reset.h"

/*
 * A lent function's configuration space, for its borrower: what the filter (cfgfilter.c) lets pass.
 *
 * Vital Product Data goes through the kernel's own accessors, as vfio-pci's does: they know how
 * long to wait for a device, where its data end, and which devices must not be asked.  So a
 * borrower never writes the registers themselves.  It writes the word (if it is to be written),
 * then the address; the answer to that comes when the word was moved; then it reads the word.
 */

static bool lend_config_valid(u32 at, u32 size)
{
	return (size == 1 || size == 2 || size == 4) && !(at % size) && at + size <= DLEND_CFG_SIZE;
}

/* The PCI core resets it, or a reset has failed: it need not answer.  Group lock. */
static int lend_config_busy(const struct lend_fn *fn)
{
	return fn->hidden ? -EAGAIN : 0;
}

static u32 lend_config_get(struct pci_dev *pdev, u32 at, u32 size)
{
	u32 value = 0;
	u16 word;
	u8 byte;

	/* A snapshot has 4 KiB: what the device does not have is all ones there, and here. */
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

/* The word of VPD that this lease has; another one's is 0.  Group lock. */
static u8 *lend_config_vpd_word(struct lend_fn *fn)
{
	u32 epoch = fn->group->lease.epoch;

	if (fn->vpd.epoch != epoch)
		memset(&fn->vpd, 0, sizeof(fn->vpd));
	fn->vpd.epoch = epoch;
	return fn->vpd.data;
}

/*
 * Read a register for the borrower. Group lock. Return: 0; -EINVAL no such access; -EAGAIN the
 * function is being reset.
 */
static int lend_config_read(struct lend_fn *fn, const struct dlend_p_cfg *want,
			    struct dlend_p_cfg *got)
{
	u32 at = le16_to_cpu(want->offset), size = le16_to_cpu(want->size), value;
	int ret = lend_config_valid(at, size) ? lend_config_busy(fn) : -EINVAL;

	if (ret)
		return ret;
	if (lend_cfgfilter_way(&fn->filter, at, size) == LEND_CFG_VPD_DATA)
		value = get_unaligned_le32(lend_config_vpd_word(fn));
	else
		value = lend_cfgfilter_show(&fn->filter, at, size,
					    lend_config_get(fn->pdev, at, size));
	*got = *want;
	got->value = cpu_to_le32(value);
	return 0;
}

/*
 * As vfio-pci does: the size is not below the payload size, where it would cost throughput and help
 * nobody, and not above what the host bridge can stand (the kernel's own limit).
 */
static void lend_config_set_readrq(struct lend_fn *fn, u16 devctl)
{
	int readrq = 128 << ((devctl & PCI_EXP_DEVCTL_READRQ) >> 12);
	int ret = pcie_set_readrq(fn->pdev, max(readrq, pcie_get_mps(fn->pdev)));

	/* The guest may have asked for a reserved size: the device keeps the one that it has. */
	if (ret)
		pci_dbg(fn->pdev, "read requests of %d bytes refused (%d)\n", readrq, ret);
}

/* Group lock. */
static int lend_config_write_now(struct lend_fn *fn, u32 at, u32 size, u32 value)
{
	int ret = lend_config_busy(fn);

	if (ret)
		return ret;
	/* Device Control is never written as it comes, but the size of read requests is set. */
	if (fn->pdev->pcie_cap && at == fn->pdev->pcie_cap + PCI_EXP_DEVCTL && size == 2) {
		lend_config_set_readrq(fn, value);
		return 0;
	}
	/* Nor is COMMAND, but a device that is turned on has its BARs then, as under vfio-pci. */
	if (at == PCI_COMMAND && size == 2) {
		lend_reset_heal(fn);
		return 0;
	}
	switch (lend_cfgfilter_way(&fn->filter, at, size)) {
	case LEND_CFG_RAW:
		/* In one piece: what a write does may depend on its size. */
		lend_config_put(fn->pdev, at, size, value);
		return 0;
	case LEND_CFG_VPD_DATA:
		put_unaligned_le32(value, lend_config_vpd_word(fn));
		return 0;
	default:
		return -EPERM;
	}
}

static int lend_config_move_word(struct pci_dev *pdev, u16 addr, u8 *word)
{
	bool write = addr & PCI_VPD_ADDR_F;
	ssize_t moved;

	if (write) {
		moved = pci_write_vpd(pdev, addr & PCI_VPD_ADDR_MASK, 4, word);
	} else {
		/* Behind the end of the data there are zeroes. */
		memset(word, 0, 4);
		moved = pci_read_vpd(pdev, addr, 4, word);
	}
	/* A borrower takes -ETIMEDOUT for a lender that does not answer. */
	if (moved == -ETIMEDOUT || (write && moved >= 0 && moved != 4))
		return -EIO;
	return min(moved, 0);
}

/*
 * The kernel looks for the end of the data once, which is as long as there are items in them.  That
 * only reads, so it is done before anybody has to wait for it.
 */
static void lend_config_learn_vpd(struct pci_dev *pdev)
{
	u8 first;

	if (!READ_ONCE(pdev->vpd.len))
		pci_read_vpd(pdev, 0, 1, &first);
}

/* The borrower's word, as it is or as it is to be.  Context: takes the group lock. */
static int lend_config_swap_word(struct lend_fn *fn, struct dlend_link *link, u32 epoch, u8 *word,
				 bool store)
{
	int ret = lend_lease_enter(fn, link, epoch);
	u8 *mine;

	if (ret)
		return ret;
	mine = lend_config_vpd_word(fn);
	if (store)
		memcpy(mine, word, sizeof(fn->vpd.data));
	else
		memcpy(word, mine, sizeof(fn->vpd.data));
	ret = lend_config_busy(fn);
	lend_lease_exit(fn);
	return ret;
}

/*
 * Not under the group lock, as a fence must not wait for a device.  Under reset_lock, so that the
 * word is moved before the reset that ends the lease: nobody's write reaches the next lease.
 */
static int lend_config_vpd(struct lend_fn *fn, struct dlend_link *link, u32 epoch, u16 addr)
{
	u8 word[sizeof(fn->vpd.data)];
	int ret;

	ret = lend_config_swap_word(fn, link, epoch, word, false);
	if (ret)
		return ret;
	lend_config_learn_vpd(fn->pdev);
	guard(mutex)(&fn->group->reset_lock);
	ret = lend_config_swap_word(fn, link, epoch, word, false);
	if (!ret)
		ret = lend_config_move_word(fn->pdev, addr, word);
	if (!ret && !(addr & PCI_VPD_ADDR_F))
		ret = lend_config_swap_word(fn, link, epoch, word, true);
	return ret;
}

/* Write a register for the borrower. */
static int lend_config_write(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
			     const struct dlend_p_cfg *want)
{
	u32 at = le16_to_cpu(want->offset), size = le16_to_cpu(want->size);
	u32 value = le32_to_cpu(want->value);
	int ret;

	if (!lend_config_valid(at, size))
		return -EINVAL;
	if (lend_cfgfilter_way(&fn->filter, at, size) == LEND_CFG_VPD_ADDR)
		return lend_config_vpd(fn, link, epoch, value);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	ret = lend_config_write_now(fn, at, size, value);
	lend_lease_exit(fn);
	return ret;
}

/* Between looks whether an administrator still keeps a device from being stopped. */
#define LEND_HOLD_POLL_MS	10

static int lend_request_dma_map(struct lend_fn *fn, const struct dlend_p_dma *dma)
{
	u32 count = min_t(u32, le32_to_cpu(dma->count), DLEND_DMA_PER_MSG);
	struct lend_reach to;

	for (u32 i = 0; i < count; i++)
		lend_p2p_yield(fn, le64_to_cpu(dma->entry[i].gpa),
			       le64_to_cpu(dma->entry[i].size));
	lend_dma_reach(fn, &to);
	return lend_dma_map(fn, &to, dma);
}

static int lend_request_dma_unmap(struct lend_fn *fn, const struct dlend_p_dma *dma)
{
	struct lend_reach to;

	lend_dma_reach(fn, &to);
	return lend_dma_unmap(fn, &to, dma);
}

static int lend_request_bus_master(struct lend_fn *fn, bool on)
{
	if (on)
		fn->reset_asked = 0;
	while (!on && READ_ONCE(fn->hold_stop))
		msleep(LEND_HOLD_POLL_MS);
	lend_reset_heal(fn);
	lend_fence_bus_master(fn, on);
	return 0;
}

static int lend_request_irq_setup(struct lend_fn *fn, u32 mode, u32 count)
{
	/* VMMs turn INTx on after each reset, whether anybody uses it or not. */
	if (mode == DLEND_IRQ_MSI || mode == DLEND_IRQ_MSIX)
		fn->reset_asked = 0;
	lend_reset_heal(fn);
	return lend_irq_setup(fn, mode, count, NULL, NULL);
}

/* Requests that only the holder may send.  Group lock; the lease was checked. */
static int lend_request_of_holder(struct lend_fn *fn, const struct dlend_msg *msg,
				  struct dlend_msg *reply)
{
	const void *p = msg->payload;
	const struct dlend_p_u32 *number = p;
	const struct dlend_p_irq *irq = p;

	switch (le16_to_cpu(msg->type)) {
	case DLEND_MSG_DMA_MAP:
		return lend_request_dma_map(fn, p);
	case DLEND_MSG_DMA_UNMAP:
		return lend_request_dma_unmap(fn, p);
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
	}
	return -EPROTO;
}

/* May the peer act for the function now?  Asked before the peer's memory is read for that. */
static int lend_request_check(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	int ret = lend_lease_enter(fn, link, epoch);

	if (!ret)
		lend_lease_exit(fn);
	return ret;
}

/* The borrower's memory is read before the group lock is taken. */
static int lend_request_irq_direct(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
				   const struct dlend_p_direct *p)
{
	u32 count = le32_to_cpu(p->count);
	struct dlend_p_message *message;
	int ret = lend_request_check(fn, link, epoch);

	if (ret)
		return ret;
	if (!count || count > DLEND_MAX_VECTORS)
		return -EINVAL;
	message = kvcalloc(count, sizeof(*message), GFP_KERNEL);
	if (!message)
		return -ENOMEM;
	ret = dlend_link_messages(link, le64_to_cpu(p->table), count, message);
	if (!ret)
		ret = lend_lease_enter(fn, link, epoch);
	if (!ret) {
		fn->reset_asked = 0;
		lend_reset_heal(fn);
		ret = lend_irq_setup(fn, le32_to_cpu(p->mode), count, p, message);
		lend_lease_exit(fn);
	}
	kvfree(message);
	return ret;
}

/* The target is looked for, and its grant is waited for, before the group lock is taken. */
static int lend_request_p2p_map(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
				const struct dlend_p_p2p *p)
{
	struct dlend_addr addr = dlend_p2p_target(p);
	struct lend_fn *target = lend_fn_find(&addr);
	int ret;

	lend_foreign_await(link, p);
	ret = lend_lease_enter(fn, link, epoch);
	if (!ret) {
		ret = lend_p2p_map(fn, link, p, target);
		lend_lease_exit(fn);
	}
	if (target)
		lend_fn_put(target);
	return ret;
}

/*
 * Reset of a function for the guest: the lease and its DMA maps stay.  The device decodes no
 * addresses meanwhile, so nobody may reach its BARs.  After a reset that failed nobody reaches
 * them until a reset succeeds.  The reset is not made under the group lock: if the link is lost
 * meanwhile, the fence must not wait.
 */
static int lend_request_reset(struct lend_fn *fn, struct dlend_link *link, u32 epoch)
{
	int ret;

	guard(mutex)(&fn->group->reset_lock);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	/* A guest that resets its device goes on here. */
	lend_move_running(fn);
	lend_fence_bus_master(fn, false);
	lend_irq_setup(fn, DLEND_IRQ_NONE, 0, NULL, NULL);
	lend_fence_hide(fn, LEND_HIDDEN_REQUEST);
	fn->reset_asked = jiffies ?: 1;
	lend_lease_exit(fn);

	if (fn->shared_reset)
		ret = lend_bus_reset_request(fn);
	else
		ret = lend_reset_fn(fn, "request", false);
	if (ret) {
		dev_err_ratelimited(&fn->pdev->dev, "reset for node %u failed (%d)\n",
				    dlend_link_peer(link), ret);
		return ret;
	}
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		return ret;
	/* If somebody else's reset has begun by now, the end of that reset shows the BARs. */
	ret = lend_fence_show(fn, LEND_HIDDEN_REQUEST);
	lend_lease_exit(fn);
	return ret;
}

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
	case DLEND_MSG_MOVE_TO:
		return lend_move_to(fn, link, epoch, (const void *)msg->payload);
	case DLEND_MSG_STANDBY:
		return lend_move_standby(fn, link, (const void *)msg->payload, reply);
	case DLEND_MSG_QUIESCE:
		return lend_move_quiesce(fn, link, epoch, (void *)reply->payload);
	case DLEND_MSG_RUN:
		return lend_move_run(fn, link, epoch);
	case DLEND_MSG_HAND_OVER:
		return lend_move_hand_over(fn, link, epoch, (void *)reply->payload);
	case DLEND_MSG_TAKE_OVER:
		return lend_move_take_over(fn, link, epoch, (const void *)msg->payload);
	}
	lend_bus_reset_await(fn);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret == -ESTALE && (type == DLEND_MSG_DMA_MAP || type == DLEND_MSG_DMA_UNMAP))
		return lend_move_memory(fn, link, msg);
	if (ret)
		return ret;
	ret = lend_request_of_holder(fn, msg, reply);
	lend_lease_exit(fn);
	return ret;
}

/* What -ESTALE means, for the log. */
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

static int lend_request_handle(struct dlend_link *link, const struct dlend_msg *msg,
			       struct dlend_msg *reply)
{
	struct dlend_addr addr = dlend_msg_addr(msg);
	u16 type = le16_to_cpu(msg->type);
	struct lend_fn *fn;
	int ret;

	if (type == DLEND_MSG_SUBSCRIBE) {
		lend_outbox_subscribe(link);
		return 0;
	}
	if (type == DLEND_MSG_P2P_WINDOW || type == DLEND_MSG_P2P_CLOSE ||
	    type == DLEND_MSG_P2P_CLOSED)
		return lend_p2p_message(link, msg);
	if (!reply && type != DLEND_MSG_IRQ_UNMASK)
		return -EPROTO;
	fn = lend_fn_find(&addr);
	if (!fn && type == DLEND_MSG_RETURN) {
		/* Unbound meanwhile; the borrower still says that it has forgotten the offsets. */
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
	lend_outbox_open(link);
	lend_outbox_tell_peers();
}

/*
 * A fence waits for the locks that messages are worked at with.  This host may be short of memory,
 * and swap to a device that it has from a peer which is gone: so nobody waits for I/O meanwhile.
 */
static int lend_request_message(struct dlend_link *link, const struct dlend_msg *msg,
				struct dlend_msg *reply)
{
	unsigned int noio = memalloc_noio_save();
	int ret = lend_request_handle(link, msg, reply);

	memalloc_noio_restore(noio);
	return ret;
}

static void lend_request_link_down(struct dlend_link *link)
{
	unsigned int noio = memalloc_noio_save();

	lend_lease_link_lost(link);
	lend_p2p_link_lost(link);
	lend_outbox_close(link);
	lend_outbox_tell_peers();
	memalloc_noio_restore(noio);
}

static void lend_request_vouched(void)
{
	lend_outbox_subscribe(NULL);
}

struct dlend_link_user lend_link_user = {
	.link_up = lend_request_link_up,
	.link_down = lend_request_link_down,
	.message = lend_request_message,
	.suspend = lend_lease_suspend,
	.resume = lend_lease_resume,
	.shutdown = lend_lease_shutdown,
	.vouched = lend_request_vouched,
	.side = DLEND_TO_LENDER,
};
