// SPDX-License-Identifier: GPL-2.0
/* Wire format: a well-formed message passes, and each single fault in it is refused. */
#include <kunit/test.h>
#include <linux/align.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <dlend/proto.h>

static const struct dlend_addr addr = { .lender = 2, .bdf = 0x3b00 };

static void good_offer(struct dlend_p_offer *p)
{
	p->vendor = cpu_to_le16(0x1b36);
	p->device = cpu_to_le16(0x0010);
	p->class = cpu_to_le32(0x010802);
	p->group_size = cpu_to_le16(1);
	p->nr_msi = cpu_to_le16(32);
	p->nr_msix = cpu_to_le16(2048);
	p->has_intx = cpu_to_le16(1);
	p->clique = cpu_to_le16(DLEND_OFFER_CLIQUE_NONE);
	p->bar[0].size = cpu_to_le64(16384);
	p->bar[0].flags = cpu_to_le32(DLEND_BAR_F_64 | DLEND_BAR_F_MAPPABLE);
	p->bar[4].size = cpu_to_le64(256);
	p->bar[4].flags = cpu_to_le32(DLEND_BAR_F_MAPPABLE);
	p->bar[5].size = cpu_to_le64(32);
	p->bar[5].flags = cpu_to_le32(DLEND_BAR_F_IO);
}

static void good_dma(struct dlend_p_dma *p)
{
	unsigned int i;

	p->count = cpu_to_le32(DLEND_DMA_PER_MSG);
	for (i = 0; i < DLEND_DMA_PER_MSG; i++) {
		p->entry[i].gpa = cpu_to_le64(0x100000ull * i);
		p->entry[i].size = cpu_to_le64(0x100000);
		p->entry[i].offset = cpu_to_le64(0x10000000ull + 0x200000ull * i);
		p->entry[i].prot = cpu_to_le32(DLEND_PROT_READ);
	}
}

/* The end of a list that takes two messages. */
static void good_peers(struct dlend_p_peers *p)
{
	p->first = cpu_to_le16(DLEND_PEERS_PER_MSG);
	p->count = cpu_to_le32(2);
	p->peer[0].node = cpu_to_le16(3);
	p->peer[0].mib = cpu_to_le32(256);
	p->peer[1].node = cpu_to_le16(65535);
}

static void good_p2p(struct dlend_p_p2p *p)
{
	p->gpa = cpu_to_le64(0xfe000000);
	p->size = cpu_to_le64(0x100000);
	p->offset = cpu_to_le64(0x40000000);
	p->flags = cpu_to_le32(DLEND_P2P_F_OFFSET);
	p->prot = cpu_to_le32(DLEND_PROT_READ | DLEND_PROT_WRITE);
	p->epoch = cpu_to_le32(9);
	p->lender = cpu_to_le16(3);
	p->bar = cpu_to_le16(5);
}

/* In a VMD domain of a host's second socket, behind a switch whose downstream port has ACS. */
static void good_place(struct dlend_p_place *p)
{
	p->domain = cpu_to_le32(0x10000);
	p->root_domain = cpu_to_le32(0x10001);
	p->bus = 0x80;
	p->p2p_domain = cpu_to_le16(2);
	p->numa = cpu_to_le16(1);
	p->payload = cpu_to_le16(256);
	p->count = 3;
	p->bridge[0].bdf = cpu_to_le16(0x0008);
	p->bridge[0].kind = DLEND_BRIDGE_ROOT;
	p->bridge[1].bdf = cpu_to_le16(0x0100);
	p->bridge[1].kind = DLEND_BRIDGE_UP;
	p->bridge[2].bdf = cpu_to_le16(0x0208);
	p->bridge[2].kind = DLEND_BRIDGE_DOWN;
	p->bridge[2].flags = DLEND_BRIDGE_F_ACS;
}

static void good_direct(struct dlend_p_direct *p)
{
	p->mode = cpu_to_le32(DLEND_IRQ_MSIX);
	p->count = cpu_to_le32(2048);
	p->table = cpu_to_le64(0x10000);
	p->page = cpu_to_le64(0x2e00000);
}

/* Make a valid message of @type. */
static void make_good(struct dlend_msg *msg, u16 type, bool reply)
{
	int len = dlend_msg_payload_len(type, reply);
	void *p = dlend_msg_init(msg, type, type == DLEND_MSG_SUBSCRIBE ? NULL : &addr, 7, len);
	struct dlend_p_p2p_window *window = p;
	struct dlend_p_p2p_grant *grant = p;
	struct dlend_p_take *take = p;
	struct dlend_p_irq *irq = p;
	struct dlend_p_cfg *cfg = p;
	struct dlend_p_rom *rom = p;

	if (reply) {
		msg->flags = cpu_to_le16(DLEND_MSG_F_REPLY);
		msg->id = cpu_to_le32(9);
	}
	switch (type) {
	case DLEND_MSG_OFFER:
		good_offer(p);
		break;
	case DLEND_MSG_DMA_MAP:
	case DLEND_MSG_DMA_UNMAP:
		if (!reply)
			good_dma(p);
		break;
	case DLEND_MSG_CFG_READ:
		cfg->size = cpu_to_le16(4);
		break;
	case DLEND_MSG_CFG_WRITE:
		if (!reply)
			cfg->size = cpu_to_le16(1);
		break;
	case DLEND_MSG_PEERS:
		good_peers(p);
		break;
	case DLEND_MSG_PLACE:
		good_place(p);
		break;
	case DLEND_MSG_P2P_MAP:
	case DLEND_MSG_P2P_UNMAP:
	case DLEND_MSG_P2P_LOST:
		if (!reply)
			good_p2p(p);
		break;
	case DLEND_MSG_P2P_GRANT:
	case DLEND_MSG_P2P_UNGRANT:
		if (!reply)
			grant->node = cpu_to_le16(3);
		break;
	case DLEND_MSG_P2P_WINDOW:
		window->offset = cpu_to_le64(0x1000000);
		window->size = cpu_to_le64(0x100000);
		window->borrower = cpu_to_le16(1);
		break;
	case DLEND_MSG_ROM_READ:
		if (reply)
			rom->size = cpu_to_le32(512);
		break;
	case DLEND_MSG_TAKE_OVER:
		if (!reply)
			take->token[DLEND_TOKEN_SIZE - 1] = 1;
		break;
	case DLEND_MSG_IRQ_DIRECT:
		if (!reply)
			good_direct(p);
		break;
	case DLEND_MSG_IRQ_SETUP:
		if (!reply) {
			irq->mode = cpu_to_le32(DLEND_IRQ_MSIX);
			irq->count = cpu_to_le32(2048);
		}
		break;
	}
}

static void every_type_passes(struct kunit *test)
{
	struct dlend_msg msg;
	const char *why;
	int reply;
	u16 type;

	for (type = 1; type < DLEND_MSG_TYPES; type++) {
		for (reply = 0; reply < 2; reply++) {
			if (dlend_msg_payload_len(type, reply) < 0)
				continue;
			make_good(&msg, type, reply);
			dlend_msg_seal(&msg, type);
			KUNIT_EXPECT_EQ_MSG(test, dlend_msg_check(&msg, type, &why), 0,
					    "%s reply %d: %s", dlend_msg_type_name(type), reply,
					    why ?: "");
			KUNIT_EXPECT_EQ(test, dlend_msg_check(&msg, type + 1, NULL), -EBADMSG);
		}
	}
}

/* Whatever bit is wrong, the checksum says so. */
static void every_bit_counts(struct kunit *test)
{
	struct dlend_msg msg;
	unsigned int bit;

	make_good(&msg, DLEND_MSG_OFFER, false);
	dlend_msg_seal(&msg, 5);
	for (bit = 0; bit < DLEND_MSG_SIZE * 8; bit++) {
		((u8 *)&msg)[bit / 8] ^= 1 << (bit % 8);
		KUNIT_EXPECT_EQ(test, dlend_msg_check(&msg, 5, NULL), -EBADMSG);
		((u8 *)&msg)[bit / 8] ^= 1 << (bit % 8);
	}
	KUNIT_EXPECT_EQ(test, dlend_msg_check(&msg, 5, NULL), 0);
}

/* Overwrite a byte (or more) of a good message and seal it again: the refusal names the field. */
struct spoil {
	const char *name;
	u16 type;
	bool reply;
	u32 at;
	u32 size;
	u64 value;
	int err;
};

#define AT(field)	offsetof(struct dlend_msg, field)
#define IN(kind, field)	(AT(payload) + offsetof(struct kind, field))

static const struct spoil spoils[] = {
	{ "type 0", DLEND_MSG_RESET, false, AT(type), 2, 0, -EPROTO },
	{ "type too large", DLEND_MSG_RESET, false, AT(type), 2, DLEND_MSG_TYPES, -EPROTO },
	{ "unknown flag", DLEND_MSG_RESET, false, AT(flags), 2, 2, -EPROTO },
	{ "reply to a post", DLEND_MSG_WITHDRAW, false, AT(flags), 2, 1, -EPROTO },
	{ "short", DLEND_MSG_OFFER, false, AT(len), 2, 4, -EPROTO },
	{ "long", DLEND_MSG_RESET, false, AT(len), 2, 65535, -EPROTO },
	{ "post with id", DLEND_MSG_OFFER, false, AT(id), 4, 1, -EINVAL },
	{ "reply without id", DLEND_MSG_RESET, true, AT(id), 4, 0, -EINVAL },
	{ "reserved", DLEND_MSG_RESET, false, AT(reserved), 2, 1, -EINVAL },
	{ "request with status", DLEND_MSG_RESET, false, AT(status), 4, -5, -EINVAL },
	{ "positive status", DLEND_MSG_RESET, true, AT(status), 4, 5, -EINVAL },
	{ "status beyond errno", DLEND_MSG_RESET, true, AT(status), 4, -4096, -EINVAL },
	{ "no lender", DLEND_MSG_RESET, false, AT(lender), 2, 0, -EINVAL },
	{ "padding", DLEND_MSG_RESET, false, AT(payload) + 200, 1, 1, -EINVAL },
	{ "class", DLEND_MSG_OFFER, false, IN(dlend_p_offer, class), 4, 1 << 24, -EINVAL },
	{ "offer flags", DLEND_MSG_OFFER, false, IN(dlend_p_offer, flags), 4, 4, -EINVAL },
	{ "empty group", DLEND_MSG_OFFER, false, IN(dlend_p_offer, group_size), 2, 0, -EINVAL },
	{ "msi 3", DLEND_MSG_OFFER, false, IN(dlend_p_offer, nr_msi), 2, 3, -EINVAL },
	{ "msi 64", DLEND_MSG_OFFER, false, IN(dlend_p_offer, nr_msi), 2, 64, -EINVAL },
	{ "msix 2049", DLEND_MSG_OFFER, false, IN(dlend_p_offer, nr_msix), 2, 2049, -EINVAL },
	{ "intx 2", DLEND_MSG_OFFER, false, IN(dlend_p_offer, has_intx), 2, 2, -EINVAL },
	{ "offer state", DLEND_MSG_OFFER, false, IN(dlend_p_offer, now.state), 2,
	  DLEND_OFFER_STATES, -EINVAL },
	{ "offer clique", DLEND_MSG_OFFER, false, IN(dlend_p_offer, clique), 2,
	  DLEND_OFFER_CLIQUE_NONE + 1, -EINVAL },
	{ "identity without end", DLEND_MSG_OFFER, false,
	  IN(dlend_p_offer, identity[DLEND_NODE_NAME_LEN - 1]), 1, 'x', -EINVAL },
	{ "bar not a power of two", DLEND_MSG_OFFER, false, IN(dlend_p_offer, bar[0].size), 8,
	  12288, -EINVAL },
	{ "bar flags", DLEND_MSG_OFFER, false, IN(dlend_p_offer, bar[0].flags), 4, 32, -EINVAL },
	{ "upper half used", DLEND_MSG_OFFER, false, IN(dlend_p_offer, bar[1].size), 8, 4096,
	  -EINVAL },
	{ "64-bit port", DLEND_MSG_OFFER, false, IN(dlend_p_offer, bar[0].flags), 4,
	  DLEND_BAR_F_IO | DLEND_BAR_F_64, -EINVAL },
	{ "last bar 64", DLEND_MSG_OFFER, false, IN(dlend_p_offer, bar[5].flags), 4,
	  DLEND_BAR_F_64, -EINVAL },
	{ "snapshot beyond", DLEND_MSG_SNAPSHOT, false, IN(dlend_p_snapshot, offset), 2, 4096,
	  -EINVAL },
	{ "snapshot odd", DLEND_MSG_SNAPSHOT, false, IN(dlend_p_snapshot, offset), 2, 64,
	  -EINVAL },
	{ "state", DLEND_MSG_STATE, false, IN(dlend_p_state, state), 2, 99, -EINVAL },
	{ "irq offset", DLEND_MSG_BORROW, false, IN(dlend_p_borrow, irq_offset), 8, 8, -EINVAL },
	{ "irq offset wraps", DLEND_MSG_BORROW, false, IN(dlend_p_borrow, irq_offset), 8,
	  -4096ull, -EINVAL },
	{ "irq handle", DLEND_MSG_BORROW, false, IN(dlend_p_borrow, irq_handle), 4, 65536,
	  -EINVAL },
	{ "bar offset", DLEND_MSG_BORROW, true, IN(dlend_p_lease, bar_offset[2]), 8, 1, -EINVAL },
	{ "dma count 0", DLEND_MSG_DMA_MAP, false, IN(dlend_p_dma, count), 4, 0, -EINVAL },
	{ "dma count 7", DLEND_MSG_DMA_MAP, false, IN(dlend_p_dma, count), 4, 7, -EINVAL },
	{ "dma size 0", DLEND_MSG_DMA_MAP, false, IN(dlend_p_dma, entry[1].size), 8, 0, -EINVAL },
	{ "dma wraps", DLEND_MSG_DMA_UNMAP, false, IN(dlend_p_dma, entry[5].gpa), 8, -4096ull,
	  -EINVAL },
	{ "dma offset wraps", DLEND_MSG_DMA_MAP, false, IN(dlend_p_dma, entry[5].offset), 8,
	  -4096ull, -EINVAL },
	{ "dma overlap", DLEND_MSG_DMA_MAP, false, IN(dlend_p_dma, entry[3].gpa), 8, 0x101000,
	  -EINVAL },
	{ "dma prot 0", DLEND_MSG_DMA_MAP, false, IN(dlend_p_dma, entry[0].prot), 4, 0, -EINVAL },
	{ "dma prot 4", DLEND_MSG_DMA_MAP, false, IN(dlend_p_dma, entry[0].prot), 4, 4, -EINVAL },
	{ "switch 2", DLEND_MSG_BUS_MASTER, false, IN(dlend_p_u32, value), 4, 2, -EINVAL },
	{ "cfg size 3", DLEND_MSG_CFG_READ, false, IN(dlend_p_cfg, size), 2, 3, -EINVAL },
	{ "cfg odd", DLEND_MSG_CFG_READ, false, IN(dlend_p_cfg, offset), 2, 2, -EINVAL },
	{ "cfg beyond", DLEND_MSG_CFG_READ, false, IN(dlend_p_cfg, offset), 2, 4096, -EINVAL },
	{ "cfg value", DLEND_MSG_CFG_WRITE, false, IN(dlend_p_cfg, value), 4, 256, -EINVAL },
	{ "rom odd", DLEND_MSG_ROM_READ, false, IN(dlend_p_u32, value), 4, 4, -EINVAL },
	{ "rom beyond", DLEND_MSG_ROM_READ, false, IN(dlend_p_u32, value), 4,
	  DLEND_ROM_MAX / DLEND_ROM_PIECE * DLEND_ROM_PIECE + DLEND_ROM_PIECE, -EINVAL },
	{ "no rom", DLEND_MSG_ROM_READ, true, IN(dlend_p_rom, size), 4, 0, -EINVAL },
	{ "rom too large", DLEND_MSG_ROM_READ, true, IN(dlend_p_rom, size), 4, DLEND_ROM_MAX + 1,
	  -EINVAL },
	{ "rom piece beyond", DLEND_MSG_ROM_READ, true, IN(dlend_p_rom, offset), 4, 576, -EINVAL },
	{ "irq mode", DLEND_MSG_IRQ_SETUP, false, IN(dlend_p_irq, mode), 4, 4, -EINVAL },
	{ "irq count", DLEND_MSG_IRQ_SETUP, false, IN(dlend_p_irq, count), 4, 2049, -EINVAL },
	{ "2048 MSIs", DLEND_MSG_IRQ_SETUP, false, IN(dlend_p_irq, mode), 4, DLEND_IRQ_MSI,
	  -EINVAL },
	{ "direct INTx", DLEND_MSG_IRQ_DIRECT, false, IN(dlend_p_direct, mode), 4, DLEND_IRQ_INTX,
	  -EINVAL },
	{ "2048 direct MSIs", DLEND_MSG_IRQ_DIRECT, false, IN(dlend_p_direct, mode), 4,
	  DLEND_IRQ_MSI, -EINVAL },
	{ "direct count 0", DLEND_MSG_IRQ_DIRECT, false, IN(dlend_p_direct, count), 4, 0, -EINVAL },
	{ "direct table odd", DLEND_MSG_IRQ_DIRECT, false, IN(dlend_p_direct, table), 8, 8,
	  -EINVAL },
	{ "direct table wraps", DLEND_MSG_IRQ_DIRECT, false, IN(dlend_p_direct, table), 8, -4096ull,
	  -EINVAL },
	{ "direct page wraps", DLEND_MSG_IRQ_DIRECT, false, IN(dlend_p_direct, page), 8,
	  -0x1000ull, -EINVAL },
	{ "peer count", DLEND_MSG_PEERS, false, IN(dlend_p_peers, count), 4, 28, -EINVAL },
	{ "peers: too many", DLEND_MSG_PEERS, false, IN(dlend_p_peers, first), 2, 80, -EINVAL },
	{ "peers: more, not full", DLEND_MSG_PEERS, false, IN(dlend_p_peers, more), 2, 1, -EINVAL },
	{ "peers: more is 2", DLEND_MSG_PEERS, false, IN(dlend_p_peers, more), 2, 2, -EINVAL },
	{ "peer 0", DLEND_MSG_PEERS, false, IN(dlend_p_peers, peer[1].node), 2, 0, -EINVAL },
	{ "peer behind the last", DLEND_MSG_PEERS, false, IN(dlend_p_peers, peer[2].node), 2, 7,
	  -EINVAL },
	{ "peer reserved", DLEND_MSG_PEERS, false, IN(dlend_p_peers, peer[26].reserved), 2, 1,
	  -EINVAL },
	{ "place domain", DLEND_MSG_PLACE, false, IN(dlend_p_place, domain), 4, 0x100000, -EINVAL },
	{ "place of 9", DLEND_MSG_PLACE, false, IN(dlend_p_place, count), 1, 9, -EINVAL },
	{ "place reserved", DLEND_MSG_PLACE, false, IN(dlend_p_place, reserved), 1, 1, -EINVAL },
	{ "place behind the last", DLEND_MSG_PLACE, false, IN(dlend_p_place, bridge[3].bdf), 2, 8,
	  -EINVAL },
	{ "bridge kind", DLEND_MSG_PLACE, false, IN(dlend_p_place, bridge[2].kind), 1,
	  DLEND_BRIDGE_KINDS, -EINVAL },
	{ "bridge flags", DLEND_MSG_PLACE, false, IN(dlend_p_place, bridge[0].flags), 1, 2,
	  -EINVAL },
	{ "root domain", DLEND_MSG_PLACE, false, IN(dlend_p_place, root_domain), 4, 0x100000,
	  -EINVAL },
	{ "root of NUMA node 1024", DLEND_MSG_PLACE, false, IN(dlend_p_place, numa), 2, 1024,
	  -EINVAL },
	{ "root payload 64", DLEND_MSG_PLACE, false, IN(dlend_p_place, payload), 2, 64, -EINVAL },
	{ "root payload 192", DLEND_MSG_PLACE, false, IN(dlend_p_place, payload), 2, 192, -EINVAL },
	{ "root payload 8192", DLEND_MSG_PLACE, false, IN(dlend_p_place, payload), 2, 8192,
	  -EINVAL },
	{ "p2p gpa", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, gpa), 8, 0xfe000100, -EINVAL },
	{ "p2p size 0", DLEND_MSG_P2P_UNMAP, false, IN(dlend_p_p2p, size), 8, 0, -EINVAL },
	{ "p2p wraps", DLEND_MSG_P2P_LOST, false, IN(dlend_p_p2p, gpa), 8, -4096ull, -EINVAL },
	{ "p2p offset wraps", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, offset), 8, -4096ull,
	  -EINVAL },
	{ "p2p offset of nothing", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, flags), 4, 0,
	  -EINVAL },
	{ "p2p flags", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, flags), 4, 3, -EINVAL },
	{ "p2p prot 0", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, prot), 4, 0, -EINVAL },
	{ "p2p prot", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, prot), 4, 4, -EINVAL },
	{ "p2p lender", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, lender), 2, 0, -EINVAL },
	{ "p2p of the ROM", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, bar), 2, 6, -EINVAL },
	{ "p2p reserved", DLEND_MSG_P2P_MAP, false, IN(dlend_p_p2p, reserved), 2, 1, -EINVAL },
	{ "grant to nobody", DLEND_MSG_P2P_GRANT, false, IN(dlend_p_p2p_grant, node), 2, 0,
	  -EINVAL },
	{ "grant of the ROM", DLEND_MSG_P2P_UNGRANT, false, IN(dlend_p_p2p_grant, bar), 2, 6,
	  -EINVAL },
	{ "grant reserved", DLEND_MSG_P2P_GRANT, false, IN(dlend_p_p2p_grant, reserved), 4, 1,
	  -EINVAL },
	{ "window size", DLEND_MSG_P2P_WINDOW, false, IN(dlend_p_p2p_window, size), 8, 0x1001,
	  -EINVAL },
	{ "window wraps", DLEND_MSG_P2P_WINDOW, false, IN(dlend_p_p2p_window, offset), 8, -4096ull,
	  -EINVAL },
	{ "window for nobody", DLEND_MSG_P2P_WINDOW, false, IN(dlend_p_p2p_window, borrower), 2, 0,
	  -EINVAL },
	{ "window of the ROM", DLEND_MSG_P2P_WINDOW, false, IN(dlend_p_p2p_window, bar), 2, 6,
	  -EINVAL },
	{ "id reserved", DLEND_MSG_P2P_CLOSE, false, IN(dlend_p_p2p_id, reserved), 4, 1, -EINVAL },
	{ "offer state that comes", DLEND_MSG_OFFER, false, IN(dlend_p_offer, now.state), 2,
	  DLEND_STATE_F_COMES | DLEND_OFFER_STATES, -EINVAL },
	{ "move flags", DLEND_MSG_MOVE_TO, false, IN(dlend_p_move_to, flags), 2, 2, -EINVAL },
	{ "move reserved", DLEND_MSG_MOVE_TO, false, IN(dlend_p_move_to, reserved), 4, 1, -EINVAL },
	{ "standby's irq handle", DLEND_MSG_STANDBY, false, IN(dlend_p_borrow, irq_handle), 4,
	  65536, -EINVAL },
	{ "quiet flags", DLEND_MSG_QUIESCE, true, IN(dlend_p_quiesced, flags), 4, 2, -EINVAL },
	{ "no token", DLEND_MSG_TAKE_OVER, false, IN(dlend_p_take, token[15]), 1, 0, -EINVAL },
	{ "take flags", DLEND_MSG_TAKE_OVER, false, IN(dlend_p_take, flags), 4, 2, -EINVAL },
	{ "take reserved", DLEND_MSG_TAKE_OVER, false, IN(dlend_p_take, reserved), 4, 1, -EINVAL },
	{ "an answer to WINDOW", DLEND_MSG_P2P_WINDOW, false, AT(flags), 2, DLEND_MSG_F_REPLY,
	  -EPROTO },
};

static void spoil_desc(const struct spoil *s, char *desc)
{
	strscpy(desc, s->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(spoil, spoils, spoil_desc);

static void spoilt_is_refused(struct kunit *test)
{
	const struct spoil *s = test->param_value;
	const char *why = NULL;
	struct dlend_msg msg;
	unsigned int i;

	make_good(&msg, s->type, s->reply);
	for (i = 0; i < s->size; i++)
		((u8 *)&msg)[s->at + i] = s->value >> (8 * i);
	dlend_msg_seal(&msg, 3);
	KUNIT_EXPECT_EQ(test, dlend_msg_check(&msg, 3, &why), s->err);
	KUNIT_EXPECT_NOT_NULL(test, why);
}

/* What a host that knows little says of its root complex. */
static void a_root_may_be_unknown(struct kunit *test)
{
	struct dlend_p_place *p;
	struct dlend_msg msg;

	make_good(&msg, DLEND_MSG_PLACE, false);
	p = (void *)msg.payload;
	p->p2p_domain = 0;
	p->numa = cpu_to_le16(DLEND_ROOT_NO_NUMA);
	p->payload = 0;
	dlend_msg_seal(&msg, 3);
	KUNIT_EXPECT_EQ(test, dlend_msg_check(&msg, 3, NULL), 0);
}

struct pick {
	const char *name;
	u32 mine, peer;
	int want;
};

#define V(min, max)	((u32)(min) << 16 | (max))

static const struct pick picks[] = {
	{ "same", V(1, 1), V(1, 1), 1 },
	{ "highest common", V(1, 5), V(2, 4), 4 },
	{ "mine is older", V(1, 2), V(2, 9), 2 },
	{ "peer is too new", V(1, 2), V(3, 9), -EPROTONOSUPPORT },
	{ "peer is too old", V(4, 5), V(1, 3), -EPROTONOSUPPORT },
	{ "peer says nothing", V(1, 1), 0, -EPROTONOSUPPORT },
	{ "peer is upside down", V(1, 9), V(5, 2), -EPROTONOSUPPORT },
	{ "peer reads as all ones", V(1, 1), ~0u, -EPROTONOSUPPORT },
};

static void pick_desc(const struct pick *p, char *desc)
{
	strscpy(desc, p->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(pick, picks, pick_desc);

static void version_is_picked(struct kunit *test)
{
	const struct pick *p = test->param_value;

	KUNIT_EXPECT_EQ(test, dlend_version_pick(p->mine, p->peer), p->want);
}

/* Each type has a rule, and somebody who gets it; there are no others. */
static void each_type_has_a_rule(struct kunit *test)
{
	u16 type;

	KUNIT_EXPECT_EQ(test, dlend_msg_payload_len(DLEND_MSG_NONE, false), -1);
	KUNIT_EXPECT_EQ(test, dlend_msg_payload_len(DLEND_MSG_TYPES, false), -1);
	KUNIT_EXPECT_EQ(test, dlend_msg_to(DLEND_MSG_NONE), DLEND_TO_NOBODY);
	KUNIT_EXPECT_EQ(test, dlend_msg_to(DLEND_MSG_TYPES), DLEND_TO_NOBODY);
	for (type = 1; type < DLEND_MSG_TYPES; type++)
		KUNIT_EXPECT_NE(test, dlend_msg_to(type), DLEND_TO_NOBODY);
}

#define CTRL_END	ALIGN((u64)sizeof(struct dlend_ctrl), 4096)

struct place {
	const char *name;
	u64 offset, size;
	int want;
};

/* Places in a lender's answer to BORROW, or in its P2P_WINDOW, with an aperture of 1 MiB. */
static const struct place places[] = {
	{ "first page", CTRL_END, 4096, 0 },
	{ "last page", SZ_1M - 4096, 4096, 0 },
	{ "all of it", CTRL_END, SZ_1M - CTRL_END, 0 },
	{ "offset 0", 0, 4096, -ERANGE },
	{ "end of the control area", CTRL_END - 4096, 8192, -ERANGE },
	{ "one page too many", SZ_1M - 4096, 8192, -ERANGE },
	{ "begins at the end", SZ_1M, 4096, -ERANGE },
	{ "begins behind the end", SZ_1M + 4096, 4096, -ERANGE },
	{ "larger than the aperture", CTRL_END, SZ_1M, -ERANGE },
	{ "end wraps to 0", -4096ull, 4096, -ERANGE },
	{ "end wraps into the aperture", -4096ull, SZ_1M, -ERANGE },
	{ "size wraps", SZ_1M / 2, -4096ull, -ERANGE },
	{ "not a page's beginning", CTRL_END + 256, 4096, -ERANGE },
	{ "nothing", CTRL_END, 0, -ERANGE },
};

static void place_desc(const struct place *p, char *desc)
{
	strscpy(desc, p->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(place, places, place_desc);

static void offsets_stay_inside(struct kunit *test)
{
	const struct place *p = test->param_value;

	KUNIT_EXPECT_EQ(test, dlend_offset_check(p->offset, p->size, SZ_1M), p->want);
	/* Without a window no place is right. */
	KUNIT_EXPECT_EQ(test, dlend_offset_check(p->offset, p->size, 0), -ERANGE);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(every_type_passes),
	KUNIT_CASE(every_bit_counts),
	KUNIT_CASE_PARAM(spoilt_is_refused, spoil_gen_params),
	KUNIT_CASE(a_root_may_be_unknown),
	KUNIT_CASE_PARAM(version_is_picked, pick_gen_params),
	KUNIT_CASE(each_type_has_a_rule),
	KUNIT_CASE_PARAM(offsets_stay_inside, place_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "dlend_proto",
	.test_cases = cases,
};

kunit_test_suite(suite);
MODULE_LICENSE("GPL");
