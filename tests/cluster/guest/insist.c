// SPDX-License-Identifier: GPL-2.0-only
/*
 * insist BDF ADDRESS FILE [BDF REGION]: on the host that has QEMU's edu: whoever else uses the
 * device, it writes a page of zeroes to this address (of its DMA), again and again, and bus
 * mastering is turned on each time.  The second device is one with memory in that BAR.
 *
 * FILE, 8 bytes each: how many times it has done so; what somebody else writes here: anything but 0
 * has a register of edu's, and the other's memory, watched; how often that was done; how often
 * there was something else than what they were set to.  A device that is gone is neither.
 */
#include <linux/pci_regs.h>
#include <time.h>

#include "device.h"
#include "edureg.h"

#define CANARY		0x600d600d

struct state {
	volatile uint64_t transfers, watch, looked, changed;
};

static struct state *open_state(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *at;

	if (fd < 0 || ftruncate(fd, sizeof(struct state)))
		die(path);
	at = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die(path);
	memset(at, 0, sizeof(struct state));
	return at;
}

/* In this order: it is decoded, then asked. */
static int there(int config, volatile uint32_t *regs)
{
	uint16_t command;

	if (pread(config, &command, 2, PCI_COMMAND) != 2 || command == 0xffff)
		return 0;
	command |= PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	return pwrite(config, &command, 2, PCI_COMMAND) == 2 && regs[R_IDENT / 4] != ~0u;
}

static void transfer(volatile uint32_t *regs, uint32_t to, struct state *state)
{
	if (edu_is_busy(regs))
		return;
	edu_begin(regs, DEVICE_BUFFER, to, CMD_TO_RAM);
	state->transfers++;
}

static void watch(volatile uint32_t *regs, volatile uint32_t *board, struct state *state)
{
	static int set;

	if (!state->watch) {
		set = 0;
		return;
	}
	if (!set)
		regs[R_LIVE / 4] = CANARY;
	if (!set && board)
		*board = CANARY;
	set = 1;
	state->changed += regs[R_LIVE / 4] != (uint32_t)~CANARY || (board && *board != CANARY);
	state->looked++;
}

int main(int argc, char **argv)
{
	volatile uint32_t *regs, *board = NULL;
	struct state *state;
	int config;

	if (argc != 4 && argc != 6) {
		fprintf(stderr, "usage: insist BDF ADDRESS FILE [BDF REGION]\n");
		return 2;
	}
	state = open_state(argv[3]);
	config = open_file(argv[1], "config");
	regs = map_registers(argv[1], PAGE_BYTES);
	if (argc == 6)
		board = map_bar(argv[4], argv[5], PAGE_BYTES);
	for (;;) {
		if (there(config, regs)) {
			transfer(regs, strtoul(argv[2], NULL, 0), state);
			watch(regs, board, state);
		}
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}
