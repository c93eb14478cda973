/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lender, inside: one struct lend_fn for every function bound to dlend-lender, one struct
 * lend_group for every IOMMU group of such functions.  Locks and their order: see lease.c.
 */
#ifndef DLEND_LENDER_H
#define DLEND_LENDER_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <dlend/compat.h>
#include <dlend/kind.h>
#include <dlend/link.h>

#include "lender/cfgfilter.h"
#include "lender/lease_sm.h"

struct lend_fn;
struct lend_windows;
struct iommu_group;

/**
 * struct lend_bar - one BAR of a lent function
 * @size: bytes, 0 = none
 * @span: bytes that a lease maps into the aperture, 0 = cannot be mapped
 * @flags: DLEND_BAR_F_*
 * @phys: where this host's kernel put it
 * @pad: rest of a page that a small BAR has for itself, or NULL
 * @hole, @hole_end: part of it that a borrower must not reach (MSI-X table), in bytes
 */
struct lend_bar {
	u64 size;
	u64 span;
	u32 flags;
	phys_addr_t phys;
	struct resource *pad;
	u64 hole, hole_end;
};

struct lend_vector {
	struct lend_fn *fn;
	u32 index;
	int irq;
	unsigned long fired;	/* its handler is the one writer */
};

/**
 * struct lend_irqs - interrupts of a function while it is lent
 * @source: into the borrower's memory, NULL while not lent
 * @vec: @count vectors that are requested
 * @lock: INTx masked or not, against the handler
 * @exclusive: the device cannot mask INTx by itself: the line is masked, and ours alone
 * @total: of vectors that are gone, for debugfs
 */
struct lend_irqs {
	struct dlend_irq_source *source;
	enum dlend_irq_mode mode;
	u32 count;
	struct lend_vector *vec;
	spinlock_t lock;		/* masked, against the handler */
	bool exclusive;
	bool masked;
	u64 total;
};

/**
 * struct lend_p2p - a function as a peer-to-peer target and source (p2p.c, whose lock guards it)
 * @link: to the borrower, while there is a lease; else NULL
 * @epoch: of the lease
 * @owner: of what it reaches, in the domain
 * @maps, @nr_maps: what it reaches; @reached_by: maps of others to a BAR of it
 * @grants: of its BARs to devices of other lenders, open ones
 * @lost: mappings of this function's that had to go, for debugfs
 */
struct lend_p2p {
	struct dlend_link *link;
	u32 epoch;
	struct dlend_owner owner;
	struct list_head maps;
	unsigned int nr_maps;
	struct list_head reached_by;
	struct list_head grants;
	u64 lost;
};

/**
 * struct lend_group - what is leased: the functions of one IOMMU group
 * @id: of the IOMMU group
 * @members: functions in the IOMMU group (bridges aside), as counted when one of them was bound,
 *	or when one came or went while nobody had the group
 * @number: smallest name (lend_fn.addr.bdf) of those that can be offered: no other group of this
 *	lender has it, whatever PCI domains there are; the same for as long as somebody has the
 *	group
 * @fn: bound ones
 * @ready: those of them that were reset and can be offered
 * @domain: exists from grant to the end of the reset; attached while HELD
 * @link: towards the holder; with @domain
 * @wait: something about the state changed
 */
struct lend_group {
	struct list_head node;
	struct kref ref;
	int id;
	unsigned int members;
	u16 number;
	struct mutex reset_lock;	/* one reset at a time in a group */
	struct mutex lock;		/* all below */
	struct lend_lease lease;
	struct lend_fn *fn[LEND_GROUP_MAX];
	unsigned int ready;
	struct dlend_domain *domain;
	struct dlend_link *link;
	struct delayed_work recover;
	wait_queue_head_t wait;
};

/* What the announcer says about a function. */
enum lend_tell {
	LEND_TELL_OFFER,
	LEND_TELL_STATE,
	LEND_TELL_ERROR,		/* of the lease with error_epoch */
	LEND_TELL_WITHDRAW,
	LEND_TELLS
};

/**
 * struct lend_census - who is in an IOMMU group
 * @members: functions, bridges aside
 * @foreign: there are devices that are not PCI's
 */
struct lend_census {
	unsigned int members;
	bool foreign;
};

/* Why nobody reaches a function's BARs: see lend_fence_hide(). */
#define LEND_HIDDEN_REQUEST	0x1	/* its holder has it reset, or that has failed */
#define LEND_HIDDEN_CORE		0x2	/* the PCI core resets it, for whomever: device lock */

/**
 * struct lend_fn - a function bound to dlend-lender
 * @index: in the group
 * @addr: as all nodes call it
 * @snapshot: configuration space after the reset, without addresses of this host
 * @rom: its expansion ROM's image, @rom_size bytes; 0 = none
 * @saved: state that every reset ends in
 * @claimed: bits of the BARs whose addresses are ours
 * @ready: reset and offered (group lock)
 * @lent: the holder of the group's lease has it (group lock)
 * @dirty: was lent since its last good reset (group lock)
 * @broken: its reset failed (group lock)
 * @error_epoch: of the lease that a PCI error ended last
 * @errors: how many it had, as the PCI core told (group lock)
 * @error_until: the PCI core recovers it from an error until then (jiffies); 0 = it does not
 * @removing: driver unbind has begun: nobody else shall wait for its device lock
 * @hidden: LEND_HIDDEN_*, why no BAR is in reach; 0 = each is, while it is lent (group lock)
 * @no_snoop: it could when it was bound
 * @gone: withdrawn, say no more about it (offer.c)
 * @gone_node: while a peer has not heard that it is
 * @clique: DLEND_OFFER_CLIQUE*, as the admin has set it
 * @unheard: by LEND_TELL_*, a bit for each link whose peer has not heard it (offer.c)
 * @win: BARs in the aperture, while lent
 * @p2p: as a target of other devices
 * @memory: what the borrower had mapped for DMA through this function (dma.c)
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
	u8 snapshot[DLEND_CFG_SIZE];
	u32 snapshot_crc;
	u8 *rom;
	u32 rom_size;
	struct pci_saved_state *saved;
	int claimed;
	bool ready, lent, dirty, broken, removing, gone;
	unsigned int hidden;
	bool no_snoop;
	bool fail_reset;		/* fault injection, debugfs */
	u32 slow_reset_ms;		/* the same */
	u32 max_vectors;		/* the same; 0 = as many as the host has */
	u32 error_epoch;
	u32 errors;
	unsigned long error_until;
	u16 clique;
	unsigned long unheard[LEND_TELLS];
	struct list_head gone_node;
	struct lend_windows *win;
	struct dlend_owner memory;
	struct lend_p2p p2p;
	struct lend_irqs irq;
	struct dentry *debugfs;
};

/* lease.c: groups, and everything that changes a lease */
int lend_registry_join(struct lend_fn *fn, int id, const struct lend_census *census);
void lend_lease_unbind(struct lend_fn *fn);
void lend_group_ready(struct lend_fn *fn);
void lend_groups_changed(void);
void lend_groups_exit(void);
struct lend_fn *lend_fn_find(const struct dlend_addr *addr);
struct lend_fn **lend_fn_all(unsigned int *count);
void lend_fn_put(struct lend_fn *fn);
int lend_lease_borrow(struct lend_fn *fn, struct dlend_link *link,
		      const struct dlend_p_borrow *want, struct dlend_msg *reply);
int lend_lease_return(struct lend_fn *fn, struct dlend_link *link, u32 epoch);
int lend_lease_revoke(struct lend_group *group, const char *why);
void lend_lease_error(struct lend_fn *fn);
void lend_lease_error_over(struct lend_fn *fn);
void lend_lease_link_lost(struct dlend_link *link);
int lend_lease_suspend(void);
void lend_lease_resume(void);
void lend_lease_shutdown(void);
int lend_lease_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch);
void lend_lease_exit(struct lend_fn *fn);
void lend_group_lease(struct lend_group *group, struct lend_lease *lease);
extern struct workqueue_struct *lend_wq;

/* pci.c */

/**
 * lend_census_take - count the functions of an IOMMU group as it is now
 * @group: IOMMU group
 * @census: is overwritten
 *
 * Context: process; takes the IOMMU core's lock of the group.
 */
void lend_census_take(struct iommu_group *group, struct lend_census *census);

/* rom.c: what borrowers' firmware runs */
void lend_rom_copy(struct lend_fn *fn);
int lend_rom_read(struct lend_fn *fn, const struct dlend_p_u32 *want, struct dlend_p_rom *got);
void lend_rom_free(struct lend_fn *fn);

/* reset.c: taking a device away, and getting it back in a known state */
void lend_fence_fn(struct lend_fn *fn);
void lend_fence_group(struct lend_group *group);
int lend_reset_fn(struct lend_fn *fn, const char *why, bool locked);
void lend_fence_reset_begins(struct lend_fn *fn);
void lend_fence_reset_over(struct lend_fn *fn);
void lend_fence_hide(struct lend_fn *fn, unsigned int why);
int lend_fence_show(struct lend_fn *fn, unsigned int why);
int lend_reset_answers(struct lend_fn *fn);
void lend_fence_bus_master(struct lend_fn *fn, bool on);

/* bars.c: BARs in the aperture of a lease */
int lend_bars_map(struct lend_fn *fn, struct dlend_link *link, u32 epoch, __le64 *offset);
void lend_bars_hide(struct lend_fn *fn);
int lend_bars_show(struct lend_fn *fn);
void lend_bars_close(struct lend_fn *fn);
void lend_bars_acked(struct dlend_link *link, const struct dlend_addr *addr, u32 epoch);
void lend_bars_reset_done(const struct lend_fn *fn);
void lend_bars_link_lost(struct dlend_link *link);
struct dlend_slot *lend_bar_slot(struct dlend_aperture *ap, u64 span, enum dlend_slot_kind kind);
int lend_bar_fill(struct dlend_aperture *ap, struct dlend_slot *slot, const struct lend_bar *bar);

/* dma.c: guest-physical addresses of the device */
int lend_dma_map(struct lend_fn *fn, struct dlend_link *link, const struct dlend_p_dma *dma);
int lend_dma_unmap(struct lend_fn *fn, const struct dlend_p_dma *dma);
void lend_dma_forget(struct lend_fn *fn);

/* p2p.c: BARs that lent devices reach */
void lend_p2p_init(struct lend_fn *fn);
void lend_p2p_open(struct lend_fn *fn, struct dlend_link *link, u32 epoch);
void lend_p2p_hide(struct lend_fn *fn);
void lend_p2p_close(struct lend_fn *fn);
void lend_p2p_link_lost(struct dlend_link *link);
int lend_p2p_map(struct lend_fn *fn, struct dlend_link *link, const struct dlend_p_p2p *p,
		 struct lend_fn *target);
int lend_p2p_unmap(struct lend_fn *fn, const struct dlend_p_p2p *p);
void lend_p2p_yield(struct lend_fn *fn, u64 gpa, u64 size);
void lend_foreign_await(struct dlend_link *link, const struct dlend_p_p2p *p);
int lend_grant_open(struct lend_fn *fn, const struct dlend_p_p2p_grant *want);
int lend_grant_end(struct lend_fn *fn, const struct dlend_p_p2p_grant *want);
int lend_p2p_message(struct dlend_link *link, const struct dlend_msg *msg);
void lend_p2p_show(struct lend_fn *fn, struct seq_file *m);

/* irq.c */
void lend_irq_init(struct lend_fn *fn);
struct dlend_irq_source *lend_irq_source(const struct lend_fn *fn, struct dlend_link *link,
					 const struct dlend_p_borrow *want);
void lend_irq_open(struct lend_fn *fn, struct dlend_irq_source *source);
void lend_irq_close(struct lend_fn *fn);
int lend_irq_setup(struct lend_fn *fn, u32 mode, u32 count);
void lend_irq_unmask(struct lend_fn *fn);
void lend_irq_show(struct lend_fn *fn, struct seq_file *m);

/* offer.c: what other nodes are told */
void lend_outbox_tell(struct lend_fn *fn, unsigned int what);
void lend_outbox_tell_group(struct lend_group *group);
void lend_outbox_tell_peers(void);
void lend_outbox_note(struct dlend_link *link, const struct dlend_msg *msg);
bool lend_outbox_offers_told(const struct lend_group *group, const struct dlend_link *link);
void lend_outbox_subscribe(struct dlend_link *link);
void lend_outbox_open(struct dlend_link *link);
void lend_outbox_close(struct dlend_link *link);
void lend_outbox_withdraw(struct lend_fn *fn);
void lend_outbox_exit(void);

/* place.c: what else they are told */
void lend_bridges_fn_message(const struct lend_fn *fn, struct dlend_msg *msg);
bool lend_bridges_link_message(struct dlend_link *link, struct dlend_msg *msg);

/* request.c: what borrowers ask */
extern struct dlend_link_user lend_link_user;

/* sysfs.c */
extern const struct attribute_group *lend_sysfs_groups[];
void lend_debugfs_faults(struct lend_fn *fn);
void lend_debugfs_add(struct lend_fn *fn);
void lend_debugfs_remove(struct lend_fn *fn);
void lend_debugfs_init(void);
void lend_debugfs_exit(void);

#endif
