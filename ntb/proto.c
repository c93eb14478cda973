// SPDX-License-Identifier: GPL-2.0
/*
 * Wire format: makes messages, and checks those that a peer wrote, by one rule for each type.
 *
 * Pure: no device, no lock, no state.  It knows whether a message is well formed, but not whether a
 * lease, a slot or a handle in it exists: that is checked by the files that have these.
 */
#include <linux/align.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/crc32.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <asm/byteorder.h>
#include <dlend/proto.h>

#define DLEND_WIRE_PAGE		4096ull
#define DLEND_WIRE_MAX_ERRNO	4095
#define DLEND_WIRE_MAX_MSI	32
#define DLEND_WIRE_MAX_DOMAIN	0xfffffu	/* five digits: VMD's begin at 0x10000 */
#define DLEND_WIRE_MAX_NUMA	1023	/* as many nodes as the kernel can have */
#define DLEND_WIRE_MIN_PAYLOAD	128	/* Max_Payload_Size, PCIe 7.5.3.4 */
#define DLEND_WIRE_MAX_PAYLOAD	4096

#define DLEND_BAR_FLAGS		(DLEND_BAR_F_IO | DLEND_BAR_F_64 | DLEND_BAR_F_PREFETCH | \
				 DLEND_BAR_F_MAPPABLE | DLEND_BAR_F_MSIX)
#define DLEND_OFFER_FLAGS	(DLEND_OFFER_F_ISOLATED_MSI | DLEND_OFFER_F_VF)

static bool dlend_msg_page_aligned(u64 x)
{
	return !(x & (DLEND_WIRE_PAGE - 1));
}

/* A range of whole pages that does not wrap, also not onto 2^64 itself. */
static bool dlend_msg_pages_ok(u64 start, u64 size)
{
	return dlend_msg_page_aligned(start | size) && size && start + size > start;
}

static const char *dlend_msg_check_bar(const struct dlend_p_bar *bar, unsigned int index)
{
	u64 size = le64_to_cpu(bar->size);
	u32 flags = le32_to_cpu(bar->flags);

	if (size && !is_power_of_2(size))
		return "bar size";
	if (flags & ~DLEND_BAR_FLAGS)
		return "bar flags";
	if (!size)
		return NULL;
	if ((flags & DLEND_BAR_F_64) && index >= DLEND_NUM_BARS - 1)
		return "bar 64";
	if ((flags & DLEND_BAR_F_IO) && (flags & (DLEND_BAR_F_64 | DLEND_BAR_F_MAPPABLE)))
		return "bar io";
	return NULL;
}

static const char *dlend_msg_check_offer(u16 type, const void *payload)
{
	const struct dlend_p_offer *p = payload;
	u16 nr_msi = le16_to_cpu(p->nr_msi);
	const char *why;
	unsigned int i;

	if (le32_to_cpu(p->class) >> 24)
		return "class";
	if (le32_to_cpu(p->flags) & ~DLEND_OFFER_FLAGS)
		return "offer flags";
	if (!p->group_size)
		return "group size";
	if (nr_msi > DLEND_WIRE_MAX_MSI || (nr_msi && !is_power_of_2(nr_msi)))
		return "msi count";
	if (le16_to_cpu(p->nr_msix) > DLEND_MAX_VECTORS)
		return "msix count";
	if (le16_to_cpu(p->has_intx) > 1)
		return "intx";
	if (dlend_state_of(p->now.state) >= DLEND_OFFER_STATES)
		return "offer state";
	if (le16_to_cpu(p->clique) > DLEND_OFFER_CLIQUE_NONE)
		return "offer clique";
	if (p->identity[DLEND_NODE_NAME_LEN - 1])
		return "offer identity";
	for (i = 0; i < DLEND_NUM_REGIONS; i++) {
		why = dlend_msg_check_bar(&p->bar[i], i);
		if (why)
			return why;
		/* The register after a 64-bit BAR is its upper half. */
		if (i && i < DLEND_NUM_BARS && p->bar[i].size && p->bar[i - 1].size &&
		    (le32_to_cpu(p->bar[i - 1].flags) & DLEND_BAR_F_64))
			return "bar upper half";
	}
	return NULL;
}

static const char *dlend_msg_check_snapshot(u16 type, const void *payload)
{
	const struct dlend_p_snapshot *p = payload;
	u16 offset = le16_to_cpu(p->offset);

	if (offset % DLEND_SNAPSHOT_PIECE || offset >= DLEND_CFG_SIZE)
		return "snapshot offset";
	return p->reserved ? "snapshot reserved" : NULL;
}

static const char *dlend_msg_check_state(u16 type, const void *payload)
{
	const struct dlend_p_state *p = payload;

	return dlend_state_of(p->state) >= DLEND_OFFER_STATES ? "state" : NULL;
}

static const char *dlend_msg_check_borrow(u16 type, const void *payload)
{
	const struct dlend_p_borrow *p = payload;
	u64 offset = le64_to_cpu(p->irq_offset);

	if (!dlend_msg_pages_ok(offset, DLEND_IRQ_COUNTERS_SIZE))
		return "interrupt offset";
	if (le32_to_cpu(p->irq_handle) > U16_MAX)
		return "interrupt handle";
	return p->reserved ? "borrow reserved" : NULL;
}

static const char *dlend_msg_check_lease(u16 type, const void *payload)
{
	const struct dlend_p_lease *p = payload;
	unsigned int i;

	if (p->reserved[0] || p->reserved[1] || p->reserved[2])
		return "lease reserved";
	for (i = 0; i < DLEND_NUM_REGIONS; i++) {
		u64 offset = le64_to_cpu(p->bar_offset[i]);

		if (offset != U64_MAX && !dlend_msg_page_aligned(offset))
			return "bar offset";
	}
	return NULL;
}

static const char *dlend_msg_check_dma_entry(u16 type, const struct dlend_p_dma_entry *e)
{
	u64 gpa = le64_to_cpu(e->gpa);
	u64 size = le64_to_cpu(e->size);
	u64 offset = le64_to_cpu(e->offset);
	u32 prot = le32_to_cpu(e->prot);

	if (!dlend_msg_pages_ok(gpa, size))
		return "dma range";
	if (e->reserved)
		return "dma entry reserved";
	if (type != DLEND_MSG_DMA_MAP)
		return NULL;
	if (!dlend_msg_pages_ok(offset, size))
		return "dma offset";
	if (!prot || prot & ~(DLEND_PROT_READ | DLEND_PROT_WRITE))
		return "dma prot";
	return NULL;
}

static bool dlend_msg_dma_overlap(const struct dlend_p_dma_entry *a,
				  const struct dlend_p_dma_entry *b)
{
	u64 a_gpa = le64_to_cpu(a->gpa), b_gpa = le64_to_cpu(b->gpa);

	return a_gpa < b_gpa + le64_to_cpu(b->size) && b_gpa < a_gpa + le64_to_cpu(a->size);
}

static const char *dlend_msg_check_dma(u16 type, const void *payload)
{
	const struct dlend_p_dma *p = payload;
	u32 count = le32_to_cpu(p->count);
	const char *why;
	unsigned int i, j;

	if (!count || count > DLEND_DMA_PER_MSG)
		return "dma count";
	if (p->reserved)
		return "dma reserved";
	for (i = 0; i < count; i++) {
		why = dlend_msg_check_dma_entry(type, &p->entry[i]);
		if (why)
			return why;
		for (j = 0; j < i; j++)
			if (dlend_msg_dma_overlap(&p->entry[i], &p->entry[j]))
				return "dma overlap";
	}
	return NULL;
}

static const char *dlend_msg_check_switch(u16 type, const void *payload)
{
	const struct dlend_p_u32 *p = payload;

	return le32_to_cpu(p->value) > 1 ? "value" : NULL;
}

static const char *dlend_msg_check_rom(u16 type, const void *payload)
{
	const struct dlend_p_u32 *p = payload;
	u32 offset = le32_to_cpu(p->value);

	return offset % DLEND_ROM_PIECE || offset >= DLEND_ROM_MAX ? "rom offset" : NULL;
}

static const char *dlend_msg_check_rom_piece(u16 type, const void *payload)
{
	const struct dlend_p_rom *p = payload;
	u32 offset = le32_to_cpu(p->offset), size = le32_to_cpu(p->size);

	if (!size || size > DLEND_ROM_MAX)
		return "rom size";
	return offset % DLEND_ROM_PIECE || offset >= size ? "rom offset" : NULL;
}

static const char *dlend_msg_check_cfg(u16 type, const void *payload)
{
	const struct dlend_p_cfg *p = payload;
	u32 offset = le16_to_cpu(p->offset);
	u32 size = le16_to_cpu(p->size);

	if (size != 1 && size != 2 && size != 4)
		return "cfg size";
	if (offset % size || offset + size > DLEND_CFG_SIZE)
		return "cfg offset";
	if (size < 4 && le32_to_cpu(p->value) >> (8 * size))
		return "cfg value";
	return NULL;
}

static const char *dlend_msg_check_irq(u16 type, const void *payload)
{
	const struct dlend_p_irq *p = payload;
	u32 count = le32_to_cpu(p->count);

	switch (le32_to_cpu(p->mode)) {
	case DLEND_IRQ_NONE:	/* @count is not used */
		return count > DLEND_MAX_VECTORS ? "irq count" : NULL;
	case DLEND_IRQ_INTX:
		return count != 1 ? "irq count" : NULL;
	case DLEND_IRQ_MSI:
		return !is_power_of_2(count) || count > DLEND_WIRE_MAX_MSI ? "irq count" : NULL;
	case DLEND_IRQ_MSIX:
		return !count || count > DLEND_MAX_VECTORS ? "irq count" : NULL;
	}
	return "irq mode";
}

static const char *dlend_msg_check_peers(u16 type, const void *payload)
{
	const struct dlend_p_peers *p = payload;
	u32 count = le32_to_cpu(p->count), more = le16_to_cpu(p->more), i;
	bool used;

	if (count > DLEND_PEERS_PER_MSG || more > 1 || (more && count != DLEND_PEERS_PER_MSG) ||
	    le16_to_cpu(p->first) + count > DLEND_PEERS_MAX)
		return "peer count";
	for (i = 0; i < DLEND_PEERS_PER_MSG; i++) {
		if (p->peer[i].reserved)
			return "peer reserved";
		used = i < count;
		if (used == !p->peer[i].node)
			return "peer node";
	}
	return NULL;
}

static bool dlend_msg_payload_ok(u16 payload)
{
	return !payload || (is_power_of_2(payload) && payload >= DLEND_WIRE_MIN_PAYLOAD &&
			    payload <= DLEND_WIRE_MAX_PAYLOAD);
}

static const char *dlend_msg_check_place(u16 type, const void *payload)
{
	const struct dlend_p_place *p = payload;
	u16 numa = le16_to_cpu(p->numa);
	unsigned int i;

	if (le32_to_cpu(p->domain) > DLEND_WIRE_MAX_DOMAIN)
		return "place domain";
	if (le32_to_cpu(p->root_domain) > DLEND_WIRE_MAX_DOMAIN)
		return "root domain";
	if (numa > DLEND_WIRE_MAX_NUMA && numa != DLEND_ROOT_NO_NUMA)
		return "root numa";
	if (!dlend_msg_payload_ok(le16_to_cpu(p->payload)))
		return "root payload";
	if (p->count > DLEND_PLACE_MAX)
		return "place count";
	if (p->reserved)
		return "place reserved";
	for (i = 0; i < DLEND_PLACE_MAX; i++) {
		const struct dlend_p_bridge *b = &p->bridge[i];

		if (i >= p->count && (b->bdf || b->kind || b->flags))
			return "place behind the last";
		if (b->kind >= DLEND_BRIDGE_KINDS)
			return "bridge kind";
		if (b->flags & ~DLEND_BRIDGE_F_ACS)
			return "bridge flags";
	}
	return NULL;
}

static const char *dlend_msg_check_direct(u16 type, const void *payload)
{
	const struct dlend_p_direct *p = payload;
	u32 mode = le32_to_cpu(p->mode), count = le32_to_cpu(p->count);

	if (mode != DLEND_IRQ_MSI && mode != DLEND_IRQ_MSIX)
		return "direct mode";
	if (!count || count > DLEND_MAX_VECTORS ||
	    (mode == DLEND_IRQ_MSI && (!is_power_of_2(count) || count > DLEND_WIRE_MAX_MSI)))
		return "direct count";
	if (!dlend_msg_pages_ok(le64_to_cpu(p->table), DLEND_DIRECT_TABLE(count)))
		return "direct table";
	return dlend_msg_pages_ok(le64_to_cpu(p->page), DLEND_DIRECT_SIZE) ? NULL : "direct page";
}

static const char *dlend_msg_check_p2p(u16 type, const void *payload)
{
	const struct dlend_p_p2p *p = payload;
	u64 gpa = le64_to_cpu(p->gpa), size = le64_to_cpu(p->size);
	u64 offset = le64_to_cpu(p->offset);
	u32 flags = le32_to_cpu(p->flags), prot = le32_to_cpu(p->prot);

	if (!dlend_msg_pages_ok(gpa, size))
		return "p2p range";
	if (!p->lender)
		return "p2p lender";
	if (le16_to_cpu(p->bar) >= DLEND_NUM_BARS)
		return "p2p bar";
	if (p->reserved)
		return "p2p reserved";
	if (type != DLEND_MSG_P2P_MAP)
		return NULL;
	if (flags & ~DLEND_P2P_F_OFFSET)
		return "p2p flags";
	if (flags & DLEND_P2P_F_OFFSET ? !dlend_msg_pages_ok(offset, size) : offset)
		return "p2p offset";
	if (!prot || prot & ~(DLEND_PROT_READ | DLEND_PROT_WRITE))
		return "p2p prot";
	return NULL;
}

static const char *dlend_msg_check_grant(u16 type, const void *payload)
{
	const struct dlend_p_p2p_grant *p = payload;

	if (!p->node)
		return "grant node";
	if (le16_to_cpu(p->bar) >= DLEND_NUM_BARS)
		return "grant bar";
	return p->reserved ? "grant reserved" : NULL;
}

static const char *dlend_msg_check_window(u16 type, const void *payload)
{
	const struct dlend_p_p2p_window *p = payload;
	u64 offset = le64_to_cpu(p->offset), size = le64_to_cpu(p->size);

	if (!dlend_msg_pages_ok(offset, size))
		return "window range";
	if (!p->borrower)
		return "window borrower";
	return le16_to_cpu(p->bar) >= DLEND_NUM_BARS ? "window bar" : NULL;
}

static const char *dlend_msg_check_id(u16 type, const void *payload)
{
	const struct dlend_p_p2p_id *p = payload;

	return p->reserved ? "id reserved" : NULL;
}

static const char *dlend_msg_check_move_to(u16 type, const void *payload)
{
	const struct dlend_p_move_to *p = payload;

	if (le16_to_cpu(p->flags) & ~DLEND_MOVE_F_FORCED)
		return "move flags";
	return p->reserved ? "move reserved" : NULL;
}

static const char *dlend_msg_check_quiesced(u16 type, const void *payload)
{
	const struct dlend_p_quiesced *p = payload;

	return le32_to_cpu(p->flags) & ~DLEND_QUIET_F_DRAINED ? "quiet flags" : NULL;
}

/* No token is all 0. */
static const char *dlend_msg_check_take(u16 type, const void *payload)
{
	const struct dlend_p_take *p = payload;
	unsigned int i;

	if (le32_to_cpu(p->flags) & ~DLEND_TAKE_F_ASK)
		return "take flags";
	if (p->reserved)
		return "take reserved";
	for (i = 0; i < DLEND_TOKEN_SIZE; i++)
		if (p->token[i])
			return NULL;
	return "token";
}

#define NO_REPLY	(-1)

/*
 * struct dlend_msg_rule - properties of a type of message
 * @name: for logs and tracepoints
 * @to: who gets it
 * @request_len: bytes of a request's payload
 * @reply_len: bytes of a reply's payload; NO_REPLY: it is a post, which is never answered
 * @about_device: it is about a device
 * @check: judges the fields of a request's payload. Return: NULL, or the problem
 * @check_reply: the same for a reply
 */
struct dlend_msg_rule {
	const char *name;
	enum dlend_msg_side to;
	int request_len;
	int reply_len;
	bool about_device;
	const char *(*check)(u16 type, const void *payload);
	const char *(*check_reply)(u16 type, const void *payload);
};

#define LEN(payload) \
	(sizeof(struct dlend_p_##payload) + \
	 BUILD_BUG_ON_ZERO(sizeof(struct dlend_p_##payload) > DLEND_MSG_PAYLOAD))
#define RULE(type, to, ...) \
	[DLEND_MSG_##type] = { #type, DLEND_TO_##to, __VA_ARGS__ }

static const struct dlend_msg_rule dlend_msg_rules[DLEND_MSG_TYPES] = {
	RULE(OFFER, BORROWER, LEN(offer), NO_REPLY, true, dlend_msg_check_offer),
	RULE(SNAPSHOT, BORROWER, LEN(snapshot), NO_REPLY, true, dlend_msg_check_snapshot),
	RULE(WITHDRAW, BORROWER, 0, NO_REPLY, true),
	RULE(STATE, BORROWER, LEN(state), NO_REPLY, true, dlend_msg_check_state),
	RULE(RECLAIM, BORROWER, 0, NO_REPLY, true),
	RULE(ERROR, BORROWER, 0, NO_REPLY, true),
	RULE(BORROW, LENDER, LEN(borrow), LEN(lease), true, dlend_msg_check_borrow,
	     dlend_msg_check_lease),
	RULE(RETURN, LENDER, 0, 0, true),
	RULE(DMA_MAP, LENDER, LEN(dma), 0, true, dlend_msg_check_dma),
	RULE(DMA_UNMAP, LENDER, LEN(dma), 0, true, dlend_msg_check_dma),
	RULE(BUS_MASTER, LENDER, LEN(u32), 0, true, dlend_msg_check_switch),
	RULE(CFG_WRITE, LENDER, LEN(cfg), 0, true, dlend_msg_check_cfg),
	RULE(CFG_READ, LENDER, LEN(cfg), LEN(cfg), true, dlend_msg_check_cfg, dlend_msg_check_cfg),
	RULE(IRQ_SETUP, LENDER, LEN(irq), 0, true, dlend_msg_check_irq),
	RULE(IRQ_UNMASK, LENDER, 0, NO_REPLY, true),
	RULE(RESET, LENDER, 0, 0, true),
	RULE(ROM_READ, LENDER, LEN(u32), LEN(rom), true, dlend_msg_check_rom,
	     dlend_msg_check_rom_piece),
	RULE(SUBSCRIBE, LENDER, 0, NO_REPLY, false),
	RULE(PEERS, BORROWER, LEN(peers), NO_REPLY, false, dlend_msg_check_peers),
	RULE(P2P_MAP, LENDER, LEN(p2p), 0, true, dlend_msg_check_p2p),
	RULE(P2P_UNMAP, LENDER, LEN(p2p), 0, true, dlend_msg_check_p2p),
	RULE(P2P_LOST, BORROWER, LEN(p2p), NO_REPLY, true, dlend_msg_check_p2p),
	RULE(P2P_GRANT, LENDER, LEN(p2p_grant), 0, true, dlend_msg_check_grant),
	RULE(P2P_UNGRANT, LENDER, LEN(p2p_grant), 0, true, dlend_msg_check_grant),
	RULE(P2P_WINDOW, LENDER, LEN(p2p_window), NO_REPLY, true, dlend_msg_check_window),
	RULE(P2P_CLOSE, LENDER, LEN(p2p_id), NO_REPLY, true, dlend_msg_check_id),
	RULE(P2P_CLOSED, LENDER, LEN(p2p_id), NO_REPLY, true, dlend_msg_check_id),
	RULE(PLACE, BORROWER, LEN(place), NO_REPLY, true, dlend_msg_check_place),
	RULE(MOVE_TO, LENDER, LEN(move_to), 0, true, dlend_msg_check_move_to),
	RULE(STANDBY, LENDER, LEN(borrow), LEN(lease), true, dlend_msg_check_borrow,
	     dlend_msg_check_lease),
	RULE(QUIESCE, LENDER, 0, LEN(quiesced), true, NULL, dlend_msg_check_quiesced),
	RULE(RUN, LENDER, 0, 0, true),
	RULE(HAND_OVER, LENDER, 0, LEN(token), true),
	RULE(TAKE_OVER, LENDER, LEN(take), 0, true, dlend_msg_check_take),
	RULE(IRQ_DIRECT, LENDER, LEN(direct), 0, true, dlend_msg_check_direct),
	RULE(SET, BORROWER, LEN(set), NO_REPLY, true),
};

/* NULL: there is no such type. */
static const struct dlend_msg_rule *dlend_msg_rule_of(u16 type)
{
	return type > DLEND_MSG_NONE && type < DLEND_MSG_TYPES ? &dlend_msg_rules[type] : NULL;
}

int dlend_msg_payload_len(u16 type, bool reply)
{
	const struct dlend_msg_rule *rule = dlend_msg_rule_of(type);

	if (!rule)
		return -1;
	return reply ? rule->reply_len : rule->request_len;
}

enum dlend_msg_side dlend_msg_to(u16 type)
{
	const struct dlend_msg_rule *rule = dlend_msg_rule_of(type);

	return rule ? rule->to : DLEND_TO_NOBODY;
}

const char *dlend_msg_type_name(u16 type)
{
	const struct dlend_msg_rule *rule = dlend_msg_rule_of(type);

	return rule ? rule->name : "UNKNOWN";
}

/* The checksum covers the message as if the field itself were 0. */
static u32 dlend_msg_crc(const struct dlend_msg *msg)
{
	static const u8 zero[sizeof(msg->crc)];
	const u8 *raw = (const u8 *)msg;
	const size_t at = offsetof(struct dlend_msg, crc);
	u32 crc;

	crc = crc32_le(~0u, raw, at);
	crc = crc32_le(crc, zero, sizeof(zero));
	return crc32_le(crc, raw + at + sizeof(zero), sizeof(*msg) - at - sizeof(zero));
}

void dlend_msg_seal(struct dlend_msg *msg, u32 seq)
{
	msg->seq = cpu_to_le32(seq);
	msg->crc = cpu_to_le32(dlend_msg_crc(msg));
}

void *dlend_msg_init(struct dlend_msg *msg, u16 type, const struct dlend_addr *addr, u32 epoch,
		     u16 len)
{
	memset(msg, 0, sizeof(*msg));
	msg->type = cpu_to_le16(type);
	msg->epoch = cpu_to_le32(epoch);
	msg->len = cpu_to_le16(len);
	if (addr) {
		msg->bdf = cpu_to_le16(addr->bdf);
		msg->lender = cpu_to_le16(addr->lender);
	}
	return msg->payload;
}

/* Status: a reply's is 0 or a negative errno value, a request has none. */
static bool dlend_msg_status_ok(const struct dlend_msg *msg, bool reply)
{
	s32 status = (s32)le32_to_cpu(msg->status);

	return reply ? status <= 0 && status >= -DLEND_WIRE_MAX_ERRNO : !status;
}

static int dlend_msg_refuse(const char **why, const char *reason, int err)
{
	*why = reason;
	return err;
}

static int dlend_msg_check_frame(const struct dlend_msg *msg, const char **why)
{
	const struct dlend_msg_rule *rule = dlend_msg_rule_of(le16_to_cpu(msg->type));
	u16 flags = le16_to_cpu(msg->flags);
	bool reply = flags & DLEND_MSG_F_REPLY, post;

	if (!rule)
		return dlend_msg_refuse(why, "type", -EPROTO);
	post = rule->reply_len == NO_REPLY;
	if (flags & ~DLEND_MSG_F_REPLY || (reply && post))
		return dlend_msg_refuse(why, "flags", -EPROTO);
	if (le16_to_cpu(msg->len) != (reply ? rule->reply_len : rule->request_len))
		return dlend_msg_refuse(why, "len", -EPROTO);
	/* A post has no id, a reply has one. Any other request without one gets no reply. */
	if (msg->id ? post : reply)
		return dlend_msg_refuse(why, "id", -EINVAL);
	if (msg->reserved)
		return dlend_msg_refuse(why, "reserved", -EINVAL);
	if (!dlend_msg_status_ok(msg, reply))
		return dlend_msg_refuse(why, "status", -EINVAL);
	if (rule->about_device && !msg->lender)
		return dlend_msg_refuse(why, "lender", -EINVAL);
	return 0;
}

static int dlend_msg_check_payload(const struct dlend_msg *msg, const char **why)
{
	u16 type = le16_to_cpu(msg->type);
	bool reply = le16_to_cpu(msg->flags) & DLEND_MSG_F_REPLY;
	const char *(*check)(u16 type, const void *payload);
	unsigned int i;

	for (i = le16_to_cpu(msg->len); i < DLEND_MSG_PAYLOAD; i++) {
		if (msg->payload[i])
			return dlend_msg_refuse(why, "padding", -EINVAL);
	}
	/* The payload of a refusal is not used, so it is not checked. */
	if (reply && msg->status)
		return 0;
	check = reply ? dlend_msg_rule_of(type)->check_reply : dlend_msg_rule_of(type)->check;
	*why = check ? check(type, msg->payload) : NULL;
	return *why ? -EINVAL : 0;
}

int dlend_msg_check(const struct dlend_msg *msg, u32 seq, const char **why)
{
	const char *ignored;
	int err;

	if (!why)
		why = &ignored;
	*why = NULL;
	if (le32_to_cpu(msg->crc) != dlend_msg_crc(msg))
		return dlend_msg_refuse(why, "crc", -EBADMSG);
	if (le32_to_cpu(msg->seq) != seq)
		return dlend_msg_refuse(why, "seq", -EBADMSG);
	err = dlend_msg_check_frame(msg, why);
	return err ?: dlend_msg_check_payload(msg, why);
}

int dlend_offset_check(u64 offset, u64 size, u64 aperture)
{
	const u64 first = ALIGN(sizeof(struct dlend_ctrl), DLEND_WIRE_PAGE);

	if (!size || !IS_ALIGNED(offset, DLEND_WIRE_PAGE) || offset < first)
		return -ERANGE;
	return offset > aperture || size > aperture - offset ? -ERANGE : 0;
}

int dlend_version_pick(u32 mine, u32 peer)
{
	u16 my_min = mine >> 16, my_max = mine & U16_MAX;
	u16 peer_min = peer >> 16, peer_max = peer & U16_MAX;

	if (!peer_min || peer_min > peer_max)
		return -EPROTONOSUPPORT;
	if (max(my_min, peer_min) > min(my_max, peer_max))
		return -EPROTONOSUPPORT;
	return min(my_max, peer_max);
}
