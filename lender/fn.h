/* SPDX-License-Identifier: GPL-2.0 */
/*
 * struct lend_fn: a PCI function that is bound to dlend-lender.  This file holds the data of such
 * a function only.  What is done with its parts is declared in reach.h, irq.h, p2p.h and so on;
 * where functions are found is group.h.
 *
 * The locks that guard the members are described in group.h.
 */
#ifndef DLEND_LENDER_FN_H
#define DLEND_LENDER_FN_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/pci.h>
#include <linux/spinlock.h>

#include <dlend/aperture.h>
#include <dlend/link.h>
#include <dlend/types.h>

#include "lender/cfgfilter.h"

struct dentry;
struct lend_fn;
struct lend_group;
struct lend_windows;

/**
 * struct lend_bar - a BAR of a lent function
 * @size: in bytes; 0: the function has no such BAR
 * @span: bytes that a lease maps into the aperture; 0: the BAR cannot be mapped
 * @flags: DLEND_BAR_F_*
 * @phys: its physical address in this host
 * @pad: rest of the page of a BAR that is smaller than a page, claimed so that nobody else gets it;
 *	NULL: the BAR needs none
 * @hole: first byte of the part that a borrower must not reach (the MSI-X table)
 * @hole_end: first byte behind that part; no hole if it is not above @hole
 */
struct lend_bar {
	u64 size;
	u64 span;
	u32 flags;
	phys_addr_t phys;
	struct resource *pad;
	u64 hole, hole_end;
};

/**
 * struct lend_vector - an interrupt vector that has a handler
 * @fn: function whose vector it is
 * @index: number of the vector in the function
 * @irq: number of the interrupt in this host
 * @fired: how often the handler ran; only the handler writes it
 */
struct lend_vector {
	struct lend_fn *fn;
	u32 index;
	int irq;
	unsigned long fired;
};

/**
 * struct lend_irqs - interrupts of a function while it is lent
 * @source: leads into the borrower's memory, from the begin of a lease to lend_irq_close(); NULL
 *	while the function is not lent
 * @mode: which interrupts are set up
 * @count: number of vectors that are requested
 * @vec: these vectors
 * @lock: guards @masked against the interrupt handler
 * @exclusive: the device cannot mask INTx by itself, so this host masks the line, and nobody
 *	shares the line
 * @masked: INTx is masked until the guest has served it
 * @total: interrupts of vectors that have been freed, for debugfs
 * @direct: the device itself writes them to the borrower: no handler here takes or counts them
 * @owner: of where the device writes them, in the group's IOMMU domain
 */
struct lend_irqs {
	struct dlend_irq_source *source;
	enum dlend_irq_mode mode;
	u32 count;
	struct lend_vector *vec;
	spinlock_t lock;		/* guards masked against the interrupt handler */
	bool exclusive;
	bool masked;
	u64 total;
	bool direct;
	struct dlend_owner owner;
};

/**
 * struct lend_p2p - a function as a target and as a source of peer-to-peer (lend_p2p_lock)
 * @link: to the borrower while others may reach the function's BARs; else NULL
 * @epoch: of that borrower's lease
 * @owner: of what the function reaches, in the domain of its group
 * @maps: struct lend_map of everything that the function reaches
 * @reached_by: struct lend_map of other functions here that reach a BAR of this function
 * @grants: the open struct lend_grant of this function's BARs
 * @lost: number of its maps that ended without a request of its borrower, for debugfs
 */
struct lend_p2p {
	struct dlend_link *link;
	u32 epoch;
	struct dlend_owner owner;
	struct list_head maps;
	struct list_head reached_by;
	struct list_head grants;
	u64 lost;
};

/* What can be told about a function. */
enum lend_tell {
	LEND_TELL_OFFER,	/* the offer, and where the function sits, and its snapshot */
	LEND_TELL_STATE,	/* the state of the lease */
	LEND_TELLS
};

/* Why nobody reaches a function's BARs: see lend_fence_hide(). */
#define LEND_HIDDEN_REQUEST	0x1	/* a reset that its holder asked for runs, or has failed */
#define LEND_HIDDEN_CORE	0x2	/* the PCI core resets it, and holds the device lock */

/**
 * struct lend_fn - a function bound to dlend-lender
 * @node: in the registry's list
 * @ref: references; lend_fn_put()
 * @pdev: the PCI device, referenced
 * @group: its group, referenced, from lend_registry_join() on
 * @index: in @group->fn
 * @addr: name of the function on all nodes
 * @bar: its BARs, and its expansion ROM
 * @nr_msi: MSI vectors that it can have in this host
 * @nr_msix: MSI-X vectors that it can have in this host
 * @has_intx: it has INTx in this host
 * @isolated_msi: interrupt remapping checks its interrupts
 * @filter: which bits of its configuration space a borrower may read and write; does not change as
 *	long as the function is offered
 * @vpd: the word of Vital Product Data between a message of its holder that moves it and the next;
 *	0 when a lease begins (group lock)
 * @snapshot: configuration space after the reset, without addresses of this host
 * @snapshot_crc: of @snapshot
 * @rom: image of its expansion ROM, @rom_size bytes
 * @rom_size: 0: there is no image
 * @saved: PCI state that every reset restores
 * @claimed: bit per BAR whose addresses are claimed
 * @ready: was reset and is offered, unless it is @preparing (group lock)
 * @preparing: bound, and not offered before lend_prepare_done() (group lock)
 * @lent: the holder of the group's lease has this function (group lock)
 * @dirty: was lent, or had an error, or this host slept, since its last good reset (group lock)
 * @broken: its last reset failed (group lock)
 * @removing: the driver is being unbound: nobody else may wait for the device lock
 * @gone: withdrawn: nothing is read of it any more (lend_offer_lock)
 * @hidden: LEND_HIDDEN_*, why no BAR is in reach; 0: all are, while the function is lent (group
 *	lock)
 * @no_snoop: No Snoop was enabled when the function was bound
 * @shared_reset: it has no reset of its own, but its slot or its bus can be reset
 * @reset_asked: when its holder asked for a reset, if it has not used it since; else 0 (jiffies,
 *	group lock)
 * @fail_reset: debugfs: each reset fails
 * @hold_stop: debugfs: Bus Master Enable does not go off before this does
 * @slow_reset_ms: debugfs: each reset takes so many milliseconds longer
 * @max_vectors: debugfs: no more vectors than this; 0: as many as the host has
 * @errors: number of PCI errors that the PCI core has told of (group lock)
 * @error_until: the PCI core recovers the function from an error until then (jiffies); 0: it does
 *	not (group lock)
 * @clique: DLEND_OFFER_CLIQUE*, as the admin has set it
 * @identity: its serial number, or ""; does not change once the function is offered
 * @unheard: by LEND_TELL_*, a bit for each listener whose peer has not heard it (outbox.c)
 * @barred: a bit for each listener whose link does not let its requests pass, so that it is not
 *	lent over that link (outbox.c)
 * @win: BARs in the aperture while the function is lent, else NULL (reach.c, group lock)
 * @memory: owners of the guest memory that is mapped through this function (reach.c): one of the
 *	holder's, one of who prepares to take the function over
 * @which: the holder's of @memory (group lock)
 * @p2p: as a target and a source of peer-to-peer
 * @irq: its interrupts while it is lent
 * @debugfs: its folder
 */
struct lend_fn {
	struct list_head node;
	struct kref ref;
	struct pci_dev *pdev;
	struct lend_group *group;
	unsigned int index;
	struct dlend_addr addr;
	struct lend_bar bar[DLEND_NUM_REGIONS];
	u16 nr_msi, nr_msix;
	bool has_intx, isolated_msi;
	struct lend_cfgfilter filter;
	__le32 vpd;
	u8 snapshot[DLEND_CFG_SIZE];
	u32 snapshot_crc;
	u8 *rom;
	u32 rom_size;
	struct pci_saved_state *saved;
	int claimed;
	bool ready, preparing, lent, dirty, broken, removing, gone;
	unsigned int hidden;
	bool no_snoop;
	bool shared_reset;
	unsigned long reset_asked;
	bool fail_reset, hold_stop;
	u32 slow_reset_ms;
	u32 max_vectors;
	u32 errors;
	unsigned long error_until;
	u16 clique;
	char identity[DLEND_NODE_NAME_LEN];
	unsigned long unheard[LEND_TELLS];
	unsigned long barred;
	struct lend_windows *win;
	struct dlend_owner memory[2];
	unsigned int which;
	struct lend_p2p p2p;
	struct lend_irqs irq;
	struct dentry *debugfs;
};

/* Can others have it at all?  Context: any. */
static inline bool lend_fn_is_offered(const struct lend_fn *fn)
{
	return fn->ready && !fn->preparing;
}

#endif
