// SPDX-License-Identifier: GPL-2.0-only
/*
 * canary FILE UUID REGION:OFFSET...: on the borrower's host, with no guest: has an mdev as a VM
 * with 4 MiB of RAM has, which are the file's, and then stores to these registers and loads from
 * them, a thousand times a second at most: mapped, and now and then by way of the VMM.  Nothing
 * that happens to the device stops it.
 *
 * FILE.count, 8 bytes each: how many stores there were so far, 0 until the device has answered; of
 * these, by way of the VMM; what was loaded last.
 */
#include "vmm.h"

#define MEMORY		(4u << 20)
#define SPOTS		8
#define TRAPPED_EACH	64

struct count {
	volatile uint64_t stores, trapped, loaded;
};

/* A register, as a guest reaches it. */
struct spot {
	volatile uint32_t *mapped;
	off_t trapped;
};

/* A file's pages, which stay when this process ends. */
static void *shared(const char *path, const char *more, size_t bytes)
{
	char name[300];
	void *at;
	int fd;

	snprintf(name, sizeof(name), "%s%s", path, more);
	fd = must(open(name, O_RDWR | O_CREAT, 0600), name);
	must(ftruncate(fd, bytes), name);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (at == MAP_FAILED)
		die(name);
	return at;
}

static void find(int fd, const char *text, struct spot *spot)
{
	unsigned int index, offset;
	void *page;

	if (sscanf(text, "%u:%i", &index, &offset) != 2) {
		fprintf(stderr, "usage: canary FILE UUID REGION:OFFSET...\n");
		exit(2);
	}
	spot->trapped = region(fd, index) + offset;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    region(fd, index) + offset / PAGE * PAGE);
	if (page == MAP_FAILED)
		die("the BAR cannot be mapped");
	spot->mapped = (volatile uint32_t *)((char *)page + offset % PAGE);
}

static void store(int fd, const struct spot *spot, struct count *count)
{
	uint32_t value = 0xbad00000 | (count->stores & 0xffff);

	*spot->mapped = value;
	count->loaded = *spot->mapped;
	count->stores++;
	if (count->stores % TRAPPED_EACH)
		return;
	/* Refused, once the device is lost. */
	if (pwrite(fd, &value, sizeof(value), spot->trapped) == sizeof(value) &&
	    pread(fd, &value, sizeof(value), spot->trapped) == sizeof(value))
		count->trapped++;
}

int main(int argc, char **argv)
{
	struct spot spots[SPOTS];
	struct space s = { .bytes = MEMORY };
	struct count *count;
	int fd, n;

	if (argc < 4 || argc - 3 > SPOTS) {
		fprintf(stderr, "usage: canary FILE UUID REGION:OFFSET...\n");
		return 2;
	}
	s.memory = shared(argv[1], "", MEMORY);
	count = shared(argv[1], ".count", sizeof(*count));
	memset(count, 0, sizeof(*count));
	open_space(argv[2], &s);
	fd = open_device(argv[2], &s);
	for (n = 0; n < argc - 3; n++)
		find(fd, argv[n + 3], &spots[n]);
	enable_device(fd);
	/* The first access waits until the device is there. */
	if (*spots[0].mapped == ~0u)
		die("the device is not there");
	for (;; doze(1000))
		for (int i = 0; i < n; i++)
			store(fd, &spots[i], count);
}
