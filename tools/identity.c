// SPDX-License-Identifier: GPL-2.0-only
/* Which device has an address: another may have it after a card was added or replaced. */
#include <ctype.h>
#include <pci/pci.h>
#include <string.h>
#include <time.h>

#include "dlend.h"

#define NVME_TRIES	300	/* tenths of a second */

/* Only this host's own driver reads it. */
static const char *read_nvme(const struct device *dev)
{
	const struct timespec tick = { .tv_nsec = 100 * 1000 * 1000 };
	struct names found = list_dir(text("%s/nvme", dev->dir));
	char *controller, *serial;

	if (!found.count)
		return "";
	controller = names_path(&found, 0);
	/* At boot, the driver may not have its answers yet. */
	for (int i = 0; i < NVME_TRIES; i++) {
		if (!attr_is(controller, "state", "new") &&
		    !attr_is(controller, "state", "connecting"))
			break;
		nanosleep(&tick, NULL);
	}
	serial = attr(controller, "serial");
	/* NVMe pads it. */
	for (size_t n = strlen(serial); n && serial[n - 1] == ' '; n--)
		serial[n - 1] = '\0';
	return serial;
}

/* The kernel's pci_get_dsn(). */
static const char *read_pcie(const struct device *dev)
{
	int word[4];

	for (unsigned int n = 0; n < 4; n++) {
		word[n] = capability_word(dev->bdf, PCI_EXT_CAP_ID_DSN, PCI_CAP_EXTENDED,
					  4 + 2 * n);
		if (word[n] < 0)
			return "";
	}
	return text("%04x%04x%04x%04x", word[3], word[2], word[1], word[0]);
}

const char *identity_of(const struct device *dev)
{
	const char *found = attr(dev->dir, "dlend/identity");
	char *name;

	if (!*found)
		found = read_nvme(dev);
	if (!*found)
		found = read_pcie(dev);
	name = text("%s", found);
	/* As the kernel's dlend_name_read() wants it. */
	for (char *s = name; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("._-", *s))
			*s = '_';
	return name;
}

static __noreturn void refuse(const struct lend_line *line, const struct device *dev,
			      const char *why)
{
	fail(EXIT_UNFIT, text("%s is not the device that line %u means", dev->bdf, line->number),
	     why, "Devices change their addresses when others come or go: correct the line.");
}

void identity_check(const struct lend_line *line, const struct device *dev)
{
	const char *vendor = attr(dev->dir, "vendor"), *device = attr(dev->dir, "device");
	const char *ids, *serial;

	ids = text("%.4s:%.4s", *vendor ? vendor + 2 : "", *device ? device + 2 : "");
	if (line->ids && strcasecmp(ids, line->ids))
		refuse(line, dev, text("its ids are %s, not %s", ids, line->ids));
	if (!line->serial)
		return;
	serial = identity_of(dev);
	if (!*serial)
		refuse(line, dev,
		       text("its serial number is not known, and must be %s; %s", line->serial,
			    "that of an NVMe disk is known while this host's driver has the disk"));
	if (strcmp(serial, line->serial))
		refuse(line, dev, text("its serial number is %s, not %s", serial, line->serial));
}
