// SPDX-License-Identifier: GPL-2.0-only
/* Attributes whose write returns when something is done that may take long. */
#include <errno.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dlend.h"

#define TICKS		10	/* in a second */
#define TELL_EVERY_S	5

static bool has_ended(pid_t pid, int *status)
{
	const struct timespec tick = { .tv_nsec = 1000 * 1000 * 1000 / TICKS };

	for (int i = 0; i < TICKS; i++) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return true;
		nanosleep(&tick, NULL);
	}
	return false;
}

/* A child process writes, and this one tells the user why it takes so long. */
int write_and_wait(const char *file, const char *word, const char *waiting)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-write_text(file, word));
	for (int second = 0; !has_ended(pid, &status); second++)
		if (second % TELL_EVERY_S == 1)
			progress("%s (%d s)", waiting, second + 1);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
