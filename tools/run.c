// SPDX-License-Identifier: GPL-2.0-only
/*
 * /run/dlend: who works on a device now, and what administrators had set on it before it was lent,
 * for reclaim to restore.  The kernel's settings, too, last until the next boot only.  Knows
 * nothing of what they mean.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

/*
 * A child process that writes for this one has the lock, too: if this one is killed, others wait
 * until that is over.
 */
void lock_name(const char *name, const char *what)
{
	static int lock = -1;
	char *file;

	if (lock >= 0)
		close(lock);
	lock = -1;
	if (!opt.run)
		return;
	make_run_directory();
	file = path("%s/lock-%s", opt.run, name);
	lock = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0)
		fail(EXIT_FAIL, text("%s cannot be written", file), strerror(errno),
		     "Nothing has changed.");
	free(file);
	if (!flock(lock, LOCK_EX | LOCK_NB))
		return;
	progress("%s: another dlend command works on it; this one waits", what);
	while (flock(lock, LOCK_EX))
		if (errno != EINTR)
			fail(EXIT_FAIL, text("%s cannot be locked", what), strerror(errno), NULL);
}

void lock_device(const struct device *dev)
{
	char *link = path("%s/iommu_group", dev->dir), *group = link_name(link);

	lock_name(group ? text("group-%s", group) : dev->bdf, dev->bdf);
	free(group);
	free(link);
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
