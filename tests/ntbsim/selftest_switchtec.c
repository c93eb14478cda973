// SPDX-License-Identifier: GPL-2.0
/*
 * Test of ntbsim's model of a Switchtec switch: two clients drive one link, as the kernel's
 * switchtec and ntb_hw_switchtec would.
 *
 *   selftest_switchtec PATH_OF_NTBSIM
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"
#include "util.h"

#define CTRL(part) (0x14000 + 0x2000 * (part))
#define DBMSG(part) (0x74000 + 0x4000 * (part))
#define PFF(part) (0x134000 + 0x1000 * (part))
#define STATUS 0x00
#define OP 0x04
#define LOCK 1
#define CFG 2
#define NORMAL 1
#define LOCKED 2
#define LOCKING 3
#define CONFIGURING 4
#define LUT_BYTES 0x10000
#define LUTS 16
#define BAR2_BYTES (2u << 20)
#define BAR4_BYTES (1u << 20)

/* ---- what the drivers do ---- */

/* Return: the status that it ends with. */
static unsigned int operate(struct peer *p, int part, unsigned int op)
{
	unsigned int i, now, busy = op == LOCK ? LOCKING : CONFIGURING;

	wr(p, VU_BAR0, CTRL(part) + OP, op, 4);
	for (i = 0; i < 500; i++) {
		now = rd(p, VU_BAR0, CTRL(part) + STATUS, 4);
		if (now != busy)
			return now;
		usleep(10000);
	}
	return 0;
}

static bool lock(struct peer *p, int part)
{
	return operate(p, part, LOCK) == LOCKED;
}

static bool take_effect(struct peer *p, int part)
{
	return operate(p, part, CFG) == NORMAL;
}

/* A direct window of that partition's host; @to: its own partition, for accesses to lead here. */
static void put_direct(struct peer *p, int part, int to, int bar, uint64_t addr, uint64_t size)
{
	unsigned int pos = size ? __builtin_ctzll(size) : 0;

	wr(p, VU_BAR0, CTRL(part) + 0x40 + 16 * bar, size ? 0x11 : 0x01, 4);
	wr(p, VU_BAR0, CTRL(part) + 0x44 + 16 * bar, pos | (size & 0xfffff000), 4);
	wr(p, VU_BAR0, CTRL(part) + 0xa0 + 16 * bar, size >> 32, 4);
	wr(p, VU_BAR0, CTRL(part) + 0x48 + 16 * bar, addr | to, 8);
}

static void probe(struct peer *p, int me)
{
	unsigned int i;

	wr(p, VU_CONFIG, 4, 0x6, 2);
	if (dma_map(p, RAM_IOVA, RAM_SIZE, 0, 3, p->ram_fd) || set_irqs(p, 0, 4, true))
		bail("no memory or interrupts");
	for (i = 0; i < 2; i++)
		wr(p, VU_BAR0, PFF(i) + 0xd30, 9, 4);
	for (i = 0; i < 60; i++)
		wr(p, VU_BAR0, DBMSG(me) + 0x1020 + i, 1, 1);
	for (; i < 64; i++)
		wr(p, VU_BAR0, DBMSG(me) + 0x1020 + i, 2, 1);
	for (i = 0; i < 4; i++)
		wr(p, VU_BAR0, DBMSG(me) + 0x1060 + i, i | !me << 2, 1);
	for (i = 0; i < 4; i++)
		wr(p, VU_BAR0, DBMSG(me) + 0x1088 + 8 * i, 0x10100000000ull, 8);
	wr(p, VU_BAR0, DBMSG(me) + 0x1018, 0xf000000000000000ull, 8);
	wr(p, VU_BAR0, DBMSG(me) + 0x1008, 0x0fffffffull << (me ? 0 : 32), 8);
}

/* ---- the tests ---- */

static void test_identity(struct peer *a, struct peer *b)
{
	ok(rd(a, VU_CONFIG, 0, 4) == 0x400011f8 && rd(a, VU_BAR0, 0x2000, 4) == 0x4000,
	   "vendor and device id, in configuration space and registers");
	ok(!rd(a, VU_BAR0, 0x2048, 1) && rd(b, VU_BAR0, 0x2048, 1) == 1 &&
	   rd(a, VU_BAR0, 0x10000, 1) == 2 && rd(b, VU_BAR0, 0x10001, 1) == 1 &&
	   rd(a, VU_BAR0, 0x10004, 8) == 3, "two partitions, one for each");
	ok(rd(a, VU_BAR0, 0x10024, 4) == 2 && rd(a, VU_BAR0, 0x10034, 4) == 1,
	   "that look at each other");
	ok(rd(a, VU_CONFIG, 0x84, 4) == 0x76000 && rd(b, VU_CONFIG, 0x84, 4) == 0x7a000,
	   "each has its table of vectors");
	ok(rd(a, VU_BAR0, PFF(0), 2) == 0x11f8 && rd(a, VU_BAR0, PFF(1), 2) == 0x11f8 &&
	   rd(a, VU_BAR0, PFF(2), 2) != 0x11f8, "two ports");
	ok(rd(a, VU_BAR0, CTRL(1) + 0x14, 2) == LUTS &&
	   rd(a, VU_BAR0, CTRL(0) + 0x40 + 32, 4) == 1 &&
	   rd(a, VU_BAR0, CTRL(0) + 0x40 + 64, 4) == 1 && !rd(a, VU_BAR0, CTRL(0) + 0x40, 4),
	   "windows in BAR2 and BAR4, and small ones");
	ok(refused("spad t 0") && refused("override t a 0 1") && did("override t a off"),
	   "no scratchpads");
}

static void test_locks(struct peer *a, struct peer *b)
{
	wr(a, VU_BAR0, CTRL(0) + 0x400, 0x00080001, 4);
	ok(!rd(a, VU_BAR0, CTRL(0) + 0x400, 4), "what is not locked cannot be written");
	ok(lock(a, 0), "a locks its own");
	wr(b, VU_BAR0, CTRL(0) + OP, LOCK, 4);
	ok(rd(b, VU_BAR0, CTRL(0), 4) == LOCKING && lock(b, 1),
	   "b waits for it, but not for another");
	wr(a, VU_BAR0, CTRL(0) + 0x400, 0x00080001, 4);
	wr(a, VU_BAR0, CTRL(0) + 0x404, 0x01000001, 4);
	ok(rd(a, VU_BAR0, CTRL(0) + 0x400, 4) == 0x00080003 &&
	   rd(a, VU_BAR0, CTRL(0) + 0x404, 4) == 0x01000005,
	   "requesters get ids there");
	ok(take_effect(a, 0), "it takes effect");
	usleep(100000);
	ok(rd(b, VU_BAR0, CTRL(0), 4) == LOCKED && rd(a, VU_BAR0, CTRL(0), 4) == NORMAL,
	   "then b has it, as b sees it");
	wr(a, VU_BAR0, CTRL(0) + OP, LOCK, 4);
	for (int i = 0; i < 300 && rd(a, VU_BAR0, CTRL(0), 4) == LOCKING; i++)
		usleep(10000);
	ok(rd(a, VU_BAR0, CTRL(0), 4) == NORMAL, "a waits in vain");
	wr(b, VU_BAR0, CTRL(0) + 0x404, 0x00080001, 4);
	ok(operate(b, 0, CFG) == LOCKED && rd(b, VU_BAR0, CTRL(0) + 0x20, 4) == 2,
	   "a requester that is there twice is an error");
	wr(b, VU_BAR0, CTRL(0) + OP, 3, 4);
	ok(rd(b, VU_BAR0, CTRL(0), 4) == NORMAL && rd(b, VU_BAR0, CTRL(0) + 0x404, 4) == 0x01000005,
	   "what has not taken effect can be undone");
	ok(take_effect(b, 1), "b is through");
}

/* Of a's partition, as JSON. */
static bool requesters_are(const char *locked, unsigned int attempts, const char *ids)
{
	char want[128];

	snprintf(want, sizeof(want),
		 "{\"places\":8,\"locked\":\"%s\",\"attempts\":%u,\"ids\":[%s]}\nok\n", locked,
		 attempts, ids);
	return !strcmp(control("requesters t a", NULL), want);
}

/* What commands show, and what they make of the table. */
static void test_requesters(struct peer *a)
{
	ok(requesters_are("", 2, "8,256"),
	   "the requesters of a's partition are shown");
	ok(lock(a, 0), "a locks it");
	wr(a, VU_BAR0, CTRL(0) + 0x408, 0x02000001, 4);
	ok(requesters_are("a", 3, "8,256"),
	   "what has not taken effect is not among them");
	ok(did("requesters t a refuse on") && operate(a, 0, CFG) == LOCKED &&
	   rd(a, VU_BAR0, CTRL(0) + 0x20, 4) == 3 && did("requesters t a refuse off") &&
	   take_effect(a, 0), "a change can be refused");
	ok(did("requesters t a lock on") && refused("requesters t a forget"), "b's lock is held");
	wr(a, VU_BAR0, CTRL(0) + OP, LOCK, 4);
	wr(a, VU_BAR0, CTRL(0) + OP, 3, 4);
	ok(rd(a, VU_BAR0, CTRL(0), 4) == NORMAL && did("requesters t a lock off"),
	   "who waits for a lock can give up");
	usleep(100000);
	ok(rd(a, VU_BAR0, CTRL(0), 4) == NORMAL, "and does not get it later");
	ok(did("requesters t a places 3") && rd(a, VU_BAR0, CTRL(0) + 0x1c, 2) == 3 &&
	   refused("requesters t a places 1") && did("requesters t a places 8"),
	   "a table can have fewer places");
	ok(did("requesters t a forget") && !rd(a, VU_BAR0, CTRL(0) + 0x400, 4) &&
	   requesters_are("", 4, ""),
	   "it can be forgotten");
	ok(refused("requesters t a lock off") && refused("requesters t a lock") &&
	   refused("requesters t c"), "what makes no sense is refused");
}

static void test_doorbells(struct peer *a, struct peer *b)
{
	probe(a, 0);
	probe(b, 1);
	drain_irqs(b);
	wr(a, VU_BAR0, DBMSG(0) + 0x1000, 1ull << 37, 8);
	ok(!fired(b, 1, 100) && rd(b, VU_BAR0, DBMSG(1) + 0x1010, 8) == 1ull << 37,
	   "a masked doorbell is only seen");
	wr(b, VU_BAR0, DBMSG(1) + 0x1018, 0xf000002000000000ull, 8);
	ok(fired(b, 1, 500) == 1, "unmasked, it interrupts");
	wr(a, VU_BAR0, DBMSG(0) + 0x1000, 1ull << 37, 8);
	ok(!fired(b, 1, 100), "not again, before it was cleared");
	wr(b, VU_BAR0, DBMSG(1) + 0x1010, 1ull << 37, 8);
	wr(a, VU_BAR0, DBMSG(0) + 0x1000, 1ull << 37 | 1, 8);
	ok(fired(b, 1, 500) == 1 && rd(b, VU_BAR0, DBMSG(1) + 0x1010, 8) == 1ull << 37,
	   "one that is not in the ringer's mask is not rung");
	wr(a, VU_BAR0, DBMSG(0) + 0x1068, 0x77, 4);
	ok(fired(b, 2, 500) == 1 && rd(b, VU_BAR0, DBMSG(1) + 0x1088, 8) == 0x10100000077ull,
	   "a message comes, with an interrupt of its own");
	wr(b, VU_BAR0, DBMSG(1) + 0x108c, 1, 1);
	ok(rd(b, VU_BAR0, DBMSG(1) + 0x1088, 8) == 0x10000000077ull, "and is taken");
}

static void test_windows(struct peer *a, struct peer *b)
{
	memset(b->ram, 0x5a, RAM_SIZE);
	ok(rd(a, VU_BAR4, 0, 4) == 0xffffffff && rd(a, VU_BAR2, 0, 4) == 0xffffffff,
	   "windows lead nowhere at first");
	ok(lock(b, 0), "b locks what is for a's accesses");
	wr(b, VU_BAR0, CTRL(0) + 0x40 + 32, 0x21 | 16 << 8 | (LUTS - 1) << 14, 4);
	wr(b, VU_BAR0, CTRL(0) + 0x1000, (RAM_IOVA + 0x20000) | 1 << 1 | 1, 8);
	ok(rd(a, VU_BAR2, 0, 4) == 0xffffffff, "what is written has no effect yet");
	ok(take_effect(b, 0) && rd(a, VU_BAR2, 0, 4) == 0x5a5a5a5a,
	   "now it has: the first small window");
	wr(a, VU_BAR2, LUT_BYTES - 8, 0x1122334455667788, 8);
	ok(!memcmp(b->ram + 0x20000 + LUT_BYTES - 8, "\x88\x77\x66\x55\x44\x33\x22\x11", 8) &&
	   rd(a, VU_BAR2, LUT_BYTES, 4) == 0xffffffff, "to its end");
	ok(lock(b, 0), "again");
	put_direct(b, 0, 1, 4, RAM_IOVA, BAR4_BYTES);
	put_direct(b, 0, 1, 2, RAM_IOVA, LUTS * LUT_BYTES);
	wr(b, VU_BAR0, CTRL(0) + 0x40 + 32, 0x31 | 16 << 8 | (LUTS - 1) << 14, 4);
	ok(take_effect(b, 0) && rd(a, VU_BAR4, BAR4_BYTES - 4, 4) == 0x5a5a5a5a, "a large one");
	b->ram[4] = 1;
	ok((rd(a, VU_BAR2, LUTS * LUT_BYTES + 4, 1)) == 1 && rd(a, VU_BAR2, 0, 4) == 0x5a5a5a5a,
	   "and one behind the small ones");
	ok(rd(b, VU_BAR4, 0, 4) == 0xffffffff, "this is one direction only");
	ok(lock(b, 0), "and again");
	put_direct(b, 0, 1, 4, RAM_IOVA + 0x1000, BAR4_BYTES);
	ok(operate(b, 0, CFG) == LOCKED && rd(b, VU_BAR0, CTRL(0) + 0x10, 4) == 5,
	   "a target that is not aligned to its size is an error");
	put_direct(b, 0, 1, 4, RAM_IOVA, 0);
	ok(take_effect(b, 0) && rd(a, VU_BAR4, 0, 4) == 0xffffffff,
	   "and one without a size is shut");
}

static void test_loss(struct peer *a, struct peer *b)
{
	drain_irqs(a);
	drain_irqs(b);
	ok(did("link t down") && fired(a, 0, 500) && fired(b, 0, 500) &&
	   rd(a, VU_BAR2, 0, 4) == 0xffffffff, "the cable is cut: both hear of it");
	ok((rd(a, VU_BAR0, PFF(1) + 0xd30, 4) >> 5 & 0xff) == 2 &&
	   !rd(a, VU_BAR0, PFF(1) + 0x74, 4), "and can count that");
	ok(did("link t up") && link_is("\"trained\":true", 2000) &&
	   rd(a, VU_BAR2, 0, 4) == 0x5a5a5a5a, "it is back, and so are the windows");
	ok(lock(b, 0) && !call(b, VU_RESET, NULL, 0, NULL, 0, NULL, 0) &&
	   link_is("\"trained\":true", 2000) && lock(a, 0) && take_effect(a, 0),
	   "who resets holds no lock");
	ok(!rd(b, VU_BAR0, CTRL(1) + 0x1000, 8) && rd(a, VU_BAR0, CTRL(0) + 0x1000, 8),
	   "its own windows are forgotten, but not those of the other");
}

int main(int argc, char **argv)
{
	struct peer a, b;

	if (argc != 2)
		bail("usage: selftest_switchtec PATH_OF_NTBSIM");
	begin(argv[1], ",family=switchtec,bar2=2M");
	attach(&a, path_a);
	attach(&b, path_b);
	ok(link_is("\"trained\":true", 2000), "link trains once both clients are there");
	test_identity(&a, &b);
	test_locks(&a, &b);
	test_requesters(&a);
	test_doorbells(&a, &b);
	test_windows(&a, &b);
	test_loss(&a, &b);
	detach(&a);
	detach(&b);
	return end(true);
}
