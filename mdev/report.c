// SPDX-License-Identifier: GPL-2.0
/*
 * Reports about guest memory for people: see report.h, and ram.h for the locks.
 *
 * Must change nothing but struct dlend_memory.reason.
 */
#include <linux/device.h>
#include <linux/seq_file.h>
#include <linux/vfio.h>

#include "report.h"

#define DLEND_KIB_SHIFT	10
#define DLEND_MIB_SHIFT	20

void dlend_report_err(struct dlend_memory *mem, const char *fmt, ...)
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

void dlend_report_window(struct dlend_memory *mem)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_aperture_stat st = {};
	u64 bytes, most;

	mutex_lock(&ram->lock);
	bytes = ram->books.pinned_bytes;
	most = ram->books.most;
	if (ram->ap)
		dlend_aperture_stat(ram->ap, &st);
	mutex_unlock(&ram->lock);
	dlend_report_err(mem, "window full: guest RAM is at least %llu MiB, of the window's %llu MiB this VM may have %llu and %llu are free (largest piece %llu), %llu in quarantine: give the guest less RAM, or the NTB a larger window",
			 bytes >> DLEND_MIB_SHIFT, st.size >> DLEND_MIB_SHIFT,
			 most >> DLEND_MIB_SHIFT, st.free >> DLEND_MIB_SHIFT,
			 st.largest_free >> DLEND_MIB_SHIFT, st.quarantined >> DLEND_MIB_SHIFT);
}

void dlend_report_probe(struct dlend_memory *mem, int err)
{
	struct dlend_ram *ram = mem->ram;
	u64 most = READ_ONCE(ram->books.most), limit = dlend_vmm_lockable(&mem->vmm);
	u64 kib = (err == -EDQUOT ? most : READ_ONCE(ram->books.pinned_bytes)) >> DLEND_KIB_SHIFT;

	if (err == -EDQUOT && limit > most) {
		dlend_report_window(mem);
	} else if (err == -ENOMEM && mem->pin_err == -ENOMEM &&
		   limit >= (kib << DLEND_KIB_SHIFT) + DLEND_CHUNK_BYTES) {
		/* If the VMM has locked nothing else, it may lock more. */
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
	st->scattered_bytes = ram->books.scattered_bytes;
	st->own_bytes = dlend_books_owned(&ram->books, mem);
	st->book_bytes = dlend_books_bytes(&ram->books);
	st->sharers = ram->users;
	st->wakeups = READ_ONCE(ram->vm->wakeups);
	st->pages_4k = ap.mapped_4k;
	st->pages_2m = ap.mapped_2m;
	st->pages_1g = ap.mapped_1g;
	mutex_unlock(&ram->lock);
}

static void dlend_report_extent(struct dlend_memory *mem, struct seq_file *m,
				const struct dlend_extent *extent)
{
	struct dlend_ram *ram = mem->ram;
	struct dlend_chunk *chunk = dlend_books_find(&ram->books, extent->gpa);
	u64 large = 0, mapped = 0;

	for (; chunk && chunk->gpa < dlend_extent_end(extent);
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
	seq_puts(m, "# gpa size prot offset\n");
	if (mem->reason[0])
		seq_printf(m, "# failed: %s\n", mem->reason);
	while ((extent = dlend_books_next_extent(&ram->books, gpa))) {
		dlend_report_extent(mem, m, extent);
		gpa = dlend_extent_end(extent);
	}
	mutex_unlock(&ram->lock);
}
