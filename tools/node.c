// SPDX-License-Identifier: GPL-2.0-only
/* This node's id; and names of nodes, for people: its own, and those that its links have heard. */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

char *own_node(char *id)
{
	char *core = path("%s/module/dlend_core/parameters", opt.sysfs);

	read_attr(id, core, "node_id");
	free(core);
	return id;
}

/* Each is there as often as something names it. */
struct known {
	struct names id, name;
};

static void add_known(struct known *k, const char *dir, const char *id, const char *name)
{
	char value[TEXT_MAX];

	names_add(&k->id, read_attr(value, dir, id));
	names_add(&k->name, read_attr(value, dir, name));
}

static struct known known_nodes(void)
{
	char *core = path("%s/module/dlend_core/parameters", opt.sysfs);
	char *class = path("%s/class/dlend_link", opt.sysfs);
	struct names n = list_dir(class);
	struct known k = { 0 };

	add_known(&k, core, "node_id", "node_name");
	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", class, n.name[i]);

		add_known(&k, dir, "peer_node", "peer_name");
		free(dir);
	}
	names_free(&n);
	free(class);
	free(core);
	return k;
}

static void forget_known(struct known *k)
{
	names_free(&k->id);
	names_free(&k->name);
}

const char *node_name(char *name, const char *node)
{
	struct known k = known_nodes();

	*name = '\0';
	for (size_t i = 0; i < k.id.count && !*name; i++)
		if (!strcmp(k.id.name[i], node))
			snprintf(name, TEXT_MAX, "%s", k.name.name[i]);
	forget_known(&k);
	return name;
}

struct names nodes_named(const char *name)
{
	struct known k = known_nodes();
	struct names found = { 0 };

	for (size_t i = 0; i < k.id.count; i++)
		if (!strcmp(k.name.name[i], name) && !names_have(&found, k.id.name[i]))
			names_add(&found, k.id.name[i]);
	forget_known(&k);
	return found;
}

const char *node_text(const char *node)
{
	char name[TEXT_MAX];

	return *node_name(name, node) ? text("%s (%s)", node, name) : text("%s", node);
}

bool name_valid(const char *s)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(s);

	return len && len <= NAME_LEN_MAX && strspn(s, letters) == len;
}
