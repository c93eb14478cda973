// SPDX-License-Identifier: GPL-2.0-only
/* dlend status: this node at a glance. */
#include <ctype.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

static const char *const modules[] = { "dlend_core", "dlend_ntb", "dlend_lender", "dlend_borrower",
					 "dlend_mdev" };

static void show_node(void)
{
	char *core = path("%s/module/dlend_core/parameters", opt.sysfs);
	char node[TEXT_MAX];
	const char *loaded = "";

	attr(node, core, "node_id");
	if (opt.json) {
		json_attr("node", *node ? node : "0");
		json_begin("modules", '{');
	}
	for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
		char *dir = path("%s/module/%s", opt.sysfs, modules[i]);
		bool there = path_exists(dir);

		if (opt.json)
			json_bool(modules[i], there);
		else if (there)
			loaded = text("%s %s", loaded, modules[i]);
		free(dir);
	}
	if (opt.json)
		json_end('}');
	else
		printf("node %s, modules:%s\n", *node && strcmp(node, "0") ? node : "(id not set)",
		       *loaded ? loaded : " none loaded");
	free(core);
}

/* p2p has a line for every BAR. */
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

/* Every attribute of dlend's own that can be read (some can only be written). */
static void show_mdev(const char *uuid, const char *dir)
{
	char *own = path("%s/dlend", dir), *where = real(dir), value[TEXT_MAX];
	struct names n = list_dir(own);

	if (opt.json) {
		json_begin(NULL, '{');
		json_text("uuid", uuid);
		json_text("parent", where ? basename(dirname(where)) : "");
	} else {
		printf("%s on %s: %s\n", uuid, where ? basename(dirname(where)) : "?",
		       attr(value, own, "state"));
	}
	for (size_t i = 0; i < n.count; i++) {
		char *file = path("%s/%s", own, n.name[i]);
		char *all = read_all(file), *whole;

		free(file);
		if (!all)
			continue;
		whole = strip_text(all);
		if (opt.json)
			json_attr(n.name[i], whole);
		else if (*whole && strcmp(n.name[i], "state"))
			show_lines(n.name[i], whole);
		free(all);
	}
	if (opt.json)
		json_end('}');
	names_free(&n);
	free(where);
	free(own);
}

static void show_mdevs(void)
{
	char *bus = path("%s/bus/mdev/devices", opt.sysfs);
	struct names n = list_dir(bus);
	size_t count = 0;

	if (opt.json)
		json_begin("mdevs", '[');
	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", bus, n.name[i]), *own = path("%s/dlend", dir);

		if (path_exists(own)) {
			show_mdev(n.name[i], dir);
			count++;
		}
		free(own);
		free(dir);
	}
	if (opt.json)
		json_end(']');
	else if (!count)
		puts("no mediated devices");
	names_free(&n);
	free(bus);
}

/* One word of a command to type: another host has given the name. */
static void put_word(const char *word)
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

/* A note of dlend migrate on another host: the name of a VM that it let go of, and its own. */
static void show_move(char *note)
{
	char *rest = note, *vm = strsep(&rest, "\n"), *from = rest ? strsep(&rest, "\n") : "?";

	if (opt.json) {
		json_begin(NULL, '{');
		json_text("vm", vm);
		json_text("from", from);
		json_end('}');
		return;
	}
	printf("\n%s was to move here from %s; if that has died: dlend migrate --finish ",
	       vm, from);
	put_word(vm);
	putchar('\n');
}

static void show_moves(void)
{
	struct names n = list_dir(opt.run ? opt.run : "/nowhere");

	if (opt.json)
		json_begin("moves", '[');
	for (size_t i = 0; i < n.count; i++) {
		char *file = path("%s/%s", opt.run, n.name[i]);
		char *note = strncmp(n.name[i], "moving-", 7) ? NULL : read_all(file);

		if (note)
			show_move(note);
		free(note);
		free(file);
	}
	if (opt.json)
		json_end(']');
	names_free(&n);
}

int cmd_status(int argc, char **argv)
{
	no_arguments(argc, argv);
	if (opt.json)
		json_begin(NULL, '{');
	show_node();
	if (!opt.json)
		putchar('\n');
	show_links();
	if (!opt.json)
		putchar('\n');
	show_offers();
	if (!opt.json)
		putchar('\n');
	show_mdevs();
	show_moves();
	if (opt.json)
		json_end('}');
	return EXIT_OK;
}
