/* SPDX-License-Identifier: GPL-2.0-only */
/* Registers of QEMU's edu device, by their offset in BAR 0 (docs/specs/edu.rst of QEMU). */
#ifndef DLEND_GUEST_EDUREG_H
#define DLEND_GUEST_EDUREG_H

#include <stdint.h>

#define EDU_IDENT	0x010000edu	/* what R_IDENT holds */
#define R_IDENT		0x00
#define R_LIVE		0x04		/* reads as the complement of what was written */
#define R_IRQ_STATUS	0x24
#define R_IRQ_RAISE	0x60
#define R_IRQ_ACK	0x64
#define R_DMA_SRC	0x80
#define R_DMA_DST	0x88
#define R_DMA_COUNT	0x90
#define R_DMA_CMD	0x98
#define CMD_RUN		0x1u
#define CMD_TO_RAM	0x2u
#define CMD_IRQ		0x4u
#define DEVICE_BUFFER	0x40000u	/* its own memory, one page, as DMA names it */
#define EDU_BYTES	4096u

/* @count bytes from @from to @to, one of them in its own memory. */
static inline void edu_begin_some(volatile uint32_t *regs, uint64_t from, uint64_t to,
				  uint32_t command, uint32_t count)
{
	regs[R_DMA_SRC / 4] = from;
	regs[R_DMA_DST / 4] = to;
	regs[R_DMA_COUNT / 4] = count;
	regs[R_DMA_CMD / 4] = CMD_RUN | command;
}

/* A page from @from to @to, one of them in its own memory. */
static inline void edu_begin(volatile uint32_t *regs, uint64_t from, uint64_t to, uint32_t command)
{
	edu_begin_some(regs, from, to, command, EDU_BYTES);
}

static inline int edu_is_busy(volatile uint32_t *regs)
{
	return regs[R_DMA_CMD / 4] & CMD_RUN;
}

#endif
