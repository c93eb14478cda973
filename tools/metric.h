/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Metrics in the text format of Prometheus, version 0.0.4.  A family has a name, a help text and
 * samples, one for each set of labels.  Nothing here knows what is measured.
 */
#ifndef DLEND_TOOL_METRIC_H
#define DLEND_TOOL_METRIC_H

#include "dlend.h"

/**
 * metric_label - @labels and one more; bytes that are no ASCII become '?'
 * @labels: NULL: it is the first
 */
const char *metric_label(const char *labels, const char *name, const char *value);
/** metric_label_value - what metric_label() got with @name; "" if there is none */
const char *metric_label_value(const char *labels, const char *name);
/** metric_fn - a sample of family @name, as metric_sample() has it */
typedef void (*metric_fn)(const char *name, const char *labels, const char *value);
/** metric_collect - samples go to @fn from now on, and nothing is printed */
void metric_collect(metric_fn fn);
/**
 * metric_begin - the samples that follow are of this family
 *
 * The name says the unit, and with "_total" at its end that it is a counter; else it is a gauge.
 * A family without samples is not printed.
 */
void metric_begin(const char *name, const char *help);
/** metric_sample - @labels: from metric_label(), or NULL; @value: as it is printed */
void metric_sample(const char *labels, const char *value);

/* Where a number is: in sysfs, or in one of the files of debugfs, which are numbered from 1 on. */
#define FROM_SYSFS	0
#define METRIC_FILES	3

/**
 * struct metric_object - what has samples of its own: a link, a device
 * @labels: of all its samples; they stay the same as long as the object is there
 * @dir: of its attributes in sysfs
 * @file: what files of debugfs hold; NULL if they cannot be read
 */
struct metric_object {
	const char *labels, *dir, *file[METRIC_FILES + 1];
};

struct metric_objects {
	size_t count;
	struct metric_object *object;
};

/** metric_object_add - @labels, @dir: as in the structure */
struct metric_object *metric_object_add(struct metric_objects *all, const char *labels,
					const char *dir);

enum metric_unit {
	UNIT_ONE,
	UNIT_MILLI,		/* the kernel has thousandths of what the name says */
	UNIT_MICRO,
};

/**
 * struct metric_row - a family that each object has one sample of
 * @file: number of the file of debugfs, or FROM_SYSFS
 * @key: name of the attribute; in a file, what its line begins with
 *
 * An object where this is no whole number, or is not there, has no sample.
 */
struct metric_row {
	const char *name, *help, *key;
	int file;
	enum metric_unit unit;
};

/** metric_rows - all families of a table; its last row has no name */
void metric_rows(const struct metric_objects *all, const struct metric_row *row);
/** metric_number - the digits that @key has in the text of a file, or NULL */
const char *metric_number(const char *file, const char *key);

/** metric_state - which of @states (NULL after the last) @value begins with, or NULL */
const char *metric_state(const char *const *states, const char *value);
/**
 * metric_states - a family with the label "state"
 *
 * Each object has a sample for each of @states: 1 if its attribute "state" begins so, else 0.
 */
void metric_states(const struct metric_objects *all, const char *const *states);

/** metric_no_debugfs - read nothing of debugfs */
extern bool metric_no_debugfs;
/** metric_has_debugfs - dlend's directory there can be read */
bool metric_has_debugfs(void);
/**
 * metric_file - the text of a file of dlend's in debugfs
 * @file: NULL: it is @folder/@name itself
 *
 * Return: NULL if it cannot be read
 */
char *metric_file(const char *folder, const char *name, const char *file);

/*
 * metrics.c: print the families of one kind of thing: links of this node, devices that it lends,
 * mediated devices, attached devices.
 */
void metrics_links(void);
void metrics_lent(void);
void metrics_mdevs(void);
void metrics_attached(void);

#endif
