// SPDX-License-Identifier: GPL-2.0
/*
 * A device's writes take another way to the bridge than those of its host's processors, and nothing
 * orders the two: what a device has written may be under way when the peer hears, by a processor,
 * that it is there.  A read through the window pushes it.
 *
 * Nobody tells the bridge who writes, so what is late is what goes beyond an offset, or to where
 * the peer's processors take interrupts.
 */
#include "late.h"

#include <stdlib.h>

#include "ntb.h"
#include "util.h"

struct late_write {
	struct late_write *next;
	unsigned int w;
	uint64_t off;
	size_t len;
	uint8_t data[];
};

static void late_over(struct timer *t)
{
	late_push(container_of(t, struct ntb_side, late.timer));
}

void late_set(struct ntb_side *s, unsigned int ms, uint64_t from, bool interrupts)
{
	late_push(s);
	s->late.ms = ms;
	s->late.from = from;
	s->late.interrupts = interrupts;
}

static bool late_concerns(struct ntb_side *s, unsigned int w, uint64_t off)
{
	bool interrupt = ntb_window_to(s, w, off) >> 20 == 0xfee;

	return s->late.interrupts ? interrupt : !interrupt && off >= s->late.from;
}

bool late_takes(struct ntb_side *s, unsigned int w, uint64_t off, const void *data, size_t len)
{
	struct late *l = &s->late;
	struct late_write *d;

	if (!l->ms || !late_concerns(s, w, off))
		return false;
	d = xalloc(sizeof(*d) + len);
	d->w = w;
	d->off = off;
	d->len = len;
	memcpy(d->data, data, len);
	if (!l->head) {
		l->end = &l->head;
		l->timer.fn = late_over;
		timer_set(&l->timer, 1 + random() % l->ms);
	}
	*l->end = d;
	l->end = &d->next;
	s->n.late++;
	return true;
}

/* In their order, as all of them come from devices, whose way is one. */
static void late_end(struct ntb_side *s, bool arrive)
{
	struct late *l = &s->late;
	struct late_write *d;

	timer_del(&l->timer);
	while ((d = l->head)) {
		l->head = d->next;
		if (arrive)
			ntb_window_push(s, d->w, d->off, d->data, d->len, false);
		free(d);
	}
}

void late_push(struct ntb_side *s)
{
	late_end(s, true);
}

void late_drop(struct ntb_side *s)
{
	late_end(s, false);
}
