// SPDX-License-Identifier: GPL-2.0
/*
 * IOMMU domain of a lent group: it translates IOVAs (guest-physical addresses) to physical
 * addresses.
 *
 * Knows the IOMMU API; neither leases nor links, nor why a range is mapped.
 */
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <dlend/aperture.h>
#include <dlend/compat.h>
#include "aperture.h"
#include "claims.h"
#include "paging.h"
#include "slots.h"
#include "iommu/trace.h"

/*
 * struct dlend_domain - see dlend/aperture.h
 * @dev: one device of the group, for messages; a reference
 * @pg: the kernel's domain
 * @lock: guards @claims, @mirrors, @nr_mirrors; taken before an aperture's lock
 * @claims: ranges and their owners
 * @mirrors: ranges whose mappings follow those of an aperture; @nr_mirrors: how many
 * @reserved, @nr_reserved: ranges that must not be mapped (MSI, RMRRs and unity maps)
 */
struct dlend_domain {
	struct device *dev;
	struct dlend_paging *pg;
	struct mutex lock;		/* claims, mirrors */
	struct dlend_claims claims;
	struct list_head mirrors;
	unsigned int nr_mirrors;
	struct dlend_span *reserved;
	int nr_reserved;
};

/*
 * struct dlend_mirror - a range of the domain with the same mappings as a part of an aperture
 * @node: in dlend_domain.mirrors
 * @notifier: of the part of @ap
 * @iova: where the range begins in the domain
 * @prot: DLEND_PROT_*: upper limit for the mappings
 * @maps: mappings of this range in the domain; under the aperture's lock while @notifier is
 *	registered
 */
struct dlend_mirror {
	struct list_head node;
	struct dlend_notifier notifier;
	struct dlend_aperture *ap;
	u64 iova;
	u32 prot;
	struct dlend_maps maps;
};

static int dlend_mirror_map(struct dlend_notifier *notifier, u64 at,
			    const struct dlend_piece *piece)
{
	struct dlend_mirror *m = container_of(notifier, struct dlend_mirror, notifier);
	struct dlend_piece mine = *piece;

	mine.offset = m->iova + at;
	mine.prot &= m->prot;
	return mine.prot ? dlend_maps_add(&m->maps, &mine) : 0;
}

static void dlend_mirror_unmap(struct dlend_notifier *notifier, u64 at, u64 size)
{
	struct dlend_mirror *m = container_of(notifier, struct dlend_mirror, notifier);

	dlend_maps_del(&m->maps, m->iova + at, size);
}

static const struct dlend_notifier_ops dlend_mirror_ops = {
	.map = dlend_mirror_map,
	.unmap = dlend_mirror_unmap,
};

/* dlend_claims_ops.mirror: under the domain's lock; takes the aperture's. */
static void *dlend_mirror_begin(struct dlend_claims *c, const struct dlend_dma_range *r)
{
	struct dlend_domain *dom = container_of(c, struct dlend_domain, claims);
	struct dlend_mirror *m = kzalloc_obj(*m, GFP_KERNEL_ACCOUNT);
	int err;

	if (!m)
		return ERR_PTR(-ENOMEM);
	m->notifier.ops = &dlend_mirror_ops;
	m->ap = r->ap;
	m->iova = r->iova;
	m->prot = r->prot;
	dlend_maps_init(&m->maps, dom->pg);
	err = dlend_aperture_mirror(r->ap, &m->notifier, r->offset, r->size);
	if (err) {
		kfree(m);
		return ERR_PTR(err);
	}
	list_add_tail(&m->node, &dom->mirrors);
	dom->nr_mirrors++;
	return m;
}

static void dlend_mirror_end(struct dlend_claims *c, void *mirror)
{
	struct dlend_domain *dom = container_of(c, struct dlend_domain, claims);
	struct dlend_mirror *m = mirror;

	dlend_aperture_unmirror(m->ap, &m->notifier);
	list_del(&m->node);
	dom->nr_mirrors--;
	kfree(m);
}

static void dlend_domain_range_unmapped(struct dlend_claims *c, const struct dlend_dma_range *r)
{
	struct dlend_domain *dom = container_of(c, struct dlend_domain, claims);

	trace_dlend_domain_unmap(dev_name(dom->dev), r, 0);
}

static void dlend_domain_range_lost(struct dlend_claims *c, struct dlend_owner *owner,
				    const struct dlend_dma_range *r, int err)
{
	struct dlend_domain *dom = container_of(c, struct dlend_domain, claims);

	dev_err(dom->dev, "DMA at 0x%llx (0x%llx bytes) is lost for another function of the group: its mapping could not be made again (%d); reset its guest\n",
		r->iova, r->size, err);
	if (owner->lost)
		owner->lost(owner, r);
}

static const struct dlend_claims_ops dlend_domain_claims_ops = {
	.mirror = dlend_mirror_begin,
	.unmirror = dlend_mirror_end,
	.unmapped = dlend_domain_range_unmapped,
	.lost = dlend_domain_range_lost,
};

struct dlend_domain *dlend_domain_create(struct device *dev)
{
	struct dlend_domain *dom = kzalloc_obj(*dom);
	int err;

	if (!dom)
		return ERR_PTR(-ENOMEM);
	dom->dev = get_device(dev);
	mutex_init(&dom->lock);
	INIT_LIST_HEAD(&dom->mirrors);
	err = dlend_paging_reserved(dev, false /* no windows */, &dom->reserved);
	if (err < 0)
		goto put_dev;
	dom->nr_reserved = err;
	dom->pg = dlend_paging_create(dev);
	if (IS_ERR(dom->pg)) {
		err = PTR_ERR(dom->pg);
		dev_err(dev, "IOMMU gave no domain (%d): turn on VT-d or AMD-Vi in the firmware and boot with intel_iommu=on or amd_iommu=on\n",
			err);
		goto free_reserved;
	}
	dlend_claims_init(&dom->claims, dom->pg, &dlend_domain_claims_ops);
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
	mutex_lock(&dom->lock);
	WARN(!dom->claims.blocked && dom->pg->ops->attached(dom->pg),
	     "dlend: domain of %s destroyed while attached\n", dev_name(dom->dev));
	dlend_claims_end(&dom->claims);
	mutex_unlock(&dom->lock);
	if (!dlend_paging_end(dom->pg))
		dev_err(dom->dev, "the kernel does not give up the IOMMU domain of its last borrower: left in place, empty; unbind the device and bind it again to lend it\n");
	kfree(dom->reserved);
	put_device(dom->dev);
	mutex_destroy(&dom->lock);
	kfree(dom);
}
DLEND_EXPORT(dlend_domain_destroy);

int dlend_domain_attach(struct dlend_domain *dom)
{
	int err;

	mutex_lock(&dom->lock);
	err = dom->pg->ops->attach(dom->pg);
	mutex_unlock(&dom->lock);
	if (err)
		dev_err(dom->dev, "IOMMU group cannot be attached (%d)%s\n", err,
			err == -EBUSY ? ": another owner has it, or it is being reset" : "");
	return err;
}
DLEND_EXPORT(dlend_domain_attach);

void dlend_domain_block(struct dlend_domain *dom)
{
	guard(mutex)(&dom->lock);
	if (!dom->claims.blocked)
		dlend_claims_block(&dom->claims);
}
DLEND_EXPORT(dlend_domain_block);

static bool dlend_domain_reserved(const struct dlend_domain *dom, u64 iova, u64 size)
{
	int i;

	for (i = 0; i < dom->nr_reserved; i++)
		if (iova <= dom->reserved[i].last && iova + (size - 1) >= dom->reserved[i].first)
			return true;
	return false;
}

int dlend_domain_map(struct dlend_domain *dom, struct dlend_owner *owner,
		     const struct dlend_dma_range *r)
{
	int err = r->size && dlend_domain_reserved(dom, r->iova, r->size) ? -ERANGE : 0;

	mutex_lock(&dom->lock);
	if (!err)
		err = dlend_claims_add(&dom->claims, owner, r);
	mutex_unlock(&dom->lock);
	trace_dlend_domain_map(dev_name(dom->dev), r, err);
	return err;
}
DLEND_EXPORT(dlend_domain_map);

int dlend_domain_unmap(struct dlend_domain *dom, struct dlend_owner *owner, u64 iova, u64 size)
{
	int n;

	if (!size || !PAGE_ALIGNED(iova | size) || iova + (size - 1) < iova)
		return -EINVAL;
	mutex_lock(&dom->lock);
	n = dlend_claims_del(&dom->claims, owner, iova, size);
	mutex_unlock(&dom->lock);
	if (n < 0)
		return n;
	return n ? 0 : -ENOENT;
}
DLEND_EXPORT(dlend_domain_unmap);

void dlend_domain_drop(struct dlend_domain *dom, struct dlend_owner *owner)
{
	guard(mutex)(&dom->lock);
	dlend_claims_drop(&dom->claims, owner);
}
DLEND_EXPORT(dlend_domain_drop);

u64 dlend_domain_bytes(struct dlend_domain *dom, enum dlend_owner_kind kind)
{
	guard(mutex)(&dom->lock);
	return dom->claims.bytes[kind];
}
DLEND_EXPORT(dlend_domain_bytes);

static void dlend_domain_add_up(struct dlend_maps *sum, const struct dlend_maps *m)
{
	sum->nr += READ_ONCE(m->nr);
	sum->nr_pages += READ_ONCE(m->nr_pages);
	sum->bytes += READ_ONCE(m->bytes);
	sum->pages.n4k += READ_ONCE(m->pages.n4k);
	sum->pages.n2m += READ_ONCE(m->pages.n2m);
	sum->pages.n1g += READ_ONCE(m->pages.n1g);
}

/*
 * Under the lock.  The apertures' locks, which guard the mirrors, are not taken: these numbers are
 * for people, and may be a moment old.
 */
static void dlend_domain_sum(struct dlend_domain *dom, struct dlend_maps *sum)
{
	struct dlend_mirror *m;

	dlend_maps_init(sum, NULL);
	dlend_domain_add_up(sum, &dom->claims.maps);
	list_for_each_entry(m, &dom->mirrors, node)
		dlend_domain_add_up(sum, &m->maps);
}

void dlend_domain_show(struct dlend_domain *dom, struct seq_file *m)
{
	struct dlend_maps sum;

	guard(mutex)(&dom->lock);
	dlend_domain_sum(dom, &sum);
	seq_printf(m, "attached: %d\ncoherent: %d\nclaims: %u\nmirrors: %u\n",
		   dom->pg->ops->attached(dom->pg), dom->pg->coherent, dom->claims.nr,
		   dom->nr_mirrors);
	dlend_maps_show(&sum, m);
	seq_printf(m, "faults: %llu\nlast_fault: %llx\n", (u64)atomic64_read(&dom->pg->faults),
		   READ_ONCE(dom->pg->last_fault));
}
DLEND_EXPORT(dlend_domain_show);
