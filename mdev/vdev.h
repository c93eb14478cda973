/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The borrower's objects: offers (devices that other nodes lend), vdevs (mediated devices made
 * from them) and leases, as the files of mdev/ share them.  Knows nothing of NTB hardware.
 *
 * Locks, outermost first.  None is held while waiting for user space or for a peer.
 *
 *   dlend_offers_lock (mutex)  list of offers, their state and link, offer->vdev
 *   vdev->io_lock (mutex)      trapped BAR accesses: waits for the gate, bounded
 *   vdev->follow_lock (mutex)  vdev->follower, which takes vdev->lock and the VMM's mmap_lock
 *   vdev->lock (mutex)         configuration space, wanted and actual state, vdev->lease
 *   vdev->bar_lock (rwsem)     gate, memory decoding, window addresses; faults read, zaps write
 *   vdev->irq.lock (spinlock)  eventfds; also taken by the link's interrupt handler
 *
 * The page fault path comes in with mmap_lock held, so it takes bar_lock only.  Pinning
 * (dlend_memory_*()) takes the container's locks and mmap_lock, so it is called with none of
 * the above held; a reference on the lease keeps its memory alive.  What one device's dma_unmap
 * takes from others of the VM is told to these with locks of the memory held, outside vdev->lock.
 */
#ifndef DLEND_MDEV_VDEV_H
#define DLEND_MDEV_VDEV_H

#include <linux/device.h>
#include <linux/kref.h>
#include <linux/mdev.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/vfio.h>
#include <linux/workqueue.h>
#include <dlend/cfg.h>
#include <dlend/link.h>
#include "area.h"
#include "memory.h"
#include "memslots.h"
#include "p2p_plan.h"
#include "plan.h"

#define DLEND_SNAPSHOT_PIECES	(DLEND_CFG_SIZE / DLEND_SNAPSHOT_PIECE)
#define DLEND_DEAD_PAGES	16	/* pages of 0xff per device, chosen by page number */

/* Regions of the VFIO device: the index stands in the upper bits of the file offset. */
#define DLEND_REGION_SHIFT	40
#define DLEND_REGION_OFFSET(i)	((u64)(i) << DLEND_REGION_SHIFT)
#define DLEND_REGION_INDEX(pos)	((unsigned int)((u64)(pos) >> DLEND_REGION_SHIFT))
#define DLEND_REGION_POS(pos)	((u64)(pos) & (BIT_ULL(DLEND_REGION_SHIFT) - 1))

/* What an offer says about its device; copied into a vdev when it is opened. */
struct dlend_offer_info {
	u16 vendor, device;
	u32 class, flags;		/* 24 bits; DLEND_OFFER_F_* */
	u16 group;
	u16 nr_msi, nr_msix;
	bool has_intx;
	int clique;			/* its lender's setting: as vdev->clique, not ALWAYS */
	struct { u64 size; u32 flags; } bar[DLEND_NUM_REGIONS];
};

/**
 * struct dlend_offer - a device that a node is willing to lend
 * @dev: on the dlend bus, parent of the mdev; its reference count is the offer's
 * @addr: device, the same on every node
 * @link: towards the lender; NULL while the link is down
 * @info, @snapshot: the device, once @complete
 * @next, @next_snapshot, @next_crc, @pieces: being received, while @collecting
 * @state, @holder, @epoch: as the lender said last; state is GONE while the link is down
 * @place: where it sits, once @placed
 * @complete: a whole snapshot with the right checksum was received
 * @registered: the device and the mdev parent exist
 * @announced: it has been free since then, or had a vdev: whoever starts what is defined on it
 *	knows that it can
 * @withdrawn: the lender took the offer back: unregistered as soon as no vdev exists
 * @dying: being unregistered: no vdev can be created any more
 * @vdev: made from it, or NULL
 * @work: registers, announces and unregisters (all sleep on sysfs)
 * @wq: ordered: everything its vdev and its leases ask of the lender
 * @leases: granted by the lender and not returned yet; @wq has those that no vdev uses
 */
struct dlend_offer {
	struct device dev;
	struct list_head node;
	struct dlend_addr addr;
	struct dlend_link *link;
	struct dlend_offer_info info;
	u8 *snapshot;
	struct dlend_offer_info next;
	u8 *next_snapshot;
	u32 next_crc;
	DECLARE_BITMAP(pieces, DLEND_SNAPSHOT_PIECES);
	u16 state, holder;
	u32 epoch;
	struct dlend_p_place place;
	bool placed;
	bool collecting, complete, registered, announced, withdrawn, dying;
	struct dlend_vdev *vdev;
	struct work_struct work;
	struct workqueue_struct *wq;
	atomic_t leases;
	struct mdev_parent parent;
	struct mdev_type type;
	struct mdev_type *types[1];
	char pretty[64];
};

#define to_dlend_offer(d) container_of(d, struct dlend_offer, dev)

/**
 * struct dlend_lease - the right to use a device, from the grant to the acknowledged return
 * @link: of the session @session
 * @mem: DMA windows; NULL for a stray lease, which is only returned
 * @sink: interrupts; NULL for a stray one
 * @bar: where the BARs are; no physical address: not mapped, or taken away (bar_lock)
 * @acked: the lender said that it has the device back: slots may be used again at once
 * @vdev: a reference (the memory's unpinning needs it), NULL for a stray one
 * @offer: one of whose leases it is, once granted
 */
struct dlend_lease {
	struct kref ref;
	struct dlend_link *link;
	u64 session;
	struct dlend_addr addr;
	u32 epoch;
	struct dlend_memory *mem;
	struct dlend_irq_sink *sink;
	struct dlend_window bar[DLEND_NUM_REGIONS];
	bool acked;
	struct dlend_vdev *vdev;
	struct dlend_offer *offer;
	struct work_struct return_work;
};

/* What a BAR access meets. */
enum dlend_gate {
	DLEND_GATE_SHUT,	/* waits: nothing borrowed yet, or being reset */
	DLEND_GATE_OPEN,	/* goes through */
	DLEND_GATE_DEAD,	/* no device behind it: reads 0xff */
	DLEND_GATE_READ,	/* a trapped read goes through, all else waits: building */
};

/**
 * struct dlend_irqs - eventfds of a vdev (irq.c)
 * @mode: what the VMM has set up; @live: what the lender delivers; fire() needs both equal
 * @vec: @nvec vectors of @mode (INTx: one)
 * @masked: INTx: no signal before the next unmask; @disabled: by the guest's COMMAND register;
 *	    @pending: arrived meanwhile; @owed: the lender waits for an IRQ_UNMASK
 */
struct dlend_irqs {
	spinlock_t lock;		/* all of it; taken in interrupt context */
	enum dlend_irq_mode mode, live;
	struct dlend_irq_vec {
		struct eventfd_ctx *trigger;
		bool latched;
		u64 count, signals;
	} *vec;
	unsigned int nvec;
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
	atomic64_t messages, wait_longest_us;
	u64 zaps, gate_shuts, gate_opens, gate_longest_us, gate_last_us;
	u64 borrows, returns, resets, builds, build_retries, grows;
	u64 bme_to_open_us, bme_to_open_first_us;
};

/* When guest memory is pinned. */
enum dlend_prepin {
	DLEND_PREPIN_BME,	/* when the guest sets Bus Master Enable */
	DLEND_PREPIN_OPEN,	/* when the VMM opens the device, which borrows it too */
};

/* Settings of vdev->clique beside DLEND_CFG_CLIQUE_NONE and numbers. */
#define DLEND_CLIQUE_AUTO	(-2)	/* computed, for vendors whose drivers look for it */
#define DLEND_CLIQUE_ALWAYS	(-3)	/* computed, whatever the device is */

/**
 * struct dlend_p2p - a vdev as the others of its VM see it (p2p.c, whose lock guards it)
 * @node: among all that are open, while @joined
 * @kvm, @tgid: the VM; without KVM the process that opened it
 * @dev: BARs and lease, as dlend_p2p_publish() found them last
 * @link, @session: of the lease
 * @bar_phys: where this node's window leads to the BARs
 */
struct dlend_p2p {
	struct list_head node;
	bool joined;
	const struct kvm *kvm;
	pid_t tgid;
	struct dlend_p2p_dev dev;
	struct dlend_link *link;
	u64 session;
	phys_addr_t bar_phys[DLEND_NUM_BARS];
};

/**
 * struct dlend_vdev - a mediated device
 * @info: the offer as of open_device()
 * @cfg: virtual configuration space
 * @clique: as set: DLEND_CFG_CLIQUE_NONE, 0..15, DLEND_CLIQUE_*; @clique_shown: the guest sees it
 * @p2p: what the VM's other devices must know
 * @prepin: as set; @prepinned: as it was when the device was opened
 * @rom: image of the expansion ROM, NULL = none; does not change while the mdev exists
 * @lowmem: end of the guest's RAM below 4 GiB, 0 = to be found out
 * @want: what guest and VMM asked for; @have: what the lender was told. The worker makes the
 *	  second equal to the first; the gate is open only while they are equal.
 * @lease: in use; @ended: the last one that ended without us, until it is returned: its pages may
 *	   still be pinned
 * @had_space: got an address space since it was opened (iommufd)
 * @dma: the device may transfer: from the request for Bus Master Enable on until it is known to be
 *	 off, or nothing of this node's memory is in its reach
 * @urgent: what is to be done next is more urgent than a build that is under way
 * @quiet: it transfers nothing, or has stopped since and started again as the guest wants
 * @irq_need: vectors, of those that were asked for, without which the guest loses interrupts
 * @irq_busy: vectors are being set up, or will be; @irq_waiters: threads that wait for the outcome;
 *	 @irq_short: as many there are, fewer than were asked for; -1: not so
 * @readrq: the size of read requests after a reset
 * @opens: times opened; @vmm: by which process last
 * @unmapping: dma_unmap callbacks under way
 * @follower: of the VM's memory slots, from the first build on
 * @touched: bit 0: a BAR was accessed, the lease is wanted
 * @errored: failed, as the lender says that the device had an error
 * @lost: the lease ended without us: only a reset or a new open tries again
 * @patience: with what the worker tries again, @backoff_ms after the last time
 * @lacking: why guest memory is out of the device's reach, which works all the same; "" if none is
 * @shut_since: ktime of the last shutting of the gate, or of the first waiter
 * @progressed: when the windows last came a step further
 */
struct dlend_vdev {
	struct vfio_device vfio;
	struct mdev_device *mdev;
	struct dlend_offer *offer;
	struct dlend_offer_info info;
	u8 *rom;
	u32 rom_size;

	struct mutex lock;		/* down to @idle_wq */
	struct dlend_cfg cfg;
	int clique, clique_shown;
	struct dlend_p2p p2p;
	enum dlend_prepin prepin;
	bool prepinned;
	u64 lowmem;
	bool open, had_space;
	u32 opens;
	pid_t vmm;
	struct dlend_wish want, have;
	struct dlend_lease *lease, *ended;
	u32 irq_need, readrq;
	unsigned int irq_waiters;
	int irq_short;
	bool borrowing, failed, errored, lost, irq_gap, irq_busy, dma, urgent, quiet;
	unsigned int unmapping;
	unsigned long touched, memlock;
	unsigned int backoff_ms, rescan_ms;
	struct dlend_patience patience;
	ktime_t bme_at;
	char reason[DLEND_REASON_LEN], lacking[DLEND_REASON_LEN];
	struct work_struct work;
	struct delayed_work slow_work, look_work;
	struct mutex follow_lock;	/* @follower: it begins and ends */
	struct dlend_follower *follower;
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

	struct dlend_irqs irq;
	struct dlend_vdev_stat stat;
	struct dentry *dir;
};

#define to_dlend_vdev(v) container_of(v, struct dlend_vdev, vfio)

static inline struct device *dlend_vdev_dev(struct dlend_vdev *v)
{
	return &v->mdev->dev;
}

static inline struct dlend_vdev *dlend_vdev_get(struct dlend_vdev *v)
{
	get_device(&v->vfio.device);
	return v;
}

static inline void dlend_vdev_put(struct dlend_vdev *v)
{
	put_device(&v->vfio.device);
}

/* parent.c */
extern const struct bus_type dlend_bus_type;
extern struct mdev_driver dlend_mdev_driver;
extern const struct attribute_group *dlend_offer_groups[];
int dlend_parent_register(struct dlend_offer *offer);
void dlend_parent_unregister(struct dlend_offer *offer);

/* attr.c */
extern const struct attribute_group dlend_setting_group;
/** dlend_clique_name - a setting as sysfs shows it, with a newline */
ssize_t dlend_clique_name(int clique, char *buf);
ssize_t dlend_clique_emit(struct dlend_vdev *v, char *buf);
/** dlend_clique_emit_shown - what the guest sees, while the device is open; else the setting */
ssize_t dlend_clique_emit_shown(struct dlend_vdev *v, char *buf);
int dlend_clique_set(struct dlend_vdev *v, const char *buf);

/* offer.c */
extern struct mutex dlend_offers_lock;
int dlend_offers_init(void);
void dlend_offers_exit(void);
const char *dlend_offer_state_name(u16 state);
/** dlend_offer_claim - give the offer to a new vdev. Return: 0, -EBUSY, -ENODEV (and a message) */
int dlend_offer_claim(struct dlend_offer *offer, struct dlend_vdev *v);
void dlend_offer_release(struct dlend_offer *offer);
/** dlend_offer_link - reference on the link towards the lender, or NULL */
struct dlend_link *dlend_offer_link(struct dlend_offer *offer);
/** dlend_offer_return_stray - if the lender believes that this node holds the lease: return it */
void dlend_offer_return_stray(struct dlend_offer *offer);
/** dlend_offer_beside - dlend_plan_beside() for all other functions of its IOMMU group */
int dlend_offer_beside(struct dlend_offer *offer, struct dlend_vdev *v);
/** dlend_offers_asleep - is this host going to sleep? Called with vdev->borrowing noted before */
bool dlend_offers_asleep(void);
/** dlend_offer_lease_live - has nothing that the lender said ended the lease @epoch? */
bool dlend_offer_lease_live(struct dlend_offer *offer, u32 epoch);
/**
 * dlend_offer_vdev_get - what is made of the device of that name, which @link's peer offers
 *
 * Context: may sleep; neither vdev->lock nor the offers' lock. Return: a reference, or NULL.
 */
struct dlend_vdev *dlend_offer_vdev_get(struct dlend_link *link, const struct dlend_addr *addr);
/** dlend_offer_copy - description and snapshot (4 KiB at @snapshot) as they are now */
void dlend_offer_copy(struct dlend_offer *offer, struct dlend_offer_info *info, u8 *snapshot);

/* vfio.c */
extern const struct vfio_device_ops dlend_vfio_ops;

/* borrow.c: [locked] = with vdev->lock held */
void dlend_borrow_init(struct dlend_vdev *v);
void dlend_borrow_open(struct dlend_vdev *v);
/**
 * dlend_borrow_close - local fencing now, the return by a worker
 *
 * Context: sleeps, a second at most for a lender that does not answer.
 */
void dlend_borrow_close(struct dlend_vdev *v);
/** dlend_borrow_effects - what a configuration write asked for. [locked], returns at once */
void dlend_borrow_effects(struct dlend_vdev *v, u32 effects);
/**
 * dlend_borrow_reset - VFIO reset: local at once, the device by the worker
 *
 * May sleep: when it returns the device transfers nothing any more, as with dlend_borrow_stopped().
 */
void dlend_borrow_reset(struct dlend_vdev *v);
/**
 * dlend_borrow_stopped - wait until the device that shall not transfer does not
 * @effects: of the configuration write that may have asked for it: DLEND_CFG_E_*
 *
 * A lender that does not say in time that it has stopped the device loses its windows to this
 * node's memory, unless another device of the VM uses the same. May sleep, 0.1 s at most, as long
 * as a function level reset by vfio-pci takes; not with vdev->lock.
 */
void dlend_borrow_stopped(struct dlend_vdev *v, u32 effects);
/** dlend_borrow_touch - somebody waits at the gate. No lock needed, page faults call it */
void dlend_borrow_touch(struct dlend_vdev *v);
/**
 * dlend_borrow_want_irq - @need vectors are used, better set up @count
 *
 * [locked], returns at once; the gate is shut until it is so.
 */
void dlend_borrow_want_irq(struct dlend_vdev *v, enum dlend_irq_mode mode, u32 need, u32 count);
/**
 * dlend_borrow_irq_begin - dlend_borrow_irq_end() will ask what has become of a set-up. [locked]
 */
void dlend_borrow_irq_begin(struct dlend_vdev *v);
/**
 * dlend_borrow_irq_end - wait until what is set up is, a second at most; without vdev->lock
 *
 * Return: 0 it is, or will be when the device is borrowed; > 0 there are so many vectors only;
 * -ENOSPC there is none.
 */
int dlend_borrow_irq_end(struct dlend_vdev *v);
/** dlend_borrow_intx - PCI_STATUS_INTERRUPT, or 0; may ask the lender, 0.1 s at most */
u16 dlend_borrow_intx(struct dlend_vdev *v);
void dlend_borrow_rescan(struct dlend_vdev *v);
/** dlend_borrow_grown - another device of the VM found RAM that has come: shut the gate, build */
void dlend_borrow_grown(struct dlend_vdev *v);
void dlend_borrow_dma_unmap(struct dlend_vdev *v, u64 iova, u64 size);
/** dlend_borrow_forget - @lease ended, and nothing is pinned for it any more. May sleep */
void dlend_borrow_forget(struct dlend_vdev *v, struct dlend_lease *lease);
/**
 * dlend_borrow_attach - may it get an address space?
 *
 * A first one at any time; another only if nothing can have been pinned in the one before.
 * May sleep.
 */
bool dlend_borrow_attach(struct dlend_vdev *v);
/** dlend_borrow_detach - its address space is being taken away: no pin of it is left. May sleep */
void dlend_borrow_detach(struct dlend_vdev *v);
/** dlend_borrow_unmapping - another device's dma_unmap takes from the windows that they share */
void dlend_borrow_unmapping(struct dlend_vdev *v);
/** dlend_borrow_unmapped - it is through; @lost: something of them is gone */
void dlend_borrow_unmapped(struct dlend_vdev *v, bool lost);
void dlend_borrow_link_down(struct dlend_vdev *v);
void dlend_borrow_peer_state(struct dlend_vdev *v, u16 state, u16 holder, u32 epoch);
void dlend_borrow_reclaim(struct dlend_vdev *v, u32 epoch);
void dlend_borrow_error(struct dlend_vdev *v, u32 epoch);
/** dlend_borrow_state - "idle", "borrowing", "building", "running" or "failed: ...". [locked] */
void dlend_borrow_state(struct dlend_vdev *v, char *buf, size_t size);

/* lease.c */
/**
 * dlend_lease_borrow - ask the lender
 * @v: for which device
 * @why: DLEND_REASON_LEN bytes: what went wrong
 *
 * Context: the offer's workqueue only. Return: lease or ERR_PTR.
 */
struct dlend_lease *dlend_lease_borrow(struct dlend_vdev *v, char *why);
struct dlend_lease *dlend_lease_get(struct dlend_lease *lease);
void dlend_lease_put(struct dlend_lease *lease);
/**
 * dlend_vdev_lease - the lease that a vdev has now
 *
 * Context: process; takes the lock of @v. Return: a reference, or NULL if there is no lease.
 */
struct dlend_lease *dlend_vdev_lease(struct dlend_vdev *v);
/** dlend_lease_return - hand the caller's reference to a worker, which tells the lender */
void dlend_lease_return(struct dlend_lease *lease);
/** dlend_lease_return_stray - a grant that came too late for its request is returned */
void dlend_lease_return_stray(struct dlend_offer *offer, struct dlend_link *link, u32 epoch);
bool dlend_lease_lost(const struct dlend_lease *lease);		/* its session is over */
/* Requests of a lease; from the offer's workqueue only. Return: as dlend_link_call(). */
int dlend_lease_reset(struct dlend_lease *lease);
int dlend_lease_bus_master(struct dlend_lease *lease, bool on);
int dlend_lease_irq_setup(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count);
/** dlend_lease_readrq - Max_Read_Request_Size, as encoded, of the PCIe capability at @at */
int dlend_lease_readrq(struct dlend_lease *lease, u32 at, u32 readrq);
int dlend_lease_irq_unmask(struct dlend_lease *lease);		/* any process context */
/** dlend_lease_status - the device's own PCI_STATUS. Any process context */
int dlend_lease_status(struct dlend_lease *lease, u16 *status, unsigned int timeout_ms);

/* bar.c */
int dlend_bar_open(struct dlend_vdev *v);
void dlend_bar_close(struct dlend_vdev *v);
/** dlend_bar_gate - set the gate; @bar (may be NULL) says where the BARs are. [locked] */
void dlend_bar_gate(struct dlend_vdev *v, enum dlend_gate gate, const struct dlend_window *bar);
/** dlend_bar_revoked - nobody reaches that BAR any more when this returns. Process context */
void dlend_bar_revoked(struct dlend_vdev *v, unsigned int index);
void dlend_bar_set_mse(struct dlend_vdev *v, bool on);		/* [locked] */
int dlend_bar_mmap(struct dlend_vdev *v, struct vm_area_struct *vma);
/** dlend_bar_rw - trapped access of @count bytes; what no device answers reads 0xff */
ssize_t dlend_bar_rw(struct dlend_vdev *v, unsigned int index, u64 pos, char __user *buf,
		     size_t count, bool write);
u64 dlend_bar_size(const struct dlend_vdev *v, unsigned int index);
bool dlend_bar_mappable(const struct dlend_vdev *v, unsigned int index);
/**
 * dlend_bar_areas - mappable parts of a BAR, without the MSI-X pages
 * @v: device
 * @index: BAR
 * @area: receives them, in order
 *
 * Return: their number, 0 to DLEND_MAX_AREAS; 1 with the whole BAR if nothing must be left out.
 */
unsigned int dlend_bar_areas(const struct dlend_vdev *v, unsigned int index,
			     struct dlend_bar_area area[DLEND_MAX_AREAS]);

/* irq.c */
void dlend_irq_init(struct dlend_vdev *v);
void dlend_irq_close(struct dlend_vdev *v);
unsigned int dlend_irq_count(struct dlend_vdev *v, unsigned int index);
u32 dlend_irq_flags(unsigned int index);
int dlend_irq_set(struct dlend_vdev *v, const struct vfio_irq_set *hdr, void *data);
void dlend_irq_fired(void *arg, u32 vector, u32 count);	/* of the link's sink; any context */
/** dlend_irq_live - the lender delivers @mode from now on; @resized: signal everything once */
void dlend_irq_live(struct dlend_vdev *v, enum dlend_irq_mode mode, bool resized);
void dlend_irq_intx_disable(struct dlend_vdev *v, bool disable);
/** dlend_irq_intx_up - the lender has seen INTx asserted, and waits for the guest to serve it */
bool dlend_irq_intx_up(struct dlend_vdev *v);
/** dlend_irq_signal - error or request eventfd. Return: true if the VMM has one */
bool dlend_irq_signal(struct dlend_vdev *v, unsigned int index);

/* p2p.c */
int dlend_p2p_init(void);
void dlend_p2p_exit(void);
/** dlend_p2p_join - the VMM opens it; from its BARs' sizes comes vdev->clique_shown */
void dlend_p2p_join(struct dlend_vdev *v);
void dlend_p2p_leave(struct dlend_vdev *v);
/** dlend_p2p_publish - lease, Bus Master Enable or BARs may have changed. [locked] */
void dlend_p2p_publish(struct dlend_vdev *v);
/**
 * dlend_p2p_fence - the lease ends, or its session has
 *
 * Nothing goes through this node to the device, or from it, when this returns: so before the
 * lender is told. Process context, waits for no peer.
 */
void dlend_p2p_fence(const struct dlend_addr *addr, u32 epoch);
void dlend_p2p_link_down(struct dlend_link *link);
/* Messages: DLEND_MSG_PEERS, DLEND_MSG_P2P_LOST */
void dlend_p2p_peers(struct dlend_link *link, const struct dlend_p_peers *p);
void dlend_p2p_lost(struct dlend_link *link, const struct dlend_addr *source, u32 epoch,
		    const struct dlend_p_p2p *p);
/** dlend_p2p_emit_paths - who reaches how much of whom, as peers say */
ssize_t dlend_p2p_emit_paths(char *buf);
/** dlend_p2p_emit - a line for every BAR of another device of the VM */
ssize_t dlend_p2p_emit(struct dlend_vdev *v, char *buf);

/* place.c */
/** dlend_place_emit - as words, for sysfs. Return: characters */
int dlend_place_emit(char *buf, int at, const struct dlend_p_place *place);
ssize_t dlend_place_emit_ends(char *buf);
/* Message: DLEND_MSG_PLACE of an NTB */
void dlend_place_end(struct dlend_link *link, const struct dlend_addr *addr,
		     const struct dlend_p_place *place);
void dlend_place_link_down(struct dlend_link *link);

/* rom.c */
void dlend_rom_fetch(struct dlend_vdev *v);
void dlend_rom_free(struct dlend_vdev *v);
u64 dlend_rom_size(const struct dlend_vdev *v);
ssize_t dlend_rom_read(const struct dlend_vdev *v, u64 pos, char __user *buf, size_t count);

/* stat.c */
void dlend_stat_create(struct dlend_vdev *v);
void dlend_stat_remove(struct dlend_vdev *v);
void dlend_stat_init(void);
void dlend_stat_exit(void);

#endif
