// SPDX-License-Identifier: GPL-2.0
/*
 * Leases on the borrower's side: they are borrowed, used for requests, and returned.  Also claims
 * on offers, and the expansion ROM.
 *
 * Borrowing and returning wait for the lender.  The offer has an ordered workqueue for each of the
 * two; strays are returned on the one for borrowing.  A lease may be borrowed only after all
 * earlier ones are returned (dlend_claim_pending()).  Must not know when a lease is wanted, nor
 * what it is used for: the claim's user knows.
 */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/pci_regs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait_bit.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/p2p.h>
#include "offer.h"
#include "trace.h"

/*
 * The expansion ROM of an offered device, fetched from its lender piece by piece.
 *
 * The lender made a copy of it before it offered the device, so no lease is needed.
 */

/*
 * Fetch the piece at offset @at. @size (in, out): bytes of the whole image; 0: not known yet.
 * Return: 0; -EBADMSG it is another piece, or of another image; or as dlend_link_call_in().
 */
static int dlend_rom_read_piece(struct dlend_offer *offer, struct dlend_link *link, u32 at,
				u32 *size, struct dlend_p_rom *piece)
{
	struct dlend_session_ref now = dlend_session_now(link);
	struct dlend_msg req, reply = {};
	struct dlend_p_u32 *p;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_ROM_READ, &offer->addr, 0, sizeof(*p));
	p->value = cpu_to_le32(at);
	ret = dlend_link_call_in(&now, &req, &reply, 0);
	if (ret)
		return ret;
	memcpy(piece, reply.payload, sizeof(*piece));
	if (!*size)
		*size = le32_to_cpu(piece->size);
	/*
	 * The link has checked the message.  Is it the piece that was asked for, of the same image?
	 */
	if (le32_to_cpu(piece->offset) != at || le32_to_cpu(piece->size) != *size)
		return -EBADMSG;
	return 0;
}

int dlend_offer_read_rom(struct dlend_offer *offer, u8 **image, u32 *size)
{
	struct dlend_offer_info info;
	struct dlend_p_rom piece;
	struct dlend_link *link;
	u32 at = 0;
	int ret;

	*image = NULL;
	*size = 0;
	dlend_offer_copy(offer, &info, NULL);
	if (!info.bar[DLEND_ROM_INDEX].size)
		return 0;
	link = dlend_offer_link(offer);
	if (!link)
		return -ENOTCONN;
	do {
		ret = dlend_rom_read_piece(offer, link, at, size, &piece);
		if (!ret && *size > info.bar[DLEND_ROM_INDEX].size)
			ret = -EFBIG;
		if (!ret && !at)
			*image = kvmalloc(*size, GFP_KERNEL_ACCOUNT);
		if (!ret && !*image)
			ret = -ENOMEM;
		if (ret)
			break;
		memcpy(*image + at, piece.data, min_t(u32, *size - at, sizeof(piece.data)));
		at += sizeof(piece.data);
	} while (at < *size);
	dlend_link_put(link);
	if (ret) {
		kvfree(*image);
		*image = NULL;
	}
	return ret;
}
DLEND_EXPORT(dlend_offer_read_rom);

/*
 * For BORROW, STANDBY and RETURN: the lender may have to fence, or to wait some seconds for a
 * reset, and the default time-out is too short.
 */
#define DLEND_LEASE_TIMEOUT_MS	10000
#define DLEND_LEASE_RETURN_TRIES	3

/* Leases of an offer that are being returned, at most: a bad lender may invent strays. */
#define DLEND_LEASE_STRAYS_MAX	8

static bool dlend_lease_host_suspended;	/* see dlend_lease_block_borrows() */

/*
 * After the last reference: if the return was acked, slots and vectors can be used again at once.
 */
static void dlend_lease_free(struct kref *ref)
{
	struct dlend_lease *lease = container_of(ref, struct dlend_lease, kref);

	if (lease->claim && lease->claim->ops->released)
		lease->claim->ops->released(lease->claim, lease, lease->acked);
	if (lease->sink)
		dlend_irq_sink_close(lease->sink, lease->acked);
	if (lease->direct)
		dlend_irq_direct_close(lease->direct, lease->acked);
	for (unsigned int i = 0; i < DLEND_NUM_REGIONS; i++)
		dlend_window_close(&lease->bar[i]);
	dlend_session_drop(&lease->ref);
	if (lease->claim)
		lease->claim->ops->put(lease->claim);
	kfree(lease);
}

void dlend_lease_put(struct dlend_lease *lease)
{
	if (lease)
		kref_put(&lease->kref, dlend_lease_free);
}
DLEND_EXPORT(dlend_lease_put);

/*
 * Send the lender a request about a lease. @timeout_ms: for the whole call; 0: the default. Return:
 * as dlend_link_call_in().
 */
static int dlend_lease_call(struct dlend_lease *lease, struct dlend_msg *req,
			    struct dlend_msg *reply, unsigned int timeout_ms)
{
	struct dlend_claim *claim = lease->claim;

	if (dlend_lease_lost(lease))
		return -ENOTCONN;
	if (claim)
		atomic64_inc(&claim->messages);
	if (claim && claim->ops->in_core)
		return dlend_link_call_in_core(&lease->ref, req, reply, timeout_ms);
	return dlend_link_call_in(&lease->ref, req, reply, timeout_ms);
}

/* Returning */

/*
 * Is a stray still not in use?  All functions of a group have one lease.  So a user may have
 * borrowed another function since the lender reported the stray, and use that same lease.  This is
 * checked on the workqueue on which users note their grants (dlend_claim.wq), so none is being
 * noted now.  If the offer was withdrawn, its leases are over, and its removal waits for this work:
 * so there is nothing to return.
 */
static bool dlend_lease_is_stray(const struct dlend_lease *lease)
{
	struct dlend_claim *claim;
	bool used;

	if (READ_ONCE(lease->offer->withdrawn))
		return false;
	claim = dlend_offer_get_claim_of(lease->ref.link, &lease->addr);
	used = claim && claim->ops->uses(claim, lease->epoch);
	dlend_offer_put_claim(claim);
	return !used;
}

/* Have the user of a lease end all use of it (a stray has no user), and send RETURN. */
static void dlend_lease_give_back(struct dlend_lease *lease)
{
	/* For a stray, send RETURN only once: a bad lender may invent strays, and not answer. */
	unsigned int tries = lease->claim ? DLEND_LEASE_RETURN_TRIES : 1;
	char name[DLEND_NAME_LEN];
	struct dlend_msg req;
	int ret;

	/* Peer-to-peer through this node must not reach the device under its next lease. */
	dlend_p2p_close_slots(&lease->addr, lease->epoch);
	if (lease->claim && lease->claim->ops->returning)
		lease->claim->ops->returning(lease->claim, lease);
	do {
		dlend_msg_init(&req, DLEND_MSG_RETURN, &lease->addr, lease->epoch, 0);
		ret = dlend_lease_call(lease, &req, NULL, DLEND_LEASE_TIMEOUT_MS);
	} while (ret == -ETIMEDOUT && --tries);
	/* If the link is down, the lender fences by itself, and the slots stay in quarantine. */
	lease->acked = !ret;
	if (ret && ret != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(lease->ref.link),
				     "node %u did not take %s (epoch %u) back: %pe; its part of the window stays reserved until the link restarts\n",
				     lease->addr.lender, dlend_addr_name(&lease->addr, name),
				     lease->epoch, ERR_PTR(ret));
	trace_dlend_return(lease->addr.lender, lease->addr.bdf, lease->epoch, ret);
	if (lease->claim && lease->claim->ops->returned)
		lease->claim->ops->returned(lease->claim, lease);
}

/* dlend_lease.return_work: return the lease, unless it is a stray that is in use now. */
static void dlend_lease_return_work(struct work_struct *work)
{
	struct dlend_lease *lease = container_of(work, struct dlend_lease, return_work);
	struct dlend_offer *offer = lease->offer;
	bool stray = !lease->claim;

	if (lease->claim || dlend_lease_is_stray(lease))
		dlend_lease_give_back(lease);
	/*
	 * Drop the reference before @leases: the last one frees slots, and a borrow that waits for
	 * @leases to be 0 may need the room.
	 */
	dlend_lease_put(lease);
	/*
	 * @leases includes strays. Subtract from @strays first: dlend_offer_seen_by() computes the
	 * difference, which must not be too low.
	 */
	if (stray)
		atomic_dec(&offer->strays);
	if (atomic_dec_and_test(&offer->leases))
		wake_up_var(&offer->leases);
}

void dlend_lease_return(struct dlend_lease *lease)
{
	queue_work(lease->claim ? lease->offer->return_wq : lease->offer->wq, &lease->return_work);
}
DLEND_EXPORT(dlend_lease_return);

/* The lender has granted a lease: from now on it has to be returned, and counts in @leases. */
static void dlend_lease_granted(struct dlend_lease *lease, struct dlend_offer *offer, u32 epoch)
{
	lease->epoch = epoch;
	lease->offer = offer;
	atomic_inc(&offer->leases);
}

/* Make a lease with one reference, in the link's present session; it is not granted. */
static struct dlend_lease *dlend_lease_alloc(struct dlend_link *link,
					     const struct dlend_addr *addr)
{
	struct dlend_lease *lease = kzalloc_obj(*lease);

	if (!lease)
		return NULL;
	kref_init(&lease->kref);
	INIT_WORK(&lease->return_work, dlend_lease_return_work);
	lease->ref = dlend_session_hold(link);
	lease->addr = *addr;
	return lease;
}

void dlend_lease_return_stray(struct dlend_offer *offer)
{
	struct dlend_lease *lease;

	lockdep_assert_held(&dlend_offers_lock);
	if (offer->dying || !offer->link || offer->now.state != DLEND_OFFER_HELD ||
	    offer->now.holder != dlend_node_id() ||
	    atomic_read(&offer->leases) >= DLEND_LEASE_STRAYS_MAX)
		return;
	lease = dlend_lease_alloc(offer->link, &offer->addr);
	if (!lease)
		return;
	dev_dbg(&offer->dev, "epoch %u is held by this node, and nobody here uses it: returned\n",
		offer->now.epoch);
	dlend_lease_granted(lease, offer, offer->now.epoch);
	atomic_inc(&offer->strays);
	dlend_lease_return(lease);
}

/* Borrowing */

/* The lender has reported an interrupt by the doorbell. @arg: claim. */
static void dlend_lease_interrupt(void *arg, u32 vector, u32 count)
{
	struct dlend_claim *claim = arg;

	claim->ops->interrupt(claim, vector, count, false /* not direct */);
}

/* The device's own message has interrupted this host. @arg: claim. */
static void dlend_lease_interrupt_direct(void *arg, u32 vector, u32 count)
{
	struct dlend_claim *claim = arg;

	claim->ops->interrupt(claim, vector, count, true /* direct */);
}

static void dlend_lease_bar_revoked(struct dlend_window *w)
{
	struct dlend_lease *lease = w->arg;

	if (lease->claim->ops->bar_revoked)
		lease->claim->ops->bar_revoked(lease->claim, w - lease->bar);
}

/*
 * Open the parts of the window that lead to the BARs, at offsets that come from the peer: the link
 * checks them. Return: 0, or -errno and @why.
 */
static int dlend_lease_open_bars(struct dlend_lease *lease, char *why)
{
	struct dlend_offer_info info;
	int ret = 0;

	dlend_offer_copy(lease->offer, &info, NULL);
	for (unsigned int i = 0; i < DLEND_NUM_BARS && !ret; i++) {
		u64 offset = le64_to_cpu(lease->grant.bar_offset[i]);

		if (!info.bar[i].size || (info.bar[i].flags & DLEND_BAR_F_IO) ||
		    offset == U64_MAX)
			continue;
		lease->bar[i].revoked = dlend_lease_bar_revoked;
		lease->bar[i].arg = lease;
		/* A BAR that is smaller than a page takes a whole page. */
		ret = dlend_window_open(lease->ref.link, &lease->bar[i], offset,
					PAGE_ALIGN(info.bar[i].size), true /* a BAR */);
	}
	if (ret)
		snprintf(why, DLEND_REASON_LEN, "node %u granted BARs outside the window (%pe)",
			 lease->addr.lender, ERR_PTR(ret));
	return ret;
}

/* Write into @why why the lender does not grant the lease. @err: its answer. */
static void dlend_lease_explain(const struct dlend_lease *lease, int err, char *why)
{
	char node[DLEND_NODE_LABEL_LEN];

	/* The lender sends all nodes who has the device, or for whom it is reserved. */
	if (err == -EBUSY && dlend_claim_taken(lease->claim, why))
		return;
	if (err == -EBUSY)
		snprintf(why, DLEND_REASON_LEN, "the device is held by node %s",
			 dlend_node_label(le16_to_cpu(lease->grant.holder), node));
	else if (err == -EPERM)
		snprintf(why, DLEND_REASON_LEN,
			 "the node that has it does not let this node take it over: name this node in the move_to attribute of its mediated device there");
	else if (err == -EACCES)
		snprintf(why, DLEND_REASON_LEN,
			 "node %u does not lend it, because it translates addresses by itself (ATS): that host's log says what to do",
			 lease->addr.lender);
	else if (err == -ENOSPC)
		snprintf(why, DLEND_REASON_LEN,
			 "its BARs do not fit into the window of node %u, whose log has the sizes",
			 lease->addr.lender);
	else
		snprintf(why, DLEND_REASON_LEN, "node %u does not lend it (%pe)",
			 lease->addr.lender, ERR_PTR(err));
}

/*
 * Ask the lender for a lease. @type: DLEND_MSG_BORROW or DLEND_MSG_STANDBY. The message names the
 * VM, as the device may be reserved for it. Return: 0: the lease is granted; or -errno and @why.
 */
static int dlend_lease_ask(struct dlend_lease *lease, u16 type, char *why)
{
	struct dlend_msg req, reply = {};
	struct dlend_p_borrow *p;
	int ret;

	p = dlend_msg_init(&req, type, &lease->addr, 0, sizeof(*p));
	dlend_irq_sink_fill(lease->sink, p);
	memcpy(p->vm, lease->claim->vm, sizeof(p->vm));
	ret = dlend_lease_call(lease, &req, &reply, DLEND_LEASE_TIMEOUT_MS);
	memcpy(&lease->grant, reply.payload, sizeof(lease->grant));
	if (ret)
		dlend_lease_explain(lease, ret, why);
	else
		dlend_lease_granted(lease, lease->claim->offer, le32_to_cpu(reply.epoch));
	return ret;
}

/*
 * Make a lease that is not granted: it has a session of the link, a reference on the claim, and a
 * place for interrupts. Return: lease, or ERR_PTR and @why.
 */
static struct dlend_lease *dlend_lease_prepare(struct dlend_claim *claim, char *why)
{
	struct dlend_link *link = dlend_offer_link(claim->offer);
	struct dlend_lease *lease;
	struct dlend_irq_sink *sink;
	int ret;

	if (!link) {
		snprintf(why, DLEND_REASON_LEN, "the link to node %u is down",
			 claim->offer->addr.lender);
		return ERR_PTR(-ENOTCONN);
	}
	ret = dlend_offer_check_group(claim, why);
	lease = ret ? ERR_PTR(ret) : dlend_lease_alloc(link, &claim->offer->addr);
	dlend_link_put(link);
	if (IS_ERR(lease))
		return lease;
	if (!lease) {
		snprintf(why, DLEND_REASON_LEN, "out of memory");
		return ERR_PTR(-ENOMEM);
	}
	sink = dlend_irq_sink_open(lease->ref.link, dlend_lease_interrupt, claim);
	if (IS_ERR(sink)) {
		snprintf(why, DLEND_REASON_LEN, "no place for its interrupts in the window (%pe)",
			 sink);
		dlend_lease_put(lease);
		return ERR_CAST(sink);
	}
	lease->sink = sink;
	claim->ops->get(claim);
	lease->claim = claim;
	return lease;
}

struct dlend_lease *dlend_lease_borrow(struct dlend_claim *claim, bool standby, char *why)
{
	struct dlend_lease *lease;
	int ret;

	smp_mb(); /* claim->borrowing was set before; pairs with dlend_lease_block_borrows() */
	if (READ_ONCE(dlend_lease_host_suspended)) {
		snprintf(why, DLEND_REASON_LEN, "this host is being suspended");
		return ERR_PTR(-EAGAIN);
	}
	/* A lender grants by address, and another device may have this address by now. */
	if (READ_ONCE(claim->offer->withdrawn)) {
		snprintf(why, DLEND_REASON_LEN, "node %u does not lend it any more",
			 claim->offer->addr.lender);
		return ERR_PTR(-ENODEV);
	}
	lease = dlend_lease_prepare(claim, why);
	if (IS_ERR(lease))
		return lease;
	ret = dlend_lease_ask(lease, standby ? DLEND_MSG_STANDBY : DLEND_MSG_BORROW, why);
	if (ret) {
		/*
		 * A lender that refuses does not use the place for interrupts; one that has not
		 * answered may use it.
		 */
		lease->acked = ret != -ETIMEDOUT && ret != -ENOTCONN;
		dlend_lease_put(lease);
		return ERR_PTR(ret);
	}
	/*
	 * Check the group once more: it may have got another function, which another user has.  The
	 * lender has sent the offer of that function before its answer, but the offer may not have
	 * been handled yet: so wait for that.
	 */
	if (dlend_link_catch_up(lease->ref.link, DLEND_TO_BORROWER, DLEND_LEASE_TIMEOUT_MS)) {
		ret = dlend_offer_check_group(claim, why);
	} else {
		snprintf(why, DLEND_REASON_LEN,
			 "node %u has sent more messages than could be read: try again",
			 lease->addr.lender);
		ret = -EBUSY;
	}
	/* A standby reaches no BAR before it has taken over. */
	if (!ret && !standby)
		ret = dlend_lease_open_bars(lease, why);
	if (!ret)
		return lease;
	dlend_lease_return(lease);
	return ERR_PTR(ret);
}
DLEND_EXPORT(dlend_lease_borrow);

void dlend_lease_block_borrows(bool on)
{
	WRITE_ONCE(dlend_lease_host_suspended, on);
	smp_mb(); /* the caller reads claims after this; pairs with dlend_lease_borrow() */
}

bool dlend_lease_over(const struct dlend_lease *lease)
{
	const struct dlend_offer *offer = lease->offer;

	guard(mutex)(&dlend_offers_lock);
	if (dlend_lease_lost(lease) || !offer->link || offer->withdrawn)
		return true;
	/*
	 * Over, if the offer's epoch is newer; or if it is the same and the device is not held. If
	 * it is older, the STATE of this grant has not arrived yet.
	 */
	return !dlend_epoch_after(lease->epoch, offer->now.epoch) &&
	       !(offer->now.epoch == lease->epoch && offer->now.state == DLEND_OFFER_HELD);
}
DLEND_EXPORT(dlend_lease_over);

/* Requests under a lease */

int dlend_lease_reset(struct dlend_lease *lease)
{
	struct dlend_msg req;

	dlend_msg_init(&req, DLEND_MSG_RESET, &lease->addr, lease->epoch, 0);
	return dlend_lease_call(lease, &req, NULL, DLEND_RESET_TIMEOUT_MS);
}
DLEND_EXPORT(dlend_lease_reset);

int dlend_lease_bus_master(struct dlend_lease *lease, bool on)
{
	struct dlend_p_u32 *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, DLEND_MSG_BUS_MASTER, &lease->addr, lease->epoch, sizeof(*p));
	p->value = cpu_to_le32(on);
	return dlend_lease_call(lease, &req, NULL, 0);
}
DLEND_EXPORT(dlend_lease_bus_master);

/*
 * Have interrupts come by the lender's doorbell, or none (@mode DLEND_IRQ_NONE).  With the lender's
 * answer, direct interrupts have ended.
 */
static int dlend_lease_irq_doorbell(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count)
{
	struct dlend_p_irq *p;
	struct dlend_msg req;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_IRQ_SETUP, &lease->addr, lease->epoch, sizeof(*p));
	p->mode = cpu_to_le32(mode);
	p->count = cpu_to_le32(count);
	ret = dlend_lease_call(lease, &req, NULL, 0);
	if (!ret && lease->direct) {
		dlend_irq_direct_close(lease->direct, true /* acked */);
		lease->direct = NULL;
	}
	return ret;
}

/*
 * Allocate this host's vectors for direct interrupts, and write their messages into @p. This is
 * done before the lender is asked: the device may send a message before the answer comes. Return: 0
 * or -errno; after an error, the caller uses the doorbell, which frees the vectors.
 */
static int dlend_lease_irq_vectors(struct dlend_lease *lease, enum dlend_irq_mode mode,
				   u32 count, struct dlend_p_direct *p)
{
	int ret = dlend_irq_direct_set(lease->direct, mode, count, p);
	const struct dlend_claim_ops *ops = lease->claim->ops;

	for (u32 i = 0; i < count && !ret; i++)
		if (!ops->irq_in_use || ops->irq_in_use(lease->claim, i))
			ret = dlend_irq_direct_use(lease->direct, i);
	return ret;
}

/*
 * Have interrupts come directly. @why: (out) set in any case. Return: 0; -EOPNOTSUPP they cannot,
 * and @why says why; or as dlend_lease_call().
 */
static int dlend_lease_irq_direct(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count,
				  const char **why)
{
	struct dlend_claim *claim = lease->claim;
	struct dlend_p_direct *p;
	struct dlend_msg req;

	*why = "direct_interrupts of this device is off";
	if (READ_ONCE(lease->offer->doorbell) ||
	    (claim->ops->no_direct && claim->ops->no_direct(claim, why)))
		return -EOPNOTSUPP;
	if (!lease->direct) {
		struct dlend_irq_direct *set;

		set = dlend_irq_direct_open(lease->ref.link, claim->user,
					    dlend_lease_interrupt_direct, claim, why);
		if (IS_ERR(set))
			return -EOPNOTSUPP;
		lease->direct = set;
	}
	*why = "this host has too few vectors";
	p = dlend_msg_init(&req, DLEND_MSG_IRQ_DIRECT, &lease->addr, lease->epoch, sizeof(*p));
	if (dlend_lease_irq_vectors(lease, mode, count, p))
		return -EOPNOTSUPP;
	*why = "its lender cannot";
	return dlend_lease_call(lease, &req, NULL, 0);
}

int dlend_lease_irq_setup(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count)
{
	bool msi = mode == DLEND_IRQ_MSI || mode == DLEND_IRQ_MSIX;
	const char *why = "it has no message interrupts now";
	int ret = 0;

	/* For another mode, or more vectors of MSI, which must be contiguous, end the old ones. */
	if (msi && lease->direct && !dlend_irq_direct_fits(lease->direct, mode, count))
		ret = dlend_lease_irq_doorbell(lease, DLEND_IRQ_NONE, 0);
	if (ret)
		return ret;
	ret = msi ? dlend_lease_irq_direct(lease, mode, count, &why) : -EOPNOTSUPP;
	WRITE_ONCE(lease->claim->irq_why, ret ? why : NULL);
	return ret == -EOPNOTSUPP ? dlend_lease_irq_doorbell(lease, mode, count) : ret;
}
DLEND_EXPORT(dlend_lease_irq_setup);

int dlend_lease_irq_unmask(struct dlend_lease *lease)
{
	struct dlend_msg msg;

	if (dlend_lease_lost(lease))
		return -ENOTCONN;
	atomic64_inc(&lease->claim->messages);
	dlend_msg_init(&msg, DLEND_MSG_IRQ_UNMASK, &lease->addr, lease->epoch, 0);
	return dlend_link_post_in(&lease->ref, &msg);
}
DLEND_EXPORT(dlend_lease_irq_unmask);

/* The device's own configuration space, which the lender reads and writes: CFG_READ, CFG_WRITE. */

/* @type: DLEND_MSG_CFG_READ or DLEND_MSG_CFG_WRITE. @cfg: (in, out) becomes the reply. */
static int dlend_lease_cfg(struct dlend_lease *lease, u16 type, struct dlend_p_cfg *cfg,
			   unsigned int timeout_ms)
{
	struct dlend_msg req, reply = {};
	struct dlend_p_cfg *p;
	int ret;

	p = dlend_msg_init(&req, type, &lease->addr, lease->epoch, sizeof(*p));
	*p = *cfg;
	ret = dlend_lease_call(lease, &req, &reply, timeout_ms);
	memcpy(cfg, reply.payload, sizeof(*cfg));
	return ret;
}

int dlend_lease_cfg_read(struct dlend_lease *lease, u32 at, u32 size, u32 *value,
			 unsigned int timeout_ms)
{
	struct dlend_p_cfg cfg = { .offset = cpu_to_le16(at), .size = cpu_to_le16(size) };
	int ret = dlend_lease_cfg(lease, DLEND_MSG_CFG_READ, &cfg, timeout_ms);

	if (!ret)
		*value = le32_to_cpu(cfg.value);
	return ret;
}
DLEND_EXPORT(dlend_lease_cfg_read);

int dlend_lease_cfg_write(struct dlend_lease *lease, u32 at, u32 size, u32 value,
			  unsigned int timeout_ms)
{
	struct dlend_p_cfg cfg = {
		.offset = cpu_to_le16(at), .size = cpu_to_le16(size), .value = cpu_to_le32(value),
	};

	return dlend_lease_cfg(lease, DLEND_MSG_CFG_WRITE, &cfg, timeout_ms);
}
DLEND_EXPORT(dlend_lease_cfg_write);

/* Milliseconds until @end (jiffies), at least 1: for a call, 0 means the default. */
static unsigned int dlend_lease_left_ms(unsigned long end)
{
	return time_before(jiffies, end) ? max(jiffies_to_msecs(end - jiffies), 1u) : 1;
}

/*
 * The same writes and reads as those of a driver, but without polling for the flag: the lender
 * answers the write of the address when the device has read or written the word.
 */
int dlend_lease_vpd(struct dlend_lease *lease, u32 pos, u16 addr, u32 *data,
		    unsigned int timeout_ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(timeout_ms);
	bool write = addr & PCI_VPD_ADDR_F;
	int ret = 0;

	if (write)
		ret = dlend_lease_cfg_write(lease, pos + PCI_VPD_DATA, 4, *data, timeout_ms);
	if (!ret)
		ret = dlend_lease_cfg_write(lease, pos + PCI_VPD_ADDR, 2, addr,
					    dlend_lease_left_ms(end));
	if (ret || write)
		return ret;
	return dlend_lease_cfg_read(lease, pos + PCI_VPD_DATA, 4, data, dlend_lease_left_ms(end));
}
DLEND_EXPORT(dlend_lease_vpd);

/* Requests of a lease that moves from one node to another: see include/dlend/borrower.h. */

/* The lender waits for the device: a second at most to be silent, and for pending transactions. */
#define DLEND_LEASE_QUIESCE_MS	5000

int dlend_lease_move_to(struct dlend_lease *lease, u16 node, bool forced)
{
	struct dlend_p_move_to *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, DLEND_MSG_MOVE_TO, &lease->addr, lease->epoch, sizeof(*p));
	p->node = cpu_to_le16(node);
	p->flags = cpu_to_le16(forced ? DLEND_MOVE_F_FORCED : 0);
	return dlend_lease_call(lease, &req, NULL, 0);
}
DLEND_EXPORT(dlend_lease_move_to);

int dlend_lease_quiesce(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count,
			struct dlend_quiesced *quiesced)
{
	struct dlend_msg req, reply = {};
	const struct dlend_p_quiesced *p = (void *)reply.payload;
	int pass = -EALREADY, ret;

	/*
	 * Have interrupts come by the doorbell, so that the lender counts them. @pass: the answer;
	 * -EALREADY: they do already.  Even if that fails, have the lender stop the device.
	 */
	if (lease->direct)
		pass = dlend_lease_irq_doorbell(lease, mode, count);
	quiesced->irqs_changed = pass != -EALREADY;
	dlend_msg_init(&req, DLEND_MSG_QUIESCE, &lease->addr, lease->epoch, 0);
	ret = dlend_lease_call(lease, &req, &reply, DLEND_LEASE_QUIESCE_MS);
	quiesced->drained = !ret && (!pass || pass == -EALREADY) &&
			 (le32_to_cpu(p->flags) & DLEND_QUIET_F_DRAINED);
	quiesced->waited_us = le32_to_cpu(p->waited_us);
	quiesced->fired = le64_to_cpu(p->fired);
	return ret;
}
DLEND_EXPORT(dlend_lease_quiesce);

int dlend_lease_run(struct dlend_lease *lease)
{
	struct dlend_msg req;

	dlend_msg_init(&req, DLEND_MSG_RUN, &lease->addr, lease->epoch, 0);
	return dlend_lease_call(lease, &req, NULL, 0);
}
DLEND_EXPORT(dlend_lease_run);

int dlend_lease_hand_over(struct dlend_lease *lease, u8 token[DLEND_TOKEN_SIZE])
{
	struct dlend_msg req, reply = {};
	const struct dlend_p_token *p = (void *)reply.payload;
	int ret;

	dlend_msg_init(&req, DLEND_MSG_HAND_OVER, &lease->addr, lease->epoch, 0);
	ret = dlend_lease_call(lease, &req, &reply, 0);
	memcpy(token, p->token, DLEND_TOKEN_SIZE);
	return ret;
}
DLEND_EXPORT(dlend_lease_hand_over);

/* Why the lender has not let this node take the device over, for people. @err: its answer. */
static const char *dlend_lease_taken_words(int err)
{
	switch (err) {
	case -EINPROGRESS:
		return "it is still in use on its old node";
	case -EPERM:
		return "it was handed over to another node";
	case -ESTALE:
		return "its lender has taken it back";
	default:
		return "its lender could not switch it to this node";
	}
}

/* @flags: DLEND_TAKE_F_ASK: only ask whether a take-over would succeed; 0: take over. */
static int dlend_lease_ask_take(struct dlend_lease *lease, const u8 *token, u32 flags, char *why)
{
	struct dlend_p_take *p;
	struct dlend_msg req;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_TAKE_OVER, &lease->addr, lease->epoch, sizeof(*p));
	memcpy(p->token, token, DLEND_TOKEN_SIZE);
	p->flags = cpu_to_le32(flags);
	ret = dlend_lease_call(lease, &req, NULL, 0);
	if (ret)
		strscpy(why, dlend_lease_taken_words(ret), DLEND_REASON_LEN);
	return ret;
}

int dlend_lease_may_take_over(struct dlend_lease *lease, const u8 token[DLEND_TOKEN_SIZE],
			      char *why)
{
	return dlend_lease_ask_take(lease, token, DLEND_TAKE_F_ASK, why);
}
DLEND_EXPORT(dlend_lease_may_take_over);

int dlend_lease_take_over(struct dlend_lease *lease, const u8 token[DLEND_TOKEN_SIZE], char *why)
{
	return dlend_lease_ask_take(lease, token, 0, why) ?: dlend_lease_open_bars(lease, why);
}
DLEND_EXPORT(dlend_lease_take_over);

/* Claims: which user on this node has which offer. */

/*
 * A short wait: the caller may run on the workqueue on which strays are returned, and no stray is
 * returned while it waits there.
 */
#define DLEND_CLAIM_PENDING_MS	100

/* May an offer be claimed? Under dlend_offers_lock. Return: 0, or -errno and @why. */
static int dlend_offer_check_claim(const struct dlend_offer *offer, const struct dlend_claim *claim,
				   char *why)
{
	const struct dlend_claim *other = offer->claim;

	if (offer->withdrawn) {
		snprintf(why, DLEND_REASON_LEN, "node %u does not lend it any more",
			 offer->addr.lender);
		return -ENODEV;
	}
	if (other) {
		snprintf(why, DLEND_REASON_LEN, "this node has it already, as %s %s",
			 other->ops->what, dev_name(other->dev));
		return -EBUSY;
	}
	if (!offer->link) {
		snprintf(why, DLEND_REASON_LEN, "the link to node %u is down", offer->addr.lender);
		return -ENODEV;
	}
	if (dlend_offer_taken(offer, claim, why))
		return -EBUSY;
	if (!dlend_offer_claimable(offer)) {
		snprintf(why, DLEND_REASON_LEN, "the device is %s; wait until it is free",
			 dlend_offer_state_name(offer->now.state));
		return -EBUSY;
	}
	return 0;
}

int dlend_offer_claim(struct dlend_offer *offer, struct dlend_claim *claim, char *why)
{
	int ret;

	guard(mutex)(&dlend_offers_lock);
	ret = dlend_offer_check_claim(offer, claim, why);
	if (ret)
		return ret;
	claim->offer = offer;
	claim->wq = offer->wq;
	offer->claim = claim;
	offer->announced = true;
	return 0;
}
DLEND_EXPORT(dlend_offer_claim);

void dlend_offer_release(struct dlend_claim *claim)
{
	struct dlend_offer *offer = claim->offer;

	mutex_lock(&dlend_offers_lock);
	offer->claim = NULL;
	if (offer->withdrawn && !offer->dying)
		dlend_offer_kill(offer);
	mutex_unlock(&dlend_offers_lock);
	/* Wait until no op of the claim is being called: its module may be unloaded next. */
	wait_var_event(&claim->calls, !atomic_read(&claim->calls));
}
DLEND_EXPORT(dlend_offer_release);

bool dlend_claim_pending(const struct dlend_claim *claim)
{
	atomic_t *leases = &claim->offer->leases;

	if (!atomic_read(leases))
		return false;
	wait_var_event_timeout(leases, !atomic_read(leases),
			       msecs_to_jiffies(DLEND_CLAIM_PENDING_MS));
	return true;
}
DLEND_EXPORT(dlend_claim_pending);

int dlend_claim_show_interrupts(const struct dlend_claim *claim, char *buf)
{
	const char *why = READ_ONCE(claim->irq_why);

	if (!READ_ONCE(claim->lease))
		return sysfs_emit(buf, "none\n");
	return why ? sysfs_emit(buf, "doorbell: %s\n", why) : sysfs_emit(buf, "direct\n");
}
DLEND_EXPORT(dlend_claim_show_interrupts);

void dlend_claim_return_stray(struct dlend_claim *claim)
{
	guard(mutex)(&dlend_offers_lock);
	dlend_lease_return_stray(claim->offer);
}
DLEND_EXPORT(dlend_claim_return_stray);
