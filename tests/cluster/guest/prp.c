// SPDX-License-Identifier: GPL-2.0-only
/*
 * prp: an NVMe controller moves 4 KiB between its disk and any guest-physical address, such as
 * another device's BAR: the address goes into PRP 1 as it is, which no kernel driver would do.
 *
 *	prp write BDF ADDRESS LBA	disk <- address
 *	prp read BDF ADDRESS LBA	address <- disk
 *	prp ferry BDF ADDRESS LBA TARGET BAR FILE
 *
 * "ferry" goes on until it is ended, by SIGTERM between two rounds: ADDRESS is where that BAR of
 * the device TARGET begins.  Time after time a sector goes from memory by the disk to the BAR,
 * where this program looks at it, and another one back; FILE says how often all of that was right.
 *
 * Memory decoding and bus mastering are on, sectors have 512 bytes, no driver is bound.  The
 * controller is started for the one command, with queues in this program's memory, and stopped
 * after it.  Registers are polled while it starts, then only memory.  Says "ok", or what is wrong
 * and exits with 1.
 */
#include <signal.h>
#include <time.h>

#include "device.h"
#include "nvme.h"

#define ENTRIES		4
#define SECTOR		512
#define WORDS		(SECTOR / 8)

static volatile uint32_t *regs;
static volatile sig_atomic_t over;

static void end(int number)
{
	over = number;
}

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

/* One sector between the disk and an address. */
static struct nvme_command sector(uint8_t opcode, uint64_t at, uint32_t lba)
{
	return (struct nvme_command){ .opcode = opcode, .nsid = 1, .prp1 = at, .dw10 = lba };
}

static void fill(volatile uint64_t *to, uint64_t value)
{
	for (int i = 0; i < WORDS; i++)
		to[i] = value + i;
}

/* Number of the first word that is wrong; WORDS: none. */
static int wrong_word(const volatile uint64_t *sector_of, uint64_t value)
{
	int i;

	for (i = 0; i < WORDS && sector_of[i] == value + i; i++)
		;
	return i;
}

/*
 * A write to a device that is elsewhere takes another way than the word that it was made: it may
 * arrive later.
 */
static void expect(const volatile uint64_t *sector_of, uint64_t value, const char *where)
{
	int word;

	for (int i = 0; (word = wrong_word(sector_of, value)) != WORDS; i++) {
		if (i < 500) {
			tick();
			continue;
		}
		printf("%s: word %d is %#llx, not %#llx\n", where, word,
		       (unsigned long long)sector_of[word], (unsigned long long)value + word);
		exit(1);
	}
}

static void note(const char *file, uint64_t round)
{
	char part[256];
	FILE *f;

	snprintf(part, sizeof(part), "%s.part", file);
	f = fopen(part, "w");
	if (!f || fprintf(f, "%llu\n", (unsigned long long)round) < 0 || fclose(f) ||
	    rename(part, file))
		die(file);
}

static void ferry(struct nvme_queue *q, uint64_t address, uint32_t lba, volatile uint64_t *bar,
		  const char *file)
{
	volatile uint64_t *page = own_page();
	uint64_t there, back;

	signal(SIGTERM, end);
	for (uint64_t round = 1; !over; round++) {
		there = round << 32;
		back = ~there;
		fill(page, there);
		submit(q, sector(NVME_WRITE, physical((void *)page), lba));
		submit(q, sector(NVME_READ, address, lba));
		expect(bar, there, "the BAR");
		fill(bar, back);
		/* All of it is there before the controller, which takes another way, reads it. */
		expect(bar, back, "the BAR");
		submit(q, sector(NVME_WRITE, address, lba));
		submit(q, sector(NVME_READ, physical((void *)page), lba));
		expect(page, back, "memory");
		note(file, round);
		tick();
	}
}

int main(int argc, char **argv)
{
	struct nvme_command c = { .nsid = 1, .dw12 = PAGE_BYTES / SECTOR - 1 };
	struct nvme_queue admin, io;
	int ferries = argc == 8 && !strcmp(argv[1], "ferry");

	if (!ferries && (argc != 5 || (strcmp(argv[1], "read") && strcmp(argv[1], "write")))) {
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
	if (ferries)
		ferry(&io, c.prp1, c.dw10, (void *)map_bar(argv[5], argv[6], PAGE_BYTES), argv[7]);
	else
		submit(&io, c);
	disable();
	printf("ok\n");
	return 0;
}
