// SPDX-License-Identifier: GPL-2.0-only
/* dlend lend: take devices from their drivers and offer them to the other nodes. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "move.h"

/* Sets the bus:device.function by which other nodes will know the device. */
static void set_name(const struct device *dev, const char *as)
{
	char *p = path("%s/bus/pci/drivers/" DLEND_DRIVER "/lend_as", opt.sysfs);
	const char *line = text("%s %s\n", dev->bdf, as);
	int err = write_text(p, line);

	if (err)
		fail(EXIT_FAIL, text("%s: cannot be lent as %s", dev->bdf, as), strerror(-err),
		     "Choose a bus:device.function that no other lent device of this host has.");
	free(p);
}

/* The name that the kernel has for it, as text(); "" if there is none. */
static const char *read_name(const struct device *dev)
{
	char *p = path("%s/bus/pci/drivers/" DLEND_DRIVER "/lend_as", opt.sysfs);
	char line[TEXT_MAX], as[16] = "";
	FILE *f = fopen(p, "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, dev->bdf, strlen(dev->bdf)))
			sscanf(line + strlen(dev->bdf), "%15s", as);
	if (f)
		fclose(f);
	free(p);
	return text("%s", as);
}

static bool is_in_domain_0(const char *bdf)
{
	return !strncmp(bdf, "0000:", 5);
}

/* The kernel remembers a name from an earlier --as, even if lending failed: sets the real one. */
static void forget_name(const struct device *dev)
{
	const char *name = dev->bdf + strlen("0000:"), *as;

	if (!is_in_domain_0(dev->bdf) || device_lent(dev))
		return;
	as = read_name(dev);
	if (*as && strcmp(as, name))
		set_name(dev, name);
}

/* Other nodes know a device by bus:device.function only. */
static void check_names(const struct names *group)
{
	for (size_t i = 0; i < group->count; i++) {
		struct device dev = device_open(group->name[i]);

		if (!is_in_domain_0(dev.bdf) && !*read_name(&dev))
			fail(EXIT_USAGE, text("%s is outside this host's PCI domain 0", dev.bdf),
			     "other nodes know a device by bus:device.function only",
			     group->count == 1 ?
			     text("Give it one: dlend lend --as BB:DD.F %s", dev.bdf) :
			     text("Give all its group one: echo %s BB:DD.F > %s/lend_as", dev.bdf,
				  "/sys/bus/pci/drivers/" DLEND_DRIVER));
		device_close(&dev);
	}
}

static void check_group(const struct device *dev, const struct names *group)
{
	const char *others = "";

	for (size_t i = 0; i < group->count; i++)
		if (strcmp(group->name[i], dev->bdf))
			others = text("%s%s%s", others, *others ? ", " : "", group->name[i]);
	if (*others)
		fail(EXIT_UNFIT, text("%s cannot be lent alone", dev->bdf),
		     text("the IOMMU cannot tell it from %s (same group)", others),
		     text("Lend them together, to one VM at a time: dlend lend --group %s",
			  dev->bdf));
}

/* What becomes of a device when what belongs to it could not be written. */
static const char *as_it_is(const struct device *dev)
{
	return device_preparing(dev) ? "It is not offered yet." : "It is lent all the same.";
}

/* The device is bound already, and stays so.  @name: "clique" or "set" */
static void set_attribute(const struct device *dev, const char *name, const char *value)
{
	char *p = path("%s/dlend/%s", dev->dir, name);
	const char *what = text("%s cannot have the %s %s", dev->bdf, name, value);
	int err;

	if (!path_exists(p))
		fail(EXIT_NOT_READY, what, "dlend_lender is too old for it",
		     text("%s Load the modules of this version, and lend it again.",
			  as_it_is(dev)));
	err = write_text(p, value);
	if (err)
		fail(EXIT_FAIL, what, strerror(-err),
		     text("%s To try again: dlend lend --%s %s %s", as_it_is(dev), name, value,
			  dev->bdf));
	free(p);
}

/* All that others have to know of it is written.  An older dlend_lender has offered it already. */
static void offer(const struct device *dev)
{
	char *p = path("%s/dlend/prepared", dev->dir);
	int err = write_text(p, "1");

	if (err && err != -ENOENT)
		fail(EXIT_FAIL, text("%s cannot be offered", dev->bdf), strerror(-err),
		     text("It is bound, and nobody can borrow it. To try again: dlend lend %s",
			  dev->bdf));
	free(p);
}

/*
 * What lend_device() works on, and what it did so far.
 * @identity: of each of @group, as it was before
 * @done: all of @group is lent; it may have failed after that
 */
struct lending {
	const struct lend_line *line;
	const char *bdf;
	struct names group, identity;
	struct move *move;
	bool done;
};

static void choose_resets(struct lending *l)
{
	for (size_t i = 0; i < l->group.count; i++) {
		struct device dev = device_open(l->group.name[i]);

		reset_choose(&dev, l->line->reset);
		device_close(&dev);
	}
}

/* Restores the reset methods of all devices that are not lent. */
static void restore_resets(const struct lending *l)
{
	for (size_t i = 0; i < l->group.count; i++) {
		char *dir = path("%s/bus/pci/devices/%s", opt.sysfs, l->group.name[i]);
		struct device dev;

		/* It may have been unplugged meanwhile. */
		if (path_exists(dir)) {
			dev = device_open(l->group.name[i]);
			if (!device_lent(&dev))
				reset_restore(&dev);
			device_close(&dev);
		}
		free(dir);
	}
}

static void write_attributes(const struct lending *l)
{
	const struct lend_line *line = l->line;

	for (size_t i = 0; i < l->group.count; i++)
		reserve_again(&l->move[i].dev);
	for (size_t i = 0; line->set && i < l->group.count; i++)
		set_attribute(&l->move[i].dev, "set", line->set);
	/* All devices of a group go to one VM, so all get the same clique. */
	for (size_t i = 0; line->clique && i < l->group.count; i++)
		set_attribute(&l->move[i].dev, "clique", line->clique);
}

/* An older dlend_lender has no such attribute; and nothing changes for one that is offered. */
static void write_identities(const struct lending *l)
{
	for (size_t i = 0; i < l->group.count; i++) {
		const struct device *dev = &l->move[i].dev;
		char *p = path("%s/dlend/identity", dev->dir);
		int err = 0;

		if (*l->identity.name[i] && device_preparing(dev))
			err = write_text(p, l->identity.name[i]);
		if (err && err != -ENOENT)
			fail(EXIT_FAIL, text("%s cannot have the identity %s", dev->bdf,
					     l->identity.name[i]), strerror(-err),
			     text("%s To try again: dlend lend %s", as_it_is(dev), dev->bdf));
		free(p);
	}
}

/* While their drivers have them. */
static void read_identities(struct lending *l)
{
	for (size_t i = 0; i < l->group.count; i++) {
		struct device dev = device_open(l->group.name[i]);

		names_add(&l->identity, identity_of(&dev));
		device_close(&dev);
	}
}

/* What goes with it: of its IOMMU group, without what is gone when its own driver has left it. */
static struct names lent_together(const struct device *dev)
{
	struct names all = device_group(dev), behind = devices_behind(dev), group = { 0 };

	for (size_t i = 0; i < all.count; i++)
		if (!names_have(&behind, all.name[i]))
			names_add(&group, all.name[i]);
	names_free(&behind);
	names_free(&all);
	return group;
}

static void check_hazards(const struct lending *l)
{
	for (size_t i = 0; i < l->group.count; i++) {
		struct device dev = device_open(l->group.name[i]);

		check_above(&dev);
		if (!l->line->anyway)
			check_hazard(&dev);
		device_close(&dev);
	}
}

static void lend_device(void *arg)
{
	struct lending *l = arg;
	const struct lend_line *line = l->line;
	struct device dev = device_open(l->bdf);

	lock_device(&dev);
	check_node();
	identity_check(line, &dev);
	check_kind(&dev);
	check_above(&dev);
	l->group = lent_together(&dev);
	if (line->reset)
		choose_resets(l);
	check_device(&dev);
	if (!line->group)
		check_group(&dev, &l->group);
	check_hazards(l);
	if (line->as && l->group.count > 1)
		fail(EXIT_USAGE, "--as names one device", "this group has several", NULL);
	if (!line->as)
		check_names(&l->group);
	read_identities(l);
	l->move = move_plan(&l->group);
	if (line->as)
		set_name(&dev, line->as);
	for (size_t i = 0; !line->as && i < l->group.count; i++)
		forget_name(&l->move[i].dev);
	move_take(l->move, l->group.count);
	l->done = !device_preparing(&dev);
	write_identities(l);
	write_attributes(l);
	for (size_t i = 0; i < l->group.count; i++)
		offer(&l->move[i].dev);
	l->done = true;
}

/* On standard output, or into @list if it is not NULL. */
static void report_lent(const struct move *move, size_t count, json_t *list)
{
	char name[TEXT_MAX], type[TEXT_MAX];

	for (size_t i = 0; i < count; i++) {
		char *dir = path("%s/dlend", move[i].dev.dir);

		read_attr(name, dir, "fabric_name");
		read_attr(type, dir, "type");
		if (list)
			json_array_append_new(list, json_pack("{s:s, s:s, s:s}",
							      "device", move[i].dev.bdf,
							      "address", name, "type", type));
		else
			printf("%s is lent as %s, type %s\n", move[i].dev.bdf, *name ? name : "?",
			       *type ? type : "?");
		free(dir);
	}
}

/* Lends many devices.  If one fails, the others are lent all the same. */
struct round {
	struct names seen;		/* that an earlier line or group had */
	struct names failed, why;
	size_t lent;
	json_t *list;			/* of what is lent, with --json */
};

static void lend_and_report(struct round *r, const struct lend_line *line, const char *bdf)
{
	struct lending l = { .line = line, .bdf = bdf };

	if (names_have(&r->seen, bdf))
		return;
	if (attempt(lend_device, &l)) {
		names_add(&r->failed, bdf);
		names_add(&r->why, attempt_failure());
		restore_resets(&l);
	}
	names_add(&r->seen, bdf);
	if (!l.done)
		return;
	for (size_t i = 0; i < l.group.count; i++)
		names_add(&r->seen, l.group.name[i]);
	r->lent += l.group.count;
	report_lent(l.move, l.group.count, r->list);
}

static json_t *failed_json(const struct round *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->failed.count; i++)
		json_array_append_new(list, json_pack("{s:o, s:o}",
						      "device", ascii_json(r->failed.name[i]),
						      "why", ascii_json(r->why.name[i])));
	return list;
}

static int round_end(const struct round *r)
{
	if (r->list)
		print_document(json_pack("{s:o, s:o}", "lent", r->list, "failed", failed_json(r)));
	if (r->failed.count)
		progress("%zu lent, %zu failed", r->lent, r->failed.count);
	return r->failed.count ? EXIT_FAIL : EXIT_OK;
}

/* @what: for a message, as "cannot be limited to node 3" */
static void set_link(const struct link_line *line, const char *file, const char *name,
		     const char *value, const char *what)
{
	char *attribute = path("%s/class/dlend_link/%s/%s", opt.sysfs, line->ntb, name);
	int err = write_text(attribute, value);

	if (err)
		fail(err == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAIL,
		     text("%s, line %u", file, line->number),
		     text("the link %s %s: %s", line->ntb, what,
			  err == -ENOENT ? "there is no such link" : strerror(-err)),
		     "dlend links shows what there is; nothing was lent.");
	free(attribute);
}

/* Done before anything is lent.  After a mistake here nothing is lent. */
static void set_links(const struct config *c, const char *file)
{
	for (size_t i = 0; i < c->links; i++) {
		const struct link_line *line = &c->link[i];

		if (line->peer)
			set_link(line, file, "required_peer", line->peer,
				 text("cannot be limited to node %s", line->peer));
		if (line->direct)
			set_link(line, file, "direct_interrupts", line->direct,
				 text("cannot have direct interrupts %s", line->direct));
	}
}

static int lend_config(const char *file)
{
	struct config c = config_read(file);
	struct round r = { .list = opt.json ? json_array() : NULL };

	set_links(&c, file);
	for (size_t i = 0; i < c.count; i++) {
		struct names found = config_matches(&c.line[i]);

		if (!found.count)
			progress("%s, line %u: no device of this host is %s", file,
				 c.line[i].number, c.line[i].which);
		for (size_t k = 0; k < found.count; k++)
			lend_and_report(&r, &c.line[i], found.name[k]);
		names_free(&found);
	}
	return round_end(&r);
}

/* @which: NULL after the last */
static int lend_each(const struct lend_line *line, char **which)
{
	struct round r = { .list = opt.json ? json_array() : NULL };
	char full[16];

	for (; *which; which++) {
		bdf_parse(full, *which);
		lend_and_report(&r, line, full);
	}
	return round_end(&r);
}

static int lend_command(const struct lend_line *line)
{
	struct lending l = { .line = line, .bdf = line->which };
	json_t *list = opt.json ? json_array() : NULL, *out;
	int code = attempt(lend_device, &l);

	if (code)
		restore_resets(&l);
	if (!l.done)
		fail_again(code);
	report_lent(l.move, l.group.count, list);
	if (list) {
		out = json_pack("{s:o}", "lent", list);
		if (code)
			json_object_set_new(out, "error", attempt_json(code));
		print_document(out);
	}
	return code;
}

/* Return: the configuration file to read, or NULL if @argv from optind on says what to lend. */
static const char *parse_arguments(int argc, char **argv, struct lend_line *line)
{
	static const struct option options[] = {
		{ "as", required_argument, NULL, 'a' },
		{ "clique", required_argument, NULL, 'q' },
		{ "group", no_argument, NULL, 'g' },
		{ "anyway", no_argument, NULL, 'w' },
		{ "reset", required_argument, NULL, 'r' },
		{ "set", required_argument, NULL, 's' },
		{ "all", no_argument, NULL, 'A' },
		{ "config", required_argument, NULL, 'c' },
		{ 0 }
	};
	const char *file = NULL;
	bool named;
	int c;

	while ((c = verb_option(argc, argv, options)) != -1)
		switch (c) {
		case 'a':
			line->as = optarg;
			break;
		case 'q':
			line->clique = optarg;
			break;
		case 'g':
			line->group = true;
			break;
		case 'w':
			line->anyway = true;
			break;
		case 'r':
			line->reset = optarg;
			break;
		case 's':
			line->set = optarg;
			break;
		case 'A':
			file = path("%s/dlend.conf", opt.etc);
			break;
		case 'c':
			check_file_name("config", optarg);
			file = optarg;
			break;
		}
	named = optind < argc;
	if (named == !!file ||
	    (file && (line->as || line->clique || line->group || line->anyway || line->reset ||
		      line->set)))
		refuse_usage(argv[0]);
	return file;
}

int cmd_lend(int argc, char **argv)
{
	struct lend_line line = { 0 };
	const char *file = parse_arguments(argc, argv, &line);
	char full[16];

	if (line.as && (!bdf_parse(full, line.as) || strlen(line.as) > 7))
		fail(EXIT_USAGE, text("--as %s", line.as), "this is no bus:device.function",
		     "For example: --as 3b:00.0");
	if (line.clique && !clique_valid(line.clique))
		fail(EXIT_USAGE, text("--clique %s", line.clique),
		     "a clique is 0 to 15, none or auto", NULL);
	if (line.reset && !reset_valid(line.reset))
		fail(EXIT_USAGE, text("--reset %s", line.reset), "that is no way to reset a device",
		     "For example: --reset flr, or --reset pm,bus");
	if (line.set && !name_valid(line.set))
		fail(EXIT_USAGE, text("--set %s", line.set),
		     "a name has letters, digits, \".\", \"_\" and \"-\", 63 at most", NULL);
	if (line.as && argc - optind > 1)
		fail(EXIT_USAGE, "--as names one device", "several were given", NULL);
	for (int i = optind; i < argc; i++)
		if (!bdf_parse(full, argv[i]))
			refuse_bdf(argv[i]);
	need_root(argv[0]);
	if (file)
		return lend_config(file);
	line.which = argv[optind];
	return argc - optind > 1 ? lend_each(&line, argv + optind) : lend_command(&line);
}
