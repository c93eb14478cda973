/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paging domain: one domain of the kernel's IOMMU API.  The functions are in an ops table, because
 * the suites replace the kernel by a fake.  They are called when a mapping changes, never in the
 * data path.
 */
#ifndef DLEND_IOMMU_PAGING_H
#define DLEND_IOMMU_PAGING_H

#include <linux/atomic.h>
#include <linux/refcount.h>
#include <linux/types.h>

struct device;
struct dlend_paging;
struct dlend_span;
struct iommu_domain;
struct iommu_group;

/*
 * For allocations while mappings change.  When a link goes, all its mappings are removed at once,
 * even if this host is short of memory and swaps to a device behind that link.  So code that delays
 * this must not wait for I/O.
 */
#define DLEND_PAGING_GFP	(GFP_NOIO | __GFP_ACCOUNT)

/* Beside DLEND_PROT_READ and DLEND_PROT_WRITE: a BAR is mapped, not RAM. */
#define DLEND_PAGING_MMIO	0x80000000u

/**
 * struct dlend_paging_ops - the domain; all of them may sleep
 * @map: @size bytes at @iova lead to @phys; @prot: DLEND_PROT_* and DLEND_PAGING_MMIO. In pages as
 *	dlend_page_at() says. Return: 0, or -errno and nothing of it is mapped
 * @unmap: and flush the IOTLB. A page that straddles an edge goes as a whole. Return: bytes
 * @phys: where @iova leads; 0: nowhere
 * @attach: the device's group translates by it. Return: 0 or -errno
 * @detach: block the group; the kernel may refuse that without an error: ask @attached
 * @attached: does the kernel have it as the group's domain?
 * @free: free the domain and @pg; never while it is attached, and for dlend_paging_put() only
 */
struct dlend_paging_ops {
	int (*map)(struct dlend_paging *pg, u64 iova, phys_addr_t phys, u64 size, u32 prot);
	u64 (*unmap)(struct dlend_paging *pg, u64 iova, u64 size);
	phys_addr_t (*phys)(struct dlend_paging *pg, u64 iova);
	int (*attach)(struct dlend_paging *pg);
	void (*detach)(struct dlend_paging *pg);
	bool (*attached)(struct dlend_paging *pg);
	void (*free)(struct dlend_paging *pg);
};

/**
 * struct dlend_paging - one domain
 * @sizes: bit per size of a page, 4 KiB at least
 * @first, @last: addresses that it can translate, inclusive
 * @coherent: the IOMMU lets no device bypass the CPU's caches, even if it asks for that (No Snoop)
 * @tables_stay: unmapping frees no page table, as far as that can be relied on
 * @shared: the device's own driver has mappings in it, too, below @first
 * @users: references: of its maker, until dlend_paging_end(), and of each dlend_paging_get()
 * @domain: the kernel's domain
 * @group: the IOMMU group that it fits; referenced
 * @dev: a device of that group, for messages; referenced
 * @driver_mask: of a shared domain: the DMA mask that @dev's driver has set
 * @faults: accesses that the IOMMU blocked, where its driver reports them; @last_fault: IO address
 *	of the last one
 *
 * Members from @domain on are of paging.c's domains only.
 */
struct dlend_paging {
	const struct dlend_paging_ops *ops;
	u64 sizes;
	u64 first, last;
	bool shared;
	bool coherent;
	bool tables_stay;
	refcount_t users;
	struct iommu_domain *domain;
	struct iommu_group *group;
	struct device *dev;
	u64 driver_mask;
	atomic64_t faults;
	u64 last_fault;
};

/**
 * dlend_paging_create - make a new, empty domain
 * @dev: device whose IOMMU group it shall fit; a reference is kept
 *
 * Context: process, may sleep.
 * Return: domain, not attached; ERR_PTR: -ENODEV no IOMMU; -ENOMEM; or the IOMMU's error.
 */
struct dlend_paging *dlend_paging_create(struct device *dev);

/**
 * dlend_paging_share - use the domain in which a device's own driver maps its DMA
 * @dev: device, bound to a driver that goes on doing DMA; a reference is kept
 *
 * From now on the driver gets IO addresses below 4 GiB only: the device's DMA mask is set so, until
 * the domain is ended. Earlier mappings above that stay; dlend_paging_empty() finds them.
 * Faults are not counted.
 * Context: process, may sleep.
 * Return: domain, in use by the device; ERR_PTR: -ENODEV no IOMMU translates by a domain of the
 * DMA API; -ENOSPC the device has no addresses above 4 GiB; -ENOMEM.
 */
struct dlend_paging *dlend_paging_share(struct device *dev);

/**
 * dlend_paging_empty - is nothing mapped in a range?
 * @pg: domain
 * @first: (in) IO address, page aligned
 * @size: (in) bytes
 *
 * Looks at each page: 1 GiB takes some 30 ms.
 * Context: process, may sleep.
 */
bool dlend_paging_empty(struct dlend_paging *pg, u64 first, u64 size);

/**
 * dlend_paging_detach - block the group, if the kernel does so
 * @pg: domain, attached or not
 *
 * Context: process, may sleep.
 * Return: true: the group is blocked. false: the kernel did not let go of the domain (7.0 and 7.1
 * do not while a device of the group is being reset). Then the kernel still uses the domain: it
 * must not be freed, and devices reach what it maps.
 */
static inline bool dlend_paging_detach(struct dlend_paging *pg)
{
	if (pg->ops->attached(pg))
		pg->ops->detach(pg);
	return !pg->ops->attached(pg);
}

/**
 * dlend_paging_get - keep the domain; it may be detached while it is kept
 * @pg: domain that was not ended
 *
 * This is for users that unmap without a flush: the later flush frees page tables of that domain.
 * Context: any. Return: @pg
 */
static inline struct dlend_paging *dlend_paging_get(struct dlend_paging *pg)
{
	refcount_inc(&pg->users);
	return pg;
}

/** dlend_paging_put - the last one frees the domain and @pg. Context: process, may sleep. */
static inline void dlend_paging_put(struct dlend_paging *pg)
{
	if (refcount_dec_and_test(&pg->users))
		pg->ops->free(pg);
}

/**
 * dlend_paging_end - detach and free
 * @pg: domain; gone if this returns true, as soon as it is not kept any more
 *
 * Context: process, may sleep. Return: false: the kernel still uses the domain, so it stays.
 */
static inline bool dlend_paging_end(struct dlend_paging *pg)
{
	if (!dlend_paging_detach(pg))
		return false;
	dlend_paging_put(pg);
	return true;
}

/**
 * dlend_paging_reserved - find the IO addresses that must not be used for a device and its group
 * @dev: device
 * @windows: (in) also the windows of its host bridge: accesses there would count as peer-to-peer
 * @out: (out) array, to be freed by kfree()
 *
 * Context: process, may sleep; takes the IOMMU core's lock of the group.
 * Return: number of spans; -ENODEV @dev is in no group; -ENOMEM.
 */
int dlend_paging_reserved(struct device *dev, bool windows, struct dlend_span **out);

#endif
