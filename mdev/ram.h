/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest RAM in this node's aperture: the objects that its files share, and their locks.  Only these
 * files include this header; all others use memory.h.
 *
 * struct dlend_ram is the RAM of one VM in one session of one link, however many devices the VM
 * borrows over that link.  The RAM is pinned once and mapped in the aperture once.  Each lease has
 * a part in it, which is called a *member* (struct dlend_memory).  Each member's lender maps the
 * same offsets of the aperture in the IOMMU domain of the member's device.
 *
 * Leases share RAM if their VFIO devices belong to the same KVM VM and map its memory by the same
 * means (/dev/iommu, or the legacy container), with the same setting of lowmem.  A VMM could have
 * two containers with different memory.  Then a dma_unmap of one container takes chunks that were
 * pinned through the other.  All of that memory is the VMM's, so the VMM harms only itself.
 *
 * Files; each calls only those above it:
 *   ram.c	references, works, members and what they are told, the VMM
 *   pin.c	pins and unpins through VFIO; what dma_unmap waits for
 *   watch.c	KVM's memory slots, and the watch for slots that are added
 *   map.c	RAM in the aperture, messages to lenders, and losses of RAM
 *   share.c	which leases share RAM: life of RAM and of its members
 *   build.c	a build, stage by stage; the search for RAM; numbers and words for people
 *
 * Locks, outer first:
 *   close_lock	of a member.  A member is closed once; a second caller waits.  Held across pins, not
 *		across a peer call.
 *   build_lock	one build, or one round of messages by tell_work or down_work, at a time.  Held
 *		across pins and peer calls: seconds.
 *   search_lock  one search or look for RAM at a time.  A build has it while it scans.  Held
 *		across pins.
 *   vm->watch_lock  held while the watch begins or ends, and while struct kvm is read.  KVM's VM
 *		stays as long as a member watches.  The VMM's mmap_lock is taken under this lock.
 *   loss_lock	one loss of RAM at a time.  Held across members' ops, never across a pin, an unpin
 *		or a peer call.  A member does not leave while this lock is held.
 *   lock	pin table, aperture, state.  Held for one aperture operation on one chunk or one run
 *		of chunks (or on the slots of some extents), never across VFIO or a peer call.
 *   vm->lock	a spinlock: what is being unmapped, pinned and unpinned in all of the VM.
 * A member's ops take vdev->lock; none of the locks above may be taken under vdev->lock.
 *
 * VFIO calls dma_unmap while it holds locks that vfio_pin_pages() and vfio_unpin_pages() take, too.
 * So no lock that dma_unmap takes here is held across a pin or an unpin, and dma_unmap itself does
 * neither (pin.c).  dma_unmap is called under the VMM's big lock, and waits for all that is being
 * unpinned.  So work that is not urgent unpins only 32 MiB (DLEND_DROP_BYTES) at a time.
 *
 * User space can delay a pin for as long as it likes: the guest's memory may be a file that user
 * space serves.  Unpins then wait, too, because VFIO has one lock for both.  So
 * dlend_memory_link_down() takes only the innermost "lock".  What runs before leases are returned
 * (dlend_memory_revoke(), dlend_memory_vmm_exits()) takes no lock that is held across pins.
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

#include "pinned.h"
#include "memory.h"
#include "scan.h"
#include "ranges.h"

struct dlend_aperture;

/**
 * struct dlend_memslots - the known memory slots of a VM; all zero: none are known
 * @ranges: guest-physical ranges of the slots, without BARs that the VMM has mapped there
 * @generation: KVM's number for this state of the slots
 */
struct dlend_memslots {
	struct dlend_ranges ranges;
	u64 generation;
};

/* How long to sleep between two tries of what must be polled. */
#define DLEND_TURN_MS	(DLEND_SETTLE_MS / 4)

/* How many chunks can be unpinned at the same moment. */
#define DLEND_UNPINNERS	256u

/** struct dlend_unpinner - a worker that unpins; @vm: whose */
struct dlend_unpinner {
	struct work_struct work;
	struct dlend_vm *vm;
};

/**
 * struct dlend_vm - what all RAM of a VM has in common, on all links
 * @ref: references of its RAM
 * @kvm: KVM's VM, which stays as long as there is a watcher; or NULL
 * @vmm: process that opened the first device; tells VMs without KVM apart
 * @lock: guards the fields from @unmaps to @steps
 * @unmaps: calls of dma_unmap that are under way, for any device
 * @pins: members for which a pin is under way
 * @unpin: chunks that have left the pin table and are still pinned
 * @unpinning: number of chunks in @unpin, and of those that are being unpinned
 * @steps: grows with each pin that ends, even if it failed, and with each chunk that is unpinned
 * @step_done: wait queue for a change of @steps
 * @turns: by pid, threads of the VMM whose dma_unmap has given way (struct dlend_unpin_turn)
 * @wq: runs @unpinner
 * @unpinner: works that unpin
 * @watch_lock: guards @watchers and @task
 * @watchers: number of members that have the VM watched
 * @task: the thread that watches, or NULL; only this thread uses the fields below
 * @slots: memory slots at its last check
 * @still: number of checks in a row in which nothing changed
 * @looked_ms: time of the last look that it asked a device for
 * @holes: the slots had holes then
 * @wakeups: how often it has woken up
 */
struct dlend_vm {
	struct kref ref;
	struct kvm *kvm;
	struct dlend_user vmm;
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
 * @iommufd: the VMM maps its memory by /dev/iommu, not by the legacy container
 * @lowmem: the end of RAM below 4 GiB, as the administrator has set it; 0: not set
 * @session: towards the lenders
 * @build_lock: see above
 * @search_lock: see above
 * @loss_lock: see above
 * @lock: see above; guards all that follows
 * @pinned: pinned chunks, and extents
 * @ap: this node's aperture, NULL once the link is down
 * @member: members by number, NULL: none
 * @users: number of members that want the windows
 * @over: all members were closed; none may join, because the VM may be another one now
 * @vmm_exits: the VMM dies, and closes its devices one after the other
 * @lost: grows with each event to which a running build must give way
 * @build: number of the current or last build
 * @due: ranges in which RAM may have come, or come back, since the last search there
 * @holes: the memory slots have holes, so RAM may come unannounced
 * @dead: extents that have left the pin table, but that lenders may still map
 * @tell_work: has these lenders unmap them
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
	struct dlend_pinned pinned;
	struct dlend_aperture *ap;
	struct dlend_memory *member[DLEND_ACKS_MAX];
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
 * @ram: its RAM
 * @id: its number among the members of @ram
 * @vdev: VFIO device through which it pins
 * @kvm: its VM when it became a member; never dereferenced
 * @v: its device, for struct dlend_memory_ops
 * @lease: its lease
 * @lowmem: as in @ram
 * @vmm: the VMM that opened the device
 * @close_lock: see the list of locks
 * @user: it wants the windows: it builds, or has built (ram->lock)
 * @closed: no more is pinned through @vdev, nor told to its lender (ram->lock)
 * @fenced: its device did not stop in time: until it has, nothing is mapped for any member
 *	(ram->lock)
 * @shut: dlend_members_shut() has shut its gate (ram->loss_lock)
 * @emptied: closed, and nothing is pinned through @vdev any more
 * @pinning: in vm->pins, while a pin is under way for it (vm->lock)
 * @via: member through which that pin is made (vm->lock)
 * @pin_gpa: first address of that pin (vm->lock)
 * @pin_last: last address of that pin (vm->lock)
 * @build: number of its current or last build
 * @build_lost: ram->lost when that build began
 * @pinned_most: most bytes that were in the pin table since that build began
 * @pin_err: result of the last pin call of this build
 * @pages: pages of the chunk that is being pinned
 * @due: ranges that the current build has taken over from @ram
 * @how: DLEND_BUILD_* of the current build
 * @announced: in the current build, the others have been told that RAM comes, or need not be
 * @walk: ranges in which the current build looks for RAM
 * @slots: the VM's memory slots; empty: not known
 * @unpinnable: address of RAM that cannot be pinned
 * @turn: where the next look goes on
 * @watches: it is one of vm->watchers, so KVM's VM stays (vm->watch_lock)
 * @repairs: number of builds that repaired a loss since @repairs_since
 * @repairs_since: in jiffies
 * @passed_told: the log says already that this host passes a device of its own through to the VM
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
	struct dlend_scan_turn turn;
	unsigned int repairs;
	unsigned long repairs_since;
	char reason[DLEND_REASON_LEN];
	struct dlend_memory_stat stat;
};

/* The next member from number *@id on, which moves on, or NULL. */
static inline struct dlend_memory *dlend_members_next(const struct dlend_ram *ram, u32 *id)
{
	struct dlend_memory *mem = NULL;

	while (!mem && *id < DLEND_ACKS_MAX)
		mem = READ_ONCE(ram->member[(*id)++]);
	return mem;
}

/* All members; @mem is NULL after the last one.  Under ram->lock or loss_lock. */
#define dlend_for_each_member(mem, ram) \
	for (u32 __id = 0; ((mem) = dlend_members_next(ram, &__id));)

/* Module parameter: milliseconds between looks, 0: none */
extern unsigned int dlend_look_ms;

/* All objects of RAM, for share.c.  The lock is outside of the locks of each. */
extern struct mutex dlend_rams_lock;
extern struct list_head dlend_rams;

/**
 * dlend_ram_put - give a reference back; the last one frees the object
 * @ram: (in) RAM
 *
 * Context: process; takes dlend_rams_lock if the reference is the last; does not wait.
 */
void dlend_ram_put(struct dlend_ram *ram);

/**
 * dlend_ram_next - go through all RAM of a VM
 * @vm: (in) VM
 * @ram: (in) RAM from the last call, whose reference is given back; NULL: begin
 *
 * Context: process; takes dlend_rams_lock. Return: the next one, with a reference; NULL: no more.
 */
struct dlend_ram *dlend_ram_next(struct dlend_vm *vm, struct dlend_ram *ram);

/**
 * dlend_ram_queue - queue a work of @ram's
 * @ram: (in) RAM, to which the caller has a reference
 * @work: (in) its tell_work or down_work, which ends by dlend_ram_put()
 *
 * Context: any of the locks of @ram may be held.
 */
void dlend_ram_queue(struct dlend_ram *ram, struct work_struct *work);

/** dlend_ram_now_ms - the clock of the pin table and of dma_unmap calls. Context: any. */
static inline u64 dlend_ram_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

/** dlend_ram_disturb - a running build has to give way to a loss. Context: ram->lock held. */
static inline void dlend_ram_disturb(struct dlend_ram *ram)
{
	lockdep_assert_held(&ram->lock);
	WRITE_ONCE(ram->lost, ram->lost + 1);
}

/** dlend_ram_add_due - the next build has to look at @gpa..@last. Context: ram->lock held. */
static inline void dlend_ram_add_due(struct dlend_ram *ram, u64 gpa, u64 last)
{
	lockdep_assert_held(&ram->lock);
	if (last == U64_MAX || dlend_ranges_add(&ram->due, gpa, last + 1))
		ram->due.all = true;
	WRITE_ONCE(ram->holes, true);
}

/**
 * dlend_memory_disturbed - must this member's running build give way?
 * @mem: (in) member
 *
 * Context: any. The answer can be relied on only under ram->lock.
 * Return: true after a loss, if the member was closed, if the link is down, or if its device has
 * something more urgent to do.
 */
static inline bool dlend_memory_disturbed(const struct dlend_memory *mem)
{
	return READ_ONCE(mem->ram->lost) != mem->build_lost || READ_ONCE(mem->closed) ||
	       !READ_ONCE(mem->ram->ap) || dlend_memory_user.stop(mem->v);
}

/**
 * dlend_vmm_lockable - how much memory may a VMM lock, by its present limit?
 * @vmm: (in) VMM
 *
 * Context: any. Return: bytes; U64_MAX: no limit.
 */
u64 dlend_vmm_lockable(const struct dlend_vmm *vmm);

/*
 * CLASS(dlend_charge, name)(vmm): to the end of the scope, this thread's allocations with
 * __GFP_ACCOUNT are charged to the VMM's control group.  They must use DLEND_PINNED_GFP, or fail in
 * the same way; so the scope has no calls to VFIO and no mapping.  Context: process, may sleep.
 */
DEFINE_CLASS(dlend_charge, struct mem_cgroup *, mem_cgroup_put(set_active_memcg(_T)),
	     set_active_memcg(get_mem_cgroup_from_mm(vmm->mm)), const struct dlend_vmm *vmm)

/* ram.c: members, and what they are told about each other */

/**
 * dlend_members_use - note whether a member wants the windows
 * @mem: (in, out) member
 * @user: (in) true: it does, from now on
 *
 * Context: ram->lock held.
 */
void dlend_members_use(struct dlend_memory *mem, bool user);

/**
 * dlend_members_fenced - may a fenced device still transfer?  Then nothing may be mapped.
 * @ram: (in) RAM
 *
 * Context: ram->lock held.
 */
bool dlend_members_fenced(const struct dlend_ram *ram);

/**
 * dlend_members_tell - call an operation for each member that uses the windows
 * @ram: (in) RAM
 * @op: (in) operation of dlend_memory_user
 * @except: (in) member to leave out, or NULL
 *
 * Context: loss_lock held.
 */
void dlend_members_tell(struct dlend_ram *ram, void (*op)(struct dlend_vdev *v),
			const struct dlend_memory *except);

/** dlend_members_progress - tell all members that a build goes on. Context: ram->lock held. */
void dlend_members_progress(struct dlend_ram *ram);

/**
 * dlend_members_shut - before windows go: shut the gates of all users
 * @ram: (in) RAM
 *
 * Context: loss_lock held until dlend_members_reopen(); the ops take locks of the devices.
 */
void dlend_members_shut(struct dlend_ram *ram);

/**
 * dlend_members_reopen - after windows have gone: tell those whose gates were shut
 * @ram: (in) RAM
 * @lost: (in) something was lost, so they build anew
 *
 * Context: loss_lock held.
 */
void dlend_members_reopen(struct dlend_ram *ram, bool lost);

/**
 * dlend_members_grow - RAM has come: users shut their gates before this returns, and build
 * @ram: (in) RAM
 * @by: (in) member that knows it already; NULL: none does
 *
 * Context: may sleep; takes loss_lock, so the caller has no pin under way.
 */
void dlend_members_grow(struct dlend_ram *ram, const struct dlend_memory *by);

/** dlend_ram_due - RAM may have come in @ranges, or anywhere (NULL). Context: takes ram->lock. */
void dlend_ram_due(struct dlend_ram *ram, const struct dlend_ranges *ranges);

/* pin.c */

/** dlend_unpin_init - prepare a new @vm for pins. Context: process. Return: 0 or -ENOMEM. */
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
 * dlend_unpin_add - hand over chunks that have left the pin table, to be unpinned
 * @vm: (in, out) VM
 * @out: (in, out) chunks, which are out of the aperture; empty afterwards.  Their owners stay
 *	members, with their VFIO devices open, until dlend_unpin_all() has returned
 *
 * Context: ram->lock held since before they left the pin table, so each pinned chunk is either in
 * the books or here.  The caller then calls dlend_unpin_all() or dlend_unpin_start().
 */
void dlend_unpin_add(struct dlend_vm *vm, struct list_head *out);

/** dlend_unpin_start - have @workers unpin. Context: any lock of guest memory may be held. */
void dlend_unpin_start(struct dlend_vm *vm, unsigned int workers);

/**
 * dlend_unpin_all - unpin all chunks that were handed over, and wait for those of other threads
 * @vm: (in, out) VM
 *
 * Context: may sleep; no lock is held that dma_unmap takes, and none of VFIO's.
 */
void dlend_unpin_all(struct dlend_vm *vm);

/**
 * dlend_unpin_await - for dma_unmap: wait until nothing in a range is pinned
 * @mem: (in, out) member whose device was called; the chunks of the range have left the pin table
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: VFIO's locks are held, none of guest memory.
 * Return: true: nothing is pinned there, or other threads of the VMM have to go on first, and VFIO
 * calls again.  False: a pin has ended there: take the range away once more, and call again.
 */
bool dlend_unpin_await(struct dlend_memory *mem, u64 gpa, u64 last);

/** dlend_unpin_leave - @mem gets no more calls of dma_unmap. Context: process. */
void dlend_unpin_leave(struct dlend_memory *mem);

/**
 * dlend_pin_begin_for - begin a pin through another member: from now on dma_unmap waits for it
 * @mem: (in, out) member that has the chunk; it has one pin under way at a time
 * @via: (in) open member through which the chunk is to be pinned
 * @chunk: (in) chunk that is pinned already, so neither builds nor calls of dma_unmap matter
 *
 * Context: ram->lock held; takes vm->lock.
 */
void dlend_pin_begin_for(struct dlend_memory *mem, struct dlend_memory *via,
			 const struct dlend_chunk *chunk);

/**
 * dlend_pin_end - a pin is no longer under way: it is in the pin table, or was given up
 * @mem: (in, out) member for which it began
 * @grown: (in) a new chunk is in the pin table
 *
 * Context: may sleep; takes ram->lock.
 */
void dlend_pin_end(struct dlend_memory *mem, bool grown);

/**
 * dlend_pin_in_flight - is a pin under way?
 * @vm: (in) VM
 * @via: (in) member; only pins through it count; NULL: all pins
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: any; takes vm->lock. Return: true if there is one that touches the range.
 */
bool dlend_pin_in_flight(struct dlend_vm *vm, const struct dlend_memory *via, u64 gpa, u64 last);

/** dlend_pin_await - wait until no pin is under way through @via. Context: as dlend_unpin_all(). */
void dlend_pin_await(const struct dlend_memory *via);

/**
 * dlend_pin_chunk - pin all pages of a chunk, in batches
 * @via: (in, out) member through which they are pinned
 * @chunk: (in) chunk; only its gpa, npages and prot are used
 * @pages: (out) its pages
 * @build: (in) true in a build of @via's: give way between batches, and count the calls
 *
 * Context: may sleep for long; no lock is held that dma_unmap takes; the pin is under way.
 * Return: 0; or nothing is pinned, and -EINTR: give way, or the VMM is exiting; or an error of
 * vfio_pin_pages().
 */
int dlend_pin_chunk(struct dlend_memory *via, const struct dlend_chunk *chunk, struct page **pages,
		    bool build);

/**
 * dlend_pin_ram - pin pages and enter them in the pin table
 * @mem: (in, out) member that builds or looks
 * @gpa: (in) first address
 * @npages: (in) how many, within one chunk
 * @prot: (in) DLEND_PROT_*
 * @try: (in) only find out whether they can be pinned: unpin them again, and enter nothing
 *
 * Context: as for dlend_pin_chunk(), but the pin is not under way yet.
 * Return: as struct dlend_scan_ops.pin; after an error none of the pages is pinned.
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

/** dlend_pin_unmaps_in_flight - is a dma_unmap under way, or was just now? Context: any. */
bool dlend_pin_unmaps_in_flight(struct dlend_vm *vm);

/* map.c.  dlend_map_part(), _new() and _tell() are stages of a build, under build_lock. */

/**
 * dlend_map_part - end the extents that cannot stay, also at the lenders of all members
 * @mem: (in, out) member that builds
 *
 * If mapped chunks leave their windows, all gates are shut before, and all members build again.
 *
 * Context: may sleep; takes loss_lock and ram->lock; waits for lenders.
 * Return: 0, or an error of dlend_link_call_in() for this member: its lender may not know then.
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
 * dlend_map_tell - have a member's lender map all extents that it may not have
 * @mem: (in, out) member
 *
 * Context: may sleep; waits for the lender.
 * Return: 0; -EAGAIN the build must give way; or an error of dlend_link_call_in().
 */
int dlend_map_tell(struct dlend_memory *mem);

/**
 * dlend_map_others_due - is there an extent that the lender of another user has not heard of?
 * @mem: (in) member that has built
 *
 * Context: ram->lock held.
 */
bool dlend_map_others_due(const struct dlend_memory *mem);

/**
 * dlend_ram_map_kill - take extents out of the pin table and the aperture
 * @ram: (in, out) RAM
 * @match: (in) says which extents; NULL: all
 * @arg: (in) for @match
 *
 * They are unmapped and flushed when this returns; their chunks are loose.  Slots that no lender
 * has heard of are free.  The others are in quarantine, and their extents in ram->dead.
 *
 * Context: ram->lock held. Return: true if there were any.
 */
bool dlend_ram_map_kill(struct dlend_ram *ram,
			bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg);

/**
 * dlend_ram_map_bury - free a dead extent, which no lender has any more
 * @ram: (in, out) RAM
 * @extent: (in) extent in ram->dead; its slot becomes free, too, if that is safe
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_bury(struct dlend_ram *ram, struct dlend_extent *extent);

/** dlend_ram_map_kill_all - dlend_ram_map_kill() of all; a loss. Context: ram->lock held. */
void dlend_ram_map_kill_all(struct dlend_ram *ram);

/** dlend_map_init - make @ram->tell_work and @ram->down_work. Context: any. */
void dlend_map_init(struct dlend_ram *ram);

/**
 * dlend_loss_take - take a range away, through whatever member it was pinned
 * @mem: (in) member that is being unmapped or closed
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * VFIO calls one device after the other, and each is to have no pin left there.  So the first call
 * takes all chunks, of all members.  If they may come back, the gates of all users are shut before,
 * and all users build anew; running builds give way.  If they were unplugged, no gate is shut and
 * no build gives way; the IOMMU blocks DMA that a device still does there; extents that have become
 * empty leave the pin table, and lenders hear of it later.
 *
 * Context: may sleep; takes loss_lock and ram->lock.  The caller then waits until all is unpinned,
 * and until pins that are under way there have ended.
 * Return: true if something was there; it is out of the aperture.
 */
bool dlend_loss_take(struct dlend_memory *mem, u64 gpa, u64 last);

/**
 * dlend_loss_undo - undo all that a build has pinned and mapped
 * @mem: (in, out) member whose build it is
 *
 * Lenders that have mapped some of it are told later.
 *
 * Context: build_lock held; may sleep; takes loss_lock and ram->lock.
 */
void dlend_loss_undo(struct dlend_memory *mem);

/* watch.c */

/**
 * dlend_watch_begin - have the VM watched for new RAM, unless @mem is closed
 * @mem: (in, out) member that is about to build: slots that are added later are noticed
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
 * @otherwise: (in) the answer if the VM does not run on KVM
 *
 * Context: may sleep; takes vm->watch_lock and the VMM's mmap_lock.
 */
bool dlend_watch_is_ram(struct dlend_memory *mem, u64 gpa, bool otherwise);

/**
 * dlend_watch_read_slots - read the VM's memory slots into mem->slots
 * @mem: (in, out) member; mem->slots is empty afterwards if they are not known
 *
 * Context: may sleep; takes vm->watch_lock and the VMM's mmap_lock.
 * Return: 0; -EINTR @mem is closed; -ENOMEM.
 */
int dlend_watch_read_slots(struct dlend_memory *mem);

#endif
