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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <linux/iommufd.h>
#include <linux/kvm.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>

#define MEMORY		(4u << 20)
#define PAGE		4096u
#define EDU_IDENT	0x010000edu
#define R_DMA_SRC	0x80
#define R_DMA_DST	0x88
#define R_DMA_COUNT	0x90
#define R_DMA_CMD	0x98
#define CMD_RUN		0x1u
#define CMD_TO_RAM	0x2u
#define DEVICE_BUFFER	0x40000u

static unsigned int turn;
static uint8_t *memory;		/* what would be the guest's, at 0 */

static void die(const char *what)
{
	fprintf(stderr, "cycle %u: %s (%s)\n", turn, what, strerror(errno));
	exit(1);
}

static int must(int ret, const char *what)
{
	if (ret < 0)
		die(what);
	return ret;
}

/* What a VMM has once: an address space with guest RAM in it. */
struct space {
	int container, group;	/* legacy */
	int iommufd;		/* or -1 */
	uint32_t ioas;
	char device[300];	/* with iommufd: its path */
};

static int iommufd_device(const char *uuid, struct space *s)
{
	char path[300];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/bus/mdev/devices/%s/vfio-dev", uuid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "vfio", 4))
			snprintf(s->device, sizeof(s->device), "/dev/vfio/devices/%s",
				 entry->d_name);
	if (dir)
		closedir(dir);
	return s->device[0] && !access(s->device, R_OK | W_OK) &&
	       !access("/dev/iommu", R_OK | W_OK);
}

static void open_iommufd(struct space *s, int with_memory)
{
	struct iommu_ioas_alloc alloc = { .size = sizeof(alloc) };
	struct iommu_ioas_map map = {
		.size = sizeof(map),
		.flags = IOMMU_IOAS_MAP_FIXED_IOVA | IOMMU_IOAS_MAP_READABLE |
			 IOMMU_IOAS_MAP_WRITEABLE,
		.user_va = (uintptr_t)memory,
		.length = MEMORY,
	};

	s->iommufd = must(open("/dev/iommu", O_RDWR), "/dev/iommu");
	must(ioctl(s->iommufd, IOMMU_IOAS_ALLOC, &alloc), "no address space");
	s->ioas = alloc.out_ioas_id;
	map.ioas_id = s->ioas;
	if (with_memory)
		must(ioctl(s->iommufd, IOMMU_IOAS_MAP, &map), "memory is not mapped");
}

/* The IOMMU group of a device, in a container from now on. */
static int open_group(const char *bus, const char *device, int container)
{
	char path[300], link[300];
	ssize_t n;
	int group;

	snprintf(path, sizeof(path), "/sys/bus/%s/devices/%s/iommu_group", bus, device);
	n = readlink(path, link, sizeof(link) - 1);
	must(n, path);
	link[n] = '\0';
	snprintf(path, sizeof(path), "/dev/vfio%s", strrchr(link, '/'));
	group = must(open(path, O_RDWR), path);
	must(ioctl(group, VFIO_GROUP_SET_CONTAINER, &container), "no container");
	return group;
}

static void open_legacy(const char *uuid, struct space *s)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)memory,
		.size = MEMORY,
	};

	s->iommufd = -1;
	s->container = must(open("/dev/vfio/vfio", O_RDWR), "/dev/vfio/vfio");
	s->group = open_group("mdev", uuid, s->container);
	must(ioctl(s->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU), "no type 1");
	must(ioctl(s->container, VFIO_IOMMU_MAP_DMA, &map), "memory is not mapped");
}

/* Less if it is interrupted. */
static void doze(unsigned int us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000L }, NULL);
}

/* A device joins the VM, of which there is one, or leaves it, which holds it open until then. */
static void tell_vm(int fd, uint64_t what)
{
	struct kvm_create_device device = { .type = KVM_DEV_TYPE_VFIO };
	struct kvm_device_attr attr = {
		.group = KVM_DEV_VFIO_FILE,
		.attr = what,
		.addr = (uintptr_t)&fd,
	};
	static int vm = -1, files;

	if (vm < 0) {
		vm = must(ioctl(must(open("/dev/kvm", O_RDWR), "/dev/kvm"), KVM_CREATE_VM, 0),
			  "no VM");
		must(ioctl(vm, KVM_CREATE_DEVICE, &device), "the VM does not know of VFIO");
		files = device.fd;
	}
	must(ioctl(files, KVM_SET_DEVICE_ATTR, &attr),
	     "the VM does not take the device, or keeps it");
}

enum how { PLAIN, HASTY, LATE, WITH, BESIDE };

static int open_device(const char *uuid, struct space *s, enum how how)
{
	struct vfio_device_bind_iommufd bind = { .argsz = sizeof(bind), .iommufd = s->iommufd };
	struct vfio_device_attach_iommufd_pt attach = { .argsz = sizeof(attach), .pt_id = s->ioas };
	int fd;

	if (s->iommufd < 0)
		return must(ioctl(s->group, VFIO_GROUP_GET_DEVICE_FD, uuid),
			    "the device is not opened");
	fd = must(open(s->device, O_RDWR), s->device);
	if (how == WITH)
		tell_vm(fd, KVM_DEV_VFIO_FILE_ADD);
	must(ioctl(fd, VFIO_DEVICE_BIND_IOMMUFD, &bind), "not bound to iommufd");
	if (how == LATE)
		doze(500000);
	must(ioctl(fd, VFIO_DEVICE_ATTACH_IOMMUFD_PT, &attach), "not attached");
	return fd;
}

static off_t region(int fd, unsigned int index)
{
	struct vfio_region_info info = { .argsz = sizeof(info), .index = index };

	must(ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &info), "no such region");
	return info.offset;
}

static void copy(volatile uint32_t *regs, uint32_t from, uint32_t to, uint32_t command)
{
	regs[R_DMA_SRC / 4] = from;
	regs[R_DMA_DST / 4] = to;
	regs[R_DMA_COUNT / 4] = PAGE;
	regs[R_DMA_CMD / 4] = CMD_RUN | command;
	for (int i = 0; regs[R_DMA_CMD / 4] & CMD_RUN; i++) {
		if (i == 3000)
			die("DMA does not end");
		doze(10000);
	}
}

/* Somewhere else each time. */
static void dma(volatile uint32_t *regs)
{
	uint32_t from = turn * 3 * PAGE % (MEMORY / 2);
	uint32_t to = MEMORY / 2 + turn * 5 * PAGE % (MEMORY / 2);

	memset(memory + from, turn, PAGE);
	memset(memory + to, ~turn, PAGE);
	copy(regs, from, DEVICE_BUFFER, 0);
	copy(regs, DEVICE_BUFFER, to, CMD_TO_RAM);
	if (memcmp(memory + from, memory + to, PAGE))
		die("DMA has not copied the page");
}

/* As a guest's vCPUs have it: the first access waits for the device.  @want: 0 for any that is */
static volatile uint32_t *start(int fd, uint32_t want)
{
	uint16_t command = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	volatile uint32_t *regs;
	uint32_t ident;

	regs = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    region(fd, VFIO_PCI_BAR0_REGION_INDEX));
	if (regs == MAP_FAILED)
		die("the BAR cannot be mapped");
	if (pwrite(fd, &command, 2, region(fd, VFIO_PCI_CONFIG_REGION_INDEX) + PCI_COMMAND) != 2)
		die("the command register is not writable");
	ident = regs[0];
	if (ident == ~0u || (want && ident != want)) {
		fprintf(stderr, "register 0 is %08x\n", ident);
		die("the device is not there");
	}
	return regs;
}

static void stop(int fd, volatile uint32_t *regs)
{
	munmap((void *)regs, PAGE);
	close(fd);
}

static void cycle(const char *uuid, struct space *s, enum how how)
{
	int fd = open_device(uuid, s, how);
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
	fd = open_device(uuid, s, WITH);
	other_fd = open_device(other, &empty, WITH);
	regs = start(fd, EDU_IDENT);
	other_regs = start(other_fd, 0);
	tell_vm(fd, KVM_DEV_VFIO_FILE_DEL);
	stop(fd, regs);
	doze(500000);
	stop(other_fd, other_regs);
}

static void beside(const char *uuid, struct space *s, const char *bdf)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.iova = 1u << 30,
		.size = PAGE,
	};
	volatile uint32_t *regs;
	int fd;

	open_group("pci", bdf, s->container);
	fd = open_device(uuid, s, BESIDE);
	regs = start(fd, EDU_IDENT);
	map.vaddr = (uintptr_t)regs;
	if (!ioctl(s->container, VFIO_IOMMU_MAP_DMA, &map)) {
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

	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("no memory");
	if (how != BESIDE && iommufd_device(argv[1], &s))
		open_iommufd(&s, 1);
	else
		open_legacy(argv[1], &s);
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
