// SPDX-License-Identifier: GPL-2.0
/*
 * The pin table of a VM's memory: see pinned.h.
 *
 * Chunks do not overlap, nor do extents: each kind is in an interval tree.
 *
 * Pure logic: must not know VFIO, IOMMUs, locks or clocks.
 */
#include <linux/align.h>
#include <linux/errno.h>
#include <linux/interval_tree_generic.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <dlend/alloc.h>

#include "pinned.h"

static u64 dlend_chunk_last(const struct dlend_chunk *chunk)
{
	return dlend_chunk_end(chunk) - 1;
}

static u64 dlend_extent_last(const struct dlend_extent *extent)
{
	return dlend_extent_end(extent) - 1;
}

#define DLEND_PINNED_FIRST(x)	((x)->gpa)

INTERVAL_TREE_DEFINE(struct dlend_chunk, rb, u64, subtree_last, DLEND_PINNED_FIRST,
		     dlend_chunk_last, static, dlend_chunks);
INTERVAL_TREE_DEFINE(struct dlend_extent, rb, u64, subtree_last, DLEND_PINNED_FIRST,
		     dlend_extent_last, static, dlend_extents);

void dlend_pinned_init(struct dlend_pinned *x)
{
	*x = (struct dlend_pinned){ .most = U64_MAX };
}

/* Add (@sign 1) or subtract (@sign -1) a chunk in all sums: u64 wraps around as needed. */
static void dlend_pinned_count(struct dlend_pinned *x, const struct dlend_chunk *chunk, int sign)
{
	u64 bytes = sign * dlend_chunk_bytes(chunk);

	x->chunks += sign;
	x->pinned_bytes += bytes;
	if (chunk->gpa < DLEND_REMAP_END)
		x->low[chunk->gpa / DLEND_EXTENT_MAX].pinned += bytes;
	if (chunk->pages)
		x->scattered_bytes += bytes;
	if (chunk->extent)
		chunk->extent->pinned += bytes;
}

int dlend_pinned_add(struct dlend_pinned *x, struct dlend_chunk *chunk)
{
	struct dlend_block *block;

	if (!chunk->npages || chunk->npages > DLEND_CHUNK_PAGES ||
	    dlend_chunk_bytes(chunk) > DLEND_CHUNK_BYTES - (chunk->gpa & (DLEND_CHUNK_BYTES - 1)))
		return -EINVAL;
	if (x->pinned_bytes + dlend_chunk_bytes(chunk) > x->most)
		return -EDQUOT;
	if (dlend_chunks_iter_first(&x->by_gpa, chunk->gpa, dlend_chunk_last(chunk)))
		return -EEXIST;
	chunk->extent = NULL;
	chunk->mapped = false;
	if (chunk->gpa < DLEND_REMAP_END) {
		block = &x->low[chunk->gpa / DLEND_EXTENT_MAX];
		block->used = true;
		block->came = true;
		block->leaves = false;
	}
	dlend_chunks_insert(chunk, &x->by_gpa);
	dlend_pinned_count(x, chunk, 1);
	return 0;
}

struct dlend_chunk *dlend_pinned_find(struct dlend_pinned *x, u64 gpa)
{
	return dlend_chunks_iter_first(&x->by_gpa, gpa, U64_MAX);
}

struct dlend_chunk *dlend_pinned_next(struct dlend_pinned *x, struct dlend_chunk *chunk)
{
	return dlend_chunks_iter_next(chunk, 0, U64_MAX);
}

struct dlend_chunk *dlend_pinned_find_owned(struct dlend_pinned *x, u64 gpa, const void *owner)
{
	struct dlend_chunk *chunk = dlend_pinned_find(x, gpa);

	while (chunk && chunk->owner != owner)
		chunk = dlend_pinned_next(x, chunk);
	return chunk;
}

u64 dlend_pinned_owned(struct dlend_pinned *x, const void *owner)
{
	struct dlend_chunk *chunk;
	u64 bytes = 0;

	for (chunk = dlend_pinned_find(x, 0); chunk; chunk = dlend_pinned_next(x, chunk))
		if (chunk->owner == owner)
			bytes += dlend_chunk_bytes(chunk);
	return bytes;
}

u64 dlend_pinned_table_bytes(const struct dlend_pinned *x)
{
	return x->chunks * sizeof(struct dlend_chunk) + x->extents * sizeof(struct dlend_extent) +
	       x->scattered_bytes / DLEND_GUEST_PAGE * sizeof(void *);
}

u64 dlend_pinned_known(struct dlend_pinned *x, u64 gpa, u64 *next)
{
	struct dlend_chunk *chunk = dlend_pinned_find(x, gpa);
	u64 end = 0;

	if (chunk && chunk->gpa <= gpa)
		end = gpa;
	for (; chunk && chunk->gpa <= end; chunk = dlend_pinned_find(x, end)) {
		/* Looks (scan.h) call this all the time: so skip a complete extent at once. */
		if (chunk->extent && chunk->extent->pinned == chunk->extent->size)
			end = dlend_extent_end(chunk->extent);
		else
			end = dlend_chunk_end(chunk);
	}
	*next = chunk ? chunk->gpa : U64_MAX;
	return end;
}

/* The first extent that ends above @gpa, or NULL. */
static struct dlend_extent *dlend_pinned_extent(struct dlend_pinned *x, u64 gpa)
{
	return dlend_extents_iter_first(&x->extent_by_gpa, gpa, U64_MAX);
}

static struct dlend_extent *dlend_extent_next(struct dlend_extent *extent)
{
	return dlend_extents_iter_next(extent, 0, U64_MAX);
}

struct dlend_extent *dlend_pinned_next_extent(struct dlend_pinned *x, u64 gpa)
{
	struct dlend_extent *extent = dlend_pinned_extent(x, gpa);

	return extent && extent->gpa < gpa ? dlend_extent_next(extent) : extent;
}

void dlend_pinned_take(struct dlend_pinned *x, struct dlend_chunk *chunk, struct list_head *out)
{
	dlend_pinned_count(x, chunk, -1);
	dlend_chunks_remove(chunk, &x->by_gpa);
	list_add_tail(&chunk->node, out);
}

/* Take chunks that touch a range; if @build is not NULL, only those of that build. */
static u64 dlend_pinned_take_some(struct dlend_pinned *x, u64 gpa, u64 last, const u32 *build,
				  struct list_head *out)
{
	struct dlend_chunk *chunk = dlend_pinned_find(x, gpa), *next;
	u64 count = 0;

	for (; chunk && chunk->gpa <= last; chunk = next) {
		next = dlend_pinned_next(x, chunk);
		if (build && chunk->build != *build)
			continue;
		dlend_pinned_take(x, chunk, out);
		count++;
	}
	return count;
}

u64 dlend_pinned_take_range(struct dlend_pinned *x, u64 gpa, u64 last, struct list_head *out)
{
	return dlend_pinned_take_some(x, gpa, last, NULL, out);
}

u64 dlend_pinned_take_build(struct dlend_pinned *x, u32 build, struct list_head *out)
{
	return dlend_pinned_take_some(x, 0, U64_MAX, &build, out);
}

/* The chunk that lies across @gpa, or NULL. */
static struct dlend_chunk *dlend_pinned_across(struct dlend_pinned *x, u64 gpa)
{
	struct dlend_chunk *chunk = dlend_pinned_find(x, gpa);

	return chunk && chunk->gpa < gpa ? chunk : NULL;
}

void dlend_pinned_split(struct dlend_pinned *x, u64 gpa)
{
	struct dlend_chunk *chunk = dlend_pinned_across(x, gpa), *rest;
	u32 npages;

	if (!chunk)
		return;
	npages = (gpa - chunk->gpa) / DLEND_GUEST_PAGE;
	rest = kmemdup(chunk, sizeof(*chunk), DLEND_PINNED_GFP);
	if (!rest)
		return;
	rest->gpa = gpa;
	rest->npages -= npages;
	rest->pfn += npages;
	if (chunk->pages) {
		rest->pages = kmemdup((void **)chunk->pages + npages,
				      rest->npages * sizeof(void *), DLEND_PINNED_GFP);
		if (!rest->pages) {
			kfree(rest);
			return;
		}
	}
	dlend_chunks_remove(chunk, &x->by_gpa);
	chunk->npages = npages;
	dlend_chunks_insert(chunk, &x->by_gpa);
	dlend_chunks_insert(rest, &x->by_gpa);
	x->chunks++;
}

bool dlend_pinned_returns(struct dlend_pinned *x, u64 gpa, u64 last)
{
	u64 i = gpa / DLEND_EXTENT_MAX;

	/* A chunk across an edge goes as a whole, and its part outside has to come back. */
	if (dlend_pinned_across(x, gpa) || (last != U64_MAX && dlend_pinned_across(x, last + 1)))
		return true;
	for (; i < DLEND_REMAP_BLOCKS && i <= last / DLEND_EXTENT_MAX; i++)
		if (x->low[i].used && !x->low[i].leaves)
			return true;
	return false;
}

/* Has @block lost memory for too long, and got none back?  Firmware does not do that. */
static bool dlend_block_shrinks(const struct dlend_block *block, u64 now_ms)
{
	return !block->came && now_ms >= block->first_ms + DLEND_RETURN_LIMIT_MS;
}

u64 dlend_pinned_lose(struct dlend_pinned *x, u64 gpa, u64 last, u64 now_ms, struct list_head *out)
{
	u64 had[DLEND_REMAP_BLOCKS], count;
	struct dlend_block *block;
	u32 i;

	for (i = 0; i < DLEND_REMAP_BLOCKS; i++)
		had[i] = x->low[i].pinned;
	count = dlend_pinned_take_range(x, gpa, last, out);
	for (i = 0; i < DLEND_REMAP_BLOCKS; i++) {
		block = &x->low[i];
		if (block->leaves || block->pinned == had[i])
			continue;
		if (!block->expected || block->came)
			block->first_ms = now_ms;
		block->last_ms = now_ms;
		block->came = false;
		/* If not all came back that was missing before, the rest is still expected. */
		block->expected = max(block->expected, had[i]);
		/*
		 * Decide that here and not at the end of a build: if losses disturb each build, no
		 * build gets to its end.
		 */
		block->leaves = dlend_block_shrinks(block, now_ms);
	}
	return count;
}

/* Return: bytes that @block has lost and that may still come back. */
static u64 dlend_block_missing(const struct dlend_block *block, u64 now_ms)
{
	return block->expected > block->pinned && now_ms < block->last_ms + DLEND_RETURN_MS ?
	       block->expected - block->pinned : 0;
}

u64 dlend_pinned_missing(const struct dlend_pinned *x, u64 now_ms)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < DLEND_REMAP_BLOCKS; i++)
		if (!dlend_block_shrinks(&x->low[i], now_ms))
			bytes += dlend_block_missing(&x->low[i], now_ms);
	return bytes;
}

void dlend_pinned_accept(struct dlend_pinned *x, u64 now_ms)
{
	struct dlend_block *block;

	for (block = x->low; block < x->low + DLEND_REMAP_BLOCKS; block++) {
		if (dlend_block_missing(block, now_ms) && dlend_block_shrinks(block, now_ms))
			block->leaves = true;
		block->expected = 0;
	}
}

/* @extent leaves the pin table, onto @dead; its chunks become loose. */
static void dlend_pinned_kill(struct dlend_pinned *x, struct dlend_extent *extent,
			      struct list_head *dead)
{
	struct dlend_chunk *chunk = dlend_pinned_find(x, extent->gpa);

	for (; chunk && chunk->gpa < dlend_extent_end(extent);
	     chunk = dlend_pinned_next(x, chunk)) {
		if (chunk->extent != extent)
			continue;
		chunk->extent = NULL;
		chunk->mapped = false;
	}
	extent->pinned = 0;
	dlend_extents_remove(extent, &x->extent_by_gpa);
	list_add_tail(&extent->node, dead);
	x->extents--;
}

void dlend_pinned_prune(struct dlend_pinned *x, u64 gpa, u64 last, struct list_head *dead)
{
	struct dlend_extent *extent, *next;

	for (extent = dlend_pinned_extent(x, gpa); extent && extent->gpa <= last; extent = next) {
		next = dlend_extent_next(extent);
		if (!extent->pinned)
			dlend_pinned_kill(x, extent, dead);
	}
}

void dlend_pinned_kill_all(struct dlend_pinned *x,
			   bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg,
			   struct list_head *dead)
{
	struct dlend_extent *extent, *next;

	for (extent = dlend_pinned_extent(x, 0); extent; extent = next) {
		next = dlend_extent_next(extent);
		if (!match || match(extent, arg))
			dlend_pinned_kill(x, extent, dead);
	}
}

/* Does a loose chunk overlap @extent that cannot join it? */
static bool dlend_extent_blocked(struct dlend_pinned *x, const struct dlend_extent *extent)
{
	struct dlend_chunk *chunk = dlend_pinned_find(x, extent->gpa);
	u64 end = dlend_extent_end(extent);

	for (; chunk && chunk->gpa < end; chunk = dlend_pinned_next(x, chunk))
		if (!chunk->extent && (chunk->gpa < extent->gpa || dlend_chunk_end(chunk) > end ||
				       chunk->prot != extent->prot))
			return true;
	return false;
}

/* Loose chunks in @extent's range join it.  The caller guarantees that all of them can. */
static void dlend_extent_join(struct dlend_pinned *x, struct dlend_extent *extent)
{
	struct dlend_chunk *chunk = dlend_pinned_find(x, extent->gpa);

	for (; chunk && chunk->gpa < dlend_extent_end(extent);
	     chunk = dlend_pinned_next(x, chunk)) {
		if (chunk->extent)
			continue;
		chunk->extent = extent;
		extent->pinned += dlend_chunk_bytes(chunk);
	}
}

u64 dlend_pinned_edge(struct dlend_pinned *x, u64 gpa, u64 end)
{
	struct dlend_extent *extent = dlend_pinned_extent(x, gpa);

	if (!extent)
		return end;
	return min(end, extent->gpa > gpa ? extent->gpa : dlend_extent_end(extent));
}

bool dlend_pinned_torn(struct dlend_pinned *x)
{
	struct dlend_extent *extent;

	for (extent = dlend_pinned_extent(x, 0); extent; extent = dlend_extent_next(extent))
		if (extent->pinned && extent->pinned != extent->size &&
		    dlend_extent_blocked(x, extent))
			return true;
	return false;
}

void dlend_pinned_settle(struct dlend_pinned *x, struct list_head *dead)
{
	struct dlend_extent *extent, *next;
	bool blocked;

	for (extent = dlend_pinned_extent(x, 0); extent; extent = next) {
		next = dlend_extent_next(extent);
		if (extent->pinned == extent->size)
			continue;	/* complete: nothing loose can be there */
		blocked = dlend_extent_blocked(x, extent);
		if (!blocked)
			dlend_extent_join(x, extent);
		if (blocked || !extent->pinned)
			dlend_pinned_kill(x, extent, dead);
	}
}

/* Return: bytes of the loose chunks from @chunk on that can form one extent. */
static u64 dlend_pinned_run(struct dlend_pinned *x, struct dlend_chunk *chunk)
{
	u64 end = chunk->gpa, limit = ALIGN(chunk->gpa + 1, DLEND_EXTENT_MAX);
	struct dlend_chunk *next = chunk;

	for (; next && next->gpa == end && end < limit; next = dlend_pinned_next(x, next)) {
		if (next->extent || next->prot != chunk->prot)
			break;
		end = dlend_chunk_end(next);
	}
	return end - chunk->gpa;
}

int dlend_pinned_form(struct dlend_pinned *x, u32 build)
{
	struct dlend_chunk *chunk = dlend_pinned_find(x, 0);
	struct dlend_extent *extent;

	for (; chunk; chunk = dlend_pinned_find(x, dlend_extent_end(extent))) {
		extent = chunk->extent;
		if (extent)
			continue;
		extent = kmalloc_obj(*extent, DLEND_PINNED_GFP);
		if (!extent)
			return -ENOMEM;
		*extent = (struct dlend_extent){
			.gpa = chunk->gpa,
			.size = dlend_pinned_run(x, chunk),
			.prot = chunk->prot,
			.build = build,
		};
		dlend_extents_insert(extent, &x->extent_by_gpa);
		dlend_extent_join(x, extent);
		x->extents++;
		x->window_bytes += extent->size;
		if (x->window_bytes > x->most)
			return -EDQUOT;
	}
	return 0;
}

void dlend_pinned_bury(struct dlend_pinned *x, struct dlend_extent *extent)
{
	x->window_bytes -= extent->size;
	list_del(&extent->node);
	kfree(extent);
}

void dlend_pinned_leave(struct dlend_pinned *x, u32 id)
{
	struct dlend_extent *extent;
	u64 gpa = 0;

	while ((extent = dlend_pinned_walk(x, &gpa)))
		dlend_acks_leave(&extent->acks, id, true /* fenced */);
}

/* Acknowledgments of an extent */

/* Can no member's lender have the extent mapped?  DLEND_ACKS_LOST does not count. */
static bool dlend_acks_over(const struct dlend_acks *acks)
{
	return !(acks->members & ~DLEND_ACKS_LOST);
}

bool dlend_acks_due(const struct dlend_acks *acks, enum dlend_change change, u32 id)
{
	u32 set = change == DLEND_CHANGE_UNSURE ? acks->unsure : acks->members;

	return !(set & BIT(id)) == (change == DLEND_CHANGE_NEW);
}

void dlend_acks_ask(struct dlend_acks *acks, enum dlend_change change, u32 id)
{
	acks->asked = true;
	if (change == DLEND_CHANGE_NEW)
		acks->members |= BIT(id);
}

bool dlend_acks_answer(struct dlend_acks *acks, enum dlend_change change, u32 id, bool ok)
{
	if (!acks->asked)
		return false;
	acks->asked = false;
	if (change == DLEND_CHANGE_NEW && !ok)
		acks->unsure |= BIT(id);
	if (change != DLEND_CHANGE_NEW && ok) {
		acks->members &= ~BIT(id);
		acks->unsure &= ~BIT(id);
	}
	return dlend_acks_over(acks);
}

bool dlend_acks_leave(struct dlend_acks *acks, u32 id, bool fenced)
{
	if (!fenced && dlend_acks_member(acks, id))
		acks->members |= DLEND_ACKS_LOST;
	acks->members &= ~BIT(id);
	acks->unsure &= ~BIT(id);
	return dlend_acks_over(acks);
}

/* dma_unmap calls under way */

static bool dlend_unmap_call_over(const struct dlend_unmap_call *r, u64 now_ms)
{
	return !r->in_flight && now_ms > r->ended_ms + DLEND_SETTLE_MS;
}

/* The shared entry, for calls for which no other entry was left. */
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

void dlend_unmap_calls_begin(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms)
{
	struct dlend_unmap_call *r = dlend_unmap_calls_find(u, gpa, last);

	if (!r) {
		/* Take an entry that is not in use, or else the shared one. */
		for (r = u->range; r < dlend_unmap_calls_shared(u); r++)
			if (dlend_unmap_call_over(r, now_ms))
				break;
		if (dlend_unmap_call_over(r, now_ms))
			*r = (struct dlend_unmap_call){ .gpa = U64_MAX };
		r->gpa = min(r->gpa, gpa);
		r->last = max(r->last, last);
	}
	r->in_flight++;
}

void dlend_unmap_calls_end(struct dlend_unmap_calls *u, u64 gpa, u64 last, u64 now_ms)
{
	struct dlend_unmap_call *r = dlend_unmap_calls_find(u, gpa, last);

	if (!r || !r->in_flight)
		r = dlend_unmap_calls_shared(u);
	r->in_flight--;
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
