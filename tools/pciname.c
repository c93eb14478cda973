// SPDX-License-Identifier: GPL-2.0-only
/* libpci: names of vendors and devices, from the list that lspci uses, and configuration space. */
#include <pci/pci.h>

#include "dlend.h"

static void print_nothing(char *fmt, ...)
{
	(void)fmt;
}

struct pci_access *pci_access_once(void)
{
	static struct pci_access *acc;

	if (!acc) {
		acc = pci_alloc();
		/* So that pci_init() does not look for a method, and exit where there is none. */
		acc->method = PCI_ACCESS_SYS_BUS_PCI;
		pci_set_param(acc, "sysfs.path", path("%s/bus/pci", opt.sysfs));
		acc->debug = print_nothing;
		acc->warning = print_nothing;
		pci_init(acc);
	}
	return acc;
}

const char *pci_vendor_name(unsigned int vendor)
{
	static char name[TEXT_MAX];

	return pci_lookup_name(pci_access_once(), name, sizeof(name), PCI_LOOKUP_VENDOR, vendor);
}

const char *pci_device_name(unsigned int vendor, unsigned int device)
{
	static char name[TEXT_MAX];

	return pci_lookup_name(pci_access_once(), name, sizeof(name), PCI_LOOKUP_DEVICE, vendor,
			       device);
}
