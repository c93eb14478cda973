// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices that can be lent, and whose lending does harm that people do not expect: only who says
 * --anyway gets that.  And devices that hang below another one.
 */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

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
	char vendor[TEXT_MAX], device[TEXT_MAX];

	read_attr(vendor, dir, "vendor");
	read_attr(device, dir, "device");
	for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++)
		if (!strcmp(denied[i].vendor, vendor) && !strcmp(denied[i].device, device))
			return denied[i].name;
	return NULL;
}

/* A function that is no bridge. */
static bool is_device(const char *dir)
{
	char class[TEXT_MAX];

	return *read_attr(class, dir, "class") && strncmp(class, "0x06", 4);
}

struct names devices_behind(const struct device *dev)
{
	char *bus = path("%s/bus/pci/devices", opt.sysfs);
	struct names all = list_dir(bus), behind = { 0 };

	for (size_t i = 0; i < all.count; i++) {
		char *entry = path("%s/%s", bus, all.name[i]), *dir = real_path(entry);

		if (dir && is_below(dir, dev->dir) && is_device(dir))
			names_add(&behind, all.name[i]);
		free(dir);
		free(entry);
	}
	names_free(&all);
	free(bus);
	return behind;
}

const char *device_above(const struct device *dev)
{
	char *dir = strdup(dev->dir), *slash, bdf[16];
	const char *found = NULL;

	while (!found && (slash = strrchr(dir, '/'))) {
		*slash = '\0';
		slash = strrchr(dir, '/');
		if (slash && strchr(slash, '.') && bdf_parse(bdf, slash + 1) && is_device(dir))
			found = text("%s", bdf);
	}
	free(dir);
	return found;
}

static const char *names_text(const struct names *n)
{
	const char *all = "";

	for (size_t i = 0; i < n->count; i++)
		all = text("%s%s%s", all, *all ? ", " : "", n->name[i]);
	return all;
}

const char *device_hazard(const struct device *dev)
{
	const char *model = denied_model(dev->dir), *why = NULL;
	struct names behind = devices_behind(dev);

	if (behind.count)
		why = text("this host would lose what is behind it: %s", names_text(&behind));
	else if (model)
		why = text("Linux gives no guest a device of this model (%s): it harms hosts",
			   model);
	names_free(&behind);
	return why;
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
			  "Turn that off in the firmware (Intel VMD): then it is a device as all others. Or lend the controller, with all that is behind it:",
			  above));
}
