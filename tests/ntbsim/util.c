// SPDX-License-Identifier: GPL-2.0
/* Logging, time, growing strings, unix sockets. */
#include "util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

bool verbose;

static void vsay(const char *fmt, va_list ap)
{
	char line[512];

	/* In one piece: others may write to the same log. */
	vsnprintf(line, sizeof(line), fmt, ap);
	fprintf(stderr, "ntbsim: %s\n", line);
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(fmt, ap);
	va_end(ap);
}

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(fmt, ap);
	va_end(ap);
	exit(1);
}

void *xalloc(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		die("out of memory");
	return p;
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void text_reserve(struct text *t, size_t more)
{
	if (t->len + more <= t->cap)
		return;
	t->cap = (t->len + more) * 2;
	t->s = realloc(t->s, t->cap);
	if (!t->s)
		die("out of memory");
}

void text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	text_reserve(t, n + 1);
	va_start(ap, fmt);
	vsnprintf(t->s + t->len, n + 1, fmt, ap);
	va_end(ap);
	t->len += n;
}

void text_free(struct text *t)
{
	free(t->s);
	memset(t, 0, sizeof(*t));
}

static int unix_socket(const char *path, struct sockaddr_un *sa)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(sa->sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(sa->sun_path, path);
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int unix_listen(const char *path)
{
	struct sockaddr_un sa;
	int fd = unix_socket(path, &sa);

	if (fd < 0)
		return -1;
	/* A socket left by a simulator that was killed would make bind() fail. */
	unlink(path);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 64)) {
		close(fd);
		return -1;
	}
	return fd;
}

int unix_connect(const char *path)
{
	struct sockaddr_un sa;
	int fd = unix_socket(path, &sa);

	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(fd);
		return -1;
	}
	return fd;
}
