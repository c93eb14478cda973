// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a member whose pins others need (dlend_memory_close() of memory.h).  See ram.h for the
 * locks.
 *
 * A chunk is pinned through its owner's VFIO device, and that device is being closed.  So every
 * chunk of the member is handed over: it is pinned through another member as well (type1 and
 * iommufd only count one more user of the page) and then unpinned through the old one.  No device's
 * DMA notices that.  If that fails for any chunk, all memory is taken away, and the others build
 * again.
 *
 * A VMM that dies closes one device after the other, and nobody needs anything any more: then all
 * devices stop, their leases end, and the first that is closed takes everything away, whoever
 * pinned it.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/vfio.h>

#include "loss.h"
#include "members.h"
#include "pin.h"
#include "ram_map.h"
#include "trace.h"
#include "unpin.h"

/* How long the other devices of a VM have to stop. */
#define DLEND_QUIET_MS	1000u

/*
 * Find the next chunk that @mem owns, from @gpa on, and copy it to @copy.  From now on dma_unmap of
 * it waits.
 * Return: to whom it goes; NULL: there is no such chunk; ERR_PTR: there is nobody to take it.
 */
static struct dlend_memory *dlend_hand_over_begin(struct dlend_memory *mem, u64 gpa,
						  struct dlend_chunk *copy)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_memory *to = NULL;
	struct dlend_chunk *chunk;

	mutex_lock(&ram->lock);
	chunk = dlend_books_find_owned(&ram->books, gpa, mem);
	if (chunk) {
		*copy = *chunk;
		to = dlend_members_find_user(ram) ?: ERR_PTR(-ENODEV);
	}
	if (chunk && !IS_ERR(to))
		dlend_pin_begin_for(mem, to, chunk);
	mutex_unlock(&ram->lock);
	return to;
}

/* Are these the pages that the aperture has? */
static bool dlend_hand_over_same(const struct dlend_chunk *chunk, struct page **pages)
{
	struct page **had = chunk->pages;
	u32 i;

	for (i = 0; i < chunk->npages; i++)
		if (had ? pages[i] != had[i] : page_to_pfn(pages[i]) != chunk->pfn + i)
			return false;
	return true;
}

/*
 * @to has pinned it, too: enter @to as its owner.
 * Return: 0; -ENOENT it is not in the books any more; -ESTALE other pages are there now.
 */
static int dlend_hand_over_note(struct dlend_memory *mem, struct dlend_memory *to,
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
	else if (!dlend_hand_over_same(chunk, mem->pages))
		err = -ESTALE;
	if (!err) {
		chunk->owner = to;
		to->stat.taken_bytes += dlend_chunk_bytes(chunk);
	}
	mutex_unlock(&ram->lock);
	return err;
}

/* Hand over everything that @mem owns.  Return: 0; an error: some of it is still @mem's. */
static int dlend_hand_over_all(struct dlend_memory *mem)
{
	struct dlend_chunk copy;
	struct dlend_memory *to;
	u64 gpa = 0, bytes = 0;
	int err = 0;

	while (!err && (to = dlend_hand_over_begin(mem, gpa, &copy))) {
		if (IS_ERR(to))
			return PTR_ERR(to);
		err = dlend_pin_chunk(to, &copy, mem->pages, false);
		if (!err) {
			err = dlend_hand_over_note(mem, to, &copy);
			dlend_unpin_pages(err ? to : mem, copy.gpa, copy.npages);
		}
		/* Not earlier: dma_unmap must not meet a pin that the books do not have. */
		dlend_pin_end(mem, false);
		/* The chunk has gone meanwhile, or a part of it: look there again. */
		gpa = err == -ENOENT ? copy.gpa : dlend_chunk_end(&copy);
		if (err == -ENOENT)
			err = 0;
		bytes += dlend_chunk_bytes(&copy);
		cond_resched();
	}
	trace_dlend_window(mem->vdev->dev, "handed-over", bytes, err);
	return err;
}

void dlend_memory_cut(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;

	mutex_lock(&ram->lock);
	WRITE_ONCE(mem->closed, true);
	dlend_members_use(mem, false);
	ram->over = !dlend_members_any_open(ram);
	/*
	 * Nobody needs the extents any more, but its device may still do DMA; so the aperture goes
	 * at once, and the slots when the lender has been told.
	 */
	if (!ram->users) {
		dlend_ram_map_kill_all(ram);
		dlend_books_accept(&ram->books, dlend_ram_now_ms());
	}
	mutex_unlock(&ram->lock);
	dlend_ram_queue(ram, &ram->tell_work);
}

static bool dlend_hand_over_all_quiet(struct dlend_vm *vm)
{
	struct dlend_ram *ram = NULL;
	bool quiet = true;

	while ((ram = dlend_ram_next(vm, ram)))
		quiet &= dlend_members_quiet(ram);
	return quiet;
}

/* Nobody needs the RAM, but the devices may do DMA there: they stop first. */
void dlend_memory_vmm_exits(struct dlend_memory *mem)
{
	unsigned int turns = DLEND_QUIET_MS / DLEND_TURN_MS;
	struct dlend_vm *vm = mem->ram->vm;
	struct dlend_ram *ram = NULL;

	while ((ram = dlend_ram_next(vm, ram))) {
		WRITE_ONCE(ram->vmm_exits, true);
		dlend_members_exit(ram, mem);
	}
	while (turns-- && !dlend_hand_over_all_quiet(vm))
		msleep(DLEND_TURN_MS);
	while ((ram = dlend_ram_next(vm, ram)))
		dlend_members_leave(ram, mem);
}

static void dlend_hand_over_close(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	bool all;

	dlend_memory_cut(mem);
	/* Now nobody begins to pin through it: not the member itself, nor another for it. */
	dlend_pin_await(mem);
	mutex_lock(&ram->lock);
	all = !ram->users || READ_ONCE(ram->vmm_exits);
	mutex_unlock(&ram->lock);
	if (all || dlend_hand_over_all(mem))
		dlend_loss_take(ram, mem, 0, U64_MAX);
	/* Also for others that are just unpinning chunks of this member. */
	dlend_unpin_all(ram->vm);
	WRITE_ONCE(mem->emptied, true);
}

void dlend_memory_close(struct dlend_memory *mem)
{
	ktime_t since = ktime_get();

	dlend_loss_begin(mem->ram);
	/*
	 * The VMM closes the device, while a worker returns its lease: both come here, and each
	 * must wait until the pins are gone.
	 */
	mutex_lock(&mem->close_lock);
	if (!mem->emptied)
		dlend_hand_over_close(mem);
	mutex_unlock(&mem->close_lock);
	dlend_loss_end(mem, 0, U64_MAX, DLEND_LOSS_NONE, since);
}
