/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model of an NTB: two sides, their windows, doorbells and link state.  What its registers mean
 * is the matter of its family: amd.c, intel.c, switchtec.c.
 */
#ifndef NTBSIM_NTB_H
#define NTBSIM_NTB_H

#include <stdbool.h>
#include <stdint.h>

#include "dma.h"
#include "late.h"
#include "loop.h"
#include "vfu.h"

#define NTB_VECTORS_MAX 33
#define NTB_SPADS 16
#define NTB_BAR0_MAX 0x10000u
#define NTB_CFG_SIZE 4096u

enum ntb_window { NTB_BAR2, NTB_BAR4, NTB_WINDOWS };

extern unsigned int amd_device_id;	/* both sides, of links that are made later */
/* How long a driver must have left its configuration alone to hear of a link that is up. */
extern unsigned int ntb_link_delay_ms;

struct ntb_link;
struct ntb_side;
struct text;

/* What one kind of bridge has of its own.  Offsets are those of 32-bit words in BAR0. */
struct ntb_family {
	const char *name;		/* as --link takes it */
	uint32_t bar0_size, msix_table, msix_pba;
	uint32_t msix_stride;		/* the tables of side b are so far behind those of a */
	unsigned int vectors;
	unsigned int doorbell_shift[2];	/* of each side: doorbell 0 is this bit */

	/* Both sides, once; or NULL. */
	void (*open)(struct ntb_link *l);

	/* What is the family's own in configuration space; the rest is filled in. */
	void (*config)(struct ntb_side *s);
	/* Registers after a reset of this side. */
	void (*reset)(struct ntb_side *s);
	uint32_t (*load)(struct ntb_side *s, uint32_t off);
	/* @mask: the bits of the word that the access covers; @v has no others. */
	void (*store)(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask);
	/* Where an access by @s leads, and how many bytes from there on do so; 0: nowhere. */
	void (*window)(struct ntb_side *s, enum ntb_window w, uint64_t off, uint64_t *addr,
		       uint64_t *open);
	/* Doorbells of this side have been rung, one bit each. */
	void (*rung)(struct ntb_side *s, uint64_t bits);
	/*
	 * The scratchpad that commands call @n: 0 to NTB_SPADS - 1, or twice as many; or NULL.
	 * NULL: there are none.
	 */
	uint32_t *(*spad)(struct ntb_link *l, unsigned int n);
	/* Does this side's driver let the link train?  NULL: it has no say in that. */
	bool (*wants_link)(const struct ntb_side *s);
	/* The link has come up or gone down. */
	void (*link)(struct ntb_side *s, bool up);
	/* Do both drivers know that the link is up?  NULL: as soon as it is. */
	bool (*ready)(const struct ntb_link *l);
	/* Is there a driver? */
	bool (*driven)(const struct ntb_side *s);
	/*
	 * The command "requesters" of a side, from its third word on: what to do, or NULL to show
	 * them.  Return: NULL, or why not.  NULL: all requesters pass.
	 */
	const char *(*requesters)(struct ntb_side *s, char **arg, struct text *out);
};

extern const struct ntb_family amd_family, intel_families[], switchtec_family;
/* NULL: no such family. */
const struct ntb_family *ntb_family_named(const char *name);

struct ntb_counters {
	uint64_t reads, writes;			/* this side's accesses to its windows */
	uint64_t reads4, writes4;		/* of these, to window 4 */
	uint64_t read_bytes, write_bytes;
	uint64_t reg_reads, reg_writes;		/* its accesses to BAR0 */
	uint64_t doorbells;			/* rung by this side */
	uint64_t doorbells_lost;		/* of these, swallowed by a fault switch */
	uint64_t irqs;				/* delivered to this side */
	uint64_t dropped;			/* its accesses that led nowhere */
	uint64_t late;				/* its writes that late.c delayed */
	uint64_t slow;				/* its reads that were answered late */
};

struct ntb_side {
	struct ntb_link *link;
	int idx;			/* 0: a, primary; 1: b, secondary */
	char name[40];			/* "link.a" */
	char path[108];

	struct vfu vfu;
	struct dma_port dma;
	uint8_t cfg[NTB_CFG_SIZE];
	uint8_t bar[24];		/* what the host has written to its BARs */
	uint32_t regs[NTB_BAR0_MAX / 4];

	int irqfd[NTB_VECTORS_MAX];		/* -1: none */
	uint64_t irq_masked, irq_pending;	/* one bit a vector */

	/* amd.c: */
	uint64_t configured;		/* when its driver last wrote what a probe writes */
	struct timer settle;		/* runs until it may be told that the link is up */
	bool told;			/* it was, and the link has been up since */
	bool acked;			/* and its driver has taken note of that */

	/* The window read that this side's QEMU is waiting for. */
	struct vu_hdr rd_hdr;
	uint8_t rd_body[16];
	struct timer slow;		/* runs until that is made */

	/* Fault switches, see README.md. */
	bool silent;
	enum ntb_window mute_window;	/* what it writes there is lost, ... */
	uint64_t mute_off, mute_len;	/* ... and 0 bytes is nowhere */
	unsigned int db_drop, db_delay_ms;
	struct late late;
	unsigned int slow_ms;		/* what its processors read is answered so much later */
	struct timer flood;		/* rings its peer's doorbells 0 and 1 ... */
	unsigned int flood_rings;	/* ... so often each millisecond */
	uint32_t spad_lie[NTB_SPADS];	/* what this side reads where a bit is set in ... */
	uint32_t spad_lies;

	struct ntb_counters n;
};

struct ntb_link {
	char name[32];
	const struct ntb_family *family;
	uint64_t bar_size[NTB_WINDOWS];
	uint32_t spad[NTB_SPADS];	/* amd.c: of both sides */
	void *own;			/* its family's */
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

void ntb_cut(struct ntb_link *l, bool cut);
/* The link is up, and both drivers know it. */
bool ntb_ready(const struct ntb_link *l);

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

/* The address there on the peer; 0: it leads nowhere. */
uint64_t ntb_window_to(struct ntb_side *s, enum ntb_window w, uint64_t off);

/* The same write when no fault switch has it, or has it any more. */
void ntb_window_push(struct ntb_side *s, enum ntb_window w, uint64_t off, const void *data,
		     size_t len, bool force);

/* A conventional reset, a new client, or one that left. */
void ntb_reset(struct ntb_side *s);
/* @s rings doorbells 0 and 1 @rings times a millisecond from now on; 0: no more. */
void ntb_flood(struct ntb_side *s, unsigned int rings);

/*
 * For families.
 */

/* MSI-X vector @vec of this side. */
void ntb_irq(struct ntb_side *s, unsigned int vec);
/* The vectors of some bits; @vector: that of each bit, as the driver has set it. */
void ntb_irqs(struct ntb_side *s, uint64_t bits, const uint8_t *vector);
/* @s rings doorbells of its peer, one bit each. */
void ntb_ring(struct ntb_side *s, uint64_t bits);
/* What a driver wants of the link has changed. */
void ntb_retrain(struct ntb_link *l);
/* One side of the two does not hear the other. */
bool ntb_dead(struct ntb_side *s);
/* What @s reads in its scratchpad @n where @v is. */
uint32_t ntb_spad_seen(const struct ntb_side *s, unsigned int n, uint32_t v);

static inline uint32_t ntb_reg(const struct ntb_side *s, uint32_t off)
{
	return s->regs[off / 4];
}

static inline uint64_t ntb_reg64(const struct ntb_side *s, uint32_t off)
{
	return ntb_reg(s, off) | (uint64_t)ntb_reg(s, off + 4) << 32;
}

static inline struct ntb_side *ntb_peer(struct ntb_side *s)
{
	return &s->link->side[!s->idx];
}

/* device.c: the PCI function as QEMU's vfio-user client sees it. */
extern const struct vfu_ops device_ops;
/* pci.c: configuration space. */
enum {
	PCI_REVISION = 0x08,
	PCI_BAR0 = 0x10,
	PCI_BAR_MEM64 = 0x4,
	PCI_BAR_PREFETCH = 0x8,
};

void pci_init(struct ntb_side *s);
/* Of the function and of the board, which are the same. */
void pci_set_id(struct ntb_side *s, uint16_t vendor, uint16_t device);
/* Where the host has put a 64-bit BAR; 0: nowhere. */
uint64_t pci_bar(const struct ntb_side *s, unsigned int bar);
void pci_write(struct ntb_side *s, uint32_t off, const uint8_t *buf, unsigned int len);
bool pci_master(const struct ntb_side *s);

#endif
