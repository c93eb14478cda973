/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What KVM knows of a VM's memory: its memory slots, and when slots are added.  Only this file's .c
 * looks into struct kvm.  Without CONFIG_KVM there is no VM to ask.
 */
#ifndef DLEND_MDEV_MEMSLOTS_H
#define DLEND_MDEV_MEMSLOTS_H

#include <linux/kconfig.h>
#include "ranges.h"

struct kvm;

/**
 * struct dlend_memslots - what is known of a VM's slots; all zero: nothing
 * @ranges: they cover
 * @generation: which state of the slots that is
 */
struct dlend_memslots {
	struct dlend_ranges ranges;
	u64 generation;
};

#if IS_ENABLED(CONFIG_KVM)
/**
 * dlend_memslots_read - where a VM's RAM is
 * @kvm: (in) VM; the caller makes sure that it stays; NULL: there are no slots
 * @slots: (in, out) its memory slots as they are now, without BARs that the VMM has mapped there
 *
 * Context: may sleep; takes the VMM's mmap_lock. Return: 0; -ENOMEM: the ranges are empty.
 */
int dlend_memslots_read(struct kvm *kvm, struct dlend_memslots *slots);

/**
 * dlend_memslots_passed - where BARs of devices are that the host itself passes through to a VM
 * @kvm: (in) VM; the caller makes sure that it stays
 * @bars: (in, out) receives them, as the VMM has mapped them
 *
 * Context: may sleep; takes the VMM's mmap_lock. Return: 0; -ENOMEM: some are missing.
 */
int dlend_memslots_passed(struct kvm *kvm, struct dlend_ranges *bars);

/** dlend_memslots_generation - a number that changes with every slot. Context: may sleep. */
u64 dlend_memslots_generation(struct kvm *kvm);

/**
 * dlend_memslots_is_ram - is an address in a slot, and not in a BAR?
 * @kvm: (in) VM; the caller makes sure that it stays
 * @gpa: (in) guest-physical address
 *
 * Context: may sleep; takes the VMM's mmap_lock.
 */
bool dlend_memslots_is_ram(struct kvm *kvm, u64 gpa);

/** dlend_memslots_confidential - is the VM's memory hidden from its host? Context: any. */
bool dlend_memslots_confidential(const struct kvm *kvm);

/**
 * dlend_memslots_enter - from now on no call that changes slots returns
 * @kvm: (in) VM, stays; or NULL
 *
 * Context: may sleep. Return: for dlend_memslots_leave().
 */
int dlend_memslots_enter(struct kvm *kvm);

/** dlend_memslots_leave - they do, but for those after a later enter(). Context: may sleep. */
void dlend_memslots_leave(struct kvm *kvm, int section);

/** dlend_memslots_runs - is one of the VM's processors in the guest? @kvm stays. Context: any. */
bool dlend_memslots_runs(struct kvm *kvm);
#else
static inline int dlend_memslots_read(struct kvm *kvm, struct dlend_memslots *slots)
{
	return 0;
}

static inline int dlend_memslots_passed(struct kvm *kvm, struct dlend_ranges *bars)
{
	return 0;
}

static inline u64 dlend_memslots_generation(struct kvm *kvm)
{
	return 0;
}

static inline bool dlend_memslots_is_ram(struct kvm *kvm, u64 gpa)
{
	return false;
}

static inline bool dlend_memslots_confidential(const struct kvm *kvm)
{
	return false;
}

static inline int dlend_memslots_enter(struct kvm *kvm)
{
	return 0;
}

static inline void dlend_memslots_leave(struct kvm *kvm, int section)
{
}

static inline bool dlend_memslots_runs(struct kvm *kvm)
{
	return false;
}
#endif

#endif
