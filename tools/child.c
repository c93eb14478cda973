// SPDX-License-Identifier: GPL-2.0-only
/* Other programs, as child processes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlend.h"

pid_t fork_apart(void)
{
	pid_t pid = fork();

	if (pid == 0)
		setpgid(0, 0);
	return pid;
}

/* @out: where its standard output goes */
static pid_t child_start(const char *const *words, int out)
{
	pid_t pid = fork_apart();

	if (pid == 0) {
		dup2(out, STDOUT_FILENO);
		execvp(words[0], (char *const *)words);
		_exit(CHILD_MISSING);
	}
	return pid;
}

/* Return: its exit status; -1: there is no such child, or a signal has ended it */
static int child_end(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

int child_run(const char *const *words)
{
	return child_end(child_start(words, STDERR_FILENO));
}

char *child_read(const char *const *words)
{
	char *file, *said;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		fail(EXIT_FAIL, "no pipe", strerror(errno), NULL);
	pid = child_start(words, ends[1]);
	close(ends[1]);
	file = path("/dev/fd/%d", ends[0]);
	said = pid > 0 ? read_all(file) : NULL;
	free(file);
	close(ends[0]);
	if (child_end(pid)) {
		free(said);
		return NULL;
	}
	return said;
}
