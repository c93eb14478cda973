// SPDX-License-Identifier: GPL-2.0
/*
 * The dlend bus: one device per offer, each an mdev parent with one type by class code; the
 * mdev driver; the attributes of both.
 *
 * Must not know how offers arrive (offer.c) nor how a device is borrowed (borrow.c).
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include <dlend/kind.h>
#include "vdev.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static ssize_t neighbours_show(const struct bus_type *bus, char *buf)
{
	return dlend_p2p_emit_paths(buf);
}
static BUS_ATTR_RO(neighbours);

static ssize_t ntb_places_show(const struct bus_type *bus, char *buf)
{
	return dlend_place_emit_ends(buf);
}
static BUS_ATTR_RO(ntb_places);

static struct attribute *dlend_bus_attrs[] = {
	&bus_attr_neighbours.attr,
	&bus_attr_ntb_places.attr,
	NULL
};
ATTRIBUTE_GROUPS(dlend_bus);

/* No driver binds to an offer: so dev_driver_string() is the bus name, types are "dlend-...". */
const struct bus_type dlend_bus_type = {
	.name = "dlend",
	.bus_groups = dlend_bus_groups,
};

/*
 * Attributes of an offer.
 */

static ssize_t lender_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_dlend_offer(dev)->addr.lender);
}
static DEVICE_ATTR_RO(lender);

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "%s\n", dlend_offer_state_name(to_dlend_offer(dev)->state));
}
static DEVICE_ATTR_RO(state);

static ssize_t borrower_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "%u\n", to_dlend_offer(dev)->holder);
}
static DEVICE_ATTR_RO(borrower);

static ssize_t epoch_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "%u\n", to_dlend_offer(dev)->epoch);
}
static DEVICE_ATTR_RO(epoch);

static ssize_t vendor_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "0x%04x\n", to_dlend_offer(dev)->info.vendor);
}
static DEVICE_ATTR_RO(vendor);

static ssize_t device_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "0x%04x\n", to_dlend_offer(dev)->info.device);
}
static DEVICE_ATTR_RO(device);

static ssize_t class_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "0x%06x\n", to_dlend_offer(dev)->info.class);
}
static DEVICE_ATTR_RO(class);

static ssize_t type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "dlend-%s\n", dlend_kind(to_dlend_offer(dev)->info.class));
}
static DEVICE_ATTR_RO(type);

static ssize_t link_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_offer *offer = to_dlend_offer(dev);

	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "%s\n", offer->link ? dlend_link_name(offer->link) : "down");
}
static DEVICE_ATTR_RO(link);

static ssize_t place_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_offer *offer = to_dlend_offer(dev);
	int at;

	guard(mutex)(&dlend_offers_lock);
	if (!offer->placed)
		return -ENODATA;
	at = dlend_place_emit(buf, 0, &offer->place);
	return at + sysfs_emit_at(buf, at, "\n");
}
static DEVICE_ATTR_RO(place);

static ssize_t offer_clique_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_offer *offer = to_dlend_offer(dev);

	guard(mutex)(&dlend_offers_lock);
	return dlend_clique_name(offer->info.clique, buf);
}

static struct device_attribute dev_attr_offer_clique =
	__ATTR(clique, 0444, offer_clique_show, NULL);

static struct attribute *dlend_offer_attrs[] = {
	&dev_attr_lender.attr,
	&dev_attr_state.attr,
	&dev_attr_borrower.attr,
	&dev_attr_epoch.attr,
	&dev_attr_vendor.attr,
	&dev_attr_device.attr,
	&dev_attr_class.attr,
	&dev_attr_type.attr,
	&dev_attr_link.attr,
	&dev_attr_place.attr,
	&dev_attr_offer_clique.attr,
	NULL
};

static const struct attribute_group dlend_offer_group = {
	.attrs = dlend_offer_attrs,
};

const struct attribute_group *dlend_offer_groups[] = { &dlend_offer_group, NULL };

/*
 * Attributes of an mdev, in the folder "dlend".
 */

static ssize_t mdev_state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);
	char state[DLEND_REASON_LEN + 16];

	mutex_lock(&v->lock);
	dlend_borrow_state(v, state, sizeof(state));
	mutex_unlock(&v->lock);
	return sysfs_emit(buf, "%s\n", state);
}

static ssize_t mdev_epoch_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return sysfs_emit(buf, "%u\n", v->lease ? v->lease->epoch : 0);
}

static struct dlend_memory_stat mdev_memory(struct device *dev)
{
	struct dlend_lease *lease = dlend_vdev_lease(dev_get_drvdata(dev));
	struct dlend_memory_stat st = {};

	if (lease) {
		dlend_memory_stat(lease->mem, &st);
		dlend_lease_put(lease);
	}
	return st;
}

static ssize_t memory_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", mdev_memory(dev).pinned_bytes);
}
static DEVICE_ATTR_RO(memory);

static ssize_t memory_sharers_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", mdev_memory(dev).sharers);
}
static DEVICE_ATTR_RO(memory_sharers);

static ssize_t rescan_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	bool yes;
	int ret;

	ret = kstrtobool(buf, &yes);
	if (ret)
		return ret;
	if (yes)
		dlend_borrow_rescan(dev_get_drvdata(dev));
	return count;
}
static DEVICE_ATTR_WO(rescan);

/* What has come of the setting of that name (attr.c), for `dlend status` and `topology`. */
static ssize_t clique_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return dlend_clique_emit_shown(dev_get_drvdata(dev), buf);
}

static ssize_t clique_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	return dlend_clique_set(dev_get_drvdata(dev), buf) ?: count;
}
static DEVICE_ATTR_RW(clique);

static ssize_t p2p_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return dlend_p2p_emit(dev_get_drvdata(dev), buf);
}
static DEVICE_ATTR_RO(p2p);

static struct device_attribute dev_attr_mdev_state = __ATTR(state, 0444, mdev_state_show, NULL);
static struct device_attribute dev_attr_mdev_epoch = __ATTR(epoch, 0444, mdev_epoch_show, NULL);

static struct attribute *dlend_mdev_attrs[] = {
	&dev_attr_mdev_state.attr,
	&dev_attr_mdev_epoch.attr,
	&dev_attr_memory.attr,
	&dev_attr_memory_sharers.attr,
	&dev_attr_rescan.attr,
	&dev_attr_clique.attr,
	&dev_attr_p2p.attr,
	NULL
};

static const struct attribute_group dlend_mdev_group = {
	.name = "dlend",
	.attrs = dlend_mdev_attrs,
};

static const struct attribute_group *dlend_mdev_groups[] = {
	&dlend_mdev_group, &dlend_setting_group, NULL
};

/*
 * The mdev driver.
 */

static int dlend_mdev_probe(struct mdev_device *mdev)
{
	struct dlend_offer *offer = to_dlend_offer(mdev->type->parent->dev);
	struct dlend_vdev *v;
	int ret;

	v = vfio_alloc_device(dlend_vdev, vfio, &mdev->dev, &dlend_vfio_ops);
	if (IS_ERR(v))
		return PTR_ERR(v);
	v->mdev = mdev;
	v->offer = offer;
	/* Until the vdev is released: a lease, returned after the mdev is removed, names it. */
	get_device(&mdev->dev);
	get_device(&offer->dev);
	ret = dlend_offer_claim(offer, v);
	if (ret)
		goto err_put;
	dev_set_drvdata(&mdev->dev, v);
	dlend_rom_fetch(v);
	dlend_stat_create(v);
	ret = vfio_register_emulated_iommu_dev(&v->vfio);
	if (ret)
		goto err_release;
	return 0;

err_release:
	dlend_stat_remove(v);
	dlend_offer_release(offer);
err_put:
	vfio_put_device(&v->vfio);
	return ret;
}

/* Waits until user space has closed the device, asking it to by the request eventfd. */
static void dlend_mdev_remove(struct mdev_device *mdev)
{
	struct dlend_vdev *v = dev_get_drvdata(&mdev->dev);

	vfio_unregister_group_dev(&v->vfio);
	dlend_stat_remove(v);
	dlend_offer_release(v->offer);
	cancel_work_sync(&v->work);
	vfio_put_device(&v->vfio);
}

static unsigned int dlend_mdev_available(struct mdev_type *type)
{
	struct dlend_offer *offer = container_of(type, struct dlend_offer, type);

	guard(mutex)(&dlend_offers_lock);
	return offer->link && offer->complete && !offer->withdrawn && !offer->dying &&
	       !offer->vdev && offer->state == DLEND_OFFER_FREE;
}

static ssize_t dlend_mdev_description(struct mdev_type *type, char *buf)
{
	struct dlend_offer *offer = container_of(type, struct dlend_offer, type);
	int clique = DLEND_CLIQUE_AUTO, at;

	guard(mutex)(&dlend_offers_lock);
	if (offer->vdev)
		clique = READ_ONCE(offer->vdev->clique);
	if (clique == DLEND_CLIQUE_AUTO)
		clique = offer->info.clique;
	at = sysfs_emit(buf, "device %04x:%04x of node %u, ", offer->info.vendor,
			offer->info.device, offer->addr.lender);
	if (clique >= 0)
		at += sysfs_emit_at(buf, at, "clique %d\n", clique);
	else
		at += sysfs_emit_at(buf, at, "clique %s\n",
				    clique == DLEND_CFG_CLIQUE_NONE ? "none" : "auto");
	return at;
}

struct mdev_driver dlend_mdev_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.driver = {
		.name = "dlend_mdev",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
		.dev_groups = dlend_mdev_groups,
	},
	.probe = dlend_mdev_probe,
	.remove = dlend_mdev_remove,
	.get_available = dlend_mdev_available,
	.show_description = dlend_mdev_description,
};

/** dlend_parent_register - make the offer's device and mdev parent appear. Process context. */
int dlend_parent_register(struct dlend_offer *offer)
{
	const struct dlend_offer_info *info = &offer->info;
	int ret;

	offer->type.sysfs_name = dlend_kind(info->class);
	snprintf(offer->pretty, sizeof(offer->pretty), "dlend %s %04x:%04x on node %u",
		 offer->type.sysfs_name, info->vendor, info->device, offer->addr.lender);
	offer->type.pretty_name = offer->pretty;
	offer->types[0] = &offer->type;
	ret = device_add(&offer->dev);
	if (ret)
		goto err;
	ret = mdev_register_parent(&offer->parent, &offer->dev, &dlend_mdev_driver, offer->types,
				   1);
	if (ret)
		goto err_del;
	return 0;

err_del:
	device_del(&offer->dev);
err:
	dev_err(&offer->dev, "offer of node %u cannot be shown: %pe\n", offer->addr.lender,
		ERR_PTR(ret));
	return ret;
}

/** dlend_parent_unregister - removes its mdev too and waits for whoever has it open */
void dlend_parent_unregister(struct dlend_offer *offer)
{
	mdev_unregister_parent(&offer->parent);
	device_del(&offer->dev);
}

static int __init dlend_mdev_init(void)
{
	int ret;

	dlend_stat_init();
	ret = dlend_p2p_init();
	if (ret)
		goto err_stat;
	ret = bus_register(&dlend_bus_type);
	if (ret)
		goto err_p2p;
	ret = mdev_register_driver(&dlend_mdev_driver);
	if (ret)
		goto err_bus;
	ret = dlend_offers_init();
	if (ret)
		goto err_driver;
	return 0;

err_driver:
	mdev_unregister_driver(&dlend_mdev_driver);
err_bus:
	bus_unregister(&dlend_bus_type);
err_p2p:
	dlend_p2p_exit();
err_stat:
	dlend_stat_exit();
	return ret;
}

static void __exit dlend_mdev_exit(void)
{
	dlend_offers_exit();
	mdev_unregister_driver(&dlend_mdev_driver);
	bus_unregister(&dlend_bus_type);
	dlend_p2p_exit();
	dlend_stat_exit();
}

module_init(dlend_mdev_init);
module_exit(dlend_mdev_exit);
MODULE_DESCRIPTION("dlend: borrowed PCIe devices as mediated devices");
MODULE_LICENSE("GPL");
DLEND_IMPORT();
