/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which of this host's memory attached devices reach, and by which addresses: domains, and the
 * IOMMU driver that gives them to the kernel's dma-iommu and to VFIO.
 */
#ifndef DLEND_NATIVE_DOMAIN_H
#define DLEND_NATIVE_DOMAIN_H

#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/iommu.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/types.h>
#include <linux/xarray.h>
#include <dlend/raw_slot.h>

struct dlend_link;
struct dlend_native_fn;
struct iommu_domain;
struct seq_file;

#define DLEND_NATIVE_PAGE_SIZES	3

/**
 * struct dlend_native_domain - see domain.h
 * @domain: the IOMMU core's
 * @link: of all its devices
 * @change: members come and go, segments come and go. Held while a lender is asked
 * @members: functions that reach it, under @change
 * @prepared_for: functions that are to be found, none of which the IOMMU core has asked it for yet;
 *	only one thread prepares, finds and forgets them
 * @lock: @segments, @cut, @alive. Never held while a lender is asked
 * @alive: of @members, those whose lease is not over
 * @segments: by number: IO address >> @shift
 * @shift: DLEND_NATIVE_ALL: the kernel's own, which has one; 0: not known yet
 * @cut: its segments are out of reach, and so are new ones; for good
 * @session: the link's, as the first of its segments was made; under @change
 * @raw: of the NTB's IOMMU: where all its segments are, and what is mapped, at the same IO addresses
 *	as here; all 0 while @shift is
 * @silent: a lender did not answer when it should have unmapped its segments
 * @pages: of 4 KiB, 2 MiB, 1 GiB that VFIO has mapped in it so far, as the IOMMU core asked for
 *	them; it unmaps them by other sizes
 */
struct dlend_native_domain {
	struct iommu_domain domain;
	struct dlend_link *link;
	struct mutex change;		/* see above */
	struct list_head members, prepared_for;
	struct mutex lock;		/* see above */
	unsigned int alive;
	struct xarray segments;
	struct dlend_raw_domains raw;
	u64 session;
	unsigned int shift;
	bool cut, silent;
	atomic64_t pages[DLEND_NATIVE_PAGE_SIZES];
};

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
