// SPDX-License-Identifier: GPL-2.0
/*
 * Guest RAM in this node's aperture: see ram_map.h, and ram.h for the locks.
 *
 * Must not know VFIO, messages, or members but for what extents say of them.
 */
#include <linux/mm.h>
#include <linux/pfn.h>
#include <linux/sizes.h>

#include "ram_map.h"

/*
 * A slot for @extent.  Where it can be, at an offset that lets both IOMMUs use large pages: a whole
 * GiB for pages of 1 GiB, or else the same offset in 2 MiB as the guest-physical address.
 */
static int dlend_ram_map_alloc(struct dlend_ram *ram, struct dlend_extent *extent)
{
	struct dlend_slot *slot = ERR_PTR(-ENOSPC);

	if (extent->size == SZ_1G)
		slot = dlend_slot_alloc(ram->ap, extent->size, SZ_1G, 0, DLEND_SLOT_RAM);
	if (IS_ERR(slot) && extent->size >= SZ_2M)
		slot = dlend_slot_alloc(ram->ap, extent->size, SZ_2M, extent->gpa & (SZ_2M - 1),
					DLEND_SLOT_RAM);
	if (IS_ERR(slot))
		slot = dlend_slot_alloc(ram->ap, extent->size, 0, 0, DLEND_SLOT_RAM);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	extent->slot = slot;
	extent->offset = slot->offset;
	return 0;
}

/* May @next be mapped by the same call as the run that ends with @chunk? */
static bool dlend_ram_map_continues(const struct dlend_chunk *chunk, const struct dlend_chunk *next)
{
	return next && !next->mapped && !next->pages && next->extent == chunk->extent &&
	       next->prot == chunk->prot && next->gpa == dlend_chunk_end(chunk) &&
	       next->pfn == chunk->pfn + chunk->npages;
}

/* Map @chunk, with those that follow it contiguously.  @gpa (out): where to go on. */
static int dlend_ram_map_run(struct dlend_ram *ram, struct dlend_chunk *chunk, u64 *gpa)
{
	struct dlend_extent *extent = chunk->extent;
	u64 at = chunk->gpa - extent->gpa, size = dlend_chunk_bytes(chunk);
	struct dlend_chunk *last = chunk, *next;
	int err;

	if (chunk->pages) {
		err = dlend_slot_map_pages(extent->slot, at, &(struct dlend_pages) {
			.pages = chunk->pages,
			.npages = chunk->npages,
			.prot = chunk->prot,
		});
	} else {
		for (next = dlend_books_next(&ram->books, last);
		     dlend_ram_map_continues(last, next);
		     next = dlend_books_next(&ram->books, last)) {
			size += dlend_chunk_bytes(next);
			last = next;
		}
		err = dlend_slot_map_phys(extent->slot, (struct dlend_piece) {
			.offset = at,
			.size = size,
			.phys = PFN_PHYS(chunk->pfn),
			.prot = chunk->prot,
		});
	}
	if (err)
		return err;
	*gpa = chunk->gpa + size;
	for (;; chunk = dlend_books_next(&ram->books, chunk)) {
		chunk->mapped = true;
		if (chunk == last)
			return 0;
	}
}

int dlend_ram_map_next(struct dlend_ram *ram, const struct dlend_vmm *vmm, u64 *gpa)
{
	struct mem_cgroup *before;
	struct dlend_chunk *chunk;
	int err = 0;

	lockdep_assert_held(&ram->lock);
	chunk = dlend_books_find(&ram->books, *gpa);
	while (chunk && chunk->mapped)
		chunk = dlend_books_next(&ram->books, chunk);
	if (!chunk)
		return 0;
	if (!chunk->extent->slot) {
		before = dlend_vmm_charge(vmm);
		err = dlend_ram_map_alloc(ram, chunk->extent);
		dlend_vmm_charged(before);
	}
	if (!err)
		err = dlend_ram_map_run(ram, chunk, gpa);
	return err ?: 1;
}

void dlend_ram_map_remove(struct dlend_ram *ram, struct list_head *out)
{
	struct dlend_chunk *chunk;
	struct dlend_extent *extent = NULL;
	u64 from = 0, to = 0;

	lockdep_assert_held(&ram->lock);
	list_for_each_entry(chunk, out, node) {
		if (!chunk->mapped)
			continue;
		chunk->mapped = false;
		if (chunk->extent == extent && chunk->gpa == to) {
			to += dlend_chunk_bytes(chunk);
			continue;
		}
		if (extent && extent->slot)
			dlend_slot_unmap(extent->slot, from - extent->gpa, to - from);
		extent = chunk->extent;
		from = chunk->gpa;
		to = dlend_chunk_end(chunk);
	}
	if (extent && extent->slot)
		dlend_slot_unmap(extent->slot, from - extent->gpa, to - from);
}

void dlend_ram_map_retire(struct dlend_ram *ram, struct list_head *gone)
{
	struct dlend_extent *extent, *tmp;

	lockdep_assert_held(&ram->lock);
	list_for_each_entry_safe(extent, tmp, gone, node) {
		if (extent->slot && !dlend_told_anybody(&extent->told))
			dlend_slot_free(extent->slot);
		else if (extent->slot)
			extent->cookie = dlend_slot_quarantine(extent->slot);
		extent->slot = NULL;
		extent->told.asked = false;
		if (dlend_told_anybody(&extent->told))
			list_move_tail(&extent->node, &ram->dead);
		else
			dlend_books_bury(&ram->books, extent);
	}
}

void dlend_ram_map_bury(struct dlend_ram *ram, struct dlend_extent *extent)
{
	lockdep_assert_held(&ram->lock);
	/*
	 * Only in this session: a new session releases all slots in quarantine by itself, and may
	 * have given the same numbers (cookies) to others.
	 */
	if (extent->cookie && !dlend_told_lost(&extent->told) && ram->ap &&
	    dlend_session_live(&ram->session))
		dlend_slot_release(ram->ap, extent->cookie);
	dlend_books_bury(&ram->books, extent);
}

void dlend_ram_map_kill_all(struct dlend_ram *ram)
{
	LIST_HEAD(gone);

	lockdep_assert_held(&ram->lock);
	dlend_ram_disturb(ram);
	dlend_books_kill_all(&ram->books, NULL, 0, &gone);
	dlend_ram_map_retire(ram, &gone);
}

/* Note in the books that no chunk is in the aperture. */
static void dlend_ram_map_forget(struct dlend_ram *ram)
{
	struct dlend_chunk *chunk;

	for (chunk = dlend_books_find(&ram->books, 0); chunk;
	     chunk = dlend_books_next(&ram->books, chunk))
		chunk->mapped = false;
}

void dlend_ram_map_fence(struct dlend_ram *ram)
{
	struct dlend_extent *extent;
	u64 gpa = 0;

	lockdep_assert_held(&ram->lock);
	while ((extent = dlend_books_next_extent(&ram->books, gpa))) {
		if (extent->slot)
			dlend_slot_unmap(extent->slot, 0, extent->size);
		gpa = dlend_extent_end(extent);
	}
	dlend_ram_map_forget(ram);
}

void dlend_ram_map_abandon(struct dlend_ram *ram)
{
	struct dlend_extent *extent;
	u64 gpa = 0;

	lockdep_assert_held(&ram->lock);
	while ((extent = dlend_books_next_extent(&ram->books, gpa))) {
		if (extent->slot)
			extent->cookie = dlend_slot_quarantine(extent->slot);
		extent->slot = NULL;
		gpa = dlend_extent_end(extent);
	}
	dlend_ram_map_forget(ram);
	WRITE_ONCE(ram->ap, NULL);
}
