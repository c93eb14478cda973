// SPDX-License-Identifier: GPL-2.0
/*
 * Bring-up of a link.
 *
 * Pure: time, random numbers and the peer's data are arguments; the return value says what the
 * caller has to do.  This file knows nothing of scratchpad registers, windows or users.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/stdarg.h>
#include <linux/string.h>
#include "bringup.h"

static const char dlend_bringup_no_read_back[] =
	"self-test failed: nothing came back through the window; "
	"check the peer's IOMMU, and that both firmwares give the NTB windows the same size";
static const char dlend_bringup_no_arrival[] =
	"self-test failed: the peer's pattern did not arrive; "
	"check this node's IOMMU, and that both firmwares give the NTB windows the same size";

/* Return: DLEND_DO_ERROR, or 0 if the text is the one that @b->error had before. */
__printf(2, 3)
static u32 dlend_bringup_set_error(struct dlend_bringup *b, const char *format, ...)
{
	char before[DLEND_BRINGUP_ERROR_LEN];
	va_list args;

	memcpy(before, b->error, sizeof(before));
	va_start(args, format);
	vsnprintf(b->error, sizeof(b->error), format, args);
	va_end(args);
	return strcmp(b->error, before) ? DLEND_DO_ERROR : 0;
}

const char *dlend_bringup_name(enum dlend_bringup_state state)
{
	static const char * const names[DLEND_BRINGUP_STATES] = {
		[DLEND_BRINGUP_DOWN] = "down",
		[DLEND_BRINGUP_HELLO] = "hello",
		[DLEND_BRINGUP_TEST] = "test",
		[DLEND_BRINGUP_UP] = "up",
	};

	return state < DLEND_BRINGUP_STATES ? names[state] : "unknown";
}

u32 dlend_bringup_hash(u64 nonce)
{
	return (u32)nonce ^ (u32)(nonce >> 32);
}

/* Mixes bits, so that patterns of different nonces differ. No secret depends on this. */
static u64 dlend_bringup_mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

void dlend_bringup_pattern(u64 nonce, u8 *pattern)
{
	unsigned int i;
	u64 x = nonce;

	for (i = 0; i < DLEND_TEST_SIZE; i++) {
		if (i % 8 == 0)
			x = dlend_bringup_mix(x);
		pattern[i] = x >> (8 * (i % 8));
	}
}

void dlend_bringup_start(struct dlend_bringup *b, u64 nonce)
{
	if (b->state != DLEND_BRINGUP_DOWN)
		return;
	memset_startat(b, 0, ack);
	if (!dlend_bringup_hash(nonce))
		nonce ^= 1;
	b->nonce = nonce;
	b->state = DLEND_BRINGUP_HELLO;
}

u32 dlend_bringup_link_down(struct dlend_bringup *b)
{
	if (b->state == DLEND_BRINGUP_DOWN)
		return 0;
	memset_startat(b, 0, ack);
	b->nonce = 0;
	b->state = DLEND_BRINGUP_DOWN;
	return DLEND_DO_END;
}

u32 dlend_bringup_abort(struct dlend_bringup *b, const char *why)
{
	u32 todo = dlend_bringup_link_down(b);

	return todo ? todo | dlend_bringup_set_error(b, "%s", why) : 0;
}

/* Can this node have a session with the peer of these scratchpads?  If so, note the peer's data. */
static bool dlend_bringup_understand(struct dlend_bringup *b, const u32 *spad, u32 *todo)
{
	u32 node = spad[DLEND_SPAD_NODE], theirs = spad[DLEND_SPAD_VERSION];
	bool self = node == b->node;
	int version;

	if (spad[DLEND_SPAD_MAGIC] != DLEND_PROTO_MAGIC)
		return false;
	version = dlend_version_pick(b->version, theirs);
	if (version < 0) {
		*todo |= dlend_bringup_set_error(b,
						 "node %u speaks protocol %u to %u, this node %u to %u: install the same dlend on both",
						 node & 0xffff, theirs >> 16, theirs & 0xffff,
						 b->version >> 16, b->version & 0xffff);
	} else if (!node || node > U16_MAX || self != b->loop) {
		*todo |= dlend_bringup_set_error(b,
						 "the peer has node id %u, this node %u: set a different dlend_core.node_id on each",
						 node, b->node);
	} else if (b->required && node != b->required) {
		*todo |= dlend_bringup_set_error(b,
						 "the peer says that it is node %u, this link is for node %u only: see dlend.conf(5)",
						 node, b->required);
	} else if (!spad[DLEND_SPAD_APERTURE]) {
		*todo |= dlend_bringup_set_error(b,
						 "the peer offers an aperture of 0 bytes: its NTB window is smaller than 1 MiB");
	} else {
		b->peer_node = node;
		b->peer_aperture_mib = spad[DLEND_SPAD_APERTURE];
		b->picked = version;
		return true;
	}
	return false;
}

static u64 dlend_bringup_spad_nonce(const u32 *spad)
{
	return (u64)spad[DLEND_SPAD_NONCE_HI] << 32 | spad[DLEND_SPAD_NONCE_LO];
}

/* The peer is new, or began again: acknowledge it. It waits until this node's area is cleared. */
static u32 dlend_bringup_greet(struct dlend_bringup *b, u64 nonce)
{
	b->peer_nonce = nonce;
	b->ack = dlend_bringup_hash(nonce);
	b->passed = false;
	b->complete = false;
	b->cleared = false;
	b->beat = 0;
	b->state = DLEND_BRINGUP_HELLO;
	return DLEND_DO_ACK;
}

/* Also after the test passed: its data at the peer may have been overwritten since. */
static u32 dlend_bringup_want_test(struct dlend_bringup *b, u64 now)
{
	if (b->tested_at && now - b->tested_at < DLEND_BRINGUP_RETEST_MS)
		return 0;
	return DLEND_DO_TEST;
}

static u32 dlend_bringup_hello(struct dlend_bringup *b, const u32 *spad, u64 now)
{
	u32 mine = dlend_bringup_hash(b->nonce);
	u64 nonce = dlend_bringup_spad_nonce(spad);
	u32 todo = 0;

	if (!dlend_bringup_understand(b, spad, &todo) || !dlend_bringup_hash(nonce))
		return todo;
	if (nonce != b->peer_nonce)
		todo |= dlend_bringup_greet(b, nonce);
	if (!b->cleared && spad[DLEND_SPAD_ACK] == mine) {
		b->cleared = true;
		todo |= DLEND_DO_CLEAR;
	}
	if (!b->cleared || spad[DLEND_SPAD_READY] != mine)
		return todo;
	if (b->state == DLEND_BRINGUP_HELLO) {
		b->state = DLEND_BRINGUP_TEST;
		b->tested_at = 0;
		b->test_since = now;
		/* From now on @error is about the test. The caller has logged the error before. */
		b->error[0] = 0;
	}
	return todo | dlend_bringup_want_test(b, now);
}

u32 dlend_bringup_spads(struct dlend_bringup *b, const u32 *spad, u64 now)
{
	switch (b->state) {
	case DLEND_BRINGUP_HELLO:
	case DLEND_BRINGUP_TEST:
		return dlend_bringup_hello(b, spad, now);
	case DLEND_BRINGUP_UP:
		if (spad[DLEND_SPAD_MAGIC] != DLEND_PROTO_MAGIC)
			return dlend_bringup_abort(b, "peer ended the session");
		if (dlend_bringup_spad_nonce(spad) != b->peer_nonce)
			return dlend_bringup_abort(b, "peer began a new session");
		return 0;
	default:
		return 0;
	}
}

u32 dlend_bringup_tested(struct dlend_bringup *b, bool passed, u64 now)
{
	if (b->state != DLEND_BRINGUP_TEST)
		return 0;
	b->passed = passed;
	b->tested_at = now ? now : 1;
	if (passed)
		return 0;
	return dlend_bringup_set_error(b, dlend_bringup_no_read_back);
}

static u64 dlend_bringup_checksum(u64 nonce, u32 node, u32 aperture_mib, u32 version, u64 window)
{
	u64 x = dlend_bringup_mix(nonce);

	x = dlend_bringup_mix(x ^ ((u64)node << 32 | aperture_mib));
	x = dlend_bringup_mix(x ^ version);
	x = dlend_bringup_mix(x ^ window);
	return x ? x : 1;
}

u64 dlend_bringup_check(const struct dlend_bringup *b, u64 window)
{
	return dlend_bringup_checksum(b->peer_nonce, b->node, b->aperture_mib, b->picked, window);
}

/* This node's test has passed. Return: the problem with the peer's test; NULL: there is none */
static const char *dlend_bringup_lacks(const struct dlend_bringup *b,
				       const struct dlend_bringup_area *area, char *text,
				       size_t len)
{
	u8 pattern[DLEND_TEST_SIZE];

	dlend_bringup_pattern(b->nonce, pattern);
	if (area->nonce != b->nonce || memcmp(area->test, pattern, sizeof(pattern)))
		return dlend_bringup_no_arrival;
	if (area->check != dlend_bringup_checksum(b->nonce, b->peer_node, b->peer_aperture_mib,
						  b->picked, area->window))
		return "the peer says other things in its scratchpads than through its window; "
		       "if this stays, check that nothing else uses the NTB's scratchpads";
	if (area->window >= DLEND_BRINGUP_MIN_WINDOW)
		return NULL;
	snprintf(text, len,
		 "the peer's NTB window reaches only %llu KiB of this node; "
		 "make it 1 MiB or larger in the peer's firmware",
		 (unsigned long long)area->window >> 10);
	return text;
}

/* The peer's data is checked anew each time: it may have been overwritten since. */
static u32 dlend_bringup_settle(struct dlend_bringup *b, const struct dlend_bringup_area *area,
				u64 now)
{
	bool late = now - b->test_since >= DLEND_BRINGUP_LATE_MS;
	char text[DLEND_BRINGUP_ERROR_LEN];
	const char *why;

	b->complete = false;
	if (!b->passed)
		return 0;
	why = dlend_bringup_lacks(b, area, text, sizeof(text));
	/* The peer's test may not have run yet: so only a small window is an error at once. */
	if (why && (why == text || area->beat || late))
		return dlend_bringup_set_error(b, "%s", why);
	if (why)
		return 0;
	b->complete = true;
	b->peer_window = area->window;
	if (!area->beat)
		return 0;
	b->beat = area->beat;
	b->beat_at = now;
	b->state = DLEND_BRINGUP_UP;
	b->error[0] = 0;
	return DLEND_DO_UP;
}

bool dlend_bringup_beats(const struct dlend_bringup *b)
{
	return b->state == DLEND_BRINGUP_UP || (b->state == DLEND_BRINGUP_TEST && b->complete);
}

static u32 dlend_bringup_next_beat(struct dlend_bringup *b, u64 nonce, u32 beat, u64 now)
{
	char text[DLEND_BRINGUP_ERROR_LEN];

	if (nonce != b->nonce)
		return dlend_bringup_abort(b, "control area was overwritten: session begins again");
	if (beat != b->beat) {
		b->beat = beat;
		b->beat_at = now;
		return 0;
	}
	if (now - b->beat_at < b->timeout_ms)
		return 0;
	snprintf(text, sizeof(text), "no heartbeat of node %u for %llu ms", b->peer_node,
		 (unsigned long long)(now - b->beat_at));
	return dlend_bringup_abort(b, text);
}

u32 dlend_bringup_area(struct dlend_bringup *b, const struct dlend_bringup_area *area, u64 now)
{
	if (b->state == DLEND_BRINGUP_TEST)
		return dlend_bringup_settle(b, area, now);
	if (b->state == DLEND_BRINGUP_UP)
		return dlend_bringup_next_beat(b, area->nonce, area->beat, now);
	return 0;
}

u64 dlend_bringup_reach(const struct dlend_bringup *b, u64 aperture)
{
	return min(b->peer_window, aperture);
}

u64 dlend_bringup_age(const struct dlend_bringup *b, u64 now)
{
	return b->state == DLEND_BRINGUP_UP ? now - b->beat_at : 0;
}

void dlend_backoff_down(struct dlend_backoff *o, u64 now)
{
	u32 wait = DLEND_BACKOFF_FIRST_MS;
	u32 i;

	o->until = now;
	if (now - o->up_at >= DLEND_BACKOFF_LASTED_MS) {
		o->row = 0;
		return;
	}
	if (o->row < U32_MAX)
		o->row++;
	if (o->row <= DLEND_BACKOFF_FREE)
		return;
	for (i = DLEND_BACKOFF_FREE + 1; i < o->row && wait < DLEND_BACKOFF_MAX_MS; i++)
		wait *= 2;
	o->until = now + min(wait, DLEND_BACKOFF_MAX_MS);
}

u32 dlend_backoff_left(const struct dlend_backoff *o, u64 now)
{
	return o->until > now ? o->until - now : 0;
}
