// SPDX-License-Identifier: GPL-2.0
/*
 * Pins of guest memory: see pin.h, and ram.h for the locks.
 *
 * Must not know apertures, messages, or where RAM may be.
 */
#include <linux/delay.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vfio.h>
#include <dlend/compat.h>

#include "members.h"
#include "pin.h"
#include "trace.h"
#include "unpin.h"

static_assert(DLEND_CHUNK_PAGES <= VFIO_PIN_PAGES_MAX_ENTRIES);
/* A page of the guest is a page of the host here. */
static_assert(PAGE_SIZE == DLEND_GUEST_PAGE);

/* So long a pin takes only if somebody has to bring the contents of the memory. */
#define DLEND_PIN_LONG_MS	10000u

/* Pins under way */

void dlend_pin_unmap_begins(struct dlend_vm *vm, u64 gpa, u64 last)
{
	spin_lock(&vm->lock);
	dlend_unmap_calls_begin(&vm->unmaps, gpa, last, dlend_ram_now_ms());
	spin_unlock(&vm->lock);
}

void dlend_pin_unmap_ends(struct dlend_vm *vm, u64 gpa, u64 last)
{
	spin_lock(&vm->lock);
	dlend_unmap_calls_end(&vm->unmaps, gpa, last, dlend_ram_now_ms());
	spin_unlock(&vm->lock);
}

/* @vm->lock is held. */
static void dlend_pin_enter(struct dlend_vm *vm, struct dlend_memory *mem, struct dlend_memory *via,
			    u64 gpa, u32 npages)
{
	mem->via = via;
	mem->pin_gpa = gpa;
	mem->pin_last = dlend_gpa_last(gpa, npages);
	list_add_tail(&mem->pinning, &vm->pins);
}

int dlend_pin_begin(struct dlend_memory *mem, u64 gpa, u32 npages)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_vm *vm = ram->vm;
	int err = 0;

	guard(mutex)(&ram->lock);
	if (dlend_memory_disturbed(mem))
		return -EINTR;
	spin_lock(&vm->lock);
	if (dlend_unmap_calls_busy(&vm->unmaps, gpa, dlend_gpa_last(gpa, npages),
				   dlend_ram_now_ms()))
		err = -EBUSY;
	else
		dlend_pin_enter(vm, mem, mem, gpa, npages);
	spin_unlock(&vm->lock);
	return err;
}

int dlend_pin_begin_patiently(struct dlend_memory *mem, u64 gpa, u32 npages)
{
	int err;

	while ((err = dlend_pin_begin(mem, gpa, npages)) == -EBUSY)
		msleep(DLEND_TURN_MS);
	return err;
}

void dlend_pin_begin_for(struct dlend_memory *mem, struct dlend_memory *via,
			 const struct dlend_chunk *chunk)
{
	struct dlend_vm *vm = mem->ram->vm;

	lockdep_assert_held(&mem->ram->lock);
	spin_lock(&vm->lock);
	dlend_pin_enter(vm, mem, via, chunk->gpa, chunk->npages);
	spin_unlock(&vm->lock);
}

void dlend_pin_end(struct dlend_memory *mem, bool grown)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_vm *vm = ram->vm;

	mutex_lock(&ram->lock);
	if (grown && ram->books.pinned_bytes > mem->pinned_most) {
		mem->pinned_most = ram->books.pinned_bytes;
		dlend_members_progress(ram);
	}
	spin_lock(&vm->lock);
	list_del(&mem->pinning);
	vm->steps++;
	spin_unlock(&vm->lock);
	mutex_unlock(&ram->lock);
	wake_up_all(&vm->step_done);
}

/* Is a pin under way through @via? */
static bool dlend_pin_goes_through(const struct dlend_memory *via)
{
	struct dlend_vm *vm = via->ram->vm;
	bool through;

	spin_lock(&vm->lock);
	through = dlend_unpin_pins(vm, via, 0, U64_MAX);
	spin_unlock(&vm->lock);
	return through;
}

void dlend_pin_await(const struct dlend_memory *via)
{
	struct dlend_vm *vm = via->ram->vm;

	if (!wait_event_timeout(vm->step_done, !dlend_pin_goes_through(via),
				msecs_to_jiffies(DLEND_PIN_LONG_MS)))
		dev_warn(via->vdev->dev, "memory of the VMM is still being pinned, because the program that serves it (FUSE, userfaultfd) does not answer: the device goes back to its lender, but the VMM does not end before it does\n");
	wait_event(vm->step_done, !dlend_pin_goes_through(via));
}

/* Calls to VFIO */

static int dlend_pin_batch(struct dlend_memory *via, u64 gpa, u32 npages, u32 prot,
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

static void dlend_pin_count(struct dlend_memory *mem, ktime_t since)
{
	u64 us = ktime_us_delta(ktime_get(), since);

	mem->stat.pin_us += us;
	mem->stat.pin_longest_us = max(mem->stat.pin_longest_us, us);
	mem->stat.pin_calls++;
}

int dlend_pin_chunk(struct dlend_memory *via, const struct dlend_chunk *chunk, struct page **pages,
		    bool build)
{
	u32 done = 0, count;
	ktime_t since;
	int err = 0;
	u64 gpa;

	while (!err && done < chunk->npages) {
		if (build && done && dlend_memory_disturbed(via)) {
			err = -EINTR;
			break;
		}
		gpa = dlend_gpa_end(chunk->gpa, done);
		count = dlend_pin_batch_len(gpa, chunk->npages - done);
		since = ktime_get();
		err = dlend_pin_batch(via, gpa, count, chunk->prot, pages + done);
		if (build)
			dlend_pin_count(via, since);
		if (!err)
			done += count;
		cond_resched();
	}
	if (err)
		dlend_unpin_pages(via, chunk->gpa, done);
	return err;
}

/* A chunk's way into the books, and back */

/* Remember which pages: one number, or a list if they are not contiguous. */
static int dlend_pin_note_pages(struct dlend_memory *mem, struct dlend_chunk *chunk)
{
	u32 i;

	chunk->pfn = page_to_pfn(mem->pages[0]);
	for (i = 1; i < chunk->npages; i++)
		if (page_to_pfn(mem->pages[i]) != chunk->pfn + i)
			break;
	if (i == chunk->npages)
		return 0;
	chunk->pages = kmemdup(mem->pages, chunk->npages * sizeof(mem->pages[0]),
			       DLEND_BOOKS_GFP);
	return chunk->pages ? 0 : -ENOMEM;
}

/*
 * What is pinned for reading only: is none of it writable?  It was not pinned when the prober tried
 * to write there, so it may have been mapped anew since then, and nobody was told.  From now on
 * dma_unmap tells.  Return: 0; -EINTR look again.
 */
static int dlend_pin_check_prot(struct dlend_memory *mem, const struct dlend_chunk *chunk)
{
	u32 i, prot = DLEND_PROT_READ | DLEND_PROT_WRITE;
	struct page *page;
	int err = -EPERM;

	if (chunk->prot & DLEND_PROT_WRITE)
		return 0;
	for (i = 0; i < chunk->npages && err == -EPERM; i++)
		err = dlend_pin_batch(mem, dlend_gpa_end(chunk->gpa, i), 1, prot, &page);
	if (err == -EPERM)
		return 0;
	if (!err)
		dlend_unpin_pages(mem, dlend_gpa_end(chunk->gpa, i - 1), 1);
	return -EINTR;
}

/* Enter what is pinned in the books, which are the VMM's to pay for. */
static int dlend_pin_add(struct dlend_memory *mem, const struct dlend_chunk *pinned)
{
	struct mem_cgroup *before = dlend_vmm_charge(&mem->vmm);
	struct dlend_chunk *chunk = kmemdup(pinned, sizeof(*pinned), DLEND_BOOKS_GFP);
	int err = chunk ? dlend_pin_note_pages(mem, chunk) : -ENOMEM;

	if (!err) {
		mutex_lock(&mem->ram->lock);
		err = dlend_books_add(&mem->ram->books, chunk);
		mutex_unlock(&mem->ram->lock);
	}
	dlend_vmm_charged(before);
	if (err && chunk) {
		kfree(chunk->pages);
		kfree(chunk);
	}
	return err;
}

/* Pin and enter in the books.  The pin is under way. */
static int dlend_pin_and_add(struct dlend_memory *mem, const struct dlend_chunk *chunk)
{
	int err = dlend_pin_chunk(mem, chunk, mem->pages, true);

	trace_dlend_pin(mem->vdev->dev, chunk->gpa, chunk->npages, chunk->prot, err);
	mem->pin_err = err;
	if (err)
		return err;
	err = dlend_pin_check_prot(mem, chunk) ?: dlend_pin_add(mem, chunk);
	if (err)
		dlend_unpin_pages(mem, chunk->gpa, chunk->npages);
	/* -EINVAL of the books does not mean that a page is not there: no hole for the prober. */
	return err == -EINVAL ? -EIO : err;
}

/* Pin @npages from @gpa on as one chunk. */
static int dlend_pin_piece(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot)
{
	struct dlend_chunk chunk = {
		.gpa = gpa, .npages = npages, .prot = prot, .owner = mem, .build = mem->build,
	};
	int err = dlend_pin_begin_patiently(mem, gpa, npages);

	if (!err) {
		err = dlend_pin_and_add(mem, &chunk);
		dlend_pin_end(mem, !err);
	}
	cond_resched();
	return err;
}

static u64 dlend_pin_piece_end(struct dlend_memory *mem, u64 gpa, u64 end)
{
	guard(mutex)(&mem->ram->lock);
	return dlend_books_edge(&mem->ram->books, gpa, end);
}

/*
 * Have the next chunk in *@gpa..@end unpinned, if this build pinned it and it is loose; *@gpa
 * moves behind it.  Return: was there a chunk?  There is none any more where a dma_unmap came
 * first.
 */
static bool dlend_pin_take_own(struct dlend_memory *mem, u64 *gpa, u64 end)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_chunk *chunk;
	LIST_HEAD(out);

	guard(mutex)(&ram->lock);
	chunk = dlend_books_find(&ram->books, *gpa);
	if (!chunk || dlend_chunk_end(chunk) > end)
		return false;
	*gpa = dlend_chunk_end(chunk);
	if (chunk->build == mem->build && !chunk->extent) {
		dlend_books_take(&ram->books, chunk, &out);
		dlend_unpin_add(ram->vm, &out);
	}
	return true;
}

/* Undo what was pinned of it, as far as dma_unmap has not done so already. */
static void dlend_pin_undo(struct dlend_memory *mem, u64 gpa, u32 npages)
{
	u64 end = dlend_gpa_end(gpa, npages);

	while (dlend_pin_take_own(mem, &gpa, end))
		;
	dlend_unpin_all(mem->ram->vm);
}

int dlend_pin_ram(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot)
{
	u64 at = gpa, end = dlend_gpa_end(gpa, npages), to;
	int err = 0;

	/*
	 * No piece lies across an edge of an extent.  So each piece fits into an extent that
	 * stands, or into none; no extent that stands has to make way for it.
	 */
	while (at < end) {
		to = dlend_pin_piece_end(mem, at, end);
		err = dlend_pin_piece(mem, at, (to - at) / DLEND_GUEST_PAGE, prot);
		if (err)
			break;
		at = to;
	}
	if (err && at > gpa)
		dlend_pin_undo(mem, gpa, (at - gpa) / DLEND_GUEST_PAGE);
	return err;
}

int dlend_pin_try(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot)
{
	struct dlend_chunk chunk = { .gpa = gpa, .npages = npages, .prot = prot };
	int err = dlend_pin_begin_patiently(mem, gpa, npages);

	if (err)
		return err;
	err = dlend_pin_chunk(mem, &chunk, mem->pages, true);
	mem->pin_err = err;
	if (!err)
		dlend_unpin_pages(mem, gpa, npages);
	/* Not earlier: dma_unmap must not meet a pin that the books do not have. */
	dlend_pin_end(mem, false);
	return err;
}
