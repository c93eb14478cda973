/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lender, inside: one struct dl_fn for every function bound to dlend-lender, one struct
 * dl_group for every IOMMU group of such functions.  Locks and their order: see lease.c.
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

struct dl_fn;
struct dl_windows;
struct iommu_group;

/**
 * struct dl_bar - one BAR of a lent function
 * @size: bytes, 0 = none
 * @span: bytes that a lease maps into the aperture, 0 = cannot be mapped
 * @flags: DLEND_BAR_F_*
 * @phys: where this host's kernel put it
 * @pad: rest of a page that a small BAR has for itself, or NULL
 * @hole, @hole_end: part of it that a borrower must not reach (MSI-X table), in bytes
 */
struct dl_bar {
	u64 size;
	u64 span;
	u32 flags;
	phys_addr_t phys;
	struct resource *pad;
	u64 hole, hole_end;
};

struct dl_vector {
	struct dl_fn *fn;
	u32 index;
	int irq;
	unsigned long fired;	/* its handler is the one writer */
};

/**
 * struct dl_irqs - interrupts of a function while it is lent
 * @source: into the borrower's memory, NULL while not lent
 * @vec: @count vectors that are requested
 * @lock: INTx masked or not, against the handler
 * @exclusive: the device cannot mask INTx by itself: the line is masked, and ours alone
 * @total: of vectors that are gone, for debugfs
 */
struct dl_irqs {
	struct dlend_irq_source *source;
	enum dlend_irq_mode mode;
	u32 count;
	struct dl_vector *vec;
	spinlock_t lock;		/* masked, against the handler */
	bool exclusive;
	bool masked;
	u64 total;
};

/**
 * struct dl_target - a function as a peer-to-peer target and source (p2p.c, whose lock guards it)
 * @link: to the borrower, while there is a lease; else NULL
 * @epoch: of the lease
 * @owner: of what it reaches, in the domain
 * @maps, @nr_maps: what it reaches; @reached_by: maps of others to a BAR of it
 * @grants: of its BARs to devices of other lenders, open ones
 * @lost: mappings of this function's that had to go, for debugfs
 */
struct dl_target {
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
 * struct dl_group - what is leased: the functions of one IOMMU group
 * @id: of the IOMMU group
 * @members: functions in the IOMMU group (bridges aside), as counted when one of them was bound,
 *	or when one came or went while nobody had the group
 * @number: smallest name (dl_fn.addr.bdf) of those that can be offered: no other group of this
 *	lender has it, whatever PCI domains there are; the same for as long as somebody has the
 *	group
 * @fn: bound ones
 * @ready: those of them that were reset and can be offered
 * @domain: exists from grant to the end of the reset; attached while HELD
 * @link: towards the holder; with @domain
 * @wait: something about the state changed
 */
struct dl_group {
	struct list_head node;
	struct kref ref;
	int id;
	unsigned int members;
	u16 number;
	struct mutex reset_lock;	/* one reset at a time in a group */
	struct mutex lock;		/* all below */
	struct dl_lease lease;
	struct dl_fn *fn[DL_GROUP_MAX];
	unsigned int ready;
	struct dlend_domain *domain;
	struct dlend_link *link;
	struct delayed_work recover;
	wait_queue_head_t wait;
};

/* What the announcer says about a function. */
enum dl_tell {
	DL_TELL_OFFER,
	DL_TELL_STATE,
	DL_TELL_ERROR,		/* of the lease with error_epoch */
	DL_TELL_WITHDRAW,
	DL_TELLS
};

/**
 * struct dl_census - who is in an IOMMU group
 * @members: functions, bridges aside
 * @foreign: there are devices that are not PCI's
 */
struct dl_census {
	unsigned int members;
	bool foreign;
};

/* Why nobody reaches a function's BARs: see dl_hide(). */
#define DL_HIDDEN_REQUEST	0x1	/* its holder has it reset, or that has failed */
#define DL_HIDDEN_CORE		0x2	/* the PCI core resets it, for whomever: device lock */

/**
 * struct dl_fn - a function bound to dlend-lender
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
 * @hidden: DL_HIDDEN_*, why no BAR is in reach; 0 = each is, while it is lent (group lock)
 * @no_snoop: it could when it was bound
 * @gone: withdrawn, say no more about it (offer.c)
 * @gone_node: while a peer has not heard that it is
 * @clique: DLEND_OFFER_CLIQUE*, as the admin has set it
 * @unheard: by DL_TELL_*, a bit for each link whose peer has not heard it (offer.c)
 * @win: BARs in the aperture, while lent
 * @p2p: as a target of other devices
 * @memory: what the borrower had mapped for DMA through this function (dma.c)
 */
struct dl_fn {
	struct list_head node;
	struct kref ref;
	struct pci_dev *pdev;
	struct dl_group *group;
	unsigned int index;
	struct dlend_addr addr;
	struct dl_bar bar[DLEND_NUM_REGIONS];
	u16 nr_msi, nr_msix;
	bool has_intx, isolated_msi;
	struct dl_cfgfilter filter;
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
	unsigned long unheard[DL_TELLS];
	struct list_head gone_node;
	struct dl_windows *win;
	struct dlend_owner memory;
	struct dl_target p2p;
	struct dl_irqs irq;
	struct dentry *debugfs;
};

/* lease.c: groups, and everything that changes a lease */
int dl_group_join(struct dl_fn *fn, int id, const struct dl_census *census);
void dl_group_leave(struct dl_fn *fn);
void dl_group_ready(struct dl_fn *fn);
void dl_groups_changed(void);
void dl_groups_exit(void);
struct dl_fn *dl_fn_find(const struct dlend_addr *addr);
struct dl_fn **dl_fn_all(unsigned int *count);
void dl_fn_put(struct dl_fn *fn);
int dl_lease_borrow(struct dl_fn *fn, struct dlend_link *link,
		    const struct dlend_p_borrow *want, struct dlend_msg *reply);
int dl_lease_return(struct dl_fn *fn, struct dlend_link *link, u32 epoch);
int dl_lease_revoke(struct dl_group *group, const char *why);
void dl_lease_error(struct dl_fn *fn);
void dl_lease_error_over(struct dl_fn *fn);
void dl_lease_link_lost(struct dlend_link *link);
int dl_lease_suspend(void);
void dl_lease_resume(void);
void dl_lease_shutdown(void);
int dl_lease_enter(struct dl_fn *fn, struct dlend_link *link, u32 epoch);
void dl_lease_exit(struct dl_fn *fn);
void dl_lease_snapshot(struct dl_group *group, struct dl_lease *lease);
extern struct workqueue_struct *dl_wq;

/* pci.c */

/**
 * dl_census - count the functions of an IOMMU group as it is now
 * @group: IOMMU group
 * @census: is overwritten
 *
 * Context: process; takes the IOMMU core's lock of the group.
 */
void dl_census(struct iommu_group *group, struct dl_census *census);

/* rom.c: what borrowers' firmware runs */
void dl_rom_copy(struct dl_fn *fn);
int dl_rom_read(struct dl_fn *fn, const struct dlend_p_u32 *want, struct dlend_p_rom *got);
void dl_rom_free(struct dl_fn *fn);

/* reset.c: taking a device away, and getting it back in a known state */
void dl_fence_fn(struct dl_fn *fn);
void dl_fence_group(struct dl_group *group);
int dl_reset(struct dl_fn *fn, const char *why, bool locked);
void dl_reset_begins(struct dl_fn *fn);
void dl_reset_over(struct dl_fn *fn);
void dl_hide(struct dl_fn *fn, unsigned int why);
int dl_show(struct dl_fn *fn, unsigned int why);
int dl_answers(struct dl_fn *fn);
void dl_bus_master(struct dl_fn *fn, bool on);

/* bars.c: BARs in the aperture of a lease */
int dl_bars_map(struct dl_fn *fn, struct dlend_link *link, u32 epoch, __le64 *offset);
void dl_bars_hide(struct dl_fn *fn);
int dl_bars_show(struct dl_fn *fn);
void dl_bars_close(struct dl_fn *fn);
void dl_bars_acked(struct dlend_link *link, const struct dlend_addr *addr, u32 epoch);
void dl_bars_reset_done(const struct dl_fn *fn);
void dl_bars_link_lost(struct dlend_link *link);
struct dlend_slot *dl_bar_slot(struct dlend_aperture *ap, u64 span, enum dlend_slot_kind kind);
int dl_bar_fill(struct dlend_aperture *ap, struct dlend_slot *slot, const struct dl_bar *bar);

/* dma.c: guest-physical addresses of the device */
int dl_dma_map(struct dl_fn *fn, struct dlend_link *link, const struct dlend_p_dma *dma);
int dl_dma_unmap(struct dl_fn *fn, const struct dlend_p_dma *dma);
void dl_dma_forget(struct dl_fn *fn);

/* p2p.c: BARs that lent devices reach */
void dl_p2p_init(struct dl_fn *fn);
void dl_p2p_open(struct dl_fn *fn, struct dlend_link *link, u32 epoch);
void dl_p2p_hide(struct dl_fn *fn);
void dl_p2p_close(struct dl_fn *fn);
void dl_p2p_link_lost(struct dlend_link *link);
int dl_p2p_map(struct dl_fn *fn, struct dlend_link *link, const struct dlend_p_p2p *p,
	       struct dl_fn *target);
int dl_p2p_unmap(struct dl_fn *fn, const struct dlend_p_p2p *p);
void dl_p2p_yield(struct dl_fn *fn, u64 gpa, u64 size);
void dl_p2p_await(struct dlend_link *link, const struct dlend_p_p2p *p);
int dl_p2p_grant(struct dl_fn *fn, const struct dlend_p_p2p_grant *want);
int dl_p2p_ungrant(struct dl_fn *fn, const struct dlend_p_p2p_grant *want);
int dl_p2p_peer(struct dlend_link *link, const struct dlend_msg *msg);
void dl_p2p_show(struct dl_fn *fn, struct seq_file *m);

/* irq.c */
void dl_irq_init(struct dl_fn *fn);
struct dlend_irq_source *dl_irq_source(const struct dl_fn *fn, struct dlend_link *link,
				       const struct dlend_p_borrow *want);
void dl_irq_open(struct dl_fn *fn, struct dlend_irq_source *source);
void dl_irq_close(struct dl_fn *fn);
int dl_irq_setup(struct dl_fn *fn, u32 mode, u32 count);
void dl_irq_unmask(struct dl_fn *fn);
void dl_irq_show(struct dl_fn *fn, struct seq_file *m);

/* offer.c: what other nodes are told */
void dl_tell(struct dl_fn *fn, unsigned int what);
void dl_tell_group(struct dl_group *group);
void dl_tell_peers(void);
void dl_note(struct dlend_link *link, const struct dlend_msg *msg);
bool dl_offers_told(const struct dl_group *group, const struct dlend_link *link);
void dl_subscribe(struct dlend_link *link);
void dl_listen(struct dlend_link *link);
void dl_unlisten(struct dlend_link *link);
void dl_withdraw(struct dl_fn *fn);
void dl_offer_exit(void);

/* place.c: what else they are told */
void dl_place_message(const struct dl_fn *fn, struct dlend_msg *msg);
bool dl_end_message(struct dlend_link *link, struct dlend_msg *msg);

/* request.c: what borrowers ask */
extern struct dlend_link_user dl_link_user;

/* sysfs.c */
extern const struct attribute_group *dl_dev_groups[];
void dl_debugfs_faults(struct dl_fn *fn);
void dl_debugfs_add(struct dl_fn *fn);
void dl_debugfs_remove(struct dl_fn *fn);
void dl_debugfs_init(void);
void dl_debugfs_exit(void);

#endif
