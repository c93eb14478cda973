// SPDX-License-Identifier: GPL-2.0
/*
 * Books of pinned guest memory: see extent.h.
 *
 * Blocks of 1 GiB hold sorted lists of chunks (2 MiB each, as a rule) and of extents.  Walks go
 * upwards, so a list is entered from its end and a block found from the one used last: adding,
 * finding and taking cost what a short list costs, and need nothing but lists.
 *
 * Pure logic: knows nothing of VFIO, IOMMUs, locks or time.
 */
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <dlend/alloc.h>
#include <dlend/layout.h>

#include "extent.h"

#define GUEST_PAGE	4096ULL
#define CHUNK		(DLEND_CHUNK_PAGES * GUEST_PAGE)
#define REMAP_END	BIT_ULL(32)	/* of what PCs' chipsets remap */

/**
 * struct dlend_extent_block - 1 GiB of guest-physical space
 * @node: among the blocks, by address
 * @base: first address
 * @chunks: pinned there, by address
 * @extents: there, by address
 * @pinned: bytes of its chunks
 * @expected: bytes there were before some were lost; 0: none were
 * @first_ms: when some were lost first since something came
 * @last_ms: when some were lost last
 * @came: something was pinned since @first_ms
 * @leaves: more and more was lost, and nothing came: it does not come back
 */
struct dlend_extent_block {
	struct list_head node;
	u64 base;
	u64 pinned, expected;
	u64 first_ms, last_ms;
	bool came, leaves;
	struct list_head chunks;
	struct list_head extents;
};

static u64 chunk_size(const struct dlend_chunk *chunk)
{
	return chunk->npages * GUEST_PAGE;
}

static u64 chunk_end(const struct dlend_chunk *chunk)
{
	return chunk->gpa + chunk_size(chunk);
}

/* The last block whose base is not above @gpa, or NULL. */
static struct dlend_extent_block *block_before(struct dlend_extents *x, u64 gpa)
{
	struct dlend_extent_block *block = x->cursor;

	if (list_empty(&x->blocks))
		return NULL;
	if (!block)
		block = list_first_entry(&x->blocks, struct dlend_extent_block, node);
	while (block->base > gpa) {
		if (list_is_first(&block->node, &x->blocks))
			return NULL;
		block = list_prev_entry(block, node);
	}
	while (!list_is_last(&block->node, &x->blocks) &&
	       list_next_entry(block, node)->base <= gpa)
		block = list_next_entry(block, node);
	x->cursor = block;
	return block;
}

/* The first block that ends above @gpa, or NULL. */
static struct dlend_extent_block *block_from(struct dlend_extents *x, u64 gpa)
{
	struct dlend_extent_block *block = block_before(x, gpa);

	if (list_empty(&x->blocks))
		return NULL;
	if (!block)
		return list_first_entry(&x->blocks, struct dlend_extent_block, node);
	if (gpa - block->base < DLEND_EXTENT_MAX)
		return block;
	if (list_is_last(&block->node, &x->blocks))
		return NULL;
	return list_next_entry(block, node);
}

static struct dlend_extent_block *block_next(struct dlend_extents *x,
					     struct dlend_extent_block *block)
{
	return list_is_last(&block->node, &x->blocks) ? NULL : list_next_entry(block, node);
}

/* The block of @gpa, made if there is none. */
static struct dlend_extent_block *block_get(struct dlend_extents *x, u64 gpa)
{
	struct dlend_extent_block *before = block_before(x, gpa), *block;

	if (before && gpa - before->base < DLEND_EXTENT_MAX)
		return before;
	block = kmalloc_obj(*block);
	if (!block)
		return NULL;
	*block = (struct dlend_extent_block){ .base = ALIGN_DOWN(gpa, DLEND_EXTENT_MAX) };
	INIT_LIST_HEAD(&block->chunks);
	INIT_LIST_HEAD(&block->extents);
	list_add(&block->node, before ? &before->node : &x->blocks);
	x->cursor = block;
	return block;
}

void dlend_extents_init(struct dlend_extents *x)
{
	*x = (struct dlend_extents){};
	INIT_LIST_HEAD(&x->blocks);
}

void dlend_extents_destroy(struct dlend_extents *x)
{
	struct dlend_extent_block *block, *tmp;

	x->cursor = NULL;
	list_for_each_entry_safe(block, tmp, &x->blocks, node) {
		list_del(&block->node);
		kfree(block);
	}
}

/* Enter (@sign 1) or strike off (-1) a chunk's bytes; u64 arithmetic wraps as it should. */
static void count_chunk(struct dlend_extents *x, const struct dlend_chunk *chunk, int sign)
{
	u64 bytes = sign * chunk_size(chunk);

	x->chunks += sign;
	x->pinned_bytes += bytes;
	block_before(x, chunk->gpa)->pinned += bytes;
	if (!(chunk->prot & DLEND_PROT_WRITE))
		x->readonly_bytes += bytes;
	if (chunk->pages)
		x->scattered_bytes += bytes;
	if (chunk->extent)
		chunk->extent->pinned += bytes;
}

/* The last chunk of @block that begins at or below @gpa, or NULL. */
static struct dlend_chunk *chunk_before(struct dlend_extent_block *block, u64 gpa)
{
	struct dlend_chunk *chunk;

	list_for_each_entry_reverse(chunk, &block->chunks, node)
		if (chunk->gpa <= gpa)
			return chunk;
	return NULL;
}

int dlend_extents_add(struct dlend_extents *x, struct dlend_chunk *chunk)
{
	struct dlend_extent_block *block;
	struct dlend_chunk *before, *after = NULL;

	if (!chunk->npages || chunk->npages > DLEND_CHUNK_PAGES ||
	    chunk_size(chunk) > CHUNK - (chunk->gpa & (CHUNK - 1)))
		return -EINVAL;
	block = block_get(x, chunk->gpa);
	if (!block)
		return -ENOMEM;
	before = chunk_before(block, chunk->gpa);
	if (before && chunk_end(before) > chunk->gpa)
		return -EEXIST;
	if (!before)
		after = list_first_entry_or_null(&block->chunks, struct dlend_chunk, node);
	else if (!list_is_last(&before->node, &block->chunks))
		after = list_next_entry(before, node);
	if (after && chunk_end(chunk) > after->gpa)
		return -EEXIST;
	chunk->extent = NULL;
	chunk->mapped = false;
	block->came = true;
	block->leaves = false;
	list_add(&chunk->node, before ? &before->node : &block->chunks);
	count_chunk(x, chunk, 1);
	return 0;
}

static struct dlend_chunk *first_from_block(struct dlend_extents *x,
					    struct dlend_extent_block *block)
{
	for (; block; block = block_next(x, block))
		if (!list_empty(&block->chunks))
			return list_first_entry(&block->chunks, struct dlend_chunk, node);
	return NULL;
}

struct dlend_chunk *dlend_extents_find(struct dlend_extents *x, u64 gpa)
{
	struct dlend_extent_block *block = block_from(x, gpa);
	struct dlend_chunk *chunk;

	if (!block)
		return NULL;
	chunk = chunk_before(block, gpa);
	if (!chunk)
		return first_from_block(x, block);
	return chunk_end(chunk) > gpa ? chunk : dlend_extents_next(x, chunk);
}

struct dlend_chunk *dlend_extents_next(struct dlend_extents *x, struct dlend_chunk *chunk)
{
	struct dlend_extent_block *block = block_before(x, chunk->gpa);

	if (!list_is_last(&chunk->node, &block->chunks))
		return list_next_entry(chunk, node);
	return first_from_block(x, block_next(x, block));
}

struct dlend_chunk *dlend_extents_find_owned(struct dlend_extents *x, u64 gpa, const void *owner)
{
	struct dlend_chunk *chunk = dlend_extents_find(x, gpa);

	while (chunk && chunk->owner != owner)
		chunk = dlend_extents_next(x, chunk);
	return chunk;
}

u64 dlend_extents_owned(struct dlend_extents *x, const void *owner)
{
	struct dlend_chunk *chunk;
	u64 bytes = 0;

	for (chunk = dlend_extents_find(x, 0); chunk; chunk = dlend_extents_next(x, chunk))
		if (chunk->owner == owner)
			bytes += chunk_size(chunk);
	return bytes;
}

u64 dlend_extents_book_bytes(const struct dlend_extents *x)
{
	return x->chunks * sizeof(struct dlend_chunk) + x->extents * sizeof(struct dlend_extent) +
	       x->scattered_bytes / GUEST_PAGE * sizeof(void *);
}

/* The chunk after @chunk and those that follow it without a gap; @end: where they end. */
static struct dlend_chunk *known_next(struct dlend_extents *x, struct dlend_chunk *chunk, u64 *end)
{
	struct dlend_extent_block *block = block_before(x, chunk->gpa);

	/* Somebody asks all the time (dlend_memory_look()): by GiB, where they are full. */
	if (block->pinned == DLEND_EXTENT_MAX) {
		*end = block->base + DLEND_EXTENT_MAX;
		return first_from_block(x, block_next(x, block));
	}
	*end = chunk_end(chunk);
	return dlend_extents_next(x, chunk);
}

u64 dlend_extents_known(struct dlend_extents *x, u64 gpa, u64 *next)
{
	struct dlend_chunk *chunk = dlend_extents_find(x, gpa);
	u64 end = 0;

	if (chunk && chunk->gpa <= gpa) {
		end = gpa;
		while (chunk && chunk->gpa <= end)
			chunk = known_next(x, chunk, &end);
	}
	*next = chunk ? chunk->gpa : U64_MAX;
	return end;
}

struct dlend_extent *dlend_extents_next_extent(struct dlend_extents *x, u64 gpa)
{
	struct dlend_extent_block *block = block_from(x, gpa);
	struct dlend_extent *extent;

	for (; block; block = block_next(x, block))
		list_for_each_entry(extent, &block->extents, node)
			if (extent->gpa >= gpa)
				return extent;
	return NULL;
}

void dlend_extents_take(struct dlend_extents *x, struct dlend_chunk *chunk,
			struct list_head *out)
{
	count_chunk(x, chunk, -1);
	list_move_tail(&chunk->node, out);
}

u64 dlend_extents_take_range(struct dlend_extents *x, u64 gpa, u64 last, struct list_head *out)
{
	struct dlend_chunk *chunk = dlend_extents_find(x, gpa);
	u64 count = 0;

	while (chunk && chunk->gpa <= last) {
		struct dlend_chunk *next = dlend_extents_next(x, chunk);

		dlend_extents_take(x, chunk, out);
		chunk = next;
		count++;
	}
	return count;
}

/* Are there registers of a chipset's that remap what is there, and has it not proved otherwise? */
static bool block_returns(const struct dlend_extent_block *block)
{
	return block->base < REMAP_END && !block->leaves;
}

/* Is there a chunk of which only a part lies below @gpa? */
static bool cut_at(struct dlend_extents *x, u64 gpa)
{
	struct dlend_chunk *chunk = dlend_extents_find(x, gpa);

	return chunk && chunk->gpa < gpa;
}

bool dlend_extents_returns(struct dlend_extents *x, u64 gpa, u64 last)
{
	struct dlend_extent_block *block;

	/* Chunks go as a whole. */
	if (cut_at(x, gpa) || (last != U64_MAX && cut_at(x, last + 1)))
		return true;
	for (block = block_from(x, gpa); block && block->base <= last; block = block_next(x, block))
		if (block_returns(block))
			return true;
	return false;
}

/* Has @block been losing for so long, and got nothing, that this is no firmware? */
static bool block_shrinks(const struct dlend_extent_block *block, u64 now_ms)
{
	return !block->came && now_ms >= block->first_ms + DLEND_RETURN_LIMIT_MS;
}

static void block_loses(struct dlend_extent_block *block, u64 had, u64 now_ms)
{
	if (!block_returns(block) || block->pinned == had)
		return;
	if (!block->expected || block->came)
		block->first_ms = now_ms;
	block->last_ms = now_ms;
	block->came = false;
	/* What was missing before, and came back only in part, is so still. */
	block->expected = max(block->expected, had);
	/* Now, as a build may never get to an end while the next loss disturbs it. */
	block->leaves = block_shrinks(block, now_ms);
}

u64 dlend_extents_lose(struct dlend_extents *x, u64 gpa, u64 last, u64 now_ms,
		       struct list_head *out)
{
	struct dlend_extent_block *block;
	u64 had, count = 0;

	for (block = block_from(x, gpa); block && block->base <= last;
	     block = block_next(x, block)) {
		had = block->pinned;
		count += dlend_extents_take_range(x, max(gpa, block->base),
						  min(last, block->base + (DLEND_EXTENT_MAX - 1)),
						  out);
		block_loses(block, had, now_ms);
	}
	return count;
}

u64 dlend_extents_missing(const struct dlend_extents *x, u64 now_ms)
{
	const struct dlend_extent_block *block;
	u64 bytes = 0;

	list_for_each_entry(block, &x->blocks, node)
		if (block->expected > block->pinned && !block_shrinks(block, now_ms) &&
		    now_ms < block->last_ms + DLEND_RETURN_MS)
			bytes += block->expected - block->pinned;
	return bytes;
}

void dlend_extents_accept(struct dlend_extents *x, u64 now_ms)
{
	struct dlend_extent_block *block;

	list_for_each_entry(block, &x->blocks, node) {
		block->leaves |= block->expected > block->pinned && block_shrinks(block, now_ms) &&
				 now_ms < block->last_ms + DLEND_RETURN_MS;
		block->expected = 0;
	}
}

void dlend_extents_prune(struct dlend_extents *x, u64 gpa, u64 last, struct list_head *dead)
{
	struct dlend_extent_block *block;
	struct dlend_extent *extent, *tmp;

	for (block = block_from(x, gpa); block && block->base <= last; block = block_next(x, block))
		list_for_each_entry_safe(extent, tmp, &block->extents, node)
			if (!extent->pinned && extent->gpa <= last &&
			    extent->gpa + (extent->size - 1) >= gpa)
				dlend_extents_kill(x, extent, dead);
}

u64 dlend_extents_take_build(struct dlend_extents *x, u32 build, struct list_head *out)
{
	struct dlend_chunk *chunk = dlend_extents_find(x, 0);
	u64 count = 0;

	while (chunk) {
		struct dlend_chunk *next = dlend_extents_next(x, chunk);

		if (chunk->build == build) {
			dlend_extents_take(x, chunk, out);
			count++;
		}
		chunk = next;
	}
	return count;
}

void dlend_extents_kill(struct dlend_extents *x, struct dlend_extent *extent,
			struct list_head *dead)
{
	struct dlend_chunk *chunk = dlend_extents_find(x, extent->gpa);

	for (; chunk && chunk->gpa < extent->gpa + extent->size;
	     chunk = dlend_extents_next(x, chunk)) {
		if (chunk->extent != extent)
			continue;
		chunk->extent = NULL;
		chunk->mapped = false;
	}
	extent->pinned = 0;
	list_move_tail(&extent->node, dead);
	x->extents--;
}

void dlend_extents_kill_all(struct dlend_extents *x,
			    bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg,
			    struct list_head *dead)
{
	struct dlend_extent_block *block;
	struct dlend_extent *extent, *tmp;

	list_for_each_entry(block, &x->blocks, node)
		list_for_each_entry_safe(extent, tmp, &block->extents, node)
			if (!match || match(extent, arg))
				dlend_extents_kill(x, extent, dead);
}

static bool overlap(const struct dlend_extent *extent, const struct dlend_chunk *chunk)
{
	return chunk->gpa < extent->gpa + extent->size && extent->gpa < chunk_end(chunk);
}

/* May @chunk, which overlaps @extent, be mapped in its slot? */
static bool fits(const struct dlend_extent *extent, const struct dlend_chunk *chunk)
{
	return chunk->gpa >= extent->gpa && chunk_end(chunk) <= extent->gpa + extent->size &&
	       !(chunk->prot & ~extent->prot);
}

/* Is there a loose chunk in @extent's place that cannot join? */
static bool in_the_way(struct dlend_extent_block *block, const struct dlend_extent *extent)
{
	struct dlend_chunk *chunk;

	list_for_each_entry(chunk, &block->chunks, node)
		if (!chunk->extent && overlap(extent, chunk) && !fits(extent, chunk))
			return true;
	return false;
}

/* Loose chunks in @extent's place join it; none is in the way. */
static void join(struct dlend_extent_block *block, struct dlend_extent *extent)
{
	struct dlend_chunk *chunk;

	list_for_each_entry(chunk, &block->chunks, node) {
		if (chunk->extent || !overlap(extent, chunk))
			continue;
		chunk->extent = extent;
		extent->pinned += chunk_size(chunk);
	}
}

u64 dlend_extents_edge(struct dlend_extents *x, u64 gpa, u64 end)
{
	struct dlend_extent_block *block;
	struct dlend_extent *extent;

	for (block = block_from(x, gpa); block && block->base < end; block = block_next(x, block)) {
		list_for_each_entry(extent, &block->extents, node) {
			if (extent->gpa > gpa)
				return min(extent->gpa, end);
			if (extent->gpa + extent->size > gpa)
				return min(extent->gpa + extent->size, end);
		}
	}
	return end;
}

bool dlend_extents_torn(struct dlend_extents *x)
{
	struct dlend_extent_block *block;
	struct dlend_extent *extent;

	list_for_each_entry(block, &x->blocks, node)
		list_for_each_entry(extent, &block->extents, node)
			if (extent->pinned && extent->pinned != extent->size &&
			    in_the_way(block, extent))
				return true;
	return false;
}

void dlend_extents_settle(struct dlend_extents *x, struct list_head *dead)
{
	struct dlend_extent_block *block;
	struct dlend_extent *extent, *tmp;

	list_for_each_entry(block, &x->blocks, node) {
		list_for_each_entry_safe(extent, tmp, &block->extents, node) {
			if (extent->pinned == extent->size)
				continue;	/* complete: nothing loose can be there */
			if (in_the_way(block, extent)) {
				dlend_extents_kill(x, extent, dead);
				continue;
			}
			join(block, extent);
			if (!extent->pinned)
				dlend_extents_kill(x, extent, dead);
		}
	}
}

/* A new extent of @block that begins with @chunk. */
static struct dlend_extent *extent_new(struct dlend_extents *x, struct dlend_extent_block *block,
				       const struct dlend_chunk *chunk, u32 build)
{
	struct dlend_extent *extent, *before;
	struct list_head *at = &block->extents;

	extent = kmalloc_obj(*extent);
	if (!extent)
		return NULL;
	*extent = (struct dlend_extent){
		.gpa = chunk->gpa,
		.prot = chunk->prot,
		.build = build,
	};
	list_for_each_entry_reverse(before, &block->extents, node) {
		if (before->gpa < extent->gpa) {
			at = &before->node;
			break;
		}
	}
	list_add(&extent->node, at);
	x->extents++;
	return extent;
}

static int form_block(struct dlend_extents *x, struct dlend_extent_block *block, u32 build)
{
	struct dlend_extent *extent = NULL;
	struct dlend_chunk *chunk;

	list_for_each_entry(chunk, &block->chunks, node) {
		if (chunk->extent) {
			extent = NULL;
			continue;
		}
		if (!extent || extent->gpa + extent->size != chunk->gpa ||
		    extent->prot != chunk->prot)
			extent = extent_new(x, block, chunk, build);
		if (!extent)
			return -ENOMEM;
		chunk->extent = extent;
		extent->size += chunk_size(chunk);
		extent->pinned = extent->size;
	}
	return 0;
}

int dlend_extents_form(struct dlend_extents *x, u32 build)
{
	struct dlend_extent_block *block;
	int err = 0;

	list_for_each_entry(block, &x->blocks, node) {
		err = form_block(x, block, build);
		if (err)
			break;
	}
	return err;
}

bool dlend_extent_due(const struct dlend_extent *extent, enum dlend_tale what, u32 id)
{
	switch (what) {
	case DLEND_TALE_GONE:
		return extent->told & BIT(id);
	case DLEND_TALE_UNSURE:
		return extent->unsure & BIT(id);
	case DLEND_TALE_NEW:
		return !(extent->told & BIT(id));
	}
	return false;
}

void dlend_extent_ask(struct dlend_extent *extent, enum dlend_tale what, u32 id)
{
	extent->asked = true;
	if (what == DLEND_TALE_NEW)
		extent->told |= BIT(id);
}

bool dlend_extent_answer(struct dlend_extent *extent, enum dlend_tale what, u32 id, bool ok)
{
	if (!extent->asked)
		return false;
	extent->asked = false;
	if (what == DLEND_TALE_NEW) {
		if (!ok)
			extent->unsure |= BIT(id);
	} else if (ok) {
		extent->told &= ~BIT(id);
		extent->unsure &= ~BIT(id);
	}
	return !(extent->told & ~DLEND_TOLD_LOST);
}

bool dlend_extent_leave(struct dlend_extent *extent, u32 id, bool fenced)
{
	if (!fenced && (extent->told & BIT(id)))
		extent->told |= DLEND_TOLD_LOST;
	extent->told &= ~BIT(id);
	extent->unsure &= ~BIT(id);
	return !(extent->told & ~DLEND_TOLD_LOST);
}

void dlend_extents_leave(struct dlend_extents *x, u32 id)
{
	struct dlend_extent_block *block;
	struct dlend_extent *extent;

	list_for_each_entry(block, &x->blocks, node)
		list_for_each_entry(extent, &block->extents, node)
			dlend_extent_leave(extent, id, true);
}
