// SPDX-License-Identifier: GPL-2.0
/*
 * Guest RAM as an object: references, works, the members that share it and the calls of their ops,
 * and the VMM whose limits count.  See ram.h.
 *
 * Must not know the pin table, pins, apertures or messages.
 */
#include <linux/capability.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <dlend/compat.h>

#include "ram.h"

/* VMMs */

void dlend_vmm_copy(struct dlend_vmm *to, const struct dlend_vmm *from)
{
	*to = *from;
	get_task_struct(to->task);
	mmgrab(to->mm);
}

void dlend_vmm_note(struct dlend_vmm *vmm)
{
	dlend_vmm_drop(vmm);
	dlend_vmm_copy(vmm, &(struct dlend_vmm) {
		.task = current->group_leader,
		.mm = current->mm,
		.locks_all = capable(CAP_IPC_LOCK),
	});
}

void dlend_vmm_drop(struct dlend_vmm *vmm)
{
	if (!vmm->task)
		return;
	put_task_struct(vmm->task);
	mmdrop(vmm->mm);
	vmm->task = NULL;
}

u64 dlend_vmm_lockable(const struct dlend_vmm *vmm)
{
	unsigned long most = task_rlimit(vmm->task, RLIMIT_MEMLOCK);

	return vmm->locks_all || most == RLIM_INFINITY ? U64_MAX : most;
}

/* References and works */

DEFINE_MUTEX(dlend_rams_lock);	/* dlend_rams, and what ram.h lists */
LIST_HEAD(dlend_rams);
static struct workqueue_struct *dlend_rams_wq;

static void dlend_vm_free(struct kref *ref)
{
	struct dlend_vm *vm = container_of(ref, struct dlend_vm, ref);
	unsigned long pid;
	void *turn;

	lockdep_assert_held(&dlend_rams_lock);
	mutex_destroy(&vm->watch_lock);
	destroy_workqueue(vm->wq);
	xa_for_each(&vm->turns, pid, turn)
		kfree(turn);
	xa_destroy(&vm->turns);
	kvfree(vm);
}

static void dlend_ram_free(struct kref *ref)
{
	struct dlend_ram *ram = container_of(ref, struct dlend_ram, ref);

	list_del(&ram->node);
	kref_put(&ram->vm->ref, dlend_vm_free);
	mutex_unlock(&dlend_rams_lock);
	WARN_ON(ram->pinned.chunks || ram->pinned.extents || !list_empty(&ram->dead));
	dlend_ranges_clear(&ram->due);
	dlend_session_drop(&ram->session);
	mutex_destroy(&ram->lock);
	mutex_destroy(&ram->loss_lock);
	mutex_destroy(&ram->search_lock);
	mutex_destroy(&ram->build_lock);
	kfree(ram);
}

void dlend_ram_put(struct dlend_ram *ram)
{
	kref_put_mutex(&ram->ref, dlend_ram_free, &dlend_rams_lock);
}

struct dlend_ram *dlend_ram_next(struct dlend_vm *vm, struct dlend_ram *ram)
{
	struct dlend_ram *next;
	bool found = false;

	mutex_lock(&dlend_rams_lock);
	next = list_prepare_entry(ram, &dlend_rams, node);
	list_for_each_entry_continue(next, &dlend_rams, node) {
		found = next->vm == vm && kref_get_unless_zero(&next->ref);
		if (found)
			break;
	}
	mutex_unlock(&dlend_rams_lock);
	if (ram)
		dlend_ram_put(ram);
	return found ? next : NULL;
}

void dlend_ram_queue(struct dlend_ram *ram, struct work_struct *work)
{
	kref_get(&ram->ref);
	/* If the work was queued already, it has a reference; so this is not the last one. */
	if (!queue_work(dlend_rams_wq, work))
		dlend_ram_put(ram);
}

int dlend_memory_start(void)
{
	/* A work may wait for a peer; works of other VMs run beside it. */
	dlend_rams_wq = alloc_workqueue("dlend-memory", WQ_UNBOUND, 0);
	return dlend_rams_wq ? 0 : -ENOMEM;
}

void dlend_memory_stop(void)
{
	destroy_workqueue(dlend_rams_wq);
}

void dlend_ram_due(struct dlend_ram *ram, const struct dlend_ranges *ranges)
{
	u32 i;

	guard(mutex)(&ram->lock);
	ram->due.all |= !ranges || ranges->all;
	for (i = 0; ranges && i < ranges->count; i++)
		dlend_ram_add_due(ram, ranges->range[i].start, ranges->range[i].end - 1);
}

/* Members */

void dlend_members_use(struct dlend_memory *mem, bool user)
{
	struct dlend_ram *ram = mem->ram;

	lockdep_assert_held(&ram->lock);
	if (mem->user != user)
		ram->users += user ? 1 : -1;
	WRITE_ONCE(mem->user, user);
}

bool dlend_members_fenced(const struct dlend_ram *ram)
{
	const struct dlend_memory *mem;

	lockdep_assert_held(&ram->lock);
	/*
	 * A device that has stopped does not count any more.  A closed member counts in any case,
	 * as its vdev may use another lease by now; it leaves when the lender has the device back.
	 */
	dlend_for_each_member(mem, ram)
		if (mem->fenced && (mem->closed || !dlend_guest_memory_ops.quiesced(mem->v)))
			return true;
	return false;
}

void dlend_members_progress(struct dlend_ram *ram)
{
	struct dlend_memory *mem;

	lockdep_assert_held(&ram->lock);
	dlend_for_each_member(mem, ram)
		dlend_guest_memory_ops.progress(mem->v);
}

void dlend_members_call(struct dlend_ram *ram, void (*op)(struct dlend_vdev *v),
			const struct dlend_memory *except)
{
	struct dlend_memory *mem;

	lockdep_assert_held(&ram->loss_lock);
	dlend_for_each_member(mem, ram)
		if (READ_ONCE(mem->user) && mem != except)
			op(mem->v);
}

void dlend_members_shut(struct dlend_ram *ram)
{
	struct dlend_memory *mem;

	lockdep_assert_held(&ram->loss_lock);
	dlend_for_each_member(mem, ram) {
		mem->shut = READ_ONCE(mem->user);
		if (mem->shut)
			dlend_guest_memory_ops.unmapping(mem->v);
	}
}

void dlend_members_reopen(struct dlend_ram *ram, bool lost)
{
	struct dlend_memory *mem;

	lockdep_assert_held(&ram->loss_lock);
	dlend_for_each_member(mem, ram) {
		if (mem->shut)
			dlend_guest_memory_ops.unmapped(mem->v, lost);
		mem->shut = false;
	}
}

void dlend_members_grow(struct dlend_ram *ram, const struct dlend_memory *by)
{
	guard(mutex)(&ram->loss_lock);
	dlend_members_call(ram, dlend_guest_memory_ops.grown, by);
}
