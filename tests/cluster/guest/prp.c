// SPDX-License-Identifier: GPL-2.0-only
/*
 * prp: an NVMe controller moves 4 KiB between its disk and any guest-physical address, such as
 * another device's BAR: the address goes into PRP 1 as it is, which no kernel driver would do.
 *
 *	prp write BDF ADDRESS LBA	disk <- address
 *	prp read BDF ADDRESS LBA	address <- disk
 *
 * Memory decoding and bus mastering are on, sectors have 512 bytes, no driver is bound.  The
 * controller is started for the one command, with queues in this program's memory, and stopped
 * after it.  Registers are polled while it starts, then only memory.  Says "ok", or what is wrong
 * and exits with 1.
 */
#include <time.h>

#include "device.h"

#define R_CC		0x14
#define R_CSTS		0x1c
#define R_AQA		0x24
#define R_ASQ		0x28
#define R_ACQ		0x30
#define R_DOORBELLS	0x1000	/* CAP.DSTRD is 0 */
#define REGISTERS	0x2000

#define CC_ENABLE	0x00460001	/* entries of 64 and 16 bytes */
#define CSTS_READY	0x1
#define CSTS_FATAL	0x2

#define ENTRIES		4

#define ADMIN_CREATE_SQ	0x01
#define ADMIN_CREATE_CQ	0x05
#define IO_WRITE	0x01
#define IO_READ		0x02

struct command {
	uint8_t opcode, flags;
	uint16_t id;
	uint32_t nsid;
	uint64_t reserved, metadata, prp1, prp2;
	uint32_t dw10, dw11, dw12, dw13, dw14, dw15;
};

_Static_assert(sizeof(struct command) == 64, "a submission queue's entry");

struct completion {
	uint32_t result, reserved;
	uint16_t head, queue, id, status;	/* bit 0: the phase */
};

_Static_assert(sizeof(struct completion) == 16, "a completion queue's entry");

/* Both of a pair; fewer commands go through it than it has entries. */
struct queue {
	unsigned int number, used;
	struct command *command;
	volatile struct completion *done;
};

static volatile uint32_t *regs;

static void tick(void)
{
	struct timespec t = { .tv_nsec = 10000000 };

	nanosleep(&t, NULL);
}

static void set_address(unsigned int at, void *page)
{
	uint64_t address = physical(page);

	regs[at / 4] = address;
	regs[at / 4 + 1] = address >> 32;
}

static void enable(uint32_t cc)
{
	uint32_t want = cc ? CSTS_READY : 0;

	regs[R_CC / 4] = cc;
	for (int i = 0; (regs[R_CSTS / 4] & (CSTS_READY | CSTS_FATAL)) != want; i++) {
		if (i == 1000)
			die("the controller does not start, or stop");
		tick();
	}
}

static struct queue new_queue(unsigned int number)
{
	struct queue q = { .number = number, .command = own_page(), .done = own_page() };

	return q;
}

static void submit(struct queue *q, struct command c)
{
	volatile struct completion *done = &q->done[q->used];

	c.id = q->used;
	q->command[q->used++] = c;
	__sync_synchronize();
	regs[(R_DOORBELLS + 8 * q->number) / 4] = q->used;
	for (int i = 0; !(done->status & 1); i++) {
		if (i == 3000)
			die("a command does not end");
		tick();
	}
	if (done->status >> 1) {
		printf("command %#x failed with status %#x\n", c.opcode, done->status >> 1);
		enable(0);
		exit(1);
	}
}

static void start(struct queue *admin, struct queue *io)
{
	struct command cq = { .opcode = ADMIN_CREATE_CQ, .dw11 = 1 };
	struct command sq = { .opcode = ADMIN_CREATE_SQ, .dw11 = io->number << 16 | 1 };

	enable(0);
	regs[R_AQA / 4] = (ENTRIES - 1) << 16 | (ENTRIES - 1);
	set_address(R_ASQ, admin->command);
	set_address(R_ACQ, (void *)admin->done);
	enable(CC_ENABLE);
	cq.dw10 = (ENTRIES - 1) << 16 | io->number;
	sq.dw10 = cq.dw10;
	cq.prp1 = physical((void *)io->done);
	sq.prp1 = physical(io->command);
	submit(admin, cq);
	submit(admin, sq);
}

int main(int argc, char **argv)
{
	struct command c = { .nsid = 1, .dw12 = PAGE_BYTES / 512 - 1 };
	struct queue admin, io;

	if (argc != 5 || (strcmp(argv[1], "read") && strcmp(argv[1], "write"))) {
		fprintf(stderr, "usage: see prp.c\n");
		return 2;
	}
	c.opcode = strcmp(argv[1], "read") ? IO_WRITE : IO_READ;
	c.prp1 = strtoull(argv[3], NULL, 0);
	c.dw10 = strtoul(argv[4], NULL, 0);
	regs = map_registers(argv[2], REGISTERS);
	admin = new_queue(0);
	io = new_queue(1);
	start(&admin, &io);
	submit(&io, c);
	enable(0);
	printf("ok\n");
	return 0;
}
