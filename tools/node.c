// SPDX-License-Identifier: GPL-2.0-only
/* Names of nodes, for people: this host's own, and those that its links have heard. */
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

const char *node_name(char *name, const char *node)
{
	char *core = path("%s/module/dlend_core/parameters", opt.sysfs);
	char *class = path("%s/class/dlend_link", opt.sysfs), id[TEXT_MAX];
	struct names n = list_dir(class);

	*name = '\0';
	if (!strcmp(read_attr(id, core, "node_id"), node))
		read_attr(name, core, "node_name");
	for (size_t i = 0; i < n.count && !*name; i++) {
		char *dir = path("%s/%s", class, n.name[i]);

		if (!strcmp(read_attr(id, dir, "peer_node"), node))
			read_attr(name, dir, "peer_name");
		free(dir);
	}
	names_free(&n);
	free(class);
	free(core);
	return name;
}

const char *node_text(const char *node)
{
	char name[TEXT_MAX];

	return *node_name(name, node) ? text("%s (%s)", node, name) : text("%s", node);
}
