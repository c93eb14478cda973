// SPDX-License-Identifier: GPL-2.0-only
/* dlend list: every offer, as this node sees it. */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

struct offer {
	char address[TEXT_MAX], type[TEXT_MAX], lender[TEXT_MAX], state[TEXT_MAX];
	char borrower[TEXT_MAX], epoch[TEXT_MAX], link[TEXT_MAX], class[TEXT_MAX];
	char vendor[TEXT_MAX], device[TEXT_MAX];
	const char *own;	/* its address on this host, "" if another's */
};

static void show(const struct offer *o, struct table *table)
{
	unsigned int vendor = strtoul(o->vendor, NULL, 16), device = strtoul(o->device, NULL, 16);
	char *name = path("%s", pci_vendor_name(vendor));
	char *named = path("%s %s", name, pci_device_name(vendor, device));
	const char *const cell[] = {
		o->address, o->type, o->lender, o->state,
		strcmp(o->borrower, "0") ? o->borrower : "", o->epoch, named
	};

	if (opt.json) {
		json_begin(NULL, '{');
		json_text("address", o->address);
		json_text("type", o->type);
		json_text("vendor", o->vendor);
		json_text("device", o->device);
		json_text("vendor_name", name);
		json_text("device_name", pci_device_name(vendor, device));
		json_text("class", o->class);
		json_attr("lender", o->lender);
		json_text("state", o->state);
		json_attr("borrower", *o->borrower ? o->borrower : "0");
		json_attr("epoch", *o->epoch ? o->epoch : "0");
		json_text("link", o->link);
		json_text("own", o->own);
		json_end('}');
	} else {
		table_row(table, 7, cell);
	}
	free(named);
	free(name);
}

static void fill(struct offer *o, const char *dir)
{
	attr(o->type, dir, "type");
	attr(o->state, dir, "state");
	attr(o->borrower, dir, "borrower");
	attr(o->epoch, dir, "epoch");
}

/* An offer of this node itself: the lender's own word is newer than what went over the wire. */
static void if_own(struct offer *o, const char *driver, const struct names *lent)
{
	char name[TEXT_MAX];

	for (size_t i = 0; i < lent->count && !*o->own; i++) {
		char *dir = path("%s/%s/dlend", driver, lent->name[i]);

		if (!strcmp(attr(name, dir, "fabric_name"), o->address)) {
			o->own = lent->name[i];
			fill(o, dir);
		}
		free(dir);
	}
}

/* What stands on the dlend bus: offers of all nodes that are known here. */
static size_t from_bus(struct names *seen, struct table *table)
{
	char *bus = path("%s/bus/dlend/devices", opt.sysfs);
	char *driver = path("%s/bus/pci/drivers/" DLEND_DRIVER, opt.sysfs);
	struct names n = list_dir(bus), lent = list_dir(driver);

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", bus, n.name[i]);
		struct offer o = { .own = "" };

		snprintf(o.address, sizeof(o.address), "%s", n.name[i]);
		fill(&o, dir);
		if_own(&o, driver, &lent);
		attr(o.lender, dir, "lender");
		attr(o.link, dir, "link");
		attr(o.class, dir, "class");
		attr(o.vendor, dir, "vendor");
		attr(o.device, dir, "device");
		show(&o, table);
		names_add(seen, n.name[i]);
		free(dir);
	}
	names_free(&lent);
	names_free(&n);
	free(driver);
	free(bus);
	return seen->count;
}

/* This node's own that are not on the bus: dlend_mdev is not loaded, or not yet. */
static size_t from_lender(const struct names *seen, struct table *table)
{
	char *driver = path("%s/bus/pci/drivers/" DLEND_DRIVER, opt.sysfs);
	char *core = path("%s/module/dlend_core/parameters", opt.sysfs);
	struct names n = list_dir(driver);
	size_t count = 0;

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", driver, n.name[i]), *lent = path("%s/dlend", dir);
		struct offer o = { .own = n.name[i] };

		attr(o.address, lent, "fabric_name");
		if (*o.address && !names_have(seen, o.address)) {
			fill(&o, lent);
			attr(o.lender, core, "node_id");
			attr(o.class, dir, "class");
			attr(o.vendor, dir, "vendor");
			attr(o.device, dir, "device");
			show(&o, table);
			count++;
		}
		free(lent);
		free(dir);
	}
	names_free(&n);
	free(core);
	free(driver);
	return count;
}

size_t show_offers(void)
{
	static const char *const head[] = {
		"ADDRESS", "TYPE", "LENDER", "STATE", "BORROWER", "EPOCH", "DEVICE"
	};
	struct table table = { 0 };
	struct names seen = { 0 };
	size_t count;

	if (opt.json)
		json_begin("offers", '[');
	else
		table_row(&table, 7, head);
	count = from_bus(&seen, &table);
	count += from_lender(&seen, &table);
	if (opt.json)
		json_end(']');
	else if (count)
		table_print(&table);
	else
		puts("no offers");
	names_free(&seen);
	return count;
}

int cmd_list(int argc, char **argv)
{
	no_arguments(argc, argv);
	if (opt.json)
		json_begin(NULL, '{');
	show_offers();
	if (opt.json)
		json_end('}');
	return EXIT_OK;
}
