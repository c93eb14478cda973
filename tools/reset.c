// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a lent device is reset: the kernel's reset_method.  It is chosen when the device is lent and
 * restored when it is reclaimed.  Knows nothing of leases.
 */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "dlend.h"

#define SETTING	"reset"		/* its name for keep_value() */

static char *commas_to_blanks(const char *methods)
{
	char *s = path("%s", methods);

	for (char *c = s; *c; c++)
		if (*c == ',')
			*c = ' ';
	return s;
}

bool reset_valid(const char *methods)
{
	size_t len = strspn(methods, "abcdefghijklmnopqrstuvwxyz_, ");

	return len && !methods[len] && len < TEXT_MAX;
}

/* Does @has hold every word of @want, in that order and nothing else? */
static bool same_words(const char *has, const char *want)
{
	while (true) {
		size_t a, b;

		has += strspn(has, " ");
		want += strspn(want, " ");
		a = strcspn(has, " ");
		b = strcspn(want, " ");
		if (a != b || strncmp(has, want, a))
			return false;
		if (!a)
			return true;
		has += a;
		want += b;
	}
}

/*
 * A method that resets this function only.  "bus" is one for a device alone on its bus; the kernel
 * lists it for others, too, if they were alone when it found them.
 */
static bool has_own_reset(const struct device *dev)
{
	char method[TEXT_MAX], *word, *save = NULL;

	read_attr(method, dev->dir, "reset_method");
	word = strtok_r(method, " ", &save);
	while (word && (!strcmp(word, "bus") || !strcmp(word, "cxl_bus")))
		word = strtok_r(NULL, " ", &save);
	return word;
}

bool reset_shared(const struct device *dev, const char **with, const char **outside)
{
	char *copy = strdup(dev->dir), *bus = dirname(copy), bdf[16];
	bool bridge = bdf_parse(bdf, strrchr(bus, '/') + 1);
	struct names all = list_dir(bus), group = device_group(dev);

	*with = "";
	*outside = NULL;
	for (size_t i = 0; bridge && i < all.count; i++) {
		if (!bdf_parse(bdf, all.name[i]) || !strcmp(bdf, dev->bdf))
			continue;
		*with = text("%s%s%s", *with, **with ? ", " : "", bdf);
		if (!names_have(&group, bdf))
			*outside = text("%s", bdf);
	}
	names_free(&group);
	names_free(&all);
	free(copy);
	return **with && !has_own_reset(dev);
}

/*
 * Done before anything is changed: what cannot be kept would be lost.  Only the first is stored:
 * when we choose again, the old method is ours.  Return: it is stored now, and was not before
 */
static bool keep_method(const struct device *dev, const char *before)
{
	char earlier[TEXT_MAX];
	int err;

	if (kept_value(earlier, dev, SETTING))
		return false;
	err = keep_value(dev, SETTING, before);
	if (err)
		fail(EXIT_FAIL, text("%s: its reset method cannot be kept for reclaim", dev->bdf),
		     strerror(-err),
		     text("Nothing has changed. Is %s full, or not writable?", opt.run));
	return true;
}

bool reset_choose(const struct device *dev, const char *methods)
{
	char *file = path("%s/reset_method", dev->dir), *want = commas_to_blanks(methods);
	char before[TEXT_MAX], after[TEXT_MAX], all[TEXT_MAX];
	bool first;
	int err;

	if (!path_exists(file))
		fail(EXIT_UNFIT, text("%s cannot be reset by %s", dev->bdf, methods),
		     "the kernel knows no way to reset it", NULL);
	read_attr(before, dev->dir, "reset_method");
	if (same_words(before, want)) {
		free(want);
		free(file);
		return false;
	}
	first = keep_method(dev, before);
	err = write_text(file, text("%s\n", want));
	read_attr(after, dev->dir, "reset_method");
	if (err || !same_words(after, want)) {
		/* After "default" the file lists all methods.  Then the old one is restored. */
		write_text(file, "default\n");
		read_attr(all, dev->dir, "reset_method");
		write_text(file, text("%s\n", before));
		if (first)
			forget_value(dev, SETTING);
		fail(err == -EACCES || err == -EPERM ? EXIT_FAIL : EXIT_UNFIT,
		     text("%s cannot be reset by %s", dev->bdf, methods),
		     err && err != -EINVAL ? strerror(-err) : "neither the device nor its slot can",
		     text("It has: %s. (bus needs a device that is alone on its bus.)",
			  *all ? all : "none"));
	}
	free(want);
	free(file);
	return true;
}

void reset_restore(const struct device *dev)
{
	char *file = path("%s/reset_method", dev->dir);
	char before[TEXT_MAX];

	if (!kept_value(before, dev, SETTING))
		goto out;
	if (write_text(file, text("%s\n", before)) < 0)
		progress("%s: its reset method could not be set back to \"%s\"; write that to %s",
			 dev->bdf, before, file);
	else
		forget_value(dev, SETTING);
out:
	free(file);
}
