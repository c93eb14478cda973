// SPDX-License-Identifier: GPL-2.0
/*
 * DMA windows of a borrowed device: guest RAM, pinned through VFIO, in slots of this node's
 * aperture, and mapped by the lender at the same guest-physical addresses.
 *
 * This file is about one lease: it finds and pins what RAM there is, maps it, and tells the lender.
 * The RAM itself, which other devices of the VM may share, and all that takes it away are ram.c's,
 * whose locks are explained there.  What is where is found out by layout.c and kept by extent.c.
 * It must not know the device's BARs, configuration space or interrupts, nor when windows are
 * wanted: that is borrow.c's.
 *
 * Whoever builds does it for all: what is pinned and mapped already stays, what is gone is told to
 * every lease that knows of it, and what is new to this one is told to its lender.  The others are
 * asked to build as well if there is something new for them; they find it standing.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vfio.h>
#include <linux/workqueue.h>
#include <asm/processor.h>
#include <dlend/compat.h>

#include "memslots.h"
#include "ram.h"
#include "trace.h"

/* Probes of one build, as long as each finds something new. */
#define PROBES_MAX	4

/* More repairs than this in that time are no firmware at work. */
#define REPAIRS_MAX	128
#define REPAIRS_SECS	10

/* Say why, in the log (once: rescans fail again and again) and for dlend_memory_reason(). */
static __printf(2, 3) void mem_err(struct dlend_memory *mem, const char *fmt, ...)
{
	char was[DLEND_REASON_LEN];
	va_list args;

	mutex_lock(&mem->ram->lock);
	strscpy(was, mem->reason, sizeof(was));
	va_start(args, fmt);
	vscnprintf(mem->reason, sizeof(mem->reason), fmt, args);
	va_end(args);
	if (strcmp(was, mem->reason))
		dev_err_ratelimited(mem->vdev->dev, "DMA windows: %s\n", mem->reason);
	mutex_unlock(&mem->ram->lock);
}

/* The pinner that layout.c works with */

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
	ktime_t start = ktime_get();
	u64 us;
	int err;

	err = dlend_ram_pin_batch(mem, chunk->gpa + ((u64)at << PAGE_SHIFT), npages, chunk->prot,
				  mem->pages + at);
	us = ktime_us_delta(ktime_get(), start);
	mem->stat.pin_us += us;
	mem->stat.pin_longest_us = max(mem->stat.pin_longest_us, us);
	mem->stat.pin_calls++;
	return err;
}

static int chunk_pin(struct dlend_memory *mem, struct dlend_chunk *chunk)
{
	u32 done = 0, count;
	int err = 0;

	while (!err && done < chunk->npages) {
		count = min(chunk->npages - done, DLEND_PIN_BATCH);
		if (done && dlend_ram_disturbed(mem))
			err = -EINTR;
		else
			err = pin_batch(mem, chunk, done, count);
		if (!err)
			done += count;
		cond_resched();
	}
	if (err)
		dlend_ram_unpin_pages(mem, chunk->gpa, done);
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
		mutex_lock(&mem->ram->lock);
		err = dlend_books_add(&mem->ram->books, chunk);
		mutex_unlock(&mem->ram->lock);
	}
	if (err)
		dlend_ram_unpin_pages(mem, chunk->gpa, chunk->npages);
	/* Not for want of a page: the prober must not take it for a hole. */
	return err == -EINVAL ? -EIO : err;
}

static int pin_piece(struct dlend_memory *mem, u64 gpa, u32 npages, u32 prot)
{
	struct dlend_chunk *chunk;
	int err;

	chunk = kzalloc_obj(*chunk);
	if (!chunk)
		return -ENOMEM;
	chunk->gpa = gpa;
	chunk->npages = npages;
	chunk->prot = prot;
	chunk->owner = mem;
	chunk->build = mem->build;
	while ((err = dlend_ram_pin_begin(mem, gpa, npages)) == -EBUSY)
		msleep(DLEND_SETTLE_MS / 4);
	if (!err) {
		err = chunk_pin_and_add(mem, chunk);
		dlend_ram_pin_end(mem, !err);
	}
	if (err) {
		kfree(chunk->pages);
		kfree(chunk);
	}
	cond_resched();
	return err;
}

/* The next chunk in @gpa..@end: onto @out, if this build pinned it. Return: was there one? */
static bool take_own(struct dlend_memory *mem, u64 *gpa, u64 end, struct list_head *out)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_chunk *chunk;

	guard(mutex)(&ram->lock);
	chunk = dlend_books_find(&ram->books, *gpa);
	/* Not there any more if dma_unmap came first. */
	if (!chunk || chunk->gpa + dlend_chunk_bytes(chunk) > end)
		return false;
	*gpa = chunk->gpa + dlend_chunk_bytes(chunk);
	if (chunk->build == mem->build && !chunk->extent)
		dlend_books_take(&ram->books, chunk, out);
	return true;
}

static void mem_unpin(void *ctx, u64 gpa, u32 npages)
{
	u64 end = gpa + ((u64)npages << PAGE_SHIFT);
	struct dlend_memory *mem = ctx;
	LIST_HEAD(out);

	mutex_lock(&mem->ram->unpin_lock);
	while (take_own(mem, &gpa, end, &out))
		;
	dlend_ram_unpin_chunks(&out);
	mutex_unlock(&mem->ram->unpin_lock);
}

static u64 piece_end(struct dlend_memory *mem, u64 gpa, u64 end)
{
	guard(mutex)(&mem->ram->lock);
	return dlend_books_edge(&mem->ram->books, gpa, end);
}

/* In pieces, none of which lies across an extent's edge: what stands need not make way for them. */
static int mem_pin(void *ctx, u64 gpa, u32 npages, u32 prot)
{
	u64 at = gpa, end = gpa + ((u64)npages << PAGE_SHIFT), to;
	struct dlend_memory *mem = ctx;
	int err = 0;

	if (dlend_prober_excluded(mem->ram->lowmem, gpa, npages))
		return -EINVAL;
	while (at < end) {
		to = piece_end(mem, at, end);
		err = pin_piece(mem, at, (to - at) >> PAGE_SHIFT, prot);
		if (err)
			break;
		at = to;
	}
	if (err && at > gpa)
		mem_unpin(mem, gpa, (at - gpa) >> PAGE_SHIFT);
	return err;
}

static u64 mem_known(void *ctx, u64 gpa, u64 *next)
{
	struct dlend_memory *mem = ctx;
	u64 end;

	mutex_lock(&mem->ram->lock);
	end = dlend_books_known(&mem->ram->books, gpa, next);
	mutex_unlock(&mem->ram->lock);
	return end;
}

static bool mem_stop(void *ctx)
{
	return dlend_ram_disturbed(ctx);
}

static bool mem_range(void *ctx, u64 gpa, struct dlend_range *range)
{
	struct dlend_memory *mem = ctx;

	return dlend_ranges_next(&mem->walk, gpa, range);
}

static bool mem_slot(void *ctx, u64 gpa, struct dlend_range *range)
{
	struct dlend_memory *mem = ctx;

	return dlend_ranges_next(&mem->slots, gpa, range);
}

/* No pin, but what dlend_ram_close() waits for as for one: the VM stays. Of no RAM. */
#define NOWHERE		(U64_MAX - PAGE_SIZE + 1)

static bool mem_is_ram(void *ctx, u64 gpa)
{
	struct dlend_memory *mem = ctx;
	bool ram = !gpa;
	int err;

	while ((err = dlend_ram_pin_begin(mem, NOWHERE, 1)) == -EBUSY)
		msleep(DLEND_SETTLE_MS / 4);
	if (err)
		return false;
	if (mem->vdev->kvm)
		ram = dlend_memslots_is_ram(mem->vdev->kvm, gpa);
	dlend_ram_pin_end(mem, false);
	if (ram)
		mem->unpinnable = gpa;
	return ram;
}

#define MEM_OPS .pin = mem_pin, .unpin = mem_unpin, .known = mem_known, .is_ram = mem_is_ram, \
		.stop = mem_stop, .keep_on_stop = true

static const struct dlend_prober_ops mem_layout_ops = { MEM_OPS };
static const struct dlend_prober_ops mem_walk_ops = { MEM_OPS, .range = mem_range };
static const struct dlend_prober_ops mem_slot_ops = { MEM_OPS, .range = mem_slot };

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

/* What there is to tell member @id, @max entries at most, into a message. Return: how many */
static u32 ask(struct dlend_ram *ram, u32 id, enum dlend_news what, struct dlend_p_dma *dma,
	       u32 max)
{
	struct dlend_extent *extent;
	u32 count = 0;
	u64 gpa = 0;

	lockdep_assert_held(&ram->lock);
	if (what == DLEND_NEWS_GONE) {
		list_for_each_entry(extent, &ram->dead, node) {
			if (count == max || !dlend_told_due(&extent->told, what, id))
				continue;
			dlend_told_ask(&extent->told, what, id);
			fill_entry(dma, extent);
			count++;
		}
		return count;
	}
	while (count < max && (extent = dlend_books_next_extent(&ram->books, gpa))) {
		gpa = extent->gpa + extent->size;
		if (!dlend_told_due(&extent->told, what, id))
			continue;
		dlend_told_ask(&extent->told, what, id);
		fill_entry(dma, extent);
		count++;
	}
	return count;
}

/* The answer to it. What left the books meanwhile is asked for no more. */
static void answer(struct dlend_ram *ram, u32 id, enum dlend_news what, bool ok)
{
	struct dlend_extent *extent, *tmp;
	u64 gpa = 0;

	mutex_lock(&ram->lock);
	if (what == DLEND_NEWS_GONE) {
		list_for_each_entry_safe(extent, tmp, &ram->dead, node)
			if (dlend_told_answer(&extent->told, what, id, ok))
				dlend_ram_forget_dead(ram, extent);
	} else {
		while ((extent = dlend_books_next_extent(&ram->books, gpa))) {
			gpa = extent->gpa + extent->size;
			dlend_told_answer(&extent->told, what, id, ok);
		}
	}
	mutex_unlock(&ram->lock);
}

/* May this be said for @mem now? A closed one's lender hears of the return next. */
static int may_tell(const struct dlend_memory *mem, enum dlend_news what)
{
	if (!mem || mem->closed)
		return -ENOENT;
	if (!mem->ram->ap)
		return -ENOTCONN;
	return what == DLEND_NEWS_NEW && dlend_ram_disturbed(mem) ? -EAGAIN : 0;
}

/*
 * One message to the lender of member @id, if there is something to say.  From its beginning on
 * the lender may know.  Return: how many extents it was about, or an error.
 */
static int tell_some(struct dlend_ram *ram, u32 id, enum dlend_news what, u32 max)
{
	struct dlend_memory *mem;
	struct dlend_p_dma *dma;
	struct dlend_msg req;
	int err, count = 0;

	lockdep_assert_held(&ram->build_lock);
	mutex_lock(&ram->lock);
	mem = ram->member[id];
	err = may_tell(mem, what);
	if (!err) {
		dma = dlend_msg_init(&req, what == DLEND_NEWS_NEW ? DLEND_MSG_DMA_MAP :
				     DLEND_MSG_DMA_UNMAP, &mem->addr, mem->epoch, sizeof(*dma));
		count = ask(ram, id, what, dma, max);
		mem->stat.messages += !!count;
	}
	mutex_unlock(&ram->lock);
	if (err || !count)
		return err == -ENOENT ? 0 : err;

	err = dlend_link_call(ram->link, &req, NULL, 0);
	if (!err)
		dlend_ram_progress(ram);
	/* A map whose answer was lost may never have been: alone, that is as good as done. */
	if (err == -ENOENT && count == 1 && what != DLEND_NEWS_NEW)
		err = 0;
	answer(ram, id, what, !err);
	return err ?: count;
}

static int tell(struct dlend_ram *ram, u32 id, enum dlend_news what)
{
	int ret;

	do {
		ret = tell_some(ram, id, what, DLEND_DMA_PER_MSG);
		if (ret == -ENOENT && what != DLEND_NEWS_NEW)
			ret = tell_some(ram, id, what, 1);
	} while (ret > 0);
	return ret;
}

/*
 * Tell everybody who knows of it of all that is gone.  Return: the error of @mem's lender, or with
 * NULL of any: it is no business of one lease what becomes of another.
 */
static int tell_gone(struct dlend_ram *ram, const struct dlend_memory *mem)
{
	int err = 0, ret;
	u32 id;

	for (id = 0; id < DLEND_TOLD_MAX; id++) {
		ret = tell(ram, id, DLEND_NEWS_GONE);
		if (ret && (!mem || mem->id == id))
			err = ret;
	}
	return err;
}

void dlend_memory_tell_work(struct work_struct *work)
{
	struct dlend_ram *ram = container_of(work, struct dlend_ram, tell_work);
	int err;

	mutex_lock(&ram->build_lock);
	err = tell_gone(ram, NULL);
	mutex_unlock(&ram->build_lock);
	/* Nobody is harmed: slots stay in quarantine, and the next build tries again. */
	if (err && err != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(ram->link),
				     "lender did not unmap guest memory (%d): window space stays reserved until it does\n",
				     err);
}

/* What the lender is not known to have. */
static int tell_new(struct dlend_memory *mem)
{
	int err = tell(mem->ram, mem->id, DLEND_NEWS_UNSURE);

	if (!err)
		err = tell(mem->ram, mem->id, DLEND_NEWS_NEW);
	if (err && err != -EAGAIN)
		mem_err(mem, "lender did not map guest memory: error %d", err);
	return err;
}

/* Aperture */

static int slot_for(struct dlend_ram *ram, struct dlend_extent *extent)
{
	struct dlend_slot *slot = ERR_PTR(-ENOSPC);

	/* Whole GiB: try for 1 GiB pages. Otherwise 2 MiB ones, where there can be any. */
	if (extent->size == SZ_1G)
		slot = dlend_slot_alloc(ram->ap, extent->size, SZ_1G, 0, DLEND_SLOT_RAM);
	if (IS_ERR(slot) && extent->size >= SZ_2M)
		slot = dlend_slot_alloc(ram->ap, extent->size, SZ_2M, extent->gpa & (SZ_2M - 1),
					DLEND_SLOT_RAM);
	if (IS_ERR(slot))
		slot = dlend_slot_alloc(ram->ap, extent->size, 0, 0, DLEND_SLOT_RAM);
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
	       next->prot == chunk->prot && next->gpa == chunk->gpa + dlend_chunk_bytes(chunk) &&
	       next->pfn == chunk->pfn + chunk->npages;
}

/* Map @chunk, with what follows it contiguously. Return: where to go on, in @gpa. */
static int map_run(struct dlend_ram *ram, struct dlend_chunk *chunk, u64 *gpa)
{
	struct dlend_extent *extent = chunk->extent;
	u64 at = chunk->gpa - extent->gpa, size = dlend_chunk_bytes(chunk);
	struct dlend_chunk *last = chunk, *next;
	int err;

	if (chunk->pages) {
		err = dlend_slot_map_pages(ram->ap, extent->slot, at, chunk->pages, chunk->npages,
					   chunk->prot);
	} else {
		for (next = dlend_books_next(&ram->books, last); continues(last, next);
		     next = dlend_books_next(&ram->books, last)) {
			size += dlend_chunk_bytes(next);
			last = next;
		}
		err = dlend_slot_map_phys(ram->ap, extent->slot, at, PFN_PHYS(chunk->pfn), size,
					  chunk->prot, false);
	}
	if (err)
		return err;
	*gpa = chunk->gpa + size;
	for (;; chunk = dlend_books_next(&ram->books, chunk)) {
		chunk->mapped = true;
		if (chunk == last)
			return 0;
	}
}

/* One step of map_all(). Return: 1 go on, 0 done, or an error. */
static int map_step(struct dlend_memory *mem, u64 *gpa)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_chunk *chunk;
	int err = 0;

	lockdep_assert_held(&ram->lock);
	if (dlend_ram_disturbed(mem))
		return -EAGAIN;
	chunk = dlend_books_find(&ram->books, *gpa);
	while (chunk && chunk->mapped)
		chunk = dlend_books_next(&ram->books, chunk);
	if (!chunk)
		return 0;
	if (!chunk->extent->slot)
		err = slot_for(ram, chunk->extent);
	if (!err)
		err = map_run(ram, chunk, gpa);
	return err ?: 1;
}

/* Everything pinned into the aperture, a run at a time so that dma_unmap never waits long. */
static int map_all(struct dlend_memory *mem)
{
	ktime_t start = ktime_get();
	u64 gpa = 0;
	int ret;

	do {
		mutex_lock(&mem->ram->lock);
		ret = map_step(mem, &gpa);
		mutex_unlock(&mem->ram->lock);
		if (ret > 0)
			dlend_ram_progress(mem->ram);
		cond_resched();
	} while (ret > 0);
	mem->stat.map_us += ktime_us_delta(ktime_get(), start);
	return ret;
}

/* Builds */

static void explain_window(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_aperture_stat st = {};
	u64 bytes;

	mutex_lock(&ram->lock);
	bytes = ram->books.pinned_bytes;
	if (ram->ap)
		dlend_aperture_stat(ram->ap, &st);
	mutex_unlock(&ram->lock);
	mem_err(mem, "window full: guest RAM is %llu MiB, of the window's %llu MiB %llu are free (largest piece %llu), %llu in quarantine: give the guest less RAM, or the NTB a larger window",
		bytes >> 20, st.size >> 20, st.free >> 20, st.largest_free >> 20,
		st.quarantined >> 20);
}

static void explain_probe(struct dlend_memory *mem, int err)
{
	struct dlend_ram *ram = mem->ram;
	u64 bytes = READ_ONCE(ram->books.pinned_bytes);
	u64 limit = READ_ONCE(mem->memlock);
	char text[32] = "";

	if (err == -ENOMEM && mem->pin_err == -ENOMEM) {
		if (limit)
			scnprintf(text, sizeof(text), " (%llu KiB)", limit >> 10);
		mem_err(mem, "memlock limit%s too low for more than %llu KiB of guest RAM: raise RLIMIT_MEMLOCK of the VMM (ulimit -l, systemd LimitMEMLOCK=, libvirt memtune hard_limit)",
			text, bytes >> 10);
	} else if (err == -ENOMEM) {
		mem_err(mem, "host is out of memory after %llu KiB of guest RAM", bytes >> 10);
	} else if (err == -EACCES) {
		mem_err(mem, "the VMM maps its memory by a VFIO container of version 1, in which none can be pinned: it must use VFIO_TYPE1v2_IOMMU or /dev/iommu (QEMU and others do)");
	} else if (err == -EFAULT) {
		mem_err(mem, "guest RAM at %#llx cannot be pinned for long: it is in a file on a disk, in DAX or secret memory; give the guest anonymous memory, memfd, or a file in tmpfs or hugetlbfs",
			mem->unpinnable);
	} else {
		mem_err(mem, "guest RAM cannot be pinned, error %d after %llu KiB: is its backing pinnable (no device memory, no file system DAX)?",
			err, bytes >> 10);
	}
}

static bool is_new(const struct dlend_extent *extent, u32 arg)
{
	return !dlend_told_anybody(&extent->told);
}

static bool is_of_build(const struct dlend_extent *extent, u32 arg)
{
	return extent->build == arg;
}

/* The layout changed: what is pinned stays so, what no lender has heard of is no extent. */
static void build_postpone(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	LIST_HEAD(gone);

	mutex_lock(&ram->lock);
	dlend_books_kill_all(&ram->books, is_new, 0, &gone);
	dlend_ram_retire(ram, &gone);
	mutex_unlock(&ram->lock);
}

/* Nothing stays half built: everything that this build pinned, mapped and told is undone. */
static void build_undo(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	LIST_HEAD(gone);
	LIST_HEAD(out);

	mutex_lock(&ram->unpin_lock);
	mutex_lock(&ram->lock);
	dlend_books_kill_all(&ram->books, is_of_build, mem->build, &gone);
	dlend_ram_retire(ram, &gone);
	dlend_books_take_build(&ram->books, mem->build, &out);
	dlend_ram_unmap_chunks(ram, &out);
	mutex_unlock(&ram->lock);
	dlend_ram_unpin_chunks(&out);
	mutex_unlock(&ram->unpin_lock);
	if (!list_empty(&ram->dead))
		schedule_work(&ram->tell_work);
}

/* Too many builds that had to repair something: this is no firmware, it never ends. */
static int count_repair(struct dlend_memory *mem)
{
	lockdep_assert_held(&mem->ram->lock);
	if (mem->ram->lost == mem->build_lost)
		return 0;
	mem->stat.rebuilds++;
	if (time_after(jiffies, mem->repairs_since + REPAIRS_SECS * HZ)) {
		mem->repairs_since = jiffies;
		mem->repairs = 0;
	}
	return ++mem->repairs > REPAIRS_MAX ? -EOPNOTSUPP : 0;
}

static bool lost_within(const struct dlend_ram *ram, unsigned int ms)
{
	return time_before(jiffies, READ_ONCE(ram->last_loss) + msecs_to_jiffies(ms));
}

/*
 * VFIO may still be at what it unmaps, and this build would be disturbed at once: wait, but not for
 * ever.  What must not be pinned yet, dlend_ram_pin_begin() does not let.
 */
static void settle(const struct dlend_memory *mem)
{
	const struct dlend_ram *ram = mem->ram;
	unsigned int turns = 40;

	while (turns-- && READ_ONCE(ram->ap) && !mem->ops->stop(mem->ctx) &&
	       (READ_ONCE(ram->unmapping) || lost_within(ram, DLEND_SETTLE_MS)))
		msleep(DLEND_SETTLE_MS / 4);
}

static int build_begin(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	int err = -ENOTCONN;

	settle(mem);
	mutex_lock(&ram->lock);
	if (ram->ap && dlend_link_session(ram->link) == ram->session) {
		err = mem->closed ? -EAGAIN : count_repair(mem);
		mem->build = ++ram->build;
		mem->build_lost = ram->lost;
		mem->pinned_most = ram->books.pinned_bytes;
		mem->stat.probes++;
		if (!err)
			dlend_ram_use(mem, true);
	}
	trace_dlend_window(mem->vdev->dev, "build", ram->books.pinned_bytes, err);
	mutex_unlock(&ram->lock);
	if (err == -EOPNOTSUPP)
		mem_err(mem, "guest memory changes all the time (%u times in %u s): is there a virtual IOMMU in the guest? It cannot be used with a borrowed device",
			REPAIRS_MAX, REPAIRS_SECS);
	return err;
}

/* Guest-physical bits: KVM gives a guest no more than the host has. */
#ifdef CONFIG_X86
#define PHYS_BITS	((unsigned int)boot_cpu_data.x86_phys_bits)
#else
#define PHYS_BITS	40u
#endif

/* Highest address that a guest on this host can have. */
static u64 max_gpa(void)
{
	/*
	 * 64 TiB bound the walk. RAM lies as low as it fits: beyond that there is none, whatever
	 * the processor could address.
	 */
	return 1ULL << min(PHYS_BITS, 46u);
}

/* The VM's memory slots as they are now; none: nobody knows. */
static int read_slots(struct dlend_memory *mem)
{
	struct kvm *kvm;
	int err;

	err = dlend_ram_pin_begin(mem, NOWHERE, 1);
	if (err)
		return -EINTR;	/* the VM is going, or its address space */
	kvm = mem->vdev->kvm;
	if (kvm && (!mem->slots.count ||
		    dlend_memslots_generation(kvm) != mem->slots_generation)) {
		dlend_ranges_clear(&mem->slots);
		err = dlend_memslots_read(kvm, &mem->slots, &mem->slots_generation);
		if (err)
			dlend_ranges_clear(&mem->slots);
	}
	dlend_ram_pin_end(mem, false);
	return err;
}

/* What is due is this build's to look at. */
static void take_due(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;

	mutex_lock(&ram->lock);
	mem->due_all = ram->due_all;
	mem->due = ram->due;
	memset(&ram->due, 0, sizeof(ram->due));
	ram->due_all = false;
	mutex_unlock(&ram->lock);
}

/* Its end; @err: not to the end, or what it found is gone again. */
static void finish_due(struct dlend_memory *mem, int err)
{
	struct dlend_ram *ram = mem->ram;
	u32 i;

	if (err) {
		mutex_lock(&ram->lock);
		ram->due_all |= mem->due_all;
		for (i = 0; i < mem->due.count; i++)
			dlend_ram_due(ram, mem->due.range[i].start, mem->due.range[i].end - 1);
		mutex_unlock(&ram->lock);
	}
	dlend_ranges_clear(&mem->due);
	dlend_ranges_clear(&mem->walk);
}

/* RAM without slots is looked for everywhere once, and then so far above what there is. */
#define ABOVE_KNOWN	(64 * (u64)SZ_1G)

static u64 known_end(struct dlend_memory *mem)
{
	u64 gpa = 0, last = 0, next;

	do {
		last = mem_known(mem, gpa, &next) ?: last;
		gpa = last > gpa ? last : next;
	} while (gpa != U64_MAX);
	return last;
}

static int walk(struct dlend_memory *mem)
{
	u64 max = max_gpa();
	int err;

	if (!mem->slots.count) {
		if (!mem->due_all)
			max = min(max, max(known_end(mem), (u64)SZ_4G) + ABOVE_KNOWN);
		return dlend_prober_run(&mem_layout_ops, mem, max);
	}
	dlend_ranges_clear(&mem->walk);
	err = dlend_ranges_add_both(&mem->walk, &mem->slots,
				    mem->due_all ? &mem->slots : &mem->due);
	return err ?: dlend_prober_run(&mem_walk_ops, mem, max);
}

void dlend_memory_added(struct dlend_memory *mem, const struct dlend_ranges *added)
{
	struct dlend_ram *ram = mem->ram;
	u32 i;

	mutex_lock(&ram->lock);
	if (!added)
		ram->due_all = true;
	for (i = 0; added && i < added->count; i++)
		dlend_ram_due(ram, added->range[i].start, added->range[i].end - 1);
	mutex_unlock(&ram->lock);
}

/* What is found at once after a look has found something. */
#define FOUND_BYTES	SZ_1G

bool dlend_memory_look(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	u64 found, max = max_gpa();
	int ret;

	if (!mutex_trylock(&ram->build_lock))
		return false;
	mem->stat.looks++;
	/* What was lost before is in the books, and if it is to come back a build is due. */
	mutex_lock(&ram->lock);
	mem->build_lost = ram->lost;
	mutex_unlock(&ram->lock);
	ret = read_slots(mem);
	if (!ret && !mem->slots.count)
		max = min(max, max(known_end(mem), (u64)SZ_4G) + ABOVE_KNOWN);
	if (!ret)
		ret = dlend_prober_look(mem->slots.count ? &mem_slot_ops : &mem_layout_ops, mem,
					max, &mem->look, &found);
	if (ret == 1) {
		mutex_lock(&ram->lock);
		dlend_ram_due(ram, found, found + FOUND_BYTES - 1);
		mutex_unlock(&ram->lock);
		/* The VM's other devices cannot reach it either, and will not find it by then. */
		dlend_ram_grown(ram, mem);
	}
	mutex_unlock(&ram->build_lock);
	return ret == 1;
}

/* Has what went away come back, or has it had the time to? */
static int build_whole(struct dlend_memory *mem)
{
	u64 missing, now = ktime_to_ms(ktime_get());
	struct dlend_ram *ram = mem->ram;
	int err = 0;

	mutex_lock(&ram->lock);
	missing = dlend_books_missing(&ram->books, now);
	if (missing) {
		err = -EAGAIN;
		mem->stat.waits++;
		trace_dlend_window(mem->vdev->dev, "missing", missing, err);
	} else {
		dlend_books_accept(&ram->books, now);
	}
	mutex_unlock(&ram->lock);
	return err;
}

/*
 * Pinning takes seconds, and what is not pinned comes and goes without a word: what was taken for
 * a hole is looked at again, which costs a few thousand calls that fail at once.
 */
static int build_probe(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	unsigned int probes = 0;
	u64 had;
	int err;

	mem->pin_err = 0;
	do {
		had = READ_ONCE(ram->books.pinned_bytes);
		err = read_slots(mem) ?: walk(mem);
	} while (!err && READ_ONCE(ram->books.pinned_bytes) != had && ++probes < PROBES_MAX);
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
	struct dlend_ram *ram = mem->ram;
	int err;

	dlend_ram_settle(ram);
	err = tell_gone(ram, mem);
	if (err) {
		mem_err(mem, "lender did not unmap what is gone: error %d", err);
		return err;
	}
	mutex_lock(&ram->lock);
	err = dlend_ram_disturbed(mem) ? -EAGAIN : dlend_books_form(&ram->books, mem->build);
	mutex_unlock(&ram->lock);
	return err;
}

/* Is there something that another user's lender has not heard of? */
static bool others_due(const struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent;
	u32 users = 0, i;
	u64 gpa = 0;

	lockdep_assert_held(&ram->lock);
	for (i = 0; i < DLEND_TOLD_MAX; i++)
		if (ram->member[i] && ram->member[i] != mem && ram->member[i]->user)
			users |= BIT(i);
	while (users && (extent = dlend_books_next_extent(&ram->books, gpa))) {
		if (users & ~extent->told.members)
			return true;
		gpa = extent->gpa + extent->size;
	}
	return false;
}

static int build_end(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	bool grown = false;
	int err = 0;

	mutex_lock(&ram->lock);
	/* No RAM at all: a VMM that has not mapped it yet (iommufd), or is about to again. */
	if (dlend_ram_disturbed(mem) || !ram->books.chunks)
		err = -EAGAIN;
	else
		mem->reason[0] = '\0';
	if (!err)
		grown = others_due(mem);
	mutex_unlock(&ram->lock);
	if (grown)
		dlend_ram_grown(ram, mem);
	return err;
}

static int build_locked(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
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
	if (err && !READ_ONCE(ram->ap))
		err = -ENOTCONN;
	if (err == -EAGAIN)
		build_postpone(mem);
	else if (err)
		build_undo(mem);
	return err;
}

int dlend_memory_build(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	ktime_t start = ktime_get();
	u64 calls;
	int err;

	/* Another device's build takes as long as this one's, and does not give way to this. */
	while (!mutex_trylock(&ram->build_lock)) {
		if (mem->ops->stop(mem->ctx) || READ_ONCE(mem->closed))
			return -EAGAIN;
		if (!READ_ONCE(ram->ap))
			return -ENOTCONN;
		msleep(DLEND_SETTLE_MS / 4);
	}
	calls = mem->stat.pin_calls;
	err = build_begin(mem);
	if (!err) {
		take_due(mem);
		err = build_locked(mem);
		finish_due(mem, err);
		mem->stat.last_build_us = ktime_us_delta(ktime_get(), start);
		mem->stat.last_build_calls = mem->stat.pin_calls - calls;
	}
	trace_dlend_window(mem->vdev->dev, err ? "failed" : "standing",
			   READ_ONCE(ram->books.pinned_bytes), err);
	mutex_unlock(&ram->build_lock);
	return err;
}

/* What takes windows away */

static void unmap_begin(struct dlend_ram *ram)
{
	mutex_lock(&ram->lock);
	WRITE_ONCE(ram->unmapping, ram->unmapping + 1);
	mutex_unlock(&ram->lock);
}

/* Whether or not there is something: how long the VMM was kept. */
static void unmap_end(struct dlend_memory *mem, u64 gpa, u64 last, enum dlend_loss loss,
		      ktime_t since)
{
	struct dlend_ram *ram = mem->ram;
	u64 us = ktime_us_delta(ktime_get(), since);

	mutex_lock(&ram->lock);
	WRITE_ONCE(ram->unmapping, ram->unmapping - 1);
	if (loss == DLEND_LOSS_RETURNS)
		WRITE_ONCE(ram->last_loss, jiffies);
	if (loss != DLEND_LOSS_NONE) {
		mem->stat.unmaps++;
		mem->stat.unmap_us += us;
		mem->stat.unmap_longest_us = max(mem->stat.unmap_longest_us, us);
	}
	trace_dlend_dma_unmap(mem->vdev->dev, gpa, last, loss != DLEND_LOSS_NONE, us);
	mutex_unlock(&ram->lock);
}

static u64 last_of(u64 gpa, u64 size)
{
	return size && size - 1 <= U64_MAX - gpa ? gpa + size - 1 : U64_MAX;
}

bool dlend_memory_returns(struct dlend_memory *mem, u64 gpa, u64 size)
{
	return !READ_ONCE(mem->emptied) && dlend_ram_returns(mem->ram, gpa, last_of(gpa, size));
}

bool dlend_memory_unmap(struct dlend_memory *mem, u64 gpa, u64 size)
{
	u64 last = last_of(gpa, size);
	ktime_t since = ktime_get();
	enum dlend_loss loss;

	/* It has no pins, and what others have is theirs to unmap. */
	if (READ_ONCE(mem->emptied))
		return false;
	dlend_vm_unmaps(mem->ram->vm, gpa, last, false);
	unmap_begin(mem->ram);
	loss = dlend_ram_lose(mem->ram, mem, gpa, last);
	unmap_end(mem, gpa, last, loss, since);
	dlend_vm_unmaps(mem->ram->vm, gpa, last, true);
	return loss == DLEND_LOSS_RETURNS;
}

bool dlend_memory_fence(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	bool alone;

	mutex_lock(&ram->lock);
	alone = ram->users == mem->user;
	if (alone)
		dlend_ram_fence(ram);
	mutex_unlock(&ram->lock);
	return alone;
}

void dlend_memory_close(struct dlend_memory *mem)
{
	ktime_t since = ktime_get();

	unmap_begin(mem->ram);
	dlend_ram_close(mem);
	unmap_end(mem, 0, U64_MAX, DLEND_LOSS_NONE, since);
}

void dlend_memory_link_down(struct dlend_memory *mem)
{
	dlend_ram_link_down(mem->ram);
}

/* Life */

struct dlend_memory *dlend_memory_create(const struct dlend_memory_desc *desc)
{
	struct dlend_memory *mem;
	int err;

	mem = kvzalloc_obj(*mem);
	if (!mem)
		return ERR_PTR(-ENOMEM);
	mem->vdev = desc->vdev;
	mem->ops = desc->ops;
	mem->ctx = desc->ctx;
	mem->addr = *desc->addr;
	mem->epoch = desc->epoch;
	mem->vmm = desc->vmm;
	mem->memlock = desc->memlock;
	mem->repairs_since = jiffies;
	mem->pin_gpa = U64_MAX;
	mutex_init(&mem->close_lock);
	err = dlend_ram_join(mem, desc->link, desc->lowmem);
	if (err) {
		kvfree(mem);
		return ERR_PTR(err);
	}
	return mem;
}

void dlend_memory_destroy(struct dlend_memory *mem, bool acked)
{
	dlend_memory_close(mem);
	dlend_ram_leave(mem, acked);
	dlend_ranges_clear(&mem->slots);
	mutex_destroy(&mem->close_lock);
	kvfree(mem);
}

/* For people */

void dlend_memory_reason(struct dlend_memory *mem, char *buf, size_t len)
{
	struct dlend_ram *ram = mem->ram;

	mutex_lock(&ram->lock);
	strscpy(buf, mem->reason, len);
	mutex_unlock(&ram->lock);
}

u64 dlend_memory_pinned(const struct dlend_memory *mem)
{
	return READ_ONCE(mem->ram->books.pinned_bytes);
}

void dlend_memory_stat(struct dlend_memory *mem, struct dlend_memory_stat *st)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_aperture_stat ap = {};

	mutex_lock(&ram->lock);
	if (ram->ap)
		dlend_aperture_stat(ram->ap, &ap);
	*st = mem->stat;
	st->pinned_bytes = ram->books.pinned_bytes;
	st->readonly_bytes = ram->books.readonly_bytes;
	st->scattered_bytes = ram->books.scattered_bytes;
	st->extents = ram->books.extents;
	st->chunks = ram->books.chunks;
	st->own_bytes = dlend_books_owned(&ram->books, mem);
	st->book_bytes = dlend_books_bytes(&ram->books);
	st->sharers = ram->users;
	st->pages_4k = ap.mapped_4k;
	st->pages_2m = ap.mapped_2m;
	st->pages_1g = ap.mapped_1g;
	mutex_unlock(&ram->lock);
}

static void show_extent(struct dlend_memory *mem, struct seq_file *m,
			const struct dlend_extent *extent)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_chunk *chunk = dlend_books_find(&ram->books, extent->gpa);
	u64 large = 0, mapped = 0;

	for (; chunk && chunk->gpa < extent->gpa + extent->size;
	     chunk = dlend_books_next(&ram->books, chunk)) {
		if (chunk->mapped)
			mapped += dlend_chunk_bytes(chunk);
		if (!chunk->pages && chunk->npages == DLEND_CHUNK_PAGES)
			large += dlend_chunk_bytes(chunk);
	}
	seq_printf(m, "%#014llx %#012llx %c%c %#012llx pinned=%llu mapped=%llu contiguous-2m=%llu %s\n",
		   extent->gpa, extent->size, extent->prot & DLEND_PROT_READ ? 'r' : '-',
		   extent->prot & DLEND_PROT_WRITE ? 'w' : '-', extent->offset, extent->pinned,
		   mapped, large, dlend_told_member(&extent->told, mem->id) ? "told" : "new");
}

void dlend_memory_show(struct dlend_memory *mem, struct seq_file *m)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent;
	u64 gpa = 0;

	mutex_lock(&ram->lock);
	seq_printf(m, "# gpa size prot offset; pinned %llu bytes, read-only %llu, scattered %llu, %llu chunks\n",
		   ram->books.pinned_bytes, ram->books.readonly_bytes,
		   ram->books.scattered_bytes, ram->books.chunks);
	seq_printf(m, "# probes %llu rebuilds %llu pin calls %llu in %llu us, map %llu us, last build %llu us\n",
		   mem->stat.probes, mem->stat.rebuilds, mem->stat.pin_calls, mem->stat.pin_us,
		   mem->stat.map_us, mem->stat.last_build_us);
	seq_printf(m, "# used by %u devices, pinned through this one %llu bytes\n", ram->users,
		   dlend_books_owned(&ram->books, mem));
	if (mem->reason[0])
		seq_printf(m, "# failed: %s\n", mem->reason);
	while ((extent = dlend_books_next_extent(&ram->books, gpa))) {
		show_extent(mem, m, extent);
		gpa = extent->gpa + extent->size;
	}
	mutex_unlock(&ram->lock);
}
