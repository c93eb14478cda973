// SPDX-License-Identifier: GPL-2.0
/*
 * The dlend bus: a device for each offer, the attributes of these devices and those of the bus.
 *
 * This file only reads.  Must not know what offers are used for.
 */
#include <linux/string_choices.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include "bridges.h"
#include "bus.h"
#include "offer.h"
#include "p2p.h"

static ssize_t neighbours_show(const struct bus_type *bus, char *buf)
{
	return dlend_p2p_paths_emit(buf);
}
static BUS_ATTR_RO(neighbours);

static ssize_t ntb_places_show(const struct bus_type *bus, char *buf)
{
	return dlend_bridge_ends_emit(buf);
}
static BUS_ATTR_RO(ntb_places);

static ssize_t ntb_roots_show(const struct bus_type *bus, char *buf)
{
	return dlend_bridge_ends_emit_roots(buf);
}
static BUS_ATTR_RO(ntb_roots);

static struct attribute *dlend_bus_attrs[] = {
	&bus_attr_neighbours.attr,
	&bus_attr_ntb_places.attr,
	&bus_attr_ntb_roots.attr,
	NULL
};
ATTRIBUTE_GROUPS(dlend_bus);

/*
 * No driver binds to an offer.  So the kernel calls types of mediated devices after the bus:
 * "dlend-...".
 */
const struct bus_type dlend_bus_type = {
	.name = "dlend",
	.bus_groups = dlend_bus_groups,
};

static ssize_t lender_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_dlend_offer(dev)->addr.lender);
}
static DEVICE_ATTR_RO(lender);

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "%s\n", dlend_offer_state_told(to_dlend_offer(dev)));
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

/* How those of the device reach its user on this node. */
static ssize_t interrupts_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_offer *offer = to_dlend_offer(dev);

	guard(mutex)(&dlend_offers_lock);
	return offer->claim ? dlend_claim_show_interrupts(offer->claim, buf) :
			      sysfs_emit(buf, "none\n");
}
static DEVICE_ATTR_RO(interrupts);

static ssize_t direct_interrupts_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", str_on_off(!READ_ONCE(to_dlend_offer(dev)->doorbell)));
}

/* At once, if somebody has it; a link that allows no direct ones is not changed by that. */
static ssize_t direct_interrupts_store(struct device *dev, struct device_attribute *attr,
				       const char *buf, size_t len)
{
	struct dlend_offer *offer = to_dlend_offer(dev);
	struct dlend_claim *claim;
	bool direct;
	int ret;

	ret = kstrtobool(buf, &direct);
	if (ret)
		return ret;
	WRITE_ONCE(offer->doorbell, !direct);
	mutex_lock(&dlend_offers_lock);
	claim = dlend_offer_get_claim(offer);
	mutex_unlock(&dlend_offers_lock);
	if (!claim)
		return len;
	claim->ops->irqs_again(claim);
	dlend_offer_put_claim(claim);
	return len;
}
static DEVICE_ATTR_RW(direct_interrupts);

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
	at = dlend_bridges_emit(buf, 0, &offer->place);
	return at + sysfs_emit_at(buf, at, "\n");
}
static DEVICE_ATTR_RO(place);

static ssize_t root_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_offer *offer = to_dlend_offer(dev);
	int at;

	guard(mutex)(&dlend_offers_lock);
	if (!offer->placed)
		return -ENODATA;
	at = dlend_place_emit_root(buf, 0, &offer->place);
	return at + sysfs_emit_at(buf, at, "\n");
}
static DEVICE_ATTR_RO(root);

static ssize_t clique_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	u16 clique;

	guard(mutex)(&dlend_offers_lock);
	clique = to_dlend_offer(dev)->info.clique;
	if (clique == DLEND_OFFER_CLIQUE_AUTO)
		return sysfs_emit(buf, "auto\n");
	if (clique == DLEND_OFFER_CLIQUE_NONE)
		return sysfs_emit(buf, "none\n");
	return sysfs_emit(buf, "%u\n", clique - DLEND_OFFER_CLIQUE(0));
}
static DEVICE_ATTR_RO(clique);

static ssize_t set_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct dlend_offer *offer = to_dlend_offer(dev);

	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "%s\n", offer->set[0] ? offer->set : "none");
}
static DEVICE_ATTR_RO(set);

static ssize_t identity_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	guard(mutex)(&dlend_offers_lock);
	return sysfs_emit(buf, "%s\n", to_dlend_offer(dev)->info.identity);
}
static DEVICE_ATTR_RO(identity);

static ssize_t reserved_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct dlend_offer *offer = to_dlend_offer(dev);

	guard(mutex)(&dlend_offers_lock);
	return dlend_offer_vm(offer) ? sysfs_emit(buf, "%pUl\n", offer->vm) :
				       sysfs_emit(buf, "none\n");
}
static DEVICE_ATTR_RO(reserved);

static ssize_t bars_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct dlend_offer_info *info = &to_dlend_offer(dev)->info;
	int at = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(info->bar); i++) {
		u32 flags = info->bar[i].flags;

		if (info->bar[i].size && !(flags & DLEND_BAR_F_IO))
			at += sysfs_emit_at(buf, at, "%u %llu%s%s\n", i, info->bar[i].size,
					    flags & DLEND_BAR_F_64 ? " 64" : "",
					    flags & DLEND_BAR_F_PREFETCH ? " prefetch" : "");
	}
	return at;
}
static DEVICE_ATTR_RO(bars);

static struct attribute *dlend_bus_offer_attrs[] = {
	&dev_attr_lender.attr,
	&dev_attr_state.attr,
	&dev_attr_borrower.attr,
	&dev_attr_epoch.attr,
	&dev_attr_vendor.attr,
	&dev_attr_device.attr,
	&dev_attr_class.attr,
	&dev_attr_type.attr,
	&dev_attr_link.attr,
	&dev_attr_interrupts.attr,
	&dev_attr_direct_interrupts.attr,
	&dev_attr_place.attr,
	&dev_attr_root.attr,
	&dev_attr_clique.attr,
	&dev_attr_set.attr,
	&dev_attr_identity.attr,
	&dev_attr_reserved.attr,
	&dev_attr_bars.attr,
	NULL
};

static const struct attribute_group dlend_bus_offer_group = {
	.attrs = dlend_bus_offer_attrs,
};

const struct attribute_group *dlend_bus_offer_groups[] = { &dlend_bus_offer_group, NULL };
