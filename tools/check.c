// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks whether a device can be lent, before anything is changed.  The driver checks again all
 * that concerns safety.  These checks are here for messages that say what to do.
 *
 * Some devices can be lent, and that does harm that people do not expect: only who says --anyway
 * gets it.  Others hang below another device.
 */
#include <string.h>

#include "dlend.h"

void check_node(void)
{
	const char *const load[] = { "modprobe", "-q", "dlend_lender", NULL }, *node;
	char *driver = sys("bus/pci/drivers/" DLEND_DRIVER);

	if (!path_exists(driver) && !opt.fake)
		child_run(load);
	if (!path_exists(driver))
		fail(EXIT_NOT_READY, "this host cannot lend",
		     "the module dlend_lender is not loaded",
		     "Load it: modprobe dlend_lender. If it does not exist, see README.md on how to build and install it.");
	node = own_node();
	if (!*node || !strcmp(node, "0"))
		fail(EXIT_NOT_READY, "this host cannot lend", "it has no node id",
		     "Give every host one of its own, 1 to 65535: put \"options dlend_core node_id=N\" into /etc/modprobe.d/dlend.conf and load the modules again.");
}

void check_kind(const struct device *dev)
{
	const char *offer = offer_attached_as(dev->bdf);
	const char *what = text("%s cannot be lent", dev->bdf);

	if (is_bridge(dev->dir))
		fail(EXIT_UNFIT, what,
		     strncmp(attr(dev->dir, "class"), "0x0604", 6) ?
		     "it is part of the host's own wiring" : "it is a PCI bridge",
		     "Lend the devices behind it, one by one.");
	if (offer)
		fail(EXIT_UNFIT, what, "it is another node's, and only attached here",
		     text("Return it (dlend detach %s); its lender can lend it to another host.",
			  offer));
}

void check_device(const struct device *dev)
{
	const char *with, *outside, *what = text("%s cannot be lent", dev->bdf);
	unsigned long long functions = attr_number(dev->dir, "sriov_numvfs");
	bool shared;

	check_kind(dev);
	/* They end when their driver goes, whoever uses them: so before that. */
	if (functions)
		fail(EXIT_IN_USE, text("%s is in use", dev->bdf),
		     text("it has virtual functions (%llu), which go away with its driver",
			  functions),
		     text("Lend or remove those: echo 0 > /sys/bus/pci/devices/%s/sriov_numvfs",
			  dev->bdf));
	shared = reset_shared(dev, &with, &outside);
	if (shared && outside)
		fail(EXIT_UNFIT, what,
		     text("its only reset is that of its bus, which %s of another group shares",
			  outside),
		     "Put it into a slot of its own.");
	if (!shared && !*attr(dev->dir, "reset_method"))
		fail(EXIT_UNFIT, what,
		     "there is no way to reset it, so one borrower's data would reach the next",
		     text("If the slot can reset it, allow that: dlend lend --reset bus %s",
			  dev->bdf));
	if (!path_exists(text("%s/iommu_group", dev->dir)))
		fail(EXIT_UNFIT, what, "no IOMMU stands between it and this host's memory",
		     "Turn the IOMMU on in the firmware (VT-d, AMD-Vi) and boot with intel_iommu=on (AMD's is on by default).");
	if (attr_is(dev->dir, "iommu_group/type", "identity"))
		fail(EXIT_UNFIT, what, "its IOMMU group is in pass-through mode (type identity)",
		     "Boot without iommu=pt, or with iommu=nopt.");
}

/* vfio_pci_dev_in_denylist() of Linux: a guest that has one can harm the host. */
static const struct {
	const char *vendor, *device, *name;
} denied[] = {
	{ "0x8086", "0x0435", "QAT DH895xCC" },
	{ "0x8086", "0x0443", "QAT DH895xCC, virtual function" },
	{ "0x8086", "0x0b25", "DSA" },
	{ "0x8086", "0x0cfe", "IAX" },
	{ "0x8086", "0x19e2", "QAT C3xxx" },
	{ "0x8086", "0x19e3", "QAT C3xxx, virtual function" },
	{ "0x8086", "0x37c8", "QAT C62x" },
	{ "0x8086", "0x37c9", "QAT C62x, virtual function" },
};

static const char *denied_model(const char *dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		if (attr_is(dir, "vendor", denied[i].vendor) &&
		    attr_is(dir, "device", denied[i].device))
			return denied[i].name;
	return NULL;
}

/* A function that is no bridge. */
static bool is_device(const char *dir)
{
	return *attr(dir, "class") && !is_bridge(dir);
}

struct names devices_behind(const struct device *dev)
{
	struct names all = list_dir(sys("bus/pci/devices")), behind = { 0 };

	for (size_t i = 0; i < all.count; i++) {
		char *dir = real_path(names_path(&all, i));

		if (dir && is_below(dir, dev->dir) && is_device(dir))
			names_add(&behind, all.name[i]);
	}
	return behind;
}

const char *device_above(const struct device *dev)
{
	char *dir = text("%s", dev->dir), *slash, bdf[16];

	while ((slash = strrchr(dir, '/'))) {
		*slash = '\0';
		slash = strrchr(dir, '/');
		if (slash && strchr(slash, '.') && bdf_parse(bdf, slash + 1) && is_device(dir))
			return text("%s", bdf);
	}
	return NULL;
}

const char *device_hazard(const struct device *dev)
{
	struct names behind = devices_behind(dev);
	const char *model = denied_model(dev->dir);

	if (behind.count)
		return text("this host would lose what is behind it: %s", names_text(&behind));
	if (model)
		return text("Linux gives no guest a device of this model (%s): it harms hosts",
			    model);
	return NULL;
}

void check_hazard(const struct device *dev)
{
	const char *why = device_hazard(dev);

	if (why)
		fail(EXIT_UNFIT, text("%s is not lent", dev->bdf), why,
		     text("If that is what you want: dlend lend --anyway %s", dev->bdf));
}

void check_above(const struct device *dev)
{
	const char *above = device_above(dev);

	if (above)
		fail(EXIT_UNFIT, text("%s cannot be lent by itself", dev->bdf),
		     text("it is behind %s, by whose requester id it does DMA", above),
		     text("%s dlend lend --anyway %s",
			  "Turn that off in the firmware (Intel VMD): then it is an ordinary device. Or lend the controller, with all that is behind it:",
			  above));
}
