// SPDX-License-Identifier: GPL-2.0
/*
 * The event loop.  Everything in ntbsim happens in a callback of this loop, so a callback
 * must never block: QEMU waits for our answers with its big lock held.
 */
#include "loop.h"

#include <errno.h>
#include <signal.h>

#include "util.h"

#define MAX_WATCHES 256

static struct pollfd fds[MAX_WATCHES];
static struct watch {
	watch_fn fn;
	void *arg;
} watches[MAX_WATCHES];
static unsigned int nwatches;

static struct timer *timers;		/* by time */
static volatile sig_atomic_t stop;

static int find(int fd)
{
	unsigned int i;

	for (i = 0; i < nwatches; i++)
		if (fds[i].fd == fd)
			return i;
	return -1;
}

void watch_add(int fd, watch_fn fn, void *arg)
{
	if (nwatches == MAX_WATCHES)
		die("too many connections");
	fds[nwatches] = (struct pollfd){ .fd = fd, .events = POLLIN };
	watches[nwatches++] = (struct watch){ fn, arg };
}

static void watch_events(int fd, short event, bool on)
{
	int i = find(fd);

	if (i < 0)
		return;
	if (on)
		fds[i].events |= event;
	else
		fds[i].events &= ~event;
}

void watch_out(int fd, bool on)
{
	watch_events(fd, POLLOUT, on);
}

void watch_in(int fd, bool on)
{
	watch_events(fd, POLLIN, on);
}

/* Only marked here, because a round of callbacks may be walking the table. */
void watch_del(int fd)
{
	int i = find(fd);

	if (i >= 0) {
		fds[i].fd = -1;
		fds[i].revents = 0;
	}
}

static void compact(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < nwatches; i++) {
		if (fds[i].fd < 0)
			continue;
		fds[n] = fds[i];
		watches[n++] = watches[i];
	}
	nwatches = n;
}

void timer_set(struct timer *t, unsigned int ms)
{
	struct timer **p;

	timer_del(t);
	t->when = now_ms() + ms;
	t->armed = true;
	for (p = &timers; *p && (*p)->when <= t->when; p = &(*p)->next)
		;
	t->next = *p;
	*p = t;
}

void timer_del(struct timer *t)
{
	struct timer **p;

	if (!t->armed)
		return;
	t->armed = false;
	for (p = &timers; *p != t; p = &(*p)->next)
		;
	*p = t->next;
}

static int timers_wait_ms(void)
{
	uint64_t now = now_ms();

	if (!timers)
		return -1;
	return timers->when > now ? (int)(timers->when - now) : 0;
}

static void timers_run(void)
{
	uint64_t now = now_ms();

	while (timers && timers->when <= now) {
		struct timer *t = timers;

		timer_del(t);
		t->fn(t);
	}
}

/* Watches added by a callback wait for the next round: their revents are unset. */
static void watches_run(void)
{
	unsigned int i, n = nwatches;

	for (i = 0; i < n; i++)
		if (fds[i].fd >= 0 && fds[i].revents)
			watches[i].fn(watches[i].arg, fds[i].revents);
}

void loop_run(void (*idle)(void))
{
	sigset_t none;

	/* main() blocks the signals that stop us; they arrive in ppoll() alone. */
	sigemptyset(&none);
	while (!stop) {
		int ms = timers_wait_ms();
		struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };
		int n = ppoll(fds, nwatches, ms < 0 ? NULL : &ts, &none);

		if (n < 0 && errno != EINTR)
			die("poll: %s", strerror(errno));
		if (n > 0)
			watches_run();
		timers_run();
		idle();
		compact();
	}
}

void loop_stop(void)
{
	stop = 1;
}
