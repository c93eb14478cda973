// SPDX-License-Identifier: GPL-2.0
/*
 * Windows, doorbells and link state of the emulated NTB, whatever its family.  Knows nothing of the
 * vfio-user protocol.
 */
#include "ntb.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "util.h"

/* How long the link needs to come up again after a reset, as training would. */
#define TRAIN_MS 100

const struct ntb_family *ntb_family_named(const char *name)
{
	const struct ntb_family *f;

	if (!strcmp(name, amd_family.name))
		return &amd_family;
	if (!strcmp(name, switchtec_family.name))
		return &switchtec_family;
	for (f = intel_families; f->name; f++)
		if (!strcmp(name, f->name))
			return f;
	return NULL;
}

/* ---- interrupts ---- */

static bool msix_on(const struct ntb_side *s)
{
	unsigned int i;

	for (i = 0; i < NTB_VECTORS_MAX; i++)
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
	uint64_t one = 1, bit = 1ull << vec;

	if (s->irqfd[vec] < 0 || s->irq_masked & bit) {
		if (msix_on(s))
			s->irq_pending |= bit;
		return;
	}
	s->irq_pending &= ~bit;
	if (write(s->irqfd[vec], &one, sizeof(one)) == sizeof(one))
		s->n.irqs++;
}

void ntb_irqs(struct ntb_side *s, uint64_t bits, const uint8_t *vector)
{
	for (; bits; bits >>= 1, vector++)
		if (bits & 1 && *vector < s->link->family->vectors)
			ntb_irq(s, *vector);
}

/* ---- doorbells ---- */

struct late_doorbell {
	struct timer timer;
	struct ntb_side *from;
	uint64_t bits;
};

bool ntb_dead(struct ntb_side *s)
{
	return s->silent || ntb_peer(s)->silent;
}

static void doorbell_latch(void *arg, uint64_t bits)
{
	struct ntb_side *from = arg;

	if (!from->link->up || ntb_dead(from)) {
		from->n.doorbells_lost++;
		return;
	}
	from->link->family->rung(ntb_peer(from), bits);
}

/* Nobody may see its interrupt or its bit before what the ringer wrote earlier. */
static void doorbell_arrives(struct ntb_side *from, uint64_t bits)
{
	dma_after(&ntb_peer(from)->dma, doorbell_latch, from, bits);
}

static void late_doorbell(struct timer *t)
{
	struct late_doorbell *d = container_of(t, struct late_doorbell, timer);

	doorbell_arrives(d->from, d->bits);
	free(d);
}

void ntb_ring(struct ntb_side *s, uint64_t bits)
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
	unsigned int i, shift = s->link->family->doorbell_shift[!s->idx];

	for (i = 0; i < s->flood_rings; i++)
		ntb_ring(s, 3ull << shift);
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

uint32_t ntb_spad_seen(const struct ntb_side *s, unsigned int n, uint32_t v)
{
	return s->spad_lies & BIT(n) ? s->spad_lie[n] : v;
}

void ntb_reg_read(struct ntb_side *s, uint32_t off, void *buf, unsigned int len)
{
	uint8_t *to = buf;

	s->n.reg_reads++;
	for (; len; len--, off++)
		*to++ = s->link->family->load(s, off & ~3u) >> 8 * (off & 3);
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
		s->link->family->store(s, word, v, mask);
	}
}

/* ---- windows ---- */

static bool reachable(struct ntb_side *s, enum ntb_window w, uint64_t off, size_t len,
		      bool force, uint64_t *addr)
{
	uint64_t open = 0;

	if (force || (s->link->up && !ntb_dead(s)))
		s->link->family->window(s, w, off, addr, &open);
	if (open > s->link->bar_size[w] - off)
		open = s->link->bar_size[w] - off;
	if (len <= open)
		return true;
	/* Limit the log: a peer that writes into a closed window may do so often. */
	if (s->n.dropped++ < 20)
		dbg("%s: access to window %d offset 0x%llx leads nowhere", s->name, w,
		    (unsigned long long)off);
	return false;
}

uint64_t ntb_window_to(struct ntb_side *s, enum ntb_window w, uint64_t off)
{
	uint64_t addr = 0, open = 0;

	s->link->family->window(s, w, off, &addr, &open);
	return open ? addr : 0;
}

void ntb_window_read(struct ntb_side *s, enum ntb_window w, uint64_t off, size_t len,
		     bool force, dma_fn fn, void *arg)
{
	uint8_t ones[DMA_MAX_LEN];
	uint64_t addr;

	if (!force)
		late_push(s);
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

void ntb_window_push(struct ntb_side *s, enum ntb_window w, uint64_t off, const void *data,
		     size_t len, bool force)
{
	uint64_t addr;

	if (reachable(s, w, off, len, force, &addr))
		dma_write(&ntb_peer(s)->dma, addr, data, len);
}

void ntb_window_write(struct ntb_side *s, enum ntb_window w, uint64_t off, const void *data,
		      size_t len, bool force)
{
	if (!force && muted(s, w, off, len))
		s->n.dropped++;
	else if (force || !late_takes(s, w, off, data, len))
		ntb_window_push(s, w, off, data, len, force);
}

/* ---- link ---- */

bool ntb_ready(const struct ntb_link *l)
{
	return l->up && (!l->family->ready || l->family->ready(l));
}

static bool side_can_train(const struct ntb_side *s)
{
	const struct ntb_family *f = s->link->family;

	return s->vfu.fd >= 0 && (!f->wants_link || f->wants_link(s));
}

static bool can_train(const struct ntb_link *l)
{
	return !l->cut && side_can_train(&l->side[0]) && side_can_train(&l->side[1]);
}

static void link_set(struct ntb_link *l, bool up)
{
	int i;

	if (l->up == up)
		return;
	l->up = up;
	dbg("%s: link %s", l->name, up ? "up" : "down");
	for (i = 0; i < 2; i++)
		l->family->link(&l->side[i], up);
}

static void trained(struct timer *t)
{
	link_set(container_of(t, struct ntb_link, train), true);
}

void ntb_retrain(struct ntb_link *l)
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
	ntb_retrain(l);
}

static void reset_regs(struct ntb_side *s)
{
	memset(s->regs, 0, sizeof(s->regs));
	s->irq_pending = 0;
	s->link->family->reset(s);
}

void ntb_reset(struct ntb_side *s)
{
	link_set(s->link, false);
	reset_regs(s);
	pci_init(s);
	s->dma.master = false;
	dma_drop_held(&s->dma);
	late_drop(s);
	ntb_retrain(s->link);
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
	for (i = 0; i < NTB_VECTORS_MAX; i++)
		s->irqfd[i] = -1;
	s->vfu.fd = -1;
	s->vfu.listen_fd = -1;
	dma_init(&s->dma, &s->vfu, s->name);
	pci_init(s);
}

int ntb_open(struct ntb_link *l)
{
	int i, err;

	l->train.fn = trained;
	if (l->family->open)
		l->family->open(l);
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
	free(l->own);
}

void ntb_idle(struct ntb_link *l)
{
	vfu_drain(&l->side[0].vfu);
	vfu_drain(&l->side[1].vfu);
}
