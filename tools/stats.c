// SPDX-License-Identifier: GPL-2.0-only
/*
 * dlend stats: the numbers of dlend metrics for people, by link and by device, and how they change.
 *
 * Samples of one thing that differ in a label more (the type of a message) are added.
 */
#include <stdlib.h>
#include <string.h>

#include "metric.h"

#define COLUMNS_MAX	12
#define LABELS_MAX	3
#define SHOWN		2	/* labels of a thing that stand in its row */

/**
 * struct kind - of things that have numbers
 * @name: of their list in JSON
 * @prefix: of the names of their metrics
 * @label: those of a thing; two things differ in the first two
 * @column: head, and the rest of the metric's name; all others are in JSON only
 */
struct kind {
	const char *name, *prefix, *head[SHOWN], *label[LABELS_MAX];
	void (*read)(void);
	struct {
		const char *head, *metric;
	} column[COLUMNS_MAX];
};

static const struct kind kinds[] = {
	{ "links", "dlend_link_", { "LINK", "TYPE" }, { "link", "type" }, metrics_links, {
		{ "SESSIONS", "sessions_total" }, { "SENT", "messages_sent_total" },
		{ "RECEIVED", "messages_received_total" },
		{ "DROPPED", "messages_dropped_total" }, { "TIMEOUTS", "call_timeouts_total" },
		{ "RUNG", "doorbells_rung_total" }, { "DELIVERED", "interrupts_delivered_total" },
		{ "SCANS", "doorbell_scans_total" }, { "POLLS", "doorbell_polls_total" },
		{ "OVERRUNS", "interrupt_overruns_total" }, { "BAD", "interrupts_bad_total" },
		{ "MAPPED", "mapped_bytes" } } },
	{ "lent", "dlend_lent_device_", { "LENT", "DEVICE" }, { "address", "device", "kind" },
	  metrics_lent, {
		{ "LEASE", "lease_epoch" }, { "INTERRUPTS", "interrupts_total" },
		{ "VECTORS", "vectors" }, { "MAPPED", "mapped_bytes" },
		{ "FAULTS", "dma_faults_total" } } },
	{ "mdevs", "dlend_mdev_", { "BORROWED", "UUID" }, { "address", "uuid", "kind" },
	  metrics_mdevs, {
		{ "BORROWS", "borrows_total" }, { "RETURNS", "returns_total" },
		{ "RESETS", "resets_total" }, { "INTERRUPTS", "interrupts_total" },
		{ "SIGNALLED", "interrupts_signalled_total" },
		{ "STRAY", "interrupts_stray_total" }, { "READS", "trapped_reads_total" },
		{ "WRITES", "trapped_writes_total" }, { "WAITS", "gate_waits_total" },
		{ "PINNED", "pinned_bytes" } } },
	{ "attached", "dlend_attached_device_", { "ATTACHED", "KIND" }, { "address", "kind" },
	  metrics_attached, {
		{ "VECTORS", "vectors" }, { "MESSAGES", "messages_total" },
		{ "MAPPED", "mapped_bytes" }, { "WINDOW", "window_bytes" } } },
};

#define KINDS	ARRAY_SIZE(kinds)

/* Reading: a list for each kind, of {label: value ..., "numbers": {name: number}} */

static json_t *numbers;		/* what is being read */
static const struct kind *reading;

static const char *label_of(const json_t *thing, const char *label)
{
	return json_string_value(json_object_get(thing, label));
}

static json_t *find_thing(const json_t *list, const struct kind *kind, const char *first,
			  const char *second)
{
	json_t *thing;
	size_t i;

	json_array_foreach(list, i, thing)
		if (!strcmp(label_of(thing, kind->label[0]), first) &&
		    !strcmp(label_of(thing, kind->label[1]), second))
			return thing;
	return NULL;
}

/* The numbers of the thing that has these labels */
static json_t *numbers_of(const char *labels)
{
	json_t *list = json_object_get(numbers, reading->name), *thing;

	thing = find_thing(list, reading, metric_label_value(labels, reading->label[0]),
			   metric_label_value(labels, reading->label[1]));
	if (!thing) {
		thing = json_object();
		for (size_t i = 0; i < LABELS_MAX && reading->label[i]; i++)
			json_object_set_new(thing, reading->label[i],
					    ascii_json(metric_label_value(labels,
									  reading->label[i])));
		json_object_set_new(thing, "numbers", json_object());
		json_array_append_new(list, thing);
	}
	return json_object_get(thing, "numbers");
}

/* States and the like are no numbers. */
static void collect(const char *name, const char *labels, const char *value)
{
	json_t *all, *sum;

	if (strncmp(name, reading->prefix, strlen(reading->prefix)) || ends_with(name, "_info") ||
	    *metric_label_value(labels, "state"))
		return;
	all = numbers_of(labels);
	sum = json_object_get(all, name);
	json_object_set_new(all, name, strchr(value, '.') ? json_real(strtod(value, NULL)) :
			    json_integer(json_integer_value(sum) + strtoll(value, NULL, 10)));
}

/* Takes those out that are none of @names, and marks in @found which of @names there are. */
static void leave_wanted(json_t *list, const struct kind *kind, const struct names *names,
			 bool *found)
{
	for (size_t i = json_array_size(list); i-- > 0;) {
		const json_t *thing = json_array_get(list, i);
		bool wanted = !names->count;

		for (size_t m = 0; m < LABELS_MAX && kind->label[m]; m++)
			for (size_t k = 0; k < names->count; k++)
				if (!strcmp(label_of(thing, kind->label[m]), names->name[k])) {
					found[k] = true;
					wanted = true;
				}
		if (!wanted)
			json_array_remove(list, i);
	}
}

static json_t *read_numbers(const struct names *names, bool *found)
{
	numbers = json_object();
	metric_collect(collect);
	for (size_t i = 0; i < KINDS; i++) {
		json_t *list = json_array();

		json_object_set_new(numbers, kinds[i].name, list);
		reading = &kinds[i];
		reading->read();
		leave_wanted(list, reading, names, found);
	}
	return numbers;
}

/* Differences */

/* What only grows, since @before; if it began anew meanwhile, since then. */
static json_t *grown(const char *name, json_t *before, json_t *now)
{
	json_int_t was = json_integer_value(before), is = json_integer_value(now);

	if (!ends_with(name, "_total") || was > is)
		return json_incref(now);
	return json_integer(is - was);
}

static json_t *thing_since(const json_t *before, const json_t *now)
{
	json_t *since = json_copy((json_t *)now), *grew = json_object(), *value;
	json_t *old = json_object_get(before, "numbers");
	const char *name;

	json_object_foreach(json_object_get(now, "numbers"), name, value)
		json_object_set_new(grew, name, grown(name, json_object_get(old, name), value));
	json_object_set_new(since, "numbers", grew);
	return since;
}

static json_t *numbers_since(const json_t *before, const json_t *now)
{
	json_t *since = json_object();

	for (size_t i = 0; i < KINDS; i++) {
		const json_t *old = json_object_get(before, kinds[i].name);
		json_t *list = json_array(), *thing;
		size_t k;

		json_array_foreach(json_object_get(now, kinds[i].name), k, thing) {
			const json_t *same = find_thing(old, &kinds[i],
							label_of(thing, kinds[i].label[0]),
							label_of(thing, kinds[i].label[1]));

			json_array_append_new(list, thing_since(same, thing));
		}
		json_object_set_new(since, kinds[i].name, list);
	}
	return since;
}

/* Printing */

static const char *cell_text(const json_t *thing, const struct kind *kind, const char *metric)
{
	const char *name = text("%s%s", kind->prefix, metric);
	const json_t *value = json_object_get(json_object_get(thing, "numbers"), name);
	long long number = json_integer_value(value);

	if (!value)
		return "";
	if (!ends_with(metric, "_bytes"))
		return text("%lld", number);
	return number >> 20 ? text("%lldM", number >> 20) : text("%lldK", number >> 10);
}

static void print_kind(const struct kind *kind, const json_t *list)
{
	const char *cell[SHOWN + COLUMNS_MAX];
	struct libscols_table *table = NULL;
	json_t *thing;
	int columns;
	size_t i;

	for (columns = 0; columns < COLUMNS_MAX && kind->column[columns].head; columns++)
		cell[SHOWN + columns] = kind->column[columns].head;
	memcpy(cell, kind->head, sizeof(kind->head));
	table_row(&table, SHOWN + columns, cell);
	json_array_foreach(list, i, thing) {
		for (int k = 0; k < SHOWN; k++)
			cell[k] = label_of(thing, kind->label[k]);
		for (int k = 0; k < columns; k++)
			cell[SHOWN + k] = cell_text(thing, kind, kind->column[k].metric);
		table_row(&table, SHOWN + columns, cell);
	}
	table_print(&table);
}

static void print_numbers(const json_t *all)
{
	bool printed = false;

	for (size_t i = 0; i < KINDS; i++) {
		json_t *list = json_object_get(all, kinds[i].name);

		if (!json_array_size(list))
			continue;
		if (printed)
			putchar('\n');
		print_kind(&kinds[i], list);
		printed = true;
	}
	if (!printed)
		puts("no links and no devices");
}

/* @ms: since what these are differences to; 0: to nothing */
static void report(const json_t *all, int64_t ms)
{
	json_t *document;

	if (opt.json) {
		document = json_pack("{s:o}", "seconds", ms ? json_real(ms / 1000.0) :
							      json_null());
		json_object_update(document, (json_t *)all);
		print_document(document);
	} else {
		if (ms)
			putchar('\n');
		print_numbers(all);
	}
	output_flush();
}

/* The command */

static struct names parse_names(char **words)
{
	struct names names = { 0 };
	char bdf[16];

	for (; *words; words++)
		if (uuid_valid(*words))
			names_add(&names, uuid_parse(*words));
		else if (bdf_parse(bdf, *words))
			names_add(&names, bdf);
		else if (!strcmp(*words, "loop"))
			names_add(&names, *words);
		else
			fail(EXIT_USAGE, text("\"%s\" is no link and no device", *words), NULL,
			     "Give an address as dlend links, list or lspci shows it, loop, or the UUID of a mediated device.");
	return names;
}

/* Of all names, when the first numbers are there. */
static void check_found(const struct names *names, const bool *found)
{
	for (size_t i = 0; i < names->count; i++)
		if (!found[i])
			fail(EXIT_NOT_FOUND, names->name[i], "there are no numbers of it",
			     "It is no link of this host, and this host neither lends, borrows nor attaches a device of that name.");
	if (!metric_has_debugfs())
		progress("debugfs cannot be read, which has most of the numbers: run this as root");
}

/* @interval: ms, 0: once; @count: of times, 0: without end */
static void stats(const struct names *names, int64_t interval, unsigned long count)
{
	bool *found = zeroed(names->count, sizeof(*found));
	json_t *before = read_numbers(names, found), *now, *since;
	int64_t then = now_ms(), next = then + interval;

	check_found(names, found);
	report(before, 0);
	for (unsigned long i = 1; interval && (!count || i < count); i++, next += interval) {
		const size_t mark = memory_mark();

		uevent_wait(-1, next);
		now = read_numbers(names, found);
		since = numbers_since(before, now);
		report(since, now_ms() - then);
		json_decref(since);
		json_decref(before);
		before = now;
		then = now_ms();
		memory_drop(mark);
	}
}

int cmd_stats(int argc, char **argv)
{
	const char *interval = NULL, *count = NULL;
	const struct verb_option options[] = {
		{ "interval", &interval }, { "count", &count }, { 0 }
	};
	char **words = verb_words(argc, argv, options, 0, ANY_NUMBER);
	int64_t ms = parse_seconds("interval", interval);
	unsigned long times = parse_count(count, "times");
	struct names names;

	if (times && !ms)
		refuse_usage(argv[0]);
	names = parse_names(words);
	opt.lines = ms;
	stats(&names, ms, times);
	return EXIT_OK;
}
