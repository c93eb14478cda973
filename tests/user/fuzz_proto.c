// SPDX-License-Identifier: GPL-2.0
/*
 * The wire under fuzz: frames that a peer may write, sealed or not, and ring indices that lie.
 * What dlend_msg_check() lets pass must be what the layers above rely on.
 */

#include <errno.h>
#include <linux/kernel.h>
#include <dlend/names.h>
#include <dlend/proto.h>

#include "ntb/queue.h"
#include "fuzz.h"

enum { OP_RAW, OP_SEALED, OP_TX, OP_RX, OP_VERSION, OP_NAME, OPS };

static bool error_ok(int ret)
{
	return ret == -EBADMSG || ret == -EPROTO || ret == -EINVAL;
}

static void dma_holds(const struct dlend_p_dma *dma)
{
	u32 count = le32_to_cpu(dma->count), i;

	MUST(count >= 1 && count <= DLEND_DMA_PER_MSG);
	for (i = 0; i < count; i++) {
		u64 gpa = le64_to_cpu(dma->entry[i].gpa), size = le64_to_cpu(dma->entry[i].size);

		MUST(size && !(size & 4095) && !(gpa & 4095));
		MUST(gpa + size > gpa);
	}
}

static void payload_holds(const struct dlend_msg *msg)
{
	const void *payload = msg->payload;
	u16 type = le16_to_cpu(msg->type);

	switch (type) {
	case DLEND_MSG_DMA_MAP:
	case DLEND_MSG_DMA_UNMAP:
		dma_holds(payload);
		break;
	case DLEND_MSG_CFG_READ:
	case DLEND_MSG_CFG_WRITE: {
		const struct dlend_p_cfg *cfg = payload;
		u32 at = le16_to_cpu(cfg->offset), size = le16_to_cpu(cfg->size);

		MUST(size == 1 || size == 2 || size == 4);
		MUST(!(at % size) && at + size <= DLEND_CFG_SIZE);
		break;
	}
	case DLEND_MSG_SNAPSHOT: {
		const struct dlend_p_snapshot *piece = payload;

		MUST(le16_to_cpu(piece->offset) + DLEND_SNAPSHOT_PIECE <= DLEND_CFG_SIZE);
		break;
	}
	case DLEND_MSG_PEERS: {
		const struct dlend_p_peers *peers = payload;

		MUST(le32_to_cpu(peers->count) <= DLEND_PEERS_PER_MSG);
		MUST(le16_to_cpu(peers->first) + le32_to_cpu(peers->count) <= DLEND_PEERS_MAX);
		break;
	}
	case DLEND_MSG_PLACE: {
		const struct dlend_p_place *place = payload;

		MUST(le32_to_cpu(place->root_domain) <= 0xfffff);
		MUST(le16_to_cpu(place->payload) <= 4096);
		MUST(place->count <= DLEND_PLACE_MAX);
		for (int i = 0; i < DLEND_PLACE_MAX; i++)
			MUST(place->bridge[i].kind < DLEND_BRIDGE_KINDS);
		break;
	}
	case DLEND_MSG_P2P_MAP:
	case DLEND_MSG_P2P_UNMAP:
	case DLEND_MSG_P2P_LOST: {
		const struct dlend_p_p2p *p = payload;
		u64 gpa = le64_to_cpu(p->gpa), size = le64_to_cpu(p->size);

		MUST(size && !((size | gpa) & 4095) && gpa + size > gpa);
		MUST(p->lender && le16_to_cpu(p->bar) < DLEND_NUM_BARS);
		if (type == DLEND_MSG_P2P_MAP)
			MUST(le64_to_cpu(p->offset) + size >= size);
		break;
	}
	case DLEND_MSG_P2P_GRANT:
	case DLEND_MSG_P2P_UNGRANT: {
		const struct dlend_p_p2p_grant *grant = payload;

		MUST(grant->node && le16_to_cpu(grant->bar) < DLEND_NUM_BARS);
		break;
	}
	case DLEND_MSG_P2P_WINDOW: {
		const struct dlend_p_p2p_window *w = payload;
		u64 offset = le64_to_cpu(w->offset), size = le64_to_cpu(w->size);

		MUST(size && !((size | offset) & 4095) && offset + size > offset);
		MUST(w->borrower && le16_to_cpu(w->bar) < DLEND_NUM_BARS);
		break;
	}
	case DLEND_MSG_IRQ_SETUP: {
		const struct dlend_p_irq *irq = payload;

		MUST(le32_to_cpu(irq->mode) < DLEND_IRQ_MODES);
		MUST(le32_to_cpu(irq->count) <= DLEND_MAX_VECTORS);
		break;
	}
	}
}

static void one_frame(struct input *in, bool sealed)
{
	/* Allocated by itself, so that a sanitizer sees a byte beyond. */
	struct dlend_msg *msg = malloc(sizeof(*msg));
	struct dlend_msg before;
	const char *why = NULL;
	u32 seq = take_u8(in);
	int ret;

	take(in, msg, sizeof(*msg));
	if (sealed)
		dlend_msg_seal(msg, seq);
	before = *msg;
	ret = dlend_msg_check(msg, seq, &why);
	MUST(!memcmp(&before, msg, sizeof(before)));
	MUST(ret == dlend_msg_check(msg, seq, NULL));
	MUST(dlend_msg_type_name(le16_to_cpu(msg->type)));
	if (ret) {
		MUST(error_ok(ret) && why);
	} else {
		bool reply = le16_to_cpu(msg->flags) & DLEND_MSG_F_REPLY;
		u16 type = le16_to_cpu(msg->type);

		MUST(type > DLEND_MSG_NONE && type < DLEND_MSG_TYPES);
		MUST(le16_to_cpu(msg->len) <= DLEND_MSG_PAYLOAD);
		MUST(!(le16_to_cpu(msg->flags) & ~DLEND_MSG_F_REPLY));
		if (!reply) {
			MUST(le16_to_cpu(msg->len) == dlend_msg_payload_len(type, false));
			payload_holds(msg);
		}
		/* The right frame at the wrong time is a wrong frame. */
		MUST(dlend_msg_check(msg, seq + 1, NULL));
	}
	free(msg);
}

static void one_tx(struct dlend_ring_tx *tx, u32 credit)
{
	int room = dlend_ring_tx_room(tx, credit);

	MUST(room == -EPROTO || (room >= 0 && room <= DLEND_RING_SLOTS));
	MUST(tx->prod - tx->cons <= DLEND_RING_SLOTS);
	if (room > 0)
		tx->prod++;
	MUST(tx->prod - tx->cons <= DLEND_RING_SLOTS);
}

static void one_rx(struct dlend_ring_rx *rx, u32 index)
{
	int avail = dlend_ring_rx_avail(rx, index);

	MUST(avail == -EPROTO || (avail >= 0 && avail <= DLEND_RING_SLOTS));
	if (avail > 0)
		rx->cons++;
	MUST(rx->prod - rx->cons <= DLEND_RING_SLOTS);
}

static void one_name(struct input *in)
{
	char *wire = malloc(DLEND_NODE_NAME_LEN), *name = malloc(DLEND_NODE_NAME_LEN);

	take(in, wire, DLEND_NODE_NAME_LEN);
	dlend_name_read(name, wire);
	MUST(memchr(name, 0, DLEND_NODE_NAME_LEN));
	for (const char *c = name; *c; c++)
		MUST(*c > ' ' && *c <= '~' && !strchr("\"'\\<&", *c));
	free(name);
	free(wire);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { data, size };
	struct dlend_ring_tx tx = { };
	struct dlend_ring_rx rx = { };

	while (in.left) {
		u8 op = take_u8(&in);

		switch (op % OPS) {
		case OP_RAW:
		case OP_SEALED:
			one_frame(&in, op % OPS == OP_SEALED);
			break;
		case OP_TX:
			/* Near the truth, or anything. */
			one_tx(&tx, op & 0x80 ? take_u32(&in) : tx.cons + take_u8(&in));
			break;
		case OP_RX:
			one_rx(&rx, op & 0x80 ? take_u32(&in) : rx.cons + take_u8(&in));
			break;
		case OP_VERSION: {
			u32 mine = DLEND_PROTO_MIN << 16 | DLEND_PROTO_MAX;
			int version = dlend_version_pick(mine, take_u32(&in));

			MUST(version == -EPROTONOSUPPORT ||
			     (version >= DLEND_PROTO_MIN && version <= DLEND_PROTO_MAX));
			break;
		}
		case OP_NAME:
			one_name(&in);
			break;
		}
	}
	return 0;
}

/* A request of every type, well formed as far as a payload of zeroes is. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct dlend_addr addr = { 2, 0x300 };
	unsigned int type;

	for (type = 1; type < DLEND_MSG_TYPES; type++) {
		struct {
			u8 op, seq;
			struct dlend_msg msg;
		} __packed frame = { OP_SEALED, 0, { } };
		int len = dlend_msg_payload_len(type, false);
		struct dlend_p_dma dma = { .count = cpu_to_le32(1) };
		struct dlend_p_cfg cfg = { .size = cpu_to_le16(4) };
		struct dlend_msg msg;
		char name[32];

		dlend_msg_init(&msg, type, &addr, 1, len < 0 ? 0 : len);
		dma.entry[0].size = cpu_to_le64(4096);
		dma.entry[0].prot = cpu_to_le32(DLEND_PROT_READ);
		if (type == DLEND_MSG_DMA_MAP || type == DLEND_MSG_DMA_UNMAP)
			memcpy(msg.payload, &dma, sizeof(dma));
		if (type == DLEND_MSG_CFG_READ || type == DLEND_MSG_CFG_WRITE)
			memcpy(msg.payload, &cfg, sizeof(cfg));
		msg.id = cpu_to_le32(1);
		frame.msg = msg;
		snprintf(name, sizeof(name), "type-%u", type);
		seed(name, &frame, sizeof(frame));
	}
	return 0;
}
