// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend claim: for udev (61-dlend-claim.rules), of each PCI device that this host finds.  What
 * /etc/dlend.conf lists is kept from its own driver, or, if that was faster, from all that would
 * begin to use it, until dlend-lend.service lends it.
 *
 * Its driver_override names a driver that nobody has.  It is not dlend-lender's: that would offer
 * the device as soon as its module is loaded, before a reservation or a set is written.
 */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

static bool group_has(const char *bdf, const char *member)
{
	char *entry = path("%s/bus/pci/devices/%s/iommu_group/devices/%s", opt.sysfs, bdf, member);
	bool has = path_exists(entry);

	free(entry);
	return has;
}

static bool line_means(const struct lend_line *line, const char *bdf)
{
	struct names found = config_matches(line);
	bool means = names_have(&found, bdf);

	for (size_t i = 0; line->group && !means && i < found.count; i++)
		means = group_has(found.name[i], bdf);
	names_free(&found);
	return means;
}

/* The first line that means it, as for lending; NULL: none. */
static const struct lend_line *line_of(const struct config *c, const char *bdf)
{
	for (size_t i = 0; i < c->count; i++)
		if (line_means(&c->line[i], bdf))
			return &c->line[i];
	return NULL;
}

/* As dlend lend would refuse it, and then it stays with its own driver. */
static void check_lendable(const struct device *dev, const struct lend_line *line)
{
	check_device(dev);
	check_above(dev);
	if (!line->anyway)
		check_hazard(dev);
	check_use(dev);
}

int cmd_claim(int argc, char **argv)
{
	char *file = path("%s/dlend.conf", opt.etc), override[TEXT_MAX];
	const struct lend_line *line;
	struct device dev;
	struct config c;

	/* Nobody reads what it says. */
	if (argc != 2)
		return EXIT_USAGE;
	need_root(argv[0]);
	dev = device_open(argv[1]);
	c = config_read(file);
	line = line_of(&c, dev.bdf);
	if (!line)
		return EXIT_NOT_FOUND;
	check_lendable(&dev, line);
	/* What an administrator has chosen stays, and what is lent already. */
	read_attr(override, dev.dir, "driver_override");
	if (!*override || !strcmp(override, "(null)"))
		device_override(&dev, CLAIM_OVERRIDE);
	return EXIT_OK;
}
