// SPDX-License-Identifier: GPL-2.0
/*
 * DMA windows of a borrowed device: guest RAM, pinned through VFIO, in slots of this node's
 * aperture, and mapped by the lender at the same guest-physical addresses.
 *
 * What is where is found out by layout.c and kept by extent.c; this file does what they say, and
 * is about who may do it when.  It must not know the device's BARs, configuration space or
 * interrupts, nor when windows are wanted: that is borrow.c's.
 *
 * Locks, outer first:
 *   build_lock	one build, drop or tale to the lender at a time.  Held across pins and peer calls:
 *		seconds.  Guards @dead, and extents from being freed.
 *   unpin_lock	one unpinner at a time.  Held across vfio_unpin_pages(), never across a pin or a
 *		peer call.  Who gets it knows that whatever was taken out of the books before is
 *		unpinned by now, which is what dma_unmap must be sure of.  Whoever is in no hurry
 *		takes and unpins DROP_BYTES at a time, because dma_unmap waits under the VMM's big
 *		lock.
 *   lock	books, aperture, state.  Held for one aperture operation of one chunk or run,
 *		never across VFIO or a peer.
 * VFIO calls dma_unmap with locks of its own that vfio_pin_pages() and vfio_unpin_pages() take as
 * well; hence none of ours that dma_unmap takes is held while pinning.
 *
 * type1 holds its own lock for a whole call of vfio_pin_pages(), page faults included, and VFIO's
 * map and unmap ioctls wait for it with the VMM's big lock held: a mutex that its owner takes
 * again at once goes to a waiter at the second turn only.  So a call pins or unpins PIN_BATCH pages
 * at most.  A worker with a low priority would make it worse: it would be put aside with that lock.
 *
 * The link may go down while user space holds up a pin (its memory may be anything): link_down
 * takes @lock only.
 */
#include <linux/delay.h>
#include <linux/iommu.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vfio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <dlend/compat.h>
#include <dlend/layout.h>

#include "extent.h"
#include "memory.h"
#include "trace.h"

/*
 * VFIO asks again while it finds pins in what it is about to unmap, and type1 gives up with a
 * BUG after ten times: do not pin again before it is through.
 */
#define SETTLE_MS	20

/*
 * Memory that went away comes back when the VMM is through with all that it changes at once,
 * which is no short time if it waits for other unmaps in between; and nobody tells.  What is
 * not back by then is gone.
 */
#define RETURN_MS	250

/* Probes of one build, as long as each finds something new. */
#define PROBES_MAX	4

/* Pages of one VFIO call: two of them are what another user of the container waits for. */
#define PIN_BATCH	64u

/* Guest memory that is taken and unpinned in one go where nobody waits for it. */
#define DROP_BYTES	SZ_32M

/* More repairs than this in that time are no firmware at work. */
#define REPAIRS_MAX	128
#define REPAIRS_SECS	10

static_assert(DLEND_CHUNK_PAGES <= VFIO_PIN_PAGES_MAX_ENTRIES);

/**
 * struct dlend_memory - the windows of one lease
 * @vdev: through which guest pages are pinned
 * @link: towards the lender
 * @addr: device
 * @epoch: lease
 * @session: of @link, when the lease was taken
 * @build_lock: see above
 * @unpin_lock: see above
 * @lock: see above; guards all that follows but @dead
 * @books: what is pinned and mapped
 * @ap: this node's aperture, NULL once the link is down
 * @lost: grows with everything that a running build must notice
 * @last_loss: jiffies, when the last dma_unmap that found something was through
 * @unmapping: dma_unmap calls under way
 * @dropping: a drop wants @build_lock, or the device is closed: no pin, no map
 * @pin_gpa: of the chunk that is being pinned
 * @pin_last: its last byte; below @pin_gpa if there is none
 * @pins: how many were, well or not
 * @pin_done: somebody waits for one
 * @build: number of the current or last build
 * @build_lost: @lost when it began
 * @pin_err: why the last pin call failed for good
 * @pages: of one pin call (build_lock)
 * @dead: extents that the lender must hear are gone (build_lock)
 * @tell_work: tells it
 * @down_work: unpins after the link went down
 * @repairs: builds that repaired something
 * @repairs_since: jiffies when their counting began
 * @memlock: the VMM's limit in bytes, 0 = unknown
 * @lowmem: where the admin says that RAM below 4 GiB ends, 0 = not said
 * @reason: why the last build failed
 * @stat: numbers
 */
struct dlend_memory {
	struct vfio_device *vdev;
	struct dlend_link *link;
	struct dlend_addr addr;
	u32 epoch;
	u64 session;

	struct mutex build_lock;	/* see top of file */
	struct mutex unpin_lock;	/* see top of file */
	struct mutex lock;		/* see top of file */
	struct dlend_extents books;
	struct dlend_aperture *ap;
	u64 lost;
	unsigned long last_loss;
	unsigned int unmapping;
	unsigned int dropping;
	u64 pin_gpa, pin_last;
	u32 pins;
	wait_queue_head_t pin_done;

	u32 build;
	u64 build_lost;
	int pin_err;
	struct page *pages[DLEND_CHUNK_PAGES];
	struct list_head dead;
	struct work_struct tell_work;
	struct work_struct down_work;

	unsigned int repairs;
	unsigned long repairs_since;
	u64 memlock;
	u64 lowmem;
	char reason[256];
	struct dlend_memory_stat stat;
};

/* Say why, in the log and for dlend_memory_reason(). */
static __printf(2, 3) void mem_err(struct dlend_memory *mem, const char *fmt, ...)
{
	va_list args;

	mutex_lock(&mem->lock);
	va_start(args, fmt);
	vscnprintf(mem->reason, sizeof(mem->reason), fmt, args);
	va_end(args);
	dev_err_ratelimited(mem->vdev->dev, "DMA windows: %s\n", mem->reason);
	mutex_unlock(&mem->lock);
}

/* Has anything happened that the running build must give way to? */
static bool disturbed(const struct dlend_memory *mem)
{
	return READ_ONCE(mem->lost) != mem->build_lost || READ_ONCE(mem->dropping) ||
	       !READ_ONCE(mem->ap);
}

static void note_loss(struct dlend_memory *mem)
{
	lockdep_assert_held(&mem->lock);
	WRITE_ONCE(mem->lost, mem->lost + 1);
	WRITE_ONCE(mem->last_loss, jiffies);
}

static u64 chunk_bytes(const struct dlend_chunk *chunk)
{
	return (u64)chunk->npages << PAGE_SHIFT;
}

/* As it was pinned: iommufd unpins exactly what one call pinned. */
static void unpin_pages(struct dlend_memory *mem, u64 gpa, u32 npages)
{
	u32 count;

	for (; npages; npages -= count) {
		count = min(npages, PIN_BATCH);
		vfio_unpin_pages(mem->vdev, gpa, count);
		gpa += (u64)count << PAGE_SHIFT;
		cond_resched();
	}
}

/* Unpin what was taken out of the books (and out of the aperture). */
static void unpin_chunks(struct dlend_memory *mem, struct list_head *out)
{
	struct dlend_chunk *chunk, *tmp;

	lockdep_assert_held(&mem->unpin_lock);
	list_for_each_entry_safe(chunk, tmp, out, node) {
		unpin_pages(mem, chunk->gpa, chunk->npages);
		trace_dlend_unpin(mem->vdev->dev, chunk->gpa, chunk->npages);
		list_del(&chunk->node);
		kfree(chunk->pages);
		kfree(chunk);
	}
}

/* Out of the aperture with what was taken out of the books: one flush per run. */
static void unmap_chunks(struct dlend_memory *mem, struct list_head *out)
{
	struct dlend_chunk *chunk;
	struct dlend_extent *extent = NULL;
	u64 from = 0, to = 0;

	lockdep_assert_held(&mem->lock);
	list_for_each_entry(chunk, out, node) {
		if (!chunk->mapped)
			continue;
		chunk->mapped = false;
		if (chunk->extent == extent && chunk->gpa == to) {
			to += chunk_bytes(chunk);
			continue;
		}
		if (extent && extent->slot)
			dlend_slot_unmap(mem->ap, extent->slot, from - extent->gpa, to - from);
		extent = chunk->extent;
		from = chunk->gpa;
		to = from + chunk_bytes(chunk);
	}
	if (extent && extent->slot)
		dlend_slot_unmap(mem->ap, extent->slot, from - extent->gpa, to - from);
}

/* Slots of extents that left the books: unmapped now, and free when the lender knows. */
static void retire(struct dlend_memory *mem, struct list_head *gone)
{
	struct dlend_extent *extent, *tmp;

	lockdep_assert_held(&mem->build_lock);
	lockdep_assert_held(&mem->lock);
	list_for_each_entry_safe(extent, tmp, gone, node) {
		if (extent->slot && extent->state == DLEND_EXTENT_NEW)
			dlend_slot_free(mem->ap, extent->slot);
		else if (extent->slot)
			extent->cookie = dlend_slot_quarantine(mem->ap, extent->slot);
		extent->slot = NULL;
		list_del(&extent->node);
		if (extent->state == DLEND_EXTENT_NEW && !extent->cookie)
			kfree(extent);
		else
			list_add_tail(&extent->node, &mem->dead);
	}
}

/* The pinner that layout.c works with */

static int mem_pin_begin(struct dlend_memory *mem, u64 gpa, u32 npages)
{
	int err = 0;

	mutex_lock(&mem->lock);
	if (disturbed(mem)) {
		err = -EINTR;
	} else {
		mem->pin_gpa = gpa;
		mem->pin_last = gpa + ((u64)npages << PAGE_SHIFT) - 1;
	}
	mutex_unlock(&mem->lock);
	return err;
}

static void mem_pin_end(struct dlend_memory *mem)
{
	mutex_lock(&mem->lock);
	mem->pin_gpa = U64_MAX;
	mem->pin_last = 0;
	WRITE_ONCE(mem->pins, mem->pins + 1);
	mutex_unlock(&mem->lock);
	wake_up_all(&mem->pin_done);
}

/*
 * Wait until no pin in @gpa..@last is under way: it, and those that would follow, are told to give
 * way.  Return: was there one?
 */
static bool pin_stop(struct dlend_memory *mem, u64 gpa, u64 last)
{
	bool touches, any = false;
	u32 pins;

	for (;;) {
		mutex_lock(&mem->lock);
		pins = mem->pins;
		touches = mem->pin_gpa <= last && mem->pin_last >= gpa;
		if (touches)
			note_loss(mem);
		mutex_unlock(&mem->lock);
		if (!touches)
			return any;
		any = true;
		wait_event(mem->pin_done, READ_ONCE(mem->pins) != pins);
	}
}

/* Remember which pages: one number, or a list if they are scattered. */
static int chunk_set_pages(struct dlend_memory *mem, struct dlend_chunk *chunk)
{
	u32 i;

	chunk->pfn = page_to_pfn(mem->pages[0]);
	for (i = 1; i < chunk->npages; i++)
		if (page_to_pfn(mem->pages[i]) != chunk->pfn + i)
			break;
	if (i == chunk->npages)
		return 0;
	chunk->pages = kmemdup(mem->pages, chunk->npages * sizeof(mem->pages[0]), GFP_KERNEL);
	return chunk->pages ? 0 : -ENOMEM;
}

/* @npages of @chunk, @at pages from its beginning. */
static int pin_batch(struct dlend_memory *mem, const struct dlend_chunk *chunk, u32 at, u32 npages)
{
	int flags = (chunk->prot & DLEND_PROT_READ ? IOMMU_READ : 0) |
		    (chunk->prot & DLEND_PROT_WRITE ? IOMMU_WRITE : 0);
	ktime_t start = ktime_get();
	u64 us;
	int ret;

	ret = vfio_pin_pages(mem->vdev, chunk->gpa + ((u64)at << PAGE_SHIFT), npages, flags,
			     mem->pages + at);
	us = ktime_us_delta(ktime_get(), start);
	mem->stat.pin_us += us;
	mem->stat.pin_longest_us = max(mem->stat.pin_longest_us, us);
	mem->stat.pin_calls++;
	if (ret >= 0)
		ret = ret == npages ? 0 : -EIO;
	return ret;
}

static int chunk_pin(struct dlend_memory *mem, struct dlend_chunk *chunk)
{
	u32 done = 0, count;
	int err = 0;

	while (!err && done < chunk->npages) {
		count = min(chunk->npages - done, PIN_BATCH);
		err = done && disturbed(mem) ? -EINTR : pin_batch(mem, chunk, done, count);
		if (!err)
			done += count;
		cond_resched();
	}
	if (err)
		unpin_pages(mem, chunk->gpa, done);
	trace_dlend_pin(mem->vdev->dev, chunk->gpa, chunk->npages, chunk->prot, err);
	mem->pin_err = err;
	return err;
}

/* Pin and enter in the books; while this runs, dma_unmap of these addresses waits. */
static int chunk_pin_and_add(struct dlend_memory *mem, struct dlend_chunk *chunk)
{
	int err = chunk_pin(mem, chunk);

	if (err)
		return err;
	err = chunk_set_pages(mem, chunk);
	if (!err) {
		mutex_lock(&mem->lock);
		err = dlend_extents_add(&mem->books, chunk);
		mutex_unlock(&mem->lock);
	}
	if (err)
		unpin_pages(mem, chunk->gpa, chunk->npages);
	/* Not for want of a page: the prober must not take it for a hole. */
	return err == -EINVAL ? -EIO : err;
}

static int mem_pin(void *ctx, u64 gpa, u32 npages, u32 prot)
{
	struct dlend_memory *mem = ctx;
	struct dlend_chunk *chunk;
	int err;

	if (dlend_layout_excluded(mem->lowmem, gpa, npages))
		return -EINVAL;
	chunk = kzalloc_obj(*chunk);
	if (!chunk)
		return -ENOMEM;
	chunk->gpa = gpa;
	chunk->npages = npages;
	chunk->prot = prot;
	chunk->build = mem->build;
	err = mem_pin_begin(mem, gpa, npages);
	if (!err) {
		err = chunk_pin_and_add(mem, chunk);
		mem_pin_end(mem);
	}
	if (err) {
		kfree(chunk->pages);
		kfree(chunk);
	}
	cond_resched();
	return err;
}

static void mem_unpin(void *ctx, u64 gpa, u32 npages)
{
	struct dlend_memory *mem = ctx;
	struct dlend_chunk *chunk;
	LIST_HEAD(out);

	mutex_lock(&mem->unpin_lock);
	mutex_lock(&mem->lock);
	chunk = dlend_extents_find(&mem->books, gpa);
	/* Not there any more if dma_unmap came first. */
	if (chunk && chunk->gpa == gpa && chunk->npages == npages && chunk->build == mem->build)
		dlend_extents_take(&mem->books, chunk, &out);
	mutex_unlock(&mem->lock);
	unpin_chunks(mem, &out);
	mutex_unlock(&mem->unpin_lock);
}

static u64 mem_known(void *ctx, u64 gpa, u64 *next)
{
	struct dlend_memory *mem = ctx;
	u64 end;

	mutex_lock(&mem->lock);
	end = dlend_extents_known(&mem->books, gpa, next);
	mutex_unlock(&mem->lock);
	return end;
}

static bool mem_stop(void *ctx)
{
	return disturbed(ctx);
}

static const struct dlend_layout_ops mem_layout_ops = {
	.pin = mem_pin,
	.unpin = mem_unpin,
	.known = mem_known,
	.stop = mem_stop,
	.keep_on_stop = true,
};

/* Messages to the lender */

static void fill_entry(struct dlend_p_dma *dma, const struct dlend_extent *extent)
{
	u32 i = le32_to_cpu(dma->count);

	dma->entry[i].gpa = cpu_to_le64(extent->gpa);
	dma->entry[i].size = cpu_to_le64(extent->size);
	dma->entry[i].offset = cpu_to_le64(extent->offset);
	dma->entry[i].prot = cpu_to_le32(extent->prot);
	dma->count = cpu_to_le32(i + 1);
}

/* Tell that the first @max of @dead are gone. Return: 0 and they are forgotten, or an error. */
static int tell_some(struct dlend_memory *mem, u32 max)
{
	struct dlend_extent *extent, *tmp;
	struct dlend_p_dma *dma;
	struct dlend_msg req;
	u32 count = 0;
	int err;

	dma = dlend_msg_init(&req, DLEND_MSG_DMA_UNMAP, &mem->addr, mem->epoch, sizeof(*dma));
	list_for_each_entry(extent, &mem->dead, node) {
		fill_entry(dma, extent);
		if (++count == max)
			break;
	}
	mem->stat.messages++;
	err = dlend_link_call(mem->link, &req, NULL, 0);
	/* A map whose answer was lost may never have been: alone, that is as good as done. */
	if (err && !(err == -ENOENT && count == 1))
		return err;

	mutex_lock(&mem->lock);
	list_for_each_entry_safe(extent, tmp, &mem->dead, node) {
		if (!count--)
			break;
		/* With the link down the next session releases it. */
		if (extent->cookie && mem->ap)
			dlend_slot_release(mem->ap, extent->cookie);
		list_del(&extent->node);
		kfree(extent);
	}
	mutex_unlock(&mem->lock);
	return 0;
}

/* Tell the lender of all that is gone. */
static int tell_dead(struct dlend_memory *mem)
{
	int err = 0;

	lockdep_assert_held(&mem->build_lock);
	while (!err && !list_empty(&mem->dead)) {
		err = tell_some(mem, DLEND_DMA_PER_MSG);
		if (err == -ENOENT)
			err = tell_some(mem, 1);
	}
	return err;
}

static void tell_work(struct work_struct *work)
{
	struct dlend_memory *mem = container_of(work, struct dlend_memory, tell_work);
	int err;

	mutex_lock(&mem->build_lock);
	err = tell_dead(mem);
	mutex_unlock(&mem->build_lock);
	/* Nobody is harmed: slots stay in quarantine, and the next build tries again. */
	if (err && err != -ENOTCONN)
		dev_warn_ratelimited(mem->vdev->dev,
				     "lender did not unmap guest memory (%d): window space stays reserved until it does\n",
				     err);
}

/*
 * The next new extents, DLEND_DMA_PER_MSG at most, into a message.  From here on the lender may
 * have them.  Return: how many, or -EAGAIN.
 */
static int collect_new(struct dlend_memory *mem, struct dlend_p_dma *dma, u64 *gpa)
{
	struct dlend_extent *extent;
	int count = 0;

	mutex_lock(&mem->lock);
	if (disturbed(mem)) {
		mutex_unlock(&mem->lock);
		return -EAGAIN;
	}
	while (count < DLEND_DMA_PER_MSG) {
		extent = dlend_extents_next_extent(&mem->books, *gpa);
		if (!extent)
			break;
		*gpa = extent->gpa + extent->size;
		if (extent->state != DLEND_EXTENT_NEW)
			continue;
		extent->state = DLEND_EXTENT_TOLD;
		fill_entry(dma, extent);
		count++;
	}
	mutex_unlock(&mem->lock);
	return count;
}

static int tell_new(struct dlend_memory *mem)
{
	struct dlend_p_dma *dma;
	struct dlend_msg req;
	u64 gpa = 0;
	int ret;

	for (;;) {
		dma = dlend_msg_init(&req, DLEND_MSG_DMA_MAP, &mem->addr, mem->epoch,
				     sizeof(*dma));
		ret = collect_new(mem, dma, &gpa);
		if (ret <= 0)
			return ret;
		mem->stat.messages++;
		ret = dlend_link_call(mem->link, &req, NULL, 0);
		if (ret) {
			mem_err(mem, "lender did not map %u ranges from %#llx on: error %d",
				le32_to_cpu(dma->count), le64_to_cpu(dma->entry[0].gpa), ret);
			return ret;
		}
	}
}

/* Aperture */

static int slot_for(struct dlend_memory *mem, struct dlend_extent *extent)
{
	struct dlend_slot *slot = ERR_PTR(-ENOSPC);

	/* Whole GiB: try for 1 GiB pages. Otherwise 2 MiB ones, where there can be any. */
	if (extent->size == SZ_1G)
		slot = dlend_slot_alloc(mem->ap, extent->size, SZ_1G, 0, DLEND_SLOT_RAM);
	if (IS_ERR(slot) && extent->size >= SZ_2M)
		slot = dlend_slot_alloc(mem->ap, extent->size, SZ_2M, extent->gpa & (SZ_2M - 1),
					DLEND_SLOT_RAM);
	if (IS_ERR(slot))
		slot = dlend_slot_alloc(mem->ap, extent->size, 0, 0, DLEND_SLOT_RAM);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	extent->slot = slot;
	extent->offset = slot->offset;
	return 0;
}

/* May @next be mapped by the same call as the run that ends with @chunk? */
static bool continues(const struct dlend_chunk *chunk, const struct dlend_chunk *next)
{
	return next && !next->mapped && !next->pages && next->extent == chunk->extent &&
	       next->prot == chunk->prot && next->gpa == chunk->gpa + chunk_bytes(chunk) &&
	       next->pfn == chunk->pfn + chunk->npages;
}

/* Map @chunk, with what follows it contiguously. Return: where to go on, in @gpa. */
static int map_run(struct dlend_memory *mem, struct dlend_chunk *chunk, u64 *gpa)
{
	struct dlend_extent *extent = chunk->extent;
	u64 at = chunk->gpa - extent->gpa, size = chunk_bytes(chunk);
	struct dlend_chunk *last = chunk, *next;
	int err;

	if (chunk->pages) {
		err = dlend_slot_map_pages(mem->ap, extent->slot, at, chunk->pages, chunk->npages,
					   chunk->prot);
	} else {
		for (next = dlend_extents_next(&mem->books, last); continues(last, next);
		     next = dlend_extents_next(&mem->books, last)) {
			size += chunk_bytes(next);
			last = next;
		}
		err = dlend_slot_map_phys(mem->ap, extent->slot, at, PFN_PHYS(chunk->pfn), size,
					  chunk->prot, false);
	}
	if (err)
		return err;
	*gpa = chunk->gpa + size;
	for (;; chunk = dlend_extents_next(&mem->books, chunk)) {
		chunk->mapped = true;
		if (chunk == last)
			return 0;
	}
}

/* One step of map_all(). Return: 1 go on, 0 done, or an error. */
static int map_step(struct dlend_memory *mem, u64 *gpa)
{
	struct dlend_chunk *chunk;
	int err = 0;

	lockdep_assert_held(&mem->lock);
	if (disturbed(mem))
		return -EAGAIN;
	chunk = dlend_extents_find(&mem->books, *gpa);
	while (chunk && chunk->mapped)
		chunk = dlend_extents_next(&mem->books, chunk);
	if (!chunk)
		return 0;
	if (!chunk->extent->slot)
		err = slot_for(mem, chunk->extent);
	if (!err)
		err = map_run(mem, chunk, gpa);
	return err ?: 1;
}

/* Everything pinned into the aperture, a run at a time so that dma_unmap never waits long. */
static int map_all(struct dlend_memory *mem)
{
	ktime_t start = ktime_get();
	u64 gpa = 0;
	int ret;

	do {
		mutex_lock(&mem->lock);
		ret = map_step(mem, &gpa);
		mutex_unlock(&mem->lock);
		cond_resched();
	} while (ret > 0);
	mem->stat.map_us += ktime_us_delta(ktime_get(), start);
	return ret;
}

/* Builds */

static void explain_window(struct dlend_memory *mem)
{
	struct dlend_aperture_stat st = {};
	u64 bytes;

	mutex_lock(&mem->lock);
	bytes = mem->books.pinned_bytes;
	if (mem->ap)
		dlend_aperture_stat(mem->ap, &st);
	mutex_unlock(&mem->lock);
	mem_err(mem, "window full: guest RAM is %llu MiB, of the window's %llu MiB %llu are free (largest piece %llu), %llu in quarantine: give the guest less RAM, or the NTB a larger window",
		bytes >> 20, st.size >> 20, st.free >> 20, st.largest_free >> 20,
		st.quarantined >> 20);
}

static void explain_probe(struct dlend_memory *mem, int err)
{
	u64 bytes = READ_ONCE(mem->books.pinned_bytes);
	u64 limit = READ_ONCE(mem->memlock);
	char text[32] = "";

	if (err == -ENOMEM && mem->pin_err == -ENOMEM) {
		if (limit)
			scnprintf(text, sizeof(text), " (%llu KiB)", limit >> 10);
		mem_err(mem, "memlock limit%s too low for more than %llu KiB of guest RAM: raise RLIMIT_MEMLOCK of the VMM (ulimit -l, systemd LimitMEMLOCK=, libvirt memtune hard_limit)",
			text, bytes >> 10);
	} else if (err == -ENOMEM) {
		mem_err(mem, "host is out of memory after %llu KiB of guest RAM", bytes >> 10);
	} else {
		mem_err(mem, "guest RAM cannot be pinned, error %d after %llu KiB: is its backing pinnable (no device memory, no file system DAX)?",
			err, bytes >> 10);
	}
}

static bool is_new(const struct dlend_extent *extent, u32 arg)
{
	return extent->state == DLEND_EXTENT_NEW;
}

static bool is_of_build(const struct dlend_extent *extent, u32 arg)
{
	return extent->build == arg;
}

/* The layout changed: what is pinned stays so, what the lender has not heard of is no extent. */
static void build_postpone(struct dlend_memory *mem)
{
	LIST_HEAD(gone);

	mutex_lock(&mem->lock);
	dlend_extents_kill_all(&mem->books, is_new, 0, &gone);
	retire(mem, &gone);
	mutex_unlock(&mem->lock);
}

/* Nothing stays half built: everything that this build pinned, mapped and told is undone. */
static void build_undo(struct dlend_memory *mem)
{
	LIST_HEAD(gone);
	LIST_HEAD(out);

	mutex_lock(&mem->unpin_lock);
	mutex_lock(&mem->lock);
	dlend_extents_kill_all(&mem->books, is_of_build, mem->build, &gone);
	retire(mem, &gone);
	dlend_extents_take_build(&mem->books, mem->build, &out);
	unmap_chunks(mem, &out);
	mutex_unlock(&mem->lock);
	unpin_chunks(mem, &out);
	mutex_unlock(&mem->unpin_lock);
	if (!list_empty(&mem->dead))
		schedule_work(&mem->tell_work);
}

/* Too many builds that had to repair something: this is no firmware, it never ends. */
static int count_repair(struct dlend_memory *mem)
{
	lockdep_assert_held(&mem->lock);
	if (mem->lost == mem->build_lost)
		return 0;
	mem->stat.rebuilds++;
	if (time_after(jiffies, mem->repairs_since + REPAIRS_SECS * HZ)) {
		mem->repairs_since = jiffies;
		mem->repairs = 0;
	}
	return ++mem->repairs > REPAIRS_MAX ? -EOPNOTSUPP : 0;
}

static bool lost_within(const struct dlend_memory *mem, unsigned int ms)
{
	return time_before(jiffies, READ_ONCE(mem->last_loss) + msecs_to_jiffies(ms));
}

/*
 * VFIO may still be at what it unmaps: wait for what it is at (which waits for no build), and then
 * a little, but not for ever.
 */
static void settle(struct dlend_memory *mem)
{
	unsigned int turns = 40;

	while (READ_ONCE(mem->unmapping) && READ_ONCE(mem->ap))
		msleep(SETTLE_MS / 4);
	while (turns-- && READ_ONCE(mem->ap) && lost_within(mem, SETTLE_MS))
		msleep(SETTLE_MS / 4);
}

static int build_begin(struct dlend_memory *mem)
{
	int err = -ENOTCONN;

	settle(mem);
	mutex_lock(&mem->lock);
	if (mem->ap && dlend_link_session(mem->link) == mem->session) {
		err = mem->dropping ? -EAGAIN : count_repair(mem);
		mem->build++;
		mem->build_lost = mem->lost;
		mem->stat.probes++;
	}
	trace_dlend_window(mem->vdev->dev, "build", mem->books.pinned_bytes, err);
	mutex_unlock(&mem->lock);
	if (err == -EOPNOTSUPP)
		mem_err(mem, "guest memory changes all the time (%u times in %u s): is there a virtual IOMMU in the guest? It cannot be used with a borrowed device",
			REPAIRS_MAX, REPAIRS_SECS);
	return err;
}

/* Highest address that a guest on this host can have. */
static u64 max_gpa(void)
{
	/*
	 * 64 TiB bound the walk. RAM lies as low as it fits: beyond that there is none, whatever
	 * the processor could address.
	 */
	return 1ULL << min(dlend_phys_bits(), 46u);
}

/* Has what went away come back, or has it had the time to? */
static int build_whole(struct dlend_memory *mem)
{
	u64 missing;
	int err = 0;

	mutex_lock(&mem->lock);
	missing = dlend_extents_missing(&mem->books);
	if (missing && lost_within(mem, RETURN_MS)) {
		err = -EAGAIN;
		mem->stat.waits++;
		trace_dlend_window(mem->vdev->dev, "missing", missing, err);
	} else {
		dlend_extents_accept(&mem->books);
	}
	mutex_unlock(&mem->lock);
	return err;
}

/*
 * Pinning takes seconds, and what is not pinned comes and goes without a word: what was taken for
 * a hole is looked at again, which costs a few thousand calls that fail at once.
 */
static int build_probe(struct dlend_memory *mem)
{
	unsigned int probes = 0;
	u64 had;
	int err;

	mem->pin_err = 0;
	do {
		had = READ_ONCE(mem->books.pinned_bytes);
		err = dlend_layout_probe(&mem_layout_ops, mem, max_gpa());
	} while (!err && READ_ONCE(mem->books.pinned_bytes) != had && ++probes < PROBES_MAX);
	if (!err)
		return build_whole(mem);
	if (err == -EINTR)
		return -EAGAIN;
	explain_probe(mem, err);
	return err;
}

/* Which extents stay, which go, which are new; and tell the lender of those that go. */
static int build_extents(struct dlend_memory *mem)
{
	LIST_HEAD(gone);
	int err;

	mutex_lock(&mem->lock);
	dlend_extents_settle(&mem->books, &gone);
	retire(mem, &gone);
	mutex_unlock(&mem->lock);

	err = tell_dead(mem);
	if (err) {
		mem_err(mem, "lender did not unmap what is gone: error %d", err);
		return err;
	}
	mutex_lock(&mem->lock);
	err = disturbed(mem) ? -EAGAIN : dlend_extents_form(&mem->books, mem->build);
	mutex_unlock(&mem->lock);
	return err;
}

static int build_end(struct dlend_memory *mem)
{
	int err = 0;

	mutex_lock(&mem->lock);
	/* No RAM at all: a VMM that has not mapped it yet (iommufd), or is about to again. */
	if (disturbed(mem) || !mem->books.chunks)
		err = -EAGAIN;
	else
		mem->reason[0] = '\0';
	mutex_unlock(&mem->lock);
	return err;
}

static int build_locked(struct dlend_memory *mem)
{
	int err;

	err = build_probe(mem);
	if (!err)
		err = build_extents(mem);
	if (!err)
		err = map_all(mem);
	if (err == -ENOSPC)
		explain_window(mem);
	if (!err)
		err = tell_new(mem);
	if (!err)
		err = build_end(mem);
	/* A peer call that failed because the link went down is no error of the layout. */
	if (err && !READ_ONCE(mem->ap))
		err = -ENOTCONN;
	if (err == -EAGAIN)
		build_postpone(mem);
	else if (err)
		build_undo(mem);
	return err;
}

int dlend_memory_build(struct dlend_memory *mem)
{
	ktime_t start = ktime_get();
	int err;

	mutex_lock(&mem->build_lock);
	err = build_begin(mem);
	if (!err) {
		err = build_locked(mem);
		mem->stat.last_build_us = ktime_us_delta(ktime_get(), start);
	}
	trace_dlend_window(mem->vdev->dev, err ? "failed" : "standing",
			   READ_ONCE(mem->books.pinned_bytes), err);
	mutex_unlock(&mem->build_lock);
	return err;
}

/* What takes windows away */

/* Whether or not there is something: how long the VMM was kept. */
static void unmap_end(struct dlend_memory *mem, u64 gpa, u64 last, bool hit, ktime_t since)
{
	u64 us = ktime_us_delta(ktime_get(), since);

	mutex_lock(&mem->lock);
	WRITE_ONCE(mem->unmapping, mem->unmapping - 1);
	if (hit) {
		WRITE_ONCE(mem->last_loss, jiffies);
		mem->stat.unmaps++;
		mem->stat.unmap_us += us;
		mem->stat.unmap_longest_us = max(mem->stat.unmap_longest_us, us);
	}
	trace_dlend_dma_unmap(mem->vdev->dev, gpa, last, hit, us);
	mutex_unlock(&mem->lock);
}

bool dlend_memory_unmap(struct dlend_memory *mem, u64 gpa, u64 size)
{
	u64 last = size && size - 1 <= U64_MAX - gpa ? gpa + size - 1 : U64_MAX;
	ktime_t since = ktime_get();
	LIST_HEAD(out);
	bool hit;

	mutex_lock(&mem->lock);
	WRITE_ONCE(mem->unmapping, mem->unmapping + 1);
	mutex_unlock(&mem->lock);
	mutex_lock(&mem->unpin_lock);
	/* What is being pinned will be in the books in a moment, or given up. */
	hit = pin_stop(mem, gpa, last);

	mutex_lock(&mem->lock);
	if (dlend_extents_lose(&mem->books, gpa, last, &out)) {
		note_loss(mem);
		hit = true;
	}
	unmap_chunks(mem, &out);
	if (hit)
		trace_dlend_window(mem->vdev->dev, "lost", mem->books.pinned_bytes, 0);
	mutex_unlock(&mem->lock);
	unpin_chunks(mem, &out);
	mutex_unlock(&mem->unpin_lock);
	unmap_end(mem, gpa, last, hit, since);
	return hit;
}

/* A part of what is pinned, and in no extent any more. Return: false if there is nothing. */
static bool drop_some(struct dlend_memory *mem)
{
	struct dlend_chunk *chunk;
	LIST_HEAD(out);

	mutex_lock(&mem->unpin_lock);
	mutex_lock(&mem->lock);
	chunk = dlend_extents_find(&mem->books, 0);
	if (chunk)
		dlend_extents_take_range(&mem->books, chunk->gpa, chunk->gpa + DROP_BYTES - 1,
					 &out);
	mutex_unlock(&mem->lock);
	unpin_chunks(mem, &out);
	mutex_unlock(&mem->unpin_lock);
	return chunk;
}

/* Everything out of the books, the aperture, and unpinned; @dead is what the lender may map. */
static void drop_all(struct dlend_memory *mem)
{
	LIST_HEAD(gone);

	mutex_lock(&mem->lock);
	dlend_extents_kill_all(&mem->books, NULL, 0, &gone);
	retire(mem, &gone);
	mutex_unlock(&mem->lock);
	while (drop_some(mem))
		cond_resched();
	mutex_lock(&mem->lock);
	dlend_extents_accept(&mem->books);
	mutex_unlock(&mem->lock);
}

void dlend_memory_drop(struct dlend_memory *mem, bool tell_lender)
{
	mutex_lock(&mem->lock);
	note_loss(mem);
	WRITE_ONCE(mem->dropping, mem->dropping + 1);
	mutex_unlock(&mem->lock);

	mutex_lock(&mem->build_lock);
	drop_all(mem);
	mutex_lock(&mem->lock);
	WRITE_ONCE(mem->dropping, mem->dropping - 1);
	trace_dlend_window(mem->vdev->dev, "dropped", mem->books.pinned_bytes, 0);
	mutex_unlock(&mem->lock);
	if (tell_lender && !list_empty(&mem->dead))
		schedule_work(&mem->tell_work);
	mutex_unlock(&mem->build_lock);
}

void dlend_memory_close(struct dlend_memory *mem)
{
	mutex_lock(&mem->lock);
	note_loss(mem);
	/* For good: no pin begins any more, whatever a build is at. */
	WRITE_ONCE(mem->dropping, mem->dropping + 1);
	mutex_unlock(&mem->lock);
	dlend_memory_unmap(mem, 0, U64_MAX);
}

static void down_work(struct work_struct *work)
{
	dlend_memory_drop(container_of(work, struct dlend_memory, down_work), false);
}

void dlend_memory_link_down(struct dlend_memory *mem)
{
	struct dlend_extent *extent;
	struct dlend_chunk *chunk;
	u64 gpa = 0;

	mutex_lock(&mem->lock);
	if (mem->ap) {
		note_loss(mem);
		while ((extent = dlend_extents_next_extent(&mem->books, gpa))) {
			if (extent->slot)
				extent->cookie = dlend_slot_quarantine(mem->ap, extent->slot);
			extent->slot = NULL;
			gpa = extent->gpa + extent->size;
		}
		for (chunk = dlend_extents_find(&mem->books, 0); chunk;
		     chunk = dlend_extents_next(&mem->books, chunk))
			chunk->mapped = false;
		WRITE_ONCE(mem->ap, NULL);
		trace_dlend_window(mem->vdev->dev, "link-down", mem->books.pinned_bytes, 0);
		schedule_work(&mem->down_work);
	}
	mutex_unlock(&mem->lock);
}

/* Life */

struct dlend_memory *dlend_memory_create(struct vfio_device *vdev, struct dlend_link *link,
					 const struct dlend_addr *addr, u32 epoch)
{
	struct dlend_memory *mem;

	mem = kvzalloc_obj(*mem);
	if (!mem)
		return ERR_PTR(-ENOMEM);
	mem->session = dlend_link_session(link);
	mem->ap = dlend_link_aperture(link);
	if (!mem->ap) {
		kvfree(mem);
		return ERR_PTR(-ENOTCONN);
	}
	mem->vdev = vdev;
	mem->link = dlend_link_get(link);
	mem->addr = *addr;
	mem->epoch = epoch;
	mutex_init(&mem->build_lock);
	mutex_init(&mem->unpin_lock);
	mutex_init(&mem->lock);
	dlend_extents_init(&mem->books);
	mem->last_loss = jiffies - msecs_to_jiffies(SETTLE_MS);
	mem->repairs_since = jiffies;
	mem->pin_gpa = U64_MAX;
	init_waitqueue_head(&mem->pin_done);
	INIT_LIST_HEAD(&mem->dead);
	INIT_WORK(&mem->tell_work, tell_work);
	INIT_WORK(&mem->down_work, down_work);
	/* In a kernel thread the limit would be nobody's. */
	if (current->mm)
		mem->memlock = rlimit(RLIMIT_MEMLOCK);
	return mem;
}

void dlend_memory_set_memlock(struct dlend_memory *mem, u64 bytes)
{
	WRITE_ONCE(mem->memlock, bytes);
}

void dlend_memory_set_lowmem(struct dlend_memory *mem, u64 lowmem)
{
	mem->lowmem = lowmem;
}

/* The aperture, if cookies mean something in it; a new session has released all by itself. */
static struct dlend_aperture *session_aperture(struct dlend_memory *mem)
{
	if (dlend_link_session(mem->link) != mem->session)
		return NULL;
	return dlend_link_aperture(mem->link);
}

void dlend_memory_destroy(struct dlend_memory *mem, bool acked)
{
	struct dlend_aperture *ap = acked ? session_aperture(mem) : NULL;
	struct dlend_extent *extent, *tmp;

	cancel_work_sync(&mem->down_work);
	dlend_memory_drop(mem, false);
	cancel_work_sync(&mem->tell_work);
	list_for_each_entry_safe(extent, tmp, &mem->dead, node) {
		if (extent->cookie && ap)
			dlend_slot_release(ap, extent->cookie);
		list_del(&extent->node);
		kfree(extent);
	}
	dlend_extents_destroy(&mem->books);
	dlend_link_put(mem->link);
	kvfree(mem);
}

/* For people */

void dlend_memory_reason(struct dlend_memory *mem, char *buf, size_t len)
{
	mutex_lock(&mem->lock);
	strscpy(buf, mem->reason, len);
	mutex_unlock(&mem->lock);
}

void dlend_memory_stat(struct dlend_memory *mem, struct dlend_memory_stat *st)
{
	struct dlend_aperture_stat ap = {};

	mutex_lock(&mem->lock);
	if (mem->ap)
		dlend_aperture_stat(mem->ap, &ap);
	*st = mem->stat;
	st->pinned_bytes = mem->books.pinned_bytes;
	st->readonly_bytes = mem->books.readonly_bytes;
	st->scattered_bytes = mem->books.scattered_bytes;
	st->extents = mem->books.extents;
	st->chunks = mem->books.chunks;
	st->pages_4k = ap.mapped_4k;
	st->pages_2m = ap.mapped_2m;
	st->pages_1g = ap.mapped_1g;
	mutex_unlock(&mem->lock);
}

static void show_extent(struct dlend_memory *mem, struct seq_file *m,
			const struct dlend_extent *extent)
{
	struct dlend_chunk *chunk = dlend_extents_find(&mem->books, extent->gpa);
	u64 large = 0, mapped = 0;

	for (; chunk && chunk->gpa < extent->gpa + extent->size;
	     chunk = dlend_extents_next(&mem->books, chunk)) {
		if (chunk->mapped)
			mapped += chunk_bytes(chunk);
		if (!chunk->pages && chunk->npages == DLEND_CHUNK_PAGES)
			large += chunk_bytes(chunk);
	}
	seq_printf(m, "%#014llx %#012llx %c%c %#012llx pinned=%llu mapped=%llu contiguous-2m=%llu %s\n",
		   extent->gpa, extent->size, extent->prot & DLEND_PROT_READ ? 'r' : '-',
		   extent->prot & DLEND_PROT_WRITE ? 'w' : '-', extent->offset, extent->pinned,
		   mapped, large, extent->state == DLEND_EXTENT_TOLD ? "told" : "new");
}

void dlend_memory_show(struct dlend_memory *mem, struct seq_file *m)
{
	struct dlend_extent *extent;
	u64 gpa = 0;

	mutex_lock(&mem->lock);
	seq_printf(m, "# gpa size prot offset; pinned %llu bytes, read-only %llu, scattered %llu, %llu chunks\n",
		   mem->books.pinned_bytes, mem->books.readonly_bytes,
		   mem->books.scattered_bytes, mem->books.chunks);
	seq_printf(m, "# probes %llu rebuilds %llu pin calls %llu in %llu us, map %llu us, last build %llu us\n",
		   mem->stat.probes, mem->stat.rebuilds, mem->stat.pin_calls, mem->stat.pin_us,
		   mem->stat.map_us, mem->stat.last_build_us);
	if (mem->reason[0])
		seq_printf(m, "# failed: %s\n", mem->reason);
	while ((extent = dlend_extents_next_extent(&mem->books, gpa))) {
		show_extent(mem, m, extent);
		gpa = extent->gpa + extent->size;
	}
	mutex_unlock(&mem->lock);
}
