// SPDX-License-Identifier: GPL-2.0
/*
 * A VM's memory slots: see memslots.h.
 *
 * A VMM that plugs RAM in maps it by VFIO, then adds a memory slot, then tells the guest.  KVM
 * tells nobody of a new slot; but its call to add one does not return before every reader of its
 * SRCU that was there when the slot appeared is through.  So a thread of ours is such a reader all
 * the time: each section begins before the one before it ends, and in between it looks whether the
 * slots are others.  Whatever is to be done before a guest can hear of its new RAM is done right
 * there.
 *
 * What that costs: a wake-up per slots_check_us while a device is in use, and as much, once or
 * twice, for the VMM's calls that change slots (some dozens when a VM starts).
 *
 * Only inlines of KVM's and exported functions of SRCU's are used: no symbol of KVM's modules.
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

static unsigned int slots_check_us = 2000;
module_param(slots_check_us, uint, 0644);
MODULE_PARM_DESC(slots_check_us, "microseconds between looks whether a VM's memory slots have changed, which the VMM waits for when it changes them");

/**
 * struct dlend_follower - of one VM's slots, for one device
 * @kvm: VM
 * @added: whom to tell
 * @ctx: for it
 * @seen: slots, as they were last
 * @generation: of them
 * @task: the thread
 */
struct dlend_follower {
	struct kvm *kvm;
	dlend_slots_fn added;
	void *ctx;
	struct dlend_ranges seen;
	u64 generation;
	struct task_struct *task;
};

/* A BAR that the VMM has mapped: QEMU makes slots of these as well. mmap_lock is held. */
static bool hva_is_bar(struct mm_struct *mm, unsigned long hva)
{
	struct vm_area_struct *vma = vma_lookup(mm, hva);

	return vma && vma->vm_flags & (VM_IO | VM_PFNMAP);
}

static u64 slot_start(const struct kvm_memory_slot *slot)
{
	return (u64)slot->base_gfn << PAGE_SHIFT;
}

static u64 slot_end(const struct kvm_memory_slot *slot)
{
	return (u64)(slot->base_gfn + slot->npages) << PAGE_SHIFT;
}

/* KVM's SRCU and mmap_lock are held. */
static int read_slots(struct kvm *kvm, struct dlend_ranges *out)
{
	struct kvm_memslots *slots = kvm_memslots(kvm);
	struct kvm_memory_slot *slot;
	int bkt, err;

	kvm_for_each_memslot(slot, bkt, slots) {
		if (slot->flags & KVM_MEMSLOT_INVALID ||
		    hva_is_bar(kvm->mm, slot->userspace_addr))
			continue;
		err = dlend_ranges_add(out, slot_start(slot), slot_end(slot));
		if (err)
			return err;
	}
	return 0;
}

int dlend_memslots_read(struct kvm *kvm, struct dlend_ranges *slots, u64 *generation)
{
	int idx, err = 0;

	idx = srcu_read_lock(&kvm->srcu);
	*generation = kvm_memslots(kvm)->generation;
	/* A VMM that is gone has no memory. */
	if (mmget_not_zero(kvm->mm)) {
		mmap_read_lock(kvm->mm);
		err = read_slots(kvm, slots);
		mmap_read_unlock(kvm->mm);
		/* The last one takes all its memory apart: not in here, where KVM is waited for. */
		mmput_async(kvm->mm);
	}
	srcu_read_unlock(&kvm->srcu, idx);
	return err;
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
		unsigned long hva = slot->userspace_addr + (gpa - slot_start(slot));

		if (gpa < slot_start(slot) || gpa >= slot_end(slot) || !mmget_not_zero(kvm->mm))
			continue;
		mmap_read_lock(kvm->mm);
		ram = !hva_is_bar(kvm->mm, hva);
		mmap_read_unlock(kvm->mm);
		mmput_async(kvm->mm);
	}
	srcu_read_unlock(&kvm->srcu, idx);
	return ram;
}

bool dlend_memslots_confidential(const struct kvm *kvm)
{
#ifdef CONFIG_X86
	/* SEV-ES of a VMM that starts it the old way has a VM of the default type. */
	return kvm->arch.vm_type != KVM_X86_DEFAULT_VM || kvm->arch.has_protected_state;
#else
	return false;
#endif
}

/* Inside of KVM's SRCU. */
static void tell_added(struct dlend_follower *f)
{
	struct dlend_ranges now = {}, added = {};
	int err;

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
	/* Half of it is not what was seen. */
	if (err)
		dlend_ranges_clear(&f->seen);
}

static void check(struct dlend_follower *f)
{
	if (kvm_memslots(f->kvm)->generation != f->generation)
		tell_added(f);
}

static int follow(void *arg)
{
	struct dlend_follower *f = arg;
	int idx = srcu_read_lock(&f->kvm->srcu), next;
	unsigned int us;

	check(f);
	while (!kthread_should_stop()) {
		us = clamp(READ_ONCE(slots_check_us), 50u, 100000u);
		usleep_range_state(us, us + us / 4, TASK_IDLE);
		/*
		 * The next section begins before the check, and this one ends after it: slots that
		 * come before the check wait for this one, those that come later for the next.
		 */
		next = srcu_read_lock(&f->kvm->srcu);
		check(f);
		srcu_read_unlock(&f->kvm->srcu, idx);
		idx = next;
	}
	srcu_read_unlock(&f->kvm->srcu, idx);
	return 0;
}

struct dlend_follower *dlend_follow_start(struct kvm *kvm, dlend_slots_fn added, void *ctx)
{
	struct dlend_follower *f = kzalloc_obj(*f);
	int err = -ENOMEM;

	if (!f)
		return ERR_PTR(err);
	f->kvm = kvm;
	f->added = added;
	f->ctx = ctx;
	err = dlend_memslots_read(kvm, &f->seen, &f->generation);
	if (err)
		goto err_free;
	f->task = kthread_run(follow, f, "dlend-memslots");
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

void dlend_follow_stop(struct dlend_follower *f)
{
	if (!f)
		return;
	kthread_stop(f->task);
	dlend_ranges_clear(&f->seen);
	kfree(f);
}
