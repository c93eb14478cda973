// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of a domain on a fake IOMMU, against a model of every page: what is mapped, where it
 * leads, in pages of which size. Unmapping never takes a neighbour out of reach.
 */
#include <kunit/test.h>
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <dlend/aperture.h>
#include <dlend/types.h>
#include <iommu/maps.h>
#include "fake_paging.h"

#define RW	(DLEND_PROT_READ | DLEND_PROT_WRITE)

/* What should be there, page by page; @phys 0: nothing. */
struct cell {
	u64 phys;
	u32 prot;
};

struct world {
	struct fake_paging *fake;
	struct dlend_maps m;
	struct cell model[FAKE_PAGES];
	u32 seed;
};

static u32 rnd(struct world *w, u32 below)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (w->seed >> 8) % below;
}

static struct world *new_world(struct kunit *test, u64 sizes)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->fake = fake_paging_new(test, sizes);
	dlend_maps_init(&w->m, &w->fake->pub);
	w->seed = 12345;
	return w;
}

static u64 iova(unsigned int page)
{
	return FAKE_FIRST + ((u64)page << 12);
}

static int add(struct world *w, unsigned int page, unsigned int n, u64 phys, u64 cap)
{
	struct dlend_piece piece = {
		.offset = iova(page),
		.size = (u64)n << 12,
		.phys = phys,
		.cap = cap,
		.prot = RW,
	};

	return dlend_maps_add(&w->m, &piece);
}

static void compare(struct kunit *test, struct world *w)
{
	struct dlend_map_pages pages = {};
	u64 bytes = 0;
	unsigned int i;

	for (i = 0; i < FAKE_PAGES; i++) {
		const struct fake_entry *e = &w->fake->entry[i];

		KUNIT_ASSERT_EQ_MSG(test, e->size ? e->phys : 0, w->model[i].phys, "page %u", i);
		if (!e->size)
			continue;
		KUNIT_ASSERT_EQ(test, e->prot, w->model[i].prot);
		bytes += SZ_4K;
		pages.n2m += e->size >= SZ_2M;
		pages.n4k += e->size < SZ_2M;
	}
	KUNIT_ASSERT_EQ(test, w->m.bytes, bytes);
	KUNIT_ASSERT_EQ(test, w->m.pages.n2m, pages.n2m / 512);
	KUNIT_ASSERT_EQ(test, w->m.pages.n4k, pages.n4k);
}

static void empty(struct kunit *test, struct world *w)
{
	dlend_maps_del(&w->m, FAKE_FIRST, FAKE_PAGES * 4096ull);
	memset(w->model, 0, sizeof(w->model));
	compare(test, w);
	KUNIT_EXPECT_EQ(test, w->m.nr, 0u);
	KUNIT_EXPECT_FALSE(test, dlend_maps_busy(&w->m, FAKE_FIRST, FAKE_PAGES * 4096ull));
}

static bool model_busy(const struct world *w, unsigned int page, unsigned int n)
{
	while (n--)
		if (w->model[page + n].phys)
			return true;
	return false;
}

/* Add a run, or scattered pages, as a guest's memory has them. */
static void add_some(struct kunit *test, struct world *w)
{
	static const u64 caps[] = { 0, SZ_4K, SZ_2M };
	unsigned int page = rnd(w, FAKE_PAGES), n = 1 + rnd(w, rnd(w, 2) ? 20 : 2000), i;
	bool large = rnd(w, 2);
	u64 phys;
	int err;

	n = min(n, FAKE_PAGES - page);
	phys = (u64)(1 + rnd(w, 1000)) << 21;
	if (large) {
		page = ALIGN_DOWN(page, 512);
		n = min(ALIGN(n, 512), FAKE_PAGES - page);
	} else {
		phys += (u64)rnd(w, 512) << 12;
	}
	err = add(w, page, n, phys, caps[rnd(w, ARRAY_SIZE(caps))]);
	KUNIT_ASSERT_EQ(test, err, model_busy(w, page, n) ? -EEXIST : 0);
	if (err)
		return;
	for (i = 0; i < n; i++) {
		w->model[page + i].phys = phys + ((u64)i << 12);
		w->model[page + i].prot = RW;
	}
}

static void del_some(struct kunit *test, struct world *w)
{
	unsigned int page = rnd(w, FAKE_PAGES), n = 1 + rnd(w, 1500), i;
	u64 had = 0;

	n = min(n, FAKE_PAGES - page);
	for (i = page; i < page + n; i++) {
		had += w->model[i].phys ? SZ_4K : 0;
		w->model[i].phys = 0;
	}
	KUNIT_ASSERT_EQ(test, dlend_maps_del(&w->m, iova(page), (u64)n << 12), had);
}

static const struct { const char *name; u64 sizes; } kinds[] = {
	{ "VT-d", FAKE_VTD },
	{ "AMD-Vi", FAKE_AMDVI },
	{ "4 KiB only", BIT_ULL(12) },
};

static void kind_desc(const typeof(kinds[0]) *kind, char *desc)
{
	strscpy(desc, kind->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_desc);

static void against_a_model(struct kunit *test)
{
	const typeof(kinds[0]) *kind = test->param_value;
	struct world *w = new_world(test, kind->sizes);
	unsigned int round;

	for (round = 0; round < 1500; round++) {
		if (rnd(w, 3))
			add_some(test, w);
		else
			del_some(test, w);
		compare(test, w);
	}
	empty(test, w);
}

/* A guest's memory goes in parts whose edges are multiples of the cap: no neighbour notices. */
static void neighbours_stay(struct kunit *test)
{
	const typeof(kinds[0]) *kind = test->param_value;
	struct world *w = new_world(test, kind->sizes);
	unsigned int page, i;

	KUNIT_ASSERT_EQ(test, add(w, 0, FAKE_PAGES, 16ull * SZ_1G, SZ_2M), 0);
	for (page = 512; page < FAKE_PAGES; page += 1024) {
		fake_calm(w->fake);
		dlend_maps_del(&w->m, iova(page), SZ_2M);
		for (i = 0; i < FAKE_PAGES; i++)
			KUNIT_ASSERT_EQ_MSG(test, w->fake->entry[i].lost,
					    i >= page && i < page + 512, "page %u", i);
	}
	empty(test, w);
}

/* A large page that has to be taken apart, and no memory to put the rest back. */
static void rest_is_lost(struct kunit *test)
{
	struct world *w = new_world(test, FAKE_VTD);
	unsigned int i;

	KUNIT_ASSERT_EQ(test, add(w, 0, 512, SZ_1G, 0), 0);
	w->fake->fail_map = 1;
	KUNIT_EXPECT_EQ(test, dlend_maps_del(&w->m, iova(10), SZ_4K), (u64)SZ_4K);
	for (i = 11; i < 512; i++) {
		w->model[i].phys = SZ_1G + ((u64)i << 12);
		w->model[i].prot = RW;
	}
	compare(test, w);
	KUNIT_EXPECT_FALSE(test, dlend_maps_busy(&w->m, iova(0), 10 * SZ_4K));
	empty(test, w);
}

static void nothing_of_a_failure(struct kunit *test)
{
	struct world *w = new_world(test, FAKE_VTD);
	unsigned int n;

	/* The cap makes the map take several calls to the IOMMU: each of them fails once. */
	w->fake->pub.sizes = FAKE_VTD | SZ_4M;
	for (n = 1; n < 8; n++) {
		w->fake->fail_map = n;
		KUNIT_EXPECT_EQ(test, add(w, 1, FAKE_PAGES - 1, SZ_1G + SZ_4K, SZ_2M), -ENOMEM);
		compare(test, w);
	}
	KUNIT_EXPECT_EQ(test, w->m.nr, 0u);
}

static void refused(struct kunit *test)
{
	struct world *w = new_world(test, FAKE_VTD);
	struct dlend_piece piece = { .offset = FAKE_FIRST, .size = SZ_4K, .phys = SZ_1G };

	KUNIT_EXPECT_EQ(test, dlend_maps_add(&w->m, &piece), -EINVAL);
	piece.prot = RW | 8;
	KUNIT_EXPECT_EQ(test, dlend_maps_add(&w->m, &piece), -EINVAL);
	piece.prot = RW;
	piece.phys++;
	KUNIT_EXPECT_EQ(test, dlend_maps_add(&w->m, &piece), -EINVAL);
	piece.phys--;
	piece.offset = FAKE_FIRST - SZ_4K;
	KUNIT_EXPECT_EQ(test, dlend_maps_add(&w->m, &piece), -ERANGE);
	piece.offset = FAKE_LAST + 1;
	KUNIT_EXPECT_EQ(test, dlend_maps_add(&w->m, &piece), -ERANGE);
	piece.offset = 0ull - SZ_4K;
	piece.size = 2 * SZ_4K;
	KUNIT_EXPECT_EQ(test, dlend_maps_add(&w->m, &piece), -ERANGE);
	piece.offset = FAKE_FIRST;
	piece.size = 0;
	KUNIT_EXPECT_EQ(test, dlend_maps_add(&w->m, &piece), -EINVAL);
	KUNIT_EXPECT_EQ(test, w->fake->maps, 0u);
}

static void pieces_in_order(struct kunit *test)
{
	struct world *w = new_world(test, FAKE_VTD);
	struct dlend_piece piece;

	KUNIT_ASSERT_EQ(test, add(w, 100, 20, SZ_1G, 0), 0);
	KUNIT_ASSERT_EQ(test, add(w, 200, 600, SZ_2G, SZ_2M), 0);
	KUNIT_ASSERT_TRUE(test, dlend_maps_next(&w->m, iova(110), FAKE_LAST, &piece));
	KUNIT_EXPECT_EQ(test, piece.offset, iova(110));
	KUNIT_EXPECT_EQ(test, piece.size, 10ull * SZ_4K);
	KUNIT_EXPECT_EQ(test, piece.phys, (u64)SZ_1G + 10 * SZ_4K);
	KUNIT_ASSERT_TRUE(test, dlend_maps_next(&w->m, iova(120), iova(300) - 1, &piece));
	KUNIT_EXPECT_EQ(test, piece.offset, iova(200));
	KUNIT_EXPECT_EQ(test, piece.size, 100ull * SZ_4K);
	KUNIT_EXPECT_EQ(test, piece.prot, (u32)RW);
	KUNIT_EXPECT_FALSE(test, dlend_maps_next(&w->m, iova(800), FAKE_LAST, &piece));
	empty(test, w);
}

/* A host that is its own peer: no IOMMU translates, but the records are kept. */
static void no_domain(struct kunit *test)
{
	struct dlend_piece piece = { .size = 8 * SZ_4K, .phys = SZ_1G, .prot = RW };
	struct dlend_maps m;

	dlend_maps_init(&m, NULL);
	KUNIT_EXPECT_EQ(test, dlend_maps_add(&m, &piece), 0);
	KUNIT_EXPECT_EQ(test, dlend_maps_add(&m, &piece), -EEXIST);
	KUNIT_EXPECT_EQ(test, dlend_maps_del(&m, SZ_4K, SZ_4K), (u64)SZ_4K);
	KUNIT_EXPECT_TRUE(test, dlend_maps_next(&m, SZ_4K, SZ_1G, &piece));
	KUNIT_EXPECT_EQ(test, piece.phys, (u64)SZ_1G + 2 * SZ_4K);
	KUNIT_EXPECT_EQ(test, m.bytes, 7ull * SZ_4K);
	KUNIT_EXPECT_EQ(test, m.pages.n4k, 0ull);
	KUNIT_EXPECT_EQ(test, dlend_maps_del(&m, 0, SZ_1G), 7ull * SZ_4K);
	KUNIT_EXPECT_EQ(test, m.nr, 0u);
}

/* Map page by page in no order, as a guest without huge pages has them. */
static u64 scatter(struct kunit *test, struct dlend_maps *m, u64 first, unsigned int n)
{
	struct dlend_piece piece = { .size = SZ_4K, .prot = RW };
	unsigned int i;

	for (i = 0; i < n; i++) {
		piece.offset = first + ((u64)i << 12);
		piece.phys = SZ_1G + ((u64)(i * 7919u % n) << 12);
		KUNIT_ASSERT_EQ(test, dlend_maps_add(m, &piece), 0);
	}
	return dlend_maps_table_bytes(m);
}

/* With one run for each page the records of a GiB took 24 MiB. */
static void scattered_is_cheap(struct kunit *test)
{
	struct world *w = new_world(test, FAKE_VTD);
	struct dlend_piece piece;
	unsigned int i;

	KUNIT_EXPECT_LE(test, scatter(test, &w->m, FAKE_FIRST, FAKE_PAGES), 100ull);
	KUNIT_EXPECT_EQ(test, w->m.nr, 1u);
	KUNIT_EXPECT_EQ(test, w->m.pages.n4k, (u64)FAKE_PAGES);
	for (i = 0; i < FAKE_PAGES; i++) {
		KUNIT_ASSERT_TRUE(test, dlend_maps_next(&w->m, iova(i), FAKE_LAST, &piece));
		KUNIT_ASSERT_EQ(test, piece.phys, w->fake->entry[i].phys);
		KUNIT_ASSERT_EQ(test, piece.size, (u64)SZ_4K);
	}
	/* Unmap a page in the middle: its neighbours do not notice. */
	fake_calm(w->fake);
	KUNIT_EXPECT_EQ(test, dlend_maps_del(&w->m, iova(1000), SZ_4K), (u64)SZ_4K);
	KUNIT_EXPECT_FALSE(test, w->fake->entry[999].lost || w->fake->entry[1001].lost);
	KUNIT_EXPECT_EQ(test, w->m.nr, 2u);
	KUNIT_EXPECT_EQ(test, add(w, 1000, 1, SZ_4K, 0), 0);
	KUNIT_EXPECT_EQ(test, w->m.nr, 1u);
	empty(test, w);
}

/* On a host that is its own peer only the records know where a page leads. */
static void scattered_without_domain(struct kunit *test)
{
	struct dlend_piece piece;
	struct dlend_maps m;
	u64 bytes, phys;
	unsigned int i;

	dlend_maps_init(&m, NULL);
	bytes = scatter(test, &m, 0, FAKE_PAGES);
	KUNIT_EXPECT_LE(test, bytes, FAKE_PAGES * 10ull);
	for (i = 0; i < FAKE_PAGES; i++) {
		KUNIT_ASSERT_TRUE(test, dlend_maps_next(&m, (u64)i << 12, SZ_1G, &piece));
		phys = SZ_1G + ((u64)(i * 7919u % FAKE_PAGES) << 12);
		KUNIT_ASSERT_EQ(test, piece.phys, phys);
	}
	KUNIT_EXPECT_EQ(test, dlend_maps_del(&m, SZ_4M, SZ_2M), (u64)SZ_2M);
	KUNIT_EXPECT_EQ(test, m.nr_pages, FAKE_PAGES - 512ull);
	KUNIT_EXPECT_EQ(test, dlend_maps_del(&m, 0, SZ_1G), FAKE_PAGES * 4096ull - SZ_2M);
	KUNIT_EXPECT_EQ(test, dlend_maps_table_bytes(&m), 0ull);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(against_a_model, kind_gen_params),
	KUNIT_CASE_PARAM(neighbours_stay, kind_gen_params),
	KUNIT_CASE(rest_is_lost),
	KUNIT_CASE(nothing_of_a_failure),
	KUNIT_CASE(refused),
	KUNIT_CASE(pieces_in_order),
	KUNIT_CASE(no_domain),
	KUNIT_CASE(scattered_is_cheap),
	KUNIT_CASE(scattered_without_domain),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_maps",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
