// SPDX-License-Identifier: GPL-2.0
/*
 * What the admin sees of a link, and the one thing that the admin sets (required_peer):
 * /sys/class/dlend_link, see docs/ABI/sysfs-class-dlend_link.
 */
#include <linux/sysfs.h>
#include <dlend/root.h>
#include "link.h"
#include "setup.h"
#include "sysfs.h"

static struct dlend_link *dlend_sysfs_link(struct device *dev)
{
	return container_of(dev, struct dlend_link, dev);
}

static ssize_t type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", dlend_sysfs_link(dev)->ops->type);
}
static DEVICE_ATTR_RO(type);

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  dlend_bringup_name(READ_ONCE(dlend_sysfs_link(dev)->bringup.state)));
}
static DEVICE_ATTR_RO(state);

static ssize_t peer_node_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", dlend_link_peer(dlend_sysfs_link(dev)));
}
static DEVICE_ATTR_RO(peer_node);

static ssize_t peer_name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = dlend_sysfs_link(dev);
	ssize_t len;

	spin_lock(&link->lock);
	len = sysfs_emit(buf, "%s\n", link->peer_name);
	spin_unlock(&link->lock);
	return len;
}
static DEVICE_ATTR_RO(peer_name);

static ssize_t required_peer_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(dlend_sysfs_link(dev)->bringup.required));
}

static ssize_t required_peer_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t len)
{
	struct dlend_link *link = dlend_sysfs_link(dev);
	u16 node;
	int err = kstrtou16(buf, 0, &node);

	if (err)
		return err;
	/* The peer of the loop is this node, and cannot be another one. */
	if (dlend_link_is_loop(link))
		return -EOPNOTSUPP;
	return dlend_session_require(link, node) ?: len;
}
static DEVICE_ATTR_RW(required_peer);

static ssize_t version_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(dlend_sysfs_link(dev)->bringup.picked));
}
static DEVICE_ATTR_RO(version);

static ssize_t session_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llx\n", dlend_link_session(dlend_sysfs_link(dev)));
}
static DEVICE_ATTR_RO(session);

static ssize_t window_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", dlend_link_window_bytes(dlend_sysfs_link(dev)));
}
static DEVICE_ATTR_RO(window_bytes);

/* All is 0 as long as there is no aperture. */
static void dlend_sysfs_stat(struct device *dev, struct dlend_aperture_stat *st)
{
	struct dlend_aperture *ap = dlend_link_aperture(dlend_sysfs_link(dev));

	memset(st, 0, sizeof(*st));
	if (ap)
		dlend_aperture_stat(ap, st);
}

static ssize_t aperture_bytes_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_aperture_stat st;

	dlend_sysfs_stat(dev, &st);
	return sysfs_emit(buf, "%llu\n", st.size);
}
static DEVICE_ATTR_RO(aperture_bytes);

static ssize_t aperture_free_bytes_show(struct device *dev, struct device_attribute *attr,
					char *buf)
{
	struct dlend_aperture_stat st;

	dlend_sysfs_stat(dev, &st);
	return sysfs_emit(buf, "%llu\n", st.free);
}
static DEVICE_ATTR_RO(aperture_free_bytes);

static ssize_t aperture_largest_free_bytes_show(struct device *dev,
						struct device_attribute *attr, char *buf)
{
	struct dlend_aperture_stat st;

	dlend_sysfs_stat(dev, &st);
	return sysfs_emit(buf, "%llu\n", st.largest_free);
}
static DEVICE_ATTR_RO(aperture_largest_free_bytes);

static ssize_t slots_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_aperture_stat st;

	dlend_sysfs_stat(dev, &st);
	return sysfs_emit(buf, "ctrl %u ram %u bar %u irq %u p2p %u\n", st.slots[DLEND_SLOT_CTRL],
			  st.slots[DLEND_SLOT_RAM], st.slots[DLEND_SLOT_BAR],
			  st.slots[DLEND_SLOT_IRQ], st.slots[DLEND_SLOT_P2P]);
}
static DEVICE_ATTR_RO(slots);

static ssize_t heartbeat_age_ms_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = dlend_sysfs_link(dev);
	u64 age;

	mutex_lock(&link->state_lock);
	age = dlend_bringup_age(&link->bringup, dlend_now_ms());
	mutex_unlock(&link->state_lock);
	return sysfs_emit(buf, "%llu\n", age);
}
static DEVICE_ATTR_RO(heartbeat_age_ms);

static ssize_t self_test_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_link *link = dlend_sysfs_link(dev);
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
	struct dlend_link *link = dlend_sysfs_link(dev);
	ssize_t len;

	mutex_lock(&link->state_lock);
	len = sysfs_emit(buf, "%s\n", link->error);
	mutex_unlock(&link->state_lock);
	return len;
}
static DEVICE_ATTR_RO(last_error);

static ssize_t root_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_root root;
	int at;

	if (!dlend_root_of_link(dlend_sysfs_link(dev), &root))
		return -ENODATA;
	at = dlend_root_emit(buf, 0, &root);
	return at + sysfs_emit_at(buf, at, "\n");
}
static DEVICE_ATTR_RO(root);

static ssize_t requester_ids_free_show(struct device *dev, struct device_attribute *attr,
				       char *buf)
{
	int count = dlend_setup_requesters_free(dlend_sysfs_link(dev));

	return count < 0 ? count : sysfs_emit(buf, "%d\n", count);
}
static DEVICE_ATTR_RO(requester_ids_free);

static ssize_t direct_interrupts_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", dlend_directs_allowed(dlend_sysfs_link(dev)) ? "on" : "off");
}

static ssize_t direct_interrupts_store(struct device *dev, struct device_attribute *attr,
				       const char *buf, size_t len)
{
	bool on;
	int err = kstrtobool(buf, &on);

	if (err)
		return err;
	err = dlend_directs_allow(dlend_sysfs_link(dev), on);
	return err ?: len;
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

static const struct attribute_group dlend_link_group = {
	.attrs = dlend_link_attrs,
};

const struct attribute_group *dlend_link_groups[] = {
	&dlend_link_group,
	NULL
};
