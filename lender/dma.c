// SPDX-License-Identifier: GPL-2.0
/*
 * What a lent device may reach by DMA: guest-physical addresses, mapped to the aperture of the
 * borrower as the link reaches it.
 *
 * Functions of one group share one IOMMU domain, and one guest that has two of them maps its
 * memory through both.  So for groups with more than one function every function remembers what
 * it mapped: the first one's mapping is the real one, an equal range of another function waits
 * in its shadow and takes its place when it goes.
 * Knows nothing of leases; called under the group's lock by a holder that was checked.
 */
#include <linux/slab.h>

#include "lender/lender.h"
#include "lender/trace.h"

/* One mapping of one function; @real: it is the one that the domain has. */
struct dl_map {
	struct list_head node;
	u64 gpa, size, offset;
	u32 prot;
	bool real;
};

static bool dl_shared(const struct dl_fn *fn)
{
	return fn->group->members > 1;
}

/* Another function's mapping of exactly this range; @real chooses which kind. */
static struct dl_map *dl_map_twin(struct dl_fn *fn, u64 gpa, u64 size, bool real)
{
	struct dl_map *map;

	for (unsigned int i = 0; i < DL_GROUP_MAX; i++) {
		struct dl_fn *other = fn->group->fn[i];

		if (!other || other == fn)
			continue;
		list_for_each_entry(map, &other->maps, node)
			if (map->gpa == gpa && map->size == size && map->real == real)
				return map;
	}
	return NULL;
}

/* A function has a range once, real or in a shadow. */
static bool dl_map_known(const struct dl_fn *fn, u64 gpa, u64 size)
{
	const struct dl_map *map;

	list_for_each_entry(map, &fn->maps, node)
		if (map->gpa < gpa + size && gpa < map->gpa + map->size)
			return true;
	return false;
}

/*
 * A guest has each byte of the window at one address.  A borrower that maps it again and again is
 * after our memory, which page tables take; the factor is for devices that come and go meanwhile.
 */
static bool dl_map_fits(struct dl_group *group, u64 size)
{
	u64 bytes = dlend_domain_bytes(group->domain);
	u64 p2p = dl_p2p_bytes(group->domain);

	return bytes + size <= 2 * dlend_link_window_bytes(group->link) + p2p;
}

static int dl_map_domain(struct dl_group *group, const struct dl_map *map)
{
	if (!dl_map_fits(group, map->size))
		return -ENOSPC;
	return dlend_link_dma_map(group->link, group->domain, map->gpa, map->offset, map->size,
				  map->prot);
}

static int dl_map_one(struct dl_fn *fn, const struct dl_map *want)
{
	struct dl_map *map;
	int ret;

	if (!dl_shared(fn))
		return dl_map_domain(fn->group, want);
	if (dl_map_known(fn, want->gpa, want->size))
		return -EEXIST;

	map = kmemdup(want, sizeof(*want), GFP_KERNEL);
	if (!map)
		return -ENOMEM;
	ret = dl_map_domain(fn->group, map);
	map->real = !ret;
	if (ret == -EEXIST && dl_map_twin(fn, map->gpa, map->size, true))
		ret = 0;
	if (ret)
		kfree(map);
	else
		list_add_tail(&map->node, &fn->maps);
	return ret;
}

/*
 * What the domain has is another function's from now on.  That one may be in the middle of a
 * transfer: a mapping that leads to the same is not touched.
 */
static void dl_map_inherit(struct dl_fn *fn, const struct dl_map *map)
{
	struct dl_map *twin = dl_map_twin(fn, map->gpa, map->size, false);
	struct dl_group *group = fn->group;

	if (twin && twin->offset == map->offset && twin->prot == map->prot) {
		twin->real = true;
		return;
	}
	dlend_domain_unmap(group->domain, map->gpa, map->size);
	if (!twin)
		return;
	twin->real = !dl_map_domain(group, twin);
	if (!twin->real)
		pci_err(fn->pdev, "DMA at 0x%llx is lost for another function of the group: its mapping could not be made again\n",
			map->gpa);
}

/* Takes one remembered mapping away; a twin in its shadow becomes the real one. */
static void dl_map_drop(struct dl_fn *fn, struct dl_map *map)
{
	list_del(&map->node);
	if (map->real)
		dl_map_inherit(fn, map);
	kfree(map);
}

static int dl_unmap_one(struct dl_fn *fn, u64 gpa, u64 size)
{
	struct dl_map *map, *next;
	int ret = -ENOENT;

	if (!dl_shared(fn))
		return dlend_domain_unmap(fn->group->domain, gpa, size);

	list_for_each_entry(map, &fn->maps, node)
		if (map->gpa < gpa + size && gpa < map->gpa + map->size &&
		    (map->gpa < gpa || map->gpa + map->size > gpa + size))
			return -EINVAL;
	list_for_each_entry_safe(map, next, &fn->maps, node) {
		if (map->gpa < gpa || map->gpa + map->size > gpa + size)
			continue;
		dl_map_drop(fn, map);
		ret = 0;
	}
	return ret;
}

/* The message was checked for form; this is about what only the lender can know. */
static int dl_map_entry(struct dl_fn *fn, struct dlend_link *link,
			const struct dlend_p_dma_entry *entry)
{
	struct dl_map map = {
		.gpa = le64_to_cpu(entry->gpa),
		.size = le64_to_cpu(entry->size),
		.offset = le64_to_cpu(entry->offset),
		.prot = le32_to_cpu(entry->prot),
	};
	int ret;

	if (!map.size || map.gpa + map.size < map.gpa || !map.prot ||
	    map.prot & ~(DLEND_PROT_READ | DLEND_PROT_WRITE))
		return -EINVAL;
	ret = dl_map_one(fn, &map);
	trace_dlend_lend_window(&fn->addr, "dma", true, map.gpa, map.offset, map.size, ret);
	if (ret)
		dev_err_ratelimited(&fn->pdev->dev, "guest memory 0x%llx (0x%llx bytes, window offset 0x%llx of node %u) cannot be mapped (%d)\n",
				    map.gpa, map.size, map.offset, dlend_link_peer(link), ret);
	return ret;
}

/**
 * dl_dma_map - map all entries of a message, or none
 * @fn: function
 * @link: link to the borrower
 * @dma: entries, copied and checked for form
 *
 * Context: group lock, the lease was checked. Return: 0; -ERANGE outside the window or the
 * domain; -ENOSPC more than a guest can have; -EEXIST overlap; -EINVAL; -ENOMEM.
 */
int dl_dma_map(struct dl_fn *fn, struct dlend_link *link, const struct dlend_p_dma *dma)
{
	u32 count = le32_to_cpu(dma->count);
	int ret = 0;
	u32 i;

	if (!count || count > DLEND_DMA_PER_MSG)
		return -EINVAL;
	for (i = 0; i < count && !ret; i++)
		ret = dl_map_entry(fn, link, &dma->entry[i]);
	if (!ret)
		return 0;
	for (i--; i--; )
		dl_unmap_one(fn, le64_to_cpu(dma->entry[i].gpa), le64_to_cpu(dma->entry[i].size));
	return ret;
}

/**
 * dl_dma_unmap - unmap all entries of a message
 * @fn: function
 * @dma: entries, copied and checked for form
 *
 * What is not mapped is fine: the borrower may say it twice. Context: group lock.
 * Return: 0, or -EINVAL if an entry cuts a mapping (the others are done all the same).
 */
int dl_dma_unmap(struct dl_fn *fn, const struct dlend_p_dma *dma)
{
	u32 count = le32_to_cpu(dma->count);
	int first = 0;

	if (!count || count > DLEND_DMA_PER_MSG)
		return -EINVAL;
	for (u32 i = 0; i < count; i++) {
		u64 gpa = le64_to_cpu(dma->entry[i].gpa), size = le64_to_cpu(dma->entry[i].size);
		int ret = -EINVAL;

		if (size && gpa + size > gpa)
			ret = dl_unmap_one(fn, gpa, size);
		trace_dlend_lend_window(&fn->addr, "dma", false, gpa, 0, size, ret);
		if (ret == -ENOENT)
			ret = 0;
		if (!first)
			first = ret;
	}
	return first;
}

/** dl_dma_forget - the function leaves its group's lease: what it mapped goes. Group lock. */
void dl_dma_forget(struct dl_fn *fn)
{
	struct dl_map *map, *next;

	list_for_each_entry_safe(map, next, &fn->maps, node)
		dl_map_drop(fn, map);
}

/** dl_dma_free - the lease is over and its domain blocked: only the books remain. Group lock. */
void dl_dma_free(struct dl_fn *fn)
{
	struct dl_map *map, *next;

	list_for_each_entry_safe(map, next, &fn->maps, node) {
		list_del(&map->node);
		kfree(map);
	}
}
