// SPDX-License-Identifier: GPL-2.0-only
/* dlend status: this node at a glance. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

static const char *const modules[] = { DLEND_MODULES };

static void show_node(json_t *root)
{
	json_t *list = root ? json_object() : NULL;
	char node[TEXT_MAX], name[TEXT_MAX];
	const char *loaded = "";

	own_node(node);
	for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
		char *dir = path("%s/module/%s", opt.sysfs, modules[i]);
		bool there = path_exists(dir);

		if (list)
			json_object_set_new(list, modules[i], json_boolean(there));
		else if (there)
			loaded = text("%s %s", loaded, modules[i]);
		free(dir);
	}
	if (root) {
		json_object_set_new(root, "node", attr_json("node_id", *node ? node : "0"));
		json_object_set_new(root, "node_name", ascii_json(node_name(name, node)));
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
	char *save = NULL, *line;

	if (!strchr(value, '\n')) {
		printf("  %s: %s\n", name, value);
		return;
	}
	printf("  %s:\n", name);
	for (line = strtok_r(value, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		printf("    %s\n", line);
}

/* All of dlend's own attributes that can be read; some can only be written. */
static void show_mdev_attributes(const char *own, json_t *mdev)
{
	struct names n = list_dir(own);

	for (size_t i = 0; i < n.count; i++) {
		char *file = path("%s/%s", own, n.name[i]);
		char *all = read_all(file), *whole;

		free(file);
		if (!all)
			continue;
		whole = strip_text(all);
		if (mdev)
			json_object_set_new(mdev, n.name[i], attr_json(n.name[i], whole));
		else if (*whole && strcmp(n.name[i], "state"))
			show_lines(n.name[i], whole);
		free(all);
	}
	names_free(&n);
}

static void show_mdev(const char *uuid, const char *dir, json_t *mdevs)
{
	char *own = path("%s/dlend", dir), state[TEXT_MAX];
	const char *parent = mdev_parent(uuid);
	json_t *mdev = NULL;

	if (mdevs) {
		mdev = json_pack("{s:o, s:o}", "uuid", ascii_json(uuid),
				 "parent", ascii_json(parent));
		json_array_append_new(mdevs, mdev);
	} else {
		printf("%s on %s: %s\n", uuid, *parent ? parent : "?",
		       read_attr(state, own, "state"));
	}
	show_mdev_attributes(own, mdev);
	free(own);
}

void show_mdevs(json_t *root)
{
	json_t *mdevs = root ? json_array() : NULL;
	char *bus = path("%s/bus/mdev/devices", opt.sysfs);
	struct names n = list_dir(bus);
	size_t count = 0;

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", bus, n.name[i]), *own = path("%s/dlend", dir);

		if (path_exists(own)) {
			show_mdev(n.name[i], dir, mdevs);
			count++;
		}
		free(own);
		free(dir);
	}
	if (mdevs)
		json_object_set_new(root, "mdevs", mdevs);
	else if (!count)
		puts("no mediated devices");
	names_free(&n);
	free(bus);
}

/* Prints a word of a shell command, quoted if needed, because it comes from another host. */
static void print_shell_word(const char *word)
{
	const char *c = word;

	while (isalnum((unsigned char)*c) || (*c && strchr("._+:@/-", *c)))
		c++;
	if (*word && *word != '-' && !*c) {
		fputs(word, stdout);
		return;
	}
	fputs(*word == '-' ? "-- '" : "'", stdout);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*word);
	putchar('\'');
}

/* A note by dlend migrate on another host: the name of a VM that leaves it, and its own name. */
static void show_move(char *note, json_t *moves)
{
	char *rest = note, *vm = strsep(&rest, "\n"), *from = rest ? strsep(&rest, "\n") : "?";

	if (moves) {
		json_array_append_new(moves, json_pack("{s:o, s:o}", "vm", ascii_json(vm),
						       "from", ascii_json(from)));
		return;
	}
	printf("\n%s was to move here from %s; if that has died: dlend migrate --finish ",
	       vm, from);
	print_shell_word(vm);
	putchar('\n');
}

static void show_moves(json_t *root)
{
	json_t *moves = root ? json_array() : NULL;
	struct names n = list_dir(opt.run ? opt.run : "/nowhere");

	for (size_t i = 0; i < n.count; i++) {
		char *file = path("%s/%s", opt.run, n.name[i]);
		char *note = strncmp(n.name[i], "moving-", 7) ? NULL : read_all(file);

		if (note)
			show_move(note, moves);
		free(note);
		free(file);
	}
	if (moves)
		json_object_set_new(root, "moves", moves);
	names_free(&n);
}

static void show_status(json_t *root)
{
	show_node(root);
	if (!root)
		putchar('\n');
	show_links(root);
	if (!root)
		putchar('\n');
	show_offers(root);
	if (!root)
		putchar('\n');
	show_mdevs(root);
	show_attached(root);
	show_moves(root);
}

int cmd_status(int argc, char **argv)
{
	return run_show(argc, argv, show_status);
}
