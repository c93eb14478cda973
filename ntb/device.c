// SPDX-License-Identifier: GPL-2.0
/*
 * The device of a link, /sys/class/dlend_link/LINK: its attributes, which are described in
 * docs/ABI/sysfs-class-dlend_link; its counters in debugfs; and how links are put together from
 * their parts and taken apart.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include <dlend/root.h>
#include "link.h"

static struct dlend_link *to_dlend_link(struct device *dev)
{
	return container_of(dev, struct dlend_link, dev);
}

/* A read-only attribute; @value is read without link->state_lock. */
#define DLEND_LINK_ATTR(name, format, value)							\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf)	\
{												\
	struct dlend_link *link = to_dlend_link(dev);						\
												\
	return sysfs_emit(buf, format "\n", value);						\
}												\
static DEVICE_ATTR_RO(name)

DLEND_LINK_ATTR(type, "%s", link->ops->type);
DLEND_LINK_ATTR(state, "%s", dlend_bringup_name(READ_ONCE(link->bringup.state)));
DLEND_LINK_ATTR(peer_node, "%u", dlend_link_peer(link));
DLEND_LINK_ATTR(version, "%u", READ_ONCE(link->bringup.picked));
DLEND_LINK_ATTR(session, "%llx", dlend_link_session(link));
DLEND_LINK_ATTR(window_bytes, "%llu", dlend_link_window_bytes(link));

static ssize_t peer_name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = to_dlend_link(dev);
	ssize_t len;

	spin_lock(&link->lock);
	len = sysfs_emit(buf, "%s\n", link->peer_name);
	spin_unlock(&link->lock);
	return len;
}
static DEVICE_ATTR_RO(peer_name);

static ssize_t required_peer_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_dlend_link(dev)->bringup.required));
}

static ssize_t required_peer_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t len)
{
	struct dlend_link *link = to_dlend_link(dev);
	struct dlend_bringup *b = &link->bringup;
	u16 node;
	int err = kstrtou16(buf, 0, &node);

	if (err)
		return err;
	/* The peer of the loop is this node, and cannot be another one. */
	if (link->loop)
		return -EOPNOTSUPP;
	guard(mutex)(&link->state_lock);
	err = dlend_setting_note(link, DLEND_SETTING_PEER, node);
	if (err)
		return err;
	b->required = node;
	if (node && b->peer_node && b->peer_node != node)
		dlend_link_restart_current(link,
					   "the admin has named another node as this link's peer");
	return len;
}
static DEVICE_ATTR_RW(required_peer);

/* All is 0 as long as there is no aperture. */
static struct dlend_aperture_stat dlend_link_stat(struct dlend_link *link)
{
	return dlend_aperture_stat(dlend_link_aperture(link));
}

DLEND_LINK_ATTR(aperture_bytes, "%llu", dlend_link_stat(link).size);
DLEND_LINK_ATTR(aperture_free_bytes, "%llu", dlend_link_stat(link).free);
DLEND_LINK_ATTR(aperture_largest_free_bytes, "%llu", dlend_link_stat(link).largest_free);

static ssize_t slots_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_aperture_stat st = dlend_link_stat(to_dlend_link(dev));

	return sysfs_emit(buf, "ctrl %u ram %u bar %u irq %u p2p %u\n", st.slots[DLEND_SLOT_CTRL],
			  st.slots[DLEND_SLOT_RAM], st.slots[DLEND_SLOT_BAR],
			  st.slots[DLEND_SLOT_IRQ], st.slots[DLEND_SLOT_P2P]);
}
static DEVICE_ATTR_RO(slots);

static ssize_t heartbeat_age_ms_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = to_dlend_link(dev);

	guard(mutex)(&link->state_lock);
	return sysfs_emit(buf, "%llu\n", dlend_bringup_age(&link->bringup, dlend_now_ms()));
}
static DEVICE_ATTR_RO(heartbeat_age_ms);

static ssize_t self_test_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = to_dlend_link(dev);
	const struct dlend_bringup *b = &link->bringup;

	guard(mutex)(&link->state_lock);
	if (b->state == DLEND_BRINGUP_UP)
		return sysfs_emit(buf, "passed\n");
	if (b->state == DLEND_BRINGUP_TEST && b->error[0])
		return sysfs_emit(buf, "%s\n", b->error);
	return sysfs_emit(buf, "not run\n");
}
static DEVICE_ATTR_RO(self_test);

static ssize_t last_error_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = to_dlend_link(dev);

	guard(mutex)(&link->state_lock);
	return sysfs_emit(buf, "%s\n", link->error);
}
static DEVICE_ATTR_RO(last_error);

static ssize_t root_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_root root;
	int at;

	if (!dlend_root_of_link(to_dlend_link(dev), &root))
		return -ENODATA;
	at = dlend_root_emit(buf, 0, &root);
	return at + sysfs_emit_at(buf, at, "\n");
}
static DEVICE_ATTR_RO(root);

static ssize_t requester_ids_free_show(struct device *dev, struct device_attribute *attr,
				       char *buf)
{
	struct dlend_link *link = to_dlend_link(dev);
	int count;

	guard(mutex)(&link->state_lock);
	if (link->hw_gone)
		return -ENODEV;
	count = link->ops->requesters_free ? link->ops->requesters_free(link->hw) : -ENODATA;
	return count < 0 ? count : sysfs_emit(buf, "%d\n", count);
}
static DEVICE_ATTR_RO(requester_ids_free);

static ssize_t direct_interrupts_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", str_on_off(READ_ONCE(to_dlend_link(dev)->directs.allowed)));
}

static ssize_t direct_interrupts_store(struct device *dev, struct device_attribute *attr,
				       const char *buf, size_t len)
{
	struct dlend_link *link = to_dlend_link(dev);
	bool on;
	int err = kstrtobool(buf, &on);

	if (!err)
		err = dlend_setting_note(link, DLEND_SETTING_DIRECT, on);
	if (err)
		return err;
	/* Direct interrupts in use stay until their users set up interrupts again. */
	WRITE_ONCE(link->directs.allowed, on);
	return len;
}
static DEVICE_ATTR_RW(direct_interrupts);

static struct attribute *dlend_link_attrs[] = {
	&dev_attr_type.attr,
	&dev_attr_state.attr,
	&dev_attr_peer_node.attr,
	&dev_attr_peer_name.attr,
	&dev_attr_required_peer.attr,
	&dev_attr_version.attr,
	&dev_attr_session.attr,
	&dev_attr_window_bytes.attr,
	&dev_attr_aperture_bytes.attr,
	&dev_attr_aperture_free_bytes.attr,
	&dev_attr_aperture_largest_free_bytes.attr,
	&dev_attr_slots.attr,
	&dev_attr_heartbeat_age_ms.attr,
	&dev_attr_self_test.attr,
	&dev_attr_last_error.attr,
	&dev_attr_root.attr,
	&dev_attr_requester_ids_free.attr,
	&dev_attr_direct_interrupts.attr,
	NULL
};

ATTRIBUTE_GROUPS(dlend_link);

/* Counters: /sys/kernel/debug/dlend/links */

static struct dentry *dlend_debugfs_root, *dlend_debugfs_links;

static void dlend_debugfs_show_messages(struct seq_file *m, struct dlend_link_stat *st)
{
	unsigned int type;

	for (type = 1; type < DLEND_MSG_TYPES; type++)
		seq_printf(m, "msg_%s: sent %u received %u\n", dlend_msg_type_name(type),
			   atomic_read(&st->sent[type]), atomic_read(&st->received[type]));
	seq_printf(m, "dropped_bad: %u\ndropped_late: %u\n",
		   atomic_read(&st->dropped[DLEND_DROP_BAD]),
		   atomic_read(&st->dropped[DLEND_DROP_LATE]));
	seq_printf(m, "dropped_session: %u\ndropped_no_user: %u\ndropped_refused: %u\n",
		   atomic_read(&st->dropped[DLEND_DROP_SESSION]),
		   atomic_read(&st->dropped[DLEND_DROP_NO_USER]),
		   atomic_read(&st->dropped[DLEND_DROP_REFUSED]));
	seq_printf(m, "call_timeouts: %u\nring_full_waits: %u\nsessions: %u\n",
		   atomic_read(&st->timeouts), atomic_read(&st->ring_full),
		   atomic_read(&st->sessions));
}

static void dlend_debugfs_show_irqs(struct seq_file *m, struct dlend_link_stat *st)
{
	seq_printf(m, "irq_direct: %lld\n", atomic64_read(&st->irq_direct));
	seq_printf(m, "irq_fired: %lld\nirq_delivered: %lld\nirq_late: %lld\n",
		   atomic64_read(&st->irq_fired), atomic64_read(&st->irq_delivered),
		   atomic64_read(&st->irq_late));
	seq_printf(m, "doorbell_polls: %u\n", atomic_read(&st->polls));
	seq_printf(m, "irq_scans: %lld\nirq_overruns: %lld\nirq_bad: %lld\n",
		   atomic64_read(&st->irq_scans), atomic64_read(&st->irq_overruns),
		   atomic64_read(&st->irq_bad));
}

static int dlend_debugfs_link_show(struct seq_file *m, void *unused)
{
	struct dlend_link *link = m->private;
	struct dlend_aperture *ap = dlend_link_aperture(link);

	dlend_debugfs_show_messages(m, &link->stat);
	dlend_debugfs_show_irqs(m, &link->stat);
	if (ap)
		dlend_aperture_show(ap, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dlend_debugfs_link);

struct dentry *dlend_debugfs(void)
{
	return dlend_debugfs_root;
}
DLEND_EXPORT(dlend_debugfs);

/* Without debugfs these hold error pointers, which debugfs takes without complaint. */
void dlend_debugfs_init(void)
{
	dlend_debugfs_root = debugfs_create_dir("dlend", NULL);
	dlend_debugfs_links = debugfs_create_dir("links", dlend_debugfs_root);
}

void dlend_debugfs_exit(void)
{
	debugfs_remove(dlend_debugfs_root);
}

/* How links come and go */

/* The last reference is gone. After a failed dlend_link_add() some parts were not made. */
static void dlend_link_release(struct device *dev)
{
	struct dlend_link *link = container_of(dev, struct dlend_link, dev);

	dlend_setup_free(link);
	dlend_chan_free(link);
	xa_destroy(&link->sinks.all);
	kfree(link);
}

const struct class dlend_link_class = {
	.name = "dlend_link",
	.dev_release = dlend_link_release,
};

/* Set before the links are walked, so that a link that is added later sees it. */
static bool dlend_links_asleep;

/* Callback of dlend_links_each(). @on: bool */
static int dlend_link_sleep(struct dlend_link *link, void *on)
{
	dlend_session_suspend(link, *(bool *)on);
	return 0;
}

void dlend_links_suspend(bool on)
{
	WRITE_ONCE(dlend_links_asleep, on);
	dlend_links_each(false /* up or not */, dlend_link_sleep, &on);
}

static int dlend_link_make_parts(struct dlend_link *link, const char *name)
{
	spin_lock_init(&link->lock);
	spin_lock_init(&link->irq_lock);
	dlend_irq_sinks_init(link);
	mutex_init(&link->directs.lock);
	INIT_LIST_HEAD(&link->directs.old);
	dlend_irq_sources_init(link);
	dlend_session_init(link);
	return dlend_chan_init(link, name);
}

struct dlend_link *dlend_link_add(struct device *parent, struct dlend_link_hw *hw)
{
	const char *name = parent ? dev_name(parent) : hw->ops->type;
	struct dlend_link *link = kzalloc_obj(*link);
	int err;

	if (!link)
		return ERR_PTR(-ENOMEM);
	link->ops = hw->ops;
	link->hw = hw;
	link->loop = !hw->window_size;
	device_initialize(&link->dev);
	link->dev.class = &dlend_link_class;
	link->dev.parent = parent;
	link->dev.groups = dlend_link_groups;
	err = dlend_link_make_parts(link, name);
	if (!err)
		err = dev_set_name(&link->dev, "%s", name);
	if (!err)
		err = device_add(&link->dev);
	if (err) {
		put_device(&link->dev);
		return ERR_PTR(err);
	}
	debugfs_create_file(dlend_link_name(link), 0444, dlend_debugfs_links, link,
			    &dlend_debugfs_link_fops);
	dlend_link_register(link);
	/* Now dlend_links_suspend() finds the link; an earlier call has set the flag. */
	dlend_session_open(link, READ_ONCE(dlend_links_asleep));
	return link;
}
DLEND_EXPORT(dlend_link_add);

void dlend_link_remove(struct dlend_link *link)
{
	/* The link stays listed until its last link_down(): users may unregister until then. */
	dlend_session_remove(link);
	dlend_announce_settle();
	dlend_link_unregister(link);
	debugfs_lookup_and_remove(dlend_link_name(link), dlend_debugfs_links);
	device_del(&link->dev);
	put_device(&link->dev);
}
DLEND_EXPORT(dlend_link_remove);
