// SPDX-License-Identifier: GPL-2.0
/* See fake_paging.h. */
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include "fake_paging.h"

static struct fake_paging *to_fake(struct dlend_paging *pg)
{
	return container_of(pg, struct fake_paging, pub);
}

struct fake_entry *fake_at(struct fake_paging *fake, u64 iova)
{
	KUNIT_ASSERT_GE(fake->test, iova, FAKE_FIRST);
	KUNIT_ASSERT_LE(fake->test, iova, FAKE_LAST);
	return &fake->entry[(iova - FAKE_FIRST) >> 12];
}

/* The page size that the API takes next. */
static u64 next_page(const struct fake_paging *fake, u64 iova, u64 phys, u64 left)
{
	u64 size;

	for (size = BIT_ULL(63); size > SZ_4K; size >>= 1)
		if ((fake->pub.sizes & size) && IS_ALIGNED(iova | phys, size) && left >= size)
			break;
	return size;
}

static void put_page_of(struct fake_paging *fake, u64 iova, u64 phys, u64 size, u32 prot)
{
	u64 at;

	for (at = 0; at < size; at += SZ_4K) {
		struct fake_entry *e = fake_at(fake, iova + at);

		KUNIT_ASSERT_EQ_MSG(fake->test, e->size, 0ull, "%llx is mapped twice", iova + at);
		e->phys = phys + at;
		e->size = size;
		e->prot = prot;
	}
}

static int fake_map(struct dlend_paging *pg, u64 iova, phys_addr_t phys, u64 size, u32 prot)
{
	struct fake_paging *fake = to_fake(pg);
	u64 done = 0, page;

	fake->maps++;
	if (fake->fail_map && !--fake->fail_map)
		return -ENOMEM;
	while (done < size) {
		page = next_page(fake, iova + done, phys + done, size - done);
		put_page_of(fake, iova + done, phys + done, page, prot);
		done += page;
	}
	return 0;
}

/* Unmap whole pages, from the beginning of @iova's page, until the end or a hole. */
static u64 fake_unmap(struct dlend_paging *pg, u64 iova, u64 size)
{
	struct fake_paging *fake = to_fake(pg);
	u64 at = iova, page, i, base;

	fake->unmaps++;
	while (at < iova + size && fake_at(fake, at)->size) {
		page = fake_at(fake, at)->size;
		base = ALIGN_DOWN(at, page);
		for (i = 0; i < page; i += SZ_4K) {
			fake_at(fake, base + i)->size = 0;
			fake_at(fake, base + i)->lost = true;
		}
		at = base + page;
	}
	return at - iova;
}

static phys_addr_t fake_phys(struct dlend_paging *pg, u64 iova)
{
	struct fake_entry *e = fake_at(to_fake(pg), iova);

	return e->size ? e->phys : 0;
}

static int fake_attach(struct dlend_paging *pg)
{
	to_fake(pg)->attached = true;
	return 0;
}

static void fake_detach(struct dlend_paging *pg)
{
	struct fake_paging *fake = to_fake(pg);

	if (fake->refuse_detach)
		fake->refuse_detach--;
	else
		fake->attached = false;
}

static bool fake_attached(struct dlend_paging *pg)
{
	return to_fake(pg)->attached;
}

static void fake_free(struct dlend_paging *pg)
{
	struct fake_paging *fake = to_fake(pg);

	KUNIT_EXPECT_FALSE_MSG(fake->test, fake->attached, "freed, and still attached");
	fake->freed = true;
}

static const struct dlend_paging_ops fake_ops = {
	.map = fake_map,
	.unmap = fake_unmap,
	.phys = fake_phys,
	.attach = fake_attach,
	.detach = fake_detach,
	.attached = fake_attached,
	.free = fake_free,
};

struct fake_paging *fake_paging_new(struct kunit *test, u64 sizes)
{
	struct fake_paging *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, fake);
	fake->test = test;
	fake->pub.ops = &fake_ops;
	refcount_set(&fake->pub.users, 1);
	fake->pub.sizes = sizes;
	fake->pub.first = FAKE_FIRST;
	fake->pub.last = FAKE_LAST;
	return fake;
}

void fake_calm(struct fake_paging *fake)
{
	unsigned int i;

	for (i = 0; i < FAKE_PAGES; i++)
		fake->entry[i].lost = false;
}

unsigned int fake_mapped(struct fake_paging *fake)
{
	unsigned int i, n = 0;

	for (i = 0; i < FAKE_PAGES; i++)
		n += fake->entry[i].size != 0;
	return n;
}
