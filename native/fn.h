/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function of another node, as this host's own kernel uses it.
 *
 * Files of native/, from the bottom up:
 *
 *   msi.c	interrupts: the MSI parent domain of a root bus
 *   iommu.c	DMA: an IOMMU driver of our own in front of a raw slot of the aperture
 *   config.c	configuration space: answered here, from what the lender read after a reset
 *   window.c	resources: the NTB's BAR, and windows of root buses in it
 *   root.c	the root bus
 *   attach.c	from an offer to a device in the PCI tree, and back
 *   main.c	the module, and the attribute by which people attach
 *
 * Locks, outermost first: attach_lock (attach.c, mutex), the kernel's pci_rescan_remove_lock, the
 * IOMMU group's mutex, dlend_native_fn.lock (raw spinlock; under the kernel's pci_lock, too).
 */
#ifndef DLEND_NATIVE_FN_H
#define DLEND_NATIVE_FN_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <dlend/borrower.h>
#include <dlend/cfg.h>

struct dlend_native_domain;
struct dlend_native_root;

/**
 * struct dlend_native_vector - one interrupt
 * @work, @call: run the driver's handler, on this processor or on another
 * @fn: whose it is
 * @virq: 0: the driver does not have it
 * @cpu: where it is handled
 */
struct dlend_native_vector {
	struct irq_work work;
	call_single_data_t call;
	struct dlend_native_fn *fn;
	unsigned int virq, cpu;
};

/**
 * struct dlend_native_fn - a function that is attached, or is about to be
 * @ref: of attach.c, of the claim's users
 * @claim: of the offer
 * @info: what the lender says of it
 * @root: the root bus that it is on; @devfn: there
 * @pdev: the device, from the scan to its removal
 * @lock: @cfg, @dead, @resetting
 * @cfg: its configuration space
 * @dead: it is gone, as far as this host can tell: configuration space reads as ones
 * @resetting: a function level reset is under way: likewise
 * @reset_work: asks the lender for a reset
 * @lost_work: removes the device after it has died
 * @dma_lock: @domain, and whether the lender has been told of it
 * @domain: of iommu.c, that it translates by, or NULL
 * @irq_mode, @irq_count: what the lender delivers; msi.c's, under the MSI domain's mutex
 * @irq_used: that the driver has
 * @vector: @irq_count of them
 */
struct dlend_native_fn {
	struct kref ref;
	struct dlend_claim claim;
	struct dlend_offer_info info;
	struct dlend_native_root *root;
	unsigned int devfn;
	struct pci_dev *pdev;
	raw_spinlock_t lock;
	struct dlend_cfg cfg;
	bool dead, resetting;
	struct work_struct reset_work, lost_work;
	struct mutex dma_lock;
	struct dlend_native_domain *domain;
	enum dlend_irq_mode irq_mode;
	unsigned int irq_count, irq_used;
	struct dlend_native_vector *vector;
};

/** dlend_native_lease - its lease, from before the scan to after the removal. Context: process. */
static inline struct dlend_lease *dlend_native_lease(const struct dlend_native_fn *fn)
{
	return fn->claim.lease;
}

#endif
