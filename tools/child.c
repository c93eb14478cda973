// SPDX-License-Identifier: GPL-2.0-only
/*
 * Other processes: programs, and writes to attributes that return when something is done that may
 * take long, or never ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlend.h"

#define FIRST_TOLD_S	2
#define TELL_EVERY_S	5
#define SIGNALLED_S	3	/* a write that a signal can end has ended by then */

/*
 * As fork(2); the child is in a process group of its own.  So Ctrl-C, which a terminal sends to all
 * processes of its foreground, does not reach the child.
 */
static pid_t fork_apart(void)
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
	char *said;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		fail(EXIT_FAIL, "no pipe", strerror(errno), NULL);
	pid = child_start(words, ends[1]);
	close(ends[1]);
	said = pid > 0 ? read_all(text("/dev/fd/%d", ends[0])) : NULL;
	close(ends[0]);
	return child_end(pid) ? NULL : said;
}

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

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
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

/* @end: (in) the process's pidfd.  Return: it has ended */
static bool wait_for_end(int end, const char *waiting, int most_s)
{
	struct pollfd process = { .fd = end, .events = POLLIN };
	int64_t begin = now_ms();
	int seconds, tell = FIRST_TOLD_S;

	while (poll(&process, 1, 1000) <= 0) {
		seconds = (now_ms() - begin) / 1000;
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
