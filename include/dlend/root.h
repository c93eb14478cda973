/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where functions of this host join its root complex, and which of them reach each other through
 * that.
 *
 * A switch forwards packets from one port to another.  A root complex need not: the specification
 * does not require that it passes requests on from one of its ports to another.  dlend's
 * peer-to-peer always leads through the root complex (docs/paths.md).  So the kernel, which has a
 * list of host bridges, or the administrator of the host has to vouch that this one does.
 *
 * Functions that reach each other are in one *peer-to-peer domain*.
 */
#ifndef DLEND_ROOT_H
#define DLEND_ROOT_H

#include <linux/types.h>

struct dlend_link;
struct pci_dev;

/**
 * struct dlend_root - where a function joins the root complex of its host
 * @domain, @bus: the host bridge: its PCI domain, and its root bus
 * @numa: NUMA node; negative: not known
 * @payload: Max_Payload_Size in bytes, as it is set now; 0: not known, or no PCIe
 * @p2p_domain: functions of one host with the same number, not 0, reach each other by peer-to-peer;
 *	0: that is not allowed
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
 * Context: process, may sleep; takes dlend_root_lock.
 */
void dlend_root_of(struct pci_dev *pdev, struct dlend_root *root);

/**
 * dlend_root_link_pdev - the function at this end of a link
 * @link: (in) link
 *
 * Context: process.
 * Return: the function, referenced; NULL: the link leads from this node to itself, or the function
 * has gone.
 */
struct pci_dev *dlend_root_link_pdev(const struct dlend_link *link);

/**
 * dlend_root_of_link - where this end of a link joins the root complex
 * @link: (in) link, which is up
 * @root: (out) the answer. If several links lead to the same node, and their ends are not on one
 *	peer-to-peer domain, the peer-to-peer domain is 0: it is not known over which one a transfer
 *	goes
 *
 * Context: process, may sleep; takes dlend_root_lock.
 * Return: false if this end is no PCI function; there is no answer then.
 */
bool dlend_root_of_link(struct dlend_link *link, struct dlend_root *root);

/**
 * dlend_root_emit - for sysfs: "DDDD:BB NUMA PAYLOAD ISLAND"
 * @buf: (out) a page
 * @at: (in) offset in it
 * @root: (in) the place
 *
 * Context: any. Return: bytes written.
 */
int dlend_root_emit(char *buf, int at, const struct dlend_root *root);

#endif
