// SPDX-License-Identifier: GPL-2.0-only
/*
 * fenced MDEV OTHER: a VMM resets a device that its lender does not stop, and then turns another
 * one on, which would reach the same memory by the same way.
 *
 * Says "ready", and waits until /tmp/go is there; "mapped N", pages that are mapped for the other
 * one now; waits until /tmp/go has gone, resets the first one again, and says "mapped again" when
 * the other one has all.
 */
#include "vmm.h"

#define BASE		(4u << 20)
#define BAR		4096u
#define WAIT_US		20000000

static const char *other_one;

static uint64_t mapped(void)
{
	return mdev_number(other_one, "pages_4k") + mdev_number(other_one, "pages_2m");
}

int main(int argc, char **argv)
{
	struct space s = { .bytes = BASE }, t;
	uint64_t pages, tries, since;
	int fd, other;

	if (argc != 3) {
		fprintf(stderr, "usage: fenced MDEV OTHER\n");
		return 2;
	}
	setlinebuf(stdout);
	other_one = argv[2];
	s.memory = new_memory(BASE);
	vm_slot(0, 0, s.memory, BASE);
	open_space(argv[1], &s);
	t = space_of(argv[2], &s);
	fd = open_in_vm(argv[1], &s);
	other = open_in_vm(argv[2], &t);
	/* This one is borrowed, and reaches no memory. */
	set_config(other, PCI_COMMAND, PCI_COMMAND_MEMORY);
	(void)*map_registers(other, BAR);
	enable_device(fd);
	(void)*map_registers(fd, BAR);
	puts("ready");
	await_go(0);
	must(ioctl(fd, VFIO_DEVICE_RESET), "no reset");
	pages = mapped();
	tries = mdev_number(other_one, "build_retries");
	enable_device(other);
	for (since = now_us(); now_us() - since < WAIT_US && mapped() == pages; doze(5000))
		if (mdev_number(other_one, "build_retries") > tries + 1)
			break;
	printf("mapped %llu\n", (unsigned long long)(mapped() - pages));
	while (!access("/tmp/go", F_OK))
		doze(1000);
	must(ioctl(fd, VFIO_DEVICE_RESET), "no reset");
	(void)*map_registers(other, BAR);
	puts(mapped() > pages ? "mapped again" : "never mapped");
	return 0;
}
