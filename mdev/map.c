// SPDX-License-Identifier: GPL-2.0
/*
 * Guest RAM in both IOMMUs: pinned chunks form extents, extents get slots in this node's aperture
 * and are mapped there, and the lenders map them for their devices.
 *
 * A slot must not be used for other memory while a lender may still have its offsets mapped: the
 * device would write into that memory.  So the slot of an extent that leaves the pin table goes
 * into quarantine.  The slot is free when each lender that may have the extent mapped has
 * acknowledged DMA_UNMAP, or has its device back.  If a lender never does, the slot stays in
 * quarantine until the session ends, because the lender's device may still use the slot; other
 * members that need that memory get new slots.  If a VM gives back one device and keeps another
 * one, the first device can still reach the same VM's memory until its lender has answered.
 *
 * All this is the same on the link of a node to itself, where notifiers of the aperture take the
 * place of the NTB's IOMMU.
 *
 * The messages to lenders are DMA_MAP and DMA_UNMAP, with a few extents in each.  As soon as an
 * extent is in a DMA_MAP, the lender may have it mapped, even if the message fails (struct
 * dlend_acks).
 *
 * Losses of RAM are here, too: dma_unmap, the end of a link, a fence, a build that is undone.  None
 * of these waits for a peer.
 *
 * Must not know how RAM is found.
 */
#include <linux/device.h>
#include <linux/mm.h>
#include <linux/pfn.h>
#include <linux/sizes.h>
#include <linux/vfio.h>

#include "ram.h"
#include "trace.h"

/*
 * Get a slot for @extent; if possible, at an offset that lets both IOMMUs use large pages: a
 * multiple of 1 GiB for an extent of 1 GiB, or else the same offset in 2 MiB as the guest-physical
 * address.
 */
static int dlend_ram_map_alloc(struct dlend_ram *ram, const struct dlend_vmm *vmm,
			       struct dlend_extent *extent)
{
	static const u32 align[] = { SZ_1G, SZ_2M, SZ_4K };
	struct dlend_slot *slot = ERR_PTR(-ENOSPC);
	u32 i;

	CLASS(dlend_charge, charge)(vmm);
	for (i = 0; i < ARRAY_SIZE(align) && IS_ERR(slot); i++)
		if (extent->size >= align[i])
			slot = dlend_slot_alloc(ram->ap, extent->size, align[i],
						extent->gpa & (align[i] - 1), DLEND_SLOT_RAM);
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

/*
 * Map @chunk, together with those that follow it contiguously.  @gpa (out): end of what was mapped.
 * Return: 0 or an error of the aperture.
 */
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
		for (next = dlend_pinned_next(&ram->pinned, last);
		     dlend_ram_map_continues(last, next);
		     next = dlend_pinned_next(&ram->pinned, last)) {
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
	for (;; chunk = dlend_pinned_next(&ram->pinned, chunk)) {
		chunk->mapped = true;
		if (chunk == last)
			return 0;
	}
}

/*
 * Map the first chunk from *@gpa on that is not mapped, together with those that follow it
 * contiguously in both address spaces.  Return: 1: call again; 0: all is mapped; -ENOSPC the
 * aperture is full; or another error.
 */
static int dlend_ram_map_next(struct dlend_ram *ram, const struct dlend_vmm *vmm, u64 *gpa)
{
	struct dlend_chunk *chunk;
	int err = 0;

	lockdep_assert_held(&ram->lock);
	chunk = dlend_pinned_find(&ram->pinned, *gpa);
	while (chunk && chunk->mapped)
		chunk = dlend_pinned_next(&ram->pinned, chunk);
	if (!chunk)
		return 0;
	if (!chunk->extent->slot)
		err = dlend_ram_map_alloc(ram, vmm, chunk->extent);
	if (!err)
		err = dlend_ram_map_run(ram, chunk, gpa);
	return err ?: 1;
}

/*
 * Unmap chunks that have left the pin table, in the aperture.  @out has them by address; each
 * contiguous run is unmapped and flushed by one call.
 */
static void dlend_ram_map_remove(struct dlend_ram *ram, struct list_head *out)
{
	struct dlend_chunk *chunk, *next;
	u64 size = 0;

	lockdep_assert_held(&ram->lock);
	list_for_each_entry(chunk, out, node) {
		if (!chunk->mapped)
			continue;
		chunk->mapped = false;
		size += dlend_chunk_bytes(chunk);
		next = list_next_entry(chunk, node);
		if (!list_is_last(&chunk->node, out) && next->mapped &&
		    next->extent == chunk->extent && next->gpa == dlend_chunk_end(chunk))
			continue;
		dlend_slot_unmap(chunk->extent->slot,
				 dlend_chunk_end(chunk) - size - chunk->extent->gpa, size);
		size = 0;
	}
}

/*
 * Unmap and flush dead extents in the aperture.  Slots of extents that no lender can have mapped
 * are freed, and the extents with them.  The other slots go into quarantine, and their extents to
 * ram->dead.
 */
static void dlend_ram_map_retire(struct dlend_ram *ram, struct list_head *gone)
{
	struct dlend_extent *extent, *tmp;

	lockdep_assert_held(&ram->lock);
	list_for_each_entry_safe(extent, tmp, gone, node) {
		if (extent->slot)
			extent->cookie = dlend_slot_free(extent->slot,
							 !dlend_acks_any(&extent->acks));
		extent->slot = NULL;
		extent->acks.asked = false;
		if (dlend_acks_any(&extent->acks))
			list_move_tail(&extent->node, &ram->dead);
		else
			dlend_pinned_bury(&ram->pinned, extent);
	}
}

void dlend_ram_map_bury(struct dlend_ram *ram, struct dlend_extent *extent)
{
	lockdep_assert_held(&ram->lock);
	/*
	 * Only in this session: a new session releases all slots in quarantine by itself, and may
	 * have given the same numbers (cookies) to others.
	 */
	if (extent->cookie && !dlend_acks_lost(&extent->acks) && ram->ap &&
	    dlend_session_live(&ram->session))
		dlend_slot_release(ram->ap, extent->cookie);
	dlend_pinned_bury(&ram->pinned, extent);
}

bool dlend_ram_map_kill(struct dlend_ram *ram,
			bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg)
{
	LIST_HEAD(gone);
	bool hit;

	lockdep_assert_held(&ram->lock);
	dlend_pinned_kill_all(&ram->pinned, match, arg, &gone);
	hit = !list_empty(&gone);
	dlend_ram_map_retire(ram, &gone);
	return hit;
}

void dlend_ram_map_kill_all(struct dlend_ram *ram)
{
	dlend_ram_disturb(ram);
	dlend_ram_map_kill(ram, NULL, 0);
}

int dlend_map_new(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	ktime_t start = ktime_get();
	u64 gpa = 0;
	int ret;

	scoped_guard(mutex, &ram->lock) {
		CLASS(dlend_charge, charge)(&mem->vmm);
		ret = dlend_memory_disturbed(mem) ? -EAGAIN :
						    dlend_pinned_form(&ram->pinned, mem->build);
	}
	if (ret)
		return ret;
	/* A run at a time, so that a dma_unmap never waits long for ram->lock. */
	do {
		mutex_lock(&ram->lock);
		ret = dlend_memory_disturbed(mem) || dlend_members_fenced(ram) ?
		      -EAGAIN : dlend_ram_map_next(ram, &mem->vmm, &gpa);
		if (ret > 0)
			dlend_members_progress(ram);
		mutex_unlock(&ram->lock);
		cond_resched();
	} while (ret > 0);
	mem->stat.map_us += ktime_us_delta(ktime_get(), start);
	return ret;
}

/* Messages to lenders */

/*
 * Go through the extents that a kind of message may be about: dead ones, or those of the pin table.
 * @extent: the last one; NULL: begin.  Return: the next one, or NULL.
 */
static struct dlend_extent *dlend_tell_next(struct dlend_ram *ram, enum dlend_change change,
					    struct dlend_extent *extent)
{
	lockdep_assert_held(&ram->lock);
	if (change != DLEND_CHANGE_GONE)
		return dlend_pinned_next_extent(&ram->pinned,
						extent ? dlend_extent_end(extent) : 0);
	extent = list_prepare_entry(extent, &ram->dead, node);
	return list_is_last(&extent->node, &ram->dead) ? NULL : list_next_entry(extent, node);
}

/* Enter at most @max extents for which such a message is due in @dma.  Return: how many. */
static u32 dlend_tell_ask(struct dlend_memory *mem, enum dlend_change change,
			  struct dlend_p_dma *dma,
			  u32 max)
{
	struct dlend_extent *extent = NULL;
	u32 count = 0;

	while (count < max && (extent = dlend_tell_next(mem->ram, change, extent))) {
		if (!dlend_acks_due(&extent->acks, change, mem->id))
			continue;
		dlend_acks_ask(&extent->acks, change, mem->id);
		dma->entry[count].gpa = cpu_to_le64(extent->gpa);
		dma->entry[count].size = cpu_to_le64(extent->size);
		dma->entry[count].offset = cpu_to_le64(extent->offset);
		dma->entry[count].prot = cpu_to_le32(extent->prot);
		count++;
	}
	dma->count = cpu_to_le32(count);
	return count;
}

/*
 * Note in the extents of a message whether it was done (@ok).  They are those with acks.asked, and
 * still where they were, as build_lock is held since dlend_tell_ask().  Free dead extents that no
 * lender can have mapped now.
 */
static void dlend_tell_answer(struct dlend_ram *ram, u32 id, enum dlend_change change, bool ok)
{
	struct dlend_extent *extent = dlend_tell_next(ram, change, NULL), *next;

	for (; extent; extent = next) {
		next = dlend_tell_next(ram, change, extent);
		if (dlend_acks_answer(&extent->acks, change, id, ok) && change == DLEND_CHANGE_GONE)
			dlend_ram_map_bury(ram, extent);
	}
}

/*
 * Send one message with at most @max extents to the lender of member @id, if one is due.
 * Return: how many extents it had; 0: no message was due; or an error.
 */
static int dlend_tell_some(struct dlend_ram *ram, u32 id, enum dlend_change change, u32 max)
{
	struct dlend_memory *mem;
	struct dlend_p_dma *dma;
	struct dlend_msg req;
	int err = 0, count = 0;

	lockdep_assert_held(&ram->build_lock);
	mutex_lock(&ram->lock);
	mem = ram->member[id];
	/* The lease of a closed member is being returned: the lender needs no message. */
	if (mem && mem->closed)
		mem = NULL;
	if (mem && !ram->ap) {
		err = -ENOTCONN;
	} else if (mem && change == DLEND_CHANGE_NEW && dlend_memory_disturbed(mem)) {
		err = -EAGAIN;
	} else if (mem) {
		dma = dlend_msg_init(&req, change == DLEND_CHANGE_NEW ? DLEND_MSG_DMA_MAP :
				     DLEND_MSG_DMA_UNMAP, &mem->lease->addr, mem->lease->epoch,
				     sizeof(*dma));
		count = dlend_tell_ask(mem, change, dma, max);
		mem->stat.messages += !!count;
	}
	mutex_unlock(&ram->lock);
	if (err || !count)
		return err;

	err = dlend_link_call_in(&ram->session, &req, NULL, 0);
	mutex_lock(&ram->lock);
	if (!err)
		dlend_members_progress(ram);
	/*
	 * -ENOENT of DMA_UNMAP: the lender has not mapped an extent; perhaps it never got the
	 * DMA_MAP.  If the message had one extent only, the lender has it unmapped, as wanted.
	 */
	if (err == -ENOENT && count == 1 && change != DLEND_CHANGE_NEW)
		err = 0;
	dlend_tell_answer(ram, id, change, !err);
	mutex_unlock(&ram->lock);
	return err ?: count;
}

/* Send messages of a kind to the lender of member @id until none is due.  Return: 0 or an error. */
static int dlend_tell_all(struct dlend_ram *ram, u32 id, enum dlend_change change)
{
	int ret;

	do {
		ret = dlend_tell_some(ram, id, change, DLEND_DMA_PER_MSG);
		/* The lender has not mapped one of the extents: send one by itself, then go on. */
		if (ret == -ENOENT && change != DLEND_CHANGE_NEW)
			ret = dlend_tell_some(ram, id, change, 1);
	} while (ret > 0);
	return ret;
}

/*
 * Have every member's lender unmap all dead extents.  Return: 0, or an error of the messages for
 * @mem (NULL: for any member): a build fails only if the messages to its own lender fail.
 */
static int dlend_tell_gone(struct dlend_ram *ram, const struct dlend_memory *mem)
{
	int err = 0, ret;
	u32 id;

	for (id = 0; id < DLEND_ACKS_MAX; id++) {
		ret = dlend_tell_all(ram, id, DLEND_CHANGE_GONE);
		if (ret && (!mem || mem->id == id))
			err = ret;
	}
	return err;
}

int dlend_map_part(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	LIST_HEAD(gone);
	bool torn;

	mutex_lock(&ram->loss_lock);
	mutex_lock(&ram->lock);
	torn = dlend_pinned_torn(&ram->pinned);
	mutex_unlock(&ram->lock);
	/* Only builds add chunks, and no other build runs (build_lock): so @torn stays right. */
	if (torn)
		dlend_members_shut(ram);
	mutex_lock(&ram->lock);
	dlend_pinned_settle(&ram->pinned, &gone);
	dlend_ram_map_retire(ram, &gone);
	mutex_unlock(&ram->lock);
	dlend_members_reopen(ram, true);
	mutex_unlock(&ram->loss_lock);
	return dlend_tell_gone(ram, mem);
}

int dlend_map_tell(struct dlend_memory *mem)
{
	return dlend_tell_all(mem->ram, mem->id, DLEND_CHANGE_UNSURE) ?:
	       dlend_tell_all(mem->ram, mem->id, DLEND_CHANGE_NEW);
}

static void dlend_tell_work(struct work_struct *work)
{
	struct dlend_ram *ram = container_of(work, struct dlend_ram, tell_work);
	int err;

	mutex_lock(&ram->build_lock);
	err = dlend_tell_gone(ram, NULL);
	mutex_unlock(&ram->build_lock);
	/* This is harmless: the slots stay in quarantine, and the next build tries again. */
	if (err && err != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(ram->session.link),
				     "lender did not unmap guest memory (%d): window space stays reserved until it does\n",
				     err);
	dlend_ram_put(ram);
}

/* Losses of RAM: dma_unmap, the end of the link, a fence, a build that is undone */

/* down_work takes and unpins at most this much at once, because dma_unmap waits for all of it. */
#define DLEND_DROP_BYTES	SZ_32M

/* Split chunks at the edges of @gpa..@last.  Return: may some of the range come back? */
static bool dlend_loss_returns(struct dlend_ram *ram, u64 gpa, u64 last)
{
	/* An address space goes, or a device that is closed with all that it has pinned. */
	if (!gpa && last == U64_MAX)
		return true;
	guard(mutex)(&ram->lock);
	/* VFIO's mappings end at these edges, and the memory beyond them stays. */
	dlend_pinned_split(&ram->pinned, gpa);
	if (last != U64_MAX)
		dlend_pinned_split(&ram->pinned, last + 1);
	return dlend_pinned_returns(&ram->pinned, gpa, last);
}

/*
 * Take the chunks of a range out of the pin table and the aperture, and queue them to be unpinned.
 * @returns: the memory may come back: running builds give way, and empty extents stay.
 * Return: true if there was a chunk, or a pin under way.
 */
static bool dlend_loss_take_chunks(struct dlend_ram *ram, u64 gpa, u64 last, bool returns)
{
	struct dlend_chunk *chunk;
	LIST_HEAD(gone);
	LIST_HEAD(out);
	bool hit;

	guard(mutex)(&ram->lock);
	dlend_ram_add_due(ram, gpa, last);
	hit = dlend_pinned_lose(&ram->pinned, gpa, last, dlend_ram_now_ms(), &out);
	/* Pages that are being pinned may be in the pin table soon: the caller comes back then. */
	hit |= dlend_pin_in_flight(ram->vm, NULL, gpa, last);
	/* A chunk that could not be split has gone as a whole: its other part is pinned anew. */
	list_for_each_entry(chunk, &out, node)
		dlend_ram_add_due(ram, chunk->gpa, dlend_chunk_end(chunk) - 1);
	if (hit && returns)
		dlend_ram_disturb(ram);
	dlend_ram_map_remove(ram, &out);
	dlend_unpin_add(ram->vm, &out);
	if (hit && !returns) {
		dlend_pinned_prune(&ram->pinned, gpa, last, &gone);
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
	/* Before the loss: no guest may start DMA to memory whose mappings are going. */
	if (returns)
		dlend_members_shut(ram);
	hit = dlend_loss_take_chunks(ram, gpa, last, returns);
	if (hit)
		trace_dlend_window(mem->vdev->dev, returns ? "lost" : "unplugged",
				   READ_ONCE(ram->pinned.pinned_bytes), 0);
	dlend_unpin_start(ram->vm, 1);
	dlend_members_reopen(ram, hit);
	return hit;
}

/* VFIO's call */

void dlend_memory_unmap(struct dlend_memory *mem, u64 gpa, u64 size)
{
	u64 last = size && size - 1 <= U64_MAX - gpa ? gpa + size - 1 : U64_MAX;
	struct dlend_vm *vm = mem->ram->vm;
	ktime_t since = ktime_get();
	bool hit = false;
	u64 us;

	/* This member has no pins.  The calls for the other members' devices take their pins. */
	if (READ_ONCE(mem->emptied))
		return;
	/* iommufd means everything by that. */
	if (!gpa && size == U64_MAX)
		last = U64_MAX;
	dlend_pin_unmap_note(vm, gpa, last, true);
	do {
		hit |= dlend_loss_take(mem, gpa, last);
	} while (!dlend_unpin_await(mem, gpa, last));
	dlend_pin_unmap_note(vm, gpa, last, false);
	if (!hit)
		return;
	/* The VMM has waited for so long, with its big lock held. */
	us = ktime_us_delta(ktime_get(), since);
	guard(mutex)(&mem->ram->lock);
	mem->stat.unmaps++;
	mem->stat.unmap_longest_us = max(mem->stat.unmap_longest_us, us);
}

/* A build that is undone */

static bool dlend_loss_of_build(const struct dlend_extent *extent, u32 build)
{
	return extent->build == build;
}

void dlend_loss_undo(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	LIST_HEAD(out);

	mutex_lock(&ram->loss_lock);
	mutex_lock(&ram->lock);
	dlend_ram_map_kill(ram, dlend_loss_of_build, mem->build);
	dlend_pinned_take_build(&ram->pinned, mem->build, &out);
	dlend_ram_map_remove(ram, &out);
	dlend_unpin_add(ram->vm, &out);
	mutex_unlock(&ram->lock);
	mutex_unlock(&ram->loss_lock);
	dlend_unpin_all(ram->vm);
	if (!list_empty(&ram->dead))
		dlend_ram_queue(ram, &ram->tell_work);
}

/* A fence, and the end of the link */

bool dlend_memory_fence(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent;
	struct dlend_chunk *chunk;
	u64 gpa = 0;

	guard(mutex)(&ram->lock);
	/* Does another member use the RAM? */
	if (ram->users != mem->user)
		return false;
	if (!ram->ap)
		return true;
	mem->fenced = true;
	dlend_ram_disturb(ram);
	while ((extent = dlend_pinned_walk(&ram->pinned, &gpa)))
		if (extent->slot)
			dlend_slot_unmap(extent->slot, 0, extent->size);
	for (chunk = dlend_pinned_find(&ram->pinned, 0); chunk;
	     chunk = dlend_pinned_next(&ram->pinned, chunk))
		chunk->mapped = false;
	trace_dlend_window(dlend_link_dev(ram->session.link), "fenced", ram->pinned.pinned_bytes,
			   0);
	return true;
}

void dlend_memory_link_down(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;

	guard(mutex)(&ram->lock);
	if (!ram->ap)
		return;
	/* Slots that lenders may have mapped are in quarantine now, which the next session ends. */
	dlend_ram_map_kill_all(ram);
	WRITE_ONCE(ram->ap, NULL);
	trace_dlend_window(dlend_link_dev(ram->session.link), "link-down", ram->pinned.pinned_bytes,
			   0);
	dlend_ram_queue(ram, &ram->down_work);
}

static void dlend_loss_down_work(struct work_struct *work)
{
	struct dlend_ram *ram = container_of(work, struct dlend_ram, down_work);
	struct dlend_chunk *chunk;
	LIST_HEAD(out);

	mutex_lock(&ram->build_lock);
	/* Take and unpin some of the chunks, which all are loose, until there is none. */
	do {
		mutex_lock(&ram->lock);
		chunk = dlend_pinned_find(&ram->pinned, 0);
		if (chunk)
			dlend_pinned_take_range(&ram->pinned, chunk->gpa,
						chunk->gpa + DLEND_DROP_BYTES - 1, &out);
		dlend_unpin_add(ram->vm, &out);
		mutex_unlock(&ram->lock);
		dlend_unpin_all(ram->vm);
		cond_resched();
	} while (chunk);
	mutex_unlock(&ram->build_lock);
	dlend_ram_put(ram);
}

void dlend_map_init(struct dlend_ram *ram)
{
	INIT_WORK(&ram->tell_work, dlend_tell_work);
	INIT_WORK(&ram->down_work, dlend_loss_down_work);
}
