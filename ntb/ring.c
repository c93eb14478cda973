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

bool dlend_ring_tx_slow(struct dlend_ring_tx *tx, u64 now, u64 limit)
{
	u32 used = tx->prod - tx->cons;

	if (used <= DLEND_RING_SLOTS / 2) {
		tx->busy_since = 0;
	} else if (tx->busy_since ? tx->cons - tx->busy_cons >= DLEND_RING_SLOTS :
				    used == DLEND_RING_SLOTS) {
		tx->busy_since = now ? now : 1;
		tx->busy_cons = tx->cons;
	}
	return tx->busy_since && now - tx->busy_since > limit;
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
