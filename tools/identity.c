// SPDX-License-Identifier: GPL-2.0-only
/* Which device has an address: another may have it after a card was added or replaced. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <linux/pci_regs.h>

#include "dlend.h"

/* A device has at most so many extended capabilities: a list that is longer has no end. */
#define EXT_CAPS_MAX	((0x1000 - 0x100) / 8)

#define NVME_TRIES	300	/* tenths of a second */

/* As the kernel's dlend_name_read() wants it. */
static void make_name(char *s)
{
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("._-", *s))
			*s = '_';
}

/* At boot, the driver may not have its answers yet. */
static bool is_asked(const char *controller)
{
	char state[TEXT_MAX];

	read_attr(state, controller, "state");
	return !strcmp(state, "new") || !strcmp(state, "connecting");
}

/* Only this host's own driver reads it. */
static void read_nvme(char text[TEXT_MAX], const struct device *dev)
{
	const struct timespec tick = { .tv_nsec = 100 * 1000 * 1000 };
	char *dir = path("%s/nvme", dev->dir);
	struct names found = list_dir(dir);

	*text = '\0';
	if (found.count) {
		char *controller = path("%s/%s", dir, found.name[0]);

		for (int i = 0; i < NVME_TRIES && is_asked(controller); i++)
			nanosleep(&tick, NULL);
		read_attr(text, controller, "serial");
		free(controller);
	}
	/* NVMe pads it. */
	for (size_t n = strlen(text); n && text[n - 1] == ' '; n--)
		text[n - 1] = '\0';
	names_free(&found);
	free(dir);
}

static uint32_t word_at(const uint8_t *config, unsigned int at)
{
	return config[at] | config[at + 1] << 8 | config[at + 2] << 16 |
	       (uint32_t)config[at + 3] << 24;
}

/* The kernel's pci_get_dsn(). */
static void read_pcie(char text[TEXT_MAX], const struct device *dev)
{
	char *p = path("%s/config", dev->dir);
	unsigned int at = 0x100, left = EXT_CAPS_MAX;
	uint8_t config[0x1000] = { 0 };
	FILE *f = fopen(p, "re");
	size_t got = f ? fread(config, 1, sizeof(config), f) : 0;

	*text = '\0';
	while (got == sizeof(config) && at >= 0x100 && at <= sizeof(config) - 12 && left--) {
		if ((word_at(config, at) & 0xffff) == PCI_EXT_CAP_ID_DSN) {
			snprintf(text, TEXT_MAX, "%08x%08x", word_at(config, at + 8),
				 word_at(config, at + 4));
			break;
		}
		at = word_at(config, at) >> 20 & 0xffc;
	}
	if (f)
		fclose(f);
	free(p);
}

const char *identity_of(const struct device *dev)
{
	char *lent = path("%s/dlend", dev->dir);
	char text[TEXT_MAX];

	read_attr(text, lent, "identity");
	if (!*text)
		read_nvme(text, dev);
	if (!*text)
		read_pcie(text, dev);
	make_name(text);
	free(lent);
	return strdup(text);
}

static __noreturn void refuse(const struct lend_line *line, const struct device *dev,
			      const char *why)
{
	fail(EXIT_UNFIT, text("%s is not the device that line %u means", dev->bdf, line->number),
	     why, "Devices change their addresses when others come or go: correct the line.");
}

void identity_check(const struct lend_line *line, const struct device *dev)
{
	char vendor[TEXT_MAX], device[TEXT_MAX];
	const char *ids, *serial;

	read_attr(vendor, dev->dir, "vendor");
	read_attr(device, dev->dir, "device");
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
