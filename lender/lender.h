/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that the lender's files offer each other, from the bottom up: each file calls only
 * files that come before it.  group.h is below all of these, and driver.c is above them.
 *
 * Words of this folder: a function is bound when dlend-lender is its driver; it is lent while a
 * node has it under the lease of its group.  "The group lock" of a function is the lock of its
 * group.
 *
 * Where "Context:" names a lock without "takes", the caller holds it; "no lock" means that the
 * caller must hold no lock of the lender.  "Takes the group lock" includes the locks below it
 * (group.h).  The caller keeps @fn, @group and @link alive until a function returns; where a
 * function keeps a reference for longer, its comment says so.
 */
#ifndef DLEND_LENDER_LENDER_H
#define DLEND_LENDER_LENDER_H

#include <dlend/link.h>

#include "lender/group.h"

struct seq_file;

/* irq.c: interrupts of a lent function */

/** lend_irq_init - initialise the interrupt state of a new function @fn (out). Context: any. */
void lend_irq_init(struct lend_fn *fn);

/**
 * lend_irq_close - end the interrupts of a function, and give up its interrupt source
 * @fn: (in, out) function; nothing happens if this was done before
 *
 * When this returns, no interrupt of the function reaches its borrower any more.
 *
 * Context: process, group lock; takes the locks of the domain and the aperture; waits for handlers,
 * and for no peer.
 */
void lend_irq_close(struct lend_fn *fn);

/**
 * lend_irq_setup - end the interrupts of a function, and set up others
 * @fn: (in, out) function; on error it has no interrupts
 * @mode: (in) enum dlend_irq_mode; DLEND_IRQ_NONE: only end the old ones
 * @count: (in) number of vectors: the function gets all of them or none.  The caller has checked
 *	(dlend_msg_check()) that @mode can have so many
 * @direct: (in) page of the link's second window to which the device itself writes its MSIs; not
 *	trusted, the caller has checked its form.  NULL: handlers in this host take the interrupts
 * @message: (in) @count messages, one for each vector, from dlend_link_msi_targets(); not read if
 *	@direct is NULL
 *
 * Context: process, group lock; takes the domain's lock; waits for handlers, and for no peer.
 * Return: 0; -EINVAL the function has no such interrupts; -ENOTCONN it is not lent; -ENOSPC this
 * host has too few vectors; -ENOMEM; or as request_irq().  With @direct also -EOPNOTSUPP the link
 * has no second window, or the guest has memory at the IOVA for such messages (nothing is logged);
 * -ERANGE @direct is outside the second window.
 */
int lend_irq_setup(struct lend_fn *fn, u32 mode, u32 count, const struct dlend_p_direct *direct,
		   const struct dlend_p_message *message);

/**
 * lend_irq_unmask - unmask INTx, because the guest has served it
 * @fn: (in, out) function; nothing happens if it does not use INTx
 *
 * If the line is still asserted, INTx fires again at once and stays masked.
 *
 * Context: process, group lock; a read through the window, if one is needed, is left to a thread.
 */
void lend_irq_unmask(struct lend_fn *fn);

/**
 * lend_irq_restore_intx - set INTx Disable as it was before a reset, if the function uses INTx
 * @fn: (in) function
 *
 * Context: process, group lock.
 */
void lend_irq_restore_intx(struct lend_fn *fn);

/**
 * lend_irq_show - print mode and counters of a function's interrupts, for debugfs
 * @fn: (in) function
 * @m: (out) file
 *
 * Context: process, group lock.
 */
void lend_irq_show(struct lend_fn *fn, struct seq_file *m);

/**
 * lend_irq_hold - set or clear the Function Mask of MSI-X
 * @fn: (in) function; nothing happens if it does not use MSI-X
 * @mask: (in) true: interrupts become pending in the device; false: the device sends them
 *
 * MSI and INTx are not masked: the caller has made sure that the device has nothing to do, so that
 * it sends none.
 *
 * Context: process, group lock.
 */
void lend_irq_hold(struct lend_fn *fn, bool mask);

/**
 * lend_irq_finish - wait until the interrupts that the device has sent have left this host
 * @fn: (in) function; the caller has made sure that the device sends no more interrupts
 *
 * The lender's handlers, or the device itself, have then written them towards the borrower.  These
 * are posted writes: the reply to the borrower's request, sent after this, arrives behind them.
 *
 * Context: process, group lock; waits for handlers, and for no peer.
 */
void lend_irq_finish(struct lend_fn *fn);

/**
 * lend_irq_fired - count the interrupts of a function that handlers here have taken since it was
 * bound
 * @fn: (in) function
 *
 * Context: process, group lock.
 * Return: number of interrupts; those that the device writes to the borrower itself do not count.
 */
u64 lend_irq_fired(const struct lend_fn *fn);

/* reach.c: the BARs that a borrower reaches, and the memory that a function reaches by DMA */

/**
 * lend_bars_reserve - allocate offsets for the BARs of a function; nothing is mapped there yet
 * @fn: (in) function
 * @link: (in) to the node that borrows, or may borrow, the function; a reference is kept
 * @epoch: (in) of that node's lease
 * @offset: (out) DLEND_NUM_REGIONS offsets in the aperture, U64_MAX for each BAR that is not mapped
 *
 * Context: process, group lock; takes the aperture's lock.
 * Return: record of the offsets, which the caller has to give to lend_bars_take() or
 * lend_bars_drop(); or ERR_PTR(): -ENOSPC the BARs do not fit into the aperture (a message names
 * the sizes); -ENOTCONN the link has no aperture; -ENOMEM.
 */
struct lend_bar_slots *lend_bars_reserve(struct lend_fn *fn, struct dlend_link *link, u32 epoch,
					 __le64 *offset);

/**
 * lend_bars_take - map the BARs at offsets from lend_bars_reserve(): the borrower reaches them
 * @fn: (in, out) function, with lend_fn.slots NULL
 * @slots: (in) from lend_bars_reserve(); becomes lend_fn.slots, also if this fails
 *
 * Context: process, group lock; takes the aperture's lock.
 * Return: 0; or as dlend_slot_map_phys(): some BARs are not mapped, and a message names them.
 */
int lend_bars_take(struct lend_fn *fn, struct lend_bar_slots *slots);

/**
 * lend_bars_drop - give up offsets that lend_bars_take() was not called for
 * @slots: (in) from lend_bars_reserve(); the caller must not use it any more
 *
 * The offsets are in quarantine until lend_bars_acked().
 *
 * Context: process; takes the aperture's lock and lend_bars_closed_lock.
 */
void lend_bars_drop(struct lend_bar_slots *slots);

/**
 * lend_bars_hide - unmap the BARs from the aperture; their offsets stay allocated
 * @fn: (in, out) function, lent
 *
 * The caller calls this before the device stops decoding memory, and lend_bars_show() afterwards.
 * Otherwise an access of the borrower would reach no device, or another device that has the
 * addresses by then.  The BARs stay mapped for a borrower on this host (lend_bars_stay_mapped() in
 * reach.c).
 *
 * Context: process, group lock; takes the aperture's lock; waits for no peer.
 */
void lend_bars_hide(struct lend_fn *fn);

/**
 * lend_bars_show - map the BARs again: undo lend_bars_hide()
 * @fn: (in, out) function, lent; the caller has made sure that it decodes memory again
 *
 * Context: process, group lock; takes the aperture's lock.
 * Return: 0; or as dlend_slot_map_phys(): some BARs stay unmapped, and a message says so.
 */
int lend_bars_show(struct lend_fn *fn);

/**
 * lend_bars_close - unmap the BARs at the end of a lease, and put their offsets into quarantine
 * @fn: (in, out) function; nothing happens if it has no offsets
 *
 * The borrower does not reach the BARs any more when this returns.  The offsets are free after
 * lend_bars_acked() and lend_bars_reset_done().
 *
 * Context: process, group lock; takes the aperture's lock and lend_bars_closed_lock; waits for no
 * peer.
 */
void lend_bars_close(struct lend_fn *fn);

/**
 * lend_bars_acked - note that a borrower does not use the offsets of a lease, and of older leases
 * of the function, any more; free those for which lend_bars_reset_done() was called, too
 * @link: (in) to the borrower
 * @addr: (in) name of the function, which may be unbound
 * @epoch: (in) of the lease
 *
 * Context: process; takes lend_bars_closed_lock and the aperture's lock.
 */
void lend_bars_acked(struct dlend_link *link, const struct dlend_addr *addr, u32 epoch);

/**
 * lend_bars_reset_done - note that a function was reset since its last lease, so that no
 * transaction of that lease can come from it any more; free the offsets for which lend_bars_acked()
 * was called, too
 * @fn: (in) function
 *
 * Context: process; takes lend_bars_closed_lock and the aperture's lock.
 */
void lend_bars_reset_done(const struct lend_fn *fn);

/**
 * lend_bars_link_lost - free the records of offsets in quarantine that the peer of a link had
 * @link: (in) link that is down; its aperture ends the quarantine by itself, with the next session
 *
 * The caller ends the leases over @link first (lend_lease_link_lost()).
 *
 * Context: process; takes lend_bars_closed_lock.
 */
void lend_bars_link_lost(struct dlend_link *link);

/**
 * lend_bar_slot - allocate offsets for a BAR
 * @ap: (in) aperture
 * @span: (in) bytes, lend_bar.span
 * @kind: (in) what the slot is used for
 *
 * Context: process; takes the aperture's lock.
 * Return: the slot, which the caller frees with dlend_slot_free(); or ERR_PTR() as
 * dlend_slot_alloc().
 */
struct dlend_slot *lend_bar_slot(struct dlend_aperture *ap, u64 span, enum dlend_slot_kind kind);

/**
 * lend_bar_fill - map a BAR, without its hole (lend_bar.hole), in a slot
 * @slot: (in) from lend_bar_slot() for @bar->span bytes
 * @bar: (in) BAR
 *
 * Context: process; takes the aperture's lock.
 * Return: 0; or as dlend_slot_map_phys(): then a part may be mapped.
 */
int lend_bar_fill(struct dlend_slot *slot, const struct lend_bar *bar);

/**
 * lend_dma_map - map all entries of a DMA_MAP message for a device, or none
 * @fn: (in) function
 * @standby: (in) true: in the domain of the standby; false: in that of the holder.  The caller has
 *	checked that this domain exists
 * @dma: (in) entries; the caller has copied them and checked their form
 *
 * Context: process, group lock; takes the locks of the domain and the aperture; waits for no peer.
 * Return: 0; -ERANGE an entry is outside the window or the domain; -ENOSPC all guest memory in the
 * domain would be larger than LEND_DMA_WINDOWS times the window; -EEXIST something else is mapped
 * there; -EINVAL as dlend_link_dma_map(); -ENOMEM.
 */
int lend_dma_map(struct lend_fn *fn, bool standby, const struct dlend_p_dma *dma);

/**
 * lend_dma_unmap - unmap all entries of a DMA_UNMAP message
 * @fn: (in) function
 * @standby: (in) as for lend_dma_map()
 * @dma: (in) as for lend_dma_map().  An entry that is not mapped is no error: the borrower may send
 *	it twice
 *
 * Context: as lend_dma_map().
 * Return: 0; -EINVAL the edge of an entry is inside a mapping: that entry stays mapped, all other
 * entries are unmapped.
 */
int lend_dma_unmap(struct lend_fn *fn, bool standby, const struct dlend_p_dma *dma);

/**
 * lend_dma_forget - unmap all memory that the holder has mapped through a function
 * @fn: (in) function, whose lease is over; nothing happens if its group has no domain
 *
 * Context: process, group lock; takes the domain's lock.  If the domain is blocked, this only
 * forgets the mappings, which go with the domain, and is quick.
 */
void lend_dma_forget(struct lend_fn *fn);

/* reset.c: getting a function back into a known state */

/**
 * lend_reset_answers - check that a function answers, and is the one that was bound
 * @fn: (in) function
 *
 * Context: any in which configuration space can be read; needs no lock.
 * Return: 0: it answers; -ENODEV its configuration space reads as all ones (surprise removal), or
 * another device answers.
 */
int lend_reset_answers(struct lend_fn *fn);

/**
 * lend_reset_fn - reset a function, and restore lend_fn.saved, if that exists already
 * @fn: (in) function; the caller has turned bus mastering off and ended the interrupts
 * @why: (in) one word for the trace
 * @locked: (in) true: the caller holds the device lock; false: it is taken here
 *
 * Context: process, may take seconds; reset_lock of the group, or probe; no group lock, which
 * reset_prepare() and reset_done() (driver.c) take.
 * Return: 0; -EAGAIN another thread has the device lock, nothing was done; any other error: the
 * device is in an unknown state.
 */
int lend_reset_fn(struct lend_fn *fn, const char *why, bool locked);

/**
 * lend_reset_lock_device - take the device lock, if it is free within LEND_RESET_PATIENCE_MS
 * @fn: (in) function
 *
 * Context: process, may sleep; no lock but reset_lock.
 * Return: 0: the caller has the lock, and gives it back with pci_dev_unlock(); -EAGAIN another
 * thread has it, or the function is being unbound.
 */
int lend_reset_lock_device(struct lend_fn *fn);

/**
 * lend_reset_heal - restore a function that was reset without this host's knowledge
 * @fn: (in, out) function
 *
 * A device that resets itself loses the addresses in its BARs, Bus Master Enable, and its MSI or
 * MSI-X messages.  This writes them again as this host has set them, and a message says so; the
 * lease goes on.  Requests with which the borrower turns something on or off call this first; if
 * there was no reset, it only reads some registers.
 *
 * Context: process, group lock.
 */
void lend_reset_heal(struct lend_fn *fn);

/**
 * lend_bus_reset_check - check that a function can be reset by its slot or its bus
 * @pdev: (in) function that has no reset of its own
 * @other: (out) name of a device outside the group that would be reset, too, if -EXDEV; "" if 0;
 *	not written if -ENOTTY
 * @len: (in) size of @other in bytes
 *
 * Context: process; takes the PCI core's lock of all buses (pci_bus_sem).
 * Return: 0: it can, and only functions of its own IOMMU group would be reset; -EXDEV the reset
 * would hit a device outside the group, or a bridge; -ENOTTY there is no such reset.
 */
int lend_bus_reset_check(struct pci_dev *pdev, char *other, size_t len);

/**
 * lend_bus_reset - reset a function with all others of its slot or bus, if none of them is in use
 * @fn: (in, out) function with lend_fn.shared_reset; each function that is reset gets its
 *	lend_fn.saved back
 * @why: (in) one word for the trace
 * @done: (out) a bit per lend_fn.index for each function that was to be reset; 0 if -EBUSY.  They
 *	stay in the group as long as the caller holds reset_lock
 *
 * Requests about these functions wait until this returns: lend_bus_reset_await().
 *
 * Context: process, may take seconds; reset_lock, no device lock.  Takes the device locks, the
 * group lock, and the PCI core's lock of all buses.
 * Return: 0; -EBUSY one of the functions is in use, or is not bound here, nothing was done; -EAGAIN
 * another thread has a device lock and nothing was done, or a PCI error came during the reset, and
 * another reset has to follow; any other error: the functions are in an unknown state.
 */
int lend_bus_reset(struct lend_fn *fn, const char *why, u64 *done);

/**
 * lend_bus_reset_request - reset a function with lend_fn.shared_reset for its holder
 * @fn: (in, out) function; the caller has turned bus mastering off, ended the interrupts and hidden
 *	the BARs
 *
 * A guest that resets all of its functions, one after the other, gets the reset with the last of
 * them.  While the guest uses another function of the slot or bus, this restores only the PCI state
 * of @fn.
 *
 * Context: as lend_bus_reset().
 * Return: 0: it was reset, or its PCI state was restored; otherwise as lend_bus_reset(), but not
 * -EBUSY.
 */
int lend_bus_reset_request(struct lend_fn *fn);

/**
 * lend_bus_reset_await - wait until no lend_bus_reset() that includes a function runs
 * @fn: (in) function
 *
 * Context: process, may take seconds; no lock.  Another reset may begin at once.
 */
void lend_bus_reset_await(struct lend_fn *fn);

/*
 * notify.c: messages that the lender posts by itself, not as the reply to a request.  They are
 * posted by a work item for each link: "soon" means that the function below only queues that work.
 */

/**
 * lend_notify_fn - have a message about a function posted to all peers, soon
 * @fn: (in, out) function
 * @what: (in) kind of news; the message has the state as it is when it is posted
 *
 * Context: process, with any locks of the lender but its two spinlocks; takes lend_listeners_lock.
 */
void lend_notify_fn(struct lend_fn *fn, enum lend_news_kind what);

/**
 * lend_notify_group - lend_notify_fn() for all functions of a group
 * @group: (in, out) group
 * @what: (in) kind of news
 *
 * Context: process, group lock; takes lend_listeners_lock.
 */
void lend_notify_group(struct lend_group *group, enum lend_news_kind what);

/**
 * struct lend_granted - part of an aperture that is taken by a grant (p2p.c): PEERS messages to all
 * peers but @borrower report less room for peer-to-peer
 * @node: in lend_notify_granted (lend_listeners_lock)
 * @to: node id of the lender whose devices use the grant
 * @borrower: node id of the borrower that asked for the grant
 * @bytes: size of the grant's slot
 *
 * All but @node is constant while it is in the list.
 */
struct lend_granted {
	struct list_head node;
	u16 to, borrower;
	u64 bytes;
};

/**
 * lend_notify_grant - count a grant, and have PEERS with the room that remains posted to all peers
 * @granted: (in) grant; the caller keeps it until lend_notify_ungrant()
 *
 * Context: as lend_notify_peers().
 */
void lend_notify_grant(struct lend_granted *granted);

/**
 * lend_notify_ungrant - undo lend_notify_grant()
 * @granted: (in) grant
 *
 * Context: as lend_notify_peers().
 */
void lend_notify_ungrant(struct lend_granted *granted);

/**
 * lend_notify_peers - have posted to all peers, soon, which links this node has, and how much room
 * for peer-to-peer each has (PEERS)
 *
 * Context: as lend_notify_fn().
 */
void lend_notify_peers(void);

/**
 * lend_notify_queue - queue a message that has to arrive, behind all those queued before
 * @link: (in) to the peer that has to get it
 * @msg: (in) message, as for dlend_link_post_in(); copied
 *
 * The message is dropped if the session ends first: the lease or grant that the message is about
 * ends with the session.  If LEND_PENDING_MAX messages wait already, this ends the session.
 *
 * Context: process, with any locks of the lender but its two spinlocks; takes
 * lend_listeners_lock; may sleep for memory; waits for no peer.
 */
void lend_notify_queue(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_notify_offers_done - have the offers of a group been posted to a peer as they are now?
 * @group: (in) group
 * @link: (in) to the peer
 *
 * Context: process, group lock; takes lend_listeners_lock.
 * Return: true: all of them were posted; false: some were not, or the link is down.
 */
bool lend_notify_offers_done(const struct lend_group *group, const struct dlend_link *link);

/**
 * lend_notify_subscribe - have all offers, and PEERS, posted to a peer, soon
 * @link: (in) to the peer; NULL: to all peers
 *
 * Context: as lend_notify_fn().
 */
void lend_notify_subscribe(const struct dlend_link *link);

/**
 * lend_notify_unbound - take unbound functions out of the links' tables of requesters, soon
 *
 * The caller calls this after a function has left the registry.  The requester IDs of all functions
 * that are still bound are set anew in each link (dlend_link_set_requesters()); where that fails,
 * it is tried again later.  Functions for which a link's table had no room are offered over it
 * again.
 *
 * Context: process; takes the registry lock and lend_listeners_lock.
 */
void lend_notify_unbound(void);

/**
 * lend_notify_open - begin to post to the peer of a link: all offers and PEERS, then all news
 * @link: (in) link, up; a reference is kept until lend_notify_close().  Nothing happens if this was
 *	called for it already
 *
 * Context: process, may sleep for memory; takes lend_listeners_lock.
 */
void lend_notify_open(struct dlend_link *link);

/**
 * lend_notify_close - end lend_notify_open(): nothing is posted to the peer any more when this
 * returns
 * @link: (in) link that is down, or that the lender does not use any more
 *
 * If the link is up (the module is unloaded), this waits up to LEND_LISTENER_LAST_MS for queued
 * messages, and for a post that has begun, which times out if the peer takes no messages.  If
 * messages that had to arrive are left then, the session is ended: in the next one the peer gets no
 * offers.
 *
 * Context: process, no lock of the lender; takes lend_listeners_lock.
 */
void lend_notify_close(struct dlend_link *link);

/**
 * lend_notify_withdraw - queue WITHDRAW for a function to all peers; no message about it follows
 * @fn: (in, out) function
 *
 * The work that posts does not access the function's device any more when this returns.
 *
 * Context: process, no lock of the lender but the device lock; takes lend_offer_lock, the lock of
 * the list of links, and lend_listeners_lock; waits for no peer.
 */
void lend_notify_withdraw(struct lend_fn *fn);

/**
 * lend_notify_exit - empty the links' tables of requesters for the last time, at module exit
 *
 * The caller has made sure that no function is bound any more and that lend_link_user is
 * unregistered.
 *
 * Context: process, no lock of the lender.
 */
void lend_notify_exit(void);

/*
 * p2p.c: peer-to-peer of lent functions.  A function is the target where its BARs are reached, and
 * the source where it does the DMA.  A foreign grant is one that another lender has made.
 */

/**
 * lend_foreign_await - wait up to LEND_P2P_WINDOW_WAIT_MS for the foreign grant that a P2P_MAP
 * needs
 * @link: (in) to the borrower
 * @p: (in) the borrower's request; not trusted
 *
 * Returns at once if the grant exists, or none is needed (the BAR is in this host, or in the
 * borrower's aperture), or the link goes down.
 *
 * Context: process, no lock; takes lend_p2p_lock.
 */
void lend_foreign_await(struct dlend_link *link, const struct dlend_p_p2p *p);

/**
 * lend_grant_open - let devices of another lender reach a BAR of a function, for its borrower
 * @fn: (in, out) function; the caller has checked the sender's lease (lend_lease_enter())
 * @p: (in) node of that lender, and BAR; not trusted, the caller has checked its form
 *
 * Maps the BAR in the aperture towards that lender, and queues P2P_WINDOW for it.
 *
 * Context: process, group lock; takes lend_p2p_lock, the lock of the list of links, an aperture's
 * lock and lend_listeners_lock; waits for no peer.
 * Return: 0, also if the grant exists already; -ESTALE the function is being reset; -EHOSTUNREACH
 * this node has no link to that node; -ENOSPC the aperture towards that node is full; -EDQUOT
 * peer-to-peer has used up its share of that aperture; -EAGAIN too many grants exist, or that node
 * has not confirmed their end yet; -EINVAL the BAR cannot be mapped, or is smaller than a page, or
 * that node is this one; -ENOMEM; or as dlend_slot_map_phys().
 */
int lend_grant_open(struct lend_fn *fn, const struct dlend_p_p2p_grant *p);

/**
 * lend_grant_end - undo lend_grant_open()
 * @fn: (in, out) function
 * @want: (in) as for lend_grant_open(); not trusted.  Nothing happens if there is no such grant
 *
 * Devices of that lender do not reach the BAR any more when this returns; the offsets are in
 * quarantine until that lender has answered P2P_CLOSE.
 *
 * Context: as lend_grant_open().
 */
void lend_grant_end(struct lend_fn *fn, const struct dlend_p_p2p_grant *want);

/**
 * lend_p2p_init - initialise the peer-to-peer state of a new function
 * @fn: (out) function
 *
 * Context: any.
 */
void lend_p2p_init(struct lend_fn *fn);

/**
 * lend_p2p_open - allow other devices to reach a function's BARs: its lease begins, or its reset is
 * over
 * @fn: (in, out) function
 * @link: (in) to the borrower; no reference is taken: the caller keeps the link until
 *	lend_p2p_close() or lend_p2p_hide()
 * @epoch: (in) of the lease
 *
 * Context: process, group lock; takes lend_p2p_lock.
 */
void lend_p2p_open(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

/**
 * lend_p2p_hide - end all maps and grants that lead to a function's BARs: it is about to be reset
 * @fn: (in, out) function; the maps of which it is the source stay
 *
 * No device reaches its BARs when this returns, and none can before lend_p2p_open().
 *
 * Context: process, group lock; takes lend_p2p_lock, the lock of a domain, an aperture's lock and
 * lend_listeners_lock; waits for no peer.
 */
void lend_p2p_hide(struct lend_fn *fn);

/**
 * lend_p2p_close - lend_p2p_hide() at the end of a lease; also end the maps whose source it is
 * @fn: (in, out) function
 *
 * When this returns, no device reaches the function's BARs, and the function reaches no BAR.
 *
 * Context: as lend_p2p_hide().
 */
void lend_p2p_close(struct lend_fn *fn);

/**
 * lend_p2p_map - let a function reach a BAR of another device
 * @fn: (in, out) source; the caller has checked its lease.  That of the target is checked here
 * @p: (in) which BAR, and the guest-physical address to map it at; not trusted, the caller has
 *	checked its form
 * @target: (in) the function that @p names, if it is bound here, from lend_fn_find(); else NULL
 *
 * Context: process, group lock of @fn, not that of @target; takes lend_p2p_lock, the lock of a
 * domain and lend_listeners_lock; waits for no peer.
 * Return: 0; -ESTALE the target is leased to another node, or under another epoch, or is being
 * reset; -ENODEV it is not bound here; -EAGAIN its lender has not granted the BAR; -EEXIST RAM or
 * another BAR is at that address; -EBUSY that BAR is mapped at another address; -ERANGE it cannot
 * be mapped there; -ENOSPC all maps together would be larger than the window, or would be more than
 * LEND_MAPS_MAX; -EINVAL the size is not the BAR's, or the BAR is smaller than a page; -ENOMEM.
 */
int lend_p2p_map(struct lend_fn *fn, const struct dlend_p_p2p *p, struct lend_fn *target);

/**
 * lend_p2p_unmap - undo one lend_p2p_map()
 * @fn: (in, out) source
 * @p: (in) guest-physical address and size; not trusted
 *
 * Context: as lend_p2p_map().
 * Return: 0; -ENOENT nothing is mapped in exactly this range.
 */
int lend_p2p_unmap(struct lend_fn *fn, const struct dlend_p_p2p *p);

/**
 * lend_p2p_yield - end the maps of BARs that overlap a range where RAM is about to be mapped
 * @fn: (in, out) function; maps of the other functions of its group end, too
 * @gpa: (in) guest-physical address
 * @size: (in) in bytes
 *
 * The borrower gets P2P_LOST for each of them.
 *
 * Context: as lend_p2p_map().  The group has a domain.
 */
void lend_p2p_yield(struct lend_fn *fn, u64 gpa, u64 size);

/**
 * lend_p2p_message - handle P2P_WINDOW or P2P_CLOSE of another lender about its device, or
 * P2P_CLOSED about a device here
 * @link: (in) to that lender
 * @msg: (in) message; not trusted, the caller has checked its form
 *
 * Context: process, message handler, no lock; takes the locks that lend_p2p_hide() takes; waits for
 * no peer.
 * Return: 0; -EPERM the message is about a device of a third node.
 */
int lend_p2p_message(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_p2p_link_lost - end all maps and grants over a link
 * @link: (in) link that is down
 *
 * Context: process, no group lock; takes the locks that lend_p2p_hide() takes; waits for no peer.
 */
void lend_p2p_link_lost(struct dlend_link *link);

/**
 * lend_p2p_show - print what a function reaches, and the grants of its BARs, for debugfs
 * @fn: (in) function
 * @m: (out) file
 *
 * Context: process, group lock; takes lend_p2p_lock.
 */
void lend_p2p_show(struct lend_fn *fn, struct seq_file *m);

/* bind.c: a device becomes a lent function, and an ordinary device again */

/**
 * struct lend_iommu_count - how many devices of which kind an IOMMU group has
 * @functions: number of PCI functions, without bridges
 * @non_pci: there are devices that are not PCI devices
 */
struct lend_iommu_count {
	unsigned int functions;
	bool non_pci;
};

/**
 * lend_iommu_count - count the devices of an IOMMU group, with or without a driver
 * @iommu: (in) IOMMU group
 * @count: (out) result; the kernel may add and remove devices at any time
 *
 * Context: process; takes the IOMMU group's mutex.
 */
void lend_iommu_count(struct iommu_group *iommu, struct lend_iommu_count *count);

/**
 * lend_check_device - check that a device can be lent, and that an IOMMU translates its DMA
 * @pdev: (in) device
 * @shared: (out) the device has no reset of its own, and is reset with others of its IOMMU group
 *
 * Context: process, device lock; takes the PCI core's lock of all buses (pci_bus_sem).
 * Return: 0; -EINVAL it is a bridge; -ENOTTY it cannot be reset without others; -EBUSY it has
 * virtual functions; -ENODEV it has no IOMMU; -EOPNOTSUPP it has an identity domain (pass-through);
 * -EACCES it has ATS enabled, and allow_ats is off (PCIe 6.0, 10.1.2: the IOMMU trusts translated
 * requests).  A message says why, and what to do.
 */
int lend_check_device(struct pci_dev *pdev, bool *shared);

/**
 * lend_check_group - check that the IOMMU group of a device can be lent
 * @pdev: (in) device
 * @iommu: (in) its IOMMU group
 * @count: (out) the devices of the group
 *
 * Context: process, device lock; takes the IOMMU group's mutex.
 * Return: 0; -EOPNOTSUPP firmware uses it (RMRR, unity map), or it has devices that cannot be lent;
 * -EPERM interrupt remapping is off; -ENOMEM.  For all but -ENOMEM a message says why, and what to
 * do.
 */
int lend_check_group(struct pci_dev *pdev, struct iommu_group *iommu,
		     struct lend_iommu_count *count);

/**
 * lend_attach_domain - attach a group's domain; fail if a device of the group then has ATS enabled,
 * and allow_ats is off
 * @group: (in) group with a domain that is not attached.  If this fails, the domain is blocked, and
 *	cannot be attached again: the caller destroys it later
 *
 * Whether ATS is on may be known only now, as some IOMMU drivers enable it when they attach a
 * domain.
 *
 * Context: process, group lock; takes the IOMMU group's mutex.
 * Return: 0; -EACCES a device has ATS enabled, and a message says which, why, and what to do; or as
 * dlend_domain_attach().
 */
int lend_attach_domain(struct lend_group *group);

/**
 * lend_rom_read - copy a piece of the ROM's image into the reply to ROM_READ
 * @fn: (in) function; the peer need not have a lease
 * @want: (in) offset of the piece in bytes, not trusted
 * @got: (out) the piece, the same offset, and the size of the whole image
 *
 * Context: process; needs and takes no lock: the image does not change while @fn exists.
 * Return: 0; -ENOENT there is no image, or none yet; -ERANGE the offset is behind its end.
 */
int lend_rom_read(struct lend_fn *fn, const struct dlend_p_u32 *want, struct dlend_p_rom *got);

/**
 * lend_bind_take - become the DMA owner of a function's IOMMU group, turn memory decoding on,
 * request the BARs, and fill in lend_fn.bar
 * @fn: (in, out) new function
 *
 * Context: process, device lock; takes the IOMMU group's mutex.
 * Return: 0, and the caller undoes this with lend_bind_release(); -EBUSY another driver does DMA in
 * its IOMMU group, or something else has a BAR; or as iommu_device_claim_dma_owner(),
 * pci_enable_device_mem().  On error nothing is left to undo, and a message says why, and what to
 * do.
 */
int lend_bind_take(struct lend_fn *fn);

/**
 * lend_bind_release - undo lend_bind_take()
 * @fn: (in, out) function, which has left its group (lend_lease_unbind()), or never joined it
 *
 * Context: process, device lock; takes the IOMMU group's mutex.
 */
void lend_bind_release(struct lend_fn *fn);

/**
 * lend_bind_interrupts - count the interrupt vectors that a function can have in this host
 * @fn: (in, out) function, after lend_bind_take()
 * @iommu: (in) its IOMMU group
 *
 * Vectors are allocated for that, and freed at once: the function has none when this returns.
 * Fills in nr_msi, nr_msix, has_intx, isolated_msi and the holes of the BARs, and calls
 * lend_irq_init().
 *
 * Context: process, device lock.
 */
void lend_bind_interrupts(struct lend_fn *fn, struct iommu_group *iommu);

/**
 * lend_bind_reset - reset a function that has a reset of its own, for the first time
 * @fn: (in, out) function, after lend_lease_bind().  If it has no such reset after all, this sets
 *	lend_fn.shared_reset and lend_fn.needs_reset instead, and returns 0
 *
 * Context: process, may take seconds; device lock.
 * Return: 0; or as lend_reset_fn() (a message says so).
 */
int lend_bind_reset(struct lend_fn *fn);

/**
 * lend_bind_save - save what a function is like after its first reset: the PCI state that every
 * later reset restores (lend_fn.saved), the ROM, the snapshot of its configuration space, the
 * filter, and its serial number
 * @fn: (in, out) function that was just reset for the first time
 *
 * lend_fn_put() frees what this allocates, with the last reference.
 *
 * Context: process, device lock; takes the group lock.
 * Return: 0; -ENOMEM; or as pci_save_state().
 */
int lend_bind_save(struct lend_fn *fn);

/*
 * lease.c: whether a group is complete (all functions of the IOMMU group are bound and were reset)
 * and can be offered, and every change of a lease.  "Announce" is: have STATE posted to all peers,
 * and a uevent sent to user space.
 */

/**
 * lend_group_state_name - name of the state of a group, as this host shows it in sysfs and uevents
 * @group: (in) group
 *
 * Context: process, group lock; takes lend_set_lock.
 * Return: a word of a-z, a constant string, never NULL.
 */
const char *lend_group_state_name(const struct lend_group *group);

/**
 * lend_group_step - give the lease of a group an event (lease_sm.h), and announce a new state
 * @group: (in, out) group
 * @ev: (in) event, without lend_event.keeper
 * @todo: (out) LEND_DO_*, what the caller has to do; 0 on error.  This function has done
 *	LEND_DO_ANNOUNCE itself
 *
 * Context: process, group lock; takes lend_set_lock and lend_listeners_lock.
 * Return: as lend_lease_step().
 */
int lend_group_step(struct lend_group *group, const struct lend_event *ev, u32 *todo);

/**
 * lend_group_ready - mark a function ready after its first reset, and offer its group if that is
 * complete now
 * @fn: (in, out) function, after lend_lease_bind() and lend_bind_save()
 *
 * Context: process; takes the group lock.
 */
void lend_group_ready(struct lend_fn *fn);

/**
 * lend_group_join_set - move a group into a set, and announce what changes
 * @group: (in, out) group; a node that has the group keeps it
 * @name: (in) name of the set, as of dlend_name_read(); "": take the group out of its set
 *
 * Context: process; takes the group lock.
 */
void lend_group_join_set(struct lend_group *group, const char *name);

/**
 * lend_groups_changed - queue work that counts the functions of all groups again, offers or
 * withdraws each group accordingly, and announces the states that changed because of a set
 *
 * Callers are those that notice that functions came to IOMMU groups or left them, or that the
 * holder or the target of a set's member has changed.
 *
 * Context: any.
 */
void lend_groups_changed(void);

/**
 * lend_groups_exit - cancel the work that lend_groups_changed() has queued, or wait for its end
 *
 * The caller has made sure that nothing calls lend_groups_changed() any more.
 *
 * Context: process, no lock of the lender.
 */
void lend_groups_exit(void);

/**
 * lend_reserve - reserve a group for one node or one VM: when it is free, only that one may borrow
 * it
 * @group: (in, out) group; a node that has it keeps it
 * @whom: (in) that node or VM; all 0: end the reservation
 * @seconds: (in) for how long, without the time that this host sleeps; 0: until it is changed
 *
 * The new state is announced.
 *
 * Context: process; takes the group lock.
 */
void lend_reserve(struct lend_group *group, const struct lend_for *whom, u32 seconds);

/**
 * lend_reserve_get - read the reservation of a group
 * @group: (in) group
 * @whom: (out) node or VM that it is reserved for; all 0: none
 * @seconds: (out) time that remains, rounded up; 0: without end
 *
 * Context: process; takes the group lock.
 */
void lend_reserve_get(struct lend_group *group, struct lend_for *whom, u32 *seconds);

/**
 * lend_prepare_done - end the preparation of a function: offer its group, if it is complete
 * @fn: (in, out) function, whose reservation, set and clique have been written.  Ends also what
 *	lend_prepare_withdraw() began; if there is neither, nothing happens
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_done(struct lend_fn *fn);

/**
 * lend_prepare_withdraw - withdraw the group of a function, until lend_prepare_done()
 * @fn: (in, out) function; a node that has its group keeps it, and no node gets it afterwards
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_withdraw(struct lend_fn *fn);

/**
 * lend_bus_master_set - set or clear Bus Master Enable in the device
 * @fn: (in) function
 * @on: (in) true: set it; false: clear it
 *
 * DMA requests that the device has sent before may still arrive.
 *
 * Context: process, group lock.
 */
void lend_bus_master_set(struct lend_fn *fn, bool on);

/**
 * lend_fence_hide - take the BARs of a function out of reach of its borrower and of other devices
 * @fn: (in, out) function, lent or not: a node that borrows it before lend_fence_show() cannot
 *	reach them either
 * @why: (in) LEND_HIDDEN_*, added to lend_fn.hidden; the BARs come back when no reason is left
 *
 * Context: as lend_p2p_hide().
 */
void lend_fence_hide(struct lend_fn *fn, unsigned int why);

/**
 * lend_fence_show - undo lend_fence_hide() for the same reason
 * @fn: (in, out) function; the BARs are mapped again if it is lent and no reason is left.  Nothing
 *	happens if they were not hidden
 * @why: (in) LEND_HIDDEN_*
 *
 * Context: process, group lock; takes lend_p2p_lock and the aperture's lock.
 * Return: 0; or as lend_bars_show().
 */
int lend_fence_show(struct lend_fn *fn, unsigned int why);

/**
 * lend_standby_prepare - fill in lend_group.standby for LEND_DO_PREPARE: a domain, offsets for the
 * BARs, and an interrupt source for the node that is to take a function over
 * @fn: (in, out) function, whose group has one function only, and no standby
 * @link: (in) to the node; a reference is kept
 * @source: (in) interrupt source towards the node; belongs to the standby afterwards, also if this
 *	fails
 * @grant: (out) offsets of the BARs
 *
 * The device reaches nothing of the node, and the node nothing of the device, before
 * lend_standby_swap().
 *
 * Context: process, group lock.
 * Return: 0; or as lend_bars_reserve(), dlend_domain_create(): then the caller has to call
 * lend_standby_end().
 */
int lend_standby_prepare(struct lend_fn *fn, struct dlend_link *link,
			 struct dlend_irq_source *source, struct dlend_p_lease *grant);

/**
 * lend_standby_drop - undo lend_standby_prepare(), for LEND_DO_DROP
 * @group: (in, out) group; nothing happens if it has no standby
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_standby_drop(struct lend_group *group);

/**
 * lend_standby_end - give the lease LEND_EV_STANDBY_LOST, and undo lend_standby_prepare()
 * @group: (in, out) group, with a standby that failed, or whose link is down
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_standby_end(struct lend_group *group);

/**
 * lend_standby_swap - fence the holder, and give the function to the standby, without a reset
 * @fn: (in, out) function, whose group has a standby
 *
 * The caller has made sure that LEND_EV_TAKE_OVER will succeed (it has tried the event on a copy of
 * the lease), and gives the lease that event afterwards: the fence concerns the old lease.  When
 * this returns, the old holder reaches nothing of the device, and the device nothing of the old
 * holder.  The device does no DMA, and has no interrupts: the new holder asks for both.
 *
 * Context: process, group lock; waits for no peer.
 * Return: 0; or as lend_attach_domain(), lend_bars_take(): the device cannot do DMA, and the caller
 * has to revoke the lease.
 */
int lend_standby_swap(struct lend_fn *fn);

/**
 * lend_recover_later - queue work that resets the functions of a group that need it, and then
 * offers the group again, or quarantines it
 * @group: (in, out) group
 * @ms: (in) milliseconds until the work runs; nothing changes if it is queued already
 *
 * Context: any.
 */
void lend_recover_later(struct lend_group *group, unsigned int ms);

/**
 * lend_lease_borrow - serve BORROW: give a function to a node
 * @fn: (in, out) function
 * @link: (in) to the node; the lease keeps a reference
 * @want: (in) offset of the node's interrupt counters, and the VM that it asks for; not trusted,
 *	the caller has checked its form
 * @reply: (out) the lease's epoch, and struct dlend_p_lease: the offsets of the BARs, and the
 *	holder if a node has the function
 *
 * First waits for a reset after the last lease, up to LEND_BORROW_WAIT_MS.
 *
 * Context: process, message handler, no lock; takes the group lock; reads through the window of
 * @link, without that lock.
 * Return: 0; -EBUSY a node has the group, or alone may have it; -EAGAIN the group is being reset,
 * or this host goes to sleep, or the offers of the group have not been posted to the node; -EIO the
 * group is quarantined; -ENODEV it is not complete, or not prepared; -ENOSPC a BAR does not fit
 * into the aperture; -ERANGE no counters can be where @want says; -ENOTCONN the session is over;
 * -ENOMEM; or as dlend_irq_source_open(), lend_attach_domain().
 */
int lend_lease_borrow(struct lend_fn *fn, struct dlend_link *link,
		      const struct dlend_p_borrow *want, struct dlend_msg *reply);

/**
 * lend_lease_return - serve RETURN: fence a function that a node gives back, and free its offsets;
 * or drop the standby, if that gives up
 * @fn: (in, out) function; if its holder gives it back, it is fenced when this returns, and its
 *	reset follows unless it is parked
 * @link: (in) to the node, which does not use the function's offsets of that lease any more
 * @epoch: (in) of the lease, as the node says
 *
 * Context: process, message handler, no lock; takes the group lock.
 * Return: 0, also for a lease that is over already; -ESTALE it was never granted, or not to this
 * node.
 */
int lend_lease_return(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

/**
 * lend_lease_revoke - take a group away from its holder, without asking it
 * @group: (in, out) group; it is fenced when this returns, and its reset follows
 * @why: (in) reason, for log and trace
 *
 * Context: process; takes the group lock; waits for no peer.
 * Return: 0; -EALREADY no node has the group.
 */
int lend_lease_revoke(struct lend_group *group, const char *why);

/**
 * lend_lease_bind - add a function to the registry and to its group; requests of peers find it
 * afterwards
 * @fn: (in, out) new function; lend_fn.group is set, with a reference
 * @iommu: (in) its IOMMU group; a new group keeps a reference
 * @members: (in) functions in that IOMMU group
 *
 * Context: process, probe(), device lock; takes the group lock and the registry lock.
 * Return: 0, and the caller undoes this with lend_lease_unbind(); or as lend_registry_join().
 */
int lend_lease_bind(struct lend_fn *fn, struct iommu_group *iommu, unsigned int members);

/**
 * lend_lease_unbind - undo lend_lease_bind(): fence, withdraw and reset a function, and remove it
 * @fn: (in, out) function
 *
 * If the function was offered, the holder of its group loses the group, and WITHDRAW is queued to
 * all peers.  When this returns, the function was fenced, a reset was tried, and requests do not
 * find it any more; a request that has found it before may still run, with a reference, and is
 * refused.
 *
 * Context: process, remove() or a probe() that failed, device lock, and no lock below it
 * (group.h), as this takes all of these; may take seconds.
 */
void lend_lease_unbind(struct lend_fn *fn);

/**
 * lend_lease_error - revoke a lease because the PCI core has begun to recover a function from an
 * error
 * @fn: (in, out) function
 *
 * The holder gets ERROR.  The function is not reset, and not lent, before lend_lease_error_over(),
 * or LEND_ERROR_PATIENCE_MS have passed.
 *
 * Context: process, PCI error handler, device lock; takes the group lock; waits for no peer.
 */
void lend_lease_error(struct lend_fn *fn);

/**
 * lend_lease_error_over - queue a reset by the lender: the PCI core has recovered a function, or
 * has given up
 * @fn: (in, out) function; nothing happens if it had no error
 *
 * That reset decides whether the function is lent again.
 *
 * Context: as lend_lease_error().
 */
void lend_lease_error_over(struct lend_fn *fn);

/**
 * lend_lease_link_lost - end all leases and standbys over a link: fence what was lent over it
 * @link: (in) link that is down
 *
 * Context: process, no lock of the lender; takes the registry lock, and the lock of each group that
 * was lent over the link; does not wait for a group that another node has, or for any peer.
 */
void lend_lease_link_lost(struct dlend_link *link);

/**
 * lend_lease_suspend - refuse BORROW until lend_lease_resume(), as the host wants to sleep
 *
 * Context: process; takes the registry lock and the lock of each group; waits for no peer.
 * Return: 0: no device is lent or being reset; -EBUSY one is, and a message says which.  BORROW is
 * refused in both cases.
 */
int lend_lease_suspend(void);

/**
 * lend_lease_resume - undo lend_lease_suspend()
 * @slept: (in) the host may have slept: queue a reset of all devices first; none is lent before it
 *
 * Context: process; takes the registry lock and the lock of each group.
 */
void lend_lease_resume(bool slept);

/**
 * lend_lease_shutdown - refuse BORROW for good, and revoke all leases, as the host goes down
 *
 * Context: process; takes the registry lock and the lock of each group; waits for no peer.
 */
void lend_lease_shutdown(void);

/**
 * lend_lease_enter - check the lease of a request, and take the group lock if it is valid
 * @fn: (in) function
 * @link: (in) link that the request has come over
 * @epoch: (in) of the lease, as the request says; not trusted
 *
 * Context: process, no group lock.
 * Return: 0: the node behind @link has the function under this epoch, and the caller holds the
 * group lock, and has to unlock it.  Otherwise the lock is not held: -ESTALE the node does not have
 * the function, and its DMA is over; -EBUSY the function is about to be fenced.
 */
int lend_lease_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

/* request.c: requests of peers, and links that go up and down */

/* The callbacks of the lender, for dlend_link_user_register(). */
extern struct dlend_link_user lend_link_user;

#endif
