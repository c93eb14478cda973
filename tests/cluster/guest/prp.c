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
#include "nvme.h"

#define ENTRIES		4

static volatile uint32_t *regs;

static void tick(void)
{
	struct timespec t = { .tv_nsec = 10000000 };

	nanosleep(&t, NULL);
}

static void await_ready(uint32_t want)
{
	for (int i = 0; (regs[NVME_CSTS / 4] & (NVME_CSTS_READY | NVME_CSTS_FATAL)) != want; i++) {
		if (i == 1000)
			die("the controller does not start, or stop");
		tick();
	}
}

static void disable(void)
{
	regs[NVME_CC / 4] = 0;
	await_ready(0);
}

static struct nvme_queue new_queue(unsigned int number)
{
	struct nvme_queue q = {
		.number = number,
		.entries = ENTRIES,
		.command = own_page(),
		.done = own_page(),
	};

	q.command_at = physical(q.command);
	q.done_at = physical((void *)q.done);
	return q;
}

static void submit(struct nvme_queue *q, struct nvme_command c)
{
	unsigned int status;

	nvme_begin(regs, q, c);
	for (int i = 0; !nvme_ended(q); i++) {
		if (i == 3000)
			die("a command does not end");
		tick();
	}
	status = nvme_end(regs, q);
	if (status) {
		printf("command %#x failed with status %#x\n", c.opcode, status);
		disable();
		exit(1);
	}
}

static void start(struct nvme_queue *admin, const struct nvme_queue *io)
{
	disable();
	nvme_enable(regs, admin);
	await_ready(NVME_CSTS_READY);
	submit(admin, nvme_create_cq(io, 0));
	submit(admin, nvme_create_sq(io));
}

int main(int argc, char **argv)
{
	struct nvme_command c = { .nsid = 1, .dw12 = PAGE_BYTES / 512 - 1 };
	struct nvme_queue admin, io;

	if (argc != 5 || (strcmp(argv[1], "read") && strcmp(argv[1], "write"))) {
		fprintf(stderr, "usage: see prp.c\n");
		return 2;
	}
	c.opcode = strcmp(argv[1], "read") ? NVME_WRITE : NVME_READ;
	c.prp1 = strtoull(argv[3], NULL, 0);
	c.dw10 = strtoul(argv[4], NULL, 0);
	regs = map_registers(argv[2], NVME_REGISTERS);
	admin = new_queue(0);
	io = new_queue(1);
	start(&admin, &io);
	submit(&io, c);
	disable();
	printf("ok\n");
	return 0;
}
