// SPDX-License-Identifier: GPL-2.0
/*
 * What the admin sees of a link: /sys/class/dlend_link (docs/ABI/sysfs-class-dlend_link) and the
 * counters in debugfs.
 *
 * Only reads.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include "core.h"

static struct dentry *debugfs_root, *debugfs_links;

static struct dlend_link *to_link(struct device *dev)
{
	return container_of(dev, struct dlend_link, dev);
}

static ssize_t type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", to_link(dev)->ops->type);
}
static DEVICE_ATTR_RO(type);

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  dlend_bringup_name(READ_ONCE(to_link(dev)->bringup.state)));
}
static DEVICE_ATTR_RO(state);

static ssize_t peer_node_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", dlend_link_peer(to_link(dev)));
}
static DEVICE_ATTR_RO(peer_node);

static ssize_t required_peer_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_link(dev)->bringup.required));
}

static ssize_t required_peer_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t len)
{
	struct dlend_link *link = to_link(dev);
	u16 node;
	int err = kstrtou16(buf, 0, &node);

	if (err)
		return err;
	/* The link to oneself has no other peer. */
	if (link->bringup.loop)
		return -EOPNOTSUPP;
	dlend_session_require(link, node);
	return len;
}
static DEVICE_ATTR_RW(required_peer);

static ssize_t version_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_link(dev)->bringup.picked));
}
static DEVICE_ATTR_RO(version);

static ssize_t session_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llx\n", dlend_link_session(to_link(dev)));
}
static DEVICE_ATTR_RO(session);

static ssize_t window_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = to_link(dev);

	return sysfs_emit(buf, "%llu\n", dlend_link_window_bytes(link));
}
static DEVICE_ATTR_RO(window_bytes);

/* All zero as long as there is no aperture. */
static void stat_of(struct device *dev, struct dlend_aperture_stat *st)
{
	struct dlend_aperture *ap = dlend_link_aperture(to_link(dev));

	memset(st, 0, sizeof(*st));
	if (ap)
		dlend_aperture_stat(ap, st);
}

static ssize_t aperture_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_aperture_stat st;

	stat_of(dev, &st);
	return sysfs_emit(buf, "%llu\n", st.size);
}
static DEVICE_ATTR_RO(aperture_bytes);

static ssize_t aperture_free_bytes_show(struct device *dev, struct device_attribute *attr,
					char *buf)
{
	struct dlend_aperture_stat st;

	stat_of(dev, &st);
	return sysfs_emit(buf, "%llu\n", st.free);
}
static DEVICE_ATTR_RO(aperture_free_bytes);

static ssize_t aperture_largest_free_bytes_show(struct device *dev,
						struct device_attribute *attr, char *buf)
{
	struct dlend_aperture_stat st;

	stat_of(dev, &st);
	return sysfs_emit(buf, "%llu\n", st.largest_free);
}
static DEVICE_ATTR_RO(aperture_largest_free_bytes);

static ssize_t slots_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_aperture_stat st;

	stat_of(dev, &st);
	return sysfs_emit(buf, "ctrl %u ram %u bar %u irq %u p2p %u\n", st.slots[DLEND_SLOT_CTRL],
			  st.slots[DLEND_SLOT_RAM], st.slots[DLEND_SLOT_BAR],
			  st.slots[DLEND_SLOT_IRQ], st.slots[DLEND_SLOT_P2P]);
}
static DEVICE_ATTR_RO(slots);

static ssize_t heartbeat_age_ms_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = to_link(dev);
	u64 age;

	mutex_lock(&link->state_lock);
	age = dlend_bringup_age(&link->bringup, dlend_now_ms());
	mutex_unlock(&link->state_lock);
	return sysfs_emit(buf, "%llu\n", age);
}
static DEVICE_ATTR_RO(heartbeat_age_ms);

static ssize_t self_test_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = to_link(dev);
	const struct dlend_bringup *b = &link->bringup;
	ssize_t len;

	mutex_lock(&link->state_lock);
	if (b->state == DLEND_BRINGUP_UP)
		len = sysfs_emit(buf, "passed\n");
	else if (b->state == DLEND_BRINGUP_TEST && b->error[0])
		len = sysfs_emit(buf, "%s\n", b->error);
	else
		len = sysfs_emit(buf, "not run\n");
	mutex_unlock(&link->state_lock);
	return len;
}
static DEVICE_ATTR_RO(self_test);

static ssize_t last_error_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = to_link(dev);
	ssize_t len;

	mutex_lock(&link->state_lock);
	len = sysfs_emit(buf, "%s\n", link->error);
	mutex_unlock(&link->state_lock);
	return len;
}
static DEVICE_ATTR_RO(last_error);

static struct attribute *link_attrs[] = {
	&dev_attr_type.attr,
	&dev_attr_state.attr,
	&dev_attr_peer_node.attr,
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
	NULL
};

static const struct attribute_group link_group = {
	.attrs = link_attrs,
};

const struct attribute_group *dlend_link_groups[] = {
	&link_group,
	NULL
};

static void show_messages(struct seq_file *m, struct dlend_link_stat *st)
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

static void show_irqs(struct seq_file *m, struct dlend_link_stat *st)
{
	seq_printf(m, "irq_fired: %lld\nirq_delivered: %lld\n", atomic64_read(&st->irq_fired),
		   atomic64_read(&st->irq_delivered));
	seq_printf(m, "doorbell_polls: %u\n", atomic_read(&st->polls));
	seq_printf(m, "irq_scans: %lld\nirq_overruns: %lld\nirq_bad: %lld\n",
		   atomic64_read(&st->irq_scans), atomic64_read(&st->irq_overruns),
		   atomic64_read(&st->irq_bad));
}

static int link_debug_show(struct seq_file *m, void *unused)
{
	struct dlend_link *link = m->private;
	struct dlend_aperture *ap = dlend_link_aperture(link);

	seq_printf(m, "state: %s\npeer_node: %u\nsession: %llx\n",
		   dlend_bringup_name(READ_ONCE(link->bringup.state)), dlend_link_peer(link),
		   dlend_link_session(link));
	show_messages(m, &link->stat);
	show_irqs(m, &link->stat);
	if (ap)
		dlend_aperture_show(ap, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(link_debug);

void dlend_link_debugfs_add(struct dlend_link *link)
{
	debugfs_create_file(dlend_link_name(link), 0444, debugfs_links, link, &link_debug_fops);
}

void dlend_link_debugfs_remove(struct dlend_link *link)
{
	debugfs_lookup_and_remove(dlend_link_name(link), debugfs_links);
}

struct dentry *dlend_debugfs(void)
{
	return debugfs_root;
}
DLEND_EXPORT(dlend_debugfs);

/* Without debugfs these hold error pointers, which debugfs takes without complaint. */
void dlend_debugfs_init(void)
{
	debugfs_root = debugfs_create_dir("dlend", NULL);
	debugfs_links = debugfs_create_dir("links", debugfs_root);
}

void dlend_debugfs_exit(void)
{
	debugfs_remove(debugfs_root);
}
