/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * QEMU's edu device under a program that plays a VMM (vmm.h): found, started, made to copy pages of
 * what would be a guest's memory.
 */
#ifndef DLEND_GUEST_VMMEDU_H
#define DLEND_GUEST_VMMEDU_H

#include "edureg.h"
#include "vmm.h"

#define MEMORY		(4u << 20)

static uint8_t *memory;		/* what would be the guest's, at 0 */

static inline void make_memory(struct space *s)
{
	memory = new_memory(MEMORY);
	s->memory = memory;
	s->bytes = MEMORY;
}

static inline void copy(volatile uint32_t *regs, uint32_t from, uint32_t to, uint32_t command)
{
	edu_begin(regs, from, to, command);
	for (int i = 0; edu_is_busy(regs); i++) {
		if (i == 3000)
			die("DMA does not end");
		doze(10000);
	}
}

/* Somewhere else each time. */
static inline void dma(volatile uint32_t *regs)
{
	uint32_t from = turn * 3 * PAGE % (MEMORY / 2);
	uint32_t to = MEMORY / 2 + turn * 5 * PAGE % (MEMORY / 2);

	memset(memory + from, turn, PAGE);
	memset(memory + to, ~turn, PAGE);
	copy(regs, from, DEVICE_BUFFER, 0);
	copy(regs, DEVICE_BUFFER, to, CMD_TO_RAM);
	if (memcmp(memory + from, memory + to, PAGE))
		die("DMA has not copied the page");
}

/* As a guest's vCPUs have it: the first access waits for the device.  @want: 0 for any that is */
static inline volatile uint32_t *start(int fd, uint32_t want)
{
	volatile uint32_t *regs = map_registers(fd, PAGE);
	uint32_t ident;

	enable_device(fd);
	ident = regs[0];
	if (ident == ~0u || (want && ident != want)) {
		fprintf(stderr, "register 0 is %08x\n", ident);
		die("the device is not there");
	}
	return regs;
}

static inline void stop(int fd, volatile uint32_t *regs)
{
	munmap((void *)regs, PAGE);
	close(fd);
}

#endif
