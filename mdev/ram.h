/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest RAM in this node's aperture: the objects that the files below share, and their locks.  Only
 * these files include this header; all others use memory.h.
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
 *   ram.c	references, works, the list of members and the calls of their ops, the VMM
 *   pin.c	pins and unpins through VFIO; what dma_unmap waits for
 *   watch.c	KVM's memory slots, and the watch for slots that are added
 *   map.c	RAM in the aperture, messages to lenders, and losses of RAM
 *   share.c	which leases share RAM: life of RAM and of its members
 *   build.c	a build, stage by stage; the search for RAM; numbers and words for people
 *
 * Locks, outer first:
 *   close_lock	of a member.  A member is closed once; a second caller waits.  Held across pins, not
 *		across a peer call.
 *   build_lock	one build, or one run of tell_work or down_work, at a time.  Held across pins and
 *		peer calls: seconds.
 *   search_lock  one search or look for RAM at a time.  A build has it while it scans.  Held
 *		across pins.
 *   vm->watch_lock  held while the watch begins or ends, and while struct kvm is read.  KVM's VM
 *		stays as long as a member watches.  The VMM's mmap_lock is taken under this lock.
 *		Held while the watch's thread is stopped, which takes any of the locks below.
 *   dlend_rams_lock  the list of all RAM, the members that join, and references on struct dlend_vm.
 *		Held for a moment.
 *   loss_lock	one loss of RAM at a time.  Held across members' ops, never across a pin, an unpin
 *		or a peer call.  A member does not leave while this lock is held.
 *   lock	pin table, aperture, state.  Held for one aperture operation on one chunk or one run
 *		of chunks (or on the slots of some extents), never across VFIO or a peer call.
 *   vm->lock	a spinlock: what is being unmapped, pinned and unpinned in all of the VM.
 * Some of a member's ops take vdev->lock (memory.h); none of the locks above may be taken under
 * vdev->lock.
 *
 * VFIO calls dma_unmap while it holds locks that vfio_pin_pages() and vfio_unpin_pages() take, too.
 * dma_unmap takes loss_lock, ram->lock and vm->lock.  So none of these is held across a pin or an
 * unpin, and dma_unmap itself neither pins nor unpins (pin.c).  dma_unmap is called under the VMM's
 * big lock, and waits for all that is being unpinned.  So work that is not urgent unpins only
 * 32 MiB (DLEND_DROP_BYTES) at a time.
 *
 * User space can delay a pin for as long as it likes: the guest's memory may be a file that user
 * space serves.  Unpins then wait, too, because VFIO has one lock for both.  So
 * dlend_memory_link_down() takes only ram->lock, and what runs before leases are returned
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

/* Milliseconds between two checks of a condition that must be polled. */
#define DLEND_TURN_MS	(DLEND_SETTLE_MS / 4)

/* How many chunks of a VM can be unpinned at the same moment. */
#define DLEND_UNPINNERS	256u

/**
 * struct dlend_unpinner - one of a VM's workers that unpin
 * @work: the worker
 * @vm: VM whose chunks it unpins
 */
struct dlend_unpinner {
	struct work_struct work;
	struct dlend_vm *vm;
};

/**
 * struct dlend_vm - what all RAM of a VM has in common, on all links
 * @ref: references of the VM's struct dlend_ram; the last one is put under dlend_rams_lock
 * @kvm: KVM's VM, or NULL; fixed.  Alive, and thus dereferenced, only while @watchers is not 0
 * @vmm: process that opened the first device; distinguishes VMs without KVM; fixed
 * @lock: guards the fields from @unmaps to @steps; @unpinning and @steps are read without it, too
 * @unmaps: calls of dma_unmap that are under way, for any device
 * @pins: members for which a pin is under way
 * @unpin: chunks that have left the pin table and are still pinned
 * @unpinning: number of chunks in @unpin, plus number of chunks that workers are unpinning
 * @steps: grows with each pin that ends, even if it failed, and with each chunk that is unpinned
 * @step_done: wait queue for a change of @steps
 * @turns: struct dlend_unpin_turn of the VMM's threads whose dma_unmap has given way, by pid.  The
 *	thread itself adds and removes its entry
 * @wq: workqueue of @unpinner
 * @unpinner: works that unpin
 * @watch_lock: guards @watchers and @task
 * @watchers: number of members that have the VM watched
 * @task: the thread that watches, or NULL.  The fields below belong to this thread; while it does
 *	not run, @watch_lock guards them
 * @slots: memory slots at the thread's last check
 * @still: number of checks in a row in which nothing changed
 * @looked_ms: time of the thread's last request for a look (dlend_memory_ops.look())
 * @holes: the slots had holes at that time
 * @wakeups: how often the thread has woken up; read by others without a lock
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
	struct mutex watch_lock;	/* from @watchers to @holes */
	unsigned int watchers;
	struct task_struct *task;
	struct dlend_memslots slots;
	u32 still;
	u64 looked_ms, wakeups;
	bool holes;
};

/**
 * struct dlend_ram - RAM of one VM, pinned, in the aperture of one session of one link
 * @node: in dlend_rams; under dlend_rams_lock
 * @ref: references of the members, and of works that are queued
 * @vm: VM whose RAM this is, with a reference; fixed
 * @iommufd: the VMM maps its memory by /dev/iommu, not by the legacy container; fixed
 * @lowmem: end of RAM below 4 GiB in bytes, as the administrator has set it; 0: not set; fixed
 * @session: session with the peer that the lenders are on, with a reference on the link; fixed
 * @build_lock: see the list of locks
 * @search_lock: see the list of locks
 * @loss_lock: see the list of locks
 * @lock: see the list of locks; guards all that follows
 * @pinned: pin table: pinned chunks, and extents
 * @ap: this node's aperture, NULL once the link is down; read without the lock, too
 * @member: members by number, NULL: none.  A member enters under @lock, and leaves under @loss_lock
 *	and @lock; so it is enough for a reader to hold one of the two
 * @users: number of members with &dlend_memory.user
 * @over: all members were closed; none may join, because the VM may be another one now
 * @vmm_exits: the VMM dies, and closes its devices one after the other; set under @loss_lock
 * @lost: grows with each event to which a running build must give way; read without the lock, too
 * @build: number of the current or last build
 * @due: ranges in which RAM may have come, or come back, since the last search there
 * @holes: the memory slots have holes, so RAM may come without a new slot; set without @lock, too
 * @dead: extents that have left the pin table, but that lenders may still map
 * @tell_work: sends DMA_UNMAP for the extents in @dead
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
 *
 * Fixed once the member has joined:
 * @ram: RAM, with a reference
 * @id: number of this member among the members of @ram
 * @vdev: VFIO device through which this member pins
 * @kvm: KVM's VM when the member joined; compared only, never dereferenced
 * @v: device, for struct dlend_memory_ops
 * @lease: lease; it outlives the member
 * @lowmem: as in @ram
 * @vmm: VMM that opened the device, with references
 *
 * @close_lock: see the list of locks
 *
 * Under ram->lock (@user and @closed are read without it, too):
 * @user: the member has built, or is building, and is not closed: it needs the DMA mappings
 * @closed: no pin begins through @vdev any more, and the lender gets no more messages
 * @fenced: the device did not stop in time: until it has, nothing is mapped for any member
 * @pinned_most: most bytes that were in the pin table since the current or last build began
 * @passed_told: the log says already that this host passes a device of its own through to the VM
 * @reason: why the last build failed
 *
 * Under ram->loss_lock:
 * @shut: dlend_members_shut() has shut the device's gate
 *
 * Under @close_lock (read without it, too):
 * @emptied: the member is closed, and nothing is pinned through @vdev any more
 *
 * Under vm->lock:
 * @pinning: in vm->pins, while a pin for this member is under way
 * @via: member through which that pin is made
 * @pin_gpa: first address of that pin
 * @pin_last: last address of that pin
 *
 * Under vm->watch_lock:
 * @watches: this member is one of vm->watchers, so KVM's VM stays
 *
 * Of the build or look that is under way, under ram->build_lock or ram->search_lock.  As all builds
 * and looks of a member run on one ordered workqueue, there is one at a time:
 * @build: number of the current or last build
 * @build_lost: ram->lost when that build, or the last look, began
 * @pin_err: result of the last pin call of this build
 * @pages: pages of the chunk that is being pinned, or handed over at close
 * @due: ranges that the current build has taken over from @ram
 * @how: DLEND_BUILD_* of the current build
 * @announced: in the current build, dlend_memory_ops.grown() was called for the other members, or
 *	need not be
 * @walk: ranges in which the current build searches for RAM
 * @slots: the VM's memory slots; empty: not known
 * @unpinnable: guest-physical address of RAM that cannot be pinned
 * @turn: where the next look goes on
 * @repairs: number of builds that repaired a loss since @repairs_since
 * @repairs_since: in jiffies
 *
 * @stat: numbers; each is written by one thread at a time, and read without a lock
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

/* Return: the next member from number *@id on, or NULL.  *@id moves behind that member. */
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

/* Module parameter look_ms: milliseconds between looks (scan.h); 0: no looks */
extern unsigned int dlend_look_ms;

/* All struct dlend_ram, for share.c.  See the list of locks for the lock. */
extern struct mutex dlend_rams_lock;
extern struct list_head dlend_rams;

/**
 * dlend_ram_put - put a reference; the last one frees the object
 * @ram: (in) RAM
 *
 * Context: process; if the reference is the last, takes dlend_rams_lock, so no lock that is inside
 * of that one is held.
 */
void dlend_ram_put(struct dlend_ram *ram);

/**
 * dlend_ram_next - go through the RAM of a VM on all links
 * @vm: (in) VM
 * @ram: (in) what the last call returned; its reference is put.  NULL: begin
 *
 * A caller that ends the loop early puts the reference itself.
 *
 * Context: process; takes dlend_rams_lock, so no lock that is inside of that one is held.
 * Return: the next one, with a reference; NULL: there is no more.
 */
struct dlend_ram *dlend_ram_next(struct dlend_vm *vm, struct dlend_ram *ram);

/**
 * dlend_ram_queue - queue tell_work or down_work
 * @ram: (in) RAM; the caller has a reference on it
 * @work: (in) &ram->tell_work or &ram->down_work; a reference is taken for it, which the work puts
 *
 * Does nothing if the work is queued already.
 *
 * Context: process; any of the locks of @ram may be held.
 */
void dlend_ram_queue(struct dlend_ram *ram, struct work_struct *work);

/** dlend_ram_now_ms - time in ms for the pin table and for dma_unmap calls. Context: any. */
static inline u64 dlend_ram_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

/** dlend_ram_disturb - make a running build give way to a loss. Context: ram->lock held. */
static inline void dlend_ram_disturb(struct dlend_ram *ram)
{
	lockdep_assert_held(&ram->lock);
	WRITE_ONCE(ram->lost, ram->lost + 1);
}

/**
 * dlend_ram_add_due - make the next build search a range, as RAM may come there
 * @ram: (in, out) RAM
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * If memory is short, the next build searches everywhere.  Context: ram->lock held; may sleep.
 */
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
 * Context: any.  Without ram->lock the answer may be out of date when it is used.
 * Return: true after a loss, if the member was closed, if the link is down, or if the device's
 * worker has a more urgent step to make (dlend_memory_ops.stop()).
 */
static inline bool dlend_memory_disturbed(const struct dlend_memory *mem)
{
	return READ_ONCE(mem->ram->lost) != mem->build_lost || READ_ONCE(mem->closed) ||
	       !READ_ONCE(mem->ram->ap) || dlend_guest_memory_ops.stop(mem->v);
}

/**
 * dlend_vmm_lockable - how much memory does the VMM's memlock limit allow?
 * @vmm: (in) VMM, which is set
 *
 * Context: any. Return: bytes, locked ones included; U64_MAX: no limit.
 */
u64 dlend_vmm_lockable(const struct dlend_vmm *vmm);

/*
 * CLASS(dlend_charge, name)(vmm): to the end of the scope, this thread's allocations with
 * __GFP_ACCOUNT are charged to the VMM's memory cgroup.  Only allocations with DLEND_PINNED_GFP may
 * be made there, as others could invoke the OOM killer; so the scope must not call VFIO, nor map in
 * an IOMMU.  Context: process, may sleep.
 */
DEFINE_CLASS(dlend_charge, struct mem_cgroup *, mem_cgroup_put(set_active_memcg(_T)),
	     set_active_memcg(get_mem_cgroup_from_mm(vmm->mm)), const struct dlend_vmm *vmm)

/* ram.c: members, and the calls of their ops */

/**
 * dlend_members_use - set whether a member needs the DMA mappings
 * @mem: (in, out) member
 * @user: (in) true: the member builds; false: it is closed
 *
 * Context: ram->lock held.
 */
void dlend_members_use(struct dlend_memory *mem, bool user);

/**
 * dlend_members_fenced - may a fenced device still do DMA?
 * @ram: (in) RAM
 *
 * Context: ram->lock held.
 * Return: true if a member was fenced (dlend_memory_fence()), and has not stopped since.  Then the
 * caller must map nothing in the aperture.
 */
bool dlend_members_fenced(const struct dlend_ram *ram);

/**
 * dlend_members_call - call an op for each member that needs the DMA mappings
 * @ram: (in) RAM
 * @op: (in) op of dlend_guest_memory_ops
 * @except: (in) member to leave out, or NULL
 *
 * Context: loss_lock held, none of the vdevs' locks.
 */
void dlend_members_call(struct dlend_ram *ram, void (*op)(struct dlend_vdev *v),
			const struct dlend_memory *except);

/** dlend_members_progress - call the op progress() for all members. Context: ram->lock held. */
void dlend_members_progress(struct dlend_ram *ram);

/**
 * dlend_members_shut - shut the gates of all devices that need the DMA mappings
 * @ram: (in) RAM
 *
 * The caller does that before it removes mappings.
 *
 * Context: loss_lock held, until dlend_members_reopen() has returned; none of the vdevs' locks.
 */
void dlend_members_shut(struct dlend_ram *ram);

/**
 * dlend_members_reopen - end what dlend_members_shut() has begun; does nothing without that
 * @ram: (in) RAM
 * @lost: (in) true: mappings were removed, so each device has to build again before its gate opens
 *
 * Context: loss_lock held, none of the vdevs' locks.
 */
void dlend_members_reopen(struct dlend_ram *ram, bool lost);

/**
 * dlend_members_grow - shut the gates of devices, and have them build, as RAM has come
 * @ram: (in) RAM
 * @by: (in) member to leave out, because it builds already; NULL: none
 *
 * When this returns, the gates are shut.
 *
 * Context: may sleep; takes loss_lock, under which dma_unmap waits for pins: so the caller has no
 * pin under way.
 */
void dlend_members_grow(struct dlend_ram *ram, const struct dlend_memory *by);

/**
 * dlend_ram_due - make the next build search ranges, as RAM may have come there
 * @ram: (in, out) RAM
 * @ranges: (in) ranges; NULL: everywhere
 *
 * Context: may sleep; takes ram->lock.
 */
void dlend_ram_due(struct dlend_ram *ram, const struct dlend_ranges *ranges);

/* pin.c */

/**
 * dlend_unpin_init - set up the members of a new VM from @lock to @unpinner
 * @vm: (in, out) VM, zeroed
 *
 * Context: process. Return: 0 or -ENOMEM.
 */
int dlend_unpin_init(struct dlend_vm *vm);

/**
 * dlend_unpin_pages - unpin pages, in the batches in which dlend_pin_chunk() pinned them
 * @via: (in) member through which they were pinned; its VFIO device is open
 * @gpa: (in) first address
 * @npages: (in) number of pages
 *
 * Context: may sleep; none of loss_lock, ram->lock and vm->lock is held, as dma_unmap takes them.
 */
void dlend_unpin_pages(const struct dlend_memory *via, u64 gpa, u32 npages);

/**
 * dlend_unpin_add - queue chunks that have left the pin table, to be unpinned
 * @vm: (in, out) VM
 * @out: (in, out) chunks, which are no longer mapped in the aperture; empty afterwards.  The caller
 *	guarantees that their owners stay members, with their VFIO devices open, until
 *	dlend_unpin_all() has returned
 *
 * Context: ram->lock held since before the chunks left the pin table, so that each pinned chunk is
 * either in the pin table or in vm->unpin.  The caller then calls dlend_unpin_all() or
 * dlend_unpin_start().
 */
void dlend_unpin_add(struct dlend_vm *vm, struct list_head *out);

/**
 * dlend_unpin_start - wake workers that unpin what dlend_unpin_add() has queued
 * @vm: (in, out) VM
 * @workers: (in) the most workers that may run
 *
 * Context: any; any lock of guest memory may be held.
 */
void dlend_unpin_start(struct dlend_vm *vm, unsigned int workers);

/**
 * dlend_unpin_all - unpin all queued chunks, and wait for those that other threads unpin
 * @vm: (in, out) VM
 *
 * Context: may sleep; none of loss_lock, ram->lock, vm->lock and VFIO's locks is held.
 */
void dlend_unpin_all(struct dlend_vm *vm);

/**
 * dlend_unpin_await - for dma_unmap: wait until nothing in a range is pinned
 * @mem: (in, out) member for whose device VFIO has called dma_unmap.  The caller has taken the
 *	chunks of the range out of the pin table
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * Context: VFIO's locks are held, none of guest memory.
 * Return: true: nothing is pinned in the range, or other threads of the VMM have to go on first;
 * then VFIO finds the pins and calls dma_unmap again.  False: a pin in the range has ended, so a
 * chunk may be in the pin table: the caller takes the range out once more, and calls again.
 */
bool dlend_unpin_await(struct dlend_memory *mem, u64 gpa, u64 last);

/**
 * dlend_unpin_leave - forget turns that are counted at a member (struct dlend_unpin_turn)
 * @mem: (in) member; the caller guarantees that dma_unmap is not called for its device any more
 *
 * Context: process.
 */
void dlend_unpin_leave(struct dlend_memory *mem);

/**
 * dlend_pin_begin_for - begin a pin through another member: from now on dma_unmap waits for it
 * @mem: (in, out) member that owns the chunk, for which no other pin is under way
 * @via: (in) member through which the chunk is to be pinned as well; its VFIO device is open
 * @chunk: (in) chunk that is pinned already.  So this need not wait for a dma_unmap of the range to
 *	end, as the begin of a build's pin does
 *
 * Context: ram->lock held; takes vm->lock.
 */
void dlend_pin_begin_for(struct dlend_memory *mem, struct dlend_memory *via,
			 const struct dlend_chunk *chunk);

/**
 * dlend_pin_end - end a pin: dma_unmap no longer waits for it
 * @mem: (in, out) member for which the pin began.  The chunk is in the pin table by now, or its
 *	pages are unpinned again
 * @grown: (in) true: a new chunk is in the pin table
 *
 * Context: may sleep; takes ram->lock and vm->lock.
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

/**
 * dlend_pin_await - wait until no pin through a member is under way
 * @via: (in) member; the caller guarantees that no pin through it begins any more
 *
 * Context: as dlend_unpin_all().  User space can delay the end of a pin for any time.
 */
void dlend_pin_await(const struct dlend_memory *via);

/**
 * dlend_pin_chunk - pin all pages of a chunk, in batches
 * @via: (in, out) member through which they are pinned
 * @chunk: (in) chunk; only its gpa, npages and prot are used
 * @pages: (out) pages of the chunk, room for @chunk->npages
 * @build: (in) true: a build or look for @via pins: give way between batches, and count the calls.
 *	False: pins are handed over
 *
 * Context: may sleep for long; none of loss_lock, ram->lock and vm->lock is held.  The caller has
 * begun the pin (it is in vm->pins), and calls dlend_pin_end() later.
 * Return: 0; after an error nothing is pinned: -EINTR: the build must give way, or the VMM is
 * exiting; or an error of vfio_pin_pages().
 */
int dlend_pin_chunk(struct dlend_memory *via, const struct dlend_chunk *chunk, struct page **pages,
		    bool build);

/**
 * dlend_pin_ram - pin pages and enter them in the pin table as one chunk
 * @mem: (in, out) member that builds or looks; its close is noticed (-EINTR)
 * @gpa: (in) first address
 * @npages: (in) number of pages, which do not cross a multiple of DLEND_CHUNK_BYTES
 * @prot: (in) DLEND_PROT_*
 * @try: (in) true: only find out whether the pages can be pinned: unpin them again, and enter
 *	nothing
 *
 * Begins and ends the pin.  Waits while a dma_unmap of the range is under way.
 *
 * Context: may sleep for long; search_lock is held, none of loss_lock, ram->lock and vm->lock is.
 * Return: as struct dlend_scan_ops.pin; after an error none of the pages is pinned.
 */
int dlend_pin_ram(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot, bool try);

/**
 * dlend_pin_unmap_note - note that a call of dma_unmap begins or ends, for any device of a VM
 * @vm: (in, out) VM
 * @gpa: (in) first address
 * @last: (in) last address
 * @begins: (in) true: the call begins; false: it is about to return
 *
 * Context: process; takes vm->lock.
 */
void dlend_pin_unmap_note(struct dlend_vm *vm, u64 gpa, u64 last, bool begins);

/**
 * dlend_pin_unmaps_in_flight - is a call of dma_unmap under way for any device of a VM?
 * @vm: (in) VM
 *
 * Context: process; takes vm->lock.
 * Return: true if so, or if one has ended DLEND_SETTLE_MS ago or less.
 */
bool dlend_pin_unmaps_in_flight(struct dlend_vm *vm);

/* map.c.  The caller of dlend_map_part(), dlend_map_new() and dlend_map_tell() holds build_lock. */

/**
 * dlend_map_part - unmap the extents that cannot stay, here and at the lenders of all members
 * @mem: (in, out) member that builds
 *
 * If such an extent has mapped chunks, all gates are shut before, and all members build again.
 *
 * Context: may sleep; takes loss_lock and ram->lock; waits for lenders.
 * Return: 0, or an error of dlend_link_call_in() for @mem's lender, which may have extents mapped
 * then that are gone here.  Errors of other members' lenders do not count.
 */
int dlend_map_part(struct dlend_memory *mem);

/**
 * dlend_map_new - make extents of all loose chunks, and map all chunks in the aperture
 * @mem: (in, out) member that builds, and whose VMM is charged
 *
 * Context: may sleep; takes ram->lock for one run of chunks at a time.
 * Return: 0; -EAGAIN the build must give way, or a fenced device has not stopped; -EDQUOT the VM
 * would have more of the aperture than it may; -ENOSPC the aperture is full; -ENOMEM; or an error
 * of the IOMMU.
 */
int dlend_map_new(struct dlend_memory *mem);

/**
 * dlend_map_tell - have a member's lender map all extents that it may not have mapped
 * @mem: (in, out) member that builds
 *
 * Context: may sleep; takes ram->lock; waits for the lender.
 * Return: 0; -EAGAIN the build must give way; or an error of dlend_link_call_in().
 */
int dlend_map_tell(struct dlend_memory *mem);

/**
 * dlend_ram_map_kill - take extents out of the pin table and the aperture
 * @ram: (in, out) RAM
 * @match: (in) returns true for an extent that is to be taken out; NULL: all are
 * @arg: (in) passed to @match
 *
 * The extents are unmapped and flushed when this returns; their chunks are loose.  Slots of extents
 * that were in no DMA_MAP are free.  The others are in quarantine, and their extents in ram->dead.
 *
 * Context: ram->lock held. Return: true if there were any.
 */
bool dlend_ram_map_kill(struct dlend_ram *ram,
			bool (*match)(const struct dlend_extent *extent, u32 arg), u32 arg);

/**
 * dlend_ram_map_bury - free an extent that no lender has mapped any more
 * @ram: (in, out) RAM
 * @extent: (in) extent in ram->dead.  Its slot leaves the quarantine, unless a member has left
 *	whose lender never gave the extent up (DLEND_ACKS_LOST), or the session is over
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_bury(struct dlend_ram *ram, struct dlend_extent *extent);

/**
 * dlend_ram_map_kill_all - dlend_ram_map_kill() for all extents; running builds give way
 * @ram: (in, out) RAM
 *
 * Context: ram->lock held.
 */
void dlend_ram_map_kill_all(struct dlend_ram *ram);

/** dlend_map_init - initialise @ram->tell_work and @ram->down_work. Context: any. */
void dlend_map_init(struct dlend_ram *ram);

/**
 * dlend_loss_take - take a range away, through whatever member it was pinned
 * @mem: (in) member for whose device VFIO has called dma_unmap, or that is being closed
 * @gpa: (in) first address
 * @last: (in) last address
 *
 * VFIO calls dma_unmap for one device after the other, and each call is to leave no pin in the
 * range.  So the first call takes all chunks in the range out of the pin table and the aperture,
 * those of all members, and starts to unpin them.  If the memory may come back, the gates of all
 * members that need the mappings are shut before, and these members build again; running builds
 * give way.  If the memory was unplugged, no gate is shut and no build gives way.  The IOMMU blocks
 * DMA that a device still does there.  Extents that have become empty leave the pin table, and
 * tell_work has lenders unmap them.
 *
 * Context: may sleep; takes loss_lock and ram->lock.  The caller then waits until all is unpinned,
 * and until pins that are under way in the range have ended.
 * Return: true if a chunk or a pin under way was there.
 */
bool dlend_loss_take(struct dlend_memory *mem, u64 gpa, u64 last);

/**
 * dlend_loss_undo - unmap and unpin all that the current build of a member has pinned and mapped
 * @mem: (in, out) member
 *
 * tell_work has lenders unmap what they have mapped of it.
 *
 * Context: build_lock held; may sleep; takes loss_lock and ram->lock; waits for unpins.
 */
void dlend_loss_undo(struct dlend_memory *mem);

/* watch.c */

/**
 * dlend_watch_begin - have the VM watched for new memory slots
 * @mem: (in, out) member that is about to build; becomes one of the VM's watchers, unless it is
 *	closed or is one already
 *
 * Slots that are added after this has returned are noticed.  If the thread cannot be started, the
 * log says so, and the member is a watcher all the same.
 *
 * Context: may sleep; takes vm->watch_lock, dlend_rams_lock, ram->lock and the VMM's mmap_lock.
 */
void dlend_watch_begin(struct dlend_memory *mem);

/**
 * dlend_watch_end - make a member no watcher any more; if it was the last one, stop the thread
 * @mem: (in, out) member; the caller has set @mem->closed
 *
 * Context: may sleep; takes vm->watch_lock; waits for the thread, which takes any lock inside of
 * that one.
 */
void dlend_watch_end(struct dlend_memory *mem);

/**
 * dlend_watch_is_ram - does KVM have RAM at an address?
 * @mem: (in) member
 * @gpa: (in) guest-physical address
 * @otherwise: (in) the answer if the VM does not run on KVM
 *
 * Context: may sleep; takes vm->watch_lock and the VMM's mmap_lock.
 * Return: true if a memory slot that is not a BAR has the address, or if memory is too short to
 * find out; false also if @mem is not a watcher.
 */
bool dlend_watch_is_ram(struct dlend_memory *mem, u64 gpa, bool otherwise);

/**
 * dlend_watch_read_slots - read the VM's memory slots into mem->slots, if they have changed
 * @mem: (in, out) member; mem->slots is empty afterwards if the VM does not run on KVM
 *
 * Context: may sleep; search_lock is held; takes vm->watch_lock and the VMM's mmap_lock.
 * Return: 0; -EINTR @mem is no watcher, as it is closed; -ENOMEM.
 */
int dlend_watch_read_slots(struct dlend_memory *mem);

#endif
