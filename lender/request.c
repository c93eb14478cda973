// SPDX-License-Identifier: GPL-2.0
/*
 * The lender as a user of links: what borrowers and other lenders ask, and links that come and go.
 * There is one function per type of message, a table of them, and the rule that only the holder of
 * the lease may send most of them.
 *
 * A request comes from another host: its form was checked before (dlend_msg_check()); what it means
 * is checked here and in the files below.
 *
 * Knows nothing of what a link is made of.
 */
#include <linux/delay.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "lender/bars.h"
#include "lender/bus_reset.h"
#include "lender/config.h"
#include "lender/dma.h"
#include "lender/fence.h"
#include "lender/irq.h"
#include "lender/lease.h"
#include "lender/move.h"
#include "lender/outbox.h"
#include "lender/p2p.h"
#include "lender/p2p_foreign.h"
#include "lender/p2p_grants.h"
#include "lender/registry.h"
#include "lender/request.h"
#include "lender/reset.h"
#include "lender/rom.h"

/* Between looks whether an administrator still keeps a device from being stopped. */
#define LEND_HOLD_POLL_MS	10

/* Serves a request about a function.  Context: process, group lock; the lease was checked. */
typedef int (*lend_request_fn)(struct lend_fn *fn, struct dlend_link *link,
			       const struct dlend_msg *msg, struct dlend_msg *reply);

static int lend_request_dma_map(struct lend_fn *fn, struct dlend_link *link,
				const struct dlend_msg *msg, struct dlend_msg *reply)
{
	const struct dlend_p_dma *dma = (const void *)msg->payload;
	struct lend_reach to;
	u32 count = min_t(u32, le32_to_cpu(dma->count), DLEND_DMA_PER_MSG);

	for (u32 i = 0; i < count; i++)
		lend_p2p_yield(fn, le64_to_cpu(dma->entry[i].gpa),
			       le64_to_cpu(dma->entry[i].size));
	lend_dma_reach(fn, &to);
	return lend_dma_map(fn, &to, dma);
}

static int lend_request_dma_unmap(struct lend_fn *fn, struct dlend_link *link,
				  const struct dlend_msg *msg, struct dlend_msg *reply)
{
	struct lend_reach to;

	lend_dma_reach(fn, &to);
	return lend_dma_unmap(fn, &to, (const void *)msg->payload);
}

static int lend_request_bus_master(struct lend_fn *fn, struct dlend_link *link,
				   const struct dlend_msg *msg, struct dlend_msg *reply)
{
	const struct dlend_p_u32 *want = (const void *)msg->payload;
	bool on = le32_to_cpu(want->value);

	if (on)
		fn->reset_asked = 0;
	while (!on && READ_ONCE(fn->hold_stop))
		msleep(LEND_HOLD_POLL_MS);
	lend_reset_heal(fn);
	lend_fence_bus_master(fn, on);
	return 0;
}

static int lend_request_cfg_read(struct lend_fn *fn, struct dlend_link *link,
				 const struct dlend_msg *msg, struct dlend_msg *reply)
{
	return lend_config_read(fn, (const void *)msg->payload, (void *)reply->payload);
}

static int lend_request_irq_setup(struct lend_fn *fn, struct dlend_link *link,
				  const struct dlend_msg *msg, struct dlend_msg *reply)
{
	const struct dlend_p_irq *want = (const void *)msg->payload;
	u32 mode = le32_to_cpu(want->mode);

	/* VMMs turn INTx on after each reset, whether anybody uses it or not. */
	if (mode == DLEND_IRQ_MSI || mode == DLEND_IRQ_MSIX)
		fn->reset_asked = 0;
	lend_reset_heal(fn);
	return lend_irq_setup(fn, mode, le32_to_cpu(want->count));
}

static int lend_request_irq_unmask(struct lend_fn *fn, struct dlend_link *link,
				   const struct dlend_msg *msg, struct dlend_msg *reply)
{
	lend_irq_unmask(fn);
	return 0;
}

static int lend_request_p2p_unmap(struct lend_fn *fn, struct dlend_link *link,
				  const struct dlend_msg *msg, struct dlend_msg *reply)
{
	return lend_p2p_unmap(fn, (const void *)msg->payload);
}

static int lend_request_p2p_grant(struct lend_fn *fn, struct dlend_link *link,
				  const struct dlend_msg *msg, struct dlend_msg *reply)
{
	return lend_grant_open(fn, (const void *)msg->payload);
}

static int lend_request_p2p_ungrant(struct lend_fn *fn, struct dlend_link *link,
				    const struct dlend_msg *msg, struct dlend_msg *reply)
{
	lend_grant_end(fn, (const void *)msg->payload);
	return 0;
}

/* Requests that only the holder may send; served under the group lock. */
static const lend_request_fn lend_requests[DLEND_MSG_TYPES] = {
	[DLEND_MSG_DMA_MAP]	= lend_request_dma_map,
	[DLEND_MSG_DMA_UNMAP]	= lend_request_dma_unmap,
	[DLEND_MSG_BUS_MASTER]	= lend_request_bus_master,
	[DLEND_MSG_CFG_READ]	= lend_request_cfg_read,
	[DLEND_MSG_IRQ_SETUP]	= lend_request_irq_setup,
	[DLEND_MSG_IRQ_UNMASK]	= lend_request_irq_unmask,
	[DLEND_MSG_P2P_UNMAP]	= lend_request_p2p_unmap,
	[DLEND_MSG_P2P_GRANT]	= lend_request_p2p_grant,
	[DLEND_MSG_P2P_UNGRANT]	= lend_request_p2p_ungrant,
};

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
		ret = lend_irq_setup_direct(fn, p, message);
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
	struct lend_group *group = fn->group;
	int ret;

	mutex_lock(&group->reset_lock);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		goto unlock;
	/* A guest that resets its device goes on here. */
	lend_move_running(fn);
	lend_fence_bus_master(fn, false);
	lend_irq_setup(fn, DLEND_IRQ_NONE, 0);
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
		goto unlock;
	}
	ret = lend_lease_enter(fn, link, epoch);
	if (ret)
		goto unlock;
	/* If somebody else's reset has begun by now, the end of that reset shows the BARs. */
	ret = lend_fence_show(fn, LEND_HIDDEN_REQUEST);
	lend_lease_exit(fn);
unlock:
	mutex_unlock(&group->reset_lock);
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
	if (type >= DLEND_MSG_TYPES || !lend_requests[type])
		return -EPROTO;
	lend_bus_reset_await(fn);
	ret = lend_lease_enter(fn, link, epoch);
	if (ret == -ESTALE && (type == DLEND_MSG_DMA_MAP || type == DLEND_MSG_DMA_UNMAP))
		return lend_move_memory(fn, link, msg);
	if (ret)
		return ret;
	ret = lend_requests[type](fn, link, msg, reply);
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

static bool lend_request_needs_reply(u16 type)
{
	return type != DLEND_MSG_IRQ_UNMASK;
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
	if (!reply && lend_request_needs_reply(type))
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

struct dlend_link_user lend_link_user = {
	.link_up = lend_request_link_up,
	.link_down = lend_request_link_down,
	.message = lend_request_message,
	.suspend = lend_lease_suspend,
	.resume = lend_lease_resume,
	.shutdown = lend_lease_shutdown,
	.vouched = lend_outbox_tell_all,
	.side = DLEND_TO_LENDER,
};
