/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What KVM knows of a VM's memory: its memory slots, and when slots are added.  Only this file's .c
 * looks into struct kvm.  Without CONFIG_KVM there is no VM to ask.
 */
#ifndef DLEND_MDEV_MEMSLOTS_H
#define DLEND_MDEV_MEMSLOTS_H

#include <linux/kconfig.h>
#include "ranges.h"

struct dlend_follower;
struct kvm;

/**
 * typedef dlend_slots_fn - memory slots were added
 * @ctx: as given to dlend_follower_start()
 * @added: what is in slots now and was not before; NULL: nobody knows, it may be anything
 *
 * Context: a kernel thread, inside of KVM's SRCU: may sleep, while the VMM's call that adds the
 * slot waits; returns soon if kthread_should_stop().
 */
typedef void (*dlend_slots_fn)(void *ctx, const struct dlend_ranges *added);

#if IS_ENABLED(CONFIG_KVM)
/**
 * dlend_memslots_read - where a VM's RAM is
 * @kvm: (in) VM; the caller makes sure that it stays
 * @slots: (in, out) receives its memory slots, without BARs that the VMM has mapped there
 * @generation: (out) a number that changes with every slot
 *
 * Context: may sleep; takes the VMM's mmap_lock. Return: 0; -ENOMEM: some are missing.
 */
int dlend_memslots_read(struct kvm *kvm, struct dlend_ranges *slots, u64 *generation);

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
 * dlend_follower_start - tell of slots that are added from now on
 * @kvm: (in) VM; stays until dlend_follower_stop()
 * @added: (in) whom to tell
 * @changed: (in) called when slots have changed in whatever way; context as that of @added
 * @ctx: (in) for both
 *
 * @added is called within slots_check_us.  The VMM's call to add a slot does not return before
 * @added was called for that slot and has returned.
 *
 * Context: may sleep. Return: follower; ERR_PTR(-ENOMEM), or the error of making a thread.
 */
struct dlend_follower *dlend_follower_start(struct kvm *kvm, dlend_slots_fn added,
					    void (*changed)(void *ctx), void *ctx);

/**
 * dlend_follower_stop - tell no more: dlend_slots_fn does not run any more when this returns
 * @f: (in) follower; NULL: there is none
 *
 * Context: may sleep; waits for slots_check_us.
 */
void dlend_follower_stop(struct dlend_follower *f);
#else
static inline int dlend_memslots_read(struct kvm *kvm, struct dlend_ranges *slots, u64 *generation)
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

static inline struct dlend_follower *dlend_follower_start(struct kvm *kvm, dlend_slots_fn added,
							  void (*changed)(void *ctx), void *ctx)
{
	return NULL;
}

static inline void dlend_follower_stop(struct dlend_follower *f)
{
}
#endif

#endif
