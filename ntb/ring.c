// SPDX-License-Identifier: GPL-2.0
/*
 * Index arithmetic of the message rings.
 *
 * Pure: touches neither the ring's memory nor a window, so that wrap-around and a lying peer can
 * be tested without either.
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <dlend/proto.h>
#include "ring.h"

static_assert((DLEND_RING_SLOTS & (DLEND_RING_SLOTS - 1)) == 0);

u32 dlend_ring_index(u32 count)
{
	return count & (DLEND_RING_SLOTS - 1);
}

int dlend_ring_tx_room(struct dlend_ring_tx *tx, u32 credit)
{
	/* Differences of running numbers: right across the wrap of 32 bits. */
	if (credit - tx->cons > tx->prod - tx->cons)
		return -EPROTO;
	tx->cons = credit;
	return DLEND_RING_SLOTS - (tx->prod - tx->cons);
}

u32 dlend_ring_tx_commit(struct dlend_ring_tx *tx)
{
	return ++tx->prod;
}

int dlend_ring_rx_avail(struct dlend_ring_rx *rx, u32 index)
{
	u32 known = rx->prod - rx->cons;
	u32 avail = index - rx->cons;

	if (avail > DLEND_RING_SLOTS || avail < known)
		return -EPROTO;
	rx->prod = index;
	return avail;
}

u32 dlend_ring_rx_commit(struct dlend_ring_rx *rx)
{
	return ++rx->cons;
}
