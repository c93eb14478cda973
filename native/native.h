/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of other nodes, as this host's own kernel uses them: what the files of native/ share.
 * From the bottom up:
 *
 *   fn.c	the structure, and why it could not be attached
 *   irq.c	interrupts, as they come from the lender; the MSI parent domain of a root bus; INTx
 *   domain.c	DMA: what of this host's memory a device reaches, and by which addresses; an IOMMU
 *		driver of our own, for the kernel's dma-iommu and for VFIO
 *   root.c	the root bus; its resources, windows in the NTB's BAR; configuration space, answered
 *		here from what the lender read after a reset
 *   attach.c	from an offer to a device in the PCI tree, and back: taking a device from its
 *		lender, losing it, giving it back; attributes; the module
 *
 * Locks, outermost first: attach_lock (attach.c, mutex), the kernel's pci_rescan_remove_lock, the
 * IOMMU group's mutex, change of domain.c, dlend_native_fn.domain_lock, lock of domain.c, the
 * aperture's lock.  dlend_native_fn.irq_lock is under the kernel's own lock of a device's MSIs;
 * dlend_native_fn.lock (raw spinlock) is under the kernel's pci_lock, too.
 */
#ifndef DLEND_NATIVE_NATIVE_H
#define DLEND_NATIVE_NATIVE_H

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

#define DLEND_NATIVE_DEVFNS	256

struct dlend_native_domain;
struct dlend_native_root;
struct seq_file;

/**
 * struct dlend_native_vector - one interrupt
 * @work, @call: run the driver's handler, on this processor or on another
 * @calling: bit 0: @call is under way
 * @fn: whose it is
 * @virq: number of the kernel's interrupt; 0: the driver does not have it
 * @taken: the driver has it, or is about to; under irq_lock
 * @pending: it came while @virq was 0, as in the PBA of a device
 * @cpu: the processor that handles it
 * @bound: the processor that a direct one comes to; nr_cpu_ids: not known; under irq_lock
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
 * @ref: references: attach.c has one, and each user of the claim
 * @claim: of the offer; it has a lease from before the scan to after the removal
 * @info: what the lender says of it
 * @root: the root bus that it is on
 * @pdev: the device, with a reference, from the scan on
 * @lock: guards @cfg, @dead, @resetting
 * @cfg: its configuration space
 * @dead: it is gone, as far as this host can tell: configuration space reads as ones
 * @resetting: a function level reset is under way; configuration space reads as ones
 * @reset_work: asks the lender for a reset
 * @vpd_work: has a word of VPD moved
 * @bind_work: has direct interrupts come where they are handled
 * @again_work: sets its interrupts up once more
 * @lost_work: removes the device after it has died; attach.c's
 * @why: what went wrong last, for people
 * @domain_lock: guards @domain. Never held while the lender is asked
 * @domain: the domain (domain.c) that it is a member of, or NULL
 * @in_domain: among the domain's members
 * @domain_alive: its lease is not over, as far as the domain knows; under the domain's lock
 * @p2p: a user of its own: the device reaches itself, and no other
 * @reach_wq: woken when it does so
 * @intx: number of the interrupt for INTx; 0: it has none
 * @intx_up: INTx was told of, and not handled yet; under @lock
 * @unmask_work: tells the lender that it was handled
 * @irq_lock: guards the rest
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
	struct dlend_native_domain *domain;
	struct list_head in_domain;
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

/**
 * struct dlend_native_root - a root bus, with the functions of one lease
 * @sysdata: x86's own of a root bus, with the domain's number
 * @fn: functions, by device and function number
 * @prepared: their domain, until the IOMMU core asks for it; or NULL. One thread prepares it, has
 *	the functions found, or forgets it
 * @group: the IOMMU group of its functions, from the first one's probe on
 * @pdev: parent of the bridge
 * @bridge: the PCI core's
 * @bus: the PCI core's; NULL until it was made
 * @numbers: number of the bus, as a resource
 * @numbers_entry: among the windows of the bridge; the bridge frees it, once it has a bus
 * @fwnode: name of @msi
 * @msi: where its functions take their interrupts from
 * @bars: onto the BARs, by dlend_native_bar_res.in_root
 * @nr: number that the bus has on the lender
 * @below: 32-bit BARs are placed below this
 * @above: 64-bit BARs are placed from this on
 */
struct dlend_native_root {
	struct pci_sysdata sysdata;
	struct dlend_native_fn *fn[DLEND_NATIVE_DEVFNS];
	struct dlend_native_domain *prepared;
	struct iommu_group *group;
	struct platform_device *pdev;
	struct pci_host_bridge *bridge;
	struct pci_bus *bus;
	struct resource numbers;
	struct resource_entry *numbers_entry;
	struct fwnode_handle *fwnode;
	struct irq_domain *msi;
	struct list_head bars;
	u8 nr;
	u32 below;
	u64 above;
};

/* For what is asked of a lender, and for lost_work. */
extern struct workqueue_struct *dlend_native_wq;

/* Of root.c; a bus is ours if it has them. */
extern struct pci_ops dlend_native_config_ops;

/**
 * dlend_native_fn_make - a function that is not claimed yet
 * @offer: (in) offer; stays
 *
 * Context: process, may sleep. Return: function with one reference, or NULL.
 */
struct dlend_native_fn *dlend_native_fn_make(struct dlend_offer *offer);

/** dlend_native_fn_put - one reference less; the last one frees it. Context: process, may sleep. */
void dlend_native_fn_put(struct dlend_native_fn *fn);

/**
 * dlend_native_lost - the device is gone
 * @fn: function; its driver reads ones from now on, as of one that was unplugged
 * @why: (in) for people
 *
 * Has it removed by its lost_work. Context: process; does not wait.
 */
void dlend_native_lost(struct dlend_native_fn *fn, const char *why);

/** dlend_native_queue_lost - queue a function's lost_work. Context: any. */
void dlend_native_queue_lost(struct dlend_native_fn *fn);

/** dlend_native_fn_on - a function by number; NULL: none, or the bus is not ours. Context: any. */
struct dlend_native_fn *dlend_native_fn_on(struct pci_bus *bus, unsigned int devfn);

/** dlend_native_fn_of - function behind a device, NULL: it is not ours. Context: any. */
struct dlend_native_fn *dlend_native_fn_of(struct pci_dev *pdev);

/**
 * dlend_native_fn_fails - note why a function cannot be attached, and log it
 * @fn: (in, out) function
 * @fmt: (in) a reason that says what to do, without a new line
 *
 * Context: process, under attach_lock or the IOMMU group's mutex.
 */
__printf(2, 3) void dlend_native_fn_fails(struct dlend_native_fn *fn, const char *fmt, ...);

/* irq.c: what the lender delivers becomes INTx, MSI or MSI-X here */

/**
 * dlend_native_irq_again - have the lender deliver what it delivered before a reset
 * @fn: (in) function whose interrupts a reset has ended
 *
 * Context: process, waits for the lender; takes irq_lock. Return: as dlend_lease_irq_setup().
 */
int dlend_native_irq_again(struct dlend_native_fn *fn);

/**
 * dlend_native_irq_handle_all - handle each of the driver's message interrupts once
 * @fn: (in) function that may have sent some while they were set up
 *
 * Context: process; takes irq_lock.
 */
void dlend_native_irq_handle_all(struct dlend_native_fn *fn);

/**
 * dlend_native_irq_fired - the device has sent @vector
 * @fn: (in) function
 * @vector: (in) number
 * @direct: (in) by an interrupt that came here: the handler may run at once
 *
 * Context: interrupts are off. @direct: the handler of an interrupt; else locks may be held.
 */
void dlend_native_irq_fired(struct dlend_native_fn *fn, unsigned int vector, bool direct);

/** dlend_native_irq_bind_work - dlend_native_fn.bind_work. Context: process; takes irq_lock. */
void dlend_native_irq_bind_work(struct work_struct *work);

/**
 * dlend_native_msi_create - the domain that devices of a root bus take their interrupts from
 * @fwnode: (in) name of it; stays until irq_domain_remove()
 * @isolated: (in) the lenders' interrupts are isolated, as VFIO wants it
 *
 * Context: process, may sleep. Return: domain, or NULL.
 */
struct irq_domain *dlend_native_msi_create(struct fwnode_handle *fwnode, bool isolated);

/**
 * dlend_native_intx_make - give a function an interrupt for its INTx, if it has INTx
 * @fn: (in, out) function with info; fn->intx is the interrupt's number
 *
 * Context: process, may sleep. Return: 0 or -errno.
 */
int dlend_native_intx_make(struct dlend_native_fn *fn);

/**
 * dlend_native_intx_free - undo dlend_native_intx_make()
 * @fn: (in, out) function; no driver has its interrupt any more
 *
 * Context: process, may sleep.
 */
void dlend_native_intx_free(struct dlend_native_fn *fn);

/**
 * dlend_native_intx_wanted - a function's driver waits for INTx again
 * @fn: (in, out) function with fn->intx
 * @handled: (in) true: the last one was handled; false: INTx was enabled or disabled in the device
 *
 * Context: any; takes dlend_native_fn.lock.
 */
void dlend_native_intx_wanted(struct dlend_native_fn *fn, bool handled);

/* domain.c */

/**
 * dlend_native_domain_prepare - a domain for the kernel's own DMA, before a function is found
 * @fn: function on a root bus, in no domain
 *
 * All functions of a root bus get one. The IOMMU core asks for it when it finds the first of them,
 * and attaches each of them, which must not fail: so all that can fail is done here.
 * Context: process; waits for the lender. Return: 0; -ENOSPC the window has no room; -ENODEV the
 * link is down; -ENOMEM; or what a lender answers. If it fails, dlend_native_domain_forget()
 * follows.
 */
int dlend_native_domain_prepare(struct dlend_native_fn *fn);

/**
 * dlend_native_domain_forget - functions that the IOMMU core has not found leave their domain
 * @root: root bus; one whose functions were all found is fine
 *
 * To be called before the root bus goes, and with it a domain that other functions of the lease
 * were found with. Context: process, waits for the lender.
 */
void dlend_native_domain_forget(struct dlend_native_root *root);

/**
 * dlend_native_domain_revoke - put this host's memory out of a function's reach, at once and for
 * good
 * @fn: (in) function whose lease is over
 *
 * Only if no other member of its domain has a lease: the others would lose that memory, too, and
 * the lender has stopped this function already. Context: process, may sleep; waits for no peer.
 */
void dlend_native_domain_revoke(struct dlend_native_fn *fn);

/**
 * dlend_native_domain_of_vfio - does a program or a guest use the device, by VFIO?
 * @fn: (in) function
 *
 * Context: process; takes domain_lock.
 */
bool dlend_native_domain_of_vfio(struct dlend_native_fn *fn);

/** dlend_native_domain_show - show a domain's numbers in debugfs. Context: process, may sleep. */
void dlend_native_domain_show(struct dlend_native_fn *fn, struct seq_file *m);

/**
 * dlend_native_iommu_init - register the IOMMU driver
 *
 * Devices of our root buses belong to it from the moment that the PCI core knows of them.
 * Context: process, may sleep. Return: 0 or -errno.
 */
int dlend_native_iommu_init(void);

/**
 * dlend_native_iommu_add - give a device of a root bus of ours to the driver
 * @dev: (in) device that the IOMMU core has not looked at yet
 *
 * Context: process, in the bus's notifier. If it fails, the log says so, and the device is not
 * ours.
 */
void dlend_native_iommu_add(struct device *dev);

/** dlend_native_iommu_exit - unregister it; no device is attached. Context: process, may sleep. */
void dlend_native_iommu_exit(void);

/* root.c */

/**
 * dlend_native_ntb_leaves - a PCI device is about to lose its driver
 * @ntb: (in) device; if windows are in its BARs, the devices behind these are lost
 *
 * Context: process, in the bus's notifier; waits for the drivers of these devices, ten seconds at
 * most.
 */
void dlend_native_ntb_leaves(struct device *ntb);

/** dlend_native_ntb_left - @ntb has lost its driver. Context: process, in the bus's notifier. */
void dlend_native_ntb_left(struct device *ntb);

/** dlend_native_ntb_exit - no window is left, and the notifier is gone. Context: process. */
void dlend_native_ntb_exit(void);

/**
 * dlend_native_config_init - make the space of a function that was just reset
 * @fn: (in, out) with info; its BARs have no addresses yet
 *
 * Context: process, may sleep. Return: 0; -EINVAL what the lender sent makes no sense; -ENOMEM.
 */
int dlend_native_config_init(struct dlend_native_fn *fn);

/**
 * dlend_native_config_vpd_work - have a word of VPD moved; the kernel polls for it
 * @work: (in) &dlend_native_fn.vpd_work
 *
 * Context: process; waits for the lender, a quarter of a second at most.
 */
void dlend_native_config_vpd_work(struct work_struct *work);

/**
 * dlend_native_root_create - a root bus that has nothing on it yet
 * @lender: (in) node id
 * @nr: (in) number of the bus: as on the lender, if it is free here
 * @isolated: (in) interrupts of all its functions are isolated
 *
 * Context: process, may sleep. Return: root bus, or ERR_PTR.
 */
struct dlend_native_root *dlend_native_root_create(u16 lender, u8 nr, bool isolated);

/**
 * dlend_native_root_add_fn - place a function on it, before the scan
 * @root: root bus
 * @fn: (in, out) function with a lease and a configuration space
 *
 * It has the device and function number of its lender's, or another if that is taken.
 * Context: process, may sleep. Return: 0; -ENOSPC a 32-bit BAR finds no address, or the bus is
 * full; or as dlend_native_bar_res_request(). What was made for it goes with the root bus.
 */
int dlend_native_root_add_fn(struct dlend_native_root *root, struct dlend_native_fn *fn);

/**
 * dlend_native_root_scan - let the PCI core find the functions on it, and drivers bind
 * @root: root bus
 * @first: one of its functions; a failure of the bus itself is noted there
 *
 * Context: process, may sleep; takes pci_rescan_remove_lock. Return: 0 or -errno.
 */
int dlend_native_root_scan(struct dlend_native_root *root, struct dlend_native_fn *first);

/**
 * dlend_native_root_remove - take everything off it: drivers let go, as of an unplugged device
 * @root: root bus, scanned or not; gone when this returns
 *
 * Context: process, may sleep; takes pci_rescan_remove_lock.
 */
void dlend_native_root_remove(struct dlend_native_root *root);

#endif
