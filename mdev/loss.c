// SPDX-License-Identifier: GPL-2.0
/*
 * What takes guest memory away: dma_unmap, the end of the link, a fence, a build that is undone.
 * See ram.h for the locks.
 *
 * Must not know how RAM is found, nor send messages.
 */
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/vfio.h>

#include "ram.h"
#include "trace.h"

/* A worker takes and unpins so much at once, as dma_unmap has to wait for all of it. */
#define DLEND_DROP_BYTES	SZ_32M

/* May some of @gpa..@last come back if it is taken away?  Chunks end at its edges then. */
static bool dlend_loss_returns(struct dlend_ram *ram, u64 gpa, u64 last)
{
	/* All there is: an address space goes, or a device with all that it has pinned. */
	if (!gpa && last == U64_MAX)
		return true;
	guard(mutex)(&ram->lock);
	/* VFIO's mappings end there, and the memory beside them stays. */
	dlend_books_split(&ram->books, gpa);
	if (last != U64_MAX)
		dlend_books_split(&ram->books, last + 1);
	return dlend_books_returns(&ram->books, gpa, last);
}

/* Take chunks out of books and aperture; they are being unpinned then.  Return: were there any? */
static bool dlend_loss_take_chunks(struct dlend_ram *ram, u64 gpa, u64 last, bool returns)
{
	struct dlend_chunk *chunk;
	LIST_HEAD(gone);
	LIST_HEAD(out);
	bool hit;

	guard(mutex)(&ram->lock);
	dlend_ram_add_due(ram, gpa, last);
	hit = dlend_books_lose(&ram->books, gpa, last, dlend_ram_now_ms(), &out);
	/* Pages that are being pinned are in the books in a moment, or given up. */
	hit |= dlend_pin_under_way(ram->vm, NULL, gpa, last);
	/* If there was no memory to split a chunk, it has gone whole; the guest has the rest. */
	list_for_each_entry(chunk, &out, node)
		dlend_ram_add_due(ram, chunk->gpa, dlend_chunk_end(chunk) - 1);
	if (hit && returns)
		dlend_ram_disturb(ram);
	dlend_ram_map_remove(ram, &out);
	dlend_unpin_add(ram->vm, &out);
	if (hit && !returns) {
		dlend_books_prune(&ram->books, gpa, last, &gone);
		dlend_ram_map_retire(ram, &gone);
	}
	if (!list_empty(&ram->dead))
		dlend_ram_queue(ram, &ram->tell_work);
	return hit;
}

bool dlend_loss_take(struct dlend_memory *mem, u64 gpa, u64 last)
{
	struct dlend_ram *ram = mem->ram;
	bool hit, returns;

	guard(mutex)(&ram->loss_lock);
	returns = dlend_loss_returns(ram, gpa, last);
	/* Before the loss: no guest may start a DMA into windows that are going. */
	if (returns)
		dlend_members_shut(ram);
	hit = dlend_loss_take_chunks(ram, gpa, last, returns);
	if (hit)
		trace_dlend_window(mem->vdev->dev, returns ? "lost" : "unplugged",
				   READ_ONCE(ram->books.pinned_bytes), 0);
	dlend_unpin_start(ram->vm);
	dlend_members_reopen(ram, hit);
	return hit;
}

/* VFIO's call */

static u64 dlend_loss_last(u64 gpa, u64 size)
{
	/* So iommufd says "all of it". */
	if (!gpa && size == U64_MAX)
		return U64_MAX;
	return size && size - 1 <= U64_MAX - gpa ? gpa + size - 1 : U64_MAX;
}

/* The VMM was kept so long. */
static void dlend_loss_count(struct dlend_memory *mem, u64 us)
{
	guard(mutex)(&mem->ram->lock);
	mem->stat.unmaps++;
	mem->stat.unmap_longest_us = max(mem->stat.unmap_longest_us, us);
}

void dlend_memory_unmap(struct dlend_memory *mem, u64 gpa, u64 size)
{
	u64 last = dlend_loss_last(gpa, size);
	struct dlend_vm *vm = mem->ram->vm;
	ktime_t since = ktime_get();
	bool hit = false;

	/* This member has no pins.  The calls for the other members' devices take their pins. */
	if (READ_ONCE(mem->emptied))
		return;
	dlend_pin_unmap_begins(vm, gpa, last);
	do {
		hit |= dlend_loss_take(mem, gpa, last);
	} while (!dlend_unpin_await(mem, gpa, last));
	dlend_pin_unmap_ends(vm, gpa, last);
	if (hit)
		dlend_loss_count(mem, ktime_us_delta(ktime_get(), since));
}

/* Builds */

static bool dlend_loss_of_build(const struct dlend_extent *extent, u32 build)
{
	return extent->build == build;
}

void dlend_loss_undo(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	LIST_HEAD(gone);
	LIST_HEAD(out);

	mutex_lock(&ram->loss_lock);
	mutex_lock(&ram->lock);
	dlend_books_kill_all(&ram->books, dlend_loss_of_build, mem->build, &gone);
	dlend_ram_map_retire(ram, &gone);
	dlend_books_take_build(&ram->books, mem->build, &out);
	dlend_ram_map_remove(ram, &out);
	dlend_unpin_add(ram->vm, &out);
	mutex_unlock(&ram->lock);
	mutex_unlock(&ram->loss_lock);
	dlend_unpin_all(ram->vm);
	if (!list_empty(&ram->dead))
		dlend_ram_queue(ram, &ram->tell_work);
}

/* Everything */

/* All of it leaves the aperture; it stays pinned, and extents keep their slots. */
static void dlend_loss_unmap_all(struct dlend_ram *ram)
{
	struct dlend_extent *extent;
	struct dlend_chunk *chunk;
	u64 gpa = 0;

	while ((extent = dlend_books_walk(&ram->books, &gpa)))
		if (extent->slot)
			dlend_slot_unmap(extent->slot, 0, extent->size);
	for (chunk = dlend_books_find(&ram->books, 0); chunk;
	     chunk = dlend_books_next(&ram->books, chunk))
		chunk->mapped = false;
}

bool dlend_memory_fence(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;

	guard(mutex)(&ram->lock);
	if (ram->users != mem->user)
		return false;
	if (ram->ap) {
		mem->fenced = true;
		dlend_ram_disturb(ram);
		dlend_loss_unmap_all(ram);
		trace_dlend_window(dlend_link_dev(ram->session.link), "fenced",
				   ram->books.pinned_bytes, 0);
	}
	return true;
}

void dlend_memory_link_down(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;

	guard(mutex)(&ram->lock);
	if (!ram->ap)
		return;
	/* What lenders were told of is in quarantine; a new session releases that by itself. */
	dlend_ram_map_kill_all(ram);
	WRITE_ONCE(ram->ap, NULL);
	trace_dlend_window(dlend_link_dev(ram->session.link), "link-down", ram->books.pinned_bytes,
			   0);
	dlend_ram_queue(ram, &ram->down_work);
}

/* Take and unpin some of the chunks, none of which is in an extent.  Return: were there any? */
static bool dlend_loss_drop_some(struct dlend_ram *ram)
{
	struct dlend_chunk *chunk;
	LIST_HEAD(out);

	mutex_lock(&ram->lock);
	chunk = dlend_books_find(&ram->books, 0);
	if (chunk)
		dlend_books_take_range(&ram->books, chunk->gpa, chunk->gpa + DLEND_DROP_BYTES - 1,
				       &out);
	dlend_unpin_add(ram->vm, &out);
	mutex_unlock(&ram->lock);
	dlend_unpin_all(ram->vm);
	return chunk;
}

static void dlend_loss_down_work(struct work_struct *work)
{
	struct dlend_ram *ram = container_of(work, struct dlend_ram, down_work);

	mutex_lock(&ram->build_lock);
	while (dlend_loss_drop_some(ram))
		cond_resched();
	mutex_unlock(&ram->build_lock);
	dlend_ram_put(ram);
}

void dlend_loss_init(struct dlend_ram *ram)
{
	INIT_WORK(&ram->down_work, dlend_loss_down_work);
}
