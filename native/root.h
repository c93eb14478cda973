/* SPDX-License-Identifier: GPL-2.0 */
/* Root buses with the functions of a lease: their windows in the NTB's BAR, their configuration. */
#ifndef DLEND_NATIVE_ROOT_H
#define DLEND_NATIVE_ROOT_H

#include <linux/ioport.h>
#include <linux/list.h>
#include <linux/pci.h>

struct dlend_native_fn;
struct dlend_native_root;
struct iommu_group;

/** dlend_native_windows_start - before the first window. Context: process. Return: 0 or -errno. */
int dlend_native_windows_start(void);

/** dlend_native_windows_stop - after the last one. Context: process. */
void dlend_native_windows_stop(void);

/**
 * dlend_native_config_init - make the space of a function that was just reset
 * @fn: (in, out) with info; its BARs have no addresses yet
 *
 * Context: process, may sleep. Return: 0; -EINVAL what the lender sent makes no sense; -ENOMEM.
 */
int dlend_native_config_init(struct dlend_native_fn *fn);

/**
 * dlend_native_config_vpd_work - what vpd_work does: have a word of VPD moved, for whoever polls
 * @work: (in) &dlend_native_fn.vpd_work
 *
 * Context: process; waits for the lender, a quarter of a second at most.
 */
void dlend_native_config_vpd_work(struct work_struct *work);

/**
 * dlend_native_root_create - a root bus that has nothing on it yet
 * @lender: (in) node id
 * @nr: (in) number of the bus: as on the lender, if it is free here
 * @isolated: (in) interrupts of all its functions are isolated
 *
 * Context: process, may sleep. Return: root bus, or ERR_PTR.
 */
struct dlend_native_root *dlend_native_root_create(u16 lender, u8 nr, bool isolated);

/**
 * dlend_native_root_put - place a function on it, before the scan
 * @root: root bus
 * @fn: (in, out) function with a lease and a configuration space
 *
 * It has the device and function number of its lender's, or another if one that is on the bus has
 * that.
 * Context: process, may sleep. Return: 0; -ENOSPC a 32-bit BAR finds no address, or the bus is
 * full; or as dlend_native_window_open(). What was made for it goes with the root bus.
 */
int dlend_native_root_put(struct dlend_native_root *root, struct dlend_native_fn *fn);

/**
 * dlend_native_root_scan - let the PCI core find what is on it, and drivers bind
 * @root: root bus
 * @first: one of its functions; a failure that is not one function's is noted there
 *
 * Context: process, may sleep; takes pci_rescan_remove_lock. Return: 0 or -errno.
 */
int dlend_native_root_scan(struct dlend_native_root *root, struct dlend_native_fn *first);

/**
 * dlend_native_root_remove - take everything off it: drivers let go, as of an unplugged device
 * @root: root bus, scanned or not; gone when this returns
 *
 * Context: process, may sleep; takes pci_rescan_remove_lock.
 */
void dlend_native_root_remove(struct dlend_native_root *root);

/**
 * dlend_native_root_group - the IOMMU group of all its functions: they have one lease
 * @root: root bus
 *
 * Context: process, under the IOMMU core's probe lock. Return: group, with a reference; ERR_PTR.
 */
struct iommu_group *dlend_native_root_group(struct dlend_native_root *root);

#endif
