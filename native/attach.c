// SPDX-License-Identifier: GPL-2.0
/*
 * Attaching: all functions of a lent device's IOMMU group come into this host's PCI tree, and all
 * of them leave it.
 *
 * Everything is eager, as the PCI core must not wait: the lease is taken, BARs have addresses and
 * Bus Master Enable is on before the PCI core sees the device.  However the device goes (detach,
 * a lost link, a lender that takes it back, an error, the module), the root bus is removed, which
 * unbinds drivers, and then the lease is given back.
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/borrower.h>
#include <dlend/compat.h>
#include <dlend/raw_slot.h>
#include "attach.h"
#include "config.h"
#include "fn.h"
#include "iommu.h"
#include "msi.h"
#include "root.h"

/* Who has a claim of ours: no process has this number. */
#define DLEND_NATIVE_PARTY	((pid_t)-1)
/* Somebody's last lease may not be over yet: a reset takes some time. */
#define DLEND_NATIVE_WAIT_MS	60000
#define DLEND_NATIVE_PAUSE_MS	50

/*
 * struct dlend_native_place - an offer that may be attached
 * @fn: what is attached, or NULL
 */
struct dlend_native_place {
	struct list_head node;
	struct dlend_offer *offer;
	struct dlend_native_fn *fn;
};

static struct workqueue_struct *dlend_native_wq;
static DEFINE_MUTEX(dlend_native_attach_lock);
static LIST_HEAD(dlend_native_places);

/* Functions */

static void dlend_native_fn_free(struct kref *ref)
{
	struct dlend_native_fn *fn = container_of(ref, struct dlend_native_fn, ref);

	put_device(fn->claim.dev);
	kfree(fn);
}

static void dlend_native_fn_put(struct dlend_native_fn *fn)
{
	kref_put(&fn->ref, dlend_native_fn_free);
}

static struct dlend_native_fn *dlend_native_claim_fn(struct dlend_claim *claim)
{
	return container_of(claim, struct dlend_native_fn, claim);
}

/* The device is gone: what its driver reads are ones, and what it waits for does not come. */
static void dlend_native_lost(struct dlend_native_fn *fn, const char *why)
{
	bool first;

	raw_spin_lock_irq(&fn->lock);
	first = !fn->dead;
	fn->dead = true;
	raw_spin_unlock_irq(&fn->lock);
	if (!first)
		return;
	dev_err(fn->claim.dev, "the attached device is lost: %s\n", why);
	if (fn->pdev)
		fn->pdev->error_state = pci_channel_io_perm_failure;
	kref_get(&fn->ref);
	if (!queue_work(dlend_native_wq, &fn->lost_work))
		dlend_native_fn_put(fn);
}

static void dlend_native_reset_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, reset_work);
	struct dlend_lease *lease = dlend_native_lease(fn);
	int ret = 0;

	if (!lease)
		return;
	if (READ_ONCE(fn->resetting))
		ret = dlend_lease_reset(lease) ?: dlend_lease_bus_master(lease, true) ?:
						  dlend_native_msi_again(fn);
	if (!ret && fn->cfg.pcie_pos)
		ret = dlend_lease_set_readrq(lease, fn->cfg.pcie_pos + PCI_EXP_DEVCTL,
					     dlend_cfg_readrq(&fn->cfg));
	if (ret) {
		dlend_native_lost(fn, "its lender could not reset it");
		return;
	}
	raw_spin_lock_irq(&fn->lock);
	fn->resetting = false;
	raw_spin_unlock_irq(&fn->lock);
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
	dlend_native_iommu_cut(fn);
	dlend_native_lost(fn, "the link to its lender is down");
}

static bool dlend_native_op_state(struct dlend_claim *claim, u16 state, u16 holder, u32 epoch)
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
		dlend_native_iommu_cut(fn);
		dlend_native_lost(fn, "its lender took it back");
	}
	return used;
}

static void dlend_native_op_reclaim(struct dlend_claim *claim, u32 epoch)
{
	if (dlend_native_op_uses(claim, epoch))
		dev_notice(claim->dev, "node %u asks for its device back: dlend detach %s\n",
			   dlend_offer_addr(claim->offer)->lender, dev_name(claim->dev));
}

static void dlend_native_op_error(struct dlend_claim *claim, u32 epoch)
{
	if (dlend_native_op_uses(claim, epoch))
		dlend_native_lost(dlend_native_claim_fn(claim), "its lender reports an error of it");
}

static void dlend_native_op_interrupt(struct dlend_claim *claim, u32 vector, u32 count)
{
	dlend_native_msi_fired(dlend_native_claim_fn(claim), vector);
}

/* Windows of a link to another node are not revoked: that node's IOMMU closes them. */
static void dlend_native_op_bar_revoked(struct dlend_claim *claim, unsigned int bar)
{
}

static void dlend_native_op_lease(struct dlend_claim *claim, struct dlend_lease *lease)
{
}

static void dlend_native_op_released(struct dlend_claim *claim, struct dlend_lease *lease,
				     bool acked)
{
}

static const struct dlend_claim_ops dlend_native_claim_ops = {
	.get = dlend_native_op_get,
	.put = dlend_native_op_put,
	.uses = dlend_native_op_uses,
	.link_down = dlend_native_op_link_down,
	.state = dlend_native_op_state,
	.reclaim = dlend_native_op_reclaim,
	.error = dlend_native_op_error,
	.interrupt = dlend_native_op_interrupt,
	.bar_revoked = dlend_native_op_bar_revoked,
	.returning = dlend_native_op_lease,
	.returned = dlend_native_op_lease,
	.released = dlend_native_op_released,
};

/* The lease */

/* Asked for on the offer's workqueue, as the borrower wants it. */
struct dlend_native_ask {
	struct work_struct work;
	struct dlend_native_fn *fn;
	struct dlend_lease *lease;
	char why[DLEND_REASON_LEN];
};

static void dlend_native_ask_work(struct work_struct *work)
{
	struct dlend_native_ask *ask = container_of(work, struct dlend_native_ask, work);

	ask->lease = dlend_lease_borrow(&ask->fn->claim, ask->why);
}

static void dlend_native_note_lease(struct dlend_native_fn *fn, struct dlend_lease *lease)
{
	raw_spin_lock_irq(&fn->lock);
	WRITE_ONCE(fn->claim.lease, lease);
	WRITE_ONCE(fn->claim.borrowing, false);
	raw_spin_unlock_irq(&fn->lock);
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
	dlend_native_note_lease(fn, IS_ERR(ask->lease) ? NULL : ask->lease);
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
		dev_err(fn->claim.dev, "cannot be attached: %s\n", ask->why);
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
	dlend_lease_return(lease);
}

/* Attaching */

static void dlend_native_lost_work(struct work_struct *work);

static struct dlend_native_fn *dlend_native_fn_make(struct dlend_offer *offer)
{
	struct dlend_native_fn *fn = kzalloc_obj(*fn);

	if (!fn)
		return NULL;
	kref_init(&fn->ref);
	raw_spin_lock_init(&fn->lock);
	mutex_init(&fn->dma_lock);
	INIT_WORK(&fn->reset_work, dlend_native_reset_work);
	INIT_WORK(&fn->lost_work, dlend_native_lost_work);
	fn->claim.ops = &dlend_native_claim_ops;
	fn->claim.dev = get_device(dlend_offer_dev(offer));
	fn->claim.offer = offer;
	fn->claim.party = DLEND_NATIVE_PARTY;
	return fn;
}

static int dlend_native_take(struct dlend_native_place *place)
{
	struct dlend_native_fn *fn = dlend_native_fn_make(place->offer);
	int ret;

	if (!fn)
		return -ENOMEM;
	ret = dlend_offer_claim(place->offer, &fn->claim);
	if (ret)
		goto put_fn;
	dlend_offer_copy(place->offer, &fn->info, NULL);
	ret = dlend_native_borrow(fn);
	if (ret)
		goto release;
	ret = dlend_native_config_init(fn);
	if (ret) {
		dev_err(fn->claim.dev, "cannot be attached: what its lender says of its configuration space makes no sense\n");
		goto give_back;
	}
	ret = dlend_lease_bus_master(dlend_native_lease(fn), true);
	if (ret)
		goto give_back;
	place->fn = fn;
	return 0;

give_back:
	dlend_native_return(fn);
release:
	dlend_offer_release(&fn->claim);
put_fn:
	dlend_native_fn_put(fn);
	return ret;
}

static void dlend_native_give(struct dlend_native_place *place)
{
	struct dlend_native_fn *fn = place->fn;

	place->fn = NULL;
	dlend_native_return(fn);
	dlend_offer_release(&fn->claim);
	dlend_offer_flush(place->offer);
	dlend_native_fn_put(fn);
}

static bool dlend_native_same_group(struct dlend_native_place *a, struct dlend_native_place *b)
{
	struct dlend_offer_info ia, ib;

	if (a == b)
		return true;
	dlend_offer_copy(a->offer, &ia, NULL);
	dlend_offer_copy(b->offer, &ib, NULL);
	return dlend_offer_addr(a->offer)->lender == dlend_offer_addr(b->offer)->lender &&
	       ia.group == ib.group;
}

#define dlend_native_for_each_of_group(place, of) \
	list_for_each_entry(place, &dlend_native_places, node) \
		if (dlend_native_same_group(place, of))

static int dlend_native_take_group(struct dlend_native_place *of)
{
	struct dlend_native_place *place;
	int ret;

	dlend_native_for_each_of_group(place, of) {
		ret = dlend_native_take(place);
		if (ret)
			goto give;
	}
	return 0;

give:
	dlend_native_for_each_of_group(place, of)
		if (place->fn)
			dlend_native_give(place);
	return ret;
}

static int dlend_native_plug(struct dlend_native_place *of)
{
	const struct dlend_addr *addr = dlend_offer_addr(of->offer);
	struct dlend_native_place *place;
	struct dlend_native_root *root;
	bool isolated = true;
	int ret;

	dlend_native_for_each_of_group(place, of)
		isolated &= place->fn->info.flags & DLEND_OFFER_F_ISOLATED_MSI;
	root = dlend_native_root_create(addr->lender, addr->bdf >> 8, isolated);
	if (IS_ERR(root))
		return PTR_ERR(root);
	dlend_native_for_each_of_group(place, of) {
		ret = dlend_native_root_put(root, place->fn);
		if (ret)
			goto remove;
	}
	ret = dlend_native_root_scan(root);
	if (!ret)
		return 0;
remove:
	dlend_native_for_each_of_group(place, of)
		place->fn->root = NULL;
	dlend_native_root_remove(root);
	return ret;
}

static int dlend_native_attach(struct dlend_native_place *of)
{
	struct dlend_native_place *place;
	int ret;

	if (of->fn)
		return -EEXIST;
	if (dlend_offer_addr(of->offer)->lender == dlend_node_id()) {
		dev_err(dlend_offer_dev(of->offer), "is this host's own: dlend reclaim gives it back to its driver\n");
		return -EINVAL;
	}
	ret = dlend_native_take_group(of);
	if (ret)
		return ret;
	ret = dlend_native_plug(of);
	if (!ret)
		return 0;
	dlend_native_for_each_of_group(place, of)
		dlend_native_give(place);
	return ret;
}

static void dlend_native_detach(struct dlend_native_place *of)
{
	struct dlend_native_root *root = of->fn->root;
	struct dlend_native_place *place;

	dlend_native_root_remove(root);
	list_for_each_entry(place, &dlend_native_places, node)
		if (place->fn && place->fn->root == root)
			dlend_native_give(place);
}

static void dlend_native_lost_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, lost_work);
	struct dlend_native_place *place;

	mutex_lock(&dlend_native_attach_lock);
	list_for_each_entry(place, &dlend_native_places, node) {
		if (place->fn != fn)
			continue;
		dlend_native_detach(place);
		break;
	}
	mutex_unlock(&dlend_native_attach_lock);
	dlend_native_fn_put(fn);
}

/* The attribute of an offer */

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

	guard(mutex)(&dlend_native_attach_lock);
	place = dlend_native_find(dev);
	if (!place || !place->fn || !place->fn->pdev)
		return sysfs_emit(buf, "no\n");
	return sysfs_emit(buf, "%s\n", pci_name(place->fn->pdev));
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
	else if (place->fn)
		dlend_native_detach(place);
	return ret ?: count;
}
static DEVICE_ATTR_RW(attached);

/* What the borrower tells of offers */

static int dlend_native_appeared(struct dlend_offer *offer)
{
	struct dlend_native_place *place = kzalloc_obj(*place);
	int ret;

	if (!place)
		return -ENOMEM;
	place->offer = offer;
	mutex_lock(&dlend_native_attach_lock);
	list_add_tail(&place->node, &dlend_native_places);
	mutex_unlock(&dlend_native_attach_lock);
	ret = device_create_file(dlend_offer_dev(offer), &dev_attr_attached);
	if (!ret)
		return 0;
	mutex_lock(&dlend_native_attach_lock);
	list_del(&place->node);
	mutex_unlock(&dlend_native_attach_lock);
	kfree(place);
	return ret;
}

static void dlend_native_vanishes(struct dlend_offer *offer)
{
	struct dlend_native_place *place;

	device_remove_file(dlend_offer_dev(offer), &dev_attr_attached);
	mutex_lock(&dlend_native_attach_lock);
	place = dlend_native_find(dlend_offer_dev(offer));
	if (place && place->fn)
		dlend_native_detach(place);
	if (place)
		list_del(&place->node);
	mutex_unlock(&dlend_native_attach_lock);
	kfree(place);
}

static struct dlend_offer_user dlend_native_user = {
	.appeared = dlend_native_appeared,
	.vanishes = dlend_native_vanishes,
};

int dlend_native_attach_start(void)
{
	dlend_native_wq = alloc_ordered_workqueue("dlend-native", 0);
	if (!dlend_native_wq)
		return -ENOMEM;
	dlend_offer_user_register(&dlend_native_user);
	return 0;
}

void dlend_native_attach_stop(void)
{
	dlend_offer_user_unregister(&dlend_native_user);
	destroy_workqueue(dlend_native_wq);
}
