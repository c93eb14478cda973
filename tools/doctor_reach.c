// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend doctor: whether a device that is to be lent reaches the NTBs of this host.  The self-test
 * of a link cannot tell: the processor's writes take another way than the device's.  And what other
 * nodes tell of their devices and NTBs, and what that means for transfers to this host.
 */
#include <pci/pci.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "fabric.h"

#define DEVCTL_MPS_SHIFT	5
#define MPS_UNIT		128U

/* A function, and what its way to another one depends on. */
struct function {
	char bdf[16];
	char *dir;		/* in sysfs, canonical; NULL: it is not there */
	char *bridge;		/* the host bridge that it is below, as pci0000:00 */
	long numa;		/* node, or less than 0 */
	unsigned int payload;	/* largest that it sends or takes, bytes; 0: not known */
	bool ats;		/* translates addresses by itself */
	bool no_snoop;		/* it, or its virtual functions, may bypass caches */
	unsigned int p2p_domain;	/* of the kernel; 0: not allowed, or not known */
};

/* Only root may read capabilities; without them nothing is known. */
static void read_capabilities(struct function *p)
{
	int control = capability_word(p->bdf, PCI_CAP_ID_EXP, PCI_CAP_NORMAL, PCI_EXP_DEVCTL);
	int ats = capability_word(p->bdf, PCI_EXT_CAP_ID_ATS, PCI_CAP_EXTENDED, PCI_ATS_CTRL);

	if (control >= 0) {
		p->payload = MPS_UNIT << ((control & PCI_EXP_DEVCTL_PAYLOAD) >> DEVCTL_MPS_SHIFT);
		p->no_snoop = control & PCI_EXP_DEVCTL_NOSNOOP;
	}
	p->ats = ats >= 0 && (ats & PCI_ATS_CTRL_ENABLE);
}

/* /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0 is below pci0000:00. */
static char *host_bridge(const char *dir)
{
	const char *at = strstr(dir, "/devices/pci");

	if (!at)
		return NULL;
	at += strlen("/devices/");
	return text("%.*s", (int)strcspn(at, "/"), at);
}

static struct function function_open(const char *bdf)
{
	struct function p = { .dir = real_path(sys("bus/pci/devices/%s", bdf)), .numa = -1 };

	snprintf(p.bdf, sizeof(p.bdf), "%s", bdf);
	if (!p.dir)
		return p;
	p.bridge = host_bridge(p.dir);
	if (*attr(p.dir, "numa_node"))
		p.numa = strtol(attr(p.dir, "numa_node"), NULL, 10);
	read_capabilities(&p);
	/* Of a device that is lent, and of a link */
	p.p2p_domain = root_attr(text("%s/dlend", p.dir)).p2p_domain;
	if (!p.p2p_domain)
		p.p2p_domain = root_attr(sys("class/dlend_link/%s", bdf)).p2p_domain;
	return p;
}

static void check_root(const struct function *dev, const struct function *ntb)
{
	if (!dev->bridge || !ntb->bridge)
		return;
	if (strcmp(dev->bridge, ntb->bridge) && dev->p2p_domain &&
	    dev->p2p_domain == ntb->p2p_domain) {
		finding(LEVEL_OK, "device-reach",
			text("%s and the NTB %s: two host bridges, peer-to-peer is allowed",
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
			"Not every host forwards a device's DMA between them: check the data that it has transferred");
	else
		finding(LEVEL_OK, "device-reach",
			text("%s and the NTB %s are below one host bridge", dev->bdf, ntb->bdf),
			NULL);
}

static void check_payload(const struct function *dev, const struct function *ntb)
{
	if (ntb->payload && dev->payload > ntb->payload)
		finding(LEVEL_WARN, "device-payload",
			text("%s sends up to %u bytes in a packet, and the NTB %s takes %u",
			     dev->bdf, dev->payload, ntb->bdf, ntb->payload),
			"Longer packets may be lost: boot with pci=pcie_bus_peer2peer");
}

static void check_ats(const struct function *dev)
{
	if (!dev->ats)
		return;
	if (module_allows("dlend_lender", "allow_ats"))
		finding(LEVEL_WARN, "device-ats",
			text("%s translates addresses by itself (ATS); allow_ats trusts it",
			     dev->bdf),
			"If the IOMMU is to check all its DMA, boot with pci=noats");
	else
		finding(LEVEL_FAIL, "device-ats",
			text("%s translates addresses by itself (ATS), and is not lent",
			     dev->bdf),
			"Boot with pci=noats; or, if you trust the device to forget translations when it is told to: echo Y > "
			ALLOW_ATS);
}

/* In a device that is lent dlend turns it off; a virtual function has no such bit of its own. */
static void check_no_snoop(const struct function *dev)
{
	const char *pf = link_name(sys("bus/pci/devices/%s", dev->bdf), "physfn");

	if (pf && function_open(pf).no_snoop)
		finding(LEVEL_WARN, "no-snoop",
			text("%s may bypass caches (No Snoop), as its physical function %s may",
			     dev->bdf, pf),
			text("After the driver of %s was bound: setpci -s %s CAP_EXP+8.w=0:800",
			     pf, pf));
}

void doctor_reach(const struct names *devices)
{
	struct names ntbs = list_dir(sys("bus/ntb/devices"));

	for (size_t i = 0; i < devices->count; i++) {
		struct function dev = function_open(devices->name[i]);

		for (size_t k = 0; k < ntbs.count; k++) {
			struct function ntb = function_open(ntbs.name[k]);

			check_root(&dev, &ntb);
			check_payload(&dev, &ntb);
		}
		check_ats(&dev);
		check_no_snoop(&dev);
	}
}

static void check_told_device(const struct lent *d, const struct edge *e)
{
	if (!d->root.known || !e->root.known)
		return;
	if (d->root.payload && e->root.payload && d->root.payload > e->root.payload)
		finding(LEVEL_WARN, "device-payload",
			text("%s sends up to %u bytes in a packet, and its node's NTB takes %u",
			     d->address, d->root.payload, e->root.payload),
			"Longer packets may be lost: boot that node with pci=pcie_bus_peer2peer");
	if (!root_same(&d->root, &e->root) &&
	    (!d->root.p2p_domain || d->root.p2p_domain != e->root.p2p_domain))
		finding(LEVEL_WARN, "device-reach",
			text("%s is below host bridge %s of node %u, its NTB to here below %s",
			     d->address, d->root.bridge, e->from, e->root.bridge),
			"Not every host forwards a device's DMA between them: check the data that it has transferred");
}

/* @bytes: that its other end sends; 0: not known */
static void check_link_ends(const struct edge *e, unsigned int bytes)
{
	const unsigned int here = e->root.payload;

	if (here && bytes > here)
		finding(LEVEL_WARN, "link-payload",
			text("node %u sends up to %u bytes in a packet over link %s, %s %u",
			     e->to, bytes, e->name, "and this end takes", here),
			"Longer packets may be lost: boot both hosts with pci=pcie_bus_peer2peer");
}

void doctor_fabric(void)
{
	struct fabric f = fabric_load();

	for (size_t i = 0; i < f.edges; i++) {
		const struct edge *e = &f.edge[i];

		if (!e->up)
			continue;
		if (e->from == f.me && fabric_edge(&f, e->to, f.me))
			check_link_ends(e, fabric_edge(&f, e->to, f.me)->root.payload);
		for (size_t k = 0; e->to == f.me && k < f.devices; k++)
			if (f.device[k].lender == e->from)
				check_told_device(&f.device[k], e);
	}
}
