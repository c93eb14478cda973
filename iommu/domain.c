// SPDX-License-Identifier: GPL-2.0
/*
 * Domain of a lent IOMMU group: guest-physical addresses to physical ones.
 *
 * Knows the IOMMU API; neither leases nor links nor where an address came from.
 */
#include <linux/atomic.h>
#include <linux/iommu.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include "aperture.h"
#include "maps.h"
#include "slots.h"
#include "iommu/trace.h"

/*
 * A guest's memory is some hundred ranges.  A borrower that asks for more than this is after our
 * memory: every range costs a page table, however small it is.
 */
#define DLEND_DOMAIN_MAX_RANGES	16384

/*
 * struct dlend_domain - see dlend/aperture.h
 * @dev: one device of the group, for messages
 * @mirrors: ranges whose mappings follow an aperture
 * @reserved: ranges that may not be mapped (MSI, firmware's own)
 * @attached: the group translates by this domain
 * @faults: accesses that the IOMMU blocked, where its driver reports them
 */
struct dlend_domain {
	struct device *dev;
	struct iommu_domain *domain;
	struct mutex lock;		/* maps, mirrors, attached */
	struct dlend_maps maps;
	struct list_head mirrors;
	unsigned int nr_mirrors;
	struct dlend_range *reserved;
	int nr_reserved;
	bool attached;
	atomic64_t faults;
	u64 last_fault;
};

/*
 * struct mirror - a range that has what a part of an aperture has
 * @maps: of this range, in the domain; guarded by the aperture's lock while @view is the aperture's
 */
struct mirror {
	struct list_head node;
	struct dlend_view view;
	struct dlend_aperture *ap;
	u64 iova, size;
	u32 prot;
	struct dlend_maps maps;
};

/* Not handled, only counted: the IOMMU driver's own (rate-limited) message shall appear. */
static int count_fault(struct iommu_domain *domain, struct device *dev, unsigned long iova,
		       int flags, void *token)
{
	struct dlend_domain *dom = token;

	atomic64_inc(&dom->faults);
	WRITE_ONCE(dom->last_fault, iova);
	trace_dlend_fault(dev_name(dev), iova, flags);
	return -EOPNOTSUPP;
}

struct dlend_domain *dlend_domain_create(struct device *dev)
{
	struct dlend_domain *dom = kzalloc_obj(*dom);
	int err;

	if (!dom)
		return ERR_PTR(-ENOMEM);
	dom->dev = get_device(dev);
	mutex_init(&dom->lock);
	INIT_LIST_HEAD(&dom->mirrors);
	err = dlend_maps_reserved(dev, false, &dom->reserved);
	if (err < 0)
		goto put_dev;
	dom->nr_reserved = err;
	dom->domain = iommu_paging_domain_alloc(dev);
	if (IS_ERR(dom->domain)) {
		err = PTR_ERR(dom->domain);
		dev_err(dev, "IOMMU gave no domain (%d): turn on VT-d or AMD-Vi in the firmware and boot with intel_iommu=on or amd_iommu=on\n",
			err);
		goto free_reserved;
	}
	dlend_maps_init(&dom->maps, dom->domain);
	iommu_set_fault_handler(dom->domain, count_fault, dom);
	return dom;

free_reserved:
	kfree(dom->reserved);
put_dev:
	put_device(dom->dev);
	kfree(dom);
	return ERR_PTR(err);
}
DLEND_EXPORT(dlend_domain_create);

void dlend_domain_destroy(struct dlend_domain *dom)
{
	WARN(dom->attached, "dlend: domain of %s destroyed while attached\n", dev_name(dom->dev));
	if (dom->attached)
		dlend_domain_block(dom, dom->dev);
	dlend_domain_unmap_all(dom);
	iommu_domain_free(dom->domain);
	kfree(dom->reserved);
	put_device(dom->dev);
	mutex_destroy(&dom->lock);
	kfree(dom);
}
DLEND_EXPORT(dlend_domain_destroy);

int dlend_domain_attach(struct dlend_domain *dom, struct device *dev)
{
	struct iommu_group *group = iommu_group_get(dev);
	int err = 0;

	if (!group)
		return -ENODEV;
	mutex_lock(&dom->lock);
	if (!dom->attached)
		err = iommu_attach_group(dom->domain, group);
	if (!err)
		dom->attached = true;
	mutex_unlock(&dom->lock);
	iommu_group_put(group);
	if (err)
		dev_err(dev, "IOMMU group cannot be attached (%d): another owner has it\n", err);
	return err;
}
DLEND_EXPORT(dlend_domain_attach);

void dlend_domain_block(struct dlend_domain *dom, struct device *dev)
{
	struct iommu_group *group = iommu_group_get(dev);

	if (!group)
		return;
	mutex_lock(&dom->lock);
	if (dom->attached) {
		/* With a DMA owner the group falls back to its blocking domain, not to identity. */
		iommu_detach_group(dom->domain, group);
		dom->attached = false;
	}
	mutex_unlock(&dom->lock);
	iommu_group_put(group);
}
DLEND_EXPORT(dlend_domain_block);

static bool reserved(const struct dlend_domain *dom, u64 iova, u64 size)
{
	int i;

	for (i = 0; i < dom->nr_reserved; i++)
		if (iova <= dom->reserved[i].last && iova + (size - 1) >= dom->reserved[i].first)
			return true;
	return false;
}

/* Under the lock. The first mirror that has some of it, or NULL. */
static struct mirror *mirror_in(struct dlend_domain *dom, u64 iova, u64 size)
{
	struct mirror *m;

	list_for_each_entry(m, &dom->mirrors, node)
		if (m->iova <= iova + (size - 1) && iova <= m->iova + (m->size - 1))
			return m;
	return NULL;
}

/* Under the lock. May one more range be there? */
static int admit(struct dlend_domain *dom, u64 iova, u64 size)
{
	if (dom->maps.nr + dom->nr_mirrors >= DLEND_DOMAIN_MAX_RANGES)
		return -ENOSPC;
	return mirror_in(dom, iova, size) ? -EEXIST : 0;
}

int dlend_domain_map(struct dlend_domain *dom, u64 iova, phys_addr_t phys, u64 size, u32 prot,
		     bool mmio)
{
	int err;

	if (size && reserved(dom, iova, size))
		return -ERANGE;
	mutex_lock(&dom->lock);
	err = admit(dom, iova, size);
	if (!err)
		err = dlend_maps_add(&dom->maps, iova, phys, size, prot, mmio, 0);
	mutex_unlock(&dom->lock);
	trace_dlend_domain_map(dev_name(dom->dev), iova, phys, size, prot, err);
	return err;
}
DLEND_EXPORT(dlend_domain_map);

static int mirror_map(struct dlend_view *view, u64 at, const struct dlend_piece *piece)
{
	struct mirror *m = container_of(view, struct mirror, view);
	u32 prot = m->prot & piece->prot;

	if (!prot)
		return 0;
	return dlend_maps_add(&m->maps, m->iova + at, piece->phys, piece->size, prot, piece->mmio,
			      piece->cap);
}

static void mirror_unmap(struct dlend_view *view, u64 at, u64 size)
{
	struct mirror *m = container_of(view, struct mirror, view);

	dlend_maps_del(&m->maps, m->iova + at, size);
}

static const struct dlend_view_ops mirror_ops = {
	.map = mirror_map,
	.unmap = mirror_unmap,
};

static struct mirror *mirror_alloc(struct dlend_domain *dom, u64 iova, struct dlend_aperture *ap,
				   u64 size, u32 prot)
{
	struct mirror *m = kzalloc_obj(*m, GFP_KERNEL_ACCOUNT);

	if (!m)
		return NULL;
	m->view.ops = &mirror_ops;
	m->ap = ap;
	m->iova = iova;
	m->size = size;
	m->prot = prot;
	dlend_maps_init(&m->maps, dom->domain);
	return m;
}

/* Under the lock. */
static int mirror_enter(struct dlend_domain *dom, struct mirror *m)
{
	int err = admit(dom, m->iova, m->size);

	if (!err && dlend_maps_busy(&dom->maps, m->iova, m->size))
		err = -EEXIST;
	if (err)
		return err;
	list_add_tail(&m->node, &dom->mirrors);
	dom->nr_mirrors++;
	return 0;
}

/* Takes the aperture's lock: not under ours, so that the two have no order. */
static void mirror_free(struct mirror *m)
{
	dlend_aperture_unview(m->ap, &m->view);
	dlend_maps_del(&m->maps, m->iova, m->size);
	kfree(m);
}

static void mirrors_free(struct list_head *gone)
{
	struct mirror *m, *next;

	list_for_each_entry_safe(m, next, gone, node)
		mirror_free(m);
}

int dlend_domain_mirror(struct dlend_domain *dom, u64 iova, struct dlend_aperture *ap, u64 offset,
			u64 size, u32 prot)
{
	struct mirror *m;
	int err;

	err = dlend_maps_check(&dom->maps, iova, 0, size, prot);
	if (!err && reserved(dom, iova, size))
		err = -ERANGE;
	if (err)
		return err;
	m = mirror_alloc(dom, iova, ap, size, prot);
	if (!m)
		return -ENOMEM;
	mutex_lock(&dom->lock);
	err = mirror_enter(dom, m);
	mutex_unlock(&dom->lock);
	if (err)
		goto free_mirror;
	err = dlend_aperture_mirror(ap, &m->view, offset, size);
	trace_dlend_domain_map(dev_name(dom->dev), iova, offset, size, prot, err);
	if (err)
		goto leave;
	return 0;

leave:
	mutex_lock(&dom->lock);
	list_del(&m->node);
	dom->nr_mirrors--;
	mutex_unlock(&dom->lock);
free_mirror:
	kfree(m);
	return err;
}
DLEND_EXPORT(dlend_domain_mirror);

/* Under the lock. Take out the mirrors that lie inside. Return: how many, -EINVAL if one is cut */
static int mirrors_take(struct dlend_domain *dom, u64 iova, u64 size, struct list_head *gone)
{
	u64 last = iova + (size - 1);
	struct mirror *m, *next;
	int n = 0;

	list_for_each_entry(m, &dom->mirrors, node)
		if (m->iova <= last && iova <= m->iova + (m->size - 1) &&
		    (m->iova < iova || m->iova + (m->size - 1) > last))
			return -EINVAL;
	list_for_each_entry_safe(m, next, &dom->mirrors, node) {
		if (m->iova < iova || m->iova > last)
			continue;
		list_move_tail(&m->node, gone);
		dom->nr_mirrors--;
		n++;
	}
	return n;
}

int dlend_domain_unmap(struct dlend_domain *dom, u64 iova, u64 size)
{
	LIST_HEAD(gone);
	int n, mirrors;

	if (!size || !PAGE_ALIGNED(iova | size) || iova + (size - 1) < iova)
		return -EINVAL;
	mutex_lock(&dom->lock);
	/* Whole mappings only: none is cut, so pages of any size will do for them. */
	n = dlend_maps_whole(&dom->maps, iova, size);
	mirrors = n < 0 ? n : mirrors_take(dom, iova, size, &gone);
	if (n > 0 && mirrors >= 0)
		dlend_maps_del(&dom->maps, iova, size);
	n = mirrors < 0 ? mirrors : n + mirrors;
	mutex_unlock(&dom->lock);
	mirrors_free(&gone);
	trace_dlend_domain_unmap(dev_name(dom->dev), iova, size, n);
	if (n < 0)
		return n;
	return n ? 0 : -ENOENT;
}
DLEND_EXPORT(dlend_domain_unmap);

void dlend_domain_unmap_all(struct dlend_domain *dom)
{
	const struct iommu_domain_geometry *g = &dom->domain->geometry;
	u64 first = PAGE_ALIGN(g->aperture_start), last = g->aperture_end;
	u64 half = ((last - first) / 2 + 1) & PAGE_MASK;
	LIST_HEAD(gone);

	mutex_lock(&dom->lock);
	list_splice_tail_init(&dom->mirrors, &gone);
	dom->nr_mirrors = 0;
	/* In two halves: the size of a full 64-bit geometry is no 64-bit number. */
	dlend_maps_del(&dom->maps, first, half);
	dlend_maps_del(&dom->maps, first + half, (last - first - half + 1) & PAGE_MASK);
	mutex_unlock(&dom->lock);
	mirrors_free(&gone);
	trace_dlend_domain_unmap(dev_name(dom->dev), first, last - first, 0);
}
DLEND_EXPORT(dlend_domain_unmap_all);

u64 dlend_domain_bytes(struct dlend_domain *dom)
{
	guard(mutex)(&dom->lock);
	return dom->maps.bytes;
}
DLEND_EXPORT(dlend_domain_bytes);

/* Under the lock, and not the apertures': for people, who do not mind a number of a moment ago. */
static struct dlend_maps mirrors_sum(struct dlend_domain *dom)
{
	struct dlend_maps sum = dom->maps;
	struct mirror *m;

	list_for_each_entry(m, &dom->mirrors, node) {
		sum.nr += READ_ONCE(m->maps.nr);
		sum.bytes += READ_ONCE(m->maps.bytes);
		sum.pages.n4k += READ_ONCE(m->maps.pages.n4k);
		sum.pages.n2m += READ_ONCE(m->maps.pages.n2m);
		sum.pages.n1g += READ_ONCE(m->maps.pages.n1g);
	}
	return sum;
}

void dlend_domain_show(struct dlend_domain *dom, struct seq_file *m)
{
	struct dlend_maps sum;

	mutex_lock(&dom->lock);
	sum = mirrors_sum(dom);
	seq_printf(m, "attached: %d\nmirrors: %u\n", dom->attached, dom->nr_mirrors);
	dlend_maps_show(&sum, m);
	mutex_unlock(&dom->lock);
	seq_printf(m, "faults: %lld\nlast_fault: %llx\n", atomic64_read(&dom->faults),
		   READ_ONCE(dom->last_fault));
}
DLEND_EXPORT(dlend_domain_show);
