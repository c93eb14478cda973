// SPDX-License-Identifier: GPL-2.0
/*
 * Where things sit on other nodes, as their lenders told: bridges above devices (kept in the
 * offers) and above the ends of links (kept here).  For people only: nothing is decided by it.
 */
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include "vdev.h"

#define DLEND_MAX_ENDS	DLEND_PEERS_PER_MSG	/* of one peer: it shall not fill memory */
#define DLEND_LINE_MAX	256

/* An NTB of @addr.lender that leads to @node, told over @link. */
struct dlend_end {
	struct list_head node;
	struct dlend_link *link;
	struct dlend_addr addr;
	struct dlend_p_place place;
};

static DEFINE_MUTEX(dlend_ends_lock);
static LIST_HEAD(dlend_ends);

static int dlend_emit_bdf(char *buf, int at, u32 domain, u16 bdf)
{
	return sysfs_emit_at(buf, at, "%04x:%02x:%02x.%x", domain, bdf >> 8, (bdf >> 3) & 0x1f,
			     bdf & 7);
}

int dlend_place_emit(char *buf, int at, const struct dlend_p_place *place)
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
		at += dlend_emit_bdf(buf, at, le32_to_cpu(place->domain), le16_to_cpu(b->bdf));
		at += sysfs_emit_at(buf, at, ",%s%s", kind[b->kind],
				    b->flags & DLEND_BRIDGE_F_ACS ? ",acs" : "");
	}
	return at - from;
}

ssize_t dlend_place_emit_ends(char *buf)
{
	struct dlend_end *end;
	int at = 0;

	guard(mutex)(&dlend_ends_lock);
	list_for_each_entry(end, &dlend_ends, node) {
		/* Whole lines only. */
		if (at > PAGE_SIZE - DLEND_LINE_MAX)
			break;
		at += sysfs_emit_at(buf, at, "%u %u ", end->addr.lender,
				    le16_to_cpu(end->place.node));
		at += dlend_emit_bdf(buf, at, le32_to_cpu(end->place.domain), end->addr.bdf);
		at += sysfs_emit_at(buf, at, " ");
		at += dlend_place_emit(buf, at, &end->place);
		at += sysfs_emit_at(buf, at, "\n");
	}
	return at;
}

/* The one that is told anew, or a new one while there is room for it. */
static struct dlend_end *dlend_end_for(struct dlend_link *link, __le16 node)
{
	struct dlend_end *end;
	unsigned int n = 0;

	lockdep_assert_held(&dlend_ends_lock);
	list_for_each_entry(end, &dlend_ends, node) {
		if (end->link != link)
			continue;
		if (end->place.node == node)
			return end;
		n++;
	}
	if (n == DLEND_MAX_ENDS)
		return NULL;
	end = kzalloc_obj(*end);
	if (!end)
		return NULL;
	end->link = dlend_link_get(link);
	list_add_tail(&end->node, &dlend_ends);
	return end;
}

void dlend_place_end(struct dlend_link *link, const struct dlend_addr *addr,
		     const struct dlend_p_place *place)
{
	struct dlend_end *end;

	guard(mutex)(&dlend_ends_lock);
	end = dlend_end_for(link, place->node);
	if (!end)
		return;
	end->addr = *addr;
	end->place = *place;
}

void dlend_place_link_down(struct dlend_link *link)
{
	struct dlend_end *end, *next;

	guard(mutex)(&dlend_ends_lock);
	list_for_each_entry_safe(end, next, &dlend_ends, node) {
		if (end->link != link)
			continue;
		list_del(&end->node);
		dlend_link_put(end->link);
		kfree(end);
	}
}
