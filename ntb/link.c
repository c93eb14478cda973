// SPDX-License-Identifier: GPL-2.0
/*
 * Links as objects: references, the list of links, a link's session and peer, the users of links
 * (lender/ and borrower/), and the administrator's settings for links.
 *
 * This file does not read what is in a message: it looks at the type only, to find the user that
 * handles it.  It calls no hardware.  If a lower file of ntb/ needs something of an upper one, it
 * calls a function here, which queues a work item that the upper file has set up (see link.h).
 */
#include <linux/jiffies.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/string.h>
#include <linux/utsname.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include "link.h"

static unsigned int dlend_node;		/* this node's id; 0: not set yet; does not change later */
static char dlend_named[DLEND_NODE_NAME_LEN];	/* node_name; empty: the host's name is used */

static DEFINE_MUTEX(dlend_links_lock);		/* dlend_links, dlend_settings */
static LIST_HEAD(dlend_links);			/* struct dlend_link */
static LIST_HEAD(dlend_settings);		/* struct dlend_link_setting */

/* The users, lender/ and borrower/, by the side whose messages they get; NULL: there is none. */
static struct dlend_link_user __rcu *dlend_users[DLEND_MSG_SIDES];
DEFINE_MUTEX(dlend_users_lock);		/* one user is added or removed at a time */
DEFINE_STATIC_SRCU(dlend_users_srcu);	/* readers of dlend_users */

struct workqueue_struct *dlend_wq, *dlend_poll_wq;	/* see dlend_links_init() */

/*
 * No locks: lockdep takes them for such.  Code "holds" one while it waits for a peer (see link.h
 * and dlend_waits_for_no_peer()).
 */
struct lockdep_map dlend_peer_map, dlend_peer_core_map;
DLEND_EXPORT(dlend_peer_map);
DLEND_EXPORT(dlend_peer_core_map);

/* @fn runs without dlend_links_lock: a reference keeps each link that was there at the begin. */
int dlend_links_each(bool up, int (*fn)(struct dlend_link *link, void *arg), void *arg)
{
	struct dlend_link *link, **all;
	unsigned int i, n = 0;
	int err = 0;

	mutex_lock(&dlend_links_lock);
	all = kcalloc(list_count_nodes(&dlend_links) + 1, sizeof(*all), GFP_KERNEL | __GFP_NOFAIL);
	list_for_each_entry(link, &dlend_links, node)
		all[n++] = dlend_link_get(link);
	mutex_unlock(&dlend_links_lock);
	for (i = 0; i < n; i++) {
		if (!err && (!up || dlend_link_is_up(all[i])))
			err = fn(all[i], arg);
		dlend_link_put(all[i]);
	}
	kfree(all);
	return err;
}
DLEND_EXPORT(dlend_links_each);

void dlend_link_register(struct dlend_link *link)
{
	dlend_waits_for_no_peer(&dlend_links_lock);
	guard(mutex)(&dlend_links_lock);
	list_add_tail(&link->node, &dlend_links);
}

void dlend_link_unregister(struct dlend_link *link)
{
	guard(mutex)(&dlend_links_lock);
	list_del_init(&link->node);
}

/* This node */

static int dlend_link_queue_step_one(struct dlend_link *link, void *unused)
{
	dlend_link_queue_step(link);
	return 0;
}

static int dlend_node_set(const char *val, const struct kernel_param *kp)
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
	if (dlend_node && dlend_node != id) {
		pr_err("dlend: node_id is %u already: peers know this node by it; unload dlend_core to change it\n",
		       dlend_node);
		return -EBUSY;
	}
	WRITE_ONCE(dlend_node, id);
	/* All links, up or not: those that wait for the id can begin. */
	dlend_links_each(false, dlend_link_queue_step_one, NULL);
	return 0;
}

static const struct kernel_param_ops dlend_node_ops = {
	.set = dlend_node_set,
	.get = param_get_uint,
};
module_param_cb(node_id, &dlend_node_ops, &dlend_node, 0644);
MODULE_PARM_DESC(node_id, "id of this node in the fabric, 1 to 65535; links stay down without it");

u16 dlend_node_id(void)
{
	return READ_ONCE(dlend_node);
}
DLEND_EXPORT(dlend_node_id);

void dlend_node_name(char *name)
{
	dlend_name_read(name, dlend_named[0] ? dlend_named : init_utsname()->nodename);
}

static int dlend_node_name_set(const char *val, const struct kernel_param *kp)
{
	return strscpy(dlend_named, val, sizeof(dlend_named)) < 0 ? -ENAMETOOLONG : 0;
}

static int dlend_node_name_get(char *buf, const struct kernel_param *kp)
{
	char name[DLEND_NODE_NAME_LEN];

	dlend_node_name(name);
	return sysfs_emit(buf, "%s\n", name);
}

static const struct kernel_param_ops dlend_node_name_ops = {
	.set = dlend_node_name_set,
	.get = dlend_node_name_get,
};
module_param_cb(node_name, &dlend_node_name_ops, NULL, 0444);
MODULE_PARM_DESC(node_name, "name of this node, for people on all nodes (default: the host's name)");

const char *dlend_node_label(u16 node, char *label)
{
	struct dlend_link *link;

	snprintf(label, DLEND_NODE_LABEL_LEN, "%u", node);
	mutex_lock(&dlend_links_lock);
	list_for_each_entry(link, &dlend_links, node) {
		spin_lock(&link->lock);
		if (link->peer == node && link->peer_name[0])
			snprintf(label, DLEND_NODE_LABEL_LEN, "%u (%s)", node, link->peer_name);
		spin_unlock(&link->lock);
	}
	mutex_unlock(&dlend_links_lock);
	return label;
}
DLEND_EXPORT(dlend_node_label);

/* References, session and peer of a link */

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

u64 dlend_link_session(const struct dlend_link *link)
{
	/* Pairs with the release in dlend_session_begin(): the caller also sees peer and window. */
	return smp_load_acquire(&link->session);
}
DLEND_EXPORT(dlend_link_session);

u16 dlend_link_peer(const struct dlend_link *link)
{
	return READ_ONCE(link->peer);
}
DLEND_EXPORT(dlend_link_peer);

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
	return READ_ONCE(link->hw_gone) ? NULL : READ_ONCE(link->aperture);
}
DLEND_EXPORT(dlend_link_aperture);

/* Work for upper files of ntb/ */

void dlend_link_queue_step(struct dlend_link *link)
{
	if (!READ_ONCE(link->hw_gone))
		mod_delayed_work(dlend_wq, &link->state_work, 0);
}
DLEND_EXPORT(dlend_link_queue_step);

void dlend_link_restart_current(struct dlend_link *link, const char *why)
{
	WRITE_ONCE(link->restart_why, why);
	dlend_link_queue_step(link);
}

void dlend_link_restart(const struct dlend_session_ref *ref, const char *why)
{
	if (dlend_session_live(ref))
		dlend_link_restart_current(ref->link, why);
}
DLEND_EXPORT(dlend_link_restart);

void dlend_link_queue_rx(struct dlend_link *link)
{
	queue_work(dlend_poll_wq, &link->rx_work);
}

void dlend_uevent_state(struct device *dev, const char *state)
{
	char text[32];
	char *env[2] = { text };

	snprintf(text, sizeof(text), "DLEND_STATE=%s", state);
	kobject_uevent_env(&dev->kobj, KOBJ_CHANGE, env);
}
DLEND_EXPORT(dlend_uevent_state);

/* Users */

int dlend_user_add(struct dlend_link_user *user)
{
	lockdep_assert_held(&dlend_users_lock);
	if (rcu_access_pointer(dlend_users[user->side]))
		return -EBUSY;
	rcu_assign_pointer(dlend_users[user->side], user);
	return 0;
}

void dlend_user_del(struct dlend_link_user *user)
{
	lockdep_assert_held(&dlend_users_lock);
	RCU_INIT_POINTER(dlend_users[user->side], NULL);
	synchronize_srcu(&dlend_users_srcu);
}

/*
 * Each user has an SRCU read section of its own, not one around the loop: so dlend_user_del() waits
 * for the callback that runs, which may take long, but not for those that follow.
 */
void dlend_users_call(void (*fn)(struct dlend_link_user *user, void *arg), void *arg)
{
	struct dlend_link_user *user;
	unsigned int side;
	int srcu;

	for (side = 0; side < DLEND_MSG_SIDES; side++) {
		srcu = srcu_read_lock(&dlend_users_srcu);
		user = srcu_dereference(dlend_users[side], &dlend_users_srcu);
		if (user)
			fn(user, arg);
		srcu_read_unlock(&dlend_users_srcu, srcu);
	}
}

int dlend_users_message(struct dlend_link *link, const struct dlend_msg *msg,
			struct dlend_msg *reply)
{
	enum dlend_msg_side side = dlend_msg_to(le16_to_cpu(msg->type));
	int srcu = srcu_read_lock(&dlend_users_srcu), status = -EOPNOTSUPP;
	struct dlend_link_user *user = srcu_dereference(dlend_users[side], &dlend_users_srcu);

	if (user)
		status = user->message(link, msg, reply);
	else
		dlend_link_drop(link, DLEND_DROP_NO_USER);
	srcu_read_unlock(&dlend_users_srcu, srcu);
	return status;
}

/*
 * Settings.  They are kept by the link's name, not in struct dlend_link, so that the link that the
 * NTB gets when its driver is bound again has them, too.  They end with the module.
 */

/* @link: name of the link; all under dlend_links_lock */
struct dlend_link_setting {
	struct list_head node;
	enum dlend_setting what;
	u16 value;
	char link[];
};

static struct dlend_link_setting *dlend_setting_find(const char *link, enum dlend_setting what)
{
	struct dlend_link_setting *s;

	list_for_each_entry(s, &dlend_settings, node)
		if (s->what == what && !strcmp(s->link, link))
			return s;
	return NULL;
}

int dlend_setting_note(struct dlend_link *link, enum dlend_setting what, u16 value)
{
	const char *name = dlend_link_name(link);
	struct dlend_link_setting *s;

	guard(mutex)(&dlend_links_lock);
	s = dlend_setting_find(name, what);
	if (!s) {
		s = kzalloc(struct_size(s, link, strlen(name) + 1), GFP_KERNEL);
		if (!s)
			return -ENOMEM;
		s->what = what;
		memcpy(s->link, name, strlen(name));
		list_add(&s->node, &dlend_settings);
	}
	s->value = value;
	return 0;
}

u16 dlend_setting_of(struct dlend_link *link, enum dlend_setting what, u16 unless)
{
	struct dlend_link_setting *s;

	guard(mutex)(&dlend_links_lock);
	s = dlend_setting_find(dlend_link_name(link), what);
	return s ? s->value : unless;
}

/* Workqueues */

void dlend_links_exit(void)
{
	struct dlend_link_setting *s, *next;

	list_for_each_entry_safe(s, next, &dlend_settings, node)
		kfree(s);
	if (dlend_poll_wq)
		destroy_workqueue(dlend_poll_wq);
	if (dlend_wq)
		destroy_workqueue(dlend_wq);
}

/*
 * dlend_wq runs state_work (heartbeats) and announced.work of all links, at high priority.
 * dlend_poll_wq runs the work that a peer can keep busy as long as it likes: rx_work,
 * doorbell.work and sources.work.  For requests of a peer each link has one more workqueue
 * (channel.c).
 *
 * All have WQ_MEM_RECLAIM: this host, or the peer, may swap or write back to a disk that is lent
 * over these links.  The first two are apart, so that a peer that rings or sends without end gets
 * only a thread of ordinary priority, and does not keep the rescuer busy that heartbeats need when
 * memory is short.
 */
int dlend_links_init(void)
{
	const unsigned int flags = WQ_UNBOUND | WQ_MEM_RECLAIM;
	static struct lock_class_key key, core_key;

	lockdep_init_map(&dlend_peer_map, "dlend_peer", &key, 0);
	lockdep_init_map(&dlend_peer_core_map, "dlend_peer_core", &core_key, 0);
	dlend_wq = alloc_workqueue("dlend", flags | WQ_HIGHPRI, 0);
	dlend_poll_wq = alloc_workqueue("dlend_poll", flags, 0);
	if (dlend_wq && dlend_poll_wq)
		return 0;
	dlend_links_exit();
	return -ENOMEM;
}
