// SPDX-License-Identifier: GPL-2.0-only
/* dlend list: every offer, as this node sees it. */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

struct offer {
	char address[TEXT_MAX], type[TEXT_MAX], lender[TEXT_MAX], state[TEXT_MAX];
	char borrower[TEXT_MAX], epoch[TEXT_MAX], link[TEXT_MAX], class[TEXT_MAX];
	char vendor[TEXT_MAX], device[TEXT_MAX], set[TEXT_MAX];
	const char *own;	/* its address on this host, "" if another's */
};

/* What show_offers() collects. */
struct listing {
	json_t *offers;		/* NULL: as a table */
	struct libscols_table *table;
	struct names seen;	/* addresses of those that stand on the bus */
	size_t count;
};

static json_t *offer_json(const struct offer *o, const char *vendor_name, const char *device_name)
{
	char lender[TEXT_MAX], borrower[TEXT_MAX];

	return json_pack("{s:o,s:s,s:s,s:s,s:o,s:o,s:s,s:o,s:s,s:s,s:o,s:s,s:o,s:s,s:s,s:o}",
			 "address", ascii_json(o->address), "type", o->type,
			 "vendor", o->vendor, "device", o->device,
			 "vendor_name", ascii_json(vendor_name),
			 "device_name", ascii_json(device_name), "class", o->class,
			 "lender", attr_json("lender", o->lender),
			 "lender_name", node_name(lender, o->lender), "state", o->state,
			 "borrower", attr_json("borrower", *o->borrower ? o->borrower : "0"),
			 "borrower_name", node_name(borrower, o->borrower),
			 "epoch", attr_json("epoch", *o->epoch ? o->epoch : "0"), "link", o->link,
			 "set", o->set, "own", ascii_json(o->own));
}

static void add_offer(struct listing *l, const struct offer *o)
{
	unsigned int vendor = strtoul(o->vendor, NULL, 16), device = strtoul(o->device, NULL, 16);
	const char *vendor_name = pci_vendor_name(vendor);
	const char *device_name = pci_device_name(vendor, device);
	const char *const cell[] = {
		o->address, o->type, node_text(o->lender), o->state,
		strcmp(o->borrower, "0") ? node_text(o->borrower) : "", o->epoch,
		text("%s %s%s%s", vendor_name, device_name, *o->set ? ", set " : "", o->set)
	};

	if (l->offers)
		json_array_append_new(l->offers, offer_json(o, vendor_name, device_name));
	else
		table_row(&l->table, 7, cell);
	l->count++;
}

static void read_state(struct offer *o, const char *dir)
{
	read_attr(o->type, dir, "type");
	read_attr(o->state, dir, "state");
	read_attr(o->borrower, dir, "borrower");
	read_attr(o->epoch, dir, "epoch");
	if (!strcmp(read_attr(o->set, dir, "set"), "none"))
		*o->set = '\0';
}

/* If the offer is this node's own, its state is read from the device, where it is newer. */
static void mark_own(struct offer *o, const char *driver, const struct names *lent)
{
	char name[TEXT_MAX];

	for (size_t i = 0; i < lent->count && !*o->own; i++) {
		char *dir = path("%s/%s/dlend", driver, lent->name[i]);

		if (!strcmp(read_attr(name, dir, "fabric_name"), o->address)) {
			o->own = lent->name[i];
			read_state(o, dir);
		}
		free(dir);
	}
}

/* Offers on the dlend bus: those of all nodes that are known here. */
static void add_bus_offers(struct listing *l)
{
	char *bus = path("%s/bus/dlend/devices", opt.sysfs);
	char *driver = path("%s/bus/pci/drivers/" DLEND_DRIVER, opt.sysfs);
	struct names n = list_dir(bus), lent = list_dir(driver);

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", bus, n.name[i]);
		struct offer o = { .own = "" };

		snprintf(o.address, sizeof(o.address), "%s", n.name[i]);
		read_state(&o, dir);
		mark_own(&o, driver, &lent);
		read_attr(o.lender, dir, "lender");
		read_attr(o.link, dir, "link");
		read_attr(o.class, dir, "class");
		read_attr(o.vendor, dir, "vendor");
		read_attr(o.device, dir, "device");
		add_offer(l, &o);
		names_add(&l->seen, n.name[i]);
		free(dir);
	}
	names_free(&lent);
	names_free(&n);
	free(driver);
	free(bus);
}

/* This node's own offers that are not on the bus because dlend_mdev is not loaded (yet). */
static void add_unlisted_offers(struct listing *l)
{
	char *driver = path("%s/bus/pci/drivers/" DLEND_DRIVER, opt.sysfs);
	struct names n = list_dir(driver);

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", driver, n.name[i]), *lent = path("%s/dlend", dir);
		struct offer o = { .own = n.name[i] };

		read_attr(o.address, lent, "fabric_name");
		if (*o.address && !names_have(&l->seen, o.address)) {
			read_state(&o, lent);
			own_node(o.lender);
			read_attr(o.class, dir, "class");
			read_attr(o.vendor, dir, "vendor");
			read_attr(o.device, dir, "device");
			add_offer(l, &o);
		}
		free(lent);
		free(dir);
	}
	names_free(&n);
	free(driver);
}

void show_offers(json_t *root)
{
	static const char *const head[] = {
		"ADDRESS", "TYPE", "LENDER", "STATE", "BORROWER", "EPOCH", "DEVICE"
	};
	struct listing l = { .offers = root ? json_array() : NULL };

	if (!root)
		table_row(&l.table, 7, head);
	add_bus_offers(&l);
	add_unlisted_offers(&l);
	if (root)
		json_object_set_new(root, "offers", l.offers);
	else if (l.count)
		table_print(&l.table);
	else
		puts("no offers");
	names_free(&l.seen);
}

int cmd_list(int argc, char **argv)
{
	return run_show(argc, argv, show_offers);
}
