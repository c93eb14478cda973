/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DMA windows of a borrowed device: guest RAM, pinned, in this node's aperture, and mapped by
 * the lender at the same guest-physical addresses.  What is pinned and in the aperture is shared by
 * all devices that the same VM borrows over the same link (ram.c).
 */
#ifndef DLEND_MDEV_MEMORY_H
#define DLEND_MDEV_MEMORY_H

#include <dlend/link.h>

/* What failed and what to do about it, in words; fits an attribute that the tools read. */
#define DLEND_REASON_LEN	240

struct seq_file;
struct vfio_device;
struct dlend_memory;
struct dlend_ranges;

/*
 * Numbers for debugfs and sysfs.  @scattered_bytes: in chunks (of up to 2 MiB) whose pages are
 * not contiguous, so that the IOMMUs need 4 KiB pages.  @rebuilds: builds that repaired a loss.
 * @waits: builds that found memory missing that might come back.  @pin_longest_us: of one call to
 * VFIO, whose lock it holds.  @unmap_*: dma_unmap that found something, under the VMM's big lock.
 * @last_build_calls: of @pin_calls; @looks: dlend_memory_look(), which are in no build.
 * @messages: requests to the lender.  @own_bytes: of @pinned_bytes through this device's VFIO
 * device, the others' are through those of the VM's others.  @taken_bytes: of these from devices
 * that were closed.  @sharers: devices that use what is pinned.  @book_bytes: of kernel memory, to
 * know what is pinned.  @pages_*: all that this node has mapped in the aperture.
 */
struct dlend_memory_stat {
	u64 pinned_bytes, readonly_bytes, scattered_bytes, extents, chunks, probes, rebuilds;
	u64 waits, pin_longest_us, unmaps, unmap_us, unmap_longest_us;
	u64 pin_calls, pin_us, map_us, last_build_us, last_build_calls, looks, messages;
	u64 own_bytes, taken_bytes, sharers, book_bytes;
	u64 pages_4k, pages_2m, pages_1g;
};

/**
 * struct dlend_memory_ops - what other devices of the VM do to the windows they share
 * @unmapping: windows are going: no new access of the guest's to this device when it returns
 * @unmapped: and have gone; @lost: build anew, even if dlend_memory_unmap() finds nothing
 * @grown: there is more, or will be: no new access of the guest's until a build has told the lender
 * @progress: a build, this device's or one that it waits for, has come a step further
 * @stop: a build of this device's has to give way at once, to be begun again later
 *
 * Called with locks of the memory held: waits for nobody, and calls nothing here. @progress and
 * @stop take no lock at all.  May be called until dlend_memory_destroy() returns.
 */
struct dlend_memory_ops {
	void (*unmapping)(void *ctx);
	void (*unmapped)(void *ctx, bool lost);
	void (*grown)(void *ctx);
	void (*progress)(void *ctx);
	bool (*stop)(void *ctx);
};

/**
 * struct dlend_memory_desc - whose memory, and for whom
 * @vdev: through which guest pages are pinned; by its VM is known who shares
 * @link: towards the lender (a reference is taken)
 * @addr: device
 * @epoch: lease
 * @vmm: process that opened the device
 * @memlock: the VMM's RLIMIT_MEMLOCK in bytes, for messages only
 * @lowmem: see dlend_prober_excluded()
 * @ops, @ctx: see struct dlend_memory_ops
 */
struct dlend_memory_desc {
	struct vfio_device *vdev;
	struct dlend_link *link;
	const struct dlend_addr *addr;
	u32 epoch;
	pid_t vmm;
	u64 memlock, lowmem;
	const struct dlend_memory_ops *ops;
	void *ctx;
};

/**
 * dlend_memory_create - nothing is pinned by it yet
 * @desc: is copied
 *
 * Return: memory or ERR_PTR. Process context.
 */
struct dlend_memory *dlend_memory_create(const struct dlend_memory_desc *desc);

/**
 * dlend_memory_build - make the windows stand
 *
 * Probes (everywhere at first, then where RAM may have come since), pins what is new, tells the
 * lender what is gone for good, maps what is new in the aperture, has the lender map it. What
 * another device of the VM has built stands, and only the
 * lender must be told. Work is proportional to what changed since the last build:
 * memory that went away and came back (firmware) is mapped in its old slot again, the lender has
 * nothing to do. Runs in a worker: seconds; after a dma_unmap it first waits a moment for VFIO to
 * be through. Serialised inside.
 *
 * Return: 0: all RAM that there was, where it looked, is mapped on both sides and nothing was
 * unmapped meanwhile. -EAGAIN: the layout changed meanwhile, or something of it was taken away a
 * moment ago and may come back (or there is no RAM at all), or dlend_memory_ops.stop said so; call
 * again; what was pinned and is still there stays pinned for it. Any other error: all that THIS
 * call pinned, mapped or told is undone, and what stood before still does (it may be incomplete:
 * keep the gate closed if dlend_memory_unmap() said so): -ENOMEM
 * (memlock), -ENOSPC (window full), -EOPNOTSUPP (layout changes all the time: vIOMMU; may be
 * called again after ten seconds), -ENOTCONN, -ETIMEDOUT, ...; a message says what to do, also in
 * dlend_memory_reason().
 */
int dlend_memory_build(struct dlend_memory *mem);

/**
 * dlend_memory_returns - if the VMM takes it away, may some of that range come back at once?
 *
 * Then no access of the guest is to reach the device from before dlend_memory_unmap() until it is
 * there again: its driver does not know that it was away.  Otherwise it is unplugged, which a guest
 * knows beforehand: the device works on. Waits for nobody.
 */
bool dlend_memory_returns(struct dlend_memory *mem, u64 gpa, u64 size);

/**
 * dlend_memory_added - RAM may have come there
 * @added: NULL: anywhere
 *
 * The next build looks there; others but the first look nowhere else.  Also from a
 * dlend_slots_fn: waits for no pin.
 */
void dlend_memory_added(struct dlend_memory *mem, const struct dlend_ranges *added);

/**
 * dlend_memory_look - has RAM come in holes of the VM's memory slots (virtio-mem)?
 *
 * 32 pin calls at most, that fail at once; none if there are no such holes.  Where nobody knows the
 * slots, all up to 64 GiB above what is known is a hole.  The VM's other devices are told.  Not
 * while somebody builds: then it finds nothing.  From the worker that builds.  Return: true: yes,
 * build.
 */
bool dlend_memory_look(struct dlend_memory *mem);

/**
 * dlend_memory_unmap - vfio's dma_unmap
 * @size: ~0 with @gpa 0 for everything (iommufd)
 *
 * Aperture unmapped and flushed, pages unpinned when it returns. Offsets stay reserved until the
 * lender has acknowledged that it unmapped them, or the same memory comes back; it is told by the
 * next build. Never waits for a peer nor for a build (which is told to
 * stop), but for one pin call of 64 pages that may be under way in the range, and for the
 * unpinning of 32 MiB that may be under way elsewhere.  What it costs by itself is VFIO's: type1
 * unpins page by page, 0.2 s for 768 MiB on an emulated host.
 * Return: true if memory was pinned there that may come back, i.e. the windows do not stand any
 * more. After an unplug they do.
 */
bool dlend_memory_unmap(struct dlend_memory *mem, u64 gpa, u64 size);

/**
 * dlend_memory_fence - nothing of the device's arrives here until the next build
 *
 * Unmapped from the aperture when it returns; pinned, and in the same slots, as before. Not if
 * another device of the VM uses the same windows: they cannot be told apart here. Waits for nobody.
 * Return: is it so?
 */
bool dlend_memory_fence(struct dlend_memory *mem);

/**
 * dlend_memory_close - the VMM closes the device, or its lease is over
 *
 * Nothing is pinned through it any more, nor will be. Before VFIO's close_device returns, while
 * unpinning is possible, and under the VMM's big lock (a device is unplugged): waits as
 * dlend_memory_unmap() does, and not for a peer call that a build is in.  What it has pinned is
 * pinned through another user before, which costs about as much again; if there is none, the
 * aperture is unmapped, and slots wait for dlend_memory_destroy().
 */
void dlend_memory_close(struct dlend_memory *mem);

/**
 * dlend_memory_link_down - link is gone
 *
 * Also from a link's callbacks. For all devices that share it. The aperture is unmapped when it
 * returns, and slots are left for the next session to release; pages are unpinned by a worker (or
 * dma_unmap). Waits for nobody. From now on builds return -ENOTCONN.
 */
void dlend_memory_link_down(struct dlend_memory *mem);

/**
 * dlend_memory_destroy - dlend_memory_close() if not done, and the end
 * @acked: the lender returned the lease, so the slots may be used again at once. If not, slots that
 *	it was told of stay reserved until the link goes, and whoever shares them gets others.
 */
void dlend_memory_destroy(struct dlend_memory *mem, bool acked);

/** dlend_memory_reason - why the last build failed, "" if it did not */
void dlend_memory_reason(struct dlend_memory *mem, char *buf, size_t len);

/** dlend_memory_pinned - bytes, without waiting for anybody */
u64 dlend_memory_pinned(const struct dlend_memory *mem);

void dlend_memory_stat(struct dlend_memory *mem, struct dlend_memory_stat *st);
void dlend_memory_show(struct dlend_memory *mem, struct seq_file *m);

#endif
