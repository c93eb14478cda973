/* SPDX-License-Identifier: GPL-2.0-only */
/* What a guest has already, before libvirt-xml adds lent devices to it, and where those go. */
#ifndef DLEND_TOOL_GUEST_H
#define DLEND_TOOL_GUEST_H

#include "fabric.h"

#define HOST_NODES	1024	/* NUMA nodes of a host, as in the kernel */

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
 */
struct guest {
	struct names uuid, hostdev, any;
	unsigned int last, slots, all, ports;
	bool io;
	int cell[HOST_NODES];
};

/** guest_new - nothing is known of it but that @slots on its root bus are taken */
struct guest guest_new(unsigned int slots);
/**
 * guest_read - what the domain @xml holds, but for its lent devices' places
 *
 * Exits with a message if @xml is no domain, or has a DOCTYPE, or a machine into which lent
 * devices do not fit.
 */
struct guest guest_read(const char *xml, const struct fabric *f);
/** guest_ask_virsh - XML of @domain, to be freed; exits with a message if virsh fails */
char *guest_ask_virsh(const char *domain);

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
