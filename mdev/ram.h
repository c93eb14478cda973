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
 * pinned through the other.  All of that memory is the VMM's own, so it harms only itself.
 *
 * Files, each calls only those above it:
 *   ram.c	references, works, members and what they are told, the VMM
 *   pin.c	pins and unpins, by VFIO; what dma_unmap waits for
 *   watch.c	KVM's memory slots, and the watch for those that are added
 *   map.c	RAM in the aperture, messages to lenders, and what takes RAM away
 *   share.c	which leases share RAM: life of RAM and of its members
 *   build.c	a build, stage by stage; the search for RAM; numbers and words for people
 *
 * Locks, outer first:
 *   close_lock	of a member.  A member is closed once, and whoever comes second waits.  Held across
 *		pins, not across a peer call.
 *   build_lock	one build, or one round of messages by tell_work or down_work, at a time.  Held
 *		across pins and peer calls: seconds.
 *   search_lock  one search for RAM, or look for it, at a time.  A build has it while it probes.
 *		Held across pins.
 *   vm->watch_lock  held while the watch begins or ends, and while KVM's VM is looked into.  That
 *		stays as long as a member watches.  The VMM's mmap_lock is taken under it.
 *   loss_lock	one who takes RAM away at a time.  Held across members' ops, never across a pin, an
 *		unpin or a peer call.  A member does not leave while it is held.
 *   lock	books, aperture, state.  Held for one aperture operation about one chunk or one run
 *		of chunks (or about the slots of some extents), never across VFIO or a peer call.
 *   vm->lock	a spinlock: what is being unmapped, pinned and unpinned just now, in all of the VM.
 * A member's ops take vdev->lock; none of the locks above may be taken under vdev->lock.
 *
 * VFIO calls dma_unmap while it holds locks that vfio_pin_pages() and vfio_unpin_pages() take, too.
 * So no lock that dma_unmap takes here is held while something is pinned or unpinned, and dma_unmap
 * does neither by itself (pin.c).  Since dma_unmap is called under the VMM's big lock, and waits
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
#include <linux/memcontrol.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "books.h"
#include "memory.h"
#include "prober.h"
#include "ranges.h"

struct dlend_aperture;

/**
 * struct dlend_memslots - what is known of a VM's memory slots; all zero: nothing
 * @ranges: they cover, without BARs that the VMM has mapped there
 * @generation: which state of the slots that is
 */
struct dlend_memslots {
	struct dlend_ranges ranges;
	u64 generation;
};

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
 * @ref: references of its RAM
 * @kvm: stays as long as there is a watcher; or NULL
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
 * @watchers: members that have it watched
 * @task: watches while there are any, if it could be made; what follows is its own
 * @slots: memory slots, as of its last check
 * @still: checks in a row in which nothing moved
 * @looked_ms: when it had devices look last
 * @holes: slots had holes then
 * @wakeups: how often it has woken up
 */
struct dlend_vm {
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
 * @vmm_exits: the VMM dies, and closes its devices one after the other
 * @over: all members were closed; none may join, as the VM may be another one by now
 * @lost: grows with everything that a running build must notice
 * @build: number of the current or last build
 * @due: where RAM may have come, or come back, since it was looked for last
 * @holes: RAM may come without a word, as the memory slots have holes
 * @dead: extents that have left the books, while members' lenders may still map them
 * @tell_work: tells these lenders
 * @down_work: unpins everything after the link went down
 */
struct dlend_ram {
	struct list_head node;
	struct kref ref;
	struct dlend_vm *vm;
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
	u32 build;
	struct dlend_ranges due;
	bool holes;
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
 * @v: for struct dlend_memory_ops
 * @lease: whose part it is
 * @lowmem: as in @ram
 * @vmm: who opened the device
 * @close_lock: see the list of locks
 * @user: it has built, or builds, and wants the windows (ram->lock)
 * @closed: nothing new is pinned through @vdev, nor told to its lender (ram->lock)
 * @fenced: its device was not stopped: nothing is mapped for anybody before it has (ram->lock)
 * @shut: its gate is shut, by dlend_members_shut() (ram->loss_lock)
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
 * @how: DLEND_BUILD_* of the current build
 * @announced: in the current build, others need not hear (any more) that RAM comes
 * @walk: where the current build looks for RAM
 * @slots: the VM's memory slots; empty: not known
 * @unpinnable: where RAM was that cannot be pinned
 * @turn: where the next look goes on
 * @watches: it has its VM watched; KVM's VM stays so long (vm->watch_lock)
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
	struct dlend_vdev *v;
	const struct dlend_lease *lease;
	u64 lowmem;
	struct dlend_vmm vmm;

	struct mutex close_lock;	/* it is closed once: see the list of locks */
	bool user, closed, fenced, shut, emptied;
	struct list_head pinning;
	struct dlend_memory *via;
	u64 pin_gpa, pin_last;

	u32 build;
	u64 build_lost;
	u64 pinned_most;
	int pin_err;
	struct page *pages[DLEND_CHUNK_PAGES];
	struct dlend_ranges due, walk;
	struct dlend_memslots slots;
	bool announced, watches, passed_told;
	u32 how;
	u64 unpinnable;
	struct dlend_prober_turn turn;
	unsigned int repairs;
	unsigned long repairs_since;
	char reason[DLEND_REASON_LEN];
	struct dlend_memory_stat stat;
};

/* The next member from number *@id on, which moves on, or NULL. */
static inline struct dlend_memory *dlend_members_next(const struct dlend_ram *ram, u32 *id)
{
	struct dlend_memory *mem = NULL;

	while (!mem && *id < DLEND_TOLD_MAX)
		mem = READ_ONCE(ram->member[(*id)++]);
	return mem;
}

/* All members; @mem is NULL after the last one.  Under ram->lock or loss_lock. */
#define dlend_for_each_member(mem, ram) \
	for (u32 __id = 0; ((mem) = dlend_members_next(ram, &__id));)

/* Module parameter: milliseconds between looks, 0: none */
extern unsigned int dlend_look_ms;

/* All RAM there is, for share.c; the lock is outside of a ram's own. */
extern struct mutex dlend_rams_lock;
extern struct list_head dlend_rams;

/**
 * dlend_ram_put - give a reference back
 * @ram: RAM; the last one frees it
 *
 * Context: process, takes dlend_rams_lock if it is the last; does not wait.
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
}

/** dlend_ram_add_due - the next build has to look at @gpa..@last. Context: ram->lock. */
static inline void dlend_ram_add_due(struct dlend_ram *ram, u64 gpa, u64 last)
{
	lockdep_assert_held(&ram->lock);
	if (last == U64_MAX || dlend_ranges_add(&ram->due, gpa, last + 1))
		ram->due.all = true;
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
	       !READ_ONCE(mem->ram->ap) || dlend_memory_user.stop(mem->v);
}

/**
 * dlend_vmm_lockable - how much may it lock in all, as things are now?
 * @vmm: (in) VMM
 *
 * Context: any. Return: bytes, U64_MAX: as much as it likes.
 */
u64 dlend_vmm_lockable(const struct dlend_vmm *vmm);

/*
 * CLASS(dlend_charge, name)(vmm): to the end of the scope, what this thread allocates with
 * __GFP_ACCOUNT is charged to the VMM's control group.  It has to be DLEND_BOOKS_GFP, or to fail as
 * that does: so VFIO is not called, and nothing is mapped.  Context: process, may sleep.
 */
DEFINE_CLASS(dlend_charge, struct mem_cgroup *, mem_cgroup_put(set_active_memcg(_T)),
	     set_active_memcg(get_mem_cgroup_from_mm(vmm->mm)), const struct dlend_vmm *vmm)

/* ram.c: members, and what they are told about each other */

/**
 * dlend_members_use - does a member want the windows from now on?
 * @mem: (in, out) member
 * @user: (in) true: it does
 *
 * Context: ram->lock held.
 */
void dlend_members_use(struct dlend_memory *mem, bool user);

/**
 * dlend_members_fenced - may one of their devices still transfer, which is to reach nothing?
 * @ram: (in) RAM
 *
 * Context: ram->lock held.
 */
bool dlend_members_fenced(const struct dlend_ram *ram);

/**
 * dlend_members_tell - tell the devices of all members that use the windows
 * @ram: (in) RAM
 * @op: (in) of dlend_memory_user
 * @except: (in) member to leave out, or NULL
 *
 * Context: loss_lock held.
 */
void dlend_members_tell(struct dlend_ram *ram, void (*op)(struct dlend_vdev *v),
			const struct dlend_memory *except);

/** dlend_members_progress - tell all that a build has come further. Context: ram->lock held. */
void dlend_members_progress(struct dlend_ram *ram);

/**
 * dlend_members_shut - windows are going: shut the gates of all who use them
 * @ram: (in) RAM
 *
 * Context: loss_lock held until dlend_members_reopen(); the ops take locks of the devices.
 */
void dlend_members_shut(struct dlend_ram *ram);

/**
 * dlend_members_reopen - windows have gone: those whose gates were shut go on
 * @ram: (in) RAM
 * @lost: (in) something was lost: they build anew
 *
 * Context: loss_lock held.
 */
void dlend_members_reopen(struct dlend_ram *ram, bool lost);

/**
 * dlend_members_grow - RAM has come: the gates of users are shut when it returns, and they build
 * @ram: (in) RAM
 * @by: (in) member that knows already; NULL: none does
 *
 * Context: may sleep; takes loss_lock, so no pin of the caller's may be under way.
 */
void dlend_members_grow(struct dlend_ram *ram, const struct dlend_memory *by);

/** dlend_ram_due - RAM may have come in @ranges, or anywhere (NULL). Context: takes ram->lock. */
void dlend_ram_due(struct dlend_ram *ram, const struct dlend_ranges *ranges);

/* pin.c */

/** dlend_unpin_init - make @vm's part of it. Context: process. Return: 0 or -ENOMEM. */
int dlend_unpin_init(struct dlend_vm *vm);

/**
 * dlend_unpin_pages - unpin pages, in the batches in which dlend_pin_chunk() pinned them
 * @via: (in) member through which they were pinned
 * @gpa: (in) first address
 * @npages: (in) how many
 *
 * Context: may sleep; none of our locks is held that dma_unmap takes.
 */
void dlend_unpin_pages(const struct dlend_memory *via, u64 gpa, u32 npages);

/**
 * dlend_unpin_add - chunks leave the books: from now on they are being unpinned
 * @vm: (in, out) VM
 * @out: (in, out) chunks, in no aperture any more; empty afterwards.  Their owners stay members,
 *	with their VFIO devices open, until dlend_unpin_all() has returned
 *
 * Context: ram->lock held, since before they left the books: a chunk is always in one of the two
 * places.  The caller has to call dlend_unpin_all() or dlend_unpin_start() then.
 */
void dlend_unpin_add(struct dlend_vm *vm, struct list_head *out);

/** dlend_unpin_start - @workers unpin what there is. Context: any of our locks may be held. */
void dlend_unpin_start(struct dlend_vm *vm, unsigned int workers);

/**
 * dlend_unpin_all - unpin what there is, and wait for what others are unpinning
 * @vm: (in, out) VM
 *
 * Context: may sleep; none of our locks is held that dma_unmap takes, and none of VFIO's.
 */
void dlend_unpin_all(struct dlend_vm *vm);

/**
 * dlend_unpin_await - for dma_unmap: wait until nothing of a range is pinned any more
 * @mem: (in, out) member that was called; what there was in the range has left the books
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: VFIO's locks are held, none of ours.
 * Return: true: so it is, or other threads of the VMM have to go on first, and VFIO calls again.
 * False: a pin or an unpinning has ended, so take the range away once more, and ask again.
 */
bool dlend_unpin_await(struct dlend_memory *mem, u64 gpa, u64 last);

/** dlend_unpin_leave - @mem gets no calls of dma_unmap any more. Context: process. */
void dlend_unpin_leave(struct dlend_memory *mem);

/**
 * dlend_pin_begin_for - a pin is under way through another member: from now on dma_unmap waits
 * @mem: (in, out) member on whose behalf; one pin at a time
 * @via: (in) member through which is pinned; it is open
 * @chunk: (in) it is pinned already: builds and calls of dma_unmap do not matter
 *
 * Context: ram->lock held; takes vm->lock.
 */
void dlend_pin_begin_for(struct dlend_memory *mem, struct dlend_memory *via,
			 const struct dlend_chunk *chunk);

/**
 * dlend_pin_end - the pin that began last is in the books, or was given up
 * @mem: (in, out) member, as for dlend_pin_begin_for()
 * @grown: (in) it is in the books
 *
 * Context: may sleep; takes ram->lock.
 */
void dlend_pin_end(struct dlend_memory *mem, bool grown);

/**
 * dlend_pin_under_way - is a pin under way?
 * @vm: (in) VM
 * @via: (in) only pins through this member count; NULL: all
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: any; takes vm->lock. Return: true if there is one that touches the range.
 */
bool dlend_pin_under_way(struct dlend_vm *vm, const struct dlend_memory *via, u64 gpa, u64 last);

/** dlend_pin_await - wait until no pin is under way through @via. Context: as dlend_unpin_all(). */
void dlend_pin_await(const struct dlend_memory *via);

/**
 * dlend_pin_chunk - pin all pages of a chunk, in batches
 * @via: (in, out) member through which
 * @chunk: (in) its gpa, npages and prot
 * @pages: (out) its pages, npages of them
 * @build: (in) for a build of @via's: give way between batches, and count the calls
 *
 * Context: may sleep, for long; none of our locks is held that dma_unmap takes; the pin is under
 * way. Return: 0; -EINTR give way, or the VMM is going; or an error of
 * vfio_pin_pages(), and then nothing is pinned.
 */
int dlend_pin_chunk(struct dlend_memory *via, const struct dlend_chunk *chunk, struct page **pages,
		    bool build);

/**
 * dlend_pin_ram - pin pages and enter them in the books
 * @mem: (in, out) member that builds or looks
 * @gpa: (in) first address
 * @npages: (in) how many, within one chunk
 * @prot: (in) DLEND_PROT_*
 * @try: (in) only learn whether they could be pinned: they are for a moment, and never in the books
 *
 * Context: as for dlend_pin_chunk(), but that the pin is not under way.
 * Return: as struct dlend_prober_ops.pin, and nothing of it is pinned after an error.
 */
int dlend_pin_ram(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot, bool try);

/**
 * dlend_pin_unmap_note - VFIO has called dma_unmap of one device of a VM, or that call returns
 * @vm: (in, out) VM
 * @gpa: (in) first address
 * @last: (in) last address
 * @begins: (in) true: the call begins
 *
 * Context: may sleep; takes vm->lock.
 */
void dlend_pin_unmap_note(struct dlend_vm *vm, u64 gpa, u64 last, bool begins);

/** dlend_pin_unmaps_under_way - is there one, or was there one a moment ago? Context: any. */
bool dlend_pin_unmaps_under_way(struct dlend_vm *vm);

/* map.c.  dlend_map_part(), _new() and _tell() are stages of a build, under build_lock. */

/**
 * dlend_map_part - what does not stand any more goes, also at the lenders of all members
 * @mem: (in, out) member that builds
 *
 * If standing chunks leave their windows, all gates are shut before, and all members build again.
 *
 * Context: may sleep; takes loss_lock and ram->lock; waits for lenders.
 * Return: 0, or an error of dlend_link_call_in() for this member: some are not told then.
 */
int dlend_map_part(struct dlend_memory *mem);

/**
 * dlend_map_new - make extents of all that is pinned, and map it in the aperture
 * @mem: (in, out) member that builds, and whose VMM is charged
 *
 * Context: may sleep; takes ram->lock for one run of chunks at a time.
 * Return: 0; -EAGAIN the build must give way; -EDQUOT more of the window than a VM may have;
 * -ENOSPC the aperture is full; -ENOMEM; or an error of the IOMMU.
 */
int dlend_map_new(struct dlend_memory *mem);

/**
 * dlend_map_tell - have a member's lender map all that it is not known to have
 * @mem: (in, out) member
 *
 * Context: may sleep; waits for the lender.
 * Return: 0; -EAGAIN the build must give way; or an error of dlend_link_call_in().
 */
int dlend_map_tell(struct dlend_memory *mem);

/**
 * dlend_map_others_due - is there an extent that another user's lender has not heard of?
 * @mem: (in) member that knows all
 *
 * Context: ram->lock held.
 */
bool dlend_map_others_due(const struct dlend_memory *mem);

/**
 * dlend_ram_map_kill - extents leave books and aperture
 * @ram: (in, out) RAM
 * @match: (in) which ones, NULL: all
 * @arg: (in) for @match
 *
 * Unmapped and flushed when it returns; their chunks are loose.  Slots that no lender has heard of
 * are free.  The others are in quarantine, and their extents in ram->dead.
 *
 * Context: ram->lock held. Return: were there any?
 */
bool dlend_ram_map_kill(struct dlend_ram *ram,
			bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg);

/**
 * dlend_ram_map_bury - no lender has a dead extent any more
 * @ram: (in, out) RAM
 * @extent: (in) extent in ram->dead; it is freed, and its slot is free if that is sure
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_bury(struct dlend_ram *ram, struct dlend_extent *extent);

/** dlend_ram_map_kill_all - every extent leaves books and aperture. Context: ram->lock held. */
void dlend_ram_map_kill_all(struct dlend_ram *ram);

/** dlend_map_init - make @ram->tell_work and @ram->down_work. Context: any. */
void dlend_map_init(struct dlend_ram *ram);

/**
 * dlend_loss_take - take a range away, whoever pinned it
 * @mem: (in) member that is being unmapped or closed
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * VFIO calls one device after the other, and wants each to find nothing left.  So the first call
 * takes all chunks, whichever member owns them.  If they may come back, the gates of all users are
 * shut before, and they build anew: builds that run give way.  If they were unplugged, no gate is
 * shut and no build is disturbed; DMA that a device still does there is blocked by the IOMMU;
 * extents that have become empty leave the books, and lenders hear of it later.
 *
 * Context: may sleep; takes loss_lock and ram->lock.  The caller waits until all is unpinned, and
 * until pins that are under way there have ended.
 * Return: true if there was anything; it is out of the aperture.
 */
bool dlend_loss_take(struct dlend_memory *mem, u64 gpa, u64 last);

/**
 * dlend_loss_undo - undo all that a build has pinned and mapped
 * @mem: (in, out) member whose build it is
 *
 * Lenders that were told hear of it later.
 *
 * Context: build_lock held; may sleep; takes loss_lock and ram->lock.
 */
void dlend_loss_undo(struct dlend_memory *mem);

/* watch.c */

/**
 * dlend_watch_begin - have RAM noticed that comes, if @mem is not closed
 * @mem: (in, out) member that is about to build: no slot is missed that comes later
 *
 * Context: may sleep; takes vm->watch_lock and the VMM's mmap_lock.
 */
void dlend_watch_begin(struct dlend_memory *mem);

/** dlend_watch_end - the watch ends for @mem, which is closed. Context: may sleep. */
void dlend_watch_end(struct dlend_memory *mem);

/**
 * dlend_watch_is_ram - does KVM have RAM at an address?
 * @mem: (in) member
 * @gpa: (in) guest-physical address
 * @otherwise: (in) the answer where KVM does not run the VM
 *
 * Context: may sleep; takes vm->watch_lock and the VMM's mmap_lock.
 */
bool dlend_watch_is_ram(struct dlend_memory *mem, u64 gpa, bool otherwise);

/**
 * dlend_watch_read_slots - the VM's memory slots as they are now, into mem->slots
 * @mem: (in, out) member; its slots are empty afterwards if they are not known
 *
 * Context: may sleep; takes vm->watch_lock and the VMM's mmap_lock.
 * Return: 0; -EINTR @mem is closed; -ENOMEM.
 */
int dlend_watch_read_slots(struct dlend_memory *mem);

#endif
