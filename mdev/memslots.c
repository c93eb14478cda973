// SPDX-License-Identifier: GPL-2.0
/*
 * A VM's memory slots: see memslots.h.
 *
 * A VMM that plugs in RAM maps it for VFIO, then adds a memory slot, then tells the guest.  KVM
 * tells nobody of a new slot.  But KVM's call that adds it does not return before all readers of
 * KVM's SRCU are through that were reading when the slot appeared.  So a thread here is such a
 * reader all the time: each of its reading sections begins before the section before it ends, and
 * between the two it looks whether the slots have changed.  There it does all that must be done
 * before a guest can hear of its new RAM, and waits until that is done.
 *
 * The price: the thread wakes up each slots_check_us while a device is in use, and the VMM's calls
 * that change slots (some dozens when a VM starts) wait as long, once or twice.
 *
 * Uses only inline functions of KVM and exported functions of SRCU: no symbol of KVM's modules.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/kvm_host.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/sched/mm.h>
#include <linux/srcu.h>
#include <dlend/compat.h>
#include "memslots.h"

/* Less would keep a CPU busy; more would make VMMs wait too long. */
#define DLEND_CHECK_MIN_US	50u
#define DLEND_CHECK_MAX_US	100000u

static unsigned int slots_check_us = 2000;
module_param(slots_check_us, uint, 0644);
MODULE_PARM_DESC(slots_check_us, "microseconds between looks whether a VM's memory slots have changed, which the VMM waits for when it changes them");

/**
 * struct dlend_follower - follows one VM's slots, for one device
 * @kvm: VM
 * @added: whom to tell of a slot
 * @changed: whom to tell of all, when there were others
 * @ctx: for both
 * @seen: slots, as they were when looked at last
 * @generation: of @seen
 * @task: the thread
 */
struct dlend_follower {
	struct kvm *kvm;
	dlend_slots_fn added;
	void (*changed)(void *ctx);
	void *ctx;
	struct dlend_ranges seen;
	u64 generation;
	struct task_struct *task;
};

/* Is a BAR mapped there?  QEMU makes slots of mapped BARs, too.  mmap_lock is held. */
static bool dlend_memslots_hva_is_bar(struct mm_struct *mm, unsigned long hva)
{
	struct vm_area_struct *vma = vma_lookup(mm, hva);

	return vma && vma->vm_flags & (VM_IO | VM_PFNMAP);
}

/* Is it one of a device that the host itself passes through?  A borrowed device's has no PFNMAP. */
static bool dlend_memslots_hva_is_passed(struct mm_struct *mm, unsigned long hva)
{
	struct vm_area_struct *vma = vma_lookup(mm, hva);

	return vma && vma->vm_flags & VM_PFNMAP;
}

static u64 dlend_memslots_start(const struct kvm_memory_slot *slot)
{
	return (u64)slot->base_gfn << PAGE_SHIFT;
}

static u64 dlend_memslots_end(const struct kvm_memory_slot *slot)
{
	return (u64)(slot->base_gfn + slot->npages) << PAGE_SHIFT;
}

typedef bool (*dlend_memslots_pick)(struct mm_struct *mm, unsigned long hva);

static bool dlend_memslots_hva_is_ram(struct mm_struct *mm, unsigned long hva)
{
	return !dlend_memslots_hva_is_bar(mm, hva);
}

/* KVM's SRCU and mmap_lock are held. */
static int dlend_memslots_collect(struct kvm *kvm, dlend_memslots_pick pick,
				  struct dlend_ranges *out)
{
	struct kvm_memslots *slots = kvm_memslots(kvm);
	struct kvm_memory_slot *slot;
	int bkt, err;

	kvm_for_each_memslot(slot, bkt, slots) {
		if (slot->flags & KVM_MEMSLOT_INVALID || !pick(kvm->mm, slot->userspace_addr))
			continue;
		err = dlend_ranges_add(out, dlend_memslots_start(slot), dlend_memslots_end(slot));
		if (err)
			return err;
	}
	return 0;
}

static int dlend_memslots_pick_all(struct kvm *kvm, dlend_memslots_pick pick,
				   struct dlend_ranges *out, u64 *generation)
{
	int idx, err = 0;

	idx = srcu_read_lock(&kvm->srcu);
	*generation = kvm_memslots(kvm)->generation;
	/* A VMM that has exited has no memory. */
	if (mmget_not_zero(kvm->mm)) {
		mmap_read_lock(kvm->mm);
		err = dlend_memslots_collect(kvm, pick, out);
		mmap_read_unlock(kvm->mm);
		/*
		 * If this is the last reference, all of the VMM's memory is taken apart: later,
		 * because KVM may be waiting for this reader.
		 */
		mmput_async(kvm->mm);
	}
	srcu_read_unlock(&kvm->srcu, idx);
	return err;
}

int dlend_memslots_read(struct kvm *kvm, struct dlend_ranges *slots, u64 *generation)
{
	return dlend_memslots_pick_all(kvm, dlend_memslots_hva_is_ram, slots, generation);
}

int dlend_memslots_passed(struct kvm *kvm, struct dlend_ranges *bars)
{
	u64 generation;

	return dlend_memslots_pick_all(kvm, dlend_memslots_hva_is_passed, bars, &generation);
}

u64 dlend_memslots_generation(struct kvm *kvm)
{
	u64 generation;
	int idx;

	idx = srcu_read_lock(&kvm->srcu);
	generation = kvm_memslots(kvm)->generation;
	srcu_read_unlock(&kvm->srcu, idx);
	return generation;
}

bool dlend_memslots_is_ram(struct kvm *kvm, u64 gpa)
{
	struct kvm_memory_slot *slot;
	bool ram = false;
	int idx, bkt;

	idx = srcu_read_lock(&kvm->srcu);
	kvm_for_each_memslot(slot, bkt, kvm_memslots(kvm)) {
		unsigned long hva = slot->userspace_addr + (gpa - dlend_memslots_start(slot));

		if (gpa < dlend_memslots_start(slot) || gpa >= dlend_memslots_end(slot) ||
		    !mmget_not_zero(kvm->mm))
			continue;
		mmap_read_lock(kvm->mm);
		ram = !dlend_memslots_hva_is_bar(kvm->mm, hva);
		mmap_read_unlock(kvm->mm);
		mmput_async(kvm->mm);
	}
	srcu_read_unlock(&kvm->srcu, idx);
	return ram;
}

bool dlend_memslots_confidential(const struct kvm *kvm)
{
#ifdef CONFIG_X86
	/* A VMM may start SEV-ES the old way: then the VM is of the default type. */
	return kvm->arch.vm_type != KVM_X86_DEFAULT_VM || kvm->arch.has_protected_state;
#else
	return false;
#endif
}

/* Tell what was added.  Inside of a reading section of KVM's SRCU. */
static void dlend_follower_tell(struct dlend_follower *f)
{
	struct dlend_ranges now = {}, added = {};
	int err;

	f->changed(f->ctx);
	err = dlend_memslots_read(f->kvm, &now, &f->generation);
	if (!err)
		err = dlend_ranges_add_without(&added, &now, &f->seen);
	if (err)
		f->added(f->ctx, NULL);
	else if (added.count)
		f->added(f->ctx, &added);
	dlend_ranges_clear(&added);
	dlend_ranges_clear(&f->seen);
	f->seen = now;
	/* It is incomplete: next time everything counts as new. */
	if (err)
		dlend_ranges_clear(&f->seen);
}

static void dlend_follower_check(struct dlend_follower *f)
{
	if (kvm_memslots(f->kvm)->generation != f->generation)
		dlend_follower_tell(f);
}

static int dlend_follower_run(void *arg)
{
	struct dlend_follower *f = arg;
	int idx = srcu_read_lock(&f->kvm->srcu), next;
	unsigned int us;

	dlend_follower_check(f);
	while (!kthread_should_stop()) {
		us = clamp(READ_ONCE(slots_check_us), DLEND_CHECK_MIN_US, DLEND_CHECK_MAX_US);
		usleep_range_state(us, us + us / 4, TASK_IDLE);
		/*
		 * The next section begins before the check, and this one ends after it: slots that
		 * come before the check wait for this one, those that come later for the next.
		 */
		next = srcu_read_lock(&f->kvm->srcu);
		dlend_follower_check(f);
		srcu_read_unlock(&f->kvm->srcu, idx);
		idx = next;
	}
	srcu_read_unlock(&f->kvm->srcu, idx);
	return 0;
}

struct dlend_follower *dlend_follower_start(struct kvm *kvm, dlend_slots_fn added,
					    void (*changed)(void *ctx), void *ctx)
{
	struct dlend_follower *f = kzalloc_obj(*f);
	int err = -ENOMEM;

	if (!f)
		return ERR_PTR(err);
	f->kvm = kvm;
	f->added = added;
	f->changed = changed;
	f->ctx = ctx;
	err = dlend_memslots_read(kvm, &f->seen, &f->generation);
	if (err)
		goto err_free;
	f->task = kthread_run(dlend_follower_run, f, "dlend-memslots");
	if (IS_ERR(f->task)) {
		err = PTR_ERR(f->task);
		goto err_free;
	}
	return f;

err_free:
	dlend_ranges_clear(&f->seen);
	kfree(f);
	return ERR_PTR(err);
}

void dlend_follower_stop(struct dlend_follower *f)
{
	if (!f)
		return;
	kthread_stop(f->task);
	dlend_ranges_clear(&f->seen);
	kfree(f);
}
