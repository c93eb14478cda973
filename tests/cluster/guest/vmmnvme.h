/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An NVMe disk under a program that plays a VMM (vmm.h): its queues in what would be a guest's
 * memory, the controller started, and commands that are looked at until they end.
 */
#ifndef DLEND_GUEST_VMMNVME_H
#define DLEND_GUEST_VMMNVME_H

#include "nvme.h"
#include "vmm.h"

static uint8_t *memory;			/* what would be the guest's, at 0 */
static volatile uint32_t *regs;

static inline struct nvme_queue disk_queue(unsigned int number, unsigned int entries,
					   uint32_t command_at, uint32_t done_at)
{
	return (struct nvme_queue){
		.number = number,
		.entries = entries,
		.command = (void *)(memory + command_at),
		.done = (void *)(memory + done_at),
		.command_at = command_at,
		.done_at = done_at,
	};
}

/* @ready: NVME_CSTS_READY, or 0 */
static inline void disk_await(uint32_t ready, unsigned int timeout_ms)
{
	for (unsigned int ms = 0; (regs[NVME_CSTS / 4] & NVME_CSTS_READY) != ready; ms += 10) {
		if (ms >= timeout_ms)
			die("the disk does not become ready");
		doze(10000);
	}
}

static inline void disk_start(const struct nvme_queue *admin, unsigned int timeout_ms)
{
	regs[NVME_CC / 4] = 0;
	disk_await(0, timeout_ms);
	nvme_enable(regs, admin);
	disk_await(NVME_CSTS_READY, timeout_ms);
}

static inline void disk_end(struct nvme_queue *q)
{
	if (nvme_end(regs, q))
		die("the disk refuses a command");
}

/* With no interrupt. */
static inline void disk_execute(struct nvme_queue *q, struct nvme_command c,
				unsigned int timeout_ms)
{
	uint64_t begin = now_us();

	nvme_begin(regs, q, c);
	while (!nvme_ended(q))
		if (now_us() - begin > timeout_ms * 1000ull)
			die("the disk does not answer");
	disk_end(q);
}

#endif
