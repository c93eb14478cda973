// SPDX-License-Identifier: GPL-2.0-only
/* dlend attach and detach: a device of another node in this host's own PCI tree. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlend.h"

static const char in_log[] = "The kernel's log says more: dmesg | tail";

/* An offer, by its address: sysfs shows what is attached there. */
struct target {
	char address[16];
	char *dir, *attribute, *record;
};

static struct target target_open(const char *s)
{
	char *offer = offer_attached_as(s);
	struct target t;
	bool known;

	/* By its PCI address, too, which people see in lspci. */
	known = offer_parse(t.address, offer ? offer : s);
	free(offer);
	if (!known)
		fail(EXIT_USAGE, text("\"%s\" is no address of an offer", s), NULL,
		     "Give it as dlend list shows it, for example d0002:3b:00.0.");
	t.dir = path("%s/bus/dlend/devices/%s", opt.sysfs, t.address);
	t.attribute = path("%s/attached", t.dir);
	t.record = path("%s/dlend/attach/%s", opt.etc, t.address);
	return t;
}

/* Records: a file for each offer that is attached whenever it is there (61-dlend.rules). */

static void record_make(const struct target *t)
{
	int err = state_write(t->record, "");

	if (err)
		fail(EXIT_FAIL, text("%s cannot be written", t->record), strerror(-err),
		     "Nothing was changed.");
}

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
			 ascii_json(where), "driver", ascii_json(driver ? driver : ""));
}

/* Attaching */

static void check_there(const struct target *t)
{
	char value[TEXT_MAX];

	if (!path_exists(t->dir))
		fail(EXIT_NOT_FOUND, text("%s is not there", t->address), "no node offers it",
		     "dlend list shows what is offered; dlend links, whether its lender can be reached.");
	if (!path_exists(t->attribute))
		fail(EXIT_NOT_READY, text("%s cannot be attached", t->address),
		     "the module dlend_native is not loaded", "modprobe dlend_native");
	if (!strcmp(read_attr(value, t->dir, "link"), "down"))
		fail(EXIT_NOT_READY, text("%s cannot be attached", t->address),
		     text("the link to its lender, node %s, is down",
			  read_attr(value, t->dir, "lender")),
		     "dlend links says why.");
}

/* The mediated device that is made of it on this host, and what that does; NULL: there is none. */
static const char *find_mdev(const struct target *t)
{
	struct names n = list_dir(t->dir);
	const char *found = NULL;

	for (size_t i = 0; i < n.count && !found; i++) {
		char *dir = path("%s/%s/dlend", t->dir, n.name[i]), state[TEXT_MAX];

		if (path_exists(dir))
			found = text("%s (%s)", n.name[i], read_attr(state, dir, "state"));
		free(dir);
	}
	names_free(&n);
	return found;
}

static void check_free(const struct target *t)
{
	char borrower[TEXT_MAX], node[TEXT_MAX];
	const char *mdev = find_mdev(t), *what = text("%s is in use", t->address);

	if (mdev)
		fail(EXIT_IN_USE, what,
		     text("this host has it for a VM, as mediated device %s", mdev),
		     text("Shut the VM down, and: mdevctl stop -u %.36s", mdev));
	read_attr(borrower, t->dir, "borrower");
	offer_check_taken(t->dir, what, strcmp(borrower, own_node(node)), NULL);
}

static void fail_attach(const struct target *t, int err)
{
	const char *other = err == -EBUSY ? "another command attaches or detaches it" :
					    strerror(-err);
	char why[TEXT_MAX];

	read_attr(why, t->dir, "attach_error");
	fail(err == -EBUSY || err == -EAGAIN ? EXIT_IN_USE : EXIT_FAIL,
	     text("%s cannot be attached", t->address), *why ? text("%s", why) : other,
	     in_log);
}

static void report_attached(const struct target *t, json_t *list)
{
	char where[TEXT_MAX], *driver;
	struct device dev;

	if (!read_attached(where, t->dir))
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
	free(driver);
	device_close(&dev);
}

static void attach_one(const struct target *t, json_t *list)
{
	char where[TEXT_MAX];
	int err = 0;

	check_there(t);
	if (!read_attached(where, t->dir)) {
		check_free(t);
		err = write_and_wait(t->attribute, "1\n", text("%s: attaching", t->address),
				     0);
	}
	if (err && err != -EEXIST)
		fail_attach(t, err);
	report_attached(t, list);
}

static void attach_later(const struct target *t)
{
	record_make(t);
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
		device_close(&member);
	}
	names_free(&group);
	device_close(&dev);
}

static void detach_one(const struct target *t, bool force, json_t *list)
{
	char where[TEXT_MAX];
	int err;

	if (!read_attached(where, t->dir))
		fail(EXIT_NOT_FOUND, text("%s is not attached here", t->address), NULL,
		     "dlend status shows what is.");
	if (!force)
		check_unused(where);
	err = write_and_wait(t->attribute, "0\n", text("%s: detaching", t->address),
			     driver_patience());
	if (err == -EINPROGRESS)
		fail(EXIT_IN_USE, text("%s is not detached yet", t->address), patience_over(),
		     "Look who uses it (lsof, nvidia-smi), and end that: then it is detached by itself. dlend status shows it.");
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

/* Arguments */

/* @force is NULL where there is no such option.  Return: the offers, one for each argument left */
static struct target *parse_arguments(int argc, char **argv, bool *persistent, bool *force)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },
		{ "persistent", no_argument, NULL, 'p' },
		{ 0 }
	};
	struct target *t;
	int c;

	while ((c = verb_option(argc, argv, force ? options : options + 1)) != -1)
		*(c == 'f' ? force : persistent) = true;
	if (optind == argc)
		refuse_usage(argv[0]);
	t = calloc(argc - optind, sizeof(*t));
	if (!t)
		abort();
	for (int i = optind; i < argc; i++)
		t[i - optind] = target_open(argv[i]);
	need_root(argv[0]);
	return t;
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
	char where[TEXT_MAX];

	lock_name(r->t->address, r->t->address);
	if (r->persistent)
		record_remove(r->t);
	if (!r->persistent || read_attached(where, r->t->dir))
		detach_one(r->t, r->force, r->list);
}

/* The first that fails is the last.  What was done before is told all the same, as @key. */
static int run_round(struct round *r, size_t count, void (*next)(void *arg), const char *key)
{
	json_t *out;
	int code = 0;

	r->list = opt.json ? json_array() : NULL;
	for (; count && !code; count--, r->t++)
		code = attempt(next, r);
	if (code && !json_array_size(r->list))
		fail_again(code);
	if (r->list) {
		out = json_pack("{s:o}", key, r->list);
		if (code)
			json_object_set_new(out, "error", attempt_json(code));
		print_document(out);
	}
	return code;
}

int cmd_attach(int argc, char **argv)
{
	struct round r = { 0 };

	r.t = parse_arguments(argc, argv, &r.persistent, NULL);
	return run_round(&r, argc - optind, attach_next, "attached");
}

int cmd_detach(int argc, char **argv)
{
	struct round r = { 0 };

	r.t = parse_arguments(argc, argv, &r.persistent, &r.force);
	return run_round(&r, argc - optind, detach_next, "detached");
}

/* What is attached now (dlend status) */

void show_attached(json_t *root)
{
	json_t *list = root ? json_array() : NULL;
	char *bus = path("%s/bus/dlend/devices", opt.sysfs);
	struct names n = list_dir(bus);

	for (size_t i = 0; i < n.count; i++) {
		char *dir = path("%s/%s", bus, n.name[i]), where[TEXT_MAX], *driver;
		bool there = read_attached(where, dir);
		char interrupts[TEXT_MAX];

		read_attr(interrupts, dir, "interrupts");
		free(dir);
		if (!there)
			continue;
		driver = attached_driver(where);
		if (list)
			json_array_append_new(list, attached_entry(n.name[i], where, driver));
		else
			printf("%s is attached as %s, driver %s%s%s\n", n.name[i], where,
			       driver ? driver : "none", *interrupts ? ", interrupts " : "",
			       interrupts);
		free(driver);
	}
	if (root)
		json_object_set_new(root, "attached", list);
	names_free(&n);
	free(bus);
}
