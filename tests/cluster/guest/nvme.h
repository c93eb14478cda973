/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NVMe, for programs that drive a controller by themselves: registers, commands, and pairs of
 * queues.  How a program waits for the end of a command is its own.
 */
#ifndef DLEND_GUEST_NVME_H
#define DLEND_GUEST_NVME_H

#include <stdint.h>

#define NVME_CC			0x14
#define NVME_CSTS		0x1c
#define NVME_AQA		0x24
#define NVME_ASQ		0x28
#define NVME_ACQ		0x30
#define NVME_DOORBELLS		0x1000	/* CAP.DSTRD is 0 */
#define NVME_REGISTERS		0x2000

#define NVME_CC_ENABLE		0x00460001	/* entries of 64 and 16 bytes */
#define NVME_CSTS_READY		0x1
#define NVME_CSTS_FATAL		0x2

#define NVME_CREATE_SQ		0x01	/* administrator's */
#define NVME_CREATE_CQ		0x05
#define NVME_IDENTIFY		0x06
#define NVME_WRITE		0x01
#define NVME_READ		0x02

struct nvme_command {
	uint8_t opcode, flags;
	uint16_t id;
	uint32_t nsid;
	uint64_t reserved, metadata, prp1, prp2;
	uint32_t dw10, dw11, dw12, dw13, dw14, dw15;
};

_Static_assert(sizeof(struct nvme_command) == 64, "a submission queue's entry");

struct nvme_completion {
	uint32_t result, reserved;
	uint16_t head, queue, id, status;	/* bit 0: the phase */
};

_Static_assert(sizeof(struct nvme_completion) == 16, "a completion queue's entry");

/* Both of a pair, and where the device has them; one command at a time is under way. */
struct nvme_queue {
	unsigned int number, entries, tail, head;
	uint16_t phase;			/* of what is not done yet: 0 at first */
	struct nvme_command *command;
	volatile struct nvme_completion *done;
	uint64_t command_at, done_at;
};

static inline void nvme_write64(volatile uint32_t *regs, unsigned int at, uint64_t value)
{
	regs[at / 4] = value;
	regs[at / 4 + 1] = value >> 32;
}

/* The controller, which is disabled, learns of @admin and is enabled; it is ready later. */
static inline void nvme_enable(volatile uint32_t *regs, const struct nvme_queue *admin)
{
	regs[NVME_AQA / 4] = (admin->entries - 1) << 16 | (admin->entries - 1);
	nvme_write64(regs, NVME_ASQ, admin->command_at);
	nvme_write64(regs, NVME_ACQ, admin->done_at);
	regs[NVME_CC / 4] = NVME_CC_ENABLE;
}

/* @c.id is the caller's: of several commands under way, it tells which one has ended. */
static inline void nvme_begin(volatile uint32_t *regs, struct nvme_queue *q, struct nvme_command c)
{
	q->command[q->tail] = c;
	q->tail = (q->tail + 1) % q->entries;
	__sync_synchronize();
	regs[(NVME_DOORBELLS + 8 * q->number) / 4] = q->tail;
}

static inline int nvme_ended(const struct nvme_queue *q)
{
	return (q->done[q->head].status & 1) != q->phase;
}

/* Of the command that has ended.  Returns its status, 0: well. */
static inline unsigned int nvme_end(volatile uint32_t *regs, struct nvme_queue *q)
{
	unsigned int status = q->done[q->head].status >> 1;

	q->head = (q->head + 1) % q->entries;
	if (!q->head)
		q->phase ^= 1;
	regs[(NVME_DOORBELLS + 8 * q->number) / 4 + 1] = q->head;
	__sync_synchronize();
	return status;
}

/* Commands for @admin that make @q. @flags: of the completion queue: 2: interrupts, vector << 16 */
static inline struct nvme_command nvme_create_cq(const struct nvme_queue *q, uint32_t flags)
{
	return (struct nvme_command){
		.opcode = NVME_CREATE_CQ,
		.prp1 = q->done_at,
		.dw10 = (q->entries - 1) << 16 | q->number,
		.dw11 = flags | 1,
	};
}

static inline struct nvme_command nvme_create_sq(const struct nvme_queue *q)
{
	return (struct nvme_command){
		.opcode = NVME_CREATE_SQ,
		.prp1 = q->command_at,
		.dw10 = (q->entries - 1) << 16 | q->number,
		.dw11 = q->number << 16 | 1,
	};
}

#endif
