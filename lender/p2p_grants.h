/* SPDX-License-Identifier: GPL-2.0 */
/* BARs of functions here that devices of other lenders reach. */
#ifndef DLEND_LENDER_P2P_GRANTS_H
#define DLEND_LENDER_P2P_GRANTS_H

#include <dlend/link.h>

#include "lender/fn.h"
#include "lender/p2p_peers.h"

struct seq_file;

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
 * lend_grant_closed - another lender has unmapped what was granted to its devices
 * @link: (in) to that lender
 * @msg: (in) P2P_CLOSED message; not trusted
 *
 * Context: process; takes the p2p lock.
 */
void lend_grant_closed(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_grants_close - nobody reaches a function through a grant when this returns
 * @fn: (in, out) function
 *
 * Context: process, p2p lock; waits for no peer.
 */
void lend_grants_close(struct lend_fn *fn);

/**
 * lend_grants_link_lost - forget all grants to the devices behind a link
 * @peer: (in, out) whose link is down
 *
 * Context: process, p2p lock.
 */
void lend_grants_link_lost(struct lend_peer *peer);

/**
 * lend_grants_show - print the grants of a function's BARs, for debugfs
 * @fn: (in) function
 * @m: (out) file
 *
 * Context: process, p2p lock.
 */
void lend_grants_show(const struct lend_fn *fn, struct seq_file *m);

#endif
