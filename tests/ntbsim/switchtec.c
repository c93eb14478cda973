// SPDX-License-Identifier: GPL-2.0
/*
 * The registers of a Microchip Switchtec switch, generation 4, with two partitions, each with an
 * NTB endpoint.  Their meaning is that of include/linux/switchtec.h of Linux; the drivers that
 * have to work with this model are drivers/pci/switch/switchtec.c and
 * drivers/ntb/hw/mscc/ntb_hw_switchtec.c.
 *
 * Both hosts see the same registers ("GAS"), of both partitions.  A partition's control block says
 * where accesses of its own host lead, and whose requests may pass; the other host writes the
 * former.  It is locked first, takes effect when it is configured, and both take their time and can
 * fail.  There are no scratchpads: the driver has a page of RAM instead, which a window of the
 * other side leads to.
 */
#include "ntb.h"
#include "util.h"

#define LUT_BYTES 0x10000u
#define OP_MS 20		/* how long an operation on a control block takes */
#define LOCK_TRIES 100		/* so many times as long, if the other side has locked it */

enum {
	GAS_BYTES = 0x400000,
	PARTITIONS = 2,
	LUTS = 16,		/* of the first window, its first part */
	IDS = 8,		/* requesters whose accesses may pass, of a partition, at most */
	BARS = 6,
	VECTORS = 4,
	VECTOR_EVENT = 0,
	FIRST_MESSAGE_BIT = 60,
	MESSAGES = 4,

	HOST_BRIDGE = 0x00f8,		/* whose a host's own accesses are, as the switch says */

	DEVICE_ID = 0x4000,
	VENDOR_ID = 0x11f8,

	G_DEVICE_ID = 0x2000,
	G_PARTITION_ID = 0x2048,
	G_PART_CFG = 0x4000,		/* 0x400 for each */
	PC_VEP_PFF = 0x14,
	PC_USP_PFF = 0x10,
	PC_DSP_PFF = 0x18,
	PC_DSP_PFF_END = 0xd4,
	PC_VEP_VECTOR = 0x100,
	G_NTB_INFO = 0x10000,
	NI_EP_MAP = 0x04,
	NI_REQUESTER = 0x0c,
	NI_TARGET = 0x24,		/* 0x10 for each partition */
	G_CTRL = 0x14000,		/* 0x2000 for each */
	CTRL_BYTES = 0x2000,
	C_STATUS = 0x00,
	C_OP = 0x04,
	C_BAR_ERROR = 0x10,
	C_LUT_ENTRIES = 0x14,
	C_LUT_ERROR = 0x18,
	C_ID_ENTRIES = 0x1c,
	C_ID_ERROR = 0x20,
	C_BAR = 0x40,			/* 0x10 for each */
	C_BAR_SIZE = 0x44,
	C_BAR_XLATE = 0x48,
	C_BAR_EXT = 0xa0,		/* 0x10 for each */
	C_IDS = 0x400,
	C_LUT = 0x1000,
	G_DBMSG = 0x74000,		/* 0x4000 for each */
	DBMSG_BYTES = 0x4000,
	D_ODB = 0x1000,
	D_ODB_MASK = 0x1008,
	D_IDB = 0x1010,
	D_IDB_MASK = 0x1018,
	D_VEC_MAP = 0x1020,
	D_MSG_MAP = 0x1060,
	D_OMSG = 0x1068,
	D_OMSG_END = 0x1088,
	D_IMSG = 0x1088,		/* message, then bytes: status, enabled */
	D_IMSG_END = 0x10a8,
	D_MSIX = 0x2000,
	D_PBA = 0x3000,
	G_PFF = 0x134000,		/* 0x1000 for each; one for each partition */
	P_LNKSTA = 0x74,
	P_LINK_STATE = 0xd30,

	OP_LOCK = 1,
	OP_CFG = 2,
	OP_RESET = 3,
	ST_NORMAL = 1,
	ST_LOCKED = 2,
	ST_LOCKING = 3,
	ST_CONFIGURING = 4,

	BAR_VALID = BIT(0),
	BAR_DIRECT = BIT(4),
	BAR_LUT = BIT(5),
	EVENT_OCCURRED = BIT(0),
	EVENT_IRQ = BIT(3),
};

struct control;

/* What a side is doing to a control block. */
struct operation {
	struct control *control;
	int side;
	uint32_t op;			/* 0: nothing */
	unsigned int tries;
	struct timer timer;
};

/* A control block: what is in effect of it, and who is at work on the rest. */
struct control {
	struct ntb_link *link;
	unsigned int partition;
	uint8_t active[CTRL_BYTES];
	int owner;			/* side that has locked it; -1: nobody */
	bool refuses;			/* each change of its requesters is an error */
	unsigned int attempts;		/* of its own side to lock it */
	struct operation by[2];
};

struct switchtec {
	uint8_t gas[GAS_BYTES];
	struct control control[PARTITIONS];
};

static struct switchtec *own(const struct ntb_side *s)
{
	return s->link->own;
}

static uint8_t *ctrl_of(struct switchtec *sw, unsigned int partition)
{
	return sw->gas + G_CTRL + partition * CTRL_BYTES;
}

static uint8_t *dbmsg_of(struct ntb_side *s)
{
	return own(s)->gas + G_DBMSG + s->idx * DBMSG_BYTES;
}

static uint8_t *pff_of(struct switchtec *sw, unsigned int partition)
{
	return sw->gas + G_PFF + partition * 0x1000;
}

/* ---- interrupts ---- */

static void raise_bits(struct ntb_side *s, uint64_t bits)
{
	ntb_irqs(s, bits, dbmsg_of(s) + D_VEC_MAP);
}

/* A bit that is set already does not interrupt again. */
static void switchtec_rung(struct ntb_side *s, uint64_t bits)
{
	uint8_t *d = dbmsg_of(s);
	uint64_t was = get64(d + D_IDB);

	put64(d + D_IDB, was | bits);
	raise_bits(s, bits & ~was & get64(d + D_IDB_MASK));
}

static bool event(uint8_t *header)
{
	uint32_t count = (get32(header) >> 5) + 1;

	put32(header, (get32(header) & EVENT_IRQ) | EVENT_OCCURRED | (count & 0xff) << 5);
	return get32(header) & EVENT_IRQ;
}

/* ---- messages ---- */

static void message_arrives(struct ntb_side *to, unsigned int i, uint32_t message)
{
	uint8_t *d = dbmsg_of(to), *in = d + D_IMSG + 8 * i;

	put32(in, message);
	in[4] = 1;
	if (in[5])
		raise_bits(to, 1ull << (FIRST_MESSAGE_BIT + i));
}

/* To whichever of the peer's places is mapped to this one. */
static void send_message(struct ntb_side *s, unsigned int i, uint32_t message)
{
	struct ntb_side *peer = ntb_peer(s);
	const uint8_t *map = dbmsg_of(peer) + D_MSG_MAP;
	unsigned int to;

	if (!s->link->up || ntb_dead(s))
		return;
	for (to = 0; to < MESSAGES; to++)
		if (map[to] == (i | s->idx << 2))
			message_arrives(peer, to, message);
}

/* ---- control blocks ---- */

static uint64_t bar_window(const uint8_t *c, unsigned int bar)
{
	return (get32(c + C_BAR_SIZE + 16 * bar) & 0xfffff000) |
	       (uint64_t)get32(c + C_BAR_EXT + 16 * bar) << 32;
}

/* The number of the first BAR whose direct window cannot be, plus 1; or 0. */
static uint32_t bad_bar(const struct ntb_link *l, const uint8_t *c, unsigned int partition)
{
	unsigned int bar, pos;
	uint64_t xlate, size;

	for (bar = 0; bar < BARS; bar++) {
		if (!(get32(c + C_BAR + 16 * bar) & BAR_DIRECT))
			continue;
		pos = get32(c + C_BAR_SIZE + 16 * bar) & 0xfff;
		xlate = get64(c + C_BAR_XLATE + 16 * bar);
		size = bar_window(c, bar);
		if ((bar != 2 && bar != 4) || pos < 12 || pos > 63 || size > 1ull << pos ||
		    size > l->bar_size[bar / 2 - 1] || (xlate & 0xfff) != !partition ||
		    xlate >> 12 << 12 & ((1ull << pos) - 1))
			return bar + 1;
	}
	return 0;
}

static uint32_t bad_lut(const uint8_t *c, unsigned int partition)
{
	unsigned int i;
	uint64_t entry;

	for (i = 0; i < LUTS; i++) {
		entry = get64(c + C_LUT + 8 * i);
		if (entry & 1 && ((entry & (LUT_BYTES - 1)) >> 1 & 0x3f) != !partition)
			return i + 1;
	}
	return 0;
}

/* No requester twice. */
static uint32_t bad_id(const struct control *b, const uint8_t *c)
{
	unsigned int i, j;
	uint32_t id, other;

	for (i = 0; i < IDS; i++) {
		id = get32(c + C_IDS + 4 * i);
		if (b->refuses && id != get32(b->active + C_IDS + 4 * i))
			return i + 1;
		for (j = 0; id & 1 && j < i; j++) {
			other = get32(c + C_IDS + 4 * j);
			if (other & 1 && other >> 16 == id >> 16)
				return i + 1;
		}
	}
	return 0;
}

static void configure(struct control *b)
{
	uint8_t *c = ctrl_of(b->link->own, b->partition);

	put32(c + C_BAR_ERROR, bad_bar(b->link, c, b->partition));
	put32(c + C_LUT_ERROR, bad_lut(c, b->partition));
	put32(c + C_ID_ERROR, bad_id(b, c));
	/* What is wrong stays locked, for another try. */
	if (get32(c + C_BAR_ERROR) || get32(c + C_LUT_ERROR) || get32(c + C_ID_ERROR))
		return;
	memcpy(b->active, c, CTRL_BYTES);
	b->owner = -1;
}

static void forget(struct control *b)
{
	memcpy(ctrl_of(b->link->own, b->partition), b->active, CTRL_BYTES);
	b->owner = -1;
}

/* It waits for the other side, but not for ever; then it fails, and the status is what it was. */
static void op_done(struct timer *t)
{
	struct operation *o = container_of(t, struct operation, timer);
	struct control *b = o->control;

	if (o->op == OP_LOCK && b->owner == !o->side && o->tries++ < LOCK_TRIES) {
		timer_set(t, OP_MS);
		return;
	}
	if (o->op == OP_LOCK && b->owner < 0)
		b->owner = o->side;
	else if (o->op == OP_CFG && b->owner == o->side)
		configure(b);
	o->op = 0;
}

static void op_ends(struct operation *o)
{
	timer_del(&o->timer);
	o->op = 0;
}

static void op_begins(struct ntb_side *s, unsigned int partition, uint32_t op)
{
	struct control *b = &own(s)->control[partition];
	struct operation *o = &b->by[s->idx];

	if (op == OP_RESET && b->owner == s->idx)
		forget(b);
	if (op == OP_RESET && o->op == OP_LOCK)
		op_ends(o);
	if (o->op || (op != OP_LOCK && op != OP_CFG))
		return;
	o->op = op;
	o->tries = 0;
	b->attempts += op == OP_LOCK && partition == (unsigned int)s->idx;
	timer_set(&o->timer, OP_MS);
}

/* As this side sees it: what the other one has locked is not locked for it. */
static uint32_t status(const struct ntb_side *s, unsigned int partition)
{
	const struct control *b = &own(s)->control[partition];
	uint32_t op = b->by[s->idx].op;

	if (op)
		return op == OP_LOCK ? ST_LOCKING : ST_CONFIGURING;
	return b->owner == s->idx ? ST_LOCKED : ST_NORMAL;
}

/* ---- requesters ---- */

static void show_requesters(const struct control *b, struct text *out)
{
	const char *comma = "";
	unsigned int i;
	uint32_t id;

	text_add(out, "{\"places\":%u,\"locked\":\"%s\",\"attempts\":%u,\"ids\":[",
		 get32(b->active + C_ID_ENTRIES), b->owner < 0 ? "" : b->owner ? "b" : "a",
		 b->attempts);
	for (i = 0; i < IDS; i++) {
		id = get32(b->active + C_IDS + 4 * i);
		if (!(id & 1))
			continue;
		text_add(out, "%s%u", comma, id >> 16);
		comma = ",";
	}
	text_add(out, "]}\n");
}

static const char *set_places(struct control *b, const char *number)
{
	unsigned int places = number[0] - '0';

	if (number[1] || places < 2 || places > IDS)
		return "2 to 8 places";
	put32(ctrl_of(b->link->own, b->partition) + C_ID_ENTRIES, places);
	put32(b->active + C_ID_ENTRIES, places);
	return NULL;
}

static const char *forget_requesters(struct control *b)
{
	if (b->owner >= 0)
		return "it is locked";
	memset(b->active + C_IDS, 0, 4 * IDS);
	forget(b);
	return NULL;
}

/* The other side's lock, for as long as the command says. */
static const char *hold_lock(struct control *b, int side, bool on)
{
	if (on ? b->owner >= 0 : b->owner != side)
		return on ? "it is locked" : "it is not locked by that side";
	if (on)
		b->owner = side;
	else
		forget(b);
	return NULL;
}

static const char requesters_usage[] = "places N, forget, or refuse or lock on or off?";

static const char *switchtec_requesters(struct ntb_side *s, char **arg, struct text *out)
{
	struct control *b = &own(s)->control[s->idx];
	bool on = arg[0] && arg[1] && !strcmp(arg[1], "on");

	if (!arg[0])
		show_requesters(b, out);
	else if (!strcmp(arg[0], "forget") && !arg[1])
		return forget_requesters(b);
	else if (!strcmp(arg[0], "places") && arg[1])
		return set_places(b, arg[1]);
	else if (!arg[1] || (!on && strcmp(arg[1], "off")))
		return requesters_usage;
	else if (!strcmp(arg[0], "lock"))
		return hold_lock(b, !s->idx, on);
	else if (!strcmp(arg[0], "refuse"))
		b->refuses = on;
	else
		return requesters_usage;
	return NULL;
}

/* ---- registers ---- */

static uint32_t ctrl_load(struct ntb_side *s, uint32_t off)
{
	unsigned int partition = (off - G_CTRL) / CTRL_BYTES;

	if ((off - G_CTRL) % CTRL_BYTES == C_STATUS)
		return status(s, partition);
	return get32(own(s)->gas + off);
}

static uint32_t switchtec_load(struct ntb_side *s, uint32_t off)
{
	uint32_t v;

	if (off >= G_CTRL && off < G_CTRL + PARTITIONS * CTRL_BYTES)
		return ctrl_load(s, off);
	v = get32(own(s)->gas + off);
	if (off == G_PARTITION_ID)
		v = s->idx;
	else if (off == G_NTB_INFO)
		v = PARTITIONS | s->idx << 8;
	return v;
}

static void put_masked(uint8_t *at, uint32_t v, uint32_t mask)
{
	put32(at, (get32(at) & ~mask) | v);
}

static bool ctrl_writable(uint32_t at)
{
	return (at >= C_BAR && at < C_BAR_EXT + 16 * BARS) ||
	       (at >= C_IDS && at < C_IDS + 4 * IDS) ||
	       (at >= C_LUT && at < C_LUT + 8 * LUTS);
}

static void ctrl_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	unsigned int partition = (off - G_CTRL) / CTRL_BYTES;
	uint32_t at = (off - G_CTRL) % CTRL_BYTES;

	if (at == C_OP) {
		op_begins(s, partition, v);
		return;
	}
	/* Only who has locked it may change it. */
	if (status(s, partition) != ST_LOCKED || !ctrl_writable(at))
		return;
	/* A requester gets an id below the other side's bridge for its own. */
	if (at >= C_IDS && at < C_LUT && v & 1)
		v = (v & 0xffff0001) | ((at - C_IDS) / 4 + 1) << 1;
	put_masked(own(s)->gas + off, v, mask);
}

static void idb_mask_store(struct ntb_side *s, uint32_t at, uint32_t v, uint32_t mask)
{
	uint8_t *d = dbmsg_of(s);
	uint64_t was = get64(d + D_IDB_MASK);

	put_masked(d + at, v, mask);
	raise_bits(s, get64(d + D_IDB) & get64(d + D_IDB_MASK) & ~was);
}

static void imsg_store(struct ntb_side *s, uint32_t at, uint32_t v, uint32_t mask)
{
	uint8_t *in = dbmsg_of(s) + at;

	/* The first word is the message itself, which only the other side writes. */
	if (!(at & 4))
		return;
	if (v & mask & 0xff)
		in[0] = 0;
	if (mask & 0xff00)
		in[1] = v >> 8;
}

/* This side's own. */
static void dbmsg_store(struct ntb_side *s, uint32_t at, uint32_t v, uint32_t mask)
{
	uint8_t *d = dbmsg_of(s);

	if (at == D_ODB || at == D_ODB + 4)
		ntb_ring(s, (uint64_t)v << 8 * (at - D_ODB) & get64(d + D_ODB_MASK));
	else if (at == D_IDB || at == D_IDB + 4)
		put32(d + at, get32(d + at) & ~v);
	else if (at == D_IDB_MASK || at == D_IDB_MASK + 4)
		idb_mask_store(s, at, v, mask);
	else if (at >= D_OMSG && at < D_OMSG_END)
		send_message(s, (at - D_OMSG) / 8, v);
	else if (at >= D_IMSG && at < D_IMSG_END)
		imsg_store(s, at, v, mask);
	else if (at >= D_ODB && at < D_OMSG)
		put_masked(d + at, v, mask);
}

/* Writing a 1 clears the event; its count stays. */
static void link_state_store(struct ntb_side *s, uint32_t off, uint32_t v)
{
	uint8_t *at = own(s)->gas + off;
	uint32_t count = get32(at) & 0xff << 5;

	put32(at, count | (v & EVENT_IRQ) | (v & EVENT_OCCURRED ? 0 : get32(at) & EVENT_OCCURRED));
}

static void switchtec_store(struct ntb_side *s, uint32_t off, uint32_t v, uint32_t mask)
{
	uint32_t dbmsg = G_DBMSG + s->idx * DBMSG_BYTES;

	if (off >= G_CTRL && off < G_CTRL + PARTITIONS * CTRL_BYTES)
		ctrl_store(s, off, v, mask);
	else if (off >= dbmsg && off < dbmsg + DBMSG_BYTES)
		dbmsg_store(s, off - dbmsg, v, mask);
	else if (off >= G_PFF && (off - G_PFF) % 0x1000 == P_LINK_STATE)
		link_state_store(s, off, v);
	/* Commands to the firmware, other events, the other partition's doorbells: nothing. */
}

/* ---- windows ---- */

static void lut_window(const uint8_t *c, uint64_t off, uint64_t *addr, uint64_t *open)
{
	uint64_t entry = get64(c + C_LUT + 8 * (off / LUT_BYTES));

	if (!(get32(c + C_BAR + 16 * 2) & BAR_LUT) || !(entry & 1))
		return;
	*addr = (entry & ~(uint64_t)(LUT_BYTES - 1)) + off % LUT_BYTES;
	*open = LUT_BYTES - off % LUT_BYTES;
}

/* The upper bits of an address come from the register. */
static void switchtec_window(struct ntb_side *s, enum ntb_window w, uint64_t off, uint64_t *addr,
			     uint64_t *open)
{
	const uint8_t *c = own(s)->control[s->idx].active;
	unsigned int bar = 2 + 2 * w, pos = get32(c + C_BAR_SIZE + 16 * bar) & 0xfff;
	uint64_t size = bar_window(c, bar), within;

	*open = 0;
	*addr = 0;
	if (w == NTB_BAR2 && off < LUTS * (uint64_t)LUT_BYTES) {
		lut_window(c, off, addr, open);
		return;
	}
	if (!(get32(c + C_BAR + 16 * bar) & BAR_DIRECT))
		return;
	within = off & ((1ull << pos) - 1);
	if (within >= size)
		return;
	*addr = (get64(c + C_BAR_XLATE + 16 * bar) & ~((1ull << pos) - 1)) + within;
	*open = size - within;
}

/* ---- link ---- */

/* Each host sees the ports of both partitions. */
static void switchtec_link(struct ntb_side *s, bool up)
{
	uint8_t *pff = pff_of(own(s), s->idx);
	bool irq = event(pff + P_LINK_STATE);

	put32(pff + P_LNKSTA, up ? 0x0104u << 16 : 0);	/* 16 GT/s, x16 */
	if (irq) {
		ntb_irq(s, VECTOR_EVENT);
		ntb_irq(ntb_peer(s), VECTOR_EVENT);
	}
}

/* Its vectors are set up when it is there. */
static bool switchtec_driven(const struct ntb_side *s)
{
	return own(s)->gas[G_DBMSG + s->idx * DBMSG_BYTES + D_VEC_MAP];
}

/* ---- the function ---- */

static void reset_control(struct switchtec *sw, struct control *b)
{
	uint8_t *c = ctrl_of(sw, b->partition);

	b->owner = -1;
	memset(c, 0, CTRL_BYTES);
	put32(c + C_LUT_ENTRIES, LUTS);
	put32(c + C_ID_ENTRIES, IDS);
	put32(c + C_BAR + 16 * 2, BAR_VALID);
	put32(c + C_BAR + 16 * 4, BAR_VALID);
	memcpy(b->active, c, CTRL_BYTES);
}

/*
 * Of its own partition: where its accesses lead, which the other host has set, and whose requests
 * pass.  Where the other host's lead is not touched.
 */
static void switchtec_reset(struct ntb_side *s)
{
	struct switchtec *sw = own(s);
	struct control *peers = &sw->control[!s->idx];

	op_ends(&sw->control[s->idx].by[s->idx]);
	op_ends(&peers->by[s->idx]);
	if (peers->owner == s->idx)
		forget(peers);
	reset_control(sw, &sw->control[s->idx]);
	memset(dbmsg_of(s), 0, DBMSG_BYTES);
}

static void partition_init(struct switchtec *sw, unsigned int p)
{
	uint8_t *cfg = sw->gas + G_PART_CFG + 0x400 * p;
	unsigned int at;

	put32(cfg + PC_USP_PFF, 0xff);
	put32(cfg + PC_VEP_PFF, p);
	for (at = PC_DSP_PFF; at < PC_DSP_PFF_END; at += 4)
		put32(cfg + at, 0xff);
	put16(cfg + PC_VEP_VECTOR, VECTOR_EVENT);
	put32(sw->gas + G_NTB_INFO + NI_TARGET + 0x10 * p, BIT(!p));
	put32(pff_of(sw, p), VENDOR_ID | DEVICE_ID << 16);
}

static void control_init(struct ntb_link *l, struct control *b, unsigned int p)
{
	int side;

	b->link = l;
	b->partition = p;
	for (side = 0; side < 2; side++)
		b->by[side] = (struct operation){ .control = b, .side = side, .timer.fn = op_done };
	reset_control(l->own, b);
}

static void switchtec_open(struct ntb_link *l)
{
	struct switchtec *sw = xalloc(sizeof(*sw));
	unsigned int p;

	l->own = sw;
	put32(sw->gas + G_DEVICE_ID, DEVICE_ID);
	put32(sw->gas + G_NTB_INFO + NI_EP_MAP, BIT(PARTITIONS) - 1);
	put16(sw->gas + G_NTB_INFO + NI_REQUESTER, HOST_BRIDGE);
	for (p = 0; p < PARTITIONS; p++) {
		control_init(l, &sw->control[p], p);
		partition_init(sw, p);
	}
}

static void switchtec_config(struct ntb_side *s)
{
	pci_set_id(s, VENDOR_ID, DEVICE_ID);
	put32(s->cfg + PCI_BAR0, PCI_BAR_MEM64 | PCI_BAR_PREFETCH);
}

const struct ntb_family switchtec_family = {
	.name = "switchtec",
	.bar0_size = GAS_BYTES,
	.msix_table = G_DBMSG + D_MSIX,
	.msix_pba = G_DBMSG + D_PBA,
	.msix_stride = DBMSG_BYTES,
	.vectors = VECTORS,
	.doorbell_shift = { 0, 32 },
	.open = switchtec_open,
	.config = switchtec_config,
	.reset = switchtec_reset,
	.load = switchtec_load,
	.store = switchtec_store,
	.window = switchtec_window,
	.rung = switchtec_rung,
	.link = switchtec_link,
	.driven = switchtec_driven,
	.requesters = switchtec_requesters,
};
