/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attached devices: PCI functions of other nodes, as this host's own kernel uses them.  This header
 * is what the files of native/ share.  From the bottom up:
 *
 *   fn.c	the structure of a function; how it is looked up, and marked as lost
 *   irq.c	interrupts: the lender delivers them, and the kernel here sees MSI, MSI-X (from the
 *		MSI parent domain of a root bus) or INTx
 *   domain.c	DMA: an IOMMU driver of dlend's own, for the kernel's dma-iommu and for VFIO.  It
 *		decides what of this host's memory a device reaches, and by which IOVAs
 *   root.c	the root bus; the resources of the BARs, inside the BAR of this host's NTB;
 *		configuration space, answered here from what the lender read after a reset
 *   attach.c	from an offer to a device in the PCI tree, and back: a device is borrowed from its
 *		lender, lost, and returned; sysfs attributes; the module
 *
 * Words of this folder: the *members* of an IOMMU domain are the functions that reach what it maps.
 * A *segment* is a range of IOVAs that the lender maps as a whole.  A function is *enumerated* when
 * the PCI core has made a struct pci_dev for it, and *probed* when the IOMMU core has called
 * iommu_ops.probe_device().  A driver's own probe() comes after both.  A device is *lost* if it
 * cannot be used any more, and is going to be removed from the PCI tree (dlend_native_lost()).
 *
 * Locks, outermost first: dlend_native_attach_lock (attach.c, mutex), the kernel's
 * pci_rescan_remove_lock, the IOMMU group's mutex, dlend_native_domain.change (mutex),
 * dlend_native_fn.domain_lock (mutex), dlend_native_domain.lock (mutex), the aperture's lock.
 * dlend_native_fn.irq_lock (mutex) is taken under the kernel's own lock of a device's MSIs.
 * dlend_native_regions_lock (root.c, mutex) is taken under none of these.  dlend_native_fn.lock (a
 * raw spinlock) is the innermost of all, and is also taken under the kernel's pci_lock.
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
 * struct dlend_native_vector - one interrupt of a function
 * @work: runs the driver's handler on the processor that queues it
 * @call: runs the driver's handler on processor @cpu
 * @calling: bit 0: @call is under way; atomic
 * @fn: the function
 * @virq: number of the kernel's interrupt, from its activation until it is freed; otherwise 0. No
 *	lock: barriers in irq.c order it with @pending
 * @cpu: the processor that handles it. Written under the interrupt's own lock in the kernel, read
 *	without one
 * @bound: the processor that a direct interrupt comes to; nr_cpu_ids: not known. Under irq_lock
 * @taken: the interrupt core has allocated it for a driver (irq_domain_ops.alloc() to free()). At
 *	first it is not activated yet, and request_irq() may never come. Under irq_lock
 * @pending: the interrupt came while @virq was 0, like a bit of the Pending Bit Array; no lock, as
 *	@virq
 * @message: what the lender has written into the device; zeros: not known. Written under irq_lock;
 *	the interrupt core reads it when it activates the interrupt
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
 * @ref: references: attach.c has one, and so have each lease of @claim and a queued @lost_work
 * @claim: the claim on the offer. @claim.lease is set from before the scan of the root bus until
 *	after its removal; it is written under @lock
 * @info: what the lender says of the function; stays as it is from the lease on
 * @root: the root bus that it is on; set by dlend_native_root_add_fn(), and never changed
 * @pdev: the device in the PCI tree, with a reference; NULL until the function is enumerated. Set
 *	once, read without a lock
 * @lock: guards @cfg, @dead, @resetting and @intx_up, and writes of @claim.lease
 * @cfg: the configuration space that the kernel sees
 * @dead: the device is lost: configuration space reads as all ones. Never cleared
 * @resetting: a function level reset is under way: configuration space reads as all ones
 * @reset_work: asks the lender for a reset, or has it set what a write has changed; on @claim.wq
 * @vpd_work: has the lender read or write a word of Vital Product Data; on dlend_native_wq
 * @bind_work: moves direct interrupts to the processors that handle them; on dlend_native_wq
 * @again_work: sets all its interrupts up once more; on @claim.wq
 * @lost_work: removes the device from the PCI tree after it was lost (attach.c); on dlend_native_wq
 * @why: why it could not be attached, or not join an IOMMU domain; "": no failure. No lock: see
 *	dlend_native_fn_fails()
 * @domain_lock: guards @domain. Never held while the lender is asked
 * @domain: the IOMMU domain (domain.c) that it is a member of, or NULL. Its change is held, too,
 *	when this is written
 * @in_domain: in the domain's list of members; under the domain's change
 * @domain_alive: its lease is not over, as far as the domain knows; under the domain's lock
 * @p2p: makes the device a peer-to-peer user with one member: it reaches its own BARs, and those of
 *	no other device
 * @reach_wq: woken when @p2p.settled becomes true
 * @intx: number of the kernel's interrupt for INTx; 0: it has none. Stays while it is on a bus
 * @intx_up: the lender has reported INTx, and it was not handled yet; under @lock
 * @unmask_work: tells the lender that INTx was handled; on system_highpri_wq
 * @irq_lock: guards @irq_mode, @irq_count, @irq_taken, @vector, and of each vector what says so. It
 *	is held while the lender is asked. dlend_native_irq_fired() reads without it, under RCU
 * @irq_mode: the kind of interrupts that the lender delivers; valid if @irq_count is not 0
 * @irq_count: number of vectors that the lender delivers; 0: none. @vector is published by it
 * @irq_taken: how many of these are taken (dlend_native_vector.taken)
 * @vector: array of @irq_count vectors
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
 * @sysdata: what x86 keeps of a root bus: its PCI domain and NUMA node
 * @fn: functions, by device and function number here; fixed when the bus is scanned
 * @prepared: the IOMMU domain that dlend_native_domain_prepare() has made, until the IOMMU core
 *	takes it as the group's default domain; then NULL
 * @group: the IOMMU group of its functions, with a reference; NULL until the first one is probed
 * @pdev: platform device, the parent of @bridge
 * @bridge: the PCI core's host bridge, with a reference
 * @bus: the PCI core's root bus; NULL until the scan has made it
 * @numbers: the bus number, as a resource
 * @numbers_entry: the entry for @numbers in the host bridge's list of windows; the bridge frees it,
 *	once it has a bus
 * @fwnode: names @msi
 * @msi: the MSI parent domain, which the functions take their interrupts from
 * @bars: resources of the BARs, by dlend_native_bar_res.in_root
 * @nr: number of the functions' bus on the lender; @bus has another if this one is taken here
 * @below: the next 32-bit BAR is placed below this bus address
 * @above: the next 64-bit BAR is placed at this bus address or above
 *
 * No lock: only one thread at a time attaches or detaches the functions of a lease.  What the PCI
 * core and the IOMMU core have written here is written during calls of that thread.
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

/* Runs vpd_work, bind_work and lost_work of all functions. */
extern struct workqueue_struct *dlend_native_wq;

/* Configuration space (root.c).  A bus with these operations is a root bus of dlend's. */
extern struct pci_ops dlend_native_config_ops;

/**
 * dlend_native_fn_make - make the structure of a function that is not claimed yet
 * @offer: (in) offer; the caller keeps it until the function is gone
 *
 * Context: process, may sleep. Return: function with one reference, or NULL.
 */
struct dlend_native_fn *dlend_native_fn_make(struct dlend_offer *offer);

/** dlend_native_fn_put - drop a reference; the last one frees @fn. Context: process, may sleep. */
void dlend_native_fn_put(struct dlend_native_fn *fn);

/**
 * dlend_native_lost - mark a device as lost, and have it removed from the PCI tree
 * @fn: (in, out) function; nothing happens if it was lost before. From now on its configuration
 *	space reads as all ones, as after a surprise removal
 * @why: (in) for the log
 *
 * lost_work removes the device later. Context: process, interrupts are on; takes
 * dlend_native_fn.lock; does not wait.
 */
void dlend_native_lost(struct dlend_native_fn *fn, const char *why);

/**
 * dlend_native_queue_lost - queue lost_work, which detaches the function's group
 * @fn: (in) function; the work takes a reference of its own
 *
 * Context: any.
 */
void dlend_native_queue_lost(struct dlend_native_fn *fn);

/**
 * dlend_native_fn_on - look up a function by its number on a bus
 * @bus: (in) any PCI bus
 * @devfn: (in) device and function number
 *
 * Context: any. Return: the function, without a reference; NULL: @bus is no root bus of dlend's, or
 * has no such function. The pointer is valid while the root bus exists: functions are freed after
 * dlend_native_root_remove(). The caller guarantees that: the PCI core or the IOMMU core calls it
 * about this bus.
 */
struct dlend_native_fn *dlend_native_fn_on(struct pci_bus *bus, unsigned int devfn);

/**
 * dlend_native_fn_of - look up the function of a PCI device
 * @pdev: (in) any PCI device
 *
 * Context: any. Return: as dlend_native_fn_on(); NULL: it is no attached device.
 */
struct dlend_native_fn *dlend_native_fn_of(struct pci_dev *pdev);

/**
 * dlend_native_fn_fails - note why a function cannot be attached, and log it
 * @fn: (in, out) function; the text goes into @fn->why
 * @fmt: (in) a reason that says what to do, without a new line
 *
 * Context: process. The caller is the thread that attaches the function's group, or holds the IOMMU
 * group's mutex: that guards @fn->why.
 */
__printf(2, 3) void dlend_native_fn_fails(struct dlend_native_fn *fn, const char *fmt, ...);

/* irq.c: what the lender delivers becomes INTx, MSI or MSI-X here */

/**
 * dlend_native_irq_again - have the lender deliver the same interrupts as before
 * @fn: (in, out) function with a lease, whose interrupts a reset has ended, or which now have to
 *	come in another way (directly, or by the doorbell)
 *
 * Nothing happens if no interrupts are set up. Context: process, waits for the lender; takes
 * irq_lock. Return: 0, or as dlend_lease_irq_setup().
 */
int dlend_native_irq_again(struct dlend_native_fn *fn);

/**
 * dlend_native_irq_handle_all - run the handler of each MSI or MSI-X vector that is taken, once
 * @fn: (in) function that may have sent messages while its interrupts were being set up anew: they
 *	may have been lost, and an additional interrupt does no harm
 *
 * The handlers run later, in interrupt context. Context: process; takes irq_lock.
 */
void dlend_native_irq_handle_all(struct dlend_native_fn *fn);

/**
 * dlend_native_irq_fired - handle an interrupt of a device
 * @fn: (in) function
 * @vector: (in) number of the vector; ignored if it is not set up
 * @direct: (in) true: the device's own message has interrupted this host, so the driver's handler
 *	may run at once. false: the lender has reported it by the doorbell
 *
 * Context: @direct: the handler of that interrupt (a thread on a realtime kernel), with no lock
 * held. Otherwise interrupts are off, and a spinlock of the link is held.
 */
void dlend_native_irq_fired(struct dlend_native_fn *fn, unsigned int vector, bool direct);

/**
 * dlend_native_irq_bind_work - move direct interrupts to the processors that handle them
 * @work: (in) &dlend_native_fn.bind_work
 *
 * Context: process; takes irq_lock.
 */
void dlend_native_irq_bind_work(struct work_struct *work);

/**
 * dlend_native_msi_create - make the MSI parent domain of a root bus
 * @fwnode: (in) name of it; the caller frees it after irq_domain_remove()
 * @isolated: (in) the domain gets IRQ_DOMAIN_FLAG_ISOLATED_MSI, without which VFIO does not take
 *	the devices: the lender's interrupt remapping isolates the functions' messages
 *
 * Context: process, may sleep. Return: domain, for irq_domain_remove(); or NULL.
 */
struct irq_domain *dlend_native_msi_create(struct fwnode_handle *fwnode, bool isolated);

/**
 * dlend_native_intx_make - allocate a kernel interrupt for a function's INTx, if it has INTx
 * @fn: (in, out) function with info; its number goes into @fn->intx
 *
 * Context: process, may sleep. Return: 0, also without INTx; or -errno.
 */
int dlend_native_intx_make(struct dlend_native_fn *fn);

/**
 * dlend_native_intx_free - undo dlend_native_intx_make()
 * @fn: (in, out) function; nothing happens if it has no interrupt. The caller guarantees that no
 *	driver has requested it any more
 *
 * Context: process, may sleep.
 */
void dlend_native_intx_free(struct dlend_native_fn *fn);

/**
 * dlend_native_intx_wanted - note that INTx was handled, or that INTx Disable was written
 * @fn: (in, out) function with fn->intx
 * @handled: (in) true: the handlers of the last INTx have run; false: a driver has set or cleared
 *	INTx Disable in the Command register
 *
 * If INTx is not disabled, a worker has the lender unmask INTx, so that another one may come. If it
 * is disabled, the lender keeps INTx masked. Context: any; takes dlend_native_fn.lock.
 */
void dlend_native_intx_wanted(struct dlend_native_fn *fn, bool handled);

/* domain.c */

/**
 * dlend_native_domain_prepare - make a function a member of its root bus's IOMMU domain for
 * dma-iommu, before the function is enumerated
 * @fn: (in, out) function on a root bus that is not scanned yet; in no domain
 *
 * The first call for a root bus makes the domain and its segment; all functions of the bus share
 * it. The IOMMU core takes it as the group's default domain when it probes the first function, and
 * attaches each function to it. At that time nothing may fail, and no lender can be asked. So all
 * that can fail is done here.
 *
 * Context: process; the thread that attaches the functions; waits for the lender; takes change,
 * domain_lock and lock of the domain. Return: 0; -ENOSPC the aperture has no room; -ENODEV the link
 * is down; -ENOMEM; or what the lender answers. On an error, the caller calls
 * dlend_native_domain_forget() (dlend_native_root_remove() does).
 */
int dlend_native_domain_prepare(struct dlend_native_fn *fn);

/**
 * dlend_native_domain_forget - remove functions that the IOMMU core has not probed from their
 * domain, and free a prepared domain that the core has not taken
 * @root: (in, out) root bus; nothing happens if all its functions were probed
 *
 * The core itself removes functions that it has probed. Called before the root bus is removed: the
 * domain goes with the last probed function. Context: process, waits for the lender.
 */
void dlend_native_domain_forget(struct dlend_native_root *root);

/**
 * dlend_native_domain_revoke - note that a function's lease is over, and cut its domain off from
 * this host's memory if that is possible
 * @fn: (in, out) function whose lease is over; in a domain, or not
 *
 * The function checks whether another member of the domain still has a lease. If one has, nothing
 * is unmapped, as it would lose the memory, too; the lender has fenced @fn before it ended the
 * lease. If none has, or if the link is down, all segments are put out of reach before this
 * returns, for good.
 *
 * Context: process, may sleep; waits for no peer; takes domain_lock and lock of the domain.
 */
void dlend_native_domain_revoke(struct dlend_native_fn *fn);

/**
 * dlend_native_domain_of_vfio - does a program or a guest use the device, by VFIO?
 * @fn: (in) function
 *
 * Context: process; takes domain_lock. Return: true if it is a member of a domain that is not for
 * dma-iommu.
 */
bool dlend_native_domain_of_vfio(struct dlend_native_fn *fn);

/**
 * dlend_native_domain_show - print the numbers of a function's domain, for debugfs
 * @fn: (in) function; nothing is printed if it is in no domain
 * @m: (in, out) file
 *
 * Context: process; takes domain_lock and lock of the domain.
 */
void dlend_native_domain_show(struct dlend_native_fn *fn, struct seq_file *m);

/**
 * dlend_native_iommu_init - register the IOMMU driver
 *
 * It gets a device by dlend_native_iommu_add(). Context: process, may sleep. Return: 0 or -errno.
 */
int dlend_native_iommu_init(void);

/**
 * dlend_native_iommu_add - give a device on a root bus of dlend's to the IOMMU driver
 * @dev: (in, out) device that the IOMMU core has not probed yet; @dev->iommu is set
 *
 * Context: process, in the PCI bus's notifier. If it fails, the log says so, and the IOMMU core
 * finds no IOMMU for the device: dlend_native_root_scan() sees that, and fails.
 */
void dlend_native_iommu_add(struct device *dev);

/**
 * dlend_native_iommu_exit - unregister the IOMMU driver
 *
 * The caller guarantees that no device is attached. Context: process, may sleep.
 */
void dlend_native_iommu_exit(void);

/* root.c */

/**
 * dlend_native_ntb_leaves - before a PCI device loses its driver: if it is an NTB, detach what is
 * behind it, and give its driver's reservations back
 * @ntb: (in) any PCI device; nothing is detached unless BARs of attached devices are in its BARs
 *
 * No BAR is placed in this device any more until dlend_native_ntb_left(). Context: process, in the
 * PCI bus's notifier (BUS_NOTIFY_UNBIND_DRIVER); waits until the drivers of the attached devices
 * have released them, ten seconds at most.
 */
void dlend_native_ntb_leaves(struct device *ntb);

/**
 * dlend_native_ntb_left - after a PCI device has lost its driver: allow that BARs of attached
 * devices are placed in it again
 * @ntb: (in) any PCI device, as of dlend_native_ntb_leaves()
 *
 * Context: process, in the PCI bus's notifier (BUS_NOTIFY_UNBOUND_DRIVER).
 */
void dlend_native_ntb_left(struct device *ntb);

/**
 * dlend_native_ntb_exit - free what dlend_native_ntb_leaves() has recorded
 *
 * The caller guarantees that no root bus exists, and that the notifier is unregistered. Context:
 * module exit.
 */
void dlend_native_ntb_exit(void);

/**
 * dlend_native_config_init - make the configuration space of a function that was just reset
 * @fn: (in, out) function with info and a lease, on no bus yet; the BARs in @fn->cfg have no
 *	addresses yet (dlend_native_root_add_fn() gives them)
 *
 * Context: process, may sleep. Return: 0; -EINVAL the lender's copy of the configuration space
 * makes no sense; -ENOMEM.
 */
int dlend_native_config_init(struct dlend_native_fn *fn);

/**
 * dlend_native_config_vpd_work - have the lender read or write the word of Vital Product Data that
 * the kernel has asked for, and set the flag that the kernel polls for
 * @work: (in) &dlend_native_fn.vpd_work
 *
 * If the lender does not do it, the flag stays, and the kernel gives up. Context: process; waits
 * for the lender, a quarter of a second at most; takes dlend_native_fn.lock.
 */
void dlend_native_config_vpd_work(struct work_struct *work);

/**
 * dlend_native_root_create - make a root bus that has no function yet
 * @lender: (in) node id of the lender, which determines the PCI domain
 * @nr: (in) number of the bus on the lender. dlend_native_root_scan() uses it here, too, or another
 *	one if it is taken in that PCI domain
 * @isolated: (in) the lender isolates the interrupts of all functions: see
 *	dlend_native_msi_create()
 *
 * Context: process, may sleep. Return: root bus, for dlend_native_root_remove(); or ERR_PTR.
 */
struct dlend_native_root *dlend_native_root_create(u16 lender, u8 nr, bool isolated);

/**
 * dlend_native_root_add_fn - put a function on a root bus, and choose addresses for its BARs
 * @root: (in, out) root bus that is not scanned yet
 * @fn: (in, out) function with a lease and a configuration space, on no bus
 *
 * It gets the device and function number that it has on the lender, or another one if that is
 * taken. Context: process, may sleep; takes dlend_native_regions_lock. Return: 0; -ENOSPC there is
 * no address for a 32-bit BAR, or the bus is full; -ENODEV the NTB is losing its driver; -EBUSY
 * another driver has reserved that part of the NTB's BAR; -ENOMEM. What was made for the function
 * until then goes with the root bus.
 */
int dlend_native_root_add_fn(struct dlend_native_root *root, struct dlend_native_fn *fn);

/**
 * dlend_native_root_scan - have the PCI core enumerate the functions, and bind drivers to them
 * @root: (in, out) root bus whose functions are members of its prepared domain
 * @first: (in, out) one of its functions; if the bus itself cannot be made, @first->why says so
 *
 * Context: process, may sleep; takes pci_rescan_remove_lock. Return: 0 or -errno: then the caller
 * calls dlend_native_root_remove().
 */
int dlend_native_root_scan(struct dlend_native_root *root, struct dlend_native_fn *first);

/**
 * dlend_native_root_remove - remove a root bus with all its functions from the PCI tree
 * @root: root bus, scanned or not; freed when this returns
 *
 * Drivers are unbound first, which may wait as long as a program has the device open by VFIO. The
 * functions leave their IOMMU domain, and keep their leases. Context: process, may sleep; waits for
 * the lender; takes pci_rescan_remove_lock and dlend_native_regions_lock.
 */
void dlend_native_root_remove(struct dlend_native_root *root);

#endif
