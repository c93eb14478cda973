// SPDX-License-Identifier: GPL-2.0
/*
 * DMA by the NTB function.  Messages to one QEMU are handled by it in the order in which they were
 * sent.  An access that is no message (a write to RAM, a doorbell) is held back while a DMA_WRITE
 * is under way, and then so is everything behind it.  A read of RAM is answered at once, from RAM
 * and from the writes that have not arrived yet: if it waited, two hosts could wait for each
 * other's big lock (see README.md, "Ordering").
 */
#include "dma.h"

#include <errno.h>
#include <stdlib.h>

#include "loop.h"
#include "util.h"

#define MAX_INFLIGHT 4096u
#define MAX_HELD 65536u

unsigned int dma_write_timeout_ms = 20000;

enum dma_kind { DMA_READ, DMA_WRITE, DMA_CALL };

struct dma {
	struct dma_port *port;
	enum dma_kind kind;
	bool held;
	uint16_t id;
	uint64_t addr;
	size_t len;
	uint64_t deadline;
	struct timer timeout;
	dma_fn fn;		/* DMA_READ */
	dma_call_fn call;	/* DMA_CALL */
	void *arg;
	uint64_t value;
	struct dma *next;
	uint8_t data[];		/* DMA_WRITE */
};

void dma_init(struct dma_port *p, struct vfu *v, const char *name)
{
	p->vfu = v;
	p->name = name;
	p->inflight.end = &p->inflight.head;
	p->held.end = &p->held.head;
}

static void fail_read(dma_fn fn, void *arg, int err, size_t len)
{
	uint8_t ones[DMA_MAX_LEN];

	if (!fn)
		return;
	memset(ones, 0xff, len);
	fn(arg, err, ones, len);
}

static void fault(struct dma_port *p, uint64_t addr, size_t len, bool write, const char *why)
{
	p->last_fault = addr;
	/* Limit the log: a peer that misbehaves may do so often. */
	if (p->faults++ < 100 || p->faults % 1000 == 0)
		say("dma fault %s %s 0x%llx+%zu: %s", p->name, write ? "write" : "read",
		    (unsigned long long)addr, len, why);
}

/* ---- lists ---- */

static void list_add(struct dma_list *l, struct dma *d)
{
	d->next = NULL;
	*l->end = d;
	l->end = &d->next;
	l->count++;
}

static struct dma *list_cut(struct dma_list *l, struct dma **pos)
{
	struct dma *d = *pos;

	*pos = d->next;
	if (!d->next)
		l->end = pos;
	l->count--;
	return d;
}

static struct dma **find_id(struct dma_port *p, uint16_t id)
{
	struct dma **pos;

	for (pos = &p->inflight.head; *pos && (*pos)->id != id; pos = &(*pos)->next)
		;
	return pos;
}

static struct dma *cut_inflight(struct dma_port *p, struct dma **pos)
{
	struct dma *d = list_cut(&p->inflight, pos);

	if (d->kind == DMA_WRITE)
		p->writes_inflight--;
	timer_del(&d->timeout);
	return d;
}

static struct dma *cut_held(struct dma_port *p, struct dma **pos)
{
	struct dma *d = list_cut(&p->held, pos);

	d->held = false;
	timer_del(&d->timeout);
	return d;
}

/* ---- one after the other ---- */

static bool idle(const struct dma_port *p)
{
	return !p->writes_inflight && !p->held.head;
}

static void release(struct dma_port *p);

static void timed_out(struct timer *t)
{
	struct dma *d = container_of(t, struct dma, timeout);
	struct dma_port *p = d->port;
	struct dma **pos;

	if (d->held) {
		for (pos = &p->held.head; *pos != d; pos = &(*pos)->next)
			;
		cut_held(p, pos);
	} else {
		cut_inflight(p, find_id(p, d->id));
	}
	p->timeouts++;
	say("dma timeout %s %s 0x%llx+%zu", p->name, d->kind == DMA_WRITE ? "write" : "read",
	    (unsigned long long)d->addr, d->len);
	if (d->kind == DMA_READ)
		fail_read(d->fn, d->arg, ETIMEDOUT, d->len);
	free(d);
	release(p);
}

static struct dma *new_dma(struct dma_port *p, enum dma_kind kind, uint64_t addr,
			   const void *data, size_t len)
{
	struct dma *d = xalloc(sizeof(*d) + (kind == DMA_WRITE ? len : 0));

	d->port = p;
	d->kind = kind;
	d->addr = addr;
	d->len = len;
	d->timeout.fn = timed_out;
	/* The time counts from the request: a reader that is held back waits no longer. */
	d->deadline = now_ms() +
		(kind == DMA_READ ? DMA_READ_TIMEOUT_MS : dma_write_timeout_ms);
	if (kind == DMA_WRITE)
		memcpy(d->data, data, len);
	return d;
}

static void arm(struct dma *d)
{
	uint64_t now = now_ms();

	timer_set(&d->timeout, d->deadline > now ? d->deadline - now : 0);
}

static void send_dma(struct dma_port *p, struct dma *d)
{
	bool write = d->kind == DMA_WRITE;
	struct vu_dma_rw rw = { .addr = d->addr, .count = d->len };
	struct vu_hdr h = { .cmd = write ? VU_DMA_WRITE : VU_DMA_READ };

	do
		h.id = p->next_id++;
	while (*find_id(p, h.id));
	d->id = h.id;
	list_add(&p->inflight, d);
	p->writes_inflight += write;
	p->msg_reads += !write;
	arm(d);
	/* A write wants a reply, too: it tells of a fault, and that the write has arrived. */
	vfu_send(p->vfu, &h, &rw, sizeof(rw), d->data, write ? d->len : 0);
}

static enum mem_result reach(struct dma_port *p, const struct dma *d)
{
	if (!p->master)
		return MEM_DENIED;
	return mem_probe(&p->mem, d->addr, d->len,
			 d->kind == DMA_WRITE ? MEM_WRITE : MEM_READ);
}

static bool by_message(enum mem_result r)
{
	return r == MEM_NOT_RAM || r == MEM_UNMAPPED;
}

/* Messages keep their order by themselves; the rest would overtake those under way. */
static bool may_go(struct dma_port *p, const struct dma *d)
{
	if (d->kind != DMA_CALL && by_message(reach(p, d)))
		return p->inflight.count < MAX_INFLIGHT;
	return !p->writes_inflight;
}

/* Return: whether it was done here; otherwise it has to be sent. */
static bool write_here(struct dma_port *p, uint64_t addr, const void *data, size_t len)
{
	enum mem_result r = MEM_DENIED;

	if (p->master)
		r = mem_write(&p->mem, addr, data, len);
	p->ram_writes += r == MEM_OK;
	p->unmapped_writes += r == MEM_UNMAPPED;
	p->not_ram_writes += r == MEM_NOT_RAM;
	if (r == MEM_DENIED)
		fault(p, addr, len, true, p->master ? "read-only" : "no bus master");
	return !by_message(r);
}

/* Copy the part of @d's data that falls into [addr, addr + len). */
static void lay_over(const struct dma *d, uint64_t addr, uint8_t *buf, size_t len)
{
	uint64_t from = d->addr > addr ? d->addr : addr;
	uint64_t d_last = d->addr + (d->len - 1), last = addr + (len - 1);

	if (d->kind != DMA_WRITE || d_last < from || last < from)
		return;
	if (d_last < last)
		last = d_last;
	memcpy(buf + (from - addr), d->data + (from - d->addr), last - from + 1);
}

/* Read RAM as it will be when all writes so far have arrived. */
static enum mem_result read_ram(struct dma_port *p, uint64_t addr, uint8_t *buf, size_t len,
				bool queued)
{
	enum mem_result r = mem_read(&p->mem, addr, buf, len);
	const struct dma *d;

	if (r != MEM_OK || idle(p))
		return r;
	for (d = p->inflight.head; d; d = d->next)
		lay_over(d, addr, buf, len);
	for (d = queued ? p->held.head : NULL; d; d = d->next)
		lay_over(d, addr, buf, len);
	return r;
}

/* Return: whether it was answered; otherwise it has to be sent. */
static bool read_here(struct dma_port *p, uint64_t addr, size_t len, dma_fn fn, void *arg,
		      bool queued)
{
	enum mem_result r = MEM_DENIED;
	uint8_t buf[DMA_MAX_LEN];

	if (p->master)
		r = read_ram(p, addr, buf, len, queued);
	if (r == MEM_OK && fn)
		fn(arg, 0, buf, len);
	if (r == MEM_DENIED) {
		fault(p, addr, len, false, p->master ? "not readable" : "no bus master");
		fail_read(fn, arg, EPERM, len);
	}
	return !by_message(r);
}

static void go(struct dma_port *p, struct dma *d)
{
	bool done = true;

	if (d->kind == DMA_CALL)
		d->call(d->arg, d->value);
	else if (d->kind == DMA_WRITE)
		done = write_here(p, d->addr, d->data, d->len);
	else
		done = read_here(p, d->addr, d->len, d->fn, d->arg, false);
	if (done)
		free(d);
	else
		send_dma(p, d);
}

/* No callback of ours comes back here, so this is not entered twice. */
static void release(struct dma_port *p)
{
	while (p->held.head && may_go(p, p->held.head))
		go(p, cut_held(p, &p->held.head));
}

/* Return: false when that QEMU is so far behind that @d must be given up. */
static bool hold(struct dma_port *p, struct dma *d)
{
	if (p->held.count >= MAX_HELD) {
		if (p->timeouts++ % 1000 == 0)
			say("dma %s: %u accesses are held back already, more are lost", p->name,
			    p->held.count);
		free(d);
		return false;
	}
	d->held = true;
	list_add(&p->held, d);
	if (d->kind == DMA_READ)
		arm(d);
	p->held_writes += d->kind == DMA_WRITE;
	p->held_calls += d->kind == DMA_CALL;
	return true;
}

/* ---- what the rest of ntbsim calls ---- */

void dma_read(struct dma_port *p, uint64_t addr, size_t len, dma_fn fn, void *arg)
{
	struct dma *d;

	if (read_here(p, addr, len, fn, arg, true))
		return;
	d = new_dma(p, DMA_READ, addr, NULL, len);
	d->fn = fn;
	d->arg = arg;
	/* It needs that QEMU anyhow, and waits only for the writes that it would push. */
	if (!p->held.head && p->inflight.count < MAX_INFLIGHT)
		send_dma(p, d);
	else if (!hold(p, d))
		fail_read(fn, arg, EBUSY, len);
}

void dma_write(struct dma_port *p, uint64_t addr, const void *data, size_t len)
{
	struct dma *d;

	if (idle(p) && write_here(p, addr, data, len))
		return;
	d = new_dma(p, DMA_WRITE, addr, data, len);
	if (idle(p))
		send_dma(p, d);		/* write_here() has counted it */
	else if (!p->held.head && may_go(p, d))
		go(p, d);
	else
		hold(p, d);
}

void dma_after(struct dma_port *p, dma_call_fn fn, void *arg, uint64_t value)
{
	struct dma *d;

	if (idle(p)) {
		fn(arg, value);
		return;
	}
	d = new_dma(p, DMA_CALL, 0, NULL, 0);
	d->call = fn;
	d->arg = arg;
	d->value = value;
	hold(p, d);
}

static void cancel(const struct dma_list *l, const void *arg)
{
	struct dma *d;

	for (d = l->head; d; d = d->next)
		if (d->arg == arg)
			d->fn = NULL;
}

void dma_cancel(struct dma_port *p, const void *arg)
{
	cancel(&p->inflight, arg);
	cancel(&p->held, arg);
}

static void give_up(struct dma *d)
{
	if (d->kind == DMA_READ)
		fail_read(d->fn, d->arg, ENODEV, d->len);
	free(d);
}

void dma_drop_held(struct dma_port *p)
{
	while (p->held.head)
		give_up(cut_held(p, &p->held.head));
}

void dma_reset(struct dma_port *p)
{
	while (p->inflight.head)
		give_up(cut_inflight(p, &p->inflight.head));
	dma_drop_held(p);
	mem_clear(&p->mem);
	p->master = false;
}

void dma_reply(struct dma_port *p, const struct vfu_msg *m)
{
	struct dma **pos = find_id(p, m->hdr.id);
	struct dma *d;
	bool read;

	if (!*pos) {
		p->late++;
		return;
	}
	d = cut_inflight(p, pos);
	read = d->kind == DMA_READ;
	if (m->hdr.flags & VU_ERROR) {
		fault(p, d->addr, d->len, !read, strerror(m->hdr.error));
		if (read)
			fail_read(d->fn, d->arg, EFAULT, d->len);
	} else if (read && m->len < sizeof(struct vu_dma_rw) + d->len) {
		fault(p, d->addr, d->len, false, "short reply");
		fail_read(d->fn, d->arg, EPROTO, d->len);
	} else if (read && d->fn) {
		d->fn(d->arg, 0, m->body + sizeof(struct vu_dma_rw), d->len);
	}
	free(d);
	release(p);
}
