/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paging domain: one IOMMU domain of the kernel, with page tables.  Its functions are in an ops
 * table, because the test suites replace the kernel by a fake.  They are called when a mapping
 * changes, never in the data path.
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
 * For allocations while mappings change.  When a link goes down, all its mappings are removed at
 * once, even if this host is short of memory and swaps to a device behind that link.  So code that
 * can delay the removal, because it has the same locks, must not wait for I/O.
 */
#define DLEND_PAGING_GFP	(GFP_NOIO | __GFP_ACCOUNT)

/* A bit beside DLEND_PROT_READ and DLEND_PROT_WRITE: a BAR is mapped, not RAM. */
#define DLEND_PAGING_MMIO	0x80000000u

/**
 * struct dlend_paging_ops - functions of a domain; all of them may sleep
 * @map: map @size bytes at @iova to @phys; @prot: DLEND_PROT_* and DLEND_PAGING_MMIO. Uses pages as
 *	dlend_page_at() says. Return: 0; or -errno, and nothing of the range is mapped
 * @unmap: unmap @size bytes at @iova, and flush the IOTLB. A page that straddles an edge is
 *	unmapped as a whole. Return: bytes that were unmapped
 * @phys: physical address that @iova is mapped to; 0: it is not mapped
 * @attach: attach the group to the domain. Return: 0 or -errno
 * @detach: detach the group, and block its DMA; the kernel may refuse that without an error: ask
 *	@attached
 * @attached: does the kernel have it as the group's domain? false for a shared domain
 * @free: free the domain and @pg; never while it is attached; called by dlend_paging_put() only
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
 * @ops: functions of the domain
 * @sizes: a bit for each page size, 4 KiB at least
 * @first: lowest IOVA that the domain can translate; of a shared one, the lowest for dlend
 * @last: highest IOVA, inclusive, likewise
 * @coherent: the IOMMU lets no device bypass the CPU's caches, even if it asks for that (No Snoop)
 * @tables_stay: it cannot be relied on that unmapping frees page tables (DLEND_TABLES_STAY)
 * @shared: the device's own driver has mappings in it, too, below @first
 * @users: references: one until dlend_paging_end(), and one of each dlend_paging_get()
 * @domain: the kernel's domain
 * @group: the IOMMU group for which it was made; a reference
 * @dev: a device of that group, for messages; a reference
 * @driver_mask: of a shared domain: the DMA mask that @dev's driver has set
 * @faults: accesses that the IOMMU blocked, where its driver reports them
 * @last_fault: IOVA of the last one
 *
 * Only files that are not pure use the members from @domain on: the suites' fakes do not set them.
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
 * dlend_paging_prot - what iommu_map() is told of a mapping
 * @prot: (in) DLEND_PROT_* and DLEND_PAGING_MMIO
 *
 * Context: any.
 * Return: IOMMU_*
 */
int dlend_paging_prot(u32 prot);

/**
 * dlend_paging_create - make a new, empty domain
 * @dev: device for whose IOMMU group the domain is; a reference is kept
 *
 * Context: process, may sleep.
 * Return: domain, not attached; ERR_PTR: -ENODEV no IOMMU; -ENOMEM; or the IOMMU's error.
 */
struct dlend_paging *dlend_paging_create(struct device *dev);

/**
 * dlend_paging_share - use the DMA API's domain of a device, in which its driver maps its DMA
 * @dev: device, bound to a driver that goes on doing DMA; a reference is kept
 *
 * Sets the device's DMA mask to 32 bits until the last reference is dropped, so the driver gets
 * IOVAs below 4 GiB only. Earlier mappings above that stay; dlend_paging_empty() finds them.
 * Faults are not counted.
 * Context: process, may sleep.
 * Return: domain, in use by the device; ERR_PTR: -ENODEV no IOMMU translates by a domain of the
 * DMA API; -ENOSPC the device has no addresses above 4 GiB; -ENOMEM.
 */
struct dlend_paging *dlend_paging_share(struct device *dev);

/**
 * dlend_paging_empty - is nothing mapped in a range?
 * @pg: domain
 * @first: (in) IOVA, page aligned
 * @size: (in) bytes
 *
 * Looks at each page: 1 GiB takes some 30 ms.
 * Context: process, may sleep. Return: true: nothing is mapped there.
 */
bool dlend_paging_empty(struct dlend_paging *pg, u64 first, u64 size);

/**
 * dlend_paging_detach - detach the group, and block its DMA, if the kernel does so
 * @pg: domain, attached or not
 *
 * Context: process, may sleep.
 * Return: true: the group's DMA is blocked. false: the kernel has not detached the domain (7.0 and
 * 7.1 do not while a device of the group is being reset). Then the domain is still in use: it must
 * not be freed, and devices reach what is mapped in it.
 */
static inline bool dlend_paging_detach(struct dlend_paging *pg)
{
	if (pg->ops->attached(pg))
		pg->ops->detach(pg);
	return !pg->ops->attached(pg);
}

/**
 * dlend_paging_get - take a reference: the domain is not freed, but may be detached
 * @pg: domain for which dlend_paging_end() was not called
 *
 * For users that unmap without a flush: their later flush frees page tables of the domain.
 * Context: any. Return: @pg
 */
static inline struct dlend_paging *dlend_paging_get(struct dlend_paging *pg)
{
	refcount_inc(&pg->users);
	return pg;
}

/** dlend_paging_put - drop a reference; the last one frees @pg. Context: process, may sleep. */
static inline void dlend_paging_put(struct dlend_paging *pg)
{
	if (refcount_dec_and_test(&pg->users))
		pg->ops->free(pg);
}

/**
 * dlend_paging_end - detach the domain, and drop its maker's reference
 * @pg: domain; the caller must not use it after this, except through a dlend_paging_get() of its
 *	own
 *
 * Context: process, may sleep. Return: true; false: the kernel still uses the domain, so it is
 * neither detached nor freed, ever.
 */
static inline bool dlend_paging_end(struct dlend_paging *pg)
{
	if (!dlend_paging_detach(pg))
		return false;
	dlend_paging_put(pg);
	return true;
}

/**
 * dlend_paging_reserved - find the IOVAs that must not be used for a device and its group
 * @dev: device
 * @windows: (in) true: also the memory windows of the device's host bridge: a switch would route
 *	requests with such addresses to other devices
 * @out: (out) array of spans, in any order, which may overlap; the caller frees it by kfree()
 *
 * Context: process, may sleep; takes the IOMMU group's mutex.
 * Return: number of spans; -ENODEV @dev is in no group; -ENOMEM. On an error @out is NULL.
 */
int dlend_paging_reserved(struct device *dev, bool windows, struct dlend_span **out);

#endif
