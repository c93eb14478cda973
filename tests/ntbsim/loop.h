/* SPDX-License-Identifier: GPL-2.0 */
/* One thread, one poll(): watched descriptors and one-shot timers. */
#ifndef NTBSIM_LOOP_H
#define NTBSIM_LOOP_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

typedef void (*watch_fn)(void *arg, short revents);

/* Call @fn whenever @fd is readable (or hung up). One watch per fd. */
void watch_add(int fd, watch_fn fn, void *arg);
/* @on: also call it when @fd is writable; else not any more. */
void watch_out(int fd, bool on);
/* @on: call it when @fd is readable; else not, so that the sender waits. */
void watch_in(int fd, bool on);
/* Before close(). Allowed from inside any callback. */
void watch_del(int fd);

struct timer {
	uint64_t when;		/* now_ms() clock */
	void (*fn)(struct timer *t);
	struct timer *next;
	bool armed;
};

/* (Re)arm: @t->fn is called once, @ms from now. */
void timer_set(struct timer *t, unsigned int ms);
void timer_del(struct timer *t);

/* Run until loop_stop(); @idle is called after every round of callbacks. */
void loop_run(void (*idle)(void));
void loop_stop(void);	/* async-signal-safe */

#endif
