// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend borrow and return: a mediated device for a VM, by hand or from libvirt's hook
 * (dist/libvirt-mdevs).  It is of the device that is named, or of any of a type: the first that
 * this host can have, and one that is reserved for this mediated device before others.
 *
 * Its lender gives the device to one host only, and as soon as the VMM opens it (prepin): so from
 * then on all hosts see that it is not free.
 */
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
	const char *dir = mdev_directory(uuid), *state;
	int err = write_text(text("%s/prepin", dir), "open\n");

	if (err)
		return text("prepin cannot be set: %s", strerror(-err));
	state = attr(dir, "dlend/state");
	return !strncmp(state, "taken: ", strlen("taken: ")) ? state + strlen("taken: ") : NULL;
}

/* Return: NULL, or why there is none: another command or another host may have been faster */
static const char *make_mdev(const char *address, const char *uuid)
{
	const char *const words[] = {
		"mdevctl", "start", "-u", uuid, "-p", address, "--type",
		attr(offer_directory(address), "type"), NULL
	};
	const char *why;

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
static const char *borrow_named(const char *what, const char *uuid)
{
	char address[16];
	const char *why;

	offer_parse(address, what);
	offer_check(address, uuid);
	why = make_mdev(address, uuid);
	if (why)
		fail(EXIT_FAIL, text("%s cannot be borrowed", address), why,
		     "`dlend list` shows who has it.");
	return text("%s", address);
}

/* In which turn a device of a type is tried */
enum turn { RESERVED_FOR_IT, FREE, ANY_OTHER, TURNS };

static enum turn turn_of(const char *dir, const char *uuid)
{
	if (attr_is(dir, "state", "free"))
		return FREE;
	return attr_is(dir, "state", "reserved") && !strcasecmp(attr(dir, "reserved"), uuid) ?
	       RESERVED_FOR_IT : ANY_OTHER;
}

/*
 * Offers of a type, in the order in which they are tried.  Hosts begin at different ones, so that
 * two that choose at the same moment do not choose the same.
 */
static struct names offers_of(const char *type, const char *uuid)
{
	struct names all = list_dir(sys("bus/dlend/devices")), alike = { 0 }, found = { 0 };
	unsigned long first = strtoul(own_node(), NULL, 10);

	for (size_t i = 0; i < all.count; i++)
		if (attr_is(names_path(&all, i), "type", type))
			names_add(&alike, all.name[i]);
	for (enum turn turn = 0; turn < TURNS; turn++)
		for (size_t i = 0; i < alike.count; i++) {
			const char *address = alike.name[(first + i) % alike.count];

			if (turn_of(offer_directory(address), uuid) == turn)
				names_add(&found, address);
		}
	return found;
}

/* Return: the address of the one that was chosen */
static const char *borrow_any(const char *type, const char *uuid)
{
	struct names found = offers_of(type, uuid);
	const char *all = "", *why;

	for (size_t i = 0; i < found.count; i++) {
		why = offer_obstacle(found.name[i], uuid);
		if (!why && attr_is(offer_directory(found.name[i]), "state", "held"))
			why = "it is another VM's, which moves to this host";
		if (!why)
			why = make_mdev(found.name[i], uuid);
		if (!why)
			return found.name[i];
		all = text("%s%s%s: %s", all, *all ? "; " : "", found.name[i], why);
	}
	if (!found.count)
		fail(EXIT_NOT_FOUND, text("there is no %s", type), "no node offers one",
		     "dlend list shows the offers; dlend links shows whether the lender can be reached.");
	fail(EXIT_IN_USE, text("no %s can be borrowed", type), all,
	     "Shut down a VM that has one, or lend another one.");
}

/*
 * One mediated device that is to be made.
 * @what: address of an offer, or a type
 * @address: of the offer that it was made of
 */
struct wish {
	const char *what, *uuid, *address;
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

static void report_borrowed(const struct wish *wish, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++) {
		const struct wish *w = &wish[i];
		const char *device = text("vfio-pci,sysfsdev=/sys/bus/mdev/devices/%s", w->uuid);

		if (opt.json)
			json_array_append_new(list, json_pack("{s:o, s:s, s:s}", "address",
							      ascii_json(w->address), "uuid",
							      w->uuid, "device", device));
		else
			printf("%s is borrowed as %s. For QEMU:\n  -device %s\n", w->address,
			       w->uuid, device);
	}
	if (opt.json)
		print_document(count > 1 ? json_pack("{s:o}", "borrowed", list) :
					   json_incref(json_array_get(list, 0)));
}

int cmd_borrow(int argc, char **argv)
{
	const char *uuid = NULL;
	const struct verb_option options[] = { { "uuid", &uuid }, { 0 } };
	char **words = verb_words(argc, argv, options, 1, ANY_NUMBER), address[16];
	struct wish *wish = NULL;
	size_t count = 0;

	if (uuid)
		uuid = uuid_parse(uuid);
	if (uuid && words[1])
		fail(EXIT_USAGE, "--uuid names one device", "several were given", NULL);
	for (; words[count]; count++) {
		if (!type_valid(words[count]) && !offer_parse(address, words[count]))
			fail(EXIT_USAGE, text("\"%s\" is no address of an offer, and no type",
					      words[count]), NULL,
			     "Give one as dlend list shows it, for example d0002:3b:00.0 or dlend-gpu.");
		wish = grow(wish, count, sizeof(*wish));
		wish[count] = (struct wish){ words[count], uuid ? uuid : uuid_new(), NULL };
	}
	need_root(argv[0]);
	if (uuid && path_exists(mdev_directory(uuid)))
		fail(EXIT_IN_USE, text("%s is there already", uuid),
		     text("it is a mediated device of %s", mdev_parent(uuid)),
		     text("To give it back: dlend return %s", uuid));
	borrow_all(wish, count);
	report_borrowed(wish, count);
	return EXIT_OK;
}

int cmd_return(int argc, char **argv)
{
	const char *uuid = uuid_parse(*verb_words(argc, argv, NULL, 1, 1));
	const char *dir = mdev_directory(uuid), *address, *user;

	need_root(argv[0]);
	if (!path_exists(text("%s/dlend", dir)))
		fail_no_mdev(uuid);
	address = mdev_parent(uuid);
	/* mdevctl would have the guest let go of it, and wait for that. */
	user = mdev_user(dir, NULL);
	if (user)
		fail(EXIT_IN_USE, text("%s is in use", uuid), user, "Shut that VM down first.");
	stop_mdev(uuid);
	if (path_exists(dir))
		fail(EXIT_FAIL, text("%s cannot be returned", uuid), "mdevctl does not stop it",
		     "The kernel's log says more: dmesg | tail");
	if (opt.json)
		print_document(json_pack("{s:o, s:s}", "address", ascii_json(address),
					 "uuid", uuid));
	else
		printf("%s is returned, and %s is gone\n", address, uuid);
	return EXIT_OK;
}
