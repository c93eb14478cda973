// SPDX-License-Identifier: GPL-2.0-only
/*
 * served MDEV: a VMM some of whose RAM is served by another process (userfaultfd), which never
 * does.  The device of the VM pins it, and waits.
 *
 * Says "fault PID", of that process, as soon as somebody waits; and goes on until it is killed.
 */
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/syscall.h>

#include "vmm.h"

#define BASE		(4u << 20)
#define GPA		(4ull << 30)
#define SERVED		(2u << 20)

static void slot(unsigned int number, uint64_t gpa, void *at, uint64_t bytes)
{
	struct kvm_userspace_memory_region region = {
		.slot = number, .guest_phys_addr = gpa, .memory_size = bytes,
		.userspace_addr = (uintptr_t)at,
	};

	must(ioctl(vm_file(), KVM_SET_USER_MEMORY_REGION, &region), "no memory slot");
}

/* It outlives the VMM. */
static void serve(int fd)
{
	struct uffd_msg message;

	if (fork())
		return;
	setsid();
	if (read(fd, &message, sizeof(message)) == sizeof(message))
		printf("fault %d\n", getpid());
	pause();
	exit(0);
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct space s = { .bytes = BASE };
	void *served;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: served MDEV\n");
		return 2;
	}
	setlinebuf(stdout);
	s.memory = new_memory(BASE);
	served = new_memory(SERVED);
	fd = must(syscall(SYS_userfaultfd, 0), "no userfaultfd");
	must(ioctl(fd, UFFDIO_API, &api), "no userfaultfd of this version");
	area.range.start = (uintptr_t)served;
	area.range.len = SERVED;
	must(ioctl(fd, UFFDIO_REGISTER, &area), "memory cannot be served");
	serve(fd);
	slot(0, 0, s.memory, BASE);
	slot(1, GPA, served, SERVED);
	open_space(argv[1], &s);
	space_map(&s, GPA, served, SERVED);
	enable_device(open_in_vm(argv[1], &s));
	pause();
	return 0;
}
