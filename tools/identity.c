// SPDX-License-Identifier: GPL-2.0-only
/* Which device has an address: another may have it after a card was added or replaced. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <linux/pci_regs.h>

#include "dlend.h"

/* A device has at most so many extended capabilities: a list that is longer has no end. */
#define EXT_CAPS_MAX	((0x1000 - 0x100) / 8)

#define NVME_TRIES	300	/* tenths of a second */

/* At boot, the driver may not have its answers yet. */
static bool is_asked(const char *controller)
{
	return attr_is(controller, "state", "new") || attr_is(controller, "state", "connecting");
}

/* Only this host's own driver reads it. */
static const char *read_nvme(const struct device *dev)
{
	const struct timespec tick = { .tv_nsec = 100 * 1000 * 1000 };
	struct names found = list_dir(text("%s/nvme", dev->dir));
	char *controller, *serial;

	if (!found.count)
		return "";
	controller = names_path(&found, 0);
	for (int i = 0; i < NVME_TRIES && is_asked(controller); i++)
		nanosleep(&tick, NULL);
	serial = attr(controller, "serial");
	/* NVMe pads it. */
	for (size_t n = strlen(serial); n && serial[n - 1] == ' '; n--)
		serial[n - 1] = '\0';
	return serial;
}

static uint32_t word_at(const uint8_t *config, unsigned int at)
{
	return config[at] | config[at + 1] << 8 | config[at + 2] << 16 |
	       (uint32_t)config[at + 3] << 24;
}

/* The kernel's pci_get_dsn(). */
static const char *read_pcie(const struct device *dev)
{
	unsigned int at = 0x100, left = EXT_CAPS_MAX;
	uint8_t config[0x1000] = { 0 };
	FILE *f = fopen(text("%s/config", dev->dir), "re");
	size_t got = f ? fread(config, 1, sizeof(config), f) : 0;

	if (f)
		fclose(f);
	while (got == sizeof(config) && at >= 0x100 && at <= sizeof(config) - 12 && left--) {
		if ((word_at(config, at) & 0xffff) == PCI_EXT_CAP_ID_DSN)
			return text("%08x%08x", word_at(config, at + 8), word_at(config, at + 4));
		at = word_at(config, at) >> 20 & 0xffc;
	}
	return "";
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
		       text("its serial number is not known, and is to be %s; %s", line->serial,
			    "an NVMe disk's is known while this host's driver has it"));
	if (strcmp(serial, line->serial))
		refuse(line, dev, text("its serial number is %s, not %s", serial, line->serial));
}
