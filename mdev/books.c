// SPDX-License-Identifier: GPL-2.0
/*
 * Books of pinned guest memory: see books.h.
 *
 * There is a block for each GiB, with a sorted list of chunks (2 MiB each, as a rule) and one of
 * extents.  Walks go upwards.  So a list is searched from its end, and a block from the block that
 * was used last.  Then adding, finding and taking a chunk costs little, and needs nothing but
 * lists.
 *
 * Pure logic: must not know VFIO, IOMMUs, locks or clocks.
 */
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <dlend/alloc.h>

#include "books.h"

/* Chipsets of PCs remap RAM below this address only. */
#define DLEND_REMAP_END	BIT_ULL(32)

/**
 * struct dlend_block - 1 GiB of guest-physical space
 * @node: among the blocks, by address
 * @base: first address
 * @chunks: pinned there, by address
 * @extents: there, by address
 * @pinned: bytes of its chunks
 * @expected: how many bytes there were before some were lost; 0: none were lost
 * @first_ms: when some were lost first after something had come
 * @last_ms: when some were lost last
 * @came: something was pinned since @first_ms
 * @leaves: more and more was lost, and nothing came: memory that is lost now does not come back
 */
struct dlend_block {
	struct list_head node;
	u64 base;
	u64 pinned, expected;
	u64 first_ms, last_ms;
	bool came, leaves;
	struct list_head chunks;
	struct list_head extents;
};

/* The block that follows @block (NULL: the first one), or NULL. */
static struct dlend_block *dlend_block_next(struct dlend_books *x, struct dlend_block *block)
{
	struct list_head *next = block ? block->node.next : x->blocks.next;

	return next == &x->blocks ? NULL : list_entry(next, struct dlend_block, node);
}

/* The last block whose base is not above @gpa, or NULL. */
static struct dlend_block *dlend_block_before(struct dlend_books *x, u64 gpa)
{
	struct dlend_block *block = x->cursor ?: dlend_block_next(x, NULL), *next;

	if (!block)
		return NULL;
	while (block->base > gpa) {
		if (list_is_first(&block->node, &x->blocks))
			return NULL;
		block = list_prev_entry(block, node);
	}
	while ((next = dlend_block_next(x, block)) && next->base <= gpa)
		block = next;
	x->cursor = block;
	return block;
}

/* The first block that ends above @gpa, or NULL. */
static struct dlend_block *dlend_block_from(struct dlend_books *x, u64 gpa)
{
	struct dlend_block *block = dlend_block_before(x, gpa);

	return block && gpa - block->base < DLEND_EXTENT_MAX ? block : dlend_block_next(x, block);
}

/* The block of @gpa; it is made if there is none.  NULL: out of memory. */
static struct dlend_block *dlend_block_get(struct dlend_books *x, u64 gpa)
{
	struct dlend_block *before = dlend_block_before(x, gpa), *block;

	if (before && gpa - before->base < DLEND_EXTENT_MAX)
		return before;
	block = kmalloc_obj(*block, DLEND_BOOKS_GFP);
	if (!block)
		return NULL;
	*block = (struct dlend_block){ .base = ALIGN_DOWN(gpa, DLEND_EXTENT_MAX) };
	INIT_LIST_HEAD(&block->chunks);
	INIT_LIST_HEAD(&block->extents);
	list_add(&block->node, before ? &before->node : &x->blocks);
	x->cursor = block;
	return block;
}

void dlend_books_init(struct dlend_books *x)
{
	*x = (struct dlend_books){ .most = U64_MAX };
	INIT_LIST_HEAD(&x->blocks);
}

void dlend_books_destroy(struct dlend_books *x)
{
	struct dlend_block *block, *tmp;

	x->cursor = NULL;
	list_for_each_entry_safe(block, tmp, &x->blocks, node) {
		list_del(&block->node);
		kfree(block);
	}
}

/* Add (@sign 1) or subtract (-1) a chunk in all sums; u64 wraps around, so both work. */
static void dlend_books_count(struct dlend_books *x, const struct dlend_chunk *chunk, int sign)
{
	u64 bytes = sign * dlend_chunk_bytes(chunk);

	x->chunks += sign;
	x->pinned_bytes += bytes;
	dlend_block_before(x, chunk->gpa)->pinned += bytes;
	if (chunk->pages)
		x->scattered_bytes += bytes;
	if (chunk->extent)
		chunk->extent->pinned += bytes;
}

/* The last chunk of @block that begins at or below @gpa, or NULL. */
static struct dlend_chunk *dlend_block_chunk_before(struct dlend_block *block, u64 gpa)
{
	struct dlend_chunk *chunk;

	list_for_each_entry_reverse(chunk, &block->chunks, node)
		if (chunk->gpa <= gpa)
			return chunk;
	return NULL;
}

int dlend_books_add(struct dlend_books *x, struct dlend_chunk *chunk)
{
	struct dlend_chunk *before;
	struct dlend_block *block;
	struct list_head *at;

	if (!chunk->npages || chunk->npages > DLEND_CHUNK_PAGES ||
	    dlend_chunk_bytes(chunk) > DLEND_CHUNK_BYTES - (chunk->gpa & (DLEND_CHUNK_BYTES - 1)))
		return -EINVAL;
	if (x->pinned_bytes + dlend_chunk_bytes(chunk) > x->most)
		return -EDQUOT;
	block = dlend_block_get(x, chunk->gpa);
	if (!block)
		return -ENOMEM;
	before = dlend_block_chunk_before(block, chunk->gpa);
	if (before && dlend_chunk_end(before) > chunk->gpa)
		return -EEXIST;
	at = before ? &before->node : &block->chunks;
	if (at->next != &block->chunks &&
	    dlend_chunk_end(chunk) > list_entry(at->next, struct dlend_chunk, node)->gpa)
		return -EEXIST;
	chunk->extent = NULL;
	chunk->mapped = false;
	block->came = true;
	block->leaves = false;
	list_add(&chunk->node, at);
	dlend_books_count(x, chunk, 1);
	return 0;
}

static struct dlend_chunk *dlend_block_first_chunk(struct dlend_books *x,
						   struct dlend_block *block)
{
	for (; block; block = dlend_block_next(x, block))
		if (!list_empty(&block->chunks))
			return list_first_entry(&block->chunks, struct dlend_chunk, node);
	return NULL;
}

struct dlend_chunk *dlend_books_find(struct dlend_books *x, u64 gpa)
{
	struct dlend_block *block = dlend_block_from(x, gpa);
	struct dlend_chunk *chunk;

	if (!block)
		return NULL;
	chunk = dlend_block_chunk_before(block, gpa);
	if (!chunk)
		return dlend_block_first_chunk(x, block);
	return dlend_chunk_end(chunk) > gpa ? chunk : dlend_books_next(x, chunk);
}

struct dlend_chunk *dlend_books_next(struct dlend_books *x, struct dlend_chunk *chunk)
{
	struct dlend_block *block = dlend_block_before(x, chunk->gpa);

	if (!list_is_last(&chunk->node, &block->chunks))
		return list_next_entry(chunk, node);
	return dlend_block_first_chunk(x, dlend_block_next(x, block));
}

struct dlend_chunk *dlend_books_find_owned(struct dlend_books *x, u64 gpa, const void *owner)
{
	struct dlend_chunk *chunk = dlend_books_find(x, gpa);

	while (chunk && chunk->owner != owner)
		chunk = dlend_books_next(x, chunk);
	return chunk;
}

u64 dlend_books_owned(struct dlend_books *x, const void *owner)
{
	struct dlend_chunk *chunk;
	u64 bytes = 0;

	for (chunk = dlend_books_find(x, 0); chunk; chunk = dlend_books_next(x, chunk))
		if (chunk->owner == owner)
			bytes += dlend_chunk_bytes(chunk);
	return bytes;
}

u64 dlend_books_bytes(const struct dlend_books *x)
{
	return x->chunks * sizeof(struct dlend_chunk) + x->extents * sizeof(struct dlend_extent) +
	       x->scattered_bytes / DLEND_GUEST_PAGE * sizeof(void *);
}

/*
 * The chunk that follows @chunk.  @end (out): where the memory without a gap ends that begins at
 * @chunk and is before the chunk returned.
 */
static struct dlend_chunk *dlend_books_known_next(struct dlend_books *x, struct dlend_chunk *chunk,
						  u64 *end)
{
	struct dlend_block *block = dlend_block_before(x, chunk->gpa);

	/* Looks for new memory ask this all the time: so pass over a full GiB in one step. */
	if (block->pinned == DLEND_EXTENT_MAX) {
		*end = block->base + DLEND_EXTENT_MAX;
		return dlend_block_first_chunk(x, dlend_block_next(x, block));
	}
	*end = dlend_chunk_end(chunk);
	return dlend_books_next(x, chunk);
}

u64 dlend_books_known(struct dlend_books *x, u64 gpa, u64 *next)
{
	struct dlend_chunk *chunk = dlend_books_find(x, gpa);
	u64 end = 0;

	if (chunk && chunk->gpa <= gpa) {
		end = gpa;
		while (chunk && chunk->gpa <= end)
			chunk = dlend_books_known_next(x, chunk, &end);
	}
	*next = chunk ? chunk->gpa : U64_MAX;
	return end;
}

struct dlend_extent *dlend_books_next_extent(struct dlend_books *x, u64 gpa)
{
	struct dlend_block *block = dlend_block_from(x, gpa);
	struct dlend_extent *extent;

	for (; block; block = dlend_block_next(x, block))
		list_for_each_entry(extent, &block->extents, node)
			if (extent->gpa >= gpa)
				return extent;
	return NULL;
}

void dlend_books_take(struct dlend_books *x, struct dlend_chunk *chunk, struct list_head *out)
{
	dlend_books_count(x, chunk, -1);
	list_move_tail(&chunk->node, out);
}

/* Take chunks that touch a range; if @build is not NULL, only those of that build. */
static u64 dlend_books_take_some(struct dlend_books *x, u64 gpa, u64 last, const u32 *build,
				 struct list_head *out)
{
	struct dlend_chunk *chunk = dlend_books_find(x, gpa), *next;
	u64 count = 0;

	for (; chunk && chunk->gpa <= last; chunk = next) {
		next = dlend_books_next(x, chunk);
		if (build && chunk->build != *build)
			continue;
		dlend_books_take(x, chunk, out);
		count++;
	}
	return count;
}

u64 dlend_books_take_range(struct dlend_books *x, u64 gpa, u64 last, struct list_head *out)
{
	return dlend_books_take_some(x, gpa, last, NULL, out);
}

u64 dlend_books_take_build(struct dlend_books *x, u32 build, struct list_head *out)
{
	return dlend_books_take_some(x, 0, U64_MAX, &build, out);
}

/* May lost memory of @block come back?  Not if the losses have shown that it only shrinks. */
static bool dlend_block_returns(const struct dlend_block *block)
{
	return block->base < DLEND_REMAP_END && !block->leaves;
}

/* The chunk that lies across @gpa, or NULL. */
static struct dlend_chunk *dlend_books_across(struct dlend_books *x, u64 gpa)
{
	struct dlend_chunk *chunk = dlend_books_find(x, gpa);

	return chunk && chunk->gpa < gpa ? chunk : NULL;
}

void dlend_books_split(struct dlend_books *x, u64 gpa)
{
	struct dlend_chunk *chunk = dlend_books_across(x, gpa), *rest;
	u32 npages;

	if (!chunk)
		return;
	npages = (gpa - chunk->gpa) / DLEND_GUEST_PAGE;
	rest = kmalloc_obj(*rest, DLEND_BOOKS_GFP);
	if (!rest)
		return;
	*rest = *chunk;
	rest->gpa = gpa;
	rest->npages -= npages;
	rest->pfn += npages;
	if (chunk->pages) {
		rest->pages = kmemdup((void **)chunk->pages + npages,
				      rest->npages * sizeof(void *), DLEND_BOOKS_GFP);
		if (!rest->pages) {
			kfree(rest);
			return;
		}
	}
	chunk->npages = npages;
	list_add(&rest->node, &chunk->node);
	x->chunks++;
}

bool dlend_books_returns(struct dlend_books *x, u64 gpa, u64 last)
{
	struct dlend_block *block;

	/* Such a chunk goes as a whole, and so its part outside of the range has to come back. */
	if (dlend_books_across(x, gpa) || (last != U64_MAX && dlend_books_across(x, last + 1)))
		return true;
	for (block = dlend_block_from(x, gpa); block && block->base <= last;
	     block = dlend_block_next(x, block))
		if (dlend_block_returns(block))
			return true;
	return false;
}

/* Has @block lost memory for too long, and got none back?  Then this is not firmware at work. */
static bool dlend_block_shrinks(const struct dlend_block *block, u64 now_ms)
{
	return !block->came && now_ms >= block->first_ms + DLEND_RETURN_LIMIT_MS;
}

static void dlend_block_lose(struct dlend_block *block, u64 had, u64 now_ms)
{
	if (!dlend_block_returns(block) || block->pinned == had)
		return;
	if (!block->expected || block->came)
		block->first_ms = now_ms;
	block->last_ms = now_ms;
	block->came = false;
	/* If not all came back that was missing before, the rest of it is still expected. */
	block->expected = max(block->expected, had);
	/*
	 * Decide it here and not at the end of a build: losses may disturb each build before it
	 * gets to an end.
	 */
	block->leaves = dlend_block_shrinks(block, now_ms);
}

u64 dlend_books_lose(struct dlend_books *x, u64 gpa, u64 last, u64 now_ms, struct list_head *out)
{
	struct dlend_block *block;
	u64 had, count = 0;

	for (block = dlend_block_from(x, gpa); block && block->base <= last;
	     block = dlend_block_next(x, block)) {
		had = block->pinned;
		count += dlend_books_take_range(x, max(gpa, block->base),
						min(last, block->base + (DLEND_EXTENT_MAX - 1)),
						out);
		dlend_block_lose(block, had, now_ms);
	}
	return count;
}

u64 dlend_books_missing(const struct dlend_books *x, u64 now_ms)
{
	const struct dlend_block *block;
	u64 bytes = 0;

	list_for_each_entry(block, &x->blocks, node)
		if (block->expected > block->pinned && !dlend_block_shrinks(block, now_ms) &&
		    now_ms < block->last_ms + DLEND_RETURN_MS)
			bytes += block->expected - block->pinned;
	return bytes;
}

void dlend_books_accept(struct dlend_books *x, u64 now_ms)
{
	struct dlend_block *block;

	list_for_each_entry(block, &x->blocks, node) {
		if (block->expected > block->pinned && dlend_block_shrinks(block, now_ms) &&
		    now_ms < block->last_ms + DLEND_RETURN_MS)
			block->leaves = true;
		block->expected = 0;
	}
}

/* @extent leaves the books, onto @dead; its chunks become loose. */
static void dlend_books_kill(struct dlend_books *x, struct dlend_extent *extent,
			     struct list_head *dead)
{
	struct dlend_chunk *chunk = dlend_books_find(x, extent->gpa);

	for (; chunk && chunk->gpa < dlend_extent_end(extent);
	     chunk = dlend_books_next(x, chunk)) {
		if (chunk->extent != extent)
			continue;
		chunk->extent = NULL;
		chunk->mapped = false;
	}
	extent->pinned = 0;
	list_move_tail(&extent->node, dead);
	x->extents--;
}

void dlend_books_prune(struct dlend_books *x, u64 gpa, u64 last, struct list_head *dead)
{
	struct dlend_block *block;
	struct dlend_extent *extent, *tmp;

	for (block = dlend_block_from(x, gpa); block && block->base <= last;
	     block = dlend_block_next(x, block))
		list_for_each_entry_safe(extent, tmp, &block->extents, node)
			if (!extent->pinned && extent->gpa <= last &&
			    extent->gpa + (extent->size - 1) >= gpa)
				dlend_books_kill(x, extent, dead);
}

void dlend_books_kill_all(struct dlend_books *x,
			  bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg,
			  struct list_head *dead)
{
	struct dlend_block *block;
	struct dlend_extent *extent, *tmp;

	list_for_each_entry(block, &x->blocks, node)
		list_for_each_entry_safe(extent, tmp, &block->extents, node)
			if (!match || match(extent, arg))
				dlend_books_kill(x, extent, dead);
}

static bool dlend_extent_overlaps(const struct dlend_extent *extent,
				  const struct dlend_chunk *chunk)
{
	return chunk->gpa < dlend_extent_end(extent) && extent->gpa < dlend_chunk_end(chunk);
}

/* May @chunk, which overlaps @extent, be mapped in its slot? */
static bool dlend_extent_fits(const struct dlend_extent *extent, const struct dlend_chunk *chunk)
{
	return chunk->gpa >= extent->gpa && dlend_chunk_end(chunk) <= dlend_extent_end(extent) &&
	       chunk->prot == extent->prot;
}

/* Is there a loose chunk in @extent's place that cannot join it? */
static bool dlend_extent_blocked(struct dlend_block *block, const struct dlend_extent *extent)
{
	struct dlend_chunk *chunk;

	list_for_each_entry(chunk, &block->chunks, node)
		if (!chunk->extent && dlend_extent_overlaps(extent, chunk) &&
		    !dlend_extent_fits(extent, chunk))
			return true;
	return false;
}

/* Loose chunks in @extent's place join it.  The caller has seen that all of them can. */
static void dlend_extent_join(struct dlend_block *block, struct dlend_extent *extent)
{
	struct dlend_chunk *chunk;

	list_for_each_entry(chunk, &block->chunks, node) {
		if (chunk->extent || !dlend_extent_overlaps(extent, chunk))
			continue;
		chunk->extent = extent;
		extent->pinned += dlend_chunk_bytes(chunk);
	}
}

u64 dlend_books_edge(struct dlend_books *x, u64 gpa, u64 end)
{
	struct dlend_block *block;
	struct dlend_extent *extent;

	for (block = dlend_block_from(x, gpa); block && block->base < end;
	     block = dlend_block_next(x, block)) {
		list_for_each_entry(extent, &block->extents, node) {
			if (extent->gpa > gpa)
				return min(extent->gpa, end);
			if (dlend_extent_end(extent) > gpa)
				return min(dlend_extent_end(extent), end);
		}
	}
	return end;
}

bool dlend_books_torn(struct dlend_books *x)
{
	struct dlend_block *block;
	struct dlend_extent *extent;

	list_for_each_entry(block, &x->blocks, node)
		list_for_each_entry(extent, &block->extents, node)
			if (extent->pinned && extent->pinned != extent->size &&
			    dlend_extent_blocked(block, extent))
				return true;
	return false;
}

void dlend_books_settle(struct dlend_books *x, struct list_head *dead)
{
	struct dlend_block *block;
	struct dlend_extent *extent, *tmp;

	list_for_each_entry(block, &x->blocks, node) {
		list_for_each_entry_safe(extent, tmp, &block->extents, node) {
			if (extent->pinned == extent->size)
				continue;	/* complete: nothing loose can be there */
			if (dlend_extent_blocked(block, extent)) {
				dlend_books_kill(x, extent, dead);
				continue;
			}
			dlend_extent_join(block, extent);
			if (!extent->pinned)
				dlend_books_kill(x, extent, dead);
		}
	}
}

/* Make an extent in @block that begins with @chunk. */
static struct dlend_extent *dlend_extent_create(struct dlend_books *x, struct dlend_block *block,
						const struct dlend_chunk *chunk, u32 build)
{
	struct dlend_extent *extent, *before;
	struct list_head *at = &block->extents;

	extent = kmalloc_obj(*extent, DLEND_BOOKS_GFP);
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

static int dlend_block_form(struct dlend_books *x, struct dlend_block *block, u32 build)
{
	struct dlend_extent *extent = NULL;
	struct dlend_chunk *chunk;

	list_for_each_entry(chunk, &block->chunks, node) {
		if (chunk->extent) {
			extent = NULL;
			continue;
		}
		if (!extent || dlend_extent_end(extent) != chunk->gpa ||
		    extent->prot != chunk->prot)
			extent = dlend_extent_create(x, block, chunk, build);
		if (!extent)
			return -ENOMEM;
		chunk->extent = extent;
		extent->size += dlend_chunk_bytes(chunk);
		extent->pinned = extent->size;
		x->window_bytes += dlend_chunk_bytes(chunk);
		if (x->window_bytes > x->most)
			return -EDQUOT;
	}
	return 0;
}

int dlend_books_form(struct dlend_books *x, u32 build)
{
	struct dlend_block *block;
	int err = 0;

	list_for_each_entry(block, &x->blocks, node) {
		err = dlend_block_form(x, block, build);
		if (err)
			break;
	}
	return err;
}

void dlend_books_bury(struct dlend_books *x, struct dlend_extent *extent)
{
	x->window_bytes -= extent->size;
	list_del(&extent->node);
	kfree(extent);
}

void dlend_books_leave(struct dlend_books *x, u32 id)
{
	struct dlend_extent *extent;
	u64 gpa = 0;

	while ((extent = dlend_books_walk(x, &gpa)))
		dlend_told_leave(&extent->told, id, true);
}

/* Who was told of an extent */

/* No lender that could still be asked may have it. */
static bool dlend_told_over(const struct dlend_told *told)
{
	return !(told->members & ~DLEND_TOLD_LOST);
}

bool dlend_told_due(const struct dlend_told *told, enum dlend_news news, u32 id)
{
	switch (news) {
	case DLEND_NEWS_GONE:
		return dlend_told_member(told, id);
	case DLEND_NEWS_UNSURE:
		return told->unsure & BIT(id);
	case DLEND_NEWS_NEW:
		return !dlend_told_member(told, id);
	}
	return false;
}

void dlend_told_ask(struct dlend_told *told, enum dlend_news news, u32 id)
{
	told->asked = true;
	if (news == DLEND_NEWS_NEW)
		told->members |= BIT(id);
}

bool dlend_told_answer(struct dlend_told *told, enum dlend_news news, u32 id, bool ok)
{
	if (!told->asked)
		return false;
	told->asked = false;
	if (news == DLEND_NEWS_NEW) {
		if (!ok)
			told->unsure |= BIT(id);
	} else if (ok) {
		told->members &= ~BIT(id);
		told->unsure &= ~BIT(id);
	}
	return dlend_told_over(told);
}

bool dlend_told_leave(struct dlend_told *told, u32 id, bool fenced)
{
	if (!fenced && dlend_told_member(told, id))
		told->members |= DLEND_TOLD_LOST;
	told->members &= ~BIT(id);
	told->unsure &= ~BIT(id);
	return dlend_told_over(told);
}

/* dma_unmap calls under way */

static bool dlend_unmap_call_over(const struct dlend_unmap_call *r, u64 now_ms)
{
	return !r->under_way && now_ms > r->ended_ms + DLEND_SETTLE_MS;
}

/* The shared entry, for calls for which there was no other. */
static struct dlend_unmap_call *dlend_unmap_calls_shared(struct dlend_unmap_calls *u)
{
	return &u->range[ARRAY_SIZE(u->range) - 1];
}

/* The entry of exactly this range, or NULL. */
static struct dlend_unmap_call *dlend_unmap_calls_find(struct dlend_unmap_calls *u, u64 gpa,
						       u64 last)
{
	struct dlend_unmap_call *r;

	for (r = u->range; r < dlend_unmap_calls_shared(u); r++)
		if (r->gpa == gpa && r->last == last)
			return r;
	return NULL;
}

/* An entry that is empty, or the shared one. */
static struct dlend_unmap_call *dlend_unmap_calls_take(struct dlend_unmap_calls *u, u64 now_ms)
{
	struct dlend_unmap_call *r = u->range;

	while (r < dlend_unmap_calls_shared(u) && !dlend_unmap_call_over(r, now_ms))
		r++;
	if (dlend_unmap_call_over(r, now_ms))
		*r = (struct dlend_unmap_call){ .gpa = U64_MAX };
	return r;
}

void dlend_unmap_calls_begin(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms)
{
	struct dlend_unmap_call *r = dlend_unmap_calls_find(u, gpa, last);

	if (!r) {
		r = dlend_unmap_calls_take(u, now_ms);
		r->gpa = min(r->gpa, gpa);
		r->last = max(r->last, last);
	}
	r->under_way++;
}

void dlend_unmap_calls_end(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms)
{
	struct dlend_unmap_call *r = dlend_unmap_calls_find(u, gpa, last);

	if (!r || !r->under_way)
		r = dlend_unmap_calls_shared(u);
	r->under_way--;
	r->ended_ms = now_ms;
}

bool dlend_unmap_calls_busy(const struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(u->range); i++)
		if (!dlend_unmap_call_over(&u->range[i], now_ms) && gpa <= u->range[i].last &&
		    u->range[i].gpa <= last)
			return true;
	return false;
}
