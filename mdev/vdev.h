/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Vdev: the mediated device that a VMM opens, made from an offer.  Knows nothing of NTB hardware,
 * nor how offers arrive.
 *
 * Locks, outermost first.  None is held while waiting for user space or for a peer, but for the
 * first, under which a VMM waits for its lender.
 *
 *   vdev->move.lock (mutex, move.c)	VFIO's migration states, and their files
 *   dlend_mdev_lock (mutex, mdev.c)	parents of mediated devices, and the vdev of each
 *   vdev->io_lock (mutex, bar.c)	trapped BAR accesses: held while one is made
 *   vdev->watch_lock (mutex, guest_ram.c)  vdev->watch; vdev->lock and the VMM's mmap_lock are
 *					taken under it
 *   vdev->lock (mutex)			configuration space, what is wanted, what is so, the lease
 *   vdev->bar_lock (rwsem, bar.c)	gate, memory decoding, window addresses; page faults read
 *   vdev->irq.lock (spinlock, irq.c)	eventfds; also taken by the link's interrupt handler
 *
 * The borrower's locks (borrower/offer.h) are taken under vdev->lock.
 *
 * At a function, "[locked]" means that vdev->lock is held.  A page fault comes with mmap_lock held,
 * so it takes bar_lock only.  Pinning (dlend_memory_*()) takes the container's locks and mmap_lock,
 * so it is called with none of the above held; a reference on the lease keeps its memory alive.
 * When a dma_unmap of one device takes memory from others of the VM, the others are told with locks
 * of the memory held, outside vdev->lock.
 */
#ifndef DLEND_MDEV_VDEV_H
#define DLEND_MDEV_VDEV_H

#include <linux/irqbypass.h>
#include <linux/mdev.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/vfio.h>
#include <linux/workqueue.h>
#include <dlend/borrower.h>
#include <dlend/cfg.h>
#include <dlend/p2p.h>
#include "bar_areas.h"
#include "borrow_plan.h"
#include "condition.h"
#include "memory.h"
#include "memslots.h"
#include "move_stream.h"
#include "vmm.h"

#define DLEND_DEAD_PAGES	16	/* pages of 0xff per device, chosen by page number */

/*
 * Regions of the VFIO device: the index stands in the upper bits of the file offset.  A region is
 * larger than the largest BAR, so an offset just behind that BAR is not in the next region yet.
 */
#define DLEND_REGION_SHIFT	41
#define DLEND_REGION_OFFSET(i)	((u64)(i) << DLEND_REGION_SHIFT)
#define DLEND_REGION_INDEX(pos)	((unsigned int)((u64)(pos) >> DLEND_REGION_SHIFT))
#define DLEND_REGION_POS(pos)	((u64)(pos) & (BIT_ULL(DLEND_REGION_SHIFT) - 1))
static_assert(BIT_ULL(DLEND_REGION_SHIFT) > DLEND_BAR_BYTES_MAX);

/* What happens to a BAR access. */
enum dlend_gate {
	DLEND_GATE_SHUT,	/* waits: nothing borrowed yet, or being reset */
	DLEND_GATE_OPEN,	/* goes through */
	DLEND_GATE_DEAD,	/* no device behind it: reads 0xff */
	DLEND_GATE_READ,	/* a trapped read goes through, all else waits: building */
};

/**
 * struct dlend_irq_vec - an interrupt vector, as the VMM has set it up
 * @trigger: eventfd, or NULL
 * @latched: an interrupt came while there was no eventfd
 * @producer, @producing: it is KVM's, if KVM wants it (bypass.c); under vdev->lock
 * @count, @signals: interrupts that came, and signals that were sent
 */
struct dlend_irq_vec {
	struct eventfd_ctx *trigger;
	bool latched, producing;
	struct irq_bypass_producer producer;
	u64 count, signals;
};

/**
 * struct dlend_irqs - eventfds of a vdev (irq.c)
 * @lock: all of it; taken in interrupt context
 * @mode: what the VMM has set up
 * @live: what the lender delivers; interrupts reach the VMM only while it equals @mode
 * @vec, @nvec: vectors of @mode (INTx: one)
 * @bypass: lease whose direct interrupts may be KVM's, or NULL (bypass.c); under vdev->lock
 * @masked: INTx: no signal before the next unmask
 * @disabled: INTx: by the guest's COMMAND register
 * @pending: INTx: one came while it was masked or disabled
 * @owed: INTx: the lender waits for an IRQ_UNMASK
 * @unmask: resample eventfd
 * @err, @req: eventfds for messages to the VMM itself
 * @unmask_work: sends the IRQ_UNMASK
 */
struct dlend_irqs {
	spinlock_t lock;		/* all of it; taken in interrupt context */
	enum dlend_irq_mode mode, live;
	struct dlend_irq_vec *vec;
	unsigned int nvec;
	struct dlend_lease *bypass;
	bool masked, disabled, pending, owed;
	struct virqfd *unmask;
	struct eventfd_ctx *err, *req;
	u64 fired, signalled, latched, stray, unmasks, errs, reqs;
	struct work_struct unmask_work;
};

/* Numbers for debugfs; atomics because faults take no mutex. */
struct dlend_vdev_stat {
	atomic64_t fault_4k[DLEND_NUM_REGIONS], fault_2m[DLEND_NUM_REGIONS];
	atomic64_t fault_1g[DLEND_NUM_REGIONS];
	atomic64_t fault_dead, fault_waits, trapped_reads, trapped_writes, trapped_timeouts;
	atomic64_t wait_longest_us;
	atomic64_t live_reads, live_writes, live_missed;
	u64 zaps, gate_shuts, gate_opens, gate_longest_us, gate_last_us;
	u64 borrows, returns, resets, builds, build_retries, grows;
	u64 bme_to_open_us, bme_to_open_first_us;
};

/* When guest memory is pinned. */
enum dlend_prepin {
	DLEND_PREPIN_BME,	/* when the guest sets Bus Master Enable */
	DLEND_PREPIN_OPEN,	/* when the VMM opens the device, which borrows it too */
};

struct dlend_move_file;

/**
 * struct dlend_vdev_move - a VM that moves from one host to another, and keeps its device (move.c)
 * @lock: a change of @state, and @file; outermost
 * @state: of VFIO's migration; it changes under vdev->lock, too
 * @file: that the VMM reads or writes, or NULL
 *
 * Under vdev->lock:
 * @coming: the VM is still another host's
 * @refused: this host may not prepare for it, @why
 * @given: handed over: whoever shows the token owns the device
 * @told: how the last change of the node that may take over went: 0, or -errno
 * @arrived: all that the VMM carries along has come, and was taken
 * @has_token, @token: to take the device over with
 * @why: what went wrong
 *
 * Read without the lock, too (dlend_gate_note()):
 * @ready: on a VM's way to here: nothing is left to do before it comes
 * @settled: the lender has stopped the device, or knows that it may go on, as the VM does
 * @target_told: the lender knows which node may take the device over
 */
struct dlend_vdev_move {
	struct mutex lock;		/* @state, @file */
	enum vfio_device_mig_state state;
	struct dlend_move_file *file;
	bool coming, refused, given, arrived, has_token;
	bool ready, settled, target_told;
	int told;
	u8 token[DLEND_TOKEN_SIZE];
	char why[DLEND_REASON_LEN];
};

/* Settings of vdev->clique beside DLEND_CFG_CLIQUE_NONE and numbers. */
#define DLEND_CLIQUE_AUTO	(-2)	/* computed, for vendors whose drivers look for it */
#define DLEND_CLIQUE_ALWAYS	(-3)	/* computed, whatever the device is */

/**
 * struct dlend_vdev - a mediated device
 * @vfio: what VFIO has of it; its references are the vdev's
 * @mdev: what mdev has of it
 * @claim: its claim on the offer. @claim.lease is the lease in use, @claim.party the process that
 *	opened the device last; both are written under @lock
 * @info: the offer's description, as of open_device()
 * @rom, @rom_size: image of the expansion ROM, NULL = none; does not change while the mdev exists
 *
 * Under @lock:
 * @cfg: virtual configuration space
 * @clique: as set: DLEND_CFG_CLIQUE_NONE, 0..15, DLEND_CLIQUE_*
 * @clique_shown: what the guest sees
 * @clique_place: 0, or why its configuration space has no place for a clique
 * @p2p: what the VM's other devices must know
 * @prepin: as set; @prepinned: as it was when the device was opened
 * @lowmem: bytes: end of the guest's RAM below 4 GiB, 0 = to be found out
 * @open: a VMM has it open
 * @had_space: it got an address space since it was opened (iommufd)
 * @want: what guest and VMM asked for; @have: what the lender was told. The worker makes the second
 *	equal to the first; the gate is open only while they are equal
 * @ended: the last lease that ended without us, until it is returned: its pages may still be pinned
 * @failed: the device is of no use until it is reset; @reason says why
 * @errored: it has failed because the lender says that it had an error
 * @lost: the lease ended without us: only a reset or a new open tries again
 * @dma: the device may transfer: from the request for Bus Master Enable, until that bit is known to
 *	be off or the device reaches no memory of this node
 * @urgent: the next step is more urgent than a build that is under way
 * @behind: it may transfer, and there is RAM that it does not reach: dlend_plan_behind(); since
 *	@behind_at
 * @looks: it may look into holes of the VM's memory slots
 * @quiet: the device transfers nothing, or has stopped and was started again as the guest wants
 * @irq_need: vectors, of those that were asked for, without which the guest loses interrupts
 * @irq_gap: vectors could not be set up again: the next set-up signals all, for what was lost
 * @irq_busy: vectors are being set up, or will be
 * @irq_waiters: threads that wait for the outcome
 * @live: may an access to configuration space go to the device itself?
 * @live_after: not before then, as the lender did not answer the last one in time
 * @irq_short: how many vectors there are, if fewer than were asked for; else -1
 * @identity: of the device that is meant; "": any
 * @readrq: size of read requests after a reset, as encoded in Device Control
 * @unmapping: dma_unmap callbacks under way
 * @touched: bit 0: a BAR was accessed, the lease is wanted (set without @lock)
 * @vmm: who opened the device last
 * @patience: with the step that the worker tries again; @backoff_ms: how long it waited before the
 *	last try
 * @rescan_ms: until the next look at all of the guest's memory
 * @bme_at: when the guest turned Bus Master Enable on, until the gate opens
 * @work: the worker (steps.c)
 * @say: tells user space of a new state (condition.c)
 * @said: what user space knows: its first word; "": it may have read another one since
 * @slow_work, @look_work: look for memory that has come (guest_ram.c)
 * @idle_wq: something of the above has changed
 *
 * @watch_lock, @watch: the VM's memory is watched for it, from the first build on
 *
 * Under @bar_lock:
 * @gate: what a BAR access meets; @gate_wq: it has changed
 * @mse: the guest has memory decoding on
 * @dead, @dead_mapped, @dead_work: pages of 0xff, whether some are mapped, and who refills them
 * @shut_since: when the gate was shut, or its first waiter came
 * @progressed: when the windows last came a step further
 * @bar_phys: where this node's window leads to the BARs; 0: nowhere
 *
 * Under @io_lock:
 * @io_page, @io_phys: the page that trapped accesses go through
 *
 * @move: the VM moves, and the device stays
 * @irq: eventfds
 * @stat, @dir: debugfs
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
	int clique, clique_shown, clique_place;
	struct dlend_p2p_member p2p;
	enum dlend_prepin prepin;
	bool prepinned;
	u64 lowmem;
	bool open, had_space;
	struct dlend_wish want, have;
	struct dlend_lease *ended;
	u32 irq_need, readrq;
	char identity[DLEND_NODE_NAME_LEN];
	unsigned int irq_waiters;
	int irq_short;
	bool failed, errored, lost, irq_gap, irq_busy, dma, urgent, behind, looks, quiet;
	unsigned int unmapping;
	unsigned long touched;
	struct dlend_vmm vmm;
	unsigned int backoff_ms, rescan_ms;
	struct dlend_patience patience;
	enum dlend_live live;
	ktime_t bme_at, live_after, behind_at;
	char reason[DLEND_REASON_LEN];
	struct work_struct work;
	struct delayed_work say;
	char said[DLEND_CONDITION_WORD];
	struct delayed_work slow_work;
	struct work_struct look_work;
	struct mutex watch_lock;	/* @watch: it begins and ends */
	struct dlend_vm *watch;
	wait_queue_head_t idle_wq;

	struct rw_semaphore bar_lock;
	enum dlend_gate gate;
	bool mse, dead_mapped;
	ktime_t shut_since, progressed;
	phys_addr_t bar_phys[DLEND_NUM_REGIONS];
	wait_queue_head_t gate_wq;
	struct page *dead[DLEND_DEAD_PAGES];
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

/** dlend_vdev_dev - the mediated device, for messages. Context: any. */
static inline struct device *dlend_vdev_dev(struct dlend_vdev *v)
{
	return &v->mdev->dev;
}

/** dlend_vdev_lender - id of the node that the device sits in. Context: any. */
static inline u16 dlend_vdev_lender(const struct dlend_vdev *v)
{
	return dlend_offer_addr(v->claim.offer)->lender;
}

/** dlend_vdev_get - one more reference. Context: any. Return: @v */
static inline struct dlend_vdev *dlend_vdev_get(struct dlend_vdev *v)
{
	get_device(&v->vfio.device);
	return v;
}

/** dlend_vdev_put - one reference less. Context: process. */
static inline void dlend_vdev_put(struct dlend_vdev *v)
{
	put_device(&v->vfio.device);
}

/**
 * dlend_vdev_lease - the lease that a vdev has now
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock. Return: a reference, or NULL if there is no lease.
 */
static inline struct dlend_lease *dlend_vdev_lease(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return v->claim.lease ? dlend_lease_get(v->claim.lease) : NULL;
}

/** dlend_vdev_memory - the guest's memory under a lease, from grant to end. Context: any. */
static inline struct dlend_memory *dlend_vdev_memory(const struct dlend_lease *lease)
{
	return lease->priv;
}

/**
 * dlend_vdev_forget - nothing is wanted, and what was asked for is nobody's any more
 * @v: (in, out) vdev
 *
 * Context: vdev->lock.
 */
static inline void dlend_vdev_forget(struct dlend_vdev *v)
{
	v->want = (struct dlend_wish){ .vm = v->want.vm + 1 };
}

/** dlend_vdev_caller - the process that calls. Context: process. */
static inline struct dlend_party dlend_vdev_caller(void)
{
	return dlend_vmm_party(current->group_leader);
}

/** dlend_vdev_kick - have the worker look at what is wanted. Context: any. */
static inline void dlend_vdev_kick(struct dlend_vdev *v)
{
	queue_work(v->claim.wq, &v->work);
}

/** dlend_vdev_touch - somebody waits at the gate. Context: any; page faults call it. */
static inline void dlend_vdev_touch(struct dlend_vdev *v)
{
	if (test_and_set_bit(0, &v->touched))
		return;
	WRITE_ONCE(v->shut_since, ktime_get());
	dlend_vdev_kick(v);
}

#endif
