// SPDX-License-Identifier: GPL-2.0
/*
 * DMA of attached devices.
 *
 * The kernel's own dma-iommu gives a device's driver IO addresses; this is the IOMMU driver below
 * it.  A domain has one raw slot of the aperture towards the lender, as large as the range of IO
 * addresses.  The lender maps all of the slot once, when a device is attached to the domain: what
 * the device reaches in it is decided here, page by page, in the IOMMU of this host's NTB.  So a
 * transfer costs no message and no copy.
 *
 *   device's address D + x --lender's IOMMU--> window + slot + x --this host's IOMMU--> RAM
 *
 * Must not know interrupts and configuration space.
 */
#include <linux/device.h>
#include <linux/iommu.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/property.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/proto.h>
#include <dlend/raw_slot.h>
#include "fn.h"
#include "iommu.h"
#include "root.h"

/*
 * IO addresses begin here: 0 and what is near it are errors of drivers, and end below the address
 * of interrupts (0xfee00000), so that devices with 32-bit addresses work.
 */
#define DLEND_NATIVE_DMA_FIRST	SZ_256M
#define DLEND_NATIVE_DMA_MOST	(3 * (u64)SZ_1G + SZ_512M)
#define DLEND_NATIVE_DMA_LEAST	((u64)SZ_16M)
#define DLEND_NATIVE_MSI_FIRST	0xfee00000
#define DLEND_NATIVE_MSI_SIZE	SZ_1M

static unsigned int dma_mib;
module_param(dma_mib, uint, 0644);
MODULE_PARM_DESC(dma_mib, "MiB that a device which is attached from now on may have mapped at once; 0: a quarter of the window, 2048 at most");

/*
 * struct dlend_native_domain - addresses that a device translates by
 * @raw: its slot, from the first device on; @link: the slot's
 * @first, @size: the range of IO addresses
 * @told: devices that their lender lets reach the slot
 * @silent: a lender did not answer when it should have stopped that
 */
struct dlend_native_domain {
	struct iommu_domain domain;
	struct dlend_raw_slot *raw;
	struct dlend_link *link;
	u64 first, size;
	unsigned int told;
	bool silent;
};

static struct iommu_device dlend_native_iommu;
static struct platform_device *dlend_native_iommu_dev;
static struct fwnode_handle *dlend_native_iommu_fwnode;

static struct dlend_native_domain *to_native_domain(struct iommu_domain *domain)
{
	return container_of(domain, struct dlend_native_domain, domain);
}

/* Telling the lender */

static int dlend_native_dma_call(struct dlend_native_fn *fn, const struct dlend_native_domain *d,
				 enum dlend_msg_type type)
{
	struct dlend_lease *lease = dlend_native_lease(fn);
	struct dlend_p_dma *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, type, &lease->addr, lease->epoch, sizeof(*p));
	p->count = cpu_to_le32(1);
	p->entry[0].gpa = cpu_to_le64(d->first);
	p->entry[0].size = cpu_to_le64(d->size);
	p->entry[0].offset = cpu_to_le64(dlend_raw_slot_offset(d->raw));
	p->entry[0].prot = cpu_to_le32(DLEND_PROT_READ | DLEND_PROT_WRITE);
	atomic64_inc(&fn->claim.messages);
	return dlend_link_call_in(&lease->ref, &req, NULL, 0);
}

/* The device reaches nothing of its domain when this returns. */
static void dlend_native_dma_detach(struct dlend_native_fn *fn)
{
	struct dlend_native_domain *d;
	int ret;

	guard(mutex)(&fn->dma_lock);
	d = fn->domain;
	if (!d)
		return;
	fn->domain = NULL;
	d->told--;
	ret = dlend_native_dma_call(fn, d, DLEND_MSG_DMA_UNMAP);
	if (!ret)
		return;
	/* A lost link or lease has fenced the device; silence has not. */
	d->silent = true;
	dlend_raw_slot_cut(d->raw);
}

void dlend_native_iommu_cut(struct dlend_native_fn *fn)
{
	guard(mutex)(&fn->dma_lock);
	if (fn->domain)
		dlend_raw_slot_cut(fn->domain->raw);
}

/* Domains */

static u64 dlend_native_dma_size(struct dlend_link *link)
{
	struct dlend_aperture_stat st;
	u64 size = (u64)READ_ONCE(dma_mib) << 20;

	if (!size) {
		dlend_aperture_stat(dlend_link_aperture(link), &st);
		size = min_t(u64, st.size / 4, SZ_2G);
	}
	size = clamp(size, DLEND_NATIVE_DMA_LEAST, DLEND_NATIVE_DMA_MOST);
	return ALIGN_DOWN(size, SZ_2M);
}

/* The first device says over which link. */
static int dlend_native_domain_open(struct dlend_native_domain *d, struct dlend_native_fn *fn)
{
	struct dlend_link *link = dlend_native_lease(fn)->ref.link;
	struct dlend_raw_slot *raw;
	u64 size;

	if (d->raw)
		return d->link == link ? 0 : -EINVAL;
	if (!dlend_link_aperture(link))
		return -ENODEV;
	size = dlend_native_dma_size(link);
	raw = dlend_raw_slot_open(dlend_link_aperture(link), size);
	if (IS_ERR(raw)) {
		dev_err(fn->claim.dev, "no %llu MiB for its DMA in the window of node %u (%pe): return other devices, or set dlend_native.dma_mib\n",
			size >> 20, fn->claim.lease->addr.lender, raw);
		return PTR_ERR(raw);
	}
	d->raw = raw;
	d->link = dlend_link_get(link);
	d->first = DLEND_NATIVE_DMA_FIRST;
	d->size = size;
	d->domain.geometry.aperture_start = d->first;
	d->domain.geometry.aperture_end = d->first + size - 1;
	d->domain.geometry.force_aperture = true;
	return 0;
}

static int dlend_native_attach_dev(DLEND_ATTACH_DEV_ARGS)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	struct dlend_native_fn *fn = dev_iommu_priv_get(dev);
	int ret;

	if (fn->domain == d)
		return 0;
	if (!(domain->type & __IOMMU_DOMAIN_DMA_API)) {
		dev_err(dev, "vfio-pci cannot have it yet: make a mediated device of it instead (dlend detach, mdevctl start)\n");
		return -EINVAL;
	}
	ret = dlend_native_domain_open(d, fn);
	if (ret)
		return ret;
	dlend_native_dma_detach(fn);
	guard(mutex)(&fn->dma_lock);
	ret = dlend_native_dma_call(fn, d, DLEND_MSG_DMA_MAP);
	if (ret) {
		dev_err(dev, "node %u does not let it reach this host's memory (%pe)\n",
			fn->claim.lease->addr.lender, ERR_PTR(ret));
		return ret;
	}
	d->told++;
	fn->domain = d;
	return 0;
}

static int dlend_native_block_dev(DLEND_ATTACH_DEV_ARGS)
{
	dlend_native_dma_detach(dev_iommu_priv_get(dev));
	return 0;
}

static int dlend_native_map_pages(struct iommu_domain *domain, unsigned long iova,
				  phys_addr_t paddr, size_t pgsize, size_t pgcount, int prot,
				  gfp_t gfp, size_t *mapped)
{
	struct dlend_native_domain *d = to_native_domain(domain);
	size_t size = pgsize * pgcount;
	int ret;

	if (!d->raw)
		return -ENODEV;
	if (iova < d->first || iova - d->first > d->size - size || prot & IOMMU_MMIO)
		return -EINVAL;
	ret = dlend_raw_slot_map(d->raw, iova - d->first, paddr, size, prot, gfp);
	if (!ret)
		*mapped = size;
	return ret;
}

static size_t dlend_native_unmap_pages(struct iommu_domain *domain, unsigned long iova,
				       size_t pgsize, size_t pgcount,
				       struct iommu_iotlb_gather *gather)
{
	struct dlend_native_domain *d = to_native_domain(domain);

	if (!d->raw || iova < d->first)
		return 0;
	return dlend_raw_slot_unmap(d->raw, iova - d->first, pgsize * pgcount, gather);
}

static void dlend_native_iotlb_sync(struct iommu_domain *domain, struct iommu_iotlb_gather *gather)
{
	struct dlend_native_domain *d = to_native_domain(domain);

	if (d->raw)
		dlend_raw_slot_sync(d->raw, gather);
}

static phys_addr_t dlend_native_iova_to_phys(struct iommu_domain *domain, dma_addr_t iova)
{
	struct dlend_native_domain *d = to_native_domain(domain);

	if (!d->raw || iova < d->first || iova - d->first >= d->size)
		return 0;
	return dlend_raw_slot_phys(d->raw, iova - d->first);
}

static void dlend_native_domain_free(struct iommu_domain *domain)
{
	struct dlend_native_domain *d = to_native_domain(domain);

	if (d->raw) {
		dlend_raw_slot_close(d->raw, !d->silent && !d->told);
		dlend_link_put(d->link);
	}
	kfree(d);
}

static const struct iommu_domain_ops dlend_native_domain_ops = {
	.attach_dev = dlend_native_attach_dev,
	.map_pages = dlend_native_map_pages,
	.unmap_pages = dlend_native_unmap_pages,
	.iotlb_sync = dlend_native_iotlb_sync,
	.iova_to_phys = dlend_native_iova_to_phys,
	.free = dlend_native_domain_free,
};

static const struct iommu_domain_ops dlend_native_blocked_ops = {
	.attach_dev = dlend_native_block_dev,
};

static struct iommu_domain dlend_native_blocked = {
	.type = IOMMU_DOMAIN_BLOCKED,
	.ops = &dlend_native_blocked_ops,
};

/* What it is for is known when a device is attached (dlend_native_attach_dev()). */
static struct iommu_domain *dlend_native_domain_alloc(struct device *dev)
{
	struct dlend_native_domain *d = kzalloc_obj(*d);

	if (!d)
		return NULL;
	d->domain.pgsize_bitmap = SZ_4K | SZ_2M | SZ_1G;
	d->domain.geometry.aperture_start = DLEND_NATIVE_DMA_FIRST;
	d->domain.geometry.aperture_end = DLEND_NATIVE_DMA_FIRST + DLEND_NATIVE_DMA_MOST - 1;
	d->domain.geometry.force_aperture = true;
	return &d->domain;
}

/* Devices */

static bool dlend_native_capable(struct device *dev, enum iommu_cap cap)
{
	return cap == IOMMU_CAP_CACHE_COHERENCY;
}

static struct iommu_device *dlend_native_probe_device(struct device *dev)
{
	struct dlend_native_fn *fn;

	if (!dev_is_pci(dev))
		return ERR_PTR(-ENODEV);
	fn = dlend_native_root_fn(to_pci_dev(dev));
	if (!fn)
		return ERR_PTR(-ENODEV);
	dev_iommu_priv_set(dev, fn);
	return &dlend_native_iommu;
}

static void dlend_native_release_device(struct device *dev)
{
	dlend_native_dma_detach(dev_iommu_priv_get(dev));
}

static struct iommu_group *dlend_native_device_group(struct device *dev)
{
	return dlend_native_root_group(dlend_native_root_fn(to_pci_dev(dev))->root);
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
	.default_domain_ops = &dlend_native_domain_ops,
	.blocked_domain = &dlend_native_blocked,
	.release_domain = &dlend_native_blocked,
	.owner = THIS_MODULE,
	DLEND_IOMMU_OPS_PGSIZE(SZ_4K | SZ_2M | SZ_1G)
};

/* Before the IOMMU core's own notifier looks at the device. */
static int dlend_native_iommu_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	struct device *dev = data;
	int ret;

	if (action != BUS_NOTIFY_ADD_DEVICE || !dlend_native_root_fn(to_pci_dev(dev)))
		return NOTIFY_DONE;
	ret = iommu_fwspec_init(dev, dlend_native_iommu_fwnode);
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
