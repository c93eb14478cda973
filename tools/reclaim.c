// SPDX-License-Identifier: GPL-2.0-only
/* dlend reclaim: end what is lent and give the device back to its own driver. */
#include <errno.h>
#include <string.h>

#include "dlend.h"

static void end_lease(const struct device *dev, bool force)
{
	const char *state = attr(dev->dir, "dlend/state"), *bdf = dev->bdf;
	const char *node = node_text(attr(dev->dir, "dlend/borrower"));
	int err = 0;

	if (!strcmp(state, "held") || !strcmp(state, "returning"))
		err = write_and_wait(text("%s/dlend/reclaim", dev->dir), force ? "force\n" : "1\n",
				     text("%s: waiting for node %s to return it", bdf, node), 0);
	if (err == -EBUSY || err == -ETIMEDOUT)
		fail(EXIT_IN_USE, text("%s is not back", bdf),
		     text("node %s still uses it", node),
		     text("Shut the guest down there, or: dlend reclaim --force %s", bdf));
	if (err == -EIO)
		fail(EXIT_FAIL, text("%s is quarantined", bdf), "its reset failed",
		     text("Reboot this host, or take it as it is: dlend reclaim %s", bdf));
	if (err)
		fail(EXIT_FAIL, text("%s cannot be reclaimed", bdf), strerror(-err),
		     "The kernel's log says more: dmesg | tail");
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
	for (size_t i = 0; i < e->count; i++)
		write_text(text("%s/dlend/prepared", e->member[i].dir), word);
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
	const char *before = kept_value(dev, OVERRIDE_SETTING);
	int err = device_unbind(dev);

	if (!err)
		err = device_override(dev, before ? before : "");
	if (err)
		fail(EXIT_FAIL, text("%s cannot be reclaimed", dev->bdf),
		     err == -EINPROGRESS ? patience_over() : strerror(-err),
		     "The kernel's log says more: dmesg | tail");
	forget_value(dev, OVERRIDE_SETTING);
	reset_restore(dev);
}

static void report_reclaimed(const struct ending *e)
{
	json_t *list = json_array();

	for (size_t i = 0; i < e->count; i++) {
		const struct device *dev = &e->member[i];
		const char *driver = device_driver(dev);

		if (opt.json)
			json_array_append_new(list, json_pack("{s:s, s:o}", "device", dev->bdf,
							      "driver", ascii_json(driver)));
		else if (driver)
			printf("%s is back, driver %s\n", dev->bdf, driver);
		else
			printf("%s is back, no driver has taken it\n", dev->bdf);
	}
	if (opt.json)
		print_done("reclaimed", list, 0);
}

/* What can be given back.  A command that was not finished may have left it between two drivers. */
static bool is_taken(const struct device *dev)
{
	return device_lent(dev) || device_left(dev);
}

/* All lent functions of the group: no other driver can have one while we have another. */
static void find_members(struct ending *e, const struct device *dev)
{
	struct names all = device_group(dev);

	e->member = zeroed(all.count + 1, sizeof(*e->member));
	for (size_t i = 0; i < all.count; i++) {
		e->member[e->count] = device_open(all.name[i]);
		e->count += is_taken(&e->member[e->count]);
	}
	if (!e->count)
		e->member[e->count++] = *dev;
}

int cmd_reclaim(int argc, char **argv)
{
	struct ending e = { 0 };
	const struct verb_option options[] = { { "force", .flag = &e.force }, { 0 } };
	char **words = verb_words(argc, argv, options, 1, 1);
	struct device dev;

	check_bdf(*words);
	need_root(argv[0]);
	dev = device_open(*words);
	lock_device(&dev);
	if (!is_taken(&dev))
		fail(EXIT_NOT_FOUND, text("%s is not lent", dev.bdf), NULL,
		     "`dlend list` shows the lent devices.");
	find_members(&e, &dev);
	end_all(&e);
	for (size_t i = 0; i < e.count; i++)
		return_to_own_driver(&e.member[i]);
	for (size_t i = 0; i < e.count; i++)
		device_probe(&e.member[i]);
	report_reclaimed(&e);
	return EXIT_OK;
}
