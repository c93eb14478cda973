// SPDX-License-Identifier: GPL-2.0
/*
 * Paging domains (paging.h) by the kernel's IOMMU API.
 *
 * Knows the IOMMU API; neither which mappings there are, nor who owns them.
 */
#include <linux/atomic.h>
#include <linux/cc_platform.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/pci.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/types.h>
#include "paging.h"
#include "reserved.h"

/* With SME, AMD's page tables of older kernels set the encryption bit in mappings of BARs, too. */
static bool dlend_paging_mmio_possible(void)
{
	if (!DLEND_SME_BREAKS_MMIO || !cc_platform_has(CC_ATTR_HOST_MEM_ENCRYPT))
		return true;
	pr_err_once("dlend: this kernel cannot map BARs in the IOMMU while memory encryption (SME) is on: boot with mem_encrypt=off, or use kernel 7.0 or newer\n");
	return false;
}

int dlend_paging_prot(u32 prot)
{
	int p = prot & DLEND_PAGING_MMIO ? IOMMU_MMIO : IOMMU_CACHE;

	if (prot & DLEND_PROT_READ)
		p |= IOMMU_READ;
	if (prot & DLEND_PROT_WRITE)
		p |= IOMMU_WRITE;
	return p;
}

static int dlend_paging_map(struct dlend_paging *pg, u64 iova, phys_addr_t phys, u64 size, u32 prot)
{
	if (prot & DLEND_PAGING_MMIO && !dlend_paging_mmio_possible())
		return -EOPNOTSUPP;
	return iommu_map(pg->domain, iova, phys, size, dlend_paging_prot(prot), DLEND_PAGING_GFP);
}

static u64 dlend_paging_unmap(struct dlend_paging *pg, u64 iova, u64 size)
{
	return iommu_unmap(pg->domain, iova, size);
}

static phys_addr_t dlend_paging_phys(struct dlend_paging *pg, u64 iova)
{
	return iommu_iova_to_phys(pg->domain, iova);
}

/*
 * With No Snoop a device's writes bypass the caches of the host, and the guest reads old data.  The
 * IOMMU can enforce coherency, so this host need not trust the lender to turn No Snoop off.  That
 * has to be turned on before anything is mapped, as earlier mappings are not changed.  So
 * dlend_paging_create() does it at once if the IOMMU has the capability.  Otherwise it is tried
 * only after the group is attached: an IOMMU without the capability would agree for an empty
 * domain, and then refuse to attach devices.
 */
static bool dlend_paging_enforce_coherency(struct iommu_domain *domain)
{
	return domain->ops->enforce_cache_coherency &&
	       domain->ops->enforce_cache_coherency(domain);
}

static int dlend_paging_attach(struct dlend_paging *pg)
{
	/* A shared domain is always attached, with or without an aperture in it. */
	int err = pg->shared ? 0 : iommu_attach_group(pg->domain, pg->group);

	if (!err)
		pg->coherent = dlend_paging_enforce_coherency(pg->domain);
	return err;
}

static void dlend_paging_do_detach(struct dlend_paging *pg)
{
	/* A group with a DMA owner gets its blocking domain now, not the identity domain. */
	iommu_detach_group(pg->domain, pg->group);
}

static int dlend_paging_first_device(struct device *dev, void *arg)
{
	struct device **found = arg;

	*found = get_device(dev);
	return 1;
}

/*
 * A device that was unplugged has no group any more, so this asks about a device that is still in
 * the group.  A shared domain stays the driver's, with nothing mapped for the aperture once that is
 * detached, so it does not count as attached.
 */
static bool dlend_paging_attached(struct dlend_paging *pg)
{
	struct device *dev = NULL;
	bool attached;

	if (pg->shared)
		return false;
	iommu_group_for_each_dev(pg->group, &dev, dlend_paging_first_device);
	if (!dev)
		return false;
	attached = iommu_get_domain_for_dev(dev) == pg->domain;
	put_device(dev);
	return attached;
}

static void dlend_paging_drop(struct dlend_paging *pg)
{
	iommu_group_put(pg->group);
	put_device(pg->dev);
	kfree(pg);
}

static void dlend_paging_free(struct dlend_paging *pg)
{
	if (pg->shared)
		dma_set_mask_and_coherent(pg->dev, pg->driver_mask);
	else
		iommu_domain_free(pg->domain);
	dlend_paging_drop(pg);
}

static const struct dlend_paging_ops dlend_paging_kernel_ops = {
	.map = dlend_paging_map,
	.unmap = dlend_paging_unmap,
	.phys = dlend_paging_phys,
	.attach = dlend_paging_attach,
	.detach = dlend_paging_do_detach,
	.attached = dlend_paging_attached,
	.free = dlend_paging_free,
};

/* The IOMMU's fault handler.  Returns an error, so that the IOMMU's driver logs its own message. */
static int dlend_paging_count_fault(struct iommu_domain *domain, struct device *dev,
				    unsigned long iova, int flags, void *token)
{
	struct dlend_paging *pg = token;

	atomic64_inc(&pg->faults);
	WRITE_ONCE(pg->last_fault, iova);
	return -EOPNOTSUPP;
}

/* Make a struct dlend_paging without a domain. */
static struct dlend_paging *dlend_paging_alloc(struct device *dev)
{
	struct dlend_paging *pg = kzalloc_obj(*pg);

	if (!pg)
		return ERR_PTR(-ENOMEM);
	pg->group = iommu_group_get(dev);
	if (!pg->group) {
		kfree(pg);
		return ERR_PTR(-ENODEV);
	}
	pg->dev = get_device(dev);
	pg->ops = &dlend_paging_kernel_ops;
	pg->tables_stay = DLEND_TABLES_STAY;
	refcount_set(&pg->users, 1);
	return pg;
}

struct dlend_paging *dlend_paging_create(struct device *dev)
{
	struct dlend_paging *pg = dlend_paging_alloc(dev);
	struct iommu_domain *domain;

	if (IS_ERR(pg))
		return pg;
	domain = iommu_paging_domain_alloc(dev);
	if (IS_ERR(domain)) {
		dlend_paging_drop(pg);
		return ERR_CAST(domain);
	}
	pg->domain = domain;
	pg->sizes = domain->pgsize_bitmap;
	pg->first = domain->geometry.aperture_start;
	pg->last = domain->geometry.aperture_end;
	iommu_set_fault_handler(domain, dlend_paging_count_fault, pg);
	if (device_iommu_capable(dev, IOMMU_CAP_ENFORCE_CACHE_COHERENCY))
		pg->coherent = dlend_paging_enforce_coherency(domain);
	return pg;
}

/* Limit the driver of the device to IOVAs below 4 GiB. Return: 0; -ENOSPC it was before. */
static int dlend_paging_lower_mask(struct dlend_paging *pg)
{
	pg->driver_mask = dma_get_mask(pg->dev);
	if (pg->driver_mask <= DMA_BIT_MASK(32))
		return -ENOSPC;
	return dma_set_mask_and_coherent(pg->dev, DMA_BIT_MASK(32));
}

struct dlend_paging *dlend_paging_share(struct device *dev)
{
	struct dlend_paging *pg = dlend_paging_alloc(dev);
	int err = -ENODEV;

	if (IS_ERR(pg))
		return pg;
	pg->domain = iommu_get_domain_for_dev(dev);
	if (pg->domain && pg->domain->type & __IOMMU_DOMAIN_DMA_API)
		err = dlend_paging_lower_mask(pg);
	if (err) {
		dlend_paging_drop(pg);
		return ERR_PTR(err);
	}
	pg->shared = true;
	pg->sizes = pg->domain->pgsize_bitmap;
	pg->first = SZ_4G;
	pg->last = min_t(u64, pg->domain->geometry.aperture_end, pg->driver_mask);
	return pg;
}

bool dlend_paging_empty(struct dlend_paging *pg, u64 first, u64 size)
{
	u64 at;

	for (at = first; at < first + size; at += PAGE_SIZE) {
		if (pg->ops->phys(pg, at))
			return false;
		if (IS_ALIGNED(at, SZ_16M))
			cond_resched();
	}
	return true;
}

static unsigned int dlend_paging_bridge_windows(struct list_head *windows, struct dlend_span *out)
{
	struct resource_entry *w;
	unsigned int n = 0;

	resource_list_for_each_entry(w, windows) {
		if (resource_type(w->res) != IORESOURCE_MEM)
			continue;
		out[n].first = w->res->start - w->offset;
		out[n++].last = w->res->end - w->offset;
	}
	return n;
}

int dlend_paging_reserved(struct device *dev, bool windows, struct dlend_span **out)
{
	struct iommu_group *group = iommu_group_get(dev);
	struct iommu_resv_region *region, *next;
	struct list_head *bridge = NULL;
	LIST_HEAD(list);
	unsigned int n;
	int err;

	/* All devices of the group translate by one domain. */
	err = group ? iommu_get_group_resv_regions(group, &list) : -ENODEV;
	iommu_group_put(group);
	if (windows && dev_is_pci(dev))
		bridge = &pci_find_host_bridge(to_pci_dev(dev)->bus)->windows;
	n = list_count_nodes(&list) + (bridge ? list_count_nodes(bridge) : 0);
	*out = err ? NULL : kcalloc(n + 1, sizeof(**out), GFP_KERNEL);
	if (*out) {
		n = dlend_span_reserved(&list, *out);
		if (bridge)
			n += dlend_paging_bridge_windows(bridge, *out + n);
	}
	list_for_each_entry_safe(region, next, &list, list)
		kfree(region);
	return *out ? n : err ?: -ENOMEM;
}
