// SPDX-License-Identifier: GPL-2.0
/*
 * Attaching: all functions of a lent device's IOMMU group come into this host's PCI tree, and all
 * of them leave it.
 *
 * Whatever ends the use of a device (detach, a lost link, a lender that takes it back, an error, a
 * write to "remove" of the PCI device, an unload of the module), two steps follow: the root bus is
 * removed, which unbinds drivers; then the lease is returned.
 *
 * The PCI core must not wait for a lender.  So before it enumerates the device, the device has a
 * lease, its configuration space is known, and Bus Master Enable is on.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <dlend/borrower.h>
#include <dlend/compat.h>
#include <dlend/version.h>
#include "native.h"

/*
 * Peer-to-peer of an attached device: it reaches its own BARs, at the bus addresses by which its
 * driver knows them.  For example, a disk may fetch commands from its own memory.  These addresses
 * are no IOVAs of RAM (domain.c, root.c).
 */

#define DLEND_NATIVE_REACH_MS	1000

/*
 * Publish that the device shall reach its BARs (@on), or shall not, as before a reset, and wait
 * until it is so. After a second the caller goes on: the lender hides BARs in a reset anyhow.
 */
static void dlend_native_reach(struct dlend_native_fn *fn, const struct dlend_lease *lease, bool on)
{
	struct dlend_p2p_member *m = &fn->p2p;
	struct dlend_p2p_dev dev;

	memcpy(&dev, &m->dev, sizeof(dev));	/* with all padding, as it is compared */
	dev.epoch = lease->epoch;
	dev.source = on;
	dev.target = on;
	dlend_p2p_publish(m, &dev, lease);
	wait_event_timeout(fn->reach_wq, READ_ONCE(m->settled) || !m->joined,
			   msecs_to_jiffies(DLEND_NATIVE_REACH_MS));
}

/* Join as the only member of a peer-to-peer user; dlend_native_return() leaves. */
static void dlend_native_reach_begin(struct dlend_native_fn *fn)
{
	struct dlend_p2p_member *m = &fn->p2p;

	m->owner = fn->claim.dev;
	m->user = fn;
	m->wq = &fn->reach_wq;
	m->dev.addr = *dlend_offer_addr(fn->claim.offer);
	m->dev.clique = DLEND_CFG_CLIQUE_NONE;
	for (unsigned int i = 0; i < DLEND_NUM_BARS; i++) {
		/* A BAR below a page is left out: the rest of the page belongs to somebody else. */
		if (!fn->claim.lease->bar[i].phys || fn->info.bar[i].size < PAGE_SIZE)
			continue;
		m->dev.bar[i].size = fn->info.bar[i].size;
		m->dev.bar[i].gpa = dlend_cfg_bar_addr(&fn->cfg, i);
	}
	/* The user has no other device, and no driver is told of a clique. */
	dlend_p2p_join(m, NULL);
	dlend_native_reach(fn, fn->claim.lease, true /* on */);
}

/* This host, as the user of all attached devices: no process has this number. */
#define DLEND_NATIVE_USER	((struct dlend_user){ .pid = -1 })
/* How long to wait for the end of the device's last lease, which includes its reset */
#define DLEND_NATIVE_WAIT_MS	60000
#define DLEND_NATIVE_PAUSE_MS	50	/* between two tries */

static struct dlend_native_fn *dlend_native_claim_fn(struct dlend_claim *claim)
{
	return container_of(claim, struct dlend_native_fn, claim);
}

/*
 * Have the lender reset a device, and set Bus Master Enable and interrupts up again.  During the
 * reset, the lender lets no device reach these BARs, not even the device itself. Return: 0, -errno
 */
static int dlend_native_reset(struct dlend_native_fn *fn, struct dlend_lease *lease)
{
	int ret;

	dlend_native_reach(fn, lease, false /* off */);
	ret = dlend_lease_reset(lease);
	if (ret)
		return ret;
	dlend_native_reach(fn, lease, true /* on */);
	return dlend_lease_bus_master(lease, true) ?: dlend_native_irq_again(fn);
}

/*
 * dlend_native_fn.reset_work: a write to configuration space has asked for a reset, or has turned
 * the device on (then the lender restores what a reset without its help has cleared), or has
 * changed Max_Read_Request_Size.  If the lender cannot do it, the device is lost.
 */
static void dlend_native_reset_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, reset_work);
	struct dlend_lease *lease = fn->claim.lease;
	/* If a reset is asked for after this line, this work is queued again. */
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

/*
 * Set interrupts up once more, as they have to come in another way.  Some may be lost meanwhile, so
 * all vectors are handled once.
 */
static void dlend_native_again_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, again_work);

	if (!fn->claim.lease)
		return;
	if (dlend_native_irq_again(fn))
		dlend_native_lost(fn, "its interrupts could not be set up anew");
	else
		dlend_native_irq_handle_all(fn);
}

/* What the borrower calls (struct dlend_claim_ops) */

static void dlend_native_op_get(struct dlend_claim *claim)
{
	kref_get(&dlend_native_claim_fn(claim)->ref);
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
	dlend_native_domain_revoke(fn);
	dlend_native_lost(fn, "the link to its lender is down");
}

/* If the lender's report says that the lease is over, cut the device off and mark it as lost. */
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
		dlend_native_domain_revoke(fn);
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
 * All attached devices have one user, this host, and each of them can write the messages of the
 * others' direct vectors.  So a device gets no direct vectors while a program or a guest has it by
 * VFIO, and decides what DMA it does.
 */
static bool dlend_native_op_no_direct(struct dlend_claim *claim, const char **why)
{
	*why = "VFIO has this attached device";
	return dlend_native_domain_of_vfio(dlend_native_claim_fn(claim));
}

/* Has the interrupt core allocated the vector?  The borrower calls this while irq_lock is held. */
static bool dlend_native_op_irq_in_use(struct dlend_claim *claim, u32 vector)
{
	return dlend_native_claim_fn(claim)->vector[vector].taken;
}

static void dlend_native_op_irqs_again(struct dlend_claim *claim)
{
	struct dlend_native_fn *fn = dlend_native_claim_fn(claim);

	/* When the lease is given back, dlend_native_return() cancels this work. */
	if (fn->claim.lease)
		queue_work(claim->wq, &fn->again_work);
}

static void dlend_native_op_interrupt(struct dlend_claim *claim, u32 vector, u32 count, bool direct)
{
	struct dlend_native_fn *fn = dlend_native_claim_fn(claim);
	unsigned long flags;

	/* A direct interrupt is never INTx, and all vectors would contend for this lock. */
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
	.in_core = true,
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
	/*
	 * No bar_revoked: the borrower calls it for BARs of this host's own devices only, and these
	 * cannot be attached.  Accesses to a BAR of another node are blocked by its IOMMU.
	 */
};

/* The lease */

/* A request for a lease: dlend_lease_borrow() has to run on the offer's workqueue. */
struct dlend_native_ask {
	struct work_struct work;
	struct dlend_native_fn *fn;
	struct dlend_lease *lease;
	char why[DLEND_REASON_LEN];
};

/* Set the claim's lease; NULL: there is none any more, or the lender has granted none. */
static void dlend_native_note_lease(struct dlend_native_fn *fn, struct dlend_lease *lease)
{
	raw_spin_lock_irq(&fn->lock);
	WRITE_ONCE(fn->claim.lease, lease);
	WRITE_ONCE(fn->claim.borrowing, false);
	raw_spin_unlock_irq(&fn->lock);
}

/*
 * Borrow, and note the lease in the same work: leases that nobody uses (strays) are returned on
 * this workqueue, and a lease that is granted but not noted yet would be taken for a stray.
 */
static void dlend_native_ask_work(struct work_struct *work)
{
	struct dlend_native_ask *ask = container_of(work, struct dlend_native_ask, work);

	ask->lease = dlend_lease_borrow(&ask->fn->claim, false /* no standby */, ask->why);
	dlend_native_note_lease(ask->fn, IS_ERR(ask->lease) ? NULL : ask->lease);
}

/* Return: 0; -EAGAIN the last lease is not over yet; or as dlend_lease_borrow() */
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

/* Borrow, and wait for the end of the last lease if needed. Return: 0, or -errno and @fn->why. */
static int dlend_native_borrow(struct dlend_native_fn *fn)
{
	struct dlend_native_ask ask = { .fn = fn };
	unsigned int waited;
	int ret;

	INIT_WORK_ONSTACK(&ask.work, dlend_native_ask_work);
	for (waited = 0; waited < DLEND_NATIVE_WAIT_MS; waited += DLEND_NATIVE_PAUSE_MS) {
		ret = dlend_native_borrow_once(fn, &ask);
		if (ret != -EAGAIN || msleep_interruptible(DLEND_NATIVE_PAUSE_MS))
			break;
	}
	destroy_work_on_stack(&ask.work);
	if (ret)
		dlend_native_fn_fails(fn, "%s", ask.why);
	return ret;
}

/* Return the lease, if there is one. The device is in no PCI tree any more. */
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

/* Borrowing one function, with all that it needs before it is enumerated */

/*
 * Borrow a claimed function. Return: 0; or -errno: then the function is still claimed, but has no
 * lease, and @fn->why says why, unless this host's kernel has failed (memory, interrupts).
 */
static int dlend_native_take(struct dlend_native_fn *fn)
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
	ret = dlend_lease_bus_master(fn->claim.lease, true /* on */);
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

/* A lender offers the functions of a group one after the other: how long to wait for all of them */
#define DLEND_NATIVE_WHOLE_MS	10000
#define DLEND_NATIVE_WHOLE_PAUSE_MS	20	/* between two checks */

/*
 * struct dlend_native_place - what this file knows of an offer: is it attached, and as what?
 * @node: in dlend_native_places
 * @with: while @busy: in the list of the places of its IOMMU group, which one thread has
 * @offer: the offer; the place goes when the offer vanishes
 * @fn: the function that is attached or is about to be, or NULL
 * @group: while @busy or attached: number of the IOMMU group on the lender, or -errno
 *	(dlend_native_group_of()). Later messages of the lender do not change it
 * @busy: one thread attaches or detaches the group. The thread does not hold attach_lock meanwhile,
 *	as drivers and lenders take their time
 * @why: why the last attempt failed; "" if it did not
 *
 * All under dlend_native_attach_lock, except @with, which belongs to the thread that has the group.
 */
struct dlend_native_place {
	struct list_head node, with;
	struct dlend_offer *offer;
	struct dlend_native_fn *fn;
	int group;
	bool busy;
	char why[DLEND_REASON_LEN];
};

static DEFINE_MUTEX(dlend_native_attach_lock);
static LIST_HEAD(dlend_native_places);
static DECLARE_WAIT_QUEUE_HEAD(dlend_native_idle);
static unsigned int dlend_native_turns;		/* how often a group has ceased to be busy */

static void dlend_native_lost_work(struct work_struct *work);

/* IOMMU groups of lenders: attach_lock is held */

/*
 * Return: number of the IOMMU group that an offer is in; or -errno: the lender does not offer the
 * device now, so its group is not known.
 */
static int dlend_native_group_of(struct dlend_native_place *place)
{
	unsigned int size;

	if (place->busy || place->fn)
		return place->group;
	return dlend_offer_group(place->offer, &size);
}

/* Is @place @of itself, or an offer of the same lender in IOMMU group @group? */
static bool dlend_native_in_group(struct dlend_native_place *place, struct dlend_native_place *of,
				  int group)
{
	return place == of || (group >= 0 && dlend_native_group_of(place) == group &&
			       dlend_offer_addr(place->offer)->lender ==
			       dlend_offer_addr(of->offer)->lender);
}

static bool dlend_native_same_group(struct dlend_native_place *a, struct dlend_native_place *b)
{
	return dlend_native_in_group(a, b, dlend_native_group_of(b));
}

/*
 * Mark the places of the group of @of as busy, and list them in @group: only this thread attaches
 * or detaches them until dlend_native_group_end().
 */
static void dlend_native_group_begin(struct dlend_native_place *of, struct list_head *group)
{
	int number = dlend_native_group_of(of);
	struct dlend_native_place *place;

	lockdep_assert_held(&dlend_native_attach_lock);
	list_for_each_entry(place, &dlend_native_places, node) {
		if (place->busy || !dlend_native_in_group(place, of, number))
			continue;
		place->group = number;
		place->busy = true;
		list_add_tail(&place->with, group);
	}
}

/* The places in @group are not busy any more; wake those who wait for that. */
static void dlend_native_group_end(struct list_head *group)
{
	struct dlend_native_place *place;

	lockdep_assert_held(&dlend_native_attach_lock);
	list_for_each_entry(place, group, with)
		place->busy = false;
	dlend_native_turns++;
	wake_up_all(&dlend_native_idle);
}

/*
 * How many functions of the group of @of has its lender not offered yet? 0 also if @of is not
 * available: then claiming it fails, and says why.
 */
static unsigned int dlend_native_group_lacks(struct dlend_native_place *of)
{
	struct dlend_native_place *place;
	unsigned int size = 0, here = 0;

	if (!dlend_offer_available(of->offer) || dlend_offer_group(of->offer, &size) < 0)
		return 0;
	list_for_each_entry(place, &dlend_native_places, node)
		here += dlend_native_same_group(place, of);
	return here < size ? size - here : 0;
}

/* Is a thread attaching or detaching the group of @of? */
static bool dlend_native_group_busy(struct dlend_native_place *of)
{
	struct dlend_native_place *place;

	list_for_each_entry(place, &dlend_native_places, node)
		if (place->busy && dlend_native_same_group(place, of))
			return true;
	return false;
}

/* Drop attach_lock, wait until a group, any one, is not busy any more, and take attach_lock. */
static void dlend_native_await_turn(void)
{
	unsigned int turns = dlend_native_turns;

	mutex_unlock(&dlend_native_attach_lock);
	wait_event(dlend_native_idle, READ_ONCE(dlend_native_turns) != turns);
	mutex_lock(&dlend_native_attach_lock);
}

/* One function of a busy group: attach_lock is not held */

/* Set @fn and @why of a place. Takes attach_lock. */
static void dlend_native_place_set(struct dlend_native_place *place, struct dlend_native_fn *fn,
				   const char *why)
{
	guard(mutex)(&dlend_native_attach_lock);
	strscpy(place->why, why, sizeof(place->why));
	place->fn = fn;
}

/*
 * Make a function for a place, and claim its offer. Return: 0; or -errno and @place->why, -ENOMEM
 */
static int dlend_native_place_claim(struct dlend_native_place *place)
{
	struct dlend_native_fn *fn = dlend_native_fn_make(place->offer);
	char why[DLEND_REASON_LEN];
	int ret;

	if (!fn)
		return -ENOMEM;
	INIT_WORK(&fn->lost_work, dlend_native_lost_work);
	INIT_WORK(&fn->reset_work, dlend_native_reset_work);
	INIT_WORK(&fn->vpd_work, dlend_native_config_vpd_work);
	INIT_WORK(&fn->bind_work, dlend_native_irq_bind_work);
	INIT_WORK(&fn->again_work, dlend_native_again_work);
	fn->claim.ops = &dlend_native_claim_ops;
	fn->claim.user = DLEND_NATIVE_USER;
	ret = dlend_offer_claim(place->offer, &fn->claim, why);
	if (ret)
		dlend_native_fn_fails(fn, "%s", why);
	dlend_native_place_set(place, ret ? NULL : fn, fn->why);
	if (ret)
		dlend_native_fn_put(fn);
	return ret;
}

/* Return the lease of a place's function, and release the claim; nothing happens without one. */
static void dlend_native_place_give(struct dlend_native_place *place)
{
	struct dlend_native_fn *fn = place->fn;

	if (!fn)
		return;
	dlend_native_place_set(place, NULL, fn->why);
	dlend_native_return(fn);
	dlend_native_intx_free(fn);
	dlend_offer_release(&fn->claim);
	/* When this returns, no op of the claim is called any more. */
	dlend_offer_flush(place->offer);
	dlend_native_fn_put(fn);
}

/* A busy group: attach_lock is not held */

/* Return the leases and release the claims of all functions of a group. */
static void dlend_native_give_group(struct list_head *group)
{
	struct dlend_native_place *place;

	list_for_each_entry(place, group, with)
		dlend_native_place_give(place);
}

/*
 * Return the leases and release the claims of a group that could not be attached. Return: the first
 * place with a reason, or @of.
 */
static struct dlend_native_place *dlend_native_give_failed(struct list_head *group,
							   struct dlend_native_place *of)
{
	struct dlend_native_place *place;

	dlend_native_give_group(group);
	list_for_each_entry(place, group, with)
		if (place->why[0])
			return place;
	return of;
}

/*
 * Are the places of @group all functions of the IOMMU group, and is it the same group as before the
 * claim?  From the claim on, it does not change. Return: 0, -EAGAIN and the first function's why.
 */
static int dlend_native_group_check(struct list_head *group)
{
	struct dlend_native_place *first = list_first_entry(group, struct dlend_native_place, with);
	unsigned int size;

	if (dlend_offer_group(first->offer, &size) == first->group &&
	    list_count_nodes(group) >= size)
		return 0;
	dlend_native_fn_fails(first->fn, "its IOMMU group has changed meanwhile: try again");
	return -EAGAIN;
}

/* Claim and borrow all functions of a busy group. Return: 0; -errno: the caller gives back. */
static int dlend_native_take_group(struct list_head *group)
{
	struct dlend_native_place *place;
	int ret;

	/*
	 * Claim all before the first is borrowed: with that lease, the lender reports all of them
	 * as held, and a claim would fail.
	 */
	list_for_each_entry(place, group, with) {
		ret = dlend_native_place_claim(place);
		if (ret)
			return ret;
	}
	ret = dlend_native_group_check(group);
	list_for_each_entry(place, group, with)
		ret = ret ?: dlend_native_take(place->fn);
	return ret;
}

/* Put the borrowed functions of a group on a root bus, and have drivers bind. Return: 0, -errno. */
static int dlend_native_plug(struct list_head *group)
{
	struct dlend_native_place *place, *first;
	const struct dlend_addr *addr;
	struct dlend_native_root *root;
	bool isolated = true;
	int ret = 0;

	first = list_first_entry(group, struct dlend_native_place, with);
	addr = dlend_offer_addr(first->offer);
	list_for_each_entry(place, group, with)
		isolated &= place->fn->info.flags & DLEND_OFFER_F_ISOLATED_MSI;
	root = dlend_native_root_create(addr->lender, addr->bdf >> 8, isolated);
	if (IS_ERR(root))
		return PTR_ERR(root);
	list_for_each_entry(place, group, with)
		ret = ret ?: dlend_native_root_add_fn(root, place->fn);
	/*
	 * Before the scan: when the IOMMU core attaches functions to the domain, nothing may fail.
	 */
	list_for_each_entry(place, group, with)
		ret = ret ?: dlend_native_domain_prepare(place->fn);
	if (!ret) {
		list_for_each_entry(place, group, with)
			dlend_native_reach_begin(place->fn);
		ret = dlend_native_root_scan(root, first->fn);
	}
	if (ret)
		dlend_native_root_remove(root);
	return ret;
}

/* Attaching and detaching: attach_lock is held, and dropped during the work itself */

/* May @of be attached now? Return: 0; or -EBUSY, -EEXIST, -EINVAL, in most cases with @of->why. */
static int dlend_native_check(struct dlend_native_place *of)
{
	struct dlend_native_place *place;

	/* The thread that has the place sets @of->why. */
	if (of->busy)
		return -EBUSY;
	if (of->fn)
		return -EEXIST;
	of->why[0] = '\0';
	if (dlend_offer_addr(of->offer)->lender == dlend_node_id()) {
		strscpy(of->why,
			"it is this host's own device: dlend reclaim gives it back to its driver");
		return -EINVAL;
	}
	if (dlend_native_group_busy(of)) {
		strscpy(of->why, "it is being attached or detached");
		return -EBUSY;
	}
	/* The lender has one IOMMU domain for a group, so the group is attached as a whole. */
	list_for_each_entry(place, &dlend_native_places, node) {
		if (!place->fn || !dlend_native_same_group(place, of))
			continue;
		snprintf(of->why, sizeof(of->why),
			 "%s, of the same IOMMU group, is attached already",
			 dev_name(dlend_offer_dev(place->offer)));
		return -EBUSY;
	}
	return 0;
}

/*
 * Wait until the lender has offered the whole group; attach_lock is dropped meanwhile.
 * Return: as dlend_native_check(); -EAGAIN it has not in ten seconds; -EINTR.
 */
static int dlend_native_await_whole(struct dlend_native_place *of)
{
	unsigned int waited, lacks;
	int ret;

	for (waited = 0; ; waited += DLEND_NATIVE_WHOLE_PAUSE_MS) {
		ret = dlend_native_check(of);
		if (ret)
			return ret;
		lacks = dlend_native_group_lacks(of);
		if (!lacks)
			return 0;
		if (waited >= DLEND_NATIVE_WHOLE_MS)
			break;
		mutex_unlock(&dlend_native_attach_lock);
		msleep_interruptible(DLEND_NATIVE_WHOLE_PAUSE_MS);
		mutex_lock(&dlend_native_attach_lock);
		if (signal_pending(current))
			return -EINTR;
	}
	snprintf(of->why, sizeof(of->why),
		 "node %u lends its IOMMU group, but has not told of %u of its functions: see this host's log",
		 dlend_offer_addr(of->offer)->lender, lacks);
	return -EAGAIN;
}

/*
 * Set and log a reason, if there is none yet: such a failure is none that an administrator can
 * mend, and usually memory is short. The error need not say so: the PCI core does not check
 * dev_set_name(), and device_add() answers -EINVAL if there is no name.
 */
static void dlend_native_place_explain(struct dlend_native_place *place, int err)
{
	if (place->why[0])
		return;
	snprintf(place->why, sizeof(place->why),
		 "this host's kernel could not (%pe): mostly for lack of memory", ERR_PTR(err));
	dev_err(dlend_offer_dev(place->offer), "not attached: %s\n", place->why);
}

/* Attach the group of @of. Return: 0; or -errno and @of->why. */
static int dlend_native_attach(struct dlend_native_place *of)
{
	struct dlend_native_place *place, *failed = of;
	LIST_HEAD(group);
	int ret;

	ret = dlend_native_await_whole(of);
	if (ret)
		return ret;
	dlend_native_group_begin(of, &group);
	list_for_each_entry(place, &group, with)
		place->why[0] = '\0';
	mutex_unlock(&dlend_native_attach_lock);
	ret = dlend_native_take_group(&group) ?: dlend_native_plug(&group);
	if (ret)
		failed = dlend_native_give_failed(&group, of);
	mutex_lock(&dlend_native_attach_lock);
	/* If a function was lost before place->fn was set, its lost_work has found no place. */
	list_for_each_entry(place, &group, with)
		if (place->fn && READ_ONCE(place->fn->dead))
			dlend_native_queue_lost(place->fn);
	if (ret)
		dlend_native_place_explain(failed, ret);
	if (ret && failed != of)
		snprintf(of->why, sizeof(of->why), "%s, of the same IOMMU group: %.180s",
			 dev_name(dlend_offer_dev(failed->offer)), failed->why);
	dlend_native_group_end(&group);
	return ret;
}

/* Detach the group of @of, which is attached and not busy. */
static void dlend_native_detach(struct dlend_native_place *of)
{
	LIST_HEAD(group);

	dlend_native_group_begin(of, &group);
	mutex_unlock(&dlend_native_attach_lock);
	/* All of the group that are attached are on one root bus. */
	dlend_native_root_remove(of->fn->root);
	dlend_native_give_group(&group);
	mutex_lock(&dlend_native_attach_lock);
	dlend_native_group_end(&group);
}

/* Return: the place of a function; NULL: it is not attached any more, or not yet. */
static struct dlend_native_place *dlend_native_place_of(const struct dlend_native_fn *fn)
{
	struct dlend_native_place *place;

	list_for_each_entry(place, &dlend_native_places, node)
		if (place->fn == fn)
			return place;
	return NULL;
}

/* Detach the group of a function that was lost, unless it is detached already. */
static void dlend_native_lost_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, lost_work);
	struct dlend_native_place *place;

	mutex_lock(&dlend_native_attach_lock);
	while ((place = dlend_native_place_of(fn)) && dlend_native_group_busy(place))
		dlend_native_await_turn();
	if (place)
		dlend_native_detach(place);
	mutex_unlock(&dlend_native_attach_lock);
	dlend_native_fn_put(fn);
}

/* Attributes of an offer */

/* Return: the place of an offer's device, valid while attach_lock is held; or NULL. */
static struct dlend_native_place *dlend_native_find(struct device *dev)
{
	struct dlend_native_place *place;

	lockdep_assert_held(&dlend_native_attach_lock);
	list_for_each_entry(place, &dlend_native_places, node)
		if (dlend_offer_dev(place->offer) == dev)
			return place;
	return NULL;
}

static ssize_t attached_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_native_place *place;
	struct pci_dev *pdev;

	guard(mutex)(&dlend_native_attach_lock);
	place = dlend_native_find(dev);
	/* While the place is being attached, the device may not be enumerated yet. */
	pdev = place && place->fn ? READ_ONCE(place->fn->pdev) : NULL;
	return sysfs_emit(buf, "%s\n", pdev ? pci_name(pdev) : "no");
}

static ssize_t attached_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t count)
{
	struct dlend_native_place *place;
	bool on;
	int ret = kstrtobool(buf, &on);

	if (ret)
		return ret;
	guard(mutex)(&dlend_native_attach_lock);
	place = dlend_native_find(dev);
	if (!place)
		return -ENODEV;
	if (on)
		ret = dlend_native_attach(place);
	else if (dlend_native_group_busy(place))
		ret = -EBUSY;
	else if (place->fn)
		dlend_native_detach(place);
	return ret ?: count;
}
static DEVICE_ATTR_RW(attached);

static ssize_t attach_error_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_native_place *place;

	guard(mutex)(&dlend_native_attach_lock);
	place = dlend_native_find(dev);
	return sysfs_emit(buf, "%s\n", place ? place->why : "");
}
static DEVICE_ATTR_RO(attach_error);

static struct attribute *dlend_native_attrs[] = {
	&dev_attr_attached.attr,
	&dev_attr_attach_error.attr,
	NULL
};

static const struct attribute_group dlend_native_attr_group = {
	.attrs = dlend_native_attrs,
};

/* debugfs: dlend/native/ADDRESS */

static struct dentry *dlend_native_debugfs;

static int dlend_native_show(struct seq_file *m, void *unused)
{
	struct dlend_native_place *place = m->private;
	struct dlend_native_fn *fn;

	guard(mutex)(&dlend_native_attach_lock);
	fn = place->fn;
	seq_printf(m, "attached: %s\n", fn ? "yes" : "no");
	if (!fn)
		return 0;
	seq_printf(m, "messages: %lld\nvectors: %u\n", atomic64_read(&fn->claim.messages),
		   READ_ONCE(fn->irq_count));
	dlend_native_domain_show(fn, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dlend_native);

/* What the borrower calls for offers (struct dlend_offer_user) */

/*
 * On this event, udev rules attach a device that the administrator has attached with --persistent.
 */
static void dlend_native_freed(struct dlend_offer *offer)
{
	char ready[] = "DLEND_ATTACH=ready";
	char *event[2] = { ready };

	kobject_uevent_env(&dlend_offer_dev(offer)->kobj, KOBJ_CHANGE, event);
}

static int dlend_native_appeared(struct dlend_offer *offer)
{
	struct dlend_native_place *place = kzalloc_obj(*place);
	int ret;

	if (!place)
		return -ENOMEM;
	place->offer = offer;
	/* Before the place is listed: from then on, a thread may attach it with its group. */
	ret = device_add_group(dlend_offer_dev(offer), &dlend_native_attr_group);
	if (ret) {
		kfree(place);
		return ret;
	}
	mutex_lock(&dlend_native_attach_lock);
	list_add_tail(&place->node, &dlend_native_places);
	mutex_unlock(&dlend_native_attach_lock);
	debugfs_create_file(dev_name(dlend_offer_dev(offer)), 0444, dlend_native_debugfs, place,
			    &dlend_native_fops);
	if (dlend_offer_available(offer))
		dlend_native_freed(offer);
	return 0;
}

/* Wait until the offer's group is not busy, detach it if it is attached, and forget the place. */
static void dlend_native_vanishes(struct dlend_offer *offer)
{
	struct dlend_native_place *place;

	device_remove_group(dlend_offer_dev(offer), &dlend_native_attr_group);
	debugfs_lookup_and_remove(dev_name(dlend_offer_dev(offer)), dlend_native_debugfs);
	mutex_lock(&dlend_native_attach_lock);
	place = dlend_native_find(dlend_offer_dev(offer));
	while (place && (place->fn || dlend_native_group_busy(place))) {
		if (dlend_native_group_busy(place))
			dlend_native_await_turn();
		else
			dlend_native_detach(place);
	}
	if (place)
		list_del(&place->node);
	mutex_unlock(&dlend_native_attach_lock);
	kfree(place);
}

static struct dlend_offer_user dlend_native_user = {
	.appeared = dlend_native_appeared,
	.freed = dlend_native_freed,
	.vanishes = dlend_native_vanishes,
};

/*
 * The PCI core has removed a device. If its attribute "remove" was the reason, have the group
 * detached; if it is a detach itself, lost_work finds no place and does nothing.
 */
static void dlend_native_removed(struct dlend_native_fn *fn)
{
	/*
	 * Until then, a rescan must not enumerate the device again: the IOMMU core would give it a
	 * domain that is not prepared.
	 */
	raw_spin_lock_irq(&fn->lock);
	fn->dead = true;
	raw_spin_unlock_irq(&fn->lock);
	dlend_native_queue_lost(fn);
}

/* For all PCI devices of this host; @data: the device. */
static int dlend_native_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	struct dlend_native_fn *fn = dlend_native_fn_of(to_pci_dev(data));

	if (action == BUS_NOTIFY_UNBIND_DRIVER)
		dlend_native_ntb_leaves(data);
	else if (action == BUS_NOTIFY_UNBOUND_DRIVER)
		dlend_native_ntb_left(data);
	else if (fn && action == BUS_NOTIFY_ADD_DEVICE)
		dlend_native_iommu_add(data);
	else if (fn && action == BUS_NOTIFY_REMOVED_DEVICE)
		dlend_native_removed(fn);
	return NOTIFY_DONE;
}

/* A priority above that of the IOMMU core's notifier: dlend_native_iommu_add() must come first. */
static struct notifier_block dlend_native_nb = {
	.notifier_call = dlend_native_notify,
	.priority = 100,
};

static int __init dlend_native_init(void)
{
	int ret = dlend_native_iommu_init();

	if (ret)
		return ret;
	/* No WQ_MEM_RECLAIM: drivers that are unbound here wait for works that do without it. */
	dlend_native_wq = alloc_workqueue("dlend-native", WQ_UNBOUND, 0);
	ret = dlend_native_wq ? bus_register_notifier(&pci_bus_type, &dlend_native_nb) : -ENOMEM;
	if (ret)
		goto exit;
	dlend_native_debugfs = debugfs_create_dir("native", dlend_debugfs());
	dlend_offer_user_register(&dlend_native_user);
	return 0;

exit:
	if (dlend_native_wq)
		destroy_workqueue(dlend_native_wq);
	dlend_native_iommu_exit();
	return ret;
}

static void __exit dlend_native_exit(void)
{
	dlend_offer_user_unregister(&dlend_native_user);
	debugfs_remove(dlend_native_debugfs);
	bus_unregister_notifier(&pci_bus_type, &dlend_native_nb);
	destroy_workqueue(dlend_native_wq);
	dlend_native_iommu_exit();
	dlend_native_ntb_exit();
}

module_init(dlend_native_init);
module_exit(dlend_native_exit);
MODULE_DESCRIPTION("dlend: borrowed PCIe devices for this host's own drivers");
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
DLEND_IMPORT();
