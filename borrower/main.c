// SPDX-License-Identifier: GPL-2.0
/*
 * The module dlend_borrower: devices that nodes lend, on the dlend bus.  Other modules use these
 * devices (dlend_mdev makes mediated devices for guests, dlend_native attaches them to this host).
 */
#include <linux/module.h>
#include <linux/string_choices.h>
#include <linux/sysfs.h>
#include <dlend/cfg.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/version.h>
#include "offer.h"
#include "p2p.h"

/* The dlend bus: a device for each offer, the attributes of these devices and those of the bus. */

static ssize_t neighbours_show(const struct bus_type *bus, char *buf)
{
	return dlend_p2p_paths_emit(buf);
}
static BUS_ATTR_RO(neighbours);

static ssize_t ntb_places_show(const struct bus_type *bus, char *buf)
{
	return dlend_p2p_emit_ntbs(buf, false /* bridges */);
}
static BUS_ATTR_RO(ntb_places);

static ssize_t ntb_roots_show(const struct bus_type *bus, char *buf)
{
	return dlend_p2p_emit_ntbs(buf, true /* roots */);
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
 * An attribute of an offer that shows one value, @arg, which is evaluated under dlend_offers_lock.
 */
#define DLEND_OFFER_ATTR(name, fmt, arg) \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
	{ \
		const struct dlend_offer *offer = to_dlend_offer(dev); \
		\
		guard(mutex)(&dlend_offers_lock); \
		return sysfs_emit(buf, fmt "\n", arg); \
	} \
	static DEVICE_ATTR_RO(name)

DLEND_OFFER_ATTR(lender, "%u", offer->addr.lender);
DLEND_OFFER_ATTR(state, "%s", dlend_offer_state_shown(offer));
DLEND_OFFER_ATTR(borrower, "%u", offer->now.holder);
DLEND_OFFER_ATTR(epoch, "%u", offer->now.epoch);
DLEND_OFFER_ATTR(vendor, "0x%04x", offer->info.vendor);
DLEND_OFFER_ATTR(device, "0x%04x", offer->info.device);
DLEND_OFFER_ATTR(class, "0x%06x", offer->info.class);
DLEND_OFFER_ATTR(type, "dlend-%s", dlend_kind(offer->info.class));
DLEND_OFFER_ATTR(link, "%s", offer->link ? dlend_link_name(offer->link) : "down");
DLEND_OFFER_ATTR(set, "%s", offer->set[0] ? offer->set : "none");
DLEND_OFFER_ATTR(identity, "%s", offer->info.identity);

/* How interrupts of the device reach its user on this node: see dlend_claim_show_interrupts(). */
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

/*
 * An existing lease's interrupts are set up anew at once.  If the link allows no direct interrupts,
 * they come by the doorbell as before.
 */
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

/* Print where a device sits, by @emit, with a new line. Return: bytes; -ENODATA: not known. */
static ssize_t dlend_bus_emit_place(struct device *dev, char *buf,
				    int (*emit)(char *buf, int at, const struct dlend_p_place *p))
{
	const struct dlend_offer *offer = to_dlend_offer(dev);
	int at;

	guard(mutex)(&dlend_offers_lock);
	if (!offer->placed)
		return -ENODATA;
	at = emit(buf, 0, &offer->place);
	return at + sysfs_emit_at(buf, at, "\n");
}

static ssize_t place_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return dlend_bus_emit_place(dev, buf, dlend_p2p_emit_place);
}
static DEVICE_ATTR_RO(place);

static ssize_t root_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return dlend_bus_emit_place(dev, buf, dlend_place_emit_root);
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

static ssize_t reserved_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct dlend_offer *offer = to_dlend_offer(dev);

	guard(mutex)(&dlend_offers_lock);
	return dlend_offer_vm(offer) ? sysfs_emit(buf, "%pUl\n", offer->now.vm) :
				       sysfs_emit(buf, "none\n");
}
static DEVICE_ATTR_RO(reserved);

static ssize_t bars_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct dlend_offer_info *info = &to_dlend_offer(dev)->info;
	int at = 0;

	guard(mutex)(&dlend_offers_lock);
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

ATTRIBUTE_GROUPS(dlend_bus_offer);

/* No driver binds to an offer, so the mdev core names mdev types after the bus: "dlend-...". */
const struct bus_type dlend_bus_type = {
	.name = "dlend",
	.bus_groups = dlend_bus_groups,
	.dev_groups = dlend_bus_offer_groups,
};

#define CREATE_TRACE_POINTS
#include "trace.h"

/*
 * Functions of pure files (tests/pure.mk): as user space compiles these, too, they export nothing.
 */
DLEND_EXPORT(dlend_cfg_bar_addr);
DLEND_EXPORT(dlend_cfg_init);
DLEND_EXPORT(dlend_cfg_live);
DLEND_EXPORT(dlend_cfg_msi);
DLEND_EXPORT(dlend_cfg_msix);
DLEND_EXPORT(dlend_cfg_msix_range);
DLEND_EXPORT(dlend_cfg_read);
DLEND_EXPORT(dlend_cfg_readrq);
DLEND_EXPORT(dlend_cfg_vpd);
DLEND_EXPORT(dlend_cfg_vpd_done);
DLEND_EXPORT(dlend_cfg_write);
DLEND_EXPORT(dlend_cfg_load);
DLEND_EXPORT(dlend_clique_known);
DLEND_EXPORT(dlend_p2p_clique);
DLEND_EXPORT(dlend_p2p_clique_rival);
DLEND_EXPORT(dlend_p2p_doubt);
DLEND_EXPORT(dlend_p2p_doubt_text);

static int __init dlend_borrower_init(void)
{
	int ret = dlend_p2p_init();

	if (ret)
		return ret;
	dlend_waits_for_no_peer(&dlend_offers_lock);
	dlend_waits_for_no_peer(&dlend_p2p_lock);
	ret = bus_register(&dlend_bus_type);
	if (ret)
		goto exit_p2p;
	ret = dlend_offer_life_init();
	if (ret)
		goto unregister_bus;
	ret = dlend_link_user_register(&dlend_event_user);
	if (ret)
		goto exit_life;
	return 0;

exit_life:
	dlend_offer_life_exit();
unregister_bus:
	bus_unregister(&dlend_bus_type);
exit_p2p:
	dlend_p2p_exit();
	return ret;
}

/* Modules that use offers hold a reference to this one, so no user of offers is left. */
static void __exit dlend_borrower_exit(void)
{
	dlend_link_user_unregister(&dlend_event_user);
	dlend_offer_life_exit();
	bus_unregister(&dlend_bus_type);
	dlend_p2p_exit();
}

module_init(dlend_borrower_init);
module_exit(dlend_borrower_exit);
MODULE_DESCRIPTION("dlend: PCIe devices that other hosts lend");
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
DLEND_IMPORT();
