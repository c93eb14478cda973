// SPDX-License-Identifier: GPL-2.0-only
/* Other programs, as child processes. */
#include <errno.h>
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

int child_run(const char *const *words)
{
	pid_t pid = fork_apart();
	int status;

	if (pid == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(words[0], (char *const *)words);
		_exit(CHILD_MISSING);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

char *child_read(const char *const *words)
{
	int ends[2], status;
	char *file, *said;
	pid_t pid;

	if (pipe(ends))
		fail(EXIT_FAIL, "no pipe", strerror(errno), NULL);
	pid = fork_apart();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execvp(words[0], (char *const *)words);
		_exit(CHILD_MISSING);
	}
	close(ends[1]);
	file = path("/dev/fd/%d", ends[0]);
	said = pid > 0 ? read_all(file) : NULL;
	free(file);
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		free(said);
		return NULL;
	}
	return said;
}
