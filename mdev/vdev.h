/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Vdev: the mediated device that a VMM opens, made from an offer.  Knows nothing of NTB hardware,
 * nor how offers arrive.
 *
 * Locks, outermost first.  None is held while waiting for user space or for a peer, but for the
 * first, under which a VMM waits for its lender.
 *
 *   vdev->move.lock (mutex, move.c)	VFIO's migration states, and their files
 *   vdev->io_lock (mutex, bar.c)	trapped BAR accesses: held while one is made
 *   vdev->lock (mutex)			configuration space, desired and actual state, the lease
 *   vdev->bar_lock (rwsem, bar.c)	gate, window addresses; page faults read
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
#define DLEND_CONDITION_WORDS	64	/* bytes of what it says beside a reason */

/*
 * Regions of the VFIO device: the index stands in the upper bits of the file offset.  A region is
 * larger than the largest BAR, so an offset just behind that BAR is not in the next region yet.
 */
#define DLEND_REGION_SHIFT	41
#define DLEND_REGION_OFFSET(i)	((u64)(i) << DLEND_REGION_SHIFT)
#define DLEND_REGION_INDEX(pos)	((unsigned int)((u64)(pos) >> DLEND_REGION_SHIFT))
#define DLEND_REGION_POS(pos)	((u64)(pos) & (BIT_ULL(DLEND_REGION_SHIFT) - 1))
static_assert(BIT_ULL(DLEND_REGION_SHIFT) > DLEND_BAR_BYTES_MAX);

/**
 * struct dlend_irq_vec - an interrupt vector, as the VMM has set it up
 * @trigger: eventfd, or NULL
 * @latched: an interrupt came while there was no eventfd; INTx: or while it was masked or disabled
 * @producer, @producing: it is KVM's, if KVM wants it (irq.c); under vdev->lock
 * @count: interrupts that came
 */
struct dlend_irq_vec {
	struct eventfd_ctx *trigger;
	bool latched, producing;
	struct irq_bypass_producer producer;
	u64 count;
};

/**
 * struct dlend_irqs - eventfds of a vdev (irq.c)
 * @lock: all of it; taken in interrupt context
 * @mode: what the VMM has set up
 * @live: what the lender delivers; interrupts reach the VMM only while it equals @mode
 * @vec, @nvec: vectors of @mode (INTx: one)
 * @bypass: lease whose direct interrupts may be KVM's, or NULL (irq.c); under vdev->lock
 * @masked: INTx: no signal before the next unmask
 * @disabled: INTx: by the guest's COMMAND register
 * @owed: INTx: the lender waits for an IRQ_UNMASK
 * @unmask: resample eventfd
 * @special: eventfds for messages to the VMM itself: VFIO_PCI_ERR_IRQ_INDEX,
 *	VFIO_PCI_REQ_IRQ_INDEX; @specials: how many were sent
 * @unmask_work: sends the IRQ_UNMASK
 */
struct dlend_irqs {
	spinlock_t lock;		/* all of it; taken in interrupt context */
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

/* Numbers for debugfs; atomics because faults take no mutex. */
struct dlend_vdev_stat {
	atomic64_t faults[DLEND_NUM_BARS][3];	/* with pages of 4 KiB, 2 MiB, 1 GiB */
	atomic64_t fault_dead, fault_waits, trapped_reads, trapped_writes, trapped_timeouts;
	atomic64_t wait_longest_us;
	atomic64_t live_missed;
	u64 gate_shuts;
	u64 borrows, returns, resets, builds, build_retries, grows;
	u64 bme_to_open_us;
};

struct dlend_move_file;

/**
 * struct dlend_vdev_move - a VM that moves from one host to another, and keeps its device (move.c)
 * @lock: @state, @file and what is in it, @arrived; outermost
 * @state: of VFIO's migration; it changes under vdev->lock, too
 * @file: that the VMM reads or writes, or NULL
 * @arrived: all that the VMM carries along has come, and was taken
 *
 * Under vdev->lock:
 * @given: handed over: the node that shows the token owns the device
 * @told: how the last change of the node that may take over went: 0, or -errno
 * @has_token, @token: to take the device over with
 * @why: what went wrong
 */
struct dlend_vdev_move {
	struct mutex lock;		/* down to @arrived */
	enum vfio_device_mig_state state;
	struct dlend_move_file *file;
	bool arrived;
	bool given, has_token;
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
 * @clique_wanted: a number, DLEND_CLIQUE_ALWAYS, or DLEND_CFG_CLIQUE_NONE; as it was opened
 * @p2p: what the VM's other devices must know
 * @prepin: as set: guest memory is pinned when the VMM opens the device, which borrows it too; not
 *	only when the guest sets Bus Master Enable
 * @lowmem: bytes: end of the guest's RAM below 4 GiB, 0 = to be found out
 * @had_space: it got an address space since it was opened (iommufd)
 * @want: what guest and VMM asked for; @have: what the lender was told.  The worker makes the
 *	second equal to the first.  @asked: @want as the worker's present step began; the worker
 *	reads it without @lock, too
 * @now: what else counts; dlend_vdev_update() fills in what others know better.
 *	@now.failed: @reason says why; @now.refused: @move.why says why; @now.prepin: @prepin as it
 *	was when the device was opened; @now.dma: from the request for Bus Master Enable, until that
 *	bit is known to be off or the device reaches no memory of this node
 * @is: what follows from all of these (dlend_vdev_update()); it is read without @lock, too
 * @ended: the last lease that ended without us, until it is returned: its pages may still be pinned
 * @errored: it has failed because the lender says that it had an error
 * @lost: the lease ended without us: only a reset or a new open tries again
 * @behind_at: since when there is RAM that it does not reach
 * @irq_need: vectors, of those that were asked for, without which the guest loses interrupts
 * @irq_gap: vectors could not be set up again: the next set-up signals all, for what was lost
 * @irq_waiters: threads that wait for the outcome
 * @live_after: until then no access to configuration space goes to the device itself, as the lender
 *	did not answer the last one in time
 * @irq_short: how many vectors there are, if fewer than were asked for; else -1
 * @identity: of the device that is meant; "": any
 * @readrq: size of read requests after a reset, as encoded in Device Control
 * @unmapping: dma_unmap callbacks under way
 * @touched: bit 0: a BAR was accessed, the lease is wanted (set without @lock)
 * @vmm: who opened the device last
 * @patience: with the step that the worker tries again
 * @rescan_ms: until the next look at all of the guest's memory
 * @bme_at: when the guest turned Bus Master Enable on, until the gate opens
 * @work: the worker (vdev.c)
 * @say: tells user space of a new state
 * @said: what user space knows: its first word; "": it may have read another one since
 * @slow_work, @look_work: look for memory that has come (guest_ram.c)
 * @idle_wq: something of the above has changed
 *
 * Under @bar_lock:
 * @gate: what a BAR access meets; @gate_wq: it has changed
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
	int clique, clique_shown, clique_wanted;
	struct dlend_p2p_member p2p;
	bool prepin;
	u64 lowmem;
	bool had_space;
	struct dlend_wish want, have, asked;
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
	struct delayed_work say;
	char said[DLEND_CONDITION_WORD];
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

/* For __free(): a variable's reference on a lease goes with the variable. */
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

/** dlend_vdev_memory - the guest's memory under a lease, from grant to end. Context: any. */
static inline struct dlend_memory *dlend_vdev_memory(const struct dlend_lease *lease)
{
	return lease->priv;
}

/** dlend_vdev_caller - the process that calls. Context: process. */
static inline struct dlend_party dlend_vdev_caller(void)
{
	return dlend_vmm_party(current->group_leader);
}

/** dlend_vdev_kick - have the worker look for a step. Context: any. */
static inline void dlend_vdev_kick(struct dlend_vdev *v)
{
	queue_work(v->claim.wq, &v->work);
}

/** dlend_vdev_touch - an access waits at the gate. Context: any; page faults call it. */
static inline void dlend_vdev_touch(struct dlend_vdev *v)
{
	if (test_and_set_bit(0, &v->touched))
		return;
	WRITE_ONCE(v->shut_since, ktime_get());
	dlend_vdev_kick(v);
}

/* bar.c: BARs, as a VMM maps or accesses them */

/** dlend_bar_open - a VMM opens the device. Context: process. Return: 0, -ENOMEM. */
int dlend_bar_open(struct dlend_vdev *v);

/** dlend_bar_close - the end of dlend_bar_open(); no mapping is left. Context: may sleep. */
void dlend_bar_close(struct dlend_vdev *v);

/**
 * dlend_bar_set_gate - what BAR accesses meet from now on
 * @v: (in) vdev
 * @gate: (in) gate
 * @bar: (in) windows onto the BARs; NULL: none
 *
 * When this returns, no access goes through that the new gate does not allow. Context: process,
 * vdev->lock is held; takes bar_lock.
 */
void dlend_bar_set_gate(struct dlend_vdev *v, enum dlend_gate gate, const struct dlend_window *bar);

/** dlend_bar_revoked - cut off a BAR: &struct dlend_claim_ops.bar_revoked; takes bar_lock */
void dlend_bar_revoked(struct dlend_claim *claim, unsigned int index);

/** dlend_bar_mmap - map a BAR, or a part of one, lazily. Context: mmap_lock. Return: 0, -EINVAL. */
int dlend_bar_mmap(struct vfio_device *vfio, struct vm_area_struct *vma);

/**
 * dlend_bar_rw - a trapped access
 * @v: (in) vdev
 * @at: (in) offset in the file: the BAR, and the offset in it (DLEND_REGION_*)
 * @buf: (in, out) user memory
 * @count: (in) bytes
 * @write: (in) true: write to the BAR, false: read from it
 *
 * If no device answers, a read gives 0xff. Context: process; waits for the device.
 * Return: bytes done, at least one; -EINVAL beyond the BAR; -EFAULT.
 */
ssize_t dlend_bar_rw(struct dlend_vdev *v, u64 at, char __user *buf, size_t count, bool write);

/** dlend_bar_size - bytes of a BAR, 0 = none. Context: any. */
u64 dlend_bar_size(const struct dlend_vdev *v, unsigned int index);

/**
 * dlend_bar_areas - the parts of a BAR that can be mapped, without the MSI-X pages
 * @v: (in) vdev
 * @index: (in) BAR
 * @area: (out) parts, in order
 *
 * Context: any. Return: their number, 0 to DLEND_MAX_AREAS; 1 with the whole BAR if nothing must be
 * left out.
 */
unsigned int dlend_bar_areas(const struct dlend_vdev *v, unsigned int index,
			     struct dlend_range area[DLEND_MAX_AREAS]);

/** dlend_vdev_offered_clique - DLEND_OFFER_CLIQUE* as vdev->clique has it. Context: any. */
static inline int dlend_vdev_offered_clique(u16 clique)
{
	if (clique == DLEND_OFFER_CLIQUE_AUTO)
		return DLEND_CLIQUE_AUTO;
	if (clique == DLEND_OFFER_CLIQUE_NONE)
		return DLEND_CFG_CLIQUE_NONE;
	return clique - DLEND_OFFER_CLIQUE(0);
}

/* irq.c: interrupts, as VFIO shows them */

/** dlend_irqs_init - prepare a new vdev. Context: any. */
void dlend_irqs_init(struct dlend_vdev *v);

/** dlend_irqs_close - the last file is closed: signal nothing any more. Context: may sleep. */
void dlend_irqs_close(struct dlend_vdev *v);

/** dlend_irqs_count - number of interrupts of VFIO's @index. Context: any. */
unsigned int dlend_irqs_count(struct dlend_vdev *v, unsigned int index);

/**
 * dlend_irqs_set - VFIO_DEVICE_SET_IRQS for INTx, MSI or MSI-X
 * @v: (in, out) vdev
 * @hdr: (in) checked against the number of interrupts
 * @data: (in) as many values as @hdr says; NULL if it has none
 *
 * What the lender has to set up for that is noted as wanted. Context: process, vdev->lock.
 * Return: 0 or -errno.
 */
int dlend_irqs_set(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data);

/** dlend_irqs_set_special - the same for messages to the VMM itself. Context: process. */
int dlend_irqs_set_special(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data);

/**
 * dlend_irqs_too_few - the lender has fewer vectors than dlend_irqs_set() has asked for
 * @v: (in, out) vdev
 * @hdr: (in) as there
 * @possible: (in) how many it has; or -ENOSPC: none
 *
 * If that is enough for the vectors that worked before, they still do, and the VMM does not get
 * those of @hdr (-ENOSPC).  If not, no vector is left, and the VMM asks for fewer from the
 * beginning (Return: @possible). Context: process, vdev->lock.
 */
int dlend_irqs_too_few(struct dlend_vdev *v, const struct vfio_irq_set *hdr, int possible);

/** dlend_irqs_fired - interrupts have come: &struct dlend_claim_ops.interrupt */
void dlend_irqs_fired(struct dlend_claim *claim, u32 vector, u32 count, bool direct);

/**
 * dlend_irqs_live - what the lender delivers from now on
 * @v: (in) vdev
 * @mode: (in) interrupts
 * @resized: (in) their number has changed, and some may be lost: signal every vector once
 *
 * Context: process.
 */
void dlend_irqs_live(struct dlend_vdev *v, enum dlend_irq_mode mode, bool resized);

/** dlend_irqs_disable_intx - the guest's COMMAND turns INTx off, or on. Context: process. */
void dlend_irqs_disable_intx(struct dlend_vdev *v, bool disable);

/**
 * dlend_irqs_signal - send the VMM itself a message
 * @v: (in) vdev
 * @index: (in) VFIO_PCI_ERR_IRQ_INDEX or VFIO_PCI_REQ_IRQ_INDEX
 *
 * Context: process. Return: does the VMM listen?
 */
bool dlend_irqs_signal(struct dlend_vdev *v, unsigned int index);

/**
 * dlend_bypass_begin - direct interrupts of a lease are set up: KVM may have them
 * @v: (in) vdev
 * @lease: (in) lease, until dlend_bypass_end()
 *
 * Nothing happens for those that come by the doorbell. Context: process, under vdev->lock.
 */
void dlend_bypass_begin(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_bypass_end - all come to this host's handlers again when this returns
 * @v: (in) vdev; that none was KVM's is fine
 *
 * Before dlend_lease_irq_setup(), and before the lease may end. Context: as dlend_bypass_begin().
 */
void dlend_bypass_end(struct dlend_vdev *v);

/* state.c: desired and actual state.  [locked], unless a function says another */

/** dlend_vdev_describe - how it is set up, for the VM's other devices: into @dev */
void dlend_vdev_describe(struct dlend_vdev *v, struct dlend_p2p_dev *dev);

/**
 * dlend_vdev_update - something about it has changed: what follows from that?
 * @v: (in, out) vdev
 *
 * Works out vdev->is, opens or shuts the gate, tells the VM's other devices, wakes those who wait
 * for the device, and starts the worker if there is a step to do.  Once this has shut the gate, no
 * access of the guest reaches the device.
 */
void dlend_vdev_update(struct dlend_vdev *v);

/**
 * dlend_vdev_apply_cfg - INTx and the size of read requests are as the guest's configuration space
 *	has them
 * @v: (in, out) vdev; dlend_vdev_update() follows
 */
void dlend_vdev_apply_cfg(struct dlend_vdev *v);

/* Module parameter: is the VMM told when a link is lost or a lease ends? */
extern bool dlend_stop_on_loss;

/**
 * dlend_condition_fail - the device is of no use to the guest from now on
 * @v: (in) vdev
 * @tell: (in) tell the VMM, too, by the error eventfd
 * @fmt: (in) why, for the log and for sysfs
 */
__printf(3, 4) void dlend_condition_fail(struct dlend_vdev *v, bool tell, const char *fmt, ...);

/** dlend_condition_clear - a device that has failed gets another chance */
void dlend_condition_clear(struct dlend_vdev *v);

/** dlend_condition_say_work - vdev->say */
void dlend_condition_say_work(struct work_struct *work);

/**
 * dlend_condition_say - tell user space of the condition, if it is another one, soon
 * @v: (in) vdev
 *
 * Context: any.
 */
void dlend_condition_say(struct dlend_vdev *v);

/**
 * dlend_condition_text - "idle", "borrowing", "building", "running", "failed", "stopped" or
 *	"prepared", and a reason
 * @v: (in) vdev
 * @buf: (out) text
 * @size: (in) bytes of @buf
 */
void dlend_condition_text(struct dlend_vdev *v, char *buf, size_t size);

/* The end of a lease.  Context: process, and takes vdev->lock, unless a function says another. */

/**
 * dlend_ended_with_pins - the lease under which pages may be pinned
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock. Return: a reference on the lease in use, or on the one that
 * ended; NULL if there is neither.
 */
struct dlend_lease *dlend_ended_with_pins(struct dlend_vdev *v);

/**
 * dlend_ended_give_up - another VM is to have the device, or none: a lease goes back
 * @v: (in, out) vdev
 *
 * That is the lease in use, and the one that the lender was asked for.  The one in use is kept as
 * vdev->ended. Context: [locked]. Return: the one that was kept before, or NULL; to be put without
 * the lock.
 */
struct dlend_lease *dlend_ended_give_up(struct dlend_vdev *v);

/**
 * dlend_ended_leave - the VM does not need the device any more: its lease goes back
 * @v: (in) vdev that is being closed, or whose VMM dies
 *
 * Context: process, may sleep; takes vdev->lock; does not wait.
 */
void dlend_ended_leave(struct dlend_vdev *v);

/**
 * dlend_ended_drop - unpin all that is still pinned under a lease that has ended
 * @v: (in) vdev that is being closed
 *
 * Context: process, may sleep; takes vdev->lock.
 */
void dlend_ended_drop(struct dlend_vdev *v);

/**
 * dlend_ended_forget - @lease has ended, and nothing is pinned under it any more
 * @v: (in) vdev
 * @lease: (in) lease
 *
 * Context: process, may sleep; takes vdev->lock.
 */
void dlend_ended_forget(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_ended_lose - the lease has ended without us
 * @v: (in) vdev
 * @only: (in) lease; nothing happens if the vdev has another one by now. NULL: whichever it has
 * @why: (in) for the log and sysfs
 *
 * If its session is over, the peer cannot reach this node's memory through it when this returns.
 * Context: process, may sleep; takes vdev->lock; waits for no peer.
 */
void dlend_ended_lose(struct dlend_vdev *v, struct dlend_lease *only, const char *why);

/**
 * dlend_ended_link_down - the link to the lender is down: &struct dlend_claim_ops.link_down
 * @claim: (in) claim of a vdev
 *
 * As dlend_ended_lose(), also for a lease that had ended before and is not returned yet.
 */
void dlend_ended_link_down(struct dlend_claim *claim);

/* guest_ram.c: a guest's memory comes and goes while its device is borrowed */

/** dlend_guest_init - prepare a new vdev. Context: any. */
void dlend_guest_init(struct dlend_vdev *v);

/** dlend_guest_stop - the device is being closed: nobody looks for memory. Context: may sleep. */
void dlend_guest_stop(struct dlend_vdev *v);

/**
 * dlend_guest_memory_create - memory of the guest, to be pinned under a lease
 * @v: (in) vdev
 * @lease: (in) lease
 *
 * Context: process. Return: as dlend_memory_create().
 */
struct dlend_memory *dlend_guest_memory_create(struct dlend_vdev *v,
					       const struct dlend_lease *lease);

/**
 * dlend_guest_passed_emit - BARs of devices that this host itself passes through to the VM
 * @v: (in) vdev
 * @buf: (in, out) a page for sysfs: a line for each range of them
 * @at: (in) bytes in @buf
 *
 * Context: process, may sleep; takes vdev->lock. Return: bytes in @buf, or -ENOMEM.
 */
ssize_t dlend_guest_passed_emit(struct dlend_vdev *v, char *buf, int at);

/**
 * dlend_guest_rescan_soon - a build may have missed memory that was away for just that moment
 * @v: (in) vdev
 *
 * All of the guest's memory is looked at again soon, and then less and less often. Context:
 * vdev->lock.
 */
void dlend_guest_rescan_soon(struct dlend_vdev *v);

/**
 * dlend_guest_look - look into holes of the memory slots now, as the gate opens
 * @v: device, which does DMA or is about to
 * @lease: (in) its lease
 *
 * While the gate was shut nobody looked, and the guest has had the time to take memory into use.
 * If there is some, the gate stays shut until the next build has it. Context: the worker.
 */
void dlend_guest_look(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_guest_rescan - look at all of the guest's memory. Context: process; takes vdev->lock. */
void dlend_guest_rescan(struct dlend_vdev *v);

/** dlend_guest_attach_ioas - &struct vfio_device_ops.attach_ioas; -EBUSY: pages may be pinned */
int dlend_guest_attach_ioas(struct vfio_device *vfio, u32 *pt_id);

/** dlend_guest_detach_ioas - &struct vfio_device_ops.detach_ioas; no pin is left there after it */
void dlend_guest_detach_ioas(struct vfio_device *vfio);

/**
 * dlend_guest_vmm_exits - the VMM dies and closes the device: all others of its VM end
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock of each; waits for nobody.
 */
void dlend_guest_vmm_exits(struct dlend_vdev *v);

/**
 * dlend_guest_dma_unmap - the VMM takes memory away
 * @vfio: (in) what VFIO has of the vdev
 * @iova, @size: (in) guest-physical range in bytes
 *
 * When this returns, the device cannot reach this node's memory there, and the pages are unpinned;
 * all else follows later. Context: VFIO's dma_unmap; waits for no peer.
 */
void dlend_guest_dma_unmap(struct vfio_device *vfio, u64 iova, u64 size);

/* move.c: a VM moves from one host to another, and its device stays where it is */

extern const struct vfio_migration_ops dlend_move_ops;

/** dlend_move_forget - whatever moved does not any more. Context: vdev->lock. */
void dlend_move_forget(struct dlend_vdev *v);

/**
 * dlend_move_close - the VMM closes or resets the device: its files are dead, and its VM runs here
 * @v: (in) vdev
 *
 * Context: process, none of the vdev's locks.
 */
void dlend_move_close(struct dlend_vdev *v);

/**
 * dlend_move_set_target - which node may take the device over
 * @v: (in) vdev
 * @text: (in) what was written to move_to: a node id, or DLEND_NODE_NONE; behind it the words "cut"
 *	(also if the device is never quiet) and "all" (the VMM sends all of the VM's memory after
 *	the VM has stopped, so it need not be told what the device has written before)
 *
 * Context: process, none of the vdev's locks; waits for the lender, if the device is borrowed.
 * Return: 0; -EINVAL other words; -ENODEV no VM has it open; -EOPNOTSUPP, -EMLINK, -EINVAL as dlend_lease_move_to();
 * -EOPNOTSUPP also where the VMM would not carry along what the device writes; -EPERM where it
 * would not pass on the guest's INTx; -ETIMEDOUT.
 */
int dlend_move_set_target(struct dlend_vdev *v, const char *text);

/* Steps of a move, made for vdev->asked.  Context: the worker, none of the vdev's locks. */

/** dlend_move_step_to - tell the lender which node may take the device of @v over */
void dlend_move_step_to(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_quiesce - the VM stands still: stop the device */
void dlend_move_step_quiesce(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_run - the VM goes on here */
void dlend_move_step_run(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_take_over - the VM has come, and goes on here */
void dlend_move_step_take_over(struct dlend_vdev *v, struct dlend_lease *lease);

/* vdev.c: the worker, and what the lender tells of */

/* What the borrower calls, for the claim of a vdev. */
extern const struct dlend_claim_ops dlend_borrow_claim_ops;

/** dlend_step_work - the worker, vdev->work */
void dlend_step_work(struct work_struct *work);

/* vfio.c */
extern const struct vfio_device_ops dlend_vfio_ops;

#endif
