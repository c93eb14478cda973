/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model of an AMD NTB: two sides, their registers, windows, doorbells and link state.  The
 * meaning of the registers is that of drivers/ntb/hw/amd/ntb_hw_amd.[ch] of Linux, the driver that
 * has to work with this model.
 */
#ifndef NTBSIM_NTB_H
#define NTBSIM_NTB_H

#include <stdbool.h>
#include <stdint.h>

#include "dma.h"
#include "loop.h"
#include "vfu.h"

#define NTB_VECTORS 24
#define NTB_DOORBELLS 16	/* vectors 0..15; link events are on 16 + event bit */
#define NTB_SPADS 16
#define NTB_BAR0_SIZE 0x4000u
#define NTB_MSIX_TABLE 0x2000u
#define NTB_MSIX_PBA 0x3000u
#define NTB_CFG_SIZE 4096u

enum ntb_window { NTB_BAR2, NTB_BAR4, NTB_WINDOWS };

extern unsigned int ntb_device_id;	/* both sides, of links that are made later */
/* How long a driver must have left its configuration alone to hear of a link that is up. */
extern unsigned int ntb_link_delay_ms;

struct ntb_link;

struct ntb_counters {
	uint64_t reads, writes;			/* this side's accesses to its windows */
	uint64_t read_bytes, write_bytes;
	uint64_t reg_reads, reg_writes;		/* its accesses to BAR0 */
	uint64_t doorbells;			/* rung by this side */
	uint64_t doorbells_lost;		/* of these, swallowed by a fault switch */
	uint64_t irqs;				/* delivered to this side */
	uint64_t dropped;			/* its accesses that led nowhere */
};

struct ntb_side {
	struct ntb_link *link;
	int idx;			/* 0: a, primary; 1: b, secondary */
	char name[40];			/* "link.a" */
	char path[108];

	struct vfu vfu;
	struct dma_port dma;
	uint8_t cfg[NTB_CFG_SIZE];
	uint32_t regs[0x800 / 4];	/* 0x400..0x7ff are seen by the peer at +0x400 */

	int irqfd[NTB_VECTORS];		/* -1: none */
	uint32_t irq_masked, irq_pending;	/* one bit a vector */

	uint64_t configured;		/* when its driver last wrote what a probe writes */
	struct timer settle;		/* runs until it may be told that the link is up */
	bool told;			/* it was, and the link has been up since */
	bool acked;			/* and its driver has taken note of that */

	/* The window read that this side's QEMU is waiting for. */
	struct vu_hdr rd_hdr;
	uint8_t rd_body[16];

	/* Fault switches, see README.md. */
	bool silent;
	enum ntb_window mute_window;	/* what it writes there is lost, ... */
	uint64_t mute_off, mute_len;	/* ... and 0 bytes is nowhere */
	unsigned int db_drop, db_delay_ms;
	struct timer flood;		/* rings its peer's doorbells 0 and 1 ... */
	unsigned int flood_rings;	/* ... so often each millisecond */
	uint32_t spad_lie[NTB_SPADS];	/* what this side reads where a bit is set in ... */
	uint32_t spad_lies;

	struct ntb_counters n;
};

struct ntb_link {
	char name[32];
	uint64_t bar_size[NTB_WINDOWS];
	uint32_t spad[NTB_SPADS];
	struct ntb_side side[2];
	struct timer train;		/* runs while the link comes up */
	bool cut;			/* by "link NAME down" */
	bool up;			/* trained; the drivers' readiness is another thing */
	struct ntb_link *next;
};

static inline struct ntb_side *ntb_peer(struct ntb_side *s);

/* Fill in and open both sockets.  Return: 0 or -errno. */
int ntb_open(struct ntb_link *l);
void ntb_close(struct ntb_link *l);
/* Requests that waited for a read may go on.  Called from the idle hook. */
void ntb_idle(struct ntb_link *l);

/* The link is trained, both drivers said READY and both acknowledged that the link is up. */
bool ntb_ready(const struct ntb_link *l);
void ntb_cut(struct ntb_link *l, bool cut);

/* BAR0, @len 1..8, not across its end. */
void ntb_reg_read(struct ntb_side *s, uint32_t off, void *buf, unsigned int len);
void ntb_reg_write(struct ntb_side *s, uint32_t off, const void *buf, unsigned int len);

/*
 * An access by @s to one of its windows; @len up to DMA_MAX_LEN.  @force ignores link
 * state and silence, for the control socket.  ntb_window_read() calls @fn exactly once,
 * maybe before it returns.
 */
void ntb_window_read(struct ntb_side *s, enum ntb_window w, uint64_t off, size_t len,
		     bool force, dma_fn fn, void *arg);
void ntb_window_write(struct ntb_side *s, enum ntb_window w, uint64_t off, const void *data,
		      size_t len, bool force);

/* A conventional reset, a new client, or one that left. */
void ntb_reset(struct ntb_side *s);
/* @s rings doorbells 0 and 1 @rings times a millisecond from now on; 0: no more. */
void ntb_flood(struct ntb_side *s, unsigned int rings);
/* MSI-X vector @vec of this side. */
void ntb_irq(struct ntb_side *s, unsigned int vec);

static inline struct ntb_side *ntb_peer(struct ntb_side *s)
{
	return &s->link->side[!s->idx];
}

/* device.c: the PCI function as QEMU's vfio-user client sees it. */
extern const struct vfu_ops device_ops;
/* pci.c: configuration space. */
void pci_init(struct ntb_side *s);
void pci_write(struct ntb_side *s, uint32_t off, const uint8_t *buf, unsigned int len);
bool pci_master(const struct ntb_side *s);

#endif
