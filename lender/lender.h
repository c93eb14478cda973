/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that the lender's files offer each other, from the bottom up: each file calls only
 * files that come before it.  group.h is below all of these, and driver.c is above them.
 */
#ifndef DLEND_LENDER_LENDER_H
#define DLEND_LENDER_LENDER_H

#include <dlend/link.h>

#include "lender/group.h"

struct seq_file;

/* irq.c: interrupts of a lent function */

/** lend_irq_init - prepare the interrupts of a new function @fn (out). Context: any. */
void lend_irq_init(struct lend_fn *fn);

/**
 * lend_irq_close - the function does not interrupt its borrower any more; may be called twice
 * @fn: (in, out) function
 *
 * Context: process, group lock.
 */
void lend_irq_close(struct lend_fn *fn);

/**
 * lend_irq_setup - end the interrupts of a function, and set up others
 * @fn: (in, out) function; on error it has no interrupts
 * @mode: (in) enum dlend_irq_mode, DLEND_IRQ_NONE only ends the old ones
 * @count: (in) number of vectors: the function gets all of them or none.  That @mode may have so
 *	many was checked (dlend_msg_check())
 * @direct: (in) where the device's own messages reach the borrower; not trusted, its form was
 *	checked.  NULL: handlers here take the interrupts
 * @message: (in) of each vector, from dlend_link_messages(); only with @direct
 *
 * Context: process, group lock.
 * Return: 0; -EINVAL the function has no such interrupts; -ENOTCONN it is not lent; -ENOSPC this
 * host has too few vectors; -ENOMEM; or as request_irq().  With @direct also -EOPNOTSUPP the link
 * has no second window, or the guest has memory where such messages would go (nothing is logged);
 * -ERANGE @direct is outside the window.
 */
int lend_irq_setup(struct lend_fn *fn, u32 mode, u32 count, const struct dlend_p_direct *direct,
		   const struct dlend_p_message *message);

/**
 * lend_irq_unmask - the guest has served INTx: it may fire again
 * @fn: (in, out) function
 *
 * If the line is still asserted, INTx fires again at once and stays masked.
 *
 * Context: process, group lock.
 */
void lend_irq_unmask(struct lend_fn *fn);

/** lend_irq_restore_intx - turn INTx of @fn (in) on after a reset. Context: group lock. */
void lend_irq_restore_intx(struct lend_fn *fn);

/**
 * lend_irq_show - print mode and counters, for debugfs
 * @fn: (in) function
 * @m: (out) file
 *
 * Context: process, group lock.
 */
void lend_irq_show(struct lend_fn *fn, struct seq_file *m);

/**
 * lend_irq_hold - hold the device's interrupts back, or let them go again
 * @fn: (in) function
 * @mask: (in) hold them back
 *
 * Only MSI-X can be held back.  A device with other interrupts sends none, as it does nothing when
 * this is called.
 *
 * Context: process, group lock.
 */
void lend_irq_hold(struct lend_fn *fn, bool mask);

/**
 * lend_irq_finish - wait until the interrupts that have come have left this host
 * @fn: (in) function that sends no more interrupts
 *
 * The reply to the borrower pushes them the rest of the way.
 *
 * Context: process, group lock; waits for handlers.
 */
void lend_irq_finish(struct lend_fn *fn);

/** lend_irq_fired - interrupts that @fn (in) has had in all. Context: process, group lock. */
u64 lend_irq_fired(const struct lend_fn *fn);

/* reach.c: the BARs that a borrower reaches, and the memory that a function reaches by DMA */

/**
 * lend_bars_reserve - offsets for the BARs of a function, which the borrower does not reach yet
 * @fn: (in) function
 * @link: (in) to the node that may borrow it
 * @epoch: (in) of the lease that it would have
 * @offset: (out) DLEND_NUM_REGIONS offsets in the aperture, ~0 for each BAR that is not mapped
 *
 * Context: process, group lock.
 * Return: for lend_bars_take() or lend_bars_drop(); or ERR_PTR(): -ENOSPC they do not fit into the
 * window (a message names the sizes); -ENOTCONN the link has no aperture; -ENOMEM.
 */
struct lend_windows *lend_bars_reserve(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
				       __le64 *offset);

/**
 * lend_bars_take - let a borrower reach the BARs at offsets that were reserved for it
 * @fn: (in, out) function, whose BARs are out of reach
 * @win: (in) from lend_bars_reserve(); @fn has it from here on, also if this fails
 *
 * Context: process, group lock. Return: 0; or the IOMMU's error: some BARs are out of reach.
 */
int lend_bars_take(struct lend_fn *fn, struct lend_windows *win);

/**
 * lend_bars_drop - free offsets that are not needed, when the borrower has forgotten them
 * @win: (in) from lend_bars_reserve()
 *
 * Context: process; takes the closed lock.
 */
void lend_bars_drop(struct lend_windows *win);

/**
 * lend_bars_hide - the borrower does not reach the BARs until lend_bars_show(); offsets stay
 * @fn: (in, out) function, lent
 *
 * Call this before the device stops decoding memory.  Otherwise an access of the borrower would
 * reach no device, or another device that has the addresses by then.  A borrower on this host keeps
 * its mapping: it has unmapped the BARs itself before it asks for a reset.
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_bars_hide(struct lend_fn *fn);

/**
 * lend_bars_show - end of lend_bars_hide()
 * @fn: (in, out) function, lent, which decodes memory again
 *
 * Context: process, group lock.
 * Return: 0; or the IOMMU's error: some BARs stay out of reach, and a message says so.
 */
int lend_bars_show(struct lend_fn *fn);

/**
 * lend_bars_close - the lease is over: the borrower does not reach the BARs when this returns
 * @fn: (in, out) function
 *
 * Context: process, group lock; takes the closed lock; waits for no peer.
 */
void lend_bars_close(struct lend_fn *fn);

/**
 * lend_bars_acked - a borrower has forgotten the offsets of a lease, and of older leases
 * @link: (in) to the borrower
 * @addr: (in) name of the function
 * @epoch: (in) of the lease
 *
 * Context: process; takes the closed lock.
 */
void lend_bars_acked(struct dlend_link *link, const struct dlend_addr *addr, u32 epoch);

/**
 * lend_bars_reset_done - a function was reset: no transfer of an old lease comes out of it
 * @fn: (in) function
 *
 * Context: process; takes the closed lock.
 */
void lend_bars_reset_done(const struct lend_fn *fn);

/**
 * lend_bars_link_lost - forget the offsets that the peer of a link had
 * @link: (in) link that is down; its aperture ends the quarantine by itself, with the next session
 *
 * Context: process; takes the closed lock.
 */
void lend_bars_link_lost(struct dlend_link *link);

/**
 * lend_bar_slot - allocate offsets for a BAR
 * @ap: (in) aperture
 * @span: (in) bytes
 * @kind: (in) what the slot is used for
 *
 * Context: process.
 * Return: the slot, or ERR_PTR() as dlend_slot_alloc().
 */
struct dlend_slot *lend_bar_slot(struct dlend_aperture *ap, u64 span, enum dlend_slot_kind kind);

/**
 * lend_bar_fill - map a BAR, without its hole, in a slot
 * @slot: (in) from lend_bar_slot() for @bar->span bytes
 * @bar: (in) BAR
 *
 * Context: process.
 * Return: 0; or as dlend_slot_map_phys(): then a part may be mapped.
 */
int lend_bar_fill(struct dlend_slot *slot, const struct lend_bar *bar);

/**
 * lend_dma_map - map all entries of a message, or none
 * @fn: (in) function
 * @standby: (in) for the node that prepares to take the lease over, not for its holder
 * @dma: (in) entries, copied and checked for their form
 *
 * Context: process, group lock.
 * Return: 0; -ERANGE outside the window or the domain; -ENOSPC more than a guest can have; -EEXIST
 * something is mapped there; -EINVAL; -ENOMEM.
 */
int lend_dma_map(struct lend_fn *fn, bool standby, const struct dlend_p_dma *dma);

/**
 * lend_dma_unmap - unmap all entries of a message
 * @fn: (in) function
 * @standby: (in) as for lend_dma_map()
 * @dma: (in) entries, copied and checked for their form.  An entry that is not mapped is no error:
 *	the borrower may say it twice
 *
 * Context: process, group lock.
 * Return: 0; -EINVAL an entry cuts a mapping; all other entries are unmapped.
 */
int lend_dma_unmap(struct lend_fn *fn, bool standby, const struct dlend_p_dma *dma);

/**
 * lend_dma_forget - unmap all that the holder mapped through a function: its lease is over
 * @fn: (in) function
 *
 * Context: process, group lock; quick where the domain is blocked.
 */
void lend_dma_forget(struct lend_fn *fn);

/* reset.c: getting a function back into a known state */

/**
 * lend_reset_answers - is a function there?
 * @fn: (in) function
 *
 * Context: any in which configuration space can be read.
 * Return: 0; -ENODEV it does not answer, or another device does.
 */
int lend_reset_answers(struct lend_fn *fn);

/**
 * lend_reset_fn - reset a function, and restore the PCI state that it had when it was bound
 * @fn: (in) function; its bus mastering is off and no interrupt is set up
 * @why: (in) for the trace
 * @locked: (in) the caller holds the device lock
 *
 * Context: process, may take seconds; reset_lock of the group, or probe.  Takes the device lock if
 * the caller does not hold it, and the group lock.
 * Return: 0; -EAGAIN another thread has the device lock, nothing was done; any other error: the
 * device is in an unknown state.
 */
int lend_reset_fn(struct lend_fn *fn, const char *why, bool locked);

/**
 * lend_reset_lock_device - take the device lock; pci_dev_unlock() gives it back
 * @fn: (in) function
 *
 * Context: process, waits no longer than LEND_RESET_PATIENCE_MS; no lock but reset_lock.
 * Return: 0; -EAGAIN another thread has it, or the function is being unbound.
 */
int lend_reset_lock_device(struct lend_fn *fn);

/**
 * lend_reset_heal - restore a function that was reset without this host's knowledge
 * @fn: (in, out) function
 *
 * Call it where the borrower turns something on or off.  If there was no reset, it costs some reads
 * of configuration space.  A device that resets itself loses its BARs, Bus Master Enable and its
 * interrupts.  It gets them back as this host has set them, and a message says so; no lease ends.
 *
 * Context: process, group lock.
 */
void lend_reset_heal(struct lend_fn *fn);

/**
 * lend_bus_reset_check - could a function be reset by its slot or its bus?
 * @pdev: (in) function that has no reset of its own
 * @other: (out) if -EXDEV, the name of a function that would be reset with it
 * @len: (in) size of @other in bytes
 *
 * Context: process; takes the PCI core's lock of all buses.
 * Return: 0: yes, with functions of its own IOMMU group only; -EXDEV: that would reset something
 * outside the group, or behind a bridge; -ENOTTY: no such reset is possible.
 */
int lend_bus_reset_check(struct pci_dev *pdev, char *other, size_t len);

/**
 * lend_bus_reset - reset a function with all others of its slot or bus, if none of them is in use
 * @fn: (in, out) function with lend_fn.shared_reset; each of those that are reset has the PCI state
 *	again that it had when it was first reset
 * @why: (in) for the trace
 * @done: (out) the functions that were to be reset, a bit per lend_fn.index; they stay in the group
 *	as long as the caller holds reset_lock
 *
 * Requests about these functions wait until this returns: lend_bus_reset_await().
 *
 * Context: process, may take seconds; reset_lock, no device lock.  Takes the device locks and the
 * group lock.
 * Return: 0; -EBUSY one of them is in use, or is not bound here, nothing was done; -EAGAIN another
 * thread has a device lock, nothing was done; any other error: they are in an unknown state.
 */
int lend_bus_reset(struct lend_fn *fn, const char *why, u64 *done);

/**
 * lend_bus_reset_request - reset a function with lend_fn.shared_reset for its holder
 * @fn: (in, out) function, cut off
 *
 * A guest that resets all of its functions, one after the other, gets the reset with the last of
 * them.  While the guest uses another function, this one only gets its PCI state back.
 *
 * Context: as lend_bus_reset().
 * Return: 0; -EAGAIN another thread has a device lock; or as lend_bus_reset().
 */
int lend_bus_reset_request(struct lend_fn *fn);

/**
 * lend_bus_reset_await - wait until a function is not being reset with others
 * @fn: (in) function
 *
 * Context: process; no lock.
 */
void lend_bus_reset_await(struct lend_fn *fn);

/* notify.c: messages to peers that no request waits for */

/**
 * lend_notify_fn - tell all peers something about a function, soon
 * @fn: (in, out) function
 * @what: (in) kind of news; each peer is told the state as it is when the message is posted
 *
 * Context: process, any lock; takes the listeners lock.
 */
void lend_notify_fn(struct lend_fn *fn, enum lend_news_kind what);

/**
 * lend_notify_group - lend_notify_fn() for all functions of a group
 * @group: (in, out) group
 * @what: (in) kind of news
 *
 * Context: process, group lock; takes the listeners lock.
 */
void lend_notify_group(struct lend_group *group, enum lend_news_kind what);

/**
 * struct lend_granted - a part of this node's windows that devices of another lender may reach
 * @node: in the list of all
 * @to: that lender
 * @borrower: node that has the leases
 * @bytes: size of the part
 */
struct lend_granted {
	struct list_head node;
	u16 to, borrower;
	u64 bytes;
};

/** lend_notify_grant - other borrowers than @granted->borrower are told of less room. */
void lend_notify_grant(struct lend_granted *granted);

/** lend_notify_ungrant - end of lend_notify_grant(). Context: both as lend_notify_peers(). */
void lend_notify_ungrant(struct lend_granted *granted);

/**
 * lend_notify_peers - tell all peers, soon, which links this node has
 *
 * Context: process, any lock; takes the listeners lock.
 */
void lend_notify_peers(void);

/**
 * lend_notify_queue - queue a message that has to arrive, after all notes that were queued before
 * @link: (in) to the peer that has to get it
 * @msg: (in) message, as for dlend_link_post_in(); copied
 *
 * The message is dropped if the session ends first: the lease or grant that the message is about
 * ends with the session.  If the peer takes no messages for too long, this ends its session.
 *
 * Context: process, any lock; may sleep for memory, waits for no peer; takes the listeners lock.
 */
void lend_notify_queue(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_notify_offers_done - has a peer been told the offers of a group as they are now?
 * @group: (in) group
 * @link: (in) to the peer
 *
 * Context: process, group lock; takes the listeners lock.
 */
bool lend_notify_offers_done(const struct lend_group *group, const struct dlend_link *link);

/**
 * lend_notify_subscribe - tell a peer all offers, and which links this node has, soon
 * @link: (in) to the peer; NULL: tell all peers
 *
 * Context: process, any lock; takes the listeners lock.
 */
void lend_notify_subscribe(const struct dlend_link *link);

/**
 * lend_notify_unbound - a function is not bound any more
 *
 * No link lets its requests pass any more: links are told soon, and those that cannot be told now,
 * again later.  Functions that links have had no room for are offered again, soon.
 *
 * Context: process; takes the registry lock and the listeners lock.
 */
void lend_notify_unbound(void);

/**
 * lend_notify_open - a link is up: its peer is told everything now, and all news from now on
 * @link: (in) link; may be open already
 *
 * Context: process, may sleep; takes the listeners lock.
 */
void lend_notify_open(struct dlend_link *link);

/**
 * lend_notify_close - nothing is told to a peer any more when this returns
 * @link: (in) link that is down, or that the lender does not use any more
 *
 * If the link is up, this waits for one post, which times out if the peer takes no messages.  If
 * the peer has not heard all that it must hear, its session ends, and it learns that from a new
 * one.
 *
 * Context: process, no lock of the lender; takes the listeners lock.
 */
void lend_notify_close(struct dlend_link *link);

/**
 * lend_notify_withdraw - tell all peers that a function is not offered any more, and nothing later
 * @fn: (in, out) function
 *
 * The work that posts does not touch the function's device any more when this returns.
 *
 * Context: process, no lock of the lender, waits for no peer; takes the offer lock, the links' lock
 * and the listeners lock.
 */
void lend_notify_withdraw(struct lend_fn *fn);

/**
 * lend_notify_exit - tell links for the last time that requests of no function pass
 *
 * Context: process; no function is bound any more, and no link calls any more.
 */
void lend_notify_exit(void);

/* p2p.c: peer-to-peer of lent functions */

/**
 * lend_foreign_await - wait a while for the grant that a P2P_MAP message needs
 * @link: (in) to the borrower
 * @p: (in) the borrower's request; not trusted
 *
 * Returns at once if the BAR is in this host or in the borrower's aperture.
 *
 * Context: process, no lock, may sleep for a second; takes the p2p lock.
 */
void lend_foreign_await(struct dlend_link *link, const struct dlend_p_p2p *p);

/**
 * lend_grant_open - let devices of another lender reach a BAR of a function, for its borrower
 * @fn: (in, out) function, whose lease was checked
 * @p: (in) which node, which BAR; not trusted
 *
 * Context: process, group lock; takes the p2p lock; waits for no peer.
 * Return: 0, also if the grant exists already; -ESTALE the function is being reset; -EHOSTUNREACH
 * this node has no link to that node; -ENOSPC the window to that node is full; -EDQUOT peer-to-peer
 * has used up its share of that window; -EAGAIN too many grants exist, or that node has not
 * confirmed their end yet; -EINVAL the BAR cannot be reached; -ENOMEM; or the IOMMU's error.
 */
int lend_grant_open(struct lend_fn *fn, const struct dlend_p_p2p_grant *p);

/**
 * lend_grant_end - end of lend_grant_open()
 * @fn: (in, out) function
 * @want: (in) as for lend_grant_open(); not trusted.  It is no error if there is no such grant
 *
 * Context: process, group lock; takes the p2p lock; waits for no peer.
 */
void lend_grant_end(struct lend_fn *fn, const struct dlend_p_p2p_grant *want);

/**
 * lend_p2p_init - a new function reaches nothing, and nothing reaches it
 * @fn: (out) function
 *
 * Context: any.
 */
void lend_p2p_init(struct lend_fn *fn);

/**
 * lend_p2p_open - a lease begins, or a reset is over: others may reach a function from now on
 * @fn: (in, out) function
 * @link: (in) to the borrower; the caller keeps it until lend_p2p_close() or lend_p2p_hide()
 * @epoch: (in) of the lease
 *
 * Context: process, group lock; takes the p2p lock.
 */
void lend_p2p_open(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

/**
 * lend_p2p_hide - no device reaches a function's BARs when this returns, until lend_p2p_open()
 * @fn: (in, out) function, about to be reset; its own maps stay
 *
 * Context: process, group lock; takes the p2p lock; waits for no peer.
 */
void lend_p2p_hide(struct lend_fn *fn);

/**
 * lend_p2p_close - the lease is over: no device reaches a function's BARs, and it reaches no BAR
 * @fn: (in, out) function
 *
 * Both hold when this returns.
 *
 * Context: process, group lock; takes the p2p lock; waits for no peer.
 */
void lend_p2p_close(struct lend_fn *fn);

/**
 * lend_p2p_map - let a function reach a BAR of another device
 * @fn: (in, out) source, whose lease was checked
 * @p: (in) which BAR, and where; not trusted
 * @target: (in) the function that @p names, if it is bound here; else NULL
 *
 * Context: process, group lock of @fn; takes the p2p lock.
 * Return: 0; -ESTALE, -ENODEV the target is not the borrower's; -EAGAIN its lender has not granted
 * it; -EEXIST RAM or another BAR is at that address; -EBUSY that BAR is mapped at another address;
 * -ERANGE it cannot be mapped there; -ENOSPC more than the window has, or more BARs than a VM has;
 * -EINVAL; -ENOMEM.
 */
int lend_p2p_map(struct lend_fn *fn, const struct dlend_p_p2p *p, struct lend_fn *target);

/**
 * lend_p2p_unmap - end of one lend_p2p_map()
 * @fn: (in, out) source
 * @p: (in) where; not trusted
 *
 * Context: process, group lock of @fn; takes the p2p lock.
 * Return: 0; -ENOENT nothing is mapped in exactly this range.
 */
int lend_p2p_unmap(struct lend_fn *fn, const struct dlend_p_p2p *p);

/**
 * lend_p2p_yield - guest memory is about to be mapped: end the maps of BARs at these addresses
 * @fn: (in, out) function; maps of the other functions of its group end, too
 * @gpa: (in) guest-physical address
 * @size: (in) in bytes
 *
 * Context: process, group lock; takes the p2p lock.
 */
void lend_p2p_yield(struct lend_fn *fn, u64 gpa, u64 size);

/**
 * lend_p2p_message - another lender speaks about its device, or answers about a device here
 * @link: (in) to that lender
 * @msg: (in) P2P_WINDOW, P2P_CLOSE or P2P_CLOSED message; not trusted
 *
 * Context: process, message handler; takes the p2p lock.
 * Return: 0; -EPERM the message is about a device of a third node.
 */
int lend_p2p_message(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_p2p_link_lost - nothing is reached over a link any more when this returns
 * @link: (in) link that is down
 *
 * Context: process; takes the p2p lock; waits for no peer.
 */
void lend_p2p_link_lost(struct dlend_link *link);

/**
 * lend_p2p_show - print what a function reaches, and the grants of its BARs, for debugfs
 * @fn: (in) function
 * @m: (out) file
 *
 * Context: process, group lock; takes the p2p lock.
 */
void lend_p2p_show(struct lend_fn *fn, struct seq_file *m);

/* bind.c: a device becomes a lent function, and a device again */

/**
 * struct lend_iommu_count - the devices of an IOMMU group
 * @functions: number of PCI functions, without bridges
 * @non_pci: there are devices that are not PCI devices
 */
struct lend_iommu_count {
	unsigned int functions;
	bool non_pci;
};

/**
 * lend_iommu_count - count the functions of an IOMMU group as it is now
 * @iommu: (in) IOMMU group
 * @count: (out) result
 *
 * Context: process; takes the IOMMU core's lock of the group.
 */
void lend_iommu_count(struct iommu_group *iommu, struct lend_iommu_count *count);

/**
 * lend_check_device - can a device be lent, and does an IOMMU translate its DMA?
 * @pdev: (in) device
 * @shared: (out) it has no reset of its own, and is reset with others of its group
 *
 * Context: process, device lock; takes the PCI core's lock of all buses.
 * Return: 0; -EINVAL it is a bridge; -ENOTTY it cannot be reset without others; -EBUSY it has
 * virtual functions; -ENODEV it has no IOMMU; -EOPNOTSUPP its IOMMU passes everything through;
 * -EACCES it has ATS enabled (PCIe 6.0, 10.1.2: the IOMMU trusts translated requests).  A message
 * says why, and what to do.
 */
int lend_check_device(struct pci_dev *pdev, bool *shared);

/**
 * lend_check_group - can the IOMMU group of a device be lent?
 * @pdev: (in) device
 * @iommu: (in) its IOMMU group
 * @count: (out) the devices of the group
 *
 * Context: process, device lock; takes the IOMMU core's lock of the group.
 * Return: 0; -EOPNOTSUPP firmware uses it, or it has devices that cannot be lent; -EPERM interrupt
 * remapping is off; -ENOMEM.  A message says why, and what to do.
 */
int lend_check_group(struct pci_dev *pdev, struct iommu_group *iommu,
		     struct lend_iommu_count *count);

/**
 * lend_attach_domain - attach a group's domain, unless a device of the group then has ATS
 * @group: (in) group; if this fails, its domain is blocked, for good
 *
 * Context: process, group lock; takes the IOMMU core's lock of the group.
 * Return: 0; -EACCES a device has ATS enabled, and a message says which, why, and what to do; or as
 * dlend_domain_attach().
 */
int lend_attach_domain(struct lend_group *group);

/**
 * lend_rom_read - give a borrower a piece of the ROM
 * @fn: (in) function; no lease is needed
 * @want: (in) from the peer: offset of the piece
 * @got: (out) the piece
 *
 * Context: process; takes no lock.
 * Return: 0; -ENOENT there is no ROM; -ERANGE the ROM is shorter.
 */
int lend_rom_read(struct lend_fn *fn, const struct dlend_p_u32 *want, struct dlend_p_rom *got);

/**
 * lend_bind_take - own a function's DMA and its BARs, turn memory decoding on, look at the BARs
 * @fn: (in, out) new function
 *
 * Context: process, device lock.
 * Return: 0; -EBUSY another driver does DMA in its group, or something else has a BAR; or as
 * iommu_device_claim_dma_owner(), pci_enable_device_mem().  A message says why, and what to do.
 */
int lend_bind_take(struct lend_fn *fn);

/**
 * lend_bind_release - end of lend_bind_take()
 * @fn: (in, out) function
 *
 * Context: process, device lock.
 */
void lend_bind_release(struct lend_fn *fn);

/**
 * lend_bind_interrupts - learn which interrupts a function has in this host
 * @fn: (in, out) function, claimed
 * @iommu: (in) its IOMMU group
 *
 * Context: process, device lock.
 */
void lend_bind_interrupts(struct lend_fn *fn, struct iommu_group *iommu);

/**
 * lend_bind_reset - reset a function that has a reset of its own
 * @fn: (in, out) function, which has joined its group; lend_fn.shared_reset is set if it turns out
 *	that it has none
 *
 * Context: process, may take seconds; device lock.
 * Return: 0; or as lend_reset_fn() (a message says so).
 */
int lend_bind_reset(struct lend_fn *fn);

/**
 * lend_bind_save - what a function is like after its reset: save the PCI state that every later
 * reset restores, copy its ROM and its configuration space, make the filter of what a borrower may
 * do there
 * @fn: (in, out) function that was just reset for the first time
 *
 * Context: process, device lock.
 * Return: 0; -ENOMEM; or as pci_save_state().
 */
int lend_bind_save(struct lend_fn *fn);

/* lease.c: whether a group is whole and can be offered, and every change of a lease */

/**
 * lend_group_state_name - name of the state of a group, as its own host shows it
 * @group: (in) group
 *
 * Context: process, group lock. Return: a word of a-z, never NULL.
 */
const char *lend_group_state_name(const struct lend_group *group);

/**
 * lend_group_step - give the lease of a group an event
 * @group: (in, out) group
 * @ev: (in) event
 * @todo: (out) LEND_DO_*, what the caller has to do; 0 on error.  LEND_DO_ANNOUNCE is done already
 *
 * Context: process, group lock.
 * Return: as lend_lease_step().
 */
int lend_group_step(struct lend_group *group, const struct lend_event *ev, u32 *todo);

/**
 * lend_group_ready - a function was reset: its group may be whole now
 * @fn: (in, out) function, from lend_registry_join()
 *
 * Context: process; takes the group lock.
 */
void lend_group_ready(struct lend_fn *fn);

/**
 * lend_group_join_set - put a group into a set, and tell all nodes
 * @group: (in, out) group; a node that has it keeps it
 * @name: (in) name of the set, as of dlend_name_read(); "": none
 *
 * Context: process; takes the group lock.
 */
void lend_group_join_set(struct lend_group *group, const char *name);

/**
 * lend_groups_changed - look at all groups, soon
 *
 * Call it when functions came to IOMMU groups or left them, or when another node has a member of a
 * set.
 *
 * Context: any.
 */
void lend_groups_changed(void);

/**
 * lend_groups_exit - cancel the work that lend_groups_changed() has queued, or wait for its end
 *
 * Context: process; lend_groups_changed() is not called any more.
 */
void lend_groups_exit(void);

/**
 * lend_reserve - when a group is free, only one node, or one VM, may borrow it
 * @group: (in, out) group; a node that has it keeps it
 * @whom: (in) that node or VM
 * @seconds: (in) for how long, without the time that this host sleeps; 0: until it is changed
 *
 * All nodes are told.  Context: process; takes the group lock.
 */
void lend_reserve(struct lend_group *group, const struct lend_for *whom, u32 seconds);

/**
 * lend_reserve_get - the reservation of a group
 * @group: (in) group
 * @whom: (out) node or VM that it is reserved for
 * @seconds: (out) time that is left; 0: without end
 *
 * Context: process; takes the group lock.
 */
void lend_reserve_get(struct lend_group *group, struct lend_for *whom, u32 *seconds);

/**
 * lend_prepare_done - offer a function: its reservation, set and clique have been written
 * @fn: (in, out) function; if it is offered already, nothing happens. If its group was withdrawn,
 *	that ends
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_done(struct lend_fn *fn);

/**
 * lend_prepare_withdraw - no node gets a function's group any more, until lend_prepare_done()
 * @fn: (in, out) function; a node that has its group keeps it
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_withdraw(struct lend_fn *fn);

/**
 * lend_fence_bus_master - set or clear the physical Bus Master Enable
 * @fn: (in) function
 * @on: (in) whether it may do DMA
 *
 * Context: process, group lock.
 */
void lend_fence_bus_master(struct lend_fn *fn, bool on);

/**
 * lend_fence_hide - the BARs of a function are out of reach until lend_fence_show()
 * @fn: (in, out) function, lent or not: a node that borrows it in between cannot reach them either
 * @why: (in) LEND_HIDDEN_*; the BARs come back when no reason is left
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_fence_hide(struct lend_fn *fn, unsigned int why);

/**
 * lend_fence_show - end of lend_fence_hide() for the same reason
 * @fn: (in, out) function
 * @why: (in) LEND_HIDDEN_*
 *
 * Context: process, group lock.
 * Return: as lend_bars_show().
 */
int lend_fence_show(struct lend_fn *fn, unsigned int why);

/**
 * lend_standby_prepare - make what a node needs to take a function over
 * @fn: (in, out) function, whose group has one function only
 * @link: (in) to the node
 * @source: (in) where its interrupts will go; taken over, also if this fails
 * @grant: (out) offsets of the BARs
 *
 * Call it for LEND_DO_PREPARE. If it fails, the caller calls lend_standby_end().
 * Context: process, group lock.
 * Return: 0; or as lend_bars_reserve(), dlend_domain_create().
 */
int lend_standby_prepare(struct lend_fn *fn, struct dlend_link *link,
			 struct dlend_irq_source *source, struct dlend_p_lease *grant);

/**
 * lend_standby_drop - undo lend_standby_prepare(), for LEND_DO_DROP
 * @group: (in, out) group; nothing happens if no node prepares
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_standby_drop(struct lend_group *group);

/**
 * lend_standby_end - the node that prepares cannot go on
 * @group: (in, out) group
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_standby_end(struct lend_group *group);

/**
 * lend_standby_swap - fence the holder, reset nothing, and give the function to the standby
 * @fn: (in, out) function
 *
 * Call it before the lease gets LEND_EV_TAKE_OVER, once that event is known to succeed: the fence
 * is of the old lease.  When this returns, the old holder reaches nothing. The device does no DMA,
 * and has no interrupts: the new holder turns both on.
 *
 * Context: process, group lock; waits for no peer.
 * Return: 0; or the IOMMU's error: no node reaches the device, and the caller takes it back.
 */
int lend_standby_swap(struct lend_fn *fn);

/**
 * lend_recover_later - reset the functions of a group that were lent, and offer the group again
 * @group: (in, out) group
 * @ms: (in) after so many milliseconds
 *
 * Context: any.
 */
void lend_recover_later(struct lend_group *group, unsigned int ms);

/**
 * lend_lease_borrow - a node asks for a function
 * @fn: (in, out) function
 * @link: (in) to the node
 * @want: (in) where its interrupt counters are, and for which VM it asks; not trusted
 * @reply: (out) the lease's epoch, and struct dlend_p_lease: the offsets of the BARs, and the
 *	holder if a node has the function
 *
 * Waits for a reset of the function that is under way, but no longer than LEND_BORROW_WAIT_MS.
 *
 * Context: process, message handler; takes the group lock.
 * Return: 0; -EBUSY a node has it; -EAGAIN the group is being reset, or this host goes to sleep,
 * or the node has not been told all offers of the group; -EIO it is quarantined; -ENODEV its group
 * is not whole; -ENOSPC a BAR does not fit into the window; -ERANGE no counters can be where @want
 * says; -ENOTCONN the session is over; -ENOMEM; or as dlend_irq_source_open(),
 * dlend_domain_attach().
 */
int lend_lease_borrow(struct lend_fn *fn, struct dlend_link *link,
		      const struct dlend_p_borrow *want, struct dlend_msg *reply);

/**
 * lend_lease_return - a node gives a function back, or says that it has forgotten it
 * @fn: (in, out) function; it is fenced when this returns, its reset follows
 * @link: (in) to the node
 * @epoch: (in) of the lease, as the node says
 *
 * Context: process, message handler; takes the group lock.
 * Return: 0, also for a lease that is over; -ESTALE never granted, or not to this node.
 */
int lend_lease_return(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

/**
 * lend_lease_revoke - take a group away from its holder
 * @group: (in, out) group; it is fenced when this returns, its reset follows
 * @why: (in) for log and trace
 *
 * Context: process; takes the group lock; waits for no peer.
 * Return: 0; -EALREADY no node has it.
 */
int lend_lease_revoke(struct lend_group *group, const char *why);

/**
 * lend_lease_bind - a function is being bound: others can find it from now on
 * @fn: (in, out) function; gets its group
 * @iommu: (in) its IOMMU group
 * @members: (in) functions in that IOMMU group
 *
 * Context: process, probe(), device lock; takes the group lock and the registry lock.
 * Return: as lend_registry_join().
 */
int lend_lease_bind(struct lend_fn *fn, struct iommu_group *iommu, unsigned int members);

/**
 * lend_lease_unbind - a function is being unbound
 * @fn: (in, out) function
 *
 * The holder of its group loses the group now, and all peers are told that it is withdrawn.  When
 * this returns, the function was fenced, a reset was tried, and the function is not found any more.
 *
 * Context: process, remove() or a probe() that failed, device lock; takes all locks of the lender.
 */
void lend_lease_unbind(struct lend_fn *fn);

/**
 * lend_lease_error - a function had an error, and the PCI core has begun to recover it
 * @fn: (in, out) function
 *
 * The holder of its group loses the group, and is told why.  The function is not reset, and not
 * lent, before lend_lease_error_over().
 *
 * Context: process, PCI error handler, device lock; takes the group lock.
 */
void lend_lease_error(struct lend_fn *fn);

/**
 * lend_lease_error_over - the PCI core has recovered a function, or has given up
 * @fn: (in, out) function; one that had no error is left alone
 *
 * A reset by the lender follows, and decides whether the function is lent again.
 *
 * Context: as lend_lease_error().
 */
void lend_lease_error_over(struct lend_fn *fn);

/**
 * lend_lease_link_lost - fence everything that was lent over a link
 * @link: (in) link that is down
 *
 * Context: process; takes the registry lock, and the lock of each group that was lent over the
 * link; does not wait for a group that another node has.
 */
void lend_lease_link_lost(struct dlend_link *link);

/**
 * lend_lease_suspend - the host wants to sleep: nothing can be borrowed until lend_lease_resume()
 *
 * Context: process; takes the registry lock and the group lock.
 * Return: 0; -EBUSY a device is lent or being reset, a message says which.
 */
int lend_lease_suspend(void);

/**
 * lend_lease_resume - devices can be borrowed again
 * @slept: (in) the host may have slept: devices are reset before that
 *
 * Context: process, may sleep.
 */
void lend_lease_resume(bool slept);

/**
 * lend_lease_shutdown - the host goes down: everything is taken back, nothing is lent any more
 *
 * Context: process; takes the registry lock and the group lock; waits for no peer.
 */
void lend_lease_shutdown(void);

/**
 * lend_lease_enter - begin to act for a borrower
 * @fn: (in) function
 * @link: (in) to the borrower
 * @epoch: (in) of the lease, as the borrower says
 *
 * Context: process; takes the group lock.
 * Return: 0: the node behind @link has the function under this epoch, and the caller has the group
 * lock.  Else the caller does not have the lock: -ESTALE the node does not have the function, and
 * its DMA is over; -EBUSY the function is about to be taken from it.
 */
int lend_lease_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

/* request.c: messages, and links that come and go */

/* For dlend_link_user_register(). */
extern struct dlend_link_user lend_link_user;

#endif
