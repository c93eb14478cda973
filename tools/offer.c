// SPDX-License-Identifier: GPL-2.0-only
/*
 * An offer, as this host sees it: is it attached here?  Can a mediated device be made of it now,
 * and if not, why?
 */
#include <string.h>

#include "dlend.h"

bool offer_parse(char address[16], const char *s)
{
	return bdf_parse(address, s) && address[0] == 'd';
}

bool type_valid(const char *s)
{
	static const char before[] = "dlend-";
	const char *kind = s + strlen(before);

	return !strncmp(s, before, strlen(before)) && *kind &&
	       !kind[strspn(kind, "abcdefghijklmnopqrstuvwxyz")];
}

char *offer_directory(const char *address)
{
	return sys("bus/dlend/devices/%s", address);
}

const char *attached_as(const char *dir)
{
	const char *where = attr(dir, "attached");

	return *where && strcmp(where, "no") ? where : NULL;
}

const char *attached_driver(const char *where)
{
	return link_name(sys("bus/pci/devices/%s", where), "driver");
}

const char *offer_attached_as(const char *pci)
{
	struct names n = list_dir(sys("bus/dlend/devices"));

	for (size_t i = 0; i < n.count; i++)
		if (attr_is(names_path(&n, i), "attached", pci))
			return n.name[i];
	return NULL;
}

void fail_no_offer(const char *what)
{
	fail(EXIT_NOT_FOUND, what, "no node offers it",
	     "dlend list shows the offers; dlend links shows whether the lender can be reached.");
}

static void check_reached(const char *dir, const char *what)
{
	if (!path_exists(dir))
		fail(EXIT_NOT_FOUND, what, "no node offers it",
		     "Is its lender up, and the link to it (`dlend links`)? Has it lent the device? A definition with `--auto` starts when the offer comes.");
	if (attr_is(dir, "link", "down"))
		fail(EXIT_NOT_READY, what,
		     text("the link to its lender, node %s, is down", attr(dir, "lender")),
		     "`dlend links` says why.");
}

/* Its state is reserved: for a node, or for a VM. */
static void check_reserved(const char *dir, const char *what, const char *node, const char *uuid)
{
	static const char todo[] = "dlend unreserve on its lender ends that.";
	const char *vm = attr(dir, "reserved");

	if (!uuid_valid(vm))
		fail(EXIT_IN_USE, what, text("it is reserved for node %s", node_text(node)), todo);
	if (!uuid || strcasecmp(uuid, vm))
		fail(EXIT_IN_USE, what,
		     text("it is reserved for the VM that has the mediated device %s", vm), todo);
}

void offer_check_taken(const char *dir, const char *what, bool held, const char *uuid)
{
	const char *state = attr(dir, "state"), *borrower = attr(dir, "borrower");

	if (!strcmp(state, "held") && held)
		fail(EXIT_IN_USE, what,
		     text("node %s has it%s", node_text(borrower),
			  strcmp(own_node(), borrower) ? "" : " (this one)"),
		     "Shut the VM down or detach it there, or take it back on its lender: dlend reclaim");
	if (!strcmp(state, "reserved"))
		check_reserved(dir, what, borrower, uuid);
	if (!strcmp(state, "kept"))
		fail(EXIT_IN_USE, what,
		     text("node %s has another device of set %s", node_text(borrower),
			  attr(dir, "set")),
		     "It is free again when that node has none of that set.");
}

static void check_state(const char *dir, const char *what, bool held, const char *uuid)
{
	const char *state;

	/* The VM of a device that another node has may be about to come (move_to). */
	offer_check_taken(dir, what, held, uuid);
	state = attr(dir, "state");
	/* While its lender resets it after a lease, a device of it can be made: the VM waits. */
	if (strcmp(state, "free") && strcmp(state, "held") && strcmp(state, "returning") &&
	    strcmp(state, "reserved"))
		fail(EXIT_IN_USE, what, text("it is %s on node %s", state, attr(dir, "lender")),
		     "See `dlend status` there.");
}

void offer_check(const char *address, const char *uuid)
{
	const char *dir = offer_directory(address), *attached = attached_as(dir);
	const char *what = text("%s cannot be used here", address);
	const char *left = attr(text("%s/mdev_supported_types/%s", dir, attr(dir, "type")),
				"available_instances");
	/* How many mediated devices can be made of it now: 1, 0, or that cannot be told */
	bool one = *left && strcmp(left, "0"), none = *left && !one;

	check_reached(dir, what);
	if (attached)
		fail(EXIT_IN_USE, what, text("it is attached to this host itself, as %s", attached),
		     text("dlend detach %s", address));
	check_state(dir, what, !one, uuid);
	if (none)
		fail(EXIT_IN_USE, what, "this node has made a mediated device of it already",
		     "`mdevctl list` shows it.");
}

struct mdev_to_be {
	const char *address, *uuid;
};

static void check_to_be(void *arg)
{
	const struct mdev_to_be *mdev = arg;

	offer_check(mdev->address, mdev->uuid);
}

const char *offer_obstacle(const char *address, const char *uuid)
{
	struct mdev_to_be mdev = { address, uuid };

	return attempt_quietly(check_to_be, &mdev);
}
