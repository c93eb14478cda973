// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's events about devices, from where udev has them. */
#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dlend.h"

#define FROM_KERNEL	1	/* multicast group; what udev passes on is group 2 */
#define EVENT_MAX	8192
#define SETTLE_MS	50	/* events come in bunches, and are looked at together */
#define POLL_MS_MAX	60000

static const char *const subsystems[] = {
	"SUBSYSTEM=dlend", "SUBSYSTEM=dlend_link", "SUBSYSTEM=mdev", "SUBSYSTEM=pci"
};

int uevent_open(void)
{
	const struct sockaddr_nl all = { .nl_family = AF_NETLINK, .nl_groups = FROM_KERNEL };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&all, sizeof(all))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* "add@/devices/...", and then "KEY=VALUE" as often as wanted, each with a NUL at its end. */
static bool is_ours(const char *event, size_t len)
{
	for (const char *word = event; word < event + len; word += strlen(word) + 1)
		for (size_t i = 0; i < ARRAY_SIZE(subsystems); i++)
			if (!strcmp(word, subsystems[i]))
				return true;
	return false;
}

/* Reads all that has come.  Return: some of it is about what dlend shows */
static bool uevent_take(int fd)
{
	char event[EVENT_MAX + 1];
	struct sockaddr_nl from;
	bool ours = false;
	ssize_t got;

	for (;;) {
		socklen_t size = sizeof(from);

		got = recvfrom(fd, event, EVENT_MAX, 0, (struct sockaddr *)&from, &size);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			/* ENOBUFS: so many came that some are lost */
			return ours || errno == ENOBUFS;
		event[got] = '\0';
		/* Anybody may write to the group; only the kernel has no port. */
		if (got && !from.nl_pid)
			ours |= is_ours(event, got);
	}
}

int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void uevent_wait(int events, int64_t until)
{
	struct pollfd fd[] = {
		{ .fd = events, .events = POLLIN },
		{ .fd = STDOUT_FILENO },
	};

	for (int64_t left = until - now_ms(); left > 0; left = until - now_ms()) {
		int64_t soon = now_ms() + SETTLE_MS;

		if (left > POLL_MS_MAX)
			left = POLL_MS_MAX;
		if (poll(fd, ARRAY_SIZE(fd), left) < 0 && errno != EINTR)
			fail(EXIT_FAIL, "cannot wait", strerror(errno), NULL);
		if (fd[1].revents & (POLLERR | POLLHUP | POLLNVAL))
			exit(EXIT_OK);
		if (fd[0].revents && uevent_take(events) && soon < until)
			until = soon;
	}
}
