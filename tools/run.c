// SPDX-License-Identifier: GPL-2.0-only
/*
 * What administrators had set on a device before it was lent, for reclaim to restore.  It is stored
 * in /run/dlend, because the kernel's settings, too, last until the next boot only.  Knows nothing
 * of what they mean.
 */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlend.h"

/* In a tree that --root names, /run may be missing, too. */
static void make_run_directory(void)
{
	char *copy = strdup(opt.run);

	mkdir(dirname(copy), 0755);
	mkdir(opt.run, 0755);
	free(copy);
}

/* NULL: nowhere (--sysfs). */
static char *kept_file(const struct device *dev, const char *setting)
{
	return opt.run ? path("%s/%s-%s", opt.run, setting, dev->bdf) : NULL;
}

/* That the disk is full may show only when the file is closed. */
static int write_file(const char *file, const char *value)
{
	FILE *f = fopen(file, "we");
	int err = 0;

	if (!f)
		return -errno;
	if (fprintf(f, "%s\n", value) < 0)
		err = -errno;
	if (fclose(f) && !err)
		err = -errno;
	return err;
}

/* The file is complete when it gets its name. */
int keep_value(const struct device *dev, const char *setting, const char *value)
{
	char *file = kept_file(dev, setting), *part;
	int err;

	if (!file)
		return 0;
	make_run_directory();
	part = path("%s.new", file);
	err = write_file(part, value);
	if (!err && rename(part, file))
		err = -errno;
	if (err)
		unlink(part);
	free(part);
	free(file);
	return err;
}

bool kept_value(char *value, const struct device *dev, const char *setting)
{
	char *file = kept_file(dev, setting);
	bool found = file && !read_text(value, file);

	free(file);
	return found;
}

void forget_value(const struct device *dev, const char *setting)
{
	char *file = kept_file(dev, setting);

	if (file)
		unlink(file);
	free(file);
}
