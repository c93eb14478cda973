// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a command prints: what it has done, tables (columns as wide as what is in them, on a
 * terminal, too), and a file instead of standard output.
 */
#include <errno.h>
#include <libsmartcols.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlend.h"

void print_done(const char *key, json_t *list, int code)
{
	json_t *out = json_pack("{s:o}", key, list);

	if (code)
		json_object_set_new(out, "error", attempt_json(code));
	print_document(out);
}

/* Tables; an empty cell shows as a dash. */

void table_row(struct libscols_table **t, int columns, const char *const *cell)
{
	bool made = true, head = !*t;
	struct libscols_line *line;

	if (head) {
		*t = scols_new_table();
		made = *t && !scols_table_set_column_separator(*t, "  ") &&
		       !scols_table_enable_noencoding(*t, 1);
	}
	line = made && !head ? scols_table_new_line(*t, NULL) : NULL;
	for (int i = 0; i < columns && made; i++)
		made = head ? !!scols_table_new_column(*t, cell[i], 0, 0) :
			      !scols_line_set_data(line, i, cell[i] && *cell[i] ? cell[i] : "-");
	if (!made)
		abort();
}

void table_print(struct libscols_table **t)
{
	if (scols_print_table(*t))
		abort();
	scols_unref_table(*t);
	*t = NULL;
}

/* The file.  Others read it at any time: until it is complete it has another name beside it. */

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
	struct stat there;
	int fd;

	umask(mask);
	/* A rename would replace a device or a pipe by a file. */
	if (!stat(file, &there) && !S_ISREG(there.st_mode))
		fail(EXIT_USAGE, text("%s cannot be written", file), "it is not a regular file",
		     "Without --output, the command writes to standard output.");
	output.file = file;
	output.temporary = text("%s.XXXXXX", file);
	fflush(stdout);
	output.before = dup(STDOUT_FILENO);
	fd = mkstemp(output.temporary);
	if (fd < 0) {
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
	output.temporary = NULL;
}
