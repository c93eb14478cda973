/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where functions of this host join its root complex, and which of them reach each other through
 * the root complex.
 *
 * A switch forwards packets from one port to another.  A root complex need not: PCIe does not
 * require that it passes requests on from one of its ports to another.  dlend's peer-to-peer always
 * leads through the root complex (docs/paths.md).  So one of two has to say that this host's root
 * complex does: the kernel, which has a list of host bridges (pci_p2pdma_whitelist), or the
 * administrator of the host (dlend_core.p2p_allowed).
 *
 * Functions that reach each other are in one *peer-to-peer domain*, which has a number.
 *
 * Where a function is (root, NUMA node, Max_Payload_Size) is read anew by each call.  A host bridge
 * gets the number of its peer-to-peer domain by the first call for which the kernel allows
 * peer-to-peer between two functions below it, and keeps it until the module is unloaded.  Writing
 * p2p_allowed changes the answer for all functions: then struct dlend_link_user.allowed_changed is
 * called.
 */
#ifndef DLEND_ROOT_H
#define DLEND_ROOT_H

#include <linux/types.h>

struct dlend_link;
struct pci_dev;

/**
 * struct dlend_root - where a function joins the root complex of its host
 * @domain: PCI domain of the host bridge
 * @bus: root bus of the host bridge
 * @numa: NUMA node; negative: not known
 * @payload: Max_Payload_Size in bytes, as it is set now; 0: not known, or no PCIe
 * @p2p_domain: functions of one host with the same number, not 0, reach each other by peer-to-peer;
 *	0: peer-to-peer with this function is not allowed, or is not known
 */
struct dlend_root {
	u32 domain;
	u8 bus;
	s16 numa;
	u16 payload;
	u16 p2p_domain;
};

/**
 * dlend_root_of - where a function of this host joins the root complex
 * @pdev: (in) function
 * @root: (out) the answer, as it is now
 *
 * The caller has a reference on @pdev. Context: process, may sleep; takes dlend_root_lock.
 */
void dlend_root_of(struct pci_dev *pdev, struct dlend_root *root);

/**
 * dlend_root_link_pdev - the function at this end of a link
 * @link: (in) link
 *
 * Context: process.
 * Return: the function, with a reference that the caller drops by pci_dev_put(); NULL: the link
 * leads from this node to itself, or the function has been removed.
 */
struct pci_dev *dlend_root_link_pdev(const struct dlend_link *link);

/**
 * dlend_root_of_link - where this end of a link joins the root complex
 * @link: (in) link, which is up
 * @root: (out) the answer. If several links lead to the same node, and their NTBs in this host are
 *	not all in one peer-to-peer domain, the peer-to-peer domain is 0: it is not known over which
 *	of these links a transfer goes
 *
 * Context: process, may sleep; takes dlend_root_lock, dlend_links_lock.
 * Return: true; false if this end is no PCI function: @root is not written then.
 */
bool dlend_root_of_link(struct dlend_link *link, struct dlend_root *root);

/**
 * dlend_root_emit - for sysfs: "DDDD:BB NUMA PAYLOAD P2P_DOMAIN"
 * @buf: (out) a page
 * @at: (in) offset in it
 * @root: (in) the place
 *
 * Context: any. Return: bytes written.
 */
int dlend_root_emit(char *buf, int at, const struct dlend_root *root);

#endif
