// SPDX-License-Identifier: GPL-2.0
/*
 * Names of lent functions in the fabric.  A function keeps its bus, device and function number,
 * unless the admin has chosen an alias for it ("dlend lend --as", the attribute lend_as).
 *
 * Knows nothing of functions that are bound.
 */
#include <linux/device/driver.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include <dlend/compat.h>
#include <dlend/link.h>

#include "lender/alias.h"

/*
 * struct lend_alias - another name for a device
 * @node: in lend_aliases
 * @domain: PCI domain of the device
 * @real: its bus, device and function number
 * @as: bus, device and function number in its name
 */
struct lend_alias {
	struct list_head node;
	u32 domain;
	u16 real, as;
};

/* The alias lock: guards the list. */
static DEFINE_MUTEX(lend_alias_lock);
static LIST_HEAD(lend_aliases);

/* Alias lock. */
static struct lend_alias *lend_alias_find(u32 domain, u16 real)
{
	struct lend_alias *alias;

	list_for_each_entry(alias, &lend_aliases, node)
		if (alias->domain == domain && alias->real == real)
			return alias;
	return NULL;
}

static ssize_t lend_as_show(struct device_driver *drv, char *buf)
{
	struct lend_alias *alias;
	ssize_t len = 0;

	guard(mutex)(&lend_alias_lock);
	list_for_each_entry(alias, &lend_aliases, node)
		len += sysfs_emit_at(buf, len, "%04x:%02x:%02x.%x %02x:%02x.%x\n", alias->domain,
				     alias->real >> 8, PCI_SLOT(alias->real),
				     PCI_FUNC(alias->real), alias->as >> 8, PCI_SLOT(alias->as),
				     PCI_FUNC(alias->as));
	return len;
}

static ssize_t lend_as_store(struct device_driver *drv, const char *buf, size_t len)
{
	unsigned int domain, bus, dev, func, abus, adev, afunc;
	struct lend_alias *alias;
	int ret = len;

	if (sscanf(buf, "%x:%x:%x.%x %x:%x.%x", &domain, &bus, &dev, &func, &abus, &adev,
		   &afunc) != 7 || bus > 255 || dev > 31 || func > 7 || abus > 255 || adev > 31 ||
	    afunc > 7)
		return -EINVAL;
	mutex_lock(&lend_alias_lock);
	alias = lend_alias_find(domain, PCI_DEVID(bus, PCI_DEVFN(dev, func)));
	if (!alias) {
		alias = kzalloc_obj(*alias);
		if (alias)
			list_add_tail(&alias->node, &lend_aliases);
	}
	if (alias) {
		alias->domain = domain;
		alias->real = PCI_DEVID(bus, PCI_DEVFN(dev, func));
		alias->as = PCI_DEVID(abus, PCI_DEVFN(adev, afunc));
	} else {
		ret = -ENOMEM;
	}
	mutex_unlock(&lend_alias_lock);
	return ret;
}
static DRIVER_ATTR_RW(lend_as);

static struct attribute *lend_alias_attrs[] = { &driver_attr_lend_as.attr, NULL };

const struct attribute_group lend_alias_group = { .attrs = lend_alias_attrs };

int lend_alias_address(struct pci_dev *pdev, struct dlend_addr *addr)
{
	u32 domain = pci_domain_nr(pdev->bus);
	struct lend_alias *alias;
	int ret = 0;

	addr->lender = dlend_node_id();
	if (addr->lender == DLEND_NODE_NONE) {
		pci_err(pdev, "not lent: this host has no node id, and other hosts could not name the device; write one to /sys/module/dlend_core/parameters/node_id\n");
		return -ENXIO;
	}
	addr->bdf = pci_dev_id(pdev);
	mutex_lock(&lend_alias_lock);
	alias = lend_alias_find(domain, addr->bdf);
	if (alias)
		addr->bdf = alias->as;
	else if (domain)
		ret = -EINVAL;
	mutex_unlock(&lend_alias_lock);
	if (ret)
		pci_err(pdev, "not lent: it is in PCI domain %x, and names in the fabric have room for domain 0 only; choose a free name with \"dlend lend --as BB:DD.F\"\n",
			domain);
	return ret;
}

void lend_alias_exit(void)
{
	struct lend_alias *alias, *next;

	list_for_each_entry_safe(alias, next, &lend_aliases, node)
		kfree(alias);
}
