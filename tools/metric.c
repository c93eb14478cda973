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
static bool no_debugfs;

const char *metric_label(const char *labels, const char *name, const char *value)
{
	char *escaped = malloc(2 * strlen(value) + 1), *to = escaped;
	const char *all;

	if (!escaped)
		abort();
	for (; *value; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n')
			*to++ = '\\';
		if (*value == '\n')
			*to++ = 'n';
		else
			*to++ = *value < ' ' || *value > '~' ? '?' : *value;
	}
	*to = '\0';
	all = text("%s%s%s=\"%s\"", labels ? labels : "", labels ? "," : "", name, escaped);
	free(escaped);
	return all;
}

const char *metric_label_value(char value[TEXT_MAX], const char *labels, const char *name)
{
	const size_t len = strlen(name);
	const char *at = labels;

	*value = '\0';
	while (at && (strncmp(at, name, len) || at[len] != '='))
		at = (at = strchr(at, ',')) ? at + 1 : NULL;
	if (at)
		sscanf(at + len + 1, "\"%255[^\"]", value);
	return value;
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

static bool ends_with(const char *s, const char *end)
{
	size_t len = strlen(s), more = strlen(end);

	return len >= more && !strcmp(s + len - more, end);
}

static void print_head(void)
{
	printf("# HELP %s ", family.name);
	for (const char *c = family.help; *c; c++) {
		if (*c == '\\')
			putchar('\\');
		putchar(*c);
	}
	printf("\n# TYPE %s %s\n", family.name,
	       ends_with(family.name, "_total") ? "counter" : "gauge");
	family.printed = true;
}

void metric_sample(const char *labels, const char *value)
{
	if (collector) {
		collector(family.name, labels, value);
		return;
	}
	if (!family.printed)
		print_head();
	if (labels)
		printf("%s{%s} %s\n", family.name, labels, value);
	else
		printf("%s %s\n", family.name, value);
}

/* Objects */

struct metric_object *metric_object_add(struct metric_objects *all, const char *labels, char *dir)
{
	struct metric_object *new;

	all->object = reallocarray(all->object, all->count + 1, sizeof(*new));
	if (!all->object)
		abort();
	new = &all->object[all->count++];
	*new = (struct metric_object){ .labels = labels, .dir = dir };
	return new;
}

void metric_objects_free(struct metric_objects *all)
{
	for (size_t i = 0; i < all->count; i++) {
		free(all->object[i].dir);
		for (size_t j = 0; j < METRIC_FILES; j++)
			free(all->object[i].file[j]);
	}
	free(all->object);
	memset(all, 0, sizeof(*all));
}

/* Tables */

static bool is_whole(const char *s)
{
	size_t len = strspn(s, "0123456789");

	return len && !s[len];
}

const char *metric_number(char number[TEXT_MAX], const char *file, const char *key)
{
	const size_t len = strlen(key);

	for (const char *line = file; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, len) || (line[len] != ':' && line[len] != ' '))
			continue;
		if (sscanf(line + len + 1, " %63s", number) == 1 && is_whole(number))
			return number;
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

static void print_row(const struct metric_object *o, const struct metric_row *row)
{
	char number[TEXT_MAX];

	if (row->file == FROM_SYSFS) {
		if (is_whole(read_attr(number, o->dir, row->key)))
			print_number(o->labels, number, row->unit);
	} else if (metric_number(number, o->file[row->file], row->key)) {
		print_number(o->labels, number, row->unit);
	}
}

void metric_rows(const struct metric_objects *all, const struct metric_row *row)
{
	for (; row->name; row++) {
		metric_begin(row->name, row->help);
		for (size_t i = 0; i < all->count; i++)
			print_row(&all->object[i], row);
	}
}

const char *metric_state_word(const struct metric_state *state, const char *value)
{
	for (; state->word; state++)
		if (!strncmp(value, state->begins, strlen(state->begins)))
			return state->word;
	return NULL;
}

void metric_states(const struct metric_objects *all, const struct metric_state *state)
{
	char value[TEXT_MAX];

	for (size_t i = 0; i < all->count; i++) {
		const struct metric_object *o = &all->object[i];
		const char *is = metric_state_word(state, read_attr(value, o->dir, "state"));

		for (const struct metric_state *s = state; s->word; s++)
			metric_sample(metric_label(o->labels, "state", s->word),
				      is && !strcmp(is, s->word) ? "1" : "0");
	}
}

/* debugfs, which is mounted in sysfs */

void metric_leave_debugfs(void)
{
	no_debugfs = true;
}

bool metric_has_debugfs(void)
{
	char *dir = path("%s/kernel/debug/dlend", opt.sysfs);
	struct names n = list_dir(dir);
	bool has = n.count && !no_debugfs;

	names_free(&n);
	free(dir);
	return has;
}

char *metric_file(const char *folder, const char *name, const char *file)
{
	char *p, *all;

	if (no_debugfs)
		return NULL;
	p = path("%s/kernel/debug/dlend/%s/%s%s%s", opt.sysfs, folder, name, file ? "/" : "",
		 file ? file : "");
	all = read_all(p);
	free(p);
	return all;
}
