// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend watch: what changes on this node, a line each.  An event of the kernel makes it look at
 * once.  The modules send events when something comes or goes or has another state, and none for
 * other attributes, so it also looks every second.
 */
#include <string.h>
#include <time.h>

#include "dlend.h"

#define INTERVAL_MS	1000
#define VALUES_MAX	7

/**
 * struct kind - of things that are looked at alike
 * @where: directory of all of them in sysfs
 * @below: directory of their attributes in each
 * @key: attributes, but for those that @look reads elsewhere
 * @look: the other values; NULL: there are none. Return: false if it is none that is shown so
 */
struct kind {
	const char *name, *where, *below;
	const char *key[VALUES_MAX + 1];
	bool (*look)(json_t *values, const char *dir);
};

static bool look_lent(json_t *values, const char *dir)
{
	const char *address = attr(dir, "fabric_name");

	json_object_set_new(values, "address", ascii_json(address));
	/* The directory of a driver has other files, too. */
	return *address;
}

/* A device of this host is a lent one, which is the same with more. */
static bool look_offer(json_t *values, const char *dir)
{
	(void)values;
	return !attr_is(dir, "lender", own_node());
}

static bool look_mdev(json_t *values, const char *dir)
{
	/* @dir is UUID/dlend */
	const char *uuid = strrchr(text("%.*s", (int)(strlen(dir) - strlen("/dlend")), dir), '/');

	json_object_set_new(values, "address", ascii_json(mdev_parent(uuid + 1)));
	return true;
}

static bool look_attached(json_t *values, const char *dir)
{
	const char *where = attached_as(dir);

	if (!where)
		return false;
	json_object_set_new(values, "device", ascii_json(where));
	json_object_set_new(values, "driver", ascii_json(attached_driver(where)));
	return true;
}

static const struct kind kinds[] = {
	{ "link", "class/dlend_link", "",
	  { "type", "state", "peer_node", "peer_name", "session", "last_error" } },
	{ "lent", "bus/pci/drivers/" DLEND_DRIVER, "/dlend",
	  { "address", "type", "state", "borrower", "epoch" }, look_lent },
	{ "offer", "bus/dlend/devices", "",
	  { "type", "lender", "state", "borrower", "epoch", "link", "attach_error" }, look_offer },
	{ "mdev", "bus/mdev/devices", "/dlend", { "address", "state", "epoch", "move_to" },
	  look_mdev },
	{ "attached", "bus/dlend/devices", "", { "device", "driver" }, look_attached },
};

/* What can be seen now: for each kind an object, of each thing's name the object of its values. */
static json_t *look(void)
{
	json_t *seen = json_object();

	for (const struct kind *kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++) {
		struct names n = list_dir(sys("%s", kind->where));
		json_t *things = json_object();

		for (size_t i = 0; i < n.count; i++) {
			const char *dir = text("%s%s", names_path(&n, i), kind->below);
			json_t *values = json_object();

			for (size_t k = 0; kind->key[k]; k++)
				json_object_set_new(values, kind->key[k],
						    attr_json(kind->key[k],
							      attr(dir, kind->key[k])));
			/* What is going has a directory for a moment longer than its attributes. */
			if (*attr(dir, "state") && (!kind->look || kind->look(values, dir)))
				json_object_set(things, ascii(n.name[i]), values);
			json_decref(values);
		}
		json_object_set_new(seen, kind->name, things);
	}
	return seen;
}

/**
 * struct watch - what was asked for, and how far it is
 * @count: of changes, 0: without end; @changes: so far
 * @interval, @timeout: in ms; @timeout is 0: without end
 * @initial: to begin with what is there
 * @begins: that is being printed
 */
struct watch {
	unsigned long count, changes;
	int64_t interval, timeout;
	bool initial, begins;
};

/* The time of day as RFC 3339 has it: 2026-11-26T12:34:56.789+01:00 */
static const char *time_of_day(void)
{
	struct timespec now;
	char date[32], zone[8];
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	strftime(zone, sizeof(zone), "%z", &tm);
	return text("%s.%03ld%.3s:%s", date, now.tv_nsec / 1000000, zone, zone + 3);
}

/* One line of text */

static const char *value_text(const char *key, const json_t *value)
{
	bool node = !strcmp(key, "lender") || !strcmp(key, "borrower") || !strcmp(key, "move_to");
	const char *s = json_is_integer(value) ? text("%lld", json_integer_value(value)) :
			json_is_string(value) ? json_string_value(value) : "";

	if (!*s)
		return "-";
	if (strchr(s, ' '))
		return text("\"%s\"", s);
	return node ? node_text(s) : s;
}

static void print_text(const struct kind *kind, const char *name, const char *event,
		       json_t *before, json_t *after)
{
	const char *between = ": ";

	printf("%s %s %s %s", time_of_day(), kind->name, name, event);
	for (size_t i = 0; after && kind->key[i]; i++) {
		const char *key = kind->key[i];
		const char *is = value_text(key, json_object_get(after, key));
		const char *was = before ? value_text(key, json_object_get(before, key)) : "-";

		if (!strcmp(is, was))
			continue;
		printf("%s%s %s%s%s", between, key, before ? was : "", before ? " -> " : "", is);
		between = ", ";
	}
	putchar('\n');
}

/* One line of JSON */
static void print_object(const struct kind *kind, const char *name, const char *event,
			 json_t *before, json_t *after)
{
	json_t *old = json_object();

	for (size_t i = 0; before && after && kind->key[i]; i++) {
		json_t *was = json_object_get(before, kind->key[i]);

		if (!json_equal(was, json_object_get(after, kind->key[i])))
			json_object_set(old, kind->key[i], was);
	}
	print_document(json_pack("{s:s, s:s, s:s, s:o, s:O, s:o}", "time", time_of_day(),
				 "event", event, "kind", kind->name, "name", ascii_json(name),
				 "values", after ? after : before, "before", old));
}

static bool is_done(const struct watch *w)
{
	return w->count && w->changes >= w->count;
}

static void tell_of(struct watch *w, const struct kind *kind, const char *name, json_t *before,
		    json_t *after)
{
	const char *event = before && after ? "changed" : before ? "went" : "came";

	if (is_done(w) || (before && after && json_equal(before, after)))
		return;
	if (w->begins)
		event = "present";
	if (opt.json)
		print_object(kind, name, event, before, after);
	else
		print_text(kind, name, event, before, after);
	w->changes += !w->begins;
}

/* By kind, and in the order of their names */
static void tell(struct watch *w, json_t *before, json_t *after)
{
	for (const struct kind *kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++) {
		json_t *old = json_object_get(before, kind->name), *thing;
		json_t *new = json_object_get(after, kind->name);
		struct names n = { 0 };
		const char *name;

		json_object_foreach(new, name, thing)
			names_add(&n, name);
		json_object_foreach(old, name, thing)
			if (!json_object_get(new, name))
				names_add(&n, name);
		names_sort(&n);
		for (size_t i = 0; i < n.count; i++)
			tell_of(w, kind, n.name[i], json_object_get(old, n.name[i]),
				json_object_get(new, n.name[i]));
	}
	output_flush();
}

static void watch(struct watch *w)
{
	const int64_t end = w->timeout ? now_ms() + w->timeout : INT64_MAX;
	/* Before the first look: what changes after it is an event. */
	const int events = uevent_open();
	json_t *seen = NULL, *now = look();

	w->begins = true;
	if (w->initial)
		tell(w, NULL, now);
	w->begins = false;
	if (events < 0)
		progress("the kernel's events cannot be read: this looks every %g s only",
			 w->interval / 1000.0);
	progress("watching, until Ctrl-C");
	while (!is_done(w) && now_ms() < end) {
		const int64_t next = now_ms() + w->interval;
		const size_t mark = memory_mark();

		uevent_wait(events, next < end ? next : end);
		json_decref(seen);
		seen = now;
		now = look();
		tell(w, seen, now);
		memory_drop(mark);
	}
}

int cmd_watch(int argc, char **argv)
{
	const char *count = NULL, *timeout = NULL, *interval = NULL;
	struct watch w = { 0 };
	const struct verb_option options[] = {
		{ "initial", .flag = &w.initial }, { "count", &count },
		{ "timeout", &timeout }, { "interval", &interval }, { 0 }
	};

	opt.lines = true;
	verb_words(argc, argv, options, 0, 0);
	w.count = parse_count(count, "changes");
	w.timeout = parse_seconds("timeout", timeout);
	w.interval = interval ? parse_seconds("interval", interval) : INTERVAL_MS;
	watch(&w);
	if (w.changes < w.count)
		fail(EXIT_FAIL, text("%lu of %lu changes came in %g s", w.changes, w.count,
				     w.timeout / 1000.0), NULL, NULL);
	return EXIT_OK;
}
