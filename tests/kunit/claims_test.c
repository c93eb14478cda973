// SPDX-License-Identifier: GPL-2.0
/*
 * Claims on a fake IOMMU, against a model: which owners have which range, in what order, and where
 * each page of the domain leads.  When a call returns, no range without a claim is mapped.  A
 * device does not notice a take-over that leads to the same memory.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <dlend/alloc.h>
#include <dlend/types.h>
#include <iommu/claims.h>
#include "fake_paging.h"

#define RW		(DLEND_PROT_READ | DLEND_PROT_WRITE)
#define OWNERS		6
#define FIRST_BAR	4		/* the owners from here on are of BARs */
#define PLACES		48
#define PHYS(n)		((u64)(n) * SZ_1G)

/* One claim of the model: @target as in range_of(). */
struct want {
	int owner;
	unsigned int target;
};

/* Owners of one range, the live one first. */
struct queue {
	unsigned int page, n;
	struct want want[OWNERS];
	unsigned int count;
};

struct fake_mirror {
	struct dlend_maps maps;
	u64 iova, size;
};

struct world {
	struct kunit *test;
	struct fake_paging *fake;
	struct dlend_claims c;
	struct dlend_owner owner[OWNERS];
	struct queue queue[PLACES];
	unsigned int mirrors, unmapped, lost;
	int fail_mirror;
	u32 seed;
};

static u32 rnd(struct world *w, u32 below)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (w->seed >> 8) % below;
}

/* Aperture n of a mirror: only a number, nobody dereferences it. */
static struct dlend_aperture *aperture(unsigned int n)
{
	return (struct dlend_aperture *)(0x1000ul * (n + 1));
}

static u64 mirror_phys(const struct dlend_dma_range *r)
{
	return PHYS(100) + (u64)(unsigned long)r->ap * SZ_1M + r->offset;
}

static void *mirror(struct dlend_claims *c, const struct dlend_dma_range *r)
{
	struct world *w = container_of(c, struct world, c);
	struct dlend_piece piece = {
		.offset = r->iova, .size = r->size, .phys = mirror_phys(r), .prot = r->prot,
	};
	struct fake_mirror *m;

	if (w->fail_mirror)
		return ERR_PTR(w->fail_mirror);
	m = kzalloc_obj(*m);
	dlend_maps_init(&m->maps, c->pg);
	m->iova = r->iova;
	m->size = r->size;
	KUNIT_EXPECT_EQ(w->test, dlend_maps_add(&m->maps, &piece), 0);
	w->mirrors++;
	return m;
}

static void unmirror(struct dlend_claims *c, void *arg)
{
	struct world *w = container_of(c, struct world, c);
	struct fake_mirror *m = arg;

	dlend_maps_del(&m->maps, m->iova, m->size);
	w->mirrors--;
	kfree(m);
}

static void unmapped(struct dlend_claims *c, const struct dlend_dma_range *r)
{
	struct world *w = container_of(c, struct world, c);
	u64 at;

	for (at = r->iova; at < r->iova + r->size; at += SZ_4K)
		KUNIT_EXPECT_EQ(w->test, fake_at(w->fake, at)->size, 0ull);
	w->unmapped++;
}

static void lost(struct dlend_claims *c, struct dlend_owner *owner,
		 const struct dlend_dma_range *r, int err)
{
	struct world *w = container_of(c, struct world, c);

	KUNIT_EXPECT_NE(w->test, err, 0);
	w->lost++;
}

static const struct dlend_claims_ops ops = {
	.mirror = mirror,
	.unmirror = unmirror,
	.unmapped = unmapped,
	.lost = lost,
};

static struct world *new_world(struct kunit *test)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->test = test;
	w->fake = fake_paging_new(test, FAKE_VTD);
	w->seed = 4711;
	dlend_claims_init(&w->c, &w->fake->pub, &ops);
	for (i = 0; i < OWNERS; i++)
		dlend_owner_init(&w->owner[i], i < FIRST_BAR ? DLEND_OWNER_RAM : DLEND_OWNER_BAR);
	w->fake->pub.ops->attach(&w->fake->pub);
	return w;
}

/* Targets 0 and 1 are windows, 2 and 3 mirrors. */
static struct dlend_dma_range range_of(unsigned int page, unsigned int n, unsigned int target)
{
	struct dlend_dma_range r = {
		.iova = FAKE_FIRST + ((u64)page << 12),
		.size = (u64)n << 12,
		.prot = RW,
	};

	if (target < 2) {
		r.mmio = true;
		r.phys = PHYS(1 + target) + ((u64)page << 12);
	} else {
		r.ap = aperture(target);
		r.offset = (u64)page << 12;
	}
	return r;
}

/* One of two BARs: a window and a mirror lead to each of them. */
static u64 thing_of(int owner, unsigned int target)
{
	return owner < FIRST_BAR ? 0 : 1 + (target & 1);
}

static int add(struct world *w, int owner, unsigned int page, unsigned int n, unsigned int target)
{
	struct dlend_dma_range r = range_of(page, n, target);

	r.thing = thing_of(owner, target);
	return dlend_claims_add(&w->c, &w->owner[owner], &r);
}

static int del(struct world *w, int owner, unsigned int page, unsigned int n)
{
	return dlend_claims_del(&w->c, &w->owner[owner], FAKE_FIRST + ((u64)page << 12),
				(u64)n << 12);
}

static u64 leads_to(struct world *w, unsigned int page)
{
	return w->fake->entry[page].size ? w->fake->entry[page].phys : 0;
}

/* Where the page of a range with @target leads; 0: nowhere */
static u64 should_lead_to(unsigned int page, unsigned int target)
{
	struct dlend_dma_range r = range_of(page, 1, target);

	return r.ap ? mirror_phys(&r) : r.phys;
}

static void compare(struct world *w)
{
	unsigned int i, page, pages = 0, claims = 0, nr[OWNERS] = {};

	for (i = 0; i < PLACES; i++) {
		const struct queue *q = &w->queue[i];

		claims += q->count;
		for (page = 0; page < q->count; page++)
			nr[q->want[page].owner]++;
		for (page = q->page; q->count && page < q->page + q->n; page++)
			KUNIT_ASSERT_EQ_MSG(w->test, leads_to(w, page),
					    should_lead_to(page, q->want[0].target), "page %u",
					    page);
		pages += q->count ? q->n : 0;
	}
	KUNIT_ASSERT_EQ_MSG(w->test, fake_mapped(w->fake), pages, "somebody reaches more");
	KUNIT_ASSERT_EQ(w->test, w->c.nr, claims);
	for (i = 0; i < OWNERS; i++)
		KUNIT_ASSERT_EQ(w->test, w->owner[i].nr, nr[i]);
	KUNIT_ASSERT_EQ(w->test, w->c.bytes[DLEND_OWNER_RAM] + w->c.bytes[DLEND_OWNER_BAR],
			(u64)pages << 12);
}

static bool meets(const struct queue *q, unsigned int page, unsigned int n)
{
	return q->count && q->page < page + n && page < q->page + q->n;
}

static bool has(const struct queue *q, int owner)
{
	unsigned int i;

	for (i = 0; i < q->count; i++)
		if (q->want[i].owner == owner)
			return true;
	return false;
}

/* The model's answer to a new claim: 0, or the error to expect.  @q (out): the queue to enter */
static int model_add(struct world *w, int owner, unsigned int page, unsigned int n,
		     unsigned int target, struct queue **q)
{
	unsigned int i;

	*q = NULL;
	for (i = 0; i < PLACES; i++) {
		struct queue *at = &w->queue[i];

		if (!at->count && !*q)
			*q = at;
		if (!meets(at, page, n))
			continue;
		*q = at;
		if (at->page != page || at->n != n || has(at, owner) ||
		    thing_of(owner, target) != thing_of(at->want[0].owner, at->want[0].target))
			return -EEXIST;
		return 0;
	}
	return *q ? 0 : -ENOSPC;
}

static void one_add(struct world *w)
{
	/* Few places and sizes, so that many ranges are equal, and some nearly so. */
	unsigned int n = 1 + rnd(w, 2) * 7, page = rnd(w, 40) * 6, target = rnd(w, 4);
	int owner = rnd(w, OWNERS), err;
	struct queue *q;

	err = model_add(w, owner, page, n, target, &q);
	if (err == -ENOSPC)
		return;
	KUNIT_ASSERT_EQ(w->test, add(w, owner, page, n, target), err);
	if (err)
		return;
	q->page = page;
	q->n = n;
	q->want[q->count++] = (struct want) { .owner = owner, .target = target };
}

/* Return: does the domain lead elsewhere once @owner is gone? */
static bool model_del(struct queue *q, int owner)
{
	struct want first = q->want[0];
	unsigned int i;

	for (i = 0; i < q->count && q->want[i].owner != owner; i++)
		;
	memmove(&q->want[i], &q->want[i + 1], (q->count - i - 1) * sizeof(q->want[0]));
	q->count--;
	return !q->count || q->want[0].target != first.target;
}

static void not_touched(struct world *w, const struct queue *q)
{
	unsigned int page;

	for (page = q->page; page < q->page + q->n; page++)
		KUNIT_ASSERT_FALSE_MSG(w->test, w->fake->entry[page].lost,
				       "page %u was out of reach for a moment", page);
}

static void one_del(struct world *w)
{
	unsigned int n = 1 + rnd(w, 3) * 20, page = rnd(w, 240), i;
	int owner = rnd(w, OWNERS), gone = 0, got;
	bool cut = false;

	for (i = 0; i < PLACES; i++) {
		const struct queue *q = &w->queue[i];

		cut |= meets(q, page, n) && has(q, owner) &&
		       (q->page < page || q->page + q->n > page + n);
	}
	fake_calm(w->fake);
	got = del(w, owner, page, n);
	for (i = 0; i < PLACES && !cut; i++) {
		struct queue *q = &w->queue[i];

		if (!meets(q, page, n) || !has(q, owner))
			continue;
		gone++;
		if (!model_del(q, owner))
			not_touched(w, q);
	}
	KUNIT_ASSERT_EQ(w->test, got, cut ? -EINVAL : gone);
}

static void one_drop(struct world *w)
{
	int owner = rnd(w, OWNERS);
	unsigned int i;

	fake_calm(w->fake);
	dlend_claims_drop(&w->c, &w->owner[owner]);
	for (i = 0; i < PLACES; i++)
		if (has(&w->queue[i], owner) && !model_del(&w->queue[i], owner))
			not_touched(w, &w->queue[i]);
}

static void against_a_model(struct kunit *test)
{
	struct world *w = new_world(test);
	unsigned int round;

	for (round = 0; round < 6000; round++) {
		switch (rnd(w, 40)) {
		case 0:
			one_drop(w);
			break;
		case 1 ... 15:
			one_del(w);
			break;
		default:
			one_add(w);
		}
		compare(w);
	}
	dlend_claims_end(&w->c);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 0u);
	KUNIT_EXPECT_EQ(test, w->mirrors, 0u);
	KUNIT_EXPECT_EQ(test, w->lost, 0u);
}

/*
 * One function maps a guest's memory; another joins the group, and does not map it.  When the first
 * gives up a range, the device cannot reach it, however many functions there are.
 */
static void no_map_outlives_its_unmap(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, add(w, 0, 0, 16, 0), 0);
	KUNIT_EXPECT_EQ(test, add(w, 1, 32, 16, 0), 0);
	KUNIT_EXPECT_EQ(test, del(w, 0, 0, 16), 1);
	KUNIT_EXPECT_EQ(test, leads_to(w, 0), 0ull);
	KUNIT_EXPECT_EQ(test, w->unmapped, 1u);
	KUNIT_EXPECT_EQ(test, del(w, 0, 32, 16), 0);
	KUNIT_EXPECT_NE(test, leads_to(w, 32), 0ull);
	dlend_claims_end(&w->c);
}

/* The next claim cannot be mapped: its owner is told, and the one behind it has its turn. */
static void lost_and_next(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, add(w, 0, 0, 8, 0), 0);
	KUNIT_EXPECT_EQ(test, add(w, 1, 0, 8, 2), 0);
	KUNIT_EXPECT_EQ(test, add(w, 2, 0, 8, 1), 0);
	w->fail_mirror = -ENOMEM;
	KUNIT_EXPECT_EQ(test, del(w, 0, 0, 8), 1);
	KUNIT_EXPECT_EQ(test, w->lost, 1u);
	KUNIT_EXPECT_EQ(test, w->owner[1].nr, 0u);
	KUNIT_EXPECT_EQ(test, leads_to(w, 3), should_lead_to(3, 1));
	/* With nobody behind it nothing is left, and the range can be claimed anew. */
	KUNIT_EXPECT_EQ(test, add(w, 0, 0, 8, 0), 0);
	w->fake->fail_map = 1;
	KUNIT_EXPECT_EQ(test, del(w, 2, 0, 8), 1);
	KUNIT_EXPECT_EQ(test, w->lost, 2u);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 0u);
	KUNIT_EXPECT_EQ(test, w->c.nr, 0u);
	KUNIT_EXPECT_EQ(test, add(w, 0, 0, 8, 1), 0);
	dlend_claims_end(&w->c);
}

/* Equal maps of one BAR are lost one by one when its lease ends: none takes another with it. */
static void bars_lost_together(struct kunit *test)
{
	struct world *w = new_world(test);
	struct dlend_owner *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);
	struct dlend_dma_range r = range_of(8, 8, 0);

	r.hole = 2 << 12;
	r.hole_end = 3 << 12;
	dlend_owner_init(other, DLEND_OWNER_BAR);
	KUNIT_EXPECT_EQ(test, dlend_claims_add(&w->c, &w->owner[OWNERS - 1], &r), 0);
	KUNIT_EXPECT_EQ(test, dlend_claims_add(&w->c, other, &r), 0);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 7u);
	KUNIT_EXPECT_EQ(test, leads_to(w, 10), 0ull);
	w->fake->fail_map = 1;
	KUNIT_EXPECT_EQ(test, del(w, OWNERS - 1, 8, 8), 1);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 7u);
	dlend_claims_drop(&w->c, other);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 0u);
	KUNIT_EXPECT_EQ(test, w->lost, 0u);
	KUNIT_EXPECT_EQ(test, w->fake->fail_map, 1u);
	/* The second part cannot be mapped: nothing of the first one stays. */
	w->fake->fail_map = 2;
	KUNIT_EXPECT_EQ(test, dlend_claims_add(&w->c, other, &r), -ENOMEM);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 0u);
	KUNIT_EXPECT_EQ(test, w->c.nr, 0u);
	dlend_claims_end(&w->c);
}

static void too_many(struct kunit *test)
{
	struct world *w = new_world(test);
	unsigned int i;

	for (i = 0; i < FAKE_PAGES; i++)
		KUNIT_ASSERT_EQ(test, add(w, 0, i, 1, 0), 0);
	for (i = 0; i < DLEND_CLAIMS_MAX - FAKE_PAGES; i++)
		KUNIT_ASSERT_EQ(test, add(w, 1, i, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, add(w, 2, 0, 1, 0), -ENOSPC);
	dlend_claims_end(&w->c);
	KUNIT_EXPECT_EQ(test, w->owner[0].nr + w->owner[1].nr, 0u);
}

/* Ever new addresses, one after the other: what is left of them is memory, too. */
static void too_many_places(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, add(w, 0, 0, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, del(w, 0, 0, 1), 1);
	KUNIT_EXPECT_EQ(test, w->c.pt_quota.tables, 3ull);
	w->c.pt_quota.tables = DLEND_CLAIMS_TABLES_MAX;
	KUNIT_EXPECT_EQ(test, add(w, 0, 1024, 1, 0), -ENOSPC);
	KUNIT_EXPECT_EQ(test, add(w, 0, 1, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 1u);
	dlend_claims_end(&w->c);
	KUNIT_EXPECT_EQ(test, w->c.pt_quota.tables, 0ull);
}

/* A blocked domain: owners leave without unmapping, which can wait until the end. */
static void blocked(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, add(w, 0, 0, 8, 0), 0);
	KUNIT_EXPECT_EQ(test, add(w, 1, 0, 8, 1), 0);
	KUNIT_EXPECT_EQ(test, add(w, 1, 16, 8, 2), 0);
	KUNIT_EXPECT_EQ(test, add(w, FIRST_BAR, 32, 8, 0), 0);
	KUNIT_EXPECT_EQ(test, add(w, FIRST_BAR + 1, 32, 8, 2), 0);
	dlend_claims_block(&w->c);
	KUNIT_EXPECT_FALSE(test, w->fake->attached);
	KUNIT_EXPECT_EQ(test, del(w, FIRST_BAR, 32, 8), 1);
	KUNIT_EXPECT_EQ(test, del(w, FIRST_BAR + 1, 32, 8), 1);
	KUNIT_EXPECT_EQ(test, add(w, 2, 64, 1, 0), -ESHUTDOWN);
	fake_calm(w->fake);
	dlend_claims_drop(&w->c, &w->owner[0]);
	dlend_claims_drop(&w->c, &w->owner[1]);
	KUNIT_EXPECT_EQ(test, w->owner[0].nr + w->owner[1].nr, 0u);
	KUNIT_EXPECT_EQ(test, w->fake->unmaps, 0u);
	KUNIT_EXPECT_EQ(test, w->c.bytes[DLEND_OWNER_RAM], 0ull);
	dlend_claims_end(&w->c);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 0u);
	KUNIT_EXPECT_EQ(test, w->mirrors, 0u);
	KUNIT_EXPECT_TRUE(test, dlend_paging_end(&w->fake->pub));
}

/* The kernel keeps the domain attached: then the domain must be empty. */
static void blocked_but_attached(struct kunit *test)
{
	struct world *w = new_world(test);

	KUNIT_EXPECT_EQ(test, add(w, 0, 0, 8, 0), 0);
	KUNIT_EXPECT_EQ(test, add(w, 1, 0, 8, 2), 0);
	KUNIT_EXPECT_EQ(test, add(w, 1, 16, 8, 2), 0);
	w->fake->refuse_detach = 1;
	dlend_claims_block(&w->c);
	KUNIT_EXPECT_TRUE(test, w->fake->attached);
	KUNIT_EXPECT_EQ(test, fake_mapped(w->fake), 0u);
	KUNIT_EXPECT_EQ(test, add(w, 0, 0, 8, 0), -ESHUTDOWN);
	dlend_claims_drop(&w->c, &w->owner[0]);
	dlend_claims_drop(&w->c, &w->owner[1]);
	dlend_claims_end(&w->c);
	KUNIT_EXPECT_FALSE(test, w->fake->freed);
	KUNIT_EXPECT_TRUE(test, dlend_paging_end(&w->fake->pub));
	KUNIT_EXPECT_TRUE(test, w->fake->freed);
}

/* What is large fits large pages.  The fake domain has no room for it. */
static void large(struct kunit *test)
{
	static const struct {
		u64 size, off;
		int err;
	} all[] = {
		{ SZ_1G, SZ_4K, -ERANGE },
		{ SZ_1G + SZ_4K, 0, -ERANGE },
		{ SZ_1G + SZ_4K, SZ_4K, -EINVAL },
		{ SZ_1G + SZ_4K, SZ_1M, -EINVAL },
		{ 64ull * SZ_1G, SZ_2M, -ERANGE },
		{ 64ull * SZ_1G, SZ_2M + SZ_4K, -EINVAL },
	};
	struct world *w = new_world(test);

	for (unsigned int target = 0; target < 4; target += 2) {
		for (unsigned int i = 0; i < ARRAY_SIZE(all); i++) {
			struct dlend_dma_range r = range_of(1, 1, target);

			r.size = all[i].size;
			*(r.ap ? &r.offset : &r.phys) = PHYS(1) + r.iova + all[i].off;
			KUNIT_EXPECT_EQ_MSG(test, dlend_claims_add(&w->c, &w->owner[0], &r),
					    all[i].err, "target %u, %u", target, i);
		}
	}
	dlend_claims_end(&w->c);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(large),
	KUNIT_CASE(against_a_model),
	KUNIT_CASE(no_map_outlives_its_unmap),
	KUNIT_CASE(lost_and_next),
	KUNIT_CASE(bars_lost_together),
	KUNIT_CASE(too_many),
	KUNIT_CASE(too_many_places),
	KUNIT_CASE(blocked),
	KUNIT_CASE(blocked_but_attached),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_claims",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
