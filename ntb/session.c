// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions of a link.  This file sets up the hardware, does the steps that the bring-up's state
 * machine asks for, reports problems so that an administrator can solve them, and calls link_up()
 * and link_down() of users.
 *
 * Aperture and control area are made once and stay until the link is freed.  This file calls the
 * hardware through dlend_link_hw_ops.  Users are called by announced.work, and when they register
 * or leave; never by the bring-up.
 */
#include <linux/io.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <iommu/aperture.h>
#include <ntb/trace.h>
#include "link.h"

/* Set-up of the hardware */

/*
 * Milliseconds between two checks whether the obstacle to an aperture is gone.  It is short, so
 * that an admin who unbinds the other driver of the IOMMU group does not wait long.
 */
#define DLEND_APERTURE_MS	10000
/*
 * If the group is free and the aperture still cannot be made, each try is logged.  So the time
 * between tries doubles, up to this.
 */
#define DLEND_APERTURE_MAX_MS	600000

static const char dlend_setup_unsafe[] =
	"no aperture: interrupt remapping is off, so the peer could raise any interrupt here; "
	"turn it on in the firmware, or allow it (allow_unsafe_interrupts)";
static const char dlend_setup_small_window[] =
	"NTB window is smaller than 1 MiB: make it larger in the firmware";

/* For last_error and the log.  A text is logged again only after a session, or another text. */
static void dlend_link_set_error(struct dlend_link *link, const char *text)
{
	if (link->error_said && !strcmp(link->error, text))
		return;
	link->error_said = true;
	strscpy(link->error, text, sizeof(link->error));
	/* Part of the text may be the peer's, and the peer can change it as often as it likes. */
	dev_warn_ratelimited(&link->dev, "%s\n", text);
}

/* What last_error says for an error of dlend_aperture_create(). */
static const char *dlend_setup_advice(int err)
{
	switch (err) {
	case -ENODEV:
		return "no aperture: no IOMMU translates for the NTB; "
		       "boot with intel_iommu=on or amd_iommu=on and without iommu=pt";
	case -EBUSY:
		return "no aperture: the NTB shares its IOMMU group with a device in use; "
		       "use another slot, or unbind that device's driver";
	case -EPERM:
		return dlend_setup_unsafe;
	case -ENOSPC:
		return "no aperture: no free bus addresses; "
		       "make the NTB window smaller in the firmware";
	case -EADDRINUSE:
		return "no aperture: the NTB's driver has DMA memory above 4 GiB; "
		       "boot without iommu.forcedac=1";
	default:
		return "no aperture: see the kernel's log";
	}
}

/*
 * Was an aperture tried before, and would a new try fail for the same reason?  For most errors only
 * a reboot helps: there is one try and one message.  After -EBUSY and -EPERM the admin can help: by
 * unbinding the other driver of the NTB's group, or by allowing unsafe interrupts.  So this checks
 * now and then, without a message, whether the admin has done that.
 */
static bool dlend_setup_hopeless(struct dlend_link *link)
{
	struct dlend_setup *s = &link->setup;

	if (!s->aperture_err)
		return false;
	if ((s->aperture_err != -EBUSY && s->aperture_err != -EPERM) ||
	    dlend_now_ms() - s->aperture_at < s->aperture_wait)
		return true;
	s->aperture_at = dlend_now_ms();
	return dlend_aperture_hindered(link->hw->dma_dev);
}

/* Note why there is no aperture.  After -ENOMEM each step tries again. */
static void dlend_setup_no_aperture(struct dlend_link *link, int err)
{
	struct dlend_setup *s = &link->setup;

	s->aperture_err = err == -ENOMEM ? 0 : err;
	s->aperture_at = dlend_now_ms();
	s->aperture_wait = clamp(2 * s->aperture_wait, DLEND_APERTURE_MS, DLEND_APERTURE_MAX_MS);
	dlend_link_set_error(link, dlend_setup_advice(err));
}

static int dlend_setup_make_aperture(struct dlend_link *link)
{
	struct dlend_aperture *ap;
	u64 size, align;
	int err;

	if (link->aperture)
		return 0;
	if (dlend_setup_hopeless(link))
		return link->setup.aperture_err;
	err = link->ops->inbound(link->hw, &size, &align);
	if (err)
		return err;
	size = round_down(size, SZ_1M);
	if (!size) {
		dlend_link_set_error(link, dlend_setup_small_window);
		return -ENOSPC;
	}
	ap = dlend_aperture_create(link->hw->dma_dev, size, align, link->hw->shares_domain);
	if (IS_ERR(ap)) {
		err = PTR_ERR(ap);
		dlend_setup_no_aperture(link, err);
		return err;
	}
	link->setup.aperture_err = 0;
	WRITE_ONCE(link->aperture, ap);
	return 0;
}

/* The control area is the aperture's first slot. */
static int dlend_setup_make_ctrl(struct dlend_link *link)
{
	struct dlend_slot *slot;
	void *mem;
	int err;

	if (link->ctrl)
		return 0;
	mem = alloc_pages_exact(DLEND_CTRL_BYTES, GFP_KERNEL | __GFP_ZERO);
	if (!mem)
		return -ENOMEM;
	slot = dlend_slot_of_memory(link->aperture, mem, DLEND_CTRL_BYTES,
				    DLEND_PROT_READ | DLEND_PROT_WRITE, DLEND_SLOT_CTRL);
	if (IS_ERR(slot)) {
		err = PTR_ERR(slot);
		goto free_mem;
	}
	err = -ENOSPC;
	if (WARN_ON(slot->offset))
		goto free_slot;
	link->setup.ctrl_slot = slot;
	spin_lock_irq(&link->irq_lock);
	link->ctrl = mem;
	spin_unlock_irq(&link->irq_lock);
	return 0;

free_slot:
	dlend_slot_free(slot, true);
free_mem:
	free_pages_exact(mem, DLEND_CTRL_BYTES);
	return err;
}

static int dlend_setup_map_peer(struct dlend_link *link)
{
	struct dlend_peer_window *pw = &link->window;

	if (link->peer_ctrl)
		return 0;
	if (link->loop) {
		/* The peer is this node: its control area is this node's own. */
		link->peer_ctrl = (void __iomem __force *)link->ctrl;
		pw->size = dlend_aperture_size(link->aperture);
		return 0;
	}
	pw->base = link->hw->window;
	pw->size = link->hw->window_size;
	if (pw->size < SZ_1M) {
		dlend_link_set_error(link, dlend_setup_small_window);
		return -ENOSPC;
	}
	/* Only this part: a mapping of the whole window would fix the memory type of BARs in it. */
	link->peer_ctrl = ioremap(pw->base, DLEND_CTRL_BYTES);
	return link->peer_ctrl ? 0 : -ENOMEM;
}

/* Set the inbound translation: the peer's window leads to this node's aperture. */
static int dlend_setup_set_trans(struct dlend_link *link)
{
	int err;

	if (!link->ops->set_trans)
		return 0;
	err = link->ops->set_trans(link->hw, dlend_aperture_base(link->aperture),
				   dlend_aperture_size(link->aperture));
	/* -ENOTCONN and -EAGAIN mean that the hardware is not connected yet: no failure. */
	if (err && err != -ENOTCONN && err != -EAGAIN)
		dlend_link_set_error(link,
				     "the NTB does not take the aperture's address: see the kernel log for what it needs");
	return err;
}

int dlend_link_set_requesters(struct dlend_link *link, struct dlend_requesters *these)
{
	guard(mutex)(&link->state_lock);
	/* Checked first: once the link is gone, the module with the ops may be unloaded. */
	if (link->hw_gone)
		return -ENODEV;
	return link->ops->set_requesters ? link->ops->set_requesters(link->hw, these) : 0;
}
DLEND_EXPORT(dlend_link_set_requesters);

int dlend_link_irq_phys(struct dlend_link *link, u64 page, phys_addr_t *phys)
{
	guard(mutex)(&link->state_lock);
	if (link->hw_gone || !link->hw->spare_size)
		return -EOPNOTSUPP;
	if (page > link->hw->spare_size || link->hw->spare_size - page < DLEND_DIRECT_SIZE)
		return -ERANGE;
	*phys = link->hw->spare + page;
	return 0;
}
DLEND_EXPORT(dlend_link_irq_phys);

/*
 * Make this node and its peer reach each other's control area.  Aperture, control area and mapping
 * are made once.  Translation and doorbells are set each time, as hardware can lose them.
 */
static int dlend_setup_prepare(struct dlend_link *link)
{
	int err;

	err = dlend_setup_make_aperture(link);
	if (!err)
		err = dlend_setup_make_ctrl(link);
	if (!err)
		err = dlend_setup_map_peer(link);
	/*
	 * Both windows are set for each session: if their registers are in the peer's device, a
	 * reboot of the peer clears them.  The second window is set when it is first needed.
	 */
	dlend_directs_close(link);
	if (!err)
		err = dlend_setup_set_trans(link);
	if (err) {
		dev_dbg(&link->dev, "not prepared (%d)\n", err);
		return err;
	}
	dlend_doorbell_enable(link, true);
	return 0;
}

/* Mask doorbells, clear translations: the peer reaches nothing here until dlend_setup_prepare(). */
static void dlend_setup_close(struct dlend_link *link)
{
	dlend_doorbell_enable(link, false);
	if (link->aperture && link->ops->clear_trans)
		link->ops->clear_trans(link->hw);
	dlend_directs_close(link);
}

/* The hardware goes away: the peer reaches nothing of this node any more, for good. */
static void dlend_setup_undo(struct dlend_link *link)
{
	dlend_setup_close(link);
	if (link->aperture)
		dlend_aperture_detach(link->aperture);
	if (link->peer_ctrl && !link->loop)
		iounmap(link->peer_ctrl);
	link->peer_ctrl = NULL;
	if (link->ops->link_enable)
		link->ops->link_enable(link->hw, false);
}

void dlend_setup_free(struct dlend_link *link)
{
	dlend_directs_free(link);
	if (link->setup.ctrl_slot)
		dlend_slot_free(link->setup.ctrl_slot, true);
	if (link->ctrl)
		free_pages_exact(link->ctrl, DLEND_CTRL_BYTES);
	if (link->aperture)
		dlend_aperture_destroy(link->aperture);
}

/* Milliseconds between steps while a handshake is under way. */
#define DLEND_STEP_HANDSHAKE_MS	50
/* The same while there is no peer; a doorbell or a hardware event causes an earlier step. */
#define DLEND_STEP_IDLE_MS	1000U
/* The least while the link is up, even if heartbeat_ms is smaller: each step costs time. */
#define DLEND_STEP_MIN_MS	10U
/* Milliseconds until the scratchpads are written again, if the handshake makes no progress. */
#define DLEND_REPUBLISH_MS	1000
/* Limit for lines about sessions in the log, for each link: lines, and in how many jiffies. */
#define DLEND_SESSION_LINES	20
#define DLEND_SESSION_LINES_IN	(5 * HZ)
#define DLEND_MY_VERSION	((u32)DLEND_PROTO_MIN << 16 | DLEND_PROTO_MAX)

/* A device is fenced within 3 s after its borrower died: time-out, two heartbeats, the fence. */
static unsigned int dlend_heartbeat_ms = 250;
module_param_named(heartbeat_ms, dlend_heartbeat_ms, uint, 0644);
MODULE_PARM_DESC(heartbeat_ms, "milliseconds between heartbeats");
static unsigned int dlend_heartbeat_timeout_ms = 2250;
module_param_named(heartbeat_timeout_ms, dlend_heartbeat_timeout_ms, uint, 0644);
MODULE_PARM_DESC(heartbeat_timeout_ms, "milliseconds without a heartbeat until a peer counts as dead");

/* link_up() and link_down() of users */

/*
 * Milliseconds that message handlers have to end when their session is over.  Most end at once, and
 * then users get only one link_down().  The time is short, because link_down() fences devices.
 */
#define DLEND_ANNOUNCE_WAIT_MS	50

/* Under announced.lock.  Call link_up(), unless @user has had it in this session. */
static void dlend_announce_up(struct dlend_link_user *user, void *arg)
{
	struct dlend_link *link = arg;

	if (!link->announced.session || test_and_set_bit(user->side, &link->announced.users))
		return;
	if (user->link_up)
		user->link_up(link);
}

/* Also called for a user that had no link_up(): it may have handled messages of the session. */
static void dlend_announce_down(struct dlend_link_user *user, void *arg)
{
	if (user->link_down)
		user->link_down(arg);
}

/*
 * Message handlers of the old session may still run.  They get a moment to end.  If they do not end
 * in time, link_down() of all users is called now, and again when the handlers have ended: the
 * second call undoes the work of those handlers.
 */
static void dlend_announce_end(struct dlend_link *link)
{
	bool idle = dlend_link_catch_up(link, DLEND_TO_NOBODY, DLEND_ANNOUNCE_WAIT_MS);

	dlend_users_call(dlend_announce_down, link);
	if (!idle) {
		dlend_link_catch_up(link, DLEND_TO_NOBODY, UINT_MAX);
		dlend_users_call(dlend_announce_down, link);
	}
	link->announced.users = 0;
	link->announced.session = 0;
}

/* Call link_up() or link_down() of all users, if they do not know the link's state yet. */
static void dlend_announce_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, announced.work);
	struct dlend_announced *a = &link->announced;
	const char *news = NULL;
	u64 session;

	mutex_lock(&a->lock);
	session = dlend_link_session(link);
	/*
	 * A new session begins only after all users know that the last one is over.  So if there is
	 * a session now, users know it, or they know of none.
	 */
	if (session && !a->session) {
		a->session = session;
		dlend_users_call(dlend_announce_up, link);
		news = "up";
	} else if (!session && !READ_ONCE(a->down_done)) {
		/* Also if the session ended before link_up() was called. */
		dlend_announce_end(link);
		WRITE_ONCE(a->down_done, true);
		news = "down";
	}
	mutex_unlock(&a->lock);
	dlend_link_queue_step(link);
	if (news)
		dlend_uevent_state(&link->dev, news);
}

/* A user was added: call its link_up(), if the link is up for users. */
static int dlend_announce_to_new(struct dlend_link *link, void *user)
{
	guard(mutex)(&link->announced.lock);
	dlend_announce_up(user, link);
	return 0;
}

/* A user was removed: call its link_down() for the last time. */
static int dlend_announce_to_leaver(struct dlend_link *link, void *arg)
{
	struct dlend_link_user *user = arg;

	guard(mutex)(&link->announced.lock);
	dlend_announce_down(user, link);
	clear_bit(user->side, &link->announced.users);
	return 0;
}

/*
 * link->restart_why may be a string literal of the module that is being unloaded.
 * dlend_link_restart_current() has queued a step, which copies that string.  So wait for that step.
 * If it returns before that (the hardware is not connected), the bring-up is down, and the next
 * step drops the reason without reading the string.
 */
static int dlend_announce_step(struct dlend_link *link, void *unused)
{
	flush_delayed_work(&link->state_work);
	return 0;
}

int dlend_link_user_register(struct dlend_link_user *user)
{
	int err;

	guard(mutex)(&dlend_users_lock);
	err = dlend_user_add(user);
	/* A link that comes after this walk finds the user among the others. */
	if (!err)
		dlend_links_each(false, dlend_announce_to_new, user);
	return err;
}
DLEND_EXPORT(dlend_link_user_register);

void dlend_link_user_unregister(struct dlend_link_user *user)
{
	mutex_lock(&dlend_users_lock);
	/* After this, no message handler and no callback of the user runs ... */
	dlend_user_del(user);
	/*
	 * ... except the last link_down(), which this thread calls, for every link: a link may just
	 * have gone down.
	 */
	dlend_links_each(false, dlend_announce_to_leaver, user);
	mutex_unlock(&dlend_users_lock);
	dlend_links_each(false, dlend_announce_step, NULL);
}
DLEND_EXPORT(dlend_link_user_unregister);

void dlend_announce_settle(void)
{
	mutex_lock(&dlend_users_lock);
	mutex_unlock(&dlend_users_lock);
}

/* Scratchpads */

static void dlend_spad_write(struct dlend_link *link, enum dlend_spad index, u32 value)
{
	link->ops->spad_write(link->hw, index, value);
}

/* Ring the peer's doorbell, as scratchpads have changed. */
static void dlend_spads_ring(struct dlend_link *link)
{
	link->ops->db_ring(link->hw, BIT_ULL(DLEND_DB_MSG));
}

/* Without the magic number the peer sees no node here. */
static void dlend_spads_hide(struct dlend_link *link)
{
	dlend_spad_write(link, DLEND_SPAD_MAGIC, 0);
	dlend_spad_write(link, DLEND_SPAD_ACK, 0);
	dlend_spad_write(link, DLEND_SPAD_READY, 0);
	dlend_spads_ring(link);
}

/*
 * Write all scratchpads.  Also called again while nothing changes: hardware that is not ready loses
 * writes.
 */
static void dlend_spads_publish(struct dlend_link *link)
{
	const struct dlend_bringup *b = &link->bringup;

	dlend_spad_write(link, DLEND_SPAD_VERSION, b->version);
	dlend_spad_write(link, DLEND_SPAD_NODE, b->node);
	dlend_spad_write(link, DLEND_SPAD_NONCE_LO, lower_32_bits(b->nonce));
	dlend_spad_write(link, DLEND_SPAD_NONCE_HI, upper_32_bits(b->nonce));
	dlend_spad_write(link, DLEND_SPAD_APERTURE, b->aperture_mib);
	dlend_spad_write(link, DLEND_SPAD_ACK, b->ack);
	dlend_spad_write(link, DLEND_SPAD_READY, b->cleared ? b->ack : 0);
	dlend_spad_write(link, DLEND_SPAD_MAGIC, DLEND_PROTO_MAGIC);
	link->sessions.published_at = dlend_now_ms();
	dlend_spads_ring(link);
}

static void dlend_spads_ack(struct dlend_link *link)
{
	dlend_spad_write(link, DLEND_SPAD_READY, 0);
	dlend_spad_write(link, DLEND_SPAD_ACK, link->bringup.ack);
	dlend_spads_ring(link);
}

/*
 * The peer may be writing: the values belong together only if two reads in a row are equal.
 * Return: are they?
 */
static bool dlend_spads_read(struct dlend_link *link, u32 *now)
{
	bool same = true;
	unsigned int i;

	for (i = 0; i < DLEND_SPAD_COUNT; i++)
		now[i] = link->ops->spad_read(link->hw, i);
	for (i = 0; i < DLEND_SPAD_COUNT; i++)
		same &= now[i] == link->ops->spad_read(link->hw, i);
	return same;
}

/* Actions of the state machine */

/* DLEND_DO_CLEAR */
static void dlend_session_clear_area(struct dlend_link *link)
{
	dlend_chan_begin(link, link->bringup.nonce);
	spin_lock_irq(&link->irq_lock);
	link->sinks.cons = 0;
	spin_unlock_irq(&link->irq_lock);
	memset(link->ctrl, 0, DLEND_CTRL_BYTES);
	/* The peer has begun a new session, and forgotten the offsets of earlier ones. */
	dlend_aperture_release_all(link->aperture);
	dlend_directs_begin(link);
	wmb(); /* cleared before the peer is let in */
	dlend_spad_write(link, DLEND_SPAD_READY, link->bringup.ack);
	dlend_spads_ring(link);
}

/*
 * DLEND_DO_TEST: write through the window into the peer's control area, and read the pattern back,
 * by this processor.  Return: is it the same?
 */
static bool dlend_session_self_test(struct dlend_link *link)
{
	struct dlend_ctrl __iomem *peer = link->peer_ctrl;
	__le64 nonce = cpu_to_le64(link->bringup.peer_nonce);
	__le64 window = cpu_to_le64(link->window.size);
	__le64 check = cpu_to_le64(dlend_bringup_check(&link->bringup, link->window.size));
	u8 pattern[DLEND_TEST_SIZE], back[DLEND_TEST_SIZE];
	char name[DLEND_NODE_NAME_LEN];

	dlend_node_name(name);
	dlend_bringup_pattern(link->bringup.peer_nonce, pattern);
	memcpy_toio(&peer->test, pattern, sizeof(pattern));
	memcpy_toio(&peer->nonce, &nonce, sizeof(nonce));
	memcpy_toio(&peer->window, &window, sizeof(window));
	memcpy_toio(&peer->check, &check, sizeof(check));
	memcpy_toio(&peer->name, name, sizeof(name));
	wmb(); /* all of it before the first read */
	memcpy_fromio(back, &peer->test, sizeof(back));
	return !memcmp(back, pattern, sizeof(back));
}

/* A peer can begin sessions as often as it likes, so each link has a limit of its own. */
static bool dlend_session_may_log(struct dlend_link *link)
{
	return __ratelimit(&link->sessions.messages);
}

/* The peer reaches only the smaller one of its window and our aperture: limit slots to that. */
static void dlend_session_fit_windows(struct dlend_link *link)
{
	const struct dlend_bringup *b = &link->bringup;
	u64 theirs = (u64)b->peer_aperture_mib << 20, ours = dlend_aperture_size(link->aperture);
	u64 reach = dlend_bringup_reach(b, ours), window = link->window.size;

	WRITE_ONCE(link->window.aperture, theirs);
	dlend_aperture_limit(link->aperture, reach);
	if ((round_down(window, SZ_1M) != theirs || reach != ours) && dlend_session_may_log(link))
		dev_notice(&link->dev, "NTB windows of uneven size: this node's window of %llu MiB leads to %llu MiB of node %u, whose window of %llu MiB leads to %llu MiB here; the smaller counts, each way: set the same BAR size in both firmwares to use all\n",
			   window >> 20, theirs >> 20, b->peer_node, b->peer_window >> 20,
			   ours >> 20);
}

/* DLEND_DO_UP */
static void dlend_session_begin(struct dlend_link *link)
{
	struct dlend_bringup *b = &link->bringup;
	char name[DLEND_NODE_NAME_LEN];

	dlend_session_fit_windows(link);
	memcpy(name, link->ctrl->name, sizeof(name));
	WRITE_ONCE(link->peer, b->peer_node);
	link->restart_why = NULL;
	link->error_said = false;
	spin_lock(&link->lock);
	dlend_name_read(link->peer_name, name);
	/* A thread that sees the new session must also see its peer and window. */
	smp_store_release(&link->session, b->nonce);
	spin_unlock(&link->lock);
	dlend_irq_sources_enable(link, true);
	link->sessions.backoff.up_at = dlend_now_ms();
	atomic_inc(&link->stat.sessions);
	if (dlend_session_may_log(link))
		dev_info(&link->dev, "up: node %u, protocol %u, window %llu MiB, aperture %llu MiB\n",
			 b->peer_node, b->picked,
			 min(link->window.size, link->window.aperture) >> 20,
			 dlend_bringup_reach(b, dlend_aperture_size(link->aperture)) >> 20);
	/* The caller's step then looks for messages: the peer may have been up earlier. */
	queue_work(dlend_wq, &link->announced.work);
}

/* DLEND_DO_END; in any state of the bring-up. */
static void dlend_session_end(struct dlend_link *link)
{
	bool was_up = dlend_link_is_up(link);

	if (was_up)
		WRITE_ONCE(link->announced.down_done, false);
	dlend_irq_sources_enable(link, false);
	dlend_chan_end(link);
	dlend_spads_hide(link);
	if (was_up) {
		dlend_backoff_down(&link->sessions.backoff, dlend_now_ms());
		if (dlend_session_may_log(link))
			dev_info(&link->dev, "down\n");
		queue_work(dlend_wq, &link->announced.work);
	}
}

static void dlend_session_carry_out(struct dlend_link *link, u32 todo)
{
	struct dlend_bringup *b = &link->bringup;

	if (todo & DLEND_DO_END)
		dlend_session_end(link);
	if (todo & DLEND_DO_ACK)
		dlend_spads_ack(link);
	if (todo & DLEND_DO_CLEAR)
		dlend_session_clear_area(link);
	if (todo & DLEND_DO_TEST)
		todo |= dlend_bringup_tested(b, dlend_session_self_test(link), dlend_now_ms());
	if (todo & DLEND_DO_UP)
		dlend_session_begin(link);
	if (todo & DLEND_DO_ERROR)
		dlend_link_set_error(link, b->error);
	if (todo)
		trace_dlend_link_state(dlend_link_name(link), dlend_bringup_name(b->state),
				       b->nonce);
}

/* Steps */

/* Look at this node's control area: nonce, heartbeat, and in state test the peer's pattern. */
static u32 dlend_session_read_area(struct dlend_link *link)
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

/*
 * A heartbeat says that this node has all that it needs for the session, and the peer comes up only
 * when it has seen one.  So the peer comes up only if this node can come up, too.
 */
static void dlend_session_send_beat(struct dlend_link *link)
{
	struct dlend_sessions *s = &link->sessions;

	if (!dlend_bringup_beats(&link->bringup))
		return;
	if (!++s->beat)
		s->beat = 1;
	writel(s->beat, &link->peer_ctrl->heartbeat);
}

/* In state down. Return: false: not now; there is another step later. */
static bool dlend_session_start(struct dlend_link *link)
{
	struct dlend_bringup *b = &link->bringup;

	/* If link_down() of users is still to return: announced.work then queues another step. */
	if (!READ_ONCE(link->announced.down_done) || dlend_setup_prepare(link))
		return false;
	b->node = dlend_node_id();
	b->aperture_mib = dlend_aperture_size(link->aperture) >> 20;
	b->timeout_ms = max(READ_ONCE(dlend_heartbeat_timeout_ms), 2 * dlend_heartbeat_ms);
	dlend_bringup_start(b, get_random_u64());
	dlend_spads_hide(link);
	dlend_spads_publish(link);
	return true;
}

/* Can there be a session, as far as host and hardware are concerned? */
static bool dlend_session_connected(struct dlend_link *link)
{
	if (link->asleep)
		return false;
	if (!dlend_node_id()) {
		dlend_link_set_error(link,
				     "no node id: set dlend_core.node_id to 1..65535, different on every node");
		return false;
	}
	return !link->ops->link_is_up || link->ops->link_is_up(link->hw);
}

/* Look at all that the peer may have changed. Return: milliseconds until the next step */
static unsigned int dlend_session_step(struct dlend_link *link)
{
	struct dlend_bringup *b = &link->bringup;
	u32 spads[DLEND_SPAD_COUNT];
	const char *why;
	u32 wait;

	if (!dlend_session_connected(link)) {
		if (b->state == DLEND_BRINGUP_UP && !link->asleep)
			dlend_link_set_error(link,
					     "the NTB's link went down: the peer is off, or its NTB driver is unloaded");
		dlend_session_carry_out(link, dlend_bringup_link_down(b));
		return DLEND_STEP_IDLE_MS;
	}
	why = xchg(&link->restart_why, NULL);
	if (why)
		dlend_session_carry_out(link, dlend_bringup_abort(b, why));
	wait = dlend_backoff_left(&link->sessions.backoff, dlend_now_ms());
	if (b->state == DLEND_BRINGUP_DOWN && wait)
		return min(wait, DLEND_STEP_IDLE_MS);
	if (b->state == DLEND_BRINGUP_DOWN && !dlend_session_start(link))
		return DLEND_STEP_IDLE_MS;
	if (dlend_spads_read(link, spads))
		dlend_session_carry_out(link, dlend_bringup_spads(b, spads, dlend_now_ms()));
	if (b->state != DLEND_BRINGUP_DOWN)
		dlend_session_carry_out(link, dlend_session_read_area(link));
	if (b->state != DLEND_BRINGUP_DOWN && b->state != DLEND_BRINGUP_UP &&
	    dlend_now_ms() - link->sessions.published_at >= DLEND_REPUBLISH_MS)
		dlend_spads_publish(link);
	dlend_session_send_beat(link);
	if (b->state != DLEND_BRINGUP_UP)
		return DLEND_STEP_HANDSHAKE_MS;
	/* A doorbell can be lost, and an index be overwritten: write and look again. */
	dlend_chan_refresh(link);
	dlend_doorbell_look(link);
	return max(READ_ONCE(dlend_heartbeat_ms), DLEND_STEP_MIN_MS);
}

static void dlend_session_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, state_work.work);
	unsigned int ms;

	mutex_lock(&link->state_lock);
	if (link->hw_gone) {
		mutex_unlock(&link->state_lock);
		return;
	}
	ms = dlend_session_step(link);
	WRITE_ONCE(link->stepped_at, jiffies);
	mutex_unlock(&link->state_lock);
	queue_delayed_work(dlend_wq, &link->state_work, msecs_to_jiffies(ms));
}

void dlend_session_init(struct dlend_link *link)
{
	mutex_init(&link->state_lock);
	mutex_init(&link->announced.lock);
	INIT_WORK(&link->announced.work, dlend_announce_work);
	link->announced.down_done = true;
	link->stepped_at = jiffies;
	ratelimit_state_init(&link->sessions.messages, DLEND_SESSION_LINES_IN,
			     DLEND_SESSION_LINES);
	INIT_DELAYED_WORK(&link->state_work, dlend_session_work);
	link->bringup.version = DLEND_MY_VERSION;
	link->bringup.loop = link->loop;
}

void dlend_session_open(struct dlend_link *link, bool asleep)
{
	mutex_lock(&link->state_lock);
	link->bringup.required = dlend_setting_of(link, DLEND_SETTING_PEER, 0);
	dlend_directs_recall(link);
	link->asleep |= asleep;
	if (!link->asleep && link->ops->link_enable)
		link->ops->link_enable(link->hw, true);
	mutex_unlock(&link->state_lock);
	dlend_link_queue_step(link);
}

void dlend_session_suspend(struct dlend_link *link, bool on)
{
	mutex_lock(&link->state_lock);
	if (!link->hw_gone && link->asleep != on) {
		link->asleep = on;
		if (on) {
			dlend_session_carry_out(link, dlend_bringup_link_down(&link->bringup));
			dlend_setup_close(link);
		} else if (link->ops->link_enable) {
			link->ops->link_enable(link->hw, true);
		}
	}
	mutex_unlock(&link->state_lock);
	/* Users must be done with the old session before devices stop. */
	if (on)
		flush_work(&link->announced.work);
	dlend_link_queue_step(link);
}

void dlend_session_remove(struct dlend_link *link)
{
	disable_delayed_work_sync(&link->state_work);
	mutex_lock(&link->state_lock);
	WRITE_ONCE(link->hw_gone, true);
	dlend_session_carry_out(link, dlend_bringup_link_down(&link->bringup));
	mutex_unlock(&link->state_lock);
	flush_work(&link->announced.work);
	disable_work_sync(&link->announced.work);
	dlend_link_catch_up(link, DLEND_TO_NOBODY, UINT_MAX);
	/* No source is on: nothing is read through the window any more. */
	cancel_work_sync(&link->sources.work);
	dlend_chan_stop(link);
	mutex_lock(&link->state_lock);
	dlend_setup_undo(link);
	mutex_unlock(&link->state_lock);
}
