/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What KVM knows of a VM's memory: its memory slots, and when they change.  The only place that
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
 * @ctx: as given to dlend_follow_start()
 * @added: what is in slots now and was not before; NULL: nobody knows, it may be anything
 *
 * Context: a thread, inside of KVM's SRCU: may sleep, but the VMM's call that adds the slot waits.
 */
typedef void (*dlend_slots_fn)(void *ctx, const struct dlend_ranges *added);

#if IS_ENABLED(CONFIG_KVM)
/**
 * dlend_memslots_read - where a VM's RAM is
 * @kvm: VM; the caller makes sure that it stays
 * @slots: receives its memory slots, without BARs that the VMM has mapped there
 * @generation: receives a number that changes with every slot
 *
 * Context: may sleep, takes the VMM's mmap_lock.  Return: 0, -ENOMEM.
 */
int dlend_memslots_read(struct kvm *kvm, struct dlend_ranges *slots, u64 *generation);
/** dlend_memslots_generation - changes with every slot. May sleep */
u64 dlend_memslots_generation(struct kvm *kvm);
/** dlend_memslots_is_ram - is @gpa in a slot, and no BAR? Context: as dlend_memslots_read() */
bool dlend_memslots_is_ram(struct kvm *kvm, u64 gpa);
/** dlend_memslots_confidential - is the VM's memory kept from its host, and so from its devices? */
bool dlend_memslots_confidential(const struct kvm *kvm);
/**
 * dlend_follow_start - tell of slots that are added from now on
 * @kvm: VM; stays until dlend_follow_stop()
 * @added, @ctx: whom to tell
 *
 * No VMM has its call to add a slot answered before @added was called for it and has returned; it
 * is called within slots_check_us.  Context: may sleep.  Return: ERR_PTR(-ENOMEM) or the follower.
 */
struct dlend_follower *dlend_follow_start(struct kvm *kvm, dlend_slots_fn added, void *ctx);
/** dlend_follow_stop - @added is not called any more; NULL is none. Waits for slots_check_us */
void dlend_follow_stop(struct dlend_follower *f);
#else
static inline int dlend_memslots_read(struct kvm *kvm, struct dlend_ranges *slots, u64 *generation)
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

static inline struct dlend_follower *dlend_follow_start(struct kvm *kvm, dlend_slots_fn added,
							void *ctx)
{
	return NULL;
}

static inline void dlend_follow_stop(struct dlend_follower *f)
{
}
#endif

#endif
