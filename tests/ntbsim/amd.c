// SPDX-License-Identifier: GPL-2.0
/*
 * The registers of AMD's NTBs.  Their meaning is that of drivers/ntb/hw/amd/ntb_hw_amd.[ch] of
 * Linux, the driver that has to work with this model.
 *
 * The translation of a window stands in the registers of the side that makes the access; the other
 * side's driver writes it there.  Both sides see the same scratchpads.
 */
#include "ntb.h"
#include "util.h"

/* Offsets and bits as in ntb_hw_amd.h. */
enum {
	R_CNTL = 0x200,
	R_SPAD = 0x210,
	R_SPAD_END = R_SPAD + 4 * NTB_SPADS,
	R_SHARED = 0x400,	/* from here the peer can see it */
	R_SIDEINFO = 0x408,
	R_BAR23LMT = 0x418,	/* BAR45 follows at +8 */
	R_BAR23XLAT = 0x438,
	R_DBREQ = 0x454,
	R_MIRRDBSTAT = 0x458,
	R_DBMASK = 0x45c,
	R_DBSTAT = 0x460,
	R_INTMASK = 0x470,
	R_INTSTAT = 0x474,
	R_SMUACK = 0x4a0,
	R_PEER = 0x800,		/* the peer's 0x400..0x7ff */
	R_PEER_END = 0xc00,

	SIDE_SECONDARY = BIT(0),
	SIDE_READY = BIT(1),
	EV_LINK_UP = BIT(5),
	EV_LINK_DOWN = BIT(6),
	EV_ALL = 0x7f,
	DB_ALL = 0xffff,

	VECTORS = 24,
	DOORBELLS = 16,		/* vectors 0..15; link events are on 16 + event bit */
	REGS_END = 0x800,
};

/*
 * The endpoint variant: on both sides the driver reads the link status from the function itself;
 * with the others, which older kernels know only, it looks in a switch above the secondary side.
 */
unsigned int amd_device_id = 0x17d7;
unsigned int ntb_link_delay_ms = 300;

static bool side_ready(const struct ntb_side *s)
{
	return ntb_reg(s, R_SIDEINFO) & SIDE_READY;
}

/*
 * The registers must not show a link before both drivers know of it: if ntb_hw_amd sees a peer that
 * is READY while its own last event is "link down", it takes the peer for removed by surprise, and
 * clears the peer's READY for good.
 */
static bool link_shown(const struct ntb_link *l)
{
	return l->up && l->side[0].acked && l->side[1].acked;
}

static bool amd_ready(const struct ntb_link *l)
{
	return link_shown(l) && side_ready(&l->side[0]) && side_ready(&l->side[1]);
}

static void fire_doorbells(struct ntb_side *s, uint32_t bits)
{
	unsigned int i;

	for (i = 0; i < DOORBELLS; i++)
		if (bits & BIT(i))
			ntb_irq(s, i);
}

static void fire_events(struct ntb_side *s, uint32_t bits)
{
	unsigned int i;

	for (i = 0; DOORBELLS + i < VECTORS; i++)
		if (bits & BIT(i))
			ntb_irq(s, DOORBELLS + i);
}

/*
 * The driver understands one link event at a time (its switch compares the whole status),
 * and only the newest is true.
 */
static void link_event(struct ntb_side *s, uint32_t event)
{
	uint32_t *stat = &s->regs[R_INTSTAT / 4];

	*stat = (*stat & ~(uint32_t)(EV_LINK_UP | EV_LINK_DOWN)) | event;
	fire_events(s, event & ~ntb_reg(s, R_INTMASK));
}

static void settled(struct timer *t)
{
	struct ntb_side *s = container_of(t, struct ntb_side, settle);

	dbg("%s: told that the link is up", s->name);
	s->told = true;
	link_event(s, EV_LINK_UP);
}

/*
 * ntb_hw_amd unmasks events, then says READY, then initialises what an event needs
 * (ntb_register_device()).  No register tells of the last step.  So the event waits until the
 * driver has been quiet for a while; on hardware the link takes its time, too.
 */
static void settle(struct ntb_side *s)
{
	uint64_t due = s->configured + ntb_link_delay_ms, now = now_ms();

	timer_del(&s->settle);
	if (s->link->up && !s->told && side_ready(s))
		timer_set(&s->settle, due > now ? due - now : 0);
}

/* This side's own driver wrote the register at @off. */
static void configured(struct ntb_side *s, uint32_t off)
{
	if (off != R_SIDEINFO && off != R_CNTL && off != R_INTMASK)
		return;
	/* An event that a driver leaves behind must not reach the next one when that unmasks. */
	if (!side_ready(s)) {
		s->regs[R_INTSTAT / 4] &= ~(uint32_t)(EV_LINK_UP | EV_LINK_DOWN);
		s->told = s->acked;
	}
	s->configured = now_ms();
	settle(s);
}

static void amd_rung(struct ntb_side *s, uint64_t bits)
{
	s->regs[R_DBSTAT / 4] |= bits;
	/* A bit that is set already fires again: better twice than never. */
	fire_doorbells(s, bits & ~ntb_reg(s, R_DBMASK));
}

static uint32_t amd_load(struct ntb_side *s, uint32_t off)
{
	struct ntb_link *l = s->link;
	uint32_t v;

	if (off >= R_SPAD && off < R_SPAD_END)
		return ntb_spad_seen(s, (off - R_SPAD) / 4, l->spad[(off - R_SPAD) / 4]);
	if (off >= R_PEER && off < R_PEER_END) {
		v = amd_load(ntb_peer(s), off - R_PEER + R_SHARED);
		/* No READY shows over a link that is down, or unknown to a driver. */
		if (off - R_PEER + R_SHARED == R_SIDEINFO && !link_shown(l))
			v &= ~(uint32_t)SIDE_READY;
		return v;
	}
	if (off == R_MIRRDBSTAT)
		return ntb_reg(ntb_peer(s), R_DBSTAT);
	return off < REGS_END ? ntb_reg(s, off) : 0;
}

static void peer_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask);

static void reg_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	uint32_t *r, was;

	if (off >= R_SPAD && off < R_SPAD_END) {
		r = &s->link->spad[(off - R_SPAD) / 4];
		if (!s->silent)
			*r = (*r & ~mask) | v;
		return;
	}
	if (off >= R_PEER && off < R_PEER_END) {
		peer_store(s, off - R_PEER + R_SHARED, v, mask);
		return;
	}
	if (off >= REGS_END)
		return;
	r = &s->regs[off / 4];
	was = *r;
	switch (off) {
	case R_SIDEINFO:
		mask &= SIDE_READY;
		*r = (was & ~mask) | (v & mask);
		if (*r != was)
			dbg("%s: driver %s", s->name, side_ready(s) ? "ready" : "gone");
		break;
	case R_DBREQ:
		ntb_ring(s, v & DB_ALL);
		break;
	case R_DBMASK:
		*r = ((was & ~mask) | v) & DB_ALL;
		fire_doorbells(s, was & ~*r & ntb_reg(s, R_DBSTAT));
		break;
	case R_INTMASK:
		*r = (was & ~mask) | v;
		fire_events(s, was & ~*r & ntb_reg(s, R_INTSTAT) & EV_ALL);
		break;
	case R_DBSTAT:
	case R_INTSTAT:
		*r = was & ~v;
		break;
	case R_SMUACK:
		/* The driver acknowledges an event; the register reads 0. */
		if (s->told && v & EV_LINK_UP)
			s->acked = true;
		break;
	case R_MIRRDBSTAT:
		break;
	default:
		*r = (was & ~mask) | v;
	}
}

/*
 * Translation and limit registers answer even when the link is down, because they are in
 * the bridge and not in the other host: a driver that closes its window must be able to.
 */
static void peer_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	if (off == R_DBREQ || off == R_SMUACK || (off == R_SIDEINFO && !link_shown(s->link)))
		return;
	reg_store(ntb_peer(s), off, v, mask);
}

static void amd_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	reg_store(s, off, v, mask);
	configured(s, off);
}

/* A limit of 0 closes the window. */
static void amd_window(struct ntb_side *s, enum ntb_window w, uint64_t off, uint64_t *addr,
		       uint64_t *open)
{
	uint64_t limit = ntb_reg64(s, R_BAR23LMT + 8 * w);

	*open = limit > off ? limit - off : 0;
	*addr = ntb_reg64(s, R_BAR23XLAT + 8 * w) + off;
}

static uint32_t *amd_spad(struct ntb_link *l, unsigned int n)
{
	return n < NTB_SPADS ? &l->spad[n] : NULL;
}

/* No event for a side that was never told of the link, or has no driver any more. */
static void amd_link(struct ntb_side *s, bool up)
{
	if (up) {
		settle(s);
		return;
	}
	timer_del(&s->settle);
	if (s->told && side_ready(s))
		link_event(s, EV_LINK_DOWN);
	s->told = false;
	s->acked = false;
}

/*
 * The peer's translations lead to memory of this host and were set by its driver, so they
 * are closed as well: after a reset both drivers must set up their windows again.
 */
static void amd_reset(struct ntb_side *s)
{
	struct ntb_side *peer = ntb_peer(s);

	s->settle.fn = settled;
	s->regs[R_SIDEINFO / 4] = s->idx ? SIDE_SECONDARY : 0;
	s->regs[R_DBMASK / 4] = DB_ALL;
	s->regs[R_INTMASK / 4] = EV_ALL;
	memset(&peer->regs[R_BAR23LMT / 4], 0, 16);
	memset(&peer->regs[R_BAR23XLAT / 4], 0, 16);
	/* The scratchpads are the primary's. */
	if (!s->idx)
		memset(s->link->spad, 0, sizeof(s->link->spad));
}

static void amd_config(struct ntb_side *s)
{
	pci_set_id(s, 0x1022, amd_device_id);
	put32(s->cfg + PCI_BAR0, 0);
}

const struct ntb_family amd_family = {
	.name = "amd",
	.bar0_size = 0x4000,
	.msix_table = 0x2000,
	.msix_pba = 0x3000,
	.vectors = VECTORS,
	.config = amd_config,
	.reset = amd_reset,
	.load = amd_load,
	.store = amd_store,
	.window = amd_window,
	.rung = amd_rung,
	.spad = amd_spad,
	.link = amd_link,
	.ready = amd_ready,
	.driven = side_ready,
};
