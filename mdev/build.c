// SPDX-License-Identifier: GPL-2.0
/*
 * A build (dlend_memory_build() of memory.h) gives one member all DMA mappings, in stages:
 *
 *	settle	wait until VFIO has unmapped what it is unmapping
 *	find	find RAM where it may have come, and pin it	-> watch.c, scan.c, pin.c
 *	part	end the extents that cannot stay		-> map.c
 *	map	map all pinned chunks in the aperture		-> map.c, pinned.c
 *	tell	have the lender map the extents that it lacks	-> map.c
 *
 * All members profit from a build.  Memory that is pinned and mapped already stays so.  When an
 * extent is gone, all lenders that may have it mapped are asked to unmap it.  New extents are
 * mapped by this member's lender only; other members that lack them are made to build
 * (dlend_members_grow()), and find them mapped in the aperture already.
 *
 * This file also has the operations by which the scan accesses the guest's memory, and the looks
 * for RAM outside of builds (scan.h).
 *
 * Each stage gives way to a loss of memory (-EAGAIN): then all pins stay, and the caller builds
 * again.  See ram.h for the locks.
 *
 * Must not know the device's BARs, configuration space or interrupts, nor when mappings are wanted.
 */
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/math.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/vfio.h>
#include <asm/processor.h>

#include "ram.h"
#include "trace.h"

/* The most bits of a guest-physical address: KVM gives a guest no more than the host has. */
#ifdef CONFIG_X86
#define DLEND_PHYS_BITS	((unsigned int)boot_cpu_data.x86_phys_bits)
#else
#define DLEND_PHYS_BITS	40u
#endif
/*
 * No RAM lies above 64 TiB, whatever the processor could address: a VMM puts RAM as low as it fits.
 * This limits how long a scan takes.
 */
#define DLEND_PHYS_BITS_MAX	46u

/* If the memory slots are not known, searches after the first go so far above known memory. */
#define DLEND_ABOVE_KNOWN	(64 * (u64)SZ_1G)

/* The most scans of one build; another scan is made only if the last one has found RAM. */
#define DLEND_PROBES_MAX	4

/* After a look has found a page, a build searches so many bytes from there on. */
#define DLEND_FOUND_BYTES	SZ_1G

/* Words and numbers for people */

#define DLEND_KIB_SHIFT	10
#define DLEND_MIB_SHIFT	20

/* Note why a build fails (mem->reason); log the reason, if it is not the last one. */
static void dlend_report_err(struct dlend_memory *mem, const char *fmt, ...) __printf(2, 3);

static void dlend_report_err(struct dlend_memory *mem, const char *fmt, ...)
{
	char was[DLEND_REASON_LEN];
	va_list args;

	guard(mutex)(&mem->ram->lock);
	strscpy(was, mem->reason, sizeof(was));
	va_start(args, fmt);
	vscnprintf(mem->reason, sizeof(mem->reason), fmt, args);
	va_end(args);
	if (strcmp(was, mem->reason))
		dev_err_ratelimited(mem->vdev->dev, "DMA windows: %s\n", mem->reason);
}

static void dlend_report_window(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_aperture_stat st;
	u64 bytes, most;

	mutex_lock(&ram->lock);
	bytes = ram->pinned.pinned_bytes;
	most = ram->pinned.most;
	st = dlend_aperture_stat(ram->ap);
	mutex_unlock(&ram->lock);
	dlend_report_err(mem, "window full: guest RAM is at least %llu MiB, of the window's %llu MiB this VM may have %llu and %llu are free (largest piece %llu), %llu in quarantine: give the guest less RAM, or the NTB a larger window",
			 bytes >> DLEND_MIB_SHIFT, st.size >> DLEND_MIB_SHIFT,
			 most >> DLEND_MIB_SHIFT, st.free >> DLEND_MIB_SHIFT,
			 st.largest_free >> DLEND_MIB_SHIFT, st.quarantined >> DLEND_MIB_SHIFT);
}

/* Report why RAM was not pinned, or got no extent.  @err: of a search, or of dlend_map_new() */
static void dlend_report_probe(struct dlend_memory *mem, int err)
{
	struct dlend_ram *ram = mem->ram;
	u64 most = READ_ONCE(ram->pinned.most), limit = dlend_vmm_lockable(&mem->vmm);
	u64 kib = (err == -EDQUOT ? most : READ_ONCE(ram->pinned.pinned_bytes)) >> DLEND_KIB_SHIFT;

	if (err == -EDQUOT && limit > most) {
		dlend_report_window(mem);
	} else if (err == -ENOMEM && mem->pin_err == -ENOMEM &&
		   limit >= (kib << DLEND_KIB_SHIFT) + DLEND_CHUNK_BYTES) {
		/* Unless the VMM has locked other memory, it may lock more. */
		dlend_report_err(mem, "no memory for more than %llu KiB of guest RAM, which is below the memlock limit: the VMM's memory cgroup is full (systemd MemoryMax=, a container's limit), or this host is",
				 kib);
	} else if (err == -EDQUOT || (err == -ENOMEM && mem->pin_err == -ENOMEM)) {
		dlend_report_err(mem, "memlock limit (%llu KiB) too low for more than %llu KiB of guest RAM: raise RLIMIT_MEMLOCK of the VMM (ulimit -l, systemd LimitMEMLOCK=, libvirt memtune hard_limit)",
				 limit >> DLEND_KIB_SHIFT, kib);
	} else if (err == -ENOMEM) {
		dlend_report_err(mem, "host is out of memory after %llu KiB of guest RAM, or the VMM's memory cgroup is full",
				 kib);
	} else if (err == -EACCES) {
		dlend_report_err(mem, "the VMM maps its memory by a VFIO container of version 1, in which none can be pinned: it must use VFIO_TYPE1v2_IOMMU or /dev/iommu (QEMU and others do)");
	} else if (err == -EFAULT) {
		dlend_report_err(mem, "guest RAM at %#llx cannot be pinned for long: there are too few free huge pages for it (HugePages_Free in /proc/meminfo), or it is in a file on a disk, in DAX or secret memory, or its VMM serves it page by page (userfaultfd, as for postcopy); give the guest anonymous memory, memfd, or a file in tmpfs or hugetlbfs",
				 mem->unpinnable);
	} else {
		dlend_report_err(mem, "guest RAM cannot be pinned, error %d after %llu KiB: is its backing pinnable (no device memory, no file system DAX)?",
				 err, kib);
	}
}

/* The operations of the scan (struct dlend_scan_ops) */

/*
 * RAM has come: shut the gates of all devices until they reach that RAM.  The gate of this build's
 * device is shut already, unless the build has DLEND_BUILD_OPEN.
 */
static void dlend_search_grown(struct dlend_memory *mem)
{
	dlend_members_grow(mem->ram, mem->how & DLEND_BUILD_OPEN ? NULL : mem);
	mem->announced = true;
}

/*
 * No device of the VM can reach new RAM yet, and once the RAM is in the pin table, no look finds
 * it.  So the gates are shut before a pin.  That takes loss_lock, under which dma_unmap waits for
 * pins, so no pin may be under way then.  So a pin of the first page is tried, and undone, before.
 */
static int dlend_search_pin(void *ctx, u64 gpa, u32 npages, u32 prot, bool try)
{
	struct dlend_memory *mem = ctx;
	int err = 0;

	if (dlend_scan_excluded(mem->lowmem, gpa, npages))
		return -EINVAL;
	if (!try && !mem->announced) {
		err = dlend_pin_ram(mem, gpa, 1, prot, true);
		if (!err)
			dlend_search_grown(mem);
	}
	return err ?: dlend_pin_ram(mem, gpa, npages, prot, try);
}

static u64 dlend_search_known(void *ctx, u64 gpa, u64 *next)
{
	struct dlend_memory *mem = ctx;

	guard(mutex)(&mem->ram->lock);
	return dlend_pinned_known(&mem->ram->pinned, gpa, next);
}

/*
 * No pin lies across an edge of an extent.  So each new chunk is in an extent or in none, and no
 * extent has to end because of it.
 */
static u64 dlend_search_edge(void *ctx, u64 gpa, u64 end)
{
	struct dlend_memory *mem = ctx;

	guard(mutex)(&mem->ram->lock);
	return dlend_pinned_edge(&mem->ram->pinned, gpa, end);
}

static bool dlend_search_stop(void *ctx)
{
	return dlend_memory_disturbed(ctx);
}

static bool dlend_search_is_ram(void *ctx, u64 gpa)
{
	struct dlend_memory *mem = ctx;
	bool ram = dlend_watch_is_ram(mem, gpa, !gpa);

	if (ram)
		mem->unpinnable = gpa;
	return ram;
}

/*
 * Does the guest have a virtual IOMMU, so that the device's IOVAs are not guest-physical addresses?
 * Every PC has RAM at address 0, and without a virtual IOMMU a VMM maps that RAM at IOVA 0.  So
 * there is a virtual IOMMU if KVM has RAM at 0 and nothing could be pinned there.  The answer is
 * also true for a moment while a VMM maps its memory.  Without KVM it is false.
 */
static bool dlend_search_translated(struct dlend_memory *mem)
{
	u64 next;

	return !dlend_search_known(mem, 0, &next) && dlend_watch_is_ram(mem, 0, false);
}

static const struct dlend_scan_ops dlend_search_ops = {
	.pin = dlend_search_pin,
	.known = dlend_search_known,
	.edge = dlend_search_edge,
	.is_ram = dlend_search_is_ram,
	.stop = dlend_search_stop,
};

/* Where RAM may be */

/* Return: end (exclusive) of the guest-physical addresses that a guest on this host can have. */
static u64 dlend_search_max(void)
{
	return 1ULL << min(DLEND_PHYS_BITS, DLEND_PHYS_BITS_MAX);
}

/* Return: end (exclusive) of where searches after the first go if the slots are not known. */
static u64 dlend_search_near_max(struct dlend_memory *mem)
{
	u64 gpa = SZ_4G, last = gpa, next;

	do {
		last = max(last, dlend_search_known(mem, gpa, &next));
		gpa = last > gpa ? last : next;
	} while (gpa != U64_MAX);
	return min(dlend_search_max(), last + DLEND_ABOVE_KNOWN);
}

void dlend_memory_rescan(struct dlend_memory *mem)
{
	dlend_ram_due(mem->ram, NULL);
}

/*
 * Prepare a scan or a look that searches in @where; if the slots are not known, everywhere, or with
 * @near up to DLEND_ABOVE_KNOWN above known RAM.
 */
static struct dlend_scan dlend_search_prober(struct dlend_memory *mem,
					     const struct dlend_ranges *where, bool near)
{
	bool slots = mem->slots.ranges.count;

	return (struct dlend_scan){
		.ops = &dlend_search_ops,
		.ctx = mem,
		.where = slots ? where : NULL,
		.max = near && !slots ? dlend_search_near_max(mem) : dlend_search_max(),
	};
}

/* Make one scan, in mem->due or in all slots.  Return: as dlend_scan_run(). */
static int dlend_search_probe(struct dlend_memory *mem)
{
	struct dlend_scan p = dlend_search_prober(mem, &mem->walk, !mem->due.all);
	bool all = mem->due.all || mem->how & DLEND_BUILD_ANEW;
	int err;

	dlend_ranges_clear(&mem->walk);
	err = dlend_ranges_add_both(&mem->walk, &mem->slots.ranges,
				    all ? &mem->slots.ranges : &mem->due);
	return err ?: dlend_scan_run(&p);
}

/*
 * Find and pin RAM where it may have come.  After the first build of all, that is where KVM has
 * added slots, where a look found RAM, where dma_unmap was called, or everywhere after a rescan.
 * Return: 0; -EINTR give way; -EFAULT there is RAM that cannot be pinned; -ENOMEM, or another error
 * of a pin.  Pages that were pinned before an error stay pinned.
 */
static int dlend_search_run(struct dlend_memory *mem, u32 how)
{
	struct dlend_ram *ram = mem->ram;
	unsigned int scans = 0;
	u64 had;
	int err;

	mem->pin_err = 0;
	mem->how = how;
	/* This build searches where RAM is due; dlend_memory_build() restores that if it fails. */
	mutex_lock(&ram->lock);
	mem->announced = ram->users <= 1 && !(how & DLEND_BUILD_OPEN);
	mem->due = ram->due;
	memset(&ram->due, 0, sizeof(ram->due));
	mutex_unlock(&ram->lock);
	/*
	 * Pinning takes seconds, and VFIO does not say that memory has come in the meantime.  So
	 * all holes are tried again after something was pinned: some thousand calls, which fail at
	 * once.
	 */
	do {
		had = READ_ONCE(ram->pinned.pinned_bytes);
		err = dlend_watch_read_slots(mem) ?: dlend_search_probe(mem);
	} while (!err && READ_ONCE(ram->pinned.pinned_bytes) != had && ++scans < DLEND_PROBES_MAX);
	/* There is new RAM of which no page can be pinned: devices do not reach it, either. */
	if (err && err != -EINTR && !mem->announced)
		dlend_search_grown(mem);
	return err;
}

void dlend_memory_look(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_scan p;
	u64 found;
	int ret;

	/* If a build is searching, the build calls grown() for new RAM. */
	if (!READ_ONCE(dlend_look_ms) || !mutex_trylock(&ram->search_lock))
		return;
	mem->stat.looks++;
	/*
	 * An earlier loss need not stop the look: the pin table knows of it, and a build is due
	 * already if memory is to come back.
	 */
	mutex_lock(&ram->lock);
	mem->build_lost = ram->lost;
	WRITE_ONCE(ram->holes, false);
	mutex_unlock(&ram->lock);
	ret = dlend_watch_read_slots(mem);
	p = dlend_search_prober(mem, &mem->slots.ranges, true);
	ret = ret ?: dlend_scan_look(&p, &mem->turn, &found);
	if (ret || mem->turn.tried)
		WRITE_ONCE(ram->holes, true);
	if (ret == 1) {
		mutex_lock(&ram->lock);
		dlend_ram_add_due(ram, found, found + DLEND_FOUND_BYTES - 1);
		mutex_unlock(&ram->lock);
		/*
		 * No device of the VM reaches that RAM.  Once it is pinned, no look finds it any
		 * more: so shut all gates now, while search_lock is held and no build can pin.
		 */
		dlend_members_grow(ram, NULL);
	}
	mutex_unlock(&ram->search_lock);
}

/* Numbers and words for people */

void dlend_memory_why(struct dlend_memory *mem, int err, char *why, size_t len)
{
	bool translated = err == -EAGAIN && dlend_search_translated(mem);

	guard(mutex)(&mem->ram->lock);
	if (err != -EAGAIN)
		strscpy(why, mem->reason, len);
	else if (dlend_members_fenced(mem->ram))
		strscpy(why,
			"another device of the VM has to stop first, and its lender has not stopped it yet; memory is mapped after that",
			len);
	else if (translated)
		strscpy(why,
			"the VM has a virtual IOMMU, which a borrowed device cannot have: attach the device, and pass it through; RAM at address 0 was not mapped for it",
			len);
}

u64 dlend_memory_pinned(const struct dlend_memory *mem)
{
	return READ_ONCE(mem->ram->pinned.pinned_bytes);
}

void dlend_memory_stat(struct dlend_memory *mem, struct dlend_memory_stat *st)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_aperture_stat ap;

	guard(mutex)(&ram->lock);
	ap = dlend_aperture_stat(ram->ap);
	*st = mem->stat;
	st->pinned_bytes = ram->pinned.pinned_bytes;
	st->own_bytes = dlend_pinned_owned(&ram->pinned, mem);
	st->table_bytes = dlend_pinned_table_bytes(&ram->pinned);
	st->sharers = ram->users;
	st->wakeups = READ_ONCE(ram->vm->wakeups);
	st->pages_4k = ap.pages.n4k;
	st->pages_2m = ap.pages.n2m;
	st->pages_1g = ap.pages.n1g;
}

void dlend_memory_show(struct dlend_memory *mem, struct seq_file *m)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_extent *extent;
	u64 gpa = 0;

	guard(mutex)(&ram->lock);
	seq_puts(m, "# gpa size prot offset\n");
	if (mem->reason[0])
		seq_printf(m, "# failed: %s\n", mem->reason);
	while ((extent = dlend_pinned_walk(&ram->pinned, &gpa)))
		seq_printf(m, "%#014llx %#012llx %c%c %#012llx pinned=%llu %s\n",
			   extent->gpa, extent->size, extent->prot & DLEND_PROT_READ ? 'r' : '-',
			   extent->prot & DLEND_PROT_WRITE ? 'w' : '-', extent->offset,
			   extent->pinned,
			   dlend_acks_member(&extent->acks, mem->id) ? "told" : "new");
}

/* The longest time that a build waits for VFIO to finish unmapping, in units of DLEND_TURN_MS. */
#define DLEND_SETTLE_TURNS	40u

/* More repairs than this in that time are not caused by firmware. */
#define DLEND_REPAIRS_MAX	128
#define DLEND_REPAIRS_SECS	10

static unsigned int vm_window_percent = 100;
module_param(vm_window_percent, uint, 0644);
MODULE_PARM_DESC(vm_window_percent, "how much of a window the RAM of one VM may take");

/* Settle, and begin */

/*
 * Return: the most bytes that may be pinned, and that extents may have.  VFIO enforces the VMM's
 * memlock limit, but iommufd counts a page once, even if a guest has it at several addresses; and
 * holes in extents use up the aperture, too.
 */
static u64 dlend_build_most(const struct dlend_memory *mem)
{
	struct dlend_aperture_stat st = dlend_aperture_stat(mem->ram->ap);

	return min(mult_frac(st.size, min(READ_ONCE(vm_window_percent), 100u), 100),
		   dlend_vmm_lockable(&mem->vmm));
}

/*
 * Return: 0; -EAGAIN the member is closed; -ENOTCONN the session is over; -EOPNOTSUPP too many
 * builds have repaired losses.
 */
static int dlend_build_begin(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	int err = -ENOTCONN;

	mutex_lock(&ram->lock);
	if (ram->ap && dlend_session_live(&ram->session)) {
		err = mem->closed ? -EAGAIN : 0;
		/* Too many builds that repair a loss would never end; firmware causes few. */
		if (!err && ram->lost != mem->build_lost) {
			mem->stat.rebuilds++;
			if (time_after(jiffies, mem->repairs_since + DLEND_REPAIRS_SECS * HZ)) {
				mem->repairs_since = jiffies;
				mem->repairs = 0;
			}
			err = ++mem->repairs > DLEND_REPAIRS_MAX ? -EOPNOTSUPP : 0;
		}
		mem->build = ++ram->build;
		mem->build_lost = ram->lost;
		ram->pinned.most = dlend_build_most(mem);
		mem->pinned_most = ram->pinned.pinned_bytes;
		mem->fenced = false;
		if (!err)
			dlend_members_use(mem, true);
	}
	trace_dlend_window(mem->vdev->dev, "build", ram->pinned.pinned_bytes, err);
	mutex_unlock(&ram->lock);
	if (err == -EOPNOTSUPP)
		dlend_report_err(mem, "guest memory changes all the time (%u times in %u s): is there a virtual IOMMU in the guest? It cannot be used with a borrowed device",
				 DLEND_REPAIRS_MAX, DLEND_REPAIRS_SECS);
	return err;
}

/* Find */

/*
 * Take build_lock or search_lock.  Another device's build or look may hold it for as long as this
 * build takes, so give up if this build is to give way.  Return: 0, -EAGAIN, -ENOTCONN.
 */
static int dlend_build_lock(struct dlend_memory *mem, struct mutex *lock)
{
	while (!mutex_trylock(lock)) {
		if (dlend_guest_memory_ops.stop(mem->v) || READ_ONCE(mem->closed))
			return -EAGAIN;
		if (!READ_ONCE(mem->ram->ap))
			return -ENOTCONN;
		msleep(DLEND_TURN_MS);
	}
	return 0;
}

static int dlend_build_find(struct dlend_memory *mem, u32 how)
{
	struct dlend_ram *ram = mem->ram;
	u64 missing, now;
	int err;

	err = dlend_build_lock(mem, &ram->search_lock);
	if (err)
		return err;
	err = dlend_search_run(mem, how);
	mutex_unlock(&ram->search_lock);
	if (err == -EINTR)
		return -EAGAIN;
	if (err) {
		dlend_report_probe(mem, err);
		return err;
	}
	/* Memory that was lost may come back for some time: then this build was too early. */
	guard(mutex)(&ram->lock);
	now = dlend_ram_now_ms();
	missing = dlend_pinned_missing(&ram->pinned, now);
	if (missing) {
		mem->stat.waits++;
		trace_dlend_window(mem->vdev->dev, "missing", missing, -EAGAIN);
		return -EAGAIN;
	}
	dlend_pinned_accept(&ram->pinned, now);
	return 0;
}

/* Part, map, tell */

/*
 * Other members whose lenders lack new extents build after this build: grown() was called for them
 * before the first new page was pinned, or they become users by a build of their own.
 * Return: 0: the build is complete; -EAGAIN: it is not.
 */
static int dlend_build_finish(struct dlend_memory *mem)
{
	bool translated = dlend_search_translated(mem);
	struct dlend_ram *ram = mem->ram;

	guard(mutex)(&ram->lock);
	/* No RAM: the VMM has not mapped any yet (iommufd), or is going to map it again. */
	if (dlend_memory_disturbed(mem) || translated || !ram->pinned.chunks)
		return -EAGAIN;
	mem->reason[0] = '\0';
	return 0;
}

/* Was the extent in no DMA_MAP yet? */
static bool dlend_build_untold(const struct dlend_extent *extent, u32 unused)
{
	return !dlend_acks_any(&extent->acks);
}

static int dlend_build_stages(struct dlend_memory *mem, u32 how)
{
	int err = dlend_build_find(mem, how);

	if (err)
		return err;
	err = dlend_map_part(mem);
	if (err) {
		dlend_report_err(mem, "lender did not unmap what is gone: error %d", err);
		return err;
	}
	err = dlend_map_new(mem);
	if (err == -ENOSPC)
		dlend_report_window(mem);
	else if (err == -EDQUOT || err == -ENOMEM)
		dlend_report_probe(mem, err);
	if (err)
		return err;
	err = dlend_map_tell(mem);
	if (err && err != -EAGAIN)
		dlend_report_err(mem, "lender did not map guest memory: error %d", err);
	return err ?: dlend_build_finish(mem);
}

static int dlend_build_run(struct dlend_memory *mem, u32 how)
{
	int err = dlend_build_stages(mem, how);

	/* A message that failed because the link went down says nothing about the layout. */
	if (err && !READ_ONCE(mem->ram->ap))
		err = -ENOTCONN;
	if (err && err != -EAGAIN)
		dlend_loss_undo(mem);
	if (err != -EAGAIN)
		return err;
	/*
	 * The layout has changed.  All pins stay.  Extents that no lender can have mapped leave the
	 * pin table: the next build may form others.
	 */
	guard(mutex)(&mem->ram->lock);
	dlend_ram_map_kill(mem->ram, dlend_build_untold, 0);
	return err;
}

int dlend_memory_build(struct dlend_memory *mem, u32 how)
{
	struct dlend_ram *ram = mem->ram;
	unsigned int turns = DLEND_SETTLE_TURNS;
	u64 calls;
	int err;

	dlend_watch_begin(mem);
	err = dlend_build_lock(mem, &ram->build_lock);
	if (err)
		return err;
	calls = mem->stat.pin_calls;
	/*
	 * If VFIO is still unmapping, or about to call dma_unmap for the next device, this build
	 * would have to give way at once.  So wait, but not for ever: dlend_pin_begin() also waits,
	 * if nothing may be pinned in its range yet.
	 */
	while (turns-- && READ_ONCE(ram->ap) && !dlend_guest_memory_ops.stop(mem->v) &&
	       dlend_pin_unmaps_in_flight(ram->vm))
		msleep(DLEND_TURN_MS);
	err = dlend_build_begin(mem);
	if (!err) {
		err = dlend_build_run(mem, how);
		/* The build was not completed: the next one has to search there again. */
		if (err)
			dlend_ram_due(ram, &mem->due);
		dlend_ranges_clear(&mem->due);
		dlend_ranges_clear(&mem->walk);
		WRITE_ONCE(ram->holes, true);
		mem->stat.last_build_calls = mem->stat.pin_calls - calls;
	}
	trace_dlend_window(mem->vdev->dev, err ? "failed" : "standing",
			   READ_ONCE(ram->pinned.pinned_bytes), err);
	mutex_unlock(&ram->build_lock);
	return err;
}
