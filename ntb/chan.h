/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The channel of a link: both message rings, from the beginning to the end of a session; and the
 * receiving end, the ring in this node's memory that the peer writes.
 */
#ifndef DLEND_NTB_CHAN_H
#define DLEND_NTB_CHAN_H

#include <linux/mutex.h>
#include <linux/types.h>
#include "ring.h"

struct dlend_link;

/* After so many in a session it begins anew: the peer has another understanding of the protocol. */
#define DLEND_MAX_BAD_FRAMES	16

/**
 * struct dlend_chan - the receiving end of a link
 * @lock: guards @rx, @bad_frames
 * @rx: indices
 * @bad_frames: messages of this session that were refused
 */
struct dlend_chan {
	struct mutex lock;		/* rx, bad_frames */
	struct dlend_ring_rx rx;
	unsigned int bad_frames;
};

/** dlend_chan_init - nothing is received yet; dlend_jobs_init() follows. Context: any. */
void dlend_chan_init(struct dlend_link *link);

/**
 * dlend_chan_begin - empty both rings, for a session that is to begin
 * @link: link; nobody uses the rings
 * @session: (in) nonce
 *
 * Context: process, may sleep, under state_lock; takes chan.lock, tx.lock.
 */
void dlend_chan_begin(struct dlend_link *link, u64 session);

/**
 * dlend_chan_end - the session is over: link->session is 0, callers wake, nothing is sent
 * @link: link, with a session or without
 *
 * Jobs may still run.  When this returns nobody writes anything of the session into the peer's
 * memory any more, but counters of interrupts (irq_source.h).
 * Context: process, may sleep, under state_lock; takes link->lock, tx.lock, chan.lock.
 */
void dlend_chan_end(struct dlend_link *link);

/**
 * dlend_chan_refresh - write the indices again, and look for messages
 * @link: link
 *
 * Because a doorbell can be lost, and an index can be overwritten.
 * Context: process; takes tx.lock and chan.lock, but does not wait for them.
 */
void dlend_chan_refresh(struct dlend_link *link);

/**
 * dlend_chan_stop - nothing of the channel runs any more, for good
 * @link: link; the session is over and all jobs are done
 *
 * Context: process, may sleep.
 */
void dlend_chan_stop(struct dlend_link *link);

#endif
