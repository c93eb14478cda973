// SPDX-License-Identifier: GPL-2.0
/*
 * The loopback link: the link of this node to itself, where lender and borrower are one host.  This
 * file stands in for the hardware of an NTB.
 *
 * Scratchpads and doorbells are memory, ringing a doorbell is a function call, and the peer's
 * aperture is this node's own.  All other files of ntb/, and the folders above, use the loop as any
 * other link, with sessions, self-test and messages.  So lender and borrower in one kernel deal
 * with each other as two hosts do: a lease has its epoch, its device is fenced and reset when it
 * ends, and while this node has the lease, other nodes are refused.
 *
 * This file knows nothing of offers; it needs no NTB and no CONFIG_NTB.
 */
#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <dlend/compat.h>
#include "link.h"

/*
 * Bytes of the aperture: more than this host's guests and BARs need.  The loop's aperture has no
 * IOMMU domain and no window, and only records its mappings.  So its size costs nothing.
 */
#define DLEND_LOOP_BYTES	(64ull * SZ_1T)

/*
 * struct dlend_loop - the "hardware"
 * @hw: what dlend_link_add() wants to know of the hardware (dlend/link_hw.h)
 * @link: the link; NULL while dlend_link_doorbell() must not be called for it: before it is made,
 *	and while it is removed.  Set under dlend_loop_lock, or while the module is unloaded; read
 *	without a lock
 * @spad: scratchpads: this node's are the peer's, too.  No lock
 * @db: doorbell bits that are set.  A bit stays set until db_clear(); atomic
 * @mask: doorbell bits that are masked: they are delivered only after an unmask; atomic
 */
struct dlend_loop {
	struct dlend_link_hw hw;
	struct dlend_link *link;
	u32 spad[DLEND_SPAD_COUNT];
	atomic64_t db, mask;
};

static struct dlend_loop dlend_the_loop;
static DEFINE_MUTEX(dlend_loop_lock);		/* one thread at a time makes the link */

static u32 dlend_loop_spad_read(struct dlend_link_hw *hw, unsigned int index)
{
	return READ_ONCE(dlend_the_loop.spad[index]);
}

static void dlend_loop_spad_write(struct dlend_link_hw *hw, unsigned int index, u32 value)
{
	WRITE_ONCE(dlend_the_loop.spad[index], value);
}

/*
 * If a bit is set that is not masked: run the doorbell's handler, in the context of the caller,
 * which rings, unmasks, or has just made the link.  The handler itself neither rings nor unmasks.
 * The link cannot be freed meanwhile: while dlend_loop_exit() runs, only work of the link itself
 * calls this, and dlend_link_remove() waits for that work.
 */
static void dlend_loop_deliver(void)
{
	struct dlend_link *link = READ_ONCE(dlend_the_loop.link);

	if (link && atomic64_read(&dlend_the_loop.db) & ~atomic64_read(&dlend_the_loop.mask))
		dlend_link_doorbell(link);
}

static void dlend_loop_db_ring(struct dlend_link_hw *hw, u64 bits)
{
	atomic64_or(bits, &dlend_the_loop.db);
	smp_mb__after_atomic(); /* @db is set before @mask is read: see db_mask() */
	dlend_loop_deliver();
}

static u64 dlend_loop_db_read(struct dlend_link_hw *hw)
{
	return atomic64_read(&dlend_the_loop.db);
}

static void dlend_loop_db_clear(struct dlend_link_hw *hw, u64 bits)
{
	atomic64_andnot(bits, &dlend_the_loop.db);
	smp_mb__after_atomic(); /* cleared before the rings are read */
}

static void dlend_loop_db_mask(struct dlend_link_hw *hw, u64 bits, bool masked)
{
	if (masked) {
		atomic64_or(bits, &dlend_the_loop.mask);
		return;
	}
	atomic64_andnot(bits, &dlend_the_loop.mask);
	/*
	 * Unmasked before @db is read.  If a thread rings at the same time, at least one of the two
	 * sees that the bit is set and not masked.
	 */
	smp_mb__after_atomic();
	dlend_loop_deliver();
}

/* Size and alignment of the "window" by which the peer reaches this node. */
static int dlend_loop_inbound(struct dlend_link_hw *hw, u64 *size, u64 *align)
{
	*size = DLEND_LOOP_BYTES;
	*align = PAGE_SIZE;
	return 0;
}

/* The ops that are NULL are for windows, requester IDs and a link that can be down. */
static const struct dlend_link_hw_ops dlend_loop_hw_ops = {
	.type = "loop",
	.spad_read = dlend_loop_spad_read,
	.spad_write = dlend_loop_spad_write,
	.db_ring = dlend_loop_db_ring,
	.db_read = dlend_loop_db_read,
	.db_clear = dlend_loop_db_clear,
	.db_mask = dlend_loop_db_mask,
	.inbound = dlend_loop_inbound,
};

int dlend_loop_open(void)
{
	struct dlend_link *link;

	guard(mutex)(&dlend_loop_lock);
	if (dlend_the_loop.link)
		return 0;
	dlend_the_loop.hw.ops = &dlend_loop_hw_ops;
	/* NULL: there is no hardware's device. hw.window_size 0 says that the peer is this node. */
	link = dlend_link_add(NULL, &dlend_the_loop.hw);
	if (IS_ERR(link))
		return PTR_ERR(link);
	WRITE_ONCE(dlend_the_loop.link, link);
	/* A doorbell that was rung before the line above was not delivered then. */
	dlend_loop_deliver();
	dlend_link_queue_step(link);
	return 0;
}
DLEND_EXPORT(dlend_loop_open);

/* Without the lock: the users of links are gone, so nobody calls dlend_loop_open(). */
void dlend_loop_exit(void)
{
	struct dlend_link *link = dlend_the_loop.link;

	if (!link)
		return;
	WRITE_ONCE(dlend_the_loop.link, NULL);
	dlend_link_remove(link);
}
