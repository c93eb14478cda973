// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's events about devices, from where udev has them. */
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uevent.h"

#define FROM_KERNEL	1	/* multicast group; what udev passes on is group 2 */
#define EVENT_MAX	8192

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
		for (size_t i = 0; i < sizeof(subsystems) / sizeof(*subsystems); i++)
			if (!strcmp(word, subsystems[i]))
				return true;
	return false;
}

bool uevent_take(int fd)
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
