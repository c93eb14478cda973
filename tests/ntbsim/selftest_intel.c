// SPDX-License-Identifier: GPL-2.0
/*
 * Test of ntbsim's model of Intel's bridges: two clients drive one link, as the kernel's
 * ntb_hw_intel would, once for each kind of bridge.
 *
 *   selftest_intel PATH_OF_NTBSIM
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"
#include "util.h"

#define BAR2_SIZE 0x10000u	/* as begin() asks for */
#define BAR4_SIZE 0x100000u
#define BAR2_AT 0x2000000000ull	/* where this "host" puts them */
#define BAR4_AT 0x3000000000ull
#define LINK_VECTOR 32

static const struct model {
	const char *family;
	uint32_t id;
	uint8_t revision;
	uint32_t intvec, peer_spad;
	bool gen3;
	bool aligned;		/* a window's target, to its size */
} models[] = {
	{ "intel-skx", 0x201c8086, 0x04, 0xd0, 0x180, true, true },
	{ "intel-icx", 0x347e8086, 0x04, 0x50, 0x8080, false, true },
	{ "intel-spr", 0x347e8086, 0x10, 0x50, 0x8080, false, false },
};

static const struct model *m;

static void check(bool good, const char *what)
{
	char text[200];

	snprintf(text, sizeof(text), "%s: %s", m->family, what);
	ok(good, text);
}

/* ---- what the driver does ---- */

static void want_link(struct peer *p, bool on)
{
	if (m->gen3) {
		wr(p, VU_BAR0, 0, on ? 0x154 : 0x3, 4);
		return;
	}
	wr(p, VU_BAR0, 0xb050, on ? 0 : 0x10, 2);
	if (on)
		wr(p, VU_BAR0, 0xb0d4, rd(p, VU_BAR0, 0xb0d4, 4) | 8, 4);
}

static unsigned int link_status(struct peer *p)
{
	return m->gen3 ? rd(p, VU_CONFIG, 0x1a2, 2) : rd(p, VU_BAR0, 0xb052, 2);
}

/* What QEMU, a kernel and the driver do until the driver has found the function. */
static void probe(struct peer *p)
{
	unsigned int i;

	wr(p, VU_CONFIG, 4, 0x6, 2);
	wr(p, VU_CONFIG, 0x18, ~0u, 4);
	wr(p, VU_CONFIG, 0x18, BAR2_AT, 8);
	wr(p, VU_CONFIG, 0x20, BAR4_AT, 8);
	if (dma_map(p, RAM_IOVA, RAM_SIZE, 0, 3, p->ram_fd))
		bail("dma map");
	if (set_irqs(p, 0, 16, true) || set_irqs(p, 16, 16, true) || set_irqs(p, 32, 1, true))
		bail("irqs");
	for (i = 0; i < 33; i++)
		wr(p, VU_BAR0, m->intvec + i, i, 1);
	wr(p, VU_BAR0, 0x48, 0xffffffff, 8);
}

/* ntb_mw_set_trans() of window 1. */
static void set_trans(struct peer *p, uint64_t addr, uint64_t size)
{
	wr(p, VU_BAR0, 0x20, addr, 8);
	wr(p, VU_BAR0, 0x28, BAR4_AT + size, 8);
	if (m->gen3)
		wr(p, VU_BAR0, 0x4028, (rd(p, VU_BAR0, 0x4520, 8) & ~0xfull) + size, 8);
	else if (m->aligned)
		wr(p, VU_BAR0, 0x76, size ? __builtin_ctzll(size) : 0xffff, 2);
}

/* ---- the tests ---- */

static void test_identity(struct peer *a, struct peer *b)
{
	struct vu_region_info r = { .argsz = sizeof(r), .index = VU_BAR0 };
	struct vu_irq_info q = { .argsz = sizeof(q), .index = VU_IRQ_MSIX };
	unsigned int mine, its;

	check(rd(a, VU_CONFIG, 0, 4) == m->id && rd(a, VU_CONFIG, 8, 1) == m->revision,
	      "vendor, device id, revision");
	check(!call(a, VU_GET_REGION_INFO, &r, sizeof(r), NULL, 0, &r, sizeof(r)) &&
	      r.size == 0x10000 && rd(a, VU_CONFIG, 0x10, 4) == 0xc, "BAR0 is 64 KiB, of 64 bits");
	check(!call(a, VU_GET_IRQ_INFO, &q, sizeof(q), NULL, 0, &q, sizeof(q)) && q.count == 33,
	      "33 vectors");
	mine = m->gen3 ? rd(a, VU_CONFIG, 0xd4, 1) : rd(a, VU_BAR0, 0xb4c0, 4);
	its = m->gen3 ? rd(b, VU_CONFIG, 0xd4, 1) : rd(b, VU_BAR0, 0xb4c0, 4);
	check(mine == (m->gen3 ? 0x01 : 0x200) &&
	      its == (m->gen3 ? 0x11 : m->revision > 0xf ? 0x4200 : 0x1200),
	      "back to back: a is upstream, b downstream");
}

static void test_link(struct peer *a, struct peer *b)
{
	probe(a);
	probe(b);
	check(!(link_status(a) & 0x2000), "without drivers there is no link");
	want_link(a, true);
	check(!fired(a, LINK_VECTOR, 300) && link_is("\"trained\":false", 0), "nor with one");
	want_link(b, true);
	check(fired(a, LINK_VECTOR, 2000) == 1 && fired(b, LINK_VECTOR, 2000) == 1,
	      "both want it: it trains, and both hear of it");
	check(link_status(a) == 0x2103 && link_status(b) == 0x2103, "it is active, Gen 3, x16");
	check(rd(a, VU_BAR0, 0x40, 8) == 1ull << 32, "the status has the link's bit");
	wr(a, VU_BAR0, 0x40, 1ull << 32, 8);
	if (!m->gen3) {
		check(rd(a, VU_BAR0, 0x40, 8) == 1ull << 32, "which stays while the slot says so");
		wr(a, VU_BAR0, 0xb05a, 0x100, 2);
		wr(a, VU_BAR0, 0x40, 1ull << 32, 8);
	}
	check(!rd(a, VU_BAR0, 0x40, 8), "and goes when it is written");
	if (!m->gen3)
		wr(b, VU_BAR0, 0xb05a, 0x100, 2);
	wr(b, VU_BAR0, 0x40, 1ull << 32, 8);
}

static void test_scratchpads(struct peer *a, struct peer *b)
{
	uint64_t back;

	wr(a, VU_BAR0, 0x80, 0x11, 4);
	wr(b, VU_BAR0, 0x80, 0x22, 4);
	wr(a, VU_BAR0, m->peer_spad + 4, 0x33, 4);
	check(rd(a, VU_BAR0, 0x80, 4) == 0x11 && rd(b, VU_BAR0, 0x80, 4) == 0x22,
	      "each side has scratchpads of its own");
	check(rd(b, VU_BAR0, 0x84, 4) == 0x33 && !rd(a, VU_BAR0, 0x84, 4), "and writes the peer's");
	back = rd(a, VU_BAR0, m->peer_spad, 4);
	check(back == (m->gen3 ? 0 : 0x22), m->gen3 ?
	      "what it reads of the peer's is what it has written there itself" : "and reads them");
	check(did("override t b 1 77") && rd(b, VU_BAR0, 0x84, 4) == 77 &&
	      did("override t b off") && rd(b, VU_BAR0, 0x84, 4) == 0x33, "one can be made to lie");
	check(strstr(control("spad t 17", NULL), "0x00000033") && did("spad t 17 0x44") &&
	      rd(b, VU_BAR0, 0x84, 4) == 0x44 && refused("spad t 32"), "commands know both sides'");
}

static void test_doorbells(struct peer *a, struct peer *b)
{
	drain_irqs(b);
	wr(a, VU_BAR0, 0x100 + 4 * 5, 1, 4);
	check(!fired(b, 5, 100) && rd(b, VU_BAR0, 0x40, 8) == BIT(5),
	      "a masked doorbell is only seen in the status");
	wr(b, VU_BAR0, 0x48, 0xffffffff & ~(BIT(5) | BIT(31)), 8);
	check(fired(b, 5, 500) == 1, "unmasked, it interrupts");
	wr(a, VU_BAR0, 0x100 + 4 * 5, 1, 4);
	check(!fired(b, 5, 100), "not again, before its bit was cleared");
	wr(b, VU_BAR0, 0x40, BIT(5), 8);
	check(!rd(b, VU_BAR0, 0x40, 8), "which is by writing it");
	wr(a, VU_BAR0, 0x100 + 4 * 5, 1, 4);
	wr(a, VU_BAR0, 0x100 + 4 * 31, 1, 4);
	check(fired(b, 5, 500) == 1 && fired(b, 31, 500) == 1,
	      "the next ones do, the last one too");
	wr(b, VU_BAR0, m->intvec + 5, 9, 1);
	wr(b, VU_BAR0, 0x40, BIT(5) | BIT(31), 8);
	wr(a, VU_BAR0, 0x100 + 4 * 5, 1, 4);
	check(fired(b, 9, 500) == 1 && !fired(b, 5, 0), "at the vector that it was given");
	wr(b, VU_BAR0, 0x40, BIT(5), 8);
	wr(b, VU_BAR0, m->intvec + 5, 5, 1);
}

static void test_windows(struct peer *a, struct peer *b)
{
	memset(b->ram, 0x5a, RAM_SIZE);
	check(rd(a, VU_BAR4, 0, 4) == 0xffffffff, "a window leads nowhere at first");
	set_trans(b, RAM_IOVA, BAR4_SIZE);
	check(rd(a, VU_BAR4, 0, 4) == 0x5a5a5a5a, "the receiver says where to");
	wr(a, VU_BAR4, BAR4_SIZE - 8, 0x1122334455667788, 8);
	check(!memcmp(b->ram + BAR4_SIZE - 8, "\x88\x77\x66\x55\x44\x33\x22\x11", 8), "to its end");
	check(rd(b, VU_BAR4, 0, 4) == 0xffffffff, "this is one direction only");
	set_trans(b, RAM_IOVA, 0x8000);
	check(rd(a, VU_BAR4, 0x7ffc, 4) == 0x5a5a5a5a && rd(a, VU_BAR4, 0x8000, 4) == 0xffffffff,
	      "and how far");
	b->ram[0] = 1;
	b->ram[0x1000] = 2;
	set_trans(b, RAM_IOVA + 0x1000, BAR4_SIZE / 2);
	check((rd(a, VU_BAR4, 0, 4) & 0xff) == (m->aligned ? 1 : 2), m->aligned ?
	      "of an address the lower bits do not count" : "to any page");
	set_trans(b, 0, 0);
	check(rd(a, VU_BAR4, 0, 4) == 0xffffffff, "a size of 0 closes it");
	if (m->gen3) {
		set_trans(b, RAM_IOVA, BAR4_SIZE);
		wr(b, VU_BAR0, 0x4028, 0, 8);
		check(rd(a, VU_BAR4, 0, 4) == 0xffffffff,
		      "and so does the limit of the other side");
	} else if (m->aligned) {
		set_trans(b, RAM_IOVA, BAR4_SIZE);
		wr(b, VU_BAR0, 0x76, 13, 2);
		check(rd(a, VU_BAR4, 0x1ffc, 4) != 0xffffffff &&
		      rd(a, VU_BAR4, 0x2000, 4) == 0xffffffff, "and so does a smaller index");
	}
	set_trans(b, RAM_IOVA, BAR4_SIZE);
}

static void test_loss(struct peer *a, struct peer *b)
{
	drain_irqs(a);
	drain_irqs(b);
	check(did("link t down") && fired(a, LINK_VECTOR, 500) == 1 && !(link_status(a) & 0x2000),
	      "the cable is cut: the link is down, and an interrupt says so");
	wr(a, VU_BAR0, m->peer_spad + 8, 0x55, 4);
	check(!rd(b, VU_BAR0, 0x88, 4), "what is written to the peer's scratchpads is lost");
	check(rd(a, VU_BAR0, m->peer_spad + 8, 4) == (m->gen3 ? 0x55 : 0xffffffff),
	      m->gen3 ? "though it reads back" : "and they read as all ones");
	check(rd(a, VU_BAR4, 0, 4) == 0xffffffff, "windows read as all ones");
	if (!m->gen3)
		wr(a, VU_BAR0, 0xb05a, 0x100, 2);
	wr(a, VU_BAR0, 0x40, 1ull << 32, 8);
	check(did("link t up") && fired(a, LINK_VECTOR, 2000) == 1 &&
	      rd(a, VU_BAR4, 0, 4) != 0xffffffff, "it is back, and so are the windows");
	check(!rd(b, VU_BAR0, 0x88, 4), "what was lost is not");
	drain_irqs(a);
	want_link(b, false);
	if (!m->gen3)
		wr(a, VU_BAR0, 0xb05a, 0x100, 2);
	wr(a, VU_BAR0, 0x40, 1ull << 32, 8);
	check(link_is("\"trained\":false", 0) && !(link_status(a) & 0x2000),
	      "a driver that leaves takes it down");
	want_link(b, true);
	check(link_is("\"trained\":true", 2000), "another one brings it up");
	check(!call(b, VU_RESET, NULL, 0, NULL, 0, NULL, 0) && rd(a, VU_BAR4, 0, 4) == 0xffffffff &&
	      link_is("\"trained\":false", 300), "a reset forgets all");
}

static int test_model(const char *binary)
{
	struct peer a, b;
	char more[32];

	snprintf(more, sizeof(more), ",family=%s", m->family);
	begin(binary, more);
	attach(&a, path_a);
	attach(&b, path_b);
	test_identity(&a, &b);
	test_link(&a, &b);
	test_scratchpads(&a, &b);
	test_doorbells(&a, &b);
	test_windows(&a, &b);
	test_loss(&a, &b);
	detach(&a);
	detach(&b);
	return end(m + 1 == models + ARRAY_SIZE(models));
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc != 2)
		bail("usage: selftest_intel PATH_OF_NTBSIM");
	for (m = models; m < models + ARRAY_SIZE(models); m++)
		failed |= test_model(argv[1]);
	return failed;
}
