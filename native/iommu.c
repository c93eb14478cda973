// SPDX-License-Identifier: GPL-2.0
/*
 * IOMMU driver of attached devices: the kernel's own dma-iommu and VFIO ask it for domains, which
 * are made in domain.c.
 *
 * Must not know interrupts and configuration space.
 */
#include <linux/device.h>
#include <linux/iommu.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/property.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include "domain.h"
#include "fn.h"
#include "iommu.h"
#include "root.h"

static struct iommu_device dlend_native_iommu;
static struct platform_device *dlend_native_iommu_dev;
static struct fwnode_handle *dlend_native_iommu_fwnode;

static int dlend_native_block_dev(DLEND_ATTACH_DEV_ARGS)
{
	dlend_native_domain_leave(dev_iommu_priv_get(dev));
	return 0;
}

static const struct iommu_domain_ops dlend_native_blocked_ops = {
	.attach_dev = dlend_native_block_dev,
};

static struct iommu_domain dlend_native_blocked = {
	.type = IOMMU_DOMAIN_BLOCKED,
	.ops = &dlend_native_blocked_ops,
};

static bool dlend_native_capable(struct device *dev, enum iommu_cap cap)
{
	return cap == IOMMU_CAP_CACHE_COHERENCY;
}

static struct iommu_device *dlend_native_probe_device(struct device *dev)
{
	struct dlend_native_fn *fn;

	if (!dev_is_pci(dev))
		return ERR_PTR(-ENODEV);
	fn = dlend_native_fn_of(to_pci_dev(dev));
	if (!fn)
		return ERR_PTR(-ENODEV);
	dev_iommu_priv_set(dev, fn);
	return &dlend_native_iommu;
}

static void dlend_native_release_device(struct device *dev)
{
	dlend_native_domain_leave(dev_iommu_priv_get(dev));
}

static struct iommu_group *dlend_native_device_group(struct device *dev)
{
	return dlend_native_root_group(dlend_native_fn_of(to_pci_dev(dev))->root);
}

static int dlend_native_def_domain_type(struct device *dev)
{
	return IOMMU_DOMAIN_DMA;
}

static void dlend_native_get_resv_regions(struct device *dev, struct list_head *list)
{
	struct iommu_resv_region *region;

	region = iommu_alloc_resv_region(DLEND_NATIVE_MSI_FIRST, DLEND_NATIVE_MSI_SIZE, 0,
					 IOMMU_RESV_MSI, GFP_KERNEL);
	if (region)
		list_add_tail(&region->list, list);
}

static const struct iommu_ops dlend_native_iommu_ops = {
	.capable = dlend_native_capable,
	.domain_alloc_paging = dlend_native_domain_alloc,
	.probe_device = dlend_native_probe_device,
	.release_device = dlend_native_release_device,
	.device_group = dlend_native_device_group,
	.def_domain_type = dlend_native_def_domain_type,
	.get_resv_regions = dlend_native_get_resv_regions,
	.blocked_domain = &dlend_native_blocked,
	.release_domain = &dlend_native_blocked,
	.owner = THIS_MODULE,
	DLEND_IOMMU_OPS_PGSIZE(DLEND_NATIVE_PAGES)
};

/*
 * What iommu_fwspec_init() does, which is for callers with a lock of the IOMMU core's that no
 * module can take.  The lock keeps two from giving a device its struct dev_iommu at once: the core
 * makes one for each device when another IOMMU's driver is registered.  If the core comes first,
 * this fails; if it comes later, the device is not ours, as dlend_native_root_scan() sees.
 */
static int dlend_native_iommu_give(struct device *dev)
{
	struct dev_iommu *param = kzalloc_obj(*param);
	struct iommu_fwspec *fwspec;
	int ret = -ENOMEM;

	if (!param)
		return ret;
	fwspec = kzalloc(struct_size(fwspec, ids, 1), GFP_KERNEL);
	if (!fwspec)
		goto free_param;
	mutex_init(&param->lock);
	param->fwspec = fwspec;
	fwspec->iommu_fwnode = fwnode_handle_get(dlend_native_iommu_fwnode);
	if (!cmpxchg(&dev->iommu, NULL, param))
		return 0;
	ret = -EBUSY;
	fwnode_handle_put(fwspec->iommu_fwnode);
	kfree(fwspec);
free_param:
	kfree(param);
	return ret;
}

/* Before the IOMMU core's own notifier looks at the device. */
static int dlend_native_iommu_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	struct device *dev = data;
	int ret;

	if (action != BUS_NOTIFY_ADD_DEVICE || !dlend_native_fn_of(to_pci_dev(dev)))
		return NOTIFY_DONE;
	ret = dlend_native_iommu_give(dev);
	if (ret)
		dev_err(dev, "cannot be given our IOMMU (%pe)\n", ERR_PTR(ret));
	return NOTIFY_OK;
}

static struct notifier_block dlend_native_iommu_nb = {
	.notifier_call = dlend_native_iommu_notify,
	.priority = 100,
};

int dlend_native_iommu_init(void)
{
	struct platform_device *pdev;
	int ret;

	dlend_native_iommu_fwnode = fwnode_create_software_node(NULL, NULL);
	if (IS_ERR(dlend_native_iommu_fwnode))
		return PTR_ERR(dlend_native_iommu_fwnode);
	pdev = platform_device_alloc("dlend-iommu", PLATFORM_DEVID_NONE);
	ret = -ENOMEM;
	if (!pdev)
		goto remove_node;
	device_set_node(&pdev->dev, dlend_native_iommu_fwnode);
	ret = platform_device_add(pdev);
	if (ret) {
		platform_device_put(pdev);
		goto remove_node;
	}
	dlend_native_iommu_dev = pdev;
	ret = iommu_device_sysfs_add(&dlend_native_iommu, &pdev->dev, NULL, "dlend");
	if (ret)
		goto remove_dev;
	ret = iommu_device_register(&dlend_native_iommu, &dlend_native_iommu_ops, &pdev->dev);
	if (ret)
		goto remove_sysfs;
	ret = bus_register_notifier(&pci_bus_type, &dlend_native_iommu_nb);
	if (ret)
		goto unregister;
	return 0;

unregister:
	iommu_device_unregister(&dlend_native_iommu);
remove_sysfs:
	iommu_device_sysfs_remove(&dlend_native_iommu);
remove_dev:
	platform_device_unregister(dlend_native_iommu_dev);
remove_node:
	fwnode_remove_software_node(dlend_native_iommu_fwnode);
	return ret;
}

void dlend_native_iommu_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &dlend_native_iommu_nb);
	iommu_device_unregister(&dlend_native_iommu);
	iommu_device_sysfs_remove(&dlend_native_iommu);
	platform_device_unregister(dlend_native_iommu_dev);
	fwnode_remove_software_node(dlend_native_iommu_fwnode);
}
