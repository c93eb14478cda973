/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every change of a lease: functions are given to a borrower and taken from it, then reset and
 * offered again; and what a node has that prepares to take a lease over (lend_standby_*).
 */
#ifndef DLEND_LENDER_LEASE_H
#define DLEND_LENDER_LEASE_H

#include <dlend/link.h>

#include "lender/fn.h"
#include "lender/group.h"
#include "lender/reach.h"

/**
 * lend_group_state_name - what the state of a group is called on its own host
 * @group: (in) group
 *
 * Context: process, group lock. Return: a word of a-z, never NULL.
 */
const char *lend_group_state_name(const struct lend_group *group);

/**
 * lend_group_step - give the lease of a group an event
 * @group: (in, out) group
 * @ev: (in) event
 * @todo: (out) LEND_DO_*, what the caller has to do; 0 on error.  LEND_DO_TELL is not for the
 *	caller: this function sees to it that the peers are told
 *
 * Context: process, group lock.
 * Return: as lend_lease_step().
 */
int lend_group_step(struct lend_group *group, const struct lend_event *ev, u32 *todo);

/**
 * lend_group_try_offer - offer a group if it can be lent now, and do not offer it otherwise
 * @group: (in, out) group
 *
 * A group can be lent if all its functions are bound here, were reset and are prepared.  Does
 * nothing while somebody has the group, or while it is being reset.
 *
 * Context: process, group lock.
 */
void lend_group_try_offer(struct lend_group *group);

/**
 * lend_group_ready - a function was reset: its group may be whole now
 * @fn: (in, out) function, from lend_registry_join()
 *
 * Context: process; takes the group lock.
 */
void lend_group_ready(struct lend_fn *fn);

/**
 * lend_group_drop_domain - give up the domain and the link of a lease
 * @group: (in, out) group, from whose functions no transfer of that lease can come any more
 *
 * Context: process, group lock.
 */
void lend_group_drop_domain(struct lend_group *group);

/**
 * lend_group_join_set - put a group into a set, and tell all nodes
 * @group: (in, out) group; who has it now keeps it
 * @name: (in) name of the set, as of dlend_name_read(); "": none
 *
 * Context: process; takes the group lock.
 */
void lend_group_join_set(struct lend_group *group, const char *name);

/**
 * lend_groups_changed - functions came to IOMMU groups or left them, or another group of a set has
 * another borrower: look at all groups, soon
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
 * @group: (in, out) group; who has it now keeps it
 * @whom: (in) that node or VM
 * @seconds: (in) for how long, without the time that this host sleeps; 0: until it is changed
 *
 * All nodes are told.  Context: process; takes the group lock.
 */
void lend_reserve(struct lend_group *group, const struct lend_for *whom, u32 seconds);

/**
 * lend_reserve_left - whom is a group reserved for, and for how long?
 * @group: (in) group
 * @whom: (out) that node or VM
 * @seconds: (out) what is left; 0: without end
 *
 * Context: process; takes the group lock.
 */
void lend_reserve_left(struct lend_group *group, struct lend_for *whom, u32 *seconds);

/**
 * lend_prepare_done - all that others have to know of a function has been written: offer it
 * @fn: (in, out) function; if it is offered already, nothing happens. If its group was withdrawn,
 *	that ends
 *
 * Context: process; takes the group lock.
 */
void lend_prepare_done(struct lend_fn *fn);

/**
 * lend_prepare_withdraw - nobody gets a function's group any more, until lend_prepare_done()
 * @fn: (in, out) function; who has its group keeps it
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
 * lend_fence_hide - nobody reaches the BARs of a function until lend_fence_show()
 * @fn: (in, out) function, lent or not: a node that borrows it meanwhile cannot reach them either
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
 * @group: (in, out) group; nothing happens if nobody prepares there
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_standby_drop(struct lend_group *group);

/**
 * lend_standby_end - the node that prepares itself cannot go on
 * @group: (in, out) group
 *
 * Context: process, group lock; waits for no peer.
 */
void lend_standby_end(struct lend_group *group);

/**
 * lend_standby_swap - fence the holder, reset nothing, and give the function to who has prepared
 * @fn: (in, out) function
 *
 * Call it before LEND_EV_TAKE_OVER is noted, once it is known to succeed: the fence is of the old
 * lease.  When this returns, the old holder reaches nothing. The device does no DMA, and has no
 * interrupts: the new holder turns both on.
 * Context: process, group lock; waits for no peer.
 * Return: 0; or the IOMMU's error: nobody reaches the device, and the caller takes it back.
 */
int lend_standby_swap(struct lend_fn *fn);

/**
 * lend_recover_soon - reset the functions of @group (in, out) that were lent, and offer it, soon
 *
 * Context: process; takes the group lock.
 */
void lend_recover_soon(struct lend_group *group);

/**
 * lend_lease_borrow - a node asks for a function
 * @fn: (in, out) function
 * @link: (in) to the node
 * @want: (in) where its interrupt counters are, and for which VM it asks; not trusted
 * @reply: (out) the lease's epoch, and struct dlend_p_lease: the offsets of the BARs, and the
 *	holder if somebody has the function
 *
 * Waits for a reset of the function that is under way, but no longer than LEND_BORROW_WAIT_MS.
 *
 * Context: process, message handler; takes the group lock.
 * Return: 0; -EBUSY somebody has it; -EAGAIN the group is being reset, or this host goes to sleep,
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
 * Return: 0; -EALREADY nobody has it.
 */
int lend_lease_revoke(struct lend_group *group, const char *why);

/**
 * lend_lease_bind - a function is being bound: others can find it from now on
 * @fn: (in, out) function; gets its group
 * @id: (in) number of its IOMMU group
 * @members: (in) functions in that IOMMU group
 *
 * Context: process, probe(), device lock; takes the group lock and the registry lock.
 * Return: as lend_registry_join().
 */
int lend_lease_bind(struct lend_fn *fn, int id, unsigned int members);

/**
 * lend_lease_unbind - a function is being unbound
 * @fn: (in, out) function
 *
 * The holder of its group loses the group now, and all peers are told that it is withdrawn.  When
 * this returns, the function was fenced, a reset was tried, and nobody finds the function any more.
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
 * @slept: (in) and are reset before that, as the host may have slept
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
 * Return: 0: the node behind @link has the function under this epoch, and the group lock is held:
 * unlock it. Else the lock is not held: -ESTALE: it has not, and its DMA is over;
 * -EBUSY: the function is about to be taken from it.
 */
int lend_lease_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

#endif
