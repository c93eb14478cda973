// SPDX-License-Identifier: GPL-2.0-only
/*
 * cycle UUID TIMES [hasty|late]: on the borrower's host, with no guest: opens an mdev of QEMU's
 * edu device as a VMM does, sets Bus Master Enable, reads a register, and every tenth time lets edu
 * copy a page there and back; closes it.  TIMES times, by iommufd if the kernel gives the mdev a
 * device of its own there, else by the legacy container.  Hasty: it asks for a reset just before
 * it closes, so that the next open comes while the device is still busy for the one before.  Late:
 * half a second passes before the device gets its address space (iommufd).
 *
 * cycle UUID 1 with OTHER: OTHER, of any device, is of the same VM, and both are in use, but only
 * UUID's address space has memory in it; UUID is closed first, and OTHER cannot take its pins over
 * (iommufd).
 *
 * cycle UUID 1 beside BDF: the VM has a device of this host, too (of vfio-pci's), in one container:
 * the BAR of UUID, which is in use, is not to be mapped for that one's DMA.
 *
 * Says "ok TIMES", or what is wrong, when, and exits with 1.
 */
#include "vmmedu.h"

enum how { PLAIN, HASTY, LATE, WITH, BESIDE };

static int open_as(const char *uuid, const struct space *s, enum how how)
{
	int fd;

	if (s->iommufd < 0)
		return open_device(uuid, s);
	fd = device_file(s);
	if (how == WITH)
		tell_vm(fd, KVM_DEV_VFIO_FILE_ADD);
	bind_device(fd, s);
	if (how == LATE)
		doze(500000);
	attach_device(fd, s);
	return fd;
}

static void cycle(const char *uuid, struct space *s, enum how how)
{
	int fd = open_as(uuid, s, how);
	volatile uint32_t *regs = start(fd, EDU_IDENT);

	if (turn % 10 == 0)
		dma(regs);
	if (how == HASTY) {
		must(ioctl(fd, VFIO_DEVICE_RESET), "no reset");
		doze(100000);	/* the lender is asked by then */
	}
	stop(fd, regs);
}

static void two(const char *uuid, struct space *s, const char *other)
{
	volatile uint32_t *regs, *other_regs;
	struct space empty = {};
	int fd, other_fd;

	if (s->iommufd < 0 || !iommufd_device(other, &empty))
		die("both need iommufd");
	open_iommufd(&empty, 0);
	fd = open_as(uuid, s, WITH);
	other_fd = open_as(other, &empty, WITH);
	regs = start(fd, EDU_IDENT);
	other_regs = start(other_fd, 0);
	tell_vm(fd, KVM_DEV_VFIO_FILE_DEL);
	stop(fd, regs);
	doze(500000);
	stop(other_fd, other_regs);
}

static void beside(const char *uuid, struct space *s, const char *bdf)
{
	volatile uint32_t *regs;
	int fd;

	open_group("pci", bdf, s->container);
	fd = open_as(uuid, s, BESIDE);
	regs = start(fd, EDU_IDENT);
	if (!space_try_map(s, 1u << 30, (void *)regs, PAGE)) {
		errno = 0;
		die("another device may reach the BAR");
	}
	if (errno != EFAULT)
		die("the BAR is refused, but not as what it is");
	stop(fd, regs);
}

static enum how meant(int argc, char **argv)
{
	if (argc == 3)
		return PLAIN;
	if (argc == 4 && !strcmp(argv[3], "hasty"))
		return HASTY;
	if (argc == 4 && !strcmp(argv[3], "late"))
		return LATE;
	if (argc == 5 && !strcmp(argv[3], "with"))
		return WITH;
	if (argc == 5 && !strcmp(argv[3], "beside"))
		return BESIDE;
	fprintf(stderr, "usage: cycle UUID TIMES [hasty|late|with OTHER|beside BDF]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	enum how how = meant(argc, argv);
	unsigned int times = strtoul(argv[2], NULL, 0);
	struct space s = {};

	make_memory(&s);
	if (how == BESIDE)
		open_legacy("mdev", argv[1], &s);
	else
		open_space(argv[1], &s);
	for (turn = 1; turn <= times; turn++)
		if (how == WITH)
			two(argv[1], &s, argv[4]);
		else if (how == BESIDE)
			beside(argv[1], &s, argv[4]);
		else
			cycle(argv[1], &s, how);
	printf("ok %u\n", times);
	return 0;
}
