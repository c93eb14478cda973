/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A PCI device driven from user space, in a guest that has neither an IOMMU nor a driver for it.
 * What goes wrong ends the program, with a message.
 */
#ifndef DLEND_GUEST_DEVICE_H
#define DLEND_GUEST_DEVICE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES	4096

static inline __attribute__((noreturn)) void die(const char *what)
{
	fprintf(stderr, "%s: %s (%s)\n", program_invocation_short_name, what, strerror(errno));
	exit(1);
}

static inline int open_file(const char *bdf, const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bdf, name);
	fd = open(path, O_RDWR | O_SYNC);
	if (fd < 0)
		die(path);
	return fd;
}

/* The first @bytes of a BAR, by its number. */
static inline volatile uint32_t *map_bar(const char *bdf, const char *number, size_t bytes)
{
	char name[32];
	void *regs;

	snprintf(name, sizeof(name), "resource%s", number);
	regs = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, open_file(bdf, name), 0);
	if (regs == MAP_FAILED)
		die("its registers cannot be mapped");
	return regs;
}

/* The first @bytes of BAR 0. */
static inline volatile uint32_t *map_registers(const char *bdf, size_t bytes)
{
	return map_bar(bdf, "0", bytes);
}

/* A page of zeroes that stays where it is. */
static inline void *own_page(void)
{
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (page == MAP_FAILED || mlock(page, PAGE_BYTES))
		die("no memory");
	memset(page, 0, PAGE_BYTES);
	return page;
}

/* Its address for DMA. */
static inline uint64_t physical(void *page)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (fd < 0 || pread(fd, &entry, 8, (uintptr_t)page / PAGE_BYTES * 8) != 8 ||
	    !(entry >> 63))
		die("the page has no address");
	close(fd);
	return (entry & ((1ull << 55) - 1)) * PAGE_BYTES;
}

#endif
