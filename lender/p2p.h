/* SPDX-License-Identifier: GPL-2.0 */
/* Peer-to-peer of lent functions, as the rest of the lender sees it. */
#ifndef DLEND_LENDER_P2P_H
#define DLEND_LENDER_P2P_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/wait.h>

#include <dlend/link.h>

#include "lender/fn.h"

struct seq_file;

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
 * @want: (in) which node, which BAR; not trusted
 *
 * Context: process, group lock; takes the p2p lock; waits for no peer.
 * Return: 0, also if the grant exists already; -ESTALE the function is being reset; -EHOSTUNREACH
 * this node has no link to that node; -ENOSPC the window to that node is full; -EDQUOT peer-to-peer
 * has used up its share of that window; -EAGAIN too many grants exist, or that node has not
 * confirmed their end yet; -EINVAL the BAR cannot be reached; -ENOMEM; or the IOMMU's error.
 */
int lend_grant_open(struct lend_fn *fn, const struct dlend_p_p2p_grant *want);

/**
 * lend_grant_end - end of lend_grant_open()
 * @fn: (in, out) function
 * @want: (in) the same; not trusted.  It is no error if there is no such grant
 *
 * Context: process, group lock; takes the p2p lock; waits for no peer.
 */
void lend_grant_end(struct lend_fn *fn, const struct dlend_p_p2p_grant *want);

/**
 * lend_p2p_init - a new function @fn (out) reaches nothing and is reached by nobody.
 *
 * Context: any.
 */
void lend_p2p_init(struct lend_fn *fn);

/**
 * lend_p2p_open - a lease begins, or a reset is over: others may reach a function from now on
 * @fn: (in, out) function
 * @link: (in) to the borrower
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
 * @link: (in) to the borrower
 * @p: (in) which BAR, and where; not trusted
 * @target: (in) the function that @p names, if it is bound here; else NULL
 *
 * Context: process, group lock of @fn; takes the p2p lock.
 * Return: 0; -ESTALE, -ENODEV the target is not the borrower's; -EAGAIN its lender has not granted
 * it; -EEXIST RAM or another BAR is at that address; -EBUSY that BAR is mapped at another address;
 * -ERANGE it cannot be mapped there; -ENOSPC more than the window has, or more BARs than a VM has;
 * -EINVAL; -ENOMEM.
 */
int lend_p2p_map(struct lend_fn *fn, struct dlend_link *link, const struct dlend_p_p2p *p,
		 struct lend_fn *target);

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
 * lend_p2p_show - print what a function reaches, and who reaches it, for debugfs
 * @fn: (in) function
 * @m: (out) file
 *
 * Context: process, group lock; takes the p2p lock.
 */
void lend_p2p_show(struct lend_fn *fn, struct seq_file *m);

#endif
