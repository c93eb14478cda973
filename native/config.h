/* SPDX-License-Identifier: GPL-2.0 */
/* Configuration space of attached devices, as the kernel and its drivers see it. */
#ifndef DLEND_NATIVE_CONFIG_H
#define DLEND_NATIVE_CONFIG_H

#include <linux/pci.h>

struct dlend_native_fn;

/**
 * dlend_native_config_init - make the space of a function that was just reset
 * @fn: (in, out) with info; its BARs have no addresses yet
 *
 * Context: process, may sleep. Return: 0; -EINVAL what the lender sent makes no sense; -ENOMEM.
 */
int dlend_native_config_init(struct dlend_native_fn *fn);

/**
 * dlend_native_config_place - a BAR's address on its bus, as firmware would have set it
 * @fn: (in, out) function, before the scan
 * @bar: (in) number
 * @at: (in) bus address
 *
 * Context: any.
 */
void dlend_native_config_place(struct dlend_native_fn *fn, unsigned int bar, u64 at);

/**
 * dlend_native_config_vpd_work - what vpd_work does: have a word of VPD moved, for whoever polls
 * @work: (in) &dlend_native_fn.vpd_work
 *
 * Context: process; waits for the lender, a quarter of a second at most.
 */
void dlend_native_config_vpd_work(struct work_struct *work);

#endif
