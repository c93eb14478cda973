/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sending messages: the ring in the peer's memory that this node writes.
 */
#ifndef DLEND_NTB_TX_H
#define DLEND_NTB_TX_H

#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/semaphore.h>
#include <linux/types.h>
#include "ring.h"

struct dlend_link;
struct dlend_msg;
struct dlend_session_ref;

/**
 * struct dlend_tx - the sending end of a link
 * @lock: guards @ring, @session, the peer's ring; a semaphore, as it is waited for with a deadline
 * @ring: indices
 * @session: messages of this session may be written; 0: none
 */
struct dlend_tx {
	struct semaphore lock;
	struct dlend_ring_tx ring;
	u64 session;
};

/* A thread that waits long wakes up this often, so that the kernel does not report a hung task. */
#define DLEND_WAIT_TURN		(30L * HZ)

/** dlend_deadline_left - jiffies until @deadline, 0 if it has passed. Context: any. */
static inline long dlend_deadline_left(unsigned long deadline)
{
	return max((long)(deadline - jiffies), 0L);
}

/**
 * dlend_deadline_in - when a call that begins now gives up
 * @ms: (in) milliseconds; 0: the default (module parameter call_timeout_ms)
 *
 * Context: any. Return: deadline, in jiffies.
 */
unsigned long dlend_deadline_in(unsigned int ms);

/** dlend_tx_init - nothing may be sent yet. Context: any. */
void dlend_tx_init(struct dlend_link *link);

/**
 * dlend_tx_begin - only messages of one session are sent from now on
 * @link: link
 * @session: (in) nonce; the ring is empty; 0: nothing is sent
 *
 * When this returns nobody writes a message of an earlier session into the peer's memory any more.
 * Context: process, may sleep; takes tx.lock.
 */
void dlend_tx_begin(struct dlend_link *link, u64 session);

/**
 * dlend_tx_refresh - write the producer's index again, and look at the peer's credit
 * @link: link
 * @session: (in) only if this session's messages may be sent
 *
 * The index may have been overwritten, and the credit has to be checked while nobody sends, too.
 * If another thread has the lock, it is about to do the same: then nothing is done.
 * Context: process; takes tx.lock, but does not wait for it.
 */
void dlend_tx_refresh(struct dlend_link *link, u64 session);

/**
 * dlend_tx_send - write a message into the peer's ring and ring its doorbell
 * @ref: (in) session; its link is not NULL
 * @msg: (in, out) complete; gets its sequence number and checksum
 * @deadline: (in) jiffies; bounds all waiting. If there is room and nobody has the lock, the
 *	message is sent even after that
 *
 * Context: process, may sleep; takes tx.lock.
 * Return: 0; -ENOTCONN the session is over; -ETIMEDOUT the peer takes no messages.
 */
int dlend_tx_send(const struct dlend_session_ref *ref, struct dlend_msg *msg,
		  unsigned long deadline);

#endif
