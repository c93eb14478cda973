/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Vdev: the mediated device that a VMM opens.  It is made from an offer.  The code of mdev/ knows
 * nothing of NTB hardware, nor how offers arrive.
 *
 * Locks, outermost first.  Only under move.lock does a thread wait for a peer's reply: a VMM that
 * moves its VM waits for the lender there.  A trapped access reads through the window under io_lock
 * and bar_lock.
 *
 *   vdev->move.lock (mutex, move.c)	VFIO's migration states, and their files
 *   vdev->io_lock (mutex, bar.c)	trapped BAR accesses: held while one is made
 *   vdev->lock (mutex)			configuration space, desired and actual state, the lease
 *   vdev->bar_lock (rwsem, bar.c)	the gate, and addresses of BARs in the NTB's window.  Page
 *					faults and trapped accesses take it for reading.  It is
 *					taken with an aperture's lock held, too
 *					(dlend_bar_revoked()), so nothing of iommu/ is called under
 *					it
 *   vdev->irq.lock (spinlock, irq.c)	eventfds; interrupt handlers take it, too, so it is taken
 *					with interrupts off
 *
 * The borrower's locks (borrower/offer.h) are taken under vdev->lock.
 *
 * "[locked]" at a function means that vdev->lock is held.  A page fault comes with mmap_lock held,
 * so it takes bar_lock only.  Functions of memory.h that pin or unpin take the container's locks
 * and mmap_lock, so they are called with none of the locks above; a reference on the lease keeps
 * the lease's memory alive.  When a dma_unmap for one device removes mappings that other devices of
 * the VM use, too, the ops of these devices (struct dlend_memory_ops) are called with locks of
 * guest memory held, and take vdev->lock.
 *
 * "The VMM's big lock" is a lock that a VMM holds during nearly all of its calls to VFIO (QEMU's
 * BQL): while such a call waits, no other part of the VMM goes on, and vCPUs wait soon, too.
 */
#ifndef DLEND_MDEV_VDEV_H
#define DLEND_MDEV_VDEV_H

#include <linux/cleanup.h>
#include <linux/irqbypass.h>
#include <linux/mdev.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/vfio.h>
#include <linux/workqueue.h>
#include <dlend/borrower.h>
#include <dlend/cfg.h>
#include <dlend/p2p.h>
#include "memory.h"
#include "move_stream.h"
#include "plan.h"
#include "ranges.h"

#define DLEND_CONDITION_WORD	16	/* bytes for the first word of dlend_condition_text() */
#define DLEND_CONDITION_WORDS	64	/* bytes of that text without its DLEND_REASON_LEN bytes */

/*
 * Regions of the VFIO device: the upper bits of the file offset are the index.  A region is larger
 * than the largest BAR, so that an offset just behind that BAR is not in the next region.
 */
#define DLEND_REGION_SHIFT	41
#define DLEND_REGION_OFFSET(i)	((u64)(i) << DLEND_REGION_SHIFT)
#define DLEND_REGION_INDEX(pos)	((unsigned int)((u64)(pos) >> DLEND_REGION_SHIFT))
#define DLEND_REGION_POS(pos)	((u64)(pos) & (BIT_ULL(DLEND_REGION_SHIFT) - 1))
static_assert(BIT_ULL(DLEND_REGION_SHIFT) > DLEND_BAR_BYTES_MAX);

/**
 * struct dlend_irq_vec - an interrupt vector, as the VMM has set it up; under irq.lock
 * @trigger: eventfd with a reference, or NULL; written under vdev->lock, too
 * @latched: an interrupt has come that could not be signalled, because there was no eventfd, or
 *	INTx was masked or disabled.  It is signalled when that changes
 * @producing: @producer is registered with the kernel's irqbypass manager; under vdev->lock
 * @producer: offers KVM to deliver the vector's direct interrupts (irq.c); under vdev->lock
 * @count: number of interrupts that have come
 */
struct dlend_irq_vec {
	struct eventfd_ctx *trigger;
	bool latched, producing;
	struct irq_bypass_producer producer;
	u64 count;
};

/**
 * struct dlend_irqs - eventfds of a vdev (irq.c)
 * @lock: guards all members but @bypass, @unmask and @unmask_work; interrupt handlers take it
 * @mode: what the VMM has set up; written under vdev->lock, too, so either lock is enough to read
 * @live: what the lender delivers, or is being asked to; interrupts reach the VMM only while @live
 *	equals @mode
 * @vec: array of @nvec vectors of @mode (INTx: one); written as @mode
 * @nvec: number of vectors; written as @mode
 * @bypass: lease whose direct interrupts are offered to KVM, or NULL (irq.c); under vdev->lock
 * @masked: INTx is signalled again only after the next unmask
 * @disabled: the guest's COMMAND register has INTx disabled
 * @owed: the lender has masked INTx, and waits for an IRQ_UNMASK
 * @unmask: eventfd by which KVM unmasks INTx (resample); under vdev->lock
 * @special: eventfds for messages to the VMM itself: of VFIO_PCI_ERR_IRQ_INDEX, then of
 *	VFIO_PCI_REQ_IRQ_INDEX
 * @fired: number of interrupts that have come
 * @signalled: number of times that an eventfd of @vec was signalled
 * @stray: how many of @fired were dropped, because the VMM has not set that vector up
 * @specials: number of messages that were sent by each of @special
 * @unmask_work: sends IRQ_UNMASK to the lender
 */
struct dlend_irqs {
	spinlock_t lock;		/* all members but @bypass, @unmask, @unmask_work */
	enum dlend_irq_mode mode, live;
	struct dlend_irq_vec *vec;
	unsigned int nvec;
	struct dlend_lease *bypass;
	bool masked, disabled, owed;
	struct virqfd *unmask;
	struct eventfd_ctx *special[2];
	u64 fired, signalled, stray, specials[2];
	struct work_struct unmask_work;
};

/* Numbers for debugfs.  Those that accesses of the guest change are atomic; others: vdev->lock. */
struct dlend_vdev_stat {
	atomic64_t faults[DLEND_NUM_BARS][3];	/* with pages of 4 KiB, 2 MiB, 1 GiB */
	atomic64_t fault_dead, fault_waits, trapped_reads, trapped_writes, trapped_timeouts;
	atomic64_t wait_longest_us;	/* of a page fault, at the gate */
	atomic64_t live_missed;		/* accesses to the device's own registers that failed */
	u64 gate_shuts;
	u64 borrows, returns, resets, builds, build_retries, grows;	/* returns: at close only */
	u64 bme_to_open_us;		/* last time from Bus Master Enable to the open gate */
};

struct dlend_move_file;

/**
 * struct dlend_vdev_move - a VM moves from one host to another, and keeps its device (move.c)
 *
 * @lock: the outermost lock of a vdev; guards the next three
 * @state: VFIO's migration state; written under vdev->lock, too
 * @file: file that the VMM reads or writes now, or NULL; the VMM's file descriptor has the only
 *	reference.  @lock guards the file's contents, too
 * @arrived: the whole stream has come and was accepted
 *
 * Under vdev->lock:
 * @given: (old host) the device was handed over: the lender gives it to the node that shows the
 *	token
 * @has_token: (new host) @token has come with the stream
 * @told: the first error that the lender has replied since move_to was written last, or 0; read
 *	without the lock, too
 * @token: (new host) token by which the lender lets this node take the device over
 * @why: what went wrong, for the log and sysfs
 */
struct dlend_vdev_move {
	struct mutex lock;		/* @state, @file, @arrived */
	enum vfio_device_mig_state state;
	struct dlend_move_file *file;
	bool arrived;
	bool given, has_token;
	int told;
	u8 token[DLEND_TOKEN_SIZE];
	char why[DLEND_REASON_LEN];
};

/* Values of vdev->clique, beside DLEND_CFG_CLIQUE_NONE and the numbers of cliques */
#define DLEND_CLIQUE_AUTO	(-2)	/* computed if the vendor's driver reads it, or else none */
#define DLEND_CLIQUE_ALWAYS	(-3)	/* computed, for any vendor */

/**
 * struct dlend_vdev - a mediated device
 *
 * "A setting" is an attribute that an administrator writes (mdev.c).  "Since the open" means since
 * a VMM opened the device last.
 *
 * @vfio: VFIO's part; references on the vdev are references on @vfio.device
 * @mdev: mdev's part
 * @claim: claim of this vdev on the offer.  @claim.lease is the lease in use, with a reference, or
 *	NULL; @claim.user is the process that opened the device last.  These two and
 *	@claim.borrowing are written under @lock; @claim.lease may be compared with NULL without
 * @info: description of the offer at the open; constant after that
 * @rom: image of the expansion ROM, or NULL; constant as long as the mdev exists
 * @rom_size: bytes of @rom
 *
 * @lock: see the list of locks; guards what follows
 * @cfg: virtual configuration space; which registers are the device's own is constant after the
 *	open, and read without @lock, too
 * @clique: a setting: DLEND_CFG_CLIQUE_NONE, 0..15, DLEND_CLIQUE_*
 * @clique_shown: clique that the guest sees
 * @clique_wanted: what @clique meant at the open: a number, DLEND_CFG_CLIQUE_NONE, or
 *	DLEND_CLIQUE_ALWAYS
 * @p2p: the borrower's part, as a device of a VM whose devices may reach each other
 * @prepin: a setting: borrow the device and pin guest memory when the VMM opens the device, not
 *	only when the guest sets Bus Master Enable
 * @lowmem: a setting: end of the guest's RAM below 4 GiB, in bytes; 0: find it out.  Constant while
 *	a VMM has the device open
 * @had_space: the VMM has attached the device to an address space of iommufd since the open
 * @desired: what guest and VMM asked for
 * @actual: what the lender has done.  The worker makes @actual equal to @desired
 * @asked: copy of @desired when the worker's present step began; only the worker writes it, and
 *	reads it without @lock, too
 * @now: what else the plan depends on.  dlend_vdev_update() fills in what is kept elsewhere.
 *	If now.failed, @reason says why; if now.refused, @move.why does.  now.prepin is @prepin at
 *	the open.  now.dma is set before the lender is asked for Bus Master Enable, and cleared
 *	when that bit is known to be off, or when the device reaches no memory of this node
 * @is: what follows from @now, @desired and @actual (dlend_vdev_update()); read without @lock, too
 * @ended: the last lease that ended before this vdev returned it, with a reference, or NULL.  Pages
 *	may be pinned under it until it is returned
 * @irq_need: how many of the vectors that @desired asks for the guest uses, so that it would lose
 *	interrupts without them; the rest is spare
 * @readrq: Max_Read_Request_Size after a reset, as Device Control encodes it
 * @identity: a setting: identity that the device must have; "": any
 * @irq_waiters: number of threads in VFIO_DEVICE_SET_IRQS that wait until interrupts are set up
 * @irq_short: how many vectors the lender has, if fewer than were asked for; else -1
 * @errored: the device has failed because its lender reported an error
 * @lost: the device has failed because its lease ended: only a reset or a new open tries again
 * @irq_gap: the old vectors are gone and new ones are not set up yet: after the next set-up each
 *	vector is signalled once, as interrupts may be lost until then
 * @unmapping: number of calls of dlend_memory_ops.unmapping() without one of unmapped() yet
 * @touched: bit 0: an access waits for the device; set and cleared without @lock, too
 * @vmm: VMM that opened the device last, with references
 * @rescan_ms: milliseconds until the next rescan of all of the guest's memory
 * @patience: tries of a step that the worker tries again; its pause is read without @lock, too
 * @bme_at: when the guest turned Bus Master Enable on; 0 once the gate has opened
 * @live_after: no read of configuration space goes to the device before this time, because the
 *	lender did not answer an earlier access in time
 * @behind_at: since when there is RAM that the device may use and does not reach
 * @reason: why the device has failed
 * @work: the worker (vdev.c)
 * @notify_work: work that sends user space an event about a new condition
 * @notified: first word of the condition in the last event; "": user space may have read another
 *	condition since
 * @slow_work: rescans all of the guest's memory, now and then (guest_ram.c)
 * @look_work: looks for memory that has come, when the VM's watch asks for that (guest_ram.c)
 * @idle_wq: woken by dlend_vdev_update(), and when a lender has let the device reach others (@p2p)
 *
 * @bar_lock: see the list of locks; the next two are written while it is held for writing
 * @gate: what a BAR access meets; also written under @lock, so either lock is enough to read
 * @bar_phys: physical addresses of the BARs in the window of this node's NTB; 0: none
 *
 * @dead_mapped: a page of @dead is mapped; set under @bar_lock for reading, cleared under it for
 *	writing
 * @shut_since: time when the gate was shut, or when the first access came that waits; no lock
 * @progressed: time when the DMA mappings last grew; no lock
 * @gate_wq: woken when @gate changes
 * @dead: pages of 0xff, from dlend_bar_open() to dlend_bar_close()
 * @dead_work: refills @dead while some of it is mapped
 *
 * @io_lock: see the list of locks; guards the next two
 * @io_page: mapping of the page of the window that the last trapped access went to; NULL: none
 * @io_phys: physical address of that page
 *
 * @move: the move of the VM to or from another host
 * @irq: eventfds
 * @stat: numbers for debugfs
 * @dir: folder in debugfs
 */
struct dlend_vdev {
	struct vfio_device vfio;
	struct mdev_device *mdev;
	struct dlend_claim claim;
	struct dlend_offer_info info;
	u8 *rom;
	u32 rom_size;

	struct mutex lock;		/* down to @idle_wq */
	struct dlend_cfg cfg;
	int clique, clique_shown, clique_wanted;
	struct dlend_p2p_member p2p;
	bool prepin;
	u64 lowmem;
	bool had_space;
	struct dlend_state desired, actual, asked;
	struct dlend_situation now;
	struct dlend_conditions is;
	struct dlend_lease *ended;
	u32 irq_need, readrq;
	char identity[DLEND_NODE_NAME_LEN];
	unsigned int irq_waiters;
	int irq_short;
	bool errored, lost, irq_gap;
	unsigned int unmapping;
	unsigned long touched;
	struct dlend_vmm vmm;
	unsigned int rescan_ms;
	struct dlend_patience patience;
	ktime_t bme_at, live_after, behind_at;
	char reason[DLEND_REASON_LEN];
	struct work_struct work;
	struct delayed_work notify_work;
	char notified[DLEND_CONDITION_WORD];
	struct delayed_work slow_work;
	struct work_struct look_work;
	wait_queue_head_t idle_wq;

	struct rw_semaphore bar_lock;
	enum dlend_gate gate;
	bool dead_mapped;
	ktime_t shut_since, progressed;
	phys_addr_t bar_phys[DLEND_NUM_REGIONS];
	wait_queue_head_t gate_wq;
	void *dead;
	struct delayed_work dead_work;

	struct mutex io_lock;		/* @io_page, and trapped accesses one by one */
	void __iomem *io_page;
	phys_addr_t io_phys;

	struct dlend_vdev_move move;
	struct dlend_irqs irq;
	struct dlend_vdev_stat stat;
	struct dentry *dir;
};

#define to_dlend_vdev(v) container_of(v, struct dlend_vdev, vfio)
#define claim_to_vdev(c) container_of(c, struct dlend_vdev, claim)

/** dlend_vdev_dev - the mediated device, for messages. Context: any. */
static inline struct device *dlend_vdev_dev(struct dlend_vdev *v)
{
	return &v->mdev->dev;
}

/** dlend_vdev_lender - node id of the device's lender. Context: any. */
static inline u16 dlend_vdev_lender(const struct dlend_vdev *v)
{
	return dlend_offer_addr(v->claim.offer)->lender;
}

/** dlend_vdev_get - take a reference. Context: any. Return: @v */
static inline struct dlend_vdev *dlend_vdev_get(struct dlend_vdev *v)
{
	get_device(&v->vfio.device);
	return v;
}

/** dlend_vdev_put - put a reference; the last one frees the vdev. Context: process, may sleep. */
static inline void dlend_vdev_put(struct dlend_vdev *v)
{
	put_device(&v->vfio.device);
}

/* For __free(): the reference on a lease is put when the variable goes out of scope. */
DEFINE_FREE(dlend_lease_put, struct dlend_lease *, IS_ERR(_T) ? (void)0 : dlend_lease_put(_T))

/**
 * dlend_vdev_lease - the lease that a vdev has now
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock. Return: a reference, or NULL if there is no lease.
 */
static inline struct dlend_lease *dlend_vdev_lease(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return dlend_lease_get(v->claim.lease);
}

/**
 * dlend_vdev_memory - the guest memory of a lease
 * @lease: (in) lease that this vdev has had as claim.lease
 *
 * Context: any. Return: memory, no reference; it lives as long as the lease.
 */
static inline struct dlend_memory *dlend_vdev_memory(const struct dlend_lease *lease)
{
	return lease->priv;
}

/** dlend_vdev_caller - identify the calling process. Context: process. */
static inline struct dlend_user dlend_vdev_caller(void)
{
	return dlend_vmm_user(current->group_leader);
}

/** dlend_vdev_queue - queue the worker, which looks for a step to make. Context: any. */
static inline void dlend_vdev_queue(struct dlend_vdev *v)
{
	queue_work(v->claim.wq, &v->work);
}

/**
 * dlend_vdev_touch - note that an access waits for the device, and queue the worker
 * @v: (in, out) vdev
 *
 * The worker borrows the device then, if there is no lease.  Context: any; page faults call this.
 */
static inline void dlend_vdev_touch(struct dlend_vdev *v)
{
	if (test_and_set_bit(0, &v->touched))
		return;
	WRITE_ONCE(v->shut_since, ktime_get());
	dlend_vdev_queue(v);
}

/* bar.c: BARs, as a VMM maps or accesses them */

/**
 * dlend_bar_open - make the pages of 0xff, when a VMM opens the device
 * @v: (in, out) vdev
 *
 * Context: process. Return: 0, -ENOMEM; 0 obliges the caller to call dlend_bar_close().
 */
int dlend_bar_open(struct dlend_vdev *v);

/**
 * dlend_bar_close - free what dlend_bar_open() and trapped accesses have made
 * @v: (in, out) vdev; the caller guarantees that the VMM has no mapping left, and makes no access
 *
 * Context: process, may sleep.
 */
void dlend_bar_close(struct dlend_vdev *v);

/**
 * dlend_bar_set_gate - change what BAR accesses meet
 * @v: (in) vdev
 * @gate: (in) gate
 * @bar: (in) the lease's windows onto the BARs, DLEND_NUM_REGIONS of them; NULL: none
 *
 * When this returns, only accesses that the new gate allows go through. Context: process, may
 * sleep; vdev->lock is held; takes bar_lock.
 */
void dlend_bar_set_gate(struct dlend_vdev *v, enum dlend_gate gate, const struct dlend_window *bar);

/**
 * dlend_bar_revoked - cut the guest off from a BAR: &struct dlend_claim_ops.bar_revoked
 * @claim: (in) claim of a vdev
 * @index: (in) BAR
 *
 * Context: process, may sleep; an aperture's lock may be held; takes bar_lock.
 */
void dlend_bar_revoked(struct dlend_claim *claim, unsigned int index);

/**
 * dlend_bar_mmap - prepare a mapping of a BAR, or of a part: &struct vfio_device_ops.mmap
 * @vfio: (in) VFIO's part of the vdev
 * @vma: (in, out) mapping; page faults fill it in
 *
 * Context: the caller's mmap_lock is held for writing.
 * Return: 0; -EINVAL this is not within a part that dlend_bar_areas() finds.
 */
int dlend_bar_mmap(struct vfio_device *vfio, struct vm_area_struct *vma);

/**
 * dlend_bar_rw - make one trapped access
 * @v: (in) vdev
 * @at: (in) offset in the file: the BAR and the offset in it (DLEND_REGION_*)
 * @buf: (in, out) user memory
 * @count: (in) bytes, at least one; an access makes 8 at most, and is naturally aligned
 * @write: (in) true: write to the BAR, false: read from it
 *
 * A read gives 0xff if no device answers. Context: process, none of the vdev's locks; waits at a
 * shut gate, for gate_timeout_ms without progress at most.
 * Return: bytes done, 1, 2, 4 or 8; -EINVAL beyond the BAR; -EFAULT.
 */
ssize_t dlend_bar_rw(struct dlend_vdev *v, u64 at, char __user *buf, size_t count, bool write);

/** dlend_bar_size - bytes of BAR @index; 0: there is none. Context: any, after the open. */
u64 dlend_bar_size(const struct dlend_vdev *v, unsigned int index);

/**
 * dlend_bar_areas - find the parts of a BAR that can be mapped: all but the pages of MSI-X
 * @v: (in) vdev
 * @index: (in) BAR
 * @area: (out) parts, in order
 *
 * The pages of the MSI-X table and PBA can be mapped if the lender has isolated MSIs.
 *
 * Context: any, after the open.
 * Return: number of parts, 0 to DLEND_MAX_AREAS; 0 also if the BAR is not mappable at all.
 */
unsigned int dlend_bar_areas(const struct dlend_vdev *v, unsigned int index,
			     struct dlend_range area[DLEND_MAX_AREAS]);

/** dlend_vdev_offered_clique - convert DLEND_OFFER_CLIQUE* to vdev->clique. Context: any. */
static inline int dlend_vdev_offered_clique(u16 clique)
{
	if (clique == DLEND_OFFER_CLIQUE_AUTO)
		return DLEND_CLIQUE_AUTO;
	if (clique == DLEND_OFFER_CLIQUE_NONE)
		return DLEND_CFG_CLIQUE_NONE;
	return clique - DLEND_OFFER_CLIQUE(0);
}

/* irq.c: interrupts, as VFIO shows them */

/** dlend_irqs_init - initialise vdev->irq of a new, zeroed vdev. Context: any. */
void dlend_irqs_init(struct dlend_vdev *v);

/**
 * dlend_irqs_close - drop all eventfds, when the VMM closes the device
 * @v: (in, out) vdev; the caller guarantees that no lease is in use
 *
 * Context: process, may sleep; takes vdev->lock.
 */
void dlend_irqs_close(struct dlend_vdev *v);

/** dlend_irqs_count - number of interrupts of VFIO's @index. Context: any, after the open. */
unsigned int dlend_irqs_count(struct dlend_vdev *v, unsigned int index);

/**
 * dlend_irqs_set - do VFIO_DEVICE_SET_IRQS for INTx, MSI or MSI-X
 * @v: (in, out) vdev
 * @hdr: (in) header, which the caller has checked against the number of interrupts
 * @data: (in) as many values as @hdr says; NULL if it has none
 *
 * Notes in vdev->desired what the lender has to set up; the caller calls dlend_vdev_update().
 *
 * Context: process, vdev->lock held.
 * Return: 0; -EINVAL, -ENOTTY @hdr makes no sense in this mode; -ENOMEM; or an error of an eventfd.
 * After an error none of the eventfds in @data is set.
 */
int dlend_irqs_set(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data);

/**
 * dlend_irqs_set_special - do VFIO_DEVICE_SET_IRQS for the error or the request eventfd
 * @v: (in, out) vdev
 * @hdr: (in) as for dlend_irqs_set()
 * @data: (in) as for dlend_irqs_set()
 *
 * Context: process; takes irq.lock. Return: as dlend_irqs_set().
 */
int dlend_irqs_set_special(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data);

/**
 * dlend_irqs_too_few - undo a dlend_irqs_set() for which the lender has too few vectors
 * @v: (in, out) vdev
 * @hdr: (in) what dlend_irqs_set() was called with
 * @possible: (in) how many vectors the lender has; -ENOSPC: none
 *
 * Context: process, vdev->lock held; the caller calls dlend_vdev_update().
 * Return: what the ioctl returns: if @possible is enough for the vectors that worked before,
 * -ENOSPC: these still work, and the eventfds of @hdr are dropped.  If not, @possible: all eventfds
 * are dropped, and the VMM has to ask for fewer vectors from the beginning.
 */
int dlend_irqs_too_few(struct dlend_vdev *v, const struct vfio_irq_set *hdr, int possible);

/**
 * dlend_irqs_fired - signal the eventfd of a vector: &struct dlend_claim_ops.interrupt
 * @claim: (in) claim of a vdev
 * @vector: (in) vector
 * @count: (in) number of interrupts that have come
 * @direct: (in) not used here
 *
 * Context: any, interrupt handlers included; takes irq.lock.
 */
void dlend_irqs_fired(struct dlend_claim *claim, u32 vector, u32 count, bool direct);

/**
 * dlend_irqs_live - note what the lender delivers from now on
 * @v: (in) vdev
 * @mode: (in) interrupts; DLEND_IRQ_NONE: none
 * @resized: (in) true: interrupts may be lost, as vectors were set up anew: signal each vector
 *	once, but not INTx
 *
 * Context: process, interrupts on; takes irq.lock.
 */
void dlend_irqs_live(struct dlend_vdev *v, enum dlend_irq_mode mode, bool resized);

/**
 * dlend_irqs_disable_intx - hold INTx back, or signal it again, as the guest's COMMAND says
 * @v: (in) vdev
 * @disable: (in) true: COMMAND has Interrupt Disable set
 *
 * Context: process, interrupts on; takes irq.lock.
 */
void dlend_irqs_disable_intx(struct dlend_vdev *v, bool disable);

/**
 * dlend_irqs_signal - signal the error or the request eventfd
 * @v: (in) vdev
 * @index: (in) VFIO_PCI_ERR_IRQ_INDEX or VFIO_PCI_REQ_IRQ_INDEX
 *
 * Context: process, interrupts on; takes irq.lock. Return: true if the VMM has set that eventfd.
 */
bool dlend_irqs_signal(struct dlend_vdev *v, unsigned int index);

/**
 * dlend_bypass_begin - offer the direct interrupts of a lease to KVM
 * @v: (in) vdev
 * @lease: (in) lease whose interrupts are set up.  No reference is taken: the caller guarantees
 *	that the lease stays until dlend_bypass_end()
 *
 * Interrupts that come by the doorbell are not offered. Context: process, vdev->lock held.
 */
void dlend_bypass_begin(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_bypass_end - take back from KVM what dlend_bypass_begin() has offered, if anything
 * @v: (in) vdev
 *
 * When this returns, all interrupts come to this host's handlers.  The caller calls this before
 * dlend_lease_irq_setup(), and before the lease may end. Context: process, vdev->lock held.
 */
void dlend_bypass_end(struct dlend_vdev *v);

/* state.c: desired and actual state.  Context, if a function does not say: [locked] */

/** dlend_vdev_describe - fill @dev (out) with what the VM's other devices need to know of @v */
void dlend_vdev_describe(struct dlend_vdev *v, struct dlend_p2p_dev *dev);

/**
 * dlend_vdev_update - act on a change of vdev->desired, vdev->actual, vdev->now or the lease
 * @v: (in, out) vdev
 *
 * Works out vdev->is, opens or shuts the gate, publishes the device to the VM's other devices,
 * wakes threads that wait for the device, and queues the worker if there is a step to make.  If
 * this has shut the gate, no access of the guest reaches the device after it has returned.
 */
void dlend_vdev_update(struct dlend_vdev *v);

/* Module parameter stop_on_loss: signal the error eventfd when a link is lost or a lease ends? */
extern bool dlend_stop_on_loss;

/**
 * dlend_condition_fail - make the device fail: BARs read 0xff until dlend_condition_clear()
 * @v: (in, out) vdev
 * @signal: (in) true: signal the VMM's error eventfd, too
 * @fmt: (in) reason, for the log and for sysfs
 *
 * Calls dlend_vdev_update().
 */
__printf(3, 4) void dlend_condition_fail(struct dlend_vdev *v, bool signal, const char *fmt, ...);

/** dlend_condition_clear - end the failure of a device, if it has failed; no dlend_vdev_update() */
void dlend_condition_clear(struct dlend_vdev *v);

/** dlend_condition_notify_work - the function of vdev->notify_work. Context: takes vdev->lock. */
void dlend_condition_notify_work(struct work_struct *work);

/**
 * dlend_condition_notify - send user space an event soon, if the condition has changed
 * @v: (in) vdev
 *
 * Context: any.
 */
void dlend_condition_notify(struct dlend_vdev *v);

/**
 * dlend_condition_text - describe the condition: "idle", "taken", "borrowing", "building",
 *	"running", "failed", "stopped" or "prepared", and a reason
 * @v: (in) vdev
 * @buf: (out) text
 * @size: (in) bytes of @buf; DLEND_REASON_LEN + DLEND_CONDITION_WORDS are enough
 */
void dlend_condition_text(struct dlend_vdev *v, char *buf, size_t size);

/* The end of a lease */

/**
 * dlend_ended_with_pins - get the lease under which pages may be pinned
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock. Return: a reference on the lease in use; if there is none, on
 * vdev->ended; NULL if there is neither.
 */
struct dlend_lease *dlend_ended_with_pins(struct dlend_vdev *v);

/**
 * dlend_ended_give_up - return the lease in use, if there is one, and keep it as vdev->ended
 * @v: (in, out) vdev whose device is for another VM from now on, or for none
 *
 * If the lender was asked for a lease and has not replied yet, the worker will return that lease.
 * The caller calls dlend_vdev_update().
 *
 * Context: [locked]. Return: the previous vdev->ended, or NULL; the caller puts it after it has
 * unlocked vdev->lock.
 */
struct dlend_lease *dlend_ended_give_up(struct dlend_vdev *v);

/**
 * dlend_ended_leave - return the lease, and want nothing of the device any more
 * @v: (in, out) vdev that is being closed, or whose VMM dies
 *
 * Context: process, may sleep; takes vdev->lock; waits for no peer and no pin.
 */
void dlend_ended_leave(struct dlend_vdev *v);

/**
 * dlend_ended_drop - unpin what is pinned under vdev->ended, and drop that
 * @v: (in, out) vdev that is being closed; the caller has called dlend_ended_leave()
 *
 * Context: process, may sleep; takes vdev->lock; waits as dlend_memory_close().
 */
void dlend_ended_drop(struct dlend_vdev *v);

/**
 * dlend_ended_forget - put and clear vdev->ended, if that is a certain lease
 * @v: (in, out) vdev
 * @lease: (in) lease; the caller guarantees that nothing is pinned under it
 *
 * Context: process, may sleep; takes vdev->lock.
 */
void dlend_ended_forget(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_ended_lose - make the device fail, as its lease has ended before this vdev returned it
 * @v: (in, out) vdev
 * @only: (in) lease that has ended; nothing happens if it is not the lease in use.  NULL: the lease
 *	in use, if there is one
 * @why: (in) reason, for the log and sysfs
 *
 * Keeps the lease as vdev->ended, and returns it.  If the lease's session is over, the peer cannot
 * reach this node's memory by that lease when this returns.
 *
 * Context: process, may sleep; takes vdev->lock; locks of guest memory outside of ram->lock may be
 * held; waits for no peer and no pin.
 */
void dlend_ended_lose(struct dlend_vdev *v, struct dlend_lease *only, const char *why);

/**
 * dlend_ended_link_down - act on the loss of the link: &struct dlend_claim_ops.link_down
 * @claim: (in) claim of a vdev
 *
 * Does what dlend_ended_lose() does with the lease in use.  If a lease had ended before and is not
 * returned yet (vdev->ended), the peer cannot reach this node's memory by that one, either.
 *
 * Context: a callback of the link; takes vdev->lock; waits for no peer and no pin.
 */
void dlend_ended_link_down(struct dlend_claim *claim);

/* guest_ram.c: a guest's memory comes and goes while its device is borrowed */

/** dlend_guest_init - initialise slow_work and look_work of a new vdev. Context: any. */
void dlend_guest_init(struct dlend_vdev *v);

/**
 * dlend_guest_stop - cancel slow_work and look_work, and wait until they do not run
 * @v: (in, out) vdev that is being closed; the caller has cleared now.open
 *
 * Context: process, may sleep; none of the locks of the vdev and of guest memory.
 */
void dlend_guest_stop(struct dlend_vdev *v);

/**
 * dlend_guest_memory_create - make the guest memory of a lease; pins nothing yet
 * @v: (in) vdev that a VMM has open, or had
 * @lease: (in) lease, which outlives the result
 *
 * Context: process, may sleep; takes vdev->lock. Return: as dlend_memory_create().
 */
struct dlend_memory *dlend_guest_memory_create(struct dlend_vdev *v,
					       const struct dlend_lease *lease);

/**
 * dlend_guest_passed_emit - list BARs of devices that this host itself passes through to the VM
 * @v: (in) vdev
 * @buf: (in, out) a page for sysfs: gets a line for each range of BARs, as far as there is room
 * @at: (in) bytes that @buf has already
 *
 * Context: process, may sleep; takes vdev->lock, vm->watch_lock and the VMM's mmap_lock.
 * Return: bytes in @buf, or -ENOMEM.
 */
ssize_t dlend_guest_passed_emit(struct dlend_vdev *v, char *buf, int at);

/**
 * dlend_guest_rescan_soon - schedule a rescan of all of the guest's memory soon
 * @v: (in) vdev
 *
 * Called after a build, which may have missed memory that was away for just that moment.  Later
 * rescans follow at longer and longer intervals, up to rescan_s.  Context: vdev->lock held.
 */
void dlend_guest_rescan_soon(struct dlend_vdev *v);

/**
 * dlend_guest_look - look for new RAM in holes of the memory slots, before the gate opens
 * @v: (in) vdev; nothing is done unless its device does DMA, and is to go on
 * @lease: (in) lease of the vdev
 *
 * No look was made while the gate was shut, and the guest may have been given memory then. If RAM
 * is found, the gate stays shut until the next build has mapped that RAM.
 *
 * Context: the worker; takes vdev->lock; as dlend_memory_look().
 */
void dlend_guest_look(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_guest_rescan - have a build search all of the guest's memory; does not wait for it
 * @v: (in) vdev; nothing is done unless its device is borrowed, and has Bus Master Enable
 *
 * Context: process; takes vdev->lock and ram->lock.
 */
void dlend_guest_rescan(struct dlend_vdev *v);

/**
 * dlend_guest_attach_ioas - attach the device to an address space of iommufd:
 *	&struct vfio_device_ops.attach_ioas
 * @vfio: (in) VFIO's part of the vdev
 * @pt_id: (in, out) the address space
 *
 * Context: VFIO's ioctl; takes vdev->lock.
 * Return: 0; -EBUSY pages may be pinned in the previous address space; or an error of iommufd.
 */
int dlend_guest_attach_ioas(struct vfio_device *vfio, u32 *pt_id);

/**
 * dlend_guest_detach_ioas - unpin all, and detach the device from its address space:
 *	&struct vfio_device_ops.detach_ioas
 * @vfio: (in) VFIO's part of the vdev
 *
 * Context: VFIO's ioctl; takes vdev->lock; waits as dlend_memory_close().
 */
void dlend_guest_detach_ioas(struct vfio_device *vfio);

/**
 * dlend_guest_vmm_exits - stop all devices of a VMM that dies, and return their leases but @v's
 * @v: (in) vdev, the first one that the VMM closes
 *
 * Context: process; takes vdev->lock of each; waits as dlend_memory_vmm_exits().
 */
void dlend_guest_vmm_exits(struct dlend_vdev *v);

/**
 * dlend_guest_dma_unmap - take memory away from the device: &struct vfio_device_ops.dma_unmap
 * @vfio: (in) VFIO's part of the vdev
 * @iova: (in) guest-physical address of the first byte
 * @size: (in) bytes
 *
 * When this returns, the device cannot reach this node's memory in that range, and the pages are
 * unpinned, or VFIO calls again (dlend_memory_unmap()).  The lender is asked to unmap later.
 *
 * Context: VFIO's locks and the VMM's big lock are held; takes vdev->lock; waits for no peer.
 */
void dlend_guest_dma_unmap(struct vfio_device *vfio, u64 iova, u64 size);

/* move.c: a VM moves from one host to another, and its device stays where it is */

/* VFIO's migration ops.  Context of each: an ioctl of VFIO's, none of the vdev's locks */
extern const struct vfio_migration_ops dlend_move_ops;

/**
 * dlend_move_forget - forget that a VM moves with the device
 * @v: (in, out) vdev
 *
 * Context: vdev->lock held; the caller calls dlend_vdev_update().
 */
void dlend_move_forget(struct dlend_vdev *v);

/**
 * dlend_move_close - set the migration state to RUNNING, and make the migration file useless
 * @v: (in, out) vdev that the VMM closes or resets
 *
 * Context: process, none of the vdev's locks.
 */
void dlend_move_close(struct dlend_vdev *v);

/**
 * dlend_move_set_target - set which node may take the device over, and have the lender know
 * @v: (in) vdev
 * @text: (in) what was written to move_to: a node id, or DLEND_NODE_NONE. The words "cut" (move the
 *	device also if it is never quiet) and "all" (the VMM sends all of the VM's memory after the
 *	VM has stopped, so it need not know what the device has written before) may follow
 *
 * Context: process, none of the vdev's locks; waits for the lender if the device is borrowed.
 * Return: 0; -EINVAL, -ERANGE @text has another form; -ENODEV no VM has the device open;
 * -EOPNOTSUPP, -EMLINK, -EINVAL as dlend_lease_move_to(); -EOPNOTSUPP the VMM would not carry along
 * what the device writes; -EPERM the VMM would not pass on the guest's INTx; -ETIMEDOUT the lender
 * has not replied in time, and may still do what was asked.
 */
int dlend_move_set_target(struct dlend_vdev *v, const char *text);

/*
 * The worker's steps of a move.  Each sends a request under @lease, a lease of @v, and notes the
 * reply in vdev->actual.  Context: the worker, none of the vdev's locks; takes vdev->lock; waits
 * for the lender.
 */

/** dlend_move_step_to - have the lender note which node may take the device over */
void dlend_move_step_to(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_quiesce - have the lender stop the device, as the VM stands still */
void dlend_move_step_quiesce(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_run - have the lender let the device go on, as the VM goes on here */
void dlend_move_step_run(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_take_over - take the device over, as its VM has come and goes on here */
void dlend_move_step_take_over(struct dlend_vdev *v, struct dlend_lease *lease);

/* vdev.c: the worker, and the lender's messages that are no replies */

/* Ops of a vdev's claim, which the borrower calls; contexts: struct dlend_claim_ops */
extern const struct dlend_claim_ops dlend_borrow_claim_ops;

/**
 * dlend_step_work - make steps until there is none: the function of vdev->work
 * @work: (in) &vdev->work
 *
 * Context: the offer's ordered workqueue, none of the vdev's locks; waits for the lender.
 */
void dlend_step_work(struct work_struct *work);

/* vfio.c: VFIO's device ops.  Context of each: VFIO's, none of the vdev's locks */
extern const struct vfio_device_ops dlend_vfio_ops;

#endif
