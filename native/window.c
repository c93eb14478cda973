// SPDX-License-Identifier: GPL-2.0
/*
 * Windows of root buses in an NTB's BAR.
 *
 * The NTB's driver holds its BARs as busy, and nothing can be requested below what is busy.  So its
 * reservation of that BAR is taken away while windows are in it, and made again after the last one,
 * by the name that it had: the name is the NTB driver's and lives as long as that driver.  When
 * that driver is about to let go of the NTB, it finds its reservation as it made it.  Before that,
 * the drivers of attached devices let go of theirs: what they have is below the windows, and found
 * by nobody once these are out of the kernel's tree.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <dlend/link.h>
#include "fn.h"
#include "window.h"

/* A driver lets go in much less; a program that has the device by VFIO may never do so. */
#define DLEND_NATIVE_LET_GO_MS	10000
#define DLEND_NATIVE_LOOK_MS	20

/*
 * struct dlend_native_region - a BAR of an NTB with windows in it
 * @name: of the reservation that was there; NULL: there was none
 * @windows: in it, by dlend_native_window.node
 * @over: the NTB's driver lets go: windows are out of the tree of resources, and nobody opens more
 */
struct dlend_native_region {
	struct list_head node;
	struct pci_dev *ntb;
	int bar;
	const char *name;
	struct list_head windows;
	bool over;
};

/* A PCI device whose driver is letting go of it: no window is opened in it until that is over. */
struct dlend_native_leaving {
	struct list_head node;
	struct device *dev;
};

static DEFINE_MUTEX(dlend_native_regions_lock);
static LIST_HEAD(dlend_native_regions);
static LIST_HEAD(dlend_native_leaving_list);

static struct pci_dev *dlend_native_ntb(struct dlend_link *link)
{
	struct device *dev = dlend_link_dev(link);

	while (dev && !dev_is_pci(dev))
		dev = dev->parent;
	return dev ? to_pci_dev(dev) : NULL;
}

static int dlend_native_region_bar(struct pci_dev *ntb, phys_addr_t at, u64 size)
{
	struct resource *res;
	int bar;

	for (bar = 0; bar < PCI_STD_NUM_BARS; bar++) {
		res = &ntb->resource[bar];
		if (res->flags & IORESOURCE_MEM && at >= res->start && at + (size - 1) <= res->end)
			return bar;
	}
	return -ENODEV;
}

static struct dlend_native_region *dlend_native_region_make(struct pci_dev *ntb, int bar)
{
	struct dlend_native_region *region = kzalloc_obj(*region);
	struct resource *res = &ntb->resource[bar];

	if (!region)
		return NULL;
	INIT_LIST_HEAD(&region->windows);
	region->ntb = pci_dev_get(ntb);
	region->bar = bar;
	if (res->child && res->child->flags & IORESOURCE_BUSY) {
		region->name = res->child->name;
		pci_release_region(ntb, bar);
	}
	list_add(&region->node, &dlend_native_regions);
	return region;
}

static struct dlend_native_region *dlend_native_region_get(struct pci_dev *ntb, int bar)
{
	struct dlend_native_region *region;

	list_for_each_entry(region, &dlend_native_regions, node)
		if (region->ntb == ntb && region->bar == bar && !region->over)
			return region;
	return dlend_native_region_make(ntb, bar);
}

static void dlend_native_region_reserve(struct dlend_native_region *region)
{
	if (region->name && pci_request_region(region->ntb, region->bar, region->name))
		pci_warn(region->ntb, "BAR %d cannot be reserved for %s again\n", region->bar,
			 region->name);
}

/* The PCI core joins windows of a bus that touch each other, and has released all but one. */
static void dlend_native_window_release(struct dlend_native_window *w)
{
	if (w->res.parent)
		release_resource(&w->res);
}

/* After the last window. */
static void dlend_native_region_put(struct dlend_native_region *region)
{
	if (!list_empty(&region->windows))
		return;
	if (!region->over)
		dlend_native_region_reserve(region);
	list_del(&region->node);
	pci_dev_put(region->ntb);
	kfree(region);
}

static void dlend_native_region_end(struct dlend_native_region *region)
{
	struct dlend_native_window *w;

	list_for_each_entry(w, &region->windows, node)
		dlend_native_window_release(w);
	dlend_native_region_reserve(region);
	region->over = true;
}

/*
 * Tell the drivers of attached devices, of which dlend_native_lost() tells each once.
 * Return: whether one of them still has something in that NTB
 */
static bool dlend_native_regions_lose(struct device *ntb)
{
	struct dlend_native_region *region;
	struct dlend_native_window *w;
	bool busy = false;

	guard(mutex)(&dlend_native_regions_lock);
	list_for_each_entry(region, &dlend_native_regions, node) {
		if (&region->ntb->dev != ntb || region->over)
			continue;
		list_for_each_entry(w, &region->windows, node) {
			dlend_native_lost(w->fn, "this host's NTB is to lose its driver");
			busy |= !w->idle;
		}
	}
	return busy;
}

/* For those that do not let go in time the kernel's log says later that it does not find them. */
static void dlend_native_regions_end(struct device *ntb)
{
	struct dlend_native_region *region;

	guard(mutex)(&dlend_native_regions_lock);
	list_for_each_entry(region, &dlend_native_regions, node)
		if (&region->ntb->dev == ntb && !region->over)
			dlend_native_region_end(region);
}

static struct dlend_native_leaving *dlend_native_leaving_find(const struct device *dev)
{
	struct dlend_native_leaving *leaving;

	list_for_each_entry(leaving, &dlend_native_leaving_list, node)
		if (leaving->dev == dev)
			return leaving;
	return NULL;
}

static void dlend_native_leaving_begins(struct device *dev)
{
	struct dlend_native_leaving *leaving = kzalloc_obj(*leaving, GFP_KERNEL | __GFP_NOFAIL);

	leaving->dev = dev;
	guard(mutex)(&dlend_native_regions_lock);
	list_add(&leaving->node, &dlend_native_leaving_list);
}

static void dlend_native_leaving_is_over(struct dlend_native_leaving *leaving)
{
	if (!leaving)
		return;
	list_del(&leaving->node);
	kfree(leaving);
}

static void dlend_native_ntb_leaves(struct device *ntb)
{
	unsigned long end = jiffies + msecs_to_jiffies(DLEND_NATIVE_LET_GO_MS);

	dlend_native_leaving_begins(ntb);
	while (dlend_native_regions_lose(ntb) && time_before(jiffies, end))
		msleep(DLEND_NATIVE_LOOK_MS);
	dlend_native_regions_end(ntb);
}

static int dlend_native_window_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	if (action == BUS_NOTIFY_UNBIND_DRIVER) {
		dlend_native_ntb_leaves(data);
	} else if (action == BUS_NOTIFY_UNBOUND_DRIVER) {
		guard(mutex)(&dlend_native_regions_lock);
		dlend_native_leaving_is_over(dlend_native_leaving_find(data));
	}
	return NOTIFY_DONE;
}

static struct notifier_block dlend_native_window_nb = {
	.notifier_call = dlend_native_window_notify,
};

int dlend_native_windows_start(void)
{
	return bus_register_notifier(&pci_bus_type, &dlend_native_window_nb);
}

void dlend_native_windows_stop(void)
{
	struct dlend_native_leaving *leaving, *next;

	bus_unregister_notifier(&pci_bus_type, &dlend_native_window_nb);
	list_for_each_entry_safe(leaving, next, &dlend_native_leaving_list, node)
		dlend_native_leaving_is_over(leaving);
}

int dlend_native_window_open(struct dlend_native_window *w, struct dlend_native_fn *fn,
			     struct dlend_link *link, phys_addr_t at, u64 size)
{
	struct pci_dev *ntb = dlend_native_ntb(link);
	int bar, err;

	if (!ntb)
		return -ENODEV;
	bar = dlend_native_region_bar(ntb, at, size);
	if (bar < 0)
		return bar;
	guard(mutex)(&dlend_native_regions_lock);
	if (dlend_native_leaving_find(&ntb->dev))
		return -ENODEV;
	w->region = dlend_native_region_get(ntb, bar);
	if (!w->region)
		return -ENOMEM;
	w->fn = fn;
	w->res = (struct resource){
		.name = "dlend", .start = at, .end = at + (size - 1), .flags = IORESOURCE_MEM,
	};
	err = request_resource(&ntb->resource[bar], &w->res);
	if (!err) {
		list_add(&w->node, &w->region->windows);
		return 0;
	}
	dlend_native_region_put(w->region);
	w->region = NULL;
	return err;
}

/*
 * Out of the kernel's tree, a driver's reservations are found by nobody when it gives them back.
 * They are children of BARs in this window.
 */
static void dlend_native_window_sweep(struct dlend_native_window *w)
{
	struct resource *bar, *held;

	for (bar = w->res.child; bar; bar = bar->sibling)
		while ((held = bar->child) && held->flags & IORESOURCE_BUSY)
			__release_region(bar, held->start, resource_size(held));
}

void dlend_native_window_idle(struct dlend_native_window *w)
{
	guard(mutex)(&dlend_native_regions_lock);
	w->idle = true;
	if (w->region && w->region->over)
		dlend_native_window_sweep(w);
}

void dlend_native_window_close(struct dlend_native_window *w)
{
	if (!w->region)
		return;
	guard(mutex)(&dlend_native_regions_lock);
	list_del(&w->node);
	if (!w->region->over)
		dlend_native_window_release(w);
	dlend_native_region_put(w->region);
	w->region = NULL;
}
