// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend borrow and return: a mediated device for a VM, by hand or from libvirt's hook
 * (dist/libvirt-mdevs).  It is of the device that is named, or of any of a type: the first that
 * this host can have, and one that is reserved for this mediated device before others.
 *
 * Its lender gives the device to one host only, and as soon as the VMM opens it (prepin): so from
 * then on all hosts see that it is not free.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

/* Return: its exit status */
static int run_mdevctl(const char *const *words)
{
	int status;

	if (opt.fake)
		setenv("MDEVCTL_ENV_ROOT", root_directory(), 1);
	status = child_run(words);
	if (status == CHILD_MISSING)
		fail(EXIT_NOT_READY, "mdevctl cannot be run", "it is not there", "Install it.");
	return status;
}

static void stop_mdev(const char *uuid)
{
	const char *const words[] = { "mdevctl", "stop", "-u", uuid, NULL };

	run_mdevctl(words);
}

/* What a mediated device that was just made is not good for.  Return: NULL, or why */
static const char *prepare_mdev(const char *uuid)
{
	char *dir = mdev_directory(uuid), *prepin = path("%s/prepin", dir), state[TEXT_MAX];
	int err = write_text(prepin, "open\n");
	const char *why = NULL;

	read_attr(state, dir, "dlend/state");
	if (err)
		why = text("prepin cannot be set: %s", strerror(-err));
	else if (!strncmp(state, "taken: ", strlen("taken: ")))
		why = text("%s", state + strlen("taken: "));
	free(prepin);
	free(dir);
	return why;
}

/* Return: NULL, or why there is none: another command or another host may have been faster */
static const char *make_mdev(char *address, const char *uuid)
{
	char *dir = path("%s/bus/dlend/devices/%s", opt.sysfs, address), type[TEXT_MAX];
	const char *const words[] = {
		"mdevctl", "start", "-u", uuid, "-p", address, "--type",
		read_attr(type, dir, "type"), NULL
	};
	const char *why;

	free(dir);
	if (run_mdevctl(words)) {
		why = offer_obstacle(address, uuid);
		return why ? why : "mdevctl does not start it";
	}
	why = prepare_mdev(uuid);
	if (why)
		stop_mdev(uuid);
	return why;
}

/* Of a device that was named.  Return: its address */
static char *borrow_named(const char *what, const char *uuid)
{
	char full[16], *address;
	const char *why;

	offer_parse(full, what);
	address = path("%s", full);

	offer_check(address, uuid);
	why = make_mdev(address, uuid);
	if (why)
		fail(EXIT_FAIL, text("%s cannot be borrowed", address), why,
		     "`dlend list` shows who has it.");
	return address;
}

/* In which turn a device of a type is tried */
enum turn { RESERVED_FOR_IT, FREE, ANY_OTHER, TURNS };

static enum turn turn_of(const char *bus, const char *address, const char *uuid)
{
	char *dir = path("%s/%s", bus, address), state[TEXT_MAX], vm[TEXT_MAX];
	enum turn turn = ANY_OTHER;

	read_attr(state, dir, "state");
	if (!strcmp(state, "free"))
		turn = FREE;
	else if (!strcmp(state, "reserved") && !strcasecmp(read_attr(vm, dir, "reserved"), uuid))
		turn = RESERVED_FOR_IT;
	free(dir);
	return turn;
}

/* Return: the offers of a type */
static struct names offers_alike(const char *bus, const char *type)
{
	char value[TEXT_MAX];
	struct names all = list_dir(bus), alike = { 0 };

	for (size_t i = 0; i < all.count; i++) {
		char *dir = path("%s/%s", bus, all.name[i]);

		if (!strcmp(read_attr(value, dir, "type"), type))
			names_add(&alike, all.name[i]);
		free(dir);
	}
	names_free(&all);
	return alike;
}

/*
 * Offers of a type, in the order in which they are tried.  Hosts begin at different ones, so that
 * two that choose at the same moment do not choose the same.
 */
static struct names offers_of(const char *bus, const char *type, const char *uuid)
{
	char value[TEXT_MAX];
	struct names alike = offers_alike(bus, type), found = { 0 };
	unsigned long first = strtoul(own_node(value), NULL, 10);

	for (enum turn turn = 0; turn < TURNS; turn++)
		for (size_t i = 0; i < alike.count; i++) {
			const char *address = alike.name[(first + i) % alike.count];

			if (turn_of(bus, address, uuid) == turn)
				names_add(&found, address);
		}
	names_free(&alike);
	return found;
}

/* Return: NULL, or why it cannot be chosen */
static const char *refusal(const char *bus, const char *address, const char *uuid)
{
	const char *why = offer_obstacle(address, uuid);
	char *dir = path("%s/%s", bus, address), state[TEXT_MAX];

	if (!why && !strcmp(read_attr(state, dir, "state"), "held"))
		why = "it is another VM's, which moves to this host";
	free(dir);
	return why;
}

/* Return: the address of the one that was chosen */
static char *borrow_any(const char *type, const char *uuid)
{
	char *bus = path("%s/bus/dlend/devices", opt.sysfs);
	struct names found = offers_of(bus, type, uuid);
	const char *all = "", *why;

	for (size_t i = 0; i < found.count; i++) {
		why = refusal(bus, found.name[i], uuid);
		if (!why)
			why = make_mdev(found.name[i], uuid);
		if (!why)
			return found.name[i];
		all = text("%s%s%s: %s", all, *all ? "; " : "", found.name[i], why);
	}
	if (!found.count)
		fail(EXIT_NOT_FOUND, text("there is no %s", type), "no node offers one",
		     "dlend list shows what is offered; dlend links, whether its lender can be reached.");
	fail(EXIT_IN_USE, text("no %s can be borrowed", type), all,
	     "Shut down a VM that has one, or have another one lent.");
}

static void check_new(const char *uuid)
{
	char *dir = mdev_directory(uuid);

	if (path_exists(dir))
		fail(EXIT_IN_USE, text("%s is there already", uuid),
		     text("it is a mediated device of %s", mdev_parent(uuid)),
		     text("To give it back: dlend return %s", uuid));
	free(dir);
}

/*
 * One mediated device that is to be made.
 * @what: address of an offer, or a type
 * @address: of the offer that it was made of
 */
struct wish {
	const char *what, *uuid;
	char *address;
};

static void borrow_one(void *arg)
{
	struct wish *w = arg;

	w->address = type_valid(w->what) ? borrow_any(w->what, w->uuid) :
					   borrow_named(w->what, w->uuid);
}

/* All or none: one that cannot be had must not keep the others from other hosts. */
static void borrow_all(struct wish *wish, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int code = attempt(borrow_one, &wish[i]);

		if (!code)
			continue;
		while (i--)
			stop_mdev(wish[i].uuid);
		fail_again(code);
	}
}

static json_t *wish_json(const struct wish *w, const char *device)
{
	return json_pack("{s:o, s:s, s:s}", "address", ascii_json(w->address), "uuid", w->uuid,
			 "device", device);
}

static void report_borrowed(const struct wish *wish, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++) {
		const struct wish *w = &wish[i];
		const char *device = text("vfio-pci,sysfsdev=/sys/bus/mdev/devices/%s", w->uuid);

		if (opt.json)
			json_array_append_new(list, wish_json(w, device));
		else
			printf("%s is borrowed as %s. For QEMU:\n  -device %s\n", w->address,
			       w->uuid, device);
	}
	if (opt.json)
		print_document(count > 1 ? json_pack("{s:o}", "borrowed", list) :
					   json_incref(json_array_get(list, 0)));
}

/* @uuid: of the only one, or NULL */
static struct wish *parse_wishes(char **what, size_t count, const char *uuid)
{
	struct wish *wish = calloc(count, sizeof(*wish));
	char address[16];

	if (!wish)
		abort();
	for (size_t i = 0; i < count; i++) {
		if (!type_valid(what[i]) && !offer_parse(address, what[i]))
			fail(EXIT_USAGE, text("\"%s\" is no address of an offer, and no type",
					      what[i]), NULL,
			     "Give one as dlend list shows it, for example d0002:3b:00.0 or dlend-gpu.");
		wish[i].what = what[i];
		wish[i].uuid = uuid ? uuid : uuid_new();
	}
	return wish;
}

int cmd_borrow(int argc, char **argv)
{
	static const struct option options[] = {
		{ "uuid", required_argument, NULL, 'u' },
		{ 0 }
	};
	const char *uuid = NULL;
	struct wish *wish;
	size_t count;
	int c;

	while ((c = verb_option(argc, argv, options)) != -1)
		uuid = uuid_parse(optarg);
	if (optind == argc)
		refuse_usage(argv[0]);
	count = argc - optind;
	if (uuid && count > 1)
		fail(EXIT_USAGE, "--uuid names one device", "several were given", NULL);
	wish = parse_wishes(argv + optind, count, uuid);
	need_root(argv[0]);
	if (uuid)
		check_new(uuid);
	borrow_all(wish, count);
	report_borrowed(wish, count);
	free(wish);
	return EXIT_OK;
}

/* Returning */

/* mdevctl would have the guest let go of it, and wait for that. */
static void check_closed(const char *dir, const char *uuid)
{
	const char *user = mdev_user(dir, NULL);

	if (user)
		fail(EXIT_IN_USE, text("%s is in use", uuid), user, "Shut that VM down first.");
}

int cmd_return(int argc, char **argv)
{
	const char *uuid, *address;
	char *dir, *own;

	while (verb_option(argc, argv, NULL) != -1)
		;
	if (argc - optind != 1)
		refuse_usage(argv[0]);
	uuid = uuid_parse(argv[optind]);
	need_root(argv[0]);
	dir = mdev_directory(uuid);
	own = path("%s/dlend", dir);
	if (!path_exists(own))
		fail(EXIT_NOT_FOUND, text("%s: no such mediated device", uuid),
		     "dlend has none of that UUID on this node", "dlend status lists them.");
	address = mdev_parent(uuid);
	check_closed(dir, uuid);
	stop_mdev(uuid);
	if (path_exists(dir))
		fail(EXIT_FAIL, text("%s cannot be returned", uuid), "mdevctl does not stop it",
		     "The kernel's log says more: dmesg | tail");
	if (opt.json)
		print_document(json_pack("{s:o, s:s}", "address", ascii_json(address),
					 "uuid", uuid));
	else
		printf("%s is returned, and %s is gone\n", address, uuid);
	free(own);
	free(dir);
	return EXIT_OK;
}
