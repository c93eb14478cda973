// SPDX-License-Identifier: GPL-2.0
/*
 * Below which host bridge and root bus a function of this host is, and in which peer-to-peer
 * domain: see dlend/root.h.
 *
 * The kernel (drivers/pci/p2pdma.c) knows two ways for peer-to-peer.  PCI_P2PDMA_MAP_BUS_ADDR: two
 * functions below one switch use each other's bus addresses, and the switch routes their requests
 * directly.  Lent devices do not use that way: they issue IOVAs (guest-physical addresses), which
 * the IOMMU translates, so each of their requests goes up to the root complex (docs/paths.md, which
 * also says why ATS is not used).  PCI_P2PDMA_MAP_THRU_HOST_BRIDGE: the host bridge passes requests
 * on.  The kernel allows that for AMD's processors since Zen, and for the host bridges in
 * pci_p2pdma_whitelist.
 *
 * Only the second way counts here.  If two functions have no common upstream bridge,
 * pci_p2pdma_distance() says whether the kernel allows the second way.  So this file asks it about
 * functions that are on root buses themselves.  In a kernel without CONFIG_PCI_P2PDMA (Debian's
 * 6.12) it always says no.
 *
 * This file does not know which functions are lent, or who borrows them.
 */
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/pci-p2pdma.h>
#include <linux/sysfs.h>
#include <dlend/compat.h>
#include <dlend/root.h>
#include "p2p_domains.h"
#include "link.h"

#define DLEND_ROOT_PAYLOAD_MAX	4096	/* largest Max_Payload_Size, PCIe 7.5.3.4 */

/* Parameter p2p_allowed: written under the kernel's lock of parameters, read without a lock. */
static bool dlend_root_allowed;

static DEFINE_MUTEX(dlend_root_lock);		/* guards dlend_root_p2p_domains */
static struct dlend_p2p_domains dlend_root_p2p_domains;

static void dlend_root_notify_user(struct dlend_link_user *user, void *unused)
{
	if (user->allowed_changed)
		user->allowed_changed();
}

static int dlend_root_set_allowed(const char *val, const struct kernel_param *kp)
{
	bool before = dlend_root_allowed;
	int err = param_set_bool(val, kp);

	/* If the module is just being loaded, this calls nobody: no user has registered yet. */
	if (!err && dlend_root_allowed != before)
		dlend_users_call(dlend_root_notify_user, NULL);
	return err;
}

static const struct kernel_param_ops dlend_root_allowed_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = dlend_root_set_allowed,
	.get = param_get_bool,
};
module_param_cb(p2p_allowed, &dlend_root_allowed_ops, &dlend_root_allowed, 0644);
MODULE_PARM_DESC(p2p_allowed,
		 "the administrator says that all below this host's root complex reaches all else there by peer-to-peer, whatever the kernel's list says");

/* The root bus that @pdev is on, or below; no reference is taken. */
static struct pci_bus *dlend_root_bus(struct pci_dev *pdev)
{
	struct pci_bus *bus = pdev->bus;

	while (!pci_is_root_bus(bus))
		bus = bus->parent;
	return bus;
}

/* Identifies a host bridge by its PCI domain and root bus, for dlend_p2p_domains_number(). */
static u32 dlend_root_key(struct pci_bus *bus)
{
	return (u32)pci_domain_nr(bus) << 8 | bus->number;
}

/*
 * The first function on the root bus @key, after @skip others were passed over.  Return: the
 * function, with a reference, or NULL.
 */
static struct pci_dev *dlend_root_function(u32 key, unsigned int skip)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev)
		if (pci_is_root_bus(pdev->bus) && dlend_root_key(pdev->bus) == key && !skip--)
			return pdev;
	return NULL;
}

/*
 * Does the kernel allow peer-to-peer between host bridges @a and @b?  It is asked about two
 * different functions on their root buses.  So for a bridge and itself (@a == @b) a second function
 * on the root bus is needed, and without one the answer is no.  pci_p2pdma_distance() (false: it
 * logs nothing) returns a negative number if peer-to-peer is not allowed.
 */
static bool dlend_root_joined(u32 a, u32 b)
{
	struct pci_dev *from = dlend_root_function(a, 0), *to = dlend_root_function(b, a == b);
	bool joined = from && to && pci_p2pdma_distance(from, &to->dev, false) >= 0;

	pci_dev_put(from);
	pci_dev_put(to);
	return joined;
}

/*
 * If the administrator allows peer-to-peer, all of the host is one peer-to-peer domain, whatever
 * the table says.  Otherwise the table of dlend_p2p_domains_number() has the number, or gets a new
 * one.
 */
static u16 dlend_root_p2p_domain(struct pci_bus *bus)
{
	if (READ_ONCE(dlend_root_allowed))
		return DLEND_P2P_DOMAIN_HOST;
	guard(mutex)(&dlend_root_lock);
	return dlend_p2p_domains_number(&dlend_root_p2p_domains, dlend_root_key(bus),
					dlend_root_joined);
}

/*
 * In a VF's Device Control, Max_Payload_Size is reserved: the PF's value is valid for the VF, too.
 * A function that does not answer reads as all ones, which pcie_get_mps() takes for 16384.  Return:
 * bytes; 0: not known, or no PCIe
 */
static u16 dlend_root_payload(struct pci_dev *pdev)
{
	int bytes = pci_is_pcie(pdev) ? pcie_get_mps(pci_physfn(pdev)) : 0;

	return bytes > DLEND_ROOT_PAYLOAD_MAX ? 0 : bytes;
}

void dlend_root_of(struct pci_dev *pdev, struct dlend_root *root)
{
	struct pci_bus *bus = dlend_root_bus(pdev);

	root->domain = pci_domain_nr(bus);
	root->bus = bus->number;
	root->numa = dev_to_node(&pdev->dev);
	root->payload = dlend_root_payload(pdev);
	root->p2p_domain = dlend_root_p2p_domain(bus);
}
DLEND_EXPORT(dlend_root_of);

/*
 * The link has no reference on the NTB's function, but it has the function's PCI name, and so the
 * function is looked up by that.  The loop has the name "loop", and no function.
 */
struct pci_dev *dlend_root_link_pdev(const struct dlend_link *link)
{
	unsigned int domain, bus, slot, func;

	if (sscanf(dlend_link_name(link), "%x:%x:%x.%x", &domain, &bus, &slot, &func) != 4)
		return NULL;
	return pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, func));
}
DLEND_EXPORT(dlend_root_link_pdev);

/*
 * The NTBs in this host whose links lead to @node: @p2p_domain is theirs, as long as all have the
 * same; else DLEND_P2P_DOMAIN_NONE, because a transfer to @node may go over any of these links.
 */
struct dlend_root_ends {
	u16 node, p2p_domain;
};

/* Callback of dlend_links_each(), @arg: struct dlend_root_ends. */
static int dlend_root_compare_end(struct dlend_link *link, void *arg)
{
	struct pci_dev *pdev = dlend_root_link_pdev(link);
	struct dlend_root_ends *ends = arg;

	if (pdev && dlend_link_peer(link) == ends->node &&
	    dlend_root_p2p_domain(dlend_root_bus(pdev)) != ends->p2p_domain)
		ends->p2p_domain = DLEND_P2P_DOMAIN_NONE;
	pci_dev_put(pdev);
	return 0;
}

bool dlend_root_of_link(struct dlend_link *link, struct dlend_root *root)
{
	struct pci_dev *pdev = dlend_root_link_pdev(link);
	struct dlend_root_ends ends;

	if (!pdev)
		return false;
	dlend_root_of(pdev, root);
	pci_dev_put(pdev);
	ends.node = dlend_link_peer(link);
	ends.p2p_domain = root->p2p_domain;
	dlend_links_each(true, dlend_root_compare_end, &ends);	/* true: those that are up */
	root->p2p_domain = ends.p2p_domain;
	return true;
}
DLEND_EXPORT(dlend_root_of_link);

/* The format of the sysfs attribute root (docs/sysfs.md). */
int dlend_root_emit(char *buf, int at, const struct dlend_root *root)
{
	return sysfs_emit_at(buf, at, "%04x:%02x %d %u %u", root->domain, root->bus, root->numa,
			     root->payload, root->p2p_domain);
}
DLEND_EXPORT(dlend_root_emit);
