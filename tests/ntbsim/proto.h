/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The vfio-user protocol, version 0.0, as far as QEMU's client speaks it.
 * Reference: docs/interop/vfio-user.rst of QEMU; the bodies follow the structures of
 * linux/vfio.h.  All fields are in the byte order of the host, which here is x86.
 */
#ifndef NTBSIM_PROTO_H
#define NTBSIM_PROTO_H

#include <stdint.h>

enum vu_cmd {
	VU_VERSION = 1,
	VU_DMA_MAP,
	VU_DMA_UNMAP,
	VU_GET_INFO,
	VU_GET_REGION_INFO,
	VU_GET_REGION_IO_FDS,
	VU_GET_IRQ_INFO,
	VU_SET_IRQS,
	VU_REGION_READ,
	VU_REGION_WRITE,
	VU_DMA_READ,		/* sent by us */
	VU_DMA_WRITE,		/* sent by us */
	VU_RESET,
	VU_DIRTY_PAGES,		/* not served */
	VU_REGION_WRITE_MULTI,
};

/* vu_hdr.flags */
#define VU_TYPE_MASK 0xfu
#define VU_REPLY 0x1u
#define VU_NO_REPLY 0x10u
#define VU_ERROR 0x20u

struct vu_hdr {
	uint16_t id;
	uint16_t cmd;
	uint32_t size;		/* of the whole message */
	uint32_t flags;
	uint32_t error;		/* errno, with VU_ERROR */
};

struct vu_version {
	uint16_t major, minor;
	/* then JSON, terminated */
};

#define VU_MAP_READ 1u
#define VU_MAP_WRITE 2u

struct vu_dma_map {
	uint32_t argsz, flags;
	uint64_t offset, iova, size;
};

#define VU_UNMAP_DIRTY_BITMAP 1u
#define VU_UNMAP_ALL 2u

struct vu_dma_unmap {
	uint32_t argsz, flags;
	uint64_t iova, size;
};

#define VU_DEV_RESET 1u
#define VU_DEV_PCI 2u

struct vu_dev_info {
	uint32_t argsz, flags, regions, irqs;
};

#define VU_REGION_R 1u
#define VU_REGION_W 2u

struct vu_region_info {
	uint32_t argsz, flags, index, cap_offset;
	uint64_t size, offset;
};

#define VU_IRQ_EVENTFD 1u
#define VU_IRQ_NORESIZE 8u

struct vu_irq_info {
	uint32_t argsz, flags, index, count;
};

#define VU_IRQ_DATA_NONE 1u
#define VU_IRQ_DATA_BOOL 2u
#define VU_IRQ_DATA_EVENTFD 4u
#define VU_IRQ_MASK 8u
#define VU_IRQ_UNMASK 16u
#define VU_IRQ_TRIGGER 32u

struct vu_irq_set {
	uint32_t argsz, flags, index, start, count;
};

struct vu_region_rw {
	uint64_t offset;
	uint32_t region, count;
	/* then data */
};

#define VU_MULTI_DATA 8
#define VU_MULTI_MAX 200

/* Body of VU_REGION_WRITE_MULTI: a 64 bit count, then as many of these. */
struct vu_write_one {
	struct vu_region_rw rw;
	uint8_t data[VU_MULTI_DATA];
};

struct vu_dma_rw {
	uint64_t addr;
	uint64_t count;
	/* then data */
};

/* linux/vfio.h: the fixed indexes of a PCI device. */
enum {
	VU_BAR0 = 0,
	VU_BAR2 = 2,
	VU_BAR4 = 4,
	VU_ROM = 6,
	VU_CONFIG = 7,
	VU_REGIONS = 9,
};

enum {
	VU_IRQ_INTX,
	VU_IRQ_MSI,
	VU_IRQ_MSIX,
	VU_IRQ_ERR,
	VU_IRQ_REQ,
	VU_IRQS,
};

_Static_assert(sizeof(struct vu_hdr) == 16, "header");
_Static_assert(sizeof(struct vu_dma_map) == 32, "dma map");
_Static_assert(sizeof(struct vu_dma_unmap) == 24, "dma unmap");
_Static_assert(sizeof(struct vu_region_info) == 32, "region info");
_Static_assert(sizeof(struct vu_irq_set) == 20, "irq set");
_Static_assert(sizeof(struct vu_region_rw) == 16, "region access");
_Static_assert(sizeof(struct vu_write_one) == 24, "one of many writes");
_Static_assert(sizeof(struct vu_dma_rw) == 16, "dma access");

#endif
