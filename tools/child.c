// SPDX-License-Identifier: GPL-2.0-only
/* Other programs, as child processes. */
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
