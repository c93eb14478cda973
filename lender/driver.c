// SPDX-License-Identifier: GPL-2.0
/*
 * dlend-lender: the PCI driver of devices that this host lends, and the module.  To bind a function
 * is to offer it:
 *
 *	echo dlend-lender > /sys/bus/pci/devices/BDF/driver_override
 *	echo BDF > /sys/bus/pci/drivers_probe
 *
 * This file puts the parts of the lender together; what happens to a function afterwards is decided
 * in lease.c.  Knows nothing of VFIO, guests, or the NTB.
 */
#include <linux/iommu.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/version.h>

#include "lender/admit.h"
#include "lender/alias.h"
#include "lender/check.h"
#include "lender/claim.h"
#include "lender/debugfs.h"
#include "lender/errors.h"
#include "lender/lease.h"
#include "lender/members.h"
#include "lender/outbox.h"
#include "lender/p2p.h"
#include "lender/prepare.h"
#include "lender/recover.h"
#include "lender/registry.h"
#include "lender/request.h"
#include "lender/reserve.h"
#include "lender/sysfs.h"

static struct lend_fn *lend_driver_new_fn(struct pci_dev *pdev)
{
	struct lend_fn *fn = kzalloc_obj(*fn);

	if (!fn)
		return NULL;
	kref_init(&fn->ref);
	fn->pdev = pci_dev_get(pdev);
	fn->preparing = lend_prepare_asked(pdev);
	INIT_LIST_HEAD(&fn->node);
	dlend_owner_init(&fn->memory[0], DLEND_OWNER_RAM);
	dlend_owner_init(&fn->memory[1], DLEND_OWNER_RAM);
	lend_p2p_init(fn);
	lend_debugfs_faults(fn);
	return fn;
}

/* The device can be lent: make its function ready. */
static const struct lend_works lend_driver_works = {
	.recover = lend_recover_work,
	.expire = lend_lease_expire_work,
	.unreserve = lend_reserve_work,
	.say = lend_group_say_work,
};

/* Who has no reset of its own is clean, and offered, when all that is reset with it is here. */
static int lend_driver_clean(struct lend_fn *fn)
{
	int ret = fn->shared_reset ? 0 : lend_claim_clean(fn);

	if (ret || fn->shared_reset)
		return ret;
	return lend_claim_learn(fn);
}

/* What it takes of links is for others, from now on. */
static void lend_driver_leave(struct lend_fn *fn)
{
	lend_lease_unbind(fn);
	lend_admit_end();
	lend_outbox_tell_barred();
}

static int lend_driver_offer(struct lend_fn *fn, struct iommu_group *iommu,
			     unsigned int members)
{
	struct pci_dev *pdev = fn->pdev;
	int ret;

	ret = lend_claim_take(fn);
	if (ret)
		return ret;
	lend_claim_interrupts(fn, iommu);
	pci_intx(pdev, 0);
	/* What it holds is nobody's business until it was reset with all others. */
	fn->dirty = fn->shared_reset;
	ret = lend_registry_join(fn, iommu_group_id(iommu), members, &lend_driver_works);
	if (ret) {
		pci_err(pdev, "not lent (%d): its name %02x:%02x.%x is taken, or there is no memory; choose another with \"dlend lend --as BB:DD.F\"\n",
			ret, fn->addr.bdf >> 8, PCI_SLOT(fn->addr.bdf), PCI_FUNC(fn->addr.bdf));
		goto unclaim;
	}
	ret = lend_driver_clean(fn);
	if (ret)
		goto leave;
	pci_set_drvdata(pdev, fn);
	lend_debugfs_add(fn);
	if (fn->shared_reset)
		lend_recover_soon(fn->group);
	else
		lend_group_ready(fn);
	return 0;

leave:
	lend_driver_leave(fn);
unclaim:
	lend_claim_release(fn);
	return ret;
}

static void lend_driver_tell(struct lend_fn *fn)
{
	char name[DLEND_NAME_LEN];

	dlend_addr_name(&fn->addr, name);
	if (fn->shared_reset)
		pci_info(fn->pdev, "it has no reset of its own: offered as %s when all that is reset with it is bound here, too, and was reset\n",
			 name);
	else
		pci_info(fn->pdev, "offered as %s%s\n", name,
			 fn->preparing ? " when it is prepared" : "");
}

static int lend_driver_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct iommu_group *iommu;
	struct lend_census census;
	struct lend_fn *fn;
	bool shared;
	int ret;

	ret = lend_check_device(pdev, &shared);
	if (ret)
		return ret;
	fn = lend_driver_new_fn(pdev);
	if (!fn)
		return -ENOMEM;
	fn->shared_reset = shared;
	iommu = iommu_group_get(&pdev->dev);
	ret = iommu ? lend_check_group(pdev, iommu, &census) : -ENODEV;
	if (!ret)
		ret = lend_alias_address(pdev, &fn->addr);
	if (!ret)
		ret = lend_driver_offer(fn, iommu, census.members);
	iommu_group_put(iommu);
	if (ret) {
		lend_fn_put(fn);
		return ret;
	}
	lend_driver_tell(fn);
	return 0;
}

static void lend_driver_remove(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	/* First, so that a guest does not reach the function while the rest is undone. */
	lend_driver_leave(fn);
	lend_debugfs_remove(fn);
	lend_claim_release(fn);
	lend_fn_put(fn);
}

static const struct attribute_group *lend_driver_groups[] = {
	&lend_alias_group, &lend_prepare_group, NULL
};

static struct pci_driver lend_driver = {
	.name = "dlend-lender",
	.id_table = NULL,	/* bound by driver_override only */
	.probe = lend_driver_probe,
	.remove = lend_driver_remove,
	.err_handler = &lend_error_handlers,
	.groups = lend_driver_groups,
	.dev_groups = lend_sysfs_groups,
	.driver_managed_dma = true,
};

/* Before remove(), the driver core waits for whoever is in an attribute, which may be a reclaim. */
static void lend_driver_unbinds(struct device *dev)
{
	struct lend_fn *fn = dev_get_drvdata(dev);

	if (dev->driver != &lend_driver.driver || !fn)
		return;
	WRITE_ONCE(fn->removing, true);
	wake_up_all(&fn->group->wait);
}

/* The members of an IOMMU group may have changed: functions count even if nobody binds them. */
static int lend_driver_bus_event(struct notifier_block *nb, unsigned long action, void *data)
{
	if (action == BUS_NOTIFY_ADD_DEVICE || action == BUS_NOTIFY_REMOVED_DEVICE)
		lend_groups_changed();
	else if (action == BUS_NOTIFY_UNBIND_DRIVER)
		lend_driver_unbinds(data);
	return NOTIFY_DONE;
}

static struct notifier_block lend_driver_bus_notifier = { .notifier_call = lend_driver_bus_event };

static int __init lend_driver_init(void)
{
	int ret;

	/*
	 * WQ_MEM_RECLAIM: a guest elsewhere may wait until its disk is offered again, and the
	 * memory of its host may depend on that guest.
	 */
	lend_wq = alloc_workqueue("dlend_lender", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!lend_wq)
		return -ENOMEM;
	lend_debugfs_init();
	ret = dlend_link_user_register(&lend_link_user);
	if (ret)
		goto debugfs;
	/* Guests on this host borrow like all others. */
	ret = dlend_loop_open();
	if (ret)
		goto user;
	ret = bus_register_notifier(&pci_bus_type, &lend_driver_bus_notifier);
	if (ret)
		goto user;
	ret = pci_register_driver(&lend_driver);
	if (ret)
		goto notifier;
	return 0;

notifier:
	bus_unregister_notifier(&pci_bus_type, &lend_driver_bus_notifier);
	lend_groups_exit();
user:
	dlend_link_user_unregister(&lend_link_user);
	lend_outbox_exit();
	lend_admit_exit();
debugfs:
	lend_debugfs_exit();
	destroy_workqueue(lend_wq);
	return ret;
}

static void __exit lend_driver_exit(void)
{
	pci_unregister_driver(&lend_driver);
	bus_unregister_notifier(&pci_bus_type, &lend_driver_bus_notifier);
	lend_groups_exit();
	dlend_link_user_unregister(&lend_link_user);
	lend_outbox_exit();
	lend_admit_exit();
	lend_debugfs_exit();
	destroy_workqueue(lend_wq);
	lend_alias_exit();
}

module_init(lend_driver_init);
module_exit(lend_driver_exit);

MODULE_DESCRIPTION("Lends PCI devices to other hosts over NTB");
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
DLEND_IMPORT();
