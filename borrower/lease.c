// SPDX-License-Identifier: GPL-2.0
/*
 * Leases, as their borrower has them: asking for one, and giving it back.
 *
 * Asking and returning wait for the lender, each on an ordered workqueue of the offer.  Who asks
 * waits for returns (dlend_claim_pending()).  Must not know when a lease is wanted, nor what it is
 * used for: the claim's owner knows.
 */
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/p2p.h>
#include "lease.h"
#include "trace.h"

/* The lender fences first, or waits some seconds for a reset: a call's default is too short. */
#define DLEND_LEASE_TIMEOUT_MS	10000
#define DLEND_LEASE_RETURN_TRIES	3

/* A bad lender may say of any epoch that this node holds it, and never take the lease back. */
#define DLEND_LEASE_STRAYS_MAX	8

/**
 * struct dlend_lease_record - a lease, and the borrower's own part of it
 * @lease: what the user sees
 * @ref: references; the last one ends it
 * @claim: of its user, with a reference; NULL: a stray, which is only returned
 * @offer: whose lease it is; set once it was granted
 * @sink: where its interrupts arrive; NULL for a stray
 * @direct: vectors that need no processor of the lender; NULL: there are none
 * @grant: where the lender has put the BARs
 * @acked: the lender said that it has the device back
 * @return_work: gives it back
 */
struct dlend_lease_record {
	struct dlend_lease lease;
	struct kref ref;
	struct dlend_claim *claim;
	struct dlend_offer *offer;
	struct dlend_irq_sink *sink;
	struct dlend_irq_direct *direct;
	struct dlend_p_lease grant;
	bool acked;
	struct work_struct return_work;
};

static bool dlend_lease_asleep;

static struct dlend_lease_record *to_record(const struct dlend_lease *lease)
{
	return container_of(lease, struct dlend_lease_record, lease);
}

static void dlend_lease_free(struct kref *ref)
{
	struct dlend_lease_record *r = container_of(ref, struct dlend_lease_record, ref);
	unsigned int i;

	if (r->claim)
		r->claim->ops->released(r->claim, &r->lease, r->acked);
	if (r->sink)
		dlend_irq_sink_close(r->sink, r->acked);
	if (r->direct)
		dlend_irq_direct_close(r->direct, r->acked);
	for (i = 0; i < DLEND_NUM_REGIONS; i++)
		dlend_window_close(&r->lease.bar[i]);
	dlend_session_drop(&r->lease.ref);
	if (r->claim)
		r->claim->ops->put(r->claim);
	kfree(r);
}

struct dlend_lease *dlend_lease_get(struct dlend_lease *lease)
{
	kref_get(&to_record(lease)->ref);
	return lease;
}
DLEND_EXPORT(dlend_lease_get);

void dlend_lease_put(struct dlend_lease *lease)
{
	kref_put(&to_record(lease)->ref, dlend_lease_free);
}
DLEND_EXPORT(dlend_lease_put);

int dlend_lease_call(struct dlend_lease *lease, struct dlend_msg *req, struct dlend_msg *reply,
		     unsigned int timeout_ms)
{
	struct dlend_claim *claim = to_record(lease)->claim;

	if (dlend_lease_lost(lease))
		return -ENOTCONN;
	if (claim)
		atomic64_inc(&claim->messages);
	return dlend_link_call_in(&lease->ref, req, reply, timeout_ms);
}

/* Giving back */

/*
 * Is a stray in use after all?  Since the lender said that this node holds it, a user may have
 * joined that very lease: all functions of a group have one.  Grants are noted on the queue that
 * strays are returned on.
 */
static bool dlend_lease_in_use(const struct dlend_lease_record *stray)
{
	struct dlend_claim *claim;
	bool used;

	mutex_lock(&dlend_offers_lock);
	claim = dlend_offer_get_claim(dlend_offer_find_of(stray->lease.ref.link,
							  &stray->lease.addr));
	mutex_unlock(&dlend_offers_lock);
	if (!claim)
		return false;
	used = claim->ops->uses(claim, stray->lease.epoch);
	dlend_offer_put_claim(claim);
	return used;
}

/* One that was withdrawn is nobody's any more; whoever ends its offer waits for this. */
static bool dlend_lease_is_stray(const struct dlend_lease_record *r)
{
	return !READ_ONCE(r->offer->withdrawn) && !dlend_lease_in_use(r);
}

static int dlend_lease_tell_return(struct dlend_lease *lease, unsigned int most)
{
	struct dlend_msg req;
	unsigned int tries;
	int ret = -ENOTCONN;

	for (tries = 0; tries < most; tries++) {
		dlend_msg_init(&req, DLEND_MSG_RETURN, &lease->addr, lease->epoch, 0);
		ret = dlend_lease_call(lease, &req, NULL, DLEND_LEASE_TIMEOUT_MS);
		if (ret != -ETIMEDOUT)
			break;
	}
	return ret;
}

static void dlend_lease_give_back(struct dlend_lease_record *r)
{
	struct dlend_lease *lease = &r->lease;
	char name[DLEND_NAME_LEN];
	int ret;

	/* Peer-to-peer through this node must not reach the device under its next lease. */
	dlend_p2p_fence(&lease->addr, lease->epoch);
	if (r->claim)
		r->claim->ops->returning(r->claim, lease);
	/* Of a stray the lender may invent as many as it likes, and answer none. */
	ret = dlend_lease_tell_return(lease, r->claim ? DLEND_LEASE_RETURN_TRIES : 1);
	/* If the link is gone the lender fences by itself, and slots stay in quarantine. */
	r->acked = !ret;
	if (ret && ret != -ENOTCONN)
		dev_warn_ratelimited(dlend_link_dev(lease->ref.link),
				     "node %u did not take %s (epoch %u) back: %pe; its part of the window stays reserved until the link restarts\n",
				     lease->addr.lender, dlend_addr_name(&lease->addr, name),
				     lease->epoch, ERR_PTR(ret));
	trace_dlend_return(lease->addr.lender, lease->addr.bdf, lease->epoch, ret);
	if (r->claim)
		r->claim->ops->returned(r->claim, lease);
}

static void dlend_lease_return_work(struct work_struct *work)
{
	struct dlend_lease_record *r = container_of(work, struct dlend_lease_record, return_work);
	struct dlend_offer *offer = r->offer;
	bool stray = !r->claim;

	if (r->claim || dlend_lease_is_stray(r))
		dlend_lease_give_back(r);
	/* First the reference: with the last one slots become free that the next lease may need. */
	dlend_lease_put(&r->lease);
	/* One is among the other: never too few that are no strays. */
	if (stray)
		atomic_dec(&offer->strays);
	if (atomic_dec_and_test(&offer->leases))
		wake_up_var(&offer->leases);
}

void dlend_lease_return(struct dlend_lease *lease)
{
	struct dlend_lease_record *r = to_record(lease);

	queue_work(r->claim ? r->offer->returns : r->offer->wq, &r->return_work);
}
DLEND_EXPORT(dlend_lease_return);

/* From now on the lease has to be returned. */
static void dlend_lease_granted(struct dlend_lease_record *r, struct dlend_offer *offer, u32 epoch)
{
	r->lease.epoch = epoch;
	r->offer = offer;
	atomic_inc(&offer->leases);
}

static struct dlend_lease_record *dlend_lease_alloc(struct dlend_link *link,
						    const struct dlend_addr *addr)
{
	struct dlend_lease_record *r = kzalloc_obj(*r);

	if (!r)
		return NULL;
	kref_init(&r->ref);
	INIT_WORK(&r->return_work, dlend_lease_return_work);
	r->lease.ref = dlend_session_hold(link);
	r->lease.addr = *addr;
	return r;
}

void dlend_lease_return_stray(struct dlend_offer *offer)
{
	struct dlend_lease_record *r;

	lockdep_assert_held(&dlend_offers_lock);
	if (atomic_read(&offer->leases) >= DLEND_LEASE_STRAYS_MAX)
		return;
	r = dlend_lease_alloc(offer->link, &offer->addr);
	if (!r)
		return;
	dev_dbg(&offer->dev, "epoch %u is held by this node, and nobody here uses it: returned\n",
		offer->epoch);
	dlend_lease_granted(r, offer, offer->epoch);
	atomic_inc(&offer->strays);
	dlend_lease_return(&r->lease);
}

/* Asking */

static void dlend_lease_interrupt(void *arg, u32 vector, u32 count)
{
	struct dlend_claim *claim = arg;

	claim->ops->interrupt(claim, vector, count, false);
}

static void dlend_lease_interrupt_direct(void *arg, u32 vector, u32 count)
{
	struct dlend_claim *claim = arg;

	claim->ops->interrupt(claim, vector, count, true);
}

static void dlend_lease_bar_revoked(struct dlend_window *w)
{
	struct dlend_lease_record *r = w->arg;

	r->claim->ops->bar_revoked(r->claim, w - r->lease.bar);
}

/* Open windows onto the BARs. The offsets come from the peer; the link checks them. */
int dlend_lease_open_bars(struct dlend_lease *lease, char *why)
{
	struct dlend_lease_record *r = to_record(lease);
	struct dlend_offer_info info;
	unsigned int i;
	int ret = 0;

	dlend_offer_copy(r->offer, &info, NULL);
	for (i = 0; i < DLEND_NUM_BARS && !ret; i++) {
		u64 offset = le64_to_cpu(r->grant.bar_offset[i]);

		if (!info.bar[i].size || (info.bar[i].flags & DLEND_BAR_F_IO) ||
		    offset == U64_MAX)
			continue;
		lease->bar[i].revoked = dlend_lease_bar_revoked;
		lease->bar[i].arg = r;
		/* A mapped BAR that is smaller than a page takes its whole page. */
		ret = dlend_window_open(lease->ref.link, &lease->bar[i], offset,
					PAGE_ALIGN(info.bar[i].size), true);
	}
	if (ret)
		snprintf(why, DLEND_REASON_LEN, "node %u granted BARs outside the window (%pe)",
			 lease->addr.lender, ERR_PTR(ret));
	return ret;
}

static void dlend_lease_explain(const struct dlend_claim *claim, const struct dlend_lease *lease,
				const struct dlend_p_lease *grant, int err, char *why)
{
	char node[DLEND_NODE_LABEL_LEN];

	/* The lender has told all nodes who has the device, or is to have it. */
	if (err == -EBUSY && dlend_claim_taken(claim, why))
		return;
	if (err == -EBUSY)
		snprintf(why, DLEND_REASON_LEN, "the device is held by node %s",
			 dlend_node_label(le16_to_cpu(grant->holder), node));
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

/* @type: BORROW or STANDBY.  A device may be reserved for the claim's VM. */
static int dlend_lease_ask(struct dlend_lease_record *r, u16 type, char *why)
{
	struct dlend_lease *lease = &r->lease;
	struct dlend_msg req, reply = {};
	struct dlend_p_borrow *p;
	int ret;

	p = dlend_msg_init(&req, type, &lease->addr, 0, sizeof(*p));
	p->irq_offset = cpu_to_le64(dlend_irq_sink_offset(r->sink));
	p->irq_handle = cpu_to_le32(dlend_irq_sink_handle(r->sink));
	memcpy(p->vm, r->claim->vm, sizeof(p->vm));
	ret = dlend_lease_call(lease, &req, &reply, DLEND_LEASE_TIMEOUT_MS);
	memcpy(&r->grant, reply.payload, sizeof(r->grant));
	if (ret)
		dlend_lease_explain(r->claim, lease, &r->grant, ret, why);
	else
		dlend_lease_granted(r, r->claim->offer, le32_to_cpu(reply.epoch));
	return ret;
}

/* Does another party on this node use another function of the group, as far as this node knows? */
static int dlend_lease_check_group(struct dlend_claim *claim, char *why)
{
	int ret = dlend_offer_check_group(claim);

	if (ret == -EBUSY)
		snprintf(why, DLEND_REASON_LEN,
			 "another function of its IOMMU group is used by another VM here; give both to one VM");
	return ret;
}

/* Make the record of a lease to ask for: with a session of the link, and a place for interrupts. */
static struct dlend_lease_record *dlend_lease_prepare(struct dlend_claim *claim, char *why)
{
	struct dlend_link *link = dlend_offer_link(claim->offer);
	struct dlend_lease_record *r;
	int ret;

	if (!link) {
		snprintf(why, DLEND_REASON_LEN, "the link to node %u is down",
			 claim->offer->addr.lender);
		return ERR_PTR(-ENOTCONN);
	}
	ret = dlend_lease_check_group(claim, why);
	r = ret ? ERR_PTR(ret) : dlend_lease_alloc(link, &claim->offer->addr);
	dlend_link_put(link);
	if (IS_ERR(r))
		return r;
	if (!r) {
		snprintf(why, DLEND_REASON_LEN, "out of memory");
		return ERR_PTR(-ENOMEM);
	}
	r->sink = dlend_irq_sink_open(r->lease.ref.link, dlend_lease_interrupt, claim);
	if (IS_ERR(r->sink)) {
		ret = PTR_ERR(r->sink);
		r->sink = NULL;
		snprintf(why, DLEND_REASON_LEN, "no place for its interrupts in the window (%pe)",
			 ERR_PTR(ret));
		dlend_lease_put(&r->lease);
		return ERR_PTR(ret);
	}
	claim->ops->get(claim);
	r->claim = claim;
	return r;
}

/* What the lender has told before its answer may be waiting for its turn. */
static int dlend_lease_catch_up(const struct dlend_lease_record *r, char *why)
{
	if (dlend_link_catch_up(r->lease.ref.link, DLEND_TO_BORROWER, DLEND_LEASE_TIMEOUT_MS))
		return 0;
	snprintf(why, DLEND_REASON_LEN, "node %u tells more than can be read: try again",
		 r->lease.addr.lender);
	return -EBUSY;
}

static struct dlend_lease *dlend_lease_obtain(struct dlend_claim *claim, u16 type, char *why)
{
	struct dlend_lease_record *r;
	int ret;

	smp_mb(); /* claim->borrowing, set before, against dlend_lease_sleep() */
	if (READ_ONCE(dlend_lease_asleep)) {
		snprintf(why, DLEND_REASON_LEN, "this host is being suspended");
		return ERR_PTR(-EAGAIN);
	}
	/* A lender grants what has that address, which may be another device by now. */
	if (READ_ONCE(claim->offer->withdrawn)) {
		snprintf(why, DLEND_REASON_LEN, "node %u does not lend it any more",
			 claim->offer->addr.lender);
		return ERR_PTR(-ENODEV);
	}
	r = dlend_lease_prepare(claim, why);
	if (IS_ERR(r))
		return ERR_CAST(r);
	ret = dlend_lease_ask(r, type, why);
	if (ret) {
		/* A lender that refuses never used the sink.  Without an answer nobody knows. */
		r->acked = ret != -ETIMEDOUT && ret != -ENOTCONN;
		dlend_lease_put(&r->lease);
		return ERR_PTR(ret);
	}
	/* Once more: a function may have come into the group.  The lender tells of that first. */
	ret = dlend_lease_catch_up(r, why) ?: dlend_lease_check_group(claim, why);
	/* Who only prepares reaches no BAR before it has taken over. */
	if (!ret && type == DLEND_MSG_BORROW)
		ret = dlend_lease_open_bars(&r->lease, why);
	if (!ret)
		return &r->lease;
	dlend_lease_return(&r->lease);
	return ERR_PTR(ret);
}

struct dlend_lease *dlend_lease_borrow(struct dlend_claim *claim, char *why)
{
	return dlend_lease_obtain(claim, DLEND_MSG_BORROW, why);
}
DLEND_EXPORT(dlend_lease_borrow);

struct dlend_lease *dlend_lease_standby(struct dlend_claim *claim, char *why)
{
	return dlend_lease_obtain(claim, DLEND_MSG_STANDBY, why);
}
DLEND_EXPORT(dlend_lease_standby);

void dlend_lease_sleep(bool on)
{
	WRITE_ONCE(dlend_lease_asleep, on);
	smp_mb(); /* before claims are looked at; pairs with dlend_lease_borrow() */
}

bool dlend_lease_over(const struct dlend_lease *lease)
{
	const struct dlend_offer *offer = to_record(lease)->offer;

	guard(mutex)(&dlend_offers_lock);
	if (dlend_lease_lost(lease) || !offer->link || offer->withdrawn)
		return true;
	/* If the offer's epoch is older, the STATE of this grant has not arrived yet. */
	return !dlend_epoch_after(lease->epoch, offer->epoch) &&
	       !(offer->epoch == lease->epoch && offer->state == DLEND_OFFER_HELD);
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

/* By the lender's doorbell, or not at all: once it has answered, nothing comes directly. */
static int dlend_lease_irq_doorbell(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count)
{
	struct dlend_lease_record *r = to_record(lease);
	struct dlend_p_irq *p;
	struct dlend_msg req;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_IRQ_SETUP, &lease->addr, lease->epoch, sizeof(*p));
	p->mode = cpu_to_le32(mode);
	p->count = cpu_to_le32(count);
	ret = dlend_lease_call(lease, &req, NULL, 0);
	if (!ret && r->direct) {
		dlend_irq_direct_close(r->direct, true);
		r->direct = NULL;
	}
	return ret;
}

/* Return: may @vector fire as soon as the lender has its message? */
static bool dlend_lease_irq_in_use(struct dlend_claim *claim, u32 vector)
{
	return !claim->ops->irq_in_use || claim->ops->irq_in_use(claim, vector);
}

/* Its vectors as they are wanted now.  The device may fire before its lender has answered. */
static int dlend_lease_irq_vectors(struct dlend_lease_record *r, enum dlend_irq_mode mode,
				   u32 count, struct dlend_p_direct *p)
{
	int ret = dlend_irq_direct_set(r->direct, mode, count, p);

	for (u32 i = 0; i < count && !ret; i++)
		if (dlend_lease_irq_in_use(r->claim, i))
			ret = dlend_irq_direct_use(r->direct, i);
	return ret;
}

/* Must its interrupts come by the doorbell? @why: then, a text that stays */
static bool dlend_lease_irq_by_doorbell(struct dlend_lease_record *r, const char **why)
{
	struct dlend_claim *claim = r->claim;

	*why = "direct_interrupts of this device is off";
	return READ_ONCE(r->offer->doorbell) ||
	       (claim->ops->no_direct && claim->ops->no_direct(claim, why));
}

/* Return: 0; -EOPNOTSUPP and @why they cannot be had; or as dlend_lease_call() */
static int dlend_lease_irq_direct(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count,
				  const char **why)
{
	struct dlend_lease_record *r = to_record(lease);
	struct dlend_p_direct *p;
	struct dlend_msg req;
	int ret;

	if (dlend_lease_irq_by_doorbell(r, why))
		return -EOPNOTSUPP;
	if (!r->direct) {
		struct dlend_irq_direct *set;

		set = dlend_irq_direct_open(lease->ref.link, r->claim->party,
					    dlend_lease_interrupt_direct, r->claim, why);
		if (IS_ERR(set))
			return -EOPNOTSUPP;
		r->direct = set;
	}
	*why = "this host has too few vectors";
	p = dlend_msg_init(&req, DLEND_MSG_IRQ_DIRECT, &lease->addr, lease->epoch, sizeof(*p));
	ret = dlend_lease_irq_vectors(r, mode, count, p);
	if (ret)
		return -EOPNOTSUPP;
	*why = "its lender cannot";
	return dlend_lease_call(lease, &req, NULL, 0);
}

int dlend_lease_irq_setup(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count)
{
	struct dlend_lease_record *r = to_record(lease);
	bool msi = mode == DLEND_IRQ_MSI || mode == DLEND_IRQ_MSIX;
	const char *why = "it has no message interrupts now";
	int ret = 0;

	/* Another mode, or more vectors of MSI, which have to be in a row: from the beginning. */
	if (msi && r->direct && !dlend_irq_direct_fits(r->direct, mode, count))
		ret = dlend_lease_irq_doorbell(lease, DLEND_IRQ_NONE, 0);
	if (ret)
		return ret;
	ret = msi ? dlend_lease_irq_direct(lease, mode, count, &why) : -EOPNOTSUPP;
	WRITE_ONCE(r->claim->irq_why, ret ? why : NULL);
	return ret == -EOPNOTSUPP ? dlend_lease_irq_doorbell(lease, mode, count) : ret;
}
DLEND_EXPORT(dlend_lease_irq_setup);

int dlend_lease_irq_pass(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count)
{
	return to_record(lease)->direct ? dlend_lease_irq_doorbell(lease, mode, count) : -EALREADY;
}

int dlend_lease_irq_use(struct dlend_lease *lease, u32 vector)
{
	struct dlend_lease_record *r = to_record(lease);

	return r->direct ? dlend_irq_direct_use(r->direct, vector) : 0;
}
DLEND_EXPORT(dlend_lease_irq_use);

void dlend_lease_irq_bind(struct dlend_lease *lease, u32 vector, unsigned int cpu)
{
	struct dlend_lease_record *r = to_record(lease);

	if (r->direct)
		dlend_irq_direct_bind(r->direct, vector, cpu);
}
DLEND_EXPORT(dlend_lease_irq_bind);

unsigned int dlend_lease_irq_number(const struct dlend_lease *lease, u32 vector)
{
	const struct dlend_lease_record *r = to_record(lease);

	return r->direct ? dlend_irq_direct_number(r->direct, vector) : 0;
}
DLEND_EXPORT(dlend_lease_irq_number);

int dlend_lease_irq_unmask(struct dlend_lease *lease)
{
	struct dlend_msg msg;

	if (dlend_lease_lost(lease))
		return -ENOTCONN;
	atomic64_inc(&to_record(lease)->claim->messages);
	dlend_msg_init(&msg, DLEND_MSG_IRQ_UNMASK, &lease->addr, lease->epoch, 0);
	return dlend_link_post_in(&lease->ref, &msg);
}
DLEND_EXPORT(dlend_lease_irq_unmask);
