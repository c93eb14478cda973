// SPDX-License-Identifier: GPL-2.0-only
/* This node's id; and names of nodes, for people: its own, and those that its links have heard. */
#include <string.h>

#include "dlend.h"

#define CORE	"module/dlend_core/parameters"

const char *own_node(void)
{
	return attr(sys(CORE), "node_id");
}

/* Each is there as often as something names it. */
struct known {
	struct names id, name;
};

static struct known known_nodes(void)
{
	struct names links = list_dir(sys("class/dlend_link"));
	struct known k = { 0 };

	names_add(&k.id, own_node());
	names_add(&k.name, attr(sys(CORE), "node_name"));
	for (size_t i = 0; i < links.count; i++) {
		char *dir = names_path(&links, i);

		names_add(&k.id, attr(dir, "peer_node"));
		names_add(&k.name, attr(dir, "peer_name"));
	}
	return k;
}

const char *node_name(const char *id)
{
	struct known k = known_nodes();

	for (size_t i = 0; i < k.id.count; i++)
		if (!strcmp(k.id.name[i], id) && *k.name.name[i])
			return k.name.name[i];
	return "";
}

struct names nodes_named(const char *name)
{
	struct known k = known_nodes();
	struct names found = { 0 };

	for (size_t i = 0; i < k.id.count; i++)
		if (!strcmp(k.name.name[i], name) && !names_have(&found, k.id.name[i]))
			names_add(&found, k.id.name[i]);
	return found;
}

const char *node_text(const char *id)
{
	const char *name = node_name(id);

	return *name ? text("%s (%s)", id, name) : id;
}

bool name_valid(const char *s)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(s);

	return len && len <= NAME_LEN_MAX && strspn(s, letters) == len;
}
