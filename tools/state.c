// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files that hold what has to last: until the next boot in /run/dlend, over it in /etc/dlend.  A
 * file is complete when it gets its name, and what was there before stays until then, even if the
 * host dies meanwhile.
 */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlend.h"

/* In a tree that --root names, the directory above may be missing, too. */
void state_directory(const char *dir)
{
	char *copy = strdup(dir);

	mkdir(dirname(copy), 0755);
	mkdir(dir, 0755);
	free(copy);
}

static char *part_of(const char *file)
{
	return path("%s.new", file);
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

int state_prepare(const char *file, const char *text)
{
	char *copy = strdup(file), *part = part_of(file);
	int err;

	state_directory(dirname(copy));
	err = write_file(part, text);
	if (err)
		unlink(part);
	free(part);
	free(copy);
	return err;
}

int state_commit(const char *file)
{
	char *part = part_of(file);
	int err = rename(part, file) ? -errno : 0;

	if (err)
		unlink(part);
	free(part);
	return err;
}

void state_drop(const char *file)
{
	char *part = part_of(file);

	unlink(part);
	free(part);
}

int state_write(const char *file, const char *text)
{
	int err = state_prepare(file, text);

	return err ? err : state_commit(file);
}
