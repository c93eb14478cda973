/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function of another node, as this host's own kernel uses it.
 *
 * Files of native/, from the bottom up:
 *
 *   fn.c	the structure, and why it could not be attached
 *   irq.c	interrupts, as they come from the lender; the MSI parent domain of a root bus; INTx
 *   root.c	the root bus; its resources, windows in the NTB's BAR; configuration space, answered
 *		here from what the lender read after a reset
 *   domain.c	DMA: what of this host's memory a device reaches, and by which addresses; an IOMMU
 *		driver of our own, for the kernel's dma-iommu and for VFIO
 *   attach.c	from an offer to a device in the PCI tree, and back: taking a device from its
 *		lender, losing it, giving it back; attributes; the module
 *
 * Locks, outermost first: attach_lock (attach.c, mutex), the kernel's pci_rescan_remove_lock, the
 * IOMMU group's mutex, change of domain.c, dlend_native_fn.domain_lock, lock of domain.c, the
 * aperture's lock.  dlend_native_fn.irq_lock is under the kernel's own lock of a device's MSIs;
 * dlend_native_fn.lock (raw spinlock) is under the kernel's pci_lock, too.
 */
#ifndef DLEND_NATIVE_FN_H
#define DLEND_NATIVE_FN_H

#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/msi.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <dlend/borrower.h>
#include <dlend/cfg.h>
#include <dlend/p2p.h>

struct dlend_native_domain;
struct dlend_native_root;

/**
 * struct dlend_native_vector - one interrupt
 * @work, @call: run the driver's handler, on this processor or on another
 * @calling: @call is under way: bit 0
 * @fn: whose it is
 * @virq: 0: the driver does not have it
 * @taken: the driver has it, or is about to; under irq_lock
 * @pending: it came while @virq was 0; as the PBA of a vector that is masked
 * @cpu: where it is handled
 * @bound: where it comes, if it is a direct one; nr_cpu_ids: not known; under irq_lock
 * @message: what the lender has written into the device; zeros: not known
 */
struct dlend_native_vector {
	struct irq_work work;
	call_single_data_t call;
	unsigned long calling;
	struct dlend_native_fn *fn;
	unsigned int virq, cpu, bound;
	bool taken, pending;
	struct msi_msg message;
};

/**
 * struct dlend_native_fn - a function that is attached, or is about to be
 * @ref: of attach.c, of the claim's users
 * @claim: of the offer
 * @info: what the lender says of it
 * @root: the root bus that it is on
 * @pdev: the device, with a reference, from the scan on
 * @lock: @cfg, @dead, @resetting
 * @cfg: its configuration space
 * @dead: it is gone, as far as this host can tell: configuration space reads as ones
 * @resetting: a function level reset is under way: likewise
 * @reset_work: asks the lender for a reset
 * @vpd_work: has a word of VPD moved
 * @bind_work: has direct interrupts come where they are handled
 * @again_work: sets its interrupts up once more
 * @lost_work: removes the device after it has died; attach.c's
 * @why: what went wrong last, for people
 * @domain_lock: @domain. Never held while the lender is asked
 * @domain: of domain.c, that it translates by, or NULL
 * @prepared: a domain that the IOMMU core is yet to ask for, as a rule @domain
 * @in_prepared: among those that it was prepared for
 * @in_domain: among the domain's members
 * @domain_alive: and it counts for whether others need what is mapped; under the domain's lock
 * @p2p: a party of its own: the device reaches itself, and no other
 * @reach_wq: woken when it does
 * @intx: number of the interrupt for INTx; 0: it has none
 * @intx_up: INTx was told of, and not handled yet; under @lock
 * @unmask_work: tells the lender that it was handled
 * @irq_lock: the rest
 * @irq_mode, @irq_count: what the lender delivers
 * @irq_taken: of these, how many are taken
 * @vector: @irq_count of them
 */
struct dlend_native_fn {
	struct kref ref;
	struct dlend_claim claim;
	struct dlend_offer_info info;
	struct dlend_native_root *root;
	struct pci_dev *pdev;
	raw_spinlock_t lock;
	struct dlend_cfg cfg;
	bool dead, resetting;
	struct work_struct reset_work, vpd_work, bind_work, again_work, lost_work;
	char why[DLEND_REASON_LEN];
	struct mutex domain_lock;	/* see above */
	struct dlend_native_domain *domain, *prepared;
	struct list_head in_domain, in_prepared;
	bool domain_alive;
	struct dlend_p2p_member p2p;
	wait_queue_head_t reach_wq;
	unsigned int intx;
	bool intx_up;
	struct work_struct unmask_work;
	struct mutex irq_lock;		/* see above */
	enum dlend_irq_mode irq_mode;
	unsigned int irq_count, irq_taken;
	struct dlend_native_vector *vector;
};

#define DLEND_NATIVE_DEVFNS	256

/**
 * struct dlend_native_bus - what is on a root bus of ours
 * @sysdata: x86's own of a root bus, with the domain's number
 * @fn: functions, by device and function number
 */
struct dlend_native_bus {
	struct pci_sysdata sysdata;
	struct dlend_native_fn *fn[DLEND_NATIVE_DEVFNS];
};

/* For what is asked of a lender, and for lost_work. */
extern struct workqueue_struct *dlend_native_wq;

/* Of root.c; our buses are known by them. */
extern struct pci_ops dlend_native_config_ops;

/** dlend_native_lease - its lease, from before the scan to after the removal. Context: process. */
static inline struct dlend_lease *dlend_native_lease(const struct dlend_native_fn *fn)
{
	return fn->claim.lease;
}

/**
 * dlend_native_fn_make - a function of nobody's yet
 * @offer: (in) offer; stays
 *
 * Context: process, may sleep. Return: function with one reference, or NULL.
 */
struct dlend_native_fn *dlend_native_fn_make(struct dlend_offer *offer);

/** dlend_native_fn_get - one more reference. Context: any. */
void dlend_native_fn_get(struct dlend_native_fn *fn);

/** dlend_native_fn_put - one less; the last one frees it. Context: process, may sleep. */
void dlend_native_fn_put(struct dlend_native_fn *fn);

/**
 * dlend_native_lost - the device is gone
 * @fn: function; its driver reads ones from now on, as of one that was unplugged
 * @why: (in) for people
 *
 * Has it removed by its lost_work. Context: process; does not wait.
 */
void dlend_native_lost(struct dlend_native_fn *fn, const char *why);

/** dlend_native_go - queue its lost_work, with a reference for it. Context: any. */
void dlend_native_go(struct dlend_native_fn *fn);

/** dlend_native_fn_on - function of a bus, NULL: none, or the bus is not ours. Context: any. */
struct dlend_native_fn *dlend_native_fn_on(struct pci_bus *bus, unsigned int devfn);

/** dlend_native_fn_of - function behind a device, NULL: it is not ours. Context: any. */
struct dlend_native_fn *dlend_native_fn_of(struct pci_dev *pdev);

/**
 * dlend_native_fn_fails - note why it cannot be attached, and say so in the kernel's log
 * @fn: (in, out) function
 * @fmt: (in) a reason that says what to do, without a new line
 *
 * Context: process, under attach_lock or the IOMMU group's mutex.
 */
__printf(2, 3) void dlend_native_fn_fails(struct dlend_native_fn *fn, const char *fmt, ...);

#endif
