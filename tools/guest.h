/* SPDX-License-Identifier: GPL-2.0-only */
/* What a guest has already, before libvirt-xml adds lent devices to it, and where those go. */
#ifndef DLEND_TOOL_GUEST_H
#define DLEND_TOOL_GUEST_H

#include "fabric.h"

#define HOST_NODES	1024	/* NUMA nodes of a host, as in the kernel */

#define GUEST_BUSES	256

/**
 * struct seat - where libvirt has put something in a guest's PCI tree
 * @what: UUID of a mediated device, or address here of a device of this host; "": anything else
 * @controller: index of a PCI controller, on whose bus others sit; or -1
 * @fixed: the number of that bus, of an expander bus; or -1
 * @bus: index of the controller that it sits on; < 0: libvirt has not said
 */
struct seat {
	const char *what;
	int controller, fixed, bus;
	unsigned int slot, function;
};

/**
 * struct guest - what there is already
 * @uuid: of its mediated devices
 * @hostdev: of each the element that it has now, without its place and its end
 * @any: types of which it gets any device that is free when it starts
 * @last: highest index of a PCI controller, which is its bus
 * @slots: taken on the root bus; @all: in the whole tree
 * @ports: PCIe ports that something can be plugged into
 * @io: it may have I/O BARs behind ports: a host's device that is not ours
 * @cell: by NUMA node of the host, which cell of the guest has its memory there; -1: none
 * @seat: of all that a domain has
 */
struct guest {
	struct names uuid, hostdev, any;
	unsigned int last, slots, all, ports;
	bool io;
	int cell[HOST_NODES];
	size_t seats;
	struct seat *seat;
};

/** guest_new - nothing is known of it but that @slots on its root bus are taken */
struct guest guest_new(unsigned int slots);
/**
 * guest_read - what the domain @xml holds, but for its lent devices' places
 *
 * @add: mediated devices are to be added
 *
 * Exits with a message if @xml is no domain, or has a DOCTYPE; with @add, if it has a machine into
 * which mediated devices do not fit.
 */
struct guest guest_read(const char *xml, const struct fabric *f, bool add);
/** guest_xml - of @domain, or (it is "-") of standard input; exits with a message if it fails */
char *guest_xml(const char *domain);
/** guest_cell - which has its memory on NUMA node @numa of this host (< 0: not known), or -1 */
int guest_cell(const struct guest *g, int numa);
/**
 * guest_address - the PCI address of @what (as in struct seat) in a guest, as firmware and kernels
 * number buses: each bridge the next one, in the order of the tree
 *
 * Return: NULL: the domain has no such device; "": it does not say where
 */
const char *guest_address(const struct guest *g, const char *what);

enum plan_mode {
	PLAN_SWITCH_PORT,	/* what belongs together is below one switch */
	PLAN_ROOT_PORT,		/* each at a root port of its own */
	PLAN_BRIDGE		/* on buses of conventional PCI */
};

/**
 * struct branch - the devices of one root port: at it, or below a switch or a bridge
 * @cell: of the guest, whose expander bus the root port is on; -1: it is on the root bus
 */
struct branch {
	size_t count;
	const struct lent **device;
	int cell;
};

/**
 * struct plan - where lent devices go
 * @guest: whose devices they are
 * @controllers: to be added; @ports: of these, those that something can be plugged into
 * @devices: in all branches
 * @slots: on the root bus
 */
struct plan {
	const struct guest *guest;
	enum plan_mode mode;
	size_t count, cells;
	struct branch *branch;
	int *cell;		/* in the order of their expander buses */
	unsigned int controllers, ports, devices, slots;
};

/* guestplan.c */
/**
 * plan_make - for all mediated devices of @g; exits with a message if one is not there
 *
 * Of those that are chosen when it starts nothing is known: they have no address, and a new UUID.
 *
 * @numa: put a device on the expander bus of the cell whose memory is where it comes in
 */
struct plan plan_make(const struct fabric *f, const struct guest *g, enum plan_mode mode,
		      bool numa);
/** plan_check - exits with a message, and numbers, if the machine cannot hold @p besides @g */
void plan_check(const struct guest *g, const struct plan *p);

#endif
