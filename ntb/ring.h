/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Indices of a single-producer ring of fixed-size messages that lies in the receiver's memory.
 * The producer's index and the consumer's credit are running 32-bit numbers; both are written by
 * the peer and believed only as far as they can be true.
 */
#ifndef DLEND_NTB_RING_H
#define DLEND_NTB_RING_H

#include <linux/types.h>

/**
 * struct dlend_ring_tx - producing end
 * @prod: messages written so far
 * @cons: messages the peer is known to have consumed
 * @busy_since: start of a time in which the peer has to take a ring full: the ring was full, and at
 *	each look since it was more than half full; milliseconds; 0: no such time has begun
 * @busy_cons: @cons at that start
 */
struct dlend_ring_tx {
	u32 prod;
	u32 cons;
	u64 busy_since;
	u32 busy_cons;
};

/**
 * struct dlend_ring_rx - consuming end
 * @cons: messages consumed so far
 * @prod: messages the peer is known to have written
 */
struct dlend_ring_rx {
	u32 cons;
	u32 prod;
};

/** dlend_ring_index - place in the ring of message number @count. Context: any. */
u32 dlend_ring_index(u32 count);

/**
 * dlend_ring_tx_room - how many messages may be written now
 * @tx: producing end
 * @credit: (in) consumer's count, as the peer wrote it (not trusted)
 *
 * Context: any; the caller serialises.
 * Return: 0..DLEND_RING_SLOTS; -EPROTO if @credit is impossible (it goes back, or beyond what was
 * written).
 */
int dlend_ring_tx_room(struct dlend_ring_tx *tx, u32 credit);

/**
 * dlend_ring_tx_slow - does the peer take too little of a ring that is full?
 * @tx: producing end, after each dlend_ring_tx_room()
 * @now: (in) milliseconds, any origin
 * @limit: (in) milliseconds in which it has to take as many messages as the ring holds
 *
 * A peer that takes one now and then is no better than a peer that takes none.
 * Context: any; the caller serialises.
 */
bool dlend_ring_tx_slow(struct dlend_ring_tx *tx, u64 now, u64 limit);

/**
 * dlend_ring_tx_commit - one message was written
 * @tx: producing end
 *
 * Context: any; the caller serialises. Return: the new producer's index, to be published.
 */
u32 dlend_ring_tx_commit(struct dlend_ring_tx *tx);

/**
 * dlend_ring_rx_avail - how many messages wait
 * @rx: consuming end
 * @index: (in) producer's count, as the peer wrote it (not trusted)
 *
 * Context: any; the caller serialises.
 * Return: 0..DLEND_RING_SLOTS; -EPROTO if @index is impossible (it goes back, or the ring would
 * have been overrun).
 */
int dlend_ring_rx_avail(struct dlend_ring_rx *rx, u32 index);

/**
 * dlend_ring_rx_commit - one message was copied out
 * @rx: consuming end
 *
 * Context: any; the caller serialises. Return: the new credit, to be written back.
 */
u32 dlend_ring_rx_commit(struct dlend_ring_rx *rx);

#endif
