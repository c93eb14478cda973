// SPDX-License-Identifier: GPL-2.0
/*
 * Guest RAM as an object: all that there is of it, references, and works.  See ram.h.
 *
 * Must not know what RAM is used for.
 */
#include <linux/slab.h>
#include <dlend/compat.h>

#include "unpin.h"

DEFINE_MUTEX(dlend_rams_lock);	/* @dlend_rams, @dlend_vms */
LIST_HEAD(dlend_rams);
static LIST_HEAD(dlend_vms);
static struct workqueue_struct *dlend_rams_wq;

struct dlend_vm *dlend_vm_get(const struct dlend_memory *mem)
{
	struct dlend_party vmm = dlend_vmm_party(mem->vmm.task);
	struct dlend_vm *vm;

	lockdep_assert_held(&dlend_rams_lock);
	list_for_each_entry(vm, &dlend_vms, node) {
		if (vm->kvm != mem->kvm || (!vm->kvm && !dlend_party_same(vm->vmm, vmm)))
			continue;
		kref_get(&vm->ref);
		return vm;
	}
	vm = kvzalloc_obj(*vm, DLEND_BOOKS_GFP);
	if (!vm)
		return NULL;
	if (dlend_unpin_init(vm)) {
		kvfree(vm);
		return NULL;
	}
	kref_init(&vm->ref);
	vm->kvm = mem->kvm;
	vm->vmm = vmm;
	mutex_init(&vm->watch_lock);
	list_add_tail(&vm->node, &dlend_vms);
	return vm;
}

static void dlend_vm_free(struct kref *ref)
{
	struct dlend_vm *vm = container_of(ref, struct dlend_vm, ref);

	lockdep_assert_held(&dlend_rams_lock);
	list_del(&vm->node);
	mutex_destroy(&vm->watch_lock);
	dlend_unpin_destroy(vm);
	kvfree(vm);
}

void dlend_vm_put(struct dlend_vm *vm)
{
	guard(mutex)(&dlend_rams_lock);
	kref_put(&vm->ref, dlend_vm_free);
}

static void dlend_ram_free(struct kref *ref)
{
	struct dlend_ram *ram = container_of(ref, struct dlend_ram, ref);

	list_del(&ram->node);
	kref_put(&ram->vm->ref, dlend_vm_free);
	mutex_unlock(&dlend_rams_lock);
	WARN_ON(ram->books.chunks || ram->books.extents || !list_empty(&ram->dead));
	dlend_books_destroy(&ram->books);
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
	/* It is queued already, and has its reference.  The caller's own is another one. */
	if (!queue_work(dlend_rams_wq, work))
		dlend_ram_put(ram);
}

int dlend_memory_start(void)
{
	/* A work waits for a peer: works of other VMs go on meanwhile. */
	dlend_rams_wq = alloc_workqueue("dlend-memory", WQ_UNBOUND, 0);
	return dlend_rams_wq ? 0 : -ENOMEM;
}

void dlend_memory_stop(void)
{
	destroy_workqueue(dlend_rams_wq);
}
