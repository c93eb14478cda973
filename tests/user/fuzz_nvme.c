// SPDX-License-Identifier: GPL-2.0
/*
 * An NVMe controller's queues under fuzz: a guest has written them, and the registers that say
 * where they are.  The sanitizers see reads outside; nothing but memory that is there is taken.
 */
#include <errno.h>
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "mdev/outstanding.h"
#include "fuzz.h"

#define MEMORY	0x4000u

static u8 memory[MEMORY];

static int read_memory(void *arg, u64 gpa, void *buf, size_t size)
{
	if (gpa > MEMORY || size > MEMORY - gpa)
		return -EFAULT;
	memcpy(buf, memory + gpa, size);
	return 0;
}

static void create(u8 *command, u8 opcode, u32 at, u32 dw11)
{
	command[0] = opcode;
	put_unaligned_le32(at, command + 24);
	put_unaligned_le32(3 << 16 | 1, command + 40);
	put_unaligned_le32(dw11, command + 44);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static u8 first[16 + 0x1000];

	/* As below: two sizes, two addresses; then memory with a pair of four entries. */
	put_unaligned_le32(3 << 16 | 3, first);
	put_unaligned_le32(0x200, first + 8);
	create(first + 16, 5, 0x400, 1);
	create(first + 16 + 64, 1, 0x500, 1 << 16 | 1);
	first[16 + 0x500] = 2;
	seed("pair", first, sizeof(first));
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct dlend_nvme n = { .cc = 1, .csts = 1, .read = read_memory };
	struct input in = { data, size };
	u8 words[16];
	int ret;

	take(&in, words, sizeof(words));
	n.aqa = get_unaligned_le32(words);
	n.asq = get_unaligned_le32(words + 4);
	n.acq = get_unaligned_le32(words + 8);
	take(&in, memory, sizeof(memory));
	ret = dlend_nvme_busy(&n);
	MUST(ret == 0 || ret == 1 || ret == -EFAULT || ret == -ENOMEM);
	return 0;
}
