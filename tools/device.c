// SPDX-License-Identifier: GPL-2.0-only
/* A PCI function of this host, and its driver.  Knows nothing of offers or leases. */
#include <ctype.h>
#include <errno.h>
#include <pci/pci.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dlend.h"

#define SETTLE_MS	2000	/* bind and unbind are synchronous; this is for odd drivers */
#define PROBE_MS	500	/* for a driver that probes asynchronously to show up */
#define PATIENCE_S	120	/* a reset, or a dead disk, may take a minute */
#define LENDER		"bus/pci/drivers/" DLEND_DRIVER

bool bdf_parse(char bdf[16], const char *s)
{
	unsigned int domain = 0, bus, slot, function;
	int used = 0;

	/* sscanf takes blanks and signs that an address does not have */
	for (const char *c = s; *c; c++)
		if (!isxdigit((unsigned char)*c) && *c != ':' && *c != '.')
			return false;
	if (sscanf(s, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) != 4) {
		domain = 0;
		if (sscanf(s, "%2x:%2x.%1x%n", &bus, &slot, &function, &used) != 3)
			return false;
	}
	if (s[used] || domain > 0xfffff || slot > 0x1f || function > 7)
		return false;
	snprintf(bdf, 16, "%04x:%02x:%02x.%x", domain, bus, slot, function);
	return true;
}

void check_bdf(const char *s)
{
	char bdf[16];

	if (!bdf_parse(bdf, s))
		fail(EXIT_USAGE, text("\"%s\" is no PCI address", s), NULL,
		     "Give bus:device.function as lspci prints it, for example 3b:00.0.");
}

bool is_bridge(const char *dir)
{
	return !strncmp(attr(dir, "class"), "0x06", 4);
}

/* If @bdf is the fabric-wide name of a device of this host, replaces it by the local address. */
static void own_offer_to_bdf(char bdf[16])
{
	struct names lent = list_dir(sys(LENDER));

	for (size_t i = 0; i < lent.count; i++)
		if (attr_is(names_path(&lent, i), "dlend/fabric_name", bdf) &&
		    strlen(lent.name[i]) < 16) {
			strcpy(bdf, lent.name[i]);
			return;
		}
}

struct device device_open(const char *s)
{
	struct device dev;

	check_bdf(s);
	bdf_parse(dev.bdf, s);
	if (!path_exists(sys("bus/pci/devices/%s", dev.bdf)))
		own_offer_to_bdf(dev.bdf);
	dev.dir = real_path(sys("bus/pci/devices/%s", dev.bdf));
	if (!dev.dir)
		fail(EXIT_NOT_FOUND, text("%s: no such device", dev.bdf),
		     "no PCI device of this host has that address",
		     "`lspci -D` lists the devices; a device of another node must be lent on that node.");
	return dev;
}

const char *device_driver(const struct device *dev)
{
	return link_name(dev->dir, "driver");
}

/* @driver: NULL: has it none?  "*": any? */
static bool has_driver(const struct device *dev, const char *driver)
{
	const char *now = device_driver(dev);

	return !driver ? !now : now && (!strcmp(driver, "*") || !strcmp(now, driver));
}

bool device_lent(const struct device *dev)
{
	return has_driver(dev, DLEND_DRIVER);
}

bool device_preparing(const struct device *dev)
{
	return attr_is(dev->dir, "dlend/state", "preparing");
}

bool override_own(const char *override)
{
	return !strcmp(override, DLEND_DRIVER) || !strcmp(override, CLAIM_OVERRIDE);
}

bool device_left(const struct device *dev)
{
	return has_driver(dev, NULL) && override_own(attr(dev->dir, "driver_override"));
}

struct names device_group(const struct device *dev)
{
	struct names all = list_dir(text("%s/iommu_group/devices", dev->dir)), group = { 0 };

	for (size_t i = 0; i < all.count; i++)
		/* The kernel does not count bridges either: their driver does no DMA. */
		if (strncmp(attr(names_path(&all, i), "class"), "0x0604", 6))
			names_add(&group, all.name[i]);
	return group;
}

const char *group_others(const struct device *dev, const struct names *group)
{
	const char *others = "";

	for (size_t i = 0; i < group->count; i++)
		if (strcmp(group->name[i], dev->bdf))
			others = join(others, group->name[i]);
	return others;
}

/* Waits until has_driver(). */
static int wait_for_driver(const struct device *dev, const char *driver, int most_ms)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };

	for (int ms = 0; ms < most_ms; ms += 10) {
		if (has_driver(dev, driver))
			return 0;
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

int driver_patience(void)
{
	const char *chosen = getenv("DLEND_PATIENCE");
	int seconds = chosen ? atoi(chosen) : 0;

	return seconds > 0 ? seconds : PATIENCE_S;
}

const char *patience_over(void)
{
	return text("that is not over after %d s; the driver may wait for a user of the device",
		    driver_patience());
}

/*
 * A driver that is to let go of a device may wait without end.  Until it has, all that changes who
 * drives the device waits, too.
 */
static int change_driver(const struct device *dev, const char *file, const char *word)
{
	const char *driver = device_driver(dev);

	return write_and_wait(file, word, text("%s: waiting for %s", dev->bdf, driver ?
					       text("its driver %s", driver) : "the kernel"),
			      driver_patience());
}

int device_bind_lender(const struct device *dev)
{
	char *prepare = sys(LENDER "/lend_prepare");
	/* An older dlend_lender can do no other than offer it at once. */
	int err = change_driver(dev, path_exists(prepare) ? prepare : sys(LENDER "/bind"),
				dev->bdf);

	return err ? err : wait_for_driver(dev, DLEND_DRIVER, SETTLE_MS);
}

int device_unbind(const struct device *dev)
{
	const char *driver = device_driver(dev);
	int err;

	if (!driver)
		return 0;
	err = change_driver(dev, sys("bus/pci/drivers/%s/unbind", driver), dev->bdf);
	return err ? err : wait_for_driver(dev, NULL, SETTLE_MS);
}

int device_override(const struct device *dev, const char *driver)
{
	return change_driver(dev, text("%s/driver_override", dev->dir), text("%s\n", driver));
}

void device_await_driver(const struct device *dev)
{
	wait_for_driver(dev, "*", PROBE_MS);
}

int device_probe(const struct device *dev)
{
	int err = change_driver(dev, sys("bus/pci/drivers_probe"), dev->bdf);

	if (!err)
		device_await_driver(dev);
	return err;
}

/* libpci: names of vendors and devices, from the list that lspci uses, and configuration space. */

static void print_nothing(char *fmt, ...)
{
	(void)fmt;
}

static struct pci_access *pci_access_once(void)
{
	static struct pci_access *acc;

	if (!acc) {
		acc = pci_alloc();
		/* So that pci_init() does not look for a method, and exit where there is none. */
		acc->method = PCI_ACCESS_SYS_BUS_PCI;
		pci_set_param(acc, "sysfs.path", sys("bus/pci"));
		acc->debug = print_nothing;
		acc->warning = print_nothing;
		pci_init(acc);
	}
	return acc;
}

const char *pci_vendor_name(unsigned int vendor)
{
	static char name[TEXT_MAX];

	return pci_lookup_name(pci_access_once(), name, sizeof(name), PCI_LOOKUP_VENDOR, vendor);
}

const char *pci_device_name(unsigned int vendor, unsigned int device)
{
	static char name[TEXT_MAX];

	return pci_lookup_name(pci_access_once(), name, sizeof(name), PCI_LOOKUP_DEVICE, vendor,
			       device);
}

int capability_word(const char *bdf, unsigned int id, unsigned int kind, unsigned int at)
{
	unsigned int domain, bus, slot, function;
	struct pci_cap *cap;
	struct pci_dev *d;
	int word = -1;

	if (sscanf(bdf, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return -1;
	d = pci_get_dev(pci_access_once(), (int)domain, (int)bus, (int)slot, (int)function);
	cap = pci_find_cap(d, id, kind);
	if (cap)
		word = pci_read_word(d, (int)(cap->addr + at));
	pci_free_dev(d);
	return word;
}
