// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend watch: what changes on this node, a line each.  An event of the kernel makes it look at
 * once.  The modules send events when something comes or goes or has another state, and none for
 * other attributes, so it also looks every second.
 */
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "snapshot.h"
#include "uevent.h"

#define INTERVAL_MS	1000

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
static const char *time_of_day(char text[64])
{
	struct timespec now;
	char date[32], zone[8];
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	strftime(zone, sizeof(zone), "%z", &tm);
	snprintf(text, 64, "%s.%03ld%.3s:%s", date, now.tv_nsec / 1000000, zone, zone + 3);
	return text;
}

/* One line of text */

static void print_value(const char *key, const char *value)
{
	bool node = !strcmp(key, "lender") || !strcmp(key, "borrower") || !strcmp(key, "move_to");
	char name[TEXT_MAX];

	if (!*value)
		putchar('-');
	else if (strchr(value, ' '))
		printf("\"%s\"", value);
	else
		fputs(value, stdout);
	if (node && *node_name(name, value))
		printf(" (%s)", name);
}

static void print_all(const struct thing *t)
{
	const char *between = ": ";

	for (size_t i = 0; t->key[i]; i++) {
		if (!*t->value[i])
			continue;
		printf("%s%s ", between, t->key[i]);
		print_value(t->key[i], t->value[i]);
		between = ", ";
	}
}

static void print_changed(const struct thing *before, const struct thing *after)
{
	const char *between = ": ";

	for (size_t i = 0; after->key[i]; i++) {
		if (!strcmp(before->value[i], after->value[i]))
			continue;
		printf("%s%s ", between, after->key[i]);
		print_value(before->key[i], before->value[i]);
		fputs(" -> ", stdout);
		print_value(after->key[i], after->value[i]);
		between = ", ";
	}
}

static void print_text(const char *event, const struct thing *before, const struct thing *after)
{
	const struct thing *t = after ? after : before;
	char now[64], name[TEXT_MAX];

	/* As read_attr() has it: names are what peers say, too. */
	snprintf(name, sizeof(name), "%s", t->name);
	for (char *c = name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	printf("%s %s %s %s", time_of_day(now), t->kind, name, event);
	if (before && after)
		print_changed(before, after);
	else if (after)
		print_all(after);
	putchar('\n');
}

/* One line of JSON */

static void print_object(const char *event, const struct thing *before, const struct thing *after)
{
	const struct thing *t = after ? after : before;
	json_t *values = json_object(), *old = json_object();
	char now[64];

	for (size_t i = 0; t->key[i]; i++) {
		json_object_set_new(values, t->key[i], attr_json(t->key[i], t->value[i]));
		if (before && after && strcmp(before->value[i], after->value[i]))
			json_object_set_new(old, t->key[i],
					    attr_json(t->key[i], before->value[i]));
	}
	print_document(json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "time", time_of_day(now),
				 "event", event, "kind", t->kind, "name", ascii_json(t->name),
				 "values", values, "before", old));
}

static bool is_done(const struct watch *w)
{
	return w->count && w->changes >= w->count;
}

static void print_difference(void *arg, const struct thing *before, const struct thing *after)
{
	struct watch *w = arg;
	const char *event = before && after ? "changed" : before ? "went" : "came";

	if (w->begins)
		event = "present";
	if (is_done(w))
		return;
	if (opt.json)
		print_object(event, before, after);
	else
		print_text(event, before, after);
	w->changes += !w->begins;
}

static void tell(struct watch *w, const struct snapshot *old, const struct snapshot *new)
{
	snapshot_compare(old, new, print_difference, w);
	output_flush();
}

static void watch(struct watch *w)
{
	const int64_t end = w->timeout ? now_ms() + w->timeout : INT64_MAX;
	/* Before the first look: what changes after it is an event. */
	const int events = uevent_open();
	struct snapshot seen = { 0 }, now = snapshot_take();

	w->begins = true;
	if (w->initial)
		tell(w, &seen, &now);
	w->begins = false;
	if (events < 0)
		progress("the kernel's events cannot be read: this looks every %g s only",
			 w->interval / 1000.0);
	progress("watching, until Ctrl-C");
	while (!is_done(w) && now_ms() < end) {
		const int64_t next = now_ms() + w->interval;

		uevent_wait(events, next < end ? next : end);
		snapshot_free(&seen);
		seen = now;
		now = snapshot_take();
		tell(w, &seen, &now);
	}
	snapshot_free(&seen);
	snapshot_free(&now);
	if (events >= 0)
		close(events);
}

/* Arguments */

static void parse_option(struct watch *w, int c)
{
	switch (c) {
	case 'i':
		w->initial = true;
		break;
	case 'c':
		w->count = parse_count(optarg, "changes");
		break;
	case 't':
		w->timeout = parse_seconds("timeout", optarg);
		break;
	case 'n':
		w->interval = parse_seconds("interval", optarg);
		break;
	}
}

int cmd_watch(int argc, char **argv)
{
	static const struct option options[] = {
		{ "initial", no_argument, NULL, 'i' },
		{ "count", required_argument, NULL, 'c' },
		{ "timeout", required_argument, NULL, 't' },
		{ "interval", required_argument, NULL, 'n' },
		{ 0 }
	};
	struct watch w = { .interval = INTERVAL_MS };
	int c;

	opt.lines = true;
	while ((c = verb_option(argc, argv, options)) != -1)
		parse_option(&w, c);
	if (optind != argc)
		refuse_usage(argv[0]);
	watch(&w);
	if (w.changes < w.count)
		fail(EXIT_FAIL, text("%lu of %lu changes came in %g s", w.changes, w.count,
				     w.timeout / 1000.0), NULL, NULL);
	return EXIT_OK;
}
