// SPDX-License-Identifier: GPL-2.0
/*
 * BARs of a borrowed device: page faults map the NTB window, and the gate stands in front of it.
 * What cannot be mapped is reached by trapped accesses.
 *
 * A fault that meets a shut gate drops mmap_lock before it waits, as the worker that will open the
 * gate pins guest memory and needs that lock.  When the device is gone, its guest gets pages of
 * 0xff (all ones): a driver takes that for surprise removal, whereas SIGBUS would kill the VMM.
 *
 * Who waits at a shut gate, and who waits for them:
 *   a vCPU of KVM: it waits in its page fault, without the VMM's big lock, for gate_timeout_ms at
 *	most.  It is inside KVM_RUN and holds KVM's SRCU lock, and only a fatal signal interrupts a
 *	fault on such a mapping.  A VMM that then changes memory slots (another vCPU places a
 *	BAR), or that stops, resets or quits the VM, waits for that vCPU with its big lock held
 *	until the gate opens.  Nothing here can let the vCPU go: any answer but a page ends the VM
 *	(KVM_RUN returns -EFAULT).  So the gate must open soon.
 *   a thread of the VMM that touches the mapping itself (a vCPU of TCG, with the big lock held): it
 *	waits as long, but a signal interrupts the wait, and the thread then makes the same access
 *	again.  A shorter wait would answer 0xff for a device that is only not ready.
 *   a trapped access: it waits as long, with the big lock held; only the death of the VMM ends the
 *	wait early.  A trapped access cannot be repeated: a read would get 0xff, which no healthy
 *	device answers, and a write would be lost.  A read starts no DMA, so it waits only until the
 *	device is borrowed, reset and enabled (DLEND_GATE_READ).
 *
 * This file must not know leases: state.c says when the gate is open, and where in the window the
 * BARs are.  The gate is DLEND_GATE_DEAD while no VM has the device open, or the guest has memory
 * decoding off.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>
#include <dlend/compat.h>
#include "trace.h"
#include "vdev.h"

static unsigned int gate_timeout_ms = 60000;
module_param(gate_timeout_ms, uint, 0644);
MODULE_PARM_DESC(gate_timeout_ms, "longest that a guest's access waits for its device without any progress, then it reads 0xff");

/* How long a fault waits if mmap_lock must stay held. */
#define DLEND_LOCKED_WAIT	msecs_to_jiffies(50)

/* Bytes of 0xff for a device: the page at offset X of a BAR is the one at X modulo this. */
#define DLEND_DEAD_BYTES	(16 * PAGE_SIZE)
#define DLEND_DEAD_REFILL	msecs_to_jiffies(100)

u64 dlend_bar_size(const struct dlend_vdev *v, unsigned int index)
{
	return index < DLEND_NUM_BARS ? v->info.bar[index].size : 0;
}

/*
 * A BAR that is smaller than a page is mapped as a whole page, which the lender keeps for this BAR
 * alone.  QEMU maps such a BAR of a local device in the same way, if the guest has put it at the
 * beginning of a page.
 *
 * Without isolated MSIs, a guest that writes the MSI-X table could aim interrupts at the lender.
 */
unsigned int dlend_bar_areas(const struct dlend_vdev *v, unsigned int index,
			     struct dlend_range area[DLEND_MAX_AREAS])
{
	struct dlend_cfg_part part;
	unsigned int n = 1, pba;

	if (!dlend_bar_size(v, index) || !(v->info.bar[index].flags & DLEND_BAR_F_MAPPABLE))
		return 0;
	area[0] = (struct dlend_range){ 0, PAGE_ALIGN(dlend_bar_size(v, index)) };
	if (v->info.flags & DLEND_OFFER_F_ISOLATED_MSI)
		return n;
	for (pba = 0; pba < 2; pba++) {
		if (!dlend_cfg_msix_range(&v->cfg, pba, &part) || part.bar != index)
			continue;
		n = dlend_area_cut(area, n, ALIGN_DOWN((u64)part.offset, PAGE_SIZE),
				   ALIGN((u64)part.offset + part.size, PAGE_SIZE));
	}
	return n;
}

/* The gate and the mappings behind it */

/* Remove all mappings of all BARs, so that the next access faults. */
static void dlend_bar_zap(struct dlend_vdev *v)
{
	lockdep_assert_held_write(&v->bar_lock);
	v->dead_mapped = false;
	trace_dlend_bar_zap(dlend_vdev_dev(v), v->gate);
	unmap_mapping_range(v->vfio.inode->i_mapping, 0, DLEND_REGION_OFFSET(DLEND_NUM_BARS), true);
}

/*
 * Does the gate make a page fault wait, as the device may still become ready?  DLEND_GATE_READ
 * does, as only trapped reads pass it.
 */
static bool dlend_bar_waits(enum dlend_gate gate)
{
	return gate == DLEND_GATE_SHUT || gate == DLEND_GATE_READ;
}

void dlend_bar_set_gate(struct dlend_vdev *v, enum dlend_gate gate, const struct dlend_window *bar)
{
	unsigned int i;

	lockdep_assert_held(&v->lock);
	down_write(&v->bar_lock);
	if (dlend_bar_waits(gate) && !dlend_bar_waits(v->gate)) {
		v->shut_since = ktime_get();
		v->stat.gate_shuts++;
	}
	trace_dlend_gate(dlend_vdev_dev(v), gate);
	v->gate = gate;
	/* Under bar_lock: if a BAR is revoked later, dlend_bar_revoked() clears its address. */
	for (i = 0; i < DLEND_NUM_REGIONS; i++)
		v->bar_phys[i] = bar ? READ_ONCE(bar[i].phys) : 0;
	if (gate != DLEND_GATE_OPEN || v->dead_mapped)
		dlend_bar_zap(v);
	up_write(&v->bar_lock);
	wake_up_all(&v->gate_wq);
}

/*
 * Only for a lender on this host itself, which has fenced the device.  No IOMMU stops the guest's
 * accesses then, so they are cut off before this returns.  The guest reads 0xff at once, before the
 * lender's message has come.
 */
void dlend_bar_revoked(struct dlend_claim *claim, unsigned int index)
{
	struct dlend_vdev *v = claim_to_vdev(claim);

	guard(rwsem_write)(&v->bar_lock);
	if (!v->bar_phys[index])
		return;
	v->bar_phys[index] = 0;
	dlend_bar_zap(v);
}

/* Has an access waited for gate_timeout_ms without any progress? */
static bool dlend_bar_overdue(const struct dlend_vdev *v)
{
	return test_bit(0, &v->touched) &&
	       dlend_plan_gate_overdue(ktime_get(), READ_ONCE(v->shut_since),
				       READ_ONCE(v->progressed), ms_to_ktime(gate_timeout_ms));
}

/* May a fault end its wait: can it be answered, or has a reset ended all waits (@touched)? */
static bool dlend_bar_passable(const struct dlend_vdev *v)
{
	return !dlend_bar_waits(READ_ONCE(v->gate)) || !test_bit(0, &v->touched) ||
	       dlend_bar_overdue(v);
}

/*
 * Pages of 0xff.  The guest may write to them, as no mapping drops writes; so they are refilled
 * while they are mapped.  There are several, so that a doorbell that is written in one page is not
 * read back as a register of another.
 */

static void dlend_bar_dead_work(struct work_struct *work)
{
	struct dlend_vdev *v = container_of(to_delayed_work(work), struct dlend_vdev, dead_work);

	if (!READ_ONCE(v->dead_mapped))
		return;
	memset(v->dead, 0xff, DLEND_DEAD_BYTES);
	schedule_delayed_work(&v->dead_work, DLEND_DEAD_REFILL);
}

/* Map a page of 0xff; with a huge @order ask for a fault of one page instead. bar_lock is held. */
static vm_fault_t dlend_bar_insert_dead(struct dlend_vdev *v, struct vm_fault *vmf,
					unsigned int order, u64 pos)
{
	unsigned long pfn = vmalloc_to_pfn(v->dead + PAGE_ALIGN_DOWN(pos) % DLEND_DEAD_BYTES);

	if (order)
		return VM_FAULT_FALLBACK;
	atomic64_inc(&v->stat.fault_dead);
	WRITE_ONCE(v->dead_mapped, true);
	schedule_delayed_work(&v->dead_work, DLEND_DEAD_REFILL);
	return vmf_insert_mixed(vmf->vma, vmf->address, dlend_compat_pfn(pfn));
}

int dlend_bar_open(struct dlend_vdev *v)
{
	INIT_DELAYED_WORK(&v->dead_work, dlend_bar_dead_work);
	v->dead = __vmalloc(DLEND_DEAD_BYTES, GFP_KERNEL_ACCOUNT);
	if (!v->dead)
		return -ENOMEM;
	memset(v->dead, 0xff, DLEND_DEAD_BYTES);
	return 0;
}

/* No mapping is left, as each holds the file open. */
void dlend_bar_close(struct dlend_vdev *v)
{
	WRITE_ONCE(v->dead_mapped, false);
	cancel_delayed_work_sync(&v->dead_work);
	vfree(v->dead);
	if (v->io_page)
		iounmap(v->io_page);
	v->io_page = NULL;
}

/* Faults */

/* Map 2^@order pages of the window, for offset @pos of a BAR, if aligned. bar_lock is held. */
static vm_fault_t dlend_bar_insert_live(struct dlend_vdev *v, struct vm_fault *vmf,
					unsigned int order, unsigned int index, u64 pos)
{
	unsigned long addr = ALIGN_DOWN(vmf->address, PAGE_SIZE << order);
	unsigned long pfn = (v->bar_phys[index] + pos) >> PAGE_SHIFT;
	struct vm_area_struct *vma = vmf->vma;
	vm_fault_t ret = VM_FAULT_FALLBACK;

	if (order && (addr < vma->vm_start || addr + (PAGE_SIZE << order) > vma->vm_end ||
		      !IS_ALIGNED(pfn, 1ul << order)))
		return VM_FAULT_FALLBACK;
	if (!order)
		ret = vmf_insert_mixed(vma, vmf->address, dlend_compat_pfn(pfn));
	else if (order == PMD_ORDER)
		ret = dlend_compat_insert_pmd(vmf, pfn);
	else if (order == PUD_ORDER)
		ret = dlend_compat_insert_pud(vmf, pfn);
	if (ret == VM_FAULT_NOPAGE)
		atomic64_inc(&v->stat.faults[index][order / PMD_ORDER]); /* 0, 1 or 2 */
	return ret;
}

/* Answer a fault as the gate is now.  VM_FAULT_RETRY: the gate is shut: the caller has to wait. */
static vm_fault_t dlend_bar_try_fault(struct dlend_vdev *v, struct vm_fault *vmf,
				      unsigned int order)
{
	unsigned long addr = ALIGN_DOWN(vmf->address, PAGE_SIZE << order);
	unsigned int index = vmf->vma->vm_pgoff >> (DLEND_REGION_SHIFT - PAGE_SHIFT);
	u64 pos = DLEND_REGION_POS((u64)vmf->vma->vm_pgoff << PAGE_SHIFT) + addr -
		  vmf->vma->vm_start;

	guard(rwsem_read)(&v->bar_lock);
	if (addr < vmf->vma->vm_start)
		return VM_FAULT_FALLBACK;
	if (v->gate == DLEND_GATE_OPEN && v->bar_phys[index])
		return dlend_bar_insert_live(v, vmf, order, index, pos);
	if (!dlend_bar_waits(v->gate) || dlend_bar_overdue(v))
		return dlend_bar_insert_dead(v, vmf, order, pos);
	return VM_FAULT_RETRY;
}

/* Wait at the gate, without any lock.  @flags: FAULT_FLAG_*, which say what may end the wait */
static void dlend_bar_wait(struct dlend_vdev *v, unsigned int flags)
{
	s64 us, longest = atomic64_read(&v->stat.wait_longest_us);
	long timeout = msecs_to_jiffies(gate_timeout_ms) + 1;
	ktime_t since = ktime_get();

	atomic64_inc(&v->stat.fault_waits);
	/* A fault of the kernel's own (a copy from the BAR) would be repeated after any signal. */
	if (flags & FAULT_FLAG_INTERRUPTIBLE && flags & FAULT_FLAG_USER)
		wait_event_interruptible_timeout(v->gate_wq, dlend_bar_passable(v), timeout);
	else if (flags & FAULT_FLAG_KILLABLE)
		wait_event_killable_timeout(v->gate_wq, dlend_bar_passable(v), timeout);
	else
		wait_event_timeout(v->gate_wq, dlend_bar_passable(v), timeout);
	us = ktime_us_delta(ktime_get(), since);
	while (us > longest && !atomic64_try_cmpxchg(&v->stat.wait_longest_us, &longest, us))
		;
}

static vm_fault_t dlend_bar_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	struct dlend_vdev *v = vmf->vma->vm_private_data;
	unsigned int flags = vmf->flags;
	vm_fault_t ret;

	/*
	 * VFIO maps the BAR for another device's DMA.  That is no access of the guest, so it does
	 * not borrow the device, nor wait: type1 holds a lock here that the build needs.  As
	 * dlend_bar_mmap() does not set VM_PFNMAP, VFIO finds no page here that was mapped before.
	 */
	if (flags & FAULT_FLAG_REMOTE)
		return VM_FAULT_SIGBUS;
	ret = dlend_bar_try_fault(v, vmf, order);
	if (ret != VM_FAULT_RETRY)
		return ret;
	dlend_vdev_touch(v);
	if (!(flags & FAULT_FLAG_ALLOW_RETRY)) {
		/* mmap_lock, which the build needs, must stay held: wait a moment only. */
		wait_event_killable_timeout(v->gate_wq, dlend_bar_passable(v), DLEND_LOCKED_WAIT);
		ret = dlend_bar_try_fault(v, vmf, order);
		return ret == VM_FAULT_RETRY ? VM_FAULT_SIGBUS : ret;
	}
	if (flags & FAULT_FLAG_RETRY_NOWAIT)
		return VM_FAULT_RETRY;
	/*
	 * Wait outside of all locks, then let the fault be tried again.  The mapping may vanish
	 * during the wait, and with it the file, which holds the vdev and the module: so hold both.
	 */
	__module_get(THIS_MODULE);
	dlend_vdev_get(v);
	release_fault_lock(vmf);
	dlend_bar_wait(v, flags);
	dlend_vdev_put(v);
	module_put(THIS_MODULE);
	return VM_FAULT_RETRY;
}

static vm_fault_t dlend_bar_fault(struct vm_fault *vmf)
{
	return dlend_bar_huge_fault(vmf, 0);
}

static const struct vm_operations_struct dlend_bar_vm_ops = {
	.fault = dlend_bar_fault,
	.huge_fault = dlend_bar_huge_fault,
};

int dlend_bar_mmap(struct vfio_device *vfio, struct vm_area_struct *vma)
{
	struct dlend_vdev *v = to_dlend_vdev(vfio);
	unsigned int index = vma->vm_pgoff >> (DLEND_REGION_SHIFT - PAGE_SHIFT);
	u64 start = DLEND_REGION_POS((u64)vma->vm_pgoff << PAGE_SHIFT);
	u64 end = start + (vma->vm_end - vma->vm_start);
	struct dlend_range area[DLEND_MAX_AREAS];
	unsigned int i, n;

	if (index >= DLEND_NUM_BARS || !(vma->vm_flags & VM_SHARED) || end <= start)
		return -EINVAL;
	n = dlend_bar_areas(v, index, area);
	for (i = 0; i < n; i++)
		if (start >= area[i].start && end <= area[i].end)
			break;
	if (i == n)
		return -EINVAL;
	/* Always uncached.  KVM lets a guest map a BAR write-combining all the same. */
	vma->vm_page_prot = pgprot_decrypted(pgprot_noncached(vma->vm_page_prot));
	/*
	 * Not VM_PFNMAP: type1 would find the pages of the window that are mapped just now, and map
	 * them for the DMA of a device that is passed through to the same VM.  When the lease ends,
	 * nothing would unmap them in that device's IOMMU domain.  VM_IO is enough for KVM.
	 */
	vm_flags_set(vma, VM_ALLOW_ANY_UNCACHED | VM_IO | VM_MIXEDMAP | VM_DONTEXPAND |
		     VM_DONTDUMP);
	vma->vm_private_data = v;
	vma->vm_ops = &dlend_bar_vm_ops;
	return 0;
}

/*
 * Trapped accesses: to BARs, or pages of BARs, that cannot be mapped, and all accesses of VMMs that
 * map no BAR.
 */

/*
 * Map one page of the window, uncached as in all other mappings of the page. io_lock is held.
 * Return: the mapping, which stays until the next call; NULL: no memory.
 */
static void __iomem *dlend_bar_io_page(struct dlend_vdev *v, phys_addr_t phys)
{
	phys = ALIGN_DOWN(phys, PAGE_SIZE);
	if (v->io_page && v->io_phys == phys)
		return v->io_page;
	if (v->io_page)
		iounmap(v->io_page);
	v->io_phys = phys;
	v->io_page = ioremap(phys, PAGE_SIZE);
	return v->io_page;
}

/**
 * struct dlend_bar_access - a trapped access
 * @index: BAR
 * @pos: offset in the BAR, a multiple of @len
 * @len: 1, 2, 4 or 8 bytes
 * @write: true: write to the BAR, false: read from it
 * @val: value, in the lowest @len bytes
 */
struct dlend_bar_access {
	unsigned int index;
	u64 pos;
	unsigned int len;
	bool write;
	u64 val;
};

static void dlend_bar_io_write(void __iomem *io, const struct dlend_bar_access *access)
{
	switch (access->len) {
	case 8:
		writeq(access->val, io);
		break;
	case 4:
		writel(access->val, io);
		break;
	case 2:
		writew(access->val, io);
		break;
	default:
		writeb(access->val, io);
	}
}

static u64 dlend_bar_io_read(void __iomem *io, unsigned int len)
{
	switch (len) {
	case 8:
		return readq(io);
	case 4:
		return readl(io);
	case 2:
		return readw(io);
	default:
		return readb(io);
	}
}

/* Is the access to the MSI-X table, which a guest may not reach without isolated MSIs? */
static bool dlend_bar_io_msix(const struct dlend_vdev *v, const struct dlend_bar_access *access)
{
	struct dlend_cfg_part part;

	return !(v->info.flags & DLEND_OFFER_F_ISOLATED_MSI) &&
	       dlend_cfg_msix_range(&v->cfg, false, &part) &&
	       part.bar == access->index && access->pos < (u64)part.offset + part.size &&
	       access->pos + access->len > part.offset;
}

/* May a trapped access pass?  DLEND_GATE_READ is enough for a read, which starts no DMA. */
static bool dlend_bar_lets(const struct dlend_vdev *v, bool write)
{
	enum dlend_gate gate = READ_ONCE(v->gate);

	return gate == DLEND_GATE_OPEN || (gate == DLEND_GATE_READ && !write);
}

/* Return: 0; -EAGAIN the gate is shut; -ENODEV no device answers. */
static int dlend_bar_io_once(struct dlend_vdev *v, struct dlend_bar_access *access)
{
	void __iomem *io;
	phys_addr_t phys;

	guard(rwsem_read)(&v->bar_lock);
	if (!dlend_bar_lets(v, access->write))
		return dlend_bar_waits(v->gate) ? -EAGAIN : -ENODEV;
	if (!v->bar_phys[access->index] || dlend_bar_io_msix(v, access))
		return -ENODEV;
	phys = v->bar_phys[access->index] + access->pos;
	io = dlend_bar_io_page(v, phys);
	if (!io)
		return -ENODEV;
	if (access->write)
		dlend_bar_io_write(io + offset_in_page(phys), access);
	else
		access->val = dlend_bar_io_read(io + offset_in_page(phys), access->len);
	return 0;
}

/*
 * Wait at the gate.  The first trapped access borrows the device, as a page fault does, and waits
 * as long.
 * Return: -EAGAIN: try the access again, but the gate may be shut again by then; -ETIMEDOUT;
 * -ERESTARTSYS: the VMM dies.
 */
static int dlend_bar_io_wait(struct dlend_vdev *v, bool write)
{
	long timeout = msecs_to_jiffies(gate_timeout_ms) + 1;

	dlend_vdev_touch(v);
	timeout = wait_event_killable_timeout(v->gate_wq, dlend_bar_lets(v, write) ||
					      dlend_bar_passable(v), timeout);
	if (timeout < 0)
		return timeout;
	/* If there was progress, the access waits again, however long it has waited. */
	if (!dlend_bar_waits(READ_ONCE(v->gate)) || !dlend_bar_overdue(v))
		return -EAGAIN;
	atomic64_inc(&v->stat.trapped_timeouts);
	dev_warn_ratelimited(dlend_vdev_dev(v), "a trapped access found the device not ready within %u ms: reads 0xff, writes are lost\n",
			     gate_timeout_ms);
	return -ETIMEDOUT;
}

/* Return: false if no device answers. */
static bool dlend_bar_io(struct dlend_vdev *v, struct dlend_bar_access *access)
{
	int ret;

	do {
		mutex_lock(&v->io_lock);
		ret = dlend_bar_io_once(v, access);
		mutex_unlock(&v->io_lock);
	} while (ret == -EAGAIN && dlend_bar_io_wait(v, access->write) == -EAGAIN);
	return !ret;
}

ssize_t dlend_bar_rw(struct dlend_vdev *v, u64 at, char __user *buf, size_t count, bool write)
{
	struct dlend_bar_access access = {
		.index = DLEND_REGION_INDEX(at),
		.pos = DLEND_REGION_POS(at),
		.len = sizeof(access.val),
		.write = write,
		.val = U64_MAX,
	};
	u64 size = dlend_bar_size(v, access.index);

	if (access.pos >= size)
		return -EINVAL;
	count = min_t(u64, count, size - access.pos);
	while (access.len > count || !IS_ALIGNED(access.pos, access.len))
		access.len /= 2;
	/* The lowest bytes come first in memory: dlend runs on little-endian hosts only. */
	if (write && copy_from_user(&access.val, buf, access.len))
		return -EFAULT;
	if (!dlend_bar_io(v, &access) && !write)
		access.val = U64_MAX;
	atomic64_inc(write ? &v->stat.trapped_writes : &v->stat.trapped_reads);
	if (!write && copy_to_user(buf, &access.val, access.len))
		return -EFAULT;
	return access.len;
}
