// SPDX-License-Identifier: GPL-2.0
/*
 * What an admin sees of a function bound to dlend-lender, and can do about it, in
 * /sys/bus/pci/devices/.../dlend/ (docs/ABI/sysfs-bus-pci-drivers-dlend-lender).
 *
 * Knows nothing of what happens when a lease changes.
 */
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/uuid.h>

#include <dlend/names.h>
#include <dlend/root.h>

#include "lender/lease.h"
#include "lender/members.h"
#include "lender/outbox.h"
#include "lender/prepare.h"
#include "lender/reserve.h"
#include "lender/set.h"
#include "lender/sysfs.h"
#include "lender/trace.h"

static unsigned int lend_sysfs_reclaim_timeout_ms = 10000;
module_param_named(reclaim_timeout_ms, lend_sysfs_reclaim_timeout_ms, uint, 0644);
MODULE_PARM_DESC(reclaim_timeout_ms,
		 "How long a reclaim waits for the borrower to give the device back (default: 10000)");

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);

	guard(mutex)(&fn->group->lock);
	return sysfs_emit(buf, "%s\n", lend_group_state_name(fn->group));
}
static DEVICE_ATTR_RO(state);

static ssize_t borrower_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	struct lend_lease lease;
	u16 holder;

	lend_group_lease(fn->group, &lease);
	lend_set_told(fn->group, &lease, NULL, &holder);
	return sysfs_emit(buf, "%u\n", holder);
}
static DEVICE_ATTR_RO(borrower);

static ssize_t epoch_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	struct lend_lease lease;

	lend_group_lease(fn->group, &lease);
	return sysfs_emit(buf, "%u\n", lease.epoch);
}
static DEVICE_ATTR_RO(epoch);

static ssize_t type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "dlend-%s\n", dlend_kind(to_pci_dev(dev)->class));
}
static DEVICE_ATTR_RO(type);

static ssize_t group_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	struct lend_group *group = fn->group;
	ssize_t len;

	guard(mutex)(&group->lock);
	len = sysfs_emit(buf, "iommu_group %d functions %u bound %u\n", group->id,
			 group->members, group->ready);
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++)
		if (group->fn[i])
			len += sysfs_emit_at(buf, len, "%s\n", pci_name(group->fn[i]->pdev));
	return len;
}
static DEVICE_ATTR_RO(group);

static ssize_t fabric_name_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	char name[DLEND_NAME_LEN];

	dlend_addr_name(&fn->addr, name);
	return sysfs_emit(buf, "%s\n", name);
}
static DEVICE_ATTR_RO(fabric_name);

/* Nobody has the group any more, and its reset is over; or its driver lets go, and waits for us. */
static bool lend_sysfs_is_back(const struct lend_fn *fn)
{
	enum dlend_offer_state state = READ_ONCE(fn->group->lease.state);

	return READ_ONCE(fn->removing) ||
	       (state != DLEND_OFFER_HELD && state != DLEND_OFFER_RETURNING);
}

/* The holder's link, referenced; NULL: nobody has the group. */
static struct dlend_link *lend_sysfs_holder_link(struct lend_group *group, u32 *epoch)
{
	guard(mutex)(&group->lock);
	*epoch = group->lease.epoch;
	if (group->lease.state != DLEND_OFFER_HELD || !group->link)
		return NULL;
	return dlend_link_get(group->link);
}

/* Ask for every function of the group that is lent: the borrower gives each back by itself. */
static void lend_sysfs_ask_back(struct lend_group *group, struct dlend_link *link, u32 epoch)
{
	for (unsigned int i = 0; i < LEND_GROUP_MAX; i++) {
		struct dlend_addr addr;
		struct dlend_msg msg;
		bool lent;

		mutex_lock(&group->lock);
		lent = group->fn[i] && group->fn[i]->lent;
		if (lent)
			addr = group->fn[i]->addr;
		mutex_unlock(&group->lock);
		if (!lent)
			continue;
		dlend_msg_init(&msg, DLEND_MSG_RECLAIM, &addr, epoch, 0);
		lend_outbox_note(link, &msg);
		trace_dlend_lease(&addr, "reclaim", dlend_link_peer(link), epoch, 0);
	}
}

/* Say what was waited for: a reset may take longer than the borrower. */
static void lend_sysfs_log_timeout(struct lend_fn *fn)
{
	char node[DLEND_NODE_LABEL_LEN];
	struct lend_lease lease;

	lend_group_lease(fn->group, &lease);
	if (lease.state == DLEND_OFFER_HELD)
		pci_warn(fn->pdev, "node %s has not given the device back within %u ms; shut its guest down, or write \"force\" to take it away now\n",
			 dlend_node_label(lease.holder, node), lend_sysfs_reclaim_timeout_ms);
	else
		pci_warn(fn->pdev, "nobody has the device any more, but its reset was not over within %u ms; reclaim it once more to wait for that\n",
			 lend_sysfs_reclaim_timeout_ms);
}

static ssize_t reclaim_store(struct device *dev, struct device_attribute *attr, const char *buf,
			     size_t len)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	struct lend_group *group = fn->group;
	bool force = sysfs_streq(buf, "force");
	struct dlend_link *link;
	u32 epoch;
	long left;

	if (!force && !sysfs_streq(buf, "1"))
		return -EINVAL;
	link = lend_sysfs_holder_link(group, &epoch);
	if (link && force)
		lend_lease_revoke(group, "reclaim_force");
	else if (link)
		lend_sysfs_ask_back(group, link, epoch);
	if (link)
		dlend_link_put(link);

	left = wait_event_killable_timeout(group->wait, lend_sysfs_is_back(fn),
					   msecs_to_jiffies(lend_sysfs_reclaim_timeout_ms));
	if (left < 0)
		return left;
	if (!left) {
		lend_sysfs_log_timeout(fn);
		return -ETIMEDOUT;
	}
	if (READ_ONCE(fn->removing))
		return -ENODEV;
	return READ_ONCE(group->lease.failed) ? -EIO : len;
}
static DEVICE_ATTR_WO(reclaim);

static ssize_t clique_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	u16 clique = READ_ONCE(fn->clique);

	switch (clique) {
	case DLEND_OFFER_CLIQUE_AUTO:
		return sysfs_emit(buf, "auto\n");
	case DLEND_OFFER_CLIQUE_NONE:
		return sysfs_emit(buf, "none\n");
	}
	return sysfs_emit(buf, "%u\n", clique - DLEND_OFFER_CLIQUE(0));
}

/* Also while the function is lent: the next VMM that opens it sees the new setting. */
static ssize_t clique_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t len)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	u16 clique = DLEND_OFFER_CLIQUE_NONE, number;
	int ret;

	if (sysfs_streq(buf, "auto")) {
		clique = DLEND_OFFER_CLIQUE_AUTO;
	} else if (!sysfs_streq(buf, "none")) {
		ret = kstrtou16(buf, 0, &number);
		if (ret)
			return ret;
		if (number >= DLEND_OFFER_CLIQUES)
			return -EINVAL;
		clique = DLEND_OFFER_CLIQUE(number);
	}
	WRITE_ONCE(fn->clique, clique);
	lend_outbox_tell(fn, LEND_TELL_OFFER);
	return len;
}
static DEVICE_ATTR_RW(clique);

static ssize_t reserved_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	struct lend_for whom;
	u32 seconds;
	ssize_t len;

	lend_reserve_left(fn->group, &whom, &seconds);
	if (whom.node)
		len = sysfs_emit(buf, "%u", whom.node);
	else if (lend_for_vm(&whom))
		len = sysfs_emit(buf, "%pUl", whom.vm);
	else
		return sysfs_emit(buf, "none\n");
	if (seconds)
		len += sysfs_emit_at(buf, len, " %u", seconds);
	return len + sysfs_emit_at(buf, len, "\n");
}

/* A node, or the UUID of a VM's mediated device; not all 0. */
static int lend_sysfs_parse_whom(const char *word, struct lend_for *whom)
{
	guid_t vm;
	int ret;

	if (strlen(word) != UUID_STRING_LEN) {
		ret = kstrtou16(word, 0, &whom->node);
		return ret ?: whom->node ? 0 : -EINVAL;
	}
	ret = guid_parse(word, &vm);
	if (ret)
		return ret;
	export_guid(whom->vm, &vm);
	return guid_is_null(&vm) ? -EINVAL : 0;
}

/* "none", or for whom, and for how many seconds. */
static int lend_sysfs_parse_reserved(const char *buf, struct lend_for *whom, u32 *seconds)
{
	char words[64], *rest, *word;
	int ret;

	*whom = (struct lend_for){ };
	*seconds = 0;
	if (sysfs_streq(buf, "none"))
		return 0;
	if (strscpy(words, buf, sizeof(words)) < 0)
		return -EINVAL;
	rest = strim(words);
	word = strsep(&rest, " ");
	ret = lend_sysfs_parse_whom(word, whom);
	if (!ret && rest)
		ret = kstrtou32(rest, 0, seconds);
	if (ret)
		return ret;
	return rest && !*seconds ? -EINVAL : 0;
}

static ssize_t reserved_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t len)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	struct lend_for whom;
	u32 seconds;
	int ret;

	ret = lend_sysfs_parse_reserved(buf, &whom, &seconds);
	if (ret)
		return ret;
	lend_reserve(fn->group, &whom, seconds);
	return len;
}
static DEVICE_ATTR_RW(reserved);

static ssize_t set_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	char name[DLEND_NODE_NAME_LEN];

	lend_set_name(fn->group, name);
	return sysfs_emit(buf, "%s\n", name[0] ? name : "none");
}

/* Return: 0, or -EINVAL: it has characters that no name may have, or is too long. */
static int lend_sysfs_read_name(char *name, const char *buf)
{
	if (strcspn(buf, "\n") >= DLEND_NODE_NAME_LEN)
		return -EINVAL;
	strscpy(name, buf, strcspn(buf, "\n") + 1);
	/* What no name may have is a "?" from here on. */
	dlend_name_read(name, name);
	return !name[0] || strchr(name, '?') ? -EINVAL : 0;
}

static ssize_t set_store(struct device *dev, struct device_attribute *attr, const char *buf,
			 size_t len)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	char name[DLEND_NODE_NAME_LEN];
	int ret = lend_sysfs_read_name(name, buf);

	if (ret)
		return ret;
	lend_group_join_set(fn->group, strcmp(name, "none") ? name : "");
	return len;
}
static DEVICE_ATTR_RW(set);

static ssize_t identity_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);

	guard(mutex)(&fn->group->lock);
	return sysfs_emit(buf, "%s\n", fn->identity);
}

/* Before it is offered: its borrowers take it for another device if that changes. */
static ssize_t identity_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t len)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	char name[DLEND_NODE_NAME_LEN];
	int ret = lend_sysfs_read_name(name, buf);

	if (ret)
		return ret;
	guard(mutex)(&fn->group->lock);
	if (!fn->preparing)
		return -EBUSY;
	memcpy(fn->identity, name, sizeof(name));
	return len;
}
static DEVICE_ATTR_RW(identity);

static ssize_t root_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_root root;
	int at;

	dlend_root_of(to_pci_dev(dev), &root);
	at = dlend_root_emit(buf, 0, &root);
	return at + sysfs_emit_at(buf, at, "\n");
}
static DEVICE_ATTR_RO(root);

static ssize_t prepared_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t len)
{
	bool offer;

	if (kstrtobool(buf, &offer))
		return -EINVAL;
	if (offer)
		lend_prepare_done(dev_get_drvdata(dev));
	else
		lend_prepare_withdraw(dev_get_drvdata(dev));
	return len;
}
static DEVICE_ATTR_WO(prepared);

static struct attribute *lend_sysfs_attrs[] = {
	&dev_attr_state.attr,
	&dev_attr_borrower.attr,
	&dev_attr_epoch.attr,
	&dev_attr_type.attr,
	&dev_attr_group.attr,
	&dev_attr_fabric_name.attr,
	&dev_attr_reclaim.attr,
	&dev_attr_clique.attr,
	&dev_attr_reserved.attr,
	&dev_attr_set.attr,
	&dev_attr_identity.attr,
	&dev_attr_root.attr,
	&dev_attr_prepared.attr,
	NULL
};

static const struct attribute_group lend_sysfs_group = {
	.name = "dlend",
	.attrs = lend_sysfs_attrs,
};

const struct attribute_group *lend_sysfs_groups[] = { &lend_sysfs_group, NULL };
