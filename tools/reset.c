// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a lent device is reset: the kernel's reset_method.  It is chosen when the device is lent and
 * restored when it is reclaimed.  Knows nothing of leases.
 */
#include <errno.h>
#include <libgen.h>
#include <string.h>

#include "dlend.h"

#define SETTING	"reset"		/* its name for keep_value() */

bool reset_valid(const char *methods)
{
	size_t len = strspn(methods, "abcdefghijklmnopqrstuvwxyz_, ");

	return len && !methods[len] && len < TEXT_MAX;
}

/* The words of @methods, with one blank before each. */
static const char *words_of(const char *methods)
{
	char *copy = text("%s", methods), *word, *rest = NULL;
	const char *words = "";

	for (word = strtok_r(copy, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest))
		words = text("%s %s", words, word);
	return words;
}

/*
 * A method that resets this function only.  "bus" is one for a device alone on its bus; the kernel
 * lists it for others, too, if they were alone when it found them.
 */
static bool has_own_reset(const struct device *dev)
{
	char *method = attr(dev->dir, "reset_method"), *word, *save = NULL;

	word = strtok_r(method, " ", &save);
	while (word && (!strcmp(word, "bus") || !strcmp(word, "cxl_bus")))
		word = strtok_r(NULL, " ", &save);
	return word;
}

bool reset_shared(const struct device *dev, const char **with, const char **outside)
{
	char *bus = dirname(text("%s", dev->dir)), bdf[16];
	bool bridge = bdf_parse(bdf, strrchr(bus, '/') + 1);
	struct names all = list_dir(bus), group = device_group(dev);

	*with = "";
	*outside = NULL;
	for (size_t i = 0; bridge && i < all.count; i++) {
		if (!bdf_parse(bdf, all.name[i]) || !strcmp(bdf, dev->bdf))
			continue;
		*with = join(*with, bdf);
		if (!names_have(&group, bdf))
			*outside = text("%s", bdf);
	}
	return **with && !has_own_reset(dev);
}

/*
 * Done before anything is changed: what cannot be kept would be lost.  Only the first is stored:
 * when we choose again, the old method is ours.  Return: it is stored now, and was not before
 */
static bool keep_method(const struct device *dev, const char *before)
{
	int err;

	if (kept_value(dev, SETTING))
		return false;
	err = keep_value(dev, SETTING, before);
	if (err)
		fail(EXIT_FAIL, text("%s: its reset method cannot be kept for reclaim", dev->bdf),
		     strerror(-err),
		     text("Nothing has changed. Is %s full, or not writable?", opt.run));
	return true;
}

void reset_choose(const struct device *dev, const char *methods)
{
	const char *file = text("%s/reset_method", dev->dir), *want = words_of(methods);
	const char *what = text("%s cannot be reset by %s", dev->bdf, methods);
	const char *before = attr(dev->dir, "reset_method"), *all;
	bool first;
	int err;

	if (!path_exists(file))
		fail(EXIT_UNFIT, what, "the kernel knows no way to reset it", NULL);
	if (!strcmp(words_of(before), want))
		return;
	first = keep_method(dev, before);
	err = write_text(file, text("%s\n", *want ? want + 1 : ""));
	if (!err && !strcmp(words_of(attr(dev->dir, "reset_method")), want))
		return;
	/* After "default" the file lists all methods.  Then the old one is restored. */
	write_text(file, "default\n");
	all = attr(dev->dir, "reset_method");
	write_text(file, text("%s\n", before));
	if (first)
		forget_value(dev, SETTING);
	fail(err == -EACCES || err == -EPERM ? EXIT_FAIL : EXIT_UNFIT, what,
	     err && err != -EINVAL ? strerror(-err) : "neither the device nor its slot can",
	     text("It has: %s. (bus needs a device that is alone on its bus.)",
		  *all ? all : "none"));
}

void reset_restore(const struct device *dev)
{
	const char *file = text("%s/reset_method", dev->dir), *before = kept_value(dev, SETTING);

	if (!before)
		return;
	if (write_text(file, text("%s\n", before)) < 0)
		progress("%s: its reset method could not be set back to \"%s\"; write that to %s",
			 dev->bdf, before, file);
	else
		forget_value(dev, SETTING);
}
