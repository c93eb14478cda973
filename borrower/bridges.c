// SPDX-License-Identifier: GPL-2.0
/*
 * Where things on other nodes sit, as those nodes have told: offered devices (kept in the offers),
 * and the NTBs at the ends of links (kept here).  Cliques depend on where they join their host's
 * root complex; the bridges above them are for people only.
 */
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/numa.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include "bridges.h"

#define DLEND_BRIDGE_ENDS_MAX	DLEND_PEERS_MAX		/* of a peer: it must not fill memory */
#define DLEND_BRIDGE_LINE_MAX	256			/* bytes of a line in sysfs */

/**
 * struct dlend_bridge_end - an NTB at the end of a link between two other nodes
 * @node: among all
 * @link: over which its node told of it
 * @addr: the NTB
 * @to: the node that it leads to
 * @place: where it is
 */
struct dlend_bridge_end {
	struct list_head node;
	struct dlend_link *link;
	struct dlend_addr addr;
	u16 to;
	struct dlend_p_place place;
};

static DEFINE_MUTEX(dlend_bridge_ends_lock);
static LIST_HEAD(dlend_bridge_ends);

static int dlend_bridge_emit_bdf(char *buf, int at, u32 domain, u16 bdf)
{
	return sysfs_emit_at(buf, at, "%04x:%02x:%02x.%x", domain, bdf >> 8, (bdf >> 3) & 0x1f,
			     bdf & 7);
}

int dlend_bridges_emit(char *buf, int at, const struct dlend_p_place *place)
{
	static const char * const kind[DLEND_BRIDGE_KINDS] = {
		[DLEND_BRIDGE_ROOT] = "root",
		[DLEND_BRIDGE_UP] = "up",
		[DLEND_BRIDGE_DOWN] = "down",
		[DLEND_BRIDGE_PCI] = "pci",
	};
	int from = at;
	unsigned int i;

	for (i = 0; i < place->count; i++) {
		const struct dlend_p_bridge *b = &place->bridge[i];

		at += sysfs_emit_at(buf, at, "%s", i ? " " : "");
		at += dlend_bridge_emit_bdf(buf, at, le32_to_cpu(place->domain),
					    le16_to_cpu(b->bdf));
		at += sysfs_emit_at(buf, at, ",%s%s", kind[b->kind],
				    b->flags & DLEND_BRIDGE_F_ACS ? ",acs" : "");
	}
	return at - from;
}

int dlend_place_emit_root(char *buf, int at, const struct dlend_p_place *place)
{
	u16 numa = le16_to_cpu(place->numa);
	const struct dlend_root root = {
		.domain = le32_to_cpu(place->root_domain),
		.bus = place->bus,
		.numa = numa == DLEND_ROOT_NO_NUMA ? NUMA_NO_NODE : numa,
		.payload = le16_to_cpu(place->payload),
		.island = le16_to_cpu(place->island),
	};

	return dlend_root_emit(buf, at, &root);
}

ssize_t dlend_bridge_ends_emit(char *buf)
{
	struct dlend_bridge_end *end;
	int at = 0;

	guard(mutex)(&dlend_bridge_ends_lock);
	list_for_each_entry(end, &dlend_bridge_ends, node) {
		/* Whole lines only. */
		if (at > PAGE_SIZE - DLEND_BRIDGE_LINE_MAX)
			break;
		at += sysfs_emit_at(buf, at, "%u %u ", end->addr.lender, end->to);
		at += dlend_bridge_emit_bdf(buf, at, le32_to_cpu(end->place.domain), end->addr.bdf);
		at += sysfs_emit_at(buf, at, " ");
		at += dlend_bridges_emit(buf, at, &end->place);
		at += sysfs_emit_at(buf, at, "\n");
	}
	return at;
}

ssize_t dlend_bridge_ends_emit_roots(char *buf)
{
	struct dlend_bridge_end *end;
	int at = 0;

	guard(mutex)(&dlend_bridge_ends_lock);
	list_for_each_entry(end, &dlend_bridge_ends, node) {
		/* Whole lines only. */
		if (at > PAGE_SIZE - DLEND_BRIDGE_LINE_MAX)
			break;
		at += sysfs_emit_at(buf, at, "%u %u ", end->addr.lender, end->to);
		at += dlend_place_emit_root(buf, at, &end->place);
		at += sysfs_emit_at(buf, at, "\n");
	}
	return at;
}

unsigned int dlend_bridge_ends_islands(struct dlend_p2p_end *ends, unsigned int max)
{
	const struct dlend_bridge_end *end;
	unsigned int n = 0;

	guard(mutex)(&dlend_bridge_ends_lock);
	list_for_each_entry(end, &dlend_bridge_ends, node) {
		if (n == max)
			break;
		ends[n++] = (struct dlend_p2p_end){
			.at = end->addr.lender, .to = end->to,
			.island = le16_to_cpu(end->place.island),
		};
	}
	return n;
}

/* The entry of the NTB to @to of which was told over @link, or a new one while there is room. */
static struct dlend_bridge_end *dlend_bridge_end_for(struct dlend_link *link, u16 to)
{
	struct dlend_bridge_end *end;
	unsigned int n = 0;

	lockdep_assert_held(&dlend_bridge_ends_lock);
	list_for_each_entry(end, &dlend_bridge_ends, node) {
		if (end->link != link)
			continue;
		if (end->to == to)
			return end;
		n++;
	}
	if (n == DLEND_BRIDGE_ENDS_MAX)
		return NULL;
	end = kzalloc_obj(*end);
	if (!end)
		return NULL;
	end->link = dlend_link_get(link);
	end->to = to;
	list_add_tail(&end->node, &dlend_bridge_ends);
	return end;
}

void dlend_bridge_end_note(struct dlend_link *link, const struct dlend_addr *addr,
			   const struct dlend_p_place *place)
{
	struct dlend_bridge_end *end;

	guard(mutex)(&dlend_bridge_ends_lock);
	end = dlend_bridge_end_for(link, le16_to_cpu(place->node));
	if (!end)
		return;
	end->addr = *addr;
	end->place = *place;
}

void dlend_bridge_ends_forget(struct dlend_link *link)
{
	struct dlend_bridge_end *end, *next;

	guard(mutex)(&dlend_bridge_ends_lock);
	list_for_each_entry_safe(end, next, &dlend_bridge_ends, node) {
		if (end->link != link)
			continue;
		list_del(&end->node);
		dlend_link_put(end->link);
		kfree(end);
	}
}
