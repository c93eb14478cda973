/* SPDX-License-Identifier: GPL-2.0 */
#ifndef DLEND_KIND_H
#define DLEND_KIND_H

#include <dlend/types.h>

/**
 * dlend_kind - what kind of device a class code says: the mdev type's name after "dlend-"
 * @class: 24-bit class code (PCI Code and ID Assignment Specification, section 1)
 *
 * The same on both sides, so that what the lender calls a device is what a borrower starts.
 * Context: any.
 * Return: a word of a-z, never NULL; "pci" for all that has no word of its own.
 */
const char *dlend_kind(u32 class);

/**
 * dlend_kind_title - the same in words for people: the mdev type's "name"
 * @class: 24-bit class code
 *
 * It is the same for all devices of a kind, on all nodes: KubeVirt selects devices by it.
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

#endif
