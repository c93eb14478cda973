// SPDX-License-Identifier: GPL-2.0-only
/* Names of vendors and devices, from the list that lspci uses. */
#include <pci/pci.h>

#include "dlend.h"

static void print_nothing(char *fmt, ...)
{
	(void)fmt;
}

static struct pci_access *pci_access_once(void)
{
	static struct pci_access *acc;

	if (!acc) {
		acc = pci_alloc();
		/*
		 * Names only.  Without pci_init(), which looks for hardware and exits where it
		 * finds none, but which would also have set these.
		 */
		acc->debug = print_nothing;
		acc->warning = print_nothing;
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
