// SPDX-License-Identifier: GPL-2.0
/*
 * Test of ntbsim without QEMU, and of its model of AMD's bridges: two clients drive one link
 * through its sockets, as the kernel's ntb_hw_amd would.
 *
 *   selftest PATH_OF_NTBSIM
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "util.h"

/* What QEMU and the driver do until the driver is ready. */
static void bring_up(struct peer *p)
{
	wr(p, VU_CONFIG, 4, 0x6, 2);
	if (dma_map(p, RAM_IOVA, RAM_SIZE, 0, 3, p->ram_fd) ||
	    dma_map(p, RO_IOVA, 0x1000, 0, 1, p->ram_fd) ||
	    dma_map(p, DEV_IOVA, 0x1000, 0, 3, -1))
		bail("dma map");
	if (set_irqs(p, 0, 16, true) || set_irqs(p, 16, 8, true))
		bail("irqs");
	wr(p, VU_BAR0, 0x45c, 0x7fff, 2);
	wr(p, VU_BAR0, 0x470, 0x1f, 4);
	wr(p, VU_BAR0, 0x408, 2, 4);
}

/* What the driver does about a link event. */
static void handle(struct peer *p, uint32_t event)
{
	wr(p, VU_BAR0, 0x4a0, event, 4);
	wr(p, VU_BAR0, 0x474, event, 4);
}

/* Both drivers take note of what they are told, until the link is up. */
static bool comes_up(struct peer *a, struct peer *b)
{
	unsigned int i;

	for (i = 0; i < 200; i++) {
		handle(a, rd(a, VU_BAR0, 0x474, 4));
		handle(b, rd(b, VU_BAR0, 0x474, 4));
		if (link_is("\"up\":true", 0))
			return true;
		usleep(10000);
	}
	return false;
}

/* Write the peer's registers, as ntb_mw_set_trans() does. */
static void set_trans(struct peer *p, int bar, uint64_t addr, uint64_t size)
{
	wr(p, VU_BAR0, 0x838 + (bar - 2) * 4, addr, 8);
	wr(p, VU_BAR0, 0x818 + (bar - 2) * 4, size, 8);
}

/* ---- the tests ---- */

static void test_identity(struct peer *a, struct peer *b)
{
	struct vu_dev_info i = { .argsz = sizeof(i) };
	struct vu_region_info r = { .argsz = sizeof(r), .index = VU_BAR4 };
	struct vu_irq_info q = { .argsz = sizeof(q), .index = VU_IRQ_MSIX };

	ok(!call(a, VU_GET_INFO, &i, sizeof(i), NULL, 0, &i, sizeof(i)) && i.regions == 9 &&
	   i.irqs == 5, "device info");
	ok(!call(a, VU_GET_REGION_INFO, &r, sizeof(r), NULL, 0, &r, sizeof(r)) &&
	   r.size == 1 << 20 && r.flags == 3, "BAR4 has the size asked for");
	ok(!call(a, VU_GET_IRQ_INFO, &q, sizeof(q), NULL, 0, &q, sizeof(q)) && q.count == 24,
	   "24 vectors");
	ok(rd(a, VU_CONFIG, 0, 4) == 0x17d71022, "vendor and device id");
	ok(rd(a, VU_CONFIG, 0x50, 4) >> 16 == 0x103, "link status Gen3 x16");
	ok(!(rd(a, VU_BAR0, 0x408, 4) & 1) && rd(b, VU_BAR0, 0x408, 4) & 1,
	   "a is primary, b is secondary");
	wr(a, VU_CONFIG, 0, 0, 4);
	ok(rd(a, VU_CONFIG, 0, 4) == 0x17d71022, "identity is read-only");
}

static void test_link_up(struct peer *a, struct peer *b)
{
	ok(link_is("\"trained\":true", 2000), "link trains once both clients are there");
	ok(link_is("\"up\":false", 0), "but is not up without drivers");
	bring_up(a);
	ok(!fired(a, 16 + 5, 250) && !rd(a, VU_BAR0, 0x474, 4),
	   "a driver that has only just become ready hears of no event");
	wr(a, VU_BAR0, 0x470, 0x1f, 4);
	ok(!fired(a, 16 + 5, 350), "what it configures puts the event off");
	ok(fired(a, 16 + 5, 1000) == 1, "then the link-up event comes");
	ok(rd(a, VU_BAR0, 0x474, 4) == 0x20, "INTSTAT says link up");
	handle(a, 0x20);
	ok(rd(a, VU_BAR0, 0x474, 4) == 0, "INTSTAT is cleared by writing 1");
	ok(rd(a, VU_BAR0, 0x4a0, 4) == 0, "SMUACK reads 0");
	ok(!(rd(a, VU_BAR0, 0x808, 4) & 2), "the peer is not ready");
	bring_up(b);
	ok(rd(a, VU_BAR0, 0x808, 4) == 1 && rd(b, VU_BAR0, 0x808, 4) == 0 &&
	   link_is("\"up\":false", 0), "READY of the peer waits for the event");
	wr(a, VU_BAR0, 0x808, 0, 4);
	ok(fired(b, 16 + 5, 1500) == 1, "that comes to the other one, too");
	wr(a, VU_BAR0, 0x8a0, 0x20, 4);
	wr(b, VU_BAR0, 0x4a0, 0x40, 4);
	ok(rd(a, VU_BAR0, 0x808, 4) == 1 && rd(b, VU_BAR0, 0x808, 4) == 0 &&
	   link_is("\"up\":false", 0), "and until it has acknowledged that one");
	handle(b, 0x20);
	ok(rd(a, VU_BAR0, 0x808, 4) == 3 && rd(b, VU_BAR0, 0x808, 4) == 2,
	   "SIDEINFO of the ready peer is mirrored");
	ok(link_is("\"up\":true", 0), "link is up");
	drain_irqs(a);
	drain_irqs(b);
}

/* Events that a driver leaves behind, or missed, must not disturb the next driver's probe. */
static void test_reload(struct peer *a, struct peer *b)
{
	wr(b, VU_BAR0, 0x408, 0, 4);
	ok(!(rd(a, VU_BAR0, 0x808, 4) & 2) && link_is("\"up\":false", 0), "a driver leaves");
	ok(!rd(b, VU_BAR0, 0x474, 4), "no event is left behind");
	bring_up(b);
	ok(rd(a, VU_BAR0, 0x808, 4) == 3 && !fired(b, 16 + 5, LINK_DELAY_MS + 100),
	   "another one finds the link up, without an event");
	wr(b, VU_BAR0, 0x408, 0, 4);
	ok(did("link t down") && did("link t up") && link_is("\"trained\":true", 2000) &&
	   !rd(b, VU_BAR0, 0x474, 4), "without a driver no event is latched");
	bring_up(b);
	ok(!fired(b, 16 + 6, 200) && !fired(b, 16 + 5, 0) && fired(b, 16 + 5, 1500) == 1,
	   "the next one hears of the link when it has settled");
	wr(b, VU_BAR0, 0x408, 0, 4);
	bring_up(b);
	ok(fired(b, 16 + 5, 1500) == 1,
	   "one that comes before anybody took note of that, does so again");
	ok(comes_up(a, b), "and then the link is up");
	drain_irqs(a);
	drain_irqs(b);
}

static void test_scratchpads(struct peer *a, struct peer *b)
{
	wr(a, VU_BAR0, 0x230, 0x12345678, 4);
	ok(rd(b, VU_BAR0, 0x230, 4) == 0x12345678, "scratchpads are shared");
	ok(did("spad t 9 0xcafe") && rd(a, VU_BAR0, 0x234, 4) == 0xcafe,
	   "spad command sets one");
	ok(!strcmp(control("spad t 9", NULL), "0x0000cafe\nok\n"), "and shows it");
	ok(refused("spad t 16 0") && refused("spad x 0 0"), "bad ones are refused");
	ok(did("override t b 9 0xbeef") && rd(b, VU_BAR0, 0x234, 4) == 0xbeef,
	   "an overridden scratchpad reads otherwise");
	ok(rd(a, VU_BAR0, 0x234, 4) == 0xcafe && rd(b, VU_BAR0, 0x230, 4) == 0x12345678,
	   "on that side only, and only that one");
	wr(a, VU_BAR0, 0x234, 0xd00d, 4);
	ok(rd(b, VU_BAR0, 0x234, 4) == 0xbeef && rd(a, VU_BAR0, 0x234, 4) == 0xd00d &&
	   !strcmp(control("spad t 9", NULL), "0x0000d00d\nok\n"), "whatever is written");
	ok(did("override t b off") && rd(b, VU_BAR0, 0x234, 4) == 0xd00d,
	   "without the override what was written is read");
	ok(refused("override t b 16 0") && refused("override t c off") &&
	   refused("override t b 9") && refused("override t b off 9") &&
	   refused("override t b 9 0x100000000"), "bad overrides are refused");
}

static void test_doorbells(struct peer *a, struct peer *b)
{
	wr(b, VU_BAR0, 0x45c, 0x7ff7, 2);
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(fired(b, 3, 500) == 1, "doorbell 3 fires vector 3");
	ok(rd(b, VU_BAR0, 0x460, 2) == 8 && rd(a, VU_BAR0, 0x458, 2) == 8,
	   "DBSTAT is set, and mirrored to the ringer");
	wr(b, VU_BAR0, 0x460, 0x8, 2);
	ok(rd(b, VU_BAR0, 0x460, 2) == 0, "DBSTAT is cleared by writing 1");
	wr(a, VU_BAR0, 0x454, 0x10, 2);
	ok(rd(b, VU_BAR0, 0x460, 2) == 0x10 && !fired(b, 4, 50), "a masked doorbell latches");
	wr(b, VU_BAR0, 0x45c, 0x7fe7, 2);
	ok(fired(b, 4, 500) == 1, "and fires when it is unmasked");
	wr(b, VU_BAR0, 0x460, 0x10, 2);
	ok(did("doorbell t a drop 1"), "drop 1");
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(!fired(b, 3, 50) && !rd(b, VU_BAR0, 0x460, 2), "the next doorbell is lost");
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(fired(b, 3, 500) == 1, "the one after it is not");
	ok(did("doorbell t a delay 200"), "delay 200");
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(!fired(b, 3, 80) && fired(b, 3, 1000) == 1, "a delayed doorbell comes later");
	ok(did("doorbell t a normal") && refused("doorbell t a drop") &&
	   refused("doorbell t c normal"), "normal again; nonsense is refused");
	wr(b, VU_BAR0, 0x45c, 0x7fe4, 2);
	ok(did("doorbell t a flood 3") && fired(b, 0, 500) && fired(b, 1, 500) && fired(b, 0, 500),
	   "flood: doorbells 0 and 1, again and again");
	ok(did("doorbell t a normal"), "until normal");
	wr(b, VU_BAR0, 0x45c, 0x7fe7, 2);
	wr(b, VU_BAR0, 0x460, 0xffff, 2);
	drain_irqs(b);
}

static void test_windows(struct peer *a, struct peer *b)
{
	uint64_t v;

	ok(rd(a, VU_BAR4, 0, 4) == 0xffffffff, "a window without translation reads all ones");
	set_trans(b, 4, RAM_IOVA + 0x2000, 0x4000);
	ok(rd(b, VU_BAR0, 0x840, 8) == RAM_IOVA + 0x2000 &&
	   rd(a, VU_BAR0, 0x440, 8) == RAM_IOVA + 0x2000, "translation is read back");
	wr(a, VU_BAR4, 0x10, 0x1122334455667788, 8);
	memcpy(&v, b->ram + 0x2010, 8);
	ok(v == 0x1122334455667788, "8 byte write arrives in RAM");
	wr(a, VU_BAR4, 0x12, 0xab, 1);
	ok(rd(a, VU_BAR4, 0x10, 8) == 0x1122334455ab7788, "1 byte write, 8 byte read");
	ok(rd(a, VU_BAR4, 0x11, 4) == 0x4455ab77, "unaligned read");
	ok(rd(a, VU_BAR4, 0x3ff8, 8) != ~0ull && rd(a, VU_BAR4, 0x4000, 8) == ~0ull &&
	   rd(a, VU_BAR4, 0x3ffc, 8) == ~0ull, "the limit is exact");
	ok(rd(b, VU_BAR4, 0, 8) == ~0ull, "the other direction is still closed");
	set_trans(a, 2, RAM_IOVA, 0x1000);
	memcpy(a->ram + 0x20, "ntbsim!", 8);
	v = rd(b, VU_BAR2, 0x20, 8);
	ok(!memcmp(&v, "ntbsim!", 8), "BAR2 the other way");
	ok(stat_of('a', "write_bytes") == 9 && stat_of('a', "faults") == 0, "counted");
}

static bool byte_becomes(const volatile uint8_t *byte, uint8_t value, int ms)
{
	for (; *byte != value && ms > 0; ms -= 5)
		usleep(5000);
	return *byte == value;
}

/* What a device writes may arrive after what a processor wrote, and after its doorbell. */
static void test_late(struct peer *a, struct peer *b)
{
	volatile uint8_t *below = &b->ram[0x100], *beyond = &b->ram[0x2100];

	set_trans(b, 4, RAM_IOVA, 0x4000);
	memset(b->ram, 0, 0x4000);
	wr(b, VU_BAR0, 0x45c, 0x7ff7, 2);
	drain_irqs(b);
	ok(did("window t a late 10000 0x2000"), "writes beyond an offset are late");
	wr(a, VU_BAR4, 0x2100, 0x11, 1);
	wr(a, VU_BAR4, 0x2101, 0x22, 1);
	wr(a, VU_BAR4, 0x100, 0x33, 1);
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(*below == 0x33 && !*beyond && fired(b, 3, 500) == 1,
	   "what was written below after them is there, and so is the doorbell");
	ok(rd(a, VU_BAR4, 0x100, 1) == 0x33 && *beyond == 0x11 && beyond[1] == 0x22,
	   "a read pushes them");
	wr(a, VU_BAR4, 0x2100, 0x44, 1);
	ok(*beyond == 0x11 && did("window t a normal") && *beyond == 0x44,
	   "and so does the end of that");
	ok(did("window t a late 20 0x2000"), "for 20 ms at most");
	wr(a, VU_BAR4, 0x2100, 0x55, 1);
	ok(byte_becomes(beyond, 0x55, 1000) && stat_of('a', "late") == 4,
	   "they come by themselves, too");
	ok(did("window t a normal") && refused("window t a late 5") &&
	   refused("window t a late 0 0") && refused("window t c normal"),
	   "normal again; nonsense is refused");
	wr(b, VU_BAR0, 0x45c, 0x7fe7, 2);
	wr(b, VU_BAR0, 0x460, 0xffff, 2);
	drain_irqs(b);
}

/* A processor waits for what it reads; a device's reads are wider. */
static void test_slow(struct peer *a, struct peer *b)
{
	long long begin, slow = stat_of('a', "slow");

	set_trans(b, 4, RAM_IOVA, 0x4000);
	memset(b->ram, 0x77, 16);
	ok(did("window t a slow 100"), "a processor's reads are slow");
	begin = now_ms();
	ok(rd(a, VU_BAR4, 0, 8) == 0x7777777777777777 && stat_of('a', "slow") == slow,
	   "a device's are not");
	ok(rd(a, VU_BAR4, 4, 4) == 0x77777777 && now_ms() - begin >= 100 &&
	   stat_of('a', "slow") == slow + 1, "its answer comes later");
	ok(did("window t a normal") && rd(a, VU_BAR4, 4, 4) == 0x77777777 &&
	   stat_of('a', "slow") == slow + 1 && refused("window t a slow 0") &&
	   refused("window t a slow 5 6") && refused("window t a slow 9999"),
	   "normal again; nonsense is refused");
}

/* So may its interrupts, which come through the other window. */
static void test_late_interrupts(struct peer *a, struct peer *b)
{
	long long faults = stat_of('b', "faults"), late = stat_of('a', "late");
	volatile uint8_t *data = &b->ram[0x2100];

	set_trans(b, 4, RAM_IOVA, 0x4000);
	*data = 0;
	ok(did("window t a late 10000 interrupts"), "interrupts are late");
	wr(a, VU_BAR4, 0x2100, 0x66, 1);
	ok(*data == 0x66, "data are not");
	set_trans(b, 4, 0xfee00000, 0x1000);
	wr(a, VU_BAR4, 8, 1, 4);
	serve(b, 100);
	ok(stat_of('b', "faults") == faults && stat_of('a', "late") == late + 1,
	   "what leads to where processors take them has not arrived");
	ok(did("window t a normal"), "the end of that pushes it");
	serve(b, 100);
	ok(stat_of('b', "faults") == faults + 1, "to a host that takes no interrupt there");
}

static void test_faults(struct peer *a, struct peer *b)
{
	long long before = stat_of('b', "faults");

	set_trans(b, 4, RO_IOVA, 0x1000);
	memset(b->ram, 0x5a, 16);
	wr(a, VU_BAR4, 0, 0, 8);
	ok(rd(a, VU_BAR4, 0, 8) == 0x5a5a5a5a5a5a5a5a, "a read-only map is not written");
	ok(stat_of('b', "faults") == before + 1, "and that is a fault");
	set_trans(b, 4, NOWHERE, 0x1000);
	ok(rd_other(a, VU_BAR4, 8, 4, b) == 0xffffffff, "unmapped: all ones");
	wr(a, VU_BAR4, 8, 1, 4);
	serve(b, 100);
	ok(stat_of('b', "faults") == before + 3, "unmapped read and write are faults");
	ok(strstr(control("status", NULL), "\"last_fault\":\"0x40000008\""), "with address");
	wr(b, VU_CONFIG, 4, 0x2, 2);
	set_trans(b, 4, RAM_IOVA, 0x1000);
	ok(rd(a, VU_BAR4, 0, 4) == 0xffffffff, "no DMA without Bus Master Enable");
	wr(b, VU_CONFIG, 4, 0x6, 2);
	ok(rd(a, VU_BAR4, 0, 4) == 0x5a5a5a5a, "DMA with it");
}

static void test_messages(struct peer *a, struct peer *b)
{
	set_trans(b, 4, DEV_IOVA, 0x1000);
	b->dev_value = 0x8877665544332211;
	ok(rd_other(a, VU_BAR4, 0x40, 4, b) == 0x44332211, "a device is read by message");
	wr(a, VU_BAR4, 0x40, 0xfeedface, 4);
	serve(b, 100);
	ok(b->dev_written == 0xfeedface && b->dev_last_len == 4, "and written");
	ok(stat_of('b', "inflight") == 0, "nothing is left under way");
}

static void test_timeout(struct peer *a, struct peer *b)
{
	uint64_t start = now_ms();
	long long before = stat_of('b', "timeouts");

	b->dev_mute = true;
	ok(rd_other(a, VU_BAR4, 0x40, 4, b) == 0xffffffff && now_ms() - start > 1500 &&
	   now_ms() - start < 3500, "a read that nobody answers is given up after 2 s");
	ok(stat_of('b', "timeouts") == before + 1, "counted");
	b->dev_mute = false;
	ok(rd_other(a, VU_BAR4, 0x40, 4, b) == 0x44332211, "the next one works");
}

static void test_multi(struct peer *a, struct peer *b)
{
	struct { uint64_t n; struct vu_write_one w[3]; } m = { .n = 3 };
	unsigned int i;

	set_trans(b, 4, RAM_IOVA, 0x1000);
	for (i = 0; i < 3; i++) {
		m.w[i].rw = (struct vu_region_rw){ 0x200 + 4 * i, VU_BAR4, 4 };
		memset(m.w[i].data, 0x10 + i, 4);
	}
	ok(!call(a, VU_REGION_WRITE_MULTI, &m, sizeof(m), NULL, 0, NULL, 0) &&
	   !memcmp(b->ram + 0x200, "\x10\x10\x10\x10\x11\x11\x11\x11\x12\x12\x12\x12", 12),
	   "many writes in one message");
	m.n = 4;
	ok(call(a, VU_REGION_WRITE_MULTI, &m, sizeof(m), NULL, 0, NULL, 0) == EINVAL,
	   "fewer than it says are refused");
	set_trans(b, 4, DEV_IOVA, 0x1000);
}

/* A request that comes while a read waits is answered after it, in order. */
static void test_order(struct peer *a, struct peer *b)
{
	struct vu_region_rw win = { .offset = 0x40, .region = VU_BAR4, .count = 4 };
	struct vu_region_rw reg = { .offset = 0x408, .region = VU_BAR0, .count = 4 };
	uint8_t body[8192];
	struct vu_hdr h;
	uint16_t first, second;

	first = request(a, VU_REGION_READ, &win, sizeof(win), NULL, 0, NULL, 0);
	second = request(a, VU_REGION_READ, &reg, sizeof(reg), NULL, 0, NULL, 0);
	ok(!recv_msg(a, &h, body, sizeof(body), 100), "nothing overtakes a read");
	serve(b, 100);
	ok(recv_msg(a, &h, body, sizeof(body), 1000) && h.id == first &&
	   recv_msg(a, &h, body, sizeof(body), 1000) && h.id == second, "answers in order");
}

/* Serve one message of the server, as QEMU does. */
static bool serve_one(struct peer *p)
{
	uint8_t body[8192];
	struct vu_hdr h;

	return recv_msg(p, &h, body, sizeof(body), 1000) &&
	       (h.flags & VU_TYPE_MASK) != VU_REPLY;
}

/* The peer reaches @to's device by BAR4, its RAM by BAR2, and doorbell 3 is heard. */
static void two_windows(struct peer *to)
{
	set_trans(to, 4, DEV_IOVA, 0x1000);
	set_trans(to, 2, RAM_IOVA, 0x4000);
	memset(to->ram, 0x11, 0x4000);
	wr(to, VU_BAR0, 0x45c, 0x7ff7, 2);
	drain_irqs(to);
}

/* Data to a device, then a completion entry in RAM and a doorbell: as a lent device would. */
static void test_posted(struct peer *a, struct peer *b)
{
	long long held = stat_of('b', "held"), bells = stat_of('b', "held_doorbells");

	two_windows(b);
	wr(a, VU_BAR2, 0x100, 0x22, 1);
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(b->ram[0x100] == 0x22 && fired(b, 3, 500) == 1 && stat_of('b', "held") == held &&
	   stat_of('b', "held_doorbells") == bells, "with nothing under way nothing waits");
	wr(b, VU_BAR0, 0x460, 0x8, 2);
	wr(a, VU_BAR4, 0x40, 0xda7a, 4);
	wr(a, VU_BAR2, 0x100, 0x33, 1);
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(!byte_becomes(b->ram + 0x100, 0x33, 100), "a RAM write waits for a message before it");
	ok(!fired(b, 3, 50), "so does a doorbell's interrupt");
	ok(rd(a, VU_BAR0, 0x458, 2) == 0, "and its bit");
	ok(stat_of('b', "held") == held + 1 && stat_of('b', "held_doorbells") == bells + 1 &&
	   stat_of('b', "waiting") == 2, "counted");
	ok(serve_one(b) && b->dev_written == 0xda7a && byte_becomes(b->ram + 0x100, 0x33, 1000) &&
	   fired(b, 3, 500) == 1 && stat_of('b', "waiting") == 0, "all come after it");
	wr(b, VU_BAR0, 0x460, 0x8, 2);
}

/* Message, RAM, message, RAM, doorbell: each only after the one before. */
static void test_posted_chain(struct peer *a, struct peer *b)
{
	two_windows(b);
	wr(a, VU_BAR4, 0x40, 1, 4);
	wr(a, VU_BAR2, 0x200, 0x22, 1);
	wr(a, VU_BAR4, 0x40, 2, 4);
	wr(a, VU_BAR2, 0x200, 0x33, 1);
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(serve_one(b) && b->dev_written == 1, "the first message");
	ok(byte_becomes(b->ram + 0x200, 0x22, 1000) && !byte_becomes(b->ram + 0x200, 0x33, 50) &&
	   !fired(b, 3, 0), "the RAM write behind it, and no more");
	ok(serve_one(b) && b->dev_written == 2 && byte_becomes(b->ram + 0x200, 0x33, 1000) &&
	   fired(b, 3, 500) == 1, "the second message and what waited for it");
	wr(b, VU_BAR0, 0x460, 0x8, 2);
}

static void test_posted_reads(struct peer *a, struct peer *b)
{
	unsigned int writes = b->dev_writes;

	two_windows(b);
	wr(a, VU_BAR4, 0x40, 1, 4);
	wr(a, VU_BAR2, 0x100, 0x44332222, 4);
	wr(a, VU_BAR2, 0x102, 0x33, 1);
	ok(rd(a, VU_BAR2, 0x100, 8) == 0x1111111144332222 &&
	   rd(a, VU_BAR2, 0xff, 2) == 0x2211 && rd(a, VU_BAR2, 0x103, 8) == 0x1111111111111144,
	   "a read of RAM sees writes that wait, and does not wait itself");
	ok(b->ram[0x100] == 0x11, "though they have not arrived");
	wr(a, VU_BAR4, 0x40, 2, 4);
	ok(rd_other(a, VU_BAR4, 0x40, 4, b) == 0x44332211 && b->dev_writes == writes + 2 &&
	   b->writes_at_read == writes + 2, "a read of a device comes after the writes before it");
	ok(b->ram[0x102] == 0x33, "and pushed those to RAM");
}

/* More writes than a client sends in one message; the last value shows their order. */
static void test_posted_bulk(struct peer *a, struct peer *b)
{
	struct { uint64_t n; struct vu_write_one w[200]; } m = { .n = 200 };
	long long held = stat_of('b', "held"), lost = stat_of('b', "timeouts");
	unsigned int i, j;
	char normal[32];
	bool good;

	/* However long it takes to send all of them: the first must not be given up meanwhile. */
	good = did("patience 3600000") && refused("patience 3600001") && refused("patience");
	two_windows(b);
	wr(a, VU_BAR4, 0x40, 1, 4);
	for (j = 0; j < 400; j++) {
		for (i = 0; i < 200; i++) {
			m.w[i].rw = (struct vu_region_rw){ 8 * (i + 1), VU_BAR2, 8 };
			memset(m.w[i].data, j, 8);
		}
		good &= !call(a, VU_REGION_WRITE_MULTI, &m, sizeof(m), NULL, 0, NULL, 0);
	}
	ok(good && stat_of('b', "held") == held + 65536 &&
	   stat_of('b', "timeouts") == lost + 400 * 200 - 65536, "how much is held is bounded");
	ok(serve_one(b) && byte_becomes(b->ram + 8, 327 & 0xff, 5000) &&
	   rd(a, VU_BAR2, 1600, 8) == 0x4646464646464646, "all of it arrives, in order");
	snprintf(normal, sizeof(normal), "patience %d", WRITE_TIMEOUT_MS);
	ok(did(normal), "as patient as before");
}

/*
 * Both hosts have writes under way to the other one, whose QEMU does not answer because it
 * waits for a read of its own: reads of RAM must not wait for that.
 */
static void test_posted_deadlock(struct peer *a, struct peer *b)
{
	long long lost = stat_of('b', "timeouts");
	uint64_t start = now_ms();

	two_windows(a);
	two_windows(b);
	a->dev_mute = true;
	b->dev_mute = true;
	wr(a, VU_BAR4, 0x40, 1, 4);
	wr(b, VU_BAR4, 0x40, 1, 4);
	wr(a, VU_BAR2, 0x100, 0x22, 1);
	wr(b, VU_BAR2, 0x100, 0x33, 1);
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(rd(a, VU_BAR2, 0x100, 1) == 0x22 && rd(b, VU_BAR2, 0x100, 1) == 0x33 &&
	   a->ram[0x100] == 0x11 && b->ram[0x100] == 0x11 && now_ms() - start < 1000,
	   "two hosts that read each other's RAM do not wait for each other");
	ok(rd(a, VU_BAR4, 0x40, 4) == 0xffffffff && now_ms() - start < WRITE_TIMEOUT_MS,
	   "a read of a device waits for its own time only");
	ok(b->ram[0x100] == 0x11 && byte_becomes(b->ram + 0x100, 0x22, 2 * WRITE_TIMEOUT_MS) &&
	   byte_becomes(a->ram + 0x100, 0x33, WRITE_TIMEOUT_MS) && fired(b, 3, 500) == 1,
	   "a write that is given up holds nothing back any more");
	ok(stat_of('b', "timeouts") == lost + 2, "counted");
	a->dev_mute = false;
	b->dev_mute = false;
	serve(a, 50);
	serve(b, 50);
	wr(b, VU_BAR0, 0x460, 0x8, 2);
}

static void test_posted_counters(struct peer *a, struct peer *b)
{
	long long ram = stat_of('b', "ram_writes"), none = stat_of('b', "dma_writes_unmapped");
	long long other = stat_of('b', "dma_writes_not_ram"), all = stat_of('b', "dma_writes");

	two_windows(b);
	wr(a, VU_BAR2, 0, 1, 4);
	wr(a, VU_BAR4, 0, 1, 4);
	wr(a, VU_BAR4, 0, 1, 4);
	set_trans(b, 2, NOWHERE, 0x1000);
	wr(a, VU_BAR2, 0, 1, 4);
	serve(b, 100);
	ok(stat_of('b', "ram_writes") == ram + 1 && stat_of('b', "dma_writes") == all + 3 &&
	   stat_of('b', "dma_writes_not_ram") == other + 2 &&
	   stat_of('b', "dma_writes_unmapped") == none + 1,
	   "writes are counted by where they lead");
}

/* Writes that wait are lost when the function is reset, and when the host goes. */
static void test_posted_reset(struct peer *a, struct peer *b)
{
	two_windows(b);
	b->dev_mute = true;
	wr(a, VU_BAR4, 0x40, 1, 4);
	wr(a, VU_BAR2, 0x100, 0x22, 1);
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(stat_of('b', "waiting") == 2 && !call(b, VU_RESET, NULL, 0, NULL, 0, NULL, 0) &&
	   stat_of('b', "waiting") == 0, "a reset drops what is held");
	b->dev_mute = false;
	bring_up(b);
	ok(!byte_becomes(b->ram + 0x100, 0x22, WRITE_TIMEOUT_MS + 500) &&
	   !rd(b, VU_BAR0, 0x460, 2),
	   "and it does not arrive later");
	ok(comes_up(a, b), "the link comes back");
	two_windows(b);
	wr(a, VU_BAR4, 0x40, 1, 4);
	wr(a, VU_BAR2, 0x100, 0x22, 1);
	detach(b);
	ok(link_is("\"connected\":false", 2000) && stat_of('b', "waiting") == 0 &&
	   stat_of('b', "inflight") == 0, "nothing waits for a host that left");
	attach(b, path_b);
	bring_up(b);
	ok(comes_up(a, b), "the link comes back once more");
}

static void test_maps(struct peer *a, struct peer *b)
{
	ok(dma_unmap(b, RAM_IOVA + 0x1000, 0x1000, 0) == 0, "unmap the middle of a map");
	set_trans(b, 4, RAM_IOVA, 0x8000);
	b->ram[0xfff] = 1;
	b->ram[0x2000] = 2;
	ok(rd(a, VU_BAR4, 0xfff, 1) == 1 && rd(a, VU_BAR4, 0x2000, 1) == 2,
	   "both ends of it stay");
	ok(rd_other(a, VU_BAR4, 0x1000, 1, b) == 0xff, "the middle is gone");
	ok(dma_map(b, RAM_IOVA + 0x1000, 0x1000, 0x8000, 3, b->ram_fd) == 0, "map a hole");
	b->ram[0x8000] = 3;
	b->ram[0x8001] = 4;
	ok(rd(a, VU_BAR4, 0x1000, 2) == 0x0403, "another page is there now");
	memset(b->ram + 0xffc, 0x11, 4);
	memset(b->ram + 0x8000, 0x22, 4);
	ok(rd(a, VU_BAR4, 0xffc, 8) == 0x2222222211111111, "an access across two maps");
	ok(dma_map(b, 0x7000, 0x1000, RAM_SIZE, 3, b->ram_fd) == ERANGE,
	   "a map past the end of its file is refused");
	ok(dma_map(b, UINT64_MAX - 0xfff, 0x2000, 0, 3, -1) == EINVAL, "a map that wraps, too");
	ok(dma_unmap(b, 0, 0, VU_UNMAP_ALL) == 0 && stat_of('b', "maps") == 0, "unmap all");
	ok(rd_other(a, VU_BAR4, 0x2000, 1, b) == 0xff, "nothing is reachable");
	ok(dma_map(b, RAM_IOVA, RAM_SIZE, 0, 3, b->ram_fd) == 0, "map again");
}

static void test_poke(struct peer *a, struct peer *b)
{
	(void)a;
	set_trans(b, 4, RAM_IOVA, 0x1000);
	ok(did("poke t b 4 0x100 deadbeef01") &&
	   !memcmp(b->ram + 0x100, "\xde\xad\xbe\xef\x01", 5), "poke writes into the window");
	ok(!strcmp(control("peek t b 4 0x100 5", NULL), "deadbeef01\nok\n"), "peek reads");
	ok(refused("poke t b 4 0x1000 00") && refused("peek t b 4 0x1000 1") &&
	   refused("poke t b 4 0 0g") && refused("peek t b 3 0 1"), "outside is refused");
	set_trans(b, 4, DEV_IOVA, 0x1000);
	dma_map(b, DEV_IOVA, 0x1000, 0, 3, -1);
	ok(!strcmp(control("peek t b 4 0 4", b), "11223344\nok\n"), "peek by message");
}

static void test_silent(struct peer *a, struct peer *b)
{
	set_trans(b, 4, RAM_IOVA, 0x1000);
	memset(b->ram, 0, 16);
	drain_irqs(b);
	ok(did("silent t a on"), "silent on");
	wr(a, VU_BAR4, 0, 1, 4);
	wr(a, VU_BAR0, 0x454, 0x8, 2);
	ok(!b->ram[0] && !fired(b, 3, 50), "writes and doorbells of a silent side are lost");
	ok(rd(b, VU_BAR2, 0, 4) == 0xffffffff, "it reads as all ones");
	ok(link_is("\"up\":true", 0) && rd(b, VU_BAR0, 0x808, 4) & 2, "the link looks up");
	ok(did("silent t a off"), "silent off");
	wr(a, VU_BAR4, 0, 1, 4);
	ok(b->ram[0] == 1, "it is heard again");
}

static void test_mute(struct peer *a, struct peer *b)
{
	set_trans(b, 4, RAM_IOVA, 0x1000);
	memset(b->ram, 0, 16);
	ok(did("mute t a 4 4 4"), "mute");
	wr(a, VU_BAR4, 0, 1, 4);
	wr(a, VU_BAR4, 4, 2, 4);
	wr(a, VU_BAR4, 8, 3, 4);
	ok(b->ram[0] == 1 && !b->ram[4] && b->ram[8] == 3,
	   "what is written there is lost, and no more");
	ok(did("poke t b 4 4 05") && b->ram[4] == 5, "poke writes there all the same");
	ok(refused("mute t a 3 0 1") && refused("mute t c 4 0 1") && refused("mute t a 4 0"),
	   "mute: bad arguments");
	ok(did("mute t a 4 0 0"), "mute nothing");
	wr(a, VU_BAR4, 4, 2, 4);
	ok(b->ram[4] == 2, "it is heard again there");
}

static void test_cut(struct peer *a, struct peer *b)
{
	drain_irqs(a);
	drain_irqs(b);
	ok(did("link t down"), "link down");
	ok(fired(a, 16 + 6, 500) && fired(b, 16 + 6, 500), "both sides get the event");
	ok(rd(b, VU_BAR0, 0x474, 4) == 0x40, "INTSTAT says link down");
	ok(!(rd(a, VU_BAR0, 0x808, 4) & 2), "the peer is not ready any more");
	wr(a, VU_BAR4, 0, 0, 4);
	ok(rd(a, VU_BAR4, 0, 4) == 0xffffffff && b->ram[0] == 1, "windows lead nowhere");
	ok(did("link t up") && fired(a, 16 + 5, 1000) && fired(b, 16 + 5, 1000), "link up");
	ok(rd(a, VU_BAR4, 0, 4) == 1, "translations are as they were");
	wr(a, VU_BAR0, 0x808, 0, 4);
	handle(a, 0x20);
	ok(rd(a, VU_BAR0, 0x808, 4) == 1 && rd(b, VU_BAR0, 0x808, 4) == 0,
	   "READY neither shows nor can be taken away until both have taken note");
	handle(b, 0x20);
	ok(rd(a, VU_BAR0, 0x808, 4) == 3 && rd(b, VU_BAR0, 0x808, 4) == 2, "then it shows");
}

static void test_death(struct peer *a, struct peer *b)
{
	struct vu_region_rw rw = { .offset = 0, .region = VU_BAR4, .count = 4 };
	struct { struct vu_region_rw rw; uint32_t v; } r;
	uint16_t id;

	set_trans(b, 4, DEV_IOVA, 0x1000);
	id = request(a, VU_REGION_READ, &rw, sizeof(rw), NULL, 0, NULL, 0);
	usleep(50000);
	drain_irqs(a);
	detach(b);
	ok(!wait_reply(a, id, &r, sizeof(r), NULL) && r.v == 0xffffffff,
	   "a read of a host that dies gets all ones");
	ok(fired(a, 16 + 6, 1000), "its death is a link-down event");
	ok(rd(a, VU_BAR4, 0, 4) == 0xffffffff, "its memory is out of reach");
	attach(b, path_b);
	ok(fired(a, 16 + 5, 2000), "its return is a link-up event");
	ok(!(rd(a, VU_BAR0, 0x808, 4) & 2), "without a driver yet");
	bring_up(b);
	ok(comes_up(a, b), "and is up with it");
	ok(rd(a, VU_BAR4, 0, 4) == 0xffffffff, "its windows have to be set up again");
	set_trans(b, 4, RAM_IOVA, 0x1000);
	b->ram[4] = 9;
	ok(rd(a, VU_BAR4, 4, 1) == 9, "then they work");
}

static void test_reset(struct peer *a, struct peer *b)
{
	drain_irqs(a);
	ok(!call(b, VU_RESET, NULL, 0, NULL, 0, NULL, 0), "device reset");
	ok(fired(a, 16 + 6, 1000) && fired(a, 16 + 5, 1000), "the peer sees down and up");
	ok(rd(b, VU_BAR0, 0x408, 4) == 1 && rd(b, VU_BAR0, 0x45c, 2) == 0xffff,
	   "registers are as at power-on");
	bring_up(b);
}

static void test_second_client(struct peer *a)
{
	int fd = unix_connect(path_a);
	char c;

	ok(fd >= 0 && !recv_all(fd, &c, 1, 2000), "a second client is turned away");
	close(fd);
	ok(rd(a, VU_BAR0, 0x408, 4) == 2, "the first one is not disturbed");
}

static void malformed(const char *what, int cmd, const void *body, size_t len)
{
	struct peer p;

	attach(&p, path_b);
	ok(call(&p, cmd, body, len, NULL, 0, NULL, 0) > 0, what);
	detach(&p);
}

static void test_malformed(struct peer *b)
{
	struct vu_region_rw rw = { .offset = UINT64_MAX, .region = VU_BAR4, .count = 8 };
	struct vu_irq_set q = { .index = VU_IRQ_MSIX, .start = 20, .count = UINT32_MAX };
	struct vu_region_info r = { .index = 0xffffffff };
	struct vu_hdr h = { .id = 1, .cmd = VU_REGION_READ, .size = 0xfffffff0 };
	struct peer p;
	char c;

	detach(b);
	usleep(50000);
	malformed("offset that overflows", VU_REGION_READ, &rw, sizeof(rw));
	rw = (struct vu_region_rw){ .region = VU_BAR0, .count = 0xffffffff };
	malformed("count too large", VU_REGION_READ, &rw, sizeof(rw));
	rw.count = 8;
	malformed("write without its data", VU_REGION_WRITE, &rw, sizeof(rw));
	rw.region = 0xfffffff7;
	malformed("no such region", VU_REGION_WRITE, &rw, sizeof(rw));
	malformed("truncated request", VU_DMA_MAP, &rw, 3);
	malformed("vectors out of range", VU_SET_IRQS, &q, sizeof(q));
	malformed("region info out of range", VU_GET_REGION_INFO, &r, sizeof(r));
	malformed("unknown command", 99, NULL, 0);
	attach(&p, path_b);
	ok(send(p.fd, &h, sizeof(h), 0) == sizeof(h) && !recv_all(p.fd, &c, 1, 2000),
	   "a message of 4 GB ends the connection");
	detach(&p);
	attach(&p, path_b);
	h.size = 5;
	ok(send(p.fd, &h, sizeof(h), 0) == sizeof(h) && !recv_all(p.fd, &c, 1, 2000),
	   "so does one shorter than its header");
	detach(&p);
	attach(b, path_b);
}

/* Noise in well-formed frames: nothing may bring the server down. */
static void test_noise(void)
{
	unsigned int i, j, seed = 1;
	struct peer p;

	for (i = 0; i < 40; i++) {
		attach(&p, path_b);
		for (j = 0; j < 50; j++) {
			uint8_t body[64];
			size_t k, len = rand_r(&seed) % sizeof(body);
			struct vu_hdr h = {
				.id = j, .cmd = rand_r(&seed) % 16,
				.flags = rand_r(&seed) % 4 ? 0 : rand_r(&seed) & 0x31,
				.size = sizeof(h) + len,
			};

			for (k = 0; k < len; k++)
				body[k] = rand_r(&seed) % 3 ? 0 : rand_r(&seed);
			if (send(p.fd, &h, sizeof(h), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ||
			    send(p.fd, body, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				break;
		}
		detach(&p);
		usleep(2000);
	}
	ok(!kill(server, 0) && link_is("\"links\"", 0), "the server survives noise");
}

static void test_commands(const char *binary)
{
	char cmd[512];

	ok(refused("nonsense") && refused("link t sideways") && refused("silent t a maybe") &&
	   refused("link"), "bad commands are refused");
	snprintf(cmd, sizeof(cmd), "%s --control %s --command status >/dev/null", binary,
		 path_ctl);
	ok(system(cmd) == 0, "--command shows an answer");
	snprintf(cmd, sizeof(cmd), "%s --control %s --command 'link x up' >/dev/null", binary,
		 path_ctl);
	ok(WEXITSTATUS(system(cmd)) == 1, "--command fails with an error");
	snprintf(cmd, sizeof(cmd), "%s --help >/dev/null", binary);
	ok(system(cmd) == 0, "--help");
	snprintf(cmd, sizeof(cmd), "%s --link x=a,b,bar2=3M 2>/dev/null", binary);
	ok(WEXITSTATUS(system(cmd)) == 1, "a window that is no power of two is refused");
	snprintf(cmd, sizeof(cmd), "%s --link-delay-ms -1 --link x=a,b 2>/dev/null", binary);
	ok(WEXITSTATUS(system(cmd)) == 1, "so is a delay that is none");
}

int main(int argc, char **argv)
{
	struct peer a, b;

	if (argc != 2)
		bail("usage: selftest PATH_OF_NTBSIM");
	begin(argv[1], "");
	attach(&a, path_a);
	attach(&b, path_b);
	test_identity(&a, &b);
	test_link_up(&a, &b);
	test_reload(&a, &b);
	test_scratchpads(&a, &b);
	test_doorbells(&a, &b);
	test_windows(&a, &b);
	test_late(&a, &b);
	test_late_interrupts(&a, &b);
	test_slow(&a, &b);
	test_faults(&a, &b);
	test_messages(&a, &b);
	test_timeout(&a, &b);
	test_multi(&a, &b);
	test_order(&a, &b);
	test_posted(&a, &b);
	test_posted_chain(&a, &b);
	test_posted_reads(&a, &b);
	test_posted_bulk(&a, &b);
	test_posted_deadlock(&a, &b);
	test_posted_counters(&a, &b);
	test_maps(&a, &b);
	test_poke(&a, &b);
	test_silent(&a, &b);
	test_mute(&a, &b);
	test_cut(&a, &b);
	test_death(&a, &b);
	test_reset(&a, &b);
	test_posted_reset(&a, &b);
	test_second_client(&a);
	test_malformed(&b);
	detach(&b);
	usleep(50000);
	test_noise();
	test_commands(argv[1]);
	detach(&a);
	return end(true);
}
