/* SPDX-License-Identifier: GPL-2.0 */
/* Domains: which of this host's memory attached devices reach, and by which addresses. */
#ifndef DLEND_NATIVE_DOMAIN_H
#define DLEND_NATIVE_DOMAIN_H

#include <linux/types.h>

struct device;
struct dlend_native_fn;
struct iommu_domain;
struct seq_file;

/* Pages that may be mapped, bits of their sizes; smaller ones where a segment is smaller. */
#define DLEND_NATIVE_PAGES	((u64)(SZ_4K | SZ_2M | SZ_1G))
/* Devices send interrupts by writing here: no memory can be at these IO addresses. */
#define DLEND_NATIVE_MSI_FIRST	0xfee00000ull
#define DLEND_NATIVE_MSI_SIZE	((u64)SZ_2M)	/* with those of direct interrupts, behind it */

/**
 * dlend_native_domain_alloc - a domain that has nothing mapped (iommu_ops.domain_alloc_paging)
 * @dev: (in) attached device; others may join the domain if they come over the same link
 *
 * What the domain is for is known when the first device is attached: the kernel's own dma-iommu
 * has a range of IO addresses below 4 GiB, VFIO has all addresses.
 * Context: process, may sleep. Return: domain, or NULL.
 */
struct iommu_domain *dlend_native_domain_alloc(struct device *dev);

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
 * dlend_native_domain_join - let a function reach what is mapped in a domain, now and later
 * @domain: from dlend_native_domain_alloc()
 * @fn: function; leaves the domain that it is in, and is there again if this fails, or lost
 *
 * Does not fail for a domain of the kernel's own DMA: a function that cannot reach it is lost.
 * Context: process, under the IOMMU group's mutex; waits for the lender.
 * Return: 0; -EINVAL the domain is for another link; -ENODEV the link is down; -ENOSPC its window
 * has no room; or what the lender answers.
 */
int dlend_native_domain_join(struct iommu_domain *domain, struct dlend_native_fn *fn);

/**
 * dlend_native_domain_leave - the function reaches nothing any more when this returns
 * @fn: function; that is in no domain is fine
 *
 * Context: process, under the IOMMU group's mutex; waits for the lender.
 */
void dlend_native_domain_leave(struct dlend_native_fn *fn);

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

#endif
