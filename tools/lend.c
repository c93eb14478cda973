// SPDX-License-Identifier: GPL-2.0-only
/* dlend lend: take devices from their drivers and offer them to the other nodes. */
#include <errno.h>
#include <string.h>

#include "dlend.h"

#define LEND_AS	"bus/pci/drivers/" DLEND_DRIVER "/lend_as"

/* Sets the bus:device.function by which other nodes will know the device. */
static void set_name(const struct device *dev, const char *as)
{
	int err = write_text(sys(LEND_AS), text("%s %s\n", dev->bdf, as));

	if (err)
		fail(EXIT_FAIL, text("%s: cannot be lent as %s", dev->bdf, as), strerror(-err),
		     "Choose a bus:device.function that no other lent device of this host has.");
}

/* The name that the kernel has for it; "" if there is none. */
static const char *read_name(const struct device *dev)
{
	char *rest = read_all(sys(LEND_AS)), *line;
	char as[16] = "";

	while ((line = next_line(&rest)))
		if (!strncmp(line, dev->bdf, strlen(dev->bdf)))
			sscanf(line + strlen(dev->bdf), "%15s", as);
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
static void check_name(const struct device *dev, size_t count)
{
	if (!is_in_domain_0(dev->bdf) && !*read_name(dev))
		fail(EXIT_USAGE, text("%s is outside this host's PCI domain 0", dev->bdf),
		     "other nodes know a device by bus:device.function only",
		     count == 1 ? text("Give it one: dlend lend --as BB:DD.F %s", dev->bdf) :
		     text("Give all its group one: echo %s BB:DD.F > /sys/%s", dev->bdf, LEND_AS));
}

/* What becomes of a device when what belongs to it could not be written. */
static const char *as_it_is(const struct device *dev)
{
	return device_preparing(dev) ? "It is not offered yet." : "It is lent all the same.";
}

/* The device is bound already, and stays so.  @name: "clique" or "set" */
static void set_attribute(const struct device *dev, const char *name, const char *value)
{
	const char *what = text("%s cannot have the %s %s", dev->bdf, name, value);
	int err = write_text(text("%s/dlend/%s", dev->dir, name), value);

	if (err == -ENOENT)
		fail(EXIT_NOT_READY, what, "dlend_lender is too old for it",
		     text("%s Load the modules of this version, and lend it again.",
			  as_it_is(dev)));
	if (err)
		fail(EXIT_FAIL, what, strerror(-err),
		     text("%s To try again: dlend lend --%s %s %s", as_it_is(dev), name, value,
			  dev->bdf));
}

/* All that others have to know of it is written.  An older dlend_lender has offered it already. */
static void offer(const struct device *dev)
{
	int err = write_text(text("%s/dlend/prepared", dev->dir), "1");

	if (err && err != -ENOENT)
		fail(EXIT_FAIL, text("%s cannot be offered", dev->bdf), strerror(-err),
		     text("It is bound, but no node can borrow it. To try again: dlend lend %s",
			  dev->bdf));
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

/* Restores the reset methods of all devices that are not lent. */
static void restore_resets(const struct lending *l)
{
	for (size_t i = 0; i < l->group.count; i++) {
		struct device dev;

		/* It may have been unplugged meanwhile. */
		if (!path_exists(sys("bus/pci/devices/%s", l->group.name[i])))
			continue;
		dev = device_open(l->group.name[i]);
		if (!device_lent(&dev))
			reset_restore(&dev);
	}
}

/* An older dlend_lender has no such attribute; and nothing changes for one that is offered. */
static void write_identity(const struct device *dev, const char *identity)
{
	int err = 0;

	if (*identity && device_preparing(dev))
		err = write_text(text("%s/dlend/identity", dev->dir), identity);
	if (err && err != -ENOENT)
		fail(EXIT_FAIL, text("%s cannot have the identity %s", dev->bdf, identity),
		     strerror(-err),
		     text("%s To try again: dlend lend %s", as_it_is(dev), dev->bdf));
}

static void write_attributes(const struct lending *l)
{
	const struct lend_line *line = l->line;
	size_t i;

	for (i = 0; i < l->group.count; i++)
		write_identity(&l->move[i].dev, l->identity.name[i]);
	for (i = 0; i < l->group.count; i++)
		reserve_again(&l->move[i].dev);
	for (i = 0; line->set && i < l->group.count; i++)
		set_attribute(&l->move[i].dev, "set", line->set);
	/* All devices of a group go to one VM, so all get the same clique. */
	for (i = 0; line->clique && i < l->group.count; i++)
		set_attribute(&l->move[i].dev, "clique", line->clique);
}

/* What goes with it: of its IOMMU group, without what is gone when its own driver has left it. */
static struct names lent_together(const struct device *dev)
{
	struct names all = device_group(dev), behind = devices_behind(dev), group = { 0 };

	for (size_t i = 0; i < all.count; i++)
		if (!names_have(&behind, all.name[i]))
			names_add(&group, all.name[i]);
	return group;
}

static void check_group(const struct lending *l, const struct device *dev)
{
	const char *others = group_others(dev, &l->group);

	if (*others && !l->line->group)
		fail(EXIT_UNFIT, text("%s cannot be lent alone", dev->bdf),
		     text("the IOMMU cannot tell it from %s (same group)", others),
		     text("Lend them together, to one VM at a time: dlend lend --group %s",
			  dev->bdf));
	for (size_t i = 0; i < l->group.count; i++) {
		struct device member = device_open(l->group.name[i]);

		check_above(&member);
		if (!l->line->anyway)
			check_hazard(&member);
	}
	if (l->line->as && l->group.count > 1)
		fail(EXIT_USAGE, "--as names one device", "this group has several", NULL);
}

static void lend_device(void *arg)
{
	struct lending *l = arg;
	const struct lend_line *line = l->line;
	struct device dev = device_open(l->bdf);
	size_t i;

	lock_device(&dev);
	check_node();
	identity_check(line, &dev);
	check_kind(&dev);
	check_above(&dev);
	l->group = lent_together(&dev);
	for (i = 0; line->reset && i < l->group.count; i++) {
		struct device member = device_open(l->group.name[i]);

		reset_choose(&member, line->reset);
	}
	check_device(&dev);
	check_group(l, &dev);
	for (i = 0; i < l->group.count; i++) {
		struct device member = device_open(l->group.name[i]);

		if (!line->as)
			check_name(&member, l->group.count);
		/* While its driver has it. */
		names_add(&l->identity, identity_of(&member));
	}
	l->move = move_plan(&l->group);
	if (line->as)
		set_name(&dev, line->as);
	for (i = 0; !line->as && i < l->group.count; i++)
		forget_name(&l->move[i].dev);
	move_take(l->move, l->group.count);
	l->done = !device_preparing(&dev);
	write_attributes(l);
	for (i = 0; i < l->group.count; i++)
		offer(&l->move[i].dev);
	l->done = true;
}

/* On standard output, or into @list if it is not NULL. */
static void report_lent(const struct lending *l, json_t *list)
{
	for (size_t i = 0; i < l->group.count; i++) {
		const struct device *dev = &l->move[i].dev;
		const char *name = attr(dev->dir, "dlend/fabric_name");
		const char *type = attr(dev->dir, "dlend/type");

		if (list)
			json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "device", dev->bdf,
							      "address", name, "type", type));
		else
			printf("%s is lent as %s, type %s\n", dev->bdf, *name ? name : "?",
			       *type ? type : "?");
	}
}

/* Lends many devices.  If one fails, the others are lent all the same. */
struct round {
	struct names seen;		/* that an earlier line or group had */
	size_t lent, failures;
	json_t *list, *failed;		/* of what is lent, and not, with --json */
};

static struct round round_begin(void)
{
	return (struct round){ .list = opt.json ? json_array() : NULL, .failed = json_array() };
}

static void lend_and_report(struct round *r, const struct lend_line *line, const char *bdf)
{
	struct lending l = { .line = line, .bdf = bdf };

	if (names_have(&r->seen, bdf))
		return;
	if (attempt(lend_device, &l)) {
		json_array_append_new(r->failed, json_pack("{s:o, s:o}", "device", ascii_json(bdf),
							   "why", ascii_json(attempt_failure())));
		r->failures++;
		restore_resets(&l);
	}
	names_add(&r->seen, bdf);
	if (!l.done)
		return;
	for (size_t i = 0; i < l.group.count; i++)
		names_add(&r->seen, l.group.name[i]);
	r->lent += l.group.count;
	report_lent(&l, r->list);
}

static int round_end(const struct round *r)
{
	if (r->list)
		print_document(json_pack("{s:o, s:O}", "lent", r->list, "failed", r->failed));
	if (r->failures)
		progress("%zu lent, %zu failed", r->lent, r->failures);
	return r->failures ? EXIT_FAIL : EXIT_OK;
}

/* @what: for a message, as "cannot be limited to node 3" */
static void set_link(const struct link_line *line, const char *file, const char *name,
		     const char *value, const char *what)
{
	int err = write_text(sys("class/dlend_link/%s/%s", line->ntb, name), value);

	if (err)
		fail(err == -ENOENT ? EXIT_NOT_FOUND : EXIT_FAIL,
		     text("%s, line %u", file, line->number),
		     text("the link %s %s: %s", line->ntb, what,
			  err == -ENOENT ? "there is no such link" : strerror(-err)),
		     "dlend links shows the links; nothing was lent.");
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
	struct round r = round_begin();

	set_links(&c, file);
	for (size_t i = 0; i < c.count; i++) {
		struct names found = config_matches(&c.line[i]);

		if (!found.count)
			progress("%s, line %u: no device of this host is %s", file,
				 c.line[i].number, c.line[i].which);
		for (size_t k = 0; k < found.count; k++)
			lend_and_report(&r, &c.line[i], found.name[k]);
	}
	return round_end(&r);
}

static int lend_command(const struct lend_line *line)
{
	struct lending l = { .line = line, .bdf = line->which };
	json_t *list = opt.json ? json_array() : NULL;
	int code = attempt(lend_device, &l);

	if (code)
		restore_resets(&l);
	if (!l.done)
		fail_again(code);
	report_lent(&l, list);
	if (list)
		print_done("lent", list, code);
	return code;
}

static void check_line(const struct lend_line *line)
{
	if (line->as && !as_valid(line->as))
		fail(EXIT_USAGE, text("--as %s", line->as), "this is no bus:device.function",
		     "For example: --as 3b:00.0");
	if (line->clique && !clique_valid(line->clique))
		fail(EXIT_USAGE, text("--clique %s", line->clique),
		     "a clique is 0 to 15, none or auto", NULL);
	if (line->reset && !reset_valid(line->reset))
		fail(EXIT_USAGE, text("--reset %s", line->reset),
		     "that is no way to reset a device",
		     "For example: --reset flr, or --reset pm,bus");
	if (line->set && !name_valid(line->set))
		fail(EXIT_USAGE, text("--set %s", line->set),
		     "a name has letters, digits, \".\", \"_\" and \"-\", 63 at most", NULL);
}

int cmd_lend(int argc, char **argv)
{
	struct lend_line line = { 0 };
	const char *file = NULL;
	bool all = false;
	const struct verb_option options[] = {
		{ "as", &line.as }, { "clique", &line.clique }, { "reset", &line.reset },
		{ "set", &line.set }, { "config", &file }, { "group", .flag = &line.group },
		{ "anyway", .flag = &line.anyway }, { "all", .flag = &all }, { 0 }
	};
	char **which = verb_words(argc, argv, options, 0, ANY_NUMBER), full[16];
	struct round r = round_begin();

	check_file_name("config", file);
	if (all)
		file = text("%s/dlend.conf", opt.etc);
	if (!*which == !file || (file && (line.as || line.clique || line.group || line.anyway ||
					  line.reset || line.set)))
		refuse_usage(argv[0]);
	check_line(&line);
	if (line.as && which[0] && which[1])
		fail(EXIT_USAGE, "--as names one device", "several were given", NULL);
	for (char **w = which; *w; w++)
		check_bdf(*w);
	need_root(argv[0]);
	if (file)
		return lend_config(file);
	line.which = *which;
	if (!which[1])
		return lend_command(&line);
	for (; *which; which++) {
		bdf_parse(full, *which);
		lend_and_report(&r, &line, full);
	}
	return round_end(&r);
}
