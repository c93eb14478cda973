// SPDX-License-Identifier: GPL-2.0-only
/*
 * hotadd UUID TIMES slots|blocks: on the borrower's host, with no guest: a VM of KVM's, to which
 * memory is added while it uses an mdev of an NVMe disk, and taken away again.
 *
 * slots: as QEMU plugs a DIMM in: VFIO maps the memory, then KVM gets a memory slot for it.  The
 * moment that call is answered the disk writes to a page of it, at its doorbell; no guest is
 * faster.
 * blocks: as virtio-mem does: the slot is there, VFIO maps one block of it after the other, a
 * piece apart.  Once the borrower says that there is more memory, the disk writes to a page of the
 * block.
 *
 * hotadd UUID TIMES blocks SECOND: the same, while another disk of the VM's is in use, too; it is
 * the second one that writes.
 *
 * hotadd UUID TIMES off|asleep [SECOND]: as blocks, but the disk that writes is stopped meanwhile,
 * by its Bus Master Enable or its power state; with another disk, until that one has found the
 * block.
 *
 * hotadd UUID 1 late: as blocks, and a second block comes while the lender is being told of the
 * first; the disk is to write there as soon as it can be reached.  Says "ready", and waits for
 * /tmp/go, which is there when the lender is silent; then "mapped", when it may answer again.
 *
 * hotadd UUID SECONDS rest [OTHER...]: a VM with all these devices does nothing for so long.  Says
 * "ok SECONDS wakeups N looks N ms MS", and how long that really took: of the thread that watches
 * the VM's memory, and of all its devices.
 *
 * hotadd UUID 1 secret|v1: a VM that cannot have the device: a part of its memory, 4 GiB up, is of
 * a kind that cannot be pinned; or VFIO's container is of version 1.  Says "dead" if the guest
 * reads 0xff from the device.
 *
 * Says "ok TIMES lost LOST longest US slot US": how often the disk said that it had written and had
 * not, the longest time from VFIO's mapping to the disk's word, and the longest of KVM's calls; or
 * what is wrong, and exits with 1.
 */
#include <sys/syscall.h>

#include "vmmnvme.h"

#define BASE_BYTES	(4u << 20)	/* from 0 */
#define SLOT_BYTES	(64u << 20)
#define SLOT_GPA	(4ull << 30)
#define BLOCK		(2u << 20)
#define QUEUE		4u		/* entries; more are used, in turn */
#define GPA_SQ		0x10000u
#define GPA_CQ		0x11000u
#define TIMEOUT_MS	30000

static int file;			/* and regs: of the disk that writes */
static struct nvme_queue admin = { .entries = QUEUE, .command_at = GPA_SQ, .done_at = GPA_CQ };
static uint64_t longest, longest_slot;

static void note(uint64_t *most, uint64_t begin)
{
	uint64_t us = now_us() - begin;

	if (us > *most)
		*most = us;
}

static uint32_t rd(unsigned int at)
{
	return regs[at / 4];
}

static void slot(unsigned int number, uint64_t gpa, void *at, uint64_t bytes)
{
	uint64_t begin = now_us();

	vm_slot(number, gpa, at, bytes);
	note(&longest_slot, begin);
}

static void enable_disk(void)
{
	admin.command = (void *)(memory + GPA_SQ);
	admin.done = (void *)(memory + GPA_CQ);
	nvme_enable(regs, &admin);
	disk_await(NVME_CSTS_READY, TIMEOUT_MS);
}

/* The disk writes what it is to the page at @gpa, and says so.  Did it? */
static int identify(uint64_t gpa, uint8_t *page)
{
	struct nvme_command command = {
		.opcode = NVME_IDENTIFY,
		.prp1 = gpa,
		.dw10 = 1,	/* the controller */
	};

	memset(page, 0xa5, PAGE);
	disk_execute(&admin, command, TIMEOUT_MS);
	return page[0] != 0xa5 || page[1] != 0xa5 || page[24] != 0xa5;
}

static uint64_t said(const char *uuid)
{
	char path[300], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/mdev/devices/%s/dlend/memory", uuid);
	fd = must(open(path, O_RDONLY), path);
	must(read(fd, text, sizeof(text) - 1), path);
	close(fd);
	return strtoull(text, NULL, 0);
}

/* Returns whether the write was lost. */
static int add_slot(const struct space *s)
{
	uint64_t gpa = SLOT_GPA + turn % 3 * (256ull << 20), page = turn * 7 % 512 * PAGE;
	uint8_t *at = new_memory(BLOCK);
	uint64_t begin = now_us();
	int arrived;

	space_map(s, gpa, at, BLOCK);
	slot(1, gpa, at, BLOCK);
	arrived = identify(gpa + page, at + page);
	note(&longest, begin);
	slot(1, gpa, at, 0);
	space_unmap(s, gpa, BLOCK);
	munmap(at, BLOCK);
	/* Waits until the device has got over that. */
	rd(NVME_CSTS);
	return !arrived;
}

enum how { SLOTS, BLOCKS, OFF, ASLEEP, LATE, REST, SECRET, V1, NONE };

static uint64_t pinned(const char *uuid)
{
	return mdev_number(uuid, "pinned_bytes");
}

static void await(uint64_t (*what)(const char *uuid), const char *uuid, uint64_t bytes)
{
	uint64_t begin = now_us();

	while (what(uuid) < bytes) {
		if (now_us() - begin > 60000000)
			die("the block is not found");
		doze(500);
	}
}

static void pause_disk(enum how how, int on)
{
	if (how == OFF)
		set_bits(file, PCI_COMMAND, PCI_COMMAND_MASTER, on ? PCI_COMMAND_MASTER : 0);
	else
		set_bits(file, capability_at(file, PCI_CAP_ID_PM) + PCI_PM_CTRL,
			 PCI_PM_CTRL_STATE_MASK, on ? 0 : 3);
}

static int add_block(const struct space *s, const char *uuid, uint8_t *at, enum how how, int two)
{
	uint64_t offset = turn * 3 % (SLOT_BYTES / BLOCK) * BLOCK, page = turn * 7 % 512 * PAGE;
	uint64_t begin = now_us(), had = said(uuid);
	int arrived;

	if (how != BLOCKS)
		pause_disk(how, 0);
	space_map(s, SLOT_GPA + offset, at + offset, BLOCK);
	if (how == BLOCKS || two)
		await(said, uuid, had + BLOCK);
	if (how != BLOCKS)
		pause_disk(how, 1);
	arrived = identify(SLOT_GPA + offset + page, at + offset + page);
	note(&longest, begin);
	/* Every other stays for a while. */
	if (turn % 2)
		space_unmap(s, SLOT_GPA + offset, BLOCK);
	rd(NVME_CSTS);
	return !arrived;
}

/* Two blocks, of which nobody is told of the second when the first one is complete. */
static int add_late(const struct space *s, const char *uuid, uint8_t *at)
{
	const uint64_t first = 0, second = BLOCK;	/* as Linux plugs them */
	uint64_t had = pinned(uuid);

	puts("ready");
	await_go(0);
	space_map(s, SLOT_GPA + first, at + first, BLOCK);
	await(pinned, uuid, had + BLOCK);
	/* All that was searched is in the aperture, and the lender is being told. */
	doze(300000);
	space_map(s, SLOT_GPA + second, at + second, BLOCK);
	puts("mapped");
	return !identify(SLOT_GPA + second, at + second);
}

static uint8_t *new_secret_memory(uint64_t bytes)
{
	int fd = must(syscall(SYS_memfd_secret, 0), "no secret memory");
	uint8_t *at;

	must(ftruncate(fd, bytes), "no size");
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("no memory");
	return at;
}

/* In use as far as the borrower knows: its registers are there, and Bus Master Enable is on. */
static void use_disk(int fd)
{
	regs = map_registers(fd, NVME_REGISTERS);
	enable_device(fd);
	rd(NVME_CSTS);
}

static void run(const struct space *s, const char *uuid, unsigned int times, uint8_t *blocks,
		enum how how, int two)
{
	unsigned int lost = 0;

	enable_disk();
	if (!identify(0x20000, memory + 0x20000))
		die("the disk does not write");
	for (turn = 1; turn <= times; turn++)
		lost += how == LATE ? add_late(s, uuid, blocks) :
			blocks ? add_block(s, uuid, blocks, how, two) : add_slot(s);
	printf("ok %u lost %u longest %llu slot %llu\n", times, lost, (unsigned long long)longest,
	       (unsigned long long)longest_slot);
}

static unsigned long long looks(char **uuid, int count)
{
	unsigned long long sum = 0;

	for (int i = 0; i < count; i++)
		sum += mdev_number(uuid[i], "looks");
	return sum;
}

static void rest(char **uuid, int count, unsigned int seconds)
{
	unsigned long long wakeups, looked;
	uint64_t begin;

	doze(3000000);
	begin = now_us();
	wakeups = mdev_number(uuid[0], "vm_wakeups");
	looked = looks(uuid, count);
	while (now_us() - begin < seconds * 1000000ull)
		doze(100000);
	printf("ok %u wakeups %llu looks %llu ms %llu\n", seconds,
	       mdev_number(uuid[0], "vm_wakeups") - wakeups, looks(uuid, count) - looked,
	       (unsigned long long)(now_us() - begin) / 1000);
}

static enum how meant(int argc, char **argv)
{
	static const char * const word[] = {
		"slots", "blocks", "off", "asleep", "late", "rest", "secret", "v1"
	};
	enum how how = SLOTS;

	while (how < NONE && (argc < 4 || strcmp(argv[3], word[how]) ||
			      (how != REST && argc > 4 + (how >= BLOCKS && how <= ASLEEP))))
		how++;
	return how;
}

int main(int argc, char **argv)
{
	enum how how = meant(argc, argv);
	uint8_t *region_memory = NULL;
	struct space s = { .v1 = how == V1 }, second;

	if (how == NONE) {
		fprintf(stderr,
			"usage: hotadd UUID TIMES slots|{blocks|off|asleep} [SECOND]|late|rest [OTHER...]|secret|v1\n");
		return 2;
	}
	setlinebuf(stdout);
	memory = new_memory(BASE_BYTES);
	s.memory = memory;
	s.bytes = BASE_BYTES;
	slot(0, 0, memory, BASE_BYTES);
	if (how >= BLOCKS && how <= SECRET && how != REST) {
		region_memory = how == SECRET ? new_secret_memory(BLOCK) : new_memory(SLOT_BYTES);
		slot(1, SLOT_GPA, region_memory, how == SECRET ? BLOCK : SLOT_BYTES);
	}
	open_space(argv[1], &s);
	if (how == SECRET)
		space_map(&s, SLOT_GPA, region_memory, BLOCK);
	file = open_in_vm(argv[1], &s);
	use_disk(file);
	for (int i = 4; i < argc; i++) {
		second = space_of(argv[i], &s);
		file = open_in_vm(argv[i], &second);
		use_disk(file);
	}
	argv[3] = argv[1];
	if (how == REST)
		rest(argv + 3, argc - 3, strtoul(argv[2], NULL, 0));
	else if (how < SECRET)
		run(&s, argv[1], strtoul(argv[2], NULL, 0), region_memory, how, argc > 4);
	else
		puts(rd(NVME_CSTS) == ~0u ? "dead" : "alive");
	return 0;
}
