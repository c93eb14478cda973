/* SPDX-License-Identifier: GPL-2.0-only */
/* What a guest has already, before libvirt-xml adds lent devices to it. */
#ifndef DLEND_TOOL_GUEST_H
#define DLEND_TOOL_GUEST_H

#include "fabric.h"

/**
 * struct guest - what there is already
 * @uuid: of its mediated devices
 * @last: highest index of a PCI controller, which is its bus
 * @slots: taken on the root bus; @all: in the whole tree
 * @ports: PCIe ports that something can be plugged into
 * @io: it may have I/O BARs behind ports: a host's device that is not ours
 */
struct guest {
	struct names uuid;
	unsigned int last, slots, all, ports;
	bool io;
};

/**
 * guest_read - what the domain @xml holds, but for its lent devices' places
 *
 * Exits with a message if @xml is no domain, has a DOCTYPE, or names no mediated device of @f.
 */
struct guest guest_read(const char *xml, const struct fabric *f);
/** guest_ask_virsh - XML of @domain, to be freed; exits with a message if virsh fails */
char *guest_ask_virsh(const char *domain);

#endif
