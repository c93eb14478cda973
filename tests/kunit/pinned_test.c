// SPDX-License-Identifier: GPL-2.0
/*
 * Suite of the table of pinned guest memory (mdev/pinned.c): chunks against a model, and extents
 * when memory goes, comes back, or comes back with other rights or edges.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "mdev/pinned.h"

#define PAGE	4096ULL
#define KB(n)	((u64)(n) << 10)
#define MB(n)	((u64)(n) << 20)
#define GB(n)	((u64)(n) << 30)
#define RO	DLEND_PROT_READ
#define RW	(DLEND_PROT_READ | DLEND_PROT_WRITE)

static struct dlend_chunk *new_chunk(struct kunit *test, u64 gpa, u32 npages, u32 prot)
{
	struct dlend_chunk *chunk = kzalloc(sizeof(*chunk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, chunk);
	chunk->gpa = gpa;
	chunk->npages = npages;
	chunk->prot = prot;
	chunk->pfn = gpa / PAGE;
	if (gpa / MB(2) % 3 == 1)
		chunk->pages = chunk;	/* scattered; only has to be there */
	return chunk;
}

/* Pin @start..@end as the scan would. */
static void pin_range(struct kunit *test, struct dlend_pinned *x, u64 start, u64 end, u32 prot,
		      u32 build)
{
	while (start < end) {
		u64 stop = min(end, (start | (MB(2) - 1)) + 1);
		struct dlend_chunk *chunk;

		chunk = new_chunk(test, start, (stop - start) / PAGE, prot);
		chunk->build = build;
		KUNIT_ASSERT_EQ(test, dlend_pinned_add(x, chunk), 0);
		start = stop;
	}
}

static void free_chunks(struct list_head *out)
{
	struct dlend_chunk *chunk, *tmp;

	list_for_each_entry_safe(chunk, tmp, out, node)
		kfree(chunk);
	INIT_LIST_HEAD(out);
}

/* Free all extents of the list. Return: how many there were. */
static unsigned int free_extents(struct list_head *dead)
{
	struct dlend_extent *extent, *tmp;
	unsigned int count = 0;

	list_for_each_entry_safe(extent, tmp, dead, node) {
		kfree(extent);
		count++;
	}
	INIT_LIST_HEAD(dead);
	return count;
}

#define NOW	1000ULL

/* A VMM takes memory away. */
static void lose_range_at(struct dlend_pinned *x, u64 start, u64 end, u64 ms)
{
	LIST_HEAD(out);

	dlend_pinned_lose(x, start, end - 1, ms, &out);
	free_chunks(&out);
}

static void lose_range(struct dlend_pinned *x, u64 start, u64 end)
{
	lose_range_at(x, start, end, NOW);
}

static void unpin_range(struct dlend_pinned *x, u64 start, u64 end)
{
	LIST_HEAD(out);

	dlend_pinned_take_range(x, start, end - 1, &out);
	free_chunks(&out);
}

/* The first half of a build. */
static void build_settled(struct kunit *test, struct dlend_pinned *x)
{
	LIST_HEAD(dead);

	dlend_pinned_settle(x, &dead);
	free_extents(&dead);
}

/* A build that succeeds. Return: extents that died. */
static unsigned int build(struct kunit *test, struct dlend_pinned *x, u32 number)
{
	struct dlend_extent *extent;
	LIST_HEAD(dead);
	u64 gpa = 0;

	dlend_pinned_settle(x, &dead);
	KUNIT_EXPECT_EQ(test, dlend_pinned_form(x, number), 0);
	while ((extent = dlend_pinned_next_extent(x, gpa))) {
		extent->acks.members = BIT(0);
		gpa = extent->gpa + extent->size;
	}
	return free_extents(&dead);
}

static void done(struct kunit *test, struct dlend_pinned *x)
{
	LIST_HEAD(dead);

	dlend_pinned_kill_all(x, NULL, 0, &dead);
	free_extents(&dead);
	unpin_range(x, 0, U64_MAX);
	KUNIT_EXPECT_EQ(test, x->chunks, 0);
	KUNIT_EXPECT_EQ(test, x->extents, 0);
	KUNIT_EXPECT_EQ(test, x->pinned_bytes, 0);
	KUNIT_EXPECT_EQ(test, x->scattered_bytes, 0);
	KUNIT_EXPECT_EQ(test, dlend_pinned_table_bytes(x), 0);
}

static void expect_extent(struct kunit *test, struct dlend_pinned *x, u64 gpa, u64 size,
			  u32 prot)
{
	struct dlend_extent *extent = dlend_pinned_next_extent(x, gpa);

	KUNIT_ASSERT_NOT_NULL(test, extent);
	KUNIT_EXPECT_EQ(test, extent->gpa, gpa);
	KUNIT_EXPECT_EQ(test, extent->size, size);
	KUNIT_EXPECT_EQ(test, extent->prot, prot);
}

/* Every chunk lies in an extent of its own rights, and extents count what they hold. */
static void expect_sound(struct kunit *test, struct dlend_pinned *x)
{
	struct dlend_extent *extent;
	struct dlend_chunk *chunk;
	u64 gpa = 0, held = 0, total = 0, last = 0, pinned = 0;

	for (chunk = dlend_pinned_find(x, 0); chunk; chunk = dlend_pinned_next(x, chunk)) {
		KUNIT_ASSERT_NOT_NULL(test, chunk->extent);
		KUNIT_EXPECT_GE(test, chunk->gpa, last);
		last = chunk->gpa + chunk->npages * PAGE;
		KUNIT_EXPECT_GE(test, chunk->gpa, chunk->extent->gpa);
		KUNIT_EXPECT_LE(test, last, chunk->extent->gpa + chunk->extent->size);
		KUNIT_EXPECT_EQ(test, chunk->prot, chunk->extent->prot);
		total += chunk->npages * PAGE;
		pinned += sizeof(*chunk) + (chunk->pages ? chunk->npages * sizeof(void *) : 0);
	}
	while ((extent = dlend_pinned_next_extent(x, gpa))) {
		KUNIT_EXPECT_GE(test, extent->gpa, gpa);
		gpa = extent->gpa + extent->size;
		KUNIT_EXPECT_EQ(test, extent->gpa / GB(1), (gpa - 1) / GB(1));
		KUNIT_EXPECT_GT(test, extent->pinned, 0);
		KUNIT_EXPECT_LE(test, extent->pinned, extent->size);
		held += extent->pinned;
		pinned += sizeof(*extent);
	}
	KUNIT_EXPECT_EQ(test, held, total);
	KUNIT_EXPECT_EQ(test, x->pinned_bytes, total);
	KUNIT_EXPECT_EQ(test, dlend_pinned_table_bytes(x), pinned);
}

static void pinned_add_refuses(struct kunit *test)
{
	static const struct { u64 gpa; u32 npages; int err; } bad[] = {
		{ MB(2), 0, -EINVAL }, { MB(2), 513, -EINVAL },
		{ MB(2) + PAGE, 512, -EINVAL },		/* crosses 2 MiB */
		{ MB(4) - PAGE, 2, -EINVAL },
		{ MB(10), 1, -EEXIST }, { MB(10) + 15 * PAGE, 1, -EEXIST },
		{ MB(10) - 0, 512, -EEXIST }, { MB(8), 512, 0 }, { MB(10) + 16 * PAGE, 1, 0 },
		{ GB(3), 1, 0 }, { GB(1) - PAGE, 1, 0 }, { GB(2), 2, 0 }, { GB(2), 1, -EEXIST },
	};
	struct dlend_pinned x;
	unsigned int i;

	dlend_pinned_init(&x);
	KUNIT_EXPECT_NULL(test, dlend_pinned_find(&x, 0));
	KUNIT_EXPECT_NULL(test, dlend_pinned_next_extent(&x, 0));
	pin_range(test, &x, MB(10), MB(10) + 16 * PAGE, RW, 1);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		struct dlend_chunk *chunk = new_chunk(test, bad[i].gpa, bad[i].npages, RW);
		int err = dlend_pinned_add(&x, chunk);

		KUNIT_EXPECT_EQ_MSG(test, err, bad[i].err, "case %u", i);
		if (err)
			kfree(chunk);
	}
	done(test, &x);
}

static u32 next_random(u32 *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

#define CELL		KB(256)			/* of the model */
#define CELLS		((unsigned int)(GB(3) / CELL))

/* Chunks of a cell each, anywhere in 3 GiB, against one byte per cell. */
static void pinned_model(struct kunit *test)
{
	u8 *model = kunit_kzalloc(test, CELLS, GFP_KERNEL);
	struct dlend_pinned x;
	u32 seed = 7, round;

	KUNIT_ASSERT_NOT_NULL(test, model);
	dlend_pinned_init(&x);
	for (round = 0; round < 4000; round++) {
		u32 cell = next_random(&seed) % CELLS, count = 1 + next_random(&seed) % 40, i;
		u64 next, want = U64_MAX, end, run;

		count = min(count, CELLS - cell);
		if (next_random(&seed) % 3) {
			for (i = cell; i < cell + count; i++) {
				struct dlend_chunk *chunk;
				int err;

				chunk = new_chunk(test, i * CELL, CELL / PAGE, RW);
				err = dlend_pinned_add(&x, chunk);
				KUNIT_ASSERT_EQ(test, err, model[i] ? -EEXIST : 0);
				if (err)
					kfree(chunk);
				model[i] = 1;
			}
		} else {
			unpin_range(&x, cell * CELL, (cell + count) * CELL);
			memset(model + cell, 0, count);
		}
		cell = next_random(&seed) % CELLS;
		end = dlend_pinned_known(&x, cell * CELL + PAGE, &next);
		for (run = cell; run < CELLS && model[run]; run++)
			;
		KUNIT_ASSERT_EQ(test, end, run > cell ? run * CELL : 0);
		for (i = max_t(u32, run, cell + 1); i < CELLS; i++) {
			if (model[i]) {
				want = i * CELL;
				break;
			}
		}
		KUNIT_ASSERT_EQ(test, next, want);
	}
	done(test, &x);
}

static void pinned_forms(struct kunit *test)
{
	struct dlend_pinned x;

	dlend_pinned_init(&x);
	pin_range(test, &x, 0, KB(640), RW, 1);
	pin_range(test, &x, KB(768), KB(800), RO, 1);
	pin_range(test, &x, KB(800), GB(2) + MB(3), RW, 1);
	pin_range(test, &x, GB(4), GB(5), RW, 1);
	KUNIT_EXPECT_EQ(test, build(test, &x, 1), 0);
	expect_sound(test, &x);
	KUNIT_EXPECT_EQ(test, x.extents, 6);
	expect_extent(test, &x, 0, KB(640), RW);
	expect_extent(test, &x, KB(768), KB(32), RO);
	expect_extent(test, &x, KB(800), GB(1) - KB(800), RW);
	expect_extent(test, &x, GB(1), GB(1), RW);
	expect_extent(test, &x, GB(2), MB(3), RW);
	expect_extent(test, &x, GB(4), GB(1), RW);
	done(test, &x);
}

/* Firmware: the low block goes, and comes back. The lender need not hear of it. */
static void pinned_comes_back(struct kunit *test)
{
	struct dlend_pinned x;
	struct dlend_extent *high, *low;

	dlend_pinned_init(&x);
	pin_range(test, &x, 0, MB(512), RW, 1);
	pin_range(test, &x, GB(4), GB(5), RW, 1);
	build(test, &x, 1);
	low = dlend_pinned_next_extent(&x, 0);
	high = dlend_pinned_next_extent(&x, GB(4));
	unpin_range(&x, 0, GB(4));
	KUNIT_EXPECT_EQ(test, low->pinned, 0);
	KUNIT_EXPECT_EQ(test, high->pinned, GB(1));
	pin_range(test, &x, 0, MB(512), RW, 2);
	KUNIT_EXPECT_EQ(test, build(test, &x, 2), 0);
	expect_sound(test, &x);
	KUNIT_EXPECT_PTR_EQ(test, dlend_pinned_next_extent(&x, 0), low);
	KUNIT_EXPECT_PTR_EQ(test, dlend_pinned_next_extent(&x, GB(4)), high);
	/* With a hole as well. */
	unpin_range(&x, 0, GB(4));
	pin_range(test, &x, 0, KB(640), RW, 3);
	pin_range(test, &x, MB(1), MB(512), RW, 3);
	KUNIT_EXPECT_EQ(test, build(test, &x, 3), 0);
	expect_sound(test, &x);
	KUNIT_EXPECT_EQ(test, x.extents, 2);
	/* A page that is read-only never hides in a window that lenders have as writable. */
	pin_range(test, &x, KB(768), KB(772), RO, 3);
	KUNIT_EXPECT_EQ(test, build(test, &x, 3), 1);
	expect_sound(test, &x);
	KUNIT_EXPECT_EQ(test, x.extents, 4);
	/* The memory stays away. */
	unpin_range(&x, 0, GB(4));
	KUNIT_EXPECT_EQ(test, build(test, &x, 4), 3);
	KUNIT_EXPECT_EQ(test, x.extents, 1);
	expect_sound(test, &x);
	done(test, &x);
}

/* Memory comes back with other rights, or across an old edge: a new extent is needed. */
static void pinned_comes_back_otherwise(struct kunit *test)
{
	struct dlend_pinned x;

	dlend_pinned_init(&x);
	pin_range(test, &x, 0, KB(640), RW, 1);
	pin_range(test, &x, KB(768), KB(928), RO, 1);
	pin_range(test, &x, KB(928), MB(64), RW, 1);
	build(test, &x, 1);
	KUNIT_EXPECT_EQ(test, x.extents, 3);
	/* Only the patchwork: what is below and above stays. */
	unpin_range(&x, KB(768), KB(928));
	pin_range(test, &x, KB(768), KB(928), RW, 2);
	KUNIT_EXPECT_EQ(test, build(test, &x, 2), 1);
	expect_sound(test, &x);
	expect_extent(test, &x, KB(768), KB(160), RW);
	/* One chunk over all of it: everything below 2 MiB has to give way. */
	unpin_range(&x, 0, MB(2));
	pin_range(test, &x, 0, MB(2), RW, 3);
	KUNIT_EXPECT_EQ(test, build(test, &x, 3), 3);
	expect_sound(test, &x);
	KUNIT_EXPECT_EQ(test, x.extents, 1);
	expect_extent(test, &x, 0, MB(64), RW);
	done(test, &x);
}

/* A part of an extent goes: its other chunks stay where they are. */
static void pinned_partial(struct kunit *test)
{
	struct dlend_pinned x;
	struct dlend_extent *extent;
	LIST_HEAD(out);

	dlend_pinned_init(&x);
	pin_range(test, &x, GB(4), GB(4) + MB(64), RW, 1);
	build(test, &x, 1);
	extent = dlend_pinned_next_extent(&x, 0);
	/* A cut chunk goes whole, exactly as it was pinned. */
	KUNIT_EXPECT_EQ(test, dlend_pinned_take_range(&x, GB(4) + MB(7), GB(4) + MB(7), &out), 1);
	KUNIT_EXPECT_EQ(test, list_first_entry(&out, struct dlend_chunk, node)->gpa,
			GB(4) + MB(6));
	KUNIT_EXPECT_EQ(test, list_first_entry(&out, struct dlend_chunk, node)->npages, 512);
	free_chunks(&out);
	KUNIT_EXPECT_EQ(test, extent->pinned, MB(62));
	KUNIT_EXPECT_EQ(test, build(test, &x, 2), 0);
	expect_sound(test, &x);
	/* The rest of the cut chunk is found by the next probe, and joins. */
	pin_range(test, &x, GB(4) + MB(6), GB(4) + MB(7), RW, 3);
	KUNIT_EXPECT_EQ(test, build(test, &x, 3), 0);
	expect_sound(test, &x);
	KUNIT_EXPECT_EQ(test, extent->pinned, MB(63));
	KUNIT_EXPECT_EQ(test, x.extents, 1);
	done(test, &x);
}

/* Memory that was taken away is expected back, in any form, until it is given up. */
static void pinned_missing(struct kunit *test)
{
	struct dlend_pinned x;

	dlend_pinned_init(&x);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), 0);
	pin_range(test, &x, 0, MB(512), RW, 1);
	pin_range(test, &x, GB(2), GB(4), RW, 1);
	build(test, &x, 1);
	/* Memory that this node unpins itself is not missing, nor is a hole in the lost range. */
	unpin_range(&x, GB(3), GB(4));
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), 0);
	lose_range(&x, GB(1), GB(2));
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), 0);
	lose_range(&x, 0, GB(2) + MB(2));
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), MB(514));
	/* Half of it came back, and goes again: all of it is still expected. */
	pin_range(test, &x, 0, MB(256), RW, 2);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), MB(258));
	lose_range(&x, 0, MB(256));
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), MB(514));
	/* Read-only and in other pieces it counts as back. Memory elsewhere does not count. */
	pin_range(test, &x, 0, KB(768), RW, 3);
	pin_range(test, &x, KB(768), MB(1), RO, 3);
	pin_range(test, &x, MB(1), MB(512), RW, 3);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), MB(2));
	pin_range(test, &x, GB(3), GB(3) + MB(2), RW, 3);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), MB(2));
	dlend_pinned_accept(&x, NOW);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), 0);
	lose_range(&x, 0, MB(2));
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), MB(2));
	/* All of memory, as iommufd says it. */
	lose_range(&x, 0, U64_MAX);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), MB(512) + GB(1));
	done(test, &x);
}

#define RETURN	((u64)DLEND_RETURN_MS)
#define LIMIT	((u64)DLEND_RETURN_LIMIT_MS)

/* Missing ends soon after the last loss: firmware is quick, and changes things in a row. */
static void pinned_missing_ends(struct kunit *test)
{
	struct dlend_pinned x;

	dlend_pinned_init(&x);
	pin_range(test, &x, 0, GB(2), RW, 1);
	build(test, &x, 1);
	lose_range_at(&x, 0, MB(2), 1000);
	lose_range_at(&x, MB(2), MB(4), 1000 + RETURN - 1);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, 1000 + RETURN), MB(4));
	/* Another GiB has times of its own. */
	lose_range_at(&x, GB(1), GB(1) + MB(2), 1000 + RETURN + 100);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, 1000 + 2 * RETURN), MB(2));
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, 1000 + 3 * RETURN), 0);
	done(test, &x);
}

/* Above 4 GiB no chipset remaps: memory that goes there was unplugged, and nobody waits for it. */
static void pinned_unplugged(struct kunit *test)
{
	struct dlend_extent *extent;
	struct dlend_pinned x;
	LIST_HEAD(dead);

	dlend_pinned_init(&x);
	pin_range(test, &x, 0, MB(512), RW, 1);
	pin_range(test, &x, GB(4), GB(4) + MB(4), RW, 1);
	pin_range(test, &x, GB(5), GB(5) + MB(4), RW, 1);
	build(test, &x, 1);
	KUNIT_EXPECT_TRUE(test, dlend_pinned_returns(&x, 0, MB(2) - 1));
	KUNIT_EXPECT_TRUE(test, dlend_pinned_returns(&x, 0, U64_MAX));
	KUNIT_EXPECT_FALSE(test, dlend_pinned_returns(&x, GB(4), U64_MAX));
	/* A block smaller than a chunk: the rest of the chunk must come again. */
	KUNIT_EXPECT_TRUE(test, dlend_pinned_returns(&x, GB(4), GB(4) + MB(1) - 1));
	KUNIT_EXPECT_TRUE(test, dlend_pinned_returns(&x, GB(4) + MB(1), GB(4) + MB(2) - 1));
	KUNIT_EXPECT_FALSE(test, dlend_pinned_returns(&x, GB(4) + MB(2), GB(5) - 1));
	lose_range(&x, GB(4), GB(4) + MB(2));
	lose_range(&x, GB(5), GB(5) + MB(4));
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, NOW), 0);
	/* An extent that has something left stays; only extents in the range are pruned. */
	dlend_pinned_prune(&x, GB(4), GB(4) + MB(2) - 1, &dead);
	KUNIT_EXPECT_EQ(test, free_extents(&dead), 0);
	dlend_pinned_prune(&x, GB(5) + MB(2), GB(5) + MB(4) - 1, &dead);
	KUNIT_EXPECT_EQ(test, free_extents(&dead), 1);
	extent = dlend_pinned_next_extent(&x, GB(1));
	KUNIT_ASSERT_NOT_NULL(test, extent);
	KUNIT_EXPECT_EQ(test, extent->gpa, GB(4));
	KUNIT_EXPECT_EQ(test, extent->pinned, MB(2));
	KUNIT_EXPECT_EQ(test, x.extents, 2);
	expect_sound(test, &x);
	done(test, &x);
}

/* Known memory across whole GiB, and across those with a hole. */
static void pinned_known(struct kunit *test)
{
	struct dlend_pinned x;
	u64 next;

	dlend_pinned_init(&x);
	pin_range(test, &x, GB(1) - MB(2), GB(4) + MB(4), RW, 1);
	pin_range(test, &x, GB(6), GB(7), RW, 1);
	KUNIT_EXPECT_EQ(test, dlend_pinned_known(&x, GB(1) - MB(1), &next), GB(4) + MB(4));
	KUNIT_EXPECT_EQ(test, next, GB(6));
	KUNIT_EXPECT_EQ(test, dlend_pinned_known(&x, GB(2) + MB(3), &next), GB(4) + MB(4));
	KUNIT_EXPECT_EQ(test, dlend_pinned_known(&x, GB(6), &next), GB(7));
	KUNIT_EXPECT_EQ(test, next, U64_MAX);
	unpin_range(&x, GB(2) + MB(8), GB(2) + MB(10));
	KUNIT_EXPECT_EQ(test, dlend_pinned_known(&x, 0, &next), 0);
	KUNIT_EXPECT_EQ(test, next, GB(1) - MB(2));
	KUNIT_EXPECT_EQ(test, dlend_pinned_known(&x, GB(1), &next), GB(2) + MB(8));
	KUNIT_EXPECT_EQ(test, next, GB(2) + MB(10));
	done(test, &x);
}

/* Memory below 4 GiB may be given up block by block, too: the pin table finds that out. */
static void pinned_shrinks(struct kunit *test)
{
	struct dlend_pinned x;
	u64 ms, at = 0;

	dlend_pinned_init(&x);
	pin_range(test, &x, 0, GB(1), RW, 1);
	pin_range(test, &x, GB(2), GB(3), RW, 1);
	build(test, &x, 1);
	for (ms = 1000; ms < 1000 + LIMIT; ms += 100, at += MB(2)) {
		lose_range_at(&x, at, at + MB(2), ms);
		KUNIT_EXPECT_GT(test, dlend_pinned_missing(&x, ms + 99), 0);
	}
	KUNIT_EXPECT_TRUE(test, dlend_pinned_returns(&x, 0, GB(1) - 1));
	/* This holds even if no build has come to its end meanwhile. */
	lose_range_at(&x, at, at + MB(2), ms);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, ms), 0);
	KUNIT_EXPECT_FALSE(test, dlend_pinned_returns(&x, 0, GB(1) - 1));
	dlend_pinned_accept(&x, ms);
	KUNIT_EXPECT_FALSE(test, dlend_pinned_returns(&x, 0, GB(1) - 1));
	KUNIT_EXPECT_TRUE(test, dlend_pinned_returns(&x, 0, GB(3) - 1));
	lose_range_at(&x, at + MB(2), at + MB(4), ms + 100);
	KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, ms + 100), 0);
	/* Memory that comes there ends the shrinking. */
	pin_range(test, &x, 0, MB(2), RW, 2);
	KUNIT_EXPECT_TRUE(test, dlend_pinned_returns(&x, 0, GB(1) - 1));
	/* Firmware at work for longer than that, with memory there in between. */
	for (ms = 10000; ms < 10000 + 3 * LIMIT; ms += 100) {
		lose_range_at(&x, GB(2), GB(3), ms);
		KUNIT_EXPECT_EQ(test, dlend_pinned_missing(&x, ms + 50), GB(1));
		pin_range(test, &x, GB(2), GB(3), RW, ms);
	}
	/* One loss alone proves nothing. */
	lose_range_at(&x, GB(2), GB(3), ms);
	dlend_pinned_accept(&x, ms + LIMIT);
	KUNIT_EXPECT_TRUE(test, dlend_pinned_returns(&x, GB(2), GB(3) - 1));
	done(test, &x);
}

/* Note in @of the extent of each mapped chunk. Return: how many there are. */
static u64 standing(struct dlend_pinned *x, const struct dlend_extent **of, u64 max)
{
	struct dlend_chunk *chunk;
	u64 n = 0;

	for (chunk = dlend_pinned_find(x, 0); chunk && n < max;
	     chunk = dlend_pinned_next(x, chunk))
		if (chunk->extent && chunk->mapped)
			of[n++] = chunk->extent;
	return n;
}

/*
 * Some of 32 MiB comes or goes, with edges of 256 KiB, in chunks of up to 1 MiB.  @cut: at edges of
 * extents, and all of it is writable; otherwise as it comes.
 */
static void random_change(struct kunit *test, struct dlend_pinned *x, u32 *seed, u32 number,
			  bool cut)
{
	u64 from = next_random(seed) % 128 * KB(256);
	u64 to = from + (1 + next_random(seed) % 16) * KB(256);
	u32 prot = cut || next_random(seed) % 3 ? RW : RO;
	struct dlend_chunk *chunk;
	u64 size;

	if (next_random(seed) % 3 == 0) {
		lose_range(x, from, to);
		return;
	}
	for (; from < to; from += size) {
		u64 end = min(to, (from | (MB(1) - 1)) + 1);

		size = (cut ? dlend_pinned_edge(x, from, end) : end) - from;
		chunk = new_chunk(test, from, size / PAGE, prot);
		chunk->build = number;
		if (dlend_pinned_add(x, chunk))
			kfree(chunk);
	}
}

/* A chunk leaves its extent only where dlend_pinned_torn() has said so before. */
static void pinned_torn(struct kunit *test)
{
	/* Static: too large for a kernel's stack. */
	static const struct dlend_extent *before[256], *after[256];
	unsigned int torn = 0, whole = 0;
	struct dlend_chunk *chunk;
	struct dlend_pinned x;
	u32 seed = 17, round;
	u64 n;

	dlend_pinned_init(&x);
	for (round = 1; round < 1000; round++) {
		bool says;

		random_change(test, &x, &seed, round, false);
		random_change(test, &x, &seed, round, false);
		n = standing(&x, before, ARRAY_SIZE(before));
		says = dlend_pinned_torn(&x);
		if (says)
			torn++;
		else
			whole++;
		build_settled(test, &x);
		KUNIT_EXPECT_EQ(test, says, standing(&x, after, ARRAY_SIZE(after)) != n);
		if (!says)
			KUNIT_EXPECT_EQ(test, memcmp(before, after, n * sizeof(*after)), 0);
		build(test, &x, round);
		for (chunk = dlend_pinned_find(&x, 0); chunk;
		     chunk = dlend_pinned_next(&x, chunk))
			chunk->mapped = true;
		expect_sound(test, &x);
	}
	KUNIT_EXPECT_GT(test, torn, 20);
	KUNIT_EXPECT_GT(test, whole, 20);
	done(test, &x);
}

/* Writable memory that comes in pieces that end at extents' edges tears none, ever. */
static void pinned_never_torn(struct kunit *test)
{
	struct dlend_pinned x;
	u32 seed = 23, round;

	dlend_pinned_init(&x);
	for (round = 1; round < 2000; round++) {
		random_change(test, &x, &seed, round, true);
		KUNIT_EXPECT_FALSE(test, dlend_pinned_torn(&x));
		build(test, &x, round);
		expect_sound(test, &x);
	}
	KUNIT_EXPECT_EQ(test, dlend_pinned_edge(&x, GB(8), GB(9)), GB(9));
	done(test, &x);
}

/*
 * All of a small guest's RAM in one extent, made while firmware had its legacy area as RAM; then
 * the area goes, and comes back.  One chunk over the extent's edge would take all RAM out of its
 * window: the chunk is to be cut there.
 */
static void pinned_torn_at_its_head(struct kunit *test)
{
	static const struct { u64 from; bool torn; } back[] = {
		{ KB(768), false }, { KB(640), true },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(back); i++) {
		struct dlend_extent *extent;
		struct dlend_pinned x;

		dlend_pinned_init(&x);
		pin_range(test, &x, KB(768), MB(256), RW, 1);
		build(test, &x, 1);
		/* The scan pins what is left of a 2 MiB block as a chunk of its own. */
		lose_range(&x, KB(768), MB(2));
		pin_range(test, &x, MB(1), MB(2), RW, 2);
		build(test, &x, 2);
		extent = dlend_pinned_next_extent(&x, 0);
		KUNIT_ASSERT_NOT_NULL(test, extent);
		KUNIT_EXPECT_EQ(test, extent->size, MB(256) - KB(768));
		KUNIT_EXPECT_FALSE(test, dlend_pinned_torn(&x));
		pin_range(test, &x, back[i].from, MB(1), RW, 3);
		KUNIT_EXPECT_EQ(test, dlend_pinned_torn(&x), back[i].torn);
		KUNIT_EXPECT_EQ(test, dlend_pinned_edge(&x, KB(640), MB(1)), KB(768));
		KUNIT_EXPECT_EQ(test, build(test, &x, 3), back[i].torn);
		expect_sound(test, &x);
		done(test, &x);
	}
}

static bool of_build(const struct dlend_extent *extent, u32 number)
{
	return extent->build == number;
}

/* A build that fails undoes what it has pinned and made, and nothing else. */
static void pinned_undo(struct kunit *test)
{
	struct dlend_pinned x;
	LIST_HEAD(dead);
	LIST_HEAD(out);

	dlend_pinned_init(&x);
	pin_range(test, &x, 0, MB(64), RW, 1);
	build(test, &x, 1);
	unpin_range(&x, MB(32), MB(34));
	pin_range(test, &x, MB(32), MB(34), RW, 2);
	pin_range(test, &x, GB(4), GB(4) + MB(64), RW, 2);
	dlend_pinned_settle(&x, &dead);
	KUNIT_EXPECT_EQ(test, dlend_pinned_form(&x, 2), 0);
	expect_sound(test, &x);
	dlend_pinned_kill_all(&x, of_build, 2, &dead);
	/* Never told: its owner sees that nobody has its offsets. */
	KUNIT_EXPECT_EQ(test, list_first_entry(&dead, struct dlend_extent, node)->acks.members, 0);
	KUNIT_EXPECT_EQ(test, free_extents(&dead), 1);
	KUNIT_EXPECT_EQ(test, dlend_pinned_take_build(&x, 2, &out), 33);
	free_chunks(&out);
	expect_sound(test, &x);
	KUNIT_EXPECT_EQ(test, x.pinned_bytes, MB(62));
	KUNIT_EXPECT_EQ(test, x.extents, 1);
	dlend_pinned_kill_all(&x, NULL, 0, &dead);
	KUNIT_EXPECT_EQ(test, list_first_entry(&dead, struct dlend_extent, node)->acks.members,
			BIT(0));
	KUNIT_EXPECT_EQ(test, free_extents(&dead), 1);
	KUNIT_EXPECT_NULL(test, dlend_pinned_find(&x, 0)->extent);
	done(test, &x);
}

/*
 * No more is pinned than may be, at whatever addresses; and extents have no more of the window,
 * with holes in them, and as long as a lender may know of them.
 */
static void pinned_limit(struct kunit *test)
{
	struct dlend_extent *extent;
	struct dlend_chunk *more;
	struct dlend_pinned x;
	LIST_HEAD(dead);
	LIST_HEAD(out);

	dlend_pinned_init(&x);
	x.most = MB(16);
	pin_range(test, &x, GB(4), GB(4) + MB(16), RW, 1);
	more = new_chunk(test, GB(8), 1, RW);
	KUNIT_EXPECT_EQ(test, dlend_pinned_add(&x, more), -EDQUOT);
	KUNIT_EXPECT_EQ(test, build(test, &x, 1), 0);
	KUNIT_EXPECT_EQ(test, x.window_bytes, MB(16));
	/* All but a page goes: there is something to pin, but no place in the window. */
	dlend_pinned_split(&x, GB(4) + PAGE);
	lose_range(&x, GB(4) + PAGE, GB(4) + MB(16));
	KUNIT_EXPECT_EQ(test, dlend_pinned_add(&x, more), 0);
	KUNIT_EXPECT_EQ(test, dlend_pinned_form(&x, 2), -EDQUOT);
	/* That build is undone; what comes back to its place in the window needs no other. */
	dlend_pinned_kill_all(&x, of_build, 2, &dead);
	dlend_pinned_bury(&x, list_first_entry(&dead, struct dlend_extent, node));
	dlend_pinned_take(&x, more, &out);
	pin_range(test, &x, GB(4) + MB(2), GB(4) + MB(4), RW, 3);
	KUNIT_EXPECT_EQ(test, build(test, &x, 3), 0);
	KUNIT_EXPECT_EQ(test, x.window_bytes, MB(16));
	/* It is free when the extent is buried, and not before. */
	dlend_pinned_kill_all(&x, NULL, 0, &dead);
	extent = list_first_entry(&dead, struct dlend_extent, node);
	KUNIT_EXPECT_EQ(test, dlend_pinned_form(&x, 4), -EDQUOT);
	dlend_pinned_bury(&x, extent);
	KUNIT_EXPECT_EQ(test, dlend_pinned_form(&x, 5), 0);
	KUNIT_EXPECT_EQ(test, x.window_bytes, PAGE + MB(2));
	free_chunks(&out);
	done(test, &x);
}

/* Memory comes and goes at random; after every build the pin table is sound and complete. */
static void pinned_churn(struct kunit *test)
{
	struct dlend_pinned x;
	u32 seed = 3, round;

	dlend_pinned_init(&x);
	for (round = 1; round < 300; round++) {
		u64 start = next_random(&seed) % 700000 * PAGE;
		u64 end = start + (1 + next_random(&seed) % 3000) * PAGE;
		u64 next = 0, stop;

		if (next_random(&seed) % 2) {
			unpin_range(&x, start, end);
		} else {
			u32 prot = next_random(&seed) % 3 ? RW : RO;

			while (start < end) {
				stop = dlend_pinned_known(&x, start, &next);
				if (!stop) {
					stop = min(next, end);
					pin_range(test, &x, start, stop, prot, round);
				}
				start = stop;
			}
		}
		if (next_random(&seed) % 2) {
			build(test, &x, round);
			expect_sound(test, &x);
		}
	}
	done(test, &x);
}

/* A second member finds everything there, and chunks go over from the first to it. */
static void pinned_owners(struct kunit *test)
{
	const void *one = "one", *two = "two";
	struct dlend_chunk *chunk;
	struct dlend_pinned x;
	u64 gpa = 0, next;
	u32 count = 0;

	dlend_pinned_init(&x);
	pin_range(test, &x, 0, MB(64), RW, 1);
	for (chunk = dlend_pinned_find(&x, 0); chunk; chunk = dlend_pinned_next(&x, chunk))
		chunk->owner = one;
	build(test, &x, 1);
	KUNIT_EXPECT_EQ(test, dlend_pinned_known(&x, 0, &next), MB(64));
	KUNIT_EXPECT_EQ(test, dlend_pinned_owned(&x, one), MB(64));
	KUNIT_EXPECT_EQ(test, dlend_pinned_owned(&x, two), 0);
	KUNIT_EXPECT_NULL(test, dlend_pinned_find_owned(&x, 0, two));
	dlend_pinned_find(&x, MB(32))->owner = two;
	while ((chunk = dlend_pinned_find_owned(&x, gpa, one))) {
		KUNIT_EXPECT_NE(test, chunk->gpa, MB(32));
		gpa = chunk->gpa + chunk->npages * PAGE;
		chunk->owner = two;
		count++;
	}
	KUNIT_EXPECT_EQ(test, count, 31);
	KUNIT_EXPECT_EQ(test, dlend_pinned_owned(&x, one), 0);
	KUNIT_EXPECT_EQ(test, dlend_pinned_owned(&x, two), MB(64));
	/* A new build changes nothing. Then the first member leaves, and its bit goes. */
	dlend_pinned_next_extent(&x, 0)->acks.members |= BIT(1);
	KUNIT_EXPECT_EQ(test, build(test, &x, 2), 0);
	dlend_pinned_leave(&x, 1);
	KUNIT_EXPECT_EQ(test, dlend_pinned_next_extent(&x, 0)->acks.members, BIT(0));
	done(test, &x);
}

/* A chunk is split where a mapping of the VMM's ends: the parts are as the whole was. */
static void pinned_split(struct kunit *test)
{
	struct dlend_chunk *part[3];
	struct dlend_extent *extent;
	static void *pages[512];
	struct dlend_pinned x;
	LIST_HEAD(out);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pages); i++)
		pages[i] = &pages[i];
	dlend_pinned_init(&x);
	pin_range(test, &x, GB(4), GB(4) + MB(4), RW, 1);
	build(test, &x, 1);
	part[0] = dlend_pinned_find(&x, GB(4));
	part[0]->mapped = true;
	part[0]->pages = NULL;
	part[0]->pfn = 1000;
	dlend_pinned_split(&x, GB(4));
	dlend_pinned_split(&x, GB(4) + MB(2));
	KUNIT_EXPECT_EQ(test, x.chunks, 2);
	dlend_pinned_split(&x, GB(4) + KB(512));
	dlend_pinned_split(&x, GB(4) + KB(1536));
	KUNIT_EXPECT_EQ(test, x.chunks, 4);
	part[1] = dlend_pinned_next(&x, part[0]);
	part[2] = dlend_pinned_next(&x, part[1]);
	extent = part[0]->extent;
	KUNIT_ASSERT_NOT_NULL(test, extent);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_PTR_EQ(test, part[i]->extent, extent);
		KUNIT_EXPECT_TRUE(test, part[i]->mapped);
	}
	KUNIT_EXPECT_EQ(test, part[0]->npages, 128);
	KUNIT_EXPECT_EQ(test, part[1]->gpa, GB(4) + KB(512));
	KUNIT_EXPECT_EQ(test, part[1]->npages, 256);
	KUNIT_EXPECT_EQ(test, part[1]->pfn, 1128);
	KUNIT_EXPECT_EQ(test, part[2]->pfn, 1384);
	/* The middle goes, and nothing else; nothing has to come back. */
	KUNIT_EXPECT_FALSE(test, dlend_pinned_returns(&x, GB(4) + KB(512), GB(4) + KB(1536) - 1));
	KUNIT_EXPECT_EQ(test, dlend_pinned_lose(&x, GB(4) + KB(512), GB(4) + KB(1536) - 1, NOW,
						&out), 1);
	free_chunks(&out);
	KUNIT_EXPECT_EQ(test, x.pinned_bytes, MB(3));
	KUNIT_EXPECT_EQ(test, extent->pinned, MB(3));
	/* Pages that are not contiguous. */
	part[0] = dlend_pinned_find(&x, GB(4) + MB(2));
	KUNIT_ASSERT_EQ(test, part[0]->npages, 512);
	if (!part[0]->pages)
		x.scattered_bytes += MB(2);
	part[0]->pages = pages;
	dlend_pinned_split(&x, GB(4) + MB(3));
	part[1] = dlend_pinned_next(&x, part[0]);
	KUNIT_ASSERT_NOT_NULL(test, part[1]);
	KUNIT_ASSERT_NOT_NULL(test, part[1]->pages);
	KUNIT_EXPECT_PTR_EQ(test, ((void **)part[1]->pages)[0], (void *)&pages[256]);
	KUNIT_EXPECT_PTR_EQ(test, ((void **)part[1]->pages)[255], (void *)&pages[511]);
	kfree(part[1]->pages);
	done(test, &x);
}

static struct kunit_case pinned_cases[] = {
	KUNIT_CASE(pinned_split),
	KUNIT_CASE(pinned_add_refuses),
	KUNIT_CASE(pinned_model),
	KUNIT_CASE(pinned_known),
	KUNIT_CASE(pinned_forms),
	KUNIT_CASE(pinned_comes_back),
	KUNIT_CASE(pinned_comes_back_otherwise),
	KUNIT_CASE(pinned_partial),
	KUNIT_CASE(pinned_missing),
	KUNIT_CASE(pinned_missing_ends),
	KUNIT_CASE(pinned_unplugged),
	KUNIT_CASE(pinned_shrinks),
	KUNIT_CASE(pinned_torn),
	KUNIT_CASE(pinned_torn_at_its_head),
	KUNIT_CASE(pinned_never_torn),
	KUNIT_CASE(pinned_undo),
	KUNIT_CASE(pinned_limit),
	KUNIT_CASE(pinned_churn),
	KUNIT_CASE(pinned_owners),
	{}
};

static struct kunit_suite pinned_suite = {
	.name = "dlend-pinned",
	.test_cases = pinned_cases,
};

kunit_test_suite(pinned_suite);

MODULE_DESCRIPTION("Suite of dlend's table of pinned memory");
MODULE_LICENSE("GPL");
