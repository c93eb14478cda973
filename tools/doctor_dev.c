// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend doctor: checks a device that is to be lent.  check.c and lender/bind.c check the same but
 * stop at the first problem; this reports all of them.
 */
#include <string.h>

#include "doctor.h"

#define BARS		6
#define PAGE		4096ULL
#define RESOURCE_IO	0x100ULL
#define RESOURCE_MEM	0x200ULL

struct bar {
	unsigned long long start, size, flags;
};

/* The file "resource" has a line for each BAR: start, end and flags. */
static void read_bars(const char *dir, struct bar bar[BARS])
{
	char *rest = read_all(text("%s/resource", dir)), *line;
	unsigned long long start, end, flags;

	memset(bar, 0, BARS * sizeof(*bar));
	for (unsigned int i = 0; i < BARS && (line = next_line(&rest)); i++) {
		if (sscanf(line, "%llx %llx %llx", &start, &end, &flags) != 3)
			break;
		if (flags)
			bar[i] = (struct bar){ start, end - start + 1, flags };
	}
}

unsigned long long largest_bar(const char *dir)
{
	unsigned long long most = 0;
	struct bar bar[BARS];

	read_bars(dir, bar);
	for (unsigned int i = 0; i < BARS; i++)
		if ((bar[i].flags & RESOURCE_MEM) && bar[i].size > most)
			most = bar[i].size;
	return most;
}

unsigned long long bar_bytes(const char *dir)
{
	unsigned long long sum = 0;
	struct bar bar[BARS];

	read_bars(dir, bar);
	for (unsigned int i = 0; i < BARS; i++)
		if (bar[i].flags & RESOURCE_MEM)
			sum += bar[i].size < PAGE ? PAGE : bar[i].size;
	return sum;
}

static void check_device_kind(const struct device *dev)
{
	const char *bdf = dev->bdf, *above = device_above(dev), *harm = device_hazard(dev);
	unsigned long long functions = attr_number(dev->dir, "sriov_numvfs");

	if (is_bridge(dev->dir))
		finding(LEVEL_FAIL, "device-kind",
			text("%s is a bridge or part of the host's own wiring", bdf),
			"Lend the devices behind it");
	if (functions)
		finding(LEVEL_FAIL, "device-sriov",
			text("%s has %llu virtual functions, which a reset would take away", bdf,
			     functions),
			"Lend those, or turn them off: echo 0 >sriov_numvfs in its sysfs folder");
	if (above)
		finding(LEVEL_FAIL, "device-above",
			text("%s is behind %s, by whose requester id it does DMA", bdf, above),
			"Turn that off in the firmware (Intel VMD)");
	else if (harm)
		finding(LEVEL_WARN, "device-harm", text("%s: %s", bdf, harm),
			"If you want that: dlend lend --anyway");
	if (strncmp(bdf, "0000:", 5))
		finding(LEVEL_WARN, "device-domain", text("%s is outside PCI domain 0", bdf),
			"Give it a name: dlend lend --as BB:DD.F, or as= in dlend.conf");
}

static void check_device_reset(const struct device *dev)
{
	const char *bdf = dev->bdf, *with, *outside, *method = attr(dev->dir, "reset_method");
	bool shared = reset_shared(dev, &with, &outside);

	if (shared && outside)
		finding(LEVEL_FAIL, "device-reset",
			text("the only reset of %s is its bus's, which %s of another group shares",
			     bdf, outside),
			"Put it into a slot of its own");
	else if (shared)
		finding(LEVEL_WARN, "device-reset",
			text("%s has no reset of its own: it is reset with %s, by their bus",
			     bdf, with),
			"Lend them together (--group), and test whether its driver works after that");
	else if (!*method)
		finding(LEVEL_FAIL, "device-reset",
			text("%s cannot be reset: one borrower's data would reach the next", bdf),
			"If it is alone on its bus, allow a reset of that: dlend lend --reset bus");
	else if (has_word(method, "flr") || has_word(method, "af_flr") ||
		 has_word(method, "device_specific"))
		finding(LEVEL_OK, "device-reset", text("%s: %s", bdf, method), NULL);
	else if (has_word(method, "bus"))
		finding(LEVEL_WARN, "device-reset",
			text("%s has no function level reset, only: %s", bdf, method),
			"It is alone on its bus, so a reset of the bus resets all of it; test whether its driver works after that");
	else
		finding(LEVEL_WARN, "device-reset",
			text("%s has no function level reset, only: %s", bdf, method),
			"Such a reset may leave data in it; use --reset bus if it can do that, and test it");
}

/* AMD's IOMMU keeps all from here to 1 TiB for interrupts and itself, on every host. */
#define HT_FIRST	0xfd00000000ULL

/*
 * Addresses that the IOMMU or the firmware keeps for itself, and where a guest has memory.  Those
 * for MSIs no guest uses.
 */
static void check_device_reserved(const char *bdf, char *regions)
{
	unsigned long long first, last;
	char *line, kind[32];

	while ((line = next_line(&regions)))
		if (sscanf(line, "%llx %llx %31s", &first, &last, kind) == 3 &&
		    !strcmp(kind, "reserved") && first < HT_FIRST)
			finding(LEVEL_WARN, "device-reserved",
				text("the IOMMU keeps 0x%llx-0x%llx of %s for itself", first, last,
				     bdf),
				"No guest with memory there can borrow it: look for a firmware option");
}

static void check_device_group(const struct device *dev)
{
	const char *dir = text("%s/iommu_group", dev->dir), *others;
	char *regions = read_all(text("%s/reserved_regions", dir));
	struct names all = device_group(dev);

	others = group_others(dev, &all);
	if (!path_exists(dir))
		finding(LEVEL_FAIL, "device-iommu", text("%s is in no IOMMU group", dev->bdf),
			"Turn the IOMMU on; see the check \"iommu\"");
	else if (attr_is(dir, "type", "identity"))
		finding(LEVEL_FAIL, "device-iommu",
			text("the IOMMU does not translate for %s (type identity)", dev->bdf),
			"Boot without iommu=pt, or write DMA to the type of its group");
	else
		finding(LEVEL_OK, "device-iommu", text("%s is translated", dev->bdf), NULL);
	if (*others)
		finding(LEVEL_WARN, "device-group",
			text("the IOMMU cannot tell %s from %s (no ACS between them)", dev->bdf,
			     others),
			"Lend them together (--group), to one VM; or use a slot below a port with ACS");
	else if (all.count)
		finding(LEVEL_OK, "device-group", text("%s is alone in its group", dev->bdf), NULL);
	if (regions && strstr(regions, "direct\n"))
		finding(LEVEL_FAIL, "device-rmrr",
			text("firmware reserves memory for %s or its group (RMRR)", dev->bdf),
			"Look for a firmware option that stops the firmware from using the device");
	check_device_reserved(dev->bdf, regions);
}

static void check_device_bars(const char *bdf, const char *dir)
{
	struct bar bar[BARS];
	unsigned int i;

	read_bars(dir, bar);
	for (i = 0; i < BARS; i++) {
		if (bar[i].flags & RESOURCE_IO)
			finding(LEVEL_WARN, "device-bars",
				text("BAR %u of %s has I/O ports, which guests do not get", i, bdf),
				"Most drivers do without; try it");
		else if (bar[i].flags && !bar[i].start)
			finding(LEVEL_FAIL, "device-bars",
				text("BAR %u of %s has no place in address space", i, bdf),
				"Turn on \"above 4G decoding\" in the firmware, or boot with pci=realloc");
		else if (bar[i].flags && bar[i].size < PAGE && bar[i].start % PAGE)
			finding(LEVEL_WARN, "device-bars",
				text("BAR %u of %s shares its page: guests read 0xff from it", i,
				     bdf),
				text("Boot with pci=resource_alignment=12@%s", bdf));
	}
}

void doctor_device(const char *bdf)
{
	struct device dev = { .dir = real_path(sys("bus/pci/devices/%s", bdf)) };

	snprintf(dev.bdf, sizeof(dev.bdf), "%s", bdf);
	if (!dev.dir) {
		finding(LEVEL_FAIL, "device",
			text("%s is not there", bdf), "lspci -D lists the devices");
		return;
	}
	check_device_kind(&dev);
	check_device_group(&dev);
	check_device_reset(&dev);
	check_device_bars(bdf, dev.dir);
}
