/* SPDX-License-Identifier: GPL-2.0 */
/* BARs of other lenders' functions that devices here may reach. */
#ifndef DLEND_LENDER_P2P_FOREIGN_H
#define DLEND_LENDER_P2P_FOREIGN_H

#include <dlend/link.h>

#include "lender/p2p_peers.h"

/**
 * struct lend_foreign - a grant of another lender to devices here
 * @node: in the peer's list
 * @peer: that lender
 * @maps: struct lend_map that lead there
 * @id: by which that lender knows the grant
 * @addr: name of that lender's function
 * @epoch: of the lease of that function
 * @bar: number of its BAR
 * @borrower: node that has that lease
 * @offset: where the BAR is in that lender's aperture
 * @size: in bytes
 */
struct lend_foreign {
	struct list_head node;
	struct lend_peer *peer;
	struct list_head maps;
	u32 id;
	struct dlend_addr addr;
	u32 epoch, bar;
	u16 borrower;
	u64 offset, size;
};

/**
 * lend_foreign_find - find the grant of a BAR that a borrower asks for
 * @lease: (in) link to the borrower
 * @p: (in) the borrower's request; not trusted
 *
 * Context: process, p2p lock.
 * Return: the grant that the BAR's lender has made for this borrower; NULL: there is none.
 */
struct lend_foreign *lend_foreign_find(const struct dlend_link *lease,
				       const struct dlend_p_p2p *p);

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
 * lend_foreign_add - another lender grants a BAR
 * @link: (in) to that lender
 * @msg: (in) P2P_WINDOW message about a function of that lender
 *
 * Context: process; takes the p2p lock.
 */
void lend_foreign_add(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_foreign_close - another lender ends a grant: unmap it, and answer
 * @link: (in) to that lender
 * @msg: (in) P2P_CLOSE message about a function of that lender
 *
 * Context: process; takes the p2p lock.
 */
void lend_foreign_close(struct dlend_link *link, const struct dlend_msg *msg);

/**
 * lend_foreign_link_lost - devices here reach nothing behind a link any more when this returns
 * @peer: (in, out) whose link is down
 *
 * Context: process, p2p lock.
 */
void lend_foreign_link_lost(struct lend_peer *peer);

#endif
