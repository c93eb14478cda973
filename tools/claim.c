// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend claim: for udev (61-dlend-claim.rules), of each PCI device that this host finds.  What
 * /etc/dlend.conf lists is kept from its own driver, or, if that was faster, from all that would
 * begin to use it, until dlend-lend.service lends it.
 *
 * Its driver_override names a driver that nobody has.  It is not dlend-lender's: that would offer
 * the device as soon as its module is loaded, before a reservation or a set is written.
 */
#include <string.h>

#include "dlend.h"

static bool line_means(const struct lend_line *line, const char *bdf)
{
	struct names found = config_matches(line);

	for (size_t i = 0; line->group && i < found.count; i++)
		if (path_exists(sys("bus/pci/devices/%s/iommu_group/devices/%s", bdf,
				    found.name[i])))
			return true;
	return names_have(&found, bdf);
}

int cmd_claim(int argc, char **argv)
{
	const struct lend_line *line = NULL;	/* the first that means it, as for lending */
	const char *override;
	struct device dev;
	struct config c;

	/* Nobody reads what it says. */
	if (argc != 2)
		return EXIT_USAGE;
	need_root(argv[0]);
	dev = device_open(argv[1]);
	c = config_read(text("%s/dlend.conf", opt.etc));
	for (size_t i = 0; i < c.count && !line; i++)
		line = line_means(&c.line[i], dev.bdf) ? &c.line[i] : NULL;
	if (!line)
		return EXIT_NOT_FOUND;
	/* What dlend lend would refuse stays with its own driver. */
	check_device(&dev);
	check_above(&dev);
	if (!line->anyway)
		check_hazard(&dev);
	check_use(&dev);
	/* What an administrator has chosen stays, and what is lent already. */
	override = attr(dev.dir, "driver_override");
	if (!*override || !strcmp(override, "(null)"))
		device_override(&dev, CLAIM_OVERRIDE);
	return EXIT_OK;
}
