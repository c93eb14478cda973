// SPDX-License-Identifier: GPL-2.0
/*
 * Registers of configuration space that only the device itself knows: see live.h.
 *
 * An access costs a message, and its answer.  So it is made only for these registers, and only for
 * an access as a processor makes it.
 *
 * Must not know which registers these are: dlend_cfg_live() does.
 */
#include <linux/ktime.h>
#include <dlend/compat.h>
#include "gate.h"
#include "live.h"
#include "vdev.h"

/* Most that an access waits, for a lease and for the lender together. */
#define DLEND_LIVE_MS		100

/* The lender's kernel gives a device 125 ms for a word of VPD. */
#define DLEND_LIVE_VPD_MS	250

/* A lender that did not answer is not asked again before that: a guest may read all registers. */
#define DLEND_LIVE_PAUSE_MS	1000

/*
 * A write is sent even so, and waits no longer than this: the lender does it when it comes to it.
 * A driver may have to write such a register to get its next interrupt (NVIDIA's, at 704h).
 */
#define DLEND_LIVE_SENT_MS	1

/* Bytes of one access of a processor. */
#define DLEND_LIVE_BYTES	8

/* Milliseconds left until @end, at least 1. */
static unsigned int dlend_live_left(ktime_t end)
{
	return max(ktime_ms_delta(end, ktime_get()), 1LL);
}

/* The map of these registers does not change while a VMM has the device open. */
static bool dlend_live_concerns(const struct dlend_vdev *v, u32 pos, u32 len)
{
	u32 at;

	for (at = 0; len <= DLEND_LIVE_BYTES && at < len; at++)
		if (dlend_cfg_live(&v->cfg, pos + at, 1))
			return true;
	return false;
}

/* Is there nothing to wait for?  A read need not wait for a reset: it is known what that leaves. */
static bool dlend_live_decided(const struct dlend_vdev *v, bool write)
{
	enum dlend_live live = READ_ONCE(v->live);

	return live != DLEND_LIVE_SOON && !(write && live == DLEND_LIVE_RESET);
}

/* A write wants the device, as a touch of a BAR does. [locked] */
static void dlend_live_want(struct dlend_vdev *v)
{
	if (v->claim.lease || v->failed || v->move.coming || v->want.quiet)
		return;
	dlend_vdev_touch(v);
	dlend_gate_note(v);
}

/* @end: (in, out) until when the access may wait.  Return: is the lender to be asked at all? */
static bool dlend_live_begin(struct dlend_vdev *v, bool write, ktime_t *end)
{
	guard(mutex)(&v->lock);
	if (ktime_before(ktime_get(), v->live_after)) {
		*end = ktime_add_ms(ktime_get(), DLEND_LIVE_SENT_MS);
		return write;
	}
	if (write)
		dlend_live_want(v);
	return true;
}

/* Return: the lease by which the device can be asked now, referenced; or NULL. */
static struct dlend_lease *dlend_live_lease(struct dlend_vdev *v, bool write, ktime_t *end)
{
	if (!dlend_live_begin(v, write, end))
		return NULL;
	if (!dlend_live_decided(v, write))
		wait_event_timeout(v->idle_wq, dlend_live_decided(v, write),
				   msecs_to_jiffies(dlend_live_left(*end)));
	guard(mutex)(&v->lock);
	return v->live == DLEND_LIVE_NOW && v->claim.lease ? dlend_lease_get(v->claim.lease) : NULL;
}

/* How the lender has answered. */
static void dlend_live_note(struct dlend_vdev *v, int ret)
{
	if (ret)
		atomic64_inc(&v->stat.live_missed);
	if (ret != -ETIMEDOUT)
		return;
	guard(mutex)(&v->lock);
	/* A write that did not wait tells nothing. */
	if (ktime_after(ktime_get(), v->live_after))
		v->live_after = ktime_add_ms(ktime_get(), DLEND_LIVE_PAUSE_MS);
}

static void dlend_live_put(u8 *to, u32 value, u32 size)
{
	for (; size; size--, value >>= 8)
		*to++ = value;
}

static u32 dlend_live_get(const u8 *from, u32 size)
{
	u32 value = 0;

	while (size--)
		value = value << 8 | from[size];
	return value;
}

void dlend_live_read(struct dlend_vdev *v, u32 pos, u8 *buf, u32 len)
{
	ktime_t end = ktime_add_ms(ktime_get(), DLEND_LIVE_MS);
	struct dlend_lease *lease;
	u32 at, size, value;
	int ret = 0;

	if (!dlend_live_concerns(v, pos, len))
		return;
	lease = dlend_live_lease(v, false, &end);
	if (!lease) {
		atomic64_inc(&v->stat.live_missed);
		return;
	}
	for (at = 0; at < len && !ret; at += size ?: 1) {
		size = dlend_cfg_live(&v->cfg, pos + at, len - at);
		if (!size)
			continue;
		ret = dlend_lease_cfg_read(lease, pos + at, size, &value, dlend_live_left(end));
		if (!ret)
			dlend_live_put(buf + at, value, size);
		atomic64_inc(&v->stat.live_reads);
	}
	dlend_live_note(v, ret);
	dlend_lease_put(lease);
}

static void dlend_live_warn(struct dlend_vdev *v, u32 pos, int ret)
{
	const char *why = "lost: the link is down, or its lender is resetting it";

	if (ret == -EPERM)
		why = "lost: its lender lets nobody write there";
	else if (ret == -ENODEV)
		why = "lost: it is not borrowed";
	else if (ret == -ETIMEDOUT)
		why = "late: its lender has not answered yet";
	dev_warn_ratelimited(dlend_vdev_dev(v), "a write to the device's own configuration space at 0x%x is %s (%pe)\n",
			     pos, why, ERR_PTR(ret));
}

void dlend_live_write(struct dlend_vdev *v, u32 pos, const u8 *buf, u32 len)
{
	ktime_t end = ktime_add_ms(ktime_get(), DLEND_LIVE_MS);
	struct dlend_lease *lease;
	u32 at, size;
	int ret, one;

	if (!dlend_live_concerns(v, pos, len))
		return;
	lease = dlend_live_lease(v, true, &end);
	ret = lease ? 0 : -ENODEV;
	/* If the lender refuses some bytes, or is slow, the others do not suffer from that. */
	for (at = 0; lease && at < len; at += size ?: 1) {
		size = dlend_cfg_live(&v->cfg, pos + at, len - at);
		if (!size)
			continue;
		one = dlend_lease_cfg_write(lease, pos + at, size, dlend_live_get(buf + at, size),
					    dlend_live_left(end));
		ret = ret ?: one;
		atomic64_inc(&v->stat.live_writes);
	}
	dlend_live_note(v, ret);
	if (ret)
		dlend_live_warn(v, pos, ret);
	if (lease)
		dlend_lease_put(lease);
}

void dlend_live_vpd(struct dlend_vdev *v)
{
	ktime_t end = ktime_add_ms(ktime_get(), DLEND_LIVE_VPD_MS);
	struct dlend_lease *lease = dlend_live_lease(v, true, &end);
	u16 addr;
	u32 data;
	int ret;

	if (!lease) {
		atomic64_inc(&v->stat.live_missed);
		return;
	}
	mutex_lock(&v->lock);
	addr = dlend_cfg_vpd(&v->cfg, &data);
	mutex_unlock(&v->lock);
	ret = dlend_lease_vpd(lease, v->cfg.vpd_pos, addr, &data, dlend_live_left(end));
	dlend_live_note(v, ret);
	mutex_lock(&v->lock);
	if (!ret)
		dlend_cfg_vpd_done(&v->cfg, addr, data);
	mutex_unlock(&v->lock);
	dlend_lease_put(lease);
}
