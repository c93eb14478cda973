/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Borrower: the devices that lenders offer, for their users on this node.
 *
 * An *offer* is a device that its lender is willing to lend: a device on the dlend bus.  A layer
 * that uses offers in general (mdev/: mediated devices for guests) registers a struct
 * dlend_offer_user.  The user of one offer claims it (struct dlend_claim), asks for its *lease*,
 * makes requests under that lease, and returns it.  The borrower calls its user through these two
 * ops tables and never by name: it knows no VFIO, no guest and no device driver.
 *
 * Requests to a lender about one offer run on that offer's ordered workqueue (struct
 * dlend_claim.wq).  Returns run on another one, so that a lease goes back whatever the user waits
 * for.  A return is over before the next lease is asked for (dlend_claim_pending()).
 */
#ifndef DLEND_BORROWER_H
#define DLEND_BORROWER_H

#include <linux/atomic.h>
#include <linux/bitfield.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/pci_regs.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <dlend/link.h>

struct bus_type;
struct device;
struct dlend_claim;
struct dlend_lease;
struct dlend_offer;

/* Text of a failure: what failed, and what to do about it; short enough for an attribute. */
#define DLEND_REASON_LEN	240

/* A larger BAR is left out: users show BARs to programs at file offsets, which end there. */
#define DLEND_BAR_BYTES_MAX	BIT_ULL(40)

/* Offers */

/**
 * struct dlend_offer_info - what a lender says about its device
 * @vendor: vendor id
 * @device: device id
 * @class: 24 bits: base class, sub-class, interface
 * @flags: DLEND_OFFER_F_*
 * @group: number of the IOMMU group; functions of one lender with the same number are in one group,
 *	if they are offered at the same time (dlend_offer_group())
 * @group_size: functions in that group; the lender lends all of them or none
 * @nr_msi: MSI vectors that the lender can deliver
 * @nr_msix: MSI-X vectors that it can deliver
 * @has_intx: the lender can deliver INTx
 * @clique: the lender's setting: DLEND_OFFER_CLIQUE*
 * @identity: serial number; "": the lender does not know it
 * @bar: bytes (a power of two, 0: none) and DLEND_BAR_F_* of the BARs and of the ROM
 */
struct dlend_offer_info {
	u16 vendor, device;
	u32 class, flags;
	u16 group, group_size;
	u16 nr_msi, nr_msix;
	bool has_intx;
	u16 clique;
	char identity[DLEND_NODE_NAME_LEN];
	struct { u64 size; u32 flags; } bar[DLEND_NUM_REGIONS];
};

/**
 * struct dlend_offer_user - a layer that uses every offer
 * @appeared: an offer's device was added to the bus. Return: 0, or -errno: then the device is
 *	removed again, and added when the lender sends the offer again
 * @freed: a device that was not free when its offer appeared, here or to a newer user, is free now
 * @vanishes: an offer's device is about to be removed: when this returns, no reference of the
 *	user's to it is left. It may wait for programs that have files of the device open. The offer
 *	is not claimed, unless the user's own module is being unloaded
 * @node: private to the borrower
 * @work: private to the borrower
 *
 * Context: process, one at a time; they may sleep.
 */
struct dlend_offer_user {
	int (*appeared)(struct dlend_offer *offer);
	void (*freed)(struct dlend_offer *offer);
	void (*vanishes)(struct dlend_offer *offer);
	struct list_head node;
	struct work_struct work;
};

/**
 * dlend_offer_user_register - register a user of all offers, present and later ones
 * @user: (in) ops; stays until dlend_offer_user_unregister()
 *
 * When this returns, appeared() has been called for all present offers. Context: process, may
 * sleep.
 */
void dlend_offer_user_register(struct dlend_offer_user *user);

/**
 * dlend_offer_user_unregister - undo dlend_offer_user_register()
 * @user: (in) as registered
 *
 * When this returns, vanishes() has been called for all offers, and no op is called any more.
 * Context: process, may sleep.
 */
void dlend_offer_user_unregister(struct dlend_offer_user *user);

/** dlend_offer_dev - device of an offer on the dlend bus; takes no reference. Context: any. */
struct device *dlend_offer_dev(struct dlend_offer *offer);

/** dlend_offer_addr - address that the device has on all nodes. Context: any. */
const struct dlend_addr *dlend_offer_addr(const struct dlend_offer *offer);

/**
 * dlend_offer_copy - what the lender says of the device now
 * @offer: (in) offer
 * @info: (out) description
 * @snapshot: (out) DLEND_CFG_SIZE bytes: configuration space after a reset; may be NULL
 *
 * Context: process; takes dlend_offers_lock.
 */
void dlend_offer_copy(struct dlend_offer *offer, struct dlend_offer_info *info, u8 *snapshot);

/**
 * dlend_offer_available - would dlend_offer_claim() succeed now?
 * @offer: (in) offer
 *
 * Context: process; takes dlend_offers_lock. Return: true if the link to the lender is up, the
 * offer is not claimed, and the device is free, or will be once its lender has reset it.
 */
bool dlend_offer_available(struct dlend_offer *offer);

/**
 * dlend_offer_group - the IOMMU group that an offer is in at this moment
 * @offer: (in) offer
 * @size: (out) functions in the group; the offers of some may not have come yet
 *
 * A description from before the link went down says nothing about the group now. Context: process;
 * takes dlend_offers_lock. Return: the group's number; -ENODEV the lender does not offer the device
 * now.
 */
int dlend_offer_group(struct dlend_offer *offer, unsigned int *size);

/**
 * dlend_offer_zalloc - memory that is there as long as the offer is
 * @offer: (in) offer
 * @size: (in) bytes
 *
 * The memory is freed with the last reference on the offer's device. (Managed device memory is
 * freed when the device is removed from the bus, which is too early for some users.)
 * Context: process; takes dlend_offers_lock. Return: zeroed memory, or NULL.
 */
void *dlend_offer_zalloc(struct dlend_offer *offer, size_t size);

/**
 * dlend_offer_flush - wait until all leases of an offer that are on their way back have ended
 * @offer: (in) offer whose claim was released
 *
 * No op of that claim is called any more when this returns. Context: process, may sleep for as long
 * as a lender takes to answer.
 */
void dlend_offer_flush(struct dlend_offer *offer);

/**
 * dlend_offer_read_rom - fetch the image of the expansion ROM from the lender
 * @offer: (in) offer; no lease is needed
 * @image: (out) the image, for kvfree(); NULL if the device has no ROM
 * @size: (out) bytes of it
 *
 * Context: process; waits for the lender, a message for DLEND_ROM_PIECE bytes.
 * Return: 0; -ENOTCONN the link is down; -EFBIG, -EBADMSG what the lender sends makes no sense;
 * -ENOMEM; or as dlend_link_call_in().
 */
int dlend_offer_read_rom(struct dlend_offer *offer, u8 **image, u32 *size);

/* Claims */

/**
 * struct dlend_claim_ops - functions and texts that the user of an offer has for the borrower
 * @what: for messages to people: what &struct dlend_claim.dev is: "mediated device"
 * @user: for messages: who uses the device under a lease: "a guest"
 * @end: for messages: how people end that use: "shut the guest down"
 * @in_core: requests about its device are made in calls of the kernel's core, with locks of that
 *	core, so that dlend_link_call_in_core() makes them
 * @get: take a reference on the structure that has the claim: each lease has one
 * @put: drop it
 * @uses: is the lease @epoch in use?
 * @link_down: the link to the lender is down, so the lease is over. When this returns, the peer
 *	cannot reach this node's memory through that lease. It must not wait
 * @state: the lender says who has the device (enum dlend_offer_state, node id, epoch). Return: does
 *	the user have a lease, or ask for one? If not, and the lender says that this node is the
 *	holder, the borrower gives that lease back
 * @reclaim: the lender asks for the device of the lease @epoch
 * @error: the device of the lease @epoch had an error
 * @no_direct: must the device's interrupts come by the doorbell? @why: (out) the reason, a string
 *	literal. May be NULL: they may come directly. Called by dlend_lease_irq_setup()
 * @irq_in_use: may a vector fire as soon as it is set up? If not, it may after
 *	dlend_irq_direct_use(): a vector that is not in use takes none of this host's vectors. NULL:
 *	all may. Called by dlend_lease_irq_setup(), before the device has a message for it
 * @irqs_again: have dlend_lease_irq_setup() called once more, soon: the interrupts may have to come
 *	in another way now. No interrupt may be lost on the way; an extra one does no harm
 * @interrupt: @count (1 or more) new interrupts of @vector. @direct: called by this vector's own
 *	interrupt, with no lock held, and interrupts of two vectors may come at once; otherwise
 *	interrupts are off, and a spinlock is held
 * @bar_revoked: on the loop, BAR @bar is unmapped: when this returns, dlend_lease.bar[@bar] is not
 *	in use any more. An aperture's lock is held: it must not wait
 * @returning: @lease is about to be given back: when this returns, the user uses nothing under
 *	@lease any more. Not called for a lease that another function of its group keeps
 * @returned: the lender has answered the return, or will not: when this returns, nothing is pinned
 *	for @lease
 * @released: the last reference on @lease was dropped. @acked: the lender has the device back, so
 *	the offsets and handles that the lender knows can be used again at once
 *
 * The last four may be NULL.
 *
 * Context of all but interrupt(): process, with none of the borrower's locks. @link_down to @error
 * come from the link's callbacks, one at a time for each device.
 */
struct dlend_claim_ops {
	const char *what, *user, *end;
	bool in_core;
	void (*get)(struct dlend_claim *claim);
	void (*put)(struct dlend_claim *claim);
	bool (*uses)(struct dlend_claim *claim, u32 epoch);
	void (*link_down)(struct dlend_claim *claim);
	bool (*state)(struct dlend_claim *claim, u16 state, u16 holder, u32 epoch);
	void (*reclaim)(struct dlend_claim *claim, u32 epoch);
	void (*error)(struct dlend_claim *claim, u32 epoch);
	bool (*no_direct)(struct dlend_claim *claim, const char **why);
	bool (*irq_in_use)(struct dlend_claim *claim, u32 vector);
	void (*irqs_again)(struct dlend_claim *claim);
	void (*interrupt)(struct dlend_claim *claim, u32 vector, u32 count, bool direct);
	void (*bar_revoked)(struct dlend_claim *claim, unsigned int bar);
	void (*returning)(struct dlend_claim *claim, struct dlend_lease *lease);
	void (*returned)(struct dlend_claim *claim, struct dlend_lease *lease);
	void (*released)(struct dlend_claim *claim, struct dlend_lease *lease, bool acked);
};

/**
 * struct dlend_claim - an offer in the hands of one user
 * @ops: set before dlend_offer_claim()
 * @dev: the user's device, for messages; set before dlend_offer_claim()
 * @offer: the offer, from dlend_offer_claim() on
 * @wq: the offer's ordered workqueue, from dlend_offer_claim() on; the user's work about this
 *	device belongs there, too
 * @vm: UUID of the mediated device, set before dlend_offer_claim(); all 0: it is none
 * @user: the process that uses the device. Functions of one IOMMU group are lent to one process at
 *	a time
 * @lease: in use, or NULL. The user writes it by WRITE_ONCE() under a lock of its own
 * @borrowing: the user asks for a lease, or is about to. Written as @lease
 * @irq_why: why the device's interrupts are not direct; NULL: they are. A string literal, written
 *	by dlend_lease_irq_setup()
 * @messages: requests that were made under its leases
 * @calls: calls of its ops that are under way, except those for leases; private to the borrower
 */
struct dlend_claim {
	const struct dlend_claim_ops *ops;
	struct device *dev;
	struct dlend_offer *offer;
	struct workqueue_struct *wq;
	u8 vm[DLEND_VM_SIZE];
	struct dlend_user user;
	struct dlend_lease *lease;
	bool borrowing;
	const char *irq_why;
	atomic64_t messages;
	atomic_t calls;
};

/**
 * dlend_offer_claim - claim an offer, for one user on this node
 * @offer: (in) offer
 * @claim: (in, out) the caller has set ops, dev and vm (and sets user before it borrows); stays
 *	until dlend_offer_release()
 * @why: (out) DLEND_REASON_LEN bytes: why not, if it fails
 *
 * Context: process; takes dlend_offers_lock. Return: 0; -EBUSY it is claimed already, or a borrow
 * would be refused (dlend_claim_taken()); -ENODEV the lender does not lend it any more, or its link
 * is down.
 */
int dlend_offer_claim(struct dlend_offer *offer, struct dlend_claim *claim, char *why);

/**
 * dlend_offer_release - give a claim up
 * @claim: (in) from dlend_offer_claim(). When this returns, ops are called only for leases that are
 *	still being returned (dlend_offer_flush())
 *
 * Context: process, may sleep, none of the locks that the claim's ops take; takes
 * dlend_offers_lock.
 */
void dlend_offer_release(struct dlend_claim *claim);

/**
 * dlend_claim_taken - would a borrow be refused now: another node has the device, it is reserved
 * for another node or VM, or it is quarantined?
 * @claim: (in) claim whose user has no lease
 * @why: (out) DLEND_REASON_LEN bytes: the reason, if so
 *
 * A device that is being reset, or whose link is down, does not count as taken: a borrow waits for
 * it. Nor does a device that this node may take over. Context: process; takes dlend_offers_lock.
 * Return: true: it would be refused.
 */
bool dlend_claim_taken(const struct dlend_claim *claim, char *why);

/**
 * dlend_claim_comes - does the device come here with a VM that moves?
 * @claim: (in) claim whose user has no lease
 *
 * Context: process; takes dlend_offers_lock. Return: true: another node has the device, and has
 * named this node as its standby: this node can take the device over, but not borrow it.
 */
bool dlend_claim_comes(const struct dlend_claim *claim);

/**
 * dlend_claim_pending - are leases of the offer still to be returned?
 * @claim: (in) claim
 *
 * Until they are returned, the lender takes this node for the holder, so the caller must not ask
 * for a new lease. If there are such leases, this waits for them, 100 ms at most. The caller then
 * asks again later; if it runs on @claim->wq, its work item returns before that, as some leases are
 * returned on that workqueue. Context: process, may sleep. Return: true: there were some when this
 * was called.
 */
bool dlend_claim_pending(const struct dlend_claim *claim);

/**
 * dlend_claim_show_interrupts - how the device's interrupts reach its user, for sysfs
 * @claim: (in) claim
 * @buf: (out) a line: "none" without a lease, "direct", or "doorbell: WHY"
 *
 * Context: any. Return: its length.
 */
int dlend_claim_show_interrupts(const struct dlend_claim *claim, char *buf);

/**
 * dlend_claim_return_stray - give back a lease that was granted, but that the user never got
 * @claim: (in) claim whose user has no lease, and asks for none
 *
 * For an answer to BORROW that came too late: it may have been a grant. Nothing happens if the
 * lender does not say that this node holds the device. Context: process; takes dlend_offers_lock.
 */
void dlend_claim_return_stray(struct dlend_claim *claim);

/* Leases */

/**
 * struct dlend_lease - the right to use a device, from the grant to the acknowledged return
 * @ref: session of the link to the lender, with a reference on the link
 * @addr: device
 * @epoch: number of the lease
 * @bar: where this node's CPUs reach the BARs; dlend_window.phys is 0 if they do not reach a BAR
 * @priv: private to the user
 *
 * Private to the borrower:
 *
 * @kref: references; the last one ends the lease
 * @claim: claim of its user, with a reference; NULL: a stray lease, which the user never got, and
 *	which is only returned
 * @offer: the offer of the device; set once the lease was granted
 * @sink: where its interrupts arrive; NULL for a stray lease
 * @direct: vectors for direct interrupts; NULL: there are none
 * @grant: the lender's reply: offsets of the BARs in its aperture
 * @acked: the lender said that it has the device back
 * @return_work: returns the lease
 */
struct dlend_lease {
	struct dlend_session_ref ref;
	struct dlend_addr addr;
	u32 epoch;
	struct dlend_window bar[DLEND_NUM_REGIONS];
	void *priv;
	struct kref kref;
	struct dlend_claim *claim;
	struct dlend_offer *offer;
	struct dlend_irq_sink *sink;
	struct dlend_irq_direct *direct;
	struct dlend_p_lease grant;
	bool acked;
	struct work_struct return_work;
};

/**
 * dlend_lease_borrow - ask the lender for the device
 * @claim: (in) claim; @claim->borrowing is set
 * @standby: (in) true: only prepare to take the device over from the node that has it, which has
 *	named this node (dlend_lease_move_to()). Under such a lease only memory is mapped; neither
 *	the BARs nor the device are reached before dlend_lease_take_over(). It is given back as any
 *	lease is
 * @why: (out) DLEND_REASON_LEN bytes: what went wrong, if something does
 *
 * Context: @claim->wq only; waits for the lender, ten seconds at most.
 * Return: the lease, with one reference, which is given to dlend_lease_return(); or ERR_PTR:
 * -EAGAIN its last lease is not over yet, or this host is going to sleep; -EBUSY another node, or
 * another user on this node, has it; -ENODEV the lender does not lend it any more; -ENOSPC its BARs
 * do not fit into the window; -ETIMEDOUT no answer (call dlend_claim_return_stray() once borrowing
 * is cleared); -ENOTCONN; -ENOMEM; -EPERM the holder has not named this node as its standby; or
 * what the lender says.
 */
struct dlend_lease *dlend_lease_borrow(struct dlend_claim *claim, bool standby, char *why);

/** dlend_lease_get - one more reference; NULL has none. Context: any. Return: @lease */
static inline struct dlend_lease *dlend_lease_get(struct dlend_lease *lease)
{
	if (lease)
		kref_get(&lease->kref);
	return lease;
}

/**
 * dlend_lease_put - one reference less; the last one ends it
 * @lease: (in) lease; NULL: nothing happens
 *
 * Context: process, may sleep.
 */
void dlend_lease_put(struct dlend_lease *lease);

/**
 * dlend_lease_return - give the lease back
 * @lease: (in) lease; takes over the caller's reference
 *
 * This only queues the return. A worker calls dlend_claim_ops.returning(), and then sends RETURN to
 * the lender, whatever work of the user is under way; the lender refuses requests under the lease
 * that come after that. Context: process, does not wait.
 */
void dlend_lease_return(struct dlend_lease *lease);

/**
 * dlend_lease_over - has the lease ended, as far as this node knows?
 * @lease: (in) lease
 *
 * The user asks this right after a grant: the message by which the lender ends the lease may have
 * come before the user has noted the lease. Context: process; takes dlend_offers_lock. Return:
 * true: its session is over, or the lender has said that it took the device back.
 */
bool dlend_lease_over(const struct dlend_lease *lease);

/** dlend_lease_lost - is its session over, so that no message reaches the lender? Context: any. */
static inline bool dlend_lease_lost(const struct dlend_lease *lease)
{
	return !dlend_session_live(&lease->ref);
}

/*
 * Requests.  Context of all: process, may sleep; they wait for the lender. Return: 0, the lender's
 * -errno, or as dlend_link_call_in().
 */

/** dlend_lease_reset - reset the function; afterwards Bus Master Enable and interrupts are off */
int dlend_lease_reset(struct dlend_lease *lease);

/** dlend_lease_bus_master - turn the device's own Bus Master Enable on or off */
int dlend_lease_bus_master(struct dlend_lease *lease, bool on);

/**
 * dlend_lease_irq_setup - set up the vectors of a lease
 * @lease: lease
 * @mode: (in) kind of interrupt; DLEND_IRQ_NONE: no vectors any more
 * @count: (in) how many vectors
 *
 * The caller serialises its calls for one lease, also those of dlend_lease_quiesce().
 */
int dlend_lease_irq_setup(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count);

/** dlend_lease_irq_unmask - let INTx fire again, after it was served. Waits for no answer */
int dlend_lease_irq_unmask(struct dlend_lease *lease);

/* The device's own configuration space. */

/**
 * dlend_lease_cfg_read - read a register of the device
 * @lease: (in) lease
 * @at: (in) offset, a multiple of @size
 * @size: (in) 1, 2 or 4 bytes
 * @value: (out) its contents, except addresses of the lender's host; unchanged on error
 * @timeout_ms: (in) milliseconds for the whole call
 *
 * Return: as all requests; -EAGAIN the lender is resetting the device.
 */
int dlend_lease_cfg_read(struct dlend_lease *lease, u32 at, u32 size, u32 *value,
			 unsigned int timeout_ms);

/**
 * dlend_lease_cfg_write - write a register of the device
 * @lease: (in) lease
 * @at: (in) as of dlend_lease_cfg_read()
 * @size: (in) as of dlend_lease_cfg_read()
 * @value: (in) new contents, in the lowest @size bytes
 * @timeout_ms: (in) milliseconds for the whole call
 *
 * Return: as dlend_lease_cfg_read(); -EPERM the lender lets no borrower write there.
 */
int dlend_lease_cfg_write(struct dlend_lease *lease, u32 at, u32 size, u32 value,
			  unsigned int timeout_ms);

/**
 * dlend_lease_vpd - have a word of Vital Product Data read or written
 * @lease: (in) lease
 * @pos: (in) offset of the VPD capability
 * @addr: (in) address of the word, with PCI_VPD_ADDR_F if it is to be written
 * @data: (in, out) the word to write, or the word that was read
 * @timeout_ms: (in) milliseconds for all of it: two or three messages, and the device's own time
 *
 * Return: as dlend_lease_cfg_read(); -EIO, -ENODEV, -EINVAL the device has no such word, or does
 * not answer; -EPERM the lender's dlend does not know of VPD.
 */
int dlend_lease_vpd(struct dlend_lease *lease, u32 pos, u16 addr, u32 *data,
		    unsigned int timeout_ms);

/**
 * dlend_lease_set_readrq - set Max_Read_Request_Size
 * @lease: (in) lease
 * @at: (in) offset of the PCIe capability's Device Control register
 * @readrq: (in) size, as that register encodes it (128 << n bytes)
 */
static inline int dlend_lease_set_readrq(struct dlend_lease *lease, u32 at, u32 readrq)
{
	return dlend_lease_cfg_write(lease, at, 2, FIELD_PREP(PCI_EXP_DEVCTL_READRQ, readrq), 0);
}

/**
 * dlend_lease_enable - have the lender look whether the device has lost its settings
 * @lease: (in) lease; the device's user has just turned memory decoding or bus mastering on
 *
 * If the device was reset without the lender, the lender restores its BARs, Bus Master Enable and
 * interrupts.
 * Return: as dlend_lease_cfg_write().
 */
static inline int dlend_lease_enable(struct dlend_lease *lease)
{
	return dlend_lease_cfg_write(lease, PCI_COMMAND, 2, PCI_COMMAND_MEMORY, 0);
}

/* Moving a lease to another node; the device keeps its state: it is not reset. */

/**
 * dlend_lease_move_to - let a node prepare to take the lease over
 * @lease: (in) lease
 * @node: (in) node id; DLEND_NODE_NONE: no node any more
 * @forced: (in) also if the device is never silent: its transfers of that moment are lost
 *
 * Return: 0; -EOPNOTSUPP a device of its kind is never silent; -EMLINK its group has more
 * functions; -EINVAL @node is this node.
 */
int dlend_lease_move_to(struct dlend_lease *lease, u16 node, bool forced);

/**
 * struct dlend_quiesced - how a device was stopped
 * @drained: no DMA and no request was under way when the device was stopped
 * @waited_us: microseconds until the device was silent
 * @fired: interrupts of the device under this lease
 * @irqs_changed: the interrupts were direct, and are not any more: the caller has to set them up
 *	again when the device goes on
 */
struct dlend_quiesced {
	bool drained, irqs_changed;
	u32 waited_us;
	u64 fired;
};

/**
 * dlend_lease_quiesce - the guest stands still: stop the device, once it does nothing
 * @lease: (in) lease
 * @mode: (in) DLEND_IRQ_*, as its interrupts are set up
 * @count: (in) vectors, as they are set up
 * @quiesced: (out) how it went
 *
 * The lender sees by the device's interrupts whether it still works, so direct interrupts are set
 * up to come through the lender first. Afterwards Bus Master Enable is off, drained or not, and all
 * interrupts have been counted in this host's memory, even if the user has not got them yet. Waits
 * a second for the device, at most.
 */
int dlend_lease_quiesce(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count,
			struct dlend_quiesced *quiesced);

/**
 * dlend_lease_run - end what dlend_lease_quiesce() began, as the guest goes on here: no other node
 *	can take the device over any more
 * @lease: (in) lease
 *
 * Interrupts go on; Bus Master Enable stays off. Return: 0; -ESTALE another node has it.
 */
int dlend_lease_run(struct dlend_lease *lease);

/**
 * dlend_lease_hand_over - let the standby take the lease over
 * @lease: (in) lease, after dlend_lease_quiesce()
 * @token: (out) the other node shows this token in dlend_lease_take_over()
 *
 * The lease stays this node's until the other node takes it over; dlend_lease_run() takes the
 * permission back. If this node returns the lease before the take-over, the device is parked for
 * the other node.
 */
int dlend_lease_hand_over(struct dlend_lease *lease, u8 token[DLEND_TOKEN_SIZE]);

/**
 * dlend_lease_may_take_over - would dlend_lease_take_over() succeed now?
 * @lease: (in) from a standby's dlend_lease_borrow()
 * @token: (in) of the old holder
 * @why: (out) DLEND_REASON_LEN bytes: why not, if it would not
 *
 * Return: as dlend_lease_take_over().
 */
int dlend_lease_may_take_over(struct dlend_lease *lease, const u8 token[DLEND_TOKEN_SIZE],
			      char *why);

/**
 * dlend_lease_take_over - the guest goes on here: this node is the holder from now on
 * @lease: (in) from a standby's dlend_lease_borrow()
 * @token: (in) of the old holder
 * @why: (out) DLEND_REASON_LEN bytes: what went wrong, if something does
 *
 * BARs are in reach afterwards; Bus Master Enable and interrupts are off. Return: 0; -EINPROGRESS
 * the guest has gone on where it was; -EPERM wrong token; -ESTALE this node may not any more; after
 * another error this node may be the holder already, without BARs.
 */
int dlend_lease_take_over(struct dlend_lease *lease, const u8 token[DLEND_TOKEN_SIZE],
			  char *why);

#endif
