// SPDX-License-Identifier: GPL-2.0
/*
 * dlend-lender: the PCI driver of devices that this host lends, and the module.  A function that is
 * bound like this is offered when its whole IOMMU group is bound:
 *
 *	echo dlend-lender > /sys/bus/pci/devices/BDF/driver_override
 *	echo BDF > /sys/bus/pci/drivers_probe
 *
 * "dlend lend" binds it through the attribute lend_prepare instead: then it is offered only when
 * its attribute prepared is written.
 */
#include <linux/debugfs.h>
#include <linux/iommu.h>
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/uuid.h>
#include <linux/xarray.h>

#include <dlend/compat.h>
#include <dlend/names.h>
#include <dlend/root.h>
#include <dlend/version.h>

#include "lender/lender.h"

#define CREATE_TRACE_POINTS
#include "lender/trace.h"

/*
 * Errors and resets of lent functions: the callbacks of struct pci_error_handlers, and their effect
 * on a lease.  The PCI core calls them with the device lock held.
 */

/*
 * Does this function itself have an error, by its AER or Device Status registers?  True also where
 * that is not known.
 */
static bool lend_error_is_own(struct pci_dev *pdev)
{
	u16 at = pci_find_ext_capability(pdev, PCI_EXT_CAP_ID_ERR);
	u32 status, mask;
	u16 devsta;

	/*
	 * Not known: firmware handles errors and has cleared the registers, or the device is not
	 * PCI Express, and a bridge above it has reported the error.
	 */
	if (!pci_find_host_bridge(pdev->bus)->native_aer || !pci_is_pcie(pdev))
		return true;
	if (!at) {
		pcie_capability_read_word(pdev, PCI_EXP_DEVSTA, &devsta);
		return devsta & (PCI_EXP_DEVSTA_NFED | PCI_EXP_DEVSTA_FED);
	}
	pci_read_config_dword(pdev, at + PCI_ERR_UNCOR_STATUS, &status);
	pci_read_config_dword(pdev, at + PCI_ERR_UNCOR_MASK, &mask);
	return status & ~mask;
}

/* Is this bit of COMMAND set in the device? */
static bool lend_error_command(struct lend_fn *fn, u16 bit)
{
	u16 command;

	pci_read_config_word(fn->pdev, PCI_COMMAND, &command);
	return command & bit;
}

/*
 * For an error of one function, the PCI core calls the drivers of all functions below a port.  If
 * the port's link works (the state is not pci_channel_io_frozen, which the caller checks), and this
 * function answers, has no error itself and was not reset, its lease can go on.
 */
static bool lend_error_unharmed(struct lend_fn *fn)
{
	/* A virtual function has no Memory Space Enable: VF MSE in its physical function counts. */
	if (!lend_error_command(fn, PCI_COMMAND_MEMORY) && !fn->pdev->is_virtfn)
		return false;
	return !READ_ONCE(fn->error_until) && !lend_reset_answers(fn) &&
	       !lend_error_is_own(fn->pdev);
}

static pci_ers_result_t lend_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (state == pci_channel_io_frozen || !lend_error_unharmed(fn))
		lend_lease_error(fn);
	if (state == pci_channel_io_perm_failure) {
		/*
		 * The PCI core also reports this if another function has no driver.  So it is not
		 * known that this function is lost: the lender's reset decides.
		 */
		lend_lease_error_over(fn);
		return PCI_ERS_RESULT_DISCONNECT;
	}
	/*
	 * The lender resets the function itself.  If the port's link works, the PCI core need not
	 * reset the other functions below the port because of this one.
	 */
	return state == pci_channel_io_normal ? PCI_ERS_RESULT_CAN_RECOVER :
						PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t lend_error_slot_reset(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);
	/*
	 * A reset of all that is below a port clears Memory Space Enable.  For a virtual function
	 * look at Bus Master Enable: the driver of its physical function may have brought back
	 * everything else by now.  If that bit was clear before the error, this assumes that there
	 * was a reset.
	 */
	u16 lost = pdev->is_virtfn ? PCI_COMMAND_MASTER : PCI_COMMAND_MEMORY;

	/*
	 * The driver of another function has asked for a reset.  Some kernels call this callback
	 * without a reset: then nothing was lost.
	 */
	if (lend_error_command(fn, lost) && lend_error_unharmed(fn))
		return PCI_ERS_RESULT_RECOVERED;
	/* Such a reset was made, and this function has lost its state, without an error itself. */
	if (!READ_ONCE(fn->error_until))
		lend_lease_error(fn);
	/* lend_recover_work() resets it once more, and decides whether it is lent again. */
	pci_load_saved_state(pdev, fn->saved);
	pci_restore_state(pdev);
	pci_clear_master(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static void lend_error_resume(struct pci_dev *pdev)
{
	lend_lease_error_over(pci_get_drvdata(pdev));
}

/*
 * The PCI core calls these two around each reset of a bound function, with the device lock held.
 * A reset through sysfs takes no account of a lease, so the BARs are taken out of the borrower's
 * reach here; they stay mapped for a borrower on this host: see lend_bars_stay_mapped().  When the
 * borrower has asked for the reset, lend_request_reset() has hidden the BARs already, and shows
 * them again only if the reset has succeeded.  When probe() resets a function, the driver data are
 * not set yet: then nothing is to be hidden.
 */
static void lend_error_reset_prepare(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (!fn)
		return;
	guard(mutex)(&fn->group->lock);
	lend_fence_hide(fn, LEND_HIDDEN_CORE);
}

static void lend_error_reset_done(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	if (!fn)
		return;
	guard(mutex)(&fn->group->lock);
	lend_fence_show(fn, LEND_HIDDEN_CORE);
}

static const struct pci_error_handlers lend_error_handlers = {
	.error_detected = lend_error_detected,
	.slot_reset = lend_error_slot_reset,
	.resume = lend_error_resume,
	.reset_prepare = lend_error_reset_prepare,
	.reset_done = lend_error_reset_done,
};

/*
 * /sys/kernel/debug/dlend/lender/: state and counters of every function that is bound, and faults
 * that tests inject.
 */

static struct dentry *lend_debugfs_root;

/* Faults that functions have from the moment at which they are bound. */
static bool lend_debugfs_fail_reset;
static u32 lend_debugfs_slow_reset_ms;

/* Without the group lock, which a request may hold for long: values may be of different moments. */
static int lease_show(struct seq_file *m, void *unused)
{
	struct lend_fn *fn = m->private;
	struct lend_lease lease;

	lend_group_lease(fn->group, &lease);
	seq_printf(m, "state %s\nholder %u\nepoch %u\nusers %llx\nfencing %d\nfailed %d\n",
		   dlend_offer_state_name(lease.state), lease.holder, lease.epoch, lease.users,
		   lease.fencing, lease.failed);
	seq_printf(m, "lent %d\ndirty %d\nbroken %d\n", fn->lent, fn->needs_reset, fn->broken);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(lease);

static int irqs_show(struct seq_file *m, void *unused)
{
	struct lend_fn *fn = m->private;

	guard(mutex)(&fn->group->lock);
	lend_irq_show(fn, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(irqs);

static int dma_show(struct seq_file *m, void *unused)
{
	struct lend_fn *fn = m->private;

	guard(mutex)(&fn->group->lock);
	if (fn->group->domain)
		dlend_domain_show(fn->group->domain, m);
	else
		seq_puts(m, "domain: none\n");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dma);

static int p2p_show(struct seq_file *m, void *unused)
{
	struct lend_fn *fn = m->private;

	guard(mutex)(&fn->group->lock);
	lend_p2p_show(fn, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(p2p);

/* Make the debugfs folder of @fn; lend_driver_remove() removes it. */
static void lend_debugfs_add(struct lend_fn *fn)
{
	fn->debugfs = debugfs_create_dir(pci_name(fn->pdev), lend_debugfs_root);
	debugfs_create_file("lease", 0400, fn->debugfs, fn, &lease_fops);
	debugfs_create_file("irqs", 0400, fn->debugfs, fn, &irqs_fops);
	debugfs_create_file("dma", 0400, fn->debugfs, fn, &dma_fops);
	debugfs_create_file("p2p", 0400, fn->debugfs, fn, &p2p_fops);
	debugfs_create_bool("fail_reset", 0600, fn->debugfs, &fn->fail_reset);
	debugfs_create_bool("hold_stop", 0600, fn->debugfs, &fn->hold_stop);
	debugfs_create_u32("slow_reset_ms", 0600, fn->debugfs, &fn->slow_reset_ms);
	debugfs_create_u32("max_vectors", 0600, fn->debugfs, &fn->max_vectors);
}

/* Make the debugfs folders lender/ and lender/bind/. */
static void lend_debugfs_init(void)
{
	struct dentry *bind;

	lend_debugfs_root = debugfs_create_dir("lender", dlend_debugfs());
	bind = debugfs_create_dir("bind", lend_debugfs_root);
	debugfs_create_bool("fail_reset", 0600, bind, &lend_debugfs_fail_reset);
	debugfs_create_u32("slow_reset_ms", 0600, bind, &lend_debugfs_slow_reset_ms);
}

/*
 * Attributes of a function that is bound to dlend-lender, for administrators:
 * /sys/bus/pci/devices/.../dlend/ (docs/ABI/sysfs-bus-pci-drivers-dlend-lender).
 */

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
	lend_set_state_for(fn->group, &lease, NULL, &holder);
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
	len = sysfs_emit(buf, "iommu_group %d functions %u bound %u\n",
			 iommu_group_id(group->iommu), group->members, group->ready);
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);)
		len += sysfs_emit_at(buf, len, "%s\n", pci_name(w.fn->pdev));
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

/*
 * Is a reclaim over: no node has the group, and the reset is over?  Or is the function being
 * unbound?  The unbind waits until reclaim_store() returns, so reclaim_store() must not wait for
 * the reset then.  No lock.
 */
static bool lend_sysfs_is_back(const struct lend_fn *fn)
{
	enum dlend_offer_state state = READ_ONCE(fn->group->lease.state);

	return READ_ONCE(fn->removing) ||
	       (state != DLEND_OFFER_HELD && state != DLEND_OFFER_RETURNING);
}

/* Ask the borrower to return the group: queue RECLAIM for every function that is lent. */
static void lend_sysfs_send_reclaim(struct lend_group *group)
{
	const struct lend_lease *lease = &group->lease;
	struct dlend_msg msg;

	guard(mutex)(&group->lock);
	for (struct lend_walk w = { group, LEND_ALL }; lend_walk_next(&w);) {
		if (lease->state != DLEND_OFFER_HELD || !w.fn->lent)
			continue;
		dlend_msg_init(&msg, DLEND_MSG_RECLAIM, &w.fn->addr, lease->epoch, 0);
		lend_notify_queue(group->link, &msg);
		trace_dlend_lease(&w.fn->addr, "reclaim", lease->holder, lease->epoch, 0);
	}
}

/* Log whether the borrower or the reset took too long. */
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
	long left;

	if (!force && !sysfs_streq(buf, "1"))
		return -EINVAL;
	if (force)
		lend_lease_revoke(group, "reclaim_force");
	else
		lend_sysfs_send_reclaim(group);

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

/* May be written while the function is lent: the next VMM that opens it gets the new setting. */
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
	lend_notify_fn(fn, LEND_NEWS_OFFER);
	return len;
}
static DEVICE_ATTR_RW(clique);

static ssize_t reserved_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct lend_fn *fn = dev_get_drvdata(dev);
	struct lend_for whom;
	u32 seconds;
	ssize_t len;

	lend_reserve_get(fn->group, &whom, &seconds);
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

/* Parse a node id, or the UUID of a VM's mediated device; neither may be 0.  Return: 0; -EINVAL. */
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

/* Parse "none"; or a node or a VM, and optionally a number of seconds, not 0. */
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

/*
 * Copy one line into @name (DLEND_NODE_NAME_LEN bytes).  Return: 0; -EINVAL it is empty, too long,
 * or has characters that no name may have.
 */
static int lend_sysfs_read_name(char *name, const char *buf)
{
	if (strcspn(buf, "\n") >= DLEND_NODE_NAME_LEN)
		return -EINVAL;
	strscpy(name, buf, strcspn(buf, "\n") + 1);
	/* dlend_name_read() puts "?" for each character that no name may have. */
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

/* Only before the function is offered: by its identity, a borrower's VM recognises the device. */
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

static const struct attribute_group *lend_sysfs_groups[] = { &lend_sysfs_group, NULL };

/*
 * Names of lent functions in the fabric.  The name of a function has its bus, device and function
 * number, unless the admin has chosen others for it ("dlend lend --as", the attribute lend_as).
 */

/* By lend_fabric_key() of a function: bus, device and function number that its name has instead. */
static DEFINE_XARRAY(lend_fabric_addresses);

static unsigned long lend_fabric_key(u32 domain, u16 real)
{
	return (unsigned long)domain << 16 | real;
}

static ssize_t lend_as_show(struct device_driver *drv, char *buf)
{
	unsigned long key;
	ssize_t len = 0;
	void *entry;

	xa_for_each(&lend_fabric_addresses, key, entry) {
		u16 real = key, as = xa_to_value(entry);

		len += sysfs_emit_at(buf, len, "%04lx:%02x:%02x.%x %02x:%02x.%x\n", key >> 16,
				     PCI_BUS_NUM(real), PCI_SLOT(real), PCI_FUNC(real),
				     PCI_BUS_NUM(as), PCI_SLOT(as), PCI_FUNC(as));
	}
	return len;
}

static ssize_t lend_as_store(struct device_driver *drv, const char *buf, size_t len)
{
	unsigned int domain, bus, dev, func, abus, adev, afunc;
	u16 real, as;

	if (sscanf(buf, "%x:%x:%x.%x %x:%x.%x", &domain, &bus, &dev, &func, &abus, &adev,
		   &afunc) != 7 || bus > 255 || dev > 31 || func > 7 || abus > 255 || adev > 31 ||
	    afunc > 7)
		return -EINVAL;
	real = PCI_DEVID(bus, PCI_DEVFN(dev, func));
	as = PCI_DEVID(abus, PCI_DEVFN(adev, afunc));
	return xa_err(xa_store(&lend_fabric_addresses, lend_fabric_key(domain, real),
			       xa_mk_value(as),
			       GFP_KERNEL)) ?: len;
}
static DRIVER_ATTR_RW(lend_as);

/* Make the name of a function.  Return: 0; -ENXIO or -EINVAL, and a message says why. */
static int lend_fabric_address(struct pci_dev *pdev, struct dlend_addr *addr)
{
	u32 domain = pci_domain_nr(pdev->bus);
	void *entry;

	addr->lender = dlend_node_id();
	if (addr->lender == DLEND_NODE_NONE) {
		pci_err(pdev, "not lent: this host has no node id, and other hosts could not name the device; write one to /sys/module/dlend_core/parameters/node_id\n");
		return -ENXIO;
	}
	entry = xa_load(&lend_fabric_addresses, lend_fabric_key(domain, pci_dev_id(pdev)));
	addr->bdf = entry ? xa_to_value(entry) : pci_dev_id(pdev);
	if (entry || !domain)
		return 0;
	pci_err(pdev, "not lent: it is in PCI domain %x, and names in the fabric have room for domain 0 only; choose a free name with \"dlend lend --as BB:DD.F\"\n",
		domain);
	return -EINVAL;
}

/*
 * Functions that are bound now, and offered later.  A reservation, a set and a clique are written
 * into attributes that exist only when the function is bound.  A function that was bound through
 * lend_prepare is not offered before its attribute prepared is written, so that no node can borrow
 * it before these.
 */

/*
 * The prepare lock: guards lend_prepare_dev, the device that lend_prepare_store() is binding.  Held
 * over probe(), so it is taken before a device lock.
 */
static DEFINE_MUTEX(lend_prepare_lock);
static struct device *lend_prepare_dev;

/* Bind a device, as the driver's attribute "bind" does, with lend_fn.preparing set. */
static ssize_t lend_prepare_store(struct device_driver *drv, const char *buf, size_t len)
{
	struct device *dev = bus_find_device_by_name(&pci_bus_type, NULL, buf);
	int ret;

	if (!dev)
		return -ENODEV;
	mutex_lock(&lend_prepare_lock);
	WRITE_ONCE(lend_prepare_dev, dev);
	ret = device_driver_attach(drv, dev);
	WRITE_ONCE(lend_prepare_dev, NULL);
	mutex_unlock(&lend_prepare_lock);
	put_device(dev);
	return ret ?: len;
}
static DRIVER_ATTR_WO(lend_prepare);

static struct attribute *lend_driver_attrs[] = {
	&driver_attr_lend_as.attr, &driver_attr_lend_prepare.attr, NULL
};
ATTRIBUTE_GROUPS(lend_driver);

/* Allocate a function; the caller has the only reference. */
static struct lend_fn *lend_driver_new_fn(struct pci_dev *pdev)
{
	struct lend_fn *fn = kzalloc_obj(*fn);

	if (!fn)
		return NULL;
	kref_init(&fn->ref);
	fn->pdev = pci_dev_get(pdev);
	/*
	 * Compare devices, not threads: the PCI core may run probe() in another thread than
	 * lend_prepare_store() (work_on_cpu()).
	 */
	fn->preparing = READ_ONCE(lend_prepare_dev) == &pdev->dev;
	INIT_LIST_HEAD(&fn->node);
	dlend_owner_init(&fn->memory[0], DLEND_OWNER_RAM);
	dlend_owner_init(&fn->memory[1], DLEND_OWNER_RAM);
	lend_p2p_init(fn);
	/* Injected faults hit the first reset, too. */
	fn->fail_reset = READ_ONCE(lend_debugfs_fail_reset);
	fn->slow_reset_ms = READ_ONCE(lend_debugfs_slow_reset_ms);
	return fn;
}

/* Undo lend_lease_bind(), and free the function's places in the links' tables of requesters. */
static void lend_driver_leave(struct lend_fn *fn)
{
	lend_lease_unbind(fn);
	lend_notify_unbound();
}

/*
 * Bind a function whose checks have passed, and offer it.  @members: functions in the IOMMU group.
 * On error all is undone, and a message says why.  Device lock.
 */
static int lend_driver_offer(struct lend_fn *fn, struct iommu_group *iommu,
			     unsigned int members)
{
	struct pci_dev *pdev = fn->pdev;
	int ret;

	ret = lend_bind_take(fn);
	if (ret)
		return ret;
	lend_bind_interrupts(fn, iommu);
	pci_intx(pdev, 0);
	/* A function without a reset of its own gets its first reset later, from recovery. */
	fn->needs_reset = fn->shared_reset;
	ret = lend_lease_bind(fn, iommu, members);
	if (ret) {
		pci_err(pdev, "not lent (%d): its name %02x:%02x.%x is taken, or there is no memory; choose another with \"dlend lend --as BB:DD.F\"\n",
			ret, fn->addr.bdf >> 8, PCI_SLOT(fn->addr.bdf), PCI_FUNC(fn->addr.bdf));
		goto unclaim;
	}
	/* lend_bind_reset() may find that the function has no reset of its own, after all. */
	if (!fn->shared_reset)
		ret = lend_bind_reset(fn);
	if (!ret && !fn->shared_reset)
		ret = lend_bind_save(fn);
	if (ret)
		goto leave;
	pci_set_drvdata(pdev, fn);
	lend_debugfs_add(fn);
	if (fn->shared_reset)
		lend_recover_later(fn->group, 0);
	else
		lend_group_ready(fn);
	return 0;

leave:
	lend_driver_leave(fn);
unclaim:
	lend_bind_release(fn);
	return ret;
}

static int lend_driver_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct iommu_group *iommu;
	struct lend_iommu_count count;
	char name[DLEND_NAME_LEN];
	struct lend_fn *fn;
	bool shared;
	int ret;

	ret = lend_check_device(pdev, &shared);
	if (ret)
		return ret;
	fn = lend_driver_new_fn(pdev);
	if (!fn)
		return -ENOMEM;
	fn->shared_reset = shared;
	iommu = iommu_group_get(&pdev->dev);
	ret = iommu ? lend_check_group(pdev, iommu, &count) : -ENODEV;
	if (!ret)
		ret = lend_fabric_address(pdev, &fn->addr);
	if (!ret)
		ret = lend_driver_offer(fn, iommu, count.functions);
	iommu_group_put(iommu);
	if (ret) {
		lend_fn_put(fn);
		return ret;
	}
	dlend_addr_name(&fn->addr, name);
	if (fn->shared_reset)
		pci_info(pdev, "it has no reset of its own: offered as %s when all that is reset with it is bound here, too, and was reset\n",
			 name);
	else
		pci_info(pdev, "offered as %s%s\n", name,
			 fn->preparing ? " when it is prepared" : "");
	return 0;
}

static void lend_driver_remove(struct pci_dev *pdev)
{
	struct lend_fn *fn = pci_get_drvdata(pdev);

	/* First, as this fences the function: no guest may reach it while the rest is undone. */
	lend_driver_leave(fn);
	debugfs_remove_recursive(fn->debugfs);
	lend_bind_release(fn);
	lend_fn_put(fn);
}

static struct pci_driver lend_driver = {
	.name = "dlend-lender",
	.id_table = NULL,	/* bound by driver_override only */
	.probe = lend_driver_probe,
	.remove = lend_driver_remove,
	.err_handler = &lend_error_handlers,
	.groups = lend_driver_groups,
	.dev_groups = lend_sysfs_groups,
	.driver_managed_dma = true,
};

/*
 * A function is about to be unbound.  Before it calls remove(), the driver core removes the sysfs
 * attributes, and waits until nobody is in one, like in reclaim_store(): so end that wait.
 */
static void lend_driver_unbinds(struct device *dev)
{
	struct lend_fn *fn = dev_get_drvdata(dev);

	if (dev->driver != &lend_driver.driver || !fn)
		return;
	WRITE_ONCE(fn->removing, true);
	wake_up_all(&fn->group->wait);
}

/*
 * Notifier of the PCI bus.  When any function is added or removed, the number of functions in an
 * IOMMU group may have changed, as those without a driver count, too.
 */
static int lend_driver_bus_event(struct notifier_block *nb, unsigned long action, void *data)
{
	if (action == BUS_NOTIFY_ADD_DEVICE || action == BUS_NOTIFY_REMOVED_DEVICE)
		lend_groups_changed();
	else if (action == BUS_NOTIFY_UNBIND_DRIVER)
		lend_driver_unbinds(data);
	return NOTIFY_DONE;
}

static struct notifier_block lend_driver_bus_notifier = { .notifier_call = lend_driver_bus_event };

/* Undo lend_driver_init(), when no function is bound any more. */
static void lend_driver_end(void)
{
	lend_groups_exit();
	dlend_link_user_unregister(&lend_link_user);
	lend_notify_exit();
	debugfs_remove_recursive(lend_debugfs_root);
	destroy_workqueue(lend_wq);
}

static int __init lend_driver_init(void)
{
	int ret;

	/*
	 * WQ_MEM_RECLAIM: swap or writeback of some host may go to a borrowed disk, and wait until
	 * this workqueue has offered that disk again.
	 */
	lend_wq = alloc_workqueue("dlend_lender", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!lend_wq)
		return -ENOMEM;
	lend_debugfs_init();
	ret = dlend_link_user_register(&lend_link_user);
	if (ret) {
		debugfs_remove_recursive(lend_debugfs_root);
		destroy_workqueue(lend_wq);
		return ret;
	}
	/* Guests on this host borrow over the loopback link, as others do over an NTB. */
	ret = dlend_loop_open() ?:
	      bus_register_notifier(&pci_bus_type, &lend_driver_bus_notifier);
	if (ret)
		goto end;
	ret = pci_register_driver(&lend_driver);
	if (!ret)
		return 0;
	bus_unregister_notifier(&pci_bus_type, &lend_driver_bus_notifier);
end:
	lend_driver_end();
	return ret;
}

static void __exit lend_driver_exit(void)
{
	pci_unregister_driver(&lend_driver);
	bus_unregister_notifier(&pci_bus_type, &lend_driver_bus_notifier);
	lend_driver_end();
	xa_destroy(&lend_fabric_addresses);
}

module_init(lend_driver_init);
module_exit(lend_driver_exit);

MODULE_DESCRIPTION("Lends PCI devices to other hosts over NTB");
MODULE_LICENSE("GPL");
MODULE_VERSION(DLEND_VERSION);
DLEND_IMPORT();
