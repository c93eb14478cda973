// SPDX-License-Identifier: GPL-2.0-only
/* A PCI function of this host, and its driver.  Knows nothing of offers or leases. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dlend.h"

#define SETTLE_MS	2000	/* bind and unbind are synchronous; this is for odd drivers */
#define PROBE_MS	500	/* for a driver that probes asynchronously to show up */
#define PATIENCE_S	120	/* a reset, or a dead disk, may take a minute */

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

/* If @bdf is the fabric-wide name of a device of this host, replaces it by the local address. */
static bool own_offer_to_bdf(char bdf[16])
{
	char *drivers = path("%s/bus/pci/drivers/" DLEND_DRIVER, opt.sysfs);
	struct names lent = list_dir(drivers);
	char name[TEXT_MAX];
	bool found = false;

	for (size_t i = 0; i < lent.count && !found; i++) {
		char *dir = path("%s/%s/dlend", drivers, lent.name[i]);

		read_attr(name, dir, "fabric_name");
		found = !strcmp(name, bdf) && strlen(lent.name[i]) < 16;
		if (found)
			strcpy(bdf, lent.name[i]);
		free(dir);
	}
	names_free(&lent);
	free(drivers);
	return found;
}

void refuse_bdf(const char *s)
{
	fail(EXIT_USAGE, text("\"%s\" is no PCI address", s), NULL,
	     "Give bus:device.function as lspci prints it, for example 3b:00.0.");
}

struct device device_open(const char *s)
{
	struct device dev;
	char *p;

	if (!bdf_parse(dev.bdf, s))
		refuse_bdf(s);
	p = path("%s/bus/pci/devices/%s", opt.sysfs, dev.bdf);
	if (!path_exists(p) && own_offer_to_bdf(dev.bdf)) {
		free(p);
		p = path("%s/bus/pci/devices/%s", opt.sysfs, dev.bdf);
	}
	dev.dir = real_path(p);
	if (!dev.dir)
		fail(EXIT_NOT_FOUND, text("%s: no such device", dev.bdf),
		     "no PCI device of this host has that address",
		     "See `lspci -D` for what there is; a device of another node is lent there.");
	free(p);
	return dev;
}

void device_close(struct device *dev)
{
	free(dev->dir);
	dev->dir = NULL;
}

char *device_driver(const struct device *dev)
{
	char *p = path("%s/driver", dev->dir);
	char *name = link_name(p);

	free(p);
	return name;
}

bool device_lent(const struct device *dev)
{
	char *driver = device_driver(dev);
	bool lent = driver && !strcmp(driver, DLEND_DRIVER);

	free(driver);
	return lent;
}

bool device_preparing(const struct device *dev)
{
	char *dir = path("%s/dlend", dev->dir), state[TEXT_MAX];
	bool preparing = !strcmp(read_attr(state, dir, "state"), "preparing");

	free(dir);
	return preparing;
}

bool override_own(const char *override)
{
	return !strcmp(override, DLEND_DRIVER) || !strcmp(override, CLAIM_OVERRIDE);
}

bool device_left(const struct device *dev)
{
	char *driver = device_driver(dev), override[TEXT_MAX];
	bool left = !driver && override_own(read_attr(override, dev->dir, "driver_override"));

	free(driver);
	return left;
}

struct names device_group(const struct device *dev)
{
	char *dir = path("%s/iommu_group/devices", dev->dir);
	struct names all = list_dir(dir), group = { 0 };
	char class[TEXT_MAX];

	for (size_t i = 0; i < all.count; i++) {
		char *member = path("%s/%s", dir, all.name[i]);

		/* The kernel does not count bridges either: their driver does no DMA. */
		if (strncmp(read_attr(class, member, "class"), "0x0604", 6))
			names_add(&group, all.name[i]);
		free(member);
	}
	names_free(&all);
	free(dir);
	return group;
}

static bool has_driver(const struct device *dev, const char *driver)
{
	char *now = device_driver(dev);
	bool has = !driver ? !now : now && (!strcmp(driver, "*") || !strcmp(now, driver));

	free(now);
	return has;
}

/* Waits until @driver has the device.  NULL: until no driver has it; "*": until any has. */
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
	return text("that is not over after %d s; maybe it waits for who uses the device",
		    driver_patience());
}

/*
 * A driver that is to let go of a device may wait without end.  Until it has, all that changes who
 * drives the device waits, too.
 */
static int change_driver(const struct device *dev, const char *file, const char *word)
{
	char *driver = device_driver(dev);
	const char *name = driver ? text("its driver %s", driver) : "the kernel";

	free(driver);
	return write_and_wait(file, word, text("%s: waiting for %s", dev->bdf, name),
			      driver_patience());
}

int device_bind_lender(const struct device *dev)
{
	char *bind = path("%s/bus/pci/drivers/" DLEND_DRIVER "/bind", opt.sysfs);
	char *prepare = path("%s/bus/pci/drivers/" DLEND_DRIVER "/lend_prepare", opt.sysfs);
	/* An older dlend_lender can do no other than offer it at once. */
	int err = change_driver(dev, path_exists(prepare) ? prepare : bind, dev->bdf);

	free(prepare);
	free(bind);
	return err ? err : wait_for_driver(dev, DLEND_DRIVER, SETTLE_MS);
}

int device_unbind(const struct device *dev)
{
	char *driver = device_driver(dev);
	char *p;
	int err;

	if (!driver)
		return 0;
	p = path("%s/bus/pci/drivers/%s/unbind", opt.sysfs, driver);
	err = change_driver(dev, p, dev->bdf);
	free(p);
	free(driver);
	return err ? err : wait_for_driver(dev, NULL, SETTLE_MS);
}

int device_override(const struct device *dev, const char *driver)
{
	char *p = path("%s/driver_override", dev->dir);
	const char *line = text("%s\n", driver);
	int err = change_driver(dev, p, line);

	free(p);
	return err;
}

void device_await_driver(const struct device *dev)
{
	wait_for_driver(dev, "*", PROBE_MS);
}

int device_probe(const struct device *dev)
{
	char *p = path("%s/bus/pci/drivers_probe", opt.sysfs);
	int err = change_driver(dev, p, dev->bdf);

	free(p);
	if (!err)
		device_await_driver(dev);
	return err;
}
