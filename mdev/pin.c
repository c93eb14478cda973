// SPDX-License-Identifier: GPL-2.0
/*
 * Pins of guest memory: the only place that calls vfio_pin_pages().
 *
 * A chunk is pinned through one member, its owner.  It must be unpinned through the same member,
 * while that member's VFIO device is open.
 *
 * A pin is *under way* (dlend_pin_begin() to dlend_pin_end()) from before the pages are pinned
 * until they are in the pin table, or given up.  A dma_unmap of these pages waits for the end of
 * the pin, because it must find every pin (dlend_unpin_await()).  And no pin begins where a
 * dma_unmap of any device of the VM is under way, or was just now: see pinned.h for the reason.
 *
 * Why dma_unmap does not unpin pages itself.  type1 has two locks, iommu->lock (L) and
 * iommu->device_list_lock (D).  A thread X of the VMM that unmaps
 *
 *	1  takes L, and finds pins in the range
 *	2  takes D, gives L up, calls each device's dma_unmap, gives D up
 *	3  takes L, and begins again at 1.  If it finds pins there for the 12th time, it stops the
 *	   kernel by BUG().
 *
 * To unpin, a device needs L.  If another thread Y has got to 2, Y has L and waits for D, which X
 * has until the call of its device returns.  (A thread that opens or closes a device of the
 * container takes L and D in this order, too.)  So X's call must return then, with pins left, and
 * let Y go on.  A device cannot see Y; but while Y waits, no pin and no unpin of the VM ends.
 * Therefore:
 *
 * - Workers unpin, and dma_unmap waits for them.  dma_unmap gives way (returns with pins left)
 *   only if no pin and no unpin has ended for twice DLEND_UNPIN_MS.  In the first half the running
 *   worker had the time to get L.  In the second half all other workers have been woken, and wait
 *   for L as well.
 *
 * - How often does X come back to 1 before all is unpinned?  X needs L for that.  Waiters of a
 *   mutex get the mutex one after the other.  All workers wait for L when X gives D up, so X waits
 *   behind them, and each worker unpins a chunk before X gets L.  X can get L earlier only if X
 *   finds L free between an unlock and the moment in which the first waiter wakes up; a waiter that
 *   was passed over in this way has the mutex handed to it the next time.  X comes to 2 then, and
 *   waits there until the call of the other thread has given way.  To be early twice, X must be
 *   lucky twice, and yet another thread must have waited for L before the workers did.  Each turn
 *   (from 1 to 3) takes as long as a call waits before it gives way.
 *
 * - So with N threads a turn unpins at least DLEND_UNPINNERS chunks of 2 MiB, and each thread has
 *   one turn in N.  If a VM has more memory than DLEND_UNPIN_TURNS * N times that, or by bad luck,
 *   a thread could still find pins for the 12th time.  Therefore the turns of each thread are
 *   counted, and after DLEND_UNPIN_TURNS its call no longer returns with pins left.  If two threads
 *   then wait for each other, they wait for ever, as with any device that unpins in dma_unmap.  But
 *   there is no BUG(), and all leases of this RAM end (dlend_memory_ops.stuck()): the devices go
 *   back to their lenders.  Their DMA to that memory is blocked since before the first wait.
 *
 * - A turn of X counts once, even if the calls for several devices gave way in it.  So the turns
 *   of a thread are counted at one member, the first for which a call gave way; calls for other
 *   members in the same turn return at once.  All of the VM's RAM, on all links, counts as one
 *   here.
 *
 * /dev/iommu has no such locks: there a call waits until all is unpinned.
 *
 * Must not know apertures, messages, or where RAM may be.
 */
#include <linux/delay.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vfio.h>
#include <dlend/compat.h>

#include "ram.h"
#include "trace.h"

static_assert(DLEND_CHUNK_PAGES <= VFIO_PIN_PAGES_MAX_ENTRIES);
/* A page of the guest is a page of the host here. */
static_assert(PAGE_SIZE == DLEND_GUEST_PAGE);

/* A pin takes longer than this only if user space has to provide the contents of the memory. */
#define DLEND_PIN_LONG_MS	10000u

/*
 * Pages of one call to VFIO.  type1 holds a lock for a whole call of vfio_pin_pages(), page faults
 * included.  VFIO's map and unmap ioctls need the same lock, and wait for it under the VMM's big
 * lock.  If the owner of a mutex takes it again at once, a waiter gets it only the second time: so
 * these ioctls wait for two calls.  A worker of low priority would make that worse, because the
 * scheduler would take the CPU from it while it has the lock.
 */
#define DLEND_PIN_BATCH	64u

/*
 * Return: how many of @npages pages from @gpa on one call pins, or unpins.  Calls end at multiples
 * of the batch, so that they end at the same addresses if a chunk was split since.
 */
static u32 dlend_pin_batch_len(u64 gpa, u32 npages)
{
	return min_t(u32, npages, DLEND_PIN_BATCH - gpa / DLEND_GUEST_PAGE % DLEND_PIN_BATCH);
}

/* A call of dma_unmap gives way if for twice this time no pin and no unpin has ended. */
#define DLEND_UNPIN_MS		50u

/* The most turns of a thread that give way; fewer than the 12 finds of pins that end in a BUG(). */
#define DLEND_UNPIN_TURNS	8u

/* After a call gave way, nothing is pinned in its range for so long: VFIO will look there again. */
#define DLEND_UNPIN_SETTLE_MS	10000u

/**
 * struct dlend_unpin_turn - the turns of a VMM's thread in VFIO's unmapping.  Only that thread uses
 *	this; but dlend_unpin_leave() clears @at
 * @at: member at which the turns are counted; NULL: none yet, or that one has left, and the next
 *	member for which a call gives way is taken
 * @gpa: first address of the range that the thread unmaps
 * @last: last address of that range
 * @count: number of turns in which a call gave way
 */
struct dlend_unpin_turn {
	const struct dlend_memory *at;
	u64 gpa, last;
	unsigned int count;
};

void dlend_unpin_pages(const struct dlend_memory *via, u64 gpa, u32 npages)
{
	u32 count;

	for (; npages; npages -= count) {
		/* iommufd unpins exactly the pages of one pin; type1 takes a lock in each call. */
		count = via->ram->iommufd ? dlend_pin_batch_len(gpa, npages) :
					    min(npages, VFIO_PIN_PAGES_MAX_ENTRIES);
		vfio_unpin_pages(via->vdev, gpa, count);
		gpa = dlend_gpa_end(gpa, count);
		cond_resched();
	}
}

/* Unpin one chunk of vm->unpin.  Return: was there any? */
static bool dlend_unpin_next(struct dlend_vm *vm)
{
	const struct dlend_memory *via;
	struct dlend_chunk *chunk;

	spin_lock(&vm->lock);
	chunk = list_first_entry_or_null(&vm->unpin, struct dlend_chunk, node);
	if (chunk)
		list_del(&chunk->node);
	spin_unlock(&vm->lock);
	if (!chunk)
		return false;
	via = chunk->owner;
	dlend_unpin_pages(via, chunk->gpa, chunk->npages);
	kfree(chunk->pages);
	kfree(chunk);
	spin_lock(&vm->lock);
	vm->unpinning--;
	vm->steps++;
	spin_unlock(&vm->lock);
	if (!READ_ONCE(vm->unpinning))
		wake_up_all(&vm->step_done);
	return true;
}

static void dlend_unpin_work(struct work_struct *work)
{
	while (dlend_unpin_next(container_of(work, struct dlend_unpinner, work)->vm))
		cond_resched();
}

void dlend_unpin_add(struct dlend_vm *vm, struct list_head *out)
{
	spin_lock(&vm->lock);
	vm->unpinning += list_count_nodes(out);
	list_splice_tail_init(out, &vm->unpin);
	spin_unlock(&vm->lock);
}

void dlend_unpin_start(struct dlend_vm *vm, unsigned int workers)
{
	unsigned int i;

	for (i = 0; i < workers && i < READ_ONCE(vm->unpinning); i++)
		queue_work(vm->wq, &vm->unpinner[i].work);
}

void dlend_unpin_all(struct dlend_vm *vm)
{
	while (dlend_unpin_next(vm))
		cond_resched();
	wait_event(vm->step_done, !READ_ONCE(vm->unpinning));
}

/* For dma_unmap */

bool dlend_pin_in_flight(struct dlend_vm *vm, const struct dlend_memory *via, u64 gpa, u64 last)
{
	const struct dlend_memory *mem;
	bool pins = false;

	spin_lock(&vm->lock);
	list_for_each_entry(mem, &vm->pins, pinning)
		pins |= (!via || mem->via == via) && mem->pin_gpa <= last && mem->pin_last >= gpa;
	spin_unlock(&vm->lock);
	return pins;
}

/*
 * Get the turns of the calling thread in VFIO's unmapping of a range.  @make: allocate them if the
 * thread has none.  Return: the turns, started anew if the thread's last range was another one;
 * NULL: the thread has none, or memory is short.
 */
static struct dlend_unpin_turn *dlend_unpin_turn(struct dlend_vm *vm, u64 gpa, u64 last, bool make)
{
	struct dlend_unpin_turn *turn = xa_load(&vm->turns, current->pid);

	if (!turn && make) {
		turn = kzalloc_obj(*turn, GFP_KERNEL_ACCOUNT);
		if (turn && xa_err(xa_store(&vm->turns, current->pid, turn, GFP_KERNEL_ACCOUNT))) {
			kfree(turn);
			turn = NULL;
		}
	}
	if (turn && (turn->gpa != gpa || turn->last != last))
		*turn = (struct dlend_unpin_turn){ .gpa = gpa, .last = last };
	return turn;
}

/* No pin and no unpin ends.  Count a turn.  Return: may dma_unmap return, with pins left? */
static bool dlend_unpin_give_way(struct dlend_memory *mem, u64 gpa, u64 last)
{
	struct dlend_vm *vm = mem->ram->vm;
	struct dlend_unpin_turn *turn = dlend_unpin_turn(vm, gpa, last, true);

	if (!turn || turn->count > DLEND_UNPIN_TURNS)
		return false;
	if (!turn->at)
		turn->at = mem;
	if (turn->count++ == DLEND_UNPIN_TURNS) {
		dev_err(mem->vdev->dev, "threads of the VMM unmap memory at the same time, and wait for each other in VFIO's type1 for good: the device goes back to its lender, and the VMM's memory stays pinned until this host reboots; run such VMs with /dev/iommu (iommufd)\n");
		guard(mutex)(&mem->ram->loss_lock);
		dlend_members_call(mem->ram, dlend_guest_memory_ops.stuck, NULL);
		return false;
	}
	dev_warn_ratelimited(mem->vdev->dev, "threads of the VMM unmap memory at the same time, and wait for each other in VFIO's type1: that makes unmapping slow; run such VMs with /dev/iommu (iommufd)\n");
	spin_lock(&vm->lock);
	dlend_unmap_calls_begin(&vm->unmaps, gpa, last, dlend_ram_now_ms());
	dlend_unmap_calls_end(&vm->unmaps, gpa, last, dlend_ram_now_ms() + DLEND_UNPIN_SETTLE_MS);
	spin_unlock(&vm->lock);
	return true;
}

bool dlend_unpin_await(struct dlend_memory *mem, u64 gpa, u64 last)
{
	struct dlend_vm *vm = mem->ram->vm;
	struct dlend_unpin_turn *turn = dlend_unpin_turn(vm, gpa, last, false);
	unsigned int halves = 0;
	bool pins;
	u64 steps;

	for (;;) {
		steps = READ_ONCE(vm->steps);
		pins = dlend_pin_in_flight(vm, NULL, gpa, last);
		if (!pins && !READ_ONCE(vm->unpinning)) {
			kfree(xa_erase(&vm->turns, current->pid));
			return true;
		}
		/* The call for another device gave way a moment ago, in the same turn. */
		if (turn && turn->at && turn->at != mem && turn->count <= DLEND_UNPIN_TURNS)
			return true;
		wait_event_timeout(vm->step_done, pins ? !dlend_pin_in_flight(vm, NULL, gpa, last) :
				   !READ_ONCE(vm->unpinning), msecs_to_jiffies(DLEND_UNPIN_MS));
		if (pins && !dlend_pin_in_flight(vm, NULL, gpa, last))
			return false;
		if (READ_ONCE(vm->steps) != steps) {
			halves = 0;
			continue;
		}
		dlend_unpin_start(vm, DLEND_UNPINNERS);
		if (++halves >= 2 && !mem->ram->iommufd && dlend_unpin_give_way(mem, gpa, last))
			return true;
	}
}

void dlend_unpin_leave(struct dlend_memory *mem)
{
	struct xarray *turns = &mem->ram->vm->turns;
	struct dlend_unpin_turn *turn;
	unsigned long pid;

	/* A thread erases its turns under this lock before it frees them. */
	xa_lock(turns);
	xa_for_each(turns, pid, turn)
		if (turn->at == mem)
			WRITE_ONCE(turn->at, NULL);
	xa_unlock(turns);
}

/* Life */

int dlend_unpin_init(struct dlend_vm *vm)
{
	unsigned int i;

	/*
	 * Each VM has a workqueue, so that works that are stuck do not delay those of other VMs.
	 * WQ_MEM_RECLAIM, as an offer's workqueue, which has that flag, waits for these works when
	 * it returns a lease: swap or writeback may go to a borrowed disk.
	 */
	vm->wq = alloc_workqueue("dlend-unpin", WQ_UNBOUND | WQ_MEM_RECLAIM, DLEND_UNPINNERS);
	if (!vm->wq)
		return -ENOMEM;
	spin_lock_init(&vm->lock);
	INIT_LIST_HEAD(&vm->pins);
	INIT_LIST_HEAD(&vm->unpin);
	init_waitqueue_head(&vm->step_done);
	xa_init(&vm->turns);
	for (i = 0; i < DLEND_UNPINNERS; i++) {
		vm->unpinner[i].vm = vm;
		INIT_WORK(&vm->unpinner[i].work, dlend_unpin_work);
	}
	return 0;
}

/* Pins under way */

void dlend_pin_unmap_note(struct dlend_vm *vm, u64 gpa, u64 last, bool begins)
{
	spin_lock(&vm->lock);
	if (begins)
		dlend_unmap_calls_begin(&vm->unmaps, gpa, last, dlend_ram_now_ms());
	else
		dlend_unmap_calls_end(&vm->unmaps, gpa, last, dlend_ram_now_ms());
	spin_unlock(&vm->lock);
}

bool dlend_pin_unmaps_in_flight(struct dlend_vm *vm)
{
	bool busy;

	spin_lock(&vm->lock);
	busy = dlend_unmap_calls_busy(&vm->unmaps, 0, U64_MAX, dlend_ram_now_ms());
	spin_unlock(&vm->lock);
	return busy;
}

/* A pin of @npages pages from @gpa on is under way from now on. @vm->lock is held. */
static void dlend_pin_enter(struct dlend_vm *vm, struct dlend_memory *mem, struct dlend_memory *via,
			    u64 gpa, u32 npages)
{
	mem->via = via;
	mem->pin_gpa = gpa;
	mem->pin_last = dlend_gpa_last(gpa, npages);
	list_add_tail(&mem->pinning, &vm->pins);
}

/*
 * Begin a pin for @mem: dma_unmap of these pages waits from now on.  If a dma_unmap of some of the
 * pages is under way, wait for its end first.
 * Return: 0: dlend_pin_end() is to be called; -EINTR: the build must give way.
 */
static int dlend_pin_begin(struct dlend_memory *mem, u64 gpa, u32 npages)
{
	u64 last = dlend_gpa_last(gpa, npages);
	struct dlend_vm *vm = mem->ram->vm;
	int err;

	for (;; msleep(DLEND_TURN_MS)) {
		mutex_lock(&mem->ram->lock);
		err = dlend_memory_disturbed(mem) ? -EINTR : 0;
		spin_lock(&vm->lock);
		if (!err && dlend_unmap_calls_busy(&vm->unmaps, gpa, last, dlend_ram_now_ms()))
			err = -EBUSY;
		if (!err)
			dlend_pin_enter(vm, mem, mem, gpa, npages);
		spin_unlock(&vm->lock);
		mutex_unlock(&mem->ram->lock);
		if (err != -EBUSY)
			return err;
	}
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
	if (grown && ram->pinned.pinned_bytes > mem->pinned_most) {
		mem->pinned_most = ram->pinned.pinned_bytes;
		dlend_members_progress(ram);
	}
	spin_lock(&vm->lock);
	list_del(&mem->pinning);
	vm->steps++;
	spin_unlock(&vm->lock);
	mutex_unlock(&ram->lock);
	wake_up_all(&vm->step_done);
}

void dlend_pin_await(const struct dlend_memory *via)
{
	struct dlend_vm *vm = via->ram->vm;

	if (!wait_event_timeout(vm->step_done, !dlend_pin_in_flight(vm, via, 0, U64_MAX),
				msecs_to_jiffies(DLEND_PIN_LONG_MS)))
		dev_warn(via->vdev->dev, "memory of the VMM is still being pinned, because the program that serves it (FUSE, userfaultfd) does not answer: the device goes back to its lender, but the VMM does not end before it does\n");
	wait_event(vm->step_done, !dlend_pin_in_flight(vm, via, 0, U64_MAX));
}

/* Calls to VFIO */

/* Pin pages by one call.  Return: 0; -EINTR the VMM is exiting; or an error of vfio_pin_pages(). */
static int dlend_pin_batch(struct dlend_memory *via, u64 gpa, u32 npages, u32 prot,
			   struct page **pages)
{
	int flags = (prot & DLEND_PROT_READ ? IOMMU_READ : 0) |
		    (prot & DLEND_PROT_WRITE ? IOMMU_WRITE : 0);
	int ret = vfio_pin_pages(via->vdev, gpa, npages, flags, pages);

	if (ret == -ENODEV)
		return -EINTR;	/* type1: the VMM is exiting, and its memory is gone */
	if (ret >= 0)
		ret = ret == npages ? 0 : -EIO;
	return ret;
}

int dlend_pin_chunk(struct dlend_memory *via, const struct dlend_chunk *chunk, struct page **pages,
		    bool build)
{
	u32 done, count;
	ktime_t since;
	int err = 0;
	u64 gpa, us;

	for (done = 0; done < chunk->npages; done += count) {
		err = build && done && dlend_memory_disturbed(via) ? -EINTR : 0;
		if (err)
			break;
		gpa = dlend_gpa_end(chunk->gpa, done);
		count = dlend_pin_batch_len(gpa, chunk->npages - done);
		since = ktime_get();
		err = dlend_pin_batch(via, gpa, count, chunk->prot, pages + done);
		us = ktime_us_delta(ktime_get(), since);
		if (build) {
			via->stat.pin_us += us;
			via->stat.pin_longest_us = max(via->stat.pin_longest_us, us);
			via->stat.pin_calls++;
		}
		cond_resched();
		if (err)
			break;
	}
	if (err)
		dlend_unpin_pages(via, chunk->gpa, done);
	return err;
}

/* Pin, and enter in the pin table */

/* Note mem->pages in a chunk: the first page frame number, or an array if not contiguous. */
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
			       DLEND_PINNED_GFP);
	return chunk->pages ? 0 : -ENOMEM;
}

/*
 * Is a chunk that is pinned for reading still read-only?  The scan tried that before the pages were
 * pinned, so the VMM may have mapped them anew since then without a dma_unmap.  Now that they are
 * pinned, a dma_unmap is called for any change.
 * Return: 0; -EINTR: a page is writable, so the build must begin again.
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

/* Enter a pinned chunk in the pin table, for which the VMM is charged. */
static int dlend_pin_add(struct dlend_memory *mem, const struct dlend_chunk *pinned)
{
	struct dlend_chunk *chunk;
	int err;

	CLASS(dlend_charge, charge)(&mem->vmm);
	chunk = kmemdup(pinned, sizeof(*pinned), DLEND_PINNED_GFP);
	if (!chunk)
		return -ENOMEM;
	err = dlend_pin_note_pages(mem, chunk);
	if (!err) {
		guard(mutex)(&mem->ram->lock);
		err = dlend_pinned_add(&mem->ram->pinned, chunk);
	}
	if (err) {
		kfree(chunk->pages);
		kfree(chunk);
	}
	return err;
}

int dlend_pin_ram(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot, bool try)
{
	struct dlend_chunk chunk = {
		.gpa = gpa, .npages = npages, .prot = prot, .owner = mem, .build = mem->build,
	};
	int err = dlend_pin_begin(mem, gpa, npages);
	bool pinned;

	if (err)
		return err;
	err = dlend_pin_chunk(mem, &chunk, mem->pages, true);
	mem->pin_err = err;
	pinned = !err;
	if (!try)
		trace_dlend_pin(mem->vdev->dev, gpa, npages, prot, err);
	if (pinned && !try)
		err = dlend_pin_check_prot(mem, &chunk) ?: dlend_pin_add(mem, &chunk);
	if (pinned && (err || try))
		dlend_unpin_pages(mem, gpa, npages);
	/* Not earlier: dma_unmap could miss pages that are pinned and not in the pin table. */
	dlend_pin_end(mem, !err && !try);
	cond_resched();
	/* To the scan, -EINVAL means a hole; an -EINVAL of the pin table does not. */
	return pinned && err == -EINVAL ? -EIO : err;
}
