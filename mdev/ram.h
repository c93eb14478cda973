/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest RAM in this node's aperture, shared by all devices that a VM borrows over one link, and
 * what each of them (memory.c) has of it.  ram.c's and memory.c's only.
 */
#ifndef DLEND_MDEV_RAM_H
#define DLEND_MDEV_RAM_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "books.h"
#include "memory.h"
#include "prober.h"
#include "ranges.h"
#include "unmap_calls.h"

struct dlend_aperture;
struct kvm;
struct page;

/* Pages of one VFIO call: two of them are what another user of the container waits for. */
#define DLEND_PIN_BATCH	64u

/**
 * struct dlend_vm - what all RAM of a VM has in common, over whatever links
 * @node: among all
 * @ref: its RAM's
 * @kvm: never dereferenced
 * @vmm: process that opened the first device, for those without KVM
 * @lock: @unmaps
 * @unmaps: under way, whichever device was told
 */
struct dlend_vm {
	struct list_head node;
	struct kref ref;
	const struct kvm *kvm;
	pid_t vmm;
	struct mutex lock;		/* @unmaps */
	struct dlend_unmap_calls unmaps;
};

/**
 * struct dlend_ram - RAM of one VM, pinned, in the aperture of one session of one link
 * @node: among all
 * @ref: the members'
 * @vm: whose
 * @kvm: VM; never dereferenced
 * @iommufd: by what its memory is mapped, /dev/iommu or the legacy container
 * @lowmem: where the admin says that RAM below 4 GiB ends, 0 = not said
 * @link: towards the lender
 * @session: of @link
 * @build_lock: see ram.c
 * @unpin_lock: see ram.c
 * @lock: see ram.c; guards all that follows
 * @books: what is pinned and mapped
 * @ap: this node's aperture, NULL once the link is down
 * @member: by number, NULL: none
 * @users: how many of them want the windows
 * @over: all its members were closed: nobody may join, for @kvm may be another VM by now
 * @lost: grows with everything that a running build must notice
 * @last_loss: jiffies, when the last dma_unmap was through that took what may come back
 * @unmapping: dma_unmap calls under way
 * @pins: how many were, well or not
 * @pin_done: somebody waits for one
 * @build: number of the current or last build
 * @due: where RAM may have come, or come back, since it was looked for; @due_all: anywhere
 * @dead: extents that members must hear are gone
 * @tell_work: tells them
 * @down_work: unpins after the link went down
 */
struct dlend_ram {
	struct list_head node;
	struct kref ref;
	struct dlend_vm *vm;
	const struct kvm *kvm;
	bool iommufd;
	u64 lowmem;
	struct dlend_link *link;
	u64 session;

	struct mutex build_lock;	/* see ram.c */
	struct mutex unpin_lock;	/* see ram.c */
	struct mutex lock;		/* see ram.c */
	struct dlend_books books;
	struct dlend_aperture *ap;
	struct dlend_memory *member[DLEND_TOLD_MAX];
	unsigned int users;
	bool over;
	u64 lost;
	unsigned long last_loss;
	unsigned int unmapping;
	u32 pins;
	wait_queue_head_t pin_done;
	u32 build;
	struct dlend_ranges due;
	bool due_all;
	struct list_head dead;
	struct work_struct tell_work;
	struct work_struct down_work;
};

/**
 * struct dlend_memory - a member: the part that one lease has in it
 * @ram: shared
 * @id: its number there
 * @vdev: through which it pins
 * @ops, @ctx: whom to tell what others do
 * @addr: device
 * @epoch: lease
 * @vmm: process that opened the device
 * @close_lock: see ram.c
 * @user: has built, or builds, and wants what stands (ram->lock)
 * @closed: nothing is pinned through @vdev any more, nor told for it (ram->lock)
 * @emptied: closed, and what was pinned through @vdev is gone, too
 * @via, @pin_gpa, @pin_last: pin call under way on its behalf, and through whom; @pin_last is
 *	below @pin_gpa if there is none (ram->lock)
 * @build: number of its current or last build
 * @build_lost: ram->lost when it began
 * @pinned_most: bytes that were in the books at most since then
 * @pin_err: why the last pin call failed for good
 * @pages: of one pin call
 * @due, @due_all: of @ram, as the current build took them; @walk: where it looks for RAM, then
 * @unpinnable: where RAM was that cannot be pinned
 * @slots: the VM's memory slots, as of @slots_generation; none: not known
 * @look: where the next dlend_memory_look() goes on
 * @repairs: builds that repaired something
 * @repairs_since: jiffies when their counting began
 * @memlock: the VMM's limit in bytes, 0 = unknown
 * @reason: why the last build failed (ram->lock)
 * @stat: numbers
 */
struct dlend_memory {
	struct dlend_ram *ram;
	u32 id;
	struct vfio_device *vdev;
	const struct dlend_memory_ops *ops;
	void *ctx;
	struct dlend_addr addr;
	u32 epoch;
	pid_t vmm;

	struct mutex close_lock;	/* see ram.c */
	bool user, closed, emptied;
	struct dlend_memory *via;
	u64 pin_gpa, pin_last;

	u32 build;
	u64 build_lost;
	u64 pinned_most;
	int pin_err;
	struct page *pages[DLEND_CHUNK_PAGES];
	struct dlend_ranges due, walk, slots;
	bool due_all;
	u64 slots_generation, unpinnable;
	struct dlend_prober_turn look;
	unsigned int repairs;
	unsigned long repairs_since;
	u64 memlock;
	char reason[DLEND_REASON_LEN];
	struct dlend_memory_stat stat;
};

/**
 * dlend_ram_join - to the RAM of the same VM, over the same link, if there is such; else to its own
 * @mem: all but @ram and @id filled in
 * @link: towards the lender (a reference is taken)
 * @lowmem: see struct dlend_ram
 *
 * Return: 0, -ENOTCONN, -ENOMEM. Process context.
 */
int dlend_ram_join(struct dlend_memory *mem, struct dlend_link *link, u64 lowmem);
/** dlend_ram_leave - the end of a member that was closed; @fenced: see dlend_extent_leave() */
void dlend_ram_leave(struct dlend_memory *mem, bool fenced);

/** dlend_ram_use - does @mem want the windows? ram->lock held */
void dlend_ram_use(struct dlend_memory *mem, bool user);
/** dlend_ram_note_loss - a running build has to give way. ram->lock held */
void dlend_ram_note_loss(struct dlend_ram *ram);

/** dlend_ram_disturbed - has anything happened that the running build must give way to? */
static inline bool dlend_ram_disturbed(const struct dlend_memory *mem)
{
	return READ_ONCE(mem->ram->lost) != mem->build_lost || READ_ONCE(mem->closed) ||
	       !READ_ONCE(mem->ram->ap) || mem->ops->stop(mem->ctx);
}

/** dlend_ram_due - @gpa..@last is to be looked at by the next build. ram->lock held */
void dlend_ram_due(struct dlend_ram *ram, u64 gpa, u64 last);

/**
 * dlend_ram_pin_begin - from now on dma_unmap of it waits
 *
 * Return: 0; -EINTR give way; -EBUSY some of it is being unmapped just now, ask again.
 */
int dlend_ram_pin_begin(struct dlend_memory *mem, u64 gpa, u32 npages);
/** dlend_ram_pin_end - of what dlend_ram_pin_begin() began; @grown: it is in the books now */
void dlend_ram_pin_end(struct dlend_memory *mem, bool grown);
/** dlend_ram_progress - tell all members that a build has come further */
void dlend_ram_progress(struct dlend_ram *ram);
/** dlend_ram_pin_batch - one call to VFIO, of @npages that it can take at once */
int dlend_ram_pin_batch(struct dlend_memory *via, u64 gpa, u32 npages, u32 prot,
			struct page **pages);
/** dlend_ram_unpin_pages - as they were pinned, batch by batch */
void dlend_ram_unpin_pages(const struct dlend_memory *via, u64 gpa, u32 npages);
/** dlend_ram_unpin_chunks - what was taken out of the books (and the aperture). unpin_lock held */
void dlend_ram_unpin_chunks(struct list_head *out);
/** dlend_ram_unmap_chunks - out of the aperture, one flush per run. ram->lock held */
void dlend_ram_unmap_chunks(struct dlend_ram *ram, struct list_head *out);
/** dlend_ram_retire - slots of extents that left the books; ram->lock held */
void dlend_ram_retire(struct dlend_ram *ram, struct list_head *gone);
/** dlend_ram_forget_dead - an extent of which nobody may hear any more. ram->lock held */
void dlend_ram_forget_dead(struct dlend_ram *ram, struct dlend_extent *extent);

/* What a dma_unmap has found. */
enum dlend_loss {
	DLEND_LOSS_NONE,	/* nothing */
	DLEND_LOSS_GONE,	/* memory that was unplugged: what is left stands as it did */
	DLEND_LOSS_RETURNS,	/* memory that may come back at once: to be built anew */
};

/** dlend_ram_returns - may some of @gpa..@last come back if it is taken away? */
bool dlend_ram_returns(struct dlend_ram *ram, u64 gpa, u64 last);
/**
 * dlend_ram_lose - dma_unmap, whoever is told of it
 * @by: who that is, knows what is going on; all others are told, if it may come back
 *
 * Memory that was unplugged is unmapped and unpinned, and that is all: no gate is shut, no build is
 * disturbed, and lenders hear of extents that have become empty by the way.  Whoever still has DMA
 * under way there meets an IOMMU that blocks it.
 */
enum dlend_loss dlend_ram_lose(struct dlend_ram *ram, struct dlend_memory *by, u64 gpa, u64 last);
/** dlend_vm_unmaps - a dma_unmap of @gpa..@last begins, or @ends */
void dlend_vm_unmaps(struct dlend_vm *vm, u64 gpa, u64 last, bool ends);
/**
 * dlend_ram_settle - dlend_books_settle(), and the slots of extents that did not stay
 *
 * If that takes what stands out of the windows, all gates are shut before, and all build anew.
 */
void dlend_ram_settle(struct dlend_ram *ram);
/** dlend_ram_grown - others than @by have something new to tell their lender */
void dlend_ram_grown(struct dlend_ram *ram, const struct dlend_memory *by);
/** dlend_ram_drop_all - out of the books, the aperture, and unpinned. build_lock held */
void dlend_ram_drop_all(struct dlend_ram *ram);
/** dlend_ram_close - nothing is pinned through @mem when this returns, nor will be */
void dlend_ram_close(struct dlend_memory *mem);
void dlend_ram_link_down(struct dlend_ram *ram);
/** dlend_ram_fence - all of it out of the aperture, until a build maps it again. ram->lock held */
void dlend_ram_fence(struct dlend_ram *ram);

/** dlend_memory_tell_work - memory.c's: tells members of ram->dead */
void dlend_memory_tell_work(struct work_struct *work);

#endif
