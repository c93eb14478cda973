// SPDX-License-Identifier: GPL-2.0
/*
 * Attaching: all functions of a lent device's IOMMU group come into this host's PCI tree, and all
 * of them leave it.
 *
 * However a device goes (detach, a lost link, a lender that takes it back, an error, "remove" of
 * the PCI device, the module), the root bus is removed, which unbinds drivers, and then the lease
 * is given back.
 */
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/borrower.h>
#include <dlend/compat.h>
#include "attach.h"
#include "fn.h"
#include "lease.h"
#include "root.h"

/*
 * struct dlend_native_place - an offer that may be attached
 * @fn: what is attached, or NULL
 * @why: why the last attempt failed; "" if it did not
 */
struct dlend_native_place {
	struct list_head node;
	struct dlend_offer *offer;
	struct dlend_native_fn *fn;
	char why[DLEND_REASON_LEN];
};

static DEFINE_MUTEX(dlend_native_attach_lock);
static LIST_HEAD(dlend_native_places);

static void dlend_native_lost_work(struct work_struct *work);

static int dlend_native_place_take(struct dlend_native_place *place)
{
	struct dlend_native_fn *fn = dlend_native_fn_make(place->offer);
	int ret;

	if (!fn)
		return -ENOMEM;
	INIT_WORK(&fn->lost_work, dlend_native_lost_work);
	ret = dlend_native_take(fn);
	strscpy(place->why, fn->why);
	if (ret)
		dlend_native_fn_put(fn);
	else
		place->fn = fn;
	return ret;
}

static void dlend_native_place_give(struct dlend_native_place *place)
{
	struct dlend_native_fn *fn = place->fn;

	strscpy(place->why, fn->why);
	place->fn = NULL;
	dlend_native_give(fn);
	dlend_native_fn_put(fn);
}

static bool dlend_native_same_group(struct dlend_native_place *a, struct dlend_native_place *b)
{
	struct dlend_offer_info ia, ib;

	if (a == b)
		return true;
	dlend_offer_copy(a->offer, &ia, NULL);
	dlend_offer_copy(b->offer, &ib, NULL);
	return dlend_offer_addr(a->offer)->lender == dlend_offer_addr(b->offer)->lender &&
	       ia.group == ib.group;
}

#define dlend_native_for_each_of_group(place, of) \
	list_for_each_entry(place, &dlend_native_places, node) \
		if (dlend_native_same_group(place, of))

static int dlend_native_take_group(struct dlend_native_place *of)
{
	struct dlend_native_place *place;
	int ret;

	dlend_native_for_each_of_group(place, of) {
		ret = dlend_native_place_take(place);
		if (ret)
			goto give;
	}
	return 0;

give:
	if (place != of)
		snprintf(of->why, sizeof(of->why), "%s, of the same IOMMU group: %.180s",
			 dev_name(dlend_offer_dev(place->offer)), place->why);
	dlend_native_for_each_of_group(place, of)
		if (place->fn)
			dlend_native_place_give(place);
	return ret;
}

static int dlend_native_plug(struct dlend_native_place *of)
{
	const struct dlend_addr *addr = dlend_offer_addr(of->offer);
	struct dlend_native_place *place;
	struct dlend_native_root *root;
	bool isolated = true;
	int ret;

	dlend_native_for_each_of_group(place, of)
		isolated &= place->fn->info.flags & DLEND_OFFER_F_ISOLATED_MSI;
	root = dlend_native_root_create(addr->lender, addr->bdf >> 8, isolated);
	if (IS_ERR(root))
		return PTR_ERR(root);
	dlend_native_for_each_of_group(place, of) {
		ret = dlend_native_root_put(root, place->fn);
		if (ret)
			goto remove;
	}
	ret = dlend_native_root_scan(root);
	if (!ret)
		return 0;
remove:
	dlend_native_for_each_of_group(place, of)
		place->fn->root = NULL;
	dlend_native_root_remove(root);
	return ret;
}

/* The lender has one IOMMU domain for a group, so all of the group is in one place. */
static int dlend_native_check(struct dlend_native_place *of)
{
	struct dlend_native_place *place;

	if (dlend_offer_addr(of->offer)->lender == dlend_node_id()) {
		strscpy(of->why, "it is this host's own device: dlend reclaim gives it back to its driver");
		return -EINVAL;
	}
	dlend_native_for_each_of_group(place, of) {
		if (!place->fn)
			continue;
		snprintf(of->why, sizeof(of->why), "%s, of the same IOMMU group, is attached already: dlend detach %s",
			 dev_name(dlend_offer_dev(place->offer)),
			 dev_name(dlend_offer_dev(place->offer)));
		return -EBUSY;
	}
	return 0;
}

static int dlend_native_attach(struct dlend_native_place *of)
{
	struct dlend_native_place *place;
	int ret;

	if (of->fn)
		return -EEXIST;
	of->why[0] = '\0';
	ret = dlend_native_check(of) ?: dlend_native_take_group(of);
	if (ret)
		return ret;
	ret = dlend_native_plug(of);
	if (!ret)
		return 0;
	dlend_native_for_each_of_group(place, of)
		dlend_native_place_give(place);
	return ret;
}

static void dlend_native_detach(struct dlend_native_place *of)
{
	struct dlend_native_root *root = of->fn->root;
	struct dlend_native_place *place;

	dlend_native_root_remove(root);
	list_for_each_entry(place, &dlend_native_places, node)
		if (place->fn && place->fn->root == root)
			dlend_native_place_give(place);
}

static void dlend_native_lost_work(struct work_struct *work)
{
	struct dlend_native_fn *fn = container_of(work, struct dlend_native_fn, lost_work);
	struct dlend_native_place *place;

	mutex_lock(&dlend_native_attach_lock);
	list_for_each_entry(place, &dlend_native_places, node) {
		if (place->fn != fn)
			continue;
		dlend_native_detach(place);
		break;
	}
	mutex_unlock(&dlend_native_attach_lock);
	dlend_native_fn_put(fn);
}

/* Attributes of an offer */

static struct dlend_native_place *dlend_native_find(struct device *dev)
{
	struct dlend_native_place *place;

	lockdep_assert_held(&dlend_native_attach_lock);
	list_for_each_entry(place, &dlend_native_places, node)
		if (dlend_offer_dev(place->offer) == dev)
			return place;
	return NULL;
}

static ssize_t attached_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_native_place *place;

	guard(mutex)(&dlend_native_attach_lock);
	place = dlend_native_find(dev);
	if (!place || !place->fn)
		return sysfs_emit(buf, "no\n");
	return sysfs_emit(buf, "%s\n", pci_name(place->fn->pdev));
}

static ssize_t attached_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t count)
{
	struct dlend_native_place *place;
	bool on;
	int ret = kstrtobool(buf, &on);

	if (ret)
		return ret;
	guard(mutex)(&dlend_native_attach_lock);
	place = dlend_native_find(dev);
	if (!place)
		return -ENODEV;
	if (on)
		ret = dlend_native_attach(place);
	else if (place->fn)
		dlend_native_detach(place);
	return ret ?: count;
}
static DEVICE_ATTR_RW(attached);

static ssize_t attach_error_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_native_place *place;

	guard(mutex)(&dlend_native_attach_lock);
	place = dlend_native_find(dev);
	return sysfs_emit(buf, "%s\n", place ? place->why : "");
}
static DEVICE_ATTR_RO(attach_error);

static struct attribute *dlend_native_attrs[] = {
	&dev_attr_attached.attr,
	&dev_attr_attach_error.attr,
	NULL
};

static const struct attribute_group dlend_native_attr_group = {
	.attrs = dlend_native_attrs,
};

/* What the borrower tells of offers */

/* Rules of udev attach then what shall be attached by itself. */
static void dlend_native_freed(struct dlend_offer *offer)
{
	char *event[] = { "DLEND_ATTACH=ready", NULL };

	kobject_uevent_env(&dlend_offer_dev(offer)->kobj, KOBJ_CHANGE, event);
}

static int dlend_native_appeared(struct dlend_offer *offer)
{
	struct dlend_native_place *place = kzalloc_obj(*place);
	int ret;

	if (!place)
		return -ENOMEM;
	place->offer = offer;
	mutex_lock(&dlend_native_attach_lock);
	list_add_tail(&place->node, &dlend_native_places);
	mutex_unlock(&dlend_native_attach_lock);
	ret = device_add_group(dlend_offer_dev(offer), &dlend_native_attr_group);
	if (!ret) {
		if (dlend_offer_available(offer))
			dlend_native_freed(offer);
		return 0;
	}
	mutex_lock(&dlend_native_attach_lock);
	list_del(&place->node);
	mutex_unlock(&dlend_native_attach_lock);
	kfree(place);
	return ret;
}

static void dlend_native_vanishes(struct dlend_offer *offer)
{
	struct dlend_native_place *place;

	device_remove_group(dlend_offer_dev(offer), &dlend_native_attr_group);
	mutex_lock(&dlend_native_attach_lock);
	place = dlend_native_find(dlend_offer_dev(offer));
	if (place && place->fn)
		dlend_native_detach(place);
	if (place)
		list_del(&place->node);
	mutex_unlock(&dlend_native_attach_lock);
	kfree(place);
}

static struct dlend_offer_user dlend_native_user = {
	.appeared = dlend_native_appeared,
	.freed = dlend_native_freed,
	.vanishes = dlend_native_vanishes,
};

/* By its PCI device's "remove"; or by a detach, which leaves nothing to do. */
static int dlend_native_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	struct dlend_native_fn *fn;

	if (action != BUS_NOTIFY_REMOVED_DEVICE)
		return NOTIFY_DONE;
	fn = dlend_native_fn_of(to_pci_dev(data));
	if (fn)
		dlend_native_go(fn);
	return NOTIFY_OK;
}

static struct notifier_block dlend_native_nb = {
	.notifier_call = dlend_native_notify,
};

int dlend_native_attach_start(void)
{
	int ret = dlend_native_leases_start();

	if (ret)
		return ret;
	ret = bus_register_notifier(&pci_bus_type, &dlend_native_nb);
	if (ret) {
		dlend_native_leases_stop();
		return ret;
	}
	dlend_offer_user_register(&dlend_native_user);
	return 0;
}

void dlend_native_attach_stop(void)
{
	dlend_offer_user_unregister(&dlend_native_user);
	bus_unregister_notifier(&pci_bus_type, &dlend_native_nb);
	dlend_native_leases_stop();
}
