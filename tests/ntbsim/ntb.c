// SPDX-License-Identifier: GPL-2.0
/*
 * Registers, windows, doorbells and link state of the emulated NTB.  Knows nothing of the
 * vfio-user protocol.
 */
#include "ntb.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

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
};

/* How long the link needs to come up again after a reset, as training would. */
#define TRAIN_MS 100

unsigned int ntb_link_delay_ms = 300;

static uint32_t reg(const struct ntb_side *s, uint32_t off)
{
	return s->regs[off / 4];
}

static uint64_t reg64(const struct ntb_side *s, uint32_t off)
{
	return reg(s, off) | (uint64_t)reg(s, off + 4) << 32;
}

static bool side_ready(const struct ntb_side *s)
{
	return reg(s, R_SIDEINFO) & SIDE_READY;
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

bool ntb_ready(const struct ntb_link *l)
{
	return link_shown(l) && side_ready(&l->side[0]) && side_ready(&l->side[1]);
}

/* ---- interrupts ---- */

static bool msix_on(const struct ntb_side *s)
{
	unsigned int i;

	for (i = 0; i < NTB_VECTORS; i++)
		if (s->irqfd[i] >= 0)
			return true;
	return false;
}

/*
 * QEMU emulates the MSI-X table, masks included.  A vector that has no eventfd yet while
 * others have is one that the host is just setting up: its interrupt is kept.
 */
void ntb_irq(struct ntb_side *s, unsigned int vec)
{
	uint64_t one = 1;

	if (s->irqfd[vec] < 0 || s->irq_masked & BIT(vec)) {
		if (msix_on(s))
			s->irq_pending |= BIT(vec);
		return;
	}
	s->irq_pending &= ~BIT(vec);
	if (write(s->irqfd[vec], &one, sizeof(one)) == sizeof(one))
		s->n.irqs++;
}

static void fire_doorbells(struct ntb_side *s, uint32_t bits)
{
	unsigned int i;

	for (i = 0; i < NTB_DOORBELLS; i++)
		if (bits & BIT(i))
			ntb_irq(s, i);
}

static void fire_events(struct ntb_side *s, uint32_t bits)
{
	unsigned int i;

	for (i = 0; NTB_DOORBELLS + i < NTB_VECTORS; i++)
		if (bits & BIT(i))
			ntb_irq(s, NTB_DOORBELLS + i);
}

/*
 * The driver understands one link event at a time (its switch compares the whole status),
 * and only the newest is true.
 */
static void link_event(struct ntb_side *s, uint32_t event)
{
	uint32_t *stat = &s->regs[R_INTSTAT / 4];

	*stat = (*stat & ~(uint32_t)(EV_LINK_UP | EV_LINK_DOWN)) | event;
	fire_events(s, event & ~reg(s, R_INTMASK));
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

/* ---- doorbells ---- */

struct late_doorbell {
	struct timer timer;
	struct ntb_side *from;
	uint32_t bits;
};

static bool dead(struct ntb_side *s)
{
	return s->silent || ntb_peer(s)->silent;
}

static void doorbell_latch(void *arg, uint32_t bits)
{
	struct ntb_side *from = arg, *to = ntb_peer(from);

	if (!from->link->up || dead(from)) {
		from->n.doorbells_lost++;
		return;
	}
	to->regs[R_DBSTAT / 4] |= bits;
	/* A bit that is set already fires again: better twice than never. */
	fire_doorbells(to, bits & ~reg(to, R_DBMASK));
}

/* Nobody may see its interrupt or its bit before what the ringer wrote earlier. */
static void doorbell_arrives(struct ntb_side *from, uint32_t bits)
{
	dma_after(&ntb_peer(from)->dma, doorbell_latch, from, bits);
}

static void late_doorbell(struct timer *t)
{
	struct late_doorbell *d = container_of(t, struct late_doorbell, timer);

	doorbell_arrives(d->from, d->bits);
	free(d);
}

static void doorbell_ring(struct ntb_side *s, uint32_t bits)
{
	struct late_doorbell *d;

	if (!bits)
		return;
	s->n.doorbells++;
	if (s->db_drop) {
		s->db_drop--;
		s->n.doorbells_lost++;
	} else if (s->db_delay_ms) {
		d = xalloc(sizeof(*d));
		*d = (struct late_doorbell){ { .fn = late_doorbell }, s, bits };
		timer_set(&d->timer, s->db_delay_ms);
	} else {
		doorbell_arrives(s, bits);
	}
}

static void flood(struct timer *t)
{
	struct ntb_side *s = container_of(t, struct ntb_side, flood);
	unsigned int i;

	for (i = 0; i < s->flood_rings; i++)
		doorbell_ring(s, BIT(0) | BIT(1));
	timer_set(t, 1);
}

void ntb_flood(struct ntb_side *s, unsigned int rings)
{
	timer_del(&s->flood);
	s->flood.fn = flood;
	s->flood_rings = rings;
	if (rings)
		timer_set(&s->flood, 1);
}

/* ---- registers ---- */

static uint32_t spad_load(const struct ntb_side *s, unsigned int n)
{
	return s->spad_lies & BIT(n) ? s->spad_lie[n] : s->link->spad[n];
}

static uint32_t reg_load(struct ntb_side *s, uint32_t off)
{
	struct ntb_link *l = s->link;
	uint32_t v;

	if (off >= R_SPAD && off < R_SPAD_END)
		return spad_load(s, (off - R_SPAD) / 4);
	if (off >= R_PEER && off < R_PEER_END) {
		v = reg_load(ntb_peer(s), off - R_PEER + R_SHARED);
		/* No READY shows over a link that is down, or unknown to a driver. */
		if (off - R_PEER + R_SHARED == R_SIDEINFO && !link_shown(l))
			v &= ~(uint32_t)SIDE_READY;
		return v;
	}
	if (off == R_MIRRDBSTAT)
		return reg(ntb_peer(s), R_DBSTAT);
	return off < sizeof(s->regs) ? reg(s, off) : 0;
}

static void peer_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask);

/* @mask: the bits of the register that the access covers. */
static void reg_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	uint32_t *r, was;

	v &= mask;
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
	if (off >= sizeof(s->regs))
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
		doorbell_ring(s, v & DB_ALL);
		break;
	case R_DBMASK:
		*r = ((was & ~mask) | v) & DB_ALL;
		fire_doorbells(s, was & ~*r & reg(s, R_DBSTAT));
		break;
	case R_INTMASK:
		*r = (was & ~mask) | v;
		fire_events(s, was & ~*r & reg(s, R_INTSTAT) & EV_ALL);
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

void ntb_reg_read(struct ntb_side *s, uint32_t off, void *buf, unsigned int len)
{
	uint8_t *to = buf;

	s->n.reg_reads++;
	for (; len; len--, off++)
		*to++ = reg_load(s, off & ~3u) >> 8 * (off & 3);
}

void ntb_reg_write(struct ntb_side *s, uint32_t off, const void *buf, unsigned int len)
{
	const uint8_t *from = buf;

	s->n.reg_writes++;
	while (len) {
		uint32_t word = off & ~3u, v = 0, mask = 0;

		for (; len && (off & ~3u) == word; len--, off++) {
			v |= (uint32_t)*from++ << 8 * (off & 3);
			mask |= 0xffu << 8 * (off & 3);
		}
		reg_store(s, word, v, mask);
		configured(s, word);
	}
}

/* ---- windows ---- */

/*
 * The translation stands in the registers of the side that makes the access; the other
 * side's driver wrote it there.  A limit of 0 closes the window.
 */
static bool translate(struct ntb_side *s, enum ntb_window w, uint64_t off, size_t len,
		      uint64_t *addr)
{
	uint64_t limit = reg64(s, R_BAR23LMT + 8 * w);

	if (limit > s->link->bar_size[w])
		limit = s->link->bar_size[w];
	if (off >= limit || len > limit - off)
		return false;
	*addr = reg64(s, R_BAR23XLAT + 8 * w) + off;
	return true;
}

static bool reachable(struct ntb_side *s, enum ntb_window w, uint64_t off, size_t len,
		      bool force, uint64_t *addr)
{
	if ((force || (s->link->up && !dead(s))) && translate(s, w, off, len, addr))
		return true;
	/* Limit the log: a peer that writes into a closed window may do so often. */
	if (s->n.dropped++ < 20)
		dbg("%s: access to window %d offset 0x%llx leads nowhere", s->name, w,
		    (unsigned long long)off);
	return false;
}

void ntb_window_read(struct ntb_side *s, enum ntb_window w, uint64_t off, size_t len,
		     bool force, dma_fn fn, void *arg)
{
	uint8_t ones[DMA_MAX_LEN];
	uint64_t addr;

	if (!reachable(s, w, off, len, force, &addr)) {
		memset(ones, 0xff, len);
		fn(arg, ENOLINK, ones, len);
		return;
	}
	dma_read(&ntb_peer(s)->dma, addr, len, fn, arg);
}

static bool muted(const struct ntb_side *s, enum ntb_window w, uint64_t off, size_t len)
{
	return w == s->mute_window && off < s->mute_off + s->mute_len && s->mute_off < off + len;
}

void ntb_window_write(struct ntb_side *s, enum ntb_window w, uint64_t off, const void *data,
		      size_t len, bool force)
{
	uint64_t addr;

	if (!force && muted(s, w, off, len))
		s->n.dropped++;
	else if (reachable(s, w, off, len, force, &addr))
		dma_write(&ntb_peer(s)->dma, addr, data, len);
}

/* ---- link ---- */

static bool can_train(const struct ntb_link *l)
{
	return !l->cut && l->side[0].vfu.fd >= 0 && l->side[1].vfu.fd >= 0;
}

/* No event for a side that was never told of the link, or has no driver any more. */
static void link_lost(struct ntb_side *s)
{
	timer_del(&s->settle);
	if (s->told && side_ready(s))
		link_event(s, EV_LINK_DOWN);
	s->told = false;
	s->acked = false;
}

static void link_set(struct ntb_link *l, bool up)
{
	int i;

	if (l->up == up)
		return;
	l->up = up;
	dbg("%s: link %s", l->name, up ? "up" : "down");
	for (i = 0; i < 2; i++)
		if (up)
			settle(&l->side[i]);
		else
			link_lost(&l->side[i]);
}

static void trained(struct timer *t)
{
	link_set(container_of(t, struct ntb_link, train), true);
}

static void retrain(struct ntb_link *l)
{
	timer_del(&l->train);
	link_set(l, false);
	if (can_train(l))
		timer_set(&l->train, TRAIN_MS);
}

void ntb_cut(struct ntb_link *l, bool cut)
{
	if (l->cut == cut)
		return;
	l->cut = cut;
	retrain(l);
}

/*
 * The peer's translations lead to memory of this host and were set by its driver, so they
 * are closed as well: after a reset both drivers must set up their windows again.
 */
static void reset_regs(struct ntb_side *s)
{
	struct ntb_side *peer = ntb_peer(s);

	memset(s->regs, 0, sizeof(s->regs));
	s->regs[R_SIDEINFO / 4] = s->idx ? SIDE_SECONDARY : 0;
	s->regs[R_DBMASK / 4] = DB_ALL;
	s->regs[R_INTMASK / 4] = EV_ALL;
	s->irq_pending = 0;
	memset(&peer->regs[R_BAR23LMT / 4], 0, 16);
	memset(&peer->regs[R_BAR23XLAT / 4], 0, 16);
	/* The scratchpads are the primary's. */
	if (!s->idx)
		memset(s->link->spad, 0, sizeof(s->link->spad));
}

void ntb_reset(struct ntb_side *s)
{
	link_set(s->link, false);
	reset_regs(s);
	pci_init(s);
	s->dma.master = false;
	dma_drop_held(&s->dma);
	retrain(s->link);
}

static void side_init(struct ntb_link *l, int idx)
{
	struct ntb_side *s = &l->side[idx];
	unsigned int i;
	size_t n;

	s->link = l;
	s->idx = idx;
	n = strlen(l->name);
	memcpy(s->name, l->name, n);
	memcpy(s->name + n, idx ? ".b" : ".a", 3);
	for (i = 0; i < NTB_VECTORS; i++)
		s->irqfd[i] = -1;
	s->vfu.fd = -1;
	s->vfu.listen_fd = -1;
	s->settle.fn = settled;
	dma_init(&s->dma, &s->vfu, s->name);
	pci_init(s);
}

int ntb_open(struct ntb_link *l)
{
	int i, err;

	l->train.fn = trained;
	for (i = 0; i < 2; i++)
		side_init(l, i);
	for (i = 0; i < 2; i++) {
		reset_regs(&l->side[i]);
		err = vfu_open(&l->side[i].vfu, l->side[i].path, &device_ops);
		if (err)
			return err;
	}
	return 0;
}

void ntb_close(struct ntb_link *l)
{
	vfu_close(&l->side[0].vfu);
	vfu_close(&l->side[1].vfu);
}

void ntb_idle(struct ntb_link *l)
{
	vfu_drain(&l->side[0].vfu);
	vfu_drain(&l->side[1].vfu);
}
