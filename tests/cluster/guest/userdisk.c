// SPDX-License-Identifier: GPL-2.0-only
/*
 * userdisk DEVICE TIMES [AGAIN]: a program with an NVMe driver of its own, as SPDK's are: on a
 * host, with no guest and no VM, it has the device by VFIO.  DEVICE is a PCI address (vfio-pci) or
 * a UUID (mdev).  It writes blocks of random bytes to the disk, reads them into other memory and
 * compares; each command ends with an MSI-X interrupt, which the program waits for.  Before that,
 * it takes its interrupts and gives them back AGAIN times.
 * Says "ok TIMES bytes BYTES interrupts COUNT us US"; or what is wrong, and exits with 1.
 *
 * userdisk --late DEVICE TIMES: how much later than the data is the interrupt?  It looks at memory
 * until the disk has written there that a command has ended, and then waits for the interrupt.
 * Says "late TIMES p50 NS p95 NS p99 NS max NS".
 *
 * userdisk --leave DEVICE: it takes no interrupts, and ends while the disk writes a block to its
 * memory.  Says "left".
 */
#include <poll.h>
#include <stdbool.h>
#include <time.h>
#include <sys/eventfd.h>

#include "vmmnvme.h"

#define MEMORY_BYTES	(1u << 20)	/* at IO address 0 */
#define LEFT_BYTES	(8u << 20)	/* if it is left */
#define QUEUE		16u		/* entries */
#define BLOCK		(64u << 10)
#define LBA		512u
#define AT_STEP		(1u << 20)	/* from one block on the disk to the next */
#define AT_END		(32u << 20)
#define TIMEOUT_MS	30000
#define LEAVE_US	20000

/* In the program's memory, one after the other. */
#define ASQ		0x0000u
#define ACQ		0x1000u
#define SQ		0x2000u
#define CQ		0x3000u
#define LIST		0x4000u		/* of pages, for one transfer */
#define OUT		0x10000u
#define IN		0x30000u
#define LEFT		(6u << 20)	/* beyond what Link.late() takes for the link's own */

static uint64_t interrupts;

static void await_interrupt(int vector)
{
	struct pollfd wait = { .fd = vector, .events = POLLIN };
	uint64_t count;

	if (poll(&wait, 1, TIMEOUT_MS) != 1)
		die("no interrupt");
	must(read(vector, &count, sizeof(count)), "no interrupt");
	interrupts += count;
}

/* @vector: an eventfd for the queue's interrupt */
static void execute(struct nvme_queue *q, struct nvme_command c, int vector)
{
	nvme_begin(regs, q, c);
	while (!nvme_ended(q))
		await_interrupt(vector);
	disk_end(q);
}

/* A block is to move between the disk at @at and memory. */
static struct nvme_command move_block(unsigned int opcode, uint64_t at, uint32_t gpa)
{
	uint64_t *list = (uint64_t *)(memory + LIST);

	for (unsigned int page = 1; page < BLOCK / PAGE; page++)
		list[page - 1] = gpa + page * PAGE;
	return (struct nvme_command){
		.opcode = opcode,
		.nsid = 1,
		.prp1 = gpa,
		.prp2 = LIST,
		.dw10 = at / LBA,
		.dw12 = BLOCK / LBA - 1,
	};
}

static void transfer(struct nvme_queue *q, int vector, unsigned int opcode, uint64_t at,
		     uint32_t gpa)
{
	execute(q, move_block(opcode, at, gpa), vector);
}

/* Nobody is told of the end: neither this program, nor by it. */
static void leave(struct nvme_queue *admin, struct nvme_queue *io)
{
	disk_execute(admin, nvme_create_cq(io, 0), TIMEOUT_MS);
	disk_execute(admin, nvme_create_sq(io), TIMEOUT_MS);
	nvme_begin(regs, io, move_block(NVME_READ, 0, LEFT));
	doze(LEAVE_US);
	puts("left");
}

/* @vector: an eventfd for the I/O queue's interrupt. */
static void set_vectors(int fd, int vector)
{
	struct {
		struct vfio_irq_set set;
		int32_t vector[2];
	} request = {
		.set = {
			.argsz = sizeof(request),
			.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
			.index = VFIO_PCI_MSIX_IRQ_INDEX,
			.count = 2,
		},
		.vector = { -1, vector },
	};

	must(ioctl(fd, VFIO_DEVICE_SET_IRQS, &request), "no interrupts");
}

static void drop_vectors(int fd)
{
	struct vfio_irq_set none = {
		.argsz = sizeof(none),
		.flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER,
		.index = VFIO_PCI_MSIX_IRQ_INDEX,
	};

	must(ioctl(fd, VFIO_DEVICE_SET_IRQS, &none), "interrupts are not given back");
}

static void fill(uint8_t *at, uint32_t *seed)
{
	for (unsigned int i = 0; i < BLOCK; i++) {
		*seed = *seed * 1103515245 + 12345;
		at[i] = *seed >> 16;
	}
}

static void compare(struct nvme_queue *q, int vector, unsigned int times)
{
	uint32_t seed = times;
	uint64_t at = 0;

	for (turn = 1; turn <= times; turn++) {
		fill(memory + OUT, &seed);
		memset(memory + IN, 0, BLOCK);
		transfer(q, vector, NVME_WRITE, at, OUT);
		transfer(q, vector, NVME_READ, at, IN);
		if (memcmp(memory + OUT, memory + IN, BLOCK))
			die("what was read is not what was written");
		at = (at + AT_STEP) % AT_END;
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* In ns; one that came while the memory was read is not late. */
static uint64_t lateness(struct nvme_queue *q, int vector)
{
	struct nvme_command c = {
		.opcode = NVME_READ,
		.nsid = 1,
		.prp1 = IN,
	};
	uint64_t written;

	nvme_begin(regs, q, c);
	while (!nvme_ended(q))
		;
	written = now_ns();
	await_interrupt(vector);
	written = now_ns() - written;
	disk_end(q);
	return written;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void measure(struct nvme_queue *q, int vector, unsigned int times)
{
	uint64_t *late = calloc(times + 1, sizeof(*late));

	if (!late)
		die("no memory");
	lateness(q, vector);		/* the first one finds nothing in any cache */
	for (turn = 1; turn <= times; turn++)
		late[turn - 1] = lateness(q, vector);
	qsort(late, times, sizeof(*late), ascending);
	printf("late %u p50 %llu p95 %llu p99 %llu max %llu\n", times,
	       (unsigned long long)late[times * 50ull / 100],
	       (unsigned long long)late[times * 95ull / 100],
	       (unsigned long long)late[times * 99ull / 100],
	       (unsigned long long)late[times - 1]);
	free(late);
}

int main(int argc, char **argv)
{
	struct nvme_queue admin, io;
	struct space s = { .bytes = MEMORY_BYTES };
	bool late = argc > 1 && !strcmp(argv[1], "--late");
	bool leaves = argc == 3 && !strcmp(argv[1], "--leave");
	unsigned int times, again;
	uint64_t begin;
	int fd, vector;

	if (late || leaves) {
		argc--;
		argv++;
	}
	times = argc > 2 ? strtoul(argv[2], NULL, 0) : leaves;
	if (!times || argc > 4 - late) {
		fprintf(stderr, "usage: userdisk DEVICE TIMES [AGAIN]\n"
				"       userdisk --late DEVICE TIMES\n"
				"       userdisk --leave DEVICE\n");
		return 2;
	}
	again = argc == 4 ? strtoul(argv[3], NULL, 0) : 0;
	if (leaves)
		s.bytes = LEFT_BYTES;
	memory = new_memory(s.bytes);
	s.memory = memory;
	open_space(argv[1], &s);
	fd = open_device(argv[1], &s);
	regs = map_registers(fd, NVME_REGISTERS);
	enable_device(fd);
	admin = disk_queue(0, QUEUE, ASQ, ACQ);
	io = disk_queue(1, QUEUE, SQ, CQ);
	disk_start(&admin, TIMEOUT_MS);
	if (leaves) {
		leave(&admin, &io);
		return 0;
	}
	vector = must(eventfd(0, EFD_CLOEXEC), "no eventfd");
	while (again--) {
		set_vectors(fd, vector);
		drop_vectors(fd);
	}
	set_vectors(fd, vector);
	disk_execute(&admin, nvme_create_cq(&io, 1 << 16 | 2), TIMEOUT_MS);
	disk_execute(&admin, nvme_create_sq(&io), TIMEOUT_MS);
	if (late) {
		measure(&io, vector, times);
		return 0;
	}
	begin = now_us();
	compare(&io, vector, times);
	printf("ok %u bytes %llu interrupts %llu us %llu\n", times, 2ull * times * BLOCK,
	       (unsigned long long)interrupts, (unsigned long long)(now_us() - begin));
	return 0;
}
