// SPDX-License-Identifier: GPL-2.0-only
/* Attributes whose write returns when something is done that may take long. */
#include <errno.h>
#include <signal.h>
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

static volatile sig_atomic_t writer;

static void pass_on(int number)
{
	kill(writer, number);
}

/* Signals that end this process call @handler from now on.  An ignored one (nohup) stays so. */
static void handle_signals(void (*handler)(int))
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = handler };
	struct sigaction before;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

/*
 * A child process writes, and this one tells the user why it takes so long.  A signal that would
 * end this process ends the write, and the user is told how that ended.
 */
int write_and_wait(const char *file, const char *word, const char *waiting)
{
	pid_t pid = fork_apart();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-write_text(file, word));
	writer = pid;
	handle_signals(pass_on);
	for (int second = 0; !has_ended(pid, &status); second++)
		if (second % TELL_EVERY_S == 1)
			progress("%s (%d s)", waiting, second + 1);
	handle_signals(SIG_DFL);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
