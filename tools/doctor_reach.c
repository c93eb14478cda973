// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend doctor: whether a device that is to be lent reaches the NTBs of this host.  The self-test
 * of a link cannot tell: the processor's writes take another way than the device's.
 */
#include <pci/pci.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "finding.h"

#define DEVCTL_MPS_SHIFT	5
#define MPS_UNIT		128U

/* A function, and what its way to another one depends on. */
struct place {
	char bdf[16];
	char *dir;		/* in sysfs, canonical; NULL: it is not there */
	char *bridge;		/* the host bridge that it is below, as pci0000:00 */
	long numa;		/* node, or less than 0 */
	unsigned int payload;	/* largest that it sends or takes, bytes; 0: not known */
	bool ats;		/* translates addresses by itself */
	bool no_snoop;		/* it, or its virtual functions, may bypass caches */
	unsigned int island;	/* as the kernel says; 0: nobody vouches, or it does not say */
};

/* Only root may read capabilities; without them nothing is known. */
static void read_capabilities(struct place *p)
{
	unsigned int domain, bus, dev, fn;
	struct pci_cap *cap;
	struct pci_dev *d;

	if (sscanf(p->bdf, "%x:%x:%x.%x", &domain, &bus, &dev, &fn) != 4)
		return;
	d = pci_get_dev(pci_access_once(), (int)domain, (int)bus, (int)dev, (int)fn);
	cap = pci_find_cap(d, PCI_CAP_ID_EXP, PCI_CAP_NORMAL);
	if (cap) {
		u16 control = pci_read_word(d, (int)cap->addr + PCI_EXP_DEVCTL);

		p->payload = MPS_UNIT << ((control & PCI_EXP_DEVCTL_PAYLOAD) >> DEVCTL_MPS_SHIFT);
		p->no_snoop = control & PCI_EXP_DEVCTL_NOSNOOP;
	}
	cap = pci_find_cap(d, PCI_EXT_CAP_ID_ATS, PCI_CAP_EXTENDED);
	if (cap)
		p->ats = pci_read_word(d, (int)cap->addr + PCI_ATS_CTRL) & PCI_ATS_CTRL_ENABLE;
	pci_free_dev(d);
}

/* /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0 is below pci0000:00. */
static char *host_bridge(const char *dir)
{
	const char *at = strstr(dir, "/devices/pci");

	if (!at)
		return NULL;
	at += strlen("/devices/");
	return strndup(at, strcspn(at, "/"));
}

/* "DDDD:BB NUMA PAYLOAD ISLAND": of a device that is lent, and of a link. */
static unsigned int read_island(const char *dir)
{
	unsigned int island = 0;
	char words[TEXT_MAX];

	if (sscanf(read_attr(words, dir, "root"), "%*x:%*x %*d %*u %u", &island) != 1)
		return 0;
	return island;
}

static unsigned int find_island(const struct place *p)
{
	char *lent = path("%s/dlend", p->dir);
	char *link = path("%s/class/dlend_link/%s", opt.sysfs, p->bdf);
	unsigned int island = read_island(lent);

	if (!island)
		island = read_island(link);
	free(link);
	free(lent);
	return island;
}

static struct place place_open(const char *bdf)
{
	char *link = path("%s/bus/pci/devices/%s", opt.sysfs, bdf), value[TEXT_MAX];
	struct place p = { .dir = real_path(link), .numa = -1 };

	snprintf(p.bdf, sizeof(p.bdf), "%s", bdf);
	free(link);
	if (!p.dir)
		return p;
	p.bridge = host_bridge(p.dir);
	if (*read_attr(value, p.dir, "numa_node"))
		p.numa = strtol(value, NULL, 10);
	read_capabilities(&p);
	p.island = find_island(&p);
	return p;
}

static void place_close(struct place *p)
{
	free(p->bridge);
	free(p->dir);
}

static void check_root(const struct place *dev, const struct place *ntb)
{
	if (!dev->bridge || !ntb->bridge)
		return;
	if (strcmp(dev->bridge, ntb->bridge) && dev->island && dev->island == ntb->island) {
		finding(LEVEL_OK, "device-reach",
			text("%s and the NTB %s are below two host bridges that are vouched for",
			     dev->bdf, ntb->bdf), NULL);
		return;
	}
	if (dev->numa >= 0 && ntb->numa >= 0 && dev->numa != ntb->numa)
		finding(LEVEL_WARN, "device-reach",
			text("%s is at NUMA node %ld, the NTB %s at node %ld", dev->bdf, dev->numa,
			     ntb->bdf, ntb->numa),
			"Few hosts forward a device's DMA between sockets: use a slot of the NTB's socket");
	else if (strcmp(dev->bridge, ntb->bridge))
		finding(LEVEL_WARN, "device-reach",
			text("%s is below host bridge %s, the NTB %s below %s", dev->bdf,
			     dev->bridge + 3, ntb->bdf, ntb->bridge + 3),
			"Not every host forwards a device's DMA between them: compare what it has moved");
	else
		finding(LEVEL_OK, "device-reach",
			text("%s and the NTB %s are below one host bridge", dev->bdf, ntb->bdf),
			NULL);
}

static void check_payload(const struct place *dev, const struct place *ntb)
{
	if (!dev->payload || !ntb->payload || dev->payload <= ntb->payload)
		return;
	finding(LEVEL_WARN, "device-payload",
		text("%s sends up to %u bytes in a packet, and the NTB %s takes %u", dev->bdf,
		     dev->payload, ntb->bdf, ntb->payload),
		"Longer packets may be lost: boot with pci=pcie_bus_peer2peer");
}

static void check_ats(const struct place *dev)
{
	if (!dev->ats)
		return;
	if (module_allows("dlend_lender", "allow_ats"))
		finding(LEVEL_WARN, "device-ats",
			text("%s translates addresses by itself (ATS); allow_ats trusts it",
			     dev->bdf),
			"To have the IOMMU check all it does, boot with pci=noats");
	else
		finding(LEVEL_FAIL, "device-ats",
			text("%s translates addresses by itself (ATS), and is not lent",
			     dev->bdf),
			"Boot with pci=noats; or, if you trust the device to forget translations when it is told to: echo Y > "
			ALLOW_ATS);
}

/* In a device that is lent dlend turns it off; a virtual function has no such bit of its own. */
static void check_no_snoop(const struct place *dev)
{
	char *link = path("%s/bus/pci/devices/%s/physfn", opt.sysfs, dev->bdf);
	char *pf = link_name(link);
	struct place physical = { 0 };

	if (pf)
		physical = place_open(pf);
	if (physical.no_snoop)
		finding(LEVEL_WARN, "no-snoop",
			text("%s may bypass caches (No Snoop), as its physical function %s may",
			     dev->bdf, pf),
			text("After the driver of %s was bound: setpci -s %s CAP_EXP+8.w=0:800",
			     pf, pf));
	place_close(&physical);
	free(pf);
	free(link);
}

static void check_place(const struct place *dev, const struct place *ntb, size_t ntbs)
{
	for (size_t i = 0; i < ntbs; i++) {
		check_root(dev, &ntb[i]);
		check_payload(dev, &ntb[i]);
	}
	check_ats(dev);
	check_no_snoop(dev);
}

void doctor_reach(const struct names *devices)
{
	char *bus = path("%s/bus/ntb/devices", opt.sysfs);
	struct names ntbs = list_dir(bus);
	struct place *ntb = calloc(ntbs.count + 1, sizeof(*ntb));

	if (!ntb)
		abort();
	for (size_t i = 0; i < ntbs.count; i++)
		ntb[i] = place_open(ntbs.name[i]);
	for (size_t i = 0; i < devices->count; i++) {
		struct place dev = place_open(devices->name[i]);

		check_place(&dev, ntb, ntbs.count);
		place_close(&dev);
	}
	for (size_t i = 0; i < ntbs.count; i++)
		place_close(&ntb[i]);
	free(ntb);
	names_free(&ntbs);
	free(bus);
}
