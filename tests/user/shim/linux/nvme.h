/* SPDX-License-Identifier: GPL-2.0 */
/* User-space stand-in for <linux/nvme.h>: only what the pure sources and their suites use. */
#ifndef SHIM_LINUX_NVME_H
#define SHIM_LINUX_NVME_H

#include <asm/byteorder.h>
#include <linux/bits.h>
#include <linux/types.h>

enum { NVME_CC_ENABLE = BIT(0), NVME_CSTS_RDY = BIT(0), NVME_CSTS_CFS = BIT(1) };

enum nvme_admin_opcode {
	nvme_admin_delete_sq, nvme_admin_create_sq,
	nvme_admin_delete_cq = 4, nvme_admin_create_cq
};

enum { NVME_QUEUE_PHYS_CONTIG = BIT(0) };

struct nvme_common_command {
	__u8 opcode, flags;
	__u16 command_id;
	__u32 rest[15];
};

struct nvme_create_sq {
	__u8 opcode, flags;
	__u16 command_id;
	__u32 rsvd1[5];
	__le64 prp1;
	__u64 rsvd8;
	__le16 sqid, qsize, sq_flags, cqid;
	__u32 rsvd12[4];
};

struct nvme_command {
	union {
		struct nvme_common_command common;
		struct nvme_create_sq create_sq;
	};
};

struct nvme_completion {
	__le64 result;
	__le16 sq_head, sq_id;
	__u16 command_id;
	__le16 status;
};

#endif
