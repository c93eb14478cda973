// SPDX-License-Identifier: GPL-2.0
/*
 * Taking a device from its lender, losing it, giving it back.
 *
 * Everything is eager, as the PCI core must not wait: when the core sees the device, it has a
 * lease, its configuration space is known, and Bus Master Enable is on.
 */
#include <linux/delay.h>
#include <linux/pci.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <dlend/borrower.h>
#include <dlend/compat.h>
#include "domain.h"
#include "fn.h"
#include "irq.h"
#include "lease.h"
#include "root.h"

/*
 * An attached device reaches its own BARs, at the bus addresses by which its driver knows them: a
 * disk may fetch commands from memory of its own.  The kernel's IO addresses of RAM are elsewhere
 * (domain.c, root.c).
 */

#define DLEND_NATIVE_REACH_MS	1000

/* It is to reach them, or not, as while it is being reset. */
static void dlend_native_reach(struct dlend_native_fn *fn, const struct dlend_lease *lease, bool on)
{
	struct dlend_p2p_member *m = &fn->p2p;
	struct dlend_p2p_dev dev;

	memcpy(&dev, &m->dev, sizeof(dev));	/* with all padding: it is compared */
	dev.epoch = lease->epoch;
	dev.source = on;
	dev.target = on;
	dlend_p2p_publish(m, &dev, lease);
	wait_event_timeout(fn->reach_wq, READ_ONCE(m->settled) || !m->joined,
			   msecs_to_jiffies(DLEND_NATIVE_REACH_MS));
}

void dlend_native_reach_begin(struct dlend_native_fn *fn)
{
	struct dlend_p2p_member *m = &fn->p2p;
	unsigned int i;

	m->owner = fn->claim.dev;
	m->party = fn;
	m->wq = &fn->reach_wq;
	m->dev.addr = *dlend_offer_addr(fn->claim.offer);
	m->dev.clique = DLEND_CFG_CLIQUE_NONE;
	for (i = 0; i < DLEND_NUM_BARS; i++) {
		/* The rest of the page of a smaller one is nobody's. */
		if (!fn->claim.lease->bar[i].phys || fn->info.bar[i].size < PAGE_SIZE)
			continue;
		m->dev.bar[i].size = fn->info.bar[i].size;
		m->dev.bar[i].gpa = dlend_cfg_bar_addr(&fn->cfg, i);
	}
	/* It is alone in its party, and no driver is told of a clique. */
	dlend_p2p_join(m, NULL);
	dlend_native_reach(fn, dlend_native_lease(fn), true);
}

/* Who has a claim of ours: no process has this number. */
#define DLEND_NATIVE_PARTY	((struct dlend_party){ .pid = -1 })
/* Somebody's last lease may not be over yet: a reset takes some time. */
#define DLEND_NATIVE_WAIT_MS	60000
#define DLEND_NATIVE_PAUSE_MS	50

static struct dlend_native_fn *dlend_native_claim_fn(struct dlend_claim *claim)
{
	return container_of(claim, struct dlend_native_fn, claim);
}

/* Its lender lets nobody reach its BARs meanwhile, itself neither. */
static int dlend_native_reset(struct dlend_native_fn *fn, struct dlend_lease *lease)
{
	int ret;

	dlend_native_reach(fn, lease, false);
	ret = dlend_lease_reset(lease);
	if (ret)
		return ret;
	dlend_native_reach(fn, lease, true);
	return dlend_lease_bus_master(lease, true) ?: dlend_native_irq_again(fn);
}

static void dlend_native_reset_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, reset_work);
	struct dlend_lease *lease = dlend_native_lease(fn);
	/* One that is asked for from now on has a turn of its own. */
	bool reset = READ_ONCE(fn->resetting);
	int ret = 0;

	if (!lease)
		return;
	if (reset)
		ret = dlend_native_reset(fn, lease);
	else
		dlend_lease_enable(lease);
	if (!ret && fn->cfg.pcie_pos)
		ret = dlend_lease_set_readrq(lease, fn->cfg.pcie_pos + PCI_EXP_DEVCTL,
					     dlend_cfg_readrq(&fn->cfg));
	if (ret) {
		dlend_native_lost(fn, reset ? "its lender could not reset it" :
				  "its lender could not set its Max_Read_Request_Size");
		return;
	}
	if (!reset)
		return;
	raw_spin_lock_irq(&fn->lock);
	fn->resetting = false;
	raw_spin_unlock_irq(&fn->lock);
}

static void dlend_native_again_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, again_work);

	if (!dlend_native_lease(fn))
		return;
	if (dlend_native_irq_again(fn))
		dlend_native_lost(fn, "its interrupts could not be set up anew");
	else
		dlend_native_irq_make_up(fn);
}

/* What the borrower calls (struct dlend_claim_ops) */

static void dlend_native_op_get(struct dlend_claim *claim)
{
	dlend_native_fn_get(dlend_native_claim_fn(claim));
}

static void dlend_native_op_put(struct dlend_claim *claim)
{
	dlend_native_fn_put(dlend_native_claim_fn(claim));
}

static bool dlend_native_op_uses(struct dlend_claim *claim, u32 epoch)
{
	struct dlend_native_fn *fn = dlend_native_claim_fn(claim);
	bool uses;

	raw_spin_lock_irq(&fn->lock);
	uses = claim->lease && claim->lease->epoch == epoch;
	raw_spin_unlock_irq(&fn->lock);
	return uses;
}

static void dlend_native_op_link_down(struct dlend_claim *claim)
{
	struct dlend_native_fn *fn = dlend_native_claim_fn(claim);

	if (!claim->lease)
		return;
	dlend_native_domain_cut(fn);
	dlend_native_lost(fn, "the link to its lender is down");
}

static bool dlend_native_op_state(struct dlend_claim *claim, u16 state, u16 holder,
				  u32 epoch)
{
	struct dlend_native_fn *fn = dlend_native_claim_fn(claim);
	bool used, over = false;

	raw_spin_lock_irq(&fn->lock);
	used = claim->lease || claim->borrowing;
	if (claim->lease)
		over = state == DLEND_OFFER_GONE ||
		       dlend_epoch_after(epoch, claim->lease->epoch) ||
		       (epoch == claim->lease->epoch && state != DLEND_OFFER_HELD);
	raw_spin_unlock_irq(&fn->lock);
	if (over) {
		dlend_native_domain_cut(fn);
		dlend_native_lost(fn, "its lender took it back");
	}
	return used;
}

static void dlend_native_op_reclaim(struct dlend_claim *claim, u32 epoch)
{
	if (dlend_native_op_uses(claim, epoch))
		dev_notice_ratelimited(claim->dev,
				       "node %u asks for its device back: dlend detach %s\n",
				       dlend_offer_addr(claim->offer)->lender,
				       dev_name(claim->dev));
}

static void dlend_native_op_error(struct dlend_claim *claim, u32 epoch)
{
	if (dlend_native_op_uses(claim, epoch))
		dlend_native_lost(dlend_native_claim_fn(claim),
				  "its lender reports an error of it");
}

/*
 * All attached devices are one party, this host, and each could fire the others' vectors.  So none
 * that somebody else makes do DMA may have such.
 */
static bool dlend_native_op_no_direct(struct dlend_claim *claim, const char **why)
{
	*why = "VFIO has this attached device";
	return dlend_native_domain_of_vfio(dlend_native_claim_fn(claim));
}

static bool dlend_native_op_irq_in_use(struct dlend_claim *claim, u32 vector)
{
	return dlend_native_claim_fn(claim)->vector[vector].taken;
}

static void dlend_native_op_irqs_again(struct dlend_claim *claim)
{
	struct dlend_native_fn *fn = dlend_native_claim_fn(claim);

	/* Once there is none, it is cancelled. */
	if (dlend_native_lease(fn))
		queue_work(claim->wq, &fn->again_work);
}

static void dlend_native_op_interrupt(struct dlend_claim *claim, u32 vector, u32 count, bool direct)
{
	struct dlend_native_fn *fn = dlend_native_claim_fn(claim);
	unsigned long flags;

	/* A direct one is not INTx: its processors need no lock that all vectors have. */
	if (!direct) {
		raw_spin_lock_irqsave(&fn->lock, flags);
		fn->intx_up = fn->irq_mode == DLEND_IRQ_INTX;
		raw_spin_unlock_irqrestore(&fn->lock, flags);
	}
	dlend_native_irq_fired(fn, vector, direct);
}

static const struct dlend_claim_ops dlend_native_claim_ops = {
	.what = "attached device",
	.user = "this host",
	.end = "dlend detach it",
	.get = dlend_native_op_get,
	.put = dlend_native_op_put,
	.uses = dlend_native_op_uses,
	.link_down = dlend_native_op_link_down,
	.state = dlend_native_op_state,
	.reclaim = dlend_native_op_reclaim,
	.error = dlend_native_op_error,
	.no_direct = dlend_native_op_no_direct,
	.irq_in_use = dlend_native_op_irq_in_use,
	.irqs_again = dlend_native_op_irqs_again,
	.interrupt = dlend_native_op_interrupt,
	/* No bar_revoked: windows of a link to another node are closed by that node's IOMMU. */
};

/* The lease */

/* Asked for on the offer's workqueue, as the borrower wants it. */
struct dlend_native_ask {
	struct work_struct work;
	struct dlend_native_fn *fn;
	struct dlend_lease *lease;
	char why[DLEND_REASON_LEN];
};

static void dlend_native_note_lease(struct dlend_native_fn *fn, struct dlend_lease *lease)
{
	raw_spin_lock_irq(&fn->lock);
	WRITE_ONCE(fn->claim.lease, lease);
	WRITE_ONCE(fn->claim.borrowing, false);
	raw_spin_unlock_irq(&fn->lock);
}

/* A grant is noted on this queue, too: what follows there may take one that is not for a stray. */
static void dlend_native_ask_work(struct work_struct *work)
{
	struct dlend_native_ask *ask = container_of(work, struct dlend_native_ask, work);

	ask->lease = dlend_lease_borrow(&ask->fn->claim, false, ask->why);
	dlend_native_note_lease(ask->fn, IS_ERR(ask->lease) ? NULL : ask->lease);
}

static int dlend_native_borrow_once(struct dlend_native_fn *fn, struct dlend_native_ask *ask)
{
	if (dlend_claim_pending(&fn->claim)) {
		strscpy(ask->why, "its last lease is not over yet");
		return -EAGAIN;
	}
	WRITE_ONCE(fn->claim.borrowing, true);
	queue_work(fn->claim.wq, &ask->work);
	flush_work(&ask->work);
	if (PTR_ERR_OR_ZERO(ask->lease) == -ETIMEDOUT)
		dlend_claim_return_stray(&fn->claim);
	return PTR_ERR_OR_ZERO(ask->lease);
}

static int dlend_native_borrow(struct dlend_native_fn *fn)
{
	struct dlend_native_ask *ask = kzalloc_obj(*ask);
	unsigned int waited;
	int ret = -ENOMEM;

	if (!ask)
		return ret;
	ask->fn = fn;
	INIT_WORK(&ask->work, dlend_native_ask_work);
	for (waited = 0; waited < DLEND_NATIVE_WAIT_MS; waited += DLEND_NATIVE_PAUSE_MS) {
		ret = dlend_native_borrow_once(fn, ask);
		if (ret != -EAGAIN || msleep_interruptible(DLEND_NATIVE_PAUSE_MS))
			break;
	}
	if (ret)
		dlend_native_fn_fails(fn, "%s", ask->why);
	kfree(ask);
	return ret;
}

static void dlend_native_return(struct dlend_native_fn *fn)
{
	struct dlend_lease *lease = fn->claim.lease;

	if (!lease)
		return;
	dlend_native_note_lease(fn, NULL);
	cancel_work_sync(&fn->reset_work);
	cancel_work_sync(&fn->vpd_work);
	cancel_work_sync(&fn->bind_work);
	cancel_work_sync(&fn->again_work);
	dlend_p2p_leave(&fn->p2p);
	dlend_lease_return(lease);
}

/* Taking and giving */

int dlend_native_take(struct dlend_native_fn *fn)
{
	int ret;

	dlend_offer_copy(fn->claim.offer, &fn->info, NULL);
	ret = dlend_native_borrow(fn);
	if (ret)
		return ret;
	ret = dlend_native_intx_make(fn);
	if (ret)
		goto give_back;
	ret = dlend_native_config_init(fn);
	if (ret) {
		if (ret == -EINVAL)
			dlend_native_fn_fails(fn,
					      "what its lender says of its configuration space makes no sense");
		goto give_back;
	}
	ret = dlend_lease_bus_master(dlend_native_lease(fn), true);
	if (ret) {
		dlend_native_fn_fails(fn, "its lender does not let it do DMA (%pe)", ERR_PTR(ret));
		goto give_back;
	}
	return 0;

give_back:
	dlend_native_return(fn);
	dlend_native_intx_free(fn);
	return ret;
}

int dlend_native_claim(struct dlend_native_fn *fn)
{
	char why[DLEND_REASON_LEN];
	int ret;

	INIT_WORK(&fn->reset_work, dlend_native_reset_work);
	INIT_WORK(&fn->vpd_work, dlend_native_config_vpd_work);
	INIT_WORK(&fn->bind_work, dlend_native_irq_bind_work);
	INIT_WORK(&fn->again_work, dlend_native_again_work);
	fn->claim.ops = &dlend_native_claim_ops;
	fn->claim.party = DLEND_NATIVE_PARTY;
	ret = dlend_offer_claim(fn->claim.offer, &fn->claim, why);
	if (ret)
		dlend_native_fn_fails(fn, "%s", why);
	return ret;
}

void dlend_native_give(struct dlend_native_fn *fn)
{
	struct dlend_offer *offer = fn->claim.offer;

	dlend_native_return(fn);
	dlend_native_intx_free(fn);
	dlend_offer_release(&fn->claim);
	dlend_offer_flush(offer);
}

int dlend_native_leases_start(void)
{
	dlend_native_wq = alloc_workqueue("dlend-native", WQ_UNBOUND, 0);
	return dlend_native_wq ? 0 : -ENOMEM;
}

void dlend_native_leases_stop(void)
{
	destroy_workqueue(dlend_native_wq);
}
