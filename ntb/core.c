// SPDX-License-Identifier: GPL-2.0
/*
 * Links and their users: who is there, and who is told what.
 *
 * Knows no hardware (that is behind dlend_link_hw_ops) and nothing of what users do with a link.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <dlend/compat.h>
#include <dlend/kind.h>
#include <dlend/names.h>
#include <iommu/aperture.h>
#include "core.h"

#define CREATE_TRACE_POINTS
#include <ntb/trace.h>

static unsigned int node_id;
/* The sum, one more beat and a reset are less than 3 s: that is how soon a device is fenced. */
unsigned int dlend_heartbeat_ms = 250;
unsigned int dlend_heartbeat_timeout_ms = 2250;
unsigned int dlend_call_timeout_ms = 5000;
bool dlend_irq_readback = true;

/* All links, and all users by number. */
static DEFINE_MUTEX(registry_lock);
static DEFINE_MUTEX(users_lock);	/* one comes or leaves at a time: numbers are used again */
static LIST_HEAD(links);
static struct dlend_link_user __rcu *users[DLEND_MAX_USERS];
DEFINE_STATIC_SRCU(users_srcu);

struct workqueue_struct *dlend_wq, *dlend_poll_wq;

static int set_node_id(const char *val, const struct kernel_param *kp)
{
	unsigned int id;
	int err = kstrtouint(val, 0, &id);

	if (err)
		return err;
	if (!id || id > U16_MAX) {
		pr_err("dlend: node_id=%u: a node id is 1 to 65535, and different on every node\n",
		       id);
		return -EINVAL;
	}
	if (node_id && node_id != id) {
		pr_err("dlend: node_id is %u already: peers know this node by it; unload dlend_core to change it\n",
		       node_id);
		return -EBUSY;
	}
	WRITE_ONCE(node_id, id);
	dlend_links_kick();
	return 0;
}

static const struct kernel_param_ops node_id_ops = {
	.set = set_node_id,
	.get = param_get_uint,
};
module_param_cb(node_id, &node_id_ops, &node_id, 0644);
MODULE_PARM_DESC(node_id, "id of this node in the fabric, 1 to 65535; links stay down without it");
module_param_named(heartbeat_ms, dlend_heartbeat_ms, uint, 0644);
MODULE_PARM_DESC(heartbeat_ms, "milliseconds between heartbeats");
module_param_named(heartbeat_timeout_ms, dlend_heartbeat_timeout_ms, uint, 0644);
MODULE_PARM_DESC(heartbeat_timeout_ms, "milliseconds without a heartbeat until a peer counts as dead");
module_param_named(call_timeout_ms, dlend_call_timeout_ms, uint, 0644);
MODULE_PARM_DESC(call_timeout_ms, "milliseconds until a call to a peer gives up");
module_param_named(p2p_window_percent, dlend_p2p_window_percent, uint, 0644);
MODULE_PARM_DESC(p2p_window_percent, "how much of a window peer-to-peer may take; the rest is for RAM and BARs of guests");
module_param_named(irq_readback, dlend_irq_readback, bool, 0644);
MODULE_PARM_DESC(irq_readback, "read through the window before counting an interrupt of a lent device, so that it does not overtake the device's data; off only where it was measured that it cannot");

u16 dlend_node_id(void)
{
	return READ_ONCE(node_id);
}
DLEND_EXPORT(dlend_node_id);

/* kind.c and names.c are pure. */
DLEND_EXPORT(dlend_kind);
DLEND_EXPORT(dlend_addr_name);
DLEND_EXPORT(dlend_offer_state_name);
DLEND_EXPORT(dlend_irq_mode_name);

static void release_link(struct device *dev)
{
	struct dlend_link *link = container_of(dev, struct dlend_link, dev);

	dlend_session_free(link);
	dlend_chan_free(link);
	xa_destroy(&link->sinks);
	kfree(link);
}

const struct class dlend_link_class = {
	.name = "dlend_link",
	.dev_release = release_link,
};

struct dlend_link *dlend_link_get(struct dlend_link *link)
{
	get_device(&link->dev);
	return link;
}
DLEND_EXPORT(dlend_link_get);

void dlend_link_put(struct dlend_link *link)
{
	put_device(&link->dev);
}
DLEND_EXPORT(dlend_link_put);

bool dlend_link_is_up(const struct dlend_link *link)
{
	return dlend_live_session(link);
}
DLEND_EXPORT(dlend_link_is_up);

u16 dlend_link_peer(const struct dlend_link *link)
{
	return READ_ONCE(link->peer);
}
DLEND_EXPORT(dlend_link_peer);

u16 dlend_link_version(const struct dlend_link *link)
{
	return READ_ONCE(link->bringup.picked);
}
DLEND_EXPORT(dlend_link_version);

u64 dlend_link_session(const struct dlend_link *link)
{
	return dlend_live_session(link);
}
DLEND_EXPORT(dlend_link_session);

struct dlend_session_ref dlend_session_hold(struct dlend_link *link)
{
	return (struct dlend_session_ref){
		.link = dlend_link_get(link),
		.session = dlend_live_session(link),
	};
}
DLEND_EXPORT(dlend_session_hold);

void dlend_session_drop(struct dlend_session_ref *ref)
{
	if (ref->link)
		dlend_link_put(ref->link);
	ref->link = NULL;
}
DLEND_EXPORT(dlend_session_drop);

bool dlend_session_live(const struct dlend_session_ref *ref)
{
	return ref->link && ref->session && dlend_live_session(ref->link) == ref->session;
}
DLEND_EXPORT(dlend_session_live);

const char *dlend_link_name(const struct dlend_link *link)
{
	return dev_name(&link->dev);
}
DLEND_EXPORT(dlend_link_name);

struct device *dlend_link_dev(struct dlend_link *link)
{
	return &link->dev;
}
DLEND_EXPORT(dlend_link_dev);

struct dlend_aperture *dlend_link_aperture(struct dlend_link *link)
{
	return READ_ONCE(link->gone) ? NULL : READ_ONCE(link->aperture);
}
DLEND_EXPORT(dlend_link_aperture);

/* References to all links, so that callbacks run without the registry's lock. */
static struct dlend_link **snapshot(unsigned int *count)
{
	struct dlend_link *link, **all;
	unsigned int n = 0;

	mutex_lock(&registry_lock);
	all = kcalloc(list_count_nodes(&links) + 1, sizeof(*all), GFP_KERNEL | __GFP_NOFAIL);
	list_for_each_entry(link, &links, node)
		all[n++] = dlend_link_get(link);
	mutex_unlock(&registry_lock);
	*count = n;
	return all;
}

static void drop_snapshot(struct dlend_link **all, unsigned int count)
{
	while (count--)
		dlend_link_put(all[count]);
	kfree(all);
}

int dlend_link_for_each(int (*fn)(struct dlend_link *link, void *arg), void *arg)
{
	struct dlend_link **all;
	unsigned int i, n;
	int err = 0;

	all = snapshot(&n);
	for (i = 0; i < n && !err; i++)
		if (dlend_link_is_up(all[i]))
			err = fn(all[i], arg);
	drop_snapshot(all, n);
	return err;
}
DLEND_EXPORT(dlend_link_for_each);

void dlend_links_kick(void)
{
	struct dlend_link *link;

	mutex_lock(&registry_lock);
	list_for_each_entry(link, &links, node)
		dlend_session_kick(link);
	mutex_unlock(&registry_lock);
}

void dlend_links_sleep(bool on)
{
	struct dlend_link **all;
	unsigned int i, n;

	all = snapshot(&n);
	for (i = 0; i < n; i++)
		dlend_session_sleep(all[i], on);
	drop_snapshot(all, n);
}

static void users_each(void (*call)(const struct dlend_link_user *user))
{
	struct dlend_link_user *user;
	unsigned int i;
	int srcu;

	srcu = srcu_read_lock(&users_srcu);
	for (i = 0; i < DLEND_MAX_USERS; i++) {
		user = srcu_dereference(users[i], &users_srcu);
		if (user)
			call(user);
	}
	srcu_read_unlock(&users_srcu, srcu);
}

static void user_resume(const struct dlend_link_user *user)
{
	if (user->resume)
		user->resume();
}

static void user_shutdown(const struct dlend_link_user *user)
{
	if (user->shutdown)
		user->shutdown();
}

void dlend_users_resume(void)
{
	users_each(user_resume);
}

void dlend_users_shutdown(void)
{
	users_each(user_shutdown);
}

int dlend_users_suspend(void)
{
	struct dlend_link_user *user;
	int srcu, err = 0;
	unsigned int i;

	srcu = srcu_read_lock(&users_srcu);
	for (i = 0; i < DLEND_MAX_USERS && !err; i++) {
		user = srcu_dereference(users[i], &users_srcu);
		if (user && user->suspend)
			err = user->suspend();
	}
	srcu_read_unlock(&users_srcu, srcu);
	if (err)
		dlend_users_resume();
	return err;
}

/* The user that handles @type, or NULL; valid until dlend_user_put(). */
struct dlend_link_user *dlend_user_get(u16 type, int *srcu) __acquires(&users_srcu)
{
	struct dlend_link_user *user;
	unsigned int i;

	*srcu = srcu_read_lock(&users_srcu);
	for (i = 0; i < DLEND_MAX_USERS; i++) {
		user = srcu_dereference(users[i], &users_srcu);
		if (user && user->message && user->side == dlend_msg_to(type))
			return user;
	}
	return NULL;
}

void dlend_user_put(int srcu) __releases(&users_srcu)
{
	srcu_read_unlock(&users_srcu, srcu);
}

/* Under told_lock: the callbacks of one link never overlap. */
static void tell_up(struct dlend_link *link, unsigned int i, struct dlend_link_user *user)
{
	if (!link->told_session || test_and_set_bit(i, &link->told))
		return;
	if (user->link_up)
		user->link_up(link);
}

/* Whether it knows of the session or not: it may have handled messages of it. */
static void tell_down(struct dlend_link *link, unsigned int i, struct dlend_link_user *user)
{
	if (user->link_down)
		user->link_down(link);
}

/* For every user; one that is not here any more is told by dlend_link_user_unregister(). */
static void tell_all(struct dlend_link *link,
		     void (*tell)(struct dlend_link *, unsigned int, struct dlend_link_user *))
{
	struct dlend_link_user *user;
	unsigned int i;
	int srcu;

	for (i = 0; i < DLEND_MAX_USERS; i++) {
		srcu = srcu_read_lock(&users_srcu);
		user = srcu_dereference(users[i], &users_srcu);
		if (user)
			tell(link, i, user);
		srcu_read_unlock(&users_srcu, srcu);
	}
}

/*
 * Message handlers of the old session may still run.  They get a moment to end; if they do not,
 * users are told without them, and once more after them: what they did meanwhile has to be undone.
 */
static void end_told_session(struct dlend_link *link)
{
	bool idle = dlend_chan_idle(link, 50);

	tell_all(link, tell_down);
	if (!idle) {
		dlend_chan_drain(link);
		tell_all(link, tell_down);
	}
	link->told = 0;
	link->told_session = 0;
}

/* Bring users up to date with what the link is now. */
static void dlend_told_work(struct work_struct *work)
{
	struct dlend_link *link = container_of(work, struct dlend_link, told_work);
	u64 session;

	mutex_lock(&link->told_lock);
	session = dlend_live_session(link);
	/* A new session waits for quiet, so a live one is told or the first since then. */
	if (session && !link->told_session) {
		link->told_session = session;
		tell_all(link, tell_up);
	} else if (!session && !READ_ONCE(link->quiet)) {
		/* Also if it was over before anybody was told. */
		end_told_session(link);
		WRITE_ONCE(link->quiet, true);
	}
	mutex_unlock(&link->told_lock);
	dlend_session_kick(link);
}

static int user_slot(struct dlend_link_user *user)
{
	unsigned int i;

	for (i = 0; i < DLEND_MAX_USERS; i++)
		if (rcu_access_pointer(users[i]) == user)
			return i;
	return -ENOENT;
}

int dlend_link_user_register(struct dlend_link_user *user)
{
	struct dlend_link **all;
	unsigned int i, n;
	int slot;

	mutex_lock(&users_lock);
	mutex_lock(&registry_lock);
	slot = user_slot(NULL);
	if (slot >= 0)
		rcu_assign_pointer(users[slot], user);
	mutex_unlock(&registry_lock);
	all = snapshot(&n);
	for (i = 0; i < n && slot >= 0; i++) {
		mutex_lock(&all[i]->told_lock);
		tell_up(all[i], slot, user);
		mutex_unlock(&all[i]->told_lock);
	}
	drop_snapshot(all, n);
	mutex_unlock(&users_lock);
	return slot < 0 ? -ENOSPC : 0;
}
DLEND_EXPORT(dlend_link_user_register);

void dlend_link_user_unregister(struct dlend_link_user *user)
{
	struct dlend_link **all;
	unsigned int i, n;
	int slot;

	mutex_lock(&users_lock);
	mutex_lock(&registry_lock);
	slot = user_slot(user);
	if (slot >= 0)
		RCU_INIT_POINTER(users[slot], NULL);
	mutex_unlock(&registry_lock);
	/* No message handler and no callback after this one ... */
	synchronize_srcu(&users_srcu);
	all = snapshot(&n);
	for (i = 0; i < n && !WARN_ON(slot < 0); i++) {
		mutex_lock(&all[i]->told_lock);
		/* ... but the last link_down, of every link: one may have gone down meanwhile. */
		tell_down(all[i], slot, user);
		clear_bit(slot, &all[i]->told);
		mutex_unlock(&all[i]->told_lock);
	}
	drop_snapshot(all, n);
	mutex_unlock(&users_lock);
}
DLEND_EXPORT(dlend_link_user_unregister);

u64 dlend_link_doorbells(void)
{
	return BIT_ULL(DLEND_DB_MSG) | BIT_ULL(DLEND_DB_IRQ);
}
DLEND_EXPORT(dlend_link_doorbells);

void dlend_link_event(struct dlend_link *link)
{
	dlend_session_kick(link);
}
DLEND_EXPORT(dlend_link_event);

struct dlend_link *dlend_link_add(struct device *parent, const struct dlend_link_hw_ops *ops,
				  void *hw)
{
	const char *name = parent ? dev_name(parent) : ops->type;
	struct dlend_link *link = kzalloc_obj(*link);
	int err;

	if (!link)
		return ERR_PTR(-ENOMEM);
	link->ops = ops;
	link->reach = ops->window ? &dlend_reach_window : &dlend_reach_self;
	link->hw = hw;
	link->quiet = true;
	spin_lock_init(&link->lock);
	mutex_init(&link->told_lock);
	INIT_WORK(&link->told_work, dlend_told_work);
	err = dlend_chan_init(link, name);
	if (err) {
		kfree(link);
		return ERR_PTR(err);
	}
	dlend_session_init(link);
	dlend_irq_init(link);
	dlend_doorbell_init(link);
	device_initialize(&link->dev);
	link->dev.class = &dlend_link_class;
	link->dev.parent = parent;
	link->dev.groups = dlend_link_groups;
	err = dev_set_name(&link->dev, "%s", name);
	if (!err)
		err = device_add(&link->dev);
	if (err) {
		put_device(&link->dev);
		return ERR_PTR(err);
	}
	dlend_link_debugfs_add(link);
	mutex_lock(&registry_lock);
	list_add_tail(&link->node, &links);
	mutex_unlock(&registry_lock);
	ops->link_enable(hw, true);
	dlend_session_kick(link);
	return link;
}
DLEND_EXPORT(dlend_link_add);

void dlend_link_remove(struct dlend_link *link)
{
	/* In the registry until the last link_down: a user that leaves meanwhile finds it there. */
	dlend_session_remove(link);
	mutex_lock(&registry_lock);
	list_del_init(&link->node);
	mutex_unlock(&registry_lock);
	dlend_link_debugfs_remove(link);
	device_del(&link->dev);
	put_device(&link->dev);
}
DLEND_EXPORT(dlend_link_remove);

/* The pure parts are exported here: their own files know nothing of modules. */
DLEND_EXPORT(dlend_msg_init);
DLEND_EXPORT(dlend_msg_check);
DLEND_EXPORT(dlend_msg_seal);
DLEND_EXPORT(dlend_msg_payload_len);
DLEND_EXPORT(dlend_msg_type_name);

static void destroy_queues(void)
{
	if (dlend_poll_wq)
		destroy_workqueue(dlend_poll_wq);
	if (dlend_wq)
		destroy_workqueue(dlend_wq);
}

/*
 * With WQ_MEM_RECLAIM all: memory may be waiting to be written to a disk that is lent over these
 * links, here or on the peer.  Two, so that a peer that rings or sends without end has an ordinary
 * thread's priority for it, and does not keep the one rescuer from a heartbeat.  Requests have one
 * for each link (chan.c).
 */
static int create_queues(void)
{
	const unsigned int flags = WQ_UNBOUND | WQ_MEM_RECLAIM;

	dlend_wq = alloc_workqueue("dlend", flags | WQ_HIGHPRI, 0);
	dlend_poll_wq = alloc_workqueue("dlend_poll", flags, 0);
	if (dlend_wq && dlend_poll_wq)
		return 0;
	destroy_queues();
	return -ENOMEM;
}

static int __init dlend_core_init(void)
{
	int err = create_queues();

	if (err)
		return err;
	err = class_register(&dlend_link_class);
	if (err)
		goto free_queues;
	dlend_debugfs_init();
	err = dlend_pm_init();
	if (err)
		goto free_debugfs;
	if (!node_id)
		pr_warn("dlend: no node id, links stay down: set dlend_core.node_id to 1..65535, different on every node\n");
	return 0;

free_debugfs:
	dlend_debugfs_exit();
	class_unregister(&dlend_link_class);
free_queues:
	destroy_queues();
	return err;
}

static void __exit dlend_core_exit(void)
{
	dlend_loop_exit();
	dlend_pm_exit();
	dlend_debugfs_exit();
	class_unregister(&dlend_link_class);
	destroy_queues();
}

module_init(dlend_core_init);
module_exit(dlend_core_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("dlend: links between hosts and their apertures");
