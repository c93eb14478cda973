// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend doctor: what other nodes tell of their devices and NTBs, and what that means for transfers
 * to this host.  What this host can see for itself is doctor_reach.c's.
 */
#include "doctor.h"
#include "fabric.h"
#include "finding.h"

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
	    (!d->root.island || d->root.island != e->root.island))
		finding(LEVEL_WARN, "device-reach",
			text("%s is below host bridge %s of node %u, its NTB to here below %s",
			     d->address, d->root.bridge, e->from, e->root.bridge),
			"Not every host forwards a device's DMA between them: compare what it has moved");
}

static void check_link_ends(const struct edge *here, const struct edge *there)
{
	if (!here->root.payload || !there->root.payload ||
	    there->root.payload <= here->root.payload)
		return;
	finding(LEVEL_WARN, "link-payload",
		text("node %u sends up to %u bytes in a packet over link %s, and this end takes %u",
		     there->from, there->root.payload, here->name, here->root.payload),
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
			check_link_ends(e, fabric_edge(&f, e->to, f.me));
		for (size_t k = 0; e->to == f.me && k < f.devices; k++)
			if (f.device[k].lender == e->from)
				check_told_device(&f.device[k], e);
	}
}
