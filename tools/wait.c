// SPDX-License-Identifier: GPL-2.0-only
/* Attributes whose write returns when something is done that may take long, or never ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dlend.h"

#define FIRST_TOLD_S	2
#define TELL_EVERY_S	5
#define SIGNALLED_S	3	/* a write that a signal can end has ended by then */

static volatile sig_atomic_t writer, signalled;

static void pass_on(int number)
{
	signalled = 1;
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

/* Whoever reads what this command prints must not wait for a child that outlives it. */
__noreturn static void write_apart(const char *file, const char *word)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	_exit(-write_text(file, word));
}

static int seconds_since(const struct timespec *begin)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - begin->tv_sec - (now.tv_nsec < begin->tv_nsec);
}

/* @end: (in) the process's pidfd.  Return: it has ended */
static bool wait_for_end(int end, const char *waiting, int most_s)
{
	struct pollfd process = { .fd = end, .events = POLLIN };
	int seconds, tell = FIRST_TOLD_S;
	struct timespec begin;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (poll(&process, 1, 1000) <= 0) {
		seconds = seconds_since(&begin);
		if (signalled && (!most_s || most_s > seconds + SIGNALLED_S)) {
			most_s = seconds + SIGNALLED_S;
			signalled = 0;
		}
		if (most_s && seconds >= most_s)
			return false;
		if (seconds < tell)
			continue;
		progress("%s (%d s)", waiting, seconds);
		tell += TELL_EVERY_S;
	}
	return true;
}

/*
 * A child process writes, and this one tells the user why it takes so long.  A signal that would
 * end this process ends the write, and the user is told how that ended.  Some writes nothing can
 * end: the kernel sleeps in them.  Then the child is left alone with it.
 */
int write_and_wait(const char *file, const char *word, const char *waiting, int most_s)
{
	pid_t pid = fork_apart();
	int status = 0, end;
	bool ended;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		write_apart(file, word);
	end = pidfd_open(pid, 0);
	writer = pid;
	signalled = 0;
	handle_signals(pass_on);
	ended = wait_for_end(end, waiting, most_s);
	handle_signals(SIG_DFL);
	close(end);
	if (!ended)
		return -EINPROGRESS;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
