/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the pages of a raw slot lead for its user, once it was cut: nowhere, as far as a device can
 * tell.  But the IOMMU core and VFIO keep few books of their own: of each page that they unmap they
 * ask where it led.  And a driver goes on mapping until it has noticed that its device is gone.
 */
#ifndef DLEND_LED_H
#define DLEND_LED_H

#include <linux/gfp_types.h>
#include <linux/maple_tree.h>
#include <linux/types.h>
#include <linux/xarray.h>

/**
 * struct dlend_led - the answers
 * @before: what was mapped when the slot was cut, in runs of pages. An entry gives a page's frame:
 *	entry + number of the page - a constant
 * @after: frames of what was mapped since, by number of the page
 */
struct dlend_led {
	struct maple_tree before;
	struct xarray after;
};

/** dlend_led_init - no answers. Context: process. */
void dlend_led_init(struct dlend_led *led);

/** dlend_led_destroy - free its memory. Context: process; it is not in use. */
void dlend_led_destroy(struct dlend_led *led);

/**
 * dlend_led_run - are two pages next to each other in the slot and in memory?
 * @page: (in) number of a page in the slot
 * @phys: (in) where it leads; 0: nowhere
 *
 * Context: any. Return: the same for all pages of a run; NULL for those that lead nowhere.
 */
void *dlend_led_run(unsigned long page, phys_addr_t phys);

/**
 * dlend_led_note - note a run that is mapped
 * @led: (in, out) answers
 * @first, @end: (in) pages of the slot, without @end
 * @run: (in) of dlend_led_run(); NULL: nothing is noted
 *
 * Before the first call of dlend_led_map() and dlend_led_phys(). Context: process, may sleep.
 */
void dlend_led_note(struct dlend_led *led, unsigned long first, unsigned long end, void *run);

/**
 * dlend_led_map - note what is mapped after the cut
 * @led: (in, out) answers
 * @at: (in) where in the slot, bytes
 * @size: (in) bytes
 * @phys: (in) where it would lead
 * @gfp: (in) for the notes
 *
 * Context: any, if @gfp does not sleep. Return: 0; -ENOMEM: nothing is noted.
 */
int dlend_led_map(struct dlend_led *led, u64 at, u64 size, phys_addr_t phys, gfp_t gfp);

/** dlend_led_unmap - forget what dlend_led_map() has noted of @at, @size (bytes). Context: any. */
void dlend_led_unmap(struct dlend_led *led, u64 at, u64 size);

/**
 * dlend_led_phys - where a byte of the slot leads
 * @led: (in) answers
 * @at: (in) where in the slot
 *
 * What was unmapped since the cut may be answered all the same. Context: any.
 * Return: address; 0: nowhere.
 */
phys_addr_t dlend_led_phys(struct dlend_led *led, u64 at);

#endif
