/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DMA mappings of a borrowed device: guest RAM that is pinned, mapped in this node's aperture, and
 * mapped by the lender at the same guest-physical addresses.  (Messages and tracepoints call them
 * DMA windows.)  The rest of mdev/ uses this header; ram.h has the objects behind it.
 *
 * struct dlend_memory is the part that one lease has in the memory of its VM.  All devices that the
 * same VM borrows over the same link share the pins and the mappings in the aperture.
 *
 * Locks of guest memory (ram.h) are never taken under vdev->lock.  So, if a function here does not
 * say otherwise, the caller holds none of the vdev's locks and no spinlock, and has a reference on
 * the lease, which keeps the struct dlend_memory.
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

/**
 * struct dlend_vmm - the VMM that has opened a device, whose memlock limit and memory cgroup count
 * @task: thread group leader of the VMM, with a reference; NULL: no VMM is set
 * @mm: address space of the VMM, with a reference of mmgrab(): the memory may be gone
 * @locks_all: the VMM had CAP_IPC_LOCK when it opened the device: the memlock limit does not apply
 */
struct dlend_vmm {
	struct task_struct *task;
	struct mm_struct *mm;
	bool locks_all;
};

/** dlend_vmm_user - identify a process, given its thread group leader @thread. Context: any. */
static inline struct dlend_user dlend_vmm_user(const struct task_struct *thread)
{
	return (struct dlend_user){ .pid = thread->tgid, .since = thread->start_boottime };
}

/**
 * dlend_vmm_note - set @vmm to the calling process, with references
 * @vmm: (in, out) VMM; references that it had are put
 *
 * Context: a system call of the VMM; the caller serialises uses of @vmm (vdev->lock).
 */
void dlend_vmm_note(struct dlend_vmm *vmm);

/**
 * dlend_vmm_copy - copy a VMM, and take references of its own for the copy
 * @to: (out) copy, for dlend_vmm_drop()
 * @from: (in) VMM; the caller guarantees that it is set
 *
 * Context: any; the caller serialises uses of @from.
 */
void dlend_vmm_copy(struct dlend_vmm *to, const struct dlend_vmm *from);

/** dlend_vmm_drop - put the references of @vmm, if it is set, and unset it. Context: process. */
void dlend_vmm_drop(struct dlend_vmm *vmm);

/**
 * struct dlend_memory_stat - numbers for debugfs and sysfs
 * @pinned_bytes: bytes of guest RAM that are pinned, through any device of the VM on this link
 * @rebuilds: builds that repaired a loss
 * @waits: builds that found memory missing that might come back
 * @pin_longest_us: longest call of vfio_pin_pages(), which holds VFIO's lock for so long
 * @unmaps: calls of dma_unmap that took pinned memory away
 * @unmap_longest_us: the longest of these calls; the VMM holds its big lock during the call
 * @pin_calls: calls of vfio_pin_pages()
 * @pin_us: time spent in these calls
 * @map_us: time spent mapping in the aperture
 * @last_build_calls: how many of @pin_calls the last build made
 * @looks: calls of dlend_memory_look(), which is not part of a build
 * @wakeups: wake-ups of the thread that watches the VM's memory slots, for all of its devices
 * @messages: requests to the lender
 * @own_bytes: how many of @pinned_bytes are pinned through this device's own VFIO device
 * @taken_bytes: bytes of pins that were taken over from devices that were closed
 * @sharers: number of devices that use the pinned memory
 * @table_bytes: kernel memory that the pin table takes
 * @pages_4k: number of IOMMU pages of 4 KiB that map what is in this node's aperture, also for
 *	other VMs
 * @pages_2m: the same, of 2 MiB
 * @pages_1g: the same, of 1 GiB
 */
struct dlend_memory_stat {
	u64 pinned_bytes, rebuilds, waits, pin_longest_us, unmaps, unmap_longest_us;
	u64 pin_calls, pin_us, map_us, last_build_calls, looks, wakeups, messages;
	u64 own_bytes, taken_bytes, sharers, table_bytes;
	u64 pages_4k, pages_2m, pages_1g;
};

/**
 * struct dlend_memory_ops - how the code behind this header calls a device
 * @unmapping: DMA mappings are about to be removed: shut the gate.  When this returns, the guest
 *	has no new access to the device
 * @unmapped: the removal that @unmapping began is over: the gate may open again; @lost: only after
 *	another build
 * @grown: there is more RAM, or will be: shut the gate until a build has had the lender map it
 * @progress: a build has made progress, this device's build or one that it waits for
 * @exit: the VMM dies: have the device stopped, by the worker
 * @leave: the VMM dies: return the lease
 * @quiesced: return true if the device has stopped, or has no lease
 * @stuck: memory stays pinned for good, because threads wait for each other in VFIO: end the lease
 * @stop: return true if a build for this device has to give way at once, and begin again later
 * @behind: return true while the device may transfer and does not reach all new RAM.  After some
 *	time without progress this op makes the device fail, which ends that state
 * @look: start a work that looks for new RAM, and return true; return false if the device cannot
 *	look now
 *
 * Ops are called for the member's device with these locks held: @progress, @behind and @look:
 * ram->lock; @quiesced: ram->lock or loss_lock; @stop: any or none; all others: loss_lock.  So ops
 * do not wait, and call no function of this header; except @stuck, which may call
 * dlend_memory_link_down(), as that takes ram->lock only.  @progress, @quiesced, @stop and @look
 * take no lock; the others take vdev->lock.  Ops may be called until dlend_memory_destroy()
 * returns.
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

/* The ops, which guest_ram.c has */
extern const struct dlend_memory_ops dlend_guest_memory_ops;

/**
 * dlend_memslots_confidential - is the memory of a VM hidden from its host (SEV-ES, TDX)?
 * @kvm: (in) KVM's VM; the caller keeps it alive
 *
 * Context: any. Return: true if a device cannot reach the guest's memory for that reason.
 */
bool dlend_memslots_confidential(const struct kvm *kvm);

/**
 * dlend_memory_start - make the workqueue of guest memory, when the module is loaded
 *
 * Context: process. Return: 0 or -ENOMEM.
 */
int dlend_memory_start(void);

/**
 * dlend_memory_stop - destroy the workqueue of guest memory, when the module is unloaded
 *
 * The caller guarantees that no struct dlend_memory is left.
 *
 * Context: process; waits for works, and thus for messages to lenders.
 */
void dlend_memory_stop(void);

/**
 * dlend_memory_create - make the part that one lease has in its VM's memory; pins nothing yet
 * @v: (in) device, for struct dlend_memory_ops
 * @vdev: (in) VFIO device of @v, through which guest pages are pinned
 * @lease: (in) lease; the caller guarantees that it outlives the result.  All messages go to the
 *	lease's lender, in the lease's session
 * @vmm: (in) VMM that opened the device; its references are taken over, also on failure
 * @lowmem: (in) end of the guest's RAM below 4 GiB, in bytes, as the administrator has set it; 0:
 *	not set
 *
 * Context: process, may sleep; none of the vdev's locks.
 * Return: memory, for dlend_memory_destroy(); ERR_PTR(-ENOTCONN) the session is over;
 * ERR_PTR(-ENOMEM).
 */
struct dlend_memory *dlend_memory_create(struct dlend_vdev *v, struct vfio_device *vdev,
					 const struct dlend_lease *lease, struct dlend_vmm *vmm,
					 u64 lowmem);

/* Flags of dlend_memory_build() */
#define DLEND_BUILD_ANEW	0x1	/* search all slots, as no look was made for a while */
#define DLEND_BUILD_OPEN	0x2	/* the gate is open: shut it before new RAM is pinned */

/**
 * dlend_memory_build - find, pin and map the guest's RAM, and have the lender map it
 * @mem: (in, out) memory
 * @how: (in) DLEND_BUILD_*
 *
 * From the first call on, one thread watches for new RAM, for all devices of the VM, until they are
 * closed.  If RAM comes with a memory slot of KVM's, @grown is called for all devices, and the
 * VMM's call that adds the slot returns when @behind is false for all devices.  If RAM comes
 * otherwise, @look is called for one device on each link, now and then.
 *
 * A build probes for RAM (everywhere at first, then where RAM may have come since), pins new RAM,
 * has lenders unmap RAM that is gone for good, maps new RAM in the aperture, and has the lender map
 * it.  If a build for another device of the VM has mapped RAM in the aperture already, only the
 * lender has to map it.  The work is in proportion to the changes since the last build.  Memory
 * that went away and came back (firmware) is mapped in its old slot again, and the lender has
 * nothing to do.
 *
 * Context: a worker, no locks; takes seconds; waits for the lender, and after a dma_unmap a moment
 * for VFIO to finish.  Builds of one VM on one link wait for each other.
 *
 * Return: 0: all RAM where the build searched is mapped in both IOMMUs, and nothing was unmapped
 * during the build.  -EAGAIN: the layout has changed; or memory was taken away just now and may
 * come back; or there is no RAM at all, or none at address 0, as with a virtual IOMMU; or
 * dlend_memory_ops.stop() returned true; or the member is closed.  Call again; pinned memory stays
 * pinned until then.  Any other error: all that this call has pinned or mapped is unmapped and
 * unpinned again, and earlier mappings stay.  These may be incomplete: keep the gate shut if
 * dlend_memory_ops.unmapped() was called with @lost since the last build that returned 0.
 * -ENOMEM (mostly the limit of locked memory); -ENOSPC the aperture is full; -EDQUOT the VM may not
 * have more; -EOPNOTSUPP the layout changes all the time (a virtual IOMMU; may be called again
 * after ten seconds); -EFAULT RAM that cannot be pinned; -ENOTCONN the session is over; or another
 * error of a pin, as -EACCES (VFIO's type1 of version 1), or of a message to the lender, as
 * -ETIMEDOUT.  dlend_memory_why() and the log say what to do.
 */
int dlend_memory_build(struct dlend_memory *mem, u32 how);

/**
 * dlend_memory_rescan - make the next build search everywhere, as RAM may have come
 * @mem: (in, out) memory
 *
 * Starts no build.  Context: process, may sleep; takes ram->lock.
 */
void dlend_memory_rescan(struct dlend_memory *mem);

/**
 * dlend_memory_passed - find BARs of devices that this host itself passes through to the VM
 * @mem: (in) memory
 * @bars: (in, out) receives their ranges; none if the VM is not watched
 *
 * Context: may sleep; takes vm->watch_lock and the VMM's mmap_lock. Return: 0; -ENOMEM: some are
 * missing.
 */
int dlend_memory_passed(struct dlend_memory *mem, struct dlend_ranges *bars);

/**
 * dlend_memory_look - has RAM come in holes of the VM's memory slots (virtio-mem)?
 * @mem: (in, out) memory
 *
 * Makes at most 32 pin calls, which fail at once if no RAM has come; none if there are no holes.
 * If the slots are not known, everything up to 64 GiB above known RAM counts as a hole.  If RAM has
 * come, @grown is called for all devices of the VM on this link, this one too, before any of them
 * can have pinned that RAM.  Does nothing while a build searches, as the build calls @grown itself.
 *
 * Context: a work on the workqueue of the worker that builds, which is ordered; may sleep; takes
 * the locks of guest memory and, by @grown, vdev->lock.
 */
void dlend_memory_look(struct dlend_memory *mem);

/**
 * dlend_memory_unmap - take a range of memory away: VFIO's dma_unmap
 * @mem: (in, out) memory
 * @gpa: (in) first address
 * @size: (in) bytes; ~0 with @gpa 0 is everything (iommufd)
 *
 * When this returns, the range is unmapped and flushed in the aperture, and nothing in it is
 * pinned; but if other threads of the VMM are in VFIO's type1, this may return with pins left, and
 * VFIO calls again before it unmaps the memory (see pin.c).  Offsets in the aperture stay reserved
 * until the lender has acknowledged that it unmapped them, or until the same memory comes back.  A
 * worker, or the next build, asks the lender to unmap.
 *
 * Context: VFIO's locks and the VMM's big lock are held.  Never waits for a peer, nor for a build,
 * which gives way.  May wait for one pin call of 64 pages in the range, and for 32 MiB that are
 * being unpinned elsewhere.  Most of the time is VFIO's: type1 unpins page by page, 0.2 s for
 * 768 MiB on an emulated host.
 *
 * If the memory may come back at once, the guest's driver does not know that the memory is away.
 * So the gates of all devices with mappings are shut before the mappings go (@unmapping), until
 * they have built again.  Memory that is unplugged was given up by the guest before, so no gate is
 * shut.
 */
void dlend_memory_unmap(struct dlend_memory *mem, u64 gpa, u64 size);

/**
 * dlend_memory_fence - block the device's DMA to this node's memory, until its next build
 * @mem: (in, out) memory
 *
 * When this returns, all of the VM's RAM is unmapped in the aperture.  The RAM stays pinned, and
 * extents keep their slots.  A device that begins to use the RAM after this gets nothing mapped
 * before this device has stopped (dlend_memory_ops.quiesced).  If another device of the VM uses the
 * mappings already, nothing is done: this node cannot tell the DMA of the two apart.
 *
 * Context: may sleep; takes ram->lock; does not wait for a peer or for pins.
 * Return: true if DMA is blocked, or the aperture is gone.
 */
bool dlend_memory_fence(struct dlend_memory *mem);

/**
 * dlend_memory_revoke - stop using the memory, as its lease is about to be returned
 * @mem: (in, out) memory
 *
 * No pin begins through this memory's device from now on, and its lender gets no more messages
 * about extents.  If no other device of the VM uses the same RAM, the RAM is unmapped in the
 * aperture when this returns, so that no DMA of the device arrives here.  Pages stay pinned until
 * dlend_memory_close(), which user space can delay for as long as it likes; so leases are returned
 * before that call.  May be called more than once.
 *
 * Context: may sleep; takes ram->lock; does not wait for a peer or for pins.
 */
void dlend_memory_revoke(struct dlend_memory *mem);

/**
 * dlend_memory_vmm_exits - stop all devices of a VMM that dies
 * @mem: (in, out) memory of the first device that the VMM closes
 *
 * Calls @exit for all devices of the VM on all links, waits until they have stopped, then calls
 * @leave for all but @mem's, as it may take the VMM long to close them.  Notes that the VMM dies:
 * so the first device that is closed after this unpins all memory, instead of handing its pins over
 * to the next device.
 *
 * Context: may sleep; takes dlend_rams_lock and loss_lock; waits at most a second.
 */
void dlend_memory_vmm_exits(struct dlend_memory *mem);

/**
 * dlend_memory_close - dlend_memory_revoke(), and unpin all that is pinned through the device
 * @mem: (in, out) memory
 *
 * Called when the VMM closes the device, and when the lease is over; each call but the first only
 * waits until the first has unpinned.  Nothing is pinned through the device when this returns, nor
 * will be.  If another device of the VM uses the same RAM, that device takes the pins over, which
 * takes about as long as pinning.
 *
 * Context: may sleep; takes close_lock, vm->watch_lock, loss_lock and ram->lock.  The caller calls
 * this before VFIO's close_device() returns, because nothing can be unpinned later.  The VMM's big
 * lock may be held (a device is unplugged).  Waits for no peer; but if a pin through the device is
 * under way, waits until that pin ends, which user space can delay.
 */
void dlend_memory_close(struct dlend_memory *mem);

/**
 * dlend_memory_link_down - unmap the VM's RAM in the aperture, as the session is over
 * @mem: (in, out) memory; one call does this for all devices that share the RAM
 *
 * When this returns, the RAM is unmapped in the aperture.  The next session releases the slots, and
 * a worker (or dma_unmap) unpins the pages.  From now on builds return -ENOTCONN.
 *
 * Context: may sleep; also from a link's callbacks; takes ram->lock only; does not wait for a peer
 * or for pins.
 */
void dlend_memory_link_down(struct dlend_memory *mem);

/**
 * dlend_memory_destroy - dlend_memory_close() if that was not done yet; then free the memory
 * @mem: (in) memory; the caller guarantees that no other call with it is under way or comes
 * @acked: (in) true: the lender has said that it has the device back, so the slots in the aperture
 *	may be used for other memory at once.  False: slots that the lender may have mapped stay
 *	reserved until the session ends, and devices that share the RAM get other slots
 *
 * Context: process, may sleep; as dlend_memory_close(); also takes dlend_rams_lock.
 */
void dlend_memory_destroy(struct dlend_memory *mem, bool acked);

/**
 * dlend_memory_why - say why the last build failed, or must be made again
 * @mem: (in) memory
 * @err: (in) what dlend_memory_build() returned, not 0
 * @why: (in, out) text; unchanged if @err is -EAGAIN and the reason is not known
 * @len: (in) size of @why in bytes
 *
 * Context: may sleep; takes vm->watch_lock, ram->lock and the VMM's mmap_lock.
 */
void dlend_memory_why(struct dlend_memory *mem, int err, char *why, size_t len);

/**
 * dlend_memory_pinned - how many bytes are pinned, through any device of the VM on this link?
 * @mem: (in) memory
 *
 * Context: any; takes no lock.
 */
u64 dlend_memory_pinned(const struct dlend_memory *mem);

/**
 * dlend_memory_stat - get numbers
 * @mem: (in) memory
 * @st: (out) numbers
 *
 * Context: may sleep; takes ram->lock.
 */
void dlend_memory_stat(struct dlend_memory *mem, struct dlend_memory_stat *st);

/**
 * dlend_memory_show - print the extents, and why the last build failed, for debugfs
 * @mem: (in) memory
 * @m: (in, out) file
 *
 * Context: may sleep; takes ram->lock.
 */
void dlend_memory_show(struct dlend_memory *mem, struct seq_file *m);

#endif
