// SPDX-License-Identifier: GPL-2.0-only
/*
 * /run/dlend: who works on a device now, and what administrators had set on it before it was lent,
 * for reclaim to restore.  The kernel's settings, too, last until the next boot only.  Knows
 * nothing of what they mean.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "dlend.h"

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
	state_directory(opt.run);
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

int keep_value(const struct device *dev, const char *setting, const char *value)
{
	char *file = kept_file(dev, setting);
	int err = file ? state_write(file, text("%s\n", value)) : 0;

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
