// SPDX-License-Identifier: GPL-2.0
/*
 * Range claims in a domain, with the queue of claims on one range; and a limit for page tables that
 * stay when claims end: see claims.h.
 *
 * Pure: no device, no lock; the kernel's IOMMU domain is behind paging.h.
 */
#include <linux/align.h>
#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/interval_tree_generic.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/alloc.h>
#include "claims.h"
#include "paging.h"

/* Page tables */

/* Kinds of tables, and log2 of the bytes that one table of each kind maps. */
enum { DLEND_PT_QUOTA_2M, DLEND_PT_QUOTA_1G, DLEND_PT_QUOTA_512G };
static const unsigned int dlend_pt_quota_bits[] = { 21, 30, 39 };
#define DLEND_PT_QUOTA_MAX_BITS	(21 + 31)	/* an IDA's numbers have 31 bits */

void dlend_pt_quota_init(struct dlend_pt_quota *t)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(t->of); i++)
		ida_init(&t->of[i]);
	t->tables = 0;
}

void dlend_pt_quota_free(struct dlend_pt_quota *t)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(t->of); i++)
		ida_destroy(&t->of[i]);
	t->tables = 0;
}

/* Count the table of @kind that maps @at, unless it was counted before. @most: the limit */
static int dlend_pt_quota_table(struct dlend_pt_quota *t, unsigned int kind, u64 at, u64 most)
{
	unsigned int number = at >> dlend_pt_quota_bits[kind];
	int err = ida_alloc_range(&t->of[kind], number, number, GFP_KERNEL_ACCOUNT);

	/* This table was counted before. */
	if (err == -ENOSPC)
		return 0;
	if (err < 0)
		return err;
	if (t->tables >= most) {
		ida_free(&t->of[kind], number);
		return -ENOSPC;
	}
	t->tables++;
	return 0;
}

/* Count the table of 1 GiB that maps @at, and the table above it. */
static int dlend_pt_quota_1g(struct dlend_pt_quota *t, u64 at, u64 most)
{
	return dlend_pt_quota_table(t, DLEND_PT_QUOTA_512G, at, most) ?:
	       dlend_pt_quota_table(t, DLEND_PT_QUOTA_1G, at, most);
}

/* Count all tables that map any of @first to @last. */
static int dlend_pt_quota_all(struct dlend_pt_quota *t, u64 first, u64 last, u64 most)
{
	int err = 0;
	u64 at;

	for (at = ALIGN_DOWN(first, SZ_2M); at <= last && !err; at += SZ_2M) {
		if (at <= first || IS_ALIGNED(at, SZ_1G)) {
			err = dlend_pt_quota_1g(t, at, most);
			cond_resched();
		}
		err = err ?: dlend_pt_quota_table(t, DLEND_PT_QUOTA_2M, at, most);
	}
	return err;
}

/*
 * Count the tables at one end of a range, if that end is inside of what they map: these stay when
 * the range is unmapped.  @at: the range's first or last address; @edge: the border of the range
 * there
 */
static int dlend_pt_quota_edge(struct dlend_pt_quota *t, u64 at, u64 edge, u64 most)
{
	int err = 0;

	if (!IS_ALIGNED(edge, BIT_ULL(dlend_pt_quota_bits[DLEND_PT_QUOTA_512G])))
		err = dlend_pt_quota_1g(t, at, most);
	if (!err && !IS_ALIGNED(edge, SZ_2M))
		err = dlend_pt_quota_table(t, DLEND_PT_QUOTA_2M, at, most);
	return err;
}

int dlend_pt_quota_add(struct dlend_pt_quota *t, u64 first, u64 last, bool pieces, u64 most)
{
	if (last >> DLEND_PT_QUOTA_MAX_BITS)
		return -ERANGE;
	if (pieces)
		return dlend_pt_quota_all(t, first, last, most);
	return dlend_pt_quota_edge(t, first, first, most) ?:
	       dlend_pt_quota_edge(t, last, last + 1, most);
}

/* Claims */

/*
 * struct dlend_dma_claim - a range of one owner
 * @node, @subtree_last: in dlend_claims.live, while the claim is live
 * @queue: of a live claim: head of the equal claims that wait, in order of arrival; of a waiting
 *	claim: entry there
 * @of_owner: in dlend_owner.claims
 * @owner: owner of the claim; NULL: the owner gave the claim up after the domain was blocked
 * @r: the range
 * @mirror: of a live claim with @r.ap: from dlend_claims_ops.mirror()
 * @live: see claims.h
 */
struct dlend_dma_claim {
	struct rb_node node;
	u64 subtree_last;
	struct list_head queue;
	struct list_head of_owner;
	struct dlend_owner *owner;
	struct dlend_dma_range r;
	void *mirror;
	bool live;
};

#define DLEND_DMA_CLAIM_FIRST(c)	((c)->r.iova)

static u64 dlend_dma_claim_last(const struct dlend_dma_claim *c)
{
	return c->r.iova + (c->r.size - 1);
}

INTERVAL_TREE_DEFINE(struct dlend_dma_claim, node, u64, subtree_last, DLEND_DMA_CLAIM_FIRST,
		     dlend_dma_claim_last, static __maybe_unused, dlend_dma_claim_tree);

void dlend_claims_init(struct dlend_claims *c, struct dlend_paging *pg,
		       const struct dlend_claims_ops *ops)
{
	*c = (struct dlend_claims) { .pg = pg, .ops = ops, .live = RB_ROOT_CACHED };
	dlend_maps_init(&c->maps, pg);
	dlend_pt_quota_init(&c->pt_quota);
}

/* Do both lead to the same place?  Then it makes no difference to a device which one is live. */
static bool dlend_dma_claim_same_target(const struct dlend_dma_range *a,
					const struct dlend_dma_range *b)
{
	return a->prot == b->prot && a->mmio == b->mmio && a->phys == b->phys && a->ap == b->ap &&
	       a->offset == b->offset && a->hole == b->hole && a->hole_end == b->hole_end;
}

static int dlend_claims_map_part(struct dlend_claims *c, const struct dlend_dma_range *r, u64 from,
				 u64 to)
{
	struct dlend_piece piece = {
		.offset = r->iova + from,
		.size = to - from,
		.phys = r->phys + from,
		.prot = r->prot,
		.mmio = r->mmio,
	};

	return from < to ? dlend_maps_add(&c->maps, &piece) : 0;
}

/* Map a range, except its hole; all or nothing. */
static int dlend_claims_map_range(struct dlend_claims *c, const struct dlend_dma_range *r)
{
	u64 before = min(r->hole, r->size);
	int err;

	if (r->hole >= r->hole_end)
		return dlend_claims_map_part(c, r, 0, r->size);
	err = dlend_claims_map_part(c, r, 0, before);
	if (err)
		return err;
	err = dlend_claims_map_part(c, r, r->hole_end, r->size);
	if (err && before)
		dlend_maps_del(&c->maps, r->iova, before);
	return err;
}

/* A hole cuts a range in two, and tables can stay at both ends of each part. */
static int dlend_claims_quota_add_parts(struct dlend_claims *c, const struct dlend_dma_range *r,
					u64 most)
{
	u64 last = r->iova + (r->size - 1);
	bool pieces = r->ap || c->pg->tables_stay;
	int err = 0;

	if (r->ap || r->hole >= r->hole_end)
		return dlend_pt_quota_add(&c->pt_quota, r->iova, last, pieces, most);
	if (r->hole)
		err = dlend_pt_quota_add(&c->pt_quota, r->iova, r->iova + r->hole - 1, pieces,
					 most);
	if (!err && r->hole_end < r->size)
		err = dlend_pt_quota_add(&c->pt_quota, r->iova + r->hole_end, last, pieces, most);
	return err;
}

/* Before @r is mapped: count the page tables that may stay.  Return: 0; -ENOSPC too many */
static int dlend_claims_quota_add(struct dlend_claims *c, const struct dlend_dma_range *r)
{
	u64 most, bytes = r->size;
	unsigned int i;

	for (i = 0; i < DLEND_OWNER_KINDS; i++)
		bytes += c->bytes[i];
	c->most = max(c->most, bytes);
	most = DLEND_CLAIMS_TABLES_MAX + DLEND_CLAIMS_TABLES_OF * (c->most >> 21);
	return dlend_claims_quota_add_parts(c, r, most);
}

/* Map the range of @claim, and make the claim live. */
static int dlend_dma_claim_map(struct dlend_claims *c, struct dlend_dma_claim *claim)
{
	int err;

	err = dlend_claims_quota_add(c, &claim->r);
	if (err)
		return err;
	if (claim->r.ap) {
		claim->mirror = c->ops->mirror(c, &claim->r);
		err = PTR_ERR_OR_ZERO(claim->mirror);
	} else {
		err = dlend_claims_map_range(c, &claim->r);
	}
	if (err)
		return err;
	claim->live = true;
	INIT_LIST_HEAD(&claim->queue);
	dlend_dma_claim_tree_insert(claim, &c->live);
	c->bytes[claim->owner->kind] += claim->r.size;
	return 0;
}

static void dlend_dma_claim_unmap(struct dlend_claims *c, struct dlend_dma_claim *claim)
{
	if (claim->r.ap)
		c->ops->unmirror(c, claim->mirror);
	else
		dlend_maps_del(&c->maps, claim->r.iova, claim->r.size);
	c->ops->unmapped(c, &claim->r);
}

/* Take @claim from its owner; the claim and its mapping stay. */
static void dlend_dma_claim_disown(struct dlend_dma_claim *claim)
{
	if (!claim->owner)
		return;
	list_del(&claim->of_owner);
	claim->owner->nr--;
	claim->owner = NULL;
}

static void dlend_dma_claim_free(struct dlend_claims *c, struct dlend_dma_claim *claim)
{
	dlend_dma_claim_disown(claim);
	c->nr--;
	kfree(claim);
}

/* @next becomes live instead of @claim. Both have the same target: the IOMMU's mapping stays. */
static void dlend_dma_claim_replace(struct dlend_claims *c, struct dlend_dma_claim *claim,
				    struct dlend_dma_claim *next)
{
	list_del(&next->queue);
	INIT_LIST_HEAD(&next->queue);
	list_splice_tail_init(&claim->queue, &next->queue);
	next->mirror = claim->mirror;
	next->live = true;
	dlend_dma_claim_tree_insert(next, &c->live);
	c->bytes[next->owner->kind] += next->r.size;
}

/* The first claim of @queue that can be mapped becomes live; lost() is called for those before. */
static void dlend_claims_next(struct dlend_claims *c, struct list_head *queue)
{
	struct dlend_dma_claim *next;
	int err;

	while ((next = list_first_entry_or_null(queue, struct dlend_dma_claim, queue))) {
		list_del(&next->queue);
		err = dlend_dma_claim_map(c, next);
		if (!err) {
			list_splice_tail_init(queue, &next->queue);
			return;
		}
		c->ops->lost(c, next->owner, &next->r, err);
		dlend_dma_claim_free(c, next);
	}
}

/* End @claim. If it was live, the next claim in its queue takes over. */
static void dlend_dma_claim_end(struct dlend_claims *c, struct dlend_dma_claim *claim)
{
	struct dlend_dma_claim *next;
	LIST_HEAD(queue);

	if (!claim->live) {
		list_del(&claim->queue);
		dlend_dma_claim_free(c, claim);
		return;
	}
	dlend_dma_claim_tree_remove(claim, &c->live);
	if (claim->owner)
		c->bytes[claim->owner->kind] -= claim->r.size;
	next = list_first_entry_or_null(&claim->queue, struct dlend_dma_claim, queue);
	if (next && dlend_dma_claim_same_target(&claim->r, &next->r)) {
		dlend_dma_claim_replace(c, claim, next);
	} else {
		dlend_dma_claim_unmap(c, claim);
		list_splice_tail_init(&claim->queue, &queue);
		dlend_claims_next(c, &queue);
	}
	dlend_dma_claim_free(c, claim);
}

/* The owner gives up @claim. In a blocked domain a live claim stays mapped until the end. */
static void dlend_dma_claim_give_up(struct dlend_claims *c, struct dlend_dma_claim *claim)
{
	if (!c->blocked || !claim->live) {
		dlend_dma_claim_end(c, claim);
		return;
	}
	c->bytes[claim->owner->kind] -= claim->r.size;
	dlend_dma_claim_disown(claim);
}

/* The claim of @owner on the range of @live, or NULL. */
static struct dlend_dma_claim *dlend_dma_claim_of(struct dlend_dma_claim *live,
						  const struct dlend_owner *owner)
{
	struct dlend_dma_claim *claim;

	if (live->owner == owner)
		return live;
	list_for_each_entry(claim, &live->queue, queue)
		if (claim->owner == owner)
			return claim;
	return NULL;
}

/*
 * May @owner claim @r?  @live: (out) the live claim on the same range, for which it has to wait, or
 * NULL.  Return: 0, or as dlend_domain_map()
 */
static int dlend_claims_admit(struct dlend_claims *c, const struct dlend_owner *owner,
			      const struct dlend_dma_range *r, struct dlend_dma_claim **live)
{
	u64 last = r->iova + (r->size - 1);
	int err;

	/*
	 * The end of a lease waits for maps and unmaps of its group, and with peer-to-peer also of
	 * other groups.  So the work for one range is limited: 1 GiB by 4 KiB pages takes some
	 * 10 ms, and larger ranges must fit pages of 2 MiB, as BARs do, which are aligned to their
	 * size.
	 */
	if (r->size > SZ_1G && !IS_ALIGNED(r->iova ^ (r->ap ? r->offset : r->phys), SZ_2M))
		return -EINVAL;
	err = dlend_maps_check(&c->maps, r->iova, r->phys, r->size, r->prot);
	if (err)
		return err;
	if (c->blocked)
		return -ESHUTDOWN;
	if (c->nr >= DLEND_CLAIMS_MAX)
		return -ENOSPC;
	*live = dlend_dma_claim_tree_iter_first(&c->live, r->iova, last);
	if (!*live)
		return 0;
	if ((*live)->r.iova != r->iova || (*live)->r.size != r->size || !(*live)->owner ||
	    (*live)->owner->kind != owner->kind || (*live)->r.thing != r->thing ||
	    (*live)->r.part != r->part || dlend_dma_claim_of(*live, owner))
		return -EEXIST;
	return 0;
}

int dlend_claims_add(struct dlend_claims *c, struct dlend_owner *owner,
		     const struct dlend_dma_range *r)
{
	struct dlend_dma_claim *claim, *live;
	int err = dlend_claims_admit(c, owner, r, &live);

	if (err)
		return err;
	claim = kzalloc_obj(*claim, GFP_KERNEL_ACCOUNT);
	if (!claim)
		return -ENOMEM;
	claim->r = *r;
	claim->owner = owner;
	if (live)
		list_add_tail(&claim->queue, &live->queue);
	else
		err = dlend_dma_claim_map(c, claim);
	if (err) {
		kfree(claim);
		return err;
	}
	list_add_tail(&claim->of_owner, &owner->claims);
	owner->nr++;
	c->nr++;
	return 0;
}

int dlend_claims_del(struct dlend_claims *c, struct dlend_owner *owner, u64 iova, u64 size)
{
	u64 last = iova + (size - 1);
	struct dlend_dma_claim *live, *next, *claim;
	int n = 0;

	for (live = dlend_dma_claim_tree_iter_first(&c->live, iova, last); live;
	     live = dlend_dma_claim_tree_iter_next(live, iova, last))
		if ((live->r.iova < iova || dlend_dma_claim_last(live) > last) &&
		    dlend_dma_claim_of(live, owner))
			return -EINVAL;
	for (live = dlend_dma_claim_tree_iter_first(&c->live, iova, last); live; live = next) {
		next = dlend_dma_claim_tree_iter_next(live, iova, last);
		claim = dlend_dma_claim_of(live, owner);
		if (!claim)
			continue;
		dlend_dma_claim_give_up(c, claim);
		n++;
	}
	return n;
}

void dlend_claims_drop(struct dlend_claims *c, struct dlend_owner *owner)
{
	struct dlend_dma_claim *claim;

	while ((claim = list_first_entry_or_null(&owner->claims, struct dlend_dma_claim, of_owner)))
		dlend_dma_claim_give_up(c, claim);
}

void dlend_claims_block(struct dlend_claims *c)
{
	c->blocked = true;
	if (!dlend_paging_detach(c->pg))
		dlend_claims_end(c);
}

void dlend_claims_end(struct dlend_claims *c)
{
	struct dlend_dma_claim *live, *claim;

	c->blocked = true;
	while ((live = dlend_dma_claim_tree_iter_first(&c->live, 0, U64_MAX))) {
		while ((claim = list_first_entry_or_null(&live->queue, struct dlend_dma_claim,
							 queue)))
			dlend_dma_claim_end(c, claim);
		dlend_dma_claim_end(c, live);
	}
	dlend_pt_quota_free(&c->pt_quota);
	WARN_ON(c->nr || c->maps.nr);
}
