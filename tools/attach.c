// SPDX-License-Identifier: GPL-2.0-only
/* dlend attach and detach: a device of another node in this host's own PCI tree. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "dlend.h"

static const char in_log[] = "The kernel's log says more: dmesg | tail";

/* An offer, by its address: sysfs shows what is attached there. */
struct target {
	char address[16];
	const char *dir, *attribute, *record;
};

static struct target target_open(const char *s)
{
	/* By its PCI address, too, which people see in lspci. */
	const char *offer = offer_attached_as(s);
	struct target t;

	if (!offer_parse(t.address, offer ? offer : s))
		fail(EXIT_USAGE, text("\"%s\" is no address of an offer", s), NULL,
		     "Give it as dlend list shows it, for example d0002:3b:00.0.");
	t.dir = offer_directory(t.address);
	t.attribute = text("%s/attached", t.dir);
	t.record = text("%s/dlend/attach/%s", opt.etc, t.address);
	return t;
}

/* Records: a file for each offer that is attached whenever it is there (61-dlend.rules). */

static void record_remove(const struct target *t)
{
	if (unlink(t->record) && errno != ENOENT)
		fail(EXIT_FAIL, text("%s cannot be removed", t->record), strerror(errno),
		     "The device will be attached again at the next boot.");
}

/* As JSON has it; @driver: NULL: none. */
static json_t *attached_entry(const char *address, const char *where, const char *driver)
{
	return json_pack("{s:o, s:o, s:o}", "address", ascii_json(address), "device",
			 ascii_json(where), "driver", ascii_json(driver));
}

/* Attaching */

static void check_there(const struct target *t)
{
	const char *what = text("%s cannot be attached", t->address);

	if (!path_exists(t->dir))
		fail_no_offer(text("%s is not there", t->address));
	if (!path_exists(t->attribute))
		fail(EXIT_NOT_READY, what, "the module dlend_native is not loaded",
		     "modprobe dlend_native");
	if (attr_is(t->dir, "link", "down"))
		fail(EXIT_NOT_READY, what,
		     text("the link to its lender, node %s, is down", attr(t->dir, "lender")),
		     "dlend links says why.");
}

static void check_free(const struct target *t)
{
	const char *what = text("%s is in use", t->address);
	struct names n = list_dir(t->dir);

	/* A mediated device that is made of it on this host */
	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i);

		if (path_exists(text("%s/dlend", dir)))
			fail(EXIT_IN_USE, what,
			     text("this host has it for a VM, as mediated device %s (%s)",
				  n.name[i], attr(dir, "dlend/state")),
			     text("Shut the VM down, and: mdevctl stop -u %s", n.name[i]));
	}
	offer_check_taken(t->dir, what, !attr_is(t->dir, "borrower", own_node()), NULL);
}

static void fail_attach(const struct target *t, int err)
{
	const char *other = err == -EBUSY ? "another command attaches or detaches it" :
					    strerror(-err);
	const char *why = attr(t->dir, "attach_error");
	bool in_use = err == -EBUSY || err == -EAGAIN;

	/* Another node, or another command, may have been faster than the write. */
	if (in_use)
		check_free(t);
	fail(in_use ? EXIT_IN_USE : EXIT_FAIL,
	     text("%s cannot be attached", t->address), *why ? why : other, in_log);
}

static void report_attached(const struct target *t, json_t *list)
{
	const char *where = attached_as(t->dir), *driver;
	struct device dev;

	if (!where)
		fail(EXIT_FAIL, text("%s is gone again", t->address), NULL, in_log);
	dev = device_open(where);
	device_await_driver(&dev);
	driver = device_driver(&dev);
	if (list)
		json_array_append_new(list, attached_entry(t->address, where, driver));
	else if (driver)
		printf("%s is attached as %s, driver %s\n", t->address, where, driver);
	else
		printf("%s is attached as %s, no driver has taken it\n", t->address, where);
}

static void attach_one(const struct target *t, json_t *list)
{
	int err = 0;

	check_there(t);
	if (!attached_as(t->dir)) {
		check_free(t);
		err = write_and_wait(t->attribute, "1\n", text("%s: attaching", t->address), 0);
	}
	if (err && err != -EEXIST)
		fail_attach(t, err);
	report_attached(t, list);
}

static void attach_later(const struct target *t)
{
	int err = state_write(t->record, "");

	if (err)
		fail(EXIT_FAIL, text("%s cannot be written", t->record), strerror(-err),
		     "Nothing was changed.");
	if (!path_exists(t->dir))
		progress("%s is not offered now; it will be attached when it is", t->address);
}

/* Detaching */

/* All functions of its group go, so all of them are looked at. */
static void check_unused(const char *where)
{
	struct device dev = device_open(where);
	struct names group = device_group(&dev);

	for (size_t i = 0; i < group.count; i++) {
		struct device member = device_open(group.name[i]);

		check_use(&member);
	}
}

static void detach_one(const struct target *t, bool force, json_t *list)
{
	const char *where = attached_as(t->dir);
	int err;

	if (!where)
		fail(EXIT_NOT_FOUND, text("%s is not attached here", t->address), NULL,
		     "dlend status shows what is.");
	if (!force)
		check_unused(where);
	err = write_and_wait(t->attribute, "0\n", text("%s: detaching", t->address),
			     driver_patience());
	if (err == -EINPROGRESS)
		fail(EXIT_IN_USE, text("%s is not detached yet", t->address), patience_over(),
		     "Find its user (lsof, nvidia-smi), and end it: then the device is detached by itself. dlend status shows it.");
	if (err)
		fail(EXIT_FAIL, text("%s cannot be detached", t->address), strerror(-err), in_log);
	if (list)
		json_array_append_new(list, json_string(t->address));
	else
		printf("%s is detached: its lender has it back\n", t->address);
	if (path_exists(t->record))
		progress("%s: attached again at the next boot; dlend detach --persistent ends that",
			 t->address);
}

/*
 * What one command does with one offer after the other.
 * @list: of what is done, with --json
 */
struct round {
	const struct target *t;
	bool persistent, force;
	json_t *list;
};

static void attach_next(void *arg)
{
	const struct round *r = arg;

	lock_name(r->t->address, r->t->address);
	if (r->persistent)
		attach_later(r->t);
	if (!r->persistent || path_exists(r->t->dir))
		attach_one(r->t, r->list);
}

static void detach_next(void *arg)
{
	const struct round *r = arg;

	lock_name(r->t->address, r->t->address);
	if (r->persistent)
		record_remove(r->t);
	if (!r->persistent || attached_as(r->t->dir))
		detach_one(r->t, r->force, r->list);
}

/*
 * @next: for each of @words; the first that fails is the last.  What was done before is told all
 * the same, as @key.
 */
static int run_round(struct round *r, char **argv, char **words, void (*next)(void *arg),
		     const char *key)
{
	struct target *t = NULL;
	size_t count = 0;
	int code = 0;

	for (; words[count]; count++) {
		t = grow(t, count, sizeof(*t));
		t[count] = target_open(words[count]);
	}
	need_root(argv[0]);
	r->list = opt.json ? json_array() : NULL;
	for (r->t = t; r->t < t + count && !code; r->t++)
		code = attempt(next, r);
	if (code && !json_array_size(r->list))
		fail_again(code);
	if (r->list)
		print_done(key, r->list, code);
	return code;
}

int cmd_attach(int argc, char **argv)
{
	struct round r = { 0 };
	const struct verb_option options[] = { { "persistent", .flag = &r.persistent }, { 0 } };
	char **words = verb_words(argc, argv, options, 1, ANY_NUMBER);

	return run_round(&r, argv, words, attach_next, "attached");
}

int cmd_detach(int argc, char **argv)
{
	struct round r = { 0 };
	const struct verb_option options[] = {
		{ "persistent", .flag = &r.persistent }, { "force", .flag = &r.force }, { 0 }
	};
	char **words = verb_words(argc, argv, options, 1, ANY_NUMBER);

	return run_round(&r, argv, words, detach_next, "detached");
}

/* What is attached now (dlend status) */
void show_attached(json_t *root)
{
	struct names n = list_dir(sys("bus/dlend/devices"));
	json_t *list = json_array();

	for (size_t i = 0; i < n.count; i++) {
		const char *dir = names_path(&n, i), *where = attached_as(dir), *driver;
		const char *interrupts = attr(dir, "interrupts");

		if (!where)
			continue;
		driver = attached_driver(where);
		if (root)
			json_array_append_new(list, attached_entry(n.name[i], where, driver));
		else
			printf("%s is attached as %s, driver %s%s%s\n", n.name[i], where,
			       driver ? driver : "none", *interrupts ? ", interrupts " : "",
			       interrupts);
	}
	if (root)
		json_object_set_new(root, "attached", list);
}
