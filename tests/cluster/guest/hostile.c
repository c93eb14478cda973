// SPDX-License-Identifier: GPL-2.0-only
/*
 * hostile legacy|iommufd SEED SECONDS DEVICE...: a VMM whose threads call VFIO at random, with
 * right and wrong arguments, each other's devices and memory among them, and which dies in the
 * midst of it.  What calls answer is of no interest.
 *
 * Says "dead" if all of it was gone within a minute after its death; or "hangs", and exits with 1.
 */
#include <linux/vfio.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "vmm.h"

#define THREADS		6
#define DEVICES		4u
#define MEMORY		(32ull << 20)
#define HIGH		(4ull << 30)
#define END_S		60
#define ARGUMENT	4096

static struct space s, each[DEVICES];
static const char *name[DEVICES];
static volatile int device[DEVICES];
static unsigned int devices;
static uint64_t seed;
static int event;

static _Thread_local uint64_t dice;
static _Thread_local sigjmp_buf bus_error;

/* xorshift64*: the same on every machine. */
static uint64_t roll(uint64_t sides)
{
	dice ^= dice >> 12;
	dice ^= dice << 25;
	dice ^= dice >> 27;
	return (dice * 2685821657736338717ull >> 16) % sides;
}

static void on_bus_error(int number)
{
	(void)number;
	siglongjmp(bus_error, 1);
}

static int any_device(void)
{
	return device[roll(devices)];
}

/* A piece of the VMM's RAM: where the guest has it, and the VMM. */
static uint64_t piece(uint64_t *at, uint64_t *bytes)
{
	static const uint64_t largest[] = { PAGE, 64 << 10, 1 << 20, 4 << 20, MEMORY };
	uint64_t offset = roll(MEMORY / PAGE) * PAGE;

	*bytes = (1 + roll(largest[roll(5)] / PAGE)) * PAGE;
	if (!roll(4))
		offset &= ~((2ull << 20) - 1);
	if (offset + *bytes > MEMORY)
		*bytes = MEMORY - offset;
	*at = offset;
	return offset + (roll(2) ? HIGH : 0);
}

static void do_map(void)
{
	uint64_t at, bytes, gpa = piece(&at, &bytes);

	if (!roll(16))
		gpa = roll(1ull << 52) & ~(PAGE - 1ull);
	space_try_map(&s, gpa, (char *)s.memory + at + !roll(32), bytes);
}

static void do_unmap(void)
{
	uint64_t at, bytes, gpa = piece(&at, &bytes);
	struct vfio_iommu_type1_dma_unmap legacy = {
		.argsz = roll(16) ? sizeof(legacy) : roll(64), .iova = gpa, .size = bytes,
	};
	struct iommu_ioas_unmap unmap = {
		.size = sizeof(unmap), .ioas_id = s.ioas, .iova = gpa, .length = bytes,
	};

	switch (roll(4)) {
	case 0:
		legacy.iova = 0;
		legacy.size = 0;
		legacy.flags = VFIO_DMA_UNMAP_FLAG_ALL;
		unmap.iova = 0;
		unmap.length = UINT64_MAX;
		break;
	case 1:
		legacy.iova = roll(2) ? HIGH : 0;
		legacy.size = HIGH;
		unmap.iova = legacy.iova;
		unmap.length = HIGH;
		break;
	}
	if (s.iommufd < 0)
		ioctl(s.container, VFIO_IOMMU_UNMAP_DMA, &legacy);
	else
		ioctl(s.iommufd, IOMMU_IOAS_UNMAP, &unmap);
}

/* Each ioctl of a device, of a container, and some that are none. */
static void do_ioctl(void)
{
	uint32_t argument[ARGUMENT / 4];
	unsigned int i;

	for (i = 0; i < 32; i++)
		argument[i] = roll(3) ? roll(8) : roll(1ull << 32);
	argument[0] = roll(4) ? roll(64) * 4 : roll(1ull << 32);
	ioctl(roll(4) ? any_device() : s.container, _IO(VFIO_TYPE, VFIO_BASE + roll(24)),
	      roll(16) ? (void *)argument : (void *)(uintptr_t)roll(1ull << 47));
}

static void do_irqs(void)
{
	struct {
		struct vfio_irq_set set;
		int32_t fd[64];
	} a = {
		.set = { .argsz = sizeof(a), .index = roll(6), .start = roll(4) ? 0 : roll(1 << 12),
			 .count = roll(16) ? roll(64) : roll(1ull << 32) },
	};
	static const uint32_t data[] = {
		VFIO_IRQ_SET_DATA_NONE, VFIO_IRQ_SET_DATA_BOOL, VFIO_IRQ_SET_DATA_EVENTFD,
	};
	unsigned int i;

	a.set.flags = data[roll(3)] | 1u << (3 + roll(3));
	for (i = 0; i < 64; i++)
		a.fd[i] = roll(4) ? event : roll(2) ? -1 : (int)roll(64);
	ioctl(any_device(), VFIO_DEVICE_SET_IRQS, &a);
}

static void do_feature(void)
{
	struct {
		struct vfio_device_feature feature;
		uint32_t data[64];
	} a = {
		.feature = { .argsz = roll(8) ? 8 + roll(64) : sizeof(a),
			     .flags = roll(12) | (1 + roll(7)) << 16 },
	};
	char stream[4096];
	unsigned int i;
	int fd;

	for (i = 0; i < 64; i++)
		a.data[i] = roll(2) ? roll(9) : roll(1ull << 32);
	if (ioctl(any_device(), VFIO_DEVICE_FEATURE, &a) ||
	    (a.feature.flags & 0xffff) != VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE)
		return;
	fd = a.data[1];
	if (fd <= 2 || fd == event)
		return;
	for (i = 0; i < sizeof(stream); i++)
		stream[i] = roll(256);
	if (write(fd, stream, roll(sizeof(stream))) < 0)
		i = read(fd, stream, sizeof(stream));
	close(fd);
}

static void do_region(void)
{
	struct vfio_region_info info = { .argsz = sizeof(info), .index = roll(10) };
	int fd = any_device();
	char data[512];
	ssize_t n;
	size_t at;

	if (ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &info))
		return;
	at = roll(4) ? roll(256) : roll(info.size + PAGE);
	/* What is written to a BAR is the device's business. */
	if (info.index == VFIO_PCI_CONFIG_REGION_INDEX && roll(2)) {
		for (n = 0; n < 8; n++)
			data[n] = roll(256);
		n = pwrite(fd, data, 1 + roll(8), info.offset + at);
	} else {
		n = pread(fd, data, 1 + roll(sizeof(data)), info.offset + at);
	}
}

static void do_command(void)
{
	uint16_t value = roll(4) ? PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER : roll(8);
	struct vfio_region_info info = {
		.argsz = sizeof(info), .index = VFIO_PCI_CONFIG_REGION_INDEX,
	};
	int fd = any_device();

	if (!ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &info) &&
	    pwrite(fd, &value, 2, info.offset + PCI_COMMAND) < 0)
		doze(1);
}

static void do_bar(void)
{
	struct vfio_region_info info = { .argsz = sizeof(info), .index = roll(6) };
	int fd = any_device();
	volatile uint32_t *at;

	if (ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &info) || !info.size)
		return;
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, roll(8) ? MAP_SHARED : MAP_PRIVATE, fd,
		  info.offset + roll(info.size / PAGE + 1) * PAGE);
	if (at == MAP_FAILED)
		return;
	if (!sigsetjmp(bus_error, 1))
		(void)at[roll(4)];
	munmap((void *)at, PAGE);
}

static void do_memory(void)
{
	static const int advice[] = { MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLD };
	uint64_t at, bytes;

	piece(&at, &bytes);
	if (roll(2))
		madvise((char *)s.memory + at, bytes, advice[roll(4)]);
	else
		mprotect((char *)s.memory + at, bytes,
			 roll(3) ? PROT_READ | PROT_WRITE : roll(2) ? PROT_READ : PROT_NONE);
}

static void do_fork(void)
{
	pid_t child = fork();

	if (!child) {
		do_memory();
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

static void do_slot(void)
{
	unsigned int number = roll(2);

	ioctl(vm_file(), KVM_SET_USER_MEMORY_REGION, &(struct kvm_userspace_memory_region){
		.slot = number, .guest_phys_addr = number ? HIGH : 0,
		.memory_size = roll(2) ? MEMORY : 0, .userspace_addr = (uintptr_t)s.memory });
}

static void do_attach(void)
{
	struct vfio_device_detach_iommufd_pt detach = { .argsz = sizeof(detach) };
	int fd = any_device();

	if (s.iommufd < 0) {
		fd = ioctl(each[0].group, VFIO_GROUP_GET_DEVICE_FD, name[0]);
		if (fd >= 0)
			close(fd);
	} else if (roll(2)) {
		ioctl(fd, VFIO_DEVICE_DETACH_IOMMUFD_PT, &detach);
	} else {
		move_device(fd, roll(4) ? s.ioas : roll(16));
	}
}

static void do_reset(void)
{
	ioctl(any_device(), VFIO_DEVICE_RESET);
}

#define CALLS	21u

static void (*const what[CALLS])(void) = {
	do_map, do_map, do_map, do_unmap, do_unmap, do_unmap, do_ioctl, do_ioctl, do_irqs,
	do_feature, do_region, do_command, do_command, do_bar, do_bar, do_memory, do_memory,
	do_fork, do_slot, do_attach, do_reset,
};

static void *thread(void *arg)
{
	dice = (seed + 1) * 0x9e3779b97f4a7c15ull ^ ((uintptr_t)arg + 1) << 32;
	for (;;)
		what[roll(CALLS)]();
	return NULL;
}

static void run(int legacy)
{
	unsigned int i;
	pthread_t id;

	signal(SIGBUS, on_bus_error);
	signal(SIGSEGV, on_bus_error);
	s.bytes = MEMORY;
	s.memory = new_memory(MEMORY);
	event = eventfd(0, EFD_NONBLOCK);
	for (i = 0; i < 2; i++)
		vm_slot(i, i ? HIGH : 0, s.memory, MEMORY);
	open_how(legacy, name[0], &s);
	for (i = 0; i < devices; i++) {
		each[i] = i ? space_of(name[i], &s) : s;
		device[i] = open_in_vm(name[i], &each[i]);
		enable_device(device[i]);
	}
	for (i = 1; i < THREADS; i++)
		if (pthread_create(&id, NULL, thread, (void *)(uintptr_t)i))
			die("no thread");
	thread(NULL);
}

int main(int argc, char **argv)
{
	uint64_t end;
	pid_t vmm;
	int status;

	if (argc < 5 || argc > 4 + (int)DEVICES) {
		fprintf(stderr, "usage: hostile legacy|iommufd SEED SECONDS DEVICE...\n");
		return 2;
	}
	seed = strtoull(argv[2], NULL, 0);
	devices = argc - 4;
	for (unsigned int i = 0; i < devices; i++)
		name[i] = argv[4 + i];
	vmm = fork();
	if (!vmm) {
		run(!strcmp(argv[1], "legacy"));
		_exit(1);
	}
	end = now_us() + strtoull(argv[3], NULL, 0) * 1000000;
	while (now_us() < end) {
		if (waitpid(vmm, &status, WNOHANG) == vmm)
			die("it ended by itself");
		doze(1000);
	}
	kill(vmm, SIGKILL);
	for (end = now_us() + END_S * 1000000; waitpid(vmm, &status, WNOHANG) != vmm; doze(10000))
		if (now_us() > end) {
			puts("hangs");
			return 1;
		}
	puts("dead");
	return 0;
}
