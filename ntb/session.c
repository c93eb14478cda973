// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions of a link: carries out what the bring-up state machine asks for.
 *
 * Knows scratchpads, windows and the control area through dlend_link_hw_ops; never calls a user.
 */
#include <linux/io.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <iommu/aperture.h>
#include <ntb/trace.h>
#include "core.h"

#define CTRL_BYTES	PAGE_ALIGN(sizeof(struct dlend_ctrl))
#define POLL_MS		50	/* while a handshake is under way */
#define IDLE_MS		1000U	/* while there is nobody to talk to; events come earlier */
#define REPUBLISH_MS	1000
#define APERTURE_MS	10000	/* between looks whether an IOMMU group is in use; at first, */
#define APERTURE_MAX_MS	600000	/* and at last, if that is not why there is no aperture */
#define NUDGE_MS	5	/* after a step, before a doorbell brings the next */
#define MY_VERSION	((u32)DLEND_PROTO_MIN << 16 | DLEND_PROTO_MAX)

u64 dlend_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

/* Said once for each time that the link is not up, however often it is found out. */
static void set_error(struct dlend_link *link, const char *text)
{
	if (link->error_said && !strcmp(link->error, text))
		return;
	link->error_said = true;
	strscpy(link->error, text, sizeof(link->error));
	/* Part of it may be the peer's, who can change it as often as it likes. */
	dev_warn_ratelimited(&link->dev, "%s\n", text);
}

void dlend_session_kick(struct dlend_link *link)
{
	if (!READ_ONCE(link->gone))
		mod_delayed_work(dlend_wq, &link->state_work, 0);
}

/* A peer can ring without end, and a step is work that others wait behind. */
void dlend_session_nudged(struct dlend_link *link)
{
	unsigned long next = READ_ONCE(link->stepped_at) + msecs_to_jiffies(NUDGE_MS);
	long wait = max((long)(next - jiffies), 0L);

	if (!READ_ONCE(link->gone))
		mod_delayed_work(dlend_wq, &link->state_work, wait);
}

void dlend_session_restart(struct dlend_link *link, const char *why)
{
	WRITE_ONCE(link->restart, why);
	dlend_session_kick(link);
}

void dlend_link_restart(const struct dlend_session_ref *ref, const char *why)
{
	if (dlend_session_live(ref))
		dlend_session_restart(ref->link, why);
}
DLEND_EXPORT(dlend_link_restart);

/* Setting up the hardware */

static const char no_iommu[] =
	"no aperture: no IOMMU translates for the NTB; "
	"boot with intel_iommu=on or amd_iommu=on and without iommu=pt";
static const char group_busy[] =
	"no aperture: the NTB shares its IOMMU group with a device in use; "
	"use another slot, or unbind that device's driver";
static const char no_room[] =
	"no aperture: no free bus addresses; make the NTB window smaller in the firmware";
static const char small_window[] =
	"NTB window is smaller than 1 MiB: make it larger in the firmware";
static const char no_trans[] =
	"the NTB does not take the aperture's address: see the kernel log for what it needs";
static const char no_node_id[] =
	"no node id: set dlend_core.node_id to 1..65535, different on every node";
static const char wire_down[] =
	"the NTB's link went down: the peer is off, or its NTB driver is unloaded";

static const char *aperture_advice(int err)
{
	switch (err) {
	case -ENODEV:
		return no_iommu;
	case -EBUSY:
		return group_busy;
	case -EOPNOTSUPP:
		return "no aperture: not supported on this architecture";
	case -ENOSPC:
		return no_room;
	default:
		return "no aperture: see the kernel's log";
	}
}

/*
 * What only a reboot can change is tried, and said, once.  The admin can unbind another driver of
 * the NTB's group: that is looked for now and then without a word, and the rest is tried again once
 * it is so.
 */
static bool aperture_hopeless(struct dlend_link *link)
{
	if (!link->aperture_err)
		return false;
	if (link->aperture_err != -EBUSY ||
	    dlend_now_ms() - link->aperture_at < link->aperture_wait)
		return true;
	link->aperture_at = dlend_now_ms();
	return dlend_aperture_group_busy(link->ops->dma_dev(link->hw));
}

static void no_aperture(struct dlend_link *link, int err)
{
	link->aperture_err = err == -ENOMEM ? 0 : err;
	link->aperture_at = dlend_now_ms();
	link->aperture_wait = clamp(2 * link->aperture_wait, APERTURE_MS, APERTURE_MAX_MS);
	set_error(link, aperture_advice(err));
}

static int make_aperture(struct dlend_link *link)
{
	struct dlend_aperture *ap;
	u64 size, align;
	int err;

	if (link->aperture)
		return 0;
	if (aperture_hopeless(link))
		return link->aperture_err;
	err = link->ops->inbound(link->hw, &size, &align);
	if (err)
		return err;
	size = round_down(size, SZ_1M);
	if (!size) {
		set_error(link, small_window);
		return -ENOSPC;
	}
	ap = dlend_aperture_create(link->ops->dma_dev(link->hw), size, align);
	if (IS_ERR(ap)) {
		err = PTR_ERR(ap);
		no_aperture(link, err);
		return err;
	}
	link->aperture_err = 0;
	WRITE_ONCE(link->aperture, ap);
	return 0;
}

/* The control area is the aperture's first slot. */
static int make_ctrl(struct dlend_link *link)
{
	struct dlend_slot *slot;
	void *mem;
	int err;

	if (link->ctrl)
		return 0;
	mem = alloc_pages_exact(CTRL_BYTES, GFP_KERNEL | __GFP_ZERO);
	if (!mem)
		return -ENOMEM;
	slot = dlend_slot_alloc(link->aperture, CTRL_BYTES, 0, 0, DLEND_SLOT_CTRL);
	if (IS_ERR(slot)) {
		err = PTR_ERR(slot);
		goto free_mem;
	}
	err = -ENOSPC;
	if (WARN_ON(slot->offset))
		goto free_slot;
	err = dlend_slot_map_phys(link->aperture, slot, 0, virt_to_phys(mem), CTRL_BYTES,
				  DLEND_PROT_READ | DLEND_PROT_WRITE, false);
	if (err)
		goto free_slot;
	link->ctrl_slot = slot;
	spin_lock_irq(&link->irq_lock);
	link->ctrl = mem;
	spin_unlock_irq(&link->irq_lock);
	return 0;

free_slot:
	dlend_slot_free(link->aperture, slot);
free_mem:
	free_pages_exact(mem, CTRL_BYTES);
	return err;
}

static int map_peer(struct dlend_link *link)
{
	int err;

	if (link->peer_ctrl)
		return 0;
	err = link->reach->ctrl(link);
	if (err == -ENOSPC)
		set_error(link, small_window);
	return err;
}

static int lead_here(struct dlend_link *link)
{
	int err = link->ops->set_trans(link->hw, dlend_aperture_base(link->aperture),
				       dlend_aperture_size(link->aperture));

	/* Not connected yet is no failure. */
	if (err && err != -ENOTCONN && err != -EAGAIN)
		set_error(link, no_trans);
	return err;
}

static int prepare(struct dlend_link *link)
{
	int err;

	err = make_aperture(link);
	if (!err)
		err = make_ctrl(link);
	if (!err)
		err = map_peer(link);
	/* Each time: where the peer holds the registers, its reboot lost them. */
	if (!err)
		err = lead_here(link);
	if (err) {
		dev_dbg(&link->dev, "not prepared (%d)\n", err);
		return err;
	}
	dlend_doorbell_on(link, true);
	return 0;
}

/* Scratchpads */

static void spad(struct dlend_link *link, enum dlend_spad index, u32 value)
{
	link->ops->spad_write_own(link->hw, index, value);
}

static void nudge(struct dlend_link *link)
{
	link->ops->db_ring(link->hw, BIT_ULL(DLEND_DB_MSG));
}

static void hide(struct dlend_link *link)
{
	spad(link, DLEND_SPAD_MAGIC, 0);
	spad(link, DLEND_SPAD_ACK, 0);
	spad(link, DLEND_SPAD_READY, 0);
	nudge(link);
}

/* Also now and then while nothing moves: hardware loses what is written while it is not ready. */
static void publish(struct dlend_link *link)
{
	const struct dlend_bringup *b = &link->bringup;

	spad(link, DLEND_SPAD_VERSION, b->version);
	spad(link, DLEND_SPAD_NODE, b->node);
	spad(link, DLEND_SPAD_NONCE_LO, lower_32_bits(b->nonce));
	spad(link, DLEND_SPAD_NONCE_HI, upper_32_bits(b->nonce));
	spad(link, DLEND_SPAD_APERTURE, b->aperture_mib);
	spad(link, DLEND_SPAD_ACK, b->ack);
	spad(link, DLEND_SPAD_READY, b->cleared ? b->ack : 0);
	spad(link, DLEND_SPAD_MAGIC, DLEND_PROTO_MAGIC);
	link->published_at = dlend_now_ms();
	nudge(link);
}

/* The peer may be writing: only what reads the same twice is one state of it. */
static bool read_spads(struct dlend_link *link, u32 *now)
{
	bool same = true;
	unsigned int i;

	for (i = 0; i < DLEND_SPAD_COUNT; i++)
		now[i] = link->ops->spad_read_peer(link->hw, i);
	for (i = 0; i < DLEND_SPAD_COUNT; i++)
		same &= now[i] == link->ops->spad_read_peer(link->hw, i);
	return same;
}

/* Carrying out */

static void clear_area(struct dlend_link *link)
{
	dlend_chan_reset(link, link->bringup.nonce);
	dlend_irq_reset(link);
	memset(link->ctrl, 0, CTRL_BYTES);
	/* The peer has begun anew: it does not use offsets of an earlier session any more. */
	dlend_aperture_release_all(link->aperture);
	wmb(); /* cleared before the peer is let in */
	spad(link, DLEND_SPAD_READY, link->bringup.ack);
	nudge(link);
}

/* Write through the window into the peer's memory and read it back, all by the CPU. */
static bool self_test(struct dlend_link *link)
{
	struct dlend_ctrl __iomem *peer = link->peer_ctrl;
	__le64 nonce = cpu_to_le64(link->bringup.peer_nonce);
	__le64 window = cpu_to_le64(link->window_size);
	__le64 check = cpu_to_le64(dlend_bringup_check(&link->bringup, link->window_size));
	u8 pattern[DLEND_TEST_SIZE], back[DLEND_TEST_SIZE];

	dlend_bringup_pattern(link->bringup.peer_nonce, pattern);
	memcpy_toio(&peer->test, pattern, sizeof(pattern));
	memcpy_toio(&peer->nonce, &nonce, sizeof(nonce));
	memcpy_toio(&peer->window, &window, sizeof(window));
	memcpy_toio(&peer->check, &check, sizeof(check));
	wmb(); /* all of it before the first read */
	memcpy_fromio(back, &peer->test, sizeof(back));
	return !memcmp(back, pattern, sizeof(back));
}

/* A peer can begin sessions as it likes; one that does takes no other link's lines. */
static bool may_say(struct dlend_link *link)
{
	return __ratelimit(&link->says);
}

/* What is beyond the smaller one of window and aperture nobody reaches: no slot may lie there. */
static void fit_windows(struct dlend_link *link)
{
	const struct dlend_bringup *b = &link->bringup;
	u64 theirs = (u64)b->peer_aperture_mib << 20, ours = dlend_aperture_size(link->aperture);
	u64 reach = dlend_bringup_reach(b, ours);

	WRITE_ONCE(link->peer_aperture, theirs);
	dlend_aperture_limit(link->aperture, reach);
	if ((round_down(link->window_size, SZ_1M) != theirs || reach != ours) && may_say(link))
		dev_notice(&link->dev, "NTB windows of uneven size: this node's window of %llu MiB leads to %llu MiB of node %u, whose window of %llu MiB leads to %llu MiB here; the smaller counts, each way: set the same BAR size in both firmwares to use all\n",
			   link->window_size >> 20, theirs >> 20, b->peer_node,
			   b->peer_window >> 20, ours >> 20);
}

static void begin(struct dlend_link *link)
{
	struct dlend_bringup *b = &link->bringup;

	fit_windows(link);
	WRITE_ONCE(link->peer, b->peer_node);
	link->restart = NULL;
	link->error_said = false;
	spin_lock(&link->lock);
	/* Whoever sees the session sees its peer and window, too. */
	smp_store_release(&link->session, b->nonce);
	spin_unlock(&link->lock);
	dlend_irq_on(link, true);
	dlend_backoff_up(&link->backoff, dlend_now_ms());
	atomic_inc(&link->stat.sessions);
	if (may_say(link))
		dev_info(&link->dev, "up: node %u, protocol %u, window %llu MiB, aperture %llu MiB\n",
			 b->peer_node, b->picked,
			 min(link->window_size, link->peer_aperture) >> 20,
			 dlend_bringup_reach(b, dlend_aperture_size(link->aperture)) >> 20);
	/* What the peer sent while it was up and we were not is looked at by the same step. */
	queue_work(dlend_wq, &link->told_work);
}

static void finish(struct dlend_link *link)
{
	bool was_up = dlend_live_session(link);

	if (was_up)
		WRITE_ONCE(link->quiet, false);
	dlend_irq_on(link, false);
	dlend_chan_end(link);
	hide(link);
	if (was_up) {
		dlend_backoff_down(&link->backoff, dlend_now_ms());
		if (may_say(link))
			dev_info(&link->dev, "down\n");
		queue_work(dlend_wq, &link->told_work);
	}
}

static void carry_out(struct dlend_link *link, u32 todo)
{
	struct dlend_bringup *b = &link->bringup;

	if (todo & DLEND_DO_END)
		finish(link);
	if (todo & DLEND_DO_ACK) {
		spad(link, DLEND_SPAD_READY, 0);
		spad(link, DLEND_SPAD_ACK, b->ack);
		nudge(link);
	}
	if (todo & DLEND_DO_CLEAR)
		clear_area(link);
	if (todo & DLEND_DO_TEST)
		todo |= dlend_bringup_tested(b, self_test(link), dlend_now_ms());
	if (todo & DLEND_DO_UP)
		begin(link);
	if (todo & DLEND_DO_ERROR)
		set_error(link, b->error);
	if (todo)
		trace_dlend_link_state(dlend_link_name(link), dlend_bringup_name(b->state),
				       b->nonce);
}

/* Look at our control area: nonce, heartbeat, and in a test what it left. */
static u32 look(struct dlend_link *link)
{
	struct dlend_bringup *b = &link->bringup;
	struct dlend_bringup_area area;

	area.nonce = le64_to_cpu(READ_ONCE(link->ctrl->nonce));
	area.beat = le32_to_cpu(READ_ONCE(link->ctrl->heartbeat));
	if (b->state == DLEND_BRINGUP_TEST) {
		dma_rmb(); /* the beat before the pattern that it follows */
		memcpy(area.test, link->ctrl->test, sizeof(area.test));
		area.window = le64_to_cpu(READ_ONCE(link->ctrl->window));
		area.check = le64_to_cpu(READ_ONCE(link->ctrl->check));
	}
	return dlend_bringup_area(b, &area, dlend_now_ms());
}

/* Our beat says that nothing is missing here for this session: so the peer is up only if we are. */
static void send_beat(struct dlend_link *link)
{
	if (!dlend_bringup_beats(&link->bringup))
		return;
	if (!++link->beat)
		link->beat = 1;
	writel(link->beat, &link->peer_ctrl->heartbeat);
}

/* A doorbell can be lost, and an index be overwritten: both are written and looked at again. */
static void look_again(struct dlend_link *link)
{
	dlend_chan_refresh(link);
	dlend_doorbell_look(link);
}

static bool start(struct dlend_link *link)
{
	struct dlend_bringup *b = &link->bringup;

	/* Users are still busy with the session before: they kick us. */
	if (!READ_ONCE(link->quiet) || prepare(link))
		return false;
	b->node = dlend_node_id();
	b->aperture_mib = dlend_aperture_size(link->aperture) >> 20;
	b->timeout_ms = max(READ_ONCE(dlend_heartbeat_timeout_ms), 2 * dlend_heartbeat_ms);
	dlend_bringup_start(b, get_random_u64());
	hide(link);
	publish(link);
	return true;
}

static bool connected(struct dlend_link *link)
{
	if (link->asleep)
		return false;
	if (!dlend_node_id()) {
		set_error(link, no_node_id);
		return false;
	}
	return link->ops->link_is_up(link->hw);
}

/* One look at the world. Return: milliseconds until the next */
static unsigned int step(struct dlend_link *link)
{
	struct dlend_bringup *b = &link->bringup;
	u32 spads[DLEND_SPAD_COUNT];
	const char *why;
	u32 wait;

	if (!connected(link)) {
		if (b->state == DLEND_BRINGUP_UP && !link->asleep)
			set_error(link, wire_down);
		carry_out(link, dlend_bringup_link_down(b));
		return IDLE_MS;
	}
	why = xchg(&link->restart, NULL);
	if (why)
		carry_out(link, dlend_bringup_abort(b, why));
	wait = dlend_backoff_left(&link->backoff, dlend_now_ms());
	if (b->state == DLEND_BRINGUP_DOWN && wait)
		return min(wait, IDLE_MS);
	if (b->state == DLEND_BRINGUP_DOWN && !start(link))
		return IDLE_MS;
	if (read_spads(link, spads))
		carry_out(link, dlend_bringup_spads(b, spads, dlend_now_ms()));
	if (b->state != DLEND_BRINGUP_DOWN)
		carry_out(link, look(link));
	if (b->state != DLEND_BRINGUP_DOWN && b->state != DLEND_BRINGUP_UP &&
	    dlend_now_ms() - link->published_at >= REPUBLISH_MS)
		publish(link);
	send_beat(link);
	if (b->state != DLEND_BRINGUP_UP)
		return POLL_MS;
	look_again(link);
	return max(READ_ONCE(dlend_heartbeat_ms), 10U);
}

static void state_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, state_work.work);
	unsigned int ms;

	mutex_lock(&link->state_lock);
	if (link->gone) {
		mutex_unlock(&link->state_lock);
		return;
	}
	ms = step(link);
	WRITE_ONCE(link->stepped_at, jiffies);
	mutex_unlock(&link->state_lock);
	queue_delayed_work(dlend_wq, &link->state_work, msecs_to_jiffies(ms));
}

void dlend_session_init(struct dlend_link *link)
{
	mutex_init(&link->state_lock);
	link->stepped_at = jiffies;
	ratelimit_state_init(&link->says, 5 * HZ, 20);
	INIT_DELAYED_WORK(&link->state_work, state_work);
	dlend_bringup_init(&link->bringup, 0, MY_VERSION, dlend_heartbeat_timeout_ms);
	link->bringup.loop = !link->ops->window;
}

/* Nothing of ours is reached by the peer any more when this is done. */
static void unprepare(struct dlend_link *link)
{
	dlend_doorbell_on(link, false);
	if (link->aperture) {
		link->ops->clear_trans(link->hw);
		dlend_aperture_detach(link->aperture);
	}
	if (link->peer_ctrl)
		link->reach->no_ctrl(link);
	link->peer_ctrl = NULL;
	link->ops->link_enable(link->hw, false);
}

/* From now on; whoever is there and is somebody else loses the session. */
void dlend_session_require(struct dlend_link *link, u16 node)
{
	struct dlend_bringup *b = &link->bringup;

	mutex_lock(&link->state_lock);
	b->required = node;
	if (node && b->peer_node && b->peer_node != node)
		dlend_session_restart(link, "the admin has named another node as this link's peer");
	mutex_unlock(&link->state_lock);
}

/* The hardware may forget everything while the host sleeps: the next session sets it up again. */
static void lie_down(struct dlend_link *link)
{
	carry_out(link, dlend_bringup_link_down(&link->bringup));
	dlend_doorbell_on(link, false);
	if (link->aperture)
		link->ops->clear_trans(link->hw);
}

void dlend_session_sleep(struct dlend_link *link, bool on)
{
	mutex_lock(&link->state_lock);
	if (!link->gone && link->asleep != on) {
		link->asleep = on;
		if (on)
			lie_down(link);
		else
			link->ops->link_enable(link->hw, true);
	}
	mutex_unlock(&link->state_lock);
	/* Users have taken leave of the old session before devices stop. */
	if (on)
		flush_work(&link->told_work);
	dlend_session_kick(link);
}

void dlend_session_remove(struct dlend_link *link)
{
	disable_delayed_work_sync(&link->state_work);
	mutex_lock(&link->state_lock);
	WRITE_ONCE(link->gone, true);
	carry_out(link, dlend_bringup_link_down(&link->bringup));
	mutex_unlock(&link->state_lock);
	flush_work(&link->told_work);
	disable_work_sync(&link->told_work);
	dlend_chan_drain(link);
	dlend_chan_stop(link);
	mutex_lock(&link->state_lock);
	unprepare(link);
	mutex_unlock(&link->state_lock);
}

/* The last reference is gone, and with it every slot of a user. */
void dlend_session_free(struct dlend_link *link)
{
	if (link->ctrl_slot)
		dlend_slot_free(link->aperture, link->ctrl_slot);
	if (link->ctrl)
		free_pages_exact(link->ctrl, CTRL_BYTES);
	if (link->aperture)
		dlend_aperture_destroy(link->aperture);
}
