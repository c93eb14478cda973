// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks whether a device can be lent, before anything is changed.  The driver checks again all
 * that concerns safety.  These checks are here for messages that say what to do.
 */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

static void load_module(const char *module)
{
	const char *const words[] = { "modprobe", "-q", module, NULL };

	child_run(words);
}

void check_node(void)
{
	char *driver = path("%s/bus/pci/drivers/" DLEND_DRIVER, opt.sysfs);
	char node[TEXT_MAX];

	if (!path_exists(driver) && !opt.fake)
		load_module("dlend_lender");
	if (!path_exists(driver))
		fail(EXIT_NOT_READY, "this host cannot lend",
		     "the module dlend_lender is not loaded",
		     "Load it: modprobe dlend_lender. If it does not exist, see README.md on how to build and install it.");
	own_node(node);
	if (!*node || !strcmp(node, "0"))
		fail(EXIT_NOT_READY, "this host cannot lend", "it has no node id",
		     "Give every host one of its own, 1 to 65535: put \"options dlend_core node_id=N\" into /etc/modprobe.d/dlend.conf and load the modules again.");
	free(driver);
}

void check_kind(const struct device *dev)
{
	char class[TEXT_MAX], *offer = offer_attached_as(dev->bdf);

	if (!strncmp(read_attr(class, dev->dir, "class"), "0x06", 4))
		fail(EXIT_UNFIT, text("%s cannot be lent", dev->bdf),
		     strncmp(class, "0x0604", 6) ? "it is part of the host's own wiring" :
						   "it is a PCI bridge",
		     "Lend the devices behind it, one by one.");
	if (offer)
		fail(EXIT_UNFIT, text("%s cannot be lent", dev->bdf),
		     "it is another node's, and only attached here",
		     text("Return it (dlend detach %s); its lender lends it to whom you like.",
			  offer));
	free(offer);
}

static void check_reset(const struct device *dev)
{
	const char *with, *outside;
	char method[TEXT_MAX];
	bool shared = reset_shared(dev, &with, &outside);

	if (shared && outside)
		fail(EXIT_UNFIT, text("%s cannot be lent", dev->bdf),
		     text("its only reset is its bus's, which %s shares, of another IOMMU group",
			  outside),
		     "Put it into a slot of its own.");
	if (!shared && !*read_attr(method, dev->dir, "reset_method"))
		fail(EXIT_UNFIT, text("%s cannot be lent", dev->bdf),
		     "there is no way to reset it, so one borrower's data would reach the next",
		     "If the slot can reset it, allow that: echo bus > /sys/bus/pci/devices/BDF/reset_method");
}

static void check_iommu(const struct device *dev)
{
	char *group = path("%s/iommu_group", dev->dir);
	char type[TEXT_MAX];

	if (!path_exists(group))
		fail(EXIT_UNFIT, text("%s cannot be lent", dev->bdf),
		     "no IOMMU stands between it and this host's memory",
		     "Turn the IOMMU on in the firmware (VT-d, AMD-Vi) and boot with intel_iommu=on (AMD's is on by default).");
	if (!strcmp(read_attr(type, group, "type"), "identity"))
		fail(EXIT_UNFIT, text("%s cannot be lent", dev->bdf),
		     "its IOMMU group is in pass-through mode (type identity)",
		     "Boot without iommu=pt, or with iommu=nopt.");
	free(group);
}

/* Virtual functions end when their driver goes, whoever uses them: so check before that. */
static void check_functions(const struct device *dev)
{
	char value[TEXT_MAX];
	unsigned long count = strtoul(read_attr(value, dev->dir, "sriov_numvfs"), NULL, 10);

	if (count)
		fail(EXIT_IN_USE, text("%s is in use", dev->bdf),
		     text("it has virtual functions (%lu), which end with its driver", count),
		     text("Lend those, or end them: echo 0 > /sys/bus/pci/devices/%s/sriov_numvfs",
			  dev->bdf));
}

void check_device(const struct device *dev)
{
	check_kind(dev);
	check_functions(dev);
	check_reset(dev);
	check_iommu(dev);
}
