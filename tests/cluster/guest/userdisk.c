// SPDX-License-Identifier: GPL-2.0-only
/*
 * userdisk DEVICE TIMES [AGAIN]: a program with an NVMe driver of its own, as SPDK's are: on a
 * host, with no guest and no VM, it has the device by VFIO.  DEVICE is a PCI address (vfio-pci) or
 * a UUID (mdev).  It writes blocks of random bytes to the disk, reads them into other memory and
 * compares; each command ends with an MSI-X interrupt, which the program waits for.  Before that,
 * it takes its interrupts and gives them back AGAIN times.
 *
 * Says "ok TIMES bytes BYTES interrupts COUNT us US"; or what is wrong, and exits with 1.
 */
#include <poll.h>
#include <sys/eventfd.h>

#include "vmm.h"

#define MEMORY_BYTES	(1u << 20)	/* at IO address 0 */
#define QUEUE		16u		/* entries */
#define BLOCK		(64u << 10)
#define LBA		512u
#define AT_STEP		(1u << 20)	/* from one block on the disk to the next */
#define AT_END		(32u << 20)
#define TIMEOUT_MS	30000

/* In the program's memory, one after the other. */
#define ASQ		0x0000u
#define ACQ		0x1000u
#define SQ		0x2000u
#define CQ		0x3000u
#define LIST		0x4000u		/* of pages, for one transfer */
#define OUT		0x10000u
#define IN		0x30000u

#define NVME_CC		0x14
#define NVME_CSTS	0x1c
#define NVME_AQA	0x24
#define NVME_ASQ	0x28
#define NVME_ACQ	0x30
#define NVME_DOORBELL	0x1000
#define NVME_CREATE_SQ	0x01
#define NVME_CREATE_CQ	0x05
#define NVME_WRITE	0x01
#define NVME_READ	0x02

struct command {
	uint32_t opcode, nsid, reserved[4];
	uint64_t prp[2];
	uint32_t word[6];
};

struct queue {
	unsigned int id, sq, cq, tail, head;
	uint16_t phase;
	int vector;		/* eventfd of its interrupt; -1: it is looked at */
};

static uint8_t *memory;
static volatile uint8_t *regs;
static uint64_t interrupts;

static uint32_t rd(unsigned int at)
{
	return *(volatile uint32_t *)(regs + at);
}

static void wr(unsigned int at, uint32_t value)
{
	*(volatile uint32_t *)(regs + at) = value;
}

static void await_ready(uint32_t ready)
{
	for (unsigned int ms = 0; (rd(NVME_CSTS) & 1) != ready; ms += 10) {
		if (ms == TIMEOUT_MS)
			die("the disk does not become ready");
		doze(10000);
	}
}

static void enable_disk(void)
{
	wr(NVME_CC, 0);
	await_ready(0);
	wr(NVME_AQA, (QUEUE - 1) << 16 | (QUEUE - 1));
	wr(NVME_ASQ, ASQ);
	wr(NVME_ASQ + 4, 0);
	wr(NVME_ACQ, ACQ);
	wr(NVME_ACQ + 4, 0);
	wr(NVME_CC, 6 << 16 | 4 << 20 | 1);
	await_ready(1);
}

static int ended(const struct queue *q)
{
	volatile uint32_t *entry = (volatile uint32_t *)(memory + q->cq + 16 * q->head);

	return (entry[3] >> 16 & 1) == q->phase;
}

static void await_interrupt(int vector)
{
	struct pollfd wait = { .fd = vector, .events = POLLIN };
	uint64_t count;

	if (poll(&wait, 1, TIMEOUT_MS) != 1)
		die("no interrupt");
	must(read(vector, &count, sizeof(count)), "no interrupt");
	interrupts += count;
}

static void await_end(const struct queue *q)
{
	uint64_t begin = now_us();

	while (!ended(q)) {
		if (q->vector >= 0)
			await_interrupt(q->vector);
		else if (now_us() - begin > TIMEOUT_MS * 1000ull)
			die("the disk does not answer");
	}
}

static void execute(struct queue *q, struct command *c)
{
	volatile uint32_t *entry = (volatile uint32_t *)(memory + q->cq + 16 * q->head);

	c->opcode |= q->tail << 16;
	memcpy(memory + q->sq + sizeof(*c) * q->tail, c, sizeof(*c));
	q->tail = (q->tail + 1) % QUEUE;
	__sync_synchronize();
	wr(NVME_DOORBELL + 8 * q->id, q->tail);
	await_end(q);
	if (entry[3] >> 17)
		die("the disk refuses a command");
	q->head = (q->head + 1) % QUEUE;
	if (!q->head)
		q->phase ^= 1;
	wr(NVME_DOORBELL + 8 * q->id + 4, q->head);
}

static void create_queues(struct queue *admin, const struct queue *q)
{
	struct command cq = {
		.opcode = NVME_CREATE_CQ,
		.prp = { q->cq },
		.word = { (QUEUE - 1) << 16 | q->id, 1 << 16 | 2 | 1 },	/* vector 1 */
	};
	struct command sq = {
		.opcode = NVME_CREATE_SQ,
		.prp = { q->sq },
		.word = { (QUEUE - 1) << 16 | q->id, q->id << 16 | 1 },
	};

	execute(admin, &cq);
	execute(admin, &sq);
}

/* Move a block between the disk at @at and memory. */
static void transfer(struct queue *q, unsigned int opcode, uint64_t at, uint32_t gpa)
{
	uint64_t *list = (uint64_t *)(memory + LIST);
	struct command c = {
		.opcode = opcode,
		.nsid = 1,
		.prp = { gpa, LIST },
		.word = { at / LBA, 0, BLOCK / LBA - 1 },
	};

	for (unsigned int page = 1; page < BLOCK / PAGE; page++)
		list[page - 1] = gpa + page * PAGE;
	execute(q, &c);
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

static void compare(struct queue *q, unsigned int times)
{
	uint32_t seed = times;
	uint64_t at = 0;

	for (turn = 1; turn <= times; turn++) {
		fill(memory + OUT, &seed);
		memset(memory + IN, 0, BLOCK);
		transfer(q, NVME_WRITE, at, OUT);
		transfer(q, NVME_READ, at, IN);
		if (memcmp(memory + OUT, memory + IN, BLOCK))
			die("what was read is not what was written");
		at = (at + AT_STEP) % AT_END;
	}
}

int main(int argc, char **argv)
{
	struct queue admin = { .sq = ASQ, .cq = ACQ, .phase = 1, .vector = -1 };
	struct queue io = { .id = 1, .sq = SQ, .cq = CQ, .phase = 1 };
	struct space s = { .bytes = MEMORY_BYTES };
	unsigned int times, again;
	uint64_t begin;
	int fd;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: userdisk DEVICE TIMES [AGAIN]\n");
		return 2;
	}
	times = strtoul(argv[2], NULL, 0);
	again = argc == 4 ? strtoul(argv[3], NULL, 0) : 0;
	memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED)
		die("no memory");
	s.memory = memory;
	open_space(argv[1], &s);
	fd = open_device(argv[1], &s);
	regs = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    region(fd, VFIO_PCI_BAR0_REGION_INDEX));
	if (regs == MAP_FAILED)
		die("the BAR cannot be mapped");
	enable_device(fd);
	enable_disk();
	io.vector = must(eventfd(0, EFD_CLOEXEC), "no eventfd");
	while (again--) {
		set_vectors(fd, io.vector);
		drop_vectors(fd);
	}
	set_vectors(fd, io.vector);
	create_queues(&admin, &io);
	begin = now_us();
	compare(&io, times);
	printf("ok %u bytes %llu interrupts %llu us %llu\n", times, 2ull * times * BLOCK,
	       (unsigned long long)interrupts, (unsigned long long)(now_us() - begin));
	return 0;
}
