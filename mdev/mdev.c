// SPDX-License-Identifier: GPL-2.0
/*
 * dlend-mdev: borrowed devices as mediated devices, for guests.  Each offer is an mdev parent with
 * one type, which depends on the device's class code.  This file has the mdev driver, and the sysfs
 * attributes and debugfs files of a mediated device.
 *
 * An administrator makes settings (clique, identity, prepin, lowmem) before a VM uses the device.
 * Settings are attributes in the mdev's own sysfs folder, because that is where mdevctl writes the
 * attributes of a definition.  Attributes that show the device's state are in the folder "dlend"
 * below that.
 *
 * This file must not know how offers arrive, nor how a device is borrowed.
 */
#include <linux/bits.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/version.h>
#include "vdev.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* Bounds of the setting "lowmem", in bytes. */
#define DLEND_LOWMEM_MIN	BIT_ULL(20)
#define DLEND_LOWMEM_MAX	BIT_ULL(32)

/**
 * struct dlend_mdev_parent - an offer as an mdev parent; drvdata of the offer's device
 * @offer: offer.  This structure is freed with the offer's device (dlend_offer_zalloc()), because
 *	@type is a kobject, and may live as long as that device
 * @types: array of types, as mdev_register_parent() wants it
 * @type: the type in @types
 * @parent: mdev's part
 */
struct dlend_mdev_parent {
	struct dlend_offer *offer;
	struct mdev_type *types[1];
	struct mdev_type type;
	struct mdev_parent parent;
};

/* Settings */

static const char * const dlend_prepin_words[] = { "bme", "open" };

/* Words for DLEND_CFG_CLIQUE_NONE (-1), DLEND_CLIQUE_AUTO (-2), DLEND_CLIQUE_ALWAYS (-3) */
static const char * const dlend_clique_words[] = { "none", "auto", "always" };

/*
 * Set *@setting to *@value, @size bytes, unless a VM has the device open, as its guest may rely on
 * the old value.  Return: 0, -EBUSY.
 */
static int dlend_setting_change(struct dlend_vdev *v, const struct device_attribute *attr,
				void *setting, const void *value, size_t size)
{
	guard(mutex)(&v->lock);
	if (!memcmp(setting, value, size))
		return 0;
	if (v->now.open) {
		dev_warn(dlend_vdev_dev(v), "%s not changed: a VM has the device open; shut it down first\n",
			 attr->attr.name);
		return -EBUSY;
	}
	memcpy(setting, value, size);
	return 0;
}

static int dlend_setting_emit_clique(int clique, char *buf, int at)
{
	if (clique >= 0)
		return sysfs_emit_at(buf, at, "%d\n", clique);
	return sysfs_emit_at(buf, at, "%s\n", dlend_clique_words[DLEND_CFG_CLIQUE_NONE - clique]);
}

static int dlend_setting_parse_clique(const char *buf, int *clique)
{
	int ret, word = sysfs_match_string(dlend_clique_words, buf);

	if (word >= 0) {
		*clique = DLEND_CFG_CLIQUE_NONE - word;
		return 0;
	}
	ret = kstrtoint(buf, 0, clique);
	if (!ret && (*clique < 0 || *clique > DLEND_CLIQUE_MAX))
		ret = -EINVAL;
	return ret;
}

static ssize_t clique_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return dlend_setting_emit_clique(v->clique, buf, 0);
}

static ssize_t clique_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);
	int clique, ret = dlend_setting_parse_clique(buf, &clique);

	if (!ret)
		ret = dlend_setting_change(v, attr, &v->clique, &clique, sizeof(clique));
	return ret ?: count;
}
static DEVICE_ATTR_RW(clique);

static ssize_t identity_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return sysfs_emit(buf, "%s\n", v->identity[0] ? v->identity : "any");
}

static ssize_t identity_store(struct device *dev, struct device_attribute *attr, const char *buf,
			      size_t count)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);
	char identity[sizeof(v->identity)] = "";
	size_t len = strcspn(buf, "\n");

	if (!len || len >= sizeof(identity))
		return -EINVAL;
	if (!sysfs_streq(buf, "any"))
		memcpy(identity, buf, len);
	return dlend_setting_change(v, attr, v->identity, identity, sizeof(identity)) ?: count;
}
static DEVICE_ATTR_RW(identity);

static ssize_t prepin_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return sysfs_emit(buf, "%s\n", dlend_prepin_words[v->prepin]);
}

/* This setting may change while a VM has the device open: it is read at the next open only. */
static ssize_t prepin_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);
	int word = sysfs_match_string(dlend_prepin_words, buf);

	if (word < 0)
		return word;
	guard(mutex)(&v->lock);
	v->prepin = word;
	return count;
}
static DEVICE_ATTR_RW(prepin);

static ssize_t lowmem_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	if (!v->lowmem)
		return sysfs_emit(buf, "auto\n");
	return sysfs_emit(buf, "%lluM\n", v->lowmem >> 20);
}

static int dlend_setting_parse_lowmem(const char *buf, u64 *bytes)
{
	char *end;

	*bytes = 0;
	if (sysfs_streq(buf, "auto"))
		return 0;
	*bytes = memparse(buf, &end);
	if (end == buf || !sysfs_streq(end, "") || *bytes % DLEND_LOWMEM_MIN)
		return -EINVAL;
	return *bytes < DLEND_LOWMEM_MIN || *bytes > DLEND_LOWMEM_MAX ? -ERANGE : 0;
}

static ssize_t lowmem_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);
	u64 bytes;
	int ret = dlend_setting_parse_lowmem(buf, &bytes);

	if (!ret)
		ret = dlend_setting_change(v, attr, &v->lowmem, &bytes, sizeof(bytes));
	return ret ?: count;
}
static DEVICE_ATTR_RW(lowmem);

static struct attribute *dlend_setting_attrs[] = {
	&dev_attr_clique.attr,
	&dev_attr_identity.attr,
	&dev_attr_prepin.attr,
	&dev_attr_lowmem.attr,
	NULL
};

static const struct attribute_group dlend_setting_group = {
	.attrs = dlend_setting_attrs,
};

/* The state: the folder "dlend" */

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	char state[DLEND_REASON_LEN + DLEND_CONDITION_WORDS];
	struct dlend_vdev *v = dev_get_drvdata(dev);

	mutex_lock(&v->lock);
	dlend_condition_text(v, state, sizeof(state));
	mutex_unlock(&v->lock);
	return sysfs_emit(buf, "%s\n", state);
}
static DEVICE_ATTR_RO(state);

static ssize_t epoch_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return sysfs_emit(buf, "%u\n", v->claim.lease ? v->claim.lease->epoch : 0);
}
static DEVICE_ATTR_RO(epoch);

static ssize_t interrupts_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return dlend_claim_show_interrupts(&v->claim, buf);
}
static DEVICE_ATTR_RO(interrupts);

/* Return: numbers of the lease in use; all 0 if there is no lease. */
static struct dlend_memory_stat dlend_vdev_memory_stat(struct dlend_vdev *v)
{
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(v);
	struct dlend_memory_stat st = {};

	if (lease)
		dlend_memory_stat(dlend_vdev_memory(lease), &st);
	return st;
}

static ssize_t memory_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", dlend_vdev_memory_stat(dev_get_drvdata(dev)).pinned_bytes);
}
static DEVICE_ATTR_RO(memory);

static ssize_t memory_sharers_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", dlend_vdev_memory_stat(dev_get_drvdata(dev)).sharers);
}
static DEVICE_ATTR_RO(memory_sharers);

static ssize_t rescan_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t count)
{
	bool yes;
	int ret;

	ret = kstrtobool(buf, &yes);
	if (ret)
		return ret;
	if (yes)
		dlend_guest_rescan(dev_get_drvdata(dev));
	return count;
}
static DEVICE_ATTR_WO(rescan);

/*
 * dlend/clique: while a VM has the device open, a read gives the clique that the guest sees, and
 * otherwise the setting.  A write changes the setting.
 */
static ssize_t shown_clique_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return dlend_setting_emit_clique(v->now.open ? v->clique_shown : v->clique, buf, 0);
}

static struct device_attribute dev_attr_shown_clique =
	__ATTR(clique, 0644, shown_clique_show, clique_store);

static ssize_t p2p_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	ssize_t at = dlend_p2p_emit(&v->p2p, buf);

	return at < 0 ? at : dlend_guest_passed_emit(v, buf, at);
}
static DEVICE_ATTR_RO(p2p);

static ssize_t p2p_doubts_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	return dlend_p2p_emit_doubts(&v->p2p, buf);
}
static DEVICE_ATTR_RO(p2p_doubts);

static ssize_t move_to_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct dlend_vdev *v = dev_get_drvdata(dev);

	guard(mutex)(&v->lock);
	return sysfs_emit(buf, "%u%s\n", v->desired.move_to, v->desired.forced ? " cut" : "");
}

static ssize_t move_to_store(struct device *dev, struct device_attribute *attr, const char *buf,
			     size_t count)
{
	return dlend_move_set_target(dev_get_drvdata(dev), buf) ?: count;
}
static DEVICE_ATTR_RW(move_to);

static struct attribute *dlend_mdev_attrs[] = {
	&dev_attr_state.attr,
	&dev_attr_interrupts.attr,
	&dev_attr_epoch.attr,
	&dev_attr_memory.attr,
	&dev_attr_memory_sharers.attr,
	&dev_attr_rescan.attr,
	&dev_attr_shown_clique.attr,
	&dev_attr_p2p.attr,
	&dev_attr_p2p_doubts.attr,
	&dev_attr_move_to.attr,
	NULL
};

static const struct attribute_group dlend_mdev_group = {
	.name = "dlend",
	.attrs = dlend_mdev_attrs,
};

static const struct attribute_group *dlend_mdev_groups[] = {
	&dlend_mdev_group, &dlend_setting_group, NULL
};

/*
 * Numbers: /sys/kernel/debug/dlend/mdev/<uuid>/{stats,memory,irqs}.  Each line of stats and irqs is
 * "key value", so that scripts can read them.
 */

static struct dentry *dlend_vdev_debugfs_root;

static void dlend_vdev_debugfs_bars(struct seq_file *m, const struct dlend_vdev *v)
{
	const struct dlend_vdev_stat *st = &v->stat;
	unsigned int i;

	for (i = 0; i < DLEND_NUM_BARS; i++) {
		seq_printf(m, "bar%u_faults_4k %lld\n", i, atomic64_read(&st->faults[i][0]));
		seq_printf(m, "bar%u_faults_2m %lld\n", i, atomic64_read(&st->faults[i][1]));
		seq_printf(m, "bar%u_faults_1g %lld\n", i, atomic64_read(&st->faults[i][2]));
	}
	seq_printf(m, "dead_faults %lld\n", atomic64_read(&st->fault_dead));
	seq_printf(m, "gate_waits %lld\n", atomic64_read(&st->fault_waits));
	seq_printf(m, "gate_wait_longest_us %lld\n", atomic64_read(&st->wait_longest_us));
	seq_printf(m, "trapped_reads %lld\n", atomic64_read(&st->trapped_reads));
	seq_printf(m, "trapped_writes %lld\n", atomic64_read(&st->trapped_writes));
	seq_printf(m, "trapped_timeouts %lld\n", atomic64_read(&st->trapped_timeouts));
	seq_printf(m, "live_missed %lld\n", atomic64_read(&st->live_missed));
}

static void dlend_vdev_debugfs_memory(struct seq_file *m, struct dlend_vdev *v)
{
	struct dlend_memory_stat st = dlend_vdev_memory_stat(v);

	seq_printf(m, "messages %llu\n", st.messages + atomic64_read(&v->claim.messages));
	seq_printf(m, "pinned_bytes %llu\n", st.pinned_bytes);
	seq_printf(m, "own_bytes %llu\n", st.own_bytes);
	seq_printf(m, "taken_bytes %llu\n", st.taken_bytes);
	seq_printf(m, "sharers %llu\n", st.sharers);
	seq_printf(m, "table_bytes %llu\n", st.table_bytes);
	seq_printf(m, "pages_4k %llu\n", st.pages_4k);
	seq_printf(m, "pages_2m %llu\n", st.pages_2m);
	seq_printf(m, "pages_1g %llu\n", st.pages_1g);
	seq_printf(m, "pin_calls %llu\n", st.pin_calls);
	seq_printf(m, "last_build_calls %llu\n", st.last_build_calls);
	seq_printf(m, "looks %llu\n", st.looks);
	seq_printf(m, "vm_wakeups %llu\n", st.wakeups);
	seq_printf(m, "grows %llu\n", v->stat.grows);
	seq_printf(m, "pin_us %llu\n", st.pin_us);
	seq_printf(m, "pin_longest_us %llu\n", st.pin_longest_us);
	seq_printf(m, "map_us %llu\n", st.map_us);
	seq_printf(m, "dma_unmaps %llu\n", st.unmaps);
	seq_printf(m, "dma_unmap_longest_us %llu\n", st.unmap_longest_us);
	seq_printf(m, "missing_waits %llu\n", st.waits);
	seq_printf(m, "rebuilds %llu\n", st.rebuilds);
}

static int stats_show(struct seq_file *m, void *unused)
{
	static const char * const gate[] = {
		[DLEND_GATE_SHUT] = "shut",
		[DLEND_GATE_OPEN] = "open",
		[DLEND_GATE_DEAD] = "dead",
		[DLEND_GATE_READ] = "read",
	};
	struct dlend_vdev *v = m->private;
	char state[DLEND_REASON_LEN + DLEND_CONDITION_WORDS];

	dlend_vdev_debugfs_bars(m, v);
	dlend_vdev_debugfs_memory(m, v);
	guard(mutex)(&v->lock);
	dlend_condition_text(v, state, sizeof(state));
	seq_printf(m, "state %s\n", state);
	seq_printf(m, "gate %s\n", gate[v->gate]);
	seq_printf(m, "gate_shuts %llu\n", v->stat.gate_shuts);
	seq_printf(m, "bme_to_gate_open_us %llu\n", v->stat.bme_to_open_us);
	seq_printf(m, "borrows %llu\n", v->stat.borrows);
	seq_printf(m, "returns %llu\n", v->stat.returns);
	seq_printf(m, "resets %llu\n", v->stat.resets);
	seq_printf(m, "builds %llu\n", v->stat.builds);
	seq_printf(m, "build_retries %llu\n", v->stat.build_retries);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int extents_show(struct seq_file *m, void *unused)
{
	struct dlend_lease *lease __free(dlend_lease_put) = dlend_vdev_lease(m->private);

	if (lease)
		dlend_memory_show(dlend_vdev_memory(lease), m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(extents);

static int irqs_show(struct seq_file *m, void *unused)
{
	struct dlend_vdev *v = m->private;
	struct dlend_irqs *irq = &v->irq;
	unsigned int i, bypass = 0;

	guard(mutex)(&v->lock);
	for (i = 0; i < irq->nvec; i++)
		bypass += irq->vec[i].producing;
	seq_printf(m, "bypass %u\n", bypass);
	spin_lock_irq(&irq->lock);
	seq_printf(m, "mode %s\n", dlend_irq_mode_name(irq->mode));
	seq_printf(m, "live %s\n", dlend_irq_mode_name(irq->live));
	seq_printf(m, "fired %llu\n", irq->fired);
	seq_printf(m, "signalled %llu\n", irq->signalled);
	seq_printf(m, "stray %llu\n", irq->stray);
	seq_printf(m, "errors %llu\n", irq->specials[0]);
	seq_printf(m, "requests %llu\n", irq->specials[1]);
	for (i = 0; i < irq->nvec; i++)
		if (irq->vec[i].count)
			seq_printf(m, "vector%u %llu\n", i, irq->vec[i].count);
	spin_unlock_irq(&irq->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(irqs);

/* The mdev driver */

static int dlend_mdev_probe(struct mdev_device *mdev)
{
	struct dlend_mdev_parent *p = container_of(mdev->type, struct dlend_mdev_parent, type);
	char why[DLEND_REASON_LEN];
	struct dlend_vdev *v;
	int ret;

	v = vfio_alloc_device(dlend_vdev, vfio, &mdev->dev, &dlend_vfio_ops);
	if (IS_ERR(v))
		return PTR_ERR(v);
	v->mdev = mdev;
	v->claim.ops = &dlend_borrow_claim_ops;
	v->claim.dev = &mdev->dev;
	export_guid(v->claim.vm, &mdev->uuid);
	v->claim.offer = p->offer;
	/*
	 * The vdev has these two references until dlend_vfio_release(), as a lease may be returned
	 * after the mdev was removed.
	 */
	get_device(&mdev->dev);
	get_device(dlend_offer_dev(p->offer));
	ret = dlend_offer_claim(p->offer, &v->claim, why);
	if (ret) {
		dev_warn(dlend_offer_dev(p->offer), "cannot be used here: %s\n", why);
		goto put_vfio;
	}
	dev_set_drvdata(&mdev->dev, v);
	/* If the expansion ROM cannot be fetched, the device has none. */
	ret = dlend_offer_read_rom(p->offer, &v->rom, &v->rom_size);
	if (ret)
		dev_warn(&mdev->dev, "no expansion ROM from node %u (%pe): create the mdev again, or give the VMM a romfile, if the firmware needs it\n",
			 dlend_vdev_lender(v), ERR_PTR(ret));
	v->dir = debugfs_create_dir(dev_name(&mdev->dev), dlend_vdev_debugfs_root);
	debugfs_create_file("stats", 0444, v->dir, v, &stats_fops);
	debugfs_create_file("memory", 0444, v->dir, v, &extents_fops);
	debugfs_create_file("irqs", 0444, v->dir, v, &irqs_fops);
	ret = vfio_register_emulated_iommu_dev(&v->vfio);
	if (ret)
		goto release_offer;
	return 0;

release_offer:
	debugfs_remove(v->dir);
	dlend_offer_release(&v->claim);
	cancel_delayed_work_sync(&v->notify_work);
put_vfio:
	vfio_put_device(&v->vfio);
	return ret;
}

/* Waits until user space has closed the device, for which VFIO calls dlend_vfio_request(). */
static void dlend_mdev_remove(struct mdev_device *mdev)
{
	struct dlend_vdev *v = dev_get_drvdata(&mdev->dev);

	vfio_unregister_group_dev(&v->vfio);
	debugfs_remove(v->dir);
	dlend_offer_release(&v->claim);
	cancel_work_sync(&v->work);
	cancel_delayed_work_sync(&v->notify_work);
	vfio_put_device(&v->vfio);
}

static unsigned int dlend_mdev_available(struct mdev_type *type)
{
	return dlend_offer_available(container_of(type, struct dlend_mdev_parent, type)->offer);
}

/* Shows the lender's clique, which a mediated device has if its own setting is "auto". */
static ssize_t dlend_mdev_description(struct mdev_type *type, char *buf)
{
	struct dlend_mdev_parent *p = container_of(type, struct dlend_mdev_parent, type);
	struct dlend_offer_info info;
	int at;

	dlend_offer_copy(p->offer, &info, NULL);
	at = sysfs_emit(buf, "device %04x:%04x of node %u, clique ", info.vendor, info.device,
			dlend_offer_addr(p->offer)->lender);
	return at + dlend_setting_emit_clique(dlend_vdev_offered_clique(info.clique), buf, at);
}

static struct mdev_driver dlend_mdev_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.driver = {
		.name = "dlend_mdev",
		.owner = THIS_MODULE,
		.mod_name = KBUILD_MODNAME,
		.dev_groups = dlend_mdev_groups,
	},
	.probe = dlend_mdev_probe,
	.remove = dlend_mdev_remove,
	.get_available = dlend_mdev_available,
	.show_description = dlend_mdev_description,
};

/* Offers become parents (struct dlend_offer_user) */

static int dlend_mdev_appeared(struct dlend_offer *offer)
{
	struct device *dev = dlend_offer_dev(offer);
	struct dlend_offer_info info;
	struct dlend_mdev_parent *p;
	int ret;

	p = dlend_offer_zalloc(offer, sizeof(*p));
	if (!p)
		return -ENOMEM;
	dlend_offer_copy(offer, &info, NULL);
	p->offer = offer;
	p->type.sysfs_name = dlend_kind(info.class);
	p->type.pretty_name = dlend_kind_title(info.class);
	p->types[0] = &p->type;
	ret = mdev_register_parent(&p->parent, dev, &dlend_mdev_driver, p->types,
				   ARRAY_SIZE(p->types));
	if (!ret)
		dev_set_drvdata(dev, p);
	return ret;
}

/*
 * The offer is free again: have udev start the mdevs that are defined for it, by the same event
 * that mdev_register_parent() sends.
 */
static void dlend_mdev_freed(struct dlend_offer *offer)
{
	char *env[2] = { "MDEV_STATE=registered" };	/* as mdev_register_parent() has it */

	if (dev_get_drvdata(dlend_offer_dev(offer)))
		kobject_uevent_env(&dlend_offer_dev(offer)->kobj, KOBJ_CHANGE, env);
}

static void dlend_mdev_vanishes(struct dlend_offer *offer)
{
	struct dlend_mdev_parent *p = dev_get_drvdata(dlend_offer_dev(offer));

	if (!p)
		return;
	mdev_unregister_parent(&p->parent);
	dev_set_drvdata(dlend_offer_dev(offer), NULL);
	/* Wait for work of the offer that still uses a removed vdev and its dlend_claim_ops. */
	dlend_offer_flush(offer);
}

static struct dlend_offer_user dlend_mdev_user = {
	.appeared = dlend_mdev_appeared,
	.freed = dlend_mdev_freed,
	.vanishes = dlend_mdev_vanishes,
};

static int __init dlend_mdev_init(void)
{
	int ret = dlend_memory_start();

	if (ret)
		return ret;
	dlend_vdev_debugfs_root = debugfs_create_dir("mdev", dlend_debugfs());
	ret = mdev_register_driver(&dlend_mdev_driver);
	if (ret)
		goto stop;
	dlend_offer_user_register(&dlend_mdev_user);
	return 0;

stop:
	debugfs_remove(dlend_vdev_debugfs_root);
	dlend_memory_stop();
	return ret;
}

/* Does not wait for user space: no VFIO file is open, as each holds the module. */
static void __exit dlend_mdev_exit(void)
{
	dlend_offer_user_unregister(&dlend_mdev_user);
	mdev_unregister_driver(&dlend_mdev_driver);
	debugfs_remove(dlend_vdev_debugfs_root);
	dlend_memory_stop();
}

module_init(dlend_mdev_init);
module_exit(dlend_mdev_exit);
MODULE_DESCRIPTION("dlend: borrowed PCIe devices as mediated devices");
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
DLEND_IMPORT();
