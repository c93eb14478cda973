/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wire format: the data that two nodes write into each other's memory.
 * docs/wire-format.md is the prose.  All fields are little endian; every structure's
 * size is asserted; every field that arrives is copied out once and then checked
 * (dlend_msg_check()).  Addresses are offsets in an aperture, never physical.
 */
#ifndef DLEND_PROTO_H
#define DLEND_PROTO_H

#include <linux/build_bug.h>
#include <dlend/types.h>

#define DLEND_PROTO_MAGIC	0x444c4e44u	/* "DLND" */
#define DLEND_PROTO_MIN		1	/* oldest protocol version this code speaks */
#define DLEND_PROTO_MAX		1	/* newest */

/* Scratchpads: each node writes its peer's eight, about itself, and reads its own. */
enum dlend_spad {
	DLEND_SPAD_MAGIC,	/* DLEND_PROTO_MAGIC, written last, cleared first */
	DLEND_SPAD_VERSION,	/* min << 16 | max */
	DLEND_SPAD_NODE,	/* node id */
	DLEND_SPAD_NONCE_LO,	/* session nonce, new at every bring-up; never 0 */
	DLEND_SPAD_NONCE_HI,
	DLEND_SPAD_APERTURE,	/* aperture size, in MiB */
	DLEND_SPAD_ACK,		/* nonce (lo ^ hi, never 0) of the peer seen here, 0 = none */
	DLEND_SPAD_READY,	/* as ACK, once this node's control area is cleared for the peer */
	DLEND_SPAD_COUNT = 8
};

/* Doorbell bits (of the peer). */
#define DLEND_DB_MSG		0	/* there are new messages; in bring-up, new scratchpads */
#define DLEND_DB_IRQ		1	/* there are hints in the interrupt ring */

/*
 * Control area: the first bytes of every aperture.  The peer writes everything in it.  The peer
 * reads from it only in the self-test, before it sends late interrupts or a reply (a flushing
 * read), and when an interrupt counter reads as all ones: a posted write is cheap, a read is a
 * round trip.
 */
#define DLEND_MSG_SIZE		256
#define DLEND_MSG_PAYLOAD	224
#define DLEND_RING_SLOTS	64	/* power of two */
#define DLEND_IRQ_RING_SLOTS	4096	/* power of two */
#define DLEND_TEST_SIZE		256
/* Counters of a device's interrupts, in the borrower's aperture: one for each vector. */
#define DLEND_IRQ_COUNTERS_SIZE	(DLEND_MAX_VECTORS * sizeof(__le32))

/**
 * struct dlend_msg - one message, fixed size
 * @seq: running number of the producer, starts at 0 in a session
 * @type: enum dlend_msg_type
 * @flags: DLEND_MSG_F_*
 * @id: request id chosen by the requester, repeated in the reply; 0 = no reply wanted
 * @epoch: the lease this belongs to, 0 if none
 * @bdf: device, as in struct dlend_addr
 * @lender: device, as in struct dlend_addr
 * @status: of a reply: 0 or a negative errno value (Linux x86 numbers)
 * @len: bytes used of @payload
 * @reserved: 0
 * @crc: crc32_le(~0) of the message with this field 0
 * @payload: by @type
 */
struct dlend_msg {
	__le32 seq;
	__le16 type;
	__le16 flags;
	__le32 id;
	__le32 epoch;
	__le16 bdf;
	__le16 lender;
	__le32 status;
	__le16 len;
	__le16 reserved;
	__le32 crc;
	__u8 payload[DLEND_MSG_PAYLOAD];
} __packed __aligned(4);
static_assert(sizeof(struct dlend_msg) == DLEND_MSG_SIZE);

#define DLEND_MSG_F_REPLY	0x1

/**
 * struct dlend_ctrl - the control area, at offset 0 of an aperture
 * @msg_prod: messages the peer has written so far
 * @msg_cons: messages of this node that the peer has consumed so far
 * @heartbeat: grows while the peer is alive
 * @irq_prod: interrupt entries the peer has written so far; the ring is never full: a reader
 *	      that finds DLEND_IRQ_RING_SLOTS new ones or more looks at every counter instead
 * @nonce: this node's nonce, as the peer knows it
 * @test: the peer writes a pattern here at link-up and reads it back
 * @window: bytes of this aperture that the peer's window reaches, written with @test
 * @check: written with @window: a checksum of it and of what the peer says in its scratchpads
 *	   (dlend_bringup_check())
 * @name: the peer's name, written with @test, 0 behind it; for people only, see names.h; empty: it
 *	  does not say
 * @ring: messages
 * @irq: entries: sink handle << 16 | vector
 * @pad0: not used: what one side writes has a cache line of its own
 * @pad1: likewise
 * @pad2: likewise
 * @pad3: likewise
 * @pad4: not used: @ring begins on a page
 */
struct dlend_ctrl {
	__le32 msg_prod;
	__u8 pad0[60];
	__le32 msg_cons;
	__u8 pad1[60];
	__le32 heartbeat;
	__u8 pad2[60];
	__le32 irq_prod;
	__u8 pad3[52];
	__le64 nonce;
	__u8 test[DLEND_TEST_SIZE];
	__le64 window;
	__le64 check;
	__u8 name[DLEND_NODE_NAME_LEN];
	__u8 pad4[3504];
	struct dlend_msg ring[DLEND_RING_SLOTS];
	__le32 irq[DLEND_IRQ_RING_SLOTS];
} __aligned(8);
static_assert(sizeof(struct dlend_ctrl) ==
	      4096 + DLEND_RING_SLOTS * DLEND_MSG_SIZE + DLEND_IRQ_RING_SLOTS * 4);

/* Message types. L>B: sent by the lender; B>L: by the borrower. "call": answered; "post": not. */
enum dlend_msg_type {
	DLEND_MSG_NONE,
	DLEND_MSG_OFFER,	/* L>B post: struct dlend_p_offer; then the snapshot's pieces */
	DLEND_MSG_SNAPSHOT,	/* L>B post: struct dlend_p_snapshot */
	DLEND_MSG_WITHDRAW,	/* L>B post: the offer is gone */
	DLEND_MSG_STATE,	/* L>B post: struct dlend_p_state; also what ends a lease */
	DLEND_MSG_RECLAIM,	/* L>B post: please return the device (epoch) */
	DLEND_MSG_ERROR,	/* L>B post: the device of this lease failed (epoch) */
	DLEND_MSG_BORROW,	/* B>L call: struct dlend_p_borrow -> struct dlend_p_lease */
	DLEND_MSG_RETURN,	/* B>L call: fence, reset, offer again; idempotent */
	DLEND_MSG_DMA_MAP,	/* B>L call: struct dlend_p_dma */
	DLEND_MSG_DMA_UNMAP,	/* B>L call: struct dlend_p_dma (offsets ignored) */
	DLEND_MSG_BUS_MASTER,	/* B>L call: struct dlend_p_u32, 0 off / 1 on */
	DLEND_MSG_CFG_WRITE,	/* B>L call: struct dlend_p_cfg, filtered by the lender */
	DLEND_MSG_CFG_READ,	/* B>L call: struct dlend_p_cfg -> struct dlend_p_cfg */
	DLEND_MSG_IRQ_SETUP,	/* B>L call: struct dlend_p_irq; mode NONE tears down */
	DLEND_MSG_IRQ_UNMASK,	/* B>L post: INTx may fire again */
	DLEND_MSG_RESET,	/* B>L call: function reset; interrupts, BME off; DMA maps stay */
	DLEND_MSG_SUBSCRIBE,	/* B>L post: send all offers (again) */
	DLEND_MSG_ROM_READ,	/* B>L call: struct dlend_p_u32 -> struct dlend_p_rom; no lease */
	/* S: lender of the device that does the DMA; T: of its target. */
	DLEND_MSG_PEERS,	/* L>B post: struct dlend_p_peers; nodes that L has links to */
	DLEND_MSG_P2P_MAP,	/* B>S call: struct dlend_p_p2p; device and epoch: the source's */
	DLEND_MSG_P2P_UNMAP,	/* B>S call: struct dlend_p_p2p; offset and prot ignored */
	DLEND_MSG_P2P_LOST,	/* S>B post: struct dlend_p_p2p, unmapped without being asked */
	DLEND_MSG_P2P_GRANT,	/* B>T call: struct dlend_p_p2p_grant; the target's device, epoch */
	DLEND_MSG_P2P_UNGRANT,	/* B>T call: struct dlend_p_p2p_grant; idempotent */
	DLEND_MSG_P2P_WINDOW,	/* T>S post: struct dlend_p_p2p_window; a grant: S may map it */
	DLEND_MSG_P2P_CLOSE,	/* T>S post: struct dlend_p_p2p_id; the grant is over */
	DLEND_MSG_P2P_CLOSED,	/* S>T post: struct dlend_p_p2p_id; nothing here reaches it now */
	DLEND_MSG_PLACE,	/* L>B post: struct dlend_p_place; of a device or an NTB */
	/* A lease moves to another node, while its device stays as it is. */
	DLEND_MSG_MOVE_TO,	/* B>L call: struct dlend_p_move_to: who may prepare itself */
	DLEND_MSG_STANDBY,	/* B>L call: struct dlend_p_borrow -> struct dlend_p_lease */
	DLEND_MSG_QUIESCE,	/* B>L call: nothing -> struct dlend_p_quiesced; stop the device */
	DLEND_MSG_RUN,		/* B>L call: the guest goes on here; ends what QUIESCE began */
	DLEND_MSG_HAND_OVER,	/* B>L call: nothing -> struct dlend_p_token */
	DLEND_MSG_TAKE_OVER,	/* B>L call: struct dlend_p_take; the standby's epoch */
	DLEND_MSG_IRQ_DIRECT,	/* B>L call: struct dlend_p_direct; instead of IRQ_SETUP */
	DLEND_MSG_SET,		/* L>B post: struct dlend_p_set; of a device */
	DLEND_MSG_TYPES
};

#define DLEND_BAR_F_IO		0x1	/* port BAR: not mappable */
#define DLEND_BAR_F_64		0x2
#define DLEND_BAR_F_PREFETCH	0x4
#define DLEND_BAR_F_MAPPABLE	0x8	/* it begins a page, and nothing else is in its pages */
#define DLEND_BAR_F_MSIX	0x10	/* holds the MSI-X table or PBA */

struct dlend_p_bar {
	__le64 size;		/* bytes, power of two, 0 = none */
	__le32 flags;		/* DLEND_BAR_F_* */
} __packed;

/* Interrupt remapping isolates the device's messages, so a guest may map the MSI-X table. */
#define DLEND_OFFER_F_ISOLATED_MSI	0x1
#define DLEND_OFFER_F_VF		0x2	/* an SR-IOV virtual function */

/* Clique that the lender's admin wants guests to see; a borrower's setting beats it. */
#define DLEND_OFFER_CLIQUE_AUTO	0	/* says nothing */
#define DLEND_OFFER_CLIQUE(n)	(1 + (n))
#define DLEND_OFFER_CLIQUES	16	/* n above is below this */
#define DLEND_OFFER_CLIQUE_NONE	17	/* no capability */

/* In a state: the holder lets the reader take the device over. */
#define DLEND_STATE_F_COMES	0x8000

/** dlend_state_of - enum dlend_offer_state, of the field of a state. Context: any. */
static inline u16 dlend_state_of(__le16 state)
{
	return le16_to_cpu(state) & ~DLEND_STATE_F_COMES;
}

/* Who has a device, and who may have it. */
struct dlend_p_state {
	__le16 state;		/* enum dlend_offer_state, DLEND_STATE_F_COMES */
	__le16 holder;		/* node id or 0; of a reserved or kept device, for whom it is */
	__le32 epoch;
	/* UUID of the mediated device that alone may borrow it when it is free; all 0: any */
	__u8 vm[DLEND_VM_SIZE];
} __packed;

/* An offer.  @snapshot_crc: crc32_le(~0) of the 4 KiB that follow in SNAPSHOT messages. */
struct dlend_p_offer {
	__le16 vendor;
	__le16 device;
	__le32 class;		/* 24 bits: base class, sub-class, interface */
	__le32 flags;		/* DLEND_OFFER_F_* */
	__le16 group_size;	/* functions in the IOMMU group */
	__le16 group;		/* smallest bdf offered of the group: same number = same group */
	__le16 nr_msi;
	__le16 nr_msix;
	__le16 has_intx;
	__le16 clique;		/* DLEND_OFFER_CLIQUE* */
	__le32 snapshot_crc;
	struct dlend_p_state now;
	struct dlend_p_bar bar[DLEND_NUM_REGIONS];
	__u8 identity[DLEND_NODE_NAME_LEN];	/* serial number; 0 behind it; empty: not known */
} __packed;
static_assert(sizeof(struct dlend_p_offer) ==
	      28 + sizeof(struct dlend_p_state) + 12 * DLEND_NUM_REGIONS + DLEND_NODE_NAME_LEN);

#define DLEND_SNAPSHOT_PIECE	128
struct dlend_p_snapshot {
	__le16 offset;		/* multiple of DLEND_SNAPSHOT_PIECE */
	__le16 reserved;
	__u8 data[DLEND_SNAPSHOT_PIECE];
} __packed;

/* Which devices of the lender belong together: those of one set go to one node. */
struct dlend_p_set {
	__u8 name[DLEND_NODE_NAME_LEN];	/* 0 behind it; for people only, see names.h; empty: none */
} __packed;

/* The borrower says where the lender shall count interrupts. */
struct dlend_p_borrow {
	__le64 irq_offset;	/* DLEND_MAX_VECTORS __le32 counters in the borrower's aperture */
	__le32 irq_handle;	/* goes into interrupt ring entries; 0..65535 */
	__le32 reserved;
	__u8 vm[DLEND_VM_SIZE];	/* UUID of the VM's mediated device; all 0: for none */
} __packed;

/* The grant; the message's epoch is the lease's.  -EBUSY: @holder says who has it. */
struct dlend_p_lease {
	__le16 holder;
	__le16 reserved[3];
	__le64 bar_offset[DLEND_NUM_REGIONS];	/* in the lender's aperture; ~0 = not mapped */
} __packed;

#define DLEND_DMA_PER_MSG	6
struct dlend_p_dma_entry {
	__le64 gpa;		/* guest-physical address, page aligned */
	__le64 size;		/* bytes, page multiple */
	__le64 offset;		/* in the borrower's aperture, page aligned */
	__le32 prot;		/* DLEND_PROT_* */
	__le32 reserved;
} __packed;

struct dlend_p_dma {
	__le32 count;		/* 1..DLEND_DMA_PER_MSG; all or nothing */
	__le32 reserved;
	struct dlend_p_dma_entry entry[DLEND_DMA_PER_MSG];
} __packed;

struct dlend_p_cfg {
	__le16 offset;
	__le16 size;		/* 1, 2 or 4; naturally aligned */
	__le32 value;
} __packed;

struct dlend_p_irq {
	__le32 mode;		/* enum dlend_irq_mode */
	__le32 count;		/* vectors 0..count-1; power of two for MSI */
} __packed;

/*
 * Interrupts without the lender's processor: the device's own messages go through the borrower's
 * second window, which leads to where the borrower's IOMMU takes interrupts.  @page is a multiple
 * of 4096, and DLEND_DIRECT_SIZE bytes from there on are interrupts.
 */
#define DLEND_DIRECT_SIZE	0x100000

struct dlend_p_direct {
	__le32 mode;		/* DLEND_IRQ_MSI or DLEND_IRQ_MSIX */
	__le32 count;		/* vectors 0..count-1; power of two for MSI */
	__le64 table;		/* in the borrower's aperture: a struct dlend_p_message for each */
	__le64 page;		/* in the borrower's second window */
} __packed;

/* What a vector writes.  The vectors of MSI have the first one's, with their number in @data. */
struct dlend_p_message {
	__le32 at;		/* offset from the page, below DLEND_DIRECT_SIZE, a multiple of 4 */
	__le32 data;
} __packed;

/* Bytes of a table of @count messages, in whole pages. */
#define DLEND_DIRECT_TABLE(count) \
	(((u64)(count) * sizeof(struct dlend_p_message) + 4095) & ~4095ull)

struct dlend_p_u32 {
	__le32 value;
} __packed;

#define DLEND_ROM_PIECE	192
#define DLEND_ROM_MAX	0x100000	/* bytes of an expansion ROM's image */

/* A piece of the ROM's image, at the multiple of DLEND_ROM_PIECE that the request named. */
struct dlend_p_rom {
	__le32 offset;
	__le32 size;		/* of the whole image; @data is 0 behind its end */
	__u8 data[DLEND_ROM_PIECE];
} __packed;

#define DLEND_PEERS_PER_MSG	27
/* Length of a list, which takes several messages. */
#define DLEND_PEERS_MAX		(3 * DLEND_PEERS_PER_MSG)
struct dlend_p_peer {
	__le16 node;
	__le16 reserved;
	/* Of the sender's aperture for @node: what peer-to-peer of the reader's VMs may use. */
	__le32 mib;
} __packed;

struct dlend_p_peers {
	__le32 count;
	__le16 first;		/* place of peer[0] in the list; 0 begins a new list */
	__le16 more;		/* 1: the list goes on in the next PEERS; 0: it is complete */
	struct dlend_p_peer peer[DLEND_PEERS_PER_MSG];	/* 0 behind the last one */
} __packed;

#define DLEND_PLACE_MAX		8	/* bridges from the root on; those below are left out */

enum dlend_bridge_kind {
	DLEND_BRIDGE_ROOT,	/* root port */
	DLEND_BRIDGE_UP,	/* upstream port of a switch */
	DLEND_BRIDGE_DOWN,	/* downstream port of a switch */
	DLEND_BRIDGE_PCI,	/* to conventional PCI, or from it */
	DLEND_BRIDGE_KINDS
};

#define DLEND_BRIDGE_F_ACS	0x1	/* sends requests between devices below it up to the root */

struct dlend_p_bridge {
	__le16 bdf;
	__u8 kind;		/* enum dlend_bridge_kind */
	__u8 flags;		/* DLEND_BRIDGE_F_* */
} __packed;

#define DLEND_ROOT_NO_NUMA	0xffff

/*
 * Where a function sits, and where it joins the root complex of the sender's host.  Cliques are
 * decided by @p2p_domain: two functions of one host whose peer-to-peer domains are the same number,
 * and not 0, reach each other by peer-to-peer; the host allows that.  0: it does not.  The bridges
 * are for people who look at the fabric; they decide nothing.
 */
struct dlend_p_place {
	__le32 domain;		/* of the function */
	__le32 root_domain;	/* of the host bridge */
	__le16 node;		/* 0: of the device; else of the sender's NTB that leads to @node */
	__le16 p2p_domain;
	__le16 numa;		/* node; DLEND_ROOT_NO_NUMA: the host does not know */
	__le16 payload;		/* Max_Payload_Size in bytes; 0: it is no PCIe function */
	__u8 bus;		/* of the host bridge: its root bus */
	__u8 count;
	__le16 reserved;
	struct dlend_p_bridge bridge[DLEND_PLACE_MAX];	/* from the root on; 0 behind the last */
} __packed;
static_assert(sizeof(struct dlend_p_place) == 52);

#define DLEND_P2P_F_OFFSET	0x1	/* through the borrower: its own aperture, at @offset */

/*
 * A BAR of another borrowed device, at the address where the guest has put it.  Without
 * DLEND_P2P_F_OFFSET the lender of the source knows where the target is: in itself, or where the
 * target's lender said in P2P_WINDOW.
 */
struct dlend_p_p2p {
	__le64 gpa;		/* page aligned */
	__le64 size;		/* bytes: all of the BAR */
	__le64 offset;		/* in the borrower's aperture, else 0 */
	__le32 flags;		/* DLEND_P2P_F_* */
	__le32 prot;		/* DLEND_PROT_* */
	__le32 epoch;		/* of the target's lease */
	__le16 bdf, lender;	/* target */
	__le16 bar;
	__le16 reserved;
} __packed;
static_assert(sizeof(struct dlend_p_p2p) == 44);

/* Let the devices that @node lends to the borrower reach @bar. */
struct dlend_p_p2p_grant {
	__le16 node;
	__le16 bar;
	__le32 reserved;
} __packed;

/* @id: running number, given by the target's lender */
struct dlend_p_p2p_window {
	__le64 offset;		/* in the target's lender's aperture */
	__le64 size;
	__le32 id;
	__le16 borrower;	/* whose devices may reach it */
	__le16 bar;
} __packed;

struct dlend_p_p2p_id {
	__le32 id;
	__le32 reserved;
} __packed;

#define DLEND_MOVE_F_FORCED	0x1	/* also a device that is never silent */

/* The holder lets @node prepare to take the lease over; 0: no node. */
struct dlend_p_move_to {
	__le16 node;
	__le16 flags;		/* DLEND_MOVE_F_* */
	__le32 reserved;
} __packed;

#define DLEND_QUIET_F_DRAINED	0x1	/* nothing was under way when the device was stopped */

struct dlend_p_quiesced {
	__le32 flags;		/* DLEND_QUIET_F_* */
	__le32 waited_us;	/* until the device was silent, or the lender gave up */
	__le64 fired;		/* interrupts of this lease */
} __packed;
static_assert(sizeof(struct dlend_p_quiesced) == 16);

#define DLEND_TOKEN_SIZE	16

/* The node that shows the token takes the lease over, once. */
struct dlend_p_token {
	__u8 token[DLEND_TOKEN_SIZE];
} __packed;

#define DLEND_TAKE_F_ASK	0x1	/* say whether that would succeed now, and do nothing */

struct dlend_p_take {
	__u8 token[DLEND_TOKEN_SIZE];
	__le32 flags;		/* DLEND_TAKE_F_* */
	__le32 reserved;
} __packed;
static_assert(sizeof(struct dlend_p_take) == 24);

/**
 * dlend_msg_check - is a message that a peer has written well formed?
 * @msg: (in) a private copy (never the shared memory itself)
 * @seq: (in) the sequence number that it must carry
 * @why: (out) NULL, or the problem; may be NULL
 *
 * Checks crc, sequence, type, flags, length against the type, reserved fields, and every
 * payload field that can be judged without state (sizes, alignment, counts, overflow).
 * Context: any; touches only @msg.
 * Return: 0; -EBADMSG crc, seq; -EPROTO type, flags, length; -EINVAL a field.
 */
int dlend_msg_check(const struct dlend_msg *msg, u32 seq, const char **why);

/**
 * dlend_msg_seal - fill in sequence number and checksum
 * @msg: (in, out) complete otherwise
 * @seq: (in) the producer's running number
 *
 * Context: any.
 */
void dlend_msg_seal(struct dlend_msg *msg, u32 seq);

/**
 * dlend_msg_init - start a message about a device
 * @msg: (out) zeroed and filled in; the payload is zero
 * @type: (in) enum dlend_msg_type
 * @addr: (in) device, or NULL
 * @epoch: (in) of the lease, or 0
 * @len: (in) payload bytes that the caller will fill in
 *
 * Context: any. Return: @msg->payload, for a cast to the payload's structure.
 */
void *dlend_msg_init(struct dlend_msg *msg, u16 type, const struct dlend_addr *addr,
		     u32 epoch, u16 len);

/** dlend_msg_addr - the device that a message is about. Context: any. */
static inline struct dlend_addr dlend_msg_addr(const struct dlend_msg *msg)
{
	return (struct dlend_addr){
		.lender = le16_to_cpu(msg->lender), .bdf = le16_to_cpu(msg->bdf),
	};
}

/** dlend_p2p_target - the device whose BAR @p is about. Context: any. */
static inline struct dlend_addr dlend_p2p_target(const struct dlend_p_p2p *p)
{
	return (struct dlend_addr){
		.lender = le16_to_cpu(p->lender), .bdf = le16_to_cpu(p->bdf),
	};
}

/**
 * dlend_msg_payload_len - how long a payload is
 * @type: (in) enum dlend_msg_type, not trusted
 * @reply: (in) of the reply; false: of the request
 *
 * Context: any. Return: bytes; -1: no such type, or it has no reply.
 */
int dlend_msg_payload_len(u16 type, bool reply);

/* Side: which of a node's two parts, borrower/ or lender/, a message is for. */
enum dlend_msg_side {
	DLEND_TO_NOBODY,
	DLEND_TO_BORROWER,
	DLEND_TO_LENDER,
	DLEND_MSG_SIDES
};

/** dlend_msg_to - who gets messages of @type; DLEND_TO_NOBODY: no such type. Context: any. */
enum dlend_msg_side dlend_msg_to(u16 type);

/** dlend_msg_type_name - name for logs and tracepoints, never NULL. Context: any. */
const char *dlend_msg_type_name(u16 type);

/**
 * dlend_version_pick - highest version both sides speak
 * @mine: (in) min << 16 | max
 * @peer: (in) min << 16 | max, not trusted
 *
 * Context: any. Return: the version; -EPROTONOSUPPORT there is none.
 */
int dlend_version_pick(u32 mine, u32 peer);

/**
 * dlend_offset_check - is [@offset, @offset + @size) a range that a peer may name?
 * @offset: (in) bytes, not trusted
 * @size: (in) bytes, not trusted
 * @aperture: (in) bytes of the peer's aperture that this node's window reaches
 *
 * Context: any.
 * Return: 0; -ERANGE if it is empty, does not begin with a page, or is not completely behind the
 * control area and inside the aperture.
 */
int dlend_offset_check(u64 offset, u64 size, u64 aperture);

#endif
