// SPDX-License-Identifier: GPL-2.0-only
/* dlend status: this node at a glance. */
#include <ctype.h>
#include <string.h>

#include "dlend.h"

static const char *const modules[] = { DLEND_MODULES };

static void show_node(json_t *root)
{
	const char *node = own_node(), *loaded = "";
	json_t *list = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(modules); i++) {
		bool there = path_exists(sys("module/%s", modules[i]));

		json_object_set_new(list, modules[i], json_boolean(there));
		if (there)
			loaded = text("%s %s", loaded, modules[i]);
	}
	if (root) {
		json_object_set_new(root, "node", attr_json("node_id", *node ? node : "0"));
		json_object_set_new(root, "node_name", ascii_json(node_name(node)));
		json_object_set_new(root, "modules", list);
	} else {
		printf("node %s, modules:%s\n",
		       *node && strcmp(node, "0") ? node_text(node) : "(id not set)",
		       *loaded ? loaded : " none loaded");
	}
}

/* Prints an attribute.  Some have several lines: p2p has one for every BAR. */
static void show_lines(const char *name, char *value)
{
	char *line;

	if (!strchr(value, '\n')) {
		printf("  %s: %s\n", name, value);
		return;
	}
	printf("  %s:\n", name);
	while ((line = next_line(&value)))
		printf("    %s\n", line);
}

/* All of dlend's own attributes that can be read; some can only be written. */
static void show_mdev_attributes(const char *dir, json_t *mdev)
{
	struct names n = list_dir(dir);

	for (size_t i = 0; i < n.count; i++) {
		char *all = read_all(names_path(&n, i)), *whole = all ? strip_text(all) : NULL;

		if (whole && mdev)
			json_object_set_new(mdev, n.name[i], attr_json(n.name[i], whole));
		else if (whole && *whole && strcmp(n.name[i], "state"))
			show_lines(n.name[i], whole);
	}
}

void show_mdevs(json_t *root)
{
	json_t *mdevs = json_array(), *mdev = NULL;
	struct names n = list_dir(sys("bus/mdev/devices"));
	size_t count = 0;

	for (size_t i = 0; i < n.count; i++) {
		const char *own = text("%s/dlend", names_path(&n, i)), *uuid = n.name[i];
		const char *parent = mdev_parent(uuid);

		if (!path_exists(own))
			continue;
		count++;
		if (root) {
			mdev = json_pack("{s:o, s:o}", "uuid", ascii_json(uuid),
					 "parent", ascii_json(parent));
			json_array_append_new(mdevs, mdev);
		} else {
			printf("%s on %s: %s\n", uuid, *parent ? parent : "?", attr(own, "state"));
		}
		show_mdev_attributes(own, mdev);
	}
	if (root)
		json_object_set_new(root, "mdevs", mdevs);
	else if (!count)
		puts("no mediated devices");
}

/* A word of a shell command, quoted if needed, because it comes from another host. */
static const char *shell_word(const char *word)
{
	const char *c = word, *quoted = *word == '-' ? "-- '" : "'";

	while (isalnum((unsigned char)*c) || (*c && strchr("._+:@/-", *c)))
		c++;
	if (*word && *word != '-' && !*c)
		return word;
	for (; *word; word++)
		quoted = *word == '\'' ? text("%s'\\''", quoted) : text("%s%c", quoted, *word);
	return text("%s'", quoted);
}

/* Notes by dlend migrate on another host: the name of a VM that leaves it, and its own name. */
static void show_moves(json_t *root)
{
	struct names n = list_dir(opt.run);
	json_t *moves = json_array();

	for (size_t i = 0; i < n.count; i++) {
		char *rest = strncmp(n.name[i], "moving-", 7) ? NULL : read_all(names_path(&n, i));
		const char *vm = rest ? strsep(&rest, "\n") : NULL;
		const char *from = rest ? strsep(&rest, "\n") : "?";

		if (vm && root)
			json_array_append_new(moves, json_pack("{s:o, s:o}", "vm", ascii_json(vm),
							       "from", ascii_json(from)));
		else if (vm)
			printf("\n%s was to move here from %s; if that has died: %s %s\n", vm, from,
			       "dlend migrate --finish", shell_word(vm));
	}
	if (root)
		json_object_set_new(root, "moves", moves);
}

static void show_status(json_t *root)
{
	static void (*const parts[])(json_t *root) = {
		show_node, show_links, show_offers, show_mdevs
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (i && !root)
			putchar('\n');
		parts[i](root);
	}
	show_attached(root);
	show_moves(root);
}

int cmd_status(int argc, char **argv)
{
	return run_show(argc, argv, show_status);
}
