// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend show: one device, of this host or of another one, on one page.
 *
 * It is what dlend status knows of the device, with what only the device itself can tell, and
 * with what may be done next.  The text is made of what JSON has.
 */
#include <string.h>

#include "dlend.h"

static const char *member(const json_t *of, const char *key)
{
	const char *value = json_string_value(json_object_get(of, key));

	return value ? value : "";
}

/* The first entry of list @name, in what status shows, whose member @key is @value; or NULL. */
static json_t *find_entry(const json_t *status, const char *name, const char *key,
			  const char *value)
{
	json_t *entry;
	size_t i;

	json_array_foreach(json_object_get(status, name), i, entry)
		if (!strcmp(member(entry, key), value))
			return entry;
	return NULL;
}

/* Finding it */

static json_t *find_mdev(const json_t *status, const char *name)
{
	const char *uuid = uuid_parse(name);
	json_t *mdev = find_entry(status, "mdevs", "uuid", uuid);

	if (!mdev)
		fail_no_mdev(uuid);
	return find_entry(status, "offers", "address", member(mdev, "parent"));
}

__noreturn static void fail_unknown(const char *name)
{
	struct device dev;

	if (name[0] == 'd')
		fail_no_offer(text("%s is not there", name));
	dev = device_open(name);
	fail(EXIT_NOT_FOUND, text("%s is not lent", dev.bdf), NULL,
	     text("dlend lend %s", dev.bdf));
}

static json_t *find_offer(const json_t *status, const char *name)
{
	json_t *found, *attached;
	char bdf[16];

	if (uuid_valid(name))
		return find_mdev(status, name);
	if (!bdf_parse(bdf, name))
		fail(EXIT_USAGE, text("\"%s\" is no device", name), NULL,
		     "Give an address as dlend list or lspci shows it, or the UUID of a mediated device.");
	attached = find_entry(status, "attached", "device", bdf);
	found = find_entry(status, "offers", "own", bdf);
	if (!found)
		found = find_entry(status, "offers", "address",
				   attached ? member(attached, "address") : bdf);
	if (!found)
		fail_unknown(bdf);
	return found;
}

/* What is known of it */

static json_t *mdevs_of(const json_t *status, const char *address)
{
	json_t *found = json_array(), *mdev;
	size_t i;

	json_array_foreach(json_object_get(status, "mdevs"), i, mdev) {
		const char *vm = "", *user;

		if (strcmp(member(mdev, "parent"), address))
			continue;
		user = mdev_user(mdev_directory(member(mdev, "uuid")), &vm);
		json_object_set_new(mdev, "user", ascii_json(user));
		json_object_set_new(mdev, "vm", ascii_json(vm));
		json_array_append(found, mdev);
	}
	return found;
}

/* Only the lender knows how long it is reserved, or that it is while somebody has it. */
static json_t *reserved_of(const json_t *offer, const char *dir)
{
	const char *own = member(offer, "own"), *vm = attr(dir, "reserved");

	if (*own)
		return reserved_json(sys("bus/pci/devices/%s/dlend", own));
	if (strcmp(member(offer, "state"), "reserved"))
		return json_null();
	return json_pack("{s:O, s:O, s:s, s:s}",
			 "node", json_object_get(offer, "borrower"),
			 "node_name", json_object_get(offer, "borrower_name"),
			 "mdev", uuid_valid(vm) ? vm : "", "until", "");
}

static void add_attributes(json_t *page, const char *dir)
{
	static const char *const keys[] = { "clique", "interrupts", "bars", "attach_error" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char *all = read_all(text("%s/%s", dir, keys[i]));

		json_object_set_new(page, keys[i], ascii_json(all ? strip_text(all) : ""));
	}
}

static json_t *or_null(json_t *entry)
{
	return entry ? json_incref(entry) : json_null();
}

/* What may be done next */

static void add_next(json_t *next, const char *todo)
{
	json_array_append_new(next, ascii_json(todo));
}

static void next_of_mdev(json_t *next, const json_t *mdev)
{
	const char *uuid = member(mdev, "uuid");
	const char *vm = member(mdev, "vm");

	if (*member(mdev, "user")) {
		add_next(next, text("shut %s%s down, then give the device back: dlend return %s",
				    *vm ? "VM " : "its VM", vm, uuid));
		return;
	}
	add_next(next, text("give it to QEMU: -device vfio-pci,sysfsdev=/sys/bus/mdev/devices/%s",
			    uuid));
	add_next(next, text("give the device back: dlend return %s", uuid));
}

/* Of one that nobody has here. */
static void next_of_free(json_t *page, json_t *next, const char *dir)
{
	const json_t *offer = json_object_get(page, "offer");
	const char *address = member(offer, "address");
	const char *why = "the module dlend_borrower is not loaded here", *todo = NULL;

	if (!strcmp(member(offer, "state"), "preparing")) {
		why = "it is lent, and not offered yet";
		todo = text("offer it: dlend lend %s", member(offer, "own"));
	} else if (path_exists(dir)) {
		why = offer_obstacle(address, NULL);
		todo = why ? attempt_todo() : NULL;
	}
	json_object_set_new(page, "obstacle", ascii_json(why));
	if (todo)
		add_next(next, todo);
	if (!why)
		add_next(next, text("borrow it for a VM: dlend borrow %s", address));
	if (!why && path_exists(text("%s/attached", dir)) && !*member(offer, "own"))
		add_next(next, text("use it on this host itself: dlend attach %s", address));
}

static void add_steps(json_t *page, const char *dir)
{
	json_t *next = json_array(), *mdevs = json_object_get(page, "mdevs"), *mdev;
	const char *own = member(json_object_get(page, "offer"), "own");
	json_t *attached = json_object_get(page, "attached");
	size_t i;

	json_object_set_new(page, "obstacle", json_string(""));
	json_object_set_new(page, "next", next);
	json_array_foreach(mdevs, i, mdev)
		next_of_mdev(next, mdev);
	if (json_is_object(attached))
		add_next(next, text("return it to its lender: dlend detach %s",
				    member(attached, "address")));
	else if (!json_array_size(mdevs))
		next_of_free(page, next, dir);
	if (*own && json_is_object(json_object_get(page, "reserved")))
		add_next(next, text("let any node borrow it: dlend unreserve %s", own));
	if (*own)
		add_next(next, text("give it back to its own driver: dlend reclaim %s", own));
}

/* The page */

static json_t *make_page(const char *name)
{
	json_t *status = json_object(), *offer, *page;
	const char *address, *dir;

	show_links(status);
	show_offers(status);
	show_mdevs(status);
	show_attached(status);
	offer = find_offer(status, name);
	address = member(offer, "address");
	dir = offer_directory(address);
	page = json_pack("{s:O, s:o, s:o, s:o, s:o}", "offer", offer,
			 "reserved", reserved_of(offer, dir),
			 "link", or_null(find_entry(status, "links", "name",
						    member(offer, "link"))),
			 "mdevs", mdevs_of(status, address),
			 "attached", or_null(find_entry(status, "attached", "address", address)));
	add_attributes(page, dir);
	add_steps(page, dir);
	json_decref(status);
	return page;
}

/* The page as text */

/* A member, if it has a value: on its line, or on several if it has several.  Others wrote it. */
static void print_member(const char *before, const char *key, const json_t *value)
{
	char *all = json_is_integer(value) ? text("%lld", json_integer_value(value)) :
					     text("%s", json_string_value(value)), *line;

	if (strchr(all, '\n')) {
		printf("%s%s:\n", before, key);
		while ((line = next_line(&all)))
			printf("%s  %s\n", before, ascii(line));
	} else if (*all) {
		printf("%s%s: %s\n", before, key, ascii(all));
	}
}

static const char *node_member(const json_t *of, const char *key)
{
	return node_text(text("%lld", json_integer_value(json_object_get(of, key))));
}

static void print_offer(const json_t *offer)
{
	const char *state = member(offer, "state"), *own = member(offer, "own");
	const char *set = member(offer, "set");
	bool waits = !strcmp(state, "reserved") || !strcmp(state, "kept");

	printf("%s: %s %s\n  type: %s\n  ids: %s:%s, class %s\n  lender: %s\n",
	       member(offer, "address"), member(offer, "vendor_name"),
	       member(offer, "device_name"), member(offer, "type"), member(offer, "vendor"),
	       member(offer, "device"), member(offer, "class"), node_member(offer, "lender"));
	if (*own)
		printf("  here: %s\n", own);
	printf("  state: %s", state);
	if (json_integer_value(json_object_get(offer, "borrower")))
		printf(" %s node %s", waits ? "for" : "by", node_member(offer, "borrower"));
	printf(", lease %lld\n", json_integer_value(json_object_get(offer, "epoch")));
	if (*set)
		printf("  set: %s\n", set);
}

static void print_reserved(const json_t *reserved)
{
	const char *until = member(reserved, "until"), *mdev = member(reserved, "mdev");

	if (json_is_object(reserved))
		printf("  reserved: for %s %s%s%s\n", *mdev ? "the VM that has" : "node",
		       *mdev ? mdev : node_member(reserved, "node"), *until ? ", until " : "",
		       until);
}

static void print_link(const json_t *link)
{
	if (!json_is_object(link))
		return;
	printf("  link: %s, %s\n", member(link, "name"), member(link, "state"));
	print_member("    ", "last error", json_object_get(link, "last_error"));
	if (json_integer_value(json_object_get(link, "window_bytes")))
		printf("    window: %lldM of node %s, in use here: %s\n",
		       json_integer_value(json_object_get(link, "window_bytes")) >> 20,
		       node_member(link, "peer_node"), member(link, "slots"));
}

static void print_mdev(json_t *mdev)
{
	const char *key;
	json_t *value;

	printf("  mediated device %s\n", member(mdev, "uuid"));
	json_object_foreach(mdev, key, value)
		if (strcmp(key, "uuid") && strcmp(key, "parent") && strcmp(key, "vm"))
			print_member("    ", key, value);
}

static void print_next(const json_t *page)
{
	const char *before = "next: ";
	json_t *step;
	size_t i;

	print_member("  ", "cannot be used here", json_object_get(page, "obstacle"));
	json_array_foreach(json_object_get(page, "next"), i, step) {
		printf("%s%s\n", before, json_string_value(step));
		before = "  ";
	}
}

static void print_page(const json_t *page)
{
	const json_t *attached = json_object_get(page, "attached");
	json_t *mdev;
	size_t i;

	print_offer(json_object_get(page, "offer"));
	print_reserved(json_object_get(page, "reserved"));
	print_member("  ", "clique", json_object_get(page, "clique"));
	print_member("  ", "interrupts", json_object_get(page, "interrupts"));
	print_member("  ", "bars", json_object_get(page, "bars"));
	print_member("  ", "attach error", json_object_get(page, "attach_error"));
	print_link(json_object_get(page, "link"));
	json_array_foreach(json_object_get(page, "mdevs"), i, mdev)
		print_mdev(mdev);
	if (json_is_object(attached))
		printf("  attached: as %s, driver %s\n", member(attached, "device"),
		       *member(attached, "driver") ? member(attached, "driver") : "none");
	print_next(page);
}

int cmd_show(int argc, char **argv)
{
	json_t *page = make_page(*verb_words(argc, argv, NULL, 1, 1));

	if (opt.json)
		print_document(page);
	else
		print_page(page);
	return EXIT_OK;
}
