// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a VMM does to the memory of a VM while a lent device works, and how the device likes it: on
 * the borrower's host, with no guest, by QEMU's edu device.
 *
 * unplug UUID TIMES from BASE: one more process takes TIMES blocks of 2 MiB from BASE on away, one
 * each 100 ms, as virtio-mem does, while edu copies pages of what stays.  Says "ok TIMES shut N",
 * N times that the gate was shut meanwhile.
 *
 * unplug UUID TIMES resets: TIMES resets of the open device, after each of which what was pinned
 * still is, and DMA goes on.
 *
 * unplug UUID MIB large: so much memory more than usual, cold, is pinned while a write waits that
 * no mapping of the BAR makes.
 *
 * unplug UUID BLOCKS short: memory is plugged in of which RLIMIT_MEMLOCK allows one block less.
 * Says "ok told N" (1: the VMM was told, by its error eventfd) and the state of the mdev, when the
 * guest reads 0xff.
 *
 * unplug UUID 1 beside SECOND THIRD: devices of the same VM.  UUID is closed when SECOND has
 * touched its own, but wants no DMA yet; then THIRD comes.  Says "ok 1 sharers N M", the devices
 * that use what the second and the third have pinned.
 */
#include "vmmedu.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/capability.h>

#define BLOCK		(2u << 20)

/* The other process: nothing of the device's, only the address space. */
static void unplug_all(struct space *s, uint64_t base, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++) {
		space_unmap(s, base + (uint64_t)i * BLOCK, BLOCK);
		doze(100000);
	}
	exit(0);
}

static void unplugging(const char *uuid, struct space *s, unsigned int times, uint64_t base)
{
	uint8_t *blocks = mmap(NULL, (size_t)times * BLOCK, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	volatile uint32_t *regs;
	unsigned long long shut;
	int fd, status;
	pid_t child;

	if (blocks == MAP_FAILED)
		die("no memory to plug");
	for (unsigned int i = 0; i < times; i++)
		space_map(s, base + (uint64_t)i * BLOCK, blocks + (size_t)i * BLOCK, BLOCK);
	fd = open_device(uuid, s);
	regs = start(fd, EDU_IDENT);
	dma(regs);
	shut = mdev_number(uuid, "gate_shuts");
	child = must(fork(), "no process");
	if (!child)
		unplug_all(s, base, times);
	for (; !must(waitpid(child, &status, WNOHANG), "no child"); turn++) {
		if (regs[0] != EDU_IDENT)
			die("the device was lost");
		dma(regs);
	}
	if (status)
		die("nothing was unplugged");
	dma(regs);
	printf("ok %u shut %llu\n", times, mdev_number(uuid, "gate_shuts") - shut);
	stop(fd, regs);
}

static void resets(const char *uuid, struct space *s, unsigned int times)
{
	int fd = open_device(uuid, s);
	volatile uint32_t *regs = start(fd, EDU_IDENT);
	unsigned long long pinned = mdev_number(uuid, "pinned_bytes");
	unsigned long long done = mdev_number(uuid, "resets");

	dma(regs);
	for (turn = 1; turn <= times; turn++) {
		must(ioctl(fd, VFIO_DEVICE_RESET), "no reset");
		for (int i = 0; mdev_number(uuid, "resets") == done; i++) {
			if (i == 3000)
				die("the reset does not end");
			doze(10000);
		}
		done = mdev_number(uuid, "resets");
		if (mdev_number(uuid, "pinned_bytes") != pinned)
			die("the reset unpinned memory");
		enable_device(fd);
		if (regs[0] != EDU_IDENT)
			die("the device is not there");
		dma(regs);
	}
	printf("ok %u\n", times);
	stop(fd, regs);
}

static void large(const char *uuid, struct space *s, size_t bytes)
{
	uint8_t *more = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	uint32_t sent = 0x12345678;
	volatile uint32_t *regs;
	int fd;

	if (more == MAP_FAILED || madvise(more, bytes, MADV_NOHUGEPAGE))
		die("not so much memory");
	space_map(s, 4ull << 30, more, bytes);
	fd = open_device(uuid, s);
	enable_device(fd);
	if (pwrite(fd, &sent, 4, region(fd, VFIO_PCI_BAR0_REGION_INDEX) + R_LIVE) != 4)
		die("the BAR is not writable");
	regs = start(fd, EDU_IDENT);
	if (regs[R_LIVE / 4] != ~sent)
		die("the write was lost");
	dma(regs);
	printf("ok %llu us\n", mdev_number(uuid, "bme_to_gate_open_us"));
	stop(fd, regs);
}

/* As a VMM of an ordinary user, who may lock @bytes. */
static void limit(unsigned int bytes)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};

	must(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ bytes, bytes }), "no limit");
	must(syscall(SYS_capget, &header, data), "no capabilities");
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	must(syscall(SYS_capset, &header, data), "capability stays");
}

static void tell(const char *uuid, const char *attribute, char *text, size_t size)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/mdev/devices/%s/dlend/%s", uuid, attribute);
	f = fopen(path, text[0] ? "w" : "r");
	if (!f)
		die(path);
	if (text[0])
		fputs(text, f);
	else if (!fgets(text, size, f))
		die(path);
	fclose(f);
}

static void too_much(const char *uuid, struct space *s)
{
	uint8_t *more = new_memory(2 * MEMORY);
	int fd = open_device(uuid, s);
	struct pollfd error = { .fd = error_eventfd(fd), .events = POLLIN };
	volatile uint32_t *regs = start(fd, EDU_IDENT);
	char state[300] = "", one[] = "1\n";
	uint64_t told = 0;

	dma(regs);
	space_map(s, 4ull << 30, more, 2 * MEMORY);
	tell(uuid, "rescan", one, sizeof(one));
	for (int i = 0; regs[0] == EDU_IDENT; i++) {
		if (i == 3000)
			die("nobody has looked");
		doze(10000);
	}
	/* It is told a moment after the guest reads 0xff. */
	if (poll(&error, 1, 10000) == 1 && read(error.fd, &told, sizeof(told)) < 0)
		die("the eventfd cannot be read");
	tell(uuid, "state", state, sizeof(state));
	printf("ok told %llu %s", (unsigned long long)told, state);
	stop(fd, regs);
}

/* The device is borrowed: its first register is read, with no DMA wanted. */
static void touch(int fd)
{
	uint16_t command = PCI_COMMAND_MEMORY;
	volatile uint32_t *regs = map_registers(fd, PAGE);

	if (pwrite(fd, &command, 2, region(fd, VFIO_PCI_CONFIG_REGION_INDEX) + PCI_COMMAND) != 2)
		die("the command register is not writable");
	if (regs[0] == ~0u)
		die("the device is not there");
	munmap((void *)regs, PAGE);
}

static void joined(char **uuid, struct space *s)
{
	struct space second = space_of(uuid[1], s), third = space_of(uuid[2], s);
	int fd = open_in_vm(uuid[0], s), fd2 = open_in_vm(uuid[1], &second), fd3;
	volatile uint32_t *regs2, *regs3;

	touch(fd);
	touch(fd2);
	/* A VM holds its devices open. */
	tell_vm(s->iommufd < 0 ? s->group : fd, KVM_DEV_VFIO_FILE_DEL);
	close(fd);
	fd3 = open_in_vm(uuid[2], &third);
	regs3 = start(fd3, 0);
	regs2 = start(fd2, 0);
	printf("ok 1 sharers %llu %llu\n", mdev_number(uuid[1], "sharers"),
	       mdev_number(uuid[2], "sharers"));
	stop(fd3, regs3);
	stop(fd2, regs2);
}

static void usage(void)
{
	fprintf(stderr,
		"usage: unplug UUID TIMES from BASE|resets|large|short|beside SECOND THIRD\n");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[3] : "";
	unsigned int times = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	struct space s = {};

	make_memory(&s);
	if (!strcmp(how, "short"))
		limit(MEMORY + (times - 1) * BLOCK);
	if (times)
		open_space(argv[1], &s);
	if (argc == 5 && !strcmp(how, "from"))
		unplugging(argv[1], &s, times, strtoull(argv[4], NULL, 0));
	else if (argc == 4 && !strcmp(how, "resets"))
		resets(argv[1], &s, times);
	else if (argc == 4 && !strcmp(how, "large"))
		large(argv[1], &s, (size_t)times << 20);
	else if (argc == 4 && !strcmp(how, "short"))
		too_much(argv[1], &s);
	else if (argc == 6 && !strcmp(how, "beside"))
		joined((char *[]){ argv[1], argv[4], argv[5] }, &s);
	else
		usage();
	return 0;
}
