// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend reserve and unreserve: a lent device that, when it is free, only one node or VM may borrow.
 * A VM is named by the UUID of its mediated device, which is the same on every host.
 *
 * The kernel knows that for as long as the device is lent.  A record, /etc/dlend/reserved/BDF,
 * keeps it for the next time, also over a reboot: for whom, and when that ends, in seconds since
 * 1970, if it does.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dlend.h"

/* @whom: a node's number or a UUID, "" if no option says it; @until: 0: without end */
struct reservation {
	char whom[40];
	time_t until;
};

/* Records */

static char *record_file(const char *bdf)
{
	return text("%s/dlend/reserved/%s", opt.etc, bdf);
}

/* @since: 0: as records have it; now: as the kernel takes it, which is told how long it is */
static const char *reservation_text(const struct reservation *r, time_t since)
{
	return r->until ? text("%s %lld\n", r->whom, (long long)(r->until - since)) :
			  text("%s\n", r->whom);
}

/* Return: the UUID, or "" if it is for a node */
static const char *mdev_of(const char *whom)
{
	return uuid_valid(whom) ? whom : "";
}

/*
 * Those of all devices that are lent with @dev, but @kept, which may be NULL.
 * Return: there was one; -errno: one is left
 */
static int records_remove(const struct device *dev, const char *kept)
{
	struct names group = device_group(dev);
	int found = 0;

	for (size_t i = 0; i < group.count && found >= 0; i++) {
		const char *file = record_file(group.name[i]);

		if (kept && !strcmp(file, kept))
			;
		else if (!unlink(file))
			found = 1;
		else if (errno != ENOENT)
			found = -errno;
	}
	return found;
}

static bool record_read(const char *file, struct reservation *r)
{
	const char *line = read_line(file);
	long long until = 0;

	if (!line)
		return false;
	if (sscanf(line, "%39s %lld", r->whom, &until) < 1 || until < 0 ||
	    (!is_digits(r->whom) && !uuid_valid(r->whom)))
		fail(EXIT_FAIL, text("%s is not understood", file), line,
		     "dlend reserve has written this file; remove it, reserve the device again, and lend it again.");
	r->until = until;
	return true;
}

/* The kernel */

/* Return: 0 or -errno */
static int write_reserved(const struct device *dev, const char *value)
{
	return write_text(text("%s/dlend/reserved", dev->dir), value);
}

static void check_written(const struct device *dev, int err)
{
	if (err)
		fail(EXIT_FAIL, text("%s: its reservation cannot be changed", dev->bdf),
		     err == -ENOENT ? "dlend_lender is too old for it" : strerror(-err),
		     device_preparing(dev) ? "It is not offered yet." : "It is lent as before.");
}

void reserve_again(const struct device *dev)
{
	const char *file = record_file(dev->bdf);
	time_t now = time(NULL);
	struct reservation r;

	if (!record_read(file, &r))
		return;
	if (!r.until || r.until > now)
		check_written(dev, write_reserved(dev, reservation_text(&r, now)));
	else
		unlink(file);
}

static const char *until_text(time_t until)
{
	char moment[64] = "";

	if (until)
		strftime(moment, sizeof(moment), "%Y-%m-%dT%H:%M", localtime(&until));
	return text("%s", moment);
}

json_t *reserved_json(const char *dir)
{
	unsigned int left = 0;
	const char *node;
	char whom[40];

	if (sscanf(attr(dir, "reserved"), "%39s %u", whom, &left) < 1 || !strcmp(whom, "none"))
		return json_null();
	node = *mdev_of(whom) ? "0" : whom;
	return json_pack("{s:o, s:s, s:s, s:s}", "node", attr_json("node_id", node),
			 "node_name", node_name(node), "mdev", mdev_of(whom),
			 "until", until_text(left ? time(NULL) + left : 0));
}

/* Arguments */

__noreturn static void refuse_until(const char *s, const char *why)
{
	fail(EXIT_USAGE, text("--until %s", s), why,
	     "Give a time of this host, as 2026-12-24T18:00, or +30m, +8h, +7d.");
}

/* "+8h".  Return: seconds, 0: it is none */
static time_t parse_span(const char *s)
{
	static const struct { char unit; unsigned int seconds; } units[] = {
		{ 'm', 60 }, { 'h', 3600 }, { 'd', 86400 },
	};
	unsigned long number;
	char *end;

	if (*s != '+' || s[1] < '0' || s[1] > '9')
		return 0;
	number = strtoul(s + 1, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (*end == units[i].unit && !end[1] && number <= UINT32_MAX / units[i].seconds)
			return number * units[i].seconds;
	return 0;
}

/* Return: seconds since 1970, 0: it is no time */
static time_t parse_moment(const char *s)
{
	struct tm tm = { .tm_isdst = -1 };
	const char *end = strptime(s, "%Y-%m-%dT%H:%M", &tm);
	int day = tm.tm_mday;
	time_t moment;

	if (!end || *end)
		return 0;
	moment = mktime(&tm);
	return tm.tm_mday == day ? moment : 0;
}

static time_t parse_until(const char *s)
{
	time_t now = time(NULL), span = parse_span(s), until = span ? now + span : parse_moment(s);

	if (until <= 0)
		refuse_until(s, "that is no time");
	if (until <= now)
		refuse_until(s, "that is over");
	if (until - now > UINT32_MAX)
		refuse_until(s, "that is too far away");
	return until;
}

/* Return: the id of the one node that has that name */
static const char *find_node(const char *name)
{
	struct names found = nodes_named(name);

	if (!found.count)
		fail(EXIT_NOT_FOUND, text("--for %s", name),
		     "this node has no link to a node of that name",
		     "dlend links shows their names; others have numbers only.");
	if (found.count > 1)
		fail(EXIT_USAGE, text("--for %s", name),
		     text("nodes %s and %s have that name", found.name[0], found.name[1]),
		     "Give its number.");
	return found.name[0];
}

static void parse_whom(struct reservation *r, const char *s)
{
	const char *id = is_digits(s) || !name_valid(s) || uuid_valid(s) ? s : find_node(s);
	unsigned long node = strtoul(id, NULL, 10);

	if (uuid_valid(s)) {
		snprintf(r->whom, sizeof(r->whom), "%s", uuid_parse(s));
		return;
	}
	if (!is_digits(id))
		fail(EXIT_USAGE, text("--for %s", s),
		     "that is neither a node's number or name nor a UUID",
		     "dlend links shows nodes. A VM is named by the UUID of its mediated device: `virsh dumpxml VM` shows it where the VM is defined.");
	if (!node || node > 65535)
		fail(EXIT_USAGE, text("--for %s", s), "the number of a node is 1 to 65535",
		     "dlend links shows it.");
	snprintf(r->whom, sizeof(r->whom), "%lu", node);
}

/* Each device of a group would need the UUID of a mediated device of its own. */
static void check_alone(const struct device *dev)
{
	struct names group = device_group(dev);

	if (group.count > 1)
		fail(EXIT_UNFIT, text("%s cannot be reserved for a VM", dev->bdf),
		     "others of its IOMMU group are lent with it, and the VM has a mediated device of each",
		     "Reserve it for a node: --for NODE.");
}

/* Return: the device, which no other command works on now */
static struct device open_device(const char *verb, const char *bdf)
{
	struct device dev;

	check_bdf(bdf);
	need_root(verb);
	dev = device_open(bdf);
	lock_device(&dev);
	return dev;
}

/* The commands */

/* All of it or nothing: the record is written before the kernel is told, and counts after that. */
static void reserve(const struct device *dev, const struct reservation *r)
{
	const char *file = record_file(dev->bdf);
	int err = state_prepare(file, reservation_text(r, 0));

	if (err)
		fail(EXIT_FAIL, text("%s cannot be written", file), strerror(-err),
		     "Nothing has changed.");
	err = write_reserved(dev, reservation_text(r, time(NULL)));
	if (err)
		state_drop(file);
	check_written(dev, err);
	err = state_commit(file);
	if (!err)
		err = records_remove(dev, file);
	if (err < 0)
		fail(EXIT_FAIL, text("%s cannot be written", file), strerror(-err),
		     text("%s is reserved, but only for as long as it stays lent.", dev->bdf));
}

static void report_reserved(const struct device *dev, const struct reservation *r)
{
	const char *until = until_text(r->until), *mdev = mdev_of(r->whom);

	if (opt.json)
		print_document(json_pack("{s:s, s:o, s:s, s:s}", "device", dev->bdf,
					 "node", attr_json("node_id", *mdev ? "0" : r->whom),
					 "mdev", mdev, "until", until));
	else
		printf("%s is reserved for %s %s%s%s\n", dev->bdf,
		       *mdev ? "the VM that has the mediated device" : "node",
		       *mdev ? mdev : node_text(r->whom), *until ? " until " : "", until);
}

int cmd_reserve(int argc, char **argv)
{
	const char *whom = NULL, *until = NULL;
	const struct verb_option options[] = { { "for", &whom }, { "until", &until }, { 0 } };
	char **words = verb_words(argc, argv, options, 1, 1);
	struct reservation r = { 0 };
	struct device dev;

	if (whom)
		parse_whom(&r, whom);
	if (until)
		r.until = parse_until(until);
	dev = open_device(argv[0], *words);
	if (!device_lent(&dev))
		fail(EXIT_NOT_FOUND, text("%s is not lent", dev.bdf), NULL,
		     text("dlend lend %s", dev.bdf));
	if (!whom)
		parse_whom(&r, own_node());
	if (uuid_valid(r.whom))
		check_alone(&dev);
	reserve(&dev, &r);
	report_reserved(&dev, &r);
	return EXIT_OK;
}

int cmd_unreserve(int argc, char **argv)
{
	struct device dev = open_device(argv[0], *verb_words(argc, argv, NULL, 1, 1));
	const char *value = attr(dev.dir, "dlend/reserved");
	bool found = device_lent(&dev) && *value && strcmp(value, "none");
	int records;

	if (found)
		check_written(&dev, write_reserved(&dev, "none\n"));
	records = records_remove(&dev, NULL);
	if (records < 0)
		fail(EXIT_FAIL, text("%s: its record in %s/dlend/reserved cannot be removed",
				     dev.bdf, opt.etc), strerror(-records),
		     "It will be reserved again when it is lent again.");
	if (!found && !records)
		fail(EXIT_NOT_FOUND, text("%s is not reserved", dev.bdf), NULL, NULL);
	if (opt.json)
		print_document(json_pack("{s:s}", "device", dev.bdf));
	else
		printf("%s is no longer reserved\n", dev.bdf);
	return EXIT_OK;
}
