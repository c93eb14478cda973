// SPDX-License-Identifier: GPL-2.0-only
/* dlend reclaim: end what is lent and give the device back to its own driver. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

static void end_lease(const struct device *dev, bool force)
{
	char *dir = path("%s/dlend", dev->dir);
	char *file = path("%s/reclaim", dir);
	char state[TEXT_MAX], borrower[TEXT_MAX];
	const char *node;
	int err = 0;

	read_attr(state, dir, "state");
	node = node_text(read_attr(borrower, dir, "borrower"));
	if (!strcmp(state, "held") || !strcmp(state, "returning"))
		err = write_and_wait(file, force ? "force\n" : "1\n",
				     text("%s: waiting for node %s to return it", dev->bdf, node),
				     0);
	if (err == -EBUSY || err == -ETIMEDOUT)
		fail(EXIT_IN_USE, text("%s is not back", dev->bdf),
		     text("node %s still uses it", node),
		     text("Shut the guest down there, or: dlend reclaim --force %s",
			  dev->bdf));
	if (err == -EIO)
		fail(EXIT_FAIL, text("%s is quarantined", dev->bdf), "its reset failed",
		     text("Reboot this host, or take it as it is: dlend reclaim %s", dev->bdf));
	if (err)
		fail(EXIT_FAIL, text("%s cannot be reclaimed", dev->bdf), strerror(-err),
		     "The kernel's log says more: dmesg | tail");
	free(file);
	free(dir);
}

/* The functions that go back. */
struct ending {
	struct device *member;
	size_t count;
	bool force;
};

/*
 * Before it is asked for: who got it between its return and its unbinding would be cut off.  An
 * older dlend_lender cannot do that.  @word: "0": nobody gets it any more; "1": as before
 */
static void write_offered(const struct ending *e, const char *word)
{
	for (size_t i = 0; i < e->count; i++) {
		char *file = path("%s/dlend/prepared", e->member[i].dir);

		write_text(file, word);
		free(file);
	}
}

static void end_leases(void *arg)
{
	const struct ending *e = arg;

	for (size_t i = 0; i < e->count; i++)
		end_lease(&e->member[i], e->force);
}

/* All of them, or it exits with a message, and others can have them as before. */
static void end_all(struct ending *e)
{
	bool offered = !device_preparing(&e->member[0]);
	int code;

	write_offered(e, "0");
	code = attempt(end_leases, e);
	if (code && offered)
		write_offered(e, "1");
	if (code)
		fail_again(code);
}

static void return_to_own_driver(const struct device *dev)
{
	char before[TEXT_MAX];
	int err = device_unbind(dev);

	if (!err)
		err = device_override(dev, kept_value(before, dev, OVERRIDE_SETTING) ? before : "");
	if (err)
		fail(EXIT_FAIL, text("%s cannot be reclaimed", dev->bdf),
		     err == -EINPROGRESS ? patience_over() : strerror(-err),
		     "The kernel's log says more: dmesg | tail");
	forget_value(dev, OVERRIDE_SETTING);
	reset_restore(dev);
}

static void report_reclaimed(const struct names *bdf)
{
	json_t *list = opt.json ? json_array() : NULL;

	for (size_t i = 0; i < bdf->count; i++) {
		struct device dev = device_open(bdf->name[i]);
		char *driver = device_driver(&dev);

		if (list)
			json_array_append_new(list,
					      json_pack("{s:s, s:o}", "device", dev.bdf, "driver",
							ascii_json(driver ? driver : "")));
		else if (driver)
			printf("%s is back, driver %s\n", dev.bdf, driver);
		else
			printf("%s is back, no driver has taken it\n", dev.bdf);
		free(driver);
		device_close(&dev);
	}
	if (list)
		print_document(json_pack("{s:o}", "reclaimed", list));
}

static const char *parse_arguments(int argc, char **argv, bool *force)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },
		{ 0 }
	};
	char full[16];

	while (verb_option(argc, argv, options) != -1)
		*force = true;
	if (argc - optind != 1)
		refuse_usage(argv[0]);
	if (!bdf_parse(full, argv[optind]))
		refuse_bdf(argv[optind]);
	need_root(argv[0]);
	return argv[optind];
}

/* What can be given back.  A command that was not finished may have left it between two drivers. */
static bool is_taken(const struct device *dev)
{
	return device_lent(dev) || device_left(dev);
}

/* All lent functions of the group: no other driver can have one while we have another. */
static struct names lent_group(const struct device *dev)
{
	struct names all = device_group(dev), lent = { 0 };

	for (size_t i = 0; i < all.count; i++) {
		struct device member = device_open(all.name[i]);

		if (is_taken(&member))
			names_add(&lent, member.bdf);
		device_close(&member);
	}
	names_free(&all);
	if (!lent.count)
		names_add(&lent, dev->bdf);
	return lent;
}

int cmd_reclaim(int argc, char **argv)
{
	struct ending e = { 0 };
	struct names group;
	struct device dev;

	dev = device_open(parse_arguments(argc, argv, &e.force));
	lock_device(&dev);
	if (!is_taken(&dev))
		fail(EXIT_NOT_FOUND, text("%s is not lent", dev.bdf), NULL,
		     "`dlend list` shows what is.");
	group = lent_group(&dev);
	e.count = group.count;
	e.member = calloc(e.count, sizeof(*e.member));
	if (!e.member)
		abort();
	for (size_t i = 0; i < e.count; i++)
		e.member[i] = device_open(group.name[i]);
	end_all(&e);
	for (size_t i = 0; i < e.count; i++)
		return_to_own_driver(&e.member[i]);
	for (size_t i = 0; i < e.count; i++)
		device_probe(&e.member[i]);
	report_reclaimed(&group);
	return EXIT_OK;
}
