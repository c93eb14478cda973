// SPDX-License-Identifier: GPL-2.0-only
/* dlend links: the connections of this node, over NTBs and (of a lender) to itself. */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

static const char *const attributes[] = {
	"type", "state", "peer_node", "peer_name", "required_peer", "version", "session",
	"window_bytes", "aperture_bytes", "aperture_free_bytes", "aperture_largest_free_bytes",
	"slots", "self_test", "heartbeat_age_ms", "last_error"
};

#define COLUMNS		11

static json_t *link_json(const char *name, const char *dir)
{
	json_t *link = json_pack("{s:o}", "name", ascii_json(name));
	char value[TEXT_MAX];

	for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++) {
		read_attr(value, dir, attributes[i]);
		json_object_set_new(link, attributes[i], attr_json(attributes[i], value));
	}
	return link;
}

static const char *mebibytes(const char *bytes)
{
	return *bytes ? text("%lluM", strtoull(bytes, NULL, 0) >> 20) : "";
}

/* A size of 0 is not known: the link was never up, or has no aperture. */
static bool is_known_size(const char *bytes)
{
	return strtoull(bytes, NULL, 0);
}

/* "ctrl 1 ram 4 bar 0 irq 1 p2p 0" becomes "4 ram, 1 irq": every link has ctrl. */
static const char *used_slots(char *slots)
{
	char *save = NULL, *kind = strtok_r(slots, " ", &save), *count;
	const char *used = "";

	for (; kind; kind = strtok_r(NULL, " ", &save)) {
		count = strtok_r(NULL, " ", &save);
		if (count && strcmp(count, "0") && strcmp(kind, "ctrl"))
			used = text("%s%s%s %s", used, *used ? ", " : "", count, kind);
	}
	return used;
}

static void add_link_row(const char *name, const char *dir, struct libscols_table **table)
{
	char state[TEXT_MAX], peer[TEXT_MAX], window[TEXT_MAX], size[TEXT_MAX];
	char free_bytes[TEXT_MAX], largest[TEXT_MAX], slots[TEXT_MAX];
	char test[TEXT_MAX], age[TEXT_MAX], error[TEXT_MAX], type[TEXT_MAX];
	bool reaches, reached;

	/* The link of a node to itself has no window and no limit. */
	read_attr(type, dir, "type");
	reaches = strcmp(type, "loop") && is_known_size(read_attr(window, dir, "window_bytes"));
	reached = strcmp(type, "loop") && is_known_size(read_attr(size, dir, "aperture_bytes"));
	read_attr(age, dir, "heartbeat_age_ms");
	read_attr(slots, dir, "slots");
	table_row(table, COLUMNS, (const char *[]){
		name, read_attr(state, dir, "state"), node_text(read_attr(peer, dir, "peer_node")),
		reaches ? mebibytes(window) : "", reached ? mebibytes(size) : "",
		reached ? mebibytes(read_attr(free_bytes, dir, "aperture_free_bytes")) : "",
		reached ? mebibytes(read_attr(largest, dir, "aperture_largest_free_bytes")) : "",
		used_slots(slots), read_attr(test, dir, "self_test"),
		*age ? text("%s ms", age) : "", read_attr(error, dir, "last_error") });
}

void show_links(json_t *root)
{
	json_t *links = root ? json_array() : NULL;
	char *class = path("%s/class/dlend_link", opt.sysfs);
	struct names n = list_dir(class);
	struct libscols_table *table = NULL;
	static const char *const head[] = {
		"LINK", "STATE", "PEER", "WINDOW", "APERTURE", "FREE", "LARGEST", "SLOTS",
		"SELF-TEST", "HEARTBEAT", "LAST ERROR"
	};

	if (!links)
		table_row(&table, COLUMNS, head);
	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", class, n.name[i]);

		if (links)
			json_array_append_new(links, link_json(n.name[i], dir));
		else
			add_link_row(n.name[i], dir, &table);
		free(dir);
	}
	if (links)
		json_object_set_new(root, "links", links);
	else if (n.count)
		table_print(&table);
	else
		puts("no links");
	names_free(&n);
	free(class);
}

int cmd_links(int argc, char **argv)
{
	return run_show(argc, argv, show_links);
}
