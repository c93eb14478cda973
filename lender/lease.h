/* SPDX-License-Identifier: GPL-2.0 */
/* Every change of a lease. */
#ifndef DLEND_LENDER_LEASE_H
#define DLEND_LENDER_LEASE_H

#include <dlend/link.h>

#include "lender/fn.h"
#include "lender/group.h"

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

/** lend_lease_expire_work - what lend_group.expire does. Context: process. */
void lend_lease_expire_work(struct work_struct *work);

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
 * Return: 0: the node behind @link has the function under this epoch, and the group lock is held
 * until lend_lease_exit(). Else the lock is not held: -ESTALE: it has not, and its DMA is over;
 * -EBUSY: the function is about to be taken from it.
 */
int lend_lease_enter(struct lend_fn *fn, struct dlend_link *link, u32 epoch);

/** lend_lease_exit - end of lend_lease_enter() of @fn (in). Context: process, group lock. */
void lend_lease_exit(struct lend_fn *fn);

#endif
