// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend list: every offer, as this node sees it; dlend links: the connections of this node, over
 * NTBs and (of a lender) to itself.
 */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

#define LENDER	"bus/pci/drivers/" DLEND_DRIVER

/*
 * Where an offer's attributes are.
 * @own: its address on this host, "" if another's
 * @bus: what stays the same; NULL: it is this node's own, and not on the bus
 * @state: what changes: of this node's own offer the device's, which is newer
 */
struct offer {
	const char *address, *own, *bus, *state;
};

/* What show_offers() collects. */
struct listing {
	json_t *offers;		/* NULL: as a table */
	struct libscols_table *table;
	struct names seen;	/* addresses of those that stand on the bus */
	size_t count;
};

static json_t *or_zero(const char *name, const char *value)
{
	return attr_json(name, *value ? value : "0");
}

static void add_offer(struct listing *l, const struct offer *o)
{
	const char *ids = o->bus ? o->bus : sys(LENDER "/%s", o->own), *link;
	const char *vendor = attr(ids, "vendor"), *device = attr(ids, "device");
	const char *vendor_name = text("%s", pci_vendor_name(strtoul(vendor, NULL, 16)));
	const char *device_name = pci_device_name(strtoul(vendor, NULL, 16),
						  strtoul(device, NULL, 16));
	const char *lender = o->bus ? attr(o->bus, "lender") : own_node();
	const char *state = attr(o->state, "state"), *borrower = attr(o->state, "borrower");
	const char *type = attr(o->state, "type"), *epoch = attr(o->state, "epoch");
	const char *set = attr(o->state, "set");
	json_t *offer;

	set = strcmp(set, "none") ? set : "";
	link = o->bus ? attr(o->bus, "link") : "";
	l->count++;
	if (!l->offers) {
		table_row(&l->table, 7, (const char *[]){
			o->address, type, node_text(lender), state,
			strcmp(borrower, "0") ? node_text(borrower) : "", epoch,
			text("%s %s%s%s", vendor_name, device_name, *set ? ", set " : "", set) });
		return;
	}
	offer = json_pack("{s:o,s:s,s:s,s:s,s:o,s:o,s:s,s:o,s:s,s:s,s:o,s:s,s:o,s:s,s:s,s:o}",
			  "address", ascii_json(o->address), "type", type, "vendor", vendor,
			  "device", device, "vendor_name", ascii_json(vendor_name),
			  "device_name", ascii_json(device_name), "class", attr(ids, "class"),
			  "lender", attr_json("lender", lender),
			  "lender_name", node_name(lender), "state", state,
			  "borrower", or_zero("borrower", borrower),
			  "borrower_name", node_name(borrower), "epoch", or_zero("epoch", epoch),
			  "link", link, "set", set, "own", ascii_json(o->own));
	json_array_append_new(l->offers, offer);
}

void show_offers(json_t *root)
{
	struct names n = list_dir(sys("bus/dlend/devices")), lent = list_dir(sys(LENDER));
	struct listing l = { .offers = root ? json_array() : NULL };
	static const char *const head[] = {
		"ADDRESS", "TYPE", "LENDER", "STATE", "BORROWER", "EPOCH", "DEVICE"
	};

	if (!root)
		table_row(&l.table, 7, head);
	/* Those of all nodes that are known here */
	for (size_t i = 0; i < n.count; i++) {
		struct offer o = { n.name[i], "", names_path(&n, i), names_path(&n, i) };

		for (size_t k = 0; k < lent.count && !*o.own; k++) {
			const char *dir = text("%s/dlend", names_path(&lent, k));

			if (attr_is(dir, "fabric_name", o.address)) {
				o.own = lent.name[k];
				o.state = dir;
			}
		}
		add_offer(&l, &o);
		names_add(&l.seen, o.address);
	}
	/* This node's own that are not on the bus because dlend_mdev is not loaded (yet) */
	for (size_t i = 0; i < lent.count; i++) {
		const char *dir = text("%s/dlend", names_path(&lent, i));
		struct offer o = { attr(dir, "fabric_name"), lent.name[i], NULL, dir };

		if (*o.address && !names_have(&l.seen, o.address))
			add_offer(&l, &o);
	}
	if (root)
		json_object_set_new(root, "offers", l.offers);
	else if (l.count)
		table_print(&l.table);
	else
		puts("no offers");
}

int cmd_list(int argc, char **argv)
{
	return run_show(argc, argv, show_offers);
}

/* Links */

static const char *const attributes[] = {
	"type", "state", "peer_node", "peer_name", "required_peer", "version", "session",
	"window_bytes", "aperture_bytes", "aperture_free_bytes", "aperture_largest_free_bytes",
	"slots", "self_test", "heartbeat_age_ms", "last_error"
};

static json_t *link_json(const char *name, const char *dir)
{
	json_t *link = json_pack("{s:o}", "name", ascii_json(name));

	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		json_object_set_new(link, attributes[i],
				    attr_json(attributes[i], attr(dir, attributes[i])));
	return link;
}

/* "ctrl 1 ram 4 bar 0 irq 1 p2p 0" becomes "4 ram, 1 irq": every link has ctrl. */
static const char *used_slots(char *slots)
{
	char *save = NULL, *kind = strtok_r(slots, " ", &save), *count;
	const char *used = "";

	for (; kind; kind = strtok_r(NULL, " ", &save)) {
		count = strtok_r(NULL, " ", &save);
		if (count && strcmp(count, "0") && strcmp(kind, "ctrl"))
			used = join(used, text("%s %s", count, kind));
	}
	return used;
}

/*
 * @of: a size of 0 is not known, as the link was never up; and the link of a node to itself has no
 * window and no limit.  Then @name shows as nothing.
 */
static const char *mebibytes(const char *dir, const char *name, const char *of)
{
	const char *bytes = attr(dir, name);

	return *bytes && attr_number(dir, of) && !attr_is(dir, "type", "loop") ?
	       text("%lluM", strtoull(bytes, NULL, 0) >> 20) : "";
}

static void add_link_row(const char *name, const char *dir, struct libscols_table **table)
{
	const char *age = attr(dir, "heartbeat_age_ms");

	table_row(table, 11, (const char *[]){
		name, attr(dir, "state"), node_text(attr(dir, "peer_node")),
		mebibytes(dir, "window_bytes", "window_bytes"),
		mebibytes(dir, "aperture_bytes", "aperture_bytes"),
		mebibytes(dir, "aperture_free_bytes", "aperture_bytes"),
		mebibytes(dir, "aperture_largest_free_bytes", "aperture_bytes"),
		used_slots(attr(dir, "slots")), attr(dir, "self_test"),
		*age ? text("%s ms", age) : "", attr(dir, "last_error") });
}

void show_links(json_t *root)
{
	json_t *links = root ? json_array() : NULL;
	struct names n = list_dir(sys("class/dlend_link"));
	struct libscols_table *table = NULL;

	if (!links)
		table_row(&table, 11, (const char *[]){
			"LINK", "STATE", "PEER", "WINDOW", "APERTURE", "FREE", "LARGEST", "SLOTS",
			"SELF-TEST", "HEARTBEAT", "LAST ERROR" });
	for (size_t i = 0; i < n.count; i++)
		if (links)
			json_array_append_new(links, link_json(n.name[i], names_path(&n, i)));
		else
			add_link_row(n.name[i], names_path(&n, i), &table);
	if (links)
		json_object_set_new(root, "links", links);
	else if (n.count)
		table_print(&table);
	else
		puts("no links");
}

int cmd_links(int argc, char **argv)
{
	return run_show(argc, argv, show_links);
}
