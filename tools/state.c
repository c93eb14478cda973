// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files that hold what has to last: until the next boot in /run/dlend, over it in /etc/dlend.  A
 * file is complete when it gets its name, and what was there before stays until then, even if the
 * host dies meanwhile.
 *
 * In /run/dlend: who works on a device now, and what administrators had set on it before it was
 * lent, for reclaim to restore.  The kernel's settings, too, last until the next boot only.  Knows
 * nothing of what they mean.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlend.h"

/* In a tree that --root names, the directory above may be missing, too. */
static void make_directory(const char *dir)
{
	mkdir(dirname(text("%s", dir)), 0755);
	mkdir(dir, 0755);
}

static char *part_of(const char *file)
{
	return text("%s.new", file);
}

/* That the disk is full may show only when the file is closed. */
static int write_file(const char *file, const char *text)
{
	FILE *f = fopen(file, "we");
	int err = 0;

	if (!f)
		return -errno;
	if (fputs(text, f) < 0 || fflush(f) || fsync(fileno(f)))
		err = -errno;
	if (fclose(f) && !err)
		err = -errno;
	return err;
}

int state_prepare(const char *file, const char *content)
{
	int err;

	make_directory(dirname(text("%s", file)));
	err = write_file(part_of(file), content);
	if (err)
		state_drop(file);
	return err;
}

int state_commit(const char *file)
{
	int err = rename(part_of(file), file) ? -errno : 0;

	if (err)
		state_drop(file);
	return err;
}

void state_drop(const char *file)
{
	unlink(part_of(file));
}

int state_write(const char *file, const char *text)
{
	int err = state_prepare(file, text);

	return err ? err : state_commit(file);
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
	make_directory(opt.run);
	file = text("%s/lock-%s", opt.run, name);
	lock = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0)
		fail(EXIT_FAIL, text("%s cannot be written", file), strerror(errno),
		     "Nothing has changed.");
	if (!flock(lock, LOCK_EX | LOCK_NB))
		return;
	progress("%s: another dlend command works on it; this one waits", what);
	while (flock(lock, LOCK_EX))
		if (errno != EINTR)
			fail(EXIT_FAIL, text("%s cannot be locked", what), strerror(errno), NULL);
}

void lock_device(const struct device *dev)
{
	const char *group = link_name(dev->dir, "iommu_group");

	lock_name(group ? text("group-%s", group) : dev->bdf, dev->bdf);
}

static char *kept_file(const struct device *dev, const char *setting)
{
	return text("%s/%s-%s", opt.run, setting, dev->bdf);
}

int keep_value(const struct device *dev, const char *setting, const char *value)
{
	return state_write(kept_file(dev, setting), text("%s\n", value));
}

const char *kept_value(const struct device *dev, const char *setting)
{
	return read_line(kept_file(dev, setting));
}

void forget_value(const struct device *dev, const char *setting)
{
	unlink(kept_file(dev, setting));
}
