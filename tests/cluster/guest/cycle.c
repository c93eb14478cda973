// SPDX-License-Identifier: GPL-2.0-only
/*
 * cycle UUID TIMES [hasty]: on the borrower's host, with no guest: opens an mdev of QEMU's edu
 * device as a VMM does, sets Bus Master Enable, reads a register, and every tenth time lets edu
 * copy a page there and back; closes it.  TIMES times, by iommufd if the kernel gives the mdev a
 * device of its own there, else by the legacy container.  Hasty: it asks for a reset just before
 * it closes, so that the next open comes while the device is still busy for the one before.
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

static void open_iommufd(struct space *s)
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
	must(ioctl(s->iommufd, IOMMU_IOAS_MAP, &map), "memory is not mapped");
}

static void open_legacy(const char *uuid, struct space *s)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)memory,
		.size = MEMORY,
	};
	char path[300], link[300];
	ssize_t n;

	s->iommufd = -1;
	snprintf(path, sizeof(path), "/sys/bus/mdev/devices/%s/iommu_group", uuid);
	n = readlink(path, link, sizeof(link) - 1);
	must(n, path);
	link[n] = '\0';
	snprintf(path, sizeof(path), "/dev/vfio%s", strrchr(link, '/'));
	s->group = must(open(path, O_RDWR), path);
	s->container = must(open("/dev/vfio/vfio", O_RDWR), "/dev/vfio/vfio");
	must(ioctl(s->group, VFIO_GROUP_SET_CONTAINER, &s->container), "no container");
	must(ioctl(s->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU), "no type 1");
	must(ioctl(s->container, VFIO_IOMMU_MAP_DMA, &map), "memory is not mapped");
}

static int open_device(const char *uuid, struct space *s)
{
	struct vfio_device_bind_iommufd bind = { .argsz = sizeof(bind), .iommufd = s->iommufd };
	struct vfio_device_attach_iommufd_pt attach = { .argsz = sizeof(attach), .pt_id = s->ioas };
	int fd;

	if (s->iommufd < 0)
		return must(ioctl(s->group, VFIO_GROUP_GET_DEVICE_FD, uuid),
			    "the device is not opened");
	fd = must(open(s->device, O_RDWR), s->device);
	must(ioctl(fd, VFIO_DEVICE_BIND_IOMMUFD, &bind), "not bound to iommufd");
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
	struct timespec tick = { .tv_nsec = 10000000L };

	regs[R_DMA_SRC / 4] = from;
	regs[R_DMA_DST / 4] = to;
	regs[R_DMA_COUNT / 4] = PAGE;
	regs[R_DMA_CMD / 4] = CMD_RUN | command;
	for (int i = 0; regs[R_DMA_CMD / 4] & CMD_RUN; i++) {
		if (i == 3000)
			die("DMA does not end");
		nanosleep(&tick, NULL);
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

static void cycle(const char *uuid, struct space *s, int hasty)
{
	uint16_t command = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	struct timespec begun = { .tv_nsec = 100000000L };	/* the lender is asked by then */
	int fd = open_device(uuid, s);
	volatile uint32_t *regs;
	uint32_t ident;

	/* As a guest's vCPUs have it: the first access waits for the device. */
	regs = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    region(fd, VFIO_PCI_BAR0_REGION_INDEX));
	if (regs == MAP_FAILED)
		die("the BAR cannot be mapped");
	if (pwrite(fd, &command, 2, region(fd, VFIO_PCI_CONFIG_REGION_INDEX) + PCI_COMMAND) != 2)
		die("the command register is not writable");
	ident = regs[0];
	if (ident != EDU_IDENT) {
		fprintf(stderr, "register 0 is %08x\n", ident);
		die("the device is not there");
	}
	if (turn % 10 == 0)
		dma(regs);
	munmap((void *)regs, PAGE);
	if (hasty) {
		must(ioctl(fd, VFIO_DEVICE_RESET), "no reset");
		nanosleep(&begun, NULL);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	struct space s = {};
	unsigned int times;

	if (argc != 3 && (argc != 4 || strcmp(argv[3], "hasty"))) {
		fprintf(stderr, "usage: cycle UUID TIMES [hasty]\n");
		return 2;
	}
	times = strtoul(argv[2], NULL, 0);
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("no memory");
	if (iommufd_device(argv[1], &s))
		open_iommufd(&s);
	else
		open_legacy(argv[1], &s);
	for (turn = 1; turn <= times; turn++)
		cycle(argv[1], &s, argc == 4);
	printf("ok %u\n", times);
	return 0;
}
