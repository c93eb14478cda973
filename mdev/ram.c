// SPDX-License-Identifier: GPL-2.0
/*
 * Guest RAM in this node's aperture: one for each VM, link and session, however many devices the VM
 * borrows over that link.  It is pinned and mapped once; the devices' leases are its members
 * (memory.c), and the lender maps the same offsets in the domain of each.
 *
 * Who shares: leases whose VFIO devices belong to the same KVM VM and map its memory by the same
 * means (/dev/iommu, or the legacy container), with the same setting of lowmem.  A VMM could still
 * have two containers with different memory in them; both are its own then, whoever's dma_unmap
 * comes takes the chunk, and nobody but itself reads what it has mixed up.
 *
 * A chunk is pinned through one member, its owner, and must be unpinned through it, while its VFIO
 * device is open.  So a member that is closed hands its chunks over: they are pinned through
 * another (type1 and iommufd only count one more user of the page) and then unpinned through the
 * old owner, which nobody's DMA notices.  If anything of that fails, all of it goes, and the others
 * build anew.  Anybody's dma_unmap takes chunks whoever owns them, because VFIO tells all devices
 * one after the other and wants each to find nothing left; the others' gates are shut meanwhile, if
 * it may come back at once.  Nobody of that VM pins there before all have been told (unmaps.h).
 *
 * A slot is free when every member that was told of it has acknowledged that it is gone, or its
 * lender has the device back.  A lender that does not say so keeps that slot until the link goes,
 * and the others get new ones: nobody knows what its device still does.  As long as the lender is
 * asked, a device that was given back by a VM that keeps another can reach what it could before,
 * which is that same VM's memory; the last user's end takes away the aperture at once.
 *
 * All this is the same on the link of a node to itself, where views of the aperture stand for the
 * NTB's IOMMU.
 *
 * Locks, outer first:
 *   close_lock	of a member: it is closed once.  Held across pins, not across a peer call.
 *   build_lock	one build, drop or tale to the lender at a time.  Held across pins and peer calls:
 *		seconds.
 *   unpin_lock	one unpinner at a time.  Held across vfio_unpin_pages() and members' ops, never
 *		across a pin or a peer call.  Who gets it knows that whatever was taken out of the
 *		books before is unpinned by now, which is what dma_unmap must be sure of.  Whoever
 *		is in no hurry takes and unpins DROP_BYTES at a time, because dma_unmap waits under
 *		the VMM's big lock.  A member does not leave while it is held.
 *   lock	books, aperture, state.  Held for one aperture operation of one chunk or run (or of
 *		the slots of some extents), never across VFIO or a peer.
 *   vm->lock	what is being unmapped just now.  Held for a moment.
 * A member's ops take vdev->lock, under which none of these may be taken.
 *
 * VFIO calls dma_unmap with locks of its own that vfio_pin_pages() and vfio_unpin_pages() take as
 * well; hence none of ours that dma_unmap takes is held while pinning.
 *
 * type1 holds its own lock for a whole call of vfio_pin_pages(), page faults included, and VFIO's
 * map and unmap ioctls wait for it with the VMM's big lock held: a mutex that its owner takes
 * again at once goes to a waiter at the second turn only.  So a call pins or unpins DLEND_PIN_BATCH
 * pages at most.  A worker with a low priority would make it worse: it would be put aside with that
 * lock.
 *
 * The link may go down while user space holds up a pin (its memory may be anything): link_down
 * takes @lock only.
 */
#include <linux/iommu.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vfio.h>
#include <dlend/compat.h>

#include "ram.h"
#include "trace.h"

/* Guest memory that is taken and unpinned in one go where nobody waits for it. */
#define DROP_BYTES	SZ_32M

static_assert(DLEND_CHUNK_PAGES <= VFIO_PIN_PAGES_MAX_ENTRIES);

static DEFINE_MUTEX(rams_lock);		/* @rams; outside of a ram's own */
static LIST_HEAD(rams);
static LIST_HEAD(vms);			/* under rams_lock */

void dlend_ram_note_loss(struct dlend_ram *ram)
{
	lockdep_assert_held(&ram->lock);
	WRITE_ONCE(ram->lost, ram->lost + 1);
	WRITE_ONCE(ram->last_loss, jiffies);
}

void dlend_ram_due(struct dlend_ram *ram, u64 gpa, u64 last)
{
	lockdep_assert_held(&ram->lock);
	if (last == U64_MAX || dlend_ranges_add(&ram->due, gpa, last + 1))
		ram->due_all = true;
}

/* Pins */

int dlend_ram_pin_batch(struct dlend_memory *via, u64 gpa, u32 npages, u32 prot,
			struct page **pages)
{
	int flags = (prot & DLEND_PROT_READ ? IOMMU_READ : 0) |
		    (prot & DLEND_PROT_WRITE ? IOMMU_WRITE : 0);
	int ret = vfio_pin_pages(via->vdev, gpa, npages, flags, pages);

	if (ret == -ENODEV)
		return -EINTR;	/* type1: the VMM is going, and its memory is gone */
	if (ret >= 0)
		ret = ret == npages ? 0 : -EIO;
	return ret;
}

void dlend_ram_unpin_pages(const struct dlend_memory *via, u64 gpa, u32 npages)
{
	u32 count;

	/* As it was pinned: iommufd unpins exactly what one call pinned. */
	for (; npages; npages -= count) {
		count = min(npages, DLEND_PIN_BATCH);
		vfio_unpin_pages(via->vdev, gpa, count);
		gpa += (u64)count << PAGE_SHIFT;
		cond_resched();
	}
}

void dlend_ram_unpin_chunks(struct list_head *out)
{
	struct dlend_chunk *chunk, *tmp;
	const struct dlend_memory *via;

	list_for_each_entry_safe(chunk, tmp, out, node) {
		via = chunk->owner;
		lockdep_assert_held(&via->ram->unpin_lock);
		dlend_ram_unpin_pages(via, chunk->gpa, chunk->npages);
		trace_dlend_unpin(via->vdev->dev, chunk->gpa, chunk->npages);
		list_del(&chunk->node);
		kfree(chunk->pages);
		kfree(chunk);
	}
}

static void pin_enter(struct dlend_memory *mem, struct dlend_memory *via, u64 gpa, u32 npages)
{
	lockdep_assert_held(&mem->ram->lock);
	mem->via = via;
	mem->pin_gpa = gpa;
	mem->pin_last = gpa + ((u64)npages << PAGE_SHIFT) - 1;
}

static u64 now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

void dlend_vm_unmaps(struct dlend_vm *vm, u64 gpa, u64 last, bool ends)
{
	guard(mutex)(&vm->lock);
	if (ends)
		dlend_unmap_calls_end(&vm->unmaps, gpa, last, now_ms());
	else
		dlend_unmap_calls_begin(&vm->unmaps, gpa, last, now_ms());
}

static bool vm_unmaps(struct dlend_vm *vm, u64 gpa, u64 last)
{
	guard(mutex)(&vm->lock);
	return dlend_unmap_calls_busy(&vm->unmaps, gpa, last, now_ms());
}

int dlend_ram_pin_begin(struct dlend_memory *mem, u64 gpa, u32 npages)
{
	struct dlend_ram *ram = mem->ram;
	int err = 0;

	mutex_lock(&ram->lock);
	if (dlend_ram_disturbed(mem))
		err = -EINTR;
	else if (vm_unmaps(ram->vm, gpa, gpa + ((u64)npages << PAGE_SHIFT) - 1))
		err = -EBUSY;
	else
		pin_enter(mem, mem, gpa, npages);
	mutex_unlock(&ram->lock);
	return err;
}

static void progress(struct dlend_ram *ram)
{
	unsigned int i;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (ram->member[i])
			ram->member[i]->ops->progress(ram->member[i]->ctx);
}

void dlend_ram_progress(struct dlend_ram *ram)
{
	mutex_lock(&ram->lock);
	progress(ram);
	mutex_unlock(&ram->lock);
}

void dlend_ram_pin_end(struct dlend_memory *mem, bool grown)
{
	struct dlend_ram *ram = mem->ram;

	mutex_lock(&ram->lock);
	/* What a probe pins to see whether it can, and unpins, leads nowhere. */
	if (grown && ram->books.pinned_bytes > mem->pinned_most) {
		mem->pinned_most = ram->books.pinned_bytes;
		progress(ram);
	}
	mem->via = NULL;
	mem->pin_gpa = U64_MAX;
	mem->pin_last = 0;
	WRITE_ONCE(ram->pins, ram->pins + 1);
	mutex_unlock(&ram->lock);
	wake_up_all(&ram->pin_done);
}

/* Is a pin under way in @gpa..@last; through @via, if that is not NULL? */
static bool pin_under_way(const struct dlend_ram *ram, const struct dlend_memory *via, u64 gpa,
			  u64 last)
{
	const struct dlend_memory *mem;
	unsigned int i;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++) {
		mem = ram->member[i];
		if (mem && mem->via && (!via || mem->via == via) && mem->pin_gpa <= last &&
		    mem->pin_last >= gpa)
			return true;
	}
	return false;
}

/*
 * Wait until no such pin is under way: it, and those that would follow, are told to give way if
 * they are not of a certain member's.  Return: was there one?
 */
static bool pin_stop(struct dlend_ram *ram, const struct dlend_memory *via, u64 gpa, u64 last)
{
	bool busy, any = false;
	u32 pins;

	for (;;) {
		mutex_lock(&ram->lock);
		pins = ram->pins;
		busy = pin_under_way(ram, via, gpa, last);
		if (busy && !via)
			dlend_ram_note_loss(ram);
		mutex_unlock(&ram->lock);
		if (!busy)
			return any;
		any = true;
		wait_event(ram->pin_done, READ_ONCE(ram->pins) != pins);
	}
}

/* Aperture */

void dlend_ram_unmap_chunks(struct dlend_ram *ram, struct list_head *out)
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
			dlend_slot_unmap(ram->ap, extent->slot, from - extent->gpa, to - from);
		extent = chunk->extent;
		from = chunk->gpa;
		to = from + dlend_chunk_bytes(chunk);
	}
	if (extent && extent->slot)
		dlend_slot_unmap(ram->ap, extent->slot, from - extent->gpa, to - from);
}

/* Unmapped now, and free when everybody who was told knows. */
void dlend_ram_retire(struct dlend_ram *ram, struct list_head *gone)
{
	struct dlend_extent *extent, *tmp;

	lockdep_assert_held(&ram->lock);
	list_for_each_entry_safe(extent, tmp, gone, node) {
		if (extent->slot && !dlend_told_anybody(&extent->told))
			dlend_slot_free(ram->ap, extent->slot);
		else if (extent->slot)
			extent->cookie = dlend_slot_quarantine(ram->ap, extent->slot);
		extent->slot = NULL;
		extent->told.asked = false;
		list_del(&extent->node);
		if (dlend_told_anybody(&extent->told))
			list_add_tail(&extent->node, &ram->dead);
		else
			kfree(extent);
	}
}

void dlend_ram_forget_dead(struct dlend_ram *ram, struct dlend_extent *extent)
{
	lockdep_assert_held(&ram->lock);
	/* A new session has released all by itself, and given the numbers to others. */
	if (extent->cookie && !dlend_told_lost(&extent->told) && ram->ap &&
	    dlend_link_session(ram->link) == ram->session)
		dlend_slot_release(ram->ap, extent->cookie);
	list_del(&extent->node);
	kfree(extent);
}

/* Every extent leaves the books. */
static void ram_kill_all(struct dlend_ram *ram)
{
	LIST_HEAD(gone);

	lockdep_assert_held(&ram->lock);
	dlend_ram_note_loss(ram);
	dlend_books_kill_all(&ram->books, NULL, 0, &gone);
	dlend_ram_retire(ram, &gone);
}

/* What others must know */

/* A user of the windows, and not @except, or NULL. Stays a member as long as unpin_lock is held. */
static struct dlend_memory *other_user(struct dlend_ram *ram, u32 id,
				       const struct dlend_memory *except)
{
	struct dlend_memory *mem;

	lockdep_assert_held(&ram->unpin_lock);
	mutex_lock(&ram->lock);
	mem = ram->member[id];
	if (mem && (mem == except || !mem->user))
		mem = NULL;
	mutex_unlock(&ram->lock);
	return mem;
}

/* Windows are going. Return: who was told, a bit for each. */
static u32 shut_others(struct dlend_ram *ram, const struct dlend_memory *except)
{
	struct dlend_memory *mem;
	u32 mask = 0, i;

	for (i = 0; i < DLEND_TOLD_MAX; i++) {
		mem = other_user(ram, i, except);
		if (!mem)
			continue;
		mem->ops->unmapping(mem->ctx);
		mask |= BIT(i);
	}
	return mask;
}

static void free_others(struct dlend_ram *ram, u32 mask, bool lost)
{
	u32 i;

	lockdep_assert_held(&ram->unpin_lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (mask & BIT(i))
			ram->member[i]->ops->unmapped(ram->member[i]->ctx, lost);
}

void dlend_ram_settle(struct dlend_ram *ram)
{
	LIST_HEAD(gone);
	bool torn;
	u32 shut;

	lockdep_assert_held(&ram->build_lock);
	mutex_lock(&ram->unpin_lock);
	mutex_lock(&ram->lock);
	torn = dlend_books_torn(&ram->books);
	mutex_unlock(&ram->lock);
	/* Builds alone add chunks, and this is one: it tears no more than it did a moment ago. */
	shut = torn ? shut_others(ram, NULL) : 0;
	mutex_lock(&ram->lock);
	dlend_books_settle(&ram->books, &gone);
	dlend_ram_retire(ram, &gone);
	mutex_unlock(&ram->lock);
	free_others(ram, shut, true);
	mutex_unlock(&ram->unpin_lock);
}

void dlend_ram_grown(struct dlend_ram *ram, const struct dlend_memory *by)
{
	struct dlend_memory *mem;
	u32 i;

	mutex_lock(&ram->unpin_lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++) {
		mem = other_user(ram, i, by);
		if (mem)
			mem->ops->grown(mem->ctx);
	}
	mutex_unlock(&ram->unpin_lock);
}

/* What takes windows away */

bool dlend_ram_returns(struct dlend_ram *ram, u64 gpa, u64 last)
{
	/* All there is: an address space goes, or a device with all that it has pinned. */
	if (!gpa && last == U64_MAX)
		return true;
	guard(mutex)(&ram->lock);
	return dlend_books_returns(&ram->books, gpa, last);
}

/* Out of the books and the aperture, onto @out. Return: was there anything? */
static bool lose_chunks(struct dlend_ram *ram, u64 gpa, u64 last, bool returns,
			struct list_head *out)
{
	struct dlend_chunk *chunk;
	LIST_HEAD(gone);
	bool hit;

	mutex_lock(&ram->lock);
	dlend_ram_due(ram, gpa, last);
	hit = dlend_books_lose(&ram->books, gpa, last, now_ms(), out);
	/* Of one that reaches beyond, the rest is there still. */
	list_for_each_entry(chunk, out, node)
		dlend_ram_due(ram, chunk->gpa, chunk->gpa + dlend_chunk_bytes(chunk) - 1);
	if (hit && returns)
		dlend_ram_note_loss(ram);
	dlend_ram_unmap_chunks(ram, out);
	if (hit && !returns) {
		dlend_books_prune(&ram->books, gpa, last, &gone);
		dlend_ram_retire(ram, &gone);
	}
	if (!list_empty(&ram->dead))
		schedule_work(&ram->tell_work);
	mutex_unlock(&ram->lock);
	return hit;
}

enum dlend_loss dlend_ram_lose(struct dlend_ram *ram, struct dlend_memory *by, u64 gpa, u64 last)
{
	LIST_HEAD(out);
	bool hit, returns;
	u32 shut;

	mutex_lock(&ram->unpin_lock);
	returns = dlend_ram_returns(ram, gpa, last);
	/* Before, not after: no access of the guest starts a DMA into windows that are going. */
	shut = returns ? shut_others(ram, by) : 0;
	/* What is being pinned will be in the books in a moment, or given up. */
	hit = pin_stop(ram, NULL, gpa, last);
	hit |= lose_chunks(ram, gpa, last, returns, &out);
	if (hit)
		trace_dlend_window(by->vdev->dev, returns ? "lost" : "unplugged",
				   READ_ONCE(ram->books.pinned_bytes), 0);
	dlend_ram_unpin_chunks(&out);
	free_others(ram, shut, hit);
	mutex_unlock(&ram->unpin_lock);
	if (!hit)
		return DLEND_LOSS_NONE;
	return returns ? DLEND_LOSS_RETURNS : DLEND_LOSS_GONE;
}

/* A part of what is pinned, and in no extent any more. Return: false if there is nothing. */
static bool drop_some(struct dlend_ram *ram)
{
	struct dlend_chunk *chunk;
	LIST_HEAD(out);

	mutex_lock(&ram->unpin_lock);
	mutex_lock(&ram->lock);
	chunk = dlend_books_find(&ram->books, 0);
	if (chunk)
		dlend_books_take_range(&ram->books, chunk->gpa, chunk->gpa + DROP_BYTES - 1,
				       &out);
	mutex_unlock(&ram->lock);
	dlend_ram_unpin_chunks(&out);
	mutex_unlock(&ram->unpin_lock);
	return chunk;
}

void dlend_ram_drop_all(struct dlend_ram *ram)
{
	lockdep_assert_held(&ram->build_lock);
	mutex_lock(&ram->lock);
	ram_kill_all(ram);
	ram->due_all = true;
	mutex_unlock(&ram->lock);
	while (drop_some(ram))
		cond_resched();
	mutex_lock(&ram->lock);
	dlend_books_accept(&ram->books, now_ms());
	mutex_unlock(&ram->lock);
}

void dlend_ram_use(struct dlend_memory *mem, bool user)
{
	struct dlend_ram *ram = mem->ram;

	lockdep_assert_held(&ram->lock);
	if (mem->user == user)
		return;
	mem->user = user;
	if (user)
		ram->users++;
	else
		ram->users--;
}

/* Handing over */

static struct dlend_memory *some_user(struct dlend_ram *ram)
{
	unsigned int i;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (ram->member[i] && ram->member[i]->user)
			return ram->member[i];
	return NULL;
}

/*
 * The next chunk of @mem's, from @gpa on, copied to @copy: dma_unmap of it waits from now on.
 * Return: to whom it goes; NULL if there is none left, ERR_PTR if there is nobody.
 */
static struct dlend_memory *hand_over_begin(struct dlend_memory *mem, u64 gpa,
					    struct dlend_chunk *copy)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_memory *to = NULL;
	struct dlend_chunk *chunk;

	mutex_lock(&ram->lock);
	chunk = dlend_books_find_owned(&ram->books, gpa, mem);
	if (chunk) {
		*copy = *chunk;
		to = some_user(ram) ?: ERR_PTR(-ENODEV);
	}
	if (chunk && !IS_ERR(to))
		pin_enter(mem, to, chunk->gpa, chunk->npages);
	mutex_unlock(&ram->lock);
	return to;
}

static int hand_over_pin(struct dlend_memory *mem, struct dlend_memory *to,
			 const struct dlend_chunk *copy)
{
	u32 done = 0, count;
	int err = 0;

	while (!err && done < copy->npages) {
		count = min(copy->npages - done, DLEND_PIN_BATCH);
		err = dlend_ram_pin_batch(to, copy->gpa + ((u64)done << PAGE_SHIFT), count,
					  copy->prot, mem->pages + done);
		if (!err)
			done += count;
		cond_resched();
	}
	if (err)
		dlend_ram_unpin_pages(to, copy->gpa, done);
	return err;
}

/* Are these the pages that the aperture has? */
static bool same_pages(const struct dlend_chunk *chunk, struct page **pages)
{
	struct page **had = chunk->pages;
	u32 i;

	for (i = 0; i < chunk->npages; i++)
		if (had ? pages[i] != had[i] : page_to_pfn(pages[i]) != chunk->pfn + i)
			return false;
	return true;
}

/* @to has it pinned, too. Return: 0; -ENOENT it is not there any more; -ESTALE other pages */
static int hand_over_note(struct dlend_memory *mem, struct dlend_memory *to,
			  const struct dlend_chunk *copy)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_chunk *chunk;
	int err = 0;

	mutex_lock(&ram->lock);
	chunk = dlend_books_find(&ram->books, copy->gpa);
	if (!chunk || chunk->gpa != copy->gpa || chunk->npages != copy->npages ||
	    chunk->owner != mem)
		err = -ENOENT;
	else if (!same_pages(chunk, mem->pages))
		err = -ESTALE;
	if (!err) {
		chunk->owner = to;
		to->stat.taken_bytes += dlend_chunk_bytes(chunk);
	}
	mutex_unlock(&ram->lock);
	return err;
}

/* Everything that @mem owns to another user. Return: 0, or not all of it went. */
static int hand_over(struct dlend_memory *mem)
{
	struct dlend_chunk copy;
	struct dlend_memory *to;
	u64 gpa = 0, bytes = 0;
	int err = 0;

	while (!err && (to = hand_over_begin(mem, gpa, &copy))) {
		if (IS_ERR(to))
			return PTR_ERR(to);
		err = hand_over_pin(mem, to, &copy);
		if (!err) {
			err = hand_over_note(mem, to, &copy);
			dlend_ram_unpin_pages(err ? to : mem, copy.gpa, copy.npages);
			/* Gone meanwhile: just as well.  What cannot be pinned is not. */
			if (err == -ENOENT)
				err = 0;
		}
		/* Only now: dma_unmap must find no pin but the one that is in the books. */
		dlend_ram_pin_end(mem, false);
		gpa = copy.gpa + dlend_chunk_bytes(&copy);
		bytes += dlend_chunk_bytes(&copy);
		cond_resched();
	}
	trace_dlend_window(mem->vdev->dev, "handed-over", bytes, err);
	return err;
}

/* The last user was closed: what it leaves is nobody's, and its device may still be at it. */
static void ram_end_use(struct dlend_ram *ram)
{
	mutex_lock(&ram->lock);
	if (!ram->users) {
		ram_kill_all(ram);
		dlend_books_accept(&ram->books, now_ms());
	}
	mutex_unlock(&ram->lock);
	schedule_work(&ram->tell_work);
}

/* Has anybody the VM's memory still?  Who has not built yet may do so any moment. */
static bool any_open(const struct dlend_ram *ram)
{
	unsigned int i;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (ram->member[i] && !ram->member[i]->closed)
			return true;
	return false;
}

static void ram_close(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	bool last;

	mutex_lock(&ram->lock);
	WRITE_ONCE(mem->closed, true);
	dlend_ram_use(mem, false);
	last = !ram->users;
	ram->over = !any_open(ram);
	mutex_unlock(&ram->lock);

	/* Nothing begins to be pinned through it any more, by itself or for another. */
	pin_stop(ram, mem, 0, U64_MAX);
	if (last || hand_over(mem))
		dlend_ram_lose(ram, mem, 0, U64_MAX);
	if (last)
		ram_end_use(ram);
	/* Somebody may be just unpinning what it owned. */
	mutex_lock(&ram->unpin_lock);
	mutex_unlock(&ram->unpin_lock);
	WRITE_ONCE(mem->emptied, true);
}

void dlend_ram_close(struct dlend_memory *mem)
{
	/* The VMM closes the device, and the lease's end is being told: each waits for the pins. */
	guard(mutex)(&mem->close_lock);
	if (!mem->closed)
		ram_close(mem);
}

static void down_work(struct work_struct *work)
{
	struct dlend_ram *ram = container_of(work, struct dlend_ram, down_work);

	mutex_lock(&ram->build_lock);
	dlend_ram_drop_all(ram);
	mutex_unlock(&ram->build_lock);
}

void dlend_ram_link_down(struct dlend_ram *ram)
{
	struct dlend_extent *extent;
	struct dlend_chunk *chunk;
	u64 gpa = 0;

	mutex_lock(&ram->lock);
	if (ram->ap) {
		dlend_ram_note_loss(ram);
		while ((extent = dlend_books_next_extent(&ram->books, gpa))) {
			if (extent->slot)
				extent->cookie = dlend_slot_quarantine(ram->ap, extent->slot);
			extent->slot = NULL;
			gpa = extent->gpa + extent->size;
		}
		for (chunk = dlend_books_find(&ram->books, 0); chunk;
		     chunk = dlend_books_next(&ram->books, chunk))
			chunk->mapped = false;
		WRITE_ONCE(ram->ap, NULL);
		trace_dlend_window(dlend_link_dev(ram->link), "link-down",
				   ram->books.pinned_bytes, 0);
		schedule_work(&ram->down_work);
	}
	mutex_unlock(&ram->lock);
}

void dlend_ram_fence(struct dlend_ram *ram)
{
	struct dlend_extent *extent;
	struct dlend_chunk *chunk;
	u64 gpa = 0;

	lockdep_assert_held(&ram->lock);
	if (!ram->ap)
		return;
	dlend_ram_note_loss(ram);
	while ((extent = dlend_books_next_extent(&ram->books, gpa))) {
		if (extent->slot)
			dlend_slot_unmap(ram->ap, extent->slot, 0, extent->size);
		gpa = extent->gpa + extent->size;
	}
	for (chunk = dlend_books_find(&ram->books, 0); chunk;
	     chunk = dlend_books_next(&ram->books, chunk))
		chunk->mapped = false;
	trace_dlend_window(dlend_link_dev(ram->link), "fenced", ram->books.pinned_bytes, 0);
}

/* Life */

/* The VM of @mem, made if it has no RAM yet, with a reference; NULL: out of memory. */
static struct dlend_vm *vm_get(const struct dlend_memory *mem)
{
	struct dlend_vm *vm;

	lockdep_assert_held(&rams_lock);
	list_for_each_entry(vm, &vms, node) {
		if (vm->kvm != mem->vdev->kvm || (!vm->kvm && vm->vmm != mem->vmm))
			continue;
		kref_get(&vm->ref);
		return vm;
	}
	vm = kzalloc_obj(*vm);
	if (!vm)
		return NULL;
	kref_init(&vm->ref);
	vm->kvm = mem->vdev->kvm;
	vm->vmm = mem->vmm;
	mutex_init(&vm->lock);
	list_add_tail(&vm->node, &vms);
	return vm;
}

static void vm_free(struct kref *ref)
{
	struct dlend_vm *vm = container_of(ref, struct dlend_vm, ref);

	lockdep_assert_held(&rams_lock);
	list_del(&vm->node);
	mutex_destroy(&vm->lock);
	kfree(vm);
}

static struct dlend_ram *ram_create(const struct dlend_memory *mem, struct dlend_link *link,
				    u64 lowmem)
{
	struct dlend_ram *ram = kzalloc_obj(*ram);
	int err;

	if (!ram)
		return ERR_PTR(-ENOMEM);
	ram->session = dlend_link_session(link);
	ram->ap = dlend_link_aperture(link);
	ram->vm = ram->ap ? vm_get(mem) : NULL;
	if (!ram->vm) {
		err = ram->ap ? -ENOMEM : -ENOTCONN;
		kfree(ram);
		return ERR_PTR(err);
	}
	ram->kvm = mem->vdev->kvm;
	ram->iommufd = mem->vdev->iommufd_access;
	ram->lowmem = lowmem;
	ram->link = dlend_link_get(link);
	kref_init(&ram->ref);
	mutex_init(&ram->build_lock);
	mutex_init(&ram->unpin_lock);
	mutex_init(&ram->lock);
	dlend_books_init(&ram->books);
	ram->due_all = true;
	ram->last_loss = jiffies - msecs_to_jiffies(DLEND_SETTLE_MS);
	init_waitqueue_head(&ram->pin_done);
	INIT_LIST_HEAD(&ram->dead);
	INIT_WORK(&ram->tell_work, dlend_memory_tell_work);
	INIT_WORK(&ram->down_work, down_work);
	return ram;
}

static bool ram_is_for(const struct dlend_ram *ram, const struct dlend_memory *mem,
		       const struct dlend_link *link, u64 lowmem)
{
	return mem->vdev->kvm && ram->kvm == mem->vdev->kvm && ram->link == link &&
	       ram->session == dlend_link_session(link) && ram->lowmem == lowmem &&
	       ram->iommufd == !!mem->vdev->iommufd_access;
}

/* Return: false if it has no room, or is at its end. */
static bool ram_enter(struct dlend_ram *ram, struct dlend_memory *mem)
{
	unsigned int i;
	bool done = false;

	mutex_lock(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX && !done && !ram->over && ram->ap; i++) {
		if (ram->member[i])
			continue;
		mem->ram = ram;
		mem->id = i;
		mem->build_lost = ram->lost;
		ram->member[i] = mem;
		done = true;
	}
	mutex_unlock(&ram->lock);
	return done;
}

int dlend_ram_join(struct dlend_memory *mem, struct dlend_link *link, u64 lowmem)
{
	struct dlend_ram *ram;

	guard(mutex)(&rams_lock);
	list_for_each_entry(ram, &rams, node) {
		if (ram_is_for(ram, mem, link, lowmem) && ram_enter(ram, mem)) {
			kref_get(&ram->ref);
			return 0;
		}
	}
	ram = ram_create(mem, link, lowmem);
	if (IS_ERR(ram))
		return PTR_ERR(ram);
	list_add_tail(&ram->node, &rams);
	ram_enter(ram, mem);
	return 0;
}

static void ram_free(struct kref *ref)
{
	struct dlend_ram *ram = container_of(ref, struct dlend_ram, ref);

	list_del(&ram->node);
	kref_put(&ram->vm->ref, vm_free);
	mutex_unlock(&rams_lock);
	cancel_work_sync(&ram->down_work);
	cancel_work_sync(&ram->tell_work);
	WARN_ON(ram->books.chunks || ram->books.extents || !list_empty(&ram->dead));
	dlend_books_destroy(&ram->books);
	dlend_ranges_clear(&ram->due);
	dlend_link_put(ram->link);
	mutex_destroy(&ram->lock);
	mutex_destroy(&ram->unpin_lock);
	mutex_destroy(&ram->build_lock);
	kfree(ram);
}

static bool is_told(const struct dlend_extent *extent, u32 id)
{
	return dlend_told_member(&extent->told, id);
}

/* Nothing waits for this member's word any more. Return: were windows taken from others? */
static bool ram_forget(struct dlend_memory *mem, bool fenced)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent, *tmp;
	LIST_HEAD(gone);
	bool hit = false;

	lockdep_assert_held(&ram->lock);
	if (fenced)
		dlend_books_leave(&ram->books, mem->id);
	else
		dlend_books_kill_all(&ram->books, is_told, mem->id, &gone);
	if (!list_empty(&gone)) {
		dlend_ram_note_loss(ram);
		hit = true;
	}
	dlend_ram_retire(ram, &gone);
	list_for_each_entry_safe(extent, tmp, &ram->dead, node)
		if (dlend_told_leave(&extent->told, mem->id, fenced))
			dlend_ram_forget_dead(ram, extent);
	ram->member[mem->id] = NULL;
	return hit;
}

void dlend_ram_leave(struct dlend_memory *mem, bool fenced)
{
	struct dlend_ram *ram = mem->ram;
	bool hit;
	u32 shut;

	mutex_lock(&ram->unpin_lock);
	shut = fenced ? 0 : shut_others(ram, mem);
	mutex_lock(&ram->lock);
	hit = ram_forget(mem, fenced);
	mutex_unlock(&ram->lock);
	free_others(ram, shut, hit);
	mutex_unlock(&ram->unpin_lock);
	kref_put_mutex(&ram->ref, ram_free, &rams_lock);
}
