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
#include <dlend/layout.h>

#include "extent.h"
#include "memory.h"

struct dlend_aperture;
struct kvm;
struct page;

/*
 * VFIO asks again while it finds pins in what it is about to unmap, and type1 gives up with a
 * BUG after ten times: do not pin again before it is through.
 */
#define DLEND_SETTLE_MS	20

/* Pages of one VFIO call: two of them are what another user of the container waits for. */
#define DLEND_PIN_BATCH	64u

/**
 * struct dlend_ram - RAM of one VM, pinned, in the aperture of one session of one link
 * @node: among all
 * @ref: the members'
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
 * @over: all that used it were closed: nobody may join, for @kvm may be another VM by now
 * @lost: grows with everything that a running build must notice
 * @last_loss: jiffies, when the last dma_unmap that found something was through
 * @unmapping: dma_unmap calls under way
 * @pins: how many were, well or not
 * @pin_done: somebody waits for one
 * @build: number of the current or last build
 * @dead: extents that members must hear are gone
 * @tell_work: tells them
 * @down_work: unpins after the link went down
 */
struct dlend_ram {
	struct list_head node;
	struct kref ref;
	const struct kvm *kvm;
	bool iommufd;
	u64 lowmem;
	struct dlend_link *link;
	u64 session;

	struct mutex build_lock;	/* see ram.c */
	struct mutex unpin_lock;	/* see ram.c */
	struct mutex lock;		/* see ram.c */
	struct dlend_extents books;
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
 * @close_lock: see ram.c
 * @user: has built, or builds, and wants what stands (ram->lock)
 * @closed: nothing is pinned through @vdev any more, nor told for it (ram->lock)
 * @emptied: closed, and what was pinned through @vdev is gone, too
 * @dropping: a drop wants the build_lock: no pin, no map (ram->lock)
 * @via, @pin_gpa, @pin_last: pin call under way on its behalf, and through whom; @pin_last is
 *	below @pin_gpa if there is none (ram->lock)
 * @build: number of its current or last build
 * @build_lost: ram->lost when it began
 * @pin_err: why the last pin call failed for good
 * @pages: of one pin call
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

	struct mutex close_lock;	/* see ram.c */
	bool user, closed, emptied;
	unsigned int dropping;
	struct dlend_memory *via;
	u64 pin_gpa, pin_last;

	u32 build;
	u64 build_lost;
	int pin_err;
	struct page *pages[DLEND_CHUNK_PAGES];
	unsigned int repairs;
	unsigned long repairs_since;
	u64 memlock;
	char reason[DLEND_REASON_LEN];
	struct dlend_memory_stat stat;
};

static inline u64 dlend_chunk_bytes(const struct dlend_chunk *chunk)
{
	return (u64)chunk->npages * PAGE_SIZE;
}

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
	return READ_ONCE(mem->ram->lost) != mem->build_lost || READ_ONCE(mem->dropping) ||
	       READ_ONCE(mem->closed) || !READ_ONCE(mem->ram->ap);
}

/** dlend_ram_pin_begin - from now on dma_unmap of it waits. Return: 0, or -EINTR give way */
int dlend_ram_pin_begin(struct dlend_memory *mem, u64 gpa, u32 npages);
void dlend_ram_pin_end(struct dlend_memory *mem);
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

/**
 * dlend_ram_lose - dma_unmap, whoever is told of it
 * @by: who that is, knows what is going on; all others are told
 *
 * Return: was anything pinned in @gpa..@last?
 */
bool dlend_ram_lose(struct dlend_ram *ram, struct dlend_memory *by, u64 gpa, u64 last);
/** dlend_ram_lost - others than @by must build anew */
void dlend_ram_lost(struct dlend_ram *ram, const struct dlend_memory *by);
/** dlend_ram_grown - others than @by have something new to tell their lender */
void dlend_ram_grown(struct dlend_ram *ram, const struct dlend_memory *by);
/** dlend_ram_drop_all - out of the books, the aperture, and unpinned. build_lock held */
void dlend_ram_drop_all(struct dlend_ram *ram);
/** dlend_ram_close - nothing is pinned through @mem when this returns, nor will be */
void dlend_ram_close(struct dlend_memory *mem);
void dlend_ram_link_down(struct dlend_ram *ram);

/** dlend_memory_tell_work - memory.c's: tells members of ram->dead */
void dlend_memory_tell_work(struct work_struct *work);

#endif
