// SPDX-License-Identifier: GPL-2.0-only
/*
 * bartimes read|write FILE BYTES TIMES SECONDS: how long does a processor take to read the first
 * BYTES of a BAR, or to write them?  FILE is the BAR's resource file in sysfs, or any other.
 * 8 bytes go at a time (of 4 bytes, 4); what is written is what was there.  Stores go on before
 * they have arrived, so the last word is read back, within the time.
 * Prints a line for each of TIMES transfers, fewer after SECONDS: nanoseconds.
 *
 * bartimes read|write FILE BYTES TIMES SECONDS direct|ram DISK: how long does a disk take to read
 * into a device's memory, or to write what is there?  FILE is the device's p2pmem/allocate, by
 * which a kernel gives such memory to programs.  "direct": from device to device; "ram": from there
 * to RAM or back, and a processor copies.  Blocks of the first 64 MiB, one behind the other.
 * Before that it looks whether the first page arrives.  Status 3: the disk is in use; 4: the kernel
 * allows no such transfer; 5: something else has arrived.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define NS_PER_S	1000000000ull
#define SPAN		(64ul << 20)
#define PAGE		4096

enum { FAILED = 1, IN_USE = 3, REFUSED = 4, WRONG = 5 };

static void die_as(int status, const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(status);
}

static void die(const char *what, const char *why)
{
	die_as(FAILED, what, why);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static volatile void *map(const char *file, size_t bytes, bool write)
{
	int fd = open(file, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	struct stat is;
	void *bar;

	if (fd < 0 || fstat(fd, &is))
		die(file, strerror(errno));
	if ((size_t)is.st_size < bytes)		/* a load behind its end would be a signal */
		die(file, "it is smaller");
	bar = mmap(NULL, bytes, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (bar == MAP_FAILED)
		die(file, strerror(errno));
	return bar;
}

static void read_words(void *to, const volatile void *bar, size_t bytes)
{
	if (bytes == sizeof(uint32_t))
		*(uint32_t *)to = *(const volatile uint32_t *)bar;
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((uint64_t *)to)[i] = ((const volatile uint64_t *)bar)[i];
}

static void write_words(volatile void *bar, const void *from, size_t bytes)
{
	const volatile uint32_t *end = (const volatile uint32_t *)((volatile char *)bar + bytes);

	if (bytes == sizeof(uint32_t))
		*(volatile uint32_t *)bar = *(const uint32_t *)from;
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((volatile uint64_t *)bar)[i] = ((const uint64_t *)from)[i];
	(void)end[-1];
}

/* @ram: a copy of a block; @blocks: of these it goes round */
struct disk {
	const char *name;
	int fd;
	bool write, direct;
	size_t bytes, blocks;
	void *ram;
};

static void *room(size_t bytes)
{
	void *ram = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);

	if (!ram)
		die("bartimes", strerror(errno));
	return ram;
}

static struct disk open_disk(char **argv, size_t bytes, bool write)
{
	struct disk d = { .name = argv[7], .write = write, .direct = !strcmp(argv[6], "direct"),
			  .bytes = bytes };
	off_t size;

	/* Exclusive: not mounted, nor a part of anything else */
	d.fd = open(d.name, (write ? O_RDWR : O_RDONLY) | O_DIRECT | O_EXCL | O_CLOEXEC);
	if (d.fd < 0)
		die_as(errno == EBUSY ? IN_USE : FAILED, d.name, strerror(errno));
	size = lseek(d.fd, 0, SEEK_END);
	d.blocks = size < 0 || !bytes ? 0 : ((size_t)size < SPAN ? (size_t)size : SPAN) / bytes;
	if (!d.blocks)
		die(d.name, "it is smaller");
	d.ram = room(bytes);
	return d;
}

static void transfer(const struct disk *d, volatile void *memory, size_t block)
{
	void *buffer = d->direct ? (void *)memory : d->ram;
	off_t at = block * d->bytes;
	ssize_t done;

	if (d->write && !d->direct)
		read_words(d->ram, memory, d->bytes);
	errno = 0;
	done = d->write ? pwrite(d->fd, buffer, d->bytes, at) : pread(d->fd, buffer, d->bytes, at);
	if (done != (ssize_t)d->bytes)
		die_as(d->direct && (errno == EREMOTEIO || errno == EINVAL || errno == EOPNOTSUPP ||
				     errno == EFAULT) ? REFUSED : FAILED, d->name,
		       errno ? strerror(errno) : "a part of a transfer is missing");
	if (!d->write && !d->direct)
		write_words(memory, d->ram, d->bytes);
}

/* Packets between devices may be lost without an error. */
static void check(const struct disk *d, volatile void *memory)
{
	ssize_t page = d->bytes < PAGE ? d->bytes : PAGE;
	unsigned char *has = room(page), *there = room(page);

	if (pread(d->fd, has, page, 0) != page)
		die(d->name, strerror(errno));
	for (ssize_t i = 0; i < page; i++)
		there[i] = ~has[i];
	write_words(memory, there, page);
	transfer(d, memory, 0);
	if (d->write && pread(d->fd, has, page, 0) != page)
		die(d->name, strerror(errno));
	read_words(there, memory, page);
	if (memcmp(there, has, page))
		die_as(WRONG, d->name, "the memory has something else");
	free(has);
	free(there);
}

int main(int argc, char **argv)
{
	bool write = argc > 1 && !strcmp(argv[1], "write");
	unsigned long bytes, times, seconds;
	struct disk disk = { 0 };
	volatile void *bar;
	uint64_t begin;
	void *copy;

	if ((argc != 6 && (argc != 8 || (strcmp(argv[6], "direct") && strcmp(argv[6], "ram")))) ||
	    (!write && strcmp(argv[1], "read"))) {
		fputs("usage: bartimes read|write FILE BYTES TIMES SECONDS [direct|ram DISK]\n",
		      stderr);
		return 2;
	}
	bytes = strtoul(argv[3], NULL, 10);
	times = strtoul(argv[4], NULL, 10);
	seconds = strtoul(argv[5], NULL, 10);
	if (argc == 8)
		disk = open_disk(argv, bytes, write);
	bar = map(argv[2], bytes, write || argc == 8);
	copy = room(bytes);
	if (argc == 8)
		check(&disk, bar);
	else
		read_words(copy, bar, bytes);
	begin = now_ns();
	for (size_t i = 0; i < times && now_ns() - begin < seconds * NS_PER_S; i++) {
		uint64_t start = now_ns();

		if (argc == 8)
			transfer(&disk, bar, i % disk.blocks);
		else if (write)
			write_words(bar, copy, bytes);
		else
			read_words(copy, bar, bytes);
		printf("%llu\n", (unsigned long long)(now_ns() - start));
	}
	free(copy);
	return 0;
}
