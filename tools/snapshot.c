// SPDX-License-Identifier: GPL-2.0-only
/* What dlend watch looks at.  Knows nothing of time, and prints nothing. */
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

/**
 * struct kind - of things that are looked at alike
 * @where: directory of all of them in sysfs
 * @below: directory of their attributes in each
 * @key: attributes, but for those that @look reads elsewhere
 * @look: the other values. Return: false if it is none of dlend's, or none that is shown so
 */
struct kind {
	const char *name, *where, *below;
	const char *key[VALUES_MAX + 1];
	bool (*look)(struct thing *t, const char *dir);
};

static void set_value(struct thing *t, const char *key, const char *value)
{
	for (size_t i = 0; t->key[i]; i++)
		if (!strcmp(t->key[i], key)) {
			free(t->value[i]);
			t->value[i] = path("%s", value);
		}
}

/* What is going has a directory for a moment longer than its attributes. */
static bool is_there(const char *dir)
{
	char value[TEXT_MAX];

	return *read_attr(value, dir, "state");
}

static bool look_link(struct thing *t, const char *dir)
{
	(void)t;
	return is_there(dir);
}

static bool look_lent(struct thing *t, const char *dir)
{
	char value[TEXT_MAX];

	/* The directory of a driver has other files, too. */
	set_value(t, "address", read_attr(value, dir, "fabric_name"));
	return *value && is_there(dir);
}

/* A device of this host is a lent one, which is the same with more. */
static bool look_offer(struct thing *t, const char *dir)
{
	char node[TEXT_MAX], lender[TEXT_MAX];

	(void)t;
	own_node(node);
	read_attr(lender, dir, "lender");
	return strcmp(node, lender) && is_there(dir);
}

static bool look_mdev(struct thing *t, const char *dir)
{
	/* @dir is PARENT/UUID/dlend */
	char *where = real_path(dir);

	if (!where)
		return false;
	set_value(t, "address", basename(dirname(dirname(where))));
	free(where);
	return is_there(dir);
}

static bool look_attached(struct thing *t, const char *dir)
{
	char where[TEXT_MAX], *driver;

	if (!read_attached(where, dir))
		return false;
	driver = attached_driver(where);
	set_value(t, "device", where);
	set_value(t, "driver", driver ? driver : "");
	free(driver);
	return true;
}

static const struct kind kinds[] = {
	{ "link", "class/dlend_link", "",
	  { "type", "state", "peer_node", "peer_name", "session", "last_error" }, look_link },
	{ "lent", "bus/pci/drivers/" DLEND_DRIVER, "/dlend",
	  { "address", "type", "state", "borrower", "epoch" }, look_lent },
	{ "offer", "bus/dlend/devices", "",
	  { "type", "lender", "state", "borrower", "epoch", "link", "attach_error" }, look_offer },
	{ "mdev", "bus/mdev/devices", "/dlend", { "address", "state", "epoch", "move_to" },
	  look_mdev },
	{ "attached", "bus/dlend/devices", "", { "device", "driver" }, look_attached },
};

static void forget(struct thing *t)
{
	free(t->name);
	for (size_t i = 0; i < VALUES_MAX; i++)
		free(t->value[i]);
}

static void add_thing(struct snapshot *s, const struct kind *kind, const char *name)
{
	char *dir = path("%s/%s/%s%s", opt.sysfs, kind->where, name, kind->below);
	struct thing t = { .kind = kind->name, .name = path("%s", name), .key = kind->key };
	char value[TEXT_MAX];

	for (size_t i = 0; kind->key[i]; i++)
		set_value(&t, kind->key[i], read_attr(value, dir, kind->key[i]));
	if (kind->look(&t, dir)) {
		s->thing = reallocarray(s->thing, s->count + 1, sizeof(t));
		if (!s->thing)
			abort();
		s->thing[s->count++] = t;
	} else {
		forget(&t);
	}
	free(dir);
}

struct snapshot snapshot_take(void)
{
	struct snapshot s = { 0 };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		char *where = path("%s/%s", opt.sysfs, kinds[i].where);
		struct names n = list_dir(where);

		for (size_t j = 0; j < n.count; j++)
			add_thing(&s, &kinds[i], n.name[j]);
		names_free(&n);
		free(where);
	}
	return s;
}

void snapshot_free(struct snapshot *s)
{
	for (size_t i = 0; i < s->count; i++)
		forget(&s->thing[i]);
	free(s->thing);
	memset(s, 0, sizeof(*s));
}

/* Which of two comes first in a snapshot; none is after all of them. */
static int order(const struct thing *a, const struct thing *b)
{
	size_t at_a = 0, at_b = 0;

	if (!a || !b)
		return !a - !b;
	while (strcmp(kinds[at_a].name, a->kind))
		at_a++;
	while (strcmp(kinds[at_b].name, b->kind))
		at_b++;
	if (at_a != at_b)
		return at_a < at_b ? -1 : 1;
	return strverscmp(a->name, b->name);
}

static bool is_same(const struct thing *a, const struct thing *b)
{
	for (size_t i = 0; a->key[i]; i++)
		if (strcmp(a->value[i], b->value[i]))
			return false;
	return true;
}

void snapshot_compare(const struct snapshot *old, const struct snapshot *new, difference_fn fn,
		      void *arg)
{
	size_t i = 0, j = 0;

	while (i < old->count || j < new->count) {
		const struct thing *before = i < old->count ? &old->thing[i] : NULL;
		const struct thing *after = j < new->count ? &new->thing[j] : NULL;
		int first = order(before, after);

		if (first)
			fn(arg, first < 0 ? before : NULL, first < 0 ? NULL : after);
		else if (!is_same(before, after))
			fn(arg, before, after);
		i += first <= 0;
		j += first >= 0;
	}
}
