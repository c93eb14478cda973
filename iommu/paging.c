// SPDX-License-Identifier: GPL-2.0
/*
 * Paging domains of the kernel's IOMMU API, behind the seam of paging.h.
 *
 * Knows the IOMMU API; neither what is mapped where, nor for whom.
 */
#include <linux/atomic.h>
#include <linux/cc_platform.h>
#include <linux/device.h>
#include <linux/iommu.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include <dlend/types.h>
#include "paging.h"
#include "slots.h"
#include "iommu/trace.h"

/*
 * struct paging - a domain of the kernel's
 * @dev: whose group it fits, for messages; referenced
 * @group: referenced
 * @faults: accesses that the IOMMU blocked, where its driver reports them; @last_fault: where
 */
struct paging {
	struct dlend_paging pub;
	struct iommu_domain *domain;
	struct iommu_group *group;
	struct device *dev;
	atomic64_t faults;
	u64 last_fault;
};

static struct paging *to_paging(struct dlend_paging *pg)
{
	return container_of(pg, struct paging, pub);
}

/* AMD's page tables of older kernels encrypt what BARs are mapped by. */
static bool mmio_possible(void)
{
	if (!DLEND_SME_BREAKS_MMIO || !cc_platform_has(CC_ATTR_HOST_MEM_ENCRYPT))
		return true;
	pr_err_once("dlend: this kernel cannot map BARs in the IOMMU while memory encryption (SME) is on: boot with mem_encrypt=off, or use kernel 7.0 or newer\n");
	return false;
}

static int paging_map(struct dlend_paging *pg, u64 iova, phys_addr_t phys, u64 size, u32 prot)
{
	int p = prot & DLEND_PAGING_MMIO ? IOMMU_MMIO : IOMMU_CACHE;

	if (prot & DLEND_PAGING_MMIO && !mmio_possible())
		return -EOPNOTSUPP;
	if (prot & DLEND_PROT_READ)
		p |= IOMMU_READ;
	if (prot & DLEND_PROT_WRITE)
		p |= IOMMU_WRITE;
	return iommu_map(to_paging(pg)->domain, iova, phys, size, p, GFP_KERNEL_ACCOUNT);
}

static u64 paging_unmap(struct dlend_paging *pg, u64 iova, u64 size)
{
	return iommu_unmap(to_paging(pg)->domain, iova, size);
}

static phys_addr_t paging_phys(struct dlend_paging *pg, u64 iova)
{
	return iommu_iova_to_phys(to_paging(pg)->domain, iova);
}

/*
 * No Snoop lets a device pass by the caches of the host whose memory it is at, and a guest's driver
 * may set it: what the guest then reads is old.  To be asked once devices are attached, before
 * anything is mapped.
 */
static bool enforce_coherency(struct iommu_domain *domain)
{
	return domain->ops->enforce_cache_coherency &&
	       domain->ops->enforce_cache_coherency(domain);
}

static int paging_attach(struct dlend_paging *pg)
{
	struct paging *p = to_paging(pg);
	int err = iommu_attach_group(p->domain, p->group);

	if (!err)
		pg->coherent = enforce_coherency(p->domain);
	return err;
}

static void paging_detach(struct dlend_paging *pg)
{
	struct paging *p = to_paging(pg);

	/* With a DMA owner the group falls back to its blocking domain, not to identity. */
	iommu_detach_group(p->domain, p->group);
}

static int first_device(struct device *dev, void *arg)
{
	struct device **found = arg;

	*found = get_device(dev);
	return 1;
}

/* A device that was unplugged has no group any more: any that is still there is asked. */
static bool paging_attached(struct dlend_paging *pg)
{
	struct paging *p = to_paging(pg);
	struct device *dev = NULL;
	bool attached;

	iommu_group_for_each_dev(p->group, &dev, first_device);
	if (!dev)
		return false;
	attached = iommu_get_domain_for_dev(dev) == p->domain;
	put_device(dev);
	return attached;
}

static void paging_free(struct dlend_paging *pg)
{
	struct paging *p = to_paging(pg);

	iommu_domain_free(p->domain);
	iommu_group_put(p->group);
	put_device(p->dev);
	kfree(p);
}

static const struct dlend_paging_ops paging_ops = {
	.map = paging_map,
	.unmap = paging_unmap,
	.phys = paging_phys,
	.attach = paging_attach,
	.detach = paging_detach,
	.attached = paging_attached,
	.free = paging_free,
};

/* Not handled, only counted: the IOMMU driver's own (rate-limited) message shall appear. */
static int count_fault(struct iommu_domain *domain, struct device *dev, unsigned long iova,
		       int flags, void *token)
{
	struct paging *p = token;

	atomic64_inc(&p->faults);
	WRITE_ONCE(p->last_fault, iova);
	trace_dlend_fault(dev_name(dev), iova, flags);
	return -EOPNOTSUPP;
}

u64 dlend_paging_faults(struct dlend_paging *pg, u64 *last)
{
	struct paging *p = to_paging(pg);

	*last = READ_ONCE(p->last_fault);
	return atomic64_read(&p->faults);
}

struct dlend_paging *dlend_paging_create(struct device *dev)
{
	struct paging *p = kzalloc_obj(*p);
	int err = -ENODEV;

	if (!p)
		return ERR_PTR(-ENOMEM);
	p->group = iommu_group_get(dev);
	if (!p->group)
		goto free_paging;
	p->domain = iommu_paging_domain_alloc(dev);
	if (IS_ERR(p->domain)) {
		err = PTR_ERR(p->domain);
		goto put_group;
	}
	p->dev = get_device(dev);
	p->pub.ops = &paging_ops;
	p->pub.sizes = p->domain->pgsize_bitmap;
	p->pub.first = p->domain->geometry.aperture_start;
	p->pub.last = p->domain->geometry.aperture_end;
	iommu_set_fault_handler(p->domain, count_fault, p);
	return &p->pub;

put_group:
	iommu_group_put(p->group);
free_paging:
	kfree(p);
	return ERR_PTR(err);
}

static unsigned int bridge_windows(struct device *dev, struct dlend_range *out)
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

static unsigned int resv_regions(struct list_head *list, struct dlend_range *out)
{
	struct iommu_resv_region *r;
	unsigned int n = 0;

	list_for_each_entry(r, list, list) {
		if (out) {
			out[n].first = r->start;
			out[n].last = r->start + (r->length - 1);
		}
		n++;
	}
	return n;
}

int dlend_paging_reserved(struct device *dev, bool windows, struct dlend_range **out)
{
	struct dlend_range *r;
	LIST_HEAD(list);
	unsigned int n;

	iommu_get_resv_regions(dev, &list);
	n = resv_regions(&list, NULL) + (windows ? bridge_windows(dev, NULL) : 0);
	r = kcalloc(n + 1, sizeof(*r), GFP_KERNEL);
	if (r) {
		n = resv_regions(&list, r);
		if (windows)
			n += bridge_windows(dev, r + n);
	}
	iommu_put_resv_regions(dev, &list);
	*out = r;
	return r ? n : -ENOMEM;
}
