// SPDX-License-Identifier: GPL-2.0
/*
 * The link of a node to itself: what stands in for an NTB where lender and borrower are one host.
 *
 * Scratchpads and doorbells are memory, a doorbell is a call, and the peer's aperture is our own.
 * Everything above is as on any other link, messages and self-test too: so the lender and the
 * borrower in one kernel deal with each other as two hosts do, and a lease here has its epoch, is
 * fenced and reset, and is refused to a second borrower like every other.
 *
 * Knows nothing of offers; needs no NTB and no kernel with CONFIG_NTB.
 */
#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <dlend/compat.h>
#include "core.h"

/* Offsets are numbers only, and cost nothing: more than this host's guests and BARs need. */
#define LOOP_BYTES	(64ull * SZ_1T)

/*
 * struct loop - the "hardware"
 * @link: NULL while nobody may be called
 * @db: doorbells that were rung
 * @mask: those of them that are held back
 */
struct loop {
	struct dlend_link *link;
	u32 spad[DLEND_SPAD_COUNT];
	atomic64_t db, mask;
};

static struct loop the_loop;
static DEFINE_MUTEX(loop_lock);		/* the_loop.link, by opening and leaving */

static u32 spad_read_peer(void *hw, unsigned int index)
{
	struct loop *loop = hw;

	return READ_ONCE(loop->spad[index]);
}

static void spad_write_own(void *hw, unsigned int index, u32 value)
{
	struct loop *loop = hw;

	WRITE_ONCE(loop->spad[index], value);
}

/* The doorbell's handler, in whatever context it was rung. */
static void call(struct loop *loop)
{
	struct dlend_link *link = READ_ONCE(loop->link);

	if (link && atomic64_read(&loop->db) & ~atomic64_read(&loop->mask))
		dlend_link_doorbell(link);
}

static void db_ring(void *hw, u64 bits)
{
	struct loop *loop = hw;

	atomic64_or(bits, &loop->db);
	smp_mb__after_atomic(); /* rung before the mask is read: db_mask() sees it otherwise */
	call(loop);
}

static u64 db_read(void *hw)
{
	struct loop *loop = hw;

	return atomic64_read(&loop->db);
}

static void db_clear(void *hw, u64 bits)
{
	struct loop *loop = hw;

	atomic64_andnot(bits, &loop->db);
	smp_mb__after_atomic(); /* cleared before the rings are read */
}

static void db_mask(void *hw, u64 bits, bool masked)
{
	struct loop *loop = hw;

	if (masked) {
		atomic64_or(bits, &loop->mask);
		return;
	}
	atomic64_andnot(bits, &loop->mask);
	smp_mb__after_atomic(); /* through before the rings are read: db_ring() sees it otherwise */
	call(loop);
}

static int inbound(void *hw, u64 *size, u64 *align)
{
	*size = LOOP_BYTES;
	*align = PAGE_SIZE;
	return 0;
}

static int set_trans(void *hw, dma_addr_t base, u64 size)
{
	return 0;
}

static void clear_trans(void *hw)
{
}

static struct device *dma_dev(void *hw)
{
	return NULL;
}

static bool link_is_up(void *hw)
{
	return true;
}

static void link_enable(void *hw, bool on)
{
}

static const struct dlend_link_hw_ops loop_ops = {
	.type = "loop",
	.spad_read_peer = spad_read_peer,
	.spad_write_own = spad_write_own,
	.db_ring = db_ring,
	.db_read = db_read,
	.db_clear = db_clear,
	.db_mask = db_mask,
	.inbound = inbound,
	.set_trans = set_trans,
	.clear_trans = clear_trans,
	.dma_dev = dma_dev,
	.link_is_up = link_is_up,
	.link_enable = link_enable,
};

int dlend_loop_open(void)
{
	struct dlend_link *link;
	int err = 0;

	mutex_lock(&loop_lock);
	if (the_loop.link)
		goto unlock;
	link = dlend_link_add(NULL, &loop_ops, &the_loop);
	if (IS_ERR(link)) {
		err = PTR_ERR(link);
		goto unlock;
	}
	WRITE_ONCE(the_loop.link, link);
	/* What was rung before there was anybody to call. */
	call(&the_loop);
	dlend_link_event(link);
unlock:
	mutex_unlock(&loop_lock);
	return err;
}
DLEND_EXPORT(dlend_loop_open);

/* No user of links is left: nobody rings any more but the link itself, as it goes down. */
void dlend_loop_exit(void)
{
	struct dlend_link *link = the_loop.link;

	if (!link)
		return;
	WRITE_ONCE(the_loop.link, NULL);
	dlend_link_remove(link);
}
