// SPDX-License-Identifier: GPL-2.0
/*
 * Names of lent functions in the fabric.  A function keeps its bus, device and function number,
 * unless the admin has chosen an alias for it ("dlend lend --as", the attribute lend_as).
 *
 * Knows nothing of functions that are bound.
 */
#include <linux/device/driver.h>
#include <linux/pci.h>
#include <linux/sysfs.h>
#include <linux/xarray.h>

#include <dlend/link.h>

#include "lender/alias.h"

/* By lend_alias_key(), the bus, device and function number that each device has in its name. */
static DEFINE_XARRAY(lend_aliases);

static unsigned long lend_alias_key(u32 domain, u16 real)
{
	return (unsigned long)domain << 16 | real;
}

static ssize_t lend_as_show(struct device_driver *drv, char *buf)
{
	unsigned long key;
	ssize_t len = 0;
	void *entry;

	xa_for_each(&lend_aliases, key, entry) {
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
	return xa_err(xa_store(&lend_aliases, lend_alias_key(domain, real), xa_mk_value(as),
			       GFP_KERNEL)) ?: len;
}
static DRIVER_ATTR_RW(lend_as);

static struct attribute *lend_alias_attrs[] = { &driver_attr_lend_as.attr, NULL };

const struct attribute_group lend_alias_group = { .attrs = lend_alias_attrs };

int lend_alias_address(struct pci_dev *pdev, struct dlend_addr *addr)
{
	u32 domain = pci_domain_nr(pdev->bus);
	void *entry;

	addr->lender = dlend_node_id();
	if (addr->lender == DLEND_NODE_NONE) {
		pci_err(pdev, "not lent: this host has no node id, and other hosts could not name the device; write one to /sys/module/dlend_core/parameters/node_id\n");
		return -ENXIO;
	}
	entry = xa_load(&lend_aliases, lend_alias_key(domain, pci_dev_id(pdev)));
	addr->bdf = entry ? xa_to_value(entry) : pci_dev_id(pdev);
	if (entry || !domain)
		return 0;
	pci_err(pdev, "not lent: it is in PCI domain %x, and names in the fabric have room for domain 0 only; choose a free name with \"dlend lend --as BB:DD.F\"\n",
		domain);
	return -EINVAL;
}

void lend_alias_exit(void)
{
	xa_destroy(&lend_aliases);
}
