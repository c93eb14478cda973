/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Vdev: the mediated device that a VMM opens.  It is made from an offer.  It knows nothing of NTB
 * hardware, nor how offers arrive.
 *
 * Locks, outermost first.  Only under the first does a thread wait for a peer: a VMM that moves its
 * VM waits for the lender there.
 *
 *   vdev->move.lock (mutex, move.c)	VFIO's migration states, and their files
 *   vdev->io_lock (mutex, bar.c)	trapped BAR accesses: held while one is made
 *   vdev->lock (mutex)			configuration space, desired and actual state, the lease
 *   vdev->bar_lock (rwsem, bar.c)	gate, window addresses; page faults read
 *   vdev->irq.lock (spinlock, irq.c)	eventfds; also taken by the link's interrupt handler
 *
 * The borrower's locks (borrower/offer.h) are taken under vdev->lock.
 *
 * "[locked]" at a function means that vdev->lock is held.  A page fault comes with mmap_lock held,
 * so it takes bar_lock only.  Pinning (dlend_memory_*()) takes the container's locks and mmap_lock,
 * so it is called with none of the locks above; a reference on the lease keeps its memory alive.
 * When a dma_unmap of one device takes memory from others of the VM, these are told with locks of
 * the memory held, outside vdev->lock.
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
 * Regions of the VFIO device: the upper bits of the file offset are the index.  A region is larger
 * than the largest BAR, so that an offset just behind that BAR is not in the next region.
 */
#define DLEND_REGION_SHIFT	41
#define DLEND_REGION_OFFSET(i)	((u64)(i) << DLEND_REGION_SHIFT)
#define DLEND_REGION_INDEX(pos)	((unsigned int)((u64)(pos) >> DLEND_REGION_SHIFT))
#define DLEND_REGION_POS(pos)	((u64)(pos) & (BIT_ULL(DLEND_REGION_SHIFT) - 1))
static_assert(BIT_ULL(DLEND_REGION_SHIFT) > DLEND_BAR_BYTES_MAX);

/**
 * struct dlend_irq_vec - an interrupt vector, as the VMM has set it up
 * @trigger: eventfd, or NULL
 * @latched: an interrupt has come that could not be signalled: there was no eventfd, or INTx was
 *	masked or disabled
 * @producer, @producing: how KVM gets the vector, and whether it is registered there (irq.c); under
 *	vdev->lock
 * @count: interrupts that have come
 */
struct dlend_irq_vec {
	struct eventfd_ctx *trigger;
	bool latched, producing;
	struct irq_bypass_producer producer;
	u64 count;
};

/**
 * struct dlend_irqs - eventfds of a vdev (irq.c)
 * @lock: all members; interrupt handlers take it
 * @mode: what the VMM has set up
 * @live: what the lender delivers; interrupts reach the VMM only while @live equals @mode
 * @vec, @nvec: vectors of @mode (INTx: one)
 * @bypass: lease whose direct interrupts may be KVM's, or NULL (irq.c); under vdev->lock
 * @masked: INTx is signalled again only after the next unmask
 * @disabled: the guest's COMMAND register has INTx disabled
 * @owed: the lender waits for an IRQ_UNMASK of INTx
 * @unmask: eventfd by which KVM unmasks INTx (resample)
 * @special: eventfds for messages to the VMM itself: VFIO_PCI_ERR_IRQ_INDEX,
 *	VFIO_PCI_REQ_IRQ_INDEX; @specials: how many were sent
 * @unmask_work: sends the IRQ_UNMASK
 */
struct dlend_irqs {
	spinlock_t lock;		/* all members */
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

/* Numbers for debugfs.  Some are atomic because page faults take no mutex. */
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
 * struct dlend_vdev_move - a VM moves from one host to another, and keeps its device (move.c)
 * @lock: @state, @file and its contents, @arrived; outermost
 * @state: VFIO's migration state; whoever changes it holds vdev->lock, too
 * @file: the file that the VMM reads or writes now, or NULL
 * @arrived: the whole stream has come and was accepted
 *
 * Under vdev->lock:
 * @given: this host has handed the device over: the node that shows the token owns it
 * @told: how the lender took the last node that was named: 0, or -errno
 * @has_token, @token: what the device is taken over with
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
 * @vfio: VFIO's part; references on the vdev are on this
 * @mdev: mdev's part
 * @claim: its claim on the offer. @claim.lease is the lease in use, @claim.user the process that
 *	opened the device last; both are written under @lock
 * @info: description of the offer when the device was opened
 * @rom, @rom_size: image of the expansion ROM, or NULL; it stays as long as the mdev exists
 *
 * Under @lock:
 * @cfg: virtual configuration space
 * @clique: the setting: DLEND_CFG_CLIQUE_NONE, 0..15, DLEND_CLIQUE_*
 * @clique_shown: the clique that the guest sees
 * @clique_wanted: the setting when the device was opened, with the lender's instead of
 *	DLEND_CLIQUE_AUTO
 * @p2p: what the borrower knows of it as a device of its VM
 * @prepin: the setting: the device is borrowed and guest memory is pinned when the VMM opens the
 *	device, not only when the guest sets Bus Master Enable
 * @lowmem: the setting: end of the guest's RAM below 4 GiB, in bytes; 0: it is found out
 * @had_space: the device got an address space since it was opened (iommufd)
 * @desired: what guest and VMM asked for; @actual: what the lender was told.  The worker makes
 *	@actual equal to @desired.  @asked: @desired when the worker's present step began; the
 *	worker reads it without @lock, too
 * @now: what else counts. dlend_vdev_update() fills in what is kept elsewhere.
 *	@now.failed: @reason says why. @now.refused: @move.why says why. @now.prepin: @prepin when
 *	the device was opened. @now.dma is set from the request for Bus Master Enable, until that
 *	bit is known to be off or the device reaches no memory of this node
 * @is: what follows from all of these (dlend_vdev_update()); it is read without @lock, too
 * @ended: the last lease that ended before this vdev gave it back. Its pages may still be pinned,
 *	until it is returned
 * @errored: the device has failed because its lender reported an error
 * @lost: the device has failed because its lease ended: only a reset or a new open tries again
 * @behind_at: since when there is RAM that the device does not reach
 * @irq_need: vectors, of those that were asked for, without which the guest loses interrupts
 * @irq_gap: vectors could not be set up again: the next set-up signals all, as some may be lost
 * @irq_waiters: threads that wait until interrupts are set up
 * @irq_short: how many vectors there are, if fewer than were asked for; else -1
 * @live_after: the lender did not answer in time: no read of configuration space goes to the device
 *	before this time
 * @identity: the setting: identity of the device; "": any
 * @readrq: Max_Read_Request_Size after a reset, as Device Control encodes it
 * @unmapping: dma_unmap callbacks under way
 * @touched: bit 0: an access waits for the device; set without @lock
 * @vmm: who opened the device last
 * @patience: with a step that the worker tries again
 * @rescan_ms: time until the next look at all of the guest's memory
 * @bme_at: when the guest turned Bus Master Enable on; 0 once the gate has opened
 * @work: the worker (vdev.c)
 * @say: tells user space of a new state
 * @said: the first word of the state that user space was told last; "": user space may have read
 *	another one since
 * @slow_work, @look_work: look for memory that has come (guest_ram.c)
 * @idle_wq: woken when any member above has changed
 *
 * Under @bar_lock:
 * @gate: what a BAR access meets; @gate_wq is woken when it changes
 * @dead, @dead_mapped, @dead_work: pages of 0xff, whether some are mapped, and the work that
 *	refills them
 * @shut_since: when the gate was shut, or when its first waiter came
 * @progressed: when the windows last grew
 * @bar_phys: where this node reaches the BARs through its window; 0: nowhere
 *
 * Under @io_lock:
 * @io_page, @io_phys: the page that trapped accesses go through
 *
 * @move: the move of its VM to or from another host
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

/** dlend_vdev_lender - node id of the device's lender. Context: any. */
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

/** dlend_vdev_memory - memory of the guest that a lease has, all its life. Context: any. */
static inline struct dlend_memory *dlend_vdev_memory(const struct dlend_lease *lease)
{
	return lease->priv;
}

/** dlend_vdev_caller - the calling process. Context: process. */
static inline struct dlend_user dlend_vdev_caller(void)
{
	return dlend_vmm_user(current->group_leader);
}

/** dlend_vdev_kick - have the worker look for a step. Context: any. */
static inline void dlend_vdev_kick(struct dlend_vdev *v)
{
	queue_work(v->claim.wq, &v->work);
}

/** dlend_vdev_touch - an access waits for the device. Context: any; page faults call it. */
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

/** dlend_bar_close - the VMM has closed it, and has no mapping left. Context: may sleep. */
void dlend_bar_close(struct dlend_vdev *v);

/**
 * dlend_bar_set_gate - change what BAR accesses meet
 * @v: (in) vdev
 * @gate: (in) gate
 * @bar: (in) windows onto the BARs; NULL: none
 *
 * When this returns, only accesses that the new gate allows go through. Context: process;
 * vdev->lock is held; takes bar_lock.
 */
void dlend_bar_set_gate(struct dlend_vdev *v, enum dlend_gate gate, const struct dlend_window *bar);

/** dlend_bar_revoked - is &struct dlend_claim_ops.bar_revoked. Context: takes bar_lock. */
void dlend_bar_revoked(struct dlend_claim *claim, unsigned int index);

/** dlend_bar_mmap - map a BAR, or a part, by page fault. Context: mmap_lock. Return: 0, -EINVAL. */
int dlend_bar_mmap(struct vfio_device *vfio, struct vm_area_struct *vma);

/**
 * dlend_bar_rw - make a trapped access
 * @v: (in) vdev
 * @at: (in) offset in the file: the BAR and the offset in it (DLEND_REGION_*)
 * @buf: (in, out) user memory
 * @count: (in) bytes
 * @write: (in) true: write to the BAR, false: read from it
 *
 * A read gives 0xff if no device answers. Context: process; waits for the device.
 * Return: bytes done, at least one; -EINVAL beyond the BAR; -EFAULT.
 */
ssize_t dlend_bar_rw(struct dlend_vdev *v, u64 at, char __user *buf, size_t count, bool write);

/** dlend_bar_size - bytes of a BAR; 0: there is none. Context: any. */
u64 dlend_bar_size(const struct dlend_vdev *v, unsigned int index);

/**
 * dlend_bar_areas - find the parts of a BAR that can be mapped: not the pages of MSI-X
 * @v: (in) vdev
 * @index: (in) BAR
 * @area: (out) parts, in order
 *
 * Context: any. Return: number of parts, 0 to DLEND_MAX_AREAS. If nothing must be left out, the BAR
 * is one part.
 */
unsigned int dlend_bar_areas(const struct dlend_vdev *v, unsigned int index,
			     struct dlend_range area[DLEND_MAX_AREAS]);

/** dlend_vdev_offered_clique - DLEND_OFFER_CLIQUE* as a value of vdev->clique. Context: any. */
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

/** dlend_irqs_close - the VMM has closed it: signal nothing any more. Context: may sleep. */
void dlend_irqs_close(struct dlend_vdev *v);

/** dlend_irqs_count - number of interrupts of VFIO's @index. Context: any. */
unsigned int dlend_irqs_count(struct dlend_vdev *v, unsigned int index);

/**
 * dlend_irqs_set - do VFIO_DEVICE_SET_IRQS for INTx, MSI or MSI-X
 * @v: (in, out) vdev
 * @hdr: (in) checked against the number of interrupts
 * @data: (in) as many values as @hdr says; NULL if it has none
 *
 * Notes in vdev->desired what the lender has to set up. Context: process, vdev->lock.
 * Return: 0 or -errno.
 */
int dlend_irqs_set(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data);

/** dlend_irqs_set_special - the same, for messages to the VMM itself. Context: process. */
int dlend_irqs_set_special(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data);

/**
 * dlend_irqs_too_few - the lender has fewer vectors than dlend_irqs_set() has asked for
 * @v: (in, out) vdev
 * @hdr: (in) as there
 * @possible: (in) how many it has; -ENOSPC: none
 *
 * Context: process, vdev->lock. Return: -ENOSPC: @possible is enough for the vectors that worked
 * before, which still do, and the VMM does not get those of @hdr. @possible: no vector is left, and
 * the VMM asks for fewer from the beginning.
 */
int dlend_irqs_too_few(struct dlend_vdev *v, const struct vfio_irq_set *hdr, int possible);

/** dlend_irqs_fired - is &struct dlend_claim_ops.interrupt */
void dlend_irqs_fired(struct dlend_claim *claim, u32 vector, u32 count, bool direct);

/**
 * dlend_irqs_live - note what the lender delivers from now on
 * @v: (in) vdev
 * @mode: (in) interrupts
 * @resized: (in) some may be lost, as their number has changed: signal every vector once
 *
 * Context: process.
 */
void dlend_irqs_live(struct dlend_vdev *v, enum dlend_irq_mode mode, bool resized);

/** dlend_irqs_disable_intx - the guest's COMMAND disables INTx, or not. Context: process. */
void dlend_irqs_disable_intx(struct dlend_vdev *v, bool disable);

/**
 * dlend_irqs_signal - send a message to the VMM itself
 * @v: (in) vdev
 * @index: (in) VFIO_PCI_ERR_IRQ_INDEX or VFIO_PCI_REQ_IRQ_INDEX
 *
 * Context: process. Return: does the VMM listen?
 */
bool dlend_irqs_signal(struct dlend_vdev *v, unsigned int index);

/**
 * dlend_bypass_begin - offer KVM the direct interrupts of a lease, which are set up now
 * @v: (in) vdev
 * @lease: (in) lease; it stays until dlend_bypass_end()
 *
 * Interrupts that come by the doorbell are not offered. Context: process, vdev->lock.
 */
void dlend_bypass_begin(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_bypass_end - take back from KVM what dlend_bypass_begin() has offered, if anything
 * @v: (in) vdev
 *
 * When this returns, all interrupts come to this host's handlers. To be called before
 * dlend_lease_irq_setup(), and before the lease may end. Context: process, vdev->lock.
 */
void dlend_bypass_end(struct dlend_vdev *v);

/* state.c: desired and actual state.  Context, if a function does not say: [locked] */

/** dlend_vdev_describe - fill @dev: how the device is set up, for the VM's other devices */
void dlend_vdev_describe(struct dlend_vdev *v, struct dlend_p2p_dev *dev);

/**
 * dlend_vdev_update - act on a change of what is wanted, or of what the device has
 * @v: (in, out) vdev
 *
 * Works out vdev->is, opens or shuts the gate, tells the VM's other devices, wakes threads that
 * wait for the device, and starts the worker if there is a step to make.  After this has shut the
 * gate, no access of the guest reaches the device.
 */
void dlend_vdev_update(struct dlend_vdev *v);

/* Module parameter: is the VMM told when a link is lost or a lease ends? */
extern bool dlend_stop_on_loss;

/**
 * dlend_condition_fail - the device is of no use to the guest from now on
 * @v: (in) vdev
 * @tell: (in) tell the VMM, too, by the error eventfd
 * @fmt: (in) why, for the log and for sysfs
 */
__printf(3, 4) void dlend_condition_fail(struct dlend_vdev *v, bool tell, const char *fmt, ...);

/** dlend_condition_clear - give a device that has failed another chance */
void dlend_condition_clear(struct dlend_vdev *v);

/** dlend_condition_say_work - the function of vdev->say */
void dlend_condition_say_work(struct work_struct *work);

/**
 * dlend_condition_say - tell user space of the condition soon, if it has changed
 * @v: (in) vdev
 *
 * Context: any.
 */
void dlend_condition_say(struct dlend_vdev *v);

/**
 * dlend_condition_text - describe the condition: "idle", "taken", "borrowing", "building",
 *	"running", "failed", "stopped" or "prepared", and a reason
 * @v: (in) vdev
 * @buf: (out) text
 * @size: (in) bytes of @buf
 */
void dlend_condition_text(struct dlend_vdev *v, char *buf, size_t size);

/* The end of a lease */

/**
 * dlend_ended_with_pins - get the lease under which pages may be pinned
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock. Return: a reference on the lease in use, or on the one that
 * ended; NULL if there is neither.
 */
struct dlend_lease *dlend_ended_with_pins(struct dlend_vdev *v);

/**
 * dlend_ended_give_up - give the lease back: another VM is to have the device, or none
 * @v: (in, out) vdev
 *
 * A lease that the lender was asked for, and has not granted yet, will go back, too.  The lease in
 * use is kept as vdev->ended. Context: [locked]. Return: the lease that was kept before, or NULL;
 * to be put without the lock.
 */
struct dlend_lease *dlend_ended_give_up(struct dlend_vdev *v);

/**
 * dlend_ended_leave - give the lease back: the VM does not need the device any more
 * @v: (in) vdev that is being closed, or whose VMM dies
 *
 * Context: process, may sleep; takes vdev->lock; does not wait.
 */
void dlend_ended_leave(struct dlend_vdev *v);

/**
 * dlend_ended_drop - unpin what is still pinned under the lease that has ended
 * @v: (in) vdev that is being closed
 *
 * Context: process, may sleep; takes vdev->lock.
 */
void dlend_ended_drop(struct dlend_vdev *v);

/**
 * dlend_ended_forget - drop vdev->ended
 * @v: (in) vdev
 * @lease: (in) lease that has ended, with nothing pinned under it; nothing happens if vdev->ended
 *	is another one
 *
 * Context: process, may sleep; takes vdev->lock.
 */
void dlend_ended_forget(struct dlend_vdev *v, struct dlend_lease *lease);

/**
 * dlend_ended_lose - the lease has ended before this vdev gave it back
 * @v: (in) vdev
 * @only: (in) the lease; nothing happens if the vdev has another one by now. NULL: the one it has
 * @why: (in) for the log and sysfs
 *
 * If the lease's session is over, the peer cannot reach this node's memory by that lease when this
 * returns. Context: process, may sleep; takes vdev->lock; waits for no peer.
 */
void dlend_ended_lose(struct dlend_vdev *v, struct dlend_lease *only, const char *why);

/**
 * dlend_ended_link_down - is &struct dlend_claim_ops.link_down
 * @claim: (in) claim of a vdev
 *
 * Does as dlend_ended_lose(), also for a lease that had ended before and is not returned yet.
 */
void dlend_ended_link_down(struct dlend_claim *claim);

/* guest_ram.c: a guest's memory comes and goes while its device is borrowed */

/** dlend_guest_init - prepare a new vdev. Context: any. */
void dlend_guest_init(struct dlend_vdev *v);

/** dlend_guest_stop - look for no memory any more, at close. Context: may sleep. */
void dlend_guest_stop(struct dlend_vdev *v);

/**
 * dlend_guest_memory_create - make the guest memory of a lease, of which nothing is pinned yet
 * @v: (in) vdev
 * @lease: (in) lease
 *
 * Context: process. Return: as dlend_memory_create().
 */
struct dlend_memory *dlend_guest_memory_create(struct dlend_vdev *v,
					       const struct dlend_lease *lease);

/**
 * dlend_guest_passed_emit - list BARs of devices that this host itself passes through to the VM
 * @v: (in) vdev
 * @buf: (in, out) a page for sysfs: receives a line for each range of BARs
 * @at: (in) bytes in @buf
 *
 * Context: process, may sleep; takes vdev->lock. Return: bytes in @buf, or -ENOMEM.
 */
ssize_t dlend_guest_passed_emit(struct dlend_vdev *v, char *buf, int at);

/**
 * dlend_guest_rescan_soon - look at all of the guest's memory soon, and then less and less often
 * @v: (in) vdev
 *
 * After a build, which may have missed memory that was away for just that moment. Context:
 * vdev->lock.
 */
void dlend_guest_rescan_soon(struct dlend_vdev *v);

/**
 * dlend_guest_look - look into holes of the memory slots, before the gate opens
 * @v: (in) device, which does DMA or is about to
 * @lease: (in) its lease
 *
 * No look was made while the gate was shut, and the guest may have been given memory then. If it
 * was, the gate stays shut until the next build has mapped that memory. Context: the worker.
 */
void dlend_guest_look(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_guest_rescan - look at all of the guest's memory. Context: process; takes vdev->lock. */
void dlend_guest_rescan(struct dlend_vdev *v);

/** dlend_guest_attach_ioas - is &struct vfio_device_ops.attach_ioas; -EBUSY: pages may be pinned */
int dlend_guest_attach_ioas(struct vfio_device *vfio, u32 *pt_id);

/** dlend_guest_detach_ioas - is &struct vfio_device_ops.detach_ioas; unpins all that is there */
void dlend_guest_detach_ioas(struct vfio_device *vfio);

/**
 * dlend_guest_vmm_exits - the VMM dies and closes the device: end the leases of its VM's others
 * @v: (in) vdev
 *
 * Context: process; takes vdev->lock of each; waits as dlend_memory_vmm_exits().
 */
void dlend_guest_vmm_exits(struct dlend_vdev *v);

/**
 * dlend_guest_dma_unmap - the VMM takes memory away
 * @vfio: (in) VFIO's part of the vdev
 * @iova, @size: (in) guest-physical range in bytes
 *
 * When this returns, the device cannot reach this node's memory there, and the pages are unpinned.
 * The lender is told later. Context: VFIO's dma_unmap; waits for no peer.
 */
void dlend_guest_dma_unmap(struct vfio_device *vfio, u64 iova, u64 size);

/* move.c: a VM moves from one host to another, and its device stays where it is */

extern const struct vfio_migration_ops dlend_move_ops;

/** dlend_move_forget - no VM moves with the device any more. Context: vdev->lock. */
void dlend_move_forget(struct dlend_vdev *v);

/**
 * dlend_move_close - the VMM closes or resets the device
 * @v: (in) vdev
 *
 * The state is RUNNING then, and its migration files are of no use. Context: process, none of the
 * vdev's locks.
 */
void dlend_move_close(struct dlend_vdev *v);

/**
 * dlend_move_set_target - say which node may take the device over
 * @v: (in) vdev
 * @text: (in) what was written to move_to: a node id, or DLEND_NODE_NONE. The words "cut" (move it
 *	also if it is never quiet) and "all" (the VMM sends all of the VM's memory after the VM has
 *	stopped, so it need not be told what the device has written before) may follow
 *
 * Context: process, none of the vdev's locks; waits for the lender if the device is borrowed.
 * Return: 0; -EINVAL @text is not like that; -ENODEV no VM has the device open; -EOPNOTSUPP,
 * -EMLINK, -EINVAL as dlend_lease_move_to(); -EOPNOTSUPP the VMM would not carry along what the
 * device writes; -EPERM the VMM would not pass on the guest's INTx; -ETIMEDOUT.
 */
int dlend_move_set_target(struct dlend_vdev *v, const char *text);

/* The worker's steps of a move.  Context: the worker, none of the vdev's locks. */

/** dlend_move_step_to - tell the lender which node may take the device of @v over */
void dlend_move_step_to(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_quiesce - the VM stands still: stop the device */
void dlend_move_step_quiesce(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_run - the VM goes on here: let the device go on */
void dlend_move_step_run(struct dlend_vdev *v, struct dlend_lease *lease);

/** dlend_move_step_take_over - the VM has come, and goes on here: take the device over */
void dlend_move_step_take_over(struct dlend_vdev *v, struct dlend_lease *lease);

/* vdev.c: the worker, and what the lender tells without being asked */

/* Operations of a vdev's claim, which the borrower calls */
extern const struct dlend_claim_ops dlend_borrow_claim_ops;

/** dlend_step_work - the worker: the function of vdev->work */
void dlend_step_work(struct work_struct *work);

/* vfio.c: the device as VFIO shows it */
extern const struct vfio_device_ops dlend_vfio_ops;

#endif
