// SPDX-License-Identifier: GPL-2.0
/*
 * Paging domains of the kernel's IOMMU API, behind the seam of paging.h.
 *
 * Knows the IOMMU API; neither what is mapped where, nor for whom.
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
#include "iommu/trace.h"

/*
 * struct dlend_iommu_paging - a domain of the kernel's
 * @dev: whose group it fits, for messages; referenced
 * @group: referenced
 * @driver_mask: of a shared domain: the DMA mask that @dev's driver has set
 * @faults: accesses that the IOMMU blocked, where its driver reports them; @last_fault: where
 */
struct dlend_iommu_paging {
	struct dlend_paging pub;
	struct iommu_domain *domain;
	struct iommu_group *group;
	struct device *dev;
	u64 driver_mask;
	atomic64_t faults;
	u64 last_fault;
};

static struct dlend_iommu_paging *dlend_iommu_paging(struct dlend_paging *pg)
{
	return container_of(pg, struct dlend_iommu_paging, pub);
}

/* With SME, AMD's page tables of older kernels set the encryption bit in mappings of BARs, too. */
static bool dlend_paging_mmio_possible(void)
{
	if (!DLEND_SME_BREAKS_MMIO || !cc_platform_has(CC_ATTR_HOST_MEM_ENCRYPT))
		return true;
	pr_err_once("dlend: this kernel cannot map BARs in the IOMMU while memory encryption (SME) is on: boot with mem_encrypt=off, or use kernel 7.0 or newer\n");
	return false;
}

static int dlend_paging_map(struct dlend_paging *pg, u64 iova, phys_addr_t phys, u64 size, u32 prot)
{
	int p = prot & DLEND_PAGING_MMIO ? IOMMU_MMIO : IOMMU_CACHE;

	if (prot & DLEND_PAGING_MMIO && !dlend_paging_mmio_possible())
		return -EOPNOTSUPP;
	if (prot & DLEND_PROT_READ)
		p |= IOMMU_READ;
	if (prot & DLEND_PROT_WRITE)
		p |= IOMMU_WRITE;
	return iommu_map(dlend_iommu_paging(pg)->domain, iova, phys, size, p, DLEND_PAGING_GFP);
}

static u64 dlend_paging_unmap(struct dlend_paging *pg, u64 iova, u64 size)
{
	return iommu_unmap(dlend_iommu_paging(pg)->domain, iova, size);
}

static phys_addr_t dlend_paging_phys(struct dlend_paging *pg, u64 iova)
{
	return iommu_iova_to_phys(dlend_iommu_paging(pg)->domain, iova);
}

/*
 * With No Snoop a device writes to memory without telling the caches of that host, and the guest
 * reads old data.  The IOMMU can forbid that, so that the lender need not be trusted to turn No
 * Snoop off.  What was mapped before does not count, so it is asked before anything is mapped: at
 * once, if the IOMMU says that it can; else once devices are attached (an IOMMU that cannot would
 * agree to an empty domain, and refuse devices later).
 */
static bool dlend_paging_enforce_coherency(struct iommu_domain *domain)
{
	return domain->ops->enforce_cache_coherency &&
	       domain->ops->enforce_cache_coherency(domain);
}

static int dlend_paging_attach(struct dlend_paging *pg)
{
	struct dlend_iommu_paging *p = dlend_iommu_paging(pg);
	/* By a shared one the device translates all the time, with or without an aperture in it. */
	int err = pg->shared ? 0 : iommu_attach_group(p->domain, p->group);

	if (!err)
		pg->coherent = dlend_paging_enforce_coherency(p->domain);
	return err;
}

static void dlend_paging_do_detach(struct dlend_paging *pg)
{
	struct dlend_iommu_paging *p = dlend_iommu_paging(pg);

	/* With a DMA owner the group falls back to its blocking domain, not to identity. */
	iommu_detach_group(p->domain, p->group);
}

static int dlend_paging_first_device(struct device *dev, void *arg)
{
	struct device **found = arg;

	*found = get_device(dev);
	return 1;
}

/*
 * A device that was unplugged has no group any more, so ask a device that is still in the group.  A
 * shared domain is the driver's: what was mapped here is unmapped by now, and nothing of ours is
 * attached.
 */
static bool dlend_paging_attached(struct dlend_paging *pg)
{
	struct dlend_iommu_paging *p = dlend_iommu_paging(pg);
	struct device *dev = NULL;
	bool attached;

	if (pg->shared)
		return false;
	iommu_group_for_each_dev(p->group, &dev, dlend_paging_first_device);
	if (!dev)
		return false;
	attached = iommu_get_domain_for_dev(dev) == p->domain;
	put_device(dev);
	return attached;
}

static void dlend_paging_drop(struct dlend_iommu_paging *p)
{
	iommu_group_put(p->group);
	put_device(p->dev);
	kfree(p);
}

static void dlend_paging_free(struct dlend_paging *pg)
{
	struct dlend_iommu_paging *p = dlend_iommu_paging(pg);

	if (pg->shared)
		dma_set_mask_and_coherent(p->dev, p->driver_mask);
	else
		iommu_domain_free(p->domain);
	dlend_paging_drop(p);
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

/* Returns an error, so that the IOMMU driver logs its own (rate-limited) message. */
static int dlend_paging_count_fault(struct iommu_domain *domain, struct device *dev,
				    unsigned long iova, int flags, void *token)
{
	struct dlend_iommu_paging *p = token;

	atomic64_inc(&p->faults);
	WRITE_ONCE(p->last_fault, iova);
	trace_dlend_fault(dev_name(dev), iova, flags);
	return -EOPNOTSUPP;
}

u64 dlend_paging_faults(struct dlend_paging *pg, u64 *last)
{
	struct dlend_iommu_paging *p = dlend_iommu_paging(pg);

	*last = READ_ONCE(p->last_fault);
	return atomic64_read(&p->faults);
}

struct iommu_domain *dlend_paging_domain(struct dlend_paging *pg)
{
	return dlend_iommu_paging(pg)->domain;
}

struct iommu_domain *dlend_paging_twin(struct dlend_paging *pg)
{
	return iommu_paging_domain_alloc(dlend_iommu_paging(pg)->dev);
}

/* Still without its domain. */
static struct dlend_iommu_paging *dlend_paging_alloc(struct device *dev)
{
	struct dlend_iommu_paging *p = kzalloc_obj(*p);

	if (!p)
		return ERR_PTR(-ENOMEM);
	p->group = iommu_group_get(dev);
	if (!p->group) {
		kfree(p);
		return ERR_PTR(-ENODEV);
	}
	p->dev = get_device(dev);
	p->pub.ops = &dlend_paging_kernel_ops;
	p->pub.tables_stay = DLEND_TABLES_STAY;
	refcount_set(&p->pub.users, 1);
	return p;
}

struct dlend_paging *dlend_paging_create(struct device *dev)
{
	struct dlend_iommu_paging *p = dlend_paging_alloc(dev);
	struct iommu_domain *domain;

	if (IS_ERR(p))
		return ERR_CAST(p);
	domain = iommu_paging_domain_alloc(dev);
	if (IS_ERR(domain)) {
		dlend_paging_drop(p);
		return ERR_CAST(domain);
	}
	p->domain = domain;
	p->pub.sizes = domain->pgsize_bitmap;
	p->pub.first = domain->geometry.aperture_start;
	p->pub.last = domain->geometry.aperture_end;
	iommu_set_fault_handler(domain, dlend_paging_count_fault, p);
	if (device_iommu_capable(dev, IOMMU_CAP_ENFORCE_CACHE_COHERENCY))
		p->pub.coherent = dlend_paging_enforce_coherency(domain);
	return &p->pub;
}

/* From now on the driver of the device gets IO addresses below 4 GiB only. */
static int dlend_paging_lower_mask(struct dlend_iommu_paging *p)
{
	p->driver_mask = dma_get_mask(p->dev);
	if (p->driver_mask <= DMA_BIT_MASK(32))
		return -ENOSPC;
	return dma_set_mask_and_coherent(p->dev, DMA_BIT_MASK(32));
}

struct dlend_paging *dlend_paging_share(struct device *dev)
{
	struct dlend_iommu_paging *p = dlend_paging_alloc(dev);
	int err = -ENODEV;

	if (IS_ERR(p))
		return ERR_CAST(p);
	p->domain = iommu_get_domain_for_dev(dev);
	if (p->domain && p->domain->type & __IOMMU_DOMAIN_DMA_API)
		err = dlend_paging_lower_mask(p);
	if (err) {
		dlend_paging_drop(p);
		return ERR_PTR(err);
	}
	p->pub.shared = true;
	p->pub.sizes = p->domain->pgsize_bitmap;
	p->pub.first = SZ_4G;
	p->pub.last = min_t(u64, p->domain->geometry.aperture_end, p->driver_mask);
	return &p->pub;
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

static unsigned int dlend_paging_bridge_windows(struct device *dev, struct dlend_span *out)
{
	struct pci_host_bridge *bridge;
	struct resource_entry *w;
	unsigned int n = 0;

	if (!dev_is_pci(dev))
		return 0;
	bridge = pci_find_host_bridge(to_pci_dev(dev)->bus);
	resource_list_for_each_entry(w, &bridge->windows) {
		if (resource_type(w->res) != IORESOURCE_MEM)
			continue;
		if (out) {
			out[n].first = w->res->start - w->offset;
			out[n].last = w->res->end - w->offset;
		}
		n++;
	}
	return n;
}

int dlend_paging_reserved(struct device *dev, bool windows, struct dlend_span **out)
{
	struct iommu_group *group = iommu_group_get(dev);
	struct iommu_resv_region *region, *next;
	struct dlend_span *r = NULL;
	LIST_HEAD(list);
	unsigned int n;
	int err;

	/* All devices of the group translate by one domain. */
	err = group ? iommu_get_group_resv_regions(group, &list) : -ENODEV;
	iommu_group_put(group);
	n = dlend_reserved_spans(&list, NULL);
	if (windows)
		n += dlend_paging_bridge_windows(dev, NULL);
	if (!err)
		r = kcalloc(n + 1, sizeof(*r), GFP_KERNEL);
	if (r) {
		n = dlend_reserved_spans(&list, r);
		if (windows)
			n += dlend_paging_bridge_windows(dev, r + n);
	}
	list_for_each_entry_safe(region, next, &list, list)
		kfree(region);
	*out = r;
	return r ? n : err ?: -ENOMEM;
}
