// SPDX-License-Identifier: GPL-2.0-only
/*
 * p2p: one 4 KiB transfer of QEMU's edu device at a time, to or from any guest-physical address, so
 * that a scenario can look at counters in between.
 *
 *	p2p on BDF		memory decoding and bus mastering on
 *	p2p load BDF SEED	edu's buffer <- own RAM, a pattern
 *	p2p out BDF ADDRESS	address <- edu's buffer
 *	p2p in BDF ADDRESS	edu's buffer <- address
 *	p2p words BDF ADDRESS	64 words, each 32 bytes behind the last, <- edu's buffer
 *	p2p start BDF ADDRESS	the same, but do not wait for its end
 *	p2p wait BDF 0		wait for the end of what was started
 *	p2p store BDF SEED	own RAM <- edu's buffer, which must hold the pattern
 *	p2p fill ADDRESS SEED	address <- the pattern, by this processor
 *	p2p check ADDRESS SEED	it must hold the pattern, seen by this processor
 *	p2p move BDF ADDRESS	put its BAR 0 there
 *	p2p own BDF 0		by DMA at its own bus address, R_LIVE of edu <- its R_IDENT
 *	p2p peek ADDRESS 0	say what 4 bytes there are, instead of "ok"
 *
 * Says "ok", or what is wrong and exits with 1.
 */
#include <time.h>

#include <linux/pci_regs.h>

#include "device.h"
#include "edureg.h"

#define SIZE		PAGE_BYTES

static volatile uint32_t *regs;

static uint8_t pattern(unsigned int seed, unsigned int i)
{
	return seed * 31 + i * 7 + (i >> 8);
}

static void compare(const volatile uint8_t *got, unsigned int seed)
{
	for (unsigned int i = 0; i < SIZE; i++)
		if (got[i] != pattern(seed, i)) {
			printf("byte %u is %02x, not %02x\n", i, got[i], pattern(seed, i));
			exit(1);
		}
}

static void set_command(int config, uint16_t clear, uint16_t set)
{
	uint16_t value;

	if (pread(config, &value, 2, PCI_COMMAND) != 2)
		die("configuration space is not readable");
	value = (value & ~clear) | set;
	if (pwrite(config, &value, 2, PCI_COMMAND) != 2)
		die("configuration space is not writable");
}

static void on(const char *bdf)
{
	set_command(open_file(bdf, "config"), 0, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

static void move(const char *bdf, uint32_t address)
{
	int config = open_file(bdf, "config");

	set_command(config, PCI_COMMAND_MEMORY, 0);
	if (pwrite(config, &address, 4, PCI_BASE_ADDRESS_0) != 4)
		die("the BAR is not writable");
	set_command(config, 0, PCI_COMMAND_MEMORY);
}

static void wait_end(void)
{
	struct timespec tick = { .tv_nsec = 20000000L };

	for (int i = 0; edu_is_busy(regs); i++) {
		if (i == 1500)
			die("DMA does not end");
		nanosleep(&tick, NULL);
	}
}

static void dma(uint64_t from, uint64_t to, uint32_t command)
{
	edu_begin(regs, from, to, command);
	wait_end();
}

static void words(uint64_t address)
{
	for (unsigned int i = 0; i < 64; i++) {
		edu_begin_some(regs, DEVICE_BUFFER, address + 32 * i, CMD_TO_RAM, 4);
		wait_end();
	}
}

static void own(const char *bdf)
{
	uint32_t bar;

	if (pread(open_file(bdf, "config"), &bar, 4, PCI_BASE_ADDRESS_0) != 4)
		die("configuration space is not readable");
	bar &= PCI_BASE_ADDRESS_MEM_MASK;
	edu_begin_some(regs, bar + R_IDENT, DEVICE_BUFFER, 0, 4);
	wait_end();
	edu_begin_some(regs, DEVICE_BUFFER, bar + R_LIVE, CMD_TO_RAM, 4);
	wait_end();
	if (regs[R_LIVE / 4] != ~EDU_IDENT) {
		printf("%08x, not %08x\n", regs[R_LIVE / 4], ~EDU_IDENT);
		exit(1);
	}
}

static volatile uint8_t *at(uint64_t address)
{
	int fd = open("/dev/mem", O_RDWR | O_SYNC);
	void *page;

	if (fd < 0)
		die("/dev/mem");
	page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, address);
	if (page == MAP_FAILED)
		die("the address cannot be mapped");
	return page;
}

/*
 * KVM on the emulated SVM stops a guest whose last event was an exception when it has to emulate an
 * access (tests/cluster/README.md): all pages that this takes are there after the first turn, and
 * the last event before the second's access is the timer's interrupt.
 */
static void peek(uint64_t address)
{
	volatile uint32_t *where[2] = { (volatile uint32_t *)own_page(),
					(volatile uint32_t *)at(address) };
	struct timespec tick = { .tv_nsec = 50000000L };
	uint32_t value[2];

	for (int i = 0; i < 2; i++) {
		nanosleep(&tick, NULL);
		value[i] = *where[i];
	}
	printf("0x%08x\n", value[1]);
}

static void load(unsigned int seed)
{
	uint8_t *page = own_page();

	for (unsigned int i = 0; i < SIZE; i++)
		page[i] = pattern(seed, i);
	dma(physical(page), DEVICE_BUFFER, 0);
}

static void store(unsigned int seed)
{
	uint8_t *page = own_page();

	memset(page, 0xa5, SIZE);
	dma(DEVICE_BUFFER, physical(page), CMD_TO_RAM);
	compare(page, seed);
}

static void fill(uint64_t address, unsigned int seed)
{
	volatile uint8_t *there = at(address);

	for (unsigned int i = 0; i < SIZE; i++)
		there[i] = pattern(seed, i);
	(void)there[0];		/* all of it has arrived */
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	uint64_t number = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;

	if (!strcmp(what, "fill")) {
		fill(strtoull(argv[2], NULL, 0), number);
	} else if (!strcmp(what, "check")) {
		compare(at(strtoull(argv[2], NULL, 0)), number);
	} else if (!strcmp(what, "peek")) {
		peek(strtoull(argv[2], NULL, 0));
		return 0;
	} else if (!strcmp(what, "on")) {
		on(argv[2]);
	} else if (!strcmp(what, "move")) {
		move(argv[2], number);
	} else if (argc == 4) {
		regs = map_registers(argv[2], SIZE);
		if (!strcmp(what, "load"))
			load(number);
		else if (!strcmp(what, "store"))
			store(number);
		else if (!strcmp(what, "own"))
			own(argv[2]);
		else if (!strcmp(what, "out"))
			dma(DEVICE_BUFFER, number, CMD_TO_RAM);
		else if (!strcmp(what, "in"))
			dma(number, DEVICE_BUFFER, 0);
		else if (!strcmp(what, "words"))
			words(number);
		else if (!strcmp(what, "start"))
			edu_begin(regs, number, DEVICE_BUFFER, 0);
		else if (!strcmp(what, "wait"))
			wait_end();
		else
			return 2;
	} else {
		fprintf(stderr, "usage: see p2p.c\n");
		return 2;
	}
	printf("ok\n");
	return 0;
}
