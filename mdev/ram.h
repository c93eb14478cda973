/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest RAM in this node's aperture: the objects that all files about it share, and their locks.
 * Only these files include this header; all others use memory.h.
 *
 * struct dlend_ram is the RAM of one VM in one session of one link, however many devices the VM
 * borrows over that link.  It is pinned once and mapped in the aperture once.  Each device's lease
 * has a part in it, which is called a *member* (struct dlend_memory); each member's lender maps the
 * same offsets of the aperture in the IOMMU domain of its device.
 *
 * Who shares: leases whose VFIO devices belong to the same KVM VM and map its memory by the same
 * means (/dev/iommu, or the legacy container), with the same setting of lowmem.  A VMM could have
 * two containers with different memory in them.  Then a dma_unmap of one takes chunks that were
 * pinned through the other.  All of that memory is the VMM's own: it harms nobody but itself.
 *
 * Files, each calls only those above it:
 *   vmm.c	whose VM it is: what it may lock, who is charged
 *   members.c	who shares, and what members are told
 *   unpin.c	what has left the books is unpinned; what dma_unmap waits for
 *   ram.c	all RAM there is, references, works
 *   ram_map.c	RAM in the aperture
 *   pin.c	pins, by VFIO
 *   tell.c	messages to lenders
 *   report.c	numbers and words for people
 *   loss.c	what takes RAM away
 *   hand_over.c	the end of a member whose pins others need
 *   share.c	which leases share RAM: life of RAM and of its members
 *   search.c	where RAM is: memory slots, the prober, looks
 *   build.c	a build, stage by stage
 *   watch.c	RAM that comes: one thread for each VM
 *
 * Locks, outer first:
 *   close_lock	of a member.  A member is closed once, and whoever comes second waits.  Held across
 *		pins, not across a peer call.
 *   build_lock	one build, or one round of messages by tell_work or down_work, at a time.  Held
 *		across pins and peer calls: seconds.
 *   search_lock  one search for RAM, or look for it, at a time.  A build has it while it probes.
 *		Held across pins.
 *   loss_lock	one who takes RAM away at a time.  Held across members' ops, never across a pin, an
 *		unpin or a peer call.  A member does not leave while it is held.
 *   lock	books, aperture, state.  Held for one aperture operation about one chunk or one run
 *		of chunks (or about the slots of some extents), never across VFIO or a peer call.
 *   vm->lock	a spinlock: what is being unmapped, pinned and unpinned just now, in all of the VM.
 *   vm->watch_lock  outside of all these: the watch begins and ends.
 * A member's ops take vdev->lock; none of the locks above may be taken under vdev->lock.
 *
 * VFIO calls dma_unmap while it holds locks that vfio_pin_pages() and vfio_unpin_pages() take, too.
 * So no lock that dma_unmap takes here is held while something is pinned or unpinned, and dma_unmap
 * does neither by itself (unpin.c).  Since dma_unmap is called under the VMM's big lock, and waits
 * for all that is being unpinned, whoever is in no hurry takes only 32 MiB (DLEND_DROP_BYTES) at a
 * time.
 *
 * User space may hold up a pin for as long as it likes (the guest's memory may be anything, also a
 * file that user space serves), and then whoever unpins waits, too: VFIO has a lock for both.  So
 * dlend_memory_link_down() takes only the innermost "lock"; and what comes before leases are
 * returned (dlend_memory_cut(), dlend_memory_vmm_exits()) takes none that is held across pins.
 */
#ifndef DLEND_MDEV_RAM_H
#define DLEND_MDEV_RAM_H

#include <linux/jiffies.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "books.h"
#include "memory.h"
#include "memslots.h"
#include "prober.h"
#include "ranges.h"
#include "unmap_calls.h"
#include "vmm.h"

struct dlend_aperture;
struct kvm;
struct page;
struct task_struct;

/* How long to sleep between two tries while something is being waited for. */
#define DLEND_TURN_MS	(DLEND_SETTLE_MS / 4)

/* How many chunks can be unpinned at the same moment. */
#define DLEND_UNPINNERS	256u

/** struct dlend_unpinner - a worker that unpins; @vm: whose */
struct dlend_unpinner {
	struct work_struct work;
	struct dlend_vm *vm;
};

/**
 * struct dlend_vm - what all RAM of a VM has in common, over whatever links
 * @node: among all
 * @ref: references of its RAM, and of devices that have it watched
 * @kvm: exists as long as there is a watcher; or NULL
 * @vmm: process that opened the first device; tells VMs without KVM apart
 * @lock: guards all that follows, to @steps
 * @unmaps: dma_unmap calls under way, whichever device was called
 * @pins: members for which a pin is under way
 * @unpin: chunks that have left the books and are still pinned
 * @unpinning: how many these are, with those that somebody is unpinning just now
 * @steps: grows with every pin that ends, well or not, and every chunk that is unpinned
 * @step_done: for those who wait for that
 * @turns: by pid, threads of the VMM whose dma_unmap has given way (struct dlend_unpin_turn)
 * @wq: for @unpinner
 * @unpinner: workers that unpin
 * @watch_lock: guards @watchers and @task
 * @watchers: open devices that use its RAM, or have used it
 * @task: watches while there are any; what follows is its own
 * @slots: memory slots, as of its last check
 * @still: checks in a row in which nothing moved
 * @looked_ms: when it had devices look last
 * @holes: slots had holes then
 * @wakeups: how often it has woken up
 */
struct dlend_vm {
	struct list_head node;
	struct kref ref;
	struct kvm *kvm;
	struct dlend_party vmm;
	spinlock_t lock;		/* from here to @steps */
	struct dlend_unmap_calls unmaps;
	struct list_head pins, unpin;
	u64 unpinning, steps;
	wait_queue_head_t step_done;
	struct xarray turns;
	struct workqueue_struct *wq;
	struct dlend_unpinner unpinner[DLEND_UNPINNERS];
	struct mutex watch_lock;	/* @watchers, @task */
	unsigned int watchers;
	struct task_struct *task;
	struct dlend_memslots slots;
	u32 still;
	u64 looked_ms, wakeups;
	bool holes;
};

/**
 * struct dlend_ram - RAM of one VM, pinned, in the aperture of one session of one link
 * @node: among all
 * @ref: references of the members, and of works that are queued
 * @vm: whose RAM it is
 * @kvm: its VM; never dereferenced
 * @iommufd: its memory is mapped by /dev/iommu, not by the legacy container
 * @lowmem: the administrator says that RAM below 4 GiB ends there; 0: did not say
 * @session: towards the lenders
 * @build_lock: see above
 * @search_lock: see above
 * @loss_lock: see above
 * @lock: see above; guards all that follows
 * @books: what is pinned and mapped
 * @ap: this node's aperture, NULL once the link is down
 * @member: by number, NULL: none
 * @users: how many members want the windows
 * @vmm_exits: nobody needs it any more, and members are closed one after the other
 * @over: all members were closed: nobody may join, because @kvm may be another VM by now
 * @lost: grows with everything that a running build must notice
 * @last_loss: in jiffies, the end of the last dma_unmap that took memory which may come back
 * @unmapping: dma_unmap calls under way
 * @build: number of the current or last build
 * @due: where RAM may have come, or come back, since it was looked for last
 * @due_all: RAM may have come anywhere
 * @holes: RAM may come without a word, as the memory slots have holes
 * @dead: extents that have left the books, while members' lenders may still map them
 * @tell_work: tells these lenders
 * @down_work: unpins everything after the link went down
 */
struct dlend_ram {
	struct list_head node;
	struct kref ref;
	struct dlend_vm *vm;
	const struct kvm *kvm;
	bool iommufd;
	u64 lowmem;
	struct dlend_session_ref session;

	struct mutex build_lock;	/* one build at a time: see the list of locks */
	struct mutex search_lock;	/* one search at a time: see the list of locks */
	struct mutex loss_lock;		/* one loss at a time: see the list of locks */
	struct mutex lock;		/* all that follows: see the list of locks */
	struct dlend_books books;
	struct dlend_aperture *ap;
	struct dlend_memory *member[DLEND_TOLD_MAX];
	unsigned int users;
	bool over, vmm_exits;
	u64 lost;
	unsigned long last_loss;
	unsigned int unmapping;
	u32 build;
	struct dlend_ranges due;
	bool due_all, holes;
	struct list_head dead;
	struct work_struct tell_work;
	struct work_struct down_work;
};

/**
 * struct dlend_memory - a member: the part that one lease has in the RAM
 * @ram: RAM
 * @id: its number there
 * @vdev: VFIO device through which it pins
 * @kvm: its VM, as it was when it became a member; never dereferenced
 * @ops: whom to tell what others do
 * @ctx: for @ops
 * @addr: device
 * @epoch: of the lease
 * @vmm: who opened the device
 * @close_lock: see the list of locks
 * @user: it has built, or builds, and wants the windows (ram->lock)
 * @closed: nothing new is pinned through @vdev, nor told to its lender (ram->lock)
 * @fenced: its device was not stopped: nothing is mapped for anybody before it has (ram->lock)
 * @emptied: closed, and what was pinned through @vdev is gone, too
 * @pinning: in vm->pins, while a pin is under way on its behalf (vm->lock)
 * @via: through this member (vm->lock)
 * @pin_gpa: first address of that pin (vm->lock)
 * @pin_last: last address of that pin (vm->lock)
 * @build: number of its current or last build
 * @build_lost: ram->lost when that build began
 * @pinned_most: most bytes that were in the books since that build began
 * @pin_err: error of the last pin call of this build that ended it
 * @pages: of one chunk, while it is being pinned
 * @due: of @ram, as the current build took it
 * @due_all: of @ram, as the current build took it
 * @how: DLEND_BUILD_* of the current build
 * @announced: in the current build, others need not hear (any more) that RAM comes
 * @walk: where the current build looks for RAM
 * @slots: the VM's memory slots, as of @slots_generation; empty: not known
 * @slots_generation: which state of the slots that is
 * @unpinnable: where RAM was that cannot be pinned
 * @turn: where the next look goes on
 * @repairs: builds that had to repair something
 * @repairs_since: in jiffies, when their counting began
 * @passed_told: the log has that this host passes a device of its own through to the VM
 * @reason: why the last build failed (ram->lock)
 * @stat: numbers
 */
struct dlend_memory {
	struct dlend_ram *ram;
	u32 id;
	struct vfio_device *vdev;
	struct kvm *kvm;
	const struct dlend_memory_ops *ops;
	void *ctx;
	struct dlend_addr addr;
	u32 epoch;
	struct dlend_vmm vmm;

	struct mutex close_lock;	/* it is closed once: see the list of locks */
	bool user, closed, fenced, emptied;
	struct list_head pinning;
	struct dlend_memory *via;
	u64 pin_gpa, pin_last;

	u32 build;
	u64 build_lost;
	u64 pinned_most;
	int pin_err;
	struct page *pages[DLEND_CHUNK_PAGES];
	struct dlend_ranges due, walk, slots;
	bool due_all, announced, passed_told;
	u32 how;
	u64 slots_generation, unpinnable;
	struct dlend_prober_turn turn;
	unsigned int repairs;
	unsigned long repairs_since;
	char reason[DLEND_REASON_LEN];
	struct dlend_memory_stat stat;
};

/* All RAM there is, for share.c; the lock is outside of a ram's own. */
extern struct mutex dlend_rams_lock;
extern struct list_head dlend_rams;

/**
 * dlend_vm_get - the VM of a member
 * @mem: (in) member
 *
 * It is made if it has no RAM yet. Context: process, under dlend_rams_lock.
 * Return: with a reference, which its RAM takes over; NULL: out of memory.
 */
struct dlend_vm *dlend_vm_get(const struct dlend_memory *mem);

/** dlend_vm_put - give a reference back. Context: process, takes dlend_rams_lock. */
void dlend_vm_put(struct dlend_vm *vm);

/**
 * dlend_ram_put - give a reference back
 * @ram: RAM; the last one frees it
 *
 * Context: process, takes dlend_rams_lock if it is the last; waits for nobody.
 */
void dlend_ram_put(struct dlend_ram *ram);

/**
 * dlend_ram_next - go through all RAM of a VM
 * @vm: (in) VM
 * @ram: (in) RAM from the last call, whose reference goes; NULL: begin
 *
 * Context: process, takes dlend_rams_lock. Return: the next, with a reference; NULL: that was all.
 */
struct dlend_ram *dlend_ram_next(struct dlend_vm *vm, struct dlend_ram *ram);

/**
 * dlend_ram_queue - have a work of its done soon
 * @ram: RAM; the caller has a reference of its own
 * @work: its tell_work or down_work, which ends by dlend_ram_put()
 *
 * Context: any of its locks may be held.
 */
void dlend_ram_queue(struct dlend_ram *ram, struct work_struct *work);

/** dlend_ram_now_ms - the clock of the books and of dma_unmap calls. Context: any. */
static inline u64 dlend_ram_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

/** dlend_ram_disturb - something was lost: a running build has to give way. Context: ram->lock. */
static inline void dlend_ram_disturb(struct dlend_ram *ram)
{
	lockdep_assert_held(&ram->lock);
	WRITE_ONCE(ram->lost, ram->lost + 1);
	WRITE_ONCE(ram->last_loss, jiffies);
}

/** dlend_ram_add_due - the next build has to look at @gpa..@last. Context: ram->lock. */
static inline void dlend_ram_add_due(struct dlend_ram *ram, u64 gpa, u64 last)
{
	lockdep_assert_held(&ram->lock);
	if (last == U64_MAX || dlend_ranges_add(&ram->due, gpa, last + 1))
		ram->due_all = true;
	WRITE_ONCE(ram->holes, true);
}

/**
 * dlend_memory_disturbed - has anything happened that this member's running build must give way to?
 * @mem: (in) member
 *
 * Context: any. What is decided by the answer is safe only under ram->lock.
 * Return: true after a loss, when the member was closed, when the link is down, or if its device
 * has something more urgent to do.
 */
static inline bool dlend_memory_disturbed(const struct dlend_memory *mem)
{
	return READ_ONCE(mem->ram->lost) != mem->build_lost || READ_ONCE(mem->closed) ||
	       !READ_ONCE(mem->ram->ap) || mem->ops->stop(mem->ctx);
}

#endif
