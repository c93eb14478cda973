/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which of this host's memory attached devices reach, and by which addresses: domains, and the
 * IOMMU driver that gives them to the kernel's dma-iommu and to VFIO.
 */
#ifndef DLEND_NATIVE_DOMAIN_H
#define DLEND_NATIVE_DOMAIN_H

#include <linux/types.h>

struct dlend_native_fn;
struct seq_file;

/**
 * dlend_native_domain_prepare - a domain for the kernel's own DMA, before a function is found
 * @fn: function, in no domain
 * @first: of the same lease, prepared before; or @fn
 *
 * The IOMMU core asks for that domain when it finds the function, and attaches it, which must not
 * fail: so all that can fail is done here.
 * Context: process; waits for the lender. Return: as dlend_native_domain_join().
 */
int dlend_native_domain_prepare(struct dlend_native_fn *fn, struct dlend_native_fn *first);

/**
 * dlend_native_domain_forget - the function is not found
 * @fn: function; that is not prepared, or was found, is fine
 *
 * Before the root bus goes, and with it a domain that others of the lease were found with.
 * Context: process, waits for the lender.
 */
void dlend_native_domain_forget(struct dlend_native_fn *fn);

/**
 * dlend_native_domain_cut - put this host's memory out of a function's reach, at once and for good
 * @fn: (in) function whose lease is over
 *
 * Only if it is alone in its domain: the others would lose it, too, and the lender has stopped
 * this one already. Context: process, may sleep; waits for no peer.
 */
void dlend_native_domain_cut(struct dlend_native_fn *fn);

/**
 * dlend_native_domain_of_vfio - is a program, or a guest, what uses the device?
 * @fn: (in) function
 *
 * Context: process; takes domain_lock.
 */
bool dlend_native_domain_of_vfio(struct dlend_native_fn *fn);

/** dlend_native_domain_show - numbers, for debugfs. Context: process, may sleep. */
void dlend_native_domain_show(struct dlend_native_fn *fn, struct seq_file *m);

/**
 * dlend_native_iommu_init - register the driver
 *
 * Devices of our root buses belong to it from the moment that the PCI core knows of them.
 * Context: process, may sleep. Return: 0 or -errno.
 */
int dlend_native_iommu_init(void);

/** dlend_native_iommu_exit - undo that; no device is attached. Context: process, may sleep. */
void dlend_native_iommu_exit(void);

#endif
