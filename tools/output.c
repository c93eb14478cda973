// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file instead of standard output.  Others read it at any time, so it gets its name when it is
 * complete: until then it has a name of its own beside it.
 */
#include <errno.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlend.h"

static struct {
	const char *file;
	char *temporary;
	int before;		/* what standard output was */
} output;

__noreturn static void fail_output(int err, const char *todo)
{
	if (output.temporary)
		unlink(output.temporary);
	fail(EXIT_FAIL, text("%s cannot be written", output.file), strerror(err), todo);
}

/* A rename would replace a device or a pipe by a file. */
static void check_file(const char *file)
{
	struct stat there;

	if (!stat(file, &there) && !S_ISREG(there.st_mode))
		fail(EXIT_USAGE, text("%s cannot be written", file), "it is not a regular file",
		     "Without --output, the command writes to standard output.");
}

void output_flush(void)
{
	if (fflush(stdout) || ferror(stdout))
		fail(EXIT_FAIL, "standard output cannot be written", NULL, NULL);
}

/* A command that has failed has said so. */
static void check_output(int code, void *unused)
{
	bool failed = ferror(stdout), pending = __fpending(stdout);

	(void)unused;
	/* Closed, with nothing to print: no loss. */
	if (fclose(stdout) && (pending || errno != EBADF))
		failed = true;
	if (code || !failed)
		return;
	fputs("dlend: standard output cannot be written\n", stderr);
	_exit(EXIT_FAIL);
}

void output_check_at_exit(void)
{
	on_exit(check_output, NULL);
}

void output_begin(const char *file, const char *todo)
{
	const mode_t mask = umask(0);
	int fd;

	umask(mask);
	check_file(file);
	output.file = file;
	output.temporary = path("%s.XXXXXX", file);
	fflush(stdout);
	output.before = dup(STDOUT_FILENO);
	fd = mkstemp(output.temporary);
	if (fd < 0) {
		free(output.temporary);
		output.temporary = NULL;
		fail_output(errno, todo);
	}
	/* The readers are other users. */
	if (fchmod(fd, 0666 & ~mask) || dup2(fd, STDOUT_FILENO) < 0)
		fail_output(errno, todo);
	close(fd);
}

void output_end(void)
{
	int err = fflush(stdout) ? errno : ferror(stdout) ? EIO : 0;

	/* Some file systems tell of a full disk only here. */
	if (close(STDOUT_FILENO) && !err)
		err = errno;
	if (output.before >= 0) {
		dup2(output.before, STDOUT_FILENO);
		close(output.before);
	}
	/* What the file did not take is not for the other one. */
	__fpurge(stdout);
	clearerr(stdout);
	if (!err && rename(output.temporary, output.file))
		err = errno;
	if (err)
		fail_output(err, NULL);
	free(output.temporary);
	output.temporary = NULL;
}
