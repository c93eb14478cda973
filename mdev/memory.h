/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DMA windows of a borrowed device: guest RAM that is pinned, mapped in this node's aperture, and
 * mapped by the lender at the same guest-physical addresses.  The rest of mdev/ uses this header;
 * ram.h has the objects behind it.
 *
 * struct dlend_memory is the part that one lease has in the memory of its VM.  All devices that the
 * same VM borrows over the same link share the pins and the mappings in the aperture.
 */
#ifndef DLEND_MDEV_MEMORY_H
#define DLEND_MDEV_MEMORY_H

#include <linux/sched.h>
#include <dlend/borrower.h>
#include <dlend/link.h>

struct kvm;
struct mm_struct;
struct seq_file;
struct vfio_device;
struct dlend_memory;
struct dlend_ranges;
struct dlend_vdev;

/* The VMM that has opened a device, for its memlock limit and its memory control group. */

/**
 * struct dlend_vmm - a VMM
 * @task: its first thread, with a reference; NULL: none
 * @mm: its address space, which may have ended, with a reference
 * @locks_all: it may lock as much as it likes (CAP_IPC_LOCK)
 */
struct dlend_vmm {
	struct task_struct *task;
	struct mm_struct *mm;
	bool locks_all;
};

/** dlend_vmm_user - a process, by its first @thread. Context: any. */
static inline struct dlend_user dlend_vmm_user(const struct task_struct *thread)
{
	return (struct dlend_user){ .pid = thread->tgid, .since = thread->start_boottime };
}

/** dlend_vmm_note - @vmm is the calling process from now on. Context: system call. */
void dlend_vmm_note(struct dlend_vmm *vmm);

/** dlend_vmm_copy - copy @from, which is set, to @to, with references. Context: any. */
void dlend_vmm_copy(struct dlend_vmm *to, const struct dlend_vmm *from);

/** dlend_vmm_drop - give the references of @vmm back, if it is set. Context: process. */
void dlend_vmm_drop(struct dlend_vmm *vmm);

/**
 * struct dlend_memory_stat - numbers for debugfs and sysfs
 * @pinned_bytes: pinned, through any device
 * @rebuilds: builds that repaired a loss
 * @waits: builds that found memory missing that might come back
 * @pin_longest_us: longest call to VFIO, which holds a lock for so long
 * @unmaps: calls of dma_unmap that took something
 * @unmap_longest_us: the longest of them, under the VMM's big lock
 * @pin_calls: calls to VFIO
 * @pin_us: how long these took
 * @map_us: time to map in the aperture
 * @last_build_calls: of @pin_calls, in the last build
 * @looks: dlend_memory_look(), which are in no build
 * @wakeups: of the thread that watches the VM's memory, for all of its devices
 * @messages: requests to the lender
 * @own_bytes: of @pinned_bytes, through this device's own VFIO device
 * @taken_bytes: taken over from devices that were closed
 * @sharers: devices that use the pinned memory
 * @table_bytes: kernel memory of the pin table about pinned memory
 * @pages_4k: pages of the IOMMU by which all that is in the aperture is mapped; so also @pages_2m
 *	and @pages_1g
 * @pages_2m: see @pages_4k
 * @pages_1g: see @pages_4k
 */
struct dlend_memory_stat {
	u64 pinned_bytes, rebuilds, waits, pin_longest_us, unmaps, unmap_longest_us;
	u64 pin_calls, pin_us, map_us, last_build_calls, looks, wakeups, messages;
	u64 own_bytes, taken_bytes, sharers, table_bytes;
	u64 pages_4k, pages_2m, pages_1g;
};

/**
 * struct dlend_memory_ops - what guest memory tells a device, and asks it
 * @unmapping: windows are going: when this returns, the guest has no new access to the device
 * @unmapped: the windows have gone; @lost: the device has to build anew
 * @grown: there is more RAM, or will be: the guest has no new access until a build has told the
 *	lender of it
 * @progress: a build goes on, this device's or one that it waits for
 * @exit: the VMM dies: the device has to stop
 * @leave: the VMM dies: the lease has to end
 * @quiesced: true: the device has stopped, or its lease is over
 * @stuck: memory stays pinned, because VFIO waits for itself: the lease has to end
 * @stop: true: a build of this device's has to give way at once, and begin again later
 * @behind: true: the device may transfer, and does not reach all new RAM yet.  The device itself
 *	ends that after some time
 * @look: true: the device is going to look for new RAM; false: it cannot now
 *
 * All are called with locks of guest memory held; so they do not wait, and call no function of this
 * header.  @progress, @quiesced, @stop and @look take no lock.  They may be called until
 * dlend_memory_destroy() returns.
 */
struct dlend_memory_ops {
	void (*unmapping)(struct dlend_vdev *v);
	void (*unmapped)(struct dlend_vdev *v, bool lost);
	void (*grown)(struct dlend_vdev *v);
	void (*progress)(struct dlend_vdev *v);
	void (*exit)(struct dlend_vdev *v);
	void (*leave)(struct dlend_vdev *v);
	bool (*quiesced)(struct dlend_vdev *v);
	void (*stuck)(struct dlend_vdev *v);
	bool (*stop)(struct dlend_vdev *v);
	bool (*behind)(struct dlend_vdev *v);
	bool (*look)(struct dlend_vdev *v);
};

extern const struct dlend_memory_ops dlend_memory_user;

/** dlend_memslots_confidential - is the VM's memory hidden from its host? Context: any. */
bool dlend_memslots_confidential(const struct kvm *kvm);

/** dlend_memory_start - as the module is loaded. Context: process. Return: 0 or -ENOMEM. */
int dlend_memory_start(void);

/**
 * dlend_memory_stop - as the module is unloaded, when there is no guest memory any more
 *
 * Context: process; waits for messages to lenders.
 */
void dlend_memory_stop(void);

/**
 * dlend_memory_create - make the part of one lease; nothing is pinned yet
 * @v: (in) device, for struct dlend_memory_ops
 * @vdev: (in) its VFIO device, through which guest pages are pinned; devices of one VM share RAM
 * @lease: (in) lease, which outlives the memory; all messages are in its session
 * @vmm: (in) VMM that opened the device; its references are taken over, also on failure
 * @lowmem: (in) end of the guest's RAM below 4 GiB, in bytes, as the administrator has set it; 0:
 *	not set
 *
 * Context: process, may sleep. Return: memory; ERR_PTR(-ENOTCONN) the session is over;
 * ERR_PTR(-ENOMEM).
 */
struct dlend_memory *dlend_memory_create(struct dlend_vdev *v, struct vfio_device *vdev,
					 const struct dlend_lease *lease, struct dlend_vmm *vmm,
					 u64 lowmem);

/* What dlend_memory_build() is for */
#define DLEND_BUILD_ANEW	0x1	/* no look was made for a while: look in all slots */
#define DLEND_BUILD_OPEN	0x2	/* the gate is open: shut it before RAM is pinned */

/**
 * dlend_memory_build - find, pin and map the guest's RAM, and have the lender map it
 * @mem: (in, out) memory
 * @how: (in) DLEND_BUILD_*
 *
 * From the first call on, one thread watches for new RAM, for all devices of the VM, until they are
 * closed.  If RAM comes with a memory slot of KVM's, all devices are told (@grown), and the VMM's
 * call that adds the slot returns when no device is @behind any more.  If RAM comes otherwise, one
 * device on each link has to @look.
 *
 * A build probes for RAM (everywhere at first, then where RAM may have come since), pins new RAM,
 * has lenders unmap RAM that is gone for good, maps new RAM in the aperture, and has the lender map
 * it.  If another device of the VM has built that already, only the lender must be told.  The work
 * is in proportion to the changes since the last build.  Memory that went away and came back
 * (firmware) is mapped in its old slot again, and the lender has nothing to do.
 *
 * Context: a worker; takes seconds; waits for the lender, and after a dma_unmap a moment for VFIO
 * to finish.  Builds of one VM on one link wait for each other.
 *
 * Return: 0: all RAM where the build looked is mapped on both sides, and nothing was unmapped
 * during the build.  -EAGAIN: the layout has changed; or memory was taken away just now and may
 * come back; or there is no RAM at all, or none at address 0, as with a virtual IOMMU; or
 * dlend_memory_ops.stop said so.  Call again; pinned memory stays pinned until then.  Any other
 * error: all that this call has pinned, mapped or told is undone, and earlier windows stay.  They
 * may be incomplete: keep the gate closed if @unmapped said @lost.  -ENOMEM (mostly the limit of
 * locked memory), -ENOSPC the aperture is full, -EOPNOTSUPP the layout changes all the time (a
 * virtual IOMMU; may be called again after ten seconds), -EFAULT RAM that cannot be pinned,
 * -ENOTCONN the session is over, -ETIMEDOUT, ...  dlend_memory_why() and the log say what to do.
 */
int dlend_memory_build(struct dlend_memory *mem, u32 how);

/** dlend_memory_rescan - RAM may have come: the next build looks everywhere. Context: may sleep. */
void dlend_memory_rescan(struct dlend_memory *mem);

/**
 * dlend_memory_passed - find BARs of devices that this host itself passes through to the VM
 * @mem: (in) memory
 * @bars: (in, out) receives their ranges; none if the VM is not watched
 *
 * Context: may sleep; takes the VMM's mmap_lock. Return: 0; -ENOMEM: some are missing.
 */
int dlend_memory_passed(struct dlend_memory *mem, struct dlend_ranges *bars);

/**
 * dlend_memory_look - has RAM come in holes of the VM's memory slots (virtio-mem)?
 * @mem: (in, out) memory
 *
 * Makes at most 32 pin calls, which fail at once if no RAM has come; none if there are no holes.
 * If the slots are not known, everything up to 64 GiB above known RAM counts as a hole.  If RAM has
 * come, all devices of the VM that use this memory are told (@grown), this one too, before any of
 * them can have pinned it.  During a search of a build it does nothing.
 *
 * Context: the worker that builds, without the locks that @grown takes.
 */
void dlend_memory_look(struct dlend_memory *mem);

/**
 * dlend_memory_unmap - VFIO's dma_unmap
 * @mem: (in, out) memory
 * @gpa: (in) first address
 * @size: (in) bytes; ~0 with @gpa 0 is everything (iommufd)
 *
 * When this returns, the range is unmapped and flushed in the aperture.  Its pages are unpinned by
 * then, or before VFIO has unmapped them.  Offsets stay reserved until the lender has acknowledged
 * that it unmapped them, or until the same memory comes back.  The next build tells the lender.
 *
 * Context: VFIO's locks and the VMM's big lock are held.  Never waits for a peer, nor for a build
 * (which is told to give way).  May wait for one pin call of 64 pages in the range, and for 32 MiB
 * that are being unpinned elsewhere.  Most of the time is VFIO's: type1 unpins page by page, 0.2 s
 * for 768 MiB on an emulated host.  If other threads of the VMM are in VFIO, this may return
 * earlier, and VFIO calls again: see pin.c.
 *
 * If the memory may come back at once, the guest's driver does not know that it is away.  So the
 * gates of all users are shut before (@unmapping), until they have built anew.  Before memory is
 * unplugged, the guest gives it up, and the devices work on.
 */
void dlend_memory_unmap(struct dlend_memory *mem, u64 gpa, u64 size);

/**
 * dlend_memory_fence - block all that the device sends, until its next build
 * @mem: (in, out) memory
 *
 * All is unmapped in the aperture when this returns; it stays pinned, and keeps its slots.  Builds
 * of other devices map nothing before this device has stopped (dlend_memory_ops.quiesced).  Nothing
 * is done if another device of the VM uses the same windows: this node cannot tell the two apart.
 *
 * Context: may sleep; does not wait. Return: true if it is blocked, or the aperture is gone.
 */
bool dlend_memory_fence(struct dlend_memory *mem);

/**
 * dlend_memory_revoke - the lease is about to end
 * @mem: (in, out) memory
 *
 * From now on nothing is pinned through it, nor told to its lender.  If no other device uses the
 * same RAM, nothing that the device sends arrives here when this returns.  Pages stay pinned until
 * dlend_memory_close(), which user space can delay for as long as it likes: so leases end before.
 *
 * Context: may sleep; does not wait.
 */
void dlend_memory_revoke(struct dlend_memory *mem);

/**
 * dlend_memory_vmm_exits - the VMM dies, and will close all of its devices now
 * @mem: (in, out) memory of the first of them
 *
 * The others stop (@exit), and their leases end (@leave), as it may take the VMM long to close
 * them.  The first of them that is closed takes all memory away, instead of handing its pins to the
 * next.
 *
 * Context: may sleep; waits at most a second for all to stop.
 */
void dlend_memory_vmm_exits(struct dlend_memory *mem);

/**
 * dlend_memory_close - the VMM closes the device, or its lease is over
 * @mem: (in, out) memory
 *
 * As dlend_memory_revoke(); and nothing is pinned through it when this returns, nor will be.
 * Another user of the same RAM takes over its pins, which takes about as long as pinning.
 *
 * Context: may sleep; before VFIO's close_device() returns, because nothing can be unpinned later.
 * The VMM's big lock may be held (a device is unplugged): waits as dlend_memory_unmap() does, and
 * for no message to a peer.
 */
void dlend_memory_close(struct dlend_memory *mem);

/**
 * dlend_memory_link_down - the session is over
 * @mem: (in, out) memory; one call is enough for all devices that share it
 *
 * When this returns, the aperture is unmapped, and the next session releases the slots.  A worker
 * (or dma_unmap) unpins the pages.  From now on builds return -ENOTCONN.
 *
 * Context: may sleep; also from a link's callbacks; does not wait.
 */
void dlend_memory_link_down(struct dlend_memory *mem);

/**
 * dlend_memory_destroy - dlend_memory_close() if that was not done, and the end
 * @mem: (in) memory
 * @acked: (in) the lender has the device back, so its slots may be used again at once.  If not,
 *	slots that its lender was told of stay reserved until the session ends, and whoever shares
 *	the memory gets other slots
 *
 * Context: process, may sleep.
 */
void dlend_memory_destroy(struct dlend_memory *mem, bool acked);

/**
 * dlend_memory_why - why the last build failed, or is to be made again
 * @mem: (in) memory
 * @err: (in) of dlend_memory_build()
 * @why: (in, out) words; for -EAGAIN unchanged if it is not known
 * @len: (in) size of @why in bytes
 *
 * Context: may sleep; takes the VMM's mmap_lock.
 */
void dlend_memory_why(struct dlend_memory *mem, int err, char *why, size_t len);

/** dlend_memory_pinned - bytes that are pinned, through any device. Context: any. */
u64 dlend_memory_pinned(const struct dlend_memory *mem);

/** dlend_memory_stat - numbers, into @st. Context: may sleep. */
void dlend_memory_stat(struct dlend_memory *mem, struct dlend_memory_stat *st);

/** dlend_memory_show - extents and numbers, for debugfs. Context: may sleep. */
void dlend_memory_show(struct dlend_memory *mem, struct seq_file *m);

#endif
