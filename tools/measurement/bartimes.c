// SPDX-License-Identifier: GPL-2.0-only
/*
 * bartimes read|write FILE BYTES TIMES SECONDS: how long does a processor take to read the first
 * BYTES of a BAR, or to write them?  FILE is the BAR's resource file in sysfs, or any other.
 * 8 bytes go at a time (of 4 bytes, 4); what is written is what was there.  Stores go on before
 * they have arrived, so the last word is read back, within the time.
 * Prints a line for each of TIMES transfers, fewer after SECONDS: nanoseconds.
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

static void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
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

int main(int argc, char **argv)
{
	bool write = argc > 1 && !strcmp(argv[1], "write");
	unsigned long bytes, times, seconds;
	volatile void *bar;
	uint64_t begin;
	void *copy;

	if (argc != 6 || (!write && strcmp(argv[1], "read"))) {
		fprintf(stderr, "usage: bartimes read|write FILE BYTES TIMES SECONDS\n");
		return 2;
	}
	bytes = strtoul(argv[3], NULL, 10);
	times = strtoul(argv[4], NULL, 10);
	seconds = strtoul(argv[5], NULL, 10);
	bar = map(argv[2], bytes, write);
	copy = malloc(bytes);
	if (!copy)
		die("bartimes", strerror(errno));
	read_words(copy, bar, bytes);
	begin = now_ns();
	while (times-- && now_ns() - begin < seconds * NS_PER_S) {
		uint64_t start = now_ns();

		if (write)
			write_words(bar, copy, bytes);
		else
			read_words(copy, bar, bytes);
		printf("%llu\n", (unsigned long long)(now_ns() - start));
	}
	free(copy);
	return 0;
}
