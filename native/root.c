// SPDX-License-Identifier: GPL-2.0
/*
 * Root bus of attached devices.
 *
 * Each lease has one, in a PCI domain of its lender's, with the number that the bus has there, so
 * that a device has nearly the same name on the dlend bus and in the PCI tree.  Each BAR has a
 * window of its own, with an offset of its own: its bus address is a multiple of its size, as a BAR
 * has no bits for another, and a 32-bit BAR's is below 4 GiB, wherever the NTB's is.
 *
 * Must not know interrupts, DMA and leases.
 */
#include <linux/iommu.h>
#include <linux/irqdomain.h>
#include <linux/list.h>
#include <linux/platform_device.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include "config.h"
#include "fn.h"
#include "msi.h"
#include "root.h"
#include "window.h"

/*
 * PCI domain of a lender's devices, with the low bits of its node id.  It is not the one of offers'
 * names, as QEMU, and so libvirt, know no domain of more than 16 bits.
 */
#define DLEND_NATIVE_DOMAIN	0xd000
#define DLEND_NATIVE_DOMAIN_IDS	0xfff
/* 32-bit BARs are placed downwards from here: above all DMA, below the address of interrupts. */
#define DLEND_NATIVE_MMIO_END	0xfe000000u
#define DLEND_NATIVE_MMIO_FIRST	0xf0000000u
/* And 64-bit BARs upwards from here.  The device knows none of these addresses. */
#define DLEND_NATIVE_MMIO_64	BIT_ULL(40)

struct dlend_native_bar {
	struct list_head node;
	struct dlend_native_window window;
	struct resource_entry *entry;
};

/*
 * struct dlend_native_root - see root.h
 * @on: what is on it
 * @bars: struct dlend_native_bar
 * @numbers_entry, @bars' entry: among the bridge's windows, and the bridge's own once it has a bus
 * @nr: number that the bus has on the lender
 * @below: 32-bit BARs are placed below this
 * @above: 64-bit BARs are placed from this on
 * @group: of its functions, from the first one's probe on
 */
struct dlend_native_root {
	struct dlend_native_bus on;
	struct platform_device *pdev;
	struct pci_host_bridge *bridge;
	struct pci_bus *bus;
	struct resource numbers;
	struct resource_entry *numbers_entry;
	struct fwnode_handle *fwnode;
	struct irq_domain *msi;
	struct iommu_group *group;
	struct list_head bars;
	u8 nr;
	u32 below;
	u64 above;
};

struct iommu_group *dlend_native_root_group(struct dlend_native_root *root)
{
	if (!root->group) {
		root->group = iommu_group_alloc();
		if (IS_ERR(root->group)) {
			struct iommu_group *err = root->group;

			root->group = NULL;
			return err;
		}
	}
	return iommu_group_ref_get(root->group);
}

/*
 * The number that it has on the lender, or another that no bus has.  Under pci_rescan_remove_lock,
 * until the bus is registered.
 */
static int dlend_native_root_number(struct dlend_native_root *root)
{
	unsigned int i;
	u8 nr;

	for (i = 0; i < 256; i++) {
		nr = root->nr + i;
		if (pci_find_bus(root->on.sysdata.domain, nr))
			continue;
		root->numbers.start = nr;
		root->numbers.end = nr;
		root->bridge->busnr = nr;
		return 0;
	}
	return -EBUSY;
}

/* How the PCI core asks for the interrupt of INTx. */
static int dlend_native_root_intx(const struct pci_dev *pdev, u8 slot, u8 pin)
{
	struct dlend_native_fn *fn = dlend_native_fn_on(pdev->bus, pdev->devfn);

	return fn && fn->intx ? fn->intx : -1;
}

static int dlend_native_root_window(struct dlend_native_root *root, struct resource *res,
				    u64 offset, struct resource_entry **out)
{
	struct resource_entry *entry = resource_list_create_entry(res, 0);

	if (!entry)
		return -ENOMEM;
	entry->offset = offset;
	resource_list_add_tail(entry, &root->bridge->windows);
	*out = entry;
	return 0;
}

/* The PCI core loses the windows of a bus that it cannot register, all of them. */
static void dlend_native_root_windows_lost(struct dlend_native_root *root)
{
	struct dlend_native_bar *b;

	if (!list_empty(&root->bridge->windows))
		return;
	resource_list_free_entry(root->numbers_entry);
	list_for_each_entry(b, &root->bars, node)
		resource_list_free_entry(b->entry);
}

static int dlend_native_root_bridge(struct dlend_native_root *root)
{
	struct pci_host_bridge *bridge = pci_alloc_host_bridge(0);

	if (!bridge)
		return -ENOMEM;
	root->bridge = bridge;
	root->numbers = (struct resource){ .name = "dlend", .flags = IORESOURCE_BUS };
	if (dlend_native_root_window(root, &root->numbers, 0, &root->numbers_entry)) {
		pci_free_host_bridge(bridge);
		return -ENOMEM;
	}
	bridge->dev.parent = &root->pdev->dev;
	bridge->sysdata = &root->on.sysdata;
	bridge->ops = &dlend_native_config_ops;
	bridge->native_aer = 0;
	bridge->map_irq = dlend_native_root_intx;
	dev_set_msi_domain(&bridge->dev, root->msi);
	/* See dlend_native_root_free(). */
	get_device(&bridge->dev);
	return 0;
}

struct dlend_native_root *dlend_native_root_create(u16 lender, u8 nr, bool isolated)
{
	struct dlend_native_root *root = kzalloc_obj(*root);
	int err = -ENOMEM;

	if (!root)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&root->bars);
	root->nr = nr;
	root->below = DLEND_NATIVE_MMIO_END;
	root->above = DLEND_NATIVE_MMIO_64;
	root->on.sysdata.domain = DLEND_NATIVE_DOMAIN | (lender & DLEND_NATIVE_DOMAIN_IDS);
	root->on.sysdata.node = NUMA_NO_NODE;
	root->pdev = platform_device_register_simple("dlend-root", PLATFORM_DEVID_AUTO, NULL, 0);
	if (IS_ERR(root->pdev)) {
		err = PTR_ERR(root->pdev);
		goto free_root;
	}
	root->fwnode = irq_domain_alloc_named_fwnode(dev_name(&root->pdev->dev));
	if (!root->fwnode)
		goto unregister;
	root->msi = dlend_native_msi_create(root->fwnode, isolated);
	if (!root->msi)
		goto free_fwnode;
	err = dlend_native_root_bridge(root);
	if (err)
		goto remove_msi;
	return root;

remove_msi:
	dlend_native_msi_remove(root->msi);
free_fwnode:
	irq_domain_free_fwnode(root->fwnode);
unregister:
	platform_device_unregister(root->pdev);
free_root:
	kfree(root);
	return ERR_PTR(err);
}

/* Where a BAR is for the device's driver and the kernel: its bus address. */
static u64 dlend_native_root_place(struct dlend_native_root *root, const struct dlend_native_fn *fn,
				   unsigned int bar)
{
	u64 size = max_t(u64, fn->info.bar[bar].size, PAGE_SIZE);
	u64 at;

	if (fn->info.bar[bar].flags & DLEND_BAR_F_64) {
		at = ALIGN(root->above, size);
		root->above = at + size;
		return at;
	}
	if (size > root->below - DLEND_NATIVE_MMIO_FIRST)
		return 0;
	root->below = ALIGN_DOWN(root->below - size, size);
	return root->below;
}

static int dlend_native_root_bar(struct dlend_native_root *root, struct dlend_native_fn *fn,
				 unsigned int bar)
{
	const struct dlend_window *w = &fn->claim.lease->bar[bar];
	struct dlend_native_bar *b;
	u64 at;
	int err;

	if (!w->phys)
		return 0;
	at = dlend_native_root_place(root, fn, bar);
	if (!at) {
		dlend_native_fn_fails(fn, "BAR %u (%llu MiB, 32 bits) finds no address", bar,
				      fn->info.bar[bar].size >> 20);
		return -ENOSPC;
	}
	b = kzalloc_obj(*b);
	if (!b)
		return -ENOMEM;
	err = dlend_native_window_open(&b->window, fn, w->link, w->phys,
				       PAGE_ALIGN(fn->info.bar[bar].size));
	if (err) {
		dlend_native_fn_fails(fn, "BAR %u cannot be placed in the NTB's (%pe)", bar,
				      ERR_PTR(err));
		goto free_bar;
	}
	err = dlend_native_root_window(root, &b->window.res, w->phys - at, &b->entry);
	if (err)
		goto close;
	list_add(&b->node, &root->bars);
	dlend_native_config_place(fn, bar, at);
	return 0;

close:
	dlend_native_window_close(&b->window);
free_bar:
	kfree(b);
	return err;
}

/*
 * Functions of a group may be on several buses of the lender, with equal numbers: without ACS, two
 * ports make one group.  Return: the number that it has there, or one of a device that is not here.
 */
static int dlend_native_root_devfn(struct dlend_native_root *root, u8 devfn)
{
	unsigned int slot, i;

	if (!root->on.fn[devfn])
		return devfn;
	for (slot = 0; slot < 32; slot++) {
		for (i = 0; i < 8 && !root->on.fn[PCI_DEVFN(slot, i)]; i++)
			;
		if (i == 8)
			return PCI_DEVFN(slot, 0);
	}
	return -ENOSPC;
}

int dlend_native_root_put(struct dlend_native_root *root, struct dlend_native_fn *fn)
{
	int devfn = dlend_native_root_devfn(root, dlend_offer_addr(fn->claim.offer)->bdf & 0xff);
	unsigned int bar;
	int err = 0;

	if (devfn < 0) {
		dlend_native_fn_fails(fn, "its bus is full");
		return devfn;
	}

	for (bar = 0; bar < DLEND_NUM_BARS && !err; bar++)
		err = dlend_native_root_bar(root, fn, bar);
	if (err)
		return err;
	fn->root = root;
	root->on.fn[devfn] = fn;
	return 0;
}

/* Each of its BARs is in a window, where a driver can have it. */
static bool dlend_native_root_placed(const struct dlend_native_fn *fn)
{
	unsigned int bar;

	for (bar = 0; bar < DLEND_NUM_BARS; bar++)
		if (fn->claim.lease->bar[bar].phys && !fn->pdev->resource[bar].parent)
			return false;
	return true;
}

/* What is missing: its DMA must be ours, and no driver may have it otherwise. NULL: nothing */
static const char *dlend_native_root_lacks(const struct dlend_native_fn *fn)
{
	if (READ_ONCE(fn->dead))
		return "it was lost meanwhile";
	if (!fn->pdev)
		return "the kernel does not find it on its bus: is memory short?";
	if (!fn->domain || fn->prepared)
		return "the kernel does not give it our IOMMU: is memory short?";
	if (!dlend_native_root_placed(fn))
		return "the kernel finds no place for its BARs: is memory short?";
	return NULL;
}

static int dlend_native_root_check(struct dlend_native_root *root)
{
	struct dlend_native_fn *fn;
	const char *lacks;
	unsigned int i;

	for (i = 0; i < DLEND_NATIVE_DEVFNS; i++) {
		fn = root->on.fn[i];
		lacks = fn ? dlend_native_root_lacks(fn) : NULL;
		if (!lacks)
			continue;
		if (!fn->why[0])
			dlend_native_fn_fails(fn, "%s", lacks);
		return -ENODEV;
	}
	return 0;
}

/*
 * The PCI core looks for function 0 of a device, and for others if that says that there are some.
 * Of a device that is lent in part, function 0 may be missing.
 */
static void dlend_native_root_look(struct dlend_native_root *root)
{
	struct pci_dev *pdev;
	unsigned int i;

	for (i = 0; i < DLEND_NATIVE_DEVFNS; i++)
		if (root->on.fn[i])
			pci_scan_single_device(root->bus, i);
	list_for_each_entry(pdev, &root->bus->devices, bus_list) {
		/* If memory was short, the PCI core has one that its removal would trip over. */
		if (!device_is_registered(&pdev->dev) && device_add(&pdev->dev))
			pci_err(pdev, "cannot be added: is memory short?\n");
		WRITE_ONCE(root->on.fn[pdev->devfn]->pdev, pci_dev_get(pdev));
		/* Firmware knows nothing of its interrupt. */
		pdev->irq = root->on.fn[pdev->devfn]->intx;
		pdev->irq_managed = pdev->irq > 0;
	}
}

/* All of its functions have that reason; one is enough to tell it. */
static void dlend_native_root_fails(struct dlend_native_root *root, int err)
{
	unsigned int i;

	for (i = 0; i < DLEND_NATIVE_DEVFNS; i++) {
		if (!root->on.fn[i])
			continue;
		dlend_native_fn_fails(root->on.fn[i],
				      "the kernel cannot make a PCI bus for it (%pe): is memory short?",
				      ERR_PTR(err));
		return;
	}
}

int dlend_native_root_scan(struct dlend_native_root *root)
{
	int err;

	pci_lock_rescan_remove();
	err = dlend_native_root_number(root) ?: pci_scan_root_bus_bridge(root->bridge);
	if (err) {
		dlend_native_root_windows_lost(root);
		dlend_native_root_fails(root, err);
		goto unlock;
	}
	root->bus = root->bridge->bus;
	dlend_native_root_look(root);
	pci_bus_claim_resources(root->bus);
	err = dlend_native_root_check(root);
	if (!err)
		pci_bus_add_devices(root->bus);
unlock:
	pci_unlock_rescan_remove();
	return err;
}

/*
 * Drivers let go first, without the lock of all PCI hot-plug on this host: vfio-pci waits for the
 * program that has the device open.
 */
static void dlend_native_root_drivers_off(struct dlend_native_root *root)
{
	struct dlend_native_bar *b;
	unsigned int i;

	for (i = 0; i < DLEND_NATIVE_DEVFNS; i++)
		if (root->on.fn[i] && root->on.fn[i]->pdev)
			device_release_driver(&root->on.fn[i]->pdev->dev);
	list_for_each_entry(b, &root->bars, node)
		dlend_native_window_idle(&b->window);
}

/*
 * pci_register_host_bridge() puts the bridge once too often if it cannot register the bus: then the
 * reference that is left is the one of dlend_native_root_bridge().
 */
static void dlend_native_root_free(struct dlend_native_root *root)
{
	struct device *dev = &root->bridge->dev;

	if (kref_read(&dev->kobj.kref) > 1)
		pci_free_host_bridge(root->bridge);
	put_device(dev);
}

static void dlend_native_root_take_off(struct dlend_native_root *root)
{
	if (!root->bus)
		return;
	dlend_native_root_drivers_off(root);
	pci_lock_rescan_remove();
	pci_stop_root_bus(root->bus);
	pci_remove_root_bus(root->bus);
	pci_unlock_rescan_remove();
}

void dlend_native_root_remove(struct dlend_native_root *root)
{
	struct dlend_native_bar *b, *next;

	dlend_native_root_take_off(root);
	dlend_native_root_free(root);
	list_for_each_entry_safe(b, next, &root->bars, node) {
		dlend_native_window_close(&b->window);
		kfree(b);
	}
	dlend_native_msi_remove(root->msi);
	irq_domain_free_fwnode(root->fwnode);
	platform_device_unregister(root->pdev);
	if (root->group)
		iommu_group_put(root->group);
	kfree(root);
}
