// SPDX-License-Identifier: GPL-2.0-only
/*
 * atonce THREADS MIB TURNS MDEV [MDEV]: a VMM whose threads unmap memory of its VM at the same
 * moment, by the legacy container.  Each thread has MIB of its own above 4 GiB.  In every second
 * turn the threads unmap what is their own; else each of them unmaps all there is.  Between turns
 * everything is mapped again, and the devices have pinned it.
 *
 * With TURNS 0 it unmaps nothing: the device that was opened last has pinned all of the memory, it
 * says "ready", and waits until it is killed.
 *
 * Says "ok", or what is wrong, and exits with 1.
 */
#include <pthread.h>

#include "vmm.h"

#define BASE		(4u << 20)
#define GPA		(4ull << 30)
#define PINNED_S	120

static struct space s;
static uint64_t part;
static unsigned int threads;
static pthread_barrier_t begin, end;

static void unmap(uint64_t gpa, uint64_t bytes)
{
	struct vfio_iommu_type1_dma_unmap legacy = {
		.argsz = sizeof(legacy), .iova = gpa, .size = bytes,
	};

	/* Another thread may have been first. */
	must(ioctl(s.container, VFIO_IOMMU_UNMAP_DMA, &legacy), "memory is not unmapped");
}

static void *thread(void *arg)
{
	uint64_t number = (uintptr_t)arg;

	for (;;) {
		pthread_barrier_wait(&begin);
		if (turn % 2)
			unmap(GPA + number * part, part);
		else
			unmap(GPA, threads * part);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static void await_number(const char *uuid, const char *key, uint64_t value)
{
	uint64_t since = now_us();

	while (mdev_number(uuid, key) != value) {
		if (now_us() - since > PINNED_S * 1000000ull)
			die("the memory is not pinned, or stays so");
		doze(5000);
	}
}

static void await_pinned(const char *uuid, uint64_t bytes)
{
	await_number(uuid, "pinned_bytes", bytes);
}

int main(int argc, char **argv)
{
	unsigned int turns, i;
	struct space other;
	pthread_t id;
	char *block;
	int fd[2];

	if (argc < 5 || argc > 6) {
		fprintf(stderr, "usage: atonce THREADS MIB TURNS MDEV [MDEV]\n");
		return 2;
	}
	threads = strtoul(argv[1], NULL, 0);
	part = strtoull(argv[2], NULL, 0) << 20;
	turns = strtoul(argv[3], NULL, 0);
	s.bytes = BASE;
	s.memory = new_memory(BASE);
	block = new_memory(threads * part);
	vm_slot(0, 0, s.memory, BASE);
	vm_slot(1, GPA, block, threads * part);
	open_legacy("mdev", argv[4], &s);
	fd[0] = open_in_vm(argv[4], &s);
	if (argc == 6) {
		other = space_of(argv[5], &s);
		fd[1] = open_in_vm(argv[5], &other);
		enable_device(fd[1]);
	}
	if (!turns) {
		for (i = 0; i < threads; i++)
			space_map(&s, GPA + i * part, block + i * part, part);
		await_number(argv[argc - 1], "own_bytes", BASE + threads * part);
	}
	enable_device(fd[0]);
	if (!turns) {
		await_number(argv[4], "sharers", argc - 4);
		puts("ready");
		fflush(stdout);
		pause();
	}
	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	for (i = 0; i < threads; i++)
		if (pthread_create(&id, NULL, thread, (void *)(uintptr_t)i))
			die("no thread");
	for (turn = 1; turn <= turns; turn++) {
		for (i = 0; i < threads; i++)
			space_map(&s, GPA + i * part, block + i * part, part);
		await_pinned(argv[4], BASE + threads * part);
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		await_pinned(argv[4], BASE);
	}
	puts("ok");
	return 0;
}
