// SPDX-License-Identifier: GPL-2.0
/*
 * Leases on the borrower: asking for one, the requests that one allows, handing it back.
 *
 * Must not know when a lease is wanted (borrow.c).  Everything here may wait for the lender, so
 * it runs on the offer's ordered workqueue: a return is over before the next borrow is asked for.
 */
#include <linux/pci_regs.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <dlend/kind.h>
#include "vdev.h"
#include "trace.h"

/* The lender fences, or waits some seconds for a reset to end: more than the default. */
#define DLEND_LEASE_TIMEOUT_MS	10000
#define DLEND_RETURN_TRIES	3
#define DLEND_STRAYS_MAX	8

static void dlend_lease_free(struct kref *ref)
{
	struct dlend_lease *lease = container_of(ref, struct dlend_lease, ref);
	struct dlend_memory_stat st;
	unsigned int i;

	if (lease->mem) {
		dlend_memory_stat(lease->mem, &st);
		atomic64_add(st.messages, &lease->vdev->stat.messages);
		dlend_memory_destroy(lease->mem, lease->acked);
	}
	if (lease->sink)
		dlend_irq_sink_close(lease->sink, lease->acked);
	for (i = 0; i < DLEND_NUM_REGIONS; i++)
		dlend_window_close(&lease->bar[i]);
	dlend_link_put(lease->link);
	if (lease->vdev)
		dlend_vdev_put(lease->vdev);
	kfree(lease);
}

struct dlend_lease *dlend_lease_get(struct dlend_lease *lease)
{
	kref_get(&lease->ref);
	return lease;
}

void dlend_lease_put(struct dlend_lease *lease)
{
	kref_put(&lease->ref, dlend_lease_free);
}

bool dlend_lease_lost(const struct dlend_lease *lease)
{
	return !dlend_link_is_up(lease->link) ||
	       dlend_link_session(lease->link) != lease->session;
}

static int dlend_lease_call(struct dlend_lease *lease, struct dlend_msg *req,
			    struct dlend_msg *reply, unsigned int timeout_ms)
{
	/* A message with this lease's epoch or offsets has no business in a later session. */
	if (dlend_lease_lost(lease))
		return -ENOTCONN;
	if (lease->vdev)
		atomic64_inc(&lease->vdev->stat.messages);
	return dlend_link_call(lease->link, req, reply, timeout_ms);
}

int dlend_lease_reset(struct dlend_lease *lease)
{
	struct dlend_msg req;

	dlend_msg_init(&req, DLEND_MSG_RESET, &lease->addr, lease->epoch, 0);
	return dlend_lease_call(lease, &req, NULL, DLEND_RESET_TIMEOUT_MS);
}

int dlend_lease_bus_master(struct dlend_lease *lease, bool on)
{
	struct dlend_p_u32 *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, DLEND_MSG_BUS_MASTER, &lease->addr, lease->epoch, sizeof(*p));
	p->value = cpu_to_le32(on);
	return dlend_lease_call(lease, &req, NULL, 0);
}

int dlend_lease_irq_setup(struct dlend_lease *lease, enum dlend_irq_mode mode, u32 count)
{
	struct dlend_p_irq *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, DLEND_MSG_IRQ_SETUP, &lease->addr, lease->epoch, sizeof(*p));
	p->mode = cpu_to_le32(mode);
	p->count = cpu_to_le32(count);
	return dlend_lease_call(lease, &req, NULL, 0);
}

int dlend_lease_readrq(struct dlend_lease *lease, u32 at, u32 readrq)
{
	struct dlend_p_cfg *p;
	struct dlend_msg req;

	p = dlend_msg_init(&req, DLEND_MSG_CFG_WRITE, &lease->addr, lease->epoch, sizeof(*p));
	p->offset = cpu_to_le16(at);
	p->size = cpu_to_le16(2);
	p->value = cpu_to_le32(readrq << 12);
	return dlend_lease_call(lease, &req, NULL, 0);
}

int dlend_lease_status(struct dlend_lease *lease, u16 *status, unsigned int timeout_ms)
{
	struct dlend_msg req, reply = {};
	struct dlend_p_cfg *p;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_CFG_READ, &lease->addr, lease->epoch, sizeof(*p));
	p->offset = cpu_to_le16(PCI_STATUS);
	p->size = cpu_to_le16(2);
	ret = dlend_lease_call(lease, &req, &reply, timeout_ms);
	p = (void *)reply.payload;
	*status = le32_to_cpu(p->value);
	return ret;
}

int dlend_lease_irq_unmask(struct dlend_lease *lease)
{
	struct dlend_msg msg;

	if (dlend_lease_lost(lease))
		return -ENOTCONN;
	atomic64_inc(&lease->vdev->stat.messages);
	dlend_msg_init(&msg, DLEND_MSG_IRQ_UNMASK, &lease->addr, lease->epoch, 0);
	return dlend_link_post(lease->link, &msg);
}

/*
 * A stray that is none any more: between the lender's word and now its vdev has joined that very
 * lease, which is one for all functions of a group.  Grants are made on this queue, too.
 */
static bool dlend_lease_in_use(const struct dlend_lease *stray)
{
	struct dlend_vdev *v = dlend_offer_vdev_get(stray->link, &stray->addr);
	bool used;

	if (!v)
		return false;
	mutex_lock(&v->lock);
	used = v->lease && v->lease->epoch == stray->epoch;
	mutex_unlock(&v->lock);
	dlend_vdev_put(v);
	return used;
}

static void dlend_lease_return_work(struct work_struct *work)
{
	struct dlend_lease *lease = container_of(work, struct dlend_lease, return_work);
	struct dlend_offer *offer = lease->offer;
	char name[DLEND_NAME_LEN];
	struct dlend_msg req;
	int tries, ret = -ENOTCONN;

	if (!lease->vdev && dlend_lease_in_use(lease))
		goto put;
	/* What goes through here must not lead to whoever borrows it next. */
	dlend_p2p_fence(&lease->addr, lease->epoch);
	/* A lease that ended in a callback of the link could not wait there. */
	if (lease->mem)
		dlend_memory_close(lease->mem);
	for (tries = 0; tries < DLEND_RETURN_TRIES; tries++) {
		dlend_msg_init(&req, DLEND_MSG_RETURN, &lease->addr, lease->epoch, 0);
		ret = dlend_lease_call(lease, &req, NULL, DLEND_LEASE_TIMEOUT_MS);
		if (ret != -ETIMEDOUT)
			break;
	}
	/* The lender fences by itself when the link goes; slots then stay quarantined. */
	lease->acked = !ret;
	if (ret && ret != -ENOTCONN)
		dev_warn(dlend_link_dev(lease->link),
			 "node %u did not take %s (epoch %u) back: %pe; its part of the window stays reserved until the link restarts\n",
			 lease->addr.lender, dlend_addr_name(&lease->addr, name), lease->epoch,
			 ERR_PTR(ret));
	trace_dlend_return(lease->addr.lender, lease->addr.bdf, lease->epoch, ret);
	/* Its slots are free with the last reference, and the guest's next lease may need them. */
	if (lease->vdev)
		dlend_borrow_forget(lease->vdev, lease);
put:
	dlend_lease_put(lease);
	atomic_dec(&offer->leases);
}

void dlend_lease_return(struct dlend_lease *lease)
{
	queue_work(lease->offer->wq, &lease->return_work);
}

/* From now on it is to be returned. */
static void dlend_lease_granted(struct dlend_lease *lease, struct dlend_offer *offer, u32 epoch)
{
	lease->epoch = epoch;
	lease->offer = offer;
	atomic_inc(&offer->leases);
}

static struct dlend_lease *dlend_lease_alloc(struct dlend_link *link,
					     const struct dlend_addr *addr)
{
	struct dlend_lease *lease = kzalloc_obj(*lease);

	if (!lease)
		return NULL;
	kref_init(&lease->ref);
	INIT_WORK(&lease->return_work, dlend_lease_return_work);
	lease->link = dlend_link_get(link);
	lease->session = dlend_link_session(link);
	lease->addr = *addr;
	return lease;
}

void dlend_lease_return_stray(struct dlend_offer *offer, struct dlend_link *link, u32 epoch)
{
	struct dlend_lease *lease;

	/* A lender can say that of any epoch, and not answer. */
	if (atomic_read(&offer->leases) >= DLEND_STRAYS_MAX)
		return;
	lease = dlend_lease_alloc(link, &offer->addr);
	if (!lease)
		return;
	dev_dbg(&offer->dev, "epoch %u is held by this node but by no vdev: returned\n", epoch);
	dlend_lease_granted(lease, offer, epoch);
	dlend_lease_return(lease);
}

static void dlend_lease_bar_revoked(struct dlend_window *w)
{
	struct dlend_lease *lease = w->arg;

	dlend_bar_revoked(lease->vdev, w - lease->bar);
}

/* Where the BARs are; the offsets come from the peer and are checked by the link. */
static int dlend_lease_bars(struct dlend_lease *lease, const struct dlend_offer_info *info,
			    const struct dlend_p_lease *grant)
{
	unsigned int i;
	int ret;

	for (i = 0; i < DLEND_NUM_BARS; i++) {
		u64 offset = le64_to_cpu(grant->bar_offset[i]);
		u64 size = info->bar[i].size;

		if (!size || (info->bar[i].flags & DLEND_BAR_F_IO) ||
		    offset == U64_MAX)
			continue;
		lease->bar[i].revoked = dlend_lease_bar_revoked;
		lease->bar[i].arg = lease;
		/* A small BAR that is mapped takes its whole page. */
		ret = dlend_window_open(lease->link, &lease->bar[i], offset, PAGE_ALIGN(size),
					true);
		if (ret)
			return ret;
	}
	return 0;
}

static int dlend_lease_ask(struct dlend_lease *lease, struct dlend_p_lease *grant, char *why)
{
	struct dlend_msg req, reply = {};
	struct dlend_p_borrow *p;
	int ret;

	p = dlend_msg_init(&req, DLEND_MSG_BORROW, &lease->addr, 0, sizeof(*p));
	p->irq_offset = cpu_to_le64(dlend_irq_sink_offset(lease->sink));
	p->irq_handle = cpu_to_le32(dlend_irq_sink_handle(lease->sink));
	ret = dlend_lease_call(lease, &req, &reply, DLEND_LEASE_TIMEOUT_MS);
	memcpy(grant, reply.payload, sizeof(*grant));
	if (!ret)
		dlend_lease_granted(lease, lease->vdev->offer, le32_to_cpu(reply.epoch));
	else if (ret == -EBUSY)
		snprintf(why, DLEND_REASON_LEN, "the device is held by node %u",
			 le16_to_cpu(grant->holder));
	else if (ret == -ENOSPC)
		snprintf(why, DLEND_REASON_LEN,
			 "its BARs do not fit into the window of node %u, whose log has the sizes",
			 lease->addr.lender);
	else
		snprintf(why, DLEND_REASON_LEN, "node %u does not lend it (%pe)",
			 lease->addr.lender, ERR_PTR(ret));
	return ret;
}

static void dlend_lease_unmapping(void *ctx)
{
	dlend_borrow_unmapping(ctx);
}

static void dlend_lease_unmapped(void *ctx, bool lost)
{
	dlend_borrow_unmapped(ctx, lost);
}

static void dlend_lease_grown(void *ctx)
{
	dlend_borrow_grown(ctx);
}

static void dlend_lease_progress(void *ctx)
{
	struct dlend_vdev *v = ctx;

	WRITE_ONCE(v->progressed, ktime_get());
}

static bool dlend_lease_stop(void *ctx)
{
	struct dlend_vdev *v = ctx;

	return READ_ONCE(v->urgent);
}

static const struct dlend_memory_ops dlend_lease_memory_ops = {
	.unmapping = dlend_lease_unmapping,
	.unmapped = dlend_lease_unmapped,
	.grown = dlend_lease_grown,
	.progress = dlend_lease_progress,
	.stop = dlend_lease_stop,
};

static struct dlend_memory *dlend_lease_memory(struct dlend_lease *lease)
{
	struct dlend_session_ref session = { .link = lease->link, .session = lease->session };
	struct dlend_vdev *v = lease->vdev;
	struct dlend_memory_desc desc = {
		.vdev = &v->vfio,
		.session = &session,
		.addr = &lease->addr,
		.epoch = lease->epoch,
		.vmm = v->vmm,
		.memlock = v->memlock,
		.lowmem = v->lowmem,
		.ops = &dlend_lease_memory_ops,
		.ctx = v,
	};

	return dlend_memory_create(&desc);
}

/* A grant that cannot be used goes back, through the same worker queue. */
static int dlend_lease_use(struct dlend_lease *lease, const struct dlend_p_lease *grant, char *why)
{
	struct dlend_vdev *v = lease->vdev;
	int ret;

	ret = dlend_lease_bars(lease, &v->info, grant);
	if (ret) {
		snprintf(why, DLEND_REASON_LEN, "node %u granted BARs outside the window (%pe)",
			 lease->addr.lender, ERR_PTR(ret));
		return ret;
	}
	lease->mem = dlend_lease_memory(lease);
	if (IS_ERR(lease->mem)) {
		ret = PTR_ERR(lease->mem);
		lease->mem = NULL;
		snprintf(why, DLEND_REASON_LEN, "no DMA windows can be made (%pe)", ERR_PTR(ret));
		return ret;
	}
	return 0;
}

struct dlend_lease *dlend_vdev_lease(struct dlend_vdev *v)
{
	guard(mutex)(&v->lock);
	return v->lease ? dlend_lease_get(v->lease) : NULL;
}

/* Nobody else's VM has another function of the group, as far as this node has heard. */
static int dlend_lease_alone(struct dlend_vdev *v, char *why)
{
	int ret = dlend_offer_beside(v->offer, v);

	if (ret == -EBUSY)
		snprintf(why, DLEND_REASON_LEN,
			 "another function of its IOMMU group is used by another VM here; give both to one VM");
	return ret;
}

struct dlend_lease *dlend_lease_borrow(struct dlend_vdev *v, char *why)
{
	struct dlend_p_lease grant;
	struct dlend_lease *lease;
	struct dlend_link *link;
	int ret = -ENOTCONN;

	if (dlend_offers_asleep()) {
		snprintf(why, DLEND_REASON_LEN, "this host is being suspended");
		return ERR_PTR(-EAGAIN);
	}
	link = dlend_offer_link(v->offer);
	if (!link) {
		snprintf(why, DLEND_REASON_LEN, "the link to node %u is down",
			 v->offer->addr.lender);
		return ERR_PTR(ret);
	}
	ret = dlend_lease_alone(v, why);
	if (ret) {
		dlend_link_put(link);
		return ERR_PTR(ret);
	}
	lease = dlend_lease_alloc(link, &v->offer->addr);
	dlend_link_put(link);
	if (!lease) {
		snprintf(why, DLEND_REASON_LEN, "out of memory");
		return ERR_PTR(-ENOMEM);
	}
	lease->vdev = dlend_vdev_get(v);
	lease->sink = dlend_irq_sink_open(lease->link, dlend_irq_fired, v);
	if (IS_ERR(lease->sink)) {
		ret = PTR_ERR(lease->sink);
		lease->sink = NULL;
		snprintf(why, DLEND_REASON_LEN, "no place for its interrupts in the window (%pe)",
			 ERR_PTR(ret));
		goto err_put;
	}
	ret = dlend_lease_ask(lease, &grant, why);
	if (ret) {
		/* A refusal means that the lender never used the sink; silence means nothing. */
		lease->acked = ret != -ETIMEDOUT && ret != -ENOTCONN;
		goto err_put;
	}
	/* A function may have come into the group: the lender has told of that before the grant. */
	ret = dlend_lease_alone(v, why) ?: dlend_lease_use(lease, &grant, why);
	if (!ret)
		return lease;
	dlend_lease_return(lease);
	return ERR_PTR(ret);

err_put:
	dlend_lease_put(lease);
	return ERR_PTR(ret);
}
