/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names that lender and borrower use in sysfs, debugfs and logs: of devices and their kinds, states
 * of an offer, interrupt modes of a device, nodes, and sets of devices.
 */
#ifndef DLEND_NAMES_H
#define DLEND_NAMES_H

#include <dlend/types.h>

/**
 * dlend_kind - what kind of device a class code says: the mdev type's name after "dlend-"
 * @class: 24-bit class code (PCI Code and ID Assignment Specification, section 1)
 *
 * The lender and its borrowers show the same word for a device.
 * Context: any.
 * Return: a word of a-z, never NULL; "pci" for all that has no word of its own.
 */
const char *dlend_kind(u32 class);

/**
 * dlend_kind_title - kind of a device in words for people: the mdev type's "name"
 * @class: 24-bit class code
 *
 * The title is the same for all devices of a kind, on all nodes: KubeVirt selects devices by it.
 * Context: any.
 * Return: a few words, never NULL.
 */
const char *dlend_kind_title(u32 class);

/**
 * dlend_addr_name - what a device is called, in logs, traces and sysfs: "d0002:3b:00.0"
 * @addr: (in) device
 * @name: (out) DLEND_NAME_LEN bytes
 *
 * Context: any.
 * Return: @name.
 */
const char *dlend_addr_name(const struct dlend_addr *addr, char name[DLEND_NAME_LEN]);

/**
 * dlend_offer_state_name - name of a state of an offer: "free", "held" and so on
 * @state: (in) enum dlend_offer_state, or any other number
 *
 * Context: any.
 * Return: a word of a-z, never NULL; "unknown" for a number that is no state.
 */
const char *dlend_offer_state_name(u16 state);

/**
 * dlend_irq_mode_name - name of an interrupt mode: "none", "intx", "msi", "msix"
 * @mode: (in) enum dlend_irq_mode, or any other number
 *
 * Context: any.
 * Return: a word of a-z, never NULL; "unknown" for a number that is no mode.
 */
const char *dlend_irq_mode_name(u32 mode);

/**
 * dlend_name_read - copy the name of a node or of a set, so that it can be shown to people
 * @name: (out) DLEND_NODE_NAME_LEN bytes: letters, digits, ".", "_" and "-", and "?" for all else
 * @from: (in) as many bytes, not trusted; the name ends with the first 0
 *
 * Context: any.
 */
void dlend_name_read(char *name, const char *from);

#endif
