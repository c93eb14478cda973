// SPDX-License-Identifier: GPL-2.0-only
/* Families of metrics, as Prometheus reads them.  Knows nothing of what is measured. */
#include <stdlib.h>
#include <string.h>

#include "metric.h"

/* The family that samples belong to; its head is printed with the first of them. */
static struct {
	const char *name, *help;
	bool printed;
} family;

static metric_fn collector;	/* instead of standard output */
bool metric_no_debugfs;

const char *metric_label(const char *labels, const char *name, const char *value)
{
	char *escaped = zeroed(2 * strlen(value) + 1, 1), *to = escaped;

	for (; *value; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n')
			*to++ = '\\';
		*to++ = *value == '\n' ? 'n' : *value;
	}
	return text("%s%s%s=\"%s\"", labels ? labels : "", labels ? "," : "", name, ascii(escaped));
}

const char *metric_label_value(const char *labels, const char *name)
{
	const size_t len = strlen(name);
	const char *at = labels;

	while (at && (strncmp(at, name, len) || at[len] != '='))
		at = (at = strchr(at, ',')) ? at + 1 : NULL;
	return at ? text("%.*s", (int)strcspn(at + len + 2, "\""), at + len + 2) : "";
}

void metric_collect(metric_fn fn)
{
	collector = fn;
}

void metric_begin(const char *name, const char *help)
{
	family.name = name;
	family.help = help;
	family.printed = false;
}

void metric_sample(const char *labels, const char *value)
{
	if (collector) {
		collector(family.name, labels, value);
		return;
	}
	if (!family.printed)
		printf("# HELP %s %s\n# TYPE %s %s\n", family.name, family.help, family.name,
		       ends_with(family.name, "_total") ? "counter" : "gauge");
	family.printed = true;
	if (labels)
		printf("%s{%s} %s\n", family.name, labels, value);
	else
		printf("%s %s\n", family.name, value);
}

/* Objects */

struct metric_object *metric_object_add(struct metric_objects *all, const char *labels,
					const char *dir)
{
	all->object = grow(all->object, all->count, sizeof(*all->object));
	all->object[all->count] = (struct metric_object){ .labels = labels, .dir = dir };
	return &all->object[all->count++];
}

/* Tables */

const char *metric_number(const char *file, const char *key)
{
	const size_t len = strlen(key);

	for (const char *line = file; line; line = strchr(line, '\n')) {
		char number[64];

		line += *line == '\n';
		if (!strncmp(line, key, len) && (line[len] == ':' || line[len] == ' ') &&
		    sscanf(line + len + 1, " %63s", number) == 1 && is_digits(number))
			return text("%s", number);
	}
	return NULL;
}

/* Prints the number in the unit that the name says. */
static void print_number(const char *labels, const char *number, enum metric_unit unit)
{
	static const unsigned int parts[] = {
		[UNIT_ONE] = 1, [UNIT_MILLI] = 1000, [UNIT_MICRO] = 1000000
	};
	static const int digits[] = { [UNIT_MILLI] = 3, [UNIT_MICRO] = 6 };
	unsigned long long n;

	if (unit == UNIT_ONE) {
		metric_sample(labels, number);
		return;
	}
	n = strtoull(number, NULL, 10);
	metric_sample(labels, text("%llu.%0*llu", n / parts[unit], digits[unit], n % parts[unit]));
}

void metric_rows(const struct metric_objects *all, const struct metric_row *row)
{
	for (; row->name; row++) {
		metric_begin(row->name, row->help);
		for (size_t i = 0; i < all->count; i++) {
			const struct metric_object *o = &all->object[i];
			const char *number = row->file == FROM_SYSFS ? attr(o->dir, row->key) :
					     metric_number(o->file[row->file], row->key);

			if (number && is_digits(number))
				print_number(o->labels, number, row->unit);
		}
	}
}

const char *metric_state(const char *const *states, const char *value)
{
	for (; *states; states++)
		if (!strncmp(value, *states, strlen(*states)))
			return *states;
	return NULL;
}

void metric_states(const struct metric_objects *all, const char *const *states)
{
	for (size_t i = 0; i < all->count; i++) {
		const struct metric_object *o = &all->object[i];
		const char *is = metric_state(states, attr(o->dir, "state"));

		for (const char *const *s = states; *s; s++)
			metric_sample(metric_label(o->labels, "state", *s), is == *s ? "1" : "0");
	}
}

/* debugfs, which is mounted in sysfs */

bool metric_has_debugfs(void)
{
	return list_dir(sys("kernel/debug/dlend")).count && !metric_no_debugfs;
}

char *metric_file(const char *folder, const char *name, const char *file)
{
	return metric_no_debugfs ? NULL :
	       read_all(sys("kernel/debug/dlend/%s/%s%s%s", folder, name, file ? "/" : "",
			    file ? file : ""));
}
