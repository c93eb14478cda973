/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DMA by the NTB function of one side: straight into RAM that QEMU shared with us, or by
 * DMA_READ and DMA_WRITE messages, which QEMU sends through its IOMMU.  Posted writes of
 * both kinds arrive in the order in which they were made.
 * Knows nothing of windows and links.
 */
#ifndef NTBSIM_DMA_H
#define NTBSIM_DMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem.h"
#include "vfu.h"

/* QEMU gives a reply 5 s and drops the connection when one comes later than that. */
#define DMA_READ_TIMEOUT_MS 2000
#define DMA_MAX_LEN 4096u

/* A write is lost after so long: it makes nobody wait, and a host may be busy for seconds. */
extern unsigned int dma_write_timeout_ms;

/* @err: 0, or an errno and @data is all ones.  Called exactly once unless cancelled. */
typedef void (*dma_fn)(void *arg, int err, const void *data, size_t len);
typedef void (*dma_call_fn)(void *arg, uint64_t value);

struct dma;

struct dma_list {
	struct dma *head, **end;
	unsigned int count;
};

struct dma_port {
	struct vfu *vfu;
	const char *name;	/* for the log: "link.side" */
	struct mem mem;
	struct dma_list inflight;	/* messages without a reply yet */
	struct dma_list held;		/* what has to wait for them, in order */
	unsigned int writes_inflight;
	uint16_t next_id;
	bool master;		/* Bus Master Enable */

	uint64_t msg_reads;	/* messages sent */
	uint64_t ram_writes;	/* done here, and the others, sent as messages: */
	uint64_t unmapped_writes, not_ram_writes;
	uint64_t held_writes, held_calls;	/* of all these, so many had to wait */
	uint64_t faults;	/* refused by the map, the IOMMU or Bus Master Enable */
	uint64_t timeouts, late;
	uint64_t last_fault;	/* address */
};

void dma_init(struct dma_port *p, struct vfu *v, const char *name);

/*
 * @len up to DMA_MAX_LEN; @fn may be called before this returns.  Sees what was written
 * before, whether it has arrived or not; a read of RAM never waits for that.
 */
void dma_read(struct dma_port *p, uint64_t addr, size_t len, dma_fn fn, void *arg);
/* Posted: it may have to wait, but it never overtakes an earlier one. */
void dma_write(struct dma_port *p, uint64_t addr, const void *data, size_t len);
/*
 * Call @fn when all that was written so far has arrived: before this returns if it has, and
 * never if the client goes or is reset first.  @arg must live until then.
 */
void dma_after(struct dma_port *p, dma_call_fn fn, void *arg, uint64_t value);

/* Nobody waits for @arg's reads any more. */
void dma_cancel(struct dma_port *p, const void *arg);
/* The function is reset: what is held back is lost.  Messages under way are not. */
void dma_drop_held(struct dma_port *p);
/* The client is gone: reads fail, the map is forgotten. */
void dma_reset(struct dma_port *p);
/* A reply of QEMU's to one of our messages. */
void dma_reply(struct dma_port *p, const struct vfu_msg *m);

#endif
