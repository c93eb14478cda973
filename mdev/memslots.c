// SPDX-License-Identifier: GPL-2.0
/*
 * A VM's memory slots: see memslots.h.
 *
 * Uses only inline functions of KVM and exported functions of SRCU: no symbol of KVM's modules.
 */
#include <linux/kvm_host.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/srcu.h>
#include "memslots.h"

/*
 * Flags of the mapping, if it is a BAR: QEMU makes slots of mapped BARs, too.  One of a device that
 * the host itself passes through has VM_PFNMAP; a borrowed device's has not.  mmap_lock is held.
 */
static unsigned long dlend_memslots_bar(struct mm_struct *mm, unsigned long hva)
{
	struct vm_area_struct *vma = vma_lookup(mm, hva);

	return vma ? vma->vm_flags & (VM_IO | VM_PFNMAP) : 0;
}

static u64 dlend_memslots_start(const struct kvm_memory_slot *slot)
{
	return (u64)slot->base_gfn << PAGE_SHIFT;
}

static u64 dlend_memslots_end(const struct kvm_memory_slot *slot)
{
	return (u64)(slot->base_gfn + slot->npages) << PAGE_SHIFT;
}

/*
 * Slots of BARs that the host passes through, or else of RAM.  KVM's SRCU and mmap_lock are held.
 */
static int dlend_memslots_collect(struct kvm *kvm, bool passed, struct dlend_ranges *out)
{
	struct kvm_memslots *slots = kvm_memslots(kvm);
	struct kvm_memory_slot *slot;
	unsigned long bar;
	int bkt, err;

	kvm_for_each_memslot(slot, bkt, slots) {
		/* Those of KVM's own are no RAM of the guest's. */
		if (slot->flags & KVM_MEMSLOT_INVALID || slot->id >= KVM_USER_MEM_SLOTS)
			continue;
		bar = dlend_memslots_bar(kvm->mm, slot->userspace_addr);
		if (passed ? !(bar & VM_PFNMAP) : bar)
			continue;
		err = dlend_ranges_add(out, dlend_memslots_start(slot), dlend_memslots_end(slot));
		if (err)
			return err;
	}
	return 0;
}

static int dlend_memslots_pick(struct kvm *kvm, bool passed, struct dlend_ranges *out,
			       u64 *generation)
{
	int idx, err = 0;

	*generation = 0;
	if (!kvm)
		return 0;
	idx = srcu_read_lock(&kvm->srcu);
	*generation = kvm_memslots(kvm)->generation;
	/* A VMM that has exited has no memory. */
	if (mmget_not_zero(kvm->mm)) {
		mmap_read_lock(kvm->mm);
		err = dlend_memslots_collect(kvm, passed, out);
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

int dlend_memslots_read(struct kvm *kvm, struct dlend_memslots *slots)
{
	int err;

	dlend_ranges_clear(&slots->ranges);
	err = dlend_memslots_pick(kvm, false, &slots->ranges, &slots->generation);
	if (err)
		dlend_ranges_clear(&slots->ranges);
	return err;
}

int dlend_memslots_passed(struct kvm *kvm, struct dlend_ranges *bars)
{
	u64 generation;

	return dlend_memslots_pick(kvm, true, bars, &generation);
}

u64 dlend_memslots_generation(struct kvm *kvm)
{
	u64 generation;
	int idx;

	if (!kvm)
		return 0;
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
		ram = !dlend_memslots_bar(kvm->mm, hva);
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

/* Sparse follows a lock within one function only. */
int dlend_memslots_enter(struct kvm *kvm)
{
	int section = 0;

	if (kvm) {
		section = srcu_read_lock(&kvm->srcu);
		__release(&kvm->srcu);
	}
	return section;
}

void dlend_memslots_leave(struct kvm *kvm, int section)
{
	if (kvm) {
		__acquire(&kvm->srcu);
		srcu_read_unlock(&kvm->srcu, section);
	}
}

bool dlend_memslots_runs(struct kvm *kvm)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;

	if (!kvm)
		return false;
	kvm_for_each_vcpu(i, vcpu, kvm)
		if (READ_ONCE(vcpu->mode) != OUTSIDE_GUEST_MODE)
			return true;
	return false;
}
