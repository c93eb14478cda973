// SPDX-License-Identifier: GPL-2.0
/*
 * Bring-up of a link: two machines joined by make-believe scratchpads and control areas, stepped
 * in any order, with reboots and lost heartbeats in between.
 */
#include <kunit/test.h>
#include <linux/string.h>
#include <dlend/proto.h>
#include <ntb/bringup.h>

#define V1	0x10001
#define V3	0x10003
#define TIMEOUT	2500

/* A node: its machine, its scratchpads, and its control area, which only the peer writes. */
struct node {
	struct dlend_bringup b;
	u32 spad[DLEND_SPAD_COUNT];
	u64 published_at;
	struct dlend_bringup_area area;
	bool dirty;		/* the peer wrote since the last clear */
	bool open;		/* READY was given: the peer may write */
	u32 beat;
	u64 window;		/* what the peer says that its window reaches */
	unsigned int ups, ends;
	struct dlend_backoff backoff;
	bool up;
	bool broken;		/* its window reads back nothing */
	bool mute;		/* sends no heartbeat */
	bool unsealed;		/* writes no checksum */
};

struct pair {
	struct kunit *test;
	struct node n[2];
	u64 now, nonces;
	bool strays;		/* scratchpads are overwritten */
};

static void publish(struct pair *p, int i)
{
	struct node *me = &p->n[i];

	me->spad[DLEND_SPAD_VERSION] = me->b.version;
	me->spad[DLEND_SPAD_NODE] = me->b.node;
	me->spad[DLEND_SPAD_NONCE_LO] = me->b.nonce;
	me->spad[DLEND_SPAD_NONCE_HI] = me->b.nonce >> 32;
	me->spad[DLEND_SPAD_APERTURE] = me->b.aperture_mib;
	me->spad[DLEND_SPAD_ACK] = me->b.ack;
	me->spad[DLEND_SPAD_READY] = me->b.cleared ? me->b.ack : 0;
	me->spad[DLEND_SPAD_MAGIC] = DLEND_PROTO_MAGIC;
	me->published_at = p->now;
}

static void begin(struct pair *p, int i)
{
	struct node *me = &p->n[i];

	me->b.aperture_mib = 64;
	if (!me->window)
		me->window = 64 << 20;
	dlend_bringup_start(&me->b, 0x1111222200000000ull + ++p->nonces);
	publish(p, i);
}

static void power_on(struct pair *p, int i)
{
	unsigned int ups = p->n[i].ups;

	memset(&p->n[i], 0, sizeof(p->n[i]));
	p->n[i].ups = ups;
	p->n[i].b = (struct dlend_bringup){ .node = i + 1, .version = V1, .timeout_ms = TIMEOUT };
	begin(p, i);
}

static struct pair *new_pair(struct kunit *test)
{
	struct pair *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->test = test;
	p->now = 1000;
	power_on(p, 0);
	power_on(p, 1);
	return p;
}

/* The handshake exists for this rule, which holds as long as nobody else writes READY. */
static void write_peer(struct pair *p, int i)
{
	if (!p->strays)
		KUNIT_EXPECT_TRUE_MSG(p->test, p->n[!i].open, "node %d wrote before it was let in",
				      i + 1);
	p->n[!i].dirty = true;
}

/* Write what the self-test of @b's node leaves in @area. */
static void leave_test(const struct dlend_bringup *b, struct dlend_bringup_area *area, u64 window)
{
	area->nonce = b->peer_nonce;
	area->window = window;
	area->check = dlend_bringup_check(b, window);
	dlend_bringup_pattern(b->peer_nonce, area->test);
}

static void run_test(struct pair *p, int i)
{
	struct node *me = &p->n[i];

	write_peer(p, i);
	leave_test(&me->b, &p->n[!i].area, p->n[!i].window);
	if (me->unsealed)
		p->n[!i].area.check = 0;
	dlend_bringup_tested(&me->b, !me->broken, p->now);
}

static void carry_out(struct pair *p, int i, u32 todo)
{
	struct node *me = &p->n[i];

	if (todo & DLEND_DO_END) {
		me->ends++;
		if (me->up)
			dlend_backoff_down(&me->backoff, p->now);
		me->up = false;
		me->spad[DLEND_SPAD_MAGIC] = 0;
		me->open = false;
	}
	if (todo & DLEND_DO_ACK) {
		me->spad[DLEND_SPAD_READY] = 0;
		me->spad[DLEND_SPAD_ACK] = me->b.ack;
		me->open = false;
	}
	if (todo & DLEND_DO_CLEAR) {
		memset(&me->area, 0, sizeof(me->area));
		me->dirty = false;
		me->open = true;
		me->spad[DLEND_SPAD_READY] = me->b.ack;
	}
	if (todo & DLEND_DO_TEST)
		run_test(p, i);
	if (todo & DLEND_DO_UP) {
		me->ups++;
		me->up = true;
		me->backoff.up_at = p->now;
	}
}

static void step(struct pair *p, int i)
{
	struct node *me = &p->n[i];

	if (me->b.state == DLEND_BRINGUP_DOWN && dlend_backoff_left(&me->backoff, p->now))
		return;
	if (me->b.state == DLEND_BRINGUP_DOWN)
		begin(p, i);
	carry_out(p, i, dlend_bringup_spads(&me->b, p->n[!i].spad, p->now));
	carry_out(p, i, dlend_bringup_area(&me->b, &me->area, p->now));
	if (me->b.state != DLEND_BRINGUP_DOWN && me->b.state != DLEND_BRINGUP_UP &&
	    p->now - me->published_at >= 1000)
		publish(p, i);
	if (dlend_bringup_beats(&me->b) && !me->mute)
		p->n[!i].area.beat = ++me->beat;
}

static void run(struct pair *p, unsigned int rounds)
{
	while (rounds--) {
		p->now += 500;
		step(p, 0);
		step(p, 1);
	}
}

/* Nodes look at each other as often as they do by themselves, without a doorbell. */
static void run_for(struct pair *p, unsigned int ms)
{
	for (; ms; ms -= 250) {
		p->now += 250;
		step(p, 0);
		step(p, 1);
	}
}

static void expect_up(struct pair *p)
{
	KUNIT_EXPECT_STREQ(p->test, dlend_bringup_name(p->n[0].b.state), "up");
	KUNIT_EXPECT_STREQ(p->test, dlend_bringup_name(p->n[1].b.state), "up");
	KUNIT_EXPECT_EQ(p->test, p->n[0].b.peer_nonce, p->n[1].b.nonce);
	KUNIT_EXPECT_EQ(p->test, p->n[1].b.peer_nonce, p->n[0].b.nonce);
}

static void comes_up(struct kunit *test)
{
	struct pair *p = new_pair(test);

	run(p, 10);
	expect_up(p);
	KUNIT_EXPECT_EQ(test, p->n[0].b.peer_node, 2);
	KUNIT_EXPECT_EQ(test, p->n[0].b.peer_aperture_mib, 64u);
	KUNIT_EXPECT_EQ(test, p->n[0].b.picked, 1);
	run(p, 100);
	KUNIT_EXPECT_EQ(test, p->n[0].ups, 1u);
	KUNIT_EXPECT_EQ(test, p->n[0].ends, 0u);
	KUNIT_EXPECT_LE(test, dlend_bringup_age(&p->n[0].b, p->now), 1000ull);
}

/* A node that begins alone waits, and writes nothing into the peer's memory. */
static void alone(struct kunit *test)
{
	struct pair *p = new_pair(test);
	unsigned int i;

	p->n[1].spad[DLEND_SPAD_MAGIC] = 0;
	for (i = 0; i < 20; i++)
		step(p, 0);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_HELLO);
	/* A bus that answers nothing reads as all ones. */
	memset(p->n[1].spad, 0xff, sizeof(p->n[1].spad));
	step(p, 0);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_HELLO);
	power_on(p, 1);
	run(p, 10);
	expect_up(p);
}

static void peer_reboots(struct kunit *test)
{
	struct pair *p = new_pair(test);
	unsigned int when;

	/* At any moment of the handshake, and after it. */
	for (when = 0; when < 12; when++) {
		power_on(p, 0);
		run(p, when);
		power_on(p, 1);
		run(p, 20);
		expect_up(p);
	}
}

/* Old scratchpads of a dead peer do not bring a link up. */
static void dead_peer_left_its_spads(struct kunit *test)
{
	struct pair *p = new_pair(test);
	unsigned int i;

	run(p, 10);
	power_on(p, 0);
	for (i = 0; i < 20; i++)
		step(p, 0);
	KUNIT_EXPECT_LT(test, (int)p->n[0].b.state, (int)DLEND_BRINGUP_TEST);
}

static void heartbeat_lost(struct kunit *test)
{
	struct pair *p = new_pair(test);
	u64 since;

	run(p, 10);
	p->n[1].mute = true;
	since = p->now;
	while (!p->n[0].ends && p->now < since + 10000) {
		p->now += 100;
		step(p, 0);
	}
	KUNIT_EXPECT_GE(test, p->now - since, (u64)TIMEOUT - 500);
	KUNIT_EXPECT_LE(test, p->now - since, (u64)TIMEOUT + 500);
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[0].b.error, "heartbeat"));
	p->n[1].mute = false;
	run(p, 20);
	expect_up(p);
	KUNIT_EXPECT_EQ(test, p->n[0].ups, 2u);
	KUNIT_EXPECT_EQ(test, p->n[1].ups, 2u);
}

static void other_version(struct kunit *test)
{
	struct pair *p = new_pair(test);

	p->n[1].spad[DLEND_SPAD_VERSION] = 2u << 16 | 3;
	p->now += 500;
	step(p, 0);
	step(p, 0);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_HELLO);
	KUNIT_EXPECT_EQ(test, p->n[0].spad[DLEND_SPAD_ACK], 0u);
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[0].b.error, "2 to 3"));
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[0].b.error, "1 to 1"));
	/* The node says so once, not at every look. */
	KUNIT_EXPECT_EQ(test, dlend_bringup_spads(&p->n[0].b, p->n[1].spad, p->now), 0u);
}

static void same_node_id(struct kunit *test)
{
	struct pair *p = new_pair(test);

	p->n[1].spad[DLEND_SPAD_NODE] = 1;
	KUNIT_EXPECT_EQ(test, dlend_bringup_spads(&p->n[0].b, p->n[1].spad, p->now),
			(u32)DLEND_DO_ERROR);
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[0].b.error, "node_id"));
}

/* The admin has said who the peer is: no other node is accepted, nor written to. */
static void another_node(struct kunit *test)
{
	struct pair *p = new_pair(test);

	p->n[0].b.required = 3;
	run(p, 10);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_HELLO);
	KUNIT_EXPECT_EQ(test, p->n[0].spad[DLEND_SPAD_ACK], 0u);
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[0].b.error, "is node 2"));
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[0].b.error, "for node 3 only"));
	p->n[0].b.required = 2;
	run(p, 10);
	expect_up(p);
}

/* One machine that reads its own scratchpads, and writes into its own control area. */
static void step_alone(struct pair *p)
{
	struct node *me = &p->n[0];

	carry_out(p, 0, dlend_bringup_spads(&me->b, me->spad, p->now));
	if (me->b.state == DLEND_BRINGUP_TEST) {
		leave_test(&me->b, &me->area, 64 << 20);
		dlend_bringup_tested(&me->b, true, p->now);
	}
	carry_out(p, 0, dlend_bringup_area(&me->b, &me->area, p->now));
	if (dlend_bringup_beats(&me->b))
		me->area.beat = ++me->beat;
}

/* A node that is its own peer comes up like every other, and stays up however rarely it looks. */
static void own_peer(struct kunit *test)
{
	struct pair *p = new_pair(test);
	unsigned int i;

	p->n[0].b.loop = true;
	p->n[1].open = true;
	for (i = 0; i < 10; i++, p->now += 500)
		step_alone(p);
	KUNIT_EXPECT_STREQ(test, dlend_bringup_name(p->n[0].b.state), "up");
	KUNIT_EXPECT_EQ(test, p->n[0].b.peer_node, 1);
	KUNIT_EXPECT_EQ(test, p->n[0].b.peer_nonce, p->n[0].b.nonce);
	for (i = 0; i < 10; i++, p->now += 10 * TIMEOUT)
		step_alone(p);
	KUNIT_EXPECT_EQ(test, p->n[0].ups, 1u);
	KUNIT_EXPECT_EQ(test, p->n[0].ends, 0u);
}

/* A link to oneself takes no other peer. */
static void own_peer_only(struct kunit *test)
{
	struct pair *p = new_pair(test);

	p->n[0].b.loop = true;
	KUNIT_EXPECT_EQ(test, dlend_bringup_spads(&p->n[0].b, p->n[1].spad, p->now),
			(u32)DLEND_DO_ERROR);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_HELLO);
}

/* A failed self-test of either end keeps both down, and is tried again. */
static void self_test_fails(struct kunit *test)
{
	struct pair *p = new_pair(test);

	p->n[1].broken = true;
	run(p, 20);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_TEST);
	KUNIT_EXPECT_EQ(test, p->n[1].b.state, DLEND_BRINGUP_TEST);
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[1].b.error, "self-test"));
	p->n[1].broken = false;
	run(p, 10);
	expect_up(p);
}

/* The reason why the last session ended is not the error of this self-test. */
static void error_of_this_test(struct kunit *test)
{
	struct pair *p = new_pair(test);

	run(p, 10);
	expect_up(p);
	carry_out(p, 0, dlend_bringup_abort(&p->n[0].b, "the session before"));
	KUNIT_EXPECT_STREQ(test, p->n[0].b.error, "the session before");
	p->n[1].mute = true;
	run(p, 4);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_TEST);
	KUNIT_EXPECT_STREQ(test, p->n[0].b.error, "");
	p->n[1].mute = false;
	run(p, 10);
	expect_up(p);
}

/* No checksum is a wrong one. */
static void no_checksum(struct kunit *test)
{
	struct pair *p = new_pair(test);

	p->n[1].unsealed = true;
	run(p, 10);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_TEST);
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[0].b.error, "other things"));
	p->n[1].unsealed = false;
	run(p, 10);
	expect_up(p);
}

static void pattern_does_not_arrive(struct kunit *test)
{
	struct pair *p = new_pair(test);
	unsigned int i;

	for (i = 0; i < 4; i++)
		run(p, 1);
	power_on(p, 0);
	run(p, 1);
	p->n[0].b.state = DLEND_BRINGUP_TEST;
	p->n[0].b.passed = true;
	p->n[0].area.nonce = p->n[0].b.nonce;
	p->n[0].area.beat = 1;
	KUNIT_EXPECT_EQ(test, dlend_bringup_area(&p->n[0].b, &p->n[0].area, p->now),
			(u32)DLEND_DO_ERROR);
	KUNIT_EXPECT_EQ(test, p->n[0].b.state, DLEND_BRINGUP_TEST);
	KUNIT_EXPECT_NOT_NULL(test, strstr(p->n[0].b.error, "did not arrive"));
}

static void area_overwritten(struct kunit *test)
{
	struct pair *p = new_pair(test);

	run(p, 10);
	p->n[0].area.nonce = 0xa5a5a5a5a5a5a5a5ull;
	run(p, 20);
	expect_up(p);
	KUNIT_EXPECT_EQ(test, p->n[0].ends, 1u);
	KUNIT_EXPECT_EQ(test, p->n[0].ups, 2u);
}

static void link_down_ends(struct kunit *test)
{
	struct pair *p = new_pair(test);

	run(p, 10);
	KUNIT_EXPECT_EQ(test, dlend_bringup_link_down(&p->n[0].b), (u32)DLEND_DO_END);
	KUNIT_EXPECT_EQ(test, dlend_bringup_link_down(&p->n[0].b), 0u);
	KUNIT_EXPECT_EQ(test, p->n[0].b.nonce, 0ull);
	KUNIT_EXPECT_EQ(test, dlend_bringup_spads(&p->n[0].b, p->n[1].spad, p->now), 0u);
}

/* Steps in a random order, with a reboot now and then: it always ends well. */
static void any_order(struct kunit *test)
{
	struct pair *p = new_pair(test);
	u32 seed = 99, i;

	for (i = 0; i < 20000; i++) {
		seed = seed * 1664525u + 1013904223u;
		p->now += seed >> 24;
		if (seed >> 8 & 0x3ff)
			step(p, seed >> 20 & 1);
		else
			power_on(p, seed >> 20 & 1);
	}
	run(p, 30);
	expect_up(p);
	KUNIT_EXPECT_GT(test, p->n[0].ups, 5u);
}

static u32 pick(u32 *seed, u32 below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % below;
}

/* A word as stray writes may leave it: anything, 0, all ones, or a value from elsewhere. */
static u32 stray_word(struct pair *p, u32 *seed)
{
	switch (pick(seed, 5)) {
	case 0:
		return 0;
	case 1:
		return ~0u;
	case 2:
		return pick(seed, 8);
	case 3:
		return p->n[pick(seed, 2)].spad[pick(seed, DLEND_SPAD_COUNT)];
	default:
		return pick(seed, 1 << 24) << 8 | pick(seed, 256);
	}
}

static void stray_write(struct pair *p, int i, u32 *seed)
{
	struct dlend_bringup_area *area = &p->n[i].area;
	u32 word = stray_word(p, seed);
	u64 twice = (u64)stray_word(p, seed) << 32 | word;

	switch (pick(seed, 8)) {
	case 0:
		area->nonce = twice;
		break;
	case 1:
		area->beat = word;
		break;
	case 2:
		area->window = twice;
		break;
	case 3:
		area->check = twice;
		break;
	case 4:
		memset(area->test + pick(seed, DLEND_TEST_SIZE), word, 1);
		break;
	default:
		p->n[i].spad[pick(seed, DLEND_SPAD_COUNT)] = word;
	}
}

static void expect_agreed(struct pair *p, u32 seed)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		const struct dlend_bringup *me = &p->n[i].b, *peer = &p->n[!i].b;

		KUNIT_EXPECT_EQ_MSG(p->test, me->state, DLEND_BRINGUP_UP, "seed %u, node %u: %s",
				    seed, i + 1, me->error);
		KUNIT_EXPECT_EQ_MSG(p->test, me->peer_nonce, peer->nonce, "seed %u", seed);
		KUNIT_EXPECT_EQ_MSG(p->test, me->peer_node, peer->node, "seed %u", seed);
		KUNIT_EXPECT_EQ_MSG(p->test, me->peer_aperture_mib, peer->aperture_mib, "seed %u",
				    seed);
		KUNIT_EXPECT_EQ_MSG(p->test, me->picked, V3 & 0xffff, "seed %u", seed);
		KUNIT_EXPECT_EQ_MSG(p->test, me->peer_window, p->n[i].window, "seed %u", seed);
	}
}

/* Make both wait as long as possible: many short sessions, the last one just over. */
static void wait_longest(struct pair *p)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		p->n[i].backoff.row = 1000;
		if (!p->n[i].up)
			p->n[i].backoff.until = p->now + DLEND_BACKOFF_MAX_MS;
	}
}

/*
 * Scratchpads and control areas are overwritten at any moment of bring-up and of a session's life,
 * nodes look as late and as rarely as lost doorbells let them, cables are pulled, and sessions are
 * so short that the next one waits. 10 s after the last such event the link is up on both sides,
 * and both know the truth about each other.
 */
static void comes_back(struct kunit *test)
{
	struct pair *p = new_pair(test);
	u32 storm, seed;
	unsigned int steps, i;

	p->strays = true;
	for (i = 0; i < 2; i++)
		p->n[i].b.version = V3;
	for (storm = 1; storm <= 3000; storm++) {
		seed = storm * 2654435761u;
		p->n[0].window = 32 << 20;
		p->n[1].window = 64 << 20;
		for (steps = pick(&seed, 120); steps; steps--) {
			p->now += pick(&seed, 400);
			i = pick(&seed, 2);
			if (!pick(&seed, 50))
				carry_out(p, i, dlend_bringup_link_down(&p->n[i].b));
			if (!pick(&seed, 3))
				stray_write(p, pick(&seed, 2), &seed);
			step(p, i);
		}
		wait_longest(p);
		run_for(p, 10000);
		expect_agreed(p, storm);
	}
}

static void patterns_differ(struct kunit *test)
{
	u8 a[DLEND_TEST_SIZE], b[DLEND_TEST_SIZE];
	unsigned int i, same = 0;

	dlend_bringup_pattern(1, a);
	dlend_bringup_pattern(2, b);
	for (i = 0; i < DLEND_TEST_SIZE; i++)
		same += a[i] == b[i];
	KUNIT_EXPECT_LT(test, same, 16u);
	dlend_bringup_pattern(2, a);
	KUNIT_EXPECT_EQ(test, memcmp(a, b, sizeof(a)), 0);
}

static void nonce_is_usable(struct kunit *test)
{
	struct dlend_bringup b = { .node = 1, .version = V1, .timeout_ms = TIMEOUT };

	dlend_bringup_start(&b, 0);
	KUNIT_EXPECT_NE(test, dlend_bringup_hash(b.nonce), 0u);
	dlend_bringup_link_down(&b);
	dlend_bringup_start(&b, 0x1234567812345678ull);
	KUNIT_EXPECT_NE(test, dlend_bringup_hash(b.nonce), 0u);
}

/* Each direction has its own size. A window that cannot hold a control area is named, not used. */
static void windows_of_uneven_size(struct kunit *test)
{
	struct pair *p = new_pair(test);

	p->n[0].window = 4096;
	run(p, 10);
	KUNIT_EXPECT_STREQ(test, dlend_bringup_name(p->n[0].b.state), "test");
	KUNIT_EXPECT_TRUE(test, strstr(p->n[0].b.error, "only 4 KiB"));
	p->n[0].window = 32 << 20;
	run(p, 10);
	expect_up(p);
	KUNIT_EXPECT_EQ(test, dlend_bringup_reach(&p->n[0].b, 64 << 20), 32ull << 20);
	KUNIT_EXPECT_EQ(test, dlend_bringup_reach(&p->n[0].b, 16 << 20), 16ull << 20);
	KUNIT_EXPECT_EQ(test, dlend_bringup_reach(&p->n[1].b, 128 << 20), 64ull << 20);
}

/* A session that ends as soon as it is up. Return: how long the next one has to wait, in ms. */
static u32 short_session(struct dlend_backoff *o, u64 *now)
{
	*now += dlend_backoff_left(o, *now) + 100;
	o->up_at = *now;
	*now += 50;
	dlend_backoff_down(o, *now);
	return dlend_backoff_left(o, *now);
}

/* A peer that comes and goes is slowed down; one with trouble only once is soon back. */
static void sessions_that_do_not_last(struct kunit *test)
{
	struct dlend_backoff o = {};
	u32 i, wait, last = 0;
	u64 now = 5;

	KUNIT_EXPECT_EQ(test, dlend_backoff_left(&o, now), 0);
	for (i = 0; i < DLEND_BACKOFF_FREE; i++)
		KUNIT_EXPECT_EQ(test, short_session(&o, &now), 0);
	for (i = 0; i < 1000; i++) {
		wait = short_session(&o, &now);
		KUNIT_ASSERT_GT(test, wait, 0);
		KUNIT_ASSERT_GE(test, wait, last);
		KUNIT_ASSERT_LE(test, wait, 2000);
		last = wait;
	}
	KUNIT_EXPECT_EQ(test, last, DLEND_BACKOFF_MAX_MS);
	KUNIT_EXPECT_EQ(test, dlend_backoff_left(&o, now + 1999), 1);
	KUNIT_EXPECT_EQ(test, dlend_backoff_left(&o, now + 2000), 0);
	/* A session that lasted: the old ones are forgotten, and the next ones need not wait. */
	now += 2000;
	o.up_at = now;
	now += DLEND_BACKOFF_LASTED_MS;
	dlend_backoff_down(&o, now);
	KUNIT_EXPECT_EQ(test, dlend_backoff_left(&o, now), 0);
	for (i = 0; i < DLEND_BACKOFF_FREE; i++)
		KUNIT_EXPECT_EQ(test, short_session(&o, &now), 0);
	KUNIT_EXPECT_GT(test, short_session(&o, &now), 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(comes_up),
	KUNIT_CASE(alone),
	KUNIT_CASE(peer_reboots),
	KUNIT_CASE(dead_peer_left_its_spads),
	KUNIT_CASE(heartbeat_lost),
	KUNIT_CASE(other_version),
	KUNIT_CASE(same_node_id),
	KUNIT_CASE(another_node),
	KUNIT_CASE(own_peer),
	KUNIT_CASE(own_peer_only),
	KUNIT_CASE(self_test_fails),
	KUNIT_CASE(error_of_this_test),
	KUNIT_CASE(no_checksum),
	KUNIT_CASE(pattern_does_not_arrive),
	KUNIT_CASE(area_overwritten),
	KUNIT_CASE(link_down_ends),
	KUNIT_CASE(any_order),
	KUNIT_CASE(comes_back),
	KUNIT_CASE(patterns_differ),
	KUNIT_CASE(nonce_is_usable),
	KUNIT_CASE(windows_of_uneven_size),
	KUNIT_CASE(sessions_that_do_not_last),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_bringup",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
