/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The words of dlend as types: nodes, device addresses, epochs.
 *
 * Knows nothing of NTB, PCI drivers, VFIO or messages; compiles in user space too
 * (tests/user gives <linux/...> there).
 */
#ifndef DLEND_TYPES_H
#define DLEND_TYPES_H

#include <linux/types.h>

/* A node id is 1..65535; 0 means "no node". */
#define DLEND_NODE_NONE		0

/* A node's name, for people only: at most 63 of the characters that names of hosts have. */
#define DLEND_NODE_NAME_LEN	64
#define DLEND_NODE_LABEL_LEN	(DLEND_NODE_NAME_LEN + 8)	/* "65535 (name)" */

/* Fabric-wide PCI-style name of an offer: domain = 0xd0000 + node, e.g. "d0002:3b:00.0". */
#define DLEND_DOMAIN_BASE	0xd0000
#define DLEND_NAME_LEN		20

#define DLEND_CFG_SIZE		4096	/* bytes of configuration space in a snapshot */
#define DLEND_NUM_BARS		6
#define DLEND_ROM_INDEX		6	/* index of the expansion ROM among the BARs */
#define DLEND_NUM_REGIONS	7	/* six BARs and the ROM */
#define DLEND_MAX_VECTORS	2048	/* MSI-X's own limit, PCIe r6.0 sec 7.7.2.2 */

/**
 * struct dlend_addr - a device, the same on every node
 * @lender: node id of the host that the device sits in
 * @bdf: bus << 8 | device << 3 | function, as lent (see "lend --as")
 */
struct dlend_addr {
	u16 lender;
	u16 bdf;
};

/** dlend_addr_same - do both name the same device? Context: any. */
static inline bool dlend_addr_same(const struct dlend_addr *a, const struct dlend_addr *b)
{
	return a->lender == b->lender && a->bdf == b->bdf;
}

/** dlend_epoch_after - is epoch @a younger than @b? Numbers wrap around. Context: any. */
static inline bool dlend_epoch_after(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

/* What an offer's device is doing now, as its lender says. */
enum dlend_offer_state {
	DLEND_OFFER_FREE,		/* no node has it: a borrow will succeed */
	DLEND_OFFER_HELD,		/* a node holds the lease */
	DLEND_OFFER_RETURNING,		/* being fenced and reset */
	DLEND_OFFER_QUARANTINED,	/* a reset failed: no node gets it */
	DLEND_OFFER_GONE,		/* withdrawn, its group is not whole, or its link is down */
	DLEND_OFFER_RESERVED,		/* no node has it, and only another one may borrow it */
	DLEND_OFFER_KEPT,		/* as RESERVED: for the node that has a group of its set */
	DLEND_OFFER_STATES
};

/* Bytes of the UUID of a mediated device, as in guid_t. */
#define DLEND_VM_SIZE		16

/* Which interrupt mode of the device is in use. */
enum dlend_irq_mode {
	DLEND_IRQ_NONE,
	DLEND_IRQ_INTX,
	DLEND_IRQ_MSI,
	DLEND_IRQ_MSIX,
	DLEND_IRQ_MODES
};

/* Access rights of a mapping, from the device's point of view. */
#define DLEND_PROT_READ		0x1
#define DLEND_PROT_WRITE	0x2

#endif
