// SPDX-License-Identifier: GPL-2.0
/*
 * The registers of Intel's NTBs, back to back: generation 3 (Skylake, Cascade Lake) and 4 (Ice
 * Lake, Sapphire Rapids).  Their meaning is that of drivers/ntb/hw/intel/ntb_hw_gen[34].[ch] of
 * Linux, the driver that has to work with this model.
 *
 * Unlike AMD's: what comes in through a window is translated by the receiver's own registers,
 * which its own driver writes.  Each side has scratchpads of its own.  The peer's are written
 * through registers that, in generation 3, read as what was written there last, and not as the
 * peer's.  The link trains when both drivers have said so.
 */
#include "ntb.h"
#include "util.h"

enum {
	R_CNTL = 0x00,
	R_XBASE = 0x10,			/* of BAR 2; of BAR 4 at + 0x10 */
	R_XLMT = 0x18,
	R_INT_STATUS = 0x40,		/* 64 bits; written ones are cleared */
	R_INT_DISABLE = 0x48,
	R_INTVEC4 = 0x50,		/* a byte for each bit of these: its MSI-X vector */
	R_XBASEIDX = 0x74,		/* of BAR 4 at + 2 */
	R_SPAD = 0x80,
	R_SPAD_END = R_SPAD + 4 * NTB_SPADS,
	R_INTVEC3 = 0xd0,
	R_DOORBELL = 0x100,		/* a word for each */
	R_DOORBELL_END = R_DOORBELL + 4 * 32,
	R_B2B_SPAD3 = 0x180,
	R_EM_XLMT3 = 0x4018,		/* as R_XLMT, for the secondary side's BARs */
	R_EM_BAR3 = 0x4518,		/* where these are; of BAR 4 at + 8 */
	R_EM_SPAD4 = 0x8080,
	R_LNKCTL4 = 0xb050,		/* and link status, in the upper half */
	R_SLOTSTS4 = 0xb058,		/* in the upper half */
	R_PPD0_4 = 0xb0d4,
	R_PPD1_4 = 0xb4c0,

	CNTL3_DISABLE = BIT(1),
	LNKCTL4_DISABLE = BIT(4),
	PPD0_LINKTRN = BIT(3),
	SLOTSTS_CHANGED = BIT(16 + 8),
	BIT_LINK = 32,			/* of the interrupt's status */
	INT_BITS = 33,

	CFG_PPD3 = 0xd4,
	CFG_LNKSTS3 = 0x1a2,
	LNKSTS_IDLE = 0x0103,		/* 8 GT/s, x16 */
	LNKSTS_ACTIVE = 0x2103,

	PPD3_B2B = 0x01,
	PPD3_DSD = 0x10,
	PPD4_B2B = 0x0200,
	PPD4_DSD_ICX = 0x1000,
	PPD4_DSD_SPR = 0x4000,
};

enum { SKX, ICX, SPR };

static unsigned int kind(const struct ntb_side *s)
{
	return s->link->family - intel_families;
}

/* ---- interrupts ---- */

static uint64_t masked(const struct ntb_side *s)
{
	return ntb_reg64(s, R_INT_DISABLE);
}

/* Of each bit. */
static uint8_t *vectors(struct ntb_side *s)
{
	return (uint8_t *)s->regs + (kind(s) == SKX ? R_INTVEC3 : R_INTVEC4);
}

/* A bit that is set already does not interrupt again: who takes it has to clear it first. */
static void latch(struct ntb_side *s, uint64_t bits)
{
	uint64_t was = ntb_reg64(s, R_INT_STATUS);

	s->regs[R_INT_STATUS / 4] |= bits;
	s->regs[R_INT_STATUS / 4 + 1] |= bits >> 32;
	ntb_irqs(s, bits & ~was & ~masked(s), vectors(s));
}

static void intel_rung(struct ntb_side *s, uint64_t bits)
{
	latch(s, bits);
}

/* ---- link ---- */

static bool intel_wants_link(const struct ntb_side *s)
{
	if (kind(s) == SKX)
		return !(ntb_reg(s, R_CNTL) & CNTL3_DISABLE);
	return ntb_reg(s, R_PPD0_4) & PPD0_LINKTRN && !(ntb_reg(s, R_LNKCTL4) & LNKCTL4_DISABLE);
}

static void show_link(struct ntb_side *s, bool up)
{
	uint16_t status = up ? LNKSTS_ACTIVE : LNKSTS_IDLE;

	if (kind(s) == SKX)
		put16(s->cfg + CFG_LNKSTS3, status);
	else
		put16((uint8_t *)s->regs + R_LNKCTL4 + 2, status);
}

static void intel_link(struct ntb_side *s, bool up)
{
	show_link(s, up);
	if (kind(s) != SKX)
		s->regs[R_SLOTSTS4 / 4] |= SLOTSTS_CHANGED;
	latch(s, 1ull << BIT_LINK);
}

/* ---- registers ---- */

/* The peer's, over the link. */
static uint32_t *peer_spad(struct ntb_side *s, unsigned int n)
{
	if (!s->link->up || ntb_dead(s))
		return NULL;
	return &ntb_peer(s)->regs[R_SPAD / 4 + n];
}

static bool is_peer_spad(const struct ntb_side *s, uint32_t off, unsigned int *n)
{
	uint32_t base = kind(s) == SKX ? R_B2B_SPAD3 : R_EM_SPAD4;

	*n = (off - base) / 4;
	return off >= base && off < base + 4 * NTB_SPADS;
}

static uint32_t intel_load(struct ntb_side *s, uint32_t off)
{
	const uint32_t *peer;
	unsigned int n;

	if (off >= R_SPAD && off < R_SPAD_END)
		return ntb_spad_seen(s, (off - R_SPAD) / 4, ntb_reg(s, off));
	if (kind(s) != SKX && is_peer_spad(s, off, &n)) {
		peer = peer_spad(s, n);
		return peer ? *peer : ~0u;
	}
	return ntb_reg(s, off);
}

static void store_status(struct ntb_side *s, uint32_t off, uint32_t v)
{
	/* While the slot says that the link has changed, so does this. */
	if (off != R_INT_STATUS && ntb_reg(s, R_SLOTSTS4) & SLOTSTS_CHANGED)
		v &= ~(uint32_t)BIT(BIT_LINK - 32);
	s->regs[off / 4] &= ~v;
}

static void store_masks(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	uint64_t was = masked(s);

	s->regs[off / 4] = (ntb_reg(s, off) & ~mask) | v;
	ntb_irqs(s, ntb_reg64(s, R_INT_STATUS) & was & ~masked(s), vectors(s));
}

static void store_peer_spad(struct ntb_side *s, unsigned int n, uint32_t v, uint32_t mask)
{
	uint32_t *peer = peer_spad(s, n);

	if (peer)
		*peer = (*peer & ~mask) | v;
}

static void store_plain(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	bool wanted = intel_wants_link(s);

	s->regs[off / 4] = (ntb_reg(s, off) & ~mask) | v;
	if (wanted != intel_wants_link(s)) {
		dbg("%s: driver %s", s->name, wanted ? "gone" : "ready");
		ntb_retrain(s->link);
	}
}

static void intel_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	unsigned int n;

	if (off >= R_DOORBELL && off < R_DOORBELL_END) {
		if (v & 1)
			ntb_ring(s, BIT((off - R_DOORBELL) / 4));
		return;
	}
	if (is_peer_spad(s, off, &n))
		store_peer_spad(s, n, v, mask);
	switch (off) {
	case R_INT_STATUS:
	case R_INT_STATUS + 4:
		store_status(s, off, v);
		break;
	case R_INT_DISABLE:
	case R_INT_DISABLE + 4:
		store_masks(s, off, v, mask);
		break;
	case R_LNKCTL4:
		store_plain(s, off, v & 0xffff, mask & 0xffff);
		break;
	case R_SLOTSTS4:
		if (kind(s) != SKX) {
			s->regs[off / 4] &= ~v;
			break;
		}
		/* fall through */
	default:
		store_plain(s, off, v, mask);
	}
}

static uint32_t *intel_spad(struct ntb_link *l, unsigned int n)
{
	return n < 2 * NTB_SPADS ? &l->side[n / NTB_SPADS].regs[R_SPAD / 4 + n % NTB_SPADS] : NULL;
}

/* ---- windows ---- */

/* How much a limit leaves of what begins at @base.  One that lies behind it closes all. */
static uint64_t up_to(uint64_t limit, uint64_t base)
{
	return limit > base ? limit - base : 0;
}

/* What else of the receiver's limits a window. */
static uint64_t window_more(const struct ntb_side *peer, enum ntb_window w)
{
	unsigned int bits = ntb_reg(peer, R_XBASEIDX) >> 16 * w & 0xffff;

	if (kind(peer) == SKX)
		return up_to(ntb_reg64(peer, R_EM_XLMT3 + 0x10 * w),
			     ntb_reg64(peer, R_EM_BAR3 + 8 * w) & ~0xfull);
	return kind(peer) == ICX && bits < 64 ? 1ull << bits : UINT64_MAX;
}

/*
 * The receiver's registers.  Its limit is compared with its own BAR, as its driver computes it from
 * that.  The hardware adds no base to an offset: it puts one in the place of the address' upper
 * bits, but for Sapphire Rapids and later ones.
 */
static void intel_window(struct ntb_side *s, enum ntb_window w, uint64_t off, uint64_t *addr,
			 uint64_t *open)
{
	const struct ntb_side *peer = ntb_peer(s);
	uint64_t more = window_more(peer, w);

	*addr = ntb_reg64(peer, R_XBASE + 0x10 * w);
	if (kind(s) != SPR)
		*addr &= ~(s->link->bar_size[w] - 1);
	*addr += off;
	*open = up_to(ntb_reg64(peer, R_XLMT + 0x10 * w), pci_bar(peer, 2 + 2 * w) + off);
	more = more > off ? more - off : 0;
	if (more < *open)
		*open = more;
}

/* ---- the function ---- */

static void intel_reset(struct ntb_side *s)
{
	uint8_t *vector = vectors(s);
	unsigned int i;

	for (i = 0; i < INT_BITS; i++)
		vector[i] = (i + 1) % INT_BITS;
	s->regs[R_INT_DISABLE / 4] = ~0u;
	if (kind(s) == SKX)
		s->regs[R_CNTL / 4] = CNTL3_DISABLE;
	else if (kind(s) == ICX)
		s->regs[R_PPD1_4 / 4] = PPD4_B2B | (s->idx ? PPD4_DSD_ICX : 0);
	else
		s->regs[R_PPD1_4 / 4] = PPD4_B2B | (s->idx ? PPD4_DSD_SPR : 0);
	show_link(s, false);
}

static void intel_config(struct ntb_side *s)
{
	pci_set_id(s, 0x8086, kind(s) == SKX ? 0x201c : 0x347e);
	s->cfg[PCI_REVISION] = kind(s) == SPR ? 0x10 : 0x04;
	put32(s->cfg + PCI_BAR0, PCI_BAR_MEM64 | PCI_BAR_PREFETCH);
	if (kind(s) == SKX) {
		s->cfg[CFG_PPD3] = PPD3_B2B | (s->idx ? PPD3_DSD : 0);
		show_link(s, false);
	}
}

#define INTEL_FAMILY(_name) {			\
	.name = _name,				\
	.bar0_size = 0x10000,			\
	.msix_table = 0x2000,			\
	.msix_pba = 0x3000,			\
	.vectors = INT_BITS,			\
	.config = intel_config,			\
	.reset = intel_reset,			\
	.load = intel_load,			\
	.store = intel_store,			\
	.window = intel_window,			\
	.rung = intel_rung,			\
	.spad = intel_spad,			\
	.wants_link = intel_wants_link,		\
	.link = intel_link,			\
	.driven = intel_wants_link,		\
}

const struct ntb_family intel_families[] = {
	[SKX] = INTEL_FAMILY("intel-skx"),
	[ICX] = INTEL_FAMILY("intel-icx"),
	[SPR] = INTEL_FAMILY("intel-spr"),
	{ .name = NULL },
};
