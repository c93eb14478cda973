// SPDX-License-Identifier: GPL-2.0
/*
 * Unpinning: see unpin.h, and ram.h for the locks.
 *
 * Why dma_unmap does not unpin by itself.  type1 has two locks, iommu->lock (L) and
 * iommu->device_list_lock (D).  A thread X of the VMM that unmaps
 *
 *	1  takes L, and finds pins in the range
 *	2  takes D, gives L up, calls each device's dma_unmap, gives D up
 *	3  takes L, and begins again at 1.  If it finds pins there for the 12th time, it stops the
 *	   kernel by BUG().
 *
 * To unpin, a device needs L.  If a thread Y has got to 2 meanwhile, it has L and waits for D,
 * which X has until its device is through.  (A thread that opens or closes a device of the
 * container takes L and D in this order, too.)  So the call must return then, with pins left, and
 * let Y go on.  Nobody can see Y; but as long as there is one, no pin and no unpinning of the VM
 * ends.  So:
 *
 * - Workers unpin, and dma_unmap waits for them.  It gives way only if for twice DLEND_UNPIN_MS
 *   nothing has come a step further.  In the first half the worker that was there had the time to
 *   get L.  In the second half all others have been woken, and wait for L as well.
 *
 * - How often does X come back to 1, before all is unpinned?  Only by taking L.  Waiters of a mutex
 *   get it one after the other.  All workers wait for it when X gives D up, so X waits behind them,
 *   and meanwhile each of them unpins a chunk.  X can come earlier only if it finds L free, between
 *   an unlock and the moment in which the first waiter wakes up; a waiter that was passed over so
 *   has the mutex handed to it the next time.  X comes to 2 then, and has to wait there until the
 *   call that another thread is in has given way.  So that it comes earlier twice, there must be
 *   yet another thread in front of the workers, which was waiting for L before they did, and X must
 *   be lucky twice.  Each turn takes as long as a call waits before it gives way.
 *
 * - So with N threads a turn unpins DLEND_UNPINNERS chunks of 2 MiB at least, and each thread has
 *   one turn in N.  VMs larger than DLEND_UNPIN_TURNS * N of these, or luck, would still get a
 *   thread to its 12th time.  Therefore turns of each thread are counted, and after
 *   DLEND_UNPIN_TURNS its call does not return with pins left any more.  If it then waits in a
 *   circle with another thread, these two stay there for good, as they would with any device that
 *   unpins in dma_unmap.  But no BUG() comes, and all leases of this RAM end: the device goes back
 *   to its lender, and has no way into the memory since before the first wait.
 *
 * - A turn is one for X whichever device's call gave way in it, and also if several did.  So the
 *   turns of a thread are counted at one member, at the first that gave way; calls of others in the
 *   same turn return at once.  All of the VM's RAM, over whatever links, counts as one here.
 *
 * /dev/iommu has no such locks: there a call just waits.
 */
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vfio.h>
#include <dlend/compat.h>

#include "members.h"
#include "trace.h"
#include "unpin.h"

/* For so long nothing is unpinned: half of the time after which a call of dma_unmap gives way. */
#define DLEND_UNPIN_MS		50u

/* VFIO stops the kernel when it finds pins in the same range for the 12th time. */
#define DLEND_UNPIN_TURNS	8u

/* If a thread of the VMM gave way, nothing is pinned there for so long: it has yet to look. */
#define DLEND_UNPIN_SETTLE_MS	10000u

/**
 * struct dlend_unpin_turn - a thread of the VMM in VFIO's unmapping, whose call has given way
 * @at: the member at which its turns are counted; NULL: that has left, the next one will do
 * @gpa: of the range
 * @last: of the range
 * @count: how often its calls gave way
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
		/* iommufd unpins exactly what one call has pinned; type1 needs a lock each time. */
		count = via->ram->iommufd ? dlend_pin_batch_len(gpa, npages) :
					    min(npages, VFIO_PIN_PAGES_MAX_ENTRIES);
		vfio_unpin_pages(via->vdev, gpa, count);
		gpa = dlend_gpa_end(gpa, count);
		cond_resched();
	}
}

/* Unpin one chunk.  Return: was there any? */
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
	trace_dlend_unpin(via->vdev->dev, chunk->gpa, chunk->npages);
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
	struct dlend_unpinner *unpinner = container_of(work, struct dlend_unpinner, work);

	while (dlend_unpin_next(unpinner->vm))
		cond_resched();
}

void dlend_unpin_add(struct dlend_vm *vm, struct list_head *out)
{
	spin_lock(&vm->lock);
	vm->unpinning += list_count_nodes(out);
	list_splice_tail_init(out, &vm->unpin);
	spin_unlock(&vm->lock);
}

void dlend_unpin_start(struct dlend_vm *vm)
{
	if (READ_ONCE(vm->unpinning))
		queue_work(vm->wq, &vm->unpinner[0].work);
}

void dlend_unpin_all(struct dlend_vm *vm)
{
	while (dlend_unpin_next(vm))
		cond_resched();
	wait_event(vm->step_done, !READ_ONCE(vm->unpinning));
}

/* For dma_unmap */

bool dlend_unpin_pins(const struct dlend_vm *vm, const struct dlend_memory *via, u64 gpa, u64 last)
{
	const struct dlend_memory *mem;

	lockdep_assert_held(&vm->lock);
	list_for_each_entry(mem, &vm->pins, pinning)
		if ((!via || mem->via == via) && mem->pin_gpa <= last && mem->pin_last >= gpa)
			return true;
	return false;
}

enum dlend_unpin_state {
	DLEND_UNPIN_DONE,	/* nothing is pinned there */
	DLEND_UNPIN_PINS,	/* a pin is under way there */
	DLEND_UNPIN_BUSY,	/* chunks of the VM are being unpinned */
};

static enum dlend_unpin_state dlend_unpin_state(struct dlend_vm *vm, u64 gpa, u64 last)
{
	enum dlend_unpin_state state = DLEND_UNPIN_DONE;

	spin_lock(&vm->lock);
	if (dlend_unpin_pins(vm, NULL, gpa, last))
		state = DLEND_UNPIN_PINS;
	else if (vm->unpinning)
		state = DLEND_UNPIN_BUSY;
	spin_unlock(&vm->lock);
	return state;
}

/* Wait for a step.  Return: none has been made for DLEND_UNPIN_MS. */
static bool dlend_unpin_stuck(struct dlend_vm *vm, enum dlend_unpin_state state, u64 gpa, u64 last)
{
	u64 steps = READ_ONCE(vm->steps);

	wait_event_timeout(vm->step_done, dlend_unpin_state(vm, gpa, last) != state,
			   msecs_to_jiffies(DLEND_UNPIN_MS));
	return READ_ONCE(vm->steps) == steps && dlend_unpin_state(vm, gpa, last) == state;
}

/* The thread's calls in VFIO's unmapping of this range, if one of them gave way. */
static struct dlend_unpin_turn *dlend_unpin_find_turn(struct dlend_vm *vm, u64 gpa, u64 last)
{
	struct dlend_unpin_turn *turn = xa_load(&vm->turns, current->pid);

	/* Only this thread adds or removes it. */
	if (turn && (turn->gpa != gpa || turn->last != last))
		*turn = (struct dlend_unpin_turn){ .gpa = gpa, .last = last };
	return turn;
}

static struct dlend_unpin_turn *dlend_unpin_get_turn(struct dlend_vm *vm, u64 gpa, u64 last)
{
	struct dlend_unpin_turn *turn = dlend_unpin_find_turn(vm, gpa, last);

	if (turn)
		return turn;
	turn = kzalloc_obj(*turn, GFP_KERNEL_ACCOUNT);
	if (!turn)
		return NULL;
	turn->gpa = gpa;
	turn->last = last;
	if (!xa_err(xa_store(&vm->turns, current->pid, turn, GFP_KERNEL_ACCOUNT)))
		return turn;
	kfree(turn);
	return NULL;
}

/* Nothing moves.  Return: may the call return, with pins left? */
static bool dlend_unpin_give_way(struct dlend_memory *mem, u64 gpa, u64 last)
{
	struct dlend_vm *vm = mem->ram->vm;
	struct dlend_unpin_turn *turn = dlend_unpin_get_turn(vm, gpa, last);

	if (!turn || turn->count > DLEND_UNPIN_TURNS)
		return false;
	if (!turn->at)
		turn->at = mem;
	if (turn->count++ == DLEND_UNPIN_TURNS) {
		dev_err(mem->vdev->dev, "threads of the VMM unmap memory at the same time, and wait for each other in VFIO's type1 for good: the device goes back to its lender, and the VMM's memory stays pinned until this host reboots; run such VMs with /dev/iommu (iommufd)\n");
		dlend_members_stuck(mem->ram);
		return false;
	}
	dev_warn_ratelimited(mem->vdev->dev, "threads of the VMM unmap memory at the same time, and wait for each other in VFIO's type1: that makes unmapping slow; run such VMs with /dev/iommu (iommufd)\n");
	spin_lock(&vm->lock);
	dlend_unmap_calls_begin(&vm->unmaps, gpa, last, dlend_ram_now_ms());
	dlend_unmap_calls_end(&vm->unmaps, gpa, last, dlend_ram_now_ms() + DLEND_UNPIN_SETTLE_MS);
	spin_unlock(&vm->lock);
	return true;
}

static void dlend_unpin_spread(struct dlend_vm *vm)
{
	unsigned int i;

	for (i = 0; i < DLEND_UNPINNERS && i < READ_ONCE(vm->unpinning); i++)
		queue_work(vm->wq, &vm->unpinner[i].work);
}

bool dlend_unpin_await(struct dlend_memory *mem, u64 gpa, u64 last)
{
	struct dlend_vm *vm = mem->ram->vm;
	struct dlend_unpin_turn *turn = dlend_unpin_find_turn(vm, gpa, last);
	enum dlend_unpin_state state;
	unsigned int halves = 0;

	for (;;) {
		state = dlend_unpin_state(vm, gpa, last);
		if (state == DLEND_UNPIN_DONE) {
			kfree(xa_erase(&vm->turns, current->pid));
			return true;
		}
		/* Another device's call gave way a moment ago, in this turn. */
		if (turn && turn->at && turn->at != mem && turn->count <= DLEND_UNPIN_TURNS)
			return true;
		if (!dlend_unpin_stuck(vm, state, gpa, last)) {
			if (state == DLEND_UNPIN_PINS)
				return false;
			halves = 0;
			continue;
		}
		dlend_unpin_spread(vm);
		if (++halves >= 2 && !mem->ram->iommufd && dlend_unpin_give_way(mem, gpa, last))
			return true;
	}
}

void dlend_unpin_leave(struct dlend_memory *mem)
{
	struct xarray *turns = &mem->ram->vm->turns;
	struct dlend_unpin_turn *turn;
	unsigned long pid;

	/* Nobody removes one meanwhile. */
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
	 * Of its own: works that are stuck keep no other VM's from running.  An offer's queue,
	 * which has WQ_MEM_RECLAIM, waits for them when it returns a lease.
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

void dlend_unpin_destroy(struct dlend_vm *vm)
{
	struct dlend_unpin_turn *turn;
	unsigned long pid;

	destroy_workqueue(vm->wq);
	xa_for_each(&vm->turns, pid, turn)
		kfree(turn);
	xa_destroy(&vm->turns);
}
